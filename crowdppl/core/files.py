"""Files that are written whole or not at all: aside, under a name of their own, and moved to their places last."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from crowdppl.core.collective import in_step, of_first, process
from crowdppl.core.validation import require_path
from crowdppl.errors import ResultError

PREFIX = ".crowdppl-"
COMMITTED = f"{PREFIX}committed"
"""Folder of files that are whole, and on their way to their places."""


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Where to write a file that takes its place when all is well; ResultError when it cannot be written."""
    with _aside(path.parent) as made:
        part = made / path.name
        yield part
        _synchronise(part)
        part.replace(path)


@contextmanager
def new_files(path: str | Path) -> Iterator[Path]:
    """A folder to write files to, which take their places in another one together; else what was there stays.

    It is renamed, which is done or not, and then its files move one by one; ``settle`` ends what a crash cut off
    here. ResultError when they cannot be written, or the path is that of a file.
    """
    folder, there = made_folder(path), any(Path(path).iterdir())
    try:
        with _aside(folder) as made:
            yield made
            _commit(made, folder)
    except BaseException:
        if not there:
            with suppress(OSError):
                folder.rmdir()
        raise


@contextmanager
def new_files_of_all(path: str | Path) -> Iterator[Path]:
    """As ``new_files``, where processes work together: the first has the folder, to which all write.

    ResultError in all of them where one cannot write, or does not see the folder.
    """
    with ExitStack() as stack:
        made = of_first(lambda: stack.enter_context(new_files(path)))
        with in_step():
            if not made.is_dir():
                raise ResultError(
                    f"{path} is not seen by process {process()}; give a folder of a file system that all share"
                )
            yield made
        with in_step():
            stack.close()


@contextmanager
def new_folder(path: str | Path) -> Iterator[Path]:
    """A folder to write files to, which takes its place when all is well; ResultError where something is there."""
    folder = require_path(path, ResultError)
    if folder.exists() or folder.is_symlink():
        raise ResultError(f"{folder} exists; give the path of a new folder, or remove it")
    with _aside(made_folder(folder.parent)) as made:
        new = made / folder.name
        new.mkdir()
        yield new
        for part in new.iterdir():
            _synchronise(part)
        new.rename(folder)


def _commit(made: Path, folder: Path) -> None:
    """Moves the files of a folder to another one, all or none."""
    for part in made.iterdir():
        _synchronise(part)
    while True:
        settle(folder)
        try:
            made.rename(folder / COMMITTED)
            break
        except OSError as error:  # another process was quicker
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
    settle(folder)


def settle(folder: Path) -> None:
    """Moves files that were committed to their places; another process may be doing the same."""
    committed = folder / COMMITTED
    while committed.is_dir() and not committed.is_symlink():
        for part in committed.iterdir():
            with suppress(FileNotFoundError):
                part.replace(folder / part.name)
        try:
            committed.rmdir()
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                raise


def made_folder(path: str | Path) -> Path:
    """A folder, made where it does not exist; ResultError when the path is that of a file, or no path."""
    folder = require_path(path, ResultError)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise ResultError(f"{folder} is a file or lies in one; give the path of a folder") from error
    except OSError as error:
        raise ResultError(f"{folder} cannot be made: {error}; give another folder") from error
    return folder


@contextmanager
def _aside(folder: Path) -> Iterator[Path]:
    """A new folder in another one, which is gone afterwards; errors of the disk are named."""
    from safetensors import SafetensorError  # what else a full disk raises

    try:
        with TemporaryDirectory(prefix=PREFIX, dir=folder) as made:
            yield Path(made)
    except (OSError, SafetensorError) as error:
        raise ResultError(f"{folder} cannot be written to: {error}; make room, or give another place") from error


def _synchronise(path: Path) -> None:
    """Waits until the disk has a file."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())
