"""Truth and classifier from labels and features of LabelMe: every method with a network."""

from __future__ import annotations

import pytest

from tests.benchmarks import neural
from tests.benchmarks.recorder import Recorder
from tests.benchmarks.test_acquisition import data_folder

pytestmark = pytest.mark.bench

TITLE = "Truth from features and labels: LabelMe"


def test_truth_from_features_and_labels(recorder: Recorder, request: pytest.FixtureRequest) -> None:
    folder = data_folder(request, recorder, TITLE)
    if folder is not None:
        recorder.add(TITLE, neural.section(folder, "labelme"))
