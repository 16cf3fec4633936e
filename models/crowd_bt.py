"""Crowd-BT: Bradley-Terry, seen through annotators who are right with a probability of their own.

    skill[o]        ~ LogNormal(0, spread)                                  (O)
    looks           ~ Dirichlet(1, 1)                                       (2), with ties
    advantage       ~ Normal(0, 1)                                          of the left side, if wanted
    reliability[a]  ~ Dirichlet(right, wrong)                               (A, 2)
    ability[a, k]   ~ Dirichlet(right, wrong)                               (A, K, 2), instead, by judge
    truth[i]        ~ Categorical(left: skill[left[i]] : skill[right[i]])   (N)
    own[i, a]       ~ the same, each anew, and is summed out
    label[i, a]     = own[i, a] with probability reliability[a, 0], else any other class evenly;
                      or with probability ability[a, own[i, a], 0]

An item is a comparison of two objects, ``kind="pair"``, and its truth what one more reliable answer would be.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import pyro
import pyro.distributions as dist

import crowdppl.primitives as cp
from crowdppl import Annotations, mean_field


@dataclass(frozen=True)
class CrowdBt:
    """Skills of objects, and how reliable annotators compare them.

    Args:
        spread: standard deviation of log-skills, by default what the answers tell of it.
        right, wrong: pseudo-counts of right and wrong answers. All skills and annotators the other way round are as
            likely, and the majority is on the right side where right exceeds wrong.
        position_bias: whether the left side may have an advantage, which gibbs refuses. "judge": also of each
            annotator, whose reliability is then one where they prefer the left and another where they prefer the
            right; one who says left whatever they see is reliable in the former alone.
    """

    spread: cp.Positive | None = None
    right: cp.Positive = 4.0
    wrong: cp.Positive = 2.0
    position_bias: Literal[False, True, "judge"] = False

    card: ClassVar[cp.Card] = cp.Card(
        title="Crowd-BT",
        reference="Chen et al. (2013), Pairwise ranking aggregation in a crowdsourced setting, WSDM",
        doi="10.1145/2433396.2433420",
        sites={
            "skill": "O",
            "looks": "2",
            "advantage": "",
            "reliability": "A 2",
            "ability": "A K 2",
            "abstention": "A D W",
            "truth": "N",
        },
        kind="pair",
        assumes="objects lie on one scale for all, and an annotator is equally reliable on near and far pairs",
        fails="when annotators differ in taste, or each gives a handful of answers",
        cost="pairs and labels",
        uses=("item_covariates", "history"),
        sharded=True,
    )

    def setup(self, data: Annotations) -> CrowdBt:
        """A copy with the spread of skills that the answers tell of."""
        return replace(self, spread=self.spread or cp.learned_spread(data, (self.right, self.wrong)))

    def model(self, data: cp.Block) -> None:
        """Draws skills, reliabilities, preferences and labels."""
        of_judge = self.position_bias == "judge"
        log_p = cp.preferences(data, self.spread, bool(self.position_bias))
        coin = dist.Dirichlet(cp.coin_prior(data, self.right, self.wrong, by_class=of_judge))
        with cp.plates.annotators(data):
            if of_judge:
                reliability = pyro.sample("ability", coin.to_event(1)).log()
            else:
                reliability = pyro.sample("reliability", coin).log().unsqueeze(-2)
        table = cp.coin_table(reliability, data.n_classes)
        cp.annotate_each(data, log_p, cp.with_abstentions(data, table))

    guide = mean_field
