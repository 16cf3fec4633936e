"""Networks that processes train together: the same steps as of one process."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.naive_bayes import GaussianNB
from torch import nn

import crowdppl
from crowdppl.errors import CrowdpplError
from tests.inference.shared import by_processes, share_of

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
PLAIN: dict[str, Any] = {"epochs": 5, "dropout": 0.0, "batch_size": 32}
# Few searches: each multiplies what rounding changes by ten.
SEARCH = {"epochs": 2, "warm_up": 0, "full_batch": True, "balance": 0.5, "weight_decay": 0.01}
FITS: list[tuple[str, str, dict[str, Any]]] = [
    ("bayes_dgc", "vb", {"recipe": "plain", "training": {**PLAIN, "balance": 0.5, "volume": 0.01, "networks": 2}}),
    ("raykar", "em", {"training": PLAIN}),
    ("global_noise", "em", {"training": SEARCH}),
]


def rows_and_features() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Labels of three classes by eight annotators, three an item, and two features that tell classes apart."""
    rng = np.random.default_rng(0)
    truth, item = rng.integers(3, size=200), np.repeat(np.arange(200), 3)
    who = np.concatenate([rng.choice(8, 3, replace=False) for _ in truth])
    label = np.where(rng.random(600) < rng.uniform(0.5, 0.9, 8)[who], truth[item], rng.integers(3, size=600))
    features = rng.normal(size=(200, 2)) + 2.0 * np.stack([truth == 0, truth == 1], 1)
    return pd.DataFrame({"item": item, "annotator": who, "label": label}), pd.DataFrame(features)


def fitted(process: int, processes: int) -> list[dict[str, Any]]:
    rows, features = rows_and_features()
    data = share_of(rows, process, processes)
    data, found = replace(data, features=features.loc[data.items]), []
    for method, engine, settings in FITS:
        posterior = crowdppl.fit(method, data, inference=engine, seed=0, settings=settings)
        found.append(
            {
                "objectives": posterior.diagnostics()["objectives"],
                "items": dict(zip(data.items, posterior.result.probabilities, strict=True)),
                "sites": {name: site.mean for name, site in posterior.result.sites.items()},
                "logits": posterior.model.network(torch.tensor(features.to_numpy(), dtype=torch.float32)).detach(),
            }
        )
    return found


def refused(process: int, processes: int) -> list[str]:
    """The messages of fits that processes cannot share."""
    rows, features = rows_and_features()
    data = share_of(rows, process, processes)
    data, found = replace(data, features=features.loc[data.items]), []
    norm = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    own = nn.Linear(2, 3)
    with torch.no_grad():
        own.weight.fill_(float(process))
    asked: list[tuple[str, str, dict[str, Any]]] = [
        ("bayes_dgc", "vb", {}),
        ("global_noise", "svi", {}),
        ("global_noise", "em", {"network": norm}),
        ("global_noise", "em", {"network": GaussianNB()}),
        ("global_noise", "em", {"training": {"patience": 2}}),
        ("global_noise", "em", {"network": own}),
    ]
    for method, engine, settings in asked:
        with pytest.raises(CrowdpplError) as error:
            crowdppl.fit(method, data, inference=engine, seed=0, settings=settings)
        found.append(str(error.value))
    return found


def both(process: int, processes: int) -> tuple[list[dict[str, Any]], list[str]]:
    return fitted(process, processes), refused(process, processes)


def test_processes_train_a_network_as_one_does() -> None:
    alone, several = fitted(0, 1), by_processes(2, both)
    for one, *each in zip(alone, *(found for found, _ in several), strict=True):
        for found in each:
            np.testing.assert_allclose(found["objectives"], one["objectives"], rtol=1e-5)
            assert torch.equal(found["logits"], each[0]["logits"])
            np.testing.assert_allclose(found["logits"], one["logits"], atol=1e-3)
            for name, x in one["sites"].items():
                assert (found["sites"][name] == each[0]["sites"][name]).all()
                np.testing.assert_allclose(found["sites"][name], x, atol=1e-4)
        items = {n: p for found in each for n, p in found["items"].items()}
        np.testing.assert_allclose([items[n] for n in one["items"]], [*one["items"].values()], atol=1e-4)
        assert np.ptp(one["objectives"]) > 1  # it has learned
    words = ["volume='auto'", "svi would train", "batch norm", "scikit-learn", "patience=2", "first weights"]
    for _, messages in several:
        assert [word in message for word, message in zip(words, messages, strict=True)] == [True] * len(words)
