"""EBCC: items of a class come in subtypes, on which annotators err alike.

    prevalence           ~ Dirichlet(prevalence_mass), or = 1 / K           (K)
    subtypes[k]          ~ Dirichlet(subtype_mass)                          (K, M)
    confusion[a, k, m]   ~ Dirichlet(right on k, else wrong)                (A, K, M, K)
    truth[i]             ~ Categorical(prevalence)                          (N)
    subtype[i]           ~ Categorical(subtypes[truth[i]])                  (N)
    label[i, a]          ~ Categorical(confusion[a, truth[i], subtype[i]])

Given its subtype, an item's labels are independent; given its truth alone, they are not. History adds to the
rows of every subtype.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import pyro
import pyro.distributions as dist
import torch
from pyro.ops.indexing import Vindex
from torch import Tensor

from crowdppl import (
    Block,
    Card,
    Categorical,
    annotate,
    confusion_prior,
    mean_field,
    prevalence,
    truth,
    with_abstentions,
)
from crowdppl.core.validation import Count, Positive, Share
from crowdppl.primitives import plates


@dataclass(frozen=True)
class Ebcc:
    """Subtypes of items within a class, which correlate annotators.

    Args:
        subtypes: M, the number of subtypes a class.
        prevalence: "learned" or "uniform".
        subtype_mass: pseudo-counts of each subtype; below 1 unused subtypes empty out, and em refuses.
        mass, diagonal: pseudo-counts of a confusion row, and the share of them on the right answer
            (by default half way between certainty and chance).
        prevalence_mass: pseudo-counts of each class.
    """

    subtypes: Count = 2
    prevalence: Literal["learned", "uniform"] = "learned"
    subtype_mass: Positive = 1.0
    mass: Positive = 4.0
    diagonal: Share | None = None
    prevalence_mass: Positive = 1.0

    card: ClassVar[Card] = Card(
        title="EBCC",
        reference="Li, Rubinstein & Cohn (2019), Exploiting worker correlation for label aggregation in "
        "crowdsourcing, ICML",
        sites={
            "prevalence": "K",
            "subtypes": "K M",
            "confusion": "A K M K",
            "abstention": "A D W",
            "truth": "N",
            "subtype": "N",
        },
        assumes="what makes annotators err together is a kind of item, the same for all of them",
        fails="with few labels an item, from which subtypes cannot be told; results then depend on the start",
        cost="labels x K x M",
        uses=("history",),
    )

    def model(self, data: Block) -> None:
        """Draws subtype weights, confusions, truths, subtypes and labels."""
        log_p = prevalence(data, self.prevalence, self.prevalence_mass)
        weights = self.subtype_mass * torch.ones(data.n_classes, self.subtypes)
        log_subtypes = pyro.sample("subtypes", dist.Dirichlet(weights).to_event(1)).log()
        with plates.annotators(data):
            rows = confusion_prior(data, self.mass, self.diagonal).unsqueeze(-2)
            rows = rows.expand(*rows.shape[:-2], self.subtypes, data.n_classes)
            confusion = pyro.sample("confusion", dist.Dirichlet(rows).to_event(2))
        table = with_abstentions(data, confusion.log().flatten(-3, -2))
        with plates.items(data):
            of = truth(data, log_p)
            kind = Categorical(Vindex(log_subtypes)[..., of, :])
            subtype = pyro.sample("subtype", kind, infer={"enumerate": "parallel"})
            annotate(data, table, of * self.subtypes + subtype)

    def guide(self, data: Block) -> None:
        """Mean field, from the story's own sites."""
        mean_field(self, data)

    def start(self, data: Block) -> dict[str, Tensor]:
        """Subtypes from easy to hard; equal ones would stay equal for ever."""
        k, m = data.n_classes, self.subtypes
        if m == 1:
            return {}
        right = torch.linspace(0.9, 0.5 + 0.5 / k, m).unsqueeze(-1)
        same = torch.eye(k).unsqueeze(-2)
        rows = same * right + (1 - same) * (1 - right) / (k - 1)  # (K, M, K)
        return {"confusion": rows.expand(data.n_annotators, k, m, k)}
