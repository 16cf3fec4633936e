"""A GPU beside the cores of its machine: whole fits, and an epoch of a network over a million items."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from crowdppl.data.annotations import Annotations
from crowdppl.fitting import fit
from tests.benchmarks.epoch import Size, measured
from tests.benchmarks.featured import read_featured
from tests.benchmarks.results import ON_A_GPU, Recorder
from tests.benchmarks.simulated import draw
from tests.benchmarks.tables import markdown, seconds, times
from tests.benchmarks.timing import least_seconds, on_threads

# What was measured where torch saw one then stays in the file of results.
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")

MILLION, FITS = ON_A_GPU
SIZES = (Size(items=1_000_000, batch=256), Size(items=1_000_000, batch=4_096))
WHOLE: dict[str, Any] = {"tolerance": 0.0, "max_iterations": 30}
DRAWS: dict[str, Any] = {"warmup": 50, "draws": 50, "chains": 4}
FEW: dict[str, Any] = {"warmup": 10, "draws": 10, "chains": 4}


def test_epoch_over_a_million_items(recorder: Recorder) -> None:
    rows = []
    for size in SIZES:
        ours, bare = measured(size, (128,), "cuda", rounds=1)
        rows.append([f"{size.batch:,}", seconds(bare), seconds(ours), f"{max(0.0, 1 - bare / ours):.0%}"])
    one = SIZES[0]
    about = (
        f"{torch.cuda.get_device_name()}: `bayes_dgc` by vb, plain recipe, one hidden layer of 128, on "
        f"{one.items:,} items x {one.each} labels with {one.features} features, K = {one.classes}. Alone: the same "
        "network and batches on soft labels, in a loop of plain torch, all on the GPU."
    )
    header = ("items a step", "an epoch alone", "an epoch of the fit", "outside the network")
    recorder.add(MILLION, f"{about}\n\n{markdown(header, rows)}")


def test_fits(recorder: Recorder, real_data: Path) -> None:
    default = {"settings": {"training": {"epochs": 30}}}
    full = "bayesian_dawid_skene"
    rows = [
        compared("dawid_skene by em, 30 iterations, 1,000,000 labels", labels(200_000), "dawid_skene", "em", WHOLE),
        compared("the same, 10,000,000 labels", labels(2_000_000), "dawid_skene", "em", WHOLE),
        compared(f"{full} by vb, 30 iterations, 1,000,000 labels", labels(200_000), full, "vb", WHOLE),
        compared(f"{full} by gibbs, 4 chains of 100, 100,000 labels", labels(20_000), full, "gibbs", DRAWS),
        compared("one_coin by nuts, 4 chains of 20, 1,000 labels", labels(200, 20), "one_coin", "nuts", FEW),
        compared(
            "bayes_dgc by vb, 30 epochs, LabelMe",
            read_featured(real_data, "labelme").data,
            "bayes_dgc",
            "vb",
            default,
        ),
    ]
    about = (
        f"{torch.cuda.get_device_name()} beside {os.cpu_count()} cores of its machine: seconds of a whole fit from "
        "annotations to label probabilities. K = 5, 5 labels an item; 2,000 annotators, 20 under nuts. In turn; a "
        "first run of each, which loads what torch needs, is not counted."
    )
    header = ("fit", "1 core", f"{os.cpu_count()} cores", "GPU", "GPU against 1 core")
    recorder.add(FITS, f"{about}\n\n{markdown(header, rows)}")


def labels(n_items: int, n_annotators: int = 2_000) -> Annotations:
    drawn = draw(n_items, 5, n_annotators, 5, seed=0)
    return Annotations.from_arrays(drawn.item, drawn.annotator, drawn.label)


def compared(name: str, data: Annotations, method: str, engine: str, how: dict[str, Any]) -> list[str]:
    """A row: seconds on one core, on all, and on the GPU."""

    def run(device: str) -> None:
        fit(method, data, inference=engine, seed=0, device=device, **how).probabilities()

    tasks: dict[str, Callable[[], object]] = {
        "one": on_threads(1, partial(run, "cpu")),
        "all": on_threads(os.cpu_count() or 1, partial(run, "cpu")),
        "gpu": partial(run, "cuda"),
    }
    took = least_seconds(tasks, 1)
    return [name, *(seconds(t) for t in took.values()), times(took["one"] / took["gpu"])]
