"""CCEM: a classifier and each annotator's confusion matrix, by coupled cross-entropy minimisation.

    confusion[a, k]   (no prior), or around the crowd's rows, which are learned    (A, K, K)
    truth[i]          ~ Categorical(network(features[i]))                          (N)
    label[i, a]       ~ Categorical(confusion[a, truth[i]])

While the network learns, every label has a truth of its own (the likelihood "per_annotation"), as published; with
"joint" the method is raykar by gradients. Without features it is dawid_skene with even classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import pyro
import pyro.distributions as dist
import torch
from torch import nn
from torch.distributions import constraints

import crowdppl.primitives as cp
from crowdppl import Annotations, mean_field, networks

REASON = "its likelihood takes each label alone, and network and annotators learn together by gradients: svi"


@dataclass(frozen=True)
class Ccem:
    """Cross-entropy of a classifier seen through annotators' confusion matrices.

    Args:
        network: maps features to K logits; by default one hidden layer. The fit trains a copy.
        training: settings of ``crowdppl.networks.training.Training`` by name, such as ``{"epochs": 60}``.
        likelihood: "per_annotation", as published, or "joint".
        likelihood_power: power of the labels' likelihood; below 1, an item's labels count for less.
        crowd_prior_strength: pseudo-counts of a confusion row that follow the crowd's learned row; 0 has no crowd.
        init_diagonal: a confusion row starts as the softmax of this number on its diagonal and 0 elsewhere.
    """

    network: nn.Module | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    likelihood: Literal["per_annotation", "joint"] = "per_annotation"
    likelihood_power: cp.Positive = 1.0
    crowd_prior_strength: cp.NotNegative = 0.0
    init_diagonal: float = 1.0

    card: ClassVar[cp.Card] = cp.Card(
        title="CCEM",
        reference="Ibrahim, Nguyen & Fu (2023), Deep learning from crowdsourced labels: coupled cross-entropy "
        "minimization, identifiability, and regularization, ICLR",
        sites={"crowd": "K K", "confusion": "A K K", "abstention": "A D W", "truth": "N"},
        confusion="confusion",
        assumes="the features show the truth, and annotators err independently given the truth",
        fails="when the features show annotators' errors too: classifier and confusions can then trade places",
        cost="a network step and labels x K for each batch of items",
        only=("svi",),
        because=REASON,
        uses=("features",),
    )

    def setup(self, data: Annotations) -> Ccem:
        """A copy with a network for these features."""
        return replace(self, network=networks.prepared(self.network, data, self.training))

    def model(self, data: cp.Block) -> None:
        """Draws confusions, truths and labels."""
        rows = torch.ones(data.n_classes, data.n_classes) + cp.crowd_rows(data, self.crowd_prior_strength)
        with cp.plates.annotators(data):
            confusion = pyro.sample("confusion", dist.Dirichlet(rows).to_event(1))
        table = cp.with_abstentions(data, confusion.log())
        log_p = networks.class_logits(data, self.network)
        cp.truth_and_labels(data, log_p, table, self.likelihood, power=self.likelihood_power)

    def guide(self, data: cp.Block) -> None:
        """Points; the confusions start slightly better than chance."""
        start = (self.init_diagonal * torch.eye(data.n_classes)).softmax(-1).repeat(data.n_annotators, 1, 1)
        rows = pyro.param("q.confusion", start, constraint=constraints.simplex)
        mean_field(self, data, point=True, points={"confusion": rows})
