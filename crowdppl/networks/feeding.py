"""How features enter a network: standardised, flattened, or as they are."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from itertools import chain

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from crowdppl.data.stored_features import Features
from crowdppl.doors.naming import kind_of
from crowdppl.doors.telling import tell
from crowdppl.errors import DataError, LogitsWarning, MethodError
from crowdppl.networks.standardise import Standardise

EXACT = 2**24
"""Float32, in which features travel, holds every whole number below this one."""
SHARES = 1e-4
"""How far from one the outputs for an item may add up to and still look like probabilities."""
RAW = "raw_features"
"""The attribute by which a network of the user's own asks for features as they are."""


class Whole(nn.Module):
    """Gives whole numbers, such as the ids of words, as int64."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, ...) to (B, ...).

        Raises:
            DataError: when a number is not whole, or float32 cannot tell it from the next one.
        """
        found = x.long()
        wrong = (found != x) | (x.abs() >= EXACT)
        if bool(wrong.any()):
            raise DataError(
                f"features hold {x[wrong][0].item():g}; a network with {RAW} that was fitted to whole numbers "
                f"takes whole numbers below {EXACT}: correct it"
            )
        return found


def entrance(body: nn.Module, features: Features, default: bool, whole: bool) -> nn.Module:
    """What stands before a network.

    Args:
        body: the network; one of the user's own is fed features as they are where its attribute ``raw_features`` is
            True.
        features: (N, ...) of all items.
        default: whether the network is one for tables; images are flattened for it.
        whole: whether features came as whole numbers.

    Raises:
        MethodError: when the network looks up embeddings, and it is not said whether features are what it looks up.
    """
    table = features.dim() == 2
    raw = False if default else getattr(body, RAW, None)
    if raw is True:
        return Whole() if whole else nn.Identity()
    if (
        raw is None
        and table
        and whole
        and any(isinstance(x, nn.Embedding | nn.EmbeddingBag) for x in body.modules())
    ):
        raise MethodError(
            f"the network has embeddings, and features are whole numbers: set {RAW} = True on the network to be "
            f"fed them as int64, or {RAW} = False to be fed them standardised, as float32"
        )
    if table:
        return Standardise(features)
    return nn.Flatten(1 - features.dim()) if default else nn.Identity()


def own_copy(network: nn.Module, what: str = "the network") -> nn.Module:
    """A copy of a user's network, which may learn.

    Raises:
        MethodError: when it is no module, or one that cannot be copied or cannot learn: lazy, or TorchScript.
    """
    if not isinstance(network, nn.Module):
        raise MethodError(f"{what} is {network!r}, which is no torch.nn.Module; give one, made with its sizes")
    if any(is_lazy(x) for x in chain(network.parameters(), network.buffers())):
        raise MethodError(
            f"{what} has layers that do not know their sizes yet, such as LazyLinear; call it once on a batch of "
            "features, or give the sizes"
        )
    scripts = (part for part in network.modules() if isinstance(part, torch.jit.ScriptModule))
    if any(x.requires_grad for part in scripts for x in part.parameters()):
        raise MethodError(
            f"{what} has TorchScript modules, copies of which cannot learn; give the modules they were made from"
        )
    return copied(network, what)


def copied(network: nn.Module, what: str = "the network") -> nn.Module:
    """A copy; what a pass left behind as an attribute, with its graph, is copied without the graph.

    Raises:
        MethodError: when it cannot be copied.
    """
    left = (x for part in network.modules() for x in vars(part).values() if isinstance(x, Tensor) and not x.is_leaf)
    try:
        return deepcopy(network, {id(x): x.detach() for x in left})
    except Exception as error:  # a user's network may hold anything
        raise MethodError(
            f"{what} cannot be copied, and fits train copies: {error}; leave out what cannot"
        ) from error


def put_back(body: nn.Module, given: Mapping[str, Tensor]) -> None:
    """Gives a user's network the weights and buffers with which it came.

    Raises:
        MethodError: when they are no longer of one kind.
    """
    try:
        body.load_state_dict(given)
    except RuntimeError as error:
        raise MethodError(
            f"the network's state, once it was asked, is not of the kind that was given: {error}; register all "
            "buffers when it is made, or call it once on a batch of features"
        ) from error


def returned(network: nn.Module, x: Tensor) -> Tensor:
    """What a network returns for a batch (B, ...), which may be anything but has to be a tensor.

    Raises:
        MethodError: when it is none.
    """
    found = network(x)
    if not isinstance(found, Tensor):
        raise MethodError(
            f"the network returns {kind_of(found)}, where a tensor with a row an item is wanted; let it "
            "return that alone"
        )
    return found


def warn_of_probabilities(body: nn.Module, found: Tensor) -> None:
    """Warns where a user's classifier ends in Softmax or Sigmoid, or its outputs (B, K) look as if it did.

    Of probabilities taken for logits, the surest of K classes gets a probability of e / (e + K - 1) at most.

    Warns:
        LogitsWarning: with the remedy.
    """
    last = body
    while isinstance(last, nn.Sequential) and len(last):
        last = last[-1]
    ends = type(last).__name__ if isinstance(last, nn.Softmax | nn.Sigmoid) else ""
    shares = found.shape[1] > 1 and bool((found >= 0).all()) and bool(((found.sum(1) - 1).abs() < SHARES).all())
    if ends or shares:
        what = f"ends in {ends}" if ends else "returns rows that sum to one on the first items"
        tell(
            f"the network {what}, as if to give probabilities, but what it returns is taken for logits, so that it "
            f"is hardly sure of any class; give logits: drop the last {ends or 'Softmax'}",
            LogitsWarning,
        )


def hint(first: nn.Module, features: Tensor) -> str:
    """What to say besides when a network refuses features that came as whole numbers."""
    if isinstance(first, Standardise) and bool((features == features.round()).all()):
        return (
            f" (features are standardised, as float32; set {RAW} = True on the network to be fed them as they are, "
            "whole numbers as int64)"
        )
    return ""
