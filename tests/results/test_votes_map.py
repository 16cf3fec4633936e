"""Maps from forecasts and votes to known truths: against numerical integration, limits and simulation."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp, roots_hermitenorm, softmax

from crowdppl.data.annotations import Annotations
from crowdppl.results import votes_map
from crowdppl.results.votes_map import SCALE_SD, SHIFT_SD, VOTE_SDS, VotesMap, centred_logs
from tests.crowd import annotations


@pytest.fixture
def unmixed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(votes_map, "MOST_CLASSES", 0)


def crowd_of(right: list[float], n: int, k: int, seed: int) -> tuple[np.ndarray, np.ndarray, Annotations]:
    """Shares of votes + 1, truths, and labels of all items by annotators who are right so often."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(k, size=n)
    wrong = (truth[:, None] + rng.integers(1, k, size=(n, len(right)))) % k
    label = np.where(rng.random(wrong.shape) < right, truth[:, None], wrong)
    rows = [(i, j, int(label[i, j])) for i, j in itertools.product(range(n), range(len(right)))]
    data = annotations(rows, k)
    votes = np.asarray(data.votes()) + 1.0
    return votes / votes.sum(1, keepdims=True), truth, data


def test_evidence_and_means_are_those_of_numerical_integration(unmixed: None) -> None:
    """Two classes and one annotator: scale, two shifts and a vote, by Gauss-Hermite quadrature of 20 nodes each."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1.5, 1.5], 16)
    label, truth = rng.integers(2, size=16), rng.integers(2, size=16)
    label[:10] = truth[:10]
    data = annotations([(i, 0, int(x)) for i, x in enumerate(label)], 2)
    known = np.arange(12)
    found = VotesMap.of([p], data).learned(known, np.eye(2)[truth[known]], [1.0], seed=0)
    node, weight = roots_hermitenorm(20)
    z = np.stack([x.ravel() for x in np.meshgrid(*[node] * 4, indexing="ij")], 1)
    log_w = np.log(np.stack([x.ravel() for x in np.meshgrid(*[weight] * 4, indexing="ij")], 1)).sum(1)
    x, own = centred_logs(p), np.eye(2)[label]
    evidence, means = [], []
    for sd in VOTE_SDS:
        scale, shift, vote = 1 + SCALE_SD * z[:, 0], SHIFT_SD * z[:, 1:3], sd * z[:, 3]
        log_p = x * scale[:, None, None] + shift[:, None] + vote[:, None, None] * own
        log_p = log_p - logsumexp(log_p, axis=2, keepdims=True)
        joint = log_w + log_p[:, known, truth[known]].sum(1)
        evidence.append(logsumexp(joint))
        means.append(np.tensordot(np.exp(joint - evidence[-1]), np.exp(log_p), 1))
    want = softmax(evidence)
    np.testing.assert_allclose(found.weights, want, atol=0.02)

    def probabilities(scale: np.ndarray, shift: np.ndarray, vote: np.ndarray) -> np.ndarray:
        """Mean over draws, scales (G, D), shifts (G, D, K) and votes (G, D), and maps."""
        logits = scale[..., None, None] * x + shift[:, :, None] + vote[..., None, None] * own
        return np.asarray(np.tensordot(found.weights, softmax(logits, axis=3).mean(1), 1))

    drawn = (found.scale, found.shift, found.votes[..., 0])
    averaged, mode = probabilities(*drawn), probabilities(*(x.mean(1, keepdims=True) for x in drawn))
    np.testing.assert_allclose(averaged, np.tensordot(want, means, 1), atol=0.03)
    np.testing.assert_allclose(VotesMap.of([p], data).mapped(found), (averaged + mode) / 2, atol=1e-9)


def test_without_votes_it_is_a_scale_and_a_shift(unmixed: None) -> None:
    rng = np.random.default_rng(1)
    p, truth = rng.dirichlet(np.ones(3), 60), rng.integers(3, size=60)
    x, hit = centred_logs(p), np.eye(3)[truth]

    def loss(at: np.ndarray) -> float:
        log_p = at[0] * x + at[1:]
        log_p = log_p - logsumexp(log_p, axis=1, keepdims=True)
        return float(
            -(hit * log_p).sum() + (at[0] - 1) ** 2 / (2 * SCALE_SD**2) + at[1:] @ at[1:] / (2 * SHIFT_SD**2)
        )

    best = minimize(loss, np.array([1.0, 0, 0, 0])).x
    found = VotesMap.of([p], None).fitted(np.arange(60), hit)
    np.testing.assert_allclose(found, softmax(best[0] * x + best[1:], axis=1), atol=1e-3)


def test_without_known_truths_little_moves() -> None:
    p, _, data = crowd_of([0.8, 0.7, 0.6], 50, 3, seed=2)
    votes = VotesMap.of([p], data)
    np.testing.assert_allclose(votes.fitted(np.arange(0), np.empty((0, 3))), p, atol=1e-9)
    known = votes.learned(np.arange(0), np.empty((0, 3)), [1.0], seed=0)
    assert np.abs(votes.mapped(known) - p).max() < 0.1


def test_an_annotator_who_knows_better_is_heard() -> None:
    p, truth, data = crowd_of([0.55, 0.55, 0.95, 0.55, 0.55], 400, 2, seed=3)
    known, rest = np.arange(50), np.arange(50, 400)
    votes = VotesMap.of([p], data)
    found = votes.learned(known, np.eye(2)[truth[known]], [1.0], seed=0)
    mean = found.weights @ found.votes.mean(1)
    assert mean.argmax() == 2 and found.annotators.tolist() == [0, 1, 2, 3, 4]
    mapped = votes.mapped(found)
    right = (mapped.argmax(1) == truth)[rest].mean()
    assert right > (p.argmax(1) == truth)[rest].mean() + 0.15
    assert abs(mapped[rest].max(1).mean() - right) < 0.1  # and is no surer than right


def test_truths_that_have_nothing_to_do_with_labels_make_it_unsure() -> None:
    """Of the 200 items of which nothing is known the log score is near that of even shares, log 3."""
    p, _, data = crowd_of([0.9, 0.8, 0.8, 0.9], 300, 3, seed=4)
    truth, known, rest = np.random.default_rng(5).integers(3, size=300), np.arange(100), np.arange(100, 300)
    votes = VotesMap.of([p], data)
    mapped = votes.mapped(votes.learned(known, np.eye(3)[truth[known]], [1.0], seed=0))
    before = -np.log(p[rest, truth[rest]]).mean()
    after = -np.log(mapped[rest, truth[rest]]).mean()
    assert before > np.log(3) + 0.2 and after < np.log(3) + 0.06


def test_names_of_classes_and_annotators_have_no_say() -> None:
    p, truth, data = crowd_of([0.9, 0.6, 0.7, 0.6], 120, 3, seed=6)
    item, annotator, label = data.label_codes()
    classes, people = np.array([2, 0, 1]), np.array([3, 1, 0, 2])
    rows = zip(item.tolist(), people[annotator].tolist(), classes[label].tolist(), strict=True)
    other = annotations(list(rows), 3)
    known = np.arange(40)
    one, two = VotesMap.of([p], data), VotesMap.of([p[:, np.argsort(classes)]], other)
    hit = np.eye(3)[truth[known]], np.eye(3)[classes[truth[known]]]
    np.testing.assert_allclose(two.fitted(known, hit[1])[:, classes], one.fitted(known, hit[0]), atol=1e-3)
    found, again = (x.learned(known, y, [1.0], seed=0) for x, y in zip((one, two), hit, strict=True))
    np.testing.assert_allclose(again.weights, found.weights, atol=1e-3)
    assert np.abs(two.mapped(again)[:, classes] - one.mapped(found)).max() < 0.05  # other draws


def test_the_forecast_that_known_truths_bear_out_counts() -> None:
    rng = np.random.default_rng(7)
    honest = rng.dirichlet(np.full(3, 0.3), 80)
    truth = (rng.random(80)[:, None] > honest.cumsum(1)).sum(1)
    found = VotesMap.of([rng.dirichlet(np.ones(3), 80), honest], None).learned(
        np.arange(80), np.eye(3)[truth], [0.9, 0.1], seed=0
    )
    assert found.weights[found.forecast == 1].sum() > 0.99


def test_a_label_that_is_repeated_counts_once() -> None:
    rows = [(i, j, (i + i * j) % 2) for i in range(30) for j in range(3)]
    p = np.full((30, 2), 0.5)
    once, twice = (VotesMap.of([p], annotations(x, 2)) for x in (rows, rows + [x for x in rows if x[1] == 0]))
    known = np.arange(20), np.eye(2)[np.arange(20) % 2]
    np.testing.assert_allclose(twice.fitted(*known), once.fitted(*known), atol=1e-6)
    assert len(twice.item) == 120 and len(once.item) == 90


@pytest.mark.parametrize("sharpen", [0.5, 1.0, 3.0])
def test_mapped_probabilities_are_honest_again(sharpen: float) -> None:
    rng = np.random.default_rng(8)
    honest = 0.98 * rng.dirichlet([0.6, 0.6, 0.6], 3000) + 0.02 / 3
    truth = (rng.random(3000)[:, None] > honest.cumsum(1)).sum(1)
    votes = VotesMap.of([softmax(sharpen * np.log(honest), axis=1)], None)
    found = votes.mapped(votes.learned(np.arange(1500), np.eye(3)[truth[:1500]], [1.0], seed=0))
    assert np.abs(found - honest).mean() < 0.025


def test_a_class_that_labels_take_for_another_comes_apart() -> None:
    """Labels point to class 0 where the truth is 2 in three of ten cases: no scale and no shift says so."""
    rng = np.random.default_rng(9)
    pointed = rng.integers(0, 2, 1000)
    truth = np.where((pointed == 0) & (rng.random(1000) < 0.3), 2, pointed)
    p = np.full((1000, 3), 0.01)
    p[np.arange(1000), pointed] = 0.98
    votes = VotesMap.of([p], None)
    found = votes.mapped(votes.learned(np.arange(600), np.eye(3)[truth[:600]], [1.0], seed=0))
    np.testing.assert_allclose(
        found[[pointed.argmin(), pointed.argmax()]], [[0.7, 0.0, 0.3], [0.0, 1.0, 0.0]], atol=0.06
    )


def test_truths_are_drawn_as_often_as_they_are_probable() -> None:
    p, truth, data = crowd_of([0.8, 0.7, 0.9], 40, 3, seed=10)
    votes = VotesMap.of([p, p**2 / (p**2).sum(1, keepdims=True)], data)
    found = votes.learned(np.arange(20), np.eye(3)[truth[:20]], [0.999, 0.001], seed=0)
    drawn = votes.truths(found, 3000, np.random.default_rng(0))
    shares = np.stack([(drawn == k).mean(1) for k in range(3)], 1)
    assert len(found.weights) > 3 and found.weights.min() < 0.01
    np.testing.assert_allclose(shares, votes.mapped(found), atol=0.05)
    assert votes.truths(found, 2, np.random.default_rng(0)).shape == (40, 2)  # fewer draws than maps
