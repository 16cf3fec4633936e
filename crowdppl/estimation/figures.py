"""Figures: a forecast's mean of all items, plus what it leaves of people's labels, and its variance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crowdppl.estimation import intervals
from crowdppl.estimation.designs import Design
from crowdppl.estimation.inputs import Proxy
from crowdppl.results.votes_map import VotesMap

RIDGE = 0.05
"""Of the linear proxy: its penalty by the number of labelled items, on columns of unit variance."""
PRIOR = 10
"""Residuals as the map forecasts them that are added to those seen, for few people miss rare errors."""


@dataclass(frozen=True, eq=False)
class Sample:
    """What people said of some of the items, and the proxy of all.

    Attributes:
        proxy: of all items.
        row: (n,) the items that people labelled.
        value: (n,) what their labels of an item are worth in the mean.
        fold: (n,) of cross-fitting.
        truth: (n, K) shares of the classes among their labels; None of numbers.
        worth: (N, K) what each label of each item is worth; None of numbers.
    """

    proxy: Proxy
    row: np.ndarray
    value: np.ndarray
    fold: np.ndarray
    truth: np.ndarray | None = None
    worth: np.ndarray | None = None

    @property
    def forecast(self) -> np.ndarray:
        """The proxy's forecast of the value, (N,): of several columns of numbers, the first."""
        proxy = self.proxy.forecast
        return np.asarray(proxy[:, 0] if self.worth is None else (proxy * self.worth).sum(1))

    def forecasts(self, method: str) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Of all items (N,), of labelled ones by fits without their fold (n,), and the variance of each (N,)."""
        n = len(self.proxy.items)
        if method == "people":
            return np.zeros(n), np.zeros(len(self.row)), None
        if method in ("ppi", "ppi++"):
            return self.forecast, self.forecast[self.row], None
        columns = self.columns() if method == "linear" else None
        votes = VotesMap.of([self.proxy.forecast], self.proxy.data)
        of_all, spread, held = np.zeros(n), np.zeros(n), np.empty(len(self.row))
        folds = np.unique(self.fold)
        for number in folds:
            out = self.fold == number
            if columns is None:
                new, variance = self._mapped(votes, ~out)
                spread += variance / len(folds)
            else:
                new = ridge(columns, self.row[~out], self.value[~out])
            of_all += new / len(folds)
            held[out] = new[self.row[out]]
        of_all[self.row] = held  # what was fitted to an item is no forecast of it
        return of_all, held, spread if columns is None else None

    def _mapped(self, votes: VotesMap, used: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the value, (N,) each, by a map fitted to some of the labelled items."""
        assert self.truth is not None and self.worth is not None
        p = votes.fitted(self.row[used], self.truth[used])
        mean = (p * self.worth).sum(1)
        return mean, (p * self.worth**2).sum(1) - mean**2

    def columns(self) -> np.ndarray:
        """Proxies of the value (N, J): the forecast's, then what labels of each able annotator are worth.

        Of annotators who labelled at least half of the items that people labelled; of others, the forecast.
        """
        data, worth = self.proxy.data, self.worth
        if worth is None:
            return self.proxy.forecast
        if data is None:
            return self.forecast[:, None]
        item, annotator, label = data.label_codes()
        named = label < worth.shape[1]
        item, annotator, value = item[named], annotator[named], worth[item[named], label[named]]
        here = np.isin(item, self.row)
        seen = np.bincount(annotator[here], minlength=data.n_annotators) >= len(self.row) / 2
        found = [self.forecast]
        for code in np.flatnonzero(seen):
            own = annotator == code
            total, count = (np.bincount(item[own], x, data.n_items) for x in (value[own], None))
            found.append(np.where(count > 0, total / np.maximum(count, 1), self.forecast))
        return np.column_stack(found)


@dataclass(frozen=True, eq=False)
class Figure:
    """Coefficients (P,) of a value on regressors, of which a mean is one.

    With their variance (P,), the influence of each labelled item (n, P), and how items were drawn.
    """

    value: np.ndarray
    variance: np.ndarray
    influence: np.ndarray
    design: Design

    @classmethod
    def of(
        cls,
        method: str,
        forecasts: tuple[np.ndarray, np.ndarray, np.ndarray | None],
        sample: Sample,
        among: np.ndarray,
        own: np.ndarray,
        x: np.ndarray,
        design: Design,
        beyond: bool,
        disjoint: bool,
    ) -> Figure:
        """The forecast's coefficients on all items, plus those of what it leaves of people's labels.

        Of rows ``own`` of the items and of the labelled ones ``among``. Where the population is ``beyond`` the
        items, these are its sample, too; ``disjoint``, as papers have it, without those that people labelled.
        """
        (every, held, spread), row, y = forecasts, sample.row[among], sample.value[among]
        held = held[among]
        shrink = _power(y, held, every[own], len(row) if disjoint else 0) if method == "ppi++" else 1.0
        own = np.setdiff1d(own, row) if disjoint else own
        f, held = shrink * every[own], shrink * held
        gram = np.linalg.pinv(x[own].T @ x[own] / len(own))
        of_all = gram @ (x[own] * f[:, None]).mean(0)
        weight = np.sqrt(design.weight)[:, None]
        rest = np.linalg.lstsq(weight * x[row], weight[:, 0] * (y - held), rcond=None)[0]
        left = y - held - x[row] @ rest
        influence = (x[row] @ gram) * left[:, None]
        variance = design.variance(influence)
        if spread is not None:
            seen, every_one = ((x[rows] @ gram) ** 2 * spread[rows, None] for rows in (row, own))
            part = np.average(seen, axis=0, weights=design.weight)
            seen *= np.divide(every_one.mean(0), part, np.ones_like(part), where=part > 0)
            variance = (len(row) * variance + PRIOR * design.variance_of(seen)) / (len(row) + PRIOR)
        if beyond:
            away = (x[own] @ gram) * (f - x[own] @ of_all)[:, None]
            variance = variance * ((len(row) - 1) / len(row) if disjoint else 1) + (away**2).mean(0) / len(own)
            if not disjoint:
                both = (x[row] @ gram) * (every[row] - x[row] @ of_all)[:, None] * influence
                variance = variance + 2 * both.mean(0) / len(own)
        return cls(of_all + rest, variance, influence, design)

    def ends(
        self, interval: str, level: float, planned: int, seed: int, normal: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """How far the ends of an interval lie below and above, (P,) each."""
        if interval == "anytime":
            return intervals.at_any_time(self.variance, len(self.influence), planned, level)
        if interval == "bootstrap":
            return intervals.by_bootstrap(self.design, self.influence, self.variance, level, seed)
        if normal:
            return intervals.by_normal(self.variance, level)
        return intervals.by_t(self.variance, self.design.degrees - self.influence.shape[1] + 1, level)


def _power(y: np.ndarray, held: np.ndarray, every: np.ndarray, apart: int) -> float:
    """By what PPI++ multiplies the proxy (Angelopoulos, Duchi & Zrnic 2023, section 6).

    Of the proxy of all items, of which as many as are ``apart`` do not count among those without people's labels.
    """
    spread = float(every.var(ddof=1))
    found = float(((y - y.mean()) * (held - held.mean())).mean()) / spread if spread > 0 else 0.0
    return float(np.clip(found * (1 - apart / len(every)), 0, 1))


def ridge(columns: np.ndarray, row: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Forecasts of all items by a ridge regression of values of some on the columns (N, J)."""
    centre, scale = columns[row].mean(0), columns[row].std(0)
    z = (columns - centre) / np.where(scale > 0, scale, 1)
    gram = z[row].T @ z[row] + RIDGE * len(row) * np.eye(z.shape[1])
    return np.asarray(value.mean() + z @ np.linalg.solve(gram, z[row].T @ (value - value.mean())))
