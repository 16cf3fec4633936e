"""Several methods behind one posterior: what they say together of new items and after more labels, by hand."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.data.split import keep
from crowdppl.errors import ConvergenceWarning, MethodError
from crowdppl.inference.predict.update import predict
from crowdppl.inference.result import CalibrationMap, Correction
from crowdppl.posterior import Posterior
from crowdppl.results.correction import averaged, design_effect, members, softmax
from crowdppl.results.updating import OLDER
from crowdppl.simulation.crowd import Simulation
from tests.crowd import crowd

NAMES = ("bayesian_dawid_skene", "one_coin")
HALF = CalibrationMap(
    forecast=np.array([0, 2]),
    weights=np.array([0.75, 0.25]),
    annotators=np.array([1, 3]),
    scale=np.array([[0.5, 0.5], [1.0, 2.0]]),
    shift=np.array([[[0.3, 0.0, -0.3], [0.0, 0.0, 0.0]]] * 2),
    votes=np.array([[[0.5, 0.0], [1.0, -0.5]]] * 2),
    mix=None,
)
"""Two maps of two draws each, from the average and from the second method alone."""


def by_hand(found: dict[str, np.ndarray], average: np.ndarray, own: np.ndarray) -> np.ndarray:
    """HALF of the average, and of the second method to the power 1/3; labels of annotators 1 and 3, (N, 2, K)."""
    parts = []
    for p, number in ((average, 0), (found[NAMES[1]] ** (1 / 3), 1)):
        drawn = [(HALF.scale[number, d], HALF.shift[number, d], HALF.votes[number, d]) for d in range(2)]
        mode = tuple((one + other) / 2 for one, other in zip(*drawn, strict=True))
        for weight, (scale, shift, votes) in ((0.25, drawn[0]), (0.25, drawn[1]), (0.5, mode)):
            logit = scale * np.log(p) + shift + np.einsum("j,njk->nk", votes, own)
            parts.append(HALF.weights[number] * weight * softmax(logit))
    return np.sum(parts, 0)


def fitted(data: Annotations) -> dict[str, Posterior]:
    return {name: crowdppl.fit(name, data, inference="vb", seed=0) for name in NAMES}


def together(fits: dict[str, Posterior], **more: Any) -> Posterior:
    made = Correction(
        np.empty((0, 0)), {NAMES[0]: 0.25, NAMES[1]: 0.75}, {NAMES[0]: 0.5, NAMES[1]: 0.1}, {}, **more
    )
    return averaged(fits, made)


def mixed(found: dict[str, np.ndarray], labels: np.ndarray) -> np.ndarray:
    """A quarter of the first, discounted by .5, and three of the second, discounted by .1."""
    first, second = (design_effect(found[name], labels, rate) for name, rate in zip(NAMES, (0.5, 0.1), strict=True))
    return np.asarray(0.25 * first + 0.75 * second)


@pytest.fixture(scope="module")
def data() -> Annotations:
    return crowd(40, 6, 3, 5)


@pytest.fixture(scope="module")
def fits(data: Annotations) -> dict[str, Posterior]:
    return fitted(data)


@pytest.fixture(scope="module")
def posterior(fits: dict[str, Posterior]) -> Posterior:
    return together(fits)


def test_members_are_the_methods_as_they_are(fits: dict[str, Posterior], posterior: Posterior) -> None:
    found = posterior.members()
    assert list(found) == list(NAMES) and posterior.method == NAMES[1]
    for name, fit in found.items():
        assert fit.method == name and fit.correction is None
        np.testing.assert_array_equal(fit.probabilities(), fits[name].probabilities())
        np.testing.assert_array_equal(fit.confusion(), fits[name].confusion())
    assert list(members(found["one_coin"])) == ["one_coin"]


@pytest.mark.parametrize("truth_map", [None, HALF])
def test_new_items_are_averaged_as_those_of_the_fit(
    data: Annotations, fits: dict[str, Posterior], truth_map: CalibrationMap | None
) -> None:
    posterior = together(fits, truth_map=truth_map, gold=0 if truth_map is None else 10)
    new = pd.DataFrame({"item": ["x", "x", "x", "y"], "annotator": [0, 1, 2, 3], "label": [0, 0, 1, 2]})
    rows = Annotations.from_frame(new, like=data)
    said = {name: predict(fit, rows, as_fitted=True) for name, fit in posterior.members().items()}
    want = mixed(said, np.array([3, 1]))
    own = np.zeros((2, 2, 3))
    own[0, 0, 0] = own[1, 1, 2] = 1  # annotator 1 says 0 of x, and annotator 3 says 2 of y
    want = want if truth_map is None else by_hand(said, want, own)
    np.testing.assert_allclose(posterior.predict(new), want, atol=1e-12)


def test_items_that_come_again_are_discounted_by_all_their_labels(data: Annotations) -> None:
    first = np.arange(data.n_labels) % 5 < 3
    posterior = together(fitted(keep(data, first)))
    rest = data.frame()[~first][["item", "annotator", "label"]]
    found = posterior.update(rest)
    own = {name: fit.update(rest).probabilities().to_numpy() for name, fit in posterior.members().items()}
    labels = data.frame().groupby("item").size().reindex(found.data.items).to_numpy()
    assert labels.max() > found.data.votes().sum(1).max()
    np.testing.assert_allclose(found.probabilities(), mixed(own, labels), atol=1e-12)
    assert found.correction is not None and found.correction.weights == posterior.correction.weights
    np.testing.assert_allclose(found.uncorrected().probabilities(), own["one_coin"])
    assert found.correction is not None and found.correction.notes == (OLDER,)


@pytest.mark.slow
def test_so_they_are_where_they_stayed_away_from_an_update(data: Annotations, tmp_path: Path) -> None:
    table = data.frame()[["item", "annotator", "label"]]
    turn = table.groupby("item").cumcount()
    early = table["item"] < 20
    posterior = together(fitted(keep(data, ((turn < 2) | ~early).to_numpy())))
    twice = posterior.update(table[~early].assign(item=lambda t: t["item"] + 1000)).update(
        table[early & (turn >= 2)]
    )
    twice.save(tmp_path)
    for found in (twice, crowdppl.load(tmp_path)):
        given = found.memory.votes + found.data.votes().sum(1)
        np.testing.assert_array_equal(given, table.groupby("item").size().reindex(found.data.items))
        own = {name: fit.probabilities().to_numpy() for name, fit in found.members().items()}
        np.testing.assert_allclose(found.probabilities(), mixed(own, given), atol=1e-12)


def test_without_an_annotator_an_update_keeps_its_weights(data: Annotations, posterior: Posterior) -> None:
    new = pd.DataFrame({"item": ["x", "x", "y", "y"], "annotator": [0, 1, 0, 2], "label": [0, 1, 2, 2]})
    first = np.arange(data.n_labels) % 2 == 0
    updated = together(fitted(keep(data, first & (data.frame()["annotator"] != 0).to_numpy()))).update(new)
    found = updated.without([0])
    own = {name: fit.without([0]).probabilities().to_numpy() for name, fit in updated.members().items()}
    np.testing.assert_allclose(found.probabilities(), mixed(own, np.array([1, 1])), atol=1e-12)
    with pytest.raises(MethodError, match="before an update"):
        posterior.update(new).without([1])


def test_what_is_warned_of_in_an_update_bears_the_names_of_methods(posterior: Posterior) -> None:
    new = pd.DataFrame({"item": ["x", "x"], "annotator": [0, 1], "label": [0, 1]})
    with pytest.warns(ConvergenceWarning) as told:
        posterior.update(new, max_iterations=1)
    assert [str(w.message).partition(":")[0] for w in told] == list(NAMES)
    assert {w.filename for w in told} == {__file__}


def test_maps_and_members_come_back(fits: dict[str, Posterior], tmp_path: Path) -> None:
    posterior = together(fits, truth_map=HALF, gold=10)
    posterior.save(tmp_path)
    again = crowdppl.load(tmp_path)
    assert str(again.correction) == str(posterior.correction) and "10 known truths" in str(again.correction)
    new = pd.DataFrame({"item": ["x", "x"], "annotator": [0, 1], "label": [0, 1]})
    pd.testing.assert_frame_equal(again.predict(new), posterior.predict(new))
    pd.testing.assert_frame_equal(again.update(new).probabilities(), posterior.update(new).probabilities())


@pytest.mark.slow
def test_auto_is_as_honest_on_items_that_it_predicts() -> None:
    """Half of the items are fitted, the other half predicted: scores are near those of a fit to all."""
    design = crowdppl.random_design(800, 20, 6, classes=3, seed=1)
    one: Simulation = crowdppl.simulate(
        crowdppl.method("mixed_membership", prior_strength=20.0, prior_accuracy=0.85), design, seed=1
    )
    half = one.data.frame()["item"].isin(one.data.items[:400])
    table = one.data.frame()[["item", "annotator", "label"]]
    fitted = Annotations.from_frame(table[half], classes=one.data.classes, annotators=one.data.annotators)
    found = crowdppl.fit("auto", fitted, seed=0)
    plain = crowdppl.fit("bayesian_dawid_skene", fitted, inference="vb", seed=0).predict(table[~half])
    said, whole = found.predict(table[~half]), crowdppl.fit("auto", one.data, seed=0).probabilities()

    def score(p: pd.DataFrame) -> float:
        code = p.columns.get_indexer(one.truth.reindex(plain.index))
        return float(-np.log(p.reindex(plain.index).to_numpy()[np.arange(len(plain)), code]).mean())

    assert score(said) == pytest.approx(score(whole), abs=0.03) and score(said) < score(plain) - 0.1
