"""Wide tables, matrices and dictionaries say the same as rows."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pytest
import torch

from crowdppl.data.annotations import Annotations
from crowdppl.data.files import read_annotations
from crowdppl.errors import DataError

ROWS = [("i", "ann", 1), ("i", "bob", 0), ("k", "ann", 0)]
WIDE = pd.DataFrame({"ann": [1.0, np.nan, 0.0], "bob": [0.0, np.nan, np.nan]}, index=["i", "j", "k"])


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


def test_dictionaries() -> None:
    data = Annotations.from_dicts({"bob": {"i": 0}, "ann": {"k": 0, "i": 1}, "cy": {}})
    assert rows(data) == ROWS
    assert data.annotators.tolist() == ["ann", "bob", "cy"]
    with pytest.raises(DataError, match=r"label at annotator 'ann', item 'k' is missing"):
        Annotations.from_dicts({"ann": {"i": 1, "k": None}})
    with pytest.raises(DataError, match="labels are an int"):
        Annotations.from_dicts({"ann": 3})
    with pytest.raises(DataError, match="no rows"):
        Annotations.from_dicts({})


ITEMS, PEOPLE, LABELS = [1, 1, 2, 2], list("abab"), [0, 1, 1, 0]


@pytest.mark.parametrize(
    ("frame", "options", "named"),
    [
        (WIDE.replace({0.0: np.inf}), {}, "inf at column 'bob' of row 0"),
        (WIDE, {"label": "ann"}, "'label': 'ann'"),
        (WIDE.set_axis(["ann", "ann"], axis=1), {}, "'ann'"),
        (WIDE, {"item": "what"}, "'what'"),
        (WIDE.reset_index(names="id"), {}, "'id', .*say item="),
        (WIDE.reset_index(names="item").assign(question=list("xyz")), {}, "'item', 'question'; say item="),
        (WIDE.reset_index(names="worker").assign(answer=1), {}, "'worker' and 'answer', .*wide="),
        (pd.DataFrame({"ann": [[1], [2]], "bob": [[1], [1]]}), {}, "is a list"),
        ({"item": [1]}, {}, "no table"),
    ],
)
def test_wide_tables_that_are_refused(frame: Any, options: dict[str, Any], named: str) -> None:
    """A column of ids would be labels of one more annotator, and be fitted without a word."""
    with pytest.raises(DataError, match=named):
        Annotations.from_frame(frame, wide=True, **options)


VOTES = pd.DataFrame({"item": [1, 2, 3, 4], "r1": list("abab"), "r2": list("abbb"), "r3": list("aaab")})
EXTRAS = {
    **{
        name: list("abab") for name in ("gold", "gold_label", "truth", "GOLDEN:result", "label", "true", "majority")
    },
    "created_at": [f"2024-01-0{day}" for day in (1, 2, 3, 4)],
    "n_words": ["12", "7", "3", "a"],
    "remark": ["why", "because", None, "so"],
    "id": list("abab"),
    "text": list("abab"),
}


@pytest.mark.parametrize("name", EXTRAS)
def test_columns_of_wide_tables_that_are_no_annotators(name: str, tmp_path: Path) -> None:
    frame = VOTES.assign(**{name: EXTRAS[name]})
    frame.to_csv(tmp_path / "wide.csv", index=False)
    for read in (
        lambda **more: Annotations.from_frame(frame, item="item", wide=True, **more),
        lambda **more: read_annotations(tmp_path / "wide.csv", item="item", wide=True, **more),
    ):
        with pytest.raises(DataError, match=f"'{name}'.*annotators="):
            read()
        data = read(annotators=["r1", "r2", "r3"])
        assert data.annotators.tolist() == ["r1", "r2", "r3"]
        assert data.n_classes == 2
    with pytest.raises(DataError, match=f"'{name}'"):
        Annotations.from_matrix(frame.set_index("item"))


def test_annotators_with_names_like_these_are_taken() -> None:
    names = ["expert", "short_length", "label_1", "Goldberg"]
    frame = pd.DataFrame([[0, 0, 1, 1], [1, 1, 1, 0], [1, 0, 0, 1]], columns=names, index=list("ijk"))
    assert Annotations.from_frame(frame, wide=True).annotators.tolist() == sorted(names)
    sources = pd.DataFrame({"spam": [1, None, 1], "ham": [None, 0, 0], "other": [2, 2, None]}, index=list("ijk"))
    assert Annotations.from_frame(sources, wide=True).n_annotators == 3, "each only ever says one class"


def test_wide_tables_of_numbers() -> None:
    """Measurements seldom repeat, so that all values are of one annotator alone."""
    seen = np.random.default_rng(0).normal(50, 20, (30, 4)).round(3)
    frame = pd.DataFrame(seen, columns=list("abcd"), index=[f"i{n}" for n in range(30)])
    assert Annotations.from_frame(frame, wide=True, kind="real").annotators.tolist() == list("abcd")
    with pytest.raises(DataError, match="'size'"):
        Annotations.from_frame(frame.assign(size=np.arange(1000, 1030)), wide=True, kind="real")
    grades = (frame // 40).clip(0, 2).astype(int)
    with pytest.raises(DataError, match="'share'"):
        Annotations.from_frame(grades.assign(share=np.linspace(0.1, 0.9, 30)), wide=True)


@pytest.mark.parametrize(
    ("matrix", "options", "named"),
    [
        (np.zeros(3), {}, r"\(3,\)"),
        (np.eye(2), {"items": [1]}, "2 items, but items= names 1"),
        (np.array([[0.0, 1.0], [np.inf, 1.0]]), {}, r"inf at \[1, 0\]"),
        (np.full((2, 2), np.nan), {}, "no rows"),
        (np.eye(2), {"classes": [0, 2]}, r"label 1 at \[0, 0\]"),
        (WIDE.set_axis(["ann", "ann"], axis=1), {}, "'ann'"),
        (WIDE.reset_index(names="task_id"), {}, "'task_id', which may hold the items"),
        (torch.eye(2).to_sparse(), {}, "sparse"),
        ([[0, 1], [1]], {}, "matrix"),
    ],
)
def test_matrices_that_are_refused(matrix: Any, options: dict[str, Any], named: str) -> None:
    with pytest.raises(DataError, match=named):
        Annotations.from_matrix(matrix, **options)


@pytest.mark.parametrize("empty", ["", "  ", None])
def test_an_empty_text_is_no_label_where_a_cell_may_be_empty_and_refused_elsewhere(
    empty: str | None, tmp_path: Path
) -> None:
    frame = pd.DataFrame({"ann": ["x", "y", empty], "bob": ["y", empty, empty]}, index=["i", "j", "k"])
    frame.to_csv(tmp_path / "wide.csv", index_label="item")
    for data in (
        Annotations.from_frame(frame, wide=True),
        Annotations.from_frame(frame.astype("category"), wide=True),
        read_annotations(tmp_path / "wide.csv", wide=True),
        Annotations.from_matrix(frame),
        Annotations.from_matrix(frame.to_numpy(), items=frame.index, annotators=frame.columns),
    ):
        assert rows(data) == [("i", "ann", "x"), ("i", "bob", "y"), ("j", "ann", "y")]
        assert data.items.tolist() == ["i", "j", "k"]
    long = pd.DataFrame({"item": [1, 1, 2], "user": list("aba"), "label": ["x", "y", empty]})
    with pytest.raises(DataError, match="missing"):
        Annotations.from_frame(long)
    if empty is not None:
        assert Annotations.from_frame(long, abstentions=[empty]).answers.tolist() == ["x", "y", empty]
        assert Annotations.from_frame(long, classes=["x", "y", empty]).classes.tolist() == ["x", "y", empty]


@pytest.mark.parametrize("item", [1, np.array(1), torch.tensor(1), torch.eye(2).to_sparse(), "abcd"])
def test_columns_that_cannot_be_read(item: Any) -> None:
    with pytest.raises(DataError, match="item column"):
        Annotations.from_arrays(item, list("abab"), LABELS)


def test_a_wide_table_with_gold_and_annotators_that_are_named() -> None:
    frame = VOTES.assign(truth=["a", "b", None, "b"], words=[12, 7, 3, 9])
    data = Annotations.from_frame(frame, wide=True, gold_column="truth", annotators=["r3", "r1"])
    assert data.gold is not None and data.gold.to_dict() == {1: "a", 2: "b", 4: "b"}
    assert (data.n_labels, data.annotators.tolist()) == (8, ["r1", "r3"])
    assert data.summary()["columns"] == {"item": "item", "annotator": "r3, r1", "gold": "truth"}
    with pytest.raises(DataError, match="'r9'"):
        Annotations.from_frame(frame, wide=True, annotators=["r1", "r9"])


@pytest.mark.parametrize("kind", [None, "set"])
@pytest.mark.parametrize("arrow", [False, True])
def test_lists_of_annotators_and_their_labels_are_a_row_each(kind: str | None, arrow: bool) -> None:
    labels: list[Any] = [["pos", "neg"], [], ["neg"]] if kind is None else [[["pos"], ["neg"]], [], [["neg"]]]
    frame = pd.DataFrame(
        {"item": [*"abc"], "annotator": [["u", "v"], [], ["v"]], "label": labels, "seconds": [3, 4, 5]}
    )
    data = Annotations.from_frame(pyarrow.Table.from_pandas(frame) if arrow else frame, kind=kind)
    long = pd.DataFrame(
        {"item": [*"aac"], "annotator": [*"uvv"], "label": ["pos", "neg", "neg"], "seconds": [3, 3, 5]}
    )
    pd.testing.assert_frame_equal(data.frame(), Annotations.from_frame(long, kind=kind).frame())


def test_labels_in_lists_are_sets_where_each_is_one() -> None:
    who: list[Any] = [["u", "v"], ["u", "v"]]
    frame = pd.DataFrame({"item": [*"ab"], "annotator": who, "label": [["pos", "neg"], ["neg", "neg"]]})
    with pytest.raises(DataError, match=r"row 0 .* such as 'pos'.*a row for each \(DataFrame.explode\)"):
        Annotations.from_frame(frame, kind="set")
    wanted = Annotations.from_frame(frame.explode(["annotator", "label"]), kind="set").frame()
    sets = frame.assign(label=[[["pos"], ["neg"]], [["neg"], ["neg"]]])
    pd.testing.assert_frame_equal(Annotations.from_frame(sets, kind="set").frame(), wanted)
    text = frame.assign(label=[["pos;neg", "neg"], ["neg", "neg"]])
    assert Annotations.from_frame(text, kind="set").votes().tolist() == [[0, 2], [1, 1], [0, 2], [2, 0]]


@pytest.mark.parametrize("label", [["pos"], "pos", None])
def test_lists_that_do_not_match_are_refused(label: Any) -> None:
    frame = pd.DataFrame({"item": [*"ab"], "annotator": [["u"], ["u", "v"]], "label": [["pos"], label]})
    with pytest.raises(DataError, match=r"row 1 .* names the annotators \['u', 'v'\] .*a row for each"):
        Annotations.from_frame(frame)
