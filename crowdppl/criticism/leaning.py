"""How the prior of a method is made to lean on the diagonal, in terms of the method's own settings."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crowdppl.posterior import Posterior

COINS = (("right", "wrong"), ("knows", "guesses"))
"""Settings that are pseudo-counts of labels on the diagonal, and of those beside it."""
UNUSED = {"pooled": (None, 0), "prior": ("house",), "form": ("generative",)}
"""Settings of rows of confusions that leave ``mass`` and ``diagonal`` unused, unless they are these."""


def leaning(posterior: Posterior) -> str:
    """What to do so that the prior takes annotators for right more often, as the end of a sentence."""
    story: Any = posterior.story
    known = {field.name: getattr(story, field.name) for field in fields(story)} if is_dataclass(story) else {}
    for one, other in COINS:
        if all(isinstance(known.get(name), int | float) for name in (one, other)):
            now = f"{known[one]:g}, where {other}= is {known[other]:g}"
            return f"let the prior lean more on the diagonal, by the setting {one}= (now {now})"
    mass, share = known.get("mass"), known.get("diagonal", "")
    share = (1 + 1 / posterior.data.n_classes) / 2 if share is None else share
    used = all(known.get(name, usual[0]) in usual for name, usual in UNUSED.items())
    if used and isinstance(mass, int | float) and isinstance(share, int | float):
        return (
            f"let the prior lean more on the diagonal, by the settings diagonal= (now {share:.2g}) and mass= (now "
            f"{mass:g} labels a row)"
        )
    return "take a method whose prior leans on the diagonal, such as bayesian_dawid_skene"
