"""Tanno's table on digits: a classifier and confusion matrices, with and without a penalty on their traces."""

import os
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from crowdppl.datasets import digits, mnist
from crowdppl.evaluation.evaluate import evaluate
from crowdppl.fitting import fit
from crowdppl.simulation.annotators import annotator_kind
from crowdppl.simulation.crowd import SimulatedCrowd
from tests.benchmarks.results import Recorder
from tests.benchmarks.tables import markdown

TITLE = "Trace regularisation on digits"
MNIST = "CROWDPPL_MNIST"
"""Environment variable that names a folder with the files of MNIST, which then take the place of digits."""
IMAGES = (
    "MNIST, 60,000 images to learn from and 10,000 test images"
    if MNIST in os.environ
    else f"scikit-learn's digits, 1297 images to learn from and 500 test images, in place of MNIST ({MNIST}=folder "
    "takes that)"
)
KINDS = ("pairwise_flipper", "hammer_spammer")
SKILLS = (0.2, 0.4, 0.6, 0.8)
DESIGNS: dict[str, int | None] = {"dense": None, "one label an image": 1}
ANNOTATORS = 5
WEIGHTS = (0.0, 0.001, 0.01, 0.1)
"""Of the trace, in the units of the published loss."""
SEEDS = 5
TRAINING = {"epochs": 20, "learning_rate": 0.01, "batch_size": 50}
EM = "raykar"

# By row: for each seed, the accuracy in per cent and the error of the confusion.
Runs = dict[str, list[tuple[float, float]]]


@dataclass(frozen=True)
class Cell:
    kind: str
    skill: float
    design: str
    dominant: int
    doubted: dict[str, int]
    runs: Runs


def test_trace_on_digits(recorder: Recorder) -> None:
    cells, began = [], time.perf_counter()
    for kind in KINDS:
        for design in DESIGNS:
            for skill in SKILLS:
                cells.append(measured(kind, skill, design))
                means = {row: np.mean(some, axis=0).round(3).tolist() for row, some in cells[-1].runs.items()}
                took = time.perf_counter() - began
                print(
                    kind, design, skill, cells[-1].dominant, cells[-1].doubted, means, f"{took:.0f} s", flush=True
                )
    took_all = f"All of it took {(time.perf_counter() - began) / 60:.0f} minutes."
    parts = [f"{EXPLAINED} {took_all}"]
    for kind in KINDS:
        for design in DESIGNS:
            some = [cell for cell in cells if (cell.kind, cell.design) == (kind, design)]
            parts.append(f"{ANNOTATORS} of the kind {kind}, {design}:\n\n{table(some)}")
    recorder.add(TITLE, "\n\n".join(parts))


def images_of(kind: str, skill: float, design: str, seed: int) -> SimulatedCrowd:
    """The images, and labels of annotators of one kind."""
    annotators = {annotator_kind(kind, p=skill): ANNOTATORS}
    if MNIST in os.environ:
        return mnist(os.environ[MNIST], annotators, labels_per_item=DESIGNS[design], seed=seed)
    return digits(annotators, labels_per_item=DESIGNS[design], seed=seed)


def name_of(weight: float) -> str:
    return f"trace, weight {weight:g}" if weight else "no trace"


DEFAULT = "trace, the default"
ROWS: dict[str, float | None] = {**{name_of(weight): weight for weight in WEIGHTS}, DEFAULT: None, EM: None}
"""The weight of each row."""


def settings_of(row: str, labels_per_image: int) -> dict[str, Any]:
    """Settings of the method: the published loss is an image's, and has the mean trace over annotators."""
    weight = ROWS[row]
    chosen = {} if weight is None else {"weight": weight / labels_per_image}
    return {**chosen, "training": TRAINING}


EXPLAINED = (
    f"The protocol of Tanno et al. (2019) on {IMAGES}: {ANNOTATORS} annotators of one kind, each right (pairwise "
    "flippers) or attentive (hammer-spammers) with probability p. All of them label every image, or one drawn "
    "at random does. First the accuracy of the classifier on test images in per cent; then the error of the "
    "confusion matrices, the mean over annotators of the squared distance from the true one divided by its "
    "squared norm (Frobenius). Weights are those of the published loss; divided by the labels of an image, they "
    "are `weight` of `trace_reg`, whose default is .01. `trace_reg` by svi, and `raykar` by em. One hidden "
    f"layer with dropout, AdamW, batches of {TRAINING['batch_size']}, {TRAINING['epochs']} epochs at a rate of "
    f"{TRAINING['learning_rate']:g} that falls along a cosine, ten times that for annotators under svi "
    f"(published: 200 epochs of Adam at .001 on 46 times as many images). Mean of {SEEDS} seeds. In brackets: "
    "the lead in accuracy over no trace, mean and standard error of the differences seed by seed. dominant: in "
    "how many seeds the mean confusion has its largest entry on the diagonal in every row; there the paper "
    "claims that the trace finds the true matrices."
)


def measured(kind: str, skill: float, design: str) -> Cell:
    runs: Runs = {row: [] for row in ROWS}
    doubted, dominant = dict.fromkeys(ROWS, 0), 0
    for seed in range(SEEDS):
        crowd = images_of(kind, skill, design, seed)
        dominant += is_dominant(crowd.confusion)
        for row in ROWS:
            accuracy, error, warned = scored(row, crowd, DESIGNS[design] or ANNOTATORS, seed)
            runs[row].append((accuracy, error))
            doubted[row] += warned
    return Cell(kind, skill, design, dominant, doubted, runs)


def scored(row: str, crowd: SimulatedCrowd, labels_per_image: int, seed: int) -> tuple[float, float, bool]:
    """Accuracy on test images, error of the confusion, and whether the fit doubts its diagonal."""
    method, engine = (EM, "em") if row == EM else ("trace_reg", "svi")
    settings = settings_of(row, labels_per_image)
    posterior = fit(method, crowd.data, inference=engine, seed=seed, settings=settings)
    features = crowd.data.features
    accuracy = evaluate(posterior.classify(features).loc[crowd.test], crowd.truth[crowd.test]).accuracy
    error = confusion_error(np.asarray(posterior.confusion()), crowd.confusion)
    return 100 * accuracy, error, any(doubt.kind == "diagonal" for doubt in posterior.doubts())


def confusion_error(found: np.ndarray, true: np.ndarray) -> float:
    """Mean over annotators of the squared distance, relative to the squared norm of the true matrix."""
    return float((((found - true) ** 2).sum((1, 2)) / (true**2).sum((1, 2))).mean())


def is_dominant(confusion: np.ndarray) -> bool:
    """Whether the right answer is the most frequent one for every class, over annotators (A, K, K)."""
    mean = confusion.mean(0)
    others = np.where(np.eye(len(mean), dtype=bool), -1.0, mean)
    return bool((mean.diagonal() > others.max(1)).all())


def table(cells: list[Cell]) -> str:
    header = ("", *(f"p = {cell.skill:g}" for cell in cells))
    rows = [["dominant", *(f"{cell.dominant} of {SEEDS}" for cell in cells)]]
    rows += [[row, *(entry(cell.runs, row) for cell in cells)] for row in ROWS]
    return markdown(header, rows)


def entry(runs: Runs, row: str) -> str:
    """The mean accuracy, how far it is above that of no trace, and the mean error."""
    accuracy, error = np.mean(runs[row], axis=0)
    base = name_of(0.0)
    above = "" if row == base else " ({:+.1f} ± {:.1f})".format(*paired(runs, row, base))
    return f"{accuracy:.1f}{above}, {error:.3f}"


def paired(runs: Runs, row: str, base: str) -> tuple[float, float]:
    """How far the accuracy of a row is above a base's on the same seeds, and the standard error of that."""
    above = np.array([own - other for (own, _), (other, _) in zip(runs[row], runs[base], strict=True)])
    return round(float(above.mean()), 9), float(above.std(ddof=1) / len(above) ** 0.5)
