"""The files of a result: one commit, whatever fails."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from safetensors import SafetensorError

import crowdppl
from crowdppl.cli.outputs import write_result
from crowdppl.errors import ResultError
from crowdppl.posterior import Posterior

pytestmark = pytest.mark.filterwarnings("ignore::crowdppl.errors.CrowdpplWarning")


def fitted(method: str, *ids: str) -> Posterior:
    items, annotators = [*ids, *ids], ["x"] * len(ids) + ["y"] * len(ids)
    labels = (["n", "y"] * len(ids))[: len(ids)] * 2
    return crowdppl.fit(method, crowdppl.Annotations.from_arrays(items, annotators, labels), inference="em")


@pytest.mark.parametrize(
    ("step", "error"),
    [
        ("safetensors.numpy.save_file", SafetensorError("I/O error: No space left on device")),
        ("pyarrow.parquet.write_table", OSError(errno.ENOSPC, "No space left on device")),
        ("pyarrow.csv.write_csv", OSError(errno.ENOSPC, "No space left on device")),
        ("pathlib.Path.write_text", OSError(errno.ENOSPC, "No space left on device")),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_on_a_full_disk_the_old_result_stays(
    step: str, error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise error

    write_result(fitted("one_coin", "a", "b"), tmp_path, {}, {})
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with monkeypatch.context() as patch, pytest.raises(ResultError, match="No space"):
        patch.setattr(step, full)
        write_result(fitted("majority_vote", "a", "b", "c"), tmp_path, {}, {})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    found = crowdppl.load(tmp_path)
    assert found.method == "one_coin"
    assert pd.read_csv(tmp_path / "labels.csv")["item"].tolist() == found.data.items.tolist()
