"""Labels that stand for all labels of each annotator, where labels depend on their own covariates."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from crowdppl.data.blocks import Block
from crowdppl.data.covariates import CovariateColumns

MOST = 32
"""Labels that stand for an annotator's, at most; of a smooth effect, so many quantiles give the mean closely."""


@dataclass(frozen=True)
class TypicalLabels:
    """Labels over which the table of each annotator is averaged.

    Attributes:
        annotator: of each label, int64 (D,), sorted.
        covariates: of each label; None where the model reads none.
        share: of the annotator's labels for which it stands, float64 (D,); those of an annotator add up to one.
        table: to which it belongs, int64 (D,): that of the annotator, or of the label alone.
    """

    annotator: Tensor
    covariates: CovariateColumns | None
    share: Tensor
    table: Tensor

    @staticmethod
    def each(annotator: Tensor, covariates: CovariateColumns | None) -> TypicalLabels:
        """Labels each of which has a table of its own."""
        n, device = len(annotator), annotator.device
        return TypicalLabels(annotator, covariates, torch.ones(n, device=device), torch.arange(n, device=device))

    @staticmethod
    def of(
        blocks: Sequence[Block], names: Collection[Hashable], at: Mapping[Hashable, float] | None = None
    ) -> TypicalLabels:
        """Those of a data set: each annotator's labels, those of equal covariates as one; of many, quantiles.

        An annotator without labels is taken to label under the covariates of all labels.

        Args:
            blocks: the data.
            names: of the label covariates that the model reads.
            at: values that some covariates have instead of those in the data.
        """
        first = blocks[0]
        columns = CovariateColumns.joined(block.label_covariates for block in blocks)
        if columns is None or not names:
            everyone = torch.arange(first.n_annotators, device=first.device)
            return TypicalLabels.each(everyone, None)
        kept = [name for name in columns.names if name in names]
        values = columns.chosen(kept).cpu().numpy().copy()
        for name, value in (at or {}).items():
            values[:, kept.index(name)] = value
        who = torch.cat([block.annotator for block in blocks]).cpu().numpy()
        table = pd.DataFrame(values).assign(annotator=who)
        every = _thinned(table.drop(columns="annotator"))
        parts = dict(list(table.groupby("annotator")))
        found = [
            _thinned(parts[a].drop(columns="annotator")) if a in parts else every for a in range(first.n_annotators)
        ]
        annotator = np.repeat(np.arange(first.n_annotators), [len(part) for part in found])
        rows = pd.concat(found)
        held, share = (
            torch.tensor(x.to_numpy(), dtype=torch.float64, device=first.device)
            for x in (rows.drop(columns="share"), rows["share"])
        )
        code = torch.from_numpy(annotator).to(first.device)
        return TypicalLabels(code, columns.only(kept, held), share, code)


def _thinned(rows: pd.DataFrame) -> pd.DataFrame:
    """Different rows with the share of each; of many, evenly spaced ones of all rows in their order."""
    counted = rows.groupby(list(rows.columns)).size().rename("share").reset_index()
    if len(counted) <= MOST:
        return counted.assign(share=counted["share"] / len(rows))
    at = np.searchsorted(counted["share"].cumsum(), (np.arange(MOST) + 0.5) / MOST * len(rows), side="right")
    return counted.iloc[at].assign(share=1 / MOST)
