"""Masks of five simulated people: Dice, and probabilities near the border, beside SimpleITK's MultiLabelSTAPLE."""

import time
import warnings
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy import ndimage

import crowdppl
from crowdppl import Annotations
from tests.benchmarks.results import MASKS, Recorder
from tests.benchmarks.tables import markdown

SIDE, PEOPLE, SEEDS, NEAR = 96, 5, 3, 4
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "`dawid_skene` by em": ("dawid_skene", {"inference": "em"}),
    "`bayesian_dawid_skene` by vb": ("bayesian_dawid_skene", {"inference": "vb"}),
    "the same, `calibrate=True`": ("bayesian_dawid_skene", {"inference": "vb", "calibrate": True}),
    "`potts_dawid_skene` by vb": ("potts_dawid_skene", {"inference": "vb"}),
}
EXPLAINED = (
    f"Five simulated people, {SEEDS} seeds of {SIDE} x {SIDE} pixels, of a disk, of two organs (three classes), "
    "and of the silhouette of a horse that scikit-image ships (82 x 100; the one public mask at hand, its "
    "annotators are simulated, too). They err pixel by pixel (10 to 30 % of pixels have another class), or in "
    "outlines, which are too wide or narrow, shifted and wavy by 2 pixels or so. Dice is the mean over classes but "
    "the first; within "
    f"{NEAR} pixels of a border, minus the log-probability of the truth (at least 1e-4) and the expected "
    "calibration error in ten bins; CPU seconds of a fit by one thread.\n\n{}\n\n"
    "A field removes errors of single pixels, and its probabilities are right there. Where outlines err, "
    "neighbours err together: nothing in labels tells a shared error from a truth, all models are too sure, and "
    "one that lets neighbours support each other is surest. Shares of votes are then best calibrated, and "
    "`calibrate=True` takes back a part of the excess. "
    "Of outlines that err to either side (20 seeds of the disk and of two organs) votes have Dice .951 and "
    ".936, `dawid_skene` .939 and .918, and the mean over people of each pixel's signed distance from the "
    "border (Rohlfing & Maurer 2007; ten lines of SciPy) .960 and .945, with the best probabilities: log loss "
    ".25 and .27, of votes .33 and .35. Where outlines go straight between 8 to 15 corners, so that all cut "
    "what bulges, that mean has .856 and .859, votes have .893 and .879, and `dawid_skene` .936 and .928: "
    "which is right, labels do not tell. Labels to the power of one half, tried too, have the Dice of votes "
    "and a log loss of .6. "
    "Tried, and not kept: a field of unequal classes, learned by "
    "pseudo-likelihood, filled an image of noisy masks (40 x 40, three people who err on 30 % of pixels) with one "
    "class, 28 % of pixels wrong for .1 %.\n\n"
    "512 x 512 pixels by five people: reading takes {:.1f} CPU seconds, a fit by em of `dawid_skene` {:.2f}, by vb "
    "of `bayesian_dawid_skene` {:.2f}, for pixels with the same labels are fitted once; by vb of "
    "`potts_dawid_skene` {:.0f}, for each pixel has neighbours of its own."
)


def shapes() -> Iterator[tuple[str, np.ndarray]]:
    """True masks by name."""
    y, x = np.mgrid[:SIDE, :SIDE] / SIDE
    yield "disk", (np.hypot(y - 0.5, x - 0.5) < 0.25).astype(int)
    two = (np.hypot((y - 0.4) / 1.6, x - 0.4) < 1 / 6).astype(int)
    yield "two organs", np.where(np.hypot(y - 0.7, (x - 0.65) / 1.5) < 1 / 7, 2, two)
    found = find_spec("skimage")
    if found is not None and found.origin is not None:
        horse = import_module("skimage.io").imread(Path(found.origin).parent / "data" / "horse.png")
        yield "horse", (horse.reshape(*horse.shape[:2], -1)[..., :3].max(-1) == 0)[::4, ::4].astype(int)


def drawn(truth: np.ndarray, outlines: bool, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Masks of people who err pixel by pixel, or in outlines."""
    k, found = int(truth.max()) + 1, {}
    inside = [
        ndimage.distance_transform_edt(truth != c) - ndimage.distance_transform_edt(truth == c) for c in range(k)
    ]
    for n in range(PEOPLE):
        if outlines:
            wave = ndimage.gaussian_filter(rng.normal(size=truth.shape), 4)
            moved = rng.normal(0, 2) + 2 * wave / wave.std()
            step = rng.normal(0, 1.5, 2)
            away = np.stack([ndimage.shift(x - moved, step, order=1, mode="nearest") for x in inside[1:]])
            mask = np.where((away < 0).any(0), 1 + away.argmin(0), 0)
        else:
            other = (truth + rng.integers(1, k, truth.shape)) % k
            mask = np.where(rng.random(truth.shape) < rng.uniform(0.1, 0.3), other, truth)
        found[f"p{n}"] = mask
    return found


def dice(truth: np.ndarray, labels: np.ndarray) -> float:
    each = [2 * ((truth == c) & (labels == c)).sum() / ((truth == c).sum() + (labels == c).sum())
            for c in range(1, int(truth.max()) + 1)]  # fmt: skip
    return float(np.mean(each))


def near_border(truth: np.ndarray) -> np.ndarray:
    """Pixels within a few of another class, bool (H, W)."""
    low, high = (x(truth, 3) for x in (ndimage.minimum_filter, ndimage.maximum_filter))
    return np.asarray(ndimage.distance_transform_edt(low == high) < NEAR)


def scores(truth: np.ndarray, p: np.ndarray) -> list[float]:
    """Dice, and near the border minus the log-probability and the calibration error."""
    labels, at = p.argmax(-1), near_border(truth)
    share, known = p[at], truth[at]
    nll = -np.log(np.maximum(share[np.arange(len(known)), known], 1e-4)).mean()
    sure, right = share.max(1), share.argmax(1) == known
    place = np.minimum((10 * sure).astype(int), 9)
    error = np.abs(np.bincount(place, sure - right)).sum() / len(known)
    return [dice(truth, labels), float(nll), float(error)]


def staple(masks: dict[str, np.ndarray]) -> np.ndarray:
    """The labels of MultiLabelSTAPLE, (H, W)."""
    itk = import_module("SimpleITK")
    images = [itk.GetImageFromArray(mask.astype(np.uint8)) for mask in masks.values()]
    return np.asarray(itk.GetArrayFromImage(itk.MultiLabelSTAPLEImageFilter().Execute(images)))


def test_masks(recorder: Recorder) -> None:
    rows = []
    for name, truth in shapes():
        for outlines in (False, True):
            found: dict[str, list[list[float]]] = {}
            for seed in range(SEEDS):
                masks, k = drawn(truth, outlines, np.random.default_rng([seed, outlines])), int(truth.max()) + 1
                given = np.stack([*masks.values()])
                votes = np.stack([(given == c).mean(0) for c in range(k)], -1)
                found.setdefault("votes", []).append([*scores(truth, votes), np.nan])
                if find_spec("SimpleITK") is not None:
                    start = time.process_time()
                    labels = staple(masks)
                    spent = time.process_time() - start
                    found.setdefault("MultiLabelSTAPLE", []).append([dice(truth, labels), np.nan, np.nan, spent])
                data = Annotations.from_masks(masks)
                for title, (method, how) in METHODS.items():
                    with warnings.catch_warnings(action="ignore", category=crowdppl.errors.CrowdpplWarning):
                        start = time.process_time()
                        posterior = crowdppl.fit(method, data, seed=0, **how)
                        spent = time.process_time() - start
                    p = posterior.masks()[0].probabilities
                    found.setdefault(title, []).append([*scores(truth, p), spent])
            for title, each in found.items():
                cells = np.mean(each, 0)
                texts = ["" if np.isnan(x) else f"{x:.{d}f}" for x, d in zip(cells, (4, 3, 3, 2), strict=True)]
                rows.append([name, "outlines" if outlines else "pixels", title, *texts])
    header = ("mask", "errors in", "method", "Dice", "log loss near the border", "calibration error", "CPU s")
    recorder.add(MASKS, EXPLAINED.format(markdown(header, rows), *times()))


def times() -> tuple[float, ...]:
    """CPU seconds of reading a large image, and of three fits to it."""
    y, x = np.mgrid[:512, :512]
    rng = np.random.default_rng(0)
    masks = {
        f"p{n}": ((np.hypot(y - 256, x - 256) < 128 + 5 * rng.normal()) ^ (rng.random(y.shape) < 0.01)).astype(int)
        for n in range(5)
    }
    marks = [time.process_time()]
    data = Annotations.from_masks(masks)
    marks.append(time.process_time())
    for method, engine in (("dawid_skene", "em"), ("bayesian_dawid_skene", "vb"), ("potts_dawid_skene", "vb")):
        crowdppl.fit(method, data, inference=engine, seed=0)
        marks.append(time.process_time())
    return tuple(np.diff(marks).tolist())
