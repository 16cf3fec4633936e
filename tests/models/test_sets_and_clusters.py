"""Sets of classes below clusters of items, and clusters of objects by the similarity of pairs."""

import sys
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import crowdppl
import crowdppl.primitives as cp
from crowdppl import Annotations
from crowdppl.errors import DataError, MethodError
from crowdppl.inference.density import Density
from crowdppl.results.grouping import _expected

RNG = np.random.default_rng(0)


def test_expected_scores_of_a_set_are_those_of_all_truths() -> None:
    p = np.array([0.8, 0.5, 0.3])
    found = {name: scores[1] for name, scores in _expected(np.stack([p / 2, p])).items()}
    for k in range(4):
        mine, want = {*range(k)}, np.zeros(3)
        for truth in product([0, 1], repeat=3):
            weight = np.prod(np.where(truth, p, 1 - p))
            true = {n for n in range(3) if truth[n]}
            both, either = len(mine & true), len(mine | true)
            f1 = 2 * both / (len(mine) + len(true)) if either else 1
            want += weight * np.array([1 - len(mine ^ true) / 3, both / either if either else 1, f1])
        np.testing.assert_allclose([found[name][k] for name in ("accuracy", "jaccard", "f1")], want)


def test_a_set_has_classes_above_a_half_or_is_best_by_expectation() -> None:
    posterior = crowdppl.fit("set_clusters", crowdppl.datasets.example("set"), inference="vb", seed=0)
    p = posterior.probabilities()["yes"]
    found = posterior.sets()
    for item, members in found["set"].items():
        assert {*members} == {name for name in ("long", "red", "round") if p[item, name] > 0.5}
    assert (posterior.sets("jaccard")["jaccard"] >= found["jaccard"]).all()
    with pytest.raises(DataError, match="kind='set'"):
        crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="em").sets()
    with pytest.raises(MethodError, match="crowd_clustering"):
        crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="em").clusters()


@pytest.mark.parametrize("measure", ["accuracy", "jaccard", "f1"])
def test_the_decision_about_a_set_costs_least_of_all_sets(measure: Any) -> None:
    """Against the cost of each set of classes, summed over each truth."""
    data = crowdppl.datasets.example("set")
    posterior = crowdppl.fit("set_clusters", data, inference="vb", settings={"clusters": 1}, seed=0)
    found, yes = posterior.decide(measure=measure), posterior.probabilities()["yes"]
    names = ("long", "red", "round")
    for item, row in found.iterrows():
        p = np.array([yes[item, name] for name in names])
        costs = {}
        for mine, truth in product(product([0, 1], repeat=3), repeat=2):
            both, either = (sum(op(pair) for pair in zip(mine, truth, strict=True)) for op in (all, any))
            scores = {"accuracy": 1 - (either - both) / 3, "jaccard": both / either if either else 1}
            scores["f1"] = 2 * both / (both + either) if either else 1
            costs[mine] = costs.get(mine, 0) + np.prod(np.where(truth, p, 1 - p)) * (1 - scores[measure])
        assert row["expected_cost"] == pytest.approx(min(costs.values()))
        own, other = (tuple(int(n in row[name]) for n in names) for name in ("decision", "runner_up"))
        assert costs[own] == pytest.approx(row["expected_cost"])
        assert costs[other] - costs[own] == pytest.approx(row["margin"], abs=1e-9)
    assert found["decision"].tolist() == posterior.sets(measure)["set"].tolist()


def test_decisions_about_sets_want_sets_and_no_costs() -> None:
    data = crowdppl.datasets.example("set")
    posterior = crowdppl.fit("set_clusters", data, inference="vb", seed=0)
    with pytest.raises(MethodError, match="ask_again="):
        posterior.decide(measure="f1", ask_again=0.1)
    with pytest.raises(MethodError, match="recall"):
        posterior.decide(measure="recall")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="kind='set'"):
        crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="em").decide(measure="f1")


def test_given_its_cluster_an_item_has_independent_classes() -> None:
    """The density at one-hot clusters, by hand."""
    data = crowdppl.datasets.example("set")
    model: Any = crowdppl.method("set_clusters", clusters=2)
    covariates = data.item_covariates
    group, of_class = covariates["item"].cat.codes.to_numpy(), covariates["class"].cat.codes.to_numpy()
    cluster = RNG.integers(2, size=6)
    rate, confusion = RNG.dirichlet([2, 2], (3, 2)), RNG.dirichlet([3, 1], (3, 2))
    values = {"share": [0.5, 0.5], "rate": rate, "confusion": confusion, "cluster": np.eye(2)[cluster]}
    found = Density(model.model)(data.as_block(), {n: torch.as_tensor(np.array(x)) for n, x in values.items()})
    item, annotator, answer = data.label_codes()
    prior = rate[of_class, cluster[group]]
    each = np.zeros((data.n_items, 2))
    np.add.at(each, item, np.log(confusion[annotator][np.arange(len(item)), :, answer]))
    assert float(found.objective) == pytest.approx(np.log((prior * np.exp(each)).sum(1)).sum())


def sets_in_clusters(seed: int) -> tuple[Annotations, pd.Series]:
    """60 items of three kinds of sets over six classes, each labelled by two of eight annotators."""
    rng = np.random.default_rng(seed)
    kinds = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1], [1, 0, 0, 0, 0, 1]])
    truth = np.where(rng.random((60, 6)) < 0.05, 1, kinds[rng.integers(3, size=60)])
    rows = []
    for n, a in product(range(60), range(2)):
        said = np.where(rng.random(6) < 0.75, truth[n], 1 - truth[n])
        rows.append((f"i{n:02}", f"a{(n + a * (1 + n // 8)) % 8}", [f"c{k}" for k in np.flatnonzero(said)]))
    names = [f"i{n:02} | c{k}" for n in range(60) for k in range(6)]
    gold = pd.Series(np.array(["no", "yes"])[truth.ravel()], index=names)
    return Annotations.from_frame(pd.DataFrame(rows, columns=["item", "annotator", "label"]), kind="set"), gold


@pytest.mark.slow
def test_clusters_help_where_classes_go_together() -> None:
    data, gold = sets_in_clusters(0)
    fits = [
        crowdppl.fit("set_clusters", data, inference="vb", settings={"clusters": m}, seed=0, max_iterations=60)
        for m in (1, 6)
    ]
    alone, together = (crowdppl.evaluate(fit, gold) for fit in fits)
    assert together.accuracy > alone.accuracy + 0.05 and together.log_score < alone.log_score - 0.05
    assert fits[1].clusters()["cluster"].nunique() < 6


def pairs(n: int, m: int, n_pairs: int, annotators: int, seed: int) -> tuple[Annotations, np.ndarray]:
    """Judgements of random pairs, one each, by annotators who are right in 70 % to 95 %."""
    rng = np.random.default_rng(seed)
    cluster = rng.integers(m, size=n)
    one, other = np.triu_indices(n, 1)
    at = rng.choice(len(one), n_pairs, replace=False)
    who = rng.integers(annotators, size=n_pairs)
    same = cluster[one[at]] == cluster[other[at]]
    said = same ^ (rng.random(n_pairs) > np.linspace(0.7, 0.95, annotators)[who])
    items = [(f"o{a:03}", f"o{b:03}") for a, b in zip(one[at], other[at], strict=True)]
    labels = np.array(["different", "same"])[said.astype(int)]
    return Annotations.from_arrays(items, [f"a{a}" for a in who], labels, kind="similarity"), cluster


@pytest.mark.slow
@pytest.mark.parametrize("inference", ["vb", "gibbs"])
def test_objects_and_the_number_of_clusters_are_found(inference: str) -> None:
    from sklearn.metrics import adjusted_rand_score

    data, cluster = pairs(120, 4, 3000, 15, 0)
    few: dict[str, Any] = (
        {"draws": 30, "warmup": 20, "chains": 1} if inference == "gibbs" else {"max_iterations": 80}
    )
    posterior = crowdppl.fit("crowd_clustering", data, inference=inference, seed=0, **few)
    found = posterior.clusters()
    assert posterior.model.clusters == 4 and found.index.tolist() == [f"o{n:03}" for n in range(120)]
    assert adjusted_rand_score(cluster, found["cluster"]) == 1


@pytest.mark.parametrize("m", [2, 5])
def test_clusters_by_hand(m: int) -> None:
    """Objects of one cluster with probability sum f g; a label is right or wrong by the annotator's rows."""
    data, _ = pairs(6, 2, 12, 3, 1)
    model: Any = crowdppl.method("crowd_clustering", clusters=m)
    covariates = data.item_covariates
    left, right = (covariates[side].cat.codes.to_numpy() for side in ("left", "right"))
    f, confusion = RNG.dirichlet(np.ones(m), 6), RNG.dirichlet([3, 1], (3, 2))
    at = {"membership": torch.from_numpy(f), "confusion": torch.from_numpy(confusion)}
    found = Density(model.model)(data.as_block(), at, marginals=["truth"])
    item, annotator, answer = data.label_codes()
    same = (f[left] * f[right]).sum(1)
    joint = np.stack([1 - same, same], 1)[item] * confusion[annotator, :, answer]  # one label a pair
    assert float(found.objective) == pytest.approx(np.log(joint.sum(1)).sum())
    want = (joint / joint.sum(1, keepdims=True))[np.argsort(item)][data.order]
    np.testing.assert_allclose(found.marginals["truth"].numpy(), want.T)


@pytest.mark.slow
def test_gibbs_is_the_posterior_of_draws_from_the_prior() -> None:
    """Importance sampling of memberships and confusions; whether objects are the same has no order of clusters."""
    data, _ = pairs(4, 2, 6, 2, 1)
    item, annotator, answer = data.label_codes()
    covariates = data.item_covariates
    left, right = (covariates[side].cat.codes.to_numpy()[item] for side in ("left", "right"))
    rng, n = np.random.default_rng(0), 200_000
    f = rng.dirichlet([0.5, 0.5], (n, 4))
    confusion = np.stack([rng.dirichlet(row, (n, 2)) for row in ([3, 1], [1, 3])], 2)  # (n, A, 2, 2)
    same = (f[:, left] * f[:, right]).sum(2)
    joint = np.stack([1 - same, same], 2) * confusion[:, annotator, :, answer].transpose(1, 0, 2)
    each = joint.sum(2)
    weight = each.prod(1)
    exact = np.empty(6)
    exact[item] = (weight[:, None] * joint[..., 1] / each).sum(0) / weight.sum()
    few: dict[str, Any] = {"draws": 40, "warmup": 30, "chains": 30, "settings": {"clusters": 2}}
    drawn = crowdppl.fit("crowd_clustering", data, inference="gibbs", seed=0, **few)
    np.testing.assert_allclose(
        drawn.probabilities()["same"], exact, atol=0.06
    )  # 3 s.e. of 150 free draws of sd .25


def test_a_single_cluster_is_refused() -> None:
    with pytest.raises(MethodError, match="clusters=1"):
        crowdppl.method("crowd_clustering", clusters=1)


def records(n: int) -> Annotations:
    """Pairs of records (ai, bi) that are the same, and others that are not; three annotators are always right."""
    items = [(f"a{i}", f"b{(i + k) % n}") for i in range(n) for k in range(3)]
    label = ["same", "different", "different"] * n
    who = np.repeat(["x", "y", "z"], len(items))
    return Annotations.from_arrays(items * 3, who, label * 3, kind="similarity")


@pytest.mark.parametrize("method", ["record_linkage", "crowd_clustering"])
@pytest.mark.parametrize("n", [30, 40])
def test_records_are_linked_in_any_number_of_clusters(method: str, n: int) -> None:
    posterior = crowdppl.fit(method, records(n), inference="vb", seed=0)
    found = posterior.clusters()["cluster"]
    assert found.nunique() == n and all(found[f"a{i}"] == found[f"b{i}"] for i in range(n))


@pytest.mark.slow
def test_clusters_are_those_of_pairs_where_draws_exchange_their_numbers() -> None:
    posterior = crowdppl.fit("crowd_clustering", records(20), draws=100, warmup=100, seed=0)
    found = posterior.clusters()["cluster"]
    assert found.nunique() == 20 and all(found[f"a{i}"] == found[f"b{i}"] for i in range(20))
    assert len({*posterior.result.sites["membership"].mean.argmax(-1)}) < 20


def test_more_clusters_than_are_looked_for_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[crowdppl.method("crowd_clustering").__module__], "MOST", 4)
    with pytest.raises(MethodError, match="record_linkage"):
        crowdppl.fit("crowd_clustering", pairs(120, 4, 3000, 15, 0)[0], inference="vb", seed=0)


def test_evidence_of_clusters_by_hand() -> None:
    """Two votes of two right: 1 / 3 under a flat prior; sizes two and one by Ewens' formula."""
    data = Annotations.from_arrays([("a", "b"), ("b", "c")], ["x", "x"], ["same", "different"], kind="similarity")
    one = cp.log_evidence(data.as_block(), np.array([0, 0, 1]))
    theta = np.geomspace(0.01, 300, 100)
    sizes = theta**2 / (theta * (theta + 1) * (theta + 2))
    assert one == pytest.approx(np.log(1 / 3) + np.log(sizes.max()))


def test_bridges_leave_the_sizes_of_both_sides() -> None:
    """Against clusters of each graph without the pair."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    from crowdppl.primitives.linkage import sizes_without

    for seed in range(20):
        rng = np.random.default_rng(seed)
        left, right = np.triu_indices(9, 1)
        kept = rng.random(len(left)) < 0.2
        left, right, weight = left[kept], right[kept], np.ones(kept.sum())

        def parts(some: np.ndarray, left: np.ndarray = left, right: np.ndarray = right) -> np.ndarray:
            graph = coo_array((np.ones(some.sum()), (left[some], right[some])), (9, 9))
            return np.asarray(connected_components(graph, directed=False)[1])

        found = sizes_without(left, right, weight, parts(np.ones(len(left), bool)))
        for i, sizes in enumerate(found):
            code = parts(np.arange(len(left)) != i)
            one, other = code[left[i]], code[right[i]]
            want = [0, 0] if one == other else [(code == one).sum(), (code == other).sum()]
            assert sorted(sizes) == sorted(want)
