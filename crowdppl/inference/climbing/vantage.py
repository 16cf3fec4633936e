"""What is seen from where a fit by em or vb stands: functions of its state alone, which move nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from pyro.poutine import Trace
from torch import Tensor

from crowdppl.inference.climbing.penalties import Penalties
from crowdppl.inference.climbing.rules import Rule
from crowdppl.inference.climbing.state import State
from crowdppl.inference.reading.fold import Fold, Total
from crowdppl.inference.reading.sites import Site

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Vantage:
    """A state, and the objective, counts and slopes there.

    ``counted``, ``logits`` and ``gaussians`` return tensors by name, so that their operations may be repeated.

    Args:
        fold: the story on all blocks; its density has as many chains as there are particles, if sites that are
            not conjugate touch labels, and none otherwise.
        rule: em's or vb's treatment of conjugate sites.
        state: where the fit is.
        fixed: values of sites that are not to move.
    """

    fold: Fold
    rule: Rule
    state: State
    fixed: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def sites(self) -> Mapping[str, Site]:
        """The story's sites."""
        return self.fold.sites

    @property
    def penalties(self) -> Penalties:
        """Everything in the objective but the labels' term."""
        return Penalties(self.fold, self.rule, self.state, self.fixed)

    @property
    def touching(self) -> bool:
        """Whether labels depend on a Gaussian directly, so that moving it costs a pass over them."""
        return any(self.sites[n].kind == "free" for n in self.state.gaussians.sites)

    @property
    def particles(self) -> int:
        """Particles that a pass adds up over."""
        return self.fold.density.chains or 1

    def values(self) -> Tensors:
        """The value of each site at which a pass over the labels is made."""
        gaussians = self.state.gaussians
        with torch.no_grad():
            return {**self.penalties.leaves(), **(gaussians.values() if self.touching else gaussians.means())}

    def passed(self, marginals: Sequence[str] = ()) -> tuple[Tensor, Total, Tensors]:
        """One pass: the objective less a network's penalty, the pass itself, and priors of conjugate sites."""
        total = self.fold(self.values(), gradient=list(self.state.parameters), marginals=marginals)
        penalties, trace = self.penalties, self._trace(total)
        objective = total.objective.mean() if total.objective.dim() else total.objective
        return objective + penalties.total(trace), total, penalties.priors(trace)

    def priors(self, total: Total) -> Tensors:
        """Natural parameters of the conjugate sites' priors, after a pass here."""
        return self.penalties.priors(self._trace(total))

    def _trace(self, total: Total) -> Trace:
        """What says the priors: the pass's own trace, unless Gaussians stood there at their means."""
        return self.penalties.trace() if self.state.gaussians.sites else total.trace

    def counted(self) -> Tensors:
        """One pass: the objective, and of each conjugate site its prior and its counts."""
        objective, total, priors = self.passed()
        counts = {f"count.{name}": total.gradient[name] for name in priors}
        return {"objective": objective, **counts, **{f"prior.{name}": x for name, x in priors.items()}}

    def logits(self, name: str) -> Tensors:
        """New logits of a one-hot site: given the truth's posterior, the objective is linear in it."""
        total = self.fold(self.values(), gradient=[name])
        return {"logits": total.gradient[name] / self.particles + self.penalties.mixture_gradient(name)}

    def gaussians(self, counts: Mapping[str, Tensor]) -> Tensors:
        """The objective as a function of the Gaussians (priors, entropy, labels where they touch any), and slopes.

        Args:
            counts: by which conjugate sites follow the Gaussians; none where these stay.
        """
        gaussians, penalties = self.state.gaussians, self.penalties
        at = gaussians.unconstrained()
        values = gaussians.values(at)
        trace = penalties.trace_at(values)
        conjugate = penalties.collapsed(trace, counts) if counts else penalties.conjugate(trace)
        total = penalties.gaussian(at, values, trace) + conjugate
        objective = total.detach()
        if self.touching:
            free = [n for n in values if self.sites[n].kind == "free"]
            given = {**penalties.leaves(), **{n: x.detach() for n, x in values.items()}}
            labels = self.fold(given, gradient=free)
            objective = objective + labels.objective.mean()
            for name in free:  # the pass returns numbers; this gives them back their dependence
                total = total + ((labels.gradient[name] / self.particles) * values[name]).sum()
        found = torch.autograd.grad(total, gaussians.leaves, allow_unused=True)
        pairs = enumerate(zip(found, gaussians.leaves, strict=True))
        return {"objective": objective} | {
            f"slope.{i}": torch.zeros_like(x) if g is None else g for i, (g, x) in pairs
        }
