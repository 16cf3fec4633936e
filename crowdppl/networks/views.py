"""Networks that see of an item what misleads annotators: numbers, not classes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn

from crowdppl.data.feature_values import whole_numbers
from crowdppl.networks.feeding import copied, own_copy
from crowdppl.networks.network import Network, features_for, perceptron, tried
from crowdppl.networks.training import training_of

if TYPE_CHECKING:
    from crowdppl.data.annotations import Annotations


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
        training: settings of ``Training`` by name: precision, and for the default network hidden and dropout.

    Returns:
        A ``View``; None where data have no features and no network was asked for.

    Raises:
        DataError: when a network is given and data have no features.
        MethodError: when the network refuses the features, or does not return so many finite numbers an item; when
            it is lazy or TorchScript.

    Examples:
        >>> crowdppl.ready_view(None, crowdppl.anaesthetists(), width=5) is None  # they have no features
        True
    """
    given = training_of(training or {})
    features = features_for(network, data, "a network")
    if features is None:
        return None
    if isinstance(network, View):
        out = cast(View, copied(network))
    elif network is not None:
        out = View(own_copy(network), features, whole=whole_numbers(data.features))
    else:
        with torch.random.fork_rng():
            body = perceptron(math.prod(features.shape[1:]), width, given.hidden, given.dropout)
            out = View(body, features, default=True)
    out.precision = given.precision
    tried(out, features, (width,), f"{width} finite numbers for each")
    return out.eval()
