"""Files that are written: tables, and sequences as CoNLL columns and character spans."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl.core.files import new_file
from crowdppl.core.validation import require_path, shown
from crowdppl.data.annotations import Annotations, require_annotations
from crowdppl.data.kinds.parts import in_one_column
from crowdppl.data.kinds.sequences import SEQUENCE, SEQUENCES, Tags, units_of
from crowdppl.data.tagged import END, NO_TAG, START, TOKEN
from crowdppl.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa


def write_conll(data: Annotations, path: str | Path, labels: pd.Series[Any] | None = None) -> None:
    """Writes sequences as CoNLL columns: a token a line, a tag of each annotator, a blank line between sequences.

    Columns are separated by tabs and named in the first line (CoNLL-U Plus), and each sequence has its ``sent_id``.
    ``read_annotations`` reads such a file.

    Args:
        data: labels of kind "sequence"; the item covariate "token" has the text of items.
        path: the file; it is replaced.
        labels: one tag of each item instead, by item id, such as ``posterior.labels()["label"]``.

    Raises:
        DataError: for another kind, items without a token, two labels of an annotator on one item, labels that
            lack an item, and names or tokens with tabs or ends of lines.

    Examples:
        >>> from pathlib import Path
        >>> _ = Path("s.conll").write_text("Ann B-PER B-PER\\nLee I-PER I-PER\\nsang O O\\n")
        >>> data = crowdppl.read_annotations("s.conll", kind="sequence")
        >>> crowdppl.write_conll(data, "again.conll")
        >>> crowdppl.read_annotations("again.conll", kind="sequence").frame().equals(data.frame())
        True
    """
    order, starts, names, tags = _tagged(data, labels)
    known = data.item_covariates
    assert known is not None
    lines = ["# global.columns = " + "\t".join(["FORM", *map(str, names)])]
    sequence, token = (np.asarray(known[name], object)[order] for name in (SEQUENCE, TOKEN))
    for n, first in enumerate(starts):
        lines += [""] * bool(first and n) + [f"# sent_id = {sequence[n]}"] * bool(first)
        lines.append("\t".join([str(token[n]), *(NO_TAG[0] if tag is None else str(tag) for tag in tags[n])]))
    if any(line.count("\t") != len(names) for line in lines if line and not line.startswith("# sent_id")):
        raise DataError("a token or a name holds a tab, which separates columns; rename it")
    if any(len(line.splitlines()) > 1 for line in lines):
        raise DataError("a token or a name holds an end of line, which ends a token; rename it")
    with new_file(require_path(path)) as part:
        part.write_text("\n".join([*lines, ""]), encoding="utf-8")


def write_spans(data: Annotations, path: str | Path, labels: pd.Series[Any] | None = None) -> None:
    """Writes the spans of BIO tags as JSON lines of id, text, annotator, start, end and type.

    An annotator who labelled a sequence and marked nothing has one line of nulls. Texts are the tokens where they
    stood, blanks between them; without the item covariates "start" and "end", one blank. An I-X after no span
    belongs to none. ``read_annotations`` reads such a file.

    Args:
        data, path, labels: as of ``write_conll``.

    Raises:
        DataError: as ``write_conll``, and for classes that are no BIO tags.

    Examples:
        >>> from pathlib import Path
        >>> _ = Path("s.conll").write_text("Ann B-PER B-PER\\nLee I-PER I-PER\\nsang O O\\n")
        >>> data = crowdppl.read_annotations("s.conll", kind="sequence", annotators=["eve", "bob"])
        >>> crowdppl.write_spans(data, "s.jsonl")
        >>> print(Path("s.jsonl").read_text().split("\\n")[1])
        {"id": "1", "text": "Ann Lee sang", "annotator": "eve", "start": 0, "end": 7, "type": "PER"}
    """
    order, starts, names, tags = _tagged(data, labels)
    book = Tags.of([*data.classes, "O"])
    known = data.item_covariates
    if book is None or known is None:
        raise DataError(f"the classes {shown([*data.classes])} are no BIO tags, of which spans are made")
    sequence, token = (np.asarray(known[name], object)[order] for name in (SEQUENCE, TOKEN))
    code = {name: k for k, name in enumerate([*data.classes])}
    codes = np.array([[code.get(tag, len(code)) for tag in row] for row in tags]).reshape(tags.shape)
    ends = np.stack([book.ends(column, starts) for column in codes.T], 1)
    lines = list[str]()
    edges = [*np.flatnonzero(starts), len(order)]
    for first, after in pairwise(edges):
        rows = order[first:after]
        places = _places(known.iloc[rows], token[first:after])
        text = ""
        for (start, _), word in zip(places, token[first:after], strict=True):
            text = text.ljust(start) + str(word)
        for a, name in enumerate(names):
            found = [(n, ends[n, a]) for n in range(first, after) if ends[n, a] >= 0]
            said = [(places[n - first][0], places[m - first][1], book.types[codes[n, a]]) for n, m in found]
            if said or any(tag is not None for tag in tags[first:after, a]):
                fixed = {"id": str(sequence[first]), "text": text, "annotator": str(name)}
                lines += [
                    json.dumps(fixed | dict(zip((START, END, "type"), span, strict=True)), ensure_ascii=False)
                    for span in said or [(None, None, None)]
                ]
    with new_file(require_path(path)) as part:
        part.write_text("\n".join([*lines, ""]), encoding="utf-8")


def _places(known: pd.DataFrame, token: np.ndarray) -> list[tuple[int, int]]:
    """Where the tokens of a sequence begin and end, as is known, or with one blank between them."""
    if START in known and END in known:
        return [(int(a), int(b)) for a, b in zip(known[START], known[END], strict=True)]
    ends = np.cumsum([len(str(word)) + 1 for word in token]) - 1
    return [(int(end) - len(str(word)), int(end)) for word, end in zip(token, ends, strict=True)]


def _tagged(
    data: Annotations, labels: pd.Series[Any] | None
) -> tuple[np.ndarray, np.ndarray, list[Any], np.ndarray]:
    """Items in order, which of them are first, names of columns, and their tags (N, columns), None for none."""
    require_annotations(data)
    units = units_of(data.item_covariates) if data.alphabet.kind == SEQUENCES else None
    if units is None or data.item_covariates is None or TOKEN not in data.item_covariates:
        raise DataError(
            f"these labels of kind {data.kind!r} have no item covariate {TOKEN!r}; read them from CoNLL"
        )
    order = np.lexsort(units.T[::-1])
    if labels is not None:
        ids = in_one_column(labels.index, data.item_index.names) if isinstance(labels, pd.Series) else None
        if ids is None or not ids.is_unique or not data.items.isin(ids).all():
            raise DataError(f"labels={shown(labels)} is no series with one tag of each item, by item id")
        column = labels.set_axis(ids).reindex(data.items).astype(object)
        tags = column.where(column.notna(), None).to_numpy()[order, None]
        return order, units[order, 1] == 1, [labels.name or "label"], tags
    item, annotator, answer = data.label_codes()
    if pd.DataFrame({"item": item, "annotator": annotator}).duplicated().any():
        raise DataError("an annotator labelled an item twice; read the labels with repeats='last'")
    answers = np.array([*data.alphabet.book.ids], object)
    tags = np.full((data.n_items, data.n_annotators), None, object)
    tags[item, annotator] = answers[answer]
    return order, units[order, 1] == 1, [*data.annotators], tags[order]


def write_table(table: pa.Table, path: Path, spreadsheet_safe: bool) -> None:
    """Writes a table as CSV, in which text that a spreadsheet would run as a formula may get a quote before it."""
    from pyarrow.csv import write_csv  # slow to import

    write_csv(_without_formulas(table) if spreadsheet_safe else table, path)


def _without_formulas(table: pa.Table) -> pa.Table:
    """The table with a quote before texts, names of columns too, that begin as formulas do; none before numbers."""
    import pyarrow as pa  # slow to import
    import pyarrow.compute as pc

    def safe(texts: Any) -> Any:
        quoted = pc.replace_substring_regex(texts, r"^[=+\-@\t\r]", r"'\0")
        return pc.if_else(pc.match_substring_regex(texts, r"^[+\-][0-9]+([.,][0-9]+)?$"), texts, quoted)

    names = safe(pa.array(table.column_names)).to_pylist()
    for n, column in enumerate(table.columns):
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            table = table.set_column(n, names[n], safe(column))
    return table.rename_columns(names)
