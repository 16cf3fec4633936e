"""Plots of a posterior: annotators, confusion matrices, items and chains."""

from __future__ import annotations

from collections.abc import Collection
from math import ceil, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdppl.core import validation
from crowdppl.core.intervals import Estimate, check_level, from_draws, from_point
from crowdppl.core.validation import whole_number
from crowdppl.data.annotations import labels_given
from crowdppl.errors import DataError, MethodError
from crowdppl.inference.result import Fit, NumberTruth, SiteResult
from crowdppl.plots.axes import (
    ACCENT,
    DARK,
    LIGHT,
    MAX_POINTS,
    MIDDLE,
    axes_or_new,
    flat_axes,
    legend_below,
    name_rows,
    short,
    short_names,
)
from crowdppl.results import intervals
from crowdppl.results.annotators import information, informative_part
from crowdppl.results.arviz import coordinates
from crowdppl.results.choices import choose, entropy
from crowdppl.results.rankings import ranking
from crowdppl.results.truths import truth

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_PROBABILITY = 0.999
"""Items that are surer are drawn as if they were not."""
TICKS = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995)
CELLS = 40
"""Cells along each axis; items in one cell share a mark."""
AREA = 12.0
"""Area of the mark of one item in square points; n items have root n times that."""


def plot_item_map(posterior: Fit, *, ax: Axes | None = None) -> Axes:
    """Draws each item by how far its annotators disagree and how sure its label is all the same.

    Above left annotators agree and the label is sure; above right they disagree, and knowing who they are settles
    it; below, more labels or an expert are needed. A cross is an item whose label is not the one that most
    annotators gave. Items at nearly one place share a mark, larger for more. The vertical axis is logarithmic in
    the probability of another class.

    Args:
        posterior: what a fit returned. Items with fewer than two labels are left out; abstentions are no labels.
        ax: axes to draw on; made if absent.

    Raises:
        DataError: when no item has two labels.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.plot_item_map().get_xlabel()
        'disagreement: share of pairs of labels that differ'
    """
    data, p, votes = posterior.data, posterior.result.probabilities, np.asarray(posterior.data.votes())
    several = votes.sum(1) > 1
    if not several.any():
        raise DataError(f"none of {len(votes)} items has two labels, so that nobody disagrees; label some twice")
    code, _ = choose(p, votes, data.items, data.classes)
    overruled = (votes[np.arange(len(p)), code] < votes.max(1))[several]
    x, doubt = disagreement(votes[several]), np.maximum(1 - p.max(1)[several], 1 - MAX_PROBABILITY)
    axes = axes_or_new(ax, 6.4, 5.0)
    _map_axes(axes, float(x.max()) or 1.0, 1 - 1 / p.shape[1])
    circle: dict[str, Any] = {"marker": "o", "facecolor": LIGHT, "edgecolor": DARK, "linewidth": 0.7, "zorder": 2}
    cross: dict[str, Any] = {"marker": "x", "color": ACCENT, "linewidth": 1.5, "zorder": 3}
    kinds = ((~overruled, "most annotators' label", circle), (overruled, "another label", cross))
    for chosen, text, style in kinds:
        at_x, at_y, n = _cells(x[chosen], doubt[chosen], float(x.max()) or 1.0)
        label = f"{text} ({int(chosen.sum()):,})"
        axes.scatter(at_x, at_y, AREA * np.sqrt(n), clip_on=False, label=label, **style)
    for size in (10, 100, 1000, 10_000):
        if size <= len(x) / 3:
            axes.scatter([], [], AREA * size**0.5, label=f"{size:,} items", **circle)
    out = len(several) - int(several.sum())
    left = f", {out:,} with fewer than two labels not shown" if out else ""
    axes.set_title(f"{int(several.sum()):,} items{left}", fontsize="medium")
    legend_below(axes, 3)
    return axes


def disagreement(votes: np.ndarray) -> np.ndarray:
    """Share of pairs of labels of an item that differ: votes (N, K), two a row at least, to (N,)."""
    n = votes.sum(1)
    return np.asarray(1 - (votes * (votes - 1)).sum(1) / (n * (n - 1)))


def _cells(x: np.ndarray, doubt: np.ndarray, width: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points moved to a lattice that is even in x and in the logarithm of the doubt: x, doubt and how many."""
    step = np.array([width, -np.log(1 - MAX_PROBABILITY)]) / CELLS
    cells, n = np.unique(np.round(np.stack([x, np.log(doubt)], 1) / step), axis=0, return_counts=True)
    return cells[:, 0] * step[0], np.exp(cells[:, 1] * step[1]), n


def _map_axes(axes: Axes, most: float, doubt: float) -> None:
    """Disagreement from 0 to the most; upwards the label's probability, from the least possible one."""
    axes.set_yscale("log")
    ticks = [p for p in TICKS if 1 - p <= doubt + 1e-9] + [MAX_PROBABILITY]
    axes.set_yticks([1 - p for p in ticks], [*(f"{p:g}" for p in ticks[:-1]), f"≥ {MAX_PROBABILITY:g}"])
    axes.set_yticks([], minor=True)
    axes.set(ylim=(1.1 * doubt, (1 - MAX_PROBABILITY) / 1.2), xlim=(-0.03 * most, 1.03 * most))
    axes.set(xlabel="disagreement: share of pairs of labels that differ", ylabel="probability of the label")


MAX_WRITTEN = 10
"""Classes up to which the shares are written into a matrix."""
MAX_CLASS_NAMES = 15
"""Classes up to which all are named at the edges; of more, every second, third, ..."""
MAX_PANELS = 25
"""Confusion matrices in one grid; more would be stamps."""
REACH = 0.4
"""Half the width of the scale from 0 to 1 in a cell."""


def plot_confusion(posterior: Fit, annotator: Any = None, *, ax: Any = None, level: float | None = None) -> Any:
    """Draws confusion matrices: rows are the truth, columns the label, darker is more probable.

    Args:
        annotator: one id; a list of ids; None for all, or for those 25 who gave most labels.
        ax: matplotlib axes to draw on, as many as annotators; made if absent.
        level: draws intervals of this probability too: each cell then holds a scale, 0 at its left end and 1 at
            its right, with the interval as a thick line and the mean as a stroke.

    Returns:
        The axes for one annotator, an array of axes for several.

    Raises:
        DataError: for an unknown annotator, or when the axes are too few.
        MethodError: for intervals of an engine that gives points, or a level that is not between 0 and 1.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> ax = posterior.plot_confusion("1")
        >>> ax.get_xlabel(), ax.get_ylabel()
        ('label', 'truth')
    """
    codes = _annotator_codes(posterior, annotator)
    if not len(codes):
        raise DataError("annotator= names none; give an id, a list of ids, or leave it out")
    if level is not None and posterior.result.table_draws is None:
        raise MethodError(
            f"{posterior.inference} found a point without intervals; leave level= out, or fit with vb or gibbs"
        )
    found = None if level is None else intervals.confusion(posterior, level)
    axes = _grid(len(codes), posterior.data.answers) if ax is None else flat_axes(ax)
    if len(axes) < len(codes):
        raise DataError(f"{len(codes)} annotators need as many axes, {len(axes)} were given; name one annotator")
    names = short_names(posterior.data.annotators)
    for panel, code in zip(axes, codes, strict=False):
        _draw_matrix(panel, posterior, int(code), names[code], None if found is None else found.at(code))
        if level is not None:
            panel.set_xlabel(f"{panel.get_xlabel()}\n(thick line: {level:.0%} interval)")
    if ax is None:
        columns = ceil(sqrt(len(codes)))
        for n, panel in enumerate(axes):
            left, bottom = n % columns == 0, n + columns >= len(codes)
            panel.set(ylabel=panel.get_ylabel() if left else "", xlabel=panel.get_xlabel() if bottom else "")
            panel.tick_params(labelleft=left, labelbottom=bottom)
        if annotator is None and len(codes) < posterior.data.n_annotators:
            shown = f"the {len(codes)} of {posterior.data.n_annotators} annotators with most labels"
            axes[0].figure.suptitle(shown, fontsize="medium")
    one = len(codes) == 1 and not isinstance(annotator, list | tuple)
    return axes[0] if one else axes[: len(codes)]


def _annotator_codes(posterior: Fit, wanted: Any) -> np.ndarray:
    """Codes of the named annotators, or of those who gave most labels, in codebook order."""
    known = posterior.data.annotators
    if wanted is None:
        most = np.argsort(-labels_given(posterior.data), kind="stable")
        return np.sort(most[:MAX_PANELS])
    names = list(wanted) if isinstance(wanted, list | tuple) else [wanted]
    codes = posterior.data.annotator_book.codes(names)
    if (codes < 0).any():
        unknown = names[int(np.flatnonzero(codes < 0)[0])]
        raise DataError(f"there is no annotator {unknown!r}; the first are {list(known[:5])!r}")
    return codes


def _grid(n: int, answers: Collection[Any]) -> np.ndarray:
    """Axes for n confusion matrices, with room for the names of classes at the edges."""
    import matplotlib.pyplot as plt  # slow to import

    columns = ceil(sqrt(n))
    rows = -(-n // columns)
    side = 1.4 + 0.35 * min(len(answers), MAX_WRITTEN)
    room = 0.075 * max(len(short(name)) for name in answers)
    named_rows = 1 + (n % columns > 0)  # the row above a last row that is not full has names too
    size = (side * columns + room, side * rows + 0.8 * room * named_rows)
    axes = plt.subplots(rows, columns, squeeze=False, figsize=size, layout="constrained")[1].ravel()
    for spare in axes[n:]:
        spare.remove()
    return np.asarray(axes[:n])


def _draw_matrix(axes: Axes, posterior: Fit, code: int, name: str, interval: Estimate | None) -> None:
    """One confusion matrix under its annotator's name; shares are written in where there is room."""
    data, table = posterior.data, posterior.result.confusions[code]
    axes.imshow(table, cmap="Greys", vmin=0, vmax=1, aspect="auto")
    written = max(table.shape) <= MAX_WRITTEN
    for (row, column), share in np.ndenumerate(table if written else table[:0]):
        text = f"{share:.2f}".removeprefix("0") if share < 0.995 else "1"
        at = (column, row - (0.15 if interval is not None else 0))
        axes.text(*at, text, ha="center", va="center", color=_ink(share), fontsize="small")
    if interval is not None:
        _draw_scales(axes, interval, 0.25 if written else 0.0)
    step, size = -(-max(table.shape) // MAX_CLASS_NAMES), "medium" if written else "small"
    labels = short_names(data.answers)
    slanted: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    turned = slanted if max(map(len, labels)) > (4 if written else 2) else {}
    axes.set_xticks(range(0, len(labels), step), labels[::step], fontsize=size, **turned)
    axes.set_yticks(range(0, data.n_classes, step), labels[: data.n_classes : step], fontsize=size)
    axes.set(xlabel="label" if written else "label (shade: white 0, black probability 1)", ylabel="truth")
    axes.set_title(f"annotator{' ' if len(name) <= MAX_WRITTEN else chr(10)}{name}", fontsize="medium")


def _draw_scales(axes: Axes, interval: Estimate, shift: float) -> None:
    """In each cell a scale from 0 to 1, on it the interval, and the mean as a stroke."""
    row, column = (part.ravel() for part in np.indices(interval.mean.shape))
    ink = [_ink(share) for share in interval.mean.ravel()]
    low, high, mean = (
        column - REACH + 2 * REACH * part.ravel() for part in (interval.low, interval.high, interval.mean)
    )
    axes.hlines(row + shift, column - REACH, column + REACH, color=MIDDLE, linewidth=0.6)
    axes.hlines(row + shift, low, high, color=ink, linewidth=2)
    axes.scatter(mean, row + shift, 50, marker="|", color=ink, linewidth=1.2, zorder=3)


def _ink(share: float) -> str:
    """A colour that shows on a shade."""
    return "white" if share > 0.55 else "black"


def plot_annotators(
    posterior: Fit, *, ax: Axes | None = None, level: float = 0.95, show: str = "information"
) -> Axes:
    """Draws what each annotator's labels are worth, with intervals, the best on top.

    The information of a label is its mutual information with the truth, in bits: 0 for a spammer, and at most
    the entropy of the prevalence (dotted line). An annotator who always names a frequent class is accurate and
    informs of nothing. Where there are draws, the information is averaged over them.

    Args:
        posterior: what a fit returned; without intervals where the engine gives points.
        ax: axes to draw on; made if absent.
        level: probability of the intervals.
        show: "information" or "accuracy", by which annotators are then ordered.

    Raises:
        MethodError: for another ``show``, or a level that is not between 0 and 1.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.plot_annotators().get_xlabel()
        'information of a label (bits), line: 95% interval'
    """
    validation.one_of("show", show, ("information", "accuracy"))
    check_level(level)
    result, accurate = posterior.result, show == "accuracy"
    found = intervals.accuracy(posterior, level) if accurate else _information(posterior, level)
    order = np.argsort(found.mean, kind="stable")
    shown, names = found.at(order), np.array(short_names(posterior.data.annotators))[order]
    axes, drawn, every = _draw_intervals(shown, names.tolist(), ax)
    mark, text = 1 / posterior.data.n_classes, "chance"
    if not accurate:
        mark, text = float(entropy(result.prevalence[None])[0]), "entropy of the truth"
    end = 1.0 if accurate else 1.02 * max(mark, float(np.nanmax(shown.high if drawn else shown.mean)))
    axes.axvline(mark, color=MIDDLE, linestyle=":", linewidth=1)
    axes.set_xlim(0, end)
    above: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "color": "0.35"}
    side = "right" if mark > end / 2 else "center"
    axes.annotate(text, (mark, 1), (0, 3), ha=side, va="bottom", fontsize="small", **above)
    title = "accuracy" if accurate else "information of a label (bits)"
    axes.set_xlabel(f"{title}, line: {level:.0%} interval" if drawn else title)
    best = "most accurate" if accurate else "most informative"
    axes.set_ylabel(f"{'annotator' if every else f'{len(order):,} annotators'},\n{best} on top")
    return axes


def _draw_intervals(shown: Estimate, names: list[str], ax: Axes | None) -> tuple[Axes, bool, bool]:
    """A row an estimate, the last on top; also whether there are intervals, and whether all rows are named."""
    place, few, drawn = np.arange(len(names)), len(names) <= MAX_POINTS, bool(np.isfinite(shown.low).any())
    axes = axes_or_new(ax, 6.4, max(2.6, 1.2 + 0.24 * len(names)) if few else 7.2)
    if drawn:
        axes.hlines(place, shown.low, shown.high, color="0.6", linewidth=1.5 if few else 0.8)
    axes.plot(shown.mean, place, "o", color=ACCENT, markersize=5 if few else 2.5)
    axes.set_ylim(-0.7, len(names) - 0.3)
    return axes, drawn, name_rows(axes, names)


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
    names = short_names(" ".join(map(str, x)) if isinstance(x, tuple) else x for x in table.index)
    axes, drawn, every = _draw_intervals(Estimate(middle, np.full(len(middle), np.nan), low, high), names, ax)
    title = "score (mean log-skill)" if objects else "truth"
    axes.set_xlabel(f"{title}, line: {level:.0%} interval" if drawn else title)
    axes.set_ylabel(what if every else f"{len(names):,} {what}s")
    return axes


def _information(posterior: Fit, level: float) -> Estimate:
    """Mutual information of truth and label in bits, (A,), averaged over draws where there are draws."""
    result = posterior.result
    tables, shares = result.table_draws, result.prevalence_draws
    if tables is None or shares is None:
        return from_point(information(informative_part(posterior, result.table), result.prevalence))
    pairs = zip(np.asarray(informative_part(posterior, tables)), shares, strict=True)
    return from_draws(np.stack([information(table, share) for table, share in pairs]), level)


LEAST_SURE = 5
"""Items that are named in a plot of few items."""


def plot_items(posterior: Fit, *, ax: Axes | None = None, show: str = "entropy") -> Axes:
    """Draws how sure the truth of the items is, from the surest to the least sure.

    Args:
        ax: axes to draw on; made if absent.
        show: "entropy" of the truth in bits, or "probability" of the label.

    Raises:
        MethodError: for another ``show``.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.plot_items().get_ylabel()
        'entropy of the truth (bits)'
    """
    p = posterior.result.probabilities
    validation.one_of("show", show, ("entropy", "probability"))
    unsure = show == "entropy"
    values = entropy(p) if unsure else p.max(1)
    least, most = (0.0, float(np.log2(p.shape[1]))) if unsure else (1 / p.shape[1], 1.0)
    order = np.argsort(values if unsure else -values, kind="stable")
    values, place = values[order], np.arange(1, len(values) + 1)
    axes = axes_or_new(ax)
    axes.fill_between(place, least, values, step="mid", color=LIGHT, linewidth=0)
    axes.step(place, values, where="mid", color=ACCENT, linewidth=1.2)
    if len(values) <= MAX_POINTS:
        axes.plot(place, values, "o", color=ACCENT, markersize=3)
        names = short_names(posterior.data.items[order[-LEAST_SURE:][::-1]])
        at, va = ((0.02, 0.96), "top") if unsure else ((0.02, 0.04), "bottom")
        text = "least sure:\n" + "\n".join(names)
        axes.text(*at, text, transform=axes.transAxes, va=va, fontsize="small")
    axes.set_xlim(0.5, len(values) + 0.5)
    if unsure:  # as far as the least sure item, so that items who are nearly sure can be told apart
        most = float(values[-1]) or most
    axes.set_ylim(least, most + 0.04 * (most - least))
    axes.locator_params(axis="x", integer=True)
    axes.set_xlabel("item, the surest first")
    axes.set_ylabel("entropy of the truth (bits)" if unsure else "probability of the label")
    return axes


MAX_CHAINS = 8
"""Chains up to which a legend names them."""
STYLES = ("-", "--", "-.", ":")
BINS = 20
"""Bins of ranks."""
FILL = 0.85
"""Share of a chain's row that its highest bar fills."""


def plot_trace(posterior: Fit, site: str | None = None, *, ax: Axes | None = None) -> Axes:
    """Draws how the fit went: a line a chain for samplers, the objective for other engines.

    Args:
        site: whose draws to show, by default "prevalence" or else the first site's; of its entries the one
            on which the chains agree least.
        ax: axes to draw on; made if absent.

    Raises:
        MethodError: when the site has no draws, or the fit kept nothing to show.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="em", seed=0)
        >>> posterior.plot_trace().get_ylabel()
        'objective (nats)'
    """
    chosen = _site(posterior, site)
    if chosen is not None:
        return _draw_traces(axes_or_new(ax), chosen, posterior)
    found = posterior.result.diagnostics
    objectives = found.get("objectives")
    if objectives is None or len(objectives) == 0:
        raise MethodError(f"the fit by {posterior.inference} kept neither draws nor objectives to show")
    last = found.get("iterations", len(objectives))  # objectives are those of the last part of a fit
    axes, place = axes_or_new(ax), np.arange(last - len(objectives), last) + 1
    marker = "o" if len(place) <= MAX_POINTS else ""
    axes.plot(place, objectives, color=ACCENT, linewidth=1.2, marker=marker, markersize=3)
    axes.locator_params(axis="x", integer=True)
    axes.set(xlabel="iteration", ylabel="objective (nats)")
    return axes


def _draw_traces(axes: Axes, site: SiteResult, posterior: Fit) -> Axes:
    """Draws in the background, the mean of each chain so far in front."""
    chains, name = least_agreed(site, posterior)
    steps, few = np.arange(1, chains.shape[1] + 1), len(chains) <= MAX_CHAINS
    axes.plot(steps, chains.T, color=LIGHT, linewidth=0.5)
    for chain, values in enumerate(chains):
        style: dict[str, Any] = {"linestyle": STYLES[chain % len(STYLES)], "color": (ACCENT, DARK)[chain // 4 % 2]}
        axes.plot(steps, np.cumsum(values) / steps, linewidth=1.6, label=f"chain {chain + 1}", **style)
    axes.set(xlabel="draw (thick: mean of a chain so far)", ylabel=site.name)
    axes.set_title(name if few else f"{name}, {len(chains)} chains", fontsize="medium", wrap=True)
    if few:
        axes.legend(loc="upper right", fontsize="small", ncols=2)
    return axes


def plot_ranks(posterior: Fit, site: str | None = None, *, ax: Axes | None = None, bins: int = BINS) -> Axes:
    """Draws whether chains drew from the same distribution: then each chain's bars are level, up to noise.

    All draws of all chains are ranked together, and each chain's are counted in bins of rank. A chain that lies
    too high has its bars on the right, one that moves too little has them in the middle. The grey band holds 95 %
    of the bars of chains that agree and whose draws are independent. After Vehtari, Gelman, Simpson, Carpenter &
    Bürkner (2021), "Rank-normalization, folding, and localization: an improved R-hat".

    Args:
        posterior: a fit by gibbs or nuts, of two chains or more.
        site: whose draws to show, by default "prevalence" or else the first site's; of its entries the one
            on which the chains agree least.
        ax: axes to draw on; made if absent.
        bins: of rank.

    Raises:
        MethodError: when there are no draws, a single chain, draws that are all equal, or no such number of bins.

    Examples:
        >>> data = crowdppl.anaesthetists()
        >>> posterior = crowdppl.fit("one_coin", data, inference="gibbs", draws=50, warmup=50, seed=0)
        >>> posterior.plot_ranks("ability").get_xlabel()
        'rank among the 1,600 draws of all chains'
    """
    chosen = _site(posterior, site)
    if chosen is None:
        raise MethodError(f"the fit by {posterior.inference} kept no draws to rank; fit with 'gibbs' or 'nuts'")
    values, name = least_agreed(chosen, posterior)
    n_chains, n_draws = values.shape
    if n_chains < 2:
        raise MethodError("one chain has no other to be ranked with; fit with chains=4")
    if whole_number("bins", bins, 2, "20 are usual") > n_draws:
        raise MethodError(f"bins={bins} must be at most the {n_draws} draws of a chain; 20 are usual")
    if np.ptp(values) == 0:
        raise MethodError(f"all draws of {name} are equal, so that they have no ranks; choose another site")
    axes = axes_or_new(ax, 6.4, max(2.6, 1.2 + 0.45 * n_chains))
    _draw_rank_bars(axes, *rank_counts(values, bins))
    axes.set(xlabel=f"rank among the {values.size:,} draws of all chains", ylabel="chain\n(height: draws)")
    axes.set_title(name, fontsize="medium", wrap=True)
    return axes


def rank_counts(values: np.ndarray, bins: int) -> tuple[np.ndarray, np.ndarray]:
    """Draws (chains, draws) by bin of rank, of each chain (chains, bins), and of all (bins,); ties share theirs."""
    from scipy.stats import rankdata  # slow to import

    ranks = rankdata(values).reshape(values.shape)
    home = np.minimum(((ranks - 0.5) * bins / values.size).astype(np.int64), bins - 1)
    counts = np.stack([np.bincount(row, minlength=bins) for row in home])
    return counts, counts.sum(0)


def _draw_rank_bars(axes: Axes, counts: np.ndarray, sizes: np.ndarray) -> None:
    """A row of bars a chain, chain 1 on top; each with its even height, and the band of noise around it."""
    from scipy.stats import hypergeom  # slow to import

    n_chains, n_draws = counts.shape[0], int(counts[0].sum())
    edges = np.concatenate([[0], np.cumsum(sizes)])
    low, high = hypergeom.interval(0.95, edges[-1], n_draws, sizes)
    scale = FILL / max(counts.max(), np.max(high))
    for row, bars in enumerate(counts[::-1]):
        band: dict[str, Any] = {"baseline": row + scale * low, "fill": True, "color": LIGHT, "linewidth": 0}
        axes.stairs(row + scale * high, edges, zorder=1, **band)
        axes.stairs(row + scale * bars, edges, baseline=row, color=ACCENT, linewidth=1, zorder=3)
        even = row + scale * n_draws * sizes / edges[-1]
        axes.stairs(even, edges, baseline=None, color=MIDDLE, linestyle=":", linewidth=1, zorder=2)
    axes.set_yticks(np.arange(n_chains) + scale * n_draws / len(sizes), [str(n) for n in range(n_chains, 0, -1)])
    axes.set(xlim=(0, edges[-1]), ylim=(0, n_chains))


def _site(posterior: Fit, site: str | None) -> SiteResult | None:
    """The named site, among those with draws; None where no site has any."""
    sites = {s.name: s for s in posterior.result.sites.values() if s.family == "draws"}
    if site is not None and not (isinstance(site, str) and site in sites):
        raise MethodError(f"there are no draws of {site!r}; sites with draws: {', '.join(sites) or 'none'}")
    if not sites:
        return None
    return sites[site or ("prevalence" if "prevalence" in sites else next(iter(sites)))]


def least_agreed(site: SiteResult, posterior: Fit) -> tuple[np.ndarray, str]:
    """Draws (chains, draws) of the entry with the largest variance between chains, relative to within; its name."""
    draws, names = site.arrays["draws"], coordinates(posterior)
    flat = draws.reshape(*draws.shape[:2], -1)
    between, within = flat.mean(1).var(0), flat.var(1).mean(0)
    entry = int(np.argmax(between / np.maximum(within, np.finfo(np.float64).tiny)))
    at = zip(site.dims, np.unravel_index(entry, draws.shape[2:]), strict=True)
    where = [f"{dim} {short(names[dim][int(n)]) if dim in names else n}" for dim, n in at]
    return flat[..., entry], f"{site.name} ({', '.join(where)})" if where else site.name
