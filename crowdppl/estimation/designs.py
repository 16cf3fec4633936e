"""How items were chosen for people: weights, strata, clusters, and the variance of a total over a design."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Design:
    """The items that people labelled, n of N.

    Attributes:
        row: (n,) which items.
        weight: (n,) how many items each stands for; their sum is N.
        chance: (n,) probability that an item is labelled; 0 where N is taken to be large.
        stratum: (n,) code.
        unit: (n,) code of what was drawn: the item, or a cluster of items.
        unseen: (H,) share of the units of a stratum that was not drawn, 1 where parts of units are labelled; None
            where units are items.
        n_strata: H, of all items.
    """

    row: np.ndarray
    weight: np.ndarray
    chance: np.ndarray
    stratum: np.ndarray
    unit: np.ndarray
    unseen: np.ndarray | None = None
    n_strata: int = 1

    @classmethod
    def of(
        cls,
        row: np.ndarray,
        scope: np.ndarray,
        chance: np.ndarray | None,
        stratum: np.ndarray | None,
        cluster: np.ndarray | None,
        finite: bool,
    ) -> Design:
        """Of labelled items (n,) among those in scope (N,), with arrays of all items where they are known."""
        of_all = np.zeros(int(scope.max()) + 1, np.int64) if stratum is None else stratum
        strata, of_items = np.unique(of_all[scope], return_inverse=True)
        own = np.searchsorted(strata, of_all[row])
        total, drawn = np.bincount(of_items), np.bincount(own, minlength=len(strata))
        pi = (drawn / total)[own] if chance is None else chance[row]
        weight = len(scope) / (1 / pi).sum() / pi
        unit, unseen = row, None
        if cluster is not None:
            unit = cluster[row]
            pairs = (
                np.unique(np.stack([of_items, cluster[scope]]), axis=1)[0],
                np.unique(np.stack([own, unit]), axis=1)[0],
            )
            there, seen = (np.bincount(x, minlength=len(strata)) for x in pairs)
            whole = len(row) == np.isin(cluster[scope], unit).sum()
            unseen = 1 - seen / np.maximum(there, 1) if whole else np.ones(len(strata))
        if not finite:
            pi, unseen = np.zeros(len(row)), None if unseen is None else np.ones_like(unseen)
        return cls(row, weight, pi, own, np.unique(unit, return_inverse=True)[1], unseen, len(strata))

    @property
    def units(self) -> np.ndarray:
        """How many units were drawn of each stratum, (H,)."""
        return np.bincount(np.unique(np.stack([self.stratum, self.unit]), axis=1)[0])

    @property
    def degrees(self) -> int:
        """Degrees of freedom: units less strata."""
        return int(self.units.sum() - np.count_nonzero(self.units))

    def totals(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of values (n, P): sums by unit (M, P), as parts of the mean over all items, and strata of units (M,)."""
        share = self.weight / self.weight.sum()
        of_stratum = np.stack([np.bincount(self.stratum, share * x) for x in values.T], 1)
        centre = of_stratum / np.bincount(self.stratum, share)[:, None]
        part = (values - centre[self.stratum]) * share[:, None]
        part = part * np.sqrt(1 - self.chance)[:, None] if self.unseen is None else part
        (stratum, _), place = np.unique(np.stack([self.stratum, self.unit]), axis=1, return_inverse=True)
        place = np.ravel(place)
        return np.stack([np.bincount(place, x) for x in part.T], 1), stratum

    def variance(self, values: np.ndarray) -> np.ndarray:
        """Of the weighted mean of values (n, P), (P,), from units within strata (Cochran 1977, chapters 5, 9A, 11).

        Items that are drawn with unequal probabilities count as drawn one by one, times 1 - probability.
        """
        total, stratum = self.totals(values)
        m = np.bincount(stratum)
        mean = np.stack([np.bincount(stratum, x) for x in total.T], 1) / np.maximum(m, 1)[:, None]
        square = (total - mean[stratum]) ** 2
        factor = m / np.maximum(m - 1, 1) * (1 if self.unseen is None else self.unseen)
        return np.asarray((square * factor[stratum][:, None]).sum(0))

    def variance_of(self, spread: np.ndarray) -> np.ndarray:
        """Of the weighted mean, (P,), were the variance of each value ``spread``, (P,) or (n, P)."""
        share = self.weight / self.weight.sum()
        left = 1 - self.chance if self.unseen is None else self.unseen[self.stratum]
        return np.asarray((share**2 * left) @ np.broadcast_to(spread, (len(share), spread.shape[-1])))
