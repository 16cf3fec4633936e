"""Gibbs sampling: joint draws of discrete sites, then prior parameters, then Dirichlets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from torch import Tensor

from crowdppl.errors import MethodError
from crowdppl.inference.checkpoint import with_prefix
from crowdppl.inference.density import TraceSites
from crowdppl.inference.loop import Progress, iterate
from crowdppl.inference.mcmc.hmc import Hmc, where
from crowdppl.inference.options import Options
from crowdppl.inference.passes import FullPass, Total
from crowdppl.inference.problem import Problem
from crowdppl.inference.replay import Function, Replayed
from crowdppl.inference.sites import DIRICHLET, per_chain
from crowdppl.primitives.sums import Summing

MAX_NUMBERS = 50_000_000
"""Numbers that kept draws may hold; longer runs are thinned."""
MARGIN = 0.1
"""Similarity to the votes, from 0 to 1, that each relabelled class must gain in the mean."""
PERMUTATION_DRAWS = 3
"""Draws of a chain from which its permutation is found at the end."""
SMALLEST_SHARE = 1e-6
"""Least share of a class in a relabelled truth, so that no class is excluded."""

Values = dict[str, Tensor]


@dataclass
class Sampled(Progress):
    """Progress of a sampler, and the chains that were relabelled to the votes during warm-up."""

    relabelled: tuple[int, ...] = ()


def sample(problem: Problem, options: Options) -> tuple[dict[str, Tensor], Sampled]:
    """Runs warm-up and draws.

    At a quarter and at the half of the warm-up, chains in another permutation of the classes than the votes are
    relabelled to these; what is kept is then a run from another start.

    Returns:
        Draws by site, (C, D, ..., event) as the model's chains see them, Dirichlets as log theta; and progress.

    Raises:
        MethodError: for a site without an exact update.
    """
    gibbs = Gibbs(problem, options)
    size = sum(x.numel() for x in gibbs.values().values())
    thin = max(1, -(-size * options.draws // MAX_NUMBERS))
    kept: dict[str, list[Tensor]] = {}
    relabel_at = {options.warmup // 4, options.warmup // 2} - {0}

    def step(t: int) -> float:
        adapting = t < options.warmup
        if t == options.warmup and gibbs.hyper is not None:
            gibbs.hyper.hmc.freeze()
        if t in relabel_at:
            gibbs.relabel(t)
        value = gibbs.sweep(t, adapting=adapting)
        if not adapting and (t - options.warmup) % thin == 0:
            for name, x in gibbs.values().items():
                kept.setdefault(name, []).append(x.detach().clone())
        return value

    progress = iterate(step, options, steps=options.warmup + options.draws, name="gibbs")
    if not kept:  # stopped during warm-up
        kept = {n: [x.detach()] for n, x in gibbs.values().items()}
    draws = {n: torch.stack(x, 1) for n, x in kept.items()}
    return draws, Sampled(**vars(progress), relabelled=tuple(sorted(gibbs.relabelled)))


@dataclass
class Gibbs:
    """All chains of a sampler; chains are a dimension of the model's tables.

    A sweep draws one-hot sites from their exact conditionals, then every enumerated site jointly (the pass returns
    the drawn counts), then prior parameters given the counts with the Dirichlets integrated out, then the
    Dirichlets.

    Attributes:
        theta: log theta of Dirichlets, (C, ..., event).
        onehot: one-hot sites, (C, ..., event).
        hyper: prior parameters, where there are any.
        relabelled: chains that were relabelled to the votes.
    """

    problem: Problem
    options: Options
    theta: Values = field(init=False)
    onehot: Values = field(init=False)
    hyper: HyperSampler | None = field(init=False)
    relabelled: set[int] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        free = [s.name for s in self.problem.of_kind("free")]
        if free:
            raise MethodError(
                f"gibbs has no exact update for {', '.join(free)} of {type(self.problem.model).__name__}: their "
                "gradient changes with their value; use inference='nuts' or 'vb'"
            )
        self.full_pass = self.problem.full_pass(self.options.chains)
        self.density = self.full_pass.density
        stream = self.options.generator(5)
        self.theta, self.onehot, at = self._first_values(stream)
        self.hyper = HyperSampler(self.problem, at, self.options.chains) if at else None
        tilt: Values = {}
        if self.problem.truth is not None:  # the votes, perturbed votes, moments, then perturbed votes
            numbers = (chain if chain != 1 else self.options.chains for chain in range(self.options.chains))
            shares = [self.problem.start(number)[1] for number in numbers]
            tilt = {self.problem.truth: torch.stack([x.log().t() for x in shares if x is not None], 1)}
        self.theta = self._theta_around(tilt, stream)

    def _first_values(self, stream: torch.Generator) -> tuple[Values, Values, Values]:
        """Typical values: Dirichlets as log theta, one-hot sites, and unconstrained prior parameters."""
        chains, sites = self.options.chains, self.problem.sites
        typical = self.problem.typical(stream).items()
        values = {
            n: sites[n].widen(x.expand(chains, *x.shape), self.problem.plates).contiguous() for n, x in typical
        }
        theta = {s.name: values[s.name].clamp(min=1e-30).log() for s in self.problem.of_kind("conjugate")}
        onehot = {s.name: _draw_onehot(values[s.name].log(), stream) for s in self.problem.of_kind("onehot")}
        at = {}
        for site in self.problem.of_kind("hyper"):
            u = site.transform.inv(values[site.name])
            at[site.name] = u + 0.1 * torch.randn(u.shape, generator=stream, dtype=u.dtype, device=u.device)
        return theta, onehot, at

    def _theta_around(self, tilt: Mapping[str, Tensor], stream: torch.Generator) -> Values:
        """A draw of the Dirichlets given expected counts under tilted truths."""
        if not self.theta:
            return {}
        total = self.full_pass(self.values(), gradient=list(self.theta), tilt=tilt)
        return self._draw_theta(total.trace_sites, total.gradient, stream)

    def _draw_theta(self, sites: TraceSites, counts: Mapping[str, Tensor], stream: torch.Generator) -> Values:
        out = {}
        for name, theta in self.theta.items():
            prior = _prior_like(sites, name, theta)
            out[name] = DIRICHLET.draw((prior + counts[name]).contiguous(), stream)
        return out

    def values(self) -> Values:
        """The state of all chains; Dirichlets as log theta."""
        return {**self.theta, **self.onehot, **(self.hyper.values() if self.hyper else {})}

    def sweep(self, t: int, *, adapting: bool) -> float:
        """One sweep of every chain; returns the mean log-likelihood given the parameters it started from."""
        stream = self.options.generator(6, t)
        for number, name in enumerate(self.onehot, 1):  # in turn: each is drawn given the current others
            total = self._drawing_pass([name], t, number)
            self.onehot[name] = _draw_onehot(total.gradient[name] + self._mixture_gradient(name), stream)
        total = self._drawing_pass(list(self.theta), t, 0)
        counts = {n: g.round() for n, g in total.gradient.items()}
        sites = total.trace_sites
        if self.hyper is not None:
            self.hyper.move(self.theta, self.onehot, counts, stream, adapting=adapting)
            sites = self.density.sites(self.problem.blocks[0], self.values())
        self.theta = self._draw_theta(sites, counts, stream)
        return float(total.objective.mean())

    def _drawing_pass(self, names: list[str], t: int, number: int) -> Total:
        """A pass that draws every enumerated site; its gradients are the drawn counts."""
        stream = partial(self.options.generator, 7, number, t)
        return self.full_pass(self.values(), gradient=names, how=lambda offset: Summing("draw", stream(offset)))

    def _mixture_gradient(self, name: str) -> Tensor | float:
        """Gradient of the Dirichlets' log-priors by a one-hot site on which they depend."""
        values = self.values()
        values[name] = values[name].detach().requires_grad_()
        sites = self.density.sites(self.problem.blocks[0], values)
        total = torch.zeros((), dtype=torch.float64)
        for site, theta in self.theta.items():
            total = total + DIRICHLET.full_log_prior(sites[site].fn, theta).double().sum()
        found = torch.autograd.grad(total, values[name], allow_unused=True)[0] if total.requires_grad else None
        return 0.0 if found is None else found

    def relabel(self, t: int) -> None:
        """Restarts chains in which classes are permuted against the votes, from their truth relabelled.

        For warm-up only, before sweep t. Where nothing but the labels identifies the classes, a permuted chain
        would stay permuted, and means over chains would mean nothing.
        """
        truth = self.problem.truth
        known = any(  # else than by labels
            block.evidence is not None
            or block.history is not None
            or (block.gold is not None and bool((block.gold >= 0).any()))
            for block in self.problem.blocks
        )
        shares = None if known else _truth_shares(self.problem, self.full_pass, self.values())
        if truth is None or shares is None or not self.theta:
            return
        moved, tilt = relabelled(shares, self.problem.counts)
        if not bool(moved.any()):
            return
        stream, theta = self.options.generator(9, t), self.theta
        self.theta, _, at = self._first_values(stream)  # one-hot sites stay: they do not depend on class labels
        if self.hyper is not None:
            self.hyper.hmc.at = where(moved, at, self.hyper.hmc.at)
        self.theta = where(moved, self._theta_around({truth: tilt}, stream), theta)
        self.relabelled |= set(torch.nonzero(moved)[:, 0].tolist())


def _draw_onehot(logits: Tensor, stream: torch.Generator) -> Tensor:
    p = logits.softmax(-1)
    code = torch.multinomial(p.reshape(-1, p.shape[-1]), 1, generator=stream)
    return torch.nn.functional.one_hot(code.reshape(p.shape[:-1]), p.shape[-1]).to(p)


def _prior_like(sites: TraceSites, name: str, theta: Tensor) -> Tensor:
    """Prior concentrations of a Dirichlet site, in the shape of its value (C, ..., event)."""
    prior = DIRICHLET.natural(sites[name].fn)
    return prior.reshape(prior.shape[:1] + theta.shape[1:]).expand(theta.shape)


class HyperSampler:
    """Draws prior parameters of all chains by HMC, given counts, with the Dirichlets integrated out.

    They start at unconstrained positions by site, (C, ...).
    """

    def __init__(self, problem: Problem, at: Values, chains: int) -> None:
        self.problem, self.density, self.chains = problem, problem.density(chains), chains
        self.hmc = Hmc(at, chains)
        self._replayed: Function = Replayed(self._log_density) if problem.steady else self._log_density

    def values(self, at: Mapping[str, Tensor] | None = None) -> Values:
        """Constrained values, (C, ...), at the current position or another."""
        at = self.hmc.at if at is None else at
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
        """One trajectory a chain, at log theta (whose shapes alone matter), one-hot sites and counts, (C, ...)."""
        parts = {"theta": theta, "onehot": onehot, "count": counts}
        given = {f"{part}.{n}": x for part, by_name in parts.items() for n, x in by_name.items()}

        def log_density(at: Mapping[str, Tensor]) -> tuple[Tensor, Values]:
            found = self._replayed({**given, **{f"at.{n}": x for n, x in at.items()}})
            return found["value"], dict(with_prefix(found, "slope"))

        self.hmc.move(log_density, generator, adapting=adapting)

    def _log_density(self, given: Mapping[str, Tensor]) -> Values:
        """Log posterior density given the counts, (C,), and its slopes."""
        at = {n: x.detach().requires_grad_() for n, x in with_prefix(given, "at").items()}
        theta, counts, values = with_prefix(given, "theta"), with_prefix(given, "count"), self.values(at)
        known = {**theta, **with_prefix(given, "onehot"), **values}
        sites = self.density.sites(self.problem.blocks[0], known)
        total = torch.zeros(self.chains, dtype=torch.float64)
        for name, x in theta.items():
            prior = _prior_like(sites, name, x)
            if prior.requires_grad:
                log_p = DIRICHLET.log_normaliser(prior + counts[name]) - DIRICHLET.log_normaliser(prior)
                total = total + per_chain(log_p, self.chains)
        for name, x in values.items():
            transform = self.problem.sites[name].transform
            total = total + per_chain(sites[name].fn.log_prob(x), self.chains)
            total = total + per_chain(transform.log_abs_det_jacobian(at[name], x), self.chains)
        slopes = torch.autograd.grad(total.sum(), list(at.values()))
        return {"value": total.detach(), **{f"slope.{n}": g for n, g in zip(at, slopes, strict=True)}}


def permutations(problem: Problem, draws: Mapping[str, Tensor]) -> list[list[int]]:
    """The class of the votes that corresponds to each class, in each chain of a finished run.

    C lists of K classes, [0, 1, ...] where nothing is permuted; none where the model's truth is no class.
    """
    chains, length = next(iter(draws.values())).shape[:2]
    full_pass, found = problem.full_pass(chains), []
    for at in np.unique(np.linspace(0, length - 1, PERMUTATION_DRAWS).round().astype(int)):
        shares = _truth_shares(problem, full_pass, {name: x[:, at] for name, x in draws.items()})
        if shares is None:
            return []
        found.append(class_similarity(shares, problem.counts))
    return [best_permutation(similarity).tolist() for similarity in np.mean(found, 0)]


def _truth_shares(problem: Problem, full_pass: FullPass, values: Mapping[str, Tensor]) -> Tensor | None:
    """Truth probabilities of each chain, (K, C, N); None where the model's truth is not one of the K classes."""
    if problem.truth is None:
        return None
    shares = full_pass(values, marginals=(problem.truth,)).marginals[problem.truth]
    return shares if len(shares) == problem.counts.shape[1] else None


def relabelled(shares: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Which chains are permuted against votes (N, K), bool (C,), and log truth shares (K, C, N) without that."""
    out, moved = shares.clone(), []
    for chain, similarity in enumerate(class_similarity(shares, counts)):
        best = best_permutation(similarity)
        moved.append(bool((best != np.arange(len(best))).any()))
        out[torch.from_numpy(best).to(out.device), chain] = shares[:, chain]
    return torch.tensor(moved, device=shares.device), out.clamp(min=SMALLEST_SHARE).log()


def class_similarity(shares: Tensor, counts: Tensor) -> np.ndarray:
    """Similarity of each chain's classes and those of the votes, [chain, class of the chain, class of the votes].

    The items that a chain gives to its class k and the votes to class j, over the geometric mean of all items of k
    and of j: 1 where both are the same items, whatever the sizes of classes. Shares are (K, C, N), votes (N, K).
    """
    voted = counts.sum(1, keepdim=True)
    votes = counts / voted.clamp(min=1)
    has_votes = (voted > 0).to(votes)
    out = []
    for chain in range(shares.shape[1]):
        own = shares[:, chain].to(votes) * has_votes.t()
        sizes = own.sum(1)[:, None] * votes.sum(0)
        out.append(own @ votes / sizes.clamp(min=1e-12).sqrt())
    return torch.stack(out).cpu().numpy()


def best_permutation(similarity: np.ndarray) -> np.ndarray:
    """The class of the votes that corresponds to each class of a chain, (K,).

    The assignment of the largest total similarity (K, K), where it exceeds that of the identity by ``MARGIN`` for
    each class that moves; else the identity.
    """
    own = np.arange(len(similarity))
    if (similarity.argmax(1) == own).all():
        return own
    from scipy.optimize import linear_sum_assignment  # slow to import

    best = np.asarray(linear_sum_assignment(similarity, maximize=True)[1])
    gain = float((similarity[own, best] - similarity[own, own]).sum())
    return best if gain > MARGIN * np.count_nonzero(best != own) else own
