"""Classes that are the leaves of a tree: errors stay near, or go far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crowdppl.core.validation import is_whole, listed, near_names, shown
from crowdppl.errors import MethodError
from crowdppl.primitives.labels import Coins
from crowdppl.primitives.plates import Data, block_of

Levels = list[list[int]]


def tree_levels(taxonomy: Mapping[Any, Any] | Sequence[Sequence[int]], data: Any) -> Levels:
    """The node above each class, level by level from the parents upwards, without the root.

    A class or group that the mapping does not name hangs from the root. Where paths differ in length, short ones
    stay at their last node.

    Args:
        taxonomy: the parent of each class, and of each group of classes that has one: {"lemon": "fruit", "fruit":
            "plant"}; or what this function returns.
        data: the annotations; for levels, a block of them is enough.

    Returns:
        (M, K) numbers of nodes from 0, M the length of the longest path.

    Raises:
        MethodError: when the taxonomy names what is neither class nor parent, has a circle, or a class that is a
            parent; or levels that are not one number a class.

    Examples:
        >>> data = crowdppl.random_design(4, 1, 1, classes=["ball", "lemon", "orange"], seed=0)
        >>> crowdppl.primitives.tree_levels({"lemon": "fruit", "orange": "fruit"}, data)
        [[0, 1, 1]]
    """
    if not isinstance(taxonomy, Mapping):
        return _levels_as_given(taxonomy, data.n_classes)
    classes, parents = list(data.classes), set(taxonomy.values())
    unknown = [x for x in taxonomy if x not in parents and x not in data.classes]
    if unknown:
        hint = near_names(str(unknown[0]), [str(x) for x in classes])
        raise MethodError(
            f"taxonomy names {listed([repr(x) for x in unknown])}, neither a class nor a parent{hint}; leave it "
            "out, or name all classes (classes=)"
        )
    both = [x for x in classes if x in parents]
    if both:
        raise MethodError(
            f"taxonomy: {both[0]!r} is a class and a parent; name the group otherwise, as 'any {both[0]}', and "
            f"hang {both[0]!r} from it"
        )
    paths = [_path(x, taxonomy) for x in classes]
    deepest = max(map(len, paths))
    levels = []
    for level in range(1, deepest):
        at, codes = [path[min(level, len(path) - 1)] for path in paths], dict[Any, int]()
        levels.append([codes.setdefault(node, len(codes)) for node in at])
    return levels


def _path(node: Any, taxonomy: Mapping[Any, Any]) -> list[Any]:
    """A class and what is above it."""
    path = [node]
    while path[-1] in taxonomy:
        above = taxonomy[path[-1]]
        if above in path:
            raise MethodError(f"taxonomy: {above!r} is above itself; break the circle")
        path.append(above)
    return path


def _levels_as_given(levels: Any, n_classes: int) -> Levels:
    """Levels with a whole number for each class."""
    right = isinstance(levels, Sequence) and not isinstance(levels, str)
    right = right and all(isinstance(x, Sequence) and len(x) == n_classes and all(map(is_whole, x)) for x in levels)
    if not right:
        raise MethodError(
            f"taxonomy={shown(levels)} must map classes to parents, as {{'lemon': 'fruit', 'orange': 'fruit'}}"
        )
    return [list(x) for x in levels]


def branches(levels: Sequence[Sequence[int]], n_classes: int) -> np.ndarray:
    """Of each class, how many branches its node of each level above has, the root last: (1 + M, K)."""
    paths = np.array([np.arange(n_classes), *levels, np.zeros(n_classes)], np.int64).reshape(-1, n_classes)
    out = np.empty((len(paths) - 1, n_classes), np.int64)
    for level, (below, above) in enumerate(pairwise(paths)):
        edges = np.unique(np.stack([above, below]), axis=1)
        names, counts = np.unique(edges[0], return_counts=True)
        out[level] = counts[np.searchsorted(names, above)]
    return out


def tree_coins(data: Data, log_coin: Tensor, levels: Sequence[Sequence[int]]) -> Coins:
    """Annotators who find the truth's branch at each level of a tree with a probability of their own.

    From the root down, the annotator takes the branch of the truth with the probability of the level; once in
    another, which is any other evenly, branches are taken evenly down to a class. A node of one branch asks for no
    coin. Without levels this is one coin.

    Args:
        data: the model's argument.
        log_coin: (..., A, 1 + M, 2), log-probabilities of the right and of another branch: of the class among
            those of its parent, of the parent among those of its own, ..., at the root.
        levels: (M, K), as ``tree_levels`` gives them.

    Returns:
        ``Coins``, whose numbers grow with K, and not with its square.

    Raises:
        MethodError: when ``log_coin`` has another shape.

    Examples:
        >>> import torch
        >>> design = crowdppl.random_design(4, 1, 1, classes=["ball", "lemon", "orange"], seed=0)
        >>> coin = torch.tensor([[[0.8, 0.2], [0.9, 0.1]]]).log()  # right among fruit, and fruit told from balls
        >>> crowdppl.primitives.tree_coins(design, coin, [[0, 1, 1]]).table(3).exp()
        tensor([[[0.9000, 0.0500, 0.0500],
                 [0.1000, 0.7200, 0.1800],
                 [0.1000, 0.1800, 0.7200]]])
    """
    k, depth = block_of(data).n_classes, len(levels) + 1
    if log_coin.dim() < 3 or log_coin.shape[-2:] != (depth, 2):
        raise MethodError(
            f"log_coin has shape {tuple(log_coin.shape)}, not (..., A, {depth}, 2) for a tree with {depth - 1} "
            "levels between classes and root"
        )
    counts = torch.from_numpy(branches(levels, k)).to(log_coin)  # (J, K)
    asked, even = (counts > 1).to(log_coin), counts.log()
    stay, leave = log_coin.unbind(-1)
    each = []  # of an answer whose lowest node shared with the truth is of each level
    for level in range(depth + 1):
        value = _alike(asked[level:], stay[..., level:])
        if level:
            choices = (counts[level - 1] - 1).clamp(min=1).log() + even[: level - 1].sum(0)
            value = value + leave[..., level - 1, None] - _narrow(choices)
        each.append(value)
    nodes = tuple(torch.tensor(x, device=log_coin.device) for x in levels)
    return Coins(each[0], each[-1], log_near=tuple(each[1:-1]), nodes=nodes)


def _alike(asked: Tensor, stay: Tensor) -> Tensor:
    """Sums over levels, of (J, K) and (..., A, J): (..., A, K), or (..., A, 1) where they are the same for all."""
    return stay @ _narrow(asked)


def _narrow(x: Tensor) -> Tensor:
    """The first of equal columns, or all."""
    return x[..., :1] if bool((x == x[..., :1]).all()) else x


def tree_counts(rows: Tensor, levels: Sequence[Sequence[int]]) -> Tensor:
    """How often the right branch and another were taken at each level, among counts of labels.

    Args:
        rows: (..., K, K) [truth, label].
        levels: (M, K), as ``tree_levels`` gives them.

    Returns:
        (..., 1 + M, 2).

    Examples:
        >>> import torch
        >>> crowdppl.primitives.tree_counts(torch.tensor([[9., 0., 1.], [1., 5., 2.], [0., 3., 6.]]), [[0, 1, 1]])
        tensor([[11.,  5.],
                [25.,  2.]])
    """
    k = rows.shape[-1]
    asked = torch.from_numpy(branches(levels, k) > 1).to(rows)
    at = [torch.arange(k), *(torch.tensor(x) for x in levels), torch.zeros(k)]
    same = [(x.unsqueeze(-1) == x).to(rows) for x in at]
    out = []
    for level, (below, above) in enumerate(pairwise(same)):
        here = rows * asked[level].unsqueeze(-1)
        out.append(torch.stack([(here * below).sum((-2, -1)), (here * (above - below)).sum((-2, -1))], -1))
    return torch.stack(out, -2)
