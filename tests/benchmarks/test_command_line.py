"""The command line on a large file, beside the same by pandas and crowd-kit."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.benchmarks.results import ROOT, Recorder
from tests.benchmarks.simulated import draw
from tests.benchmarks.tables import markdown

OURS = ["-m", "crowdppl", "fit", "--model", "dawid_skene", "--inference", "em", "--out"]
THEIRS = """
import sys
import pandas as pd
from crowdkit.aggregation import DawidSkene
out, path = sys.argv[1:]
rows = pd.read_parquet(path) if path.endswith("parquet") else pd.read_csv(path, engine="pyarrow")
rows = rows.rename(columns={"item": "task", "annotator": "worker"})
DawidSkene().fit_predict_proba(rows).to_csv(out)
"""
MEASURED = """
import resource, subprocess, sys
subprocess.run([sys.executable, *sys.argv[1:]], check=True, stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20)
"""


def test_files_of_ten_million_labels(recorder: Recorder, tmp_path: Path) -> None:
    pytest.importorskip("crowdkit", reason="crowd-kit is not installed: pip install '.[bench]'")
    small, large = tmp_path / "small.parquet", tmp_path / "large.parquet"
    table(200).to_parquet(small, index=False)
    rows = table(2_000_000)
    rows.to_parquet(large, index=False)
    rows.to_csv(large.with_suffix(".csv"), index=False)
    del rows
    lines = []
    for path in (large, large.with_suffix(".csv")):
        line = [path.suffix[1:]]
        for n, command in enumerate((OURS, ["-c", THEIRS])):
            before, after = (
                used([*command, f"{tmp_path}/{path.suffix}-{x.stem}-{n}", str(x)]) for x in (small, path)
            )
            cpu, peak = np.subtract(after, before)
            line += [f"{cpu:.1f} s", f"{peak:.2f} GiB"]
        lines.append(line)
    text = (
        "`crowdppl fit FILE --model dawid_skene --inference em --out FOLDER`, from a file of 10,000,000 labels "
        "(2,000,000 items x 5, 2,000 annotators, K = 5, all ids text) to tables and a posterior in files; by "
        "pandas and crowd-kit to a table of probabilities. CPU seconds and peak memory of a process, less those "
        "for 1,000 labels, which are mostly imports. One thread.\n\n"
    )
    header = ("file", "crowdppl, CPU", "memory", "crowd-kit, CPU", "memory")
    recorder.add("The command line at ten million labels", text + markdown(header, lines))


def table(n_items: int) -> pd.DataFrame:
    """Five labels an item, with ids that are text."""
    data = draw(n_items, 5, 2_000, 5, seed=3)
    items = np.array([f"document-{n:07d}" for n in range(n_items)], object)
    who = np.array([f"worker-{n}" for n in range(2_000)], object)
    return pd.DataFrame(
        {
            "item": items[data.item],
            "annotator": who[data.annotator],
            "label": np.array([*"abcde"], object)[data.label],
        }
    )


def used(command: list[str]) -> tuple[float, float]:
    """CPU seconds and peak GiB of a Python process, which a small one starts: a peak is inherited."""
    done = subprocess.run([sys.executable, "-c", MEASURED, *command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    cpu, peak = done.stdout.split()
    return float(cpu), float(peak)
