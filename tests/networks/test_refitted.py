"""Classifiers of scikit-learn in the place of networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import crowdppl
from crowdppl.errors import MethodError, ResultError
from crowdppl.networks import SklearnClassifier
from tests.networks.test_networks import clouds

DATA, TRUTH = clouds(150, 150)
NEW, NEW_TRUTH = clouds(90, 9, seed=1)
FOREST = RandomForestClassifier(20, min_samples_leaf=10)


def fitted(network: Any, method: str = "raykar", inference: str = "em", **settings: Any) -> crowdppl.Posterior:
    given = {"network": network, "training": {"epochs": 6}, **settings}
    return crowdppl.fit(method, DATA, inference=inference, settings=given, seed=0)


def hits(probabilities: pd.DataFrame, truth: pd.Series) -> float:
    """Share of items whose most probable class is the truth."""
    return float((probabilities.idxmax(axis=1) == truth[probabilities.index]).mean())


def right(posterior: crowdppl.Posterior) -> float:
    """Share of new items whose class is told from their features."""
    return hits(posterior.classify(NEW.features), NEW_TRUTH)


def test_logistic_regression_is_the_linear_network_with_its_penalty() -> None:
    decay = 0.05
    regression = LogisticRegression(C=1 / (decay * len(TRUTH)), fit_intercept=False, tol=1e-8, max_iter=1000)
    linear = nn.Linear(4, 3, bias=False)
    one = fitted(regression, training={"epochs": 60})
    two = fitted(linear, training={"epochs": 60, "full_batch": True, "weight_decay": decay})
    np.testing.assert_allclose(one.probabilities(), two.probabilities(), atol=2e-3)
    np.testing.assert_allclose(one.classify(NEW.features), two.classify(NEW.features), atol=2e-3)
    weaker = fitted(LogisticRegression(C=10.0, fit_intercept=False), training={"epochs": 60})
    assert abs(weaker.classify(NEW.features) - two.classify(NEW.features)).to_numpy().max() > 0.05


@pytest.mark.parametrize(
    "network",
    [
        FOREST,
        make_pipeline(StandardScaler(), LogisticRegression()),
        SklearnClassifier(GaussianProcessClassifier(), labels="hard"),
    ],
    ids=["forest", "pipeline", "process"],
)
def test_a_classifier_helps_labels_and_reaches_new_items(network: Any) -> None:
    found = fitted(network)
    alone = crowdppl.fit("dawid_skene", DATA, inference="em", seed=0)
    assert right(found) > 0.8
    assert hits(found.probabilities(), TRUTH) > hits(alone.probabilities(), TRUTH) + 0.05


@pytest.mark.parametrize(("method", "inference"), [("bayes_dgc", "vb"), ("global_noise", "em")])
def test_other_methods_take_it(method: str, inference: str) -> None:
    assert right(fitted(FOREST, method, inference, **({"recipe": "plain"} if method == "bayes_dgc" else {}))) > 0.8


def test_a_seed_gives_the_same_and_what_was_given_stays() -> None:
    one, two = fitted(FOREST), fitted(FOREST)
    np.testing.assert_array_equal(one.probabilities(), two.probabilities())
    assert not hasattr(FOREST, "classes_")
    assert FOREST.random_state is None


def test_a_class_without_rows_keeps_a_share() -> None:
    network = SklearnClassifier(LogisticRegression())
    network.n_classes = 3
    assert torch.equal(network(torch.zeros(2, 4)), torch.full((2, 3), 1 / 3).log())
    network.refit(torch.randn(8, 4), torch.eye(3)[[0, 1] * 4], 0)
    p = network(torch.zeros(1, 4)).exp()[0]
    assert p[2] == pytest.approx(1 / 25, abs=1e-3)  # 1 / (3 * 8) of 1 + 1 / 24
    assert p.sum() == pytest.approx(1)


class Plain:
    """A classifier that takes no weights of rows."""

    def fit(self, x: Any, y: Any) -> Plain:
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, x: Any) -> Any:
        return np.full((len(x), len(self.classes_)), 1 / len(self.classes_))


@pytest.mark.parametrize(
    ("network", "given", "message"),
    [
        (GaussianProcessClassifier(), {}, "takes no sample_weight.*labels='hard'"),
        (Plain(), {}, "Plain.fit takes no sample_weight"),
        (FOREST, {"training": {"mixup": 1.0}}, "mixup=1.0 is for networks that learn by gradients"),
        (FOREST, {"training": {"full_batch": True}}, "full_batch=True is for networks that learn by gradients"),
        (FOREST, {"inference": "svi"}, "use 'em' or 'vb'"),
        ("forest", {}, "no torch.nn.Module"),
    ],
)
def test_what_cannot_be_is_refused(network: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(MethodError, match=message):
        fitted(network, **given)
    with pytest.raises(MethodError, match="lacks fit or predict_proba"):
        SklearnClassifier(nn.Linear(4, 3))


def test_no_file_holds_it(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="scikit-learn is held by no file"):
        fitted(FOREST).save(tmp_path / "saved")


def test_known_confusions_beside_a_classifier() -> None:
    """An oracle that knows each annotator's confusion: only the classifier and the truth are learned."""
    even = np.full((3, 3), 0.2) + 0.4 * np.eye(3)  # of ``clouds``
    known = {"confusion": np.repeat(even[None], DATA.n_annotators, 0)}
    oracle = crowdppl.primitives.fixed(crowdppl.method("raykar", network=FOREST, training={"epochs": 6}), known)
    found = crowdppl.fit(oracle, DATA, inference="em", seed=0)
    np.testing.assert_allclose(found.confusion(), known["confusion"], atol=1e-6)
    assert right(found) > 0.8
    assert hits(found.probabilities(), TRUTH) > hits(fitted(FOREST).probabilities(), TRUTH) - 0.02
