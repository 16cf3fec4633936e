"""CrowdLayer: a layer for each annotator on top of a classifier, unconstrained.

    truth[i]          ~ Categorical(p[i]),  p[i] = softmax(network(features[i]))                      (N)
    weights[a]        (no prior) of the forms "MW" (K, K), "VW" and "VB" (1, K), "VW+B" (2, K)
    label[i, a]       ~ Categorical(softmax(layer[a](p[i])))

layer[a](p) is weights[a] p, weights[a] * p, p + weights[a], or weights[a, 0] * p + weights[a, 1]. A label depends
on the classifier's output p, not on the truth, so that labels do not change the truth's probabilities. Without
features p is the item's truth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor, nn

import crowdppl.primitives as cp
from crowdppl import Annotations, mean_field, networks

REASON = "its layers are no probabilities, and the network learns through them by gradients: svi"
FLAT = 100.0
"""Standard deviation of weights before labels: as good as no prior."""


@dataclass(frozen=True)
class CrowdLayer:
    """A classifier that is learned through a layer of its own for each annotator.

    Args:
        network: maps features to K logits; by default one hidden layer. The fit trains a copy.
        training: settings of ``crowdppl.networks.training.Training`` by name, such as ``{"epochs": 60}``.
        form: "MW", a matrix; "VW", a factor per class; "VB", a shift per class; "VW+B", both.
    """

    network: nn.Module | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    form: Literal["MW", "VW", "VB", "VW+B"] = "MW"

    card: ClassVar[cp.Card] = cp.Card(
        title="Crowd layer",
        reference="Rodrigues & Pereira (2018), Deep learning from crowds, AAAI",
        sites={"weights": "A R K", "abstention": "A D W", "truth": "N"},
        assumes="the features show the truth; nothing is assumed on how annotators err",
        fails="the classifier's probabilities need not be probabilities of the truth: a layer can undo any mixing",
        cost="a network step and labels x K x K for each batch of items",
        only=("svi",),
        because=REASON,
        uses=("features",),
    )

    def __post_init__(self) -> None:
        cp.check_settings(self)

    def setup(self, data: Annotations) -> CrowdLayer:
        """A copy with a network for these features."""
        return replace(self, network=networks.prepared(self.network, data, self.training))

    def model(self, data: cp.Block) -> None:
        """Draws weights, truths and labels."""
        with cp.plates.annotators(data):
            weights = pyro.sample("weights", dist.Normal(self._start(data), FLAT).to_event(2))
        log_p = networks.class_logits(data, self.network)
        table: Tensor | Callable[[Tensor], Tensor] = self._layer(weights.unsqueeze(-3), torch.eye(data.n_classes))
        if networks.network_output(data, self.network) is not None:
            p = data.of_item(log_p.exp(), event_dim=1)
            log_label = self._layer(data.of_annotator(weights, event_dim=2), p)  # (..., S, K)

            def table(answer: Tensor) -> Tensor:
                given = answer[:, None].expand(*log_label.shape[:-1], 1)
                return log_label.gather(-1, given).expand(*log_label.shape)

        answers = cp.with_abstentions(data, table)
        with cp.plates.items(data):
            cp.annotate(data, answers, cp.truth(data, log_p))

    def guide(self, data: cp.Block) -> None:
        """Points; layers start as the identity."""
        weights = pyro.param("q.weights", self._start(data).repeat(data.n_annotators, 1, 1))
        mean_field(self, data, point=True, points={"weights": weights})

    def _start(self, data: cp.Block) -> Tensor:
        """Weights (R, K) of a layer that changes nothing."""
        one, none = torch.ones(1, data.n_classes), torch.zeros(1, data.n_classes)
        forms = {"MW": torch.eye(data.n_classes), "VW": one, "VB": none, "VW+B": torch.cat([one, none])}
        return forms[self.form]

    def _layer(self, weights: Tensor, p: Tensor) -> Tensor:
        """Log-probabilities (..., K) of labels, given weights (..., R, K) and p (..., K)."""
        if self.form == "MW":
            logits = (weights @ p.unsqueeze(-1)).squeeze(-1)
        elif self.form == "VB":
            logits = p + weights[..., 0, :]
        else:
            logits = weights[..., 0, :] * p + (weights[..., 1, :] if self.form == "VW+B" else 0)
        return logits.log_softmax(-1)
