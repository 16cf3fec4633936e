"""Counts: Poisson annotators against sums, sampling from the prior, simulation, and what they refuse."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import gammaln

import crowdppl
from crowdppl import Annotations
from crowdppl.data.split import keep
from crowdppl.errors import DataError, MethodError
from crowdppl.inference.vb.coordinate_ascent import EM, VB
from crowdppl.inference.vb.fit import run_starts
from crowdppl.testing import rank_check
from tests.crowd import double, problem_of

ROWS = [("x", "ann", 3), ("x", "bob", 6), ("y", "ann", 0), ("y", "bob", 2), ("y", "cy", 1), ("z", "cy", 9)]
ITEMS, PEOPLE = list("xyz"), ["ann", "bob", "cy"]
SHAPE, MEAN, STRENGTH = 2.0, 4.0, 6.0


def method(**settings: Any) -> Any:
    return crowdppl.method(
        "poisson_annotators", **{"shape": SHAPE, "mean": MEAN, "gain_strength": STRENGTH, **settings}
    )


def frame(rows: Any = ROWS) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["item", "annotator", "label"])


def counts(rows: Any = ROWS, **options: Any) -> Annotations:
    return Annotations.from_frame(frame(rows), kind="count", **options)


def drawn(n_items: int = 150, seed: int = 0) -> Any:
    item = np.repeat(np.arange(n_items), 4)
    who = np.stack([np.random.default_rng(seed + i).permutation(6)[:4] for i in range(n_items)]).ravel()
    return crowdppl.simulate(method(), Annotations.design(item, who, kind="count"), seed=seed)


def log_evidence(rate: Any, gain: Any) -> Any:
    """Log-probability of ``ROWS`` by the closed form, at rates (n,) and gains (n, 3)."""
    total = 0.0
    for item in ITEMS:
        mine = [(PEOPLE.index(a), y) for i, a, y in ROWS if i == item]
        count, exposure = SHAPE + sum(y for _, y in mine), rate + sum(gain[..., a] for a, _ in mine)
        total = total + sum(y * np.log(gain[..., a]) - gammaln(y + 1) for a, y in mine)
        total = total + gammaln(count) - count * np.log(exposure) + SHAPE * np.log(rate) - gammaln(SHAPE)
    return total


@pytest.fixture(scope="module")
def wanted() -> dict[str, np.ndarray]:
    """Posterior means, truths' squares and the evidence by importance sampling from the prior, for ``ROWS``."""
    rng, n = np.random.default_rng(0), 400_000
    rate, gain = rng.gamma(1, SHAPE / MEAN, n), rng.gamma(STRENGTH, 1 / STRENGTH, (n, 3))
    log_w = log_evidence(rate, gain)
    w = np.exp(log_w - log_w.max())
    evidence, w = log_w.max() + np.log(w.mean()), w / w.sum()
    moments = []
    for item in ITEMS:
        mine = [(PEOPLE.index(a), y) for i, a, y in ROWS if i == item]
        count, exposure = SHAPE + sum(y for _, y in mine), rate + sum(gain[:, a] for a, _ in mine)
        moments.append((w @ (count / exposure), w @ (count * (count + 1) / exposure**2)))
    first, second = np.array(moments).T
    return {
        "gain": w @ gain,
        "rate": w @ rate,
        "mean": first,
        "sd": np.sqrt(second - first**2),
        "evidence": evidence,
    }


def test_the_integral_over_a_rate_is_a_sum_over_a_grid() -> None:
    """At em's points: labels given a truth are Poisson, truths a Gamma; and so is the evidence used here."""
    found = crowdppl.fit(method(), counts(), inference="em", seed=0)
    rate, gain = (found.result.sites[name].mean for name in ("rate", "gain"))
    grid, total = np.linspace(1e-6, 60, 60_001), 0.0
    for item in ITEMS:
        density = stats.gamma(SHAPE, scale=1 / rate).pdf(grid)
        for _, who, y in (row for row in ROWS if row[0] == item):
            density = density * stats.poisson(grid * gain[PEOPLE.index(who)]).pmf(y)
        total += np.log(density.sum() * (grid[1] - grid[0]))
        mean = (density @ grid) / density.sum()
        sd = np.sqrt((density @ grid**2) / density.sum() - mean**2)
        assert found.truth().loc[item, ["estimate", "sd"]].tolist() == pytest.approx([mean, sd], rel=1e-4)
    assert log_evidence(rate, gain) == pytest.approx(total, abs=1e-5)


def test_gibbs_has_the_exact_posterior(wanted: dict[str, np.ndarray]) -> None:
    found = crowdppl.fit(method(), counts(), inference="gibbs", chains=96, draws=75, warmup=40, seed=0)
    for name in ("gain", "rate"):
        means = found.result.sites[name].arrays["draws"].mean(1)
        error = means.std(0, ddof=1) / 96**0.5
        assert (np.abs(means.mean(0) - wanted[name]) <= 4.3 * error + 0.003).all()
    table = found.truth()
    np.testing.assert_allclose(table["estimate"], wanted["mean"], rtol=0.015)
    np.testing.assert_allclose(table["sd"], wanted["sd"], rtol=0.03)


def test_vb_never_falls_and_bounds_the_evidence_and_em_climbs(wanted: dict[str, np.ndarray]) -> None:
    for engine in (VB, EM):
        with double():
            (run,) = run_starts(problem_of(method(), counts(), tolerance=1e-13, max_iterations=300), engine)
        x = np.array(run.progress.objectives)
        assert np.diff(x).min() >= -1e-9 * np.abs(x).max()
        if engine is VB:
            assert wanted["evidence"] - 1 < x[-1] < wanted["evidence"]


SLOW = [pytest.param(engine, marks=pytest.mark.slow) for engine in ("laplace", "nuts")]


@pytest.mark.parametrize("engine", ["em", "vb", "gibbs", *SLOW])
def test_rates_are_recovered_scored_saved_and_drawn_again(engine: str, tmp_path: Path) -> None:
    """Known truths of some items tell how many annotators count on average, which labels cannot tell."""
    found, short = (
        drawn(180, seed=2),
        {"chains": 2, "draws": 50, "warmup": 30} if engine in ("gibbs", "nuts") else {},
    )
    known, rest = found.truth[:30].to_dict(), found.truth[30:]
    posterior = crowdppl.fit(method(), found.data, gold=known, inference=engine, seed=0, **short)
    scores = crowdppl.evaluate(posterior, rest)
    plain = found.data.frame().groupby("item")["label"].mean() - rest
    assert scores.rmse < 0.9 * np.sqrt((plain**2).mean())
    assert abs(scores.coverage - 0.95) < 0.07  # 150 items: 3.9 standard errors
    assert (scores.intervals()["low"] <= scores.intervals()["high"]).all()
    gains = posterior.annotators()["gain"]
    assert np.corrcoef(gains, found.parameters["gain"])[0, 1] > 0.9
    posterior.save(tmp_path / "rates")
    again = crowdppl.load(tmp_path / "rates")
    pd.testing.assert_frame_equal(again.truth(), posterior.truth())
    pd.testing.assert_frame_equal(again.data.frame(), found.data.frame())
    assert "180 items" in posterior.summary()
    drawn_again = posterior.draw_labels(30, seed=0)
    assert ((drawn_again["label"] >= 0) & (drawn_again["label"] % 1 == 0)).all()
    means = drawn_again.groupby("item")["label"].mean()
    assert np.corrcoef(means, posterior.truth()["estimate"])[0, 1] > 0.95


def test_shape_and_mean_are_found_in_labels() -> None:
    rng = np.random.default_rng(0)
    truth = rng.gamma(4.0, 5.0, 600)
    labels = rng.poisson(truth[:, None] * np.array([1.1, 0.9, 1.0]))
    data = Annotations.from_matrix(labels, kind="count")
    model: Any = crowdppl.fit("poisson_annotators", data, inference="em", seed=0).model
    assert model.mean == pytest.approx(labels.mean()) and model.shape == pytest.approx(4.0, rel=0.15)
    alone = crowdppl.fit("poisson_annotators", counts([("x", "ann", 3), ("y", "bob", 0)]), inference="vb", seed=0)
    assert np.isfinite(alone.truth()[["estimate", "sd"]]).all(axis=None)
    empty = crowdppl.fit("poisson_annotators", counts([("x", "ann", 0), ("x", "bob", 0)]), inference="vb", seed=0)
    assert 0 < empty.truth().loc["x", "estimate"] < 1


def test_known_counts_tell_gains_that_all_share() -> None:
    """Where all truths are known, a gain has the conjugate posterior of a rate of Poisson counts."""
    rng = np.random.default_rng(0)
    truth = {f"i{n}": float(x) for n, x in enumerate(rng.poisson(20, 40))} | {"none": 0.0}
    rows = [(i, a, int(rng.poisson(0.7 * x))) for i, x in truth.items() for a in ("ann", "bob")]
    found = crowdppl.fit(method(), counts(rows, gold=truth), inference="vb", seed=0)
    given = frame(rows).groupby("annotator")["label"].sum()
    known = sum(max(x, 0.01) for x in truth.values())
    np.testing.assert_allclose(found.annotators()["gain"], (STRENGTH + given) / (STRENGTH + known), rtol=1e-6)
    np.testing.assert_array_equal(found.truth()["estimate"], pd.Series(truth)[found.data.items])
    some = dict(list(truth.items())[:20])
    rest = {item: x for item, x in truth.items() if item not in some}
    for engine in ("em", "gibbs"):
        short: dict[str, Any] = {"chains": 2, "draws": 60, "warmup": 30} if engine == "gibbs" else {}
        blind, told = (
            crowdppl.fit(method(), counts(rows, gold=gold), inference=engine, seed=0, **short)
            for gold in (None, some)
        )
        bias = [crowdppl.evaluate(fit, rest).bias for fit in (blind, told)]
        assert bias[0] < -2 and abs(bias[1]) < 1.5
    with pytest.raises(DataError, match="'i0'"):
        counts(rows, gold={"i0": -3})


def test_held_out_counts_are_scored() -> None:
    """The score is the mean log-probability of a count: where gains differ it is above that of gains near 1."""
    data = drawn().data
    scores = [
        crowdppl.heldout_score(m, data, folds=3, inference="vb", seed=0)
        for m in (method(), method(gain_strength=1e6))
    ]
    assert scores[0].per_label > scores[1].per_label
    assert -4 < scores[0].per_label < -1


def test_scores_agreement_and_checks_know_counts() -> None:
    rng = np.random.default_rng(3)
    truth = rng.gamma(2.0, 8.0, 80)
    exact = rng.poisson(truth[:, None] * np.ones(4))
    bursts = rng.poisson(truth[:, None] * rng.gamma(2.0, 0.5, (80, 4)))  # scatter more than Poisson's
    p_values = []
    for labels in (exact, bursts):
        data = Annotations.from_matrix(labels, kind="count")
        fit = crowdppl.fit("poisson_annotators", data, inference="em", seed=0)
        p_values.append(crowdppl.predictive_check(fit, draws=39, seed=0).table["p_value"])
    assert p_values[0].min() > 0.02 and p_values[1]["within_items"] <= 0.05
    scores = crowdppl.evaluate(fit, dict(enumerate(truth)))
    error = (fit.truth()["estimate"] - truth).to_numpy()
    assert scores.mae == pytest.approx(np.abs(error).mean()) and scores.rmse == pytest.approx(
        (error**2).mean() ** 0.5
    )
    assert crowdppl.agreement_table(data, bootstrap=0).index.tolist() == ["krippendorff_interval"]


def test_labels_stay_with_their_rows() -> None:
    rows = [(f"i{n % 7}", f"a{n % 3}", n) for n in range(40)]
    whole = counts(rows)
    pd.testing.assert_frame_equal(
        whole.frame().sort_values("label", ignore_index=True), frame(rows), check_dtype=False
    )
    half = whole.frame()["label"].to_numpy() % 2 == 0
    block = keep(whole, half).as_block()
    sides = zip(whole.order[block.item].tolist(), block.annotator.tolist(), strict=True)
    pairs = {(whole.items[i], whole.annotators[a]) for i, a in sides}
    assert block.numbers is not None and sorted(block.numbers.tolist()) == list(range(0, 40, 2))
    assert pairs <= {(i, a) for i, a, n in rows if n % 2 == 0}
    again = Annotations.from_frame(whole.to_arrow(), kind="count")
    pd.testing.assert_frame_equal(again.frame(), whole.frame())


@pytest.mark.parametrize("label", [-1, 2.5, "many", None, float("inf"), 1e300])
def test_what_is_no_count_is_refused_with_its_place(label: Any) -> None:
    with pytest.raises(DataError, match="row 1"):
        counts([("x", "ann", 1), ("y", "bob", label)])


def test_a_count_of_minus_zero_is_shown_as_zero() -> None:
    assert str(counts([("x", "ann", -0.0), ("y", "ann", 3)]).frame()["label"].iloc[0]) == "0.0"


def test_a_next_count_tells_what_a_poisson_count_tells_of_a_gamma() -> None:
    """Mutual information by sums over counts and quantiles of the truth."""
    posterior = crowdppl.fit(method(), crowdppl.datasets.example("count"), inference="em", seed=0)
    found = posterior.suggest_labels(18, exclude_answered=False, per_item=3).set_index(["item", "annotator"])
    gain, counted = posterior.result.sites["gain"].mean, np.arange(300)
    for item, row in posterior.truth().iterrows():
        shape = (row["estimate"] / row["sd"]) ** 2
        truth = stats.gamma(shape, scale=row["estimate"] / shape).ppf((np.arange(1000) + 0.5) / 1000)
        for a, who in enumerate(posterior.data.annotators):
            p = stats.poisson(gain[a] * truth[:, None]).pmf(counted)
            exact = stats.entropy(p.mean(0), base=2) - stats.entropy(p, base=2, axis=1).mean()
            assert found.loc[(item, who), "information"] == pytest.approx(exact, rel=0.1)


def test_what_needs_classes_is_refused_by_name() -> None:
    posterior = crowdppl.fit(method(), counts(), inference="vb", seed=0)
    for ask in (
        posterior.labels,
        posterior.probabilities,
        posterior.confusion,
        posterior.decide,
        posterior.entropy,
    ):
        with pytest.raises(MethodError, match="number"):
            ask()
    with pytest.raises(DataError, match="numbers"):
        _ = counts().classes
    for name in ("dawid_skene", "gaussian_annotators"):
        with pytest.raises(MethodError, match="poisson_annotators"):
            crowdppl.fit(name, counts())
    with pytest.raises(MethodError, match="count"):
        crowdppl.fit(method(), crowdppl.anaesthetists())
    with pytest.raises(DataError, match="numbers"):
        counts(classes=[1, 2])
    assert crowdppl.fit("auto", counts(), seed=0).method == "poisson_annotators"


@pytest.mark.slow
def test_gibbs_is_calibrated() -> None:
    who = np.concatenate([np.random.default_rng(i).permutation(4)[:3] for i in range(8)])
    design = Annotations.design(np.repeat(np.arange(8), 3), who, kind="count")
    own: Any = {"first gain": lambda v: v["gain"][:, 0], "log rate": lambda v: np.log(v["rate"])}
    one_each: dict[str, Any] = {"chains": 99, "draws": 1, "warmup": 30}
    found = rank_check(method(), design, inference="gibbs", simulations=80, quantities=own, **one_each)
    assert found.table["p_value"].min() > 1e-4, found
    assert found.table["spread"].between(0.8, 1.2).all(), found  # of 80 uniform ranks, 4 standard deviations
