"""Plackett-Luce: objects have skills, and annotators rank by them in stages, or at random.

    skill[o]        ~ LogNormal(0, spread)                                  (O)
    reliability[a]  ~ Dirichlet(right, wrong)                               (A, 2)
    stage           one of the objects that are left is chosen in proportion to skills, and so on to the last
    label[i, a]     = place of object i among the stages of the annotator's ranking, with probability
                      reliability[a, 0], else all orders are as likely
    truth[i]        = its place in one more reliable ranking of its problem (N)

An item is an object of a problem, ``kind="ranking"``, and a label its rank. Known ranks (gold) are that reliable
ranking, of the objects of which they are known: their order tells of skills as one more annotator's does. Of tied
objects each order may be meant; where ties stand for more than 120 orders, 120 at random estimate the sum over all.
Where ``first="worst"``, the worst object is chosen first, and a site ``weakness`` stands for ``skill``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import pyro
import pyro.distributions as dist
import torch

import crowdppl.primitives as cp
from crowdppl import Annotations, mean_field


@dataclass(frozen=True)
class PlackettLuce:
    """Skills of objects that are ranked, and how reliable annotators rank them.

    Args:
        spread: standard deviation of log-skills, by default what the rankings tell of it.
        right, wrong: pseudo-counts of rankings by skill and at random.
        first: the end from which annotators rank. The models differ, and held-out scores tell which fits.
    """

    spread: cp.Positive | None = None
    right: cp.Positive = 4.0
    wrong: cp.Positive = 2.0
    first: Literal["best", "worst"] = "best"

    card: ClassVar[cp.Card] = cp.Card(
        title="Plackett-Luce",
        reference="Plackett (1975), The analysis of permutations, Applied Statistics 24(2); Caron & Doucet (2012), "
        "Efficient Bayesian inference for generalized Bradley-Terry models, JCGS 21(1); with annotators who may "
        "rank at random",
        doi="10.2307/2346567",
        sites={"skill": "O", "weakness": "O", "reliability": "A 2", "truth": "N"},
        kind="ranking",
        columns={"reliability": ("reliable", "random")},
        assumes="objects lie on one scale for all, and are chosen one after the other from one end",
        fails="when annotators differ in taste, or know one end of the list alone",
        cost="labels, times the orders that ties may stand for",
        uses=("item_covariates",),
        sharded=True,
    )

    def setup(self, data: Annotations) -> PlackettLuce:
        """A copy with the spread of skills that the rankings tell of."""
        return replace(self, spread=self.spread or cp.learned_spread(data, (self.right, self.wrong)))

    def model(self, data: cp.Block) -> None:
        """Draws skills, reliabilities and rankings."""
        name = "skill" if self.first == "best" else "weakness"
        spread = self.spread or cp.learned_spread(data, (self.right, self.wrong))
        with cp.plates.groups(data, "object"):
            prior = dist.LogNormal(0.0, torch.tensor(float(spread)))
            log_skill, skill = cp.natural(name, prior, ratios=True)
        with cp.plates.annotators(data):
            reliability = pyro.sample("reliability", dist.Dirichlet(torch.tensor([self.right, self.wrong])))
        with cp.plates.items(data):
            worst, block = self.first == "worst", cp.plates.block_of(data)
            cp.annotate_numbers(data, cp.RankedLabels(block, log_skill, skill, reliability.log(), worst))

    guide = mean_field
