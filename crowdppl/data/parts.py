"""Annotations as a folder of parts: items by a hash of their id in Parquet files; what the codes mean, once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from crowdppl import errors
from crowdppl.core.collective import all_gathered
from crowdppl.core.validation import require_path
from crowdppl.data.block_files import mapped_blocks
from crowdppl.data.blocks import Block
from crowdppl.data.coded import Coded, check_tables
from crowdppl.data.edges import components, each_once
from crowdppl.data.ids import Codebook, as_index, encode, native
from crowdppl.data.kinds import kind_named
from crowdppl.data.kinds.kind import Kind, LabelSet
from crowdppl.data.kinds.numbers import NUMBER, ONE_ANSWER
from crowdppl.data.kinds.parts import Parts
from crowdppl.data.kinds.sequences import units_of
from crowdppl.errors import CrowdpplWarning, DataError

LAYOUT, VERSION = "crowdppl parts", 3
HASH = "md5: first 8 hex digits of the unit's UTF-8 text, as a number, modulo the number of parts"
MANIFEST, ANNOTATORS, OBJECTS = "dataset.json", "annotators.parquet", "objects.parquet"
ITEM, ANNOTATOR, LABEL, GOLD, OBJECT = "item", "annotator", "label", "gold", "object"
"""Columns of a part."""
ENDS = ("one", "other")
"""Columns of its edges: items by their place among those of the part."""


@dataclass(frozen=True)
class PartFile:
    """A file of a folder: its name, its size in bytes and its digest; of a part, its items and labels, too.

    ``blocks`` is the file of its labels as blocks, None where they are made of the part; ``edges`` that of edges
    between its items, None where there are none.
    """

    file: str
    bytes: int
    sha256: str
    items: int = 0
    labels: int = 0
    blocks: PartFile | None = None
    edges: PartFile | None = None

    @classmethod
    def of(
        cls,
        path: Path,
        items: int = 0,
        labels: int = 0,
        blocks: PartFile | None = None,
        edges: PartFile | None = None,
    ) -> PartFile:
        """What is to be said of a file that is there."""
        return cls(path.name, path.stat().st_size, digest_of(path), items, labels, blocks, edges)

    @classmethod
    def read(cls, said: Mapping[str, Any]) -> PartFile:
        """What dataset.json says of a file."""
        more = {name: said.get(name) for name in ("blocks", "edges")}
        return cls(**{**said, **{name: None if x is None else cls.read(x) for name, x in more.items()}})

    @property
    def names(self) -> list[str]:
        """The names of all its files."""
        return [self.file, *(name for x in (self.blocks, self.edges) if x is not None for name in x.names)]


@dataclass(frozen=True)
class Manifest:
    """What dataset.json says.

    Attributes:
        kind, unit, classes, abstentions, informative_abstentions, label_covariates, time: as of annotations; there
            are no classes where labels are numbers.
        gold: whether items have a column of known truths.
        linked: whether it is known which items are linked.
        annotators: the file of annotators.
        objects: that of what items have in common by the columns ``kind.parts.common``; None where they have none.
        parts: files of items, in order.
        roles: the columns that were read, by what they held.
        warnings: class and text of what was said of the labels.
    """

    kind: str
    unit: str | None
    classes: list[Any]
    abstentions: list[Any]
    informative_abstentions: bool
    label_covariates: list[str]
    time: str | None
    gold: bool
    linked: bool
    annotators: PartFile
    objects: PartFile | None
    parts: list[PartFile]
    roles: dict[str, str] = field(default_factory=dict)
    warnings: list[tuple[str, str]] = field(default_factory=list)

    def write(self, folder: Path, made_by: str) -> None:
        """Writes dataset.json."""
        about = {"layout": LAYOUT, "version": VERSION, "hash": HASH, "made_by": made_by}
        counts = {
            "items": sum(part.items for part in self.parts),
            "labels": sum(part.labels for part in self.parts),
        }
        text = json.dumps({**about, "counts": counts, **asdict(self)}, indent=1, ensure_ascii=False)
        (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Reads dataset.json; DataError for what is none, or of another version of layout or hash."""
        path = folder / MANIFEST
        if not path.is_file():
            raise DataError(f"{folder} holds no {MANIFEST}; give a folder that crowdppl.convert wrote")
        again = "convert the labels again"
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            said = {name: found.pop(name) for name in ("layout", "version", "hash")}
            if said["version"] == 2:  # the same without edges
                said["version"], found["linked"] = VERSION, False
            known = {name: found[name] for name in cls.__dataclass_fields__}
            known["annotators"] = PartFile.read(known["annotators"])
            known["parts"] = [PartFile.read(part) for part in known["parts"]]
            known["objects"] = None if known["objects"] is None else PartFile.read(known["objects"])
            if (known["objects"] is None) == bool(common_of(kind_named(known["kind"]))):
                raise ValueError(f"kind {known['kind']!r} with objects {known['objects']!r}")
            every = (known["annotators"], known["objects"], *known["parts"])
            names = [name for part in every if part is not None for name in part.names]
            if known["linked"] not in (True, False) or any(
                part.edges and not known["linked"] for part in known["parts"]
            ):
                raise ValueError(f"linked is {known['linked']!r}, which its parts are not")
            if not known["parts"] or any(Path(name).name != name for name in names):
                raise ValueError("its parts are no files of the folder")
            made = cls(**known)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise DataError(f"{path} is no description of parts ({error!r}); {again}") from error
        if said != {"layout": LAYOUT, "version": VERSION, "hash": HASH}:
            raise DataError(
                f"{path} describes {said['layout']!r} of version {said['version']!r} by {said['hash']!r}, and this "
                f"version of crowdppl reads version {VERSION} by {HASH!r}; {again}"
            )
        return made

    @property
    def alphabet(self) -> LabelSet:
        """What can be answered."""
        kind = kind_named(self.kind).in_unit(self.unit)
        if kind.numeric:
            return LabelSet(ONE_ANSWER, 0, kind)
        book = Codebook("answer", as_index([*self.classes, *self.abstentions]))
        return LabelSet(book, len(self.classes), kind, self.informative_abstentions)


class Stored(NamedTuple):
    """What parts hold, as annotations have it; ``may`` says who abstained, None where nobody can.

    ``of_items`` are the two columns that name an item together, of kinds of which two do.
    ``folder`` and ``digest``, that of its dataset.json, and the numbers of ``parts`` say where it was read.
    """

    folder: Path
    digest: str
    parts: range
    manifest: Manifest
    items: Codebook
    of_items: pd.DataFrame | None
    annotators: Codebook
    alphabet: LabelSet
    blocks: list[Block]
    order: np.ndarray
    known: np.ndarray | None
    columns: pd.DataFrame | None
    edges: np.ndarray | None
    may: np.ndarray | None
    warnings: tuple[CrowdpplWarning, ...]


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def common_of(kind: Kind) -> tuple[str, ...]:
    """The columns of a part that hold codes of what is listed in objects.parquet."""
    return () if kind.parts is None else kind.parts.common


def part_of(ids: Iterable[Any], n_parts: int, pair: Parts | None = None) -> np.ndarray:
    """The number of the part of each item, by ``HASH`` of its unit: int64 (n,); ``pair`` may name items."""
    units = ids if pair is None else pair.units(ids)
    digits = (hashlib.md5(str(native(x)).encode(), usedforsecurity=False).hexdigest()[:8] for x in units)
    return np.array([int(x, 16) % n_parts for x in digits], np.int64)


def own_parts(n_parts: int, process: int, processes: int) -> range:
    """The parts of a process: runs of consecutive ones, so that items are in one order however many there are."""
    return range(process * n_parts // processes, (process + 1) * n_parts // processes)


def is_folder_of_parts(path: Any) -> bool:
    """Whether a path is that of a folder of parts."""
    return isinstance(path, str | Path) and Path(path).is_dir() and (Path(path) / MANIFEST).is_file()


def read_parts(path: Any, process: int = 0, processes: int = 1, check: bool = False) -> Stored:
    """Reads the parts of one of some processes (``own_parts``); annotators and classes are those of all parts.

    Each part is one block or several, whoever reads it: items stand in an order that depends on the part alone.
    Sizes of files and ranges of codes are checked, by ``check`` also digests, and whether items are where they
    belong. DataError for what is missing, of another version, or damaged.
    """
    folder = require_path(path)
    manifest = Manifest.read(folder)
    if processes > len(manifest.parts):
        raise DataError(
            f"{folder} has {len(manifest.parts)} parts for {processes} processes; start at most "
            f"{len(manifest.parts)}, or convert the labels with n_parts={processes}"
        )
    alphabet, (annotators, may) = manifest.alphabet, _annotators(folder, manifest, check)
    objects = None if manifest.objects is None else _objects(folder, manifest.objects, check)
    check_tables(len(annotators), len(alphabet.book))
    none_may = alphabet.n_classes in (0, len(alphabet.book))
    found, first = list[_Read](), 0
    own = own_parts(len(manifest.parts), process, processes)
    for number in own:
        read = _read_part(folder, number, manifest, annotators, objects, alphabet, check)
        found.append(read.moved(first))
        first += len(read.ids)
    blocks = [block for read in found for block in read.blocks if block.n_items] or found[0].blocks
    items = Codebook("item", found[0].ids.append([read.ids for read in found[1:]]))
    columns = [read.columns for read in found if read.columns is not None]
    known = [read.known for read in found if read.known is not None]
    of_items = [read.of_items for read in found if read.of_items is not None]
    return Stored(
        folder.absolute(),
        digest_of(folder / MANIFEST),
        own,
        manifest,
        items,
        _joined(of_items, items.ids) if of_items else None,
        annotators,
        alphabet,
        blocks,
        np.concatenate([read.order for read in found]),
        np.concatenate(known) if known else None,
        pd.concat(columns, ignore_index=True) if columns else None,
        np.concatenate([read.edges for read in found]) if manifest.linked else None,
        None if none_may else may,
        tuple(_warning(name, text) for name, text in manifest.warnings),
    )


class _Read(NamedTuple):
    """A part: its items, by id and by two columns, their order, blocks, known truths, further columns, edges."""

    ids: pd.Index[Any]
    of_items: pd.DataFrame | None
    order: np.ndarray
    blocks: list[Block]
    known: np.ndarray | None
    columns: pd.DataFrame | None
    edges: np.ndarray

    def moved(self, first: int) -> _Read:
        """The part where so many items stand before it."""
        blocks = [replace(block, offset=block.offset + first) for block in self.blocks]
        return self._replace(order=self.order + np.int32(first), blocks=blocks, edges=self.edges + first)


def _warning(name: str, text: str) -> CrowdpplWarning:
    """A warning by the name of its class."""
    kind: Any = getattr(errors, name, None)
    usual = isinstance(kind, type) and issubclass(kind, CrowdpplWarning)
    made: CrowdpplWarning = kind(text) if usual else CrowdpplWarning(text)
    return made


AGAIN = "copy the folder again, or convert the labels again"


def _file(folder: Path, part: PartFile, check: bool) -> Path:
    """A file of the folder; DataError where it is missing or another one."""
    path, again = folder / part.file, AGAIN
    if not path.is_file():
        raise DataError(f"{path} is not there; {again}")
    if path.stat().st_size != part.bytes:
        raise DataError(
            f"{path} has {path.stat().st_size} bytes, and {MANIFEST} says {part.bytes}: it is truncated or another "
            f"file; {again}"
        )
    if check and digest_of(path) != part.sha256:
        raise DataError(f"{path} has another digest than {MANIFEST} says: it is damaged or another file; {again}")
    return path


def _table(folder: Path, part: PartFile, columns: Collection[str], check: bool) -> Any:
    """A file of Parquet with some of its columns; DataError where it cannot be read."""
    import pyarrow
    from pyarrow import parquet

    path = _file(folder, part, check)
    try:
        return parquet.read_table(path, columns=[*columns])
    except (pyarrow.ArrowException, OSError, KeyError) as error:
        raise DataError(f"{path} cannot be read: {error}; {AGAIN}") from error


def _annotators(folder: Path, manifest: Manifest, check: bool) -> tuple[Codebook, np.ndarray]:
    """The annotators by code, and who abstained."""
    table = _table(folder, manifest.annotators, (ANNOTATOR, "abstained"), check)
    return Codebook(ANNOTATOR, pd.Index(table[ANNOTATOR].to_pandas())), table["abstained"].to_numpy()


def _objects(folder: Path, file: PartFile, check: bool) -> pd.Index[Any]:
    """What items have in common, by code."""
    found: pd.Index[Any] = pd.Index(_table(folder, file, (OBJECT,), check)[OBJECT].to_pandas()).rename(None)
    return found


def _joined(tables: Sequence[pd.DataFrame], ids: pd.Index[Any]) -> pd.DataFrame:
    """The columns that name items, of all parts; those of other categories get the categories of all."""
    tables, out = [table for table in tables if len(table)] or tables[:1], dict[str, Any]()
    for name in map(str, tables[0]):
        columns = [table[name] for table in tables]
        if any(x.dtype != columns[0].dtype for x in columns):
            every = columns[0].cat.categories.append([x.cat.categories for x in columns[1:]]).unique()
            columns = [x.cat.set_categories(encode(every, name).codebook(name)[0].ids) for x in columns]
        out[name] = pd.concat(columns, ignore_index=True).array
    return pd.DataFrame(out, index=ids)


def _read_part(
    folder: Path,
    number: int,
    manifest: Manifest,
    annotators: Codebook,
    objects: pd.Index[Any] | None,
    alphabet: LabelSet,
    check: bool,
) -> _Read:
    """Reads a part, or maps its blocks; DataError where it is not what it should be."""
    part, of_blocks, kind = manifest.parts[number], manifest.parts[number].blocks, alphabet.kind
    names = [*manifest.label_covariates, *([] if manifest.time is None else [manifest.time])]
    of_ids = (ITEM,) if kind.parts is None else kind.parts.names
    columns = [
        *of_ids,
        *([GOLD] if manifest.gold else []),
        *([ANNOTATOR, LABEL, *names] if check or not of_blocks else []),
    ]
    table = _table(folder, part, columns, check)
    try:
        ids, of_items, new = _items(table, kind, objects)
        edges = _edges(folder, part, len(ids), check)
        units = _linked_units(ids, edges) if len(edges) else ids
        if check and (wrong := part_of(units, len(manifest.parts), kind.parts) != number).any():
            raise ValueError(f"the item {native(ids[wrong][0])!r} belongs to another part by its hash")
        if check or of_blocks is None:
            together = units_of(of_items, edges if manifest.linked else None, len(ids))
            order, blocks, further = _coded(table, ids, together, new, annotators, alphabet, names)
        if of_blocks is not None:
            sizes, coded = (len(annotators), alphabet.n_classes, len(alphabet.book)), check and [order, *blocks]
            (order, blocks), further = mapped_blocks(_file(folder, of_blocks, check), sizes), None
            if coded and not _same(coded, [order, *blocks]):
                raise ValueError(f"{of_blocks.file} holds other labels")
        n_labels = sum(block.n_labels for block in blocks)
        if {len(ids), len(order)} != {part.items} or n_labels != part.labels:
            raise ValueError(f"there are {len(ids)} items and {n_labels} labels, and {MANIFEST} says otherwise")
        known = _known(table[GOLD], new, alphabet) if manifest.gold else None
    except ValueError as error:
        text = f"{folder / part.file}: {error}; write the part anew, or convert the labels again"
        raise DataError(text) from error
    return _Read(ids, of_items, order, blocks, known, further, edges)


def _same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether two orders of items, and blocks, are the same labels."""
    pairs = zip(one[1:], other[1:], strict=False)
    cells = all(torch.equal(x.bags.cells, y.bags.cells) for x, y in pairs)
    return len(one) == len(other) and np.array_equal(one[0], other[0]) and cells


def _known(column: Any, new: np.ndarray, alphabet: LabelSet) -> np.ndarray:
    """The known truth of each item, of those of all rows; ValueError for codes of no class and for two truths."""
    numeric, there = alphabet.kind.numeric, column.is_valid().to_numpy()
    if not numeric and there.any() and not _are_codes(column.drop_null().to_numpy(), alphabet.n_classes):
        raise ValueError(f"a code of the known truths is none of 0 to {alphabet.n_classes - 1}")
    none: Any = np.nan if numeric else -1
    truths = column.cast("float64" if numeric else "int32").fill_null(none).to_numpy()
    first: np.ndarray = truths[new]
    if not np.array_equal(truths, first[np.cumsum(new) - 1], equal_nan=True):
        raise ValueError("rows of one item have several known truths")
    return first


def _edges(folder: Path, part: PartFile, n_items: int, check: bool) -> np.ndarray:
    """The edges of a part, int64 (E, 2); ValueError for what are no places of two of its items."""
    if part.edges is None:
        return np.empty((0, 2), np.int64)
    table = _table(folder, part.edges, ENDS, check)
    ends = [table[name].to_numpy() for name in ENDS]
    if not all(_are_codes(x, n_items) for x in ends) or (ends[0] == ends[1]).any():
        raise ValueError(f"{part.edges.file} has an edge that is not between two items of 0 to {n_items - 1}")
    return each_once(np.stack(ends, 1).astype(np.int64), n_items)


def _linked_units(ids: pd.Index[Any], edges: np.ndarray) -> pd.Series[str]:
    """The unit of each item of a part: the first, as text, of the ids that edges connect with its own."""
    texts = pd.Series([str(native(x)) for x in ids])
    first: pd.Series[str] = texts.groupby(components(edges, len(ids))[:, 0]).transform("min")
    return first


def _items(
    table: Any, kind: Kind, objects: pd.Index[Any] | None
) -> tuple[pd.Index[Any], pd.DataFrame | None, np.ndarray]:
    """The items of a part, by id and by two columns, and which rows are the first of theirs.

    ValueError where rows of an item are apart, and for a code of no object.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    names, new = (ITEM,) if kind.parts is None else kind.parts.names, np.zeros(len(table), bool)
    new[:1] = True
    for name in names:
        column = table[name].combine_chunks()
        held = column.type
        if column.null_count or not (pa.types.is_integer(held) or held in (pa.string(), pa.large_string())):
            raise ValueError(
                f"the column {name!r} is {held} with {column.null_count} nulls, and no text or integers"
            )
        new[1:] |= pc.not_equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
    if kind.parts is None:
        first, of_items = table[ITEM].combine_chunks().filter(new), None
        ids = pd.Index(first.to_pandas())
    else:
        of_items = _pairs(table.select(names).filter(new), kind.parts, objects)
        ids = kind.parts.names_of(of_items)
        first = pa.array(ids, pa.string())
    if pc.count_distinct(first).as_py() != len(first):  # an index would keep what it needs to tell
        raise ValueError(f"rows of the item {native(ids[ids.duplicated()][0])!r} are not together")
    return ids, of_items, new


def _pairs(table: Any, pair: Parts, objects: pd.Index[Any] | None) -> pd.DataFrame:
    """The two columns that name items; ValueError for a code of no object."""
    out = dict[str, Any]()
    for name in pair.names:
        values = table[name].to_numpy()
        if objects is not None and name in pair.common:
            if not _are_codes(values, len(objects)):
                raise ValueError(f"a code of {name!r} is none of 0 to {len(objects) - 1}")
            out[name] = pd.Categorical.from_codes(values, categories=objects)
        elif pair.ordered and name == pair.names[1]:
            out[name] = values
        else:
            book, codes = encode(table[name].to_pandas(), name).codebook(name)
            out[name] = pd.Categorical.from_codes(codes, categories=book.ids)
    return pd.DataFrame(out)


def _coded(
    table: Any,
    ids: pd.Index[Any],
    units: np.ndarray | None,
    new: np.ndarray,
    annotators: Codebook,
    alphabet: LabelSet,
    names: list[str],
) -> tuple[np.ndarray, list[Block], pd.DataFrame | None]:
    """Order, blocks and further columns of the labels of a part; ValueError where codes are out of range."""
    numeric, there = alphabet.kind.numeric, table[ANNOTATOR].is_valid().to_numpy()
    code = (np.cumsum(new, dtype=np.int32) - np.int32(1))[there]
    labels = table.filter(there) if not there.all() else table
    annotator, answer = labels[ANNOTATOR].to_numpy(), labels[LABEL].to_numpy()
    for which, codes, n in ((ANNOTATOR, annotator, len(annotators)), (LABEL, answer, len(alphabet.book))):
        if (which == ANNOTATOR or not numeric) and not _are_codes(codes, n):
            raise ValueError(f"a code of the {which}s is none of 0 to {n - 1}")
    columns = labels.select(names).to_pandas() if names else None
    if numeric:
        numbers = pd.DataFrame({NUMBER: answer.astype(np.float64)})
        columns = numbers if columns is None else pd.concat([numbers, columns], axis=1)
        answer = np.zeros(len(answer), np.int32)
    each = (code, annotator.astype(np.int32, copy=False), answer.astype(np.int32, copy=False))
    coded = Coded(Codebook(ITEM, ids), annotators, alphabet, *each)
    return *coded.blocks(units), coded.sorted_columns(columns, None)


def _are_codes(codes: np.ndarray, n: int) -> bool:
    """Whether all are whole numbers from 0 and below n."""
    return codes.dtype.kind in "iu" and (not len(codes) or (int(codes.min()) >= 0 and int(codes.max()) < n))


def of_own_parts(given: Any, stored: Stored, share: tuple[int, int] | None) -> Any:
    """Of a series or table by item id, the rows of items that a process has; all where it has all.

    An id that no process has stays with the one whose parts its hash names.
    """
    if share is None or (given is None and not stored.manifest.linked):
        return given
    n_parts, pair, ids = (
        len(stored.manifest.parts),
        stored.alphabet.kind.parts,
        [] if given is None else given.index,
    )
    hashed = np.isin(part_of(ids, n_parts, pair), own_parts(n_parts, *share))
    if stored.manifest.linked:  # the id alone does not tell the part of a linked item
        own = stored.items.codes(ids) >= 0
        others = [*chain(*all_gathered(pd.Index(ids)[own].tolist()))]
        hashed = own | (hashed & ~pd.Index(ids).isin(others))
    return given if given is None else given[hashed]


def ends_at_items(item: np.ndarray, least: int, most: int) -> Sequence[int]:
    """Where groups of rows end, of ``least`` to ``most`` rows each if items are small, by the sorted item codes."""
    ends, n, least = [0], len(item), max(least, 1)
    starts = np.append(np.flatnonzero(np.diff(item, prepend=-1)), n)
    while ends[-1] < n:
        first = ends[-1]
        if n - first <= most:
            ends.append(n)
            break
        end = int(starts[np.searchsorted(starts, first + most, "right") - 1])
        ends.append(end if end >= first + least else int(starts[np.searchsorted(starts, first + least)]))
    return ends
