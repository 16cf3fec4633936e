"""Reward model: the skill of an object is learned from its features, by annotators who compare it with others.

    skill[o]        = exp(network(features[o]))                             (O)
    looks           ~ Dirichlet(1, 1)                                       (2), with ties
    reliability[a]  ~ Dirichlet(right, wrong)                               (A, 2)
    truth[i]        ~ Categorical(left: skill[left[i]] : skill[right[i]])   (N)
    own[i, a]       ~ the same, each anew, and is summed out
    label[i, a]     = own[i, a] with probability reliability[a, 0], else any other class evenly

An item is a comparison of two objects, ``kind="pair"``. ``features=`` is a table by object, or an array of pairs
(N, 2, ...). ``posterior.ranking(features=...)`` scores new objects. The left side's advantage is a weight of the
network. Without features the method is crowd_bt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pyro
import pyro.distributions as dist
import torch
from torch import nn

import crowdppl.primitives as cp
from crowdppl import Annotations, mean_field, networks

PLAIN = {"mixup": 0.0, "balance": 0.0, "volume": 0.0, "networks": 1}
"""What the default recipe for classifiers adds, and a network of one number has no use for."""


@dataclass(frozen=True)
class RewardModel:
    """A network that scores objects, learned from comparisons by annotators of different reliability.

    Args:
        network: maps the features of an object to one number, its log-skill; by default one hidden layer.
            ``torch.nn.Linear(D, 1)`` is a logistic regression on differences of features. The fit trains a copy.
        training: settings of ``crowdppl.networks.training.Training`` by name, such as ``{"epochs": 60}``, or
            ``{"full_batch": True}`` for a linear network, which batches move slowly.
        right, wrong: pseudo-counts of right and wrong answers, as of ``crowd_bt``.
        position_bias: whether the left side may have an advantage; without features, gibbs refuses it.
        spread: standard deviation of log-skills where there are no features, as of ``crowd_bt``.
    """

    network: nn.Module | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    right: cp.Positive = 4.0
    wrong: cp.Positive = 2.0
    position_bias: bool = False
    spread: cp.Positive | None = None

    card: ClassVar[cp.Card] = cp.Card(
        title="Reward model",
        reference="Christiano et al. (2017), Deep reinforcement learning from human preferences, NeurIPS; Chen et "
        "al. (2013), Pairwise ranking aggregation in a crowdsourced setting, WSDM, for the annotators",
        sites={
            "skill": "O",
            "looks": "2",
            "advantage": "",
            "reliability": "A 2",
            "abstention": "A D W",
            "truth": "N",
        },
        kind="pair",
        assumes="the features show how good an object is, and an annotator is equally reliable on all pairs",
        fails="when skills are not in the features, or the network is large for the pairs: it learns the errors",
        cost="pairs and labels, and a network step for each batch of pairs, an epoch an iteration",
        uses=("features", "item_covariates", "history"),
    )

    def setup(self, data: Annotations) -> RewardModel:
        """A copy with a network for these features, and steps and learning rate of the default recipe."""
        if self.network is None and data.features is None:
            spread = self.spread or cp.learned_spread(data, (self.right, self.wrong))
            return replace(self, spread=spread)
        training = networks.default_training(data, **{**PLAIN, **self.training})
        found = networks.prepared_rewards(self.network, data, training, position_bias=self.position_bias)
        if not training.get("full_batch"):
            training.setdefault("warm_up", training["epochs"] // 4)  # else a slow network may settle on the mirror
        return replace(self, network=found, training=training)

    def model(self, data: cp.Block) -> None:
        """Draws skills without features, reliabilities, preferences and labels."""
        rewards = networks.network_output(data, self.network)
        if rewards is None and self.network is not None:
            rewards = torch.zeros(data.n_items, 2)
        log_p = cp.preferences(data, self.spread, self.position_bias, rewards=rewards)
        with cp.plates.annotators(data):
            coin = cp.coin_prior(data, self.right, self.wrong)
            reliability = pyro.sample("reliability", dist.Dirichlet(coin)).log()
        table = cp.coin_table(reliability.unsqueeze(-2), data.n_classes)
        cp.annotate_each(data, log_p, cp.with_abstentions(data, table))

    guide = mean_field
