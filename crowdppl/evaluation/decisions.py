"""What annotators decide about sequences: spans of tags, else a class for each item, as fits predict it.

The labels of a span are one decision of an annotator, and no independent witnesses. How well its truth is known is
told by what annotators left out of a fit mark: they mark a decision that is true more often than one that is not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from crowdppl.data.annotations import Annotations
from crowdppl.data.ragged import runs
from crowdppl.data.split import whole_units
from crowdppl.inference.result import Fit
from crowdppl.results.grouping import in_sequences, most_probable, span_probabilities, tags_of

ROUNDS = 200
"""Of the search for the two shares of a channel."""


@dataclass(frozen=True)
class Decisions:
    """Decisions about which annotators left out are asked.

    Attributes:
        spans: first and last place in order of sequences, and class of the first, (D, 3).
        decision: row of ``spans`` of each question, (n,).
        marked: whether the annotator marks it, (n,).
        unit: its sequence, (n,).
    """

    spans: np.ndarray
    decision: np.ndarray
    marked: np.ndarray
    unit: np.ndarray

    @classmethod
    def of(cls, data: Annotations, out: np.ndarray, found: Iterable[np.ndarray]) -> Decisions:
        """Questions to annotators of labels ``out``, bool (S,): about what others mark, or fits ``found``."""
        order, _ = in_sequences(data)
        item, annotator, _ = data.label_codes()
        spans = np.unique(np.concatenate([marked_by(data, ~out)[0], *found]), axis=0)
        unit = whole_units(data)
        asked = np.unique(np.stack([unit[item[out]], annotator[out]], 1), axis=0)
        home = unit[order][spans[:, 0]]
        by_unit, sizes = np.argsort(home, kind="stable"), np.bincount(home, minlength=unit.max() + 1)
        pair, place = runs((np.cumsum(sizes) - sizes)[asked[:, 0]], sizes[asked[:, 0]])
        decision = by_unit[place]
        said = _within(np.column_stack([spans[decision], asked[pair, 1]]), np.column_stack(marked_by(data, out)))
        return cls(spans, decision, said >= 0, home[decision])

    def shares(self, found: np.ndarray, probability: np.ndarray) -> np.ndarray:
        """How probable the decision of each question is, (n,), where those ``found`` have these probabilities."""
        return np.asarray(np.append(probability, 0.0)[_within(self.spans, found)][self.decision])


def _within(rows: np.ndarray, table: np.ndarray) -> np.ndarray:
    """The place of each row (n, C) in a table of different rows (m, C); -1 where it is not there."""
    code = np.unique(np.concatenate([table, rows]), axis=0, return_inverse=True)[1].reshape(-1)
    place = np.full(code.max(initial=-1) + 1, -1)
    place[code[: len(table)]] = np.arange(len(table))
    return place[code[len(table) :]]


def found_by(fit: Fit) -> tuple[np.ndarray, np.ndarray]:
    """Decisions of a fit, (D, 3) as of ``Decisions``, and their probabilities (D,), by vb under its mean field."""
    fit = replace(fit, result=fit.result.mean_field())  # widths would cost more than the fit
    order, starts = in_sequences(fit.data)
    code, tags = most_probable(fit)[order], tags_of(fit.data)
    first = np.arange(len(code))
    if tags is None:
        return np.column_stack([first, first, code]), fit.result.probabilities[order, code]
    ends = tags.ends(code, starts)
    first = np.flatnonzero(ends >= 0)
    spans = np.column_stack([first, ends[first], code[first]])
    return spans, span_probabilities(fit, tags, order, starts, code, ends)


def marked_by(data: Annotations, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Decisions in some labels, bool (S,): (D, 3) as of ``Decisions``, and the annotator of each."""
    order, starts = in_sequences(data)
    item, annotator, code = (x[rows & (data.label_codes()[2] < data.n_classes)] for x in data.label_codes())
    place = np.argsort(order)[item]
    once = np.unique(annotator * np.int64(data.n_items) + place, return_index=True)[1]
    place, annotator, code = place[once], annotator[once], code[once]
    tags = tags_of(data)
    if tags is None:
        return np.column_stack([place, place, code]), annotator
    begins = starts[place] | (np.diff(place, prepend=-2) != 1) | (np.diff(annotator, prepend=-1) != 0)
    ends = tags.ends(code, begins)
    first = np.flatnonzero(ends >= 0)
    return np.column_stack([place[first], place[ends[first]], code[first]]), annotator[first]


def channel_log_p(share: np.ndarray, marked: np.ndarray) -> np.ndarray:
    """Log-probability of each mark, (n,), of a decision that is true with probability ``share``, (n,).

    Marked are a share of the true decisions, and one no larger of the others, that make marks most probable (EM).
    """
    hit, false = 0.5, 0.1
    for _ in range(ROUNDS):
        both = np.stack([share * np.where(marked, hit, 1 - hit), (1 - share) * np.where(marked, false, 1 - false)])
        true = both[0] / both.sum(0)
        hit, false = (np.clip((x @ marked + 0.5) / (x.sum() + 1), 1e-6, 1 - 1e-6) for x in (true, 1 - true))
        hit = max(hit, false)  # who finds the opposite predicts nothing
    p = share * np.where(marked, hit, 1 - hit) + (1 - share) * np.where(marked, false, 1 - false)
    return np.asarray(np.log(p))
