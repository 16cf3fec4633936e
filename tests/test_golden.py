"""No number moves unnoticed: short fits of the zoo by em, vb and laplace are those of golden.json.

``python -m tests.test_golden`` writes it anew where results are meant to change, and ``git diff`` shows what did.
Samplers, svi and networks are tested by facts alone: their paths part at any rounding, as those of the
short chains do by which vb widens intervals.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import crowdppl
from crowdppl.testing.fixtures import Trial

FILE = Path(__file__).with_name("golden.json")
STORED = json.loads(FILE.read_text())
TOLERANCE = 1e-4
"""Sums without vector instructions, by two threads, move the numbers by 6e-7 at most."""

Numbers = dict[str, list[float]]


def computed(method: str) -> dict[str, Numbers]:
    """By engine what a short fit says of truths and annotators, and its objective."""
    trial, found = Trial.of(crowdppl.method(method)), {}
    for engine in trial.accepted("em", "vb", "laplace"):
        fit = trial.fit(engine)
        truths, table = trial.truths(fit), fit.annotators().select_dtypes("number")
        if any(site.drawn() is not None for site in fit.result.sites.values()):
            truths, table = (x.filter(regex="^(?!(.*_)?(sd|low|high)$)") for x in (truths, table))
        numbers = {
            "truth": truths,
            "annotators": table,
            "objective": fit.diagnostics()["objective"],
        }
        found[engine] = {name: np.asarray(x, float).ravel().tolist() for name, x in numbers.items()}
    return found


@pytest.mark.parametrize("method", STORED)
def test_no_number_moves(method: str) -> None:
    stored, found = STORED[method], computed(method)
    assert found.keys() == stored.keys()
    for engine, numbers in found.items():
        for name, x in numbers.items():
            about = f"{name} by {engine}"
            np.testing.assert_allclose(x, stored[engine][name], TOLERANCE, TOLERANCE, err_msg=about)


def rounded(numbers: Numbers) -> Numbers:
    return {name: [float(f"{x:.7g}") for x in values] for name, values in numbers.items()}


if __name__ == "__main__":
    every = {method: computed(method) for method in crowdppl.zoo(engines=False).index}
    kept = {method: {e: rounded(x) for e, x in fits.items()} for method, fits in every.items() if fits}
    lines = [f"{json.dumps(method)}: {json.dumps(fits)}" for method, fits in kept.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
