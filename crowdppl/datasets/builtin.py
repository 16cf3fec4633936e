"""Data sets that come with the library, and MNIST from its files."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from collections.abc import Mapping, Sequence
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.core.validation import is_whole
from crowdppl.data.annotations import Annotations
from crowdppl.datasets.public import SOURCES, Dataset
from crowdppl.errors import DataError, FetchError
from crowdppl.simulation.annotators import streams
from crowdppl.simulation.crowd import Density, SimulatedCrowd, simulate_annotators

DIGITS_CROWD = {
    "expert": 1,
    "hammer": 3,
    "similar_class_confuser": 2,
    "pairwise_flipper": 2,
    "class_wise_spammer": 1,
    "spammer": 1,
}


def bluebirds() -> Dataset:
    """39 people say of 108 photographs which of two birds they show; every photograph was labelled by all.

    Many take the one bird for the other alike, so that a count of votes is right about only 76 %.
    Items are numbers of photographs as text, annotators "w01" to "w39". ``load("bluebirds")`` fetches the original
    files, in which annotators have other names.

    Source: Welinder, Branson, Belongie & Perona (2010), The multidimensional wisdom of crowds, NIPS; the repository
    welinder/cubam, whose licence (BSD style) stands beside the data.

    Examples:
        >>> crowdppl.datasets.bluebirds()
        <bluebirds (built in): Annotations(108 items, 39 annotators, 2 classes, 4212 labels), 108 known truths, ...>
    """
    source = SOURCES["bluebirds"]
    with resources(__package__).joinpath("bluebirds", "labels.csv").open(encoding="utf-8") as file:
        table = pd.read_csv(file, dtype=str, index_col="image")
    names = dict(zip("GB", source.classes.values(), strict=True))
    given = pd.DataFrame([[names[letter] for letter in word] for word in table["labels"]], table.index)
    given.columns = pd.Index([f"w{number:02}" for number in range(1, given.shape[1] + 1)])
    data = Annotations.from_matrix(given, classes=list(names.values()))
    return Dataset(data, table["truth"].map(names).rename_axis(None), None, source, "built in")


def digits(
    annotators: Sequence[Any] | Mapping[Any, int] | None = None,
    *,
    labels_per_item: int | None = 3,
    density: Density | None = None,
    test: int = 500,
    seed: int = 0,
) -> SimulatedCrowd:
    """Images of handwritten digits, labelled by simulated annotators.

    Items are 1797 images, 0 to 1796; features are 64 pixels from 0 to 16, row by row of 8; classes are 0 to 9,
    about 180 images each. ``crowd.data`` holds all of them, ``crowd.truth`` their classes; the images in
    ``crowd.test`` have no labels, and serve to score classifiers.

    Args:
        annotators: kinds, as for ``crowdppl.simulate_annotators``; by default ten of six kinds.
        labels_per_item: how many annotators label an image; None for all, or to give a density.
        density: probability that an annotator labels an image.
        test: number of images, drawn at random, without labels.
        seed: of the draws.

    Raises:
        DataError: for ``test`` out of range, or an impossible design.
        MethodError: for an unknown kind.

    Source: scikit-learn's copy of the test part of "Optical Recognition of Handwritten Digits", E. Alpaydin and
    C. Kaynak (1998), UCI Machine Learning Repository, doi 10.24432/C50P49, licence CC BY 4.0.

    Examples:
        >>> crowd = crowdppl.digits({"hammer": 3, "spammer": 1}, labels_per_item=2, seed=0)
        >>> crowd.data
        Annotations(1797 items, 4 annotators, 10 classes, 2594 labels)
        >>> crowd.annotators["accuracy"].round(2).to_dict()
        {'hammer-1': 0.75, 'hammer-2': 0.75, 'hammer-3': 0.75, 'spammer-1': 0.1}
    """
    from sklearn.datasets import load_digits  # slow to import

    images = load_digits(as_frame=True)
    truth: pd.Series[Any] = images.target
    if not is_whole(test) or not 0 <= test < len(truth):
        raise DataError(f"test={test!r} must be a whole number from 0 to {len(truth) - 1}")
    return simulate_annotators(
        truth,
        DIGITS_CROWD if annotators is None else annotators,
        labels_per_item=labels_per_item,
        density=density,
        features=images.data,
        test=streams(seed)("test").choice(len(truth), test, replace=False),
        seed=seed,
    )


def mnist(
    folder: str | Path,
    annotators: Sequence[Any] | Mapping[Any, int] | None = None,
    *,
    labels_per_item: int | None = 3,
    density: Density | None = None,
    seed: int = 0,
) -> SimulatedCrowd:
    """The images of MNIST; simulated annotators label those of the training part.

    Items are 0 to 59,999, the training part, and from 60,000 on the test part, ``crowd.test``, without labels;
    features are 784 pixels from 0 to 255, row by row; classes are 0 to 9. Other sets in the same files
    (Fashion-MNIST, KMNIST) can be read, too.

    Args:
        folder: of the four files, gzipped or not: train-images-idx3-ubyte, train-labels-idx1-ubyte,
            t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte. Nothing is fetched.
        annotators, labels_per_item, density, seed: as for ``digits``.

    Raises:
        FetchError: when one of the files is not there.
        DataError: when a file is damaged, numbers of images and classes differ, or the design is impossible.
        MethodError: for an unknown kind.

    Source: LeCun, Bottou, Bengio & Haffner (1998), Gradient-based learning applied to document recognition,
    Proceedings of the IEEE 86(11).

    Examples:
        >>> crowdppl.datasets.mnist("nowhere", {"hammer": 3})
        Traceback (most recent call last):
            ...
        crowdppl...FetchError: nowhere holds no train-images-idx3-ubyte or train-images-idx3-ubyte.gz; put it there
    """
    images = [read_idx(Path(folder), f"{part}-images-idx3-ubyte", 3) for part in ("train", "t10k")]
    classes = [read_idx(Path(folder), f"{part}-labels-idx1-ubyte", 1) for part in ("train", "t10k")]
    sizes = [(len(x), len(y)) for x, y in zip(images, classes, strict=True)]
    if any(n != m for n, m in sizes) or images[0].shape[1:] != images[1].shape[1:]:
        raise DataError(f"{folder} has numbers of (images, classes) {sizes}; take four files of one set")
    pixels = np.concatenate([x.reshape(len(x), -1) for x in images]).astype(np.float32)
    truth = pd.Series(np.concatenate(classes).astype(np.int64), name="target")
    return simulate_annotators(
        truth,
        DIGITS_CROWD if annotators is None else annotators,
        labels_per_item=labels_per_item,
        density=density,
        features=pd.DataFrame(pixels, truth.index),
        test=range(len(images[0]), len(truth)),
        seed=seed,
    )


def read_idx(folder: Path, name: str, axes: int) -> np.ndarray:
    """The bytes of a file of the format IDX with so many axes, gzipped or not; FetchError without, or DataError."""
    paths = [folder / f"{each}{end}" for each in (name, name.replace("-idx", ".idx")) for end in ("", ".gz")]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        raise FetchError(f"{folder} holds no {name} or {name}.gz; put it there")
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        magic, *shape = struct.unpack_from(f">I{axes}I", content)
    except (OSError, EOFError, zlib.error, struct.error) as error:
        raise DataError(f"{path} is damaged: {error}") from error
    head = 4 + 4 * axes
    if magic != 0x0800 + axes or len(content) != head + math.prod(shape):
        raise DataError(f"{path} is damaged, or not an array of bytes with {axes} axes")
    return np.frombuffer(content, np.uint8, offset=head).reshape(shape)
