"""Record linkage: two records are the same more or less often by what other pairs say of each.

    rate[s]          ~ Dirichlet(rate_strength, rate_strength)              (3, 2)
    confusion[a, k]  ~ Dirichlet(prior_strength * row(k))                   (A, 2, 2)
    truth[i]         ~ Categorical(rate[situation[i]])                      (N)
    label[i, a]      ~ Categorical(confusion[a, truth[i]])

row(k) puts ``prior_accuracy`` on class k and the rest on the other. History adds to the prior. Without its own
labels, a pair is in one of three situations: other pairs link its records already, both are alone, or one of them
at least is in a cluster with others. So clusters may be of any number, and how they grow is learned. ``setup``
finds situations by greedy linkage of the log-odds of Dawid-Skene.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyro
import pyro.distributions as dist
import torch
from torch import Tensor

import crowdppl.primitives as cp
from crowdppl import mean_field

if TYPE_CHECKING:
    from crowdppl.data.annotations import Annotations

LINKED, ALONE, CLUSTERED = range(3)


@dataclass(frozen=True)
class RecordLinkage:
    """Pairs of records in many small clusters, from judgements "same" or "different".

    Args:
        rate_strength: pseudo-counts of different and of same, in each situation.
        prior_strength: pseudo-counts of a confusion row.
        prior_accuracy: share of them on the correct label.
        linked: the cluster of each record, and pairs in one cluster with their situation (left, right, situation)
            where others do not link them; found in the labels.
    """

    rate_strength: cp.Positive = 1.0
    prior_strength: cp.Positive = 4.0
    prior_accuracy: cp.Share | None = None
    linked: tuple[tuple[int, ...], tuple[tuple[int, int, int], ...]] | None = None

    card: ClassVar[cp.Card] = cp.Card(
        title="Record linkage",
        reference="this library; pairs as in Fellegi & Sunter (1969), A theory for record linkage, JASA 64, each "
        "given the others (pseudo-likelihood: Besag 1975, Statistical analysis of non-lattice data)",
        kind="similarity",
        sites={"rate": "S 2", "confusion": "A 2 2", "abstention": "A D W", "truth": "N"},
        confusion="confusion",
        assumes="what other pairs say of two records matters by whether they link them, or link one of them to "
        "others; annotators err independently",
        fails="when clusters are few and large (see crowd_clustering); pairs that nobody was asked about are taken "
        "for such as were asked, and are the same less often where those were chosen for their similarity",
        cost="labels, and once pairs x log(pairs)",
        uses=("history",),
    )

    def setup(self, data: Annotations) -> RecordLinkage:
        """A copy that knows the clusters of records; in a design without labels, all are alone."""
        block = data.as_block()
        if not block.has_labels:
            return self
        left, right, n = cp.pairs_of(block)
        weight = cp.log_odds_same(block)
        cluster = cp.linkage(left, right, weight, n)
        sizes = cp.sizes_without(left, right, weight, cluster)
        inside = np.flatnonzero((cluster[left] == cluster[right]) & (sizes[:, 0] > 0))
        apart = np.stack([left, right, _situation(sizes)], 1)[inside]
        return replace(self, linked=(tuple(cluster.tolist()), tuple(map(tuple, apart.tolist()))))

    def model(self, data: cp.Block) -> None:
        """Draws rates, confusions, truths and labels."""
        situation = self._situations(data)
        with pyro.plate("situations", 3, dim=-1):
            log_rate = pyro.sample("rate", dist.Dirichlet(torch.full((2,), float(self.rate_strength)))).log()
        with cp.plates.annotators(data):
            prior = cp.confusion_prior(data, self.prior_strength, self.prior_accuracy)
            confusion = pyro.sample("confusion", dist.Dirichlet(prior).to_event(1))
        table = cp.with_abstentions(data, confusion.log())
        with cp.plates.items(data):
            cp.annotate(data, table, cp.truth(data, log_rate[..., situation, :]))

    guide = mean_field

    def _situations(self, data: cp.Block) -> Tensor:
        """The situation of each pair, int64 (N,); records that are new are alone."""
        left, right, n = cp.pairs_of(data)
        known, apart = self.linked or ((), ())
        cluster = np.append(np.array(known, np.int64), np.arange(len(known), n))
        size = np.bincount(cluster)
        one, other = cluster[left], cluster[right]
        sizes = np.where((one == other)[:, None], 0, np.stack([size[one], size[other]], 1))
        out = _situation(sizes)
        if apart:
            a, b, own = np.array(apart, np.int64).T
            codes, asked = a * n + b, left * n + right
            order = codes.argsort()
            at = order[np.searchsorted(codes, asked, sorter=order).clip(max=len(codes) - 1)]
            out = np.where(codes[at] == asked, own[at], out)
        return torch.as_tensor(out, device=data.device)


def _situation(sizes: np.ndarray) -> np.ndarray:
    """The situation of pairs by the sizes of records' clusters without them, (N, 2), 0 where these are one."""
    return np.where(sizes[:, 0] == 0, LINKED, np.where(sizes.sum(1) == 2, ALONE, CLUSTERED))
