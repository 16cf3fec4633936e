"""Labels that say whether two objects are the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crowdppl.data.ids import Codebook, encode, native
from crowdppl.data.kinds.classes import Classes
from crowdppl.data.kinds.comparisons import COUPLES
from crowdppl.data.kinds.kind import Settled, Small
from crowdppl.data.kinds.parts import SEPARATOR, SIDES, Parts
from crowdppl.data.tables import Rows
from crowdppl.errors import DataError

DIFFERENT_SAME = (("different", "same"), ("dissimilar", "similar"), ("no", "yes"), ("false", "true"), ("0", "1"))
"""What labels say, where nobody lists them."""


@dataclass(frozen=True)
class Similarity(Classes):
    """Labels that say whether two objects are the same: of two classes, different comes first."""

    def read(self, rows: Rows, options: Mapping[str, Any]) -> tuple[Rows, dict[str, Any]]:
        """Rows with one id a pair; DataError where it is not known which class is which."""
        rows, changed = super().read(rows, options)
        if options.get("classes") is None and options.get("like") is None:
            changed["classes"] = _different_and_same(rows, options)
        return rows, changed

    def settled(self, rows: Rows, objects: Codebook | None, options: Mapping[str, Any]) -> Settled:
        """Which class is which."""
        classes = options.get("classes")
        classes = _different_and_same(rows, options) if classes is None else classes
        return super().settled(rows, objects, {**options, "classes": classes})


def _different_and_same(rows: Rows, options: Mapping[str, Any]) -> list[Any]:
    """The classes of labels of similarity: different, then same."""
    away = {*map(str, options.get("abstentions", ()))}
    found = [] if rows.label is None else list(encode(rows.label, "label", rows.place, mixed=True).values)
    said = {str(native(x)).strip().lower(): native(x) for x in found if str(native(x)) not in away}
    for different, same in DIFFERENT_SAME:
        if said.keys() == {different, same}:
            return [said[different], said[same]]
    raise DataError(
        f"the labels of kind='similarity' are {', '.join(map(repr, said.values())) or 'to be drawn'}; say which is "
        "which: classes=[different, same]"
    )


SIMILARITY = Similarity(
    "similarity",
    "answers about similarity",
    "two items, same or different",
    called="answers",
    parts=Parts("similarity", SIDES, shared=True, unordered=True),
    aliases=("same", "record_linkage", "entity_resolution", "clustering", "triplet"),
    methods=("crowd_clustering", "record_linkage"),
    members={"record_linkage": {}},
    table="clusters",
    example=(COUPLES, DIFFERENT_SAME[0]),
    small=Small(lambda n: f"item {n // 3}{SEPARATOR}other {n % 3}", "ab", None),
)
