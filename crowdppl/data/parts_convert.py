"""Tables of labels, of any size, as a folder of parts, by DuckDB."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np
import pandas as pd

from crowdppl.core.files import new_folder
from crowdppl.core.validation import require_path, whole_number
from crowdppl.data.annotations import Annotations
from crowdppl.data.coded import code_ids
from crowdppl.data.covariates import label_columns
from crowdppl.data.files import require_texts
from crowdppl.data.ids import Codebook, Encoding, Place, encode, native
from crowdppl.data.kinds.classes import require_categories, require_words
from crowdppl.data.kinds.kind import Kind, LabelSet, Settled
from crowdppl.data.kinds.numbers import Numbers
from crowdppl.data.kinds.parts import SEPARATOR, Parts
from crowdppl.data.kinds.rankings import is_whole
from crowdppl.data.kinds.sequences import no_tags
from crowdppl.data.options import AnnotationOptions, check_options, said_kind
from crowdppl.data.parts import ANNOTATOR, GOLD, ITEM, LABEL, OBJECT, common_of
from crowdppl.data.parts_edges import PartEdges
from crowdppl.data.parts_written import About, Writer
from crowdppl.data.scan import Scan, as_name, as_text, connected, scanned
from crowdppl.data.shapes import Said, rows_of_table
from crowdppl.data.tables import EVERYONE, Rows, apart_from_roles
from crowdppl.data.times import with_times
from crowdppl.errors import CrowdpplWarning, DataError

if TYPE_CHECKING:
    import pyarrow as pa

PARTS, LABELS_A_PART, MOST_PARTS = 8, 1_500_000, 4096
"""Parts, and labels in each, by default; of the labels of one, everything is held in memory at a time."""
FLUSHED = 16_384
"""Rows of a part that a thread of DuckDB gathers before it writes them."""
TAKEN = frozenset(
    ["classes", "abstentions", "informative_abstentions", "kind", "unit", "label_covariates", "repeats", "decimal"]
) | {"time", "stray", "edges"}
"""Options of annotations that are settled when labels are converted."""
OWN, EDGES = "own_unit", "edges"
"""The column of an item's unit, were it linked to none; the folder of edges beside that of labels."""
OF_FIRST = ("labels with ", "of the labels, ")
"""How warnings begin of numbers, that are told of the first rows."""
OPENED = frozenset(["gold", "features", "item_covariates", "annotator_covariates", "history"])
"""Those that ``Annotations.open`` takes."""


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
    edges_encoding: str | None = None,
    n_parts: int | None = None,
    memory_limit: str = "1GiB",
    **options: Unpack[AnnotationOptions],
) -> dict[str, int]:
    """Writes a table of labels of any size as a folder of parts, which ``Annotations.open`` reads.

    Columns are recognised, and labels refused, as by ``read_annotations`` of a table with one label a row; what a
    table is, its first 10,000 rows tell. Each item lies in one part, by a hash of its id, and as a whole so do
    sequences, sets, problems of rankings, and items that edges connect. The folder appears when it is whole;
    ``docs/scale.md`` describes it. Needs DuckDB (``pip install crowdppl[scale]``), which spills to the disk of the
    folder: memory does not grow with the number of labels, but for rankings, of which distinct ones and all of one
    problem are held at once, and with linked items, which are held as numbers.

    Args:
        source: a file, a pattern such as ``"labels/*.csv"`` or a list of files with the same columns: CSV or TSV
            (text may be gzipped), JSON with an object a line, or Parquet; with ``format="sql"`` a query of DuckDB.
        parts: the folder, which must not be there.
        item, annotator, label, format, delimiter, encoding, gold_column: as of ``read_annotations``. Encodings are
            UTF-8, UTF-16 and Latin-1.
        n_parts: number of parts; no more processes than that can share a fit. By default 8, or one for 1.5 million
            labels.
        edges_encoding: of the files of edges, UTF-8 by default.
        memory_limit: of DuckDB, as it writes it. Beside it, a part of the labels is held in memory.
        options: of ``crowdppl.data.options.AnnotationOptions``: classes, abstentions, informative_abstentions,
            kind, unit, stray ("repair" or "keep"), label_covariates, time, decimal, repeats other than "share" and
            "noisy", and edges, which may be a file, or a pattern of files, of two columns. Known truths by id,
            features, covariates of items and annotators, and history are given to ``Annotations.open``; others are
            refused.

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
    edges = options.pop("edges", None)
    require_texts(edges_encoding=edges_encoding)
    require_path(parts)
    if n_parts is not None:
        n_parts = whole_number("n_parts", n_parts, 1, error=DataError)
    connection = connected(memory_limit)
    with new_folder(parts) as folder:
        work = folder.parent / "rows"
        work.mkdir()
        connection.execute(f"SET temp_directory = {as_text(str(work / 'spill'))}")
        scan = scanned(connection, source, format, delimiter, encoding)
        long = _Long.of(scan, Said(item, annotator, label, gold_column), options, (edges, edges_encoding))
        people, n_rows = long.annotators()
        settled = None if long.kind.by_neighbours else long.settled()
        width = 1.0 if settled is None else settled.width
        n_parts = n_parts or min(MOST_PARTS, max(PARTS, int(np.ceil(n_rows * width / LABELS_A_PART))))
        long.distribute(work / "parts", n_parts)
        folders = [work / "parts" / f"part={number}" for number in range(n_parts)]
        settled = long.settled_by(folders) if settled is None else settled
        gold, linked = GOLD in long.columns, long.edges is not None
        about = About(long.rows, long.options, n_rows, [*long.further.values()], gold, linked)
        writer = Writer(folder, people, settled, about)
        for number, own in enumerate(folders):
            data, said = long.annotations(own, people, settled)
            writer.add(number, data, said, long.refuse_mixed)
        return writer.finish()


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
    if options.get("stray") == "refuse":
        raise DataError(
            "stray='refuse' looks at all tags at once, which convert does not; use stray='repair' or 'keep', or "
            "read the labels by crowdppl.read_annotations"
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
        columns: column of the source by its name here: item or its parts, annotator, label, gold, and further ones.
        of_items: those of them that name items.
        further: further columns by their name here.
        edges: between items; None where nothing is said of them.
        dated: whether times are dates; None where there are none.
    """

    scan: Scan
    rows: Rows
    kind: Kind
    options: Mapping[str, Any]
    said: bool
    columns: Mapping[str, str]
    of_items: Sequence[str]
    further: Mapping[str, str]
    edges: PartEdges | None
    dated: bool | None

    @classmethod
    def of(cls, scan: Scan, said: Said, options: AnnotationOptions, edges: tuple[Any, str | None]) -> _Long:
        """Recognises columns; DataError for tables of another shape. ``edges`` are these, and their encoding."""
        rows, told = rows_of_table(scan.head, said, said_kind(options), options)
        kind, roles = said_kind(cast(AnnotationOptions, told)), rows.roles
        of_items = [name for name in (ITEM, *(() if kind.parts is None else kind.parts.names)) if name in roles]
        named = bool(of_items) or (kind.parts is not None and kind.parts.only is not None)
        if rows.of_lists or len(rows.item) != len(scan.head.frame) or LABEL not in roles or not named:
            raise DataError(
                f"{scan.origin} has not one label a row, which convert asks for; read it by "
                "crowdppl.read_annotations, whose table data.to_arrow() is of that form"
            )
        if kind.parts is not None and of_items == [ITEM]:
            _require_one_part(encode(rows.item, ITEM, rows.place), kind.parts, str(roles[ITEM]))
        rest = [name for name in scan.head.names if name not in roles.values()]
        new = apart_from_roles(rest, roles)
        time, names = told.get("time"), list(told.get("label_covariates") or ())
        label_columns(names, rows.columns, rows.place)
        dated = None
        if time is not None:
            dated = _are_dates(with_times(rows.columns, time, rows.place), time)
            names = [name for name in names if name != time]
        own = {str(new.get(name, name)): str(name) for name in rest}
        further = {f"column {n}": str(name) for n, name in enumerate([*names, *([] if time is None else [time])])}
        columns = {**roles, **{alias: own[name] for alias, name in further.items()}}
        unsaid = all(told.get(name) is None for name in ("kind", "classes"))
        if kind.lists:
            scan = replace(scan, texts=frozenset([str(roles[LABEL])]))
        linked = None
        if edges[0] is not None:
            if kind.parts is not None:
                raise DataError(
                    f"edges= link items of one id, and those of kind={kind.name!r} have "
                    f"{' and '.join(kind.parts.names)}; leave edges= out"
                )
            linked = PartEdges.of(scan, scan.key(columns[ITEM]), *edges)
        return cls(scan, rows, kind, told, not unsaid, columns, of_items, further, linked, dated)

    def _distinct(self, name: str) -> tuple[pa.Table, Place]:
        """The values of a column, how often each comes, and where each comes first."""
        own = {name: self.columns[name]}
        query = f"SELECT {as_name(name)}, count(*) AS n FROM ({self.scan.select(own)}) GROUP BY 1 ORDER BY 1"
        found = self.scan.fetch(query)
        return found, lambda n: self.scan.locate(own, {name: found[name][n].as_py()})

    def annotators(self) -> tuple[Codebook, int]:
        """All annotators, and the number of labels."""
        if ANNOTATOR not in self.columns:
            rows = self.scan.select({LABEL: self.columns[LABEL]})
            n = self.scan.fetch(f"SELECT count(*) FROM ({rows})")[0][0].as_py()
            return Codebook(ANNOTATOR, pd.Index([EVERYONE])), n
        table, place = self._distinct(ANNOTATOR)
        given = self.scan.encoded(table[ANNOTATOR], ANNOTATOR, place)
        book, _ = code_ids(ANNOTATOR, given, replace(self.rows, place=place), None, [])
        return book, int(table["n"].to_numpy().sum())

    def _objects(self) -> Codebook | None:
        """The ids in columns of objects; None where there are none."""
        pair = self.kind.parts
        named = [] if pair is None or pair.objects is None else [*pair.common]
        named = [name for name in named if name in self.columns]
        if self.kind.numeric and not named and not _are_whole(self.rows):
            named = [*self.of_items]
        found = list[Any]()
        for name in named:
            table, place = self._distinct(name)
            found.append(encode(self.scan.encoded(table[name], name, place), name, place).values)
        return encode(found[0].append(found[1:]).unique(), OBJECT).codebook(OBJECT)[0] if found else None

    def settled(self) -> Settled:
        """What all labels tell, by the distinct ones."""
        objects = None if self.kind.parts is None else self._objects()
        if self.kind.numeric and (objects is not None or self.kind.parts is None):
            found = self.kind.settled(self.rows, objects, self.options)
            return found._replace(options={"decimal": cast(Numbers, self.kind).mark_of(self.rows, self.options)})
        table, place = self._distinct(LABEL)
        mixed = bool(self.options.get("abstentions")) or self.options.get("classes") is not None
        lists = bool(self.scan.texts)
        each = encode(self.scan.encoded(table[LABEL], LABEL, place, mixed, lists), LABEL, place, mixed=mixed)
        counts = np.bincount(each.codes, table["n"].to_numpy(), len(each.values)).astype(np.int64)
        _, first = np.unique(each.codes, return_index=True)
        tally = _Tally(each.values, np.arange(len(each.values), dtype=np.int32), counts=counts)
        found = self.kind.settled(self._rows_of(tally, lambda n: place(int(first[n]))), objects, self.options)
        if not (self.said or self.kind.numeric):
            self._require_categories(found.alphabet)
            require_words(found.alphabet.classes.ids, lambda x: place(int(first[each.values.get_loc(x)])))
        return found

    def _require_categories(self, alphabet: LabelSet) -> None:
        """Refuses labels that by the first rows seem to be no classes."""
        label: Any = encode(self.rows.label, LABEL, self.rows.place, mixed=True)
        used, answer = np.unique(alphabet.book.codes(label.values)[label.codes], return_inverse=True)
        classes = alphabet.book.ids[used[used < alphabet.n_classes]]
        require_categories(classes, encode(self.rows.item, ITEM, self.rows.place).codes, answer, self.rows.place)

    def _rows_of(self, label: Encoding, place: Place) -> Rows:
        """Labels alone, as rows."""
        nobody = Encoding(pd.Index([EVERYONE]), np.zeros(len(label), np.int32))
        return Rows(nobody, nobody, label, place=place, text=self.rows.text, roles=self.rows.roles)

    def settled_by(self, folders: Sequence[Path]) -> Settled:
        """What all labels tell, where labels are read by their neighbours, part by part.

        DataError where some are tags of another scheme than BIO, and some are no tags, beside which those stay.
        """
        values, classes, odd = pd.Index([]), dict[Any, None](), self._no_tag()
        for folder in folders:
            if not folder.is_dir():
                continue
            given = self._rows(folder, {})
            with warnings.catch_warnings(action="ignore"):
                rows, changed = self.kind.read(given, self.options)
            before, after = (encode(x.label, LABEL, x.place, mixed=True) for x in (given, rows))
            other = before.values.take(before.codes) != after.values.take(after.codes)
            if odd and other.any():
                row = int(np.argmax(other))
                raise DataError(
                    f"the label {native(before.values[before.codes[row]])!r} at {given.place(row)} is a tag, and "
                    f"{odd[0]!r} is none, so that it is not clear whether it is one of another scheme than "
                    "BIO: write tags alone, or in BIO, or read the labels by crowdppl.read_annotations"
                )
            values = values.append(after.values).unique()
            classes |= dict.fromkeys(changed.get("classes") or ())
        label = encode(values, LABEL, mixed=True)
        told = {**self.options, "classes": [*classes] or None}
        return self.kind.settled(self._rows_of(label, lambda n: self.scan.origin), None, told)

    def _no_tag(self) -> list[Any]:
        """Labels that are no tags of spans, abstentions apart."""
        table, place = self._distinct(LABEL)
        found = encode(self.scan.encoded(table[LABEL], LABEL, place, True), LABEL, place, mixed=True).values
        return no_tags(map(native, found), self.options)

    def distribute(self, folder: Path, n_parts: int) -> None:
        """Writes the rows to a folder a part."""

        def part(unit: str) -> str:
            return f"('0x' || md5({unit})[1:8])::UINTEGER % {n_parts}"

        in_order = self.options.get("repeats") in ("first", "last") or bool(self.further)
        in_order |= self.kind.parts is not None
        self.scan.connection.execute(f"SET partitioned_write_flush_threshold = {FLUSHED}")
        self.scan.connection.execute(f"SET preserve_insertion_order = {in_order}")
        more = [f"{self._unit()} AS {OWN}", *(["row_number() OVER () AS row"] if in_order else [])]
        kept = ", ".join([*map(as_name, self.columns), *(["row"] if in_order else [])])
        rows, unit = f"({self.scan.select(self.columns, None, *more)})", OWN
        if self.edges is not None:
            rows, unit = self.edges.beside(rows, OWN)
            self.edges.distribute(folder.with_name(EDGES), part)
        with self.scan.read():
            self.scan.connection.execute(
                f"COPY (SELECT {kept}, {part(unit)} AS part FROM {rows}) TO {as_text(str(folder))} "
                "(FORMAT parquet, PARTITION_BY (part))"
            )

    def _unit(self) -> str:
        """SQL of the text of what items are kept together by, as of ``part_of``."""
        keys = {name: self.scan.key(self.columns[name]) for name in self.of_items}
        pair = self.kind.parts
        if pair is None or not pair.columns:
            return keys[ITEM]
        if pair.shared:
            one, other = (keys[name] for name in pair.names)
            if pair.unordered:
                one, other = (f"{which}({one}, {other})" for which in ("least", "greatest"))
            return f"{one} || {as_text(SEPARATOR)} || {other}"
        if pair.only is not None and pair.names[0] not in keys and not (keys and _are_whole(self.rows)):
            return as_text(pair.only)
        return keys[pair.names[0] if pair.names[0] in keys else ITEM]

    def _rows(self, folder: Path, words: Mapping[str, Any]) -> Rows:
        """The rows of a part, with labels by the words that are written for them."""
        from pyarrow import parquet

        table = parquet.read_table(folder, partitioning=None)
        if "row" in table.column_names:
            table = table.sort_by("row")

        def place(row: int) -> str:
            return self.scan.locate(self.columns, {name: table[name][row].as_py() for name in self.columns})

        mixed = not self.kind.numeric
        who = Encoding(pd.Index([EVERYONE]), np.zeros(len(table), np.int32))
        ids = {name: encode(self.scan.encoded(table[name], name, place), name, place) for name in self.of_items}
        item: Any = ids.get(ITEM)
        if item is not None and self.kind.parts is not None:
            _require_one_part(item, self.kind.parts, self.columns[ITEM])
        if item is None:
            coded = {name: pd.Categorical.from_codes(x.codes, categories=x.values) for name, x in ids.items()}
            item = pd.DataFrame(coded, index=range(len(table)))
        label = self.scan.encoded(table[LABEL], LABEL, place, mixed, bool(self.scan.texts), self.kind.numeric)
        rows = replace(
            self.rows,
            item=item,
            annotator=self.scan.encoded(table[ANNOTATOR], ANNOTATOR, place) if ANNOTATOR in self.columns else who,
            label=_in_words(label, words) if words else label,
            columns=None,
            place=place,
            gold=None,
        )
        if GOLD in self.columns:
            truths = self._truths(table[GOLD], item)
            rows = replace(rows, gold=truths.map(lambda x: words.get(str(native(x)), x)) if words else truths)
        if self.further:
            own = {name: self.scan.values(table[alias]) for alias, name in self.further.items()}
            rows = replace(rows, columns=pd.DataFrame(own))
        return rows

    def annotations(
        self, folder: Path, people: Codebook, settled: Settled
    ) -> tuple[Annotations | None, list[CrowdpplWarning]]:
        """The labels of a part as annotations, and warnings that are not emitted; None where it has no labels."""
        if not folder.is_dir():
            return None, []
        told: dict[str, Any] = {**self.options, "kind": self.kind.name, "annotators": people, **settled.options}
        rows: Any = self._rows(folder, settled.words)
        if self.edges is not None:
            told["edges"] = self.edges.read(folder.parent.with_name(EDGES) / folder.name, rows.item)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            data = Annotations.of_rows(rows, cast(AnnotationOptions, told))
        if self.dated is not None and self.dated != _are_dates(data.columns, self.options["time"]):
            one, other = ("dates", "numbers") if self.dated else ("numbers", "dates")
            raise DataError(f"the times of {self.scan.origin} are {one} first and {other} later; write all alike")
        if settled.objects is not None and data.item_covariates is not None:
            table = data.item_covariates.copy()
            for name in common_of(self.kind):
                table[name] = table[name].cat.set_categories(settled.objects.ids)
            data = replace(data, item_covariates=table)
        said = [x.message for x in found if isinstance(x.message, CrowdpplWarning)]
        return data, [x for x in said if not (self.kind.numeric and str(x).startswith(OF_FIRST))]

    def _truths(self, column: pa.ChunkedArray, item: Any) -> pd.Series[Any]:
        """Known truths by item id, without blanks."""
        import pyarrow as pa
        import pyarrow.compute as pc

        of_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        there = column.is_valid()
        if of_text and not self.scan.is_json:
            there = pc.and_(there, pc.not_equal(column, ""))
        at = np.flatnonzero(there.to_numpy())
        found = column.take(at).to_pandas()
        if self.scan.is_json:
            found = pd.Series([json.loads(text) for text in found], dtype=object)
        if isinstance(item, Encoding):
            ids = item.values.take(item.codes[at])
        else:
            some = item.iloc[at]
            ids = pd.MultiIndex.from_frame(some) if some.shape[1] > 1 else pd.Index(some.iloc[:, 0])
        truths: pd.Series[Any] = found.set_axis(ids).dropna()
        return truths

    def refuse_mixed(self, one: Any, other: Any) -> None:
        """Refuses items, or the first parts of theirs, of which one is text and another a number."""
        name = self.of_items[0]
        both, own = [native(one), native(other)], {name: self.columns[name]}
        encode(both, name, lambda n: self.scan.locate(own, {name: json.dumps(both[n], ensure_ascii=False)}))


def _require_one_part(item: Encoding, pair: Parts, name: str) -> None:
    """Refuses ids of items of which one column holds both parts."""
    both = next((n for n, x in enumerate(item.values) if SEPARATOR in str(x)), None)
    if pair.shared or pair.ordered or both is not None:
        raise DataError(
            f"the column {name!r} names items of kind={pair.kind!r}, such as {native(item.values[both or 0])!r}, "
            f"and convert reads {' and '.join(pair.names)} from two columns; make a column of each"
        )


def _are_dates(columns: Any, time: Any) -> bool:
    """Whether times are dates, and no numbers."""
    return bool(columns[time].dtype.kind == "M")


def _are_whole(rows: Rows) -> bool:
    """Whether labels are whole rankings."""
    given: Any = rows.label
    return any(map(is_whole, given.values if isinstance(given, Encoding) else given))


def _in_words(label: Any, words: Mapping[str, Any]) -> Encoding:
    """Labels, some of them as the words that are written for them."""
    given = encode(label, LABEL, mixed=True)
    codes, values = pd.factorize(given.values.map(lambda x: words.get(str(native(x)), x)))
    return Encoding(pd.Index(values), codes.astype(np.int32)[given.codes])
