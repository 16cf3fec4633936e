"""Agreement between annotators in excess of what a fit expects, with exact tail probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch

from crowdppl.criticism.checks import MIN_SHARED, Design, errors_of
from crowdppl.criticism.tails import holm, normal_deviates, upper_tail
from crowdppl.data.covariates import CovariateColumns
from crowdppl.data.ragged import runs
from crowdppl.data.split import whole_units
from crowdppl.errors import DataError, MethodError
from crowdppl.inference.predict.held_out import pieces
from crowdppl.inference.predict.predictive import LabelBags, StateShares, predictive, state_shares
from crowdppl.inference.result import Fit
from crowdppl.primitives.model import card_of
from crowdppl.results.intervals import among_named
from crowdppl.results.leave_one_out import standard_error

Agreement = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""From rows of the design, those of one label of each pair and of the other, to probabilities (K, P) of each class:
that both labels name it, and that one of them does, whatever the other (the mean of the two)."""

EVEN = 0.01
"""Share of an even row mixed into each row of a confusion, so that an answer never given is not impossible."""
DRAWS = 10
"""Draws of the posterior over which a model's expectation is averaged."""
NUMBERS_AT_ONCE = 2_000_000
LEAST = 1e-75
"""Probability of a label in a state below which the state's share with the label tells none without it."""


def pair_agreement(posterior: Fit) -> tuple[float, float, float, float]:
    """Share of pairs of labels of an item that are equal: observed, expected by mean tables and prevalence, by
    chance; and the standard error of observed less expected, by items, sequences or sets. DataError when there is
    no pair.
    """
    design, result = Design.of(posterior.data), posterior.result
    parts, step = [], max(1, NUMBERS_AT_ONCE // result.table[0].size)
    for one, other, _ in design.meetings():
        for a, b in zip(*(np.split(rows, range(step, len(rows), step)) for rows in (one, other)), strict=True):
            tables = result.table[design.annotator[a]], result.table[design.annotator[b]]
            expected = np.einsum("pkl,pkl,k->p", *tables, result.prevalence)
            parts.append((design.answer[a] == design.answer[b], expected, design.item[a]))
    equal, probable, item = (np.concatenate(x) for x in zip(*parts, strict=True))
    if not len(item):
        raise DataError("no item has labels of two annotators; have some items labelled twice")
    error = standard_error(equal - probable, whole_units(posterior.data)[posterior.data.order][item])
    share = np.bincount(design.answer) / len(design.answer)
    return float(equal.mean()), float(probable.mean()), float((share**2).sum()), error


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


JOINT_PAIRS = 500_000
"""Pairs of labels of one item from which joint errors are taken; with more, those of random items."""


def joint_errors(posterior: Fit, most: int = JOINT_PAIRS) -> tuple[float, float]:
    """Joint errors beyond those of independent annotators: the share of expected disagreements that are none.

    Whether two labels of an item agree is predicted from its other labels: by the fitted mean confusions, smooth
    ones by vb, or, where labels share more than the truth, by the model. About 0, or somewhat below, where labels
    are as the method says. Of more than ``most`` pairs of labels, those of random items are taken.

    Returns the share and its standard error, by items, sequences or sets. DataError when no item has two labels,
    MethodError where the model's plate is not that of items.
    """
    design = _some_items(Design.of(posterior.data, named=True), posterior.options.get("seed", 0), most)
    parts = [np.empty((2, 0))]
    if shares_more(posterior.model):
        probable = expected_by_model(posterior, design)
    else:
        probable = independent(posterior, design, even=0.0)
    agreed, total = 0, 0.0
    for one, other, _ in design.meetings():
        agree = probable(one, other)[0]
        total += float(agree.sum())
        same = design.answer[one] == design.answer[other]
        agreed += int(same.sum())
        parts.append(np.stack([same - agree.sum(0), design.item[one]]))
    excess, item = np.concatenate(parts, 1)
    if not len(item):
        raise DataError("no item has labels of two annotators; have some items labelled twice")
    differ = max(len(item) - total, 1e-9)
    unit = whole_units(posterior.data)[posterior.data.order]
    error = standard_error(excess, unit[item.astype(np.int64)]) * len(item)
    return (agreed - total) / differ, error / differ


def _some_items(design: Design, seed: int, most: int) -> Design:
    """The labels of items in random order, up to ``most`` pairs of labels of one item."""
    order = np.random.default_rng(seed).permutation(len(design.labels))
    pairs = np.cumsum((design.labels * (design.labels - 1) // 2)[order])
    kept = np.zeros(len(order), bool)
    kept[order[pairs - pairs[0] < most]] = True
    some = kept[design.item]
    columns = {name: getattr(design, name)[some] for name in ("item", "annotator", "answer", "place")}
    return replace(design, **columns, labels=np.where(kept, design.labels, 0))


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
        both = asked.by_bags(at[a], at[b]) if both is None else both
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
        """(K, P) by the item's state given all its labels but two; None where there is none, or shares are lost."""
        design, cell = self.design, self.cell
        mine, bag = np.unique(design.item[a], return_inverse=True)
        label = np.flatnonzero(np.isin(design.item, mine))
        bags = self.bags(mine, np.searchsorted(mine, design.item[label]), cell[label], label)
        both, draws = np.zeros((self.n_classes, len(a))), 0
        for found in state_shares(self.posterior, bags, DRAWS) or ():
            least = found.table.min((1, 2))
            if min(least[cell[a]].min(), least[cell[b]].min()) < LEAST:
                return None
            for some in pieces(np.full(len(a), found.table[0].size), NUMBERS_AT_ONCE):
                both[:, some] += self._agreed(found, found.row[bag[some]], a[some], b[some])
            draws += found.table.shape[1]
        return np.asarray(both / draws) if draws else None

    def _agreed(self, found: StateShares, row: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """The same added up over some draws."""
        table, n_answers, cell = found.table, self.design.n_answers, self.cell
        rest = found.share[row] / (table[cell[a]] * table[cell[b]])
        rest /= rest.sum(-1, keepdims=True)
        one, other = (self.design.annotator[x] * n_answers for x in (a, b))
        if n_answers > self.n_classes:
            away = table.reshape(-1, n_answers, *table.shape[1:])[:, self.n_classes :].sum(1)
            away[~self.may] = 0
            named = (1 - away[one // n_answers]) * (1 - away[other // n_answers])
            rest /= (rest * named).sum(-1, keepdims=True)
        each = (np.einsum("pct,pct,pct->p", rest, table[one + k], table[other + k]) for k in range(self.n_classes))
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
        """The same of some pairs of labels, by pairs of answers."""
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


MIN_EXCESS = 1.0
"""Standard deviations of excess from which on its tail, and the model's own expectation, are computed."""
REPEATED = 0.6
"""Share of labels that a copier repeats, by which agreement is weighted."""
TERMS_AT_ONCE = 8_000_000


@dataclass(frozen=True)
class ExcessAgreement:
    """Agreement of pairs of annotators, and what the fitted model expects of them.

    Attributes:
        one, other: codes of the annotators, (P,).
        shared: pairs of labels by the two, (P,).
        agreed, expected: number of equal ones, and its expectation, (P,).
        variance: of the number under the model, (P,).
        surplus: standard deviations by which weighted agreement exceeds its expectation, (P,).
        deviate: standard normal deviate of the upper tail of weighted agreement, (P,).
        met: others with whom an annotator shares an item or more, (A,).
    """

    one: np.ndarray
    other: np.ndarray
    shared: np.ndarray
    agreed: np.ndarray
    expected: np.ndarray
    variance: np.ndarray
    surplus: np.ndarray
    deviate: np.ndarray
    met: np.ndarray

    @property
    def z(self) -> np.ndarray:
        """Standard deviations by which a pair agrees more than expected, each agreement counted as one, (P,)."""
        return _distance(self.agreed, self.expected, self.variance)

    @property
    def tail(self) -> np.ndarray:
        """Probability of so much weighted agreement for each pair by itself, (P,)."""
        return upper_tail(self.deviate)


def excess_agreement(posterior: Fit, alone: bool = False) -> ExcessAgreement:
    """Agreement beyond the model, of all pairs of annotators who share at least 10 items.

    Whether two labels of an item agree (abstentions aside) is predicted from the *other* labels of the item, so
    that a pair cannot hide by having convinced the model of a truth: by the fitted confusions and prevalence, as
    if labels were independent (``alone``, which is quicker), or by a model in which they have more in common than
    the truth.

    An agreement on a class is weighted by the log-likelihood ratio of a pair of whom one repeats the other in a
    share c = ``REPEATED`` of items: log(1 + c / (1 - c) x p(one names the class) / p(both do)). DataError without
    two labels.
    """
    design, n_classes = Design.of(posterior.data, named=True), posterior.data.n_classes
    met, times = design.met()
    keys, shared = met[times >= MIN_SHARED], times[times >= MIN_SHARED]
    sums, deviate = _sums_and_deviates(independent(posterior, design), design, keys, shared, n_classes)
    unexpected = (_distance(*sums[:3]) > MIN_EXCESS) | (_distance(*sums[3:]) > MIN_EXCESS)
    if unexpected.any() and not alone and shares_more(posterior.model):
        try:
            model = expected_by_model(posterior, design)
            again = _sums_and_deviates(model, design, keys[unexpected], shared[unexpected], n_classes)
            sums[:, unexpected], deviate[unexpected] = again
        except MethodError:  # its plate is not that of items: keep the independent expectation
            pass
    one, other = np.divmod(keys, design.n_annotators)
    others = np.bincount(np.concatenate(np.divmod(met, design.n_annotators)), minlength=design.n_annotators)
    agreed, expected, variance = sums[:3]
    return ExcessAgreement(one, other, shared, agreed, expected, variance, _distance(*sums[3:]), deviate, others)


def _distance(total: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """In standard deviations."""
    return np.asarray((total - mean) / np.sqrt(np.maximum(variance, 1e-12)))


class _Terms(NamedTuple):
    """Pairs of labels of an item: the pair of annotators, the class both gave or -1, (M,); the probabilities that
    both give a class, and what that weighs, (K, M)."""

    pair: np.ndarray
    named: np.ndarray
    both: np.ndarray
    weight: np.ndarray

    def of(self, pairs: np.ndarray) -> _Terms:
        """Those of some pairs, (pairs,) bool, counted anew."""
        kept = pairs[self.pair]
        number = (np.cumsum(pairs) - 1)[self.pair[kept]]
        return _Terms(number, self.named[kept], self.both[:, kept], self.weight[:, kept])

    def sums(self, n: int) -> np.ndarray:
        """Agreements of n pairs, their mean and variance; the same of what they weigh: (6, n)."""
        p, weighed = self.both.sum(0), self.both * self.weight
        mean = weighed.sum(0)
        weighed *= self.weight
        seen = self.weight[self.named, np.arange(len(p))] * (self.named >= 0)
        rows = (self.named >= 0, p, p * (1 - p), seen, mean, weighed.sum(0) - mean**2)
        return np.stack([np.bincount(self.pair, row, n) for row in rows])


def _terms(design: Design, probable: Agreement, keys: np.ndarray, n_classes: int) -> Iterator[_Terms]:
    """Of the pairs of annotators with these keys, not many at a time."""
    size, odds = max(1, NUMBERS_AT_ONCE // n_classes), REPEATED / (1 - REPEATED)
    for one, other, key in design.meetings():
        column = np.searchsorted(keys, key)
        kept = np.flatnonzero(keys[np.minimum(column, len(keys) - 1)] == key)
        for some in np.split(kept, range(size, len(kept), size)):
            a, b = one[some], other[some]
            both, either = probable(a, b)
            named = np.where(design.answer[a] == design.answer[b], design.answer[a], -1)
            yield _Terms(column[some], named, both, np.log1p(odds * either / both))


def _sums_and_deviates(
    probable: Agreement, design: Design, keys: np.ndarray, shared: np.ndarray, n_classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Of the pairs of annotators with these keys, (6, pairs) and (pairs,), of which some are held at a time."""
    sums, deviate = np.zeros((6, len(keys))), np.zeros(len(keys))
    held = np.cumsum(shared * n_classes) // TERMS_AT_ONCE
    for part in np.split(np.arange(len(keys)), np.flatnonzero(np.diff(held)) + 1):
        found = list(_terms(design, probable, keys[part], n_classes)) if len(part) else []
        if found:
            terms = _Terms(*(np.concatenate(columns, -1) for columns in zip(*found, strict=True)))
            sums[:, part] = terms.sums(len(part))
            deviate[part] = _distance(*sums[3:, part])
            far = deviate[part] > MIN_EXCESS
            some = terms.of(far)
            deviate[part[far]] = normal_deviates(sums[3, part[far]], some.weight, some.both, some.pair)
    return sums, deviate


MIN_PAIRS = 20
"""Pairs of annotators from which on an empirical null is estimated."""


def shared_errors(design: Design) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How errors of numbers correlate, by pair of annotators: keys (pairs,), correlations, p-values over all pairs.

    An annotator's errors are those beside a line, for gains and biases that two annotators share are no copies.
    On an item, the product of two distances from the mean of the others, less the variance of this mean as the
    others' own scatter tells it, has the covariance of the two errors as its expectation, whatever the precisions
    are; its mean over items is taken for Student's t. Pairs meet on ``MIN_SHARED`` items with two others or more.
    """
    from scipy.special import stdtr  # slow to import

    error = errors_of(design, design.answer[None])[0]
    who, times = design.annotator, np.maximum(np.bincount(design.annotator), 1)
    error, level = (x - (np.bincount(who, x) / times)[who] for x in (error, design.answer - error))
    squares = np.bincount(who, level**2)
    slope = np.divide(np.bincount(who, error * level), squares, out=np.zeros(len(squares)), where=squares > 0)
    error = error - slope[who] * level
    total, square = (np.bincount(design.item, x) for x in (error, error**2))
    parts = []
    for one, other, key in design.meetings():
        item = design.item[one]
        kept = design.labels[item] > 3
        x, y, item, n = error[one[kept]], error[other[kept]], item[kept], design.labels[item[kept]] - 2
        mean = (total[item] - x - y) / n
        own = ((square[item] - x**2 - y**2) / n - mean**2) / (n - 1)
        x, y = x - mean, y - mean
        parts.append((key[kept], x * y - own, (x**2 + y**2) / 2 - own))
    key, product, variance = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    met, place, n = np.unique(key, return_inverse=True, return_counts=True)
    mean, of_square, spread = (np.bincount(place, x, len(met)) / n for x in (product, product**2, variance))
    enough = (n >= MIN_SHARED) & (spread > 0) & (of_square > mean**2)
    correlation, error_of_mean = mean[enough] / spread[enough], np.sqrt((of_square - mean**2) / (n - 1))[enough]
    p = stdtr(n[enough] - 1, -mean[enough] / error_of_mean)
    return met[enough], correlation, np.minimum(p * len(p), 1)


def empirical_null(z: np.ndarray) -> tuple[float, float]:
    """Centre and spread of most pairs: median and scaled median distance from it, at least 0 and 1.

    Efron (2004, "Large-scale simultaneous hypothesis testing"): where items are hard for all, every pair agrees
    more than expected, and only pairs that stand out from that copy.
    """
    if len(z) < MIN_PAIRS:
        return 0.0, 1.0
    middle = float(np.median(z))
    return max(0.0, middle), max(1.0, 1.4826 * float(np.median(np.abs(z - middle))))


def p_values(excess: ExcessAgreement) -> np.ndarray:
    """Probability of so much weighted agreement, corrected for the number of pairs (Holm 1979), (P,)."""
    middle, spread = empirical_null(excess.surplus)
    p = np.maximum(excess.tail, upper_tail((excess.deviate - middle) / spread))
    return holm(p)


def loadings(excess: ExcessAgreement, n_annotators: int) -> np.ndarray:
    """Each annotator's part in agreement that the model does not explain, (A,); 0 for noise.

    The residual agreement of pairs, in standard deviations, is a symmetric matrix of noise unless some annotators
    depend on each other given the truth; then it has eigenvalues above those of noise, at most 2 sqrt(pairs an
    annotator). The loading is the root of what these eigenvalues put on an annotator's diagonal entry.
    """
    if not len(excess.one):
        return np.zeros(n_annotators)
    middle, spread = empirical_null(excess.z)
    matrix = np.zeros((n_annotators, n_annotators))
    matrix[excess.one, excess.other] = matrix[excess.other, excess.one] = (excess.z - middle) / spread
    values, vectors = np.linalg.eigh(matrix)
    edge = 2.2 * np.sqrt((matrix != 0).sum(1).max())
    return np.asarray(np.sqrt((vectors**2) @ np.where(values > edge, values, 0)))


def groups(excess: ExcessAgreement, linked: np.ndarray, n_annotators: int) -> np.ndarray:
    """Annotators joined by linked pairs, three or more: group numbers from 0, or -1, (A,)."""
    from scipy.sparse import coo_array  # slow to import
    from scipy.sparse.csgraph import connected_components

    pairs = (np.ones(int(linked.sum())), (excess.one[linked], excess.other[linked]))
    _, member = connected_components(coo_array(pairs, shape=(n_annotators, n_annotators)), directed=False)
    large = np.flatnonzero(np.bincount(member) > 2)
    number = np.full(member.max() + 1, -1)
    number[large] = np.arange(len(large))
    return np.asarray(number[member])
