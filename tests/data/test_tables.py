"""Wide tables, matrices and dictionaries say the same as rows."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from crowdppl.data.annotations import Annotations
from crowdppl.data.files import read_annotations
from crowdppl.errors import CrowdpplWarning, DataError

ROWS = [("i", "ann", 1), ("i", "bob", 0), ("k", "ann", 0)]
WIDE = pd.DataFrame({"ann": [1.0, np.nan, 0.0], "bob": [0.0, np.nan, np.nan]}, index=["i", "j", "k"])


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        yield


def rows(data: Annotations) -> list[tuple[Any, ...]]:
    return list(data.frame().itertuples(index=False, name=None))


@pytest.mark.parametrize(
    "frame",
    [
        WIDE,
        WIDE.astype("Int64"),
        WIDE.astype(object).where(WIDE.notna(), None),
        WIDE.reset_index(names="task"),
        WIDE.iloc[::-1][["bob", "ann"]],
    ],
    ids=["float", "Int64", "object", "item column", "turned"],
)
def test_wide_tables(frame: pd.DataFrame) -> None:
    data = Annotations.from_frame(frame, wide=True)
    assert rows(data) == ROWS
    assert [type(label) for label in data.classes.tolist()] == [int, int]
    assert (list(data.items), list(data.annotators)) == (["i", "j", "k"], ["ann", "bob"])


def test_a_wide_table_of_words_and_of_an_item_column_by_name() -> None:
    frame = WIDE.replace({0.0: "no", 1.0: "yes"}).reset_index(names="which")
    data = Annotations.from_frame(frame, item="which", wide=True)
    assert rows(data) == [("i", "ann", "yes"), ("i", "bob", "no"), ("k", "ann", "no")]


def test_categories_of_wide_tables_and_matrices_stay() -> None:
    grades = pd.CategoricalDtype(["low", "mid", "high"], ordered=True)
    words = WIDE.replace({0.0: "low", 1.0: "high"})
    same, apart = words.astype(grades), words.astype("category")
    assert list(Annotations.from_frame(same, wide=True, kind="ordinal").classes) == ["low", "mid", "high"]
    assert list(Annotations.from_frame(apart, wide=True).classes) == ["high", "low"]
    assert list(Annotations.from_matrix(same, missing=np.nan).classes) == ["low", "mid", "high"]
    assert list(Annotations.from_matrix(same, missing=pd.NA).classes) == ["low", "mid", "high"]
    assert list(Annotations.from_matrix(same.fillna("mid"), missing="mid").classes) == ["low", "high"]
    coded = WIDE.fillna(-1).astype(int).astype(pd.CategoricalDtype([-1, 0, 1, 2]))
    assert list(Annotations.from_matrix(coded).classes) == [0, 1, 2]
    assert list(Annotations.from_frame(apart.iloc[1:], wide=True).classes) == ["high", "low"]
    assert rows(Annotations.from_frame(WIDE.astype("category"), wide=True)) == ROWS


def test_wide_tables_name_the_cell() -> None:
    with pytest.raises(DataError, match=r"label inf at column 'bob' of row 0"):
        Annotations.from_frame(WIDE.replace({0.0: np.inf}), wide=True)
    with pytest.raises(DataError, match=r"\{'label': 'ann'\} name columns, but each column"):
        Annotations.from_frame(WIDE, label="ann", wide=True)
    with pytest.raises(DataError, match="several columns named 'ann'"):
        Annotations.from_frame(WIDE.set_axis(["ann", "ann"], axis=1), wide=True)
    with pytest.raises(DataError, match="no column 'what' for item"):
        Annotations.from_frame(WIDE, item="what", wide=True)


@pytest.mark.parametrize("name", ["id", "ID", "index", "Unnamed: 0"])
def test_a_column_that_may_hold_the_items_is_no_annotator(name: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({name: [1, 2, 3, 4], "ann": [1, 2, 1, 2], "bob": [2, 2, 1, 1]})
    frame.to_csv(tmp_path / "wide.csv", index=False)
    for read in (
        lambda **said: Annotations.from_frame(frame, wide=True, **said),
        lambda **said: read_annotations(tmp_path / "wide.csv", wide=True, **said),
    ):
        with pytest.raises(DataError, match=f"a column {name!r}, which may hold the items or .*say item="):
            read()
        assert read(item=name).annotators.tolist() == ["ann", "bob"]
    named = Annotations.from_frame(frame.set_axis(list("wxyz")), wide=True)
    assert name in named.annotators


def test_a_table_with_a_label_a_row_has_no_annotators_called_annotator_and_label(tmp_path: Path) -> None:
    """Their ids would be labels of an annotator called "annotator", and be fitted without a word."""
    rows = pd.DataFrame({"item": [1, 2, 2], "Worker_ID": ["x", "x", "y"], "answer": ["a", "b", "b"]})
    rows.to_csv(tmp_path / "long.csv", index=False)
    message = r"columns 'Worker_ID' and 'answer', as a table with a label a row has; leave out wide="
    with pytest.raises(DataError, match=message):
        Annotations.from_frame(rows, wide=True)
    with pytest.raises(DataError, match=message):
        read_annotations(tmp_path / "long.csv", wide=True)
    judges = Annotations.from_frame(
        rows.set_axis(["item", "judge", "score"], axis=1).drop(columns="score"), wide=True
    )
    assert judges.annotators.tolist() == ["judge"]


@pytest.mark.parametrize("change", ["sorted", "filtered", "turned"])
def test_an_item_column_is_none_of_the_annotators_in_whatever_order(change: str) -> None:
    frame = pd.DataFrame({"item": [3, 1, 2, 4], "ann": [1, 2, 1, 2], "bob": [2, 2, 1, 1]})
    changed = {"sorted": frame.sort_values("ann"), "filtered": frame[frame["bob"] > 0], "turned": frame[::-1]}[
        change
    ]
    data = Annotations.from_frame(changed, wide=True)
    assert (data.items.tolist(), data.annotators.tolist()) == ([1, 2, 3, 4], ["ann", "bob"])
    named = Annotations.from_frame(frame.set_axis([7, 8, 9, 10]).rename_axis("which"), wide=True)
    assert named.items.tolist() == [7, 8, 9, 10]


def test_several_columns_that_may_hold_the_items() -> None:
    frame = pd.DataFrame({"item": list("abcd"), "question": list("wxyz"), "ann": [1, 2, 1, 2]})
    with pytest.raises(DataError, match="the item could be any of the columns 'item', 'question'; say item="):
        Annotations.from_frame(frame, wide=True)
    assert "question" not in Annotations.from_frame(frame.drop(columns="item"), wide=True).annotators
    counted = Annotations.from_frame(frame[["ann"]].assign(bob=1), wide=True)
    assert counted.items.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("matrix", "missing"),
    [
        (WIDE.to_numpy(), None),
        (WIDE.fillna(-1).to_numpy().astype(int), None),
        (torch.tensor(WIDE.fillna(-1).to_numpy()).int(), None),
        (torch.tensor(WIDE.to_numpy()), None),
        (WIDE.fillna(9).to_numpy(), 9),
    ],
)
def test_matrices(matrix: Any, missing: float | None) -> None:
    data = Annotations.from_matrix(matrix, missing, items=["i", "j", "k"], annotators=["ann", "bob"])
    assert rows(data) == ROWS
    assert data.items.tolist() == ["i", "j", "k"]
    numbered = Annotations.from_matrix(matrix, missing)
    assert rows(numbered) == [(0, 0, 1), (0, 1, 0), (2, 0, 0)]
    assert (numbered.n_items, numbered.n_annotators) == (3, 2)


def test_a_table_brings_its_names_into_a_matrix() -> None:
    data = Annotations.from_matrix(WIDE)
    assert rows(data) == ROWS
    assert (data.items.tolist(), data.annotators.tolist()) == (["i", "j", "k"], ["ann", "bob"])
    said = Annotations.from_matrix(WIDE, items=[7, 8, 9])
    assert (said.items.tolist(), said.annotators.tolist()) == ([7, 8, 9], ["ann", "bob"])
    said = Annotations.from_matrix(WIDE, annotators=["x", "y"])
    assert (said.items.tolist(), said.annotators.tolist()) == (["i", "j", "k"], ["x", "y"])
    assert Annotations.from_matrix(WIDE.set_axis([5, 6, 7])).items.tolist() == [5, 6, 7]
    with pytest.raises(DataError, match="the matrix has several columns named 'ann'"):
        Annotations.from_matrix(WIDE.set_axis(["ann", "ann"], axis=1))


@pytest.mark.parametrize("name", ["item", "task_id", "id", "Unnamed: 0"])
def test_a_column_of_items_is_no_column_of_labels(name: str) -> None:
    frame = pd.DataFrame({name: [1, 2], "ann": [1, 2], "bob": [2, 2]})
    with pytest.raises(DataError, match=f"the matrix has a column {name!r}, which may hold the items or be an"):
        Annotations.from_matrix(frame)
    assert Annotations.from_matrix(frame.set_index(name)).items.tolist() == [1, 2]
    assert Annotations.from_matrix(frame, annotators=["x", "y", "z"]).n_labels == 6


@pytest.mark.parametrize("empty", ["", "  ", "\t"])
def test_an_empty_text_is_no_label_where_a_cell_may_be_empty_and_refused_elsewhere(
    empty: str, tmp_path: Path
) -> None:
    frame = pd.DataFrame({"ann": ["x", "y", empty], "bob": ["y", empty, empty]}, index=["i", "j", "k"])
    frame.to_csv(tmp_path / "wide.csv", index_label="item")
    frame.reset_index(names="item").to_parquet(tmp_path / "wide.parquet")
    found = [("i", "ann", "x"), ("i", "bob", "y"), ("j", "ann", "y")]
    for data in (
        Annotations.from_frame(frame, wide=True),
        Annotations.from_frame(frame.astype("category"), wide=True),
        read_annotations(tmp_path / "wide.csv", wide=True),
        read_annotations(tmp_path / "wide.parquet", wide=True),
        Annotations.from_matrix(frame),
        Annotations.from_matrix(frame.to_numpy().astype(str), items=frame.index, annotators=frame.columns),
    ):
        assert rows(data) == found
        assert data.items.tolist() == ["i", "j", "k"]

    long = pd.DataFrame({"item": [1, 1, 2], "user": list("aba"), "label": ["x", "y", empty]})
    long.to_csv(tmp_path / "long.csv", index=False)
    long.to_json(tmp_path / "long.jsonl", orient="records", lines=True)
    for read in (
        lambda **said: Annotations.from_frame(long, **said),
        lambda **said: Annotations.from_arrays(long.item, long.user, long.label, **said),
        lambda **said: Annotations.from_dicts({"a": {1: "x", 2: empty}, "b": {1: "y"}}, **said),
        lambda **said: read_annotations(tmp_path / "long.csv", **said),
        lambda **said: read_annotations(tmp_path / "long.jsonl", **said),
    ):
        with pytest.raises(DataError, match=r"the label at .* is missing .*abstentions=.*classes="):
            read()
        assert read(abstentions=[empty]).answers.tolist() == ["x", "y", empty]
        assert read(classes=["x", "y", empty]).classes.tolist() == ["x", "y", empty]
    with pytest.raises(DataError, match=r"the label at \[1, 1\] is missing"):
        Annotations.from_matrix(frame, missing="?")


def test_numbers_beside_empty_texts_stay_numbers() -> None:
    frame = pd.DataFrame({"ann": [1.0, 2.0], "bob": [2.0, ""]}, index=["i", "j"])
    assert Annotations.from_frame(frame, wide=True).classes.tolist() == [1, 2]
    assert Annotations.from_matrix(frame).frame()["label"].tolist() == [1, 2, 2]
    with pytest.raises(DataError, match="text or integers"):
        Annotations.from_frame(pd.DataFrame({"ann": [[1], [2]], "bob": [[1], [1]]}), wide=True)


@pytest.mark.parametrize(
    ("matrix", "options", "message"),
    [
        (np.zeros(3), {}, r"shape \(3,\)"),
        (np.eye(2), {"items": [1]}, r"2 items, but items= names 1"),
        (np.eye(2), {"annotators": [1]}, r"2 annotators, but annotators= names 1"),
        (
            np.array([[0.0, 1.0], [np.inf, 1.0]]),
            {},
            r"label inf at \[1, 0\]",
        ),
        (np.full((2, 2), np.nan), {}, r"no rows"),
        (np.eye(2), {"classes": [0, 2]}, r"the label 1 at \[0, 0\]"),
    ],
)
def test_matrices_that_are_refused(matrix: np.ndarray, options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Annotations.from_matrix(matrix, **options)


def test_dictionaries() -> None:
    data = Annotations.from_dicts({"bob": {"i": 0}, "ann": {"k": 0, "i": 1}, "cy": {}})
    assert rows(data) == ROWS
    assert data.annotators.tolist() == ["ann", "bob", "cy"]
    with pytest.raises(DataError, match=r"label at annotator 'ann', item 'k' is missing"):
        Annotations.from_dicts({"ann": {"i": 1, "k": None}})
    with pytest.raises(DataError, match="labels are an int"):
        Annotations.from_dicts({"ann": 3})  # type: ignore[dict-item]
    with pytest.raises(DataError, match="no rows"):
        Annotations.from_dicts({})


def test_a_label_that_stands_for_none_is_left_out_without_the_rest_of_its_row(tmp_path: Path) -> None:
    (tmp_path / "wide.csv").write_text("item,ann,bob\nx,yes,NA\ny,no,yes\n")
    with pytest.raises(DataError, match=r"column 'bob' of line 2 .* \('NA'\); leave the cell empty, or name it in"):
        read_annotations(tmp_path / "wide.csv", wide=True)
    with pytest.raises(DataError, match="leave it out, or name it in"):
        Annotations.from_dicts({"ann": {"x": "yes", "y": ""}})


MASKED = np.ma.masked_array([[0, 1, 0], [1, 1, 1], [0, 0, 0]], mask=[[0, 0, 1], [0, 0, 0], [0, 1, 0]])
ITEMS, PEOPLE, LABELS = [1, 1, 2, 2], list("abab"), [0, 1, 1, 0]


def hidden(values: list[Any], row: int) -> Any:
    return np.ma.masked_array(values, mask=np.arange(len(values)) == row)


@pytest.mark.parametrize("matrix", [MASKED, MASKED.astype(float), MASKED.astype(object)], ids=["i", "f", "O"])
def test_what_a_matrix_masks_is_no_label(matrix: Any) -> None:
    data = Annotations.from_matrix(matrix)
    pairs = set(data.frame()[["item", "annotator"]].itertuples(index=False, name=None))
    assert pairs == {(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 0), (2, 2)}


def test_what_is_masked_in_a_column_is_missing() -> None:
    with pytest.raises(DataError, match="label at row 2 .* missing"):
        Annotations.from_arrays(ITEMS, PEOPLE, hidden(LABELS, 2))
    with pytest.raises(DataError, match="item at row 3 .* missing"):
        Annotations.from_arrays(hidden(ITEMS, 3), PEOPLE, LABELS)
    with pytest.raises(DataError, match=r"item at \[1, 0\] is missing"):
        Annotations.from_matrix(MASKED, items=hidden([1, 2, 3], 1))
    with pytest.raises(DataError, match="nan is missing or occurs twice in classes="):
        Annotations.from_arrays(ITEMS, PEOPLE, LABELS, classes=hidden([0, 1, 2], 2))
    with pytest.raises(DataError, match=r"history of annotator 'a' holds nan at \(0, 0\)"):
        Annotations.from_arrays(ITEMS, PEOPLE, LABELS, history={"a": np.ma.masked_array(np.eye(2), np.eye(2))})
    whole = Annotations.from_arrays(np.ma.masked_array(ITEMS), PEOPLE, np.ma.masked_array(LABELS))
    assert (whole.n_labels, whole.items.dtype.kind) == (4, "i")


def test_tensors_that_numpy_cannot_hold_as_they_are() -> None:
    short = torch.tensor(LABELS, dtype=torch.bfloat16)
    assert Annotations.from_arrays(ITEMS, PEOPLE, short).classes.tolist() == [0, 1]
    assert Annotations.from_matrix(short.reshape(2, 2)).frame()["label"].tolist() == LABELS
    assert Annotations.from_matrix([[0, 1], [1, 0]], items=torch.tensor([5, 6])).items.tolist() == [5, 6]
    assert Annotations.from_arrays(ITEMS, PEOPLE, LABELS, classes=torch.tensor([1, 0])).classes.tolist() == [1, 0]


def test_names_in_a_table_are_names() -> None:
    frame = pd.DataFrame([[0, 1, 1], [1, 0, 0]], columns=["layout", "nnz", "detach"])
    assert Annotations.from_matrix(frame).n_labels == 6


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (torch.eye(2).to_sparse(), "the matrix is sparse"),
        ([[0, 1], [1]], "the matrix cannot be read"),
        (None, r"the matrix has shape \(\)"),
        (pd.DataFrame({"a": [1, None], "b": [0, 1]}, dtype="Int64"), r"label at \[1, 0\] is missing"),
    ],
    ids=["sparse", "ragged", "None", "NA"],
)
def test_matrices_that_cannot_be_read(matrix: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Annotations.from_matrix(matrix)


@pytest.mark.parametrize(
    "item",
    [(x for x in ITEMS), 1, np.array(1), torch.tensor(1), torch.tensor(ITEMS).to_sparse()],
    ids=["generator", "number", "array", "tensor", "sparse"],
)
def test_columns_that_cannot_be_read(item: Any) -> None:
    with pytest.raises(DataError, match="the item column is"):
        Annotations.from_arrays(item, PEOPLE, LABELS)


def test_options_that_are_no_lists() -> None:
    for options in ({"items": 5}, {"classes": 5}, {"classes": "ab"}):
        with pytest.raises(DataError, match="5|ab"):
            Annotations.from_arrays(ITEMS, PEOPLE, LABELS, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("frame", ["answers.csv", None, {"item": [1]}, [{"item": 1}]], ids=str)
def test_tables_that_are_none(frame: Any, wide: bool) -> None:
    with pytest.raises(DataError, match="no pandas DataFrame"):
        Annotations.from_frame(frame, wide=wide)


@pytest.mark.parametrize(
    "ids",
    [
        np.array([2**64 - 1, 2**64 - 2, 2**64 - 4], np.uint64),
        np.array([2**63 + 1, 2**63, 2**63 - 1], np.uint64),
        np.array([-(2**63), -(2**63) + 1, -(2**63) + 3]),
        [2**63 + 1, 2**63, 2**63 - 1],
    ],
    ids=["high", "middle", "negative", "list"],
)
def test_ids_of_64_bits_stay_apart(ids: Any) -> None:
    data = Annotations.from_arrays(ids, list("aba"), [0, 1, 1])
    given = dict(zip(map(int, ids), [0, 1, 1], strict=True))
    assert dict(zip(map(int, data.frame()["item"]), data.frame()["label"], strict=True)) == given
    assert [int(item) for item in data.items] == sorted(given)
