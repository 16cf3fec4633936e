"""Discounts and maps of probabilities, against hand-computed cases, limits and simulation."""

import numpy as np
import pytest

from crowdppl.results import correction
from crowdppl.results.correction import apply_map, design_effect, fit_map, fit_scale, softmax


def simulated(n: int, sharpen: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Calibrated probabilities raised to a power, and truths drawn from the calibrated ones."""
    rng = np.random.default_rng(seed)
    honest = rng.dirichlet([0.6, 0.6, 0.6], n)
    honest = 0.98 * honest + 0.02 / 3
    truth = (rng.random(n)[:, None] > honest.cumsum(1)).sum(1)
    return softmax(sharpen * np.log(honest)), truth


def test_a_discount_divides_the_evidence_by_the_design_effect() -> None:
    p = np.array([[0.9, 0.1], [0.9, 0.1], [0.5, 0.5], [1.0, 0.0]])
    labels = np.array([1, 4, 4, 9])
    np.testing.assert_allclose(design_effect(p, labels, 0.0), p, atol=1e-12)
    found = design_effect(p, labels, 0.5)
    np.testing.assert_allclose(found[0], p[0])  # one label is worth one
    odds = 9 ** (1 / 2.5)  # four labels: 1 + 0.5 * 3
    np.testing.assert_allclose(found[1], [odds / (1 + odds), 1 / (1 + odds)])
    np.testing.assert_allclose(found[2], 0.5)
    np.testing.assert_allclose(found.sum(1), 1)
    assert (found.argmax(1)[[0, 1, 3]] == 0).all()


def test_at_full_correlation_any_number_of_labels_is_worth_one() -> None:
    one = np.array([[0.7, 0.3]])
    many = np.array([[0.7**6, 0.3**6]]) / (0.7**6 + 0.3**6)
    np.testing.assert_allclose(design_effect(many, np.array([6]), 1.0), one)


def apply_scale(p: np.ndarray, scale: float, shift: np.ndarray) -> np.ndarray:
    return softmax(scale * np.log(p) + shift)


@pytest.mark.parametrize("sharpen", [0.5, 1.0, 3.0])
def test_the_scale_of_sharpened_probabilities_comes_back(sharpen: float) -> None:
    p, truth = simulated(4000, sharpen)
    scale, shift = fit_scale(p, truth)
    assert scale == pytest.approx(1 / sharpen, rel=0.1)
    assert np.abs(shift - shift.mean()).max() < 0.15
    honest, _ = simulated(4000, 1.0)
    assert np.abs(apply_scale(p, scale, shift) - honest).max() < 0.06


@pytest.mark.parametrize("sharpen", [0.5, 1.0, 3.0])
def test_mapped_probabilities_are_honest_again(sharpen: float) -> None:
    p, truth = simulated(4000, sharpen)
    honest, _ = simulated(4000, 1.0)
    assert np.abs(apply_map(fit_map(p, truth), p) - honest).mean() < 0.02


def test_classes_that_labels_confuse_come_apart_as_the_channel_says() -> None:
    """Labels point to class 0 where the truth is 2 in three of ten cases: no scale and no shift says so."""
    rng = np.random.default_rng(5)
    pointed = rng.integers(0, 2, 3000)
    truth = np.where((pointed == 0) & (rng.random(3000) < 0.3), 2, pointed)
    p = np.full((3000, 3), 0.01)
    p[np.arange(3000), pointed] = 0.98
    found = fit_map(p, truth)
    channel = np.tensordot(found.weights, found.channels, 1)
    np.testing.assert_allclose(channel[:2], [[0.7, 0, 0.3], [0, 1, 0]], atol=0.04)


def test_a_channel_with_one_class_in_doubt_is_its_posterior_mean() -> None:
    """With certain labels the counts are known: Dirichlet posterior means, and predictions without one's own."""
    p, truth = np.eye(2)[[0, 0, 0, 1]], np.array([0, 0, 1, 1])
    prior = correction.PRIOR_STRENGTH * (
        correction.PRIOR_ACCURACY * np.eye(2) + (1 - correction.PRIOR_ACCURACY) / 2
    )
    channel, score = correction._channel(p, truth, prior)
    np.testing.assert_allclose(channel, [[(3.8 + 2) / 7, 1.2 / 7], [0.2 / 5, 4.8 / 5]])
    np.testing.assert_allclose(score, np.log([4.8 / 6, 4.8 / 6, 0.2 / 6, 3.8 / 4]).sum())


def test_ten_truths_move_a_map_little_and_none_hardly_at_all() -> None:
    p, truth = simulated(10, 1.0, seed=3)
    scale, shift = fit_scale(p, truth)
    assert 0.5 < scale < 2 and np.abs(shift).max() < 0.6
    assert np.abs(apply_map(fit_map(p, truth), p) - p).max() < 0.2
    scale, shift = fit_scale(p[:0], truth[:0])
    assert scale == pytest.approx(1) and np.abs(shift).max() < 1e-9


def test_the_order_of_classes_has_no_say_and_maps_are_monotone() -> None:
    p, truth = simulated(300, 2.0, seed=1)
    order = np.array([2, 0, 1])
    found, again = fit_map(p, truth), fit_map(p[:, order], np.argsort(order)[truth])
    np.testing.assert_allclose(apply_map(again, p[:, order]), apply_map(found, p)[:, order], atol=1e-4)
    scale, shift = fit_scale(p, truth)
    mapped = apply_scale(p, scale, shift)
    odds, before = np.log(mapped[:, 0] / mapped[:, 1]), np.log(p[:, 0] / p[:, 1])
    assert (np.diff(odds[np.argsort(before)]) >= -1e-9).all()


def test_of_two_classes_the_likelier_stays_the_likelier() -> None:
    rng = np.random.default_rng(2)
    sure = np.sort(rng.random(400))
    truth = (rng.random(400) < sure).astype(int)
    p = np.stack([1 - sure, sure], 1)
    found = apply_map(fit_map(p, truth), p)
    assert (np.diff(found[:, 1]) > 0).all()
