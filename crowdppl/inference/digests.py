"""What a fit is, as a digest, by which its checkpoints are told from those of another."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from crowdppl.inference.options import Options
from crowdppl.inference.reading.problem import Problem
from crowdppl.networks.sight import networks_of, state_of
from crowdppl.networks.standardise import parts
from crowdppl.stories.story import settings_of


def key_of(problem: Problem, options: Options, engine: str) -> str:
    """A digest of all that a result depends on: story, networks as they begin, data, engine and its options."""
    networks = networks_of(problem.story)
    settings = {name: x for name, x in settings_of(problem.story).items() if name not in networks}
    about = [type(problem.story).__name__, repr(sorted(settings.items())), engine, options.seed, options.guide]
    about += [repr(sorted(networks.items())), str(problem.blocks[0].dtype)]
    # Informative abstentions go without a word: all were, in checkpoints from before they could be ignorable.
    first = problem.blocks[0]
    about += ["ignorable"] * (first.n_answers > first.n_classes and not first.informative)
    return digest_of(about, _tensors(problem))


def _tensors(problem: Problem) -> Iterator[tuple[str, Tensor | None]]:
    """Those that a result depends on, by name."""
    yield from problem.given.items()
    for network in networks_of(problem.story).values():
        yield from learned(network)
    for block in problem.blocks:
        yield from ((name, getattr(block, name)) for name in ("gold", "evidence", "history", "abstainers"))
        for columns in (block.item_covariates, block.annotator_covariates):
            if columns is not None:
                yield f"{columns.what} {columns.names}", columns.values
        yield "cells", block.bags.cells
        yield "rows", block.bags.row_starts
        yield from (("features", part) for part in (() if block.features is None else parts(block.features)))


def learned(network: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """What a network holds, by names that tell what of it learns."""
    return ((f"{name} {x.requires_grad}", x) for name, x in state_of(network, keep_vars=True).items())


def digest_of(about: Any, tensors: Iterable[tuple[str, Tensor | None]]) -> str:
    """A digest of what JSON can say, and of tensors by name."""
    digest = hashlib.sha256(json.dumps(about).encode())
    for name, x in tensors:
        if x is not None:
            digest.update(f"{name} {x.dtype} {tuple(x.shape)}".encode())
            digest.update(x.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
