"""Readers of the files of public data sets, a function a format.

Files that are not as expected raise ValueError or KeyError; ``crowdppl.datasets.load`` makes it a DataError.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

Files = Mapping[str, Path]
"""Files of a data set by what they hold, such as "labels"."""
NAMES = ["item", "annotator", "label"]


@dataclass(frozen=True)
class Contents:
    """The contents of the files of a data set; labels and truths are text, as in the files.

    Attributes:
        rows: DataFrame with item, annotator, label and perhaps seconds, a row a label.
        truth: the true label by item id; None where the source has none.
        features: DataFrame of numbers by item id, of all items; None where the source has none.
        part: "train", "valid" or "test" by item id; None where there is one part only.
    """

    rows: pd.DataFrame
    truth: pd.Series[Any] | None = None
    features: pd.DataFrame | None = None
    part: pd.Series[Any] | None = None


def integers(files: Files) -> Contents:
    """Integers in columns without a header: item, annotator, label; and item, truth."""
    rows = pd.DataFrame(_integers(files["labels"])).set_axis(NAMES, axis=1).astype({"label": str})
    return Contents(rows, _by_item(pd.DataFrame(_integers(files["truth"]))))


def tables(files: Files) -> Contents:
    """Tables with a header, columns in this order: item, annotator, label; and item, truth."""
    return Contents(_table(files["labels"]).set_axis(NAMES, axis=1), _by_item(_table(files["truth"])))


def timed_table(files: Files) -> Contents:
    """A table without a header: annotator, item, label, truth, seconds that the label took."""
    columns = ["annotator", "item", "label", "truth", "seconds"]
    table = _table(files["labels"], header=None).set_axis(columns, axis=1)
    truth = _by_item(table[["item", "truth"]].drop_duplicates())
    return Contents(table[[*NAMES, "seconds"]].astype({"seconds": float}), truth)


def yaml_maps(files: Files) -> Contents:
    """YAML: {item: truth, ...}; and annotator: {item: label, ...} for each annotator."""
    labels, truth = (files[name].read_text(encoding="utf-8") for name in ("labels", "truth"))
    rows = [
        (item, annotator, label)
        for annotator, inner in re.findall(r"(\w+):\s*\{([^}]*)\}", labels)
        for item, label in re.findall(r"(\w+):\s*(\w+)", inner)
    ]
    return Contents(
        pd.DataFrame(rows).set_axis(NAMES, axis=1), _by_item(pd.DataFrame(re.findall(r"(\w+):\s*(\w+)", truth)))
    )


def gold_column(files: Files) -> Contents:
    """A table with tabs, a header, and a label a row with the truth of its item beside it."""
    table = _table(files["labels"], sep="\t")
    rows = table[["orig_id", "!amt_worker_ids", "response"]].set_axis(NAMES, axis=1)
    return Contents(rows, _by_item(table[["orig_id", "gold"]].drop_duplicates()))


def comparisons(files: Files) -> Contents:
    """Judgements whether piece A or B is nearer to a third; an item is named after all three, A and B last."""
    table = _table(files["labels"])
    item = table["Input.query"] + " " + table["Input.docA"] + " " + table["Input.docB"]
    rows = pd.DataFrame({"item": item, "annotator": table["WorkerId"], "label": table["Answer.radio"]})
    return Contents(rows.assign(seconds=table["WorkTimeInSeconds"].astype(float)))


def feature_tables(files: Files) -> Contents:
    """Tables with a header: item, features, truth; and for each label item, annotator, features, label."""
    parts = {part: _table(files[part]) for part in ("train", "test")}
    items = pd.concat(parts.values()).set_index(parts["train"].columns[0])
    part = pd.Series(np.repeat(list(parts), [len(table) for table in parts.values()]), index=items.index)
    rows = _table(files["labels"]).iloc[:, [0, 1, -1]].set_axis(NAMES, axis=1)
    return Contents(rows, items.iloc[:, -1].rename("truth"), items.iloc[:, :-1].astype(float), part)


def matrices(files: Files) -> Contents:
    """Matrices without a header, an item a row: labels with an annotator a column, -1 where there is none; truths.

    With files for parts, features are NumPy arrays, and items are named after their part: "train-0007".
    """
    labels, parts = _integers(files["labels"]), [name for name in ("train", "valid", "test") if name in files]
    truth = {part: _integers(files[part]).ravel() for part in parts}
    if len(labels) != len(truth["train"]):
        raise ValueError(f"{len(labels)} rows of labels, {len(truth['train'])} of truths")
    items = pd.Index([f"{part}-{n:04d}" for part in parts for n in range(len(truth[part]))])
    row, column = np.nonzero(labels >= 0)
    rows = pd.DataFrame({"item": items[row], "annotator": column, "label": labels[row, column].astype(str)})
    gold = pd.Series(np.concatenate(list(truth.values())).astype(str), index=items)
    if len(parts) == 1:
        return Contents(rows, gold)
    arrays = [np.load(files[f"{part}_features"], allow_pickle=False) for part in parts]
    features = pd.DataFrame(np.concatenate(arrays).reshape(len(items), -1), index=items)
    return Contents(rows, gold, features, pd.Series(items.str.partition("-").get_level_values(0), items))


READERS: Mapping[str, Callable[[Files], Contents]] = {
    read.__name__: read
    for read in (integers, tables, timed_table, yaml_maps, gold_column, comparisons, feature_tables, matrices)
}


def _table(path: Path, **options: Any) -> pd.DataFrame:
    """A table whose cells are text."""
    table: pd.DataFrame = pd.read_csv(path, dtype=str, keep_default_na=False, **options)
    if table.empty:
        raise ValueError(f"no rows in {path.name}")
    return table


def _integers(path: Path) -> np.ndarray:
    """Integers between spaces, tabs or commas, shape (rows, columns)."""
    text = path.read_text(encoding="utf-8").replace(",", " ")
    if not text.strip():
        raise ValueError(f"no numbers in {path.name}")
    return np.asarray(np.loadtxt(StringIO(text), dtype=np.int64, ndmin=2))


def _by_item(table: pd.DataFrame) -> pd.Series[Any]:
    """Truths by item, as text, of a table with these two columns."""
    truth = table.set_axis(["item", "truth"], axis=1).set_index("item")["truth"].astype(str)
    if not truth.index.is_unique:
        raise ValueError(f"item {truth.index[truth.index.duplicated()][0]!r} has two truths")
    return truth
