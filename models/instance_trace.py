"""Instance trace: trace regularisation with confusion matrices that depend on the item's features.

    confusion[a, k]   (no prior), or around the crowd's rows, which are learned  (A, K, K)
    lean[a, r, k]     ~ Normal(0, 1)                                             (A, R, K, K)
    truth[i]          ~ Categorical(network(features[i]))                        (N)
    label[i, a]       ~ Categorical(rows[i, a, truth[i]])
    potential         -weight * mean of trace(rows[i, a]) over labels, once for each label

rows[i, a] = softmax(log confusion[a] + sum over r of u[i, r] lean[a, r]), where u[i] = errors(features[i]). Without
features u is 0, and the method is trace_reg. ``lean`` is the last layer of the paper's second network, which has an
output for each annotator. While the networks learn, every label has a truth of its own, as published.
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

REASON = "its likelihood takes each label alone, and networks and annotators learn together by gradients: svi"


@dataclass(frozen=True)
class InstanceTrace:
    """A classifier seen through confusion matrices that a second network bends item by item, kept unreliable.

    Args:
        network: maps features to K logits; by default one hidden layer. The fit trains a copy.
        errors: maps features to R numbers per item; likewise.
        training: settings of ``crowdppl.networks.training.Training`` by name, such as ``{"epochs": 60}``.
        likelihood: "per_annotation", as published, or "joint".
        likelihood_power: power of the labels' likelihood; below 1, an item's labels count for less.
        crowd_prior_strength: pseudo-counts of a confusion row that follow the crowd's learned row; 0 has no crowd.
        weight: of the potential, in units of a label's log-probability; 0 has none.
        width: R.
    """

    network: nn.Module | None = None
    errors: nn.Module | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    likelihood: Literal["per_annotation", "joint"] = "per_annotation"
    likelihood_power: cp.Positive = 1.0
    crowd_prior_strength: cp.NotNegative = 0.0
    weight: cp.NotNegative = 0.01
    width: cp.Count = 8

    card: ClassVar[cp.Card] = cp.Card(
        title="Instance trace",
        reference="Zhang et al. (2020), Disentangling human error from the ground truth in segmentation of medical "
        "images, NeurIPS",
        sites={"crowd": "K K", "confusion": "A K K", "lean": "A R K K", "abstention": "A D W", "truth": "N"},
        confusion="confusion",
        assumes="the features show what misleads an annotator, and annotators are more often right than not",
        fails="with few labels per annotator, from which R matrices each are learned: the classifier alone "
        "(classify) may then be better than the truth's probabilities",
        cost="a network step and labels x R x K x K for each batch of items",
        uses=("features",),
        only=("svi",),
        because=REASON,
    )

    def setup(self, data: Annotations) -> InstanceTrace:
        """A copy with networks for these features."""
        errors = networks.prepared_view(self.errors, data, self.width, self.training)
        return replace(self, network=networks.prepared(self.network, data, self.training), errors=errors)

    def model(self, data: cp.Block) -> None:
        """Draws confusions and how they bend, truths and labels."""
        k = data.n_classes
        prior = torch.ones(k, k) + cp.crowd_rows(data, self.crowd_prior_strength)
        with cp.plates.annotators(data):
            confusion = pyro.sample("confusion", dist.Dirichlet(prior).to_event(1))
            if self.errors is not None:
                lean = pyro.sample("lean", dist.Normal(torch.zeros(self.width, k, k), 1.0).to_event(3))
        table: Any = confusion.log()
        u = networks.network_output(data, self.errors, "errors")
        if u is not None:
            u, rows = data.of_item(u, event_dim=1), data.of_annotator(table, event_dim=2)
            for r in range(self.width):  # one after the other: together they take R times the memory
                rows = rows + u[:, r, None, None] * data.of_annotator(lean[..., r, :, :], event_dim=2)
            rows = rows.log_softmax(-1)  # (S, K, K)
            traces = rows.exp().diagonal(dim1=-2, dim2=-1).sum(-1)
            cp.penalty(data, "trace", self.weight * (traces * data.named).sum() / data.named.sum().clamp(min=1))
            table = cp.each_label(rows)
        table = cp.with_abstentions(data, table)
        log_p = networks.class_logits(data, self.network)
        cp.truth_and_labels(data, log_p, table, self.likelihood, power=self.likelihood_power)

    def guide(self, data: cp.Block) -> None:
        """Points: rows of a softplus, normalised, that start near the identity, and do not bend at first."""
        k = data.n_classes
        rho = pyro.param("q.confusion", (6 * torch.eye(k) - 5).repeat(data.n_annotators, 1, 1))
        rows = nn.functional.softplus(rho)
        points = {"confusion": rows / rows.sum(-1, keepdim=True)}
        if self.errors is not None:
            points["lean"] = pyro.param("q.lean", torch.zeros(data.n_annotators, self.width, k, k))
        mean_field(self, data, point=True, points=points)
