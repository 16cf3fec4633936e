"""One coin: each annotator is right with a probability of their own, and errs evenly.

    prevalence    = 1 / K, or ~ Dirichlet(1)                                (K)
    ability[a]    ~ Dirichlet(right, wrong)                                 (A, 2)
    truth[i]      ~ Categorical(prevalence)                                 (N)
    label[i, a]   = truth[i] with probability ability[a, 0], else any other class evenly

History adds an annotator's earlier right and wrong labels to the prior.
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
class OneCoin:
    """One accuracy for each annotator.

    Args:
        prevalence: "uniform" or "learned".
        right, wrong: pseudo-counts of right and wrong labels. They are flat by default, so that em is maximum
            likelihood; with few labels, right=4 and wrong=2 keep the majority on the right side.
    """

    prevalence: Literal["uniform", "learned"] = "uniform"
    right: cp.Positive = 1.0
    wrong: cp.Positive = 1.0

    card: ClassVar[cp.Card] = cp.Card(
        title="One coin",
        reference="Zhang et al. (2016), Spectral methods meet EM, JMLR 17(102); coin as in Dawid & Skene (1979)",
        sites={"prevalence": "K", "ability": "A 2", "abstention": "A D W", "truth": "N"},
        prevalence="prevalence",
        assumes="an annotator is equally accurate on all classes and items, and errs evenly",
        fails="when annotators favour certain confusions, or confuse some classes more than others: "
        "it takes bias for lack of skill",
        cost="labels x K",
        uses=("history",),
    )

    def model(self, data: cp.Block) -> None:
        """Draws accuracies, truths and labels."""
        log_p = cp.prevalence(data, self.prevalence)
        with cp.plates.annotators(data):
            ability = pyro.sample("ability", dist.Dirichlet(cp.coin_prior(data, self.right, self.wrong)))
        right, errors = ability.log().split(1, -1)
        coins = cp.Coins(right, errors - math.log(data.n_classes - 1))
        labels = cp.with_abstentions(data, coins)
        with cp.plates.items(data):
            cp.annotate(data, labels, cp.truth(data, log_p, labels=labels))

    guide = mean_field
