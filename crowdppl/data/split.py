"""Splits of annotations: folds of labels, selections of items, and alignment of two sets."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from crowdppl.core.validation import warn
from crowdppl.data.annotations import Annotations, names_there
from crowdppl.data.blocks import OF_ANNOTATORS, with_covariates
from crowdppl.data.coded import Coded, require_labels
from crowdppl.data.covariates import label_columns, regrouped
from crowdppl.data.edges import edges_at
from crowdppl.data.features import StoredFeatures, in_columns
from crowdppl.data.ids import native, place_in_rows
from crowdppl.data.kinds.numbers import NUMBER
from crowdppl.data.kinds.rankings import OF_RANKS
from crowdppl.data.kinds.sequences import units_of
from crowdppl.data.options import parts_of_items
from crowdppl.data.tables import looks_like, recognise
from crowdppl.errors import CrowdpplWarning, DataError, RepeatsWarning, SparseDataWarning


def align_to(old: Annotations, new: Annotations | pd.DataFrame) -> Annotations:
    """New annotations under the codes of old ones; new annotators and classes follow, these with a warning.

    New features and covariates get the old order of columns. Where new data have none, those of annotators are
    taken from the old data if all annotators are old, and those of items likewise. DataError when an abstention or
    a column is not one of the old ones, a class is new where classes have an order, features are of another shape,
    or there are no labels.
    """
    if isinstance(new, Annotations):
        require_labels(new.blocks)
        pairs = ((old.annotators, new.annotators), (old.alphabet.book.ids, new.alphabet.book.ids))
        if old.n_classes != new.n_classes or not all(a.equals(b) for a, b in pairs):
            away = new.alphabet.book.ids[np.setdiff1d(new.label_codes()[2], np.arange(max(1, new.n_classes)))]
            old.alphabet.book.require(away, "abstentions=", "name it in abstentions= of the fit's annotations")
            parts = ("gold", "features", "item_covariates", "annotator_covariates")
            known: Any = {"items": _ids(new), "edges": edge_ids(new)} | {name: getattr(new, name) for name in parts}
            frame, item = _with_parts(new)
            new = Annotations.from_frame(frame, item, "annotator", "label", like=old, grow=True, **known)
        new = check_aligned(old, new)
    else:
        new = Annotations.from_frame(new, like=old, grow=True)
    names = [repr(native(x)) for x in new.alphabet.classes.ids[old.n_classes :]]
    if names:
        warn(
            f"{len(names)} of {new.n_classes} classes are new to the fit ({', '.join(names)}), which knows their "
            "prior alone; correct the labels if they are misspelled",
            SparseDataWarning,
        )
    return _with_known(old, new)


def unlabelled(old: Annotations, new: Annotations | pd.DataFrame) -> Annotations | pd.DataFrame:
    """A design, or a table that names items alone, as annotations without labels, under the codes of old ones."""
    who = old.annotators[0]
    if isinstance(new, Annotations):
        if new.blocks[0].has_labels:
            return new
        known: Any = {name: getattr(new, name) for name in ("features", "item_covariates")}
        known["edges"] = edge_ids(new)
        design = Annotations.design(_ids(new), [who] * new.n_items, like=old, **known)
    else:
        names = [*new.columns] if isinstance(new, pd.DataFrame) else []
        alone = {*names} == {*old.item_index.names}
        if not names or (not alone and (looks_like(names, "annotator") or looks_like(names, "label"))):
            return new
        parts = parts_of_items({"kind": old.kind})
        found = recognise(names, dict.fromkeys(parts or ("item",)), "the table")
        item: Any = new[[*found.values()]].set_axis([*found], axis=1) if parts else new[found["item"]].unique()
        if OF_RANKS[0] in found and not item.duplicated(OF_RANKS[0], keep=False).all():
            one = [*map(native, item.drop_duplicates(OF_RANKS[0], keep=False)[[*OF_RANKS]].iloc[0])]
            raise DataError(
                f"of problem {one[0]!r}, {one[1]!r} is named alone, and its rank is one among "
                "others; name all objects of the problem"
            )
        design = Annotations.design(item, [who] * len(item), like=old)
    blocks = [replace(block, has_labels=True) for block in design.blocks]
    columns = pd.DataFrame({NUMBER: np.zeros(design.n_labels)}) if old.alphabet.kind.numeric else design.columns
    return keep(replace(design, blocks=blocks, columns=columns), np.zeros(design.n_labels, bool))


def joined(old: Annotations, new: Annotations) -> Annotations:
    """All labels of both, under the codes of new annotations that are aligned to old ones."""
    frames = [_with_parts(data) for data in (old, new)]
    known: dict[str, Any] = {"annotator_covariates": new.annotator_covariates}
    known["items"] = _ids(old).append(_ids(new)).unique()
    for name in ("gold", "item_covariates", "features"):
        tables = [table for table in (getattr(new, name), getattr(old, name)) if table is not None]
        if any(not isinstance(table, pd.DataFrame | pd.Series) for table in tables):
            raise DataError(f"{name} of an array cannot be joined; fit anew to all labels, with one row an item")
        whole = pd.concat(tables) if tables else None
        known[name] = None if whole is None else whole[~whole.index.duplicated()]
    if old.edges is not None or new.edges is not None:
        known["edges"] = pd.concat([x for x in (edge_ids(old), edge_ids(new)) if x is not None])
    whole = pd.concat([frame for frame, _ in frames], ignore_index=True)
    with warnings.catch_warnings(action="ignore", category=CrowdpplWarning):  # both were warned of
        return Annotations.from_frame(whole, frames[0][1], "annotator", "label", like=new, **known)


def some_items(data: Annotations, wanted: np.ndarray) -> Annotations:
    """Some of the items, bool (N,), with their labels and what is known of them, under the same other codes."""
    frame, item = _with_parts(data)
    history = data.blocks[0].history
    known: dict[str, Any] = {} if history is None else {"history": history.cpu().numpy()}
    gold = data.gold
    if gold is not None:
        gold = gold[gold.index.isin(data.items[wanted])]
    with warnings.catch_warnings(action="ignore", category=CrowdpplWarning):  # all labels were warned of
        rows = frame[wanted[data.label_codes()[0]]]
        part = Annotations.from_frame(rows, item, "annotator", "label", like=data, **known)
    part = _with_known(data, check_aligned(data, part))
    return part if gold is None or not len(gold) else part.with_gold(gold[gold.index.isin(part.items)])


def edge_ids(data: Annotations) -> pd.DataFrame | None:
    """Linked items by id; None where nothing is said of edges."""
    return None if data.edges is None else pd.DataFrame({n: data.items[data.edges[:, n]] for n in (0, 1)})


def _ids(data: Annotations) -> pd.Index[Any]:
    """Ids of items, as pairs where two columns name an item: text would not tell whole numbers."""
    paired = parts_of_items({"kind": data.kind}) and data.item_covariates is not None
    return pd.Index([*data.item_index], tupleize_cols=False) if paired else data.items


def _with_parts(data: Annotations) -> tuple[pd.DataFrame, Any]:
    """The labels, and the columns that name an item: one, or the two parts."""
    frame, parts = data.frame(), parts_of_items({"kind": data.kind})
    if not parts or data.item_covariates is None:
        return frame, "item"
    of_labels = data.item_covariates.loc[frame["item"], [*parts]].set_axis(frame.index)
    return frame.drop(columns="item").assign(**of_labels), parts


def check_aligned(old: Annotations, new: Annotations) -> Annotations:
    """New annotations under old codes, with the kind of the old ones and the abstainers of both."""
    tells = old.alphabet.informative
    new = replace(new, alphabet=replace(new.alphabet, kind=old.alphabet.kind, informative=tells), opened=None)
    if old.abstainers is None or new.abstainers is None:
        return new
    may = torch.from_numpy(new.abstainers.copy())
    may[: old.n_annotators] |= torch.from_numpy(old.abstainers)
    return replace(new, blocks=[replace(block, abstainers=may, informative=tells) for block in new.blocks])


def warn_of_repeats(old: Annotations, new: Annotations) -> None:
    """Warns of new labels by annotators whose label of the same item the fit has."""
    code = old.item_book.codes(new.items).astype(np.int64)

    def pairs(data: Annotations, number: np.ndarray) -> np.ndarray:
        item, annotator, _ = data.label_codes()
        return np.asarray(number[item] * data.n_annotators + annotator)

    again = np.isin(pairs(new, code), pairs(old, np.arange(old.n_items)))  # new items have negative numbers
    if again.any():
        warn(
            f"{again.sum()} of {len(again)} new labels repeat an annotator's label of an item in the fit, and "
            "count in addition; leave out labels that are not new",
            RepeatsWarning,
        )


def _with_known(old: Annotations, new: Annotations) -> Annotations:
    """New annotations with side information as the old ones have it."""
    code = old.item_book.codes(new.items)
    of_items = _columns_of(old.item_covariates, new.item_covariates, None if (code < 0).any() else code)
    if of_items is not None and old.item_covariates is not None:
        of_items = regrouped(old.item_covariates, of_items)
    who = old.annotator_book.codes(new.annotators)
    of_annotators = _columns_of(
        old.annotator_covariates, new.annotator_covariates, None if (who < 0).any() else who
    )
    names = label_columns(names_there(old, new.columns), new.columns, place_in_rows) or new.label_names
    of_labels = replace(new, label_names=names).label_columns
    blocks = with_covariates(new.blocks, new.order, of_items, of_annotators, of_labels)
    covariates: dict[str, Any] = {"item_covariates": of_items, "annotator_covariates": of_annotators}
    new = replace(new, blocks=blocks, label_names=names, **covariates)
    if new.edges is None and old.edges is not None and (code >= 0).all():
        new = _linked(new, edges_at(old.edges, code))
    return _with_features(old, new, code)


def _linked(data: Annotations, edges: np.ndarray | None) -> Annotations:
    """Annotations with edges, by which items that are linked stand in one block."""
    item, annotator, answer = data.label_codes()
    return with_rows(replace(data, edges=edges), item, annotator, answer, data.columns)


def _columns_of(old: pd.DataFrame | None, new: pd.DataFrame | None, code: np.ndarray | None) -> pd.DataFrame | None:
    """New covariates with the old columns; else the old ones of the same ids, where all are known."""
    if old is None:
        return new
    if new is not None:
        return in_columns(new, old.columns, "covariates")
    return None if code is None else old.iloc[code]


def _with_features(old: Annotations, new: Annotations, code: np.ndarray) -> Annotations:
    if isinstance(new.features, pd.DataFrame) and isinstance(old.features, pd.DataFrame):
        return replace(new, features=in_columns(new.features, old.features.columns))
    if new.features is not None and old.features is not None:
        found, wanted = tuple(new.features.shape[1:]), tuple(old.features.shape[1:])
        if found != wanted:
            raise DataError(f"features of new items have shape {found} each; those of the fit had {wanted}")
    if new.features is not None or old.features is None or (code < 0).any():
        return new
    features = old.features
    if isinstance(features, pd.DataFrame):
        return replace(new, features=features.iloc[code])
    return replace(new, features=features.at(code) if isinstance(features, StoredFeatures) else features[code])


def keep(data: Annotations, kept: np.ndarray) -> Annotations:
    """Annotations with some of their labels, bool (S,) as ``data.frame()``; what else is known stays."""
    columns = None if data.columns is None else data.columns[kept].reset_index(drop=True)
    item, annotator, answer = data.label_codes()
    return with_rows(data, item[kept], annotator[kept], answer[kept], columns)


def with_rows(
    data: Annotations, item: np.ndarray, annotator: np.ndarray, answer: np.ndarray, columns: pd.DataFrame | None
) -> Annotations:
    """Other labels, codes (S,) each and columns as of ``frame()``, of the same items, annotators and classes."""
    first = data.blocks[0]
    answers = answer if first.has_labels else None
    coded = Coded(data.item_book, data.annotator_book, data.alphabet, item, annotator, answers)
    order, blocks = coded.blocks(units_of(data.item_covariates, data.edges, data.n_items))
    other = replace(data, blocks=blocks, order=order, columns=columns, warnings=(), opened=None)
    return other.filled(**{name: getattr(first, name) for name in OF_ANNOTATORS})


def whole_units(data: Annotations) -> np.ndarray:
    """What folds keep whole, a code an item, (N,): its sequence, the item of its set, or itself."""
    parts = data.alphabet.kind.parts
    if parts is not None and not parts.columns and data.item_covariates is not None:
        return np.asarray(data.item_covariates[parts.names[0]].cat.codes)
    units = units_of(data.item_covariates)
    return np.arange(data.n_items) if units is None else units[:, 0]


def label_folds(data: Annotations, folds: int, seed: int) -> np.ndarray:
    """The fold in which each label is left out, never all of an item in one, or -1: int (S,) as ``frame()``.

    An item's labels are dealt to the folds in random order; labels of one annotator on one item stay together. An
    item that only one annotator labelled always keeps its label; DataError when all are such. Items of a sequence
    are dealt as one, and so are all classes of a set.
    """
    item, annotator, _ = data.label_codes()
    whole = whole_units(data)[item].astype(np.int64)
    dealt_together, unit = np.unique(whole * data.n_annotators + annotator, return_inverse=True)
    owner = dealt_together // data.n_annotators
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
            f"no item of {data.n_items} has labels of two annotators, so that none can be left out; give "
            "more labels, or leave out whole items: heldout_score and compare take whole_items=True"
        )
    return np.asarray(fold[unit])


def item_folds(data: Annotations, folds: int, seed: int) -> np.ndarray:
    """The fold in which each label is left out, with all others of its item: int (S,) as ``data.frame()``.

    Only items with labels are dealt out: folds may be made within a fold of the same seed. Items of a sequence are
    dealt as one, and so are all classes of a set.
    """
    whole = whole_units(data)
    labelled, place = np.unique(whole[data.label_codes()[0]], return_inverse=True)
    return np.asarray((np.random.default_rng(seed).permutation(len(labelled)) % folds)[place])
