"""Public data sets: their catalogue, how they are fetched and verified, and a reader of each format."""

from __future__ import annotations

import hashlib
import os
import re
import tomllib
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files as resources
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd

from crowdppl.core.validation import near_names, warn
from crowdppl.data.annotations import Annotations
from crowdppl.errors import ChecksumError, DataError, FetchError, UnverifiedWarning

CACHE = "CROWDPPL_CACHE"
"""Environment variable: the folder of fetched files."""
OFFLINE = "CROWDPPL_OFFLINE"
"""Environment variable: anything but "", "0", "no" and "false" forbids fetching."""
HOST = "https://raw.githubusercontent.com"
RECORD = "SHA256SUMS"
"""File beside those of a data set with their hashes, as ``sha256sum -c`` reads it."""
Files = Mapping[str, Path]
"""Files of a data set by what they hold, such as "labels"."""
NAMES = ["item", "annotator", "label"]


@dataclass(frozen=True)
class Source:
    """An entry of catalogue.toml: a public data set at a fixed commit of a repository on GitHub.

    ``format`` is a function of ``crowdppl.datasets.public``; ``files`` are paths in the repository by what they
    hold, ``classes`` names of classes by their labels there, in order, ``sizes`` numbers of items with labels,
    annotators, labels and truths, ``sha256`` known hashes by path.
    """

    name: str
    about: str
    citation: str
    licence: str
    repository: str
    commit: str
    format: str
    files: Mapping[str, str]
    classes: Mapping[str, Hashable]
    sizes: Mapping[str, int]
    kind: str = "nominal"
    sha256: Mapping[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Address for a browser."""
        return f"https://github.com/{self.repository}/tree/{self.commit}"


with resources(__package__).joinpath("catalogue.toml").open("rb") as _catalogue:
    SOURCES = {name: Source(name=name, **entry) for name, entry in tomllib.load(_catalogue).items()}


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A public data set.

    Attributes:
        data: the annotations, without known truths, which would inform a fit: ``data.with_gold(truth)`` has them.
            Items that nobody labelled are included where the source has features of them.
        truth: known classes by item id; None where there are none.
        part: "train", "valid" or "test" by item id; None where the source has no parts.
        source: its entry in the catalogue: citation, licence, url.
        checked: "verified" (hashes in the catalogue, or yours), "unchanged" (since the first download),
            "unverified" (at the first download), or "built in".
    """

    data: Annotations
    truth: pd.Series[Any] | None
    part: pd.Series[Any] | None
    source: Source
    checked: str

    def __repr__(self) -> str:
        known = 0 if self.truth is None else len(self.truth)
        name, licence = self.source.name, self.source.licence
        return f"<{name} ({self.checked}): {self.data}, {known} known truths, licence: {licence}>"


def available() -> pd.DataFrame:
    """All public data sets as a table.

    Returns:
        DataFrame by name: about; items (with labels), annotators, labels, classes, truths (known); licence, as
        stated at the source; citation; url.

    Examples:
        >>> crowdppl.datasets.available().loc[["music_sim_pairs", "web"], ["items", "labels", "licence"]]
                         items  labels       licence
        name
        music_sim_pairs    281    2805  CC BY-SA 4.0
        web               2665   15567   none stated
    """
    rows = {
        name: {
            "about": source.about,
            **dict(source.sizes),
            "classes": len(source.classes),
            **{column: getattr(source, column) for column in ("licence", "citation", "url")},
        }
        for name, source in SOURCES.items()
    }
    columns = ["about", "items", "annotators", "labels", "classes", "truths", "licence", "citation", "url"]
    return pd.DataFrame.from_dict(rows, orient="index")[columns].rename_axis("name")


def load(
    name: str,
    *,
    cache: str | Path | None = None,
    offline: bool | None = None,
    mirror: str | None = None,
    sha256: Mapping[str, str] | None = None,
    **options: Any,
) -> Dataset:
    """A public data set by its name, fetched where it is not in the cache yet.

    Each is at a fixed commit of a repository. The hashes of its files are recorded at the first download, which is
    trusted unless the catalogue or you know them, and a file that is another one later is refused.

    Args:
        name: as in ``available()``.
        cache: folder for fetched files; by default CROWDPPL_CACHE, or the system's.
        offline: whether to fetch nothing; by default as CROWDPPL_OFFLINE says.
        mirror: address of a server that has the files as raw.githubusercontent.com does, under
            repository/commit/path.
        sha256: hashes that you know, by the name of a file, such as those in the cache of another machine.
        options: of ``crowdppl.Annotations.from_frame``, such as ``repeats="first"``.

    Raises:
        DataError: for an unknown name, of files too, or files that are not as expected.
        FetchError: when a file is not there and cannot be fetched.
        ChecksumError: when a file has changed, or has another hash.

    Warns:
        UnverifiedWarning: at a first download of files of which no hash is known; it tells what they have.

    Examples:
        >>> crowdppl.datasets.load("web", cache="empty", offline=True)
        Traceback (most recent call last):
            ...
        crowdppl...FetchError: ...web_crowd.txt is not there, and nothing is fetched offline; ...
    """
    source = _source(name)
    files, checked = fetch(source, cache, offline, mirror, sha256)
    try:
        found = READERS[source.format](files)
    except (ValueError, KeyError, IndexError) as error:  # of pandas and numpy
        folder = next(iter(files.values())).parent
        raise DataError(f"the files in {folder} are not as expected ({error}); delete them") from error
    truth = None if found.truth is None else _classes(source, found.truth, "truth")
    data = _annotations(source, found, options)
    _check_sizes(source, found.rows, truth)
    return Dataset(data, truth, found.part, source, checked)


def described(name: str | None = None) -> str:
    """Text for the command line: all data sets in a line each, or everything about one."""
    if name is not None:
        parts = {"name": _source(name).name, **available().loc[name]}
        return "\n".join(f"{what:>10}  {text}" for what, text in parts.items())
    sizes = ("items", "annotators", "labels", "classes", "truths")
    lines = [f"{'name':20}{''.join(f'{what:>11}' for what in sizes)}   about"]
    for each, row in available().iterrows():
        about = row["about"].partition(":")[0]
        lines.append(f"{each:20}{''.join(f'{row[what]:>11,}' for what in sizes)}   {about}")
    return "\n".join(
        [*lines, "", "Built in: anaesthetists, bluebirds, digits. crowdppl datasets NAME shows more about one."]
    )


def cache_folder(cache: str | Path | None = None) -> Path:
    """The folder of fetched files: as given, by CROWDPPL_CACHE, or the system's folder for caches."""
    import pooch  # slow to import

    return Path(cache or os.environ.get(CACHE) or pooch.os_cache("crowdppl")).expanduser()


def fetch(
    source: Source,
    cache: str | Path | None = None,
    offline: bool | None = None,
    mirror: str | None = None,
    sha256: Mapping[str, str] | None = None,
) -> tuple[dict[str, Path], str]:
    """The files of a data set by what they hold, and how they were checked; FetchError or ChecksumError."""
    folder = cache_folder(cache) / source.name
    names = {Path(path).name for path in source.files.values()}
    if unknown := {**(sha256 or {})}.keys() - names:
        raise DataError(f"sha256= names {min(unknown)!r}, and the files of {source.name} are {sorted(names)}")
    known = {Path(path).name: digest for path, digest in source.sha256.items()}
    known |= {name: digest.lower() for name, digest in (sha256 or {}).items()}
    recorded, new = _recorded(folder), []
    for path in source.files.values():
        target = folder / Path(path).name
        missing = not target.exists()
        if missing:
            address = quote(f"{source.repository}/{source.commit}/{path}")
            _download(f"{(mirror or HOST).rstrip('/')}/{address}", target, offline)
        with target.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        expected = known.get(target.name) or recorded.get(target.name, digest)
        if digest != expected:
            if missing:
                target.unlink()
            trust = "correct sha256=" if target.name in known else f"delete its line in {folder / RECORD}"
            raise ChecksumError(
                f"{target} has the SHA-256 {digest}, not {expected}. Delete it to fetch it again; to "
                f"trust it, {trust}"
            )
        if target.name not in recorded:
            new.append(target.name)
            recorded[target.name] = digest
            lines = [f"{digest}  {name}\n" for name, digest in sorted(recorded.items())]
            (folder / RECORD).write_text("".join(lines), encoding="utf-8")
    files = {what: folder / Path(path).name for what, path in source.files.items()}
    if names <= known.keys():
        return files, "verified"
    if not new:
        return files, "unchanged"
    pinned = {name: recorded[name] for name in new}
    text = f"no hash is known of {', '.join(new)} at the first download; sha256={pinned} tells other machines"
    warn(f"{source.name}: {text}", UnverifiedWarning)
    return files, "unverified"


def _download(url: str, target: Path, offline: bool | None) -> None:
    """Fetches one file; it appears only when it is complete."""
    by_hand = f"or put the file there by hand, from {url}"
    if offline is None:
        offline = os.environ.get(OFFLINE, "").strip().lower() not in ("", "0", "no", "false")
    if offline:
        raise FetchError(f"{target} is not there, and nothing is fetched offline; use offline=False, {by_hand}")
    import pooch  # slow to import

    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel("WARNING")  # it would ask users to paste the hash into their code
    try:
        downloader = pooch.HTTPDownloader(timeout=60)
        pooch.retrieve(url, None, fname=target.name, path=target.parent, downloader=downloader)
    except OSError as error:  # all errors of the network are, and those of the disk
        raise FetchError(f"cannot fetch {target.name}: {error}; try again with a network, {by_hand}") from error
    finally:
        logger.setLevel(level)


def _recorded(folder: Path) -> dict[str, str]:
    """Hashes by the name of the file."""
    record = folder / RECORD
    text = record.read_text(encoding="utf-8") if record.exists() else ""
    try:
        return {name: digest for digest, name in (line.split("  ", 1) for line in text.splitlines())}
    except ValueError:
        raise DataError(f"{record} is damaged; delete it to trust the files as they are now") from None


def _source(name: str) -> Source:
    if name not in SOURCES:
        raise DataError(f"no data set {name!r}{near_names(name, SOURCES)}; there are {', '.join(SOURCES)}")
    return SOURCES[name]


def _annotations(source: Source, found: SourceData, options: dict[str, Any]) -> Annotations:
    given: dict[str, Any] = {"classes": list(source.classes.values()), "kind": source.kind}
    if found.features is not None:
        given |= {"features": found.features, "items": found.features.index}
    labels = _classes(source, found.rows["label"], "label")
    return Annotations.from_frame(found.rows.assign(label=labels), "item", "annotator", "label", **given | options)


def _classes(source: Source, labels: pd.Series[Any], what: str) -> pd.Series[Any]:
    """Names of classes by their labels in the files."""
    unknown = labels[~labels.isin(list(source.classes))]
    if len(unknown):
        known = ", ".join(map(repr, source.classes))
        raise DataError(f"{source.name} has the {what} {unknown.iloc[0]!r}, not one of {known}")
    return labels.map(dict(source.classes))


def _check_sizes(source: Source, rows: pd.DataFrame, truth: pd.Series[Any] | None) -> None:
    sizes = {"items": rows["item"].nunique(), "annotators": rows["annotator"].nunique(), "labels": len(rows)}
    sizes["truths"] = 0 if truth is None else len(truth)
    if sizes != source.sizes:
        text = "; ".join(f"{n} {what}, not {source.sizes[what]}" for what, n in sizes.items())
        warn(f"{source.name} has {text}: the source has changed", UnverifiedWarning)


@dataclass(frozen=True)
class SourceData:
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


def integers(files: Files) -> SourceData:
    """Integers in columns without a header: item, annotator, label; and item, truth."""
    rows = pd.DataFrame(_integers(files["labels"])).set_axis(NAMES, axis=1).astype({"label": str})
    return SourceData(rows, _by_item(pd.DataFrame(_integers(files["truth"]))))


def tables(files: Files) -> SourceData:
    """Tables with a header, columns in this order: item, annotator, label; and item, truth."""
    return SourceData(_table(files["labels"]).set_axis(NAMES, axis=1), _by_item(_table(files["truth"])))


def timed_table(files: Files) -> SourceData:
    """A table without a header: annotator, item, label, truth, seconds that the label took."""
    columns = ["annotator", "item", "label", "truth", "seconds"]
    table = _table(files["labels"], header=None).set_axis(columns, axis=1)
    truth = _by_item(table[["item", "truth"]].drop_duplicates())
    return SourceData(table[[*NAMES, "seconds"]].astype({"seconds": float}), truth)


def yaml_maps(files: Files) -> SourceData:
    """YAML: {item: truth, ...}; and annotator: {item: label, ...} for each annotator."""
    labels, truth = (files[name].read_text(encoding="utf-8") for name in ("labels", "truth"))
    rows = [
        (item, annotator, label)
        for annotator, inner in re.findall(r"(\w+):\s*\{([^}]*)\}", labels)
        for item, label in re.findall(r"(\w+):\s*(\w+)", inner)
    ]
    return SourceData(
        pd.DataFrame(rows).set_axis(NAMES, axis=1), _by_item(pd.DataFrame(re.findall(r"(\w+):\s*(\w+)", truth)))
    )


def gold_column(files: Files) -> SourceData:
    """A table with tabs, a header, and a label a row with the truth of its item beside it."""
    table = _table(files["labels"], sep="\t")
    rows = table[["orig_id", "!amt_worker_ids", "response"]].set_axis(NAMES, axis=1)
    return SourceData(rows, _by_item(table[["orig_id", "gold"]].drop_duplicates()))


def comparisons(files: Files) -> SourceData:
    """Judgements whether piece A or B is nearer to a third; an item is named after all three, A and B last."""
    table = _table(files["labels"])
    item = table["Input.query"] + " " + table["Input.docA"] + " " + table["Input.docB"]
    rows = pd.DataFrame({"item": item, "annotator": table["WorkerId"], "label": table["Answer.radio"]})
    return SourceData(rows.assign(seconds=table["WorkTimeInSeconds"].astype(float)))


def feature_tables(files: Files) -> SourceData:
    """Tables with a header: item, features, truth; and for each label item, annotator, features, label."""
    parts = {part: _table(files[part]) for part in ("train", "test")}
    items = pd.concat(parts.values()).set_index(parts["train"].columns[0])
    part = pd.Series(np.repeat(list(parts), [len(table) for table in parts.values()]), index=items.index)
    rows = _table(files["labels"]).iloc[:, [0, 1, -1]].set_axis(NAMES, axis=1)
    return SourceData(rows, items.iloc[:, -1].rename("truth"), items.iloc[:, :-1].astype(float), part)


def matrices(files: Files) -> SourceData:
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
        return SourceData(rows, gold)
    arrays = [np.load(files[f"{part}_features"], allow_pickle=False) for part in parts]
    features = pd.DataFrame(np.concatenate(arrays).reshape(len(items), -1), index=items)
    return SourceData(rows, gold, features, pd.Series(items.str.partition("-").get_level_values(0), items))


READERS: Mapping[str, Callable[[Files], SourceData]] = {
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
