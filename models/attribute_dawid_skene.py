"""Attribute Dawid-Skene: annotators' confusion matrices depend on an attribute of items, and are pooled over it.

    prevalence[g]       ~ Dirichlet(prevalence_strength), or = 1 / K        (G, K)
    common[a, k]        ~ Dirichlet(prior_strength * row(k))                (A, K, K)
    alike               ~ LogNormal(log typical, spread)                    ()
    confusion[a, g, k]  ~ Dirichlet(alike * common[a, k])                   (A, G, K, K)
    truth[i]            ~ Categorical(prevalence[group[i]])                 (N)
    label[i, a]         ~ Categorical(confusion[a, group[i], truth[i]])

G counts the values of the attribute, such as who a text is about; a large ``alike`` means that it does not matter.
row(k) puts ``prior_accuracy`` on class k and spreads the rest evenly; without a strength all concentrations are 1.
With one value, rows have the prior of ``common``: the model is Dawid-Skene's. History adds to ``common``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor

import crowdppl.primitives as cp
from crowdppl import Annotations, mean_field


@dataclass(frozen=True)
class AttributeDawidSkene:
    """Confusion matrices that may differ between groups of items.

    Args:
        attribute: column of the item covariates that names the group of each item.
        prevalence: "learned", in each group, or "uniform".
        prevalence_strength: pseudo-counts of each class, by default ``default_prevalence``.
        prior_strength: pseudo-counts of a row; None is a flat prior.
        prior_accuracy: share of them on the correct label, by default half way between 1 and chance.
        typical: median of ``alike``, in pseudo-counts per row.
        spread: standard deviation of its logarithm.
    """

    attribute: str = "group"
    prevalence: Literal["learned", "uniform"] = "learned"
    prevalence_strength: cp.Positive | None = None
    prior_strength: cp.Positive | None = 4.0
    prior_accuracy: cp.Share | None = None
    typical: cp.Positive = 20.0
    spread: cp.Positive = 1.5

    card: ClassVar[cp.Card] = cp.Card(
        title="Attribute Dawid-Skene",
        reference="Dawid & Skene (1979) by groups of items; rows are pooled as in Paun et al. (2018), Comparing "
        "Bayesian models of annotation, TACL 6",
        doi="10.1162/tacl_a_00040",
        sites={"prevalence": "G K", "common": "A K K", "alike": "", "confusion": "A G K K"}
        | {"abstention": "A D W", "truth": "N"},
        assumes="given truth and group, annotators err independently; an annotator's rows in two groups are alike, "
        "more or less",
        fails="when all annotators err alike on a group: its labels agree, and nothing tells that they are wrong",
        cost="labels x K, and a search over annotators x K x K hyper-parameters without labels",
        uses=("item_covariates", "history"),
        examples={"item_covariates": {"group": [0, 1]}},
        sharded=True,
    )

    def setup(self, data: Annotations) -> AttributeDawidSkene:
        """A copy with the strength of the prevalence's prior."""
        return replace(self, prevalence_strength=self.prevalence_strength or cp.default_prevalence(data))

    def model(self, data: cp.Block) -> None:
        """Draws rows, those of each group around them, truths and labels."""
        k, group = data.n_classes, cp.item_groups(data, self.attribute)
        groups = cp.plates.groups(data, self.attribute)
        if self.prevalence == "learned":
            with groups:
                strength = float(self.prevalence_strength or cp.default_prevalence(data))
                shares = pyro.sample("prevalence", dist.Dirichlet(torch.full((k,), strength)))
            log_p = shares.log()[..., group, :]
        else:
            log_p = cp.prevalence(data, self.prevalence)
        table = cp.with_abstentions(data, self._confusion(data, groups.size).log(), contexts=True)
        with cp.plates.items(data):
            cp.annotate(data, table, cp.truth(data, log_p), context=data.of_item(group))

    guide = mean_field

    def _confusion(self, data: cp.Block, n_groups: int) -> Tensor:
        """The rows of annotators in each group, (..., A, G, K, K)."""
        k = data.n_classes
        flat = (float(k), 1 / k) if self.prior_strength is None else (self.prior_strength, self.prior_accuracy)
        prior = cp.confusion_prior(data, *flat)
        if n_groups == 1:
            rows = prior
        else:
            alike = pyro.sample("alike", dist.LogNormal(math.log(self.typical), self.spread))
            with cp.plates.annotators(data, "in all groups"):
                common = pyro.sample("common", dist.Dirichlet(prior).to_event(1))
            rows = alike[..., None, None] * common + 1e-6  # a concentration must not be 0
        shape = (*rows.shape[:-2], n_groups, k, k)
        with cp.plates.annotators(data):
            out: Tensor = pyro.sample("confusion", dist.Dirichlet(rows.unsqueeze(-3).expand(shape)).to_event(2))
        return out
