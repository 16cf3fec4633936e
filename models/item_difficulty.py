"""Item difficulty: a hierarchical logistic model, in which difficult items blur everybody's confusion.

    prevalence      ~ Dirichlet(1), or = 1 / K                              (K)
    crowd[k]        ~ Normal(right_logit on k, else 0; 1)                   (K, K)   logits
    spread          ~ LogNormal(log typical, looseness)                     ()       of annotators
    logits[a, k]    ~ Normal(crowd[k], spread)                              (A, K, K)
    hardness        ~ LogNormal(log typical, looseness)                     ()       spread of items
    difficulty[i]   ~ Normal(0, hardness)                                   (N)      on a log scale
    truth[i]        ~ Categorical(prevalence)                               (N)
    label[i, a]     ~ Categorical(softmax(logits[a, truth[i]] * exp(-difficulty[i])))

Easy items sharpen a confusion, hard ones flatten it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import pyro
import pyro.distributions as dist
import torch

import crowdppl.primitives as cp
from crowdppl import mean_field


@dataclass(frozen=True)
class ItemDifficulty:
    """Confusions on the scale of logits, sharper on easy items and flatter on hard ones.

    Args:
        prevalence: "learned" or "uniform".
        right_logit: mean of the crowd's logit of a right label; that of wrong ones is 0.
        typical: median of both learned spreads, that of annotators' logits and that of log-difficulties.
        looseness: standard deviation of the logarithms of these spreads.
    """

    prevalence: Literal["learned", "uniform"] = "learned"
    right_logit: float = 2.0
    typical: cp.Positive = 0.5
    looseness: cp.Positive = 0.5

    card: ClassVar[cp.Card] = cp.Card(
        title="Item difficulty",
        reference="Paun et al. (2018), Comparing Bayesian models of annotation, TACL 6 (logistic random effects)",
        doi="10.1162/tacl_a_00040",
        sites={"prevalence": "K", "crowd": "K K", "spread": "", "logits": "A K K", "hardness": ""}
        | {"difficulty": "N", "abstention": "A D W", "truth": "N"},
        prevalence="prevalence",
        assumes="an item is hard for all annotators alike; hard items flatten confusions and keep their shape",
        fails="with few labels per item: difficulty and error cannot be told apart",
        cost="labels x K x K (x 8 draws under vb), a gradient step for each item; for at most about 10 classes",
    )

    def model(self, data: cp.Block) -> None:
        """Draws spreads, logits, difficulties, truths and labels."""
        k, typical = data.n_classes, math.log(self.typical)
        log_p = cp.prevalence(data, self.prevalence)
        crowd = pyro.sample("crowd", dist.Normal(self.right_logit * torch.eye(k), 1.0).to_event(2))
        spread = pyro.sample("spread", dist.LogNormal(typical, self.looseness))
        hardness = pyro.sample("hardness", dist.LogNormal(typical, self.looseness))
        with cp.plates.annotators(data):
            logits = pyro.sample("logits", dist.Normal(crowd, spread[..., None, None]).to_event(2))
        items = cp.plates.items(data)
        with items:
            difficulty = pyro.sample("difficulty", dist.Normal(0.0, hardness))
        table = cp.with_abstentions(data, cp.sharpened(data, logits, (-difficulty).exp()))
        with items:
            cp.annotate(data, table, cp.truth(data, log_p))

    guide = mean_field
