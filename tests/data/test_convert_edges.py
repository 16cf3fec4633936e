"""Linked items in parts: what edges connect lies together, and edges are those of the table."""

import hashlib
import json
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl.data.by_part import by_part
from crowdppl.data.parts import read_parts
from crowdppl.errors import DataError
from tests.data.test_convert import crowd, same

pytest.importorskip("duckdb")
pytestmark = pytest.mark.filterwarnings("ignore::crowdppl.errors.CrowdpplWarning")
FORMS = ["csv", "parquet", "jsonl", "pairs", "several"]


def edges_of(items: list[Any], n: int = 45, seed: int = 0) -> pd.DataFrame:
    """Random pairs of items, some twice and turned round; some items have none."""
    rng = np.random.default_rng(seed)
    ends = np.array([rng.choice(len(items) - 5, 2, replace=False) for _ in range(n)])
    ends = np.concatenate([ends, ends[:5, ::-1], ends[5:8]])
    return pd.DataFrame({"page": [items[a] for a, _ in ends], "links to": [items[b] for _, b in ends]})


def pairs_of(data: crowdppl.Annotations) -> list[frozenset[Any]]:
    """Linked items by id."""
    assert data.edges is not None
    return [frozenset(data.items[ends].tolist()) for ends in data.edges]


def first_of_connected(edges: pd.DataFrame) -> dict[Any, Any]:
    """The first of the ids that edges connect with each, by passing smaller ones on until nothing changes."""
    first = {x: x for pair in edges.to_numpy().tolist() for x in pair}
    while True:
        before = dict(first)
        for one, other in edges.to_numpy().tolist():
            first[one] = first[other] = min(first[one], first[other], key=str)
        if before == first:
            return first


def written(edges: pd.DataFrame, form: str, folder: Path) -> Any:
    """Edges as a file, as pairs, or as files of a pattern."""
    path = folder / f"links.{form}"
    if form == "pairs":
        return edges.to_numpy().tolist()
    if form == "parquet":
        edges.to_parquet(path)
    elif form == "jsonl":
        edges.to_json(path, orient="records", lines=True)
    elif form == "several":
        for n in range(2):
            edges[n::2].to_csv(folder / f"links-{n}.csv", index=False)
        return str(folder / "links-*.csv")
    else:
        edges.to_csv(path, index=False)
    return path


@pytest.fixture
def table(tmp_path: Path) -> pd.DataFrame:
    table = crowd()
    table.to_csv(tmp_path / "labels.csv", index=False)
    return table


@pytest.mark.parametrize("form", FORMS)
def test_edges_are_those_of_the_table(form: str, table: pd.DataFrame, tmp_path: Path) -> None:
    edges = edges_of(sorted(table["task"].unique()))
    crowdppl.convert(tmp_path / "labels.csv", tmp_path / "parts", n_parts=4, edges=written(edges, form, tmp_path))
    opened = crowdppl.Annotations.open(tmp_path / "parts", check=True)
    read = crowdppl.read_annotations(tmp_path / "labels.csv", edges=edges)
    same(read, opened)
    found = pairs_of(opened)
    assert len(found) == len({*found}) and {*found} == {*pairs_of(read)}


def test_what_edges_connect_lies_in_the_part_of_its_first_id(table: pd.DataFrame, tmp_path: Path) -> None:
    edges = edges_of(sorted(table["task"].unique()))
    crowdppl.convert(tmp_path / "labels.csv", tmp_path / "parts", n_parts=4, edges=edges)
    first, seen = first_of_connected(edges), 0
    for number in range(4):
        for item in read_parts(tmp_path / "parts", number, 4).items.ids:
            digest = hashlib.md5(first.get(item, item).encode(), usedforsecurity=False).hexdigest()[:8]
            assert int(digest, 16) % 4 == number
            seen += 1
    assert seen == table["task"].nunique()
    assert any(first[x] != x for x in first)


def test_a_fit_to_parts_of_linked_items_is_that_to_the_table(table: pd.DataFrame, tmp_path: Path) -> None:
    edges = edges_of(sorted(table["task"].unique()))
    crowdppl.convert(tmp_path / "labels.csv", tmp_path / "parts", n_parts=4, edges=edges)
    of_table = crowdppl.read_annotations(tmp_path / "labels.csv", edges=edges)
    found = list[pd.DataFrame]()
    for data in (of_table, crowdppl.Annotations.open(tmp_path / "parts")):
        how: dict[str, Any] = {"inference": "vb", "settings": {"strength": 0.7}, "max_iterations": 20}
        posterior = crowdppl.fit("potts_dawid_skene", data, **how)
        found.append(posterior.probabilities().sort_index())
    pd.testing.assert_frame_equal(*found, rtol=0, atol=1e-9)
    alone = crowdppl.fit("potts_dawid_skene", crowdppl.read_annotations(tmp_path / "labels.csv", edges=[]), **how)
    assert (alone.probabilities().sort_index() - found[0]).abs().max().max() > 0.01


def test_whole_numbers_stay_and_no_edges_are_known(tmp_path: Path) -> None:
    table = crowd().assign(task=lambda x: x["task"].factorize()[0])
    table.to_parquet(tmp_path / "labels.parquet")
    edges = edges_of([*range(table["task"].nunique())])
    edges.astype({"page": float}).to_parquet(tmp_path / "links.parquet")
    for n, given in enumerate([tmp_path / "links.parquet", edges, edges.iloc[:0]]):
        crowdppl.convert(tmp_path / "labels.parquet", tmp_path / f"parts {n}", n_parts=4, edges=given)
        opened = crowdppl.Annotations.open(tmp_path / f"parts {n}", check=True)
        assert opened.items.inferred_type == "integer"
        assert {*pairs_of(opened)} == {frozenset(x) for x in (edges if n < 2 else edges[:0]).to_numpy().tolist()}
    crowdppl.convert(tmp_path / "labels.parquet", tmp_path / "plain")
    assert crowdppl.Annotations.open(tmp_path / "plain").edges is None


def test_parts_without_blocks_are_read_alike(table: pd.DataFrame, tmp_path: Path) -> None:
    edges = edges_of(sorted(table["task"].unique()))
    folder = tmp_path / "parts"
    crowdppl.convert(tmp_path / "labels.csv", folder, n_parts=3, edges=edges)
    mapped = crowdppl.Annotations.open(folder)
    about = json.loads((folder / "dataset.json").read_text())
    for part in about["parts"]:
        part["blocks"] = None
    (folder / "dataset.json").write_text(json.dumps(about))
    made = crowdppl.Annotations.open(folder, check=True)
    assert made.order.tolist() == mapped.order.tolist() and pairs_of(made) == pairs_of(mapped)
    parts = [data.edges for _, _, data in by_part(made)]
    assert sum(len(x) for x in parts if x is not None) == len(pairs_of(made))


def test_edges_that_are_damaged_are_refused(table: pd.DataFrame, tmp_path: Path) -> None:
    edges, folder = edges_of(sorted(table["task"].unique())), tmp_path / "parts"
    crowdppl.convert(tmp_path / "labels.csv", folder, n_parts=3, edges=edges)
    about = json.loads((folder / "dataset.json").read_text())
    part = next(part for part in about["parts"] if part["edges"])
    path = folder / part["edges"]["file"]
    good = pd.read_parquet(path)
    for one, other, check in ((part["items"], 0, False), (-1, 0, False), (1, 1, False), (0, 1, True)):
        bad = pd.DataFrame({"one": [one], "other": [other]}, dtype="int32") if not check else good.iloc[:1]
        bad.to_parquet(path)
        part["edges"]["bytes"] = path.stat().st_size
        part["edges"]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
        (folder / "dataset.json").write_text(json.dumps(about))
        with pytest.raises(DataError, match="belongs to another part" if check else "has an edge that is not"):
            crowdppl.Annotations.open(folder, check=check)
    path.unlink()
    with pytest.raises(DataError, match="is not there"):
        crowdppl.Annotations.open(folder)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a,b\na,A\nA,nobody\n", "item 'nobody' at line 3 of links.csv"),
        ("a,b\nnobody,A\nnoone,7\n", r"item 'nobody' at line 2 of links.csv \(and 1 more\)"),
        ("a,b\na,A\n7,7\n", "item '7' to itself at line 3 of links.csv"),
        ("a,b\na,\n", "no item at line 2 of links.csv"),
        ("a,A\nA,7\n", "begins with 'a' and 'A', which are items"),
        ("a,b,c\na,A,7\n", "edges in links.csv have 3 columns"),
    ],
)
def test_what_is_no_edge_is_refused_with_its_line(
    text: str, told: str, table: pd.DataFrame, tmp_path: Path
) -> None:
    path = tmp_path / "links.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=told):
        crowdppl.convert(tmp_path / "labels.csv", tmp_path / "parts", edges=path)
    assert not (tmp_path / "parts").exists()


def test_items_of_two_parts_have_no_edges(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("left,right,annotator,winner\na,b,x,left\nb,a,y,right\n")
    with pytest.raises(DataError, match="kind='pair' have left and right"):
        crowdppl.convert(path, tmp_path / "parts", edges=[("a", "b")])


def test_a_folder_called_like_a_column_is_none(tmp_path: Path) -> None:
    folder = tmp_path / "worker=bot" / "b=x"
    folder.mkdir(parents=True)
    crowd().to_csv(folder / "labels.csv")  # the index is a column without a name
    (folder / "links.csv").write_text("a,b\na,A\nA,7\n")
    crowd().to_parquet(folder / "labels.parquet")
    for name in ("labels.csv", "labels.parquet"):
        crowdppl.convert(folder / name, tmp_path / name, edges=folder / "links.csv")
        opened = crowdppl.Annotations.open(tmp_path / name)
        read = crowdppl.read_annotations(folder / name)
        assert opened.annotators.equals(read.annotators) and {*opened.items} == {*read.items}
        assert {*pairs_of(opened)} == {frozenset("aA"), frozenset("A7")}


def test_files_of_edges_have_an_encoding(table: pd.DataFrame, tmp_path: Path) -> None:
    (tmp_path / "links.csv").write_text("a,b\né,漢字\n", encoding="utf-16")
    crowdppl.convert(
        tmp_path / "labels.csv", tmp_path / "parts", edges=tmp_path / "links.csv", edges_encoding="utf-16"
    )
    assert pairs_of(crowdppl.Annotations.open(tmp_path / "parts")) == [frozenset(["é", "漢字"])]


@pytest.mark.parametrize(
    ("ends", "written"),
    [([b"a", b"A"], ["a", "A"]), ([date(2020, 1, 1)] * 2, ["2020-01-01"] * 2), ([0.5] * 2, ["0.5"] * 2)],
)
def test_what_is_no_id_is_none_by_its_text(
    ends: list[Any], written: list[str], table: pd.DataFrame, tmp_path: Path
) -> None:
    named = table.replace({"task": dict(zip(["a", "A"], written, strict=True))}).drop_duplicates(["task", "worker"])
    named.to_csv(tmp_path / "named.csv", index=False)
    path = tmp_path / "links.parquet"
    pd.DataFrame({"one": ends[:1], "other": ends[1:]}).to_parquet(path)
    with pytest.raises(DataError, match="row 0 .* of links.parquet is a") as by_reading:
        crowdppl.read_edges(path)
    with pytest.raises(DataError) as by_converting:
        crowdppl.convert(tmp_path / "named.csv", tmp_path / "parts", edges=path)
    assert str(by_converting.value) == str(by_reading.value)


@pytest.mark.parametrize("edges", [[("a", None)], [("a", float("nan"))], ["ab", "cd"], "links.csv"])
def test_what_is_missing_or_text_is_no_edge(edges: Any, table: pd.DataFrame, tmp_path: Path) -> None:
    table.replace({"task": {"A": "None", "7": "nan"}}).to_csv(tmp_path / "named.csv", index=False)
    with pytest.raises(DataError, match="missing|give pairs of item ids"):
        crowdppl.read_annotations(tmp_path / "named.csv", edges=edges)
    with pytest.raises(DataError, match="missing|give pairs of item ids|not there"):
        crowdppl.convert(tmp_path / "named.csv", tmp_path / "parts", edges=edges)


def test_ids_that_edges_spell_otherwise_are_refused(tmp_path: Path) -> None:
    table = crowd(12).assign(task=lambda x: x["task"].factorize()[0] % 2 == 0)
    table.drop_duplicates(["task", "worker"]).to_parquet(tmp_path / "labels.parquet")
    pd.DataFrame({"one": [True], "other": [False]}).to_parquet(tmp_path / "links.parquet")
    with pytest.raises(DataError, match="'false'|'true'"):
        crowdppl.convert(tmp_path / "labels.parquet", tmp_path / "parts", edges=tmp_path / "links.parquet")


def test_folders_of_version_2_are_those_without_edges(table: pd.DataFrame, tmp_path: Path) -> None:
    crowdppl.convert(tmp_path / "labels.csv", tmp_path / "parts", n_parts=2)
    about = json.loads((tmp_path / "parts" / "dataset.json").read_text())
    del about["linked"]
    about["parts"] = [{name: x for name, x in part.items() if name != "edges"} for part in about["parts"]]
    (tmp_path / "parts" / "dataset.json").write_text(json.dumps(about | {"version": 2}))
    opened = crowdppl.Annotations.open(tmp_path / "parts", check=True)
    same(crowdppl.read_annotations(tmp_path / "labels.csv"), opened)
    assert opened.edges is None


def test_a_manifest_that_contradicts_its_parts_is_refused(table: pd.DataFrame, tmp_path: Path) -> None:
    crowdppl.convert(tmp_path / "labels.csv", tmp_path / "parts", n_parts=2, edges=[("a", "A")])
    about = json.loads((tmp_path / "parts" / "dataset.json").read_text())
    for linked in (False, "yes"):
        (tmp_path / "parts" / "dataset.json").write_text(json.dumps(about | {"linked": linked}))
        with pytest.raises(DataError, match="linked is"):
            crowdppl.Annotations.open(tmp_path / "parts")
