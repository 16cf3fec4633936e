"""Whom to ask about what next: how much one more label is expected to teach about an item's truth."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl.doors.counts import seed_number, switch, whole_number
from crowdppl.doors.telling import tell
from crowdppl.errors import CrowdpplWarning
from crowdppl.results.assignment import Assignment
from crowdppl.statistics import choices
from crowdppl.tables.codebook import one_or_several

if TYPE_CHECKING:
    from crowdppl.posterior import Posterior

ANSWERS = "crowdppl.inference.asking.answers"
"""Module that asks the story for tables of answers; looked up by name, so that results import no engine."""
DECIMALS = 9
"""Gains that agree to so many decimals of a bit are a tie: rounding must not break one."""


def worth_asking(
    posterior: Posterior,
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
        >>> posterior.worth_asking(3, exclude_answered=False).round(2)
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
    tables, entropy = import_module(ANSWERS).AnswerTables(posterior, who), choices.entropy(p)
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
        tell(_too_few(n, len(best), per_item, per_annotator), CrowdpplWarning)
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
