"""What a posterior says, against results made by hand and against closed forms."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import polars
import pytest
from scipy.integrate import quad
from scipy.special import expit, softmax
from scipy.stats import beta, lognorm, norm

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.errors import MethodError
from crowdppl.inference.result import FitResult, OnDemand, SiteResult, TableDraws, TruthSpread
from crowdppl.posterior import Posterior
from crowdppl.primitives.model import Card
from crowdppl.results import choices, intervals
from tests.class_result import changed
from tests.three_items import ANNOTATORS, ITEMS, LABELS, Handmade, posterior, result


def test_probabilities_have_items_and_classes_for_names() -> None:
    table = posterior().probabilities()
    assert (table.index.name, table.columns.name) == ("item", "class")
    assert list(table.index) == [7, 9, 10]
    assert list(table.columns) == ["no", "yes"]
    assert table.loc[10, "yes"] == 0.8
    assert posterior().probabilities(sd=True).isna().all(axis=None)
    sd = posterior(result(spread=OnDemand.of(TruthSpread(np.full((3, 2), 0.1), np.zeros((3, 2)))))).probabilities(
        sd=True
    )
    assert (sd == 0.1).all(axis=None)


def test_labels_by_hand() -> None:
    labels = posterior().labels()
    assert list(labels.columns) == ["label", "probability", "entropy", "votes", "tied"]
    assert labels.loc[7].tolist() == ["no", 1.0, 0.0, 3, False]
    assert labels.loc[9, "entropy"] == pytest.approx(1)
    assert labels.loc[10, "entropy"] == pytest.approx(-0.2 * np.log2(0.2) - 0.8 * np.log2(0.8))
    assert labels["votes"].tolist() == [3, 2, 3]
    assert labels["tied"].tolist() == [False, True, False]


def test_the_table_of_arrow_is_labels_and_probabilities() -> None:
    table = posterior().to_arrow()
    labels, p = posterior().labels(), posterior().probabilities().add_prefix("p(").add_suffix(")")
    assert table.to_pandas().equals(labels.join(p).reset_index())
    assert polars.DataFrame(table)["label"].to_list() == labels["label"].tolist()


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


def test_a_sum_of_probabilities_that_rounds_to_above_one_has_a_deviation() -> None:
    certain = np.array([[1 + 1e-12, 0.0], [0.5, 0.5], [0.0, 1 + 2.3e-16]])
    assert posterior(changed(result(), probabilities=certain)).truth()["sd"].tolist() == [0, 0.5, 0]


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


def test_intervals_from_draws_are_quantiles() -> None:
    stream = np.random.default_rng(0)
    rows = stream.dirichlet([8.0, 2.0], (2000, 3, 2)).astype(np.float32)
    shares = stream.dirichlet([2.0, 3.0], 2000)
    found = result(table=rows.mean(0), prevalence=shares.mean(0), draws=OnDemand.of(TableDraws(rows, shares)))
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


class Named(Handmade):
    """A model whose card names the sites that are the confusion and the prevalence."""

    card: ClassVar[Card] = Card(
        "Named",
        "nobody",
        sites={"rates": "A K K", "share": "K", "truth": "N"},
        confusion="rates",
        prevalence="share",
    )


def named(found: FitResult) -> Posterior:
    return replace(posterior(found, "vb"), model=Named())


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
        sites=sites, table=rows.mean(0), prevalence=shares.mean(0), draws=OnDemand.of(TableDraws(rows, shares))
    )
    return found, concentration


def test_intervals_of_dirichlets_are_exact() -> None:
    found, c = dirichlet_result()
    estimate = intervals.confusion(named(found), 0.95)
    total = c.sum(-1, keepdims=True)
    np.testing.assert_allclose(estimate.mean, c / total)
    np.testing.assert_allclose(estimate.sd, beta.std(c, total - c))
    np.testing.assert_allclose(estimate.low, beta.ppf(0.025, c, total - c))
    np.testing.assert_allclose(estimate.high, beta.ppf(0.975, c, total - c))
    share = named(found).prevalence()
    assert share.loc["yes"].tolist() == pytest.approx([0.6, beta.std(6, 4), *beta.ppf([0.025, 0.975], 6, 4)])


@pytest.mark.parametrize("support", ["real", "positive", "unit"])
def test_intervals_of_gaussians_are_those_of_what_they_become(support: str) -> None:
    loc, scale = np.array([-1.0, 0.5]), np.array([0.4, 1.5])
    arrays = {"loc": loc, "scale": scale, "mean": loc} | ({"unit": np.array(3.0)} if support == "real" else {})
    estimate = intervals.of_site(SiteResult("x", ("annotator",), "normal", arrays, support), 0.9)
    ends = norm.ppf([[0.05], [0.95]], loc, scale)
    if support == "real":
        low, high, mean, sd = *(3 * ends), 3 * loc, 3 * scale
    elif support == "positive":
        own = lognorm(scale, scale=np.exp(loc))
        low, high, mean, sd = *own.ppf([[0.05], [0.95]]), own.mean(), own.std()
    else:
        low, high = expit(ends)
        moments = [
            [quad(lambda u, k=k, m=m, s=s: expit(u) ** k * norm.pdf(u, m, s), -20, 20)[0] for k in (1, 2)]
            for m, s in zip(loc, scale, strict=True)
        ]
        mean, square = np.transpose(moments)
        sd = np.sqrt(square - mean**2)
    for found, wanted in zip(
        (estimate.low, estimate.high, estimate.mean, estimate.sd), (low, high, mean, sd), strict=True
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_intervals_of_shares_that_are_a_gaussian_are_those_of_its_draws() -> None:
    loc, scale = np.array([[0.0, 1.0, -1.0]]), np.array([[0.5, 0.2, 1.0]])
    drawn = softmax(loc[0] + scale[0] * np.random.default_rng(1).standard_normal((200_000, 3)), -1)
    arrays = {"loc": loc, "scale": scale, "mean": drawn.mean(0, keepdims=True)}
    estimate = intervals.of_site(SiteResult("x", ("annotator", "class"), "normal", arrays, "simplex"), 0.9)
    np.testing.assert_allclose(estimate.low[0], np.quantile(drawn, 0.05, axis=0), atol=0.02)
    np.testing.assert_allclose(estimate.high[0], np.quantile(drawn, 0.95, axis=0), atol=0.02)
    np.testing.assert_allclose(estimate.sd[0], drawn.std(0), rtol=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["robust_annotators", "rater_facets"])
def test_intervals_of_vb_are_about_those_of_nuts(method: str) -> None:
    """vb's have a width of their own: each overlaps that of nuts, and holds what nuts finds on average."""
    kind = "real" if method == "robust_annotators" else "ordinal"
    like = crowdppl.anaesthetists(kind)
    design = Annotations.design(np.repeat(np.arange(15), 5), list(like.annotators) * 15, like=like)
    data = crowdppl.simulate(method, design, seed=1).data
    one, two = (
        crowdppl.fit(method, data, inference=engine, seed=0, **how).annotators(0.9)
        for engine, how in (("vb", {}), ("nuts", {"chains": 1, "draws": 60, "warmup": 60}))
    )
    for name in (low.removesuffix("_low") for low in one if low.endswith("_low")):
        low, high = one[f"{name}_low"], one[f"{name}_high"]
        assert (low < two[f"{name}_high"]).all() and (high > two[f"{name}_low"]).all(), name
        assert ((low < two[name]) & (two[name] < high)).mean() >= 0.8, name


def test_means_of_vb_do_not_move_with_its_draws() -> None:
    found, c = dirichlet_result()
    table, share = c / c.sum(-1, keepdims=True), np.array([0.4, 0.6])
    found = changed(found, table=table, prevalence=share)
    wanted = table.diagonal(axis1=-2, axis2=-1) @ share
    np.testing.assert_allclose(intervals.accuracy(named(found), 0.95).mean, wanted, rtol=1e-12)
    assert np.abs(intervals.accuracy(named(found), 0.95).mean - draws_of_accuracy(found).mean(0)).min() > 1e-6
    between, _ = dirichlet_result(between=True)  # the table is none of the sites, and its mean is known
    between = changed(between, table=table[:, ::-1])
    np.testing.assert_allclose(intervals.confusion(posterior(between, "vb"), 0.95).mean, table[:, ::-1], rtol=1e-12)


@pytest.mark.parametrize("even", [False, True])
def test_accuracies_of_large_dirichlets_are_those_of_their_draws(
    even: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Standard deviations and ends of intervals to four standard errors of 40,000 draws (a Beta is near)."""
    found, c = dirichlet_result()
    stream, n = np.random.default_rng(0), 40_000
    share = np.full((n, 2), 0.5) if even else stream.dirichlet([4.0, 6.0], n)
    right = stream.beta(*(c.diagonal(axis1=-2, axis2=-1), c[:, :, ::-1].diagonal(axis1=-2, axis2=-1)), (n, 3, 2))
    drawn = np.einsum("dak,dk->da", right, share)
    table = c / c.sum(-1, keepdims=True)
    known = {name: site for name, site in found.sites.items() if name == "rates" or not even}
    found = changed(found, sites=known, table=table, prevalence=np.array([0.5, 0.5] if even else [0.4, 0.6]))
    monkeypatch.setattr(intervals, "LARGE_TABLE", 0)
    estimate = intervals.accuracy(named(found), 0.9)
    np.testing.assert_allclose(estimate.mean, table.diagonal(axis1=-2, axis2=-1) @ found.prevalence, rtol=1e-12)
    np.testing.assert_allclose(estimate.sd, drawn.std(0), rtol=4 / np.sqrt(2 * n))
    for end, q in ((estimate.low, 0.05), (estimate.high, 0.95)):
        np.testing.assert_allclose((drawn < end).mean(0), q, atol=0.012)


def test_a_mean_that_draws_contradict_is_theirs() -> None:
    """Where accuracy is not linear in the sites, as where prevalence and tables depend on each other."""
    found, _ = dirichlet_result()
    found = changed(found, table=found.table[:, ::-1])
    np.testing.assert_allclose(
        intervals.accuracy(named(found), 0.95).mean, draws_of_accuracy(found).mean(0), rtol=1e-6
    )


def draws_of_accuracy(found: FitResult) -> np.ndarray:
    assert found.table_draws is not None and found.prevalence_draws is not None
    right = found.table_draws.diagonal(axis1=-2, axis2=-1)
    return np.asarray(np.einsum("dak,dk->da", right, found.prevalence_draws))


def test_a_site_that_is_not_the_table_does_not_lend_its_intervals() -> None:
    found, _ = dirichlet_result(between=True)
    low = intervals.confusion(posterior(found, "vb"), 0.95).low
    np.testing.assert_allclose(low, np.quantile(found.table_draws, 0.025, axis=0), rtol=1e-6)


def test_confusion_is_labelled() -> None:
    array = posterior().confusion()
    assert array.dims == ("annotator", "truth", "label")
    assert float(array.sel(annotator="b", truth="no", label="yes")) == pytest.approx(0.2)
    with pytest.raises(MethodError, match="em"):
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
    seen = held.annotators().iloc[0]
    assert seen["accuracy"] == pytest.approx(0.25 * 0.6 / 0.8 + 0.75 * 0.5 / 0.8)
    assert seen["abstention"] == pytest.approx(0.2)
    assert (seen["sensitivity"], seen["specificity"]) == pytest.approx((0.5 / 0.8, 0.6 / 0.8))


def test_summary_and_diagnostics() -> None:
    text = posterior().summary()
    for part in ("handmade by em", "8 labels of 3 items by 3 annotators", "converged, 3 iterations", "1 tied"):
        assert part in text
    assert "nan" not in text.lower()
    noisy = {"converged": False, "rhat": {"a": 1.01, "b": 1.3}, "ess_bulk": {"a": 40.0}, "divergences": {"0": 2}}
    text = posterior(result(diagnostics=noisy | {"warnings": ["chains disagree"]}), "nuts").summary()
    for part in ("NOT CONVERGED", "R-hat 1.300", "ESS 40", "2 divergences", "warning: chains disagree"):
        assert part in text
    copy = posterior().diagnostics()
    copy["converged"] = None
    assert posterior().diagnostics()["converged"] is True
