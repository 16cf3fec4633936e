"""What to decide about items, against sums by hand and against refitting with every answer that could come."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from crowdppl.data.annotations import Annotations
from crowdppl.errors import DataError, MethodError
from crowdppl.fitting import fit
from crowdppl.posterior import Posterior
from crowdppl.results.decisions import ASK, decide
from tests.class_result import changed
from tests.crowd import crowd

NAMES = ["cat", "dog", "fox"]
LABELS = [(0, "a", "cat"), (0, "b", "dog"), (1, "a", "dog"), (2, "b", "fox"), (3, "a", "dog"), (3, "b", "fox")]
P = [[0.5, 0.3, 0.2], [0.05, 0.9, 0.05], [0.0, 0.4, 0.6], [0.2, 0.4, 0.4]]


def held(p: Any = P, tables: Any = None, names: list[str] = NAMES, **options: Any) -> Posterior:
    """A posterior with these probabilities and tables, classes in the order of names."""
    item, annotator, label = zip(*LABELS, strict=True)
    n = len(p)
    data = Annotations.from_arrays(item, annotator, label, classes=names, items=list(range(n)), **options)
    found = fit("dawid_skene", data, inference="em", max_iterations=1)
    tables = found.result.table if tables is None else np.array(tables, float)
    return replace(found, result=changed(found.result, probabilities=np.array(p, float), table=tables))


def test_expected_costs_by_hand() -> None:
    cost = pd.DataFrame({"cat": [0, 1, 2], "dog": [4, 0, 1], "fox": [5, 3, 0]}, index=NAMES)
    found = decide(held(), cost)
    # Item 0: cat .3 + .4, dog 2 + .2, fox 2.5 + .9. Item 2: cat .4 + 1.2, dog .6, fox 1.2.
    assert found.loc[0].tolist() == ["cat", pytest.approx(0.7), "dog", pytest.approx(1.5), False]
    assert found.loc[2].tolist() == ["dog", pytest.approx(0.6), "fox", pytest.approx(0.6), False]
    assert list(found.columns) == ["decision", "expected_cost", "runner_up", "margin", "tied"]
    assert found.index.name == "item"


def test_by_default_the_decision_is_the_label() -> None:
    posterior = fit("bayesian_dawid_skene", crowd(60, 6, 3, 2), inference="vb")
    found, labels = decide(posterior), posterior.labels()
    assert found["decision"].tolist() == labels["label"].tolist()
    np.testing.assert_allclose(found["expected_cost"], 1 - labels["probability"])
    assert (found["margin"] >= 0).all()
    assert found["tied"].tolist() == labels["tied"].tolist()


def test_decisions_need_not_be_classes() -> None:
    """An expert is called where the most probable class is less than .7 probable."""
    cost = pd.DataFrame(1 - np.eye(3), index=NAMES, columns=NAMES).assign(expert=0.3)
    turned = cost.loc[["fox", "cat", "dog"], ["expert", "dog", "fox", "cat"]]
    for table in (cost, turned):
        found = decide(held(), table)
        assert found["decision"].tolist() == ["expert", "dog", "expert", "expert"]
        assert found["runner_up"].tolist()[:3] == ["cat", "expert", "fox"]
        np.testing.assert_allclose(found["expected_cost"], [0.3, 0.1, 0.3, 0.3])
        np.testing.assert_allclose(found["margin"], [0.2, 0.2, 0.1, 0.3])


def test_ties_go_to_votes_and_then_to_neither_end() -> None:
    """Items without labels stand for the last rule; item 3 has votes for dog and fox, and most in all are dog."""
    even = [[0.5, 0.5, 0.0], [1 / 3] * 3, [0.5, 0, 0.5], [0.4, 0.3, 0.3]]
    found = decide(held(even), np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0]]))
    assert found["decision"].tolist() == ["dog", "dog", "fox", "cat"]  # item 0: a vote each, more dogs in all
    assert found["tied"].tolist() == [True, True, True, False]
    assert found["margin"].tolist()[:3] == [0, 0, 0]
    assert found["runner_up"].tolist() == ["cat", "fox", "cat", "dog"]
    cost = pd.DataFrame(0.5, index=NAMES, columns=["keep", "drop", "wait"])
    chosen = decide(held([[1 / 3] * 3] * 300), cost)["decision"]
    assert chosen.value_counts().min() > 60, "no decision wins all ties"


@pytest.mark.parametrize("turn", [[0, 1, 2], [0, 2, 1], [2, 1, 0]])
def test_a_runner_up_of_next_to_no_probability_is_still_the_better_one(turn: list[int]) -> None:
    """As em finds them: both others cost 1 within rounding, and the one is 1e68 times as probable."""
    p = np.array([[1.0, 1e-37, 1e-105], [1.0, 1e-105, 1e-37]] * 2)
    found = decide(held(p[:, turn], names=[NAMES[k] for k in turn]))
    assert found["decision"].tolist() == ["cat"] * 4
    assert found["runner_up"].tolist() == ["dog", "fox"] * 2


def test_a_large_cost_hides_no_small_one() -> None:
    """Whatever discharging the ill costs, nobody is treated for 50 (1 - p) where a second opinion is 5."""
    large = 1e12
    ill = np.array([1e-9, 1e-6, 1e-3, 0.5, 0.85, 0.95, 1.0])
    p = np.column_stack([1 - ill, ill])
    item = list(range(len(ill)))
    data = Annotations.from_arrays(item, ["a"] * 7, ["well", "ill"] * 3 + ["well"], classes=["well", "ill"])
    made = fit("dawid_skene", data, inference="em", max_iterations=1)
    made = replace(made, result=changed(made.result, probabilities=p))
    cost = pd.DataFrame({"discharge": [0, large], "treat": [50, 0], "opinion": [5, 5]}, index=["well", "ill"])
    for table in (cost, cost - large / 4, cost.assign(never=1e3 * large)):
        found = decide(made, table)
        least = np.column_stack([large * ill, 50 * (1 - ill), np.full(7, 5.0)]).argmin(1)
        assert found["decision"].tolist() == cost.columns[least].tolist()
        assert not found["tied"].any()


COSTS = {"an error": 1 - np.eye(3), "uneven": np.array([[0.0, 1, 5], [2, 0, 1], [1, 3, 0]])}


@pytest.mark.parametrize("cost", COSTS)
def test_asking_again_against_refitting_with_every_answer(cost: str) -> None:
    posterior = fit("dawid_skene", crowd(30, 5, 3, 2, seed=1), inference="em", tolerance=1e-12)
    data, now, table = posterior.data, posterior.probabilities(), posterior.confusion()
    rows, given = data.frame(), data.frame()["annotator"].value_counts(normalize=True)
    tried = [
        pd.concat([own, own.iloc[:1].assign(annotator=annotator, label=answer)]).assign(
            item=f"{item} {annotator} {answer}"
        )
        for item, own in rows.groupby("item")
        for annotator in data.annotators
        for answer in data.answers
    ]
    least = (posterior.predict(pd.concat(tried)) @ COSTS[cost]).min(axis=1)
    after = {
        item: sum(
            share * float(p @ table.sel(annotator=a, label=answer).values) * least[f"{item} {a} {answer}"]
            for a, share in given.items()
            for answer in data.answers
        )
        for item, p in zip(data.items, now.to_numpy(), strict=True)
    }
    best = (now.to_numpy() @ COSTS[cost]).min(1)
    saved = best - np.array([after[item] for item in data.items])
    assert (saved > -1e-6).all(), "one more label never costs in expectation"
    price = float(np.quantile(saved[saved > 1e-4], 0.5)) + 1e-5
    found = decide(posterior, COSTS[cost], ask_again=price)
    asks = (found["decision"] == ASK).to_numpy()
    assert asks.tolist() == (saved > price).tolist()
    assert 0 < asks.sum() < (best > price).sum(), "a price below the cost now is not enough"
    np.testing.assert_allclose(found["expected_cost"][asks], price + (best - saved)[asks], atol=1e-6)
    np.testing.assert_allclose(found["expected_cost"][~asks], best[~asks])
    without = decide(posterior, COSTS[cost])
    assert found["runner_up"][asks].tolist() == without["decision"][asks].tolist()
    np.testing.assert_allclose(found["margin"][asks], (saved - price)[asks], atol=1e-6)
    pd.testing.assert_frame_equal(found[~asks], without[~asks], check_dtype=False)


def test_the_next_annotator_is_who_labels_most() -> None:
    """Annotator a gave three labels of six, is perfect, and b says nothing; half the uncertainty goes."""
    tables = np.array([np.eye(3), np.full((3, 3), 1 / 3)])
    found = decide(held(tables=tables), ask_again=0.05)
    assert found["decision"].tolist() == [ASK, "dog", ASK, ASK]
    np.testing.assert_allclose(found["expected_cost"], [0.05 + 0.25, 0.1, 0.05 + 0.2, 0.05 + 0.3])
    np.testing.assert_allclose(found["margin"][[0, 2, 3]], [0.2, 0.15, 0.25])


def test_labels_before_an_update_say_who_labels_most() -> None:
    """Who gave the one new label gave 2 of 32 before; by that label alone nobody else would be asked."""
    rows = [(i, who, k) for i in range(15) for who, k in (("a", i % 3), ("b", i % 3))]
    rows += [(0, "c", 1), (1, "c", 2)]
    item, annotator, label = zip(*rows, strict=True)
    old = fit("one_coin", Annotations.from_arrays(item, annotator, label, classes=[0, 1, 2]), inference="vb")
    new = old.update(pd.DataFrame({"item": [90], "annotator": ["c"], "label": [0]}))
    p, table = new.result.probabilities[0], new.result.table
    share = new.annotators()["labels"].to_numpy() / 33
    after = 1 - share @ (p[:, None] * table).max(1).sum(-1)
    found = decide(new, ask_again=0.01).loc[90]
    assert found["decision"] == ASK
    assert found["expected_cost"] == pytest.approx(0.01 + after, rel=1e-6)


def test_a_single_decision_has_no_runner_up() -> None:
    found = decide(held(), pd.DataFrame({"wait": [1, 2, 3]}, index=NAMES))
    assert found["decision"].unique().tolist() == ["wait"]
    np.testing.assert_allclose(found["expected_cost"], [1.7, 2.0, 2.6, 2.2])
    assert found["runner_up"].isna().all()
    assert found["margin"].isna().all()
    assert not found["tied"].any()


def test_a_mapping_says_the_same_as_a_table() -> None:
    cost = table(expert=[0.3, 0.2, 0.1])
    turned = {truth: dict(row) for truth, row in reversed(list(cost.iterrows()))}
    pd.testing.assert_frame_equal(decide(held(), turned), decide(held(), cost))
    with pytest.raises(DataError, match="mapping"):
        decide(held(), {"cat": 1, "dog": 2, "fox": 3})
    with pytest.raises(DataError, match="truth 'dog', decision 'expert'"):
        decide(held(), {**turned, "dog": {"cat": 1, "dog": 0}})


def table(**changes: Any) -> pd.DataFrame:
    return pd.DataFrame({"cat": [0.0, 1, 1], "dog": [1.0, 0, 1]} | changes, index=NAMES)


@pytest.mark.parametrize(
    ("cost", "match"),
    [
        (np.eye(2), r"shape \(2, 2\)"),
        (table().iloc[:2], "'fox'"),
        (table().rename(index={"fox": "wolf"}), "'wolf'"),
        (pd.concat([table(), table().iloc[:1]]), "row 'cat'"),
        (pd.concat([table(), table()[["dog"]]], axis=1), "decision 'dog'"),
        (table(fox=[1.0, np.inf, 0]), "truth 'dog', decision 'fox'"),
        (table(fox=["much", "1", "0"]), "number"),
        (pd.DataFrame(index=NAMES), "decision"),
    ],
)
def test_costs_that_mean_nothing_are_refused(cost: Any, match: str) -> None:
    with pytest.raises(DataError, match=match):
        decide(held(), cost)


def test_prices_that_mean_nothing_are_refused() -> None:
    for price in (-0.1, float("nan")):
        with pytest.raises(MethodError, match="ask_again="):
            decide(held(), ask_again=price)
    with pytest.raises(DataError, match=ASK):
        decide(held(), table(**{ASK: [1.0, 1, 1]}), ask_again=0.1)
    assert ASK in decide(held(), table(**{ASK: [0.0, 0, 0]}))["decision"].tolist()


def test_neither_the_order_of_classes_nor_that_of_decisions_decides() -> None:
    rng = np.random.default_rng(0)
    p = np.concatenate([[[1 / 3] * 3] * 60, [[0.5, 0.25, 0.25]] * 60, rng.dirichlet([0.5] * 3, 60)])
    cost = pd.DataFrame(1 - np.eye(3), index=NAMES, columns=NAMES).assign(expert=0.5, wait=0.5, never=1e9)
    tables = rng.dirichlet(np.ones(3), (2, 3))
    seen: set[str] = set()
    for price in (None, 0.02):
        expected = decide(held(p, tables), cost, ask_again=price)
        seen |= set(expected["decision"])
        assert price is not None or expected["tied"].sum() > 100
        for turn in ([1, 2, 0], [2, 1, 0]):
            names = [NAMES[k] for k in turn]
            other = cost.loc[[*reversed(names)], ["wait", *names, "never", "expert"]]
            found = decide(held(p[:, turn], tables[:, turn][:, :, turn], names), other, ask_again=price)
            pd.testing.assert_frame_equal(found, expected)
    assert seen == {*NAMES, "expert", "wait", ASK}
