"""Baselines against brute force, limits, simulated adversaries and figures of other implementations."""

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import betaln, gammaln
from scipy.stats import beta, chi2

import crowdppl
from crowdppl import baselines
from crowdppl.baselines import adversaries
from crowdppl.baselines.adversaries import agreements
from crowdppl.baselines.aggregation import class_votes
from crowdppl.data.annotations import Annotations
from crowdppl.errors import DataError, MethodError, NoProbabilitiesError
from crowdppl.plots.evaluation import plot_reliability


def matrix(labels: np.ndarray, **options: Any) -> Annotations:
    """Annotations of labels[item, annotator], without those that are NaN."""
    item, annotator = np.nonzero(~np.isnan(labels))
    label = labels[item, annotator]
    whole = options.get("kind") == "real"
    more: Any = {"items": range(len(labels)), "annotators": range(labels.shape[1])}
    return Annotations.from_arrays(item, annotator, label if whole else label.astype(int), **more, **options)


def noisy(seed: int, items: int = 30, annotators: int = 6, classes: int = 2) -> np.ndarray:
    """Labels of annotators who are right with probability .4 to .9, and give four of five."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(classes, size=items)
    right = rng.random((items, annotators)) < np.linspace(0.4, 0.9, annotators)
    labels = np.where(right, truth[:, None], rng.integers(classes, size=(items, annotators))).astype(float)
    labels[rng.random(labels.shape) < 0.2] = np.nan
    return labels


def signs(labels: np.ndarray) -> np.ndarray:
    return np.nan_to_num(np.where(np.isnan(labels), 0, np.where(labels > 0, 1, -1)))


@pytest.mark.parametrize("name", sorted({*baselines.METHODS} - {"max_margin_votes"}))
@pytest.mark.parametrize("classes", [2, 3])
def test_annotators_who_are_alike_vote_by_majority(name: str, classes: int) -> None:
    """Each pattern of labels comes with all its rotations, so that annotators cannot be told apart."""
    rng = np.random.default_rng(3)
    truth = np.arange(12) % classes
    wrong = np.arange(5) < rng.integers(3, size=12)[:, None]
    patterns = np.where(wrong, (truth[:, None] + 1) % classes, truth[:, None])
    labels = np.concatenate([np.roll(patterns, turn, axis=1) for turn in range(5)]).astype(float)
    found = baselines.METHODS[name](matrix(labels))
    votes = (labels[:, :, None] == np.arange(classes)).sum(1)
    assert (found.labels()["label"] == votes.argmax(1)).all()
    assert found.weights == pytest.approx(np.full(5, found.weights[0]), abs=1e-3)


def test_ghosh_is_the_first_singular_vector() -> None:
    labels = noisy(1)
    labels[:, 5] = 0
    table = signs(labels)
    for centred in (False, True):
        x = table - centred * table.mean(0)
        left, _, right = np.linalg.svd(x)
        turn = np.sign((right[0][right[0] > 0] ** 2).sum() - 0.5)
        assert (baselines.ghosh(matrix(labels), centred=centred).labels()["label"] == (turn * left[:, 0] > 0)).all()


def test_ghosh_turns_those_who_reverse_the_scale() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(4, size=200)
    near = np.clip(truth + rng.choice([-1, 0, 1], p=[0.1, 0.8, 0.1], size=(5, 200)), 0, 3)
    labels = np.vstack([near, 3 - truth, rng.integers(4, size=(3, 200))]).T.astype(float)
    found = baselines.ghosh(matrix(labels, kind="ordinal"))
    assert (found.labels()["label"] == truth).mean() > 0.95
    assert found.weights[5] < 0 < found.weights[:5].min()


def test_a_grade_is_the_first_threshold_that_the_item_lies_below() -> None:
    labels = noisy(4, classes=3)
    above = [baselines.kos(matrix((labels > g) + 0 * labels)).labels()["label"] == 1 for g in range(2)]
    wanted = np.where(above[0], np.where(above[1], 2, 1), 0)
    assert (baselines.kos(matrix(labels, kind="ordinal")).labels()["label"] == wanted).all()
    against = [baselines.kos(matrix((labels == g) + 0 * labels)).scores[:, 1] for g in range(3)]
    rest = baselines.kos(matrix(labels))
    assert not rest.probabilistic
    assert (rest.labels()["label"] == baselines.kos(matrix(labels), split="rest").labels()["label"]).all()
    assert len(against) == rest.scores.shape[1]


def test_eigenratio_is_a_ratio_of_first_eigenvectors() -> None:
    labels = noisy(2, annotators=5)
    labels[:15, 0], labels[15:, 1] = np.nan, np.nan
    table = signs(labels)
    shared = np.abs(table).T @ np.abs(table)
    rates = np.divide(table.T @ table, shared, out=np.zeros(shared.shape), where=shared > 0)
    one, seen = (np.linalg.eigh(x)[1][:, -1] for x in (rates, (shared > 0) * 1.0))
    weight = one * np.sign(one.sum()) / np.abs(seen)
    found = baselines.eigenratio(matrix(labels))
    assert (found.labels()["label"] == (table @ weight > 0)).all()
    assert np.corrcoef(found.weights, weight)[0, 1] == pytest.approx(1)


def test_kos_sends_messages_that_leave_the_receiver_out() -> None:
    table = signs(labels := noisy(5, items=8, annotators=4))
    edges = [(i, a) for i, a in product(range(8), range(4)) if table[i, a]]
    told = dict.fromkeys(edges, 1.0)
    for _ in range(3):
        vote = {(i, a): sum(table[i, b] * told[i, b] for j, b in edges if j == i and b != a) for i, a in edges}
        told = {(i, a): sum(table[j, a] * vote[j, a] for j, b in edges if b == a and j != i) for i, a in edges}
    side = np.array([sum(table[i, a] * told[i, a] for j, a in edges if j == i) for i in range(8)])
    found = baselines.kos(matrix(labels), iterations=3).scores
    told = np.abs(side) > 1e-9
    assert told.sum() >= 7
    assert (found[:, 1] - found[:, 0])[told] == pytest.approx(np.sign(side)[told])


def test_message_passing_is_exact_on_a_tree() -> None:
    """No two annotators share two items; a Beta(2, 1) accuracy is integrated out for each of the 64 truths."""
    pairs = [(0, 0, 1), (1, 0, 1), (2, 0, 0), (2, 1, 1), (3, 1, 1), (4, 1, 0), (4, 2, 0), (5, 2, 0), (5, 3, 1)]
    labels = np.full((6, 4), np.nan)
    for item, annotator, label in pairs:
        labels[item, annotator] = label
    total = np.zeros((6, 2))
    for truth in product((0, 1), repeat=6):
        log = 0.0
        for annotator in range(4):
            own = [label == truth[item] for item, who, label in pairs if who == annotator]
            log += betaln(2 + sum(own), 1 + len(own) - sum(own)) - betaln(2, 1)
        total[np.arange(6), truth] += np.exp(log)
    found = baselines.message_passing(matrix(labels))
    assert found.converged
    assert found.probabilities().to_numpy() == pytest.approx(total / total.sum(1, keepdims=True), abs=1e-6)


@pytest.mark.parametrize("name", ["crh", "catd"])
@pytest.mark.parametrize("kind", ["real", "nominal"])
def test_truths_are_those_under_the_weights_that_they_give(name: str, kind: str) -> None:
    rng = np.random.default_rng(2)
    if kind == "real":
        labels = rng.normal(size=(4, 1)) + rng.normal(size=(4, 3)) * [0.5, 1.0, 2.0]
        labels[2:, 2] = np.nan
    else:
        labels = noisy(6, classes=3)
    there = ~np.isnan(labels)
    found = baselines.METHODS[name](matrix(labels, kind=kind))
    if kind == "real":
        errors = (labels - found.truth()["estimate"].to_numpy()[:, None]) ** 2
        spread = np.nanstd(labels, axis=1, keepdims=True)
    else:
        errors = np.where(there, labels != found.labels()["label"].to_numpy()[:, None], np.nan)
        spread = np.ones((len(labels), 1))
    if name == "crh":
        loss = np.maximum(np.nanmean(errors / spread, axis=0), 1e-12)
        weight = np.log(loss.sum() / loss)
    else:
        weight = chi2.ppf(0.025, there.sum(0)) / np.maximum(np.nansum(errors, axis=0), 1e-12)
    if kind == "real":
        again = np.nansum(weight * labels, axis=1) / (weight * there).sum(1)
        assert found.truth()["estimate"].to_numpy() == pytest.approx(again, abs=1e-6)
        assert np.abs(again - np.nanmean(labels, axis=1)).max() > 0.01
    else:
        assert found.weights == pytest.approx(weight)
        again = np.stack([np.nansum(weight * (labels == c), axis=1) for c in range(3)], 1)
        assert found.scores == pytest.approx(again)
    assert found.converged


def test_mmsr_finds_skills_of_which_agreement_is_the_product_whatever_few_claim() -> None:
    skill = np.linspace(0.3, 0.9, 12)
    product = np.outer(skill, skill)
    there = ~np.eye(12, dtype=bool)
    size, converged, _ = adversaries._sizes(product, there, 0, 1e-3, 1000)
    assert converged
    assert size == pytest.approx(skill, abs=1e-5)
    product[:2], product[:, :2] = 1.0, 1.0  # two who agree with everybody
    assert adversaries._sizes(product, there, 2, 1e-3, 1000)[0][2:] == pytest.approx(skill[2:], abs=0.05)
    assert np.abs(adversaries._sizes(product, there, 0, 1e-3, 1000)[0][2:] - skill[2:]).max() > 0.05


def test_agreement_is_the_share_of_common_items() -> None:
    labels = noisy(7, items=12, annotators=4, classes=3)
    found, shared = agreements(class_votes(matrix(labels), "mmsr"))
    for a, b in product(range(4), repeat=2):
        both = ~np.isnan(labels[:, a]) & ~np.isnan(labels[:, b]) & (a != b)
        assert shared[a, b] == both.sum()
        assert found[a, b] == pytest.approx((labels[both, a] == labels[both, b]).mean() if both.any() else 0)


def test_colluders_are_outvoted() -> None:
    """Ten of 25 give the same labels, mostly wrong: majority vote follows them, mmsr does not."""
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=400)
    honest = np.where(rng.random((400, 15)) < 0.75, truth[:, None], 1 - truth[:, None])
    lie = np.where(rng.random(400) < 0.9, 1 - truth, truth)
    labels = np.column_stack([honest, np.tile(lie[:, None], 10)]).astype(float)
    found = baselines.mmsr(matrix(labels), corrupted=10)
    votes = (labels.mean(1) > 0.5).astype(int)
    assert (found.labels()["label"] == truth).mean() > (votes == truth).mean() + 0.15
    assert found.weights[15:].max() < 0 < found.weights[:15].min()


def test_max_margin_votes_draw_from_their_posterior() -> None:
    """Two annotators, four items, three classes: confusions and classes are integrated out, weights on a grid.

    The sampler holds rivals while it draws weights, as its authors do, so that it is only near. Without the hinge
    classes could be swapped, and all shares would be 1/3.
    """
    labels = np.array([[0, 0], [1, 1], [0, 2], [1, np.nan]])
    margin, cost, grid = 1.5, 0.6, np.linspace(-5, 5, 81)
    eta = np.stack(np.meshgrid(grid, grid), -1).reshape(-1, 2)
    prior = np.exp(-(eta**2).sum(1) / 2)
    votes = np.stack([(labels == code) @ eta.T for code in range(3)])  # (K, N, grid)
    rival = np.stack([np.delete(votes, code, 0).max(0) for code in range(3)])
    hinge = np.exp(-2 * cost * np.maximum(0, margin - votes + rival))
    total = np.zeros((4, 3))
    for truth in product(range(3), repeat=4):
        log = np.log((prior * hinge[truth, np.arange(4)].prod(0)).sum())
        log += gammaln(1 + np.bincount(truth, minlength=3)).sum()
        for annotator, code in product(range(2), range(3)):
            own = labels[np.array(truth) == code, annotator]
            cells = (own[:, None] == np.arange(3)).sum(0)
            log += gammaln(1 + cells).sum() - gammaln(3 + cells.sum())
        total[np.arange(4), truth] += np.exp(log)
    wanted = total / total.sum(1, keepdims=True)
    settings: Any = {"margin": margin, "cost": cost, "sweeps": 1500, "burn_in": 100, "seed": 0}
    found = baselines.max_margin_votes(matrix(labels), **settings)
    assert found.scores == pytest.approx(wanted, abs=0.07)
    assert wanted.max() > 0.85


def test_soft_votes_weigh_examples() -> None:
    votes = [["a", "a", "b"], ["b", "b", "b"]]
    data = Annotations.from_matrix(pd.DataFrame(votes, index=["x", "y"], columns=["ann", "bob", "cid"]))
    kept = baselines.soft_votes(data)
    assert kept.to_numpy().tolist() == [["x", "a", 2 / 3], ["y", "b", 1.0]]
    paired = baselines.soft_votes(data, certainty="beta", pairing=True)
    sure = [beta.sf(0.5, 3, 2), beta.sf(0.5, 2, 3), beta.sf(0.5, 4, 1)]
    assert paired[["item", "label"]].to_numpy().tolist() == [["x", "a"], ["x", "b"], ["y", "b"]]
    assert paired["weight"].to_numpy() == pytest.approx(sure)
    with pytest.raises(MethodError, match="frequency"):
        baselines.soft_votes(data, certainty="sure")  # type: ignore[arg-type]


def test_evaluate_has_the_scores_of_labels_alone() -> None:
    crowd = crowdppl.simulate_annotators([0, 1, 2] * 40, {"hammer": 4, "spammer": 2}, seed=1)
    found = baselines.catd(crowd.data)
    scores = crowdppl.evaluate(found, crowd.truth, bootstrap=50)
    labels = found.labels()["label"]
    assert scores.accuracy == pytest.approx((labels == crowd.truth[labels.index]).mean(), abs=0.03)
    assert 0.5 < scores.annotator_spearman <= 1
    assert set(scores.intervals().index) == set(scores.scores)
    assert "log_score" not in scores.scores
    for name in ("log_score", "ece", "bins", "risk_coverage"):
        with pytest.raises(NoProbabilitiesError, match=f"{name} needs probabilities"):
            getattr(scores, name)
    full = crowdppl.evaluate(baselines.message_passing(two()), {"x": 1, "y": 0})
    assert full.log_score > 0


def two() -> Annotations:
    return Annotations.from_arrays(["x", "x", "y", "y"], ["ann", "bob"] * 2, [1, 1, 0, 1])


def test_what_needs_probabilities_is_refused_by_name() -> None:
    found = baselines.crh(two())
    for use in (found.probabilities, lambda: found.decide, lambda: plot_reliability(found, {"x": 1})):
        with pytest.raises(NoProbabilitiesError, match="crh has no probabilities"):
            use()  # type: ignore[operator]
    assert not hasattr(found, "save")


def test_numbers_are_scored_without_intervals() -> None:
    rng = np.random.default_rng(1)
    truth = rng.normal(size=40)
    labels = truth[:, None] + rng.normal(size=(40, 4)) * [0.1, 0.5, 1.0, 1.5]
    scores = crowdppl.evaluate(baselines.crh(matrix(labels, kind="real")), dict(enumerate(truth)))
    assert np.isnan(scores.coverage)
    assert scores.rmse < np.sqrt(((labels.mean(1) - truth) ** 2).mean())  # type: ignore[union-attr]


def test_items_and_annotators_without_labels_are_there() -> None:
    data = Annotations.from_arrays(
        ["x", "x", "y", "y"],
        ["ann", "bob"] * 2,
        [1, 1, 0, 1],
        items=["w", "x", "y"],
        annotators=["all", "ann", "bob"],
    )
    for name, method in baselines.METHODS.items():
        found = method(data)
        assert found.labels()["votes"].tolist() == [0, 2, 2], name
        assert found.labels()["tied"].iloc[0], name
        assert np.isnan(found.weights[0]), name


Call = Callable[[Annotations], Any]


@pytest.mark.parametrize("name", sorted(baselines.METHODS))
def test_what_a_method_does_not_take_is_refused_by_name(name: str) -> None:
    method: Call = baselines.METHODS[name]
    for kind in ("pair", "ranking", "angle", "set"):
        with pytest.raises(MethodError, match=f"{name} takes .* kind='{kind}'; fit 'auto'"):
            method(crowdppl.datasets.example(kind))
    if name not in ("crh", "catd"):
        with pytest.raises(MethodError, match=f"{name} takes classes"):
            method(crowdppl.datasets.example("real"))
    with pytest.raises(DataError, match="make annotations"):
        method("data")  # type: ignore[arg-type]
    if name in ("crh", "catd"):
        with pytest.raises(MethodError, match="one gave all labels"):
            method(Annotations.from_arrays(["x", "y"], ["ann"] * 2, ["a", "b"]))
    if name == "mmsr":
        with pytest.raises(MethodError, match="no two share one"):
            method(Annotations.from_arrays(["x", "y"], ["ann", "bob"], ["a", "b"]))


FIGURES = {
    "bluebirds": {"ghosh": 72.22, "centred": 88.89, "eigenratio": 72.22},
    "dogs": {"ghosh": 80.42, "centred": 68.28, "eigenratio": 82.78},
    "rte": {"ghosh": 50.88, "centred": 60.25, "eigenratio": 91.00},
    "web": {"ghosh": 93.22, "centred": 57.07, "eigenratio": 75.16},
}
"""Accuracies of other implementations by thresholds; the centred form is what they call KOS."""


@pytest.mark.parametrize("name", FIGURES)
def test_known_figures(name: str, real_data: Path) -> None:
    rows = pd.read_csv(real_data / name / "answers.csv").drop_duplicates()
    gold = pd.read_csv(real_data / name / "truth.csv").set_index("item")["label"]
    gold = gold[gold.index.isin(rows["item"])]
    data = Annotations.from_frame(rows, classes=range(int(max(rows["label"].max(), gold.max())) + 1))
    more: Any = {"split": "thresholds"}
    found = {
        "ghosh": baselines.ghosh(data, **more),
        "centred": baselines.ghosh(data, centred=True, **more),
        "eigenratio": baselines.eigenratio(data, **more),
    }
    accuracy = {method: 100 * crowdppl.evaluate(x, gold).accuracy for method, x in found.items()}
    assert accuracy == pytest.approx(FIGURES[name], abs=0.01)
