"""`torchrun -m tests.benchmarks.scale PARTS METHOD ENGINE FEW MANY OUT`: what a fit of parts costs each process.

Prints JSON: seconds of the wall and of the CPU of opening, of an iteration (from fits of few and of many), of a
whole fit of many and of writing the labels; and the most memory, without pages of mapped files.
"""

import json
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

import crowdppl
from crowdppl.core.collective import group_size, process_group
from crowdppl.inference.fit import fit_one
from crowdppl.inference.result import Fit
from crowdppl.posterior import Posterior
from tests.benchmarks.peak import status

TURNS = 3


class Peak(threading.Thread):
    """The most memory of the process, in MiB, without pages of files, looked at 50 times a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most = 0.0

    def run(self) -> None:
        while True:
            self.most = max(self.most, status("RssAnon"))
            time.sleep(0.02)


def took(task: Callable[[], Any]) -> tuple[float, float]:
    """Seconds of the wall and of the CPU."""
    began = time.perf_counter(), time.process_time()
    task()
    return time.perf_counter() - began[0], time.process_time() - began[1]


def least(times: list[tuple[float, float]]) -> list[float]:
    """The least of each of both."""
    return [min(x) for x in zip(*times, strict=True)]


def main(parts: str, method: str, engine: str, few: int, many: int, out: str) -> dict[str, Any]:
    """Measures one process."""
    torch.set_num_threads(1)
    peak, opened = Peak(), list[Any]()
    peak.start()
    found: dict[str, Any] = {"libraries": status("RssAnon")}
    found["open"] = took(lambda: opened.append(crowdppl.Annotations.open(parts)))

    def fit(iterations: int) -> Fit:  # without doubts, which several processes do not look for
        options: Any = {"seed": 0, "max_iterations": iterations, "tolerance": 0}
        return fit_one(crowdppl.method(method), opened[0], engine, options, name=method)

    fit(1)
    fits: dict[int, list[tuple[float, float]]] = {few: [], many: []}
    for _ in range(TURNS):
        for n, times in fits.items():
            times.append(took(lambda n=n: fit(n)))
    found["few"], found["fit"] = least(fits[few]), least(fits[many])
    found["iteration"] = [(b - a) / (many - few) for a, b in zip(found["few"], found["fit"], strict=True)]
    posterior = Posterior.of(fit(few))
    found["write"] = took(lambda: posterior.to_parquet(out))
    found["peak"] = peak.most
    if group_size() == 1:
        posterior.doubts()
    return found | {"with doubts": peak.most}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with process_group():
        said = main(*sys.argv[1:4], *map(int, sys.argv[4:6]), sys.argv[6])  # type: ignore[arg-type]
        print("\n" + json.dumps(said), flush=True)
