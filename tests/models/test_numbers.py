"""The methods for labels that are numbers, against integrals, optimisers and each other."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

import crowdppl
from crowdppl import Annotations
from crowdppl.errors import DataError, MethodError
from crowdppl.evaluation.number_metrics import NumberEvaluation
from crowdppl.inference.vb.coordinate_ascent import EM, VB
from crowdppl.inference.vb.fit import run_starts
from crowdppl.results.truths import shared_variance
from tests.crowd import double, problem_of

ROWS = [
    ("x", "ann", 1.3),
    ("x", "bob", 2.1),
    ("y", "ann", 0.2),
    ("y", "bob", 1.2),
    ("z", "bob", 2.9),
    ("z", "ann", 2.0),
]
UNITS = ((1.5, 1.0),)


def numbers(rows: Any = ROWS) -> Annotations:
    return Annotations.from_frame(pd.DataFrame(rows, columns=["item", "annotator", "label"]), kind="real")


def gaussian(**settings: Any) -> Any:
    return crowdppl.method("gaussian_annotators", units=UNITS, **settings)


def log_labels(model: Any, mean: float, precision: float, bias: np.ndarray, tau: np.ndarray) -> float:
    """Log-density of ``ROWS`` with the consensus integrated out, as one Gaussian vector."""
    item, who, y = ("xyz".index, ["ann", "bob"].index, [row[2] for row in ROWS])
    i, a = np.array([item(row[0]) for row in ROWS]), np.array([who(row[1]) for row in ROWS])
    shared = (i[:, None] == i) / precision
    centre = model.units[0][0] + mean + bias[a]
    return float(stats.multivariate_normal(centre, shared + np.diag(1 / tau[a])).logpdf(y))


def log_prior(model: Any, mean: float, precision: float, bias: np.ndarray, tau: np.ndarray) -> float:
    scale, rate = model.units[0][1], model.strength * model.units[0][1] ** 2 / 4
    out = stats.gamma(1, scale=1 / scale**2).logpdf(precision) + stats.norm(0, (0.01 * precision) ** -0.5).logpdf(
        mean
    )
    out += stats.gamma(model.strength, scale=1 / rate).logpdf(tau).sum()
    return float(out + stats.norm(0, (model.bias_strength * tau) ** -0.5).logpdf(bias).sum())


def test_em_has_the_mode_of_the_posterior_and_climbs() -> None:
    model = gaussian()

    def loss(at: np.ndarray) -> float:
        values = at[0], np.exp(at[1]), at[2:4], np.exp(at[4:])
        return -log_labels(model, *values) - log_prior(model, *values)

    wanted = optimize.minimize(loss, np.zeros(6), tol=1e-12).x
    with double():
        problem = problem_of(model, numbers(), tolerance=1e-15, max_iterations=20_000)
        (run,) = run_starts(problem, EM)
        x = np.array(run.progress.objectives)
        found = {name: problem.sites[name].value(leaf).numpy() for name, leaf in run.state.parameters.items()}
    assert np.diff(x).min() >= -1e-9 * np.abs(x).max()
    np.testing.assert_allclose(
        found["error"], np.stack([wanted[2:4], np.exp(wanted[4:])], -1), rtol=1e-3, atol=1e-3
    )
    np.testing.assert_allclose(found["level"], [wanted[0], np.exp(wanted[1])], rtol=1e-3, atol=1e-3)


@pytest.fixture(scope="module")
def sampled() -> tuple[float, np.ndarray, np.ndarray]:
    """Evidence, and means of (bias, precision), by importance sampling from the prior; and the truths' moments."""
    model, rng, n = gaussian(), np.random.default_rng(0), 60_000
    precision, tau = rng.gamma(1, 1.0, n), rng.gamma(2.0, 1 / 0.5, (n, 2))
    mean, bias = rng.normal(size=n) / np.sqrt(0.01 * precision), rng.normal(size=(n, 2)) / np.sqrt(tau)
    log_w, truths = np.zeros(n), []
    for name in "xyz":
        y = np.array([next(row[2] for row in ROWS if row[:2] == (name, who)) for who in ("ann", "bob")]) - 1.5
        p = precision + tau.sum(1)
        h = precision * mean + (tau * (y - bias)).sum(1)
        c = np.log(precision) - precision * mean**2 + (np.log(tau) - tau * (y - bias) ** 2).sum(1)
        log_w += (c - 2 * np.log(2 * np.pi) + h**2 / p - np.log(p)) / 2
        truths.append((1.5 + h / p, 1 / p + model.shared * 2 / tau.sum(1)))
    w = np.exp(log_w - log_w.max())
    evidence, w = float(log_w.max() + np.log(w.mean())), w / w.sum()
    truth = np.array([[w @ m, np.sqrt(w @ (v + m**2) - (w @ m) ** 2)] for m, v in truths])
    return evidence, np.stack([w @ bias, w @ tau], -1), truth


def test_gibbs_has_the_posterior_of_importance_sampling(sampled: tuple[float, np.ndarray, np.ndarray]) -> None:
    found = crowdppl.fit(gaussian(), numbers(), inference="gibbs", chains=24, draws=100, warmup=40, seed=0)
    means = found.result.sites["error"].arrays["draws"].mean(1)
    error = means.std(0, ddof=1) / 24**0.5
    assert (np.abs(means.mean(0) - sampled[1]) <= 5 * error + 0.03).all()  # .03: of 60,000 draws of the prior
    np.testing.assert_allclose(found.truth()[["estimate", "sd"]], sampled[2], rtol=0.06)


@pytest.mark.parametrize("method", ["gaussian_annotators", "gain_annotators"])
def test_gibbs_moves_all_biases_against_all_truths(method: str) -> None:
    """Labels cannot tell a shift of all biases, which is as wide as their prior: 1 over the sum of precisions."""
    rng, (n, a) = np.random.default_rng(1), (400, 4)
    item, who = np.repeat(np.arange(n), a), np.tile(np.arange(a), n)
    precision = np.array([1.0, 2.0, 3.0, 4.0])
    labels = rng.normal(size=n)[item] + rng.normal(size=n * a) / np.sqrt(precision)[who]
    data = Annotations.from_arrays(item, who, labels, kind="real")
    found = crowdppl.fit(method, data, inference="gibbs", draws=120, warmup=60, seed=0)
    assert found.diagnostics()["rhat"]["error"] < 1.1
    sd = found.annotators()["bias_sd"]
    assert (sd > 0.8 / np.sqrt(precision.sum())).all()
    by_vb = crowdppl.fit(method, data, inference="vb", seed=0).annotators()["bias_sd"]
    np.testing.assert_allclose(by_vb, sd, rtol=0.2)
    known = crowdppl.fit(
        method, data, inference="gibbs", draws=30, warmup=20, seed=0, gold={k: labels[a * k] for k in range(n)}
    )
    assert (known.annotators()["bias_sd"] < 0.3 * sd).all()


def test_vb_never_falls_and_bounds_the_evidence(sampled: tuple[float, np.ndarray, np.ndarray]) -> None:
    with double():
        (run,) = run_starts(problem_of(gaussian(), numbers(), tolerance=1e-13, max_iterations=500), VB)
    x = np.array(run.progress.objectives)
    assert np.diff(x).min() >= -1e-9 * np.abs(x).max()
    assert sampled[0] - 2 < x[-1] < sampled[0] + 0.05


def test_a_shared_error_widens_truths_and_moves_nothing() -> None:
    wide, plain = (crowdppl.fit(gaussian(shared=s), numbers(), inference="em", seed=0) for s in (0.5, 1e-9))
    np.testing.assert_allclose(wide.truth()["estimate"], plain.truth()["estimate"], rtol=1e-9)
    tau = plain.annotators()["precision"].sum()
    np.testing.assert_allclose(wide.truth()["sd"] ** 2 - plain.truth()["sd"] ** 2, 0.5 * 2 / tau, rtol=1e-6)


def drawn(n_items: int = 150, seed: int = 0, **settings: Any) -> Any:
    item = np.repeat(np.arange(n_items), 4)
    who = np.stack([np.random.default_rng(seed + i).permutation(6)[:4] for i in range(n_items)]).ravel()
    design = Annotations.design(item, who, kind="real")
    return crowdppl.simulate(
        crowdppl.method("gaussian_annotators", units=((50.0, 10.0),), **settings), design, seed=seed
    )


@pytest.mark.parametrize("engine", ["em", "vb", "gibbs"])
def test_a_simulated_crowd_is_recovered_scored_saved_and_drawn_again(engine: str, tmp_path: Path) -> None:
    found, short = drawn(), {"chains": 2, "draws": 60, "warmup": 30} if engine == "gibbs" else {}
    posterior = crowdppl.fit("gaussian_annotators", found.data, inference=engine, seed=0, **short)
    scores = crowdppl.evaluate(posterior, found.truth)
    assert isinstance(scores, NumberEvaluation)
    plain = found.data.frame().groupby("item")["label"].mean() - found.truth
    assert scores.rmse < np.sqrt((plain**2).mean()) and scores.coverage > 0.88  # .95 less 4 standard errors of 150
    assert np.corrcoef(posterior.annotators()["bias"], found.parameters["error"][:, 0])[0, 1] > 0.9
    posterior.save(tmp_path / "found")
    again = crowdppl.load(tmp_path / "found")
    pd.testing.assert_frame_equal(again.truth(), posterior.truth())
    assert "150 items" in posterior.summary()
    if engine != "em":
        assert posterior.to_arviz().posterior["error"].dims[:3] == ("chain", "draw", "annotator")


def test_other_units_give_the_same_in_other_units() -> None:
    data = drawn(40).data
    rows = data.frame()
    moved = Annotations.from_frame(rows.assign(label=1000 + 7 * rows["label"]), kind="real")
    to_the_end: Any = {"inference": "vb", "seed": 0, "tolerance": 1e-13, "max_iterations": 5000}
    one, two = (crowdppl.fit("gaussian_annotators", x, **to_the_end).truth() for x in (data, moved))
    np.testing.assert_allclose(two["estimate"], 1000 + 7 * one["estimate"], rtol=1e-5)
    np.testing.assert_allclose(two["sd"], 7 * one["sd"], rtol=1e-3)


SHORT: dict[str, dict[str, Any]] = {
    "vb": {"max_iterations": 8},
    "gibbs": {"chains": 2, "draws": 20, "warmup": 10},
    "svi": {"max_iterations": 30},
}


@pytest.mark.parametrize(
    ("method", "engine"),
    [
        *(
            (name, engine)
            for name in ("gaussian_annotators", "gain_annotators")
            for engine in ("em", "vb", "gibbs")
        ),
        *(("robust_annotators", engine) for engine in ("em", "vb", "laplace")),
        pytest.param("robust_annotators", "svi", marks=pytest.mark.slow),
        *(pytest.param("gain_annotators", engine, marks=pytest.mark.slow) for engine in ("laplace", "svi")),
    ],
)
def test_numbers_far_from_zero_are_as_those_near_it(method: str, engine: str) -> None:
    """1e9 more: labels are then rounded by 1e-7, which the squares of large numbers must not multiply.

    Not by nuts, whose paths part from each other at any rounding.
    """
    rows, gold, far = drawn(12).data.frame(), {0: 50.0}, 1e9
    found = []
    for by in (0.0, far):
        known = {item: x + by for item, x in gold.items()}
        data = Annotations.from_frame(rows.assign(label=rows["label"] + by), kind="real", gold=known)
        fit = crowdppl.fit(method, data, inference=engine, seed=0, **SHORT.get(engine, {}))
        found.append(fit.truth()[["estimate", "low", "high"]] - by)
        new = pd.DataFrame({"item": ["new"], "annotator": [rows["annotator"][0]], "label": [55 + by]})
        found[-1].loc["new"] = fit.predict(new).loc["new", ["estimate", "low", "high"]] - by
    # Gradients enlarge what labels are rounded by: most in gains, of which one label says nearly nothing.
    searched = method == "robust_annotators" or engine in ("laplace", "svi")
    gap, width = (found[1] - found[0]).abs(), found[0]["high"] - found[0]["low"]
    assert (gap.max(axis=1) <= (1e-3 if searched else 1e-6) * width + 1e-5).all()
    assert (found[1].loc[0] == 50).all()


@pytest.mark.parametrize(("method", "engine"), [("gaussian_annotators", "vb"), ("robust_annotators", "em")])
def test_covariates_predict_items_of_few_labels(method: str, engine: str) -> None:
    """With the slope known from many items, an item's covariate tells more than its only label."""
    rng, n = np.random.default_rng(0), 200
    x = rng.normal(size=n)
    truth = 3 + 2 * x + 0.1 * rng.normal(size=n)
    rows = [
        (i, a, truth[i] + rng.normal()) for i in range(n) for a in ((i % 4, (i + 1) % 4) if i % 2 else (i % 4,))
    ]
    table = pd.DataFrame({"length": 40 + 5 * x, "other": rng.normal(size=n)}, index=range(n))
    frame = pd.DataFrame(rows, columns=["item", "annotator", "label"])
    data = Annotations.from_frame(frame, kind="real", item_covariates=table)
    blind, seeing = (
        crowdppl.fit(method, data, inference=engine, settings={"covariates": names}, seed=0)
        for names in ((), ("length",))
    )
    gold = pd.Series(truth, index=range(n))
    assert crowdppl.evaluate(seeing, gold).rmse < 0.4 < crowdppl.evaluate(blind, gold).rmse
    sites = seeing.result.sites  # level: intercept from the centre, slope a standard deviation, precision
    slope = sites["slope"].mean[0] if "slope" in sites else sites["level"].mean[1]
    assert abs(slope - 2 * x.std()) < 0.3
    with pytest.raises(DataError, match="item_covariates"):
        crowdppl.fit(method, drawn().data, settings={"covariates": ("length",)})


@pytest.mark.slow
def test_labels_left_out_are_scored_in_their_own_units() -> None:
    """A model of annotators who differ predicts better than one that takes them for alike; the Jacobian is in."""
    data = drawn(60).data
    found = crowdppl.compare(
        {"differ": "gaussian_annotators", "alike": gaussian(bias_strength=1e6, strength=1e6)},
        data, folds=2, inference="vb", seed=0,
    )  # fmt: skip
    assert found.best == "differ" and found.table["weight"].iloc[0] > 0.9
    rows = data.frame()
    moved = Annotations.from_frame(rows.assign(label=7 * rows["label"]), kind="real")
    one, two = (
        crowdppl.heldout_score("gaussian_annotators", x, folds=2, inference="vb").per_label for x in (data, moved)
    )
    assert two == pytest.approx(one - np.log(7), abs=1e-3)


def test_annotators_of_a_known_gain_are_those_without() -> None:
    data, how = drawn(40).data, {"inference": "vb", "seed": 0, "tolerance": 1e-10, "max_iterations": 1000}
    found = [
        crowdppl.fit(crowdppl.method(name, **settings), data, **how)
        for name, settings in (("gain_annotators", {"gain_strength": 1e9}), ("gaussian_annotators", {}))
    ]
    one, other = (fit.truth() for fit in found)
    np.testing.assert_allclose(one["estimate"], other["estimate"], rtol=1e-3)
    np.testing.assert_allclose(one["sd"], other["sd"], rtol=0.05)  # by different draws
    columns = ["bias", "precision"]
    np.testing.assert_allclose(found[0].annotators()[columns], found[1].annotators()[columns], rtol=0.01, atol=0.01)


def test_gains_are_found() -> None:
    rng = np.random.default_rng(0)
    truth, gain = rng.normal(10, 3, 80), np.array([0.5, 1.0, 1.5])
    rows = [(i, a, 10 + gain[a] * (truth[i] - 10) + 0.3 * rng.normal()) for i in range(80) for a in range(3)]
    found = crowdppl.fit("gain_annotators", numbers(rows), inference="vb", seed=0)
    np.testing.assert_allclose(found.annotators()["gain"], gain, atol=0.2)
    assert crowdppl.evaluate(found, dict(enumerate(truth))).correlation > 0.99


@pytest.mark.parametrize("engine", ["em", "vb"])
def test_the_label_mean_is_the_mean_of_labels(engine: str) -> None:
    data = drawn(40).data
    found = crowdppl.fit("label_mean", data, inference=engine, seed=0)
    means = data.frame().groupby("item")["label"].mean()
    np.testing.assert_allclose(found.truth()["estimate"], means, rtol=0.01)
    if engine == "vb":  # with a flat prior of the consensus, labels vary within items alone
        within = data.frame().groupby("item")["label"].var().mean()
        assert found.result.sites["precision"].mean == pytest.approx(1 / within, rel=0.05)


@pytest.mark.slow
def test_auto_takes_the_method_that_predicts_best(tmp_path: Path) -> None:
    data = drawn(60).data
    found = crowdppl.fit("auto", data, seed=0)
    scores = found.diagnostics()["scores"]
    assert found.method == max(scores, key=scores.get) != "label_mean"
    found.save(tmp_path / "auto")
    assert crowdppl.load(tmp_path / "auto").diagnostics()["scores"] == scores
    alone = crowdppl.fit("auto", numbers([("x", "ann", 1.0), ("y", "bob", 2.0)]), seed=0)
    assert alone.method == "label_mean" and alone.diagnostics()["scores"] == {}


def test_what_is_for_classes_is_refused_by_name() -> None:
    with pytest.raises(MethodError, match="gaussian_annotators"):
        crowdppl.fit("dawid_skene", numbers())
    with pytest.raises(MethodError, match="'real'"):
        crowdppl.fit("gaussian_annotators", crowdppl.anaesthetists())
    assert crowdppl.fit("gaussian_annotators", crowdppl.anaesthetists("real"), inference="vb").truth().shape == (
        45,
        5,
    )
    with pytest.raises(MethodError, match="calibrate.*numbers"):
        crowdppl.fit("gaussian_annotators", numbers(), calibrate=True)
    with pytest.raises(DataError, match="history.*numbers"):
        Annotations.from_frame(numbers().frame(), kind="real", history={"ann": np.eye(2)})
    with pytest.raises(MethodError, match="shared"):
        replace(gaussian(), shared=1.5) and crowdppl.fit(gaussian(shared=1.5), numbers())


def test_a_table_for_arrow_has_estimates() -> None:
    posterior = crowdppl.fit(gaussian(), numbers(), inference="vb", seed=0)
    table = posterior.to_arrow()
    assert table.column_names == ["item", "estimate", "sd", "low", "high", "labels"] and table.num_rows == 3


@pytest.mark.parametrize(("name", "engine"), [("gaussian_annotators", "em"), ("gain_annotators", "em")])
def test_a_next_number_tells_what_it_narrows_its_truth(name: str, engine: str) -> None:
    """Annotators fixed, in bits: the logarithm of the ratio of standard deviations before and after."""
    data = drawn(12).data
    alone, shared = (
        crowdppl.fit(name, data, inference=engine, settings={"shared": s}, seed=0) for s in (1e-9, 0.5)
    )
    every: dict[str, Any] = {"per_item": data.n_annotators, "exclude_answered": False}
    found = alone.suggest_labels(data.n_items * data.n_annotators, **every)
    rows = data.frame()[["item", "annotator", "label"]]
    for item, who, information, sd in found.iloc[::5].itertuples(index=False):
        new = pd.DataFrame({"item": [item], "annotator": [who], "label": [3.0]})
        after = alone.predict(numbers(pd.concat([rows[rows["item"] == item], new])))
        assert information == pytest.approx(np.log2(sd / after.loc[item, "sd"]), abs=1e-6)
    assert found["information"].is_monotonic_decreasing and len(found) == data.n_items * data.n_annotators
    less = shared.suggest_labels(len(found), **every).set_index(["item", "annotator"])
    known = found.set_index(["item", "annotator"]).loc[less.index]
    kept = known["sd"] ** 2 / less["sd"] ** 2  # of the variance, what labels can tell of
    wanted = -np.log2(1 - kept * (1 - 4 ** -known["information"])) / 2
    np.testing.assert_allclose(less["information"], wanted, atol=1e-6)


def test_of_numbers_the_best_annotator_is_asked_about_the_item_known_least() -> None:
    data = drawn(20).data
    keep = data.frame().iloc[1:]  # one label less of the first item
    fit = crowdppl.fit("robust_annotators", numbers(keep[["item", "annotator", "label"]]), inference="em", seed=0)
    found = fit.suggest_labels(3, exclude_answered=False, per_item=1)
    assert (found["annotator"] == fit.annotators()["spread"].idxmin()).all()
    assert found["sd"].iloc[0] == fit.truth()["sd"].max() and found["information"].is_monotonic_decreasing
    unasked = fit.suggest_labels(20)
    assert unasked.merge(keep, on=["item", "annotator"]).empty and len(unasked) == 20


def known(part: str) -> tuple[pd.DataFrame, dict[str, float]]:
    rng = np.random.default_rng(len(part))
    truth = {f"{part} {i}": float(x) for i, x in enumerate(rng.normal(5, 2, 20))}
    rows = [(i, a, x + 0.3 * a + 0.5 * rng.normal()) for i, x in truth.items() for a in range(3)]
    return pd.DataFrame(rows, columns=["item", "annotator", "label"]), truth


def of_known(*parts: str, **settings: Any) -> Any:
    tables, truths = zip(*map(known, parts), strict=True)
    gold = {item: x for truth in truths for item, x in truth.items()}
    data = Annotations.from_frame(pd.concat(tables), kind="real", gold=gold)
    return crowdppl.fit(gaussian(**settings), data, inference="vb", seed=0, tolerance=1e-13)


def test_of_known_numbers_the_posterior_is_that_of_a_regression(tmp_path: Path) -> None:
    """Errors are then seen, if labels share none: the bias has its conjugate posterior, and nearly the precision.

    A known truth counts as one more label, by all annotators of its item.
    """
    found, (rows, truth) = of_known("old", shared=1e-12), known("old")
    np.testing.assert_allclose(found.truth()["estimate"], pd.Series(truth)[found.data.items])
    assert (found.truth()["sd"] == 0).all()
    error = (rows["label"] - rows["item"].map(truth)).groupby(rows["annotator"])
    n, total, square = error.size(), error.sum(), error.apply(lambda x: (x**2).sum())
    rate = 0.5 + (square - total**2 / (n + 1)) / 2  # strength 2 and scale 1: Gamma(2, .5)
    table = found.annotators()
    np.testing.assert_allclose(table["bias"], total / (n + 1), rtol=1e-6)
    np.testing.assert_allclose(table["precision"], (2 + n / 2) / rate, rtol=0.1)
    found.save(tmp_path / "known")
    again = crowdppl.load(tmp_path / "known").data.gold
    assert again is not None and again.to_dict() == truth
    with pytest.warns(crowdppl.errors.GoldLeakWarning):
        crowdppl.evaluate(found, truth)
    with pytest.raises(DataError, match="'much'"):
        found.data.with_gold({"old 1": "much"})


@pytest.mark.parametrize("engine", ["em", "vb", "gibbs"])
def test_known_numbers_tell_of_the_others(engine: str) -> None:
    """Labels cannot tell a bias that annotators share; some known truths do."""
    rows, truth = known("old")
    some: Any = dict(list(truth.items())[:10])
    rest = {item: x for item, x in truth.items() if item not in some}
    short = {"chains": 2, "draws": 60, "warmup": 30} if engine == "gibbs" else {}
    data = Annotations.from_frame(rows.assign(label=rows["label"] + 3), kind="real")
    blind, told = (
        crowdppl.fit("gaussian_annotators", data, inference=engine, gold=gold, seed=0, **short)
        for gold in (None, some)
    )
    assert crowdppl.evaluate(told, rest).mae < 0.5 < 2.5 < crowdppl.evaluate(blind, rest).mae


def test_an_update_is_the_fit_of_all_labels_where_truths_are_known() -> None:
    (whole, old), (rows, truth) = (of_known(*x, shared=1e-12) for x in (("old", "newer"), ("old",))), known("newer")
    new = Annotations.from_frame(rows, kind="real", gold=truth)
    updated = old.update(new, tolerance=1e-13)
    for name in ("error", "level"):
        np.testing.assert_allclose(
            updated.result.sites[name].parameter, whole.result.sites[name].parameter, rtol=0.03
        )
    assert (updated.annotators()["labels"] == 40).all()
    with pytest.raises(MethodError, match="comes again"):
        updated.update(rows)


@pytest.mark.parametrize("engine", ["em", "vb", "gibbs"])
def test_new_items_are_predicted_as_those_of_the_fit(engine: str) -> None:
    short = {"chains": 2, "draws": 50, "warmup": 30} if engine == "gibbs" else {}
    found = crowdppl.fit(gaussian(), numbers(), inference=engine, seed=0, **short)
    rows = numbers().frame()
    new = pd.concat([rows, pd.DataFrame({"item": ["w"], "annotator": ["cy"], "label": [9.0]})])
    table = found.predict(new)
    assert table.columns.tolist() == found.truth().columns.tolist()
    np.testing.assert_allclose(table.loc[list("xyz")], found.truth(), rtol=0.1 if engine == "gibbs" else 1e-9)
    level = found.result.sites["level"].mean  # a newcomer has the prior's precision, 4, and no bias
    assert table["estimate"]["w"] == pytest.approx(
        (level[1] * (1.5 + level[0]) + 4 * 9) / (level[1] + 4), rel=0.1 if engine == "gibbs" else 1e-6
    )


def test_the_zoo_says_which_kind_a_method_takes() -> None:
    kinds = crowdppl.zoo(engines=False)["kind"]
    assert kinds["gaussian_annotators"] == "real" and kinds["one_coin"] == "nominal"
    assert set(crowdppl.registry.names_for("real")) == set(kinds.index[kinds == "real"])
    assert "gaussian_annotators" not in crowdppl.registry.names_for("nominal")


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        *((name, "em") for name in ("label_mean", "gain_annotators", "robust_annotators")),
        ("gaussian_annotators", "laplace"),
        pytest.param("gaussian_annotators", "em", marks=pytest.mark.slow),
        pytest.param("robust_annotators", "laplace", marks=pytest.mark.slow),
    ],
)
def test_labels_in_another_unit_give_truths_in_it(name: str, engine: str) -> None:
    rng = np.random.default_rng(0)
    noise = rng.standard_t(4, (15, 4)) * np.linspace(0.3, 0.9, 4)
    labels = rng.normal(5, 2, (15, 1)) + np.linspace(-0.6, 0.3, 4) + noise
    found = []
    for unit in (1.0, 1e6, 1e-6):
        data = Annotations.from_matrix(labels * unit, kind="real")
        posterior = crowdppl.fit(name, data, inference=engine, tolerance=1e-12, seed=0)
        found.append(posterior.truth()[["estimate", "low", "high"]] / unit)
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=0, atol=1e-3)


def test_a_fit_in_another_unit_is_kept_updated_and_drawn_from_in_it(tmp_path: Path) -> None:
    labels = np.random.default_rng(0).normal(size=(12, 1)) + np.random.default_rng(1).normal(size=(12, 3)) / 3
    found = []
    for unit in (1.0, 1e6):
        data = Annotations.from_matrix(labels * unit, annotators=list("abc"), kind="real")
        fit = crowdppl.fit("robust_annotators", data, inference="vb", seed=0, max_iterations=8)
        fit.save(tmp_path / str(unit))
        posterior = crowdppl.load(tmp_path / str(unit))
        more = Annotations.from_dicts({"a": {99: unit}, "newcomer": {99: 2 * unit}}, like=data, grow=True)
        bias = posterior.to_arviz().posterior["bias"].to_numpy().std() / unit
        tables = posterior.predict(more), posterior.update(more, max_iterations=60).truth()
        found.append([bias, *(x.loc[99, "estimate"] / unit for x in tables)])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4)


@pytest.mark.parametrize("size", [0.1, 3e5, 0.0])
def test_labels_that_are_all_equal_are_known_to_their_size(size: float) -> None:
    data = Annotations.from_matrix([[size] * 3] * 4, kind="real")
    assert crowdppl.primitives.number_units(data) == ((size, size or 1.0),)


def test_labels_out_of_range_are_refused() -> None:
    for unit in (1e150, 1e-300, 1e17):
        data = Annotations.from_matrix(np.array([[1.0, 2.0], [3.0, 5.0]]) * unit, kind="real")
        for name in ("label_mean", "gaussian_annotators", "gain_annotators", "robust_annotators"):
            with pytest.raises(DataError, match="another unit"):
                crowdppl.fit(name, data, seed=0)


def test_traces_are_drawn_and_what_counts_classes_is_refused() -> None:
    data = Annotations.from_matrix(np.random.default_rng(0).normal(size=(5, 3)), kind="real")
    how: dict[str, Any] = {"inference": "gibbs", "draws": 20, "warmup": 10, "seed": 0}
    posterior = crowdppl.fit("gaussian_annotators", data, **how)
    assert posterior.plot_trace("error").get_title().startswith("error (annotator")
    with pytest.raises(MethodError, match="plot_raters"):
        posterior.plot_agreement_network()
    with pytest.raises(DataError, match="ten items"):
        posterior.plot_panel()
    for refused in (lambda: crowdppl.find_groups(data), lambda: crowdppl.covariance_spammers(data)):
        with pytest.raises(DataError, match="numbers and have no classes"):
            refused()


@pytest.mark.parametrize("engine", ["vb", pytest.param("gibbs", marks=pytest.mark.slow)])
def test_a_gain_that_may_be_0_leaves_a_new_item_within_the_range_of_items(engine: str) -> None:
    rows = drawn(12).data.frame()
    fit = crowdppl.fit("gain_annotators", numbers(rows[["item", "annotator", "label"]]), inference=engine, seed=0)
    new = pd.DataFrame({"item": ["new"], "annotator": [rows["annotator"][0]], "label": [rows["label"].mean()]})
    assert fit.predict(new).loc["new", "sd"] < 1.5 * rows["label"].std()


@pytest.mark.parametrize(("shared", "each"), [(0.5, 4), (0.2, 4), (0.5, 1)])
def test_how_much_of_intervals_is_shared_errors_is_said(shared: float, each: int) -> None:
    """Of n equally precise labels with a flat prior, the consensus has variance v / n, truths shared v more."""
    values = np.random.default_rng(0).normal(size=(30, each)) + 10 * np.arange(30)[:, None]
    data = Annotations.from_matrix(values, kind="real")
    fit = crowdppl.fit("label_mean", data, inference="em", settings={"shared": shared}, gold={0: 1.0})
    found, share = shared_variance(fit), shared * each / (1 + shared * each)
    assert found == pytest.approx(share, abs=0.01)
    assert (f"as without errors that all labels of an item share ({found:.0%}" in fit.summary()) == (share > 0.5)
