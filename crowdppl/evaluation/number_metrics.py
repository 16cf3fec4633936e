"""Metrics of truths that are numbers, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, cast

import numpy as np
import pandas as pd

from crowdppl.baselines import Aggregation
from crowdppl.core.intervals import of_share
from crowdppl.core.validation import warn
from crowdppl.data.gold import rows_of_truths, true_numbers
from crowdppl.data.ids import by_item
from crowdppl.data.kinds.rankings import OF_RANKS, RANKINGS
from crowdppl.data.kinds.space import RealLine, number_space
from crowdppl.errors import CrowdpplWarning, GoldLeakWarning, MethodError
from crowdppl.inference.result import Fit
from crowdppl.results.truths import truth as truth_table


def scores(space: RealLine, estimate: np.ndarray, truth: np.ndarray, held: np.ndarray) -> dict[str, np.ndarray]:
    """The scores of ``NumberEvaluation``, (...), of items on the last axis; ``held``: whether intervals hold."""
    error = space.error(estimate, truth)
    return {
        "mae": np.abs(error).mean(-1),
        "rmse": np.sqrt((error**2).mean(-1)),
        "bias": error.mean(-1),
        "correlation": space.correlation(estimate, truth),
        "coverage": held.mean(-1),
    }


class Scores:
    """A dataclass as a mapping from the names of its scores: those of its fields that are compared."""

    def keys(self) -> Iterator[str]:
        """Names of the scores."""
        return (part.name for part in fields(cast(Any, self)) if part.compare)

    def __getitem__(self, name: str) -> float:
        """A score by its name."""
        if name not in self.keys():
            raise KeyError(name)
        value: float = getattr(self, name)
        return value


@dataclass(frozen=True)
class NumberEvaluation(Scores):
    """Scores of estimated numbers; ``dict(evaluation)`` and ``evaluation["rmse"]`` work.

    Attributes:
        n, unscored: items that were scored; items with a known truth that are not in the posterior.
        mae: mean absolute error of the estimates.
        rmse: root of the mean squared error.
        bias: mean error, estimate minus truth.
        correlation: Pearson's, of estimate and truth; NaN where either does not vary. Of angles, errors are the
            shorter way round, and the correlation is that of Fisher & Lee (1983).
        coverage: share of the truths that lie in the items' intervals.
        scored: DataFrame by item with estimate, truth and held, whether its interval holds the truth.
        space: where truths lie.
        resamples, level, seed: of ``intervals``.
    """

    n: int
    unscored: int
    mae: float
    rmse: float
    bias: float
    correlation: float
    coverage: float
    scored: pd.DataFrame = field(repr=False, compare=False)
    space: RealLine = field(repr=False, compare=False)
    resamples: int = field(repr=False, compare=False)
    level: float = field(repr=False, compare=False)
    seed: int = field(repr=False, compare=False)

    def intervals(self) -> pd.DataFrame:
        """Bootstrap intervals over items: DataFrame by score with value, low and high.

        They are percentiles; a coverage of 0 or 1, which resamples share, has the exact binomial interval.
        """
        columns = self.scored.sort_values(["truth", "estimate"]).to_numpy(np.float64).T
        drawn = np.random.default_rng(self.seed).integers(self.n, size=(self.resamples, self.n))
        tails = ((1 - self.level) / 2, (1 + self.level) / 2)
        known = {name: x[~np.isnan(x)] for name, x in scores(self.space, *columns[:, drawn]).items()}
        found = {name: np.quantile(x, tails) if len(x) else (np.nan, np.nan) for name, x in known.items()}
        table = pd.DataFrame.from_dict(found, orient="index", columns=["low", "high"])
        if self.coverage in (0, 1):
            table.loc["coverage"] = of_share(self.coverage, self.n, self.level)
        table.insert(0, "value", [self[name] for name in table.index])
        return table.rename_axis("score")


@dataclass(frozen=True)
class RankingEvaluation(NumberEvaluation):
    """Scores of estimated ranks.

    Attributes:
        kendall: Kendall's tau-b of estimated and known ranks, the mean over problems with two known ranks or more;
            NaN where there is none.
    """

    kendall: float


def warn_of_gold(posterior: Fit | Aggregation, row: np.ndarray) -> None:
    """Warns where the fit was given truths of the items that are scored, by their codes; baselines use none."""
    given = 0 if isinstance(posterior, Aggregation) else int(posterior.data.is_known[row].sum())
    if given:
        warn(
            f"the fit was given {given} of the {len(row)} truths that are scored here, so that scores look better "
            "than they are; leave them out of gold",
            GoldLeakWarning,
        )


def evaluate_numbers(
    posterior: Fit | Aggregation, gold: Any, bootstrap: int, level: float, seed: int
) -> NumberEvaluation:
    """Scores estimates and intervals of a level; arguments and errors as of ``evaluate``."""
    from scipy.stats import kendalltau  # slow to import

    data = posterior.data
    known = by_item(data.truths_by_id(gold))
    if isinstance(posterior, Aggregation):
        table = posterior.truth().assign(low=np.nan, high=np.nan)
    else:
        table = truth_table(posterior, level)
    row = rows_of_truths(data.items, known.index)
    there = known[row >= 0]
    unscored = len(known) - len(there)
    if unscored:
        warn(f"{unscored} of {len(known)} items with a known truth are not in the posterior", CrowdpplWarning)
    space = number_space(data.space)
    truth = true_numbers(there, space)
    grades = pd.to_numeric(posterior.data.alphabet.classes.ids.to_series(), errors="coerce")
    if np.isin(truth, grades).all():
        raise MethodError(
            f"the truths that {posterior.method} tells are places on a scale, and these are grades; compare with "
            "them the column 'grade' of fair_averages(); plot_raters() draws the places"
        )
    warn_of_gold(posterior, row[row >= 0])
    found = table.iloc[row[row >= 0]]
    low, high = found[["low", "high"]].to_numpy(np.float64).T
    held = np.where(np.isnan(low), np.nan, space.holds(low, high, truth))
    scored = pd.DataFrame({"estimate": found["estimate"], "truth": truth, "held": held})
    values: dict[str, Any] = {n: float(x) for n, x in scores(space, *scored.to_numpy(np.float64).T).items()}
    values |= {"scored": scored, "space": space, "resamples": bootstrap, "level": level, "seed": seed}
    if data.alphabet.kind == RANKINGS and data.item_covariates is not None:
        problem = data.item_covariates[OF_RANKS[0]].cat.codes.to_numpy()[row[row >= 0]]
        own = [x for _, x in scored.groupby(problem) if len(x) > 1]
        tau = [kendalltau(x["estimate"], x["truth"])[0] for x in own]
        return RankingEvaluation(len(truth), unscored, **values, kendall=float(np.mean(tau)) if tau else np.nan)
    return NumberEvaluation(len(truth), unscored, **values)
