"""Which items people should label, with which chances, and how many."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import crowdppl
from crowdppl import draw_items, estimate, plan_estimate
from crowdppl.errors import CrowdpplError, DataError, MethodError

N = 400


@cache
def world(seed: int = 3) -> tuple[pd.Series, pd.DataFrame]:
    """Truths of items, and probabilities that are sure of most items, unsure of others, and up to .02 too high."""
    stream = np.random.default_rng(seed)
    kind = stream.random(N)
    p = np.where(kind < 0.4, 0.01, np.where(kind < 0.8, 0.99, stream.uniform(0.3, 0.7, N)))
    truth = np.where(stream.random(N) < p, "yes", "no")
    high = 0.02 + 0.98 * p
    return pd.Series(truth), pd.DataFrame({"no": 1 - high, "yes": high})


def test_chances_are_how_often_items_are_drawn() -> None:
    """Of 400 draws; a share has a standard error of at most .025."""
    _, proxy = world()
    proxy = proxy.head(30)
    draws = [draw_items("share", proxy, 10, of="yes", seed=seed) for seed in range(400)]
    chance = pd.concat(draws).groupby("item")["chance"]
    assert chance.std().max() < 1e-12
    often = chance.size() / len(draws)
    assert len(often) == 30
    assert abs(often - chance.first()).max() < 0.1
    assert abs(often - chance.first()).mean() < 0.03
    assert chance.first().sum() == pytest.approx(10)
    sure = abs(proxy["yes"] - 0.5) > 0.4
    assert chance.first()[~sure].min() > 1.2 * chance.first()[sure].max() > 0.1


def test_more_items_come_after_those_drawn_before_whatever_the_order_of_rows() -> None:
    _, proxy = world()
    few, many = (draw_items("share", proxy, n, of="yes", seed=1) for n in (20, 60))
    assert few["item"].tolist() == many["item"].tolist()[:20]
    assert (many.set_index("item")["chance"].loc[few["item"]] > few.set_index("item")["chance"]).all()
    again = draw_items("share", proxy.sample(frac=1, random_state=0), 20, of="yes", seed=1)
    pd.testing.assert_frame_equal(few.sort_values("item"), again.sort_values("item"), check_index_type=False)
    assert few["item"].tolist() != draw_items("share", proxy, 20, of="yes", seed=2)["item"].tolist()
    everything = draw_items("share", proxy, N, of="yes")
    assert (everything["chance"] == 1).all()
    assert everything["item"].nunique() == N


def test_intervals_of_drawn_items_hold_and_errors_are_smaller_than_at_random() -> None:
    """Of 200 samples each: .95 has a standard error of .0154, the ratio of squared errors one of a seventh."""
    truth, proxy = world()
    share, off, hits = float((truth == "yes").mean()), {"random": [], "drawn": []}, 0
    for seed in range(200):
        drawn = draw_items("share", proxy, 60, of="yes", seed=seed)
        found = estimate("share", truth[drawn["item"]], proxy, of="yes", chances=drawn, method="ppi")
        hits += found.low <= share <= found.high
        off["drawn"].append(found.value - share)
        even = truth.sample(60, random_state=seed)
        off["random"].append(estimate("share", even, proxy, of="yes", method="ppi").value - share)
    assert 0.90 <= hits / 200 <= 0.985
    assert abs(np.mean(off["drawn"])) < 3 * np.std(off["drawn"]) / np.sqrt(200)
    assert np.mean(np.square(off["random"])) > 1.1 * np.mean(np.square(off["drawn"]))


@cache
def judges() -> crowdppl.Posterior:
    stream = np.random.default_rng(0)
    truth = stream.integers(0, 2, 150)
    labels = np.where(stream.random((150, 3)) < 0.2, 1 - truth[:, None], truth[:, None])
    item, judge = np.indices(labels.shape)
    data = crowdppl.Annotations.from_arrays(item.ravel(), judge.ravel(), labels.ravel(), kind="nominal")
    return crowdppl.fit("one_coin", data, inference="em", seed=0)


@pytest.mark.parametrize(
    ("quantity", "of"), [("share", 1), ("mean", None), ("accuracy", 0), ("accuracy", None), ("difference", (0, 1))]
)
def test_a_posterior_suggests_items_for_every_figure(quantity: str, of: Any) -> None:
    fitted = judges()
    drawn = fitted.suggest_labels(40, for_="estimate", quantity=quantity, of=of, seed=2)
    pd.testing.assert_frame_equal(drawn, draw_items(quantity, fitted, 40, of=of, seed=2))  # type: ignore[arg-type]
    assert drawn["chance"].between(0, 1).all()


def test_numbers_are_drawn_by_how_unsure_they_are() -> None:
    data = crowdppl.datasets.example("real")
    fitted = crowdppl.fit("gaussian_annotators", data, inference="vb", seed=0)
    drawn = draw_items("mean", fitted, 10)
    assert drawn["chance"].nunique() > 1
    assert draw_items("mean", pd.Series(np.arange(20.0)), 5)["chance"].to_numpy() == pytest.approx(0.25)


def test_without_a_proxy_that_tells_the_number_is_the_textbooks() -> None:
    """Of a share s, n0 = (z / half)^2 s (1 - s), and n = n0 / (1 + n0 / N)."""
    items = 2000
    judge = pd.Series(np.where(np.arange(items) % 10 < 4, "yes", "no"))
    plan = plan_estimate("share", judge, of="yes", width=0.1, method="people", power=0.5, studies=40)
    n0 = (2 * norm.ppf(0.975) / 0.1) ** 2 * 0.24
    assert plan.labels == pytest.approx(n0 / (1 + n0 / items), rel=0.04)
    assert plan.items == items


def test_power_is_the_textbooks() -> None:
    """Of a mean m above a: n0 = ((z_power + z) s / (m - a))^2."""
    items = 2000
    judge = pd.Series(np.where(np.arange(items) % 10 < 4, "yes", "no"))
    plan = plan_estimate("share", judge, of="yes", above=0.3, method="people", studies=80)
    n0 = ((norm.ppf(0.8) + norm.ppf(0.975)) / 0.1) ** 2 * 0.24
    assert plan.labels == pytest.approx(n0 / (1 + n0 / items), rel=0.2)
    below = plan_estimate("share", judge, of="no", below=0.7, method="people", studies=80)
    assert below.labels == pytest.approx(plan.labels, rel=0.2)


@pytest.mark.slow
def test_a_promised_width_is_kept_in_four_studies_of_five() -> None:
    """Of 40 studies, each with a pilot of its own: .8 has a standard error of .063."""
    truth, proxy = world()
    kept, numbers = [], []
    for seed in range(40):
        order = truth.sample(frac=1, random_state=seed)
        plan = plan_estimate(
            "share", proxy, order.iloc[:40], of="yes", width=0.1, method="ppi++", studies=10, seed=seed
        )
        found = estimate("share", order.iloc[: plan.labels], proxy, of="yes", method="ppi++")
        kept.append(found.high - found.low <= 0.14)
        numbers.append(plan.labels)
    assert np.mean(kept) > 0.67
    alone = plan_estimate("share", proxy, of="yes", width=0.1, studies=10).labels
    assert np.median(numbers) < 0.95 * alone


def test_fewer_labels_do_where_the_proxy_errs_less_and_items_are_suggested() -> None:
    _, proxy = world()
    options: Any = {"of": "yes", "width": 0.1, "method": "ppi", "studies": 12}
    numbers = [plan_estimate("share", proxy, error=error, **options).labels for error in (0.02, 0.1, 0.3)]
    assert numbers == sorted(numbers) and numbers[0] < numbers[2]
    assert plan_estimate("share", proxy, error=0.1, draw="suggested", **options).labels < numbers[1]


def test_plans_of_numbers_follow_the_error_of_the_proxy() -> None:
    stream = np.random.default_rng(0)
    value = pd.Series(stream.normal(size=600))
    proxy = value + 0.5 * stream.normal(size=600)
    of_pilot = plan_estimate("mean", proxy, value.sample(60, random_state=0), width=0.2, power=0.5)
    assumed = plan_estimate("mean", proxy, width=0.2, error=0.45, power=0.5)
    n0 = (2 * norm.ppf(0.975) * 0.45 / 0.2) ** 2  # what is left of the value given the proxy has sd 1 / sqrt(5)
    for plan in (of_pilot, assumed):
        assert plan.labels == pytest.approx(n0 / (1 + n0 / 600), rel=0.3)


REFUSED: dict[str, tuple[dict[str, Any], type[CrowdpplError], str]] = {
    "nothing": ({"width": None}, MethodError, "nothing is promised"),
    "width": ({"width": 0}, MethodError, "width=0"),
    "power": ({"power": 1}, MethodError, "power=1"),
    "false": ({"width": None, "above": 0.9}, MethodError, "in .*% of simulated studies, no number of labels"),
    "error": ({"error": 0.6}, MethodError, "error=0.6"),
    "both": ({"people": world()[0].head(30), "error": 0.1}, MethodError, "not both"),
    "draw": ({"draw": "best"}, MethodError, "draw='best'"),
    "coefficients": ({"quantity": "coefficients"}, MethodError, "quantity='coefficients'"),
    "class": ({"of": "maybe"}, MethodError, "of='maybe'"),
    "others": ({"people": pd.Series(["no"] * 12, [f"z{n}" for n in range(12)])}, DataError, "12 of 12 items that"),
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_cannot_be_planned_is_refused(name: str) -> None:
    wrong, error, words = REFUSED[name]
    given: dict[str, Any] = {"quantity": "share", "proxy": world()[1], "of": "yes", "width": 0.1, "studies": 10}
    with pytest.raises(error, match=words):
        plan_estimate(**{**given, **wrong})


def test_what_cannot_be_drawn_is_refused() -> None:
    _, proxy = world()
    with pytest.raises(MethodError, match="n=401, but there are 400 items"):
        draw_items("share", proxy, 401, of="yes")
    tags = crowdppl.Annotations.from_arrays(
        [f"s{n // 4} | {n % 4}" for n in range(40)] * 2, ["a"] * 40 + ["b"] * 40, ["O", "B-x"] * 40, kind="sequence"
    )
    with pytest.raises(MethodError, match="whole sequences or sets"):
        draw_items("share", tags, 10, of="O")
