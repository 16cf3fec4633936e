"""Stochastic steps before the full passes: natural gradients on random items, Adam on everything else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from crowdppl.data.blocks import Block
from crowdppl.errors import MethodError
from crowdppl.inference.climbing.ascent import Ascent
from crowdppl.inference.climbing.rules import Average
from crowdppl.inference.options import Options
from crowdppl.inference.reading.problem import Problem

EPOCHS = 3
DELAY, FORGETTING = 1.0, 0.6
"""Step t moves a share (t + delay) ** -forgetting of the way (Hoffman et al. 2013)."""


def warm_up(ascent: Ascent, problem: Problem, options: Options) -> None:
    """Moves a fit by a few epochs over minibatches; full passes are to follow, and make it exact.

    Dirichlets move by natural gradients, one-hot sites by averaged logits (assigned logits would follow every
    batch), prior parameters as in full batch.

    Args:
        ascent: the engine at its start; its state is moved in place.
        problem: story and data.
        options: items a minibatch, seed.

    Raises:
        MethodError: for em, and for stories with sites of items or other sites that need gradients.
    """
    assert options.batch_size is not None
    if not isinstance(ascent.rule, Average):
        raise MethodError("batch_size is a setting of vb and svi; em runs over all items (use inference='vb')")
    free = [n for n in ascent.state.gaussians.sites if problem.sites[n].kind == "free"]
    if free:
        raise MethodError(
            f"vb with batch_size refuses {type(problem.story).__name__}: {', '.join(free)} has no natural "
            "gradient; leave batch_size out"
        )
    rng = np.random.default_rng(options.seed)
    share = options.batch_size / problem.n_items
    t = 0
    for _ in range(EPOCHS):
        for block in problem.blocks:
            size = max(1, round(share * block.n_items))
            order = rng.permutation(block.n_items)
            for chosen in np.array_split(order, max(1, block.n_items // size)):
                batch = block.subset(np.sort(chosen), problem.n_items / len(chosen))
                _step(ascent, batch, (t + DELAY) ** -FORGETTING)
                t += 1


def _step(ascent: Ascent, batch: Block, rate: float) -> None:
    """One minibatch, seen through an engine whose only block it is."""
    before = {n: x.clone() for n, x in ascent.state.logits.items()}
    fold = replace(ascent.fold, blocks=[replace(batch, offset=0)])
    part = Ascent(fold, Average(rate), ascent.state)
    part.step()
    for name, old in before.items():
        moved: Tensor = torch.lerp(old, ascent.state.logits[name], rate)
        ascent.state.logits[name] = moved
