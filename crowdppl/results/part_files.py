"""What a fit of annotations that were opened from parts tells of items, in files part by part."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from crowdppl.core.collective import all_gathered, process
from crowdppl.core.devices import return_memory
from crowdppl.core.files import new_files_of_all
from crowdppl.core.validation import require_path
from crowdppl.data.annotations import Annotations
from crowdppl.data.by_part import by_part
from crowdppl.errors import ResultError
from crowdppl.inference.result import ClassProbabilities, Fit, OnDemand
from crowdppl.results.truths import to_arrow

ARRAYS = "posterior-{:05d}.safetensors"
LABELS = "labels-{:05d}.parquet"
OF_PARTS, LABELS_OF_PARTS = "posterior-*.safetensors", "labels-*.parquet"
"""Patterns of these names."""
OF_A_PART = re.compile(r"labels-\d{5,}\.parquet")
OF_ITEMS = re.compile(
    r"posterior/(data/(known|features)|correction/raw|(correction/others/[^/]+/)?result/truth/.*)"
)
"""Places of arrays of a posterior that have a row an item: known truths, features, and those that were found."""


def write_arrays(arrays: dict[str, np.ndarray], data: Annotations, folder: Path) -> list[str]:
    """Takes those of items out of the arrays of a posterior, and writes them, a file a part; says which files."""
    from safetensors.numpy import save_file  # slow to import

    of_items = {place: arrays.pop(place) for place in [*arrays] if OF_ITEMS.fullmatch(place)}
    names = list[str]()
    for number, own, _ in by_part(data):
        names.append(ARRAYS.format(number))
        save_file({place: np.ascontiguousarray(x[own]) for place, x in of_items.items()}, folder / names[-1])
    return names


def array_files(data: Annotations) -> list[str]:
    """The files of ``write_arrays``."""
    assert data.opened is not None, "they were not opened from parts"
    sizes = zip(data.opened.parts, data.opened.items, strict=True)
    return [ARRAYS.format(number) for number, size in sizes if size]


def read_arrays(folder: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The arrays of items of some parts, put together."""
    from safetensors.numpy import load_file  # slow to import

    found = [load_file(folder / name) for name in names]
    return {place: np.concatenate([one[place] for one in found]) for place in (found[0] if found else ())}


def to_parquet(posterior: Fit, path: str | Path) -> None:
    """Writes the table of ``to_arrow`` to a folder, part by part where annotations were opened from parts.

    The files ``labels-00000.parquet`` and so on are numbered as the parts. No table of all items is made; of
    several processes that share a fit, each writes its own, and all must call it.

    Args:
        path: the folder, made where it does not exist; such files that are there are replaced last and at once.

    Raises:
        ResultError: when the path is that of a file, the disk is full, or processes do not share the folder.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.to_parquet("labels")  # the file labels/labels-00000.parquet
    """
    require_path(path, ResultError)
    with new_files_of_all(path) as folder:
        written = all_gathered(write_labels(posterior, folder))
    for old in Path(path).glob(LABELS_OF_PARTS) if process() == 0 else ():  # of more parts
        if OF_A_PART.fullmatch(old.name) and not any(old.name in names for names in written):
            old.unlink()


def write_labels(posterior: Fit, folder: Path) -> list[str]:
    """Writes the labels of each part to a folder; says which files."""
    from pyarrow import parquet  # slow to import

    names = list[str]()
    for number, part in fits_by_part(posterior):
        names.append(LABELS.format(number))
        parquet.write_table(to_arrow(part), folder / names[-1])
        return_memory(posterior.data.n_items)
    return names


def fits_by_part(posterior: Fit) -> Iterator[tuple[int, Fit]]:
    """What a fit tells of the truths of each part, by the number of the part."""
    truth = posterior.result.truth
    spread = None if isinstance(truth, ClassProbabilities) else truth.spread()
    for number, own, data in by_part(posterior.data):
        if isinstance(truth, ClassProbabilities):
            some: Any = ClassProbabilities(truth.probabilities[own])
        else:
            assert spread is not None
            some = replace(truth, mean=truth.mean[own], spread=OnDemand.of(spread[own]))
        yield number, replace(posterior, data=data, result=replace(posterior.result, truth=some))
