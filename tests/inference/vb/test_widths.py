"""Widths of vb where labels are many or their density curves upwards, and what says that they are mean field's."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import crowdppl
from crowdppl.inference.families import FAMILIES
from crowdppl.inference.result import Fit
from crowdppl.inference.target import Target
from crowdppl.inference.vb import linear_response, short_chains
from crowdppl.results.annotators import annotators
from tests.benchmarks.test_widths import drawn


def deviations(fit: Fit) -> np.ndarray:
    table = annotators(fit)
    return table[[name for name in table if str(name).endswith("_sd")]].to_numpy()


@pytest.mark.parametrize("method", ["gaussian_annotators", "gain_annotators", "poisson_annotators"])
def test_few_chains_are_as_wide_as_gibbs(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    for name in ("FACTORS", "FEW_FACTORS"):
        monkeypatch.setattr(short_chains, name, 0)
    story, data, *_ = drawn(method, 300, 0)
    few = crowdppl.fit(story, data, inference="vb", seed=0)
    exact = crowdppl.fit(story, data, inference="gibbs", seed=0, draws=250, warmup=100)
    ratio = deviations(few) / deviations(exact)
    assert 0.9 < np.exp(np.log(ratio).mean()) < 1.1
    assert few.truth()["sd"].mean() == pytest.approx(exact.truth()["sd"].mean(), rel=0.1)
    narrow = deviations(replace(few, result=few.result.mean_field()))
    assert np.exp(np.log(narrow / deviations(exact)).mean()) < 0.75
    assert "widths" not in few.diagnostics()


def of_grades(**options: Any) -> crowdppl.Posterior:
    """A fit whose density curves upwards at vb's means, and not at its mode."""
    story, data, *_ = drawn("rater_facets", 20, 6)
    return crowdppl.fit(story, data, inference="vb", seed=0, **options)


def test_where_the_density_curves_upwards_that_at_its_mode_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = of_grades()
    assert "mean field" not in fit.summary()
    severity = fit.result.sites["severity"]
    drawn = severity.drawn()
    assert drawn is not None
    assert np.abs(drawn.mean(0) - severity.mean).max() < 0.1 * drawn.std(0).max()
    monkeypatch.setattr(Target, "draws_around", lambda *_: None)  # as if there was no mode
    assert "too narrow: the posterior has no maximum near" in of_grades().summary()


def test_fits_with_the_widths_of_mean_field_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    story, data, *_ = drawn("gaussian_annotators", 20, 0)
    fit = crowdppl.fit(story, data, inference="vb", seed=0)
    new = pd.DataFrame({"item": [20, 20, 21], "annotator": [0, 1, 2], "label": [0.5, 1.0, -1.0]})
    assert "earlier fit" in fit.update(new).diagnostics()["widths"]
    monkeypatch.setattr(linear_response, "CURVED", 0)
    fit = of_grades()
    assert "too long" in fit.diagnostics()["widths"]
    assert "too narrow" in fit.summary()


def test_the_unit_of_gains_does_not_creep() -> None:
    story, data, *_ = drawn("gain_annotators", 200, 7)
    fit = crowdppl.fit(story, data, inference="vb", seed=7, max_iterations=100)
    found = fit.diagnostics()
    assert found["converged"]  # in small steps alone, not within 1,000 iterations, when it is at -1,094.517
    assert np.diff(found["objectives"]).min() > -1e-6
    assert found["objective"] == pytest.approx(-1094.443, abs=0.01)


@pytest.mark.parametrize("method", ["gain_annotators", "poisson_annotators"])
def test_known_truths_tell_the_unit_of_gains(method: str) -> None:
    story, data, truth, _ = drawn(method, 60, 7)
    found = crowdppl.fit(story, data, inference="vb", seed=7, gold=dict(enumerate(truth[:3]))).diagnostics()
    assert found["converged"]
    assert np.diff(found["objectives"]).min() > -1e-6  # a step by priors alone lowers it


@pytest.mark.parametrize(
    ("family", "value", "powers"), [("gamma", [1.5], [-1.0]), ("normal_gamma", [1.2, -0.7, 2.0], [-1.0, 0.5, -2.0])]
)
def test_exponents_are_those_of_statistics(family: str, value: list[float], powers: list[float]) -> None:
    x, p, s = torch.tensor(value).double(), torch.tensor(powers).double(), 1.3
    one = FAMILIES[family]
    if len(value) == 1:
        before, after = one.statistic(x[0]), one.statistic((x * s**p)[0])
    else:
        before, after = one.statistic(x), one.statistic(x * s**p)
    expected = before * s ** one.exponents(p)
    expected[0] += p[-1] * np.log(s)
    torch.testing.assert_close(after, expected)
