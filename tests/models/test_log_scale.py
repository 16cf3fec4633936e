"""Numbers whose errors are shares of the truth: ``scale="log"`` is the same model of logarithms."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import crowdppl
from crowdppl import Annotations
from crowdppl.data.kinds.space import POSITIVE
from crowdppl.errors import DataError, MethodError

METHODS = ("label_mean", "gaussian_annotators", "gain_annotators")
SHORT: dict[str, dict[str, Any]] = {
    **{engine: {"tolerance": 1e-13, "max_iterations": 3000} for engine in ("em", "vb")},
    "gibbs": {"chains": 2, "draws": 30, "warmup": 10},
}


def labels(seed: int = 0, n: int = 20, exponent: float = 1.0) -> tuple[pd.DataFrame, np.ndarray]:
    """Three of five annotators an item, who err by factors where the exponent is 1; and the truths."""
    rng = np.random.default_rng(seed)
    truth, bias = rng.lognormal(4, 0.7, n), 0.2 * rng.normal(size=5)
    who = np.stack([rng.permutation(5)[:3] for _ in range(n)])
    error = bias[who] + 0.2 * rng.normal(size=who.shape)
    given = truth[:, None] * np.exp(error) if exponent else truth[:, None] + 20 * error
    return pd.DataFrame(
        {"item": np.repeat(np.arange(n), 3), "annotator": who.ravel(), "label": given.ravel()}
    ), truth


def real(rows: pd.DataFrame, **known: Any) -> Annotations:
    return Annotations.from_frame(rows, kind="real", **known)


@pytest.mark.parametrize("gold", [{}, {0: 60.0, 3: 20.0}], ids=["no gold", "gold"])
@pytest.mark.parametrize("engine", ["em", "vb", "gibbs"])
@pytest.mark.parametrize("method", METHODS)
def test_it_is_the_model_of_logarithms(method: str, engine: str, gold: dict[int, float]) -> None:
    rows, _ = labels()
    how: Any = {"inference": engine, "seed": 0, **SHORT[engine]}
    found = crowdppl.fit(method, real(rows, gold=gold), settings={"scale": "log"}, **how)
    logs = real(rows.assign(label=np.log(rows["label"])), gold={i: np.log(x) for i, x in gold.items()})
    other = crowdppl.fit(method, logs, **how)
    pd.testing.assert_frame_equal(found.annotators(), other.annotators(), rtol=1e-3)
    one, two = (fit.truth(0.9)[["estimate", "low", "high"]] for fit in (found, other))
    np.testing.assert_allclose(one["estimate"], np.exp(two["estimate"]), rtol=1e-3)
    np.testing.assert_allclose(one, np.exp(two), rtol=0.05 if engine == "vb" else 1e-3)  # by different draws
    assert (one["low"] > 0).all()
    of_density = np.log(rows["label"]).sum() + np.log([*gold.values()]).sum()
    if engine != "gibbs":
        objectives = [fit.diagnostics()["objective"] for fit in (found, other)]
        assert objectives[0] == pytest.approx(objectives[1] - of_density, rel=1e-6)
    sd, of_logs = (np.asarray(fit.result.truth.sd) for fit in (found, other))
    np.testing.assert_allclose(
        sd, one["estimate"] * np.exp(of_logs**2 / 2) * np.sqrt(np.expm1(of_logs**2)), rtol=0.1
    )


def test_labels_and_truths_are_drawn_as_exponentials() -> None:
    design = Annotations.design(np.repeat(np.arange(30), 3), np.tile(np.arange(3), 30), kind="real")
    known = Annotations.design(
        np.repeat(np.arange(30), 3), np.tile(np.arange(3), 30), kind="real", gold={2: np.exp(1.0)}
    )
    same = Annotations.design(np.repeat(np.arange(30), 3), np.tile(np.arange(3), 30), kind="real", gold={2: 1.0})
    for one, two in ((design, design), (known, same)):
        logs, plain = (
            crowdppl.simulate(crowdppl.method("gain_annotators", units=((2.0, 0.5),), scale=scale), data, seed=3)
            for scale, data in (("log", one), ("linear", two))
        )
        np.testing.assert_allclose(np.log(logs.data.frame()["label"]), plain.data.frame()["label"], rtol=1e-9)
        np.testing.assert_allclose(np.log(logs.truth), plain.truth, rtol=1e-9)


def test_labels_are_predicted_in_their_own_units(tmp_path: Path) -> None:
    rows, _ = labels()
    logs = rows.assign(label=np.log(rows["label"]))
    how: Any = {"inference": "vb", "seed": 0, "folds": 2}
    one = crowdppl.heldout_score("gain_annotators", real(rows), settings={"scale": "log"}, **how).labels
    two = crowdppl.heldout_score("gain_annotators", real(logs), **how).labels
    np.testing.assert_allclose(one["log_p"], two["log_p"] - np.log(one["label"]), rtol=1e-4)
    found = crowdppl.fit("gain_annotators", real(rows), inference="vb", seed=0, settings={"scale": "log"})
    found.save(tmp_path / "found")
    again = crowdppl.load(tmp_path / "found")
    pd.testing.assert_frame_equal(again.truth(), found.truth())
    new = rows[rows["item"] == 4].assign(item="new")
    np.testing.assert_allclose(
        again.predict(new).loc["new", "estimate"], found.truth().loc[4, "estimate"], rtol=0.02
    )
    assert crowdppl.predictive_check(found, seed=0).table["p_value"].min() > 0.01
    assert "of logarithms" in found.summary()


def test_intervals_hold_truths_on_their_own_scale() -> None:
    """A log-normal of some median and deviation has the ends of its logarithm."""
    median, logs = np.array([3.0, 100.0, 5.0]), np.array([0.05, 1.0, 0.0])
    median, sd = POSITIVE.of_modelled(np.log(median), logs)
    found = POSITIVE.interval(median, sd, 0.9)
    np.testing.assert_allclose(found.low, median * np.exp(-logs * stats.norm.ppf(0.95)))
    np.testing.assert_allclose(found.high, median * np.exp(logs * stats.norm.ppf(0.95)))


def test_what_is_not_positive_is_refused_with_its_place() -> None:
    rows, _ = labels()
    wrong = rows.assign(label=rows["label"].where(rows.index != 4, 0.0))
    for method in METHODS:
        with pytest.raises(DataError, match=r"the label 0 of item 1 by \d is not a number above 0, .*leave scale="):
            crowdppl.fit(method, real(wrong), settings={"scale": "log"})
    with pytest.raises(DataError, match="the known truth -1 of item 2 is not a number above 0"):
        crowdppl.fit("label_mean", real(rows, gold={1: 3.0, 2: -1.0}), settings={"scale": "log"})
    found = crowdppl.fit("label_mean", real(rows), inference="em", seed=0, settings={"scale": "log"})
    with pytest.raises(DataError, match="the label 0 of item 1"):
        found.predict(wrong)
    with pytest.raises(MethodError, match="scale='logs'"):
        crowdppl.fit("label_mean", real(rows), settings={"scale": "logs"})


@pytest.mark.parametrize("exponent", [0.0, 1.0], ids=["differences", "factors"])
def test_auto_takes_the_scale_of_the_errors(exponent: float) -> None:
    rows, truth = labels(n=40, exponent=exponent)
    rows = rows.assign(label=rows["label"].clip(lower=0.5))
    found = crowdppl.fit("auto", real(rows), seed=0, max_iterations=30)
    assert len(found.diagnostics()["scores"]) == 6
    assert found.model.scale == ("log" if exponent else "linear")
    if exponent:
        known = crowdppl.fit("auto", real(rows, gold={0: 0.0, 1: truth[1]}), seed=0, max_iterations=30)
        assert known.model.scale == "linear" and len(known.diagnostics()["scores"]) == 3
