"""One coin: each annotator is right with a probability of their own, and errs evenly.

    prevalence    = 1 / K, or ~ Dirichlet(1)                                (K)
    ability[a]    ~ Dirichlet(right, wrong)                                 (A, 2)
    truth[i]      ~ Categorical(prevalence)                                 (N)
    label[i, a]   = truth[i] with probability ability[a, 0], else any other class evenly

With a taxonomy, classes are the leaves of a tree, and annotators have a coin for each of its J levels:

    ability[a, j]  ~ Dirichlet(right, wrong)                                (A, J, 2)
    label[i, a]    is reached from the root: at level j the branch of truth[i] with probability ability[a, j, 0],
                     else any other; once astray, any branch; where a node has one branch, that

History adds an annotator's earlier right and wrong labels to the prior.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor

import crowdppl.primitives as cp
from crowdppl import mean_field


@dataclass(frozen=True)
class OneCoin:
    """One accuracy for each annotator.

    Args:
        prevalence: "uniform" or "learned".
        right, wrong: pseudo-counts of right and wrong labels. They are flat by default, so that em is maximum
            likelihood; with few labels, right=4 and wrong=2 keep the majority on the right side.
        taxonomy: the parent of each class, and of each parent that has one, {"lemon": "fruit", "orange": "fruit"}:
            errors then stay near the truth or go far. What it does not name hangs from the root.
    """

    prevalence: Literal["uniform", "learned"] = "uniform"
    right: cp.Positive = 1.0
    wrong: cp.Positive = 1.0
    taxonomy: Mapping[Any, Any] | Sequence[Sequence[int]] | None = None

    card: ClassVar[cp.Card] = cp.Card(
        title="One coin",
        reference="Zhang et al. (2016), Spectral methods meet EM, JMLR 17(102); coin as in Dawid & Skene (1979)",
        sites={"prevalence": "K", "ability": "A 2", "abstention": "A D W", "truth": "N"},
        prevalence="prevalence",
        assumes="an annotator is equally accurate on all classes and items, and errs evenly",
        fails="when annotators favour certain confusions, or confuse some classes more than others: "
        "it takes bias for lack of skill",
        cost="labels x K",
        uses=("history",),
        sharded=True,
    )

    def __post_init__(self) -> None:
        cp.check_settings(self)
        if self.taxonomy is not None:
            sites = {**self.card.sites, "ability": "A J 2"}
            object.__setattr__(self, "card", replace(self.card, sites=sites))

    def setup(self, data: Any) -> OneCoin:
        """A copy whose taxonomy is the number of each class's node, level by level."""
        return self if self.taxonomy is None else replace(self, taxonomy=cp.tree_levels(self.taxonomy, data))

    def model(self, data: cp.Block) -> None:
        """Draws accuracies, truths and labels."""
        log_p = cp.prevalence(data, self.prevalence)
        if self.taxonomy is None:
            with cp.plates.annotators(data):
                ability = pyro.sample("ability", dist.Dirichlet(cp.coin_prior(data, self.right, self.wrong)))
            right, errors = ability.log().split(1, -1)
            coins = cp.Coins(right, errors - math.log(data.n_classes - 1))
        else:
            levels = cp.tree_levels(self.taxonomy, data)
            with cp.plates.annotators(data):
                ability = pyro.sample("ability", dist.Dirichlet(self._prior(data, levels)).to_event(1))
            coins = cp.tree_coins(data, ability.log(), levels)
        labels = cp.with_abstentions(data, coins)
        with cp.plates.items(data):
            cp.annotate(data, labels, cp.truth(data, log_p, labels=labels))

    def _prior(self, data: cp.Block, levels: list[list[int]]) -> Tensor:
        """Concentrations (J, 2) of coins at each level, (A, J, 2) with history."""
        prior = torch.tensor([self.right, self.wrong], device=data.device).repeat(len(levels) + 1, 1)
        return prior if data.history is None else prior + cp.tree_counts(data.history, levels).to(prior)

    guide = mean_field
