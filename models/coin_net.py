"""COINNet: most items get labels by their annotators' habits, outliers get labels of their own making.

    rate              ~ Dirichlet(nominal, outlying)                         (2)
    confusion[a, k]   ~ Dirichlet(mass * row(k)), or around a crowd's that is learned    (A, K, K)
    truth[i]          ~ Categorical(network(features[i])), or of a learned prevalence    (N)
    outlier[i]        ~ Categorical(rate)                                    (N)
    shares[i]         ~ Dirichlet(spread), integrated out                    (N, K)
    label[i, a]       ~ Categorical(shares[i] if outlier[i] else confusion[a, truth[i]])

The published form, "penalised", has no priors but a crowd's; while its network learns, a label has probability
p(truth[i]) confusion[a] + e[i, a], with potentials -weight * mean over i of (sum over a of |e[i, a]|^2)^(power/2)
and volume * log det F'F a label, F a batch's predictions. Afterwards, and without features, there is no e.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import pyro
import pyro.distributions as dist
import torch
from torch import nn

import crowdppl
from crowdppl import Annotations, Block, Card, Categorical, annotate, confusion_prior, penalty, truth
from crowdppl.core.validation import NotNegative, Positive, Share, check_settings
from crowdppl.primitives import plates


@dataclass(frozen=True)
class CoinNet:
    """Dawid-Skene with a classifier, and items whose labels follow nobody's confusion matrix.

    Args:
        network, training: features to K logits, and settings of ``crowdppl.networks.training.Training`` by name.
        form, temper: "generative" or "penalised"; power of the labels' likelihood, below 1 where they err together.
        nominal, outlying, spread: pseudo-counts of other items, of outliers, and of a class in an outlier's shares.
        mass, diagonal, pooled: pseudo-counts of a row, its diagonal share; in their place, as the crowd has them.
        weight, power, volume: of the penalised form, as above, in units of a label's log-probability.
        lean: a penalised row starts as the softmax of this number on its diagonal and 0 beside it.
        n_labels: what ``prepare`` counts; nothing to be set by hand.
    """

    network: nn.Module | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    form: Literal["generative", "penalised"] = "generative"
    temper: Positive = 1.0
    nominal: Positive = 9.0
    outlying: Positive = 1.0
    spread: Positive = 1.0
    mass: Positive = 4.0
    diagonal: Share | None = None
    pooled: NotNegative = 0.0
    weight: NotNegative = 0.01
    power: Positive = 0.4
    volume: NotNegative = 0.01
    lean: float = 1.0
    n_labels: int = 0

    card: ClassVar[Card] = Card(
        title="COIN Net",
        reference="Nguyen, Ibrahim & Fu (2024), Noisy label learning with instance-dependent outliers, NeurIPS",
        sites={"prevalence": "K", "crowd": "K K", "confusion": "A K K", "rate": "2", "departure": "S K"}
        | {"abstention": "A D W", "truth": "N", "outlier": "N"},
        assumes="outliers are few, and their labels tell nothing of their truth",
        fails="with few labels an item (5 each: AUROC .55 for 2 classes, .6 for 3, even if all else is known, a "
        "rate of .3 to .5 for .15); penalised, where features leave classes in doubt (AUROC .89, else .97, of "
        "weight .3, which some folds prefer), and with many, which trade places (a lean of log K helps)",
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
        rows = torch.ones(k, k) if free else confusion_prior(data, self.mass * (not self.pooled), self.diagonal)
        rows = rows + crowdppl.crowd_rows(data, self.pooled)
        with plates.annotators(data):
            confusion = pyro.sample("confusion", dist.Dirichlet(rows).to_event(1))
        table: Any = confusion.log()
        if not free:
            rate = pyro.sample("rate", dist.Dirichlet(torch.tensor([float(self.nominal), float(self.outlying)])))
            table = torch.cat([table, torch.zeros(*table.shape[:-2], 1, k)], -2)
        elif network is not None:  # its scale is as good as no prior
            shift = pyro.sample("departure", dist.Normal(torch.zeros(self.n_labels, k), 100.0).to_event(2))
            if data.learning:
                penalty(data, "volume", -self.volume * crowdppl.log_volume(log_p.exp()))
                table = crowdppl.departed(data, log_p.exp(), confusion, shift, self.weight, self.power)
        table = crowdppl.with_abstentions(data, table)
        if free:
            return crowdppl.truth_and_labels(data, log_p, table, power=self.temper)
        log_rate, table = crowdppl.with_urn(data, rate.log(), table, self.spread, self.temper)
        with plates.items(data):
            state = truth(data, log_p)
            outlier = pyro.sample("outlier", Categorical(log_rate), infer={"enumerate": "parallel"})
            annotate(data, table, torch.where(outlier == 1, k, state), power=self.temper)

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
