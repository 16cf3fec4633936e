"""Tables as folders of parts are the same labels, and what is wrong is refused as in a table that is read."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl.errors import CrowdpplError

pytest.importorskip("duckdb")
ODD = [
    " a",
    "a ",
    "a",
    "A",
    "é",
    "e\u0301",
    "漢字",
    'quo"te',
    "comma, here",
    "line\nbreak",
    "007",
    "7",
    "1e3",
    "-0",
    "😀",
    "'",
]
"""Ids that readers like to change."""


def crowd(n_items: int = 60, seed: int = 0) -> pd.DataFrame:
    """Labels by four annotators of three classes, some again."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(3, size=n_items)
    item, annotator = (x.ravel() for x in np.meshgrid(np.arange(n_items), np.arange(4), indexing="ij"))
    label = np.where(rng.random(len(item)) < 0.75, truth[item], rng.integers(3, size=len(item)))
    table = pd.DataFrame({"task": item, "worker": annotator, "answer": label}).sample(frac=0.8, random_state=seed)
    table = pd.concat([table, table.iloc[:5]])
    names = [*ODD, *(f"item {n}" for n in range(n_items))]
    return pd.DataFrame(
        {
            "task": [names[n] for n in table["task"]],
            "worker": [["01", "1", "ann", "Ünal"][n] for n in table["worker"]],
            "answer": [["no", "yes", "may be"][n] for n in table["answer"]],
        }
    )


def both(
    path: Any, folder: Path, n_parts: int = 3, **said: Any
) -> tuple[crowdppl.Annotations, crowdppl.Annotations]:
    """A table as it is read, and as it is converted and opened."""
    crowdppl.convert(path, folder, n_parts=n_parts, **said)
    one = [path] if isinstance(path, str | Path) else path
    return crowdppl.read_annotations(one[0], **said), crowdppl.Annotations.open(folder, check=True)


def rows(data: crowdppl.Annotations) -> pd.DataFrame:
    """All labels, sorted by what is in them."""
    frame = data.frame()
    return frame.sort_values([*frame.columns], key=lambda x: x.map(str)).reset_index(drop=True)


def same(read: crowdppl.Annotations, opened: crowdppl.Annotations) -> None:
    pd.testing.assert_frame_equal(rows(read), rows(opened), check_dtype=False)
    assert read.annotators.equals(opened.annotators)
    assert [*read.alphabet.book.ids] == [*opened.alphabet.book.ids]
    assert {*read.items} == {*opened.items} and read.n_items == opened.n_items
    if read.gold is not None:
        assert opened.gold is not None
        assert read.gold.to_dict() == opened.gold.to_dict()
    assert told(read) == told(opened)


def told(data: crowdppl.Annotations) -> set[str]:
    """Warnings; how items are spelled, which parts do not compare, is left out."""
    return {str(warning) for warning in data.warnings if " items differ from another in case" not in str(warning)}


def test_a_fit_to_parts_is_that_to_the_table(tmp_path: Path) -> None:
    crowd().to_csv(tmp_path / "a.csv", index=False)
    read, opened = both(tmp_path / "a.csv", tmp_path / "parts")
    same(read, opened)
    assert len(opened.blocks) == 3
    fits = [crowdppl.fit("dawid_skene", data, inference="em", seed=0) for data in (read, opened)]
    one, other = (fit.probabilities() for fit in fits)
    np.testing.assert_allclose(other.loc[one.index], one, atol=1e-12)
    np.testing.assert_allclose(*(np.asarray(fit.confusion()) for fit in fits), atol=1e-12)


@pytest.mark.parametrize("form", ["csv", "tsv", "gz", "jsonl", "array", "parquet", "several", "sql", "semicolons"])
def test_all_formats_are_the_same_labels(form: str, tmp_path: Path) -> None:
    table = crowd()
    table.to_csv(tmp_path / "a.csv", index=False)
    read = crowdppl.read_annotations(tmp_path / "a.csv")
    source: Any = tmp_path / f"b.{form}"
    more = dict[str, Any]()
    if form == "csv":
        source.write_bytes(b"\xef\xbb\xbf" + table.to_csv(index=False, lineterminator="\r\n").encode())
    elif form == "tsv":
        table.to_csv(source, index=False, sep="\t")
    elif form == "gz":
        source = tmp_path / "b.csv.gz"
        source.write_bytes(gzip.compress(table.to_csv(index=False).encode()))
    elif form in ("jsonl", "array"):
        source = tmp_path / f"b.{'jsonl' if form == 'jsonl' else 'json'}"
        table.to_json(source, orient="records", lines=form == "jsonl")
    elif form == "parquet":
        table.to_parquet(source)
    elif form == "several":
        for n, part in enumerate((table[:50], table[50:51], table[51:])):
            part.to_csv(tmp_path / f"several-{n}.csv", index=False)
        source = str(tmp_path / "several-*.csv")
    elif form == "sql":
        table.to_parquet(tmp_path / "c.parquet")
        source = f"SELECT task AS item, worker AS who, answer FROM '{tmp_path / 'c.parquet'}'"
        more = {"format": "sql", "annotator": "who"}
    else:
        source = tmp_path / "b.txt"
        table.to_csv(source, index=False, sep=";")
        more = {"delimiter": ";", "format": "csv"}
    crowdppl.convert(source, tmp_path / "parts", n_parts=2, **more)
    same(read, crowdppl.Annotations.open(tmp_path / "parts", check=True))


def test_what_else_a_table_says_comes_along(tmp_path: Path) -> None:
    table = crowd()
    truth = table.groupby("task")["answer"].first().sample(frac=0.4, random_state=1)
    rng = np.random.default_rng(2)
    table["answer"] = table["answer"].where(rng.random(len(table)) > 0.1, "don't know")
    table["known"] = table["task"].map(truth).fillna("")
    table["seconds"] = rng.integers(1, 60, len(table))
    table["when"] = pd.date_range("2026-03-01", periods=len(table), freq="h").strftime("%Y-%m-%d %H:%M")
    table.to_csv(tmp_path / "a.csv", index=False)
    more: dict[str, Any] = {"abstentions": ["don't know"], "informative_abstentions": True}
    more |= {"gold_column": "known", "label_covariates": ["seconds"], "time": "when"}
    read, opened = both(tmp_path / "a.csv", tmp_path / "parts", **more)
    names = ["item", "annotator", "label", "seconds", "when"]
    kept = [rows(data)[names].sort_values(names).reset_index(drop=True) for data in (read, opened)]
    pd.testing.assert_frame_equal(*kept, check_dtype=False)
    assert read.gold is not None and opened.gold is not None
    assert read.gold.to_dict() == opened.gold.to_dict()
    assert (read.time, read.label_names) == (opened.time, opened.label_names)
    assert opened.alphabet.informative and np.array_equal(read.abstainers, opened.abstainers)
    assert told(read) == told(opened)


@pytest.mark.parametrize("repeats", ["keep", "one", "first", "last"])
def test_repeats_are_treated_alike(repeats: str, tmp_path: Path) -> None:
    table = pd.concat([crowd(), crowd(seed=1)])
    table.to_csv(tmp_path / "a.csv", index=False)
    same(*both(tmp_path / "a.csv", tmp_path / "parts", repeats=repeats))


def test_numbers_whole_or_not_and_items_without_any(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"item": np.repeat(np.arange(30), 3), "annotator": np.tile([10, 2, 33], 30)})
    table["label"] = rng.normal(size=90).round(3).astype(str)
    table.loc[table["item"] == 7, "label"] = "none"
    table.to_csv(tmp_path / "a.csv", index=False)
    read, opened = both(tmp_path / "a.csv", tmp_path / "parts", kind="real", abstentions=["none"])
    same(read, opened)
    assert opened.n_items == 30 and opened.n_labels == 87


def test_integers_stay_integers(tmp_path: Path) -> None:
    table = pd.DataFrame({"item": [3, 3, 20, 20, 100], "annotator": [1, 2, 1, 2, 2], "label": [0, 1, 1, 1, 0]})
    table.to_parquet(tmp_path / "a.parquet")
    read, opened = both(tmp_path / "a.parquet", tmp_path / "parts", n_parts=2)
    same(read, opened)
    assert opened.items.dtype.kind == opened.annotators.dtype.kind == opened.classes.dtype.kind == "i"
    (tmp_path / "a.jsonl").write_text(table.to_json(orient="records", lines=True))
    read, opened = both(tmp_path / "a.jsonl", tmp_path / "again", n_parts=2)
    same(read, opened)
    assert opened.items.dtype.kind == "i"


HEAD = "item,annotator,label\n"
REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "no item": (HEAD + "1,a,x\n,b,y\n", {}),
    "no annotator": (HEAD + "1,a,x\n1,,y\n", {}),
    "an annotator called NA": (HEAD + "1,a,x\n1,NA,y\n", {}),
    "no label": (HEAD + "1,a,x\n1,b,\n", {}),
    "another class": (HEAD + "1,a,x\n1,b,zz\n", {"classes": ["x", "y"]}),
    "one class": (HEAD + "1,a,x\n1,b,x\n", {}),
    "no number": (HEAD + "1,a,3\n1,b,zz\n", {"kind": "real"}),
    "a short row": (HEAD + "1,a,x\n1,b\n2,a,y\n", {}),
    "a long row": (HEAD + "1,a,x\n1,b,y,z\n2,a,y\n", {}),
    "a quote that stays open": (HEAD + '1,a,x\n1,b,"y\n2,a,x\n', {}),
    "no such column": (HEAD + "1,a,x\n1,b,y\n", {"item": "nothing"}),
    "no column of annotators": ("item,label\n1,x\n1,y\n", {}),
    "two columns of items": ("item,task,annotator,label\n1,2,a,x\n1,3,b,y\n", {}),
    "columns twice": ("item,item,annotator,label\n1,2,a,x\n1,3,b,y\n", {}),
    "a covariate that is none": (HEAD + "1,a,x\n1,b,y\n", {"label_covariates": ["seconds"]}),
    "a cell that is no number": ("item,annotator,label,t\n1,a,x,3\n1,b,y,zz\n", {"label_covariates": ["t"]}),
    "two truths": ("item,annotator,label,g\n1,a,x,x\n1,b,y,y\n2,a,y,\n", {"gold_column": "g"}),
    "a truth that is no class": ("item,annotator,label,g\n1,a,x,q\n1,b,y,q\n", {"gold_column": "g"}),
    "no rows": (HEAD, {}),
    "one column": ("item\n1\n", {}),
    "sets": (HEAD + "1,a,x;y\n1,b,x\n2,a,y\n", {}),
    "repeats": (HEAD + "1,a,x\n1,a,y\n", {"repeats": "error"}),
    "text that says it is no answer": (HEAD + "1,a,1\n2,b,2\n3,a,*\n", {}),
}


ROW = '{"item": "1", "annotator": "a", "label": "x"}\n'
DAMAGED: dict[str, tuple[str, bytes]] = {
    "no object": ("a.jsonl", (ROW * 20_000 + '{"item": 1,,}\n').encode()),
    "no label": ("a.jsonl", (ROW + "\n" + '{"item": "2", "annotator": "b"}\n').encode()),
    "text and numbers": ("a.jsonl", (ROW + '{"item": 7, "annotator": "b", "label": "y"}\n').encode()),
    "another encoding, late": ("a.csv", (HEAD + "1,a,x\n" * 20_000 + "1,b,é\n").encode("latin-1")),
    "a short row, late": ("a.csv", (HEAD + "1,a,x\n" * 20_000 + "1,b\n").encode()),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_what_is_damaged_is_said_as_when_it_is_read(what: str, tmp_path: Path) -> None:
    name, content = DAMAGED[what]
    (tmp_path / name).write_bytes(content)
    said = list[str]()
    for call in (crowdppl.read_annotations, lambda path: crowdppl.convert(path, tmp_path / "parts")):
        with pytest.raises(CrowdpplError) as error:
            call(tmp_path / name)
        said.append(str(error.value))
    assert said[0] == said[1]


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_wrong_is_said_as_when_it_is_read(what: str, tmp_path: Path) -> None:
    text, said = REFUSED[what]
    (tmp_path / "a.csv").write_text(text)
    said_twice = list[str]()
    for call in (
        lambda: crowdppl.read_annotations(tmp_path / "a.csv", **said),
        lambda: both(tmp_path / "a.csv", tmp_path / "parts", **said),
    ):
        with pytest.raises(CrowdpplError) as error:
            call()
        said_twice.append(str(error.value))
    assert said_twice[0] == said_twice[1]
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
