"""Blocks of labels in files that are mapped to memory: the system reads what a pass needs, and may forget it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from crowdppl.data.blocks import Block
from crowdppl.data.ragged import RaggedIndex

TENSORS = ("cells", "row_starts", "rows", "piece_starts", "piece_cells")
"""Of ``RaggedIndex``, which has no weights here."""
ORDER, STARTS = "order", ("row_starts", "piece_starts")


def write_blocks(path: Path, order: np.ndarray, blocks: Sequence[Block]) -> None:
    """Writes the labels of blocks, and the order of their items, as safetensors: about 9 bytes a label."""
    from safetensors.torch import save_file  # slow to import

    found = {ORDER: torch.from_numpy(order)}
    for n, block in enumerate(blocks):
        tensors = {name: getattr(block.bags, name) for name in TENSORS}
        found |= {f"{n}.{name}": x.contiguous() for name, x in tensors.items() if x is not None}
    save_file(found, path)


def mapped_blocks(path: Path, sizes: tuple[int, int, int]) -> tuple[np.ndarray, list[Block]]:
    """The order of items, in memory, and blocks of ``sizes`` (annotators, classes, answers), mapped to memory.

    ValueError for a file that does not hold them.
    """
    from safetensors import SafetensorError, safe_open  # slow to import

    blocks, offset, n_cells = list[Block](), 0, sizes[0] * sizes[2]
    try:
        with safe_open(path, framework="pt") as file:
            names = {*file.keys()}
            order = file.get_tensor(ORDER).numpy().copy()
            while f"{len(blocks)}.cells" in names:
                given: dict[str, Any] = dict.fromkeys(TENSORS)
                given |= {
                    x: file.get_tensor(f"{len(blocks)}.{x}") for x in TENSORS if f"{len(blocks)}.{x}" in names
                }
                if fault := next(_faults(given, n_cells), None):
                    raise ValueError(f"its blocks {fault}")
                bags = RaggedIndex(len(given["row_starts"]), n_cells, **given)
                blocks.append(Block(bags, *sizes, offset))
                offset += bags.n_rows
    except (SafetensorError, TypeError) as error:
        raise ValueError(f"it cannot be read ({error})") from error
    whole = len(order) == offset and order.dtype == np.int32 and np.array_equal(np.sort(order), np.arange(offset))
    if not blocks or not whole:
        raise ValueError("its blocks are not those of its items")
    return order, blocks


def _faults(given: Mapping[str, Any], n_cells: int) -> Iterator[str]:
    """What a pass would read beyond its tables: codes out of range, starts out of order."""
    if any(
        given[x] is None or given[x].dtype != torch.int32 for x in ("cells", "row_starts", "rows", "piece_starts")
    ):
        yield "lack tensors, or have them of another type"
        return
    pieces, n_labels = given["piece_cells"], len(given["cells"])
    if len(given["rows"]) != n_labels or len(given["piece_starts"]) != (n_cells if pieces is None else len(pieces)):
        yield "have tensors of unequal lengths"
    sizes = {"cells": n_cells, "rows": len(given["row_starts"]), "piece_cells": n_cells}
    for name, size in (sizes | dict.fromkeys(STARTS, n_labels + 1)).items():
        codes = given[name]
        if codes is not None and len(codes) and not 0 <= int(codes.min()) <= int(codes.max()) < size:
            yield f"have {name} beyond 0 to {size - 1}, such as those of other annotators or classes"
    for name in STARTS:
        if len(given[name]) and (int(given[name][0]) or (given[name].diff() < 0).any()):
            yield f"have {name} that do not rise from 0"
