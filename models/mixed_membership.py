"""Mixed membership: an item may lie between classes, and all annotators see the same in-between.

    kinds             ~ Dirichlet(kind_mass)                       (S)
    confusion[a, k]   ~ Dirichlet(mass * row(k))                   (A, K, K)
    kind[i]           ~ Categorical(kinds)                         (N)
    truth[i]          ~ Categorical(atom[kind[i]])                 (N)
    seen[i, a]        ~ Categorical(atom[kind[i]])                 one for each label
    label[i, a]       ~ Categorical(confusion[a, seen[i, a]])

Each of the S atoms is a fixed share of every class: a class alone, two classes in several blends, a class diluted
by all, and all evenly. The truth is one more look at the item, by somebody who does not err. An annotator's row(k)
holds the share ``diagonal`` on class k and the rest evenly; history adds to the prior.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyro
import pyro.distributions as dist
import torch

from crowdppl import (
    Block,
    Card,
    Categorical,
    annotate,
    class_atoms,
    confusion_prior,
    mean_field,
    through_atoms,
    truth,
    with_abstentions,
)
from crowdppl.core.validation import Positive, Share
from crowdppl.primitives import plates


@dataclass(frozen=True)
class MixedMembership:
    """Items between classes, so that an item's labels vary together and say less than as many looks would.

    Args:
        kind_mass: pseudo-counts of each atom.
        mass, diagonal: pseudo-counts of a confusion row, and the share of them on the right answer
            (by default half way between certainty and chance).
        blends: shares of the second class in blends of two; None takes five for up to five classes, fewer for more,
            and none beyond 50 (``crowdppl.class_atoms``).
        diluted: whether there are atoms diluted by all classes. Without them and without blends the method is
            bayesian_dawid_skene.
    """

    kind_mass: Positive = 1.0
    mass: Positive = 4.0
    diagonal: Share | None = None
    blends: tuple[float, ...] | None = None
    diluted: bool = True

    card: ClassVar[Card] = Card(
        title="Mixed membership",
        reference="this library; after Erosheva, Fienberg & Lafferty (2004), Mixed-membership models of scientific "
        "publications, PNAS 101",
        doi="10.1073/pnas.0307760101",
        sites={"kinds": "S", "confusion": "A K K", "abstention": "A D W", "kind": "N", "truth": "N"},
        assumes="what makes an item's labels err together is that the item lies between classes, most often two",
        fails="with about one label an item, from which blends cannot be told; when all annotators share a bias; "
        "where labels are independent given the truth its probabilities are too cautious",
        cost="(labels + items) x S, and annotators x S x K x K; S is 11, 40, 71, 111 for 2 to 5 classes",
        uses=("history",),
    )

    def model(self, data: Block) -> None:
        """Draws shares of kinds, confusions, kinds, truths and labels."""
        log_atoms = class_atoms(data.n_classes, self.blends, self.diluted)  # (S, K)
        log_kinds = pyro.sample("kinds", dist.Dirichlet(self.kind_mass * torch.ones(len(log_atoms)))).log()
        with plates.annotators(data):
            prior = confusion_prior(data, self.mass, self.diagonal)
            confusion = pyro.sample("confusion", dist.Dirichlet(prior).to_event(1))
        table = through_atoms(log_atoms, with_abstentions(data, confusion.log()))  # (..., A, S, L)
        with plates.items(data):
            kind = pyro.sample("kind", Categorical(log_kinds), infer={"enumerate": "parallel"})
            truth(data, log_atoms[kind])
            annotate(data, table, kind)

    def guide(self, data: Block) -> None:
        """Mean field, from the story's own sites."""
        mean_field(self, data)
