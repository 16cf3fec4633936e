"""A posterior in a few lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from crowdppl.posterior import Posterior

MOST = 10
"""Classes or annotators that a summary lists."""


def summarise(posterior: Posterior) -> str:
    """The method, the data, how the fit went, the classes, and the best and worst annotators.

    Examples:
        >>> print(crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0).summary())
        one_coin by vb: 315 labels of 45 items by 5 annotators, 4 classes
        converged, 5 iterations, objective -263.801, ... s
        <BLANKLINE>
        truth: 42 of 45 items at 95 % or more; prevalence of the classes
               mean    sd   low  high  labelled
        class
        1     0.250 0.000 0.250 0.250        18
        2     0.250 0.000 0.250 0.250        20
        3     0.250 0.000 0.250 0.250         6
        4     0.250 0.000 0.250 0.250         1
        <BLANKLINE>
        annotators, the most accurate first
                   labels  accuracy  accuracy_sd  accuracy_low  accuracy_high
        annotator
        1             135     0.883        0.028         0.819          0.930
        4              45     0.845        0.054         0.729          0.942
        5              45     0.803        0.061         0.670          0.904
        3              45     0.795        0.059         0.665          0.897
        2              45     0.698        0.066         0.560          0.820
    """
    return "\n".join([*_fit(posterior), "", *_truth(posterior), "", *_annotators(posterior)])


def _fit(posterior: Posterior) -> list[str]:
    data, found = posterior.data, posterior.diagnostics()
    lines = [
        f"{posterior.method} by {posterior.inference}: {data.n_labels:,} labels of {data.n_items:,} items "
        f"by {data.n_annotators:,} annotators, {data.n_classes} classes"
    ]
    if posterior.correction is not None:
        lines += [f"corrected: {posterior.correction}", *(f"note: {text}" for text in posterior.correction.notes)]
    state = "converged" if found.get("converged") else "NOT CONVERGED"
    parts = [state] if "converged" in found else []
    parts += [f"{found['iterations']:,} iterations"] if found.get("iterations") is not None else []
    parts += [f"objective {_number(found['objective'])}"] if found.get("objective") is not None else []
    parts += [f"worst R-hat {worst:.3f}"] if (worst := _extreme(found.get("rhat"), max)) is not None else []
    parts += [f"smallest ESS {least:.0f}"] if (least := _extreme(found.get("ess_bulk"), min)) is not None else []
    parts += [f"{n} divergences"] if (n := _total(found.get("divergences"))) else []
    parts += [f"{n} chains relabelled"] if (n := len(found.get("relabelled", ()))) else []
    parts += [f"{found['seconds']:.1f} s"] if found.get("seconds") is not None else []
    lines += [", ".join(parts), *(f"warning: {text}" for text in found.get("warnings", []))]
    return [*lines, *(f"doubt: {text}" for text in posterior.doubts())]


def _truth(posterior: Posterior) -> list[str]:
    labels, share = posterior.labels(), posterior.prevalence()
    sure = int((labels["probability"] >= 0.95).sum())
    tied = int(labels["tied"].sum())
    ties = f", {tied:,} tied" if tied else ""
    counts = labels["label"].value_counts().reindex(share.index, fill_value=0)
    table = share.assign(labelled=counts).head(MOST)
    more = len(share) - len(table)
    lines = [f"truth: {sure:,} of {len(labels):,} items at 95 % or more{ties}; prevalence of the classes"]
    return [*lines, _table(table), *([f"... and {more} more classes"] if more > 0 else [])]


def _annotators(posterior: Posterior) -> list[str]:
    table = posterior.annotators().sort_values("accuracy", ascending=False, kind="stable")
    if len(table) <= MOST:
        return ["annotators, the most accurate first", _table(table)]
    half = MOST // 2
    lines = [f"annotators: the {half} most and the {half} least accurate of {len(table):,}"]
    return [*lines, _table(pd.concat([table.head(half), table.tail(half)]))]


def _table(table: pd.DataFrame) -> str:
    """A table without the columns in which nothing is known."""
    text: str = table.dropna(axis=1, how="all").to_string(float_format=lambda x: f"{x:.3f}")
    return text


def _number(value: Any) -> str:
    return f"{float(value):,.3f}"


def _extreme(values: Any, pick: Any) -> float | None:
    """The largest or smallest of a diagnostic, whether one number or one a site."""
    if values is None:
        return None
    each = [np.asarray(part, np.float64) for part in (values.values() if isinstance(values, dict) else [values])]
    finite = [float(x) for part in each for x in part.ravel() if np.isfinite(x)]
    return float(pick(finite)) if finite else None


def _total(counts: Any) -> int:
    return sum(map(int, counts.values())) if isinstance(counts, dict) else int(counts or 0)
