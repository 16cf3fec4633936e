"""What a posterior says, against results made by hand and against closed forms."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta

from crowdppl import choices, intervals
from crowdppl.annotations import Annotations
from crowdppl.card import Card
from crowdppl.datasets import anaesthetists
from crowdppl.errors import DataError, MethodError
from crowdppl.inference import fit
from crowdppl.inference.results import FitResult, SiteResult
from crowdppl.posterior import Posterior, load
from crowdppl.simulation import random_design
from tests.crowd import crowd

pytestmark = pytest.mark.filterwarnings("ignore::crowdppl.errors.CrowdpplWarning")

ITEMS = [10, 7, 7, 7, 9, 9, 10, 10]
ANNOTATORS = ["b", "a", "b", "c", "a", "b", "a", "c"]
LABELS = ["yes", "no", "no", "yes", "yes", "no", "yes", "yes"]
TABLE = np.array([[[0.9, 0.1], [0.3, 0.7]], [[0.8, 0.2], [0.4, 0.6]], [[0.5, 0.5], [0.5, 0.5]]])
SHARE = np.array([0.25, 0.75])


SHORT: dict[str, dict[str, Any]] = {"vb": {}, "gibbs": {"chains": 4, "draws": 100, "warmup": 50}}


class Handmade:
    card: ClassVar[Card] = Card("Handmade", "nobody")

    def model(self, data: Any) -> None: ...


def data(**options: Any) -> Annotations:
    return Annotations.from_arrays(ITEMS, ANNOTATORS, LABELS, **options)


def result(**parts: Any) -> FitResult:
    """A point: items 7, 9, 10 are no for sure, undecided, and rather yes."""
    point = {
        "sites": {},
        "probabilities": np.array([[1.0, 0.0], [0.5, 0.5], [0.2, 0.8]]),
        "probability_sd": None,
        "table": TABLE,
        "table_draws": None,
        "prevalence": SHARE,
        "prevalence_draws": None,
        "diagnostics": {"converged": True, "iterations": 3, "objective": -5.0, "objectives": [-9.0, -6.0, -5.0]},
    }
    return FitResult(**(point | parts))


def posterior(found: FitResult | None = None, inference: str = "em", **options: Any) -> Posterior:
    return Posterior(Handmade(), "handmade", inference, data(**options), found or result())


def test_probabilities_have_items_and_classes_for_names() -> None:
    table = posterior().probabilities()
    assert (table.index.name, table.columns.name) == ("item", "class")
    assert list(table.index) == [7, 9, 10]
    assert list(table.columns) == ["no", "yes"]
    assert table.loc[10, "yes"] == 0.8
    assert posterior().probabilities(sd=True).isna().all(axis=None)
    sd = posterior(result(probability_sd=np.full((3, 2), 0.1))).probabilities(sd=True)
    assert (sd == 0.1).all(axis=None)


def test_labels_by_hand() -> None:
    labels = posterior().labels()
    assert list(labels.columns) == ["label", "probability", "entropy", "votes", "tied"]
    assert labels.loc[7].tolist() == ["no", 1.0, 0.0, 3, False]
    assert labels.loc[9, "entropy"] == pytest.approx(1)
    assert labels.loc[10, "entropy"] == pytest.approx(-0.2 * np.log2(0.2) - 0.8 * np.log2(0.8))
    assert labels["votes"].tolist() == [3, 2, 3]
    assert labels["tied"].tolist() == [False, True, False]


def test_ties_go_to_votes_then_to_all_votes_then_to_neither_end() -> None:
    even = np.full((1, 3), 1 / 3)
    names = ["x", "y", "z"]

    def chosen(votes: list[list[int]], items: list[Any], classes: list[str] = names) -> list[str]:
        p = np.repeat(even, len(votes), axis=0)
        return [classes[k] for k in choices.choose(p, np.array(votes), items, classes)[0]]

    assert chosen([[0, 2, 1], [5, 0, 0]], ["i", "j"])[0] == "y"  # the item's votes, though x has more in all
    assert chosen([[1, 1, 0], [0, 3, 9]], ["i", "j"])[0] == "y"  # z has most in all, but none on the item
    wins = [chosen([[1, 1, 1]], [item])[0] for item in range(300)]
    counts = pd.Series(wins).value_counts()
    assert counts.min() > 60, "no class wins all ties"
    other_order = [chosen([[1, 1, 1]], [item], ["z", "x", "y"])[0] for item in range(300)]
    assert other_order == wins, "the order of classes does not matter"


def test_no_tie_is_decided_by_rounding() -> None:
    code, tied = choices.choose(np.array([[0.5 - 1e-8, 0.5 + 1e-8]]), np.array([[2, 1]]), ["i"], ["a", "b"])
    assert (code[0], tied[0]) == (0, True)


def test_truth_of_nominal_classes() -> None:
    truth = posterior().truth(level=0.9)
    assert list(truth.columns) == ["estimate", "sd", "interval"]
    assert truth.loc[10, "estimate"] == "yes"
    assert truth.loc[10, "sd"] == pytest.approx(0.4)
    assert truth["interval"].tolist()[0] == ("no",)
    assert set(truth.loc[9, "interval"]) == {"no", "yes"}
    assert truth.loc[10, "interval"] == ("yes", "no")
    assert posterior().truth(level=0.8).loc[10, "interval"] == ("yes",)


def test_truth_of_grades() -> None:
    p = np.array([[0.02, 0.02, 0.06, 0.6, 0.3], [0.5, 0.5, 0.0, 0.0, 0.0]])
    graded = Annotations.from_arrays(
        [1, 1, 2, 2], list("abab"), [2, 3, 4, 5], classes=[1, 2, 3, 4, 5], kind="ordinal"
    )
    found = result(probabilities=p, table=np.full((2, 5, 5), 0.2), prevalence=np.full(5, 0.2))
    truth = Posterior(Handmade(), "handmade", "vb", graded, found).truth(level=0.9)
    assert truth["estimate"].tolist() == [4, 1]
    assert truth["interval"].tolist() == [(3, 5), (1, 2)]
    mean = np.sum(p[0] * np.arange(5))
    assert truth.loc[1, "sd"] == pytest.approx(np.sqrt(np.sum(p[0] * (np.arange(5) - mean) ** 2)))


def test_credible_sets_hold_what_they_promise() -> None:
    p = np.random.default_rng(0).dirichlet(np.full(6, 0.5), 200)
    for row, held in zip(p, choices.credible_sets(p, list(range(6)), 0.9), strict=True):
        assert row[list(held)].sum() >= 0.9 - 1e-9
        assert row[list(held[:-1])].sum() < 0.9


def test_annotators_of_a_point_have_no_interval() -> None:
    table = posterior().annotators()
    assert list(table.index) == ["a", "b", "c"]
    assert table["labels"].tolist() == [3, 3, 2]
    assert table["accuracy"].to_numpy() == pytest.approx([0.25 * 0.9 + 0.75 * 0.7, 0.25 * 0.8 + 0.75 * 0.6, 0.5])
    assert table["sensitivity"].tolist() == [0.7, 0.6, 0.5]
    assert table["specificity"].tolist() == [0.9, 0.8, 0.5]
    ends = [name for name in table.columns if name.endswith(("_sd", "_low", "_high"))]
    assert len(ends) == 9
    assert table[ends].isna().all(axis=None)


def test_with_more_classes_there_is_no_sensitivity() -> None:
    wide = result(
        probabilities=np.full((3, 3), 1 / 3), table=np.full((3, 3, 3), 1 / 3), prevalence=np.full(3, 1 / 3)
    )
    table = posterior(wide, classes=["no", "yes", "maybe"]).annotators()
    assert list(table.columns) == ["labels", "accuracy", "accuracy_sd", "accuracy_low", "accuracy_high"]


def test_intervals_from_draws_are_quantiles() -> None:
    stream = np.random.default_rng(0)
    rows = stream.dirichlet([8.0, 2.0], (2000, 3, 2)).astype(np.float32)
    shares = stream.dirichlet([2.0, 3.0], 2000)
    found = result(table=rows.mean(0), table_draws=rows, prevalence=shares.mean(0), prevalence_draws=shares)
    held = posterior(found, "gibbs")
    table = held.annotators(level=0.8)
    right = shares[:, 0] * rows[:, 1, 0, 0] + shares[:, 1] * rows[:, 1, 1, 1]
    assert table.loc["b", "accuracy"] == pytest.approx(right.mean())
    assert table.loc["b", "accuracy_sd"] == pytest.approx(right.std())
    assert table.loc["b", ["accuracy_low", "accuracy_high"]].tolist() == pytest.approx(
        np.quantile(right, [0.1, 0.9])
    )
    low, high = table.loc["a", ["specificity_low", "specificity_high"]]
    assert (low, high) == pytest.approx(beta.ppf([0.1, 0.9], 8, 2), abs=0.02)
    share = held.prevalence(level=0.8)
    assert share.loc["no", "low"] == pytest.approx(np.quantile(shares[:, 0], 0.1))
    confusion = held.confusion_intervals(level=0.8)
    assert confusion.loc[("c", "yes", "no"), "high"] == pytest.approx(np.quantile(rows[:, 2, 1, 0], 0.9))


def dirichlet_result(between: bool = False) -> tuple[FitResult, np.ndarray]:
    """As vb returns it; with something between the site and the labels, where wanted."""
    stream = np.random.default_rng(1)
    concentration = stream.uniform(0.5, 9, (3, 2, 2))
    counts = np.array([4.0, 6.0])
    rows = stream.standard_gamma(concentration, (300, 3, 2, 2))
    rows = (rows / rows.sum(-1, keepdims=True)).astype(np.float32)
    rows = rows[:, :, ::-1] if between else rows
    shares = stream.dirichlet(counts, 300)
    sites = {
        "rates": SiteResult(
            "rates", ("annotator", "truth", "label"), "dirichlet", {"concentration": concentration}
        ),
        "share": SiteResult("share", ("class",), "dirichlet", {"concentration": counts}),
    }
    found = result(
        sites=sites, table=rows.mean(0), table_draws=rows, prevalence=shares.mean(0), prevalence_draws=shares
    )
    return found, concentration


def test_intervals_of_dirichlets_are_exact() -> None:
    found, c = dirichlet_result()
    estimate = intervals.confusion(found, 0.95)
    total = c.sum(-1, keepdims=True)
    np.testing.assert_allclose(estimate.mean, c / total)
    np.testing.assert_allclose(estimate.sd, beta.std(c, total - c))
    np.testing.assert_allclose(estimate.low, beta.ppf(0.025, c, total - c))
    np.testing.assert_allclose(estimate.high, beta.ppf(0.975, c, total - c))
    share = posterior(found, "vb").prevalence()
    assert share.loc["yes"].tolist() == pytest.approx([0.6, beta.std(6, 4), *beta.ppf([0.025, 0.975], 6, 4)])


def test_a_site_that_is_not_the_table_does_not_lend_its_intervals() -> None:
    found, _ = dirichlet_result(between=True)
    low = intervals.confusion(found, 0.95).low
    np.testing.assert_allclose(low, np.quantile(found.table_draws, 0.025, axis=0), rtol=1e-6)


@pytest.mark.parametrize("level", [0, 1, 95, -0.5])
def test_a_level_is_a_probability(level: float) -> None:
    held = posterior(dirichlet_result()[0], "vb")
    for ask in (held.annotators, held.prevalence, held.confusion_intervals, held.truth):
        with pytest.raises(MethodError, match="level"):
            ask(level=level)


def test_confusion_is_labelled() -> None:
    array = posterior().confusion()
    assert array.dims == ("annotator", "truth", "label")
    assert float(array.sel(annotator="b", truth="no", label="yes")) == pytest.approx(0.2)
    with pytest.raises(MethodError, match="em found a point"):
        posterior().confusion(draws=True)
    found, _ = dirichlet_result()
    drawn = posterior(found, "vb").confusion(draws=True)
    assert drawn.dims == ("draw", "annotator", "truth", "label")
    np.testing.assert_allclose(drawn.sum("label"), 1, rtol=1e-5)


def test_abstentions_are_labels_of_the_confusion_and_no_votes() -> None:
    table = np.array([[[0.6, 0.2, 0.2], [0.3, 0.5, 0.2]]] * 3)
    said = [*LABELS[:-1], "pass"]
    unsure = Annotations.from_arrays(ITEMS, ANNOTATORS, said, abstentions=["pass"])
    held = Posterior(Handmade(), "handmade", "em", unsure, result(table=table))
    assert list(held.confusion()["label"].values) == ["no", "yes", "pass"]
    assert list(held.confusion()["truth"].values) == ["no", "yes"]
    assert held.labels()["votes"].tolist() == [3, 2, 2]
    assert held.annotators()["labels"].tolist() == [3, 3, 2]
    assert held.annotators()["accuracy"].to_numpy() == pytest.approx(np.full(3, 0.25 * 0.6 + 0.75 * 0.5))


def test_summary_and_diagnostics() -> None:
    text = posterior().summary()
    for part in (
        "handmade by em",
        "8 labels of 3 items by 3 annotators",
        "converged, 3 iterations",
        "1 tied",
        "a  ",
    ):
        assert part in text
    assert "nan" not in text.lower()
    noisy = {"converged": False, "rhat": {"a": 1.01, "b": 1.3}, "ess_bulk": {"a": 40.0}, "divergences": {"0": 2}}
    text = posterior(result(diagnostics=noisy | {"warnings": ["chains disagree"]}), "nuts").summary()
    for part in ("NOT CONVERGED", "R-hat 1.300", "ESS 40", "2 divergences", "warning: chains disagree"):
        assert part in text
    copy = posterior().diagnostics()
    copy["converged"] = None
    assert posterior().diagnostics()["converged"] is True


class Pretend:
    """Engines that remember what they were asked."""

    def predict(self, posterior: Posterior, data: Annotations) -> np.ndarray:
        self.data = data
        return np.tile([0.5, 0.5], (data.n_items, 1))

    def draw_labels(self, posterior: Posterior, n: int, seed: int, kind: str) -> np.ndarray:
        cells = np.concatenate([block.bags.cells.numpy() for block in posterior.data.blocks])
        return np.tile(cells % 2, (n, 1))

    def update(self, posterior: Posterior, data: Annotations, **options: Any) -> Posterior:
        self.data, self.options = data, options
        return posterior


def test_new_data_get_the_codes_of_the_old() -> None:
    engines = Pretend()
    held = Posterior(Handmade(), "handmade", "vb", data(), result(), refit=engines)
    table = held.predict(pd.DataFrame({"item": ["n1", "n2"], "worker": ["c", "c"], "answer": ["yes", "yes"]}))
    assert list(table.index) == ["n1", "n2"]
    assert list(table.columns) == ["no", "yes"]
    assert list(engines.data.annotators) == ["a", "b", "c"]
    held.predict(Annotations.from_arrays([1, 1], ["b", "c"], ["yes", "no"]))
    assert list(engines.data.annotators) == ["a", "b", "c"]
    with pytest.raises(DataError, match="'z'"):
        held.predict(pd.DataFrame({"item": [1], "worker": ["z"], "answer": ["yes"]}))
    with pytest.raises(DataError, match="'maybe'"):
        held.predict(pd.DataFrame({"item": [1], "worker": ["a"], "answer": ["maybe"]}))
    assert held.update(data(), seed=3) is held
    assert engines.options == {"seed": 3}
    with pytest.raises(MethodError, match="'em'"):
        posterior().update(data())


def test_drawn_labels_stand_as_the_rows_of_the_data() -> None:
    held = Posterior(Handmade(), "handmade", "vb", data(), result(), refit=Pretend())
    drawn = held.draw_labels(n=2)
    assert drawn["draw"].tolist() == [0] * 8 + [1] * 8
    for number in (0, 1):
        rows = drawn[drawn["draw"] == number].drop(columns="draw").reset_index(drop=True)
        pd.testing.assert_frame_equal(rows, held.data.frame())
    for wrong in ({"kind": "both"}, {"n": 0}):
        with pytest.raises(MethodError, match="kind"):
            held.draw_labels(**wrong)


@pytest.fixture(scope="module")
def fits() -> dict[str, Posterior]:
    """Dawid & Skene's anaesthetists by an engine of each sort."""
    patients = anaesthetists()
    how = {"em": ("dawid_skene", {}), "vb": ("bayesian_dawid_skene", {}), "glad": ("glad", {"inference": "vb"})}
    how["gibbs"] = ("bayesian_dawid_skene", {"draws": 50, "warmup": 50})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: fit(method, patients, **({"inference": name} | more)) for name, (method, more) in how.items()}


def group(exported: Any, name: str) -> Any:
    """A group of either generation of ArviZ."""
    return exported[name].dataset if hasattr(exported[name], "dataset") else exported[name]


def test_maximum_likelihood_of_1979(fits: dict[str, Posterior]) -> None:
    np.testing.assert_allclose(fits["em"].prevalence()["mean"], [0.40, 0.42, 0.11, 0.07], atol=0.005)
    assert fits["em"].diagnostics()["objective"] == pytest.approx(-190.731, abs=5e-4)


def test_arviz_gets_the_draws_with_their_names(fits: dict[str, Posterior]) -> None:
    exported = fits["gibbs"].to_arviz()
    draws = group(exported, "posterior")
    assert draws["confusion"].dims == ("chain", "draw", "annotator", "truth", "label")
    np.testing.assert_array_equal(
        draws["confusion"].values, fits["gibbs"].result.sites["confusion"].arrays["draws"]
    )
    assert list(draws["confusion"]["annotator"].values) == ["1", "2", "3", "4", "5"]
    assert list(draws["prevalence"]["class"].values) == list(fits["gibbs"].data.classes)
    shares = group(exported, "constant_data")["truth_probability"]
    np.testing.assert_array_equal(shares.values, fits["gibbs"].result.probabilities)


def test_arviz_gets_draws_of_families(fits: dict[str, Posterior]) -> None:
    draws = group(fits["vb"].to_arviz(draws=4000, seed=1), "posterior")["confusion"]
    site = fits["vb"].result.sites["confusion"]
    c = site.arrays["concentration"]
    sd = beta.std(c, c.sum(-1, keepdims=True) - c)
    np.testing.assert_allclose(draws.mean(("chain", "draw")), site.mean, atol=5 * sd.max() / np.sqrt(4000))
    np.testing.assert_allclose(draws.std(("chain", "draw")), sd, rtol=0.15, atol=1e-3)
    again = group(fits["vb"].to_arviz(draws=4000, seed=1), "posterior")["confusion"]
    np.testing.assert_array_equal(draws.values, again.values)
    ability = group(fits["glad"].to_arviz(draws=4000), "posterior")["ability"]
    stored = fits["glad"].result.sites["ability"].arrays
    np.testing.assert_allclose(ability.std(("chain", "draw")), stored["scale"], rtol=0.1)


def test_arviz_is_refused_points(fits: dict[str, Posterior]) -> None:
    with pytest.raises(MethodError, match="em found points"):
        fits["em"].to_arviz()


def test_a_dimension_that_means_two_sizes_gets_two_names() -> None:
    sites = [
        SiteResult("full", ("annotator", "label"), "draws", {"draws": np.zeros((2, 3, 3, 2))}),
        SiteResult("some", ("annotator", "label"), "draws", {"draws": np.zeros((2, 3, 2, 1))}),
        SiteResult("other", ("kind",), "draws", {"draws": np.zeros((2, 3, 4))}),
        SiteResult("more", ("kind",), "draws", {"draws": np.zeros((2, 3, 5))}),
    ]
    exported = posterior(result(sites={site.name: site for site in sites}), "gibbs").to_arviz()
    dims = {name: array.dims[2:] for name, array in group(exported, "posterior").data_vars.items()}
    assert dims["full"] == ("annotator", "label")
    assert dims["some"] == ("annotator_2", "label_1")
    assert dims["other"] == ("kind",)
    assert dims["more"] == ("kind_5",)


@pytest.mark.parametrize("engine", ["em", "vb", "gibbs", "glad"])
def test_a_loaded_posterior_answers_as_the_saved_one(
    engine: str, fits: dict[str, Posterior], tmp_path: Path
) -> None:
    held = fits[engine]
    held.save(tmp_path)
    found = load(tmp_path)
    pd.testing.assert_frame_equal(found.annotators(), held.annotators())
    pd.testing.assert_frame_equal(found.probabilities(sd=True), held.probabilities(sd=True))
    assert found.diagnostics() == held.diagnostics()
    some = held.data.frame().query("item <= 10")
    pd.testing.assert_frame_equal(found.predict(some), held.predict(some))
    pd.testing.assert_frame_equal(found.draw_labels(2, seed=1), held.draw_labels(2, seed=1))


def test_gaussian_sites_are_exported_in_their_own_space() -> None:
    posterior = fit("hierarchical_dawid_skene", crowd(), inference="vb", max_iterations=30)
    drawn = group(posterior.to_arviz(draws=4000), "posterior")
    for name in ("crowd", "concentration"):
        x, mean = drawn[name].to_numpy(), posterior.result.sites[name].mean
        assert (x > 0).all()
        np.testing.assert_allclose(x.mean((0, 1)), mean, atol=4 * x.std() / 4000**0.5 + 0.03 * np.abs(mean).max())
    np.testing.assert_allclose(drawn["crowd"].sum("label"), 1)
    odd = SiteResult("odd", ("item",), "normal", {"loc": np.zeros(3), "scale": np.ones(3), "mean": np.ones(3)})
    assert odd.constrained(np.zeros(3)) is None


@pytest.mark.parametrize("engine", ["vb", "gibbs"])
def test_entropy_falls_apart_into_what_labels_and_what_annotators_leave_open(engine: str) -> None:
    few, many = crowd(n_items=30, seed=2), crowd(n_items=3000, seed=2)
    parts = [fit("bayesian_dawid_skene", x, inference=engine, **SHORT[engine]).entropy() for x in (few, many)]
    for table in parts:
        np.testing.assert_allclose(table["total"], table["aleatoric"] + table["epistemic"], atol=1e-12)
        assert (table >= 0).all(axis=None)
    share = [table["epistemic"].mean() / table["total"].mean() for table in parts]
    assert share[1] < 0.02 < share[0]  # annotators who gave 2,000 labels are known, those who gave 20 are not
    point = fit("bayesian_dawid_skene", few, inference="em", settings={"mass": 9.0}).entropy()
    assert point["epistemic"].isna().all()
    np.testing.assert_array_equal(point["total"], point["aleatoric"])


def test_entropies_are_those_of_the_draws() -> None:
    """From draws of the tables by hand: Bayes' rule draw by draw."""
    labels = crowd(n_items=25)
    posterior = fit("bayesian_dawid_skene", labels, inference="gibbs", chains=4, draws=50, warmup=20)
    rows, result = labels.frame(), posterior.result
    p = np.log(result.prevalence_draws)[:, None, :].repeat(25, 1)
    for item, annotator, answer in zip(rows["item"], rows["annotator"], rows["label"], strict=True):
        p[:, item] += np.log(result.table_draws[:, annotator, :, answer])
    p = np.exp(p - p.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    own = -(p * np.log2(np.clip(p, 1e-300, 1))).sum(-1).mean(0)
    mean = p.mean(0)
    total = -(mean * np.log2(mean)).sum(-1)
    np.testing.assert_allclose(posterior.entropy()["aleatoric"], own, atol=1e-5)
    np.testing.assert_allclose(posterior.entropy()["total"], total, atol=1e-5)


def test_a_fit_without_annotators_is_one_of_the_other_labels() -> None:
    every = crowd(n_items=120)
    whole = fit("bayesian_dawid_skene", every, inference="vb", tolerance=1e-12)
    found = whole.without([0, 3])
    rows = every.frame()
    rest = rows[~rows["annotator"].isin([0, 3])]
    alone = Annotations.from_frame(rest, classes=[0, 1, 2], items=range(120), annotators=range(6))
    wanted = fit("bayesian_dawid_skene", alone, inference="vb", tolerance=1e-12)
    np.testing.assert_allclose(found.probabilities(), wanted.probabilities(), atol=1e-4)
    assert found.data.n_labels == len(rest) and found.annotators()["labels"].loc[[0, 3]].tolist() == [0, 0]
    assert whole.data.n_labels == len(rows)
    with pytest.raises(DataError, match="77"):
        whole.without([77])
    with pytest.raises(DataError, match="no label is left"):
        whole.without(range(6))


def test_new_annotations_bring_items_without_labels_and_gold_along() -> None:
    posterior = fit("one_coin", crowd(), inference="em")
    options: dict[str, Any] = {"classes": [2, 1, 0], "items": [2, 1, 9], "gold": {9: 1}}
    new = Annotations.from_arrays([1, 1, 2], [0, 3, 2], [0, 1, 2], **options)
    found = posterior.predict(new)
    assert sorted(found.index) == [1, 2, 9] and found.loc[9].tolist() == [0, 1, 0]
    assert found.columns.tolist() == [0, 1, 2]


def test_a_design_is_refused_where_labels_are_needed() -> None:
    design = random_design(4, 6, 2, classes=[0, 1, 2])
    with pytest.raises(DataError, match="design of 8 labels"):
        fit("one_coin", design, inference="em")
    with pytest.raises(DataError, match="design of 8 labels"):
        fit("one_coin", crowd(), inference="em").predict(design)


def test_items_that_were_fitted_are_predicted_as_fitted(fits: dict[str, Posterior]) -> None:
    for engine, atol in (("em", 1e-5), ("vb", 1e-5), ("gibbs", 0.12)):
        held = fits[engine]
        predicted = held.predict(held.data.frame())
        np.testing.assert_allclose(predicted, held.probabilities(), atol=atol)


def test_replicated_labels_look_like_the_labels(fits: dict[str, Posterior]) -> None:
    held = fits["vb"]
    given = held.data.frame()["label"].to_numpy()

    def agreement(kind: str) -> float:
        drawn = held.draw_labels(20, seed=0, kind=kind)["label"].to_numpy().reshape(20, -1)
        return float((drawn == given).mean())

    expected = np.mean(held.annotators()["accuracy"] ** 2)
    assert agreement("posterior") > expected - 0.1
    assert agreement("prior") < 0.45


def test_updating_in_two_halves_is_nearly_one_fit(fits: dict[str, Posterior]) -> None:
    rows = fits["vb"].data.frame()
    first = Annotations.from_frame(rows.query("item <= 30"))
    held = fit("bayesian_dawid_skene", first, inference="vb").update(rows.query("item > 30"))
    assert list(held.data.items) == list(range(31, 46))
    expected = fits["vb"].annotators()
    assert (held.annotators()["accuracy"] - expected["accuracy"]).abs().max() < 0.05
    whole = fits["vb"].result.sites["confusion"].arrays["concentration"].sum()
    assert held.result.sites["confusion"].arrays["concentration"].sum() == pytest.approx(whole, rel=1e-6)
