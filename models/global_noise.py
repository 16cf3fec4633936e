"""Global noise: a classifier as the prior of the truth, and one confusion matrix for the whole crowd.

    confusion[k]      ~ Dirichlet(right on k, else wrong)          (K, K)
    truth[i]          ~ Categorical(network(features[i]))          (N)
    label[i, a]       ~ Categorical(confusion[truth[i]])

It does not matter which annotator gave a label. Without features the method is multinomial.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import pyro
import pyro.distributions as dist
import torch
from torch import nn

import crowdppl.primitives as cp
from crowdppl import Annotations, mean_field, networks


@dataclass(frozen=True)
class GlobalNoise:
    """One confusion matrix and a classifier, learned from each other.

    Args:
        network: maps features to K logits; by default one hidden layer. The fit trains a copy.
        training: settings of ``crowdppl.networks.training.Training`` by name, such as ``{"epochs": 60}``.
        right, wrong: pseudo-counts of a right label, and of each wrong one; em needs at least 1 of each.
        likelihood: "joint", or "per_annotation", which only svi fits.
        likelihood_power: power of the labels' likelihood; below 1, an item's labels count for less.
    """

    network: nn.Module | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    right: cp.Positive = 2.0
    wrong: cp.Positive = 1.0
    likelihood: Literal["joint", "per_annotation"] = "joint"
    likelihood_power: cp.Positive = 1.0

    card: ClassVar[cp.Card] = cp.Card(
        title="Global noise",
        reference="Sukhbaatar et al. (2015), Training convolutional networks with noisy labels, ICLR workshop",
        sites={"prevalence": "K", "confusion": "K K", "abstention": "A D W", "truth": "N"},
        prevalence="prevalence",
        assumes="annotators are interchangeable, and the features show the truth",
        fails="when annotators differ in skill: it weighs a careless label like a careful one",
        cost="labels x K, and a network step for each batch of items, an epoch an iteration",
        uses=("features",),
        sharded=True,
    )

    def __post_init__(self) -> None:
        cp.check_settings(self)
        if self.likelihood == "per_annotation":
            card = replace(self.card, only=("svi",), because="a truth for each label alone is learned by svi")
            object.__setattr__(self, "card", card)

    def setup(self, data: Annotations) -> GlobalNoise:
        """A copy with a network for these features."""
        return replace(self, network=networks.prepared(self.network, data, self.training))

    def model(self, data: cp.Block) -> None:
        """Draws the confusion, truths and labels."""
        k = data.n_classes
        log_p = cp.prevalence(data) if self.network is None else networks.class_logits(data, self.network)
        rows = self.wrong + (self.right - self.wrong) * torch.eye(k)
        confusion = pyro.sample("confusion", dist.Dirichlet(rows).to_event(1))
        table = confusion.log().expand(*confusion.shape[:-3], data.n_annotators, k, k)
        table = cp.with_abstentions(data, table)
        cp.truth_and_labels(data, log_p, table, self.likelihood, power=self.likelihood_power)

    guide = mean_field
