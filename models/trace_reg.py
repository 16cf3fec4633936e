"""Trace regularisation: a classifier and confusion matrices, which are kept as unreliable as the labels allow.

    confusion[a, k]   (no prior), or around the crowd's rows, which are learned    (A, K, K)
    truth[i]          ~ Categorical(network(features[i]))                          (N)
    label[i, a]       ~ Categorical(confusion[a, truth[i]])
    potential         -weight * trace(confusion[a]), once for each label

Labels identify only the product of classifier and confusion. Of all pairs with the same product, the one with the
smallest trace has the true confusion matrices, if their mean is diagonally dominant. While the network learns,
every label has a truth of its own (the likelihood "per_annotation"), as published.
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

REASON = "its likelihood takes each label alone, and network and annotators learn together by gradients: svi"


@dataclass(frozen=True)
class TraceReg:
    """Cross-entropy of a classifier seen through annotators' confusion matrices, and a penalty on their traces.

    Args:
        network: maps features to K logits; by default one hidden layer. The fit trains a copy.
        training: settings of ``crowdppl.networks.training.Training`` by name, such as ``{"epochs": 60}``.
        likelihood: "per_annotation", as published, or "joint".
        likelihood_power: power of the labels' likelihood; below 1, an item's labels count for less.
        crowd_prior_strength: pseudo-counts of a confusion row that follow the crowd's learned row; 0 has no crowd.
        weight: of the penalty, in units of a label's log-probability; 0 has none. Each label pays for the trace of
            its annotator's confusion. The published listing charges the mean trace of all annotators once for each
            item: its weight is this one times the labels per item.
    """

    network: nn.Module | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    likelihood: Literal["per_annotation", "joint"] = "per_annotation"
    likelihood_power: cp.Positive = 1.0
    crowd_prior_strength: cp.NotNegative = 0.0
    weight: cp.NotNegative = 0.01

    card: ClassVar[cp.Card] = cp.Card(
        title="Trace reg",
        reference="Tanno et al. (2019), Learning from noisy labels by regularized estimation of annotator "
        "confusion, CVPR",
        sites={"crowd": "K K", "confusion": "A K K", "abstention": "A D W", "truth": "N"},
        confusion="confusion",
        assumes="the mean confusion matrix is diagonally dominant, and the features show the truth",
        fails="when annotators are wrong more often than right on average; after few epochs, when confusions are "
        "still near the identity, where they start (a higher annotator_rate in training= moves them faster)",
        cost="a network step and labels x K for each batch of items",
        only=("svi",),
        because=REASON,
        uses=("features",),
    )

    def setup(self, data: Annotations) -> TraceReg:
        """A copy with a network for these features."""
        return replace(self, network=networks.prepared(self.network, data, self.training))

    def model(self, data: cp.Block) -> None:
        """Draws confusions, truths and labels."""
        rows = torch.ones(data.n_classes, data.n_classes) + cp.crowd_rows(data, self.crowd_prior_strength)
        with cp.plates.annotators(data):
            confusion = pyro.sample("confusion", dist.Dirichlet(rows).to_event(1))
        traces = data.of_annotator(confusion.diagonal(dim1=-2, dim2=-1).sum(-1))
        cp.penalty(data, "trace", self.weight * (traces * data.named).sum() / data.named.sum().clamp(min=1))
        table = cp.with_abstentions(data, confusion.log())
        log_p = networks.class_logits(data, self.network)
        cp.truth_and_labels(data, log_p, table, self.likelihood, power=self.likelihood_power)

    def guide(self, data: cp.Block) -> None:
        """Points: rows of a softplus, normalised, that start near the identity."""
        k = data.n_classes
        rho = pyro.param("q.confusion", (6 * torch.eye(k) - 5).repeat(data.n_annotators, 1, 1))
        rows = nn.functional.softplus(rho)
        mean_field(self, data, point=True, points={"confusion": rows / rows.sum(-1, keepdim=True)})
