"""Networks that see of an item what misleads annotators: numbers, not classes."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from crowdppl.errors import DataError, MethodError
from crowdppl.networks import Network, feature_tensor, outputs, perceptron
from crowdppl.training import training_of

if TYPE_CHECKING:
    from crowdppl.annotations import Annotations


class View(Network):
    """A network beside the classifier, on standardised features."""

    def begin(self, seed: int) -> None:
        """First weights, drawn or as given; not drawn with the numbers that a classifier's are drawn with."""
        super().begin(seed + 1)


def ready_view(
    network: nn.Module | None, data: Annotations, width: int, training: Mapping[str, Any] | None = None
) -> nn.Module | None:
    """The network beside the classifier with which a fit begins: a copy, so that what one fit learns stays there.

    A story asks it with ``look``, under the name of the attribute that holds it.

    Args:
        network: maps features to ``width`` numbers an item; None takes one hidden layer; one that is ready already
            is copied.
        data: the annotations.
        width: how many numbers it returns for each item.
        training: settings of ``Training`` by name, of which hidden and dropout belong to the default network.

    Returns:
        A ``View``; None where data have no features and no network was asked for.

    Raises:
        DataError: when a network is given and data have no features.
        MethodError: when the network refuses the features, or does not return so many finite numbers an item.

    Examples:
        >>> crowdppl.ready_view(None, crowdppl.anaesthetists(), width=5) is None  # they have no features
        True
    """
    features, given = feature_tensor(data), training_of(training or {})
    if features is None:
        if network is not None:
            raise DataError("the method has a network, but the data have no features; give features=")
        return None
    if isinstance(network, View):
        out: nn.Module = deepcopy(network)
    elif network is not None:
        out = View(deepcopy(network), features)
    else:
        with torch.random.fork_rng():
            out = View(perceptron(features[0].numel(), width, given.hidden, given.dropout), features, default=True)
    some = features[:2]
    try:
        found = outputs(out, some)
    except Exception as error:  # a user's network may raise anything
        raise MethodError(f"the network cannot read features of shape {tuple(some.shape[1:])}: {error}") from error
    if found.shape != (len(some), width) or not bool(torch.isfinite(found).all()):
        raise MethodError(
            f"the network returns {tuple(found.shape)} for {len(some)} items; it must return {width} finite "
            "numbers for each"
        )
    return out.eval()
