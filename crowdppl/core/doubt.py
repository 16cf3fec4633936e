"""A doubt: a reason not to believe a fit as it is, as a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Doubt:
    """A reason not to believe a fit as it is.

    ``str`` of it is its text. A report may choose other words by the kind, those concerned and the figures.

    Attributes:
        kind: its name, as in ``crowdppl.criticism.doubts``; a method may have kinds of its own.
        text: a sentence for people: what was found, where, and what can be done.
        who: ids of those concerned, by what they are: "annotators", "items", "classes", "answers" (said in place of
            the classes, one for each) or "statistics" (of ``predictive_check``).
        figures: the numbers found, by name; a tuple has one for each of the classes.
        remedies: calls that help, the best first, as Python expressions of ``crowdppl``, ``dataclasses``,
            ``posterior``, ``data`` (that of the posterior), ``gold`` (known truths, which you give), ``rows``
            (the labels as you had them before) and, at a level of a tree of classes, ``finer`` (the posterior that
            ``at_level`` was called on).
        general: whether it holds for all such fits, whatever their labels; ``fit`` does not warn of it.

    Examples:
        >>> crowd = crowdppl.simulate_annotators([0, 1, 2] * 50, {"hammer": 3, "spammer": 1}, seed=0)
        >>> (doubt,) = crowdppl.fit("one_coin", crowd.data, inference="em", seed=0).doubts()
        >>> doubt.kind, doubt.who, doubt.figures["share"], doubt.remedies
        ('spammers', {'annotators': ('spammer-1',)}, 0.25, ("posterior.without(['spammer-1'])",))
    """

    kind: str
    text: str
    who: Mapping[str, tuple[Any, ...]] = field(default_factory=dict, hash=False)
    figures: Mapping[str, float | tuple[float, ...]] = field(default_factory=dict, hash=False)
    remedies: tuple[str, ...] = ()
    general: bool = False

    def __str__(self) -> str:
        return self.text
