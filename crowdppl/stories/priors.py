"""House priors: weak enough for the labels to speak, strong enough not to collapse on sparse data."""

from __future__ import annotations

import torch
from torch import Tensor

from crowdppl.doors.counts import whole_number
from crowdppl.plates import Data, block_of

MASS = 4.0
"""Pseudo-counts a row, by default."""


def confusion_prior(data: Data, mass: float = MASS, diagonal: float | None = None, coins: bool = False) -> Tensor:
    """Dirichlet concentrations of confusion rows, leaning on the diagonal.

    Two pseudo-counts a class are enough to collapse Dawid-Skene on sparse data with many classes, because
    their mass grows with K; this prior has the same mass for every K. Its defaults were chosen by held-out labels
    of six data sets, without any known truth. An annotator's history is added to it.

    Args:
        data: the story's argument.
        mass: pseudo-counts a row.
        diagonal: share of the mass on the right answer, by default half way between certainty and chance; the
            rest is spread evenly.
        coins: whether the rows of an annotator are one coin; each then has 1 / K of the mass.

    Returns:
        (K, K) [truth, label], or (A, K, K) [annotator, truth, label] where the data carry a history.

    Examples:
        >>> crowdppl.confusion_prior(crowdppl.anaesthetists(), mass=4)
        tensor([[2.5000, 0.5000, 0.5000, 0.5000],
                [0.5000, 2.5000, 0.5000, 0.5000],
                [0.5000, 0.5000, 2.5000, 0.5000],
                [0.5000, 0.5000, 0.5000, 2.5000]])
    """
    block = block_of(data)
    rows = leaning_rows(block.n_classes, mass, diagonal, coins).to(block.device)
    return rows if block.history is None else rows + block.history.to(rows)


def leaning_rows(n_classes: int, mass: float = MASS, diagonal: float | None = None, coins: bool = False) -> Tensor:
    """The same prior for rows that belong to no annotator: (K, K).

    Examples:
        >>> crowdppl.leaning_rows(2, mass=10, diagonal=0.7)
        tensor([[7., 3.],
                [3., 7.]])
    """
    share = (1 + 1 / n_classes) / 2 if diagonal is None else diagonal
    same = torch.eye(n_classes)
    return mass / (n_classes if coins else 1) * (share * same + (1 - share) / (n_classes - 1) * (1 - same))


def house_prevalence(n_classes: int) -> float:
    """Pseudo-counts of each class in the prior of the prevalence, where annotators have confusion matrices.

    4 for two classes, 32 for three, 100 for more. Where items are hard for all, few pseudo-counts let the shares of
    many classes drift away with the confusions; many draw unbalanced classes of few items together. Two classes
    hardly drift. Of simulated crowds with items of all difficulties (200 and 400 items, 20 annotators, six crowds
    each), bayesian_dawid_skene by vb has right with 4, 24 and 100 pseudo-counts: .92, .92, .92 of two even classes
    and .92, .90, .88 of two uneven ones; .75, .78, .80 of three even ones and .85, .85, .84 of three uneven ones;
    .81, .81, .83 and .64, .66, .65 of four.

    Args:
        n_classes: K.

    Raises:
        MethodError: for what is no whole number from 2 on.

    Examples:
        >>> crowdppl.house_prevalence(2), crowdppl.house_prevalence(8)
        (4.0, 100.0)
    """
    return {2: 4.0, 3: 32.0}.get(whole_number("n_classes", n_classes, 2), 100.0)


def coin_prior(data: Data, right: float, wrong: float, by_class: bool = False) -> Tensor:
    """Dirichlet concentrations of an annotator's coin over (right, wrong).

    Args:
        data: the story's argument.
        right, wrong: pseudo-counts of right and wrong labels; an annotator's history is added to them.
        by_class: one coin for each true class instead of one for all.

    Returns:
        (2,) or (K, 2), or with history (A, 2) or (A, K, 2).

    Examples:
        >>> crowdppl.coin_prior(crowdppl.anaesthetists(), right=4.0, wrong=2.0)
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
    """How many of the labels that rows count are right, and how many are wrong.

    Args:
        rows: (..., K, K) [truth, label].
        by_class: for each true class apart.

    Returns:
        (..., 2), or (..., K, 2).

    Examples:
        >>> import torch
        >>> crowdppl.coin_counts(torch.tensor([[7.0, 3.0], [1.0, 9.0]]))
        tensor([16.,  4.])
    """
    right = rows.diagonal(dim1=-2, dim2=-1)
    coins = torch.stack([right, rows.sum(-1) - right], -1)
    return coins if by_class else coins.sum(-2)
