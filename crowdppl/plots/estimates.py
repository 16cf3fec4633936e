"""Plots of estimates with intervals, a row each: annotators, objects, and truths that are numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl.core import validation
from crowdppl.core.intervals import Estimate, check_level, from_draws, from_point
from crowdppl.data.kinds.space import number_space
from crowdppl.errors import MethodError
from crowdppl.inference.result import Fit, NumberTruth
from crowdppl.plots.axes import ACCENT, MAX_POINTS, MIDDLE, axes_or_new, name_rows, short_names
from crowdppl.results.annotators import annotators, information, informative_part
from crowdppl.results.choices import entropy
from crowdppl.results.mapped_tables import as_shown
from crowdppl.results.rankings import ranking
from crowdppl.results.truths import truth

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_annotators(
    posterior: Fit, *, ax: Axes | None = None, level: float = 0.95, show: str | None = None
) -> Axes:
    """Draws what is known of each annotator, with intervals, the largest on top.

    Where truths are classes, that is by default what their labels are worth. The information of a label is its
    mutual information with the truth, in bits: 0 for a spammer, and at most the entropy of the prevalence (dotted
    line). An annotator who always names a frequent class is accurate and informs of nothing. Where there are draws,
    the information is averaged over them.

    Args:
        posterior: what a fit returned; without intervals where the engine gives points.
        ax: axes to draw on; made if absent.
        level: probability of the intervals.
        show: "information" where truths are classes, or a column of ``annotators()``: "accuracy", of numbers "bias"
            or "precision", of rankings "reliable", of grades by rater_facets "severity". By default information,
            else the first such column. Annotators are ordered by it.

    Raises:
        MethodError: for another ``show``, a method that knows nothing of annotators, or a level that is not between
            0 and 1.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.plot_annotators().get_xlabel()
        'information of a label (bits), line: 95% interval'
    """
    check_level(level)
    posterior = as_shown(posterior)
    table = annotators(posterior, level)
    names = [str(name) for name in table.columns[table.notna().any()]]
    known = [name for name in names if name != "labels" and not name.endswith(("_sd", "_low", "_high"))]
    if posterior.result.tables is not None and "agreement" not in table:  # else nobody errs
        known.insert(0, "information")
    if not known:
        raise MethodError(f"{posterior.method} knows nothing of annotators that could be drawn; fit another method")
    chosen = known[0] if show is None else str(validation.one_of("show", show, known))
    found = _information(posterior, level) if chosen == "information" else _column(table, chosen)
    order = np.argsort(found.mean, kind="stable")
    shown, rows = found.at(order), np.array(short_names(posterior.data.annotators))[order]
    axes, drawn, every = _draw_intervals(shown, rows.tolist(), ax)
    low, high = (float(np.nanmin(shown.low)), float(np.nanmax(shown.high))) if drawn else (0.0, 1.0)
    title, best = _words(posterior, chosen)
    mark, text = (0.0, "") if low < 0 < high else (None, "")
    if chosen == "information":
        mark, text = float(entropy(posterior.result.prevalence[None])[0]), "entropy of the truth"
        axes.set_xlim(0, 1.02 * max(mark, float(np.nanmax(shown.high if drawn else shown.mean))))
    elif chosen == "accuracy":
        mark, text = 1 / posterior.data.n_classes, "chance"
        axes.set_xlim(0, 1)
    if mark is not None:
        axes.axvline(mark, color=MIDDLE, linestyle=":", linewidth=1)
        above: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
        side = "right" if mark > axes.get_xlim()[1] / 2 else "center"
        axes.annotate(text, (mark, 1), (0, 3), ha=side, va="bottom", fontsize="small", color="0.35", **above)
    axes.set_xlabel(f"{title}, line: {level:.0%} interval" if drawn else title)
    axes.set_ylabel(f"{'annotator' if every else f'{len(order):,} annotators'},\n{best} on top")
    return axes


def _column(table: pd.DataFrame, name: str) -> Estimate:
    """A column of a table with its interval; without, where it has none."""
    none = pd.Series(np.nan, table.index)
    parts = (table.get(f"{name}{end}", none).to_numpy(np.float64) for end in ("", "_sd", "_low", "_high"))
    return Estimate(*parts)


def _words(posterior: Fit, show: str) -> tuple[str, str]:
    """The title of what is drawn of annotators, and who is on top."""
    known = {
        "information": ("information of a label (bits)", "most informative"),
        "accuracy": (show, "most accurate"),
    }
    unit = posterior.data.alphabet.kind.unit
    own = show.replace("_", " ") + (f" in {unit}" if unit and show == "bias" else "")
    return known.get(show, (own, "the largest"))


def _information(posterior: Fit, level: float) -> Estimate:
    """Mutual information of truth and label in bits, (A,), averaged over draws where there are draws."""
    result = posterior.result
    tables, shares = result.table_draws, result.prevalence_draws
    if tables is None or shares is None:
        return from_point(information(informative_part(posterior, result.table), result.prevalence))
    pairs = zip(np.asarray(informative_part(posterior, tables)), shares, strict=True)
    return from_draws(np.stack([information(table, share) for table, share in pairs]), level)


def plot_estimates(posterior: Fit, *, ax: Axes | None = None, level: float = 0.95) -> Axes:
    """Draws scores of objects that were compared or ranked, else truths that are numbers, the largest on top.

    Args:
        posterior: what a fit returned; without intervals where the engine gives points.
        ax: axes to draw on; made if absent.
        level: probability of the intervals.

    Raises:
        MethodError: when truths are classes, or the method ranks no objects, or a level is not between 0 and 1.

    Examples:
        >>> ratings = crowdppl.datasets.example("real")
        >>> crowdppl.fit("gaussian_annotators", ratings, inference="em", seed=0).plot_estimates().get_xlabel()
        'truth, line: 95% interval'
    """
    objects = (parts := posterior.data.alphabet.kind.parts) is not None and parts.ranks
    if not objects and not isinstance(posterior.result.truth, NumberTruth):
        raise MethodError(f"{posterior.method} has classes for truths; plot_items shows how sure they are")
    value, what = ("score", "object") if objects else ("estimate", "item")
    table = ranking(posterior, level) if objects else truth(posterior, level)
    table = table.sort_values(value, kind="stable")
    middle, low, high = table[[value, "low", "high"]].to_numpy(float).T
    if not objects:  # ends of an arc that crosses 0 lie on both sides of its middle
        space = number_space(posterior.data.space)
        low, high = (middle + space.error(end, middle) for end in (low, high))
    names = short_names(" ".join(map(str, x)) if isinstance(x, tuple) else x for x in table.index)
    axes, drawn, every = _draw_intervals(Estimate(middle, np.full(len(middle), np.nan), low, high), names, ax)
    unit = posterior.data.alphabet.kind.unit
    title = "score (mean log-skill)" if objects else "truth" + (f" in {unit}" if unit else "")
    axes.set_xlabel(f"{title}, line: {level:.0%} interval" if drawn else title)
    axes.set_ylabel(what if every else f"{len(names):,} {what}s")
    return axes


def _draw_intervals(shown: Estimate, names: list[str], ax: Axes | None) -> tuple[Axes, bool, bool]:
    """Draws a row for each estimate, the last on top; tells whether there are intervals, and all rows are named."""
    place, few, drawn = np.arange(len(names)), len(names) <= MAX_POINTS, bool(np.isfinite(shown.low).any())
    axes = axes_or_new(ax, 6.4, max(2.6, 1.2 + 0.24 * len(names)) if few else 7.2)
    if drawn:
        axes.hlines(place, shown.low, shown.high, color="0.6", linewidth=1.5 if few else 0.8)
    axes.plot(shown.mean, place, "o", color=ACCENT, markersize=5 if few else 2.5)
    axes.set_ylim(-0.7, len(names) - 0.3)
    return axes, drawn, name_rows(axes, names)
