"""The table of methods and engines: asked of the engines themselves on a few simulated labels."""

from __future__ import annotations

import re
import warnings
from functools import cache

from crowdppl import registry
from crowdppl.data.annotations import Annotations
from crowdppl.inference.engines import ENGINES, engine_support
from crowdppl.primitives.model import card_of
from tests.benchmarks.simulated import draw
from tests.benchmarks.tables import markdown

MEANING = (
    "exact: every update has a closed form, and nothing is approximated. mean-field: closed-form updates of a "
    "factorised approximation. gradient: some sites, or all, are moved along gradients."
)


def a_few_labels() -> Annotations:
    """Sixty items, eight annotators, three grades."""
    drawn = draw(60, 4, 8, 3, seed=1)
    return Annotations.from_arrays(drawn.item, drawn.annotator, drawn.label, kind="ordinal")


@cache
def cells() -> dict[str, dict[str, str]]:
    """What each engine does with each method of the zoo at its default settings."""
    data = a_few_labels()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            name: {engine: engine_support(registry.method(name), data, engine) for engine in ENGINES}
            for name in registry.names()
        }


def table() -> str:
    """The Markdown table, its refusals numbered, and their reasons below it."""
    reasons: list[str] = []
    rows = []
    for name, row in cells().items():
        card = card_of(registry.method(name))
        titled = f"`{name}`" if card is None else f"[{card.title}](docs/methods/{name}.md) `{name}`"
        rows.append([titled, *(_shown(text, reasons) for text in row.values())])
    notes = "\n".join(f"{number}. {reason}" for number, reason in enumerate(reasons, 1))
    return f"{markdown(['method', *ENGINES], rows)}\n\n{MEANING}\n\nRefused, because\n\n{notes}"


def _shown(text: str, reasons: list[str]) -> str:
    """A cell as the table shows it; the reason of a refusal is kept once and numbered."""
    if not text.startswith("refused"):
        return text
    reason = re.sub(r"^.* refuses inference='\w+': ", "", text.removeprefix("refused: ").strip())
    if reason not in reasons:
        reasons.append(reason)
    return f"refused ({reasons.index(reason) + 1})"
