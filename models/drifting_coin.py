"""Drifting coin: an annotator's accuracy may change from one period to the next.

    prevalence       = 1 / K, or ~ Dirichlet(1)                             (K)
    path[a]          ~ OneHot(weights of a Markov chain over levels)        (A, P)
    truth[i]         ~ Categorical(prevalence)                              (N)
    label[i, a]      = truth[i] with probability accuracy[path[a], period], else any other class evenly

A path is an accuracy in each period, one of evenly spaced levels. The first is drawn by Beta(right, wrong), and it
is drawn again with probability ``change`` from one period to the next: a Markov chain, summed over all paths that
change at most ``changes`` times. Periods have about equally many labels, in order of time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations, pairwise, product
from typing import Any, ClassVar, Literal

import numpy as np
import pyro
import torch
from torch import Tensor

import crowdppl.primitives as cp
from crowdppl import Annotations, mean_field


@dataclass(frozen=True)
class DriftingCoin:
    """One accuracy for each annotator and period.

    Args:
        time: the label covariate that holds times; by default the column that ``time=`` of the annotations names,
            else "time".
        periods: T, the most there can be.
        changes: how often an accuracy may change at most.
        change: probability that it is drawn again from one period to the next.
        levels: G, of accuracies.
        prevalence: "uniform" or "learned".
        right, wrong: pseudo-counts of right and wrong labels.
        starts: times at which later periods begin; found in the data.
    """

    time: str | None = None
    periods: cp.Count = 8
    changes: cp.Count = 1
    change: cp.Share = 0.1
    levels: cp.Count = 10
    prevalence: Literal["uniform", "learned"] = "uniform"
    right: cp.Positive = 4.0
    wrong: cp.Positive = 2.0
    starts: tuple[float, ...] | None = None

    card: ClassVar[cp.Card] = cp.Card(
        title="Drifting coin",
        reference="Donmez, Carbonell & Schneider (2010), A probabilistic framework to learn from multiple "
        "annotators with time-varying accuracy, SDM",
        doi="10.1137/1.9781611972801.72",
        sites={"prevalence": "K", "path": "A P", "abstention": "A D W", "truth": "N"},
        prevalence="prevalence",
        assumes="in each period an annotator is equally accurate on all classes and items, and errs evenly; few "
        "periods bring a change",
        fails="when most annotators fall below chance at once: their errors then outvote the others",
        cost="labels x K, and annotators x paths, of which there are about T x G x G with one change",
        uses=("label_covariates",),
        examples={"label_covariates": {"time": [0, 1, 2, 3]}},
    )

    def setup(self, data: Annotations) -> DriftingCoin:
        """A copy that knows which column holds times, and when periods begin."""
        time: Any = self.time or data.time or "time"
        if self.starts is not None:
            return replace(self, time=time)
        when, number = cp.label_covariates(data, time).double().unique(return_counts=True)
        before = number.cumsum(0)[:-1]  # labels before each time but the first, at which a period may begin
        even = torch.arange(1, self.periods) * int(number.sum()) / self.periods
        nearest = (before - even.unsqueeze(-1)).abs().argmin(-1) if len(before) else before
        return replace(self, time=time, starts=tuple(when[1:][nearest.unique()].tolist()))

    def model(self, data: cp.Block) -> None:
        """Draws paths, truths and labels."""
        k, log_p = data.n_classes, cp.prevalence(data, self.prevalence)
        accuracy = (torch.arange(self.levels) + 0.5) / self.levels
        log_weight, there = self._paths(accuracy)
        wrong = ((1 - accuracy) / (k - 1)).log()
        same = torch.eye(k)
        rows = accuracy.log()[:, None, None] * same + wrong[:, None, None] * (1 - same)  # (G, K, K)
        with cp.plates.annotators(data):
            path = pyro.sample("path", cp.OneHot(log_weight))
            level = torch.einsum("...ap,ptg->...atg", path, there.to(path))
            table = torch.einsum("...atg,gkl->...atkl", level, rows.to(path))
        table = cp.with_abstentions(data, table, contexts=True)
        starts = torch.tensor(self.starts or (), dtype=torch.float64, device=data.device)
        period = torch.bucketize(cp.label_covariates(data, self.time or "time").double(), starts, right=True)
        with cp.plates.items(data):
            cp.annotate(data, table, cp.truth(data, log_p), context=period)

    guide = mean_field

    def _paths(self, accuracy: Tensor) -> tuple[Tensor, Tensor]:
        """Log-weights of all paths (P,), and their level in each period as one-hot rows (P, T, G)."""
        n, g = 1 + len(self.starts or ()), self.levels
        first = ((self.right - 1) * accuracy.log() + (self.wrong - 1) * (1 - accuracy).log()).softmax(0)
        step = (1 - self.change) * torch.eye(g) + self.change * first
        found = list[list[int]]()
        for times in range(min(self.changes, n - 1) + 1):
            for cuts in combinations(range(1, n), times):
                for values in product(range(g), repeat=times + 1):
                    if all(a != b for a, b in pairwise(values)):
                        found.append(np.repeat(values, np.diff([0, *cuts, n])).tolist())
        paths = torch.tensor(found)
        weight = first[paths[:, 0]].log() + step[paths[:, :-1], paths[:, 1:]].log().sum(1)
        return weight, torch.nn.functional.one_hot(paths, g)
