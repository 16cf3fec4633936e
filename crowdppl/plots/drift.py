"""The picture of annotators over time: how accurate they are, or how far off, from window to window."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from crowdppl.core.intervals import check_level
from crowdppl.core.validation import one_of
from crowdppl.criticism.doubts.time import LEAST_LABELS, truths_without
from crowdppl.data.annotations import Annotations
from crowdppl.data.kinds.space import number_space
from crowdppl.errors import DataError, MethodError
from crowdppl.inference.predict.answers import confusion_at, labels_by
from crowdppl.inference.result import Fit, NumberTruth
from crowdppl.plots.axes import COLOURS, LIGHT, MIDDLE, axes_or_new, short_names, write_beside
from crowdppl.plots.confusions import annotator_codes
from crowdppl.results.annotators import annotators as table_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = 3
"""Annotators who are named by default."""
MAX_WINDOWS, IN_WINDOW = 12, 20
"""Windows of an annotator, and labels in each where there are enough."""
TIMES = 24
"""At which a model of changes is asked."""
GRID = 400
"""Accuracies at which the likelihood of a window is computed."""
MAX_OTHERS = 100
DAY = np.timedelta64(1, "D")


class Course(NamedTuple):
    """How an annotator does in the course of time; (W,) each.

    Attributes:
        rows: row of the label in the middle of each window.
        mean, sd, low, high: accuracy, or bias, with an interval; NaN where there is none.
    """

    rows: np.ndarray
    mean: np.ndarray
    sd: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def change(self) -> float:
        """Spread of the means in their own standard deviations."""
        sd = np.where(np.isfinite(self.sd) & (self.sd > 0), self.sd, 1.0)
        middle = np.average(self.mean, weights=sd**-2)
        return float((((self.mean - middle) / sd) ** 2).mean())


def plot_drift(
    posterior: Fit,
    annotators: Any = None,
    *,
    by: Literal["time", "turn"] = "time",
    ax: Axes | None = None,
    level: float = 0.95,
) -> Axes:
    """Draws how accurate annotators are in the course of time, with intervals: who tires, learns, or changes.

    Models whose confusions depend on times, such as drifting_coin, say it themselves. Of others, an annotator's
    labels are cut into windows of about 20, and each window's accuracy is what all other labels of its items say of
    it, as the fit weighs them: the likelihood of one accuracy, errors falling as the fit has them, under an even
    prior. Where labels are numbers, or grades on a scale, it is the mean of a label less the other labels of the
    item, with a t interval. Other annotators are grey.

    Args:
        annotators: one id, or a list of ids; by default the three who change most.
        by: "time", or "turn": which of the annotator's own labels it was, the first, the second and so on.
        ax: axes to draw on; made if absent.
        level: probability of the intervals.

    Raises:
        DataError: when labels have no times, an annotator is unknown, or nobody has 16 labels at several times.
        MethodError: for rankings, for methods that let nobody err, another ``by``, or a level that is not between
            0 and 1.

    Examples:
        >>> truth = {n: n % 3 for n in range(90)}
        >>> crowd = crowdppl.simulate_annotators(truth, {"hammer": 4}, seed=0)
        >>> rows = crowd.data.frame().assign(minute=lambda x: x["item"].astype(int))
        >>> data = crowdppl.Annotations.from_frame(rows, time="minute")
        >>> posterior = crowdppl.fit("one_coin", data, inference="vb", seed=0)
        >>> posterior.plot_drift().get_ylabel()
        'accuracy: share of labels that are right'
    """
    check_level(level)
    one_of("by", by, ("time", "turn"))
    data, time = posterior.data, _time(posterior)
    chosen = None if annotators is None else annotator_codes(posterior, annotators)
    numbers = isinstance(posterior.result.truth, NumberTruth)
    courses = _courses(posterior, time, level)
    if chosen is None:
        if not courses:
            raise DataError(
                f"no annotator has {2 * LEAST_LABELS} labels at several times; have more, or take plot_annotators"
            )
        chosen = np.array(sorted(courses, key=lambda who: -courses[who].change)[:SHOWN])
    if lost := [who for who in chosen.tolist() if who not in courses]:
        raise DataError(
            f"annotator {data.annotators[lost[0]]!r} has fewer than {2 * LEAST_LABELS} labels, or all at one time; "
            "name another"
        )
    axes = axes_or_new(ax, 7.2, 4.2)
    marker = "-" if not numbers and labels_by(posterior.uncorrected(), str(time)) else "o-"  # no windows, a model
    place = _places(data, time, by)
    for who in [x for x in courses if x not in chosen][:MAX_OTHERS]:
        axes.plot(place[courses[who].rows], courses[who].mean, color=LIGHT, linewidth=0.8, zorder=1)
    names = short_names(data.annotators)
    for n, who in enumerate(chosen.tolist()):
        course, colour = courses[who], COLOURS[n % len(COLOURS)]
        at = place[course.rows]
        axes.plot(at, course.mean, marker, color=colour, markersize=4, linewidth=1.5, label=names[who], zorder=3)
        if np.isfinite(course.low).all():
            axes.fill_between(at, course.low, course.high, color=colour, alpha=0.15, linewidth=0, zorder=2)
    _name_axes(axes, posterior, numbers, str(time), by, level)
    axes.set_title(f"{len(courses):,} of {data.n_annotators:,} annotators", fontsize="medium")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False, fontsize="small")
    return axes


def _name_axes(axes: Axes, posterior: Fit, numbers: bool, time: str, by: str, level: float) -> None:
    """Names of both axes, and the line of chance or of no bias."""
    if numbers:
        unit = "grades" if posterior.data.n_classes else posterior.data.alphabet.kind.unit
        axes.axhline(0, color=MIDDLE, linestyle=":", linewidth=1)
        axes.set_ylabel("bias: label less the item's others" + (f", in {unit}" if unit else ""))
    else:
        chance = 1 / posterior.data.n_classes
        axes.axhline(chance, color=MIDDLE, linestyle=":", linewidth=1)
        write_beside(axes, chance, "chance")
        axes.set(ylim=(0, 1), ylabel="accuracy: share of labels that are right")
    what = time if by == "time" else "label of the annotator, in order of time"
    axes.set_xlabel(f"{what} (band: {level:.0%} interval)")
    locator = axes.xaxis.get_major_locator()
    if hasattr(locator, "intervald"):  # of dates
        from matplotlib.dates import ConciseDateFormatter  # slow to import

        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


def _time(posterior: Fit) -> Hashable:
    """The column of times; DataError where there is none."""
    data = posterior.data
    time = data.time if data.time is not None else getattr(posterior.model, "time", None)
    if time is None or data.columns is None or time not in data.columns:
        raise DataError(
            "labels have no times; name their column when they are read (time='answered_at'), or take "
            "plot_annotators, which draws annotators as steady"
        )
    return time


def _places(data: Annotations, time: Hashable, by: str) -> np.ndarray:
    """Where each label stands: its time, or its turn among those of its annotator, (S,)."""
    assert data.columns is not None
    times = data.columns[time].to_numpy()
    if by == "time":
        return times
    who = data.label_codes()[1]
    order = np.lexsort((times, who))
    turn = np.empty(len(who), np.int64)
    turn[order] = pd.Series(who[order]).groupby(who[order]).cumcount().to_numpy() + 1
    return turn


def _courses(posterior: Fit, time: Hashable, level: float) -> dict[int, Course]:
    """The course of each annotator with labels enough, by code."""
    fit, data = posterior.uncorrected(), posterior.data
    assert data.columns is not None
    _require_errors(fit)
    times, (item, annotator, answer) = data.columns[time].to_numpy(), data.label_codes()
    numbers = isinstance(fit.result.truth, NumberTruth)
    error = _errors(data) if numbers else None
    modelled = _modelled(fit, time, level) if not numbers and labels_by(fit, str(time)) else None
    named, found = (answer < data.n_classes) | numbers, dict[int, Course]()
    for who in np.flatnonzero(np.bincount(annotator[named], minlength=data.n_annotators) >= 2 * LEAST_LABELS):
        rows = np.flatnonzero(named & (annotator == who))
        rows = rows[np.argsort(times[rows], kind="stable")]
        if modelled is not None:
            found[int(who)] = _own(modelled, int(who), times, rows)
            continue
        kept = rows if error is None else rows[np.isfinite(error[rows])]
        cuts = _cuts(times[kept])
        if len(cuts) < 2:
            continue
        parts = np.split(kept, cuts[1:])
        if error is not None:
            moments = [_of_numbers(error[part], level) for part in parts]
        else:
            table, own = np.asarray(fit.result.confusions[[who]])[0, :, : data.n_classes], answer[kept]
            others = truths_without(fit.result.probabilities[item[kept]], table, own)
            right, wrong = _likelihood(others, table, own)
            pairs = zip(np.split(right, cuts[1:]), np.split(wrong, cuts[1:]), strict=True)
            moments = [_of_share(a, b, level) for a, b in pairs]
        found[int(who)] = Course(np.array([part[len(part) // 2] for part in parts]), *np.array(moments).T)
    return found


def _require_errors(fit: Fit) -> None:
    """Refuses labels that cannot be wrong."""
    kind = fit.data.alphabet.kind
    if isinstance(fit.result.truth, NumberTruth):
        if kind.parts is not None:
            raise MethodError(
                f"labels of kind {kind.name!r} are places among others; plot_annotators draws who is reliable"
            )
    elif "agreement" in table_of(fit):
        raise MethodError(f"{fit.method} lets nobody err; fit {kind.methods[-1]!r}, or take plot_annotators")


def _cuts(times: np.ndarray) -> np.ndarray:
    """Where windows begin, of about equally many labels, never within those of one time."""
    n = len(times)
    begins = np.flatnonzero(times[1:] != times[:-1]) + 1
    wanted = max(min(MAX_WINDOWS, n // IN_WINDOW), 2)
    if not len(begins):
        return np.zeros(1, int)
    even = np.arange(1, wanted) * n / wanted
    cuts = [0]
    for begin in np.unique(begins[np.abs(begins[:, None] - even).argmin(0)]).tolist():
        if min(begin - cuts[-1], n - begin) >= LEAST_LABELS:
            cuts.append(begin)
    return np.array(cuts)


def _likelihood(others: np.ndarray, table: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """p(label) if the annotator is right, and if not, given what is known without it; (S,) each."""
    errors = table * (1 - np.eye(len(table)))
    errors = errors / np.maximum(errors.sum(1, keepdims=True), 1e-12)
    return others[np.arange(len(own)), own], (others * errors[:, own].T).sum(1)


def _of_share(right: np.ndarray, wrong: np.ndarray, level: float) -> tuple[float, float, float, float]:
    """Posterior mean, standard deviation and interval of an accuracy under an even prior."""
    grid = (np.arange(GRID) + 0.5) / GRID
    log_p = np.log(np.outer(grid, right) + np.outer(1 - grid, wrong) + 1e-300).sum(1)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean, mass = float(grid @ p), np.cumsum(p)
    low, high = (float(np.interp(x, mass, grid)) for x in ((1 - level) / 2, (1 + level) / 2))
    return mean, float(np.sqrt(np.maximum((grid - mean) ** 2 @ p, 0))), low, high


def _errors(data: Annotations) -> np.ndarray:
    """How far each label lies beyond the mean of the item's other labels, NaN without others, (S,)."""
    item, _, answer = data.label_codes()
    values = answer.astype(float) if data.n_classes else data.frame()["label"].to_numpy(float)
    space = number_space(data.space)
    others = np.bincount(item)[item] - 1
    rest = [(np.bincount(item, x)[item] - x) / np.maximum(others, 1) for x in space.moments(values)]
    return np.where(others > 0, space.error(values, space.estimate(*rest)[0]), np.nan)


def _of_numbers(error: np.ndarray, level: float) -> tuple[float, float, float, float]:
    """Mean of errors, its standard error and t interval."""
    from scipy.stats import t  # slow to import

    n, mean = len(error), float(error.mean())
    sd = float(error.std(ddof=1) / np.sqrt(n))
    reach = float(t.ppf((1 + level) / 2, n - 1)) * sd
    return mean, sd, mean - reach, mean + reach


def _modelled(fit: Fit, time: Hashable, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Times, and what the model says of accuracies at each: mean, sd, low and high, (T,) and (4, T, A)."""
    data = fit.data
    assert data.columns is not None
    times = np.sort(data.columns[time].to_numpy())
    times = np.unique(times[np.linspace(0, len(times) - 1, TIMES).round().astype(int)])
    days = (times - np.datetime64(0, "D")) / DAY if times.dtype.kind == "M" else times
    drawn, found = fit.result.draws is not None, []
    for day in days.tolist():
        tables = np.asarray(confusion_at(fit, {time: float(day)}, drawn))[..., : data.n_classes]
        rows = tables / np.maximum(tables.sum(-1, keepdims=True), 1e-12)
        right = rows.diagonal(axis1=-2, axis2=-1) @ fit.result.prevalence
        if not drawn:
            found.append(np.stack([right, *(np.full_like(right, np.nan),) * 3]))
            continue
        low, high = np.quantile(right, [(1 - level) / 2, (1 + level) / 2], axis=0)
        found.append(np.stack([right.mean(0), right.std(0), low, high]))
    return times, np.stack(found, 1)


def _own(modelled: tuple[np.ndarray, np.ndarray], who: int, times: np.ndarray, rows: np.ndarray) -> Course:
    """What a model says of an annotator, at the times of own labels."""
    at, values = modelled
    when = times[rows]
    inside = (at >= when[0]) & (at <= when[-1])
    near = np.searchsorted(when, at[inside])
    return Course(rows[near], *values[:, inside, who])
