"""From rows to item blocks: ids to codes, everything checked, nothing dropped silently."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypedDict

import numpy as np
import pandas as pd
import torch

from crowdppl.data.blocks import Block
from crowdppl.data.checking import (
    cell_counts,
    check_tables,
    find_warnings,
    refuse_repeat,
    repeats_warning,
    unused_warning,
)
from crowdppl.data.coding import Coded, code_rows
from crowdppl.data.covariate_columns import CovariateColumns
from crowdppl.data.extras import covariate_table, feature_table, gold_codes, history_table
from crowdppl.data.neighbours import count_repeats
from crowdppl.data.spellings import spelling_warnings
from crowdppl.data.stored_features import StoredFeatures
from crowdppl.errors import CrowdpplWarning
from crowdppl.tables.alphabet import Alphabet
from crowdppl.tables.codebook import Codebook
from crowdppl.tables.options import Known, Options, check_options
from crowdppl.tables.rows import Rows


class Parts(TypedDict):
    """What annotations are made of."""

    item_book: Codebook
    annotator_book: Codebook
    alphabet: Alphabet
    blocks: list[Block]
    order: np.ndarray
    gold_codes: np.ndarray | None
    features: pd.DataFrame | np.ndarray | StoredFeatures | None
    item_covariates: pd.DataFrame | None
    annotator_covariates: pd.DataFrame | None
    columns: pd.DataFrame | None
    warnings: tuple[CrowdpplWarning, ...]


def assemble(rows: Rows, options: Options) -> Parts:
    """Codes, checks and sorts labels.

    Args:
        rows: the labels.
        options: what else is said about them.

    Raises:
        DataError: for everything that is refused, with value, place and remedy.
        TypeError: for an unknown option.
    """
    check_options(options)
    like = options.get("like")
    coded = code_rows(rows, options)
    n_answers = len(coded.alphabet.book)
    check_tables(len(coded.annotators), coded.alphabet.n_classes, n_answers)
    answer = coded.answer
    coded, columns, order, blocks, warnings = _sort(coded, rows, options.get("repeats", "keep"))
    gold = gold_codes(options.get("gold"), coded.items, coded.alphabet)
    history = history_table(options.get("history"), coded.annotators, coded.alphabet.n_classes)
    warnings += spelling_warnings(coded, options)
    counts = cell_counts(blocks)
    if answer is not None and like is None:
        warnings += find_warnings(blocks, coded.annotators, counts)
        if options.get("classes") is None:
            warnings += unused_warning(counts, answer, coded.alphabet)
    may = _abstainers(coded, counts, like)
    shared = [None if table is None else torch.from_numpy(table) for table in (history, may)]
    tells = coded.alphabet.informative
    blocks = [replace(block, history=shared[0], abstainers=shared[1], informative=tells) for block in blocks]
    of_items = covariate_table(options.get("item_covariates"), coded.items)
    of_annotators = covariate_table(options.get("annotator_covariates"), coded.annotators)
    return Parts(
        item_book=coded.items,
        annotator_book=coded.annotators,
        alphabet=coded.alphabet,
        blocks=with_covariates([with_known(b, order, gold) for b in blocks], order, of_items, of_annotators),
        order=order,
        gold_codes=gold,
        features=feature_table(options.get("features"), options.get("items"), coded.items),
        item_covariates=of_items,
        annotator_covariates=of_annotators,
        columns=columns,
        warnings=tuple(warnings),
    )


def _sort(
    coded: Coded, rows: Rows, repeats: str
) -> tuple[Coded, pd.DataFrame | None, np.ndarray, list[Block], list[CrowdpplWarning]]:
    """Blocks, after what is to happen to repeats has happened, and further columns in codebook order."""
    warnings: list[CrowdpplWarning] = []
    columns = rows.columns
    order, blocks = coded.blocks()
    extra = count_repeats(blocks)
    if extra and repeats == "error":
        refuse_repeat(coded.item, coded.annotator, (coded.items, coded.annotators), rows.place)
    if extra and coded.answer is not None:
        warnings.append(repeats_warning(extra, len(coded.item), repeats))
    if extra and repeats != "keep":
        pair = coded.item.astype(np.int64) * len(coded.annotators) + coded.annotator
        last = repeats == "last"
        kept = np.flatnonzero(~pd.Index(pair).duplicated(keep="last" if last else "first"))
        coded, columns = coded.rows(kept), None if columns is None else columns.iloc[kept]
        order, blocks = coded.blocks()
    if columns is not None:
        keys = (
            [coded.annotator, coded.item] if coded.answer is None else [coded.answer, coded.annotator, coded.item]
        )
        columns = columns.iloc[np.lexsort(keys)].reset_index(drop=True)
    return coded, columns, order, blocks, warnings


def _abstainers(coded: Coded, counts: np.ndarray, like: Known | None) -> np.ndarray | None:
    """Who may abstain: those who did here or in ``like``; in a design, everyone."""
    k = coded.alphabet.n_classes
    if counts.shape[1] == k:
        return None
    always = coded.answer is None and like is None
    may: np.ndarray = np.asarray(counts[:, k:].any(1)) & (coded.answer is not None) | always
    if like is not None and like.abstainers is not None:
        may[: len(like.abstainers)] |= like.abstainers
    return may


def with_known(block: Block, order: np.ndarray, gold: np.ndarray | None) -> Block:
    """A block with the known classes of its items.

    Args:
        block: the block.
        order: the item code at each position.
        gold: (N,) in codebook order, -1 where a class is not known; None without gold.
    """
    mine = order[block.offset : block.offset + block.n_items]
    return replace(block, gold=None if gold is None else torch.from_numpy(gold[mine].astype(np.int64)), _views={})


def with_covariates(
    blocks: Sequence[Block], order: np.ndarray, of_items: pd.DataFrame | None, of_annotators: pd.DataFrame | None
) -> list[Block]:
    """Blocks with the covariates of their items, and of all annotators, as stories read them.

    Args:
        blocks: all of the data.
        order: the item code at each position.
        of_items, of_annotators: tables in codebook order, or None.
    """
    if of_items is None and of_annotators is None:
        return list(blocks)
    items, annotators = (
        CovariateColumns.of(of_items, "item", order),
        CovariateColumns.of(of_annotators, "annotator"),
    )

    def of_block(block: Block) -> CovariateColumns | None:
        at = torch.arange(block.offset, block.offset + block.n_items)
        return None if items is None else items.at(at)

    return [
        replace(block, item_covariates=of_block(block), annotator_covariates=annotators, _views={})
        for block in blocks
    ]
