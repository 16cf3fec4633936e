"""Where torch computes, a device by its name and that of a network, and in which precision networks do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from crowdppl.errors import MethodError
from crowdppl.process.turns import TURN


def device_named(name: object) -> str:
    """The name of a device that torch sees; "auto" is a GPU where there is one.

    Args:
        name: "cpu", "cuda", "cuda:N", "auto", or a ``torch.device``.

    Raises:
        MethodError: for another name, or a GPU that torch does not see.
    """
    found = str(name) if isinstance(name, torch.device) else name
    if found == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if not isinstance(found, str) or re.fullmatch(r"cpu|cuda(:\d+)?", found) is None:
        raise MethodError(f"device={found!r} must be 'cpu', 'cuda', 'cuda:N' or 'auto'")
    if found.startswith("cuda") and not torch.cuda.is_available():
        raise MethodError(f"device={found!r}, but torch sees no GPU; use device='cpu' or 'auto'")
    if int(found.partition(":")[2] or 0) >= max(1, torch.cuda.device_count()):
        raise MethodError(f"device={found!r}, but torch sees {torch.cuda.device_count()} GPUs, from 0")
    return found


def where_found(name: object) -> str:
    """The device that a result names, or the CPU where this machine has none such."""
    try:
        return device_named(name)
    except MethodError:
        return "cpu"


def device_of(network: nn.Module) -> torch.device:
    """Where a network's weights are; the CPU for one without any."""
    return next((x.device for x in network.parameters()), torch.device("cpu"))


@contextmanager
def made_in(dtype: torch.dtype) -> Iterator[None]:
    """Lets torch make new tensors in a precision; that of before comes back whatever happens, and threads wait.

    Fits are in float64. Networks are in float32 within them, too: one that adds noise, or numbers that say where a
    word stands, would else mix precisions.
    """
    with TURN:
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            yield
        finally:
            torch.set_default_dtype(before)


@contextmanager
def lent(network: nn.Module, device: str | torch.device) -> Iterator[nn.Module]:
    """The network on a device, and afterwards where it was."""
    before = device_of(network)
    try:
        yield network.to(device)
    finally:
        network.to(before)
