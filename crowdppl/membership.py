"""Which group each annotator belongs to, however it was said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from crowdppl.errors import MethodError


def group_numbers(groups: Mapping[Any, Any] | Sequence[Any] | None, data: Any) -> list[int]:
    """A whole number for each annotator, equal for annotators of one group.

    Args:
        groups: a mapping from annotator ids (whoever is missing is alone), a sequence in the order of annotator
            codes, or None to find groups in the labels.
        data: the annotations; a sequence needs none.

    Returns:
        (A,) numbers from 0, in the order in which groups first appear.

    Raises:
        MethodError: when a mapping names an annotator that is not in the data.

    Examples:
        >>> crowdppl.group_numbers({"1": "a", "4": "a", "5": "a"}, crowdppl.anaesthetists())
        [0, 1, 2, 0, 0]
    """
    named: Any = _found(data) if groups is None else groups
    if isinstance(named, Mapping):
        unknown = [a for a in named if a not in data.annotators]
        if unknown:
            raise MethodError(f"groups name annotators that are not in the data: {unknown[:5]}; leave them out")
        named = [named.get(a, (a, "alone")) for a in data.annotators]
    first: dict[Any, int] = {}
    return [first.setdefault(g, len(first)) for g in named]


@lru_cache(maxsize=1)  # plain Pyro runs a model thousands of times on the same data
def _found(data: Any) -> tuple[int, ...]:
    from crowdppl.groups import find_groups  # scipy's clustering is slow to import

    return tuple(int(g) for g in find_groups(data))
