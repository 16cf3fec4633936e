"""Several one-hot latents of an annotator that enter one table: each is updated, or drawn, given the others."""

from dataclasses import dataclass

import numpy as np
import pyro
import pytest
import torch
from torch import Tensor

import crowdppl
from crowdppl.data.blocks import Block
from crowdppl.inference.mcmc import gibbs
from crowdppl.inference.vb.fit import run_starts
from crowdppl.primitives import OneHot, annotate, plates, prevalence, truth
from tests.crowd import ASCENTS, annotations, crowd, double, problem_of

CAMP, HABIT = torch.tensor([0.51, 0.49]), torch.tensor([0.6, 0.4])


def tables(k: int, sure: float) -> Tensor:
    """(2, 2, K, K): an annotator is good where camp and habit agree, and else names the class before."""
    same = torch.eye(k)
    good, bad = (x * sure + (1 - sure) / k for x in (same, torch.roll(same, 1, -1)))
    return torch.stack([torch.stack([good, bad]), torch.stack([bad, good])]).log()


@dataclass(frozen=True)
class TwoOneHots:
    """What an annotator does is decided by two latents together, and by neither alone."""

    sure: float = 0.8

    def model(self, data: Block) -> None:
        log_p = prevalence(data)
        with plates.annotators(data):
            camp = pyro.sample("camp", OneHot(CAMP.log()))
            habit = pyro.sample("habit", OneHot(HABIT.log()))
            both = camp[..., :, None, None, None] * habit[..., None, :, None, None]
            log = (both * tables(data.n_classes, self.sure)).sum((-4, -3))
        with plates.items(data):
            annotate(data, log, truth(data, log_p))


@pytest.mark.parametrize("engine", ["em", "vb"])
@pytest.mark.parametrize("data", [crowdppl.anaesthetists(), crowd(40, 6, 3, 4, seed=2)])
def test_the_objective_never_falls(engine: str, data: crowdppl.Annotations) -> None:
    with double():
        for seed in range(3):
            problem = problem_of(TwoOneHots(), data, seed=seed, max_iterations=30, tolerance=0.0)
            (run,) = run_starts(problem, ASCENTS[engine])
            x = np.array(run.progress.objectives)
            assert (np.diff(x) / np.abs(x[1:])).min() >= -1e-9


def test_gibbs_draws_them_from_their_joint_posterior() -> None:
    """All truths are known, so that annotators are independent and each has four alternatives to add up."""
    labels = [(i, a, i % 2 if (i + a) % 3 else (i + 1) % 2) for i in range(4) for a in range(3)]
    data = annotations(labels, 2, gold={i: i % 2 for i in range(4)})
    with double():
        problem = problem_of(TwoOneHots(0.3), data, chains=64, draws=60, warmup=20)
        draws, *_ = gibbs.sample(problem)
        log, prior = tables(2, 0.3), CAMP[:, None].log() + HABIT.log()
        for a in range(3):
            score = prior + sum(log[:, :, i % 2, x] for i, b, x in labels if b == a)
            wanted = score.flatten().softmax(0).reshape(2, 2)
            camp, habit = (draws[name][:, :, a] for name in ("camp", "habit"))
            found = (camp[..., :, None] * habit[..., None, :]).mean(1)  # (chains, 2, 2)
            error = found.std(0) / 8
            assert (error < 0.02).all()
            assert ((found.mean(0) - wanted).abs() <= 5 * error).all()
