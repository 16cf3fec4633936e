"""Robust annotators of numbers: integrals, outliers, scales that end, and known truths."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

import crowdppl
from crowdppl import Annotations
from crowdppl.errors import MethodError
from crowdppl.inference.density import Density

UNITS = (1.0, 2.0, -6.0, 8.0)


def numbers(rows: Any, **options: Any) -> Annotations:
    return Annotations.from_frame(
        pd.DataFrame(rows, columns=["item", "annotator", "label"]), kind="real", **options
    )


def density(model: Any, data: Annotations, bias: Any, spread: Any) -> tuple[float, np.ndarray]:
    """Log-density of labels, and mean and variance of the truths by item code, at the centre, 1, and width 2."""
    values = {"mean": 0.0, "width": 2.0, "bias": bias, "spread": spread}
    at = {name: torch.as_tensor(x, dtype=torch.float64) for name, x in values.items()}
    found = Density(model.model)(data.as_block(), at, marginals=("truth",))
    mean, square = found.marginals["truth"].numpy()[:, np.argsort(data.order)]
    return float(found.objective), np.stack([UNITS[0] + mean, square - mean**2], -1)


@pytest.mark.parametrize("ends", [None, (-6.0, 8.0)])
def test_labels_have_the_density_of_an_integral(ends: Any) -> None:
    model = crowdppl.method("robust_annotators", units=UNITS, ends=ends, points=801, shared=1e-12)
    rows = [("x", "ann", 1.5), ("x", "bob", 8.0), ("y", "bob", -6.0)]
    bias, spread = np.array([0.5, -1.0]), np.array([0.8, 1.5])
    value, moments = density(model, numbers(rows), bias, spread)
    x = np.linspace(*((-6, 8) if ends else (-8, 10)), 4001)
    prior = stats.norm(1, 2).pdf(x)
    wanted, told = 0.0, []
    for item in "xy":
        p = prior / prior.sum()
        for _, who, y in (row for row in rows if row[0] == item):
            a = ["ann", "bob"].index(who)
            error = stats.t(4, x + bias[a], spread[a])
            end = {-6.0: error.cdf(y), 8.0: error.sf(y)}.get(y) if ends else None
            p = p * (error.pdf(y) if end is None else end)
        wanted += np.log(p.sum())
        p = p / p.sum()
        told.append((p @ x, p @ x**2 - (p @ x) ** 2))
    assert value == pytest.approx(wanted, abs=1e-3)
    np.testing.assert_allclose(moments, told, rtol=5e-3)


def test_outliers_move_estimates_less_than_those_of_gaussian_annotators() -> None:
    rng, n = np.random.default_rng(0), 60
    truth = rng.normal(size=n)
    error = rng.normal(size=(n, 5)) * 0.3
    error[rng.random((n, 5)) < 0.1] += 8
    data = Annotations.from_matrix(truth[:, None] + error, kind="real")
    gold = pd.Series(truth, index=range(n))
    rmse = [
        crowdppl.evaluate(crowdppl.fit(name, data, inference="em", seed=0), gold).rmse
        for name in ("robust_annotators", "gaussian_annotators")
    ]
    assert rmse[0] < 0.5 * rmse[1]


@pytest.mark.parametrize("numbers_of", [lambda i: float(i), lambda i: 5.0])
def test_labels_that_agree_exactly_are_the_truth(numbers_of: Any) -> None:
    """Whatever the points of the grid: on none of these do all labels lie."""
    rows = [(i, a, numbers_of(i)) for i in range(8) for a in range(3)]
    found = crowdppl.fit("robust_annotators", numbers(rows), inference="em", seed=0).truth()
    np.testing.assert_allclose(found["estimate"], [numbers_of(i) for i in range(8)], atol=0.15)


def test_a_known_truth_is_kept_and_tells_of_others() -> None:
    noise = np.random.default_rng(0).normal(size=(20, 3)) / 3
    rows = [(i, a, float(i % 7) + 2 + noise[i, a]) for i in range(20) for a in range(3)]
    gold = {i: float(i % 7) for i in range(12)}
    found = crowdppl.fit("robust_annotators", numbers(rows, gold=gold), inference="em", seed=0).truth()
    np.testing.assert_array_equal(found["estimate"].loc[list(gold)], list(gold.values()))
    np.testing.assert_allclose(found["estimate"].loc[12:], np.arange(12, 20) % 7, atol=0.8)


def test_labels_beyond_the_ends_are_refused() -> None:
    with pytest.raises(MethodError, match="ends"):
        crowdppl.fit("robust_annotators", numbers([("x", "ann", 11.0)]), settings={"ends": (0.0, 10.0)})


def test_labels_that_the_grid_cannot_tell_apart_are_refused() -> None:
    noise = np.random.default_rng(0).normal(size=(20, 3))
    rows = [(i, a, noise[i, a]) for i in range(20) for a in range(3)]
    with pytest.raises(MethodError, match="10000"):
        crowdppl.fit("robust_annotators", numbers([*rows, (20, 0, 1e4)]))


def test_a_grid_of_one_point_is_refused() -> None:
    with pytest.raises(crowdppl.errors.MethodError, match="points=1"):
        crowdppl.method("robust_annotators", points=1)
