"""Whether labels look as a fitted model says that they should: posterior predictive checks."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd

from crowdppl.criticism.discrepancies import STATISTICS, Design, of_pairs
from crowdppl.doors import demands
from crowdppl.doors.counts import seed_number, whole_number
from crowdppl.pictures.check_plot import plot_check
from crowdppl.results.engines import ENGINES, Refit

if TYPE_CHECKING:
    from crowdppl.posterior import Posterior

FEWEST_DRAWS = 20
UPWARD = ("class_shares", "pair_excess", "pair_misfit")
"""Statistics of which only large values speak against a model."""


@dataclass(frozen=True, repr=False)
class Check:
    """How the labels compare with replicates that the fitted model drew.

    Attributes:
        method: the method that was fitted.
        table: DataFrame by statistic: observed; mean, sd, low and high (a central 95 % interval) of the replicates;
            p_value of this statistic alone.
        p_value: one p-value for all statistics together, to be held against the level that is wanted.
        replicates: DataFrame draw x statistic.
        vote_spread: DataFrame by number of labels an item has: items; observed, mean, low and high of the variance
            of the top vote share over these items.
    """

    method: str
    table: pd.DataFrame
    p_value: float
    replicates: pd.DataFrame
    vote_spread: pd.DataFrame

    plot = plot_check

    @property
    def worst(self) -> str:
        """The statistic that is farthest from its replicates, in their standard deviations."""
        # Where all replicates are equal, any other value is farthest of all, and theirs is not apart.
        apart = ((self.table["observed"] - self.table["mean"]) / self.table["sd"]).fillna(0)
        return str(apart.where(apart.index.isin(UPWARD), apart.abs()).idxmax())

    def __repr__(self) -> str:
        head = f"<Check of {self.method} on {len(self.replicates)} replicates: p = {self.p_value:.3g}>"
        return head + "\n" + self.table.to_string(float_format=lambda x: f"{x:.4g}")


def predictive_check(posterior: Posterior, *, draws: int = 200, seed: int = 0) -> Check:
    """Asks whether the fitted model, run again, gives labels like those that were observed.

    A posterior predictive check (Rubin 1984, "Bayesianly justifiable and relevant frequency calculations"; Gelman,
    Meng & Stern 1996, "Posterior predictive assessment of model fitness via realized discrepancies"). A replicate
    keeps drawn parameters, and for each item a truth (and whatever else belongs to it) drawn given its labels; the
    same annotators then label the same items anew. A fit that gives points replicates at its point.

    The statistics, in which an abstention is an answer like others:

    - unanimous: share of items, of those with at least two labels, whose labels are all equal.
    - pair_agreement: share of equal pairs of labels of an item, over all such pairs.
    - class_shares: how far annotators differ in what they answer: variance of their shares of each answer around
      those of all labels, weighted by labels and summed over answers.
    - vote_spread: variance over items of the share of the most frequent answer, around its mean among items with as
      many labels. Large where some items are harder than others.
    - pair_excess: the largest agreement of two annotators, in standard deviations from what the replicates expect
      of these two. An answer on which both agree weighs one over the root of the product of its probabilities, at
      this item, for the one and for the other: to err alike tells more than to be right alike. Large where
      one copies the other.
    - pair_misfit: mean square of these distances over pairs of annotators. Large where groups depend on each other.

    The last two look at pairs of annotators who share at least 10 items and are absent where there are none; their
    variances have 1 (a pair of labels, squared) added, so that pairs who share little do not decide. Of them and of
    class_shares only large values speak against a model, for replicates of a fit that has seen the labels vary more
    than these; their p-values are upper tails. Those of the others are two-sided.

    ``p_value`` belongs to the statistic that is farthest out. Each is measured in standard deviations from its
    mean, taken over data and replicates alike; the largest distance of the data is ranked among the largest
    distances of the replicates. If the data were one more replicate, "p_value at most 0.05" would be true of one
    data set in twenty, whatever the number of statistics and their dependence. They are not quite: the fit has
    seen them, so that replicates lie around the data and not around the truth. That mostly makes p-values too
    large, the more so for what the method fits outright, such as the pairs' agreement where labels are few. Drawing
    the truths anew as well would not mend it and would blur what is asked, which is how labels vary around a truth.
    The p-values in the table are not corrected for their number.

    With 500 items, 20 annotators and two classes, "at most 0.05" rejects a confusion matrix for each annotator on
    its own data, on data with difficult items and on data with three copiers in 0, 100 and 100 % of 50 simulations
    with 20 labels an item; in 8, 100 and 88 % with 10. Three copiers are hardly seen with 5.

    Takes 8 bytes of memory a label and draw.

    Args:
        posterior: what a fit returned.
        draws: number of replicates; p-values are multiples of 1 / (draws + 1).
        seed: of the replicates.

    Raises:
        MethodError: for fewer than 20 draws, or a seed that is none.
        DataError: for what is no posterior, or when no item has two labels.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> check = crowdppl.predictive_check(posterior, draws=100, seed=0)
        >>> check.table.loc[["unanimous", "pair_agreement"], ["observed", "low", "high"]].round(2)
                        observed   low  high
        statistic
        unanimous           0.36  0.11  0.45
        pair_agreement      0.73  0.61  0.79
        >>> check.p_value <= 0.05
        False
    """
    posterior, seed = demands.require_posterior(posterior), seed_number(seed)
    draws = whole_number("draws", draws, FEWEST_DRAWS, "fewer say little of a tail, 200 are better")
    design = Design.of(posterior.data)
    engine = cast(Refit, import_module(ENGINES)) if posterior._refit is None else posterior._refit
    replicated = engine.draw_labels(posterior, draws, seed, "posterior")
    answers = np.concatenate([design.answer[None], replicated])
    spread = np.stack([design.spread(row) for row in answers])
    values = {name: np.array([of(design, row) for row in answers]) for name, of in STATISTICS.items()}
    values["vote_spread"] = spread @ design.sized / design.sized.sum()
    values |= of_pairs(design, answers)
    pooled = pd.DataFrame(values)
    replicates = pooled.iloc[1:].reset_index(drop=True).rename_axis("draw")
    table = _summary(pooled.to_numpy(), pooled.columns.rename("statistic"))
    by_size = _summary(spread, pd.Index(design.sizes, name="labels")).loc[:, ["observed", "mean", "low", "high"]]
    by_size.insert(0, "items", design.sized)
    return Check(
        posterior.method, table, farthest(pooled.to_numpy(), pooled.columns.isin(UPWARD)), replicates, by_size
    )


def farthest(pooled: np.ndarray, upward: np.ndarray) -> float:
    """The p-value of the first of n + 1 exchangeable rows by its farthest statistic.

    Args:
        pooled: (n + 1, statistics).
        upward: bool (statistics,), those of which only large values count.
    """
    sd = pooled.std(0)
    scaled = (pooled - pooled.mean(0)) / np.where(sd > 0, sd, 1)
    distance = np.where(upward, scaled, np.abs(scaled)).max(1)
    # Rows that are equal must count as ties whatever the rounding.
    return float((distance >= distance[0] * (1 - 1e-9)).mean())


def _summary(pooled: np.ndarray, names: pd.Index[Any]) -> pd.DataFrame:
    """The first row beside the others: (n + 1, names) to a DataFrame by name."""
    observed, replicates = pooled[0], pooled[1:]
    above, below = (1 + (replicates >= observed).sum(0)), (1 + (replicates <= observed).sum(0))
    low, high = np.quantile(replicates, [0.025, 0.975], axis=0)
    columns = {
        "observed": observed,
        "mean": replicates.mean(0),
        "sd": replicates.std(0, ddof=1),
        "low": low,
        "high": high,
        "p_value": np.where(names.isin(UPWARD), above, np.minimum(len(pooled), 2 * np.minimum(above, below)))
        / len(pooled),
    }
    return pd.DataFrame(columns, index=names)
