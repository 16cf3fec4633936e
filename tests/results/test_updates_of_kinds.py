"""Updates and predictions of kinds other than classes: after a default fit, of known items, and without labels."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl import Annotations
from crowdppl.errors import CrowdpplWarning, MethodError


def numbers(seed: int, items: range, who: str = "abc") -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    truth = np.random.default_rng(0).normal(0, 3, 100)
    rows = [(n, a, truth[n] + rng.normal(0, 1)) for n in items for a in who]
    return pd.DataFrame(rows, columns=["item", "annotator", "label"])


@pytest.mark.parametrize("inference", ["gibbs", "vb", "em"])
def test_an_update_of_numbers_by_known_items_is_a_fit_to_all(inference: Any) -> None:
    first, more = (
        numbers(1, range(30)),
        pd.concat([numbers(2, range(20, 30), "d"), numbers(3, range(30, 35), "ad")]),
    )
    options: dict[str, Any] = {"inference": inference, "seed": 0}
    fitted = crowdppl.fit("gaussian_annotators", Annotations.from_frame(first, kind="real"), **options)
    found = fitted.update(more)
    whole = Annotations.from_frame(pd.concat([first, more]), kind="real")
    wanted = crowdppl.fit("gaussian_annotators", whole, **options)
    assert found.inference == inference and found.data.n_labels == whole.n_labels
    error = 0.15 if inference == "gibbs" else 0.01  # the scale of truths stays that of the first fit
    np.testing.assert_allclose(found.truth()["estimate"].sort_index(), wanted.truth()["estimate"], atol=error)
    assert [*found.annotators().index] == ["a", "b", "c", "d"]


def test_an_update_of_classes_by_chains_is_a_fit_to_all() -> None:
    data = crowdppl.anaesthetists()
    fitted = crowdppl.fit("bayesian_dawid_skene", data, inference="gibbs", seed=0, draws=100, warmup=50)
    new = pd.DataFrame({"item": [46, 46, 1], "annotator": ["1", "new", "new"], "label": [1, 2, 1]})
    found = fitted.update(new)
    assert found.data.n_items == 46 and found.data.n_labels == data.n_labels + 3
    assert found.annotators()["labels"]["new"] == 2
    with pytest.raises(MethodError, match="inference="):
        fitted.update(new, inference="vb")


@pytest.mark.parametrize("kind", ["pair", "sequence", "set", "similarity", "angle", "count"])
def test_every_kind_is_updated_after_a_short_chain(kind: str) -> None:
    data = crowdppl.datasets.example(kind)
    method = {"angle": "von_mises_annotators", "count": "poisson_annotators", "pair": "bradley_terry"}.get(kind)
    fitted = crowdppl.fit(
        method or "bayesian_dawid_skene", data, inference="vb" if kind == "angle" else "gibbs", seed=0
    )
    rows = data.frame()
    again = rows[rows["item"].isin(data.items[:3])].assign(annotator="new")
    if data.alphabet.kind.parts is not None and kind != "set":
        of = data.item_covariates.loc[again["item"], [*data.alphabet.kind.parts.names]].astype(object)
        again = again.drop(columns="item").assign(**{name: of[name].to_numpy() for name in of})
    found = fitted.update(again[again["annotator"] == "new"].drop_duplicates())
    assert found.data.n_items == data.n_items and found.annotators()["labels"]["new"] > 0


def test_whole_numbers_name_sequences_in_updates() -> None:
    rows = [(s, p, a, t) for s in range(4) for p, t in enumerate(["O", "B-X", "I-X"]) for a in (1, 2, 3)]
    table = pd.DataFrame(rows, columns=["sequence", "position", "annotator", "label"])
    for method in ("hmm_crowd", "bayesian_dawid_skene"):
        data = Annotations.from_frame(table, kind="sequence")
        for fitted in (
            crowdppl.fit(method, data, inference="vb", seed=0),
            crowdppl.fit(method, data, inference="gibbs", draws=20, warmup=20, seed=0),
        ):
            later = fitted.update(table.assign(sequence=table["sequence"] + 10))
            assert {*later.labels().index.get_level_values("sequence")} >= {10, 11, 12, 13}
            known = fitted.update(table[table["sequence"] < 2].assign(annotator=9))
            assert known.labels().loc[(0, 1), "label"] == "B-X"


def test_a_pair_that_nobody_compared_is_predicted_by_skills() -> None:
    rows = [("a", "b", "x", "a"), ("a", "b", "y", "a"), ("b", "c", "x", "b"), ("b", "c", "y", "b")]
    table = pd.DataFrame(rows, columns=["left", "right", "annotator", "label"])
    fitted = crowdppl.fit("bradley_terry", Annotations.from_frame(table, kind="pair"), inference="em")
    score = fitted.ranking()["score"]
    new = pd.DataFrame({"left": ["a", "c", "new"], "right": ["c", "a", "a"]})
    found = fitted.predict(new)["left"]
    assert found[("a", "c")] == pytest.approx(1 / (1 + np.exp(score["c"] - score["a"])))
    assert found[("c", "a")] == pytest.approx(1 - found[("a", "c")]) and found[("new", "a")] < 0.5
    design = Annotations.design([("a", "c")], ["x"], like=fitted.data)
    assert fitted.predict(design)["left"].to_dict() == {("a", "c"): pytest.approx(found[("a", "c")])}


def test_items_without_labels_are_predicted_by_what_is_known_of_all() -> None:
    fitted = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
    found = fitted.predict(pd.DataFrame({"item": [90, 91]}))
    np.testing.assert_allclose(found, np.tile(fitted.prevalence()["mean"], (2, 1)), atol=1e-6)
    real = crowdppl.fit(
        "gaussian_annotators", Annotations.from_frame(numbers(1, range(30)), kind="real"), inference="em"
    )
    assert real.predict(pd.DataFrame({"item": [90]}))["sd"].iloc[0] > 2


def test_labels_that_repeat_are_told_and_count() -> None:
    first = numbers(1, range(5))
    fitted = crowdppl.fit("gaussian_annotators", Annotations.from_frame(first, kind="real"), inference="em")
    with pytest.warns(CrowdpplWarning, match="repeat"):
        found = fitted.update(first)
    assert found.data.n_labels == 30


def test_auto_of_one_tag_takes_another_tag_later() -> None:
    data = crowdppl.Annotations.from_arrays(["s | 0"] * 3, ["a", "b", "c"], ["B-x", "B-x", "O"], kind="sequence")
    found = crowdppl.fit("auto", data, seed=0)
    rows = [(f"t | {n}", a, "B-y" if n == 1 else "O") for n in range(4) for a in "ab"]
    new = pd.DataFrame(rows, columns=["item", "annotator", "label"])
    for table in (found.update(new).probabilities(), found.predict(new)):
        assert table.shape == (4, 3)
        assert table.sum(axis=1).to_numpy() == pytest.approx(1)


def test_similarity_by_one_annotator_has_no_ranking() -> None:
    pairs = [f"o{a} | o{b}" for a in range(8) for b in range(a)][:25]
    answers = np.random.default_rng(0).choice(["same", "different"], 25)
    data = crowdppl.Annotations.from_arrays(pairs, ["a"] * 25, answers, kind="similarity")
    found = crowdppl.fit("hierarchical_mixed_membership", data, inference="vb", seed=0)
    with pytest.raises(MethodError, match="ranks no objects"):
        found.ranking()
