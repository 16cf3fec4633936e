"""Examples in docstrings run and print what they say, and every public name has one."""

import doctest
import warnings
from collections.abc import Iterator
from functools import cache, wraps
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import crowdppl
from crowdppl.errors import DoubtWarning

ROOT = Path(__file__).resolve().parents[2]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

WITHOUT = {
    *("Check", "ClassifierScore", "Comparison", "Evaluation", "HeldoutScore", "LeaveOneOut"),
    *("Simulation", "SimulatedCrowd"),
}
"""Classes that a function returns; the example of the function shows them."""

COSTLY = {"crowdppl.evaluation.compare", "crowdppl.plots.annotators", "crowdppl.results.correction"}
COSTLY |= {"crowdppl.testing.sbc"}
"""Files whose examples fit many times, "auto" or a network of experts: slow tests."""


@pytest.fixture(scope="module", autouse=True)
def _shared_fits() -> Iterator[None]:
    """Many examples begin with the same fit of the same data, which is made once."""
    read, fit = cache(crowdppl.anaesthetists), crowdppl.fit
    made = cache(fit)

    @wraps(fit)
    def shared(*given: Any, **options: Any) -> crowdppl.Posterior:
        plain = all(isinstance(x, str | int) for x in (*given[:1], *options.values()))
        return (made if plain and given[1:] == (read(),) else fit)(*given, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crowdppl, "anaesthetists", read)
        patch.setattr(crowdppl, "fit", shared)
        yield


def modules_with_examples() -> list[str]:
    """Names of the files of the library and of the zoo that hold an example."""
    paths = [*sorted((ROOT / "crowdppl").rglob("*.py")), *sorted((ROOT / "models").glob("*.py"))]
    found = []
    for path in paths:
        if ">>> " in path.read_text(encoding="utf-8"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            dotted = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found.append(f"crowdppl.{dotted}" if parts[0] == "models" else dotted)
    return found


def failures(module: ModuleType) -> str:
    """Runs a module's examples, each with nothing but ``crowdppl`` at hand; what did not go as written."""
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner(verbose=False, optionflags=FLAGS)
    said: list[str] = []
    with warnings.catch_warnings(action="error"):  # who types an example should not be warned...
        warnings.simplefilter("ignore", DoubtWarning)  # ... but of the spammers that it is about
        for test in finder.find(module, globs={"crowdppl": crowdppl}):
            runner.run(test, out=said.append)
    return "".join(said)


def has_example(thing: Any) -> bool:
    """Whether a docstring holds an example that runs."""
    return bool(doctest.DocTestParser().get_examples(getattr(thing, "__doc__", None) or ""))


def public() -> Iterator[tuple[str, Any]]:
    """Classes and functions that a user types."""
    for name in crowdppl.__all__:
        thing = getattr(crowdppl, name)
        if callable(thing):
            yield name, thing


@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=[pytest.mark.slow] if x in COSTLY else []) for x in modules_with_examples()]
)
def test_examples_print_what_they_say(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = failures(import_module(name))
    assert not wrong, wrong


def test_every_public_name_has_an_example() -> None:
    assert {name for name, thing in public() if not has_example(thing)} == WITHOUT


def test_an_example_that_is_wrong_is_found() -> None:
    module = ModuleType("wrong")
    module.__doc__ = ">>> crowdppl.anaesthetists().n_items\n46"
    assert "Expected:\n    46\nGot:\n    45" in failures(module)
    module.__doc__ = ">>> import warnings\n>>> warnings.warn('no')"
    assert "UserWarning: no" in failures(module)
    module.__doc__ = ">>> crowdppl.anaesthetists().n_items\n45\n>>> list('ab')\n['a', ...]"
    assert failures(module) == ""
    module.__doc__ = ">>> np.zeros(1)"
    assert "name 'np' is not defined" in failures(module)
    assert not has_example(failures)
    assert has_example(module)


def test_the_example_of_annotations_shows_every_constructor() -> None:
    text = crowdppl.Annotations.__doc__ or ""
    for name in ("from_frame", "from_arrays", "from_matrix", "from_dicts"):
        assert f"crowdppl.Annotations.{name}(" in text
