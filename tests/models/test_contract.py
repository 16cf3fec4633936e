"""The contract over every method of the zoo, and over methods that come from elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import pyro
import pyro.distributions as dist
import pytest
import torch

import crowdppl
import crowdppl.models
from crowdppl import Annotations, registry, testing
from crowdppl.errors import MethodError
from crowdppl.primitives import Block, Card, annotate, confusion_prior, plates, prevalence, truth, with_abstentions

ZOO = sorted(p.stem for p in Path(crowdppl.models.__path__[0]).glob("*.py") if not p.stem.startswith("_"))
QUICK = ("one_coin", "ccem")


@pytest.mark.parametrize("method", [pytest.param(x, marks=[] if x in QUICK else [pytest.mark.slow]) for x in ZOO])
def test_the_zoo_keeps_the_contract(method: str) -> None:
    testing.check_method(method)


def renamed_groups(model: Any, names: Mapping[str, Mapping[Any, Any]]) -> Any:
    return replace(model, groups={names["annotator"].get(a, a): g for a, g in model.groups.items()})


@pytest.mark.slow
def test_given_groups_keep_the_contract() -> None:
    groups = {"annotator 0": "left", "annotator 1": "left", "annotator 3": "right", "annotator 4": "right"}
    for name in ("settings", "density", "odd data", "renaming", "saving"):
        testing.check(crowdppl.method("dependent_clusters", groups=groups), name, renamed=renamed_groups)


@dataclass
class Mine:
    """A model of a user's own: sites of other names, a truth that is called otherwise, no guide."""

    mass: float = 2.0
    card: ClassVar[Card] = Card(
        "Mine", "myself", sites={"share": "K", "rows": "A K K", "abstention": "A D W", "kind": "N"}, truth="kind"
    )

    def model(self, data: Block) -> None:
        share = pyro.sample("share", dist.Dirichlet(torch.ones(data.n_classes)))
        with plates.annotators(data):
            rows = pyro.sample("rows", dist.Dirichlet(confusion_prior(data, self.mass, 0.7)).to_event(1))
        table = with_abstentions(data, rows.log())
        with plates.items(data):
            annotate(data, table, truth(data, share.log(), name="kind"))


@pytest.mark.slow
def test_a_model_handed_over_keeps_the_contract() -> None:
    assert registry.name_of(Mine()) is None
    testing.check_method(Mine(mass=3.0))


def test_checks_come_by_name() -> None:
    methods = ("one_coin", "gaussian_annotators", "plackett_luce")
    of_classes, of_numbers, of_ranks = (dict(testing.checks(name)) for name in methods)
    assert of_classes.keys() | of_numbers.keys() | of_ranks.keys() == set(testing.NAMES)
    assert "gold" not in of_numbers and "integral" not in of_classes
    with pytest.raises(MethodError, match="'speed'"):
        testing.check("one_coin", "speed")
    with pytest.raises(MethodError, match="'onecoin'"):
        testing.check_method("onecoin")


@dataclass
class Broken:
    """A model that breaks one promise at a time."""

    how: str = "nothing"
    mass: float = 2.0
    card: ClassVar[Card] = Card(
        "Broken", "nobody", sites={"prevalence": "K", "confusion": "A K K", "abstention": "A D W", "truth": "N"}
    )

    def model(self, data: Block) -> None:
        k = data.n_classes
        log_p = prevalence(data)
        if self.how == "name":
            pyro.sample("unlisted", dist.Dirichlet(torch.ones(2)))
        rows = confusion_prior(data, self.mass, 0.7)
        if self.how == "code":  # leans on a class by its number
            rows = rows + torch.linspace(0, 3, k)
        with plates.annotators(data):
            confusion = pyro.sample("confusion", dist.Dirichlet(rows).to_event(1)).log()
        if self.how == "left":  # indexes from the left: chains are taken for annotators
            confusion = confusion + 0.5 * confusion[0].detach()
        if self.how == "shape":  # runs under no engine
            confusion = confusion[..., :1]
        if self.how == "rows":  # errors weigh three quarters of what they should
            confusion = confusion + (1 - torch.eye(k)) * math.log(0.75)
        table = with_abstentions(data, confusion)
        with plates.items(data):
            if self.how == "gold":  # a truth of its own, which known ones never reach
                state = pyro.sample(
                    "truth", crowdppl.primitives.Categorical(log_p), infer={"enumerate": "parallel"}
                )
            else:
                state = truth(data, log_p)
            annotate(data, table, state)


@dataclass
class Forgetful(Broken):
    def __post_init__(self) -> None:
        self.mass = self.mass + 1.0  # so that its settings build another model


@dataclass
class Shaped(Broken):
    card: ClassVar[Card] = Card(
        "Shaped", "nobody", sites={"prevalence": "K", "confusion": "A K", "abstention": "A D W", "truth": "N"}
    )


BROKEN = [
    (Broken("name"), "card", "'unlisted'"),
    (Shaped(), "card", "'confusion'.*'A K'"),
    (Broken("gold"), "gold", "'truth'"),
    (Broken("gold"), "odd data", "'truth'"),
    (Broken("rows"), "answers", "probability 0.[0-9]+, not 1"),
    (Broken("left"), "chains", "chain|shape"),
    (Broken("code"), "renaming", "renaming"),
    (Broken("shape"), "engine em", "'em'"),
    (Broken("shape"), "saving", "no engine"),
    (Forgetful(), "settings", "settings"),
]


@pytest.mark.parametrize(("model", "check", "message"), BROKEN, ids=[f"{b[0].how} {b[1]}" for b in BROKEN])
def test_a_broken_promise_is_seen(model: Broken, check: str, message: str) -> None:
    with pytest.raises((AssertionError, RuntimeError, ValueError, IndexError), match=message):
        testing.check(model, check)


@dataclass
class Sighted(Broken):
    """A model with a network, which is wrong only where this sees something."""

    network: Any = None
    training: Mapping[str, Any] = field(default_factory=dict)

    def setup(self, data: Annotations) -> Sighted:
        return replace(self, network=crowdppl.networks.prepared(self.network, data, self.training))

    def model(self, data: Block) -> None:
        with plates.annotators(data):
            rows = pyro.sample("confusion", dist.Dirichlet(confusion_prior(data, 4.0)).to_event(1)).log()
        seen = crowdppl.networks.class_logits(data, self.network)
        if self.how == "rows" and self.network is not None:
            rows = rows + rows.detach()  # half of its gradient
        table = with_abstentions(data, rows)
        with plates.items(data):
            annotate(data, table, truth(data, prevalence(data) + seen))


def test_a_network_is_tried_on_features() -> None:
    testing.check(Sighted(), "features")
    testing.check(Sighted("rows"), "density")  # blind
    with pytest.raises(AssertionError, match="gradient"):
        testing.check(Sighted("rows"), "features")


def test_all_that_failed_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    every = testing._CHECKS | testing._CLASSES
    monkeypatch.setattr(testing, "_CHECKS", {name: every[name] for name in ("card", "gold", "odd data")})
    monkeypatch.setattr(testing, "_CLASSES", {})
    with pytest.raises(AssertionError, match=r"(?s)gold: .*\nodd data: "):
        testing.check_method(Broken("gold"))
