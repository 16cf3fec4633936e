"""Mixed membership: honest about items that lie between classes, where Dawid-Skene is not."""

import numpy as np
import pytest
import torch

import crowdppl
from crowdppl.evaluation.compare import compare
from crowdppl.evaluation.evaluate import evaluate
from crowdppl.primitives.sums import Summing, summing
from tests.crowd import crowd, problem_of


@pytest.mark.parametrize("k", [2, 3, 5, 6, 10])
def test_atoms_are_shares_each_once(k: int) -> None:
    found = crowdppl.primitives.class_blends(k).exp()
    assert found.shape[1] == k and bool((found >= 0).all())
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-6)
    np.testing.assert_allclose(found[:k], torch.eye(k), atol=1e-30)
    assert len(torch.unique((1e4 * found).round(), dim=0)) == len(found)


@pytest.mark.slow
def test_on_its_own_data_it_is_calibrated_and_dawid_skene_is_too_sure() -> None:
    model = crowdppl.method("mixed_membership", prior_strength=20.0, prior_accuracy=0.85)
    design = crowdppl.random_design(800, 12, 6, classes=3, seed=1)
    made = crowdppl.simulate(model, design, seed=2)
    own, plain = (
        crowdppl.fit(name, made.data, inference="vb", tolerance=1e-6)
        for name in ("mixed_membership", "bayesian_dawid_skene")
    )
    scores, others = evaluate(own, made.truth), evaluate(plain, made.truth)
    assert scores.log_score < others.log_score - 0.1
    assert scores.ece < 0.06 < others.ece
    table = compare(
        ["mixed_membership", "bayesian_dawid_skene"], made.data, inference="vb", folds=3, tolerance=1e-6
    )
    assert table.best == "mixed_membership"
    assert table.table["difference"].iloc[1] < -2 * table.table["difference_se"].iloc[1]


@pytest.mark.parametrize("k", [2, 3, 6])
def test_the_product_of_matrices_is_the_sum_that_can_be_drawn(k: int) -> None:
    """Values and gradients, also where an annotator was never offered an answer, or is almost never wrong."""
    atoms = crowdppl.primitives.class_blends(k).double()
    stream = torch.Generator().manual_seed(k)
    rows = (9 * torch.randn(4, 5, k, k + 1, generator=stream, dtype=torch.float64)).log_softmax(-1).clamp(min=-80)
    rows[..., :2, :, k] = -torch.inf
    weights = torch.rand(4, 5, len(atoms), k + 1, generator=stream, dtype=torch.float64)
    weights[..., :2, :, k] = 0
    found = []
    for how in (Summing(), Summing("draw")):
        leaf = rows.clone().requires_grad_()
        with summing(how):
            table = crowdppl.primitives.through_blends(atoms, leaf)
        found.append(table)
    mixed, drawn = found
    torch.testing.assert_close(mixed, drawn, rtol=1e-12, atol=1e-12)
    assert bool((mixed[:, :2, :, k] == -torch.inf).all()) and bool(mixed[:, 2:].isfinite().all())
    at = rows.clone().requires_grad_()
    offered = mixed.isfinite()
    (gradient,) = torch.autograd.grad((weights * crowdppl.primitives.through_blends(atoms, at))[offered].sum(), at)
    terms = atoms.unsqueeze(-1) + rows.unsqueeze(-3)  # (..., S, K, L)
    share = (terms - drawn.detach().unsqueeze(-2)).exp().nan_to_num()
    torch.testing.assert_close(gradient, (weights.unsqueeze(-2) * share).sum(-3), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("gap", [-95.0, -120.0, -720.0, -800.0, -torch.inf])
def test_an_answer_that_never_comes_stays_as_improbable_as_can_be(gap: float, dtype: torch.dtype) -> None:
    """Annotators without errors: of an item that is one class alone they never say the other."""
    rows = torch.tensor([[0.0, gap], [gap, 0.0]], dtype=dtype)[None].requires_grad_()
    table = crowdppl.primitives.through_blends(crowdppl.primitives.class_blends(2, blends=(0.5,)).to(dtype), rows)
    never = table.detach()[0, [0, 1], [1, 0]]
    assert bool((never <= -75).all()) and bool(never.isfinite().all())
    torch.testing.assert_close(table.detach()[0, 2], torch.tensor([0.5, 0.5], dtype=dtype).log())
    (gradient,) = torch.autograd.grad(table.sum(), rows)
    assert not bool(gradient.isnan().any())


@pytest.mark.parametrize(
    ("name", "settings", "states"),
    [
        ("dawid_skene", {}, 3),
        ("mixed_membership", {}, 40),
        ("hierarchical_mixed_membership", {"diluted": False}, 30),
        ("ebcc", {"subtypes": 2}, 6),
    ],
)
def test_it_is_known_how_many_alternatives_of_an_item_a_pass_keeps_apart(
    name: str, settings: dict[str, int], states: int
) -> None:
    """Draws are taken so many at a time as memory allows for these: with only classes counted it was 14 GB."""
    assert problem_of(crowdppl.method(name, **settings), crowd(300, 5, 3, 3)).states == states


def test_more_classes_have_fewer_blends() -> None:
    """Three shares for each pair of 500 classes were 750,501 atoms, which no machine holds."""
    for k, uneven, even in [(5, 4, 1), (6, 3, 0), (20, 3, 0), (21, 0, 1), (50, 0, 1), (51, 0, 0), (500, 0, 0)]:
        corners, pairs, diluted = k, k * (k - 1) // 2, 3 * k + 1
        assert len(crowdppl.primitives.class_blends(k)) == corners + (2 * uneven + even) * pairs + diluted
