"""Minimax conditional entropy: potentials of annotators and of items add up to the odds of each label.

    prevalence             = 1 / K, or ~ Dirichlet(1)                       (K)
    habit[a, k, l]         ~ Normal(0, (penalty K^2)^-1/2)                  (A, K, K)
    trap[i, k, l]          ~ Normal(0, (penalty K^2 N / A)^-1/2)            (N, K, K)
    truth[i]               ~ Categorical(prevalence)                        (N)
    label[i, a]            ~ Categorical(softmax(habit[a, truth[i]] + trap[i, truth[i]]))

The posterior mode is the regularised minimax solution of the paper. Where annotators gave few labels, its
penalty of .25 would draw all potentials to 0, and with them all classes together; the default is then smaller.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor

import crowdppl.primitives as cp
from crowdppl import mean_field

PUBLISHED = 0.25
"""The penalty of the paper."""


@dataclass(frozen=True)
class MinimaxEntropy:
    """Annotators have habits, items have traps.

    Args:
        prevalence: "uniform" or "learned".
        items: whether items have potentials of their own.
        penalty: precision of an annotator's Gaussian priors, in units of K^2; by default .25, or less, so that a
            potential's prior weighs no more than a cell of an annotator's K^2 has labels on average.
        ratio: how much tighter an item's prior is than an annotator's; by default labels per annotator over labels
            per item, computed from the data.
    """

    prevalence: Literal["uniform", "learned"] = "uniform"
    items: bool = True
    penalty: cp.Positive | None = None
    ratio: cp.Positive | None = None

    card: ClassVar[cp.Card] = cp.Card(
        title="Minimax entropy",
        reference="Zhou et al. (2014), Aggregating ordinal labels from crowds by minimax conditional entropy, ICML "
        "(and NIPS 2012)",
        sites={"prevalence": "K", "habit": "A K K", "trap": "N K K", "abstention": "A D W", "truth": "N"},
        prevalence="prevalence",
        assumes="on the scale of log-odds, what misleads on an item adds to an annotator's habits",
        fails="with few labels per item, whose traps then explain away its truth; it is overconfident",
        cost="labels x K x K, a gradient step for each annotator and item",
    )

    def setup(self, data: cp.Block) -> MinimaxEntropy:
        """A copy with the penalty, and the ratio of the two priors' strengths."""
        return replace(self, penalty=self._penalty(data), ratio=self._ratio(data))

    def _penalty(self, data: cp.Block) -> float:
        if self.penalty is not None:
            return self.penalty
        return min(PUBLISHED, data.n_labels / (data.n_annotators * data.n_classes**4))

    def _ratio(self, data: cp.Block) -> float:
        return data.n_items / data.n_annotators if self.ratio is None else self.ratio

    def model(self, data: cp.Block) -> None:
        """Draws potentials, truths and labels."""
        k, strength = data.n_classes, self._penalty(data) * data.n_classes**2
        log_p = cp.prevalence(data, self.prevalence)
        even = torch.zeros(k, k)
        with cp.plates.annotators(data):
            habit = pyro.sample("habit", dist.Normal(even, strength**-0.5).to_event(2))
        items = cp.plates.items(data)
        trap: Tensor | None = None
        if self.items:
            with items:
                spread = (strength * self._ratio(data)) ** -0.5
                trap = pyro.sample("trap", dist.Normal(even, spread).to_event(2))

        def log_label(answer: Tensor) -> Tensor:
            x = data.of_annotator(habit, event_dim=2)
            x = x if trap is None else x + data.of_item(trap, event_dim=2)
            return cp.each_label(x)(answer) - x.logsumexp(-1)

        table = cp.with_abstentions(data, log_label if self.items else habit.log_softmax(-1))
        with items:
            cp.annotate(data, table, cp.truth(data, log_p))

    guide = mean_field

    def init(self, data: cp.Block) -> dict[str, Tensor]:
        """Potentials fitted to the votes: from potentials of annotators alone, fits end in poorer optima."""
        k = data.n_classes
        item, who, answer = (x[data.named] for x in (data.item, data.annotator, data.answer))
        votes = data.vote_counts().double()
        share = (votes / votes.sum(-1, keepdim=True).clamp(min=1))[item]
        habit, trap = (torch.zeros(n, k, k).double().requires_grad_() for n in (data.n_annotators, data.n_items))
        search = torch.optim.LBFGS([habit, trap], max_iter=25, line_search_fn="strong_wolfe")

        def loss() -> Tensor:
            search.zero_grad()
            odds = habit[who] + (trap[item] if self.items else 0.0)
            log_p = cp.each_label(odds)(answer) - odds.logsumexp(-1)
            held = habit.square().sum() + self._ratio(data) * trap.square().sum()
            out = 0.5 * self._penalty(data) * k**2 * held - (share * log_p).sum()
            out.backward()
            return out

        search.step(loss)
        return {"habit": habit.detach(), "trap": trap.detach()}
