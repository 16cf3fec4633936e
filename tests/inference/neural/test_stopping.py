"""Training stops where labels that were left out say so; known truths have no voice in it."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import crowdppl
from crowdppl.data.split import keep, label_folds
from crowdppl.errors import ConvergenceWarning, DataError, MethodError
from crowdppl.inference.neural.learner import _left_out, _score
from crowdppl.inference.options import Options
from crowdppl.inference.predict.update import predict
from crowdppl.inference.problem import build_problem, model_runs
from crowdppl.inference.vb.coordinate_ascent import EM
from crowdppl.inference.vb.fit import epochs
from crowdppl.networks.training import training_of
from tests.networks.test_networks import clouds

WILD = {"epochs": 40, "learning_rate": 3e-2, "hidden": 256, "dropout": 0.0, "weight_decay": 0.0, "patience": 5}
"""A network that soon knows the annotators' errors by heart."""


@pytest.mark.parametrize(("name", "engine"), [("raykar", "em")])
def test_it_stops_early_where_the_network_learns_errors_by_heart(name: str, engine: str) -> None:
    data, _ = clouds(160, 120, 3)
    found: Any = crowdppl.fit(name, data, inference=engine, seed=0, settings={"training": WILD})
    ended = found.model.training["stop_after"]
    assert 1 <= ended < 40 and found.model.training["patience"] == 0
    assert len(found.diagnostics()["objectives"]) == ended
    again: Any = crowdppl.fit(
        name, data, inference=engine, seed=0, settings={"training": {**WILD, "patience": 0, "stop_after": ended}}
    )
    pd.testing.assert_frame_equal(found.probabilities(), again.probabilities(), check_exact=True)


def test_the_score_is_that_of_the_labels_left_out() -> None:
    """By hand: classifier and confusion matrices after an epoch, on kept labels and on all; gold is no part."""
    plain, truth = clouds(60, 50, 3)
    data = plain.with_gold(truth.iloc[:10])
    model: Any = crowdppl.method("raykar", training={"epochs": 1, "warm_up": 0}).setup(data)
    out = label_folds(data, 10, 0) == 0
    with model_runs(model, data):
        problem = build_problem(model, keep(data, ~out), Options())
        (density, values) = next(epochs(EM, problem))
        got = _score(problem, density, values, data.on("cpu", problem.blocks[0].dtype))
        table, seen = values["confusion"].exp().numpy(), problem.blocks[0].seen
    f = np.empty((data.n_items, 3))
    f[data.order] = seen["network"].softmax(-1).numpy()
    rows, want = data.frame(), 0.0
    for sign, some in ((1, rows), (-1, rows[~out])):
        p = f.copy()
        for item, who, label in some[["item", "annotator", "label"]].itertuples(index=False):
            p[data.items.get_loc(item)] *= table[data.annotators.get_loc(who), :, data.classes.get_loc(label)]
        want += sign * np.log(p.sum(1)).sum()
    assert got == pytest.approx(want, rel=1e-6)


@pytest.mark.parametrize("crowd", ["one label an item", "one annotator"])
def test_where_no_label_can_be_left_out_items_are(crowd: str) -> None:
    name, engine = "raykar", "em"
    data, _ = clouds(160, 120, 1)
    if crowd == "one annotator":
        rows = data.frame().assign(annotator="a")
        data = crowdppl.Annotations.from_frame(rows, items=data.items, classes=range(3), features=data.features)
    found: Any = crowdppl.fit(name, data, inference=engine, seed=0, settings={"training": WILD})
    assert 1 <= found.model.training["stop_after"] < 40
    out = _left_out(data, 0)
    gone = set(data.frame().loc[out, "item"])
    assert len(gone) == 12 and not gone & set(data.frame().loc[~out, "item"])


def test_what_cannot_be_judged_is_refused() -> None:
    data, _ = clouds(60, 50, 1)
    alone = keep(data, np.arange(data.n_labels) == 0)
    with pytest.raises(DataError, match="patience=0"):
        crowdppl.fit("raykar", alone, inference="em", settings={"training": {"patience": 2}})
    with pytest.raises(MethodError, match="stop_after=50"):
        training_of({"stop_after": 50})


class Stopped(nn.Module):
    """A linear classifier whose user presses Ctrl-C at a step; counted in a buffer, which copies keep apart."""

    def __init__(self, at: int, learning: bool = True) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.layer, self.at, self.mode = nn.Linear(4, 3), at, learning
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        if self.training == self.mode and torch.is_grad_enabled():
            self.steps += 1
            if self.steps == self.at:
                raise KeyboardInterrupt
        found: Tensor = self.layer(x)
        return found


FAST = {"learning_rate": 0.1, "batch_size": 8, "epochs": 20}


@pytest.mark.parametrize(
    ("name", "engine", "at"), [("raykar", "em", 4), ("bayes_dgc", "vb", 40), ("ccem", "svi", 40)]
)
def test_ctrl_c_within_an_epoch_leaves_a_fit_that_agrees_with_itself(name: str, engine: str, at: int) -> None:
    data, _ = clouds(60, 50, 3)
    settings: dict[str, Any] = {"network": Stopped(at), "training": FAST}
    settings |= {"recipe": "plain"} if name == "bayes_dgc" else {}
    with pytest.warns(ConvergenceWarning, match=f"{engine} was stopped after {0 if at == 4 else 5} iterations$"):
        found: Any = crowdppl.fit(name, data, inference=engine, seed=0, settings=settings)
    assert found.diagnostics()["interrupted"] and not found.model.network.training
    gap = np.abs(found.probabilities().to_numpy() - predict(found, data, as_fitted=True))
    assert gap.max() < (1e-6 if engine != "vb" else 0.03)
    mute = data.items[data.votes().sum(1) == 0]
    np.testing.assert_allclose(found.probabilities().loc[mute], found.classify(data.features).loc[mute], atol=1e-6)


def test_a_fit_that_ends_while_the_network_learns_votes_says_so_and_lets_it_speak() -> None:
    data, _ = clouds(60, 50, 3)
    with pytest.warns(ConvergenceWarning, match="warm_up=3"):
        found = crowdppl.fit("raykar", data, inference="em", seed=0, settings={"training": {"epochs": 2}})
    np.testing.assert_allclose(found.probabilities(), found.predict(data), atol=1e-6)
    mute = data.items[data.votes().sum(1) == 0]
    np.testing.assert_allclose(found.probabilities().loc[mute], found.classify(data.features).loc[mute], atol=1e-6)


def test_annotators_stay_as_the_votes_made_them_until_the_network_has_a_say() -> None:
    """Iterations on labels alone would lead away from what the network is about to learn."""
    data, _ = clouds(60, 50, 3)

    def confusion(epochs: int) -> np.ndarray:
        settings = {"training": {"epochs": epochs, "warm_up": 3}}
        found: Any = crowdppl.fit("raykar", data, inference="em", seed=0, settings=settings)
        return np.asarray(found.result.sites["confusion"].mean)

    first, votes = confusion(1), data.votes()
    np.testing.assert_array_equal(confusion(3), first)
    assert np.abs(confusion(4) - first).max() > 0.02
    shares = pd.DataFrame(votes / votes.sum(1, keepdims=True).clip(1), index=data.items)
    rows = data.frame()
    for number, annotator in enumerate(data.annotators):
        mine = rows[rows["annotator"] == annotator]
        told = pd.get_dummies(mine["label"]).reindex(columns=data.classes, fill_value=0)
        counts = shares.loc[mine["item"]].to_numpy().T @ told.to_numpy(float)
        np.testing.assert_allclose(first[number], counts / counts.sum(1, keepdims=True), atol=0.01)
