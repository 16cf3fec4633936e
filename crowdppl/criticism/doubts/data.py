"""Doubts about the data: items whose labels cannot tell their truth."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from crowdppl.core.doubt import Doubt
from crowdppl.criticism.doubts.search import Search, doubt
from crowdppl.data.blocks import row_sizes
from crowdppl.networks.outputs import networks_of

SURE = 0.9
"""Probability above which a truth that rests on abstentions alone is doubted."""


@doubt("unanimous")
def unanimous(search: Search) -> Iterator[Doubt]:
    """No two labels of an item differ, on ten items or more."""
    blocks = search.posterior.data.blocks
    first = blocks[0].subset(np.arange(min(blocks[0].n_items, 1_000)), 1.0)  # which mostly shows it
    if any(bool(((block.vote_counts() > 0).sum(1) > 1).any()) for block in (first, *blocks)):
        return
    several = sum(int((block.vote_counts().sum(1) > 1).sum()) for block in blocks)
    if several >= 10:
        yield Doubt(
            "unanimous",
            f"the labels of each of {several} items are all the same: they may be copies, or aggregated "
            "already, and do not show who errs. Give the labels as annotators gave them, or known truths (gold=)",
            figures={"items": several},
            remedies=(search.refit(gold="gold"),),
        )


@doubt("abstained")
def abstained(search: Search) -> Iterator[Doubt]:
    """The fit is sure of the truth of items whose labels are all abstentions."""
    posterior, data = search.posterior, search.posterior.data
    if not data.alphabet.informative or networks_of(posterior.model):  # a network may know the truth from features
        return
    alone = data.votes().sum(1) == 0
    alone[data.order] &= np.concatenate([row_sizes(block) for block in data.blocks]) > 0
    if data.gold_codes is not None:
        alone &= data.gold_codes < 0
    sure = np.flatnonzero(alone & (posterior.result.probabilities.max(1) > SURE))
    if len(sure):
        declined = data.answers[data.n_classes :].tolist()
        yield Doubt(
            "abstained",
            f"{int(alone.sum())} items have abstentions alone, and the fit is sure (p above {SURE}) of the truth "
            f"of {len(sure)} of them: what makes an item hard may be taken for its class. Unless declining "
            "is known to depend on the class, leave informative_abstentions out",
            {"items": tuple(data.items[sure].tolist())},
            {"items": int(alone.sum()), "probability": SURE},
            (f"crowdppl.Annotations.from_frame(rows, abstentions={declined})",),
        )
