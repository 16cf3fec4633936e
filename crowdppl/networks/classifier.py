"""Networks of a model: classifiers of items, and networks that score objects, as classifiers of pairs of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from copy import deepcopy
from itertools import chain
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from crowdppl.core.collective import all_reduced, n_processes, reduced
from crowdppl.core.devices import default_dtype, device_of, moved_to, seeded
from crowdppl.core.validation import kind_of, shown, warn
from crowdppl.data.annotations import Annotations
from crowdppl.data.features import Features, feature_tensor, warn_of_rounding, whole_numbers
from crowdppl.data.kinds.parts import SIDES, of_side
from crowdppl.errors import DataError, LogitsWarning, MethodError
from crowdppl.networks.refitted import SklearnClassifier, is_estimator
from crowdppl.networks.training import Training, training_of

ROWS = 1024
"""Items per batch where nothing is learned, and rows of a table that are read at once."""
NUMBERS = 2**24
"""Numbers per batch of images, or of other features that are no table."""
LARGEST = float(torch.finfo(torch.float32).max)
EXACT = 2**24
"""Float32, in which features travel, holds every whole number below this one."""
RAW = "raw_features"
"""The attribute by which a user's network asks for features as they are."""


def parts(features: Features) -> Iterable[Tensor]:
    """Features in batches of the size that is used where nothing is learned."""
    width = 1 if features.dim() == 2 else max(1, math.prod(features.shape[1:]))
    found: Iterable[Tensor] = features.split(max(1, min(ROWS, NUMBERS // width)))
    return found


class Standardise(nn.Module):
    """Brings features (N, D) to mean 0 and standard deviation 1, after a square root where none is negative.

    Counts and activations that are never negative have long tails, which the root shortens. A feature that is
    exactly the same for all items becomes 0. Features are read in batches; sums are in float64, so that their
    order does not matter in float32.
    """

    root: Tensor
    mean: Tensor
    scale: Tensor

    def __init__(self, features: Features) -> None:
        super().__init__()
        root = reduced(int(not all(bool((part >= 0).all()) for part in parts(features))), "max") == 0
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
        assert first is not None, "features are of one item at least"
        mean, spread, varies = _of_all(n, mean, spread, varies, first[0])
        self.register_buffer("root", torch.tensor(root))
        self.register_buffer("mean", mean.float())
        self.register_buffer("scale", torch.where(varies, 1 / spread, 0.0).clamp(max=LARGEST).float())

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) to (..., D)."""
        if x.is_cuda:  # reading the flag would wait for the GPU in every step
            x = torch.where(self.root, x.clamp(min=0).sqrt(), x)
        elif bool(self.root):
            x = x.clamp(min=0).sqrt()
        return (x - self.mean) * self.scale


def _of_all(n: int, mean: Tensor, spread: Tensor, varies: Tensor, first: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, standard deviation and which features vary, (D,) each, over the items of all processes."""
    if n_processes() == 1:
        return mean, spread, varies
    items, total = all_reduced([n, n * mean])
    (squares,) = all_reduced([n * (spread.square() + (mean - total / items).square())])
    high, low, some = all_reduced([first.double(), -first.double(), varies.double()], "max")
    return total / items, (squares / items).sqrt(), (some > 0) | (high != -low)


class IntegerInput(nn.Module):
    """Turns whole numbers, such as the ids of words, into int64."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, ...) to (B, ...); DataError for a number that is not whole, or too large for float32 to be exact."""
        found = x.long()
        wrong = (found != x) | (x.abs() >= EXACT)
        if bool(wrong.any()):
            raise DataError(
                f"features hold {x[wrong][0].item():g}; a network with {RAW} that was fitted to whole numbers "
                f"takes whole numbers below {EXACT}"
            )
        return found


def input_layer(body: nn.Module, features: Features, own: bool, whole: bool) -> nn.Module:
    """The layer before a network: it standardises tables, flattens images or leaves features (N, ...) as they are.

    A user's ``own`` body gets them as they are where its attribute ``raw_features`` is True; ``whole`` ones came
    as whole numbers. MethodError when a network with embeddings does not say what features are.
    """
    table = features.dim() == 2
    raw = getattr(body, RAW, None) if own else False
    if raw is True:
        return IntegerInput() if whole else nn.Identity()
    looks_up = any(isinstance(x, nn.Embedding | nn.EmbeddingBag) for x in body.modules())
    if raw is None and table and whole and looks_up:
        raise MethodError(
            f"the network has embeddings, and features are whole numbers: set {RAW} = True on the network to get "
            f"them as int64, or {RAW} = False to get them standardised"
        )
    if table:
        return Standardise(features)
    return nn.Identity() if own else nn.Flatten(1 - features.dim())


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
    """So many members, of D features, K classes and one hidden layer each, whose probabilities are averaged.

    Independent fits of networks differ; their mean has better probabilities than one of them (Lakshminarayanan,
    Pritzel & Blundell 2017, "Simple and scalable predictive uncertainty estimation using deep ensembles").
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


def perceptron(n_features: int, n_classes: int, hidden: int = 128, dropout: float = 0.5) -> nn.Module:
    """One hidden layer of rectified units, with dropout: (B, n_features) to logits (B, n_classes)."""
    layers = (nn.Linear(n_features, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, n_classes))
    return nn.Sequential(*layers)


class Network(nn.Module):
    """A network with its input layer and its first weights, for features (N, ...) of all items.

    The body maps a batch of features to a row for each item; a user's ``own`` starts from the weights with which
    it came, ``given``, those of a default one are drawn, by a seed to which ``stream`` is added. ``whole``
    features came as whole numbers; ``precision`` is as of ``Training``.
    """

    precision: str = "full"

    def __init__(
        self, body: nn.Module, features: Features, own: bool = True, whole: bool = False, stream: int = 0
    ) -> None:
        super().__init__()
        self.body, self.own, self.stream = body, own, stream
        self.first = input_layer(body, features, own, whole)
        self.given = deepcopy(body.state_dict()) if own else None

    def begin(self, seed: int) -> None:
        """Sets first weights: those with which a user's body came, all others drawn."""
        if self.given is not None:
            self.body.load_state_dict(self.given)
        with seeded(seed + self.stream), moved_to(self, "cpu"):  # a seed draws the same on every device
            for name, part in self.named_modules():
                reset: Any = getattr(part, "reset_parameters", None)
                if reset is not None and not (self.own and name.split(".")[0] == "body"):
                    reset()

    @property
    def members(self) -> int:
        """Networks that learn separately: 1, or those of an ``Ensemble``."""
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

    def refit(self, x: Tensor, targets: Tensor, seed: int) -> None:
        """Fits a ``SklearnClassifier`` to features (B, ...) and probabilities (B, K); other bodies stay."""
        if isinstance(self.body, SklearnClassifier):
            self.body.refit(self.first(x), targets, seed)

    def _through(self, body: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """The output of the input layer and a body, in the network's precision."""
        mixed, x = self.precision == "mixed", self.first(x)
        with (
            default_dtype(torch.float32),
            torch.autocast(x.device.type, torch.bfloat16) if mixed else nullcontext(),
        ):
            out = body(x)
        return out.float() if isinstance(out, Tensor) else out


def prepared(
    network: nn.Module | None, data: Annotations, training: Mapping[str, Any] | None = None
) -> nn.Module | None:
    """The classifier with which a fit begins: a copy, so that fits do not change the network that was given.

    Args:
        network: maps features to K logits; None takes one hidden layer, or an ensemble of several networks, on
            flattened images. A classifier with ``fit`` and ``predict_proba`` becomes a ``SklearnClassifier``. A
            network learns with all parts in train mode: running means of a frozen part move, unless
            its ``train`` keeps them still. Tables (N, D) are standardised for it, unless it has the attribute
            ``raw_features = True``: then whole numbers come as int64, and others as they are.
        training: settings of ``Training`` by name: precision, and for the default network networks, hidden and
            dropout.

    Returns:
        A ``Network``; None where data have no features and no network was given.

    Raises:
        DataError: when a network is given and data have no features.
        MethodError: when the network refuses the features, or does not return K finite logits per item; when it
            cannot be copied, such as a lazy one; when items are to be blended (mixup) that are whole numbers.

    Warns:
        LogitsWarning: when the network seems to return probabilities.

    Examples:
        >>> import torch
        >>> network = crowdppl.networks.prepared(None, crowdppl.digits(seed=0).data)
        >>> network(torch.zeros(2, 64)).shape  # two images, ten classes
        torch.Size([2, 10])
    """
    settings = training_of(training or {})
    sizes = (data.n_classes, settings.hidden, settings.dropout)

    def default(n_features: int) -> nn.Module:
        several = settings.networks > 1
        return Ensemble(settings.networks, n_features, *sizes) if several else perceptron(n_features, *sizes)

    out, found = _ready(network, data, settings, default, data.n_classes)
    if out is None or found is None:
        return None
    if isinstance(out.first, IntegerInput) and settings.mixup > 0:
        raise MethodError(
            f"training: mixup={settings.mixup} blends items, which ids of words cannot be; take "
            "training={'mixup': 0}"
        )
    if network is not None and not isinstance(network, Network):
        _warn_of_probabilities(network, found)
    return out


def prepared_view(
    network: nn.Module | None, data: Annotations, width: int, training: Mapping[str, Any] | None = None
) -> nn.Module | None:
    """A second network beside the classifier, with which a fit begins: a copy, as by ``prepared``.

    A model calls ``network_output`` with it, and with the name of the attribute that holds it.

    Args:
        network: maps features to ``width`` numbers per item; None takes one hidden layer.
        width: how many numbers it returns for each item.
        training: settings of ``Training`` by name: precision, and for the default network hidden and dropout.

    Returns:
        A ``Network``; None where data have no features and no network was given.

    Raises:
        DataError, MethodError: as ``prepared``.

    Examples:
        >>> crowdppl.networks.prepared_view(None, crowdppl.anaesthetists(), width=5) is None  # no features
        True
    """
    settings = training_of(training or {})
    sizes = (width, settings.hidden, settings.dropout)
    return _ready(network, data, settings, lambda n_features: perceptron(n_features, *sizes), width, stream=1)[0]


def _ready(
    network: nn.Module | None,
    data: Annotations,
    settings: Training,
    default: Callable[[int], nn.Module],
    width: int,
    stream: int = 0,
) -> tuple[Network | None, Tensor | None]:
    """A network for the features of data and what it returns for the first items; None without features."""
    features = features_for(network, data, "a network")
    if features is None:
        return None, None
    if is_estimator(network):
        network = SklearnClassifier(network)
    if isinstance(network, Network):
        out = cast(Network, own_copy(network))
    else:
        with torch.random.fork_rng():
            body = default(math.prod(features.shape[1:])) if network is None else own_copy(network).float()
        if isinstance(body, SklearnClassifier):
            body.n_classes = width
            refuse_gradients(settings)
        out = Network(body, features, network is not None, whole_numbers(data.features), stream)
    out.precision = settings.precision
    return out.eval(), checked(out, features, (width,), f"{width} finite numbers for each")


def features_for(network: nn.Module | None, data: Annotations, what: str) -> Features | None:
    """The input of networks as of ``feature_tensor``; DataError where ``what`` lacks features."""
    features = feature_tensor(data)
    if not isinstance(network, Network):
        warn_of_rounding(data.features)
    if features is None and network is not None:
        raise DataError(f"the method has {what}, but the data have no features; give features=")
    return features


def own_copy(network: nn.Module, what: str = "the network") -> nn.Module:
    """A copy of a user's network, which may learn; MethodError for no module, a lazy or TorchScript one."""
    if not isinstance(network, nn.Module):
        raise MethodError(f"{what} is {shown(network)}, which is no torch.nn.Module")
    if any(is_lazy(x) for x in chain(network.parameters(), network.buffers())):
        raise MethodError(
            f"{what} has layers without sizes, such as LazyLinear; call it once on a batch of features"
        )
    if any(isinstance(part, torch.jit.ScriptModule) for part in network.modules()):
        raise MethodError(f"{what} has TorchScript modules, whose copies do not learn; give the original modules")
    try:
        return deepcopy(network)
    except Exception as error:  # a user's network may hold anything
        raise MethodError(f"{what} cannot be copied, and fits train copies: {error}") from error


def checked(
    network: nn.Module, features: Features, shape: Sequence[int | None], wanted: str, what: str = "the network"
) -> Tensor:
    """The output of a network for the first two items, once it is as ``wanted``; None is any size.

    MethodError when the network refuses the features, or returns something else, or no finite numbers; DataError
    when features (N, ...) cannot be read.
    """
    some = features[:2]
    try:
        found = outputs(network, some)
    except (DataError, MethodError):
        raise
    except Exception as error:  # a user's network may raise anything
        hint = ""
        if isinstance(getattr(network, "first", None), Standardise) and bool((some == some.round()).all()):
            hint = f" (features are standardised; set {RAW} = True on the network to get them as they are)"
        raise MethodError(f"{what} cannot read features of shape {tuple(some.shape[1:])}: {error}{hint}") from error
    sizes = zip(found.shape[1:], shape, strict=False)
    if len(found) != len(some) or found.dim() != 1 + len(shape) or any(n not in (m, None) for m, n in sizes):
        raise MethodError(f"{what} returns {tuple(found.shape)} for {len(some)} items; it must return {wanted}")
    if not bool(torch.isfinite(found).all()):
        raise MethodError(f"{what} returns numbers that are not finite for the first items; look at its weights")
    return found


def _warn_of_probabilities(body: nn.Module, found: Tensor) -> None:
    """Warns where outputs (B, K) are shares: taken for logits, the surest has e / (e + K - 1) at most."""
    last = body
    while isinstance(last, nn.Sequential) and len(last):
        last = last[-1]
    ends = type(last).__name__ if isinstance(last, nn.Softmax | nn.Sigmoid) else ""
    shares = found.shape[1] > 1 and bool((found >= 0).all() and ((found.sum(1) - 1).abs() < 1e-4).all())
    if ends or shares:
        what = f"ends in {ends}" if ends else "returns rows that sum to one on the first items"
        warn(
            f"the network {what}; its outputs are taken for logits, so that it is hardly sure of any class: drop "
            f"the last {ends or 'Softmax'}",
            LogitsWarning,
        )


def refuse_gradients(training: Training) -> None:
    """Refuses settings of training that mean gradients, for a classifier that is fitted anew."""
    for name in ("mixup", "balance", "volume", "full_batch"):
        if getattr(training, name):
            raise MethodError(
                f"training: {name}={getattr(training, name)!r} is for networks that learn by gradients, and this "
                "classifier is fitted anew in each epoch; leave it out (bayes_dgc: recipe='plain')"
            )


def learns(network: nn.Module) -> bool:
    """Whether it has a weight that is to learn."""
    return any(x.requires_grad for x in network.parameters())


def init_weights(network: nn.Module, training: Training, seed: int) -> None:
    """Sets first weights where crowdppl made the network; MethodError for another in mixed precision."""
    if isinstance(network, Network):
        network.precision = training.precision
        network.begin(seed)
    elif training.precision != "full":
        raise MethodError(
            f"training: precision={training.precision!r} needs a network that crowdppl.networks.prepared or "
            "prepared_view made; call it in setup, or use torch.autocast in the network"
        )


def outputs(network: nn.Module, features: Features) -> Tensor:
    """The outputs (N, ...) of a network as it is, without dropout or gradients; MethodError for no tensor."""
    learning = network.training
    network.eval()
    rows = []
    with torch.no_grad():
        device = device_of(network)
        for part in parts(features):
            found = network(part.to(device))
            if not isinstance(found, Tensor):
                raise MethodError(f"the network returns {kind_of(found)}; it must return one tensor")
            rows.append(found)
    network.train(learning)
    return torch.cat(rows)


def log_shares(network: nn.Module, features: Features) -> Tensor:
    """Log-probabilities (N, K) of the classes by a classifier as it is."""
    return outputs(network, features).log_softmax(-1)


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
