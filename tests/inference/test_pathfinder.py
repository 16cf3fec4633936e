"""Pathfinder: normals are those of the curvature, a Gaussian posterior is found, and a large Pareto k is told."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

import crowdppl
from crowdppl.core.importance import pareto_smoothed, weights_of
from crowdppl.criticism.doubts import doubts
from crowdppl.data.blocks import Block
from crowdppl.errors import ConvergenceWarning, MethodError, NumericalError
from crowdppl.inference import pathfinder
from crowdppl.inference.pathfinder import Normal
from crowdppl.inference.sites import CentredSoftmax
from crowdppl.inference.target import Target
from crowdppl.primitives import annotate, plates, prevalence, truth
from tests.crowd import crowd, double, problem_of
from tests.inference.test_laplace import NOISE, PLACE, SEEN, N


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with double():
        yield


class Quadratic:
    """The log density of a normal."""

    def __init__(self, mean: Tensor, precision: Tensor) -> None:
        self.mean, self.precision = mean, precision

    def value_and_slope(self, u: Tensor) -> tuple[Tensor, Tensor]:
        slope = -self.precision @ (u - self.mean)
        return slope @ (u - self.mean) / 2, slope


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_conjugate_steps_on_a_quadratic_give_its_mean_and_covariance() -> None:
    """As many steps as dimensions, each conjugate to the others, determine the inverse Hessian of BFGS."""
    root, mean, u = random(5, 5) + 3 * torch.eye(5), random(5, seed=1), random(5, seed=2)
    precision = root @ root.mT
    steps = torch.linalg.eigh(precision)[1].mT * torch.tensor([[1.0], [0.5], [2.0], [-1.0], [0.1]])
    found = Normal.at(Quadratic(mean, precision), u, {"old_stps": steps, "old_dirs": steps @ precision})  # type: ignore[arg-type]
    torch.testing.assert_close(found.mean, mean)
    spread = found.scale[:, None] * (torch.eye(5) + found.basis @ (found.factor - torch.eye(5)) @ found.basis.mT)
    torch.testing.assert_close(spread @ spread.mT, torch.linalg.inv(precision))


@pytest.mark.parametrize("steps", [0, 2, 4])
def test_draws_have_the_density_that_is_said(steps: int) -> None:
    precision = torch.diag(torch.tensor([1.0, 2.0, 5.0, 0.5, 9.0]))
    moved = random(steps, 5)
    memory = {"old_stps": moved, "old_dirs": moved @ precision} if steps else {}
    found = Normal.at(Quadratic(torch.zeros(5), precision), random(5, seed=3), memory)  # type: ignore[arg-type]
    draws, log_q = found.draw(40_000, torch.Generator().manual_seed(0))
    eye = torch.eye(found.basis.shape[1])
    spread = found.scale[:, None] * (torch.eye(5) + found.basis @ (found.factor - eye) @ found.basis.mT)
    wanted = dist.MultivariateNormal(found.mean, spread @ spread.mT)
    torch.testing.assert_close(log_q, wanted.log_prob(draws))
    assert ((draws.mean(0) - found.mean).abs() < 5 * spread.norm(dim=1) / 200).all()
    torch.testing.assert_close(draws.T.cov(), spread @ spread.mT, atol=0.1, rtol=0.05)


def test_a_curvature_that_is_none_gives_no_density() -> None:
    """Changes of the slope almost at right angles to their steps, in which no inverse Hessian can be factored."""
    u, steps, turns = torch.ones(4), random(3, 4), random(3, 4, seed=1)
    turns = turns - ((turns * steps).sum(1, keepdim=True) - 1e-4) / steps.square().sum(1, keepdim=True) * steps
    quadratic: Any = Quadratic(torch.zeros(4), torch.eye(4))
    draws, log_q = Normal.at(quadratic, u, {"old_stps": steps, "old_dirs": turns}).draw(3, torch.Generator())
    assert log_q.isnan().all() and not draws.isfinite().any()


class Line:
    """Level and slope of what is measured on items: their posterior is Gaussian, whatever the labels."""

    def model(self, data: Block) -> None:
        level = pyro.sample("level", dist.Normal(0.0, 2.0))
        slope = pyro.sample("slope", dist.Normal(0.0, 1.0))
        log_p = prevalence(data, "uniform")
        with plates.items(data):
            place, seen = PLACE[: data.n_items], SEEN[: data.n_items]  # a model is tried on a few items first
            pyro.sample("measured", dist.Normal(level + place * slope, NOISE), obs=seen)
            rows = (torch.eye(data.n_classes) + 1).log().log_softmax(-1).expand(data.n_annotators, -1, -1)
            annotate(data, rows, truth(data, log_p))


def test_a_gaussian_posterior_is_found() -> None:
    design = torch.stack([torch.ones_like(PLACE), PLACE], 1)
    precision = design.mT @ design / NOISE**2 + torch.diag(torch.tensor([0.25, 1.0]))
    mean, covariance = torch.linalg.solve(precision, design.mT @ SEEN / NOISE**2), torch.linalg.inv(precision)
    draws, paths, k = pathfinder.sample(problem_of(Line(), crowd(N, 4, 2, 3), draws=4000))
    assert len(paths) == 4 and k < 0.5
    found = torch.stack([draws["level"].flatten(), draws["slope"].flatten()])
    assert ((found.mean(1) - mean).abs() < 5 * covariance.diagonal().sqrt() / 4000**0.5 * 1.5).all()
    torch.testing.assert_close(found.cov(), covariance, rtol=0.1, atol=0)


def test_the_density_of_proportions_is_that_of_any_change_of_variables() -> None:
    """A Dirichlet in K numbers integrates to one: the sum of the numbers is a standard normal times sqrt(K)."""
    grid = torch.linspace(-9, 9, 361)
    u = torch.stack(torch.meshgrid(grid, grid, indexing="ij"), -1)
    x = CentredSoftmax()(u)
    log_p = dist.Dirichlet(torch.tensor([3.0, 2.0])).log_prob(x) + CentredSoftmax().log_abs_det_jacobian(u, x)
    assert float(log_p.exp().sum() * (grid[1] - grid[0]) ** 2) == pytest.approx(1, abs=1e-3)
    back = CentredSoftmax()(CentredSoftmax()._inverse(x))
    torch.testing.assert_close(back, x)


def test_it_agrees_with_gibbs_on_a_small_crowd() -> None:
    data = crowd(150, 8, 2, 6, seed=1)
    found = crowdppl.fit("one_coin", data, inference="pathfinder", seed=0, draws=2000)
    wanted = crowdppl.fit("one_coin", data, inference="gibbs", seed=0, chains=4, draws=120, warmup=40)
    one, other = (fit.annotators()[["accuracy", "accuracy_sd"]].to_numpy() for fit in (found, wanted))
    assert (np.abs(one[:, 0] - other[:, 0]) < 0.4 * other[:, 1]).all()
    np.testing.assert_allclose(one[:, 1], other[:, 1], rtol=0.3)
    assert np.abs(found.probabilities() - wanted.probabilities()).to_numpy().mean() < 0.02


def test_a_posterior_far_from_normal_is_told() -> None:
    with pytest.warns(ConvergenceWarning, match=r"Pareto k .*nuts") as told:
        said = crowdppl.fit(
            "item_difficulty", crowd(20, 4, 3, 3), inference="pathfinder", seed=0, chains=2, draws=60
        )
    found = said.diagnostics()
    assert found["pareto_k"] > 0.7 and not found["converged"] and len(found["restarts"]) == 2
    (doubt,) = (doubt for doubt in said.doubts() if doubt.kind == "pareto")
    assert doubt.figures == {"pareto_k": found["pareto_k"]} and doubt.text in found["warnings"]
    assert sum("Pareto k" in str(x.message) for x in told) == 1
    assert doubt.remedies == ("crowdppl.fit(posterior.model, data, inference='nuts')",)


def test_too_few_draws_to_judge_are_told_apart_from_a_normal_that_is_far_off() -> None:
    how: dict[str, Any] = {"inference": "pathfinder", "seed": 0, "chains": 2}
    data = crowd(40, 6, 2, 5)
    few = crowdppl.fit("majority_vote", data, draws=3, **how)
    (doubt,) = (doubt for doubt in few.doubts() if doubt.kind == "pareto")
    assert np.isnan(doubt.figures["pareto_k"]) and not few.diagnostics()["converged"]
    assert "raise draws" in doubt.text and "normals are far" not in doubt.text
    (remedy,) = doubt.remedies
    again = eval(remedy, {"crowdppl": crowdppl, "posterior": few, "data": data})
    assert not np.isnan(again.diagnostics()["pareto_k"])


def test_the_remedy_of_a_corrected_fit_corrects_too() -> None:
    few = crowdppl.fit(
        "one_coin", crowd(60, 6, 2, 5), inference="pathfinder", calibrate=True, seed=0, chains=1, draws=60
    )
    far = replace(few, result=replace(few.result, diagnostics={**few.diagnostics(), "pareto_k": 2.0}))
    (doubt,) = (doubt for doubt in doubts(far) if doubt.kind == "pareto")
    assert doubt.remedies == ("crowdppl.fit(posterior.model, data, inference='nuts', calibrate=True)",)


def test_a_saved_posterior_keeps_the_shape_of_its_weights(tmp_path: Path) -> None:
    saved = crowdppl.fit("one_coin", crowd(20, 4, 3, 3), inference="pathfinder", seed=0, chains=2, draws=60)
    saved.save(tmp_path)
    loaded = crowdppl.load(tmp_path)
    assert loaded.diagnostics() == saved.diagnostics()
    pd.testing.assert_frame_equal(loaded.probabilities(), saved.probabilities())


def test_weights_of_a_pareto_tail_have_its_shape() -> None:
    ratios = np.random.default_rng(0).pareto(1 / 0.4, 20_000) + 1
    log_weights, k = pareto_smoothed(np.log(ratios))
    assert k == pytest.approx(0.4, abs=0.1)
    np.testing.assert_allclose(np.exp(log_weights).sum(), 1)


def test_draws_of_a_normal_that_is_too_wide_are_weighted_to_the_right_width() -> None:
    x = 2 * np.random.default_rng(0).normal(size=20_000)
    weights, k = weights_of(x**2 / 8 - x**2 / 2)
    assert k < 0
    assert np.sum(weights * x**2) == pytest.approx(1, abs=0.05)


def test_one_draw_has_all_the_weight_and_draws_without_density_are_refused() -> None:
    weights, k = weights_of(np.array([-3.0]))
    assert weights.tolist() == [1.0] and np.isnan(k)
    with pytest.raises(NumericalError, match="no draw of a finite density"):
        weights_of(np.full(50, -np.inf))


def test_a_draw_without_density_weighs_nothing_however_heavy_the_tail() -> None:
    weights, k = weights_of(np.array([0.0, -1.0, -2.0] + [-np.inf] * 50))
    assert k == np.inf
    np.testing.assert_allclose(weights, [1 / 3] * 3 + [0] * 50)


def test_a_site_that_cannot_be_summed_out_is_refused_by_name() -> None:
    with pytest.raises(MethodError, match=r"pathfinder refuses .*community"):
        pathfinder.capability(problem_of(crowdppl.method("community"), crowd(8, 5, 3, 3)))


def test_vectors_of_no_density_have_no_weight() -> None:
    target = Target(problem_of(crowdppl.method("glad"), crowd(6, 3, 2, 2)), "pathfinder")
    u = target.start().repeat(3, 1)
    u[1, 0] = float("nan")
    found = target.many(u)
    assert found[1] == -torch.inf
    torch.testing.assert_close(found[[0, 2]], target.many(u[[0, 2]]))
