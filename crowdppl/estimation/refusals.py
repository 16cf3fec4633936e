"""What cannot be claimed: too few labelled items, rare outcomes, strata without people, a sample not at random."""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdppl.errors import DataError, MethodError
from crowdppl.estimation.designs import Design
from crowdppl.estimation.figures import Sample

FEWEST = 10
"""Labelled items of a figure, at least; with fewer, no interval is known to hold."""
FEWEST_TO_MONITOR = 30
"""Of an interval that holds at any time, which rests on a central limit theorem."""
RARE, DISCORDANT = 3, 10
"""Items, at least, that differ from most: of differences, those of which one of the two is right."""
NOT_RANDOM = 4.5
"""Standard errors by which items that people saw may differ from all in what the proxy says of them."""


def require_enough(quantity: str, group: Any, value: np.ndarray, fewest: int) -> None:
    """Refuses a figure of too few labelled items, or of outcomes too rare among them."""
    n, where = len(value), "" if group == "all" else f" of group {group!r}"
    if n < fewest:
        raise MethodError(
            f"people labelled {n} items{where}, too few for an interval; have at least {fewest} labelled"
            + ("" if group == "all" else ", or merge groups")
        )
    outcomes, times = np.unique(value.round(9), return_counts=True)
    usual = 0.0 if quantity == "difference" else outcomes[times.argmax()]
    different, wanted = (
        int(np.count_nonzero(abs(value - usual) > 1e-9)),
        DISCORDANT if quantity == "difference" else RARE,
    )
    if different < wanted:
        what = "one of the two is right" if quantity == "difference" else f"the value is not {usual:g}"
        need = int(np.ceil(n * wanted / max(different, 1)))
        raise MethodError(
            f"of {n} items{where} that people labelled, {what} on {different}: too rare for an interval, which "
            f"needs {wanted}; about {need:,} labelled items would do, or a sample with more of these (strata=)"
        )


def require_units(group: Any, design: Design) -> None:
    """Refuses strata of which one unit was drawn, or none."""
    units = design.units
    if (units < 2).any() or len(units) < design.n_strata:
        where = "" if group == "all" else f" of group {group!r}"
        raise MethodError(
            f"{design.n_strata - np.count_nonzero(units >= 2)} strata{where} have fewer than two labelled items "
            "(or clusters), so that nobody knows how these differ; label two of each, or merge strata"
        )


def require_random(sample: Sample, design: Design, scope: np.ndarray) -> None:
    """Refuses items that were clearly not drawn as is said: the proxy's ranks of them differ from those of all."""
    from scipy.stats import rankdata  # slow to import

    if design.unseen is not None:
        return  # of few clusters, ranks differ by chance
    rank = np.zeros(len(sample.proxy.items))
    rank[scope] = rankdata(sample.forecast[scope]) / len(scope)
    off = float(design.weight @ rank[sample.row] / design.weight.sum() - rank[scope].mean())
    error = float(np.sqrt(design.variance_of(rank[scope].var()[None])[0]))
    if abs(off) > NOT_RANDOM * error + 1e-9:
        raise DataError(
            f"people labelled items that the proxy ranks {'higher' if off > 0 else 'lower'} than others, by "
            f"{abs(off) / error:.1f} standard errors: they were not drawn at random, and no interval "
            "would hold; say how they were drawn (chances= or strata=), or draw anew"
        )
