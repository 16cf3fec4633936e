"""Gibbs sampling: joint draws of discrete sites, then prior parameters, then conjugate sites."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crowdppl.core.collective import reduced
from crowdppl.errors import MethodError
from crowdppl.inference.checkpoint import checkpoint_of
from crowdppl.inference.density import TraceSites
from crowdppl.inference.engine import KEPT, SAMPLING, Engine
from crowdppl.inference.loop import Progress, iterate
from crowdppl.inference.mcmc.chains import relabelled, result_of_chains, truth_shares
from crowdppl.inference.mcmc.hmc import HmcState, Tensors, moved, where
from crowdppl.inference.passes import Total
from crowdppl.inference.problem import Problem
from crowdppl.inference.replay import arrays_of, put_back, with_prefix
from crowdppl.inference.result import FitResult
from crowdppl.inference.sites import per_chain
from crowdppl.inference.starts import votes
from crowdppl.primitives.distributions import bits
from crowdppl.primitives.sums import Summing

MAX_NUMBERS = 50_000_000
"""Numbers that kept draws may hold; longer runs are thinned."""


UNITS = (0.01, 0.05, 0.2, 1.0)
"""Standard deviations of the logarithms of units that are tried, each in turn."""
STEPS = (1.0, 0.3, 0.1)
"""Of shifts that are tried where truths are known, each in turn; 1 is a new draw."""
Placed = tuple[Tensors, Tensor]
"""Statistics, and what labels say of them, (C,), which the next move is compared with."""


@dataclass(frozen=True)
class GibbsState:
    """Where all chains are; chains are a dimension of the model's tables.

    Attributes:
        statistics: statistics of conjugate sites, (C, ..., event).
        onehot: one-hot sites, (C, ..., event).
        hyper: prior parameters and how they move; None without any.
        sweeps: made so far.
        relabelled: bool (C,), chains that were relabelled to the votes.
        linked: of truths that are drawn given each other, by block, ``Summing.linked`` and ``given_others``.
    """

    statistics: Tensors
    onehot: Tensors
    hyper: HmcState | None
    sweeps: Tensor
    relabelled: Tensor
    linked: Tensors = field(default_factory=dict)


def sample(problem: Problem) -> tuple[Tensors, Progress, dict[str, Any]]:
    """Runs warm-up and draws.

    Returns:
        Draws by site, (C, D, ..., event) as the model's chains see them, conjugate sites as statistics; progress;
        the chains that were relabelled to the votes during warm-up.

    Raises:
        MethodError: for a site without an exact update.
    """
    state, options = start(problem), problem.options
    size = sum(x.numel() for x in values(problem, state).values())
    thin = max(1, -(-size * options.draws // MAX_NUMBERS))
    kept: list[Tensors] = []
    shares: list[Any] = []

    def kept_step(state: GibbsState) -> tuple[GibbsState, float]:
        state, value = step(problem, state)
        drawn = int(state.sweeps) - 1 - options.warmup
        if drawn >= 0 and drawn % thin == 0:
            kept.append(values(problem, state))
            shares[:] = _added_shares(problem, state, shares)
        return state, value

    def take(state: GibbsState) -> Tensors:
        return arrays_of(state) | {f"share.{n}": torch.as_tensor(x) for n, x in enumerate(shares)}

    def put(arrays: Tensors, _: int) -> GibbsState:
        found = with_prefix(arrays, "share")
        shares[:] = [int(found[f"{n}"]) if n == 0 else found[f"{n}"] for n in range(len(found))]
        restored: GibbsState = put_back(first, arrays)
        return restored

    first = state
    checkpoint = checkpoint_of(problem, options, "gibbs", take, put, kept, values(problem, first))
    how: Any = {"steps": options.warmup + options.draws, "name": "gibbs", "checkpoint": checkpoint}
    state, progress = iterate(kept_step, first, options, **how)
    kept = kept or [values(problem, state)]  # stopped during warm-up
    draws = {n: torch.stack([x[n] for x in kept], 1) for n in kept[0]}
    more = {"relabelled": torch.nonzero(state.relabelled)[:, 0].tolist()}
    return draws, progress, more | ({"truth": shares} if shares else {})


def _added_shares(problem: Problem, state: GibbsState, sums: list[Any]) -> list[Any]:
    """Number of draws, and sums over them of linked truths' probabilities, their squares and entropies."""
    each = [state.linked.get(f"share.{block.offset}") for block in problem.blocks if block.n_items]
    found = [x for x in each if x is not None]
    if not found:
        return sums
    share = torch.cat(found, -1)
    more = (share.shape[1], share.sum(1), share.square().sum(1), bits(share).sum(0))
    return [a + b for a, b in zip(sums, more, strict=True)] if sums else [*more]


def start(problem: Problem) -> GibbsState:
    """The state from which all chains start: around the votes, moments, and perturbed votes.

    Raises:
        MethodError: for a site without an exact update.
    """
    free = [s.name for s in problem.of_kind("free")]
    if free:
        raise MethodError(
            f"gibbs has no exact update for {', '.join(free)} of {type(problem.model).__name__}: their gradient "
            "changes with their value; use inference='nuts' or 'vb'"
        )
    chains, stream = problem.options.chains, problem.options.generator(5)
    statistics, onehot, at = _first_values(problem, stream)
    hyper = HmcState.of(at, chains, stream.device) if at else None
    none, no_chain = torch.zeros((), dtype=torch.int64), torch.zeros(chains, dtype=torch.bool, device=stream.device)
    state = GibbsState(statistics, onehot, hyper, none, no_chain)
    tilt: Tensors = {}
    if problem.truth is not None:  # the votes, perturbed votes, moments, then perturbed votes
        numbers = (chain if chain != 1 else chains for chain in range(chains))
        shares = [problem.start_shares(number) for number in numbers]
        tilt = {problem.truth: torch.stack([x.log().t() for x in shares if x is not None], 1)}
    state = replace(state, statistics=_statistics_around(problem, state, tilt, stream))
    return with_linked(problem, state)


def with_linked(problem: Problem, state: GibbsState) -> GibbsState:
    """The state with first draws of truths that are drawn given each other, if there are any."""
    if not problem.linked:
        return state
    stream = problem.options.generator(18)
    given: dict[str, Any] = {f"site.{n}": x for n, x in values(problem, state).items()}
    given |= {f"stream.{block.offset}": stream for block in problem.blocks}
    return replace(state, linked=_drawing_pass(problem, given, list(state.statistics))[1])


def values(problem: Problem, state: GibbsState) -> Tensors:
    """Values of all sites in all chains; conjugate ones as statistics."""
    at = {} if state.hyper is None else state.hyper.at
    return {**state.statistics, **state.onehot, **{n: problem.sites[n].transform(x) for n, x in at.items()}}


def step(problem: Problem, state: GibbsState) -> tuple[GibbsState, float]:
    """One sweep of every chain: the next state, and the mean log-likelihood given the parameters of this one.

    A sweep draws one-hot sites from their exact conditionals, then every enumerated site jointly (the pass returns
    the drawn counts), then prior parameters given the counts with the conjugate sites integrated out, then these.
    At a quarter and at the half of the warm-up, chains in another permutation of the classes than the votes are
    relabelled to these first; what is kept is then a run from another start.
    """
    t, options = int(state.sweeps), problem.options
    if t in {options.warmup // 4, options.warmup // 2} - {0}:
        state = relabel(problem, state)
    stream = options.generator(6, t)
    for number, name in enumerate(state.onehot, 1):  # in turn: each is drawn given the current others
        logits = _replay(problem, state, _logits, number, name=name)["logits"]
        state = replace(state, onehot={**state.onehot, name: draw_onehot(logits, stream)})
    found = swept = _replay(problem, state, _sweep, 0, {"draws": stream})
    if (hyper := state.hyper) is not None:
        if t == options.warmup and int(hyper.time):  # from here on, the averaged step sizes
            hyper = replace(hyper, log_step=hyper.average)
        log_density = partial(_hyper_log_density, problem, state, with_prefix(swept, "count"))
        state = replace(state, hyper=moved(hyper, log_density, stream, adapting=t < options.warmup))
        found = _replay(problem, state, _statistics, more={**swept, "draws": stream})
    linked = with_prefix(swept, "linked")
    state = replace(
        state, statistics=with_prefix(found, "statistic"), sweeps=state.sweeps + 1, linked=linked or state.linked
    )
    return state, float(swept["objective"].mean())


def conditionals(problem: Problem, state: GibbsState) -> Tensors:
    """Parameters (C, ..., event) of conjugate sites given all else, the enumerated sites drawn."""
    priors, counts = _given_all_else(problem, state)
    return {n: x + counts[n] for n, x in priors.items()}


def copies(problem: Problem, state: GibbsState, n: int) -> Tensors:
    """n draws by each chain, (C n, ..., event), of conjugate sites given all else, the enumerated sites drawn."""
    priors, counts = ({k: x.repeat_interleave(n, 0) for k, x in y.items()} for y in _given_all_else(problem, state))
    many = replace(problem, options=replace(problem.options, chains=n * problem.options.chains))
    return _draw_statistics(many, priors, counts, problem.options.generator(17, int(state.sweeps)))


def _given_all_else(problem: Problem, state: GibbsState) -> tuple[Tensors, Tensors]:
    """Prior parameters of conjugate sites, and counts, the enumerated sites drawn."""
    given: dict[str, Any] = {f"site.{n}": x for n, x in values(problem, state).items()} | _last(state)
    for block in problem.blocks:
        given[f"stream.{block.offset}"] = problem.options.generator(10, int(state.sweeps), problem.place(block))
    total, _ = _drawing_pass(problem, given, list(state.statistics))
    return _priors(problem, total.trace_sites, state.statistics), dict(total.gradient)


def _first_values(problem: Problem, stream: torch.Generator) -> tuple[Tensors, Tensors, Tensors]:
    """First values: statistics of conjugate sites, one-hot sites, and unconstrained prior parameters."""
    chains, sites = problem.options.chains, problem.sites
    first = problem.first_values(stream).items()
    wide = {n: sites[n].with_plate_dims(x.expand(chains, *x.shape), problem.plates).contiguous() for n, x in first}
    statistics = {s.name: s.statistic(wide[s.name]) for s in problem.of_kind("conjugate")}
    onehot = {s.name: draw_onehot(wide[s.name].log(), stream) for s in problem.of_kind("onehot")}
    at = {}
    for site in problem.of_kind("hyper"):
        u = site.transform.inv(wide[site.name])
        at[site.name] = u + 0.1 * torch.randn(u.shape, generator=stream, dtype=u.dtype, device=u.device)
    return statistics, onehot, at


def _statistics_around(
    problem: Problem, state: GibbsState, tilt: Mapping[str, Tensor], stream: torch.Generator
) -> Tensors:
    """A draw of the conjugate sites given expected counts under tilted truths."""
    if not state.statistics:
        return {}
    full_pass = problem.full_pass(problem.options.chains)
    total = full_pass(values(problem, state), gradient=list(state.statistics), tilt=tilt)
    priors = _priors(problem, total.trace_sites, state.statistics)
    return _draw_statistics(problem, priors, total.gradient, stream)


def _draw_statistics(
    problem: Problem, priors: Tensors, counts: Mapping[str, Tensor], stream: torch.Generator
) -> Tensors:
    """Conjugate sites given their priors and counts."""
    out = {}
    for name, prior in priors.items():
        site = problem.sites[name]
        out[name] = site.conjugate.draw((prior + counts[name]).contiguous(), stream)
        if site.ratios:
            out[name] = site.conjugate.draw_of_scale(out[name], prior.expand(out[name].shape), stream)
    if problem.shifts or problem.powers:
        placed = out, _of_labels(problem, out)
        out, _ = _scaled(problem, _shifted(problem, placed, priors, stream), priors, stream)
    return out


def _of_labels(problem: Problem, statistics: Tensors) -> Tensor:
    """The objective (C,) where known truths tell shifts and units apart; else 0, as labels do not."""
    chains, like = problem.options.chains, next(iter(statistics.values()))
    known = problem.knows_numbers
    return problem.full_pass(chains)(statistics).objective if known else like.new_zeros(chains)


def _shifted(problem: Problem, at: Placed, priors: Tensors, stream: torch.Generator) -> Placed:
    """All sites that have a shift moved along it, by a draw from their priors: labels do not tell how far.

    Liu & Wu (1999), Parameter expansion for data augmentation, JASA 94. Known truths tell: by them, draws are
    accepted or not, and shorter steps follow.
    """
    for step in (STEPS if problem.knows_numbers else STEPS[:1]) if problem.shifts else ():
        new, none = _shifted_by(problem, at[0], priors, step, stream), torch.zeros(problem.options.chains)
        at = _accepted(problem, new, at, none, stream) if problem.knows_numbers else (new, at[1])
    return at


def _accepted(problem: Problem, new: Tensors, at: Placed, gain: Tensor, stream: torch.Generator) -> Placed:
    """The chains' new statistics or old ones by Metropolis's rule; ``gain``, (C,), is of priors and measure."""
    (old, before), after = at, _of_labels(problem, new)
    gain = gain + after - before
    chance = torch.rand(len(gain), generator=stream, dtype=gain.dtype, device=gain.device)
    taken = chance.log() < gain
    return where(taken, new, old), torch.where(taken, after, before)


def _shifted_by(
    problem: Problem, statistics: Tensors, priors: Tensors, step: float, stream: torch.Generator
) -> Tensors:
    """All sites that have a shift moved along it by a draw from their priors; nearer where ``step`` is below 1."""
    out, chains, ways = dict(statistics), problem.options.chains, {}
    precision = pull = torch.zeros((), dtype=torch.float64)
    for name, shift in problem.shifts.items():
        ways[name], p, h = problem.sites[name].conjugate.along(statistics[name], priors[name], shift)
        precision, pull = precision + per_chain(p, chains), pull + per_chain(h, chains)
    noise = torch.randn(chains, generator=stream, dtype=pull.dtype, device=pull.device)
    mean = pull / precision  # Neal (1999): a shorter step keeps the prior, too
    far = mean - (1 - step**2) ** 0.5 * mean + step * noise / precision.sqrt()
    for name, way in ways.items():
        by = far.reshape(-1, *[1] * (way.dim() - 1))
        out[name] = problem.sites[name].conjugate.shifted(statistics[name], way, by)
    return out


def _scaled(problem: Problem, at: Placed, priors: Tensors, stream: torch.Generator) -> Placed:
    """All sites that have powers in another unit, by Metropolis's steps under Haar's measure."""
    chains, sites = problem.options.chains, problem.sites
    for size in UNITS if problem.powers else ():
        statistics = at[0]
        like = next(iter(statistics.values()))
        how: Any = {"generator": stream, "dtype": like.dtype, "device": like.device}
        log_s = size * torch.randn(chains, **how)
        new, gain = dict(statistics), torch.zeros_like(log_s)
        for name, powers in problem.powers.items():
            family, old = sites[name].conjugate, statistics[name]
            value = family.value(old)
            change = log_s.reshape(-1, *[1] * (value.dim() - 1)) * powers
            new[name] = family.statistic(value * change.exp())
            log_p = family.log_prior(priors[name], new[name]) - family.log_prior(priors[name], old)
            gain = gain + per_chain(log_p, chains) + per_chain(change.expand_as(value), chains)
        at = _accepted(problem, new, at, gain, stream)
    return at


def _replay(
    problem: Problem,
    state: GibbsState,
    function: Callable[..., Tensors],
    number: int | None = None,
    more: Mapping[str, Any] | None = None,
    **fixed: str,
) -> Tensors:
    """A function of the sites' values, of ``more``, and, numbered, of a stream a block; replayed where right."""
    inputs: dict[str, Any] = {f"site.{n}": x for n, x in values(problem, state).items()} | dict(more or {})
    inputs |= _last(state) if number is not None else {}
    if number is not None:
        stream = partial(problem.options.generator, 7, number, int(state.sweeps))
        inputs |= {f"stream.{block.offset}": stream(problem.place(block)) for block in problem.blocks}
    return problem.replay((function, *fixed.values()), partial(function, problem, **fixed), inputs)


def _sweep(problem: Problem, given: Mapping[str, Any]) -> Tensors:
    """Draws every enumerated site: log-likelihood, and counts of conjugate sites, or, given fixed priors, these."""
    total, linked = _drawing_pass(problem, given, [s.name for s in problem.of_kind("conjugate")])
    each = problem.label_power is None and not problem.weighs_repeats  # and none counts for a part
    whole = {n: g.round() if each and problem.sites[n].conjugate.counts else g for n, g in total.gradient.items()}
    out = {"objective": total.objective} | {f"linked.{n}": x for n, x in linked.items()}
    if problem.of_kind("hyper"):
        return out | {f"count.{n}": x for n, x in whole.items()}
    priors = _priors(problem, total.trace_sites, with_prefix(given, "site"))
    drawn = _draw_statistics(problem, priors, whole, given["draws"])
    return out | {f"statistic.{n}": x for n, x in drawn.items()}


def _statistics(problem: Problem, given: Mapping[str, Any]) -> Tensors:
    """Draws of conjugate sites given prior parameters and counts."""
    at = with_prefix(given, "site")
    sites = problem.density(problem.options.chains).sites(problem.blocks[0], at)
    drawn = _draw_statistics(problem, _priors(problem, sites, at), with_prefix(given, "count"), given["draws"])
    return {f"statistic.{n}": x for n, x in drawn.items()}


def _logits(problem: Problem, given: Mapping[str, Any], name: str) -> Tensors:
    """Of a one-hot site given all others, the enumerated ones drawn."""
    logits = _drawing_pass(problem, given, [name])[0].gradient[name]
    at = with_prefix(given, "site")
    at[name] = at[name].detach().requires_grad_()
    sites = problem.density(problem.options.chains).sites(problem.blocks[0], at)
    total = torch.zeros((), dtype=torch.float64)
    for site in problem.of_kind("conjugate"):  # whose priors may depend on it
        total = total + site.conjugate.full_log_prior(sites[site.name].fn, at[site.name]).double().sum()
    slope = torch.autograd.grad(total, at[name], allow_unused=True)[0] if total.requires_grad else None
    return {"logits": logits if slope is None else logits + slope}


def _last(state: GibbsState) -> Tensors:
    """The classes of linked truths, from which a draw goes on."""
    return {f"last.{n}": x for n, x in state.linked.items() if n.startswith("class.")}


def _drawing_pass(problem: Problem, given: Mapping[str, Any], names: list[str]) -> tuple[Total, Tensors]:
    """A pass that draws every enumerated site, with drawn counts as gradients; and what it drew of linked ones."""
    full_pass, last = problem.full_pass(problem.options.chains), with_prefix(given, "last")
    at = with_prefix(given, "site")
    hows = {
        block.offset: Summing("draw", given[f"stream.{block.offset}"], linked=last.get(f"class.{block.offset}"))
        for block in problem.blocks
    }
    total = full_pass(at, gradient=names, how=hows.__getitem__)
    pairs = (
        (f"{what}.{n}", x)
        for n, how in hows.items()
        for what, x in (("class", how.linked), ("share", how.given_others))
    )
    return total, {name: x for name, x in pairs if x is not None}


def relabel(problem: Problem, state: GibbsState) -> GibbsState:
    """Restarts chains in which classes are permuted against the votes, from their truth relabelled.

    For warm-up only. Where nothing but the labels identifies the classes, a permuted chain would stay permuted, and
    means over chains would mean nothing.
    """
    of_blocks = (  # else than by labels
        block.evidence is not None
        or block.history is not None
        or (block.gold is not None and bool((block.gold >= 0).any()))
        for block in problem.blocks
    )
    known, full_pass = reduced(any(of_blocks)), problem.full_pass(problem.options.chains)
    shares = None if known else truth_shares(problem, full_pass, values(problem, state))
    if problem.truth is None or shares is None or not state.statistics:
        return state
    chains, tilt = relabelled(shares, votes(problem.blocks))
    if not bool(chains.any()):
        return state
    stream = problem.options.generator(9, int(state.sweeps))
    statistics, _, at = _first_values(problem, stream)  # one-hot sites stay: they do not depend on class labels
    hyper = state.hyper and replace(state.hyper, at=where(chains, at, state.hyper.at))
    first = replace(state, statistics=statistics, hyper=hyper)
    statistics = where(chains, _statistics_around(problem, first, {problem.truth: tilt}, stream), state.statistics)
    return replace(first, statistics=statistics, relabelled=state.relabelled | chains)


def draw_onehot(logits: Tensor, stream: torch.Generator) -> Tensor:
    """One-hot values of a draw from each row of logits."""
    p = logits.softmax(-1)
    code = torch.multinomial(p.reshape(-1, p.shape[-1]), 1, generator=stream)
    return torch.nn.functional.one_hot(code.reshape(p.shape[:-1]), p.shape[-1]).to(p)


def _priors(problem: Problem, sites: TraceSites, like: Mapping[str, Tensor]) -> Tensors:
    """Prior parameters of conjugate sites, each in the shape of its statistic (C, ..., event)."""
    found = {s.name: s.conjugate.natural(sites[s.name].fn) for s in problem.of_kind("conjugate")}
    return {n: x.reshape(x.shape[:1] + like[n].shape[1:]).expand(like[n].shape) for n, x in found.items()}


def _hyper_log_density(
    problem: Problem, state: GibbsState, counts: Mapping[str, Tensor], at: Mapping[str, Tensor]
) -> tuple[Tensor, Tensors]:
    """Log posterior density (C,) of prior parameters given the counts, and its slopes.

    Conjugate sites are integrated out; of their statistics, the shapes alone matter.
    """
    parts = {"statistic": state.statistics, "onehot": state.onehot, "count": counts, "at": at}
    given = {f"{part}.{n}": x for part, by_name in parts.items() for n, x in by_name.items()}
    found = problem.replay(_hyper_slopes, partial(_hyper_slopes, problem), given)
    return found["value"], with_prefix(found, "slope")


def _hyper_slopes(problem: Problem, given: Mapping[str, Tensor]) -> Tensors:
    """Log posterior density of prior parameters and its slopes, from tensors by name to tensors by name."""
    chains = problem.options.chains
    at = {n: x.detach().requires_grad_() for n, x in with_prefix(given, "at").items()}
    statistics, counts = with_prefix(given, "statistic"), with_prefix(given, "count")
    hyper = {n: problem.sites[n].transform(x) for n, x in at.items()}
    sites = problem.density(chains).sites(
        problem.blocks[0], {**statistics, **with_prefix(given, "onehot"), **hyper}
    )
    total = torch.zeros(chains, dtype=torch.float64)
    for name, prior in _priors(problem, sites, statistics).items():
        if prior.requires_grad:
            family = problem.sites[name].conjugate
            log_p = family.log_normaliser(prior + counts[name]) - family.log_normaliser(prior)
            total = total + per_chain(log_p, chains)
    for name, x in hyper.items():
        transform = problem.sites[name].transform
        total = total + per_chain(sites[name].fn.log_prob(x), chains)
        total = total + per_chain(transform.log_abs_det_jacobian(at[name], x), chains)
    slopes = torch.autograd.grad(total.sum(), list(at.values()))
    return {"value": total.detach(), **{f"slope.{n}": g for n, g in zip(at, slopes, strict=True)}}


def run(problem: Problem, order: np.ndarray) -> FitResult:
    """The result of a fit; ``order`` has item codes by position."""
    return result_of_chains("gibbs", problem, order, *sample(problem))


def capability(problem: Problem) -> str:
    """What gibbs does with a problem: it is exact; a ``MethodError`` where it refuses."""
    start(problem)
    return "exact"


ENGINE = Engine("gibbs", run, capability, (*SAMPLING, *KEPT), sample=sample, many_chains=True)
