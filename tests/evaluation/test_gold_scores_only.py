"""Known truths that only score have no way into what is said without them."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdppl
from tests.benchmarks.test_accuracy import read
from tests.benchmarks.test_automatic import automatic

pytestmark = pytest.mark.slow


def said(folder: Path, name: str) -> tuple[dict[str, bytes], float]:
    """What is found without known truths, to the last bit, and the accuracy that they say it has."""
    data, gold = read(folder, name)
    auto, _, _ = automatic(data)
    compared = crowdppl.compare(["majority_vote", "one_coin", "dawid_skene"], data, inference="em")
    corrected = crowdppl.fit("bayesian_dawid_skene", data, inference="vb", calibrate=True)
    checked = crowdppl.predictive_check(corrected.uncorrected(), draws=20)
    found: dict[str, Any] = {
        "auto": auto.probabilities(),
        "compare": compared.table.drop(columns="seconds"),
        "corrected": corrected.probabilities(),
        "credible sets": corrected.label_sets(0.9).astype(str),
        "worth asking": corrected.uncorrected().suggest_labels(10, exclude_answered=False),
        "doubts": [str(doubt) for doubt in corrected.doubts()],
        "check": checked.replicates,
    }
    accuracy = crowdppl.evaluate(auto, gold).accuracy
    return {key: _bytes(value) for key, value in found.items()}, accuracy


def _bytes(x: Any) -> bytes:
    if isinstance(x, pd.DataFrame | pd.Series):
        x = x.reset_index().to_numpy(object)
    return repr(np.asarray(x, object).tolist()).encode()


def test_permuted_truths_change_nothing_that_is_said_without_them(real_data: Path, tmp_path: Path) -> None:
    name = "bluebirds"
    shutil.copytree(real_data / name, tmp_path / name, copy_function=shutil.copyfile)
    truths = pd.read_csv(tmp_path / name / "truth.csv")
    truths["label"] = np.random.default_rng(0).permutation(truths["label"])
    truths.to_csv(tmp_path / name / "truth.csv", index=False)
    (found, right), (again, wrong) = said(real_data, name), said(tmp_path, name)
    assert wrong < right - 0.2, "the files do differ, and scoring sees it"
    assert found == again
