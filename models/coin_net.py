"""COINNet: most items get labels by their annotators' habits, outliers get labels of their own making.

    rate              ~ Dirichlet(nominal, outlying)                                     (2)
    confusion[a, k]   ~ Dirichlet(prior_strength * row(k)),                              (A, K, K)
                        or Dirichlet(crowd_prior_strength * crowd[k])
    truth[i]          ~ Categorical(network(features[i])), or of a learned prevalence    (N)
    outlier[i]        ~ Categorical(rate)                                                (N)
    shares[i]         ~ Dirichlet(spread), integrated out                                (N, K)
    label[i, a]       ~ Categorical(shares[i] if outlier[i] else confusion[a, truth[i]])

The published form, "penalised", has no prior but the crowd's. While its network learns, a label has probability
p(truth[i]) confusion[a] + e[i, a], and there are potentials, once for each label:

    -weight * mean over i of (sum over a of |e[i, a]|^2)^(power / 2)
    volume * log det F'F, where F holds a batch's predictions

Afterwards, and without features, e is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor, nn

import crowdppl.primitives as cp
from crowdppl import Annotations, mean_field, networks

LEAST = 1e-10
"""Smallest probability of a label, and what is added to a square before its root."""


@dataclass(frozen=True)
class CoinNet:
    """Dawid-Skene with a classifier, and items whose labels follow nobody's confusion matrix.

    Args:
        network, training: features to K logits, and settings of ``crowdppl.networks.training.Training`` by name.
        form: "generative" or "penalised".
        likelihood_power: power of the labels' likelihood; below 1, the labels of an item count for less.
        nominal, outlying: pseudo-counts of other items and of outliers.
        spread: pseudo-counts of a class in an outlier's shares.
        prevalence_strength: pseudo-counts of each class, by default ``default_prevalence``; without a network.
        prior_strength, prior_accuracy: pseudo-counts of a confusion row, and their share on the correct label.
        crowd_prior_strength: pseudo-counts of a confusion row that follow the crowd's row, in place of these.
        weight, power, volume: of the penalised form, as above, in units of a label's log-probability.
        init_diagonal: a penalised row starts as the softmax of this number on its diagonal and 0 elsewhere; by
            default log K, at least 1 (published: 1).
        n_labels: what ``setup`` counts; not to be set by hand.
    """

    network: nn.Module | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    form: Literal["generative", "penalised"] = "generative"
    likelihood_power: cp.Positive = 1.0
    nominal: cp.Positive = 9.0
    outlying: cp.Positive = 1.0
    spread: cp.Positive = 1.0
    prevalence_strength: cp.Positive | None = None
    prior_strength: cp.Positive = 4.0
    prior_accuracy: cp.Share | None = None
    crowd_prior_strength: cp.NotNegative = 0.0
    weight: cp.NotNegative = 0.01
    power: cp.Positive = 0.4
    volume: cp.NotNegative = 0.01
    init_diagonal: float | None = None
    n_labels: int = 0

    card: ClassVar[cp.Card] = cp.Card(
        title="COIN Net",
        reference="Nguyen, Ibrahim & Fu (2024), Noisy label learning with instance-dependent outliers, NeurIPS",
        sites={"prevalence": "K", "crowd": "K K", "confusion": "A K K", "rate": "2", "departure": "S K"}
        | {"abstention": "A D W", "truth": "N", "outlier": "N"},
        prevalence="prevalence",
        assumes="outliers are few, and their labels carry no information on their truth",
        fails="with few labels per item, which do not identify outliers; in the penalised form also where features "
        "leave classes in doubt, and with many classes from the published start (init_diagonal = 1)",
        cost="labels x K; penalised: a shift of every label in every step",
        uses=("features", "history"),
    )

    def __post_init__(self) -> None:
        cp.check_settings(self)
        if self.form == "penalised":
            why = "the penalised form learns by gradients: svi"
            object.__setattr__(self, "card", replace(self.card, only=("svi",), because=why, uses=("features",)))

    def setup(self, data: Annotations) -> CoinNet:
        """A copy with a network for these features, a count of the labels and the prevalence's strength."""
        strength = self.prevalence_strength or cp.default_prevalence(data)
        network = networks.prepared(self.network, data, self.training)
        return replace(self, network=network, n_labels=data.n_labels, prevalence_strength=strength)

    def model(self, data: cp.Block) -> None:
        """Draws confusions, truths, outliers or departures, and labels."""
        k, network = data.n_classes, self.network
        log_p = (
            cp.prevalence(data, "learned", self.prevalence_strength)
            if network is None
            else networks.class_logits(data, network)
        )
        rows = torch.ones(k, k)
        if self.form == "generative":
            own = 0.0 if self.crowd_prior_strength else self.prior_strength
            rows = cp.confusion_prior(data, own, self.prior_accuracy)
        rows = rows + cp.crowd_rows(data, self.crowd_prior_strength)
        with cp.plates.annotators(data):
            confusion = pyro.sample("confusion", dist.Dirichlet(rows).to_event(1))
        if self.form == "penalised":
            table = cp.with_abstentions(data, self._with_departures(data, log_p, confusion))
            cp.truth_and_labels(data, log_p, table, power=self.likelihood_power)
            return
        rate = pyro.sample("rate", dist.Dirichlet(torch.tensor([float(self.nominal), float(self.outlying)])))
        log_label = confusion.log()
        log_label = torch.cat([log_label, torch.zeros(*log_label.shape[:-2], 1, k)], -2)  # state k: an outlier
        table = cp.with_abstentions(data, log_label)
        log_rate, table = with_dirichlet_multinomial(data, rate.log(), table, self.spread, self.likelihood_power)
        with cp.plates.items(data):
            state = cp.truth(data, log_p)
            outlier = pyro.sample("outlier", cp.Categorical(log_rate), infer={"enumerate": "parallel"})
            cp.annotate(data, table, torch.where(outlier == 1, k, state), power=self.likelihood_power)

    def guide(self, data: cp.Block) -> None:
        """Mean field; of the penalised form points."""
        points = None
        if self.form == "penalised":
            lean = max(1.0, math.log(data.n_classes)) if self.init_diagonal is None else self.init_diagonal
            rows = (lean * torch.eye(data.n_classes)).softmax(-1).repeat(data.n_annotators, 1, 1)
            points = {"confusion": pyro.param("q.confusion", rows, constraint=dist.constraints.simplex)}
            if self.network is not None:  # divided, so that departures learn at the network's rate
                shift = pyro.param("q.departure", torch.zeros(self.n_labels, data.n_classes))
                points["departure"] = shift / self.training.get("annotator_rate", 10.0)
        mean_field(self, data, point=points is not None, points=points)

    def _with_departures(self, data: cp.Block, log_p: Tensor, confusion: Tensor) -> Any:
        """The table of labels of the penalised form; while a network learns, with the departures e."""
        if self.network is None:
            return confusion.log()
        flat = dist.Normal(torch.zeros(self.n_labels, data.n_classes), 100.0)  # as good as no prior
        shift = pyro.sample("departure", flat.to_event(2))
        if not data.trains_networks:
            return confusion.log()
        block, p = data.as_block(), log_p.exp()
        cp.penalty(block, "volume", -self.volume * networks.log_volume(p))
        shift = shift.reshape(*confusion.shape[:-3], *shift.shape[-2:])  # without a dimension for plates
        shift = shift if block.entries is None else shift[..., block.entries, :]  # of the labels of a minibatch
        e = shift - shift.mean(-1, keepdim=True)
        square = block.sum_by_item(e.square().sum(-1))
        cp.penalty(block, "outliers", self.weight * (square + LEAST).pow(self.power / 2).mean(-1, keepdim=True))
        known = p if block.potential is None else (p.log() + block.potential.to(p.dtype)).softmax(-1)
        own, each = block.of_annotator(confusion, event_dim=2), block.of_item(known, event_dim=1)
        share = ((each.unsqueeze(-2) @ own).squeeze(-2) + e).clamp(LEAST, 1 - LEAST)
        log_label = (share / share.sum(-1, keepdim=True)).log()  # (S, K), whatever the truth
        return lambda answer: log_label.gather(-1, answer.unsqueeze(-1)).expand(*log_label.shape)


def log_dirichlet_multinomial(data: cp.Block, spread: float) -> Tensor:
    """Log-probability (N,) of all labels of each item, their shares integrated out (Polya's urn).

    ``prod_k Gamma(c + n_k) / Gamma(c) * Gamma(K c) / Gamma(K c + n)``, with c = ``spread`` and n_k labels of class
    k, n in all. Abstentions do not count.
    """
    k, n = data.n_classes, data.vote_counts()
    total = n.sum(-1)
    counts = torch.arange(int(total.max()) + 1 if len(total) else 1, device=n.device)
    return _log_rising(spread, counts)[n].sum(-1) - _log_rising(k * spread, counts)[total]


def _log_rising(c: float, n: Tensor) -> Tensor:
    """Log of c (c + 1) ... (c + n - 1)."""
    start = torch.as_tensor(c, dtype=torch.get_default_dtype(), device=n.device)
    return torch.lgamma(start + n) - torch.lgamma(start)


def with_dirichlet_multinomial(
    data: cp.Block, log_rate: Tensor, table: Tensor, spread: float, power: float = 1.0
) -> tuple[Tensor, Tensor | Callable[[Tensor], Tensor]]:
    """Lets an outlier's labels follow shares of its own: log-weights (..., N, 2), and the table for ``annotate``.

    Observed labels are scored together, in the weight of being an outlier; others are drawn from drawn shares.
    ``log_rate`` is (..., 2); ``table`` (..., A, K + 1, L) is 0 for every class in the last state.
    """
    block = data.as_block()
    if block.has_labels:
        urn = log_dirichlet_multinomial(block, spread) * (power if block.uses_power else 1.0)
        return log_rate + torch.stack([torch.zeros_like(urn), urn], -1), table
    even = spread * torch.ones(block.n_classes, device=block.device)
    shares = torch.distributions.Dirichlet(even).sample((block.n_items,))
    by_state = cp.each_label(block.of_annotator(table, event_dim=2))
    own = block.of_item(shares.log(), event_dim=1)

    def log_label(answer: Tensor) -> Tensor:
        given = by_state(answer)
        share = own.gather(-1, answer.clamp(max=block.n_classes - 1).unsqueeze(-1))
        share = torch.where(answer.unsqueeze(-1) < block.n_classes, share, torch.zeros_like(share))
        return torch.cat([given[..., :-1], given[..., -1:] + share], -1)

    return log_rate, log_label
