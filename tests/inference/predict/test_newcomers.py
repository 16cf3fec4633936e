"""Annotators and classes that a fit has not seen: update and predict take them from the prior."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.errors import DataError, MethodError, SparseDataWarning
from crowdppl.posterior import Posterior
from tests.networks.test_networks import clouds

EXACT = {"tolerance": 1e-13}


def simulated(n: int = 40) -> pd.DataFrame:
    """Labels of n items of two classes by three annotators who err in a fifth of them, and the truth."""
    stream = np.random.default_rng(0)
    truth = stream.integers(2, size=n)
    rows = [(i, w, "ab"[truth[i] ^ (stream.random() < 0.2)], "ab"[truth[i]]) for i in range(n) for w in "uvw"]
    return pd.DataFrame(rows, columns=["item", "annotator", "label", "truth"])


MORE = pd.DataFrame(
    [(100, "u", "a"), (100, "x", "a"), (101, "x", "b"), (101, "y", "a"), (102, "v", "b"), (102, "x", "b")],
    columns=["item", "annotator", "label"],
)


@pytest.mark.parametrize("new_class", [False, True])
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("bayesian_dawid_skene", {"prevalence_strength": 4.0}),  # by default found in the first labels
        ("one_coin", {"prevalence": "learned"}),
        ("class_coin", {}),
        ("multinomial", {}),
    ],
)
def test_after_known_truths_an_update_is_a_fit_to_all_labels(
    name: str, settings: dict[str, Any], new_class: bool
) -> None:
    """What known truths taught is an exact posterior, so that to go on from it or to begin anew is the same."""
    table = simulated()
    gold = table.set_index("item")["truth"].groupby(level=0).first()
    more = MORE.replace({"label": {"b": "c"}}) if new_class else MORE
    old = Annotations.from_frame(table, item="item", annotator="annotator", label="label", gold=gold)
    both = pd.concat([table, more])[["item", "annotator", "label"]]
    whole = crowdppl.fit(name, Annotations.from_frame(both, gold=gold), inference="vb", settings=settings, **EXACT)
    first = crowdppl.fit(name, old, inference="vb", settings=settings, **EXACT)
    found = first.update(more, **EXACT)
    want = whole.probabilities().loc[[100, 101, 102]]
    np.testing.assert_allclose(found.probabilities(), want, atol=1e-6)
    for site, stored in whole.result.sites.items():
        np.testing.assert_allclose(found.result.sites[site].parameter, stored.parameter, atol=1e-5)
    assert found.annotators()["labels"].tolist() == [41, 41, 40, 3, 1]
    assert np.abs(found.probabilities() - first.predict(more)).to_numpy().max() > 1e-3


@pytest.mark.parametrize("inference", ["vb", pytest.param("gibbs", marks=pytest.mark.slow)])
def test_one_label_by_a_new_annotator_counts_by_the_mean_of_the_prior(inference: str) -> None:
    """The rows of the prior integrated out by hand: of one label, their mean alone matters."""
    few: dict[str, Any] = {"draws": 50, "warmup": 20} if inference == "gibbs" else {}
    posterior = crowdppl.fit("bayesian_dawid_skene", crowdppl.anaesthetists(), inference=inference, seed=0, **few)
    found = posterior.predict(pd.DataFrame({"item": [99], "annotator": ["new"], "label": [2]})).loc[99]
    rows = crowdppl.primitives.confusion_prior(posterior.data).numpy()
    given = rows[:, 1] / rows.sum(1)
    site = posterior.result.sites["prevalence"]
    if inference == "vb":
        want = site.mean * given
        np.testing.assert_allclose(found, want / want.sum(), atol=1e-9)
    else:
        each = site.arrays["draws"].reshape(-1, 4) * given
        np.testing.assert_allclose(found, (each / each.sum(1, keepdims=True)).mean(0), atol=0.01)


@pytest.mark.slow
def test_a_new_annotator_is_like_the_crowd_where_the_crowd_was_learned() -> None:
    """By the mean of the crowd's rows; and after an update without telling labels, still so."""
    crowd = crowdppl.simulate_annotators(["a", "b"] * 20, {"hammer": 5}, seed=0).data
    posterior = crowdppl.fit("hierarchical_dawid_skene", crowd, inference="vb", seed=0)
    rows = posterior.result.sites["crowd"].mean
    label = pd.DataFrame({"item": ["z"], "annotator": ["new"], "label": ["a"]})
    want = posterior.result.sites["prevalence"].mean * rows[:, 0]
    np.testing.assert_allclose(posterior.predict(label).loc["z"], want / want.sum(), atol=1e-6)
    updated = posterior.update(label)
    np.testing.assert_allclose(updated.confusion().loc["new"].to_numpy(), rows, atol=0.05)


@pytest.mark.parametrize("name", ["community", pytest.param("glad", marks=pytest.mark.slow)])
def test_methods_of_other_kinds_take_a_new_annotator(name: str) -> None:
    posterior = crowdppl.fit(name, crowdppl.anaesthetists(), inference="vb", max_iterations=30)
    table = pd.DataFrame({"item": [46, 47], "annotator": ["new", "new"], "label": [2, 3]})
    for found in (posterior.predict(table), posterior.update(table).probabilities()):
        assert found.idxmax(axis=1).tolist() == [2, 3]


def test_nothing_new_changes_nothing() -> None:
    posterior = crowdppl.fit("bayesian_dawid_skene", crowdppl.anaesthetists(), inference="vb")
    known = pd.DataFrame({"item": [46, 47], "annotator": ["1", "2"], "label": [2, 3]})
    both = pd.concat([known, pd.DataFrame({"item": [48], "annotator": ["new"], "label": [1]})])
    pd.testing.assert_frame_equal(posterior.predict(known), posterior.predict(both).loc[[46, 47]], atol=1e-9)


def test_items_from_before_a_class_was_new_cannot_come_again(tmp_path: Path) -> None:
    """Their labels were not asked of it; the refusal outlives save, load and further updates."""
    posterior = crowdppl.fit("one_coin", Annotations.from_frame(simulated().drop(columns="truth")), inference="vb")
    again = pd.DataFrame({"item": [0, 200], "annotator": ["u", "u"], "label": ["a", "c"]})
    with pytest.warns(SparseDataWarning, match="'c'"), pytest.raises(MethodError, match="item 0 "):
        posterior.update(again)
    found: Posterior = posterior.update(again.iloc[1:])
    assert found.data.classes.tolist() == ["a", "b", "c"]
    found.save(tmp_path / "kept")
    back = crowdppl.load(tmp_path / "kept").update(again.iloc[1:].assign(item=201))
    with pytest.raises(MethodError, match="item 0 "):
        back.update(again.iloc[:1])
    assert back.update(again.iloc[1:]).probabilities().shape == (1, 3)


def test_what_cannot_be_new_is_refused_by_name() -> None:
    data = crowdppl.anaesthetists()
    new_class = pd.DataFrame({"item": [46], "annotator": ["1"], "label": [9]})
    new_annotator = pd.DataFrame({"item": [46], "annotator": ["new"], "label": [1]})
    refused: list[Any] = [
        ("hierarchical_dawid_skene", "vb", new_class, "'crowd'"),
        ("dawid_skene", "em", new_class, "'prevalence'"),
        ("dependent_clusters", "vb", new_annotator, "groups"),
    ]
    for name, inference, table, why in refused:
        with pytest.raises(MethodError, match=why):
            crowdppl.fit(name, data, inference=inference).predict(table)
    away = Annotations.from_frame(new_class.assign(label=["?"]), classes=data.classes, abstentions=["?"])
    with pytest.raises(DataError, match="abstentions="):
        crowdppl.fit("one_coin", data, inference="vb").predict(away)
    seen, _ = clouds(60, 60, 4)
    table = pd.DataFrame({"item": seen.items[:1], "annotator": seen.annotators[:1], "label": ["another"]})
    quick = {"training": {"epochs": 1}}
    network = crowdppl.fit("bayes_dgc", seen, inference="vb", settings=quick)
    with pytest.raises(MethodError, match="network"):
        network.predict(table)
    stranger = table.assign(annotator="new", label=seen.classes[:1])
    assert network.predict(stranger).to_numpy().sum() == pytest.approx(1)


def test_a_new_annotator_brings_their_covariates() -> None:
    table = simulated().drop(columns="truth")
    people = pd.DataFrame({"years": [1.0, 5.0, 2.0]}, index=list("uvw"))
    posterior = crowdppl.fit("one_coin", Annotations.from_frame(table, annotator_covariates=people), inference="vb")
    more = MORE.iloc[:3]
    known = pd.concat([people, pd.DataFrame({"years": [9.0]}, index=["x"])])
    updated = posterior.update(Annotations.from_frame(more, annotator_covariates=known.loc[["u", "x"]]))
    assert updated.data.annotator_covariates.loc["x", "years"] == 9
