"""Rankings of objects by stages: one is chosen first, then one of the rest, and so on."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from crowdppl.data.blocks import Block
from crowdppl.data.rankings import OF_RANKS
from crowdppl.primitives.labels import NumberLabels
from crowdppl.primitives.likelihood import item_groups
from crowdppl.primitives.sums import in_closed_form, logsumexp, neg_log

POINTS = 24
"""Of Gauss's quadrature of the variance of ranks."""


class RankedLabels(NumberLabels):
    """Ranks, of which those that an annotator gave to objects of one problem are a ranking.

    An annotator who is reliable on a ranking chooses one object in proportion to worths, then one of the rest, and
    so on (Plackett-Luce); else all orders are as likely. Of objects that are tied, each order may be what was
    meant, and a ranking of some objects says nothing of others. A truth is the rank that one more reliable ranking,
    of all objects of the problem, would give.

    Args:
        block: who ranked what.
        log_worth, worth: of each object, (..., O), expected or drawn.
        reliability: log-probabilities of being reliable and of not being, (..., A, 2).
        worst_first: whether the worst object is chosen first, and worths say how bad objects are.
    """

    positive = True
    linked = True

    def __init__(
        self, block: Block, log_worth: Tensor, worth: Tensor, reliability: Tensor, worst_first: bool = False
    ) -> None:
        super().__init__(block)
        self.log_worth, self.worth, self.reliability = log_worth, worth, reliability
        self.sign, self.object = -1 if worst_first else 1, item_groups(block, OF_RANKS[1])
        if block.has_labels:
            self.states = max((each.labels.shape[1] for each in block.rankings.orders(self.sign)), default=1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-probability of each ranking, of which each of its labels brings its item an even part: (..., N)."""
        rankings = self.block.rankings
        rankings = rankings if value is rankings.ranks else replace(rankings, ranks=value)
        known, ranking = [], []
        for each in rankings.orders(self.sign):
            n_orders, size = each.labels.shape[1:]
            at = self.object[self.block.item[each.labels]]
            left = self.worth[..., at].flip(-1).cumsum(-1).flip(-1)[..., : each.stages]
            skilled = (self.log_worth[..., at[..., : each.stages]] + neg_log(left)).sum(-1)  # (..., r, W)
            evenly = math.log(n_orders) - sum(math.log(size - n) for n in range(each.stages))
            coin = self.reliability[..., rankings.annotator[each.ranking], :]
            terms = torch.cat([coin[..., :1] + skilled, coin[..., 1:] + evenly], -1)
            known.append(logsumexp(terms))
            ranking.append(each.ranking)
        lead = self.batch_shape[:-1] if not known else known[0].shape[:-1]
        nothing = self.worth.new_zeros((*lead, len(rankings.sizes) - sum(map(len, ranking))))
        every = torch.cat([*known, nothing], -1)
        place = torch.full_like(rankings.sizes, every.shape[-1] - 1)
        if ranking:
            place[torch.cat(ranking)] = torch.arange(sum(map(len, ranking)), device=place.device)
        part = every[..., place] / rankings.sizes
        return self.block.sum_by_item(part[..., rankings.of_label]) + in_closed_form(self.truth, self._moments)

    def _moments(self) -> Tensor:
        """Mean, and mean of squares, of the rank of each item in one more ranking of its problem: (2, ..., N)."""
        log_worth = self.log_worth[..., self.object]
        problem = item_groups(self.block, OF_RANKS[0])
        out = log_worth.new_empty((2, *log_worth.shape))
        by_problem, sizes = problem.argsort(), problem.bincount()
        first = sizes.cumsum(0) - sizes
        u, share = (torch.from_numpy(x).to(log_worth) for x in np.polynomial.legendre.leggauss(POINTS))
        u, share = (u + 1) / 2, share / 2
        for size in sizes[sizes > 0].unique().tolist():
            at = by_problem[first[sizes == size].unsqueeze(-1) + torch.arange(size, device=first.device)]
            own = log_worth[..., at]
            odds = (own.unsqueeze(-2) - own.unsqueeze(-1)).exp()  # [own, other]: that the other is earlier
            mean = (odds / (1 + odds)).sum(-1) - 0.5
            # Given that the own one is chosen at the quantile u of its time, others were before it independently,
            # each with probability 1 - u**odds; the own one counts for nothing.
            early = [1 - x**odds for x in u]
            count = torch.stack([p.sum(-1) - (1 - x) for p, x in zip(early, u, strict=True)], -1)
            spread = torch.stack([(p * (1 - p)).sum(-1) - x * (1 - x) for p, x in zip(early, u, strict=True)], -1)
            variance = ((spread + count.square()) * share).sum(-1) - (count * share).sum(-1).square()
            rank = 1 + mean if self.sign > 0 else size - mean
            out[..., at] = torch.stack([rank, variance.clamp(min=0) + rank.square()])
        return out

    def draw(self) -> tuple[Tensor, Tensor]:
        """The ranks (N,) of one more reliable ranking of each problem, and labels (S,)."""
        rankings, worth = self.block.rankings, self.worth.reshape(-1)[self.object]
        reliable = torch.rand(len(rankings.sizes)) < self.reliability.reshape(-1, 2)[rankings.annotator, 0].exp()
        rate = torch.where(reliable[rankings.of_label], worth[self.block.item], 1.0)
        truth = self._ranks(item_groups(self.block, OF_RANKS[0]), worth)
        return truth, self._ranks(rankings.of_label, rate)

    def _ranks(self, group: Tensor, rate: Tensor) -> Tensor:
        """Ranks (n,), from 1 in each group, of a race in which each needs an exponential time of its rate."""
        time = self.sign * torch.empty_like(rate).exponential_() / rate
        order = time.argsort()
        order = order[group[order].argsort(stable=True)]
        sizes = group.bincount()
        out = torch.empty_like(rate)
        out[order] = (torch.arange(len(group)) - (sizes.cumsum(0) - sizes)[group[order]] + 1).to(rate)
        return out
