"""What a label is expected to teach: by hand, and against refitting with every answer and sums over all states."""

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist
import pytest
import torch

from crowdppl.data.annotations import Annotations
from crowdppl.errors import CrowdpplWarning, DataError, MethodError
from crowdppl.fitting import fit
from crowdppl.inference.predict import answers
from crowdppl.inference.result import OnDemand, SiteResult, TableDraws
from crowdppl.networks import network_output
from crowdppl.posterior import Posterior
from crowdppl.primitives import Block, annotate, diagonal_prior, plates, prevalence, truth
from crowdppl.results.acquisition import information, suggest_labels
from tests.brute import Tiny, joint
from tests.class_result import changed
from tests.crowd import annotations, crowd


def bits(p: np.ndarray) -> float:
    return float(-sum(x * np.log2(x) for x in np.ravel(p) if x > 0))


def held(p: list[list[float]], tables: np.ndarray, labels: list[tuple[int, int, int]], **options: Any) -> Posterior:
    """A posterior with these probabilities and tables, of labels (item, annotator, class)."""
    data = annotations(labels, len(p[0]), items=list(range(len(p))), annotators=list(range(len(tables))), **options)
    found = fit("dawid_skene", data, inference="em", max_iterations=1)
    result = changed(found.result, probabilities=np.array(p, float), table=np.array(tables, float))
    return replace(found, result=result)


def coin(right: float, n_classes: int = 2) -> np.ndarray:
    table = np.full((n_classes, n_classes), (1 - right) / (n_classes - 1))
    np.fill_diagonal(table, right)
    return table


def every_pair(posterior: Posterior, **options: Any) -> pd.DataFrame:
    """What suggest_labels says of all pairs, by (item, annotator)."""
    data = posterior.data
    found = suggest_labels(posterior, data.n_items * data.n_annotators, per_item=data.n_annotators, **options)
    return found.set_index(["item", "annotator"])


def test_a_symmetric_channel_by_hand() -> None:
    posterior = held([[0.5, 0.5], [0.9, 0.1]], [coin(0.8), coin(0.5)], [(0, 1, 0)])
    gain = every_pair(posterior, exclude_answered=False)
    assert gain.loc[(0, 0), "information"] == pytest.approx(1 - bits([0.8, 0.2]))
    says_0 = 0.9 * 0.8 + 0.1 * 0.2
    assert gain.loc[(1, 0), "information"] == pytest.approx(bits([says_0, 1 - says_0]) - bits([0.8, 0.2]), abs=1e-9)
    assert gain.loc[(0, 1), "information"] == gain.loc[(1, 1), "information"] == 0
    assert gain.loc[(0, 0), "entropy"] == 1
    assert gain.loc[(1, 0), "entropy"] == pytest.approx(bits([0.9, 0.1]))


@pytest.mark.parametrize("method", ["dawid_skene", "one_coin"])
def test_information_is_that_of_refitting_with_every_answer(method: str) -> None:
    posterior = fit(method, crowd(30, 5, 3, 2, seed=1), inference="em", tolerance=1e-12)
    data, now = posterior.data, posterior.probabilities()
    rows = data.frame()
    rows["item"] = rows["item"].astype(object)
    asked = every_pair(posterior)
    tried = [
        rows[rows["item"] == item]
        .assign(item=f"{item} {annotator} {answer}")
        .pipe(lambda own, a=annotator, y=answer: pd.concat([own, own.iloc[:1].assign(annotator=a, label=y)]))
        for item, annotator in asked.index
        for answer in data.answers
    ]
    after = posterior.predict(pd.concat(tried))
    table, informed = posterior.confusion(), 0
    for (item, annotator), said in asked.iterrows():
        chance = now.loc[item].to_numpy() @ table.sel(annotator=annotator).values
        mixed = [after.loc[f"{item} {annotator} {answer}"].to_numpy() for answer in data.answers]
        np.testing.assert_allclose(chance @ np.array(mixed), now.loc[item], atol=1e-6)  # the answers add up to now
        expected = bits(now.loc[item]) - sum(w * bits(p) for w, p in zip(chance, mixed, strict=True))
        assert said["information"] == pytest.approx(expected, abs=2e-6)
        informed += expected > 0.05
    assert len(asked) == data.n_items * 3
    assert informed >= 4, "some labels have to teach something, or equality says nothing"


# Two annotators of a group, two alone; the last item has no label.
LABELS = ((0, 0, 0), (0, 1, 1), (0, 2, 0), (1, 0, 1), (1, 2, 2), (2, 1, 1), (2, 2, 1), (2, 3, 0), (3, 3, 2))
ABSTAINED = (*LABELS, (1, 1, 3), (2, 0, 3))
RICH = {"ebcc": {}, "dependent_clusters": {"groups": {0: 0, 1: 0, 2: 1, 3: 2}}, "item_difficulty": {}}


def at_random(posterior: Posterior, seed: int) -> Posterior:
    """The same model somewhere else: fits of a few labels are all too certain."""
    rng, sites = np.random.default_rng(seed), {}
    for name, site in posterior.result.sites.items():
        shares = np.allclose(site.mean.sum(-1), 1)
        value = rng.dirichlet(np.full(site.mean.shape[-1], 1.5), site.mean.shape[:-1]) if shares else None
        value = rng.normal(0, 0.7, site.mean.shape) if value is None else value
        sites[name] = SiteResult(name, site.dims, "point", {"value": value})
    p = rng.dirichlet(np.full(3, 1.5), len(posterior.result.probabilities))
    return replace(posterior, result=changed(posterior.result, sites=sites, probabilities=p))


def brute_joint(posterior: Posterior, tiny: Tiny, more: tuple[int, int, int], site_values: Any) -> np.ndarray:
    """p(truth, labels and one more) of the item that gets one more, (K,)."""
    order, _ = tiny.built
    values = {}
    for name, site in posterior.result.sites.items():
        x = torch.as_tensor(np.array(site_values(site)))
        values[name] = x[torch.as_tensor(order.astype(np.int64))] if site.dims[:1] == ("item",) else x
    with_more = replace(tiny, labels=(*tiny.labels, more))
    found = joint(posterior.method, posterior.model, values, with_more)
    return np.asarray(found[int(np.flatnonzero(order == more[0])[0])])


def of_tiny(tiny: Tiny) -> Annotations:
    item, annotator, answer = (np.array(x) for x in zip(*tiny.labels, strict=True))
    return Annotations.from_arrays(
        item,
        annotator,
        answer,
        classes=list(range(tiny.n_classes)),
        abstentions=list(range(tiny.n_classes, tiny.n_answers)),
        items=list(range(tiny.n_items)),
        annotators=list(range(tiny.n_annotators)),
    )


def tiny_crowd(labels: tuple[tuple[int, int, int], ...]) -> Tiny:
    n_answers = 1 + max(3 - 1, *(answer for _, _, answer in labels))
    may = tuple(any(a == who and answer >= 3 for _, a, answer in labels) for who in range(4))
    return Tiny(labels, 5, 4, 3, n_answers, (-1,) * 5, may)


@pytest.mark.parametrize(
    "method", ["ebcc", "dependent_clusters", pytest.param("item_difficulty", marks=pytest.mark.slow)]
)
def test_where_labels_share_more_than_the_truth_each_item_has_its_tables(method: str) -> None:
    tiny = tiny_crowd(ABSTAINED)
    posterior = fit(method, of_tiny(tiny), inference="vb", settings=RICH[method], max_iterations=2)
    posterior = at_random(posterior, seed=4)
    asked = every_pair(posterior, exclude_answered=False)
    now = posterior.result.probabilities
    spread = np.zeros((5, 4))
    for (item, annotator), said in asked.iterrows():
        may = range(tiny.n_answers if tiny.abstainers[annotator] else 3)
        parts = [brute_joint(posterior, tiny, (item, annotator, y), lambda s: s.mean) for y in may]
        both = np.array(parts) / np.sum(parts)
        table = both / both.sum(0)
        given = table * now[item]
        expected = bits(given.sum(0)) + bits(given.sum(1)) - bits(given)
        assert said["information"] == pytest.approx(expected, abs=1e-8)
        spread[item, annotator] = table[0, 0]
    assert asked["information"].max() > 0.1
    assert np.ptp(spread, axis=0).max() > 0.01, "were tables the same for all items, one for all would do"


@pytest.mark.parametrize("method", ["multinomial", "class_coin", "mace"])
def test_where_labels_share_the_truth_alone_one_table_serves_all_items(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    posterior = fit(method, crowd(12, 5, 3, 2, seed=1), inference="em", tolerance=1e-12)
    quick = every_pair(posterior)
    monkeypatch.setattr(answers, "truth_alone", lambda problem: False)
    slow = every_pair(posterior).reindex(quick.index)
    np.testing.assert_allclose(slow["information"], quick["information"], atol=1e-7)
    assert quick["information"].max() > 0.02


def test_tables_of_single_items_are_averaged_over_draws() -> None:
    tiny = tiny_crowd(LABELS)
    posterior = fit("ebcc", of_tiny(tiny), inference="gibbs", chains=2, draws=25, warmup=5)
    asked = every_pair(posterior, exclude_answered=False)
    item, annotator = 0, 3
    both = np.zeros((3, 3))
    for chain in range(2):
        for draw in range(25):
            parts = [
                brute_joint(
                    posterior, tiny, (item, annotator, y), lambda s, c=chain, d=draw: s.arrays["draws"][c, d]
                )
                for y in range(3)
            ]
            both += np.array(parts) / np.sum(parts)
    given = both / both.sum(0) * posterior.result.probabilities[item]
    expected = bits(given.sum(0)) + bits(given.sum(1)) - bits(given)
    assert asked.loc[(item, annotator), "information"] == pytest.approx(expected, abs=1e-6)


def test_no_information_from_an_annotator_who_is_perfect_or_perfectly_wrong() -> None:
    draws = np.array([[coin(1.0), coin(0.8)], [coin(0.0), coin(0.8)]])
    posterior = held([[0.5, 0.5]], draws.mean(0), [(0, 1, 0)])
    drawn = OnDemand.of(TableDraws(draws.astype(np.float32), np.full((2, 2), 0.5)))
    posterior = replace(posterior, result=changed(posterior.result, draws=drawn))
    found = every_pair(posterior, exclude_answered=False)["information"]
    assert found[(0, 0)] == 0
    assert found[(0, 1)] == pytest.approx(1 - bits([0.8, 0.2]))
    each = [information(np.array([[0.5, 0.5]]), draw.transpose(1, 0, 2)[None])[0, 0] for draw in draws]
    assert np.mean(each) == pytest.approx(1), "the mean of gains would send everyone to them"


@pytest.mark.parametrize(("chunk", "per_item"), [(1, 3), (60, 1), (10**6, 3)])
def test_the_best_are_the_best_of_all_pairs(chunk: int, per_item: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "CHUNK", chunk)
    rng = np.random.default_rng(3)
    p, tables = rng.dirichlet(np.full(3, 0.4), 80), rng.dirichlet(np.full(3, 0.7), (6, 3))
    labels = [(i, int(rng.integers(6)), int(rng.integers(3))) for i in range(80)]
    posterior = held(p.tolist(), tables, labels)
    who = [5, 1, 4, 2]
    rows = []
    for i in range(80):
        gains = []
        for a in who:
            if (i, a) not in {(item, annotator) for item, annotator, _ in labels}:
                both = p[i][:, None] * tables[a]
                gains.append((bits(p[i]) + bits(both.sum(0)) - bits(both), i, a))
        rows += sorted(gains, reverse=True)[:per_item]
    expected = sorted(rows, reverse=True)[:25]
    found = suggest_labels(posterior, 25, annotators=who, per_item=per_item)
    np.testing.assert_allclose(found["information"], [gain for gain, _, _ in expected], atol=1e-8)
    assert list(zip(found["item"], found["annotator"], strict=True)) == [(i, a) for _, i, a in expected]
    assert (found["information"] <= found["entropy"] + 1e-9).all()


@pytest.mark.parametrize("chunk", [60, 10**6])
@pytest.mark.parametrize(("n", "per_item", "per_annotator"), [(60, 2, 14), (40, 3, 10)])
def test_nobody_is_asked_more_than_they_may_and_the_best_come_first(
    chunk: int, n: int, per_item: int, per_annotator: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "CHUNK", chunk)
    rng = np.random.default_rng(3)
    p, tables = rng.dirichlet(np.full(3, 0.4), 80), rng.dirichlet(np.full(3, 0.7), (6, 3))
    labels = [(i, int(rng.integers(6)), int(rng.integers(3))) for i in range(80)]
    posterior = held(p.tolist(), tables, labels)
    every = []
    for i, a in np.ndindex(80, 6):
        both = p[i][:, None] * tables[a]
        every.append((bits(p[i]) + bits(both.sum(0)) - bits(both), i, a))
    of_item, of_annotator, expected = np.zeros(80, int), np.zeros(6, int), []
    for _, i, a in sorted(every, reverse=True):
        if of_item[i] < per_item and of_annotator[a] < per_annotator and len(expected) < n:
            expected.append((i, a))
            of_item[i] += 1
            of_annotator[a] += 1
    given = {"per_item": per_item, "per_annotator": per_annotator, "exclude_answered": False}
    found = suggest_labels(posterior, n, **given)
    assert list(zip(found["item"], found["annotator"], strict=True)) == expected
    alone = suggest_labels(posterior, n, per_item=per_item, exclude_answered=False)
    assert alone["annotator"].value_counts().max() > per_annotator, "without a limit, one is asked more"


def test_neither_rows_nor_classes_nor_annotators_order_ties() -> None:
    tables = np.array([coin(0.7, 3)] * 4)
    labels = [(i, 3, 0) for i in range(40)]
    even = held([[1 / 3] * 3] * 40, tables, labels)
    found = suggest_labels(even, 10)
    assert found["information"].nunique() == 1
    assert found["item"].tolist() != sorted(found["item"])
    assert found["annotator"].nunique() == 3
    book = [2, 0, 1]
    turned = Annotations.from_arrays(
        *zip(*reversed(labels), strict=True), classes=book, items=list(range(40)), annotators=[0, 1, 2, 3]
    )
    result = changed(
        even.result,
        probabilities=even.result.probabilities[:, book] * (1 + 1e-14),
        table=even.result.table[:, book][:, :, book],
    )
    other = suggest_labels(replace(even, data=turned, result=result), 10)
    pd.testing.assert_frame_equal(other, found)
    assert suggest_labels(even, 10, seed=1)["item"].tolist() != found["item"].tolist()
    pd.testing.assert_frame_equal(suggest_labels(even, 10, seed=0), found)


def test_what_cannot_be_asked_is_refused() -> None:
    posterior = held([[0.5, 0.5], [0.9, 0.1]], [coin(0.8), coin(0.6)], [(0, 1, 0), (1, 0, 1)])
    with pytest.raises(MethodError, match="n=0"):
        suggest_labels(posterior, 0)
    with pytest.raises(MethodError, match="per_item=0"):
        suggest_labels(posterior, 1, per_item=0)
    with pytest.raises(DataError, match="'nobody'"):
        suggest_labels(posterior, 1, annotators=["nobody"])
    with pytest.warns(CrowdpplWarning, match="only 2"):
        found = suggest_labels(posterior, 5)
    assert sorted(zip(found["item"], found["annotator"], strict=True)) == [(0, 0), (1, 1)]
    with pytest.warns(CrowdpplWarning, match="only 0"):
        assert suggest_labels(posterior, 2, annotators=[]).empty


@pytest.mark.slow
def test_five_million_pairs_take_little_memory() -> None:
    rng = np.random.default_rng(0)
    n, a, k = 100_000, 50, 5
    data = Annotations.from_arrays(np.arange(n), rng.integers(a, size=n), rng.integers(k, size=n))
    small = fit("dawid_skene", crowd(20, 5, 5, 3), inference="em", max_iterations=1)
    p, table = rng.dirichlet(np.full(k, 0.5), n), rng.dirichlet(np.full(k, 0.5), (a, k))
    posterior = replace(small, data=data, result=changed(small.result, probabilities=p, table=table))
    tracemalloc.start()
    found = suggest_labels(posterior, 50_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 250e6, "all pairs at once would be 1 GB"
    pd.testing.assert_frame_equal(suggest_labels(posterior, 100), found.head(100))
    best = suggest_labels(posterior, 100, exclude_answered=False)["information"]
    top = [information(some, table.transpose(1, 0, 2)[None]).max(1) for some in np.array_split(p, 20)]
    np.testing.assert_allclose(best, np.sort(np.concatenate(top))[::-1][:100], atol=1e-8)


class Clock(torch.nn.Module):
    """The half of the day in which an item was shown, as it stands in the features."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, :1]


class TwoHalves:
    """Annotators whose confusion is one in the morning and another in the afternoon."""

    def __init__(self) -> None:
        self.standing = {"clock": Clock()}

    def model(self, data: Block) -> None:
        k, log_p = data.n_classes, prevalence(data)
        with plates.annotators(data):
            rows = dist.Dirichlet(diagonal_prior(k, 12.0).expand(2, k, k)).to_event(2)
            confusion = pyro.sample("confusion", rows).log()
        table = confusion.reshape(*confusion.shape[:-3], 2 * k, k)
        shown = network_output(data, self.standing["clock"], "clock")
        half = torch.zeros(1) if shown is None else shown[..., 0]
        with plates.items(data):
            annotate(data, table, half.long() * k + truth(data, log_p))


def test_where_labels_depend_on_what_a_network_sees_each_item_has_its_tables() -> None:
    rows = crowd(30, 5, 3, 2, seed=1).frame()
    half = np.arange(30) % 2
    features = pd.DataFrame({"half": half.astype(float)}, index=range(30))
    data = Annotations.from_frame(rows, features=features)
    posterior = fit(TwoHalves(), data, inference="em", tolerance=1e-12)
    confusion, now = posterior.result.sites["confusion"].mean, posterior.result.probabilities
    for (item, annotator), said in every_pair(posterior).iterrows():
        table, p = confusion[annotator, half[item]], now[item]
        expected = bits(p @ table) - sum(share * bits(row) for share, row in zip(p, table, strict=True))
        assert said["information"] == pytest.approx(expected, abs=1e-8)


def test_items_of_equal_entropy_differ_in_what_can_be_learned() -> None:
    """Annotators tell class 0 from the others, but not 1 from 2."""
    table = np.array([[0.9, 0.05, 0.05], [0.1, 0.45, 0.45], [0.1, 0.45, 0.45]])
    posterior = held([[0.0, 0.5, 0.5], [0.5, 0.5, 0.0]], [table, table], [(0, 0, 1), (1, 0, 1)])
    found = suggest_labels(posterior, 2)
    assert found["entropy"].tolist() == [1, 1]
    assert found["item"].tolist() == [1, 0]
    assert found["annotator"].tolist() == [1, 1]
    assert found["information"][0] > 0.5
    assert found["information"][1] == 0


def test_an_abstention_teaches_what_its_table_says() -> None:
    data = Annotations.from_arrays(
        [0, 0, 1],
        ["a", "b", "a"],
        ["no", "pass", "yes"],
        classes=["no", "yes"],
        abstentions=["pass"],
        items=[0, 1, 2],
    )
    found = fit("bayesian_dawid_skene", data, inference="em")
    table = np.array([[[0.8, 0.2, 0.0], [0.2, 0.8, 0.0]], [[0.1, 0.1, 0.8], [0.45, 0.45, 0.1]]])
    result = changed(found.result, probabilities=np.full((3, 2), 0.5), table=table)
    gain = every_pair(replace(found, result=result), exclude_answered=False)["information"]
    assert gain[(2, "a")] == pytest.approx(1 - bits([0.8, 0.2]))
    assert gain[(2, "b")] == pytest.approx(bits([0.275, 0.275, 0.45]) - (bits(table[1, 0]) + bits(table[1, 1])) / 2)
    assert gain[(2, "b")] > 0.3, "whoever passes on one class says which it is"


def greedy(gain: pd.Series, price: dict[int, float], n: int, budget: float, most: dict[str, int]) -> list[Any]:
    """Pairs in the order of gain a unit of cost, those that fit, one by one."""
    order = sorted(gain.index, key=lambda pair: -gain[pair] / price[pair[1]])
    chosen: list[Any] = []
    for item, annotator in order:
        fits = sum(i == item for i, _ in chosen) < most["per_item"]
        fits &= sum(a == annotator for _, a in chosen) < most["per_annotator"]
        if fits and len(chosen) < n and sum(price[a] for _, a in chosen) + price[annotator] <= budget + 1e-9:
            chosen.append((item, annotator))
    return chosen


@pytest.mark.parametrize("limits", [{"per_item": 1}, {"per_item": 2}, {"per_item": 2, "per_annotator": 3}], ids=str)
@pytest.mark.parametrize(("n", "budget"), [(None, 7.3), (9, None), (9, 6.0), (None, 0.4), (40, 1e9)])
def test_costs_and_budgets_are_kept_as_one_by_one(
    n: int | None, budget: float | None, limits: dict[str, int]
) -> None:
    posterior = fit("bayesian_dawid_skene", crowd(12, 4, 3, 2, seed=3), inference="vb", seed=0)
    gain = every_pair(posterior)["information"]
    price = dict(zip(posterior.data.annotators, (0.5, 2.0, 0.7, 1.3), strict=True))
    asked = suggest_labels(posterior, n, costs=price, budget=budget, **limits)
    most = {"per_annotator": 10**6, **limits}
    wanted = greedy(gain, price, n or 10**6, budget or np.inf, most)
    assert [*zip(asked["item"], asked["annotator"], strict=True)] == wanted
    np.testing.assert_allclose(asked["cost"], asked["annotator"].map(price))
    np.testing.assert_allclose(asked["information"], [gain[pair] for pair in wanted], atol=1e-8)


def test_a_label_of_anyone_costs_one() -> None:
    posterior = fit("bayesian_dawid_skene", crowd(12, 4, 3, 2, seed=3), inference="vb", seed=0)
    pd.testing.assert_frame_equal(suggest_labels(posterior, budget=5), suggest_labels(posterior, 5))
    assert not len(suggest_labels(posterior, budget=0.5))


def test_items_that_are_sure_enough_are_asked_no_more() -> None:
    posterior = fit("bayesian_dawid_skene", crowd(30, 4, 3, 2, seed=3), inference="vb", seed=0)
    top = posterior.probabilities().max(axis=1)
    level = float(top.median())
    asked = suggest_labels(posterior, 1000, confidence=level)
    assert {*asked["item"]} == {*top.index[top < level]}
    assert not len(suggest_labels(posterior, 5, confidence=float(top.min()) - 1e-9))


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({}, MethodError, "budget="),
        ({"n": 3, "budget": 0}, MethodError, "budget=0"),
        ({"n": 3, "costs": {}}, DataError, "annotators="),
        ({"n": 3, "costs": 2}, DataError, "costs=2"),
        ({"n": 3, "confidence": 1}, MethodError, "confidence=1"),
    ],
    ids=str,
)
def test_wrong_limits_are_named(options: dict[str, Any], error: type[Exception], said: str) -> None:
    posterior = fit("dawid_skene", crowd(12, 4, 3, 2, seed=3), inference="em")
    with pytest.raises(error, match=said):
        suggest_labels(posterior, **options)
    free = dict.fromkeys(posterior.data.annotators, 0.0)
    with pytest.raises(DataError, match=r"costs\[.*=0"):
        suggest_labels(posterior, 3, costs=free)


def test_numbers_have_no_confidence() -> None:
    rows = [(i, a, float(i + a)) for i in range(6) for a in range(3)]
    data = Annotations.from_frame(pd.DataFrame(rows, columns=["item", "annotator", "label"]), kind="real")
    posterior = fit("gaussian_annotators", data, inference="em")
    with pytest.raises(MethodError, match="confidence=0.9"):
        suggest_labels(posterior, 3, confidence=0.9)
    assert len(suggest_labels(posterior, budget=2, exclude_answered=False)) == 2
