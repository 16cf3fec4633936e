"""Doubts about the data: items whose labels cannot tell their truth."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from crowdppl.agreement.votes import are_unnamed
from crowdppl.core.doubt import Doubt
from crowdppl.criticism.doubts.search import Search, doubt
from crowdppl.data.blocks import row_sizes
from crowdppl.data.coded import count_repeats, repeated_labels
from crowdppl.networks.outputs import networks_of
from crowdppl.results.correction import MIN_GOLD

LEAST_EXCESS, LEAST_GROUPS = 0.1, 10
"""Part of the disagreements expected of an annotator's labels of one item that have to be missing, and pairs of
items and annotators with several labels that have to be there."""
BEYOND_CHANCE = 2.33
"""Standard errors by which they have to be missing: on one side, chance exceeds it once in a hundred."""
SURE = 0.9
"""Probability above which a truth that rests on abstentions alone is doubted."""


@doubt("unanimous")
def unanimous(search: Search) -> Iterator[Doubt]:
    """No two labels of an item differ, on ten items or more, of which fewer than ten have known truths."""
    blocks = search.posterior.data.blocks
    first = blocks[0].subset(np.arange(min(blocks[0].n_items, 1_000)), 1.0)  # which mostly shows it
    if any(bool(((block.vote_counts() > 0).sum(1) > 1).any()) for block in (first, *blocks)):
        return
    several = sum(int((block.vote_counts().sum(1) > 1).sum()) for block in blocks)
    gold = search.posterior.data.gold_codes
    if several >= 10 and (gold is None or (gold >= 0).sum() < MIN_GOLD):
        yield Doubt(
            "unanimous",
            f"the labels of each of {several} items are all the same: they may be copies, or aggregated "
            "already, and do not show who errs. Give the labels as annotators gave them, or "
            f"{MIN_GOLD} known truths or more (gold=)",
            figures={"items": several},
            remedies=(search.refit(gold="gold"),),
        )


@doubt("abstained")
def abstained(search: Search) -> Iterator[Doubt]:
    """The fit is sure of the truth of items whose labels are all abstentions."""
    posterior, data = search.posterior, search.posterior.data
    if not data.alphabet.informative or networks_of(posterior.model):  # a network may know the truth from features
        return
    alone = search.sizes == 0
    alone[data.order] &= np.concatenate([row_sizes(block) for block in data.blocks]) > 0
    if data.gold_codes is not None:
        alone &= data.gold_codes < 0
    sure = np.flatnonzero(alone & (posterior.result.probabilities.max(1) > SURE))
    if len(sure):
        yield Doubt(
            "abstained",
            f"{int(alone.sum())} items have abstentions alone, and the fit is sure (p above {SURE}) of the truth "
            f"of {len(sure)} of them: what makes an item hard may be taken for its class. Unless declining "
            "is known to depend on the class, leave informative_abstentions out",
            {"items": tuple(data.items[sure].tolist())},
            {"items": int(alone.sum()), "probability": SURE},
            (search.reread(),),
        )


@doubt("repeats")
def repeats(search: Search) -> Iterator[Doubt]:
    """Annotators who label an item again repeat themselves more than their confusions expect, beyond chance."""
    posterior, data = search.posterior, search.posterior.data
    if data.repeat_correlation or count_repeats(data.blocks) < LEAST_GROUPS:
        return
    item, annotator, label = repeated_labels(data.blocks, data.order)
    key = item.astype(np.int64) * data.n_annotators + annotator
    _, first, group, size = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
    if len(size) < LEAST_GROUPS:
        return
    who, place = np.unique(annotator[first], return_inverse=True)
    table = posterior.result.confusions[who][..., : data.n_classes]
    alike = ((table / table.sum(-1, keepdims=True)) ** 2).sum(-1)  # two labels of an annotator, given the truth
    expected = (posterior.result.probabilities[item[first]] * alike[place]).sum(-1)
    pair, counts = np.unique(group * data.n_classes + label, return_counts=True)
    owner = np.unique(pair // data.n_classes, return_inverse=True)[1]
    pairs, same = size * (size - 1) / 2, np.bincount(owner, counts * (counts - 1) / 2)
    beyond, missing = same - pairs * expected, (pairs * (1 - expected)).sum()
    if not missing > 0:
        return
    share, error = beyond.sum() / missing, np.sqrt((beyond**2).sum()) / missing
    if share > LEAST_EXCESS and share > BEYOND_CHANCE * error:
        repeated = (
            "votes on an item agree"
            if are_unnamed(data)
            else "annotators who label an item again repeat themselves"
        )
        observed, expects = float(same.sum() / pairs.sum()), float((pairs * expected).sum() / pairs.sum())
        yield Doubt(
            "repeats",
            f"{repeated} in {observed:.0%} of pairs of labels, where "
            f"the fit expects {expects:.0%}: one who errs errs again, and probabilities are too sure. Read the "
            "labels with repeats='share', so that labels count for less the more an annotator repeats them",
            figures={"labels": len(item), "observed": observed, "expected": expects, "share": float(share)},
            remedies=("crowdppl.Annotations.from_frame(rows, like=data, repeats='share')",),
        )
