"""`make bench`: runs every benchmark in one session, writes docs/benchmarks.md and the pages made of it.

`make bench ONLY="few_shot filling"` runs some, and replaces their sections.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from docs.making import pages
from tests.benchmarks import machine, results

TIMED = ("test_command_line", "test_em", "test_epoch", "test_gibbs", "test_gpu", "test_import")
"""These measure time and memory and come first: leave the machine alone for ten minutes."""


def main(only: Sequence[str] = ()) -> int:
    """Runs all benchmarks, or some by name; a failed run writes nothing."""
    recorder = results.Recorder()
    files = sorted(Path(__file__).parent.glob("test_*.py"), key=lambda path: (path.stem not in TIMED, path.stem))
    names = {path.stem.removeprefix("test_"): path for path in files}
    unknown = [name for name in only if name not in names]
    if unknown:
        print(f"there is no benchmark {', '.join(unknown)}; choose from {', '.join(names)}")
        return 2
    files = [path for name, path in names.items() if not only or name in only]
    code = pytest.main([*map(str, files), "-m", "bench", "-s", "-p", "no:xdist"], plugins=[recorder])
    if code:
        print("a benchmark failed; the results are left as they were")
        return int(code)
    if only:
        text = results.amended(results.read(), machine.describe(), recorder.sections)
    else:
        text = results.compose(machine.describe(), recorder.sections, results.read())
    results.PATH.write_text(text, encoding="utf-8")
    print(f"wrote {results.PATH}")
    pages.write()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
