"""How wide vb's posteriors of annotators are: linear response against a dense matrix, gibbs, and simulation."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import betaln, digamma, polygamma, softmax
from scipy.stats import beta

import crowdppl
from crowdppl import Annotations
from crowdppl.core.intervals import from_dirichlet
from crowdppl.inference.loop import Progress
from crowdppl.inference.vb import collapsed, linear_response, short_chains
from crowdppl.posterior import Posterior

K = 3


def drawn(seed: int, n_items: int = 60, n_annotators: int = 6, each: int = 3, k: int = K) -> Any:
    design = crowdppl.random_design(n_items, n_annotators, each, classes=k, seed=seed)
    return crowdppl.simulate(crowdppl.method("bayesian_dawid_skene"), design, seed=seed)


def fitted(data: Annotations, method: str = "bayesian_dawid_skene", **more: Any) -> Posterior:
    return crowdppl.fit(method, data, inference="vb", seed=0, tolerance=1e-13, max_iterations=5000, **more)


def inverse_covariance(row: np.ndarray) -> np.ndarray:
    """Of log theta under a Dirichlet."""
    return np.asarray(np.linalg.inv(np.diag(polygamma(1, row)) - polygamma(1, row.sum())))


def dense(posterior: Posterior) -> np.ndarray:
    """What the variance of each row is multiplied by, by a matrix of all parameters."""
    data, sites = posterior.data, posterior.result.sites
    confusion, share = (sites[name].arrays["concentration"] for name in ("confusion", "prevalence"))
    n_annotators = len(confusion)
    size = n_annotators * K * K + K
    matrix = np.zeros((size, size))
    rows = [*confusion.reshape(-1, K), share]
    for start, row in zip(range(0, size, K), rows, strict=True):
        matrix[start : start + K, start : start + K] = inverse_covariance(row)
    at = {a: n for n, a in enumerate(data.annotators)}
    truth, log_share = np.arange(K), digamma(share)
    log_row = digamma(confusion) - digamma(confusion.sum(-1, keepdims=True))
    for _, labels in data.frame().groupby("item"):
        annotator, label = labels["annotator"].map(at).to_numpy(), labels["label"].to_numpy(int)
        q = softmax(log_share + log_row[annotator, :, label].sum(0))
        cells = (annotator * K + truth[:, None]) * K + label  # (truth, labels)
        seen = np.zeros((K, size))
        for k in truth:
            np.add.at(seen[k], [*cells[k], size - K + k], 1)
        matrix -= seen.T @ (np.diag(q) - np.outer(q, q)) @ seen
    covariance = np.linalg.inv(matrix)
    ratio = np.zeros(len(rows))
    for number, row in enumerate(rows):
        part = slice(number * K, number * K + K)
        moved = (np.eye(K) - (row / row.sum())[:, None]) / row.sum() @ inverse_covariance(row)
        own = moved @ np.linalg.inv(inverse_covariance(row)) @ moved.T
        ratio[number] = np.trace(moved @ covariance[part, part] @ moved.T) / np.trace(own)
    return ratio


def test_rows_are_as_wide_as_a_dense_matrix_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short_chains, "FACTORS", 0)
    monkeypatch.setattr(linear_response, "TOLERANCE", 1e-6)
    found = fitted(drawn(1).data)
    ratio = dense(found)
    rows = [found.result.sites[name] for name in ("confusion", "prevalence")]
    total = np.concatenate([x.arrays["concentration"].sum(-1).ravel() for x in rows])
    prior = np.array([4.0] * (len(total) - 1) + [10.0 * K])
    want = np.maximum((total + 1) / ratio - 1, prior) / total
    np.testing.assert_allclose(np.concatenate([np.ravel(x.weight()) for x in rows]), want, rtol=1e-3)
    assert want.min() < 0.8  # there is something to be found


def test_random_signs_find_nearly_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    data = drawn(2, 600, 30, 3).data
    exact, few = (np.empty(0),) * 2
    for most in (1000, 20):
        monkeypatch.setattr(linear_response, "PROBES", most)
        exact, few = few, fitted(data).result.sites["confusion"].weight()
    width = np.sqrt(exact / few)
    assert np.sqrt(np.mean((width - 1) ** 2)) < 0.1 and abs(width.mean() - 1) < 0.03
    assert np.sqrt(1 / exact).mean() > 1.1


@pytest.mark.slow
def test_annotators_with_many_labels_are_not_drowned_by_those_with_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four label all items, and eighty a dozen each, whose shares vary ten times as much."""
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=800)
    labels = []
    for item, code in enumerate(truth):
        for a in (*range(4), 4 + rng.choice(80)):
            labels.append((item, a, code if rng.random() < 0.6 else rng.integers(3)))
    data = Annotations.from_frame(pd.DataFrame(labels, columns=["item", "annotator", "label"]))
    weight = {}
    for most in (1_000, 40):  # the first is one for each share
        monkeypatch.setattr(linear_response, "PROBES", most)
        monkeypatch.setattr(linear_response, "LABELS", 10**9)
        weight[most] = fitted(data).result.sites["confusion"].weight()
    assert weight[40].size * 3 < 1_000
    assert np.abs(np.sqrt(weight[1_000] / weight[40])[:4] - 1).max() < 0.1


def test_short_of_the_fixed_point_widths_are_those_at_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the flat way of annotators who are hardly better than chance, some direction bends upwards."""
    monkeypatch.setattr(short_chains, "FACTORS", 0)
    monkeypatch.setattr(collapsed, "SWEEPS", 1)  # more would go most of the way
    seed = 2
    design = crowdppl.random_design(400, 10, 5, classes=3, seed=seed)
    model = crowdppl.method("bayesian_dawid_skene", prior_strength=10.0, prior_accuracy=0.5)
    data = crowdppl.simulate(model, design, seed=seed).data

    def weight(tolerance: float) -> np.ndarray:
        found = crowdppl.fit("bayesian_dawid_skene", data, inference="vb", tolerance=tolerance, max_iterations=3000)
        return np.asarray(found.result.sites["confusion"].weight())

    there, short = weight(1e-13), weight(1e-3)
    np.testing.assert_allclose(short, there, rtol=0.2)
    monkeypatch.setattr(linear_response, "iterate", lambda _, state, *__, **___: (state, Progress()))
    assert np.abs(np.sqrt(there / weight(1e-3)) - 1).max() > 0.5


def test_with_known_truths_nothing_is_left_out() -> None:
    crowd = drawn(3)
    rows = crowd.data.frame()
    known = Annotations.from_frame(rows, classes=range(K), gold=crowd.truth)
    for site in fitted(known).result.sites.values():
        np.testing.assert_allclose(site.weight(), 1, atol=1e-9)


@pytest.mark.slow
def test_standard_deviations_are_those_of_gibbs() -> None:
    data = drawn(4, 300, 8, 3).data
    exact = crowdppl.fit("bayesian_dawid_skene", data, inference="gibbs", seed=0, draws=500).confusion_intervals()
    found = fitted(data)
    alone = from_dirichlet(found.result.sites["confusion"].arrays["concentration"], 0.95)
    told, wide = exact["sd"].to_numpy(), found.confusion_intervals()["sd"].to_numpy()
    assert np.median(alone.sd.ravel() / told) < 0.85
    assert 0.92 < np.median(wide / told) < 1.05


@pytest.mark.slow
def test_intervals_hold_what_they_promise() -> None:
    hits: list[list[np.ndarray]] = [[], []]
    for seed in range(25):
        crowd = drawn(100 + seed, 150, 10)
        true = crowd.parameters["confusion"].diagonal(axis1=-2, axis2=-1)
        site = fitted(crowd.data).result.sites["confusion"]
        for held, c in zip(hits, (site.arrays["concentration"], site.spread), strict=True):
            right = c.diagonal(axis1=-2, axis2=-1)
            low, high = beta.ppf([[[0.05]], [[0.95]]], right, c.sum(-1) - right)
            held.append((low <= true) & (true <= high))
    before, after = (float(np.mean(x)) for x in hits)
    assert before < 0.85 and 0.86 < after < 0.95


def test_everything_that_says_how_sure_vb_is_says_it(tmp_path: Path) -> None:
    data = drawn(5).data
    found = fitted(data)
    site = found.result.sites["confusion"]
    np.testing.assert_allclose(site.spread.sum(-1), site.arrays["concentration"].sum(-1) * site.weight())
    np.testing.assert_allclose(site.mean, site.spread / site.spread.sum(-1, keepdims=True))
    n = site.spread.sum(-1, keepdims=True)
    sd = np.sqrt(site.mean * (1 - site.mean) / (n + 1))
    np.testing.assert_allclose(found.confusion_intervals()["sd"], sd.ravel(), rtol=1e-9)
    drawn_sd = found.result.table_draws.std(0)
    np.testing.assert_allclose(drawn_sd, sd, rtol=0.35)
    assert abs(np.median(drawn_sd / sd) - 1) < 0.05
    found.save(tmp_path)
    again = crowdppl.load(tmp_path)
    np.testing.assert_array_equal(again.confusion_intervals(), found.confusion_intervals())
    more = found.update(data.frame().assign(item=lambda rows: rows["item"] + 1000))
    assert (
        more.result.sites["confusion"].arrays["concentration"].sum(-1) > site.arrays["concentration"].sum(-1)
    ).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "settings"), [("bayesian_dawid_skene", {}), ("one_coin", {"right": 4.0, "wrong": 2.0})]
)
def test_an_update_knows_no_more_than_one_fit_of_all_labels(method: str, settings: dict[str, float]) -> None:
    model = crowdppl.method(method, **settings)
    width = []
    for seed in range(8):
        design = crowdppl.random_design(300, 10, 3, classes=2, seed=seed)
        rows = crowdppl.simulate(model, design, seed=seed).data.frame()
        early = rows["item"] < 280  # what follows is too little to narrow anything
        first, rest, whole = (
            Annotations.from_frame(x, classes=range(2)) for x in (rows[early], rows[~early], rows)
        )
        before = crowdppl.fit(model, first, inference="vb", seed=0)
        fits = before, before.update(rest), crowdppl.fit(model, whole, inference="vb", seed=0)
        width.append([x.annotators()["accuracy_sd"].mean() for x in fits])
    first_sd, updated, together = np.mean(width, 0)
    assert abs(updated / together - 1) < 0.05
    assert updated < first_sd


def test_rows_of_one_entry_and_of_very_many_labels() -> None:
    data = drawn(8).data
    one = crowdppl.fit("community", data, inference="vb", seed=0, settings={"communities": 1})
    sure = fitted(data, settings={"prevalence_strength": 1e13, "prior_strength": 1e13})
    for found in (one, sure):
        for site in found.result.sites.values():
            weight = site.weight()
            assert weight is None or (np.isfinite(weight).all() and (weight > 0).all() and (weight <= 1).all())
    np.testing.assert_allclose(sure.result.sites["confusion"].weight(), 1, atol=1e-6)


def test_rows_of_a_learned_prior_are_as_wide_as_quadrature_says() -> None:
    """With all truths known and two classes, a row's prior has two parameters: a grid is exact."""
    counts = np.array([[9, 1], [8, 2], [10, 0], [9, 1], [1, 0]])  # right, wrong: of either class
    rows = [
        (item, a, item % 2 if item // 2 < right else 1 - item % 2)
        for a, (right, wrong) in enumerate(counts)
        for item in range(2 * (right + wrong))
    ]
    data = Annotations.from_frame(
        pd.DataFrame(rows, columns=["item", "annotator", "label"]),
        classes=range(2),
        gold={i: i % 2 for i in range(20)},
    )
    site = fitted(data, "hierarchical_dawid_skene").result.sites["confusion"]
    crowd = (np.arange(400) + 0.5) / 400
    log_c = np.linspace(1 - 5, 1 + 5, 400)
    share, amount = crowd[:, None], np.exp(log_c)[None]
    log_p = beta.logpdf(share, 2.5, 0.5) - (log_c - 1) ** 2 / 2
    for right, wrong in counts:
        log_p = log_p + betaln(amount * share + right, amount * (1 - share) + wrong)
        log_p = log_p - betaln(amount * share, amount * (1 - share))
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    n = amount + counts.sum(-1)[:, None, None]
    mean = (amount * share + counts[:, 0, None, None]) / n
    first = (p * mean).sum((1, 2))
    exact = np.sqrt((p * (mean * (1 - mean) / (n + 1) + (mean - first[:, None, None]) ** 2)).sum((1, 2)))
    narrow, wide = (
        np.sqrt(site.mean[:, 0, 0] * site.mean[:, 0, 1] / (c[:, 0].sum(-1) + 1))
        for c in (site.parameter, site.spread)
    )
    before, after = (np.abs(x / exact - 1) for x in (narrow, wide))
    assert (after < before).all() and after.max() < 0.15 < before.max()


def test_with_few_labels_rows_are_as_wide_as_all_truths_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """The posterior of abilities is a mixture over the truths of six items, which can be listed."""
    labels = np.array([[2, 1, 2], [1, 1, 2], [0, 1, 2], [0, 0, 0], [0, 0, 0], [1, 1, 0]])
    rows = [(item, a, label) for item, row in enumerate(labels) for a, label in enumerate(row)]
    data = Annotations.from_frame(pd.DataFrame(rows, columns=["item", "annotator", "label"]), classes=range(K))
    hits = (np.array(list(np.ndindex(*(K,) * len(labels))))[:, :, None] == labels).sum(1)  # of all truths
    right, wrong = 2.0 + hits, 1.0 + len(labels) - hits
    log_p = (betaln(right, wrong) - (wrong - 1) * np.log(K - 1)).sum(1)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()

    def error() -> np.ndarray:
        site = fitted(data, "one_coin", settings={"right": 2.0, "wrong": 1.0}).result.sites["ability"]
        mean, n = site.mean[:, 0], site.spread.sum(-1)
        exact = p @ (beta(right, wrong).var() + (right / (right + wrong) - mean) ** 2)
        return np.asarray(np.sqrt(mean * (1 - mean) / (n + 1) / exact) - 1)

    assert np.abs(error()).max() < 0.05
    monkeypatch.setattr(short_chains, "FACTORS", 0)
    assert error().max() < 0


def comparisons(seed: int, labels: int = 60, objects: int = 8) -> Annotations:
    """A design: pairs of objects at random, in turn by four annotators."""
    rng = np.random.default_rng(seed)
    couples = (rng.permutation(objects)[:2] for _ in range(labels))
    rows = [(f"o{a}", f"o{b}", f"w{n % 4}", "left") for n, (a, b) in enumerate(couples)]
    return Annotations.from_frame(pd.DataFrame(rows, columns=["left", "right", "annotator", "winner"]), kind="pair")


def covariance(parameter: np.ndarray) -> np.ndarray:
    """Of u and exp(u), whose log-density is linear in u, exp(u) and u^2, by sums over a fine grid."""
    u = np.linspace(-12, 12, 100_001)
    log = parameter @ np.stack([u, np.exp(u), u**2])
    return np.cov(np.stack([u, np.exp(u)]), aweights=np.exp(log - log.max()), ddof=0)


def test_skills_are_as_wide_as_a_dense_matrix_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """The evidence of a comparison is log x of the better, less the log of the sum of both x."""
    monkeypatch.setattr(linear_response, "TOLERANCE", 1e-8)
    data = crowdppl.simulate("bradley_terry", comparisons(0, 30, 5), seed=0).data
    site = fitted(data, "bradley_terry").result.sites["skill"]
    n, mean = len(site.mean), site.mean
    matrix = np.zeros((2 * n, 2 * n))
    for o, row in enumerate(site.parameter):
        matrix[2 * o : 2 * o + 2, 2 * o : 2 * o + 2] = np.linalg.inv(covariance(row))
    pair = data.item_covariates
    for item in data.frame()["item"]:
        both = [pair[side].cat.codes[item] for side in ("left", "right")]
        for one in both:
            for other in both:
                matrix[2 * one + 1, 2 * other + 1] -= 1 / mean[both].sum() ** 2
    above = np.eye(n) - 1 / n
    independent = above @ np.diag([covariance(row)[0, 0] for row in site.spread]) @ above
    np.testing.assert_allclose(
        independent.diagonal(), (above @ np.linalg.inv(matrix)[::2, ::2] @ above).diagonal(), rtol=1e-4
    )
    assert (site.weight() < 0.95).all()


@pytest.mark.slow
@pytest.mark.parametrize(("method", "least"), [("bradley_terry", 0.79), ("crowd_bt", 0.73)])
def test_intervals_of_scores_hold_what_they_promise(method: str, least: float) -> None:
    """In 12 simulations, of .92 and .84 in a hundred others: less 3 standard errors."""
    design, hits = comparisons(0), []
    for seed in range(12):
        crowd = crowdppl.simulate(crowdppl.method(method, spread=1.0), design, seed=seed)
        true = pd.Series(np.log(crowd.parameters["skill"]), crowd.data.item_covariates["left"].cat.categories)
        fit = crowdppl.fit(method, crowd.data, inference="vb", settings={"spread": 1.0}, seed=0)
        table = fit.ranking(0.9)
        hits.append((true - true.mean())[table.index].between(table["low"], table["high"]).mean())
    assert least < np.mean(hits) < 0.97
