"""COINNet: most items get labels by their annotators' habits, outliers get labels of their own making.

    rate              ~ Dirichlet(nominal, outlying)                         (2)
    confusion[a, k]   ~ Dirichlet(prior_strength * row(k)), or around a crowd's that is learned    (A, K, K)
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
import crowdppl.primitives as cp
from crowdppl import Annotations, networks


@dataclass(frozen=True)
class CoinNet:
    """Dawid-Skene with a classifier, and items whose labels follow nobody's confusion matrix.

    Args:
        network, training: features to K logits, and settings of ``crowdppl.networks.training.Training`` by name.
        form, likelihood_power: "generative" or "penalised"; power of the labels' likelihood, below 1 where they err together.
        nominal, outlying, spread: pseudo-counts of other items, of outliers, and of a class in an outlier's shares.
        prior_strength, prior_accuracy, crowd_prior_strength: pseudo-counts of a row, its diagonal share; in their place, as the crowd has them.
        weight, power, volume: of the penalised form, as above, in units of a label's log-probability.
        init_diagonal: a penalised row starts as the softmax of this number on its diagonal and 0 beside it.
        n_labels: what ``setup`` counts; nothing to be set by hand.
    """

    network: nn.Module | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    form: Literal["generative", "penalised"] = "generative"
    likelihood_power: cp.Positive = 1.0
    nominal: cp.Positive = 9.0
    outlying: cp.Positive = 1.0
    spread: cp.Positive = 1.0
    prior_strength: cp.Positive = 4.0
    prior_accuracy: cp.Share | None = None
    crowd_prior_strength: cp.NotNegative = 0.0
    weight: cp.NotNegative = 0.01
    power: cp.Positive = 0.4
    volume: cp.NotNegative = 0.01
    init_diagonal: float = 1.0
    n_labels: int = 0

    card: ClassVar[cp.Card] = cp.Card(
        title="COIN Net",
        reference="Nguyen, Ibrahim & Fu (2024), Noisy label learning with instance-dependent outliers, NeurIPS",
        sites={"prevalence": "K", "crowd": "K K", "confusion": "A K K", "rate": "2", "departure": "S K"}
        | {"abstention": "A D W", "truth": "N", "outlier": "N"},
        assumes="outliers are few, and their labels tell nothing of their truth",
        fails="with few labels an item (5 each: AUROC .55 for 2 classes, .6 for 3, even if all else is known, a "
        "rate of .3 to .5 for .15); penalised, where features leave classes in doubt (AUROC .89, else .97, of "
        "weight .3, which some folds prefer), and with many, which trade places (init_diagonal=log K helps)",
        cost="labels x K; penalised: a shift of every label in every step",
        uses=("features", "history"),
    )

    def __post_init__(self) -> None:
        cp.check_settings(self)
        if self.form == "penalised":
            refused = dict.fromkeys(("em", "vb", "gibbs", "nuts"), "the penalised form learns by gradients: svi")
            object.__setattr__(self, "card", replace(self.card, refused=refused, uses=("features",)))

    def setup(self, data: Annotations) -> CoinNet:
        """A copy with a network for these features, and a count of the labels."""
        return replace(self, network=networks.prepared(self.network, data, self.training), n_labels=data.n_labels)

    def model(self, data: cp.Block) -> None:
        """Draws confusions, truths, outliers or departures, and labels."""
        k, free, network = data.n_classes, self.form == "penalised", self.network
        log_p = cp.prevalence(data, "learned", None) if network is None else networks.class_logits(data, network)
        rows = (
            torch.ones(k, k)
            if free
            else cp.confusion_prior(
                data, self.prior_strength * (not self.crowd_prior_strength), self.prior_accuracy
            )
        )
        rows = rows + cp.crowd_rows(data, self.crowd_prior_strength)
        with cp.plates.annotators(data):
            confusion = pyro.sample("confusion", dist.Dirichlet(rows).to_event(1))
        table: Any = confusion.log()
        if not free:
            rate = pyro.sample("rate", dist.Dirichlet(torch.tensor([float(self.nominal), float(self.outlying)])))
            table = torch.cat([table, torch.zeros(*table.shape[:-2], 1, k)], -2)
        elif network is not None:  # its scale is as good as no prior
            shift = pyro.sample("departure", dist.Normal(torch.zeros(self.n_labels, k), 100.0).to_event(2))
            if data.trains_networks:
                cp.penalty(data, "volume", -self.volume * networks.log_volume(log_p.exp()))
                table = cp.label_offsets(data, log_p.exp(), confusion, shift, self.weight, self.power)
        table = cp.with_abstentions(data, table)
        if free:
            return cp.truth_and_labels(data, log_p, table, power=self.likelihood_power)
        log_rate, table = cp.with_dirichlet_multinomial(data, rate.log(), table, self.spread, self.likelihood_power)
        with cp.plates.items(data):
            state = cp.truth(data, log_p)
            outlier = pyro.sample("outlier", cp.Categorical(log_rate), infer={"enumerate": "parallel"})
            cp.annotate(data, table, torch.where(outlier == 1, k, state), power=self.likelihood_power)

    def guide(self, data: cp.Block) -> None:
        """Mean field; of the penalised form points."""
        points = None
        if self.form == "penalised":
            rows = (self.init_diagonal * torch.eye(data.n_classes)).softmax(-1).repeat(data.n_annotators, 1, 1)
            points = {"confusion": pyro.param("q.confusion", rows, constraint=dist.constraints.simplex)}
            if self.network is not None:  # divided, so that departures learn at the network's rate
                shift = pyro.param("q.departure", torch.zeros(self.n_labels, data.n_classes))
                points["departure"] = shift / self.training.get("annotator_rate", 10.0)
        crowdppl.mean_field(self, data, point=points is not None, points=points)
