"""Community: annotators belong to communities, and those of one community err alike.

    prevalence       ~ Dirichlet(1), or = 1 / K                             (K)
    weights          ~ Dirichlet(sparsity / M)                              (M)
    shared[m, k]     ~ Dirichlet(prior_strength * row(k))                   (M, K, K)
    community[a]     ~ OneHot(weights)                                      (A, M)
    alike            ~ LogNormal(log 10, 1), if annotators have their own   ()
    confusion[a, k]  ~ Dirichlet(alike * shared[community[a], k]),          (A, K, K)
                       or = shared[community[a], k]
    truth[i]         ~ Categorical(prevalence)                              (N)
    label[i, a]      ~ Categorical(confusion[a, truth[i]])

row(k) puts ``prior_accuracy`` on class k and spreads the rest evenly. M is an upper limit: under sparse weights,
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

import crowdppl.primitives as cp
from crowdppl import mean_field


@dataclass(frozen=True)
class Community:
    """Annotators who err like their community.

    Args:
        communities: M, the most there can be.
        own: whether annotators have confusions of their own around their community's, or share it.
        prevalence: "learned" or "uniform".
        sparsity: pseudo-counts of all communities together; below M, few are used, and em refuses.
        prior_strength: pseudo-counts of a confusion row.
        prior_accuracy: share of them on the correct label, by default half way between 1 and chance.
    """

    communities: cp.Count = 8
    own: bool = False
    prevalence: Literal["learned", "uniform"] = "learned"
    sparsity: cp.Positive = 1.0
    prior_strength: cp.Positive = 4.0
    prior_accuracy: cp.Share | None = None

    card: ClassVar[cp.Card] = cp.Card(
        title="Community",
        reference="Venanzi et al. (2014), Community-based Bayesian aggregation models for crowdsourcing, WWW",
        doi="10.1145/2566486.2567989",
        sites={"prevalence": "K", "weights": "M", "shared": "M K K", "community": "A M", "alike": ""}
        | {"confusion": "A K K", "abstention": "A D W", "truth": "N"},
        clusters="community",
        prevalence="prevalence",
        assumes="annotators come in a few kinds; given the kind and the truth, they err independently",
        fails="when annotators differ by degrees rather than in kind; communities may depend on the start",
        cost="labels x K, twice an iteration",
        sharded=True,
    )

    def model(self, data: cp.Block) -> None:
        """Draws communities, who belongs to which, truths and labels."""
        log_p, m = cp.prevalence(data, self.prevalence), self.communities
        weights = pyro.sample("weights", dist.Dirichlet(torch.full((m,), self.sparsity / m)))
        with cp.plates.communities(m):
            rows = dist.Dirichlet(cp.diagonal_prior(data.n_classes, self.prior_strength, self.prior_accuracy))
            shared = pyro.sample("shared", rows.to_event(1))
        if self.own:
            alike = pyro.sample("alike", dist.LogNormal(math.log(10.0), 1.0))
            around = alike[..., None, None, None] * shared.unsqueeze(-4)  # (..., 1, M, K, K)
        with cp.plates.annotators(data):
            community = pyro.sample("community", cp.OneHot(weights.log()))
            if self.own:
                table = pyro.sample("confusion", cp.ChosenDirichlet(community, around)).log()
            else:  # linear in the one-hot vector, so that engines may put its expectation in its place
                table = torch.einsum("...am,...mtl->...atl", community, shared.log())
        table = cp.with_abstentions(data, table)
        with cp.plates.items(data):
            cp.annotate(data, table, cp.truth(data, log_p))

    guide = mean_field

    def init(self, data: cp.Block) -> dict[str, Tensor]:
        """Communities by how often annotators agree with the votes; no engine could tell equal ones apart."""
        counts, m = cp.reduced(_counts(data)), self.communities
        hits = counts.diagonal(dim1=-2, dim2=-1).sum(-1)
        agreement = (hits + hits.sum() / counts.sum().clamp(min=1)) / (counts.sum((-2, -1)) + 1)
        centres = agreement.quantile((torch.arange(m).double() + 0.5) / m)
        width = ((centres[-1] - centres[0]) / m).clamp(min=1e-3)
        share = (-0.5 * ((agreement.unsqueeze(-1) - centres) / width) ** 2).softmax(-1)
        if not self.own:
            return {"community": share}
        prior = cp.diagonal_prior(data.n_classes, self.prior_strength, self.prior_accuracy)
        rows = prior + torch.einsum("am,atl->mtl", share, counts)
        return {"community": share, "shared": rows / rows.sum(-1, keepdim=True)}


def _counts(data: cp.Block) -> Tensor:
    """Labels of each annotator against an item's vote shares: (A, K, K) [annotator, truth, label]."""
    k = data.n_classes
    item, who, answer = (x[data.named] for x in (data.item, data.annotator, data.answer))
    votes = data.vote_counts().double()
    share = votes / votes.sum(-1, keepdim=True).clamp(min=1)
    counts = torch.zeros(data.n_annotators * k, k, dtype=torch.float64).index_add(0, who * k + answer, share[item])
    return counts.reshape(-1, k, k).transpose(-1, -2)
