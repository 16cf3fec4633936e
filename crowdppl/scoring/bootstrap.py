"""How far scores would move with other items: the bootstrap, many resamples at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.scoring.scores import (
    BINS,
    ClassCounts,
    RankedErrors,
    bin_of,
    confidence_ranks,
    named,
    rank_correlation,
    right,
    squared_error,
    surprise,
)

AT_ONCE = 2**22
"""Weights that are held at a time."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """What scores were made from, and how it is resampled.

    Attributes:
        probabilities, truth: of the items, (N, K) and codes (N,).
        annotators: for ``annotator_scores`` the columns estimate, on gold and held, (A, 3); A may be 0.
        resamples: how many.
        level: probability of the intervals.
        seed: of the resamples.
    """

    probabilities: np.ndarray
    truth: np.ndarray
    annotators: np.ndarray
    resamples: int
    level: float
    seed: int

    def intervals(self, values: dict[str, float]) -> pd.DataFrame:
        """Bootstrap intervals of scores that have these values: DataFrame by score with value, low and high."""
        drawn = item_scores(self.probabilities, self.truth, self.resamples, self.seed)
        if len(self.annotators):
            drawn |= annotator_scores(self.annotators, self.resamples, self.seed)
        found = intervals(values, drawn, self.level)
        if found["low"].to_dict()["ece"] > 0:
            noise = errors_of_noise(self.probabilities, self.resamples, self.seed)
            if values["ece"] <= np.quantile(noise, (1 + self.level) / 2):
                found.loc["ece", "low"] = 0.0
        return found


def item_scores(
    probabilities: np.ndarray, truth: np.ndarray, resamples: int, seed: int = 0
) -> dict[str, np.ndarray]:
    """Every score of labels on resamples of the items, drawn with replacement.

    Items are sorted first, so that a seed means the same resamples whatever their order.

    Args:
        probabilities, truth: (N, K) and codes (N,).
        resamples: how many.
        seed: of the draws.

    Returns:
        By score, (resamples,); NaN in a resample in which the score does not exist.
    """
    order = np.lexsort((*probabilities.T, truth, confidence_ranks(probabilities)))
    items = WeightedItems.of(probabilities[order], truth[order])
    parts = [items.scores(weights) for weights in _weights(len(order), resamples, seed)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def errors_of_noise(probabilities: np.ndarray, resamples: int, seed: int = 0) -> np.ndarray:
    """Calibration errors that as many items have by chance where probabilities are right, (resamples,).

    Truths are drawn from the probabilities ("consistency resampling", Broecker & Smith 2007, "Increasing the
    reliability of reliability diagrams"). Only whether an item's most probable class is its truth matters; of m
    classes that tie, each is right in its share of cases and then counts 1/m.

    Args:
        probabilities: (N, K).
        resamples: how many.
        seed: of the draws.
    """
    confidence, ties = probabilities.max(1), (named(probabilities) > 0).sum(1)
    home, stream, n = bin_of(confidence), np.random.default_rng(seed), len(probabilities)
    order = np.lexsort((ties, confidence))  # a seed means the same draws whatever the order of items
    confidence, ties, home = confidence[order], ties[order], home[order]
    starts, size, out = np.flatnonzero(np.diff(home, prepend=-1)), max(1, AT_ONCE // n), []
    for done in range(0, resamples, size):
        hit = stream.random((min(size, resamples - done), n)) < confidence * ties
        gap = np.add.reduceat(confidence - hit / ties, starts, axis=1)
        out.append(np.abs(gap).sum(1) / n)
    return np.concatenate(out)


@dataclass(frozen=True)
class WeightedItems:
    """Items by rising confidence, prepared so that scores need only sums over items.

    Attributes:
        right: how far each item is called by its true class, (N,).
        starts: where items of the next confidence begin, (G,).
        errors: right, surprise and squared error, (N, 3).
        by_bin: confidence less right in the column of the item's bin, sparse (N, bins).
        by_class: for ``ClassCounts`` right, truth and named, sparse (N, K) each.
    """

    right: np.ndarray
    starts: np.ndarray
    errors: np.ndarray
    by_bin: Any
    by_class: tuple[Any, ...]

    @classmethod
    def of(cls, probabilities: np.ndarray, truth: np.ndarray) -> WeightedItems:
        """Prepares items that are sorted by confidence: probabilities (N, K), truth codes (N,)."""
        from scipy.sparse import csr_array  # slow to import

        (n, k), confidence, hit = probabilities.shape, probabilities.max(1), right(probabilities, truth)

        def columns(values: np.ndarray, at: np.ndarray, width: int) -> Any:
            return csr_array((values, (np.arange(n), at)), shape=(n, width))

        starts = np.flatnonzero(np.diff(confidence_ranks(probabilities), prepend=-1))
        errors = np.stack([hit, surprise(probabilities, truth), squared_error(probabilities, truth)], 1)
        classes = columns(hit, truth, k), columns(np.ones(n), truth, k), csr_array(named(probabilities))
        return cls(hit, starts, errors, columns(confidence - hit, bin_of(confidence), BINS), classes)

    def scores(self, weights: np.ndarray) -> dict[str, np.ndarray]:
        """Every score, (resamples,), where items count as often as the rows of weights (resamples, N) say."""
        total = weights.sum(1)
        errors, gaps, *classes = (
            np.asarray(part.T @ weights.T) for part in (self.errors, self.by_bin, *self.by_class)
        )
        counts = ClassCounts(*(part.T for part in classes))
        items, wrong = (np.add.reduceat(x, self.starts, axis=1) for x in (weights, weights * (1 - self.right)))
        ranked = RankedErrors(items, wrong)
        return {
            **dict(zip(("accuracy", "log_score", "brier"), errors / total, strict=True)),
            "ece": np.abs(gaps).sum(0) / total,
            "balanced_accuracy": counts.balanced_accuracy(),
            "macro_f1": counts.macro_f1(),
            "mcc": counts.mcc(),
            "error_auroc": ranked.auroc(),
            "aurc": ranked.aurc(),
        }


def annotator_scores(annotators: np.ndarray, resamples: int, seed: int = 0) -> dict[str, np.ndarray]:
    """The rank correlation and the coverage of annotators on resamples of the annotators.

    Annotators are what these scores are means over. Resampling items instead would add the noise of the accuracy
    on gold a second time, and push both scores down.

    Args:
        annotators: (A, 3): the estimated accuracy, the accuracy on gold, and whether the interval holds it.
        resamples: how many.
        seed: of the draws.
    """
    ordered = annotators[np.lexsort(annotators.T)]
    drawn = [ordered[rows] for rows in _draws(len(ordered), resamples, seed)]
    return {
        "annotator_spearman": np.concatenate([rank_correlation(x[..., 0], x[..., 1]) for x in drawn]),
        "annotator_coverage": np.concatenate([x[..., 2].mean(1) for x in drawn]),
    }


def intervals(values: dict[str, float], resampled: dict[str, np.ndarray], level: float) -> pd.DataFrame:
    """Percentile intervals: DataFrame by score with value, low and high.

    Resamples in which a score does not exist are left out. The calibration error takes noise for error, and a
    resample has the noise twice; so its interval is the percentile interval mirrored at the value, cut off at 0
    and, where need be, stretched to hold the value.
    """
    rows = {}
    for name, value in values.items():
        draws = resampled.get(name, np.empty(0))
        draws = draws[~np.isnan(draws)]
        tails = ((1 - level) / 2, (1 + level) / 2)
        low, high = np.quantile(draws, tails) if len(draws) and not np.isnan(value) else (np.nan, np.nan)
        if name == "ece":
            low, high = max(0.0, min(value, 2 * value - high)), max(value, 2 * value - low)
        rows[name] = (value, low, high)
    return pd.DataFrame.from_dict(rows, orient="index", columns=["value", "low", "high"]).rename_axis("score")


def _weights(n: int, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """How often each of n items was drawn, (some resamples, n) at a time."""
    for rows in _draws(n, resamples, seed):
        cell = rows + n * np.arange(len(rows))[:, None]
        yield np.bincount(cell.ravel(), minlength=cell.size).reshape(cell.shape)


def _draws(n: int, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """n numbers below n for each resample, (some resamples, n) at a time."""
    stream, size = np.random.default_rng(seed), max(1, AT_ONCE // n)
    for done in range(0, resamples, size):
        yield stream.integers(n, size=(min(size, resamples - done), n))
