"""How probable a fit finds it that two annotators call an item by the same class, from its other labels."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdppl.discrepancies import Design
from crowdppl.intervals import among_named
from crowdppl.refitting import REFITS
from crowdppl.story import card_of

if TYPE_CHECKING:
    from crowdppl.posterior import Posterior

Agreement = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""From rows of the design, those of one label of each pair and of the other, to probabilities (P,)."""

EVEN = 0.01
"""Share of an even row mixed into each row of a confusion, so that an answer never given is not impossible."""
DRAWS = 10
"""Draws of the posterior over which a story's expectation is averaged."""
NUMBERS = 2_000_000
"""Numbers that are held at once, such as the tables of the annotators of some pairs of labels."""


def shares_more(story: object) -> bool:
    """Whether labels of an item have more in common than its truth, as far as the story's card says.

    It says so by listing another site of items, such as an opinion that annotators share, a subtype or a
    difficulty. A story without a card may have one.
    """
    card = card_of(story)
    return card is None or any("N" in shape.split() for site, shape in card.sites.items() if site != card.truth)


def independent(posterior: Posterior, design: Design) -> Agreement:
    """Labels that name a class are independent given the truth, with the fitted confusions and prevalence."""
    result, data = posterior.result, posterior.data
    table = (1 - EVEN) * among_named(result.table) + EVEN / data.n_classes
    said = np.log(table[design.annotator, :, design.answer])  # (S, K)
    start = np.log(np.maximum(result.prevalence, 1e-12))
    joint = np.stack([np.bincount(design.item, x, len(design.labels)) for x in said.T], 1) + start
    if data.gold_codes is not None:
        gold = data.gold_codes[data.order]
        joint[(gold >= 0)[:, None] & (np.arange(data.n_classes) != gold[:, None])] = -np.inf

    def agreement(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        rest = joint[design.item[a]] - said[a] - said[b]
        rest = np.exp(rest - rest.max(1, keepdims=True))
        both = np.einsum("pkl,pkl->pk", table[design.annotator[a]], table[design.annotator[b]])
        return np.asarray((rest * both).sum(1) / rest.sum(1))

    return _in_parts(agreement, max(1, NUMBERS // table[0].size))


def by_the_story(posterior: Posterior, design: Design) -> Agreement:
    """The story itself says how probable two labels are beside the item's others, averaged over draws.

    A site of items that is not summed out, such as a difficulty, stands where all labels of the item have put it.

    Returns:
        What raises MethodError when the story cannot be asked about items alone, because its plate is another.
    """
    engines: Any = import_module(REFITS)  # by name, so that results import no engine
    n_classes, kept = posterior.data.n_classes, (1 - EVEN) ** 2
    naming = posterior.result.table[..., :n_classes].sum(-1) @ posterior.result.prevalence  # whatever the truth

    def agreement(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        item = posterior.data.order[design.item[a]]
        rows = engines.Rows(np.repeat(item, 1 + n_classes), *_beside_the_rest(design, a, b, n_classes))
        logs = engines.predictive(posterior, rows, DRAWS).reshape(-1, len(a), 1 + n_classes)
        p = np.exp(logs[..., 1:] - logs[..., :1]).sum(-1).mean(0)
        p = p / (naming[design.annotator[a]] * naming[design.annotator[b]])
        return np.asarray(kept * p + (1 - kept) / n_classes)

    return _in_parts(agreement, max(1, NUMBERS // ((1 + n_classes) * n_classes)))


def _beside_the_rest(design: Design, a: np.ndarray, b: np.ndarray, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Bags for each pair: the item's other labels, then these with each class named by both; rows and cells."""
    width, n = 1 + n_classes, len(a)
    starts, sizes = np.cumsum(design.labels) - design.labels, design.labels[design.item[a]]
    pair = np.repeat(np.arange(n), sizes)
    label = np.arange(len(pair)) + np.repeat(starts[design.item[a]] - np.cumsum(sizes) + sizes, sizes)
    other = (label != a[pair]) & (label != b[pair])
    pair, label = pair[other], label[other]
    cell = design.annotator * design.n_answers + design.answer
    row = [(pair[:, None] * width + np.arange(width)).ravel()]
    cells = [np.repeat(cell[label], width)]
    for rows in (a, b):
        row.append((np.arange(n)[:, None] * width + np.arange(1, width)).ravel())
        cells.append((design.annotator[rows][:, None] * design.n_answers + np.arange(n_classes)).ravel())
    return np.concatenate(row), np.concatenate(cells)


def _in_parts(agreement: Agreement, size: int) -> Agreement:
    def of_parts(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if not len(a):
            return np.empty(0)
        ends = range(size, len(a), size)
        parts = zip(np.split(a, ends), np.split(b, ends), strict=True)
        return np.concatenate([agreement(x, y) for x, y in parts])

    return of_parts
