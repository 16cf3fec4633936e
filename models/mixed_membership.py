"""Mixed membership: an item may lie between classes, and all annotators see the same in-between.

    kinds             ~ Dirichlet(kind_strength)                       (S)
    confusion[a, k]   ~ Dirichlet(prior_strength * row(k))             (A, K, K)
    kind[i]           ~ Categorical(kinds)                             (N)
    truth[i]          ~ Categorical(atom[kind[i]])                     (N)
    seen[i, a]        ~ Categorical(atom[kind[i]])                     one for each label
    label[i, a]       ~ Categorical(confusion[a, seen[i, a]])

Each of the S atoms is a fixed mixture of classes: a class alone, two classes in several blends, a class diluted by
all, and all evenly. The truth is one more look at the item, by somebody who does not err. row(k) puts
``prior_accuracy`` on class k and spreads the rest evenly. History adds to the prior.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyro
import pyro.distributions as dist
import torch

import crowdppl.primitives as cp
from crowdppl import mean_field


@dataclass(frozen=True)
class MixedMembership:
    """Items between classes, so that an item's labels vary together and say less than independent looks would.

    Args:
        kind_strength: pseudo-counts of each atom.
        prior_strength: pseudo-counts of a confusion row.
        prior_accuracy: share of them on the correct label, by default half way between 1 and chance.
        blends: shares of the second class in blends of two. None takes five for up to five classes, fewer for more,
            and none beyond 50 (``cp.class_blends``).
        diluted: whether there are atoms diluted by all classes. Without these and without blends the method is
            bayesian_dawid_skene.
    """

    kind_strength: cp.Positive = 1.0
    prior_strength: cp.Positive = 4.0
    prior_accuracy: cp.Share | None = None
    blends: tuple[float, ...] | None = None
    diluted: bool = True

    card: ClassVar[cp.Card] = cp.Card(
        title="Mixed membership",
        reference="this library; after Erosheva, Fienberg & Lafferty (2004), Mixed-membership models of scientific "
        "publications, PNAS 101",
        doi="10.1073/pnas.0307760101",
        sites={"kinds": "S", "confusion": "A K K", "abstention": "A D W", "kind": "N", "truth": "N"},
        assumes="the labels of an item err together because the item lies between classes, most often two",
        fails="with about one label per item, which does not identify blends, and when annotators share a bias; "
        "where labels are independent given the truth, its probabilities are too cautious",
        cost="(labels + items) x S, and annotators x S x K x K; S is 11, 40, 71, 111 for 2 to 5 classes",
        uses=("history",),
    )

    def model(self, data: cp.Block) -> None:
        """Draws shares of kinds, confusions, kinds, truths and labels."""
        log_atoms = cp.class_blends(data.n_classes, self.blends, self.diluted)  # (S, K)
        log_kinds = pyro.sample("kinds", dist.Dirichlet(self.kind_strength * torch.ones(len(log_atoms)))).log()
        with cp.plates.annotators(data):
            prior = cp.confusion_prior(data, self.prior_strength, self.prior_accuracy)
            confusion = pyro.sample("confusion", dist.Dirichlet(prior).to_event(1))
        table = cp.through_blends(log_atoms, cp.with_abstentions(data, confusion.log()))  # (..., A, S, L)
        with cp.plates.items(data):
            kind = pyro.sample("kind", cp.Categorical(log_kinds), infer={"enumerate": "parallel"})
            cp.truth(data, log_atoms[kind])
            cp.annotate(data, table, kind)

    guide = mean_field
