"""Which engine takes a story, and which refuses it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from crowdppl.errors import DataError, MethodError
from crowdppl.inference.options import Options
from crowdppl.inference.reading.problem import Problem
from crowdppl.networks.sight import network_of
from crowdppl.stories.story import Story, card_of

if TYPE_CHECKING:
    from crowdppl.data.annotations import Annotations

AUTO_SECONDS = 10.0
"""Gibbs is chosen when it is exact and all fits asked for should take about this long at most."""
A_PASS, A_LOOKUP, A_NUMBER = 2.5e-3, 1.2e-8, 1e-7
"""Seconds of a sweep: for each pass over the labels, for each label, state of an item and chain in a pass, and
for each number drawn from Dirichlets. These and the next are fitted to the median processor time of a sweep, on one
thread of a busy machine, in 71 settings: nine methods; 320 to 100,000 labels, five an item; 2 to 10 classes; 10 to
1,000 annotators; 4 to 32 chains. Sweeps took .65 to 2.3 times what the formula says, most with mixed membership of
ten classes."""
A_SEARCH, A_SEARCHED = 1.2e-2, 1e-6
"""Seconds of a sweep that parameters of priors add: for their search, and for each number below them."""


def check_uses(story: Story, data: Annotations) -> None:
    """Refuses data that do not have what the method's card says it reads, or have a history that it cannot use.

    Raises:
        MethodError: for a history, without a prior on confusion or accuracy.
        DataError: for covariates that are missing.
    """
    card = card_of(story)
    if data.history is not None and card is not None and "history" not in card.uses:
        raise MethodError(
            f"{card.title} has no prior that annotators' history could enter; leave history out, or use a method "
            "whose card lists it (crowdppl.zoo() shows which)"
        )
    for entity in ("item", "annotator"):
        what = f"{entity}_covariates"
        if card is not None and what in card.uses and getattr(data, what) is None:
            raise DataError(
                f"{card.title} reads {what}, and the data have none; give {what}=, a DataFrame by {entity} id"
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
    """gibbs where it is exact and cheap, else vb, else em: by a formula, ``gibbs_seconds``, and the number of fits.

    Returns:
        The engine and a sentence that says why.
    """
    card = card_of(problem.story)
    refused = set(card.refused) if card is not None else set()
    learns = network_of(problem.story) is not None
    whole = not learns and options.batch_size is None
    exact = whole and not problem.of_kind("free") and "gibbs" not in refused
    if exact and fits * gibbs_seconds(problem, options) <= AUTO_SECONDS:
        return "gibbs", ""
    if "vb" not in refused:
        return "vb", ""
    return ("em" if "em" not in refused else "svi"), ""


def gibbs_seconds(problem: Problem, options: Options) -> float:
    """About how long gibbs takes, by a formula and never by a clock, so that a seed has one result everywhere.

    An item has as many states as classes, or more where a story sums out a variable of its own (a mixture of
    classes, a subtype). Each one-hot site of annotators takes a pass of its own.
    """
    numbers = sum(math.prod(s.shape(problem.n_items)) for s in problem.of_kind("conjugate")) * options.chains
    lookups = problem.n_labels * problem.states * options.chains
    sweep = (1 + len(problem.of_kind("onehot"))) * (A_PASS + A_LOOKUP * lookups) + A_NUMBER * numbers
    if problem.of_kind("hyper"):
        sweep += A_SEARCH + A_SEARCHED * numbers
    return (options.warmup + options.draws) * sweep
