"""Threads of torch: what a fit uses depends on data and model alone, and the caller's number is restored."""

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pytest
import torch
from crowdppl.models.one_coin import OneCoin
from torch import nn

import crowdppl
from crowdppl.core.devices import few_threads
from crowdppl.data.annotations import Annotations
from crowdppl.data.blocks import Block

FEW: dict[str, dict[str, Any]] = {
    "em": {},
    "vb": {},
    "gibbs": {"chains": 2, "draws": 8, "warmup": 4},
    "nuts": {"chains": 1, "draws": 4, "warmup": 2},
    "laplace": {"draws": 8},
    "svi": {"max_iterations": 5},
}
seen: set[int] = set()


class Watched(OneCoin):
    """Tells how many threads torch has whenever it runs."""

    def model(self, data: Any) -> None:
        seen.add(torch.get_num_threads())
        super().model(data)


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    seen.clear()
    yield
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


def labels(n_items: int, each: int = 3) -> Annotations:
    design = crowdppl.random_design(n_items, 10, each, 4, seed=0)
    return crowdppl.simulate("one_coin", design, seed=0).data


@pytest.mark.parametrize("engine", FEW)
def test_few_labels_are_fitted_by_one_thread(engine: str) -> None:
    posterior = crowdppl.fit(Watched(), labels(30), inference=engine, **FEW[engine])
    posterior.annotators()
    assert seen == {1}


@pytest.mark.parametrize(
    "ask",
    [
        lambda p: p.confusion_intervals(),
        lambda p: p.leave_one_out(),
        lambda p: p.draw_labels(2),
        lambda p: p.predict(p.data.frame().head(6)),
        lambda p: p.update(p.data.frame().assign(item="new").head(3)),
        crowdppl.heldout_score,
        lambda p: crowdppl.fit(p.model, p.data, inference="vb", calibrate=True),
    ],
    ids=["intervals", "leave_one_out", "draw_labels", "predict", "update", "heldout_score", "calibrate"],
)
def test_so_is_what_is_asked_of_the_posterior(ask: Callable[[Any], object]) -> None:
    ask(crowdppl.fit(Watched(), labels(30), inference="vb"))
    assert seen == {1}


def test_many_labels_have_the_callers_threads() -> None:
    data = labels(25_000, 4)
    for most in (1, 2, 3):
        torch.set_num_threads(most)
        seen.clear()
        crowdppl.fit(Watched(), data, inference="em", max_iterations=2)
        assert seen == {min(most, 2)}
    torch.set_num_threads(2)


def test_votes_on_few_labels_are_counted_by_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    data, count = labels(30), Block.vote_counts

    def watched(block: Block) -> torch.Tensor:
        seen.add(torch.get_num_threads())
        return count(block)

    monkeypatch.setattr(Block, "vote_counts", watched)
    assert data.votes().sum() == data.n_labels and seen == {1}


def test_so_have_large_networks() -> None:
    small, large = (nn.Linear(n, 2_000, device="meta") for n in (10, 1_000))
    with few_threads(10, [small]):
        assert torch.get_num_threads() == 1
    with few_threads(10, [small, large]):
        assert torch.get_num_threads() == 2


def test_results_of_few_labels_do_not_depend_on_the_callers_threads() -> None:
    """Arrays are so large that torch would share them among threads, and sums round in another order."""
    data, found = labels(15_000), []
    for n in (1, 2):
        torch.set_num_threads(n)
        found.append(crowdppl.fit("dawid_skene", data, inference="em", max_iterations=5).probabilities())
    pd.testing.assert_frame_equal(*found, check_exact=True)


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_the_callers_number_comes_back_from_an_error(error: type[BaseException]) -> None:
    def fails(t: int, value: float) -> None:
        raise error

    data = labels(30)
    if error is KeyboardInterrupt:
        assert crowdppl.fit("one_coin", data, inference="em", callback=fails).diagnostics()["interrupted"]
    else:
        with pytest.raises(error):
            crowdppl.fit("one_coin", data, inference="em", callback=fails)
    assert torch.get_num_threads() == 2
    with pytest.raises(error), few_threads(10):
        assert torch.get_num_threads() == 1
        raise error
