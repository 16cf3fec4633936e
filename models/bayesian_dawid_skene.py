"""Bayesian Dawid-Skene (IBCC): each annotator has a confusion matrix, with a prior on its rows.

    prevalence       ~ Dirichlet(prevalence_strength), or = 1 / K           (K)
    confusion[a, k]  ~ Dirichlet(prior_strength * row(k))                   (A, K, K)
    truth[i]         ~ Categorical(prevalence)                              (N)
    label[i, a]      ~ Categorical(confusion[a, truth[i]])

row(k) puts ``prior_accuracy`` on class k and spreads the rest evenly. History adds to the prior.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import pyro
import pyro.distributions as dist

import crowdppl.primitives as cp
from crowdppl import Annotations, mean_field


@dataclass(frozen=True)
class BayesianDawidSkene:
    """A confusion matrix for each annotator, with a prior that favours the diagonal.

    Args:
        prevalence: "learned" or "uniform".
        prevalence_strength: pseudo-counts of each class, by default ``default_prevalence``.
        prior_strength: pseudo-counts of a confusion row.
        prior_accuracy: share of them on the correct label, by default half way between 1 and chance.
    """

    prevalence: Literal["learned", "uniform"] = "learned"
    prevalence_strength: cp.Positive | None = None
    prior_strength: cp.Positive = 4.0
    prior_accuracy: cp.Share | None = None

    card: ClassVar[cp.Card] = cp.Card(
        title="Bayesian Dawid-Skene",
        reference="Kim & Ghahramani (2012), Bayesian classifier combination, AISTATS",
        sites={"prevalence": "K", "confusion": "A K K", "abstention": "A D W", "truth": "N"},
        confusion="confusion",
        prevalence="prevalence",
        assumes="given the truth, annotators err independently, and alike on all items of a class",
        fails="when annotators copy one another or some items are hard for all: it is then overconfident",
        cost="labels x K",
        uses=("history",),
        sharded=True,
    )

    def setup(self, data: Annotations) -> BayesianDawidSkene:
        """A copy with the strength of the prevalence's prior."""
        return replace(self, prevalence_strength=self.prevalence_strength or cp.default_prevalence(data))

    def model(self, data: cp.Block) -> None:
        """Draws confusions, truths and labels."""
        log_p = cp.prevalence(data, self.prevalence, self.prevalence_strength)
        prior = cp.confusion_prior(data, self.prior_strength, self.prior_accuracy)
        with cp.plates.annotators(data):
            confusion = pyro.sample("confusion", dist.Dirichlet(prior).to_event(1))
        table = cp.with_abstentions(data, confusion.log())
        with cp.plates.items(data):
            cp.annotate(data, table, cp.truth(data, log_p))

    guide = mean_field
