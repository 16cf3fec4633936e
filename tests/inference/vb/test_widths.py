"""Widths of vb where labels are many or their density curves upwards, and what says that they are mean field's."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdppl
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
    few, exact = (crowdppl.fit(story, data, inference=engine, seed=0) for engine in ("vb", "gibbs"))
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
