"""Stored numbers: how they are written, read and compared, and on which machine they came about."""

import json
import platform
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import torch

from tests.golden.numbers import Numbers

FOLDER = Path(__file__).parent
TOLERANCE, LOOSE = 1e-6, 1e-3


def fingerprint() -> dict[str, str]:
    """What rounding depends on: the same one gives the same bits."""
    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text().split("\n\n")[0].splitlines() if cpu.exists() else []
    wanted = ("model name", "cpu family", "model", "stepping")
    model = [line.split(":")[1].strip() for line in lines if line.split(":")[0].strip() in wanted]
    return {
        "cpu": " ".join(model) or platform.processor(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "threads": str(torch.get_num_threads()),
    }


def write(file: str, found: Mapping[str, Numbers]) -> None:
    """Puts the numbers of some cases into a file: one long array, and where each quantity ends in it."""
    index = {case: {key: len(x) for key, x in values.items()} for case, values in found.items()}
    about = json.dumps({"fingerprint": fingerprint(), "index": index}).encode()
    whole = np.concatenate([x for values in found.values() for x in values.values()])
    np.savez_compressed(FOLDER / f"{file}.npz", about=np.frombuffer(about, np.uint8), values=whole)


@cache
def read(file: str) -> tuple[dict[str, str], dict[str, Numbers]]:
    with np.load(FOLDER / f"{file}.npz") as arrays:
        about, whole = json.loads(arrays["about"].tobytes()), arrays["values"]
    found: dict[str, Numbers] = {}
    at = 0
    for case, sizes in about["index"].items():
        found[case] = {}
        for key, size in sizes.items():
            found[case][key], at = whole[at : at + size], at + size
    return about["fingerprint"], found


def moved(stored: Numbers, found: Numbers, tolerance: float | None) -> list[str]:
    """What differs, a line a quantity; without a tolerance every bit counts."""
    lines = [f"{key}: stored, and no longer found" for key in stored if key not in found]
    lines += [f"{key}: found, and not stored" for key in found if key not in stored]
    for key in [key for key in stored if key in found]:
        old, new = stored[key], found[key]
        if old.shape != new.shape:
            lines.append(f"{key}: {new.size} numbers, and {old.size} stored")
        elif tolerance is None and not np.array_equal(old, new, equal_nan=True):
            lines.append(f"{key}: moved by up to {np.nanmax(np.abs(old - new)):.3g}")
        elif tolerance and not np.allclose(new, old, rtol=tolerance, atol=tolerance, equal_nan=True):
            lines.append(f"{key}: moved by up to {np.nanmax(np.abs(old - new)):.3g}, of {tolerance:g} that may be")
    return lines
