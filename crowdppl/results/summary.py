"""The summary of a posterior, as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from textwrap import shorten
from typing import Any, cast

import numpy as np
import pandas as pd

from crowdppl.core.collective import reduced
from crowdppl.core.validation import printable
from crowdppl.data.kinds.classes import Classes
from crowdppl.data.kinds.space import POSITIVE, number_space
from crowdppl.errors import MethodError
from crowdppl.inference.result import Fit, NumberTruth
from crowdppl.primitives.model import truth_space
from crowdppl.results import grouping
from crowdppl.results.annotators import annotators, prevalence
from crowdppl.results.part_files import fits_by_part
from crowdppl.results.rankings import ranking
from crowdppl.results.spans import spans
from crowdppl.results.truths import fair_averages, labels, shared_variance, truth

MAX_ROWS = 10
"""Classes or annotators that a summary lists."""
SCREEN = 120
"""Characters of a line of a table; wider ones are shown without columns of deviations."""
WIDTH = 200
"""Characters after which a summary's list of columns is cut: a wide table has many."""


def summarise(posterior: Fit, doubts: Sequence[object] = ()) -> str:
    """Summarises a posterior as text: method, data, how the fit went, classes, the best and worst annotators.

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
        1             135     0.883        0.029         0.814          0.932
        4              45     0.844        0.052         0.732          0.933
        5              45     0.802        0.059         0.664          0.899
        3              45     0.797        0.061         0.675          0.905
        2              45     0.698        0.068         0.556          0.817
    """
    table, lines = _kind_lines(posterior)
    known = table in ("ranking", "fair_averages")  # which say more of truths than a row of each item
    known |= posterior.data.is_share and isinstance(posterior.result.truth, NumberTruth)  # it has some of them
    parts = [lines, [] if known else _truth_lines(posterior), _annotator_lines(posterior)]
    parts = [_fit_lines(posterior, doubts), *parts]  # last, for intervals tell why they are narrow
    return printable("\n\n".join("\n".join(part) for part in parts if part))


def _fit_lines(posterior: Fit, doubts: Sequence[object]) -> list[str]:
    data, found = posterior.data, posterior.result.diagnostics
    of_all = data.totals or data
    lines = [
        f"{posterior.method} by {posterior.inference}: {of_all.n_labels:,} labels of {of_all.n_items:,} items "
        f"by {data.n_annotators:,} annotators" + (f", {data.n_classes} classes" if data.n_classes else "")
    ]
    if data.roles:
        read = ", ".join(f"{role} from {column!r}" for role, column in data.roles.items())
        kind = data.alphabet.kind
        lines.append(shorten(f"columns{'' if kind.parts is None else f' of {kind.plural}'}: {read}", WIDTH))
    if posterior.correction is not None:
        lines += [f"corrected: {posterior.correction}", *(f"note: {text}" for text in posterior.correction.notes)]
    if scores := found.get("scores"):
        tried = (f"{name} {score:.3f}" for name, score in sorted(scores.items(), key=lambda x: -x[1]))
        lines.append(f"chosen by the mean log-probability of a label left out: {', '.join(tried)}")
    state = "converged" if found.get("converged") else "NOT CONVERGED"
    parts = [state] if "converged" in found else []
    parts += [f"{found['iterations']:,} iterations"] if found.get("iterations") is not None else []
    parts += [f"objective {float(found['objective']):,.3f}"] if found.get("objective") is not None else []
    parts += [f"worst R-hat {worst:.3f}"] if (worst := _extreme(found.get("rhat"), max)) is not None else []
    parts += [f"smallest ESS {least:.0f}"] if (least := _extreme(found.get("ess_bulk"), min)) is not None else []
    parts += [f"{n} divergences"] if (n := sum(found.get("divergences", {}).values())) else []
    parts += [f"{n} chains relabelled"] if (n := len(found.get("relabelled", ()))) else []
    parts += [f"{found['seconds']:.1f} s"] if found.get("seconds") is not None else []
    lines += [", ".join(parts), *(f"warning: {text}" for text in found.get("warnings", []))]
    if why := found.get("widths"):
        lines.append(f"intervals are those of mean field, which are too narrow: {why}")
    return [*lines, *(f"doubt: {text}" for text in doubts)]


TITLES: dict[str, tuple[str, Callable[[Fit], pd.DataFrame]]] = {
    "ranking": ("ranking, the best first", ranking),
    "fair_averages": ("fair averages", fair_averages),
    "spans": ("spans", spans),
    "sets": ("sets", grouping.sets),
    "clusters": ("clusters", grouping.clusters),
}
"""Titles of the tables that belong to kinds of labels, and what makes them."""


def table_of_kind(posterior: Fit) -> pd.DataFrame | None:
    """The table that belongs to the kind of labels; None where there is none, or the method has it not."""
    name = posterior.data.alphabet.kind.table
    if name not in TITLES:
        return None
    try:
        return TITLES[name][1](posterior)
    except MethodError:
        return None


def _kind_lines(posterior: Fit) -> tuple[str, list[str]]:
    """The table that belongs to the kind of labels, by name."""
    table, name = table_of_kind(posterior), posterior.data.alphabet.kind.table
    if table is None:
        return "", []
    return name, [TITLES[name][0], *_first_rows(table, {"ranking": "objects", "spans": "spans"}.get(name, "items"))]


def _first_rows(table: pd.DataFrame, what: str) -> list[str]:
    """The first rows of a table, and how many more there are."""
    more = len(table) - MAX_ROWS
    return [_table(table.head(MAX_ROWS)), *([f"... and {more:,} more {what}"] if more > 0 else [])]


def _truth_lines(posterior: Fit) -> list[str]:
    if isinstance(posterior.result.truth, NumberTruth):
        table, space = truth(posterior), number_space(posterior.data.space)
        x = table["estimate"].to_numpy()
        spread = f"mean {float(space.mean(x)):.3f}, standard deviation {float(space.spread(x)):.3f}"
        ends = f", {x.min():.3f} to {x.max():.3f}" if space.ordered else ""
        logs = truth_space(posterior.model, space) == POSITIVE
        words = "; medians; annotators' numbers are of logarithms, so that a bias of 0.1 is 10 %" if logs else ""
        lines = [f"truth: {posterior.data.n_items:,} numbers, {spread}{ends}{words}", *_first_rows(table, "items")]
        return [*lines, *_shared_lines(posterior)]
    share, found = prevalence(posterior), np.zeros(3 + posterior.data.n_classes, np.int64)
    for _, fit in fits_by_part(posterior):
        part = labels(fit)
        each = part["label"].value_counts().reindex(share.index, fill_value=0)
        found += [len(part), (part["probability"] >= 0.95).sum(), part["tied"].sum(), *each]
    n, sure, tied, *labelled = reduced(found).tolist()
    ties = f", {tied:,} tied" if tied else ""
    table = share.assign(labelled=labelled).head(MAX_ROWS)
    kind, more = posterior.data.alphabet.kind, len(share) - len(table)
    called = kind.called if isinstance(kind, Classes) else "classes"
    lines = [f"truth: {sure:,} of {n:,} items at 95 % or more{ties}; prevalence of the {called}"]
    return [*lines, _table(table), *([f"... and {more} more {called}"] if more > 0 else [])]


def _shared_lines(posterior: Fit) -> list[str]:
    """How much of truths' intervals comes from errors that all labels of an item share, where it is most."""
    share, model = shared_variance(posterior), cast(Any, posterior.model)
    if share <= 0.5:
        return []
    return [
        f"their intervals are {np.sqrt(1 / (1 - share)):.1f} times as wide as without errors that all labels of an "
        f"item share ({share:.0%} of the variance), which shared={model.shared:g} assumes, for labels do "
        'not tell them; settings={"shared": ...} says how far these errors correlate'
    ]


def _annotator_lines(posterior: Fit) -> list[str]:
    table = annotators(posterior)
    if posterior.result.tables is None:
        return ["annotators", *_first_rows(table, "annotators")]
    by, word = ("agreement", "typical") if "agreement" in table else ("accuracy", "accurate")
    table = table.sort_values(by, ascending=False, kind="stable")
    if len(table) <= MAX_ROWS:
        return [f"annotators, the most {word} first", _table(table)]
    half = MAX_ROWS // 2
    lines = [f"annotators: the {half} most and the {half} least {word} of {len(table):,}"]
    return [*lines, _table(pd.concat([table.head(half), table.tail(half)]))]


def _table(table: pd.DataFrame) -> str:
    """A table as text, without columns of NaN alone; where it is wide, also without those of deviations."""
    table = table.dropna(axis=1, how="all")
    if (text := _as_text(table)).index("\n") <= SCREEN:
        return text
    return _as_text(table.drop(columns=[x for x in table if str(x).endswith("_sd")]))


def _as_text(table: pd.DataFrame) -> str:
    return str(table.to_string(float_format=lambda x: f"{x:.3f}"))


def _extreme(values: Mapping[str, float] | None, pick: Callable[[list[float]], float]) -> float | None:
    """The largest or smallest of a diagnostic of sites."""
    finite = [x for x in map(float, (values or {}).values()) if np.isfinite(x)]
    return pick(finite) if finite else None
