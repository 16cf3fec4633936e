"""Masks as arrays: what is read, refused and given back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crowdppl
from crowdppl import Annotations
from crowdppl.errors import DataError, MethodError


def drawn(height: int = 12, width: int = 15, people: int = 4, flips: float = 0.1, k: int = 2) -> tuple[Any, Any]:
    """A truth with three regions, and masks of it by people who err pixel by pixel."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:height, :width]
    truth = ((y > 4) & (x > 6)).astype(int) + (k - 2) * ((y > 8) & (x < 4))
    noise = rng.integers(1, k, (people, height, width)) if k > 2 else np.ones((people, height, width), int)
    masks = np.where(rng.random(noise.shape) < flips, (truth + noise) % k, truth)
    return truth, {f"p{n}": mask for n, mask in enumerate(masks)}


def test_pixels_are_items_linked_with_their_neighbours() -> None:
    truth, masks = drawn(4, 5)
    data = Annotations.from_masks([masks, {"p9": truth[:2]}])
    assert (data.n_items, data.n_annotators, data.n_labels) == (4 * 5 + 2 * 5, 5, 4 * 20 + 10)
    table, edges = data.item_covariates, data.edges
    assert table is not None
    assert edges is not None
    assert len(edges) == (4 * 4 + 3 * 5) + (2 * 4 + 5)
    assert (table["image"].to_numpy()[edges[:, 0]] == table["image"].to_numpy()[edges[:, 1]]).all()
    steps = np.abs(np.diff(table[["row", "column"]].to_numpy()[edges], axis=1)).sum((1, 2))
    assert (steps == 1).all()
    votes = data.votes().reshape(-1, 2)
    assert (votes[:20, 1].reshape(4, 5) == np.sum([*masks.values()], 0)).all()


@pytest.mark.parametrize("method", ["dawid_skene", "potts_dawid_skene"])
def test_arrays_come_back_as_they_were_given(method: str, tmp_path: Path) -> None:
    truth, masks = drawn(k=3)
    letters = np.array(["a", "b", "c"])
    named = {
        "left": {n: letters[x] for n, x in masks.items()},
        "right": {"p0": np.full((2, 3), "b")},
    }
    posterior = crowdppl.fit(method, Annotations.from_masks(named), inference="em", seed=0, settings=firm(method))
    posterior.save(tmp_path / "fit")
    for found in (posterior.masks(), crowdppl.load(tmp_path / "fit").masks()):
        assert [*found] == ["left", "right"]
        assert found["left"].probabilities.shape == (12, 15, 3)
        assert np.allclose(found["left"].probabilities.sum(-1), 1)
        assert (found["left"].labels == letters[truth]).mean() > 0.92
        assert found["right"].labels.shape == (2, 3)


def firm(method: str) -> dict[str, Any]:
    return {"prior_strength": 6.0} if method.startswith("potts") else {}


def test_a_field_corrects_pixels_that_most_err_on() -> None:
    truth, masks = drawn(40, 40, 3, 0.3)
    data = Annotations.from_masks(masks)
    alone, linked = (
        crowdppl.fit(name, data, inference="vb", seed=0).masks()[0].labels
        for name in ("bayesian_dawid_skene", "potts_dawid_skene")
    )
    assert (linked != truth).mean() < 0.25 * (alone != truth).mean()


def test_pixels_may_be_missing_and_masks_bool() -> None:
    truth, masks = drawn(4, 5)
    masks["p0"] = np.where(truth == 1, 255, masks["p0"])
    data = Annotations.from_masks(masks, missing=255)
    assert data.n_labels == 80 - truth.sum()
    assert data.classes.tolist() == [0, 1]
    holes = {"p0": np.array([[0.0, np.nan], [1.0, 1.0]])}
    assert Annotations.from_masks(holes, missing=np.nan).n_labels == 3
    boolean = {name: np.isin(mask, 1) for name, mask in masks.items()}
    assert Annotations.from_masks(boolean).classes.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("masks", "text"),
    [
        (
            {"ann": np.zeros((3, 4)), "bob": np.zeros((3, 5))},
            r"different sizes: \(3, 4\) by 'ann', \(3, 5\) by 'bob'",
        ),
        ({"ann": np.zeros((3, 4, 2))}, r"by 'ann' has shape \(3, 4, 2\); give \(H, W\)"),
        (np.zeros((3, 4)), "masks are .*; give {annotator"),
        ([], "masks are .*; give {annotator"),
        ([{}], "masks are .*; give {annotator"),
    ],
)
def test_what_are_no_masks_is_refused(masks: Any, text: str) -> None:
    with pytest.raises(DataError, match=text):
        Annotations.from_masks(masks)


def test_other_labels_have_no_masks() -> None:
    posterior = crowdppl.fit("majority_vote", crowdppl.anaesthetists())
    with pytest.raises(MethodError, match="no masks; read masks by"):
        posterior.masks()


def test_pixels_with_the_same_labels_are_fitted_once() -> None:
    """Patterns, and not pixels, take the time of a pass: a wide image costs no more of it than a small one."""
    from crowdppl.inference.options import Options
    from crowdppl.inference.problem import build_problem, model_runs

    _, masks = drawn(60, 60, 4)
    data, model = Annotations.from_masks(masks), crowdppl.method("dawid_skene")
    with model_runs(model, data):
        problem = build_problem(model, data, Options())
        found = problem.distinct(problem.blocks[0])
    assert found is not None
    assert found[0].n_items == 2**4
