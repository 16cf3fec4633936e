"""Filling: which labels are added, by hand; what was given stays; whom it is refused to."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.errors import DataError, MethodError
from crowdppl.networks.classifier import feature_tensor, log_shares
from crowdppl.networks.experts import GatedClassifier
from crowdppl.posterior import Posterior
from crowdppl.results.updating import answer_shares, fill
from tests.crowd import crowd
from tests.networks.test_mmlc import QUICK
from tests.networks.test_networks import clouds


@pytest.fixture(scope="module")
def labels_alone() -> Posterior:
    return crowdppl.fit("dawid_skene", crowd(40, 6, 3, 3, seed=1), inference="em", seed=0)


@pytest.fixture(scope="module")
def neural() -> Posterior:
    return crowdppl.fit("mmlc", clouds(90, 60)[0], inference="svi", seed=0, settings=QUICK)


def matrix(data: Annotations) -> np.ndarray:
    rows = data.frame()
    out = np.full((data.n_items, data.n_annotators), -1)
    at = data.items.get_indexer(rows["item"]), data.annotators.get_indexer(rows["annotator"])
    out[at] = data.classes.get_indexer(rows["label"])
    return out


def test_a_label_is_the_likeliest_under_truth_and_confusion(labels_alone: Posterior) -> None:
    """At a point, p(answer | item) is the truth's probabilities through the annotator's confusion."""
    data = labels_alone.data
    p = labels_alone.probabilities().to_numpy() @ labels_alone.confusion().to_numpy()  # (A, N, K)
    item, annotator = np.divmod(np.arange(40 * 6), 6)
    np.testing.assert_allclose(answer_shares(labels_alone, item, annotator, 1), p[annotator, item], atol=1e-6)
    given, found = matrix(data), fill(labels_alone, least=0)
    now = matrix(found)
    assert found.n_labels == 40 * 6 and (now[given >= 0] == given[given >= 0]).all()
    clear = (given < 0) & (np.diff(np.sort(p, -1)[..., -2:])[..., 0].T > 1e-6)
    assert clear.sum() > 100 and (now[clear] == p.argmax(-1).T[clear]).all()
    rows = found.frame()
    at = data.items.get_indexer(rows["item"]), data.annotators.get_indexer(rows["annotator"])
    assert (rows["filled"].to_numpy() == (given[at] < 0)).all()


def test_draws_are_averaged_over() -> None:
    data = crowd(30, 5, 3, 3, seed=2)
    found = crowdppl.fit("bayesian_dawid_skene", data, inference="gibbs", seed=0, draws=60, warmup=30, chains=2)
    many, item, annotator = 120, np.array([0, 7]), np.array([1, 2])
    got = answer_shares(found, item, annotator, many)
    theta = found.result.sites["confusion"].arrays["draws"].reshape(many, 5, 3, 3)
    pi = found.result.sites["prevalence"].arrays["draws"].reshape(many, 3)
    rows = data.frame()
    for n, (i, a) in enumerate(zip(item, annotator, strict=True)):
        mine = rows[rows["item"] == data.items[i]]
        log_p = np.log(pi)
        for who, x in zip(mine["annotator"], mine["label"], strict=True):
            log_p = log_p + np.log(theta[:, data.annotators.get_loc(who), :, data.classes.get_loc(x)])
        p = np.exp(log_p - log_p.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        np.testing.assert_allclose(got[n], np.einsum("dk,dkl->l", p, theta[:, a]) / many, atol=1e-6)


def test_a_mixture_of_experts_fills_what_each_gate_sees(neural: Posterior) -> None:
    data, model = neural.data, neural.model
    features = feature_tensor(data)
    gates = torch.from_numpy(neural.result.sites["gate"].mean)
    experts: Any = model.experts
    p = np.stack([log_shares(GatedClassifier(experts, gate), features).exp().numpy() for gate in gates], 1)
    found, given = fill(neural, least=0), matrix(data)
    now = matrix(found)
    sure = np.diff(np.sort(p, -1)[..., -2:])[..., 0] > 1e-4
    assert (now[(given < 0) & sure] == p.argmax(-1)[(given < 0) & sure]).all()
    assert (now[given >= 0] == given[given >= 0]).all()
    assert found.features is data.features and found.n_labels == 90 * data.n_annotators


def test_annotators_with_few_labels_keep_what_they_gave(labels_alone: Posterior) -> None:
    given = matrix(labels_alone.data)
    counts = (given >= 0).sum(0)
    least = int(np.sort(counts)[2]) + 1
    now = matrix(fill(labels_alone, least=least))
    few = counts < least
    assert 0 < few.sum() < 6
    assert (now[:, few] == given[:, few]).all() and (now[:, ~few] >= 0).all()
    assert fill(labels_alone, least=10**6).n_labels == labels_alone.data.n_labels


def test_abstentions_stay_and_are_never_filled() -> None:
    rows = crowd(20, 4, 2, 2, seed=3).frame()
    rows["label"] = rows["label"].astype(str).where(rows["item"] > 2, "?")
    known = {5: "0"}
    data = Annotations.from_frame(rows.assign(time=1.5), classes=["0", "1"], abstentions=["?"], gold=known)
    found = fill(crowdppl.fit("dawid_skene", data, inference="em"), least=0)
    frame = found.frame()
    assert (frame["label"][frame["filled"]] != "?").all() and (frame["label"] == "?").sum() == 6
    assert (frame["time"].isna() == frame["filled"]).all()
    assert found.gold is not None and found.gold.to_dict() == known
    assert list(found.answers) == ["0", "1", "?"]


def test_other_items_of_the_same_annotators(neural: Posterior) -> None:
    rows = neural.data.frame()
    some = rows[rows["item"].isin(neural.data.items[:10])]
    features = neural.data.features.iloc[:10]
    fewer = Annotations.from_frame(
        some, features=features, annotators=list(neural.data.annotators), classes=range(3), items=features.index
    )
    new = fill(neural, fewer, least=0)
    np.testing.assert_array_equal(matrix(new), matrix(fill(neural, least=0))[:10])
    strange = Annotations.from_frame(some, classes=range(4), annotators=list(neural.data.annotators))
    with pytest.raises(DataError, match="the classes"):
        fill(neural, strange)
    with pytest.raises(DataError, match="the annotators"):
        fill(neural, crowd(10, 3, 3, 2))


def test_what_cannot_fill_is_refused_by_name(labels_alone: Posterior) -> None:
    hard = crowdppl.fit("glad", labels_alone.data, inference="em", max_iterations=3)
    assert fill(hard, least=0).n_labels == 240, "its own items have a difficulty"
    with pytest.raises(MethodError, match="difficulty"):
        fill(hard, crowd(10, 6, 3, 3))
    with pytest.raises(MethodError, match="least=-1"):
        fill(labels_alone, least=-1)


def test_a_class_as_probable_as_another_is_chosen_as_for_labels() -> None:
    """Nobody knows anything: the item's own votes decide."""
    frame = pd.DataFrame({"item": [0, 0, 1, 1], "annotator": ["a", "b", "a", "b"], "label": [1, 1, 0, 0]})
    data = Annotations.from_frame(frame, annotators=["a", "b", "new"], classes=[0, 1])
    posterior = crowdppl.fit("multinomial", data, inference="em", max_iterations=1)
    even = posterior.result.sites["confusion"].mean * 0 + 0.5
    posterior.result.sites["confusion"].arrays["value"] = even
    assert list(matrix(fill(posterior, least=0))[:, 2]) == [1, 0]
