"""Networks that look at features: what a story asks of them, and the one that is taken by default."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from crowdppl.errors import DataError, MethodError
from crowdppl.training import training_of

if TYPE_CHECKING:
    from crowdppl.annotations import Annotations

ROWS = 4096
"""Items that a network looks at at once where nothing is learned."""


class Standardise(nn.Module):
    """Brings features to mean 0 and standard deviation 1, after a square root where none is negative.

    Counts and activations that are never negative have long tails, which the root shortens. A feature that is the
    same for all items becomes 0.

    Args:
        features: (N, D), of all items.
    """

    root: Tensor
    mean: Tensor
    scale: Tensor

    def __init__(self, features: Tensor) -> None:
        super().__init__()
        x = features.double()
        root = bool((x >= 0).all())
        x = x.sqrt() if root else x
        spread = x.std(0, unbiased=False)
        self.register_buffer("root", torch.tensor(root))
        self.register_buffer("mean", x.mean(0).float())
        self.register_buffer("scale", torch.where(spread > 1e-8, 1 / spread.clamp(min=1e-8), 0.0).float())

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) to (..., D)."""
        x = x.clamp(min=0).sqrt() if bool(self.root) else x
        return (x - self.mean) * self.scale


class Network(nn.Module):
    """A network on standardised features: what learns, what it is fed, and how many classes it tells apart.

    Args:
        body: maps a batch of features to K logits.
        features: (N, ...) of all items; only tables (N, D) are standardised.
        default: whether the body was not given, so that its first weights are drawn.
    """

    def __init__(self, body: nn.Module, features: Tensor, default: bool = False) -> None:
        super().__init__()
        self.body = body
        self.first = Standardise(features) if features.dim() == 2 else nn.Identity()
        self.default = default
        self.given = None if default else deepcopy(body.state_dict())

    def begin(self, seed: int) -> None:
        """First weights, drawn or as given: what a fit learned of labels that are now left out is forgotten."""
        if self.given is not None:
            self.body.load_state_dict(self.given)
            return
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            for part in self.body.modules():
                if isinstance(part, nn.Linear):
                    part.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        """Logits (B, K) of a batch (B, ...)."""
        out: Tensor = self.body(self.first(x))
        return out


def perceptron(n_features: int, n_classes: int, hidden: int = 128, dropout: float = 0.5) -> nn.Module:
    """One hidden layer of rectified units, with dropout: (B, n_features) to logits (B, n_classes)."""
    layers = (nn.Linear(n_features, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, n_classes))
    return nn.Sequential(*layers)


def feature_tensor(data: Annotations) -> Tensor | None:
    """Features in codebook order, float32 (N, ...); None where the data have none."""
    if data.features is None:
        return None
    values = data.features if isinstance(data.features, np.ndarray) else data.features.to_numpy()
    return torch.from_numpy(np.array(values, np.float32))


def placed_features(data: Annotations) -> Tensor | None:
    """Features by position, as blocks hold items; None where the data have none."""
    found = feature_tensor(data)
    return None if found is None else found[torch.from_numpy(data.order.astype(np.int64))]


def ready(
    network: nn.Module | None, data: Annotations, training: Mapping[str, Any] | None = None
) -> nn.Module | None:
    """The network with which a fit begins: a copy, so that what one fit learns stays there.

    Args:
        network: maps features to K logits; None takes ``perceptron``; one that is ready already is copied.
        data: the annotations.
        training: settings of ``Training`` by name, of which hidden and dropout belong to the default network.

    Returns:
        A ``Network``; None where data have no features and no network was asked for.

    Raises:
        DataError: when a network is given and data have no features.
        MethodError: when the network refuses the features, or does not return K finite logits an item.

    Examples:
        >>> import torch
        >>> network = crowdppl.ready(None, crowdppl.digits(seed=0).data)
        >>> network(torch.zeros(2, 64)).shape  # two images, ten classes
        torch.Size([2, 10])
    """
    features, given = feature_tensor(data), training_of(training or {})
    if features is None:
        if network is not None:
            raise DataError("the method has a network, but the data have no features; give features=")
        return None
    if isinstance(network, Network):
        out: nn.Module = deepcopy(network)
    elif network is not None:
        out = Network(deepcopy(network), features)
    else:
        with torch.random.fork_rng():
            body = perceptron(features[0].numel(), data.n_classes, given.hidden, given.dropout)
            out = Network(body, features, default=True)
    _check(out, features[:2], data.n_classes)
    return out.eval()


def _check(network: nn.Module, some: Tensor, n_classes: int) -> None:
    try:
        found = log_shares(network, some)
    except Exception as error:  # a user's network may raise anything
        raise MethodError(f"the network cannot read features of shape {tuple(some.shape[1:])}: {error}") from error
    if found.shape != (len(some), n_classes):
        raise MethodError(
            f"the network returns {tuple(found.shape)} for {len(some)} items; it must return one logit for each of "
            f"{n_classes} classes"
        )
    if not bool(torch.isfinite(found).all()):
        raise MethodError("the network's logits are not finite on the first items; look at its weights")


def outputs(network: nn.Module, features: Tensor) -> Tensor:
    """What a network returns (N, ...), as it stands; nothing is dropped out, and nothing is learned."""
    learning = network.training
    network.eval()
    with torch.no_grad():
        rows = [network(part) for part in features.split(ROWS)]
    network.train(learning)
    return torch.cat(rows)


def log_shares(network: nn.Module, features: Tensor) -> Tensor:
    """Log-probabilities (N, K) of the classes, as the network stands."""
    return outputs(network, features).log_softmax(-1)
