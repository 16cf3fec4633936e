"""Panels: error correlations and the number of independent annotators, beside what was simulated."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl import Annotations
from crowdppl.errors import DataError, MethodError


def judged(n_items: int, shares: list[float], kin: float, seed: int) -> tuple[Annotations, np.ndarray, np.ndarray]:
    """Two families of three judges; of errors, a part is the whole panel's and a part the family's.

    Returns the labels, the truths and who errs (N, 6).
    """
    rng = np.random.default_rng(seed)
    truth, coin = rng.integers(2, size=n_items), rng.random((n_items, 6))
    common, own = rng.random((n_items, 1)) < 0.25, rng.random((n_items, 6)) < 0.25
    of_family = (rng.random((n_items, 2)) < 0.25)[:, [0, 0, 0, 1, 1, 1]]
    wrong = np.where(coin < shares[0], common, np.where(coin < shares[0] + kin, of_family, own))
    labels = np.where(wrong, 1 - truth[:, None], truth[:, None])
    frame = pd.DataFrame(labels, columns=list("abcdef")).rename_axis("item").reset_index()
    return Annotations.from_frame(frame.melt("item", var_name="annotator", value_name="label")), truth, wrong


FAMILIES = dict(zip("abcdef", "xxxyyy", strict=True))


def known(truth: np.ndarray, n: int, seed: int) -> pd.Series:
    at = np.random.default_rng(seed).choice(len(truth), n, replace=False)
    return pd.Series(truth[at], at)


def test_with_all_truths_known_correlations_are_those_of_the_errors() -> None:
    data, truth, wrong = judged(300, [0.5], 0.3, 1)
    posterior = crowdppl.fit("one_coin", data, inference="vb", seed=0)
    found = posterior.panel(pd.Series(truth), families=FAMILIES)
    pairs, one, other = found.pairs(), *np.triu_indices(6, 1)
    true = np.corrcoef(wrong.T.astype(float))
    np.testing.assert_allclose(pairs["correlation"], true[one, other], atol=1e-8)
    np.testing.assert_allclose(found.annotators()["accuracy"], 1 - wrong.mean(0), atol=1e-8)
    assert (pairs["correlation_high"] - pairs["correlation_low"]).max() < 1e-8
    kin = one // 3 == other // 3
    mean, figures = true[one, other].mean(), found.figures()["mean"]
    assert figures["effective"] == pytest.approx(6 / (1 + 5 * mean))
    assert figures["apart"] == pytest.approx(true[one, other][kin].mean() - true[one, other][~kin].mean())
    assert pairs["family"].to_numpy().tolist() == kin.tolist()


def test_fifty_truths_tell_correlations_and_families_apart() -> None:
    hits, apart = [], []
    for seed in range(6):
        data, truth, wrong = judged(600, [0.4], 0.4, seed)
        posterior = crowdppl.fit("one_coin", data, inference="vb", seed=0)
        found = posterior.panel(known(truth, 50, seed), families=FAMILIES, seed=seed)
        pairs, true = found.pairs(level=0.9), np.corrcoef(wrong.T.astype(float))[np.triu_indices(6, 1)]
        hits += [((pairs["correlation_low"] <= true) & (true <= pairs["correlation_high"])).mean()]
        apart += [found.figures().loc["apart", "mean"]]
    assert 0.75 <= np.mean(hits) <= 1
    assert np.mean(apart) > 0.1


def test_without_truths_intervals_are_as_wide_as_labels_allow() -> None:
    data, truth, wrong = judged(400, [0.55], 0.0, 3)
    posterior = crowdppl.fit("auto", data, models=True, seed=0)
    wide, narrow = posterior.panel().pairs(), posterior.panel(known(truth, 200, 3)).pairs()
    width = [(x["correlation_high"] - x["correlation_low"]).mean() for x in (wide, narrow)]
    assert width[0] > 2 * width[1]
    true = np.corrcoef(wrong.T.astype(float))[np.triu_indices(6, 1)]
    assert ((wide["correlation_low"] <= true) & (true <= wide["correlation_high"])).mean() > 0.9


def test_pairs_of_few_labels_are_as_unsure_as_they_are() -> None:
    hits = []
    for seed in range(10):
        data, truth, wrong = judged(300, [0.4], 0.0, 100 + seed)
        frame = data.frame()
        few = np.random.default_rng(seed).choice(300, 90, replace=False)
        frame = frame[(frame.annotator != "a") | frame.item.isin(few)]
        posterior = crowdppl.fit("one_coin", Annotations.from_frame(frame), inference="vb", seed=0)
        found = posterior.panel(known(truth, 60, seed), seed=seed)
        one = found.annotators().loc["a"]
        right = 1 - wrong[few, 0].mean()
        hits.append(one["accuracy_low"] <= right <= one["accuracy_high"])
        assert one["accuracy_high"] > one["accuracy_low"]
        pairs = found.pairs().loc["a"]
        true = [np.corrcoef(wrong[few, 0], wrong[few, j])[0, 1] for j in range(1, 6)]
        hits += [*((pairs["correlation_low"] <= true) & (true <= pairs["correlation_high"]))]
    assert np.mean(hits) >= 0.75


def test_what_never_errs_has_no_correlation() -> None:
    frame = pd.DataFrame(
        [(i, a, i % 2) for i in range(12) for a in "abcde"], columns=["item", "annotator", "label"]
    )
    posterior = crowdppl.fit("one_coin", Annotations.from_frame(frame), inference="vb", seed=0)
    found = posterior.panel({i: i % 2 for i in range(12)})
    assert found.pairs()["correlation"].isna().all()
    assert np.isnan(found.figures().loc["effective", "mean"])
    alone = posterior.panel().figures().loc["effective"]
    assert 1 <= alone["low"] <= alone["mean"] <= alone["high"] <= 5


def test_leaving_out_a_judge_is_told() -> None:
    data, truth, _ = judged(100, [0.4], 0.0, 4)
    posterior = crowdppl.fit("one_coin", data, inference="em", seed=0)
    gold = known(truth, 30, 4)
    found = posterior.panel(gold).without()
    again = posterior.without(["a"]).probabilities().to_numpy().argmax(1)
    before = posterior.probabilities().to_numpy().argmax(1)
    assert found.loc["a", "changed"] == (again != before).sum()
    assert found.loc["a", "accuracy_without"] == pytest.approx((again[gold.index] == gold).mean())


def test_missing_labels_leave_pairs_without_a_shared_item_unknown() -> None:
    data, truth, _ = judged(80, [0.4], 0.0, 5)
    frame = data.frame()
    frame = frame[
        ~((frame.annotator == "a") & (frame.item >= 40)) & ~((frame.annotator == "b") & (frame.item < 40))
    ]
    posterior = crowdppl.fit("one_coin", Annotations.from_frame(frame), inference="vb", seed=0)
    for found in (posterior.panel(), posterior.panel(known(truth, 40, 5))):
        pairs = found.pairs()
        assert pairs.loc[("a", "b"), "items"] == 0 and np.isnan(pairs.loc[("a", "b"), "correlation"])
        assert np.isfinite(found.figures().loc["effective"]).all()


def test_what_tells_nothing_of_a_panel_is_refused() -> None:
    data, truth, _ = judged(40, [0.4], 0.0, 6)
    posterior: Any = crowdppl.fit("one_coin", data, inference="vb", seed=0)
    with pytest.raises(DataError, match="10 or more"):
        posterior.panel({0: 1})
    with pytest.raises(DataError, match="999"):
        posterior.panel({**dict(enumerate(truth[:12])), 999: 1})
    with pytest.raises(MethodError, match="nobody"):
        posterior.panel(families={"nobody": 1})
    fitted = crowdppl.fit("one_coin", data, inference="vb", gold={0: 1}, seed=0)
    with pytest.raises(DataError, match="with_gold"):
        fitted.panel()
