"""Which engine takes a story, and which refuses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crowdppl.errors import MethodError
from crowdppl.inference.options import Options
from crowdppl.inference.problem import Problem
from crowdppl.sight import network_of
from crowdppl.story import Story, card_of

if TYPE_CHECKING:
    from crowdppl.annotations import Annotations

AUTO_SECONDS = 10.0
"""Gibbs is chosen when it is exact and all fits asked for should take about this long at most."""


def check_history(story: Story, data: Annotations) -> None:
    """Refuses annotators' history for a method without a prior on confusion or accuracy.

    Raises:
        MethodError: naming methods' remedy.
    """
    card = card_of(story)
    if data.history is not None and card is not None and "history" not in card.uses:
        raise MethodError(
            f"{card.title} has no prior that annotators' history could enter; leave history out, or use a method "
            "whose card lists it (crowdppl.zoo() shows which)"
        )


def refuse(story: Story, engine: str) -> None:
    """Refuses an engine that the method's card rules out.

    Raises:
        MethodError: with the card's reason.
    """
    card = card_of(story)
    if engine in ("gibbs", "nuts") and network_of(story) is not None:
        raise MethodError(
            f"{type(story).__name__} has a network, which {engine} does not train; use 'vb', 'em' or 'svi'"
        )
    if card is not None and engine in card.refused:
        raise MethodError(f"{card.title} refuses inference={engine!r}: {card.refused[engine]}")


def choose(problem: Problem, options: Options, fits: int = 1) -> tuple[str, str]:
    """gibbs where it is exact and cheap, else vb, else em: by a formula in labels, K, chains and fits.

    Returns:
        The engine and a sentence that says why.
    """
    card = card_of(problem.story)
    refused = set(card.refused) if card is not None else set()
    k = problem.blocks[0].n_classes
    sweeps = options.warmup + options.draws
    seconds = sweeps * (2e-3 + 5e-9 * problem.n_labels * k * options.chains)
    learns = network_of(problem.story) is not None
    whole = not learns and options.batch_size is None
    exact = whole and not problem.of_kind("free") and "gibbs" not in refused
    if exact and fits * seconds <= AUTO_SECONDS:
        return "gibbs", ""
    if "vb" not in refused:
        return "vb", ""
    return ("em" if "em" not in refused else "svi"), ""
