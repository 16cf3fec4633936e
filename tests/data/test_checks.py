"""What is refused and warned of once labels are coded, with its numbers."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdppl.data.annotations
from crowdppl.data.annotations import Annotations
from crowdppl.data.coded import check_tables, connected_sets
from crowdppl.errors import (
    CrowdpplWarning,
    DataError,
    DisconnectedWarning,
    OneClassWarning,
    RepeatsWarning,
    SparseDataWarning,
)

ROWS = [("i", "ann", 0), ("j", "ann", 1), ("i", "bob", 0), ("j", "bob", 1), ("i", "ann", 1), ("i", "ann", 1)]


def made(rows: list[tuple[Any, Any, Any]], **options: Any) -> Annotations:
    return Annotations.from_arrays(*zip(*rows, strict=True), **options)


def quietly(rows: list[tuple[Any, Any, Any]], **options: Any) -> Annotations:
    with warnings.catch_warnings(action="ignore", category=CrowdpplWarning):
        return made(rows, **options)


def found(rows: list[tuple[Any, Any, Any]], kind: type[CrowdpplWarning], **options: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        data = made(rows, **options)
    assert [str(w.message) for w in caught] == [str(w) for w in data.warnings]
    assert all(w.filename == __file__ for w in caught)
    return [str(w) for w in data.warnings if type(w) is kind]


def test_repeats_are_kept_and_counted() -> None:
    (message,) = found(ROWS, RepeatsWarning)
    assert message.startswith("2 of 6 labels repeat") and "repeats='first'" in message
    data = quietly(ROWS)
    assert data.n_labels == 6
    assert data.frame().label.tolist() == [0, 1, 1, 0, 1, 1]


@pytest.mark.parametrize(
    ("options", "told"), [({"kind": "pair"}, 0), ({"kind": "pair", "repeats": "last"}, 1), ({"kind": "nominal"}, 1)]
)
def test_judges_who_see_a_pair_again_are_usual(options: Any, told: int) -> None:
    data = quietly([("p | q", "a", "left"), ("p | q", "a", "right"), ("q | r", "a", "left")], **options)
    assert sum(isinstance(warning, RepeatsWarning) for warning in data.warnings) == told


def test_labels_of_different_covariates_are_no_copies() -> None:
    for criteria, copies in ([0, 0, 0, 0, 1, 2], None), ([0, 0, 0, 0, 1, 1], "1 of 6 labels repeat"):
        messages = found(ROWS, RepeatsWarning, label_covariates=pd.DataFrame({"criterion": criteria}))
        assert [str(copies) in message for message in messages] == [True] * bool(copies)


@pytest.mark.parametrize(("repeats", "labels"), [("first", [0, 0, 1, 1]), ("last", [1, 0, 1, 1])])
def test_one_of_the_repeats_is_kept(repeats: str, labels: list[int]) -> None:
    (message,) = found(ROWS, RepeatsWarning, repeats=repeats)
    assert f"only the {repeats} of each counts" in message
    assert quietly(ROWS, repeats=repeats).frame().label.tolist() == labels


def test_the_usual_one_of_the_repeats_is_kept() -> None:
    rows = [("i", "ann", x) for x in "babaa"] + [("i", "bo", "a"), ("j", "bo", "b"), ("j", "bo", "a")]
    (message,) = found(rows, RepeatsWarning, repeats="one")
    assert "only the usual one of each counts" in message
    assert quietly(rows, repeats="one").frame().label.tolist() == ["a", "a", "b"]  # of a tie the first


@pytest.mark.parametrize(
    ("kind", "labels", "usual"),
    [
        ("real", [1.0, 2.0, 9.0, 2.5], 2.5),
        ("count", [3, 0, 30, 8], 8.0),
        ("angle", [350.0, 20.0, 40.0, 300.0], 350.0),
    ],
)
def test_the_usual_number_is_the_one_nearest_to_the_mean(kind: str, labels: list[float], usual: float) -> None:
    rows = [("i", "ann", x) for x in labels] + [("j", "ann", labels[0])]
    assert quietly(rows, kind=kind, repeats="one").frame().label.tolist() == [usual, labels[0]]


def test_repeats_can_be_refused() -> None:
    with pytest.raises(DataError, match=r"'ann' labels item 'i' at row 0 .* and again at row 4 .*repeats='keep'"):
        made(ROWS, repeats="error")
    assert made(ROWS[:4], repeats="error").n_labels == 4
    with pytest.raises(DataError, match="repeats='all' is none of"):
        made(ROWS, repeats="all")


def test_thin_annotators_are_counted() -> None:
    (message,) = found(ROWS[:4], SparseDataWarning, classes=[0, 1, 2], annotators=["cy"])
    assert message.startswith("3 of 3 annotators gave fewer labels") and "'ann' with 2" in message


def test_an_annotator_who_says_one_thing() -> None:
    rows = [*ROWS[:4], ("i", "cy", 1), ("j", "cy", 1), ("k", "cy", 1)]
    (message,) = found(rows, OneClassWarning)
    assert message.startswith("1 of 3 annotators") and "'cy' in all of 3 labels" in message
    assert not found([*ROWS[:4], ("i", "cy", 1), ("i", "dan", "?")], OneClassWarning, abstentions=["?"])
    assert found([*rows, ("l", "cy", "?")], OneClassWarning, abstentions=["?"])


def test_annotators_who_never_meet() -> None:
    rows = [(f"{who}-{item}", f"{who}{k}", (item + k) % 2) for who in "ab" for item in range(4) for k in range(3)]
    rows += [("b-0", "b9", 0), ("b-1", "b9", 1)]
    (message,) = found(rows, DisconnectedWarning, annotators=["nobody"])
    assert "2 sets (of 4, 3)" in message and "'a0'" in message
    assert not found([*rows, ("a-0", "b9", 1)], DisconnectedWarning)


@pytest.mark.parametrize("kind", ["pair", "ranking"])
def test_objects_that_no_label_compares(kind: str) -> None:
    def messages(together: Any) -> list[str]:
        if kind == "pair":
            item, label = together, ["left"] * len(together)
        else:
            item, label = ["q"] * len(together), [f"{a} > {b}" for a, b in together]
        who = [f"w{n}" for n in range(len(together))]
        with warnings.catch_warnings(action="ignore", category=CrowdpplWarning):
            data = crowdppl.Annotations.from_arrays(item, who, label, kind=kind)
        return [str(w) for w in data.warnings if isinstance(w, DisconnectedWarning)]

    chain = [("a", "b"), ("b", "c"), ("c", "d")]  # of three annotators, who share no pair
    assert not messages(chain)
    (message,) = messages([chain[0], chain[2]])
    assert message.startswith("the objects fall into 2 sets (of 2, 2)") and "'a' and 'c'" in message


def test_a_chain_across_blocks_is_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = crowdppl.data.coded.build_blocks
    monkeypatch.setattr(crowdppl.data.coded, "build_blocks", lambda *rows, **n: whole(*rows, **n, block_labels=100))
    rows = [(k, k + step, step) for k in range(400) for step in range(2)]
    data = quietly(rows)
    assert len(data.blocks) == 8
    assert not [w for w in data.warnings if isinstance(w, DisconnectedWarning)]
    broken = quietly([row for row in rows if row[0] != 200])
    assert sum(isinstance(w, DisconnectedWarning) for w in broken.warnings) == 1


def test_connected_sets_against_the_definition() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        rows = [(int(i), int(a), int(a) % 2) for i, a in rng.integers(0, 14, (12, 2))]
        data = quietly(rows, classes=[0, 1])
        together = np.eye(data.n_annotators, dtype=bool)
        votes = np.zeros((data.n_items, data.n_annotators), bool)
        items, people, _ = data.label_codes()
        votes[items, people] = True
        for _ in range(data.n_annotators):
            together = together | (together @ votes.T @ votes)
        sets = connected_sets(data.blocks, np.ones(data.n_annotators, bool))
        assert ((sets[:, None] == sets) == together).all()


def test_no_warnings_about_learning_where_nothing_is_learnt() -> None:
    old = quietly(ROWS)
    with warnings.catch_warnings(action="error"):
        made([("new", "ann", 0)], like=old)
        Annotations.design(["i", "i"], ["ann", "ann"], classes=[0, 1, 2])


def test_rows_of_tables_beyond_their_codes_are_refused_with_advice() -> None:
    check_tables(2**20, 2**11 - 1)
    with pytest.raises(DataError, match=r"2\*\*31 is the limit; merge rare"):
        check_tables(2**20, 2**11)


def test_a_single_annotator_is_warned_of() -> None:
    with pytest.warns(SparseDataWarning, match="all .* 'ann'"):
        Annotations.from_arrays([1, 2, 3], ["ann"] * 3, ["x", "y", "x"])
