"""Many classes: truths that no label names are summed out together, and tables of coins are not formed."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crowdppl
from crowdppl import Annotations, Posterior
from crowdppl.inference import confusions
from crowdppl.inference.coin_tables import CoinTables
from crowdppl.results.annotators import information

K = 7
pytestmark = pytest.mark.filterwarnings("ignore")
SOME = [("one_coin", "learned"), ("mace", "learned")]
GLAD = ("glad", "learned")
MORE = [
    pytest.param(*case, marks=pytest.mark.slow) for case in (("one_coin", "uniform"), ("majority_vote", "learned"))
]


def crowd(abstentions: bool = False) -> Annotations:
    """60 items of 7 classes, some known, with four labels each."""
    rng = np.random.default_rng(0)
    truth, item = rng.integers(0, K, 60), np.repeat(np.arange(60), 4)
    annotator = np.tile(np.arange(8), 30)
    label = np.where(rng.random(240) < 0.3 + 0.08 * annotator, truth[item], rng.integers(0, K, 240)).astype(object)
    if abstentions:
        label[::11] = "?"
    known: dict[str, Any] = {"abstentions": ["?"]} if abstentions else {}
    return Annotations.from_arrays(item, annotator, label, classes=range(K), gold={0: 6, 3: 2, 30: 0}, **known)


def fitted(method: str, prevalence: str, data: Annotations, inference: str = "vb") -> Posterior:
    settings = {"prevalence": prevalence}
    return crowdppl.fit(method, data, inference=inference, settings=settings, seed=0, max_iterations=6)


@pytest.mark.parametrize("inference", ["vb", pytest.param("em", marks=pytest.mark.slow)])
@pytest.mark.parametrize("abstentions", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize(("method", "prevalence"), [*SOME, pytest.param(*GLAD, marks=pytest.mark.slow), *MORE])
def test_classes_that_no_label_names_may_be_summed_out_together(
    method: str, prevalence: str, abstentions: bool, inference: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = crowd(abstentions)
    one = fitted(method, prevalence, data, inference)
    monkeypatch.setattr("crowdppl.data.blocks.MANY_CLASSES", 3)
    monkeypatch.setattr("crowdppl.data.blocks.FEW_NAMED", 1)
    other = fitted(method, prevalence, data, inference)
    np.testing.assert_allclose(other.probabilities(), one.probabilities(), atol=1e-9)
    assert other.diagnostics()["objective"] == pytest.approx(one.diagnostics()["objective"], rel=1e-10)
    if inference == "vb":
        np.testing.assert_allclose(other.probabilities(sd=True), one.probabilities(sd=True), atol=1e-9)
        np.testing.assert_allclose(other.entropy(), one.entropy(), atol=1e-9)
    for name, site in one.result.sites.items():
        np.testing.assert_allclose(other.result.sites[name].mean, site.mean, atol=1e-8)


def test_blocks_of_items_may_differ_in_how_many_classes_are_named(
    monkeypatch: pytest.MonkeyPatch, small_blocks: Callable[[int], None]
) -> None:
    last = crowd().order[30:]
    rows = crowd().frame().assign(label=lambda x: x["label"].where(~x["item"].isin(last), x["item"] % K))
    one = fitted("mace", "learned", Annotations.from_frame(rows, classes=range(K)))
    small_blocks(1)
    for name, value in {"MANY_CLASSES": 3, "FEW_NAMED": 1}.items():
        monkeypatch.setattr(f"crowdppl.data.blocks.{name}", value)
    data = Annotations.from_frame(rows, classes=range(K))
    named = [replace(block, sparse=True).named_classes for block in data.blocks]
    assert [None if x is None else len(x) for x in named] == [4, 1]
    np.testing.assert_allclose(fitted("mace", "learned", data).probabilities(), one.probabilities(), atol=1e-9)


@pytest.mark.parametrize("abstentions", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("method", "prevalence"),
    [
        SOME[0],
        ("class_coin", "learned"),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in (SOME[1], GLAD)),
        *MORE,
    ],
)
def test_coins_are_the_tables_that_they_stand_for(
    method: str, prevalence: str, abstentions: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data = crowd(abstentions)
    one = fitted(method, prevalence, data)
    monkeypatch.setattr("crowdppl.primitives.labels.LARGE_TABLE", 0)
    other = fitted(method, prevalence, data)
    coins = other.result.confusions
    assert isinstance(coins, CoinTables) or (abstentions and method in ("majority_vote", "glad"))
    np.testing.assert_allclose(other.result.table, one.result.table, atol=1e-9)
    np.testing.assert_allclose(other.annotators(), one.annotators(), atol=1e-5)
    who, said = np.array([0, 3, 7]), np.array([1, 6, data.n_answers - 1])
    np.testing.assert_allclose(coins[who, :, said], one.result.table[who, :, said], atol=1e-9)
    assert [str(x) for x in other.doubts()] == [str(x) for x in one.doubts()]
    other.save(tmp_path / "kept")
    again = crowdppl.load(tmp_path / "kept")
    np.testing.assert_array_equal(again.confusion(draws=True), other.confusion(draws=True))


@pytest.mark.parametrize("method", ["one_coin", pytest.param("mace", marks=pytest.mark.slow)])
def test_a_thousand_classes_cost_no_table_of_their_pairs(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 400 annotators it would have 3 GB; nor is a start of items and classes needed."""
    monkeypatch.setattr("crowdppl.inference.problem.soft_truth", lambda *_: pytest.fail("computed"))
    item, annotator = np.repeat(np.arange(100), 4), np.arange(400)
    data = Annotations.from_arrays(item, annotator, item * 7 % 1000, classes=range(1000))
    found = fitted(method, "uniform", data)
    assert isinstance(found.result.confusions, CoinTables)
    np.testing.assert_array_equal(found.labels()["label"], np.arange(100) * 7 % 1000)
    assert (found.annotators()["accuracy"] > 0.5).all()


def test_draws_of_few_numbers_are_read_together_however_many_the_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    item, annotator = np.repeat(np.arange(100), 4), np.arange(400)
    data = Annotations.from_arrays(item, annotator, item * 7 % 1000, classes=range(1000))
    found, reads, read = fitted("one_coin", "uniform", data), [0], confusions.tables_read

    def counted(*at: Any) -> Any:
        reads[0] += 1
        return read(*at)

    monkeypatch.setattr(confusions, "tables_read", counted)
    assert found.annotators()["accuracy"].between(0.5, 1).all() and len(found.result.prevalence_draws) == 50
    assert reads[0] <= 3


def test_an_accuracy_for_each_of_a_thousand_classes_costs_no_table_of_their_pairs() -> None:
    item, annotator = np.repeat(np.arange(100), 4), np.arange(400)
    data = Annotations.from_arrays(item, annotator, item * 7 % 1000, classes=range(1000))
    found = fitted("class_coin", "uniform", data, "em")
    assert isinstance(found.result.confusions, CoinTables)
    np.testing.assert_array_equal(found.labels()["label"], np.arange(100) * 7 % 1000)


@pytest.mark.parametrize(("method", "inference"), [("dawid_skene", "em"), ("class_coin", "vb"), ("glad", "vb")])
def test_blocks_of_few_log_factors_change_nothing(
    method: str, inference: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = crowdppl.fit(method, crowd(), inference=inference, seed=0, max_iterations=4)
    monkeypatch.setattr("crowdppl.inference.problem.BLOCK_NUMBERS", 20 * K)
    monkeypatch.setattr("crowdppl.inference.problem.TABLES", 0)
    other = crowdppl.fit(method, crowd(), inference=inference, seed=0, max_iterations=4)
    np.testing.assert_allclose(other.probabilities(), one.probabilities(), atol=1e-7)


def test_sums_over_many_classes_may_run_along_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    one = fitted("class_coin", "learned", crowd())
    for module in ("labels", "sums"):
        monkeypatch.setattr(f"crowdppl.primitives.{module}.MANY", 3)
    other = fitted("class_coin", "learned", crowd())
    np.testing.assert_allclose(other.probabilities(), one.probabilities(), atol=1e-10)
    np.testing.assert_allclose(other.confusion(), one.confusion(), atol=1e-10)


def test_coins_draw_as_their_table_does(monkeypatch: pytest.MonkeyPatch) -> None:
    design = crowdppl.random_design(30, 4, 3, classes=range(5), seed=0)
    drawn = [crowdppl.simulate("class_coin", design, seed=0).data.frame()]
    monkeypatch.setattr("crowdppl.primitives.labels.LARGE_TABLE", 0)
    drawn.append(crowdppl.simulate("class_coin", design, seed=0).data.frame())
    assert drawn[0].equals(drawn[1])


@pytest.mark.parametrize("by_truth", [False, True])
def test_the_likeliest_class_of_coins_is_that_of_their_table(by_truth: bool) -> None:
    stream = np.random.default_rng(0)
    weight = np.array([0.2, 0.5, 0.3])
    for n_right in (1, 4):
        right, wrong, other = stream.random((3, n_right)), stream.random((3, 4)), np.zeros((3, 0))
        coins = CoinTables(right, wrong, other, 4, by_truth)
        mean = np.einsum("a,akl->kl", weight, np.asarray(coins))
        top, most, own = coins.most_frequent(weight)
        assert top.tolist() == mean.argmax(1).tolist()
        np.testing.assert_allclose(most, mean.max(1))
        np.testing.assert_allclose(own, mean.diagonal())


@pytest.mark.parametrize("by_truth", [False, True])
def test_the_information_of_coins_is_that_of_their_table(by_truth: bool) -> None:
    right = np.full((2, 4), 0.7) if not by_truth else np.random.default_rng(0).random((2, 4))
    coins = CoinTables(right, (1 - right) / 3, np.zeros((2, 0)), 4, by_truth)
    share = np.array([0.1, 0.2, 0.3, 0.4])
    np.testing.assert_allclose(coins.rows(), 1)
    np.testing.assert_allclose(information(coins, share), information(np.asarray(coins), share))
