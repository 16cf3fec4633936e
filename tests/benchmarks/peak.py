"""`python -m tests.benchmarks.peak crowdppl|crowdkit`: prints by how much a fit raises the resident set."""

import gc
import json
import re
import sys
from pathlib import Path

import torch

from tests.benchmarks.dawid_skene import by_crowdkit, by_crowdppl
from tests.benchmarks.simulated import draw

FIT = {"crowdppl": by_crowdppl, "crowdkit": by_crowdkit}


def status(field: str) -> float:
    """A field of the process's status, in MiB: VmRSS is what it holds, VmHWM the most that it held."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None, "peak memory is read from /proc, which only Linux has"
    return int(found[1]) / 1024


def forget_peak() -> None:
    """Makes the kernel count the peak anew from what the process holds now."""
    Path("/proc/self/clear_refs").write_text("5")


def main(package: str) -> None:
    """Fits once on few labels for the imports, then on a million for the measurement."""
    torch.set_num_threads(1)
    FIT[package](draw(200, 5, 20, 5, seed=0))
    data = draw(200_000, 5, 2_000, 5, seed=1)
    gc.collect()
    forget_peak()
    before = status("VmRSS")
    FIT[package](data)
    print(json.dumps({"mib": status("VmHWM") - before, "before": before}))


if __name__ == "__main__":
    main(sys.argv[1])
