"""Multinomial: all annotators share one confusion matrix.

    prevalence      ~ Dirichlet(1), or = 1 / K                              (K)
    confusion[k]    ~ Dirichlet(right on k, else wrong)                     (K, K)
    truth[i]        ~ Categorical(prevalence)                               (N)
    label[i, a]     ~ Categorical(confusion[truth[i]])

It does not matter which annotator gave a label.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import pyro
import pyro.distributions as dist
import torch

import crowdppl.primitives as cp
from crowdppl import mean_field


@dataclass(frozen=True)
class Multinomial:
    """One confusion matrix, shared by all annotators.

    Args:
        prevalence: "learned" or "uniform".
        right, wrong: pseudo-counts of a right label, and of each wrong one; em needs at least 1 of each.
    """

    prevalence: Literal["learned", "uniform"] = "learned"
    right: cp.Positive = 2.0
    wrong: cp.Positive = 1.0

    card: ClassVar[cp.Card] = cp.Card(
        title="Multinomial",
        reference="Paun et al. (2018), Comparing Bayesian models of annotation, TACL 6",
        doi="10.1162/tacl_a_00040",
        sites={"prevalence": "K", "confusion": "K K", "abstention": "A D W", "truth": "N"},
        prevalence="prevalence",
        assumes="annotators are interchangeable; classes may differ in how often and with what they are confused",
        fails="when annotators differ in skill: it weighs a careless label like a careful one",
        cost="labels x K",
    )

    def model(self, data: cp.Block) -> None:
        """Draws the shared confusion, the truths and the labels."""
        k = data.n_classes
        log_p = cp.prevalence(data, self.prevalence)
        rows = self.wrong + (self.right - self.wrong) * torch.eye(k)
        confusion = pyro.sample("confusion", dist.Dirichlet(rows).to_event(1))
        table = confusion.log().expand(*confusion.shape[:-3], data.n_annotators, k, k)
        table = cp.with_abstentions(data, table)
        with cp.plates.items(data):
            cp.annotate(data, table, cp.truth(data, log_p))

    guide = mean_field
