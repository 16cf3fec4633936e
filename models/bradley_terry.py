"""Bradley-Terry: each object has a skill, and of two the better one is preferred in proportion to skills.

    skill[o]        ~ LogNormal(0, spread)                                  (O)
    looks           ~ Dirichlet(1, 1)                                       (2), with ties
    advantage       ~ Normal(0, 1)                                          of the left side, if wanted
    truth[i]        ~ Categorical(left: skill[left[i]] : skill[right[i]])   (N)
    label[i, a]     ~ the same, each anew

Annotators do not differ. An item is a comparison of two objects, ``kind="pair"``, and its truth what one more
answer would be.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

import crowdppl.primitives as cp
from crowdppl import Annotations, mean_field


@dataclass(frozen=True)
class BradleyTerry:
    """Skills of objects that are compared two by two.

    Args:
        spread: standard deviation of log-skills, by default what the answers tell of it.
        position_bias: whether the left side may have an advantage; gibbs refuses it.
    """

    spread: cp.Positive | None = None
    position_bias: bool = False

    card: ClassVar[cp.Card] = cp.Card(
        title="Bradley-Terry",
        reference="Bradley & Terry (1952), Rank analysis of incomplete block designs, Biometrika 39(3/4); Caron & "
        "Doucet (2012), Efficient Bayesian inference for generalized Bradley-Terry models, JCGS 21(1)",
        doi="10.1093/biomet/39.3-4.324",
        sites={"skill": "O", "looks": "2", "advantage": "", "abstention": "A D W", "truth": "N"},
        kind="pair",
        assumes="objects lie on one scale, and all annotators compare alike",
        fails="when some annotators answer at random or the other way round: skills are drawn together",
        cost="pairs and labels",
        uses=("item_covariates",),
        sharded=True,
    )

    def setup(self, data: Annotations) -> BradleyTerry:
        """A copy with the spread of skills that the answers tell of."""
        return replace(self, spread=self.spread or cp.learned_spread(data))

    def model(self, data: cp.Block) -> None:
        """Draws skills, preferences and labels."""
        log_p = cp.preferences(data, self.spread, self.position_bias)
        never_err = torch.eye(data.n_classes).log().expand(data.n_annotators, -1, -1)
        cp.annotate_each(data, log_p, cp.with_abstentions(data, never_err))

    guide = mean_field
