"""Pictures of the labels themselves: who gave which, what the posterior makes of them, and how many are enough."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl.core.validation import seed_number
from crowdppl.data.annotations import labels_given
from crowdppl.data.kinds.sequences import units_of
from crowdppl.data.kinds.space import GRADES
from crowdppl.errors import CrowdpplWarning, MethodError
from crowdppl.evaluation.evaluate import matched
from crowdppl.inference.result import Fit, NumberTruth
from crowdppl.plots.axes import (
    ACCENT,
    COLOURS,
    DARK,
    LIGHT,
    MIDDLE,
    answer_names,
    axes_or_new,
    ink,
    legend_below,
    short_names,
)
from crowdppl.plots.items import LIKELY, SETTLED, SHADES, apart_from_truth, half_widths
from crowdppl.results.annotators import annotators
from crowdppl.results.choices import choose
from crowdppl.results.updating import predict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_ITEMS, MAX_ANNOTATORS = 1_000, 100
"""Rows and columns of the matrix of labels."""
MAX_COUNTED = 12
"""Classes up to which counts are written into cells."""
MOST = 10
"""Labels an item up to which certainty is drawn."""


def plot_labels(posterior: Fit, *, ax: Axes | None = None) -> Axes:
    """Draws the matrix of labels: a row an item, a column an annotator, and the posterior's truth as first column.

    Items stand in the order of their truths, the surest of each class first, annotators by accuracy where it is
    known, else by their numbers of labels. Of more than 1,000 items, as many are drawn at even distances; of more
    than 100 annotators, those with most labels. White is no label. Of several labels of an annotator for an item,
    the last is drawn.

    Args:
        ax: axes to draw on; made if absent.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.plot_labels().get_title()
        '45 of 45 items, 5 of 5 annotators'
    """
    data, numbers = posterior.data, isinstance(posterior.result.truth, NumberTruth)
    block = data.as_block()
    values = block.answer if block.numbers is None else block.numbers
    code, who, value = data.order[np.asarray(block.item)], np.asarray(block.annotator), np.asarray(values, float)
    if numbers:
        truth = posterior.result.truth.mean  # type: ignore[union-attr]
        order = np.argsort(truth, kind="stable")
    else:
        p = posterior.result.probabilities
        truth = choose(p, np.asarray(data.votes()), data.items, data.classes)[0]
        order = np.lexsort((-p.max(1), truth))
    rows = order[np.unique(np.linspace(0, len(order) - 1, min(MAX_ITEMS, len(order))).round().astype(int))]
    given = labels_given(data)
    columns = np.argsort(-given, kind="stable")[:MAX_ANNOTATORS]
    table = annotators(posterior)
    if "accuracy" in table and table["accuracy"].notna().all():
        columns = columns[np.argsort(-table["accuracy"].to_numpy()[columns], kind="stable")]
    row, column = np.full(data.n_items, -1), np.full(data.n_annotators, -1)
    row[rows], column[columns] = np.arange(len(rows)), np.arange(len(columns))
    here = (row[code] >= 0) & (column[who] >= 0)
    matrix = np.full((len(rows), len(columns) + 1), np.nan)
    matrix[row[code[here]], 1 + column[who[here]]] = value[here]
    same_scale = not numbers or block.numbers is not None  # a place on a scale is no grade
    matrix[:, 0] = truth[rows] if same_scale else np.nan
    return _draw_labels(posterior, matrix, rows, columns, ax)


def _draw_labels(
    posterior: Fit, matrix: np.ndarray, rows: np.ndarray, columns: np.ndarray, ax: Axes | None
) -> Axes:
    """The matrix, with a gap behind its first column, names where there is room, and what colours mean."""
    data, (n, m) = posterior.data, matrix.shape
    axes = axes_or_new(ax, float(np.clip(2.6 + 0.22 * m, 4.5, 12)), float(np.clip(1.6 + 0.16 * n, 3.5, 9)))
    wide = np.insert(matrix, 1, np.nan, axis=1)
    if data.n_classes and data.n_answers <= len(COLOURS):
        _draw_classes(axes, posterior, wide)
    else:
        image = axes.imshow(wide, aspect="auto", interpolation="nearest", cmap="viridis")
        unit = data.alphabet.kind.unit
        axes.figure.colorbar(image, ax=axes, label=f"label{f' in {unit}' if unit else ''}")
    names = short_names(data.annotators[columns], 12)
    few = m <= 50
    shown: dict[str, Any] = {"rotation": 90, "fontsize": "small"}
    axes.set_xticks([0, *range(2, m + 1)] if few else [0], ["truth", *names] if few else ["truth"], **shown)
    room = 72 * axes.get_window_extent().height / axes.figure.dpi >= 9 * n
    axes.set_yticks(range(n) if room else [], short_names(data.items[rows]) if room else [], fontsize="small")
    axes.set_title(
        f"{n:,} of {data.n_items:,} items, {m - 1:,} of {data.n_annotators:,} annotators", fontsize="medium"
    )
    accurate = "accuracy" in annotators(posterior) and data.n_classes
    axes.set_xlabel(f"annotator, the {'most accurate' if accurate else 'one with most labels'} first")
    axes.set_ylabel("item, by its truth")
    return axes


def _draw_classes(axes: Axes, posterior: Fit, wide: np.ndarray) -> None:
    """A colour for each answer: shades where classes have an order or are two, else colours that are told apart."""
    import matplotlib as mpl  # slow to import
    from matplotlib.patches import Patch

    data = posterior.data
    ordered = data.alphabet.kind.space == GRADES
    shades = mpl.colormaps["viridis"](np.linspace(0, 1, data.n_answers)) if ordered else COLOURS
    colours = [LIGHT, ACCENT] if data.n_answers == 2 else list(shades[: data.n_answers])
    colour_map = mpl.colors.ListedColormap(colours)
    axes.imshow(wide, aspect="auto", interpolation="nearest", cmap=colour_map, vmin=-0.5, vmax=data.n_answers - 0.5)
    names = answer_names(data)
    patches = [Patch(facecolor=colour, label=name) for colour, name in zip(colours, names, strict=True)]
    axes.legend(handles=patches, loc="upper left", bbox_to_anchor=(1, 1), frameon=False, fontsize="small")


def plot_votes(
    posterior: Fit, gold: Mapping[Any, Any] | pd.Series | None = None, *, ax: Axes | None = None
) -> Axes:
    """Draws what the posterior makes of the votes: how many labels it keeps, decides and overrules.

    A row is the class that most annotators named, the last row items on which classes tie; a column is the label of
    the posterior. With known truths, cells also say how many of its labels are right. Where truths are numbers, it
    is the mean of an item's labels against the estimate.

    Args:
        gold: the true class of items by their ids.
        ax: axes to draw on; made if absent.

    Raises:
        DataError, MethodError: as ``crowdppl.evaluate``; MethodError for places on a scale and ranks, which are no
            means of labels.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.plot_votes().get_title()
        '45 items: most annotators overruled in 0, ties decided in 1'
    """
    if isinstance(posterior.result.truth, NumberTruth):
        return _against_means(posterior, ax)
    data, votes = posterior.data, np.asarray(posterior.data.votes())[:, : posterior.data.n_classes]
    label = choose(posterior.result.probabilities, np.asarray(data.votes()), data.items, data.classes)[0]
    ties = (votes == votes.max(1, keepdims=True)).sum(1) > 1
    voted, k = np.where(ties, data.n_classes, votes.argmax(1)), data.n_classes
    counts = np.bincount(voted * k + label, minlength=(k + 1) * k).reshape(k + 1, k)
    right, known = None, 0
    overruled = int((~ties & (voted != label)).sum())
    title = f"{len(label):,} items: most annotators overruled in {overruled:,}, ties decided in {int(ties.sum()):,}"
    if gold is not None:
        _, truth, row, _ = matched(posterior, gold)
        hit = label[row] == truth
        right = np.bincount((voted * k + label)[row][hit], minlength=(k + 1) * k).reshape(k + 1, k)
        changed = ~ties[row] & (voted[row] != label[row])
        known = int(changed.sum())
        theirs = int((voted[row] == truth)[changed].sum())
        ours = int(hit[changed].sum())
        title += f"\nof {known:,} overruled with known truth, {ours:,} right; most annotators {theirs:,}"
    axes = axes_or_new(ax, max(6.0, 2.2 + 0.75 * min(k, 10)), 1.8 + 0.5 * min(k + 1, 11))
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    axes.imshow(shares, cmap="Greys", vmin=0, vmax=1, aspect="auto")
    for (i, j), n in np.ndenumerate(counts if k <= MAX_COUNTED else counts[:0]):
        text = f"{n:,}" + (f"\n{right[i, j]:,} right" if right is not None and n else "")
        axes.text(j, i, text, ha="center", va="center", color=ink(shares[i, j]), fontsize="small")
    names, step = answer_names(data)[:k], -(-k // 15)
    slanted: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(range(0, k, step), names[::step], **(slanted if max(map(len, names)) > 4 else {}))
    axes.set_yticks([*range(0, k, step), k], [*names[::step], "tie"])
    axes.axhline(k - 0.5, color=DARK, linewidth=0.8)
    axes.set(xlabel="label of the posterior", ylabel="what most annotators said")
    axes.set_title(title, fontsize="medium")
    return axes


def _against_means(posterior: Fit, ax: Axes | None) -> Axes:
    """Estimates against the mean of an item's labels."""
    block, data = posterior.data.as_block(), posterior.data
    parts = data.alphabet.kind.parts
    if block.numbers is None or (parts is not None and parts.ranks):
        raise MethodError(f"{posterior.method} estimates no mean of labels; plot_estimates draws what it does")
    code, apart = apart_from_truth(posterior)
    times = np.bincount(code, minlength=data.n_items)
    estimate = posterior.result.truth.mean  # type: ignore[union-attr]
    mean = estimate + np.bincount(code, apart, data.n_items) / np.maximum(times, 1)
    axes = axes_or_new(ax, 5.4, 5.2)
    ends = [min(mean.min(), estimate.min()), max(mean.max(), estimate.max())]
    axes.plot(ends, ends, ":", color=MIDDLE, linewidth=1.2)
    axes.plot(mean, estimate, "o", color=ACCENT, markersize=4, alpha=0.6)
    moved = np.abs(estimate - mean)
    names = short_names(data.items)
    for n in np.argsort(-moved, kind="stable")[:5]:
        axes.annotate(names[n], (mean[n], estimate[n]), (5, 3), textcoords="offset points", fontsize="small")
    axes.set(xlabel="mean of an item's labels", ylabel="estimate")
    axes.set_title(f"{data.n_items:,} items, moved by {moved.mean():.3g} on average", fontsize="medium")
    return axes


def plot_certainty(posterior: Fit, *, seed: int = 0, ax: Axes | None = None) -> Axes:
    """Draws how sure the truth is after 1, 2, 3 ... labels an item: what fewer labels would have told.

    Labels of each item are taken in random order, and truths found from the first of them, by what the fit knows of
    annotators; an item with fewer labels keeps all that it has. Shades are the shares of items that are settled
    (95 % sure or more), likely and open (less than 70 %). Where truths are numbers, the mean half-width of their
    95 % intervals is drawn instead.

    Args:
        seed: of the order.
        ax: axes to draw on; made if absent.

    Raises:
        MethodError: as ``predict``, and for a seed that is no whole number.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.plot_certainty().get_xlabel()
        'labels an item (at most)'
    """
    seed = seed_number(seed)
    frame, turn = _turns(posterior, seed)
    most = min(int(np.quantile(turn, 0.95)) + 1, MOST)  # beyond, few items have more
    numbers = isinstance(posterior.result.truth, NumberTruth)
    sure = []
    for n in range(1, most + 1):
        with warnings.catch_warnings(action="ignore", category=CrowdpplWarning):  # of labels that the fit knows
            found = predict(posterior, frame[turn < n])
        if numbers:
            sure.append([float(np.nanmean(half_widths(found, posterior.data)))])
        else:
            p = found.to_numpy(float).max(1)
            sure.append([float((p >= SETTLED).mean()), float((p >= LIKELY).mean())])
    drawn, place = np.array(sure), np.arange(1, most + 1)
    axes = axes_or_new(ax, 6.0, 4.2)
    axes.locator_params(axis="x", integer=True)
    axes.set(xlim=(1 - 0.04 * most, 1.04 * most), xlabel="labels an item (at most)")
    if numbers:
        axes.plot(place, drawn[:, 0], "o-", color=ACCENT)
        axes.set(ylim=(0, 1.1 * drawn.max()), ylabel="95% interval: ± this much")
        return axes
    settled, likely = drawn.T
    edges = [np.zeros(most), settled, likely, np.ones(most)]
    for low, high, (name, shade) in zip(edges, edges[1:], SHADES.items(), strict=False):
        axes.fill_between(place, low, high, color=shade, linewidth=0, label=name)
    for n in range(most):
        high = settled[n] > 0.9  # no room above
        style: dict[str, Any] = {"va": "top" if high else "bottom", "color": "white" if high else "black"}
        above = (0, -3 if high else 3)
        axes.annotate(
            f"{settled[n]:.0%}", (n + 1, settled[n]), above, textcoords="offset points", ha="center", **style
        )
    axes.set(ylim=(0, 1), ylabel="share of items")
    legend_below(axes, 3)
    return axes


def _turns(posterior: Fit, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """The labels, and for each how many of its item's annotators come before, in a random order, (S,)."""
    data = posterior.data
    code, who, _ = data.label_codes()
    units = units_of(data.item_covariates) if data.item_covariates is not None else None
    unit = code if units is None else units[code, 0]
    asked = pd.factorize(unit.astype(np.int64) * data.n_annotators + who)[0]
    chance = np.random.default_rng(seed).random(asked.max() + 1)
    first = pd.DataFrame({"unit": unit, "asked": asked}).drop_duplicates()
    rank = chance[first["asked"]].argsort(kind="stable")
    turn = np.empty(len(first), np.int64)
    turn[first["asked"].to_numpy()[rank]] = first.iloc[rank].groupby("unit").cumcount().to_numpy()
    return data.frame(), turn[asked]
