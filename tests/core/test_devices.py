"""Devices by name, and networks that are lent to one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from crowdppl.core.devices import check_device, device_of, device_or_cpu, moved_to
from crowdppl.errors import MethodError

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
    def __init__(self) -> None:
        super().__init__(2, 3)
        self.sent: list[str] = []

    def to(self, *args: Any, **_: Any) -> Traveller:
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
