"""How the prior of a method is made to lean on the diagonal, in terms of the method's own settings."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crowdppl.posterior import Posterior

COINS = (("right", "wrong"), ("knows", "guesses"))
"""Settings that are pseudo-counts of labels on the diagonal, and of those beside it."""


def leaning(posterior: Posterior) -> str:
    """What to do so that the prior takes annotators for right more often, as the end of a sentence."""
    story: Any = posterior.story
    known = {field.name for field in fields(story)} if is_dataclass(story) else set()
    for one, other in COINS:
        if {one, other} <= known:
            now = f"{getattr(story, one):g}, where {other}= is {getattr(story, other):g}"
            return f"let the prior lean more on the diagonal, by the setting {one}= (now {now})"
    if {"diagonal", "mass"} <= known and story.mass is not None:
        share = (1 + 1 / posterior.data.n_classes) / 2 if story.diagonal is None else story.diagonal
        return (
            f"let the prior lean more on the diagonal, by the settings diagonal= (now {share:.2g}) and mass= (now "
            f"{story.mass:g} labels a row)"
        )
    return "take a method whose prior leans on the diagonal, such as bayesian_dawid_skene"
