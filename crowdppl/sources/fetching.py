"""Files of public data sets: fetched once, kept in a folder, and checked ever after."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from crowdppl.doors.telling import tell
from crowdppl.errors import ChecksumError, DataError, FetchError, UnverifiedWarning

if TYPE_CHECKING:
    from crowdppl.sources.catalogue import Source

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
    tell(
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
