"""Block coordinate ascent on a story's objective: what em and vb have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from pyro.poutine import Trace
from torch import Tensor

from crowdppl.inference.climb import Climb
from crowdppl.inference.density import FLOOR, Density
from crowdppl.inference.families import DIRICHLET
from crowdppl.inference.fold import Fold, Total
from crowdppl.inference.gaussians import Gaussians
from crowdppl.inference.nodes import nodes
from crowdppl.inference.rules import Rule
from crowdppl.inference.sites import Site, per_chain

CLIMB_STEPS = 5
INNER_STEPS = 5


@dataclass
class State:
    """Where a fit is.

    Attributes:
        parameters: of conjugate sites: log theta for em, concentrations for vb.
        logits: of one-hot sites; their softmax is the expected one-hot vector.
        free: Gaussians or points for sites that touch labels without being conjugate.
        hyper: the same for sites that reach labels only through other sites' priors.
    """

    parameters: dict[str, Tensor]
    logits: dict[str, Tensor]
    free: Gaussians
    hyper: Gaussians


@dataclass
class Ascent:
    """Raises l + penalties, one block of sites at a time; every block update is an ascent step.

    Args:
        fold: the story on all blocks; its density has as many chains as ``state.free`` has particles.
        rule: em's or vb's treatment of conjugate sites.
        state: where to start.
        fixed: values of sites that are not to move.
    """

    fold: Fold
    rule: Rule
    state: State
    fixed: Mapping[str, Tensor] = field(default_factory=dict)
    _climbs: dict[str, Climb] = field(default_factory=dict)

    @property
    def sites(self) -> Mapping[str, Site]:
        """The story's sites."""
        return self.fold.sites

    def values(self) -> dict[str, Tensor]:
        """The value of each site at which a pass over the labels is made."""
        leaves = {n: self.rule.leaf(x) for n, x in self.state.parameters.items()}
        onehot = {n: x.softmax(-1) for n, x in self.state.logits.items()}
        with torch.no_grad():
            free = self.state.free.values()
            hyper = self.state.hyper.values() if self.fold.density.chains else self.state.hyper.means()
        return {**self.fixed, **leaves, **onehot, **free, **hyper}

    def evaluate(self, marginals: tuple[str, ...] = ()) -> tuple[float, Total, dict[str, Tensor]]:
        """One pass: the objective at the current state, the pass, and the priors of conjugate sites."""
        total = self.fold(self.values(), gradient=list(self.state.parameters), marginals=marginals)
        priors, penalty = self.penalties()
        return float(total.objective.mean()) + penalty, total, priors

    def step(self) -> float:
        """One iteration; returns the objective at its start."""
        objective, total, priors = self.evaluate()
        share = self.fold.density.chains or 1
        for name, prior in priors.items():
            counts = total.gradient[name] / share
            self.state.parameters[name] = self.rule.update(self.state.parameters[name], prior, counts)
        if self.state.free.sites:
            self._climb("free", self.state.free, self._free_objective, CLIMB_STEPS)
        if self.state.logits:
            self._update_onehot()
        if self.state.hyper.sites:
            self._climb("hyper", self.state.hyper, self._hyper_objective, INNER_STEPS)
        return objective

    def _climb(
        self,
        name: str,
        gaussians: Gaussians,
        objective: Callable[[], tuple[float, list[Tensor]]],
        steps: int,
    ) -> None:
        if name not in self._climbs:
            self._climbs[name] = Climb(gaussians.leaves, steps)
        self._climbs[name](objective)

    def _update_onehot(self) -> None:
        """Given the truth's posterior, l is linear in a one-hot site: its gradient is the new logit."""
        names = list(self.state.logits)
        total = self.fold(self.values(), gradient=names)
        share = self.fold.density.chains or 1
        extra = self.mixture_gradient(names)
        for name in names:
            self.state.logits[name] = total.gradient[name] / share + extra.get(name, 0.0)

    def mixture_gradient(self, names: list[str]) -> dict[str, Tensor]:
        """How one-hot sites enter the priors of conjugate sites (a community's own Dirichlet)."""
        values = {n: x.detach().requires_grad_() if n in names else x for n, x in self.prior_values().items()}
        trace = self._prior_density().trace(self.fold.blocks[0], values)
        total = self._conjugate_penalty(trace)
        if not total.requires_grad:
            return {}
        found = torch.autograd.grad(total, [values[n] for n in names], allow_unused=True)
        return {n: g for n, g in zip(names, found, strict=True) if g is not None}

    def prior_values(self) -> dict[str, Tensor]:
        """Values at which priors are evaluated: hyper sites as particles."""
        values = self.values()
        with torch.no_grad():
            return {**values, **self.state.hyper.values()}

    def _prior_density(self) -> Density:
        density = self.fold.density
        chains = self.state.hyper.chains or density.chains
        return Density(density.model, density.plates, chains, density.log_sites)

    def prior_trace(self) -> Trace:
        """The story's trace at the current state, for the priors of global sites; no pass over labels."""
        with torch.no_grad():
            return self._prior_density().trace(self.fold.blocks[0], self.prior_values())

    def priors(self, trace: Trace) -> dict[str, Tensor]:
        """Natural parameters of the conjugate sites' priors, averaged over particles."""
        chains = self._prior_density().chains
        out = {}
        for name in self.state.parameters:
            x = DIRICHLET.natural(nodes(trace)[name]["fn"]).double()
            site = self.sites[name]
            shape = site.shape(self.fold.n_items)
            out[name] = (
                x.reshape(shape) if chains is None else x.expand(chains, *x.shape[1:]).mean(0).reshape(shape)
            )
        return out

    def penalties(self) -> tuple[dict[str, Tensor], float]:
        """Everything in the objective but the labels' term, with the conjugate priors it is made of."""
        trace = self.prior_trace()
        with torch.no_grad():
            total = self._conjugate_penalty(trace)
            for logits in self.state.logits.values():
                share = logits.softmax(-1)
                total = total - (share * logits.log_softmax(-1).clamp(min=FLOOR)).sum()
            if self.state.free.sites:
                x = self.state.free.unconstrained()
                total = total + self._free_terms(x, self.state.free.values(x))
            if self.state.hyper.sites:
                u = self.state.hyper.unconstrained()
                total = total + self._own_terms(self.state.hyper, u, self.state.hyper.values(u), trace)
        return self.priors(trace), float(total)

    def _conjugate_penalty(self, trace: Trace) -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        chains = self._prior_density().chains
        for name, parameter in self.state.parameters.items():
            term = self.rule.penalty(nodes(trace)[name]["fn"], parameter)
            total = total + per_chain(term, chains).mean()
        return total

    def _own_terms(
        self, gaussians: Gaussians, at: Mapping[str, Tensor], values: Mapping[str, Tensor], trace: Trace
    ) -> Tensor:
        """Expected log-prior plus entropy of Gaussian or point sites outside the plate of items."""
        chains = self._prior_density().chains
        total = gaussians.entropy(at, values)
        for name in gaussians.sites:
            if not self.sites[name].local:
                total = total + per_chain(nodes(trace)[name]["fn"].log_prob(values[name]), chains).mean()
        return total

    def _free_terms(self, at: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> Tensor:
        """Expected log-prior plus entropy of free sites, block by block for those of items."""
        density = self._prior_density()
        others = {n: x for n, x in self.prior_values().items() if n not in values}
        local = [n for n in values if self.sites[n].local]
        total: Tensor | None = None
        for number, block in enumerate(self.fold.blocks):
            if number and not local:
                break
            cut = self.fold.cut({**others, **values}, block)
            trace = density.trace(block, cut)
            if total is None:
                total = self._own_terms(self.state.free, at, values, trace)
            for name in local:
                total = total + per_chain(nodes(trace)[name]["fn"].log_prob(cut[name]), density.chains).mean()
        assert total is not None
        return total

    def _free_objective(self) -> tuple[float, list[Tensor]]:
        """Labels' term and priors as a function of the free sites' parameters."""
        free = self.state.free
        at = free.unconstrained()
        values = free.values(at)
        fixed = {n: x for n, x in self.values().items() if n not in values}
        given = {**fixed, **{n: x.detach() for n, x in values.items()}}
        total = self.fold(given, gradient=list(values))
        share = self.fold.density.chains or 1
        pull = sum(((total.gradient[n] / share) * values[n]).sum() for n in values)
        rest = self._free_terms(at, values)
        gradient = torch.autograd.grad(pull + rest, free.leaves)
        return float(total.objective.mean()) + float(rest.detach()), list(gradient)

    def _hyper_objective(self) -> tuple[float, list[Tensor]]:
        """Expected log-priors of the sites below the hyper sites: no pass over the labels."""
        hyper = self.state.hyper
        at = hyper.unconstrained()
        values = hyper.values(at)
        trace = self._prior_density().trace(self.fold.blocks[0], {**self.values(), **values})
        total = self._conjugate_penalty(trace) + self._own_terms(hyper, at, values, trace)
        if self.state.free.sites:
            own, mine = self.state.free, self.state.free.unconstrained()
            total = total + self._below(own, mine, values)
        gradient = torch.autograd.grad(total, hyper.leaves, allow_unused=True)
        leaves = hyper.leaves
        return float(total.detach()), [
            torch.zeros_like(x) if g is None else g for g, x in zip(gradient, leaves, strict=True)
        ]

    def _below(self, free: Gaussians, at: Mapping[str, Tensor], hyper: Mapping[str, Tensor]) -> Tensor:
        """Expected log-prior of the free sites as a function of the hyper sites."""
        density = self._prior_density()
        given = {**self.values(), **{n: x.detach() for n, x in free.values(at).items()}, **hyper}
        total = torch.zeros((), dtype=torch.float64)
        for block in self.fold.blocks:
            cut = self.fold.cut(given, block)
            trace = density.trace(block, cut)
            first = block is self.fold.blocks[0]
            for name, site in free.sites.items():
                if site.local or first:
                    term = per_chain(nodes(trace)[name]["fn"].log_prob(cut[name]), density.chains)
                    total = total + term.mean()
        return total
