"""Files of the format IDX, in which MNIST and its relatives come: an array of bytes behind a header of sizes."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np

from crowdppl.errors import DataError, FetchError

BYTES = 0x0800
"""The header's first two bytes of zero, and the third for unsigned bytes; the fourth is the number of axes."""


def read_idx(folder: Path, name: str, axes: int) -> np.ndarray:
    """The array of a file, as it is or gzipped (``name.gz``).

    Args:
        folder: where the file is.
        name: such as "train-images-idx3-ubyte"; "train-images.idx3-ubyte" is found, too.
        axes: that it must have.

    Returns:
        uint8, with so many axes.

    Raises:
        FetchError: when there is no such file.
        DataError: when it is cut off, or no array of bytes with these axes.
    """
    spellings = [name, name.replace("-idx", ".idx")]
    paths = [folder / f"{each}{end}" for each in spellings for end in ("", ".gz")]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        raise FetchError(f"{folder} holds no {name} or {name}.gz; put it there")
    content = _content(path)
    head = 4 + 4 * axes
    if len(content) < head or int.from_bytes(content[:4], "big") != BYTES + axes:
        raise DataError(f"{path} is no array of bytes with {axes} axes in the format IDX; fetch it anew")
    shape = struct.unpack(f">{axes}I", content[4:head])
    if len(content) != head + math.prod(shape):
        raise DataError(
            f"{path} has {len(content) - head:,} bytes behind its header, which says {shape}; it is cut off or has "
            "more than an array: fetch it anew"
        )
    return np.frombuffer(content, np.uint8, offset=head).reshape(shape)


def _content(path: Path) -> bytes:
    if path.suffix != ".gz":
        return path.read_bytes()
    try:
        return gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be unpacked ({error}); fetch it anew") from error
