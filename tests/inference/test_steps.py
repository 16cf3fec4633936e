"""Engines are stepped from outside: states are tensors alone, and steps lead where a fit leads, from anywhere."""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

import crowdppl
from crowdppl.inference import laplace
from crowdppl.inference.mcmc import gibbs
from crowdppl.inference.passes import FullPass
from crowdppl.inference.problem import Problem
from crowdppl.inference.vb.coordinate_ascent import EM, VB
from crowdppl.inference.vb.fit import run_starts
from tests.crowd import ASCENTS, crowd, double, problem_of

ENGINES: dict[str, tuple[Callable[[Problem], Any], Callable[[Problem, Any], tuple[Any, float]]]] = {
    "em": (EM.start, EM.step),
    "vb": (VB.start, VB.step),
    "gibbs": (gibbs.start, gibbs.step),
    "laplace": (laplace.start, laplace.step),
}
CASES = [
    ("em", "dawid_skene"),
    ("em", "glad"),
    ("vb", "community"),
    ("vb", "hierarchical_dawid_skene"),
    ("vb", "glad"),
    ("gibbs", "community"),
    ("gibbs", "hierarchical_dawid_skene"),
    ("laplace", "glad"),
]


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with double():
        yield


def posed_for(name: str, **options: Any) -> Problem:
    return problem_of(crowdppl.method(name), crowd(25, 5, 3, 3, seed=2), chains=2, warmup=8, draws=8, **options)


def tensors(state: Any) -> list[Tensor]:
    """All that a state holds, which is tensors, in dictionaries or in a state of their own; or None."""
    found: list[Tensor] = []
    for value in filter(lambda x: x is not None, (getattr(state, field.name) for field in fields(state))):
        parts = tensors(value) if is_dataclass(value) else list(value.values()) if type(value) is dict else [value]
        assert all(type(x) is Tensor for x in parts)
        found += parts
    return found


def copied(state: Any) -> Any:
    if state is None:
        return None
    if type(state) is Tensor:
        return state.clone()
    if type(state) is dict:
        return {name: x.clone() for name, x in state.items()}
    return type(state)(**{field.name: copied(getattr(state, field.name)) for field in fields(state)})


def equal(one: Any, other: Any) -> bool:
    return all(map(torch.equal, tensors(one), tensors(other)))


@pytest.mark.parametrize(("engine", "name"), CASES)
def test_a_fit_goes_on_from_any_state_to_the_bits_that_it_would_have_had(engine: str, name: str) -> None:
    """The second half is another problem's, as in another process."""
    start, step = ENGINES[engine]
    problem = posed_for(name)
    states, values = [start(problem)], []
    for _ in range(6):
        state, value = step(problem, states[-1])
        states.append(state)
        values.append(value)
    again, state = posed_for(name), copied(states[3])
    for t in range(3, 6):
        state, value = step(again, state)
        assert value == values[t]
    assert equal(state, states[-1])


@pytest.mark.parametrize(("engine", "name"), CASES)
def test_a_step_leaves_the_state_from_which_it_starts(engine: str, name: str) -> None:
    start, step = ENGINES[engine]
    problem = posed_for(name)
    state = start(problem)
    before = copied(state)
    first, value = step(problem, state)
    assert equal(state, before)
    second, again = step(problem, state)
    assert value == again and equal(first, second) and not equal(first, before)


@pytest.mark.parametrize(("engine", "name"), [("em", "dawid_skene"), ("em", "glad"), ("vb", "community")])
def test_steps_by_hand_are_the_fit(engine: str, name: str) -> None:
    problem, ascent = posed_for(name, max_iterations=12, tolerance=0.0), ASCENTS[engine]
    (run,) = run_starts(problem, ascent)
    state, values = ascent.start(problem), []
    for _ in run.progress.objectives:
        state, value = ascent.step(problem, state)
        values.append(value)
    assert values == run.progress.objectives and equal(state, run.state)


def test_sweeps_by_hand_are_the_draws() -> None:
    problem = posed_for("hierarchical_dawid_skene")
    draws, *_ = gibbs.sample(problem)
    state, kept = gibbs.start(problem), []
    for _ in range(16):
        state, _ = gibbs.step(problem, state)
        kept.append(gibbs.values(problem, state))
    for name, x in draws.items():
        assert torch.equal(x, torch.stack([values[name] for values in kept[8:]], 1))


def test_a_state_of_em_or_vb_is_arrays_by_name_and_back() -> None:
    problem = posed_for("hierarchical_dawid_skene")
    step = partial(VB.step, problem)
    state, _ = step(VB.start(problem))
    arrays = state.arrays()
    back = VB.start(problem).at({name: x.clone() for name, x in sorted(arrays.items())})
    assert equal(step(back)[0], step(state)[0])


@pytest.mark.parametrize("ascent", [EM, VB])
@pytest.mark.parametrize(("prevalence", "most"), [("uniform", 5), ("learned", 6)])
def test_the_look_at_which_a_search_ended_is_not_taken_again(
    ascent: Any, prevalence: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = problem_of(crowdppl.method("glad", prevalence=prevalence), crowd(25, 5, 3, 3, seed=2))
    state, _ = ascent.step(problem, ascent.start(problem))
    curvature = {n: x for n, x in state.memory.items() if n.startswith("search.")}
    assert curvature.keys() < state.memory.keys()
    looks, look = [0], FullPass.__call__

    def counted(self: FullPass, *at: Any, **how: Any) -> Any:
        looks[0] += 1
        return look(self, *at, **how)

    monkeypatch.setattr(FullPass, "__call__", counted)
    at, value = ascent.step(problem, state)
    assert looks[0] <= most
    again, same = ascent.step(problem, replace(state, memory=curvature))
    assert value == pytest.approx(same, rel=1e-13)
    for name, x in at.loc.items():
        torch.testing.assert_close(again.loc[name], x, rtol=1e-12, atol=1e-12)
