"""Discounts and scales of probabilities, against hand-computed cases, limits and simulation."""

import numpy as np
import pytest

from crowdppl.results.correction import design_effect, fit_scale, softmax


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


def test_ten_truths_move_a_scale_little_and_none_not_at_all() -> None:
    p, truth = simulated(10, 1.0, seed=3)
    scale, shift = fit_scale(p, truth)
    assert 0.5 < scale < 2 and np.abs(shift).max() < 0.6
    scale, shift = fit_scale(p[:0], truth[:0])
    assert scale == pytest.approx(1) and np.abs(shift).max() < 1e-9


def test_the_order_of_classes_has_no_say_and_scales_are_monotone() -> None:
    p, truth = simulated(300, 2.0, seed=1)
    order = np.array([2, 0, 1])
    scale, shift = fit_scale(p, truth)
    again = fit_scale(p[:, order], np.argsort(order)[truth])
    np.testing.assert_allclose(again[1], shift[order], atol=1e-4)
    mapped = apply_scale(p, scale, shift)
    odds, before = np.log(mapped[:, 0] / mapped[:, 1]), np.log(p[:, 0] / p[:, 1])
    assert (np.diff(odds[np.argsort(before)]) >= -1e-9).all()
