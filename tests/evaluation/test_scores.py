"""Scores of probabilities, by hand, by brute force, and against other implementations."""

from fractions import Fraction
from itertools import permutations
from math import sqrt
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import balanced_accuracy_score, f1_score, matthews_corrcoef, roc_auc_score

from crowdppl.core.intervals import Estimate
from crowdppl.evaluation.annotator_metrics import annotators_on_gold
from crowdppl.evaluation.metrics import Sample, Scored, rank_correlation, risk_coverage, scores_of


def drawn(n: int, k: int, seed: int, tied: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and truths drawn from them; on a grid of fifths, so that many are tied, where wanted."""
    stream = np.random.default_rng(seed)
    p = stream.multinomial(5, stream.dirichlet(np.ones(k), n)) / 5 if tied else stream.dirichlet(np.ones(k), n)
    return p, np.array([stream.choice(k, p=row) for row in p])


def every_score(p: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    return {name: float(score[0]) for name, score in scores_of("item", Sample.of(p, truth)).items()}


def test_scores_of_classes_split_ties() -> None:
    # Two of class 0, one of them tied between both; one of class 1.
    p = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])
    sample = Sample.of(p, np.array([0, 0, 1]))
    assert [x[0].tolist() for x in sample.margins] == [[1.5, 1], [2, 1], [1.5, 1.5]]
    found = every_score(p, np.array([0, 0, 1]))
    assert found["balanced_accuracy"] == pytest.approx((1.5 / 2 + 1) / 2)
    assert found["macro_f1"] == pytest.approx((2 * 1.5 / 3.5 + 2 * 1 / 2.5) / 2)
    assert found["mcc"] == pytest.approx((2.5 * 3 - (3 + 1.5)) / sqrt((9 - 4.5) * (9 - 5)))


@pytest.mark.parametrize(("k", "seed"), [(2, 0), (3, 1), (6, 2)])
def test_untied_scores_are_those_of_scikit_learn(k: int, seed: int) -> None:
    p, truth = drawn(300, k, seed)
    if k == 6:  # a class that is never the truth, and one that is never a label
        truth[truth == 5] = 0
        p[:, 4] /= 10
        p /= p.sum(1, keepdims=True)
    label, found = p.argmax(1), every_score(p, truth)
    assert found["balanced_accuracy"] == pytest.approx(
        np.mean([(label == truth)[truth == c].mean() for c in np.unique(truth)])
    )
    if k < 6:  # scikit-learn warns of labels that are no truth
        assert found["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(truth, label))
    assert found["macro_f1"] == pytest.approx(f1_score(truth, label, average="macro"))
    assert found["mcc"] == pytest.approx(matthews_corrcoef(truth, label))
    assert every_score(p, truth)["error_auroc"] == pytest.approx(roc_auc_score(label != truth, 1 - p.max(1)))


def test_detection_of_errors_by_hand() -> None:
    # Right at .9 and .7, wrong at .8 and .7: of four pairs the error is less sure in two, as sure in one.
    p = np.array([[0.9, 0.1], [0.7, 0.3], [0.8, 0.2], [0.3, 0.7]])
    truth = np.array([0, 0, 1, 0])
    assert every_score(p, truth)["error_auroc"] == pytest.approx((1 + 0 + 1 + 1 / 2) / 4)
    # Rounding ranks nothing.
    p[1] = [0.1 + 0.2 + 0.4, 0.3]
    assert p[1, 0] != p[3, 1]
    assert every_score(p, truth)["error_auroc"] == pytest.approx(2.5 / 4)


def test_a_tied_item_is_an_error_in_part() -> None:
    p, truth = drawn(200, 4, 3, tied=True)
    hit, doubt = Scored(p, truth).right, 1 - p.max(1)
    assert np.unique(hit).tolist() == [0, 0.5, 1]
    expected = roc_auc_score(np.repeat([0, 1], 200), np.tile(doubt, 2), sample_weight=np.r_[hit, 1 - hit])
    assert every_score(p, truth)["error_auroc"] == pytest.approx(expected)


def test_risk_and_coverage_by_hand() -> None:
    # By falling confidence: right, wrong, right; so the risks are 0, 1/2, 1/3.
    p = np.array([[0.6, 0.4], [0.9, 0.1], [0.8, 0.2]])
    truth = np.array([0, 0, 1])
    assert every_score(p, truth)["aurc"] == pytest.approx((0 + 1 / 2 + 1 / 3) / 3)
    table = risk_coverage(p, truth)
    assert table.index.tolist() == [0.9, 0.8, 0.6]
    assert table["coverage"].tolist() == pytest.approx([1 / 3, 2 / 3, 1])
    assert table["risk"].tolist() == pytest.approx([0, 1 / 2, 1 / 3])


def test_equally_sure_items_come_in_random_order() -> None:
    """The closed form against all orders, with confidences .8, .6 x 4, .5 (a tie of two classes) x 2."""
    p = np.array([[0.8, 0.2], *[[0.6, 0.4]] * 4, *[[0.5, 0.5]] * 2])
    truth = np.array([1, 0, 1, 0, 0, 1, 0])
    wrong = [Fraction(1), *map(Fraction, (0, 1, 0, 0)), Fraction(1, 2), Fraction(1, 2)]
    areas = []
    for order in permutations(range(1, 5)):
        kept = [wrong[i] for i in (0, *order, 5, 6)]
        areas.append(sum(sum(kept[:n]) / Fraction(n) for n in range(1, 8)) / 7)
    assert every_score(p, truth)["aurc"] == pytest.approx(float(sum(areas) / len(areas)), abs=1e-12)


@pytest.mark.filterwarnings("error")
def test_what_does_not_exist_is_nan() -> None:
    sure = np.array([[0.9, 0.1], [0.8, 0.2]])
    one_class = every_score(sure, np.array([0, 0]))
    assert np.isnan([one_class["mcc"], one_class["error_auroc"]]).all()
    assert one_class["balanced_accuracy"] == one_class["macro_f1"] == 1
    assert one_class["aurc"] == 0
    assert np.isnan(every_score(sure, np.array([0, 1]))["mcc"]), "labels of one class"
    all_wrong = every_score(sure, np.array([1, 1]))
    assert np.isnan(all_wrong["error_auroc"])
    assert all_wrong["balanced_accuracy"] == all_wrong["macro_f1"] == 0
    assert all_wrong["aurc"] == 1


@pytest.mark.parametrize("tied", [False, True])
def test_neither_the_order_of_classes_nor_of_items_matters(tied: bool) -> None:
    p, truth = drawn(120, 4, 4, tied)
    stream = np.random.default_rng(5)
    classes, items = stream.permutation(4), stream.permutation(120)
    found = every_score(p, truth)
    assert every_score(p[items], truth[items]) == pytest.approx(found, abs=1e-12)
    assert every_score(p[:, classes], np.argsort(classes)[truth]) == pytest.approx(found, abs=1e-12)
    assert every_score(p[:, classes], truth) != pytest.approx(found, abs=1e-2), "it could be seen"


@pytest.mark.filterwarnings("error")
def test_rank_correlation() -> None:
    stream = np.random.default_rng(10)
    a, b = stream.integers(5, size=(2, 4, 30)) / 7
    expected = [spearmanr(x, y).statistic for x, y in zip(a, b, strict=True)]
    assert rank_correlation(a, b) == pytest.approx(np.array(expected))
    # Ranks 1 2 3 4 against 1 2.5 2.5 4.
    assert rank_correlation(np.arange(4.0), np.array([0, 3, 3, 9])) == pytest.approx(4.5 / sqrt(5 * 4.5))
    assert np.isnan(rank_correlation(np.arange(3.0), np.array([0.3, 0.1 + 0.2, 0.3])))


def point(*mean: float) -> Estimate:
    nothing = np.full(len(mean), np.nan)
    return Estimate(np.array(mean), nothing, nothing, nothing)


def labels(*annotators: tuple[int, int, int]) -> tuple[Any, Any, Any]:
    """Codes of annotators who gave n labels, m of them on gold and r of these right."""
    rows = [
        (code, 1, 1 if j < r else 0 if j < m else -1) for code, (n, m, r) in enumerate(annotators) for j in range(n)
    ]
    annotator, answer, truth = np.array(rows).T
    return annotator, answer, truth


def test_annotators_on_gold_by_hand() -> None:
    low, high = np.array([0.7, 0.7, 0.7, 0.7]), np.array([0.9, 0.9, 0.9, 0.9])
    estimate = Estimate(np.full(4, 0.8), np.full(4, 0.05), low, high)
    # All on gold, just outside and inside; too few on gold; 10 of 91 on gold.
    table = annotators_on_gold(*labels((20, 20, 13), (20, 20, 14), (9, 4, 4), (91, 10, 6)), estimate, 0.95)
    assert table.index.tolist() == [0, 1, 3]
    assert table["labels"].tolist() == [20, 20, 91]
    assert table["on_gold"].tolist() == [20, 20, 10]
    assert table["gold_accuracy"].tolist() == [0.65, 0.7, 0.6]
    reach = sqrt(0.1**2 + 1.959964**2 * 0.8 * 0.2 / 10 * 81 / 90)
    assert table["low"].tolist() == pytest.approx([0.7, 0.7, 0.8 - reach])
    assert table["high"].tolist() == pytest.approx([0.9, 0.9, 0.8 + reach])
    assert table["held"].tolist() == [0, 1, 1]
    assert annotators_on_gold(*labels((20, 20, 13)), point(0.8), 0.95)["held"].isna().all()


def test_right_intervals_hold_their_share_and_narrow_ones_do_not() -> None:
    """Accuracies from a Beta, whose posterior given all labels is known, and gold of some of the labels."""
    n, m, stream = 200, 20, np.random.default_rng(200)
    ability = stream.beta(6, 3, 2000)
    hits = stream.binomial(n, ability)
    on_gold = stream.hypergeometric(hits, n - hits, m)
    draws = stream.beta(6 + hits, 3 + n - hits, (1000, 2000))
    mean, ends = draws.mean(0), np.quantile(draws, [0.05, 0.95], axis=0)
    codes = labels(*((n, m, int(r)) for r in on_gold))

    def coverage(width: float) -> float:
        low, high = mean + width * (ends - mean)
        return float(annotators_on_gold(*codes, Estimate(mean, mean, low, high), 0.9)["held"].mean())

    assert coverage(1) > 0.9
    # Widened by all the noise there is, so that an interval of no width holds less.
    assert coverage(0) < coverage(1)
    shifted = Estimate(mean - 0.15, mean, *(ends - 0.15))
    assert annotators_on_gold(*codes, shifted, 0.9)["held"].mean() < 0.6
