"""Agreement of annotators who mark spans in sequences: F1 of exact spans, and overlap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from crowdppl.agreement.resampling import Coefficient, resampled
from crowdppl.agreement.votes import ratio, row_pairs
from crowdppl.data.annotations import Annotations
from crowdppl.data.kinds.sequences import Tags, units_of

Sums = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Spans that the other annotator marked alike, the best overlaps of spans with theirs, and spans, (C,) each."""


@dataclass(frozen=True)
class SpanSums:
    """What is summed over pairs of annotators of a sequence, each span compared with the other one's.

    Attributes:
        size: annotators of each sequence, (Q,).
        alike: spans that the other marked, too, with the same ends and type, (Q,).
        overlap: the largest intersection over union of each span with one of the other's of its type, (Q,).
        spans: spans that were compared, (Q,).
    """

    size: np.ndarray
    alike: np.ndarray
    overlap: np.ndarray
    spans: np.ndarray

    def total(self, weight: np.ndarray) -> Sums:
        """Sums over sequences that count ``weight`` times, (Q, C)."""
        return self.alike @ weight, self.overlap @ weight, self.spans @ weight


def agreement_of_spans(data: Annotations, tags: Tags, samples: int, seed: int) -> dict[str, Coefficient]:
    """F1 and mean overlap of spans, of which bootstrap samples draw sequences."""
    return resampled(span_sums(data, tags), {"span_f1": _f1, "span_overlap": _overlap}, samples, seed)


def _f1(totals: Sums) -> np.ndarray:
    return ratio(totals[0], totals[2])


def _overlap(totals: Sums) -> np.ndarray:
    return ratio(totals[1], totals[2])


def span_sums(data: Annotations, tags: Tags) -> SpanSums:
    """The sums of labels; of several labels of an item by one annotator, the first counts."""
    units = units_of(data.item_covariates)
    assert units is not None
    item, who, answer = data.label_codes()
    rows = pd.DataFrame({"who": who, "sequence": units[item, 0], "rank": units[item, 1], "tag": answer})
    rows = rows[answer < data.n_classes].drop_duplicates(["who", "sequence", "rank"])
    rows = rows.sort_values(["sequence", "who", "rank"], ignore_index=True)
    apart = rows[["sequence", "who", "rank"]].diff().fillna(1).to_numpy() != [0, 0, 1]
    ends = tags.ends(rows["tag"].to_numpy(), apart.any(1))
    first = np.flatnonzero(ends >= 0)
    marked = rows.iloc[first].assign(last=rows["rank"].to_numpy()[ends[first]])
    marked["type"] = np.unique([tags.types[k] for k in marked["tag"]], return_inverse=True)[1]
    size = rows.drop_duplicates(["sequence", "who"]).groupby("sequence").size()
    n = len(size)
    sequence = np.searchsorted(size.index, marked["sequence"])
    others = size.to_numpy()[sequence] - 1
    marked = marked.assign(group=sequence * (int(marked["type"].max() if len(marked) else 0) + 1) + marked["type"])
    marked = marked.sort_values("group", kind="stable")
    one, other = row_pairs(marked.groupby("group").size().to_numpy())
    a, b = (marked.iloc[rows_][["who", "rank", "last"]].to_numpy().T for rows_ in (one, other))
    both = np.minimum(a[2], b[2]) - np.maximum(a[1], b[1]) + 1
    share = both / (np.maximum(a[2], b[2]) - np.minimum(a[1], b[1]) + 1)
    met = np.flatnonzero((both > 0) & (a[0] != b[0]))
    span, whose = np.append(one[met], other[met]), np.append(b[0][met], a[0][met])
    best = pd.Series(np.tile(share[met], 2)).groupby([span, whose]).max()
    at = np.searchsorted(size.index, marked["sequence"])[best.index.get_level_values(0).to_numpy(np.int64)]
    return SpanSums(
        size.to_numpy(np.float64),
        np.bincount(at, best == 1, n),
        np.bincount(at, best, n),
        np.bincount(sequence, others, n).astype(np.float64),
    )
