"""Kinds of labels: what ``kind=`` of annotations may say, one file a kind."""

from difflib import get_close_matches
from typing import Any

from crowdppl.core.validation import shown
from crowdppl.data.kinds.angles import ANGLE
from crowdppl.data.kinds.classes import NOMINAL
from crowdppl.data.kinds.comparisons import PAIR
from crowdppl.data.kinds.counts import COUNT
from crowdppl.data.kinds.grades import ORDINAL
from crowdppl.data.kinds.kind import Kind
from crowdppl.data.kinds.numbers import REAL
from crowdppl.data.kinds.rankings import RANKINGS
from crowdppl.data.kinds.sequences import SEQUENCES
from crowdppl.data.kinds.sets import SETS
from crowdppl.data.kinds.similarity import SIMILARITY
from crowdppl.errors import DataError

KINDS: dict[str, Kind] = {
    kind.name: kind for kind in (NOMINAL, ORDINAL, REAL, COUNT, ANGLE, PAIR, RANKINGS, SIMILARITY, SEQUENCES, SETS)
}
"""All kinds by name."""


def kind_named(name: Any) -> Kind:
    """The kind of a name; DataError for one that is none, with the name of the kind that it may mean."""
    if isinstance(name, str) and name in KINDS:
        return KINDS[name]
    word = str(name).lower().replace("-", "_").replace(" ", "_")
    if word in ("vote", "votes", "one_hot", "onehot"):
        raise DataError(
            f"kind={shown(name)} is no kind of labels; say columns='classes' where each class has a column"
        )
    meant = next((kind.name for kind in KINDS.values() if word in kind.aliases), None)
    meant = meant or next(iter(get_close_matches(word, KINDS, n=1)), None)
    remedy = f"; say kind={meant!r}" if meant else ""
    raise DataError(f"kind={shown(name)} is none of {', '.join(map(repr, KINDS))}{remedy}")
