"""Too few labels an annotator: by hand, and on simulated crowds by engines that make too much of them or do not."""

from typing import Any

import numpy as np
import pytest

import crowdppl
from crowdppl.core.doubt import Doubt
from crowdppl.criticism.doubts import doubts
from crowdppl.criticism.joint_errors import pair_agreement
from crowdppl.criticism.sparse_data import narrowness, parameters
from crowdppl.evaluation.evaluate import evaluate
from crowdppl.fitting import fit
from crowdppl.inference.result import OnDemand, SiteResult, TableDraws
from crowdppl.posterior import Posterior
from crowdppl.simulation.crowd import Simulation
from tests.crowd import annotations, crowd
from tests.doubtful import CONFUSION, handmade, kinds, simulated, site


def test_free_parameters_by_hand() -> None:
    a = 3
    sites = {
        "confusion": (site(CONFUSION, a, 4, 4), (12, 4)),
        "concentration": (site(CONFUSION, a, 4, 4, family="dirichlet"), (12, 4)),
        "drawn": (site(CONFUSION, a, 4, 4, family="draws"), (12, 4)),
        "coin": (site(("annotator", "2"), a, 2), (1, 1)),
        "ability": (site(("annotator",), a), (1, 1)),
        "member": (site(("annotator", "m"), a, 5, family="onehot"), (0, 0)),
        "prevalence": (site(("class",), 4), (0, 0)),
        "shared": (site(("truth", "label"), 4, 4), (0, 0)),
    }
    for name, (one, expected) in sites.items():
        assert parameters(handmade([5] * a, 4, sites={name: one})) == expected, name
    two = {"coin": sites["coin"][0], "confusion": sites["confusion"][0]}
    assert parameters(handmade([5] * a, 4, sites=two)) == (13, 5)
    scores = SiteResult("site", ("annotator", "class"), "normal", {"mean": np.ones((a, 4))})
    assert parameters(handmade([5] * a, 4, sites={"scores": scores})) == (4, 4)


@pytest.mark.parametrize(("n_classes", "need"), [(2, 16), (3, 24), (5, 40), (6, 60)])
def test_thin_by_hand(n_classes: int, need: int) -> None:
    """2 labels a free parameter, 8 a row; a quarter of all labels."""

    def found(given: list[int]) -> list[str]:
        sites = {"confusion": site(CONFUSION, len(given), n_classes, n_classes)}
        return kinds(handmade(given, n_classes, sites=sites))

    assert found([need - 1] * 4) == ["thin"]
    assert found([need] * 4) == []
    assert found([need - 1] * 2 + [3 * (need - 1)] * 2) == []  # exactly a quarter
    assert found([need - 1] * 2 + [3 * (need - 1), 2 * need]) == ["thin"]


def test_narrow_posteriors_are_spared() -> None:
    rng = np.random.default_rng(0)
    for worth, expected in ((8, ["thin"]), (20, [])):  # 12 labels a row are asked of two classes
        draws = rng.dirichlet([0.8 * worth, 0.2 * worth], (200, 6, 2))
        draws[:, :, 1] = draws[:, :, 1, ::-1]
        np.testing.assert_allclose(narrowness(draws), worth, rtol=0.35)
        sites = {"confusion": site(CONFUSION, 6, 2, 2)}
        drawn = OnDemand.of(TableDraws(draws.astype(np.float32), np.full((200, 2), 0.5)))
        assert kinds(handmade([5] * 6, 2, sites=sites, draws=drawn)) == expected


def test_thin_tells_methods_apart() -> None:
    data = simulated(0, 120, 20, 3, 4)  # 18 labels an annotator
    assert kinds(fit("dawid_skene", data, inference="em")) == ["thin", "votes"]
    assert kinds(fit("bayesian_dawid_skene", data, inference="vb")) == ["thin"]
    assert kinds(fit("one_coin", data, inference="em")) == []
    assert kinds(fit("majority_vote", data, inference="em")) == []


@pytest.mark.slow
def test_coins_are_advised_first_where_classes_are_many() -> None:
    """40 classes, 1,560 parameters and 100 labels an annotator: rows are learned from too little."""
    rng = np.random.default_rng(0)
    truth, right = rng.integers(40, size=400), rng.uniform(0.4, 0.85, 20)
    labels = [
        (i, int(a), int(k if rng.random() < right[a] else (k + rng.integers(1, 40)) % 40))
        for i, k in enumerate(truth)
        for a in rng.choice(20, 5, replace=False)
    ]
    data = annotations(labels, 40)
    own, coin = (fit(name, data, inference="vb") for name in ("bayesian_dawid_skene", "one_coin"))
    scores = [evaluate(p, dict(enumerate(truth))).log_score for p in (own, coin)]
    assert scores[0] > scores[1] + 0.03
    doubt = thin(own)
    assert doubt is not None and doubt.figures["parameters"] == 1560
    assert doubt.remedies == ("crowdppl.fit('one_coin', data)", "crowdppl.fit('class_coin', data)")
    assert thin(coin) is None


SAMPLER: dict[str, Any] = {"inference": "gibbs", "chains": 2, "warmup": 60, "draws": 60, "seed": 0}


def drawn(seed: int, n_items: int = 130, n_classes: int = 4, **prior: float) -> Simulation:
    """40 annotators with as many tables, 4 labels an item: 13 labels an annotator where there are 130 items."""
    design = crowdppl.random_design(n_items, 40, 4, n_classes, seed=seed)
    return crowdppl.simulate(crowdppl.method("bayesian_dawid_skene", **prior), design, seed=seed)


def worse(posterior: Posterior, crowd: Simulation) -> float:
    """By how many nats an item a fit scores worse than a majority vote."""
    votes = fit("majority_vote", crowd.data, inference="em")
    own, plain = (evaluate(p, crowd.truth).log_score for p in (posterior, votes))
    return own - plain


def thin(posterior: Posterior) -> Doubt | None:
    return next((doubt for doubt in doubts(posterior) if doubt.kind == "thin"), None)


def test_agreement_against_a_loop() -> None:
    posterior = fit("bayesian_dawid_skene", crowd(n_items=30), inference="vb", seed=0)
    table, share = posterior.result.table, posterior.result.prevalence
    equal, expected, by_item = [], [], []
    for _, labels in posterior.data.frame().groupby("item"):
        rows = list(zip(labels["annotator"], labels["label"], strict=True))
        pairs = [(one, other) for n, one in enumerate(rows) for other in rows[n + 1 :]]
        equal += [one[1] == other[1] for one, other in pairs]
        expected += [float(share @ (table[one[0]] * table[other[0]]).sum(1)) for one, other in pairs]
        by_item.append(sum(equal[-len(pairs) :]) - sum(expected[-len(pairs) :]))
    found = pair_agreement(posterior)
    chance = (posterior.data.frame()["label"].value_counts(normalize=True) ** 2).sum()
    far = np.array(by_item) - np.mean(by_item)
    error = np.sqrt((far**2).sum() * 30 / 29) / len(equal)
    np.testing.assert_allclose(found, [np.mean(equal), np.mean(expected), chance, error], rtol=1e-9)


def test_draws_that_rest_on_a_flat_prior_are_doubted() -> None:
    crowd = drawn(0)
    flat = crowdppl.method("bayesian_dawid_skene", prior_strength=4.0, prior_accuracy=0.25)
    posterior = fit(flat, crowd.data, **SAMPLER)
    assert worse(posterior, crowd) > 0.5
    doubt, (observed, expected, *_) = thin(posterior), pair_agreement(posterior)
    assert doubt is not None and doubt.figures["observed"] == observed > doubt.figures["expected"] == expected


def test_draws_under_a_careful_prior_are_spared() -> None:
    """Annotators are right in 93 % of their labels: they agree more than the prior expects, and no harm is done."""
    crowd = drawn(0, prior_strength=40.0, prior_accuracy=0.93)
    posterior = fit("bayesian_dawid_skene", crowd.data, **SAMPLER)
    observed, expected, _, error = pair_agreement(posterior)
    assert observed - expected > 5 * error
    assert worse(posterior, crowd) < 0.03
    assert thin(posterior) is None


def test_nothing_tells_whether_a_prior_is_right_where_nobody_meets() -> None:
    data = annotations([(i, i % 5, i % 3) for i in range(40)], 3)
    doubt = thin(fit("bayesian_dawid_skene", data, **SAMPLER))
    assert doubt is not None and "observed" not in doubt.figures


@pytest.mark.slow
@pytest.mark.parametrize(("n_classes", "sizes"), [(2, (8, 15)), (4, (13, 24))])
def test_doubts_of_draws_tell_bad_scores_from_good_ones(n_classes: int, sizes: tuple[int, ...]) -> None:
    """Under the prior of the data, and with annotators right by little more than chance."""
    for n_labels in sizes:
        own, weak = [], []
        for seed in range(2):
            for found, prior in (
                (own, {}),
                (weak, {"prior_strength": 20.0, "prior_accuracy": 1 / n_classes + 0.15}),
            ):
                crowd = drawn(seed, 10 * n_labels, n_classes, **prior)
                posterior = fit("bayesian_dawid_skene", crowd.data, **SAMPLER)
                found.append((worse(posterior, crowd), thin(posterior) is not None))
        assert np.mean([apart for apart, _ in own]) < 0
        assert not any(doubted for _, doubted in own)
        assert all(doubted for apart, doubted in weak if apart > 0.16)
        assert np.mean([apart for apart, _ in weak]) > 0
