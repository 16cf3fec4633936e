"""Plots of a posterior: annotators, confusion tables, items and chains."""

from __future__ import annotations

import re
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdppl.core import validation
from crowdppl.core.intervals import Estimate, check_level, from_draws, from_point
from crowdppl.core.validation import kind_of, warn, whole_number
from crowdppl.data.annotations import labels_given
from crowdppl.errors import CrowdpplWarning, DataError, MethodError
from crowdppl.inference.result import Fit, SiteResult
from crowdppl.results import intervals
from crowdppl.results.choices import choose, entropy
from crowdppl.results.tables import information, informative_part

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation, Text

LIGHT, MIDDLE, DARK = "0.8", "0.5", "0.15"
"""Greys that stay apart on paper."""
MOST_ROWS = 60
"""Annotators or points that are shown one by one."""
LONGEST = 24
"""Characters of a name that are written."""
ROUNDS = 10
"""How often names that are written alike are told apart; beyond, many are alike in nearly all that they hold."""


def axes_or_new(ax: Axes | None, width: float = 6.4, height: float = 3.6) -> Axes:
    """The given axes, or new ones of a size in inches.

    Raises:
        MethodError: for what is no axes, a figure say.
    """
    if ax is not None:
        axes: Axes = axes_of(ax)[0]
        return axes
    import matplotlib.pyplot as plt  # slow to import

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def axes_of(given: Any) -> np.ndarray:
    """Axes, or an array or list of them, as a flat array.

    Raises:
        MethodError: for what is no axes.
    """
    flat = np.atleast_1d(given).ravel()
    for one in flat:
        if not hasattr(one, "get_xlabel"):
            raise MethodError(f"ax= holds {kind_of(one)}; give matplotlib axes, or leave ax= out")
    return flat


def short(name: Any, most: int = LONGEST) -> str:
    """A name as it is written into a picture: of a long one both ends, for ids often differ at the last letters."""
    text = str(name)
    if len(text) <= most:
        return text
    tail = most // 2 - 1
    return f"{text[: most - 1 - tail]}…{text[-tail:]}"


def short_names(names: Iterable[Any], most: int = LONGEST) -> list[str]:
    """Names as ``short`` writes them; where that would write several alike, of these the part where they differ."""
    texts = [str(name) for name in names]
    written = {text: short(text, most) for text in texts}
    for _ in range(ROUNDS):  # in each, names that are written alike fall apart into two groups at least
        alike: defaultdict[str, list[str]] = defaultdict(list)
        for text, brief in written.items():
            alike[brief].append(text)
        several = [some for some in alike.values() if len(some) > 1]
        if not several:
            break
        for some in several:
            first, last = min(some), max(some)  # which begin alike as far as all of them do
            pairs = enumerate(zip(first, last, strict=False))
            begin = next((n for n, (one, other) in pairs if one != other), len(first))
            written |= {text: _around(text, begin, most) for text in some}
    return [written[text] for text in texts]


def _around(text: str, begin: int, most: int) -> str:
    """The part of a text around a place."""
    rest = text[max(1, begin - most // 2) :]
    return f"…{rest}" if len(rest) < most else f"…{rest[: most - 2]}…"


SUREST = 0.999
"""Probability from which on items are drawn alike."""
TICKS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995)
APART = 0.04
"""Part of the axis between two ticks."""
STEPS = 40
"""Places along each axis on which items are drawn as one mark."""
AREA = 12.0
"""Area of the mark of one item in square points; of n items it is root n times that."""


def plot_item_map(posterior: Fit, *, ax: Axes | None = None) -> Axes:
    """Draws each item by how far its annotators disagree and how sure its label is all the same.

    Above left annotators agree and the label is sure; above right they disagree, and knowing who they are settles
    it; below, more labels or an expert are needed. A cross is an item whose label is not the one that most
    annotators gave. Items at nearly one place share a mark, larger for more. The upright axis is even in the
    logarithm of the probability of another class.

    Args:
        posterior: what a fit returned. Items with fewer than two labels are left out, for nobody can disagree;
            abstentions are no labels.
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
    apart, sure = disagreement(votes[several]), np.minimum(p.max(1)[several], SUREST)
    axes = axes_or_new(ax, 6.4, 5.0)
    least, most = 1 / p.shape[1], float(apart.max()) or 1.0
    _scale(axes, least, most)
    for which, marker, text in ((~overruled, "o", "most annotators' label"), (overruled, "x", "another label")):
        x, y, n = _places(apart[which] / most, _height(sure[which], least))
        axes.scatter(
            most * (x + (0.5 / STEPS if marker == "x" else 0)),  # beside those of the other kind
            _probability(y, least),
            AREA * np.sqrt(n),
            marker=marker,
            color=DARK,
            facecolor="0.8" if marker == "o" else DARK,
            linewidth=0.7 if marker == "o" else 1.2,
            label=f"{text} ({int(which.sum()):,})",
            clip_on=False,
            zorder=2 if marker == "o" else 3,
        )
    out = len(several) - int(several.sum())
    left = f", {out:,} with fewer than two labels not shown" if out else ""
    axes.set_title(f"{int(several.sum()):,} items{left}", fontsize="medium")
    _legend(axes, len(apart))
    return axes


def disagreement(votes: np.ndarray) -> np.ndarray:
    """Share of pairs of labels of an item that differ: votes (N, K), two a row at least, to (N,)."""
    n = votes.sum(1)
    out: np.ndarray = 1 - (votes * (votes - 1)).sum(1) / (n * (n - 1))
    return out


def _height(p: Any, least: float) -> Any:
    """Where a probability lies on its axis, from 0 for the least possible to 1."""
    doubt = np.log(np.maximum(1 - np.asarray(p), 1e-12) / (1 - least))
    return doubt / np.log((1 - SUREST) / (1 - least))


def _probability(height: Any, least: float) -> Any:
    """The probability at a height of the axis."""
    return 1 - (1 - least) * ((1 - SUREST) / (1 - least)) ** np.asarray(height)


def _places(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points of the unit square moved to a lattice: where there are any, and how many."""
    cells, n = np.unique(np.round(np.stack([x, y], 1) * STEPS), axis=0, return_counts=True)
    return cells[:, 0] / STEPS, cells[:, 1] / STEPS, n


def _scale(axes: Axes, least: float, most: float) -> None:
    """Axes from no to the most disagreement, and from the least possible to the highest probability."""
    axes.set_yscale("function", functions=(partial(_height, least=least), partial(_probability, least=least)))
    ticks: list[float] = []
    for p in TICKS:
        if p >= least - 1e-9 and (not ticks or _height(p, least) - _height(ticks[-1], least) > APART):
            ticks.append(p)
    axes.set_yticks(
        [*ticks, SUREST], [*(f"{p:g}".removeprefix("0") for p in ticks), f"≥ {SUREST:g}".replace("0.", ".")]
    )
    axes.set_yticks([], minor=True)
    axes.set_xlim(-0.03 * most, 1.03 * most)
    axes.set_ylim(*_probability([-0.03, 1.03], least))
    axes.set_xlabel("disagreement: share of pairs of labels that differ")
    axes.set_ylabel("probability of the label")


def _legend(axes: Axes, n_items: int) -> None:
    """What marks and sizes mean, below the axes, for items may lie anywhere on them."""
    from matplotlib.lines import Line2D

    handles, _ = axes.get_legend_handles_labels()
    style: dict[str, Any] = {"linestyle": "", "color": DARK, "markerfacecolor": "0.8", "markeredgewidth": 0.8}
    keys = [
        Line2D([], [], marker=marker, label=handle.get_label(), **style)
        for handle, marker in zip(handles, "ox", strict=True)
    ]
    keys += [
        Line2D([], [], marker="o", markersize=AREA**0.5 * n**0.25, label=f"{n:,} item{'s' * (n > 1)}", **style)
        for n in (1, 10, 100, 1000, 10_000)
        if n == 1 or n <= n_items / 3
    ]
    place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.13), "ncols": 3}
    axes.legend(handles=keys, fontsize="small", frameon=False, **place)


BOX = "□"
"""What stands for a letter that no font has."""
NO_SCRIPT = re.compile(r"cm\w+10|STIX(NonUnicode|Size\w+)|\.?Last ?Resort.*")
"""Fonts of mathematics, and those whose glyphs only say to which script a letter belongs."""
LISTED = 3
"""Names in a warning."""


def legible(*panels: Axes) -> None:
    """Gives the texts of axes fonts for the letters that their own lacks, and boxes for those that no font has.

    Args:
        panels: axes on which everything is written.

    Warns:
        CrowdpplWarning: once, with the names for whose letters no installed font has a glyph.
    """
    boxed: dict[str, None] = {}
    for axes in panels:
        for text in _texts(axes):
            written, families = _spelled(text.get_text(), text.get_fontfamily())
            if families != text.get_fontfamily():
                text.set_fontfamily(families)
            if written != text.get_text():
                boxed[" ".join(text.get_text().split())] = None
                text.set_text(written)
        for axis in (axes.xaxis, axes.yaxis):
            boxed |= dict.fromkeys(_spell_ticks(axis))
    if boxed:
        names = ", ".join(map(repr, list(boxed)[:LISTED]))
        more = f" and {len(boxed) - LISTED} more" if len(boxed) > LISTED else ""
        warn(
            f"no installed font has all letters of {names}{more}, so that boxes stand for some; install one that "
            "has, such as Noto Sans of that script, hand its file to matplotlib.font_manager.fontManager.addfont "
            'or set matplotlib.rcParams["font.family"], and draw again',
            CrowdpplWarning,
        )


def _texts(axes: Axes) -> Iterator[Text]:
    """Whatever is written on axes, but for the names of places on its edges."""
    yield from axes.texts
    yield from (axes.title, axes.xaxis.label, axes.yaxis.label)
    legend = axes.get_legend()
    if legend is not None:
        yield from (*legend.get_texts(), legend.get_title())


def _spell_ticks(axis: Any) -> list[str]:
    """The same for names of places on an edge; returns those that now hold boxes."""
    from matplotlib.ticker import FixedLocator

    if not isinstance(axis.get_major_locator(), FixedLocator):
        return []  # numbers, which matplotlib writes
    labels = axis.get_ticklabels()
    own: list[str] = labels[0].get_fontfamily() if labels else []
    texts = [label.get_text() for label in labels]
    families, written = own, []
    for text in texts:
        spelled, families = _spelled(text, families)
        written.append(spelled)
    if families != own:
        axis.set_tick_params(labelfontfamily=families)
    if written != texts:
        axis.set_ticklabels(written)
    return [text for text, spelled in zip(texts, written, strict=True) if text != spelled]


def _spelled(text: str, families: list[str]) -> tuple[str, list[str]]:
    """A text with a box for each letter that no font has, and families that have the others."""
    lacking = frozenset(x for x in text if not x.isspace())
    for path in _paths(families):
        lacking -= _covered(path, lacking)
    families = list(families)
    while lacking:
        name, found = _best(lacking)
        if not found:
            break
        families.append(name)
        lacking -= found
    return "".join(BOX if x in lacking else x for x in text), families


def _paths(families: list[str]) -> list[str]:
    """Files in which matplotlib looks for glyphs of some families."""
    from matplotlib.font_manager import FontProperties, findfont

    found = []
    for family in families:
        try:
            found.append(str(findfont(FontProperties(family=[family]), fallback_to_default=False)))
        except ValueError:  # matplotlib says itself that there is no such family, and takes its default
            continue
    return found or [str(findfont(FontProperties()))]


def _best(lacking: frozenset[str]) -> tuple[str, frozenset[str]]:
    """The font that has most of some letters, the first of several, and those that it has."""
    from matplotlib.font_manager import fontManager

    best: tuple[str, frozenset[str]] = "", frozenset()
    plain = [x for x in fontManager.ttflist if x.style == "normal" and not NO_SCRIPT.fullmatch(x.name)]
    for entry in plain:
        found = _covered(entry.fname, lacking)
        if len(found) > len(best[1]):
            best = entry.name, found
        if len(found) == len(lacking):
            break
    return best


@lru_cache(4096)
def _covered(path: str, letters: frozenset[str]) -> frozenset[str]:
    """Those of some letters of which the font in a file has glyphs that matplotlib can draw."""
    from matplotlib.ft2font import FT2Font

    if not letters:
        return letters
    try:
        font = FT2Font(path)
    except (OSError, RuntimeError):  # a font that is listed and gone, or that FreeType cannot read
        return frozenset()
    if not font.scalable:  # bitmaps, of which matplotlib draws none
        return frozenset()
    return frozenset(x for x in letters if font.get_char_index(ord(x)))


SIZES = ("medium", "small")
"""Sizes of letters, the first that fits."""
LEADING = 1.25
"""Height of a line, in sizes of its letters."""
ENDS = 8
"""Rows that are named at each end where there is no room for all."""
REACH = 14.0
"""Length of the lines from these names to their rows, in points."""


def name_rows(axes: Axes, names: Sequence[str]) -> bool:
    """Names rows 0, 1, ... at the left edge: all if there is room, else the lowest and highest, led to their rows.

    Args:
        axes: with everything but these names, and limits of y.
        names: of the rows, from below.

    Returns:
        Whether all are named.
    """
    rehearse(axes)
    low, high = axes.get_ylim()
    row = 72 * axes.get_window_extent().height / axes.figure.dpi / (high - low)
    lines = {size: LEADING * _points(size) / row for size in SIZES}
    for size, line in lines.items():
        if line <= 1:
            axes.set_yticks(np.arange(len(names)), names, fontsize=size)
            return True
    line = lines[SIZES[-1]]
    each = min(ENDS, int((high - low) / line) // 2)
    below = np.arange(each)
    rows = np.concatenate([below, len(names) - 1 - below])
    places = np.concatenate([below * line, len(names) - 1 - below * line])
    axes.set_yticks(places, [names[n] for n in rows], fontsize=SIZES[-1])
    axes.tick_params(axis="y", length=0, pad=REACH + 2)
    _lead(axes, places, rows)
    return False


def write_title(axes: Axes, parts: Iterable[str]) -> None:
    """A title of parts with commas between them, on as many lines as it needs; a part that is longer is elided."""
    rehearse(axes)
    lines: list[str] = []
    for part in parts:
        most = len(part)
        while most > 4 and not _fits(axes, f"{short(part, most)},"):
            most -= 1
        written = short(part, most)
        if lines and _fits(axes, f"{lines[-1]}, {written},"):
            lines[-1] += f", {written}"
        else:
            lines.append(written)
    axes.set_title(",\n".join(lines), fontsize="medium")


def drop_overlapping(axes: Axes, texts: Iterable[Annotation]) -> None:
    """Takes away texts that would lie on one that comes before them."""
    rehearse(axes)
    kept: list[Any] = []
    for text in texts:
        box = text.get_window_extent()
        if any(box.overlaps(other) for other in kept):
            text.remove()
        else:
            kept.append(box)


def rehearse(axes: Axes) -> None:
    """Lays a figure out as it is drawn so far, so that sizes can be read off its axes."""
    figure = axes.figure.canvas.figure
    if figure.get_layout_engine() is not None:
        with warnings.catch_warnings():  # which come when it is drawn
            warnings.simplefilter("ignore")
            figure.draw_without_rendering()


def _points(size: str) -> float:
    from matplotlib.font_manager import FontProperties

    return float(FontProperties(size=size).get_size_in_points())


def _fits(axes: Axes, text: str) -> bool:
    """Whether a title of one line is no wider than its axes."""
    axes.set_title(text, fontsize="medium")
    with warnings.catch_warnings():  # of glyphs, which are looked after when all is written
        warnings.simplefilter("ignore")
        return bool(axes.title.get_window_extent().width <= axes.get_window_extent().width)


def _lead(axes: Axes, places: np.ndarray, rows: np.ndarray) -> None:
    """Lines from names left of the axes to their rows at its edge."""
    from matplotlib.collections import LineCollection
    from matplotlib.transforms import ScaledTranslation, blended_transform_factory

    corner: Any = axes.transAxes
    edge = axes.figure.dpi_scale_trans + ScaledTranslation(0, 0, corner)  # inches right of the left edge
    ends = [[(-REACH / 72, place), (0.0, row)] for place, row in zip(places, rows, strict=True)]
    across = blended_transform_factory(edge, axes.transData)
    lines = LineCollection(ends, colors=MIDDLE, linewidths=0.5, transform=across, clip_on=False)
    axes.add_collection(lines, autolim=False)


MOST_TEXT = 10
"""Classes up to which the shares are written into a matrix."""
MOST_NAMES = 15
"""Classes up to which all are named at the edges; of more, every second, third, ..."""
BRIEF = 10
"""Characters of an annotator's name up to which it is written on one line."""
PANEL_REACH = 0.4
"""Where a cell's scale from 0 to 1 begins and ends, left and right of its middle."""


def grid(n: int, classes: Sequence[Any]) -> np.ndarray:
    """Axes for n confusion matrices of some classes in a grid, with room for the names of classes at its edges."""
    import matplotlib.pyplot as plt

    columns = _columns(n)
    rows = -(-n // columns)
    side = 1.4 + 0.35 * min(len(classes), MOST_TEXT)
    room = 0.075 * max(len(short(name)) for name in classes)
    # Where the last row is not full, the row above it is named too.
    named_rows = 1 + (n % columns > 0)
    size = (side * columns + room, side * rows + 0.8 * room * named_rows)
    axes = plt.subplots(rows, columns, squeeze=False, figsize=size, layout="constrained")[1].ravel()
    for spare in axes[n:]:
        spare.remove()
    return axes[:n]


def draw_matrix(axes: Axes, posterior: Fit, code: int, name: str, interval: Estimate | None = None) -> None:
    """One confusion matrix under its annotator's name; shares are written in where there is room."""
    data, table = posterior.data, posterior.result.table[code]
    axes.imshow(table, cmap="Greys", vmin=0, vmax=1, aspect="auto")
    written = max(table.shape) <= MOST_TEXT
    if written:
        _write(axes, table, -0.15 if interval is not None else 0.0)
    if interval is not None:
        _scales(axes, interval, 0.25 if written else 0.0)
    step = -(-max(table.shape) // MOST_NAMES)
    size = "medium" if written else "small"
    labels = short_names(data.answers)
    slanted: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    turned = slanted if max(map(len, labels)) > (4 if written else 2) else {}
    axes.set_xticks(range(0, len(labels), step), labels[::step], fontsize=size, **turned)
    classes = short_names(data.answers)[: data.n_classes]
    axes.set_yticks(range(0, len(classes), step), classes[::step], fontsize=size)
    axes.set_xlabel("label" if written else "label (shade: white 0, black probability 1)")
    axes.set_ylabel("truth")
    axes.set_title(f"annotator{' ' if len(name) <= BRIEF else chr(10)}{name}", fontsize="medium")


def name_outer_only(axes: np.ndarray) -> None:
    """Names places at the left and the lower edge of a grid alone, for all panels have the same."""
    columns = _columns(len(axes))
    for n, panel in enumerate(axes):
        if n % columns:
            panel.set_ylabel("")
            panel.tick_params(axis="y", labelleft=False)
        if n + columns < len(axes):
            panel.set_xlabel("")
            panel.tick_params(axis="x", labelbottom=False)


def _write(axes: Axes, table: np.ndarray, shift: float) -> None:
    """The shares as text, moved down by a part of a cell."""
    for (row, column), share in np.ndenumerate(table):
        text = f"{share:.2f}".removeprefix("0") if share < 0.995 else "1"
        axes.text(column, row + shift, text, ha="center", va="center", color=_ink(share), fontsize="small")


def _scales(axes: Axes, interval: Estimate, shift: float) -> None:
    """In each cell a scale from 0 to 1, on it the interval, and the mean as a stroke."""
    for (row, column), share in np.ndenumerate(interval.mean):
        at = (
            column - PANEL_REACH + 2 * PANEL_REACH * x
            for x in (0, 1, interval.low[row, column], interval.high[row, column])
        )
        start, end, low, high = at
        y, ink = row + shift, _ink(share)
        axes.plot([start, end], [y, y], color=MIDDLE, linewidth=0.6, solid_capstyle="butt")
        axes.plot([low, high], [y, y], color=ink, linewidth=2, solid_capstyle="butt")
        axes.plot(
            column - PANEL_REACH + 2 * PANEL_REACH * share, y, "|", color=ink, markersize=7, markeredgewidth=1.2
        )


def _ink(share: float) -> str:
    """What shows on a shade."""
    return "white" if share > 0.55 else "black"


def _columns(n: int) -> int:
    return int(np.ceil(np.sqrt(n)))


MOST_PANELS = 25
"""Confusion matrices in one grid; more would be stamps."""
NAMED = 5
"""Least sure items that are named in a picture of few items."""
LINE = 0.055
"""Height of a line of their names, as a share of that of the picture."""


def plot_confusion(posterior: Fit, annotator: Any = None, *, ax: Any = None, level: float | None = None) -> Any:
    """Draws confusion matrices: rows are the truth, columns the label, darker is more probable.

    Args:
        posterior: what a fit returned.
        annotator: one id; a list of ids; None for all, or for those 25 who gave most labels.
        ax: matplotlib axes to draw on, as many as annotators; made if absent.
        level: draws intervals of this probability too: each cell then holds a scale, 0 at its left end and 1 at
            its right, with the interval as a thick line and the mean as a stroke.

    Returns:
        The axes for one annotator, an array of axes for several.

    Raises:
        DataError: for an unknown annotator, or when the axes are too few.
        MethodError: when intervals are asked of an engine that gives points, or of a level that is none.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> ax = posterior.plot_confusion("1")
        >>> ax.get_xlabel(), ax.get_ylabel()
        ('label', 'truth')
    """
    codes = _annotators(posterior, annotator)
    found = None if level is None else _intervals(posterior, level)
    one = len(codes) == 1 and not isinstance(annotator, list | tuple)
    axes = grid(len(codes), list(posterior.data.answers)) if ax is None else axes_of(ax)
    if len(axes) < len(codes):
        raise DataError(f"{len(codes)} annotators need as many axes, {len(axes)} were given; name one annotator")
    names = short_names(posterior.data.annotators)
    for panel, code in zip(axes, codes, strict=False):
        draw_matrix(panel, posterior, int(code), names[code], None if found is None else found.at(code))
        if level is not None:
            panel.set_xlabel(f"{panel.get_xlabel()}\n(thick line: {level:.0%} interval)")
    if ax is None:
        name_outer_only(axes)
        if annotator is None and len(codes) < posterior.data.n_annotators:
            left = f"the {len(codes)} of {posterior.data.n_annotators} annotators with most labels"
            axes[0].figure.suptitle(left, fontsize="medium")
    legible(*axes[: len(codes)])
    return axes[0] if one else axes[: len(codes)]


def plot_annotators(
    posterior: Fit, *, ax: Axes | None = None, level: float = 0.95, show: str = "information"
) -> Axes:
    """Draws what each annotator's labels are worth, with intervals, the best on top.

    The information of a label is its mutual information with the truth, in bits: 0 for a spammer, and at most
    the entropy of the prevalence (dotted line). An annotator who always names a frequent class is accurate and
    tells nothing, so that the order may differ from that of the accuracies. Where there are draws, the information
    is averaged over them; what ``suspicious_annotators`` lists is that of the mean confusion, which is smaller.
    Where there is no room for all names, those of the best and of the worst are written.

    Args:
        posterior: what a fit returned; without intervals where the engine gives points.
        ax: axes to draw on; made if absent.
        level: probability of the intervals.
        show: "information" or "accuracy", by which annotators are then ordered.

    Raises:
        MethodError: when something else is to be shown, or the level is none.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.plot_annotators().get_xlabel()
        'information of a label (bits), line: 95% interval'
    """
    validation.one_of("show", show, ("information", "accuracy"))
    check_level(level)
    result, names = posterior.result, short_names(posterior.data.annotators)
    found = _information(posterior, level) if show == "information" else intervals.accuracy(result, level)
    order = np.argsort(found.mean, kind="stable")
    shown = found.at(order)
    few, drawn = len(order) <= MOST_ROWS, bool(np.isfinite(shown.low).any())
    axes = axes_or_new(ax, 6.4, max(2.6, 1.2 + 0.24 * len(order)) if few else 7.2)
    place = np.arange(len(order))
    if drawn:
        axes.hlines(place, shown.low, shown.high, color="0.6", linewidth=1.5 if few else 0.8)
    axes.plot(shown.mean, place, "o", color=DARK, markersize=4 if few else 2)
    axes.set_yticks([])
    axes.set_ylim(-0.7, len(order) - 0.3)
    most = float(entropy(result.prevalence[None])[0])
    if show == "accuracy":
        _mark(axes, 1 / posterior.data.n_classes, "chance", 1.0)
    else:
        end = max(most, float(np.nanmax(shown.high if drawn else shown.mean)))
        _mark(axes, most, "entropy of the truth", 1.02 * end)
    title = "accuracy" if show == "accuracy" else "information of a label (bits)"
    axes.set_xlabel(f"{title}, line: {level:.0%} interval" if drawn else title)
    every = name_rows(axes, [names[n] for n in order])
    best = "most informative" if show == "information" else "most accurate"
    axes.set_ylabel(f"{'annotator' if every else f'{len(order):,} annotators'},\n{best} on top")
    legible(axes)
    return axes


def plot_items(posterior: Fit, *, ax: Axes | None = None, show: str = "entropy") -> Axes:
    """Draws how sure the truth of the items is, from the surest to the least sure.

    Args:
        posterior: what a fit returned.
        ax: axes to draw on; made if absent.
        show: "entropy" of the truth in bits, or "probability" of the label.

    Raises:
        MethodError: when something else is to be shown.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.plot_items().get_ylabel()
        'entropy of the truth (bits)'
    """
    p = posterior.result.probabilities
    validation.one_of("show", show, ("entropy", "probability"))
    if show == "entropy":
        values, most, title = entropy(p), float(np.log2(p.shape[1])), "entropy of the truth (bits)"
    else:
        values, most, title = p.max(1), 1.0, "probability of the label"
    order = np.argsort(values if show == "entropy" else -values, kind="stable")
    values = values[order]
    axes = axes_or_new(ax)
    place = np.arange(1, len(values) + 1)
    bottom = 0.0 if show == "entropy" else 1 / p.shape[1]
    axes.fill_between(place, bottom, values, step="mid", color=LIGHT, linewidth=0)
    axes.step(place, values, where="mid", color=DARK, linewidth=1.2)
    if len(values) <= MOST_ROWS:
        axes.plot(place, values, "o", color=DARK, markersize=3)
        _name_last(axes, place, values, short_names(posterior.data.items[order[-NAMED:]]), most - bottom)
    axes.set_xlim(0.5, len(values) + 0.5)
    axes.set_ylim(bottom, most + 0.04 * (most - bottom))
    axes.locator_params(axis="x", integer=True)
    axes.set_xlabel("item, the surest first")
    axes.set_ylabel(title)
    legible(axes)
    return axes


def _name_last(axes: Axes, place: np.ndarray, values: np.ndarray, names: list[str], span: float) -> None:
    """Names of the last points; those that would lie on one another are written one above the other."""
    free, first = -np.inf, len(values) - len(names)
    for n in first + np.argsort(values[first:], kind="stable"):
        height = max(float(values[n]), free)
        free = height + LINE * span
        beside: dict[str, Any] = {"xytext": (-3, 3), "textcoords": "offset points", "annotation_clip": False}
        axes.annotate(names[n - first], (place[n], height), ha="right", fontsize="small", **beside)


def _annotators(posterior: Fit, wanted: Any) -> np.ndarray:
    """Codes of the annotators asked for, or of those who gave most labels, in codebook order."""
    known = posterior.data.annotators
    if wanted is None:
        most = np.argsort(-labels_given(posterior.data), kind="stable")
        return np.sort(most[:MOST_PANELS])
    asked = list(wanted) if isinstance(wanted, list | tuple) else [wanted]
    codes = posterior.data.annotator_book.codes(asked)
    if (codes < 0).any():
        unknown = asked[int(np.flatnonzero(codes < 0)[0])]
        raise DataError(f"there is no annotator {unknown!r}; the first are {list(known[:5])!r}")
    return codes


def _intervals(posterior: Fit, level: float) -> Estimate:
    """Intervals of all confusions, which an engine of points does not have."""
    check_level(level)
    if posterior.result.table_draws is None:
        raise MethodError(
            f"{posterior.inference} found a point without intervals; leave level= out, or fit with vb or gibbs"
        )
    return intervals.confusion(posterior.result, level)


def _information(posterior: Fit, level: float) -> Estimate:
    """Mutual information of truth and label in bits, (A,), averaged over draws where there are draws."""
    result = posterior.result
    tables, shares = result.table_draws, result.prevalence_draws
    if tables is None or shares is None:
        return from_point(information(informative_part(posterior, result.table), result.prevalence))
    draws = [
        information(table, share) for table, share in zip(informative_part(posterior, tables), shares, strict=True)
    ]
    return from_draws(np.stack(draws), level)


def _mark(axes: Axes, at: float, text: str, end: float) -> None:
    """A dotted line from the foot to the top, named above; the axis runs from 0 to an end."""
    axes.axvline(at, color=MIDDLE, linestyle=":", linewidth=1)
    axes.set_xlim(0, end)
    place: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
    side = "right" if at > end / 2 else "center"
    axes.annotate(text, (at, 1), (0, 3), ha=side, va="bottom", fontsize="small", color="0.35", **place)


NAMED_CHAINS = 8
"""Chains that a legend tells apart; of more, only their number is said."""
STYLES = ("-", "--", "-.", ":")
BINS = 20
"""Bins of ranks."""
FILL = 0.85
"""Share of a chain's row that its highest bar fills."""


def plot_trace(posterior: Fit, site: str | None = None, *, ax: Axes | None = None) -> Axes:
    """Draws how the fit went: a line a chain for samplers, the objective for other engines.

    Args:
        posterior: what a fit returned.
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
        drawn = _traces(axes_or_new(ax), chosen, posterior)
        legible(drawn)
        return drawn
    found = posterior.result.diagnostics
    objectives = found.get("objectives")
    if objectives is None or len(objectives) == 0:
        raise MethodError(f"the fit by {posterior.inference} kept neither draws nor objectives to show")
    last = found.get("iterations", len(objectives))  # objectives are those of the last part of a fit
    axes, place = axes_or_new(ax), np.arange(last - len(objectives), last) + 1
    marker = "o" if len(place) <= MOST_ROWS else ""
    axes.plot(place, objectives, color=DARK, linewidth=1.2, marker=marker, markersize=3)
    axes.locator_params(axis="x", integer=True)
    axes.set_xlabel("iteration")
    axes.set_ylabel("objective (nats)")
    return axes


def plot_ranks(posterior: Fit, site: str | None = None, *, ax: Axes | None = None, bins: int = BINS) -> Axes:
    """Draws whether chains drew from the same distribution: then each chain's bars are level, up to noise.

    All draws of all chains are ranked together, and each chain's are counted in bins of rank. A chain that lies
    too high has its bars on the right, one that moves too little has them in the middle. The grey band holds 95 %
    of the bars of chains that agree and whose draws are independent; draws that depend on those before leave
    it more often. After Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), "Rank-normalization, folding, and
    localization: an improved R-hat".

    Args:
        posterior: what gibbs or nuts found, in two chains or more.
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
    values, where = least_agreed(chosen, posterior)
    n_chains, n_draws = values.shape
    if n_chains < 2:
        raise MethodError("one chain has no other to be ranked with; fit with chains=4")
    if whole_number("bins", bins, 2, "20 are usual") > n_draws:
        raise MethodError(f"bins={bins} must be at most the {n_draws} draws of a chain; 20 are usual")
    if np.ptp(values) == 0:
        raise MethodError(
            f"all draws of {', '.join(where)} are equal, so that they have no ranks; choose another site"
        )
    counts, sizes = rank_counts(values, bins)
    axes = axes_or_new(ax, 6.4, max(2.6, 1.2 + 0.45 * n_chains))
    _rank_bars(axes, counts, sizes)
    axes.set_xlabel(f"rank among the {values.size:,} draws of all chains")
    axes.set_ylabel("chain\n(height: draws)")
    write_title(axes, where)
    legible(axes)
    return axes


def least_agreed(site: SiteResult, posterior: Fit) -> tuple[np.ndarray, list[str]]:
    """Draws (chains, draws) of the entry with the largest variance between chains, relative to within.

    Besides, the parts of its name, between which go commas.
    """
    draws = site.arrays["draws"]
    flat = draws.reshape(*draws.shape[:2], -1)
    between, within = flat.mean(1).var(0), flat.var(1).mean(0)
    entry = int(np.argmax(between / np.maximum(within, np.finfo(np.float64).tiny)))
    names, at = _names(posterior), np.unravel_index(entry, draws.shape[2:])
    places = zip(site.dims, at, strict=True)
    where = [f"{dim} {names[dim][int(n)]}" if dim in names else f"{dim} {n}" for dim, n in places]
    if where:
        where[0] = f"{site.name} ({where[0]}"
        where[-1] += ")"
    return flat[..., entry], where or [site.name]


def rank_counts(values: np.ndarray, bins: int) -> tuple[np.ndarray, np.ndarray]:
    """Draws of each chain in each bin of rank, (chains, bins), and of all chains, (bins,); equal ones share theirs.

    Args:
        values: draws (chains, draws).
        bins: of the ranks, as equal as their number allows.
    """
    from scipy.stats import rankdata  # slow to import

    ranks = rankdata(values).reshape(values.shape)
    home = np.minimum(((ranks - 0.5) * bins / values.size).astype(np.int64), bins - 1)
    counts = np.stack([np.bincount(row, minlength=bins) for row in home])
    return counts, counts.sum(0)


def _site(posterior: Fit, site: str | None) -> SiteResult | None:
    """The site asked for, among those with draws; None where no site has any."""
    sites = {s.name: s for s in posterior.result.sites.values() if s.family == "draws"}
    if site is not None and not (isinstance(site, str) and site in sites):
        raise MethodError(f"there are no draws of {site!r}; sites with draws: {', '.join(sites) or 'none'}")
    if not sites:
        return None
    return sites[site or ("prevalence" if "prevalence" in sites else next(iter(sites)))]


def _traces(axes: Axes, site: SiteResult, posterior: Fit) -> Axes:
    """Draws in the background, the mean of each chain so far in front."""
    chains, where = least_agreed(site, posterior)
    steps = np.arange(1, chains.shape[1] + 1)
    axes.plot(steps, chains.T, color=LIGHT, linewidth=0.5)
    for chain, values in enumerate(chains):
        shade = str(round(0.5 * chain / max(1, len(chains) - 1), 2))
        style = STYLES[chain % len(STYLES)]
        mean = np.cumsum(values) / steps
        axes.plot(steps, mean, style, color=shade, linewidth=1.6, label=f"chain {chain + 1}")
    axes.set_xlabel("draw (thick: mean of a chain so far)")
    axes.set_ylabel(site.name)
    few = len(chains) <= NAMED_CHAINS
    write_title(axes, where if few else [*where, f"{len(chains)} chains"])
    if few:
        axes.legend(loc="upper right", fontsize="small", ncols=2)
    return axes


def _rank_bars(axes: Axes, counts: np.ndarray, sizes: np.ndarray) -> None:
    """A row of bars a chain, chain 1 on top; each with its even height, and the band of noise around it."""
    from scipy.stats import hypergeom  # slow to import

    n_chains, n_draws = counts.shape[0], int(counts[0].sum())
    edges = np.concatenate([[0], np.cumsum(sizes)])
    low, high = hypergeom.interval(0.95, edges[-1], n_draws, sizes)
    scale = FILL / max(counts.max(), np.max(high))
    for row, bars in enumerate(counts[::-1]):
        band = {"baseline": row + scale * low, "fill": True, "color": LIGHT, "linewidth": 0, "zorder": 1}
        axes.stairs(row + scale * high, edges, **band)
        axes.stairs(row + scale * bars, edges, baseline=row, color=DARK, linewidth=1, zorder=3)
        even = row + scale * n_draws * sizes / edges[-1]
        axes.stairs(even, edges, baseline=None, color=MIDDLE, linestyle=":", linewidth=1, zorder=2)
    axes.set_yticks(np.arange(n_chains) + scale * n_draws / len(sizes), [str(n) for n in range(n_chains, 0, -1)])
    axes.set_xlim(0, edges[-1])
    axes.set_ylim(0, n_chains)


def _names(posterior: Fit) -> dict[str, Sequence[Any]]:
    """What places along known dimensions are called."""
    data = posterior.data
    classes, answers = list(data.classes), list(data.answers)
    known = {"class": classes, "truth": classes, "label": answers, "answer": answers}
    return {"item": list(data.items), "annotator": list(data.annotators), **known}
