"""Kinds whose items have two parts: processes that open parts of them find what one finds, or refuse by name."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import crowdppl
from crowdppl.errors import CrowdpplError
from tests.data.test_convert_kinds import TABLES
from tests.inference.shared import by_processes
from tests.inference.test_shared_fits import assert_same, numbers_of

pytest.importorskip("duckdb")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
CHAINS = {"chains": 2, "draws": 4, "warmup": 4}
SHORT = {"max_iterations": 3}
FITS: dict[str, list[tuple[str, str, dict[str, Any]]]] = {
    "pair": [("bradley_terry", "em", SHORT), ("crowd_bt", "vb", SHORT), ("preference_groups", "vb", SHORT)],
    "strengths": [("ordinal_bradley_terry", "vb", SHORT)],
    "similarity": [("bayesian_dawid_skene", "vb", SHORT), ("crowd_clustering", "vb", SHORT)],
    "sequence": [("hmm_crowd", "gibbs", CHAINS), ("sequence_crowd", "vb", SHORT)],
    "set": [("set_clusters", "vb", {**SHORT, "settings": {"clusters": 1}})],
    "ranking": [("plackett_luce", "vb", SHORT)],
}
WRITTEN = {"sequence": "hmm_crowd", "pair": "bradley_terry"}
REFUSED = [
    ("set", "set_clusters", "cluster has an entry for each item"),
    ("similarity", "record_linkage", "setup"),
    ("pair", "reward_model", "setup"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kinds")
    for name in FITS:
        make, said = TABLES[name]
        make().to_csv(folder / f"{name}.csv", index=False)
        crowdppl.convert(folder / f"{name}.csv", folder / name, n_parts=5, **said)
    return folder


def fitted(process: int, processes: int, folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, fits in FITS.items():
        data, how = crowdppl.Annotations.open(folder / name), {"seed": 0}
        posteriors = [crowdppl.fit(m, data, inference=e, **how, **own) for m, e, own in fits]  # type: ignore[arg-type]
        found[name] = [numbers_of(posterior) for posterior in posteriors]
        found[f"annotators of {name}"] = [posterior.annotators() for posterior in posteriors]
    for name in ("sequence", "pair"):
        posterior = crowdppl.fit(WRITTEN[name], crowdppl.Annotations.open(folder / name), inference="vb", seed=0)
        posterior.save(folder / f"{name} by {processes}")
        posterior.to_parquet(folder / f"{name} by {processes}")
    for name, method, _ in REFUSED if processes > 1 else ():
        try:
            crowdppl.fit(method, crowdppl.Annotations.open(folder / name), inference="vb")
        except CrowdpplError as error:
            found[method] = str(error)
    return found


@pytest.fixture(scope="module")
def found(folder: Path) -> Iterator[Any]:
    yield fitted(0, 1, folder), by_processes(2, fitted, folder)


@pytest.mark.parametrize("name", FITS)
def test_two_processes_find_what_one_finds(name: str, found: Any) -> None:
    alone, several = found
    within = 1e-6 if name == "strengths" else 1e-9  # along gradients, a place is known to the root of rounding
    assert_same(FITS[name], alone[name], [each[name] for each in several], within)


@pytest.mark.parametrize("name", [name for name in FITS if name != "set"])  # its items have codes of a process
def test_tables_of_annotators_are_of_the_items_of_all_processes(name: str, found: Any) -> None:
    alone, several = found
    for each in several:
        for own, table in zip(each[f"annotators of {name}"], alone[f"annotators of {name}"], strict=True):
            pd.testing.assert_frame_equal(own, table, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", WRITTEN)
def test_two_processes_write_what_one_writes(name: str, found: Any, folder: Path) -> None:
    tables, labels = list[pd.DataFrame](), list[pd.DataFrame]()
    for processes in (1, 2):
        written = folder / f"{name} by {processes}"
        one = crowdppl.load(written)
        tables.append(one.spans() if name == "sequence" else one.ranking())
        labels.append(pd.concat(pd.read_parquet(path) for path in sorted(written.glob("labels-*.parquet"))))
    pd.testing.assert_frame_equal(*tables)
    pd.testing.assert_frame_equal(*labels)
    assert {*crowdppl.Annotations.open(folder / name).item_index.names} <= {*labels[0].columns}


@pytest.mark.parametrize(("name", "method", "why"), REFUSED)
def test_what_processes_cannot_share_is_refused_by_name(name: str, method: str, why: str, found: Any) -> None:
    for each in found[1]:
        assert crowdppl.method(method).card.title in each[method] and why in each[method]
