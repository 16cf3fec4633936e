"""A fit that was killed goes on from its checkpoint, to the bits that it would have had."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import crowdppl
from crowdppl.errors import MethodError, ResultError
from tests.crowd import crowd
from tests.test_networks import clouds

pytestmark = pytest.mark.filterwarnings("ignore::crowdppl.errors.CrowdpplWarning")

TRAINING = {"epochs": 7, "learning_rate": 5e-3}


class Killed(Exception):
    """Stands for the end of a process."""


def kill(t: int, objective: float) -> None:
    if t == 4:
        raise Killed


def fitted(name: str, engine: str, data: Any, seed: int = 1, **options: Any) -> Any:
    settings: dict[str, Any] = {"training": TRAINING}
    settings |= {"recipe": "plain", "pooled": 10.0} if name == "bayes_dgc" else {}
    return crowdppl.fit(name, data, inference=engine, seed=seed, settings=settings, **options)


@pytest.mark.parametrize(("name", "engine"), [("bayes_dgc", "vb"), ("raykar", "em"), ("ccem", "svi")])
def test_a_killed_fit_goes_on_to_the_same_bits(name: str, engine: str, tmp_path: Path) -> None:
    data, _ = clouds(120, 90)
    whole = fitted(name, engine, data, checkpoint=str(tmp_path / "whole"), checkpoint_every=2)
    path = str(tmp_path / "killed")
    with pytest.raises(Killed):
        fitted(name, engine, data, checkpoint=path, checkpoint_every=2, callback=kill)
    calls: list[int] = []
    again = fitted(name, engine, data, checkpoint=path, checkpoint_every=2, callback=lambda t, _: calls.append(t))
    assert calls == [4, 5, 6]
    pd.testing.assert_frame_equal(again.probabilities(), whole.probabilities(), check_exact=True)
    pd.testing.assert_frame_equal(again.classify(data.features), whole.classify(data.features), check_exact=True)
    assert again.diagnostics()["objectives"] == whole.diagnostics()["objectives"]
    for site, found in whole.result.sites.items():
        for key, x in found.arrays.items():
            assert (again.result.sites[site].arrays[key] == x).all()


def test_so_does_one_whose_process_died(tmp_path: Path) -> None:
    code = f"""
import os, warnings
warnings.simplefilter("ignore")
from tests.test_checkpoints import fitted
from tests.test_networks import clouds
fitted("raykar", "em", clouds(120, 90)[0], checkpoint={str(tmp_path / "file")!r}, checkpoint_every=1,
       callback=lambda t, _: os._exit(9) if t == 4 else None)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[1], check=False)
    assert done.returncode == 9
    data, _ = clouds(120, 90)
    again = fitted("raykar", "em", data, checkpoint=str(tmp_path / "file"), checkpoint_every=1)
    whole = fitted("raykar", "em", data)
    pd.testing.assert_frame_equal(again.probabilities(), whole.probabilities(), check_exact=True)


def test_what_is_not_this_fits_is_refused(tmp_path: Path) -> None:
    data, _ = clouds(60, 40)
    path = tmp_path / "file"
    fitted("raykar", "em", data, checkpoint=str(path))
    with pytest.raises(ResultError, match="other data, settings or seed"):
        fitted("raykar", "em", data, seed=2, checkpoint=str(path))
    with pytest.raises(ResultError, match="other data, settings or seed"):
        fitted("raykar", "em", clouds(60, 40, seed=1)[0], checkpoint=str(path))
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ResultError, match="damaged"):
        fitted("raykar", "em", data, checkpoint=str(path))
    with pytest.raises(MethodError, match="fits with a network"):
        crowdppl.fit("dawid_skene", crowd(20), inference="em", checkpoint=str(path))
    with pytest.raises(MethodError, match="checkpoint_every=0"):
        fitted("raykar", "em", data, checkpoint=str(tmp_path / "new"), checkpoint_every=0)
