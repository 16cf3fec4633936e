"""Every notebook is complete, current and runs, and the runner finds differences."""

import ast
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tests import tutorial_runner as runner

NOTEBOOKS = runner.notebooks()
BYTES = 1_000_000
EXERCISES = "## Exercises"
on_each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def sections(notebook: nbformat.NotebookNode) -> dict[str, list[nbformat.NotebookNode]]:
    found: dict[str, list[nbformat.NotebookNode]] = {}
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and cell.source.startswith("## "):
            found[cell.source.splitlines()[0]] = []
        elif found:
            found[list(found)[-1]].append(cell)
    return found


def without_picture(notebook: nbformat.NotebookNode) -> list[str]:
    """Sections, the exercises aside, in which nothing is drawn."""
    kinds = {
        heading: {kind for cell in cells for output in cell.get("outputs", []) for kind in output.get("data", {})}
        for heading, cells in sections(notebook).items()
    }
    return [name for name, found in kinds.items() if name != EXERCISES and not found & set(runner.PICTURES)]


def helpers(notebook: nbformat.NotebookNode) -> list[str]:
    """Functions that a notebook defines for itself; methods of a model of its own are none."""
    code = [ast.parse(cell.source) for cell in runner.code_cells(notebook)]
    return [node.name for tree in code for node in tree.body if isinstance(node, ast.FunctionDef)]


def complaints(notebook: nbformat.NotebookNode) -> list[int]:
    """Cells that fail, or print to stderr without the tag that says that this is meant."""
    found = []
    for number, cell in enumerate(runner.code_cells(notebook), 1):
        loud = [o for o in cell.outputs if o.output_type == "error" or o.get("name") == "stderr"]
        if loud and "warns" not in cell.metadata.get("tags", []):
            found.append(number)
    return found


@on_each
def test_a_notebook_is_complete(path: Path) -> None:
    notebook = runner.read(path)
    nbformat.validate(notebook)
    first, last = (notebook.cells[n].source for n in (0, -1))
    assert first.startswith("# ") and "\n*For people wh" in first and "It runs in about" in " ".join(first.split())
    assert list(sections(notebook))[-1] == EXERCISES and last.startswith(EXERCISES)
    assert "<details markdown><summary>Answers</summary>" in last and "**Where to go next.**" in last
    assert not without_picture(notebook)
    assert not helpers(notebook), "a helper that a notebook needs belongs into the library"
    assert not complaints(notebook)
    assert path.stat().st_size < BYTES


@on_each
def test_committed_outputs_are_those_of_the_code(path: Path) -> None:
    notebook = runner.read(path)
    fresh = f"run `make notebooks WRITE=1 ONLY={path.stem}`"
    assert notebook.metadata.get("crowdppl", {}).get("executed") == runner.fingerprint(notebook), fresh
    again = nbformat.from_dict(notebook)
    runner.clean(again)
    assert again == notebook, f"volatile metadata: {fresh}"


def test_the_index_lists_all_notebooks() -> None:
    index = (runner.FOLDER / "README.md").read_text(encoding="utf-8")
    assert NOTEBOOKS and not [path.stem for path in NOTEBOOKS if path.stem not in index]


def test_fewer_steps_replace_numbers_of_the_first_cell() -> None:
    def names(code: str) -> set[str]:
        return {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name) and node.id.isupper()}

    for name, code in runner.FEWER.items():
        first = runner.code_cells(runner.read(runner.FOLDER / f"{name}.ipynb"))[0].source
        assert names(code) <= names(first), name


@pytest.mark.slow
@on_each
def test_a_notebook_runs_with_few_steps(path: Path) -> None:
    runner.execute(path, smoke=True)


def written(folder: Path, *code: str, tags: tuple[str, ...] = ()) -> Path:
    cells = [new_code_cell(source, metadata={"tags": list(tags)}) for source in code]
    path = folder / "some.ipynb"
    nbformat.write(new_notebook(cells=[new_markdown_cell("# Some"), *cells]), path)
    return path


def test_a_run_is_offline_in_smoke_mode_with_pictures_and_cleaned(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "import os, sys, warnings, urllib.request\nimport crowdppl\nimport matplotlib.pyplot as plt",
        "print(os.environ.get('CROWDPPL_DATA'), sys.executable)",
        "try:\n    urllib.request.urlopen('http://example.org')\nexcept OSError as error:\n    print(error)",
        "warnings.warn('too few', UserWarning, stacklevel=1)",
        "plt.plot([1, 2]);",
        "open('left.txt', 'w').write('1.50')",
    )
    notebook = runner.execute(path, smoke=True).notebook
    texts = [output for cell in runner.code_cells(notebook) for output in cell.outputs]
    assert texts[0].text.split()[0] == "None" and "refused" in texts[1].text
    assert texts[2].text == "UserWarning: too few\n"
    assert list(texts[3].data) == ["image/png"]
    assert texts[4].data["text/plain"] == "4" and list(tmp_path.iterdir()) == [path]
    assert complaints(notebook) == [4]
    assert [cell.id for cell in notebook.cells] == [f"cell-{n:02}" for n in range(1, 8)]
    assert not runner.differences(notebook, notebook)


def test_a_failing_cell_fails_the_run(tmp_path: Path) -> None:
    with pytest.raises(runner.TutorialError, match=r"some.ipynb(.|\n)*1 / 0(.|\n)*ZeroDivisionError"):
        runner.execute(written(tmp_path, "1 / 0"))


@pytest.mark.parametrize(
    ("before", "after", "tags", "said"),
    [
        ("share 0.123 of 45", "share 0.124 of 45", (), None),
        ("-1,234.5 nats", "-1,240.0 nats", (), None),
        ("0.50", "0.54", ("tolerance:0.1",), None),
        ("3.1 s", "99.9 s", ("timing",), None),
        ("q95 hammer-3", "q95 hammer-3", (), None),
        ("share 0.123", "share 0.125", (), "0.125"),
        ("45 items", "46 items", (), "46"),
        ("0.50", "0.60", ("tolerance:0.1",), "0.60"),
        ("3.1 s", "3.1 ms", ("timing",), "# ms"),
        ("hammer-3", "hammer-4", (), "4"),
    ],
)
def test_what_agrees_and_what_differs(before: str, after: str, tags: tuple[str, ...], said: str | None) -> None:
    assert [str(said) in line for line in runner.compare(before, after, tags)] == [True] * bool(said)
