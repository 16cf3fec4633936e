"""Doubts about annotators who agree more than the fit expects: they may copy, or collude."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from crowdppl.criticism import collusion
from crowdppl.criticism.doubt import Doubt, named
from crowdppl.criticism.excess import Excess, excess_of
from crowdppl.criticism.expected_agreement import shares_more
from crowdppl.data.decoding import row_sizes
from crowdppl.data.neighbours import count_repeats
from crowdppl.results.correction import labels_an_item

if TYPE_CHECKING:
    from crowdppl.posterior import Posterior

LEVEL = 0.01
"""Chance that some pair of honest annotators is taken for copiers, under the fitted model."""
REPEATED = 0.05
"""Of the labels: repeats of an annotator's label of an item beyond which agreement cannot be tested."""
QUICK, PATIENT = 20_000, 200_000
"""Pairs of labels of one item up to which copying is looked for beside a fit. By em, which takes little longer than
the 16 ms of the look; and by other engines, which take more: .1 to .5 s, or 3 beside 18 where a story is asked."""
HOW = "crowdppl.suspicious_annotators(posterior) has the figures, posterior.without([...]) fits without them"


def dependent(posterior: Posterior, thorough: bool) -> Iterator[Doubt]:
    """Pairs that stand out ("copying") and groups that they form ("colluding").

    Args:
        thorough: whether to look at data with more pairs of labels than ``QUICK``, by other engines than em
            ``PATIENT``.
    """
    if not _testable(posterior, thorough):
        return
    # The story itself is asked only where there is something to explain: that takes longer than the rest.
    excess = excess_of(posterior, alone=True)
    if not conspicuous(excess):
        return
    if shares_more(posterior.story):
        excess = excess_of(posterior)
    p = collusion.p_values(excess)
    linked = p <= LEVEL
    if linked.mean() > 0.5:
        return
    group = collusion.groups(excess, linked, posterior.data.n_annotators)
    alone = np.flatnonzero(linked & (group[excess.one] < 0))
    if len(alone):
        first = alone[np.argmin(p[alone])]
        more = f"; {len(alone)} pairs stand out like this" if len(alone) > 1 else ""
        yield Doubt(
            "copying",
            f"annotators {named(posterior, [excess.one[first], excess.other[first]])} agree in "
            f"{excess.agreed[first]:.0f} of {excess.shared[first]} shared labels, where the fit expects "
            f"{excess.expected[first]:.0f}{more}: one may copy the other. {HOW}",
        )
    if group.max() >= 0:
        large = np.argmax(np.bincount(group[group >= 0]))
        n, members = group.max() + 1, np.flatnonzero(group == large)
        most = "" if n == 1 else f"; there are {n} such groups, of which this is the largest"
        yield Doubt(
            "colluding",
            f"{len(members)} annotators agree among themselves more than the fit expects: "
            f"{named(posterior, members)}{most}. {HOW}",
        )


def _testable(posterior: Posterior, thorough: bool) -> bool:
    """Whether labels are those of many who judge each alone, and not too many to be looked at beside a fit."""
    data = posterior.data
    if data.n_answers > data.n_classes:
        sizes = labels_an_item(data).astype(np.int64)
    else:  # the same, without a table of all items and classes
        sizes = np.concatenate([row_sizes(block) for block in data.blocks])
    pairs = int((sizes * (sizes - 1)).sum()) // 2
    if not pairs or (pairs > (QUICK if posterior.inference == "em" else PATIENT) and not thorough):
        return False
    # An annotator's labels of an item go together, whoever else labels it.
    return count_repeats(data.blocks) <= REPEATED * data.n_labels


def conspicuous(excess: Excess) -> bool:
    """Whether a pair might stand out, had all pairs together no more in common than the model expects."""
    return bool((excess.tail * len(excess.tail) <= LEVEL).any())
