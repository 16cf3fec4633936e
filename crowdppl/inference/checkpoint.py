"""Checkpoints of a fit on disk, and the digest of what the fit began with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from crowdppl.core.files import new_file
from crowdppl.core.validation import shown, warn
from crowdppl.errors import CrowdpplWarning, MethodError, ResultError
from crowdppl.inference.options import Options
from crowdppl.inference.problem import Problem
from crowdppl.inference.replay import with_prefix
from crowdppl.networks.classifier import init_weights, parts
from crowdppl.networks.outputs import networks_of, state_of
from crowdppl.networks.training import training_of
from crowdppl.primitives.model import settings_of


def key_of(problem: Problem, options: Options, engine: str) -> str:
    """A digest of all that a result depends on: model, networks at their start, data, engine and its options."""
    networks = networks_of(problem.model)
    settings = {name: x for name, x in settings_of(problem.model).items() if name not in networks}
    about = [type(problem.model).__name__, repr(sorted(settings.items())), engine, options.seed, options.guide]
    about += [repr(sorted(networks.items())), str(problem.blocks[0].dtype)]
    about += [str(problem.blocks[0].informative), problem.blocks[0].repeat_correlation]
    return digest_of(about, _tensors(problem))


def _tensors(problem: Problem) -> Iterator[tuple[str, Tensor | None]]:
    """Those that a result depends on, by name."""
    yield from problem.given.items()
    for network in networks_of(problem.model).values():
        yield from learned_arrays(network)
    for block in problem.blocks:
        yield from ((name, getattr(block, name)) for name in ("gold", "evidence", "history", "abstainers", "soft"))
        covariates = (block.item_covariates, block.annotator_covariates, block.label_covariates)
        yield from ((f"{x.what} {x.names}", x.values) for x in covariates if x is not None)
        yield "edges", None if block.edges is None else block.edges.pairs
        yield "cells", block.bags.cells
        yield "rows", block.bags.row_starts
        if block.features is not None:
            yield from (("features", part) for part in parts(block.features))


def learned_arrays(network: nn.Module) -> Iterator[tuple[str, Tensor]]:
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


Arrays = dict[str, Tensor]
State = TypeVar("State")


@dataclass
class Checkpoint(Generic[State]):
    """A file that holds a fit after some of its epochs.

    Args:
        every: epochs between two writes.
        key: what the fit is; another fit's file is refused.
        take: a state as tensors by name.
        put: the state of such tensors, and of how many epochs there have been.
        objectives: of these epochs; the loop adds to them.
    """

    path: Path
    every: int
    key: str
    take: Callable[[State], Arrays]
    put: Callable[[Arrays, int], State]
    objectives: list[float] = field(default_factory=list)

    def resume(self, state: State) -> tuple[State, list[float]]:
        """The state of the file, or ``state`` where there is none; and the objectives, to be added to.

        ResultError for the file of another fit, or one that cannot be read.
        """
        if not self.path.exists():
            return state, self.objectives
        about, arrays = _read(self.path, self.key)
        try:
            self.objectives = list(about["objectives"])
            return self.put(arrays, len(self.objectives)), self.objectives
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ResultError(f"{self.path} cannot be put back into this fit: {error!r}; remove it") from error

    def keep(self, state: State, steps: int) -> None:
        """Writes the state after an epoch, if it is time for it."""
        if len(self.objectives) % self.every == 0 or len(self.objectives) == steps:
            _write(self.path, self.take(state), {"key": self.key, "objectives": self.objectives})


@dataclass(frozen=True)
class TrialCache:
    """A file beside a checkpoint that holds what trials found before the first epoch.

    Path and key are as of ``Checkpoint``.
    """

    path: Path
    key: str

    def found(self) -> Arrays:
        """What has been found, by name; errors as of ``Checkpoint.resume``."""
        return _read(self.path, self.key)[1] if self.path.exists() else {}

    def add(self, name: str, x: Tensor) -> None:
        """Writes what was found, too."""
        _write(self.path, {**self.found(), name: x}, {"key": self.key})


def trial_cache(problem: Problem, options: Options, engine: str) -> TrialCache | None:
    """The file of trials beside the checkpoint that the options ask for; None where they ask for none."""
    if options.checkpoint is None:
        return None
    for network in networks_of(problem.model).values():  # the weights with which a fit begins
        init_weights(network, training_of(getattr(problem.model, "training", {})), options.seed)
    return TrialCache(Path(f"{options.checkpoint}.trials"), key_of(problem, options, engine))


def check_path(path: Any) -> Path:
    """Where a checkpoint is to lie: a file, in a folder that is made if need be, and in which one can write.

    MethodError when it is no path of a file. ResultError when nothing can be written there.
    """
    if not isinstance(path, str | PathLike) or not str(path) or Path(path).is_dir():
        raise MethodError(f"checkpoint={shown(path)} must be the path of a file, as text or a Path, and no folder")
    place = Path(path)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=place.parent):
            return place
    except OSError as error:
        raise ResultError(f"no checkpoint can be written to {place}: {error}; give another path") from error


def _read(path: Path, key: str) -> tuple[dict[str, Any], Arrays]:
    """What a file says of itself, and its tensors; refuses those of another fit."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            about = json.loads((file.metadata() or {})["about"])
            arrays = {name: file.get_tensor(name).to(torch.get_default_device()) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, KeyError, ValueError, RecursionError, OSError) as error:
        raise ResultError(f"{path} is no checkpoint, or a damaged one: {error}; remove it") from error
    if not isinstance(about, dict) or about.pop("digest", None) != digest_of(about, sorted(arrays.items())):
        raise ResultError(f"{path} is no checkpoint, or a damaged one: it is not what was written; remove it")
    if about.get("key") != key:
        raise ResultError(
            f"{path} is the checkpoint of another fit (data, settings, seed, network, dtype or guide); give this "
            "fit a file of its own, or remove that one"
        )
    return about, arrays


def _write(path: Path, arrays: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Writes a file with its digest; the old one stays until it is whole. A full disk does not end the fit."""
    from safetensors.torch import save_file

    kept = {name: x.detach().cpu().contiguous().clone() for name, x in arrays.items()}
    digest = digest_of(about, sorted(kept.items()))
    try:
        with new_file(path) as new:
            save_file(kept, new, {"about": json.dumps({**about, "digest": digest})})
    except ResultError as error:
        text = f"the checkpoint {path} is not written: {error}. The fit goes on, with the last one that was"
        warn(text, CrowdpplWarning)


def checkpoint_of(
    problem: Problem,
    options: Options,
    engine: str,
    take: Callable[[State], Arrays],
    put: Callable[[Arrays, int], State],
) -> Checkpoint[State] | None:
    """The checkpoint that the options ask for; None where they ask for none."""
    if options.checkpoint is None:
        return None
    key = key_of(problem, options, engine)
    return Checkpoint(Path(options.checkpoint), options.checkpoint_every, key, take, put)


def network_arrays(network: nn.Module, name: str) -> Arrays:
    """All that a network holds, as tensors by name: weights and buffers, those too that it saves nowhere."""
    return {f"{name}.{key}": x for key, x in {**dict(network.named_buffers()), **network.state_dict()}.items()}


@torch.no_grad()
def restore_network(network: nn.Module, name: str, arrays: Mapping[str, Tensor]) -> None:
    """Gives a network back what ``network_arrays`` took."""
    found, saved = with_prefix(arrays, name), network.state_dict().keys()
    network.load_state_dict({key: found[key] for key in saved})
    for key, x in network.named_buffers():
        if key not in saved:
            x.copy_(found[key])
