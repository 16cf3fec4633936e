"""Metrics of spans against known truths of sequences."""

from __future__ import annotations

import numpy as np

from crowdppl.inference.result import Fit
from crowdppl.results.spans import in_sequences, most_probable, tags_of


def span_counts(posterior: Fit, row: np.ndarray, truth: np.ndarray) -> np.ndarray | None:
    """Spans of the most probable labels that are right, all of these, and the true ones, by sequence, (Q, 3).

    Of gold, rows and classes (n,), those sequences count of which it has all items; None where labels are no BIO
    tags.
    """
    tags = tags_of(posterior.data)
    if tags is None:
        return None
    order, starts = in_sequences(posterior.data)
    known = np.full(posterior.data.n_items, -1)
    known[row] = truth
    label, gold, sequence = most_probable(posterior)[order], known[order], np.cumsum(starts) - 1
    ends = [tags.ends(code, starts) for code in (label, gold)]
    found, true = (end >= 0 for end in ends)
    right = found & (ends[0] == ends[1]) & (label == gold)
    counts = [np.bincount(sequence, x, starts.sum()) for x in (right, found, true)]
    return np.asarray(np.stack(counts, 1)[np.bincount(sequence, gold < 0) == 0])


def span_scores(counts: np.ndarray) -> dict[str, np.ndarray]:
    """Precision, recall and F1 by name, (...), from counts of right, found and true spans, (..., 3)."""
    right, found, true = np.moveaxis(counts, -1, 0)
    parts = {"precision": (right, found), "recall": (right, true), "f1": (2 * right, found + true)}
    return {
        f"span_{name}": np.where(n > 0, part / np.where(n > 0, n, 1), np.nan) for name, (part, n) in parts.items()
    }
