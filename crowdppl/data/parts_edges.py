"""Edges between the items of parts, in DuckDB: which items lie together, and the edges of each part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.data.edges import components, no_header, require_two, sides_of
from crowdppl.data.ids import Encoding, encode, native, places_of
from crowdppl.data.parts import ENDS
from crowdppl.data.scan import Scan, as_text, scanned
from crowdppl.data.tables import as_pandas
from crowdppl.errors import DataError

GIVEN, CODED, UNITS = "edges_given", "edges_coded", "edges_units"
"""Tables: pairs of ids as text, each once, the lower first; numbers of the ids; and the unit of each."""


@dataclass(frozen=True)
class PartEdges:
    """Edges between labelled items; items that they connect are one unit, called by the first of their ids.

    Attributes:
        scan: the labels.
        key: SQL of the text of an item's id.
    """

    scan: Scan
    key: str

    @classmethod
    def of(cls, scan: Scan, key: str, edges: Any, encoding: str | None) -> PartEdges:
        """Takes files of one format with two columns, or pairs in memory.

        DataError for what are no pairs, an item without labels, and one that is linked to itself. Linked items are
        held as whole numbers while connected ones are found.
        """
        made = cls(scan, key)
        if isinstance(edges, str | Path):
            made._take_files(edges, encoding)
        else:
            at = places_of(edges)
            one, other = ([str(native(x)) for x in side] for side in sides_of(edges))
            scan.connection.register("edges_in_memory", pd.DataFrame({"one": one, "other": other}, dtype=str))
            made._fill("SELECT one, other FROM edges_in_memory")
            made._check(lambda item, pair: at(item))
        made._find_units()
        return made

    def _take_files(self, source: str | Path, encoding: str | None) -> None:
        """Fills the tables of pairs and of numbers by files."""
        given = scanned(self.scan.connection, source, None, None, encoding)
        names = [str(name) for name in given.head.names]
        require_two(len(names), given.origin)
        head = as_pandas(given.head.frame, given.origin)
        for column in head:  # refuses what is no id
            encode(head[column], "item", given.head.place)
        ends = ", ".join(f"{given.key(name)} AS {end}" for name, end in zip(names, ENDS, strict=True))

        def place(item: str, pair: Sequence[str]) -> str:
            for path in given.paths:
                inner = f"SELECT {ends}, row_number() OVER () - 1 AS row FROM {given.relation([path])}"
                where = "least(one, other) = ? AND greatest(one, other) = ?"
                found = given.fetch(f"SELECT min(row) FROM ({inner}) WHERE {where}", pair)
                if (row := found[0][0].as_py()) is not None:
                    return f" at {given.place(path, row)}"
            return ""

        with given.read():
            self._fill(f"SELECT {ends} FROM {given.relation(given.paths)}")
        here = f"SELECT {self.key} AS id FROM {self.scan.relation(self.scan.paths)}"
        known = self.scan.fetch(f"SELECT count(DISTINCT id) FROM ({here}) WHERE id IN (?, ?)", names)[0][0].as_py()
        if known == 2:
            raise DataError(no_header(names, given.origin))
        self._check(place)

    def _fill(self, pairs: str) -> None:
        """Makes the tables of pairs and of numbers."""
        connection = self.scan.connection
        connection.execute(
            f"CREATE TABLE {GIVEN} AS SELECT DISTINCT least(one, other) AS one, greatest(one, other) AS other "
            f"FROM ({pairs})"
        )
        connection.execute(
            f"CREATE TABLE {CODED} AS SELECT id, row_number() OVER (ORDER BY id) - 1 AS code "
            f"FROM (SELECT one AS id FROM {GIVEN} UNION SELECT other FROM {GIVEN})"
        )

    def _check(self, place: Callable[[str, Sequence[str]], str]) -> None:
        """Refuses items that are linked to themselves, or have no labels; ``place`` is of an item, in a pair."""
        alone = self.scan.fetch(f"SELECT one, other FROM {GIVEN} WHERE one = other LIMIT 1").to_pylist()
        for pair in alone:
            item = pair["one"]
            raise DataError(f"edges link the item {item!r} to itself{place(item, [item, item])}; leave it out")
        labelled = f"SELECT {self.key} AS id FROM {self.scan.relation(self.scan.paths)}"
        unknown = f"SELECT id FROM {CODED} ANTI JOIN ({labelled}) USING (id)"
        lost = self.scan.fetch(
            f"SELECT id, one, other, (SELECT count(*) FROM ({unknown})) - 1 AS more FROM ({unknown}) "
            f"JOIN {GIVEN} ON id = one OR id = other ORDER BY id LIMIT 1"
        ).to_pylist()
        for row in lost:
            where = place(row["id"], [row["one"], row["other"]])
            where += f" (and {row['more']} more)" if row["more"] else ""
            what = f"name the item {row['id']!r}{where}, which has no labels; correct it, or leave it out"
            raise DataError(f"edges {what if row['id'] else f'have no item{where}; leave the row out'}")

    def _find_units(self) -> None:
        """Makes the table of units."""
        import pyarrow as pa

        sides = (f"{name}.code" for name in ("a", "b"))
        found = self.scan.fetch(
            f"SELECT {', '.join(sides)} FROM {GIVEN} JOIN {CODED} a ON one = a.id JOIN {CODED} b ON other = b.id"
        )
        pairs = np.stack([found[n].to_numpy() for n in range(2)], 1)
        n = self.scan.fetch(f"SELECT count(*) FROM {CODED}")[0][0].as_py()
        part = components(pairs, n)[:, 0]
        first = np.unique(part, return_index=True)[1]  # numbers are in the order of ids
        units = pa.table({"code": np.arange(n), "unit": first[part]})
        self.scan.connection.register("edges_first", units)
        self.scan.connection.execute(
            f"CREATE TABLE {UNITS} AS SELECT a.id, b.id AS unit FROM edges_first "
            f"JOIN {CODED} a ON a.code = edges_first.code JOIN {CODED} b ON b.code = edges_first.unit"
        )
        self.scan.connection.unregister("edges_first")

    @staticmethod
    def beside(rows: str, own: str) -> tuple[str, str]:
        """SQL of rows with the unit of the item that the column ``own`` names, and of that unit."""
        return f"{rows} LEFT JOIN {UNITS} ON id = {own}", f"coalesce(unit, {own})"

    def distribute(self, folder: Path, part: Callable[[str], str]) -> None:
        """Writes the edges to a folder a part, where ``part`` is SQL of the part of a unit."""
        with self.scan.read():
            self.scan.connection.execute(
                f"COPY (SELECT one, other, {part('unit')} AS part FROM {GIVEN} JOIN {UNITS} ON one = id) "
                f"TO {as_text(str(folder))} (FORMAT parquet, PARTITION_BY (part))"
            )

    @staticmethod
    def read(folder: Path, items: Encoding) -> pd.DataFrame:
        """Those of a part, by ids as its labels have them."""
        from pyarrow import parquet

        if not folder.is_dir():
            return pd.DataFrame({name: [] for name in ENDS})
        table = parquet.read_table(folder, partitioning=None)
        texts, ends = pd.Index([str(native(x)) for x in items.values]), dict[str, Any]()
        for name in ENDS:
            code = texts.get_indexer(table[name].to_pandas())
            if (code < 0).any():  # ids that DuckDB writes otherwise, such as true for True
                item = table[name][int(np.argmax(code < 0))].as_py()
                raise DataError(
                    f"edges name the item {item!r}, which labels spell otherwise; make ids texts in both files"
                )
            ends[name] = items.values.take(code)
        return pd.DataFrame(ends)
