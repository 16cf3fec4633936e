"""GeoCrowdNet: CCEM with a bonus for volume, which tells classifier and confusion matrices apart.

    confusion[a, k]   (no prior), or around the crowd's rows, which are learned    (A, K, K)
    truth[i]          ~ Categorical(network(features[i]))                          (N)
    label[i, a]       ~ Categorical(confusion[a, truth[i]])
    potential         weight * log det M'M, once for each label

M is F, the classifier's probabilities of a batch of items (items x K), or W, all annotators' confusion matrices on
top of each other, with a column for each truth (A * K x K). While the network learns, every label has a truth of
its own (the likelihood "per_annotation"), as published.
"""

from __future__ import annotations

import math
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
class GeoCrowdnet:
    """Cross-entropy of a classifier seen through annotators' confusion matrices, and a bonus for volume.

    Args:
        network: maps features to K logits; by default one hidden layer. The fit trains a copy.
        training: settings of ``crowdppl.networks.training.Training`` by name, such as ``{"epochs": 60}``.
        volume: "F", of the classifier's predictions, or "W", of the confusion matrices.
        weight: of the bonus, in units of a label's log-probability.
        likelihood: "per_annotation", as published, or "joint".
        likelihood_power: power of the labels' likelihood; below 1, an item's labels count for less.
        crowd_prior_strength: pseudo-counts of a confusion row that follow the crowd's learned row; 0 has no crowd.
        init_diagonal: a confusion row starts as the softmax of this number on its diagonal and 0 elsewhere; by
            default log K, at least 1 (published: 1).
    """

    network: nn.Module | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    volume: Literal["F", "W"] = "F"
    weight: cp.NotNegative = 0.01
    likelihood: Literal["per_annotation", "joint"] = "per_annotation"
    likelihood_power: cp.Positive = 1.0
    crowd_prior_strength: cp.NotNegative = 0.0
    init_diagonal: float | None = None

    card: ClassVar[cp.Card] = cp.Card(
        title="Geo CrowdNet",
        reference="Ibrahim, Nguyen & Fu (2023), Deep learning from crowdsourced labels: coupled cross-entropy "
        "minimization, identifiability, and regularization, ICLR",
        sites={"crowd": "K K", "confusion": "A K K", "abstention": "A D W", "truth": "N"},
        confusion="confusion",
        assumes="F: some items show their class clearly; W: for each class there is an annotator who knows it",
        fails="when the weight is too large, which pushes predictions to equal shares of the classes; with many "
        "classes from the published start (init_diagonal = 1), from which they may trade places",
        cost="a network step and labels x K for each batch of items",
        only=("svi",),
        because=REASON,
        uses=("features",),
    )

    def __post_init__(self) -> None:
        cp.check_settings(self)

    def setup(self, data: Annotations) -> GeoCrowdnet:
        """A copy with a network for these features."""
        return replace(self, network=networks.prepared(self.network, data, self.training))

    def model(self, data: cp.Block) -> None:
        """Draws confusions, truths and labels."""
        rows = torch.ones(data.n_classes, data.n_classes) + cp.crowd_rows(data, self.crowd_prior_strength)
        with cp.plates.annotators(data):
            confusion = pyro.sample("confusion", dist.Dirichlet(rows).to_event(1))
        log_p = networks.class_logits(data, self.network)
        m = log_p.exp() if self.volume == "F" else confusion.transpose(-1, -2).flatten(-3, -2)
        cp.penalty(data, "volume", -self.weight * networks.log_volume(m))
        table = cp.with_abstentions(data, confusion.log())
        cp.truth_and_labels(data, log_p, table, self.likelihood, power=self.likelihood_power)

    def guide(self, data: cp.Block) -> None:
        """Points; the confusions start better than chance, half on the diagonal where classes are many."""
        lean = max(1.0, math.log(data.n_classes)) if self.init_diagonal is None else self.init_diagonal
        start = (lean * torch.eye(data.n_classes)).softmax(-1).repeat(data.n_annotators, 1, 1)
        rows = pyro.param("q.confusion", start, constraint=constraints.simplex)
        mean_field(self, data, point=True, points={"confusion": rows})
