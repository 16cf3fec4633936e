"""Moments: exact ones give the truth back where they determine it, errors shrink, published figures are met."""

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl import moments
from crowdppl.errors import DataError, DoubtWarning, MethodError
from crowdppl.moments.coupled import coupled_factors
from crowdppl.moments.groups import group_factors
from crowdppl.moments.joints import Opinions
from crowdppl.moments.multispa import confusion_from_joints, first_guess, prevalence_of
from crowdppl.moments.projections import naming, on_simplex
from crowdppl.moments.symnmf import symmetric_factors
from crowdppl.moments.tensors import tensor_factors
from crowdppl.moments.two_classes import covariance_factors
from crowdppl.primitives import fixed
from tests.crowd import annotations, split
from tests.test_real_data import read

Factors = tuple[np.ndarray, np.ndarray]
METHODS = ("multispa", "spectral", "coupled_kl", "symnmf", "tensor", "covariance_eigenvector")


def crowd_of(k: int, m: int, seed: int, experts: bool) -> Factors:
    """Confusions (M, K, K) and a prevalence; ``experts``: two annotators a class give its label to no other."""
    rng = np.random.default_rng(seed)
    tables = rng.dirichlet(np.ones(k), (m, k)) * 0.35 + 0.65 * np.eye(k)
    for a in range(2 * k if experts else 0):
        tables[a, np.arange(k) != a % k, a % k] = 0
    return tables / tables.sum(-1, keepdims=True), rng.dirichlet(5 * np.ones(k))


def population(tables: np.ndarray, share: np.ndarray) -> Opinions:
    """Every way to label an item, as often as it comes in a thousand items: moments are exact."""
    m, k, _ = tables.shape
    cells = np.array(list(product(range(k), repeat=m)))
    p = sum(share[t] * np.prod([tables[a, t, cells[:, a]] for a in range(m)], 0) for t in range(k))
    item, annotator = np.tile(np.arange(len(cells)), m), np.repeat(np.arange(m), len(cells))
    return Opinions.of_codes(item, annotator, cells.T.ravel(), 1000 * np.asarray(p), m, k)


def by_multispa(o: Opinions) -> Factors:
    found = confusion_from_joints(o.joints)
    return found, prevalence_of(o, found)


def by_spectral(o: Opinions) -> Factors:
    confusion, share = group_factors(o, np.arange(o.n_annotators) % 3, 0)
    order = naming(confusion.mean(0))
    return confusion[:, order], share[order]


def from_guess(factors: Callable[..., Factors]) -> Callable[[Opinions], Factors]:
    """A factorisation from MultiSPA, blurred so that it has a way to go."""

    def run(o: Opinions) -> Factors:
        confusion, share = first_guess(o)
        k = o.n_classes
        return factors(o, 0.9 * confusion + 0.1 / k, 0.5 * share + 0.5 / k, 1e-11)

    return run


PAIRS = {
    "multispa": by_multispa,
    "coupled_kl": from_guess(coupled_factors),
    "symnmf": from_guess(symmetric_factors),
}
TRIPLES = {"spectral": by_spectral, "tensor": from_guess(tensor_factors)}


def error(found: Factors, tables: np.ndarray, share: np.ndarray) -> float:
    return float(max(np.abs(found[0] - tables).max(), np.abs(found[1] - share).max()))


@pytest.mark.parametrize("name", [*PAIRS, *TRIPLES])
@pytest.mark.parametrize(("k", "m"), [(2, 6), (3, 6)])
def test_exact_moments_with_class_experts_give_the_truth_back(name: str, k: int, m: int) -> None:
    truth = crowd_of(k, m, 0, experts=True)
    assert error((PAIRS | TRIPLES)[name](population(*truth)), *truth) < 1e-8


@pytest.mark.parametrize(("k", "m"), [(2, 6), (3, 6)])
def test_without_experts_triples_determine_confusions_and_pairs_do_not(k: int, m: int) -> None:
    truth = crowd_of(k, m, 1, experts=False)
    opinions = population(*truth)
    for find in TRIPLES.values():
        assert error(find(opinions), *truth) < 1e-8
    for find in PAIRS.values():
        assert error(find(opinions), *truth) > 0.01


@pytest.mark.parametrize("seed", range(3))
def test_exact_covariances_give_two_classes_back(seed: int) -> None:
    truth = crowd_of(2, 5, seed, experts=False)
    assert error(covariance_factors(population(*truth)), *truth) < 1e-8


def test_one_group_of_annotators_may_be_worse_than_chance() -> None:
    tables, share = crowd_of(2, 7, 3, experts=False)
    tables[0] = tables[0, ::-1]
    assert error(covariance_factors(population(tables, share)), tables, share) < 1e-8


def drawn(n: int, tables: np.ndarray, share: np.ndarray, seed: int) -> crowdppl.Annotations:
    rng, (m, k, _) = np.random.default_rng(seed), tables.shape
    truth = rng.choice(k, n, p=share)
    steps = tables.cumsum(-1)[:, truth]
    answer = (rng.random((m, n))[..., None] > steps[..., :-1]).sum(-1)
    item, annotator = np.tile(np.arange(n), m), np.repeat(np.arange(m), n)
    return crowdppl.Annotations.from_arrays(item, annotator, answer.ravel(), classes=list(range(k)))


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_errors_fall_with_the_root_of_the_number_of_items(name: str) -> None:
    tables, share = crowd_of(2, 9, 5, experts=True)
    mean = []
    for n in (1_000, 16_000):
        found = [getattr(moments, name)(drawn(n, tables, share, seed)).confusion for seed in range(20)]
        mean.append(np.sqrt(np.mean((np.array(found) - tables) ** 2)))
    assert 2.8 < mean[0] / mean[1] < 5.8, mean  # 4 in the limit


@pytest.mark.parametrize("name", METHODS)
def test_what_is_missing_is_said_and_all_else_found(name: str) -> None:
    """One annotator labels items of his own; abstentions and repeats are there; blocks do not matter."""
    tables, share = crowd_of(2, 8, 7, experts=False)
    rows = drawn(600, tables, share, 0).frame().astype({"label": object})
    rows.loc[rows.sample(frac=0.2, random_state=0).index, "label"] = "none"
    more = pd.DataFrame({"item": range(1000, 1004), "annotator": 8, "label": 1})
    data = crowdppl.Annotations.from_frame(
        pd.concat([rows, rows.head(50), more]), classes=[0, 1], abstentions=["none"], repeats="keep"
    )
    with pytest.warns(DoubtWarning, match="share too few items"):
        found = getattr(moments, name)(data)
    assert found.doubts[0].kind == "few shared" and found.doubts[0].who == {"annotators": (8,)}
    assert found.confusion.shape == (9, 2, 2) and found.annotators.tolist() == list(range(9))
    np.testing.assert_allclose(found.confusion.sum(-1), 1)
    np.testing.assert_allclose(found.prevalence.sum(), 1)
    assert np.abs(found.confusion[:8] - tables).mean() < 0.06
    again = getattr(moments, name)(split(data, 3))
    np.testing.assert_allclose(again.confusion, found.confusion, atol=1e-10)


def test_pairs_are_refused_where_annotators_are_too_many_and_most_is_the_remedy() -> None:
    rng = np.random.default_rng(0)
    item, annotator = np.repeat(np.arange(4_000), 5), np.tile(np.arange(5), 4_000)
    annotator[:5_000:5] = np.tile(np.arange(5, 505), 2)
    annotator[5_000:17_480:5] = np.arange(505, 3_001)
    truth = rng.integers(2, size=4_000)
    answer = np.where(rng.random(20_000) < 0.8, truth[item], 1 - truth[item])
    data = crowdppl.Annotations.from_arrays(item, annotator, answer, repeats="first")
    with pytest.raises(MethodError, match=r"3,001 annotators with 2 classes .* give most=3000"):
        moments.multispa(data)
    assert moments.multispa(data, most=50).confusion.shape == (3_001, 2, 2)
    assert moments.spectral(data).confusion.mean(0).diagonal() == pytest.approx(0.8, abs=0.1)


def test_what_moments_cannot_do_is_refused() -> None:
    with pytest.raises(MethodError, match="is for 2 classes, and there are 4"):
        moments.covariance_eigenvector(crowdppl.anaesthetists())
    alone = annotations([(0, 0, 0), (1, 1, 1), (2, 2, 0), (3, 2, 1), (0, 2, 1)], 2)
    one_item = annotations([(0, a, a % 2) for a in range(3)], 2)
    for name, data in product(METHODS, (alone, one_item)):
        with pytest.raises(DataError, match=r"none of 3 annotators|no item has labels of all three"):
            getattr(moments, name)(data)


def test_doubts_name_what_moments_leave_open() -> None:
    tables, share = crowd_of(2, 8, 1, experts=False)
    swapped = tables[:, ::-1] * [0.02, 1.98]  # nearly all labels are of one class
    swapped /= swapped.sum(-1, keepdims=True)
    kinds = {
        "expert": moments.coupled_kl(drawn(4_000, *crowd_of(2, 8, 1, experts=True), seed=0)),
        "none": moments.coupled_kl(drawn(4_000, tables, share, seed=0)),
        "third": moments.tensor(drawn(4_000, tables, share, seed=0)),
        "swapped": moments.tensor(drawn(4_000, swapped, share, seed=0)),
    }
    assert {name: [x.kind for x in found.doubts] for name, found in kinds.items()} == {
        "expert": [],
        "none": ["class experts"],
        "third": [],
        "swapped": ["naming"],
    }


def test_items_on_which_opinions_are_equal_count_together() -> None:
    each = Opinions.of(drawn(300, *crowd_of(2, 4, 1, experts=False), seed=0).blocks)
    one = each.merged()
    assert len(one.weight) <= 2**4 and one.weight.sum() == 300
    np.testing.assert_allclose(one.joints, each.joints)
    assert one.triples(one.vote[:, 0]) == pytest.approx(each.triples(each.vote[:, 0]))


def test_rows_go_to_the_nearest_distributions() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 4))
    found, others = on_simplex(x), rng.dirichlet(np.ones(4), 2_000)
    np.testing.assert_allclose(found.sum(-1), 1)
    assert (found >= 0).all()
    for row, near in zip(x, found, strict=True):
        assert ((others - row) ** 2).sum(-1).min() > ((near - row) ** 2).sum()


PUBLISHED = {
    ("bluebirds", "multispa"): (86.1, 88.9),
    ("bluebirds", "coupled_kl"): (88.9, None),
    ("bluebirds", "spectral"): (None, 89.9),
    ("bluebirds", "tensor"): (88.0, None),
    ("rte", "multispa"): (91.6, 92.9),
    ("rte", "coupled_kl"): (92.9, None),
    ("rte", "spectral"): (None, 92.9),
    ("dogs", "multispa"): (81.8, 84.0),
}
"""Per cent right, as published or by the reference runs beside these: by moments alone, and after EM."""


@pytest.mark.parametrize(("name", "method"), PUBLISHED, ids=lambda x: x)
def test_published_accuracies(name: str, method: str, real_data: Path) -> None:
    data, gold = read(real_data, name)
    found = getattr(moments, method)(data)
    settings = {"inference": "em", "seed": 0}
    fits = (
        crowdppl.fit(fixed(crowdppl.method("dawid_skene"), found.start), data, **settings),
        crowdppl.fit("dawid_skene", data, start=found.start, max_iterations=10, **settings),
    )
    for posterior, wanted in zip(fits, PUBLISHED[name, method], strict=True):
        right = 100 * crowdppl.evaluate(posterior, gold).accuracy
        assert wanted is None or right == pytest.approx(wanted, abs=1.0), right


def test_known_values_stay_and_the_rest_is_inferred() -> None:
    tables, share = crowd_of(2, 6, 2, experts=False)
    data = drawn(300, tables, share, 0)
    log_p = np.log(share) + np.stack([np.log(tables[a][:, x]) for a, x in enumerate(answers(data))]).sum(0).T
    exact = np.exp(log_p) / np.exp(log_p).sum(1, keepdims=True)
    both = {"confusion": tables, "prevalence": share}
    model = fixed(crowdppl.method("dawid_skene"), both)
    posterior = crowdppl.fit(model, data)
    np.testing.assert_allclose(posterior.result.probabilities, exact, atol=1e-10)
    np.testing.assert_allclose(posterior.confusion(), tables, atol=1e-10)
    assert posterior.inference == "em" and model.prevalence == "learned"
    with pytest.raises(MethodError, match="nothing to do; use inference='em'"):
        crowdppl.fit(model, data, inference="vb")
    one = fixed(crowdppl.method("bayesian_dawid_skene"), {"confusion": tables})
    found = crowdppl.fit(one, data, inference="vb")
    assert list(found.result.sites) == ["prevalence"]
    assert found.result.prevalence == pytest.approx(share, abs=0.1)


def answers(data: crowdppl.Annotations) -> np.ndarray:
    """The class of each item by each annotator, (A, N)."""
    item, annotator, answer = data.label_codes()
    out = np.empty((data.n_annotators, data.n_items), int)
    out[annotator, item] = answer
    return out


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"confusion": np.eye(2)}, r"has shape \(2, 2\), not \(6, 2, 2\)"),
        ({"prevalence": [0.4, 0.4]}, "lies outside"),
        ({"skill": [0.4, 0.4]}, "names 'skill', which the model DawidSkene does not draw"),
    ],
)
def test_wrong_known_values_are_refused(values: dict[str, Any], message: str) -> None:
    data = drawn(50, *crowd_of(2, 6, 2, experts=False), seed=0)
    with pytest.raises(MethodError, match=message):
        crowdppl.fit(fixed(crowdppl.method("dawid_skene"), values), data, inference="em")
