"""Networks that score objects, as classifiers of pairs of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from crowdppl.core.validation import kind_of
from crowdppl.data.annotations import Annotations
from crowdppl.data.features import whole_numbers
from crowdppl.data.parts import SIDES, of_side
from crowdppl.errors import DataError, MethodError
from crowdppl.networks.classifier import Network, checked, features_for, own_copy, perceptron
from crowdppl.networks.training import training_of


class Rewards(Network):
    """A network that maps an object's features to its log-skill, and those of a pair to one a side.

    The body maps a batch (B, ...) to (B, 1); features are of pairs, (N, 2, ...), or a table (N, 2 D) of left and
    right. With ``position_bias`` it learns by how much the left side gains. The rest is as of ``Network``.
    """

    def __init__(self, body: nn.Module, features: Tensor, own: bool, whole: bool, position_bias: bool) -> None:
        super().__init__(body, sides(features), own, whole)
        self.advantage = nn.Parameter(torch.zeros(()), requires_grad=position_bias)

    def reset_parameters(self) -> None:
        """Neither side gains before anything is learned."""
        nn.init.zeros_(self.advantage)

    def rewards(self, x: Tensor) -> Tensor:
        """Log-skills (B,) of objects (B, ...); MethodError when the body returns anything but one number."""
        found = super().forward(x)
        if found.shape != (len(x), 1):
            raise MethodError(
                f"the network returns {tuple(found.shape)} for {len(x)} objects; it must return one number for "
                "each, (B, 1)"
            )
        return found.squeeze(-1)

    def forward(self, x: Tensor) -> Tensor:
        """Log-skills (B, 2) of both sides of pairs, the left one with its advantage."""
        left, right = self.rewards(sides(x)).unflatten(0, (-1, 2)).unbind(-1)
        return torch.stack([left + self.advantage, right], -1)


def sides(features: Tensor) -> Tensor:
    """Features of objects (2 N, ...), left and right in turn, from those of pairs."""
    both = features.unflatten(1, (2, -1)) if features.dim() == 2 else features
    return both.flatten(0, 1)


def prepared_rewards(
    network: nn.Module | None,
    data: Annotations,
    training: Mapping[str, Any] | None = None,
    *,
    position_bias: bool = False,
) -> nn.Module | None:
    """A network for objects that are compared, with which a fit begins: a copy, as by ``prepared``.

    Args:
        network: maps the features of an object to one number, its log-skill; None takes one hidden layer.
        data: comparisons, whose features are those of objects, or an array of pairs (N, 2, ...).
        training: settings of ``Training`` by name: precision, and for the default network hidden and dropout.
        position_bias: whether the left side may have an advantage, which the network learns as one more weight.

    Returns:
        A ``Rewards``; None where data have no features and no network was given.

    Raises:
        DataError: when a network is given and data have no features, or features are not of two objects.
        MethodError: when the network refuses the features, does not return one finite number each, or cannot be
            copied.

    Examples:
        >>> import pandas as pd, torch
        >>> looks = pd.DataFrame({"size": [0.1, 0.5, 0.3]}, index=["apple", "pear", "fig"])
        >>> pairs, who = ["apple | pear", "fig | apple"], ["ann", "ann"]
        >>> data = crowdppl.Annotations.design(pairs, who, kind="pair", features=looks)
        >>> crowdppl.networks.prepared_rewards(torch.nn.Linear(1, 1), data)(torch.zeros(5, 2)).shape
        torch.Size([5, 2])
    """
    settings = training_of(training or {})
    features = features_for(network, data, "a network")
    if features is None:
        return None
    _require_sides(data.features)
    assert isinstance(features, Tensor)
    if isinstance(network, Rewards):
        out = cast(Rewards, own_copy(network))
    else:
        size = sides(features[:1])[0].numel()
        with torch.random.fork_rng():
            default = perceptron(size, 1, settings.hidden, settings.dropout)
            body = default if network is None else own_copy(network).float()
        out = Rewards(body, features, network is not None, whole_numbers(data.features), position_bias)
    out.precision = settings.precision
    checked(out.eval(), features, (2,), "finite numbers")
    return out


def _require_sides(features: Any) -> None:
    """Refuses features that are not those of left and right."""
    if isinstance(features, pd.DataFrame):
        names = [*map(str, features.columns)]
        half = [name.removeprefix(of_side(SIDES[0], "")) for name in names[: len(names) // 2]]
        if names != [of_side(side, name) for side in SIDES for name in half]:
            raise DataError(
                f"the columns of features ({', '.join(names[:3])}, ...) are not those of both sides; give a table "
                "by object, or columns 'left x', ..., 'right x', ... by pair"
            )
    elif not isinstance(features, np.ndarray) or features.ndim < 3 or features.shape[1] != len(SIDES):
        raise DataError(
            f"features have shape {tuple(features.shape)} and are {kind_of(features)}; give a table by object, or "
            "an array of pairs (N, 2, ...), the left one first"
        )
