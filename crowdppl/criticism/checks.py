"""Posterior predictive checks: labels that a fit draws, beside those that were given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl.core.validation import seed_number, whole_number
from crowdppl.criticism.design import Design
from crowdppl.criticism.statistics import (
    OF_ONE,
    STATISTICS,
    errors_of,
    of_numbers,
    of_pairs,
    of_rankings,
    of_triads,
    rankings_of,
    rarity,
    standardised,
    tied_alike,
)
from crowdppl.data.annotations import Annotations
from crowdppl.data.kinds.comparisons import PAIR
from crowdppl.data.kinds.rankings import RANKINGS
from crowdppl.inference.predict.update import draw_labels
from crowdppl.inference.result import Fit, require_fit
from crowdppl.plots.axes import ACCENT, LIGHT, axes_or_new, write_beside

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_check(check: Check, *, ax: Axes | None = None) -> Axes:
    """Draws each statistic of the data (diamond) among those of the replicates (dots, bar: central 95 %).

    All are in standard deviations from the mean of the replicates, so that they share an axis; on the right are
    the observed value, the mean that the model expects and the p-value of the statistic alone.
    """
    table = check.table.iloc[::-1]
    axes = axes_or_new(ax, 7.6, 1.2 + 0.5 * len(table))
    sd = np.where(table["sd"] > 0, table["sd"], 1)
    place, stream = np.arange(len(table)), np.random.default_rng(0)
    for n, name in enumerate(table.index):
        x = (check.replicates[name] - table["mean"].iloc[n]) / sd[n]
        axes.plot(x, n + stream.uniform(-0.18, 0.18, len(x)), ".", color=LIGHT, markersize=3, zorder=1)
    scaled = table[["low", "high", "observed"]].sub(table["mean"], axis=0).div(sd, axis=0)
    axes.hlines(place, scaled["low"], scaled["high"], color="0.45", linewidth=1.5, zorder=2)
    axes.plot(scaled["observed"], place, "D", color=ACCENT, markersize=6, zorder=3, clip_on=False)
    for n, (seen, mean, p) in enumerate(table[["observed", "mean", "p_value"]].itertuples(index=False)):
        write_beside(axes, n, f"{seen:.3g} (expected {mean:.3g})\np = {p:.2g}")
    axes.axvline(0, color="0.4", linestyle=":", linewidth=1, zorder=0)
    axes.set_yticks(place, [str(name) for name in table.index])
    axes.set(ylim=(-0.6, len(table) - 0.4), xlabel="standard deviations from what the model expects")
    title = f"{check.method}: data among {len(check.replicates)} replicates, p = {check.p_value:.2g}"
    axes.set_title(title, fontsize="medium")
    return axes


MIN_DRAWS = 20
UPWARD = ("class_shares", "pair_excess", "pair_misfit", "cycles")
"""Statistics of which only large values speak against a model."""


@dataclass(frozen=True, repr=False)
class Check:
    """How the labels compare with replicates that the fitted model drew.

    Attributes:
        method: the method that was fitted.
        table: DataFrame by statistic:

            - ``observed``: its value for the data
            - ``mean``, ``sd``, ``low``, ``high``: of the replicates, the last two of the central 95 %
            - ``p_value``: of this statistic alone
        p_value: one p-value for all statistics together, to be held against the level that is wanted.
        replicates: DataFrame draw x statistic.
        vote_spread: DataFrame by number of labels an item has, empty where labels are numbers:

            - ``items``: how many items have so many
            - ``observed``, ``mean``, ``low``, ``high``: variance over these items of the share of the top vote
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


def predictive_check(posterior: Fit, *, draws: int = 200, seed: int = 0) -> Check:
    """Tests whether the fitted model, run again, gives labels like those that were observed.

    A posterior predictive check (Rubin 1984, "Bayesianly justifiable and relevant frequency calculations"). A
    replicate keeps drawn parameters, and for each item a truth (and whatever else belongs to it) drawn given its
    labels; the same annotators then label the same items anew. A fit that gives points replicates at its point.

    The statistics, in which an abstention is an answer like others:

    - unanimous: share of items, of those with at least two labels, whose labels are all equal.
    - pair_agreement: share of equal pairs of labels of an item, over all such pairs.
    - class_shares: how far annotators differ in what they answer: variance of their shares of each answer around
      those of all labels, weighted by labels and summed over answers.
    - vote_spread: variance over items of the share of the most frequent answer, around its mean among items with as
      many labels. Large where some items are harder than others.
    - pair_excess: the largest agreement of two annotators, in standard deviations from what the replicates expect
      of these two. Agreement on an answer weighs one over the root of the product of its probabilities, at this
      item, for the one and for the other: shared errors weigh more. Large where one copies the other.
    - pair_misfit: mean square of these distances over pairs of annotators. Large where groups depend on each other.
    - cycles, of comparisons alone: of three objects of which each two have a winner by most labels, the share in
      which each wins once. Large where objects lie on no one scale.

    Of labels that are numbers, in place of the first four:

    - within_items: root mean square distance of labels from the mean of their item, of items with several.
    - annotator_means, annotator_spreads: standard deviations over labels of their annotator's mean distance, and
      of its root mean square. Large where annotators differ in bias, and in precision.
    - tails: mean fourth power of distances from the annotator's mean one, in its standard deviations. Of Gaussian
      errors near 3, and larger where some labels are far out.

    Of rankings:

    - rank_agreement: mean over two rankings of a problem, and two objects of both, of 1 where both rank these alike
      and -1 where not: Kendall's tau, pooled. A tie counts 0; replicates have the ties of the data.
    - top_agreement, bottom_agreement: share of pairs of rankings of a problem that have the same object first, or
      last; of tied ones, each has a part.

    Two annotators of either agree by the product of their labels' distances from the mean of the item, less what
    the replicates expect of each, in standard deviations.

    pair_excess and pair_misfit are of annotators who share at least 10 items; of these, class_shares and cycles,
    p-values are upper tails, and two-sided otherwise. ``p_value`` belongs to the statistic that is farthest out:
    the largest distance of the data, in standard deviations, is ranked among the largest distances of the
    replicates, so that neither the number of statistics nor their dependence matters. P-values are mostly too
    large, because the fit has seen the data. By vb, sites that are drawn apart, though they depend on each other
    (as in ``robust_annotators``), make replicates too wide. Takes 8 bytes of memory a label and draw.

    Args:
        draws: number of replicates; p-values are multiples of 1 / (draws + 1).
        seed: of the replicates.

    Raises:
        MethodError: for fewer than 20 draws, a seed that is no whole number, or a model of your own whose labels
            cannot be drawn at given numbers.
        DataError: for anything but a posterior, or when no item has two labels, unless labels compare objects.

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
    posterior, seed = require_fit(posterior), seed_number(seed)
    draws = whole_number("draws", draws, MIN_DRAWS, "fewer say little of a tail, 200 are better")
    data, numbers = posterior.data, posterior.data.alphabet.kind.numeric
    design = Design.of(data, least=1 if data.alphabet.kind == PAIR else 2, numbers=numbers)
    answers = np.concatenate([design.answer[None], draw_labels(posterior, draws, seed, "posterior")])
    values, by_size = (_of_numbers if numbers else _of_classes)(data, design, answers)
    pooled = pd.DataFrame(values)
    replicates = pooled.iloc[1:].reset_index(drop=True).rename_axis("draw")
    table = _summary(pooled.to_numpy(), pooled.columns.rename("statistic"))
    p_value = max_statistic_p_value(pooled.to_numpy(), pooled.columns.isin(UPWARD))
    return Check(posterior.method, table, p_value, replicates, by_size)


def _of_classes(
    data: Annotations, design: Design, answers: np.ndarray
) -> tuple[dict[str, np.ndarray], pd.DataFrame]:
    """All statistics of classes, and the spread of votes by number of labels."""
    spread = np.stack([design.spread(row) for row in answers])
    sizes, n_items = design.sizes
    used = {name: of for name, of in STATISTICS.items() if len(sizes) or name in OF_ONE}
    values = {name: np.array([of(design, row) for row in answers]) for name, of in used.items()}
    if len(sizes):
        values["vote_spread"] = spread @ n_items / n_items.sum()
        values |= of_pairs(design, answers, rarity(answers, design.n_answers))
    by_size = _summary(spread, pd.Index(sizes, name="labels")).loc[:, ["observed", "mean", "low", "high"]]
    by_size.insert(0, "items", n_items)
    return values | of_triads(data, design, answers), by_size


def _of_numbers(
    data: Annotations, design: Design, answers: np.ndarray
) -> tuple[dict[str, np.ndarray], pd.DataFrame]:
    """All statistics of numbers or rankings, and an empty table."""
    ranked = data.alphabet.kind == RANKINGS
    if ranked:
        problem, ranking = rankings_of(data, design)
        answers = np.concatenate([answers[:1], tied_alike(answers[0], ranking, answers[1:])])
    # From the means of each row's own: the fit has seen the data, and expects means near those observed.
    errors = errors_of(design, answers)
    values = of_rankings(design, problem, ranking, answers) if ranked else of_numbers(design, errors)
    alike = np.broadcast_to(0, answers.shape)
    return values | of_pairs(design, alike, standardised(errors)), pd.DataFrame()


def max_statistic_p_value(pooled: np.ndarray, upward: np.ndarray) -> float:
    """The p-value of the first of n + 1 exchangeable rows, (n + 1, statistics), by its farthest statistic; of
    those that are ``upward``, bool (statistics,), only large values count.
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
    two_sided = np.minimum(len(pooled), 2 * np.minimum(above, below))
    columns = {
        "observed": observed,
        "mean": replicates.mean(0),
        "sd": replicates.std(0, ddof=1),
        "low": low,
        "high": high,
        "p_value": np.where(names.isin(UPWARD), above, two_sided) / len(pooled),
    }
    return pd.DataFrame(columns, index=names)
