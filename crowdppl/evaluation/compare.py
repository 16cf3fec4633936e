"""Comparison of methods by held-out scores, and the test that one beats the default."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pandas as pd

from crowdppl import registry
from crowdppl.baselines import METHODS
from crowdppl.core.validation import kind_of, named_settings, share_between, shown, switch
from crowdppl.criticism.tails import holm
from crowdppl.data.annotations import Annotations, require_annotations
from crowdppl.data.ids import is_iterable
from crowdppl.errors import DataError, MethodError, NoProbabilitiesError
from crowdppl.evaluation.heldout import (
    LEAST_WEIGHT,
    ClassifierScore,
    HeldoutScore,
    score_baseline,
    score_one_of,
    stacking_weights,
    unprepared,
)
from crowdppl.inference.engines import warn_of_unused
from crowdppl.inference.options import FitOptions, options_from
from crowdppl.inference.result import Fit, require_fit
from crowdppl.networks.outputs import warn_of_no_features
from crowdppl.plots.evaluation import plot_comparison
from crowdppl.primitives.model import Model
from crowdppl.results.leave_one_out import standard_error
from crowdppl.results.truths import probabilities

if TYPE_CHECKING:
    from matplotlib.axes import Axes


Score = HeldoutScore | ClassifierScore


def compare_to_default(
    scores: Mapping[str, HeldoutScore] | Mapping[str, ClassifierScore], default: str, level: float = 0.05
) -> pd.DataFrame:
    """Which methods predict better than the default by more than chance, given how many were tried.

    The best of twenty scores is ahead of a given one even where all methods are equally good. Keep the default
    unless a rival is ahead beyond chance: by a one-sided t-test on differences in predicting the same labels (an
    item, sequence or set is one observation), corrected for the number of rivals by Holm (1979).

    Args:
        scores: by a name of your choice, all of ``heldout_score`` (a comparison's ``scores``) or all of
            ``classifier_score``, with the same data, folds and seed.
        default: the name of the method that needs no reason.
        level: probability of calling any method better where none is.

    Returns:
        DataFrame by rival, furthest ahead first:

        - ``ahead``: mean difference in log-probability, in nats, of an item for classifiers and whole items left
          out, else of a label
        - ``se``: its standard error
        - ``p``: adjusted for the number of rivals
        - ``beyond_chance``: whether p is at most ``level``

    Raises:
        MethodError: when the default was not scored, or nothing else was.
        DataError: for what are no scores, scores of other labels left out, or a default that found one of these
            impossible.

    Examples:
        >>> data = crowdppl.anaesthetists()
        >>> found = crowdppl.compare(["one_coin", "majority_vote", "glad"], data, folds=3, inference="em", seed=0)
        >>> crowdppl.compare_to_default(found.scores, default="one_coin").round(2)
                       ahead    se     p  beyond_chance
        method
        majority_vote   0.01  0.01  0.45          False
        glad           -0.02  0.03  0.70          False
    """
    from scipy.stats import t  # slow to import

    share_between("level", level, "0.05 calls a rival better by mistake once in twenty times")
    logs, owner = _observed(scores, default)
    base = logs.pop(default)
    if not np.isfinite(base).all():
        raise DataError(
            f"the default {default!r} gave {int((~np.isfinite(base)).sum())} of {len(base)} observations the "
            "probability 0, beside which any rival is ahead without bound; take another default"
        )
    with np.errstate(invalid="ignore"):  # a rival that found something impossible has no standard error
        rows = {
            name: {"ahead": (x - base).mean(), "se": standard_error(x - base, owner)} for name, x in logs.items()
        }
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("method")
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (table["ahead"] / table["se"]).to_numpy()
    table["p"] = holm(np.nan_to_num(t.sf(ratio, owner.max()), nan=1.0))  # predictions that are the same: 0 / 0
    table["beyond_chance"] = table["p"] <= level
    return table.sort_values("ahead", ascending=False, kind="stable")


def _observed(scores: Mapping[str, Score], default: str) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Log-probabilities of the same observations by method, and the unit of each, codes from 0."""
    if not isinstance(scores, Mapping):
        raise DataError(f"scores is {kind_of(scores)}; give a mapping from names to scores")
    if not isinstance(default, str) or default not in scores:
        raise MethodError(
            f"the default {shown(default)} was not scored ({', '.join(map(str, scores)) or 'nothing was'})"
        )
    if len(scores) < 2:
        raise MethodError(f"nothing but the default {default!r} was scored; score its rivals, too")
    tables = {name: _table(name, score) for name, score in scores.items()}
    if len({isinstance(score, ClassifierScore) for score in scores.values()}) > 1:
        raise DataError("scores are of heldout_score and of classifier_score, which differ in kind; give one kind")
    first = tables[default].drop(columns="log_p")
    for name, table in tables.items():
        if not table.drop(columns="log_p").equals(first):
            raise DataError(
                f"{name!r} and {default!r} were scored on other labels left out; give both the same data, folds, "
                "seed and whole_items"
            )
    owner = pd.factorize(first["unit"])[0]
    return {name: table["log_p"].to_numpy(np.float64) for name, table in tables.items()}, owner


def _table(name: str, score: object) -> pd.DataFrame:
    """The labels or items left out, and their log-probabilities."""
    if isinstance(score, HeldoutScore) and score.is_baseline:
        raise NoProbabilitiesError(f"{name} has no probabilities, so no held-out scores; compare its agreement")
    if isinstance(score, HeldoutScore) and not score.labels["log_p"].isna().all():
        return score.labels.drop(columns="agrees").reset_index(drop=True)
    if isinstance(score, HeldoutScore | ClassifierScore):
        return score.items[["unit", "labels", "log_p"]].reset_index()
    raise DataError(
        f"the score of {name!r} is {kind_of(score)}; give what heldout_score or classifier_score returned"
    )


Models = Sequence[str] | Mapping[str, "str | Model"]


@dataclass(frozen=True, repr=False)
class Comparison:
    """Methods by how well they predict held-out labels.

    Attributes:
        scores: the held-out score of each method, by the name it was given.
        table: DataFrame by method, best first: inference; log_p, the mean log-probability of a label left out, and
            its standard error se; difference to the best method and its standard error difference_se, from the
            same labels, those of an item, sequence or set counted as one observation; weight in the stack of
            predictions that would score best; per_item, as log_p for the labels of an item together; beside
            baselines agreement, the share of labels left out that are the label of their item; seconds. Baselines
            have none but agreement and seconds, and stand below. With whole items left out, all of it is of items,
            not labels: log_p is then per_item.
        whole_items: whether whole items were left out.
    """

    scores: Mapping[str, HeldoutScore]
    table: pd.DataFrame
    whole_items: bool = False

    def plot(self, *, ax: Axes | None = None, level: float = 0.95) -> Axes:
        """Draws how far each method is behind the best; see ``crowdppl.plots.evaluation.plot_comparison``."""
        return plot_comparison(
            self.table.dropna(subset=["log_p"]), "an item" if self.whole_items else "a label", ax=ax, level=level
        )

    @property
    def best(self) -> str:
        """Name of the method with the highest score."""
        return str(self.table.index[0])

    def probabilities(self, members: Mapping[str, Fit]) -> pd.DataFrame:
        """Probability of each class for each item, averaged over methods by their stacking weights.

        As ``fit("auto", ...)`` does, without its discounts: methods that weigh less than .01 are left out, and the
        other weights sum to one. A comparison holds no fits: give yours.

        Args:
            members: a fit of each method by its name in the table; one that is left out need not be there. Of a
                corrected posterior, the method's own probabilities are taken.

        Returns:
            DataFrame (N, K), item ids x class names.

        Raises:
            MethodError: when a method that has weight is missing, or one was not compared.
            DataError: when the fits are of different items or classes, or no fits.

        Examples:
            >>> data, names = crowdppl.anaesthetists(), ["majority_vote", "one_coin"]
            >>> found = crowdppl.compare(names, data, folds=3, inference="em", seed=0)
            >>> fits = {name: crowdppl.fit(name, data, inference="em", seed=0) for name in names}
            >>> found.probabilities(fits).loc[[36, 38]].round(2)
            class    1     2     3     4
            item
            36     0.0  0.00  0.95  0.05
            38     0.0  0.08  0.92  0.00
        """
        given = self.table["weight"]
        kept = given[given >= LEAST_WEIGHT]
        _check_members(members, given.index, kept.index)
        own = {str(name): probabilities(members[str(name)].uncorrected()) for name in kept.index}
        mean = sum(
            (weight * own[str(name)].to_numpy() for name, weight in (kept / kept.sum()).items()), np.zeros(())
        )
        first = next(iter(own.values()))
        return pd.DataFrame(mean, index=first.index, columns=first.columns)

    def __repr__(self) -> str:
        return self.table.to_string(float_format=lambda x: f"{x:.4g}")


def compare(
    models: Models,
    data: Annotations,
    *,
    folds: int = 5,
    inference: str | Mapping[str, str] = "auto",
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    whole_items: bool = False,
    **options: Unpack[FitOptions],
) -> Comparison:
    """Scores several methods on the same labels left out; no gold is needed.

    Stacking weights are those of the mixture of the methods' predictions under which the labels left out are most
    probable (Yao, Vehtari, Simpson & Gelman 2018, "Using stacking to average Bayesian predictive distributions").

    Args:
        models: names of methods, or a mapping from names of your choice to methods or models. Names of
            ``crowdppl.baselines`` are scored, too, by the agreement of their labels with labels left out.
        folds, whole_items, options: as for ``heldout_score``.
        inference: one engine for all, or one by name; those not named get "auto", whose ten seconds all fits of
            these share, so that it mostly takes vb. The table says which engines ran.
        settings: of methods, by name.

    Raises:
        NoProbabilitiesError: for a baseline of numbers, or with ``whole_items``.
        MethodError: for no method at all, a name given twice, an engine or settings of a method not compared, or
            what ``heldout_score`` does not take; before anything is fitted.
        KeyboardInterrupt: when Ctrl-C stops one of the fits.

    Examples:
        >>> data = crowdppl.anaesthetists()
        >>> found = crowdppl.compare(["majority_vote", "one_coin"], data, folds=3, inference="em", seed=0)
        >>> found.table[["log_p", "se", "difference", "weight"]].round(2)
                       log_p    se  difference  weight
        method
        majority_vote  -0.69  0.08        0.00    0.76
        one_coin       -0.70  0.09       -0.01    0.24
    """
    named, data = _named(models), require_annotations(data)
    fitted = {name: model for name, model in named.items() if not is_baseline(model)}
    warn_of_no_features(_check(fitted, inference, settings), data)
    seed = options_from(options).seed
    chosen = inference if isinstance(inference, Mapping) else dict.fromkeys(named, inference)
    engines = {name: chosen.get(name, "auto") for name in fitted}
    if switch("whole_items", whole_items) and len(fitted) < len(named):
        name = next(name for name in named if name not in fitted)
        raise NoProbabilitiesError(f"{name} has no probabilities of whole items; leave whole_items out")
    left, scores = list(engines.values()).count("auto"), {}
    for name, model in named.items():
        if name not in fitted:
            scores[name] = score_baseline(str(model), data, folds, seed)
            continue
        try:
            given = (settings or {}).get(name)
            scores[name] = score_one_of(left, model, data, folds, engines[name], given, whole_items, options)
        except MethodError as error:
            raise MethodError(f"{name}: {error}") from error
    warn_of_unused(options, sorted({scores[name].inference for name in fitted}))
    return Comparison(scores, _score_table(scores, whole_items), whole_items)


def is_baseline(model: Any) -> bool:
    """Whether a method is named that has no model."""
    return isinstance(model, str) and model in METHODS and model not in registry.names()


def _named(models: Models) -> dict[str, Any]:
    if isinstance(models, str) or not (isinstance(models, Collection) and is_iterable(models)):
        raise MethodError(
            f"models={shown(models)} is no list of names; give one, or a mapping from names to methods"
        )
    named = dict(models) if isinstance(models, Mapping) else {str(name): name for name in models}
    if not named:
        raise MethodError("compare was given no method; give names that crowdppl.zoo() lists")
    if len(named) < len(models):
        twice = next(name for name, n in Counter(map(str, models)).items() if n > 1)
        raise MethodError(f"{twice!r} is to be compared with itself; name each method once")
    return named


def _check(
    named: Mapping[str, Any], inference: str | Mapping[str, str], settings: Mapping[str, Mapping[str, Any]] | None
) -> dict[str, Model | None]:
    if not isinstance(inference, str | Mapping):
        raise MethodError(
            f"inference={shown(inference)} is neither an engine nor a mapping from methods to engines"
        )
    settings = {} if settings is None else named_settings(settings)
    for what, given in (("inference", inference), ("settings", settings)):
        stray = set(given) - set(named) if isinstance(given, Mapping) else set()
        if stray:
            raise MethodError(f"{what} names {shown(sorted(stray)[0])}, which is not compared ({', '.join(named)})")
    return {name: unprepared(model, settings.get(name)) for name, model in named.items()}


def _check_members(members: Mapping[str, Fit], compared: Collection[str], needed: Collection[str]) -> None:
    if not isinstance(members, Mapping):
        raise MethodError(f"members is {kind_of(members)}; give a mapping from names to fits")
    for name in members:
        if name not in compared:
            raise MethodError(f"{name!r} was not compared ({', '.join(compared)})")
    for name in needed:
        if name not in members:
            raise MethodError(f"{name!r} has weight, and no fit of it was given; fit it to the same data")
    first = next(iter(needed))
    for name in needed:
        one, other = (require_fit(members[method]).data for method in (first, name))
        if not (one.items.equals(other.items) and one.classes.equals(other.classes)):
            raise DataError(
                f"{first!r} and {name!r} were fitted to different items or classes; fit both to the same"
            )


def _score_table(scores: Mapping[str, HeldoutScore], whole_items: bool) -> pd.DataFrame:
    rows = {} if all(x.is_baseline for x in scores.values()) else _log_p_rows(scores, whole_items)
    columns = ["inference", "log_p", "se", "difference", "difference_se", "weight", "per_item", "seconds"]
    table = (
        pd.DataFrame.from_dict(rows, orient="index", columns=columns).reindex(list(scores)).rename_axis("method")
    )
    table["inference"], table["seconds"] = (
        [getattr(x, n) for x in scores.values()] for n in ("inference", "seconds")
    )
    if any(score.is_baseline for score in scores.values()):
        table.insert(7, "agreement", [score.agreement for score in scores.values()])
        table = table.sort_values("agreement", ascending=False, kind="stable")
    return table.sort_values("log_p", ascending=False, kind="stable")


def _log_p_rows(all_scores: Mapping[str, HeldoutScore], whole_items: bool) -> dict[str, dict[str, Any]]:
    """Rows of those that have probabilities."""
    scores = {name: score for name, score in all_scores.items() if not score.is_baseline}
    units = {name: score.items if whole_items else score.labels for name, score in scores.items()}
    logs = np.stack([table["log_p"].to_numpy() for table in units.values()], 1)
    owner = units[next(iter(scores))]["unit"].to_numpy()
    mean = [score.per_item if whole_items else score.per_label for score in scores.values()]
    error = [score.per_item_se if whole_items else score.per_label_se for score in scores.values()]
    best = int(np.argmax(mean))
    weights = stacking_weights(logs)
    return {
        name: {
            "inference": score.inference,
            "log_p": mean[column],
            "se": error[column],
            "difference": mean[column] - mean[best],
            "difference_se": standard_error(logs[:, column] - logs[:, best], owner),
            "weight": weights[column],
            "per_item": score.per_item,
            "seconds": score.seconds,
        }
        for column, (name, score) in enumerate(scores.items())
    }
