"""What is known of items or annotators beside labels, as numbers that stories can read."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from crowdppl.errors import DataError
from crowdppl.tables.codebook import plain


@dataclass(frozen=True)
class CovariateColumns:
    """Columns of a table of covariates; one that holds no numbers stays aside until a story asks for it.

    Attributes:
        what: "item_covariates" or "annotator_covariates".
        names: of the columns, (D,).
        values: float64 (n, D), a row an item of the block, or an annotator.
        mean: (D,), over all items or annotators of the data.
        faults: by name, why a column cannot be read.
        asked: names that a story has asked for.
    """

    what: str
    names: tuple[Hashable, ...]
    values: Tensor
    mean: Tensor
    faults: Mapping[Hashable, str]
    asked: set[Hashable] = field(default_factory=set, compare=False, repr=False)

    @classmethod
    def of(
        cls, table: pd.DataFrame | None, entity: str, order: np.ndarray | None = None
    ) -> CovariateColumns | None:
        """The columns of a table; None without one.

        Args:
            table: a row for each item or annotator, in codebook order.
            entity: "item" or "annotator".
            order: codes of the rows, as they are wanted; by default as they stand.
        """
        if table is None:
            return None
        values = np.full(table.shape, np.nan)
        faults: dict[Hashable, str] = {}
        for n, name in enumerate(table.columns):
            fault = _fill(values[:, n], table.iloc[:, n], entity)
            if fault or (table.columns == name).sum() > 1:
                faults[name] = fault or "occurs several times; rename all but one"
        mean = torch.from_numpy(values.mean(0) if len(values) else np.zeros(values.shape[1]))
        found = torch.from_numpy(values if order is None else values[order])
        return cls(f"{entity}_covariates", tuple(table.columns), found, mean, faults)

    def chosen(self, names: Sequence[Hashable]) -> Tensor:
        """Some columns (n, D), in the order of their names; without names, all.

        Raises:
            DataError: when there is no such column, or it does not hold a number for everyone.
        """
        wanted = tuple(names) or self.names
        for name in wanted:
            if name not in self.names:
                there = ", ".join(repr(plain(x)) for x in self.names) or "none"
                raise DataError(
                    f"{self.what} have no column {plain(name)!r}, which the story reads; there are {there}"
                )
            if name in self.faults:
                raise DataError(f"the column {plain(name)!r} of {self.what} {self.faults[name]}")
        self.asked.update(wanted)
        return self.values[:, [self.names.index(name) for name in wanted]]

    def at(self, rows: Tensor) -> CovariateColumns:
        """Those of some items."""
        return replace(self, values=self.values[rows])

    def average(self, n: int) -> CovariateColumns:
        """Those of so many items of which nothing is known: the mean over all items."""
        return replace(self, values=self.mean.expand(n, -1))

    def to(self, device: torch.device | str) -> CovariateColumns:
        """The same on a device."""
        return replace(self, values=self.values.to(device), mean=self.mean.to(device))

    @staticmethod
    def joined(parts: Iterable[CovariateColumns | None]) -> CovariateColumns | None:
        """One after the other, of parts of one table."""
        found = [part for part in parts if part is not None]
        return replace(found[0], values=torch.cat([part.values for part in found])) if found else None


def _fill(out: np.ndarray, column: pd.Series[Any], entity: str) -> str:
    """Writes a column's numbers down; says what is wrong where it has none."""
    there = column.notna().to_numpy(bool)
    present = column[there].infer_objects()  # a gap makes a column of whole numbers or of bool another one
    kind = present.dtype
    if not pd.api.types.is_numeric_dtype(kind) or pd.api.types.is_complex_dtype(kind):
        return f"holds no numbers (its dtype is {kind}); encode it as numbers, as pandas.get_dummies does"
    out[there] = present.to_numpy(np.float64)
    wrong = ~np.isfinite(out)
    if not wrong.any():
        return ""
    first = plain(column.index[int(np.argmax(wrong))])
    return f"has no finite number for the {entity} {first!r} ({int(wrong.sum())} in all); fill it in"
