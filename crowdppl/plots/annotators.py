"""Plots of annotators: the network of agreement and the plane of gated classifiers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from crowdppl.core.validation import seed_number, share_between, warn
from crowdppl.criticism import collusion
from crowdppl.criticism.collusion import ExcessAgreement, excess_agreement
from crowdppl.criticism.design import MIN_SHARED
from crowdppl.criticism.doubts.fit import own
from crowdppl.criticism.doubts.search import Search
from crowdppl.data.coded import cell_counts
from crowdppl.data.ids import native
from crowdppl.errors import DataError, DoubtWarning, MethodError
from crowdppl.inference.result import Fit, NumberTruth, require_fit
from crowdppl.networks.experts import population_centre, principal_axes
from crowdppl.plots.axes import ACCENT, DARK, LIGHT, MIDDLE, axes_or_new, legend_below, short, short_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_NAMES, LETTERS = 30, 16
"""Annotators who are named: all, or of more those with most links; letters of a name."""
NUMBERED = 6
"""Lines that say by how many labels a pair agrees more than expected."""
MARKERS = "os^DvPX<>"
FILLS = (ACCENT, "0.65", "white")
"""Colours of groups, one after the other once the markers are used up."""
MAX_LISTED = 8
"""Groups in the legend."""
MIN_WIDTH, MAX_WIDTH = 0.8, 4.0
"""Widths of the lines of least and of most agreement, in points."""


def plot_agreement_network(
    posterior: Fit, *, ax: Axes | None = None, level: float = 0.05, groups: Any = None, seed: int = 0
) -> Axes:
    """Draws annotators as nodes, and a line between two who agree more than the fitted model expects of them.

    The lines are the pairs that ``suspicious_annotators`` flags at the same level, wider for more agreement beyond
    what is expected; the widest ones say by how many labels. Annotators in groups have a mark of their own, those
    without a line stand on a ring around. Only lines have a meaning, places have none. Of more than 30 annotators,
    those with most lines are named.

    Args:
        ax: axes to draw on; made if absent.
        level: of the tests of pairs, all together.
        groups: group of each annotator in codebook order, (A,), such as ``find_groups`` returns; below 0, and
            alone in a group, is no group. By default three or more annotators that lines join.
        seed: of the places.

    Raises:
        MethodError: for truths that are no classes, a level that is not between 0 and 1, or a seed that is no whole
            number.
        DataError: when no item has two labels, or the groups are not one whole number for each annotator.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.plot_agreement_network().get_title()
        '5 annotators, 0 of 10 pairs linked'
    """
    level, seed = share_between("level", level, "0.05 is usual"), seed_number(seed)
    if isinstance(posterior.result.truth, NumberTruth):
        raise MethodError(
            f"{posterior.method} has no classes on which two could agree; plot_raters draws who is off and by how "
            "much, and agreement_pairs(data) says who agree"
        )
    n = posterior.data.n_annotators
    excess = excess_agreement(posterior)
    linked = collusion.p_values(excess) <= level
    one, other = excess.one[linked], excess.other[linked]
    group = collusion.groups(one, other, n) if groups is None else _given_groups(groups, n)
    place = node_places(group, one, other, seed)
    links = np.bincount(np.concatenate([one, other]), minlength=n)
    beyond = ((excess.agreed - excess.expected) / excess.shared)[linked]
    axes = axes_or_new(ax, 6.4, 7.4)
    _draw_links(axes, place, one, other, beyond)
    _draw_nodes(axes, place, group)
    away = _away(place, one, other)
    _write_excess(axes, place, excess, linked)
    _write_names(axes, place, away, short_names(posterior.data.annotators, LETTERS), links)
    axes.update_datalim([(-1, -1), (1, 1)])  # two nodes lie on a line, which would leave no width
    axes.set_aspect("equal")
    axes.margins(0.22, 0.12)  # names stand beside nodes
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    axes.set_title(f"{n:,} annotators, {len(one):,} of {len(excess.one):,} pairs linked", fontsize="medium")
    wider = ""
    if len(one):
        wider = f"\nwider for more: {beyond.min():.0%} to {beyond.max():.0%} of the items that they share"
        wider += "\n+: labels in common beyond what is expected"
    axes.set_xlabel(f"line: a pair that agrees more than expected (level {level:g}){wider}")
    if not len(one):
        nothing = "no pair agrees\nmore than expected" if len(excess.one) else f"no pair shares\n{MIN_SHARED} items"
        axes.text(0, 0, nothing, ha="center", va="center")
    return axes


def node_places(group: np.ndarray, one: np.ndarray, other: np.ndarray, seed: int) -> np.ndarray:
    """Places (n, 2): linked nodes within the unit circle, the others on a ring around it, by group."""
    import networkx  # slow to import

    place = np.empty((len(group), 2))
    linked, ends = np.unique(np.concatenate([one, other]), return_inverse=True)
    if len(linked):
        springs = np.full((len(linked), len(linked)), 0.05)  # weak ones keep parts without a link together
        springs[ends[: len(one)], ends[len(one) :]] = springs[ends[len(one) :], ends[: len(one)]] = 1
        np.fill_diagonal(springs, 0)
        start = dict(enumerate(np.random.default_rng(seed).uniform(-1, 1, (len(linked), 2))))
        found = networkx.spring_layout(networkx.from_numpy_array(springs), pos=start, iterations=300, seed=0)
        at = np.array([found[node] for node in range(len(linked))])
        at -= (at.max(0) + at.min(0)) / 2
        size = min(1.0, 0.2 + 0.1 * len(linked))  # a few nodes need no full circle
        place[linked] = size * at / np.sqrt((at**2).sum(1).max())
    alone = np.setdiff1d(np.arange(len(group)), linked)
    alone = alone[np.argsort(-group[alone], kind="stable")]
    angle = np.pi / 2 - 2 * np.pi * np.arange(len(alone)) / max(len(alone), 1)
    place[alone] = (1.5 if len(linked) else 1) * np.stack([np.cos(angle), np.sin(angle)], 1)
    return place


def _given_groups(groups: Any, n: int) -> np.ndarray:
    """Groups counted from 0 in their order, -1 for annotators in none."""
    try:
        given = np.asarray(groups)
    except ValueError as error:
        raise DataError(f"groups= is no array ({error}); give a whole number for each of {n}") from error
    if given.shape != (n,) or given.dtype.kind not in "iu":
        raise DataError(
            f"groups= has shape {given.shape} and type {given.dtype}; give a whole number for each of {n}"
        )
    values, home, size = np.unique(given, return_inverse=True, return_counts=True)
    real = (values >= 0) & (size > 1)
    return np.where(real, np.cumsum(real) - 1, -1)[home]


def _draw_links(axes: Axes, place: np.ndarray, one: np.ndarray, other: np.ndarray, beyond: np.ndarray) -> None:
    """Draws a line for each pair, wider for more agreement beyond what is expected."""
    from matplotlib.collections import LineCollection  # slow to import

    widths = MIN_WIDTH + (MAX_WIDTH - MIN_WIDTH) * beyond / beyond.max() if len(beyond) else []
    ends = np.stack([place[one], place[other]], 1)
    axes.add_collection(LineCollection(list(ends), linewidths=widths, colors="0.6", zorder=1))


def _write_excess(axes: Axes, place: np.ndarray, excess: ExcessAgreement, linked: np.ndarray) -> None:
    """At the lines of the pairs with most labels in common beyond what is expected, how many those are."""
    more = np.where(linked, excess.agreed - excess.expected, 0)
    ground = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.3}
    style: dict[str, Any] = {"fontsize": "x-small", "ha": "center", "va": "center", "bbox": ground, "color": "0.35"}
    for n in np.argsort(-more, kind="stable")[: min(NUMBERED, int(linked.sum()))]:
        x, y = (place[excess.one[n]] + place[excess.other[n]]) / 2
        axes.text(x, y, f"+{more[n]:,.0f}", zorder=2, **style)


def _draw_nodes(axes: Axes, place: np.ndarray, group: np.ndarray) -> None:
    """Small rings for annotators in no group; a mark for each group, the largest named in a legend."""
    lonely, size = place[group < 0], np.bincount(group[group >= 0])
    width = 5 if len(lonely) < 100 else 2
    axes.plot(*lonely.T, "o", color=MIDDLE, markerfacecolor="white", markersize=width, zorder=3)
    listed = set(np.argsort(-size, kind="stable")[:MAX_LISTED].tolist())
    for number in range(len(size)):
        marker, fill = MARKERS[number % len(MARKERS)], FILLS[number // len(MARKERS) % len(FILLS)]
        label = f"group {number} ({size[number]})" if number in listed else None
        own: dict[str, Any] = {"color": DARK, "markerfacecolor": fill, "markersize": 7, "label": label, "zorder": 3}
        axes.plot(*place[group == number].T, marker, **own)
    if len(size):
        more = f"the {MAX_LISTED} largest of {len(size)} groups" if len(size) > MAX_LISTED else None
        legend_below(axes, 4, title=more)


def _away(place: np.ndarray, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Unit vectors from the middle of a node's neighbours, or from 0 where it has none, to the node: (n, 2)."""
    ends, starts = np.concatenate([one, other]), np.concatenate([other, one])
    near = np.stack([np.bincount(ends, x[starts], len(place)) for x in place.T], 1)
    out = place - near / np.maximum(np.bincount(ends, minlength=len(place)), 1)[:, None]
    length = np.hypot(*out.T)[:, None]
    return np.where(length > 0.02, out / np.maximum(length, 0.02), [0.0, 1.0])


def _write_names(axes: Axes, place: np.ndarray, away: np.ndarray, names: list[str], links: np.ndarray) -> None:
    """Names beside their nodes; of many annotators, those with most links."""
    most = np.argsort(-links, kind="stable")[:MAX_NAMES]
    ground = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.5}
    for n in most if len(names) <= MAX_NAMES else most[links[most] > 0]:
        x, y = away[n]
        side = "left" if x > 0.3 else "right" if x < -0.3 else "center"
        at: dict[str, Any] = {"xytext": (9 * x, 11 * y), "textcoords": "offset points", "zorder": 2}
        axes.annotate(names[n], place[n], fontsize="small", ha=side, va="center", bbox=ground, **at)


CENTRES = {"mode": "*", "mean": "P", "median": "X", "centre": "D"}
"""Marks of the centres of the population."""


def annotator_map(posterior: Fit) -> pd.DataFrame:
    """Places of annotators, and of the oracle worker, in the plane in which their gates differ most.

    Gates are the weights by which annotators blend the experts of a mixture; the plane is that of their first two
    principal axes, and annotators who are close label alike. Warns (``DoubtWarning``) when the population has no
    one centre: when it is diffuse, or has several modes.

    Args:
        posterior: a fit whose model gives each annotator a ``gate``, such as mmlc.

    Returns:
        DataFrame, a row an annotator or a centre of the population:

        - ``kind``: "annotator", or which centre ("mode", "mean", "median", and "centre" where it is a latent)
        - ``annotator``: the id; missing of a centre
        - ``x``, ``y``: place in the plane
        - ``labels``: labels given
        - ``away``: share of the gate in which the row differs from the oracle worker (total variation)

    Raises:
        MethodError: when annotators have no gates.

    Examples:
        >>> truth, size = ["cat", "dog"] * 20, [[0.0], [1.0]] * 20
        >>> crowd = crowdppl.simulate_annotators(truth, {"expert": 4, "spammer": 2}, features=size)
        >>> posterior = crowdppl.fit("mmlc", crowd.data, inference="svi", seed=0)
        >>> crowdppl.annotator_map(posterior)["kind"].value_counts().to_dict()
        {'annotator': 6, 'mode': 1, 'mean': 1, 'median': 1}
    """
    gates, centres = _gates(require_fit(posterior))
    for doubt in own(Search(posterior)):
        warn(str(doubt), DoubtWarning)
    mean, axes, _ = principal_axes(gates)
    every = np.concatenate([gates, *(x[None] for x in centres.values())])
    place, n = (every - mean) @ axes, len(gates)
    chosen = centres[getattr(posterior.model, "oracle", "mode")]
    names: list[Any] = [native(name) for name in posterior.data.annotators]
    columns = {
        "kind": ["annotator"] * n + list(centres),
        "annotator": pd.Series(names + [None] * len(centres), dtype=object),
        "x": place[:, 0],
        "y": place[:, 1],
        "labels": [*cell_counts(posterior.data.blocks).sum(1), *[0] * len(centres)],
        "away": 0.5 * np.abs(every - chosen).sum(1),
    }
    return pd.DataFrame(columns)


def _gates(posterior: Fit) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Gates (A, M), posterior means, and the centres of their population, (M,) each."""
    sites = posterior.result.sites
    if "gate" not in sites:
        raise MethodError(
            f"{posterior.method} gives annotators no gates, which the map shows; fit a mixture of experts: mmlc"
        )
    gates = np.asarray(sites["gate"].mean)
    bandwidth = getattr(posterior.model, "bandwidth", None)
    kinds = ("mode", "mean", "median")
    centres = {kind: population_centre(torch.from_numpy(gates), kind, bandwidth).numpy() for kind in kinds}
    return gates, centres | ({"centre": np.asarray(sites["centre"].mean)} if "centre" in sites else {})


def plot_annotator_map(posterior: Fit, *, ax: Axes | None = None) -> Axes:
    """Draws annotators in the plane in which their gates differ most, and the oracle worker among them.

    A larger mark is an annotator with more labels. The names are those of the annotators who differ most from the
    oracle worker. One cloud with the mode in its middle is a population with a centre; several clouds, or none,
    have no annotator who stands for all.

    Args:
        posterior: a fit whose model gives each annotator a ``gate``, such as mmlc.
        ax: axes to draw on; made if absent.

    Raises:
        MethodError: when annotators have no gates.

    Examples:
        >>> truth, size = ["cat", "dog"] * 20, [[0.0], [1.0]] * 20
        >>> crowd = crowdppl.simulate_annotators(truth, {"expert": 4, "spammer": 2}, features=size)
        >>> posterior = crowdppl.fit("mmlc", crowd.data, inference="svi", seed=0)
        >>> crowdppl.plot_annotator_map(posterior).get_aspect()
        1.0
    """
    table = annotator_map(posterior)
    share = principal_axes(_gates(posterior)[0])[2]
    axes = axes_or_new(ax, 6.0, 5.2)
    people = table[table["kind"] == "annotator"].sort_values("labels", ascending=False, kind="stable")
    area = 5 * np.sqrt(np.maximum(people["labels"], 1))  # square points
    style: dict[str, Any] = {"facecolor": LIGHT, "edgecolor": DARK, "linewidth": 0.7, "zorder": 2}
    axes.scatter(people["x"], people["y"], area, label=f"annotator ({len(people):,})", **style)
    for kind, x, y in table.loc[table["kind"] != "annotator", ["kind", "x", "y"]].to_numpy():
        oracle = kind == getattr(posterior.model, "oracle", "mode")
        mark: dict[str, Any] = {"facecolor": ACCENT if oracle else "white", "edgecolor": DARK, "zorder": 3}
        mark["label"] = f"{kind}, the oracle worker" if oracle else kind
        axes.scatter(x, y, 150 if oracle else 70, marker=CENTRES[kind], **mark)
    far = people.nlargest(6, "away").sort_values("x")
    for n, (name, x, y) in enumerate(far[["annotator", "x", "y"]].to_numpy()):  # in turn above and below
        near: dict[str, Any] = {"xytext": (5, -11 if n % 2 else 5), "textcoords": "offset points"}
        axes.annotate(short(name), (x, y), fontsize="small", **near)
    axes.set_xlabel(f"first axis: {share[0]:.0%} of the spread of gates")
    axes.set_ylabel(f"second axis: {share[1]:.0%} of the spread of gates")
    axes.set_aspect("equal", adjustable="datalim")
    legend_below(axes, 2)
    return axes
