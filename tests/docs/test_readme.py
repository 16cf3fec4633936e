"""The generated parts of README, and the file of results, are what the commands write."""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.benchmarks import advice, picture, readme, results, test_automatic, test_pruning, zoo
from tests.benchmarks.__main__ import kept
from tests.benchmarks.tables import markdown
from tests.benchmarks.test_accuracy import SETS, read

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
    found = list(results.sections(results.read()))
    assert found == [title for title in results.SECTIONS if title in found]


def test_every_method_has_a_cell_for_every_engine() -> None:
    for name, row in zoo.cells().items():
        for engine, text in row.items():
            known = text in {"exact", "mean-field", "gradient"} or text.startswith("refused: ")
            assert known, f"{name} by {engine}: {text!r}"
        assert any(not text.startswith("refused") for text in row.values()), f"no engine treats {name}"


def test_some_benchmarks_replace_their_sections(tmp_path: Path) -> None:
    path = tmp_path / "results.md"
    path.write_text(results.compose("A machine.", dict.fromkeys(results.SECTIONS, "1.00 s")))
    path.write_text(results.amended(results.read(path), "A machine.", {"Import": "2.00 s"}))
    path.write_text(results.amended(results.read(path), "Another.", {"Memory of EM": "3.00 s"}))
    found = results.sections(results.read(path))
    assert list(found) == list(results.SECTIONS)
    assert found["Import"] == "2.00 s" and found["Memory of EM"] == "*Measured by itself. Another.*\n\n3.00 s"
    assert sum(text == "1.00 s" for text in found.values()) == len(results.SECTIONS) - 2


def test_a_machine_without_a_gpu_keeps_what_was_measured_on_one() -> None:
    recorded = results.sections(results.read())
    assert kept() == {title: recorded[title] for title in results.ON_A_GPU}
    assert all("Not measured" not in text for text in kept().values())


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


MEASURED = markdown(
    ("method (engines)", "bluebirds", "rte", "web"),
    [
        ["vote shares", "70.00", "80.00", "60.00"],
        ["one_coin (em)", "89.50", "91.50", "50.00"],
        ["mace (em)", "**99.00**", "-", "55.10"],
        ["dawid_skene (em)", "90.00", "**92.00**", "54.90"],
        ["class_coin (em, vb)", "88.90", "89.90", "60.00"],
        ["community (vb)", "70.00", "80.00", "60.00"],
        ["dependent_clusters (vb)", "70.00", "80.00", "60.00"],
        ["ordinal (em)", "99.00", "99.00", "**70.00**"],
        ["majority_vote (em)", "70.00", "80.00", "60.00"],
    ],
)
MEANS = markdown(
    ("method", "accuracy", "log score"),
    [["vote shares", "0.8", "0.1"], ["majority_vote", "0.8", "1.2"], ["glad", "0.7", "0.6"]],
)
EM_TABLE = markdown(
    ("labels", "what", "crowdppl, 1 thread"),
    [["1,000,000", "an iteration", "9 ms"], ["1,000,000", "whole fit, default tolerances (3 iterations)", "70 ms"]],
)


def test_advice_is_the_best_and_what_is_within_its_error() -> None:
    """Two sets of 108 and 800 truths: the error of .90 and .92 is sqrt(.09 / 108 + .0736 / 800) / 2 = .0152."""
    right = advice.accuracies(advice.tables(MEASURED)[0])
    row = advice.kind_row("two classes", right)
    assert row[1:] == ["bluebirds, rte", "`dawid_skene`", "91.00 ± 1.52", "`one_coin`", "75.00"]
    # The method for ordered classes counts where there are such; n = 2653 makes the error sqrt(.21 / 2653) = .0089.
    row = advice.kind_row("classes in an order", right)
    assert row[1:] == ["web", "`ordinal`", "70.00 ± 0.89", "none", "60.00"]
    assert advice.falls(right) == (
        "More than 5 points below majority vote on a set: `one_coin` (web by 10); `dawid_skene` (web by 5)."
    )
    assert advice.groups(right).endswith("above all others on no set.")
    alike = {**right, "community": {**right["community"], "web": 71.0}}
    assert advice.groups(alike).endswith("above all others on web.")


def test_advice_on_probabilities_and_time_is_the_results() -> None:
    means = advice.tables(MEANS)[0]
    (row,) = advice.probability_rows(means, {})
    assert row[2:] == ["`glad`", "log score 0.600", "no error known", "1.200"]
    logs = markdown(
        ("log score", "bluebirds", "mean", "aim"), [["auto", "0.1", "0.400", "met"], ["x", "0", "0", "-"]]
    )
    found = {advice.BLIND: f"{MEANS}\n\n{logs}", advice.TOLD: "Not measured.", advice.EM: EM_TABLE}
    (row,) = advice.probability_rows(means, {advice.BLIND: logs, advice.TOLD: "Not measured."})
    assert row[2:4] == ["`auto`", "log score 0.400"]
    rows = advice.probability_rows(means, {advice.BLIND: logs, advice.TOLD: logs.replace("0.400", "0.300")})
    assert rows[1][2:4] == ["`auto`", "log score 0.300"]
    assert advice.million_row(found)[3] == "70 ms, one thread"


def test_advice_says_when_nothing_was_measured() -> None:
    text = results.compose("A machine.", dict.fromkeys(results.SECTIONS, "Not measured."))
    assert "no real annotations" in advice.table(text)


def test_titles_that_advice_looks_for_are_those_that_benchmarks_write() -> None:
    asked = {advice.ACCURACY, advice.PROBABILITIES, advice.EM, advice.BLIND, advice.TOLD}
    assert asked | {test_pruning.TITLE} <= set(results.SECTIONS)
    assert (advice.BLIND, advice.TOLD) == (test_automatic.BLIND, test_automatic.TOLD)


def test_sizes_of_sets_are_those_of_the_data(real_data: Path) -> None:
    assert list(advice.SIZES) == list(SETS.values())
    for name, shown in SETS.items():
        data, gold = read(real_data, name)
        work = data.frame().groupby("annotator").size()
        labelled = (data.votes().sum(1) > 0).sum()
        found = (
            len(gold),
            round(data.n_labels / labelled, 2),
            data.n_classes,
            work.median(),
            data.kind == "ordinal",
        )
        known = advice.SIZES[shown]
        assert found == (known.truths, known.labels, known.classes, known.work, known.graded), shown


def test_an_aim_is_met_or_missed_and_harm_is_named() -> None:
    verdict = test_automatic.verdict
    assert verdict(test_automatic.BLIND, "accuracy", 0.855) == "≥ 0.855, met"
    assert verdict(test_automatic.BLIND, "accuracy", 0.8549) == "≥ 0.855, missed"
    assert verdict(test_automatic.TOLD, "log_score", 0.401) == "≤ 0.4, missed"
    good = {"accuracy": 0.9, "log_score": 0.3, "brier": 0.2, "ece": 0.03}
    bad = {"accuracy": 0.88, "log_score": 0.4, "brier": 0.2004, "ece": 0.05}
    table = {
        test_automatic.AUTO: {"rte": good, "dogs": bad},
        test_automatic.OWN: {"rte": bad, "dogs": good},
        test_automatic.IBCC: {"rte": good, "dogs": good},
        test_automatic.HOUSE: {"rte": bad, "dogs": bad},
    }
    assert test_automatic.named(table).splitlines() == [
        "- Log score worse than uncorrected: dogs (by 0.100).",
        "- Brier worse than uncorrected: none.",
        "- ECE worse than uncorrected: dogs (by 0.020).",
        "- Accuracy more than 0.01 below variational IBCC (4, 1): dogs (by 0.020).",
        "- Accuracy more than 0.01 below variational IBCC, house prior: none.",
    ]


@pytest.mark.parametrize(("n", "given"), [(108, 36), (149, 49), (150, 50), (800, 50)])
def test_truths_that_are_given_are_not_scored(n: int, given: int) -> None:
    gold = pd.Series(range(n), index=[f"item {i}" for i in range(n)])
    known, rest = test_automatic.split(gold, 3)
    assert len(known) == given and set(known.index).isdisjoint(rest.index) and len(known) + len(rest) == n
    assert not known.equals(test_automatic.split(gold, 4)[0])


def test_changes_by_pruning_carry_their_paired_error() -> None:
    before, after = np.array([1.0, 0, 0, 0.5]), np.array([1.0, 1, 0, 0.5])
    found = test_pruning.cells([before, after, before], [pd.Index(["a"]), pd.Index([])], 9)
    assert found == ["37.50", "1 of 9", "62.50 (+25.00 ± 25.00)", "0 of 9", "-"]


TEN_LINES = re.compile(r"## Ten lines\n\n```python\n(.*?)```\n.*?```text\n(.*?)```", re.DOTALL)


def test_ten_lines_print_what_readme_says() -> None:
    found = TEN_LINES.search(readme.README.read_text(encoding="utf-8"))
    assert found is not None
    code, wanted = found.groups()
    assert len([line for line in code.splitlines() if line]) <= 10
    printed = StringIO()
    with redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    assert [line.rstrip() for line in printed.getvalue().splitlines()] == wanted.splitlines()


@pytest.mark.slow
def test_the_picture_is_what_the_command_draws(tmp_path: Path) -> None:
    from matplotlib.pyplot import imread

    assert str(picture.PATH.relative_to(readme.README.parent)) in readme.README.read_text(encoding="utf-8")
    kept, drawn = imread(picture.PATH), imread(picture.draw(tmp_path / "again.png"))
    assert kept.shape == drawn.shape
    assert np.abs(kept - drawn).mean() < 0.01, "run `python -m tests.benchmarks.picture`"
