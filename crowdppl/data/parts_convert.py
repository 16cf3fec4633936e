"""Tables of labels, of any size, as a folder of parts, by DuckDB."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np
import pandas as pd

from crowdppl import __version__
from crowdppl.core.files import new_folder
from crowdppl.core.validation import require_path, warn, whole_number
from crowdppl.data.annotations import AnnotationOptions, Annotations, check_options, said_kind
from crowdppl.data.block_files import write_blocks
from crowdppl.data.coded import cell_counts, code_ids, connected_sets, spelling_warning, warnings_of_counts
from crowdppl.data.covariates import label_columns
from crowdppl.data.ids import Codebook, Encoding, Place, encode, native
from crowdppl.data.kinds.classes import require_categories
from crowdppl.data.kinds.kind import Kind, LabelSet
from crowdppl.data.kinds.numbers import NUMBER, ONE_ANSWER
from crowdppl.data.parts import (
    ANNOTATOR,
    ANNOTATORS,
    GOLD,
    ITEM,
    LABEL,
    Manifest,
    PartFile,
    ends_at_items,
)
from crowdppl.data.scan import Scan, as_text, connected, numbers_of_text, scanned
from crowdppl.data.shapes import Said, rows_of_table
from crowdppl.data.tables import EVERYONE, Rows, apart_from_roles
from crowdppl.data.times import with_times
from crowdppl.errors import (
    CrowdpplWarning,
    DataError,
    DisconnectedWarning,
    OneClassWarning,
    RepeatsWarning,
    SparseDataWarning,
)

if TYPE_CHECKING:
    import pyarrow as pa

PARTS, LABELS_A_PART, MOST_PARTS = 8, 1_500_000, 4096
"""Parts, and labels in each, by default; of the labels of one, everything is held in memory at a time."""
GROUP = (500_000, 1_000_000)
"""Rows of a row group."""
FLUSHED = 16_384
"""Rows of a part that a thread of DuckDB gathers before it writes them."""
TAKEN = frozenset(
    ["classes", "abstentions", "informative_abstentions", "kind", "unit", "label_covariates", "repeats", "decimal"]
) | {"time"}
"""Options of annotations that are settled when labels are converted."""
OPENED = frozenset(["gold", "features", "item_covariates", "annotator_covariates", "history"])
"""Those that ``Annotations.open`` takes."""
COUNTED = re.compile(r"(\d+) of (\d+) (.*)", re.DOTALL)
"""A warning that counts rows."""
OF_ALL = (SparseDataWarning, DisconnectedWarning, OneClassWarning)
"""Warnings that one part cannot know of."""


def convert(
    source: str | Path | Sequence[str | Path],
    parts: str | Path,
    item: str | None = None,
    annotator: str | None = ...,  # type: ignore[assignment]
    label: str | None = None,
    *,
    format: str | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    gold_column: str | None = None,
    n_parts: int | None = None,
    memory_limit: str = "1GiB",
    **options: Unpack[AnnotationOptions],
) -> dict[str, int]:
    """Writes a table of labels of any size as a folder of parts, which ``Annotations.open`` reads.

    Columns are recognised, and labels refused, as by ``read_annotations`` of a table with one label a row; what a
    table is, its first 10,000 rows tell. Each item lies in one part, by a hash of its id. The folder appears when
    it is whole; ``docs/scale.md`` describes it. Needs DuckDB (``pip install crowdppl[scale]``), which spills to the
    disk of the folder: memory does not grow with the number of labels.

    Args:
        source: a file, a pattern such as ``"labels/*.csv"`` or a list of files with the same columns: CSV or TSV
            (text may be gzipped), JSON with an object a line, or Parquet; with ``format="sql"`` a query of DuckDB.
        parts: the folder, which must not be there.
        item, annotator, label, format, delimiter, encoding, gold_column: as of ``read_annotations``. Encodings are
            UTF-8, UTF-16 and Latin-1.
        n_parts: number of parts; no more processes than that can share a fit. By default 8, or one for 1.5 million
            labels.
        memory_limit: of DuckDB, as it writes it. Beside it, a part of the labels is held in memory.
        options: of ``crowdppl.data.annotations.AnnotationOptions``: classes, abstentions, informative_abstentions,
            kind (one of which an item has a single id), unit, label_covariates, time, decimal, and repeats other
            than "share" and "noisy". Known truths by id, features, covariates of items and annotators, and history
            are given to ``Annotations.open``; others are refused.

    Returns:
        How many items, annotators, labels and parts there are.

    Raises:
        DataError: with the value, the file and line, and the remedy.
        ResultError: where the folder is there, or cannot be written.
        MethodError: without DuckDB.

    Examples:
        >>> import pandas as pd
        >>> table = pd.DataFrame({"task": ["007", "007", "008", "008"], "worker": ["ann", "bob"] * 2})
        >>> table.assign(answer=["yes", "no", "no", "yes"]).to_csv("answers.csv", index=False)
        >>> crowdppl.convert("answers.csv", "parts", n_parts=2)
        {'items': 2, 'annotators': 2, 'labels': 4, 'parts': 2}
        >>> crowdppl.Annotations.open("parts")
        Annotations(2 items, 2 annotators, 2 classes, 4 labels)
    """
    check_options(options)
    _require_taken(options)
    require_path(parts)
    if n_parts is not None:
        n_parts = whole_number("n_parts", n_parts, 1, error=DataError)
    connection = connected(memory_limit)
    with new_folder(parts) as folder:
        work = folder.parent / "rows"
        work.mkdir()
        connection.execute(f"SET temp_directory = {as_text(str(work / 'spill'))}")
        scan = scanned(connection, source, format, delimiter, encoding)
        long = _Long.of(scan, Said(item, annotator, label, gold_column), options)
        people, n_rows = long.annotators()
        alphabet = long.alphabet()
        n_parts = n_parts or min(MOST_PARTS, max(PARTS, -(-n_rows // LABELS_A_PART)))
        long.distribute(work / "parts", n_parts)
        found = _Summary(people, alphabet)
        for number in range(n_parts):
            data = long.annotations(work / "parts" / f"part={number}", people, alphabet)
            found.add(_written(data, folder / f"part-{number:05}.parquet", long, people, alphabet), data, long)
        return found.finish(folder, long, n_rows)


def _require_taken(options: Mapping[str, Any]) -> None:
    """Refuses options that parts do not have."""
    for name, value in options.items():
        if name not in TAKEN and value is not None:
            how = "give it to crowdppl.Annotations.open" if name in OPENED else "use crowdppl.read_annotations"
            raise DataError(f"{name}= is not settled by convert; {how}, or leave it out")
    if options.get("repeats") in ("share", "noisy"):
        raise DataError(
            f"repeats={options['repeats']!r} learns from all repeats at once, which convert does not; use "
            "repeats='one', or read the labels by crowdppl.read_annotations"
        )


@dataclass(frozen=True)
class _Tally(Encoding):
    """Distinct values, a row each, and how many rows have them."""

    counts: Any = None

    def times(self) -> np.ndarray:
        """How many rows have each value."""
        return np.asarray(self.counts)


@dataclass(frozen=True)
class _Long:
    """A table with one label a row.

    Attributes:
        scan: what is read.
        rows: its first rows, by which it was recognised.
        kind: of labels.
        options: of annotations, with what the table tells.
        said: whether somebody said what labels are.
        columns: column of the source by its name here: item, annotator, label, gold, and further ones.
        further: further columns by their name here.
    """

    scan: Scan
    rows: Rows
    kind: Kind
    options: Mapping[str, Any]
    said: bool
    columns: Mapping[str, str]
    further: Mapping[str, str]

    @classmethod
    def of(cls, scan: Scan, said: Said, options: AnnotationOptions) -> _Long:
        """Recognises columns; DataError for tables of another shape, and for kinds whose items have two parts."""
        rows, told = rows_of_table(scan.head, said, said_kind(options), options)
        kind, roles = said_kind(cast(AnnotationOptions, told)), rows.roles
        if kind.parts is not None:
            raise DataError(
                f"labels of kind={kind.name!r} have items of two parts, which convert does not write; read them by "
                "crowdppl.read_annotations"
            )
        if rows.of_lists or len(rows.item) != len(scan.head.frame) or not {ITEM, LABEL} <= {*roles}:
            raise DataError(
                f"{scan.origin} has not one label a row, which convert asks for; read it by "
                "crowdppl.read_annotations, whose table data.to_arrow() is of that form"
            )
        rest = [name for name in scan.head.names if name not in roles.values()]
        new = apart_from_roles(rest, roles)
        time, names = told.get("time"), list(told.get("label_covariates") or ())
        typed = (
            None
            if rows.columns is None
            else rows.columns.apply(numbers_of_text)
            if scan.head.text
            else rows.columns
        )
        label_columns(names, typed, rows.place)
        if time is not None:
            with_times(rows.columns, time, rows.place)
            names = [name for name in names if name != time]
        own = {str(new.get(name, name)): str(name) for name in rest}
        further = {f"column {n}": str(name) for n, name in enumerate([*names, *([] if time is None else [time])])}
        columns = {**roles, **{alias: own[name] for alias, name in further.items()}}
        unsaid = all(options.get(name) is None for name in ("kind", "classes"))
        return cls(scan, rows, kind, told, not unsaid, columns, further)

    def _distinct(self, name: str) -> tuple[pa.Table, Place]:
        """The values of a column, how often each comes, and where each comes first."""
        own = {name: self.columns[name]}
        query = f"SELECT {name}, count(*) AS n FROM ({self.scan.select(own)}) GROUP BY 1 ORDER BY 1"
        found = self.scan.fetch(query)
        return found, lambda n: self.scan.locate(own, {name: found[name][n].as_py()})

    def annotators(self) -> tuple[Codebook, int]:
        """All annotators, and the number of labels."""
        if ANNOTATOR not in self.columns:
            n = self.scan.fetch(f"SELECT count(*) FROM ({self.scan.select({ITEM: self.columns[ITEM]})})")[0][
                0
            ].as_py()
            return Codebook(ANNOTATOR, pd.Index([EVERYONE])), n
        table, place = self._distinct(ANNOTATOR)
        given = self.scan.encoded(table[ANNOTATOR], ANNOTATOR, place)
        book, _ = code_ids(ANNOTATOR, given, replace(self.rows, place=place), None, [])
        return book, int(table["n"].to_numpy().sum())

    def alphabet(self) -> LabelSet:
        """What can be answered."""
        if self.kind.numeric:
            return LabelSet(ONE_ANSWER, 0, self.kind)
        table, place = self._distinct(LABEL)
        mixed = bool(self.options.get("abstentions")) or self.options.get("classes") is not None
        each = encode(self.scan.encoded(table[LABEL], LABEL, place, mixed), LABEL, place, mixed=mixed)
        counts = np.bincount(each.codes, table["n"].to_numpy(), len(each.values)).astype(np.int64)
        first = [int(np.argmax(each.codes == n)) for n in range(len(each.values))]
        tally = _Tally(each.values, np.arange(len(each.values), dtype=np.int32), counts=counts)
        nobody = Encoding(pd.Index([EVERYONE]), np.zeros(len(tally), np.int32))
        rows = Rows(nobody, nobody, tally, place=lambda n: place(first[n]), text=self.rows.text)
        return self.kind.answers(rows, self.options)[0]

    def distribute(self, folder: Path, n_parts: int) -> None:
        """Writes the rows to a folder a part."""
        key = self.scan.key(self.columns[ITEM])
        part = f"('0x' || md5({key})[1:8])::UINTEGER % {n_parts} AS part"
        in_order = self.options.get("repeats") in ("first", "last") or bool(self.further)
        self.scan.connection.execute(f"SET partitioned_write_flush_threshold = {FLUSHED}")
        self.scan.connection.execute(f"SET preserve_insertion_order = {in_order}")
        more = [part, *(["row_number() OVER () AS row"] if in_order else [])]
        with self.scan.read():
            self.scan.connection.execute(
                f"COPY ({self.scan.select(self.columns, None, *more)}) TO {as_text(str(folder))} "
                "(FORMAT parquet, PARTITION_BY (part))"
            )

    def annotations(self, folder: Path, people: Codebook, alphabet: LabelSet) -> Annotations | None:
        """The labels of a part as annotations, with warnings that are not emitted; None where it has none."""
        from pyarrow import parquet

        if not folder.is_dir():
            return None
        table = parquet.read_table(folder, partitioning=None)
        if "row" in table.column_names:
            table = table.sort_by("row")

        def place(row: int) -> str:
            return self.scan.locate(self.columns, {name: table[name][row].as_py() for name in self.columns})

        mixed = not self.kind.numeric
        who = Encoding(people.ids, np.zeros(len(table), np.int32))
        rows = replace(
            self.rows,
            item=encode(self.scan.encoded(table[ITEM], ITEM, place), ITEM, place),
            annotator=self.scan.encoded(table[ANNOTATOR], ANNOTATOR, place) if ANNOTATOR in self.columns else who,
            label=self.scan.encoded(table[LABEL], LABEL, place, mixed),
            columns=None,
            place=place,
            gold=None,
        )
        if GOLD in self.columns:
            rows = replace(rows, gold=self._truths(table[GOLD], rows.item))
        if self.further:
            own = {name: self.scan.values(table[alias]) for alias, name in self.further.items()}
            rows = replace(rows, columns=pd.DataFrame(own))
        settled: dict[str, Any] = {**self.options, "kind": self.kind.name, "annotators": people}
        if not self.kind.numeric:
            k = alphabet.n_classes
            settled |= {"classes": [*alphabet.book.ids[:k]], "abstentions": [*alphabet.book.ids[k:]]}
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            data = Annotations.of_rows(rows, cast(AnnotationOptions, settled))
        if not (self.said or self.kind.numeric):
            item, _, answer = data.label_codes()
            require_categories(data.classes, item, answer, lambda row: self._place_of(data.answers[answer[row]]))
        return data

    def _truths(self, column: pa.ChunkedArray, item: Encoding) -> pd.Series[Any]:
        """Known truths by item id, without blanks."""
        import pyarrow.compute as pc

        there = (
            column.is_valid()
            if self.scan.is_json
            else pc.and_(column.is_valid(), pc.not_equal(column.cast("string"), ""))
        )
        at = np.flatnonzero(there.to_numpy())
        found = column.take(at).to_pandas()
        if self.scan.is_json:
            found = pd.Series([json.loads(text) for text in found], dtype=object)
        truths: pd.Series[Any] = found.set_axis(item.values.take(item.codes[at])).dropna()
        return truths

    def _place_of(self, answer: Any) -> str:
        """Where an answer comes first."""
        table, place = self._distinct(LABEL)
        values = encode(self.scan.encoded(table[LABEL], LABEL, place, True), LABEL, place, mixed=True)
        return place(values.first_row(int(np.argmax(values.values == answer))))


class _Summary:
    """What is counted over parts."""

    def __init__(self, people: Codebook, alphabet: LabelSet) -> None:
        self.people, self.alphabet = people, alphabet
        self.files = list[PartFile]()
        self.counts = np.zeros((len(people), len(alphabet.book)), np.int64)
        self.sets = np.arange(len(people))
        self.may = np.zeros(len(people), bool)
        self.n_known = 0
        self.first: Any = None
        self.said = dict[tuple[type[CrowdpplWarning], str], int]()

    def add(self, file: PartFile, data: Annotations | None, long: _Long) -> None:
        """Adds a part."""
        self.files.append(file)
        if data is None:
            return
        own = cell_counts(data.blocks)
        self.counts += own
        self._require_same_type(data.items[0], long)
        self.n_known += int(data.is_known.sum())
        self.may |= False if data.abstainers is None else data.abstainers
        if np.ptp(self.sets):
            self.sets = connected_sets(data.blocks, np.ones(len(self.people), bool), self.sets)
        for warning in data.warnings:
            text = str(warning)
            if isinstance(warning, OF_ALL) or "differ from another in case" in text:
                continue
            counted = COUNTED.fullmatch(text)
            n, rest = (int(counted[1]), counted[3]) if counted else (0, text)
            self.said[type(warning), rest] = self.said.get((type(warning), rest), 0) + n

    def _require_same_type(self, item: Any, long: _Long) -> None:
        """Refuses items of which some are text and some numbers, in different parts."""
        self.first = item if self.first is None else self.first
        if isinstance(item, str) != isinstance(self.first, str):
            both, own = [native(self.first), native(item)], {ITEM: long.columns[ITEM]}
            encode(both, ITEM, lambda n: long.scan.locate(own, {ITEM: json.dumps(both[n], ensure_ascii=False)}))

    def _warnings(self, repeats: str, n_rows: int) -> list[CrowdpplWarning]:
        """The warnings of parts, with counts of all."""
        found = list[CrowdpplWarning]()
        for (kind, text), n in self.said.items():
            total = n_rows
            if kind is RepeatsWarning:
                total = int(self.counts.sum()) + (0 if repeats == "keep" else n)
            elif text.startswith("known truths"):
                total = self.n_known + n
            found.append(kind(f"{n} of {total} {text}" if n else text))
        return found

    def finish(self, folder: Path, long: _Long, n_rows: int) -> dict[str, int]:
        """Writes annotators and dataset.json, and warns of the whole."""
        import pyarrow as pa
        from pyarrow import parquet

        who = pa.table({ANNOTATOR: pa.array(self.people.ids), "labels": self.counts.sum(1), "abstained": self.may})
        parquet.write_table(who, folder / ANNOTATORS)
        told: list[CrowdpplWarning | None] = [*self._warnings(long.options.get("repeats", "keep"), n_rows)]
        told += [spelling_warning("annotators", self.people.ids)]
        if long.options.get("classes") is None and self.alphabet.n_classes:
            told += [spelling_warning("labels", self.alphabet.book.ids)]
        found = warnings_of_counts(self.counts, self.people, self.alphabet.n_classes, self.sets)
        told += [x for x in found if not (long.rows.pooled and isinstance(x, SparseDataWarning))]
        say = [x for x in told if x is not None]
        ids, k, time = [*map(native, self.alphabet.book.ids)], self.alphabet.n_classes, long.options.get("time")
        names = [name for name in long.further.values() if name != time]
        Manifest(
            self.alphabet.kind.name,
            self.alphabet.kind.unit,
            ids[:k],
            ids[k:] if k else [],
            self.alphabet.informative,
            names,
            time,
            GOLD in long.columns,
            PartFile.of(folder / ANNOTATORS),
            self.files,
            {**long.rows.roles, **({"label_covariates": ", ".join(names)} if names else {})}
            | ({} if time is None else {"time": time}),
            [(type(x).__name__, str(x)) for x in say],
        ).write(folder, f"crowdppl {__version__}")
        for warning in say:
            warn(warning)
        items, labels = (sum(getattr(file, name) for file in self.files) for name in ("items", "labels"))
        return {"items": items, "annotators": len(self.people), "labels": labels, "parts": len(self.files)}


def _written(data: Annotations | None, path: Path, long: _Long, people: Codebook, alphabet: LabelSet) -> PartFile:
    """Writes a part."""
    import pyarrow as pa
    from pyarrow import parquet

    numeric = alphabet.kind.numeric
    codes = pa.int8() if len(alphabet.book) < 2**7 else pa.int16() if len(alphabet.book) < 2**15 else pa.int32()
    of_label = pa.float64() if numeric else codes
    if data is None:
        return _empty_part(path, long, of_label)
    item, annotator, answer = data.label_codes()
    without = np.flatnonzero(np.bincount(item, minlength=data.n_items) == 0)
    given: dict[str, Any] = {ANNOTATOR: pa.array(annotator), LABEL: pa.array(answer).cast(of_label)}
    columns = data.columns
    if numeric and columns is not None:
        given[LABEL] = pa.array(columns[NUMBER])
    for name in data.label_names:
        assert columns is not None
        given[str(name)] = pa.array(columns[name])
    if len(without):  # rows without a label
        order = np.argsort(np.append(item, without), kind="stable")
        item = np.append(item, without)[order]
        given = {
            name: pa.concat_arrays([x, pa.nulls(len(without), x.type)]).take(order) for name, x in given.items()
        }
    ids = pa.array(data.items)
    table = pa.table(
        {ITEM: (ids.cast(pa.string()) if pa.types.is_large_string(ids.type) else ids).take(item)} | given
    )
    if data.known is not None:
        truths = pa.array(data.known[item], mask=~data.is_known[item]).cast(of_label)
        table = table.append_column(GOLD, truths)
    elif GOLD in long.columns:
        table = table.append_column(GOLD, pa.nulls(len(item), of_label))
    with parquet.ParquetWriter(path, table.schema, compression="zstd") as writer:
        for first, end in pairwise(ends_at_items(item, *GROUP)):
            writer.write_table(table.slice(first, end - first), row_group_size=end - first)
    blocks = None
    if data.columns is None:  # what is more of each label is in the part alone
        write_blocks(path.with_suffix(".blocks"), data.order, data.blocks)
        blocks = PartFile.of(path.with_suffix(".blocks"))
    return PartFile.of(path, data.n_items, data.n_labels, blocks)


def _empty_part(path: Path, long: _Long, of_label: Any) -> PartFile:
    """Writes a part that no item has come to."""
    import pyarrow as pa
    from pyarrow import parquet

    types = {ITEM: pa.string(), ANNOTATOR: pa.int32(), LABEL: of_label}
    types |= {name: pa.float64() for name in long.further.values()}
    types |= {GOLD: of_label} if GOLD in long.columns else {}
    parquet.write_table(pa.schema(types).empty_table(), path)
    return PartFile.of(path)
