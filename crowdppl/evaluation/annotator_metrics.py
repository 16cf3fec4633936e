"""The accuracies of annotators against known truths."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pandas as pd

from crowdppl.baselines import Aggregation
from crowdppl.core.intervals import Estimate, from_point
from crowdppl.inference.result import Fit
from crowdppl.results import intervals
from crowdppl.results.mapped_tables import as_shown

MIN_GOLD_LABELS = 5
"""Labels on items of gold from which on an annotator is compared with gold."""


def annotators_on_gold(
    annotator: np.ndarray, answer: np.ndarray, truth: np.ndarray, estimate: Estimate, level: float
) -> pd.DataFrame:
    """Accuracies of annotators: ``estimate`` (A,) with its interval of the level, and on gold.

    Gold that has m of an annotator's n labels shows their accuracy with binomial noise, so the interval is
    widened: its half-widths w become the root of w^2 + z^2 a (1 - a) / m (n - m) / (n - 1), with a the estimated
    accuracy and z the normal quantile of the level. Codes (S,) are of labels that name a class; truths may be -1.

    Returns a DataFrame by annotator code, of those with at least 5 labels on gold: labels, without abstentions;
    on_gold, how many of them on items of gold; accuracy, accuracy_sd, accuracy_low and accuracy_high as estimated;
    gold_accuracy, the share of on_gold that is right; low and high, widened; held, 1 where they hold
    gold_accuracy, else 0, and NaN without an interval.
    """
    size, known = len(estimate.mean), truth >= 0
    labels, m = (np.bincount(part, minlength=size) for part in (annotator, annotator[known]))
    hits = np.bincount(annotator[known & (answer == truth)], minlength=size)
    at = np.flatnonzero(m >= MIN_GOLD_LABELS)
    labels, m, part = labels[at], m[at], estimate.at(at)
    noise = part.mean * (1 - part.mean) / m * (labels - m) / (labels - 1)
    reach = NormalDist().inv_cdf((1 + level) / 2) ** 2 * noise.clip(0)
    low, high = (
        part.mean + sign * np.sqrt((part.mean - end) ** 2 + reach) for sign, end in ((-1, part.low), (1, part.high))
    )
    on_gold = hits[at] / m
    held = np.where(np.isnan(low), np.nan, (low - 1e-9 <= on_gold) & (on_gold <= high + 1e-9))
    columns = {"labels": labels, "on_gold": m, **part.columns("accuracy"), "gold_accuracy": on_gold}
    return pd.DataFrame(columns | {"low": low, "high": high, "held": held}, index=at)


def compared_with_gold(
    posterior: Fit | Aggregation, row: np.ndarray, truth: np.ndarray, level: float
) -> pd.DataFrame | None:
    """The annotators' accuracies, or weights, as estimated and on gold; None for a design without labels."""
    data = posterior.data
    if not data.blocks[0].has_labels:
        return None
    known = np.full(data.n_items, -1)
    known[row] = truth
    item, annotator, answer = data.label_codes()
    names = answer < data.n_classes
    if isinstance(posterior, Aggregation):
        estimate = from_point(posterior.weights)
    else:
        estimate = intervals.accuracy(as_shown(posterior), level)
    table = annotators_on_gold(annotator[names], answer[names], known[item[names]], estimate, level)
    return table.set_axis(data.annotators[table.index], axis=0)
