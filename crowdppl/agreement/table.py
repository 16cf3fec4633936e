"""How far annotators agree with each other, beyond chance too: coefficients with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Literal

import numpy as np
import pandas as pd

from crowdppl.agreement.ballots import Ballots, Resamples, Tally
from crowdppl.agreement.pairings import mean_kappa, pairings
from crowdppl.data.annotations import Annotations
from crowdppl.doors import demands
from crowdppl.doors.counts import seed_number, whole_number
from crowdppl.doors.telling import tell
from crowdppl.errors import CrowdpplWarning, DataError, MethodError, ThinDataWarning
from crowdppl.statistics import coefficients
from crowdppl.statistics.coefficients import Coefficient, Formula, nearness
from crowdppl.statistics.estimates import check_level
from crowdppl.tables.codebook import plain

Weights = Literal["identity", "linear", "quadratic"]
WEIGHTS = ("identity", "linear", "quadratic")
FEW = 10
"""Items that annotators should share two by two: on fewer, kappas are biased by more than a twentieth."""
BIAS = 0.5
"""Bias of a coefficient in standard errors from which on its interval covers too seldom."""


def agreement_table(
    data: Annotations,
    *,
    weights: Weights | None = None,
    bootstrap: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """How far annotators agree: the usual coefficients side by side, each with a bootstrap interval.

    Labels that are missing are no problem to any of them. Abstentions are no class and count as missing. An
    annotator who labels an item m times has one vote there, of which each label has 1/m, and is never compared
    with itself. Items labelled by one annotator have nothing to compare and are left out; in Fleiss' kappa, AC1
    and AC2 they still count in the shares of classes, as in Gwet (2014).

    The intervals resample items, not annotators: they say what other items by the same annotators would have
    given. Time goes mostly into cohen_kappa: about two seconds for a million pairs of labels on one item, with a
    thousand samples. No matrix of items by annotators is built.

    The rows:

    - percent_agreement: share of equal pairs of labels, averaged over items.
    - cohen_kappa: mean of Cohen's kappa over pairs of annotators, weighted by the number of items they share.
      Pairs without a kappa are left out: one shared item, or one class throughout. Where pairs share few items it
      is biased towards 0, and its interval even more, so that this may not hold the value; a warning says so.
    - fleiss_kappa: Gwet's (2014) generalisation to different numbers of labels an item, in which items count
      the same; with two annotators and no missing label it is Scott's pi.
    - krippendorff_nominal, krippendorff_ordinal, krippendorff_interval: Krippendorff's alpha. The last two only
      where the classes have an order, interval only where they also are numbers.
    - gwet_ac1, gwet_ac2: Gwet's coefficients; AC2 only with weights. All K classes count, used or not.

    Args:
        data: the annotations.
        weights: how near two classes are in cohen_kappa and gwet_ac2: "identity", equal or not; "linear" or
            "quadratic", one minus the (squared) number of steps between them over the largest. By default
            quadratic where the classes are ordinal, else identity. Nominal classes may be given weights where
            they are increasing numbers, and are then taken as ordinal.
        bootstrap: samples of items, drawn with replacement, for the intervals; with 0 these are NaN. A sample in
            which a coefficient is not defined does not count for it.
        level: probability of the intervals, which lie between quantiles of the samples.
        seed: of the samples.

    Returns:
        DataFrame by coefficient: value; low; high; items that entered; pairs, of annotators for cohen_kappa and
        of labels by different annotators for the others; items_left_out, labelled items that did not enter;
        pairs_left_out, pairs of annotators without a kappa; weights, empty where they play no part. A
        coefficient that is not defined, because only one class was used, is NaN with a warning.

    Raises:
        DataError: when there are no labels, or no item was labelled by two annotators.
        MethodError: unknown weights, weights of classes without order, a level, bootstrap or seed that is none.

    Examples:
        >>> table = crowdppl.agreement_table(crowdppl.anaesthetists(), bootstrap=200, seed=0)
        >>> table.loc[["percent_agreement", "fleiss_kappa", "gwet_ac1"], ["value", "low", "high"]].round(2)
                           value   low  high
        coefficient
        percent_agreement   0.70  0.63  0.79
        fleiss_kappa        0.55  0.44  0.65
        gwet_ac1            0.62  0.52  0.73
    """
    weights = _settle(data, weights)
    check_level(level)
    samples, seed = whole_number("bootstrap", bootstrap, 0, "use 0 for no intervals"), seed_number(seed)
    ballots = _ballots(data)
    resamples = Resamples(ballots.n_items, samples, seed)
    found = _by_items(Tally.of(ballots, _ordered(data, weights)), resamples, _formulas(data, weights))
    found.insert(1, _cohen(ballots, nearness(data.n_classes, weights), resamples))
    _warn_of_gaps(found)
    names = pd.Index([each.name for each in found], name="coefficient")
    table = pd.DataFrame([each.columns(level) for each in found]).set_index(names)
    return table.assign(weights=np.where(names.isin(["cohen_kappa", "gwet_ac2"]), weights, ""))


def agreement_pairs(data: Annotations, *, weights: Weights | None = None) -> pd.DataFrame:
    """How far annotators agree two by two: Cohen's kappa of every pair that shares an item.

    Missing labels, abstentions and repeats are treated as by ``agreement_table``, whose cohen_kappa is the mean
    of these, weighted by ``items``.

    Args:
        data: the annotations.
        weights: as in ``agreement_table``.

    Returns:
        DataFrame by (annotator, other) in codebook order: items that both labelled; agreement on them, weighted;
        kappa, NaN where both gave all of them the same class, and for a single item, which cannot tell
        agreement from chance.

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
    weights = _settle(data, weights)
    near = nearness(data.n_classes, weights)
    ballots = _ballots(data)
    every = np.ones((ballots.n_items, 1))
    parts = [(some.one, some.other, *some.kappas(every)) for some in pairings(ballots, near)]
    one, other, items, agreement, kappa = (np.concatenate(column).ravel() for column in zip(*parts, strict=True))
    names = ["annotator", "other"]
    index = pd.MultiIndex.from_arrays([data.annotators[one], data.annotators[other]], names=names)
    return pd.DataFrame({"items": items.astype(np.int64), "agreement": agreement, "kappa": kappa}, index)


def _settle(data: Annotations, weights: Weights | None) -> Weights:
    """The weights that are meant, once they make sense for the classes."""
    demands.require_annotations(data)
    if weights is None:
        return "quadratic" if data.kind == "ordinal" else "identity"
    demands.one_of("weights", weights, WEIGHTS)
    if weights != "identity" and data.kind != "ordinal" and _numbers(data) is None:
        names = ", ".join(repr(plain(name)) for name in data.classes[:5])
        raise MethodError(
            f"weights={weights!r} needs classes with an order, and these ({names}) are nominal; read the data with "
            "kind='ordinal' and classes= from lowest to highest"
        )
    return weights


def _numbers(data: Annotations) -> np.ndarray | None:
    """The classes as numbers, (K,), if that is what they are and they increase."""
    try:
        numbers = np.array([float(plain(name)) for name in data.classes])
    except (TypeError, ValueError):
        return None
    return numbers if np.isfinite(numbers).all() and (np.diff(numbers) > 0).all() else None


def _ballots(data: Annotations) -> Ballots:
    """Labels to be compared, of which there must be some."""
    if not data.blocks[0].observed:
        raise DataError("a design has no labels that could agree; simulate them, or read labels")
    ballots = Ballots.of(data)
    if len(ballots.first_rows) == ballots.n_items:
        raise DataError(
            f"none of {ballots.n_items} items was labelled by two annotators, so that no labels can be compared; "
            "have some items labelled twice (abstentions are no labels)"
        )
    return ballots


def _ordered(data: Annotations, weights: Weights) -> bool:
    return data.kind == "ordinal" or weights != "identity"


def _formulas(data: Annotations, weights: Weights) -> dict[str, Formula]:
    """The coefficients that are functions of totals and that these classes have."""
    formulas: dict[str, Formula] = {
        "percent_agreement": coefficients.percent_agreement,
        "fleiss_kappa": coefficients.fleiss_kappa,
        "krippendorff_nominal": coefficients.krippendorff_nominal,
    }
    if _ordered(data, weights):
        formulas["krippendorff_ordinal"] = coefficients.krippendorff_ordinal
        numbers = _numbers(data)
        if numbers is not None:
            formulas["krippendorff_interval"] = partial(coefficients.krippendorff_interval, numbers=numbers)
    formulas["gwet_ac1"] = partial(coefficients.gwet, near=nearness(data.n_classes, "identity"))
    if weights != "identity":
        formulas["gwet_ac2"] = partial(coefficients.gwet, near=nearness(data.n_classes, weights))
    return formulas


def _by_items(tally: Tally, resamples: Resamples, formulas: Mapping[str, Formula]) -> list[Coefficient]:
    """Coefficients that are functions of totals."""
    once = tally.total(np.ones((len(tally.size), 1)))
    resampled: dict[str, list[np.ndarray]] = {name: [np.empty(0)] for name in formulas}
    for count in resamples:
        totals = tally.total(count)
        for name, formula in formulas.items():
            resampled[name].append(formula(totals))
    several = tally.size > 1
    pairs = int((tally.size * (tally.size - 1)).sum()) // 2
    used = (int(several.sum()), pairs, int((~several).sum()), 0)
    return [
        Coefficient(name, float(formula(once)[0]), np.concatenate(resampled[name]), *used)
        for name, formula in formulas.items()
    ]


def _cohen(ballots: Ballots, near: np.ndarray, resamples: Resamples) -> Coefficient:
    """Cohen's kappa, with a warning where pairs of annotators share too few items for it."""
    mean = mean_kappa(ballots, near, resamples)
    used = (int(mean.entered.sum()), len(mean.shared), int((~mean.entered).sum()), mean.undefined)
    found = Coefficient("cohen_kappa", mean.value, mean.resampled, *used)
    if mean.shared[mean.shared < FEW].sum() * 2 > mean.shared.sum() or found.bias() > BIAS:
        text = (
            f"cohen_kappa is a mean over {len(mean.shared)} pairs of annotators that share so few items (median "
            f"{np.median(mean.shared):g}) that kappas, and more so the ends of the interval, are biased towards 0; "
            "rather use fleiss_kappa or krippendorff_nominal"
        )
        tell(ThinDataWarning(text))
    return found


def _warn_of_gaps(found: list[Coefficient]) -> None:
    """Warns of coefficients without a value, and of intervals that only some samples made."""
    gaps = [each.name for each in found if np.isnan(each.value)]
    if gaps:
        text = (
            f"{', '.join(gaps)} is not defined and NaN: where all labels to be compared are of one class, "
            "agreement by chance is certain, and cohen_kappa also needs annotators who share two items"
        )
        tell(CrowdpplWarning(text))
    for each in found:
        n, lost = len(each.resampled), int(np.isnan(each.resampled).sum())
        if lost > n / 20 and each.name not in gaps:
            made = f"the interval of {each.name} is made from {n - lost} of {n} samples; in the others it is not "
            why = "defined, because all labels that they compare are of one class, or none can be compared"
            tell(ThinDataWarning(made + why))
