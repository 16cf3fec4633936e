"""Networks beside labels: what they see, how they learn, and that labels alone give what they gave before."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.errors import DataError, MethodError, ResultError
from crowdppl.evaluation.evaluate import evaluate
from crowdppl.inference.neural.regularisers import class_shares
from crowdppl.networks.classifier import Network, Standardise, feature_tensor, log_shares
from crowdppl.networks.training import default_training, training_of
from crowdppl.posterior import Posterior
from tests.crowd import crowd

CLOUDS = 2.5 * np.eye(3, 4)
PLAIN = {"recipe": "plain"}


def clouds(n: int = 360, labelled: int = 240, each: int = 2, seed: int = 0) -> tuple[Annotations, pd.Series]:
    """Three Gaussian clouds; two of three items have labels, of annotators who are right in 6 of 10 cases."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, n)
    features = pd.DataFrame(CLOUDS[truth] + rng.normal(size=(n, 4)), index=[f"i{i:03d}" for i in range(n)])
    item = np.repeat(np.arange(labelled), each)
    annotator = rng.integers(0, 12, len(item))
    right = rng.random(len(item)) < 0.6
    label = np.where(right, truth[item], (truth[item] + rng.integers(1, 3, len(item))) % 3)
    frame = pd.DataFrame({"item": features.index[item], "annotator": annotator, "label": label})
    data = Annotations.from_frame(frame.drop_duplicates(["item", "annotator"]), classes=range(3), features=features)
    return data, pd.Series(truth, features.index)


@pytest.fixture(scope="module")
def both() -> tuple[Annotations, pd.Series]:
    return clouds()


@pytest.fixture(scope="module")
def posterior(both: tuple[Annotations, pd.Series]) -> Posterior:
    return crowdppl.fit("bayes_dgc", both[0], inference="vb", seed=1, settings=PLAIN)


@pytest.mark.parametrize(("name", "engine"), [("bayes_dgc", "vb"), ("raykar", "em")])
def test_features_help_labels_and_reach_items_without_any(
    both: tuple[Annotations, pd.Series], name: str, engine: str
) -> None:
    data, truth = both
    settings = PLAIN if name == "bayes_dgc" else None
    found = crowdppl.fit(name, data, inference=engine, seed=0, settings=settings).probabilities()
    labelled = data.items[data.votes().sum(1) > 0]
    alone = crowdppl.fit("bayesian_dawid_skene", data, inference="vb").probabilities()
    assert evaluate(found.loc[labelled], truth).accuracy > evaluate(alone.loc[labelled], truth).accuracy + 0.1
    assert evaluate(found.drop(labelled), truth).accuracy > 0.8


def test_without_features_it_is_bayesian_dawid_skene() -> None:
    data = crowd(80, 6, 3, 4, seed=2)
    one = crowdppl.fit("bayes_dgc", data, inference="vb", tolerance=1e-13)
    two = crowdppl.fit(
        "bayesian_dawid_skene", data, inference="vb", settings={"prevalence": "uniform"}, tolerance=1e-13
    )
    np.testing.assert_allclose(one.probabilities(), two.probabilities(), atol=1e-5)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({}, {"prevalence_strength": 1.1}),
        ({"prevalence_strength": 40.0}, {"prevalence_strength": 40.0}),
        ({"prevalence": "uniform"}, {"prevalence": "uniform"}),
    ],
)
def test_the_published_prior_is_five_and_two_in_rows_and_a_prevalence_of_1_1(
    given: dict[str, Any], meant: dict[str, Any]
) -> None:
    data = crowd(30, 4, 3, 3)
    same = {"prior_strength": 9.0, "prior_accuracy": 5 / 9, **meant}
    one = crowdppl.fit("bayesian_dawid_skene", data, inference="vb", settings=same, tolerance=1e-13)
    two = crowdppl.fit("bayes_dgc", data, inference="vb", settings={"prior": "published", **given}, tolerance=1e-13)
    np.testing.assert_allclose(two.probabilities(), one.probabilities(), atol=1e-5)


def test_with_a_network_the_published_prevalence_is_learned_beside_it(
    both: tuple[Annotations, pd.Series], posterior: Posterior
) -> None:
    """With the network frozen: the prevalence's concentrations are 1.1 and the truths' shares."""
    model = crowdppl.method("bayes_dgc", network=posterior.model.network, prior="published")
    found = crowdppl.fit(Frozen(model), both[0], inference="vb", tolerance=1e-13)
    counts = found.result.sites["prevalence"].arrays["concentration"] - 1.1
    np.testing.assert_allclose(counts, found.probabilities().sum(), atol=1e-3)


def test_its_fixed_point_satisfies_its_equations(both: tuple[Annotations, pd.Series], posterior: Posterior) -> None:
    """With the network frozen, concentrations are the prior and the expected counts of the truth they imply."""
    data, _ = both
    network = posterior.model.network
    frozen = crowdppl.method("bayes_dgc", network=network)
    again = crowdppl.fit(Frozen(frozen), data, inference="vb", tolerance=1e-13)
    c = again.result.sites["confusion"].arrays["concentration"]
    log_c = torch.digamma(torch.tensor(c)) - torch.digamma(torch.tensor(c.sum(-1, keepdims=True)))
    rows = data.frame()
    item, who = data.items.get_indexer(rows["item"]), data.annotators.get_indexer(rows["annotator"])
    label = data.classes.get_indexer(rows["label"])
    features = feature_tensor(data)
    score = log_shares(network, features).double().numpy().copy()
    np.add.at(score, item, log_c.numpy()[who, :, label])
    share = np.exp(score - score.max(1, keepdims=True))
    share /= share.sum(1, keepdims=True)
    counts = np.broadcast_to(crowdppl.primitives.diagonal_prior(3).numpy(), c.shape).copy()
    np.add.at(counts.transpose(0, 2, 1), (who, label), share[item])
    np.testing.assert_allclose(c, counts, atol=1e-4)
    np.testing.assert_allclose(again.probabilities(), share, atol=1e-5)
    steps = np.diff(again.diagnostics()["objectives"])
    assert (steps > -1e-9).all()


class Frozen:
    """A model whose network has a say and does not learn: what it makes of the items is a constant."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.card = inner.card

    def model(self, data: Any) -> None:
        block = data.as_block()
        looked = block if block.seen is not None else self._seeing(block)
        self.inner.model(looked)

    def setup(self, data: Annotations) -> Frozen:
        features = feature_tensor(data)
        seen = log_shares(self.inner.network, features)[torch.from_numpy(data.order.astype(np.int64))]
        out = Frozen(self.inner)
        out.by_position = seen
        return out

    by_position: torch.Tensor

    def _seeing(self, block: Any) -> Any:
        from dataclasses import replace

        first = self.by_position[block.offset : block.offset + block.n_items]
        if len(first) != block.n_items:  # a probe of other items: nothing is seen of them
            return block
        return replace(block, seen={"network": first.to(block.dtype)})


def test_the_network_that_was_given_is_not_changed_and_learns_in_a_copy(
    both: tuple[Annotations, pd.Series],
) -> None:
    mine = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    before = {name: x.clone() for name, x in mine.state_dict().items()}
    model = crowdppl.method(
        "bayes_dgc", network=mine, recipe="plain", training={"epochs": 60, "learning_rate": 1e-2}
    )
    found = crowdppl.fit(model, both[0], inference="vb", seed=0)
    assert all(torch.equal(x, before[name]) for name, x in mine.state_dict().items())
    learned = found.model.network.body.state_dict()
    assert not torch.equal(learned["0.weight"], before["0.weight"])
    assert evaluate(found, both[1]).accuracy > 0.75


def test_new_items_are_classified_and_predicted(
    both: tuple[Annotations, pd.Series], posterior: Posterior, tmp_path: Path
) -> None:
    data, truth = clouds(seed=7)
    assert isinstance(data.features, pd.DataFrame)
    shares = posterior.classify(data.features)
    assert evaluate(shares, truth).accuracy > 0.8
    np.testing.assert_allclose(posterior.classify(data.features.to_numpy()), shares)
    labelled = data.items[data.votes().sum(1) > 0]
    combined = posterior.predict(data)
    np.testing.assert_allclose(combined.drop(labelled), shares.drop(labelled), atol=1e-6)
    blind = crowdppl.fit("bayesian_dawid_skene", both[0], inference="vb").predict(data)
    assert evaluate(combined.loc[labelled], truth).log_score < evaluate(blind.loc[labelled], truth).log_score
    posterior.save(tmp_path)
    loaded = crowdppl.load(tmp_path)
    np.testing.assert_allclose(loaded.classify(data.features), shares, atol=1e-12)
    np.testing.assert_allclose(loaded.predict(data), combined, atol=1e-12)


def test_a_network_of_ones_own_is_loaded_into_the_model_that_is_handed_over(
    both: tuple[Annotations, pd.Series], tmp_path: Path
) -> None:
    def body() -> nn.Module:
        return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))

    found = crowdppl.fit(
        crowdppl.method("bayes_dgc", network=body(), recipe="plain", training={"epochs": 4}),
        both[0],
        inference="vb",
    )
    found.save(tmp_path)
    with pytest.raises(ResultError, match="model="):
        crowdppl.load(tmp_path)
    loaded = crowdppl.load(tmp_path, model=crowdppl.method("bayes_dgc", network=body()))
    features = both[0].features
    assert isinstance(features, pd.DataFrame)
    np.testing.assert_allclose(loaded.classify(features), found.classify(features), atol=1e-12)
    with pytest.raises(ResultError, match="saved"):
        crowdppl.load(tmp_path, model=crowdppl.method("bayes_dgc", network=nn.Linear(4, 3)))


@pytest.mark.parametrize("own", [False, True])
def test_a_refit_forgets_what_the_network_learned_of_labels_left_out(
    both: tuple[Annotations, pd.Series], own: bool
) -> None:
    """The truth of items is where the old fit was; the network begins where a first fit begins."""
    network = nn.Linear(4, 3) if own else None
    model = crowdppl.method("bayes_dgc", network=network, recipe="plain")
    fitted = crowdppl.fit(model, both[0], inference="vb", seed=3)
    trained: Network = fitted.model.network
    copy = deepcopy(trained)
    copy.begin(3)
    again = deepcopy(copy)
    again.begin(3)
    for name, x in copy.body.state_dict().items():
        assert torch.equal(x, again.body.state_dict()[name])
        assert not torch.equal(x, trained.body.state_dict()[name])
        if network is not None:
            assert torch.equal(x, network.state_dict()[name])


def test_gold_is_learned_too_and_labels_left_out_are_scored(
    both: tuple[Annotations, pd.Series], posterior: Posterior
) -> None:
    data, truth = both
    unlabelled = data.items[data.votes().sum(1) == 0]
    gold = truth[unlabelled[:60]]
    found = crowdppl.fit("bayes_dgc", data, inference="vb", gold=gold, seed=1, settings=PLAIN)
    assert (found.probabilities().loc[gold.index].to_numpy()[np.arange(60), gold] == 1).all()
    rest = unlabelled[60:]
    with_gold, without = (evaluate(p.probabilities().loc[rest], truth).log_score for p in (found, posterior))
    assert with_gold < without
    quick = {**PLAIN, "training": {"epochs": 6}}
    scored = crowdppl.heldout_score("bayes_dgc", data, folds=2, inference="vb", settings=quick)
    blind = crowdppl.heldout_score("bayesian_dawid_skene", data, folds=2, inference="vb")
    assert scored.per_label > blind.per_label
    assert len(found.suggest_labels(5)) == 5


def test_what_cannot_be_is_refused(both: tuple[Annotations, pd.Series], posterior: Posterior) -> None:
    data, _ = both
    training: dict[str, Any] = {"training": {"epoch": 3}}
    wrong: list[tuple[str, str, Annotations, dict[str, Any]]] = [
        ("features", "vb", crowd(20), {"settings": {"network": nn.Linear(4, 3)}}),
        (r"returns \(2, 5\)", "vb", data, {"settings": {"network": nn.Linear(4, 5)}}),
        ("cannot read features", "vb", data, {"settings": {"network": nn.Linear(9, 3)}}),
        ("network", "gibbs", data, {}),
        ("network", "nuts", data, {}),
        ("restarts", "vb", data, {"restarts": 2}),
        ("batch_size", "vb", data, {"batch_size": 20}),
        ("two priors", "vb", data, {"settings": {"prior": "published", "crowd_prior_strength": 20.0}}),
        ("'epoch'", "vb", data, {"settings": training}),
    ]
    for name, engine, given, how in wrong:
        with pytest.raises((DataError, MethodError), match=name):
            crowdppl.fit("bayes_dgc", given, inference=engine, **how)
    with pytest.raises(MethodError, match="checkpoint"):
        posterior.update(data, checkpoint="here")
    with pytest.raises(MethodError, match="network"):
        crowdppl.fit("one_coin", data, inference="em").classify(np.zeros((2, 4)))
    for row in ([0.0, 1, 2], [0.0, 1, 2, np.nan]):
        with pytest.raises(DataError):
            posterior.classify(np.array([row]))


def test_features_are_standardised_after_a_root_where_none_is_negative() -> None:
    x = torch.tensor([[0.0, 1.0, 3.0], [4.0, 1.0, 3.0], [16.0, 1.0, 3.0]])
    found = Standardise(x)(x)
    np.testing.assert_allclose(found[:, 0], (np.array([0, 2, 4]) - 2) / np.sqrt(8 / 3), atol=1e-6)
    assert (found[:, 1:] == 0).all()  # the same for all items
    below = torch.tensor([[-1.0], [1.0]])
    np.testing.assert_allclose(Standardise(below)(below), [[-1], [1]])
    assert Network(nn.Identity(), torch.zeros(2, 3, 4, 4))(x) is x  # images are left as they are


def test_the_recipe_is_written_out_and_gives_way_to_settings(both: tuple[Annotations, pd.Series]) -> None:
    data, truth = both
    ready: Any = crowdppl.method("bayes_dgc", training={"epochs": 25}).setup(data)
    assert (ready.crowd_prior_strength, ready.likelihood_power) == (14, 0.5)
    assert (ready.training["epochs"], ready.training["mixup"]) == (25, 1)
    assert default_training(data)["epochs"] == 120  # 240 items with labels are 4 steps an epoch
    assert default_training(data)["learning_rate"] == pytest.approx(0.011 / 2)
    bare: Any = crowdppl.method("bayes_dgc").setup(crowd(20))
    assert bare.crowd_prior_strength is None and bare.likelihood_power is None and not bare.training
    published: Any = crowdppl.method("bayes_dgc", prior="published").setup(data)
    assert published.crowd_prior_strength == 0
    found = crowdppl.fit("bayes_dgc", data, inference="vb", settings={"training": {"epochs": 25}})
    assert evaluate(found, truth).accuracy > 0.85


def test_model_bootstrapped_em_counts_what_the_network_predicts(both: tuple[Annotations, pd.Series]) -> None:
    """With a network that does not move, by hand: prevalence, confusions, and the truth that labels then give."""
    data, _ = both
    torch.manual_seed(1)
    network = nn.Linear(4, 3)
    training = {"epochs": 2, "warm_up": 0, "learning_rate": 1e-30, "weight_decay": 0.0}
    model = crowdppl.method("raykar", network=network, training=training, bootstrapped=True)
    found = crowdppl.fit(model, data, inference="em")
    predicted = found.classify(data.features).to_numpy().argmax(1)
    prevalence = np.bincount(predicted, minlength=3) / len(predicted)
    np.testing.assert_allclose(found.result.sites["prevalence"].mean, prevalence, atol=1e-9)
    rows = data.frame()
    item, who = data.items.get_indexer(rows["item"]), data.annotators.get_indexer(rows["annotator"])
    label = data.classes.get_indexer(rows["label"])
    counts = np.zeros((data.n_annotators, 3, 3))
    np.add.at(counts, (who, predicted[item], label), 1)
    confusion = found.result.sites["confusion"].mean
    some = counts.sum(-1) > 0
    np.testing.assert_allclose(confusion[some], (counts / counts.sum(-1, keepdims=True).clip(1))[some], atol=1e-9)
    p = np.tile(prevalence, (data.n_items, 1))
    np.multiply.at(p, item, confusion[who, :, label])
    shares = p / p.sum(1, keepdims=True)
    np.testing.assert_allclose(found.probabilities(), shares, atol=1e-6)
    learned = crowdppl.fit("raykar", data, inference="em", settings={"bootstrapped": True})
    labelled = data.items[data.votes().sum(1) > 0]
    votes = crowdppl.fit("majority_vote", data, inference="em").probabilities().loc[labelled]
    assert evaluate(learned.classify(data.features), both[1]).accuracy > evaluate(votes, both[1]).accuracy + 0.05
    with pytest.raises(MethodError, match="svi|bootstrapped|counting"):
        crowdppl.fit("raykar", data, inference="svi", settings={"bootstrapped": True})


def test_shares_are_even_where_votes_nearly_are() -> None:
    even, odd = torch.tensor([30.0, 34.0, 36.0]), torch.tensor([80.0, 10.0, 10.0])
    known: list[tuple[torch.Tensor, str, list[float]]] = [
        (even, "auto", [1 / 3] * 3),
        (even, "votes", [31 / 103, 35 / 103, 37 / 103]),
        (odd, "votes", [81 / 103, 11 / 103, 11 / 103]),
        (odd, "uniform", [1 / 3] * 3),
    ]
    for votes, kind, expected in known:
        found = class_shares(votes, kind)
        assert found is not None and found.tolist() == pytest.approx(expected)
    assert class_shares(odd, "auto") is None
    with pytest.raises(MethodError, match="shares='labels'"):
        training_of({"shares": "labels"})
