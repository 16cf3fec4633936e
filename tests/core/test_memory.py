"""Memory that is short: refused at the door with sizes and a remedy, or explained where an allocator fails."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import crowdppl
from crowdppl import Annotations
from crowdppl.core import devices
from crowdppl.core.devices import enough_memory, is_shortage
from crowdppl.errors import MemoryShortageError
from crowdppl.inference.engines import ENGINES
from tests.crowd import crowd

Limit = Callable[[int], None]


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Limit:
    return lambda n_bytes: monkeypatch.setattr(devices, "available", lambda: n_bytes)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("left", "advised"), [(40_000, True), (100, False)])
def test_a_method_that_does_not_fit_is_refused_before_it_runs(limit: Limit, left: int, advised: bool) -> None:
    limit(left)
    with pytest.raises(MemoryShortageError, match=r"dawid_skene on .*GB of memory.*; merge rare classes") as found:
        crowdppl.fit("dawid_skene", crowd(n_items=20, n_annotators=200), inference="em")
    assert ("one_coin" in str(found.value)) == advised
    if advised:
        crowdppl.fit("one_coin", crowd(n_items=20, n_annotators=200), inference="em")


@pytest.mark.filterwarnings("ignore")
def test_declared_classes_that_nobody_uses_take_no_tables_of_coins(limit: Limit) -> None:
    """Where a table of 20 x 10,000 x 10,000 would take 16 GB."""
    item = np.repeat(np.arange(30), 4)
    data = Annotations.from_arrays(item, np.arange(120) % 20, item % 5, classes=range(10_000))
    limit(2**28)
    assert crowdppl.fit("one_coin", data, inference="em").labels()["label"].tolist() == [i % 5 for i in range(30)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", ["ordinal", "item_difficulty"])
def test_tables_count_where_no_site_is_as_large(limit: Limit, method: str) -> None:
    kind = "ordinal" if method == "ordinal" else "nominal"
    data = Annotations.from_arrays([0, 0, 1], [0, 1, 0], [0, 1, 1], classes=range(100), kind=kind)
    limit(2 * 100 * 100 * 8)
    with pytest.raises(MemoryShortageError, match=f"{method} on .*GB of memory"):
        crowdppl.fit(method, data, inference="vb", seed=0)


@pytest.mark.filterwarnings("ignore")
def test_confusions_that_do_not_fit_are_refused_and_other_tables_are_there(limit: Limit) -> None:
    item = np.repeat(np.arange(40), 4)
    data = Annotations.from_arrays(item, np.arange(160) % 8, item % 300, classes=range(300))
    posterior = crowdppl.fit("one_coin", data, inference="vb", seed=0)
    limit(posterior.data.n_annotators * 300 * 300 * 8 - 1)
    for draws in (False, True):
        with pytest.raises(MemoryShortageError, match=r"8 x 300 x 300 confusions .* GB are left; .*annotators"):
            posterior.confusion(draws=draws)
    assert len(posterior.labels()) == 40
    assert len(posterior.annotators()) == 8


@pytest.mark.filterwarnings("ignore")
def test_draws_of_tables_that_do_not_fit_are_refused(limit: Limit) -> None:
    posterior = crowdppl.fit("bayesian_dawid_skene", crowd(n_items=20), inference="vb", seed=0)
    limit(10_000)
    with pytest.raises(MemoryShortageError, match="draws of .* confusions"):
        posterior.annotators()


@pytest.mark.parametrize("engine", [name for name, engine in ENGINES.items() if engine.sample])
def test_draws_of_sites_that_do_not_fit_are_refused(engine: str, limit: Limit) -> None:
    limit(10_000_000)
    with pytest.raises(MemoryShortageError, match=rf"{engine} .*draws=1,000,000 .*; lower chains or draws"):
        crowdppl.fit("one_coin", crowd(n_items=20), inference=engine, draws=1_000_000, seed=0)


@pytest.mark.parametrize("version", [1, 2])
def test_a_container_leaves_less_than_its_machine(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        1: {"memory.limit_in_bytes": 900, "memory.usage_in_bytes": 500, "memory.stat": "total_inactive_file 100"},
        2: {"memory.max": 900, "memory.current": 500, "memory.stat": "anon 1\ninactive_file 100"},
    }
    folder = tmp_path / "memory" if version == 1 else tmp_path
    folder.mkdir(exist_ok=True)
    for name, text in files[version].items():
        (folder / name).write_text(str(text))
    monkeypatch.setattr(devices, "CONTAINERS", tmp_path)
    assert devices.available() == 500
    (folder / "memory.max").write_text("max")
    (folder / "memory.limit_in_bytes").unlink(missing_ok=True)
    assert devices.available() > 10**6


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
        enough_memory("dawid_skene", data),
    ):
        raise error


def test_other_errors_stay_as_they_are() -> None:
    with pytest.raises(RuntimeError, match=r"^shapes$"), enough_memory("dawid_skene", crowd(n_items=20)):
        raise RuntimeError("shapes")


def test_a_model_that_asks_for_too_much_is_not_said_to_be_put_together_wrongly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def greedy(*_: object) -> torch.Tensor:
        return torch.empty(2**50)

    model = crowdppl.method("mixed_membership")
    monkeypatch.setattr("crowdppl.primitives.through_blends", greedy)
    with pytest.raises(crowdppl.errors.MemoryShortageError, match="mixed_membership .* needs more memory"):
        crowdppl.fit(model, crowd(n_items=20), inference="vb")
