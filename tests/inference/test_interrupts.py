"""Ctrl-C: within iterations a fit returns what there is, elsewhere it raises; Pyro goes on as before."""

import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pyro.poutine.indep_messenger import IndepMessenger

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.inference import assembly, fit
from crowdppl.posterior import Posterior
from tests.crowd import crowd

FEW: dict[str, dict[str, Any]] = {
    "em": {},
    "vb": {},
    "gibbs": {"chains": 2, "draws": 8, "warmup": 4},
    "nuts": {"chains": 2, "draws": 8, "warmup": 4},
    "pathfinder": {"chains": 2, "draws": 8},
    "svi": {"max_iterations": 5},
}


@pytest.fixture(scope="module")
def data() -> Annotations:
    return crowd(12, 4, 2, 3)


@pytest.fixture(autouse=True)
def _handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # processes in the background ignore it
    yield
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler


def ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def fitted(engine: str, data: Annotations, **more: Any) -> Posterior:
    return crowdppl.fit("class_coin", data, inference=engine, **{**FEW[engine], **more})


@pytest.mark.parametrize("engine", FEW)
def test_within_iterations_there_is_a_result_and_pyro_goes_on(
    engine: str, data: Annotations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Just as a plate is left, which must not stay entered."""
    before, steps, pressed = fitted(engine, data), [], [False]
    real = IndepMessenger.__exit__

    def left(self: Any, *given: Any) -> None:
        if len(steps) == 1 and not pressed[0]:
            pressed[0] = True
            ctrl_c()
        real(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(IndepMessenger, "__exit__", left)
        found = fitted(engine, data, callback=lambda t, _: steps.append(t)).diagnostics()
    if pressed[0]:
        assert found["interrupted"] is True and found["converged"] is False
    np.testing.assert_array_equal(fitted(engine, data).probabilities(), before.probabilities())


@pytest.mark.parametrize("place", [(fit, "build_problem"), (assembly, "tables_at"), (Posterior, "doubts")])
def test_before_and_after_the_iterations_it_raises(
    place: tuple[Any, str], data: Annotations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*place, lambda *_, **__: ctrl_c())
    with pytest.raises(KeyboardInterrupt):
        fitted("vb", data)


def test_nuts_stopped_in_its_warm_up_has_one_draw(data: Annotations) -> None:
    transitions = 7
    usual = {"draws": 500, "warmup": 250, "callback": lambda t, _: ctrl_c() if t == transitions - 1 else None}
    found = fitted("nuts", data, **usual)
    said = found.diagnostics()
    assert said["interrupted"] is True and said["converged"] is False
    assert (said["iterations"], said["chains"], said["draws"]) == (transitions, 1, 1)
    assert "warm-up" in said["warnings"][-1]
    assert np.allclose(found.probabilities().sum(axis=1), 1) and found.annotators().notna().all(axis=None)


def test_of_several_starts_those_that_are_there_count(data: Annotations) -> None:
    engine = "em"
    first = fitted(engine, data)
    end, calls = first.diagnostics()["iterations"], []

    def stop(t: int, value: float) -> None:
        calls.append(value)
        if len(calls) == end + 1:
            ctrl_c()

    found = fitted(engine, data, restarts=3, callback=stop)
    said = found.diagnostics()
    assert len(calls) == end + 1 and said["iterations"] == end
    assert said["interrupted"] is True and said["converged"] is False
    np.testing.assert_array_equal(found.probabilities(), first.probabilities())
