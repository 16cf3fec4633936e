"""What an item may be where it lies between classes: fixed shares of them."""

from __future__ import annotations

import torch
from torch import Tensor

from crowdppl.doors.counts import share_between
from crowdppl.stories.summing import drawing, logsumexp

EMPTY = -80.0
"""Log of the share of a class that an atom holds nothing of: minus infinity has no gradient."""
BLENDS = {5: (0.1, 0.2, 0.3, 0.4, 0.5), 20: (0.15, 0.3, 0.45), 50: (0.5,)}
"""Shares of the second class in a blend, up to so many classes; of still more, pairs are too many."""
DILUTIONS = (0.25, 0.5, 0.75, 1.0)


def class_atoms(n_classes: int, blends: tuple[float, ...] | None = None, diluted: bool = True) -> Tensor:
    """What an item may be where it lies between classes: each class alone, two in a blend, or one in all.

    Args:
        n_classes: K.
        blends: shares of the second class in blends of two; None takes five for up to five classes, three for up
            to 20, even blends alone for up to 50, and no blends of two beyond.
        diluted: whether there are atoms in which all classes take part; of two classes, all are blends.

    Returns:
        (S, K) log-shares of the classes, S = 11, 40, 71, 111 for 2 to 5 classes; -80 stands for none. By default
        they are never more than 1,426 for up to 50 classes, and 4 K + 1 beyond.

    Examples:
        >>> crowdppl.class_atoms(2, blends=(0.5,))
        tensor([[  0.0000, -80.0000],
                [-80.0000,   0.0000],
                [ -0.6931,  -0.6931]])
    """
    same = torch.eye(n_classes)
    if blends is None:
        blends = next((some for most, some in BLENDS.items() if n_classes <= most), ())
    rows = [same]
    for x in blends:
        share_between("each of blends", x, "of the second class in a blend of two")
        pairs = (1 - x) * same.unsqueeze(1) + x * same  # an even blend is the same either way round
        rows.append(pairs[same.logical_not().triu() if x == 0.5 else same.logical_not()])
    for x in DILUTIONS if diluted and n_classes > 2 else ():  # of two classes, all are blends
        rows.append(((1 - x) * same + x / n_classes)[: 1 if x == 1 else n_classes])
    return torch.cat(rows).log().clamp(min=EMPTY)


def through_atoms(log_atoms: Tensor, by_seen: Tensor) -> Tensor:
    """What annotators answer on an item of each atom, where each of them sees a class drawn from it.

    Args:
        log_atoms: (S, K), as of ``class_atoms``.
        by_seen: (..., A, K, L), log p(answer | annotator, class seen).

    Returns:
        (..., A, S, L).

    Examples:
        >>> import torch
        >>> skilled = torch.tensor([[0.9, 0.1], [0.2, 0.8]]).log()  # [class seen, answer] of one annotator
        >>> crowdppl.through_atoms(crowdppl.class_atoms(2, blends=(0.5,)), skilled[None]).exp()
        tensor([[[0.9000, 0.1000],
                 [0.2000, 0.8000],
                 [0.5500, 0.4500]]])
    """
    return _drawn(log_atoms, by_seen) if drawing() else _mixed(log_atoms, by_seen)


def _mixed(log_atoms: Tensor, by_seen: Tensor) -> Tensor:
    """All sums as one product of matrices: 5 to 10 times faster than their terms side by side."""
    front = by_seen.movedim(-2, 0)
    top = front.detach().amax(0)  # minus infinity for answers that an annotator was never offered
    terms = (front - top.clamp(min=torch.finfo(top.dtype).min)).exp()
    # What an atom holds nothing of keeps its tiny share, so that no sum of terms is 0 where there is a top.
    mixed = (log_atoms.exp().to(terms) @ terms.flatten(1)).reshape(-1, *top.shape)
    return (mixed.where(mixed > 0, 1.0).log() + top).movedim(0, -2)


def _drawn(log_atoms: Tensor, by_seen: Tensor) -> Tensor:
    """Sums of which each class seen can be drawn; atoms of two classes, which most are, have two terms."""
    few, parts = (log_atoms > EMPTY).sum(-1) <= 2, []
    for some, width in ((few, 2), (~few, log_atoms.shape[-1])):
        seen = log_atoms[some].argsort(-1, descending=True)[:, :width]
        terms = log_atoms[some].gather(-1, seen).unsqueeze(-1) + by_seen[..., seen, :]
        parts += [logsumexp(terms, dim=-2)] if len(seen) else []
    order = torch.cat([torch.nonzero(few), torch.nonzero(~few)]).squeeze(-1)
    return torch.cat(parts, -2)[..., order.argsort(), :]
