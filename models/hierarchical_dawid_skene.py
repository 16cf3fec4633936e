"""Hierarchical Dawid-Skene: annotators' confusion matrices scatter around the crowd's; how far is learned.

    prevalence         ~ Dirichlet(prevalence_strength), or = 1 / K           (K)
    crowd[k]           ~ Dirichlet(right on k, else wrong)                    (K, K)
    concentration[k]   ~ LogNormal(log typical, spread)                       (K)
    confusion[a, k]    ~ Dirichlet(concentration[k] * crowd[k])               (A, K, K)
    truth[i]           ~ Categorical(prevalence)                              (N)
    label[i, a]        ~ Categorical(confusion[a, truth[i]])

A large concentration means that annotators are alike. History adds to an annotator's own rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import pyro
import pyro.distributions as dist
import torch

import crowdppl.primitives as cp
from crowdppl import Annotations, mean_field


@dataclass(frozen=True)
class HierarchicalDawidSkene:
    """Confusion matrices that borrow strength from the crowd.

    Args:
        prevalence: "learned" or "uniform".
        prevalence_strength: pseudo-counts of each class, by default ``default_prevalence``.
        right, wrong: pseudo-counts of a right label, and of each wrong one, in the crowd's rows.
        typical: median of the concentration, in pseudo-counts per row.
        spread: standard deviation of its logarithm.
    """

    prevalence: Literal["learned", "uniform"] = "learned"
    prevalence_strength: cp.Positive | None = None
    right: cp.Positive = 2.5
    wrong: cp.Positive = 0.5
    typical: cp.Positive = math.e
    spread: cp.Positive = 1.0

    card: ClassVar[cp.Card] = cp.Card(
        title="Hierarchical Dawid-Skene",
        reference="Paun et al. (2018), Comparing Bayesian models of annotation, TACL 6",
        doi="10.1162/tacl_a_00040",
        sites={"prevalence": "K", "crowd": "K K", "concentration": "K", "confusion": "A K K"}
        | {"abstention": "A D W", "truth": "N"},
        confusion="confusion",
        prevalence="prevalence",
        assumes="annotators err independently, in ways that resemble one another class by class",
        fails="when the crowd falls into kinds, such as experts and spammers: a single centre lies between them",
        cost="labels x K, and a search over 2 K hyper-parameters without labels",
        uses=("history",),
        sharded=True,
    )

    def setup(self, data: Annotations) -> HierarchicalDawidSkene:
        """A copy with the strength of the prevalence's prior."""
        return replace(self, prevalence_strength=self.prevalence_strength or cp.default_prevalence(data))

    def model(self, data: cp.Block) -> None:
        """Draws the crowd's rows, each annotator's around them, truths and labels."""
        k = data.n_classes
        log_p = cp.prevalence(data, self.prevalence, self.prevalence_strength)
        rows = self.wrong + (self.right - self.wrong) * torch.eye(k)
        crowd = pyro.sample("crowd", dist.Dirichlet(rows).to_event(1))
        typical = torch.full((k,), math.log(self.typical))
        concentration = pyro.sample("concentration", dist.LogNormal(typical, self.spread).to_event(1))
        prior = concentration.unsqueeze(-1) * crowd + 1e-6  # a concentration must not be 0
        if data.history is not None:
            prior = prior + data.history.to(prior)
        with cp.plates.annotators(data):
            confusion = pyro.sample("confusion", dist.Dirichlet(prior).to_event(1))
        table = cp.with_abstentions(data, confusion.log())
        with cp.plates.items(data):
            cp.annotate(data, table, cp.truth(data, log_p))

    guide = mean_field
