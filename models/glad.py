"""GLAD: whether a label is right depends on the annotator's ability and on the item's difficulty.

    prevalence      = 1 / K, or ~ Dirichlet(1)                              (K)
    ability[a]      ~ Normal(mean, spread)                                  (A)
    difficulty[i]   ~ Normal(0, difficulty_spread)                          (N)   on a log scale
    truth[i]        ~ Categorical(prevalence)                               (N)
    label[i, a]     = truth[i] with probability sigmoid(ability[a] * exp(-difficulty[i])),
                      else any other class evenly

Labels of a very difficult item are right half the time, whatever K.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import pyro
import pyro.distributions as dist
from torch.nn.functional import logsigmoid

import crowdppl.primitives as cp
from crowdppl import mean_field


@dataclass(frozen=True)
class Glad:
    """Ability of annotators times easiness of items, for any number of classes.

    Args:
        prevalence: "uniform" or "learned".
        mean, spread: of annotators' abilities, on the scale of log-odds; a negative ability misleads.
        difficulty_spread: standard deviation of log-difficulties.
    """

    prevalence: Literal["uniform", "learned"] = "uniform"
    mean: float = 1.0
    spread: cp.Positive = 1.0
    difficulty_spread: cp.Positive = 1.0

    card: ClassVar[cp.Card] = cp.Card(
        title="GLAD",
        reference="Whitehill et al. (2009), Whose vote should count more, NIPS 22",
        sites={"prevalence": "K", "ability": "A", "difficulty": "N", "abstention": "A D W", "truth": "N"},
        prevalence="prevalence",
        assumes="an item is hard for all annotators alike, classes are alike, and errors are even",
        fails="when some confusions are more common than others; with many classes, because labels of hard items "
        "are still right half the time, which is better than chance",
        cost="labels (x 8 draws under vb), whatever K; a gradient step for each item",
    )

    def model(self, data: cp.Block) -> None:
        """Draws abilities, difficulties, truths and labels."""
        log_p = cp.prevalence(data, self.prevalence)
        with cp.plates.annotators(data):
            ability = pyro.sample("ability", dist.Normal(self.mean, self.spread))
        items = cp.plates.items(data)
        with items:
            difficulty = pyro.sample("difficulty", dist.Normal(0.0, self.difficulty_spread))
        odds = data.of_annotator(ability) * data.of_item((-difficulty).exp())
        coin = cp.with_abstentions(data, cp.Coin(logsigmoid(odds), logsigmoid(-odds)))
        with items:
            cp.annotate(data, coin, cp.truth(data, log_p, labels=coin))

    guide = mean_field
