"""MNIST from files that a user has, here of twelve tiny images made for the purpose."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

import crowdppl
from crowdppl.datasets import mnist
from crowdppl.datasets.builtin import read_idx

SIZES = {"train": 10, "t10k": 4}


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">I{array.ndim}I", 0x0800 + array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for part, n in SIZES.items():
        images, classes = rng.integers(0, 256, (n, 2, 3)), np.arange(n) % 3
        (tmp_path / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
        (tmp_path / f"{part}-labels.idx1-ubyte").write_bytes(idx(classes))
    return tmp_path


def test_images_classes_and_parts_are_those_of_the_files(folder: Path) -> None:
    crowd = mnist(folder, {"expert": 2}, labels_per_item=2, seed=0)
    assert crowd.truth.tolist() == [*(np.arange(10) % 3), *(np.arange(4) % 3)]
    assert list(crowd.test) == [10, 11, 12, 13]
    assert (crowd.data.n_items, crowd.data.n_classes, crowd.data.n_labels) == (14, 3, 20)
    assert set(crowd.data.frame()["item"]) == set(range(10))
    pixels = [read_idx(folder, f"{part}-images-idx3-ubyte", 3).reshape(-1, 6) for part in SIZES]
    np.testing.assert_array_equal(np.asarray(crowd.data.features), np.concatenate(pixels))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("train-labels.idx1-ubyte", idx(np.arange(10))[:-1]),  # cut off
        ("train-labels.idx1-ubyte", idx(np.zeros((5, 2)))),
        ("train-labels.idx1-ubyte", b"\0"),
        ("train-labels.idx1-ubyte", idx(np.arange(9))),
        ("train-images-idx3-ubyte.gz", b"no gzip"),
        ("t10k-images-idx3-ubyte.gz", gzip.compress(idx(np.zeros((4, 2, 2))), mtime=0)),
    ],
    ids=["cut off", "other axes", "no header", "other number", "no gzip", "other pixels"],
)
def test_damaged_files_are_refused(folder: Path, name: str, content: bytes) -> None:
    (folder / name).write_bytes(content)
    with pytest.raises(crowdppl.errors.DataError, match=str(folder)):
        mnist(folder, {"expert": 2})


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / "t10k-images-idx3-ubyte.gz").unlink()
    with pytest.raises(crowdppl.errors.FetchError, match="t10k-images-idx3-ubyte"):
        mnist(folder, {"expert": 2})
