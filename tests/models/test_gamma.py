"""Gamma weights whose shares are labels' probabilities: by every engine what Dirichlet rows are."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch

import crowdppl
from crowdppl.data.blocks import Block
from crowdppl.errors import MethodError
from crowdppl.inference.mcmc import gibbs
from crowdppl.inference.vb.coordinate_ascent import EM, VB
from crowdppl.inference.vb.fit import run_starts
from crowdppl.primitives import annotate, natural, neg_log, plates, prevalence, truth
from tests.crowd import annotations, crowd, double, problem_of
from tests.evidence import STATES, exact, leaning

LABELS = [(0, 0, 0), (0, 1, 0), (1, 0, 1), (1, 0, 0), (1, 2, 1), (2, 1, 1), (2, 2, 1), (3, 1, 0), (3, 2, 1)]


@dataclass(frozen=True)
class Luce:
    """Luce's rule of choice: an answer is given in proportion to its weight.

    Weights of one row are independent Gammas of one rate, so that their shares are a Dirichlet.
    """

    strength: float = 1.8
    accuracy: float = 0.61

    def model(self, data: Block) -> None:
        concentration = torch.from_numpy(leaning(data.n_classes, self.strength, self.accuracy))
        log_p = prevalence(data)
        with plates.annotators(data):
            log_weight, weight = natural("weight", dist.Gamma(concentration, 1.0).to_event(2))
            log_rows = log_weight + neg_log(weight.sum(-1)).unsqueeze(-1)
        with plates.items(data):
            annotate(data, log_rows, truth(data, log_p))


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with double():
        yield


def test_its_sites_are_recognised() -> None:
    sites = problem_of(Luce(), crowd(20, 4, 3, 3)).sites
    assert {n: site.kind for n, site in sites.items()} == {"prevalence": "conjugate", "weight": "conjugate"}
    assert sites["weight"].conjugate.name == "gamma"


def test_a_gamma_that_enters_as_itself_is_not_taken_for_linear() -> None:
    class Direct(Luce):
        def model(self, data: Block) -> None:
            log_p = prevalence(data)
            with plates.annotators(data):
                weight = pyro.sample("weight", dist.Gamma(torch.full((2, 2), 2.0), 1.0).to_event(2))
            with plates.items(data):
                annotate(data, (weight / weight.sum(-1, keepdim=True)).log(), truth(data, log_p))

    assert problem_of(Direct(), annotations(LABELS, 2)).sites["weight"].kind == "free"


def test_gibbs_has_the_exact_posterior() -> None:
    """With 95 degrees of freedom an error of the mean over chains beyond 4.3 has chance 4e-5 for each of 24."""
    wanted = exact(STATES["bayesian_dawid_skene"](LABELS, 2), 2)
    problem = problem_of(Luce(), annotations(LABELS, 2), chains=96, draws=75, warmup=40)
    draws, *_ = gibbs.sample(problem)
    weight = problem.sites["weight"].value(draws["weight"])
    shares = (weight / weight.sum(-1, keepdim=True)).numpy()
    for power, moment in ((1, wanted.mean["confusion"]), (2, wanted.square["confusion"])):
        means = (shares**power).mean(1).reshape(96, *moment.shape)
        error = means.std(0, ddof=1) / 96**0.5
        assert error.max() < 0.02 and (np.abs(means.mean(0) - moment) <= 4.3 * error).all()


def test_vb_never_falls_and_bounds_the_evidence() -> None:
    wanted = exact(STATES["bayesian_dawid_skene"](LABELS, 2), 2)
    problem = problem_of(Luce(), annotations(LABELS, 2), tolerance=1e-13, max_iterations=500)
    (run,) = run_starts(problem, VB)
    x = np.array(run.progress.objectives)
    assert np.diff(x).min() >= -1e-9 * np.abs(x).max()
    assert wanted.log_evidence - 6 < x[-1] < wanted.log_evidence
    x = np.array(
        run_starts(problem_of(Luce(), crowd(40, 6, 3, 4, seed=2), tolerance=0.0, max_iterations=40), VB)[
            0
        ].progress.objectives
    )
    assert np.diff(x).min() >= -1e-9 * np.abs(x).max()


def test_em_has_the_mode_of_dirichlet_rows() -> None:
    """In a row's shares and total, the Gammas' densities are the Dirichlet's and one of the total alone."""
    data, how = crowd(60, 5, 3, 5, seed=4), {"tolerance": 1e-15, "max_iterations": 3000}
    (found,) = run_starts(problem := problem_of(Luce(6.0, 0.5), data, **how), EM)
    x = np.array(found.progress.objectives)
    assert np.diff(x).min() >= -1e-9 * np.abs(x).max()
    same = crowdppl.method("bayesian_dawid_skene", prior_strength=6.0, prior_accuracy=0.5, prevalence_strength=1.0)
    (wanted,) = run_starts(problem_of(same, data, **how), EM)
    weight = problem.sites["weight"].value(found.state.parameters["weight"])
    rows = weight / weight.sum(-1, keepdim=True)
    torch.testing.assert_close(rows, wanted.state.parameters["confusion"].exp(), atol=1e-4, rtol=1e-4)
    with pytest.raises(MethodError, match="0.351"):
        EM.start(problem_of(Luce(), data))
