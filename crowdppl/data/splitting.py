"""Labels left out and labels kept: the same items, annotators and classes, fewer rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from crowdppl.data.annotations import Annotations
from crowdppl.data.blocks import build_blocks
from crowdppl.data.building import with_covariates, with_known
from crowdppl.data.decoding import row_codes
from crowdppl.errors import DataError


def keep(data: Annotations, kept: np.ndarray) -> Annotations:
    """The same annotations with some of their labels; ids, codes, gold and what else is known stay.

    Args:
        data: the annotations.
        kept: bool (S,), in the order of ``data.frame()``; items may be left without a label.
    """
    item, cell = row_codes(data.blocks, data.order)
    columns = None if data.columns is None else data.columns[kept].reset_index(drop=True)
    return with_rows(data, item[kept], cell[kept], columns)


def with_rows(data: Annotations, item: np.ndarray, cell: np.ndarray, columns: pd.DataFrame | None) -> Annotations:
    """Other labels of the same items, annotators and classes.

    Args:
        data: the annotations.
        item, cell: item code and table cell of each label, (S,).
        columns: further columns of the rows, in the order that ``frame()`` will give them, or None.
    """
    annotator, answer = np.divmod(cell, np.int32(data.n_answers))
    order, blocks = build_blocks(
        item,
        annotator,
        answer if data.blocks[0].observed else None,
        n_items=data.n_items,
        n_annotators=data.n_annotators,
        n_classes=data.n_classes,
        n_answers=data.n_answers,
    )
    first = data.blocks[0]
    kept = {name: getattr(first, name) for name in ("history", "abstainers", "informative")}
    shared = [replace(block, **kept) for block in blocks]
    known = [with_known(block, order, data.gold_codes) for block in shared]
    known = with_covariates(known, order, data.item_covariates, data.annotator_covariates)
    return replace(data, blocks=known, order=order, columns=columns, warnings=())


def label_folds(data: Annotations, folds: int, seed: int) -> np.ndarray:
    """The fold in which each label is left out, never all labels of an item in one; -1 for never.

    An item's labels are dealt out over the folds in random order. An item that one annotator alone labelled
    keeps its label always; labels of one annotator on one item go together.

    Args:
        data: the annotations.
        folds: how many; at least 2.
        seed: of the dealing.

    Returns:
        int (S,), in the order of ``data.frame()``.

    Raises:
        DataError: when no item has labels of two annotators.
    """
    item, cell = row_codes(data.blocks, data.order)
    annotator = cell // np.int32(data.n_answers)
    first = np.append(True, (np.diff(item) != 0) | (np.diff(annotator) != 0))
    unit = np.cumsum(first) - 1
    owner = item[first]
    stream = np.random.default_rng(seed)
    shuffled = np.lexsort([stream.random(len(owner)), owner])
    sizes = np.bincount(owner, minlength=data.n_items)
    starts = np.cumsum(sizes) - sizes
    rank = np.empty(len(owner), np.int64)
    rank[shuffled] = np.arange(len(owner)) - starts[owner[shuffled]]
    dealt = np.where(sizes > 1, sizes, 0)
    turn = stream.permutation(data.n_items)
    before = np.empty(data.n_items, np.int64)
    before[turn] = np.cumsum(dealt[turn]) - dealt[turn]  # dealing goes on where the last item's ended
    fold = np.where(sizes[owner] > 1, (rank + before[owner]) % folds, -1)
    if not dealt.any():
        raise DataError(
            f"no item of {data.n_items} has labels of two annotators, so that no label can be left out and still "
            "be predicted; give more labels, or leave out whole items, as heldout_score and compare do when told "
            "whole_items=True"
        )
    out: np.ndarray = fold[unit]
    return out


def item_folds(data: Annotations, folds: int, seed: int) -> np.ndarray:
    """The fold in which each label is left out, with all others of its item: int (S,) as ``data.frame()``.

    Items with labels are dealt out, and no others: items that folds of the same seed have left out would take whole
    folds with them.
    """
    item, _ = row_codes(data.blocks, data.order)
    told, place = np.unique(item, return_inverse=True)
    out: np.ndarray = (np.random.default_rng(seed).permutation(len(told)) % folds)[place]
    return out
