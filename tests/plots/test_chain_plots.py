"""Traces and ranks: which draws they show, and that ranks tell chains that differ from chains that do not."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.patches import StepPatch
from scipy.stats import hypergeom

from crowdppl.errors import MethodError
from crowdppl.inference.result import SiteResult
from crowdppl.plots.chains import plot_ranks, plot_trace, rank_counts
from crowdppl.posterior import Posterior
from tests.handmade import coloured, posterior


def with_draws(draws: np.ndarray) -> Posterior:
    """A result whose only site is a number, drawn as given (chains, draws)."""
    held = posterior()
    return replace(held, result=replace(held.result, sites={"x": SiteResult("x", (), "draws", {"draws": draws})}))


def test_a_trace_shows_the_entry_on_which_chains_agree_least() -> None:
    held = posterior()
    ax = plot_trace(held, "ability")
    assert (ax.get_ylabel(), ax.get_title()) == ("ability", "ability (annotator a2)")
    draws = held.result.sites["ability"].arrays["draws"][..., 2]
    np.testing.assert_allclose([line.get_ydata() for line in ax.lines[:4]], draws)
    np.testing.assert_allclose([line.get_ydata()[-1] for line in ax.lines[4:]], draws.mean(1))
    assert plot_trace(held).get_ylabel() == "prevalence"
    assert coloured(ax) == []


def test_without_draws_the_trace_is_the_objective() -> None:
    ax = plot_trace(posterior(drawn=False, objectives=[-9.0, -5.0, -4.5]))
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [-9, -5, -4.5])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("iteration", "objective (nats)")
    with pytest.raises(MethodError, match="kept neither"):
        plot_trace(posterior(drawn=False))
    with pytest.raises(MethodError, match="no draws of 'nothing'; sites with draws: ability, prevalence"):
        plot_trace(posterior(), "nothing")


def test_ranks_by_hand() -> None:
    counts, sizes = rank_counts(np.array([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]), 4)
    np.testing.assert_array_equal(counts, [[2, 2, 0, 0], [0, 0, 2, 2]])
    np.testing.assert_array_equal(sizes, [2, 2, 2, 2])
    # Rank r lies in bin (r - 1/2) 3/8: 1 to 3, 4 and 5, 6 to 8. Equal draws share the mean of their ranks.
    np.testing.assert_array_equal(
        rank_counts(np.array([[1.0, 3.0, 4.0, 8.0], [2.0, 5.0, 6.0, 7.0]]), 3)[1], [3, 2, 3]
    )
    np.testing.assert_array_equal(rank_counts(np.array([[0.0, 1.0], [1.0, 1.0]]), 2)[0], [[1, 1], [0, 2]])


def test_bars_bands_and_names_of_a_rank_plot() -> None:
    held = posterior()
    ax = plot_ranks(held, "ability", bins=5)
    counts, sizes = rank_counts(held.result.sites["ability"].arrays["draws"][..., 2], 5)
    assert counts[1].tolist() == [0, 0, 0, *counts[1, 3:]], "chain 2 lies above the others"
    steps = [patch for patch in ax.patches if isinstance(patch, StepPatch)]
    bands, bars = steps[::3], steps[1::3]
    low, high = hypergeom.interval(0.95, 100, 25, sizes)
    scale = 0.85 / max(counts.max(), high.max())
    for row, (band, bar) in enumerate(zip(bands, bars, strict=True)):
        np.testing.assert_allclose(bar.get_data().values, row + scale * counts[3 - row])
        np.testing.assert_allclose(band.get_data().values, row + scale * high)
        np.testing.assert_allclose(band.get_data().baseline, row + scale * low)
        np.testing.assert_allclose(bar.get_data().edges, np.concatenate([[0], np.cumsum(sizes)]))
    assert [text.get_text() for text in ax.get_yticklabels()] == ["4", "3", "2", "1"]
    assert (ax.get_title(), ax.get_xlabel()) == ("ability (annotator a2)", "rank among the 100 draws of all chains")
    assert "chain" in ax.get_ylabel() and coloured(ax) == []


def outside(draws: np.ndarray, bins: int = 10) -> float:
    steps = [p for p in plot_ranks(with_draws(draws), bins=bins).patches if isinstance(p, StepPatch)]
    share = []
    for band, bar in zip(steps[::3], steps[1::3], strict=True):
        height, ends = bar.get_data().values, band.get_data()
        share.append((height < ends.baseline - 1e-9) | (height > ends.values + 1e-9))
    plt.close("all")
    return float(np.mean(share))


def test_the_band_holds_bars_of_chains_that_agree_and_no_others() -> None:
    draws = np.random.default_rng(1).normal(size=(8, 4, 500))
    assert np.mean([outside(one) for one in draws]) == pytest.approx(0.04, abs=0.03)
    assert outside(draws[0] + np.arange(4)[:, None] / 2) > 0.5
    narrow = draws[0] * np.array([1, 1, 1, 0.5])[:, None]
    assert outside(narrow) > 0.3


def test_of_many_chains_those_are_drawn_that_differ_most() -> None:
    draws = np.random.default_rng(1).normal(size=(12, 100))
    draws[[3, 9]] += 3
    ax = plot_ranks(with_draws(draws), bins=5)
    drawn = [int(text.get_text()) for text in ax.get_yticklabels()]
    assert len(drawn) == 8 and {4, 10} <= {*drawn} and drawn == sorted(drawn, reverse=True)
    assert ax.get_title() == "x: the 8 of 12 chains that differ most"


def test_what_has_no_ranks_is_refused() -> None:
    with pytest.raises(MethodError, match="em kept no draws"):
        plot_ranks(posterior(drawn=False))
    with pytest.raises(MethodError, match="one chain"):
        plot_ranks(with_draws(np.arange(9.0)[None]))
    for bins in (1, 26):
        with pytest.raises(MethodError, match=f"bins={bins}"):
            plot_ranks(posterior(), bins=bins)
    with pytest.raises(MethodError, match="all draws of x are equal"):
        plot_ranks(with_draws(np.ones((2, 30))))
