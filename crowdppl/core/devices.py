"""Torch's device, precision and random streams, and Pyro's state after Ctrl-C."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

import torch
from pyro.poutine.runtime import _DIM_ALLOCATOR, _PYRO_STACK
from torch import nn

from crowdppl.core.validation import shown
from crowdppl.errors import MethodError

TURN = RLock()
"""Lock: Pyro's handlers and torch's global settings are process-wide."""


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seeds torch's global random streams; restores their states afterwards."""
    with TURN, torch.random.fork_rng():
        seed_streams(seed)
        yield


def seed_streams(seed: int) -> None:
    """Seeds the global random streams of all devices."""
    # Without a GPU, torch.manual_seed keeps a stack trace for GPUs to come, which takes longer than to run a model.
    if torch.cuda.is_available():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


@contextmanager
def pyro_state_kept() -> Iterator[None]:
    """Ctrl-C inside leaves Pyro's handlers and plates and torch's gradients as they were; else no model runs."""
    with TURN:
        stack, plates, gradients = list(_PYRO_STACK), list(_DIM_ALLOCATOR._stack), torch.is_grad_enabled()
    try:
        yield
    except KeyboardInterrupt:
        with TURN:
            _PYRO_STACK[:], _DIM_ALLOCATOR._stack[:] = stack, plates
        torch.set_grad_enabled(gradients)
        raise


def check_device(name: object) -> str:
    """The name of a device that torch sees: "cpu", "cuda", "cuda:N" or a ``torch.device``; "auto": a GPU if any."""
    found = str(name) if isinstance(name, torch.device) else name
    if isinstance(found, str) and found == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if not isinstance(found, str) or re.fullmatch(r"cpu|cuda(:\d+)?", found) is None:
        raise MethodError(f"device={shown(found)} must be 'cpu', 'cuda', 'cuda:N' or 'auto'")
    if found.startswith("cuda") and not torch.cuda.is_available():
        raise MethodError(f"device={found!r}, but torch sees no GPU; use device='cpu' or 'auto'")
    if int(found.partition(":")[2] or 0) >= max(1, torch.cuda.device_count()):
        raise MethodError(f"device={found!r}, but torch sees {torch.cuda.device_count()} GPUs, from 0")
    return found


def device_or_cpu(name: object) -> str:
    """The device that a result names, or the CPU where this machine has none such."""
    try:
        return check_device(name)
    except MethodError:
        return "cpu"


def device_of(network: nn.Module) -> torch.device:
    """Where a network's weights are; the CPU for one without any."""
    return next((x.device for x in network.parameters()), torch.device("cpu"))


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Sets torch's default precision; restores it afterwards. Fits use float64, networks within them float32."""
    with TURN:
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            yield
        finally:
            torch.set_default_dtype(before)


@contextmanager
def moved_to(network: nn.Module, device: str | torch.device) -> Iterator[nn.Module]:
    """The network on a device, and afterwards where it was."""
    before = device_of(network)
    try:
        yield network.to(device)
    finally:
        network.to(before)
