"""What labels taught about Dirichlets, and what is left of it where some of them are taken away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from crowdppl.errors import MethodError
from crowdppl.inference.reading.density import FLOOR
from crowdppl.inference.reading.uses import Uses

NOTHING = 1e-10
"""Counts that are as good as none: a sum less its only term leaves about so much by rounding."""


@dataclass(frozen=True)
class Taught:
    """What the labels taught about one site.

    Attributes:
        concentration: (rows, width) prior and counts.
        prior: (rows, width) where the fit is a point, the mode of ``concentration``; None where it is that
            Dirichlet itself.
    """

    concentration: np.ndarray
    prior: np.ndarray | None

    def log_entries(self, entry: np.ndarray, change: np.ndarray, row_change: np.ndarray, mean: bool) -> np.ndarray:
        """Log of some entries when counts change: arrays of one length.

        Args:
            entry: the entries, flat.
            change, row_change: what is added to the counts of an entry, and to those of its whole row.
            mean: log of the expected entry, which predicts a label; else the expected log, by which a label tells
                of the truth. At a point, the two are the same.

        Raises:
            MethodError: when more is taken away than there is.
        """
        width = self.concentration.shape[1]
        c = self.concentration if self.prior is None else self.concentration - 1
        left, total = c.ravel()[entry] + change, c.sum(1)[entry // width] + row_change
        if self.prior is not None:
            before = (self.prior / self.prior.sum(1, keepdims=True)).ravel()[entry]
            share = np.where(total > NOTHING, left.clip(0) / total.clip(NOTHING), before)
            return np.asarray(np.log(np.where(share > NOTHING, share, 0).clip(np.exp(FLOOR))))
        if not (left > 0).all():
            raise MethodError(
                "a label counts more than all that the fit holds of its kind, so that the fit has not settled; fit "
                "again with a smaller tolerance, more max_iterations and no batch_size"
            )
        if mean:
            return np.asarray(np.log(left / total))
        log_mean = torch.from_numpy(left).digamma() - torch.from_numpy(total).digamma()
        return np.asarray(log_mean.clamp(min=FLOOR))


@dataclass(frozen=True)
class Cavities:
    """Units, such as labels, for each of which what was taught is changed by counts of its own.

    Attributes:
        uses: entries, (K, E).
        unit: the unit of each column, (E,).
        taught: by site.
    """

    uses: Uses
    unit: np.ndarray
    taught: Mapping[str, Taught]

    def log_p(self, change: np.ndarray, mean: bool) -> np.ndarray:
        """Log-probabilities (K, E) when each unit adds (K, E) to the counts of the entries that it uses."""
        out = self.uses.constant.copy()
        for name, (has, entry, same, same_row) in self._shared.items():
            weight = change[has]
            in_entry, in_row = np.bincount(same, weight)[same], np.bincount(same_row, weight)[same_row]
            out[has] += self.taught[name].log_entries(entry, in_entry, in_row, mean)
        return out

    @cached_property
    def _shared(self) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """By site: the places of (K, E) that use it, their entries, and which of them a unit has in common."""
        found = {}
        units = np.broadcast_to(self.unit.astype(np.int64), self.uses.constant.shape)
        for name, entries in self.uses.entries.items():
            has = entries >= 0
            unit, entry, (rows, width) = units[has], entries[has], self.taught[name].concentration.shape
            same = np.unique(unit * (rows * width) + entry, return_inverse=True)[1]
            same_row = np.unique(unit * rows + entry // width, return_inverse=True)[1]
            found[name] = (has, entry, same, same_row)
        return found
