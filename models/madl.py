"""MaDL: confusions from embeddings of annotators and items, and less weight for annotators who are alike.

    embedding[a]      ~ Normal(0, 1)                                         (A, Q)
    mix               ~ Normal(0, 1)                                         (2Q + Q Q, Q)
    readout           ~ Normal(0, 1)                                         (Q, K, K)
    scale             ~ Gamma(1.25, 0.25)                                    (1)
    truth[i]          ~ Categorical(network(features[i]))                    (N)
    label[i, a]       ~ Categorical(softmax(start + readout relu(v + mix [v, u, v x u]))[truth[i]])

v is embedding[a], and u is view(features[i]), or 0 without features. ``start`` makes annotators right with
probability ``right`` at first. While the network learns, every label has a truth of its own, its log-probability
the weight of its annotator, in proportion to 1 / sum over b of exp(-scale |v[a] - v[b]|^2), and the scale's prior
counts once for each label.
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

import crowdppl.primitives as cp
from crowdppl import Annotations, mean_field, networks

REASON = "its weights are no part of a probability, and network and annotators learn together by gradients: svi"


@dataclass(frozen=True)
class Madl:
    """A classifier, and a second network that says how each annotator errs on each item.

    Args:
        network: maps features to K logits; by default one hidden layer. The fit trains a copy.
        view: maps features to Q numbers per item; likewise.
        training: settings of ``crowdppl.networks.training.Training`` by name, such as ``{"epochs": 60}``.
        width: Q, numbers per annotator and per item.
        right: how often annotators are right at first.
        weighted: whether annotators who are alike share their weight.
        begin: embeddings start "apart", as drawn, or "near", within A^-1/2 of 0, as published.
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
        assumes="the features show what misleads annotators on an item; where embeddings start near, annotators "
        "who err alike count as one",
        fails="with few labels per annotator, which the second network explains; embeddings that start apart leave "
        "all weights near 1, and those that start near cost accuracy",
        cost="a network step, and labels x Q x Q x Q for each batch of items",
        uses=("features",),
        only=("svi",),
        because=REASON,
    )

    def setup(self, data: Annotations) -> Madl:
        """A copy with networks for these features."""
        network = networks.prepared(self.network, data, self.training)
        view = networks.prepared_view(self.view, data, self.width, self.training)
        return replace(self, network=network, view=view)

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
        if seen is None:
            table: Any = self._rows(embedding, torch.zeros_like(embedding), mix, readout)
        else:
            v = data.of_annotator(embedding, event_dim=1)
            rows = self._rows(v, data.of_item(seen, event_dim=1).expand(v.shape), mix, readout)  # (..., S, K, K)
            table = cp.each_label(rows)
            if data.trains_networks:
                weights = label_weights(embedding.detach(), scale if self.weighted else None)
                table = weighted_labels(data, log_p, rows, weights)
        cp.truth_and_labels(data, log_p, cp.with_abstentions(data, table))

    def guide(self, data: cp.Block) -> None:
        """Points; at the start all annotators are alike, and right as often on every item."""
        q, n, k, size = self.width, data.n_annotators, data.n_classes, 2 * self.width + self.width**2
        # They are a network's weights: where there are networks, they learn at their rate, not at the annotators'.
        fast = 1.0 if self.view is None else self.training.get("annotator_rate", 10.0)
        apart = self.begin == "apart"
        start: dict[str, Callable[[], Tensor]] = {
            "embedding": lambda: fast * (torch.randn(n, q) if apart else (2 * torch.rand(n, q) - 1) / n**0.5),
            "mix": lambda: fast * torch.randn(size, q) * (2 / (size + q)) ** 0.5,
            "readout": lambda: torch.zeros(q, k, k),
        }
        points = {name: pyro.param(f"q.{name}", first) / fast for name, first in start.items()}
        if self.view is not None:
            points["scale"] = pyro.param("q.scale", torch.ones(1), constraint=dist.constraints.positive)
        mean_field(self, data, point=True, points=points)

    def _rows(self, v: Tensor, u: Tensor, mix: Tensor, readout: Tensor) -> Tensor:
        """Log-confusions (..., K, K) of embeddings (..., Q) of annotators and items."""
        k = readout.shape[-1]
        both = torch.cat([v, u, (v.unsqueeze(-1) * u.unsqueeze(-2)).flatten(-2)], -1).unsqueeze(-2)
        inner: Tensor = (v.unsqueeze(-2) + both @ mix).relu()
        start = math.log(self.right * (k - 1) / (1 - self.right)) * torch.eye(k)
        logits = (inner @ readout.flatten(-2)).squeeze(-2).reshape(*inner.shape[:-2], k, k)
        return (start + logits).log_softmax(-1)


def label_weights(embedding: Tensor, scale: Tensor | None) -> Tensor:
    """Weights (A,) of annotators, 1 on average and the smaller the more of them are alike (equations 21 to 23).

    Of embeddings v (A, Q); ``scale`` is beyond what distance annotators differ, None gives each weight 1.
    """
    if scale is None:
        return torch.ones(len(embedding), dtype=embedding.dtype, device=embedding.device)
    weight = 1 / (-scale * torch.cdist(embedding, embedding).square()).exp().sum(-1)
    return weight / weight.mean()


def weighted_labels(data: cp.Block, log_p: Tensor, rows: Tensor, weight: Tensor) -> Callable[[Tensor], Tensor]:
    """Labels with a truth each, summed out: a loss to learn by, which does not depend on the item's truth.

    A label adds ``weight[a] * log(sum over k of p[i, k] exp(rows[s, k, label]))``, of weights (A,), log p (N, K),
    to which what is known of the truth is added, and rows (S, K, K), log p(class given | truth) of each label.
    """
    block, given = data.as_block(), cp.each_label(rows)
    known = log_p if block.potential is None else (log_p + block.potential.to(log_p.dtype)).log_softmax(-1)
    each, power = block.of_item(known, event_dim=1), block.of_annotator(weight)

    def table(answer: Tensor) -> Tensor:
        total = torch.logsumexp(each + given(answer), -1)
        return (power * total).unsqueeze(-1).expand(*each.shape)

    return table
