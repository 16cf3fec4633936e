"""The parts of the default recipe, and which methods of one truth an item take them as settings."""

from functools import cache
from typing import Any

import numpy as np
import pyro
import pytest
import torch
from crowdppl.models.coin_net import log_dirichlet_multinomial, with_dirichlet_multinomial
from pyro import poutine

import crowdppl
from crowdppl.errors import MethodError
from crowdppl.posterior import Posterior
from crowdppl.primitives.labels import Labels
from crowdppl.primitives.model import card_of
from tests.networks.test_networks import clouds

STORY: dict[str, Any] = {"crowd_prior_strength": 10.0, "likelihood_power": 0.3}
TRAINING: dict[str, Any] = {"mixup": 1.0, "balance": 2.0, "volume": 0.05}
ALL = {*STORY, *TRAINING}

PARTS: dict[str, set[str]] = {
    "bayes_dgc": ALL,
    "raykar": ALL,
    "ccem": ALL,
    "trace_reg": ALL,
    "geo_crowdnet": ALL,
    "instance_trace": ALL,
    "coin_net": ALL,
    "global_noise": ALL - {"crowd_prior_strength"},  # its one confusion matrix is the crowd's
    "meta_em": {"likelihood_power"},  # em learns no prior, and its network learns beforehand
}
"""Methods of one truth an item that look at features, and the parts that they take."""

OTHERS = {
    "conal": "labels depend on what the classifier says, not on a truth",
    "crowd_layer": "labels depend on what the classifier says, not on a truth",
    "madl": "a truth for each label",
    "mmlc": "no truth",
    "reward_model": "skills of objects, compared by labels",
}
"""Methods that look at features and are not of one truth an item."""


def settings(name: str, **more: Any) -> dict[str, Any]:
    """Under which a method has one truth an item, and little to do."""
    joint = {"likelihood": "joint"} if name in ("ccem", "trace_reg", "geo_crowdnet", "instance_trace") else {}
    plain = {"recipe": "plain"} if name == "bayes_dgc" else {}
    training = {} if name == "meta_em" else {"training": {"epochs": 1, **more.pop("training", {})}}
    return {**joint, **plain, **training, **more}


@cache
def fitted(name: str, part: str = "") -> Posterior:
    more: dict[str, Any] = {part: STORY[part]} if part in STORY else {}
    if part in TRAINING:
        more = {"training": {part: TRAINING[part], "shares": "uniform"}}
    data, _ = clouds(40, 40)
    if name == "meta_em":  # its network is another matter
        data = crowdppl.Annotations.from_frame(data.frame())
    engine = "em" if name == "meta_em" else "svi"
    return crowdppl.fit(name, data, inference=engine, seed=0, settings=settings(name, **more))


def test_every_method_that_looks_at_features_is_listed() -> None:
    looking = {
        name for name in crowdppl.zoo(engines=False).index if "features" in card_of(crowdppl.method(name)).uses
    }
    assert looking == {*PARTS, *OTHERS}


@pytest.mark.parametrize(
    ("name", "part"),
    [
        (name, part)
        for name, taken in PARTS.items()
        for part in sorted(taken)
        if part in STORY or name in ("bayes_dgc", "ccem")  # all networks that svi trains share the others
    ],
)
def test_a_part_that_is_taken_changes_the_fit(name: str, part: str) -> None:
    found, plain = fitted(name, part), fitted(name)
    assert np.abs(found.probabilities() - plain.probabilities()).to_numpy().max() > 1e-6
    assert ("crowd" in found.result.sites) == (part == "crowd_prior_strength")


@pytest.mark.parametrize("name", [name for name in PARTS if name != "meta_em"])  # whose default power is .5
def test_at_their_defaults_they_say_nothing(name: str) -> None:
    data, _ = clouds(30, 20)
    model: Any = crowdppl.method(name, **settings(name))
    trace = poutine.trace(poutine.seed(model.setup(data).model, 0)).get_trace(data)
    assert "crowd" not in trace.nodes
    assert {x["fn"].power for x in trace.nodes.values() if isinstance(x.get("fn"), Labels)} == {1.0}


def test_a_crowd_draws_rows_to_it_and_none_leaves_them() -> None:
    data = crowdppl.anaesthetists()
    assert float(crowdppl.primitives.crowd_rows(data, 0.0)) == 0
    crowd = torch.distributions.Dirichlet(torch.ones(4, 4)).sample()
    with poutine.trace() as seen, poutine.condition(data={"crowd": crowd}):
        rows = crowdppl.primitives.crowd_rows(data, 6.0)
    torch.testing.assert_close(rows, 6 * crowd + 1e-3)
    prior = seen.trace.nodes["crowd"]["fn"].base_dist.concentration
    torch.testing.assert_close(prior, 1 + torch.eye(4))


def test_rows_of_few_labels_follow_a_strong_crowd() -> None:
    data, _ = clouds(240, 180)

    def apart(crowd_prior_strength: float) -> float:
        training = {"epochs": 20, "annotator_rate": 100.0}
        how = {"likelihood": "joint", "crowd_prior_strength": crowd_prior_strength, "training": training}
        rows = crowdppl.fit("ccem", data, inference="svi", seed=0, settings=how).result.sites["confusion"].mean
        return float(np.asarray(rows).std(0).mean())

    assert apart(200.0) < 0.5 * apart(0.0)


def test_em_names_svi_for_a_crowd() -> None:
    with pytest.raises(MethodError, match="svi"):
        crowdppl.fit("raykar", clouds(30, 20)[0], inference="em", settings={"crowd_prior_strength": 5.0})
    with pytest.raises(MethodError, match="crowd"):
        settings = {"crowd_prior_strength": 5.0, "prior_strength": 9.0}
        crowdppl.fit("coin_net", clouds(30, 20)[0], inference="em", settings=settings)


def test_the_recipe_in_a_word_is_that_of_bayes_dgc() -> None:
    data, _ = clouds(60, 60)
    training = {"epochs": 2, "networks": 2}
    default = crowdppl.fit("bayes_dgc", data, inference="vb", seed=0, settings={"training": training})
    spelt: dict[str, Any] = {"recipe": "plain", **crowdppl.default_recipe(data, training=training)}
    found = crowdppl.fit("bayes_dgc", data, inference="vb", seed=0, settings=spelt)
    assert found.probabilities().equals(default.probabilities())


@pytest.mark.parametrize(("name", "engine"), [("ccem", "svi"), ("global_noise", "em"), ("raykar", "em")])
def test_the_recipe_in_a_word_is_taken_by_other_methods(name: str, engine: str) -> None:
    data, _ = clouds(60, 60)
    rows: dict[str, Any] = {"crowd_prior_strength": 0.0} if engine == "em" else {}
    recipe = crowdppl.default_recipe(data, training={"epochs": 2, "networks": 2}, **rows)
    assert ("crowd_prior_strength" in recipe) == (engine == "svi")
    joint = {"likelihood": "joint"} if name == "ccem" else {}
    found = crowdppl.fit(name, data, inference=engine, seed=0, settings={**joint, **recipe})
    assert found.model.likelihood_power == 0.5
    assert found.model.training["mixup"] == 1.0
    assert ("crowd" in found.result.sites) == (engine == "svi")


def test_an_urn_counts_by_the_same_power() -> None:
    """Nominal or outlying, an item's labels weigh as much as the power says."""
    data = crowdppl.anaesthetists()
    rate, table = torch.tensor([0.9, 0.1]).log(), torch.zeros(5, 5, 4)
    block = data.as_block()
    weights, _ = with_dirichlet_multinomial(block, rate, table, 1.0, 0.4)
    torch.testing.assert_close(weights[:, 1] - rate[1], 0.4 * log_dirichlet_multinomial(block, 1.0))
    with pyro.validation_enabled(False):
        tempered, plain = (
            crowdppl.fit("coin_net", data, inference="vb", settings={"likelihood_power": x, "prior_strength": 9.0})
            for x in (0.3, 1.0)
        )
    assert tempered.labels()["entropy"].mean() > plain.labels()["entropy"].mean()
