"""Bayesian Dawid-Skene (IBCC): each annotator has a confusion matrix, with a prior on its rows.

    prevalence       ~ Dirichlet(prevalence_mass), or = 1 / K    (K)
    confusion[a, k]  ~ Dirichlet(mass * row(k))                  (A, K, K)
    truth[i]         ~ Categorical(prevalence)                   (N)
    label[i, a]      ~ Categorical(confusion[a, truth[i]])

row(k) holds the share ``diagonal`` on class k and the rest evenly. History adds to the prior.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import pyro
import pyro.distributions as dist

from crowdppl import Block, Card, annotate, confusion_prior, mean_field, prevalence, truth, with_abstentions
from crowdppl.core.validation import Positive, Share
from crowdppl.primitives import plates


@dataclass(frozen=True)
class BayesianDawidSkene:
    """A confusion matrix for each annotator, with a prior that leans on the diagonal.

    Args:
        prevalence: "learned" or "uniform".
        prevalence_mass: pseudo-counts of each class, by default ``house_prevalence``; few let learned shares drift
            with the confusions, many draw unbalanced classes of few items together.
        mass: pseudo-counts a row.
        diagonal: share of the mass on the right answer, by default half way between certainty and chance.
    """

    prevalence: Literal["learned", "uniform"] = "learned"
    prevalence_mass: Positive | None = None
    mass: Positive = 4.0
    diagonal: Share | None = None

    card: ClassVar[Card] = Card(
        title="Bayesian Dawid-Skene",
        reference="Kim & Ghahramani (2012), Bayesian classifier combination, AISTATS",
        sites={"prevalence": "K", "confusion": "A K K", "abstention": "A D W", "truth": "N"},
        assumes="given the truth, annotators err each alone, with the same confusion on every item",
        fails="when annotators copy one another or some items are hard for all: probabilities are too sure",
        cost="labels x K",
        uses=("history",),
    )

    def model(self, data: Block) -> None:
        """Draws confusions, truths and labels."""
        log_p = prevalence(data, self.prevalence, self.prevalence_mass)
        prior = confusion_prior(data, self.mass, self.diagonal)
        with plates.annotators(data):
            confusion = pyro.sample("confusion", dist.Dirichlet(prior).to_event(1))
        table = with_abstentions(data, confusion.log())
        with plates.items(data):
            annotate(data, table, truth(data, log_p))

    def guide(self, data: Block) -> None:
        """Mean field, from the story's own sites."""
        mean_field(self, data)
