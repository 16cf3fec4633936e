"""Dawid-Skene: each annotator has a confusion matrix, fitted by maximum likelihood.

    prevalence       ~ Dirichlet(1), or = 1 / K                             (K)
    confusion[a, k]  ~ Dirichlet(1)                                         (A, K, K)
    truth[i]         ~ Categorical(prevalence)                              (N)
    label[i, a]      ~ Categorical(confusion[a, truth[i]])

The priors are flat, so that the posterior mode maximises the likelihood. History adds to them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import pyro
import pyro.distributions as dist
import torch

import crowdppl.primitives as cp
from crowdppl import mean_field

REASON = (
    "flat rows carry no information where an annotator has few labels, so that a posterior under them collapses "
    "on sparse data; use bayesian_dawid_skene"
)


@dataclass(frozen=True)
class DawidSkene:
    """A confusion matrix for each annotator, by maximum likelihood.

    Args:
        prevalence: "learned" or "uniform".
    """

    prevalence: Literal["learned", "uniform"] = "learned"

    card: ClassVar[cp.Card] = cp.Card(
        title="Dawid-Skene",
        reference="Dawid & Skene (1979), Maximum likelihood estimation of observer error-rates using the EM "
        "algorithm, Applied Statistics 28(1)",
        doi="10.2307/2346806",
        sites={"prevalence": "K", "confusion": "A K K", "abstention": "A D W", "truth": "N"},
        confusion="confusion",
        prevalence="prevalence",
        assumes="given the truth, annotators err independently, and alike on all items of a class",
        fails="with few labels for an annotator and class, whose rows become 0 and 1, and when annotators copy one "
        "another or some items are hard for all: it is then overconfident",
        cost="labels x K",
        only=("em", "svi"),
        because=REASON,
        uses=("history",),
    )

    def model(self, data: cp.Block) -> None:
        """Draws confusions, truths and labels."""
        log_p = cp.prevalence(data, self.prevalence)
        rows = torch.ones(data.n_classes, data.n_classes)
        prior = rows if data.history is None else rows + data.history.to(rows)
        with cp.plates.annotators(data):
            confusion = pyro.sample("confusion", dist.Dirichlet(prior).to_event(1))
        table = cp.with_abstentions(data, confusion.log())
        with cp.plates.items(data):
            cp.annotate(data, table, cp.truth(data, log_p))

    def guide(self, data: cp.Block) -> None:
        """A point: maximum likelihood by plain Pyro."""
        mean_field(self, data, point=True)
