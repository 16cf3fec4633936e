"""Files come whole and together, or not at all: on a full disk, and killed at any step."""

import errno
import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from crowdppl.core.files import COMMITTED, new_file, new_files, settle
from crowdppl.errors import ResultError

NAMES = ("a", "b", "c")


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def written(folder: Path, text: str) -> None:
    with new_files(folder) as new:
        for name in NAMES:
            (new / name).write_text(text)


def full(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("step", ["os.fsync", "pathlib.Path.write_text", "pathlib.Path.rename", "tempfile.mkdtemp"])
@pytest.mark.parametrize("there", [True, False])
def test_on_a_full_disk_all_stays_as_it_was(
    step: str, there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "result"
    if there:
        written(folder, "old")
    with monkeypatch.context() as patch, pytest.raises(ResultError, match="No space"):
        patch.setattr(step, full)
        written(folder, "new")
    assert contents(folder) == dict.fromkeys(NAMES, "old") if there else not folder.exists()
    written(folder, "new")
    assert contents(folder) == dict.fromkeys(NAMES, "new")


def killed(step: int, change: Callable[[], None]) -> bool:
    """Whether a change, in a process that is killed at one of its steps on the disk, came to its end."""
    child = os.fork()
    if not child:
        steps = count(1)

        def hook(event: str, _: Any) -> None:
            if event in ("open", "os.rename", "os.mkdir", "os.rmdir", "os.remove") and next(steps) == step:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        change()
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_killed_at_any_step_the_files_are_all_old_or_all_new(tmp_path: Path) -> None:
    found, step = set(), 1
    for step in count(1):
        folder = tmp_path / str(step)
        written(folder, "old")
        ended = killed(step, lambda folder=folder: written(folder, "new"))
        settle(folder)
        seen = {text for name in NAMES for text in [(folder / name).read_text()]}
        assert len(seen) == 1 and (seen == {"new"} or not ended)
        found |= seen
        if ended:
            break
    assert step > 10 and found == {"old", "new"}


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    other, folder = tmp_path / "other", tmp_path / "result"
    other.write_text("kept")
    folder.mkdir()
    for name in NAMES:
        (folder / name).symlink_to(other)
    written(folder, "new")
    with new_file(folder / "a") as part:
        part.write_text("newest")
    assert contents(folder) == {"a": "newest", "b": "new", "c": "new"} and other.read_text() == "kept"


def test_a_link_in_place_of_a_commit_is_refused(tmp_path: Path) -> None:
    other, folder = tmp_path / "other", tmp_path / "result"
    written(other, "kept")
    folder.mkdir()
    (folder / COMMITTED).symlink_to(other, target_is_directory=True)
    with pytest.raises(ResultError):
        written(folder, "new")
    assert contents(other) == dict.fromkeys(NAMES, "kept")
