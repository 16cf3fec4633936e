"""Updates of a fit by new labels, predictions for new items, and labels drawn from a fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
import torch
from pyro import poutine
from torch import Tensor

from crowdppl.core.devices import device_or_cpu, seeded
from crowdppl.core.validation import warn
from crowdppl.data.annotations import Annotations, labels_given
from crowdppl.data.blocks import Block
from crowdppl.data.ids import Codebook, native
from crowdppl.data.kinds.space import number_space
from crowdppl.data.split import keep
from crowdppl.errors import ConvergenceWarning, MethodError
from crowdppl.inference.cavities import ItemLabels, RowCounts, refuse
from crowdppl.inference.confusions import MOST_DRAWS, as_draws, number_truth, truth_at, truth_over
from crowdppl.inference.density import trace_sites
from crowdppl.inference.draws import center_of, draws_of, mean_of
from crowdppl.inference.fit import fit_one
from crowdppl.inference.gaussians import base_draws
from crowdppl.inference.loop import iterate
from crowdppl.inference.options import SESSION, FitOptions, Options, options_from
from crowdppl.inference.predict.priors import PosteriorAsPrior, at_prior_mean, nearer_to_prior, with_newcomers
from crowdppl.inference.problem import Problem, build_problem, model_runs
from crowdppl.inference.result import ClassProbabilities, Fit, NumberTruth, Record, SiteResult, Sites, UpdateState
from crowdppl.inference.starts import first_values
from crowdppl.inference.state import State
from crowdppl.inference.vb.coordinate_ascent import VB
from crowdppl.inference.vb.fit import quadrature_draws
from crowdppl.primitives.labels import Labels
from crowdppl.primitives.model import Model, draw_in_order
from crowdppl.primitives.sums import Summing

BLOCK_ITEMS = 1_000_000
"""Items whose prior truths are computed together."""
SMALLEST_COUNT = 1e-6
"""Counts below this are rounding: the site does not depend on the truth."""
PREDICTIVE_DRAWS = 100
REMEDIES = {
    "gold": "give known truths in the annotations, Annotations.from_frame(new, like=posterior.data, gold=...)",
    "inference": "an update is by vb; for another engine, fit to all labels together",
    "settings": "the method stays as it is; for other settings, fit to all labels together",
    "start": "an update starts from the old fit; to start elsewhere, fit to all labels together",
    "calibrate": "only fits can be corrected; fit to all labels together with calibrate=True",
}
"""Arguments of ``fit`` that an update does not take, and what to do instead."""


def options_of(posterior: Fit, **other: Any) -> Options:
    """The options of a fit that still apply to work on its result; some may be others."""
    known = {f.name for f in fields(Options)} - set(SESSION)
    given = {k: v for k, v in posterior.options.items() if k in known}
    return Options(**{**given, "device": device_or_cpu(given.get("device", "cpu")), **other})


def problem_of(posterior: Fit, data: Annotations, options: Options) -> Problem:
    """A fit's model on some data, with the evidence of labels of earlier fits."""
    return build_problem(posterior.model, data, options, evidence=earlier_evidence(posterior, data))


def earlier_evidence(posterior: Fit, data: Annotations) -> Tensor | None:
    """Evidence (N, K) of labels of earlier fits on the items of ``data``, by position; None without an update."""
    return None if posterior.memory is None else torch.from_numpy(posterior.memory.said_of(data))


def is_prior(posterior: Fit, data: Annotations) -> bool:
    """Whether a fit can be the prior of labels: it is by vb, and of no numbers whose items come again.

    Where labels are linked, as ranks are, sites alone tell of them.
    """
    if posterior.inference != "vb" or isinstance(posterior.result.truth, ClassProbabilities):
        return posterior.inference == "vb"
    if not data.items.isin(posterior.data.items).any():
        return True
    with model_runs(posterior.model, posterior.data):
        return bool(problem_of(posterior, posterior.data, options_of(posterior)).reads.linked)


def anew(posterior: Fit, data: Annotations, **options: Any) -> Fit:
    """The method fitted by its engine to other data; options as of ``update``."""
    chosen = _options_after(posterior, options)
    return fit_one(posterior.model, data, posterior.inference, chosen, name=posterior.method)


def _options_after(posterior: Fit, options: Mapping[str, Any]) -> Options:
    """The options of a fit, and others in their place; MethodError for those that an update does not take."""
    if options.get("checkpoint") is not None:
        raise MethodError("checkpoint is for fits in which a network learns; leave it out of an update")
    for name in sorted(REMEDIES.keys() & options.keys()):
        raise MethodError(f"update takes no {name}=: {REMEDIES[name]}")
    return options_from(cast(FitOptions, {**vars(options_of(posterior)), **options}))


def update(posterior: Fit, data: Annotations, forget: float = 0.0, **options: Any) -> Fit:
    """The posterior after more labels: vb on the new labels alone, with the old posterior as the prior.

    An item that had labels before brings its old evidence along, and counts once. Networks are frozen. The result
    is about the items of ``data``. A part ``forget`` of what shared sites learned is taken back first.

    Raises:
        MethodError: when a site's posterior cannot serve as a prior, or an option is not one of an update.
        DataError: when the model has networks and the items have no features.
    """
    chosen = _options_after(posterior, options)
    posterior = with_newcomers(posterior, data)
    with model_runs(posterior.model, data, chosen.device):
        memory = _update_state(posterior, data, chosen)
        memory = _forgetting(posterior, data, memory, forget) if forget else memory
    evidence = torch.from_numpy(memory.said_of(data))
    model = PosteriorAsPrior(posterior.model, memory.sites)
    found = fit_one(model, data, "vb", chosen, name=posterior.method, evidence=evidence)
    return replace(posterior, data=data, result=found.result, options=found.options, correction=None, memory=memory)


def _update_state(posterior: Fit, data: Annotations, options: Options) -> UpdateState:
    """Priors and evidence from which an update by ``data`` starts.

    What the truths of items that come again counted in shared sites (the prevalence) is subtracted there, so that
    the update counts them once: exactly where a site depends on items through the truth alone; else, as for
    subtypes of a class, in expectation, but never below the model's prior.
    """
    old, memory, more = posterior.data, posterior.memory, data.n_classes > posterior.data.n_classes
    shared = {n: s for n, s in posterior.result.sites.items() if "item" not in s.dims}
    for site in shared.values():
        site.weight(), site.drawn()  # computed now: what is still to be computed would keep all earlier data
    truth = posterior.result.truth
    own = Record(
        old.items,
        truth.probabilities if isinstance(truth, ClassProbabilities) else np.zeros((old.n_items, 0)),
        np.asarray(old.votes().sum(1)) + (0 if memory is None else memory.votes),
        {n: s for n, s in shared.items() if "annotator" not in s.dims},
    )
    without_own = "sweeps" in posterior.result.diagnostics
    returning = _ReturningItems(posterior.model, data, options, without_own)
    evidence, votes, records = np.zeros((data.n_items, data.n_classes)), np.zeros(data.n_items, np.int64), []
    earlier = (own, *(() if memory is None else memory.records))
    for record in () if returning.problem.reads.linked else earlier:  # of linked labels, sites alone tell
        code = Codebook("item", record.items).codes(data.items)
        again = np.flatnonzero(code >= 0)
        if len(again) and (more or record.closed):
            why = "and classes are new since then, of which its labels were not asked"
            raise MethodError(
                f"item {native(data.items[again[0]])!r} of an earlier fit comes again, "
                f"{why if data.n_classes else 'whose number would count twice'}; fit anew to all labels"
            )
        if len(again):
            shares, sites = record.probabilities[code[again]], {**shared, **record.sites}
            evidence[again] = returning.evidence(again, shares, sites, record.counted)
            votes[again] = record.votes[code[again]]
        absent = np.ones(len(record.items), bool)
        absent[code[again]] = False
        if absent.any():
            kept = record.some(absent)
            records.append(kept.close() if more else kept)
    labels = np.zeros(data.n_annotators, np.int64)
    labels[: old.n_annotators] = labels_given(old) + (0 if memory is None else memory.labels)
    return UpdateState(returning.without_counts(shared), data.items, evidence, votes, labels, tuple(records))


def _forgetting(posterior: Fit, data: Annotations, memory: UpdateState, forget: float) -> UpdateState:
    """What an update starts from, with a part of what shared sites learned taken back."""
    records = tuple(replace(x, counted=x.counted * (1 - forget)) for x in memory.records)
    return replace(memory, sites=nearer_to_prior(posterior, data, memory.sites, forget), records=records)


@dataclass
class _ReturningItems:
    """Items of earlier fits that come again: the evidence of their labels, and their counts in shared sites.

    Attributes:
        without_own: whether the fit weighed an item by parameters without its own counts.
        counts, priors: by shared site, what truths of returning items counted, and the model's own prior.
    """

    model: Model
    data: Annotations
    options: Options
    without_own: bool
    counts: dict[str, np.ndarray] = field(default_factory=dict)
    priors: dict[str, np.ndarray] = field(default_factory=dict)

    @cached_property
    def problem(self) -> Problem:
        """The items without labels."""
        unlabelled = keep(self.data.with_gold(None), np.zeros(self.data.n_labels, bool))
        return build_problem(self.model, unlabelled, self.options)

    def evidence(self, items: np.ndarray, shares: np.ndarray, sites: Sites, counted: float) -> np.ndarray:
        """Log-potentials (n, K) of some items' labels; their truths' counts are added to ``counts``.

        ``shares`` are the probabilities of their truths, (n, K), ``sites`` those of the fit that found them, and
        ``counted`` the part of their counts that sites still hold.
        """
        whole, out = self.problem.whole(), np.empty_like(shares)
        position = np.argsort(self.data.order)
        by_position = np.argsort(position[items])
        for at in np.array_split(by_position, -(-len(items) // BLOCK_ITEMS)):
            out[at] = self._of_items(whole, position[items[at]], shares[at], sites, counted)
        return out

    def _of_items(
        self, whole: Block, at: np.ndarray, shares: np.ndarray, sites: Sites, counted: float
    ) -> np.ndarray:
        """``evidence`` of items at some positions."""
        block = whole.subset(at, 1.0)
        problem, truth = self.problem, str(self.problem.truth)
        names = [n for n, s in problem.sites.items() if not s.local]
        density = problem.density()
        values = center_of(problem, sites, names)
        local = [n for n in problem.sites if n not in names]
        if local:
            stream = self.options.generator(2, 0)
            first = first_values(problem.model, block, local, {}, stream)
            values |= {n: problem.sites[n].statistic(x) for n, x in first.items()}
        prior = density(block, values, marginals=(truth,)).marginals[truth].double().clamp(min=1e-30).log()
        own = torch.as_tensor(shares).to(prior)
        said = own.clamp(min=1e-30).log()
        found = density(block, values, gradient=names, tilt={truth: said.t() - prior})
        for name, x in found.gradient.items():
            self._count(sites[name], counted * x.double(), found.sites[name].fn)
        if not self.without_own:
            return np.asarray((said - prior.t()).cpu().numpy())
        refuse(problem)
        stored = {s.name: sites[s.name].parameter for s in problem.of_kind("conjugate")}
        rows = {name: RowCounts.of(torch.from_numpy(x).to(prior)) for name, x in stored.items()}
        return np.asarray(
            (said - ItemLabels.of(problem, values).of_truth(rows, -own, torch.from_numpy(at))).cpu().numpy()
        )

    def _count(self, stored: SiteResult, counts: Tensor, prior: Any) -> None:
        """Adds counts of one shared site; refuses one that is not conjugate."""
        if not bool((counts.abs() > SMALLEST_COUNT).any()):
            return
        if stored.conjugate is None or not stored.conjugate.counts:
            raise MethodError(
                f"items of this fit come again, and site {stored.name!r}, which is not conjugate, would count "
                "their truths twice; update with labels of other items, or fit to all labels together"
            )
        shape = stored.parameter.shape
        self.counts[stored.name] = self.counts.get(stored.name, 0) + counts.reshape(shape).cpu().numpy()
        self.priors[stored.name] = stored.conjugate.natural(prior).reshape(shape).detach().cpu().numpy()

    def without_counts(self, sites: Mapping[str, SiteResult]) -> Sites:
        """The sites less ``counts``."""
        out = dict(sites)
        for name, counts in self.counts.items():
            c = sites[name].parameter
            out[name] = sites[name].with_parameter(np.maximum(c - counts, np.minimum(c, self.priors[name])))
        return out


def predict(posterior: Fit, data: Annotations, *, as_fitted: bool = False) -> np.ndarray | NumberTruth:
    """Truths of the items of ``data``, in its codebook order; shared sites stay fixed.

    Probabilities (N, K) of classes; numbers each with a posterior of its own. By vb, rows of shares count by their
    means: of an item that the fit has not seen, rows are independent under mean field, and an annotator's one label
    reads one of them. In methods with sites of single items, and where ``as_fitted`` and the fit's own items do,
    they count by expected logarithms, which corrections correct.

    Sites of single items (a difficulty) are fitted to the new items. Annotators and classes that the fit does not
    have are at the mean of their prior.

    Raises:
        MethodError: when the model does not take what is new.
        KeyboardInterrupt: at Ctrl-C while they are.
    """
    options, grown = options_of(posterior), with_newcomers(posterior, data)
    with model_runs(posterior.model, data, options.device):
        problem = build_problem(posterior.model, data, options)
        stored = grown.result.sites
        known = partial(at_prior_mean, problem, posterior.result.sites, stored)
        shared = [n for n, s in problem.sites.items() if not s.local]
        # Draws of prior parameters would only add noise: given the sites below them, labels do not depend on them.
        independent = all(stored[n].independent for n in shared if problem.sites[n].kind != "hyper")
        if len(shared) < len(problem.sites):
            values, chains = _with_local_sites(problem, posterior, known(center_of(problem, stored, shared)))
        elif independent:
            rows = [n for n in shared if (x := stored[n].conjugate) is not None and x.counts]
            logs = as_fitted and problem.telling is problem and "sweeps" not in posterior.result.diagnostics
            values = known(center_of(problem, stored, shared) | ({} if logs else mean_of(problem, stored, rows)))
            chains = None
        else:
            values = known(draws_of(problem, stored, data.order, PREDICTIVE_DRAWS, options.generator(9)))
            chains = PREDICTIVE_DRAWS
            if problem.truth is not None:
                return truth_over(problem, values, data.order)[0]
        if problem.truth is None:
            numbers = number_truth(problem, as_draws(values, chains), data.order)
            if all(stored[n].drawn() is None for n in shared):
                return numbers
            draws = known(draws_of(problem, stored, data.order, MOST_DRAWS, options.generator(8)))
            return replace(numbers, spread=number_truth(problem, draws, data.order).spread)
        return truth_at(problem, values, chains, data.order)


def _with_local_sites(
    problem: Problem, posterior: Fit, fixed: dict[str, Tensor]
) -> tuple[dict[str, Tensor], int | None]:
    """Values of all sites, and their chains, after sites of single items were fitted and all others kept fixed."""
    options = problem.options
    local = {n: s for n, s in problem.sites.items() if s.local}
    first = problem.first_values(options.generator(2, 0))
    loc = {n: s.transform.inv(first[n].double()).contiguous() for n, s in local.items()}
    log_scale, noise = dict[str, Tensor](), dict[str, Tensor]()
    if any(posterior.result.sites[n].family != "point" for n in local):
        particles = quadrature_draws(problem)
        log_scale, noise = base_draws(local, loc, problem.signatures, options.seed, particles)
    state = State(loc=loc, log_scale=log_scale, noise=noise, fixed=fixed)
    steps = options.max_iterations or 1000
    quiet, step = replace(options, callback=None), partial(VB.step, problem)
    state, progress = iterate(step, state, quiet, steps=steps, tolerance=problem.tolerance)
    if progress.interrupted:
        raise KeyboardInterrupt
    if not progress.converged:
        warn(
            f"{posterior.method} did not converge on {', '.join(local)} of the items after {steps} iterations, so "
            "that their probabilities may be off; fit with a higher max_iterations or tolerance",
            ConvergenceWarning,
        )
    found = VB.at(problem, state)
    return found.values(), found.full_pass.density.chains


def draw_labels(posterior: Fit, n: int, seed: int, kind: str) -> np.ndarray:
    """Answer codes (n, S), or numbers, for the posterior's own design, labels in the order of its blocks.

    "posterior" keeps drawn parameters and each item's drawn truth (and other discrete latents), and draws the
    labels anew; "prior" draws everything from the model, gold apart. Truths that are numbers are those around
    which labels lie, without errors that labels of an item share.

    Raises:
        MethodError: when labels do not heed drawn truths that are numbers.
    """
    options = options_of(posterior, seed=seed, device="cpu")
    data = posterior.data
    with model_runs(posterior.model, data), seeded(seed):
        if kind == "prior":
            problem = build_problem(posterior.model, data, options)
            return np.stack([_replicate(problem, data, {}, d) for d in range(n)])
        problem = problem_of(posterior, data, options)
        draws = draws_of(problem, posterior.result.sites, data.order, n, options.generator(10))
        return np.stack([_replicate(problem, data, {k: x[d] for k, x in draws.items()}, d) for d in range(n)])


def _replicate(problem: Problem, data: Annotations, values: dict[str, Tensor], number: int) -> np.ndarray:
    """Answer codes, or numbers, (S,) of one drawn data set."""
    shaped = {n: x.reshape(problem.sites[n].statistic_shape(problem.n_items)) for n, x in values.items()}
    full_pass = problem.full_pass()
    density, known, truths = full_pass.density, [], []
    # Labels that are linked, such as ranks, depend on no truth.
    integral = [problem.integral] if problem.integral and shaped and not problem.reads.linked else []
    for index, block in enumerate(problem.blocks):
        local = full_pass.in_block(shaped, block)
        given = {n: problem.sites[n].value(x) for n, x in local.items()}
        if shaped:
            how = Summing("draw", problem.options.generator(11, number, index))
            found = density(block, local, marginals=[*_enumerated_sites(problem, block), *integral], how=how)
            moments = [found.marginals.pop(n).double().numpy() for n in integral]
            for x in moments:
                mean, sd = number_space(block.space).estimate(*x)
                truths.append(torch.from_numpy(problem.space.of_modelled(mean + problem.origin, 0 * sd)[0]))
            given |= {n: x.argmax(0) for n, x in found.marginals.items()}
        known.append(given)

    def labels(blocks: list[Block]) -> list[Tensor]:
        out = []
        golds: Sequence[Tensor | None] = truths or [block.gold for block in blocks]
        for block, given, gold in zip(blocks, known, golds, strict=True):
            design = replace(block, has_labels=False, gold=gold)
            trace = poutine.trace(poutine.condition(problem.model.model, data=given)).get_trace(design)
            drawn = next(x for x in trace_sites(trace).values() if isinstance(x.fn, Labels))
            if truths and (gold is None or not torch.equal(drawn.fn.drawn, gold)):
                raise MethodError(
                    f"labels of {type(problem.model).__name__} are drawn at truths of their own, not at those of "
                    "the fit; let draw() of its labels take known truths by where_known"
                )
            out.append(drawn.value)
        return out

    drawn = torch.cat(draw_in_order(problem.model, data, problem.blocks, labels))
    return np.asarray((drawn.long() % data.n_answers if data.n_classes else drawn).cpu().numpy())


def _enumerated_sites(problem: Problem, block: Block) -> list[str]:
    model = poutine.enum(problem.model.model, first_available_dim=-1 - problem.plates)
    trace = poutine.trace(model).get_trace(block)
    return [n for n, x in trace_sites(trace).items() if x.enum_dim is not None]
