"""That a story's density is what Pyro says, and that chains ride along: checked without any fit."""

from __future__ import annotations

from collections.abc import Callable

import torch
from pyro import poutine
from pyro.infer import TraceEnum_ELBO

from crowdppl.contract.stories import continuous_sites, latent_values, ready
from crowdppl.contract.trial import Trial, require
from crowdppl.data.blocks import Block
from crowdppl.inference.reading.density import Density
from crowdppl.inference.reading.problem import quiet
from crowdppl.stories.story import Story, plates_of


def density_is_pyros(trial: Trial) -> None:
    """Summed out by crowdppl and by Pyro's enumeration, the labels have one log-likelihood, with one gradient."""
    for data in (trial.data, trial.odd):
        same_density(ready(trial, data), data.as_block())


def chains_are_runs(trial: Trial) -> None:
    """Three chains in one pass give what three passes give: the story indexes from the right."""
    same_chains(ready(trial, trial.data), trial.data.as_block())


def same_density(story: Story, block: Block) -> None:
    """``density_is_pyros`` of a story with nothing left to be found in the data."""
    with quiet("cpu"):
        at = latent_values(story, block, 2)
        density = Density(story.model, plates_of(story))
        found = density(block, at, gradient=list(at))
        model = poutine.block(poutine.condition(story.model, data=at), hide=list(at))
        nothing: Callable[..., None] = lambda data: None  # noqa: E731
        theirs = -TraceEnum_ELBO(max_plate_nesting=plates_of(story)).loss(model, nothing, block)
        _near(float(found.objective), theirs, "the log-likelihood", "under TraceEnum_ELBO")
        step = {n: 1e-6 * torch.randn(x.shape) * x for n, x in at.items()}
        up, down = ({n: x + sign * step[n] for n, x in at.items()} for sign in (1, -1))
        slope = float(density(block, up).objective - density(block, down).objective) / 2
        mine = sum(float((found.gradient[n] * step[n]).sum()) for n in at)
        _near(mine / 1e-6, slope / 1e-6, "the gradient", "by finite differences", 1e-4)


def same_chains(story: Story, block: Block) -> None:
    """``chains_are_runs`` of such a story."""
    plates = plates_of(story)
    with quiet("cpu"):
        draws = [latent_values(story, block, seed) for seed in (1, 2, 3)]
        ranks = {n: len(x["fn"].batch_shape) for n, x in continuous_sites(story, block, 1).items()}
        wide = {}
        for name, rank in ranks.items():
            x = torch.stack([values[name] for values in draws])
            wide[name] = x.reshape(x.shape[:1] + (1,) * (plates - rank) + x.shape[1:])
        together = Density(story.model, plates, 3)(block, wide, gradient=list(wide))
        for c, values in enumerate(draws):
            alone = Density(story.model, plates)(block, values, gradient=list(values))
            _near(float(together.objective[c]), float(alone.objective), f"chain {c} of 3", "alone")
            for name, x in alone.gradient.items():
                off = float((together.gradient[name][c].reshape(x.shape) - x).abs().max())
                require(
                    off <= 1e-8 * (1 + float(x.abs().max())),
                    f"the gradient of {name!r} in chain {c} is off by {off}",
                )


def _near(a: float, b: float, what: str, other: str, tolerance: float = 1e-8) -> None:
    require(abs(a - b) <= tolerance * (1 + abs(b)), f"{what} is {a!r}, {other} {b!r}")
