"""Set clusters: an item's set of classes depends on its cluster, and annotators err about each class alike.

    share            ~ Dirichlet(sparsity / M)                              (M)
    rate[c, m]       ~ Dirichlet(rate_strength, rate_strength)              (C, M, 2)
    confusion[a, k]  ~ Dirichlet(prior_strength * row(k))                   (A, 2, 2)
    cluster[g]       ~ OneHot(share)                                        (G, M)
    truth[i]         ~ Categorical(rate[class[i], cluster[item[i]]])        (N)
    label[i, a]      ~ Categorical(confusion[a, truth[i]])

Each i is one of G items with one of C classes; its truth is no or yes. row(k) puts ``prior_accuracy`` on k and the
rest on the other; annotators have one sensitivity and one specificity. M is an upper limit: under sparse shares,
clusters that are not needed stay empty. With one cluster, classes are independent. History adds to the prior.
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
class SetClusters:
    """Sets of classes that go together, by clusters of items.

    Args:
        clusters: M, the most there can be; 1 makes classes independent.
        sparsity: pseudo-counts of all clusters together; below M, few are used, and em refuses.
        rate_strength: pseudo-counts of no and of yes, for each class in a cluster.
        prior_strength: pseudo-counts of a confusion row.
        prior_accuracy: share of them on the correct answer.
    """

    clusters: cp.Count = 8
    sparsity: cp.Positive = 1.0
    rate_strength: cp.Positive = 1.0
    prior_strength: cp.Positive = 4.0
    prior_accuracy: cp.Share | None = None

    card: ClassVar[cp.Card] = cp.Card(
        title="Set clusters",
        reference="this library; Bayesian Dawid-Skene for each class below a latent class model of the sets "
        "(Lazarsfeld & Henry 1968, Latent structure analysis)",
        kind="set",
        sites={"share": "M", "rate": "C M 2", "cluster": "G M", "confusion": "A 2 2", "abstention": "A D W"}
        | {"truth": "N"},
        clusters="cluster",
        assumes="classes are independent given an item's cluster; an annotator misses, or adds, all classes alike",
        fails="when some classes are much harder to see than others; when annotators name one of several classes "
        "that an item has, clusters take the rest for absent, and clusters=1 is better; by vb, clusters of items "
        "with few labels are too certain",
        cost="labels, and items x classes x M, twice an iteration",
        uses=("history",),
        sharded=True,
    )

    def model(self, data: cp.Block) -> None:
        """Draws clusters, rates, confusions, truths and labels."""
        item, of_class, m = cp.item_groups(data, "item"), cp.item_groups(data, "class"), self.clusters
        with cp.plates.groups(data, "class"):
            rows = torch.full((m, 2), float(self.rate_strength))
            log_rate = pyro.sample("rate", dist.Dirichlet(rows).to_event(1)).log()[
                ..., of_class, :, :
            ]  # (..., N, M, 2)
        with cp.plates.annotators(data):
            prior = cp.confusion_prior(data, self.prior_strength, self.prior_accuracy)
            confusion = pyro.sample("confusion", dist.Dirichlet(prior).to_event(1))
        if m == 1:
            log_p = log_rate[..., 0, :]
        else:  # linear in the one-hot vector
            share = pyro.sample("share", dist.Dirichlet(torch.full((m,), self.sparsity / m)))
            with cp.plates.groups(data, "item"):
                cluster = pyro.sample("cluster", cp.OneHot(share.log()))
            log_p = (cluster[..., item, :].unsqueeze(-1) * log_rate).sum(-2)
        table = cp.with_abstentions(data, confusion.log())
        with cp.plates.items(data):
            cp.annotate(data, table, cp.truth(data, log_p))

    guide = mean_field

    def init(self, data: cp.Block) -> dict[str, Tensor]:
        """Clusters from the votes; no engine could tell equal ones apart."""
        return {} if self.clusters == 1 else {"cluster": cp.cluster_start(_votes(data), self.clusters)}


def _votes(data: cp.Block) -> np.ndarray:
    """Share of yes among the answers about each class of each item, (G, C); that of all where there is none."""
    item, of_class = (cp.item_groups(data, name) for name in ("item", "class"))
    at, yes = data.item[data.named], data.answer[data.named].double()
    number = torch.bincount(at, minlength=data.n_items)
    share = (torch.bincount(at, yes, data.n_items) + yes.mean()) / (number + 1)
    out = torch.full((int(item.max()) + 1, int(of_class.max()) + 1), float(yes.mean()), dtype=torch.float64)
    out[item, of_class] = share
    return out.cpu().numpy()
