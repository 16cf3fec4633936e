"""New annotations under the codes of old ones."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.annotations import Annotations
from crowdppl.checking import require_labels
from crowdppl.decoding import row_codes
from crowdppl.errors import RepeatsWarning
from crowdppl.feature_values import in_columns
from crowdppl.stored_features import StoredFeatures


def alike(old: Annotations, new: Annotations | pd.DataFrame) -> Annotations:
    """New annotations under the codes of old ones: the same annotators, classes and answers.

    Features come along, of tables in the old order of columns; where new ones have none and all items are old
    ones, theirs do. A fit cannot take in annotators whom it does not know, so that ``grow`` is no way out.

    Raises:
        DataError: when an annotator, a class or a column of features is not one of the old ones, or there are no
            labels.
    """
    if not isinstance(new, Annotations):
        return _with_features(old, Annotations.from_frame(new, like=old, grow=False))
    require_labels(new.blocks)
    pairs = ((old.annotators, new.annotators), (old.classes, new.classes), (old.answers, new.answers))
    if not all(a.equals(b) for a, b in pairs):
        known: Any = {"items": new.items, "gold": new.gold, "features": new.features}
        new = Annotations.from_frame(new.frame(), "item", "annotator", "label", like=old, grow=False, **known)
    return _with_features(old, new)


def warn_of_repeats(old: Annotations, new: Annotations) -> None:
    """Warns of new labels by annotators whose label of the same item the fit has."""
    code = old.item_book.codes(new.items).astype(np.int64)

    def pairs(data: Annotations, number: np.ndarray) -> np.ndarray:
        item, cell = row_codes(data.blocks, data.order)
        found: np.ndarray = number[item] * data.n_annotators + cell // np.int32(data.n_answers)
        return found

    again = np.isin(pairs(new, code), pairs(old, np.arange(old.n_items)))  # new items have negative numbers
    if again.any():
        warnings.warn(
            f"{again.sum()} of {len(again)} new labels are by an annotator whose label of the item the fit has, "
            "and count on top of it; leave out labels that are not new",
            RepeatsWarning,
            stacklevel=3,  # where update was called
        )


def _with_features(old: Annotations, new: Annotations) -> Annotations:
    code = old.item_book.codes(new.items)
    if isinstance(new.features, pd.DataFrame) and isinstance(old.features, pd.DataFrame):
        return replace(new, features=in_columns(new.features, old.features.columns))
    if new.features is not None or old.features is None or (code < 0).any():
        return new
    features = old.features
    if isinstance(features, pd.DataFrame):
        return replace(new, features=features.iloc[code])
    return replace(new, features=features.at(code) if isinstance(features, StoredFeatures) else features[code])
