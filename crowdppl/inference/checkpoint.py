"""Checkpoints of a fit on disk, and the digest of what the fit began with.

Of processes that share a fit, the first keeps them for all: what it reads, all go on from.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from crowdppl.core.collective import all_gathered, in_step, n_processes, of_first, process
from crowdppl.core.files import new_file
from crowdppl.core.validation import shown, warn
from crowdppl.data.blocks import Block
from crowdppl.errors import CrowdpplError, CrowdpplWarning, MethodError, ResultError
from crowdppl.inference.options import Options
from crowdppl.inference.problem import Problem
from crowdppl.inference.replay import with_prefix
from crowdppl.networks.classifier import init_weights, parts
from crowdppl.networks.outputs import networks_of, state_of
from crowdppl.networks.training import training_of
from crowdppl.primitives.model import settings_of


def key_of(problem: Problem, options: Options, engine: str) -> str:
    """A digest of all that a result depends on: model, networks at their start, data, engine and its options.

    Of the data it is that of blocks, wherever they are: it does not depend on the number of processes.
    """
    networks = networks_of(problem.model)
    settings = {name: x for name, x in settings_of(problem.model).items() if name not in networks}
    about = [type(problem.model).__name__, repr(sorted(settings.items())), engine, options.seed, options.guide]
    about += [repr(sorted(networks.items())), str(problem.blocks[0].dtype)]
    about += [str(problem.blocks[0].informative), problem.blocks[0].repeat_correlation]
    about += [repr({name: x for name, x in options.kept().items() if name != "device"})]
    about += sorted(x for own in all_gathered([digest_of(None, _tensors(b)) for b in problem.blocks]) for x in own)
    learned = (x for network in networks_of(problem.model).values() for x in learned_arrays(network))
    return digest_of(about, [*problem.given.items(), *learned])


def _tensors(block: Block) -> Iterator[tuple[str, Tensor | None]]:
    """Those of a block that a result depends on, by name."""
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
            digest.update(_bytes(x))
    return digest.hexdigest()


def _bytes(x: Tensor) -> memoryview:
    """The bytes of a tensor."""
    found: memoryview = x.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
    return found


Arrays = dict[str, Tensor]
State = TypeVar("State")


@dataclass
class Kept:
    """A file of what a fit keeps of its steps, such as draws, which is only ever added to.

    Args:
        path: the file, beside the checkpoint, which says how much of it counts.
        rows: tensors by name; those of the file come first.
        like: a row of the same form.
    """

    path: Path
    rows: list[Arrays]
    like: Arrays
    _n_rows: int = 0
    _digest: Any = field(default_factory=hashlib.sha256)

    @property
    def _sizes(self) -> list[int]:
        """Bytes of each tensor of a row."""
        return [x.numel() * x.element_size() for x in self.like.values()]

    def write(self) -> dict[str, Any]:
        """Adds the rows that are not there; what the checkpoint is to say of it. OSError on a full disk."""
        digest = self._digest.copy()
        with self.path.open("r+b" if self._n_rows else "wb") as file:
            file.seek(self._n_rows * sum(self._sizes))
            for row in self.rows[self._n_rows :]:
                for name in self.like:
                    file.write(found := _bytes(row[name]))
                    digest.update(found)
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
        self._n_rows, self._digest = len(self.rows), digest
        return {"rows": self._n_rows, "rows_digest": digest.hexdigest()}

    def read(self, about: Mapping[str, Any]) -> np.ndarray:
        """The bytes of the rows of which a checkpoint says so; ResultError where they are not there."""
        n, size = about["rows"], sum(self._sizes)
        found = np.fromfile(self.path, np.uint8, n * size) if self.path.is_file() else np.empty(0, np.uint8)
        if len(found) != n * size or hashlib.sha256(found.data).hexdigest() != about["rows_digest"]:
            raise ResultError(f"{self.path} is not what was written beside the checkpoint; remove both")
        return found

    def put(self, found: np.ndarray) -> None:
        """The rows of such bytes are those that there are."""
        each = torch.from_numpy(found).reshape(-1, sum(self._sizes))
        self.rows[:] = [
            {
                name: own.clone().view(x.dtype).reshape(x.shape).to(x.device)
                for (name, x), own in zip(self.like.items(), row.split(self._sizes), strict=True)
            }
            for row in each
        ]
        self._n_rows, self._digest = len(self.rows), hashlib.sha256(found.data)


@dataclass
class Checkpoint(Generic[State]):
    """A file that holds a fit after some of its steps.

    Args:
        every: steps between two writes.
        key: what the fit is; another fit's file is refused.
        take: a state as tensors by name; all processes of a group call it.
        put: the state of such tensors, and of how many steps there have been.
        kept: what is kept of steps, beside their state.
        objectives: of these steps; the loop adds to them.
    """

    path: Path
    every: int
    key: str
    take: Callable[[State], Arrays]
    put: Callable[[Arrays, int], State]
    kept: Kept | None = None
    objectives: list[float] = field(default_factory=list)

    def resume(self, state: State) -> tuple[State, list[float]]:
        """The state of the file, or ``state`` where there is none; and the objectives, to be added to.

        ResultError for the file of another fit, or one that cannot be read.
        """
        found = of_first(self._found)
        if found is None:
            return state, self.objectives
        about, arrays, rows = found
        try:
            self.objectives = list(about["objectives"])
            if self.kept is not None:
                self.kept.put(rows)
            return self.put(arrays, len(self.objectives)), self.objectives
        except CrowdpplError:
            raise
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ResultError(f"{self.path} cannot be put back into this fit: {error!r}; remove it") from error

    def _found(self) -> tuple[dict[str, Any], Arrays, Any] | None:
        """What the file says of itself, its tensors, and the bytes of what is kept; None where there is no file."""
        if not self.path.exists():
            return None
        about, arrays = _read(self.path, self.key)
        return about, arrays, None if self.kept is None else self.kept.read(about)

    def keep(self, state: State, ended: bool) -> None:
        """Writes the state after a step, if it is time for it, or the loop has ended."""
        if len(self.objectives) % self.every == 0 or ended:
            arrays, about = self.take(state), {"key": self.key, "objectives": self.objectives}
            with in_step():
                if process() == 0:
                    _write(self.path, arrays, about, self.kept)


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
    return of_first(lambda: _writable(Path(path)))


def _writable(place: Path) -> Path:
    """A place where one can write."""
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
            f"{path} is the checkpoint of another fit (data, settings, options, network or dtype); give this "
            "fit a file of its own, or remove that one"
        )
    return about, arrays


def _write(path: Path, arrays: Mapping[str, Tensor], about: Mapping[str, Any], kept: Kept | None = None) -> None:
    """Writes a file with its digest; the old one stays until it is whole.

    A full disk does not end a fit of one process. Those that share one are watched by a launcher, which starts them
    again where there is room: they end with a ResultError.
    """
    from safetensors.torch import save_file

    found = {name: x.detach().cpu().contiguous().clone() for name, x in arrays.items()}
    try:
        with new_file(path) as new:
            said = {**about, **({} if kept is None else kept.write())}
            digest = digest_of(said, sorted(found.items()))
            save_file(found, new, {"about": json.dumps({**said, "digest": digest})})
    except ResultError as error:
        text = f"the checkpoint {path} is not written: {error}"
        if n_processes() > 1:
            raise ResultError(f"{text}. The last one stands; start the fit again") from error
        warn(f"{text}. The fit goes on, with the last one that was", CrowdpplWarning)


def checkpoint_of(
    problem: Problem,
    options: Options,
    engine: str,
    take: Callable[[State], Arrays],
    put: Callable[[Arrays, int], State],
    rows: list[Arrays] | None = None,
    like: Arrays | None = None,
) -> Checkpoint[State] | None:
    """The checkpoint that the options ask for; None where they ask for none. Rows are as of ``Kept``."""
    if options.checkpoint is None:
        return None
    path, key = Path(options.checkpoint), key_of(problem, options, engine)
    kept = None if rows is None else Kept(path.with_name(f"{path.name}.draws"), rows, like or {})
    return Checkpoint(path, options.checkpoint_every, key, take, put, kept)


def beside(options: Options, what: str) -> Options:
    """Options of a further run of a fit, which keeps a checkpoint of its own beside the first one's."""
    path = options.checkpoint
    return options if path is None else replace(options, checkpoint=f"{path}.{what}")


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
