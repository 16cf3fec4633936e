"""Values to start from are taken as arrays or tensors, and checked where they are handed over."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from crowdppl.data.annotations import Annotations
from crowdppl.errors import MethodError
from crowdppl.fitting import fit
from tests.crowd import crowd


@pytest.fixture(scope="module")
def data() -> Annotations:
    return crowd(30, 5, 3, 4, seed=1)


@pytest.mark.parametrize("engine", ["em", "vb", "gibbs", "nuts", "svi"])
def test_a_start_that_does_not_fit_is_refused_by_name(engine: str, data: Annotations) -> None:
    with pytest.raises(
        MethodError, match="start names 'abilty', which is no site of OneCoin .* did you mean ability?"
    ):
        fit("one_coin", data, inference=engine, start={"abilty": torch.ones(2)})
    with pytest.raises(MethodError, match=r"start of site 'ability' has shape \(3,\), not \(\d+, 2\)"):
        fit("one_coin", data, inference=engine, start={"ability": np.ones(3)})  # type: ignore[dict-item]
    with pytest.raises(MethodError, match="start of site 'truth' holds 0; shares must be above 0"):
        fit("one_coin", data, inference=engine, start={"truth": torch.zeros(data.n_items, data.n_classes)})


@pytest.mark.parametrize("engine", ["em", "vb", "gibbs", "nuts", "svi"])
def test_arrays_and_tensors_are_the_same_start(engine: str, data: Annotations) -> None:
    few = {"chains": 1, "draws": 2, "warmup": 1, "max_iterations": 2}
    ability = np.tile([0.6, 0.4], (data.n_annotators, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = fit("one_coin", data, inference=engine, start={"ability": ability}, **few)  # type: ignore[dict-item,arg-type]
        two = fit("one_coin", data, inference=engine, start={"ability": torch.from_numpy(ability)}, **few)  # type: ignore[arg-type]
    assert one.probabilities().equals(two.probabilities())
