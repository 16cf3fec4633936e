"""Decisions by expected utility, and sets of labels that hold the truth with a given probability."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from typing import Any, Literal

import numpy as np
import pandas as pd

from crowdppl.core import validation
from crowdppl.core.validation import number_within, seed_number, share_between, shown
from crowdppl.data.annotations import Annotations, labels_given
from crowdppl.data.gold import known_truths
from crowdppl.data.ids import Codebook, as_index, native
from crowdppl.errors import DataError, MethodError
from crowdppl.inference.predict.answers import AnswerTables
from crowdppl.inference.result import Fit
from crowdppl.results import choices
from crowdppl.results.acquisition import weigh
from crowdppl.results.grouping import CRITERIA, nested_sets

DECIMALS = 9
"""Log-probabilities, or costs of whole sets, that agree to so many decimals are a tie."""


def label_sets(
    posterior: Fit,
    coverage: float = 0.9,
    *,
    gold: Any = None,
    method: Literal["credible", "conformal"] | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """For each item a set of classes that holds the truth with a given probability.

    "credible": the fewest classes that hold ``coverage`` of the item's probability, and those as probable as the
    last of them. Their coverage is right only if the probabilities are, which on real annotations they rarely are.

    "conformal" (split conformal prediction): the classes whose probability is at least a threshold, taken from
    gold items whose truth the fit did not see (the least ambiguous sets of Sadinle, Lei & Wasserman 2019).
    With n gold items the threshold is the ceil((n + 1) * coverage)-th largest probability of a true class. If gold
    was picked at random among the items, the set of a further item holds its truth with probability at least
    ``coverage`` and below coverage + 1 / (n + 1), whatever the data and the model; single classes, or hard items,
    may be covered less often. An item without any class gets its most probable one.

    Args:
        coverage: how often the sets should hold the truth.
        gold: for "conformal", known classes by item id (a Series or mapping), none of them gold in the fit.
        method: "credible" or "conformal"; by default conformal with gold, else credible.
        seed: of the order of equal scores; it depends on names of items and classes, not on their order.

    Returns:
        DataFrame by item:

        - ``set``: tuple of classes, most probable first
        - ``size``: how many
        - ``probability``: that the truth is among them, under the model

    Raises:
        MethodError: when coverage is not between 0 and 1, or the method is unknown or does not go with gold.
        DataError: when there are too few gold items for the coverage, or some of them were gold in the fit.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.label_sets(0.9).loc[[36, 38]].round(2)
                 set  size  probability
        item
        36      (3,)     1         0.96
        38    (3, 2)     2         1.00
    """
    coverage = share_between("coverage", coverage)
    implied = "credible" if gold is None else "conformal"
    chosen = implied if method is None else validation.one_of("method", method, ("credible", "conformal"))
    seed = seed_number(seed)
    if chosen != implied:
        remedy = "leave gold= out" if gold is not None else "give gold="
        raise MethodError(
            f"method={chosen!r} does not go with gold={'items' if gold is not None else None}; {remedy}"
        )
    data, p = posterior.data, posterior.result.probabilities
    if chosen == "credible":
        held = _credible(p, coverage)
    else:
        truth = _truths(gold, data, coverage)
        held = _conformal(
            p, truth, coverage, lambda item, k: choices.hashed(seed, data.items[item], data.classes[k])
        )
        top, _ = choices.choose(p, data.votes(), data.items, data.classes)
        held[np.arange(len(p)), top] |= ~held.any(1)
    order = _order(data)
    ranked = order[np.argsort(-p[:, order], axis=1, kind="stable")]
    names = list(data.classes)
    sets = [
        tuple(names[k] for k in row if mine[k]) for row, mine in zip(ranked.tolist(), held.tolist(), strict=True)
    ]
    columns = {"set": sets, "size": held.sum(1), "probability": (p * held).sum(1)}
    return pd.DataFrame(columns, index=data.item_index)


def _credible(p: np.ndarray, coverage: float) -> np.ndarray:
    """Which classes make up the credible set of each item, bool (N, K)."""
    sets = choices.credible_sets(p, range(p.shape[1]), coverage)
    held = np.zeros(p.shape, bool)
    held[np.repeat(np.arange(len(p)), [len(some) for some in sets]), np.concatenate(sets).astype(np.int64)] = True
    return held


def _conformal(
    p: np.ndarray, truth: np.ndarray, coverage: float, uniform: Callable[[int, int], float]
) -> np.ndarray:
    """Classes as probable as the threshold, bool (N, K); equal scores in the order of ``uniform(item, class)``."""
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
    """Class codes (N,), -1 without gold; DataError when the fit had it, or it is too little for the coverage."""
    codes = known_truths(data.truths_by_id(gold), data.item_book, data.alphabet)
    assert codes is not None
    if data.gold_codes is not None and (both := (codes >= 0) & (data.gold_codes >= 0)).any():
        names = ", ".join(repr(native(item)) for item in data.items[both][:3])
        raise DataError(
            f"{int(both.sum())} items of gold= ({names}) were gold in the fit, too; give other items, or fit "
            "without them"
        )
    n, needed = int((codes >= 0).sum()), ceil(coverage / (1 - coverage) - 1e-9)
    if n < needed:
        raise DataError(
            f"coverage={coverage} needs at least {needed} gold items, and gold= holds {n}; give more"
            + (f", or ask for a coverage of {n / (n + 1):.3g} at most" if n else "")
        )
    return codes


def _order(data: Annotations) -> np.ndarray:
    """The order in which equally probable classes are listed: by votes, then by hashed names."""
    votes = data.votes().sum(0)
    return np.array(
        sorted(range(data.n_classes), key=lambda k: (-votes[k], choices.hashed(0, "", data.classes[k])))
    )


ASK = "ask again"
"""The decision to get one more label first."""
Cost = pd.DataFrame | Mapping[Any, Mapping[Any, float]] | np.ndarray
ROUNDING = 1e-12
"""Savings below this part of the costs are rounding."""


def decide(
    posterior: Fit,
    cost: Cost | None = None,
    *,
    ask_again: float | None = None,
    measure: Literal["accuracy", "jaccard", "f1"] | None = None,
) -> pd.DataFrame:
    """The decision about each item with the least expected cost.

    The expected cost of a decision d is the sum over classes t of p(truth is t) * cost[t, d]. A tie (to one part in
    a million) goes to the class with more votes on the item, then on all items, then to the decision whose name,
    hashed with the item's id, comes first.

    With ``ask_again``, the price of one label in the units of the costs, "ask again" is decided where the price
    plus the expected cost of the best decision after one more label is less than the expected cost of the best
    decision now (the preposterior analysis of Raiffa & Schlaifer 1961, Applied statistical decision theory). The
    next label comes from an annotator of the fit, each as probable as their share of all labels. The analysis looks
    one label ahead: asking may pay where only two labels would change a decision.

    With ``measure``, the decision about each item of labels that are sets is a whole set, one of the k most
    probable classes. Its cost is 1 less what is expected of it by this criterion of ``sets``; of equal sets the
    smallest is taken. "f1" and "jaccard" take classes less probable than one half where leaving them out would cost
    more.

    Args:
        cost: cost of deciding d when the truth is t. A DataFrame with the classes as index and a column for each
            decision, which need not be classes ("send to an expert"); a mapping
            ``{truth: {decision: cost}}``; or an array (K, K) in the order of the classes. By default 0 for the
            truth and 1 for any other class: the probability of an error. Negative costs are gains.
        ask_again: price of one more label; None leaves the option out.
        measure: of labels that are sets, the criterion of a whole set: "accuracy", "jaccard" or "f1"; without
            costs and a price.

    Returns:
        DataFrame by item, each of its classes an item of its own where labels are sets and there is no ``measure``:

        - ``decision``: that of the least expected cost
        - ``expected_cost``: its cost, with the price of asking
        - ``runner_up``: the best of the other decisions but asking; None where there is one decision
        - ``margin``: what the runner-up costs in addition; NaN where there is none
        - ``tied``: whether it costs as much

    Raises:
        DataError: when costs are not finite, do not name every class once, or name a decision twice; when labels
            are no sets, with ``measure``.
        MethodError: when the price is no number, negative or not finite; for another measure, or costs beside it.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.decide(ask_again=0.01).loc[[36, 37], ["decision", "expected_cost", "runner_up"]].round(3)
             decision  expected_cost runner_up
        item
        36          3          0.043         4
        37          2          0.000         1
    """
    if measure is not None:
        if cost is not None or ask_again is not None:
            given = "cost" if cost is not None else "ask_again"
            raise MethodError(f"measure={measure!r} is the cost of a set, beside {given}=; leave one of them out")
        return _whole_sets(posterior, validation.one_of("measure", measure, CRITERIA))
    if ask_again is not None:
        ask_again = number_within("ask_again", ask_again, "what one more label costs, 0 or more", lambda x: x >= 0)
    data, p = posterior.data, posterior.result.probabilities
    table, names = _costs(cost, data)
    expected = p @ table
    votes = _votes(data, names)
    first, tied = choices.settle(_cheapest(p, table, np.zeros(expected.shape, bool)), votes, data.items, names)
    every = np.arange(len(p))
    others = expected.copy()
    others[every, first] = np.inf
    second = first
    if len(names) > 1:
        second, _ = choices.settle(_cheapest(p, table, np.isinf(others)), votes, data.items, names)
    best, next_best = expected[every, first], others[every, second]
    decision, runner_up = names.take(first), names.take(second).astype(object)
    runner_up = runner_up.where(np.isfinite(next_best), None)
    if ask_again is not None:
        if ASK in names:
            raise DataError(f"cost= has a decision {ASK!r}, which ask_again= adds; give yours another name")
        asked, pays = _cost_of_asking(posterior, table, first, ask_again)
        runner_up = runner_up.where(~pays, decision)
        decision = decision.astype(object).where(~pays, ASK)
        best, next_best, tied = np.where(pays, asked, best), np.where(pays, best, next_best), tied & ~pays
    margin = np.where(np.isfinite(next_best), next_best, np.nan) - best
    columns = {"decision": decision, "expected_cost": best, "runner_up": runner_up, "margin": margin, "tied": tied}
    return pd.DataFrame(columns, index=data.item_index)


def _whole_sets(posterior: Fit, measure: str) -> pd.DataFrame:
    """The decision of ``decide`` about each item's set, by what is expected of it."""
    rows = {}
    for item, classes, scores in nested_sets(posterior):
        costs = 1 - scores[measure]
        equal = np.round(costs, DECIMALS)
        first, second = np.argsort(equal, kind="stable")[:2]  # an item has a class, so that there are two sets
        columns = {"decision": classes[:first], "expected_cost": costs[first], "runner_up": classes[:second]}
        margin = max(costs[second] - costs[first], 0.0)
        rows[item] = {**columns, "margin": margin, "tied": bool(equal[first] == equal[second])}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("item")


def _cost_of_asking(
    posterior: Fit, table: np.ndarray, first: np.ndarray, price: float
) -> tuple[np.ndarray, np.ndarray]:
    """Price and cost after one more label, (N,), infinite where no truth is worth it, and whether that is less."""
    p, given = posterior.result.probabilities, labels_given(posterior.data)
    if posterior.memory is not None:
        given = given + posterior.memory.labels
    regret, floor = table - table.min(1, keepdims=True), p @ table.min(1)
    now = (p @ regret)[np.arange(len(p)), first]
    after = np.full(len(p), np.inf)
    at = np.flatnonzero(price < now)
    who = np.flatnonzero(given)
    answers = AnswerTables(posterior, who)
    for items in answers.chunks(at, width=table.shape[1]):
        joint = answers.at(items)[..., None] * regret[:, None, None, :]  # (n or 1, K, A, L, decisions)
        left = weigh(p[items], joint).min(-1).sum(-1)  # (n, A)
        after[items] = price + left @ (given[who] / given.sum())
    return floor + after, after < now * (1 - ROUNDING)


def _costs(cost: Cost | None, data: Annotations) -> tuple[np.ndarray, pd.Index[Any]]:
    """Costs (K, decisions) in the order of the classes, and the names of the decisions."""
    classes, k = data.classes, data.n_classes
    if cost is None:
        return 1.0 - np.eye(k), classes
    if isinstance(cost, Mapping):
        if not all(isinstance(row, Mapping) for row in cost.values()):
            raise DataError("cost= is no mapping {truth: {decision: cost}}; give one, or a DataFrame")
        cost = pd.DataFrame([dict(row) for row in cost.values()], index=pd.Index(list(cost), tupleize_cols=False))
    if not isinstance(cost, pd.DataFrame):
        values = np.array(cost, object)  # a list whose rows differ in length is an array of lists
        if values.shape != (k, k):
            raise DataError(
                f"cost= has shape {values.shape}, not ({k}, {k}), truth by decision; for other decisions give a "
                "DataFrame"
            )
        cost = pd.DataFrame(values, index=classes, columns=classes)
    for what, ids in (("index", cost.index), ("columns", cost.columns)):
        if ids.nlevels > 1:
            raise DataError(f"the {what} of cost= have {ids.nlevels} levels ({shown(ids[0])}); give one name each")
    code = data.alphabet.classes.require(cost.index, "the index of cost=", "give a row for each class, the truth")
    for what, names in (("row", cost.index), ("decision", cost.columns)):
        if not names.is_unique:
            raise DataError(
                f"cost= has the {what} {native(names[names.duplicated()][0])!r} more than once; keep one"
            )
    if len(code) < k or cost.shape[1] == 0:
        lost = [native(name) for name in classes.delete(code)]
        raise DataError(f"cost= has no row for {lost}" if lost else "cost= has no decision; give it columns")
    try:
        values = cost.to_numpy(np.float64)[np.argsort(code)]
    except (TypeError, ValueError) as error:
        raise DataError(f"cost= holds a value that is no number ({error}); give numbers") from error
    if not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0]
        place = f"truth {native(classes[row])!r}, decision {native(cost.columns[column])!r}"
        raise DataError(f"cost= is {values[row, column]} at {place}; costs are finite numbers")
    return values, as_index(cost.columns)


def _votes(data: Annotations, names: pd.Index[Any]) -> np.ndarray:
    """Votes (N, decisions) for the class of the same name; none for a decision that is no class."""
    code = Codebook("class", data.classes).codes(names)
    return np.where(code >= 0, data.votes()[:, code], 0)


def _cheapest(p: np.ndarray, table: np.ndarray, out: np.ndarray) -> np.ndarray:
    """The decisions of each item that cost least, bool (N, decisions), but those that are ``out``."""
    regret = table - table.min(1, keepdims=True)  # large common costs would hide differences
    least = np.where(out, np.inf, p @ regret).argmin(1)
    candidates, left = np.empty(out.shape, bool), np.arange(len(p))
    while len(left):  # sums of two decisions may round to the same where one is better: repeat with that one
        better = least[left]
        for decision in np.unique(least[left]):
            mine = least[left] == decision
            at, apart = left[mine], regret - regret[:, [decision]]
            more, size = p[at] @ apart, p[at] @ np.abs(apart)
            candidates[at] = more <= choices.TIE / 2 * size
            saved = np.where(out[at] | (more >= -ROUNDING * size), 0, more)
            better[mine] = np.where(saved.min(1) < 0, saved.argmin(1), decision)
        moved = better != least[left]
        least[left] = better
        left = left[moved]
    return np.asarray(candidates & ~out)
