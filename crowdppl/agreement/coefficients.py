"""Agreement between annotators beyond chance (Krippendorff, Fleiss, Gwet, Cohen), with bootstrap intervals.

All coefficients are functions of sums over items, so a bootstrap sample is another weighting of the same sums.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Literal

import numpy as np
import pandas as pd

from crowdppl.agreement.number_agreement import alpha_of_numbers, items_of_numbers, pairs_of_numbers
from crowdppl.agreement.ranking_agreement import agreement_of_rankings, pairs_of_rankings, problems_table
from crowdppl.agreement.resampling import Coefficient, resampled
from crowdppl.agreement.span_agreement import agreement_of_spans
from crowdppl.agreement.votes import (
    DeduplicatedVotes,
    annotator_pairs,
    are_unnamed,
    bootstrap_counts,
    masi_distances,
    ratio,
    row_pairs,
    set_votes,
    votes_to_compare,
)
from crowdppl.core import validation
from crowdppl.core.intervals import check_level, of_share
from crowdppl.core.validation import seed_number, warn, whole_number
from crowdppl.data.annotations import Annotations, require_annotations
from crowdppl.data.ids import native, ranked
from crowdppl.data.kinds.rankings import RANKINGS
from crowdppl.data.kinds.sequences import SEQUENCES, Tags
from crowdppl.data.kinds.sets import SETS
from crowdppl.errors import CrowdpplWarning, MethodError, SparseDataWarning

Weights = Literal["identity", "linear", "quadratic"]
WEIGHTS = ("identity", "linear", "quadratic")
FEW_SHARED = 10
"""Items that two annotators should share: on fewer, kappas are biased by more than a twentieth."""
MAX_BIAS = 0.5
"""Bias of a coefficient in standard errors from which on its interval covers too seldom."""


@dataclass(frozen=True)
class Totals:
    """Sums over items for C weightings of them.

    Attributes:
        items: items of two annotators or more, (C,).
        agreement: sum over these of the share of their pairs of labels that agree, (C,).
        shares: mean over all labelled items of the share of each class, (K, C).
        coincidence: Krippendorff's number of values that are matched with an equal one, (C,).
        values: labels of each class on items of two annotators or more, (K, C).
        mixed_items, mixed_values: as ``agreement`` and ``coincidence``, for each cell of two classes; (cells, C).
        low, high: the two classes of each cell, (cells,).
    """

    items: np.ndarray
    agreement: np.ndarray
    shares: np.ndarray
    coincidence: np.ndarray
    values: np.ndarray
    mixed_items: np.ndarray | None
    mixed_values: np.ndarray | None
    low: np.ndarray | None
    high: np.ndarray | None


@dataclass(frozen=True)
class ItemCounts:
    """What is counted of every item.

    Attributes:
        size: how many annotators labelled each item, (N,).
        counts: how many gave it each class, sparse (K, N).
        same: pairs of labels by different annotators that are of one class, each counted twice, over the
            number of annotators less one, (N,); zero on items of one annotator.
        mixed: the same for the pairs of two classes, sparse (cells, N); None where only equality counts.
        low, high: the two classes of each row of ``mixed``, (cells,).
    """

    size: np.ndarray
    counts: Any
    same: np.ndarray
    mixed: Any = None
    low: np.ndarray | None = None
    high: np.ndarray | None = None

    @classmethod
    def of(cls, votes: DeduplicatedVotes, ordered: bool) -> ItemCounts:
        """Counts votes; ``ordered`` says whether it matters which classes differ, and not only that they do."""
        from scipy.sparse import csr_array  # slow to import

        n, k = votes.n_items, votes.n_classes
        size = np.bincount(votes.item[votes.first_rows], minlength=n).astype(np.float64)
        counts = csr_array((votes.share, (votes.answer, votes.item)), shape=(k, n))
        others = np.maximum(size - 1, 1)
        own = np.bincount(votes.item, votes.share**2, minlength=n)
        same = np.where(size > 1, (counts.power(2).sum(0) - own) / others, 0)
        if not ordered:
            return cls(size, counts, same)
        by_item = counts.tocsc()
        by_item.sort_indices()
        item = np.repeat(np.arange(n), np.diff(by_item.indptr))
        one, other = row_pairs(np.diff(by_item.indptr))
        ours, theirs = row_pairs(np.diff(votes.first_rows, append=len(votes.item)))  # within one annotator's vote
        value = [by_item.data[one] * by_item.data[other], -votes.share[ours] * votes.share[theirs]]
        cell = [
            by_item.indices[one].astype(np.int64) * k + by_item.indices[other],
            votes.answer[ours] * k + votes.answer[theirs],
        ]
        place = np.concatenate([item[one], votes.item[ours]])
        used, row = np.unique(np.concatenate(cell), return_inverse=True)
        pairs = 2 * np.concatenate(value) / others[place]
        mixed = csr_array((pairs, (row, place)), shape=(len(used), n))
        return cls(size, counts, same, mixed, used // k, used % k)

    def matched(self, votes: DeduplicatedVotes) -> Any:
        """The part of ``same`` of each class, sparse (K, N)."""
        from scipy.sparse import csr_array  # slow to import

        own = csr_array((votes.share**2, (votes.answer, votes.item)), shape=self.counts.shape)
        others = np.where(self.size > 1, 1 / np.maximum(self.size - 1, 1), 0)
        return (self.counts.power(2) - own).multiply(others[None]).tocsr()

    def total(self, weight: np.ndarray) -> Totals:
        """Sums over items that count ``weight`` times, (N, C): C weightings at once."""
        an_item = weight / self.size[:, None]
        compared = weight * (self.size > 1)[:, None]
        return Totals(
            items=compared.sum(0),
            agreement=self.same @ an_item,
            shares=(self.counts @ an_item) / weight.sum(0),
            coincidence=self.same @ weight,
            values=self.counts @ compared,
            mixed_items=None if self.mixed is None else self.mixed @ an_item,
            mixed_values=None if self.mixed is None else self.mixed @ weight,
            low=self.low,
            high=self.high,
        )


Formula = Callable[[Totals], np.ndarray]
Formulas = Mapping[str, Formula]


def percent_agreement(totals: Totals) -> np.ndarray:
    """Share of pairs of labels on one item that are equal, averaged over items: (C,)."""
    return ratio(totals.agreement, totals.items)


def fleiss_kappa(totals: Totals) -> np.ndarray:
    """Fleiss' kappa (1971, Psychological Bulletin 76: 378-382), (C,).

    With different numbers of labels an item, Gwet's generalisation (2014, Handbook of Inter-Rater Reliability, 4th
    edition): items count the same; those with one label count in the shares of classes alone.
    """
    return beyond_chance(percent_agreement(totals), (totals.shares**2).sum(0))


def gwet(totals: Totals, near: np.ndarray) -> np.ndarray:
    """Gwet's AC2 for weights (K, K), and AC1 where only equal classes agree: (C,).

    AC1: Gwet (2008), British Journal of Mathematical and Statistical Psychology 61: 29-48; AC2: Gwet (2014),
    as above. Chance agreement is sum(w) / (K (K - 1)) * sum over classes of share (1 - share), for weights w.
    """
    k = len(near)
    chance = near.sum() / (k * (k - 1)) * (totals.shares * (1 - totals.shares)).sum(0)
    if totals.mixed_items is None:
        return beyond_chance(percent_agreement(totals), chance)
    apart = (1 - near)[totals.low, totals.high] @ totals.mixed_items
    return beyond_chance(1 - ratio(apart, totals.items), chance)


def krippendorff_nominal(totals: Totals) -> np.ndarray:
    """Krippendorff's alpha for classes without order, (C,).

    Krippendorff (2011), Computing Krippendorff's Alpha-Reliability: 1 - observed over expected disagreement in
    the matrix of coincidences.
    """
    n = totals.values.sum(0)
    expected = ratio(n**2 - (totals.values**2).sum(0), n * (n - 1))
    return 1 - ratio(ratio(n - totals.coincidence, n), expected)


def krippendorff_ordinal(totals: Totals) -> np.ndarray:
    """Krippendorff's alpha for classes with an order, (C,): his difference is that of their mean ranks."""
    ranks = np.cumsum(totals.values, 0) - totals.values / 2
    return _krippendorff_scored(totals, ratio(ranks, totals.values.sum(0)))


def krippendorff_interval(totals: Totals, numbers: np.ndarray) -> np.ndarray:
    """Krippendorff's alpha for classes that are increasing numbers, (K,): (C,)."""
    return _krippendorff_scored(totals, (numbers - numbers[0])[:, None] / (numbers[-1] - numbers[0]))


def _krippendorff_scored(totals: Totals, scores: np.ndarray) -> np.ndarray:
    """Alpha where the disagreement of two classes is the squared difference of their scores, (K, C) or (K, 1)."""
    assert totals.mixed_values is not None
    n = totals.values.sum(0)
    observed = (totals.mixed_values * (scores[totals.low] - scores[totals.high]) ** 2).sum(0)
    centred = scores - ratio((totals.values * scores).sum(0), n)
    expected = 2 * ratio((totals.values * centred**2).sum(0), n - 1)
    return 1 - ratio(ratio(observed, n), expected)


def _krippendorff_masi(totals: Totals, distance: np.ndarray) -> np.ndarray:
    """Alpha where the disagreement of two classes is their distance, (K, K): (C,)."""
    assert totals.mixed_values is not None
    n = totals.values.sum(0)
    observed = ratio(distance[totals.low, totals.high] @ totals.mixed_values, n)
    return 1 - ratio(observed, ratio((totals.values * (distance @ totals.values)).sum(0), n * (n - 1)))


def beyond_chance(observed: np.ndarray, chance: np.ndarray) -> np.ndarray:
    """(observed - chance) / (1 - chance), NaN where chance agreement is certain."""
    return ratio(observed - chance, 1 - chance)


def nearness(n_classes: int, weights: str) -> np.ndarray:
    """Agreement of two classes, (K, K): 1 on the diagonal, 0 for the two that are farthest apart."""
    if weights == "identity":
        return np.eye(n_classes)
    steps = np.abs(np.subtract.outer(np.arange(n_classes), np.arange(n_classes))) / (n_classes - 1)
    return np.asarray(1 - (steps if weights == "linear" else steps**2))


def item_coefficients(
    votes: DeduplicatedVotes, data: Annotations, weights: Weights, samples: int, seed: int
) -> dict[str, Coefficient]:
    """All coefficients of classes but Cohen's kappa, by name."""
    counts = ItemCounts.of(votes, _ordered(data, weights))
    return resampled(counts, _formulas(data, weights), samples, seed)


def cohen_kappa(votes: DeduplicatedVotes, near: np.ndarray, samples: int, seed: int) -> Coefficient:
    """Mean of Cohen's kappa over pairs, weighted by shared items; SparseDataWarning where these are too few."""
    every = np.ones((votes.n_items, 1))
    entered = np.zeros(votes.n_items, bool)
    above, below = np.zeros(1 + samples), np.zeros(1 + samples)
    parts, undefined = [np.empty(0, np.int64)], 0
    for pairs in annotator_pairs(votes, near):
        items, _, kappa = pairs.kappas(every)
        known = np.isfinite(kappa[:, 0])  # a pair without a kappa has none in any sample of its items either
        undefined += int((~known).sum())
        if not known.any():
            continue
        pairs = pairs.only(known)
        parts.append(items[known, 0].astype(np.int64))
        entered |= np.asarray(pairs.shared.sum(0)) > 0
        at = 0
        for count in chain([every], bootstrap_counts(votes.n_items, samples, seed)):
            columns = slice(at, at := at + count.shape[1])
            n, _, kappa = pairs.kappas(count)
            defined = np.isfinite(kappa)
            above[columns] += np.where(defined, n * kappa, 0).sum(0)
            below[columns] += np.where(defined, n, 0).sum(0)
    mean, shared = ratio(above, below), np.concatenate(parts)
    counts = {
        "items": int(entered.sum()),
        "pairs": len(shared),
        "items_left_out": int((~entered).sum()),
        "pairs_left_out": undefined,
    }
    found = Coefficient(float(mean[0]), mean[1:], counts)
    if shared[shared < FEW_SHARED].sum() * 2 > shared.sum() or found.bias() > MAX_BIAS:
        warn(
            f"cohen_kappa is a mean over {len(shared)} pairs of annotators that share few items (median "
            f"{np.median(shared):g}), and is biased towards 0; use fleiss_kappa or krippendorff_nominal",
            SparseDataWarning,
        )
    return found


def agreement_table(
    data: Annotations, *, weights: Weights | None = None, bootstrap: int = 1000, level: float = 0.95, seed: int = 0
) -> pd.DataFrame:
    """The usual coefficients of agreement side by side, each with a bootstrap interval.

    Abstentions count as missing. Of an annotator's m labels of one item, each has the weight 1/m; votes of
    annotators without names (counts, ``annotator=None``) are each of another, and have no cohen_kappa. Items with
    one annotator are left out; in Fleiss' kappa, AC1 and AC2 they still count in the shares of classes, as in Gwet
    (2014). The intervals resample items, not annotators. Of labels that are numbers, there is krippendorff_interval
    alone; of rankings there are kendall_tau and kendall_w.

    - percent_agreement: share of equal pairs of labels, averaged over items.
    - cohen_kappa: mean over pairs of annotators, weighted by the number of items they share. Pairs without a kappa
      are left out: one shared item, or one class throughout. A warning says where pairs share few items, for it is
      then biased towards 0.
    - fleiss_kappa: Gwet's (2014) generalisation to different numbers of labels an item.
    - krippendorff_nominal, _ordinal, _interval: Krippendorff's alpha; the last two only where the classes have an
      order, interval only where they also are numbers.
    - krippendorff_masi, of sets: alpha of whole sets, which agree in part (MASI, Passonneau 2006); the others are
      those of answers about single classes. Its items are those of sets; sets with abstentions are left out.
    - span_f1, span_overlap, of BIO tags: the share of an annotator's spans that another one marked alike, ends and
      type, which is the F1 of one by the other (Hripcsak & Rothschild 2005, Journal of the American Medical
      Informatics Association 12: 296-298); and the mean over spans of the largest intersection over union with a
      span of the other's of this type. Items are sequences, of which two annotators tagged a part.
    - kendall_tau, of rankings: tau-b of two annotators on the objects that both rank, averaged over pairs of
      annotators, then over problems.
    - kendall_w: Kendall's coefficient of concordance with ties (Kendall & Babington Smith 1939), averaged over the
      problems in which all rank the same objects. Items of both are problems; samples draw problems, or annotators
      where there are more of these.
    - gwet_ac1, gwet_ac2: Gwet's coefficients; AC2 only with weights. All K classes count, used or not.

    Args:
        weights: how near two classes are in cohen_kappa and gwet_ac2: "identity", equal or not; "linear" or
            "quadratic", one minus the (squared) number of steps between them over the largest. By default
            quadratic where the classes are ordinal, else identity; classes that are increasing numbers may be
            weighted, too. Steps are those of ``data.classes``, used or not: name all grades in classes=, or a grade
            that nobody gave is no step.
        bootstrap: samples of items, drawn with replacement; with 0 the intervals are NaN.
        level: probability of the intervals, which lie between quantiles of the samples. Where all agree, or none,
            so do samples: percent_agreement then has the exact binomial interval, and other coefficients have one
            without width, which means that too little was seen.
        seed: of the samples.

    Returns:
        DataFrame by coefficient:

        - ``value``: NaN, with a warning, where it is not defined, because only one class was used
        - ``low``, ``high``: ends of the interval
        - ``items``: items that entered
        - ``pairs``: of annotators for cohen_kappa, of labels by different annotators for the others
        - ``items_left_out``: labelled items that did not enter
        - ``pairs_left_out``: pairs of annotators without a kappa
        - ``weights``: those used; empty where they play no part

    Raises:
        DataError: when there are no labels, or no item was labelled by two annotators.
        MethodError: unknown weights, weights of classes without order, or of numbers; a level, bootstrap or seed
            out of range.

    Examples:
        >>> table = crowdppl.agreement_table(crowdppl.anaesthetists(), bootstrap=200, seed=0)
        >>> table.loc[["percent_agreement", "fleiss_kappa", "gwet_ac1"], ["value", "low", "high"]].round(2)
                           value   low  high
        coefficient
        percent_agreement   0.70  0.63  0.79
        fleiss_kappa        0.55  0.44  0.65
        gwet_ac1            0.62  0.52  0.73
    """
    weights = _checked_weights(data, weights)
    check_level(level)
    samples, seed = whole_number("bootstrap", bootstrap, 0, "use 0 for no intervals"), seed_number(seed)
    if data.alphabet.kind.numeric:
        of_kind = agreement_of_rankings if data.alphabet.kind == RANKINGS else alpha_of_numbers
        found = of_kind(data, samples, seed)
        _warn_of_undefined(found)
        return _rows(found, level).assign(weights="")
    votes = votes_to_compare(data)
    others = item_coefficients(votes, data, weights, samples, seed)
    first = {"percent_agreement": others.pop("percent_agreement")}
    found = first
    if not are_unnamed(data):
        found |= {"cohen_kappa": cohen_kappa(votes, nearness(data.n_classes, weights), samples, seed)}
    found |= others
    if data.alphabet.kind == SETS:
        whole, members = set_votes(data)
        masi: Formulas = {"krippendorff_masi": partial(_krippendorff_masi, distance=masi_distances(members))}
        found |= resampled(ItemCounts.of(whole, True), masi, samples, seed)
    if data.alphabet.kind == SEQUENCES and (tags := Tags.of(data.classes)) is not None:
        found |= agreement_of_spans(data, tags, samples, seed)
    _warn_of_undefined(found)
    entered, left_out = (others["fleiss_kappa"].counts[name] for name in ("items", "items_left_out"))
    warn_below_limit({name: each.value for name, each in found.items()}, entered, left_out)
    table = _rows(found, level)
    agreement = round(first["percent_agreement"].value, 12)
    if samples and agreement in (0, 1):
        table.loc["percent_agreement", ["low", "high"]] = of_share(agreement, entered, level)
    return table.assign(weights=np.where(table.index.isin(["cohen_kappa", "gwet_ac2"]), weights, ""))


def _rows(found: Mapping[str, Coefficient], level: float) -> pd.DataFrame:
    """The table of coefficients by name."""
    names = pd.Index(list(found), name="coefficient")
    return pd.DataFrame([each.row(level) for each in found.values()]).set_index(names)


def agreement_pairs(data: Annotations, *, weights: Weights | None = None) -> pd.DataFrame:
    """Cohen's kappa of every pair of annotators that shares an item.

    Missing labels, abstentions and repeats are treated as by ``agreement_table``, whose cohen_kappa is the mean
    of these, weighted by ``items``.

    Args:
        weights: as in ``agreement_table``.

    Returns:
        DataFrame by annotator and other, in codebook order:

        - ``items``: items that both labelled; of rankings problems
        - ``agreement``: on these, weighted; of rankings the mean of Kendall's tau, of numbers Krippendorff's alpha
        - ``kappa``: Cohen's; NaN for a single item, and where both gave all of them the same class
        - ``difference``, ``rmsd``, ``correlation``: of numbers in place of kappa, the mean of the one's less the
          other's, the root of their mean squared difference, and their correlation on three items or more

    Raises:
        DataError, MethodError: as ``agreement_table``.

    Examples:
        >>> crowdppl.agreement_pairs(crowdppl.anaesthetists()).round(2).head(3)
                         items  agreement  kappa
        annotator other
        1         2         45       0.64   0.48
                  3         45       0.75   0.61
                  4         45       0.79   0.68
    """
    weights = _checked_weights(data, weights)
    if data.alphabet.kind.numeric:
        return pairs_of_rankings(data) if data.alphabet.kind == RANKINGS else pairs_of_numbers(data)
    near = nearness(data.n_classes, weights)
    votes = votes_to_compare(data, pairs=True)
    every = np.ones((votes.n_items, 1))
    parts = [(pairs.one, pairs.other, *pairs.kappas(every)) for pairs in annotator_pairs(votes, near)]
    one, other, items, agreement, kappa = (np.concatenate(column).ravel() for column in zip(*parts, strict=True))
    names = ["annotator", "other"]
    index = pd.MultiIndex.from_arrays([data.annotators[one], data.annotators[other]], names=names)
    return pd.DataFrame({"items": items.astype(np.int64), "agreement": agreement, "kappa": kappa}, index)


def _checked_weights(data: Annotations, weights: Weights | None) -> Weights:
    """The weights, by default those of the classes' kind."""
    require_annotations(data)
    if weights is None:
        return "quadratic" if data.space.ordered else "identity"
    validation.one_of("weights", weights, WEIGHTS)
    if data.alphabet.kind.numeric:
        raise MethodError(f"weights={weights!r} are of classes, and labels are numbers; leave them out")
    if weights != "identity" and not data.space.ordered and _numbers(data) is None:
        names = ", ".join(repr(native(name)) for name in data.classes[:5])
        raise MethodError(
            f"weights={weights!r} needs classes with an order, and these ({names}) are nominal; give "
            "kind='ordinal' and classes= from lowest to highest"
        )
    numbers = _numbers(data)
    if weights != "identity" and numbers is not None and not np.allclose(np.diff(numbers, 2), 0):
        names = ", ".join(repr(native(name)) for name in data.classes[:12])
        warn(
            f"the classes ({names}) count as one step apart each; name all grades in classes= if some are missing",
            CrowdpplWarning,
        )
    return weights


def _numbers(data: Annotations) -> np.ndarray | None:
    """The classes as numbers, (K,), if that is what they are and they increase."""
    return np.array([float(name) for name in data.classes]) if ranked(data.classes) else None


def _ordered(data: Annotations, weights: Weights) -> bool:
    return data.space.ordered or weights != "identity"


def _formulas(data: Annotations, weights: Weights) -> Formulas:
    """The coefficients that are functions of totals and that these classes have."""
    formulas: dict[str, Formula] = {
        "percent_agreement": percent_agreement,
        "fleiss_kappa": fleiss_kappa,
        "krippendorff_nominal": krippendorff_nominal,
    }
    if _ordered(data, weights):
        formulas["krippendorff_ordinal"] = krippendorff_ordinal
        numbers = _numbers(data)
        if numbers is not None:
            formulas["krippendorff_interval"] = partial(krippendorff_interval, numbers=numbers)
    formulas["gwet_ac1"] = partial(gwet, near=nearness(data.n_classes, "identity"))
    if weights != "identity":
        formulas["gwet_ac2"] = partial(gwet, near=nearness(data.n_classes, weights))
    return formulas


def warn_below_limit(values: Mapping[str, float], items: int, left_out: int) -> None:
    """Warns of coefficients below -1, the value of agreement as bad as can be where all items are compared."""
    below = [f"{name} ({value:.2f})" for name, value in values.items() if value < -1]
    if below:
        warn(
            f"{', '.join(below)} is below -1: agreement is that of {items} items, agreement by chance that of all "
            f"{items + left_out} with a label; have more of them labelled twice, or give these items alone",
            SparseDataWarning,
        )


def _warn_of_undefined(found: dict[str, Coefficient]) -> None:
    """Warns of coefficients without a value, and of intervals that only some samples made."""
    undefined = [name for name, each in found.items() if np.isnan(each.value)]
    if undefined:
        apart = ", or no two annotators share two items" if "cohen_kappa" in undefined else ""
        text = f"{', '.join(undefined)} is not defined and NaN: all labels that are compared are equal{apart}"
        warn(text, CrowdpplWarning)
    for name, each in found.items():
        n, lost = len(each.resampled), int(np.isnan(each.resampled).sum())
        if lost > n / 20 and name not in undefined:
            text = f"the interval of {name} is made from {n - lost} of {n} samples; it is not defined in the others"
            warn(text, SparseDataWarning)


def agreement_classes(
    data: Annotations, *, bootstrap: int = 1000, level: float = 0.95, seed: int = 0
) -> pd.DataFrame:
    """How well annotators agree on each class, with bootstrap intervals.

    Missing labels, abstentions and repeats are treated as by ``agreement_table``, and items count alike.

    Args:
        bootstrap, level, seed: as in ``agreement_table``.

    Returns:
        DataFrame by class:

        - ``share``: of the labels that are of the class
        - ``agreement``: where an annotator gives the class, share of the item's other annotators who give it, too:
          specific agreement (Cicchetti & Feinstein 1990, Journal of Clinical Epidemiology 43: 551-558), whose mean
          over classes, weighted by their shares of the labels that are compared, is percent_agreement
        - ``kappa``: Fleiss' kappa of the class against all others (Fleiss 1971, Psychological Bulletin 76: 378-382)

        The last two have ``_low`` and ``_high``. They are NaN for a class that nobody gave, and kappa is for one
        that all gave.

    Raises:
        DataError, MethodError: as ``agreement_table``.

    Examples:
        >>> found = crowdppl.agreement_classes(crowdppl.anaesthetists(), seed=0)
        >>> found[["share", "agreement", "kappa", "kappa_low", "kappa_high"]].round(2)
               share  agreement  kappa  kappa_low  kappa_high
        class
        1       0.41       0.86   0.77       0.64        0.87
        2       0.37       0.68   0.49       0.36        0.62
        3       0.16       0.41   0.30       0.14        0.43
        4       0.05       0.51   0.49      -0.01        0.83
    """
    require_annotations(data)
    check_level(level)
    samples, seed = whole_number("bootstrap", bootstrap, 0, "use 0 for no intervals"), seed_number(seed)
    votes = votes_to_compare(data)
    counts = ItemCounts.of(votes, ordered=False)
    matched = counts.matched(votes)
    share, agreement, kappa = (x[:, 0] for x in _of_classes(counts, matched, np.ones((votes.n_items, 1))))
    parts = [_of_classes(counts, matched, weight)[1:] for weight in bootstrap_counts(votes.n_items, samples, seed)]
    table = pd.DataFrame({"share": share}, data.classes)
    for n, (name, value) in enumerate((("agreement", agreement), ("kappa", kappa))):
        drawn = np.concatenate([np.empty((len(value), 0)), *(part[n] for part in parts)], 1)
        ends = pd.DataFrame(drawn.T).quantile([(1 - level) / 2, (1 + level) / 2])
        table[[name, f"{name}_low", f"{name}_high"]] = np.column_stack([value, *ends.to_numpy()])
    several = int((counts.size > 1).sum())
    kappas = {f"the kappa of {native(name)!r}": x for name, x in table["kappa"].items()}
    warn_below_limit(kappas, several, votes.n_items - several)
    return table


def _of_classes(
    counts: ItemCounts, matched: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Share, agreement and kappa of each class, each (K, C), for C weightings of the items, (N, C)."""
    an_item = weight / counts.size[:, None]
    compared = an_item * (counts.size > 1)[:, None]
    n_items = (weight * (counts.size > 1)[:, None]).sum(0)
    both, given = ratio(matched @ an_item, n_items), ratio(counts.counts @ compared, n_items)
    share = (counts.counts @ an_item) / weight.sum(0)
    chance = share**2 + (1 - share) ** 2
    return share, ratio(both, given), beyond_chance(1 - 2 * given + 2 * both, chance)


def agreement_items(data: Annotations) -> pd.DataFrame:
    """How well annotators agree on each item; the mean of it over items is percent_agreement.

    Missing labels, abstentions and repeats are treated as by ``agreement_table``.

    Returns:
        DataFrame by item that has a label:

        - ``annotators``: how many labelled it
        - ``label``: the class with most votes, or the first of these
        - ``votes``: its share of the votes
        - ``agreement``: share of equal pairs of labels by different annotators; NaN where there is one annotator

        Of numbers, ``mean`` and ``sd`` of an item's in place of ``label`` and ``votes``, and ``agreement`` is one
        less their mean squared difference over that of any two: the mean of it, weighted by annotators, is
        krippendorff_interval. Of rankings by problem, it is the mean of Kendall's tau, beside ``kendall_w``.

    Raises:
        DataError: as ``agreement_table``.

    Examples:
        >>> crowdppl.agreement_items(crowdppl.anaesthetists()).sort_values("agreement").round(2).head(2)
              annotators  label  votes  agreement
        item
        4              5      1    0.4        0.2
        12             5      3    0.6        0.3
    """
    require_annotations(data)
    if data.alphabet.kind.numeric:
        return problems_table(data) if data.alphabet.kind == RANKINGS else items_of_numbers(data)
    votes = votes_to_compare(data)
    counts = ItemCounts.of(votes, ordered=False)
    by_item = pd.Series(votes.share).groupby([votes.item, votes.answer]).sum()
    most = by_item.groupby(level=0).idxmax()
    table = {
        "annotators": counts.size.astype(np.int64),
        "label": data.classes[[answer for _, answer in most]],
        "votes": by_item[most].to_numpy() / counts.size,
        "agreement": np.where(counts.size > 1, counts.same / counts.size, np.nan),
    }
    return pd.DataFrame(table, data.item_index[votes.items])
