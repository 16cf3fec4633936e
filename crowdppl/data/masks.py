"""Masks of several people as labels: each pixel is an item, and neighbouring pixels are linked."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.core.validation import kind_of
from crowdppl.data.ids import native
from crowdppl.errors import DataError

PIXEL = ("image", "row", "column")
"""Item covariates: the image of each pixel, and its place in it."""
ONE_IMAGE = 0
"""Its name, where there is one and it has none."""


def labels_of_masks(masks: Any, missing: Any = None) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
    """Item, annotator and label of each pixel that was labelled, (S,) each, and options: items, place and edges.

    DataError for what are no masks, and where those of one image have different sizes; it names who drew which.
    """
    images = _images(masks)
    item, who, label, places, edges, first = [], [], [], [], list[np.ndarray](), 0
    names: pd.Index[Any] = pd.Index([*dict.fromkeys(name for drawn in images.values() for name in drawn)])
    for image, drawn in images.items():
        shape = _shape(image, drawn)
        at = np.arange(first, first + shape[0] * shape[1]).reshape(shape)
        first += at.size
        places.append(pd.DataFrame(dict(zip(PIXEL[1:], np.indices(shape).reshape(2, -1), strict=True))))
        sides = ((at[:, :-1], at[:, 1:]), (at[:-1], at[1:]))
        edges += [np.stack([one.ravel(), other.ravel()], 1) for one, other in sides]
        for name, mask in drawn.items():
            given = mask.ravel().astype(np.int64) if mask.dtype == bool else mask.ravel()
            kept = np.ones(at.size, bool) if missing is None else ~_is(given, missing)
            item.append(at.ravel()[kept])
            who.append(np.full(int(kept.sum()), names.get_loc(name)))
            label.append(given[kept])
    of_image = np.repeat(np.arange(len(images)), [len(x) for x in places])
    table = pd.concat(places, ignore_index=True)
    name = pd.Categorical.from_codes(of_image, pd.Index([*images], tupleize_cols=False))
    table.insert(0, PIXEL[0], pd.Series(name))
    known = {"items": np.arange(first), "item_covariates": table, "edges": np.concatenate(edges)}
    people = names.take(np.concatenate(who)).to_numpy()
    return np.concatenate(item), people, np.concatenate(label), known


def _is(given: np.ndarray, missing: Any) -> np.ndarray:
    """Which labels are missing, NaN among floats being equal to itself."""
    same = np.asarray(given == missing)
    return same | np.isnan(given) if given.dtype.kind == "f" and missing != missing else same


def _images(masks: Any) -> dict[Hashable, dict[Any, np.ndarray]]:
    """The masks of each image by annotator."""
    if isinstance(masks, Mapping) and masks and not any(isinstance(x, Mapping) for x in masks.values()):
        masks = {ONE_IMAGE: masks}
    named = masks if isinstance(masks, Mapping) else dict(enumerate(masks)) if isinstance(masks, Sequence) else {}
    if not named or not all(isinstance(x, Mapping) and x for x in named.values()):
        what = "give {annotator: array (H, W)}, or a list or mapping of such, one an image"
        raise DataError(f"masks are {kind_of(masks)}; {what}")
    return {image: {name: np.asarray(mask) for name, mask in drawn.items()} for image, drawn in named.items()}


def _shape(image: Hashable, drawn: Mapping[Any, np.ndarray]) -> tuple[int, int]:
    """The size of an image, which all its masks have."""
    shapes = {name: mask.shape for name, mask in drawn.items()}
    for name, shape in shapes.items():
        if len(shape) != 2 or 0 in shape:
            of = f"image {native(image)!r} by {native(name)!r}"
            raise DataError(f"the mask of {of} has shape {shape}; give (H, W)")
    first, *others = shapes
    other = next((name for name in others if shapes[name] != shapes[first]), None)
    if other is not None:
        raise DataError(
            f"the masks of image {native(image)!r} have different sizes: {shapes[first]} by {native(first)!r}, "
            f"{shapes[other]} by {native(other)!r}; resample them to one grid (nearest neighbours)"
        )
    return shapes[first][0], shapes[first][1]
