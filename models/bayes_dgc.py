"""BayesDGC: Bayesian Dawid-Skene, and a network that looks at the items as a second expert on the truth.

    prevalence        = 1 / K, or ~ Dirichlet(prevalence_strength)      (K)
    confusion[a, k]   ~ Dirichlet(prior_strength * row(k)),             (A, K, K)
                        or Dirichlet(crowd_prior_strength * crowd[k])
    truth[i]          ~ prevalence * network(features[i])               (N)      a product of experts
    label[i, a]       ~ Categorical(confusion[a, truth[i]])

The product is not renormalised, which keeps the prevalence conjugate; simulated data are those on which the two
experts agree. Without features and with a learned prevalence the method is bayesian_dawid_skene.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import pyro
import pyro.distributions as dist
from torch import Tensor, nn

import crowdppl
import crowdppl.primitives as cp
from crowdppl import Annotations, networks
from crowdppl.errors import MethodError

PUBLISHED_PREVALENCE = 1.1
"""Pseudo-counts of each class in the paper."""


@dataclass(frozen=True)
class BayesDgc:
    """Annotators' confusion matrices and a classifier, learned from each other.

    Args:
        network: maps features to K logits; by default one hidden layer, or five networks of one. The fit trains a
            copy.
        training: settings of ``crowdppl.networks.training.Training`` by name; they override the recipe's.
        recipe: "default" takes what is not given from ``crowdppl.default_recipe``: training, likelihood_power and
            crowd_prior_strength (0 where prior_strength, prior_accuracy or a published prior is given). Its trials
            of ``volume`` take five to ten times as long as the fit itself. "plain" adds nothing to the model.
        prevalence: "uniform", because the network models how common classes are, or "learned", which counts it
            twice. None is "uniform", and "learned" under the published prior.
        prevalence_strength: pseudo-counts of each class. None is ``default_prevalence``, and 1.1 under the
            published prior.
        prior: "default", by prior_strength and prior_accuracy, or "published": 5 on the right answer, 2 on each
            other, and a learned prevalence with 1.1 on each class.
        crowd_prior_strength: pseudo-counts of a confusion row that follow the crowd's row, which is learned. It
            draws unusual annotators to the crowd: set it to 0, and likelihood_power to 1, to judge annotators.
        likelihood_power: power of the labels' likelihood; below 1, an item's labels count for less. None is 1
            without the recipe.
        prior_strength: pseudo-counts of a confusion row; not with ``crowd_prior_strength``.
        prior_accuracy: share of them on the correct label, by default half way between 1 and chance.
    """

    network: nn.Module | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    recipe: Literal["default", "plain"] = "default"
    prevalence: Literal["learned", "uniform"] | None = None
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
        confusion="confusion",
        prevalence="prevalence",
        assumes="annotators err independently given the truth, and the features show the truth",
        fails="when annotators err on items whose features are alike: the network then learns their errors",
        cost="labels x K, and a network step for each batch of items, an epoch an iteration",
        uses=("features", "history"),
        sharded=True,
    )

    def __post_init__(self) -> None:
        cp.check_settings(self)
        crowd = f"crowd_prior_strength={self.crowd_prior_strength}"
        if self.crowd_prior_strength and self._published:
            raise MethodError(f"prior='published' and {crowd} are two priors; leave one out")
        if self.crowd_prior_strength and self._own_rows:
            raise MethodError(
                f"prior_strength={self.prior_strength} and prior_accuracy={self.prior_accuracy} have no effect "
                f"beside {crowd}; leave them or it out"
            )

    @property
    def _published(self) -> bool:
        return self.prior == "published"

    @property
    def _own_rows(self) -> bool:
        return (self.prior_strength, self.prior_accuracy) != (BayesDgc.prior_strength, BayesDgc.prior_accuracy)

    @property
    def _prevalence(self) -> tuple[Literal["learned", "uniform"], float | None]:
        """Kind and pseudo-counts of a class."""
        if self._published:
            return self.prevalence or "learned", self.prevalence_strength or PUBLISHED_PREVALENCE
        return self.prevalence or "uniform", self.prevalence_strength

    def setup(self, data: Annotations) -> BayesDgc:
        """A copy with a network for these features, the recipe's settings and the prevalence's strength."""
        found: dict[str, Any] = {"training": dict(self.training)}
        if self.recipe == "default" and data.features is not None:
            found = crowdppl.default_recipe(data, training=self.training)
            if self._published or self._own_rows:
                found["crowd_prior_strength"] = 0.0
        given = {"crowd_prior_strength": self.crowd_prior_strength, "likelihood_power": self.likelihood_power}
        found |= {name: value for name, value in given.items() if value is not None}
        found["prevalence_strength"] = self._prevalence[1] or cp.default_prevalence(data)
        return replace(self, network=networks.prepared(self.network, data, found["training"]), **found)

    def model(self, data: cp.Block) -> None:
        """Draws prevalence, confusions, truths and labels."""
        kind, strength = self._prevalence
        log_p = cp.prevalence(data, kind, strength)
        if self.network is not None:
            log_p = log_p + networks.class_logits(data, self.network)
        prior = self._rows(data)
        with cp.plates.annotators(data):
            confusion = pyro.sample("confusion", dist.Dirichlet(prior).to_event(1))
        table = cp.with_abstentions(data, confusion.log())
        power = 1.0 if self.likelihood_power is None else self.likelihood_power
        with cp.plates.items(data):
            cp.annotate(data, table, cp.truth(data, log_p), power=power)

    guide = crowdppl.mean_field

    def _rows(self, data: cp.Block) -> Tensor:
        """Concentrations of the confusion rows, with the history."""
        own, k = cp.confusion_prior(data, self.prior_strength, self.prior_accuracy), data.n_classes
        if self._published:
            other = cp.diagonal_prior(k, 3.0 + 2.0 * k, 5.0 / (3.0 + 2.0 * k))
        elif self.crowd_prior_strength:
            other = cp.crowd_rows(data, self.crowd_prior_strength)
        else:
            return own
        return own - cp.diagonal_prior(k, self.prior_strength, self.prior_accuracy).to(own) + other
