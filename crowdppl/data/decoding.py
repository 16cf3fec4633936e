"""From item blocks back to what users know: rows, votes, one block of everything, a summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from crowdppl.data.bags import Bags
from crowdppl.data.blocks import Block
from crowdppl.data.checking import cell_counts
from crowdppl.data.covariate_columns import CovariateColumns
from crowdppl.data.neighbours import count_repeats
from crowdppl.errors import CrowdpplWarning
from crowdppl.tables.alphabet import Alphabet
from crowdppl.tables.codebook import plain

if TYPE_CHECKING:
    from crowdppl.data.annotations import Annotations


def row_codes(blocks: Sequence[Block], order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Item and cell (annotator * L + answer) of each label, int32 (S,), sorted by item and cell."""
    item = np.repeat(order, np.concatenate([row_sizes(block) for block in blocks]))
    cell = np.concatenate([block.bags.cells.cpu().numpy() for block in blocks])
    by_item = np.argsort(item, kind="stable")
    return item[by_item], cell[by_item]


def told(block: Block) -> np.ndarray:
    """Items with a label that tells of their truth, bool (n_items,); to decline tells only where data say so."""
    telling = block.item if block.informative else block.item[block.named]
    return (torch.bincount(telling, minlength=block.n_items) > 0).cpu().numpy()


def row_sizes(block: Block) -> np.ndarray:
    """Labels of each item of a block, int64 (n_items,)."""
    assert block.bags.row_starts is not None, "a block's rows are items"
    return np.diff(block.bags.row_starts.cpu().numpy(), append=block.n_labels).astype(np.int64)


def count_votes(blocks: Sequence[Block], order: np.ndarray) -> np.ndarray:
    """How often each item was given each class, float64 (N, K) in codebook order."""
    first = blocks[0]
    votes = np.zeros((len(order), first.n_classes))
    for block in blocks:
        answer = block.bags.cells.cpu().numpy() % np.int32(first.n_answers)
        item = np.repeat(np.arange(block.n_items), row_sizes(block))
        shape = (block.n_items, first.n_answers)
        counts = np.bincount(item * first.n_answers + answer, minlength=shape[0] * shape[1]).reshape(shape)
        votes[order[block.offset : block.offset + block.n_items]] = counts[:, : first.n_classes]
    return votes


def join(blocks: Sequence[Block]) -> Block:
    """One block of all items, in the order of the blocks."""
    if len(blocks) == 1:
        return replace(blocks[0], _views={})
    first = blocks[0]
    row = np.repeat(np.arange(sum(b.n_items for b in blocks)), np.concatenate([row_sizes(b) for b in blocks]))
    cell = torch.cat([block.bags.cells for block in blocks]).cpu().numpy()
    bags = Bags.of_pairs(row, cell, sum(b.n_items for b in blocks), first.bags.n_cells).to(first.device)
    known: dict[str, Any] = {}
    for name in ("gold", "evidence", "features"):
        parts = [getattr(b, name) for b in blocks]
        known[name] = None if parts[0] is None else torch.cat(parts)
    known["item_covariates"] = CovariateColumns.joined(block.item_covariates for block in blocks)
    seen = [block.seen for block in blocks if block.seen is not None]
    known["seen"] = {name: torch.cat([x[name] for x in seen]) for name in seen[0]} if seen else None
    return replace(first, bags=bags, entries=None, _views={}, **known)


def answer_again(
    blocks: Sequence[Block], order: np.ndarray, cells: Sequence[Tensor], columns: pd.DataFrame | None
) -> tuple[list[Block], pd.DataFrame | None]:
    """The same designs with other labels, and the further columns of their rows.

    Labels of an item are sorted, so that those of an annotator who labels it twice may trade places, and
    their columns with them.

    Args:
        blocks: the designs.
        order: the item code at each position.
        cells: for each block int32 (S,), as ``crowdppl.annotate`` draws them.
        columns: in codebook order, or None.
    """
    drawn = [cell.cpu().to(torch.int32) for cell in cells]
    again = [block.answered(cell) for block, cell in zip(blocks, drawn, strict=True)]
    if columns is None:
        return again, None
    item = np.repeat(order, np.concatenate([row_sizes(block) for block in blocks]))
    by_item = np.argsort(item, kind="stable")
    trade = np.lexsort([torch.cat(drawn).numpy()[by_item], item[by_item]])
    return again, columns.iloc[trade].reset_index(drop=True)


def summarise(
    blocks: Sequence[Block],
    alphabet: Alphabet,
    gold_codes: np.ndarray | None,
    warnings: Sequence[CrowdpplWarning],
) -> dict[str, Any]:
    """Counts of items, annotators, labels and classes, and what was warned of, ready for JSON."""
    counts = cell_counts(blocks)
    per_item = np.concatenate([row_sizes(block) for block in blocks])
    k = alphabet.n_classes
    answers = [str(plain(answer)) for answer in alphabet.book.ids]
    observed = blocks[0].observed
    given = dict(zip(answers, counts.sum(0).tolist(), strict=True)) if observed else {}
    return {
        "items": len(per_item),
        "annotators": len(counts),
        "labels": int(counts.sum()),
        "kind": alphabet.kind,
        "classes": answers[:k],
        "abstentions": answers[k:],
        "informative_abstentions": alphabet.informative,
        "labels_by_answer": given,
        "labels_an_item": _spread(per_item),
        "labels_an_annotator": _spread(counts.sum(1)),
        "items_without_labels": int((per_item == 0).sum()),
        "repeats": count_repeats(blocks),
        "gold": 0 if gold_codes is None else int((gold_codes >= 0).sum()),
        "warnings": [f"{type(warning).__name__}: {warning}" for warning in warnings],
    }


def _spread(counts: np.ndarray) -> dict[str, float]:
    return {
        "min": int(counts.min()),
        "median": float(np.median(counts)),
        "mean": round(float(counts.mean()), 3),
        "max": int(counts.max()),
    }


def labels_given(data: Annotations) -> np.ndarray:
    """How many labels each annotator gave, abstentions included: int64 (A,)."""
    return np.asarray(cell_counts(data.blocks).sum(1))
