"""What keeps networks from learning a crowd's errors by heart: blends of items, shares of classes, and volume."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from crowdppl.data.blocks import Block
from crowdppl.errors import MethodError
from crowdppl.inference.problem import Problem
from crowdppl.networks.classifier import learns
from crowdppl.networks.outputs import network_of
from crowdppl.networks.training import Training, log_volume

EVEN = 0.025
"""Relative entropy, in units of log K, up to which votes are taken for those of equally common classes."""


class Regularised:
    """The loss of a story whose networks learn by gradients, under mixup, balance and volume.

    A blend of two items is asked for the labels of both, in the shares in which it is made of them, as mixup does
    with one label each (Zhang et al. 2018); networks look at it once for each. Balance and volume are of what the
    classifier makes of a batch.

    Args:
        problem: story and data.
        training: settings.

    Raises:
        MethodError: when predictions are to be balanced, or to span a volume, and the story has no classifier that
            is a network of its own.
    """

    def __init__(self, problem: Problem, training: Training) -> None:
        self.training, network = training, network_of(problem.model)
        for name in ("balance", "volume"):
            if network is None and getattr(training, name):
                raise MethodError(
                    f"training: {name}={getattr(training, name)} is about the predictions of one network, the "
                    f"story's attribute network, and {type(problem.model).__name__} has none; leave it out"
                )
        asked = network is not None and learns(network) and (training.balance or training.volume)
        self.network = network if asked else None
        self.shares = class_shares(problem.counts.sum(0), training.shares)

    def __call__(self, loss: Callable[[Block], Tensor], batch: Block) -> tuple[Tensor, Tensor]:
        """The loss of a batch, and what is to be added to that of an item."""
        if self.network is None:
            return self._blended(loss, batch), torch.zeros(())
        said: list[Tensor] = []
        hook = self.network.register_forward_hook(lambda _network, _given, logits: said.append(logits))
        try:
            total = self._blended(loss, batch)
        finally:
            hook.remove()
        if not said:
            raise MethodError(
                "training: balance and volume are about what the story's network says, and the story asks it "
                "nothing where it learns; ask it in model (crowdppl.networks.class_logits), or leave them out"
            )
        terms = [wanted(logits.softmax(-1), self.training, self.shares) for logits in said]
        return total, torch.stack(terms).mean()

    def _blended(self, loss: Callable[[Block], Tensor], batch: Block) -> Tensor:
        if self.training.mixup == 0:
            return loss(batch)
        x = batch.features
        assert isinstance(x, Tensor), "a batch has read its features"
        shares, other = partners(len(x), 1, self.training.mixup, x.device)
        share = shares[0]
        blend = share.to(x.dtype) * x + (1 - share).to(x.dtype) * x[other]
        own = loss(replace(batch, features=blend))
        others = loss(replace(batch, features=blend[other.argsort()]))  # where each is the second part
        return share * own + (1 - share) * others


def blended(x: Tensor, t: Tensor, members: int, mixup: float) -> tuple[Tensor, Tensor]:
    """Each item with another of the same member's batch, in a share that the batch has in common.

    Args:
        x, t: features (M * B, ...) and probabilities (M * B, K), one batch after the other.
        members: M.
        mixup: parameter of the Beta distribution of shares.
    """
    share, other = partners(len(x) // members, members, mixup, x.device)
    of_x, of_t = (share.reshape(-1, *[1] * (y.dim() - 1)).to(y.dtype) for y in (x, t))
    return of_x * x + (1 - of_x) * x[other], of_t * t + (1 - of_t) * t[other]


def partners(size: int, members: int, mixup: float, device: torch.device) -> tuple[Tensor, Tensor]:
    """For blends of items: each one's share in its own blend, (M * B,), and the place of the other part, likewise.

    Args:
        size, members: B, items of a batch, and M, batches on end; partners are of the same, which has one share.
        mixup: parameter of the Beta distribution of shares; the larger part is the item's own.
        device: of the items.
    """
    beta = torch.distributions.Beta(mixup, mixup, validate_args=False)  # checked with the settings
    shares = beta.sample(torch.Size([members])).to(device)
    other = torch.cat([n * size + torch.randperm(size, device=device) for n in range(members)])
    return torch.maximum(shares, 1 - shares).repeat_interleave(size), other


def class_shares(votes: Tensor, kind: str) -> Tensor | None:
    """How common the classes are thought to be, float32 (K,); None where nobody knows.

    Votes that are far from even say that classes are not, and not how common they are: errors even them out.

    Args:
        votes: of each class, (K,).
        kind: "uniform", "votes", or "auto".
    """
    found = (votes + 1) / (votes + 1).sum()
    if kind == "votes":
        return found.float()
    off = float((found * (found * len(votes)).log()).sum())
    if kind == "uniform" or off < EVEN * math.log(len(votes)):
        return torch.full_like(votes, 1 / len(votes)).float()
    return None


def wanted(p: Tensor, training: Training, shares: Tensor | None) -> Tensor:
    """Terms on predictions (..., B, K) of whole batches: shares of the classes, and volume."""
    out = p.new_zeros(p.shape[:-2])
    if training.balance > 0 and shares is not None:
        mean = p.mean(-2)
        off = mean.clamp(min=1e-12).log() - shares.clamp(min=1e-12).log()
        out = out + training.balance * (mean * off).sum(-1)
    if training.volume:
        assert training.volume != "auto", "a fit settles it before it trains"
        out = out - training.volume * log_volume(p)
    return out
