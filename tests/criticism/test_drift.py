"""Who changes midway is found with the time, and steady crowds raise no doubt."""

from collections.abc import Collection

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl.criticism.doubts.time import LEVEL, changes
from crowdppl.data.annotations import Annotations


def crowd(seed: int, changing: Collection[int] = (), n: int = 300, before: int = 4) -> Annotations:
    """Three classes; each item has ``before`` labels by twelve annotators in the first half, and four later."""
    stream = np.random.default_rng(seed)
    right, rows = stream.uniform(0.5, 0.95, 12), []
    for i in range(n):
        truth, late = int(stream.integers(3)), i >= n // 2
        for who in stream.choice(12, 4 if late else before, replace=False):
            p = 0.2 if late and who in changing else right[who]
            wrong = (truth + int(stream.integers(1, 3))) % 3
            rows.append((i, f"w{who}", truth if stream.random() < p else wrong, pd.Timestamp(i, unit="D")))
    return Annotations.from_frame(pd.DataFrame(rows, columns=["item", "annotator", "label", "at"]), time="at")


def told(data: Annotations, name: str = "bayesian_dawid_skene") -> list[crowdppl.Doubt]:
    return [x for x in crowdppl.fit(name, data, inference="vb").doubts() if x.kind == "drift"]


def test_who_changes_is_named_with_the_time() -> None:
    (found,) = told(crowd(1, {0}))
    assert found.who == {"annotators": ("w0",)}
    day = pd.Timestamp(str(found).split("labels before ")[1].split(",")[0])
    assert abs((day - pd.Timestamp(150, unit="D")).days) < 45
    before, after = found.figures["before"], found.figures["after"]
    assert isinstance(before, float) and isinstance(after, float) and before > after + 0.3


def test_the_remedy_follows_the_change() -> None:
    data = crowd(1, {0})
    found = crowdppl.fit("drifting_coin", data, inference="vb")
    early, late = (found.confusion(at={"at": at}).loc["w0"].to_numpy()[0, 0] for at in (1, 299))
    assert early > late + 0.2
    assert not [x for x in found.doubts() if x.kind == "drift"]


def test_no_doubt_without_times_and_none_of_one_day() -> None:
    data = crowd(1, {0})
    rows = data.frame()
    assert not told(Annotations.from_frame(rows[["item", "annotator", "label"]]))
    assert not told(Annotations.from_frame(rows.assign(at=5), time="at"))


def test_the_order_of_rows_does_not_matter() -> None:
    rows = crowd(1, {0}).frame()
    both = (Annotations.from_frame(x, time="at") for x in (rows, rows.sample(frac=1, random_state=0)))
    one, two = (changes(crowdppl.fit("bayesian_dawid_skene", x, inference="vb")) for x in both)
    np.testing.assert_allclose([x.p_value for x in one], [x.p_value for x in two], atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("before", [4, 1])
def test_steady_crowds_raise_a_doubt_once_in_fifty_at_most(before: int) -> None:
    """The same with one label an item at first, of which a fit is sure without reason."""
    doubted = 0
    for seed in range(50):
        tested = changes(crowdppl.fit("bayesian_dawid_skene", crowd(seed, before=before), inference="vb"))
        doubted += min(x.p_value for x in tested) * len(tested) <= LEVEL
    assert doubted <= 1


@pytest.mark.slow
def test_most_large_changes_are_found_also_where_half_the_crowd_changes() -> None:
    for changing in ({0}, {0, 1, 2, 3, 4, 5}):
        found = [told(crowd(seed, changing)) for seed in range(20)]
        assert sum(map(len, found)) >= 10
