"""How public data sets are written at their sources, and what the files say: labels, truths, features, parts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.errors import DataError

Files = Mapping[str, Path]
"""Files of a data set by what they hold, such as "labels"."""

NAMES = ["item", "annotator", "label"]
REMEDY = "delete the file, so that it is fetched anew; if that does not help, the source is not what it was"


@dataclass(frozen=True)
class Contents:
    """What the files of a data set say; labels and truths are text, as spelled there.

    Attributes:
        rows: DataFrame with item, annotator, label and what else is known of a label.
        truth: the right label by item id; None where the source has none.
        features: DataFrame of numbers by item id, of all items; None where the source has none.
        part: "train", "valid" or "test" by item id; None where there is one part only.
    """

    rows: pd.DataFrame
    truth: pd.Series[Any] | None = None
    features: pd.DataFrame | None = None
    part: pd.Series[Any] | None = None


def numbered(files: Files) -> Contents:
    """Numbers from 1 in columns without a header: item, annotator, label; and item, truth."""
    labels, truth = _numbers(files["labels"], 3), _numbers(files["truth"], 2)
    rows = pd.DataFrame(labels, columns=NAMES).astype({"label": str})
    return Contents(
        rows, _by_item(files["truth"], pd.DataFrame({"item": truth[:, 0], "truth": truth[:, 1].astype(str)}))
    )


def headed(files: Files) -> Contents:
    """Tables with a header, columns in this order: item, annotator, label; and item, truth."""
    rows = _table(files["labels"], 3).set_axis(NAMES, axis=1)
    return Contents(rows, _by_item(files["truth"], _table(files["truth"], 2)))


def timed(files: Files) -> Contents:
    """A table without a header: annotator, item, label, truth, seconds that the label took."""
    table = _table(files["labels"], 5, header=None).set_axis(
        ["annotator", "item", "label", "truth", "seconds"], axis=1
    )
    truth = table[["item", "truth"]].drop_duplicates()
    rows = table[[*NAMES, "seconds"]].astype({"seconds": float})
    return Contents(rows, _by_item(files["labels"], truth))


def mapped(files: Files) -> Contents:
    """YAML: {item: truth, ...}; and annotator: {item: label, ...} for each annotator."""
    found = []
    for annotator, inner in re.findall(r"(\w+):\s*\{([^}]*)\}", _text(files["labels"])):
        found += [(item, annotator, label) for item, label in re.findall(r"(\w+):\s*(\w+)", inner)]
    truth = pd.DataFrame(re.findall(r"(\w+):\s*(\w+)", _text(files["truth"])))
    if not found or truth.empty:
        raise DataError(f"{files['labels']} or {files['truth']} holds no maps of YAML; {REMEDY}")
    return Contents(pd.DataFrame(found, columns=NAMES), _by_item(files["truth"], truth))


def standardized(files: Files) -> Contents:
    """A table with tabs, a header, and a label a row with the truth of its item beside it."""
    columns = ["orig_id", "!amt_worker_ids", "response", "gold"]
    table = _named(files["labels"], columns, sep="\t")
    rows = table.iloc[:, :3].set_axis(NAMES, axis=1)
    return Contents(rows, _by_item(files["labels"], table[["orig_id", "gold"]].drop_duplicates()))


def compared(files: Files) -> Contents:
    """Judgements whether piece A or B is nearer to a third; an item is named after all three, A and B last."""
    columns = ["Input.query", "Input.docA", "Input.docB", "WorkerId", "Answer.radio", "WorkTimeInSeconds"]
    table = _named(files["labels"], columns)
    item = table["Input.query"] + " " + table["Input.docA"] + " " + table["Input.docB"]
    rows = pd.DataFrame({"item": item, "annotator": table["WorkerId"], "label": table["Answer.radio"]})
    return Contents(rows.assign(seconds=table["WorkTimeInSeconds"].astype(float)))


def featured(files: Files) -> Contents:
    """Tables with a header: item, features, truth; and for each label item, annotator, features, label."""
    parts = {part: _table(files[part]) for part in ("train", "test")}
    items = pd.concat(parts.values()).set_index(parts["train"].columns[0])
    labels = _table(files["labels"])
    rows = labels.iloc[:, [0, 1, -1]].set_axis(NAMES, axis=1)
    part = pd.Series(np.repeat(list(parts), [len(table) for table in parts.values()]), index=items.index)
    try:
        features = items.iloc[:, :-1].astype(float)
    except ValueError as error:
        raise DataError(
            f"a feature in {files['train']} or {files['test']} is no number: {error}; {REMEDY}"
        ) from error
    return Contents(rows, items.iloc[:, -1].rename("truth"), features, part)


def gridded(files: Files) -> Contents:
    """Matrices without a header, an item a row: labels with an annotator a column, -1 where there is none; truths.

    With files for parts, features are NumPy arrays, and items are named after their part: "train-0007".
    """
    grid, parts = _numbers(files["labels"]), [name for name in ("train", "valid", "test") if name in files]
    truth = {part: _numbers(files[part], 1)[:, 0] for part in parts}
    if len(grid) != len(truth["train"]):
        raise DataError(f"{files['labels']} has {len(grid)} rows, {files['train']} {len(truth['train'])}; {REMEDY}")
    items = pd.Index([f"{part}-{n:04d}" for part in parts for n in range(len(truth[part]))])
    row, column = np.nonzero(grid >= 0)
    rows = pd.DataFrame({"item": items[row], "annotator": column, "label": grid[row, column].astype(str)})
    gold = pd.Series(np.concatenate(list(truth.values())).astype(str), index=items)
    if len(parts) == 1:
        return Contents(rows, gold)
    return Contents(
        rows, gold, _stacked(files, items), pd.Series(items.str.partition("-").get_level_values(0), items)
    )


def _stacked(files: Files, items: pd.Index[Any]) -> pd.DataFrame:
    """Features of all parts, one below the other."""
    paths = [files[f"{part}_features"] for part in ("train", "valid", "test")]
    try:
        values = np.concatenate([np.load(path, allow_pickle=False) for path in paths])
        return pd.DataFrame(values.reshape(len(items), -1), index=items)
    except ValueError as error:
        raise DataError(f"{paths[0]} and its like are no arrays of {len(items)} rows: {error}; {REMEDY}") from error


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is no text: {error}; {REMEDY}") from error


def _table(path: Path, columns: int | None = None, **options: Any) -> pd.DataFrame:
    """A table whose cells are text; of so many columns, where that is known."""
    try:
        table: pd.DataFrame = pd.read_csv(StringIO(_text(path)), dtype=str, keep_default_na=False, **options)
    except ValueError as error:
        raise DataError(f"{path} is no such table: {error}; {REMEDY}") from error
    if table.empty or (columns is not None and table.shape[1] != columns):
        raise DataError(
            f"{path} has {len(table)} rows and {table.shape[1]} columns, not {columns or 'some'}; {REMEDY}"
        )
    return table


def _named(path: Path, columns: list[str], **options: Any) -> pd.DataFrame:
    """Some columns of a table with a header."""
    table = _table(path, **options)
    missing = [name for name in columns if name not in table]
    if missing:
        raise DataError(f"{path} has no column {missing[0]!r}, only {', '.join(map(repr, table))}; {REMEDY}")
    return table[columns]


def _numbers(path: Path, columns: int | None = None) -> np.ndarray:
    """Whole numbers between spaces, tabs or commas."""
    text = _text(path).replace(",", " ")
    try:
        found = np.loadtxt(StringIO(text), ndmin=2) if text.strip() else np.empty((0, 0))
    except ValueError as error:
        raise DataError(f"{path} does not hold numbers in columns: {error}; {REMEDY}") from error
    if not found.size or (columns is not None and found.shape[1] != columns) or (found != found.round()).any():
        raise DataError(f"{path} does not hold {columns or 'some'} columns of whole numbers; {REMEDY}")
    return found.astype(np.int64)


def _by_item(path: Path, table: pd.DataFrame) -> pd.Series[Any]:
    """Truths by item, of a table with these two columns."""
    truth = table.set_axis(["item", "truth"], axis=1).set_index("item")["truth"]
    if not truth.index.is_unique:
        twice = truth.index[truth.index.duplicated()][0]
        raise DataError(f"{path} gives the item {twice!r} two truths; {REMEDY}")
    return truth
