"""What `import crowdppl` adds to `import pyro`, and what commands take that fit nothing."""

import subprocess
import sys
from itertools import pairwise

from tests.benchmarks.results import ROOT, Recorder
from tests.benchmarks.tables import markdown, seconds
from tests.benchmarks.test_command_line import used

WHAT = {
    "`import pyro`": "import pyro",
    "then `import crowdppl`": "import crowdppl",
    "then all that a fit needs": "import crowdppl.posterior, crowdppl.inference.vb.fit",
}


def test_import(recorder: Recorder) -> None:
    runs = [measured() for _ in range(5)]
    rows = [[what, seconds(min(run[i] for run in runs))] for i, what in enumerate(WHAT)]
    alone = min(used(["-c", "import crowdppl"])[0] for _ in range(5))
    commands = [["`import crowdppl` alone", seconds(alone)]]
    for command in ("--help", "zoo"):
        took = min(used(["-m", "crowdppl", command])[0] for _ in range(5))
        commands.append([f"`crowdppl {command}`", seconds(took)])
    text = "Seconds of a fresh process, least of five. What a name needs is imported when it is first used.\n\n"
    about = "\n\nCPU seconds of a fresh process, least of five:\n\n"
    recorder.add("Import", text + markdown(("", "adds"), rows) + about + markdown(("", "takes"), commands))


def measured() -> list[float]:
    steps = "\n".join(f"{code}; ticks.append(time.perf_counter())" for code in WHAT.values())
    code = f"import time; ticks = [time.perf_counter()]\n{steps}\nprint(*ticks)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    ticks = [float(x) for x in done.stdout.split()]
    return [b - a for a, b in pairwise(ticks)]
