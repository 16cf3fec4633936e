"""Sums of table lines as products of a sparse matrix: in float64, torch's embedding_bag has no fast kernel."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from torch import Tensor

NARROW = 8
"""Columns up to which torch's own product is the quickest."""


def ones_at(columns: Tensor, starts: Tensor, width: int) -> Tensor:
    """A sparse float64 matrix (len(starts), width) with a one for each entry, sorted by row."""
    ends = torch.cat([starts, starts.new_tensor([len(columns)])])
    ones = torch.ones(len(columns), dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse")
        return torch.sparse_csr_tensor(ends, columns, ones, (len(starts), width))


def product(matrix: Tensor, dense: Tensor) -> Tensor:
    """Sparse times dense, (rows, columns) by (columns, width), in float64 on the CPU.

    Torch's product of wide tables costs up to six times as much an entry as that of narrow ones. Scipy's does not,
    and takes one thread: where others keep the cores busy, two of torch's wait for each other, milliseconds a call.
    """
    if dense.shape[1] <= NARROW:
        return matrix @ dense.contiguous()
    out: Tensor = torch.ops.crowdppl.wide_product(
        matrix.crow_indices(), matrix.col_indices(), matrix.values(), dense.contiguous()
    )
    return out


def _wide_product(ends: Tensor, columns: Tensor, values: Tensor, dense: Tensor) -> Tensor:
    from scipy.sparse import csr_array  # slow to import; there since the data were built

    shape = (len(ends) - 1, len(dense))
    found = csr_array((values.numpy(), columns.numpy(), ends.numpy()), shape=shape) @ dense.numpy()
    return torch.from_numpy(np.ascontiguousarray(found))


# An operation of torch, so that recordings of a pass see it; what numpy does inside is none of theirs.
_LIBRARY = torch.library.Library("crowdppl", "DEF")
_LIBRARY.define("wide_product(Tensor ends, Tensor columns, Tensor values, Tensor dense) -> Tensor")
_LIBRARY.impl("wide_product", _wide_product, "CPU")
