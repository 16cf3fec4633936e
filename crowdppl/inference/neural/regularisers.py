"""Regularisation of networks against overfitting a crowd's errors: mixup, balance of classes, and volume."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from crowdppl.core.collective import reduced
from crowdppl.data.blocks import Block
from crowdppl.data.kinds.parts import SIDES
from crowdppl.errors import MethodError
from crowdppl.inference.problem import Problem
from crowdppl.inference.starts import votes
from crowdppl.networks.classifier import Rewards, learns
from crowdppl.networks.outputs import network_of
from crowdppl.networks.training import Training, log_volume_of

EVEN = 0.025
"""Relative entropy, in units of log K, up to which votes are taken for those of equally common classes."""


class RegularisedLoss:
    """The loss of a model whose networks learn by gradients, under mixup, balance and volume.

    The loss of a blend of two items is that of both items' labels, in the shares of the blend, as in mixup with one
    label each (Zhang et al. 2018). Balance and volume are of the classifier's predictions of a batch. MethodError
    for balance or volume, when the model has no classifier that is a network of its own.
    """

    def __init__(self, problem: Problem, training: Training) -> None:
        self.training, network = training, network_of(problem.model)
        for name in ("balance", "volume"):
            if network is None and getattr(training, name):
                raise MethodError(
                    f"training: {name}={getattr(training, name)} is about the predictions of the model's attribute "
                    f"network, and {type(problem.model).__name__} has none; leave it out"
                )
        applies = network is not None and learns(network) and (training.balance or training.volume)
        self.network = network if applies else None
        self.shares = class_shares(network_votes(problem).sum(0), training.shares)

    def __call__(self, loss: Callable[[Block], Tensor], batch: Block) -> tuple[Tensor, Tensor]:
        """The loss of a batch, and the regularisation to be added to that of an item."""
        if self.network is None:
            return self._mixed(loss, batch), torch.zeros(())
        logits: list[Tensor] = []
        hook = self.network.register_forward_hook(lambda _network, _given, found: logits.append(found))
        try:
            total = self._mixed(loss, batch)
        finally:
            hook.remove()
        if not logits:
            raise MethodError(
                "training: balance and volume are about the predictions of the model's network, and the model does "
                "not call it; call it in model (crowdppl.networks.class_logits), or leave them out"
            )
        terms = [regularisation(x.softmax(-1), self.training, self.shares) for x in logits]
        return total, torch.stack(terms).mean()

    def _mixed(self, loss: Callable[[Block], Tensor], batch: Block) -> Tensor:
        """The loss under mixup."""
        if self.training.mixup == 0:
            return loss(batch)
        x = batch.features
        assert isinstance(x, Tensor), "a batch has read its features"
        shares, other = _partners(len(x), 1, self.training.mixup, x.device)
        share = shares[0]
        blend = share.to(x.dtype) * x + (1 - share).to(x.dtype) * x[other]
        own = loss(replace(batch, features=blend))
        others = loss(replace(batch, features=blend[other.argsort()]))  # where each item is the second part
        return share * own + (1 - share) * others


def mix(x: Tensor, t: Tensor, members: int, mixup: float) -> tuple[Tensor, Tensor]:
    """Blends each item with another of the same member's batch, all of a batch in one share of Beta(mixup).

    Features (M * B, ...) and probabilities (M * B, K) stand one batch after the other.
    """
    share, other = _partners(len(x) // members, members, mixup, x.device)
    of_x, of_t = (share.reshape(-1, *[1] * (y.dim() - 1)).to(y.dtype) for y in (x, t))
    return of_x * x + (1 - of_x) * x[other], of_t * t + (1 - of_t) * t[other]


def _partners(size: int, members: int, mixup: float, device: torch.device) -> tuple[Tensor, Tensor]:
    """Each item's share in its own blend, at least 1/2, (M * B,), and the place of the other part, likewise."""
    beta = torch.distributions.Beta(mixup, mixup, validate_args=False)  # checked with the settings
    shares = beta.sample(torch.Size([members])).to(device)
    other = torch.cat([n * size + torch.randperm(size, device=device) for n in range(members)])
    return torch.maximum(shares, 1 - shares).repeat_interleave(size), other


def network_votes(problem: Problem) -> Tensor:
    """Number of votes (N, K) for each output of the network; of rewards, half a tie for either side."""
    counts = votes(problem.blocks)
    if not isinstance(network_of(problem.model), Rewards):
        return counts
    both, ties = counts.tensor_split([len(SIDES)], -1)
    return both + ties.sum(-1, keepdim=True) / len(SIDES)


def class_shares(votes: Tensor, kind: str) -> Tensor | None:
    """Expected shares of classes, float32 (K,), "uniform" or by "votes"; None where "auto" finds these not even.

    Such votes show that classes are not even, but not how common they are: errors even votes out.
    """
    found = (votes + 1) / (votes + 1).sum()
    if kind == "votes":
        return found.float()
    divergence = float((found * (found * len(votes)).log()).sum())
    if kind == "uniform" or divergence < EVEN * math.log(len(votes)):
        return torch.full_like(votes, 1 / len(votes)).float()
    return None


class Batch(NamedTuple):
    """A batch that processes share.

    Attributes:
        own: float32 (..., B), 1 for items that are of it, and 0 for those that fill it up.
        size: items of all processes.
    """

    own: Tensor
    size: int


def regularisation(p: Tensor, training: Training, shares: Tensor | None, batch: Batch | None = None) -> Tensor:
    """Terms on predictions (..., B, K) of whole batches: balance of the classes, and volume.

    Where processes share a batch, of which each has ``p``, the value is that of all, and the gradient is the part
    of it that is this process's own.
    """
    out = p.new_zeros(p.shape[:-2])
    if batch is not None:
        p = p * batch.own.unsqueeze(-1)
    if training.balance > 0 and shares is not None:
        mean = p.mean(-2) if batch is None else _of_all(p.sum(-2)) / batch.size
        log_ratio = mean.clamp(min=1e-12).log() - shares.clamp(min=1e-12).log()
        out = out + training.balance * (mean * log_ratio).sum(-1)
    if training.volume:
        assert training.volume != "auto", "a fit settles it before it trains"
        gram = p.transpose(-1, -2) @ p
        out = out - training.volume * log_volume_of(gram if batch is None else _of_all(gram))
    return out


def _of_all(own: Tensor) -> Tensor:
    """A sum over processes, whose gradient is that of a process's own part."""
    return reduced(own.detach()) + (own - own.detach())
