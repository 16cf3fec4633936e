"""Which group each annotator belongs to, however it was said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from crowdppl.doors.demands import require_annotations, require_data
from crowdppl.errors import MethodError
from crowdppl.tables.handover import of_tensor


def group_numbers(groups: Mapping[Any, Any] | Sequence[Any] | None, data: Any) -> list[int]:
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
        >>> crowdppl.group_numbers({"1": "a", "4": "a", "5": "a"}, crowdppl.anaesthetists())
        [0, 1, 2, 0, 0]
    """
    (require_annotations if groups is None or isinstance(groups, Mapping) else require_data)(data)
    named: Any = _found(data) if groups is None else of_tensor(groups, "groups")
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
    from crowdppl.agreement.groups import find_groups  # scipy's clustering is slow to import

    return tuple(int(g) for g in find_groups(data))
