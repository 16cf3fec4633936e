"""Pictures of a posterior, in greys that survive a printer. Each returns the axes that it drew on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdppl.choices import entropy
from crowdppl.errors import DataError, MethodError
from crowdppl.inference.results import SiteResult
from crowdppl.panels import draw_matrix, grid, name_outer_only

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from crowdppl.posterior import Posterior

MOST_PANELS = 25
"""Confusion matrices in one grid; more would be stamps."""
MOST_ROWS = 60
"""Annotators or points that are shown one by one."""
NAMED = 5
"""Least sure items that are named in a picture of few items."""
NAMED_CHAINS = 8
"""Chains that a legend tells apart; of more, only their number is said."""
LIGHT, DARK = "0.8", "0.15"
STYLES = ("-", "--", "-.", ":")


def plot_confusion(posterior: Posterior, annotator: Any = None, *, ax: Any = None) -> Any:
    """Draws confusion matrices: rows are the truth, columns the label, darker is more probable.

    Args:
        posterior: what a fit returned.
        annotator: one id; a list of ids; None for all, or for those 25 who gave most labels.
        ax: matplotlib axes to draw on, as many as annotators; made if absent.

    Returns:
        The axes for one annotator, an array of axes for several.

    Raises:
        DataError: for an unknown annotator, or when the axes are too few.
    """
    codes = _annotators(posterior, annotator)
    one = len(codes) == 1 and not isinstance(annotator, list | tuple)
    axes = grid(len(codes), posterior.data.n_classes) if ax is None else np.atleast_1d(ax).ravel()
    if len(axes) < len(codes):
        raise DataError(f"{len(codes)} annotators need as many axes, {len(axes)} were given; name one annotator")
    for panel, code in zip(axes, codes, strict=False):
        draw_matrix(panel, posterior, int(code))
    if ax is None:
        name_outer_only(axes)
    return axes[0] if one else axes[: len(codes)]


def plot_annotators(posterior: Posterior, *, ax: Axes | None = None, level: float = 0.95) -> Axes:
    """Draws the accuracy of each annotator with its interval, the best on top.

    Args:
        posterior: what a fit returned; without intervals where the engine gives points.
        ax: axes to draw on.
        level: probability of the intervals.
    """
    table = posterior.annotators(level).sort_values("accuracy", kind="stable")
    shown = len(table) <= MOST_ROWS
    axes = _own(ax, 6.4, 1.2 + (0.24 * len(table) if shown else 6.0))
    place = np.arange(len(table))
    if table["accuracy_low"].notna().any():
        axes.hlines(place, table["accuracy_low"], table["accuracy_high"], color="0.6", linewidth=1.5)
    axes.plot(table["accuracy"], place, "o", color=DARK, markersize=4 if shown else 2)
    chance = 1 / posterior.data.n_classes
    axes.axvline(chance, color="0.4", linestyle=":", linewidth=1)
    axes.annotate(
        "chance",
        (chance, 1),
        (2, -2),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        va="top",
        fontsize="small",
        color="0.35",
    )
    if shown:
        axes.set_yticks(place, [str(name) for name in table.index])
        axes.set_ylabel("annotator")
    else:
        axes.set_yticks([])
        axes.set_ylabel(f"{len(table)} annotators, most accurate on top")
    axes.set_ylim(-0.7, len(table) - 0.3)
    axes.set_xlim(0, 1)
    axes.set_xlabel(f"accuracy (line: {level:.0%} interval)" if table["accuracy_low"].notna().any() else "accuracy")
    return axes


def plot_items(posterior: Posterior, *, ax: Axes | None = None, show: str = "entropy") -> Axes:
    """Draws how sure the truth of the items is, from the surest to the least sure.

    Args:
        posterior: what a fit returned.
        ax: axes to draw on.
        show: "entropy" of the truth in bits, or "probability" of the label.

    Raises:
        MethodError: when something else is to be shown.
    """
    p = posterior.result.probabilities
    if show not in ("entropy", "probability"):
        raise MethodError(f"show={show!r} is neither 'entropy' nor 'probability'")
    if show == "entropy":
        values, most, title = entropy(p), float(np.log2(p.shape[1])), "entropy of the truth (bits)"
    else:
        values, most, title = p.max(1), 1.0, "probability of the label"
    order = np.argsort(values if show == "entropy" else -values, kind="stable")
    values = values[order]
    axes = _own(ax)
    place = np.arange(1, len(values) + 1)
    bottom = 0.0 if show == "entropy" else 1 / p.shape[1]
    axes.fill_between(place, bottom, values, step="mid", color=LIGHT, linewidth=0)
    axes.step(place, values, where="mid", color=DARK, linewidth=1.2)
    if len(values) <= MOST_ROWS:
        axes.plot(place, values, "o", color=DARK, markersize=3)
        for n in range(len(values) - min(NAMED, len(values)), len(values)):
            name = str(posterior.data.items[int(order[n])])
            axes.annotate(
                name, (place[n], values[n]), (-3, 3), textcoords="offset points", ha="right", fontsize="small"
            )
    axes.set_xlim(0.5, len(values) + 0.5)
    axes.set_ylim(bottom, most + 0.04 * (most - bottom))
    axes.set_xlabel("item, the surest first")
    axes.set_ylabel(title)
    return axes


def plot_trace(posterior: Posterior, site: str | None = None, *, ax: Axes | None = None) -> Axes:
    """Draws how the fit went: a line a chain for samplers, the objective for other engines.

    Args:
        posterior: what a fit returned.
        site: whose draws to show, by default "prevalence" or else the first site's; of its entries the one
            on which the chains agree least.
        ax: axes to draw on.

    Raises:
        MethodError: when the site has no draws, or the fit kept nothing to show.
    """
    sites = {s.name: s for s in posterior.result.sites.values() if s.family == "draws"}
    if site is not None and site not in sites:
        raise MethodError(f"there are no draws of {site!r}; sites with draws: {', '.join(sites) or 'none'}")
    if sites:
        chosen = sites[site or ("prevalence" if "prevalence" in sites else next(iter(sites)))]
        return _chains(_own(ax), chosen, _names(posterior))
    objectives = posterior.result.diagnostics.get("objectives")
    if objectives is None or len(objectives) == 0:
        raise MethodError(f"the fit by {posterior.inference} kept neither draws nor objectives to show")
    axes, place = _own(ax), np.arange(1, len(objectives) + 1)
    marker = "o" if len(place) <= MOST_ROWS else ""
    axes.plot(place, objectives, color=DARK, linewidth=1.2, marker=marker, markersize=3)
    axes.set_xlabel("iteration")
    axes.set_ylabel("objective")
    return axes


def _annotators(posterior: Posterior, wanted: Any) -> np.ndarray:
    """Codes of the annotators asked for, or of those who gave most labels, in codebook order."""
    known = posterior.data.annotators
    if wanted is None:
        most = np.argsort(-posterior.annotators()["labels"].to_numpy(), kind="stable")
        return np.sort(most[:MOST_PANELS])
    asked = list(wanted) if isinstance(wanted, list | tuple) else [wanted]
    codes = posterior.data.annotator_book.codes(asked)
    if (codes < 0).any():
        unknown = asked[int(np.flatnonzero(codes < 0)[0])]
        raise DataError(f"there is no annotator {unknown!r}; the first are {list(known[:5])!r}")
    return codes


def _chains(axes: Axes, site: SiteResult, names: Mapping[str, Sequence[Any]]) -> Axes:
    """Draws of the entry on which chains agree least: largest variance between them, relative to within."""
    draws = site.arrays["draws"]
    flat = draws.reshape(*draws.shape[:2], -1)
    between, within = flat.mean(1).var(0), flat.var(1).mean(0)
    entry = int(np.argmax(between / np.maximum(within, np.finfo(np.float64).tiny)))
    steps = np.arange(1, draws.shape[1] + 1)
    axes.plot(steps, flat[..., entry].T, color=LIGHT, linewidth=0.5)
    for chain, values in enumerate(flat[..., entry]):
        shade = str(round(0.5 * chain / max(1, len(flat) - 1), 2))
        style = STYLES[chain % len(STYLES)]
        mean = np.cumsum(values) / steps
        axes.plot(steps, mean, style, color=shade, linewidth=1.6, label=f"chain {chain + 1}")
    at = np.unravel_index(entry, draws.shape[2:])
    places = zip(site.dims, at, strict=True)
    where = ", ".join(f"{dim} {names[dim][int(n)] if dim in names else n}" for dim, n in places)
    axes.set_xlabel("draw (thick: mean of a chain so far)")
    axes.set_ylabel(f"{site.name}\n({where})" if where else site.name)
    if len(draws) <= NAMED_CHAINS:
        axes.legend(loc="upper right", fontsize="small", ncols=2)
    else:
        axes.set_title(f"{len(draws)} chains", fontsize="medium")
    return axes


def _names(posterior: Posterior) -> dict[str, Sequence[Any]]:
    """What places along known dimensions are called."""
    data = posterior.data
    classes, answers = list(data.classes), list(data.answers)
    known = {"class": classes, "truth": classes, "label": answers, "answer": answers}
    return {"item": list(data.items), "annotator": list(data.annotators), **known}


def _own(ax: Axes | None, width: float = 6.4, height: float = 3.6) -> Axes:
    """The given axes, or new ones."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt  # slow to import

    return plt.subplots(figsize=(width, height), layout="constrained")[1]
