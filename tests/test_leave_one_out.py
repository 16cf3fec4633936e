"""Leave-one-out by importance sampling, against refits without the label or the item."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import crowdppl
from crowdppl.errors import MethodError
from crowdppl.inference.predictive import left_out, refit
from crowdppl.leave_one_out import leave_one_out
from crowdppl.posterior import Posterior
from crowdppl.splitting import keep
from tests.crowd import crowd


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    data = crowd(n_items=150, n_annotators=5, labels_each=4, seed=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return crowdppl.fit("bayesian_dawid_skene", data, inference="gibbs", chains=8, draws=1000, warmup=200)


def test_labels_score_as_after_refits_without_them(posterior: Posterior) -> None:
    found = leave_one_out(posterior, "label")
    data = posterior.data
    for row in (0, 131, 264, 519):
        out = np.arange(data.n_labels) == row
        wanted = left_out(refit(posterior, keep(data, ~out)), data, out)[0][0]
        assert found.values["log_p"].iloc[row] == pytest.approx(wanted, abs=0.05)


def test_items_score_as_after_refits_without_them(posterior: Posterior) -> None:
    found = leave_one_out(posterior, "item")
    data = posterior.data
    item = data.frame()["item"].to_numpy()
    for name in (0, 63, 149):
        out = item == name
        wanted = left_out(refit(posterior, keep(data, ~out)), data, out, alone=False)[2][0]
        assert found.values.loc[name, "log_p"] == pytest.approx(wanted, abs=0.1)


def test_leaving_out_costs_something(posterior: Posterior) -> None:
    """In-sample predictions, which know the label, are better: the score is no in-sample score."""
    from crowdppl.inference.predictive import given_the_rest

    logs = given_the_rest(posterior, "label", 500)
    inside = (logs.max(0) + np.log(np.exp(logs - logs.max(0)).mean(0))).mean()
    assert leave_one_out(posterior, "label").mean < inside - 0.005


def test_points_and_other_units_are_refused(posterior: Posterior) -> None:
    with pytest.raises(MethodError, match="neither"):
        leave_one_out(posterior, "annotator")
    with pytest.raises(MethodError, match="heldout_score"):
        leave_one_out(crowdppl.fit("one_coin", posterior.data, inference="em"))


def test_a_label_that_decides_its_own_weight_is_warned_of() -> None:
    """Two annotators with a handful of labels under a weak prior: weights have no mean, and ArviZ says so."""
    data = crowd(n_items=6, n_annotators=3, n_classes=3, labels_each=2, seed=1)
    story = crowdppl.method("bayesian_dawid_skene", mass=0.15, prevalence_mass=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        posterior = crowdppl.fit(story, data, inference="gibbs", chains=8, draws=500)
    with pytest.warns(UserWarning, match="Pareto"):
        found = leave_one_out(posterior, "label")
    assert found.warnings and (found.values["pareto_k"] > 0.5).any() and "not to be trusted" in repr(found)
