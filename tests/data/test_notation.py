"""Numbers as people write them, what stands for none, and known truths that accept several classes."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import crowdppl
from crowdppl.cli.commands import main
from crowdppl.errors import CrowdpplWarning, DataError


def table(labels: list[Any], **more: Any) -> pd.DataFrame:
    rows = range(len(labels))
    ids = {"item": [f"i{n // 2}" for n in rows], "annotator": ["uv"[n % 2] for n in rows]}
    return pd.DataFrame({**ids, "label": labels, **more})


def numbers(labels: list[Any], **options: Any) -> list[float]:
    return crowdppl.Annotations.from_frame(table(labels), **({"kind": "real"} | options)).frame()["label"].tolist()


@pytest.mark.parametrize(
    ("labels", "wanted", "how"),
    [
        (["3,5", "4,0", "12"], [3.5, 4, 12], "a decimal comma"),
        (["1.234,5", " -2,25", "7"], [1234.5, -2.25, 7], "a decimal comma"),
        (["1,234.5", "1,000,000", "7"], [1234.5, 1e6, 7], "commas between thousands"),
        (["7/10", "10 / 10", "6.5"], [7, 10, 6.5], "out of 10"),
        (["3 out of 5", "4 of 5"], [3, 4], "out of 5"),
        (["3,5/5", "4/5"], [3.5, 4], "a decimal comma and out of 5"),
    ],
)
def test_numbers_as_people_write_them(labels: list[str], wanted: list[float], how: str) -> None:
    with pytest.warns(CrowdpplWarning, match=f"labels with {how} are read as numbers, such as {wanted[0]:g}"):
        assert numbers(labels) == wanted


def test_counts_have_no_decimals() -> None:
    with pytest.warns(CrowdpplWarning, match="labels with commas between thousands"):
        assert numbers(["1,234", "7"], kind="count") == [1234, 7]
    with pytest.raises(DataError, match="it is 1.234 by decimal=',': say decimal='.'"):
        numbers(["1,234", "7"], kind="count", decimal=",")


@pytest.mark.parametrize(
    "labels", [["7/10", "3/5"], ["7/10", "11/10"], ["7/10", "12"], ["3,5", "3.5"], ["5 kg", "7"]]
)
def test_numbers_of_several_forms_are_refused(labels: list[str]) -> None:
    with pytest.raises(DataError, match=f"the label {labels[0]!r} at row 0 .* is not a finite number"):
        numbers(labels)


def test_the_decimal_mark_is_said_once(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"'1,234' may mean 1.234 or 1234; say decimal=',' or decimal='.'"):
        numbers(["1,234", "7"])
    assert numbers(["1,234", "7"], decimal=",") == [1.234, 7]
    assert numbers(["1,234", "7"], decimal=".") == [1234, 7]
    assert numbers(["1.234", "7"], decimal=",") == [1234, 7]
    gold = {"i0": "1,100"}
    with pytest.raises(DataError, match="known truths such as '1,100' may mean 1.100 or 1100; write them without"):
        crowdppl.Annotations.from_frame(table([1, 2]), kind="real", gold=gold)
    assert crowdppl.Annotations.from_frame(table([1, 2]), kind="real", gold=gold, decimal=",").gold["i0"] == 1.1
    with pytest.raises(DataError, match="decimal='x' is neither"):
        numbers(["1", "2"], decimal="x")
    path = tmp_path / "sheet.csv"
    path.write_text("item;annotator;label;seconds;truth\n1;a;1,234;2,5;1,100\n1;b;2,5;3,5;1,100\n2;a;1;4;\n")
    data = crowdppl.read_annotations(
        path, kind="real", decimal=",", gold_column="truth", label_covariates=["seconds"],
        item_covariates=pd.DataFrame({"words": ["1,5", "2"]}, index=["1", "2"]),
    )  # fmt: skip
    assert data.frame()["label"].tolist() == [1.234, 2.5, 1] and data.gold.to_dict() == {"1": 1.1}
    assert data.label_covariates["seconds"].tolist() == [2.5, 3.5, 4]
    assert data.item_covariates["words"].tolist() == [1.5, 2]


def test_the_decimal_mark_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "sheet.csv"
    path.write_text("item;annotator;label\n1;a;1,234\n1;b;1\n2;a;2,500\n2;b;3\n")
    with pytest.raises(SystemExit, match="2"):
        main(["agreement", str(path), "--kind", "real"])
    assert "say --decimal , or --decimal ." in capsys.readouterr().err
    with pytest.raises(SystemExit, match="0"):
        main(["agreement", str(path), "--kind", "real", "--decimal", ","])


@pytest.mark.parametrize("kind", ["real", "count"])
def test_abstentions_of_numbers_are_left_out(kind: str) -> None:
    labels = ["4", "N/A", "5", "skip", "N/A", "N/A"]
    with pytest.raises(DataError, match=r"'N/A' at row 1 .*name it in abstentions=\['N/A'\]"):
        numbers(labels, kind=kind)
    with pytest.warns(CrowdpplWarning, match="4 of 6 labels are abstentions and are left out"):
        data = crowdppl.Annotations.from_frame(table(labels), kind=kind, abstentions=["N/A", "skip"])
    assert data.frame()["label"].tolist() == [4, 5] and data.n_items == 3 and data.n_annotators == 2
    with pytest.raises(DataError, match=r"'N/A' at row 1 .*name it in abstentions=\['N/A'\]"):
        numbers(["4,5", "N/A", "5"], kind="real")
    assert numbers([4, -1, 5, 3], kind="real", abstentions=[-1]) == [4, 5, 3]
    with pytest.raises(DataError, match="leave out classes= and informative_abstentions="):
        numbers(labels, kind=kind, abstentions=["N/A", "skip"], informative_abstentions=True)


def test_abstentions_of_comparisons_and_rankings() -> None:
    pairs = pd.DataFrame({"left": [*"xxy"], "right": [*"yyz"], "annotator": [*"uvu"], "label": ["x", "N/A", "z"]})
    with pytest.raises(DataError, match=r"or name it in abstentions=\['N/A'\]"):
        crowdppl.Annotations.from_frame(pairs, kind="pair")
    data = crowdppl.Annotations.from_frame(pairs, kind="pair", abstentions=["N/A"])
    assert [*data.answers] == ["left", "right", "N/A"]
    ranks = pd.DataFrame({"object": [*"xyzx"], "annotator": [*"uuuv"], "rank": ["1", "2", "N/A", "N/A"]})
    found = crowdppl.Annotations.from_frame(ranks, kind="ranking", abstentions=["N/A"])
    assert found.frame()["label"].tolist() == [1, 2]
    whole = pd.DataFrame({"problem": [*"ppq"], "annotator": [*"uvu"], "label": ["x > y", "N/A", "y > x"]})
    assert crowdppl.Annotations.from_frame(whole, kind="ranking", abstentions=["N/A"]).n_labels == 4


def test_grades_out_of_a_highest_are_in_order() -> None:
    data = crowdppl.Annotations.from_frame(table(["7/10", "10/10", "9/10", "7/10"]), kind="ordinal")
    assert [*data.classes] == ["7/10", "9/10", "10/10"]
    with pytest.raises(DataError, match="is no number; list the classes in order"):
        crowdppl.Annotations.from_frame(table(["7/10", "4/5"]), kind="ordinal")


def test_ids_that_lost_digits_as_floats_are_refused_with_what_helps(tmp_path: Path) -> None:
    frame = table(["x", "y"] * 2).assign(item=[2.0**60, 2.0**60 + 256] * 2)
    with pytest.raises(DataError, match="a float loses digits .* read the column as text, with dtype=str"):
        crowdppl.Annotations.from_frame(frame)


@pytest.mark.parametrize("several", ["cat\ndog", "cat;dog", "cat | dog", '["cat", "dog"]', ["dog", "cat"]])
def test_truths_that_accept_several_classes_are_unknown(several: Any) -> None:
    labels = ["cat", "dog"] * 3
    frame = table(labels, truth=[several] * 2 + ["dog"] * 2 + [["cat"]] * 2)
    with pytest.warns(CrowdpplWarning, match="1 of 3 known truths accept several classes, such as .* of item 'i0'"):
        data = crowdppl.Annotations.from_frame(frame, gold_column="truth")
    assert [*data.classes] == ["cat", "dog"] and data.gold.to_dict() == {"i1": "dog", "i2": "cat"}
    gold = pd.Series([several, "dog", "cat"], index=["i0", "i1", "i2"])
    fit = crowdppl.fit("majority_vote", crowdppl.Annotations.from_frame(table(labels)), inference="em")
    with pytest.warns(CrowdpplWarning, match="accept several"):
        assert crowdppl.evaluate(fit, gold).n == 2
    with pytest.raises(DataError, match="gold names the class 'cat;cow'"):
        crowdppl.Annotations.from_frame(table(labels), gold={"i0": "cat;cow"})
