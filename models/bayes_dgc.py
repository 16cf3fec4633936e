"""BayesDGC: Bayesian Dawid-Skene, and a network that looks at the items as a second expert on the truth.

    prevalence        = 1 / K, or ~ Dirichlet(prevalence_mass)     (K)
    confusion[a, k]   ~ Dirichlet(mass * row(k)), or around a crowd's that is learned    (A, K, K)
    truth[i]          ~ prevalence * network(features[i])          (N), a product of experts, not renormalised
    label[i, a]       ~ Categorical(confusion[a, truth[i]])

The product is left as it is, which keeps the prevalence conjugate; drawn data are those on which the two experts
agree. Without features and with a learned prevalence it is bayesian_dawid_skene.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import pyro
import pyro.distributions as dist
from torch import nn

import crowdppl
from crowdppl import Annotations, Block, Card, MethodError, annotate, prevalence, truth
from crowdppl.core.validation import NotNegative, Positive, Share, check_settings
from crowdppl.primitives import plates


@dataclass(frozen=True)
class BayesDgc:
    """Annotators' confusion matrices and a classifier, learned from each other.

    Args:
        network: maps features to K logits; by default one hidden layer, or five such. A fit trains a copy.
        training: settings of ``crowdppl.networks.training.Training`` by name; they win over those of the recipe.
        recipe: "house" (vb, svi) trains as ``crowdppl.house_training`` says, with ``temper`` 0.5 and ``pooled`` 14
            (0 beside ``mass`` or ``diagonal``) where they are left out; its trials (``volume``) take five to ten
            times as long as the fit that follows, where 300 items have labels. "plain" adds nothing to the story.
            Without features it is plain.
        prevalence: "uniform", because the network knows how common classes are, or "learned", as in the paper,
            which counts it twice.
        prevalence_mass: pseudo-counts of each class, by default ``house_prevalence`` (1.1 in the paper).
        prior: "house", by mass and diagonal, or "published": 5 on the right answer, 2 on each other.
        pooled: pseudo-counts of a row that are shared as the crowd has them, which is learned; 0, or None without
            the house recipe, takes the prior above. Annotators unlike the crowd are drawn to it (of experts who are
            right in 95 % it said 74 %): to judge them, take ``pooled=0, temper=1`` (91 %).
        temper: power of the labels' likelihood: below 1, labels of an item count less than if they were independent
            given its truth, and a confusion counts each for as much less. None is 1 without the house recipe.
        mass, diagonal: pseudo-counts of a confusion row, and their share on the right answer; not with ``pooled``.
    """

    network: nn.Module | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    recipe: Literal["house", "plain"] = "house"
    prevalence: Literal["learned", "uniform"] = "uniform"
    prevalence_mass: Positive | None = None
    prior: Literal["house", "published"] = "house"
    pooled: NotNegative | None = None
    temper: Positive | None = None
    mass: Positive = 4.0
    diagonal: Share | None = None

    card: ClassVar[Card] = Card(
        title="Bayes DGC",
        reference="Li, Huang & Chen (2021), Crowdsourcing aggregation with deep Bayesian learning, Science China "
        "Information Sciences 64:130104",
        doi="10.1007/s11432-020-3118-7",
        sites={"prevalence": "K", "crowd": "K K", "confusion": "A K K", "abstention": "A D W", "truth": "N"},
        assumes="annotators err each alone given the truth, and the truth can be seen in the features",
        fails="when annotators err where features look alike: the network then learns their errors",
        cost="labels x K, and a network step for each batch of items, an epoch an iteration",
        uses=("features", "history"),
    )

    def __post_init__(self) -> None:
        check_settings(self)
        if self.prior == "published" and self.pooled:
            raise MethodError(f"prior='published' and pooled={self.pooled} are two priors; leave one out")
        if self.pooled and self._own_rows:
            raise MethodError(f"mass={self.mass} and diagonal={self.diagonal} have no part in pooled={self.pooled}")

    @property
    def _own_rows(self) -> bool:
        return (self.mass, self.diagonal) != (BayesDgc.mass, BayesDgc.diagonal)

    def prepare(self, data: Annotations) -> BayesDgc:
        """A copy with a network for these features, and with the recipe written out."""
        training, pooled, temper = dict(self.training), self.pooled, self.temper
        if self.recipe == "house" and data.features is not None:
            recipe = crowdppl.house_recipe(data, training=training)
            own = self.prior == "published" or self._own_rows
            pooled = (0.0 if own else recipe["pooled"]) if pooled is None else pooled
            training, temper = recipe["training"], recipe["temper"] if temper is None else temper
        mine = crowdppl.ready(self.network, data, training)
        return replace(self, network=mine, training=training, pooled=pooled, temper=temper)

    def model(self, data: Block) -> None:
        """Draws prevalence, confusions, truths and labels."""
        log_p = prevalence(data, self.prevalence, self.prevalence_mass)
        if self.network is not None:
            log_p = log_p + crowdppl.classify(data, self.network)
        k, rows = data.n_classes, None
        if self.prior == "published":
            rows = crowdppl.leaning_rows(k, 3.0 + 2.0 * k, 5.0 / (3.0 + 2.0 * k))
        elif self.pooled:
            rows = crowdppl.crowd_rows(data, self.pooled)
        prior = crowdppl.confusion_prior(data, self.mass, self.diagonal)
        if rows is not None:
            prior = prior - crowdppl.leaning_rows(k, self.mass, self.diagonal).to(prior) + rows
        with plates.annotators(data):
            confusion = pyro.sample("confusion", dist.Dirichlet(prior).to_event(1))
        table, power = crowdppl.with_abstentions(data, confusion.log()), 1.0 if self.temper is None else self.temper
        with plates.items(data):
            annotate(data, table, truth(data, log_p), power=power)

    def guide(self, data: Block) -> None:
        """Mean field, from the story's own sites."""
        crowdppl.mean_field(self, data)
