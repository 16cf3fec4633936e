"""Crowd clustering: objects are alike when they belong to one cluster, and annotators compare two of them.

    membership[o]    ~ Dirichlet(sparsity / M)                              (O, M)
    confusion[a, k]  ~ Dirichlet(prior_strength * row(k))                   (A, 2, 2)
    side[i, s]       ~ Categorical(membership[object[i, s]])                both objects of a pair, summed out
    truth[i]         = same where side[i, left] = side[i, right], else different
    label[i, a]      ~ Categorical(confusion[a, truth[i]])

row(k) puts ``prior_accuracy`` on class k and the rest on the other. M is found in the votes, unless it is given.
History adds to the prior.
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
from crowdppl.errors import MethodError

if TYPE_CHECKING:
    from crowdppl.data.annotations import Annotations

MOST = 30
"""Clusters that are looked for by eigenvectors of the votes; more are found by linkage alone."""
CLEAR = 0.9
"""Share of an object in its own cluster at the start."""


@dataclass(frozen=True)
class CrowdClustering:
    """Clusters of objects from judgements of pairs, "same" or "different".

    Args:
        clusters: M, how many there are; None finds their number in the votes (at least two): by eigenvectors or by
            linkage, of which the votes and the sizes of clusters (Ewens 1972) are more probable.
        sparsity: pseudo-counts of an object over all clusters; below M, objects belong to few, and em refuses.
        prior_strength: pseudo-counts of a confusion row.
        prior_accuracy: share of them on the correct label.
    """

    clusters: cp.Count | None = None
    sparsity: cp.Positive = 1.0
    prior_strength: cp.Positive = 4.0
    prior_accuracy: cp.Share | None = None

    card: ClassVar[cp.Card] = cp.Card(
        title="Crowd clustering",
        reference="Gomes et al. (2011), Crowdclustering, NIPS 24; mixed membership as in Airoldi et al. (2008), "
        "Mixed membership stochastic blockmodels, JMLR 9",
        kind="similarity",
        clusters="membership",
        sites={"membership": "O M", "confusion": "A 2 2", "abstention": "A D W", "truth": "N"},
        assumes="whether two objects are the same depends on their clusters alone; annotators err independently",
        fails="when annotators group by different criteria; where few pairs connect the objects, clusters merge or "
        "split with the start",
        cost="labels, and pairs x M",
        uses=("history",),
        sharded=True,
    )

    def __post_init__(self) -> None:
        if self.clusters == 1 and self.clusters is not True:  # True is refused where settings are checked
            raise MethodError("clusters=1 leaves no two objects that differ; give 2 or more, or None to find them")

    def setup(self, data: Annotations) -> CrowdClustering:
        """A copy with the number of clusters."""
        return replace(self, clusters=self._clusters(data.as_block()))

    def model(self, data: cp.Block) -> None:
        """Draws memberships, confusions, truths and labels."""
        m = self._clusters(data)
        with cp.plates.groups(data, "left"):
            strength = torch.full((m,), self.sparsity / m)
            log_f = pyro.sample("membership", dist.Dirichlet(strength)).log()  # (..., O, M)
        with cp.plates.annotators(data):
            prior = cp.confusion_prior(data, self.prior_strength, self.prior_accuracy)
            confusion = pyro.sample("confusion", dist.Dirichlet(prior).to_event(1))
        table = cp.with_abstentions(data, confusion.log())
        left, right = (log_f[..., cp.item_groups(data, side), :] for side in ("left", "right"))
        with cp.plates.items(data):
            cp.annotate(data, table, cp.truth(data, _log_same(left, right)))

    guide = mean_field

    def init(self, data: cp.Block) -> dict[str, Tensor]:
        """Memberships from the votes; no engine could tell equal clusters apart."""
        m = self._clusters(data)
        code = torch.from_numpy(_start(data, m))
        start = torch.full((len(code), m), (1 - CLEAR) / (m - 1), dtype=torch.float64)
        return {"membership": start.scatter(1, code.unsqueeze(1), CLEAR)}

    def _clusters(self, data: cp.Block) -> int:
        if self.clusters is not None:
            return self.clusters
        if not data.has_labels:
            raise MethodError("there are no labels to count the clusters by; say how many there are in clusters=")
        return max(2, int(_start(data, None).max()) + 1)


def _log_same(left: Tensor, right: Tensor) -> Tensor:
    """Log-probabilities of different and of the same clusters (..., N, 2), from memberships (..., N, M).

    Two clusters that differ part at one node of a binary tree of clusters, so that all sums are of 2 M terms.
    """
    same, apart = cp.logsumexp(left + right), []
    while left.shape[-1] > 1:
        even = left.shape[-1] // 2 * 2
        (a, b), (c, d) = ((x[..., :even:2], x[..., 1:even:2]) for x in (left, right))
        apart += [a + d, b + c]
        left, right = (
            torch.cat([cp.logsumexp(torch.stack([x[..., :even:2], x[..., 1:even:2]], -1)), x[..., even:]], -1)
            for x in (left, right)
        )
    return torch.stack([cp.logsumexp(torch.cat(apart, -1)), same], -1)


def _start(data: cp.Block, wanted: int | None) -> np.ndarray:
    """The cluster of each object, (O,): by k-means on eigenvectors or by linkage, whichever is more probable."""
    left, right, number, yes, n = cp.votes_of_pairs(data)
    points = _points(left, right, n, number, yes, wanted)
    m = 1 + points.shape[1] if wanted is None else wanted
    near = np.asarray(cp.cluster_start(points, m).argmax(1))
    joined = cp.linkage(left, right, np.log((yes + 1) / (number - yes + 1)), n)
    if wanted is not None and joined.max() >= wanted:
        return near

    if cp.log_evidence(data, joined) > cp.log_evidence(data, near):
        return joined
    if wanted is None and m == MOST:
        raise MethodError(
            f"votes put {n:,} objects into {m:,} clusters or more, of which no more are looked for; use "
            "record_linkage, or say how many there are in clusters="
        )
    return near


def _points(
    left: np.ndarray, right: np.ndarray, n: int, number: np.ndarray, yes: np.ndarray, wanted: int | None
) -> np.ndarray:
    """Objects as points (O, M - 1): eigenvectors of centred votes; M wanted, or above noise (Wigner 1958)."""
    from scipy.sparse import coo_array  # slow to import, both
    from scipy.sparse.linalg import eigsh

    share = (yes - yes.sum() / max(number.sum(), 1) * number) / np.maximum(number, 1)
    table = coo_array((np.tile(share, 2), (np.append(left, right), np.append(right, left))), (n, n)).tocsr()
    most = min(MOST if wanted is None else wanted, n) - 1
    if most < 1 or not share.any():
        return np.zeros((n, 1))
    first = np.random.default_rng(0).normal(size=n)  # a constant may be what a regular design leaves nothing of
    values, vectors = eigsh(table, min(most, n - 1), which="LA", v0=first)
    order = np.argsort(-values)
    squares = table.power(2).sum() - np.append(0, np.cumsum(values[order] ** 2)[:-1])
    clear = np.append(values[order] > 2 * np.sqrt(np.maximum(squares, 0) / n), False)
    kept = order[: most if wanted is not None else max(1, int(clear.argmin()))]
    return np.asarray(vectors[:, kept] * np.sqrt(np.maximum(values[kept], 0)))
