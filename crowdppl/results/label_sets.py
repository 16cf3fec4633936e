"""Sets of classes that hold the truth as often as asked: by the model's word, or by gold items."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from math import ceil
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from crowdppl.data.extras import gold_codes
from crowdppl.doors import demands
from crowdppl.doors.counts import seed_number, share_between
from crowdppl.errors import DataError, MethodError
from crowdppl.statistics import choices
from crowdppl.tables.codebook import plain

if TYPE_CHECKING:
    from crowdppl.data.annotations import Annotations
    from crowdppl.posterior import Posterior

DECIMALS = 9
"""Log-probabilities that agree to so many decimals are a tie: rounding must not break one."""


def label_sets(
    posterior: Posterior,
    coverage: float = 0.9,
    *,
    gold: Any = None,
    method: Literal["credible", "conformal"] | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """For each item the classes among which the truth is found as often as asked.

    "credible": the fewest classes that hold ``coverage`` of the item's probability, and those as probable as the
    last of them. They cover as often as they say only if the probabilities can be believed, which on real
    annotations they rarely can: labels of an item are not independent given its truth.

    "conformal" (split conformal prediction): the classes whose probability is at least a threshold, taken from
    gold items whose truth the fit did not see. The score is the probability of the true class (the least
    ambiguous sets of Sadinle, Lei & Wasserman 2019, JASA 114), because for a given coverage it makes the sets
    smallest on average, gives equal sets to equal items, and stays exact where probabilities are so near 0 and
    1 that sums of them round to 1. With n gold items the threshold is the ceil((n + 1) * coverage)-th largest
    score. The guarantee: if the gold items and a further one are exchangeable (gold was picked at random among
    the items), the further item's set holds its truth with probability at least ``coverage``, for finite n,
    whatever the data and however wrong the model. The probability is also over which items were gold, and it is
    marginal: single classes, or hard items, may be covered less often. Equal scores (labels are few, so that
    many items have equal probabilities) are told apart at random, which keeps the probability below
    coverage + 1 / (n + 1) as well. An item for which the threshold would leave no class gets its most probable
    one, which can only add to it: where labels are right more often than asked, that is every item.

    Args:
        coverage: how often the sets are to hold the truth.
        gold: for "conformal", known classes by item id (a Series or mapping), none of them gold in the fit.
        method: "credible" or "conformal"; by default conformal with gold, else credible.
        seed: of the draws that tell equal scores apart; they depend on names of items and classes, not on order.

    Returns:
        DataFrame by item: set, a tuple of classes, most probable first; size; probability that the model gives
        to the set.

    Raises:
        MethodError: when coverage is not between 0 and 1, or the method is unknown or does not go with gold.
        DataError: when there are too few gold items for the coverage, or some of them were gold in the fit.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.label_sets(0.9).loc[[36, 38]].round(2)
                 set  size  probability
        item
        36      (3,)     1         0.97
        38    (3, 2)     2         1.00
    """
    coverage = share_between("coverage", coverage, "0.9 means that 9 of 10 sets hold the truth")
    implied = "credible" if gold is None else "conformal"
    chosen = implied if method is None else demands.one_of("method", method, ("credible", "conformal"))
    seed = seed_number(seed)
    if chosen != implied:
        asks = "takes no gold items; leave gold= out" if gold is not None else "needs gold items; give gold="
        raise MethodError(f"method={chosen!r} {asks}, or say method={implied!r}")
    data, p = posterior.data, posterior.result.probabilities
    if chosen == "credible":
        held = _credible(p, coverage)
    else:
        truth = _truths(gold, data, coverage)
        held = _conformal(p, truth, coverage, lambda item, k: _uniform(data.items[item], data.classes[k], seed))
        top, _ = choices.choose(p, data.votes(), data.items, data.classes)
        held[np.arange(len(p)), top] |= ~held.any(1)
    order = _order(data)
    ranked = order[np.argsort(-p[:, order], axis=1, kind="stable")]
    names = list(data.classes)
    sets = [
        tuple(names[k] for k in row if mine[k]) for row, mine in zip(ranked.tolist(), held.tolist(), strict=True)
    ]
    columns = {"set": sets, "size": held.sum(1), "probability": (p * held).sum(1)}
    return pd.DataFrame(columns, index=data.items)


def _credible(p: np.ndarray, coverage: float) -> np.ndarray:
    """Which classes make up the credible set of each item, bool (N, K)."""
    sets = choices.credible_sets(p, range(p.shape[1]), coverage)
    held = np.zeros(p.shape, bool)
    held[np.repeat(np.arange(len(p)), [len(some) for some in sets]), np.concatenate(sets).astype(np.int64)] = True
    return held


def _conformal(
    p: np.ndarray, truth: np.ndarray, coverage: float, uniform: Callable[[int, int], float]
) -> np.ndarray:
    """Which classes are at least as probable as the threshold, bool (N, K).

    Args:
        p: (N, K).
        truth: class codes (N,), -1 where there is no gold.
        coverage: of the sets.
        uniform: a random number for an item and a class, by which equal scores are ordered.
    """
    with np.errstate(divide="ignore"):
        score = np.round(np.log(p), DECIMALS)
    known = np.flatnonzero(truth >= 0)
    true_score = score[known, truth[known]]
    rank = max(1, ceil((len(known) + 1) * coverage - 1e-9))
    bound = np.sort(true_score)[-rank]
    level = known[true_score == bound]
    draws = sorted((uniform(i, int(truth[i])) for i in level.tolist()), reverse=True)
    least = draws[rank - 1 - int((true_score > bound).sum())]
    held = np.asarray(score > bound)
    for i, k in np.argwhere(score == bound).tolist():
        held[i, k] = uniform(i, k) >= least
    return held


def _truths(gold: Any, data: Annotations, coverage: float) -> np.ndarray:
    """Class codes (N,), -1 where there is no gold.

    Raises:
        DataError: when an item was gold in the fit, or there are too few for the coverage.
    """
    codes = gold_codes(gold, data.item_book, data.alphabet)
    assert codes is not None
    if data.gold_codes is not None and (both := (codes >= 0) & (data.gold_codes >= 0)).any():
        names = ", ".join(repr(plain(item)) for item in data.items[both][:3])
        raise DataError(
            f"the fit was told the truth of {int(both.sum())} of the gold items ({names}), so that their "
            "probabilities are 0 or 1; give other items, or fit without them"
        )
    n, needed = int((codes >= 0).sum()), ceil(coverage / (1 - coverage) - 1e-9)
    if n < needed:
        raise DataError(
            f"coverage={coverage} needs at least {needed} gold items, and gold= holds {n}; give more"
            + (f", or ask for a coverage of {n / (n + 1):.3g} at most" if n else "")
        )
    return codes


def _order(data: Annotations) -> np.ndarray:
    """Classes by votes, then by hashed names: how equally probable ones are listed, whatever their columns."""
    votes = data.votes().sum(0)
    return np.array(sorted(range(data.n_classes), key=lambda k: (-votes[k], _uniform("", data.classes[k], 0))))


def _uniform(item: Any, name: Any, seed: int) -> float:
    """A number in [0, 1) that the names and the seed decide."""
    text = f"{seed}\x1f{item!s}\x1f{name!s}"
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64
