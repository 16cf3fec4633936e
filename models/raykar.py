"""Raykar: a classifier as the prior of the truth, and each annotator's confusion matrix, by maximum likelihood.

    confusion[a, k]   (no prior)                                   (A, K, K)
    truth[i]          ~ Categorical(network(features[i]))          (N)
    label[i, a]       ~ Categorical(confusion[a, truth[i]])

Where there are no features, the truth has a learned prevalence instead, and the method is dawid_skene.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pyro
import pyro.distributions as dist
import torch
from torch import nn

from crowdppl import (
    Annotations,
    Block,
    Card,
    annotate,
    classify,
    mean_field,
    plates,
    prevalence,
    ready,
    truth,
    with_abstentions,
)

REASON = "maximum likelihood has no prior, hence no posterior of parameters; take bayes_dgc"


@dataclass(frozen=True)
class Raykar:
    """Maximum likelihood for annotators and a classifier together.

    Args:
        network: maps features to K logits; by default one hidden layer; ``torch.nn.Linear(D, K)`` is Raykar's own,
            and with convolutions it is AggNet. A fit trains a copy.
        training: settings of ``crowdppl.training.Training`` by name, such as ``{"epochs": 60}``.
    """

    network: nn.Module | None = None
    training: Mapping[str, Any] = field(default_factory=dict)

    card: ClassVar[Card] = Card(
        title="Raykar",
        reference="Raykar et al. (2010), Learning from crowds, JMLR 11",
        sites={"prevalence": "K", "confusion": "A K K", "abstention": "A K W", "truth": "N"},
        assumes="annotators err each alone given the truth, and the truth can be seen in the features",
        fails="with few labels an annotator: rows without any prior become 0 and 1, and the network follows",
        cost="labels x K, and a network step for each batch of items, an epoch an iteration",
        refused={"vb": REASON, "gibbs": REASON, "nuts": REASON},
    )

    def prepare(self, data: Annotations) -> Raykar:
        """A copy with a network for these features."""
        return replace(self, network=ready(self.network, data, self.training))

    def model(self, data: Block) -> None:
        """Draws confusions, truths and labels."""
        log_p = prevalence(data) if self.network is None else classify(data, self.network)
        with plates.annotators(data):
            rows = torch.ones(data.n_classes, data.n_classes)
            confusion = pyro.sample("confusion", dist.Dirichlet(rows).to_event(1))
        table = with_abstentions(data, confusion.log())
        with plates.items(data):
            annotate(data, table, truth(data, log_p))

    def guide(self, data: Block) -> None:
        """Mean field, from the story's own sites."""
        mean_field(self, data)
