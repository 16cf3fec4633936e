"""Steps of vb that look ahead: most of a slow climb is along a line that two iterations show.

Only for stories whose sites are Dirichlets, or Gaussians that are parameters of Dirichlets' priors, with which the
Dirichlets move. Not where other sites climb beside them by gradients (glad), whose state is no such line, nor where
some are one-hot (community), where it cost more passes over the labels of five real sets than it saved. Not for em,
whose published figures are of so many plain iterations: the maximum of a likelihood without priors may lie further
up a ridge, where labels are learned by heart.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from crowdppl.errors import NumericalError
from crowdppl.inference.climbing.ascent import Ascent

GROWTH = 4.0
"""By how much the longest step grows where it was taken and paid, and shrinks where looking ahead did not pay."""
KEPT = 0.1
"""Share of what a concentration would be without looking ahead that is left of it at least."""

Parameters = dict[str, Tensor]


@dataclass
class Extrapolation:
    """Iterations of which, from the third on, every second begins ahead of where the one before it ended.

    Two iterations from x0 to x1 = M(x0) and x2 = M(x1) show a direction and how it bends; the next begins at
    ``x0 + 2 s (x1 - x0) + s^2 (x2 - 2 x1 + x0)`` with ``s = |x1 - x0| / |x2 - 2 x1 + x0|`` (SQUAREM, scheme S3 of
    Varadhan & Roland 2008, "Simple and globally convergent methods for accelerating the convergence of any EM
    algorithm"). Where the objective there is no higher than at x1 by more than the tolerance, it begins at x2 after
    all, which costs a pass more. So the objectives of iterations never fall, and only those that did not look ahead
    are taken for settled.

    Args:
        ascent: a fit by vb, without one-hot sites, whose labels touch no Gaussian.
        tolerance: relative gain below which it has converged.
    """

    ascent: Ascent
    tolerance: float
    _past: list[Parameters] = field(default_factory=list)
    _last: float = float("-inf")
    _longest: float = GROWTH

    def step(self) -> float:
        """One iteration; returns the objective at its start."""
        if len(self._past) == 2:
            value = self._from_ahead(*self._past)
            if value is not None:
                return value
        self._past.append(self.ascent.state.copy())
        self._last = self.ascent.step()
        return self._last

    def _from_ahead(self, start: Parameters, middle: Parameters) -> float | None:
        """An iteration from the point ahead; None where it does not pay, and nothing has moved."""
        state, self._past = self.ascent.state, []
        here = state.copy()
        ahead, length = self._ahead(start, middle, here)
        if length <= 1:
            return None
        try:
            state.put(ahead)
            value = self.ascent.step()
        except NumericalError:  # too far: nothing is wrong with the fit itself
            value = float("-inf")
        except BaseException:  # Ctrl-C, too, leaves a state whose objective is known not to have fallen
            state.put(here)
            raise
        if not value - self._last > self.tolerance * (1 + abs(value)):
            state.put(here)
            self._longest = max(GROWTH, self._longest / GROWTH)
            return None
        if length == self._longest:
            self._longest *= GROWTH
        self._past, self._last = [ahead], value
        return value

    def _ahead(self, start: Parameters, middle: Parameters, here: Parameters) -> tuple[Parameters, float]:
        """The point ahead, and how long the step is; with length 1, it is ``here``."""
        lines = {n: (start[n], middle[n], here[n]) for n in here}
        first = sum(float((b - a).square().sum()) for a, b, _ in lines.values())
        bend = sum(float((c - 2 * b + a).square().sum()) for a, b, c in lines.values())
        length = min(self._longest, (first / bend) ** 0.5) if bend > 0 else 1.0
        if length <= 1:
            return here, 1.0
        found = {}
        for name, (a, b, c) in lines.items():
            x = a + 2 * length * (b - a) + length**2 * (c - 2 * b + a)
            found[name] = torch.maximum(x, KEPT * c) if name.startswith("parameter.") else x
        return found, length
