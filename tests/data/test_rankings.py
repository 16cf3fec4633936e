"""Rankings as text, lists and ranks: what is read, and what is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import crowdppl
import crowdppl.primitives as cp
from crowdppl import Annotations
from crowdppl.errors import DataError, RepeatsWarning

WHOLE = pd.DataFrame(
    {
        "problem": ["p", "q", "p"],
        "annotator": ["x", "y", "z"],
        "ranking": ["a > b = c", "c>a", "b = a > c > d"],
        "seconds": [8, 3, 5],
    }
)
RANKS = {
    ("p | a", "x"): 1,
    ("p | b", "x"): 2,
    ("p | c", "x"): 2,
    ("q | c", "y"): 1,
    ("q | a", "y"): 2,
    ("p | a", "z"): 1,
    ("p | b", "z"): 1,
    ("p | c", "z"): 3,
    ("p | d", "z"): 4,
}


def ranks(data: Annotations) -> dict[tuple[str, str], float]:
    return data.frame().set_index(["item", "annotator"])["label"].to_dict()


def test_text_lists_and_json_are_the_same_rankings(tmp_path: Path) -> None:
    data = Annotations.from_frame(WHOLE, kind="ranking", label_covariates=["seconds"])
    assert data.kind == "ranking" and ranks(data) == RANKS
    assert data.label_covariates is not None and data.label_covariates["seconds"].sum() == 3 * 8 + 2 * 3 + 4 * 5
    held = data.item_covariates
    assert held is not None and held["object"].cat.categories.tolist() == ["a", "b", "c", "d"]
    lists: list[Any] = [["a", ["b", "c"]], ["c", "a"], [["b", "a"], "c", "d"]]
    WHOLE.to_csv(tmp_path / "text.csv", index=False)
    WHOLE.rename(columns={"problem": "item"}).to_csv(tmp_path / "item.csv", index=False)
    for other in (
        Annotations.from_frame(WHOLE.assign(ranking=lists), kind="ranking"),
        Annotations.from_frame(WHOLE.assign(ranking=[*map(json.dumps, lists)]), kind="ranking"),
        Annotations.from_arrays(WHOLE["problem"], WHOLE["annotator"], lists, kind="ranking"),
        crowdppl.read_annotations(tmp_path / "text.csv", kind="ranking"),
        crowdppl.read_annotations(tmp_path / "item.csv", kind="ranking"),
        Annotations.from_frame(WHOLE, like=data),
        Annotations.from_frame(data.frame(), kind="ranking"),
    ):
        assert ranks(other) == RANKS
        pd.testing.assert_frame_equal(other.item_covariates, held)


def test_ranks_of_objects_are_rankings(tmp_path: Path) -> None:
    whole = Annotations.from_frame(WHOLE, kind="ranking").frame()
    parts = whole["item"].astype(str).str.split(" | ", regex=False, expand=True)
    table = whole[["annotator"]].assign(problem=parts[0], object=parts[1], rank=whole["label"])
    table.to_csv(tmp_path / "ranks.csv", index=False)
    for data in (
        Annotations.from_frame(table, kind="ranking"),
        Annotations.from_frame(table, ("problem", "object"), label="rank", kind="ranking"),
        crowdppl.read_annotations(tmp_path / "ranks.csv", kind="ranking"),
    ):
        assert ranks(data) == RANKS


def test_one_problem_needs_no_name() -> None:
    data = Annotations.from_frame(WHOLE[["annotator", "ranking"]][:1], kind="ranking", items=["z"])
    assert data.items.tolist() == ["a", "b", "c", "z"]
    dicts = Annotations.from_dicts({"x": {"a": 1, "b": 2, "c": 2}}, kind="ranking", gold={"a": 1})
    assert ranks(dicts) == ranks(data) and dicts.gold is not None and dicts.gold.to_dict() == {"a": 1}
    numbers = Annotations.from_frame(
        pd.DataFrame({"object": [7, 8], "annotator": ["x", "x"], "rank": [2, 1]}), kind="ranking", gold={7: 1}
    )
    assert numbers.items.tolist() == ["7", "8"] and numbers.gold is not None and numbers.gold["7"] == 1


@pytest.mark.parametrize(
    "wrong, told",
    [
        ("a > b > a", "'a' twice"),
        ("a = a", "'a' twice"),
        ("a > ", "''"),
        ("", "''"),
        ("a", "1 objects"),
        ([], "0 objects"),
        (["a", None], "None"),
        ("[1,", "no JSON"),
        (3.5, "float|number"),
    ],
)
def test_what_is_no_ranking_is_refused_with_its_row(wrong: Any, told: str) -> None:
    table = pd.DataFrame({"annotator": ["x", "y"], "ranking": ["b > a", wrong]})
    with pytest.raises(DataError, match=f"(?s)({told}).*row 1|row 1.*({told})"):
        Annotations.from_frame(table, kind="ranking")


def test_blank_objects_are_refused() -> None:
    for role in ("problem", "object"):
        table = pd.DataFrame({"problem": "p", "object": ["b", "a"], "annotator": "x", "rank": [1, 2]})
        with pytest.raises(DataError, match=f"the {role} at row 0 .* missing"):
            Annotations.from_frame(table.assign(**{role: ["", "a"]}), kind="ranking")


def test_truths_are_ranks_of_objects_and_no_whole_rankings(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'a > b > c' of item 'p' is a whole ranking; .*problem, object and rank"):
        Annotations.from_frame(WHOLE, kind="ranking", gold={"p": "a > b > c"})
    pd.DataFrame({"problem": ["p", "p"], "object": ["a", "b"], "rank": [1, 2]}).to_csv(tmp_path / "gold.csv")
    told = crowdppl.read_gold(tmp_path / "gold.csv").map(int)
    assert told.to_dict() == {("p", "a"): 1, ("p", "b"): 2}
    gold = Annotations.from_frame(WHOLE, kind="ranking", gold=told).gold
    assert gold is not None and gold.to_dict() == {"p | a": 1, "p | b": 2}


def test_objects_that_are_ranked_alone_or_again_are_refused() -> None:
    twice = pd.DataFrame({"annotator": ["x", "x"], "ranking": ["a > b", "c > d"]})
    for second in ("c > d", "b > c", "a > b > c"):
        for problem in ({}, {"problem": "p"}):
            again = twice.assign(ranking=["a > b", second], **problem)
            with pytest.raises(DataError, match="'x' ranks again at row 1"):
                Annotations.from_frame(again, kind="ranking")
    with pytest.raises(DataError, match="'x' ranks '[ab]' again at row 2"):
        Annotations.from_arrays(["a", "b", "a"], ["x"] * 3, [1, 2, 3], kind="ranking")
    with pytest.raises(DataError, match="label 0 at row 1 .*is not a rank"):
        Annotations.from_arrays(["a", "b"], ["x"] * 2, [1, 0], kind="ranking")
    alone = {"x": {"a": 1, "b": 2}, "y": {"c": 1}}
    with pytest.raises(DataError, match="'y' ranks 'c' alone"):
        Annotations.from_dicts(alone, kind="ranking")
    with pytest.raises(DataError, match="no column names objects"):
        Annotations.from_frame(pd.DataFrame({"annotator": ["x", "x"], "rank": [1, 2]}), kind="ranking")
    with pytest.raises(DataError, match="column of objects"):
        Annotations.from_frame(twice.assign(object="a"), kind="ranking")
    with pytest.raises(DataError, match="nan"):
        Annotations.from_dicts({"x": {"a": 1, "b": float("nan")}}, kind="ranking")


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4, 5], [0, 3, 1, 4, 2, 5], [4, 3, 5, 1, 0, 2]])
def test_rankings_of_one_problem_by_one_annotator_are_rankings_each(order: list[int]) -> None:
    """Sums by hand: p(a > b > c) and p(c > b > a), of the same worths."""
    rows = pd.DataFrame({"object": list("abc" * 2), "annotator": "x", "rank": [1, 2, 3, 3, 2, 1]})
    with pytest.warns(RepeatsWarning):
        data = Annotations.from_frame(rows.iloc[order], kind="ranking")
    worth, sure = torch.tensor([1.0, 2.0, 4.0]), torch.tensor([[1.0 - 1e-9, 1e-9]])
    found = cp.RankedLabels(data.blocks[0], worth.log(), worth, sure.log()).log_prob(data.blocks[0].numbers)
    wanted = np.log([1 / 7 * 2 / 6, 4 / 7 * 2 / 3]).sum()
    assert float(found.sum()) == pytest.approx(wanted, abs=1e-5)


def test_rankings_sorted_by_rank_cannot_be_told_apart() -> None:
    rows = pd.DataFrame({"object": list("accabb"), "annotator": "x", "rank": [1, 1, 3, 3, 2, 2]})
    for kept in (rows.sort_values("rank", kind="stable"), rows.iloc[[0, 1, 3, 4, 5, 2]]):
        with pytest.raises(DataError, match="which rows are one ranking is not clear"):
            Annotations.from_frame(kept, kind="ranking")
    with pytest.raises(DataError, match="repeats='one' would mix"):
        Annotations.from_frame(rows, kind="ranking", repeats="one")


def test_a_further_whole_ranking_counts_as_one_and_can_be_left_out() -> None:
    rows = pd.DataFrame({"annotator": ["x", "y", "x"], "ranking": ["a > b > c", "a > c > b", "c > b > a"]})
    for repeats, wanted in (("keep", 3), ("first", 2), ("last", 2)):
        with pytest.warns(RepeatsWarning):
            data = Annotations.from_frame(rows, kind="ranking", repeats=repeats)
        assert len(data.blocks[0].rankings.sizes) == wanted
    by_x = data.frame().query("annotator == 'x'").set_index("item")["label"]
    assert by_x.to_dict() == {"a": 3, "b": 2, "c": 1}
    again = Annotations.from_frame(data.frame(), kind="ranking", item="item")
    assert again.frame().equals(data.frame())


def test_objects_of_a_problem_are_its_own_where_told(tmp_path: Path) -> None:
    rows = pd.DataFrame({"problem": ["p", "q"] * 6, "annotator": np.repeat(list("uvwxyz"), 2)})
    rows["ranking"] = np.where(rows["problem"] == "p", "a > b > c", "c > b > a")
    shared = crowdppl.fit("plackett_luce", Annotations.from_frame(rows, kind="ranking"), inference="vb", seed=0)
    assert shared.ranking()["score"].abs().max() < 0.2
    data = Annotations.from_frame(rows, kind="ranking", objects="own")
    own = crowdppl.fit("plackett_luce", data, inference="vb", seed=0)
    score = own.ranking()["score"]
    assert {*score.nlargest(2).index} == {"p | a", "q | c"}
    assert score.max() > 0.5
    own.save(tmp_path / "own")
    new = pd.DataFrame({"problem": ["p"], "annotator": ["u"], "ranking": ["a > b > c"]})
    after = crowdppl.load(tmp_path / "own").update(Annotations.from_frame(new, like=data)).ranking()["score"]
    assert after["p | a"] > after["p | c"]
    with pytest.raises(DataError, match="objects='own' is for rankings"):
        Annotations.from_arrays([1], ["a"], ["x"], objects="own")
