"""Networks that look at features: what a story asks of them, and the one that is taken by default."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from copy import deepcopy
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from crowdppl.data.feature_tensors import feature_tensor
from crowdppl.data.feature_values import warn_of_rounding, whole_numbers
from crowdppl.data.stored_features import Features
from crowdppl.errors import DataError, MethodError
from crowdppl.networks.ensemble import Ensemble, Layer
from crowdppl.networks.feeding import (
    Whole,
    copied,
    entrance,
    hint,
    own_copy,
    put_back,
    returned,
    warn_of_probabilities,
)
from crowdppl.networks.standardise import parts
from crowdppl.networks.training import Training, training_of
from crowdppl.process.devices import device_of, lent, made_in
from crowdppl.process.seeding import seeded

if TYPE_CHECKING:
    from crowdppl.data.annotations import Annotations


class Network(nn.Module):
    """A network on standardised features: what learns, what it is fed, and how many classes it tells apart.

    A network of the user's own that has the attribute ``raw_features = True`` is fed features as they are: nothing
    is standardised, and whole numbers, such as the ids of words, come as int64.

    Args:
        body: maps a batch of features to K logits.
        features: (N, ...) of all items; only tables (N, D) are standardised.
        default: whether the body was not given, so that its first weights are drawn, and images are flattened.
        whole: whether features came as whole numbers.

    Attributes:
        precision: as ``Training.precision`` says.
    """

    precision: str = "full"

    def __init__(self, body: nn.Module, features: Features, default: bool = False, whole: bool = False) -> None:
        super().__init__()
        self.body = body
        self.first = entrance(body, features, default, whole)
        self.default = default
        self.given = None if default else deepcopy(body.state_dict())

    def begin(self, seed: int) -> None:
        """First weights, drawn or as given: what a fit learned of labels that are now left out is forgotten."""
        if self.given is not None:
            put_back(self.body, self.given)
            return
        with seeded(seed), lent(self.body, "cpu"):  # so that a seed draws the same on every device
            for part in self.body.modules():
                if isinstance(part, nn.Linear | Layer):
                    part.reset_parameters()

    @property
    def own(self) -> bool:
        """Whether the body was given, by the user."""
        return not self.default

    @property
    def members(self) -> int:
        """Networks that learn apart: 1, or those of an ``Ensemble``."""
        return self.body.members if isinstance(self.body, Ensemble) else 1

    def forward(self, x: Tensor) -> Tensor:
        """Logits (B, K) of a batch (B, ...), in float32 whatever the body computes in."""
        return self._through(self.body, x)

    def apart(self, x: Tensor) -> Tensor:
        """Logits (M, B, K) of members that look at batches of their own (M, B, ...)."""
        if isinstance(self.body, Ensemble):
            return self._through(self.body.apart, x)
        out: Tensor = self(x[0])
        return out.unsqueeze(0)

    def _through(self, body: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        mixed, x = self.precision == "mixed", self.first(x)
        with made_in(torch.float32), torch.autocast(x.device.type, torch.bfloat16) if mixed else nullcontext():
            out = body(x)
        return out.float() if isinstance(out, Tensor) else out


def perceptron(n_features: int, n_classes: int, hidden: int = 128, dropout: float = 0.5) -> nn.Module:
    """One hidden layer of rectified units, with dropout: (B, n_features) to logits (B, n_classes)."""
    layers = (nn.Linear(n_features, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, n_classes))
    return nn.Sequential(*layers)


def ready(
    network: nn.Module | None, data: Annotations, training: Mapping[str, Any] | None = None
) -> nn.Module | None:
    """The network with which a fit begins: a copy, so that what one fit learns stays there.

    Args:
        network: maps features to K logits; None takes ``perceptron``, or an ``Ensemble`` of several, which look at
            flattened images; one that is ready already is copied. It learns with all parts in train mode: running
            means of a frozen part move, unless its ``train`` keeps them still. Tables (N, D) are standardised for
            it, unless it has the attribute ``raw_features = True``: then whole numbers come as int64, and others as
            they are.
        data: the annotations.
        training: settings of ``Training`` by name: precision, and for the default network networks, hidden and
            dropout.

    Returns:
        A ``Network``; None where data have no features and no network was asked for.

    Raises:
        DataError: when a network is given and data have no features.
        MethodError: when the network refuses the features, or does not return K finite logits an item; when it is
            lazy or TorchScript, or cannot be copied; when items are to be blended (mixup) that are whole numbers.

    Warns:
        LogitsWarning: when the network seems to return probabilities; ``fit`` passes it on, comparisons and scores,
            whose fits are quiet, do not.

    Examples:
        >>> import torch
        >>> network = crowdppl.ready(None, crowdppl.digits(seed=0).data)
        >>> network(torch.zeros(2, 64)).shape  # two images, ten classes
        torch.Size([2, 10])
    """
    given = training_of(training or {})
    features = features_for(network, data, "a network")
    if features is None:
        return None
    if isinstance(network, Network):
        out = cast(Network, copied(network))
    elif network is not None:
        out = Network(own_copy(network), features, whole=whole_numbers(data.features))
    else:
        with torch.random.fork_rng():
            sizes = math.prod(features.shape[1:]), data.n_classes, given.hidden, given.dropout
            body = perceptron(*sizes) if given.networks == 1 else Ensemble(given.networks, *sizes)
            out = Network(body, features, default=True)
    if isinstance(out.first, Whole) and given.mixup > 0:
        raise MethodError(
            f"training: mixup={given.mixup} blends items, which whole numbers as ids of words cannot be; take "
            "training={'mixup': 0}"
        )
    out.precision = given.precision
    found = tried(out, features, (data.n_classes,), f"one logit for each of {data.n_classes} classes")
    if network is not None and not isinstance(network, Network):
        warn_of_probabilities(network, found)
    return out.eval()


def features_for(network: nn.Module | None, data: Annotations, what: str) -> Features | None:
    """What networks are to look at, as ``feature_tensor`` gives it.

    Raises:
        DataError: when a network (``what`` names it) is given and data have no features.

    Warns:
        CrowdpplWarning: when float32 holds next to nothing of how a column differs between items.
    """
    features = feature_tensor(data)
    if not isinstance(network, Network):
        warn_of_rounding(data.features)
    if features is None and network is not None:
        raise DataError(f"the method has {what}, but the data have no features; give features=")
    return features


def tried(
    network: nn.Module, features: Features, shape: Sequence[int | None], wanted: str, what: str = "the network"
) -> Tensor:
    """What a network makes of the first two items, once it is seen to be what is wanted.

    Args:
        network: features to a row an item.
        features: (N, ...).
        shape: of what it is to return for an item; None where any size will do.
        wanted: the same in words, for messages.
        what: its own name, likewise.

    Raises:
        MethodError: when the network refuses the features, or returns something else, or no finite numbers.
        DataError: when the features cannot be read.
    """
    some = features[:2]
    try:
        found = outputs(network, some)
    except (DataError, MethodError):
        raise
    except Exception as error:  # a user's network may raise anything
        more = hint(network.first, some) if isinstance(network, Network) else ""
        raise MethodError(f"{what} cannot read features of shape {tuple(some.shape[1:])}: {error}{more}") from error
    sizes = zip(found.shape[1:], shape, strict=False)
    if len(found) != len(some) or found.dim() != 1 + len(shape) or any(n not in (m, None) for m, n in sizes):
        raise MethodError(f"{what} returns {tuple(found.shape)} for {len(some)} items; it must return {wanted}")
    if not bool(torch.isfinite(found).all()):
        raise MethodError(f"what {what} returns is not finite on the first items; look at its weights")
    return found


def learns(network: nn.Module) -> bool:
    """Whether it has a weight that is to move; one without any stands still, and has its say."""
    return any(x.requires_grad for x in network.parameters())


def begin(network: nn.Module, training: Training, seed: int) -> None:
    """First weights for a fit, where crowdppl made the network ready; any other learns on from where it stands.

    Raises:
        MethodError: when such another one is to learn in mixed precision.
    """
    if isinstance(network, Network):
        network.precision = training.precision
        network.begin(seed)
    elif training.precision != "full":
        raise MethodError(
            f"training: precision={training.precision!r} is for networks that crowdppl.ready or ready_view made "
            "ready; call it in prepare, or use torch.autocast in the network"
        )


def outputs(network: nn.Module, features: Features) -> Tensor:
    """What a network returns (N, ...), as it stands; nothing is dropped out, and nothing is learned."""
    learning = network.training
    network.eval()
    with torch.no_grad():
        device = device_of(network)
        rows = [returned(network, part.to(device)) for part in parts(features)]
    network.train(learning)
    return torch.cat(rows)


def log_shares(network: nn.Module, features: Features) -> Tensor:
    """Log-probabilities (N, K) of the classes, as the network stands."""
    return outputs(network, features).log_softmax(-1)
