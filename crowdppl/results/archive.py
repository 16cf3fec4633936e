"""Posteriors in folders: arrays as safetensors, everything else as JSON, both checked when they are read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdppl import __version__
from crowdppl.doors.demands import require_path
from crowdppl.errors import ResultError
from crowdppl.results.packing import Arrays, pack, unpack
from crowdppl.results.parts import put_together, taken_apart
from crowdppl.stories.story import Story

if TYPE_CHECKING:
    from crowdppl.posterior import Posterior

FORMAT = 2
"""Raised when older versions could no longer read what is written."""
GROWN = {"correction": "a correction", "memory": "the labels before an update"}
"""Parts of which earlier formats kept less, as a user knows them."""
TEXT, ARRAYS = "posterior.json", "posterior.safetensors"
MARKED = 100
"""Bytes at the beginning of the text in which it says who wrote it."""


def save(posterior: Posterior, path: str | Path) -> None:
    """Writes a posterior to a folder, made where it does not exist, from which ``crowdppl.load`` reads it.

    Kept are the annotations with all ids as they are spelled, gold, features, covariates and further columns, the
    method with its settings, what the fit found and how it went; where the probabilities of several methods are
    averaged, the fits of all. Features that are a dataset stay where they are.

    Args:
        path: the folder; a posterior that is already there is replaced.

    Raises:
        ResultError: when a setting, or extra state of a network, is of a type that cannot be saved, the path is
            that of a file, or a file of the folder that crowdppl did not write would be replaced.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.save("result")
        >>> crowdppl.load("result")
        <Posterior of one_coin by vb: 45 items, 5 annotators, 4 classes>
    """
    from safetensors.numpy import save_file

    arrays: Arrays = {}
    packed = pack(taken_apart(posterior), "posterior", arrays)
    folder = made_folder(path)
    spare_others(folder)
    # Written aside and moved, so that a crash leaves the old result or one that is seen to be damaged.
    save_file(arrays, folder / f"{ARRAYS}.part")
    about = {
        "format": FORMAT,
        "crowdppl": __version__,
        "arrays": _digest_of_file(folder / f"{ARRAYS}.part"),
        "contents": packed,
    }
    text = json.dumps(about | {"digest": _digest(about)}, indent=1)
    (folder / f"{TEXT}.part").write_text(text, encoding="ascii")
    for name in (TEXT, ARRAYS):  # the text says whose both are
        (folder / f"{name}.part").replace(folder / name)


def made_folder(path: str | Path) -> Path:
    """A folder, made where it does not exist.

    Raises:
        ResultError: when the path is that of a file, or no path.
    """
    folder = require_path(path, ResultError)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise ResultError(f"{folder} is a file or lies in one; give the path of a folder") from error
    return folder


def spare_others(folder: Path) -> None:
    """Refuses to replace files that bear the names of a posterior's and are something else.

    Raises:
        ResultError: naming the first.
    """
    text = folder / TEXT
    if text.is_file():
        with text.open("rb") as file:  # also of one that is cut off or damaged, which may be replaced
            start = file.read(MARKED)
        ours = not start or b'"crowdppl"' in start
        wrong = None if ours else text
    else:
        wrong = next((path for path in (text, folder / ARRAYS) if path.exists()), None)
    if wrong is not None:
        raise ResultError(
            f"{wrong} is there already, and is not of a posterior that crowdppl saved; give another folder, or "
            "move it away"
        )


def read(
    build: Callable[..., Posterior], folder: Path, method: str | None, story: Story | None, features: Any = None
) -> Posterior:
    """The posterior of a folder that ``save`` wrote; see ``crowdppl.load``. ``build`` is ``Posterior`` itself."""
    contents = _contents(folder)
    saved = contents["method"]
    if method is not None and method != saved:
        raise ResultError(f"{folder} holds a posterior of {saved}, not of {method}; ask for what it is")
    return put_together(build, contents, folder, story, features)


def _contents(folder: Path) -> dict[str, Any]:
    """The saved values, after every check that the files allow."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    for name in (TEXT, ARRAYS):
        if not (folder / name).is_file():
            raise ResultError(f"{folder} holds no {name}, so it is no saved posterior, or only part of one")
    try:
        about = json.loads((folder / TEXT).read_text(encoding="utf-8"))
        newest, writer = int(about["format"]), about["crowdppl"]
        found = about.pop("digest", None)
        whole = found == _digest(about)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ResultError(f"{folder / TEXT} is damaged: {error}; fit again, or fetch it anew") from error
    if newest > FORMAT:
        raise ResultError(
            f"{folder} was written by crowdppl {writer} in format {newest}; this is crowdppl "
            f"{__version__}, which reads formats up to {FORMAT}: upgrade crowdppl"
        )
    if not whole:
        raise ResultError(f"{folder / TEXT} is damaged: its contents are not those that were written")
    more = [what for part, what in GROWN.items() if about["contents"].get(part) is not None]
    if newest < FORMAT and more:
        raise ResultError(
            f"{folder} was written in format {newest}, which kept less of {more[0]} than format {FORMAT} needs; "
            "fit again"
        )
    if _digest_of_file(folder / ARRAYS) != about["arrays"]:
        raise ResultError(f"{folder / ARRAYS} is damaged, or belongs to another {TEXT}: its digest differs")
    try:
        contents: dict[str, Any] = unpack(about["contents"], load_file(folder / ARRAYS))
    except SafetensorError as error:
        raise ResultError(f"{folder / ARRAYS} is damaged: {error}") from error
    except RecursionError as error:
        raise ResultError(
            f"{folder / TEXT} is nested too deeply to be read; fit again, or fetch it anew"
        ) from error
    return contents


def _digest(about: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def _digest_of_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
