"""Class coin: each annotator has an accuracy for each class, and errs evenly.

    prevalence      = 1 / K, or ~ Dirichlet(1)                              (K)
    ability[a, k]   ~ Dirichlet(right, wrong)                               (A, K, 2)
    truth[i]        ~ Categorical(prevalence)                               (N)
    label[i, a]     = truth[i] with probability ability[a, truth[i], 0], else any other class evenly

For two classes the accuracies are sensitivity and specificity, and the model is Dawid-Skene's. History adds an
annotator's earlier right and wrong labels of each class to the prior.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import pyro
import pyro.distributions as dist

import crowdppl.primitives as cp
from crowdppl import mean_field


@dataclass(frozen=True)
class ClassCoin:
    """One accuracy for each annotator and class.

    Args:
        prevalence: "uniform" or "learned".
        right, wrong: pseudo-counts of right and wrong labels; flat by default, so that em is maximum likelihood.
    """

    prevalence: Literal["uniform", "learned"] = "uniform"
    right: cp.Positive = 1.0
    wrong: cp.Positive = 1.0

    card: ClassVar[cp.Card] = cp.Card(
        title="Class coin",
        reference="Raykar et al. (2010), Learning from crowds, JMLR 11 (two coins; here one for each class)",
        sites={"prevalence": "K", "ability": "A K 2", "abstention": "A D W", "truth": "N"},
        prevalence="prevalence",
        assumes="an annotator's accuracy depends on the class alone, and errors are even",
        fails="when a class has a favourite confusion: the method cannot tell a near miss from a blunder",
        cost="labels x K",
        uses=("history",),
    )

    def model(self, data: cp.Block) -> None:
        """Draws accuracies, truths and labels."""
        log_p = cp.prevalence(data, self.prevalence)
        prior = cp.coin_prior(data, self.right, self.wrong, by_class=True)
        with cp.plates.annotators(data):
            ability = pyro.sample("ability", dist.Dirichlet(prior).to_event(1))
        right, errors = ability.log().unbind(-1)
        coins = cp.Coins(right, errors - math.log(data.n_classes - 1), by_truth=True)
        labels = cp.with_abstentions(data, coins)
        with cp.plates.items(data):
            cp.annotate(data, labels, cp.truth(data, log_p, labels=labels))

    guide = mean_field
