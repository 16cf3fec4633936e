"""Which items to have labelled next, and by whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.core.validation import seed_number, switch, warn, whole_number
from crowdppl.data.ids import one_or_several
from crowdppl.errors import CrowdpplWarning
from crowdppl.inference.predict.answers import AnswerTables
from crowdppl.inference.result import Fit
from crowdppl.results import choices

ITEM, ANNOTATOR, GAIN, KEY = range(4)
"""Columns of a pair."""


class Assignment:
    """Pairs of an item and an annotator, taken in the order of what they gain while neither has enough.

    All pairs of an item are added at once; what cannot be taken any more is forgotten, so that memory does not grow
    with the number of pairs.

    Args:
        n: how many pairs.
        per_item: of an item at most.
        per_annotator: of an annotator at most; None for any number.

    Attributes:
        chosen: pairs [item, annotator, gain, tie key] that are settled, best first.
    """

    def __init__(self, n: int, per_item: int, per_annotator: int | None) -> None:
        self._n, self._per_item, self._per_annotator = n, per_item, per_annotator
        self.chosen: list[np.ndarray] = []
        self._open = np.empty((0, 4))
        self._of_item: Counter[int] = Counter()
        self._of_annotator: Counter[int] = Counter()

    @property
    def least(self) -> float:
        """A gain below which no pair is taken any more."""
        full = self._per_annotator is None and len(self.chosen) + len(self._open) >= self._n
        return float(self._open[-1, GAIN]) if full and len(self._open) else 0.0

    def add(self, items: np.ndarray, gain: np.ndarray, key: np.ndarray) -> None:
        """Takes up pairs of further items.

        Args:
            items: codes, (n,).
            gain: of each pair with an annotator, (n, A); below 0 where nobody is to be asked.
            key: between 0 and 1, (n, A); of pairs with the same gain the lowest comes first.
        """
        each = self._per_item if self._per_annotator is None else gain.shape[1]
        column = np.lexsort((key, -gain), axis=-1)[:, :each]
        row = np.repeat(np.arange(len(items)), column.shape[1])
        column = column.ravel()
        new = np.column_stack([items[row], column, gain[row, column], key[row, column]])
        both = np.concatenate([self._open, new[new[:, GAIN] >= 0]])
        self._open = self._possible(both[np.lexsort((both[:, KEY], -both[:, GAIN]))])

    def settle(self, most: float) -> bool:
        """Chooses among pairs that gain more than ``most``, which no later one does; says whether that is all."""
        ahead = int(np.searchsorted(-self._open[:, GAIN], -most, side="left"))
        for pair in self._open[:ahead]:
            item, annotator = int(pair[ITEM]), int(pair[ANNOTATOR])
            busy = self._per_annotator is not None and self._of_annotator[annotator] >= self._per_annotator
            if len(self.chosen) < self._n and self._of_item[item] < self._per_item and not busy:
                self.chosen.append(pair)
                self._of_item[item] += 1
                self._of_annotator[annotator] += 1
        self._open = self._open[ahead:]
        return len(self.chosen) == self._n

    def _possible(self, pairs: np.ndarray) -> np.ndarray:
        """Those of sorted pairs that can still be chosen.

        Before an annotator's next pair is reached, each better one is chosen itself, or passed over for another of
        its item that is chosen from now on. So the best pairs of an annotator, as many as are still to be chosen,
        are enough, once those of items that have enough are gone.
        """
        left = self._n - len(self.chosen)
        if self._per_annotator is None:
            return pairs[:left]
        busy = [a for a, count in self._of_annotator.items() if count >= self._per_annotator]
        full = [item for item, count in self._of_item.items() if count >= self._per_item]
        pairs = pairs[~np.isin(pairs[:, ANNOTATOR], busy) & ~np.isin(pairs[:, ITEM], full)]
        owner = pairs[:, ANNOTATOR].astype(np.int64)
        order = np.argsort(owner, kind="stable")
        sizes = np.bincount(owner)
        rank = np.empty(len(pairs), np.int64)
        rank[order] = np.arange(len(pairs)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return np.asarray(pairs[rank < left])


ANSWERS = "crowdppl.inference.predict.answers"
"""Module that asks the story for tables of answers; looked up by name, so that results import no engine."""
DECIMALS = 9
"""Gains that agree to so many decimals of a bit are a tie: rounding must not break one."""


def suggest_labels(
    posterior: Fit,
    n: int,
    *,
    annotators: Iterable[Any] | None = None,
    exclude_answered: bool = True,
    per_item: int = 1,
    per_annotator: int | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """The items, and for each the annotators, whose next label is expected to teach most about the truth.

    The information of a label is the mutual information I(truth; label | labels so far) in bits: the entropy of
    the truth now, less what is expected to be left of it once the label is known (Lindley 1956, On a measure of
    the information provided by an experiment). What the label teaches about annotators is not counted.

    Where there are draws, tables p(answer | annotator, truth) are averaged, not gains: the label will be read by
    someone who does not know which draw is right, and from an annotator who is excellent in half the draws and
    misleading in the others, a label teaches nothing. How the truth of an item and the tables of its annotators
    depend on each other is left out. By em, the gain is exactly that of refitting the item with each possible
    answer, parameters held (``predict`` after vb reads labels by the exponential of mean logarithms instead).

    Where labels share more than the truth (a subtype, an opinion of a group), tables are those of the single item
    given its labels: exact at given parameters, and averaged over 50 draws of samplers. A continuous site of an
    item (a difficulty) stays at its fitted value, an approximation: a label would teach about that, too.

    Gains are of single labels, so that the best annotator may be asked about everything. ``per_annotator`` shares
    questions out: pairs are taken in the order of their gains, passing over annotators and items that have enough.

    Args:
        n: how many labels to ask for, all at once.
        annotators: ids of those who can be asked, or one id that is text; by default everyone in the data.
        exclude_answered: whether to ask nobody about an item that they labelled already.
        per_item: labels of an item at most: the gains of two labels of one item do not add up.
        per_annotator: labels of an annotator at most; any number by default.
        seed: of the order among pairs that are worth the same; that of rows and columns has no say.

    Returns:
        DataFrame, best first: item, annotator, information, and entropy of the item's truth now, both in bits.
        Fewer than n rows, with a warning, where there are no more pairs to ask.

    Raises:
        MethodError: when n, per_item or per_annotator is no whole number or below 1, the seed is none, or no truth
            is summed out.
        DataError: when an annotator is not one of the fit.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.suggest_labels(3, exclude_answered=False).round(2)
           item annotator  information  entropy
        0     3         1         0.40     0.62
        1    38         1         0.40     0.62
        2    12         1         0.24     0.41
    """
    n = whole_number("n", n, 1, "ask for a label")
    per_item = whole_number("per_item", per_item, 1, "ask for a label an item")
    if per_annotator is not None:
        per_annotator = whole_number("per_annotator", per_annotator, 1, "ask for a label an annotator")
    exclude_answered, seed = switch("exclude_answered", exclude_answered), seed_number(seed)
    data, p = posterior.data, posterior.result.probabilities
    names = data.annotators if annotators is None else one_or_several(annotators)
    remedy = "ask those who gave labels, or list newcomers in annotators= before the fit"
    who = np.unique(data.annotator_book.require(names, "annotators", remedy))
    tables, entropy = AnswerTables(posterior, who), choices.entropy(p)
    keys = _keys(data.annotators.take(who), seed)
    wanted = Assignment(n if per_annotator is None else min(n, per_annotator * len(who)), per_item, per_annotator)
    for items in tables.chunks(np.argsort(-entropy, kind="stable")) if len(who) else ():
        if wanted.settle(entropy[items[0]] + 10.0**-DECIMALS):
            break  # no gain exceeds the entropy, which only falls from here on
        gain = np.round(information(p[items], tables.at(items)), DECIMALS)
        if exclude_answered:
            gain[tables.answered(items)] = -1
        some = np.flatnonzero(gain.max(1, initial=-1) >= wanted.least)
        key = (_keys(data.items.take(items[some]), seed)[:, None] + keys) * 997 % 1
        wanted.add(items[some], gain[some], key)
    wanted.settle(-1.0)
    best = np.reshape(wanted.chosen, (-1, 4))
    if len(best) < n:
        warn(_too_few(n, len(best), per_item, per_annotator), CrowdpplWarning)
    item, place = best[:, :2].astype(np.int64).T
    columns = {"item": data.items.take(item), "annotator": data.annotators.take(who[place])}
    return pd.DataFrame(columns | {"information": best[:, 2], "entropy": entropy[item]})


def _too_few(n: int, left: int, per_item: int, per_annotator: int | None) -> str:
    most = f"{per_item} an item" + ("" if per_annotator is None else f" and {per_annotator} an annotator")
    return f"{n} labels are wanted, but with {most} only {left} are left to ask for"


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
    """A number in [0, 1) for each id, from its name and the seed alone."""
    digests = (blake2b(f"{seed}\x1f{x!s}".encode("utf-8", "surrogatepass"), digest_size=6).digest() for x in ids)
    return np.array([int.from_bytes(digest, "big") / 2**48 for digest in digests])
