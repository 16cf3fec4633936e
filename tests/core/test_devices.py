"""Devices by name, networks that are lent to one, and errors that say that memory is short."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import crowdppl
from crowdppl.core.devices import (
    check_device,
    device_of,
    device_or_cpu,
    is_shortage,
    memory_errors_explained,
    moved_to,
)
from crowdppl.errors import MethodError
from tests.crowd import crowd

ELSEWHERE = torch.device("meta")
"""A device that every torch has: its tensors have shapes and no numbers."""


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "", None, 0, torch.device("meta")])
def test_what_is_no_device_is_refused(name: object) -> None:
    with pytest.raises(MethodError, match="must be 'cpu', 'cuda', 'cuda:N' or 'auto'"):
        check_device(name)
    assert device_or_cpu(name) == "cpu"


def test_names_of_devices() -> None:
    assert check_device("cpu") == check_device(torch.device("cpu")) == "cpu"
    assert check_device("auto") == ("cuda" if torch.cuda.is_available() else "cpu")
    with pytest.raises(MethodError, match="torch sees"):
        check_device("cuda:99")
    assert device_or_cpu("cuda:99") == "cpu"


class Traveller(nn.Linear):
    """Notes where it is sent, and stays."""

    def __init__(self) -> None:
        super().__init__(2, 3)
        self.sent: list[str] = []

    def to(self, *args: Any, **_: Any) -> Traveller:
        """Notes it."""
        self.sent.append(str(args[0]))
        return self


def test_a_network_that_was_lent_comes_back_even_from_an_error() -> None:
    network = Traveller()
    with pytest.raises(ZeroDivisionError), moved_to(network, "cuda:1") as there:
        assert there is network
        _ = 1 / 0
    assert network.sent == ["cuda:1", "cpu"]


def test_where_a_network_is() -> None:
    assert device_of(nn.Linear(2, 3, device=ELSEWHERE)) == ELSEWHERE
    assert device_of(nn.ReLU()) == torch.device("cpu")


CPU = "[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried 180 GB."


def test_an_array_that_no_machine_holds_is_a_shortage() -> None:
    with pytest.raises(RuntimeError) as found:
        torch.empty(2**50)
    assert is_shortage(found.value)


@pytest.mark.parametrize("error", [RuntimeError(CPU), torch.OutOfMemoryError("CUDA out of memory"), MemoryError()])
def test_a_fit_names_the_sizes_and_the_remedy(error: Exception) -> None:
    data = crowd(n_items=20)
    with (
        pytest.raises(crowdppl.errors.MemoryShortageError, match="dawid_skene.*3 classes.*one_coin"),
        memory_errors_explained("dawid_skene", data),
    ):
        raise error


def test_other_errors_stay_as_they_are() -> None:
    with pytest.raises(RuntimeError, match=r"^shapes$"), memory_errors_explained("dawid_skene", crowd(n_items=20)):
        raise RuntimeError("shapes")


def test_a_model_that_asks_for_too_much_is_not_said_to_be_put_together_wrongly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def greedy(*_: object) -> torch.Tensor:
        return torch.empty(2**50)

    model = crowdppl.method("mixed_membership")
    monkeypatch.setattr("crowdppl.primitives.through_blends", greedy)
    with pytest.raises(crowdppl.errors.MemoryShortageError, match="mixed_membership needs more memory"):
        crowdppl.fit(model, crowd(n_items=20), inference="vb")
