"""Community: annotators belong to communities, and those of one community err alike.

    prevalence        ~ Dirichlet(1), or = 1 / K                            (K)
    weights           ~ Dirichlet(sparsity / M)                             (M)
    shared[m, k]      ~ Dirichlet(mass * row(k))                            (M, K, K)
    community[a]      ~ OneHot(weights)                                     (A, M)
    strength          ~ LogNormal(log 10, 1)                                ()         own=True only
    confusion[a, k]   ~ Dirichlet(strength * shared[community[a], k])       (A, K, K)  own=True only
    truth[i]          ~ Categorical(prevalence)                             (N)
    label[i, a]       ~ Categorical(shared[community[a], truth[i]]), or with own=True
    label[i, a]       ~ Categorical(confusion[a, truth[i]])                 (community-based combination, CBCC)

row(k) holds the share ``diagonal`` on class k and the rest evenly. M is a cap: under sparse weights,
communities that are not needed stay empty.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor

from crowdppl import (
    Block,
    Card,
    ChosenDirichlet,
    OneHot,
    annotate,
    confusion_prior,
    mean_field,
    plates,
    prevalence,
    truth,
    with_abstentions,
)


@dataclass(frozen=True)
class Community:
    """Annotators who share the confusion matrix of their community.

    Args:
        communities: M, the most there can be.
        own: whether annotators have a confusion matrix of their own around their community's.
        prevalence: "learned" or "uniform".
        sparsity: pseudo-counts of all communities together; below M, few are used, and em refuses.
        mass, diagonal: pseudo-counts of a confusion row, and the share of them on the right answer.
    """

    communities: int = 8
    own: bool = False
    prevalence: Literal["learned", "uniform"] = "learned"
    sparsity: float = 1.0
    mass: float = 1.8
    diagonal: float = 0.61

    card: ClassVar[Card] = Card(
        title="Community",
        reference="Venanzi et al. (2014), Community-based Bayesian aggregation models for crowdsourcing, WWW",
        doi="10.1145/2566486.2567989",
        sites={
            "prevalence": "K",
            "weights": "M",
            "shared": "M K K",
            "community": "A M",
            "strength": "",
            "confusion": "A K K",
            "abstention": "A K W",
            "truth": "N",
        },
        assumes="annotators come in a few kinds; given the kind and the truth, they err each alone",
        fails="when annotators differ by degrees rather than in kind; which communities are found may depend on "
        "the start",
        cost="labels x K, twice an iteration",
    )

    def model(self, data: Block) -> None:
        """Draws communities, who belongs to which, truths and labels."""
        log_p = prevalence(data, self.prevalence)
        m = self.communities
        weights = pyro.sample("weights", dist.Dirichlet(torch.full((m,), self.sparsity / m)))
        with plates.communities(m):
            rows = dist.Dirichlet(confusion_prior(data, self.mass, self.diagonal))
            shared = pyro.sample("shared", rows.to_event(1))
        strength = pyro.sample("strength", dist.LogNormal(math.log(10.0), 1.0)) if self.own else None
        with plates.annotators(data):
            community = pyro.sample("community", OneHot(weights.log()))
            if strength is not None:
                around = (strength[..., None, None] * shared).unsqueeze(-4)
                own = pyro.sample("confusion", ChosenDirichlet(community, around))
        # Linear in the one-hot vector, so that engines may put its expectation in its place.
        linear = torch.einsum("...am,...mtl->...atl", community, shared.log())
        table = with_abstentions(data, linear if strength is None else own.log())
        with plates.items(data):
            annotate(data, table, truth(data, log_p))

    def guide(self, data: Block) -> None:
        """Mean field, from the story's own sites."""
        mean_field(self, data)

    def start(self, data: Block) -> dict[str, Tensor]:
        """Communities by how often annotators agree with the votes; equal ones would stay equal for ever."""
        agreement, m = _agreement(data), self.communities
        centres = agreement.quantile((torch.arange(m) + 0.5) / m)
        width = ((centres[-1] - centres[0]) / m).clamp(min=1e-3)
        return {"community": (-0.5 * ((agreement.unsqueeze(-1) - centres) / width) ** 2).softmax(-1)}


def _agreement(data: Block) -> Tensor:
    """For each annotator, the mean share of an item's votes that their label has, (A,)."""
    k = data.n_classes
    given = data.answer < k
    cell = (data.item * k + data.answer)[given]
    votes = torch.bincount(cell, minlength=data.n_items * k).reshape(-1, k).double()
    share = (votes / votes.sum(-1, keepdim=True).clamp(min=1)).reshape(-1)[cell]
    who = data.annotator[given]
    labels = torch.bincount(who, minlength=data.n_annotators)
    total = torch.bincount(who, weights=share, minlength=data.n_annotators)
    return (total + share.mean()) / (labels + 1)
