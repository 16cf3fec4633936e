"""Ids that are tuples: they come back from a saved result as they went in."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.data.ids import as_index


@pytest.mark.parametrize("tupled", ["item", "annotator"])
def test_a_loaded_posterior_answers_as_before(tupled: str, tmp_path: Path) -> None:
    rows = [(i, j, int((i + (j * i) % 5 == 1) % 2)) for i in range(10) for j in range(3)]
    frame = pd.DataFrame(rows, columns=["item", "annotator", "label"])
    frame[tupled] = pd.Series([(code, "x") for code in frame[tupled]], dtype=object)
    posterior = crowdppl.fit("one_coin", Annotations.from_frame(frame), inference="em")
    posterior.save(tmp_path / "saved")
    loaded = crowdppl.load(tmp_path / "saved")
    pd.testing.assert_frame_equal(loaded.labels(), posterior.labels())
    pd.testing.assert_frame_equal(loaded.annotators(), posterior.annotators())
    assert str(loaded.summary()) == str(posterior.summary())
    assert as_index(pd.Series([(0, "x"), (1, "x")])).nlevels == 1
