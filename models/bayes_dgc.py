"""BayesDGC: Bayesian Dawid-Skene, and a network that looks at the items as a second expert on the truth.

    prevalence        = 1 / K, or ~ Dirichlet(prevalence_mass)     (K)
    confusion[a, k]   ~ Dirichlet(mass * row(k)), or around a crowd's that is learned    (A, K, K)
    truth[i]          ~ prevalence * network(features[i])          (N), a product of experts, not renormalised
    label[i, a]       ~ Categorical(confusion[a, truth[i]])

The product is left as it is, which keeps the prevalence conjugate; drawn data are those on which the two experts
agree. Without features, or before the network has learned, it is bayesian_dawid_skene.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import pyro
import pyro.distributions as dist
import torch
from torch import nn

from crowdppl import (
    Annotations,
    Block,
    Card,
    MethodError,
    annotate,
    classify,
    confusion_prior,
    leaning_rows,
    mean_field,
    plates,
    prevalence,
    ready,
    truth,
    with_abstentions,
)


@dataclass(frozen=True)
class BayesDgc:
    """Annotators' confusion matrices and a classifier, learned from each other.

    Args:
        network: maps features to K logits; by default one hidden layer. A fit trains a copy.
        training: settings of ``crowdppl.training.Training`` by name, such as ``{"epochs": 60}``.
        prevalence: "uniform", because the network knows how common classes are, or "learned", as in the paper,
            which counts it twice.
        prevalence_mass: pseudo-counts of each class (1.1 in the paper).
        prior: "house", by mass and diagonal, or "published": 5 on the right answer, 2 on each other.
        pooled: pseudo-counts of a row that are shared as the crowd has them, which is learned; 0 takes the prior
            above.
        temper: power of the labels' likelihood: below 1, labels of an item count less than if they were independent
            given its truth.
        mass, diagonal: pseudo-counts of a confusion row, and the share of them on the right answer
            (by default half way between certainty and chance).
    """

    network: nn.Module | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    prevalence: Literal["learned", "uniform"] = "uniform"
    prevalence_mass: float = 100.0
    prior: Literal["house", "published"] = "house"
    pooled: float = 0.0
    temper: float = 1.0
    mass: float = 4.0
    diagonal: float | None = None

    card: ClassVar[Card] = Card(
        title="Bayes DGC",
        reference="Li, Huang & Chen (2021), Crowdsourced classification with a deep generative and Bayesian model",
        sites={"prevalence": "K", "crowd": "K K", "confusion": "A K K", "abstention": "A K W", "truth": "N"},
        assumes="annotators err each alone given the truth, and the truth can be seen in the features",
        fails="when annotators err where features look alike: the network then learns their errors",
        cost="labels x K, and a network step for each batch of items, an epoch an iteration",
        uses=("features", "history"),
    )

    def __post_init__(self) -> None:
        if self.prior == "published" and self.pooled:
            raise MethodError(f"prior='published' and pooled={self.pooled} are two priors; leave one out")

    def prepare(self, data: Annotations) -> BayesDgc:
        """A copy with a network for these features."""
        return replace(self, network=ready(self.network, data, self.training))

    def model(self, data: Block) -> None:
        """Draws prevalence, confusions, truths and labels."""
        log_p = prevalence(data, self.prevalence, self.prevalence_mass)
        if self.network is not None:
            log_p = log_p + classify(data, self.network)
        k, rows = data.n_classes, None
        if self.prior == "published":
            rows = leaning_rows(k, 3.0 + 2.0 * k, 5.0 / (3.0 + 2.0 * k))
        elif self.pooled > 0:
            crowd = pyro.sample("crowd", dist.Dirichlet(1 + torch.eye(k)).to_event(1))
            rows = self.pooled * crowd + 1e-3  # a share drawn as 0 would be no concentration
        prior = confusion_prior(data, self.mass, self.diagonal)
        if rows is not None:
            prior = prior - leaning_rows(k, self.mass, self.diagonal).to(prior) + rows
        with plates.annotators(data):
            confusion = pyro.sample("confusion", dist.Dirichlet(prior).to_event(1))
        table = self.temper * with_abstentions(data, confusion.log())
        with plates.items(data):
            annotate(data, table, truth(data, log_p))

    def guide(self, data: Block) -> None:
        """Mean field, from the story's own sites."""
        mean_field(self, data)
