"""Figures of all items from labels by people of some: textbook formulas, published code, coverage, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

import crowdppl
from crowdppl import estimate
from crowdppl.errors import CrowdpplError, DataError, MethodError

N = 400
PPI = [-0.08914755531847066, -0.24833949908491762, 0.07004438844797631]
PPI_PLUS = [-0.03485125081863105, -0.18965922127856727, 0.11995671964130517]
PPI_OLS = [-0.06868573183684418, 0.03476495372573648]


def numbers(seed: int = 0) -> tuple[pd.Series, pd.Series]:
    """Values of items, and a proxy that is biased and noisy."""
    stream = np.random.default_rng(seed)
    value = stream.normal(size=N)
    ids = [f"i{n}" for n in range(N)]
    return pd.Series(value, ids), pd.Series(0.7 * value + 0.5 * stream.normal(size=N) + 1, ids)


def classes(seed: int = 0) -> tuple[pd.Series, pd.DataFrame, pd.Series]:
    """Truths "no" and "yes" of items, probabilities that are too high, and a group of each item."""
    stream = np.random.default_rng(seed)
    group = stream.integers(0, 4, N)
    p = 1 / (1 + np.exp(1.5 - group))
    truth = np.where(stream.random(N) < p, "yes", "no")
    high = 0.15 + 0.8 * p
    return pd.Series(truth), pd.DataFrame({"no": 1 - high, "yes": high}), pd.Series(group)


def test_means_are_those_of_ppi_python() -> None:
    """Figures of ppi-python 0.2.3 (ppi_mean_ci, ppi_ols_pointestimate) for these numbers."""
    stream = np.random.default_rng(0)
    y = stream.normal(size=500)
    f = y * 0.7 + stream.normal(size=500) * 0.5
    x = pd.DataFrame({"a": stream.normal(size=500)})
    people, proxy = pd.Series(y[:60]), pd.Series(f)
    for method, wanted in (
        ("ppi", PPI),
        ("ppi++", PPI_PLUS),
    ):
        found = estimate("mean", people, proxy, method=method, population="beyond")
        assert [found.value, found.low, found.high] == pytest.approx(wanted, abs=1e-10)
    found = estimate("coefficients", people, proxy, of=x, method="ppi")
    assert found.table["estimate"].tolist() == pytest.approx(PPI_OLS, abs=1e-10)


def test_people_alone_are_a_textbook_sample() -> None:
    value, proxy = numbers()
    seen = value.iloc[:50]
    found = estimate("mean", seen, proxy, method="people")
    se = seen.std(ddof=1) / np.sqrt(50) * np.sqrt(1 - 50 / N)
    assert found.value == pytest.approx(seen.mean(), abs=1e-12)
    assert found.table["se"].item() == pytest.approx(se, abs=1e-12)
    assert found.high - found.value == pytest.approx(t.ppf(0.975, 49) * se, abs=1e-12)
    alone = estimate("mean", seen)  # of a large population
    assert alone.table["se"].item() == pytest.approx(seen.std(ddof=1) / np.sqrt(50), abs=1e-12)


def test_strata_and_clusters_are_those_of_the_textbook() -> None:
    value, proxy = numbers()
    stratum = pd.Series(np.arange(N) % 2, value.index)
    seen = pd.concat([value[stratum == 0].iloc[:20], value[stratum == 1].iloc[:40]])
    found = estimate("mean", seen, proxy, method="people", strata=stratum)
    parts = [value[stratum == h].iloc[: 20 * (h + 1)] for h in (0, 1)]
    variance = sum(part.var(ddof=1) / len(part) * (1 - len(part) / 200) / 4 for part in parts)
    assert found.value == pytest.approx(np.mean([part.mean() for part in parts]), abs=1e-12)
    assert found.table["se"].item() == pytest.approx(np.sqrt(variance), abs=1e-12)

    cluster = pd.Series(np.arange(N) // 8, value.index)
    seen = value[cluster < 12]
    found = estimate("mean", seen, proxy, method="people", clusters=cluster)
    means = seen.groupby(cluster).mean()
    assert found.value == pytest.approx(means.mean(), abs=1e-12)
    assert found.table["se"].item() == pytest.approx(means.std(ddof=1) / np.sqrt(12) * np.sqrt(1 - 12 / 50))


def test_parts_of_clusters_leave_all_clusters_unknown() -> None:
    """One item of each pair is labelled: every cluster is seen, and none is known."""
    value, proxy = numbers()
    cluster = pd.Series(np.arange(N) // 2, value.index)
    found = estimate("mean", value.iloc[::2], proxy, method="people", clusters=cluster)
    assert found.table["se"].item() == pytest.approx(value.iloc[::2].std(ddof=1) / np.sqrt(N / 2))


def test_tokens_of_a_sequence_are_a_cluster() -> None:
    ids = [f"s{n // 4} | {n % 4}" for n in range(160)]
    tags = np.random.default_rng(0).choice(["O", "B-x"], 160)
    data = crowdppl.Annotations.from_arrays(
        ids * 2, ["a"] * 160 + ["b"] * 160, [*tags, *tags[::-1]], kind="sequence"
    )
    people = pd.Series(tags[:60], data.items[:60])
    sequence = pd.Series([str(name).split(" | ")[0] for name in data.items], data.items)
    tables = [
        estimate("share", people, data, of="O", method="people", clusters=named).table for named in (None, sequence)
    ]
    pd.testing.assert_frame_equal(*tables)


@pytest.mark.parametrize("kind", ["angle", "ranking"])
def test_a_mean_of_angles_or_ranks_is_refused(kind: str) -> None:
    data = crowdppl.datasets.example(kind)
    method = {"angle": "von_mises_annotators", "ranking": "plackett_luce"}[kind]
    fitted = crowdppl.fit(method, data, inference="vb", seed=0)
    with pytest.raises(MethodError, match="no meaning on a line"):
        estimate("mean", data, fitted)


@pytest.mark.parametrize("method", ["people", "ppi", "ppi++", "linear", "map"])
def test_a_census_is_exact(method: Any) -> None:
    truth, proxy, group = classes()
    found = estimate("share", truth, proxy, of="yes", method=method, by=group)
    shares = (truth == "yes").groupby(group).mean()
    assert found.table["estimate"].to_numpy() == pytest.approx(shares.to_numpy(), abs=1e-12)
    assert (found.table["high"] - found.table["low"]).max() <= 1e-7


def test_figures_of_all_items_are_counts_when_people_saw_all() -> None:
    data = crowdppl.anaesthetists()
    frame = data.frame().drop_duplicates(["item", "annotator"])
    people = frame[frame["annotator"] == "2"].set_index("item")["label"]
    kept = crowdppl.Annotations.from_frame(frame, kind="nominal")
    rows = {name: frame[frame["annotator"] == name].set_index("item")["label"] for name in ("1", "4")}
    right = {name: (rows[name] == people).mean() for name in rows}
    found = {of: estimate("accuracy", people, kept, of=of, method="linear").value for of in rows}
    assert found == pytest.approx(right, abs=1e-12)
    assert estimate("mean", people, kept, method="people").value == pytest.approx(people.mean(), abs=1e-12)
    assert estimate("win_rate", people, kept, of=1, tie=2, method="people").value == pytest.approx(
        (people == 1).mean() + (people == 2).mean() / 2, abs=1e-12
    )


def test_win_rates_of_an_object_count_ties_half_whichever_side_it_is_on() -> None:
    stream = np.random.default_rng(1)
    others = [f"m{n}" for n in range(60)]
    left = ["A" if n % 2 else other for n, other in enumerate(others)]
    right = [other if n % 2 else "A" for n, other in enumerate(others)]
    answer = stream.choice(["left", "right", "tie"], 60, p=[0.5, 0.3, 0.2])
    pairs = [f"{a} | {b}" for a, b in zip(left, right, strict=True)]
    data = crowdppl.Annotations.from_arrays(pairs, ["x"] * 60, answer, kind="pair")
    side = np.where(np.array(left) == "A", "left", "right")
    found = estimate("win_rate", data, data, of="A", method="people")
    assert found.value == pytest.approx((answer == side).mean() + (answer == "tie").mean() / 2, abs=1e-12)
    with pytest.raises(MethodError, match="compared in no pair"):
        estimate("win_rate", data, data, of="Z", method="people")


def test_order_of_rows_and_spelling_of_ids_do_not_matter() -> None:
    truth, proxy, group = classes()
    seen = truth.sample(160, random_state=0)
    first = estimate("share", seen, proxy, of="yes", by=group).table
    texts = seen.set_axis(seen.index.map(str)).sample(frac=1, random_state=1)
    again = estimate("share", texts, proxy, of="yes", by=group).table
    pd.testing.assert_frame_equal(first, again)


def test_several_labels_of_an_item_are_averaged() -> None:
    truth, proxy, _ = classes()
    twice = pd.concat([truth.iloc[:60], truth.iloc[:60]])
    once = estimate("share", truth.iloc[:60], proxy, of="yes").table
    pd.testing.assert_frame_equal(once, estimate("share", twice, proxy, of="yes").table)


def covered(method: str, design: str, runs: int, **more: Any) -> tuple[float, float]:
    """How often intervals hold the share of all items, and the mean error in their standard errors."""
    truth, proxy, group = classes(3)
    share, hits, off = float((truth == "yes").mean()), 0, []
    cluster = pd.Series(np.arange(N) // 4)
    chance = (0.25 * proxy["yes"] / proxy["yes"].mean()).clip(0.05, 1)
    for seed in range(runs):
        stream = np.random.default_rng(seed)
        options: dict[str, Any] = {}
        rows = stream.permutation(N)[:60]
        if design == "strata":
            rows = np.concatenate([stream.permutation(np.flatnonzero(group == h))[:15] for h in range(4)])
            options["strata"] = group
        elif design == "clusters":
            rows = np.flatnonzero(cluster.isin(stream.permutation(N // 4)[:20]))
            options["clusters"] = cluster
        elif design == "chances":
            rows = np.flatnonzero(stream.random(N) < chance)
            options["chances"] = chance
        found = estimate("share", truth.iloc[rows], proxy, of="yes", method=method, seed=seed, **options, **more)
        hits += found.low <= share <= found.high
        off.append((found.value - share) / found.table["se"].item())
    return hits / runs, float(np.mean(off))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "design"),
    [
        *(("people", "strata"), ("ppi++", "clusters"), ("linear", "random"), ("linear", "chances")),
        *(("map", "random"), ("map", "strata"), ("map", "clusters"), ("map", "chances")),
    ],
)
def test_intervals_hold_whatever_the_proxy_says(method: str, design: str) -> None:
    """Of 200 samples: .95 has a standard error of .0154. The proxy's own mean is .13 too high."""
    hold, off = covered(method, design, 200)
    assert 0.90 <= hold <= 0.985
    assert abs(off) < 0.2


def test_the_check_of_intervals_can_fail() -> None:
    """Of samples in which one half of the items comes nine times as often, and nobody says so."""
    truth, _, group = classes(3)
    share, hits, chance = float((truth == "yes").mean()), 0, 1 + 8.0 * (group > 1)
    for seed in range(40):
        rows = np.random.default_rng(seed).choice(N, 60, replace=False, p=chance / chance.sum())
        found = estimate("share", truth.iloc[rows], items=truth.index, of="yes")
        hits += found.low <= share <= found.high
    assert hits < 30


@pytest.mark.slow
def test_bootstrap_intervals_hold() -> None:
    assert 0.915 <= covered("ppi++", "random", 200, interval="bootstrap")[0] <= 0.985


@pytest.mark.slow
def test_intervals_at_any_time_hold_at_all_times() -> None:
    """50 studies, each looked at after every tenth item; a t interval misses at some time in many more."""
    truth, proxy, _ = classes(3)
    share, missed = float((truth == "yes").mean()), {"anytime": 0, "t": 0}
    for seed in range(50):
        order = np.random.default_rng(seed).permutation(N)
        for interval in missed:
            looks = (
                estimate("share", truth.iloc[order[:n]], proxy, of="yes", method="ppi++", interval=interval)
                for n in range(30, 200, 10)
            )
            missed[interval] += any(not found.low <= share <= found.high for found in looks)
    assert missed["anytime"] <= 5  # .05 of 50, and two standard errors
    assert missed["t"] > 5


def test_the_map_takes_a_better_judge_from_labels_by_people() -> None:
    """One judge of five is right, the others share errors: the map is worth more than their mean."""
    stream = np.random.default_rng(0)
    truth = stream.integers(0, 2, 600)
    shared = np.where(stream.random(600) < 0.35, 1 - truth, truth)
    labels = np.stack([shared, shared, shared, shared, np.where(stream.random(600) < 0.05, 1 - truth, truth)], 1)
    item, judge = np.indices(labels.shape)
    data = crowdppl.Annotations.from_arrays(item.ravel(), judge.ravel(), labels.ravel(), kind="nominal")
    seen = pd.Series(truth).iloc[stream.permutation(600)[:100]]
    worth = {m: estimate("share", seen, data, of=1, method=m).table["worth"].item() for m in ("ppi++", "map")}
    assert worth["map"] > 2 > worth["ppi++"]


def proxy_with_gold() -> Any:
    data = crowdppl.anaesthetists()
    return crowdppl.fit("one_coin", data.with_gold({data.items[0]: 1}), inference="em")


REFUSED: dict[str, tuple[dict[str, Any], type[CrowdpplError], str]] = {
    "few": ({"people": classes()[0].iloc[:9]}, MethodError, "labelled 9 items, too few .* at least 10"),
    "rare": ({"people": pd.Series(["no"] * 38 + ["yes"] * 2)}, MethodError, "on 2: too rare .* about 60 labelled"),
    "others": ({"people": pd.Series(["no"] * 12, [f"z{n}" for n in range(12)])}, DataError, "12 of 12 items that"),
    "class": ({"of": "maybe"}, MethodError, "of='maybe' is none of the classes"),
    "label": ({"people": classes()[0].iloc[:60].replace("no", "hm")}, DataError, "'hm' of item"),
    "group": ({"by": pd.Series(np.r_[np.zeros(N - 5), np.ones(5)])}, MethodError, "0 items of group 1"),
    "twice": ({"by": pd.Series([1, 2], [0, 0])}, DataError, "by= names item 0 twice"),
    "column": ({"by": "about"}, DataError, "no column 'about'"),
    "stratum": ({"strata": pd.Series(np.r_[np.zeros(N - 5), np.ones(5)])}, MethodError, "1 strata have fewer"),
    "chance": ({"chances": pd.Series(0.0, range(N))}, DataError, "chances= of item 0 is 0"),
    "both": ({"chances": pd.Series(0.1, range(N)), "strata": classes()[2]}, MethodError, "leave strata= and"),
    "unrandom": ({"people": classes()[0][classes()[2] == 3].iloc[:60]}, DataError, "not drawn at random"),
    "rows": ({"proxy": 2 * classes()[1]}, DataError, "item 0 sums to 2"),
    "gold": ({"proxy": proxy_with_gold()}, DataError, r"fitted with gold="),
    "no proxy": ({"proxy": None, "method": "map"}, MethodError, "needs a proxy="),
    "judge": ({"quantity": "accuracy", "of": "a"}, MethodError, "needs a proxy with labels"),
    "two": ({"quantity": "difference", "of": "a"}, MethodError, "must name two annotators"),
    "words": ({"quantity": "mean"}, MethodError, "needs classes that are numbers, and one is 'no'"),
    "regressors": ({"quantity": "coefficients", "of": "x"}, MethodError, "of= must be a DataFrame"),
    "soon": ({"people": classes()[0].iloc[:20], "interval": "anytime"}, MethodError, "at least 30"),
    "nothing": ({"people": pd.Series([None, None])}, DataError, "labelled nothing"),
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_cannot_be_claimed_is_refused(name: str) -> None:
    truth, proxy, _ = classes()
    given: dict[str, Any] = {"quantity": "share", "people": truth.iloc[:60], "proxy": proxy, "of": "yes"}
    wrong, error, words = REFUSED[name]
    with pytest.raises(error, match=words):
        estimate(**{**given, **wrong})


def test_rare_differences_are_refused_and_frequent_ones_are_not() -> None:
    stream = np.random.default_rng(0)
    truth = stream.integers(0, 2, 300)
    for noise, refused in ((0.02, True), (0.3, False)):
        labels = np.stack([truth, np.where(stream.random(300) < noise, 1 - truth, truth)], 1)
        item, judge = np.indices(labels.shape)
        data = crowdppl.Annotations.from_arrays(item.ravel(), judge.ravel(), labels.ravel(), kind="nominal")
        seen = pd.Series(truth).iloc[:80]
        if refused:
            with pytest.raises(MethodError, match="one of the two is right on"):
                estimate("difference", seen, data, of=(0, 1))
        else:
            found = estimate("difference", seen, data, of=(0, 1))
            assert found.low < (labels[:, 0] == truth).mean() - (labels[:, 1] == truth).mean() < found.high
