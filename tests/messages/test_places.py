"""A bad cell of a file is told by its line, or the id that the line begins with, and by what stands in it."""

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl.errors import DataError
from tests.messages.inputs import of_file, read, table, written


def numbers(rows: pd.DataFrame) -> crowdppl.Posterior:
    return crowdppl.fit("label_mean", read(rows, kind="real"), inference="vb", seed=0)


HEAD = "item,annotator,label"
FILES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "an item": (HEAD + "\n1,a,x\n,b,y\n", "''", {}),
    "an annotator": (HEAD + "\n1,a,x\n1,,y\n", "''", {}),
    "a label": (HEAD + "\n1,a,x\n1,b,\n", "''", {}),
    "a class": (HEAD + "\n1,a,x\n1,b,zz\n", "'zz'", {"classes": ["x", "y"]}),
    "a number": (HEAD + "\n1,a,3\n1,b,zz\n", "'zz'", {"kind": "real"}),
    "a number with a comma": (HEAD + '\n1,a,"3,5"\n1,b,zz\n', "'zz'", {"kind": "real", "decimal": ","}),
    "a count": (HEAD + "\n1,a,3\n1,b,-2\n", "'-2'", {"kind": "count"}),
    "an angle": (HEAD + "\n1,a,3\n1,b,720\n", "'720'", {"kind": "angle"}),
    "a set": (HEAD + "\n1,a,x;y\n1,b,x;zz\n", "'zz'", {"kind": "set", "classes": ["x", "y"]}),
    "a winner": ("left,right,annotator,winner\np,q,a,p\nq,r,b,zz\n", "'zz'", {"kind": "pair"}),
    "one with itself": ("left,right,annotator,winner\np,q,a,p\nq,q,b,q\n", "'q'", {"kind": "pair"}),
    "a rank": ("object,annotator,rank\np,a,1\nq,a,zz\nr,a,3\n", "'zz'", {"kind": "ranking"}),
    "a position": ("sequence,position,annotator,label\n1,0,a,O\n1,zz,a,O\n", "'zz'", {"kind": "sequence"}),
    "a count of votes": ("item,cat,dog\n1,3,1\n2,-1,2\n3,2,2\n", "'-1'", {"columns": "classes"}),
    "a number of a wide table": ("item,a,b\n1,2,3\n2,4,zz\n", "'zz'", {"wide": True, "kind": "real"}),
    "a label covariate": (HEAD + ",t\n1,a,x,3\n1,b,y,zz\n", "'zz'", {"label_covariates": ["t"]}),
    "no label covariate": (HEAD + ",t\n1,a,x,3\n1,b,y,\n", "'t'", {"label_covariates": ["t"]}),
    "a short row": (HEAD + "\n1,a,x\n1,b\n", "2 fields", {}),
}
BESIDE: dict[str, tuple[str, Any, str, tuple[str, ...]]] = {
    "features": (
        "features",
        crowdppl.read_item_covariates,
        "item,f\n1,3.5\n2,zz\n",
        ("'zz'", "'2' (line 3", "'f'"),
    ),
    "no feature": ("features", crowdppl.read_item_covariates, "item,f\n1,3.5\n2,\n", ("nan", "2 (line 3", "'f'")),
    "a feature too large": (
        "features",
        crowdppl.read_item_covariates,
        "item,f\n1,3\n2,1e99\n",
        ("1e+99", "line 3"),
    ),
    "an item spelled twice": (
        "item_covariates",
        crowdppl.read_item_covariates,
        "item,f\n1,3\nx,4\n",
        ("'x' (line 3",),
    ),
    "twice": ("item_covariates", crowdppl.read_item_covariates, "item,f\n1,3\n1,5\n", ("line 2 of", "line 3 of")),
    "annotators twice": (
        "annotator_covariates",
        crowdppl.read_annotator_covariates,
        "annotator,f\na,3\na,5\n",
        ("'a'", "line 2 of", "line 3 of"),
    ),
    "an unknown annotator": (
        "annotator_covariates",
        crowdppl.read_annotator_covariates,
        "annotator,f\na,3\nzz,5\n",
        ("'zz' (line 3",),
    ),
    "a truth": ("gold", crowdppl.read_gold, "item,label\n1,x\n2,zz\n", ("'zz'", "item '2' (line 3")),
    "two truths": (
        "gold",
        crowdppl.read_gold,
        "item,label\n1,x\n2,x\n1,y\n",
        ("item 1 more than once (line 2 of", "and line 4 of"),
    ),
    "an unknown item": ("gold", crowdppl.read_gold, "item,label\n1,x\n99,y\n", ("'99' (line 3",)),
}
HISTORIES: dict[str, tuple[Any, str]] = {
    "an unknown annotator": ({"zz": [[1, 0], [0, 1]]}, "'zz'"),
    "twice": ({"a": [[1, 0], [0, 1]], np.str_("a "): [[1, 0], [0, 1]]}, "'a '"),
    "text": ({"a": [["x", 0], [0, 1]]}, "annotator 'a'"),
    "ragged": ({"a": [[1, 0], [0]]}, "annotator 'a'"),
    "flat": ({"a": [1, 0]}, "shape (2,)"),
    "negative": ({"a": [[1, 0], [-1, 1]]}, "annotator 'a' holds -1.0 at (1, 0)"),
    "missing": ({"a": [[1, 0], [None, 1]]}, "annotator 'a' holds nan at (1, 0)"),
    "too few": ([[[1, 0], [0, 1]]], "shape (1, 2, 2)"),
    "a table": (pd.DataFrame({"annotator": ["a"], "count": [3]}), "no number"),
    "text in place of it": ("history.json", "no number"),
    "a nested mapping": ({"a": {"x": {"x": 3}}}, "annotator 'a'"),
}


@pytest.mark.parametrize("what", FILES)
def test_a_bad_cell_is_told_by_its_line_and_what_it_holds(what: str) -> None:
    text, value, options = FILES[what]
    with pytest.raises(DataError) as raised:
        of_file(text, **options)
    assert "line 3 of" in str(raised.value) and value in str(raised.value)


@pytest.mark.parametrize("what", BESIDE)
def test_so_it_is_in_files_beside_the_labels(what: str) -> None:
    option, reader, text, parts = BESIDE[what]
    with pytest.raises(DataError) as raised:
        read(**{option: reader(written(text))})
    assert all(part in str(raised.value) for part in parts), str(raised.value)


def test_a_truth_that_is_no_number_is_told_by_its_line() -> None:
    rows = table(label=[1.5, 2.5, 3.0, 4.0])
    gold = crowdppl.read_gold(written("item,label\n1,3\n2,zz\n"))
    for call in (lambda: read(rows, kind="real", gold=gold), lambda: crowdppl.evaluate(numbers(rows), gold)):
        with pytest.raises(DataError, match=r"'zz' of item '?2'? \(line 3 of"):
            call()


def test_a_truth_to_score_by_is_told_by_its_line() -> None:
    found = crowdppl.fit("majority_vote", read(), inference="em")
    with pytest.raises(DataError, match=r"'zz' of item '?2'? \(line 3 of"):
        crowdppl.evaluate(found, crowdppl.read_gold(written("item,label\n1,x\n2,zz\n")))


def test_places_do_not_outlive_the_reading() -> None:
    """Nor does a table that is copied, pickled or written lose anything by them."""
    path = written("item,f\n1,3\n2,5\n")
    found = crowdppl.read_item_covariates(path)
    assert pickle.loads(pickle.dumps(found)).equals(found) and found.copy().equals(found)
    found.to_parquet(path.with_suffix(".parquet"))
    data = read(features=found, item_covariates=found)
    for made in (data.features, data.item_covariates):
        assert isinstance(made, pd.DataFrame) and not made.attrs
    path = written("item,label\n1,zz\n")
    gone = crowdppl.read_gold(path)
    path.unlink()
    with pytest.raises(DataError, match=rf"'zz' of item '1' \({path.name}\)"):
        read(gold=gone)


@pytest.mark.parametrize("what", HISTORIES)
def test_a_bad_history_is_told_by_annotator_and_place(what: str) -> None:
    given, said = HISTORIES[what]
    with pytest.raises(DataError) as raised:
        read(history=given)
    assert said in str(raised.value) and "history" in str(raised.value)


@pytest.mark.parametrize(
    ("features", "said"),
    [
        (np.array([[1, None], [2, 3]], object), r"None at \[0, 1\]"),
        (np.array([[1, "x"], [2, 3]], object), r"'x' at \[0, 1\]"),
        (np.array([[1, 2 + 1j], [2, 3]]), "complex"),
    ],
)
def test_features_that_are_no_numbers_name_the_first(features: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        read(features=features, items=[1, 2])
    assert read(features=np.array([[1, 2.5], [3, 4]], object), items=[1, 2]).features is not None
