"""The table of few-shot tasks: prototypes that query items refine, and how far meta_em is ahead of its like."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tests.benchmarks.few_shot import LABELS, LIKE, near_prototypes
from tests.benchmarks.test_few_shot import leads

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
    assert query.grad is not None
    assert bool(torch.isfinite(query.grad).all())


def test_leads_compare_each_with_its_like() -> None:
    right = {name: {"prototypes": 0.8, "refined": 0.9}[like] for name, like in LIKE.items()}
    right |= {f"prototypes, {labels}": 0.75 for labels in LABELS} | {
        f"refined, {labels}": 0.88 for labels in LABELS
    }
    found = {"a cell": {name: np.full((2, 3, 4), x) for name, x in right.items()}}
    lower = {"a cell": {name: x - 0.01 * (name == "as published") for name, x in found["a cell"].items()}}
    text = leads({"digits": found, "LabelMe": lower})
    assert "| as published | prototypes, Dawid-Skene | +5.0 ± 0.0 | +4.0 ± 0.0 | +4.5 ± 0.0 |" in text
    assert (
        "| as published, query items in the fit | refined, majority vote | +2.0 ± 0.0 | +2.0 ± 0.0 | +2.0 ± 0.0 |"
        in text
    )
    verdict = text.splitlines()[-1]
    assert verdict.startswith(
        "Ahead by 3 points or more: digits 9 of 18 (as published over prototypes, majority vote; "
    )
    assert "), LabelMe 9 of 18 (as published" in verdict
    assert "refined" not in verdict
