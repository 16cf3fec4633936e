"""Processes that share a fit, as torchrun starts them, and data in parts that are shared among them."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import distributed as dist
from torch import multiprocessing

from crowdppl.data.annotations import Annotations

IMPORTED = ["crowdppl.fitting", __name__]
"""What processes find imported, by one from which they are forked: that is most of what starting them costs."""
PARTS = 6
"""Of the items, each a block of its own: one process has all blocks, of three each has two."""


def share_of(frame: pd.DataFrame, process: int, processes: int, **options: Any) -> Annotations:
    """The items of one of some processes, in blocks of a part each; annotators and classes are those of all."""
    part = np.unique(frame["item"], return_inverse=True)[1] % PARTS
    first, last = (PARTS * n // processes for n in (process, process + 1))
    named: dict[str, Any] = {"annotators": frame["annotator"].unique().tolist(), **options}
    if options.get("kind") not in ("real", "count", "angle"):
        named["classes"] = sorted(frame["label"].unique().tolist())
    data = Annotations.from_frame(frame[(part >= first) & (part < last)], **named)
    order, blocks, offset = list[np.ndarray](), [], 0
    for number in range(first, last):
        one = Annotations.from_frame(frame[part == number], **named)
        order.append(data.item_book.codes(one.items)[one.order])
        blocks += [replace(block, offset=offset + block.offset) for block in one.blocks]
        offset += one.n_items
    order_of_all = np.concatenate(order).astype(np.int32)
    return replace(data, blocks=blocks, order=order_of_all, share=(process, processes))


def _work(
    process: int, processes: int, folder: str, function: Callable[..., Any], arguments: Sequence[Any]
) -> None:
    """One process: it joins the group, and keeps what the function returns."""
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", processes)
    dist.init_process_group("gloo", store=store, rank=process, world_size=processes)
    torch.save(function(process, processes, *arguments), f"{folder}/{process}")
    dist.destroy_process_group()


def by_processes(processes: int, function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """What a function of its process's number, their number and arguments returns in each process."""
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.set_forkserver_preload(IMPORTED)
        how: Any = {"nprocs": processes, "start_method": "forkserver"}
        multiprocessing.start_processes(_work, (processes, folder, function, arguments), **how)
        return [torch.load(Path(folder) / f"{n}", weights_only=False) for n in range(processes)]
