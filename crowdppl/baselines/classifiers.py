"""Classifiers that learn from all labels by a loss, without a model of how labels come about."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from crowdppl.baselines.aggregation import Aggregation, class_votes, labelled
from crowdppl.core.devices import default_dtype, seeded
from crowdppl.core.validation import number_within, seed_number, switch
from crowdppl.data.annotations import Annotations
from crowdppl.data.features import Features, feature_tensor, read_stored
from crowdppl.errors import DataError, MethodError, NumericalError
from crowdppl.inference.neural.learner import batch_sizes
from crowdppl.inference.optimisers import LBFGSAscent, adamw
from crowdppl.networks.classifier import init_weights, learns, log_shares, outputs, prepared, prepared_view
from crowdppl.networks.outputs import rows_to_classify
from crowdppl.networks.training import Training, training_of

UNUSED = ("patience", "annotator_rate", "warm_up", "mixup", "balance", "shares", "volume", "full_batch")
"""Settings of training that these losses do not have."""
SMOOTHING = 0.01
"""What the published ``max_mig`` adds to the rows of confusions by the votes before it takes their logs."""


@dataclass(frozen=True, eq=False, repr=False)
class ClassifierAggregation(Aggregation):
    """An ``Aggregation`` with a classifier of items by their features.

    Attributes:
        network: maps features (B, ...) to log-probabilities (B, K).

    Examples:
        >>> data = crowdppl.digits(seed=0).data
        >>> found = crowdppl.baselines.soft_bootstrap(data, training={"epochs": 2})
        >>> found.classify(data.features[:2]).shape
        (2, 10)
    """

    network: nn.Module | None = None

    def classify(self, features: Any) -> pd.DataFrame:
        """Probabilities (M, K) of the classes of any items by their features, as ``Posterior.classify``."""
        index, rows = rows_to_classify(features, self.data.features)
        assert self.network is not None
        p = log_shares(self.network, rows).exp().double().numpy()
        return pd.DataFrame(p / p.sum(1, keepdims=True), index=index, columns=self.data.classes)


class _Labels:
    """Votes of batches of labelled items, with the items' features."""

    def __init__(self, data: Annotations, method: str, training: Mapping[str, Any] | None) -> None:
        self.training = training_of(training or {})
        for name in UNUSED:
            value = getattr(self.training, name)
            if value != getattr(Training(), name):
                raise MethodError(f"training: {name}={value!r} is none of what {method} has; leave it out")
        self.data, self.votes = data, class_votes(data, method)
        found = feature_tensor(data)
        if found is None:
            raise DataError(f"{method} learns a classifier, and the data have no features; give features=")
        self.features: Features = found
        votes = self.votes
        self.items = torch.from_numpy(votes.items)
        self.annotator, self.answer = torch.from_numpy(votes.annotator), torch.from_numpy(votes.answer)
        self.share = torch.from_numpy(votes.share).float()
        self.count = torch.from_numpy(np.bincount(votes.item, minlength=votes.n_items))
        self.first = self.count.cumsum(0) - self.count
        total = np.bincount(votes.item * votes.n_classes + votes.answer, votes.share)
        total = np.pad(total, (0, votes.n_items * votes.n_classes - len(total))).reshape(votes.n_items, -1)
        self.shares = torch.from_numpy(total / total.sum(1, keepdims=True)).float()
        common = total.sum(0) + 1
        self.prevalence = torch.from_numpy(common / common.sum()).float()

    def of(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Votes of items: whose each is, by its place in ``rows``, and the votes' places."""
        count = self.count[rows]
        whose = torch.arange(len(rows)).repeat_interleave(count)
        return whose, torch.arange(len(whose)) + (self.first[rows] - count.cumsum(0) + count)[whose]

    def train(self, network: nn.Module, others: list[Tensor], seed: int, loss: Callable[..., Tensor]) -> None:
        """Lowers loss(output of the network, items) by AdamW in shuffled batches; its rate falls as a cosine."""
        if not learns(network):
            raise MethodError("the network has no weight that learns by gradients; give one, or use raykar by em")
        training, n = self.training, self.votes.n_items
        init_weights(network, training, seed)
        sizes = batch_sizes(n, training.batch_size)
        weights = [x for x in network.parameters() if x.requires_grad]
        groups: list[Any] = [{"params": weights, "weight_decay": training.weight_decay}]
        groups += [{"params": others, "weight_decay": 0.0}] if others else []
        optimiser = adamw(groups, lr=training.learning_rate)
        with seeded(seed), default_dtype(torch.float32):
            for epoch in range(training.length):
                for group in optimiser.param_groups:
                    group["lr"] = training.learning_rate * 0.5 * (1 + math.cos(math.pi * epoch / training.epochs))
                network.train()
                for rows in torch.randperm(n).split(sizes):
                    value = loss(network(read_stored(self.features[self.items[rows]])), rows)
                    if not bool(torch.isfinite(value)):
                        raise NumericalError(
                            f"the loss is {value.item()} in epoch {epoch + 1}; lower learning_rate "
                            f"({training.learning_rate:g}), or check the features' scale"
                        )
                    optimiser.zero_grad()
                    value.backward()
                    optimiser.step()
        network.eval()

    def found(self, method: str, network: nn.Module, scores: Tensor, weights: Tensor) -> ClassifierAggregation:
        """The result, from probabilities (N, K) of all items and weights (A,)."""
        counts = np.where(labelled(self.votes), weights.double().numpy(), np.nan)
        more: Any = {"iterations": self.training.length, "probabilistic": True, "network": network}
        p = scores.double().numpy()
        return ClassifierAggregation(method, self.data, p / p.sum(1, keepdims=True), counts, **more)


def soft_bootstrap(
    data: Annotations,
    *,
    beta: float = 0.95,
    network: nn.Module | None = None,
    training: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> ClassifierAggregation:
    """A classifier that learns the shares of votes, mixed with what it says itself.

    Reed et al. (2015), "Training deep neural networks on noisy labels with bootstrapping": the target is beta *
    votes + (1 - beta) * prediction. Truths are the classifier's; all annotators count the same.

    Args:
        data: classes, with features.
        beta: weight of the votes; at 1 they are the target.
        network, training: as of ``crowdppl.networks.prepared``; of training, epochs, rates, batches and what the
            default network is are used, all else is refused.
        seed: of first weights, batches and dropout.

    Raises:
        DataError: when the data have no features.
        MethodError: for labels that are no classes, or settings out of range.

    Examples:
        >>> data = crowdppl.digits(seed=0).data
        >>> crowdppl.baselines.soft_bootstrap(data, training={"epochs": 2})
        <Aggregation by soft_bootstrap: 1797 items, 10 annotators, 10 classes>
    """
    beta = number_within("beta", beta, "a number from 0 to 1", lambda x: 0 <= x <= 1)
    labels, seed = _Labels(data, "soft_bootstrap", training), seed_number(seed)
    net = prepared(network, data, training)
    assert net is not None

    def loss(logits: Tensor, rows: Tensor) -> Tensor:
        log_p = logits.log_softmax(-1)
        target = beta * labels.shares[rows] + (1 - beta) * log_p.detach().exp()
        return -(target * log_p).sum(-1).mean()

    labels.train(net, [], seed, loss)
    return labels.found(
        "soft_bootstrap", net, log_shares(net, labels.features).exp(), torch.ones(data.n_annotators)
    )


class _Doctors(nn.Module):
    """The weighted mean of annotators' probabilities, by a network with K outputs for each."""

    weight: Tensor

    def __init__(self, heads: nn.Module, weight: Tensor) -> None:
        super().__init__()
        self.heads = heads
        self.register_buffer("weight", weight)

    def forward(self, x: Tensor) -> Tensor:
        """Log-probabilities (B, K) of features (B, ...)."""
        each = self.heads(x).unflatten(-1, (len(self.weight), -1)).softmax(-1)
        out: Tensor = torch.einsum("bak,a->bk", each, self.weight).log()
        return out


def doctor_net(
    data: Annotations,
    *,
    weighted: bool = False,
    network: nn.Module | None = None,
    training: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> ClassifierAggregation:
    """A classifier for each annotator on a shared body; the truth is what they say on average.

    Guan, Gulshan, Dai & Hinton (2018), "Who said what: modeling individual labelers improves classification". The
    weights are then learned with the network held still: by those under which the others' mean predicts each label
    best.

    Args:
        data: classes, with features.
        weighted: whether annotators' weights are learned, or all the same.
        network: maps features to A * K numbers, K for each annotator in turn; by default one hidden layer.
        training: as of ``crowdppl.networks.prepared``; epochs, rates, batches and what the default network is are
            used, all else is refused.
        seed: of first weights, batches and dropout.

    Raises:
        DataError: when the data have no features.
        MethodError: for labels that are no classes, or settings out of range.

    Examples:
        >>> data = crowdppl.digits(seed=0).data
        >>> crowdppl.baselines.doctor_net(data, training={"epochs": 2})
        <Aggregation by doctor_net: 1797 items, 10 annotators, 10 classes>
    """
    labels, seed, weighted = _Labels(data, "doctor_net", training), seed_number(seed), switch("weighted", weighted)
    a, k = data.n_annotators, data.n_classes
    net = prepared_view(network, data, a * k, training)
    assert net is not None

    def loss(logits: Tensor, rows: Tensor) -> Tensor:
        whose, at = labels.of(rows)
        log_p = logits.unflatten(-1, (a, k))[whose, labels.annotator[at]].log_softmax(-1)
        given = log_p.gather(-1, labels.answer[at].unsqueeze(-1)).squeeze(-1)
        out: Tensor = -(labels.share[at] * given).sum() / labels.share[at].sum()
        return out

    labels.train(net, [], seed, loss)
    weight = torch.full((a,), 1 / a)
    if weighted and a > 1:
        weight = _weights(outputs(net, read_stored(labels.features[labels.items])).unflatten(-1, (a, k)), labels)
    doctors = _Doctors(net, weight.float()).eval()
    return labels.found("doctor_net", doctors, log_shares(doctors, labels.features).exp(), weight)


def _weights(logits: Tensor, labels: _Labels) -> Tensor:
    """Shares (A,) under which the mean of the others, of logits (N, A, K), predicts each label best."""
    item, own = torch.from_numpy(labels.votes.item), labels.annotator
    given = logits.double().softmax(-1)[item, :, labels.answer]  # (R, A)
    others = 1 - one_hot(own, given.shape[1]).double()
    free = torch.zeros(given.shape[1], dtype=torch.float64, requires_grad=True)

    def objective() -> tuple[float, list[Tensor]]:
        w = free.softmax(0)
        total = (labels.share * ((given * others) @ w / (others @ w)).log()).sum()
        return float(total.detach()), list(torch.autograd.grad(total, [free]))

    LBFGSAscent([free], 200, 400)(objective)
    return free.detach().softmax(0)


def max_mig(
    data: Annotations,
    *,
    network: nn.Module | None = None,
    training: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> ClassifierAggregation:
    """A classifier and weights of annotators whose forecasts of the truth tell most of each other.

    Cao, Xu, Kong & Wang (2019), "Max-MIG: an information theoretic approach for joint learning from crowds". With f
    the classifier's probabilities of an item, g = softmax(log p + sum over its labels of W[annotator, :, label]), p
    the shares of votes and m[i, j] = sum over k of f[i, k] g[j, k] / p[k], it raises the mean of log m[i, i] less
    that of m[i, j] over i != j. W starts as the log of confusions by the votes. Truths are f g / p; an annotator
    counts by W's mean on the diagonal less that off it. With one label an item, f and g can agree on anything.

    Args:
        data: classes, with features.
        network, training: as of ``crowdppl.networks.prepared``; of training, epochs, rates, batches and what the
            default network is are used, all else is refused.
        seed: of first weights, batches and dropout.

    Raises:
        DataError: when the data have no features.
        MethodError: for labels that are no classes, or settings out of range.

    Examples:
        >>> data = crowdppl.digits(seed=0).data
        >>> crowdppl.baselines.max_mig(data, training={"epochs": 2})
        <Aggregation by max_mig: 1797 items, 10 annotators, 10 classes>
    """
    labels, seed = _Labels(data, "max_mig", training), seed_number(seed)
    net = prepared(network, data, training)
    assert net is not None
    crowd = _log_confusions(labels).requires_grad_()

    def forecast(rows: Tensor) -> Tensor:
        whose, at = labels.of(rows)
        told = crowd[labels.annotator[at], :, labels.answer[at]] * labels.share[at].unsqueeze(-1)
        out: Tensor = labels.prevalence.log().repeat(len(rows), 1).index_add(0, whose, told).softmax(-1)
        return out

    def loss(logits: Tensor, rows: Tensor) -> Tensor:
        return -information(logits.softmax(-1), forecast(rows), labels.prevalence)

    labels.train(net, [crowd], seed, loss)
    p = log_shares(net, labels.features).exp()
    with torch.no_grad():
        p[labels.items] *= forecast(torch.arange(labels.votes.n_items)) / labels.prevalence
        diagonal = crowd.diagonal(dim1=1, dim2=2).mean(1)
        k = data.n_classes
        weight = diagonal - (crowd.sum((1, 2)) - k * diagonal) / (k * max(1, k - 1))
    return labels.found("max_mig", net, p.clamp(min=torch.finfo(p.dtype).tiny), weight)


def information(f: Tensor, g: Tensor, p: Tensor) -> Tensor:
    """A lower bound of the mutual information of two forecasts (B, K) of classes with shares p, in nats."""
    joint: Tensor = f @ (g / p).t()  # (B, B)
    diagonal, b = joint.diagonal(), len(joint)
    return 1 + diagonal.log().mean() - (joint.sum() - diagonal.sum()) / max(1, b * b - b)


def _log_confusions(labels: _Labels) -> Tensor:
    """Logs (A, K, K) of each annotator's shares of labels by the shares of votes, smoothed."""
    votes, k = labels.votes, labels.votes.n_classes
    seen = labels.shares[torch.from_numpy(votes.item)] * labels.share.unsqueeze(-1)  # (R, K)
    cell = labels.annotator * k + labels.answer
    counts = torch.zeros(votes.n_annotators * k, k).index_add(0, cell, seen).unflatten(0, (-1, k)).transpose(1, 2)
    out: Tensor = (counts / counts.sum(-1, keepdim=True).clamp(min=1e-12) + SMOOTHING).log()
    return out
