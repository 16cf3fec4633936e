"""Labels and items that stand for all, where labels depend on covariates of their own or of items."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from crowdppl.core.collective import all_gathered
from crowdppl.data.blocks import Block
from crowdppl.data.covariates import CovariateColumns

MOST = 32
"""Labels that stand for an annotator's, at most; of a smooth effect, so many quantiles give the mean closely."""


@dataclass(frozen=True)
class TypicalLabels:
    """Labels over which the table of each annotator is averaged.

    Attributes:
        annotator: of each label, int64 (D,).
        covariates: of each label; None where data have none.
        share: of the annotator's labels for which it stands, float64 (D,); those of an annotator add up to one.
        table: to which it belongs, int64 (D,): that of the annotator, or of the label alone.
    """

    annotator: Tensor
    covariates: CovariateColumns | None
    share: Tensor
    table: Tensor

    @staticmethod
    def of_annotators(annotator: Tensor, covariates: CovariateColumns | None) -> TypicalLabels:
        """Labels each of which has a table of its own."""
        n, device = len(annotator), annotator.device
        return TypicalLabels(annotator, covariates, torch.ones(n, device=device), torch.arange(n, device=device))

    @staticmethod
    def of(
        blocks: Sequence[Block], names: Collection[Hashable], at: Mapping[Hashable, float] | None = None
    ) -> TypicalLabels:
        """Those of a data set: each annotator's labels, those of equal covariates as one; of many, quantiles.

        Tables depend on the covariates of these names, some of which have values ``at`` instead of those in the
        data. An annotator without labels is taken to label under the covariates of all labels.
        """
        first = blocks[0]
        columns = first.label_covariates and CovariateColumns.joined(b.label_covariates for b in blocks)
        if columns is None or not names:  # tables are the same whatever the covariates
            everyone = torch.arange(first.n_annotators, device=first.device)
            return TypicalLabels.of_annotators(everyone, columns and columns.average(first.n_annotators))
        kept = [name for name in columns.names if name in names]
        values = columns.chosen(kept).cpu().numpy().copy()
        for name, value in (at or {}).items():
            values[:, kept.index(name)] = value
        who = torch.cat([block.annotator for block in blocks]).cpu().numpy()
        of_each, of_all = _counted(who, values), _counted(np.full(len(who), first.n_annotators), values)
        annotator, held, share = _thinned(*map(np.concatenate, zip(of_each, of_all, strict=True)))
        silent = np.setdiff1d(np.arange(first.n_annotators), of_each[0])
        of_all_labels = annotator == first.n_annotators
        own, common = np.flatnonzero(~of_all_labels), np.flatnonzero(of_all_labels)
        rows = np.concatenate([own, np.tile(common, len(silent))])
        codes = np.concatenate([annotator[own], np.repeat(silent, len(common))])
        code, known, part = (torch.from_numpy(x).to(first.device) for x in (codes, held[rows], share[rows]))
        return TypicalLabels(code, columns.only(kept, known), part, code)


def typical_items(blocks: Sequence[Block], names: Collection[Hashable]) -> tuple[CovariateColumns | None, Tensor]:
    """Item covariates (n, D) that stand for those of all items, and the share (n,) that each row stands for.

    Of those names that the model reads; without any, one stands for all.
    """
    columns = blocks[0].item_covariates and CovariateColumns.joined(b.item_covariates for b in blocks)
    if columns is None or not names:
        return columns and columns.average(1), torch.ones(1, dtype=torch.float64)
    kept = [name for name in columns.names if name in names]
    values = columns.held(kept).cpu().numpy()
    _, held, share = _thinned(*_counted(np.zeros(len(values), np.int64), values))
    seen, shares = (torch.from_numpy(x).to(columns.values) for x in (held, share))
    return columns.only(kept, seen), shares


Counted = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Codes of annotators (D,), covariates (D, C), and how many labels have them, or their share, (D,)."""


def _counted(who: np.ndarray, values: np.ndarray) -> Counted:
    """Each annotator's different covariates, sorted; where processes share a fit, those in all of them."""
    table = pd.DataFrame(np.column_stack([who, values]))
    own = all_gathered(table.groupby(list(table)).size())
    found = own[0] if len(own) == 1 else pd.concat(own).groupby(level=list(table)).sum()
    rows = found.index.to_frame().to_numpy()
    return rows[:, 0].astype(np.int64), rows[:, 1:], found.to_numpy()


def _thinned(who: np.ndarray, values: np.ndarray, count: np.ndarray) -> Counted:
    """Covariates with shares; of annotators with many, evenly spaced ones of all their labels in order."""
    different, total, ends = np.bincount(who), np.bincount(who, count), np.cumsum(count)
    many = np.flatnonzero(different > MOST)
    steps = (np.arange(MOST) + 0.5) / MOST * total[many, None] + (np.cumsum(total) - total)[many, None]
    spaced = np.searchsorted(ends, steps.ravel(), side="right")
    few = np.flatnonzero(different[who] <= MOST)
    rows = np.concatenate([few, spaced])
    share = np.concatenate([count[few] / total[who[few]], np.full(len(spaced), 1 / MOST)])
    return who[rows], values[rows], share
