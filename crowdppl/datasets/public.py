"""Public data sets: where they are, how they are written, how they are fetched and verified."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd

from crowdppl.core.validation import warn
from crowdppl.data.annotations import Annotations
from crowdppl.data.ids import plain
from crowdppl.errors import ChecksumError, DataError, FetchError, UnverifiedWarning

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


Read = Callable[[Files], Contents]


@dataclass(frozen=True)
class Source:
    """A public data set at a fixed commit of a repository on GitHub.

    Attributes:
        name: by which it is loaded.
        about: what was labelled.
        citation: who is to be cited.
        licence: as stated at the source; "none stated" where it states none.
        repository: owner and name.
        commit: 40 hexadecimal digits.
        files: path in the repository of each file, by what it holds.
        read: what makes sense of them.
        classes: each label as the files spell it, and what it is called here, in the order of the classes.
        items, annotators, labels, truths: how many items have labels, and so on.
        kind: "nominal" or "ordinal".
        sha256: hash of files by their path, as far as crowdppl knows them.
    """

    name: str
    about: str
    citation: str
    licence: str
    repository: str
    commit: str
    files: Mapping[str, str]
    read: Read
    classes: Mapping[str, Hashable]
    items: int
    annotators: int
    labels: int
    truths: int
    kind: str = "nominal"
    sha256: Mapping[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Where a browser shows it."""
        return f"https://github.com/{self.repository}/tree/{self.commit}"


def numbers(n: int) -> dict[str, Hashable]:
    """Classes that are numbers from 1."""
    return {str(k): k for k in range(1, n + 1)}


NONE = "none stated"
SPECTRAL = ("zhangyuc/SpectralMethodsMeetEM", "6204f5fcab1766cb1b2c40fc1bff53b1613ddc6c")
SURVEY = ("zhydhkcws/crowd_truth_infer", "8d216471071f09b9e474ee19f8d692447f982f88")
MENA = ("fmenat/PyLearningCrowds", "0edf617d0357a43b48dc53f10f4181ec0163d4db")
ZHENG = "Zheng, Li, Li, Shan & Cheng (2017), Truth inference in crowdsourcing: is the problem solved? PVLDB 10(5)"
ZHOU = "Zhou, Basu, Mao & Platt (2012), Learning from the wisdom of crowds by minimax entropy, NIPS"
RODRIGUES = (
    "Rodrigues, Pereira & Ribeiro (2013), Learning from multiple annotators: distinguishing good from random "
    "labelers, Pattern Recognition Letters 34(12)"
)
LANDSCAPES = ("highway", "insidecity", "tallbuilding", "street", "forest", "coast", "mountain", "opencountry")
GENRES = ("blues", "classical", "country", "disco", "hiphop", "jazz", "metal", "pop", "reggae", "rock")

SOURCES = {
    source.name: source
    for source in (
        Source(
            "bluebirds",
            "photographs: which of two birds is it?",
            "Welinder, Branson, Belongie & Perona (2010), The multidimensional wisdom of crowds, NIPS",
            "BSD style (LICENSE.TXT of the repository, P. Welinder)",
            "welinder/cubam",
            "fe5ba700f1adbb489c69af311558d64370d73d36",
            {"labels": "demo/bluebirds/labels.yaml", "truth": "demo/bluebirds/gt.yaml"},
            mapped,
            {"false": "Blue Grosbeak", "true": "Indigo Bunting"},
            *(108, 39, 4212, 108),
        ),
        Source(
            "cf_amt",
            "tweets: what do they say of the weather? Seconds that a label took stand beside it",
            "Venanzi, Teacy, Rogers & Jennings (2015), Weather Sentiment - Amazon Mechanical Turk dataset, "
            "University of Southampton",
            "Apache-2.0 (of the repository; none stated for the data)",
            "orchidproject/active-crowd-toolkit",
            "2c0c194e85ca126545bd830d811ec39151bdd448",
            {"labels": "Data/CF_amt.csv"},
            timed,
            dict(zip("01234", ("negative", "neutral", "positive", "not of weather", "can't tell"), strict=True)),
            *(300, 110, 6030, 300),
        ),
        Source(
            "dogs",
            "photographs: which of four breeds of dogs is it?",
            ZHOU,
            NONE,
            *SPECTRAL,
            {"labels": "src/dog_crowd.txt", "truth": "src/dog_truth.txt"},
            numbered,
            numbers(4),
            *(807, 109, 8070, 807),
        ),
        Source(
            "face",
            "photographs of faces: what do they feel?",
            f"Mozafari et al. (2014), Scaling up crowd-sourcing to very large datasets, PVLDB; {ZHENG}",
            NONE,
            *SURVEY,
            {
                "labels": "datasets/s4_Face Sentiment Identification/answer.csv",
                "truth": "datasets/s4_Face Sentiment Identification/truth.csv",
            },
            headed,
            {"0": "neutral", "1": "happy", "2": "sad", "3": "angry"},
            *(584, 27, 5242, 584),
        ),
        Source(
            "labelme",
            "photographs of landscapes: what is there? 512 features, and images that nobody labelled",
            "Rodrigues & Pereira (2018), Deep learning from crowds, AAAI; Russell et al. (2008), LabelMe, IJCV 77",
            NONE,
            *MENA,
            {"labels": "data/LabelMe/answers.txt"}
            | {part: f"data/LabelMe/LabelMe_Z_{part}.txt" for part in ("train", "valid", "test")}
            | {
                f"{part}_features": f"data/LabelMe/LabelMe_VGG_avg_{part}.npy"
                for part in ("train", "valid", "test")
            },
            gridded,
            {str(k): name for k, name in enumerate(LANDSCAPES)},
            *(1000, 59, 2547, 2688),
        ),
        Source(
            "music",
            "pieces of music: of which genre? 124 features, and pieces that nobody labelled",
            f"{RODRIGUES}; Tzanetakis & Cook (2002), GTZAN",
            NONE,
            "shahanaibrahimosu/end-to-end-crowdsourcing",
            "7653680c475ba8faa5d4a7b104b42a2a5204cef9",
            {
                "labels": "data/Music/music_genre_mturk.csv",
                "train": "data/Music/music_genre_gold.csv",
                "test": "data/Music/music_genre_test.csv",
            },
            featured,
            {name: name for name in GENRES},
            *(700, 44, 2945, 1000),
        ),
        Source(
            "music_sim_pairs",
            "pieces of music: is A or B more like a third? Seconds that a label took stand beside it",
            "Urbano, Morato, Marrero & Martín (2010), Crowdsourcing preference judgments for evaluation of music "
            "similarity tasks, SIGIR workshop on crowdsourcing for search evaluation",
            "CC BY-SA 4.0",
            "julian-urbano/sigir2010-crowdsourcing",
            "ac8f16f22ccdda027571e73f0b0e17e200134cf4",
            {"labels": "data/judgments.csv"},
            compared,
            {"a": "A", "b": "B", "s": "same"},
            *(281, 79, 2805, 0),
        ),
        Source(
            "possent",
            "tweets on companies: are they positive?",
            ZHENG,
            "MIT (of the repository; none stated for the data)",
            "yuan-li/truth-inference-at-scale",
            "621789b2d57324d3559dc973b2613d2296d73f55",
            {
                "labels": "data/crowd_truth_inference/d_sentiment/label.csv",
                "truth": "data/crowd_truth_inference/d_sentiment/truth.csv",
            },
            headed,
            {"0": "no", "1": "yes"},
            *(1000, 85, 20000, 1000),
        ),
        Source(
            "product",
            "pairs of product descriptions: is it the same product?",
            f"Wang, Kraska, Franklin & Feng (2012), CrowdER, PVLDB; {ZHENG}",
            NONE,
            *SURVEY,
            {"labels": "datasets/d_jn-product/answer.csv", "truth": "datasets/d_jn-product/truth.csv"},
            headed,
            {"0": "different", "1": "same"},
            *(8315, 176, 24945, 8315),
        ),
        Source(
            "rte",
            "pairs of sentences: does the first entail the second?",
            "Snow, O'Connor, Jurafsky & Ng (2008), Cheap and fast - but is it good? EMNLP",
            "MIT (of the repository; none stated for the data)",
            "edwinrobots/bayesian_combination_tutorial2",
            "f98448e2e9a941463aa92f418eefd1f43bd5a637",
            {"labels": "all_collected_data/rte.standardized.tsv"},
            standardized,
            {"0": "not entailed", "1": "entailed"},
            *(800, 164, 8000, 800),
        ),
        Source(
            "sentiment_polarity",
            "sentences of film reviews: is it praise?",
            f"{RODRIGUES}; Pang & Lee (2005), Seeing stars, ACL",
            NONE,
            *MENA,
            {"labels": "data/Sentiment/answers.txt", "train": "data/Sentiment/Sentiment_Z_train.txt"},
            gridded,
            {"0": "negative", "1": "positive"},
            *(4999, 203, 27746, 4999),
        ),
        Source(
            "trec2010_binary",
            "pairs of a query and a document: is it relevant?",
            "Buckley, Lease & Smucker (2010), Overview of the TREC 2010 relevance feedback track",
            NONE,
            *SPECTRAL,
            {"labels": "src/trec_crowd.txt", "truth": "src/trec_truth.txt"},
            numbered,
            numbers(2),
            *(19033, 762, 88385, 2275),
        ),
        Source(
            "web",
            "pairs of a query and a page of the web: how relevant, from 1 to 5?",
            ZHOU,
            NONE,
            *SPECTRAL,
            {"labels": "src/web_crowd.txt", "truth": "src/web_truth.txt"},
            numbered,
            numbers(5),
            *(2665, 177, 15567, 2653),
            kind="ordinal",
        ),
    )
}
"""Public data sets by name."""


CACHE = "CROWDPPL_CACHE"
"""Environment variable that names the folder of fetched files."""
OFFLINE = "CROWDPPL_OFFLINE"
"""Environment variable: anything but "", "0", "no" and "false" forbids fetching."""
HOST = "https://raw.githubusercontent.com"
RECORD = "SHA256SUMS"
"""File beside those of a data set that keeps their hashes, as ``sha256sum -c`` reads it."""
SECONDS = 60
"""How long a server may be silent."""


def cache_folder(cache: str | Path | None = None) -> Path:
    """Where fetched files are kept: as given, or as CROWDPPL_CACHE says, or where the system keeps such files."""
    chosen = cache or os.environ.get(CACHE)
    if chosen:
        return Path(chosen).expanduser()
    import pooch  # slow to import, and needed by those who fetch alone

    return Path(pooch.os_cache("crowdppl"))


def is_offline(offline: bool | None = None) -> bool:
    """Whether nothing may be fetched: as given, or as CROWDPPL_OFFLINE says."""
    if offline is not None:
        return offline
    return os.environ.get(OFFLINE, "").strip().lower() not in ("", "0", "no", "false")


def fetch(
    source: Source, cache: str | Path | None = None, offline: bool | None = None, mirror: str | None = None
) -> tuple[dict[str, Path], str]:
    """The files of a data set, from the cache, or from the source where they are not there yet.

    Args:
        source: what to fetch.
        cache: the folder; by default see ``cache_folder``.
        offline: whether to fetch nothing; by default see ``is_offline``.
        mirror: address of a server that has the files as raw.githubusercontent.com does, under
            repository/commit/path.

    Returns:
        The files by what they hold, and "verified" (equal to the hashes that crowdppl knows), "unchanged" (as at
        their first download) or "unverified" (seen for the first time; the hashes are recorded, with a warning).

    Raises:
        FetchError: when a file cannot be fetched.
        ChecksumError: when a file is not the one that it was.
    """
    folder = cache_folder(cache) / source.name
    recorded, new = _recorded(folder), {}
    for path in source.files.values():
        target = folder / Path(path).name
        here = target.exists()
        if not here:
            address = quote(f"{source.repository}/{source.commit}/{path}")
            _get(f"{(mirror or HOST).rstrip('/')}/{address}", target, offline)
        digest = _digest(target)
        _check(target, digest, source.sha256.get(path) or recorded.get(target.name), keep=here)
        if target.name not in recorded:
            new[target.name] = digest
            _record(folder, recorded | new)  # at once, lest a later file fail
    return {what: folder / Path(path).name for what, path in source.files.items()}, _status(source, folder, new)


def _check(target: Path, digest: str, expected: str | None, keep: bool) -> None:
    """Refuses a file that is not what it should be; one that was just fetched does not stay."""
    if expected in (None, digest):
        return
    if not keep:
        target.unlink()
    raise ChecksumError(
        f"{target} has the SHA-256 {digest}, not {expected}: it is damaged, or the source has changed. Delete it "
        f"to fetch it again; if you trust what is there now, delete its line in {target.parent / RECORD}"
    )


def _status(source: Source, folder: Path, new: dict[str, str]) -> str:
    """How far the files were checked; a warning where they could not be."""
    if set(source.files.values()) <= set(source.sha256):
        return "verified"
    if not new:
        return "unchanged"
    warn(
        f"{source.name} is unverified: {', '.join(new)} never seen before. The SHA-256 is recorded in "
        f"{folder / RECORD} and checked from now on",
        UnverifiedWarning,
    )
    return "unverified"


def _get(url: str, target: Path, offline: bool | None) -> None:
    """Fetches one file; it appears only when it is complete."""
    by_hand = f"or put the file there by hand, from {url}"
    if is_offline(offline):
        raise FetchError(
            f"{target} is not there, and nothing is fetched offline; allow it with offline=False, {by_hand}"
        )
    import pooch

    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel("WARNING")  # it would tell users to paste the hash into their code
    try:
        downloader = pooch.HTTPDownloader(timeout=SECONDS)
        pooch.retrieve(url, None, fname=target.name, path=target.parent, downloader=downloader)
    except OSError as error:  # all errors of the network are, and those of the disk
        raise FetchError(f"cannot fetch {target.name}: {error}; try again with a network, {by_hand}") from error
    finally:
        logger.setLevel(level)


def _digest(path: Path) -> str:
    import pooch

    return str(pooch.file_hash(str(path), alg="sha256"))


def _recorded(folder: Path) -> dict[str, str]:
    """Hashes by the name of the file."""
    record = folder / RECORD
    if not record.exists():
        return {}
    lines = (line.split("  ", 1) for line in record.read_text(encoding="utf-8").splitlines() if line.strip())
    try:
        return {name: digest for digest, name in lines}
    except ValueError:
        raise DataError(f"{record} is damaged; delete it, and files are taken as they are now") from None


def _record(folder: Path, digests: dict[str, str]) -> None:
    lines = [f"{digest}  {name}\n" for name, digest in sorted(digests.items())]
    (folder / RECORD).write_text("".join(lines), encoding="utf-8")


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
        options: of ``crowdppl.data.annotations.Options``, for the annotations, such as ``repeats="first"``.

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
        warn(f"{source.name} has {text}: the source has changed", UnverifiedWarning)
