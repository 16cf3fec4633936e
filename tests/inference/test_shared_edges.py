"""Linked items: processes that open parts of them find what one finds."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl.errors import CrowdpplError
from tests.data.test_convert import crowd
from tests.data.test_convert_edges import edges_of
from tests.inference.shared import by_processes
from tests.inference.test_shared_fits import assert_same, numbers_of

pytest.importorskip("duckdb")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
FITS: list[tuple[str, str, dict[str, Any]]] = [
    ("potts_dawid_skene", "vb", {"max_iterations": 4}),
    ("potts_dawid_skene", "em", {"max_iterations": 4, "settings": {"prior_strength": 9.0, "strength": 0.7}}),
    ("potts_dawid_skene", "gibbs", {"chains": 2, "draws": 2, "warmup": 2, "settings": {"strength": 0.7}}),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("edges")
    table = crowd(90)
    table.to_csv(folder / "labels.csv", index=False)
    edges = edges_of(sorted(table["task"].unique()), 60)
    crowdppl.convert(folder / "labels.csv", folder / "parts", n_parts=6, edges=edges)
    return folder


def opened(folder: Path, **known: Any) -> crowdppl.Annotations:
    return crowdppl.Annotations.open(folder / "parts", **known)


def fitted(process: int, processes: int, folder: Path) -> dict[str, Any]:
    gold = pd.read_csv(folder / "labels.csv", dtype=str).groupby("task")["answer"].first()
    found: dict[str, Any] = {"fits": []}
    for method, engine, how in FITS:
        found["fits"].append(numbers_of(crowdppl.fit(method, opened(folder), inference=engine, seed=0, **how)))  # type: ignore[arg-type]
    data = opened(folder, gold=gold[:: -1 if process else 1])  # in any order
    assert data.gold is not None
    found["gold"] = data.gold.to_dict(), [*data.items]
    try:
        opened(folder, gold=pd.concat([gold, pd.Series({"nobody": "yes"})]))
    except CrowdpplError as error:
        found["unknown"] = str(error)
    how: dict[str, Any] = {"inference": "vb", "seed": 0, "settings": {"strength": 0.7}, "max_iterations": 4}
    kept: dict[str, Any] = {"checkpoint": folder / "checkpoint", "callback": lambda t, _: found["steps"].append(t)}
    found["steps"] = []
    crowdppl.fit("potts_dawid_skene", opened(folder), **how, **kept)
    posterior = crowdppl.fit("potts_dawid_skene", opened(folder), inference="vb", seed=0)
    posterior.save(folder / f"by {processes}")
    posterior.to_parquet(folder / f"by {processes}")
    return found


@pytest.fixture(scope="module")
def found(folder: Path) -> Any:
    return fitted(0, 1, folder), by_processes(2, fitted, folder)


def test_several_processes_find_what_one_finds(found: Any) -> None:
    alone, *shared = found
    for several in shared:
        assert_same(FITS, alone["fits"], [each["fits"] for each in several], 1e-9)


def test_known_truths_are_those_of_own_items_and_unknown_ones_are_refused(found: Any) -> None:
    alone, *shared = found
    for several in shared:
        truths = [each["gold"] for each in several]
        assert {k: v for gold, _ in truths for k, v in gold.items()} == alone["gold"][0]
        assert all({*gold} == {*items} for gold, items in truths)
        assert all("names the item 'nobody'" in each["unknown"] for each in several)


def test_several_processes_go_on_from_the_checkpoint_of_one(found: Any) -> None:
    alone, *shared = found
    assert len(alone["steps"]) == 4
    assert all(not each["steps"] for several in shared for each in several)  # it was at its end


def test_several_processes_write_what_one_writes(found: Any, folder: Path) -> None:
    tables = [
        pd.concat(pd.read_parquet(path) for path in sorted((folder / f"by {n}").glob("labels-*.parquet")))
        for n in (1, 2)
    ]
    pd.testing.assert_frame_equal(*tables)
    again = crowdppl.load(folder / "by 2")
    assert again.data.edges is not None and len(again.data.edges) > 0
    sure = again.probabilities().max(axis=1).to_numpy()
    assert np.allclose(np.sort(sure), np.sort(tables[0]["probability"]), atol=1e-9)
