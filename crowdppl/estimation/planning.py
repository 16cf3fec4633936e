"""How many items people should label, by simulated studies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from crowdppl.core.intervals import check_level
from crowdppl.core.validation import number_within, one_of, seed_number, share_between, whole_number
from crowdppl.errors import MethodError
from crowdppl.estimation.drawing import DRAWN_FOR, drawn, is_number_proxy, sizes
from crowdppl.estimation.estimate import METHODS, estimate
from crowdppl.estimation.figures import ridge
from crowdppl.estimation.inputs import (
    Proxy,
    are_numbers,
    labels_by_people,
    rows_of,
    shares_of_labels,
    worth_of_labels,
)
from crowdppl.estimation.refusals import FEWEST
from crowdppl.results.correction import softmax
from crowdppl.results.votes_map import VotesMap, centred_logs

ROUNDS = 6
FIRST = 12
"""Studies of a round that looks for about the number."""
MOST = 0.9
"""Share of the items that simulated people label, at most: of all, there is nothing to estimate."""
NEAR = 0.2
"""Numbers of labels that differ by less are near enough to scale intervals by the root of the number."""


@dataclass(frozen=True, eq=False, repr=False)
class StudyPlan:
    """How many items people should label for what is promised.

    Attributes:
        labels: the number.
        items: how many there are.
        promise: what is promised, in words.
        studies: DataFrame of the last simulated studies, of about as many labels: the ``figure`` of all items;
            ``estimate``, ``low`` and ``high``, missing where it was refused; ``needed``, how many labels would have
            done.

    Examples:
        >>> import pandas as pd
        >>> judge = pd.Series(["yes", "no", "no", "yes", "no"] * 80)
        >>> crowdppl.plan_estimate("share", judge, of="yes", width=0.1, error=0.1, studies=20).items
        400
    """

    labels: int
    items: int
    promise: str
    studies: pd.DataFrame

    def __repr__(self) -> str:
        return f"{self.labels:,} of {self.items:,} items labelled by people for {self.promise}"


def plan_estimate(
    quantity: Literal["share", "mean", "accuracy", "difference", "win_rate"],
    proxy: Any,
    people: Any = None,
    *,
    of: Any = None,
    tie: Any = None,
    width: float | None = None,
    above: float | None = None,
    below: float | None = None,
    power: float = 0.8,
    error: float | None = None,
    draw: Literal["random", "suggested"] = "random",
    method: Literal["auto", "people", "ppi", "ppi++", "linear", "map"] = "auto",
    level: float = 0.95,
    studies: int = 40,
    seed: int = 0,
) -> StudyPlan:
    """How many items people should label, so that an interval is as narrow as promised, or shows what is claimed.

    Studies are simulated: labels by people of all items, a sample of them, and its estimate. The number is that at
    which the promise is kept in a share ``power`` of studies. What people would say is drawn from a map of the
    proxy to labels of a pilot, fitted to another half of the pilot in each study; or from the proxy with the
    ``error`` that is assumed. Without either, labels have the proxy's shares of classes and nothing to do with its
    items: the number then is that of people alone.

    Args:
        quantity, of, tie, method, level: as for ``estimate``.
        proxy: of all items, as for ``estimate``.
        people: labels of a pilot: of a few dozen items, drawn as the others will be. They count among the labels.
        width: of the interval, from end to end.
        above, below: numbers that the whole interval is to lie above, or below.
        power: share of studies in which this is so.
        error: instead of a pilot, the share of items on which people say other than the proxy's most probable
            class; of numbers, the standard deviation of people's less the proxy's.
        draw: whether items are drawn at "random", or as "suggested" by ``draw_items``.
        studies: how many are simulated at the number that is given.
        seed: of the simulation.

    Raises:
        MethodError: where nothing is promised, the claim is false in too many simulated studies, or options are
            out of range.
        DataError: for people or a proxy that ``estimate`` refuses.

    Examples:
        >>> import pandas as pd
        >>> judge = pd.Series(["yes", "no", "no", "yes", "no"] * 80)
        >>> plan = crowdppl.plan_estimate("share", judge, of="yes", width=0.1, error=0.1, studies=20)
        >>> alone = crowdppl.plan_estimate("share", judge, of="yes", width=0.1, studies=20)
        >>> plan.labels < alone.labels < 400
        True
    """
    one_of("quantity", quantity, DRAWN_FOR)
    one_of("draw", draw, ("random", "suggested"))
    one_of("method", method, METHODS)
    check_level(level)
    power, seed, studies = share_between("power", power), seed_number(seed), whole_number("studies", studies, 10)
    promise = Promise.of(width, above, below)
    if people is None:
        labels, numbers = pd.Series(dtype=object), is_number_proxy(proxy, quantity)
    else:
        labels = labels_by_people(people)
        numbers = quantity == "mean" and are_numbers(labels)
    known = Proxy.of(proxy, labels, None, numbers)
    people_say = PeopleSay.of(known, labels, error)
    figure = {"quantity": quantity, "of": of, "tie": tie, "method": method, "level": level}
    size, scope = sizes(known, quantity, of, tie)
    size = size if draw == "suggested" else np.ones(len(scope))
    study = Study.of(people_say, figure, scope, size)
    most = max(1, int(MOST * len(scope)))
    n = min(max(labels.index.nunique(), 3 * FEWEST), most)
    count = min(FIRST, studies)
    for turn in range(ROUNDS):
        streams = [np.random.default_rng([seed, turn, number]) for number in range(count)]
        table = pd.DataFrame([study.run(n, stream) for stream in streams])
        table["needed"] = promise.needed(table, n, len(scope), n == most)
        needed = float(np.quantile(table["needed"], power, method="higher"))
        if not np.isfinite(needed) and count == studies:
            raise MethodError(
                f"in {np.isinf(table['needed']).mean():.0%} of simulated studies, no number of labels gives "
                f"{promise}, so that none has power={power:g}; claim less, or have a larger pilot"
            )
        labels_needed = int(np.ceil(min(max(needed, FEWEST), len(scope))))
        near = abs(min(labels_needed, most) - n) <= NEAR * n
        if near and count == studies:
            break
        count = studies if near or turn >= ROUNDS // 2 else count
        n = min(labels_needed, most)
    return StudyPlan(labels_needed, len(scope), f"{promise} in {power:.0%} of studies", table)


@dataclass(frozen=True)
class Promise:
    """What an interval is to be: so narrow, above a number, below a number."""

    width: float | None
    above: float | None
    below: float | None

    @classmethod
    def of(cls, width: Any, above: Any, below: Any) -> Promise:
        """MethodError where nothing is promised, or a width that is none."""
        if width is None and above is None and below is None:
            raise MethodError("nothing is promised; give width=, above= or below=")
        if width is not None:
            width = number_within("width", width, "a number above 0", lambda x: x > 0)
        ends = [
            None if end is None else number_within(name, end, "a number", np.isfinite)
            for name, end in (("above", above), ("below", below))
        ]
        return cls(width, *ends)

    def __str__(self) -> str:
        parts = (("width", "at most "), ("above", "above "), ("below", "below "))
        named = [f"{word}{getattr(self, name):g}" for name, word in parts if getattr(self, name) is not None]
        return f"an interval {'wide ' if self.width is not None else ''}{' and '.join(named)}"

    def needed(self, found: pd.DataFrame, n: int, items: int, most: bool) -> np.ndarray:
        """Labels with which each study, of n, would have kept it; squared errors and widths fall as 1/n - 1/N.

        Infinite where none do, and where a study is refused with the ``most`` labels.
        """
        factors = [np.full(len(found), np.inf)]  # by which errors may be multiplied
        for end, sign, side in ((self.above, 1, "low"), (self.below, -1, "high")):
            if end is not None:
                reach = sign * (found["figure"] - found[side])
                room = sign * (found["figure"] - end)
                factors.append(np.where(room <= 0, 0.0, room / np.clip(reach, 1e-12, None)))
        if self.width is not None:
            factors.append(self.width / np.clip(found["high"] - found["low"], 1e-12, None))
        factor = np.min(factors, axis=0)
        with np.errstate(divide="ignore"):
            labels = 1 / (1 / items + np.minimum(factor, 1e6) ** 2 * (1 / n - 1 / items))
        labels = np.where(factor > 0, labels, np.inf)
        return np.where(found["low"].isna(), np.inf if most else 2.0 * n, labels)


@dataclass(frozen=True, eq=False)
class PeopleSay:
    """What people would say of all items: classes or numbers, drawn anew for each study."""

    known: Proxy
    row: np.ndarray
    said: np.ndarray
    error: float | None

    @classmethod
    def of(cls, known: Proxy, labels: pd.Series[Any], error: Any) -> PeopleSay:
        """From a pilot (the rows that people labelled, and what they said) or an error that is assumed."""
        n = len(known.items)
        if error is not None and len(labels):
            raise MethodError("a pilot shows the error; give its labels or an assumed error, not both")
        if known.classes is None:
            if error is not None:
                error = number_within("error", error, "a number above 0", lambda x: x > 0)
            mean = labels.groupby(level=0).mean() if len(labels) else labels
            return cls(known, rows_of(mean, known.items), mean.to_numpy(float), error)
        if error is not None:
            most = 1 - 1 / len(known.classes)
            wanted = f"a number above 0 and below {most:.3g}, of labels by chance"
            error = number_within("error", error, wanted, lambda x: 0 < x < most)
        if not len(labels):
            return cls(known, np.empty(0, np.int64), np.empty((0, len(known.classes))), error)
        shares = shares_of_labels(labels, known.classes, rows_of(labels, known.items), n)
        row = np.flatnonzero(shares.sum(1))
        return cls(known, row, shares[row], error)

    def drawn(self, stream: np.random.Generator) -> np.ndarray:
        """Of each item, a class's code or a number, (N,)."""
        half = stream.permutation(len(self.row))[: (len(self.row) + 1) // 2]  # differs as another pilot would
        if self.known.classes is None:
            return self._numbers(half, stream)
        p = self._probabilities(half)
        return np.asarray(np.minimum((p.cumsum(1) < stream.random((len(p), 1))).sum(1), p.shape[1] - 1))

    def _probabilities(self, chosen: np.ndarray) -> np.ndarray:
        forecast = self.known.forecast
        if len(chosen):
            return VotesMap.of([forecast], self.known.data).fitted(self.row[chosen], self.said[chosen])
        if self.error is None:
            data = self.known.data
            share = forecast.mean(0) if data is None else data.votes().sum(0)
            return np.broadcast_to(share / share.sum(), forecast.shape)
        return self._softened(self.error)

    def _softened(self, error: float) -> np.ndarray:
        """The forecast to a power at which its most probable class is wrong as often as is assumed."""
        from scipy.optimize import brentq  # slow to import

        logs = centred_logs(self.known.forecast)

        def excess(log_power: float) -> float:
            return float(1 - softmax(np.exp(log_power) * logs).max(1).mean()) - error

        ends = -12.0, 12.0
        if excess(ends[1]) >= 0:  # of ties, nobody knows which is right
            return np.asarray(softmax(np.exp(ends[1]) * logs))
        return np.asarray(softmax(np.exp(brentq(excess, *ends)) * logs))

    def _numbers(self, chosen: np.ndarray, stream: np.random.Generator) -> np.ndarray:
        forecast, n = self.known.forecast, len(self.known.items)
        if len(chosen):
            fitted = ridge(forecast, self.row[chosen], self.said[chosen])
            left = self.said[chosen] - fitted[self.row[chosen]]
            spread = np.sqrt(len(chosen) / max(1, len(chosen) - forecast.shape[1] - 1))
            return np.asarray(fitted + spread * stream.choice(left, n))
        if self.error is None:
            return stream.choice(forecast[:, 0], n)
        return np.asarray(forecast[:, 0] + self.error * stream.normal(size=n))


@dataclass(frozen=True, eq=False)
class Study:
    """A simulated study of a figure, whose items in scope (M,) are drawn by their size (M,)."""

    people: PeopleSay
    figure: dict[str, Any]
    scope: np.ndarray
    size: np.ndarray
    worth: np.ndarray | None

    @classmethod
    def of(cls, people: PeopleSay, figure: dict[str, Any], scope: np.ndarray, size: np.ndarray) -> Study:
        """With what each label of the items in scope is worth to the figure (M, K), None of numbers."""
        known = people.known
        if known.classes is None:
            return cls(people, figure, scope, size, None)
        worth, _ = worth_of_labels(figure["quantity"], figure["of"], known, figure["tie"])
        return cls(people, figure, scope, size, worth[scope])

    def run(self, n: int, stream: np.random.Generator) -> dict[str, float]:
        """The figure of all items, its estimate from n labelled ones and the interval; NaN where it is refused."""
        known, said = self.people.known, self.people.drawn(stream)[self.scope]
        first, chance = drawn(self.size, n, stream.exponential(size=len(self.size)))
        ids, seed = known.items[self.scope], int(stream.integers(2**31))
        value = said if self.worth is None else self.worth[np.arange(len(said)), said]
        labels = said[first] if known.classes is None else known.classes.to_numpy()[said[first]]
        chances = pd.Series(chance, ids) if np.ptp(self.size) else None
        found = {"figure": float(value.mean())}
        try:
            seen = estimate(
                people=pd.Series(labels, ids[first]), proxy=known, chances=chances, seed=seed, **self.figure
            )
        except MethodError:  # too few labels, or outcomes too rare among them
            return found | dict.fromkeys(("estimate", "low", "high"), np.nan)
        return found | {"estimate": seen.value, "low": seen.low, "high": seen.high}
