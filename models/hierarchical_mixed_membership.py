"""Hierarchical mixed membership: items may lie between classes, and annotators borrow strength from the crowd.

    kinds             ~ Dirichlet(kind_strength)                                               (S)
    skill             ~ Beta(6, 2)                              accuracy of the crowd          ()
    errors[k]         ~ Dirichlet(2)                            where the crowd errs           (K, K)
    alike_classes, alike_errors ~ LogNormal(log concentration, 1)                              ()
    ability[a]        ~ Beta(concentration * (skill, 1 - skill))                               (A)
    hit[a, k]         ~ Dirichlet(alike_classes * (ability[a], 1 - ability[a]))                (A, K, 2)
    error[a, k]       ~ Dirichlet(alike_errors * errors[k] without k)                          (A, K, K - 1)
    confusion[a, k]   = hit[a, k, 0] on k, else hit[a, k, 1] * error[a, k]                     (A, K, K)
    kind[i]           ~ Categorical(kinds)                                                     (N)
    truth[i]          ~ Categorical(atom[kind[i]])                                             (N)
    seen[i, a]        ~ Categorical(atom[kind[i]])              one for each label
    label[i, a]       ~ Categorical(confusion[a, seen[i, a]])

Atoms, and the truth as one more look at the item, are those of mixed_membership. An annotator's row of a class that
they saw seldom follows how they did with other classes, and which errors the crowd makes there. ``error`` and its
parents exist for three classes and more. History adds to ``hit`` and ``error``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor

import crowdppl.primitives as cp
from crowdppl import mean_field

TINY = 1e-3
"""Added to concentrations, which must not be 0."""


@dataclass(frozen=True)
class HierarchicalMixedMembership:
    """Items between classes, seen by annotators of whom many gave few labels.

    Args:
        kind_strength: pseudo-counts of each atom.
        concentration: pseudo-counts with which annotators' abilities scatter around the crowd's, and medians of
            those with which their classes scatter around their ability, and their errors around the crowd's. Those
            of abilities are not learned: labels hardly identify them, and mean field makes all abilities equal.
        blends: shares of the second class in blends of two. None takes five for up to five classes, fewer for more,
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
        sites={"kinds": "S", "skill": "", "alike_classes": "", "alike_errors": "", "errors": "K K"}
        | {"ability": "A", "hit": "A K coin", "error": "A K other"}
        | {"abstention": "A D W", "kind": "N", "truth": "N"},
        assumes="the labels of an item err together because the item lies between classes, most often two; "
        "annotators differ in ability, and resemble one another in which classes they confuse",
        fails="with about one label per item, which does not identify blends, and when annotators share a bias; "
        "where labels are independent given the truth, its probabilities are too cautious",
        cost="that of mixed_membership, and a search over A + K x K hyper-parameters without labels",
        uses=("history",),
    )

    def model(self, data: cp.Block) -> None:
        """Draws shares of kinds, confusions, kinds, truths and labels."""
        log_atoms = cp.class_blends(data.n_classes, self.blends, self.diluted)  # (S, K)
        log_kinds = pyro.sample("kinds", dist.Dirichlet(self.kind_strength * torch.ones(len(log_atoms)))).log()
        log_confusion = self._confusion(data)
        table = cp.through_blends(log_atoms, cp.with_abstentions(data, log_confusion))  # (..., A, S, L)
        with cp.plates.items(data):
            kind = pyro.sample("kind", cp.Categorical(log_kinds), infer={"enumerate": "parallel"})
            cp.truth(data, log_atoms[kind])
            cp.annotate(data, table, kind)

    guide = mean_field

    def _confusion(self, data: cp.Block) -> Tensor:
        """Draws confusion rows in three levels: log-probabilities (..., A, K, K) [annotator, truth, label]."""
        k, history = data.n_classes, data.history
        alike, median = self.concentration, torch.tensor(math.log(self.concentration))
        skill = pyro.sample("skill", dist.Beta(torch.tensor(6.0), torch.tensor(2.0)))
        alike_classes = pyro.sample("alike_classes", dist.LogNormal(median, 1.0))
        if k > 2:
            errors = pyro.sample("errors", dist.Dirichlet(torch.full((k, k), 2.0)).to_event(1))
            alike_errors = pyro.sample("alike_errors", dist.LogNormal(median, 1.0))
        with cp.plates.annotators(data):
            ability = pyro.sample("ability", dist.Beta(alike * skill + TINY, alike * (1 - skill) + TINY))
            coin = alike_classes[..., None, None] * torch.stack([ability, 1 - ability], -1)[..., None, :] + TINY
            coin = coin.expand(*coin.shape[:-2], k, 2)
            if history is not None:
                coin = coin + cp.coin_counts(history, by_class=True).to(coin)
            hit = pyro.sample("hit", dist.Dirichlet(coin).to_event(1)).log()
            if k == 2:
                return _rows(hit, torch.zeros_like(hit[..., 1:]))
            wrong = _without_diagonal(errors)
            wrong = alike_errors[..., None, None] * wrong / wrong.sum(-1, keepdim=True) + TINY
            if history is not None:
                wrong = wrong + _without_diagonal(history).to(wrong)
            return _rows(hit, pyro.sample("error", dist.Dirichlet(wrong).to_event(1)).log())


def _without_diagonal(x: Tensor) -> Tensor:
    """(..., K, K) to (..., K, K - 1): the other classes of each row, in order."""
    k = x.shape[-1]
    other = (1 - torch.eye(k, device=x.device)).nonzero()[:, 1].reshape(k, k - 1)
    return x.gather(-1, other.expand(*x.shape[:-1], k - 1))


def _rows(hit: Tensor, error: Tensor) -> Tensor:
    """Log rows (..., K, K) from those of being right or wrong (..., K, 2) and of errors (..., K, K - 1)."""
    k = hit.shape[-2]
    truth, label = torch.arange(k, device=hit.device)[:, None], torch.arange(k, device=hit.device)
    place = (label - (label > truth).long()).clamp(max=k - 2)  # of a label among the errors of a row
    wrong = hit[..., 1:] + error.gather(-1, place.expand(*error.shape[:-1], k))
    return torch.where(truth == label, hit[..., :1], wrong)
