"""Ordinal Bradley-Terry: answers say by how much one object is better, by grades that are cut from a logistic.

    skill[o]        ~ LogNormal(0, spread)                                  (O)
    gap[m]          ~ LogNormal(0, 1)                                       (M), from one grade to the next
    advantage       ~ Normal(0, 1)                                          of the left side, if wanted
    lead[i]         = log skill[left[i]] - log skill[right[i]] + advantage
    at_least[i, m]  = logistic(lead[i] - gap[1] - ... - gap[m])             the left one by m grades or more
    truth[i]        ~ Categorical(differences of at_least, both ways)       (N)
    label[i, a]     ~ the same, each anew

Annotators do not differ. An item is a comparison of two objects, ``kind="pair"``, and its truth what one more
answer would be. Without ties the first grade needs no gap; of two answers, left and right, it is ``bradley_terry``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import pyro
import pyro.distributions as dist
import torch
from torch.nn.functional import logsigmoid

import crowdppl.primitives as cp
from crowdppl import Annotations, mean_field


@dataclass(frozen=True)
class OrdinalBradleyTerry:
    """Skills of objects that are compared two by two, with answers that say by how much.

    Args:
        spread: standard deviation of log-skills, by default what the answers tell of it.
        position_bias: whether the left side may have an advantage.
    """

    spread: cp.Positive | None = None
    position_bias: bool = False

    card: ClassVar[cp.Card] = cp.Card(
        title="Ordinal Bradley-Terry",
        reference="Agresti (1992), Analysis of ordinal paired comparison data, Applied Statistics 41(2)",
        doi="10.2307/2347562",
        sites={"skill": "O", "gap": "M", "advantage": "", "abstention": "A D W", "truth": "N"},
        kind="pair",
        assumes="objects lie on one scale, and all annotators mean the same by a grade",
        fails="when some annotators keep to the ends of the scale, or answer at random: skills are drawn together",
        cost="pairs and labels, and a gradient step for each object",
        uses=("item_covariates",),
        sharded=True,
    )

    def setup(self, data: Annotations) -> OrdinalBradleyTerry:
        """A copy with the spread of skills that the answers tell of."""
        return replace(self, spread=self.spread or cp.learned_spread(data, graded=True))

    def model(self, data: cp.Block) -> None:
        """Draws skills, gaps, preferences and labels."""
        spread = cp.learned_spread(data, graded=True) if self.spread is None else float(self.spread)
        with cp.plates.groups(data, "left", "right"):
            skill = pyro.sample("skill", dist.LogNormal(0.0, torch.tensor(spread)))
        log_each = skill.log()[..., cp.item_groups(data, "left", "right")]
        lead = log_each[..., :1] - log_each[..., 1:]  # (..., N, 1)
        if self.position_bias:
            lead = lead + pyro.sample("advantage", dist.Normal(0.0, 1.0)).unsqueeze(-1)
        ties, grades = data.n_classes % 2, data.n_classes // 2
        cut = torch.zeros(1)
        if gaps := grades - 1 + ties:
            gap = pyro.sample("gap", dist.LogNormal(torch.zeros(gaps), 1.0).to_event(1))
            cut = gap.cumsum(-1)  # (..., grades), or one fewer
            cut = cut if ties else torch.cat([torch.zeros_like(cut[..., :1]), cut], -1)
        sides = torch.stack([_graded(lead, cut), _graded(-lead, cut)], -1).flatten(-2)
        if ties:
            tie = _between(lead, -cut[..., :1], cut[..., :1])
            sides = torch.cat([sides[..., :2], tie, sides[..., 2:]], -1)
        never_err = torch.eye(data.n_classes).log().expand(data.n_annotators, -1, -1)
        cp.annotate_each(data, sides, cp.with_abstentions(data, never_err))

    guide = mean_field


def _graded(lead: torch.Tensor, cut: torch.Tensor) -> torch.Tensor:
    """Log-probabilities (..., N, grades) that a side is better by so many grades; its lead is (..., N, 1)."""
    inner = _between(lead, cut[..., :-1], cut[..., 1:])
    return torch.cat([inner, logsigmoid(lead - cut[..., -1:])], -1)


def _between(lead: torch.Tensor, low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
    """Log of ``logistic(lead - low) - logistic(lead - high)``, of which nothing cancels."""
    return logsigmoid(lead - low) + logsigmoid(high - lead) + torch.log(-torch.expm1(low - high))
