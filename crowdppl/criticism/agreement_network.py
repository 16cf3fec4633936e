"""The picture of who agrees with whom more than a fitted model expects, and of the groups that they form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdppl.criticism import collusion
from crowdppl.criticism.discrepancies import FEW
from crowdppl.criticism.excess import excess_of
from crowdppl.doors.counts import seed_number, share_between
from crowdppl.errors import DataError
from crowdppl.pictures.canvas import DARK, MIDDLE, axes_or_new, short_names
from crowdppl.pictures.glyphs import legible
from crowdppl.pictures.lettering import drop_overlapping
from crowdppl.pictures.spring import spring_layout

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation

    from crowdppl.posterior import Posterior

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
    posterior: Posterior, *, ax: Axes | None = None, level: float = 0.05, groups: Any = None, seed: int = 0
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
    excess = excess_of(posterior)
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
