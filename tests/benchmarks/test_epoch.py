"""An epoch of a network beside annotators: what it costs beyond the network's own training."""

import time
from pathlib import Path

from crowdppl.fitting import fit
from tests.benchmarks.epoch import Size, measured
from tests.benchmarks.featured import read_featured
from tests.benchmarks.results import Recorder
from tests.benchmarks.tables import markdown, seconds, times

EPOCH, LABELME = "An epoch of a network", "bayes_dgc on LabelMe"
SMALL = Size(items=4_096, batch=64)
HEADER = ("hidden layers", "a step of the network alone", "an epoch alone", "an epoch of the fit", "ratio")


def test_epoch(recorder: Recorder) -> None:
    rows = []
    for widths in ((128,), (512, 512), (1024, 1024), (2048, 1024)):
        ours, bare = measured(SMALL, widths, "cpu")
        step = bare / (SMALL.items / SMALL.batch)
        rows.append([" x ".join(map(str, widths)), *(seconds(t) for t in (step, bare, ours)), times(ours / bare)])
    about = (
        f"`bayes_dgc` by vb, plain recipe, on {SMALL.items:,} items x {SMALL.each} labels with {SMALL.features} "
        f"features, K = {SMALL.classes}, batches of {SMALL.batch}, one thread. Alone: the same network and batches "
        "on soft labels, in a loop of plain torch. An epoch of the fit is that, a look at all items, and a step "
        "for the annotators."
    )
    recorder.add(EPOCH, f"{about}\n\n{markdown(HEADER, rows)}")


def test_labelme(recorder: Recorder, real_data: Path) -> None:
    data = read_featured(real_data, "labelme").data
    began = time.perf_counter()
    fit("bayes_dgc", data, inference="vb", seed=0, settings={"training": {"epochs": 30}})
    took = seconds(time.perf_counter() - began)
    text = "A fit of 30 epochs by the default recipe, default network, on labels and features of LabelMe"
    recorder.add(LABELME, f"{text}: {took} on one thread.")
