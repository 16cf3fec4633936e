"""Public data sets by name: fetched once, checked, and made into annotations.

Sets are fetched from a fixed commit of the repository that offers them, kept in a folder (argument ``cache``, or
the environment variable CROWDPPL_CACHE, or where the system keeps such files), and never fetched again;
``offline=True``, or CROWDPPL_OFFLINE=1, forbids fetching. Hashes (SHA-256) are recorded at the first download and
compared from then on.

No loader has met its real source yet: they were written without a network, from the files and programs of the
repositories as far as those could be read, and tested on small files of the same make. crowdppl knows no hash so
far, so that each first download is "unverified" and warns (``crowdppl.UnverifiedWarning``), as do sizes that are
not those known; what does not look as expected is refused. Licences and citations are as the source states them.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from crowdppl.data.annotations import Annotations
from crowdppl.doors.telling import tell
from crowdppl.errors import DataError, UnverifiedWarning
from crowdppl.sources.catalogue import SOURCES, Source
from crowdppl.sources.fetching import fetch
from crowdppl.sources.formats import Contents
from crowdppl.tables.codebook import plain

SIZES = ("items", "annotators", "labels", "truths")
"""What is known of the size of a public set, by the attributes of its source."""


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A public data set, and what is known beside its labels.

    Attributes:
        data: the annotations, without known truths, which a fit would take as given: ``data.with_gold(truth)`` has
            them. Items that nobody labelled are there where the source has features of them.
        truth: known classes by item id; None where there are none.
        part: "train", "valid" or "test" by item id; None where the source makes no parts.
        source: where it is from: citation, licence, url.
        checked: "verified" against hashes that crowdppl knows, "unchanged" since the first download, or
            "unverified", at the first.
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
    """All public data sets that can be loaded, as a table.

    Returns:
        DataFrame by name: about; items (with labels), annotators, labels, classes, truths (known, as far as the
        source has them); licence, as stated at the source; citation; url.

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
            **{what: getattr(source, what) for what in SIZES[:3]},
            "classes": len(source.classes),
            **{what: getattr(source, what) for what in (*SIZES[3:], "licence", "citation", "url")},
        }
        for name, source in SOURCES.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("name")


def load(
    name: str,
    *,
    cache: str | Path | None = None,
    offline: bool | None = None,
    mirror: str | None = None,
    **options: Any,
) -> Dataset:
    """A public data set by its name, fetched where it is not in the cache yet.

    Args:
        name: as in ``available()``.
        cache: folder for fetched files; by default CROWDPPL_CACHE, or the system's.
        offline: whether to fetch nothing; by default as CROWDPPL_OFFLINE says.
        mirror: address of a server that has the files, under repository/commit/path.
        options: of ``crowdppl.tables.options.Options``, for the annotations, such as ``repeats="first"``.

    Raises:
        DataError: for an unknown name, or files that are not as expected.
        FetchError: when a file is not there and cannot be fetched.
        ChecksumError: when a file is not the one that it was.

    Examples:
        >>> crowdppl.datasets.load("web", cache="empty", offline=True)
        Traceback (most recent call last):
            ...
        crowdppl...FetchError: ...web_crowd.txt is not there, and nothing is fetched offline; ...
    """
    source = _source(name)
    files, checked = fetch(source, cache, offline, mirror)
    found = source.read(files)
    data = _annotations(source, found, options)
    truth = None if found.truth is None else _classes(source, found.truth, "truth")
    _compare(source, found, truth)
    return Dataset(data, truth, found.part, source, checked)


def described(name: str | None = None) -> str:
    """What the command line says: a line a set, or all about one."""
    if name is None:
        sizes = ("items", "annotators", "labels", "classes", "truths")
        lines = [f"{'name':20}{''.join(f'{what:>11}' for what in sizes)}   about"]
        for each, row in available().iterrows():
            about = row["about"].partition(":")[0]
            lines.append(f"{each:20}{''.join(f'{row[what]:>11,}' for what in sizes)}   {about}")
        return "\n".join(
            [*lines, "", "Built in: anaesthetists, digits. crowdppl datasets NAME says more about one."]
        )
    source = _source(name)
    known = available().to_dict(orient="index")[source.name]
    return "\n".join(f"{what:>10}  {text}" for what, text in {"name": source.name, **known}.items())


def _source(name: str) -> Source:
    if name not in SOURCES:
        near = difflib.get_close_matches(name, SOURCES, cutoff=0.4)
        known = f"did you mean {', '.join(near)}?" if near else f"there are {', '.join(SOURCES)}"
        raise DataError(f"no data set {name!r}; {known}")
    return SOURCES[name]


def _annotations(source: Source, found: Contents, options: dict[str, Any]) -> Annotations:
    """Labels by the names of their classes; items without labels come in with their features."""
    given: dict[str, Any] = {"classes": list(source.classes.values()), "kind": source.kind}
    if found.features is not None:
        given |= {"features": found.features, "items": found.features.index}
    labels = _classes(source, found.rows["label"], "label")
    return Annotations.from_frame(found.rows.assign(label=labels), "item", "annotator", "label", **given | options)


def _classes(source: Source, spelled: pd.Series[Any], what: str) -> pd.Series[Any]:
    """Classes by their names instead of the way in which the files spell them."""
    odd = ~spelled.isin(list(source.classes))
    if odd.any():
        value, names = plain(spelled[odd].iloc[0]), ", ".join(map(repr, source.classes))
        raise DataError(f"{source.name} has the {what} {value!r}, which is none of {names}; the source has changed")
    return spelled.map(dict(source.classes))


def _compare(source: Source, found: Contents, truth: pd.Series[Any] | None) -> None:
    """Warns where the sizes are not those that are known."""
    rows = found.rows
    sizes = (rows["item"].nunique(), rows["annotator"].nunique(), len(rows), 0 if truth is None else len(truth))
    known = tuple(getattr(source, what) for what in SIZES)
    if sizes != known:
        text = "; ".join(f"{n} {what}, not {m}" for what, n, m in zip(SIZES, sizes, known, strict=True) if n != m)
        tell(f"{source.name} has {text}: the source has changed", UnverifiedWarning)
