"""BayesDGC: Bayesian Dawid-Skene, and a network that looks at the items as a second expert on the truth.

    prevalence        = 1 / K, or ~ Dirichlet(prevalence_strength)     (K)
    confusion[a, k]   ~ Dirichlet(prior_strength * row(k)), or around a crowd's that is learned    (A, K, K)
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
import crowdppl.primitives as cp
from crowdppl import Annotations, networks
from crowdppl.errors import MethodError


@dataclass(frozen=True)
class BayesDgc:
    """Annotators' confusion matrices and a classifier, learned from each other.

    Args:
        network: maps features to K logits; by default one hidden layer, or five such. A fit trains a copy.
        training: settings of ``crowdppl.networks.training.Training`` by name; they win over those of the recipe.
        recipe: "default" (vb, svi) trains as ``crowdppl.default_training`` says, with ``likelihood_power`` 0.5 and ``crowd_prior_strength`` 14
            (0 beside ``prior_strength`` or ``prior_accuracy``) where they are left out; its trials (``volume``) take five to ten
            times as long as the fit that follows, where 300 items have labels. "plain" adds nothing to the story.
            Without features it is plain.
        prevalence: "uniform", because the network knows how common classes are, or "learned", as in the paper,
            which counts it twice.
        prevalence_strength: pseudo-counts of each class, by default ``default_prevalence`` (1.1 in the paper).
        prior: "default", by prior_strength and diagonal, or "published": 5 on the right answer, 2 on each other.
        crowd_prior_strength: pseudo-counts of a row that are shared as the crowd has them, which is learned; 0, or None without
            the house recipe, takes the prior above. Annotators unlike the crowd are drawn to it (of experts who are
            right in 95 % it said 74 %): to judge them, take ``crowd_prior_strength=0, likelihood_power=1`` (91 %).
        likelihood_power: power of the labels' likelihood: below 1, labels of an item count less than if they were independent
            given its truth, and a confusion counts each for as much less. None is 1 without the house recipe.
        prior_strength, prior_accuracy: pseudo-counts of a confusion row, and their share on the right answer; not with ``crowd_prior_strength``.
    """

    network: nn.Module | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    recipe: Literal["default", "plain"] = "default"
    prevalence: Literal["learned", "uniform"] = "uniform"
    prevalence_strength: cp.Positive | None = None
    prior: Literal["default", "published"] = "default"
    crowd_prior_strength: cp.NotNegative | None = None
    likelihood_power: cp.Positive | None = None
    prior_strength: cp.Positive = 4.0
    prior_accuracy: cp.Share | None = None

    card: ClassVar[cp.Card] = cp.Card(
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
        cp.check_settings(self)
        if self.prior == "published" and self.crowd_prior_strength:
            raise MethodError(
                f"prior='published' and crowd_prior_strength={self.crowd_prior_strength} are two priors; leave one out"
            )
        if self.crowd_prior_strength and self._own_rows:
            raise MethodError(
                f"prior_strength={self.prior_strength} and prior_accuracy={self.prior_accuracy} have no part in crowd_prior_strength={self.crowd_prior_strength}"
            )

    @property
    def _own_rows(self) -> bool:
        return (self.prior_strength, self.prior_accuracy) != (BayesDgc.prior_strength, BayesDgc.prior_accuracy)

    def setup(self, data: Annotations) -> BayesDgc:
        """A copy with a network for these features, and with the recipe written out."""
        training, crowd_prior_strength, likelihood_power = (
            dict(self.training),
            self.crowd_prior_strength,
            self.likelihood_power,
        )
        if self.recipe == "default" and data.features is not None:
            recipe = crowdppl.default_recipe(data, training=training)
            own = self.prior == "published" or self._own_rows
            crowd_prior_strength = (
                (0.0 if own else recipe["crowd_prior_strength"])
                if crowd_prior_strength is None
                else crowd_prior_strength
            )
            training, likelihood_power = (
                recipe["training"],
                recipe["likelihood_power"] if likelihood_power is None else likelihood_power,
            )
        mine = networks.prepared(self.network, data, training)
        return replace(
            self,
            network=mine,
            training=training,
            crowd_prior_strength=crowd_prior_strength,
            likelihood_power=likelihood_power,
        )

    def model(self, data: cp.Block) -> None:
        """Draws prevalence, confusions, truths and labels."""
        log_p = cp.prevalence(data, self.prevalence, self.prevalence_strength)
        if self.network is not None:
            log_p = log_p + networks.class_logits(data, self.network)
        k, rows = data.n_classes, None
        if self.prior == "published":
            rows = cp.diagonal_prior(k, 3.0 + 2.0 * k, 5.0 / (3.0 + 2.0 * k))
        elif self.crowd_prior_strength:
            rows = cp.crowd_rows(data, self.crowd_prior_strength)
        prior = cp.confusion_prior(data, self.prior_strength, self.prior_accuracy)
        if rows is not None:
            prior = prior - cp.diagonal_prior(k, self.prior_strength, self.prior_accuracy).to(prior) + rows
        with cp.plates.annotators(data):
            confusion = pyro.sample("confusion", dist.Dirichlet(prior).to_event(1))
        table, power = (
            cp.with_abstentions(data, confusion.log()),
            1.0 if self.likelihood_power is None else self.likelihood_power,
        )
        with cp.plates.items(data):
            cp.annotate(data, table, cp.truth(data, log_p), power=power)

    def guide(self, data: cp.Block) -> None:
        """Mean field, from the story's own sites."""
        crowdppl.mean_field(self, data)
