"""What comes with labels: gold, features, covariates and what is known of annotators from before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from torch.utils.data import Dataset

from crowdppl.data.feature_values import numbers_of, plain_array, plain_table, require_finite
from crowdppl.data.stored_features import StoredFeatures
from crowdppl.data.truths import by_item, codes_once
from crowdppl.doors.naming import kind_of
from crowdppl.errors import DataError
from crowdppl.tables.alphabet import Alphabet
from crowdppl.tables.codebook import Codebook, as_index, named_twice, plain
from crowdppl.tables.handover import of_tensor, unmasked

WITH_LABELS = "correct the id, or add it to items= if it is an item without labels"


def gold_codes(gold: Any, items: Codebook, alphabet: Alphabet) -> np.ndarray | None:
    """The known class of each item.

    Args:
        gold: series or mapping from item id to class; a missing class means that it is not known.
        items: codebook of the items.
        alphabet: classes.

    Returns:
        Whole numbers (N,), -1 where the class is not known; None without gold.

    Raises:
        DataError: when gold names an unknown item or class, or an item twice, however it is spelled.
    """
    if gold is None:
        return None
    gold = by_item(gold)
    codes_once(items, gold.index)
    known = gold[gold.notna()]
    item = items.require(known.index, "gold", _spelling_hint(known.index, items) or WITH_LABELS)
    remedy = _spelling_hint(as_index(known), alphabet.classes) or "correct it, or list all classes in classes="
    given = alphabet.classes.require(known, "gold", remedy)
    codes = np.full(len(items), -1, np.int16 if alphabet.n_classes < 2**15 else np.int32)
    codes[item] = given
    return codes


def feature_table(
    features: Any, items: Iterable[Any] | None, book: Codebook
) -> pd.DataFrame | np.ndarray | StoredFeatures | None:
    """Features in codebook order, one row an item.

    Args:
        features: DataFrame indexed by item id, or an array or tensor (N, ...) whose rows belong to ``items``, or a
            ``torch.utils.data.Dataset`` of such rows. A dataset, however small, is never read as a whole: rows are
            read, and checked, when a network looks at them. Who wants them in memory hands over an array.
        items: ids of the rows of an array or dataset.
        book: codebook of the items, those without labels included.

    Returns:
        A DataFrame for a DataFrame, an array (N, ...) for an array, ``StoredFeatures`` for a dataset. Tables and
        arrays are dense, and of numpy's whole numbers, float32, float64 or bool.

    Raises:
        DataError: when an item has no features or several, or a feature is no number, or not finite in float32, in
            which networks compute; of a dataset, the first row alone is looked at.
    """
    if features is None:
        return None
    if isinstance(features, pd.DataFrame):
        features = plain_table(features)
        ids, values = features.index, numbers_of(features)
    else:
        if items is None:
            raise DataError(
                "features are an array or a dataset, which says nothing of items; give the id of each row in items="
            )
        ids = as_index(items)
        if is_dataset(features):
            return StoredFeatures.of(features, ids).at(_rows(ids, book, "features", every=True))
        values = plain_array(features)
    if values.ndim < 2 or len(values) != len(ids):
        raise DataError(f"features have shape {values.shape} for {len(ids)} items; give one row an item")
    rows = _rows(ids, book, "features", every=True)
    values = values[rows]
    require_finite(values, book.ids)
    return features.iloc[rows].set_axis(book.ids) if isinstance(features, pd.DataFrame) else values


def covariate_table(frame: Any, book: Codebook) -> pd.DataFrame | None:
    """Covariates in codebook order; missing values where an id has no row.

    Args:
        frame: DataFrame indexed by id.
        book: codebook of items or annotators.

    Raises:
        DataError: when it is no DataFrame, or names an unknown id, or one twice.
    """
    if frame is None:
        return None
    what = f"{book.name}_covariates"
    if not isinstance(frame, pd.DataFrame):
        raise DataError(f"{what} is {kind_of(frame)}; give a DataFrame indexed by {book.name} id")
    rows = _rows(frame.index, book, what, every=False)
    return frame.set_axis(pd.RangeIndex(len(frame))).reindex(rows).set_axis(book.ids)


def history_table(history: Any, annotators: Codebook, n_classes: int) -> np.ndarray | None:
    """Pseudo-counts [annotator, truth, label] from earlier work, for use in a prior.

    Args:
        history: mapping from annotator id to a (K, K) matrix, zeros for those it leaves out; or (A, K, K) in
            codebook order.
        annotators: codebook of the annotators.
        n_classes: K.

    Returns:
        float64 (A, K, K), or None.

    Raises:
        DataError: for an annotator who is unknown or named twice, another shape, or counts that are negative, not
            finite or masked.
    """
    if history is None:
        return None
    shape = (len(annotators), n_classes, n_classes)
    if isinstance(history, Mapping):
        table = np.zeros(shape)
        remedy = "leave it out, or add it to annotators= if it is an annotator without labels"
        if not history:
            return table
        codes = annotators.require(history, "history", remedy)
        twice = named_twice(as_index(history), codes)
        if twice:
            raise DataError(f"history names the annotator {twice} more than once; keep one matrix an annotator")
        for annotator, counts in zip(codes, history.values(), strict=True):
            table[annotator] = _counts(
                counts, shape[1:], f"history of annotator {plain(annotators.ids[annotator])!r}"
            )
        return table
    return _counts(history, shape, "history")


def _counts(counts: Any, shape: tuple[int, ...], origin: str) -> np.ndarray:
    counts = unmasked(of_tensor(counts, origin))
    try:
        table = np.array(counts, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{origin} holds what is no number ({error}); it must be {shape}, pseudo-counts") from error
    if table.shape != shape:
        raise DataError(f"{origin} has shape {table.shape}; it must be {shape}, rows for the truth")
    wrong = ~np.isfinite(table) | (table < 0)
    if wrong.any():
        place = tuple(map(int, np.argwhere(wrong)[0]))
        raise DataError(f"{origin} holds {table[place]} at {place}; pseudo-counts are finite and not negative")
    return table


def _rows(ids: pd.Index[Any], book: Codebook, what: str, every: bool) -> np.ndarray:
    """The row of each id of the book; -1 where there is none."""
    codes = book.require(ids, what, _spelling_hint(ids, book) or "leave the row out")
    twice = named_twice(ids, codes)
    if twice:
        raise DataError(f"{what} has several rows for the {book.name} {twice}; keep one")
    rows = np.full(len(book), -1, np.int64)
    rows[codes] = np.arange(len(codes))
    if every and (rows < 0).any():
        lost = plain(book.ids[int(np.argmax(rows < 0))])
        raise DataError(f"{what} has no row for the {book.name} {lost!r} ({int((rows < 0).sum())} in all); add it")
    return rows


def _spelling_hint(ids: pd.Index[Any], book: Codebook) -> str:
    """What to say when ids differ in type from the known ones."""
    if not len(ids) or not len(book) or type(plain(ids[0])) is type(plain(book.ids[0])):
        return ""
    mine, theirs = type(plain(ids[0])).__name__, type(plain(book.ids[0])).__name__
    return f"it has type {mine} and the known ones have type {theirs}: spell it as they are spelled"


def is_dataset(features: Any) -> bool:
    """Whether rows are asked for one by one: torch's map-style datasets, and what looks like them."""
    if isinstance(features, StoredFeatures | Dataset):
        return True
    known = isinstance(features, (Sequence, Mapping)) or hasattr(features, "shape")
    return hasattr(features, "__getitem__") and hasattr(features, "__len__") and not known
