"""Whether another method is better than the one that would be taken anyway, when many were tried."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from crowdppl.choosing.classifier_scores import ClassifierScore
from crowdppl.choosing.heldout import HeldoutScore
from crowdppl.doors.counts import share_between
from crowdppl.doors.naming import kind_of, shown
from crowdppl.errors import DataError, MethodError
from crowdppl.results.leave_one_out import standard_error
from crowdppl.statistics.holm import holm

Score = HeldoutScore | ClassifierScore


def rivals(
    scores: Mapping[str, HeldoutScore] | Mapping[str, ClassifierScore], default: str, level: float = 0.05
) -> pd.DataFrame:
    """Which methods predict better than the default by more than chance, given how many were tried.

    The best of twenty scores is ahead of a given one even where all methods are as good. So the default, chosen
    before anything was scored, is to be kept unless a rival is ahead beyond chance: its p, that of a one-sided
    t-test on differences in predicting the same labels (an item is one observation), is multiplied as Holm (1979),
    "A simple sequentially rejective multiple test procedure", says.

    Args:
        scores: by a name of your choice, all of ``heldout_score`` (a comparison's ``scores``) or all of
            ``classifier_score``, with the same data, folds and seed.
        default: the name of the method that needs no reason.
        level: probability of calling any method better where none is.

    Returns:
        DataFrame by rival, furthest ahead first: ahead, the mean difference in log-probability (of an item for
        classifiers or whole items left out, else of a label), in nats; its standard error se; p, adjusted;
        beyond_chance, whether p is at most ``level``.

    Raises:
        MethodError: when the default was not scored, or nothing else was.
        DataError: for what are no scores, scores of other labels left out, or a default that found one of these
            impossible. A rival that did is behind without bound.

    Examples:
        >>> data = crowdppl.anaesthetists()
        >>> found = crowdppl.compare(["one_coin", "majority_vote", "glad"], data, folds=3, inference="em", seed=0)
        >>> crowdppl.rivals(found.scores, default="one_coin").round(2)
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
    """Log-probabilities of the same observations by method, and the item of each."""
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
        raise DataError(
            "scores are of heldout_score and of classifier_score, which ask different things; give one kind"
        )
    first = tables[default].drop(columns="log_p")
    for name, table in tables.items():
        if not table.drop(columns="log_p").equals(first):
            raise DataError(
                f"{name!r} and {default!r} were scored on other labels left out; give both the same data, folds, "
                "seed and whole_items"
            )
    owner = pd.factorize(first["item"])[0]
    return {name: table["log_p"].to_numpy(np.float64) for name, table in tables.items()}, owner


def _table(name: str, score: object) -> pd.DataFrame:
    """What was left out, and how probable a method found it."""
    if isinstance(score, HeldoutScore) and not score.labels["log_p"].isna().all():
        return score.labels[["row", "item", "annotator", "label", "fold", "log_p"]].reset_index(drop=True)
    if isinstance(score, HeldoutScore | ClassifierScore):
        return score.items.rename_axis("item").reset_index()[["item", "labels", "log_p"]]
    raise DataError(
        f"the score of {name!r} is {kind_of(score)}; give what heldout_score or classifier_score returned"
    )
