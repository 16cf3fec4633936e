"""Ctrl-C after the last iteration: what was found is put together, and says that it came."""

from __future__ import annotations

import signal
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyro
import pytest
import torch
from pyro.poutine.indep_messenger import IndepMessenger
from pyro.poutine.runtime import _DIM_ALLOCATOR, _PYRO_STACK

import crowdppl
from crowdppl import fitting as automatic
from crowdppl.core.devices import handlers_kept, held_back, let_through
from crowdppl.data.annotations import Annotations
from crowdppl.errors import ConvergenceWarning, CrowdpplWarning
from crowdppl.inference import engines
from crowdppl.inference.loop import LATE
from crowdppl.inference.mcmc import gibbs, nuts
from crowdppl.inference.svi import svi
from crowdppl.inference.vb import fit, linear_response
from crowdppl.posterior import Posterior
from tests.crowd import crowd

FEW: dict[str, dict[str, Any]] = {
    "em": {},
    "vb": {},
    "gibbs": {"chains": 2, "draws": 8, "warmup": 4},
    "nuts": {"chains": 2, "draws": 8, "warmup": 4},
    "svi": {"max_iterations": 5},
}
SAMPLED = [(gibbs, "permutations"), (engines, "mixing"), (engines, "from_draws"), (engines, "table_draws")]
PHASES: dict[str, list[tuple[Any, str]]] = {
    "em": [(fit, "refined"), (engines, "from_climb"), (engines, "tables_at")],
    "vb": [(engines, "draws_of"), (engines, "table_draws"), (engines, "truth_over"), (engines, "FitResult")],
    "gibbs": [(gibbs, "Sampled"), *SAMPLED],
    "nuts": [(nuts, "_stack"), *SAMPLED],
    "svi": [(svi, "_settled"), (svi, "_draw"), (engines, "truth_over"), (engines, "FitResult")],
}
EVERY = [(engine, *where) for engine, places in PHASES.items() for where in [*places, (Posterior, "doubts")]]


@pytest.fixture(scope="module")
def data() -> Annotations:
    return crowd(12, 4, 2, 3)


@pytest.fixture(autouse=True)
def _handler_comes_back() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # processes in the background ignore it
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        yield
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler


def ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def at(
    monkeypatch: pytest.MonkeyPatch, place: Any, name: str, times: int = 1, call: int = 1, then: Any = None
) -> list[int]:
    """Presses Ctrl-C at a call of a function, which goes on; returns what counts the calls."""
    real, calls = getattr(place, name), [0]

    def pressed(*given: Any, **how: Any) -> Any:
        calls[0] += 1
        if calls[0] == call:
            for _ in range(times):
                ctrl_c()
        return real(*given, **how)

    monkeypatch.setattr(place, name, pressed)
    return calls


def tried(engine: str, data: Annotations, **more: Any) -> Posterior:
    """A fit that Ctrl-C may end."""
    return crowdppl.fit("class_coin", data, inference=engine, **{**FEW[engine], **more})


def fitted(engine: str, data: Annotations, **more: Any) -> Posterior:
    """A fit that Ctrl-C must not end; that would end all tests, too."""
    try:
        return tried(engine, data, **more)
    except KeyboardInterrupt:
        pytest.fail("Ctrl-C lost the fit")


@pytest.fixture(scope="module")
def whole(data: Annotations) -> Callable[[str], Posterior]:
    """A fit that nobody stopped."""
    kept: dict[str, Posterior] = {}

    def by(engine: str) -> Posterior:
        if engine not in kept:
            kept[engine] = fitted(engine, data)
        return kept[engine]

    return by


@pytest.mark.parametrize(("engine", "place", "name"), EVERY)
def test_ctrl_c_after_the_last_iteration_loses_nothing(
    engine: str,
    place: Any,
    name: str,
    data: Annotations,
    whole: Callable[[str], Posterior],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = whole(engine)
    calls = at(monkeypatch, place, name)
    with pytest.warns(ConvergenceWarning, match=LATE):
        found = fitted(engine, data)
    said, before = found.diagnostics(), plain.diagnostics()
    assert calls[0] >= 1 and said["interrupted"] is True
    np.testing.assert_array_equal(found.probabilities(), plain.probabilities())
    assert said["converged"] == before["converged"] and said["warnings"] == [*before["warnings"], LATE]


@pytest.mark.parametrize(("engine", "place", "name"), EVERY[::3])
def test_a_second_one_ends_it_at_once(
    engine: str, place: Any, name: str, data: Annotations, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(monkeypatch, place, name, times=2)
    with pytest.raises(KeyboardInterrupt):
        tried(engine, data)


def test_intervals_are_not_widened_after_it(data: Annotations, monkeypatch: pytest.MonkeyPatch) -> None:
    for place, name in [(engines, "truth_at"), (linear_response, "_weights")]:
        with monkeypatch.context() as patch:
            at(patch, place, name)
            rest = at(patch, linear_response, "_beyond", call=0)
            said = fitted("vb", data).diagnostics()
        assert rest == [0] and said["interrupted"] is True and said["converged"] is False
        assert "too narrow" in said["warnings"][-1]


def test_one_more_while_the_rest_is_put_together_is_held_back(
    data: Annotations, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(monkeypatch, linear_response, "_weights")
    at(monkeypatch, engines, "table_draws")
    assert "too narrow" in fitted("vb", data).diagnostics()["warnings"][-1]


def test_one_more_after_a_stop_in_the_loop_is_held_back(data: Annotations, monkeypatch: pytest.MonkeyPatch) -> None:
    at(monkeypatch, gibbs, "permutations")
    found = fitted("gibbs", data, callback=lambda t, _: ctrl_c() if t == 6 else None)
    said = found.diagnostics()
    assert said["draws"] == 3 and said["warnings"] == ["gibbs was stopped after 3 draws a chain"]


def test_while_warnings_are_said(data: Annotations, monkeypatch: pytest.MonkeyPatch) -> None:
    at(monkeypatch, engines, "tell")
    assert fitted("em", data, max_iterations=2).diagnostics()["warnings"][-1] == LATE


def test_before_there_is_anything_it_raises_as_ever(data: Annotations, monkeypatch: pytest.MonkeyPatch) -> None:
    for engine, place, name in [
        ("em", engines, "pose"),
        ("gibbs", gibbs, "Gibbs"),
        ("nuts", nuts.Marginal, "start"),
    ]:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            at(patch, place, name)
            tried(engine, data)


@pytest.mark.parametrize("transitions", [0, 1, 7])
def test_nuts_stopped_in_its_warm_up_says_where_it_stands(
    transitions: int, data: Annotations, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not transitions:
        at(monkeypatch, nuts, "MCMC")
    usual = {"draws": 500, "warmup": 250, "callback": lambda t, _: ctrl_c() if t == transitions - 1 else None}
    found = fitted("nuts", data, **usual)
    said = found.diagnostics()
    assert said["interrupted"] is True and said["converged"] is False
    assert (said["iterations"], said["chains"], said["draws"]) == (transitions, 1, 1)
    assert "stopped in its warm-up" in said["warnings"][-1]
    assert np.allclose(found.probabilities().sum(axis=1), 1) and found.annotators().notna().all(axis=None)


@pytest.mark.parametrize("engine", ["em", "svi"])
@pytest.mark.parametrize("between", [True, False])
def test_of_several_starts_those_that_are_there_count(
    engine: str, between: bool, data: Annotations, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = fitted(engine, data)
    calls: list[float] = []
    end, preparing = first.diagnostics()["iterations"], svi if engine == "svi" else fit
    if between:
        at(monkeypatch, preparing, "prepare", call=1 if engine == "svi" else 2)

    def stop(t: int, value: float) -> None:
        calls.append(value)
        if not between and len(calls) == end + 1:
            ctrl_c()

    found = fitted(engine, data, restarts=3, callback=stop)
    said = found.diagnostics()
    assert len(calls) == end + (not between) and said["iterations"] == end
    assert said["interrupted"] is True and said["converged"] is False
    np.testing.assert_array_equal(found.probabilities(), first.probabilities())


def test_whoever_makes_several_fits_sees_it(data: Annotations, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        calls = at(patch, engines, "truth_over")
        found = crowdppl.fit("auto", data, max_iterations=10)
    assert found.diagnostics()["interrupted"] is True and found.method == automatic.ROWS[0]
    assert (
        calls == [1] and "auto was stopped before its methods were weighed" in found.diagnostics()["warnings"][-1]
    )
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        at(patch, engines, "from_climb")
        crowdppl.compare(["one_coin", "class_coin"], data, inference="vb", folds=2)


def test_in_a_thread_and_under_another_handler_nothing_changes(data: Annotations) -> None:
    with held_back() as hold, ThreadPoolExecutor(1) as threads:
        found = threads.submit(fitted, "em", data).result()
        assert found.diagnostics()["interrupted"] is False and signal.getsignal(signal.SIGINT) is hold
    pressed: list[int] = []

    def theirs(number: int, _: object) -> None:
        pressed.append(number)

    before = signal.signal(signal.SIGINT, theirs)
    try:
        said = fitted("em", data, callback=lambda t, _: ctrl_c() if t == 1 else None).diagnostics()
        with held_back() as hold:
            ctrl_c()
            ctrl_c()
        assert signal.getsignal(signal.SIGINT) is theirs
    finally:
        signal.signal(signal.SIGINT, before)
    assert said["interrupted"] is False and hold.came is False and len(pressed) == 3


@pytest.mark.parametrize("engine", FEW)
def test_one_that_comes_just_as_a_plate_is_left_leaves_none_behind(
    engine: str, data: Annotations, whole: Callable[[str], Posterior], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, pressed = whole(engine), [False]
    steps: list[int] = []
    real = IndepMessenger.__exit__

    def left(self: Any, *given: Any) -> None:
        if len(steps) == 1 and not pressed[0]:
            pressed[0] = True
            ctrl_c()
        real(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(IndepMessenger, "__exit__", left)
        found = fitted(engine, data, callback=lambda t, _: steps.append(t))
    if pressed[0]:
        assert found.diagnostics()["interrupted"] is True and not found.diagnostics()["converged"]
    np.testing.assert_array_equal(fitted(engine, data).probabilities(), plain.probabilities())


def test_pyro_and_torch_are_as_they_were_before_it() -> None:
    left_open = [pyro.plate("items", 3), torch.no_grad(), pyro.poutine.trace()]
    with pytest.raises(KeyboardInterrupt), handlers_kept():
        for context in left_open:
            context.__enter__()
        raise KeyboardInterrupt
    assert torch.is_grad_enabled() and not _PYRO_STACK and not _DIM_ALLOCATOR._stack


def test_a_hold_within_another() -> None:
    with held_back() as outer:
        with held_back() as inner:
            ctrl_c()
        assert inner.came and outer.came
        with pytest.raises(KeyboardInterrupt), held_back() as again:
            assert again.came
            ctrl_c()
    with held_back(empty=True) as outer:
        with held_back() as inner:
            ctrl_c()
        assert inner.came and not outer.came  # told by the inner one, and nothing is lost with the outer
        with pytest.raises(KeyboardInterrupt), held_back(empty=True):
            ctrl_c()
        with pytest.raises(KeyboardInterrupt):
            ctrl_c()


def test_what_is_let_through_and_what_is_not() -> None:
    with let_through(), pytest.raises(KeyboardInterrupt):
        ctrl_c()
    with held_back(empty=True) as hold:
        with let_through():
            with let_through():
                pass
            with pytest.raises(KeyboardInterrupt):
                ctrl_c()
        ctrl_c()
        assert hold.came
        with pytest.raises(KeyboardInterrupt), let_through():
            pytest.fail("what waits for Ctrl-C begins after one")
        assert not hold.came
        ctrl_c()
        with pytest.raises(KeyboardInterrupt):
            ctrl_c()
        with pytest.raises(KeyboardInterrupt):  # nobody is trapped
            ctrl_c()
