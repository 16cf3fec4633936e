"""Predicted labels of all annotators for all items that they did not label."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from crowdppl.core.validation import whole_number
from crowdppl.data.annotations import Annotations, require_annotations
from crowdppl.data.blocks import row_codes
from crowdppl.data.split import check_aligned, with_rows
from crowdppl.errors import DataError, MethodError
from crowdppl.inference.predict.predictive import LabelBags, predictive
from crowdppl.inference.result import Fit, require_fit
from crowdppl.results.choices import choose

CHUNK = 500_000
"""Labels of all rows that are scored at once."""


def fill(posterior: Fit, data: Annotations | None = None, *, least: int = 10, draws: int = 20) -> Annotations:
    """Adds the most probable label of each annotator to the items that they did not label.

    MMLC-df of Han et al. 2025 ("Mixture of experts based multi-task supervise learning from crowds") where the fit
    is of mmlc; fits of other methods fill, too, and those with features fill items without labels.

    Predicted labels of an item err together, and fits to the result take them as independent: their probabilities
    are overconfident and their intervals too narrow.

    Args:
        posterior: the fit.
        data: annotations to be filled, of the same annotators and classes, with features where the method has a
            network; by default those of the fit.
        least: labels in the fit from which on an annotator's are filled.
        draws: of the posterior, over which predictions are averaged where it is no point.

    Returns:
        Annotations with one label at least of each such annotator on each item; their column ``filled`` marks
        predictions. Ties are broken as in ``posterior.labels()``.

    Raises:
        DataError: when other data have other annotators, classes or abstentions.
        MethodError: for a method that reads label covariates, which new labels lack, or one with sites of items,
            given other data; or a number out of range.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="em", seed=0)
        >>> crowdppl.fill(posterior)
        Annotations(45 items, 5 annotators, 4 classes, 315 labels)
    """
    posterior, least = require_fit(posterior), whole_number("least", least, 0)
    draws = whole_number("draws", draws, 1)
    full = posterior.data if data is None else _checked(posterior, data)
    counts = np.concatenate([block.annotator.cpu().numpy() for block in posterior.data.blocks])
    may = np.flatnonzero(np.bincount(counts, minlength=full.n_annotators) >= least)
    owner, annotator, _ = full.label_codes()
    empty = np.ones((full.n_items, full.n_annotators), bool)
    empty[owner, annotator] = False
    item, place = np.nonzero(empty[:, may])
    annotator, answer = may[place], np.empty(len(item), np.int64)
    votes = np.asarray(full.votes())
    for at in _chunks(item, np.bincount(owner, minlength=full.n_items), full.n_classes):
        p = answer_shares(replace(posterior, data=full), item[at], annotator[at], draws)
        answer[at] = choose(p, votes[item[at]], full.items.take(item[at]), full.classes)[0]
    return _with_labels(full, item, annotator, answer)


def answer_shares(posterior: Fit, item: np.ndarray, annotator: np.ndarray, draws: int) -> np.ndarray:
    """p(class | item, its labels, annotator, no abstention) of pairs of codes (R,) each, over draws: (R, K)."""
    data, k = posterior.data, posterior.data.n_classes
    owner, cell = row_codes(data.blocks, data.order)
    starts = np.searchsorted(owner, np.arange(data.n_items + 1))
    mine, at = np.unique(item, return_inverse=True)
    items = np.concatenate([mine, np.repeat(item, k)])
    sizes = starts[items + 1] - starts[items]
    first = np.repeat(starts[items] - (np.cumsum(sizes) - sizes), sizes)
    tried = (annotator[:, None] * data.n_answers + np.arange(k)).ravel()
    row = np.concatenate([np.repeat(np.arange(len(items)), sizes), len(mine) + np.arange(len(tried))])
    cells = np.concatenate([cell[first + np.arange(len(first))], tried])
    logs = predictive(posterior, LabelBags(items, row, cells), draws)
    change = logs[:, len(mine) :] - np.repeat(logs[:, : len(mine)][:, at], k, axis=1)
    p = np.exp(change).mean(0).reshape(-1, k)
    return np.asarray(p / p.sum(1, keepdims=True))


def _checked(posterior: Fit, data: Annotations) -> Annotations:
    old, data = posterior.data, require_annotations(data)
    for what in ("annotators", "classes", "answers"):
        if not getattr(old, what).equals(getattr(data, what)):
            raise DataError(f"the {what} of data= are not those of the fit; read them with like=posterior.data")
    local = [name for name, site in posterior.result.sites.items() if "item" in site.dims]
    if local:
        raise MethodError(
            f"{posterior.method} has sites of items ({', '.join(local)}), and cannot fill other items; leave data= "
            "out, or fit to all items"
        )
    return check_aligned(old, data)


def _chunks(item: np.ndarray, sizes: np.ndarray, n_classes: int) -> Iterator[slice]:
    """Chunks of pairs, sorted by item, with a bounded number of labels to score."""
    work = np.cumsum((sizes[item] + 1) * n_classes) // CHUNK
    edges = np.flatnonzero(np.diff(work, prepend=-1))
    return (slice(a, b) for a, b in zip(edges, np.append(edges, len(item))[1:], strict=True))


def _with_labels(data: Annotations, item: np.ndarray, annotator: np.ndarray, answer: np.ndarray) -> Annotations:
    """The annotations and some more labels."""
    old = data.label_codes()
    items, annotators, answers = map(np.concatenate, zip(old, (item, annotator, answer), strict=True))
    columns = pd.DataFrame(index=range(data.n_labels)) if data.columns is None else data.columns
    columns = columns.reindex(range(len(items))).assign(filled=np.arange(len(items)) >= data.n_labels)
    columns = columns.iloc[np.lexsort((answers, annotators, items))].reset_index(drop=True)  # as frame() sorts
    return with_rows(data, items, annotators, answers, columns)
