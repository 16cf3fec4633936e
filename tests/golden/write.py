"""Writes the golden numbers anew and says what moved: ``python -m tests.golden.write [part of a case's name ...]``.

To be run where results are meant to change, and where names do: a quantity that was renamed keeps its numbers.
"""

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")

import warnings

import numpy as np
import torch

from tests.golden import store
from tests.golden.cases import cases
from tests.golden.numbers import Numbers


def main() -> None:
    """Computes, compares with what is there, and writes."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    every = cases()
    for file in dict.fromkeys(case.file for case in every):
        there = (store.FOLDER / f"{file}.npz").exists()
        old = store.read(file)[1] if there else {}
        here = [case for case in every if case.file == file]
        parts = sys.argv[1:] or [""]
        found = {case.name: case.run() for case in here if any(part in case.name for part in parts)}
        for name in [name for name in old if name in found]:
            for line in told(old[name], found[name]):
                print(f"{name}: {line}")
        if found:
            store.write(file, {case.name: (found if case.name in found else old)[case.name] for case in here})
        print(f"{file}: {len(found)} cases, {len(found.keys() - old.keys())} of them new")


def told(old: Numbers, new: Numbers) -> list[str]:
    """What moved; where names alone did, these."""
    pairs = list(zip(old, new, strict=False))
    if len(old) == len(new) and all(np.array_equal(old[a], new[b], equal_nan=True) for a, b in pairs):
        return [f"{a} is now {b}" for a, b in pairs if a != b]
    return store.moved(old, new, None)


if __name__ == "__main__":
    main()
