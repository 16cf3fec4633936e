"""Leave-one-out from one fit, against refits without the label or the item, and against sums by hand."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch

import crowdppl
from crowdppl import Annotations
from crowdppl.data.split import keep
from crowdppl.errors import MethodError, ParetoWarning
from crowdppl.inference.predict.cavity import log_left_out
from crowdppl.inference.predict.held_out import given_the_rest, left_out
from crowdppl.inference.predict.predictive import refit
from crowdppl.posterior import Posterior
from crowdppl.primitives import annotate, plates, truth
from crowdppl.results.arviz import as_groups
from crowdppl.results.leave_one_out import DRAWS, MAX_PARETO_K, leave_one_out
from tests.crowd import annotations, crowd


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    data = crowd(n_items=60, n_annotators=5, labels_each=4, seed=3)
    return crowdppl.fit("bayesian_dawid_skene", data, inference="gibbs", chains=8, draws=300, warmup=50)


@pytest.mark.slow
def test_labels_score_as_after_refits_without_them(posterior: Posterior) -> None:
    found = leave_one_out(posterior, "label")
    data = posterior.data
    for row in (0, 131):
        out = np.arange(data.n_labels) == row
        wanted = left_out(refit(posterior, keep(data, ~out)), data, out)[0][0]
        assert found.values["log_p"].iloc[row] == pytest.approx(wanted, abs=0.05)


@pytest.mark.slow
def test_items_score_as_after_refits_without_them(posterior: Posterior) -> None:
    found = leave_one_out(posterior, "item")
    data = posterior.data
    item = data.frame()["item"].to_numpy()
    out = item == 33
    wanted = left_out(refit(posterior, keep(data, ~out)), data, out, alone=False)[2][0]
    assert found.values.loc[33, "log_p"] == pytest.approx(wanted, abs=0.1)


def test_points_and_other_units_are_refused(posterior: Posterior) -> None:
    with pytest.raises(MethodError, match="unit"):
        leave_one_out(posterior, "annotator")
    with pytest.raises(MethodError, match="method"):
        leave_one_out(posterior, method="loo")
    with pytest.raises(MethodError, match="heldout_score"):
        leave_one_out(crowdppl.fit("one_coin", posterior.data, inference="em"), method="psis")


def test_a_label_that_decides_its_own_weight_is_warned_of() -> None:
    data = crowd(n_items=6, n_annotators=3, n_classes=3, labels_each=2, seed=1)
    model = crowdppl.method("bayesian_dawid_skene", prior_strength=0.15, prevalence_strength=0.1)
    posterior = crowdppl.fit(model, data, inference="gibbs", chains=4, draws=250, warmup=50)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = leave_one_out(posterior, "label")
    bad = int((found.values["pareto_k"] > MAX_PARETO_K).sum())
    assert bad > 0 and f"{bad} unreliable" in repr(found)
    (warning,) = said
    assert warning.category is ParetoWarning and warning.filename == __file__
    assert f"{bad} of 12 labels" in str(warning.message)


def test_the_limit_of_the_shape_is_that_of_arviz() -> None:
    import arviz as az
    import xarray as xr

    drawn = xr.Dataset({"one": (("chain", "draw"), np.zeros((1, DRAWS)))})
    logs = xr.Dataset({"unit": (("chain", "draw", "n"), np.random.default_rng(0).normal(size=(1, DRAWS, 5)))})
    assert az.loo(as_groups({"posterior": drawn, "log_likelihood": logs}), reff=1.0).good_k == pytest.approx(
        MAX_PARETO_K
    )


def test_an_item_alone_has_its_own_difficulty() -> None:
    alone = crowdppl.fit(
        "glad", annotations([(0, 0, 0), (0, 1, 0), (0, 2, 1)], 2), inference="vb", max_iterations=9
    )
    for unit, n in (("label", 3), ("item", 1)):
        found = leave_one_out(alone, unit).values["log_p"]
        assert len(found) == n and (found < 0).all()


SETTLED: dict[str, Any] = {"tolerance": 1e-13, "max_iterations": 5000}
ABSTAINS = 3
"""The answer of those who decline, in the data of ``known_crowd``."""


def known_crowd(tells: bool, seed: int = 4) -> tuple[Annotations, np.ndarray]:
    """Three classes and an abstention (that tells of them or not), every truth known; two never abstain."""
    rng = np.random.default_rng(seed)
    true = rng.integers(3, size=30)
    labels = []
    for i, k in enumerate(true):
        for a in rng.choice(5, 3, replace=False):
            right = k if rng.random() < 0.7 else rng.integers(3)
            labels.append((i, int(a), int(ABSTAINS if a < 3 and rng.random() < 0.3 else right)))
    data = annotations(labels, 3, abstentions=[ABSTAINS], informative_abstentions=tells)
    return data.with_gold(dict(enumerate(true.tolist()))), true


def rows_of(data: Annotations) -> list[tuple[int, int, int]]:
    rows = data.frame()
    columns = (rows[name].to_numpy().astype(int) for name in ("item", "annotator", "label"))
    return list(zip(*columns, strict=True))


def counted(data: Annotations, true: np.ndarray) -> np.ndarray:
    """How often each annotator gave each answer to items of each class: (A, K, L)."""
    n = np.zeros((data.n_annotators, data.n_classes, data.n_answers))
    for i, a, answer in rows_of(data):
        n[a, true[i], answer] += 1
    return n


def entry(counts: np.ndarray, at: int, prior: np.ndarray, point: bool) -> float:
    """The expected entry of a Dirichlet after counts; at a point its mode, or without counts the prior's mean."""
    c = prior + counts - point
    return float(prior[at] / prior.sum() if c.sum() == 0 else c[at] / c.sum())


def chance(n: np.ndarray, k: int, answer: int, ways: np.ndarray | None, prior: np.ndarray, point: bool) -> float:
    """p(answer | truth k) of an annotator of whom n (K, L) others are counted; a coin where the prior is (2,).

    ``ways`` counts classes given and abstentions, of items that say how often one declines here.
    """
    way = 1.0 if ways is None else entry(ways, int(answer == ABSTAINS), np.ones(2), point)
    if answer == ABSTAINS:
        return way
    if prior.shape == (2,):
        hits, given = np.trace(n), n[:, :3].sum()
        coin = entry(np.array([hits, given - hits]), int(answer != k), prior, point)
        return way * (coin if answer == k else coin / 2)
    return way * entry(n[k, :3], answer, prior[k], point)


def ways_of(n: np.ndarray, k: int, tells: bool) -> np.ndarray:
    near = n[k] if tells else n.sum(0)
    return np.array([near[:3].sum(), near[ABSTAINS]])


LEANING = np.where(np.eye(3), 4 * 2 / 3, 4 / 6)


@pytest.mark.parametrize(
    ("name", "engine", "prior"),
    [
        ("bayesian_dawid_skene", "vb", LEANING),
        ("dawid_skene", "em", np.ones((3, 3))),
        ("one_coin", "em", np.ones(2)),
    ],
)
@pytest.mark.parametrize("tells", [False, True], ids=["ignorable", "telling"])
def test_with_known_truths_the_closed_form_is_exact(name: str, engine: str, prior: np.ndarray, tells: bool) -> None:
    """Counts less the label's own: the Dirichlet-multinomial predictive, or the mode without the label."""
    data, true = known_crowd(tells)
    found = leave_one_out(crowdppl.fit(name, data, inference=engine), method="closed")
    counts = counted(data, true)
    for (i, a, answer), log_p in zip(rows_of(data), found.values["log_p"], strict=True):
        rest = counts[a].copy()
        rest[true[i], answer] -= 1
        ways = ways_of(rest, true[i], tells) if counts[a, :, ABSTAINS].any() else None
        p = chance(rest, true[i], answer, ways, prior, engine == "em")
        assert np.exp(log_p) == pytest.approx(p, abs=1e-9)
    assert found.method == "closed" and list(found.values) == ["item", "annotator", "label", "unit", "log_p"]


@pytest.mark.parametrize("tells", [False, True], ids=["ignorable", "telling"])
def test_with_known_truths_whole_items_are_exact(tells: bool) -> None:
    """Prevalence and each label without the item; the known truth is part of what is predicted."""
    data, true = known_crowd(tells)
    found = leave_one_out(crowdppl.fit("bayesian_dawid_skene", data, inference="vb"), "item", "closed")
    counts, sizes = counted(data, true), np.bincount(true, minlength=3)
    mass = crowdppl.primitives.default_prevalence(data)
    for i in range(30):
        wanted = np.log((mass + sizes[true[i]] - 1) / (3 * mass + 30 - 1))
        for a, answer in [(a, answer) for at, a, answer in rows_of(data) if at == i]:
            rest = counts[a].copy()
            rest[true[i], answer] -= 1
            ways = ways_of(rest, true[i], tells) if counts[a, :, ABSTAINS].any() else None
            wanted += np.log(chance(rest, true[i], answer, ways, LEANING, False))
        assert found.values.loc[i, "log_p"] == pytest.approx(wanted, abs=1e-9)


def test_with_unknown_truths_it_is_the_sum_over_them() -> None:
    """Bayesian Dawid-Skene once more, label by label, as plain loops."""
    data = crowd(n_items=12, n_annotators=4, labels_each=3, seed=2)
    posterior = crowdppl.fit("bayesian_dawid_skene", data, inference="vb", **SETTLED)
    sites, p = posterior.result.sites, posterior.result.probabilities
    rows = rows_of(data)
    labels, items = log_left_out(posterior, "label"), log_left_out(posterior, "item")

    def joint(i: int, skipped: int | None = None) -> np.ndarray:
        """Of the truth and labels of item i, but one annotator's, by expected shares without the item's counts."""
        share = sites["prevalence"].arrays["concentration"] - p[i]
        table = sites["confusion"].arrays["concentration"].copy()
        mine = [(a, answer) for at, a, answer in rows if at == i]
        for a, answer in mine:
            table[a, :, answer] -= p[i]
        table /= table.sum(-1, keepdims=True)
        return (share / share.sum()) * np.prod([table[a, :, answer] for a, answer in mine if a != skipped], 0)

    for (i, a, _), log_p in zip(rows, labels, strict=True):
        assert np.exp(log_p) == pytest.approx(joint(i).sum() / joint(i, a).sum(), abs=1e-9)
    for i, log_p in enumerate(items):
        assert np.exp(log_p) == pytest.approx(joint(i).sum(), abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "engine"), [("bayesian_dawid_skene", "vb"), ("dawid_skene", "em")])
def test_the_closed_form_is_near_refits(name: str, engine: str) -> None:
    data = crowd(n_items=250, n_annotators=6, labels_each=5, seed=1)
    posterior = crowdppl.fit(name, data, inference=engine)
    some = np.random.default_rng(0).choice(data.n_labels, 20, replace=False)
    wanted = []
    for row in some:
        out = np.arange(data.n_labels) == row
        wanted.append(left_out(refit(posterior, keep(data, ~out)), data, out)[0][0])
    logs = np.hstack(list(given_the_rest(posterior, "label", 1 if engine == "em" else 300)))[:, some]
    inside = np.log(np.exp(logs).mean(0)) - wanted
    closed = leave_one_out(posterior, method="closed").values["log_p"].to_numpy()[some] - wanted
    assert np.corrcoef(closed + wanted, wanted)[0, 1] > 0.997
    assert abs(closed.mean()) < min(0.02, 0.5 * inside.mean())


def test_large_data_go_through_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    posterior = crowdppl.fit("class_coin", crowd(), inference="em")
    whole = log_left_out(posterior, "label")
    monkeypatch.setattr("crowdppl.inference.predict.cavity.PIECE", 40)
    np.testing.assert_allclose(log_left_out(posterior, "label"), whole, rtol=1e-12)


def test_automatic_takes_draws_where_there_are_some() -> None:
    data = crowd()
    by_vb, by_em = (crowdppl.fit("one_coin", data, inference=engine) for engine in ("vb", "em"))
    assert leave_one_out(by_vb).method == "psis"
    found = leave_one_out(by_em)
    assert found.method == "closed" and "closed form" in repr(found) and found.se > 0
    np.testing.assert_array_equal(found.values, leave_one_out(by_em, method="closed").values)


@dataclass(frozen=True)
class Crowded:
    """Dawid-Skene but for items of more than one label, whose labels weigh by how many there are."""

    def model(self, data: Any) -> None:
        sizes = torch.bincount(data.as_block().item, minlength=data.n_items)
        with plates.annotators(data):
            confusion = pyro.sample("confusion", dist.Dirichlet(1 + torch.eye(data.n_classes)).to_event(1))
        lean = (sizes > 1).to(confusion).unsqueeze(-1) * torch.arange(float(data.n_classes))
        with plates.items(data):
            annotate(data, confusion.log(), truth(data, lean))


def test_what_has_no_closed_form_is_refused(posterior: Posterior) -> None:
    data = crowd()
    for model, engine, why in [
        ("glad", "em", "site 'ability'"),
        ("community", "vb", "site 'community'"),
        ("mace", "em", "product"),
        (Crowded(), "vb", "depend on one another"),
    ]:
        fitted = crowdppl.fit(model, data, inference=engine, max_iterations=20)
        with pytest.raises(MethodError, match=why):
            leave_one_out(fitted, method="closed")
    with pytest.raises(MethodError, match="psis"):
        leave_one_out(posterior, method="closed")
    updated = crowdppl.fit("one_coin", data, inference="vb").update(data)
    with pytest.raises(MethodError, match="update"):
        leave_one_out(updated, method="closed")
