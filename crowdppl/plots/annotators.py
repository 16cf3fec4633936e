"""Plots of annotators: the network of agreement and the plane of gated classifiers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from crowdppl.core.validation import seed_number, share_between, warn
from crowdppl.criticism import collusion
from crowdppl.criticism.checks import FEW
from crowdppl.criticism.collusion import excess_agreement
from crowdppl.criticism.doubts import population
from crowdppl.data.checks import cell_counts
from crowdppl.data.ids import plain
from crowdppl.errors import DataError, DoubtWarning, MethodError
from crowdppl.inference.result import Fit, require_fit
from crowdppl.networks.experts import population_centre, principal_axes
from crowdppl.plots.posterior import DARK, MIDDLE, axes_or_new, drop_overlapping, legible, short, short_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation

STEPS = 300
START = 0.15
"""How far a node may move in the first step; the last step moves nothing."""
SMALL, MORE = 0.2, 0.1
"""Radius of a network of no nodes, and what each adds: a few do not fill the circle."""
PULL = 1.0
"""Towards the middle, so that parts without a link between them do not drift apart for ever."""


def spring_layout(n: int, one: np.ndarray, other: np.ndarray, seed: int = 0) -> np.ndarray:
    """Lays out a network by springs along its links and repulsion between all nodes.

    Fruchterman & Reingold (1991), "Graph drawing by force-directed placement", with a pull towards the middle.
    Holds matrices (n, n).

    Args:
        n: nodes.
        one, other: ends of the links, (P,) codes each.
        seed: of the start.

    Returns:
        (n, 2) places within the unit circle around 0.
    """
    if n < 2:
        return np.zeros((n, 2))
    place = np.random.default_rng(seed).uniform(-1, 1, (n, 2))
    near = np.sqrt(1 / n)
    linked = np.zeros((n, n), bool)
    linked[one, other] = linked[other, one] = True
    for step in range(STEPS):
        apart = place[:, None] - place[None]
        distance = np.maximum(np.sqrt((apart**2).sum(-1)), 1e-3 * near)
        force = near**2 / distance - np.where(linked, distance**2 / near, 0)
        np.fill_diagonal(force, 0)
        push = (apart * (force / distance)[..., None]).sum(1) - PULL * place
        length = np.maximum(np.sqrt((push**2).sum(1, keepdims=True)), 1e-12)
        place = place + push / length * np.minimum(length, START * (1 - (step + 1) / STEPS))
    place = place - (place.max(0) + place.min(0)) / 2
    out: np.ndarray = place * min(1.0, SMALL + MORE * n) / np.sqrt((place**2).sum(1).max())
    return out


NAMED, BRIEF, LONGEST = 30, 8, 16
"""Annotators who are named: all, or of more those with a link; letters of names for all; letters of a name."""
AROUND = 20
"""Annotators up to which longer names find room around a ring, where nobody has a link."""
RING, GAP, DEPTH, EACH = 1.25, 0.1, 0.5, 120
"""Of the rings of annotators without a link: radius of the first, most between two and in all, nodes on one."""
MANY = 300
"""Annotators without a link from which on their nodes are drawn small."""
MARKERS = "os^DvPX<>"
FILLS = ("0.15", "0.65", "white")
"""Greys of groups once the markers are used up."""
LISTED = 8
"""Groups in the legend."""
WIDTH = 0.8, 4.0
"""Of the lines of least and of most agreement, in points."""


def plot_agreement_network(
    posterior: Fit, *, ax: Axes | None = None, level: float = 0.05, groups: Any = None, seed: int = 0
) -> Axes:
    """Draws annotators as nodes, and a line between two who agree more than the fitted model expects of them.

    The lines are the pairs that ``suspicious_annotators`` flags at the same level, wider for more agreement beyond
    what is expected; where annotators err each alone, there is none with probability 1 - level. Annotators in
    groups have a mark and a shade of their own, those without a line stand on a ring around. Only lines have
    a meaning; places are such that few of them cross. Where there is no room for all names, those with most lines
    are named.

    Args:
        posterior: what a fit returned.
        ax: axes to draw on; made if absent.
        level: of the tests of pairs, all together.
        groups: group of each annotator in codebook order, (A,), such as ``find_groups`` returns; below 0, and
            alone in a group, is no group. By default three or more annotators that lines join.
        seed: of the places.

    Raises:
        MethodError: when the level is not between 0 and 1, or the seed is none.
        DataError: when no item has two labels, or the groups are not one whole number for each annotator.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.plot_agreement_network().get_title()
        '5 annotators, 0 of 10 pairs linked'
    """
    level, seed = share_between("level", level, "0.05 is usual"), seed_number(seed)
    names, n = posterior.data.annotators, posterior.data.n_annotators
    excess = excess_agreement(posterior)
    linked = collusion.p_values(excess) <= level
    group = collusion.groups(excess, linked, n) if groups is None else _groups(groups, n)
    one, other = excess.one[linked], excess.other[linked]
    place, inside = node_places(group, one, other, seed)
    axes = axes_or_new(ax, 6.4, 6.8)
    beyond = ((excess.agreed - excess.expected) / excess.shared)[linked]
    _lines(axes, place, one, other, beyond)
    _nodes(axes, place, group, inside)
    named = _named(names, np.bincount(np.concatenate([one, other]), minlength=n))
    written = _write(axes, place, _away(place, one, other), named)
    axes.update_datalim([(-1, -1), (1, 1)])  # two nodes lie on a line, which would leave no width
    axes.set_aspect("equal")
    axes.margins(0.12 if n <= NAMED else 0.05)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    axes.set_title(f"{n:,} annotators, {len(one):,} of {len(excess.one):,} pairs linked", fontsize="medium")
    wider = f"\nwider for more, up to {beyond.max():+.0%} of the items that they share" if len(one) else ""
    axes.set_xlabel(f"line: a pair that agrees more than expected (level {level:g}){wider}")
    if not len(one):
        nothing = "no pair agrees\nmore than expected" if len(excess.one) else f"no pair shares\n{FEW} items"
        axes.text(0, 0, nothing, ha="center", va="center")
    legible(axes)
    drop_overlapping(axes, written)
    return axes


def node_places(group: np.ndarray, one: np.ndarray, other: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Places (n, 2): linked nodes in the unit circle, the others on rings around it; and who is linked, (n,)."""
    n = len(group)
    inside = np.zeros(n, bool)
    inside[one] = inside[other] = True
    code = np.cumsum(inside) - 1
    place = np.empty((n, 2))
    place[inside] = spring_layout(int(inside.sum()), code[one], code[other], seed)
    alone = np.flatnonzero(~inside)
    alone = alone[np.argsort(-group[alone], kind="stable")]  # those of a group side by side
    each = -(-len(alone) // max(1, -(-len(alone) // EACH)))
    ring, seat = np.divmod(np.arange(len(alone)), max(each, 1))
    seats = np.minimum(len(alone) - ring * each, each)
    angle = np.pi / 2 - 2 * np.pi * (seat + 0.5 * (ring % 2)) / seats
    gap = min(GAP, DEPTH / max(1, ring.max(initial=0)))
    radius = (RING if inside.any() else 1) + gap * ring
    place[alone] = np.stack([np.cos(angle), np.sin(angle)], 1) * np.reshape(radius, (-1, 1))
    return place, inside


def _named(names: Iterable[Any], links: np.ndarray) -> dict[int, str]:
    """What is written beside nodes, most links first: all names if they are few, or else those with a link."""
    texts = short_names(names, LONGEST)
    brief = max(map(len, texts)) <= BRIEF
    every = len(texts) <= (NAMED if brief else 0 if links.any() else AROUND)
    most = np.argsort(-links, kind="stable").tolist()
    return {n: texts[n] for n in (most if every else most[:NAMED]) if every or links[n]}


def _groups(groups: Any, n: int) -> np.ndarray:
    """Given groups counted from 0 in their order, -1 for annotators in none."""
    given = np.asarray(groups)
    if given.shape != (n,) or given.dtype.kind not in "iu":
        raise DataError(
            f"groups= has shape {given.shape} and type {given.dtype}; give a whole number for each of {n}"
        )
    values, home, size = np.unique(given, return_inverse=True, return_counts=True)
    real = (values >= 0) & (size > 1)
    out: np.ndarray = np.where(real, np.cumsum(real) - 1, -1)[home]
    return out


def _lines(axes: Axes, place: np.ndarray, one: np.ndarray, other: np.ndarray, beyond: np.ndarray) -> None:
    """A line a pair, widths from the least to the most agreement beyond what is expected."""
    from matplotlib.collections import LineCollection

    least, most = WIDTH
    widths = least + (most - least) * beyond / beyond.max() if len(beyond) else []
    ends = np.stack([place[one], place[other]], 1)
    axes.add_collection(LineCollection(list(ends), linewidths=widths, colors="0.6", zorder=1))


def _nodes(axes: Axes, place: np.ndarray, group: np.ndarray, inside: np.ndarray) -> None:
    """Small rings for annotators in no group; a mark and a shade for each group, the largest named in a legend."""
    size = np.bincount(group[group >= 0])
    for which, width in ((inside, 5), (~inside, 4 if (~inside).sum() < MANY else 2)):
        own = place[(group < 0) & which]
        axes.plot(*own.T, "o", color=MIDDLE, markerfacecolor="white", markersize=width, zorder=3)
    listed = set(np.argsort(-size, kind="stable")[:LISTED].tolist())
    for number in range(len(size)):
        own, fill = place[group == number], FILLS[number // len(MARKERS) % len(FILLS)]
        label = f"group {number} ({size[number]})" if number in listed else None
        marker = MARKERS[number % len(MARKERS)]
        axes.plot(*own.T, marker, color=DARK, markerfacecolor=fill, markersize=7, label=label, zorder=3)
    if len(size):
        more = f"the {LISTED} largest of {len(size)} groups" if len(size) > LISTED else None
        at: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.1)}
        axes.legend(title=more, ncols=4, fontsize="small", title_fontsize="small", frameon=False, **at)


def _write(axes: Axes, place: np.ndarray, away: np.ndarray, names: Mapping[int, str]) -> list[Annotation]:
    """Names beside their nodes, in the direction ``away`` (n, 2) of each, in front of lines."""
    written = []
    ground = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.5}
    for n, name in names.items():
        x, y = away[n]
        side = "left" if x > 0.3 else "right" if x < -0.3 else "center"
        at: dict[str, Any] = {"xytext": (9 * x, 11 * y), "textcoords": "offset points", "zorder": 2}
        written.append(axes.annotate(name, place[n], fontsize="small", ha=side, va="center", bbox=ground, **at))
    return written


def _away(place: np.ndarray, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Unit vectors from the middle of a node's neighbours, or from 0 where it has none, to the node: (n, 2)."""
    ends, starts = np.concatenate([one, other]), np.concatenate([other, one])
    near = np.stack([np.bincount(ends, x[starts], len(place)) for x in place.T], 1)
    out = place - near / np.maximum(np.bincount(ends, minlength=len(place)), 1)[:, None]
    length = np.sqrt((out**2).sum(1, keepdims=True))
    return np.where(length > 0.02, out / np.maximum(length, 0.02), [0.0, 1.0])


CENTRES = {"mode": "*", "mean": "P", "median": "X", "centre": "D"}
"""Marks of what may be taken for the oracle worker."""
MAP_NAMES = 6
"""Annotators whose names are written: those who differ most from the oracle worker."""
AREA = 5.0
"""Area of the mark of an annotator with one label in square points; with n labels it is root n times that."""


def annotator_map(posterior: Fit) -> pd.DataFrame:
    """Where annotators lie in the plane in which their gates differ most, and where the oracle worker does.

    Gates are the weights by which annotators blend the experts of a mixture; the plane is that of their first two
    principal axes, and annotators who are close label alike. Warns when the population has no one centre: when it
    is diffuse, or has several modes (``crowdppl.criticism.doubts.doubts_of``).

    Args:
        posterior: a fit whose story gives each annotator a ``gate``, such as mmlc.

    Returns:
        DataFrame: kind is "annotator", or the centre of the population that the row is ("mode", "mean", "median",
        and "centre" where it is a latent); annotator, the id, or missing; x and y; labels that were given; away,
        the share of the gate in which the row differs from the oracle worker of the fit (total variation).

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
    for doubt in population(posterior):
        warn(str(doubt), DoubtWarning)
    mean, axes, _ = principal_axes(gates)
    every = np.concatenate([gates, *(x[None] for x in centres.values())])
    place, n = (every - mean) @ axes, len(gates)
    chosen = centres[getattr(posterior.model, "oracle", "mode")]
    names: list[Any] = [plain(name) for name in posterior.data.annotators]
    columns = {
        "kind": ["annotator"] * n + list(centres),
        "annotator": pd.Series(names + [None] * len(centres), dtype=object),
        "x": place[:, 0],
        "y": place[:, 1],
        "labels": [*cell_counts(posterior.data.blocks).sum(1), *[0] * len(centres)],
        "away": 0.5 * np.abs(every - chosen).sum(1),
    }
    return pd.DataFrame(columns)


def plot_annotator_map(posterior: Fit, *, ax: Axes | None = None) -> Axes:
    """Draws annotators in the plane in which their gates differ most, and the oracle worker among them.

    A larger mark is an annotator with more labels. The names are those of the annotators who differ most from the
    oracle worker. One cloud with the mode in its middle is a population with a centre; several clouds, or none,
    have no annotator who stands for all.

    Args:
        posterior: a fit whose story gives each annotator a ``gate``, such as mmlc.
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
    area = AREA * np.sqrt(np.maximum(people["labels"], 1))
    style: dict[str, Any] = {"facecolor": "0.8", "edgecolor": DARK, "linewidth": 0.7, "zorder": 2}
    axes.scatter(people["x"], people["y"], area, label=f"annotator ({len(people):,})", **style)
    oracle = getattr(posterior.model, "oracle", "mode")
    for _, row in table[table["kind"] != "annotator"].iterrows():
        mine = row["kind"] == oracle
        text = f"{row['kind']}, the oracle worker" if mine else row["kind"]
        fill = DARK if mine else "white"
        size = 150 if mine else 70
        axes.scatter(
            row["x"],
            row["y"],
            size,
            marker=CENTRES[row["kind"]],
            facecolor=fill,
            edgecolor=DARK,
            label=text,
            zorder=3,
        )
    far = people.nlargest(MAP_NAMES, "away").sort_values("x")
    for n, (_, row) in enumerate(far.iterrows()):  # in turn above and below, for neighbours' names would overlap
        near: dict[str, Any] = {"xytext": (5, -11 if n % 2 else 5), "textcoords": "offset points"}
        axes.annotate(short(row["annotator"]), (row["x"], row["y"]), fontsize="small", **near)
    axes.set_xlabel(f"first axis: {share[0]:.0%} of the spread of gates")
    axes.set_ylabel(f"second axis: {share[1]:.0%} of the spread of gates")
    axes.set_aspect("equal", adjustable="datalim")
    place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.12), "ncols": 2}
    axes.legend(fontsize="small", frameon=False, **place)
    legible(axes)
    return axes


def _gates(posterior: Fit) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Gates (A, M), posterior means, and what may be taken for their centre, (M,) each."""
    sites = posterior.result.sites
    if "gate" not in sites:
        raise MethodError(
            f"{posterior.method} gives annotators no gates, which the map is of; fit a mixture of experts: mmlc"
        )
    gates = np.asarray(sites["gate"].mean)
    bandwidth = getattr(posterior.model, "bandwidth", None)
    kinds = ("mode", "mean", "median")
    centres = {kind: population_centre(torch.from_numpy(gates), kind, bandwidth).numpy() for kind in kinds}
    return gates, centres | ({"centre": np.asarray(sites["centre"].mean)} if "centre" in sites else {})
