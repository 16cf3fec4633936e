"""An epoch of a network beside annotators: what it costs beyond the network's own training."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from crowdppl.annotations import Annotations
from crowdppl.inference import fit
from tests.benchmarks.featured import read_featured
from tests.benchmarks.recorder import Recorder
from tests.benchmarks.simulated import draw
from tests.benchmarks.tables import markdown, seconds, times
from tests.benchmarks.test_acquisition import data_folder
from tests.benchmarks.timing import least_seconds, on_threads, threads

pytestmark = pytest.mark.bench

EPOCH, LABELME = "An epoch of a network", "bayes_dgc on LabelMe"
ITEMS, EACH, CLASSES, FEATURES, BATCH = 4_096, 5, 5, 512, 64
SHORT, LONG = 1, 4
"""Epochs; an epoch is the difference between a long and a short run, by the number of epochs between them."""
HEADER = ("hidden layers", "a step of the network alone", "an epoch alone", "an epoch of the fit", "ratio")


def test_epoch(recorder: Recorder) -> None:
    rows = [row(*widths) for widths in ((128,), (512, 512), (1024, 1024), (2048, 1024))]
    about = (
        f"`bayes_dgc` by vb, plain recipe, on {ITEMS:,} items x {EACH} labels with {FEATURES} features, K = "
        f"{CLASSES}, batches of {BATCH}, one thread. Alone: the same network and batches on soft labels, "
        "in a loop of plain torch. An epoch of the fit is that, a look at all items, and a step for the annotators."
    )
    recorder.add(EPOCH, f"{about}\n\n{markdown(HEADER, rows)}")


def row(*widths: int) -> list[str]:
    """A line of the table, for hidden layers of such widths."""
    data, x = simulated()
    tasks: dict[str, Callable[[], object]] = {}
    for epochs in (SHORT, LONG):
        tasks[f"fit {epochs}"] = on_threads(1, partial(fitted, data, widths, epochs))
        tasks[f"alone {epochs}"] = on_threads(1, partial(alone, x, widths, epochs))
    took = least_seconds(tasks, rounds=3)
    ours, bare = ((took[f"{name} {LONG}"] - took[f"{name} {SHORT}"]) / (LONG - SHORT) for name in ("fit", "alone"))
    step = bare / (ITEMS / BATCH)
    return [" x ".join(map(str, widths)), *(seconds(t) for t in (step, bare, ours)), times(ours / bare)]


def simulated() -> tuple[Annotations, np.ndarray]:
    """Labels of simulated annotators, and features that are noise around the class."""
    drawn = draw(ITEMS, EACH, 100, CLASSES, seed=3)
    rng = np.random.default_rng(3)
    x = (rng.normal(size=(CLASSES, FEATURES))[drawn.truth] + 3 * rng.normal(size=(ITEMS, FEATURES))).astype(
        np.float32
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        how = {"items": range(ITEMS), "features": x}
        return Annotations.from_arrays(drawn.item, drawn.annotator, drawn.label, **how), x


def network(widths: tuple[int, ...]) -> nn.Module:
    """Rectified layers with dropout."""
    torch.manual_seed(0)
    parts: list[nn.Module] = []
    for before, after in zip((FEATURES, *widths), widths, strict=False):
        parts += [nn.Linear(before, after), nn.ReLU(), nn.Dropout(0.2)]
    return nn.Sequential(*parts, nn.Linear(widths[-1], CLASSES))


def fitted(data: Annotations, widths: tuple[int, ...], epochs: int) -> None:
    """A fit of so many epochs, as a user calls it."""
    settings = {"network": network(widths), "recipe": "plain", "training": {"epochs": epochs, "batch_size": BATCH}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit("bayes_dgc", data, inference="vb", seed=0, settings=settings)


def alone(x: np.ndarray, widths: tuple[int, ...], epochs: int) -> None:
    """The network on soft labels, in plain torch."""
    net, features = network(widths), torch.from_numpy(x)
    targets = torch.full((len(x), CLASSES), 1 / CLASSES)
    optimiser = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-4)
    net.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(BATCH):
            loss: Tensor = -(targets[rows] * net(features[rows]).log_softmax(-1)).sum(-1).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()


def test_labelme(recorder: Recorder, request: pytest.FixtureRequest) -> None:
    folder = data_folder(request, recorder, LABELME)
    if folder is None:
        return
    data = read_featured(folder, "labelme").data
    took = {}
    for n in (1, 2):
        with threads(n), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            began = time.perf_counter()
            fit("bayes_dgc", data, inference="vb", seed=0, settings={"training": {"epochs": 30}})
            took[n] = time.perf_counter() - began
    text = "A fit of 30 epochs by the house recipe, default network, on labels and features of LabelMe: "
    recorder.add(
        LABELME, text + ", ".join(f"{seconds(t)} on {n} thread{'s' * (n > 1)}" for n, t in took.items()) + "."
    )
