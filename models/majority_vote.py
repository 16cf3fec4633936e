"""Majority vote as a model: everybody is right equally often, so that the class with most votes wins.

    prevalence    = 1 / K, or ~ Dirichlet(1)                                (K)
    ability       ~ Dirichlet(right, wrong)                                 (2)
    truth[i]      ~ Categorical(prevalence)                                 (N)
    label[i, a]   = truth[i] with probability ability[0], else any other class evenly

An item's posterior depends on its vote counts alone; tied classes have equal probabilities. Abstentions carry no
information on the truth. A network, where one is given, learns these probabilities and does not influence them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import pyro
import pyro.distributions as dist
import torch
from torch import nn

import crowdppl.primitives as cp
from crowdppl import Annotations, mean_field, networks


@dataclass(frozen=True)
class MajorityVote:
    """One accuracy, shared by all annotators and classes.

    Args:
        prevalence: "uniform", so that the class with most votes wins, or "learned".
        right, wrong: pseudo-counts of right and wrong labels; they keep the majority on the right side.
        network: maps features to K logits, or "default" for one hidden layer. Under em and vb it learns what the
            votes say, and serves ``posterior.classify``. The fit trains a copy.
        training: settings of ``crowdppl.networks.training.Training`` by name, such as ``{"epochs": 60}``.
    """

    prevalence: Literal["uniform", "learned"] = "uniform"
    right: cp.Positive = 2.0
    wrong: cp.Positive = 1.0
    network: nn.Module | Literal["default"] | None = None
    training: Mapping[str, Any] = field(default_factory=dict)

    card: ClassVar[cp.Card] = cp.Card(
        title="Majority vote",
        reference="Condorcet (1785), Essai sur l'application de l'analyse a la probabilite des decisions",
        sites={"prevalence": "K", "ability": "2", "abstention": "A 1 W", "truth": "N"},
        prevalence="prevalence",
        assumes="all annotators are equally accurate on all items and classes, and err independently and evenly",
        fails="as soon as annotators differ: many careless ones outvote few careful ones",
        cost="the labels, whatever K",
        sharded=True,
    )

    def setup(self, data: Annotations) -> MajorityVote:
        """A copy with a network for these features, where one is wanted."""
        if self.network is None:
            return self
        own = None if self.network == "default" else self.network
        return replace(self, network=networks.prepared(own, data, self.training))

    def model(self, data: cp.Block) -> None:
        """Draws the accuracy, the truths and the labels."""
        log_p = cp.prevalence(data, self.prevalence)
        ability = pyro.sample("ability", dist.Dirichlet(torch.tensor([float(self.right), float(self.wrong)])))
        log_coin = ability.log()
        # Label by label, not as a table: then tied classes get the same number to the last bit.
        right, wrong = (log_coin[..., j].expand(*log_coin.shape[:-2], data.n_labels) for j in (0, 1))
        coin = cp.with_abstentions(data, cp.Coin(right, wrong), n_states=1)
        with cp.plates.items(data):
            cp.annotate(data, coin, cp.truth(data, log_p, labels=coin))

    guide = mean_field
