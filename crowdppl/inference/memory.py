"""What a posterior that was updated remembers of the labels that it has no more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl.inference.fit_result import SiteResult
from crowdppl.tables.codebook import Codebook

if TYPE_CHECKING:
    from crowdppl.data.annotations import Annotations

Sites = Mapping[str, SiteResult]


@dataclass(frozen=True)
class Record:
    """Items as a fit left them, so that they can come again without counting twice.

    Attributes:
        items: their ids, (M,).
        probabilities: of their truths, (M, K): what they count in sites such as the prevalence.
        votes: how many labels that name a class each of them had by then, int64 (M,).
        sites: of that fit, those of annotators and items left out: what was known of a truth before its labels.
    """

    items: pd.Index[Any]
    probabilities: np.ndarray
    votes: np.ndarray
    sites: Sites

    def some(self, kept: np.ndarray) -> Record:
        """Those of the items that ``kept``, bool (M,), says."""
        return Record(self.items[kept], self.probabilities[kept], self.votes[kept], self.sites)


@dataclass(frozen=True)
class Memory:
    """What labels of earlier fits taught.

    Attributes:
        sites: priors of the last update: what annotators and everything else shared carry along, without what
            items counted that came again.
        items: ids of the items of the last update, (N,).
        evidence: what earlier labels said of their truths, log-potentials (N, K); 0 of items that are new.
        votes: how many labels that name a class they had in earlier fits, int64 (N,).
        labels: how many labels each annotator gave in earlier fits, int64 (A,).
        records: items of earlier fits that are not among those of the last update.
    """

    sites: Sites
    items: pd.Index[Any]
    evidence: np.ndarray
    votes: np.ndarray
    labels: np.ndarray
    records: tuple[Record, ...] = field(default=())

    def said_of(self, data: Annotations) -> np.ndarray:
        """What earlier labels said of the items of ``data``: log-potentials (N, K) by position."""
        code = Codebook("item", self.items).codes(data.items)
        out = np.where((code >= 0)[:, None], self.evidence[code], 0.0)
        return np.asarray(out[data.order])

    def taken_apart(self) -> dict[str, Any]:
        """Everything as ids, arrays and plain values."""
        records = [vars(x) | {"sites": _plain(x.sites)} for x in self.records]
        return vars(self) | {"sites": _plain(self.sites), "records": records}


def put_together(parts: Mapping[str, Any]) -> Memory:
    """The memory that ``taken_apart`` described."""
    records = tuple(Record(**{**x, "sites": _again(x["sites"])}) for x in parts["records"])
    return Memory(**{**parts, "sites": _again(parts["sites"]), "records": records})


def _plain(sites: Sites) -> dict[str, Any]:
    return {name: vars(site) for name, site in sites.items()}


def _again(sites: Mapping[str, Any]) -> Sites:
    return {name: SiteResult(**parts) for name, parts in sites.items()}
