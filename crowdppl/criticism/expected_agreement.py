"""How probable a fit finds it that two annotators both give an item a class, from its other labels."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdppl.criticism.discrepancies import Design
from crowdppl.results.engines import REFITS
from crowdppl.results.intervals import among_named
from crowdppl.stories.story import card_of

if TYPE_CHECKING:
    from crowdppl.posterior import Posterior

Agreement = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""From rows of the design, those of one label of each pair and of the other, to probabilities (K, P) of each class:
that both labels name it, and that one of them does, whatever the other (the mean of the two)."""

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
    """Labels that name a class are independent given the truth, with the fitted confusions and prevalence.

    After an update, what earlier labels said of an item is known of it, too: it may have come again for that.
    Where abstentions are informative, the item's others are seen, too, and so is that the two labels are none.
    """
    result, data = posterior.result, posterior.data
    table = (1 - EVEN) * among_named(result.table) + EVEN / data.n_classes
    whole, answers, naming = design, table, np.ones(table.shape[:2])
    if data.alphabet.informative:
        whole, naming = Design.of(data), result.table[..., : data.n_classes].sum(-1)
        answers = np.concatenate([table * naming[..., None], result.table[..., data.n_classes :]], -1)
    logs = np.log(np.maximum(answers, 1e-300))
    told = logs[whole.annotator, :, whole.answer].T  # (K, S)
    start = np.log(np.maximum(result.prevalence, 1e-12))
    joint = np.stack([np.bincount(whole.item, x, len(whole.labels)) for x in told]) + start[:, None]
    if posterior.memory is not None:
        joint += posterior.memory.said_of(data).T
    if data.gold_codes is not None:
        gold = data.gold_codes[data.order]
        joint[(gold >= 0) & (np.arange(data.n_classes)[:, None] != gold)] = -np.inf
    said = np.ascontiguousarray(logs[design.annotator, :, design.answer].T)
    naming, given = np.ascontiguousarray(naming.T), np.ascontiguousarray(np.moveaxis(table, 0, -1))

    def agreement(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        one, other = design.annotator[a], design.annotator[b]
        rest = joint[:, design.item[a]] - said[:, a] - said[:, b]
        rest = np.exp(rest - rest.max(0)) * naming[:, one] * naming[:, other]
        rest = (rest / rest.sum(0))[:, None]
        first, second = rest * given.take(one, 2), given.take(other, 2)  # (K, K, P)
        return (first * second).sum(0), (first + rest * second).sum(0) / 2

    return _in_parts(agreement, max(1, NUMBERS // table[0].size), data.n_classes)


def by_the_story(posterior: Posterior, design: Design) -> Agreement:
    """The story itself says how probable two labels are beside the item's others, averaged over draws.

    A site of items that is not summed out, such as a difficulty, stands where all labels of the item have put it.
    That both labels name a class is one less the probability that one or both abstain. How probable one label is
    whatever the other is not asked, for that takes twice as long; it is taken from ``independent``. There it only
    weighs agreement, and the tail of what is weighed is right for any weights.

    Returns:
        What raises MethodError when the story cannot be asked about items alone, because its plate is another.
    """
    engines: Any = import_module(REFITS)  # by name, so that results import no engine
    data, kept = posterior.data, (1 - EVEN) ** 2
    whole, at, n_classes = design, np.arange(len(design.answer)), data.n_classes
    if data.alphabet.informative:
        whole = Design.of(data)
        at = np.flatnonzero(whole.answer < n_classes)
    pairs, sign = _pairs_of_answers(n_classes, data.n_answers)
    may = np.zeros(data.n_annotators, bool) if data.abstainers is None else data.abstainers
    near = independent(posterior, design)

    def agreement(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        item, who = data.order[design.item[a]], np.stack([design.annotator[a], design.annotator[b]], 1)
        possible = (pairs < n_classes) | may[who][:, None]  # (P, pairs, 2); of what cannot be, no bag is made
        answers = np.where(possible, pairs, -1)
        rows = engines.Rows(np.repeat(item, len(pairs)), *_beside_the_rest(whole, at[a], at[b], answers))
        logs = engines.predictive(posterior, rows, DRAWS).reshape(-1, len(a), len(pairs))
        p = np.exp(logs - logs[..., :1])
        agreed, named = p[..., 1 : 1 + n_classes], (p * (sign * possible.all(-1))).sum(-1, keepdims=True)
        return kept * (agreed / named).mean(0).T + (1 - kept) / n_classes**2, near(a, b)[1]

    return _in_parts(agreement, max(1, NUMBERS // (len(pairs) * n_classes)), n_classes)


def _pairs_of_answers(n_classes: int, n_answers: int) -> tuple[np.ndarray, np.ndarray]:
    """Answers of two labels whose probabilities are asked for, int64 (pairs, 2); -1 is any.

    First any both, then the same class, for each class, then what has an abstention.

    Returns:
        With them the sign of each in the sum that is the probability that both name a class, (pairs,).
    """
    same = [(k, k, 0) for k in range(n_classes)]
    away = range(n_classes, n_answers)
    one = [pair for w in away for pair in ((w, -1, -1), (-1, w, -1))]
    table = np.array([(-1, -1, 1), *same, *one, *((v, w, 1) for v in away for w in away)])
    return table[:, :2], table[:, 2]


def _beside_the_rest(
    design: Design, a: np.ndarray, b: np.ndarray, answers: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Bags for P pairs of labels: the item's others, then each of the answers (P, width, 2); rows and cells."""
    n, width, _ = answers.shape
    starts, sizes = np.cumsum(design.labels) - design.labels, design.labels[design.item[a]]
    pair = np.repeat(np.arange(n), sizes)
    label = np.arange(len(pair)) + np.repeat(starts[design.item[a]] - np.cumsum(sizes) + sizes, sizes)
    other = (label != a[pair]) & (label != b[pair])
    pair, label = pair[other], label[other]
    cell = design.annotator * design.n_answers + design.answer
    row = [(pair[:, None] * width + np.arange(width)).ravel()]
    cells = [np.repeat(cell[label], width)]
    for labels, said in ((a, answers[..., 0]), (b, answers[..., 1])):
        pair, place = np.nonzero(said >= 0)
        row.append(pair * width + place)
        cells.append(design.annotator[labels][pair] * design.n_answers + said[pair, place])
    return np.concatenate(row), np.concatenate(cells)


def _in_parts(agreement: Agreement, size: int, n_classes: int) -> Agreement:
    def of_parts(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if not len(a):
            return np.empty((n_classes, 0)), np.empty((n_classes, 0))
        ends = range(size, len(a), size)
        parts = [agreement(x, y) for x, y in zip(np.split(a, ends), np.split(b, ends), strict=True)]
        return np.concatenate([both for both, _ in parts], 1), np.concatenate([one for _, one in parts], 1)

    return of_parts
