"""Annotations taken apart into codes and ids, and put together again: for results on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from crowdppl import errors
from crowdppl.data.annotations import Annotations
from crowdppl.data.blocks import build_blocks
from crowdppl.data.building import with_covariates, with_known
from crowdppl.data.decoding import row_codes
from crowdppl.data.stored_features import StoredFeatures
from crowdppl.errors import CrowdpplWarning, ResultError
from crowdppl.tables.alphabet import Alphabet
from crowdppl.tables.codebook import Codebook


def take_apart(data: Annotations) -> dict[str, Any]:
    """Everything that annotations hold, as ids, arrays and plain values."""
    item, cell = row_codes(data.blocks, data.order)
    annotator, answer = np.divmod(cell, np.int32(data.n_answers))
    history = data.history
    return {
        "kind": data.kind,
        "items": data.item_book.ids,
        "annotators": data.annotator_book.ids,
        "answers": data.alphabet.book.ids,
        "n_classes": data.n_classes,
        "item": item,
        "annotator": annotator,
        "answer": answer if data.blocks[0].observed else None,
        "gold_codes": data.gold_codes,
        "history": None if history is None else history.cpu().numpy(),
        "abstainers": data.abstainers,
        "informative": data.alphabet.informative,
        "features": _features(data.features),
        "item_covariates": _columns(data.item_covariates),
        "annotator_covariates": _columns(data.annotator_covariates),
        "columns": _columns(data.columns),
        "warnings": [[type(warning).__name__, str(warning)] for warning in data.warnings],
    }


def put_together(parts: Mapping[str, Any], dataset: Any = None) -> Annotations:
    """The annotations that ``take_apart`` described; with the dataset of their features, where they had one."""
    # What was saved before abstentions could be ignorable took them as informative.
    informative = parts.get("informative", parts["abstainers"] is not None)
    alphabet = Alphabet(Codebook("answer", parts["answers"]), parts["n_classes"], parts["kind"], informative)
    order, blocks = build_blocks(
        parts["item"],
        parts["annotator"],
        parts["answer"],
        n_items=len(parts["items"]),
        n_annotators=len(parts["annotators"]),
        n_classes=alphabet.n_classes,
        n_answers=len(alphabet.book),
    )
    history, abstainers, gold = parts["history"], parts["abstainers"], parts["gold_codes"]
    found = [
        replace(
            with_known(block, order, gold),
            history=None if history is None else torch.from_numpy(history),
            abstainers=None if abstainers is None else torch.from_numpy(abstainers),
            informative=alphabet.informative,
        )
        for block in blocks
    ]
    of_items = _frame(parts["item_covariates"], parts["items"])
    of_annotators = _frame(parts["annotator_covariates"], parts["annotators"])
    return Annotations(
        item_book=Codebook("item", parts["items"]),
        annotator_book=Codebook("annotator", parts["annotators"]),
        alphabet=alphabet,
        blocks=with_covariates(found, order, of_items, of_annotators),
        order=order,
        gold_codes=gold,
        features=_features_again(parts["features"], parts["items"], dataset),
        item_covariates=of_items,
        annotator_covariates=of_annotators,
        columns=_frame(parts["columns"], None),
        warnings=tuple(_warning(*said) for said in parts["warnings"]),
    )


def _features(features: Any) -> Any:
    """Features as plain values; of stored ones, where their rows are."""
    if isinstance(features, StoredFeatures):
        return features.described()
    return _columns(features) if isinstance(features, pd.DataFrame) else features


def _features_again(kept: Any, ids: pd.Index[Any], dataset: Any) -> Any:
    if isinstance(kept, Mapping) and "row_shape" in kept:
        return StoredFeatures.recalled(kept, ids, dataset)
    if dataset is not None:
        raise ResultError("this posterior was saved with its features, if it had any; leave features= out")
    return _frame(kept, ids)


def _columns(table: pd.DataFrame | None) -> dict[str, Any] | None:
    """A table as the names of its columns and their values; its index is known from elsewhere."""
    if table is None:
        return None
    return {"names": table.columns, "values": [pd.Index(table.iloc[:, n]) for n in range(table.shape[1])]}


def _frame(stored: Any, ids: pd.Index[Any] | None) -> Any:
    """The table again, or the array that features may be instead."""
    if not isinstance(stored, Mapping):
        return stored
    size = len(stored["values"][0]) if stored["values"] else 0
    index = pd.RangeIndex(size) if ids is None else ids
    series = [pd.Series(values.array, index=index) for values in stored["values"]]
    table = pd.concat(series, axis=1) if series else pd.DataFrame(index=index)
    return table.set_axis(stored["names"], axis=1)


def _warning(name: str, text: str) -> CrowdpplWarning:
    """A warning of its class, or of their base where this version has no such class."""
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, CrowdpplWarning):
        return kind(text)
    return CrowdpplWarning(text)
