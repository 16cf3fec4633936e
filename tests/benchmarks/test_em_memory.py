"""Peak memory of a fit of Dawid-Skene by EM, each package in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.benchmarks.recorder import Recorder
from tests.benchmarks.results import ROOT
from tests.benchmarks.tables import markdown

pytestmark = pytest.mark.bench


def test_peak_memory(recorder: Recorder) -> None:
    pytest.importorskip("crowdkit", reason="crowd-kit is not installed: pip install '.[bench]'")
    peaks = {package: measured(package) for package in ("crowdppl", "crowdkit")}
    ours, theirs = peaks["crowdppl"], peaks["crowdkit"]
    rows = [["peak above the imports", f"{ours:.0f} MiB", f"{theirs:.0f} MiB", f"{ours / theirs:.2f}"]]
    text = (
        "Resident set of a whole fit on 1,000,000 labels (200,000 items x 5, 2,000 annotators, K = 5), from "
        "integer arrays to label probabilities, above what the process held before: imports, a first small fit "
        "and the arrays. A process for each package, one thread.\n\n"
    )
    recorder.add("Memory of EM", text + markdown(("", "crowdppl", "crowd-kit", "ratio"), rows))


def measured(package: str) -> float:
    """MiB that a fit adds, in a fresh process."""
    command = [sys.executable, "-m", "tests.benchmarks.peak", package]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    out: float = json.loads(done.stdout.splitlines()[-1])["mib"]
    return out
