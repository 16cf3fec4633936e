"""How often a fit expects two labels of an item to agree, given the others."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from crowdppl.criticism.design import Design
from crowdppl.data.covariates import CovariateColumns
from crowdppl.data.ragged import runs
from crowdppl.inference.confusions import among_named
from crowdppl.inference.predict.held_out import pieces
from crowdppl.inference.predict.predictive import LabelBags, StateShares, predictive, state_shares
from crowdppl.inference.result import Fit
from crowdppl.primitives.model import card_of

Agreement = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""From rows of the design, those of one label of each pair and of the other, to probabilities (K, P) of each class:
that both labels name it, and that one of them does, whatever the other (the mean of the two)."""
EVEN = 0.01
"""Share of an even row mixed into each row of a confusion, so that an answer never given is not impossible."""
DRAWS = 10
"""Draws of the posterior over which a model's expectation is averaged."""
NUMBERS_AT_ONCE = 2_000_000
LEAST = 1e-75
"""Probability of a label in a state below which the state's share with the label does not tell that without it."""


def shares_more(model: object) -> bool:
    """Whether labels of an item have more in common than its truth: its card lists another site of items, such as
    a difficulty, or its labels have covariates, or there is no card.
    """
    card = card_of(model)
    if card is None or "label_covariates" in card.uses:
        return True
    return any("N" in shape.split() for site, shape in card.sites.items() if site != card.truth)


def independent(posterior: Fit, design: Design, even: float = EVEN) -> Agreement:
    """Agreement of labels that are independent given the truth, under the fitted confusions and prevalence.

    Earlier labels of an item count as well, and informative abstentions of its other annotators. Of each row of a
    confusion, a share ``even`` is spread evenly.
    """
    result, data = posterior.result, posterior.data
    table = (1 - even) * among_named(result.table) + even / data.n_classes
    whole, answers, naming = design, table, np.ones(table.shape[:2])
    if data.alphabet.informative:
        whole, naming = Design.of(data), result.table[..., : data.n_classes].sum(-1)
        answers = np.concatenate([table * naming[..., None], result.table[..., data.n_classes :]], -1)
    logs = np.log(np.maximum(answers, 1e-300))
    seen = logs[whole.annotator, :, whole.answer].T  # (K, S)
    start = np.log(np.maximum(result.prevalence, 1e-12))
    joint = np.stack([np.bincount(whole.item, x, len(whole.labels)) for x in seen]) + start[:, None]
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

    return _in_parts(agreement, max(1, NUMBERS_AT_ONCE // table[0].size), data.n_classes)


def expected_by_model(posterior: Fit, design: Design) -> Agreement:
    """Agreement by the model itself, given the item's other labels, averaged over draws.

    A site of items that is not summed out keeps its value given all labels of the item. The probability of one
    label, from ``independent``, only weighs agreement: the tail is right for any weights.
    """
    posterior = replace(posterior, result=posterior.result.mean_field())  # a mean, for which widths matter little
    data, kept = posterior.data, (1 - EVEN) ** 2
    whole, at, n_classes = design, np.arange(len(design.answer)), data.n_classes
    if data.alphabet.informative:
        whole = Design.of(data)
        at = np.flatnonzero(whole.answer < n_classes)
    near, asked = independent(posterior, design), _Asked.of(posterior, whole)

    def agreement(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        both = asked.by_states(at[a], at[b])
        if both is None:
            both = asked.by_bags(at[a], at[b])
        elif (lost := np.isnan(both[0])).any():
            both[:, lost] = asked.by_bags(at[a][lost], at[b][lost])
        return kept * both + (1 - kept) / n_classes**2, near(a, b)[1]

    return _in_parts(agreement, max(1, NUMBERS_AT_ONCE // n_classes**2), n_classes)


@dataclass(frozen=True)
class _Asked:
    """A model that is asked how probable it is that two labels agree, given that both name a class, and the rest.

    Attributes:
        posterior: its fit.
        design: all labels, of which pairs are rows.
        may: who may abstain, bool (A,).
        covariates: of labels, by place.
    """

    posterior: Fit
    design: Design
    may: np.ndarray
    covariates: CovariateColumns | None

    @classmethod
    def of(cls, posterior: Fit, design: Design) -> _Asked:
        data = posterior.data
        may = np.zeros(data.n_annotators, bool) if data.abstainers is None else data.abstainers
        return cls(posterior, design, may, CovariateColumns.joined(x.label_covariates for x in data.blocks))

    @property
    def n_classes(self) -> int:
        return self.posterior.data.n_classes

    @property
    def cell(self) -> np.ndarray:
        """Of each label, (S,)."""
        return np.asarray(self.design.annotator * self.design.n_answers + self.design.answer)

    def bags(self, item: np.ndarray, bag: np.ndarray, cell: np.ndarray, label: np.ndarray) -> LabelBags:
        """Bags of items by position, whose labels are those of the design, or take their place."""
        known = self.covariates and self.covariates.at(torch.from_numpy(self.design.place[label]))
        return LabelBags(self.posterior.data.order[item], bag, cell, known)

    def by_states(self, a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
        """(K, P) by the item's state given all its labels but two; None where there is none.

        NaN where the state's share given all labels does not tell what it is without the two.
        """
        design, n_answers = self.design, self.design.n_answers
        mine, bag = np.unique(design.item[a], return_inverse=True)
        label = np.flatnonzero(np.isin(design.item, mine))
        own, each = np.searchsorted(mine, design.item[label]), np.repeat(np.arange(len(label)), n_answers)
        answers = design.annotator[label, None] * n_answers + np.arange(n_answers)
        bags = self.bags(mine, own, self.cell[label], label)
        asked = self.bags(mine[own[each]], np.arange(len(each)), answers.ravel(), label[each])
        given, pair = design.answer[np.stack([a, b])], np.searchsorted(label, np.stack([a, b]))
        may = self.may[design.annotator[label]]
        both, draws, told = np.zeros((self.n_classes, len(a))), 0, np.ones(len(a), bool)
        for found in state_shares(self.posterior, bags, asked, DRAWS) or ():
            cell, rows = found.cell.reshape(-1, n_answers)[pair], found.row[bag]  # (2, P, L), (P,)
            least = found.table.min((1, 2))[np.take_along_axis(cell, given[..., None], 2)]
            told &= (least >= LEAST).all((0, 2))
            for some in pieces(np.full(len(a), found.table[0].size), NUMBERS_AT_ONCE):
                some = some[told[some]]
                both[:, some] += self._agreed(found, rows[some], cell[:, some], given[:, some], may[pair[:, some]])
            draws += found.table.shape[1]
        both[:, ~told] = np.nan
        return both / draws if draws else None

    def _agreed(
        self, found: StateShares, row: np.ndarray, cell: np.ndarray, given: np.ndarray, may: np.ndarray
    ) -> np.ndarray:
        """(K, P) by the state of some draws, added up over these.

        Of the two labels of each pair, cells of all answers (2, P, L), the answers and who may abstain, (2, P).
        """
        table, rest = found.table, found.share[row]
        for answers, answer in zip(cell, given, strict=True):
            rest = rest / table[answers[np.arange(len(row)), answer]]
        rest /= rest.sum(-1, keepdims=True)
        if self.design.n_answers > self.n_classes:
            away = (table[answers[:, self.n_classes :]].sum(1) for answers in cell)
            named = (1 - x * abstains[:, None, None] for x, abstains in zip(away, may, strict=True))
            rest /= (rest * math.prod(named)).sum(-1, keepdims=True)
        one, other = cell
        each = (
            np.einsum("pct,pct,pct->p", rest, table[one[:, k]], table[other[:, k]]) for k in range(self.n_classes)
        )
        return np.stack(list(each))

    def by_bags(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """(K, P) from the probability of the item's labels with other answers in place of two of them."""
        away = range(self.n_classes, self.design.n_answers)
        alone = [pair for w in away for pair in ((w, -1, -1), (-1, w, -1))]
        both = [(k, k, 0) for k in range(self.n_classes)]
        table = np.array([(-1, -1, 1), *both, *alone, *((v, w, 1) for v in away for w in away)])
        pairs, sign = table[:, :2], table[:, 2]  # -1 is any; the sign of each in p(both name a class)
        step = max(1, NUMBERS_AT_ONCE // (len(pairs) * self.n_classes))
        parts = (slice(start, start + step) for start in range(0, len(a), step))
        return np.concatenate([self._of_answers(a[part], b[part], pairs, sign) for part in parts], 1)

    def _of_answers(self, a: np.ndarray, b: np.ndarray, pairs: np.ndarray, sign: np.ndarray) -> np.ndarray:
        """(K, P) of some pairs of labels, by pairs of answers in their place."""
        who = np.stack([self.design.annotator[a], self.design.annotator[b]], 1)
        possible = (pairs < self.n_classes) | self.may[who][:, None]  # (P, pairs, 2); of the others, no bag is made
        bag, cell, label = _beside_the_rest(self.design, a, b, np.where(possible, pairs, -1))
        bags = self.bags(np.repeat(self.design.item[a], len(pairs)), bag, cell, label)
        logs = predictive(self.posterior, bags, DRAWS).reshape(-1, len(a), len(pairs))
        p = np.exp(logs - logs[..., :1])
        agreed, named = p[..., 1 : 1 + self.n_classes], (p * (sign * possible.all(-1))).sum(-1, keepdims=True)
        return np.asarray((agreed / named).mean(0).T)


def _beside_the_rest(
    design: Design, a: np.ndarray, b: np.ndarray, answers: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The item's other labels, then each answer (P, width, 2): of each its bag, cell and label of the design."""
    width = answers.shape[1]
    starts = np.cumsum(design.labels) - design.labels
    pair, label = runs(starts[design.item[a]], design.labels[design.item[a]])
    other = (label != a[pair]) & (label != b[pair])
    pair, label = pair[other], label[other]
    cell = design.annotator * design.n_answers + design.answer
    row = [(pair[:, None] * width + np.arange(width)).ravel()]
    cells, places = [np.repeat(cell[label], width)], [np.repeat(label, width)]
    for labels, said in ((a, answers[..., 0]), (b, answers[..., 1])):
        pair, place = np.nonzero(said >= 0)
        row.append(pair * width + place)
        cells.append(design.annotator[labels][pair] * design.n_answers + said[pair, place])
        places.append(labels[pair])
    return np.concatenate(row), np.concatenate(cells), np.concatenate(places)


def _in_parts(agreement: Agreement, size: int, n_classes: int) -> Agreement:
    def of_parts(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if not len(a):
            return np.empty((n_classes, 0)), np.empty((n_classes, 0))
        ends = range(size, len(a), size)
        parts = [agreement(x, y) for x, y in zip(np.split(a, ends), np.split(b, ends), strict=True)]
        return np.concatenate([both for both, _ in parts], 1), np.concatenate([one for _, one in parts], 1)

    return of_parts
