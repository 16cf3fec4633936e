"""Sets that hold the truth: by hand, and their coverage over many splits into gold and other items."""

from collections.abc import Iterator
from math import ceil
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

from crowdppl.data.annotations import Annotations
from crowdppl.errors import DataError, MethodError
from crowdppl.posterior import Posterior
from crowdppl.primitives.model import Card
from crowdppl.results.decisions import label_sets
from tests.class_result import class_result


class Handmade:
    card: ClassVar[Card] = Card("Handmade", "nobody")

    def model(self, data: Any) -> None: ...


def held(p: Any, classes: list[Any] | None = None, labels: Any = ((0, 0),), **options: Any) -> Posterior:
    p = np.asarray(p, float)
    k = p.shape[1]
    names = list(range(k)) if classes is None else classes
    item, label = (list(x) for x in zip(*labels, strict=True))
    data = Annotations.from_arrays(
        item, ["a"] * len(item), label, classes=names, items=list(range(len(p))), annotators=["a", "b"], **options
    )
    found = class_result({}, p, np.full((2, k, k), 1 / k), np.full(k, 1 / k))
    return Posterior(Handmade(), "handmade", "em", data, found)


def test_credible_sets_by_hand() -> None:
    found = label_sets(held([[0.6, 0.3, 0.1], [0.95, 0.04, 0.01], [0.05, 0.45, 0.5]]), 0.9)
    assert found["set"].tolist() == [(0, 1), (0,), (2, 1)]
    assert found["size"].tolist() == [2, 1, 2]
    np.testing.assert_allclose(found["probability"], [0.9, 0.95, 0.95])
    assert found.index.name == "item"
    assert label_sets(held([[0.6, 0.3, 0.1]]), 0.91)["set"].tolist() == [(0, 1, 2)]


def test_credible_sets_are_the_smallest_and_hold_what_they_promise() -> None:
    p = np.random.default_rng(0).dirichlet(np.full(6, 0.5), 200)
    for level in (0.5, 0.8, 0.95):
        found = label_sets(held(p), level)
        for row, (mine, size, share) in zip(p, found.itertuples(index=False), strict=True):
            ranked = np.sort(row)[::-1]
            assert ranked[:size].sum() >= level > ranked[: size - 1].sum()
            assert share == pytest.approx(row[list(mine)].sum())
            assert list(row[list(mine)]) == list(ranked[:size])


GOLD = {0: 0, 1: 0, 2: 0, 3: 0}


def test_the_threshold_by_hand() -> None:
    p = [[0.9, 0.1, 0.0], [0.8, 0.1, 0.1], [0.3, 0.4, 0.3], [0.2, 0.5, 0.3], [0.15, 0.25, 0.6], [0.35, 0.32, 0.33]]
    # True classes of the four gold items have .9, .8, .3, .2. ceil(5 * .8) = 4: .2 and above; ceil(5 * .6) = 3: .3.
    found = label_sets(held(p), 0.8, gold=GOLD, method="conformal")
    assert found["set"].tolist()[4:] == [(2, 1), (0, 2, 1)]
    assert found["size"].tolist()[4:] == [2, 3]
    assert found["probability"].tolist()[4:] == [pytest.approx(0.85), pytest.approx(1)]
    found = label_sets(held(p), 0.6, gold=GOLD, method="conformal")
    assert found["set"].tolist()[4:] == [(2,), (0, 2, 1)]
    found = label_sets(held(p), 0.4, gold=GOLD, method="conformal")  # .8: no class of either, so the best alone
    assert found["set"].tolist()[4:] == [(2,), (0,)]


def test_as_few_gold_items_as_can_do() -> None:
    p = np.full((30, 2), 0.5)
    for coverage, needed in ((0.8, 4), (0.95, 19)):
        gold = dict.fromkeys(range(needed), 0)
        label_sets(held(p), coverage, gold=gold, method="conformal")
        del gold[0]
        with pytest.raises(DataError, match=f"{needed} gold items"):
            label_sets(held(p), coverage, gold=gold, method="conformal")


def sure(n: int, k: int, seed: int, rounded: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Truths, and probabilities four times as sure (on the log scale) as they should be."""
    rng = np.random.default_rng(seed)
    honest = rng.dirichlet(np.full(k, 0.7), n)
    if rounded:
        honest = np.array([[0.6, 0.3, 0.1], [0.1, 0.6, 0.3], [0.4, 0.4, 0.2]])[rng.integers(3, size=n)]
    truth = (rng.random((n, 1)) > honest.cumsum(1)).sum(1).clip(max=k - 1)
    p = (honest + 1e-12) ** 4
    return p / p.sum(1, keepdims=True), truth


def splits(truth: np.ndarray, n_gold: int, n: int) -> Iterator[tuple[int, dict[int, int], np.ndarray]]:
    """Gold picked at random among the items, and the items that are left."""
    for seed in range(n):
        order = np.random.default_rng(seed).permutation(len(truth))
        picked = order[:n_gold]
        yield seed, dict(zip(picked.tolist(), truth[picked].tolist(), strict=True)), order[n_gold:]


@pytest.mark.parametrize(("coverage", "rounded"), [(0.8, False), (0.95, False), (0.9, True)])
def test_conformal_sets_cover_as_often_as_they_promise(coverage: float, rounded: bool) -> None:
    """Over splits the mean lies between the coverage asked and that plus 1 / (n + 1), as theory has it."""
    p, truth = sure(150, 3, seed=5, rounded=rounded)
    posterior, n_gold = held(p), 30
    hits = []
    for seed, gold, rest in splits(truth, n_gold, 60):
        sets = label_sets(posterior, coverage, gold=gold, method="conformal", seed=seed)["set"]
        hits.append(np.mean([truth[i] in sets[i] for i in rest]))
    exact = ceil((n_gold + 1) * coverage - 1e-9) / (n_gold + 1)
    assert coverage <= exact < coverage + 1 / (n_gold + 1)
    assert abs(np.mean(hits) - exact) < 3.5 * np.std(hits) / np.sqrt(len(hits))
    believed = label_sets(posterior, coverage)["set"]
    covered = np.mean([t in mine for t, mine in zip(truth, believed, strict=True)])
    assert covered < coverage - 0.03, "sets that believe such probabilities have to miss, or the check says nothing"


def test_equal_scores_are_told_apart_at_random() -> None:
    """Half the items are right; a threshold on probability alone could only take all classes or one."""
    truth = np.tile([0, 1], 100)
    posterior = held(np.full((200, 2), 0.5))
    share = []
    for seed, gold, rest in splits(truth, 19, 30):
        found = label_sets(posterior, 0.8, gold=gold, method="conformal", seed=seed)
        share.append(np.mean([truth[i] in found["set"][i] for i in rest]))
        assert found["size"].between(1, 2).all()
    assert 0.8 < np.mean(share) < 0.95
    gold = dict.fromkeys(range(19), 0)
    first, other = (label_sets(posterior, 0.8, gold=gold, method="conformal", seed=seed) for seed in (0, 1))
    assert first["set"].tolist() != other["set"].tolist()
    pd.testing.assert_frame_equal(first, label_sets(posterior, 0.8, gold=gold, method="conformal"))


def test_gold_that_the_fit_saw_is_refused_by_name() -> None:
    posterior = held(np.full((30, 2), 0.5), gold={7: 0, 25: 1})
    with pytest.raises(DataError, match="7"):
        label_sets(posterior, 0.9, gold=dict.fromkeys(range(20), 0), method="conformal")
    label_sets(posterior, 0.9, gold=dict.fromkeys(range(8, 20), 0), method="conformal")


def test_what_goes_with_what() -> None:
    posterior = held(np.full((30, 2), 0.5))
    gold = dict.fromkeys(range(20), 0)
    with pytest.raises(MethodError, match="coverage=1"):
        label_sets(posterior, 1)
    with pytest.raises(MethodError, match="'conformal'"):
        label_sets(posterior, method="conformal")
    with pytest.raises(MethodError, match="'credible'"):
        label_sets(posterior, gold=gold, method="credible")
    pd.testing.assert_frame_equal(
        label_sets(posterior, gold=gold), label_sets(posterior, gold=gold, method="conformal")
    )
    with pytest.raises(DataError, match="99"):
        label_sets(posterior, gold={**gold, 99: 0}, method="conformal")
    with pytest.raises(DataError, match="'maybe'"):
        label_sets(posterior, gold={**gold, 21: "maybe"}, method="conformal")
