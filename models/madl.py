"""MaDL: confusions from embeddings of annotators and items, and less weight for annotators who are alike.

    embedding[a]      ~ Normal(0, 1)                                         (A, Q)
    mix               ~ Normal(0, 1)                                         (2Q + Q Q, Q)
    readout           ~ Normal(0, 1)                                         (Q, K, K)
    scale             ~ Gamma(1.25, 0.25)                                    (1)
    truth[i]          ~ Categorical(network(features[i]))                    (N)
    label[i, a]       ~ Categorical(softmax(start + readout relu(v + mix [v, u, v x u]))[truth[i]])

v is embedding[a], u is view(features[i]) or 0 where nothing is seen; at the start annotators are right with
probability ``right``. While the network learns, a label has a truth of its own, its log-probability the weight of
its annotator, 1 / sum over b of exp(-scale |v[a] - v[b]|^2) in proportion, and the scale its prior for each label.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor, nn

import crowdppl
import crowdppl.primitives as cp
from crowdppl import Annotations, networks

REASON = "its weights are no part of a probability, and network and annotators learn together by gradients: svi"


@dataclass(frozen=True)
class Madl:
    """A classifier, and a second network that says how each annotator errs on each item.

    Args:
        network, view: map features to K logits, and to Q numbers; by default one hidden layer. A fit trains copies.
        training: settings of ``crowdppl.networks.training.Training`` by name, such as ``{"epochs": 60}``.
        width: Q, numbers an annotator and an item.
        right, weighted: how often annotators are right at first; whether those who are alike share their weight.
        begin: embeddings "apart", as drawn, or "near", within A^-1/2 of 0, as published.
    """

    network: nn.Module | None = None
    view: nn.Module | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    width: cp.Count = 16
    right: cp.Share = 0.8
    weighted: bool = True
    begin: Literal["apart", "near"] = "apart"

    card: ClassVar[cp.Card] = cp.Card(
        title="MaDL",
        reference="Herde, Huseljic & Sick (2023), Multi-annotator deep learning: a probabilistic framework for "
        "classification, TMLR",
        sites={"embedding": "A Q", "mix": "2*Q+Q*Q Q", "readout": "Q K K", "scale": "1"}
        | {"abstention": "A D W", "truth": "N"},
        assumes="what misleads annotators on an item shows in its features; begun near, who err alike are one",
        fails="on few labels an annotator, which the second network explains; begun apart, weights are 1; begun "
        "near (60 epochs, rate .01), six who guess alike weigh .81, eight good ones 1.15, but .82 of truths are "
        "right for .94, and at the default rate weights do not tell them apart",
        cost="a network step, and labels x Q x Q x Q for each batch of items",
        uses=("features",),
        refused={"em": REASON, "vb": REASON, "gibbs": REASON, "nuts": REASON},
    )

    def setup(self, data: Annotations) -> Madl:
        """A copy with networks for these features."""
        network = networks.prepared(self.network, data, self.training)
        return replace(
            self, network=network, view=networks.prepared_view(self.view, data, self.width, self.training)
        )

    def model(self, data: cp.Block) -> None:
        """Draws embeddings, weights of the second network, truths and labels."""
        k, q = data.n_classes, self.width
        with cp.plates.annotators(data):
            embedding = pyro.sample("embedding", dist.Normal(torch.zeros(q), 1.0).to_event(1))
        mix = pyro.sample("mix", dist.Normal(torch.zeros(2 * q + q * q, q), 1.0).to_event(2))
        readout = pyro.sample("readout", dist.Normal(torch.zeros(q, k, k), 1.0).to_event(3))
        log_p, seen = networks.class_logits(data, self.network), networks.network_output(data, self.view, "view")
        if self.view is not None:
            scale = pyro.sample("scale", dist.Gamma(torch.tensor([1.25]), 0.25).to_event(1))
            cp.penalty(data, "kernel", -dist.Gamma(1.25, 0.25).log_prob(scale).sum())
        table: Tensor | Callable[[Tensor], Tensor] = self._rows(
            embedding, torch.zeros_like(embedding), mix, readout
        )
        if seen is not None:
            v = data.of_annotator(embedding, event_dim=1)
            rows = self._rows(v, data.of_item(seen, event_dim=1).expand(v.shape), mix, readout)  # (..., S, K, K)
            table = cp.each_label(rows)
            if data.trains_networks:
                weights = cp.label_weights(embedding.detach(), scale if self.weighted else None)
                table = cp.weighted_labels(data, log_p, rows, weights)
        cp.truth_and_labels(data, log_p, cp.with_abstentions(data, table))

    def guide(self, data: cp.Block) -> None:
        """Points; at the start all annotators are alike, and right as often on every item."""
        q, n, k, size = self.width, data.n_annotators, data.n_classes, 2 * self.width + self.width**2
        # They are a network's weights: where there are networks, they learn at their rate, not at the annotators'.
        fast, far = 1.0 if self.view is None else self.training.get("annotator_rate", 10.0), self.begin == "apart"
        start: dict[str, Callable[[], Tensor]] = {
            "embedding": lambda: fast * (torch.randn(n, q) if far else (2 * torch.rand(n, q) - 1) / n**0.5),
            "mix": lambda: fast * torch.randn(size, q) * (2 / (size + q)) ** 0.5,
            "readout": lambda: torch.zeros(q, k, k),
        }
        points = {name: pyro.param(f"q.{name}", first) / fast for name, first in start.items()}
        if self.view is not None:
            points["scale"] = pyro.param("q.scale", torch.ones(1), constraint=dist.constraints.positive)
        crowdppl.mean_field(self, data, point=True, points=points)

    def _rows(self, v: Tensor, u: Tensor, mix: Tensor, readout: Tensor) -> Tensor:
        """Log-confusions (..., K, K) of embeddings (..., Q) of annotators and items."""
        k = readout.shape[-1]
        both = torch.cat([v, u, (v.unsqueeze(-1) * u.unsqueeze(-2)).flatten(-2)], -1).unsqueeze(-2)
        inner: Tensor = (v.unsqueeze(-2) + both @ mix).relu()
        start = math.log(self.right * (k - 1) / (1 - self.right)) * torch.eye(k)
        logits = (inner @ readout.flatten(-2)).squeeze(-2).reshape(*inner.shape[:-2], k, k)
        return (start + logits).log_softmax(-1)
