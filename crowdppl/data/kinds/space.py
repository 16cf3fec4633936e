"""Where truths lie: classes, grades or numbers, and what a mean, an interval and an error are there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from crowdppl.core.intervals import Estimate, from_moments, from_share_moments

REACH, POINTS = 9.0, 2001
"""Of a grid that is dense in the middle, and reaches some 4,000 standard deviations out."""


@dataclass(frozen=True)
class Space:
    """Where the truths of items lie.

    Attributes:
        numeric: whether they are numbers.
        ordered: whether one may be larger than another.
    """

    numeric: ClassVar[bool] = False
    ordered: ClassVar[bool] = False


@dataclass(frozen=True)
class Categories(Space):
    """Classes without an order."""


@dataclass(frozen=True)
class Grades(Space):
    """Classes in an order."""

    ordered: ClassVar[bool] = True


@dataclass(frozen=True)
class RealLine(Space):
    """Numbers on a line: the base of all spaces of numbers, which replace what differs in them.

    Attributes:
        scale: of measurement, in the names of coefficients of agreement.
    """

    scale: ClassVar[str] = "interval"
    numeric: ClassVar[bool] = True
    ordered: ClassVar[bool] = True

    @property
    def words(self) -> str:
        """What a number of the space is, for messages."""
        return "a finite number"

    def contains(self, x: np.ndarray) -> np.ndarray:
        """Which finite numbers lie in the space."""
        return np.asarray(np.isfinite(x))

    def nearest(self, x: np.ndarray) -> np.ndarray:
        """Numbers of the space near any numbers, for small data of checks and examples."""
        return x

    def grid(self, middle: float, scale: float) -> tuple[np.ndarray, np.ndarray]:
        """Points of the space around a middle, (n,), and the width of each, over which densities are summed."""
        turn = np.linspace(-REACH, REACH, POINTS)
        return middle + scale * np.sinh(turn), scale * np.cosh(turn) * (turn[1] - turn[0])

    def canonical(self, x: np.ndarray) -> np.ndarray:
        """Numbers in the way in which they are kept."""
        return x + 0.0  # makes 0 of -0

    def remedy(self, x: float) -> str:
        """What to do about a number that does not lie in the space."""
        return "correct it"

    def suspicion(self, x: np.ndarray) -> str:
        """Why numbers that lie in the space may be meant otherwise; "" where nothing says so."""
        return ""

    def of_modelled(self, mean: np.ndarray, sd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Estimate and standard deviation of a truth, from those of the number that a model makes of it."""
        return mean, sd

    def moments(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Two functions of numbers whose averages ``estimate`` reads: here the number and its square."""
        return x, x**2

    def estimate(self, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of a distribution, from its averages of ``moments``."""
        return first, np.sqrt(self.variance(first, second))

    def variance(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """The variance of a distribution, from its averages of ``moments``, as labels count their information."""
        return np.asarray(np.maximum(second - first**2, 0))

    def mean(self, x: np.ndarray, axis: int = -1) -> np.ndarray:
        """The mean of numbers along an axis."""
        return self.estimate(*(moment.mean(axis) for moment in self.moments(x)))[0]

    def spread(self, x: np.ndarray, axis: int = -1) -> np.ndarray:
        """The standard deviation of numbers along an axis."""
        around = self.error(x, np.expand_dims(self.mean(x, axis), axis))
        return np.asarray(np.sqrt((around**2).mean(axis)))

    def interval(self, mean: np.ndarray, sd: np.ndarray, level: float) -> Estimate:
        """The central interval that holds a share ``level`` of a distribution of this mean and deviation."""
        return from_moments(mean, sd, level)

    def holds(self, low: np.ndarray, high: np.ndarray, truth: np.ndarray) -> np.ndarray:
        """Whether a truth lies in an interval."""
        return np.asarray((low <= truth) & (truth <= high))

    def error(self, estimate: np.ndarray, truth: np.ndarray) -> np.ndarray:
        """How far an estimate lies beyond the truth; negative before it."""
        return np.asarray(estimate - truth)

    def correlation(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Pearson's, of numbers along the last axis; NaN where either does not vary."""
        apart = [x - x.mean(-1, keepdims=True) for x in (one, other)]
        scale = np.sqrt((apart[0] ** 2).sum(-1) * (apart[1] ** 2).sum(-1))
        return np.where(scale > 0, (apart[0] * apart[1]).sum(-1) / np.where(scale > 0, scale, 1), np.nan)

    def summary(self, x: np.ndarray) -> dict[str, float]:
        """The least, the median, the mean and the largest of numbers."""
        middle = {"median": float(np.median(x)), "mean": round(float(x.mean()), 3)}
        return {"min": x.min().item(), **middle, "max": x.max().item()}

    def coordinates(self, x: np.ndarray) -> np.ndarray:
        """Numbers (...) as points (..., D), of which the squared distance tells how far numbers disagree."""
        return np.asarray(x)[..., None]


@dataclass(frozen=True)
class NonNegative(RealLine):
    """Numbers from 0 on, such as rates."""

    @property
    def words(self) -> str:
        """What a number of the space is, for messages."""
        return "a number from 0 on"

    def contains(self, x: np.ndarray) -> np.ndarray:
        """Those that are not negative."""
        return np.asarray(np.isfinite(x) & (x >= 0))

    def interval(self, mean: np.ndarray, sd: np.ndarray, level: float) -> Estimate:
        """The central interval of a Gamma distribution of this mean and deviation."""
        return from_moments(mean, sd, level, positive=True)


@dataclass(frozen=True)
class Positive(RealLine):
    """Numbers above 0 whose logarithms are modelled, as Gaussians; the estimate is the median.

    The mean would move with the width, of which ``shared`` is an assumption.
    """

    @property
    def words(self) -> str:
        """What a number of the space is, for messages."""
        return "a number above 0"

    def contains(self, x: np.ndarray) -> np.ndarray:
        """Those above 0."""
        return np.asarray(np.isfinite(x) & (x > 0))

    def nearest(self, x: np.ndarray) -> np.ndarray:
        """Numbers in the same order; 0 becomes 1."""
        return np.asarray(np.exp(x / (1 + np.abs(x))))

    def of_modelled(self, mean: np.ndarray, sd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The median and the standard deviation of a log-normal distribution, from those of its logarithm."""
        return np.exp(mean), np.exp(mean + sd**2 / 2) * np.sqrt(np.expm1(sd**2))

    def interval(self, mean: np.ndarray, sd: np.ndarray, level: float) -> Estimate:
        """The central interval of a log-normal distribution of this median, the ``mean``, and deviation."""
        square = (1 + np.sqrt(1 + 4 * (sd / mean) ** 2)) / 2  # (sd / median)^2 = square (square - 1)
        found = from_moments(np.log(mean), np.sqrt(np.log(square)), level)
        return Estimate(mean, sd, np.exp(found.low), np.exp(found.high))


@dataclass(frozen=True)
class Between(RealLine):
    """Numbers above a low end and below a high one, such as shares.

    Attributes:
        low, high: the ends, which lie outside.
    """

    low: float = 0.0
    high: float = 1.0

    @property
    def width(self) -> float:
        """From one end to the other."""
        return self.high - self.low

    @property
    def words(self) -> str:
        """What a number of the space is, for messages."""
        return f"a number above {self.low:g} and below {self.high:g}"

    def contains(self, x: np.ndarray) -> np.ndarray:
        """Those between the ends."""
        return np.asarray((self.low < x) & (x < self.high))

    def nearest(self, x: np.ndarray) -> np.ndarray:
        """Numbers in the same order; 0 becomes the middle, and 5 lies half way from there to the high end."""
        return np.asarray(self.low + self.width * (1 + x / (5 + np.abs(x))) / 2)

    def grid(self, middle: float, scale: float) -> tuple[np.ndarray, np.ndarray]:
        """Points that are even on the scale of log-odds, out to 1e-12 of the ends, and the width of each."""
        odds = np.linspace(-28, 28, POINTS)
        share, other = 1 / (1 + np.exp(-odds)), 1 / (1 + np.exp(odds))
        return self.low + self.width * share, self.width * share * other * (odds[1] - odds[0])

    def interval(self, mean: np.ndarray, sd: np.ndarray, level: float) -> Estimate:
        """The central interval of a Beta distribution of this mean and deviation, between the ends."""
        found = from_share_moments((mean - self.low) / self.width, sd / self.width, level)
        return Estimate(mean, sd, self.low + self.width * found.low, self.low + self.width * found.high)


CATEGORIES, GRADES, REAL_LINE, POSITIVE = Categories(), Grades(), RealLine(), Positive()


def number_space(space: Space) -> RealLine:
    """A space of numbers as it is; of truths that are numbers although labels are grades, the real line."""
    return space if isinstance(space, RealLine) else REAL_LINE
