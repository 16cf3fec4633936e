"""How probable a fit finds labels that it was not shown, or each of those that it was."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from crowdppl.data.annotations import Annotations, row_codes
from crowdppl.errors import MethodError
from crowdppl.inference.predict.answers import truth_alone
from crowdppl.inference.predict.predictive import DRAWS, Rows, TemperedError, predictive, predictive_each
from crowdppl.inference.predict.update import options_of
from crowdppl.inference.problem import build_problem, without_validation
from crowdppl.inference.result import Fit

PIECE = 10_000_000
"""Numbers, draws x labels, that are dealt with at once."""


def left_out(
    posterior: Fit, full: Annotations, out: np.ndarray, alone: bool = True, draws: int = DRAWS
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How probable a fit without some labels finds them.

    Args:
        posterior: a fit of the labels that were kept.
        full: all labels.
        out: bool (S,), the labels that were left out, in the order of ``full.frame()``.
        alone: whether to score labels one at a time, too.
        draws: of the posterior, over which predictions are averaged.

    Returns:
        log p(label | kept labels) of each label left out, in their order (empty unless ``alone``); the codes of
        items with labels left out; and log p(all their labels left out | kept labels).
    """
    item, cell = row_codes(full.blocks, full.order)
    mine, at = np.unique(item[out], return_inverse=True)
    home = np.full(full.n_items, -1)
    home[mine] = np.arange(len(mine))
    there = ~out & (home[item] >= 0)
    kept = home[item[there]], cell[there]
    n = len(mine)
    joint = np.concatenate([kept[0], kept[0] + n, at + n]), np.concatenate([kept[1], kept[1], cell[out]])
    try:
        logs = predictive(posterior, Rows(np.concatenate([mine, mine]), *joint), draws)
    except TemperedError:
        each, items = _by_tables(posterior, cell[out], mine, at)
        return each if alone else np.empty(0), mine, items
    before, after = logs[:, :n], logs[:, n:]
    items = _mean_exp(after - before)
    if not alone:
        return np.empty(0), mine, items
    row, copied = _copies(kept[0], at, n)
    cells = np.concatenate([kept[1][copied], cell[out]])
    with_one = predictive(posterior, Rows(item[out], np.concatenate([row, np.arange(len(at))]), cells), draws)
    return _mean_exp(with_one - before[:, at]), mine, items


def _by_tables(posterior: Fit, cell: np.ndarray, mine: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities of labels, alone and an item's together, from the truth's probabilities and mean tables.

    For points, and for mean fields, in which truth and tables are independent, these are the means over draws; and
    where the fit is of a tempered likelihood, labels are as probable as its tables say.

    Args:
        posterior: a fit of other labels.
        cell: table cell of each label, (S,).
        mine: codes of their items, (n,), and ``at`` the place of each label's among them, (S,).

    Raises:
        MethodError: after a sampler, whose draws of truth and tables depend on each other; or where labels of an
            item share more than its truth, so that its other labels change the tables.
    """
    if any(site.family == "draws" for site in posterior.result.sites.values()):
        raise MethodError(
            f"{posterior.method} takes the labels' likelihood to a power (likelihood_power); labels left out are then scored "
            "after em or vb, and not after a sampler"
        )
    with without_validation("cpu"):
        options = replace(options_of(posterior), dtype=torch.float64, device="cpu")
        alone = truth_alone(build_problem(posterior.model, posterior.data, options))
    if not alone:
        raise MethodError(
            f"{posterior.method} takes the labels' likelihood to a power (likelihood_power), and labels depend on more than "
            "the truth of their item; labels left out are then scored with a power of 1 alone"
        )
    annotator, answer = np.divmod(cell, posterior.data.n_answers)
    start = np.log(np.clip(posterior.result.probabilities[mine], 1e-300, None))
    said = np.log(np.clip(posterior.result.table[annotator, :, answer], 1e-300, None))
    together = np.stack([np.bincount(at, x, len(mine)) for x in said.T], 1)
    items = np.logaddexp.reduce(start + together, axis=1)
    return np.logaddexp.reduce(start[at] + said, axis=1), items


def given_the_rest(posterior: Fit, unit: str, n_draws: int) -> Iterator[np.ndarray]:
    """log p(label | the item's other labels, draw) of every label, or log p(labels | draw) of every item.

    Args:
        posterior: with draws.
        unit: "label" or "item"; items without labels are left out.
        n_draws: how many draws.

    Yields:
        float64 (n draws, some), side by side (n draws, S) in the order of ``data.frame()``, or (n draws, items with
        labels) in codebook order. Of a million labels, all at once would be many gigabytes.
    """
    item, cell = row_codes(posterior.data.blocks, posterior.data.order)
    if unit == "label":
        pieces = _pieces(n_draws + np.bincount(item)[item])
        asked = (_without_one(item, cell, some) for some in pieces)
        places = (np.unique(item[some], return_inverse=True)[1] for some in pieces)
        for at, logs in zip(places, predictive_each(posterior, asked, n_draws), strict=True):
            n = logs.shape[1] - len(at)
            yield logs[:, :n][:, at] - logs[:, n:]
        return
    before = posterior.memory is not None  # what earlier labels said is no label
    mine, sizes = np.unique(item, return_counts=True)
    items = [mine[some] for some in _pieces(n_draws + sizes)]
    for logs in predictive_each(posterior, (_together(item, cell, some, before) for some in items), n_draws):
        n = logs.shape[1] // 2
        yield logs[:, :n] - logs[:, n:] if before else logs


def _pieces(work: np.ndarray) -> list[np.ndarray]:
    """Runs of places (n,) that add up to about so much work each."""
    edges = np.unique((np.cumsum(work) - 1) // PIECE, return_index=True)[1]
    return np.split(np.arange(len(work)), edges[1:])


def _without_one(item: np.ndarray, cell: np.ndarray, out: np.ndarray) -> Rows:
    """Rows of all labels of each item that some labels are of, then of each label's item without that label.

    Args:
        item, cell: of all labels, (S,), sorted by item.
        out: places of the labels, one after another.
    """
    mine, at = np.unique(item[out], return_inverse=True)
    first, last = np.searchsorted(item, [mine[0], mine[-1] + 1])
    home = np.searchsorted(mine, item[first:last])
    row, copied = _copies(home, at, len(mine))
    others = copied + first != out[row]
    rows = np.concatenate([home, len(mine) + row[others]])
    cells = np.concatenate([cell[first:last], cell[first:last][copied[others]]])
    return Rows(np.concatenate([mine, item[out]]), rows, cells)


def _together(item: np.ndarray, cell: np.ndarray, mine: np.ndarray, before: bool) -> Rows:
    """Rows of all labels of some items, one after another; where asked, then those of none."""
    first, last = np.searchsorted(item, [mine[0], mine[-1] + 1])
    rows = np.searchsorted(mine, item[first:last])
    return Rows(np.concatenate([mine, mine]) if before else mine, rows, cell[first:last])


def _copies(owner: np.ndarray, asked: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """For each asked owner all entries that it owns: the asking row of each copy, and the entry copied.

    ``owner`` is sorted.
    """
    sizes = np.bincount(owner, minlength=n)
    starts = np.cumsum(sizes) - sizes
    row = np.repeat(np.arange(len(asked)), sizes[asked])
    first = np.repeat(np.cumsum(sizes[asked]) - sizes[asked], sizes[asked])
    return row, starts[asked][row] + np.arange(len(row)) - first


def _mean_exp(x: np.ndarray) -> np.ndarray:
    top = x.max(0)
    out: np.ndarray = top + np.log(np.exp(x - top).mean(0))
    return out
