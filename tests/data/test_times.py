"""Of an annotator's labels of one item, the first or the last counts, by rows or by a column of times."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl.data.split import keep
from crowdppl.errors import DataError, RepeatsWarning

ROWS = [("i", "a", "no"), ("i", "b", "yes"), ("i", "a", "yes"), ("j", "a", "no"), ("i", "a", "maybe")]


def read(times: Any, **options: Any) -> dict[tuple[str, str], str]:
    table = pd.DataFrame(ROWS, columns=["item", "annotator", "label"]).assign(at=times)
    options = {"time": "at", "repeats": "last"} | options
    found = crowdppl.Annotations.from_frame(table, **options).frame()
    return {(i, a): label for i, a, label in found[["item", "annotator", "label"]].itertuples(index=False)}


@pytest.mark.parametrize(
    "times",
    [
        [3, 0, 9, 1, 5],
        ["3", "0", "9", "1", "5"],
        [0.3, np.nan, 0.9, np.nan, 0.5],
        ["2026-03-03", "", "2026-03-09T01:00:00Z", None, "2026-03-09 02:00:00+02:00"],
        ["3/14/2026", "3/1/2026", "3/20/2026", "3/1/2026", "3/15/2026"],
        ["14/3/2026", "", "20/3/2026", "", "15/3/2026"],
        ["Sat Mar 14 10:00:00 PDT 2026", "", "Sat Mar 14 12:00:00 PDT 2026", "", "Sat Mar 14 11:00:00 PDT 2026"],
        pd.to_datetime(["2026-03-03", None, "2026-03-09", None, "2026-03-05"], utc=True),
    ],
)
def test_the_latest_or_the_first_answer_by_a_column_of_times(times: Any) -> None:
    assert read(times) == {("i", "a"): "yes", ("i", "b"): "yes", ("j", "a"): "no"}
    assert read(times, repeats="first")["i", "a"] == "no"
    assert read(times, time=None)["i", "a"] == "maybe"


def test_equal_times_go_by_rows() -> None:
    assert read([1, 1, 2, 1, 2])["i", "a"] == "maybe"
    assert read([1, 1, 1, 1, 2], repeats="first")["i", "a"] == "no"


def test_times_that_are_none_or_unclear_are_refused() -> None:
    with pytest.raises(DataError, match="the time nan at row 2 .* is no time; write it as 2026"):
        read([1, 1, None, 1, 2])
    with pytest.raises(DataError, match="the time 'soon' at row 4"):
        read(["2026-03-03", "", "2026-03-04", "", "soon"])
    with pytest.raises(DataError, match="the day or the month may come first in the time '2/3/2026' at row 2"):
        read(["1/2/2026", "", "2/3/2026", "", "3/1/2026"])
    with pytest.raises(DataError, match="no further column is called 'when'; there are 'at'"):
        read([1, 2, 3, 4, 5], time="when")
    with pytest.raises(DataError, match="the time nan at row 3 .* is no time"):
        read([1, 2, 3, None, 5], repeats="keep")


def test_whole_rankings_that_are_given_again(tmp_path: Path) -> None:
    said = [("p", "a", "x > y", 2), ("p", "b", "y > x", 1), ("p", "a", "y > x", 1)]
    table = pd.DataFrame(said, columns=["problem", "annotator", "label", "at"])
    with pytest.raises(DataError, match="annotator 'a' ranks again at row 2 .* say repeats='keep'"):
        crowdppl.Annotations.from_frame(table, kind="ranking", repeats="error")
    for options, first in (({}, "p | y"), ({"time": "at"}, "p | x")):
        with pytest.warns(RepeatsWarning, match="1 of 3 rankings .* the last counts"):
            data = crowdppl.Annotations.from_frame(table, kind="ranking", repeats="last", **options)
        ranks = data.frame()[lambda rows: rows["annotator"] == "a"].set_index("item")["label"]
        assert ranks.idxmin() == first and data.n_labels == 4


def test_the_latest_annotation_of_label_studio(tmp_path: Path) -> None:
    def by(choice: str, day: int) -> dict[str, Any]:
        result = [{"from_name": "x", "to_name": "t", "type": "choices", "value": {"choices": [choice]}}]
        return {"completed_by": 1, "result": result, "created_at": f"2026-03-{day:02}T10:00:00Z"}

    task = {"id": 1, "data": {"text": "t"}, "annotations": [by("new", 5), by("old", 4)]}
    other = {"id": 2, "data": {"text": "u"}, "annotations": [by("old", 1)]}
    (tmp_path / "tasks.json").write_text(json.dumps([task, other]))
    data = crowdppl.read_annotations(tmp_path / "tasks.json", repeats="last", time="created_at")
    assert data.frame()["label"].tolist() == ["new", "old"]


def test_times_are_a_covariate_that_goes_with_labels(tmp_path: Path) -> None:
    """Dates as days from 1970, in UTC, through subsets, updates and files; a label at another time is a repeat."""
    table = pd.DataFrame(ROWS, columns=["item", "annotator", "label"])
    dates = ["1970-01-02", "1970-01-01T12:00Z", "1970-01-04 01:00+01:00", "1970-01-03", "1970-01-05"]
    with pytest.warns(RepeatsWarning, match="2 of 5"):
        data = crowdppl.Annotations.from_frame(table.assign(at=dates), time="at")
    assert data.time == "at" and data.label_names == ("at",) and data.roles["time"] == "at"
    assert str(data.frame()["at"].dtype) == "datetime64[us]"
    found = sorted(crowdppl.primitives.label_covariates(data, "at").flatten().tolist())
    assert found == [0.5, 1, 2, 3, 4]
    kept = keep(data, data.frame()["item"].eq("i").to_numpy())
    assert sorted(crowdppl.primitives.label_covariates(kept, "at").flatten().tolist()) == [0.5, 1, 3, 4]
    posterior = crowdppl.fit("one_coin", data, inference="vb")
    posterior.save(tmp_path)
    again = crowdppl.load(tmp_path).data
    pd.testing.assert_frame_equal(again.frame(), data.frame())
    assert again.time == "at"
    more = pd.DataFrame({"item": ["k"], "annotator": ["a"], "label": ["no"]})
    assert posterior.update(more).data.time is None  # nothing that was asked reads times
    assert posterior.update(more.assign(at="1970-02-01")).data.time == "at"


def test_numbers_are_times_as_they_are() -> None:
    table = pd.DataFrame(ROWS[:2], columns=["item", "annotator", "label"]).assign(turn=["7", "3"])
    data = crowdppl.Annotations.from_frame(table, time="turn")
    assert data.frame()["turn"].tolist() == [7.0, 3.0]
