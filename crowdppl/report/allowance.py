"""An allowance for errors that annotators may share, which answers cannot show: what labels would be without it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil, sqrt

import numpy as np

from crowdppl.inference.result import Fit
from crowdppl.primitives.model import discount_of
from crowdppl.report.blocks import Text
from crowdppl.report.facts import SETTLED, Facts
from crowdppl.report.words import say
from crowdppl.results.correction import MIN_GOLD, averaged, members

TAKEN = 0.5
"""Share of the settled labels from which on it is told that an allowance takes them."""
CERTAIN, FOUND = 1.645, 1.282
"""Of a test of one share against another: quantiles for 5 % of false alarms, and for 9 of 10 cases found."""


def if_independent(posterior: Fit) -> np.ndarray | None:
    """Probabilities (N, K) where annotators err independently; None where nothing but that is assumed.

    They are those without the softening for a bias that annotators may share; of a panel of models, which are taken
    to err together, those of its member that takes them for independent.
    """
    correction = posterior.correction
    if correction is None or correction.gold:  # known truths have told
        return None
    if discount_of(posterior.model) > 0:
        alone = without_discount(posterior)
        return None if alone is None else alone.result.probabilities
    if correction.temperature in (None, 1):
        return None
    return averaged(members(posterior), replace(correction, temperature=None)).result.probabilities


def without_discount(posterior: Fit) -> Fit | None:
    """The first member of a fit that takes annotators for independent; None where there is none."""
    return next((fit for fit in members(posterior).values() if discount_of(fit.model) == 0), None)


@dataclass(frozen=True)
class Allowance:
    """What labels would be without an allowance.

    Attributes:
        settled: how many would be.
        changed: labels that would be others.
        said, alone: expected share of right labels, with and without.
        checks: random items to be checked so that one of these two is refuted.
    """

    settled: int
    changed: int
    said: float
    alone: float
    checks: int

    @classmethod
    def of(cls, facts: Facts) -> Allowance | None:
        """That of a fit; None where there is none, or it does not take half of the settled labels."""
        p, of = if_independent(facts.posterior), facts.of_classes
        free = ~of.given
        if p is None or not free.any():
            return None
        sure = p.max(1)[free]
        settled = int((sure >= SETTLED).sum())
        if not (of.tier[free] == 0).sum() <= TAKEN * settled or settled == 0:
            return None
        changed = int((p.argmax(1) != of.code)[free].sum())
        said, alone = float(of.sure[free].mean()), float(sure.mean())
        return cls(settled, changed, said, alone, checks(said, alone))


def checks(said: float, alone: float) -> int:
    """Random items to be checked so that a share of right labels is told from a larger one; at least 10."""
    spread = CERTAIN * sqrt(alone * (1 - alone)) + FOUND * sqrt(said * (1 - said))
    return max(MIN_GOLD, ceil((spread / max(alone - said, 1e-9)) ** 2))


def told(facts: Facts) -> Iterator[Text]:
    """Why nothing or little is settled, what would be if people erred independently, and how to find out."""
    found = facts.once(Allowance.of)
    if found is None:
        return
    of = facts.of_classes
    n, free = int((of.tier[~of.given] == 0).sum()), int((~of.given).sum())
    values = {"settled": found.settled, "said": round(100 * found.said), "alone": round(100 * found.alone)}
    same = say("minute.alone_changed", n=found.changed)
    yield Text([say("minute.allowance", n=n), say("minute.alone", same=same, **values)])
    if (seen := int(of.compared.sum())) >= min(found.checks, free):
        yield Text(say("minute.alone_checked", n=seen))
    else:
        yield Text(say("minute.alone_checks", n=min(found.checks, free)))
