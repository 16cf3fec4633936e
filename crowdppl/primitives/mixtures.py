"""Mixtures over groups of annotators and over blends of classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crowdppl.core.validation import require_data, share_between, shown
from crowdppl.data.annotations import require_annotations
from crowdppl.data.ids import is_iterable, native, tensor_to_numpy
from crowdppl.errors import MethodError
from crowdppl.primitives.sums import drawing, logsumexp

EMPTY = -80.0
"""Log of the share of a class that is not part of an atom: minus infinity has no gradient."""
BLENDS = {5: (0.1, 0.2, 0.3, 0.4, 0.5), 20: (0.15, 0.3, 0.45), 50: (0.5,)}
"""Shares of the second class in a blend, by the largest number of classes; beyond, pairs are too many."""
CLEAR = 0.9
"""Share of a point in its own cluster at the start."""


def class_blends(n_classes: int, blends: tuple[float, ...] | None = None, diluted: bool = True) -> Tensor:
    """Atoms of items between classes: each class alone, two in a blend, one diluted by all, and all evenly.

    Args:
        n_classes: K.
        blends: shares of the second class in blends of two; None takes five for up to five classes, three for up
            to 20, even blends alone for up to 50, and no blends of two beyond.
        diluted: whether there are atoms diluted by all classes; two classes have none.

    Returns:
        (S, K) log-shares of the classes, -80 for a share of 0. By default S = 11, 40, 71, 111 for 2 to 5 classes,
        at most 1,426 for up to 50 classes, and 4 K + 1 beyond.

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
    for x in (0.25, 0.5, 0.75, 1.0) if diluted and n_classes > 2 else ():  # of two classes, all are blends
        rows.append(((1 - x) * same + x / n_classes)[: 1 if x == 1 else n_classes])
    return torch.cat(rows).log().clamp(min=EMPTY)


def through_blends(log_atoms: Tensor, by_seen: Tensor) -> Tensor:
    """Log-probabilities of answers given an item's atom, where each annotator sees a class drawn from it.

    Args:
        log_atoms: (S, K), as of ``class_blends``.
        by_seen: (..., A, K, L), log p(answer | annotator, class seen).

    Returns:
        (..., A, S, L).

    Examples:
        >>> import torch
        >>> skilled = torch.tensor([[0.9, 0.1], [0.2, 0.8]]).log()  # [class seen, answer] of one annotator
        >>> log_atoms = crowdppl.primitives.class_blends(2, blends=(0.5,))
        >>> crowdppl.primitives.through_blends(log_atoms, skilled[None]).exp()
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
    # Classes that are not part of an atom keep their tiny share, so that no sum of terms is 0 where there is a top.
    mixed = (log_atoms.exp().to(terms) @ terms.flatten(1)).reshape(-1, *top.shape)
    return (mixed.where(mixed > 0, 1.0).log() + top).movedim(0, -2)


def _drawn(log_atoms: Tensor, by_seen: Tensor) -> Tensor:
    """Sums whose terms can be drawn; atoms of two classes, which most are, have two terms."""
    few, parts = (log_atoms > EMPTY).sum(-1) <= 2, []
    for some, width in ((few, 2), (~few, log_atoms.shape[-1])):
        seen = log_atoms[some].argsort(-1, descending=True)[:, :width]
        terms = log_atoms[some].gather(-1, seen).unsqueeze(-1) + by_seen[..., seen, :]
        parts += [logsumexp(terms, dim=-2)] if len(seen) else []
    order = torch.cat([torch.nonzero(few), torch.nonzero(~few)]).squeeze(-1)
    return torch.cat(parts, -2)[..., order.argsort(), :]


def cluster_start(points: np.ndarray, n_clusters: int) -> Tensor:
    """Shares of clusters from which a model can start, (n, n_clusters): k-means, each point mostly of its cluster.

    Args:
        points: (n, D).
        n_clusters: how many clusters; those beyond the number of different points stay empty.

    Examples:
        >>> import numpy as np
        >>> crowdppl.primitives.cluster_start(np.array([[0.0], [0.1], [5.0]]), 2).argmax(1).unique().tolist()
        [0, 1]
    """
    from sklearn.cluster import KMeans  # slow to import

    found = KMeans(min(n_clusters, len(np.unique(points, axis=0))), n_init=10, random_state=0).fit(points)
    code = torch.tensor(found.labels_.astype(np.int64))
    start = torch.full((len(points), n_clusters), (1 - CLEAR) / max(n_clusters - 1, 1), dtype=torch.float64)
    return start.scatter(1, code.unsqueeze(1), CLEAR if n_clusters > 1 else 1.0)


def group_codes(
    groups: Mapping[Any, Any] | Sequence[Any] | None,
    data: Any,
    n_groups: int | None = None,
    *,
    name: str = "groups",
) -> list[int]:
    """A whole number for each annotator, equal for annotators of one group.

    Args:
        groups: a mapping from annotator ids (annotators left out are alone), a sequence in the order of annotator
            codes, or None to find groups in the labels.
        data: the annotations; for a sequence, a block of them is enough.
        n_groups: how many to find, those of one annotator included; None finds their number.
        name: of the setting, for messages.

    Returns:
        (A,) numbers from 0, in the order in which groups first appear.

    Raises:
        DataError: when the data are no annotations.
        MethodError: when a mapping names an unknown annotator, a sequence has not one entry per annotator, or an
            entry cannot name a group.

    Examples:
        >>> crowdppl.primitives.group_codes({"1": "a", "4": "a", "5": "a"}, crowdppl.anaesthetists())
        [0, 1, 2, 0, 0]
    """
    (require_annotations if groups is None or isinstance(groups, Mapping) else require_data)(data)
    if groups is not None and n_groups is not None:
        raise MethodError(
            f"{name}= names the groups, and n_groups={n_groups} is of groups to be found; leave one out"
        )
    given: Any = _found(data, n_groups) if groups is None else tensor_to_numpy(groups, name)
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise MethodError(
            f"{name}={shown(groups)} must be a mapping from annotator id to group, or one group an annotator"
        )
    if isinstance(given, Mapping):
        unknown = [a for a in given if a not in data.annotators]
        if unknown:
            raise MethodError(
                f"{name} name annotators that are not in the data: {[*map(native, unknown[:5])]}; leave them out"
            )
        given = [given.get(a, (a, "alone")) for a in data.annotators]
    first: dict[Any, int] = {}
    try:
        codes = [first.setdefault(g, len(first)) for g in given]
    except TypeError as error:
        raise MethodError(f"{name}={shown(groups)} holds what cannot name a group; use text or numbers") from error
    if len(codes) != data.n_annotators:
        raise MethodError(
            f"{name}={shown(groups)} has {len(codes)} entries, and there are {data.n_annotators} annotators; give "
            "one for each, in the order of their codes, or a mapping from annotator id to group"
        )
    return codes


def chosen_annotators(name: str, chosen: Iterable[Any], data: Any) -> tuple[bool, ...]:
    """Whether each annotator is among those that a setting names, (A,).

    Args:
        name: of the setting, for messages.
        chosen: ids; or, as this function returns it, a truth value for each annotator code.
        data: the annotations.

    Raises:
        DataError: when the data are no annotations.
        MethodError: when an id is not one of an annotator.

    Examples:
        >>> crowdppl.primitives.chosen_annotators("people", ["1", "4"], crowdppl.anaesthetists())
        (True, False, False, True, False)
    """
    if isinstance(chosen, str) or not is_iterable(chosen) or getattr(chosen, "ndim", 1) != 1:
        raise MethodError(f"{name}={shown(chosen)} must be a list of annotator ids")
    chosen = [native(x) for x in chosen]
    if len(chosen) == require_data(data).n_annotators and all(isinstance(x, bool) for x in chosen):
        return tuple(chosen)
    annotators = list(require_annotations(data, shared=True).annotators)
    unknown = [a for a in chosen if a not in annotators]
    if unknown:
        raise MethodError(f"{name}= names annotators that are not in the data: {unknown[:5]}; leave them out")
    return tuple(a in chosen for a in annotators)


def copies(data: Any, agreement: float = 0.97, items: int = 30) -> list[int]:
    """A whole number for each annotator, equal for those whose labels are nearly the same.

    Two annotators are copies when more than ``agreement`` of the labels of at least ``items`` items that both
    labelled are equal, and Cohen's kappa is above .9, for those of a rare class are mostly equal by chance. Whoever
    is a copy of a copy is one, too.

    Args:
        data: the annotations.
        agreement: share of equal labels.
        items: least number of items.

    Returns:
        (A,) numbers from 0, in the order in which groups first appear.

    Raises:
        DataError: when the data are no annotations.

    Examples:
        >>> labels = {a: {i: i % 2 for i in range(40)} for a in ("gpt", "again")}
        >>> labels["other"] = {i: i % 3 // 2 for i in range(40)}
        >>> crowdppl.primitives.copies(crowdppl.Annotations.from_dicts(labels))  # again, gpt, other
        [0, 0, 1]
    """
    from crowdppl.agreement.clusters import alike  # slow to import

    return [int(g) for g in alike(require_annotations(data), agreement, items)]


@lru_cache(maxsize=1)  # plain Pyro runs a model thousands of times on the same data
def _found(data: Any, n_groups: int | None) -> tuple[int, ...]:
    from crowdppl.agreement.clusters import find_groups  # scipy's clustering is slow to import

    return tuple(int(g) for g in find_groups(data, n_groups=n_groups))
