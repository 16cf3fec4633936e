"""Checks of a model as a Pyro program, without a fit."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count, pairwise, permutations, product
from typing import Any

import numpy as np
import pandas as pd
import pyro
import torch
from pyro import poutine
from pyro.infer import MCMC, NUTS, SVI, Predictive, TraceEnum_ELBO
from pyro.optim import Adam  # type: ignore[attr-defined]
from torch import Tensor

from crowdppl.core.devices import seeded
from crowdppl.data.annotations import Annotations
from crowdppl.data.blocks import Block
from crowdppl.data.kinds.numbers import Numbers
from crowdppl.errors import NumericalError
from crowdppl.inference.confusions import among_named, tables_at
from crowdppl.inference.density import Density, trace_sites
from crowdppl.inference.families import family_of
from crowdppl.inference.options import Options
from crowdppl.inference.problem import build_problem, model_runs
from crowdppl.inference.sites import reads_soft_labels
from crowdppl.inference.svi.svi import mean_field
from crowdppl.primitives.labels import NumberLabels
from crowdppl.primitives.model import Model, card_of, plates_of, set_up, settings_of, truth_of
from crowdppl.simulation.crowd import simulate
from crowdppl.testing.fixtures import Trial, require

STEPS = 15
"""Of Pyro's own SVI."""
Values = dict[str, Tensor]


def card_and_shapes(trial: Trial) -> None:
    """The card lists every latent site, each with its true shape, and the truth has an entry an item."""
    card = card_of(trial.model)
    if card is None:
        raise AssertionError(
            f"{type(trial.model).__name__} has no card; give its class card = crowdppl.primitives.Card(...)"
        )
    data = trial.complete(trial.odd)
    sizes = {"N": data.n_items, "A": data.n_annotators, "K": data.n_classes, "L": data.n_answers}
    found = _sites(set_up(trial.model, data), data.as_block(), 0)
    shapes = {name: tuple(node.value.shape) for name, node in found.items() if not node.observed}
    shapes |= {x.fn.truth: tuple(x.fn.batch_shape) for x in found.values() if isinstance(x.fn, NumberLabels)}
    for name in shapes:
        require(name in card.sites, f"site {name!r} is not on the card; add its shape to sites")
    require(card.truth in shapes, f"the card calls {card.truth!r} the truth, but the model has no such site")
    for name, shape in shapes.items():
        words = card.sites[name].split()
        require(len(words) == len(shape), f"site {name!r} has shape {shape}, its card says {card.sites[name]!r}")
        for word, size in zip(words, shape, strict=True):
            if word.isidentifier():
                sizes.setdefault(word, size)
    for name, shape in shapes.items():
        said = tuple(_size(word, sizes) for word in card.sites[name].split())
        require(said == shape, f"site {name!r} has shape {shape}, its card says {card.sites[name]!r}: {said}")


def runs_with_validation(trial: Trial) -> None:
    """At a draw from the prior the model passes Pyro's checks: drawn and enumerated, on a block and on all data."""
    for data in map(trial.unlinked, (trial.data, trial.odd)):
        model = set_up(trial.model, data)
        for given in (data, data.as_block(), replace(data.as_block(), has_labels=False)):
            with model_runs(model, data, validate=True):
                pyro.set_rng_seed(1)
                poutine.trace(model.model).get_trace(given).compute_log_prob()
                if given.has_labels:  # labels are drawn at one drawn truth, not at all of them
                    enumerated = poutine.enum(model.model, first_available_dim=-1 - plates_of(model))
                    poutine.trace(enumerated).get_trace(given).compute_log_prob()


def simulates(trial: Trial) -> None:
    """The model draws labels for a design, the same ones from the same seed."""
    model, rows = set_up(trial.model, trial.data), trial.rows
    design = trial.design(rows["item"], rows["annotator"])
    drawn, again = simulate(model, design, seed=3), simulate(model, design, seed=3)
    found = drawn.data.frame()
    require(len(found) == len(rows), f"{len(found)} labels were drawn instead of {len(rows)}")
    if trial.of_numbers:
        require(bool(np.isfinite(drawn.truth).all()), f"drawn truths {list(drawn.truth)} are not all finite")
    else:
        require(
            bool(drawn.truth.isin(list(trial.letters)).all()),
            f"drawn truths {list(drawn.truth)} are not all classes",
        )
    require(found.equals(again.data.frame()), "the same seed drew other labels")


def settings_round_trip(trial: Trial) -> None:
    """Settings written as JSON build the same model again, before and after ``setup``."""
    for model in (trial.model, set_up(trial.model, trial.data)):
        said = json.dumps(settings_of(model))
        again = type(model)(**json.loads(said))
        require(json.dumps(settings_of(again)) == said, f"settings {said} came back as {settings_of(again)}")
        blocks = trial.complete(trial.data).as_block()
        one, two = (latent_values(set_up(x, trial.data), blocks, 5) for x in (model, again))
        same = one.keys() == two.keys() and all(torch.equal(one[n], two[n]) for n in one)
        require(same, f"built again from its settings {said}, the model draws something else")


def plain_svi(trial: Trial) -> None:
    """``pyro.infer.SVI`` with the model's guide lowers the loss, and ``Predictive`` draws from the guide."""
    data = trial.unlinked(trial.data)
    model = set_up(trial.model, data)
    guide = getattr(model, "guide", None) or (lambda given: mean_field(model, given))
    with pyro.get_param_store().scope(), torch.random.fork_rng():
        svi = SVI(model.model, guide, Adam({"lr": 0.1}), TraceEnum_ELBO())
        pyro.set_rng_seed(0)
        svi.evaluate_loss(data)
        for parameter in dict(pyro.get_param_store().named_parameters()).values():
            parameter.data.add_(0.7 * torch.randn_like(parameter))  # away from a start that may be the optimum
        before = _mean_loss(svi, data)
        for _ in range(STEPS):
            svi.step(data)
        after = _mean_loss(svi, data)
        require(
            math.isfinite(after) and after < before, f"{STEPS} steps of Adam took the loss from {before} to {after}"
        )
        design = replace(data.as_block(), has_labels=False)
        drawn = Predictive(model.model, guide=guide, num_samples=2)(design)
        # Truths that are numbers are no site.
        name, size = ("label", data.n_labels) if trial.of_numbers else (truth_of(model), data.n_items)
        require(name in drawn, f"Predictive drew {', '.join(drawn)}, but no {name!r}")
        require(drawn[name].shape[-1] == size, f"Predictive drew {name!r} of shape {drawn[name].shape}")


def plain_nuts(trial: Trial) -> None:
    """Pyro's own NUTS runs on the model, unless nuts is refused."""
    if not trial.accepted("nuts"):
        return
    model = set_up(trial.model, trial.data)
    with torch.random.fork_rng():
        pyro.set_rng_seed(0)
        kernel = NUTS(model.model, step_size=0.01, adapt_step_size=False, max_tree_depth=2)
        run = MCMC(kernel, num_samples=2, warmup_steps=1, disable_progbar=True)
        run.run(trial.unlinked(trial.data))
    for name, x in run.get_samples().items():
        require(bool(torch.isfinite(x).all()), f"Pyro's NUTS found values of {name!r} that are not finite")


def _mean_loss(svi: Any, data: Annotations) -> float:
    """The loss averaged over draws that are the same before and after."""
    with torch.random.fork_rng():
        losses = []
        for seed in range(4):
            pyro.set_rng_seed(seed)
            losses.append(svi.evaluate_loss(data))
    return float(np.mean(losses))


def _sites(model: Model, block: Block, seed: int) -> dict[str, Any]:
    """Every site at a draw from the prior."""
    with model_runs(model, block), seeded(seed):
        return trace_sites(poutine.trace(model.model).get_trace(block))


def continuous_sites(model: Model, block: Block, seed: int) -> dict[str, Any]:
    """Latent sites that are not summed out, at a draw from the prior."""
    found = _sites(model, block, seed)
    return {n: x for n, x in found.items() if not x.observed and not x.enumerated}


def latent_values(model: Model, block: Block, seed: int) -> Values:
    """A draw of the continuous sites; Dirichlets away from the corners, where rounding makes zeros."""
    found = continuous_sites(model, block, seed)
    values = {n: x.value.detach() for n, x in found.items()}
    soft = {n for n, x in found.items() if (family := family_of(x.fn)) is not None and family.counts}
    return {n: 0.7 * x + 0.3 / x.shape[-1] if n in soft else x for n, x in values.items()}


def _size(word: str, sizes: Mapping[str, int]) -> int:
    """A word of a shape as a number: sums and products of sizes, such as 1+G or K*M."""
    terms = [[f.strip() for f in term.split("*")] for term in word.split("+")]
    return sum(math.prod(int(f) if f.isdigit() else sizes.get(f, -1) for f in term) for term in terms)


def density_is_pyros(trial: Trial) -> None:
    """The log-likelihood is that of Pyro's enumeration, and its gradient that of finite differences."""
    for data in map(trial.unlinked, (trial.data, trial.odd)):
        same_density(set_up(trial.model, data), data.as_block())


def chains_are_runs(trial: Trial) -> None:
    """Several chains in one pass give what each gives alone: the model indexes from the right."""
    same_chains(set_up(trial.model, trial.data), trial.complete(trial.data).as_block())


def same_density(model: Model, block: Block) -> None:
    """``density_is_pyros`` of a model after ``setup``."""
    with model_runs(model, block):
        at = latent_values(model, block, 2)
        density = Density(model.model, plates_of(model))
        found = density(block, at, gradient=list(at))
        program = poutine.block(poutine.condition(model.model, data=at), hide=list(at))
        nothing: Callable[..., None] = lambda data: None  # noqa: E731
        theirs = -TraceEnum_ELBO(max_plate_nesting=plates_of(model)).loss(program, nothing, block)
        _near(float(found.objective), theirs, "the log-likelihood", "under TraceEnum_ELBO")
        step = {n: 1e-6 * torch.randn(x.shape) * x for n, x in at.items()}
        up, down = ({n: x + sign * step[n] for n, x in at.items()} for sign in (1, -1))
        if getattr(model, "cut", False):  # the gradient of known truths is not that of the density
            block = replace(block, gold=None)
            found = density(block, at, gradient=list(at))
        slope = float(density(block, up).objective - density(block, down).objective) / 2
        mine = sum(float((found.gradient[n] * step[n]).sum()) for n in at)
        _near(mine / 1e-6, slope / 1e-6, "the gradient", "by finite differences", 1e-4)


def same_chains(model: Model, block: Block) -> None:
    """``chains_are_runs`` of a model after ``setup``."""
    plates = plates_of(model)
    with model_runs(model, block):
        sizes = {block.n_classes, block.n_answers, block.n_annotators, block.n_items}
        sizes |= {n for x in latent_values(model, block, 1).values() for n in x.shape}
        chains = next(n for n in count(2) if n not in sizes)  # so that a dimension in a wrong place does not match
        draws = [latent_values(model, block, seed) for seed in range(1, chains + 1)]
        ranks = {n: len(x.fn.batch_shape) for n, x in continuous_sites(model, block, 1).items()}
        wide = {}
        for name, rank in ranks.items():
            x = torch.stack([values[name] for values in draws])
            wide[name] = x.reshape(x.shape[:1] + (1,) * (plates - rank) + x.shape[1:])
        together = Density(model.model, plates, chains)(block, wide, gradient=list(wide))
        for c, values in enumerate(draws):
            alone = Density(model.model, plates)(block, values, gradient=list(values))
            _near(
                float(together.objective[c]),
                float(alone.objective),
                f"chain {c} of {chains} (index from the right with '...': share[..., None, :], not share[None])",
                "alone",
            )
            for name, x in alone.gradient.items():
                off = float((together.gradient[name][c].reshape(x.shape) - x).abs().max())
                require(
                    off <= 1e-8 * (1 + float(x.abs().max())),
                    f"the gradient of {name!r} in chain {c} is off by {off}",
                )


def _near(a: float, b: float, what: str, other: str, tolerance: float = 1e-8) -> None:
    require(abs(a - b) <= tolerance * (1 + abs(b)), f"{what} is {a!r}, {other} {b!r}")


def named_sites_are_tables(trial: Trial) -> None:
    """At a draw from the prior, the sites that the card calls confusion and prevalence are these."""
    card = card_of(trial.model)
    for data in (trial.data, trial.odd) if card is not None else ():
        model = set_up(trial.model, data)
        with model_runs(model, data):
            problem = build_problem(model, data, Options())
            values = latent_values(model, problem.whole(), 4)
            table, share = tables_at(problem, {n: problem.sites[n].statistic(x) for n, x in values.items()}, None)
        for what, found in (("confusion", among_named(table.numpy())), ("prevalence", share.numpy())):
            own = values.get(getattr(card, what))
            if own is not None and tuple(own.shape) == found.shape:
                off = float(np.abs(own.numpy() - found).max())
                require(
                    off <= 1e-6,
                    f"the card calls {getattr(card, what)!r} the {what}, from which it is {off:.3g} off",
                )


def answers_sum_to_one(trial: Trial) -> None:
    """At a draw from the prior, the probabilities of all possible labels of an item sum to one.

    Engines do not notice tables whose rows do not.
    """
    names = [str(name) for name in trial.data.annotators]
    rows = [(f"one {a}", a) for a in names]
    rows += [(f"two {a}", each) for a, b in pairwise(names) for each in (a, b)]
    items, people = zip(*rows, strict=True)
    design = trial.unlinked(trial.design(items, people))
    model, block = set_up(trial.model, trial.data), replace(design.as_block(), uses_power=False)
    second = torch.cat([torch.zeros(1, dtype=torch.bool), block.item[1:] == block.item[:-1]])
    pairs = torch.zeros(block.n_items, dtype=torch.bool).index_fill(0, block.item[second], True)
    totals = torch.zeros(block.n_items, dtype=torch.float64)
    with model_runs(model, block):
        values = latent_values(model, block.answered(block.bags.cells), 4)
        density = Density(model.model, plates_of(model))
        for one, two in product(range(block.n_answers), repeat=2):
            cells = block.annotator * block.n_answers + torch.where(second, two, one)
            try:
                chance = density(block.answered(cells.int()), values).per_item.detach().double().exp()
            except NumericalError:
                return  # an answer is impossible here, and the density is not finite
            totals += torch.where(pairs, chance, chance / block.n_answers)
    worst = float(totals[(totals - 1).abs().argmax()])
    require(
        abs(worst - 1) <= 1e-6,
        f"all answers of an item together have probability {worst:.6g}, not 1; each row of the table that annotate "
        "takes must sum to one over answers",
    )


def soft_labels_are_mixtures(trial: Trial) -> None:
    """At a draw from the prior, a soft label is as probable as the answers that may be meant, by their evidence."""
    people = [str(name) for name in trial.data.annotators]
    design = trial.unlinked(trial.design([f"one {a}" for a in people], people))
    model, block = set_up(trial.model, trial.data), replace(design.as_block(), uses_power=False)
    if not reads_soft_labels(model, block.answered(block.bags.cells)):
        return  # engines refuse them by name
    shares = torch.rand(block.n_labels, block.n_answers, dtype=torch.float64) + 0.1
    with model_runs(model, block):
        values = latent_values(model, block.answered(block.bags.cells), 4)
        density, total = Density(model.model, plates_of(model)), torch.zeros(block.n_items, dtype=torch.float64)
        for answer in range(block.n_answers):
            seen = block.answered((block.annotator * block.n_answers + answer).int())
            try:
                chance = density(seen, values).per_item.detach().double().exp()
            except NumericalError:
                return  # an answer is impossible here, and the density is not finite
            total += shares[:, answer] * chance
        found = density(replace(seen, soft=shares.log()), values).per_item.detach().double().exp()
    worst = float((found / total - 1).abs().max())
    require(
        worst <= 1e-6,
        f"a soft label is {1 + worst:.6g} times as probable as the answers that may be meant by it; read labels by "
        "annotate alone",
    )


def orders_sum_to_one(trial: Trial) -> None:
    """At a draw from the prior, all orders of three objects, by each annotator, have probability one together."""
    rows = [
        (f"{a} {n} | {o}", a, rank)
        for a in map(str, trial.data.annotators)
        for n, order in enumerate(permutations((1, 2, 3)))
        for o, rank in enumerate(order)
    ]
    data = trial.read(pd.DataFrame(rows, columns=["item", "annotator", "label"]))
    model, block = set_up(trial.model, data), data.as_block()
    with model_runs(model, block):
        values = latent_values(model, block, 4)
        log_p = Density(model.model, plates_of(model))(block, values).per_item.detach().double().numpy()
    problem = data.items[data.order].str.split(" | ", regex=False).str[0]
    chance = pd.Series(log_p).groupby(np.array(problem)).sum().map(math.exp)
    for a, total in chance.groupby(chance.index.str[:-2]).sum().items():
        require(abs(total - 1) <= 1e-6, f"all orders by {a} have probability {total:.6g} together, not 1")


def densities_integrate_to_one(trial: Trial) -> None:
    """At a draw from the prior, the density of an annotator's label integrates to one, beside another one."""
    names, kind = [str(name) for name in trial.data.annotators], trial.kind
    assert isinstance(kind, Numbers)
    middle, scale = (
        float(kind.labels.nearest(trial.rows["label"].to_numpy().mean(keepdims=True))[0]),
        float(trial.rows["label"].std()),
    )
    grid, width = kind.labels.grid(middle, scale)
    rows = [(f"given {a}", a, middle) for a in names]
    for a, b in zip(names, [*names[1:], names[0]], strict=True):
        rows += [(f"{a}, {n}", each, y) for n, x in enumerate(grid) for each, y in ((a, middle), (b, x))]
    data = trial.read(pd.DataFrame(rows, columns=["item", "annotator", "label"]))
    model, block = set_up(trial.model, trial.data), data.as_block()
    with model_runs(model, block):
        values = latent_values(model, block, 4)
        log_p = Density(model.model, plates_of(model))(block, values).per_item.detach().double().numpy()
    chance = pd.Series(np.exp(log_p), index=data.items[data.order])
    for a in names:
        total = float(chance[[f"{a}, {n}" for n in range(len(grid))]] @ width / chance[f"given {a}"])
        require(
            abs(total - 1) <= 1e-4, f"all labels together have probability {total:.6g}, not 1, beside one by {a}"
        )
