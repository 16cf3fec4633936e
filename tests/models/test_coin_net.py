"""Outliers: labels of an urn sum to one, are drawn as they are scored, and planted ones are found."""

import math
import warnings
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pyro
import pytest
import torch
from crowdppl.models.coin_net import log_dirichlet_multinomial
from pyro.infer import Predictive

import crowdppl
from crowdppl import outlier_scores
from crowdppl.data.annotations import Annotations
from crowdppl.data.coded import build_blocks
from crowdppl.errors import DoubtWarning, MethodError
from crowdppl.evaluation.evaluate import evaluate
from crowdppl.inference.density import Density
from crowdppl.inference.predict.answers import MARGINAL_DRAWS
from crowdppl.primitives import Block
from crowdppl.results.updating import expected_area
from tests.brute import PLAIN, Tiny, joint
from tests.crowd import annotations, crowd, double
from tests.inference.neural.test_trained import LABELS, objective, prepared, rows, shares, tiny
from tests.networks.test_networks import clouds


def every_labelling(n_answers: int) -> Block:
    """An item for each way in which three annotators can answer."""
    answers = np.array(list(product(range(n_answers), repeat=3)))
    item, who = (x.ravel() for x in np.indices(answers.shape))
    _, (block,) = build_blocks(
        item, who, answers.ravel(), n_items=len(answers), n_annotators=3, n_classes=3, n_answers=n_answers
    )
    return block


@pytest.mark.parametrize("n_answers", [3, 4])
def test_mixtures_sum_to_one(n_answers: int) -> None:
    """Over everything that three annotators can say, and over what an item can be."""
    with double():
        torch.manual_seed(1)
        block = every_labelling(n_answers)
        values = {
            "prevalence": torch.tensor([0.5, 0.3, 0.2]),
            "confusion": rows(3),
            "rate": torch.tensor([0.7, 0.3]),
            "abstention": torch.distributions.Dirichlet(torch.ones(3, 4, 2)).sample(),
        }
        density = Density(crowdppl.method("coin_net", spread=0.6).model)
        found = density(block, values, marginals=("truth", "outlier"))
    assert float(found.per_item.exp().sum()) == pytest.approx(1, abs=1e-12)
    assert found.marginals["outlier"].shape == (2, block.n_items)
    for share in found.marginals.values():
        np.testing.assert_allclose(share.sum(0), 1, atol=1e-12)
    assert float(log_dirichlet_multinomial(every_labelling(3), 0.6).double().exp().sum()) == pytest.approx(
        1, abs=1e-6
    )


def test_an_urn_is_drawn_as_it_is_scored() -> None:
    """Two labels agree with probability (c + 1) / (K c + 1): .6 here, sd .008; independent ones in a third."""
    design = crowdppl.random_design(4000, 5, 2, classes=["a", "b", "c"], seed=0)
    model = crowdppl.method("coin_net", nominal=1e-6, outlying=1e6, spread=0.5)
    found = crowdppl.simulate(model, design, seed=1)
    assert (found.parameters["outlier"] == 1).all()
    labels = found.data.frame().groupby("item")["label"]
    assert (labels.nunique() == 1).mean() == pytest.approx(0.6, abs=0.04)


def planted(
    n: int = 3000, each: int = 12, seed: int = 0, apart: float | None = None
) -> tuple[Annotations, np.ndarray, np.ndarray]:
    """Three in twenty items get labels from shares of their own, the others from annotators mostly right.

    Args:
        n, each: items, and annotators, who label all of them.
        seed: of everything.
        apart: how far from 0 each class lies in a direction of its own of six features, which scatter by 1; None
            has no features.

    Returns:
        Annotations, who is an outlier, and confusions.
    """
    rng = np.random.default_rng(seed)
    truth, outlier = rng.integers(0, 3, n), rng.random(n) < 0.15
    confusion = 0.75 * np.eye(3) + 0.25 * rng.dirichlet(np.full(3, 0.5), (each, 3))
    p = np.where(outlier[:, None, None], rng.dirichlet(np.ones(3), n)[:, None], confusion[:, truth].swapaxes(0, 1))
    label = (rng.random((n, each, 1)) > p.cumsum(-1)).sum(-1).clip(max=2)
    item, who = np.indices(label.shape)
    data = annotations(list(zip(item.ravel(), who.ravel(), label.ravel(), strict=True)), 3)
    if apart is not None:
        seen = pd.DataFrame(apart * np.eye(3, 6)[truth] + rng.normal(size=(n, 6)))
        data = Annotations.from_frame(data.frame(), features=seen, classes=range(3))
    return data, outlier, confusion


def area(score: np.ndarray, yes: np.ndarray) -> float:
    """Under the ROC curve: how often a yes scores above a no."""
    rank = pd.Series(score).rank().to_numpy()
    return float((rank[yes].mean() - (yes.sum() + 1) / 2) / (~yes).sum())


@pytest.mark.slow
def test_planted_outliers_are_flagged_and_leave_confusions_alone() -> None:
    data, outlier, confusion = planted()
    found = crowdppl.fit("coin_net", data, inference="vb", seed=0)
    with warnings.catch_warnings(action="error", category=DoubtWarning):
        score = outlier_scores(found).loc[np.arange(len(outlier))].to_numpy()
    assert area(score, outlier) >= 0.9
    assert abs(score.mean() - outlier.mean()) < 0.02
    assert np.abs(found.result.sites["confusion"].mean - confusion).max() < 0.05
    plain = crowdppl.fit("bayesian_dawid_skene", data, inference="vb")
    assert np.abs(plain.result.sites["confusion"].mean - confusion).max() > 0.06


@pytest.mark.slow
def test_with_features_planted_outliers_are_flagged_where_classes_are_in_doubt_too() -> None:
    data, outlier, confusion = planted(apart=2.0)
    found = crowdppl.fit("coin_net", data, inference="vb", seed=0, settings={"training": {"epochs": 15}})
    assert area(outlier_scores(found).loc[np.arange(len(outlier))].to_numpy(), outlier) >= 0.95
    assert np.abs(found.result.sites["confusion"].mean - confusion).max() < 0.05


def test_the_area_that_probabilities_expect_is_their_pairs() -> None:
    p = np.random.default_rng(0).random(30).round(1)
    won = np.array([[float(a > b) + 0.5 * float(a == b) for b in p] for a in p])
    pairs = np.outer(p, 1 - p)
    assert expected_area(p) == pytest.approx((won * pairs).sum() / pairs.sum())
    assert expected_area(np.zeros(3)) == expected_area(np.array([0.0, 1.0])) == 1


@pytest.mark.slow
def test_few_labels_tell_no_outliers_and_the_fit_says_so() -> None:
    """Two classes, five labels an item: who knows all but the outliers finds them no better than the fit does."""
    n, each, right = 2000, 5, 0.75
    rng = np.random.default_rng(1)
    truth, outlier = rng.integers(0, 2, n), rng.random(n) < 0.15
    p = np.where(outlier, rng.random(n), np.where(truth == 1, right, 1 - right))
    label = (rng.random((n, each)) < p[:, None]).astype(int)
    item, who = np.indices(label.shape)
    data = annotations(list(zip(item.ravel(), who.ravel(), label.ravel(), strict=True)), 2)
    ones = label.sum(1)
    nominal = 0.5 * (right**ones * (1 - right) ** (each - ones) + (1 - right) ** ones * right ** (each - ones))
    urn = np.array([1 / (6 * math.comb(each, x)) for x in ones])
    assert area(urn / nominal, outlier) < 0.6
    found = crowdppl.fit("coin_net", data, inference="vb", seed=0)
    with pytest.warns(DoubtWarning, match="outliers"):
        score = outlier_scores(found).loc[np.arange(n)].to_numpy()
    assert area(score, outlier) < 0.6


def bayes_rule(values: dict[str, torch.Tensor], toy: Tiny, model: Any) -> np.ndarray:
    """Probability that each item is an outlier, in codebook order, by plain sums."""
    none = {**values, "rate": values["rate"] * torch.tensor([0.0, 1.0])}
    out, (outlying, every) = (
        np.empty(toy.n_items),
        (joint("coin_net", model, v, toy).sum(1) for v in (none, values)),
    )
    out[toy.built[0]] = outlying / every
    return out


def test_scores_are_bayes_rule_at_a_point_and_over_draws() -> None:
    labels = list(PLAIN.labels)
    data, toy = annotations(labels, 3), Tiny(PLAIN.labels, 3, 5, 3, 3, (-1,) * 3, (False,) * 5)
    model = crowdppl.method("coin_net", prior_strength=6.0, prior_accuracy=0.5)
    found = crowdppl.fit(model, data, inference="em")
    point = {name: torch.tensor(site.mean) for name, site in found.result.sites.items()}
    np.testing.assert_allclose(outlier_scores(found), bayes_rule(point, toy, model), atol=1e-5)
    drawn = crowdppl.fit(model, data, inference="gibbs", chains=2, draws=5, warmup=5)
    draws = {name: torch.tensor(site.arrays["draws"]).flatten(0, 1) for name, site in drawn.result.sites.items()}
    each = [bayes_rule({name: x[d] for name, x in draws.items()}, toy, model) for d in range(10)]
    spread = torch.linspace(0, 9, MARGINAL_DRAWS).round().long()  # over the ten, evenly but for rounding
    np.testing.assert_allclose(outlier_scores(drawn), np.array(each)[spread].mean(0), atol=1e-5)
    with pytest.raises(MethodError, match="outlier"):
        outlier_scores(crowdppl.fit("one_coin", data, inference="em"))


def by_hand(f: np.ndarray, a: np.ndarray, e: np.ndarray, among: list[int], model: Any) -> float:
    """The penalised objective of some items; shifts stand in the order of the labels given."""
    log_p, norms, n = 0.0, dict.fromkeys(among, 0.0), 0
    for (i, w, label), shift in zip(LABELS, e, strict=True):
        if i in among:
            centred = shift - shift.mean()
            p = np.clip(f[i] @ a[w] + centred, 1e-10, 1 - 1e-10)
            log_p += np.log(p[label] / p.sum())
            norms[i] += (centred**2).sum()
            n += 1
    penalty = model.weight * np.mean([(x + 1e-10) ** (model.power / 2) for x in norms.values()])
    volume = model.volume * np.log(np.linalg.det(f[among].T @ f[among] + 1e-6 * np.eye(3)))
    return float(log_p - n * (penalty - volume))


def test_the_penalised_objective_by_hand_in_whole_and_in_batches() -> None:
    with double():
        data = tiny()
        model = prepared("coin_net", data, form="penalised", weight=0.3, volume=0.2)
        torch.manual_seed(0)
        a, e = rows(), 0.5 * torch.randn(len(LABELS), 3)  # large enough that some labels are clamped
        block, f = data.as_block(), shares(model, data)
        order = np.lexsort((block.annotator.numpy(), data.order[block.item.numpy()]))  # as in LABELS
        by_label = e.numpy()[order]
        want = by_hand(f, a.numpy(), by_label, [0, 1, 2, 3], model)
        assert objective(model, block, {"confusion": a, "departure": e}) == pytest.approx(want, rel=1e-5)
        for positions in ([0, 1, 2], [1, 2, 3]):
            part = block.subset(np.array(positions), 4 / 3)
            found = objective(model, part, {"confusion": a, "departure": e})
            half = 4 / 3 * by_hand(f, a.numpy(), by_label, sorted(data.order[positions].tolist()), model)
            assert found == pytest.approx(half, rel=1e-5)


@pytest.mark.parametrize(("form", "engine"), [("generative", "vb"), ("penalised", "svi")])
def test_with_features_it_learns_the_truth_and_survives_the_disk(form: str, engine: str, tmp_path: Any) -> None:
    data, truth = clouds(240, 180)
    settings = {"form": form, "training": {"epochs": 8, "learning_rate": 1e-2}}

    one, two = (crowdppl.fit("coin_net", data, inference=engine, seed=n, settings=settings) for n in (3, 4))
    assert evaluate(one.probabilities(), truth).accuracy > 0.75
    assert evaluate(one.classify(data.features), truth).accuracy > 0.75
    assert not outlier_scores(two).equals(outlier_scores(one))
    one.save(tmp_path)
    again = crowdppl.load(tmp_path)
    pd.testing.assert_series_equal(outlier_scores(again), outlier_scores(one), check_exact=True)
    pd.testing.assert_frame_equal(again.predict(data), one.predict(data), check_exact=True)
    new, _ = clouds(60, 40, seed=5)
    np.testing.assert_allclose(one.predict(new).sum(axis=1), 1)


def test_pyros_predictive_draws_labels_where_departures_send_them() -> None:
    """The guide is points: with departures beyond 1 a label of a design is the class that its departure names."""
    data, _ = clouds(30, 20)
    model: Any = crowdppl.method("coin_net", form="penalised").setup(data)
    wanted = torch.arange(data.n_labels) % data.n_classes
    with pyro.get_param_store().scope():
        model.guide(data.as_block())
        pyro.param("q.departure").data.copy_(1000.0 * torch.nn.functional.one_hot(wanted, data.n_classes))
        for given in (data, replace(data.as_block(), has_labels=False)):
            drawn = Predictive(model.model, guide=model.guide, num_samples=3)(given)
            assert drawn["truth"].shape == (3, data.n_items)
            assert drawn["confusion"].shape == (3, data.n_annotators, 3, 3)
    assert (drawn["label"] % data.n_answers == wanted).all()  # of cells of the table annotator x answer


def test_scores_of_the_penalised_form_are_norms_by_item() -> None:
    data, _ = clouds(30, 20)
    settings = {"form": "penalised", "training": {"epochs": 2}}
    found = crowdppl.fit("coin_net", data, inference="svi", settings=settings)
    shift = found.result.sites["departure"].mean
    block = data.as_block()
    want = np.zeros(data.n_items)
    for i, e in zip(data.order[block.item.numpy()], shift - shift.mean(1, keepdims=True), strict=True):
        want[i] += (e**2).sum()
    np.testing.assert_allclose(outlier_scores(found), np.sqrt(want), atol=1e-12)
    assert (want > 0).sum() == 20


def test_a_minibatch_knows_where_its_labels_stood() -> None:
    whole = crowd(12).as_block()
    part = whole.subset(np.array([2, 3, 7, 10]), 3.0)
    again = part.subset(np.array([1, 3]), 6.0)
    for block in (part, again):
        assert torch.equal(whole.bags.cells[block.entries], block.bags.cells)
    assert again.entries is not None and set(whole.item[again.entries].tolist()) == {3, 10}
