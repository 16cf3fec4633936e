"""Files of annotations, of known truths and of covariates, each read by one call."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd

from crowdppl.data.annotations import Annotations
from crowdppl.doors.counts import switch
from crowdppl.doors.demands import require_path, require_text
from crowdppl.errors import DataError
from crowdppl.files.formats import read_table
from crowdppl.tables.columns import recognise, refuse_twins
from crowdppl.tables.encoding import encode, refuse_markers
from crowdppl.tables.options import Options
from crowdppl.tables.rows import rows_of_frame
from crowdppl.tables.wide import rows_of_wide


def read_annotations(
    path: str | Path,
    item: Hashable | None = None,
    annotator: Hashable | None = None,
    label: Hashable | None = None,
    *,
    format: str | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    wide: bool = False,
    **options: Unpack[Options],
) -> Annotations:
    """Reads annotations from a file: CSV, TSV, JSON (all also gzipped) or parquet.

    In CSV and TSV, ids and labels are text, exactly as spelled: "007" stays "007". Classes, gold and other
    tables may still name them as numbers where the spelling is the same.

    Args:
        path: the file; a CSV or TSV begins with a line of column names, and JSON is an object a line, or one list
            of objects.
        item, annotator, label: columns, where they are not recognised by name.
        format: "csv", "tsv", "parquet" or "jsonl", where the name does not end so.
        delimiter: what separates the fields of CSV and TSV. By default the one that fits the first lines: a comma,
            semicolon, tab or bar, or what Excel's line ``sep=;`` says; blank lines before the header are skipped.
        encoding: how a file of text is written, such as "cp1252", "latin-1" or "utf-16"; by default UTF-8.
        wide: whether columns are annotators; an empty cell, or one of blanks, is no label.
        options: see ``crowdppl.tables.options.Options``.

    Raises:
        DataError: with the value, the line and the remedy.

    Examples:
        >>> import pandas as pd
        >>> table = pd.DataFrame({"task": ["007", "007", "008", "008"], "worker": ["ann", "bob"] * 2})
        >>> table.assign(answer=["yes", "no", "no", "yes"]).to_csv("answers.csv", index=False)
        >>> crowdppl.read_annotations("answers.csv").frame()
          item annotator label
        0  007       ann   yes
        1  007       bob    no
        2  008       ann    no
        3  008       bob   yes
    """
    given = {"item": item, "annotator": annotator, "label": label}
    name = require_path(path).name
    said = _texts(format=format, delimiter=delimiter, encoding=encoding)
    if switch("wide", wide):
        table = read_table(path, as_text=partial(_all, name), **said)
        return Annotations.of_rows(rows_of_wide(table.frame, given, table.place, table.text), options)
    table = read_table(path, as_text=lambda columns: list(recognise(columns, given, name).values()), **said)
    return Annotations.of_rows(rows_of_frame(table.frame, given, name, table.place, table.text), options)


def _texts(**said: Any) -> dict[str, str | None]:
    return {name: require_text(name, value) for name, value in said.items()}


def _all(name: str, columns: Sequence[str]) -> Sequence[str]:
    refuse_twins(columns, name)
    return columns


def read_gold(
    path: str | Path,
    item: str | None = None,
    label: str | None = None,
    *,
    format: str | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
) -> pd.Series[Any]:
    """Known truths from a file, as a series by item id.

    Args:
        path: CSV, TSV, parquet or JSON with a column of items and one of classes.
        item, label: their names, where they are not recognised.
        format, delimiter, encoding: as for ``read_annotations``.

    Raises:
        DataError: when the file cannot be read or has no rows, a column is missing, or a value is.

    Examples:
        >>> import pandas as pd
        >>> pd.DataFrame({"item": ["007", "008"], "label": ["yes", "no"]}).to_csv("truth.csv", index=False)
        >>> crowdppl.read_gold("truth.csv").to_dict()
        {'007': 'yes', '008': 'no'}
    """
    given = {"item": item, "class": label}
    name = require_path(path).name
    said = _texts(format=format, delimiter=delimiter, encoding=encoding)
    table = read_table(path, as_text=lambda columns: list(recognise(columns, given, name).values()), **said)
    roles = recognise(list(table.frame.columns), given, name)
    if table.frame.empty:
        raise DataError(f"{name} has no rows, so that no truth is known; give some, or leave gold out")
    for role, column in roles.items():
        found = encode(table.frame[column], role, table.place)
        if table.text:
            refuse_markers(found, role, table.place, (), "leave the row out")
    values = {role: pd.Index(np.asarray(table.frame[column])) for role, column in roles.items()}
    return pd.Series(values["class"], index=values["item"], name="gold")


def read_item_covariates(
    path: str | Path,
    item: str | None = None,
    *,
    format: str | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
) -> pd.DataFrame:
    """What is known of items, from a file: a table by item id, to be given as ``item_covariates``.

    Args:
        path: CSV, TSV, parquet or JSON with a column of items; what else it holds are covariates.
        item: name of that column, where it is not recognised.
        format, delimiter, encoding: as for ``read_annotations``.

    Raises:
        DataError: when the file cannot be read or has no rows, the column is missing, or an id is.

    Examples:
        >>> import pandas as pd
        >>> pd.DataFrame({"item": ["007", "008"], "words": [120, 45]}).to_csv("items.csv", index=False)
        >>> crowdppl.read_item_covariates("items.csv")["words"].to_dict()
        {'007': 120, '008': 45}
    """
    return _covariates(path, "item", item, _texts(format=format, delimiter=delimiter, encoding=encoding))


def read_annotator_covariates(
    path: str | Path,
    annotator: str | None = None,
    *,
    format: str | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
) -> pd.DataFrame:
    """What is known of annotators, from a file: a table by annotator id, to be given as ``annotator_covariates``.

    Args:
        path: CSV, TSV, parquet or JSON with a column of annotators; what else it holds are covariates.
        annotator: name of that column, where it is not recognised.
        format, delimiter, encoding: as for ``read_annotations``.

    Raises:
        DataError: when the file cannot be read or has no rows, the column is missing, or an id is.

    Examples:
        >>> import pandas as pd
        >>> pd.DataFrame({"worker": ["ann", "bob"], "years": [20, 3]}).to_csv("people.csv", index=False)
        >>> crowdppl.read_annotator_covariates("people.csv")["years"].to_dict()
        {'ann': 20, 'bob': 3}
    """
    return _covariates(path, "annotator", annotator, _texts(format=format, delimiter=delimiter, encoding=encoding))


def _covariates(path: str | Path, role: str, column: str | None, said: dict[str, Any]) -> pd.DataFrame:
    given, name = {role: column}, require_path(path).name
    table = read_table(path, as_text=lambda columns: list(recognise(columns, given, name).values()), **said)
    found = recognise(list(table.frame.columns), given, name)[role]
    if table.frame.empty:
        raise DataError(f"{name} has no rows, so that nothing is known of any {role}; give some, or leave it out")
    ids = encode(table.frame[found], role, table.place)
    if table.text:
        refuse_markers(ids, role, table.place, (), "leave the row out")
    rest = table.frame.drop(columns=[found]).infer_objects()
    return rest.set_axis(pd.Index(np.asarray(table.frame[found]), name=role))
