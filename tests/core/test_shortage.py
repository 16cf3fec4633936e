"""Too little memory is said with what asks for it, by whatever allocator found it out."""

from __future__ import annotations

import pytest
import torch

import crowdppl
from crowdppl.core.devices import is_shortage, memory_errors_explained
from tests.crowd import crowd

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


def test_a_story_that_asks_for_too_much_is_not_said_to_be_put_together_wrongly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def greedy(*_: object) -> torch.Tensor:
        return torch.empty(2**50)

    story = crowdppl.method("mixed_membership")
    monkeypatch.setattr("crowdppl.primitives.through_blends", greedy)
    with pytest.raises(crowdppl.errors.MemoryShortageError, match="mixed_membership needs more memory"):
        crowdppl.fit(story, crowd(n_items=20), inference="vb")
