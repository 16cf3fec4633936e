"""`python -m tests.benchmarks.peak crowdppl|crowdkit|FOLDER`: prints by how much a fit raises the resident set.

Of a million labels; of the first 600 sequences of a folder, by auto.
"""

import gc
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from crowdppl.data.annotations import Annotations
from crowdppl.fitting import fit
from tests.benchmarks.dawid_skene import by_crowdkit, by_crowdppl
from tests.benchmarks.simulated import draw

FIT: dict[str, Any] = {"crowdppl": by_crowdppl, "crowdkit": by_crowdkit}


def by_auto(data: Any) -> Any:
    """Spans of sequences by auto."""
    return fit("auto", data, seed=0).spans()


def first_sequences(folder: str, n: int) -> Annotations:
    """The first sequences of tags that are coded as its META.json says."""
    tags = json.loads((Path(folder) / "META.json").read_text(encoding="utf-8"))["classes"]
    rows = pd.read_csv(Path(folder) / "answers.csv")
    rows = rows[rows["sequence"].isin(np.unique(rows["sequence"])[:n])]
    rows = rows.assign(label=rows["label"].map(dict(enumerate(tags)))).drop(columns="item")
    return Annotations.from_frame(rows, kind="sequence")


def status(field: str) -> float:
    """A field of the process's status, in MiB: VmRSS is what it holds, VmHWM the most that it held."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None, "peak memory is read from /proc, which only Linux has"
    return int(found[1]) / 1024


def forget_peak() -> None:
    """Makes the kernel count the peak anew from what the process holds now."""
    Path("/proc/self/clear_refs").write_text("5")


def main(what: str) -> None:
    """Fits once on few labels for the imports, then on many for the measurement."""
    torch.set_num_threads(1)
    run = FIT.get(what) or by_auto
    run(draw(200, 5, 20, 5, seed=0) if what in FIT else first_sequences(what, 20))
    data = draw(200_000, 5, 2_000, 5, seed=1) if what in FIT else first_sequences(what, 600)
    gc.collect()
    forget_peak()
    before = status("VmRSS")
    run(data)
    print(json.dumps({"mib": status("VmHWM") - before, "before": before}))


if __name__ == "__main__":
    main(sys.argv[1])
