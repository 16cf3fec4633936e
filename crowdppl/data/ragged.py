"""Ragged indices: sums over the labels of each item or cell, and their exact transposes."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from crowdppl.errors import DataError

WIDE = 16
"""Width from which copying column by column no longer pays."""
FEW = 10_000
"""Numbers up to which it does not either."""


def flip(x: Tensor) -> Tensor:
    """The transpose (W, n) of (n, W), contiguous in both passes: sums over few classes are faster so."""
    out: Tensor = _Flip.apply(x)  # type: ignore[no-untyped-call]
    return out


class _Flip(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        if x.shape[1] > WIDE or x.numel() <= FEW or not x.is_contiguous():
            return x.t().contiguous()
        return torch.stack(x.unbind(1))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return _Unflip.apply(grads[0])  # type: ignore[no-untyped-call,no-any-return]


class _Unflip(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        if x.shape[0] > WIDE or x.numel() <= FEW or not x.is_contiguous():
            return x.t().contiguous()
        out = x.new_empty(x.shape[1], x.shape[0])
        for column, row in zip(out.t(), x, strict=True):
            column.copy_(row)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return _Flip.apply(grads[0])  # type: ignore[no-untyped-call,no-any-return]


NARROW, SHORT = 8, 1_000_000
"""Columns, and products of two numbers, up to which torch's own product is the quickest."""


def matrix_of(columns: Tensor, starts: Tensor, width: int, weights: Tensor | None) -> Tensor:
    """A sparse float64 matrix (len(starts), width) with its weight, or a one, for each entry, sorted by row."""
    ends = torch.cat([starts, starts.new_tensor([len(columns)])])
    values = _ones(len(columns)) if weights is None else weights
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse")
        return torch.sparse_csr_tensor(ends, columns, values, (len(starts), width))


def _ones(n: int) -> Tensor:
    """So many ones, which all matrices share."""
    global _shared_ones
    if len(_shared_ones) < n:
        _shared_ones = torch.ones(n, dtype=torch.float64)
    return _shared_ones[:n]


_shared_ones = torch.ones(0, dtype=torch.float64)


def product(matrix: Tensor, dense: Tensor) -> Tensor:
    """Sparse (rows, columns) times dense (columns, width) in float64; wide ones on the CPU by scipy."""
    if dense.shape[1] <= NARROW or matrix.values().numel() * dense.shape[1] <= SHORT:
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


# An operation of torch, so that traces of a pass record it.
_LIBRARY = torch.library.Library("crowdppl", "DEF")
_LIBRARY.define("wide_product(Tensor ends, Tensor columns, Tensor values, Tensor dense) -> Tensor")
_LIBRARY.impl("wide_product", _wide_product, "CPU")


PIECE = 4096
"""Longest run of entries added in working precision; runs are added in the precision of the cells."""


@dataclass(frozen=True)
class RaggedIndex:
    """Which cells each row adds up, stored once by row and once by cell.

    A row is an item (or an item and a group, or a label); a cell is a line of a table, such as the pair
    (annotator, answer). An entry may repeat. The copy by cell is the transpose: its sums are the backward pass,
    differentiable again.

    Attributes:
        n_rows, n_cells: sizes of the two sides.
        cells: int32 (S,), the cell of each entry, sorted by row.
        row_starts: int32 (n_rows,), where each row begins; None when row r is exactly entry r.
        rows: int32 (S,), the row of each entry, sorted by cell.
        piece_starts: int32 (P,), where each piece of a cell begins; None when cell c is exactly entry c.
        piece_cells: int64 (P,), the cell of each piece; None when every cell is one piece.
        row_weights, cell_weights: float64 (S,), by which each entry counts, sorted by row and by cell; None for 1.
    """

    n_rows: int
    n_cells: int
    cells: Tensor
    row_starts: Tensor | None
    rows: Tensor
    piece_starts: Tensor | None
    piece_cells: Tensor | None
    row_weights: Tensor | None = None
    cell_weights: Tensor | None = None

    @staticmethod
    def of_pairs(
        row: np.ndarray, cell: np.ndarray, n_rows: int, n_cells: int, weight: np.ndarray | None = None
    ) -> RaggedIndex:
        """Builds bags from entries (S,) in any order; errors as of ``of_matrix``."""
        _require_small(n_rows, n_cells, len(row))
        return RaggedIndex.of_matrix(sorted_pairs(row, cell, n_rows, n_cells, weight))

    @staticmethod
    def of_sorted(
        ends: np.ndarray, cell: np.ndarray, n_cells: int, weight: np.ndarray | None = None
    ) -> RaggedIndex:
        """Builds bags from the cells of each row, in their order; ``ends`` (n_rows + 1,) begins with 0."""
        from scipy.sparse import csr_array

        values = np.ones(len(cell), np.int8) if weight is None else weight
        return RaggedIndex.of_matrix(csr_array((values, cell, ends), shape=(len(ends) - 1, n_cells)))

    @staticmethod
    def of_matrix(by_row: Any) -> RaggedIndex:
        """Bags of a sparse matrix (rows x cells), floats being weights; DataError beyond 2**31 entries."""
        _require_small(*by_row.shape, by_row.nnz)
        by_cell, weighted = by_row.tocsc(), by_row.dtype.kind == "f"
        pieces, owner = _pieces(np.diff(by_cell.indptr))
        codes = (by_row.indices, by_row.indptr[:-1], by_cell.indices, pieces)
        cells, starts, rows, parts = (torch.from_numpy(x.astype(np.int32, copy=False)) for x in codes)
        n_rows, n_cells = by_row.shape
        return RaggedIndex(
            n_rows,
            n_cells,
            cells,
            starts,
            rows,
            parts,
            None if owner is None else torch.from_numpy(owner),
            torch.from_numpy(by_row.data) if weighted else None,
            torch.from_numpy(by_cell.data) if weighted else None,
        )

    @staticmethod
    def of_rows(cell: Tensor, n_cells: int, weight: Tensor | None = None) -> RaggedIndex:
        """Bags in which row r is the single cell ``cell[r]``: a gather, whose transpose is a ragged sum."""
        weights = None if weight is None else weight.cpu().numpy()
        pairs = RaggedIndex.of_pairs(np.arange(len(cell)), cell.cpu().numpy(), len(cell), n_cells, weights)
        return replace(pairs, row_starts=None).to(cell.device)

    @cached_property
    def row_matrix(self) -> Tensor:
        """The forward sum as a sparse float64 matrix (n_rows, n_cells)."""
        assert self.row_starts is not None
        return matrix_of(self.cells, self.row_starts, self.n_cells, self.row_weights)

    @cached_property
    def piece_matrix(self) -> Tensor:
        """The transposed sum as a sparse float64 matrix (pieces, n_rows)."""
        assert self.piece_starts is not None
        return matrix_of(self.rows, self.piece_starts, self.n_rows, self.cell_weights)

    def row_of_entry(self) -> Tensor:
        """The row of each entry, in row order, int64 (S,)."""
        if self.row_starts is None:
            return torch.arange(self.n_rows, device=self.cells.device)
        ends = torch.cat([self.row_starts[1:], self.row_starts.new_tensor([len(self.cells)])])
        rows = torch.arange(self.n_rows, device=self.cells.device)
        return torch.repeat_interleave(rows, (ends - self.row_starts).long(), output_size=len(self.cells))

    def to(self, device: torch.device | str) -> RaggedIndex:
        """A copy on a device, without cached matrices."""
        arrays = ("cells", "row_starts", "rows", "piece_starts", "piece_cells", "row_weights", "cell_weights")
        found = {name: getattr(self, name) for name in arrays}
        moved: dict[str, Any] = {name: x if x is None else x.to(device) for name, x in found.items()}
        return replace(self, **moved)


def sorted_pairs(
    row: np.ndarray, cell: np.ndarray, n_rows: int, n_cells: int, weight: np.ndarray | None = None
) -> Any:
    """Entries sorted by (row, cell) as a sparse matrix, by two counting sorts; repeats stay apart."""
    from scipy.sparse import csc_array  # slow to import, needed where data are built

    values = np.ones(len(row), np.int8) if weight is None else weight
    # One entry a column, so that nothing is summed: the indices are the entries, grouped by cell.
    each = np.arange(len(row) + 1, dtype=np.int32)
    entries = csc_array((values, cell, each), shape=(n_cells, len(row))).tocsr()
    return csc_array((entries.data, row[entries.indices], entries.indptr), shape=(n_rows, n_cells)).tocsr()


def runs(starts: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Runs of consecutive places, by starts and sizes, one after another: the run of each place, and the place."""
    run = np.repeat(np.arange(len(sizes)), sizes)
    return run, np.arange(len(run)) + np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)


def ragged_sum(table: Tensor, bags: RaggedIndex, dtype: torch.dtype | None = None) -> Tensor:
    """Adds up lines of a table (n_cells, width): ``out[r] = sum of table[c] over the cells c of row r``, weighted.

    Differentiable any number of times: the backward pass is the transposed sum. It adds pieces of at most 4,096
    entries in the table's precision, so that a float64 table counts any number of float32 ones exactly. (n_rows,
    width), of ``dtype`` or the table's.
    """
    out: Tensor = _RowSums.apply(table, bags, dtype or table.dtype)  # type: ignore[no-untyped-call]
    return out


def transposed_sum(values: Tensor, bags: RaggedIndex, dtype: torch.dtype) -> Tensor:
    """Adds up values (n_rows, width) over the rows of each cell, to (n_cells, width); see ``ragged_sum``."""
    out: Tensor = _CellSums.apply(values, bags, dtype)  # type: ignore[no-untyped-call]
    return out


def gather(x: Tensor, bags: RaggedIndex, event_dim: int = 0) -> Tensor:
    """Looks up one cell for each row, (..., cells, *event) -> (..., rows, *event), with a bag as its backward."""
    place = x.dim() - 1 - event_dim
    lead, event = x.shape[:place], x.shape[place + 1 :]
    table = x.movedim(place, 0).unsqueeze(-1).flatten(1)
    return ragged_sum(table, bags).reshape((bags.n_rows, *lead, *event)).movedim(0, len(lead))


class _RowSums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, bags: RaggedIndex, dtype: torch.dtype) -> Tensor:
        ctx.bags, ctx.dtype = bags, table.dtype
        table, weights = table.to(dtype), bags.row_weights
        if bags.row_starts is None:
            return _weighted(table.index_select(0, bags.cells), weights)
        if table.dtype == torch.float64 and not table.is_cuda:
            return product(bags.row_matrix, table)
        return _bag(bags.cells, table, bags.row_starts, weights)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return _CellSums.apply(grads[0], ctx.bags, ctx.dtype), None, None  # type: ignore[no-untyped-call]


class _CellSums(torch.autograd.Function):
    """The transposed sum: ``out[c] = sum of values[r] over the rows r of cell c``."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, bags: RaggedIndex, dtype: torch.dtype) -> Tensor:
        ctx.bags, ctx.dtype = bags, values.dtype
        if bags.piece_starts is None:
            return _weighted(values.index_select(0, bags.rows), bags.cell_weights).to(dtype)
        if values.dtype == torch.float64 and not values.is_cuda:
            pieces = product(bags.piece_matrix, values).to(dtype)
        else:
            pieces = _bag(bags.rows, values, bags.piece_starts, bags.cell_weights).to(dtype)
        if bags.piece_cells is None:
            return pieces
        out = torch.zeros(bags.n_cells, values.shape[1], dtype=dtype, device=values.device)
        return out.index_add_(0, bags.piece_cells, pieces)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return _RowSums.apply(grads[0], ctx.bags, ctx.dtype), None, None  # type: ignore[no-untyped-call]


def _weighted(x: Tensor, weights: Tensor | None) -> Tensor:
    return x if weights is None else x * weights.to(x.dtype).unsqueeze(-1)


def _bag(entries: Tensor, lines: Tensor, starts: Tensor, weights: Tensor | None) -> Tensor:
    """Sums of lines in working precision."""
    each = None if weights is None else weights.to(lines.dtype)
    return embedding_bag(entries, lines.contiguous(), starts, mode="sum", per_sample_weights=each)


def _require_small(*sizes: int) -> None:
    """Refuses rows, cells and entries that 32-bit codes cannot count, before anything is made of them."""
    for size, side in zip(sizes, ("rows", "cells", "entries"), strict=True):
        if size >= 2**31:
            raise DataError(f"a block with {size} {side} does not fit 32-bit codes; use smaller blocks")


def _pieces(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Starts of the pieces of each cell, and their owners where some cell has several."""
    starts = np.cumsum(sizes) - sizes
    if len(sizes) == 0 or sizes.max() <= PIECE:
        return starts, None
    per_cell = np.maximum(1, -(-sizes // PIECE))
    owner, within = runs(np.zeros_like(per_cell), per_cell)
    return starts[owner] + within * PIECE, owner
