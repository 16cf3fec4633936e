"""Models that are put together wrongly are refused by name before a fit, and none is fitted to what it ignores."""

from typing import Any

import pandas as pd
import pyro
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

import crowdppl
from crowdppl import Annotations
from crowdppl.errors import MethodError
from crowdppl.primitives import Block, Categorical, annotate, diagonal_prior, plates, prevalence, truth

ENUMERATED = {"enumerate": "parallel"}


def crowd(**options: Any) -> Annotations:
    rows = [(i, a, (i + (a == i % 5)) % 3) for i in range(6) for a in range(5)]
    return Annotations.from_frame(pd.DataFrame(rows, columns=["item", "annotator", "label"]), **options)


def confusion(data: Block) -> Tensor:
    with plates.annotators(data):
        rows = dist.Dirichlet(diagonal_prior(data.n_classes, 20.0)).to_event(1)
        return torch.as_tensor(pyro.sample("confusion", rows)).log()


class Silent:
    def model(self, data: Block) -> None:
        with plates.items(data):
            truth(data, prevalence(data))


class Twice:
    def model(self, data: Block) -> None:
        table, log_p = confusion(data), prevalence(data)
        with plates.items(data):
            state = truth(data, log_p)
            annotate(data, table, state)
            annotate(data, table, state, name="again")


class Outside:
    def model(self, data: Block) -> None:
        annotate(data, confusion(data), truth(data, prevalence(data)))


class Noisy:
    def model(self, data: Block) -> None:
        log_p = prevalence(data)
        with plates.labels(data):
            noise = pyro.sample("noise", dist.Normal(0.0, 1.0))
        with plates.items(data):
            odds = crowdppl.primitives.Coin(noise.sigmoid().log(), (-noise).sigmoid().log())
            annotate(data, odds, truth(data, log_p))


class Kinds:
    def model(self, data: Block) -> None:
        k, log_p = data.n_classes, prevalence(data)
        with plates.annotators(data):
            kind = pyro.sample("kind", Categorical(torch.zeros(2).log_softmax(-1)), infer=ENUMERATED)
        rows = torch.stack([diagonal_prior(k, 1.0), torch.full((k, k), 1 / k)]).log()
        with plates.items(data):
            annotate(data, rows[kind], truth(data, log_p))


class Deaf:
    def model(self, data: Block) -> None:
        table, log_p = confusion(data), prevalence(data)
        with plates.items(data):
            annotate(data, table, pyro.sample("truth", Categorical(log_p), infer=ENUMERATED))


class Second:
    def __init__(self, name: str = "truth", kinds: int = 2) -> None:
        self.name, self.kinds = name, kinds

    def model(self, data: Block) -> None:
        table, log_p = confusion(data), prevalence(data)
        with plates.items(data):
            pyro.sample("kind", Categorical(torch.zeros(self.kinds).log_softmax(-1)), infer=ENUMERATED)
            annotate(data, table, truth(data, log_p, self.name))


@pytest.mark.parametrize("kinds", [2, 3])
def test_without_a_card_the_site_called_truth_is_the_truth(kinds: int) -> None:
    found = crowdppl.fit(Second(kinds=kinds), crowd(), inference="em", seed=0).probabilities()
    assert (found.to_numpy().argmax(1) == crowd().votes().argmax(1)).all()


def test_what_is_taken_for_the_truth_and_has_other_values_is_refused() -> None:
    with pytest.raises(MethodError, match="'kind'"):
        crowdppl.fit(Second("state"), crowd(), inference="em")


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (Silent(), "Silent draws no labels"),
        (Twice(), "label, again"),
        (Outside(), "outside the plate of items"),
        (Noisy(), "'noise' of Noisy"),
        (Kinds(), "'kind' of Kinds"),
    ],
    ids=lambda x: type(x).__name__,
)
def test_a_model_that_no_engine_would_treat_rightly_is_refused_by_name(model: Any, said: str) -> None:
    with pytest.raises(MethodError, match=said):
        crowdppl.fit(model, crowd(), inference="vb")


def test_known_truths_are_refused_for_a_model_that_would_ignore_them() -> None:
    assert crowdppl.fit(Deaf(), crowd(), inference="em").probabilities().shape == (6, 3)
    with pytest.raises(MethodError, match="by itself"):
        crowdppl.fit(Deaf(), crowd(gold={0: 2}), inference="em")


def test_an_update_with_items_that_come_again_is_refused_for_such_a_model() -> None:
    posterior = crowdppl.fit(Deaf(), crowd(), inference="vb")
    other = pd.DataFrame({"item": ["new"], "annotator": [0], "label": [1]})
    assert posterior.update(other).probabilities().shape == (1, 3)
    again = pd.DataFrame({"item": [0], "annotator": [3], "label": [1]})
    with pytest.warns(crowdppl.errors.RepeatsWarning), pytest.raises(MethodError, match="earlier labels"):
        posterior.update(again)


class Weights:
    """The weights of communities come from a site of their own, which so is a prior parameter."""

    def model(self, data: Block) -> None:
        k = data.n_classes
        weights = pyro.sample("weights", dist.Normal(torch.zeros(2), 1.0).to_event(1))
        with plates.annotators(data):
            mine = pyro.sample("mine", crowdppl.primitives.OneHot(weights.log_softmax(-1)))
            rows = dist.Dirichlet(diagonal_prior(k, 20.0).expand(2, k, k)).to_event(2)
            both = pyro.sample("confusion", rows).log()
        with plates.items(data):
            annotate(data, torch.einsum("...ac,...actl->...atl", mine, both), truth(data, prevalence(data)))


def test_weights_of_communities_are_prior_parameters() -> None:
    with pytest.raises(MethodError, match="weights"):
        crowdppl.fit(Weights(), crowd(), inference="em")


class Declining:
    def __init__(self, inside: str) -> None:
        self.inside = inside

    def model(self, data: Block) -> None:
        table = confusion(data)
        if self.inside == "annotators":
            with plates.annotators(data, "again"):
                table = crowdppl.primitives.with_abstentions(data, table)
        with plates.items(data):
            state = truth(data, prevalence(data))
            if self.inside == "items":
                table = crowdppl.primitives.with_abstentions(data, table)
            annotate(data, table, state)


@pytest.mark.parametrize(("inside", "plate"), [("items", "items"), ("annotators", "again")])
def test_abstentions_in_a_plate_are_refused_with_the_remedy(inside: str, plate: str) -> None:
    with pytest.raises(MethodError, match=f"plate of {plate}"):
        crowdppl.fit(Declining(inside), crowd(abstentions=[2]), inference="vb")
