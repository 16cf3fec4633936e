"""Preference groups: annotators are of several tastes, each a Bradley-Terry scale of its own.

    weights         ~ Dirichlet(sparsity / G)                               (G)
    skill[o, g]     ~ LogNormal(0, spread)                                  (O, G)
    looks           ~ Dirichlet(1, 1)                                       (2), with ties
    group[a]        ~ OneHot(weights)                                       (A, G)
    label[i, a]     ~ Categorical(left: skill[left[i], g] : skill[right[i], g])  with g = group[a]
    truth[i]        ~ the same for a group drawn by weights                 (N)

An item is a comparison of two objects, ``kind="pair"``, and its truth what a new annotator would answer.
``posterior.ranking()`` has a ranking for each group, ``posterior.clusters()`` the group of each annotator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyro
import pyro.distributions as dist
import torch
from torch import Tensor

import crowdppl.primitives as cp
from crowdppl import mean_field


@dataclass(frozen=True)
class PreferenceGroups:
    """Skills of objects by groups of annotators who prefer alike.

    Args:
        groups: G, the most there can be.
        sparsity: pseudo-counts of all groups together; below G, few are used, and em refuses.
        spread: standard deviation of log-skills.
    """

    groups: cp.Count = 2
    sparsity: cp.Positive = 2.0
    spread: cp.Positive = 0.8

    card: ClassVar[cp.Card] = cp.Card(
        title="Preference groups",
        reference="Gormley & Murphy (2008), Exploring voting blocs within the Irish electorate: a mixture modeling "
        "approach, JASA 103(483), with comparisons in place of rankings",
        doi="10.1198/016214507000001049",
        sites={"weights": "G", "skill": "O G", "looks": "2", "group": "A G", "abstention": "A D W", "truth": "N"},
        kind="pair",
        clusters="group",
        assumes="annotators are of a few tastes, and those of one compare alike",
        fails="when annotators give few labels, or answer at random; groups may depend on the start",
        cost="labels x G, and pairs x G",
        uses=("item_covariates",),
        sharded=True,
    )

    def model(self, data: cp.Block) -> None:
        """Draws groups, their skills, who belongs to which, preferences and labels."""
        weights = pyro.sample("weights", dist.Dirichlet(torch.full((self.groups,), self.sparsity / self.groups)))
        each = cp.preferences(data, self.spread, groups=self.groups)  # (..., N, G, K)
        with cp.plates.annotators(data):
            group = pyro.sample("group", cp.OneHot(weights.log()))
        anybody = cp.logsumexp(each.transpose(-1, -2) + weights.log().unsqueeze(-2))
        never_err = torch.eye(data.n_classes).log().expand(data.n_annotators, -1, -1)
        cp.annotate_each(data, anybody, cp.with_abstentions(data, never_err), groups=(group, each))

    guide = mean_field

    def init(self, data: cp.Block) -> dict[str, Tensor]:
        """Groups by whom annotators prefer, and their odds of winning; no engine could tell equal ones apart."""
        wins, losses = (cp.reduced(_times(data, of)) for of in (0, 1))
        points = (wins - losses) / np.maximum((wins + losses).sum(1), 1)[:, None]
        share = cp.cluster_start(points, self.groups)
        won, lost = (torch.einsum("ao,ag->og", torch.as_tensor(x), share) for x in (wins, losses))
        return {"group": share, "skill": (won + 1) / (lost + 1)}


def _times(data: cp.Block, answer: int) -> np.ndarray:
    """How often each annotator preferred each object (0) or another one to it (1): (A, O)."""
    sides = cp.item_groups(data, "left", "right").cpu().numpy()
    out = np.zeros((data.n_annotators, cp.plates.groups(data, "left", "right").size))
    for said in (0, 1):
        given = data.answer == said
        item, who = (x[given].cpu().numpy() for x in (data.item, data.annotator))
        np.add.at(out, (who, sides[item, said ^ answer]), 1.0)
    return out
