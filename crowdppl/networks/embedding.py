"""Networks that embed items in a space where classes form clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from crowdppl.core.devices import default_dtype, seed_streams
from crowdppl.core.validation import require_data
from crowdppl.errors import DataError, MethodError
from crowdppl.networks.classifier import Standardise, checked, input_layer, outputs, own_copy

SPREAD = 3.0
"""Typical distance of standardised features from their mean, after the first projection."""

REACH = 3.0
"""Standard deviations at which features are clipped: new classes may vary more than known ones."""


class Embedding(nn.Module):
    """A network that maps standardised features to points of a space.

    The body maps a batch (B, ...) to (B, M). Of the features (N, ...) on which it is trained, only tables (N, D)
    are standardised and clipped; images are flattened for ``Layers``. ``own`` is a user's body; ``learning`` names
    its parameters that were not frozen.
    """

    def __init__(self, body: nn.Module, features: Tensor, dimension: int) -> None:
        super().__init__()
        self.body, self.dimension, self.own = body, dimension, not isinstance(body, Layers)
        self.first = input_layer(body, features, self.own, whole=False)
        self.learning = frozenset(name for name, x in body.named_parameters() if x.requires_grad)

    def forward(self, x: Tensor) -> Tensor:
        """(B, ...) to (B, M)."""
        x = self.first(x)
        with default_dtype(torch.float32):
            out: Tensor = self.body(x.clamp(-REACH, REACH) if isinstance(self.first, Standardise) else x)
        return out

    def places(self, x: Tensor) -> Tensor:
        """Places of items of several tasks, (T, N, ...) to (T, N, M)."""
        out: Tensor = self.forward(x.flatten(0, 1)).unflatten(0, x.shape[:2])
        return out


class Layers(nn.Module):
    """A projection that keeps distances, plus rectified layers of these widths, which add nothing at first.

    With few classes to learn from, a space near that of the features is better than one learned from scratch.
    """

    def __init__(self, n_features: int, widths: Sequence[int]) -> None:
        super().__init__()
        self.straight = nn.Linear(n_features, widths[-1])
        nn.init.orthogonal_(self.straight.weight, SPREAD / min(n_features, widths[-1]) ** 0.5)
        nn.init.zeros_(self.straight.bias)
        parts: list[nn.Module] = []
        for before, after in pairwise([n_features, *widths]):
            parts += [nn.Linear(before, after), nn.ReLU()]
        self.bent = nn.Sequential(*parts[:-1])
        for x in self.bent[-1].parameters():
            nn.init.zeros_(x)

    def forward(self, x: Tensor) -> Tensor:
        """(B, n_features) to (B, widths[-1])."""
        out: Tensor = self.straight(x) + self.bent(x)
        return out


def embedding_for(
    body: nn.Module | None, features: Tensor, widths: Sequence[int], seed: int | None = None
) -> Embedding:
    """An embedding with first weights, by a seed, for features (N, ...), of a user's copied body, or ``Layers``.

    Frozen parts stay frozen. MethodError when the network refuses the features, does not return finite numbers (B,
    M), or cannot be copied.
    """
    with torch.random.fork_rng():
        if seed is not None:
            seed_streams(seed)
        own = body.body if isinstance(body, Embedding) else body
        new = Layers(features[0].numel(), widths) if own is None else own_copy(own, "the embedding")
    if isinstance(body, Embedding):  # meta-training froze all of it
        for name, x in new.named_parameters():
            x.requires_grad_(name in body.learning)
    out = Embedding(new, features, 0)
    out.dimension = checked(out.eval(), features, (None,), "finite (B, M)", "the embedding").shape[1]
    return out


def trained_embedding(
    embedding: nn.Module | None, widths: Sequence[int], weights: Mapping[str, Tensor] | None, data: Any
) -> nn.Module | None:
    """The embedding with which annotations are fitted.

    Args:
        embedding: the result of ``meta_trained``; where only its weights are left, a user's network of the same
            architecture, or None for ``Layers``.
        widths: of the layers.
        weights: of the trained embedding; None before meta-training.

    Returns:
        An ``Embedding`` that learns no more; None where data have no features and nothing was trained.

    Raises:
        DataError: when there is a trained embedding, and no features, or features of another shape.
        MethodError: when there are features, and nothing was trained, or only weights of a user's network are left.
    """
    given = require_data(data).features
    features = None if given is None else torch.from_numpy(np.array(given[:1], np.float32))
    if weights is None:
        if features is None and embedding is None:
            return None
        if features is None:
            raise DataError("the method has an embedding, but the data have no features; give features=")
        raise MethodError(
            "features need a network that was meta-trained: fit what meta_fit(episodes) returns, or leave features "
            "out"
        )
    if features is None:
        raise DataError("the method was meta-trained on features, but the data have no features; give features=")
    if not isinstance(embedding, Embedding):
        embedding = _rebuilt(embedding, widths, weights, features)
    try:
        outputs(embedding, features)
    except (RuntimeError, IndexError) as error:
        shape = tuple(features.shape[1:])
        raise DataError(f"features of shape {shape} are not those of meta-training: {error}") from error
    return embedding


def _rebuilt(
    body: nn.Module | None, widths: Sequence[int], weights: Mapping[str, Tensor], features: Tensor
) -> Embedding:
    """An embedding with these weights."""
    straight = "body.straight.weight"
    if body is None and straight not in weights:
        raise MethodError(
            "the weights are those of a network of your own; give embedding= of the same architecture"
        )
    if body is None:
        n_features = weights[straight].shape[1]
        table = "first.mean" in weights
        out = Embedding(Layers(n_features, widths), torch.zeros(1, n_features) if table else features, widths[-1])
    else:
        out = embedding_for(body, features, widths)
    out.load_state_dict(dict(weights))
    return out.eval().requires_grad_(False)
