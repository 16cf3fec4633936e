"""Labels by vb are weighed without their item's own counts: against closed forms, all truths, and simulation."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist
import pytest
import torch
from scipy.special import gammaln, softmax

import crowdppl
from crowdppl import Annotations
from crowdppl.inference import cavities
from crowdppl.inference.predict.cavity import log_left_out
from crowdppl.inference.vb import collapsed
from crowdppl.primitives import (
    annotate,
    confusion_prior,
    default_prevalence,
    item_groups,
    label_covariates,
    plates,
    truth,
)
from tests.crowd import annotations, crowd


@dataclass(frozen=True)
class Late:
    """Dawid-Skene with a confusion for the day, and one for the evening."""

    def model(self, data: Any) -> None:
        k = data.n_classes
        with plates.annotators(data):
            rows = confusion_prior(data).expand(2, k, k)
            confusion = pyro.sample("confusion", dist.Dirichlet(rows).to_event(2))
        share = pyro.sample("prevalence", dist.Dirichlet(torch.full((k,), default_prevalence(data))))
        with plates.items(data):
            late = label_covariates(data, "late")
            annotate(data, confusion.log(), truth(data, share.log()), context=late)


@dataclass(frozen=True)
class ByGroup:
    """Dawid-Skene in each group of items."""

    def model(self, data: Any) -> None:
        k, group, groups = data.n_classes, item_groups(data, "group"), plates.groups(data, "group")
        with plates.annotators(data):
            rows = confusion_prior(data, mode=True).expand(groups.size, k, k)
            confusion = pyro.sample("confusion", dist.Dirichlet(rows).to_event(2))
        with groups:
            share = pyro.sample("prevalence", dist.Dirichlet(torch.full((k,), 2.0)))
        with plates.items(data):
            log_p = truth(data, share.log()[..., group, :])
            annotate(data, confusion.log(), log_p, context=data.of_item(group))


SURE: dict[str, Any] = {"inference": "vb", "seed": 0, "tolerance": 1e-12}
K = 3


def known_but_one(repeats: bool, seed: int = 0) -> tuple[Annotations, list[tuple[int, int, int]], np.ndarray]:
    """Thirty items of known truth, but the last; one annotator may have labelled that several times."""
    rng = np.random.default_rng(seed)
    true = rng.integers(K, size=30)
    labels = [
        (i, a, int(k if rng.random() < 0.7 else rng.integers(K))) for i, k in enumerate(true) for a in range(4)
    ]
    more = [(29, 0, 0), (29, 0, 0), (29, 0, 1), (29, 2, 2)] if repeats else []
    data = annotations(labels + more, K).with_gold(dict(enumerate(true[:29].tolist())))
    return data, labels + more, true


def rising(total: float, n: int) -> float:
    return float(gammaln(total + n) - gammaln(total))


def polya(prior: np.ndarray, before: np.ndarray, more: np.ndarray) -> float:
    """Log-probability of more draws, counts (n,), in a Polya urn."""
    c = prior + before
    each = sum(rising(float(x), int(n)) for x, n in zip(c, more, strict=True))
    return each - rising(float(c.sum()), int(more.sum()))


def evidence(method: str, labels: list[tuple[int, int, int]], true: np.ndarray, k: int) -> float:
    """log p(the last item's labels | its truth is k, all other items)."""
    n, own = np.zeros((2, 4, K, K))
    for i, a, label in labels:
        if i == 29:
            own[a, k, label] += 1
        else:
            n[a, true[i], label] += 1
    if method == "bayesian_dawid_skene":
        leaning = np.where(np.eye(K), 4 * 2 / 3, 4 / 6)
        return sum(polya(leaning[k], n[a, k], own[a, k]) for a in range(4))
    diagonal, total = np.arange(K), 0.0
    for before, more in zip(n, own, strict=True):
        right, given = (np.stack([x[diagonal, diagonal], x.sum(1)], 1) for x in (before, more))
        if method == "class_coin":
            right, given = right[k : k + 1], given[k : k + 1]
        (old, all_old), (new, all_new) = right.sum(0), given.sum(0)
        wrong = all_new - new
        total += polya(np.array([2.0, 1.0]), np.array([old, all_old - old]), np.array([new, wrong]))
        total -= wrong * np.log(K - 1)
    return total


@pytest.mark.parametrize("repeats", [False, True], ids=["once", "several times"])
@pytest.mark.parametrize("method", ["bayesian_dawid_skene", "class_coin", "one_coin"])
def test_of_one_unknown_truth_the_posterior_is_exact(method: str, repeats: bool) -> None:
    """Labels of an annotator on the item are draws from one urn of Polya, whose balls are all other items'."""
    data, labels, true = known_but_one(repeats)
    settings = {} if method == "bayesian_dawid_skene" else {"right": 2.0, "wrong": 1.0}
    found = crowdppl.fit(method, data, settings=settings, **SURE)
    mass = default_prevalence(data)
    share = mass + np.bincount(true[:29]) if method == "bayesian_dawid_skene" else np.ones(K)
    log_p = [np.log(share[k]) + evidence(method, labels, true, k) for k in range(K)]
    np.testing.assert_allclose(found.probabilities().loc[29], softmax(log_p), atol=1e-6)


def exact(data: Annotations) -> np.ndarray:
    """The posterior of truths under the default prior of Dawid-Skene, over all truths of all items."""
    (item, annotator, label), k = data.label_codes(), data.n_classes
    every = np.array(list(np.ndindex(*(k,) * data.n_items)))
    mass, rows = default_prevalence(data), np.where(np.eye(k), 2 * (1 + 1 / k), 2 / k)
    log_p = np.zeros(len(every))
    for at, true in enumerate(every):
        n = np.zeros((data.n_annotators, k, k))
        np.add.at(n, (annotator, true[item], label), 1)
        log_p[at] = polya(np.full(k, mass), np.zeros(k), np.bincount(true, minlength=k))
        log_p[at] += sum(polya(rows[c], np.zeros(k), row[c]) for row in n for c in range(k))
    p = softmax(log_p)
    return np.stack([[p[every[:, i] == c].sum() for c in range(k)] for i in range(data.n_items)])


def test_small_crowds_are_near_all_truths() -> None:
    gaps = []
    for seed in range(8):
        data = crowd(n_items=8, n_annotators=4, n_classes=2, labels_each=4, seed=seed)
        p = crowdppl.fit("bayesian_dawid_skene", data, **SURE).probabilities().to_numpy()
        gaps.append(np.abs(p - exact(data)).mean())
    assert np.mean(gaps) < 0.03  # mean field: .09


@pytest.mark.slow
def test_truths_of_crowds_from_the_prior_are_as_sure_as_they_are_right() -> None:
    sure, right = [], []
    for seed in range(100):
        design = crowdppl.random_design(40, 5, 4, classes=3, seed=seed)
        drawn = crowdppl.simulate("bayesian_dawid_skene", design, seed=seed)
        p = crowdppl.fit("bayesian_dawid_skene", drawn.data, inference="vb", seed=0).probabilities()
        sure.append(p.max(axis=1).mean())
        right.append((p.idxmax(axis=1) == drawn.truth.reindex(p.index)).mean())
    assert abs(np.mean(sure) - np.mean(right)) < 0.03


def test_contexts_have_rows_of_their_own() -> None:
    """A crowd whose annotators are another crowd when it is late: as if each were two annotators."""
    rows = crowd(30, 4, 3, 4, seed=1).frame().assign(late=lambda x: (x.index + x["annotator"]) % 2)
    data = Annotations.from_frame(rows, label_covariates=["late"], classes=range(3))
    apart = Annotations.from_frame(
        rows.assign(annotator=rows["annotator"] * 2 + rows["late"]).drop(columns="late"), classes=range(3)
    )
    one = crowdppl.fit(Late(), data, **SURE)
    two = crowdppl.fit("bayesian_dawid_skene", apart, **SURE)
    assert one.result.diagnostics["sweeps"] > 1
    np.testing.assert_allclose(one.probabilities(), two.probabilities(), atol=1e-5)


@pytest.mark.parametrize("engine", ["vb", "em"])
def test_groups_of_items_are_fits_of_their_own(engine: str) -> None:
    rows = crowd(40, 4, 3, 4, seed=1).frame()
    group = pd.DataFrame({"group": np.arange(40) % 3 % 2})
    sure = SURE | {"inference": engine}
    one = crowdppl.fit(ByGroup(), Annotations.from_frame(rows, item_covariates=group, classes=range(3)), **sure)
    for g in range(2):
        mine = rows["item"].map(group["group"]) == g
        data = Annotations.from_frame(rows[mine], item_covariates=group[group["group"] == g], classes=range(3))
        alone = crowdppl.fit(ByGroup(), data, **sure)
        found = one.probabilities().loc[alone.data.items]
        np.testing.assert_allclose(found, alone.probabilities(), atol=1e-5)
        left_out = log_left_out(one, "label")[mine]
        np.testing.assert_allclose(left_out, log_left_out(alone, "label"), atol=1e-5)


def test_pieces_and_few_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    data = crowd()
    whole = crowdppl.fit("class_coin", data, **SURE)
    monkeypatch.setattr(cavities, "PIECE", 50)
    pieces = crowdppl.fit("class_coin", data, **SURE)
    np.testing.assert_allclose(pieces.probabilities(), whole.probabilities(), atol=1e-9)
    monkeypatch.setattr(collapsed, "WORK", 1)
    once = crowdppl.fit("class_coin", data, **SURE).result.diagnostics
    assert once["sweeps"] == 1 and once["change"] > collapsed.SETTLED


@pytest.mark.parametrize(
    ("method", "why"),
    [
        ("mace", "no product"),
        ("mixed_membership", "no product"),
        ("community", "'community'"),
        ("glad", "'ability'"),
    ],
)
def test_what_is_weighed_with_its_own_counts_says_why(method: str, why: str) -> None:
    found = crowdppl.fit(method, crowd(20), inference="vb", seed=0, max_iterations=5).diagnostics()
    assert why in found["mean_field"] and "sweeps" not in found


def test_counts_of_earlier_work_in_any_memory_layout() -> None:
    data = crowd(30, 4, 3, 3)
    history = np.random.default_rng(0).uniform(1, 9, (4, 3, 3))
    read = [Annotations.from_frame(data.frame(), history=x) for x in (np.asfortranarray(history), history)]
    found = [crowdppl.fit("bayesian_dawid_skene", x, inference="vb", seed=0) for x in read]
    assert np.allclose(found[0].probabilities(), found[1].probabilities(), atol=1e-9)
