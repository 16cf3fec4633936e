"""Simulation-based calibration as users call it: what is ranked, what is found out, what is refused."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist
import pytest
import torch
from scipy import stats

from crowdppl import method, random_design, simulate
from crowdppl.data.annotations import Annotations
from crowdppl.errors import MethodError
from crowdppl.primitives import annotate, coin_table, plates, prevalence, truth
from crowdppl.testing import sbc
from crowdppl.testing.sbc import RankCheck, rank_check, uniform_band
from tests.handmade import coloured

SMALL: dict[str, Any] = {"simulations": 2, "max_iterations": 3, "inference": "vb"}


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets two simulations do, where no p-value is asked for."""
    monkeypatch.setattr(sbc, "LEAST", 2)


@dataclass(frozen=True)
class Coins:
    """Accuracies that are drawn under one prior and fitted under another, unless both are the same."""

    right: float = 7.0
    claimed: float = 7.0

    def model(self, data: Any) -> None:
        log_p = prevalence(data, "uniform")  # known truths are not drawn, so that they have no prevalence
        coin = torch.tensor([self.claimed if data.as_block().has_labels else self.right, 3.0])
        with plates.annotators(data):
            ability = pyro.sample("ability", dist.Dirichlet(coin))
        with plates.items(data):
            annotate(data, coin_table(ability.log().unsqueeze(-2), data.n_classes), truth(data, log_p))


def known(n_items: int = 12) -> Annotations:
    """A design whose truths are all known, so that vb's posterior is exact."""
    design = random_design(n_items, 4, 3, 2, seed=1)
    return design.with_gold({item: int(item) % 2 for item in design.items})


def made(true: np.ndarray, draws: np.ndarray, bins: int = 4) -> RankCheck:
    return RankCheck("mine", "gibbs", pd.DataFrame({"x": true}), {"x": draws}, 0, bins)


def test_ranks_count_what_lies_below_and_break_ties_by_lot() -> None:
    draws = np.tile(np.arange(9.0), (3, 1))
    assert made(np.array([-1.0, 4.5, 9.0]), draws).ranks["x"].tolist() == [0, 5, 9]
    tied = made(np.zeros(400), np.zeros((400, 9))).ranks["x"]
    assert tied.between(0, 9).all() and stats.chisquare(np.bincount(tied, minlength=10)).pvalue > 1e-3


def test_the_table_is_the_chi_square_of_bins_that_may_be_uneven() -> None:
    rng = np.random.default_rng(2)
    true, draws = rng.normal(size=300), 0.5 * rng.normal(size=(300, 10))  # 11 ranks in 4 bins: 3, 3, 3, 2
    check = made(true, draws)
    rank = check.ranks["x"].to_numpy()
    counts = [np.isin(rank, part).sum() for part in ([0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10])]
    wanted = stats.chisquare(counts, 300 * np.array([3, 3, 3, 2]) / 11)
    row = check.table.loc["x"]
    assert row["p_value"] == pytest.approx(wanted.pvalue) and check.p_value == row["p_value"] < 1e-6
    assert row["mean"] == pytest.approx(rank.mean() / 10)
    assert row["spread"] == pytest.approx(rank.std() / 10**0.5) and row["spread"] > 1.2  # too narrow
    assert "mine by gibbs in 300 simulations" in repr(check)


def test_the_band_holds_whole_lines_of_uniform_ranks_as_often_as_it_says() -> None:
    rng = np.random.default_rng(9)
    shares = rng.multinomial(150, np.full(20, 1 / 20), 4000).cumsum(1) / 150
    low, high = uniform_band(150, 20, 0.9)
    inside = ((shares >= low - 1e-9) & (shares <= high + 1e-9)).all(1).mean()
    assert inside == pytest.approx(0.9, abs=0.025)
    place = np.arange(1, 21) / 20
    pointwise = [stats.binom.ppf(q, 150, place) / 150 for q in (0.05, 0.95)]
    assert ((shares >= pointwise[0]) & (shares <= pointwise[1])).all(1).mean() < 0.7


def test_true_values_are_those_that_the_model_drew(few: None) -> None:
    """Recomputed label by label for an item-level site, whose items stand in another order inside."""
    model, design = method("glad"), random_design(7, 4, 3, 3, seed=3)
    check = rank_check(model, design, ranks=5, quantities={"first": lambda v: v["difficulty"][:, 0]}, **SMALL)
    first = int(np.random.SeedSequence(0).generate_state(2)[0])
    drawn = simulate(model, design, seed=first)
    ability, difficulty = drawn.parameters["ability"], drawn.parameters["difficulty"]
    log_p = np.zeros((7, 3))
    for item, annotator, label in drawn.data.frame().itertuples(index=False):
        right = 1 / (1 + np.exp(-ability[annotator] * np.exp(-difficulty[item])))
        log_p[item] += np.log(np.where(np.arange(3) == label, right, (1 - right) / 2))
    joint = np.exp(log_p) / 3
    share = joint / joint.sum(1, keepdims=True)
    true = check.true.loc[0]
    assert true["log-likelihood"] == pytest.approx(np.log(joint.sum(1)).sum())
    assert true["truths"] == pytest.approx(np.log(share[np.arange(7), drawn.truth]).sum())
    assert true["first"] == pytest.approx(difficulty[0])
    assert true["difficulty"] == pytest.approx(difficulty.mean())
    assert {x.shape for x in check.draws.values()} == {(2, 5)}


def test_what_never_varies_is_left_out_and_one_hot_sites_are_ranked(few: None) -> None:
    check = rank_check("community", random_design(5, 3, 2, 2), ranks=9, **SMALL)
    assert list(check.table.index) == [
        *("log-likelihood", "truths", "mean accuracy"),
        *("prevalence", "weights", "shared", "community"),
    ]
    assert "truths" not in rank_check(Coins(), known(), ranks=9, **SMALL).table.index


@pytest.mark.slow
def test_a_prior_that_is_not_the_one_drawn_from_is_found_out() -> None:
    check = rank_check(Coins(claimed=1.0), known(), inference="vb", simulations=40, ranks=39)
    assert check.table.loc["mean accuracy", "mean"] > 0.7 and check.p_value < 1e-4


@pytest.mark.slow
def test_an_exact_posterior_passes_and_a_narrow_one_does_not() -> None:
    check = rank_check(Coins(), known(), inference="vb", simulations=100)
    assert (check.bins, check.unsettled, check.n_draws) == (10, 0, 99)
    assert check.table["p_value"].min() > 1e-4, check
    narrow = {n: x.mean(1, keepdims=True) * 0.4 + 0.6 * x for n, x in check.draws.items()}
    assert replace(check, draws=narrow).p_value < 1e-4


def test_the_picture_shows_shares_beyond_uniform_and_says_what_leaves_the_band() -> None:
    rng = np.random.default_rng(4)
    draws = rng.normal(size=(200, 19))
    fine, narrow = rng.normal(size=200), 3 * rng.normal(size=200)
    check = RankCheck("mine", "vb", pd.DataFrame({"a": fine, "b": narrow}), {"a": draws, "b": draws}, 0, 20)
    ax = check.plot()
    lines = {line.get_label(): line for line in ax.lines if not str(line.get_label()).startswith("_")}
    assert set(lines) == {"a", "b (outside)"}
    x, y = lines["a"].get_data()
    np.testing.assert_allclose(x, np.arange(1, 21) / 20)
    np.testing.assert_allclose(y, [(check.ranks["a"] < n).mean() - n / 20 for n in range(1, 21)])
    assert coloured(ax) == [] and check.plot(ax=ax) is ax
    with pytest.raises(MethodError, match="level=2"):
        check.plot(level=2)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"simulations": 19}, "simulations=19"),
        ({"inference": "em"}, "'ability'"),
        ({"inference": "gibbs", "chains": 2, "draws": 4, "warmup": 1}, "ranks=9"),
        ({"quantities": {"bad": lambda v: v["ability"]}}, "'bad'"),
    ],
)
def test_what_cannot_be_ranked_is_refused(wrong: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"inference": "vb", "ranks": 9, **wrong}
    with pytest.raises(MethodError, match=message):
        rank_check("one_coin", random_design(5, 4, 2, 2), **given)


@pytest.mark.slow
def test_gibbs_passes_where_the_independence_of_vb_is_found_out() -> None:
    """One by one its parameters are at most a fifth too wide, since rows are as wide as the posterior is around
    vb's mean, and hardly too narrow; drawn apart they explain the labels less well.
    """
    model = method("bayesian_dawid_skene", prevalence_strength=2.0, prior_strength=10.0, prior_accuracy=0.7)
    design = random_design(40, 4, 3, 2, seed=0)
    one_each: dict[str, Any] = {"chains": 99, "draws": 1, "warmup": 20}
    exact = rank_check(model, design, inference="gibbs", simulations=50, **one_each)
    assert exact.table["p_value"].min() > 1e-4, exact
    wide = rank_check(model, design, inference="vb", simulations=50)
    each = wide.table.loc[["mean accuracy", "prevalence", "confusion"]]
    assert each["p_value"].min() > 1e-4 and each["spread"].between(0.8, 1.1).all(), wide
    assert wide.table.loc["log-likelihood", "p_value"] < 1e-3, wide
