"""Sites of a fit by name: means and draws, their dimensions, and what is refused."""

from functools import cache

import numpy as np
import pytest

import crowdppl
from crowdppl.errors import MethodError


@cache
def fitted(method: str, engine: str) -> crowdppl.Posterior:
    how = {"chains": 2, "draws": 30, "warmup": 10} if engine == "gibbs" else {}
    return crowdppl.fit(method, crowdppl.anaesthetists(), inference=engine, seed=0, **how)


def test_a_mean_is_that_of_the_dirichlet_and_of_its_draws() -> None:
    posterior = fitted("bayesian_dawid_skene", "vb")
    mean, drawn = posterior.site("confusion"), posterior.site("confusion", draws=True)
    assert mean.dims == ("annotator", "truth", "label") and drawn.dims == ("chain", "draw", *mean.dims)
    assert drawn.sizes["draw"] == 1000 and list(mean.indexes["annotator"]) == list("12345")
    counts = posterior.result.sites["confusion"].arrays["concentration"]
    np.testing.assert_allclose(mean, counts / counts.sum(-1, keepdims=True))
    apart = abs(drawn.mean(("chain", "draw")) - mean) / (drawn.std(("chain", "draw")) / 1000**0.5)
    assert float(apart.max()) < 5  # 80 entries
    np.testing.assert_allclose(posterior.confusion(), mean)


def test_a_samplers_draws_are_its_own() -> None:
    posterior = fitted("bayesian_dawid_skene", "gibbs")
    drawn = posterior.site("prevalence", draws=True)
    assert drawn.dims == ("chain", "draw", "class") and drawn.shape == (2, 30, 4)
    np.testing.assert_array_equal(drawn, posterior.result.sites["prevalence"].arrays["draws"])
    np.testing.assert_allclose(posterior.site("prevalence"), drawn.mean(("chain", "draw")))


def test_one_hot_sites_have_probabilities_and_no_draws_by_vb() -> None:
    posterior = fitted("community", "vb")
    share = posterior.site("community")
    assert share.dims[0] == "annotator" and len(share.dims) == 2
    np.testing.assert_allclose(share.sum(share.dims[1]), 1)
    with pytest.raises(MethodError, match="probabilities for community"):
        posterior.site("community", draws=True)


def test_what_is_given_out_is_a_copy() -> None:
    posterior = fitted("one_coin", "vb")
    posterior.site("ability")[:] = 0
    assert float(posterior.site("ability").min()) > 0


def test_what_is_not_there_is_refused() -> None:
    with pytest.raises(MethodError, match=r"no site 'skill'; it has .*ability"):
        fitted("one_coin", "vb").site("skill")
    with pytest.raises(MethodError, match="a point for ability"):
        fitted("one_coin", "em").site("ability", draws=True)


def test_a_mean_field_is_narrower() -> None:
    model = crowdppl.method("bayesian_dawid_skene", prior_strength=10.0, prior_accuracy=0.7)
    design = crowdppl.random_design(100, 5, 3, classes=["no", "yes"], seed=0)
    posterior = crowdppl.fit(model, crowdppl.simulate(model, design, seed=2).data, inference="vb")
    found = posterior.result.sites["confusion"]
    widths = {}
    for widened, counts in ((True, found.spread), (False, found.arrays["concentration"])):
        first, second = np.moveaxis(counts, -1, 0)
        sd = np.sqrt(first * second / (first + second + 1)) / (first + second)
        drawn = posterior.site("confusion", draws=True, widened=widened).std(("chain", "draw"))
        np.testing.assert_allclose(drawn[..., 0], sd, rtol=5 / 2000**0.5)  # five standard errors of 1,000 draws
        widths[widened] = sd
    assert (widths[False] < 0.9 * widths[True]).all()
