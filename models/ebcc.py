"""EBCC: items of a class come in subtypes, on which annotators err alike.

    prevalence           ~ Dirichlet(prevalence_strength), or = 1 / K       (K)
    subtypes[k]          ~ Dirichlet(subtype_strength)                      (K, M)
    confusion[a, k, m]   ~ Dirichlet(prior_strength * row(k))               (A, K, M, K)
    truth[i]             ~ Categorical(prevalence)                          (N)
    subtype[i]           ~ Categorical(subtypes[truth[i]])                  (N)
    label[i, a]          ~ Categorical(confusion[a, truth[i], subtype[i]])

row(k) puts ``prior_accuracy`` on class k and spreads the rest evenly. An item's labels are independent given its
subtype; given its truth alone, they are not. History adds to the rows of every subtype.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import pyro
import pyro.distributions as dist
import torch
from pyro.ops.indexing import Vindex
from torch import Tensor

import crowdppl.primitives as cp
from crowdppl import mean_field


@dataclass(frozen=True)
class Ebcc:
    """Subtypes of items within a class, which correlate annotators.

    Args:
        subtypes: M, the number of subtypes of a class.
        prevalence: "learned" or "uniform".
        subtype_strength: pseudo-counts of each subtype; below 1 unused subtypes empty out, and em refuses.
        prior_strength: pseudo-counts of a confusion row.
        prior_accuracy: share of them on the correct label, by default half way between 1 and chance.
        prevalence_strength: pseudo-counts of each class.
    """

    subtypes: cp.Count = 2
    prevalence: Literal["learned", "uniform"] = "learned"
    subtype_strength: cp.Positive = 1.0
    prior_strength: cp.Positive = 4.0
    prior_accuracy: cp.Share | None = None
    prevalence_strength: cp.Positive = 1.0

    card: ClassVar[cp.Card] = cp.Card(
        title="EBCC",
        reference="Li, Rubinstein & Cohn (2019), Exploiting worker correlation for label aggregation in "
        "crowdsourcing, ICML",
        sites={"prevalence": "K", "subtypes": "K M", "confusion": "A K M K", "abstention": "A D W"}
        | {"truth": "N", "subtype": "N"},
        prevalence="prevalence",
        assumes="annotators err together on certain kinds of items, which are the same for all of them",
        fails="with few labels per item, which do not identify subtypes: results then depend on the start",
        cost="labels x K x M",
        uses=("history",),
        sharded=True,
    )

    def model(self, data: cp.Block) -> None:
        """Draws subtype weights, confusions, truths, subtypes and labels."""
        log_p = cp.prevalence(data, self.prevalence, self.prevalence_strength)
        weights = self.subtype_strength * torch.ones(data.n_classes, self.subtypes)
        log_subtypes = pyro.sample("subtypes", dist.Dirichlet(weights).to_event(1)).log()
        with cp.plates.annotators(data):
            rows = cp.confusion_prior(data, self.prior_strength, self.prior_accuracy).unsqueeze(-2)
            rows = rows.expand(*rows.shape[:-2], self.subtypes, data.n_classes)
            confusion = pyro.sample("confusion", dist.Dirichlet(rows).to_event(2))
        table = cp.with_abstentions(data, confusion.log().flatten(-3, -2))
        with cp.plates.items(data):
            truth = cp.truth(data, log_p)
            weights_of = cp.Categorical(Vindex(log_subtypes)[..., truth, :])
            subtype = pyro.sample("subtype", weights_of, infer={"enumerate": "parallel"})
            cp.annotate(data, table, truth * self.subtypes + subtype)

    guide = mean_field

    def init(self, data: cp.Block) -> dict[str, Tensor]:
        """Subtypes from easy to hard; no engine could tell equal ones apart."""
        k, m = data.n_classes, self.subtypes
        if m == 1:
            return {}
        right = torch.linspace(0.9, 0.5 + 0.5 / k, m).unsqueeze(-1)
        same = torch.eye(k).unsqueeze(-2)
        rows = same * right + (1 - same) * (1 - right) / (k - 1)  # (K, M, K)
        return {"confusion": rows.expand(data.n_annotators, k, m, k)}
