"""The files of a result, one commit whatever fails, that read back as they were; and what a terminal is shown."""

import errno
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from safetensors import SafetensorError

import crowdppl
from crowdppl.cli.commands import main
from crowdppl.cli.outputs import write_result
from crowdppl.data.written import write_table
from crowdppl.errors import ResultError
from crowdppl.posterior import Posterior


def fitted(method: str, *ids: str) -> Posterior:
    items, annotators = [*ids, *ids], ["x"] * len(ids) + ["y"] * len(ids)
    labels = (["n", "y"] * len(ids))[: len(ids)] * 2
    return crowdppl.fit(method, crowdppl.Annotations.from_arrays(items, annotators, labels), inference="em")


@pytest.mark.parametrize(
    ("step", "error"),
    [
        ("safetensors.numpy.save_file", SafetensorError("I/O error: No space left on device")),
        ("pyarrow.parquet.write_table", OSError(errno.ENOSPC, "No space left on device")),
        ("pyarrow.csv.write_csv", OSError(errno.ENOSPC, "No space left on device")),
        ("pathlib.Path.write_text", OSError(errno.ENOSPC, "No space left on device")),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_on_a_full_disk_the_old_result_stays(
    step: str, error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise error

    write_result(fitted("one_coin", "a", "b"), tmp_path, {}, {})
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with monkeypatch.context() as patch, pytest.raises(ResultError, match="No space"):
        patch.setattr(step, full)
        write_result(fitted("majority_vote", "a", "b", "c"), tmp_path, {}, {})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    found = crowdppl.load(tmp_path)
    assert found.method == "one_coin"
    assert pd.read_csv(tmp_path / "labels.csv")["item"].tolist() == found.data.items.tolist()


ODD = ("a\rb", "a\nb", "a\r\nb", 'q"x', "a,b", " a ", "=1+1", "+x", "-x", "@x", "\tx", "plain")


def test_ids_read_back_as_they_were(tmp_path: Path) -> None:
    found = fitted("one_coin", *ODD)
    write_result(found, tmp_path, {}, {})
    back = pd.read_csv(tmp_path / "labels.csv", index_col="item")
    assert back.index.tolist() == found.data.items.tolist()
    np.testing.assert_allclose(back["p(y)"], found.probabilities()["y"])


def test_a_spreadsheet_runs_no_cell(tmp_path: Path) -> None:
    found = fitted("one_coin", *ODD)
    write_result(found, tmp_path, {}, {}, spreadsheet_safe=True)
    back = pd.read_csv(tmp_path / "labels.csv", index_col="item").index
    quoted = [f"'{x}" if x[0] in "=+-@\t\r" else x for x in found.data.items]
    assert back.tolist() == quoted


def test_a_number_that_is_a_text_is_no_formula(tmp_path: Path) -> None:
    table = pa.table({"grade": ["-3", "+1,5", "-2.25", "-", "-2+3", "+1-A1", "=1"]})
    write_table(table, tmp_path / "grades.csv", spreadsheet_safe=True)
    back = pd.read_csv(tmp_path / "grades.csv", dtype=str)["grade"]
    assert back.tolist() == ["-3", "+1,5", "-2.25", "'-", "'-2+3", "'+1-A1", "'=1"]


def test_a_terminal_gets_no_escapes_and_any_encoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.csv"
    rows = "a,\x1b[2Jann,y\na,b\u65e5\u202e,n\nb,\x1b[2Jann,n\nb,b\u65e5\u202e,n\n"
    path.write_text(f"item,annotator,label\n{rows}", encoding="utf-8")
    shown = io.BytesIO()
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, io.TextIOWrapper(shown, encoding="cp1252", write_through=True))
    with pytest.raises(SystemExit, match="0"):
        command = ["fit", str(path), "--model", "one_coin", "--inference", "em", "--out", str(tmp_path / "out")]
        main([*command, "--verbose"])  # which names all annotators
    text = shown.getvalue().decode("cp1252")
    assert "\x1b" not in text and r"\x1b[2Jann" in text and r"b\u65e5\u202e" in text


def test_a_fit_that_fails_leaves_no_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kept").mkdir()
    for more in ([], ["--out", "new"], ["--out", "kept"]):
        monkeypatch.setattr(sys, "argv", ["crowdppl", "fit", "nothere.csv", *more])
        with pytest.raises(SystemExit):
            main()
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
