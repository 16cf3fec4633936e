"""Priors of confusion rows, coins and prevalences."""

from __future__ import annotations

from typing import Any

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor

from crowdppl.core.collective import n_processes, reduced
from crowdppl.core.validation import number_within, require_data
from crowdppl.data.blocks import Block
from crowdppl.errors import MethodError
from crowdppl.primitives.plates import Data, block_of

STRENGTH = 4.0
"""Pseudo-counts of a confusion row, by default."""


def crowd_rows(data: Data, crowd_prior_strength: float, contexts: int | None = None) -> Tensor:
    """Pseudo-counts of confusion rows that follow the crowd's rows, which are learned.

    Site ``crowd`` is Dirichlet, with 2 on the right answer and 1 on each other. It draws rows with few labels, and
    unusual annotators, to the crowd. Call it outside all plates; ``em`` learns no parameters of priors.

    Args:
        data: the model's argument.
        crowd_prior_strength: pseudo-counts of a row; 0 has no crowd.
        contexts: X, in each of which the crowd has other rows; None for the same.

    Returns:
        (..., K, K) [truth, label] to be added to a Dirichlet's concentrations, (..., X, K, K) in contexts; 0 where
        there is no crowd.

    Raises:
        DataError: ``data`` is neither annotations nor a block of them.
        MethodError: ``crowd_prior_strength`` is no number from 0 on.

    Examples:
        >>> import pyro
        >>> with pyro.poutine.seed(rng_seed=0):
        ...     rows = crowdppl.primitives.crowd_rows(crowdppl.anaesthetists(), 14)
        >>> rows.sum(-1)  # and a thousandth for each class, because a concentration must not be 0
        tensor([14.0040, 14.0040, 14.0040, 14.0040])
    """
    k = block_of(data).n_classes
    if not number_within("crowd_prior_strength", crowd_prior_strength, "a number from 0 on", lambda x: x >= 0):
        return torch.zeros(())
    rows = 1 + torch.eye(k)
    rows = rows if contexts is None else rows.repeat(contexts, 1)
    crowd: Tensor = pyro.sample("crowd", dist.Dirichlet(rows).to_event(1))
    crowd = crowd if contexts is None else crowd.unflatten(-2, (contexts, k))
    return crowd_prior_strength * crowd + 1e-3


def confusion_prior(
    data: Data,
    prior_strength: float = STRENGTH,
    prior_accuracy: float | None = None,
    coins: bool = False,
    *,
    mode: bool = False,
) -> Tensor:
    """Dirichlet concentrations of confusion rows, larger on the diagonal; an annotator's history is added.

    The strength does not grow with K. A fixed number of pseudo-counts for each class would let Dawid-Skene collapse
    on sparse data with many classes.

    Args:
        data: the model's argument.
        prior_strength: pseudo-counts of a row.
        prior_accuracy: share of them on the correct label, by default half way between 1 and chance; the rest is
            spread evenly.
        coins: whether the rows of an annotator are one coin; each then has 1 / K of the strength.
        mode: whether to add 1 to each concentration, so that the mode, which ``em`` finds, has these pseudo-counts;
            ``em`` takes no concentrations below 1.

    Returns:
        (K, K) [truth, label], or (A, K, K) [annotator, truth, label] where the data carry a history.

    Examples:
        >>> crowdppl.primitives.confusion_prior(crowdppl.anaesthetists(), prior_strength=4)
        tensor([[2.5000, 0.5000, 0.5000, 0.5000],
                [0.5000, 2.5000, 0.5000, 0.5000],
                [0.5000, 0.5000, 2.5000, 0.5000],
                [0.5000, 0.5000, 0.5000, 2.5000]])
    """
    block = block_of(data)
    rows = diagonal_prior(block.n_classes, prior_strength, prior_accuracy, coins).to(block.device)
    rows = rows + 1 if mode else rows
    return rows if block.history is None else rows + block.history.to(rows)


def diagonal_prior(
    n_classes: int, prior_strength: float = STRENGTH, prior_accuracy: float | None = None, coins: bool = False
) -> Tensor:
    """Pseudo-counts of rows that belong to no annotator, and favour the diagonal: (K, K).

    Examples:
        >>> crowdppl.primitives.diagonal_prior(2, prior_strength=10, prior_accuracy=0.7)
        tensor([[7., 3.],
                [3., 7.]])
    """
    right = (1 + 1 / n_classes) / 2 if prior_accuracy is None else prior_accuracy
    same = torch.eye(n_classes)
    rows = right * same + (1 - right) / (n_classes - 1) * (1 - same)
    return prior_strength / (n_classes if coins else 1) * rows


def default_prevalence(data: Data) -> float:
    """Pseudo-counts of each class in the prior of the prevalence, where annotators have confusion matrices.

    4 for two classes, 10 for three, 100 for more: where items are hard for all, too few pseudo-counts let the
    shares of many classes drift with the confusions; too many draw unbalanced classes together. With fewer items
    a class than this, it falls with their square, to no less than 1, a flat prior: few items are not outweighed.

    Args:
        data: the model's argument. A model finds the number in ``setup``, once for all blocks of the labels.

    Raises:
        DataError: ``data`` is neither annotations nor a block of them.
        MethodError: it is a block, in a fit that processes share.

    Examples:
        >>> data = crowdppl.anaesthetists()
        >>> data.n_items, data.n_classes, round(crowdppl.primitives.default_prevalence(data), 2)
        (45, 4, 1.27)
    """
    given: Any = require_data(data)  # sizes are known of annotations too, without one block of everything
    if n_processes() > 1 and isinstance(given, Block):
        raise MethodError(
            "default_prevalence(data) in model(data) would count the items of one process; call it in setup(data), "
            "and give prevalence the number"
        )
    most = {2: 4.0, 3: 10.0}.get(given.n_classes, 100.0)
    a_class = given.scale * reduced(given.n_items) / given.n_classes
    return max(1.0, most * min(1.0, float(a_class) / most) ** 2)


def coin_prior(data: Data, right: float, wrong: float, by_class: bool = False) -> Tensor:
    """Dirichlet concentrations of an annotator's coin over (right, wrong).

    Args:
        data: the model's argument.
        right, wrong: pseudo-counts of right and wrong labels; an annotator's history is added to them.
        by_class: one coin for each true class instead of one for all.

    Returns:
        (2,) or (K, 2), or with history (A, 2) or (A, K, 2).

    Examples:
        >>> crowdppl.primitives.coin_prior(crowdppl.anaesthetists(), right=4.0, wrong=2.0)
        tensor([4., 2.])
    """
    block = block_of(data)
    prior = torch.tensor([float(right), float(wrong)], device=block.device)
    if by_class:
        prior = prior.expand(block.n_classes, 2)
    if block.history is None:
        return prior
    return prior + coin_counts(block.history, by_class).to(prior)


def coin_counts(rows: Tensor, by_class: bool = False) -> Tensor:
    """Numbers of right and of wrong labels among counts of labels.

    Args:
        rows: (..., K, K) [truth, label].
        by_class: whether to count each true class by itself.

    Returns:
        (..., 2), or (..., K, 2).

    Examples:
        >>> import torch
        >>> crowdppl.primitives.coin_counts(torch.tensor([[7.0, 3.0], [1.0, 9.0]]))
        tensor([16.,  4.])
    """
    right = rows.diagonal(dim1=-2, dim2=-1)
    coins = torch.stack([right, rows.sum(-1) - right], -1)
    return coins if by_class else coins.sum(-2)
