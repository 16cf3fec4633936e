"""Meta EM: classes are clouds in a space that was learned beforehand, from few-shot tasks of other classes.

    prevalence        ~ Dirichlet(1 + b)                           (K)
    mean[k]           ~ Normal(0, 1 / tau)                         (K, M)
    confusion[a, k]   ~ Dirichlet(1 + mass * row(k))               (A, K, K)
    truth[i]          ~ Categorical(prevalence)                    (N)
    embedding[i]      ~ Normal(mean[truth[i]], 1), embedding = network(features), observed    (N, M)
    label[i, a]       ~ Categorical(confusion[a, truth[i]])

``meta_fit`` trains the network through a few steps of EM, on tasks whose annotators are made up and whose classes
are known; from then on it stands still. Without features it is bayesian_dawid_skene under this prior.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor, nn

import crowdppl
from crowdppl import Annotations, Block, Card, annotate, confusion_prior, look, mean_field, plates, truth

REASON = "the space was learned for points: a posterior of the means gives up classes with few items; take em"


@dataclass(frozen=True)
class MetaEm:
    """A mixture in a learned space and Dawid-Skene, for tasks with a handful of labelled items.

    Args:
        embedding: maps features to M numbers; by default ``crowdppl.embedding.Layers``. A copy is trained.
        widths: of these layers, M the last.
        steps: J, of EM in meta-training, and from the votes to the start of a fit.
        tau: prior precision of the means; 0 for a flat prior, which takes plain averages.
        prevalence, prevalence_mass: "learned" or "uniform", and b, pseudo-counts of each class.
        mass, diagonal: pseudo-counts of a confusion row, and the share on the right answer; 1 / K in the paper.
        weights: what ``meta_fit`` learned; nothing to be set by hand.
    """

    embedding: nn.Module | None = None
    widths: Sequence[int] = (128, 64)
    steps: int = 3
    tau: float = 0.1
    prevalence: Literal["learned", "uniform"] = "learned"
    prevalence_mass: float = 100.0
    mass: float = 4.0
    diagonal: float | None = None
    weights: Mapping[str, Tensor] | None = field(default=None, repr=False, compare=False)

    card: ClassVar[Card] = Card(
        title="Meta EM",
        reference="Kumagai et al. (2025), Meta-learning representations for learning from multiple annotators",
        sites={"prevalence": "K", "mean": "K M", "confusion": "A K K", "abstention": "A D W", "truth": "N"},
        assumes="the items of a class lie around one place of the space that other classes have shaped",
        fails="where classes differ in what meta-training has taught the network to overlook",
        cost="labels x K, and items x K x M, an iteration",
        refused=dict.fromkeys(("vb", "gibbs", "nuts", "svi"), REASON),
        uses=("features", "history"),
    )

    def __post_init__(self) -> None:
        if not self.tau >= 0:
            raise crowdppl.MethodError(f"tau={self.tau} is a precision; take 0 (a flat prior) or more")

    def meta_fit(self, episodes: Any, **how: Any) -> MetaEm:
        """A copy whose network has learned from few-shot tasks, after which fits take no training.

        Args:
            episodes: ``crowdppl.episodes.Episodes``, of other classes and items than those that will be fitted.
            how: iterations, batch, learning_rate, seed, device, and switches, as for ``crowdppl.meta_trained``.
        """
        rows = crowdppl.leaning_rows(episodes.ways, self.mass, self.diagonal)
        network = crowdppl.meta_trained(self.embedding, self.widths, episodes, self.em, rows, **how)
        return replace(self, embedding=network, weights={n: x.clone() for n, x in network.state_dict().items()})

    def prepare(self, data: Annotations) -> MetaEm:
        """A copy with the network that ``meta_fit`` trained; without features there is nothing to look at."""
        return replace(self, embedding=crowdppl.trained_embedding(self.embedding, self.widths, self.weights, data))

    @property
    def em(self) -> Any:
        """``crowdppl.em_steps`` with these settings."""
        b = self.prevalence_mass if self.prevalence == "learned" else None
        return partial(crowdppl.em_steps, steps=self.steps, tau=self.tau, prevalence=b)

    def start(self, data: Block) -> dict[str, Tensor]:
        """The means after some steps of EM from the votes."""
        placed, prior = look(data, self.embedding, "embedding"), confusion_prior(data, self.mass, self.diagonal)
        return {} if placed is None else {"mean": crowdppl.em_on(data, placed, prior, self.em).mean}

    def model(self, data: Block) -> None:
        """Draws prevalence, means, confusions, truths and labels."""
        log_p = crowdppl.prevalence(data, self.prevalence, 1 + self.prevalence_mass)
        network: Any = self.embedding
        if network is not None:
            zero = torch.zeros(data.n_classes, network.dimension)
            scale = max(self.tau, 1e-12) ** -0.5  # no Normal is flat; next to one item, 1e-12 is nothing
            mean = pyro.sample("mean", dist.Normal(zero, scale).to_event(2))
            if (placed := look(data, network, "embedding")) is not None:
                clouds = crowdppl.log_clouds(placed, mean)  # (N, K), or of chains (C, 1, N, K)
                log_p = log_p + (clouds.squeeze(-3) if clouds.dim() > 2 else clouds)
        with plates.annotators(data):
            prior = 1 + confusion_prior(data, self.mass, self.diagonal)
            confusion = pyro.sample("confusion", dist.Dirichlet(prior).to_event(1))
        table = crowdppl.with_abstentions(data, confusion.log())
        with plates.items(data):
            annotate(data, table, truth(data, log_p))

    guide = mean_field

    def classifier(self, sites: Mapping[str, Tensor]) -> nn.Module | None:
        """Features to K logits, from the posterior means of the story's sites; None without features."""
        return crowdppl.cloud_classifier(self.embedding, sites)
