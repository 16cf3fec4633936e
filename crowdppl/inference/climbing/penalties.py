"""Everything in the objective of em and vb but the labels' term: what priors say, and entropies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from pyro.poutine import Trace
from torch import Tensor

from crowdppl.inference.climbing.rules import Rule
from crowdppl.inference.climbing.state import State
from crowdppl.inference.reading.density import FLOOR, Density
from crowdppl.inference.reading.families import DIRICHLET
from crowdppl.inference.reading.fold import Fold
from crowdppl.inference.reading.nodes import nodes
from crowdppl.inference.reading.sites import expected


@dataclass(frozen=True)
class Penalties:
    """What priors say of a state, and what of it is known already.

    Args:
        fold: the story on all blocks; priors of sites of items are read block by block.
        rule: em's or vb's treatment of conjugate sites.
        state: where the fit is.
        fixed: values of sites that do not move.
    """

    fold: Fold
    rule: Rule
    state: State
    fixed: Mapping[str, Tensor]

    def leaves(self) -> dict[str, Tensor]:
        """Values of all sites but the Gaussians."""
        leaves = {n: self.rule.leaf(x) for n, x in self.state.parameters.items()}
        onehot = {n: x.softmax(-1) for n, x in self.state.logits.items()}
        return {**self.fixed, **leaves, **onehot}

    def trace(self) -> Trace:
        """The story's trace at the current state, for the priors of global sites; no pass over labels."""
        with torch.no_grad():
            return self.trace_at(self.state.gaussians.values())

    def trace_at(self, values: Mapping[str, Tensor]) -> Trace:
        """The same at other values of the Gaussians, as particles."""
        return self.density.priors(self.fold.blocks[0], {**self.leaves(), **values})

    @property
    def density(self) -> Density:
        """The story's, with as many chains as there are particles."""
        density = self.fold.density
        return Density(density.model, density.plates, self.state.gaussians.chains, density.log_sites)

    def priors(self, trace: Trace) -> dict[str, Tensor]:
        """Natural parameters of the conjugate sites' priors, averaged over particles."""
        chains = self.density.chains
        out = {}
        for name in self.state.parameters:
            x = DIRICHLET.natural(nodes(trace)[name]["fn"])
            shape = self.fold.sites[name].shape(self.fold.n_items)
            mean = x if chains is None else x.expand(chains, *x.shape[1:]).mean(0)
            out[name] = mean.reshape(shape)
        return out

    def total(self, trace: Trace) -> Tensor:
        """All penalties at the current state."""
        with torch.no_grad():
            total = self.conjugate(trace)
            for logits in self.state.logits.values():
                total = total - (logits.softmax(-1) * logits.log_softmax(-1).clamp(min=FLOOR)).sum()
            gaussians = self.state.gaussians
            if gaussians.sites:
                at = gaussians.unconstrained()
                total = total + self.gaussian(at, gaussians.values(at), trace)
        return total

    def conjugate(self, trace: Trace) -> Tensor:
        """Of conjugate sites; expected over particles, where prior parameters are inferred too."""
        chains = self.density.chains
        total = torch.zeros((), dtype=torch.float64, device=self.fold.blocks[0].device)
        for name, parameter in self.state.parameters.items():
            total = total + expected(self.rule.penalty(nodes(trace)[name]["fn"], parameter), chains)
        return total

    def collapsed(self, trace: Trace, counts: Mapping[str, Tensor]) -> Tensor:
        """Of conjugate sites, when each is what its prior and these counts make of it, and the counts' term.

        The most that vb's objective can be under a truth that stays as it is: with ``B`` the integral of an
        unnormalised Dirichlet, ``log B(prior + counts) - log B(prior)``, the log-probability of the counts in an
        urn of Polya. Both logarithms are expected over particles; the first is of their mean prior, because the
        site has one posterior for all of them.
        """
        chains = self.density.chains
        total = torch.zeros((), dtype=torch.float64, device=self.fold.blocks[0].device)
        for name, prior in self.priors(trace).items():
            fn, parameter = nodes(trace)[name]["fn"], self.state.parameters[name]
            before = DIRICHLET.over(fn, lambda c, _: DIRICHLET.log_normaliser(c), parameter)
            total = total + DIRICHLET.log_normaliser(prior + counts[name]).sum() - expected(before, chains)
        return total

    def mixture_gradient(self, name: str) -> Tensor | float:
        """How a one-hot site enters the priors of conjugate sites (a community's own Dirichlet)."""
        with torch.no_grad():
            values = {**self.leaves(), **self.state.gaussians.values()}
        values[name] = values[name].detach().requires_grad_()
        total = self.conjugate(self.density.priors(self.fold.blocks[0], values))
        if not total.requires_grad:
            return 0.0
        (found,) = torch.autograd.grad(total, values[name], allow_unused=True)
        return 0.0 if found is None else found

    def gaussian(self, at: Mapping[str, Tensor], values: Mapping[str, Tensor], trace: Trace) -> Tensor:
        """Expected log-prior plus entropy; sites of items block by block, the others from the first's trace."""
        density, sites = self.density, self.fold.sites
        total = self.state.gaussians.entropy(at, values)
        for name in values:
            if not sites[name].local:
                total = total + expected(nodes(trace)[name]["fn"].log_prob(values[name]), density.chains)
        local = [n for n in values if sites[n].local]
        for number, block in enumerate(self.fold.blocks if local else ()):
            cut = self.fold.cut({**self.leaves(), **values}, block)
            found = nodes(trace if number == 0 else density.priors(block, cut))
            for name in local:
                total = total + expected(found[name]["fn"].log_prob(cut[name]), density.chains)
        return total
