"""No result moves: every method and engine, and what is asked of them, give the numbers that were stored."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from tests.golden import store
from tests.golden.cases import Case, cases

CASES = cases()
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Sums of several threads are rounded otherwise."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.name, marks=[] if case.quick else pytest.mark.slow) for case in CASES]
)
def test_no_number_moves(case: Case) -> None:
    written, stored = store.read(case.file)
    here = written == store.fingerprint()
    tolerance = None if here else store.LOOSE if case.loose else store.TOLERANCE
    lines = store.moved(stored[case.name], case.run(), tolerance)
    assert not lines, f"{case.name}:\n" + "\n".join(lines)


def test_every_case_is_stored_and_no_other() -> None:
    files = {case.file for case in CASES}
    assert {case.name for case in CASES} == {name for file in files for name in store.read(file)[1]}
    assert sum((store.FOLDER / f"{file}.npz").stat().st_size for file in files) < 3_000_000


@pytest.mark.parametrize("tolerance", [None, store.TOLERANCE])
def test_a_number_that_moves_is_seen(tolerance: float | None) -> None:
    stored = store.read("crowd")[1]["one_coin-em-crowd-seed0"]
    assert not store.moved(stored, stored, tolerance)
    nudged = stored | {"probabilities": stored["probabilities"] + 1e-4 * np.eye(1, 124, 5)[0]}
    (line,) = store.moved(stored, nudged, tolerance)
    assert line.startswith("probabilities: moved by up to 0.0001")
    renamed = {key.replace("sd", "spread"): x for key, x in stored.items()}
    assert len(store.moved(stored, renamed, tolerance)) == 2 * sum("sd" in key for key in stored)
