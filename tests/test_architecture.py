"""Who may know whom, read from the source with ``ast``: the rules of CONTRIBUTING.md, kept by a test."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import crowdppl

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = sorted((ROOT / "crowdppl").rglob("*.py"))
ZOO = sorted(p for p in (ROOT / "models").glob("*.py") if not p.name.startswith("_"))
METHODS = [p.stem for p in ZOO]

# Files and wings of the library, from the ground up: a file imports from its own floor and from those before it.
FLOORS = (
    "errors",
    "tables",
    "doors",
    "process",
    "data",
    "files",
    "statistics",
    "agreement",
    "plates",
    "stories",
    "settings",
    "networks",
    "inference",
    "crowds",
    "sources",
    "datasets",
    "registry",
    "results",
    "scoring",
    "pictures",
    "criticism",
    "posterior",
    "fitting",
    "filling",
    "choosing",
    "few_shot",
    "command",
    "contract",
    "testing",
)
# The same within the engines.
ENGINE_FLOORS = (
    "fit_result",
    "memory",
    "machinery",
    "options",
    "reading",
    "reports",
    "digests",
    "checkpoints",
    "midway",
    "loop",
    "learning",
    "inherited",
    "climbing",
    "guides",
    "gradients",
    "stopping",
    "assemble",
    "engine_choice",
    "sampling",
    "runners",
    "running",
    "asking",
    "cells",
)
# What a story is written in: besides `from crowdppl import ...`, a method may open these modules, no others.
VOCABULARY = {"errors", "plates", "settings"}
# What a user holds after a fit. It may read what engines hand over, and calls them by name.
HELD = ("posterior", "results", "scoring", "pictures")
# A posterior looks for doubts, so that these import no engine either; but their advice names methods.
WITHOUT_ENGINES = (*HELD, "criticism")
HANDED_OVER = {"crowdppl.inference.result", "crowdppl.inference.result"}


def module_name(path: Path) -> str:
    """``crowdppl/data/blocks.py`` is ``crowdppl.data.blocks``; a package is named without ``__init__``."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def wing(path: Path) -> str:
    """The floor that a file of the library lies on: "data" of ``crowdppl/data/blocks.py``, "" of ``crowdppl``."""
    return module_name(path).partition(".")[2].partition(".")[0]


MODULES = {module_name(path) for path in LIBRARY}
# All but the front door, `python -m crowdppl` and the doorway to the zoo; and what is in the package of engines.
INSIDE = [path for path in LIBRARY if wing(path) not in {"", "__main__", "models"}]
ENGINES = [path for path in INSIDE if module_name(path).startswith("crowdppl.inference.")]


def imports(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Each (module, name) that is imported at run time, wherever in the file; for ``import x``, (x, "")."""
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from ((module, alias.name) for alias in node.names)


def strings(tree: ast.AST) -> set[str]:
    """String constants that are no docstrings and no prose standing alone."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in prose)
    return {node.value for node in nodes if isinstance(node.value, str)}


def needs(path: Path) -> set[str]:
    """Modules of crowdppl that a file of the library imports."""
    found = set()
    for module, name in imports(ast.parse(path.read_text())):
        assert not module.startswith("."), "say from crowdppl.where"
        assert (module, name) != ("crowdppl", ""), "say what of crowdppl"
        if module.split(".")[0] != "crowdppl":
            continue
        submodule = f"{module}.{name}"
        home = f"crowdppl.{crowdppl._HOME[name]}" if module == "crowdppl" and name in crowdppl._HOME else module
        found.add(submodule if submodule in MODULES else home)
    return found - {"crowdppl", module_name(path)}


def wrong_imports(source: str) -> list[str]:
    """What a method imports besides crowdppl's public names, pyro, torch and the standard library."""
    wrong = []
    for module, name in imports(ast.parse(source)):
        top, _, rest = module.partition(".")
        if top == "crowdppl":
            fine = (rest in VOCABULARY and not name.startswith("_")) or (
                not rest and name in VOCABULARY | {"", *crowdppl.__all__}
            )
        else:
            fine = top in {"pyro", "torch"} or top in sys.stdlib_module_names
        if not fine:
            wrong.append(f"{module} {name}".strip())
    reached = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)]
    names = [node.attr for node in reached if ast.unparse(node.value) == "crowdppl"]  # without importing a module
    return [*wrong, *(f"crowdppl.{name}" for name in names if name not in VOCABULARY | {*crowdppl.__all__})]


def label_sampling(source: str) -> list[str]:
    """Where a method scores or draws labels other than through the shared likelihood."""
    tree, wrong = ast.parse(source), []
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    called = [(node, ast.unparse(node.func).rpartition(".")[2]) for node in calls]
    for node, name in called:
        if name in {"sample", "observe"}:
            site = ast.unparse(node.args[0]) if node.args else ""
            if any(keyword.arg == "obs" for keyword in node.keywords) or site.strip("'\"").startswith("label"):
                wrong.append(f"line {node.lineno}: pyro.{name}({site}, ...)")
        if name == "Labels":
            wrong.append(f"line {node.lineno}: {ast.unparse(node)}")
    if not any(name in ("annotate", "truth_and_labels") for _, name in called):
        wrong.append("no call of annotate")
    return wrong


def methods_named(source: str, methods: list[str]) -> list[str]:
    """Methods of the zoo that code names: as a string, or, where it cannot mean anything else, as a word."""
    tree = ast.parse(source)
    words = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    words |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    texts = strings(tree)
    named = []
    for method in methods:
        inside = "_" in method and any(re.search(rf"\b{method}\b", text) for text in texts)
        if method in texts or inside or ("_" in method and method in words):
            named.append(method)
    return named


def long_functions(source: str, limit: int = 40) -> list[str]:
    """Functions of ``limit`` lines or more, docstrings aside."""
    long = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or 0) - node.lineno + 1
            if ast.get_docstring(node) is not None:
                docstring = node.body[0]
                lines -= (docstring.end_lineno or 0) - docstring.lineno + 1
            if lines >= limit:
                long.append(f"{node.name}: {lines} lines")
    return long


def above(path: Path, modules: set[str], floors: tuple[str, ...], depth: int) -> set[str]:
    """Those modules that lie above a file's own floor; floors are named by one part of a module's name."""
    parts = module_name(path).split(".")
    own = floors.index(parts[depth])
    others = (module.split(".") for module in modules)
    shared = [other for other in others if other[:depth] == parts[:depth] and len(other) > depth]
    return {".".join(other) for other in shared if other[depth] not in floors[: own + 1]}


def called_by_name(path: Path) -> set[str]:
    """Modules of crowdppl that a file names as text, for ``import_module``."""
    return (strings(ast.parse(path.read_text())) & MODULES) - {"crowdppl"}


def test_imports_run_one_way() -> None:
    graph = {module_name(path): needs(path) for path in LIBRARY if path.name != "models.py"}
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail("modules import each other in a circle: " + " -> ".join(error.args[1]))
    assert len(order) >= len(graph)


@pytest.mark.parametrize("path", INSIDE, ids=module_name)
def test_nobody_imports_from_above(path: Path) -> None:
    assert not above(path, needs(path), FLOORS, 1)


@pytest.mark.parametrize("path", ENGINES, ids=module_name)
def test_no_engine_imports_from_above(path: Path) -> None:
    assert not above(path, needs(path), ENGINE_FLOORS, 2)


@pytest.mark.parametrize("path", INSIDE, ids=module_name)
def test_only_what_no_import_may_reach_is_called_by_name(path: Path) -> None:
    barred = above(path, called_by_name(path), FLOORS, 1)
    if wing(path) in WITHOUT_ENGINES:
        barred |= {module for module in called_by_name(path) if module.startswith("crowdppl.inference.")}
    assert called_by_name(path) == barred, "import it as other modules are"


def test_every_floor_is_described() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert tuple(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == FLOORS
    assert {wing(path) for path in INSIDE} == {*FLOORS}
    assert {module_name(path).split(".")[2] for path in ENGINES} == {*ENGINE_FLOORS}


@pytest.mark.parametrize("path", LIBRARY, ids=module_name)
def test_only_the_registry_knows_that_a_zoo_exists(path: Path) -> None:
    tree = ast.parse(path.read_text())
    entered = {m for pair in imports(tree) for m in pair if m.split(".")[0] == "models" or "crowdppl.models" in m}
    entered |= {text for text in strings(tree) if "crowdppl.models" in text}
    assert not entered or path.name == "registry.py", f"{path.name} enters the zoo: {entered}"


@pytest.mark.parametrize("path", sorted((ROOT / "crowdppl" / "inference").rglob("*.py")), ids=module_name)
def test_engines_know_stories_and_no_method(path: Path) -> None:
    assert not methods_named(path.read_text(), METHODS)


@pytest.mark.parametrize("path", [p for p in INSIDE if wing(p) in WITHOUT_ENGINES], ids=module_name)
def test_results_import_no_engine(path: Path) -> None:
    engines = {m for m in needs(path) if m.startswith("crowdppl.inference")} - HANDED_OVER
    assert not engines, f"{path.name} imports {engines}"


@pytest.mark.parametrize("path", [p for p in INSIDE if wing(p) in HELD], ids=module_name)
def test_results_know_no_method(path: Path) -> None:
    assert "crowdppl.registry" not in needs(path) or path.stem in ("parts", "story_plot")
    assert not set(methods_named(path.read_text(), METHODS)) - {"ordinal"}, "which is a kind of labels, too"


@pytest.mark.parametrize("path", ZOO, ids=lambda path: path.stem)
def test_a_method_is_written_as_a_user_would(path: Path) -> None:
    source = path.read_text()
    assert not wrong_imports(source)
    assert not label_sampling(source)
    assert len(source.splitlines()) < 120
    assert not long_functions(source)


@pytest.mark.parametrize("path", LIBRARY, ids=module_name)
def test_library_files_are_short(path: Path) -> None:
    source = path.read_text()
    assert len(source.splitlines()) < 250
    assert not long_functions(source)
    assert path.stem not in {"util", "utils", "helper", "helpers", "common", "misc"}, "name the noun it holds"


def test_no_public_name_is_also_a_submodule() -> None:
    submodules = {module_name(path).split(".")[1] for path in LIBRARY if module_name(path) != "crowdppl"}
    assert not submodules & set(crowdppl.__all__)


def test_the_rules_catch_what_they_forbid() -> None:
    assert wrong_imports("import numpy\nfrom crowdppl.inference import em\nfrom crowdppl import fit_quietly") == [
        "numpy",
        "crowdppl.inference em",
        "crowdppl fit_quietly",
    ]
    assert wrong_imports("from crowdppl.models import one_coin\nfrom .one_coin import OneCoin") == [
        "crowdppl.models one_coin",
        ".one_coin OneCoin",
    ]
    assert not wrong_imports("import torch\nimport pyro.distributions as dist\nfrom crowdppl import Card, plates")
    assert wrong_imports("import crowdppl\ncrowdppl.experts.Worker") == ["crowdppl.experts"]
    assert wrong_imports("import crowdppl\ncrowdppl.primitives.plates.items(crowdppl.fit)") == []
    registry = ROOT / "crowdppl" / "registry.py"
    assert not above(registry, needs(registry), FLOORS, 1)
    assert "crowdppl.inference.engines" in above(registry, needs(registry), ("registry", "inference"), 1)
    gibbs = ROOT / "crowdppl" / "inference" / "sampling" / "gibbs.py"
    assert above(gibbs, {"crowdppl.inference.engines", "crowdppl.posterior"}, ENGINE_FLOORS, 2) == {
        "crowdppl.inference.engines"
    }
    assert above(gibbs, {"crowdppl.inference.engines", "crowdppl.posterior"}, FLOORS, 1) == {"crowdppl.posterior"}
    assert called_by_name(ROOT / "crowdppl" / "results" / "outliers.py") == {"crowdppl.inference.predict.answers"}
    assert label_sampling("pyro.sample('x', d, obs=y)\nannotate(data, p, t)") == ["line 1: pyro.sample('x', ...)"]
    assert label_sampling("pyro.sample('label', d)") == [
        "line 1: pyro.sample('label', ...)",
        "no call of annotate",
    ]
    assert label_sampling("likelihood.annotate(data, Labels(block, p, t), t)") == ["line 1: Labels(block, p, t)"]
    assert methods_named("'''one_coin'''\nx = torch.multinomial(p, 1)", ["one_coin", "multinomial"]) == []
    assert methods_named("if name == 'mace': pass", ["mace", "glad"]) == ["mace"]
    assert methods_named("f'not for one_coin: {x}'", ["one_coin"]) == ["one_coin"]
    assert long_functions("def f():\n" + "    x = 1\n" * 39) == ["f: 40 lines"]
    assert long_functions("def f():\n    '''a\n\n    b'''\n" + "    x = 1\n" * 38) == []
    assert list(imports(ast.parse("if TYPE_CHECKING:\n    import a\nelse:\n    pass\nimport b"))) == [("b", "")]
