"""Fits that take the labels of some annotators for right, against others who collude."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from crowdppl.core.validation import warn
from crowdppl.data.annotations import Annotations
from crowdppl.data.ids import native, one_or_several
from crowdppl.data.split import keep, some_items
from crowdppl.errors import CrowdpplWarning, DataError
from crowdppl.evaluation.heldout import mean_difference
from crowdppl.inference.predict.update import predict
from crowdppl.inference.result import Fit, uninterrupted
from crowdppl.results.correction import fit_scale, softmax

FOLDS = 5
HELD = 1000.0
"""Pseudo-counts of a held row for each label of the annotator."""


def fit_trusted(make: Callable[..., Fit], data: Annotations, trusted: Any, **last: Any) -> Fit:
    """The fit in which labels of trusted annotators are known truths.

    All items tell how good the other annotators are, or only those with a known truth: rows of confusions are then
    held at what these tell, by a history that outweighs all labels (a cut: Plummer 2015, "Cuts in Bayesian
    graphical models"). Colluders, who agree with one another on every item, rule the former and not the latter.
    Either way predicts known truths that it has not seen, by probabilities whose overconfidence is taken out. Rows
    are held where this is better by more than its standard error.

    Args:
        make: a fit to annotations, which takes further arguments.
        data: of classes.
        trusted: ids, or one id that is text.
        last: arguments of the last fit alone.

    Raises:
        DataError: for an unknown id, or where fewer than two truths are known or none of
            their items has a label by another annotator.
    """
    known, who = _known_truths(data, trusted)
    item, truth = data.item_book.codes(known.index), data.alphabet.classes.codes(known)
    row = data.label_codes()
    crowd = ~np.isin(row[1], who)
    if not (crowd & np.isin(row[0], item)).any():
        raise DataError(
            "nobody else labelled an item of the annotators in trusted=, so that these tell of nobody; have them "
            "label items that others labelled"
        )
    others = keep(data, crowd).with_gold(None)
    by_all = _quietly(make, others).result.probabilities[item]
    by_known = np.zeros(by_all.shape)
    fold = np.random.default_rng(0).permutation(len(known)) % FOLDS
    for number in np.unique(fold):
        out = fold == number
        rest, asked = (some_items(others, np.isin(np.arange(data.n_items), item[at])) for at in (~out, out))
        found = predict(_quietly(make, rest.with_gold(known[~out])), asked)
        by_known[out] = np.asarray(found)[asked.item_book.codes(known.index[out])]
    logs = [_log_of(truth, p) for p in (by_all, by_known)]
    ahead, error = mean_difference(logs[1], logs[0], item)
    given = data.with_gold(known)
    if ahead > error:
        told = _quietly(make, some_items(given, np.isin(np.arange(data.n_items), item)))
        rows, labels = told.result.table[..., : data.n_classes], np.bincount(row[1], minlength=data.n_annotators)
        given = given.filled(history=torch.from_numpy(rows * (HELD * (1 + labels))[:, None, None]))
    fitted = make(given, **last)
    scores = {"annotators by all items": logs[0].mean(), "annotators by trusted items": logs[1].mean()}
    more = {**fitted.result.diagnostics, "scores": {name: float(x) for name, x in scores.items()}}
    return replace(fitted, result=replace(fitted.result, diagnostics=more))


def _known_truths(data: Annotations, trusted: Any) -> tuple[pd.Series[Any], np.ndarray]:
    """Gold, and else the class that those trusted gave, by item; and their codes. None where they disagree."""
    who = data.annotator_book.require(one_or_several(trusted), "trusted", "name those who gave labels")
    item, annotator, answer = data.label_codes()
    told = np.isin(annotator, who) & (answer < data.n_classes)
    cells = pd.DataFrame({"item": item[told], "class": answer[told]}).drop_duplicates()
    if data.gold_codes is not None:
        cells = cells[data.gold_codes[cells["item"]] < 0]
        at = np.flatnonzero(data.gold_codes >= 0)
        cells = pd.concat([cells, pd.DataFrame({"item": at, "class": data.gold_codes[at]})])
    twice = cells["item"].duplicated(keep=False)
    if twice.any():
        odd = cells.loc[twice, "item"]
        warn(
            f"annotators in trusted= disagree on {odd.nunique()} items, such as "
            f"{native(data.items[odd.iloc[0]])!r}, whose truths count as unknown; trust one of them, or give "
            "these truths in gold=",
            CrowdpplWarning,
        )
    cells = cells[~twice]
    if len(cells) < 2:
        raise DataError(
            f"annotators in trusted= tell {len(cells)} truths, and two are the least; have them label more items"
        )
    return pd.Series(data.classes[cells["class"].to_numpy()], data.items[cells["item"].to_numpy()]), who


def _quietly(make: Callable[..., Fit], data: Annotations) -> Fit:
    """A fit that is compared, and not shown."""
    with warnings.catch_warnings(action="ignore", category=CrowdpplWarning):
        return uninterrupted(make(data))


def _log_of(truth: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Log-probabilities of truths, codes (n,), without overconfidence: by the best scale and shift."""
    scale, shift = fit_scale(probabilities, truth)
    p = softmax(scale * np.log(np.clip(probabilities, 1e-9, None)) + shift)
    return np.asarray(np.log(p[np.arange(len(truth)), truth]))
