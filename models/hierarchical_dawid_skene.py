"""Hierarchical Dawid-Skene: annotators' confusion matrices scatter around the crowd's, how much is learned.

    prevalence         ~ Dirichlet(prevalence_mass), or = 1 / K               (K)
    crowd[k]           ~ Dirichlet(right on k, else wrong)                    (K, K)
    concentration[k]   ~ LogNormal(log typical, spread)                       (K)
    confusion[a, k]    ~ Dirichlet(concentration[k] * crowd[k])               (A, K, K)
    truth[i]           ~ Categorical(prevalence)                              (N)
    label[i, a]        ~ Categorical(confusion[a, truth[i]])

A large concentration means that annotators are alike. History adds to an annotator's own rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import pyro
import pyro.distributions as dist
import torch

from crowdppl import Block, Card, annotate, mean_field, prevalence, truth, with_abstentions
from crowdppl.core.validation import Positive
from crowdppl.primitives import plates


@dataclass(frozen=True)
class HierarchicalDawidSkene:
    """Confusion matrices that borrow strength from the crowd.

    Args:
        prevalence: "learned" or "uniform".
        prevalence_mass: pseudo-counts of each class, by default ``house_prevalence``; few let learned shares drift
            with the confusions, many draw unbalanced classes of few items together.
        right, wrong: pseudo-counts of a right label, and of each wrong one, in the crowd's rows.
        typical: median of the concentration, in pseudo-counts a row.
        spread: standard deviation of its logarithm.
    """

    prevalence: Literal["learned", "uniform"] = "learned"
    prevalence_mass: Positive | None = None
    right: Positive = 2.5
    wrong: Positive = 0.5
    typical: Positive = math.e
    spread: Positive = 1.0

    card: ClassVar[Card] = Card(
        title="Hierarchical Dawid-Skene",
        reference="Paun et al. (2018), Comparing Bayesian models of annotation, TACL 6",
        doi="10.1162/tacl_a_00040",
        sites={
            "prevalence": "K",
            "crowd": "K K",
            "concentration": "K",
            "confusion": "A K K",
            "abstention": "A D W",
            "truth": "N",
        },
        assumes="annotators err each alone, in ways that resemble one another class by class",
        fails="when the crowd falls into kinds, such as experts and spammers: a single centre lies between them",
        cost="labels x K, and a search over 2 K hyper-parameters without labels",
        uses=("history",),
    )

    def model(self, data: Block) -> None:
        """Draws the crowd's rows, each annotator's around them, truths and labels."""
        k = data.n_classes
        log_p = prevalence(data, self.prevalence, self.prevalence_mass)
        rows = self.wrong + (self.right - self.wrong) * torch.eye(k)
        crowd = pyro.sample("crowd", dist.Dirichlet(rows).to_event(1))
        typical = torch.full((k,), math.log(self.typical))
        concentration = pyro.sample("concentration", dist.LogNormal(typical, self.spread).to_event(1))
        prior = concentration.unsqueeze(-1) * crowd + 1e-6  # a share drawn as 0 would be no concentration
        if data.history is not None:
            prior = prior + data.history.to(prior)
        with plates.annotators(data):
            confusion = pyro.sample("confusion", dist.Dirichlet(prior).to_event(1))
        table = with_abstentions(data, confusion.log())
        with plates.items(data):
            annotate(data, table, truth(data, log_p))

    def guide(self, data: Block) -> None:
        """Mean field, from the story's own sites."""
        mean_field(self, data)
