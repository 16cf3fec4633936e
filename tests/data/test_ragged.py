"""Ragged sums against dense ones: values, first and second derivatives, exact counts of many entries."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from crowdppl.data.ragged import PIECE, RaggedIndex, ragged_sum
from crowdppl.errors import DataError

Make = Callable[[], tuple[RaggedIndex, Tensor]]


def ragged() -> tuple[RaggedIndex, Tensor]:
    """12 entries in 6 rows and 7 cells: a repeat, empty rows 0, 3 and 5, empty cells 0, 4 and 6."""
    row = np.array([1, 1, 1, 1, 2, 2, 4, 4, 4, 4, 1, 2])
    cell = np.array([5, 2, 2, 1, 3, 5, 1, 1, 1, 5, 3, 2])
    dense = torch.zeros(6, 7, dtype=torch.float64)
    np.add.at(dense.numpy(), (row, cell), 1.0)
    order = np.random.default_rng(0).permutation(len(row))
    return RaggedIndex.of_pairs(row[order], cell[order], 6, 7), dense


def gather() -> tuple[RaggedIndex, Tensor]:
    """Each row is one cell."""
    cell = torch.tensor([3, 0, 0, 2])
    return RaggedIndex.of_rows(cell, 5), torch.nn.functional.one_hot(cell, 5).double()


def transposed() -> tuple[RaggedIndex, Tensor]:
    """Each cell is one entry: the transpose of a gather."""
    bags = RaggedIndex(
        n_rows=3,
        n_cells=4,
        cells=torch.arange(4, dtype=torch.int32),
        row_starts=torch.tensor([0, 2, 2], dtype=torch.int32),
        rows=torch.tensor([0, 0, 2, 2], dtype=torch.int32),
        piece_starts=None,
        piece_cells=None,
    )
    return bags, torch.tensor([[1.0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 1, 1]], dtype=torch.float64)


def in_pieces() -> tuple[RaggedIndex, Tensor]:
    """A cell of more than two pieces, one of exactly two, one that is empty, one of a single entry."""
    sizes = np.array([2 * PIECE + 5, 0, 1, 2 * PIECE])
    cell = np.repeat(np.arange(4), sizes)
    row = np.random.default_rng(1).integers(3, size=len(cell))
    dense = torch.zeros(3, 4, dtype=torch.float64)
    np.add.at(dense.numpy(), (row, cell), 1.0)
    return RaggedIndex.of_pairs(row, cell, 3, 4), dense


every_form = pytest.mark.parametrize("make", [ragged, gather, transposed, in_pieces])
small_forms = pytest.mark.parametrize("make", [ragged, gather, transposed])


def table(n_cells: int, width: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(n_cells, width, dtype=dtype, generator=torch.Generator().manual_seed(0))


@every_form
@pytest.mark.parametrize("width", [1, 3, 8, 19])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_bag_is_a_dense_product_both_ways(make: Make, width: int, dtype: torch.dtype) -> None:
    bags, dense = make()
    x = table(bags.n_cells, width, dtype).requires_grad_()
    out = ragged_sum(x, bags)
    assert out.dtype == dtype
    size = float(dense.sum(1).max())
    rounding = size * torch.finfo(dtype).eps  # of one running sum over the longest row
    near = {"rtol": 8 * rounding, "atol": 8 * rounding}
    torch.testing.assert_close(out.double(), dense @ x.detach().double(), **near)
    weight = table(bags.n_rows, width, dtype) + 2
    (back,) = torch.autograd.grad((out * weight).sum(), x)
    assert back.dtype == dtype
    torch.testing.assert_close(back.double(), dense.t() @ weight.double(), **near)


@small_forms
def test_gradients_agree_with_finite_differences_twice(make: Make) -> None:
    bags, _ = make()
    x = table(bags.n_cells, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda t: ragged_sum(t, bags), (x,))
    assert torch.autograd.gradgradcheck(lambda t: ragged_sum(t, bags), (x,))
    assert torch.autograd.gradcheck(lambda t: ragged_sum(t.exp(), bags).square(), (x,))
    assert torch.autograd.gradgradcheck(lambda t: ragged_sum(t.exp(), bags).square(), (x,))


def test_no_entries_at_all() -> None:
    none = np.zeros(0, int)
    bags = RaggedIndex.of_pairs(none, none, 2, 3)
    x = table(3, 2).requires_grad_()
    out = ragged_sum(x, bags)
    assert torch.equal(out, torch.zeros(2, 2, dtype=torch.float64))
    assert torch.equal(torch.autograd.grad(out.sum(), x)[0], torch.zeros(3, 2, dtype=torch.float64))


def test_the_result_may_be_less_precise_than_the_table_and_counts_stay_exact() -> None:
    bags, dense = in_pieces()
    x = table(4, 2).requires_grad_()
    out = ragged_sum(x, bags, torch.float32)
    assert out.dtype == torch.float32
    (counts,) = torch.autograd.grad(out.sum(), x)
    assert counts.dtype == torch.float64
    assert torch.equal(counts, dense.sum(0).unsqueeze(1).expand(4, 2))


def test_entries_in_another_order_make_the_same_bags() -> None:
    row, cell = np.array([0, 2, 2, 1]), np.array([1, 0, 3, 1])
    one, two = (RaggedIndex.of_pairs(row[o], cell[o], 3, 4) for o in ([0, 1, 2, 3], [3, 1, 0, 2]))
    for a, b in ((one.cells, two.cells), (one.rows, two.rows), (one.row_starts, two.row_starts)):
        assert a is not None and b is not None and torch.equal(a, b)


def test_codes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(DataError, match=r"2147483648 cells"):
        RaggedIndex.of_pairs(np.array([0]), np.array([0]), 1, 2**31)


def test_thirty_million_labels_in_one_cell_are_counted_exactly() -> None:
    n = 30_000_000  # float32 alone stops at 2**24, which is 16,777,216
    starts = torch.arange(0, n, PIECE, dtype=torch.int32)
    every = torch.arange(n, dtype=torch.int32)
    owner = torch.zeros(len(starts), dtype=torch.int64)
    bags = RaggedIndex(n, 1, torch.zeros(n, dtype=torch.int32), every, every, starts, owner)
    x = torch.zeros(1, 1, dtype=torch.float64, requires_grad=True)
    (count,) = torch.autograd.grad(ragged_sum(x, bags, torch.float32).sum(), x)
    assert count.item() == n
