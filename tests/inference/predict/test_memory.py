"""Updates by labels of items that come again: each item counts once, and what earlier labels taught is not lost."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist
import pytest
import torch

import crowdppl
from crowdppl import fit
from crowdppl.data.annotations import Annotations
from crowdppl.errors import MethodError
from crowdppl.posterior import Posterior
from crowdppl.primitives import annotate, plates, truth
from crowdppl.primitives.likelihood import coin_table

LEARNED = {"prevalence": "learned"}


@pytest.fixture(scope="module")
def data() -> Annotations:
    return crowdppl.anaesthetists()


def of(data: Annotations, annotators: list[str], items: int = 45) -> Annotations:
    rows = data.frame()
    return Annotations.from_frame(rows[rows["annotator"].isin(annotators) & (rows["item"] <= items)], like=data)


@pytest.fixture(scope="module")
def updated(data: Annotations) -> Posterior:
    one = fit("bayesian_dawid_skene", of(data, ["1"]), inference="vb")
    return one.update(of(data, ["2", "3", "4", "5"]))


def total(posterior: Posterior, site: str = "prevalence") -> float:
    return float(posterior.result.sites[site].arrays["concentration"].sum())


def test_labels_split_by_annotator_count_each_item_once(data: Annotations) -> None:
    """45 items and a flat prior of four classes, however many updates there were."""
    found = fit("one_coin", of(data, ["1"]), inference="vb", settings=LEARNED)
    for who in "2345":
        found = found.update(of(data, [who]))
        assert total(found) == pytest.approx(49, abs=1e-3)
    whole = fit("one_coin", data, inference="vb", settings=LEARNED)
    pd.testing.assert_frame_equal(found.prevalence(), whole.prevalence(), atol=0.01)
    off = np.abs(found.probabilities() - whole.probabilities()).to_numpy()
    assert off.mean() < 0.01 and off.max() < 0.2
    assert found.annotators()["labels"].tolist() == [135, 45, 45, 45, 45]


def test_items_that_stay_away_for_an_update_are_not_forgotten(data: Annotations) -> None:
    found = fit("one_coin", of(data, ["1"]), inference="vb", settings=LEARNED)
    found = found.update(of(data, ["2"], items=20))
    assert total(found) == pytest.approx(49, abs=1e-3)
    last = found.update(of(data, ["3", "4", "5"]))
    assert total(last) == pytest.approx(49, abs=1e-3)
    fresh = of(data, ["3", "4", "5"])
    renamed = fresh.frame().assign(item=fresh.frame()["item"] + 100)
    alone = found.update(Annotations.from_frame(renamed, like=data))
    whole = fit("one_coin", data, inference="vb", settings=LEARNED).probabilities().to_numpy()[20:]
    near, far = (np.abs(p.probabilities().to_numpy()[20:] - whole).mean() for p in (last, alone))
    assert near < far / 2


def test_by_hand_what_came_before_is_divided_by_what_vb_used(data: Annotations) -> None:
    """One more label of an item of the fit: the prevalence and the label's row count without the item's own."""
    old = fit("bayesian_dawid_skene", data, inference="vb", tolerance=1e-13)
    more = pd.DataFrame({"item": [36], "annotator": ["2"], "label": [2]})
    new = old.update(more, tolerance=1e-13)
    c, p = (old.result.sites["prevalence"].arrays["concentration"], old.probabilities().loc[36].to_numpy())
    rows = old.result.sites["confusion"].arrays["concentration"][1]
    weight, now = c - p, np.maximum(c - p, 1)
    share = p / weight * now * rows[:, 1] / rows.sum(1)
    share = share / share.sum()
    np.testing.assert_allclose(new.probabilities().loc[36], share, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ebcc", "mixed_membership", "hierarchical_dawid_skene"])
def test_so_it_is_with_more_than_a_truth_behind_an_item(name: str, data: Annotations) -> None:
    """Concentrations stay near those of one fit, neither counted twice nor below the model's prior."""
    found = fit(name, of(data, ["1", "2"]), inference="vb").update(of(data, ["3", "4", "5"]))
    whole = fit(name, data, inference="vb")
    for site, stored in whole.result.sites.items():
        if stored.family == "dirichlet" and "item" not in stored.dims and "annotator" not in stored.dims:
            assert total(found, site) == pytest.approx(total(whole, site), rel=0.1)


class Shares:
    """A prevalence that is no Dirichlet."""

    def model(self, data: Any) -> None:
        k = data.n_classes
        lean = pyro.sample("lean", dist.Normal(torch.zeros(k), 1.0).to_event(1))
        with plates.annotators(data):
            coin = pyro.sample("coin", dist.Dirichlet(torch.tensor([2.0, 1.0])))
        with plates.items(data):
            annotate(data, coin_table(coin.log().unsqueeze(-2), k), truth(data, lean.log_softmax(-1)))


def test_what_cannot_be_taken_out_of_a_site_is_refused(data: Annotations) -> None:
    found = fit(Shares(), of(data, ["1"]), inference="vb")
    with pytest.raises(MethodError, match="site 'lean', which is not conjugate"):
        found.update(of(data, ["2"]))
    rows = of(data, ["2"]).frame()
    assert len(found.update(rows.assign(item=rows["item"] + 100)).data.items) == 45


def test_leaving_annotators_out_keeps_what_earlier_labels_taught(updated: Posterior, data: Annotations) -> None:
    left = updated.without(["2"])
    assert abs(left.annotators().loc["1", "accuracy"] - updated.annotators().loc["1", "accuracy"]) < 0.03
    assert left.annotators()["labels"].tolist() == [135, 0, 45, 45, 45]
    direct = fit("bayesian_dawid_skene", of(data, ["1"]), inference="vb").update(of(data, ["3", "4", "5"]))
    np.testing.assert_allclose(left.probabilities(), direct.probabilities(), atol=0.01)
    with pytest.raises(MethodError, match="annotator '1' gave 135 labels before an update"):
        updated.without(["2", "1"])


@pytest.mark.slow
def test_scores_of_an_updated_fit_know_its_earlier_labels(updated: Posterior, data: Annotations) -> None:
    alone = fit("bayesian_dawid_skene", of(data, ["2", "3", "4", "5"]), inference="vb")
    assert crowdppl.heldout_score(updated).per_label > crowdppl.heldout_score(alone).per_label + 0.005
    old = fit("bayesian_dawid_skene", of(data, ["1"]), inference="vb")
    rows = of(data, ["2"]).frame()
    known, strange = old.update(rows), old.update(rows.assign(item=rows["item"] + 100))
    label, item = (known.leave_one_out(unit).values["log_p"].to_numpy() for unit in ("label", "item"))
    np.testing.assert_allclose(label, item, atol=1e-8)  # one label an item: what was known before is not scored
    assert label.mean() > strange.leave_one_out().mean + 0.1


def test_an_updated_fit_is_saved_with_what_it_remembers(
    updated: Posterior, data: Annotations, tmp_path: Path
) -> None:
    found = updated.update(of(data, ["5"], items=10))
    found.save(tmp_path)
    again = crowdppl.load(tmp_path)
    pd.testing.assert_frame_equal(again.annotators(), found.annotators())
    one, two = (x.update(data).probabilities() for x in (again, found))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(again.leave_one_out().values, found.leave_one_out().values)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"gold": {1: 1}}, "known truths in the annotations"),
        ({"inference": "em"}, "an update is by vb"),
        ({"max_iteration": 3}, "max_iterations"),
    ],
)
def test_options_are_checked_as_those_of_a_fit(options: dict[str, Any], why: str, updated: Posterior) -> None:
    with pytest.raises(MethodError, match=why):
        updated.update(updated.data, **options)


def test_history_with_new_labels_is_refused(data: Annotations) -> None:
    told = Annotations.from_frame(data.frame(), history={"1": np.eye(4)})
    found = fit("one_coin", told, inference="vb")
    new = Annotations.from_frame(data.frame(), like=data, history={"2": np.eye(4)})
    with pytest.raises(MethodError, match="of new labels"):
        found.update(new)
    assert found.update(told).memory is not None  # the same history as that of the fit, which knows it
