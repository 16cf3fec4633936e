"""More base draws for vb's Gaussians, where labels are so few that a draw costs little."""

from __future__ import annotations

from dataclasses import replace

from crowdppl.inference.climbing.ascent import Ascent
from crowdppl.inference.climbing.gaussians import PARTICLES
from crowdppl.inference.reading.problem import Problem

MOST, LABELS = 64, 40_000
"""Base draws at most, and the labels that all of them may see together.

The seed decides which draws they are. Of eight, an item's probabilities move by .01 in root mean square from seed
to seed where annotators have some 50 labels each, and single ones by .2; of 64 by a third of that."""


def enough(problem: Problem) -> int:
    """Base draws of a fit to so many labels."""
    return max(PARTICLES, min(MOST, LABELS // max(problem.n_labels, 1)))


def refined(problem: Problem, ascent: Ascent, seed: int) -> Ascent | None:
    """The same fit seen through more base draws, to go on from where it has settled; None where there are enough.

    Most of the way is climbed on few draws, each of which costs a pass; the last steps are a small part of it.

    Args:
        problem: story and data.
        ascent: a fit by vb or em.
        seed: of the base draws.
    """
    gaussians, particles = ascent.state.gaussians, enough(problem)
    if not gaussians.noise or not ascent.here.touching or particles <= (gaussians.chains or 0):
        return None
    finer = gaussians.with_particles(particles, problem.signatures, seed)
    fold = replace(ascent.fold, density=replace(ascent.fold.density, chains=particles))
    state = replace(ascent.state, gaussians=finer)
    return Ascent(fold, ascent.rule, state, ascent.fixed, repeats=ascent.repeats, kind=ascent.kind)
