"""Angles: von Mises annotators against quadrature, sampling from the prior, a limit, and turns of the circle."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import i0e

import crowdppl
from crowdppl import Annotations
from crowdppl.cli.commands import main
from crowdppl.data.kinds.angles import ANGLE
from crowdppl.errors import CrowdpplWarning, DataError, GoldLeakWarning
from crowdppl.testing import rank_check

ROWS = [
    ("x", "ann", 351.0),
    ("x", "bob", 12.0),
    ("y", "ann", 170.0),
    ("y", "bob", 205.0),
    ("z", "bob", 44.0),
    ("z", "ann", 25.0),
    ("w", "ann", 300.0),
]
ITEMS, PEOPLE = list("wxyz"), ["ann", "bob"]
RADIAN = 180 / np.pi
CIRCLE = np.linspace(0, 2 * np.pi, 4096, endpoint=False)


def frame(rows: Any = ROWS) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["item", "annotator", "label"])


def angles(rows: Any = ROWS, **options: Any) -> Annotations:
    return Annotations.from_frame(frame(rows), kind="angle", **options)


def method(**settings: Any) -> Any:
    return crowdppl.method("von_mises_annotators", **settings)


def drawn(n_items: int = 80, seed: int = 0, unit: str = "degrees", **settings: Any) -> Any:
    """Labels of the model's own making: four of each item, by six annotators."""
    rng = np.random.default_rng(seed)
    who = np.concatenate([rng.permutation(6)[:4] for _ in range(n_items)])
    design = Annotations.design(np.repeat(np.arange(n_items), 4), who, kind="angle", unit=unit)
    return crowdppl.simulate(method(**settings), design, seed=seed)


def log_terms(bias: np.ndarray, concentration: np.ndarray, known: dict[str, float] | None = None) -> np.ndarray:
    """Log-density of each item's labels and of its consensus, at each point of ``CIRCLE`` or the known one.

    Biases are in degrees; densities are of labels in degrees.
    """
    out = []
    for item in ITEMS:
        x = CIRCLE if not known or item not in known else np.full(len(CIRCLE), known[item] / RADIAN)
        total = np.zeros(len(CIRCLE)) - np.log(2 * np.pi)
        for _, who, y in (row for row in ROWS if row[0] == item):
            a = PEOPLE.index(who)
            total += stats.vonmises(concentration[a], x + bias[a] / RADIAN).logpdf(y / RADIAN) - np.log(RADIAN)
        out.append(total)
    return np.array(out)


def log_evidence(bias: np.ndarray, concentration: np.ndarray) -> float:
    return float(np.log(np.exp(log_terms(bias, concentration)).mean(1) * 2 * np.pi).sum())


def log_prior(bias: np.ndarray, concentration: np.ndarray) -> float:
    return float(stats.norm(0, 18).logpdf(bias).sum() + stats.lognorm(1.5, scale=10).logpdf(concentration).sum())


def turned(angle: Any, by: float) -> np.ndarray:
    return (np.asarray(angle) + by) % 360


def apart(one: Any, other: Any) -> np.ndarray:
    """Degrees from the other to the one, the shorter way round."""
    return (np.asarray(one) - np.asarray(other) + 180) % 360 - 180


def test_em_has_the_mode_of_an_integral_by_quadrature() -> None:
    found = crowdppl.fit(method(), angles(), inference="em", tolerance=1e-14, max_iterations=2000, seed=0)
    bias, concentration = (found.result.sites[name].mean for name in ("bias", "concentration"))
    objective = log_evidence(bias, concentration) + log_prior(bias, concentration)
    assert found.diagnostics()["objective"] == pytest.approx(objective, abs=1e-6)
    rng = np.random.default_rng(0)
    for _ in range(200):
        near = bias + rng.normal(size=2), concentration * np.exp(0.1 * rng.normal(size=2))
        assert log_evidence(*near) + log_prior(*near) < objective + 1e-6


@pytest.mark.parametrize("shared", [1e-9, 0.5])
def test_truths_are_those_of_quadrature(shared: float) -> None:
    """At points, with the errors that labels share as a wrapped normal around the consensus."""
    found = crowdppl.fit(method(shared=shared), angles(), inference="em", seed=0, tolerance=1e-10)
    bias, concentration = (found.result.sites[name].mean for name in ("bias", "concentration"))
    weight = np.exp(log_terms(bias, concentration))
    weight /= weight.sum(1, keepdims=True)
    table = found.truth(0.9).loc[ITEMS]
    for item, w, (estimate, sd, low, high) in zip(
        ITEMS, weight, table[["estimate", "sd", "low", "high"]].to_numpy(), strict=True
    ):
        own = [concentration[PEOPLE.index(who)] for name, who, _ in ROWS if name == item]
        moment = (w * np.exp(1j * CIRCLE)).sum() * np.exp(-shared / np.mean(own) / 2)
        assert apart(estimate, np.angle(moment) * RADIAN) == pytest.approx(0, abs=1e-6)
        assert sd == pytest.approx(RADIAN * np.sqrt(2 * (1 - abs(moment))), rel=1e-5)
        half = apart(high, estimate)
        assert apart(estimate, low) == pytest.approx(half) and 0 < half < 180
        if shared < 0.1:  # the consensus is von Mises, and so is the truth
            inside = np.abs(apart(CIRCLE * RADIAN, estimate)) <= half
            assert (w * inside).sum() == pytest.approx(0.9, abs=0.002)


@pytest.fixture(scope="module")
def sampled() -> dict[str, np.ndarray]:
    """Posterior means of biases and log-concentrations, and truths' moments, by sampling from the prior."""
    rng, n = np.random.default_rng(0), 400_000
    bias, concentration = rng.normal(0, 18, (n, 2)), 10 * np.exp(1.5 * rng.normal(size=(n, 2)))
    log_w, sums = np.zeros(n), []
    for item in ITEMS:
        who = [(PEOPLE.index(a), y) for name, a, y in ROWS if name == item]
        total = sum(concentration[:, a] * np.exp(1j * (y - bias[:, a]) / RADIAN) for a, y in who)
        length = np.abs(total)
        log_w += np.log(i0e(length)) + length
        log_w -= sum(np.log(i0e(concentration[:, a])) + concentration[:, a] for a, _ in who)
        spread = 0.5 * len(who) / sum(concentration[:, a] for a, _ in who)
        # A ratio of Bessel functions, by differences: the derivative of log I0 is I1 / I0.
        ratio = 1 + (np.log(i0e(length + 1e-4)) - np.log(i0e(np.abs(length - 1e-4)))) / 2e-4
        sums.append(np.where(length > 1e-3, ratio, 0) * total / length * np.exp(-spread / 2))
    w = np.exp(log_w - log_w.max())
    w /= w.sum()
    truth = np.array([w @ x for x in sums])
    return {"bias": w @ bias, "log_concentration": w @ np.log(concentration), "truth": truth}


SLOW = [pytest.param("nuts", marks=pytest.mark.slow)]


@pytest.mark.parametrize("engine", ["vb", "laplace", *SLOW])
def test_engines_are_near_the_posterior_of_importance_sampling(engine: str, sampled: dict[str, np.ndarray]) -> None:
    how: dict[str, Any] = {"chains": 2, "draws": 300, "warmup": 150} if engine == "nuts" else {}
    found = crowdppl.fit(method(), angles(), inference=engine, seed=0, **how)
    table = found.truth().loc[ITEMS]
    exact = engine == "nuts"
    off = np.abs(apart(table["estimate"], np.angle(sampled["truth"]) * RADIAN))
    assert off.max() < (2.0 if exact else 6.0)
    sd = RADIAN * np.sqrt(2 * (1 - np.abs(sampled["truth"])))
    np.testing.assert_allclose(table["sd"], sd, rtol=0.06 if exact else 0.3)
    if exact:
        draws = found.result.sites["concentration"].arrays["draws"]
        np.testing.assert_allclose(found.result.sites["bias"].mean, sampled["bias"], atol=2.5)
        np.testing.assert_allclose(np.log(draws).mean((0, 1)), sampled["log_concentration"], atol=0.15)


def test_a_turn_of_the_whole_circle_turns_truths_and_changes_nothing_else() -> None:
    data = drawn(20).data
    rows = data.frame()
    found = []
    for by in (0.0, 90.0, 310.0):
        new = rows.assign(label=turned(rows["label"], by))
        fit = crowdppl.fit(
            "von_mises_annotators",
            Annotations.from_frame(new, kind="angle", gold={0: turned(50.0, by).item()}),
            inference="em",
            tolerance=1e-13,
            seed=0,
        )
        found.append((fit, by))
    first = found[0][0]
    for fit, by in found[1:]:
        for name in ("estimate", "low", "high"):
            np.testing.assert_allclose(apart(fit.truth()[name], first.truth()[name] + by), 0, atol=1e-5)
        np.testing.assert_allclose(fit.truth()["sd"], first.truth()["sd"], atol=1e-5)
        np.testing.assert_allclose(fit.annotators(), first.annotators(), rtol=1e-4, atol=1e-4)
        assert fit.truth().loc[0, "estimate"] == turned(50.0, by) and fit.truth().loc[0, "sd"] == 0
        tables = [crowdppl.agreement_table(x.data, bootstrap=20, seed=0) for x in (first, fit)]
        pd.testing.assert_frame_equal(*tables)
        assert [d.kind for d in first.doubts()] == [d.kind for d in fit.doubts()]


def test_units_differ_by_their_factor(tmp_path: Path) -> None:
    data = drawn(20).data
    rows = data.frame()
    two = Annotations.from_frame(rows.assign(label=rows["label"] / RADIAN), kind="angle", unit="radians")
    fits = [crowdppl.fit("von_mises_annotators", x, inference="vb", seed=0) for x in (data, two)]
    one, other = (fit.truth()[["estimate", "sd", "low", "high"]] for fit in fits)
    np.testing.assert_allclose(other * RADIAN, one, rtol=1e-4)
    one, other = (fit.annotators() for fit in fits)
    np.testing.assert_allclose(other["bias"] * RADIAN, one["bias"], rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(other["concentration"], one["concentration"], rtol=1e-3)
    fits[1].save(tmp_path / "radians")
    again = crowdppl.load(tmp_path / "radians")
    pd.testing.assert_frame_equal(again.truth(), fits[1].truth())
    pd.testing.assert_frame_equal(again.data.frame(), two.frame())
    more = Annotations.from_dicts({0: {"new": 6.2}, 1: {"new": 0.1}}, like=again.data)
    assert again.predict(more).loc["new", "sd"] < 1 and more.alphabet.kind.unit == "radians"
    assert abs(apart(again.predict(more).loc["new", "estimate"] * RADIAN, 0)) < 60
    with pytest.raises(DataError, match="'degrees'.*radians"):
        Annotations.from_dicts({0: {"new": 6.2}}, like=again.data, unit="degrees")


def test_concentrated_angles_are_gaussian_ones() -> None:
    """Labels that scatter by two degrees lie on a line; priors are weak beside 200 labels of each annotator."""
    rng = np.random.default_rng(1)
    truth, bias, spread = rng.uniform(-8, 8, 200), np.arange(-2.0, 3.0), np.array([1.0, 2.0, 3.0, 2.0, 1.5])
    labels = truth[:, None] + bias + spread * rng.normal(size=(200, 5))
    line = crowdppl.fit("gaussian_annotators", Annotations.from_matrix(labels, kind="real"), inference="vb", seed=0)
    circle = crowdppl.fit(
        method(width=4.0, bias_spread=0.01), Annotations.from_matrix(labels % 360, kind="angle"), inference="vb"
    )
    one, other = line.annotators(), circle.annotators()
    np.testing.assert_allclose(other["concentration"], one["precision"] * RADIAN**2, rtol=0.3)
    np.testing.assert_allclose(other["bias"] - other["bias"].mean(), one["bias"] - one["bias"].mean(), atol=0.2)
    shift = apart(circle.truth()["estimate"], line.truth()["estimate"])
    assert (shift - shift.mean()).std() < 0.25 and abs(shift.mean()) < 1
    # Labels do not tell a shift of all, which is as wide as each prior of biases leaves it.
    np.testing.assert_allclose(circle.truth()["sd"], line.truth()["sd"], rtol=0.4)


def test_truths_and_annotators_are_recovered_and_intervals_hold_their_share() -> None:
    found = drawn(400, seed=1, bias_spread=0.01)
    fit = crowdppl.fit(method(bias_spread=0.01), found.data, inference="vb", seed=0)
    scores = crowdppl.evaluate(fit, found.truth, level=0.9)
    assert abs(scores.coverage - 0.9) < 0.06  # 3.9 standard errors of 400 items
    rows = found.data.frame()
    unit = np.exp(1j * rows["label"] / RADIAN).groupby(rows["item"]).sum()
    plain = apart(np.angle(unit) * RADIAN, found.truth.loc[unit.index])
    assert scores.rmse < np.sqrt((plain**2).mean())
    table = fit.annotators()
    assert np.corrcoef(np.log(table["concentration"]), np.log(found.parameters["concentration"]))[0, 1] > 0.95


def test_errors_are_measured_the_shorter_way_round() -> None:
    fit = crowdppl.fit(method(), angles([("x", "a", 359.0), ("x", "b", 1.0), ("y", "a", 90.0)]), inference="em")
    assert abs(apart(fit.truth().loc["x", "estimate"], 0)) < 2
    x, y = fit.truth()["estimate"]
    truth = {"x": turned(x, 3.0).item(), "y": turned(y, -5.0).item()}
    scores = crowdppl.evaluate(fit, truth)
    assert (scores.mae, scores.rmse) == (pytest.approx(4.0), pytest.approx(17**0.5))
    assert scores.bias == pytest.approx(1.0) and scores.coverage == 1.0
    assert (scores.intervals()["low"] <= scores.intervals()["high"]).all()
    low, high = fit.truth(0.9).loc["x", ["low", "high"]]
    assert low > 180 > high, "an interval that crosses 0 goes from its low end to its high end, upwards"


def test_agreement_is_krippendorffs_with_a_circular_distance() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 360, (30, 1)) + 20 * rng.normal(size=(30, 4))
    labels = np.where(rng.random(x.shape) < 0.7, x % 360, np.nan)
    table = crowdppl.agreement_table(Annotations.from_matrix(labels, kind="angle"), bootstrap=50, seed=0)
    found = table.loc["krippendorff_circular"]
    kept = labels[np.isfinite(labels).sum(1) > 1]
    item, _ = np.nonzero(np.isfinite(kept))
    y = kept[np.isfinite(kept)]
    distance = np.sin((y[:, None] - y) / 2 / RADIAN) ** 2
    size = np.bincount(item)
    within = sum(distance[np.ix_(item == i, item == i)].sum() / (size[i] - 1) for i in range(len(kept))) / len(y)
    assert found["value"] == pytest.approx(1 - within / (distance.sum() / len(y) / (len(y) - 1)))
    assert found["low"] < found["value"] < found["high"]


def test_known_truths_enter_are_found_out_and_refused() -> None:
    """Of known truths, labels tell biases exactly: what all share, too, which labels cannot tell alone."""
    rng = np.random.default_rng(2)
    truth = {f"i{n}": float(x) for n, x in enumerate(rng.uniform(0, 360, 60))}
    rows = [(i, a, turned(x + 30 + 5 * rng.normal(), 0).item()) for i, x in truth.items() for a in ("ann", "bob")]
    some, rest = dict(list(truth.items())[:30]), dict(list(truth.items())[30:])
    blind, told = (crowdppl.fit(method(), angles(rows, gold=gold), inference="vb", seed=0) for gold in (None, some))
    assert crowdppl.evaluate(told, rest).mae < 6 < 20 < crowdppl.evaluate(blind, rest).mae
    np.testing.assert_allclose(told.annotators()["bias"], 30, atol=3)
    with pytest.warns(GoldLeakWarning):
        crowdppl.evaluate(told, truth)
    with pytest.raises(DataError, match="'i0'"):
        angles(rows, gold={"i0": 1000.0})


@pytest.mark.parametrize("label", ["north", 361.0, -400, None, float("inf")])
def test_what_is_no_angle_is_refused_with_its_place(label: Any) -> None:
    with pytest.raises(DataError, match="row 1"):
        angles([("x", "ann", 10.0), ("y", "bob", label)])


def test_angles_of_one_turn_either_way_are_wrapped_and_units_are_checked() -> None:
    assert angles([("x", "a", -10.0), ("y", "a", 360.0), ("z", "a", 7.5)]).frame()["label"].tolist() == [
        350,
        0,
        7.5,
    ]
    with pytest.raises(DataError, match="degrees"):
        angles(unit="gradians")
    with pytest.raises(DataError, match="radians"):
        angles(unit="radians")
    with pytest.raises(DataError, match="unit"):
        Annotations.from_frame(frame(), kind="real", unit="degrees")
    with pytest.warns(CrowdpplWarning, match="radians"):
        angles([(i, a, (i + a / 7) % 6) for i in range(8) for a in range(2)])


def test_labels_are_drawn_again_and_checked() -> None:
    fit = crowdppl.fit(method(), drawn(60).data, inference="em", seed=0)
    again = fit.draw_labels(40, seed=0)
    assert again["label"].between(0, 360, inclusive="left").all()
    unit = np.exp(1j * again["label"] / RADIAN).groupby([again["item"], again["annotator"]]).mean()
    found = unit.reset_index()
    wanted = fit.truth().loc[found["item"], "estimate"].to_numpy()
    wanted = wanted + fit.annotators().loc[found["annotator"], "bias"].to_numpy()
    sharp = np.abs(found["label"]) > 0.8
    assert np.abs(apart(np.angle(found["label"][sharp]) * RADIAN, wanted[sharp])).mean() < 10
    assert crowdppl.predictive_check(fit, draws=39, seed=0).p_value > 0.01
    rows = drawn(60, typical=60.0, width=0.1).data.frame()
    guesses = np.random.default_rng(0).uniform(0, 360, len(rows))
    worse = rows["label"].where(np.arange(len(rows)) % 9 > 0, guesses)  # one label in nine is a guess
    bad = crowdppl.fit(method(), Annotations.from_frame(rows.assign(label=worse), kind="angle"), inference="em")
    assert crowdppl.predictive_check(bad, draws=39, seed=0).p_value < 0.06


def test_a_next_angle_tells_what_it_narrows_its_truth() -> None:
    fit = crowdppl.fit(method(shared=1e-9), drawn(30).data, inference="em", seed=0)
    found = fit.suggest_labels(5, per_item=1)
    assert found["information"].is_monotonic_decreasing and (found["information"] > 0).all()


def test_the_command_line_reads_degrees_and_writes_intervals(tmp_path: Path) -> None:
    odd = {"x": "a,b", "y": "0012", "z": "naïve ☃", "w": ' quote "w"'}
    table = frame().assign(item=[odd[row[0]] for row in ROWS])
    table.to_csv(tmp_path / "angles.csv", index=False)
    pd.DataFrame({"item": ["a,b"], "label": [1.0]}).to_csv(tmp_path / "truth.csv", index=False)
    command = ["fit", str(tmp_path / "angles.csv"), "--kind", "angle", "--unit", "degrees", "--inference", "em"]
    with pytest.raises(SystemExit) as ended:
        main([*command, "--out", str(tmp_path / "out")])
    assert not ended.value.code
    written = pd.read_csv(tmp_path / "out" / "labels.csv", dtype={"item": str}).set_index("item")
    assert {*written.index} == {*odd.values()}
    again = crowdppl.load(tmp_path / "out")
    assert again.method == "von_mises_annotators" and again.data.alphabet.kind == ANGLE
    np.testing.assert_allclose(written["estimate"], again.truth().loc[written.index, "estimate"])
    assert abs(apart(written.loc["a,b", "estimate"], 0)) < 15


def test_truths_in_radians_beside_labels_in_degrees_are_warned_of_and_others_refused() -> None:
    simulation = drawn(30)
    fit, truth = crowdppl.fit(method(), simulation.data, inference="em", seed=0), simulation.truth
    with pytest.warns(CrowdpplWarning, match="of the known truths, all 30 lie between [0-9.]+ and [0-9.]+ degrees"):
        crowdppl.evaluate(fit, truth / RADIAN)
    with pytest.warns(CrowdpplWarning, match="all 30 lie between"):
        simulation.data.with_gold(truth / RADIAN)
    with pytest.raises(DataError, match="the truth 400.0 of item 0 is not an angle from -360 to 360 degrees"):
        crowdppl.evaluate(fit, {0: 400.0})


def test_methods_for_other_labels_refuse_angles_and_the_default_takes_them() -> None:
    for name in ("gaussian_annotators", "dawid_skene"):
        with pytest.raises(crowdppl.errors.MethodError, match="von_mises_annotators"):
            crowdppl.fit(name, angles())
    assert crowdppl.fit("auto", angles(), seed=0).method == "von_mises_annotators"


@pytest.mark.slow
def test_nuts_is_calibrated() -> None:
    """Three annotators' labels of six items, as vague as they come; of a chain, each third draw is ranked."""
    design = Annotations.design(np.repeat(np.arange(6), 3), np.tile(np.arange(3), 6), kind="angle")
    own: Any = {
        "first bias": lambda v: v["bias"][:, 0],
        "log concentration": lambda v: np.log(v["concentration"][:, 0]),
    }
    short: dict[str, Any] = {"chains": 1, "draws": 27, "warmup": 40, "ranks": 9}
    found = rank_check(method(), design, inference="nuts", simulations=20, quantities=own, **short)
    assert found.table["p_value"].min() > 1e-4, found
    assert found.table["spread"].between(0.6, 1.4).all(), found  # of 20 uniform ranks, 4 standard deviations
