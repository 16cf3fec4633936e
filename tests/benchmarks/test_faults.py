"""Processes killed at random: fits under torchrun end in the bits of undisturbed ones, `convert` leaves no half."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import crowdppl
from tests.benchmarks.results import ROOT, Recorder
from tests.benchmarks.tables import markdown
from tests.inference.test_shared_fits import frame

KILLS, PROCESSES = 5, 2
WITHIN = 2.0
"""Seconds after the first iteration of a life in which one of its processes is killed; sooner, one life in five."""
LONG: dict[str, Any] = {"max_iterations": 200, "tolerance": 0.0}
FITS: list[tuple[str, str, dict[str, Any]]] = [
    ("dawid_skene", "em", LONG),
    ("hierarchical_dawid_skene", "vb", LONG),
    ("bayesian_dawid_skene", "gibbs", {"draws": 150, "warmup": 50}),
    ("dawid_skene", "svi", {"max_iterations": 200}),
]
CONVERSIONS = 20


def test_faults(recorder: Recorder, tmp_path: Path) -> None:
    rng = random.Random(0)
    frame(100_000, 200, 4).to_csv(tmp_path / "labels.csv", index=False)
    crowdppl.convert(tmp_path / "labels.csv", tmp_path / "parts", n_parts=4)
    rows = []
    for method, engine, options in FITS:
        began, found = of_killed(tmp_path, method, engine, options, rng)
        assert all(told["same"] for told in found)
        rows.append([engine, f"{len(began) - 1}", f"{found[0]['of']}", ", ".join(began[1:]), "the same bits"])
    whole = conversions(tmp_path, rng)
    head = ("engine", "kills", "iterations", "went on after", "result")
    text = (
        f"300,000 labels, {PROCESSES} processes under torchrun, a checkpoint every second iteration; `kill -9` of "
        f"one process, drawn at random, within {WITHIN:g} s of the first iteration, or of the start. The result "
        f"beside that of a fit which nothing disturbs:\n\n{markdown(head, rows)}\n\n"
        f"`kill -9` of `crowdppl convert` at {CONVERSIONS} random moments: the folder was whole {whole} times, "
        "and else not there."
    )
    recorder.add("Kills", text)


def of_killed(
    folder: Path, method: str, engine: str, options: dict[str, Any], rng: random.Random
) -> tuple[list[str], list[dict[str, Any]]]:
    """The iteration with which each life of the processes began, if it came to one, and what each process found."""
    place = folder / engine
    place.mkdir()
    (place / "parts").symlink_to(folder / "parts")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={PROCESSES}"]
    command += [f"--max-restarts={KILLS}", "-m", "tests.inference.killed", str(place)]
    command += [method, engine, json.dumps(options)]
    # https://github.com/pytorch/pytorch/issues/135712
    surroundings = os.environ | {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "OMP_NUM_THREADS": "1"}
    with (place / "log").open("w") as log, subprocess.Popen(command, cwd=ROOT, env=surroundings, stderr=log) as run:
        for life in range(KILLS):
            rank, awaited = rng.randrange(PROCESSES), "began" if rng.random() > 1 / 5 else "pid"
            path = place / f"{awaited}-{rank}-{life}"
            waited_for(lambda path=path: path.exists() and bool(path.read_text()), run)
            time.sleep(rng.uniform(0, WITHIN))
            os.kill(int((place / f"pid-{rank}-{life}").read_text()), signal.SIGKILL)
        assert run.wait(600) == 0
    began = [place / f"began-0-{life}" for life in range(KILLS + 1)]
    found = [json.loads((place / f"found-{rank}").read_text()) for rank in range(PROCESSES)]
    return [path.read_text() if path.exists() else "none" for path in began], found


def waited_for(ready: Callable[[], bool], run: "subprocess.Popen[bytes]") -> None:
    for _ in range(6_000):
        if ready():
            return
        assert run.poll() is None, "the launcher has ended"
        time.sleep(0.02)
    raise TimeoutError


def conversions(folder: Path, rng: random.Random) -> int:
    """How many conversions had ended when they were killed; others have left no folder."""
    took, whole = 0.0, 0
    for number in range(CONVERSIONS + 1):
        place = folder / f"converted-{number}"
        began = time.perf_counter()
        command = [sys.executable, "-m", "crowdppl", "convert", str(folder / "labels.csv"), str(place)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as run:
            if number:
                time.sleep(rng.uniform(0, took))
                run.kill()
            run.wait()
        took = took or time.perf_counter() - began
        if place.exists():
            assert crowdppl.Annotations.open(place, check=True).n_labels == 300_000
            whole += number > 0
    return whole
