"""Arrays, tensors and tables in ordinary wrappers: read as they are meant, or refused with a remedy."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from crowdppl.data.annotations import Annotations
from crowdppl.errors import CrowdpplWarning, DataError

MASKED = np.ma.masked_array([[0, 1, 0], [1, 1, 1], [0, 0, 0]], mask=[[0, 0, 1], [0, 0, 0], [0, 1, 0]])
ITEMS, PEOPLE, LABELS = [1, 1, 2, 2], list("abab"), [0, 1, 1, 0]


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        yield


def hidden(values: list[Any], row: int) -> Any:
    return np.ma.masked_array(values, mask=np.arange(len(values)) == row)


@pytest.mark.parametrize(
    "matrix", [MASKED, MASKED.astype(float), MASKED.astype(object), list(MASKED)], ids=["i", "f", "O", "rows"]
)
def test_what_a_matrix_masks_is_no_label(matrix: Any) -> None:
    data = Annotations.from_matrix(matrix)
    pairs = set(data.frame()[["item", "annotator"]].itertuples(index=False, name=None))
    assert pairs == {(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 0), (2, 2)}


def test_what_is_masked_in_a_column_is_missing() -> None:
    with pytest.raises(DataError, match="label at row 2 .* missing or infinite"):
        Annotations.from_arrays(ITEMS, PEOPLE, hidden(LABELS, 2))
    with pytest.raises(DataError, match="item at row 3 .* missing or infinite"):
        Annotations.from_arrays(hidden(ITEMS, 3), PEOPLE, LABELS)
    with pytest.raises(DataError, match="annotator at row 1 .* missing or infinite"):
        Annotations.from_arrays(ITEMS, hidden(PEOPLE, 1), LABELS)
    with pytest.raises(DataError, match=r"item at \[1, 0\] is missing or infinite"):
        Annotations.from_matrix(MASKED, items=hidden([1, 2, 3], 1))
    with pytest.raises(DataError, match="nan is missing or occurs twice in classes="):
        Annotations.from_arrays(ITEMS, PEOPLE, LABELS, classes=hidden([0, 1, 2], 2))
    with pytest.raises(DataError, match=r"history of annotator 'a' holds nan at \(0, 0\)"):
        Annotations.from_arrays(ITEMS, PEOPLE, LABELS, history={"a": np.ma.masked_array(np.eye(2), np.eye(2))})
    whole = Annotations.from_arrays(np.ma.masked_array(ITEMS), PEOPLE, np.ma.masked_array(LABELS))
    assert (whole.n_labels, whole.items.dtype.kind) == (4, "i")


def test_gold_that_is_masked_is_not_known() -> None:
    gold = Annotations.from_arrays(ITEMS, PEOPLE, LABELS, gold={1: np.ma.masked, 2: 1}).gold
    assert gold is not None
    assert gold.to_dict() == {2: 1}


def test_tensors_that_numpy_cannot_hold_as_they_are() -> None:
    short = torch.tensor(LABELS, dtype=torch.bfloat16)
    assert Annotations.from_arrays(ITEMS, PEOPLE, short).classes.tolist() == [0, 1]
    assert Annotations.from_matrix(short.reshape(2, 2)).frame()["label"].tolist() == LABELS
    turned = torch.complex(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])).conj().imag
    assert turned.is_neg()
    assert Annotations.from_arrays([1, 2], ["a", "b"], turned).classes.tolist() == [-4, -3]
    assert Annotations.from_matrix([[0, 1], [1, 0]], items=torch.tensor([5, 6])).items.tolist() == [5, 6]
    assert Annotations.from_arrays(ITEMS, PEOPLE, LABELS, classes=torch.tensor([1, 0])).classes.tolist() == [1, 0]


def test_names_in_a_table_are_names() -> None:
    names = ["layout", "nnz", "detach"]
    frame = pd.DataFrame([[0, 1, 1], [1, 0, 0]], columns=names)
    assert Annotations.from_matrix(frame).n_labels == 6
    label = pd.Series([0, 1, 1], index=names)
    assert Annotations.from_arrays([1, 1, 2], list("aba"), label).n_labels == 3


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (torch.eye(2).to_sparse(), "the matrix is sparse, .*; make it dense"),
        ([[0, 1], [1]], "the matrix cannot be read .*; it must have a row an item"),
        (None, r"the matrix has shape \(\)"),
        (pd.DataFrame({"a": [1, None], "b": [0, 1]}, dtype="Int64"), r"label at \[1, 0\] is missing"),
    ],
    ids=["sparse", "ragged", "None", "NA"],
)
def test_matrices_that_cannot_be_read(matrix: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Annotations.from_matrix(matrix)


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ((x for x in ITEMS), "item column is of type generator, .*; give one value a row"),
        (1, "item column is of type int"),
        (np.array(1), "item column is of type ndarray"),
        (torch.tensor(1), "item column is of type Tensor"),
        (torch.tensor(ITEMS).to_sparse(), "the item column is sparse"),
    ],
    ids=["generator", "number", "array", "tensor", "sparse"],
)
def test_columns_that_cannot_be_read(item: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Annotations.from_arrays(item, PEOPLE, LABELS)


def test_options_that_are_no_lists() -> None:
    with pytest.raises(DataError, match=r"5 is no list of ids; give one, \[5\]"):
        Annotations.from_matrix(MASKED, items=5)  # type: ignore[typeddict-item]
    with pytest.raises(DataError, match="the item column is 5; give one value a row"):
        Annotations.from_arrays(ITEMS, PEOPLE, LABELS, items=5)  # type: ignore[typeddict-item]
    with pytest.raises(DataError, match=r"classes=5 is no list; give one, classes=\[5, "):
        Annotations.from_arrays(ITEMS, PEOPLE, LABELS, classes=5)  # type: ignore[typeddict-item]


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ("answers.csv", "of type str, and no pandas DataFrame; crowdppl.read_annotations reads files"),
        (Path("answers.csv"), "crowdppl.read_annotations reads files"),
        (None, "of type NoneType, and no pandas DataFrame"),
        ({"item": [1]}, r"of type dict, .*; pandas.DataFrame\(...\) makes one"),
        ([{"item": 1}], r"of type list, .*; pandas.DataFrame\(...\) makes one"),
        (pd.DataFrame({"item": [1]}).to_records(), r"of type recarray, .*; pandas.DataFrame\(...\) makes one"),
    ],
    ids=["text", "path", "None", "dict", "dicts", "records"],
)
def test_tables_that_are_none(frame: Any, message: str, wide: bool) -> None:
    with pytest.raises(DataError, match=message):
        Annotations.from_frame(frame, wide=wide)


def test_labels_that_are_no_dictionaries() -> None:
    with pytest.raises(DataError, match=r"labels are of type list; give a dictionary \{annotator"):
        Annotations.from_dicts([1])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "ids",
    [
        np.array([2**64 - 1, 2**64 - 2, 2**64 - 4], np.uint64),
        np.array([2**63 + 1, 2**63, 2**63 - 1], np.uint64),
        np.array([0, 1, 3], np.uint64),
        np.array([-(2**63), -(2**63) + 1, -(2**63) + 3]),
        [2**63 + 1, 2**63, 2**63 - 1],
    ],
    ids=["high", "middle", "low", "negative", "list"],
)
def test_ids_of_64_bits_stay_apart(ids: Any) -> None:
    data = Annotations.from_arrays(ids, list("aba"), [0, 1, 1])
    given = dict(zip(map(int, ids), [0, 1, 1], strict=True))
    assert dict(zip(map(int, data.frame()["item"]), data.frame()["label"], strict=True)) == given
    assert [int(item) for item in data.items] == sorted(given)
