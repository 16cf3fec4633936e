"""Refits to other labels of the same items, and the probability of bags of labels under a fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.data.blocks import Block, gold_tensor, row_codes, seen_by_all
from crowdppl.data.covariates import CovariateColumns
from crowdppl.data.ragged import RaggedIndex
from crowdppl.errors import MethodError
from crowdppl.inference.confusions import WIDTH
from crowdppl.inference.density import DensityResult, narrowed
from crowdppl.inference.draws import draws_of
from crowdppl.inference.engines import ENGINES
from crowdppl.inference.fit import SelectVolume, fit_one
from crowdppl.inference.options import Options
from crowdppl.inference.predict.priors import PosteriorAsPrior
from crowdppl.inference.predict.update import earlier_evidence, options_of, problem_of
from crowdppl.inference.problem import Earlier, Problem, build_problem, model_runs
from crowdppl.inference.result import Fit
from crowdppl.inference.sites import one_item_sites
from crowdppl.primitives.labels import CategoricalLabels, Labels
from crowdppl.primitives.model import Model, settings_of

DRAWS = 100
"""Posterior draws over which a prediction is averaged."""


@dataclass(frozen=True)
class LabelBags:
    """Bags of labels, each of one item, whose probability is wanted.

    Attributes:
        item: item code of each bag, (B,).
        bag, cell: bag and table cell of each label, (S,).
        covariates: of each label; None where there are none, as of labels that nobody gave.
    """

    item: np.ndarray
    bag: np.ndarray
    cell: np.ndarray
    covariates: CovariateColumns | None = None


@dataclass(frozen=True)
class GivenLabels:
    """The labels of annotations in the order of their frame: item and table cell, (S,), and covariates."""

    item: np.ndarray
    cell: np.ndarray
    covariates: CovariateColumns | None

    @classmethod
    def of(cls, data: Annotations) -> GivenLabels:
        """All labels of some annotations."""
        return cls(*row_codes(data.blocks, data.order), CovariateColumns.of(data.label_columns, "label"))

    def bags(self, item: np.ndarray, bag: np.ndarray, row: np.ndarray) -> LabelBags:
        """Bags of some of these labels, by their rows."""
        return LabelBags(item, bag, self.cell[row], self.covariates and self.covariates.at(torch.from_numpy(row)))


class TemperedError(MethodError):
    """The likelihood is taken to a power, so that differences of scores are not probabilities of labels."""


def refit(
    posterior: Fit, data: Annotations, model: Model | None = None, *, select_volume: SelectVolume | None = None
) -> Fit:
    """Fits again by the engine and options of a fit to other labels of its items, from where it ended.

    em and vb continue the old fit; others start from its truth, svi from the start of its guide. After an update,
    only the update's own labels are replaced: evidence of earlier labels stays. Settings that were found in the old
    labels, such as groups of annotators, are found anew where the ``model`` before them is given.
    """
    options = options_of(posterior)
    takes = ENGINES[posterior.inference].takes_start
    start = _warm_start(posterior, data, options) if takes else None
    earlier = None if _finds_anew(model, posterior.model) else Earlier(posterior.result.sites, data.order)
    again, memory = model or posterior.model, posterior.memory
    if memory is not None:
        again = PosteriorAsPrior(again, memory.sites)
    found = fit_one(
        again,
        data,
        posterior.inference,
        options,
        start,
        name=posterior.method,
        evidence=earlier_evidence(posterior, data),
        earlier=earlier,
        select_volume=select_volume,
    )
    fitted = posterior.model if memory is not None else found.model
    return replace(
        posterior, model=fitted, data=data, inference=found.inference, result=found.result, correction=None
    )


def _finds_anew(model: Model | None, fitted: Model) -> bool:
    """Whether a model's ``setup`` finds what an old fit's sites need not fit; they do with another number."""
    if model is None or not hasattr(model, "setup"):
        return False
    given = settings_of(model)
    return any(x is not given.get(n) and not isinstance(x, (int, float)) for n, x in settings_of(fitted).items())


def _warm_start(posterior: Fit, data: Annotations, options: Options) -> dict[str, Tensor]:
    """The old truth probabilities, kept away from 0, and the old prior parameters."""
    with model_runs(posterior.model, data):
        problem = build_problem(posterior.model, data, replace(options, device="cpu"))
        truth, hyper = problem.truth, {s.name: s.shape(problem.n_items) for s in problem.of_kind("hyper")}
    old = {name: site.mean for name, site in posterior.result.sites.items() if name in hyper}
    start = {name: torch.from_numpy(x) for name, x in old.items() if x.shape == hyper[name]}
    if truth is not None:
        p = np.clip(posterior.result.probabilities[data.order], 1e-3, None)
        start[truth] = torch.from_numpy(p / p.sum(1, keepdims=True))
    return {name: x.to(options.device) for name, x in start.items()}


def predictive(posterior: Fit, bags: LabelBags, n_draws: int = DRAWS) -> np.ndarray:
    """Log-probability of each bag's labels at draws of the posterior: float64 (n draws, B).

    Differences between bags that share labels are meaningful: log p(more | fewer, draw). A point counts as one
    draw; draws of a sampler are taken evenly spread over its chains. TemperedError when the model takes the labels'
    likelihood to a power, or weighs labels. MethodError when the model reads label covariates, and these labels
    have none.
    """
    return next(predictive_each(posterior, [bags], n_draws))


def predictive_each(posterior: Fit, portions: Iterable[LabelBags], n_draws: int) -> Iterator[np.ndarray]:
    """Log-probabilities of one portion of bags after another, as of ``predictive``, all at the same draws."""
    problem, draws = _at_draws(posterior, n_draws)
    for bags in portions:
        with model_runs(
            posterior.model, posterior.data
        ):  # not around the yield: it would change the caller's settings
            block, position, place = _block_of(posterior, problem, bags)
            logs = [
                _at_items(problem, block, values, position).per_item.double().reshape(-1, block.n_items).numpy()
                for values in _chunks(problem, draws, block.n_items)
            ]
        yield np.concatenate(logs)[:, place]


@dataclass(frozen=True)
class StateShares:
    """What labels of an item have in common: a discrete state, given which they are independent.

    Attributes:
        share: p(state | a bag's labels, draw), (rows, C, T).
        row: of each bag, (B,).
        table: p(answer | annotator, item, state, draw), (cells, C, T), of cells that differ.
        cell: of each label asked for, (L,), in the table.
    """

    share: np.ndarray
    row: np.ndarray
    table: np.ndarray
    cell: np.ndarray


def state_shares(posterior: Fit, bags: LabelBags, asked: LabelBags, n_draws: int) -> Iterator[StateShares] | None:
    """For some draws after others, those of ``predictive``, whose errors it raises.

    With the probabilities of labels ``asked`` for, a bag each. None where labels do not follow from one state of
    their item.
    """
    problem, draws = _at_draws(posterior, n_draws)
    with model_runs(posterior.model, posterior.data):
        found = _state_site(problem)
        if found is None or not (found.by_table or _apart(posterior, problem, draws, bags, found)):
            return None
    return _states(posterior, problem, draws, bags, asked, found)


class _StateSite(NamedTuple):
    """Names of the site of items on which labels depend, and of theirs; whether a table of cells tells all."""

    state: str
    labels: str
    by_table: bool


def _states(
    posterior: Fit,
    problem: Problem,
    draws: Mapping[str, Tensor],
    bags: LabelBags,
    asked: LabelBags,
    site: _StateSite,
) -> Iterator[StateShares]:
    with model_runs(posterior.model, posterior.data):
        block, position, place = _block_of(posterior, problem, bags)
        single, at, cell = (block, position, asked.cell) if site.by_table else _block_of(posterior, problem, asked)
    for values in _chunks(problem, draws, max(block.n_items, single.n_items)):
        with model_runs(posterior.model, posterior.data):
            found = _at_items(problem, block, values, position, (site.state,))
            if site.by_table:
                logs = _by_cell(found.sites[site.labels].fn.log_p.double(), _chains(values) or 1)
            else:
                logs = _by_state(problem, single, values, at, site)
        share = found.marginals[site.state].double()
        share = share.reshape(len(share), -1, block.n_items).expand(-1, logs.shape[1], -1)
        shares, table = (x.permute(2, 1, 0).contiguous().numpy() for x in (share, logs.exp()))
        yield StateShares(shares, place, table, cell)


def _by_cell(log_p: Tensor, chains: int) -> Tensor:
    """The log-table (..., A, T, L) as (T, C, cells)."""
    log_p = log_p.reshape(-1, *log_p.shape[-3:]).expand(chains, -1, -1, -1)
    return log_p.permute(2, 0, 1, 3).flatten(2)


def _by_state(
    problem: Problem, block: Block, draws: Mapping[str, Tensor], position: Tensor, site: _StateSite
) -> Tensor:
    """Log-probabilities of all labels of each item of a block given its state, (T, C, n_items)."""
    chains = _chains(draws)
    sites = problem.density(chains).sites(block, _values_of_items(problem, draws, position))
    logs: Tensor = sites[site.labels].fn.log_prob(block.bags.cells).double()
    dim = sites[site.state].enum_dim
    assert dim is not None
    shape = [1] * max(logs.dim(), -dim)
    shape[dim], shape[-1] = len(sites[site.state].value), block.n_items
    if chains is not None:
        shape[-1 - problem.plates] = chains
    return logs.expand(shape).reshape(shape[dim], chains or 1, block.n_items)


def _apart(
    posterior: Fit, problem: Problem, draws: Mapping[str, Tensor], bags: LabelBags, site: _StateSite
) -> bool:
    """Whether labels are as probable given the state one by one as together, tried at one draw."""
    ones = LabelBags(bags.item[bags.bag], np.arange(len(bags.bag)), bags.cell, bags.covariates)
    one = {name: x[:1] for name, x in draws.items()}
    each, together = (_block_of(posterior, problem, x) for x in (ones, bags))
    by_label, by_bag = (
        _by_state(problem, x, one, at, site)[:, 0, torch.from_numpy(row)] for x, at, row in (each, together)
    )
    total = torch.zeros_like(by_bag).index_add(1, torch.from_numpy(bags.bag), by_label)
    return bool(torch.allclose(total, by_bag, rtol=1e-6, atol=1e-6))


def _state_site(problem: Problem) -> _StateSite | None:
    sites = one_item_sites(problem.model, next(b for b in problem.blocks if b.n_items))
    labels = {name: x for name, x in sites.items() if isinstance(x.fn, Labels)}
    if len(labels) != 1 or problem.blocks[0].named_classes is not None:
        return None
    ((name, site),) = labels.items()
    fn = site.fn
    if not isinstance(fn, CategoricalLabels) or fn.within != "item" or fn.groups is not None:
        return None
    state = next((n for n, x in sites.items() if x.value is fn.state and x.enum_dim is not None), None)
    if state is None:
        return None
    logs, dim = narrowed(fn.log_prob(site.value)), sites[state].enum_dim
    if any(n > 1 for place, n in enumerate(logs.shape, -logs.dim()) if place != dim):
        return None  # another site, too
    return _StateSite(state, name, isinstance(fn.log_p, Tensor) and fn.context is None)


def _at_draws(posterior: Fit, n_draws: int) -> tuple[Problem, dict[str, Tensor]]:
    """A fit's model and data, and draws of its sites."""
    options = options_of(posterior, dtype=torch.float64, device="cpu")
    with model_runs(posterior.model, posterior.data):
        problem = problem_of(posterior, posterior.data, options)
        if power := problem.label_power:
            raise TemperedError(
                f"{posterior.method} {power.what}, which gives no probability of labels; {power.remedy} for this"
            )
        families = {site.family for site in posterior.result.sites.values()}
        n = 1 if families <= {"point"} else n_draws
        return problem, draws_of(problem, posterior.result.sites, posterior.data.order, n, options.generator(12))


def _block_of(posterior: Fit, problem: Problem, bags: LabelBags) -> tuple[Block, Tensor, np.ndarray]:
    """Bags as items of a block, the same ones once; positions of the bags' items; the block's item of each bag."""
    if bags.covariates is None and problem.reads.labels:
        raise no_covariates_yet(posterior)
    data, first = posterior.data, problem.blocks[0]
    known = item_values(problem, data, bags.item, known_truths=not problem.reads.linked)  # sites tell all of them
    index = RaggedIndex.of_pairs(bags.bag, bags.cell, len(bags.item), first.bags.n_cells)
    if bags.covariates is not None:  # in the order of the index
        known["label_covariates"] = bags.covariates.at(torch.from_numpy(np.lexsort((bags.cell, bags.bag))))
    block, place = first.with_items(index, **known), torch.arange(len(bags.item))
    few = problem.distinct(block)
    if few is not None:
        block, place = replace(few[0], copies=None), few[1]  # by which shares would be multiplied
    return block, positions(data, bags.item), place.numpy()


def no_covariates_yet(posterior: Fit) -> MethodError:
    """The refusal to speak of labels that nobody gave."""
    return MethodError(
        f"{posterior.method} reads label covariates, which labels that nobody gave do not have; give them in "
        "annotations, and use predict or heldout_score"
    )


def _chunks(problem: Problem, draws: Mapping[str, Tensor], n_items: int) -> Iterator[dict[str, Tensor]]:
    """Some draws after others, so that passes over so many items stay small."""
    step = max(1, min(16, WIDTH // max(1, n_items * problem.states)))
    for start in range(0, _chains(draws) or 1, step):
        yield {name: x[start : start + step] for name, x in draws.items()}


def _chains(draws: Mapping[str, Tensor]) -> int | None:
    """How many draws there are; None for a model without sites."""
    return len(next(iter(draws.values()))) if draws else None


def _at_items(
    problem: Problem, block: Block, draws: Mapping[str, Tensor], position: Tensor, marginals: tuple[str, ...] = ()
) -> DensityResult:
    """A pass over bags; local sites have the value of the bag's item."""
    values = _values_of_items(problem, draws, position)
    found = problem.density(_chains(values))(block, values, marginals=marginals)
    if found.per_item.shape[-1] != block.n_items:
        raise MethodError(
            f"{type(problem.model).__name__} scores {found.per_item.shape[-1]} units for {block.n_items} items; "
            "held-out labels are scored for models whose plate is that of items"
        )
    return found


def _values_of_items(problem: Problem, draws: Mapping[str, Tensor], position: Tensor) -> dict[str, Tensor]:
    values = {}
    for name, x in draws.items():
        site = problem.sites[name]
        values[name] = site.of_items(x, position, lead=x.dim() - len(site.batch_shape) - len(site.event_shape))
    return values


def item_values(problem: Problem, data: Annotations, item: np.ndarray, *, known_truths: bool) -> dict[str, Any]:
    """Fields of a block whose items are those of some codes (B,): what is known of each apart from its labels.

    An item may come several times. Gold and evidence of earlier labels are among them where ``known_truths`` says.
    """
    position, blocks = positions(data, item), problem.blocks
    known: dict[str, Any] = {}
    if known_truths:
        if data.known is not None:
            known["gold"] = gold_tensor(data.known[item])
        evidence = [block.evidence for block in blocks if block.evidence is not None]
        known["evidence"] = torch.cat(evidence)[position] if evidence else None
    seen = seen_by_all(blocks)
    known["seen"] = None if seen is None else {name: x[position] for name, x in seen.items()}
    covariates = CovariateColumns.joined(block.item_covariates for block in blocks)
    known["item_covariates"] = None if covariates is None else covariates.at(position)
    return known


def positions(data: Annotations, item: np.ndarray) -> Tensor:
    """Position of each item code in the order of the blocks."""
    return torch.from_numpy(np.argsort(data.order)[item])
