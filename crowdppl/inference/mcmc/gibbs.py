"""Gibbs sampling: joint draws of discrete sites, then Dirichlets, then their hyperparameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from pyro.poutine import Trace
from torch import Tensor

from crowdppl.errors import MethodError
from crowdppl.inference.checkpoint import with_prefix
from crowdppl.inference.density import Density, nodes
from crowdppl.inference.loop import Progress, iterate
from crowdppl.inference.mcmc.hmc import Hmc
from crowdppl.inference.options import Options, refuse_minibatch
from crowdppl.inference.passes import FullPass, Total
from crowdppl.inference.problem import Problem
from crowdppl.inference.replay import Function, Replayed
from crowdppl.inference.sites import DIRICHLET, per_chain
from crowdppl.primitives.sums import Summing

CLEAR = 0.1
"""Likeness to the votes that each renamed class has to gain in the mean, on a scale from 0 to 1."""
LOOKS = 3
"""Draws of a chain from which its permutation is read at the end."""
SMALLEST = 1e-6
"""Share of a class below which a relabelled truth is not followed: what was certain may be drawn back."""


def likeness(marginal: Tensor, counts: Tensor) -> np.ndarray:
    """How alike each chain's classes and those of the votes are.

    The items that a chain gives to its class k and the votes to class j, over the geometric mean of all that it
    gives to k and they to j: 1 where both mean the same items, whatever the sizes of classes, so that a large class
    does not outweigh a small one, nor an empty one find its like by chance.

    Args:
        marginal: truth probabilities of each chain, (K, C, N).
        counts: votes, (N, K).

    Returns:
        (C, K, K), [chain, class of the chain, class of the votes].
    """
    voted = counts.sum(1, keepdim=True)
    shares = counts / voted.clamp(min=1)
    seen = (voted > 0).to(shares)  # an item without votes is no sign of anything
    out = []
    for chain in range(marginal.shape[1]):
        mine = marginal[:, chain].to(shares) * seen.t()
        sizes = mine.sum(1)[:, None] * shares.sum(0)
        out.append(mine @ shares / sizes.clamp(min=1e-12).sqrt())
    return torch.stack(out).cpu().numpy()


def permutation(alike: np.ndarray) -> np.ndarray:
    """The class of the votes for which each class of a chain stands, (K,).

    That of the largest total likeness (K, K), where it is clearly larger than as the classes are called; else they
    stand for themselves.
    """
    own = np.arange(len(alike))
    if (alike.argmax(1) == own).all():
        return own
    from scipy.optimize import linear_sum_assignment  # slow to import

    best = np.asarray(linear_sum_assignment(alike, maximize=True)[1])
    gain = float((alike[own, best] - alike[own, own]).sum())
    return best if gain > CLEAR * np.count_nonzero(best != own) else own


def permutations(problem: Problem, draws: Mapping[str, Tensor]) -> list[list[int]]:
    """For which class of the votes each class stands, in each chain of a finished run.

    Args:
        problem: story and data.
        draws: by site, (C, D, ..., event) as the story's chains see them, Dirichlets as log theta.

    Returns:
        C lists of K classes, [0, 1, ...] where nothing is permuted; none where the story's truth is no class.
    """
    chains, length = next(iter(draws.values())).shape[:2]
    fold = problem.full_pass(chains)
    found = []
    for at in np.unique(np.linspace(0, length - 1, LOOKS).round().astype(int)):
        marginal = truth_shares(problem, fold, {name: x[:, at] for name, x in draws.items()})
        if marginal is None:
            return []
        found.append(likeness(marginal, problem.counts))
    return [permutation(alike).tolist() for alike in np.mean(found, 0)]


def truth_shares(problem: Problem, fold: FullPass, values: Mapping[str, Tensor]) -> Tensor | None:
    """Truth probabilities of each chain, (K, C, N); None where the story's truth is not one of the K classes."""
    if problem.truth is None:
        return None
    marginal = fold(values, marginals=(problem.truth,)).marginals[problem.truth]
    return marginal if len(marginal) == problem.counts.shape[1] else None


def named_already(problem: Problem) -> bool:
    """Whether something else than the labels says which class is which: known truths, evidence or history."""
    return any(
        block.evidence is not None
        or block.history is not None
        or (block.gold is not None and bool((block.gold >= 0).any()))
        for block in problem.blocks
    )


def renamed(marginal: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Truth shares of all chains with classes called as the votes call them.

    Args:
        marginal: truth probabilities of each chain, (K, C, N).
        counts: votes, (N, K).

    Returns:
        Which chains are permuted, bool (C,); and log truth shares (K, C, N), of those others unchanged.
    """
    alike = likeness(marginal, counts)
    shares, moved = marginal.clone(), []
    for chain, one in enumerate(alike):
        stands_for = permutation(one)
        moved.append(bool((stands_for != np.arange(len(one))).any()))
        shares[torch.from_numpy(stands_for).to(shares.device), chain] = marginal[:, chain]
    return torch.tensor(moved, device=marginal.device), shares.clamp(min=SMALLEST).log()


def where(moved: Tensor, new: Mapping[str, Tensor], old: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Values by site, (C, ...): new ones of the chains that moved, old ones of the others, to the bit."""
    return {n: torch.where(moved.reshape(-1, *(1,) * (x.dim() - 1)), new[n], x) for n, x in old.items()}


class Hyper:
    """Prior parameters of all chains.

    Args:
        problem: story, data and sites.
        density: the story's, with as many chains.
        at: unconstrained position by site, (C, ...).
    """

    def __init__(self, problem: Problem, density: Density, at: dict[str, Tensor]) -> None:
        assert density.chains is not None
        self.problem, self.density, self.chains = problem, density, density.chains
        self.search = Hmc(at, self.chains)
        self._found: Function = Replayed(self._log_density) if problem.steady else self._log_density

    def values(self, at: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
        """In their own space, (C, ...): where they are, or elsewhere."""
        at = self.search.at if at is None else at
        return {n: self.problem.sites[n].transform(x) for n, x in at.items()}

    def move(
        self,
        theta: Mapping[str, Tensor],
        onehot: Mapping[str, Tensor],
        counts: Mapping[str, Tensor],
        generator: torch.Generator,
        *,
        adapting: bool,
    ) -> None:
        """One trajectory a chain.

        Args:
            theta: log theta of Dirichlets, (C, ...); only their shapes matter.
            onehot: one-hot sites, (C, ...).
            counts: drawn for each Dirichlet, in its shape.
            generator: random stream.
            adapting: whether step sizes and masses may change.
        """
        parts = {"theta": theta, "onehot": onehot, "count": counts}
        given = {f"{part}.{n}": x for part, by_name in parts.items() for n, x in by_name.items()}

        def log_density(at: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
            found = self._found({**given, **{f"at.{n}": x for n, x in at.items()}})
            return found["value"], dict(with_prefix(found, "slope"))

        self.search.move(log_density, generator, adapting=adapting)

    def _log_density(self, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Log posterior given the counts, (C,), and its slopes."""
        at = {n: x.detach().requires_grad_() for n, x in with_prefix(given, "at").items()}
        theta, counts, values = with_prefix(given, "theta"), with_prefix(given, "count"), self.values(at)
        told = {**theta, **with_prefix(given, "onehot"), **values}
        trace = nodes(self.density.trace(self.problem.blocks[0], told))
        total = torch.zeros(self.chains, dtype=torch.float64)
        for name, x in theta.items():
            prior = DIRICHLET.natural(trace[name]["fn"])
            if prior.requires_grad:
                prior = prior.reshape(prior.shape[:1] + x.shape[1:]).expand(x.shape)
                filled = DIRICHLET.log_normaliser(prior + counts[name]) - DIRICHLET.log_normaliser(prior)
                total = total + per_chain(filled, self.chains)
        for name, x in values.items():
            transform = self.problem.sites[name].transform
            total = total + per_chain(trace[name]["fn"].log_prob(x), self.chains)
            total = total + per_chain(transform.log_abs_det_jacobian(at[name], x), self.chains)
        slopes = torch.autograd.grad(total.sum(), list(at.values()))
        return {"value": total.detach(), **{f"slope.{n}": g for n, g in zip(at, slopes, strict=True)}}


BUDGET = 50_000_000
"""Numbers that kept draws may hold; longer runs are thinned."""


@dataclass
class Gibbs:
    """All chains of a sampler; chains ride in the width of the tables.

    A sweep draws one-hot sites from their exact conditionals, then every enumerated site jointly (the pass
    returns the drawn counts), then prior parameters given the counts with the Dirichlets integrated out, then
    the Dirichlets.

    Args:
        problem: story, data and sites.
        options: chains and seed.
    """

    problem: Problem
    options: Options
    theta: dict[str, Tensor] = field(init=False)
    onehot: dict[str, Tensor] = field(init=False)
    hyper: Hyper | None = field(init=False)
    relabelled: set[int] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        problem = self.problem
        free = [s.name for s in problem.of_kind("free")]
        if free:
            raise MethodError(
                f"gibbs has no exact update for {', '.join(free)} of {type(problem.model).__name__}: their "
                "gradient changes with their value; use inference='nuts' or 'vb'"
            )
        self.fold = problem.full_pass(self.options.chains)
        self.density = self.fold.density
        self._start()

    def _start(self) -> None:
        """Each chain from a posterior draw around its own perturbed votes (the first around the votes)."""
        stream = self.options.generator(5)
        self.theta, self.onehot, at = self._first(stream)
        self.hyper = Hyper(self.problem, self.density, at) if at else None
        self.theta = self._around(self._tilt(), stream)

    def _first(self, stream: torch.Generator) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Tensor]]:
        """Values before anything is learned: Dirichlets as log theta, one-hot sites, prior parameters."""
        wide = {n: self._for_chains(n, x) for n, x in self.problem.typical(stream).items()}
        theta = {s.name: wide[s.name].clamp(min=1e-30).log() for s in self.problem.of_kind("conjugate")}
        onehot = {s.name: _draw_onehot(wide[s.name].log(), stream) for s in self.problem.of_kind("onehot")}
        at = {}
        for site in self.problem.of_kind("hyper"):
            u = site.transform.inv(wide[site.name])
            at[site.name] = u + 0.1 * torch.randn(u.shape, generator=stream, dtype=u.dtype, device=u.device)
        return theta, onehot, at

    def _around(self, tilt: Mapping[str, Tensor], stream: torch.Generator) -> dict[str, Tensor]:
        """A draw of the Dirichlets around truths that are tilted."""
        if not self.theta:
            return {}
        total = self.fold(self.values(), gradient=list(self.theta), tilt=tilt)
        return {
            name: DIRICHLET.draw((prior + total.gradient[name]).contiguous(), stream)
            for name, prior in self._priors(total.trace).items()
        }

    def _tilt(self) -> dict[str, Tensor]:
        """Log truth shares (K, C, N) to start from: the votes, moments, then perturbed votes."""
        if self.problem.truth is None:
            return {}
        numbers = (chain if chain != 1 else self.options.chains for chain in range(self.options.chains))
        shares = [self.problem.start(number)[1] for number in numbers]
        return {self.problem.truth: torch.stack([x.log().t() for x in shares if x is not None], 1)}

    def _for_chains(self, name: str, x: Tensor) -> Tensor:
        wide = x.expand(self.options.chains, *x.shape)
        return self.problem.sites[name].widen(wide, self.problem.plates).contiguous()

    def values(self) -> dict[str, Tensor]:
        """The state of all chains; Dirichlets as log theta."""
        return {**self.theta, **self.onehot, **(self.hyper.values() if self.hyper else {})}

    def sweep(self, t: int, *, adapting: bool) -> float:
        """One sweep of every chain; returns the mean log-likelihood given the parameters it started from."""
        stream = self.options.generator(6, t)
        for which, name in enumerate(self.onehot, 1):  # in turn: each is drawn given the others as they are
            total = self._pass([name], t, which)
            self.onehot[name] = _draw_onehot(total.gradient[name] + self._mixture(name), stream)
        total = self._pass(list(self.theta), t, 0)
        counts = {n: g.round() for n, g in total.gradient.items()}
        if self.hyper is not None:
            self.hyper.move(self.theta, self.onehot, counts, stream, adapting=adapting)
        trace = total.trace if self.hyper is None else self.density.trace(self.problem.blocks[0], self.values())
        for name, prior in self._priors(trace).items():
            self.theta[name] = DIRICHLET.draw((prior + counts[name]).contiguous(), stream)
        return float(total.objective.mean())

    def relabel(self, t: int) -> None:
        """Chains whose classes stand for other classes than the votes do start anew, around their truth renamed.

        For warm-up only: where nothing but the labels says which class is which, a permuted chain is as good as
        any, so that it would stay, and means over chains would be of nothing.

        Args:
            t: the sweep that comes next.
        """
        truth = self.problem.truth
        if truth is None or not self.theta or named_already(self.problem):
            return
        shares = truth_shares(self.problem, self.fold, self.values())
        if shares is None:
            return
        moved, tilt = renamed(shares, self.problem.counts)
        if not bool(moved.any()):
            return
        stream, theta = self.options.generator(9, t), self.theta
        self.theta, _, at = self._first(stream)  # one-hot sites stay: they know no classes
        if self.hyper is not None:
            self.hyper.search.at = where(moved, at, self.hyper.search.at)
        self.theta = where(moved, self._around({truth: tilt}, stream), theta)
        self.relabelled |= set(torch.nonzero(moved)[:, 0].tolist())

    def _pass(self, names: list[str], t: int, which: int) -> Total:
        def how(offset: int) -> Summing:
            return Summing("draw", self.options.generator(7, which, t, offset))

        return self.fold(self.values(), gradient=names, how=how)

    def _priors(self, trace: Trace) -> dict[str, Tensor]:
        """Prior concentrations of every chain, in the shape of the chain's values."""
        out = {}
        for name, theta in self.theta.items():
            prior = DIRICHLET.natural(nodes(trace)[name]["fn"])
            out[name] = prior.reshape(prior.shape[:1] + theta.shape[1:]).expand(theta.shape)
        return out

    def _mixture(self, name: str) -> Tensor | float:
        """What the priors of Dirichlets say about a one-hot site on which they depend."""
        values = self.values()
        values[name] = values[name].detach().requires_grad_()
        trace = self.density.trace(self.problem.blocks[0], values)
        total = torch.zeros((), dtype=torch.float64)
        for site, theta in self.theta.items():
            total = total + DIRICHLET.full_log_prior(nodes(trace)[site]["fn"], theta).double().sum()
        if not total.requires_grad:
            return 0.0
        (found,) = torch.autograd.grad(total, [values[name]], allow_unused=True)
        return 0.0 if found is None else found


def _draw_onehot(logits: Tensor, stream: torch.Generator) -> Tensor:
    p = logits.softmax(-1)
    code = torch.multinomial(p.reshape(-1, p.shape[-1]), 1, generator=stream)
    return torch.nn.functional.one_hot(code.reshape(p.shape[:-1]), p.shape[-1]).to(p)


@dataclass
class Sampled(Progress):
    """How a run went.

    Attributes:
        relabelled: chains that were relabelled to the votes during warm-up.
    """

    relabelled: tuple[int, ...] = ()


def sample(problem: Problem, options: Options) -> tuple[dict[str, Tensor], Sampled]:
    """Runs warm-up and draws.

    At a quarter and at the half of the warm-up, chains in another permutation of the classes than the votes are
    relabelled to these; what is kept is then a run from another start. A minibatch is a MethodError.

    Returns:
        Draws by site, (C, D, ..., event) as the story's chains see them, Dirichlets as log theta; and progress.
    """
    refuse_minibatch(options, "gibbs")
    gibbs = Gibbs(problem, options)
    size = sum(x.numel() for x in gibbs.values().values())
    thin = max(1, -(-size * options.draws // BUDGET))
    kept: dict[str, list[Tensor]] = {}
    looks = {options.warmup // 4, options.warmup // 2} - {0}

    def step(t: int) -> float:
        adapting = t < options.warmup
        if t == options.warmup and gibbs.hyper is not None:
            gibbs.hyper.search.freeze()
        if t in looks:
            gibbs.relabel(t)
        value = gibbs.sweep(t, adapting=adapting)
        if not adapting and (t - options.warmup) % thin == 0:
            for name, x in gibbs.values().items():
                kept.setdefault(name, []).append(x.detach().clone())
        return value

    progress = iterate(step, options, steps=options.warmup + options.draws, name="gibbs")
    if not kept:  # stopped during warm-up: what there is
        kept = {n: [x.detach()] for n, x in gibbs.values().items()}
    draws = {n: torch.stack(x, 1) for n, x in kept.items()}
    return draws, Sampled(**vars(progress), relabelled=tuple(sorted(gibbs.relabelled)))
