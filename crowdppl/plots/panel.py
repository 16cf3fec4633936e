"""The plot of a panel: correlations of annotators' errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl.core.validation import seed_number
from crowdppl.criticism.design import Design
from crowdppl.criticism.joint_errors import among_all, shared_errors
from crowdppl.errors import DataError, MethodError
from crowdppl.evaluation.number_metrics import evaluate_numbers
from crowdppl.evaluation.panel import MOST, panel
from crowdppl.inference.result import Fit, NumberTruth
from crowdppl.plots.axes import DARK, axes_or_new, ink, outline, short_names
from crowdppl.primitives.mixtures import group_codes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ALPHA = 0.05
"""Chance of one pair or more that is taken to err together, or against one another, where none does."""


def plot_panel(
    posterior: Fit,
    gold: Mapping[Any, Any] | pd.Series | None = None,
    *,
    families: Mapping[Any, Any] | None = None,
    ax: Axes | None = None,
    seed: int = 0,
) -> Axes:
    """Draws the correlations of annotators' errors (``panel``) as a heat map, family by family.

    Where labels are numbers, errors are those beside the other raters of an item, or beside known truths, less the
    rater's own bias and gain (residual correlation). What several share is part of the others' mean, too, so that
    the rest seem to share the opposite; beside known truths they do not. Without families, raters who err alike
    stand side by side. Of more than 50, those with most labels are drawn; pairs with fewer than ten items in common
    have no cell.

    Pairs whose errors chance alone may have brought together, or apart, are grey: where the 90 % interval of
    ``panel`` holds 0, and of numbers where a two-sided test finds p > .05 among so many pairs (Bonferroni).

    Args:
        gold, families, seed: as of ``panel``; of numbers, gold are numbers.
        ax: axes to draw on; made if absent.

    Raises:
        MethodError, DataError: as ``panel``; DataError when no two raters share ten items that others rated, too,
            MethodError for rankings and for grades on a scale, whose raters have no such errors.

    Examples:
        >>> posterior = crowdppl.fit("auto", crowdppl.anaesthetists(), models=True, seed=0)
        >>> posterior.plot_panel().get_title()
        'error correlation, by other panels'
        >>> ratings = crowdppl.datasets.example("real")
        >>> posterior = crowdppl.fit("gaussian_annotators", ratings, inference="em", seed=0)
        >>> posterior.plot_panel().get_title()
        'error correlation, by the other raters'
    """
    if isinstance(posterior.result.truth, NumberTruth):
        code, family, square, chance, on = _of_numbers(posterior, gold, families, seed_number(seed))
        why = f"p > {ALPHA:g} among {np.isfinite(square).sum() // 2:,} pairs"
    else:
        found = panel(posterior, gold, families=families, seed=seed)
        order = np.argsort(found.family, kind="stable")
        pairs, (one, other) = found.pairs(), np.triu_indices(len(order), 1)
        square, chance = np.full((len(order),) * 2, np.nan), np.zeros((len(order),) * 2, bool)
        square[one, other] = square[other, one] = pairs["correlation"]
        within = (pairs["correlation_low"] <= 0) & (pairs["correlation_high"] >= 0)
        chance[one, other] = chance[other, one] = within
        code, family, on = found.code[order], found.family[order], found.on
        square, chance = (x[np.ix_(order, order)] for x in (square, chance))
        why = "the 90% interval holds 0"
    side = 2.2 + min(0.55 * len(code), 8)
    ax = axes_or_new(ax, side + 1.2, side)
    image = ax.imshow(square, vmin=-1, vmax=1, cmap="RdBu_r")
    grey = chance & np.isfinite(square)
    ax.imshow(np.where(grey, 0.8, np.nan), vmin=0, vmax=1, cmap="gray")
    names = short_names(posterior.data.annotators.take(code))
    ax.set_xticks(range(len(code)), names, rotation=90)
    ax.set_yticks(range(len(code)), names)
    if len(code) <= 12:  # else numbers do not fit into cells
        for row, column in zip(*np.nonzero(np.isfinite(square)), strict=True):
            r = square[row, column]
            style: dict[str, Any] = {"color": DARK if grey[row, column] else ink(abs(r)), "fontsize": "small"}
            ax.text(column, row, f"{r.round(2) + 0.0:.2f}", ha="center", va="center", **style)
    start = 0
    for size in np.unique(family, return_counts=True)[1]:
        if size > 1:
            outline(ax, start, size)
        start += size
    ax.figure.colorbar(image, ax=ax, label="correlation of errors")
    if grey.any():
        ax.set_xlabel(f"grey: within chance ({why})", fontsize="small")
    ax.set_title(f"error correlation, by {on}")
    return ax


def _of_numbers(
    posterior: Fit, gold: Any, families: Any, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, str]:
    """Raters in order, their families, correlations of their errors, which chance may explain, and beside what."""
    from scipy.cluster.hierarchy import leaves_list, linkage  # slow to import

    data, kind = posterior.data, posterior.data.alphabet.kind
    if not kind.numeric or kind.parts is not None:
        raise MethodError(
            f"labels of kind {kind.name!r} by {posterior.method} have no errors that two could share; "
            "plot_annotators draws who is reliable, agreement_pairs(data) says who agree"
        )
    known, on = None, "the other raters"
    if gold is not None:
        truth = evaluate_numbers(posterior, gold, 0, 0.95, seed).scored["truth"]
        known, on = truth.reindex(data.items).to_numpy(float)[data.order], f"{len(truth):,} known truths"
    pair, correlation, p = shared_errors(Design.of(data, numbers=True, least=1 if gold is not None else 2), known)
    if not len(pair):
        raise DataError(
            "no two raters share ten items that two others rated, too; have more items rated by several"
        )
    one, other = np.divmod(pair, data.n_annotators)
    whole, by_chance = np.full((data.n_annotators,) * 2, np.nan), np.zeros((data.n_annotators,) * 2, bool)
    by_chance[one, other] = by_chance[other, one] = among_all(2 * np.minimum(p, 1 - p)) > ALPHA
    inside = np.where(np.abs(correlation) <= 1, correlation, np.nan)  # an estimate beyond is by too few items
    whole[one, other] = whole[other, one] = inside
    met = np.unique(np.concatenate([one, other]))
    met = np.sort(met[np.argsort(-np.bincount(data.label_codes()[1])[met], kind="stable")[:MOST]])
    square = whole[np.ix_(met, met)]
    family, order = np.arange(len(met)), np.arange(len(met))
    if families is not None:
        family = np.asarray(group_codes(families, data, name="families"))[met]
        order = np.argsort(family, kind="stable")
        family = family[order]
    elif len(met) > 2:
        apart = 1 - np.nan_to_num(square, nan=0.0)[np.triu_indices(len(met), 1)]
        order = leaves_list(linkage(np.maximum(apart, 0), "average"))
    shown = np.ix_(met[order], met[order])
    return met[order], family, whole[shown], by_chance[shown], on
