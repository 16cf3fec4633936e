"""Priors of confusion tables, coins and prevalences."""

from __future__ import annotations

import math

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor

from crowdppl.core.validation import number_within, whole_number
from crowdppl.primitives import plates
from crowdppl.primitives.plates import Data, block_of

ALIKE = 8.0
"""Pseudo-counts with which a level scatters around the one above it: of abilities fixed, of the others a median."""


def crowd_confusion(data: Data, alike: float = ALIKE) -> Tensor:
    """Confusion rows in three levels: the crowd's, an annotator's ability, and the annotator's rows.

    An annotator's row of a class that they saw seldom leans on how they did with other classes, and on which
    errors the crowd makes there; how far is learned. Sites:

        skill            ~ Beta(6, 2)                                    accuracy of the crowd
        errors[k]        ~ Dirichlet(2)                                  (K, K), where the crowd errs; k left out
        alike_classes, alike_errors ~ LogNormal(log alike, 1)
        ability[a]       ~ Beta(alike * (skill, 1 - skill))                                    (A)
        hit[a, k]        ~ Dirichlet(alike_classes * (ability[a], 1 - ability[a]))             (A, K, 2)
        error[a, k]      ~ Dirichlet(alike_errors * errors[k] without k)                       (A, K, K - 1)

    ``error`` and its parents exist for three classes and more. History adds to ``hit`` and ``error``. Call it
    outside all plates.

    How far abilities scatter is not learned: labels tell it badly, and mean field, which takes each ability for
    surer than it is, makes all annotators equally able.

    Args:
        data: the story's argument.
        alike: pseudo-counts of abilities around the crowd's, and medians of the other two concentrations.

    Returns:
        (..., A, K, K) log-probabilities [annotator, truth, label].

    Examples:
        >>> import pyro
        >>> with pyro.poutine.seed(rng_seed=0):
        ...     log_p = crowdppl.primitives.crowd_confusion(crowdppl.anaesthetists())
        >>> log_p.shape
        torch.Size([5, 4, 4])
    """
    block = block_of(data)
    k, history = block.n_classes, block.history
    middle, tiny = torch.tensor(math.log(alike)), 1e-3  # a share drawn as 0 would be no concentration
    skill = pyro.sample("skill", dist.Beta(torch.tensor(6.0), torch.tensor(2.0)))
    classes = pyro.sample("alike_classes", dist.LogNormal(middle, 1.0))
    if k > 2:
        errors = pyro.sample("errors", dist.Dirichlet(torch.full((k, k), 2.0)).to_event(1))
        shared = pyro.sample("alike_errors", dist.LogNormal(middle, 1.0))
    with plates.annotators(data):
        ability = pyro.sample("ability", dist.Beta(alike * skill + tiny, alike * (1 - skill) + tiny))
        coin = classes[..., None, None] * torch.stack([ability, 1 - ability], -1)[..., None, :] + tiny
        coin = coin.expand(*coin.shape[:-2], k, 2)
        if history is not None:
            right = history.diagonal(dim1=-2, dim2=-1)
            coin = coin + torch.stack([right, history.sum(-1) - right], -1).to(coin)
        hit = pyro.sample("hit", dist.Dirichlet(coin).to_event(1)).log()
        if k == 2:
            return _rows(hit, torch.zeros_like(hit[..., 1:]))
        wrong = _without_diagonal(errors)
        wrong = shared[..., None, None] * wrong / wrong.sum(-1, keepdim=True) + tiny
        if history is not None:
            wrong = wrong + _without_diagonal(history).to(wrong)
        return _rows(hit, pyro.sample("error", dist.Dirichlet(wrong).to_event(1)).log())


def crowd_rows(data: Data, crowd_prior_strength: float) -> Tensor:
    """Pseudo-counts of an annotator's confusion rows that are shared as the crowd has them, which is learned.

    Site ``crowd`` is Dirichlet, 2 on the right answer and 1 on each other. Rows of few labels are drawn to it, and
    so are annotators unlike it. Call it outside all plates; ``em`` learns no parameters of priors.

    Args:
        data: the story's argument.
        crowd_prior_strength: pseudo-counts a row; 0 has no crowd.

    Returns:
        (..., K, K) [truth, label] to be added to a Dirichlet's concentrations; 0 where there is no crowd.

    Raises:
        DataError: ``data`` is neither annotations nor what a story is given.
        MethodError: ``crowd_prior_strength`` is no number from 0 on.

    Examples:
        >>> import pyro
        >>> with pyro.poutine.seed(rng_seed=0):
        ...     rows = crowdppl.primitives.crowd_rows(crowdppl.anaesthetists(), 14)
        >>> rows.sum(-1)  # and a thousandth each, because a share drawn as 0 would be no concentration
        tensor([14.0040, 14.0040, 14.0040, 14.0040])
    """
    k = block_of(data).n_classes
    if not number_within("crowd_prior_strength", crowd_prior_strength, "a number from 0 on", lambda x: x >= 0):
        return torch.zeros(())
    lean = 1 + torch.eye(k)
    crowd: Tensor = pyro.sample("crowd", dist.Dirichlet(lean).to_event(1))
    return crowd_prior_strength * crowd + 1e-3


def _without_diagonal(x: Tensor) -> Tensor:
    """(..., K, K) to (..., K, K - 1): the other classes of each row, in order."""
    k = x.shape[-1]
    other = (1 - torch.eye(k, device=x.device)).nonzero()[:, 1].reshape(k, k - 1)
    return x.gather(-1, other.expand(*x.shape[:-1], k - 1))


def _rows(hit: Tensor, error: Tensor) -> Tensor:
    """Log rows (..., K, K) from those of being right or wrong (..., K, 2) and of errors (..., K, K - 1)."""
    k = hit.shape[-2]
    truth, label = torch.arange(k, device=hit.device)[:, None], torch.arange(k, device=hit.device)
    place = (label - (label > truth).long()).clamp(max=k - 2)  # of a label among the errors of a row
    wrong = hit[..., 1:] + error.gather(-1, place.expand(*error.shape[:-1], k))
    return torch.where(truth == label, hit[..., :1], wrong)


MASS = 4.0
"""Pseudo-counts a row, by default."""


def confusion_prior(
    data: Data, prior_strength: float = MASS, diagonal: float | None = None, coins: bool = False
) -> Tensor:
    """Dirichlet concentrations of confusion rows, leaning on the diagonal.

    Two pseudo-counts a class are enough to collapse Dawid-Skene on sparse data with many classes, because
    their prior_strength grows with K; this prior has the same prior_strength for every K. Its defaults were chosen by held-out labels
    of six data sets, without any known truth. An annotator's history is added to it.

    Args:
        data: the story's argument.
        prior_strength: pseudo-counts a row.
        prior_accuracy: share of the prior_strength on the right answer, by default half way between certainty and chance; the
            rest is spread evenly.
        coins: whether the rows of an annotator are one coin; each then has 1 / K of the prior_strength.

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
    rows = diagonal_prior(block.n_classes, prior_strength, diagonal, coins).to(block.device)
    return rows if block.history is None else rows + block.history.to(rows)


def diagonal_prior(
    n_classes: int, prior_strength: float = MASS, diagonal: float | None = None, coins: bool = False
) -> Tensor:
    """The same prior for rows that belong to no annotator: (K, K).

    Examples:
        >>> crowdppl.primitives.diagonal_prior(2, prior_strength=10, prior_accuracy=0.7)
        tensor([[7., 3.],
                [3., 7.]])
    """
    share = (1 + 1 / n_classes) / 2 if diagonal is None else diagonal
    same = torch.eye(n_classes)
    return (
        prior_strength / (n_classes if coins else 1) * (share * same + (1 - share) / (n_classes - 1) * (1 - same))
    )


def default_prevalence(n_classes: int) -> float:
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
        >>> crowdppl.primitives.default_prevalence(2), crowdppl.primitives.default_prevalence(8)
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
    """How many of the labels that rows count are right, and how many are wrong.

    Args:
        rows: (..., K, K) [truth, label].
        by_class: for each true class apart.

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
