"""Functions written down as operations: what is repeated, what is left alone, and what is noticed."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import crowdppl
from crowdppl.inference import problem, replay
from crowdppl.inference.replay import FIRST, Function, Replayed, recorded
from crowdppl.inference.sites import structure_of
from tests.crowd import problem_of

HERE = {"x": torch.tensor([0.3, 0.7, 1.1], dtype=torch.float64)}
THERE = {"x": torch.tensor([2.0, -0.5, 0.1], dtype=torch.float64)}
FOUND = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)


def with_slope(at: Mapping[str, Tensor]) -> dict[str, Tensor]:
    x = at["x"].detach().requires_grad_()
    value = (x.exp() * FOUND).logsumexp(-1) + (x[1:] - x[:-1]).square().sum()
    return {"value": value.detach(), "slope": torch.autograd.grad(value, x)[0]}


def filled(at: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Writes into what it made itself, in an order that matters."""
    out = torch.zeros(2, 3, dtype=torch.float64)
    before = out + at["x"]
    out[0] = at["x"]
    out += 1
    one, two = out.unbind(0)
    return {"before": before, "one": one * 2, "two": two, "both": torch.cat([one, two])}


def picked(at: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {"x": at["x"][torch.tensor([2, 0])], "constant": FOUND * 2}


def sparse(at: Mapping[str, Tensor]) -> dict[str, Tensor]:
    matrix = torch.eye(3, dtype=torch.float64).to_sparse_csr()
    return {"x": matrix @ at["x"].unsqueeze(-1)}


def written_out(at: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {"x": torch.add(at["x"], 1, out=torch.empty(3, dtype=torch.float64))}


@pytest.mark.parametrize("function", [with_slope, filled, picked, sparse, written_out])
@pytest.mark.filterwarnings("ignore:Sparse")
def test_operations_repeat_a_function_elsewhere(function: Function) -> None:
    first, program = recorded(function, HERE)
    for at in (HERE, THERE, HERE):
        for name, x in function(at).items():
            assert torch.equal(program(*at.values())[name], x), name
    assert all(torch.equal(x, first[name]) for name, x in function(HERE).items())


LEFT_ALONE: dict[str, Callable[[Tensor], Tensor]] = {
    "if": lambda x: x + 1 if x.sum() > 0 else x - 1,
    "item": lambda x: x * x[0].item(),
    "mask": lambda x: x[x > 0.5].sum(),
    "random": lambda x: torch.randn(3, dtype=torch.float64),
    "stream": lambda x: x + torch.rand(3, generator=torch.Generator().manual_seed(1), dtype=torch.float64),
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_what_operations_would_not_repeat_has_no_program(name: str) -> None:
    results, program = recorded(lambda at: {"x": LEFT_ALONE[name](at["x"])}, HERE)
    assert program is None
    assert results["x"] is not None


def test_draws_are_repeated_from_a_stream_among_the_inputs() -> None:
    """Those that are not used, too, for later ones come after them."""

    def drawn(at: Mapping[str, Any]) -> dict[str, Tensor]:
        torch.rand(2, generator=at["one"])
        shares = torch.softmax(at["x"].repeat(4, 1).t(), 0)
        counts = torch.ops.crowdppl.draw_counts(torch.tensor([0.0, 1.0, 5.0, 2.0]).double(), shares, at["other"])
        return {"x": torch._standard_gamma(at["x"].exp(), generator=at["one"]), "counts": counts}

    def inputs(seed: int) -> dict[str, Any]:
        streams = {name: torch.Generator().manual_seed(seed + i) for i, name in enumerate(("one", "other"))}
        return {"x": HERE["x"] + seed, **streams}

    program = recorded(drawn, inputs(0))[1]
    for seed in (3, 1, 3):
        for name, x in drawn(inputs(seed)).items():
            assert torch.equal(program(*inputs(seed).values())[name], x), name


def test_writing_to_what_was_there_before_has_no_program() -> None:
    total = torch.zeros(3, dtype=torch.float64)

    def adds_up(at: Mapping[str, Tensor]) -> dict[str, Tensor]:
        total.add_(at["x"])
        return {"x": total.clone()}

    assert recorded(adds_up, HERE)[1] is None
    assert (
        recorded(lambda at: {"x": at["x"].clone()[1:] + at["x"][1:].mul_(2)}, {"x": THERE["x"].clone()})[1] is None
    )


class Counting:
    def __init__(self, function: Function) -> None:
        self.function, self.calls = function, 0

    def __call__(self, at: Mapping[str, Tensor]) -> dict[str, Tensor]:
        self.calls += 1
        return self.function(at)


def points(n: int) -> list[dict[str, Tensor]]:
    return [{"x": HERE["x"] + 0.1 * i} for i in range(n)]


def test_after_a_comparison_the_function_is_not_called() -> None:
    counting = Counting(with_slope)
    repeated = Replayed(counting)
    for at in points(FIRST + 20):
        assert torch.equal(repeated(at)["slope"], with_slope(at)["slope"])
    assert counting.calls == FIRST + 2


class Mine(type(crowdppl.method("one_coin"))):  # type: ignore[misc]
    """A model of somebody else's, who may keep something in it."""

    changed: int = 0


@pytest.mark.parametrize("changes", [False, True])
def test_a_model_is_read_once_on_the_same_data_unless_it_changes(
    changes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []

    def noted(*given: Any) -> Any:
        reads.append(given)
        return structure_of(*given)

    monkeypatch.setattr("crowdppl.inference.problem.structure_of", noted)
    model, data = Mine(), crowdppl.anaesthetists()
    for number in range(3):
        object.__setattr__(model, "changed", number * changes)
        problem_of(model, data)
    assert len(reads) == (3 if changes else 1)


def test_a_function_that_remembers_is_called_each_time() -> None:
    class Remembers:
        def __init__(self) -> None:
            self.calls = 0

        def __call__(self, at: Mapping[str, Tensor]) -> dict[str, Tensor]:
            self.calls += 1
            return {"x": at["x"] * self.calls}

    repeated = Replayed(Remembers())
    for number, at in enumerate(points(FIRST + 20), 1):
        assert torch.equal(repeated(at)["x"], at["x"] * number)


def test_another_shape_is_the_functions_own() -> None:
    counting = Counting(lambda at: {"x": at["x"].sum()})
    repeated = Replayed(counting)
    for at in points(FIRST + 20):
        repeated(at)
    for other in (torch.ones(5), torch.ones(3), torch.ones(3, 2, dtype=torch.float64)[:, 0]):
        assert torch.equal(repeated({"x": other})["x"], other.sum())
    assert counting.calls == FIRST + 5


class Counted(Mine):
    """It counts how often it has run, which changes nothing for a while."""

    def model(self, data: Any) -> None:
        object.__setattr__(self, "changed", self.changed + 1)
        super().model(data)


class Listing(Mine):
    """It keeps a list of the sizes of all blocks that it has seen."""

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "seen", {"sizes": []})

    def model(self, data: Any) -> None:
        self.seen["sizes"].append(data.n_items)
        super().model(data)


@pytest.mark.parametrize(("cls", "steady"), [(Mine, True), (Counted, False), (Listing, False)])
def test_a_model_that_keeps_nothing_can_be_repeated(cls: type[Any], steady: bool) -> None:
    assert problem_of(cls(), crowdppl.anaesthetists()).steady is steady
    for said in (True, False):
        assert problem_of(type("Said", (cls,), {"repeatable": said})(), crowdppl.anaesthetists()).steady is said


def test_numbers_that_are_not_finite_are_the_functions_to_explain() -> None:
    def explained(at: Mapping[str, Tensor]) -> dict[str, Tensor]:
        value = at["x"].log().sum()
        if not np.isfinite(value.tolist()):
            raise ValueError("a logarithm of a negative number")
        return {"value": value}

    repeated = Replayed(explained)
    for at in points(FIRST + 20):
        repeated(at)
    assert repeated.trusted
    with pytest.raises(ValueError, match="negative"):
        repeated(THERE)


@pytest.mark.parametrize(
    ("method", "engine"),
    [
        ("glad", "em"),
        ("community", "vb"),
        ("hierarchical_dawid_skene", "vb"),
        ("hierarchical_dawid_skene", "gibbs"),
        ("mace", "gibbs"),
        ("community", "gibbs"),
        ("one_coin", "nuts"),
    ],
)
def test_a_fit_is_the_same_to_the_last_bit(method: str, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    how: dict[str, Any] = {"chains": 1, "draws": 5, "warmup": 5, "max_iterations": 12}
    monkeypatch.setattr(replay, "FIRST", 3)  # some of these settle soon
    trusted = []
    compared = Replayed._compared

    def noted(self: Replayed, inputs: Mapping[str, Tensor], found: dict[str, Tensor]) -> dict[str, Tensor]:
        results = compared(self, inputs, found)
        trusted.append(self.trusted)
        return results

    monkeypatch.setattr(Replayed, "_compared", noted)
    ours = crowdppl.fit(method, crowdppl.anaesthetists(), inference=engine, seed=3, **how)
    assert trusted
    assert all(trusted)
    monkeypatch.setattr(problem, "SMALL", 0)
    plain = crowdppl.fit(method, crowdppl.anaesthetists(), inference=engine, seed=3, **how)
    for name, x in plain.result.sites.items():
        for part, array in x.arrays.items():
            np.testing.assert_array_equal(ours.result.sites[name].arrays[part], array)
    np.testing.assert_array_equal(ours.probabilities(), plain.probabilities())
