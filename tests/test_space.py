"""The two numbers of a space that tasks tell before its network learns: scale, and precision of the means."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import crowdppl
from crowdppl.embedding import TAU, Embedding
from crowdppl.episodes import Episodes
from crowdppl.errors import NumericalError
from crowdppl.space import fit_space
from crowdppl.tasks import Tasks
from tests.test_meta_em import method

pytestmark = pytest.mark.filterwarnings("ignore::crowdppl.errors.CrowdpplWarning")

WIDE = 4


@cache
def world(tau: float, scale: float) -> Episodes:
    """Forty classes drawn from the story itself, in a space that has then been divided by ``scale``."""
    rng = np.random.default_rng(0)
    middle = rng.normal(size=(40, WIDE)) / tau**0.5
    truth = np.arange(40 * 30) % 40
    x = (middle[truth] + rng.normal(size=(len(truth), WIDE))) / scale
    how: dict[str, Any] = {"ways": 4, "shots": (5, 10), "queries": 15, "annotators": 9, "kinds": {"expert": 1.0}}
    return Episodes(truth, x.reshape(-1, 1, WIDE), **how)


def flat() -> nn.Module:
    """Features as they are, beside one weight that learns."""
    body = nn.Sequential(nn.Flatten(), nn.Linear(WIDE, WIDE, bias=False))
    nn.init.eye_(body[1].weight)  # type: ignore[arg-type]
    return body


@pytest.mark.parametrize(("tau", "scale"), [(0.2, 1.0), (0.2, 7.0), (1.0, 0.2)])
def test_scale_and_precision_of_a_known_world_are_found(tau: float, scale: float) -> None:
    how: dict[str, Any] = {"iterations": 1, "batch": 60, "learning_rate": 1e-9, "seed": 3}
    story = method(embedding=flat()).meta_fit(world(tau, scale), **how)
    assert story.tau is None
    np.testing.assert_allclose(float(story.embedding.scale), scale, rtol=0.15)
    assert 0.4 < float(story.embedding.tau) / tau < 2.5


def test_a_precision_that_is_given_stays_and_so_does_the_space() -> None:
    story = method(embedding=flat(), tau=0.5).meta_fit(world(0.2, 7.0), iterations=1)
    assert float(story.embedding.tau) == 0.5 and float(story.embedding.scale) == 1


def test_meta_training_that_goes_on_begins_where_it_was() -> None:
    how: dict[str, Any] = {"iterations": 1, "learning_rate": 1e-9, "seed": 3}
    one = method(embedding=flat()).meta_fit(world(0.2, 7.0), **how)
    two = one.meta_fit(world(0.2, 7.0), **how)
    for name in ("scale", "tau"):
        np.testing.assert_allclose(
            float(getattr(two.embedding, name)), float(getattr(one.embedding, name)), rtol=0.05
        )


def test_it_is_found_whether_or_not_the_gradient_flows_through_em() -> None:
    how: dict[str, Any] = {"iterations": 1, "seed": 3}
    one, two = (method(embedding=flat()).meta_fit(world(0.2, 7.0), through=x, **how) for x in (True, False))
    assert torch.equal(one.embedding.scale, two.embedding.scale) and torch.equal(
        one.embedding.tau, two.embedding.tau
    )


def test_a_fit_takes_what_was_found_and_a_file_keeps_it(tmp_path: Path) -> None:
    episodes = world(1.0, 0.2)
    story = method().meta_fit(episodes, iterations=2)
    data = episodes.draw(1, 1).annotations(queries=True)
    found = crowdppl.fit(story, data)
    set_by_hand = crowdppl.fit(replace(story, tau=float(story.embedding.tau)), data)
    np.testing.assert_array_equal(found.probabilities(), set_by_hand.probabilities())
    assert (
        np.abs(found.probabilities() - crowdppl.fit(replace(story, tau=50.0), data).probabilities()).max().max()
        > 0.01
    )
    found.save(tmp_path)
    loaded: Any = crowdppl.load(tmp_path)
    assert torch.equal(loaded.story.embedding.scale, story.embedding.scale)
    np.testing.assert_array_equal(crowdppl.fit(loaded.story, data).probabilities(), found.probabilities())


def test_weights_without_a_scale_are_of_a_space_as_it_was() -> None:
    space = Embedding(flat(), torch.zeros(2, 1, WIDE), WIDE)
    old = {name: x for name, x in space.state_dict().items() if name not in ("scale", "tau")}
    space.scale.fill_(3.0)
    space.load_state_dict(old)
    assert float(space.scale) == 1 and float(space.tau) == pytest.approx(TAU)


def test_a_cost_that_is_no_number_is_refused_by_its_place() -> None:
    space = Embedding(flat(), torch.zeros(2, 1, WIDE), WIDE)
    draws = [world(0.2, 1.0).draw(2, 0)]

    def broken(tasks: Tasks, placed: torch.Tensor, asked: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
        return (placed.sum() * tau).log() * torch.nan

    with pytest.raises(NumericalError, match=r"the loss is nan before meta-training, where the space.*tau=0\.1"):
        fit_space(space, draws, broken)
