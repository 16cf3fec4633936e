"""Samplers say the same under other names, and with an abstention nobody used, within Monte Carlo error."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist
import pytest
import torch

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.data.blocks import Block
from crowdppl.posterior import Posterior
from crowdppl.primitives import annotate, diagonal_prior, plates, prevalence, truth, with_abstentions
from crowdppl.primitives.model import Model
from crowdppl.testing.fixtures import Trial
from tests.crowd import double

LENGTH: dict[str, dict[str, int]] = {
    "gibbs": {"chains": 4, "draws": 400, "warmup": 100},
    "nuts": {"chains": 2, "draws": 150, "warmup": 100},
}
ROLES = ("item", "annotator", "label")
CHANGES = (*ROLES, "unused abstention")
FURTHEST, USUALLY = 4.0, 1.6
"""Monte Carlo standard errors by which the worst probability, and all in root mean square, may be off."""


def fitted(story: Model, data: Annotations, engine: str, seed: int) -> Posterior:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return crowdppl.fit(story, data, inference=engine, seed=seed, **LENGTH[engine])


def other_names(rows: pd.DataFrame, role: str) -> dict[str, str]:
    """New names of one role, which sort the other way round and so have other codes."""
    old = sorted(set(rows[role]))
    return {name: f"new {len(old) - n:03}" for n, name in enumerate(old)}


def changed(trial: Trial, change: str) -> tuple[Annotations, Mapping[str, str]]:
    """The same labels told otherwise, and what the new names had been."""
    if change not in ROLES:
        return trial.read(trial.rows, abstentions=["?"]), {}
    new = other_names(trial.rows, change)
    classes = [new.get(name, name) for name in "abc"]
    data = trial.read(
        trial.rows.assign(**{change: trial.rows[change].map(new)}),
        {after: before for before, after in new.items()} if change != "label" else {},
        classes=classes if trial.kind == "ordinal" else sorted(classes),
    )
    return data, {after: before for before, after in new.items()}


def error(posterior: Posterior) -> np.ndarray:
    """Standard errors (N, K) of probabilities: their spread over the draws, of the site that mixes worst."""
    spread = posterior.result.probability_sd
    assert spread is not None
    return np.asarray(spread / np.sqrt(min(posterior.diagnostics()["ess_bulk"].values())))


def off(one: Posterior, two: Posterior, back: Mapping[str, str]) -> np.ndarray:
    """By how many standard errors of their difference probabilities of two fits differ."""
    first = one.probabilities()
    second = two.probabilities()
    errors = pd.DataFrame(error(two), second.index, second.columns)
    second, errors = (x.rename(index=back, columns=back).loc[first.index, first.columns] for x in (second, errors))
    scale = np.sqrt(error(one) ** 2 + errors.to_numpy() ** 2)
    return np.asarray((first - second).to_numpy() / np.maximum(scale, 1e-9))


def distances(story: Model, engine: str, change: str) -> tuple[float, float]:
    """The worst distance, and that in root mean square."""
    trial = Trial(story)
    data, back = changed(trial, change)
    z = off(fitted(story, trial.data, engine, 1), fitted(story, data, engine, 2), back)
    return float(np.abs(z).max()), float(np.sqrt((z**2).mean()))


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ["bayesian_dawid_skene", "one_coin"])
def test_gibbs_says_the_same_of_the_same(name: str, change: str) -> None:
    worst, usual = distances(crowdppl.method(name), "gibbs", change)
    assert worst < FURTHEST and usual < USUALLY


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "name", "change"),
    [
        *product(["gibbs"], ["mace", "ebcc", "mixed_membership"], CHANGES),
        *product(["nuts"], ["one_coin"], CHANGES),
        ("nuts", "bayesian_dawid_skene", "label"),
    ],
)
def test_samplers_say_the_same_of_the_same_in_further_methods(engine: str, name: str, change: str) -> None:
    worst, usual = distances(crowdppl.method(name), engine, change)
    assert worst < FURTHEST and usual < USUALLY


class Partial:
    """A story that looks at codes of annotators and classes, and at how many answers there are."""

    def model(self, data: Block) -> None:
        k = data.n_classes
        with plates.annotators(data):
            trust = 4.0 * torch.arange(1, 1 + data.n_annotators)[:, None, None] / (data.n_answers - k + 1) ** 2
            confusion = pyro.sample(
                "confusion", dist.Dirichlet(1 + trust * diagonal_prior(k, 1.0, 0.9)).to_event(1)
            )
        table = with_abstentions(data, confusion.log())
        with plates.items(data):
            annotate(data, table, truth(data, prevalence(data, "uniform") + torch.arange(k)))


@pytest.mark.parametrize(
    ("engine", "change"),
    [
        *[("gibbs", change) for change in CHANGES[1:]],
        pytest.param("nuts", "annotator", marks=pytest.mark.slow),
    ],
)
def test_a_story_that_looks_at_codes_is_found_out(engine: str, change: str) -> None:
    worst, usual = distances(Partial(), engine, change)
    assert worst > 2 * FURTHEST or usual > 2 * USUALLY


def test_of_svi_an_unused_abstention_shifts_the_random_stream_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trial = Trial(crowdppl.method("bayesian_dawid_skene"))
    offered = trial.read(trial.rows, abstentions=["?"])
    draw = torch.distributions.Dirichlet.rsample

    def aside(self: torch.distributions.Dirichlet, shape: Any = ()) -> torch.Tensor:
        if self.event_shape[0] != 2:  # not of whether an annotator abstains
            return draw(self, shape)
        with torch.random.fork_rng():
            return draw(self, shape)

    def moved() -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found: list[Any] = [
                crowdppl.fit(trial.model, data, inference="svi", seed=0, max_iterations=30)
                for data in (trial.data, offered)
            ]
        return float(np.abs(found[0].result.probabilities - found[1].result.probabilities).max())

    assert moved() > 1e-3
    monkeypatch.setattr(torch.distributions.Dirichlet, "rsample", aside)
    with double():
        assert moved() < 1e-9
