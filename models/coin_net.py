"""COINNet: most items get labels by their annotators' habits, outliers get labels of their own making.

    rate              ~ Dirichlet(nominal, outlying)                         (2)
    confusion[a, k]   ~ Dirichlet(mass * row(k))                             (A, K, K)
    truth[i]          ~ Categorical(network(features[i])), or of a learned prevalence    (N)
    outlier[i]        ~ Categorical(rate)                                    (N)
    shares[i]         ~ Dirichlet(spread), integrated out                    (N, K)
    label[i, a]       ~ Categorical(shares[i] if outlier[i] else confusion[a, truth[i]])

The published form, "penalised", has no priors; while its network learns, a label has probability
p(truth[i]) confusion[a] + e[i, a], with potentials -weight * mean over i of (sum over a of |e[i, a]|^2)^(power/2)
and volume * log det F'F a label, F a batch's predictions. Afterwards, and without features, there is no e.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor, nn

import crowdppl
from crowdppl import Annotations, Block, Card, Categorical, annotate, penalty, plates, truth
from crowdppl.settings import NotNegative, Positive, Share, check_settings


@dataclass(frozen=True)
class CoinNet:
    """Dawid-Skene with a classifier, and items whose labels follow nobody's confusion matrix.

    Args:
        network: maps features to K logits; by default one hidden layer. A fit trains a copy.
        training: settings of ``crowdppl.networks.training.Training`` by name, such as ``{"epochs": 60}``.
        form: "generative" or "penalised".
        nominal, outlying: pseudo-counts of items that are no outliers, and of outliers.
        spread, mass, diagonal: pseudo-counts of a class in an outlier's shares, of a row, and its diagonal share.
        weight, power, volume: of the penalised form, as above, in units of a label's log-probability.
        lean: a penalised row starts as the softmax of this number on its diagonal and 0 beside it.
        n_labels: what ``prepare`` counts; nothing to be set by hand.
    """

    network: nn.Module | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    form: Literal["generative", "penalised"] = "generative"
    nominal: Positive = 9.0
    outlying: Positive = 1.0
    spread: Positive = 1.0
    mass: Positive = 4.0
    diagonal: Share | None = None
    weight: NotNegative = 0.01
    power: Positive = 0.4
    volume: NotNegative = 0.01
    lean: float = 1.0
    n_labels: int = 0

    card: ClassVar[Card] = Card(
        title="COIN Net",
        reference="Nguyen, Ibrahim & Fu (2024), Noisy label learning with instance-dependent outliers, NeurIPS",
        sites={"prevalence": "K", "confusion": "A K K", "rate": "2", "departure": "S K", "abstention": "A D W"}
        | {"truth": "N", "outlier": "N"},
        assumes="outliers are few, and their labels tell nothing of their truth",
        fails="with few labels an item; penalised, with many classes, which trade places (a lean of log K helps)",
        cost="labels x K; penalised: a shift of every label in every step",
        uses=("features", "history"),
    )

    def __post_init__(self) -> None:
        check_settings(self)
        if self.form == "penalised":
            refused = dict.fromkeys(("em", "vb", "gibbs", "nuts"), "the penalised form learns by gradients: svi")
            object.__setattr__(self, "card", replace(self.card, refused=refused, uses=("features",)))

    def prepare(self, data: Annotations) -> CoinNet:
        """A copy with a network for these features, and a count of the labels."""
        return replace(self, network=crowdppl.ready(self.network, data, self.training), n_labels=data.n_labels)

    def model(self, data: Block) -> None:
        """Draws confusions, truths, outliers or departures, and labels."""
        k, free, network = data.n_classes, self.form == "penalised", self.network
        log_p = crowdppl.prevalence(data, "learned", None) if network is None else crowdppl.classify(data, network)
        with plates.annotators(data):
            rows = torch.ones(k, k) if free else crowdppl.confusion_prior(data, self.mass, self.diagonal)
            confusion = pyro.sample("confusion", dist.Dirichlet(rows).to_event(1))
        if free:
            table = crowdppl.with_abstentions(data, self._departing(data, log_p, confusion))
            crowdppl.truth_and_labels(data, log_p, table)
            return
        rate = pyro.sample("rate", dist.Dirichlet(torch.tensor([float(self.nominal), float(self.outlying)]))).log()
        states = torch.cat([confusion.log(), torch.zeros(*confusion.shape[:-2], 1, k)], -2)
        rate, table = crowdppl.with_urn(data, rate, crowdppl.with_abstentions(data, states), self.spread)
        with plates.items(data):
            state = truth(data, log_p)
            outlier = pyro.sample("outlier", Categorical(rate), infer={"enumerate": "parallel"})
            annotate(data, table, torch.where(outlier == 1, k, state))

    def guide(self, data: Block) -> None:
        """Mean field; of the penalised form points."""
        points = None
        if self.form == "penalised":
            rows = (self.lean * torch.eye(data.n_classes)).softmax(-1).repeat(data.n_annotators, 1, 1)
            points = {"confusion": pyro.param("q.confusion", rows, constraint=dist.constraints.simplex)}
            if self.network is not None:  # divided, so that departures learn at the network's rate
                shift = pyro.param("q.departure", torch.zeros(self.n_labels, data.n_classes))
                points["departure"] = shift / self.training.get("annotator_rate", 10.0)
        crowdppl.mean_field(self, data, point=points is not None, points=points)

    def _departing(self, data: Block, log_p: Tensor, confusion: Tensor) -> Tensor | Callable[[Tensor], Tensor]:
        """How penalised labels come out: while the network learns, each departs by a shift of its own."""
        if self.network is not None:
            free = dist.Normal(torch.zeros(self.n_labels, data.n_classes), 100.0)  # as good as no prior
            shift = pyro.sample("departure", free.to_event(2))
        if not data.learning:
            return confusion.log()
        penalty(data, "volume", -self.volume * crowdppl.log_volume(log_p.exp()))
        return crowdppl.departed(data, log_p.exp(), confusion, shift, self.weight, self.power)
