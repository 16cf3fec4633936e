"""The check of a model with networks on data with features; other checks have no features."""

from __future__ import annotations

import tempfile
from dataclasses import is_dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from crowdppl.data.annotations import Annotations
from crowdppl.errors import MethodError
from crowdppl.inference.problem import with_network_outputs
from crowdppl.networks.outputs import networks_of
from crowdppl.networks.training import VOLUMES, Training, training_of
from crowdppl.posterior import load
from crowdppl.simulation.from_model import simulate
from crowdppl.testing.fixtures import Trial, fit_quickly, require
from crowdppl.testing.models import ready, same_chains, same_density

EPOCHS = {"epochs": 3, "warm_up": 0, "patience": 0}
"""A very short training."""


def network_sees_features(trial: Trial) -> None:
    """With features: density, chains, simulation, order of rows and saving, as in the other checks."""
    data = _with_features(trial, trial.rows)
    try:
        model = ready(trial, data)
    except MethodError as error:
        require("features" in str(error), f"refuses features, but does not name them: {error}")
        return
    if not networks_of(model):
        return
    block = with_network_outputs(model, data, data.on("cpu", torch.float64))[0]
    same_density(model, block)
    same_chains(model, block)
    rows = trial.rows
    known = trial.covariates(rows["item"], rows["annotator"])
    design = Annotations.design(rows["item"], rows["annotator"], like=trial.data, features=data.features, **known)
    drawn = simulate(model, design, seed=3).truth
    require(drawn.equals(simulate(model, design, seed=3).truth), "with features, the same seed drew other truths")
    _fits(trial, data, training_of(getattr(model, "training", {})))


def _fits(trial: Trial, data: Annotations, training: Training) -> None:
    """A short training does not depend on the order of rows, and can be saved."""
    quick: Any = replace
    model, engine = trial.model, trial.deterministic[0]
    if is_dataclass(model) and hasattr(model, "training"):
        short = EPOCHS | ({"volume": VOLUMES[0]} if training.volume == "auto" else {})  # no trials of volumes
        model = quick(model, training={**model.training, **short})
    shuffled = _with_features(trial, trial.rows.sample(frac=1, random_state=5))
    one, two = (fit_quickly(model, some, engine, max_iterations=None) for some in (data, shuffled))
    off = float((one.probabilities() - two.probabilities()).abs().to_numpy().max())
    require(off <= 1e-6, f"{engine}: with features, the order of rows moved a probability by {off:.3g}")
    with tempfile.TemporaryDirectory() as folder:
        one.save(folder)
        again = load(folder, model=model)
    require(again.probabilities().equals(one.probabilities()), f"{engine}: with features, saving moved something")


def _with_features(trial: Trial, rows: pd.DataFrame) -> Annotations:
    ids = sorted(set(trial.rows["item"]))
    features = np.random.default_rng(3).normal(size=(len(ids), 3))
    return trial.read(rows, features=pd.DataFrame(features, index=ids, columns=list("xyz")))
