"""Hierarchical mixed membership: items may lie between classes, and annotators borrow strength from the crowd.

    kinds             ~ Dirichlet(kind_strength)                       (S)
    confusion[a, k]   in three levels: see cp.crowd_confusion    (A, K, K)
    kind[i]           ~ Categorical(kinds)                         (N)
    truth[i]          ~ Categorical(atom[kind[i]])                 (N)
    seen[i, a]        ~ Categorical(atom[kind[i]])                 one for each label
    label[i, a]       ~ Categorical(confusion[a, seen[i, a]])

Atoms, and the truth as one more look at the item, are those of mixed_membership.
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
class HierarchicalMixedMembership:
    """Items between classes, seen by annotators of whom many gave few labels.

    Args:
        kind_strength: pseudo-counts of each atom.
        concentration: pseudo-counts with which annotators' abilities scatter around the crowd's, and medians of those with
            which their classes scatter around their ability, and their errors around the crowd's.
        blends: shares of the second class in blends of two; None takes five for up to five classes, fewer for more,
            and none beyond 50 (``cp.class_blends``).
        diluted: whether there are atoms diluted by all classes.
    """

    kind_strength: cp.Positive = 1.0
    concentration: cp.Positive = 8.0
    blends: tuple[float, ...] | None = None
    diluted: bool = True

    card: ClassVar[cp.Card] = cp.Card(
        title="Hierarchical mixed membership",
        reference="this library; after Erosheva, Fienberg & Lafferty (2004), Mixed-membership models of scientific "
        "publications, PNAS 101, and Paun et al. (2018), Comparing Bayesian models of annotation, TACL 6",
        doi="10.1073/pnas.0307760101",
        sites={
            "kinds": "S",
            "skill": "",
            "alike_classes": "",
            "alike_errors": "",
            "errors": "K K",
            "ability": "A",
            "hit": "A K coin",
            "error": "A K other",
            "abstention": "A D W",
            "kind": "N",
            "truth": "N",
        },
        assumes="what makes an item's labels err together is that the item lies between classes, most often two; "
        "annotators differ in ability, and resemble one another in which classes they confuse",
        fails="with about one label an item, from which blends cannot be told; when all annotators share a bias; "
        "where labels are independent given the truth its probabilities are too cautious",
        cost="that of mixed_membership, and a search over A + K x K hyper-parameters without labels",
        uses=("history",),
    )

    def model(self, data: cp.Block) -> None:
        """Draws shares of kinds, confusions, kinds, truths and labels."""
        log_atoms = cp.class_blends(data.n_classes, self.blends, self.diluted)  # (S, K)
        log_kinds = pyro.sample("kinds", dist.Dirichlet(self.kind_strength * torch.ones(len(log_atoms)))).log()
        table = cp.through_blends(
            log_atoms, cp.with_abstentions(data, cp.crowd_confusion(data, self.concentration))
        )  # (..., A, S, L)
        with cp.plates.items(data):
            kind = pyro.sample("kind", cp.Categorical(log_kinds), infer={"enumerate": "parallel"})
            cp.truth(data, log_atoms[kind])
            cp.annotate(data, table, kind)

    def guide(self, data: cp.Block) -> None:
        """Mean field, from the story's own sites."""
        mean_field(self, data)
