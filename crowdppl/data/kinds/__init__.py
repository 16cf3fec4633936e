"""Kinds of labels: what ``kind=`` of annotations may say, one file a kind."""

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

KINDS: dict[str, Kind] = {
    kind.name: kind for kind in (NOMINAL, ORDINAL, REAL, COUNT, ANGLE, PAIR, RANKINGS, SIMILARITY, SEQUENCES, SETS)
}
"""All kinds by name."""
