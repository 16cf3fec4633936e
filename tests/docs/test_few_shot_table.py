"""The table of few-shot tasks: prototypes that query items refine, and how far meta_em is ahead of its like."""

import math

import pytest
import torch

from tests.benchmarks.few_shot import near_prototypes

SIDES = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
PLACES = torch.tensor([[[0.0], [2.0]]])


def odds(x: float) -> float:
    """The log-odds of the class whose items are further to the right, by hand."""
    return -math.log1p(math.exp(-x))


def test_prototypes_are_told_apart_by_distance() -> None:
    log_p = near_prototypes(SIDES, PLACES, torch.tensor([[[1.0], [2.0]]]))
    assert log_p[0, :, 1].tolist() == pytest.approx([math.log(0.5), odds(2.0)])


def test_query_items_draw_prototypes_towards_them() -> None:
    query = torch.tensor([[[3.0]]])
    p = math.exp(odds(4.0))  # ((3 - 0)^2 - (3 - 2)^2) / 2 is 4
    left, right = 3 * (1 - p) / (2 - p), (2 + 3 * p) / (1 + p)
    once = near_prototypes(SIDES, PLACES, query, 1)
    assert float(once[0, 0, 1]) == pytest.approx(odds(((3 - left) ** 2 - (3 - right) ** 2) / 2), abs=1e-6)
    settled = near_prototypes(SIDES, PLACES, query, 50)
    assert torch.allclose(settled, near_prototypes(SIDES, PLACES, query, 51), atol=1e-5)
    assert float(settled[0, 0, 1]) > float(once[0, 0, 1])


def test_a_class_without_labels_gets_no_query_item_and_gradients_stay_finite() -> None:
    weight = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]])
    query = torch.tensor([[[0.5], [2.5]]], requires_grad=True)
    log_p = near_prototypes(weight, PLACES, query, 3)
    assert bool((log_p[..., 1] < -1e6).all())
    log_p[0, :, 0].sum().backward()
    assert bool(torch.isfinite(query.grad).all())
