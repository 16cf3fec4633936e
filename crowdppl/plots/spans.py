"""The picture of spans in their text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl.core.validation import kind_of, shown
from crowdppl.errors import DataError
from crowdppl.inference.result import Fit
from crowdppl.plots.axes import COLOURS, axes_or_new
from crowdppl.results.spans import in_sequences, spans, tags_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDE = 96
"""Letters in a line."""
SHOWN = 5
"""Sequences drawn where none is named."""
LINE, MARK = 0.17, 0.035
"""Heights in inches of a line of text, and of the line of an annotator below it."""


def plot_spans(
    posterior: Fit,
    sequences: Iterable[Any] | None = None,
    *,
    text: Mapping[Any, Sequence[str]] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draws spans in the text of sequences, darker where they are surer; below, a line for each who marked a token.

    Lines of the text in which nobody marked anything are left out.

    Args:
        posterior: a fit to sequences with BIO tags.
        sequences: ids; by default the five that hold the least sure spans.
        text: the tokens of each sequence, in order, by its id; without, a token is a dot.
        ax: axes to draw on; made if absent.

    Raises:
        MethodError: as ``spans``.
        DataError: for an unknown sequence, or a text of another length.

    Examples:
        >>> posterior = crowdppl.fit("hmm_crowd", crowdppl.datasets.example("sequence"), inference="vb", seed=0)
        >>> ax = posterior.plot_spans(["third"], text={"third": "Ada Lovelace met Alan".split()})
        >>> [text.get_text() for text in ax.texts]
        ['third', 'Ada', 'Lovelace', 'met', 'Alan']
    """
    found = spans(posterior, 0.0)
    marks = _marks(posterior)
    chosen = _chosen(found, marks, sequences)
    lines = [line for name in chosen for line in _lines(name, marks.loc[[name]], text)]
    people = {
        name: list(dict.fromkeys(who for row in marks.loc[[name], "marked"] for who in row)) for name in chosen
    }
    most = max(map(len, people.values()))
    step = LINE + MARK * most + 0.08
    axes = axes_or_new(ax, 9.0, max(1.2, 0.5 + step * len(lines)))
    letter = _letters(axes)
    types = dict.fromkeys(kind for row in marks["marked"] for kind in row.values())
    colour = {kind: COLOURS[n % len(COLOURS)] for n, kind in enumerate(sorted(types))}
    sure, marked = _sure(found), marks["marked"].to_dict()
    for row, (name, first, tokens, places) in enumerate(lines):
        y = -row * step
        if first:
            axes.text(-1, y, str(name), ha="right", va="bottom", fontsize=letter, fontweight="bold")
        placed = tokens_at(tokens, places)
        for n, (at, token, place) in enumerate(placed):
            after = placed[n + 1][2] if n + 1 < len(placed) else None
            if (name, place) in sure:
                kind, p, last = sure[name, place]
                _shade(axes, at, len(token) + (after is not None and not last), y, colour[kind], p)
            axes.text(at, y, token, va="bottom", fontsize=letter, family="monospace", zorder=3)
            for who, kind in marked[name, place].items():
                goes_on = after is not None and marked[name, after].get(who) == kind
                below = y - 0.02 - MARK * people[name].index(who)
                axes.plot([at, at + len(token) + goes_on], [below, below], color=colour[kind], linewidth=1)
    axes.set(xlim=(-14, WIDE), ylim=(-(len(lines) - 1) * step - MARK * most - 0.1, LINE + 0.1))
    axes.axis("off")
    for kind, shade in colour.items():
        axes.plot([], [], "s", color=shade, label=kind or "span")
    if colour:
        above: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": len(colour)}
        title = "darker: surer; a line below: an annotator who marked it"
        axes.legend(title=title, fontsize="small", title_fontsize="small", frameon=False, **above)
    return axes


def _marks(posterior: Fit) -> pd.DataFrame:
    """By sequence and position, the type that each annotator marked there, by their code."""
    data, tags = posterior.data, tags_of(posterior.data)
    order, _ = in_sequences(data)
    assert tags is not None
    item, who, answer = data.label_codes()
    marked: list[dict[int, str]] = [{} for _ in range(data.n_items)]
    inside = answer < data.n_classes
    for n, person, code in zip(item[inside].tolist(), who[inside].tolist(), answer[inside].tolist(), strict=True):
        if tags.begins[code] or tags.inside[code] >= 0:
            marked[n][person] = tags.types[code]
    index = data.item_index[order]
    return pd.DataFrame({"marked": [marked[n] for n in order.tolist()]}, index)


def _sure(found: pd.DataFrame) -> dict[tuple[Any, Any], tuple[str, float, bool]]:
    """By sequence and position: the type of the span there, its probability, and whether it ends there."""
    sure = {}
    for name, first, last, kind, p in found.itertuples(index=False):
        for position in range(first, last + 1):
            sure[name, position] = (kind, p, position == last)
    return sure


def _letters(axes: Axes) -> float:
    """The size of letters of which a line has room for as many as it may hold."""
    points = 72 * axes.get_window_extent().width / axes.figure.dpi
    return float(points / (WIDE + 16) / 0.602)  # letters of the fixed-width font are .602 as wide as high


def _shade(axes: Axes, at: float, width: float, y: float, colour: str, p: float) -> None:
    """A rectangle behind a token, darker for a surer span."""
    from matplotlib.patches import Rectangle  # slow to import

    axes.add_patch(Rectangle((at, y), width, LINE, color=colour, alpha=0.1 + 0.5 * p, linewidth=0, zorder=1))


def _chosen(found: pd.DataFrame, marks: pd.DataFrame, sequences: Iterable[Any] | None) -> list[Any]:
    """The sequences to draw, by default those of the least sure spans."""
    known = marks.index.get_level_values(0).unique()
    if sequences is None:
        return [*found.sort_values("probability", kind="stable")["sequence"].unique()[:SHOWN]] or [*known[:SHOWN]]
    if isinstance(sequences, str) or not isinstance(sequences, Iterable):
        raise DataError(f"sequences= holds {kind_of(sequences)}; give a list of ids, such as {shown([known[0]])}")
    chosen = list(sequences)
    unknown = [name for name in chosen if name not in known]
    if unknown or not chosen:
        raise DataError(f"sequences= names {shown(unknown) or 'none'}; known ones are {shown(list(known[:5]))}")
    return chosen


def _lines(
    name: Any, marks: pd.DataFrame, text: Mapping[Any, Sequence[str]] | None
) -> list[tuple[Any, bool, list[str], list[int]]]:
    """The lines of a sequence that hold marks: its name, whether it is the first, tokens and their positions."""
    tokens = ["·"] * len(marks) if text is None else [str(token) for token in text.get(name, ())]
    if len(tokens) != len(marks):
        raise DataError(f"text= has {len(tokens)} tokens for sequence {name!r}, which has {len(marks)}")
    lines: list[list[int]] = [[]]
    width = 0
    for n, token in enumerate(tokens):
        if lines[-1] and width + len(token) > WIDE:
            lines.append([])
            width = 0
        lines[-1].append(n)
        width += len(token) + 1
    marked, position = marks["marked"].to_numpy(), marks.index.get_level_values(1)
    kept = [line for line in lines if any(marked[n] for n in line)] or lines[:1]
    return [(name, k == 0, [tokens[n] for n in line], position[line].tolist()) for k, line in enumerate(kept)]


def tokens_at(tokens: Sequence[str], places: Sequence[int]) -> list[tuple[int, str, int]]:
    """Where each token of a line begins, in letters; the token; its position."""
    starts = np.cumsum([0, *(len(token) + 1 for token in tokens)])
    return list(zip(starts[:-1].tolist(), tokens, places, strict=True))
