"""Every method that svi treats, in either precision, with abstentions and with a truth for each label."""

from typing import Any

import numpy as np
import pytest

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.posterior import Posterior
from crowdppl.primitives.model import card_of
from tests.networks.test_networks import clouds

SETTINGS: dict[str, dict[str, Any]] = {
    "dependent_clusters": {"groups": [0, 1, 0, 2, 1, 3]},
    "community": {"communities": 3},
    "bayes_dgc": {"recipe": "plain"},
}
TREATED = [n for n in crowdppl.registry.names_for("nominal") if card_of(crowdppl.method(n)).refusal("svi") is None]
LOOKING = [n for n in TREATED if "features" in card_of(crowdppl.method(n)).uses]


def fitted(name: str, data: Annotations, settings: dict[str, Any] | None = None, **options: Any) -> Posterior:
    known = {**SETTINGS.get(name, {}), **(settings or {})}
    return crowdppl.fit(name, data, inference="svi", seed=0, settings=known, **options)


def looking(data: Annotations, name: str, settings: Any = None, **options: Any) -> Posterior:
    training = {"epochs": 2, "batch_size": 16}
    return fitted(name, data, {"training": training, **(settings or {})}, **options)


def declining(n: int = 40) -> Annotations:
    """Two clouds, four annotators, and one label in six an abstention."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, n)
    says = np.where(rng.random((n, 4)) < 0.8, truth[:, None], 1 - truth[:, None])
    names = np.where(rng.random((n, 4)) < 1 / 6, "?", np.array(["a", "b"])[says])
    item, annotator = np.divmod(np.arange(4 * n), 4)
    features = truth[:, None] + 0.5 * rng.normal(size=(n, 3))
    return Annotations.from_arrays(
        item, annotator, names.ravel(), features=features, items=range(n), abstentions=["?"]
    )


@pytest.mark.parametrize("name", LOOKING)
def test_annotators_may_abstain_where_networks_learn(name: str) -> None:
    found = looking(declining(), name)
    assert np.isfinite(found.probabilities().to_numpy()).all()
    declined = found.result.sites["abstention"].mean[..., 1:]
    assert declined.min() > 0.01 and declined.max() < 0.5


def test_mean_field_starts_from_the_votes_where_each_label_has_a_truth_of_its_own() -> None:
    data, truth = clouds(60, 50, 4)
    found = looking(data, "global_noise", settings={"likelihood": "per_annotation"})
    right = (found.probabilities().idxmax(axis=1) == truth).iloc[:50].mean()
    assert right > 0.6


def test_penalised_coins_may_abstain() -> None:
    found = looking(declining(), "coin_net", settings={"form": "penalised"})
    assert np.isfinite(found.probabilities().to_numpy()).all()
