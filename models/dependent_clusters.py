"""Dependent clusters: annotators of a group see an item through the same eyes.

    prevalence         ~ Dirichlet(prevalence_mass), or = 1 / K             (K)
    link[g, k]         ~ Dirichlet(link_mass * row(k))                      (G, 1, K, K)
    confusion[a, k]    ~ Dirichlet(mass * row(k))                           (A, K, K)
    truth[i]           ~ Categorical(prevalence)                            (N)
    opinion[g, i]      ~ Categorical(link[g, truth[i]])                     (1 + G, N)
    label[i, a]        ~ Categorical(confusion[a, opinion[group[a], i]])

row(k) holds a share on class k and the rest evenly; without a mass all concentrations are 1. History adds to
confusions. The link of an annotator alone is the identity, so that all who are alone make up group 0, whose opinion
is the truth, and G counts the groups of two and more. Without such a group the story is Dawid-Skene's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import pyro
import pyro.distributions as dist
import torch
from pyro.ops.indexing import Vindex
from torch import Tensor

import crowdppl
from crowdppl import Block, Card, Categorical, annotate, mean_field, truth
from crowdppl.core.validation import Positive, Share
from crowdppl.primitives import plates


def _row(mass: float | None, diagonal: float, k: int) -> tuple[float, float]:
    return (float(k), 1 / k) if mass is None else (mass, diagonal)


@dataclass(frozen=True)
class DependentClusters:
    """Groups of annotators with a hidden opinion between truth and labels.

    Args:
        groups: by annotator id (whoever is missing is alone), or in the order of annotator codes; None finds them.
        prevalence: "learned" or "uniform".
        prevalence_mass: pseudo-counts of each class, by default ``house_prevalence``; few let shares drift.
        mass, diagonal: pseudo-counts of a confusion row (None: flat), and their share on the right answer.
        link_mass, link_diagonal: the same for links.
    """

    groups: Mapping[Any, Any] | Sequence[int] | None = None
    prevalence: Literal["learned", "uniform"] = "learned"
    prevalence_mass: Positive | None = None
    mass: Positive | None = 1.8
    diagonal: Share = 0.61
    link_mass: Positive | None = 1.8
    link_diagonal: Share = 0.61
    plates: ClassVar[int] = 2
    card: ClassVar[Card] = Card(
        title="Dependent clusters",
        reference="Ibrahim, Traganitis, Fu & Giannakis (2025), tutorial on learning from crowds, ICASSP",
        sites={"prevalence": "K", "link": "G 1 K K", "confusion": "A K K", "abstention": "A D W"}
        | {"truth": "N", "opinion": "1+G N"},
        assumes="annotators of a group share what misleads them on an item; groups are independent given the truth",
        fails="when groups are wrong: a group of independent annotators has their weight pooled into one opinion",
        cost="labels x K, and items x groups x K x K",
        uses=("history",),
    )

    def prepare(self, data: Any) -> DependentClusters:
        """Writes groups as one whole number for each annotator, in the order of their codes."""
        return replace(self, groups=crowdppl.group_numbers(self.groups, data))

    def model(self, data: Block) -> None:
        """Draws links, confusions, truths, opinions and labels."""
        groups = self._codes(data)
        log_p = crowdppl.prevalence(data, self.prevalence, self.prevalence_mass)
        log_link = self._links(data.n_classes, max(groups))
        with plates.annotators(data):
            rows = dist.Dirichlet(crowdppl.confusion_prior(data, *_row(self.mass, self.diagonal, data.n_classes)))
            confusion = pyro.sample("confusion", rows.to_event(1))
        table = crowdppl.with_abstentions(data, confusion.log())
        with plates.items(data):
            opinion = truth(data, log_p)
            if max(groups) == 0:
                annotate(data, table, opinion)
                return
            with plates.groups(1 + max(groups)):
                seen = Categorical(Vindex(log_link)[..., opinion, :])
                opinion = pyro.sample("opinion", seen, infer={"enumerate": "parallel"})
                annotate(data, table, opinion, groups=groups)

    def guide(self, data: Block) -> None:
        """Mean field, from the story's own sites."""
        mean_field(self, data)

    def start(self, data: Block) -> dict[str, Tensor]:
        """Links and confusions that lean on the right answer: flat ones tie opinions to nothing."""
        rows, n_groups = crowdppl.leaning_rows(data.n_classes, 1.0, 0.75), max(self._codes(data))
        if n_groups == 0:
            return {}
        return {"confusion": rows.expand(data.n_annotators, -1, -1), "link": rows.expand(n_groups, 1, -1, -1)}

    def _links(self, k: int, n_groups: int) -> Tensor:
        """Log-links (..., 1 + G, 1, K, K), the identity first."""
        same = torch.eye(k)
        if n_groups == 0:
            return same.log()
        prior = crowdppl.leaning_rows(k, *_row(self.link_mass, self.link_diagonal, k))
        with pyro.plate("linked", n_groups, dim=-2):
            link = pyro.sample("link", dist.Dirichlet(prior).to_event(1)).log()
        return torch.cat([same.log().expand(*link.shape[:-4], 1, 1, k, k), link], -4)

    def _codes(self, data: Any) -> tuple[int, ...]:
        """0 for annotators who are alone; 1 to G for members of groups of two and more."""
        numbers = crowdppl.group_numbers(self.groups, data)
        sizes, codes = Counter(numbers), dict[int, int]()
        return tuple(codes.setdefault(g, len(codes) + 1) if sizes[g] > 1 else 0 for g in numbers)
