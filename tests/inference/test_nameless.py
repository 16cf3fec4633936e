"""vb says the same whatever things are called, intervals included, and little of it rests on the seed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure

import crowdppl
from crowdppl.inference.draws import draws_of
from crowdppl.inference.nameless import Nameless
from crowdppl.inference.options import Options
from crowdppl.inference.problem import Problem
from crowdppl.inference.result import SiteResult
from crowdppl.inference.vb import fit
from crowdppl.posterior import Posterior
from models.bayesian_dawid_skene import BayesianDawidSkene
from tests.crowd import annotations

pytestmark = pytest.mark.filterwarnings("ignore::crowdppl.errors.CrowdpplWarning")
METHODS = [
    "multinomial",
    "one_coin",
    "class_coin",
    "bayesian_dawid_skene",
    "hierarchical_dawid_skene",
    "glad",
    "item_difficulty",
    "mace",
    "community",
    "dependent_clusters",
    "ebcc",
    "minimax_entropy",
    "mixed_membership",
    "ordinal",
]


def backwards(names: pd.Series) -> dict[str, str]:
    """Names that sort the other way round."""
    old = sorted(names.unique())
    return {name: f"z{len(old) - i:03d}" for i, name in enumerate(old)}


def told(posterior: Posterior, back: dict[str, str]) -> list[pd.DataFrame]:
    """What is said of annotators and classes, under the old names."""
    quality = posterior.annotators().select_dtypes(float).rename(index=back)
    share = posterior.prevalence().select_dtypes(float).rename(index=back)
    return [x.sort_index() for x in (quality, share)]


@pytest.mark.parametrize("method", METHODS)
def test_names_of_items_and_annotators_move_nothing(method: str) -> None:
    rows = crowdppl.anaesthetists().frame().astype(str)
    settled = {"inference": "vb", "seed": 3, "tolerance": 1e-9}
    want = crowdppl.fit(method, crowdppl.Annotations.from_frame(rows), **settled)
    for role in ("item", "annotator"):
        new = backwards(rows[role])
        other = crowdppl.Annotations.from_frame(rows.assign(**{role: rows[role].map(new)}))
        back = {b: a for a, b in new.items()}
        found = told(crowdppl.fit(method, other, **settled), back)
        for one, two in zip(told(want, {}), found, strict=True):
            assert list(one.index) == list(two.index)
            np.testing.assert_allclose(one, two, rtol=0, atol=1e-6, err_msg=role)


@pytest.mark.parametrize("method", [name for name in METHODS if name not in ("ordinal", "mixed_membership")])
def test_nor_do_names_of_classes(method: str) -> None:
    """But where the order of classes means something, or draws are of pairs of them that are listed in order."""
    rows = crowdppl.anaesthetists().frame().astype(str)
    new = backwards(rows["label"])
    other = crowdppl.Annotations.from_frame(rows.assign(label=rows["label"].map(new)))
    settled = {"inference": "vb", "seed": 3, "tolerance": 1e-9}
    one = told(crowdppl.fit(method, crowdppl.Annotations.from_frame(rows), **settled), {})
    two = told(crowdppl.fit(method, other, **settled), {b: a for a, b in new.items()})
    for a, b in zip(one, two, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-6)


def test_annotators_whom_labels_cannot_tell_apart_are_drawn_apart() -> None:
    """Six of them answer one item alike: their tables are independent of each other, as vb has them."""
    data = annotations([(0, a, 0) for a in range(6)] + [(1, 6, 1)], 2, annotators=range(7))
    whole = data.blocks[0].to("cpu", torch.float64)
    problem = Problem(BayesianDawidSkene(), [whole], Options(), lambda: whole)
    assert len(np.unique(problem.signatures.annotators)) == 2
    row = SiteResult(
        "confusion", ("annotator", "truth", "label"), "dirichlet", {"concentration": np.ones((7, 2, 2))}
    )
    drawn = draws_of(problem, {"confusion": row}, data.order, 400, Options().generator(8), nameless=True)
    shares = drawn["confusion"].exp()[..., 0, 0].reshape(400, 7)
    assert np.abs(np.corrcoef(shares.T) - np.eye(7)).max() < 0.2


def test_an_order_of_drawing_and_back() -> None:
    x = torch.arange(24.0).reshape(2, 3, 4)
    nameless = Nameless([torch.tensor([2, 0, 1]), torch.tensor([3, 1, 0, 2])])
    there = nameless.there(x)
    assert there[1, 0, 0] == x[1, 2, 3]
    assert torch.equal(nameless.back(there), x) and not torch.equal(there, x)
    assert torch.equal(Nameless(()).there(x), x)


@pytest.mark.parametrize("method", ["glad", "item_difficulty"])
def test_small_data_leave_less_to_the_seed(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root mean square deviation over seeds, of what eight base draws give and of what is taken."""

    def rough() -> float:
        found = [
            crowdppl.fit(method, crowdppl.anaesthetists(), inference="vb", seed=seed).result.probabilities
            for seed in range(4)
        ]
        return float(np.sqrt(np.var(found, axis=0, ddof=1).mean()))

    many = rough()
    monkeypatch.setattr(fit, "MOST", 8)
    assert many < 0.6 * rough() and many < 0.004


def test_iterations_of_both_parts_are_counted_and_told() -> None:
    seen: list[int] = []
    posterior = crowdppl.fit(
        "glad", crowdppl.anaesthetists(), inference="vb", seed=0, callback=lambda t, _: seen.append(t)
    )
    said = posterior.diagnostics()
    assert seen == list(range(said["iterations"])) and said["converged"]
    assert 1 < len(said["objectives"]) < said["iterations"]
    drawn = posterior.plot_trace(ax=Figure().subplots()).lines[0].get_xdata()
    assert list(drawn) == list(range(said["iterations"] - len(said["objectives"]) + 1, said["iterations"] + 1))
    few = crowdppl.fit("glad", crowdppl.anaesthetists(), inference="vb", seed=0, max_iterations=9).diagnostics()
    assert few["iterations"] == 9 and not few["converged"]
