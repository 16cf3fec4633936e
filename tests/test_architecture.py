"""The layers of the library, read from its imports: CONTRIBUTING.md describes them."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from itertools import chain
from pathlib import Path

import pytest

import crowdppl
from crowdppl import few_shot, primitives
from crowdppl.data import kinds
from crowdppl.data.kinds import KINDS, Kind

ROOT = Path(__file__).resolve().parent.parent
LAYERS = (
    ("errors", "core"),
    ("data", "agreement", "moments"),
    ("primitives", "networks"),
    ("inference",),
    ("models", "registry", "simulation", "datasets", "few_shot"),
    ("results", "baselines"),
    ("evaluation", "criticism", "plots", "estimation", "report"),
    ("fitting", "posterior", "cli", "app", "testing", "__main__"),
)
LAYER = {part: number for number, parts in enumerate(LAYERS, 1) for part in parts}


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {name_of(path): path for path in (ROOT / "crowdppl").rglob("*.py") if path.name != "models.py"}
MODELS = sorted((ROOT / "models").glob("[a-z]*.py"))


def imports(tree: ast.AST) -> Iterator[str]:
    """Every module of crowdppl that a file imports, wherever in the file, for types too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "crowdppl":
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in FILES else str(node.module)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "crowdppl")


def layer(module: str) -> int:
    """The layer of a module; the root package holds only the version and lazy names."""
    return LAYER[module.split(".")[1]] if "." in module else 0


@pytest.fixture(scope="module")
def graph() -> dict[str, set[str]]:
    """What each module imports."""
    return {name: set(imports(ast.parse(path.read_text()))) for name, path in FILES.items()}


def test_no_import_climbs_or_goes_by_name(graph: dict[str, set[str]]) -> None:
    climbs = {(name, other) for name, others in graph.items() for other in others if layer(other) > layer(name)}
    assert not {(name, other) for name, other in climbs if name != "crowdppl"}
    by_name = {name for name, path in FILES.items() if "import_module" in path.read_text()}
    assert by_name == {"crowdppl.registry"}


def test_no_circle_of_imports(graph: dict[str, set[str]]) -> None:
    inner = {name: others - {name, "crowdppl"} for name, others in graph.items()}
    assert list(TopologicalSorter(inner).static_order())


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_a_model_uses_public_names_and_the_shared_likelihood(path: Path) -> None:
    tree, public = ast.parse(path.read_text()), {*crowdppl.__all__, *primitives.__all__, *few_shot.__all__}
    named = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("crowdppl")
        for alias in node.names
    }
    assert {name for name in named if not name.endswith("Error")} <= public
    observed = [node for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "obs"]
    assert not observed, "labels go through cp.annotate"


REGISTRATIONS = {
    "agreement.coefficients",
    "agreement.votes",
    "criticism.checks",
    "criticism.statistics",
    "evaluation.number_metrics",
    "results.grouping",
    "results.spans",
    "testing.fixtures",
}
"""Where a kind of labels is asked for beyond ``data``: what is computed for it alone."""


def named_kinds(tree: ast.AST) -> set[str]:
    """Kinds that a file compares with, or looks up, by their names."""
    asking = [x for x in ast.walk(tree) if isinstance(x, ast.Compare) and "kind" in ast.unparse(x)]
    sides = [side for x in asking for side in (x.left, *x.comparators)]
    lists = [side.elts for side in sides if isinstance(side, ast.Tuple | ast.List | ast.Set)]
    keys = [x.keys for x in ast.walk(tree) if isinstance(x, ast.Dict)]
    asked = [*sides, *chain(*lists)]
    for each in keys:
        known = [key for key in each if isinstance(key, ast.Constant) and key.value in KINDS]
        asked += known if len(known) > 1 else []
    return {x.value for x in asked if isinstance(x, ast.Constant) and x.value in KINDS}


def test_a_kind_of_labels_is_an_object_and_no_name() -> None:
    names = {name for name, x in vars(kinds).items() if isinstance(x, Kind)}
    assert len(names) == len(KINDS)
    for name, path in FILES.items():
        part = name.removeprefix("crowdppl.")
        tree = ast.parse(path.read_text())
        if part.split(".")[0] != "cli" and not part.startswith("data.kinds"):
            assert not named_kinds(tree), f"{name} asks for a kind by its name"
        imported = {x.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for x in node.names}
        if part.split(".")[0] != "data" and part not in REGISTRATIONS:
            assert not imported & names, f"{name} asks for a kind, and is not listed"


def test_the_rules_can_fail() -> None:
    assert named_kinds(ast.parse('data.kind in ("pair", RANKING) or {"real": 1, "set": 2}')) == {
        "pair",
        "real",
        "set",
    }
    assert not named_kinds(ast.parse('row = {"set": members, "size": 2}'))
    assert list(imports(ast.parse("def f():\n    from crowdppl.posterior import load"))) == ["crowdppl.posterior"]
    assert list(imports(ast.parse("import crowdppl.posterior as p"))) == ["crowdppl.posterior"]
    assert layer("crowdppl.posterior") > layer("crowdppl.inference.engines") > layer("crowdppl.data.blocks")
