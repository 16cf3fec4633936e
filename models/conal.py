"""CoNAL: noise that the whole crowd shares on an item, and noise of each annotator.

    common            (no prior)                                             (K, K)
    individual[a]     (no prior)                                             (A, K, K)
    taste[a]          ~ Normal(0, 1)                                         (A, Q)
    truth[i]          ~ Categorical(p[i]),  p[i] = softmax(network(features[i]))                      (N)
    label[i, a]       ~ Categorical(softmax(p[i] (w[i, a] common + (1 - w[i, a]) individual[a])))
    potential         weight * sum over a of |individual[a] - common|, once for each label

w[i, a] = sigmoid(u[i] taste[a] / |u[i]| |taste[a]|), where u[i] = view(features[i]). A label depends on the
classifier's output p, not on the truth, so that labels do not change the truth's probabilities. Without features
p is the item's truth, and w is a half.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

import crowdppl.primitives as cp
from crowdppl import Annotations, mean_field, networks

REASON = "its layers are no probabilities, and the networks learn through them by gradients: svi"
FLAT = 100.0
"""Standard deviation of layers before labels: as good as no prior."""


@dataclass(frozen=True)
class Conal:
    """A classifier that is learned through a common layer and one for each annotator.

    Args:
        network: maps features to K logits; by default one hidden layer. The fit trains a copy.
        view: maps features to Q numbers per item, which decide whose noise it gets; likewise.
        training: settings of ``crowdppl.networks.training.Training`` by name, such as ``{"epochs": 60}``.
        width: Q.
        weight: of the potential, which keeps individual noise apart from the common one.
        init_diagonal: layers start as this times the identity.
    """

    network: nn.Module | None = None
    view: nn.Module | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    width: cp.Count = 20
    weight: cp.NotNegative = 1e-5
    init_diagonal: float = 2.0

    card: ClassVar[cp.Card] = cp.Card(
        title="CoNAL",
        reference="Chu, Ma & Wang (2021), Learning from crowds by modeling common confusions, AAAI",
        sites={"common": "K K", "individual": "A K K", "taste": "A Q", "abstention": "A D W", "truth": "N"},
        assumes="the features show the truth, and also which items mislead everybody",
        fails="the classifier's probabilities need not be probabilities of the truth: a layer can undo any mixing",
        cost="a network step and labels x K x K for each batch of items",
        uses=("features",),
        only=("svi",),
        because=REASON,
    )

    def setup(self, data: Annotations) -> Conal:
        """A copy with networks for these features."""
        view = networks.prepared_view(self.view, data, self.width, self.training)
        return replace(self, network=networks.prepared(self.network, data, self.training), view=view)

    def model(self, data: cp.Block) -> None:
        """Draws layers, tastes, truths and labels."""
        start = self.init_diagonal * torch.eye(data.n_classes)
        common = pyro.sample("common", dist.Normal(start, FLAT).to_event(2))
        with cp.plates.annotators(data):
            individual = pyro.sample("individual", dist.Normal(start, FLAT).to_event(2))
            if self.view is not None:
                taste = pyro.sample("taste", dist.Normal(torch.zeros(self.width), 1.0).to_event(1))
        distance = (individual - common).square().sum((-2, -1)).clamp(min=1e-20).sqrt()
        cp.penalty(data, "apart", -self.weight * distance.sum())
        log_p, seen = networks.class_logits(data, self.network), networks.network_output(data, self.view, "view")
        table: Any = ((common + individual) / 2).log_softmax(-1)
        if seen is not None:
            u = data.of_item(normalize(seen, dim=-1), event_dim=1)
            v = data.of_annotator(normalize(taste, dim=-1), event_dim=1)
            w = (u * v).sum(-1).sigmoid()[..., None, None]
            layer = w * common + (1 - w) * data.of_annotator(individual, event_dim=2)  # (S, K, K)
            logits = data.of_item(log_p.exp(), event_dim=1).unsqueeze(-2) @ layer
            table = cp.each_label(logits.log_softmax(-1).expand(*layer.shape))
        table = cp.with_abstentions(data, table)
        with cp.plates.items(data):
            cp.annotate(data, table, cp.truth(data, log_p))

    def guide(self, data: cp.Block) -> None:
        """Points; layers start as a multiple of the identity, tastes at random."""
        layer: Tensor = self.init_diagonal * torch.eye(data.n_classes)
        each = pyro.param("q.individual", layer.repeat(data.n_annotators, 1, 1))
        points = {"common": pyro.param("q.common", layer), "individual": each}
        if self.view is not None:
            points["taste"] = pyro.param("q.taste", lambda: torch.randn(data.n_annotators, self.width))
        mean_field(self, data, point=True, points=points)
