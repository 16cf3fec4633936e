"""Classifiers of items by features: networks, ensembles of them, views and standardised inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from copy import deepcopy
from itertools import chain
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from crowdppl.core.devices import default_dtype, device_of, moved_to, seeded
from crowdppl.core.validation import kind_of, warn
from crowdppl.data.annotations import Annotations, feature_tensor
from crowdppl.data.features import Features, warn_of_rounding, whole_numbers
from crowdppl.errors import DataError, LogitsWarning, MethodError
from crowdppl.networks.training import Training, training_of

ROWS = 1024
"""Items that a network looks at at once where nothing is learned, and rows of a table that are read at once."""
NUMBERS = 2**24
"""Numbers of images, or of what else is no table, that are looked at at once."""


LARGEST = float(torch.finfo(torch.float32).max)


class Standardise(nn.Module):
    """Brings features to mean 0 and standard deviation 1, after a square root where none is negative.

    Counts and activations that are never negative have long tails, which the root shortens. A feature that is the
    same for all items, to the last bit, becomes 0.

    Args:
        features: (N, D), of all items, looked at 1024 rows at a time, twice where none is negative; in float64, so
            that sums in another order come to the same in float32.
    """

    root: Tensor
    mean: Tensor
    scale: Tensor

    def __init__(self, features: Features) -> None:
        super().__init__()
        root = all(bool((part >= 0).all()) for part in parts(features))
        n, mean, spread = 0, torch.zeros(()), torch.zeros(())
        first, varies = None, torch.zeros((), dtype=torch.bool)
        for part in parts(features):
            first = part[:1] if first is None else first
            varies = varies | (part != first).any(0)
            x = part.double().sqrt() if root else part.double()
            m, its_mean = len(x), x.mean(0)
            its_spread = (x - its_mean).square().mean(0).sqrt()
            if n:  # Chan, Golub & LeVeque (1983), "Algorithms for computing the sample variance"
                between = (its_mean - mean) * math.sqrt(n * m) / (n + m)
                within = (n * spread.square() + m * its_spread.square()) / (n + m)
                its_mean, its_spread = mean + (its_mean - mean) * m / (n + m), (within + between.square()).sqrt()
            n, mean, spread = n + m, its_mean, its_spread
        self.register_buffer("root", torch.tensor(root))
        self.register_buffer("mean", mean.float())
        self.register_buffer("scale", torch.where(varies, 1 / spread, 0.0).clamp(max=LARGEST).float())

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) to (..., D)."""
        if x.is_cuda:  # to ask the flag would be to wait for the GPU, in every step of an epoch
            x = torch.where(self.root, x.clamp(min=0).sqrt(), x)
        elif bool(self.root):
            x = x.clamp(min=0).sqrt()
        return (x - self.mean) * self.scale


def parts(features: Features) -> Iterable[Tensor]:
    """Features one after the other, as many rows at a time as are looked at at once where nothing is learned."""
    width = 1 if features.dim() == 2 else max(1, math.prod(features.shape[1:]))
    found: Iterable[Tensor] = features.split(max(1, min(ROWS, NUMBERS // width)))
    return found


EXACT = 2**24
"""Float32, in which features travel, holds every whole number below this one."""
SHARES = 1e-4
"""How far from one the outputs for an item may add up to and still look like probabilities."""
RAW = "raw_features"
"""The attribute by which a network of the user's own asks for features as they are."""


class IntegerInput(nn.Module):
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


def input_layer(body: nn.Module, features: Features, default: bool, whole: bool) -> nn.Module:
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
        return IntegerInput() if whole else nn.Identity()
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
        warn(
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


class Layer(nn.Module):
    """A linear layer for each member: (M, B, before) to (M, B, after)."""

    def __init__(self, members: int, before: int, after: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(members, before, after))
        self.bias = nn.Parameter(torch.empty(members, 1, after))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws all weights as ``torch.nn.Linear`` does."""
        most = 1 / math.sqrt(self.weight.shape[1])
        for x in (self.weight, self.bias):
            nn.init.uniform_(x, -most, most)

    def forward(self, x: Tensor) -> Tensor:
        """(M, B, before) to (M, B, after)."""
        return torch.baddbmm(self.bias, x, self.weight)


class Ensemble(nn.Module):
    """Members with one hidden layer each; their probabilities are averaged.

    Each member has weights of its own, and where ``apart`` is called, items of its own to learn from. Independent
    fits of neural networks differ; their mean has better probabilities than one of them (Lakshminarayanan, Pritzel
    & Blundell 2017, "Simple and scalable predictive uncertainty estimation using deep ensembles").

    Args:
        members: how many there are, M.
        n_features, n_classes: D and K.
        hidden: units of each member's hidden layer.
        dropout: share of them that a step leaves out.
    """

    def __init__(self, members: int, n_features: int, n_classes: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.members = members
        first, second = Layer(members, n_features, hidden), Layer(members, hidden, n_classes)
        self.layers = nn.Sequential(first, nn.ReLU(), nn.Dropout(dropout), second)

    def apart(self, x: Tensor) -> Tensor:
        """Logits (M, B, K) of each member, on items of its own (M, B, D)."""
        out: Tensor = self.layers(x)
        return out

    def forward(self, x: Tensor) -> Tensor:
        """Log of the members' mean probabilities (B, K), on the same items (B, D)."""
        log_p = self.apart(x.expand(self.members, *x.shape)).log_softmax(-1)
        return log_p.logsumexp(0) - math.log(self.members)


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
        self.first = input_layer(body, features, default, whole)
        self.default = default
        self.given = None if default else deepcopy(body.state_dict())

    def begin(self, seed: int) -> None:
        """First weights, drawn or as given: what a fit learned of labels that are now left out is forgotten."""
        if self.given is not None:
            put_back(self.body, self.given)
            return
        with seeded(seed), moved_to(self.body, "cpu"):  # so that a seed draws the same on every device
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
        with (
            default_dtype(torch.float32),
            torch.autocast(x.device.type, torch.bfloat16) if mixed else nullcontext(),
        ):
            out = body(x)
        return out.float() if isinstance(out, Tensor) else out


def perceptron(n_features: int, n_classes: int, hidden: int = 128, dropout: float = 0.5) -> nn.Module:
    """One hidden layer of rectified units, with dropout: (B, n_features) to logits (B, n_classes)."""
    layers = (nn.Linear(n_features, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, n_classes))
    return nn.Sequential(*layers)


def prepared(
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
        >>> network = crowdppl.networks.prepared(None, crowdppl.digits(seed=0).data)
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
    if isinstance(out.first, IntegerInput) and given.mixup > 0:
        raise MethodError(
            f"training: mixup={given.mixup} blends items, which whole numbers as ids of words cannot be; take "
            "training={'mixup': 0}"
        )
    out.precision = given.precision
    found = checked(out, features, (data.n_classes,), f"one logit for each of {data.n_classes} classes")
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


def checked(
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


def init_weights(network: nn.Module, training: Training, seed: int) -> None:
    """First weights for a fit, where crowdppl made the network ready; any other learns on from where it stands.

    Raises:
        MethodError: when such another one is to learn in mixed precision.
    """
    if isinstance(network, Network):
        network.precision = training.precision
        network.begin(seed)
    elif training.precision != "full":
        raise MethodError(
            f"training: precision={training.precision!r} is for networks that crowdppl.networks.prepared or prepared_view made "
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


class View(Network):
    """A network beside the classifier, on standardised features."""

    def begin(self, seed: int) -> None:
        """First weights, drawn or as given; not drawn with the numbers that a classifier's are drawn with."""
        super().begin(seed + 1)


def prepared_view(
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
        >>> crowdppl.networks.prepared_view(None, crowdppl.anaesthetists(), width=5) is None  # they have no features
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
    checked(out, features, (width,), f"{width} finite numbers for each")
    return out.eval()
