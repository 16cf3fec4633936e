"""`make bench`: runs every benchmark in one session, writes the results, and brings README up to date."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.benchmarks import machine, readme, results
from tests.benchmarks.recorder import Recorder

TIMED = ("test_em", "test_em_memory", "test_em_scaling", "test_gibbs", "test_import")
"""Those that measure time and memory come first: for ten minutes the machine has to be left alone, then no more."""


def main() -> int:
    """Runs all benchmarks; a failed or partial run writes nothing."""
    recorder = Recorder()
    files = sorted(Path(__file__).parent.glob("test_*.py"), key=lambda path: (path.stem not in TIMED, path.stem))
    code = pytest.main([*map(str, files), "-m", "bench", "-s", "-p", "no:xdist"], plugins=[recorder])
    if code:
        print("a benchmark failed; the results are left as they were")
        return int(code)
    try:
        text = results.compose(machine.describe(), recorder.sections)
    except results.ResultsError as error:
        print(error)
        return 1
    results.PATH.parent.mkdir(exist_ok=True)
    results.PATH.write_text(text, encoding="utf-8")
    print(f"wrote {results.PATH}")
    readme.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
