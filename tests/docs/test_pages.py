"""The generated pages and tables are current; README's example prints what it shows; results are kept in order."""

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl.primitives.model import card_of
from docs.making import examples, pages, symbols
from docs.making.formulas import formula
from docs.making.neighbours import neighbours
from tests.benchmarks import advice, picture, results, test_automatic
from tests.benchmarks.tables import markdown
from tests.benchmarks.test_accuracy import SETS, read


@pytest.mark.slow
def test_generated_pages_are_current() -> None:
    stale = [path.name for path, text in pages.files().items() if not path.exists() or path.read_text() != text]
    assert not stale, "run `make pages`"
    found = {path.stem for path in (pages.DOCS / "methods").glob("*.md")} - {"index"}
    drawn = {path.stem for path in (pages.DOCS / "methods" / "plates").glob("*.svg")}
    assert found == drawn == set(pages.names())


THREE_LINES = re.compile(r"## Three lines\n\n```python\n(.*?)\n```\n\n```text\n(.*?)\n```", re.DOTALL)
NUMBER = re.compile(r"-?\d+\.?\d*")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bayesian_dawid_skene", "gaussian_annotators", "hmm_crowd", "plackett_luce"])
def test_three_lines_print_what_a_page_shows(name: str) -> None:
    code, kept = THREE_LINES.search((pages.DOCS / "methods" / f"{name}.md").read_text(encoding="utf-8")).groups()
    shown = examples.printed(code)
    assert NUMBER.sub("", shown).split() == NUMBER.sub("", kept).split()
    numbers = [[float(x) for x in NUMBER.findall(text)] for text in (shown, kept)]
    assert np.allclose(*numbers, atol=0.02), "run `make pages`"


def test_neighbours_have_fewer_and_more_unknowns() -> None:
    cards = {name: pages.card_with(name) for name in pages.names()}
    assert {*examples.outputs()} == {*cards}
    simpler, richer = neighbours("bayesian_dawid_skene", cards)
    assert "one_coin" in simpler and "hierarchical_dawid_skene" in richer and "glad" not in {*simpler, *richer}
    assert neighbours("majority_vote", cards)[0] == [] != neighbours("majority_vote", cards)[1]
    assert neighbours("crowd_bt", cards)[0] == ["bradley_terry"]
    assert neighbours("hmm_crowd", cards)[1] == ["sequence_crowd"]  # no method for other labels is richer


def test_code_of_a_story_becomes_a_formula() -> None:
    known = {"confusion": "θ", "truth": "z"}
    shown = formula("Categorical(confusion[a, truth[i]]) * s - <b>", known)
    assert shown == "Categorical(<i>θ</i><sub>a,<i>z</i><sub>i</sub></sub>) · s − &lt;b&gt;"
    assert formula("confusion[a", known) == "<i>θ</i><sub>a</sub>"  # a line that is cut


def test_a_method_that_no_group_lists_stands_among_others(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = {title: tuple(x for x in group if x != "glad") for title, group in pages.GROUPS.items()}
    every = set(pages.names())
    monkeypatch.setattr(pages, "GROUPS", listed)
    pages.groups.cache_clear()
    try:
        assert "glad" in pages.groups()["Others"] and set(pages.names()) == every
    finally:
        pages.groups.cache_clear()


@pytest.mark.slow
def test_every_method_has_an_engine() -> None:
    for row in pages.support().values():
        told = {text for text in row.values() if not text.startswith("refused: ")}
        assert told and told <= {"exact", "mean-field", "gradient"}


@pytest.mark.parametrize("name", pages.names())
def test_symbols_of_a_method_differ(name: str) -> None:
    sites = card_of(crowdppl.method(name)).sites
    shown = [(symbols.symbol(name, site).letter, symbols.indices(name, shape)) for site, shape in sites.items()]
    assert len(set(shown)) == len(shown)


TEN_LINES = re.compile(r"## Ten lines\n\n```python\n(.*?)```\n.*?```text\n(.*?)```", re.DOTALL)


@pytest.mark.slow
def test_readme_prints_what_it_shows() -> None:
    readme = pages.README.read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 200
    code, wanted = TEN_LINES.search(readme).groups()
    printed = StringIO()
    with redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    assert [line.rstrip() for line in printed.getvalue().splitlines()] == wanted.splitlines()


@pytest.mark.slow
def test_the_picture_is_what_the_command_draws(tmp_path: Path) -> None:
    from matplotlib.pyplot import imread

    kept, drawn = imread(picture.PATH), imread(picture.draw(tmp_path / "again.png"))
    assert kept.shape == drawn.shape
    assert np.abs(kept - drawn).mean() < 0.01, "run `python -m tests.benchmarks.picture`"


MISSED = 1
"""Aims that are missed: the ECE of auto with known truths, .055 for .052, by a map that is better in all else."""


def test_results_have_known_sections_and_their_aims_are_met() -> None:
    found = list(results.sections(results.read()))
    assert found == [title for title in results.SECTIONS if title in found]
    assert results.read().count(", missed |") <= MISSED


def test_some_benchmarks_replace_their_sections() -> None:
    text = results.compose("A machine.", dict.fromkeys(results.SECTIONS, "1.00 s"))
    text = results.amended(text, "A machine.", {"Import": "2.00 s"})
    found = results.sections(results.amended(text, "Another.", {"Memory of EM": "3.00 s"}))
    assert list(found) == list(results.SECTIONS)
    assert found["Import"] == "2.00 s" and found["Memory of EM"] == "*Measured by itself. Another.*\n\n3.00 s"
    assert sum(text == "1.00 s" for text in found.values()) == len(results.SECTIONS) - 2
    again = results.sections(results.compose("A machine.", {"Import": "4.00 s"}, text))
    assert again["Import"] == "4.00 s" and again[results.ON_A_GPU[0]] == "1.00 s"
    assert again["Memory of EM"].startswith("Not measured")


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


def test_advice_is_the_best_and_what_is_within_its_error() -> None:
    """Two sets of 108 and 800 truths: the error of .90 and .92 is sqrt(.09 / 108 + .0736 / 800) / 2 = .0152."""
    right = advice.accuracies(advice.tables(MEASURED)[0])
    row = advice.kind_row("two classes", right)
    assert row[1:] == ["bluebirds, rte", "`dawid_skene`", "91.00 ± 1.52", "`one_coin`", "75.00"]
    # The method for ordered classes counts where there are such; n = 2653 makes the error sqrt(.21 / 2653) = .0089.
    row = advice.kind_row("classes in an order", right)
    assert row[1:] == ["web", "`ordinal`", "70.00 ± 0.89", "none", "60.00"]
    assert "`one_coin` (web by 10); `dawid_skene` (web by 5)" in advice.falls(right)
    assert advice.groups(right).endswith("no set.")
    alike = {**right, "community": {**right["community"], "web": 71.0}}
    assert advice.groups(alike).endswith("web.")


def test_sizes_of_sets_are_those_of_the_data(real_data: Path) -> None:
    assert list(advice.SIZES) == list(SETS.values())
    for name, shown in SETS.items():
        data, gold = read(real_data, name)
        work = data.frame().groupby("annotator").size()
        labelled = (data.votes().sum(1) > 0).sum()
        labels = round(data.n_labels / labelled, 2)
        found = advice.Sizes(len(gold), labels, data.n_classes, work.median(), data.kind == "ordinal")
        assert found == advice.SIZES[shown], shown


@pytest.mark.parametrize(("n", "given"), [(108, 36), (149, 49), (150, 50), (800, 50)])
def test_truths_that_are_given_are_not_scored(n: int, given: int) -> None:
    gold = pd.Series(range(n), index=[f"item {i}" for i in range(n)])
    known, rest = test_automatic.split(gold, 3)
    assert len(known) == given and set(known.index).isdisjoint(rest.index) and len(known) + len(rest) == n
    assert not known.equals(test_automatic.split(gold, 4)[0])
