"""Looking ahead: the same optimum in fewer iterations, and never a step that does not pay."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import crowdppl
from crowdppl.inference.loop import Step
from crowdppl.inference.state import State
from crowdppl.inference.vb import fit
from crowdppl.inference.vb.coordinate_ascent import CoordinateAscent
from crowdppl.inference.vb.fit import Extrapolation
from tests.crowd import crowd

GOAL = torch.tensor([5.0, 3.0], dtype=torch.float64)
START = torch.tensor([1.0, 8.0], dtype=torch.float64)


def distance(x: Tensor) -> float:
    return -float((x - GOAL).square().sum())


@dataclass
class Towards:
    """Stands for a fit: each iteration goes a share of the way to the goal."""

    share: float | Tensor
    objective: Callable[[Tensor], float] = distance
    goal: Tensor = field(default_factory=lambda: GOAL)
    seen: list[Tensor] = field(default_factory=list)

    def __call__(self, state: State) -> tuple[State, float]:
        x = state.parameters["x"]
        self.seen.append(x)
        return State({"x": x + self.share * (self.goal - x)}), self.objective(x)


@dataclass
class Walk:
    step: Step[State]
    state: State = field(default_factory=lambda: State({"x": START}))

    def __call__(self) -> float:
        self.state, value = self.step(self.state)
        return value


def looking_ahead(fit: Towards, tolerance: float = 0.0) -> Walk:
    return Walk(Extrapolation(fit, tolerance))


def test_along_a_line_it_lands_on_the_goal() -> None:
    """Where every iteration goes the same share r of the way, the step 1 / r is exact."""
    fit = Towards(0.3)
    ahead = looking_ahead(fit)
    values = [ahead() for _ in range(3)]
    assert values == pytest.approx([-41, -41 * 0.7**2, 0], abs=1e-12)
    torch.testing.assert_close(fit.seen[2], GOAL)
    plain = Walk(Towards(0.3))
    assert [plain() for _ in range(3)][2] == pytest.approx(-41 * 0.7**4)


def test_a_longest_step_bounds_the_first_and_grows_where_it_pays() -> None:
    fit = Towards(0.01)
    ahead = looking_ahead(fit)
    values = [ahead() for _ in range(7)]
    remains = [1, 0.99, (1 - 0.01 * 4) ** 2]  # x0 + 2 s (x1 - x0) + s^2 (...) leaves (1 - s r)^2 of the way
    remains += [remains[-1] * 0.99, remains[-1] * (1 - 0.01 * 16) ** 2]
    remains += [remains[-1] * 0.99, remains[-1] * (1 - 0.01 * 64) ** 2]
    np.testing.assert_allclose(values, [-41 * r**2 for r in remains])


def test_a_failure_halves_the_longest_step() -> None:
    looks = count()
    fit = Towards(0.01, lambda x: distance(x) - (100.0 if next(looks) == 2 else 0.0))
    ahead = looking_ahead(fit)
    for _ in range(5):
        ahead()
    torch.testing.assert_close(fit.seen[-1], GOAL + (START - GOAL) * 0.99**2 * (1 - 0.01 * 2) ** 2)


def test_the_length_is_that_of_counts_that_move_by_most_of_their_deviations() -> None:
    """By numbers alone, the count of a million would choose the length, 1 / 0.5."""
    start = torch.tensor([1e6, 10.0], dtype=torch.float64)
    fit = Towards(torch.tensor([0.5, 0.1], dtype=torch.float64), lambda x: float(x.sum()), start + 5)
    ahead = Walk(Extrapolation(fit, 0.0), State({"x": start}))
    for _ in range(3):
        ahead()
    torch.testing.assert_close(fit.seen[-1][1], start[1] + 5 - 5 * (1 - 0.1 * 4) ** 2)


def test_where_it_does_not_pay_the_fit_goes_on_as_it_would_have() -> None:
    def with_a_ditch(x: Tensor) -> float:
        return distance(x) - (100.0 if bool((x - GOAL).abs().max() < 1e-9) else 0.0)

    fit, plain = Towards(0.3, with_a_ditch), Walk(Towards(0.3))
    ahead = looking_ahead(fit)
    assert [ahead() for _ in range(4)] == pytest.approx([plain() for _ in range(4)])
    assert len(fit.seen) == 5  # the ditch was looked at once, and left


def test_only_iterations_that_did_not_look_ahead_are_taken_for_settled() -> None:
    fit = Towards(torch.tensor([0.3, 1e-9], dtype=torch.float64), lambda x: distance(x) / 1e6)
    ahead = looking_ahead(fit, tolerance=0.1)  # more than there is to gain
    for _ in range(3):
        ahead()
    torch.testing.assert_close(fit.seen[-1], fit.seen[1] + fit.share * (GOAL - fit.seen[1]))


@pytest.mark.parametrize(("name", "share"), [("mixed_membership", 0.6)])
def test_the_optimum_is_the_same_and_passes_are_fewer(
    name: str, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes, step = [0], CoordinateAscent.step

    def counted(self: CoordinateAscent, *at: Any) -> Any:
        passes[0] += 1
        return step(self, *at)

    monkeypatch.setattr(CoordinateAscent, "step", counted)
    data = crowd(n_items=250, n_annotators=6, labels_each=5, seed=2)

    def fitted() -> tuple[crowdppl.Posterior, int]:
        passes[0] = 0
        return crowdppl.fit(name, data, inference="vb", tolerance=1e-12), passes[0]

    ahead, few = fitted()
    monkeypatch.setattr(fit, "Extrapolation", lambda plain, tolerance: plain)
    plain, many = fitted()
    assert few < share * many
    values = np.array(ahead.diagnostics()["objectives"])
    assert (np.diff(values) >= -1e-9 * np.abs(values[:-1])).all()
    assert values[-1] == pytest.approx(plain.diagnostics()["objectives"][-1], rel=1e-10)
    np.testing.assert_allclose(ahead.probabilities(), plain.probabilities(), atol=1e-4)
