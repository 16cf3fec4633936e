"""Angles: directions, poses, hues or times of day, in degrees or radians."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

import numpy as np

from crowdppl.core.intervals import Estimate, check_level
from crowdppl.data.kinds.kind import Kind
from crowdppl.data.kinds.numbers import Numbers
from crowdppl.data.kinds.space import POINTS, RealLine

DEGREES = "degrees"
UNITS = {DEGREES: 360.0, "radians": 2 * math.pi}
"""A whole turn in each unit."""
LEAST = 1e-9
"""Length of a mean resultant below which its direction is rounding."""


@dataclass(frozen=True)
class Circle(RealLine):
    """Angles from 0 to below a whole turn.

    The mean is the direction of the mean of points on the circle, and the standard deviation the root of their mean
    squared distance from it along chords (the angular deviation of Batschelet 1981): that of labels close together
    is the usual one, and the largest, of uniform angles, 81 degrees. Intervals are those of a von Mises
    distribution, around its mean; one that crosses 0 has a low end above its high end.

    Args:
        unit: "degrees" or "radians".

    Examples:
        >>> crowdppl.primitives.Circle(unit="degrees").error(1.0, 359.0).item()
        2.0
    """

    scale: ClassVar[str] = "circular"
    ordered: ClassVar[bool] = False
    unit: str = DEGREES

    @property
    def turn(self) -> float:
        """A whole turn in the unit of the angles."""
        return UNITS[self.unit]

    @property
    def radian(self) -> float:
        """A radian in the unit of the angles."""
        return self.turn / (2 * math.pi)

    @property
    def words(self) -> str:
        """What a number of the space is, for messages."""
        return f"an angle from {-self.turn:.5g} to {self.turn:.5g} {self.unit}"

    def contains(self, x: np.ndarray) -> np.ndarray:
        """Angles of up to one turn, either way."""
        return np.asarray(np.abs(x) <= self.turn)

    def canonical(self, x: np.ndarray) -> np.ndarray:
        """Angles from 0 to below one turn."""
        wrapped = np.asarray(x) % self.turn
        return np.where(wrapped == self.turn, 0.0, wrapped)  # of -1e-20, rounding makes a whole one

    def nearest(self, x: np.ndarray) -> np.ndarray:
        """The angles that are so many turns more or less."""
        return self.canonical(x)

    def remedy(self, x: float) -> str:
        """To say the unit, where an angle in radians may be one in degrees."""
        meant = self.turn < abs(x) <= UNITS[DEGREES]
        return f"if labels are in {DEGREES}, say unit={DEGREES!r}; if not, correct it" if meant else "correct it"

    def suspicion(self, x: np.ndarray) -> str:
        """That angles in degrees may be radians, as where all are small."""
        turn = UNITS["radians"]
        if self.unit != DEGREES or not len(x) or x.min() < -turn / 2 or x.max() > turn or not x.any():
            return ""
        return f"all {len(x)} lie between {x.min():.3g} and {x.max():.3g} degrees, as if they were radians"

    def moments(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Cosine and sine."""
        return np.cos(x / self.radian), np.sin(x / self.radian)

    def estimate(self, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Circular mean and angular deviation."""
        length = np.minimum(np.hypot(first, second), 1)
        mean = self.canonical(np.where(length < LEAST, 0.0, np.arctan2(second, first)) * self.radian)
        return mean, self.radian * np.sqrt(2 * (1 - length))

    def variance(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """That of the normal distribution which, wrapped, has these averages, in square radians."""
        return np.asarray(-2 * np.log(np.clip(np.hypot(first, second), LEAST, 1)))

    def interval(self, mean: np.ndarray, sd: np.ndarray, level: float) -> Estimate:
        """The arc around the mean that holds a share ``level`` of a von Mises distribution."""
        check_level(level)
        length, factor = _half_arcs(level)
        half = sd * np.interp(1 - (sd / self.radian) ** 2 / 2, length, factor)
        return Estimate(mean, sd, self.canonical(mean - half), self.canonical(mean + half))

    def holds(self, low: np.ndarray, high: np.ndarray, truth: np.ndarray) -> np.ndarray:
        """Whether a truth lies on the way up from the low end to the high one."""
        return np.asarray((np.asarray(truth) - low) % self.turn <= (np.asarray(high) - low) % self.turn)

    def error(self, estimate: np.ndarray, truth: np.ndarray) -> np.ndarray:
        """The shorter way from the truth to the estimate; negative where it goes down."""
        apart = np.asarray(estimate) - truth
        return np.asarray(apart - self.turn * np.round(apart / self.turn))

    def correlation(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """That of Fisher & Lee (1983, Biometrika 70: 327-332), of angles along the last axis; NaN as of numbers."""
        (c, s), (d, t) = self.moments(one), self.moments(other)
        joint = (c * d).sum(-1) * (s * t).sum(-1) - (c * t).sum(-1) * (s * d).sum(-1)
        own = ((x**2).sum(-1) * (y**2).sum(-1) - (x * y).sum(-1) ** 2 for x, y in ((c, s), (d, t)))
        scale = np.sqrt(np.maximum(np.prod([*own], axis=0), 0))
        return np.where(scale > LEAST, joint / np.where(scale > LEAST, scale, 1), np.nan)

    def summary(self, x: np.ndarray) -> dict[str, float]:
        """Circular mean and angular deviation."""
        mean, sd = self.estimate(*(moment.mean() for moment in self.moments(x)))
        return {"mean": round(float(mean), 3), "sd": round(float(sd), 3)}

    def grid(self, middle: float, scale: float) -> tuple[np.ndarray, np.ndarray]:
        """Points all around the circle, and the width of each."""
        return np.arange(POINTS) * self.turn / POINTS, np.full(POINTS, self.turn / POINTS)

    def coordinates(self, x: np.ndarray) -> np.ndarray:
        """Points of the unit circle."""
        return np.stack(self.moments(x), -1)


HALVINGS = 50
"""Of half the circle: so many leave nothing that float64 would tell."""


@lru_cache(maxsize=32)
def _half_arcs(level: float) -> tuple[np.ndarray, np.ndarray]:
    """Half the arc that holds a share of a von Mises distribution over its angular deviation, by mean resultant."""
    from scipy.special import i0e, i1e  # slow to import
    from scipy.stats import norm, vonmises

    concentration = np.logspace(-3, 5, 400)
    length = np.append(0.0, i1e(concentration) / i0e(concentration))
    low, high = np.zeros_like(concentration), np.full_like(concentration, math.pi)
    for _ in range(HALVINGS):  # scipy's quantiles take a second, as they are found one by one
        middle = (low + high) / 2
        below = vonmises.cdf(middle, concentration) < (1 + level) / 2
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    half = np.append(level * math.pi, (low + high) / 2)
    factor = half / np.sqrt(2 * (1 - length))
    return np.append(length, 1.0), np.append(factor, norm.ppf((1 + level) / 2))


@dataclass(frozen=True)
class Angles(Numbers):
    """Labels that are angles."""

    def in_unit(self, unit: str | None) -> Kind:
        """Angles in a unit."""
        found = super().in_unit(unit)
        return replace(found, space=Circle(found.unit or DEGREES))


ANGLE = Angles(
    "angle",
    "angles",
    "angles: directions, poses, hues, times of day",
    aliases=("degrees", "direction", "directions", "circular", "orientation"),
    units=tuple(UNITS),
    example=(("one", "two", "three", "four", "five", "six"), (355.0, 5.0, 95.0, 180.0)),
    methods=("von_mises_annotators",),
).in_unit(DEGREES)
