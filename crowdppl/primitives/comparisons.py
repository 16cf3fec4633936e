"""Comparisons and rankings of objects: skills, worths, what is preferred given them, and a truth for each label."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pyro
import pyro.distributions as dist
import torch
from torch import Tensor

from crowdppl.data.blocks import Block
from crowdppl.data.kinds.comparisons import TIE
from crowdppl.data.kinds.parts import SIDES
from crowdppl.data.kinds.rankings import OF_RANKS, Rankings
from crowdppl.errors import DataError
from crowdppl.primitives import plates
from crowdppl.primitives.labels import NumberLabels, OwnTruthLabels
from crowdppl.primitives.likelihood import item_groups, truth
from crowdppl.primitives.plates import Data, block_of
from crowdppl.primitives.skills import learned_spread
from crowdppl.primitives.statistics import natural
from crowdppl.primitives.sums import counted, in_closed_form, logsumexp, neg_log

PREFERRED = "what is preferred"
"""Name of what each comparison counts: how often either side is preferred, ties as once each."""
POINTS = 24
"""Of Gauss's quadrature of the variance of ranks."""


def preferences(
    data: Data,
    spread: float | None = None,
    position_bias: bool = False,
    *,
    groups: int | None = None,
    rewards: Tensor | None = None,
) -> Tensor:
    """Draws the skill of each object, and says how probable it is that the left or the right one is preferred.

    The left one is, with probability ``skill[left] / (skill[left] + skill[right])`` (Bradley & Terry 1952,
    doi:10.1093/biomet/39.3-4.324). Skills are the site ``skill``, log-normals, for which ``em`` is
    Hunter's MM and ``gibbs`` the sampler of Caron & Doucet (2012, doi:10.1080/10618600.2012.638220). Their unit has
    no meaning.

    With a third class, ties: whoever compares looks once or, with probability ``looks[1]``, twice, and calls it a
    tie where the two looks differ. A tie then tells that the two are near, and all stays linear in the skills. Who
    always looks twice answers by the model of Davidson (1970, doi:10.1080/01621459.1970.10481082) with ``nu = 2``.

    With ``position_bias``, the odds of the left one are multiplied by ``exp(advantage)``, whoever stands there.

    Args:
        data: the model's argument: the item covariates ``left`` and ``right`` name the objects.
        spread: standard deviation of log-skills; None for that which the answers tell of (``learned_spread``).
        position_bias: whether the left side may have an advantage.
        groups: G, for so many skills of each object; None for one.
        rewards: log-skills (..., N, 2) of left and right that a network gives, in place of all other settings.

    Returns:
        Log-probabilities (..., N, K), or (..., N, G, K), of left, right and perhaps tie, up to a constant in a pass
        of ``vb``.

    Raises:
        DataError: when the data compare nothing.

    Examples:
        >>> import pyro
        >>> data = crowdppl.datasets.example("pair")
        >>> with pyro.poutine.seed(rng_seed=0):
        ...     log_p = crowdppl.primitives.preferences(data, spread=1.0)
        >>> log_p.shape, bool(log_p.exp().sum(-1).allclose(log_p.new_ones(10)))
        (torch.Size([10, 2]), True)
    """
    block = block_of(data)
    if block.n_classes not in (len(SIDES), len((*SIDES, TIE))):
        raise DataError(
            f"the model compares two objects, and these labels are of {block.n_classes} classes; read comparisons "
            'by kind="pair", whose labels are left, right or tie, and of strengths take "ordinal_bradley_terry"'
        )
    if rewards is not None:
        return _with_ties(block, counted(rewards.log_softmax(-1), PREFERRED), None)
    prior = dist.LogNormal(0.0, torch.tensor(learned_spread(data) if spread is None else float(spread)))
    with plates.groups(data, *SIDES):
        wide = prior if groups is None else prior.expand([groups]).to_event(1)
        skills = natural("skill", wide, ratios=True)
    pair = item_groups(data, *SIDES)
    if groups is None:
        log_each, each = (x[..., pair] for x in skills)  # (..., N, 2)
    else:
        log_each, each = (x[..., pair, :].transpose(-1, -2) for x in skills)  # (..., N, G, 2)
    if position_bias:
        advantage = _of_groups(pyro.sample("advantage", dist.Normal(0.0, 1.0)), groups)
        sides = torch.stack([advantage, torch.zeros_like(advantage)], -1)
        log_each, each = log_each + sides, each * sides.exp()
    return _with_ties(block, log_each + neg_log(each.sum(-1)).unsqueeze(-1), groups)


def _with_ties(block: Block, once: Tensor, groups: int | None) -> Tensor:
    """Log-probabilities of left, right and perhaps tie, from those of left and right in one look."""
    if block.n_classes == len(SIDES):
        return once
    looks: Tensor = pyro.sample("looks", dist.Dirichlet(torch.ones(2)))
    one, two = (_of_groups(x, groups).unsqueeze(-1) for x in looks.log().unbind(-1))
    won = logsumexp(torch.stack([once + one, 2 * once + two], -1))
    return torch.cat([won, once.sum(-1, keepdim=True) + two + math.log(2)], -1)


def _of_groups(x: Tensor, groups: int | None) -> Tensor:
    """Values (..., 1) of all items, of which groups have the same."""
    return x if groups is None else x.unsqueeze(-1)


def annotate_each(
    data: Data, log_p: Tensor, table: Tensor, *, groups: tuple[Tensor, Tensor] | None = None
) -> Tensor:
    """Draws labels that have a truth each, as where the annotators' own preferences are asked for.

    An item's truth is that of one more label: it is drawn beside them, and they tell of it through ``log_p`` alone.
    A known one counts once. Call it outside all plates.

    Args:
        data: the model's argument.
        log_p: log-probabilities of the truth, (..., N, K).
        table: of labels given their own truth, (..., A, K, L), of which rows sum to one.
        groups: where the truths of labels differ by groups of annotators, a ``OneHot`` (..., A, G) and
            log-probabilities (..., N, G, K); ``log_p`` is then of anybody.

    Returns:
        int32 (S,), as of ``annotate``.

    Examples:
        >>> import pyro, torch
        >>> design = crowdppl.random_design(1, 40, 40, classes=["no", "yes"], seed=0)
        >>> even, never_err = torch.full((1, 2), 0.5).log(), torch.eye(2).log().expand(40, 2, 2)
        >>> with pyro.poutine.seed(rng_seed=0):
        ...     cells = crowdppl.primitives.annotate_each(design, even, never_err)
        >>> (cells % 2).sum()  # of 40
        tensor(20)
    """
    block = block_of(data)
    prior = log_p.detach().log_softmax(-1)  # of which labels are no evidence, and which is none of the skills
    if block.gold is not None:
        prior = torch.where((block.gold >= 0).unsqueeze(-1), log_p, prior)
    with plates.items(data):
        labels = OwnTruthLabels(block, table, log_p, truth(data, prior), groups)
        out: Tensor = pyro.sample("label", labels, obs=block.bags.cells if block.has_labels else None)
    return out


class RankedLabels(NumberLabels):
    """Ranks, of which those that an annotator gave to objects of one problem are a ranking.

    An annotator who is reliable on a ranking chooses one object in proportion to worths, then one of the rest, and
    so on (Plackett-Luce); else all orders are as likely. Of objects that are tied, each order may be what was
    meant, and a ranking of some objects says nothing of others. A truth is the rank that one more reliable ranking,
    of all objects of the problem, would give; known ones are such a ranking of the objects of which they are known.

    Args:
        block: who ranked what.
        log_worth, worth: of each object, (..., O), expected or drawn.
        reliability: log-probabilities of being reliable and of not being, (..., A, 2).
        worst_first: whether the worst object is chosen first, and worths say how bad objects are.
    """

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
        parts = self._parts(rankings, self.block.item, self.reliability)
        out = self.block.sum_by_item(parts) + in_closed_form(self.truth, self._moments)
        if (gold := self.block.gold) is None:
            return out
        known = gold.isfinite()
        parts = self._parts(self.block.known_rankings, known.nonzero().squeeze(-1), None)
        of_item = torch.where(known, known.cumsum(0) - 1, parts.shape[-1])
        return out + torch.cat([parts, parts.new_zeros((*parts.shape[:-1], 1))], -1)[..., of_item]

    def _parts(self, rankings: Rankings, item: Tensor, reliability: Tensor | None) -> Tensor:
        """Even parts of the log-probability of rankings, by their labels of items (S,), which may be reliable."""
        known, ranking = [], []
        for each in rankings.orders(self.sign):
            n_orders, size = each.labels.shape[1:]
            at = self.object[item[each.labels]]
            left = self.worth[..., at].flip(-1).cumsum(-1).flip(-1)[..., : each.stages]
            skilled = (self.log_worth[..., at[..., : each.stages]] + neg_log(left)).sum(-1)  # (..., r, W)
            terms = skilled + each.log_times
            if reliability is not None:
                evenly = each.log_times + math.log(n_orders) - sum(math.log(size - n) for n in range(each.stages))
                coin = reliability[..., rankings.annotator[each.ranking], :]
                terms = torch.cat([coin[..., :1] + terms, coin[..., 1:] + evenly], -1)
            known.append(logsumexp(terms))
            ranking.append(each.ranking)
        lead = self.batch_shape[:-1] if not known else known[0].shape[:-1]
        nothing = self.worth.new_zeros((*lead, len(rankings.sizes) - sum(map(len, ranking))))
        every = torch.cat([*known, nothing], -1)
        place = torch.full_like(rankings.sizes, every.shape[-1] - 1)
        if ranking:
            place[torch.cat(ranking)] = torch.arange(sum(map(len, ranking)), device=place.device)
        return (every[..., place] / rankings.sizes)[..., rankings.of_label]

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
        if (gold := self.block.gold) is None:
            return out
        given = torch.stack([gold, gold.square()]).reshape(2, *[1] * (out.dim() - 2), -1)
        return torch.where(given.isfinite(), given.to(out), out)

    def draw(self) -> tuple[Tensor, Tensor]:
        """The ranks (N,) of one more reliable ranking of each problem, and labels (S,)."""
        rankings, worth = self.block.rankings, self.worth.reshape(-1)[self.object]
        reliable = torch.rand(len(rankings.sizes)) < self.reliability.reshape(-1, 2)[rankings.annotator, 0].exp()
        rate = torch.where(reliable[rankings.of_label], worth[self.block.item], 1.0)
        truth = self._ranks(item_groups(self.block, OF_RANKS[0]), worth)
        return self.where_known(truth), self._ranks(rankings.of_label, rate)

    def _ranks(self, group: Tensor, rate: Tensor) -> Tensor:
        """Ranks (n,), from 1 in each group, of a race in which each needs an exponential time of its rate."""
        time = self.sign * torch.empty_like(rate).exponential_() / rate
        order = time.argsort()
        order = order[group[order].argsort(stable=True)]
        sizes = group.bincount()
        out = torch.empty_like(rate)
        out[order] = (torch.arange(len(group)) - (sizes.cumsum(0) - sizes)[group[order]] + 1).to(rate)
        return out
