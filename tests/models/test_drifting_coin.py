"""Accuracies that change with time: the chain by brute force, limits without time, and a change that is found."""

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import crowdppl
from crowdppl.data.annotations import Annotations
from tests.crowd import crowd

TINY = [(i, a, z, 1) for i, told in (("a", (0, 1, 0)), ("b", (1, 0, 1))) for a, z in zip("uvw", told, strict=True)]
TINY += [("c", "u", 0, 2), ("c", "v", 1, 2), ("d", "u", 1, 2), ("d", "v", 0, 2)]


def timed(rows: pd.DataFrame, **options: Any) -> Annotations:
    return Annotations.from_frame(rows, time="at", **options)


def of(data: Annotations, at: Any) -> Annotations:
    return timed(data.frame().assign(at=at), classes=list(data.classes))


def gap(one: crowdppl.Posterior, other: crowdppl.Posterior) -> float:
    return float(np.abs(one.probabilities() - other.probabilities()).to_numpy().max())


def test_paths_are_those_of_a_markov_chain() -> None:
    """With as many changes as there may be, their shares in each period are powers of the transition matrix."""
    model = crowdppl.method("drifting_coin", levels=3, changes=3, change=0.3, starts=(1.0, 2.0, 3.0))
    accuracy = (torch.arange(3) + 0.5) / 3
    weight, there = model._paths(accuracy)
    assert len(weight) == 3**4 and float(weight.exp().sum()) == pytest.approx(1)
    first = accuracy**3 * (1 - accuracy)
    first, step = first / first.sum(), 0.7 * torch.eye(3) + 0.3 * first / first.sum()
    for period in range(4):
        torch.testing.assert_close(weight.exp() @ there[:, period].float(), first @ step.matrix_power(period))
    some = crowdppl.method("drifting_coin", levels=3, changes=1, starts=(1.0, 2.0, 3.0))._paths(accuracy)
    assert len(some[0]) == 3 + 3 * 3 * 2


@pytest.mark.slow
def test_truths_are_those_of_all_paths_and_truths_by_brute_force() -> None:
    settings: dict[str, Any] = {"levels": 3, "periods": 2, "changes": 1, "change": 0.4}
    data = timed(pd.DataFrame(TINY, columns=["item", "annotator", "label", "at"]))
    posterior = crowdppl.fit("drifting_coin", data, inference="gibbs", settings=settings, seed=0, draws=2000)
    accuracy = (np.arange(3) + 0.5) / 3
    first = accuracy**3 * (1 - accuracy)
    first, step = first / first.sum(), 0.6 * np.eye(3) + 0.4 * first / first.sum()
    share = np.zeros((4, 2))
    for truth in product(range(2), repeat=4):
        p = 1.0
        for who in "uvw":
            told = 0.0
            for early, late in product(range(3), repeat=2):
                part = first[early] * step[early, late]
                for item, annotator, label, at in TINY:
                    if annotator == who:
                        right = accuracy[early if at == 1 else late]
                        part *= right if label == truth["abcd".index(item)] else 1 - right
                told += part
            p *= told
        for i, z in enumerate(truth):
            share[i, z] += p
    share /= share.sum(1, keepdims=True)
    np.testing.assert_allclose(posterior.probabilities(), share, atol=0.02)
    late = crowdppl.fit("drifting_coin", of(data, 1), inference="gibbs", settings=settings, seed=0, draws=500)
    assert np.abs(late.probabilities() - share).to_numpy().max() > 0.02  # so that the check can fail


def test_times_that_are_all_the_same_are_one_period() -> None:
    data = crowd(60, 6, 3, 4)
    one = crowdppl.fit("drifting_coin", of(data, 7), inference="vb", seed=0)
    other = crowdppl.fit("drifting_coin", of(data, np.arange(data.n_labels)), inference="vb", seed=0)
    single = of(data, np.arange(data.n_labels))
    assert gap(one, crowdppl.fit("drifting_coin", single, inference="vb", settings={"periods": 1}, seed=0)) == 0
    assert gap(one, other) > 1e-3


@pytest.mark.slow
def test_one_period_and_many_levels_are_one_coin() -> None:
    data = crowd(60, 6, 3, 4)
    fine, coin = {"periods": 1, "levels": 100}, {"right": 4.0, "wrong": 2.0}
    one = crowdppl.fit("drifting_coin", of(data, 1), inference="gibbs", settings=fine, seed=0, draws=800)
    other = crowdppl.fit("one_coin", data, inference="gibbs", settings=coin, seed=0, draws=800)
    coarse = {"periods": 1, "levels": 2}
    assert gap(one, other) < 0.03
    assert gap(one, crowdppl.fit("drifting_coin", of(data, 1), inference="gibbs", settings=coarse, seed=0)) > 0.06


def test_who_changes_is_found_and_their_later_labels_count_less() -> None:
    """Half the crowd falls below chance midway: truths of later items by day, and confusions then and before."""
    stream, rows = np.random.default_rng(0), []
    truth = stream.integers(4, size=400)
    for i, z in enumerate(truth):
        for who in stream.choice(10, 5, replace=False):
            p = 0.1 if who < 5 and i >= 200 else 0.75
            rows.append((i, who, z if stream.random() < p else (z + stream.integers(1, 4)) % 4, i // 20))
    data = timed(pd.DataFrame(rows, columns=["item", "annotator", "label", "at"]))
    posterior = crowdppl.fit("drifting_coin", data, inference="vb", seed=0)
    static = crowdppl.fit("one_coin", data, inference="vb", seed=0)
    right, before = ((x.labels()["label"].to_numpy() == truth)[200:].mean() for x in (posterior, static))
    assert right > before + 0.1
    early, late = (posterior.confusion(at={"at": at}).to_numpy()[:, 0, 0] for at in (0, 19))
    assert (early > 0.6).all() and (late[:5] < 0.3).all() and (late[5:] > 0.6).all()
