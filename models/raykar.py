"""Raykar: a classifier as the prior of the truth, and each annotator's confusion matrix, by maximum likelihood.

    confusion[a, k]   (no prior), or around the crowd's rows, which are learned    (A, K, K)
    truth[i]          ~ Categorical(network(features[i]))                          (N)
    label[i, a]       ~ Categorical(confusion[a, truth[i]])

Without features the truth has a learned prevalence instead, and the method is dawid_skene.

In model-bootstrapped EM the truth has a prevalence as well. It and the confusions are counted as if the class that
the network predicts were the truth; the network learns the truth that follows from these counts and the labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor, nn

import crowdppl.primitives as cp
from crowdppl import Annotations, mean_field, networks

REASON = "maximum likelihood has no prior, hence no posterior of parameters; take bayes_dgc"


@dataclass(frozen=True)
class Raykar:
    """Maximum likelihood for annotators and a classifier together.

    Args:
        network: maps features to K logits; by default one hidden layer. ``torch.nn.Linear(D, K)`` is Raykar's own,
            and with convolutions it is AggNet. em also takes a classifier of scikit-learn, or one with its methods
            (``crowdppl.networks.SklearnClassifier``). The fit trains a copy.
        training: settings of ``crowdppl.networks.training.Training`` by name, such as ``{"epochs": 60}``.
        bootstrapped: model-bootstrapped EM (Khetan, Lipton & Anandkumar 2018, "Learning from noisy singly-labeled
            data"), for few labels per item; the probabilities of the truth are then those of labels alone. As
            published, a network that learned the votes comes first: it does for half of the epochs (``warm_up``).
        likelihood_power: power of the labels' likelihood; below 1, an item's labels count for less.
        crowd_prior_strength: pseudo-counts of a confusion row that follow the crowd's row, which is learned by svi;
            0 has no crowd.
    """

    network: nn.Module | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    bootstrapped: bool = False
    likelihood_power: cp.Positive = 1.0
    crowd_prior_strength: cp.NotNegative = 0.0

    card: ClassVar[cp.Card] = cp.Card(
        title="Raykar",
        reference="Raykar et al. (2010), Learning from crowds, JMLR 11",
        sites={"prevalence": "K", "crowd": "K K", "confusion": "A K K", "abstention": "A D W", "truth": "N"},
        confusion="confusion",
        prevalence="prevalence",
        assumes="annotators err independently given the truth, and the features show the truth",
        fails="with few labels per annotator: rows without a prior become 0 and 1, and the network follows",
        cost="labels x K, and a network step for each batch of items, an epoch an iteration",
        only=("em", "svi"),
        because=REASON,
        uses=("features",),
        sharded=True,
    )

    def __post_init__(self) -> None:
        cp.check_settings(self)
        if self.crowd_prior_strength:
            refused = {"em": "em learns no prior, which a crowd's rows are; svi does"}
            object.__setattr__(self, "card", replace(self.card, refused=refused))

    def setup(self, data: Annotations) -> Raykar:
        """A copy with a network for these features."""
        training = self.training
        if self.bootstrapped:  # a network that is wrong at first would be believed
            training = {"warm_up": networks.training.training_of(training).epochs // 2, **training}
        return replace(self, network=networks.prepared(self.network, data, training), training=training)

    def model(self, data: cp.Block) -> None:
        """Draws confusions, truths and labels."""
        alone = self.bootstrapped or self.network is None
        self._labels(data, cp.prevalence(data) if alone else networks.class_logits(data, self.network))

    @property
    def counting(self) -> Callable[[cp.Block], None] | None:
        """The program by which parameters are counted, where it is not ``model``."""
        return self._as_predicted if self.bootstrapped and self.network is not None else None

    def _as_predicted(self, data: cp.Block) -> None:
        """Draws what ``model`` draws, with the predicted class as the truth."""
        x = networks.class_logits(data, self.network)
        likely = torch.where(x == x.amax(-1, keepdim=True), 0.0, -30.0)  # all alike while the network warms up
        self._labels(data, cp.prevalence(data) + likely)

    def _labels(self, data: cp.Block, log_p: Tensor) -> None:
        """Draws confusions, truths and labels, given log-probabilities of the truth."""
        rows = torch.ones(data.n_classes, data.n_classes) + cp.crowd_rows(data, self.crowd_prior_strength)
        with cp.plates.annotators(data):
            confusion = pyro.sample("confusion", dist.Dirichlet(rows).to_event(1))
        table = cp.with_abstentions(data, confusion.log())
        with cp.plates.items(data):
            cp.annotate(data, table, cp.truth(data, log_p), power=self.likelihood_power)

    guide = mean_field
