"""Torch's default precision, which users set for their own work, changes no result."""

from typing import Any

import pandas as pd
import pytest
import torch

import crowdppl
from tests.crowd import double

FITS: dict[str, Any] = {
    "bayesian_dawid_skene": {"inference": "gibbs", "chains": 2, "draws": 10, "warmup": 5},
    "raykar": {"inference": "em", "settings": {"training": {"epochs": 1}}},
    "bayes_dgc": {"inference": "vb", "settings": {"training": {"epochs": 1}}},
}


@pytest.mark.parametrize("method", FITS)
def test_results_are_those_of_single_precision(method: str) -> None:
    data = crowdppl.digits(seed=0).data if "settings" in FITS[method] else crowdppl.anaesthetists()
    wanted = crowdppl.fit(method, data, seed=0, **FITS[method])
    with double():
        found = crowdppl.fit(method, data, seed=0, **FITS[method])
        drawn = crowdppl.simulate("one_coin", data, seed=0)
        if data.features is not None:
            own = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
            crowdppl.fit(method, data, **{**FITS[method], "settings": {**FITS[method]["settings"], "network": own}})
    pd.testing.assert_frame_equal(found.probabilities(), wanted.probabilities(), check_exact=True)
    pd.testing.assert_frame_equal(drawn.data.frame(), crowdppl.simulate("one_coin", data, seed=0).data.frame())
