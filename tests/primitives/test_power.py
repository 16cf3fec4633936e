"""Labels that count for less: the likelihood to a power, by hand, and what a fit makes of it."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import crowdppl
from tests.inference.neural.test_trained import LABELS, objective, prepared, rows, shares, tiny
from tests.networks.test_networks import clouds

JOINT = {
    "bayes_dgc": {"recipe": "plain"},
    "raykar": {},
    "global_noise": {},
    "ccem": {"likelihood": "joint"},
    "trace_reg": {"likelihood": "joint", "weight": 0.0},
    "geo_crowdnet": {"likelihood": "joint", "weight": 0.0},
    "instance_trace": {"likelihood": "joint", "weight": 0.0, "errors": nn.Linear(2, 8)},
}
"""Methods of one truth an item, and settings under which nothing is added to the likelihood."""


@pytest.mark.parametrize("name", JOINT)
@pytest.mark.parametrize("power", [1.0, 0.4])
def test_the_joint_likelihood_to_a_power(double_precision: None, name: str, power: float) -> None:
    data = tiny()
    settings: Any = JOINT[name] | {"likelihood_power": power}
    model = prepared(name, data, **settings)
    shared = name == "global_noise"
    a = rows(1)[0] if shared else rows()
    f = shares(model, data)
    each = [
        f[j] * np.prod([(a if shared else a[w])[:, x].numpy() ** power for i, w, x in LABELS if i == j], 0)
        for j in range(4)
    ]
    even = np.log(3) * 4 if name == "bayes_dgc" else 0.0  # its prevalence is a second expert, and even
    want = sum(np.log(x.sum()) for x in each) - even
    values = {"confusion": a} | ({"lean": torch.zeros(3, 8, 3, 3)} if name == "instance_trace" else {})
    assert objective(model, data.as_block(), values) == pytest.approx(want, rel=1e-5)


def test_each_label_alone_to_a_power(double_precision: None) -> None:
    data = tiny()
    model, a = prepared("ccem", data, likelihood="per_annotation", likelihood_power=0.4), rows()
    f = shares(model, data)
    want = sum(np.log(f[i] @ a[w, :, x].numpy() ** 0.4) for i, w, x in LABELS)
    assert objective(model, data.as_block(), {"confusion": a}) == pytest.approx(want, rel=1e-5)


@pytest.mark.parametrize("name", ["raykar", "global_noise"])
def test_em_with_a_power_never_falls_and_is_less_sure(name: str) -> None:
    data, _ = clouds(120, 100)
    full = {"training": {"full_batch": True, "epochs": 20, "warm_up": 0}}
    fits = {
        power: crowdppl.fit(name, data, inference="em", settings={**full, "likelihood_power": power})
        for power in (1.0, 0.3)
    }
    steps = np.diff(fits[0.3].result.diagnostics["objectives"])
    assert (steps >= -1e-9 * np.abs(fits[0.3].result.diagnostics["objective"])).all()
    unsure = {power: fitted.labels()["entropy"].mean() for power, fitted in fits.items()}
    assert unsure[0.3] > unsure[1.0]
