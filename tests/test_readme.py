"""The generated parts of README, and the file of results, are what the commands write."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks import readme, results, zoo
from tests.benchmarks.tables import markdown

SAMPLE = f"""# A title

{readme.begin("zoo")}

old

{readme.end("zoo")}

prose
"""


@pytest.mark.parametrize("part", readme.PARTS)
def test_readme_holds_what_is_generated(part: str) -> None:
    found = readme.part_of(readme.README.read_text(encoding="utf-8"), part)
    assert found == readme.PARTS[part]().strip(), "run `python -m tests.benchmarks.readme`; do not edit by hand"


def test_results_were_not_edited() -> None:
    if not results.PATH.exists():
        assert readme.part_of(readme.README.read_text(encoding="utf-8"), "benchmarks") == readme.UNMEASURED
        return
    text = results.read()
    for title in results.SECTIONS:
        assert f"\n## {title}\n" in text


def test_every_method_has_a_cell_for_every_engine() -> None:
    for name, row in zoo.cells().items():
        for engine, text in row.items():
            known = text in {"exact", "mean-field", "gradient"} or text.startswith("refused: ")
            assert known, f"{name} by {engine}: {text!r}"
        assert any(not text.startswith("refused") for text in row.values()), f"no engine treats {name}"


def test_a_hand_edit_of_the_results_shows(tmp_path: Path) -> None:
    path = tmp_path / "results.md"
    path.write_text(results.compose("A machine.", dict.fromkeys(results.SECTIONS, "1.00 s")))
    assert "A machine." in results.read(path)
    path.write_text(path.read_text().replace("1.00 s", "0.50 s"))
    with pytest.raises(results.ResultsError, match="edited by hand"):
        results.read(path)
    path.write_text("# Benchmarks\n")
    with pytest.raises(results.ResultsError, match="edited by hand"):
        results.read(path)
    with pytest.raises(results.ResultsError, match="missing"):
        results.read(tmp_path / "none.md")


def test_a_partial_run_is_not_written() -> None:
    with pytest.raises(results.ResultsError, match="did not run: Import"):
        results.compose("A machine.", {title: "" for title in results.SECTIONS if title != "Import"})


def test_a_part_is_replaced_and_nothing_else() -> None:
    new = readme.filled(SAMPLE, "zoo", "new")
    assert new == SAMPLE.replace("old", "new")
    assert readme.part_of(new, "zoo") == "new"
    with pytest.raises(readme.ReadmeError, match="begin benchmarks"):
        readme.part_of(SAMPLE, "benchmarks")


def test_tables() -> None:
    assert markdown(("a", "b"), [["x|y", "1"]]) == "| a | b |\n| --- | ---: |\n| x/y | 1 |"
    with pytest.raises(ValueError, match="2 cells"):
        markdown(("a",), [["x", "1"]])
