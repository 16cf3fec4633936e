"""The search of gradient blocks never ends lower than it began, and looks no more often than it must."""

from collections.abc import Iterator, Sequence

import pytest
import torch
from torch import Tensor

from crowdppl.errors import NumericalError
from crowdppl.inference.optimisers import LBFGSAscent
from tests.crowd import double


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with double():
        yield


class Valley:
    """A curved ridge (Rosenbrock's function, upside down), whose looks are counted."""

    def __init__(self, broken_after: int = 10**9) -> None:
        self.leaf = torch.tensor([-1.2, 1.0], requires_grad=True)
        self.looks = 0
        self.broken_after = broken_after

    def value(self) -> Tensor:
        x, y = self.leaf
        return -((1 - x) ** 2) - 100 * (y - x**2) ** 2

    def __call__(self) -> tuple[float, Sequence[Tensor]]:
        self.looks += 1
        if self.looks > self.broken_after:
            raise NumericalError("too far")
        value = self.value()
        return float(value.detach()), torch.autograd.grad(value, [self.leaf])


def test_it_climbs_to_the_top_and_returns_the_value_where_it_stands() -> None:
    valley, values = Valley(), []
    search = LBFGSAscent([valley.leaf], 6, 6)
    for _ in range(30):
        values.append(search(valley))
        assert values[-1] == float(valley.value().detach())
    assert values == sorted(values) and abs(values[-1]) < 1e-12
    torch.testing.assert_close(valley.leaf.detach(), torch.ones(2), atol=1e-5, rtol=0)


def test_a_first_call_takes_more_steps_than_later_ones() -> None:
    valley = Valley()
    search = LBFGSAscent([valley.leaf], 12, 3)
    search(valley)
    first = valley.looks
    search(valley)
    assert first >= 12 and valley.looks - first <= 5
    search._fresh()
    before = valley.looks
    search(valley)
    assert valley.looks - before >= 12  # what has no memory is a first call again


def test_where_every_step_goes_too_far_it_stays() -> None:
    valley = Valley(broken_after=1)
    start = valley.leaf.detach().clone()
    search = LBFGSAscent([valley.leaf], 6, 6)
    value = search(valley)
    assert value == float(valley.value().detach()) and torch.equal(valley.leaf.detach(), start)
    with pytest.raises(NumericalError):
        search(valley)  # already the first look fails


def test_a_search_that_is_given_its_memory_goes_on_as_if_it_had_never_stopped() -> None:
    one, other = Valley(), Valley()
    search, memory = LBFGSAscent([one.leaf], 6, 4), {}
    for _ in range(12):
        value = search(one)
        again = LBFGSAscent([other.leaf], 6, 4, memory)
        assert again(other) == value and torch.equal(one.leaf, other.leaf)
        memory = again.memory


@pytest.mark.parametrize("looks", [3, 4, 5])
def test_a_step_to_where_nothing_is_a_number_loses_no_gain(looks: int) -> None:
    valley, seen = Valley(), []

    def objective() -> tuple[float, Sequence[Tensor]]:
        value, slope = valley()
        if len(seen) == looks:
            return float("nan"), [x * float("nan") for x in slope]
        seen.append(value)
        return value, slope

    found = LBFGSAscent([valley.leaf], 6, 6)(objective)
    assert found == max(seen) == float(valley.value().detach())
