"""Whether a story keeps apart the runs that ride in leading dimensions: chains, particles, draws."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

from torch import Tensor

from crowdppl.data.blocks import Block
from crowdppl.errors import MethodError, NumericalError
from crowdppl.inference.reading.density import Density
from crowdppl.stories.story import Story, plates_of

OFF = 1e-3
"""Relative difference that float32 does not make."""


def refuse_single(
    story: Story,
    block: Block,
    values: Mapping[str, Tensor],
    ranks: Mapping[str, int],
    objective: float | None = None,
) -> None:
    """Refuses a story that reads a site rightly only while it has a single value.

    Args:
        story: the story.
        block: some items.
        values: of each site on these items, drawn from the prior.
        ranks: number of plates of each site.
        objective: at these values, if it is known.

    Raises:
        MethodError: naming the sites.
    """
    plates, runs = plates_of(story), _unlike(block, values)
    try:
        alone = float(Density(story.model, plates)(block, values).objective) if objective is None else objective
    except NumericalError:
        return  # nothing to compare with; the fit will say where it starts to go wrong
    wide = {n: _wide(x, runs, plates - ranks[n]) for n, x in values.items()}
    density = Density(story.model, plates, runs)
    if _same(density, block, wide, alone):
        return
    guilty = [n for n, x in wide.items() if not _same(density, block, {**values, n: x}, alone)]
    raise MethodError(
        f"{type(story).__name__} reads {', '.join(guilty or values)} wrongly when several chains run at once: a "
        "site outside plates then has shape (chains, 1, ...), as if its plate had one member. Index from the right "
        "with '...', as for a site of annotators: share[..., None, :] beside accuracy[..., None, None]"
    )


def _unlike(block: Block, values: Mapping[str, Tensor]) -> int:
    """A number of runs that is no other dimension's size, so that dimensions in the wrong place do not match."""
    sizes = {block.n_classes, block.n_answers, block.n_annotators, block.n_items}
    sizes |= {n for x in values.values() for n in x.shape}
    return next(n for n in count(2) if n not in sizes)


def _wide(x: Tensor, runs: int, pad: int) -> Tensor:
    """The same value for every run, (runs, [1, ...] batch, event)."""
    return x.expand(runs, *x.shape).reshape(runs, *(1,) * pad, *x.shape)


def _same(density: Density, block: Block, wide: Mapping[str, Tensor], alone: float) -> bool:
    """Whether every run has the objective that it has alone."""
    try:
        found = density(block, wide).objective.tolist()
    except (RuntimeError, ValueError, IndexError, NumericalError):
        return False
    return all(abs(x - alone) <= OFF * (1 + abs(alone)) for x in found)
