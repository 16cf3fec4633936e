"""Annotators over time: windows by hand, how often their intervals hold, models of change, and what is refused."""

from functools import cache
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import crowdppl
from crowdppl.errors import DataError, MethodError

matplotlib.use("Agg")
K = 3


def crowd(seed: int, n: int = 300) -> tuple[crowdppl.Annotations, np.ndarray]:
    """Four labels an item by ten annotators, of whom the first is right on one in five from the middle on."""
    rng = np.random.default_rng(seed)
    right, rows = rng.uniform(0.5, 0.95, 10), []
    right[0] = 0.85
    for i in range(n):
        truth = int(rng.integers(K))
        for who in rng.choice(10, 4, replace=False):
            p = 0.2 if who == 0 and i >= n // 2 else right[who]
            wrong = (truth + int(rng.integers(1, K))) % K
            rows.append((f"i{i}", f"w{who}", truth if rng.random() < p else wrong, pd.Timestamp(i, unit="D")))
    frame = pd.DataFrame(rows, columns=["item", "annotator", "label", "at"])
    return crowdppl.Annotations.from_frame(frame, time="at"), right


@cache
def fitted(seed: int = 0, method: str = "one_coin") -> Any:
    return crowdppl.fit(method, crowd(seed)[0], inference="vb", seed=0)


def windows(ax: Any) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Days, means and ends of the bands of the named annotators."""
    found, bands = {}, ax.collections
    for line, band in zip([x for x in ax.lines if x.get_label()[0] == "w"], bands, strict=True):
        day, mean = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
        path = band.get_paths()[0].vertices[:, 1]
        n = len(day)
        found[line.get_label()] = day, mean, path[1 : n + 1], path[n + 2 : 2 * n + 2][::-1]
    return found


def test_who_changes_is_drawn_first_with_the_change() -> None:
    ax = fitted().plot_drift()
    day, mean, low, high = windows(ax)["w0"]
    late = day > np.datetime64(170, "D")
    early = day < np.datetime64(130, "D")
    assert mean[early].min() > 0.6 and mean[late].max() < 0.45
    assert (low < mean).all() and (mean < high).all()
    assert len(windows(ax)) == 3 and len(ax.lines) == 10 + 1, "all, and chance"
    own = Figure().subplots()
    assert fitted().plot_drift("w3", ax=own) is own and list(windows(own)) == ["w3"]


def test_a_window_is_the_likelihood_of_its_labels_given_the_others() -> None:
    """Where other labels settle the truth, an even prior gives a Beta distribution of right and wrong labels."""
    rng = np.random.default_rng(4)
    truth = rng.integers(0, K, 40)
    said = np.where(rng.random(40) < 0.6, truth, (truth + 1) % K)
    rows = [(i, f"sure{n}", truth[i], i) for n in range(8) for i in range(40)]
    rows += [(i, "w", said[i], i) for i in range(40)]
    data = crowdppl.Annotations.from_frame(
        pd.DataFrame(rows, columns=["item", "annotator", "label", "at"]), time="at"
    )
    held: Any = crowdppl.fit("one_coin", data, inference="vb", seed=0)
    ax = held.plot_drift("w", level=0.8)
    day, mean, low, high = windows(ax)["w"]
    hits = [int((said == truth)[part].sum()) for part in (slice(0, 20), slice(20, 40))]
    np.testing.assert_array_equal(day, [10, 30])
    np.testing.assert_allclose(mean, [(h + 1) / 22 for h in hits], atol=0.01)
    draws = [np.quantile(rng.beta(h + 1, 21 - h, 100_000), [0.1, 0.9]) for h in hits]
    np.testing.assert_allclose(np.stack([low, high], 1), draws, atol=0.02)
    turn = held.plot_drift("w", by="turn")
    np.testing.assert_array_equal(windows(turn)["w"][0], [11, 31])


def test_bands_hold_the_accuracies() -> None:
    held = []
    for seed in range(3):
        names = [f"w{n}" for n in range(10)]
        drawn, right = windows(fitted(seed).plot_drift(names)), crowd(seed)[1]
        for n, name in enumerate(names):
            day, _, low, high = drawn[name]
            days = (day - np.datetime64(0, "D")) / np.timedelta64(1, "D")
            truth = np.where((n == 0) & (days >= 150), 0.2, right[n])
            sure = (n > 0) | (np.abs(days - 150) > 30)
            held += ((low <= truth) & (truth <= high))[sure].tolist()
    assert 0.87 <= np.mean(held) < 1


def test_a_model_of_changes_says_it_itself() -> None:
    held = fitted(0, "drifting_coin")
    ax = held.plot_drift("w0")
    day, mean, low, high = windows(ax)["w0"]
    for at, each in ((day[0], mean[0]), (day[-1], mean[-1])):
        days = float((at - np.datetime64(0, "D")) / np.timedelta64(1, "D"))
        table = held.confusion(at={"at": days}).sel(annotator="w0").to_numpy()
        assert each == pytest.approx(table[0, 0], abs=0.03)
    assert mean[0] > mean[-1] + 0.3 and (low <= high).all()
    points = crowdppl.fit("drifting_coin", crowd(0)[0], inference="em", seed=0)
    assert not points.plot_drift("w0").collections, "no band of points"


def test_numbers_and_grades_have_a_bias_beside_the_other_labels() -> None:
    rng = np.random.default_rng(5)
    truth = rng.normal(0, 3, 80)
    rows = [
        (i, f"w{n}", truth[i] + (2.0 if n == 1 and i >= 40 else 0.0) + rng.normal(0, 0.5), i)
        for n in range(4)
        for i in range(80)
    ]
    frame = pd.DataFrame(rows, columns=["item", "annotator", "label", "at"])
    held = crowdppl.fit(
        "label_mean", crowdppl.Annotations.from_frame(frame, kind="real", time="at"), inference="em"
    )
    day, mean, low, high = windows(held.plot_drift("w1"))["w1"]
    wide = frame.pivot(index="item", columns="annotator", values="label")
    error = (wide["w1"] - wide.drop(columns="w1").mean(axis=1)).to_numpy()
    by_hand = np.array([part.mean() for part in np.split(error, 4)])
    np.testing.assert_allclose(mean, by_hand)
    np.testing.assert_array_equal(day, [10, 30, 50, 70])
    assert (mean[2:] > 1).all() and (low < by_hand).all() and (by_hand < high).all()
    grades = frame.assign(label=pd.cut(frame["label"], [-99, -3, 0, 3, 99], labels=[1, 2, 3, 4]).astype(int))
    data = crowdppl.Annotations.from_frame(grades, kind="ordinal", time="at")
    facets: Any = crowdppl.fit("rater_facets", data, inference="em", seed=0)
    ax = facets.plot_drift("w1")
    assert ax.get_ylabel().endswith("in grades") and windows(ax)["w1"][1][-1] > 0.3


def test_what_has_no_course_is_refused_by_name() -> None:
    with pytest.raises(DataError, match="time='answered_at'"):
        crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="em").plot_drift()
    with pytest.raises(DataError, match="no annotator 'nobody'"):
        fitted().plot_drift("nobody")
    with pytest.raises(MethodError, match="by="):
        fitted().plot_drift(by="day")
    rows = crowd(0)[0].frame()
    one_day = crowdppl.Annotations.from_frame(rows.assign(at=5), time="at")
    with pytest.raises(DataError, match="no annotator has 16 labels at several times"):
        crowdppl.fit("one_coin", one_day, inference="em").plot_drift()
    tenth = rows["item"].str.endswith("0")
    few = crowdppl.Annotations.from_frame(rows[(rows["annotator"] != "w4") | tenth], time="at")
    with pytest.raises(DataError, match="'w4' has fewer than 16 labels"):
        crowdppl.fit("one_coin", few, inference="em").plot_drift("w4")
    pairs = crowdppl.datasets.example("pair").frame().assign(at=lambda x: np.arange(len(x)))
    data = crowdppl.Annotations.from_frame(pairs, kind="pair", time="at")
    with pytest.raises(MethodError, match="lets nobody err; fit 'crowd_bt'"):
        crowdppl.fit("bradley_terry", data, inference="em").plot_drift()
