"""Labels that follow each other within an item: who repeats a label, and who is joined to whom by items."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crowdppl.data.blocks import Block


def neighbours(block: Block, most: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Annotators of labels that follow each other within an item: int32 (pairs,), twice.

    Labels of an item are sorted by annotator, so that equal neighbours are repeats, and neighbours alone
    connect all annotators of an item.

    Args:
        block: items with their labels.
        most: labels to look at, the first ones; all by default.
    """
    annotator, within = _in_order(block, most)
    return annotator[:-1][within], annotator[1:][within]


def count_repeats(blocks: Sequence[Block]) -> int:
    """Labels beyond the first that an annotator gave to the same item."""
    found = 0
    for block in blocks:
        annotator, within = _in_order(block, None)
        found += int(np.count_nonzero((annotator[:-1] == annotator[1:]) & within))
    return found


def _in_order(block: Block, most: int | None) -> tuple[np.ndarray, np.ndarray]:
    """The annotator of each label, int32 (S,), and whether it and the next are of one item, bool (S - 1,)."""
    assert block.bags.row_starts is not None, "a block's rows are items"
    annotator = block.bags.cells.numpy()[:most] // np.int32(block.n_answers)
    within, starts = np.ones(max(0, len(annotator) - 1), bool), block.bags.row_starts.numpy()
    first, last = np.searchsorted(starts, (1, len(annotator)))
    within[starts[first:last] - 1] = False
    return annotator, within


def connected_sets(blocks: Sequence[Block], active: np.ndarray) -> np.ndarray:
    """The set of each annotator, (A,): annotators of one set are joined by items that they share.

    Args:
        blocks: the data.
        active: annotators with labels, bool (A,).
    """
    sets: np.ndarray = np.arange(len(active))
    part = max(1_000, 20 * len(active))  # mostly joins everyone already
    for block in blocks:
        for most in (part, None):
            sets = _merged(sets, *neighbours(block, most))
            if np.ptp(sets[active]) == 0:
                return sets
    return sets


def _merged(sets: np.ndarray, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Sets after those of each pair of annotators are made one; the least member of a set names it."""
    while True:
        pairs = sets[one], sets[other]
        if np.array_equal(*pairs):
            return sets
        least, into = np.minimum(*pairs), np.arange(len(sets))
        for named in pairs:
            np.minimum.at(into, named, least)
        while not np.array_equal(further := into[into], into):
            into = further
        sets = into[sets]
