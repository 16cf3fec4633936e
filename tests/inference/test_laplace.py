"""Laplace's approximation: exact where the posterior is Gaussian, near it with much data, else refused."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch

import crowdppl
from crowdppl.data.blocks import Block
from crowdppl.errors import ConvergenceWarning, MethodError
from crowdppl.inference import laplace
from crowdppl.inference.target import Target
from crowdppl.primitives import annotate, confusion_prior, plates, prevalence, truth
from tests.crowd import annotations, crowd, double, problem_of
from tests.networks.test_networks import clouds


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with double():
        yield


N, NOISE = 20, 0.7
PLACE = torch.linspace(0, 2, N, dtype=torch.float64)
SEEN = 0.5 + 0.3 * PLACE + torch.sin(9 * PLACE)


class Measured:
    """Two numbers by which something is measured on items: their posterior is Gaussian, whatever the labels."""

    def model(self, data: Block) -> None:
        level = pyro.sample("level", dist.Normal(0.0, 2.0))
        slope = pyro.sample("slope", dist.Normal(0.0, 1.0))
        log_p = prevalence(data)
        with plates.annotators(data):
            rows = pyro.sample("rows", dist.Dirichlet(confusion_prior(data)).to_event(1))
        with plates.items(data):
            pyro.sample("measured", dist.Normal(level + PLACE * slope, NOISE), obs=SEEN)
            annotate(data, rows.log(), truth(data, log_p))


def test_a_gaussian_posterior_is_found_exactly() -> None:
    design = torch.stack([torch.ones_like(PLACE), PLACE], 1)
    precision = design.mT @ design / NOISE**2 + torch.diag(torch.tensor([0.25, 1.0]))
    mean = torch.linalg.solve(precision, design.mT @ SEEN / NOISE**2)
    problem = problem_of(Measured(), crowd(N, 4, 2, 3), tolerance=1e-12)
    (run,) = laplace.fit(problem)
    target = Target(problem, "laplace")
    at, found = target.by_site(run.state.at), -target.hessian(run.state.at)
    torch.testing.assert_close(torch.stack([at["level"], at["slope"]]), mean, atol=1e-5, rtol=0)
    order = list(at)
    place = [sum(at[n].numel() for n in order[: order.index(name)]) for name in ("level", "slope")]
    torch.testing.assert_close(found[place][:, place], precision, atol=1e-8, rtol=0)


def test_the_curvature_is_that_of_the_density() -> None:
    target = Target(problem_of(crowdppl.method("glad"), crowd(6, 3, 2, 2)), "laplace")
    at, step = target.start(), 1e-5
    ends = [[target.value_and_slope(at + sign * step * unit)[1] for sign in (1, -1)] for unit in torch.eye(len(at))]
    wanted = torch.stack([one - other for one, other in ends]) / (2 * step)
    torch.testing.assert_close(target.hessian(at), wanted, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("name", ["glad", "hierarchical_dawid_skene", "item_difficulty"])
def test_many_vectors_have_the_density_of_each(name: str) -> None:
    target = Target(problem_of(crowdppl.method(name), crowd(6, 3, 2, 2)), "laplace")
    at = target.start() + 0.3 * torch.randn((4, len(target.start())), generator=torch.Generator().manual_seed(0))
    wanted = torch.stack([target.value_and_slope(u)[0] for u in at])
    torch.testing.assert_close(target.many(at), wanted, atol=1e-10, rtol=1e-10)


def test_with_known_truths_and_many_labels_it_is_the_dirichlet_posterior() -> None:
    """Its skewness is of order n ** -1/2, and so is the error of mean and deviation in units of the latter."""
    rng = np.random.default_rng(0)
    true = np.arange(600) % 3
    labels = [(i, a, int(t if rng.random() < 0.7 else rng.integers(3))) for i, t in enumerate(true) for a in (0, 1)]
    data = annotations(labels, 3, gold=dict(enumerate(true.tolist())))
    model = crowdppl.method("bayesian_dawid_skene", prior_strength=3.0, prior_accuracy=0.5)
    draws, _ = laplace.sample(problem_of(model, data, draws=4000))
    counts = np.zeros((2, 3, 3))
    for i, a, label in labels:
        counts[a, true[i], label] += 1
    c = counts + 3.0 * np.where(np.eye(3) > 0, 0.5, 0.25)
    total = c.sum(-1, keepdims=True)
    sd = np.sqrt(c / total * (1 - c / total) / (total + 1))
    found = draws["confusion"].exp().reshape(4000, 2, 3, 3).numpy()
    assert (np.abs(found.mean(0) - c / total) < 0.2 * sd).all()
    np.testing.assert_allclose(found.std(0), sd, rtol=0.1)


def test_it_agrees_with_gibbs_on_a_small_crowd() -> None:
    data = crowd(150, 8, 2, 6, seed=1)
    found = crowdppl.fit("one_coin", data, inference="laplace", seed=0, draws=4000)
    wanted = crowdppl.fit("one_coin", data, inference="gibbs", seed=0, chains=4, draws=120, warmup=40)
    one, other = (fit.annotators()[["accuracy", "accuracy_sd"]].to_numpy() for fit in (found, wanted))
    assert (np.abs(one[:, 0] - other[:, 0]) < 0.3 * other[:, 1]).all()
    np.testing.assert_allclose(one[:, 1], other[:, 1], rtol=0.2)
    assert np.abs(found.probabilities() - wanted.probabilities()).to_numpy().mean() < 0.01


def test_the_best_of_several_starts_is_kept_and_a_short_search_is_told() -> None:
    data = crowd(20, 4, 3, 3)
    said = crowdppl.fit("one_coin", data, inference="laplace", seed=0, restarts=3, draws=50).diagnostics()
    assert said["converged"] and said["objective"] == max(run["objective"] for run in said["restarts"])
    with pytest.warns(ConvergenceWarning, match="max_iterations"):
        crowdppl.fit("one_coin", data, inference="laplace", seed=0, max_iterations=1, tolerance=0.0, draws=50)


@pytest.mark.parametrize(
    ("method", "named"), [("community", "community"), ("hierarchical_dawid_skene", "concentration")]
)
def test_what_has_no_mode_is_refused_by_name(method: str, named: str) -> None:
    with pytest.raises(MethodError, match=rf"laplace refuses .*{named}"):
        laplace.start(problem_of(crowdppl.method(method), crowd(8, 5, 3, 3)))


def test_networks_large_models_and_methods_without_a_posterior_are_refused() -> None:
    how: dict[str, Any] = {"inference": "laplace", "seed": 0}
    with pytest.raises(MethodError, match="network"):
        crowdppl.fit("bayes_dgc", clouds(30, 20)[0], **how)
    with pytest.raises(MethodError, match="laplace"):
        crowdppl.fit("dawid_skene", crowd(8, 5, 3, 3), **how)
    with pytest.raises(MethodError, match="curvature of at most 5,000 numbers"):
        crowdppl.fit("glad", crowd(5000, 5, 3, 1), **how)
