"""Parts as files: one after the other, and what is said of them all."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from crowdppl import __version__
from crowdppl.core.validation import warn
from crowdppl.data.annotations import Annotations
from crowdppl.data.block_files import write_blocks
from crowdppl.data.coded import (
    Compared,
    cell_counts,
    connected_sets,
    disconnected,
    spelling_warning,
    warnings_of_counts,
)
from crowdppl.data.ids import Codebook, native
from crowdppl.data.kinds.kind import Settled
from crowdppl.data.kinds.numbers import NUMBER
from crowdppl.data.parts import (
    ANNOTATOR,
    ANNOTATORS,
    ENDS,
    GOLD,
    ITEM,
    LABEL,
    OBJECT,
    OBJECTS,
    Manifest,
    PartFile,
    common_of,
    ends_at_items,
)
from crowdppl.data.tables import Rows
from crowdppl.errors import (
    CrowdpplWarning,
    DisconnectedWarning,
    OneClassWarning,
    RepeatsWarning,
    SparseDataWarning,
)

GROUP = (500_000, 1_000_000)
"""Rows of a row group."""
COUNTED = re.compile(r"(\d+) of (\d+) (.*)", re.DOTALL)
"""A warning that counts rows."""
EXAMPLE = re.compile(r", such as .*?,(?= and )", re.DOTALL)
"""What differs in a warning of each part."""
OF_ALL = (SparseDataWarning, DisconnectedWarning, OneClassWarning)
"""Warnings that one part cannot know of."""


class About(NamedTuple):
    """What is known of a table before it is written.

    The rows by which it was recognised, options of annotations, how many rows there are, names of further columns,
    and whether known truths and edges are there.
    """

    rows: Rows
    options: Mapping[str, Any]
    n_rows: int
    further: Sequence[str]
    gold: bool
    linked: bool


class Writer:
    """A folder of parts that is being written, and what is counted over them."""

    def __init__(self, folder: Path, people: Codebook, settled: Settled, about: About) -> None:
        self.folder, self.people, self.settled, self.about = folder, people, settled, about
        self.kind = settled.alphabet.kind
        self.files = list[PartFile]()
        self.counts = np.zeros((len(people), len(settled.alphabet.book)), np.int64)
        compared = self.kind.parts is not None and self.kind.parts.objects is not None
        self.objects = settled.objects if compared else None
        self.sets = np.arange(len(people if self.objects is None else self.objects))
        self.may = np.zeros(len(people), bool)
        self.n_known = 0
        self.first: Any = None
        self.said = dict[tuple[type[CrowdpplWarning], str, bool], tuple[str, int, int]]()

    def add(
        self,
        number: int,
        data: Annotations | None,
        said: Sequence[CrowdpplWarning],
        refuse_mixed: Callable[[Any, Any], None],
    ) -> None:
        """Writes a part; None is one that no item has come to."""
        path = self.folder / f"part-{number:05}.parquet"
        if data is None:
            self.files.append(self._empty(path))
            return
        self.files.append(self._written(data, path))
        own = cell_counts(data.blocks)
        self.counts += own
        pair, table = self.kind.parts, data.item_covariates
        first = data.items[0] if pair is None or table is None else table[pair.names[0]].cat.categories[0]
        self.first = first if self.first is None else self.first
        if isinstance(first, str) != isinstance(self.first, str):
            refuse_mixed(self.first, first)
        self.n_known += int(data.is_known.sum())
        self.may |= False if data.abstainers is None else data.abstainers
        if np.ptp(self.sets):
            self.sets = self._joined(data)
        kept = {*map(str, data.warnings)}
        for warning in said:
            text = str(warning)
            if isinstance(warning, OF_ALL) or "differ from another in case" in text:
                continue
            counted = COUNTED.fullmatch(text)
            n, total, rest = (int(counted[1]), int(counted[2]), counted[3]) if counted else (0, 0, text)
            key = type(warning), EXAMPLE.sub("", rest), text in kept
            shown, before, of = self.said.get(key, (rest, 0, 0))
            self.said[key] = shown, before + n, of + total

    def _joined(self, data: Annotations) -> np.ndarray:
        """The sets of annotators that share items, or of objects that are compared, with those of a part."""
        if self.objects is None:
            return connected_sets(data.blocks, np.ones(len(self.people), bool), self.sets)
        item, annotator, _ = data.label_codes()
        assert self.kind.parts is not None and data.item_covariates is not None
        return Compared.of(self.kind.parts, data.item_covariates, item, annotator, len(self.people)).joined(
            self.sets
        )

    def _written(self, data: Annotations, path: Path) -> PartFile:
        """Writes the labels of a part, and its blocks."""
        import pyarrow as pa
        from pyarrow import parquet

        item, annotator, answer = data.label_codes()
        without = np.flatnonzero(np.bincount(item, minlength=data.n_items) == 0)
        given: dict[str, Any] = {ANNOTATOR: pa.array(annotator), LABEL: pa.array(answer).cast(self._of_label())}
        columns = data.columns
        if self.kind.numeric and columns is not None:
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
        table = pa.table({name: x.take(item) for name, x in self._ids(data).items()} | given)
        if data.known is not None:
            truths = pa.array(data.known[item], mask=~data.is_known[item]).cast(self._of_label())
            table = table.append_column(GOLD, truths)
        elif self.about.gold:
            table = table.append_column(GOLD, pa.nulls(len(item), self._of_label()))
        with parquet.ParquetWriter(path, table.schema, compression="zstd") as writer:
            for first, end in pairwise(ends_at_items(item, *GROUP)):
                writer.write_table(table.slice(first, end - first), row_group_size=end - first)
        blocks = None
        if data.columns is None:  # what is more of each label is in the part alone
            write_blocks(path.with_suffix(".blocks"), data.order, data.blocks)
            blocks = PartFile.of(path.with_suffix(".blocks"))
        return PartFile.of(path, data.n_items, data.n_labels, blocks, self._edges(data, path))

    @staticmethod
    def _edges(data: Annotations, path: Path) -> PartFile | None:
        """Writes the edges of a part; None where no item of it is linked."""
        import pyarrow as pa
        from pyarrow import parquet

        if data.edges is None or not len(data.edges):
            return None
        ends = data.edges.astype(np.int32)
        file = path.with_name(path.name.replace("part", "edges"))
        parquet.write_table(pa.table({name: ends[:, n] for n, name in enumerate(ENDS)}), file, compression="zstd")
        return PartFile.of(file)

    def _ids(self, data: Annotations) -> dict[str, Any]:
        """The columns that name items, as arrays of Arrow: ids, and codes of objects."""
        import pyarrow as pa

        table = data.item_covariates
        if self.kind.parts is None or table is None:
            return {ITEM: _texts(pa.array(data.items))}
        found = dict[str, Any]()
        for name in self.kind.parts.names:
            coded = isinstance(table[name].dtype, pd.CategoricalDtype)
            if name in common_of(self.kind):
                found[name] = pa.array(table[name].cat.codes.to_numpy(np.int32))
            else:
                found[name] = _texts(
                    pa.array(table[name].astype(table[name].cat.categories.dtype) if coded else table[name])
                )
        return found

    def _of_label(self) -> Any:
        """The type of labels in files."""
        import pyarrow as pa

        n = len(self.settled.alphabet.book)
        codes = pa.int8() if n < 2**7 else pa.int16() if n < 2**15 else pa.int32()
        return pa.float64() if self.kind.numeric else codes

    def _empty(self, path: Path) -> PartFile:
        """Writes a part that no item has come to."""
        import pyarrow as pa
        from pyarrow import parquet

        pair, common = self.kind.parts, common_of(self.kind)
        types: dict[str, Any] = dict.fromkeys((ITEM,) if pair is None else pair.names, pa.string())
        types |= dict.fromkeys(common, pa.int32())
        types |= {pair.names[1]: pa.int64()} if pair is not None and pair.ordered else {}
        types |= {ANNOTATOR: pa.int32(), LABEL: self._of_label()}
        types |= {name: pa.float64() for name in self.about.further}
        types |= {GOLD: self._of_label()} if self.about.gold else {}
        parquet.write_table(pa.schema(types).empty_table(), path)
        return PartFile.of(path)

    def _warnings(self, repeats: str, kept: bool) -> list[CrowdpplWarning]:
        """The warnings of parts, with counts of all; those that annotations keep, or those of reading alone."""
        found = list[CrowdpplWarning]()
        for (kind, _, stays), (text, n, of) in self.said.items():
            if stays != kept:
                continue
            total = self.about.n_rows
            if kind is RepeatsWarning:
                total = int(self.counts.sum()) + (0 if repeats == "keep" else n)
            elif text.startswith("known truths"):
                total = self.n_known + n
            elif text.startswith("spans"):
                total = of
            found.append(kind(f"{n} of {total} {text}" if n else text))
        return found

    def finish(self) -> dict[str, int]:
        """Writes annotators, objects and dataset.json, and warns of the whole."""
        import pyarrow as pa
        from pyarrow import parquet

        who = pa.table({ANNOTATOR: pa.array(self.people.ids), "labels": self.counts.sum(1), "abstained": self.may})
        parquet.write_table(who, self.folder / ANNOTATORS)
        objects, alphabet = self.settled.objects, self.settled.alphabet
        if objects is not None:
            parquet.write_table(pa.table({OBJECT: pa.array(objects.ids)}), self.folder / OBJECTS)
        say, ids, k = self._told(), [*map(native, alphabet.book.ids)], alphabet.n_classes
        time = self.about.options.get("time")
        names = [name for name in self.about.further if name != time]
        Manifest(
            self.kind.name,
            self.kind.unit,
            ids[:k],
            ids[k:] if k else [],
            alphabet.informative,
            names,
            time,
            self.about.gold,
            self.about.linked,
            PartFile.of(self.folder / ANNOTATORS),
            None if objects is None else PartFile.of(self.folder / OBJECTS),
            self.files,
            {**self.about.rows.roles, **({"label_covariates": ", ".join(names)} if names else {})}
            | ({} if time is None else {"time": time}),
            [(type(x).__name__, str(x)) for x in say],
        ).write(self.folder, f"crowdppl {__version__}")
        for warning in (*self._warnings("keep", kept=False), *say):
            warn(warning)
        items, labels = (sum(getattr(file, name) for file in self.files) for name in ("items", "labels"))
        return {"items": items, "annotators": len(self.people), "labels": labels, "parts": len(self.files)}

    def _told(self) -> list[CrowdpplWarning]:
        """What is to be said of all labels."""
        alphabet, pair = self.settled.alphabet, self.kind.parts
        about, repeats = self.about, self.about.options.get("repeats", "keep")
        told: list[CrowdpplWarning | None] = [*self._warnings(repeats, kept=True)]
        told += [spelling_warning("annotators", self.people.ids)]
        if about.options.get("classes") is None and alphabet.n_classes and pair is None:
            told += [spelling_warning("labels", alphabet.book.ids)]
        apart, sets = None, None
        if self.objects is None:
            sets = self.sets
        else:
            apart = disconnected(self.sets, self.objects.ids)
        found = warnings_of_counts(self.counts, self.people, alphabet.n_classes, sets, apart)
        left = (
            *([SparseDataWarning] if about.rows.pooled else []),
            *([OneClassWarning] if pair and pair.ranks else []),
        )
        told += [x for x in found if not isinstance(x, left)]
        return [x for x in told if x is not None]


def _texts(ids: Any) -> Any:
    """Ids of text in the type of short texts."""
    import pyarrow as pa

    return ids.cast(pa.string()) if pa.types.is_large_string(ids.type) else ids
