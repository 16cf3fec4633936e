"""Mixtures over groups of annotators and over blends of classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from crowdppl.core.validation import require_data, share_between
from crowdppl.data.annotations import require_annotations
from crowdppl.data.ids import tensor_to_numpy
from crowdppl.errors import MethodError
from crowdppl.primitives.sums import drawing, logsumexp

EMPTY = -80.0
"""Log of the share of a class that an atom holds nothing of: minus infinity has no gradient."""
BLENDS = {5: (0.1, 0.2, 0.3, 0.4, 0.5), 20: (0.15, 0.3, 0.45), 50: (0.5,)}
"""Shares of the second class in a blend, up to so many classes; of still more, pairs are too many."""
DILUTIONS = (0.25, 0.5, 0.75, 1.0)


def class_blends(n_classes: int, blends: tuple[float, ...] | None = None, diluted: bool = True) -> Tensor:
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
        >>> crowdppl.primitives.class_blends(2, blends=(0.5,))
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


def through_blends(log_atoms: Tensor, by_seen: Tensor) -> Tensor:
    """What annotators answer on an item of each atom, where each of them sees a class drawn from it.

    Args:
        log_atoms: (S, K), as of ``class_blends``.
        by_seen: (..., A, K, L), log p(answer | annotator, class seen).

    Returns:
        (..., A, S, L).

    Examples:
        >>> import torch
        >>> skilled = torch.tensor([[0.9, 0.1], [0.2, 0.8]]).log()  # [class seen, answer] of one annotator
        >>> crowdppl.primitives.through_blends(crowdppl.primitives.class_blends(2, blends=(0.5,)), skilled[None]).exp()
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


def group_codes(groups: Mapping[Any, Any] | Sequence[Any] | None, data: Any) -> list[int]:
    """A whole number for each annotator, equal for annotators of one group.

    Args:
        groups: a mapping from annotator ids (whoever is missing is alone), a sequence in the order of annotator
            codes, or None to find groups in the labels.
        data: the annotations; a block of them will do for a sequence.

    Returns:
        (A,) numbers from 0, in the order in which groups first appear.

    Raises:
        DataError: when the data are no annotations.
        MethodError: when a mapping names an annotator that is not in the data, a sequence is longer or shorter than
            there are annotators, or groups are named by no text or number for each annotator.

    Examples:
        >>> crowdppl.primitives.group_codes({"1": "a", "4": "a", "5": "a"}, crowdppl.anaesthetists())
        [0, 1, 2, 0, 0]
    """
    (require_annotations if groups is None or isinstance(groups, Mapping) else require_data)(data)
    named: Any = _found(data) if groups is None else tensor_to_numpy(groups, "groups")
    if isinstance(named, str) or not isinstance(named, Iterable):
        raise MethodError(
            f"groups={groups!r} says nothing of each annotator; give a mapping from annotator id to group, or one "
            "group an annotator, such as [0, 0, 1]"
        )
    if isinstance(named, Mapping):
        unknown = [a for a in named if a not in data.annotators]
        if unknown:
            raise MethodError(f"groups name annotators that are not in the data: {unknown[:5]}; leave them out")
        named = [named.get(a, (a, "alone")) for a in data.annotators]
    first: dict[Any, int] = {}
    try:
        numbers = [first.setdefault(g, len(first)) for g in named]
    except TypeError as error:
        raise MethodError(
            f"groups={groups!r} holds what cannot name a group ({error}); give each annotator one group, as in "
            '{"ann": 0, "bob": 0, "cy": 1} or [0, 0, 1]'
        ) from error
    if len(numbers) != data.n_annotators:
        raise MethodError(
            f"groups={groups!r:.80} has {len(numbers)} entries, and there are {data.n_annotators} annotators; give "
            "each one, in the order of their codes, or a mapping from annotator id to group, in which whoever is "
            "missing is alone"
        )
    return numbers


@lru_cache(maxsize=1)  # plain Pyro runs a model thousands of times on the same data
def _found(data: Any) -> tuple[int, ...]:
    from crowdppl.agreement.clusters import find_groups  # scipy's clustering is slow to import

    return tuple(int(g) for g in find_groups(data))
