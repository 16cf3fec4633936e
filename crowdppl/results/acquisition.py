"""Which items to label next, and by whom."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.core.validation import number_within, seed_number, share_between, shown, switch, warn, whole_number
from crowdppl.data.ids import native, one_or_several
from crowdppl.errors import CrowdpplWarning, DataError, MethodError
from crowdppl.inference.predict.answers import AnswerTables, Asked, NumberAnswers
from crowdppl.inference.result import ClassProbabilities, Fit, NumberTruth
from crowdppl.results import choices
from crowdppl.results.next_rankings import RankingAnswers, is_ranked

DECIMALS = 9
"""Gains that agree to so many decimals of a bit are a tie."""
TIE = 0.4 * 10.0**-DECIMALS
"""By how much ties are told apart at most."""
ROUNDED = 1 + 1e-12
"""By which a budget is larger, as sums of prices round."""


class Matching:
    """The n pairs of an item and an annotator with the largest gains, within a limit for each item and annotator.

    Items ask their best annotators, who keep their best items and reject others, until nobody asks (Gale & Shapley
    1962, "College admissions and the stability of marriage"). As both go by gains, this is the greedy choice. What
    annotators keep only rises as items are added, and items that cannot reach it are not kept in memory.

    Of pairs in the order of gains, those before the first that the budget does not pay are chosen.

    Args:
        n: pairs at most.
        most: of an annotator, int64 (A,).
        price: of a label of each, (A,).
        budget: what all labels cost at most.
    """

    def __init__(self, n: int, most: np.ndarray, price: np.ndarray, budget: float) -> None:
        self._n, self._most, self._price, self._budget = n, most, price, budget
        self._items, self._held = np.empty(0, np.int64), np.empty((0, 3))  # place of the item, annotator, score
        self._free = np.empty(0, np.int64)  # labels of each item at most
        self._score = np.empty((0, len(most)))  # of pairs that were not asked for yet
        self._least = np.where(most > 0, 0.0, np.inf)
        self.too_dear = False  # whether the budget left a pair out

    @property
    def least(self) -> float:
        """Lower bound of the gains that can still be chosen."""
        return float(self._least.min(initial=np.inf)) - TIE

    @property
    def chosen(self) -> np.ndarray:
        """Rows of item, annotator and gain, (n, 3), best first."""
        item, annotator, score = self._held[np.argsort(-self._held[:, 2], kind="stable")].T
        return np.column_stack([self._items[item.astype(np.int64)], annotator, np.round(score, DECIMALS)])

    def add(self, items: np.ndarray, free: np.ndarray, gain: np.ndarray, key: np.ndarray) -> None:
        """Adds all pairs of items (n,) with so many labels at most.

        Their gains are (n, A), below 0 where not wanted; of equal ones, those with smaller keys, in [0, 1), come
        first.
        """
        self._items = np.concatenate([self._items, items])
        self._free = np.concatenate([self._free, free])
        self._score = np.concatenate([self._score, np.where(gain < 0, -1, gain + (1 - key) * TIE)])
        free = self._free - np.bincount(self._held[:, 0].astype(np.int64), minlength=len(self._items))
        asking = np.flatnonzero(free > 0)
        while len(asking):
            open_ = np.where(self._score[asking] > self._least, self._score[asking], -1)
            best = open_.argmax(1)
            score = open_[np.arange(len(asking)), best]
            self._score[asking, best] = -1
            asked = np.column_stack([asking, best, score])[score >= 0]
            kept, rejected = self._kept(np.concatenate([self._held, asked]))
            self._held = kept
            free[asked[:, 0].astype(np.int64)] -= 1
            np.add.at(free, rejected, 1)
            asking = np.union1d(rejected, asked[:, 0].astype(np.int64))
            asking = asking[free[asking] > 0]
        self._forget()

    def _kept(self, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The pairs that annotators keep, and the places of items of the others; what scores must exceed rises."""
        pairs = pairs[np.lexsort((-pairs[:, 2], pairs[:, 1]))]
        owner = pairs[:, 1].astype(np.int64)
        sizes = np.bincount(owner, minlength=len(self._least))
        ends = np.cumsum(sizes)
        keeps = np.arange(len(pairs)) - (ends - sizes)[owner] < self._most[owner]
        full = np.flatnonzero((sizes >= self._most) & (sizes > 0))
        self._least[full] = np.maximum(self._least[full], pairs[(ends - sizes + self._most)[full] - 1, 2])
        if keeps.sum() >= self._n:
            best = np.flatnonzero(keeps)
            best = best[np.argpartition(-pairs[best, 2], self._n - 1)[: self._n]]
            keeps = np.isin(np.arange(len(pairs)), best)
            self._least = np.maximum(self._least, pairs[best, 2].min())
        if self._price[owner[keeps]].sum() > self._budget:
            self.too_dear = True
            best = np.flatnonzero(keeps)
            best = best[np.argsort(-pairs[best, 2], kind="stable")]
            paid = np.searchsorted(self._price[owner[best]].cumsum(), self._budget, side="right")
            keeps[best[paid:]] = False
            self._least = np.maximum(self._least, pairs[best[paid], 2])
        return pairs[keeps], pairs[~keeps, 0].astype(np.int64)

    def _forget(self) -> None:
        """Drops items that hold no pair and can ask for none."""
        stays = np.asarray((self._score > self._least).any(1))
        stays[self._held[:, 0].astype(np.int64)] = True
        self._held[:, 0] = (np.cumsum(stays) - 1)[self._held[:, 0].astype(np.int64)]
        self._items, self._free, self._score = self._items[stays], self._free[stays], self._score[stays]


def suggest_labels(
    posterior: Fit,
    n: int | None = None,
    *,
    annotators: Iterable[Any] | None = None,
    exclude_answered: bool = True,
    per_item: int = 1,
    per_annotator: int | None = None,
    costs: Mapping[Any, float] | pd.Series[float] | None = None,
    budget: float | None = None,
    confidence: float | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """The items and annotators whose next label is expected to tell most about the truth.

    The gain is the mutual information I(truth; label | labels so far) in bits (Lindley 1956, On a measure of the
    information provided by an experiment); information about annotators is not counted. By em, it is exactly that
    of refitting the item with each possible answer, parameters fixed; where there are draws, tables are averaged,
    not gains. A continuous site of an item (a difficulty) stays at its fitted value. Where labels depend on
    covariates of their own, the next one is taken to be like the annotator's labels so far. Of numbers, truth and
    next label are taken to be Gaussian together, at fitted parameters. Of rankings, a problem is given to an
    annotator, and the gain is what a whole ranking of its objects tells of their skills.

    Args:
        n: how many labels, or rankings, to ask for, all at once; by default as many as the budget pays.
        annotators: ids of those who can be asked, or one id that is text; by default all.
        exclude_answered: whether to leave out items that an annotator labelled already.
        per_item: labels of an item at most: the gains of two labels of one item do not add up.
        per_annotator: labels of an annotator at most; by default one annotator may get all questions.
        costs: what a label by each annotator costs, by id, in any unit (money, seconds); the gain a unit counts.
            By default a label of anyone costs 1.
        budget: what all labels cost at most.
        confidence: items whose most probable class has at least this probability are not asked about any more; no
            rows mean that asking can stop.
        seed: of the order among pairs with the same gain.

    Returns:
        DataFrame, best first, with fewer than n rows where there are no more pairs:

        - ``item``, or the columns that name it, ``annotator``: whom to ask about what; of rankings ``problem``
        - ``information``: the gain, in bits; ``cost`` where costs are given
        - ``entropy``: of the item's truth now, in bits; of numbers ``sd``, its standard deviation; of rankings the
          root mean square of those of log-skills

    Raises:
        MethodError: when n, per_item or per_annotator is no whole number from 1 on, n and budget are both missing,
            the budget is not above 0, the seed is out of range, no truth is summed out, what a label tells of a
            number is not known, or a confidence is asked of what has no classes.
        DataError: when an annotator is not one of the fit, or costs are not above 0, or miss one.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.suggest_labels(3, exclude_answered=False).round(2)
           item annotator  information  entropy
        0     3         1         0.45     0.69
        1    38         1         0.45     0.69
        2    12         1         0.33     0.53
    """
    per_item = whole_number("per_item", per_item, 1)
    if per_annotator is not None:
        per_annotator = whole_number("per_annotator", per_annotator, 1)
    exclude_answered, seed = switch("exclude_answered", exclude_answered), seed_number(seed)
    data, truth = posterior.data, posterior.result.truth
    names = data.annotators if annotators is None else one_or_several(annotators)
    remedy = "ask those who gave labels, or list newcomers in annotators= before the fit"
    who = np.unique(data.annotator_book.require(names, "annotators", remedy))
    price = _prices(data.annotators.take(who), costs)
    n, budget = _limits(n, budget, price)
    asked: Asked
    if is_ranked(posterior):
        ranked = RankingAnswers(posterior, who)
        asked, gain_of, most, now = ranked, ranked.information, ranked.most, {"sd": ranked.sd}
    elif isinstance(truth, NumberTruth):
        numbers = NumberAnswers(posterior, who)
        asked, gain_of, most, now = numbers, numbers.information, numbers.most, {"sd": truth.sd}
    else:
        tables, p = AnswerTables(posterior, who), truth.probabilities
        most = choices.entropy(p)
        asked, gain_of, now = tables, lambda items: information(p[items], tables.at(items)), {"entropy": most}
    keys = _keys(data.annotators.take(who), seed)
    if confidence is not None:
        most = np.where(_is_sure(posterior, confidence), -1.0, most)
    limits = Limits(n, budget, per_item, n if per_annotator is None else per_annotator)

    def add(wanted: Matching, items: np.ndarray, free: np.ndarray, chosen: np.ndarray) -> None:
        gain = np.round(gain_of(items) / price, DECIMALS)
        if exclude_answered:
            gain[asked.answered(items)] = -1
        row = np.full(len(most), -1)
        row[items] = np.arange(len(items))
        again = chosen[row[chosen[:, 0]] >= 0]
        gain[row[again[:, 0]], again[:, 1]] = -1
        some = np.flatnonzero(gain.max(1, initial=-1) >= wanted.least)
        key = (_keys(asked.ids.take(items[some]), seed)[:, None] + keys) * 997 % 1
        wanted.add(items[some], free[items[some]], gain[some], key)

    best = _greedy(asked, most, price, limits, add)
    if len(best) < n and np.isinf(budget) and confidence is None:
        text = f"n={n}, but only {len(best)} pairs of an item and an annotator are left under the limits"
        warn(text, CrowdpplWarning)
    item, place = best[:, :2].astype(np.int64).T
    paid = {} if costs is None else {"cost": price[place]}
    columns = asked.columns(item) | {"annotator": data.annotators.take(who[place])}
    known = {name: x[item] for name, x in now.items()}
    return pd.DataFrame(columns | {"information": best[:, 2] * price[place]} | paid | known)


@dataclass(frozen=True)
class Limits:
    """How many pairs are chosen at most: n, for the budget, of an item and of an annotator."""

    n: int
    budget: float
    per_item: int
    per_annotator: int


def _greedy(
    asked: Asked,
    most: np.ndarray,
    price: np.ndarray,
    limits: Limits,
    add: Callable[[Matching, np.ndarray, np.ndarray, np.ndarray], None],
) -> np.ndarray:
    """The pairs with the largest gains a unit of cost that the limits allow, one after another, as of ``Matching``.

    No gain of an item exceeds ``most``, (N,). Where the budget does not pay the next pair, there are more rounds,
    of those annotators whose labels it pays. ``add`` gives a matching the pairs of items, each with so many labels
    at most, (N,), but those that are chosen already.
    """
    best, rest = np.empty((0, 3)), True
    while rest:
        item, place = best[:, :2].astype(np.int64).T
        left = limits.budget * ROUNDED - price[place].sum()
        may = np.where(price <= left, limits.per_annotator - np.bincount(place, minlength=len(price)), 0)
        if len(best) == limits.n or not may.any():
            break
        least = price[may > 0].min()
        n = int(min(limits.n - len(best), may.sum(), left / least))
        wanted, free = Matching(n, may, price, left), limits.per_item - np.bincount(item, minlength=len(most))
        for items in asked.chunks(np.argsort(-most, kind="stable")):
            items = items[(most[items] >= 0) & (free[items] > 0)]
            if len(items) and wanted.least > most[items[0]] / least + 10.0**-DECIMALS:
                break  # the most, such as the entropy, only falls from here on
            if len(items):
                add(wanted, items, free, best[:, :2].astype(np.int64))
        best, rest = np.concatenate([best, wanted.chosen]), wanted.too_dear
    return best


def _prices(annotators: pd.Index[Any], costs: Mapping[Any, float] | pd.Series[float] | None) -> np.ndarray:
    """What a label of each annotator costs, (A,)."""
    if costs is None:
        return np.ones(len(annotators))
    if not isinstance(costs, Mapping | pd.Series):
        raise DataError(f"costs={shown(costs)} must be a mapping or a Series of numbers by annotator")
    given = dict(costs.items())
    for name in annotators:
        if name not in given:
            raise DataError(
                f"costs= has none of annotator {native(name)!r}; add it, or list who is asked in annotators="
            )
        number_within(f"costs[{native(name)!r}]", given[name], "a number above 0", lambda x: x > 0, error=DataError)
    return np.array([float(given[name]) for name in annotators])


def _limits(n: Any, budget: Any, price: np.ndarray) -> tuple[int, float]:
    """How many labels at most, and what they cost at most: infinite where their number says it."""
    if n is None and budget is None:
        raise MethodError("give n=, how many labels to ask for, or budget=, what they cost at most")
    if n is not None:
        n = whole_number("n", n, 1)
    if budget is None:
        return n, np.inf
    budget = number_within("budget", budget, "a number above 0", lambda x: x > 0)
    pays = int(budget * ROUNDED / price.min(initial=np.inf))
    return pays if n is None else min(n, pays), np.inf if (price == price[:1]).all() else budget


def _is_sure(posterior: Fit, confidence: Any) -> np.ndarray:
    """Whether the most probable class of each item is as probable as wanted, (N,)."""
    confidence = share_between("confidence", confidence)
    truth = posterior.result.truth
    if not isinstance(truth, ClassProbabilities) or not truth.probabilities.shape[1]:
        raise MethodError(
            f"confidence={confidence} is of classes, which truths of {posterior.method} are not; leave it out"
        )
    return np.asarray(truth.probabilities.max(1) >= confidence)


def information(probabilities: np.ndarray, tables: np.ndarray) -> np.ndarray:
    """Mutual information in bits, (n, A), of the truth, (n, K), and answers given it, (n or 1, K, A, L)."""
    noise, answer = _entropy(tables), weigh(probabilities, tables)
    return np.asarray(np.clip(_entropy(answer) - weigh(probabilities, noise), 0, None))


def weigh(probabilities: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Means over the truth: (n, K) and (n or 1, K, ...) to (n, ...)."""
    n, k = probabilities.shape
    flat = values.reshape(len(values), k, -1)
    out = probabilities @ flat[0] if len(flat) == 1 else np.einsum("nk,nkx->nx", probabilities, flat)
    return np.asarray(out).reshape(n, *values.shape[2:])


def _entropy(p: np.ndarray) -> np.ndarray:
    return np.asarray(choices.entropy(p.reshape(-1, p.shape[-1])).reshape(p.shape[:-1]))


def _keys(ids: pd.Index[Any], seed: int) -> np.ndarray:
    """A number in [0, 1) for each id, from its name and the seed."""
    return np.array([choices.hashed(seed, x, size=6) for x in ids])
