"""Dependent clusters: annotators of a group share an opinion of each item, which may be wrong.

    prevalence         ~ Dirichlet(prevalence_strength), or = 1 / K         (K)
    link[g, k]         ~ Dirichlet(link_strength * row(k))                  (G, 1, K, K)
    confusion[a, k]    ~ Dirichlet(prior_strength * row(k))                 (A, K, K)
    truth[i]           ~ Categorical(prevalence)                            (N)
    opinion[g, i]      ~ Categorical(link[g, truth[i]])                     (1 + G, N)
    label[i, a]        ~ Categorical(confusion[a, opinion[group[a], i]])

row(k) puts an accuracy on class k and spreads the rest evenly; without a strength all concentrations are 1. History
adds to confusions. Annotators who are alone make up group 0, whose opinion is the truth; G counts the groups of two
and more. Without such a group the model is Dawid-Skene's. With a network and features, the network is the truth's
prior, truth[i] ~ Categorical(network(features[i])), in place of a prevalence; without groups that is Raykar's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import pyro
import pyro.distributions as dist
import torch
from pyro.ops.indexing import Vindex
from torch import Tensor, nn

import crowdppl.primitives as cp
from crowdppl import mean_field, networks


@dataclass(frozen=True)
class DependentClusters:
    """Groups of annotators with a hidden opinion between truth and labels.

    Args:
        groups: by annotator id (who is left out is alone), or in the order of annotator codes; None finds them.
        n_groups: how many groups to find, those of one annotator included; None finds their number.
        prevalence: "learned" or "uniform".
        prevalence_strength: pseudo-counts of each class, by default ``default_prevalence``.
        prior_strength: pseudo-counts of a confusion row; None is a flat prior.
        prior_accuracy: share of them on the correct label.
        link_strength, link_accuracy: the same for links.
        network: maps features to K logits, or "default" for one hidden layer. The fit trains a copy.
        training: settings of ``crowdppl.networks.training.Training`` by name, such as ``{"epochs": 60}``.
    """

    groups: Mapping[Any, Any] | Sequence[int] | None = None
    n_groups: cp.Count | None = None
    prevalence: Literal["learned", "uniform"] = "learned"
    prevalence_strength: cp.Positive | None = None
    prior_strength: cp.Positive | None = 1.8
    prior_accuracy: cp.Share = 0.61
    link_strength: cp.Positive | None = 1.8
    link_accuracy: cp.Share = 0.61
    network: nn.Module | Literal["default"] | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    plates: ClassVar[int] = 2
    card: ClassVar[cp.Card] = cp.Card(
        title="Dependent clusters",
        reference="Ibrahim, Traganitis, Fu & Giannakis (2025), tutorial on learning from crowds, ICASSP",
        sites={"prevalence": "K", "link": "G 1 K K", "confusion": "A K K", "abstention": "A D W"}
        | {"truth": "N", "opinion": "1+G N"},
        prevalence="prevalence",
        assumes="annotators of a group share what misleads them on an item; groups are independent given the truth",
        fails="when groups are wrong: independent annotators put into one group count as a single opinion",
        cost="labels x K, and items x groups x K x K",
        uses=("history",),
    )

    def __post_init__(self) -> None:
        cp.check_settings(self)
        if self.network is not None:
            object.__setattr__(self, "card", replace(self.card, uses=("features", *self.card.uses)))

    def setup(self, data: Any) -> DependentClusters:
        """A copy with each annotator's group, the strength of the prevalence's prior, and a network if wanted."""
        own = None if isinstance(self.network, str) else self.network
        network = None if self.network is None else networks.prepared(own, data, self.training)
        groups = cp.group_codes(self.groups, data, self.n_groups)
        strength = self.prevalence_strength or cp.default_prevalence(data)
        return replace(self, groups=groups, n_groups=None, prevalence_strength=strength, network=network)

    def model(self, data: cp.Block) -> None:
        """Draws links, confusions, truths, opinions and labels."""
        groups = self._codes(data)
        n_groups, k = max(groups), data.n_classes
        if isinstance(self.network, nn.Module):
            log_p = networks.class_logits(data, self.network)
        else:
            log_p = cp.prevalence(data, self.prevalence, self.prevalence_strength)
        log_link = self._links(k, n_groups)
        with cp.plates.annotators(data):
            rows = cp.confusion_prior(data, *_row(self.prior_strength, self.prior_accuracy, k))
            confusion = pyro.sample("confusion", dist.Dirichlet(rows).to_event(1))
        table = cp.with_abstentions(data, confusion.log())
        with cp.plates.items(data):
            truth = cp.truth(data, log_p)
            if n_groups == 0:
                cp.annotate(data, table, truth)
                return
            with cp.plates.annotator_groups(1 + n_groups):
                seen = cp.Categorical(Vindex(log_link)[..., truth, :])
                opinion = pyro.sample("opinion", seen, infer={"enumerate": "parallel"})
                cp.annotate(data, table, opinion, groups=groups)

    guide = mean_field

    def init(self, data: cp.Block) -> dict[str, Tensor]:
        """Links and confusions better than chance: flat ones tie opinions to nothing."""
        rows, n_groups = cp.diagonal_prior(data.n_classes, 1.0, 0.75), max(self._codes(data))
        if n_groups == 0:
            return {}
        return {"confusion": rows.expand(data.n_annotators, -1, -1), "link": rows.expand(n_groups, 1, -1, -1)}

    def _links(self, k: int, n_groups: int) -> Tensor:
        """Log-links (..., 1 + G, 1, K, K), the identity of group 0 first."""
        same = torch.eye(k)
        if n_groups == 0:
            return same.log()
        prior = cp.diagonal_prior(k, *_row(self.link_strength, self.link_accuracy, k))
        with pyro.plate("linked", n_groups, dim=-2):
            link = pyro.sample("link", dist.Dirichlet(prior).to_event(1)).log()
        return torch.cat([same.log().expand(*link.shape[:-4], 1, 1, k, k), link], -4)

    def _codes(self, data: Any) -> tuple[int, ...]:
        """0 for annotators who are alone; 1 to G for members of groups of two and more."""
        numbers = cp.group_codes(self.groups, data, self.n_groups)
        sizes, codes = Counter(numbers), dict[int, int]()
        return tuple(codes.setdefault(g, len(codes) + 1) if sizes[g] > 1 else 0 for g in numbers)


def _row(strength: float | None, accuracy: float, k: int) -> tuple[float, float]:
    """Strength and accuracy of a row's prior; those of a flat one without a strength."""
    return (float(k), 1 / k) if strength is None else (strength, accuracy)
