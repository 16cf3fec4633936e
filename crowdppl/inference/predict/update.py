"""Updates of a fit by new labels: options, priors and starts taken from the earlier fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from pyro import poutine
from torch import Tensor

from crowdppl.core.devices import device_or_cpu, seeded
from crowdppl.core.validation import warn
from crowdppl.data.annotations import Annotations, labels_given
from crowdppl.data.blocks import Block
from crowdppl.data.ids import Codebook
from crowdppl.data.split import keep
from crowdppl.errors import ConvergenceWarning, MethodError
from crowdppl.inference.density import nodes
from crowdppl.inference.draws import center_of, draws_of
from crowdppl.inference.engines import fit_model
from crowdppl.inference.loop import iterate
from crowdppl.inference.options import SESSION, FitOptions, Options, options_from
from crowdppl.inference.predict.priors import PosteriorAsPrior
from crowdppl.inference.problem import Problem, build_problem, without_validation
from crowdppl.inference.result import Fit, Record, SiteResult, Sites, UpdateState
from crowdppl.inference.sites import DIRICHLET
from crowdppl.inference.starts import typical_values
from crowdppl.inference.tables import truth_at, truth_over
from crowdppl.inference.vb.coordinate_ascent import Ascent, MeanFieldUpdate, State
from crowdppl.inference.vb.fit import quadrature_draws
from crowdppl.inference.vb.gaussians import Gaussians
from crowdppl.primitives.model import Model
from crowdppl.primitives.sums import Summing

ITEMS = 1_000_000
"""Items whose truths are looked at together."""
MOVES = 1e-6
"""Smallest gradient that says that a site has to do with the truth."""


def problem_of(posterior: Fit, data: Annotations, options: Options) -> Problem:
    """A posterior's story and data before an engine, with what labels of earlier fits said of the items."""
    return build_problem(posterior.model, data, options, evidence=earlier_evidence(posterior, data))


def earlier_evidence(posterior: Fit, data: Annotations) -> Tensor | None:
    """What labels of earlier fits said of the items of ``data``, (N, K) by position; None where there were none."""
    return None if posterior.memory is None else torch.from_numpy(posterior.memory.said_of(data))


def update_state(posterior: Fit, data: Annotations, options: Options) -> UpdateState:
    """What an update by ``data`` goes on from.

    An item that comes again brings along what its labels said. What its truth counted in shared sites (the
    prevalence) is taken out of them, so that the update counts it once: exactly where the truth is all that such
    a site knows of items; else, as for subtypes of a class, in expectation, but never below the story's prior.

    Args:
        posterior: the old fit.
        data: the new labels, under its codes.
        options: of the update.

    Raises:
        MethodError: when items come again and a site that is no Dirichlet has learned from their truths.
        DataError: when the story has networks and the items have no features.
    """
    old, memory = posterior.data, posterior.memory
    shared = {n: s for n, s in posterior.result.sites.items() if "item" not in s.dims}
    own = Record(
        old.items,
        posterior.result.probabilities,
        np.asarray(old.votes().sum(1)) + (0 if memory is None else memory.votes),
        {n: s for n, s in shared.items() if "annotator" not in s.dims},
    )
    truths = _Truths(posterior.model, data, options)
    evidence, votes, records = np.zeros((data.n_items, data.n_classes)), np.zeros(data.n_items, np.int64), []
    for record in (own, *(() if memory is None else memory.records)):
        code = Codebook("item", record.items).codes(data.items)
        again = np.flatnonzero(code >= 0)
        if len(again):
            evidence[again] = truths.take_out(again, record.probabilities[code[again]], {**shared, **record.sites})
            votes[again] = record.votes[code[again]]
        left = np.ones(len(record.items), bool)
        left[code[again]] = False
        if left.any():
            records.append(record.some(left))
    labels = labels_given(old) + (0 if memory is None else memory.labels)
    return UpdateState(truths.reduced(shared), data.items, evidence, votes, labels, tuple(records))


@dataclass
class _Truths:
    """Truths of items before their labels, and what they count in shared sites."""

    model: Model
    data: Annotations
    options: Options
    counts: dict[str, np.ndarray] = field(default_factory=dict)
    priors: dict[str, np.ndarray] = field(default_factory=dict)

    @cached_property
    def problem(self) -> Problem:
        """The items without labels."""
        return build_problem(
            self.model, keep(self.data.with_gold(None), np.zeros(self.data.n_labels, bool)), self.options
        )

    def take_out(self, items: np.ndarray, share: np.ndarray, sites: Sites) -> np.ndarray:
        """Notes what truths count; returns what the items' labels said, log-potentials (n, K).

        Args:
            items: codes, (n,).
            share: probabilities of their truths, (n, K).
            sites: of the fit that found them.
        """
        whole, said = self.problem.whole(), np.empty_like(share)
        position = np.empty(self.data.n_items, np.int64)
        position[self.data.order] = np.arange(self.data.n_items)
        turn = np.argsort(position[items])
        for at in np.array_split(turn, -(-len(turn) // ITEMS)):
            said[at] = self._of_block(whole.subset(position[items[at]], 1.0), share[at], sites)
        return said

    def _of_block(self, block: Block, share: np.ndarray, sites: Sites) -> np.ndarray:
        problem, truth = self.problem, str(self.problem.truth)
        names = [n for n, s in problem.sites.items() if not s.local]
        conjugate = problem.conjugate
        values = center_of(problem, sites, names)
        local = [n for n in problem.sites if n not in names]
        stream = self.options.generator(2, 0)
        typical = typical_values(problem.model, block, local, {}, problem.plates, stream) if local else {}
        values |= {n: x.clamp(min=1e-30).log() if n in conjugate else x for n, x in typical.items()}
        density = problem.density()
        before = density(block, values, marginals=(truth,)).marginals[truth].double().clamp(min=1e-30).log()
        said = torch.as_tensor(share).clamp(min=1e-30).log().t().to(before) - before
        found = density(block, values, gradient=names, tilt={truth: said})
        trace = nodes(found.trace)
        for name, x in found.gradient.items():
            self._count(sites[name], x.double(), trace[name]["fn"])
        return np.asarray(said.t().cpu().numpy())

    def _count(self, stored: SiteResult, counts: Tensor, fn: Any) -> None:
        if not bool((counts.abs() > MOVES).any()):
            return
        if stored.family != "dirichlet":
            raise MethodError(
                f"items of this fit come again, and site {stored.name!r}, which is no Dirichlet, would learn from "
                "their truths once more; update with labels of other items, or fit to all labels together"
            )
        shape = stored.arrays["concentration"].shape
        self.counts[stored.name] = self.counts.get(stored.name, 0) + counts.reshape(shape).cpu().numpy()
        prior = DIRICHLET.natural(fn).reshape(shape)
        self.priors[stored.name] = prior.detach().cpu().numpy()

    def reduced(self, sites: Mapping[str, SiteResult]) -> Sites:
        """The sites without what was noted."""
        out = dict(sites)
        for name, counts in self.counts.items():
            c = sites[name].arrays["concentration"]
            left = np.maximum(c - counts, np.minimum(c, self.priors[name]))
            out[name] = replace(sites[name], arrays={**sites[name].arrays, "concentration": left})
        return out


PREDICTIVE_DRAWS = 100
REMEDIES = {
    "gold": "give known truths in the annotations, Annotations.from_frame(new, like=posterior.data, gold=...)",
    "inference": "an update is by vb; for another engine, fit to all labels together",
    "settings": "the method stays as it is; for other settings, fit to all labels together",
    "start": "an update starts from the old fit; to start elsewhere, fit to all labels together",
    "calibrate": "only fits can be corrected; fit to all labels together with calibrate=True",
}
"""Arguments of ``fit`` that an update does not take, and what to do instead."""


def predict(posterior: Fit, data: Annotations) -> np.ndarray:
    """Truth probabilities (N, K) of the items of ``data`` in its codebook order; nothing else is learned.

    Sites of single items (a difficulty) are fitted to the new items with everything else held fixed.

    Raises:
        KeyboardInterrupt: at Ctrl-C while they are.
    """
    options = options_of(posterior)
    with without_validation(options.device):
        problem = build_problem(posterior.model, data, options)
        stored = posterior.result.sites
        shared = [n for n, s in problem.sites.items() if not s.local]
        # Given the sites below them, parameters of priors have no say: draws of them would only add noise.
        families = {stored[n].family for n in shared if problem.sites[n].kind != "hyper"}
        if len(shared) < len(problem.sites):
            out = _with_local(problem, posterior, center_of(problem, stored, shared))
        elif families <= {"point", "dirichlet", "onehot"}:
            out = truth_at(problem, center_of(problem, stored, shared), None)
        else:
            stream = options.generator(9)
            out = truth_over(problem, draws_of(problem, stored, data.order, PREDICTIVE_DRAWS, stream)).mean
    result = np.empty_like(out)
    result[data.order] = out
    return result


def _with_local(problem: Problem, posterior: Fit, fixed: dict[str, Tensor]) -> np.ndarray:
    local = {n: s for n, s in problem.sites.items() if s.local}
    values = problem.typical(problem.options.generator(2, 0))
    normal = posterior.inference != "em" and problem.options.guide == "normal"
    seed = problem.options.seed if normal else None
    free = Gaussians.around(local, values, problem.plates, seed, particles=quadrature_draws(problem))
    state = State({}, {}, free)
    ascent = Ascent(problem.full_pass(free.chains), MeanFieldUpdate(), state, fixed, problem.steady)
    steps = problem.options.max_iterations or 1000
    tolerance = problem.options.tolerance
    tolerance = problem.default_tolerance if tolerance is None else tolerance
    alone = replace(problem.options, callback=None)
    progress = iterate(lambda t: ascent.step(), alone, steps=steps, tolerance=tolerance)
    if progress.interrupted:
        raise KeyboardInterrupt
    if not progress.converged:
        warn(
            f"{posterior.method} had not settled on {', '.join(local)} of the items after {steps} iterations, so "
            "that their probabilities may be off; fit with a higher max_iterations or tolerance",
            ConvergenceWarning,
        )
    return truth_at(problem, ascent.here.values(), free.chains)


def draw_labels(posterior: Fit, n: int, seed: int, kind: str) -> np.ndarray:
    """Answer codes (n, S) for the posterior's own design, labels in the order of its blocks.

    "posterior" keeps drawn parameters and each item's drawn truth (and other discrete latents), and draws the
    labels anew; "prior" draws everything from the story, gold apart.
    """
    options = replace(options_of(posterior), seed=seed, device="cpu")
    data = posterior.data
    with without_validation("cpu"), seeded(seed):
        problem = (
            problem_of(posterior, data, options)
            if kind == "posterior"
            else build_problem(posterior.model, data, options)
        )
        draws = (
            draws_of(problem, posterior.result.sites, data.order, n, options.generator(10))
            if kind == "posterior"
            else {}
        )
        replicas = [_replicate(problem, {k: x[d] for k, x in draws.items()}, d) for d in range(n)]
        return np.stack(replicas)


def _replicate(problem: Problem, values: dict[str, Tensor], number: int) -> np.ndarray:
    shaped = {n: x.reshape(problem.sites[n].shape(problem.n_items)) for n, x in values.items()}
    fold = problem.full_pass()
    out = []
    for index, block in enumerate(problem.blocks):
        cut = fold.cut(shaped, block)
        given = {n: x.exp() if n in problem.conjugate else x for n, x in cut.items()}
        if shaped:
            how = Summing("draw", problem.options.generator(11, number, index))
            found = fold.density(block, cut, marginals=_enumerated(problem, block), how=how)
            given |= {n: x.argmax(0) for n, x in found.marginals.items()}
        design = replace(block, has_labels=False)
        trace = poutine.trace(poutine.condition(problem.program, data=given)).get_trace(design)
        cells = next(x["value"] for x in nodes(trace).values() if type(x.get("fn")).__name__ == "Labels")
        out.append(cells.long() % block.n_answers)
    codes: np.ndarray = torch.cat(out).cpu().numpy()
    return codes


def _enumerated(problem: Problem, block: Block) -> list[str]:
    model = poutine.enum(problem.program, first_available_dim=-1 - problem.plates)
    trace = poutine.trace(model).get_trace(block)
    return [n for n, x in nodes(trace).items() if x["type"] == "sample" and "_enumerate_dim" in x["infer"]]


def update(posterior: Fit, data: Annotations, **options: Any) -> Fit:
    """The posterior after more labels: the old posterior is the prior of vb on the new labels alone.

    Annotators and everything else shared carry what all labels taught; an item that had labels before brings
    its old evidence along, and counts once. Networks stand still. The result speaks of the items of ``data``.

    Raises:
        MethodError: when a site of the story has no posterior that can serve as a prior, the fit is asked to
            keep a checkpoint, or an option is none of ``fit``'s.
        DataError: when the story has networks and the items have no features.
    """
    if options.get("checkpoint") is not None:
        raise MethodError("checkpoint is for fits in which a network learns; leave it out of an update")
    for name in sorted(REMEDIES.keys() & options.keys()):
        raise MethodError(f"update takes no {name}=: {REMEDIES[name]}")
    given: dict[str, Any] = {**vars(options_of(posterior)), **options}
    chosen = options_from(cast(FitOptions, given))
    with without_validation(chosen.device):
        memory = update_state(posterior, data, chosen)
    evidence = torch.from_numpy(memory.said_of(data))
    prior = PosteriorAsPrior(posterior.model, memory.sites)
    found = fit_model(prior, posterior.method, data, "vb", chosen, evidence=evidence)
    return replace(
        posterior,
        data=data,
        result=found.result,
        inference=found.inference,
        options=chosen.kept(),
        correction=None,
        memory=memory,
    )


def options_of(posterior: Fit) -> Options:
    """The options of the fit, as far as they still apply."""
    known = {f.name for f in fields(Options)} - set(SESSION)
    given = {k: v for k, v in posterior.options.items() if k in known}
    build: Callable[..., Options] = Options
    return build(**{**given, "device": device_or_cpu(given.get("device", "cpu"))})
