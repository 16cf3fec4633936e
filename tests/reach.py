"""How far a call reaches: files and functions of the library, and how deep; ``python -m tests.reach`` tells."""

import sys
import warnings
from argparse import ArgumentParser
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import crowdppl
from crowdppl import models
from crowdppl.cli import commands

ROOTS = tuple(str(Path(path).resolve()) for package in (crowdppl, models) for path in package.__path__)
LEAST: dict[str, Any] = {"chains": 2, "draws": 8, "warmup": 4}
SMALL = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")
"""No functions of their own."""


@dataclass
class Reach:
    """What was entered.

    Attributes:
        functions: files and qualified names.
        deepest: most calls of the library that were open at a time.
    """

    functions: set[tuple[str, str]] = field(default_factory=set)
    deepest: int = 0

    @property
    def files(self) -> set[str]:
        return {file for file, _ in self.functions}


def reach(call: Callable[[], object]) -> Reach:
    """Runs a call with all modules imported, and notes what it enters."""
    found, depth, inside = Reach(), 0, dict[str, str]()

    def note(frame: FrameType, event: str, _: Any) -> None:
        nonlocal depth
        code = frame.f_code
        if event not in ("call", "return") or code.co_name in SMALL:
            return
        if code.co_filename not in inside:
            path = str(Path(code.co_filename).resolve())
            inside[code.co_filename] = path if path.startswith(ROOTS) else ""
        if file := inside[code.co_filename]:
            depth += 1 if event == "call" else -1
            found.deepest = max(found.deepest, depth)
            found.functions.add((file, code.co_qualname))

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def by_gibbs(_: Path) -> Callable[[], object]:
    data = crowdppl.anaesthetists()
    return lambda: crowdppl.fit("bayesian_dawid_skene", data, inference="gibbs", **LEAST)


def by_reading(answers: Path) -> Callable[[], object]:
    return lambda: crowdppl.read_annotations(answers)


def by_command(answers: Path) -> Callable[[], object]:
    def run() -> None:
        with suppress(SystemExit), redirect_stdout(None):
            commands.main(["fit", str(answers), "--model", "auto", "--out", str(answers.with_name("out"))])

    return run


CASES = {
    "gibbs": ('fit("bayesian_dawid_skene", data, inference="gibbs")', by_gibbs),
    "read": ('read_annotations("answers.csv")', by_reading),
    "auto": ("crowdppl fit answers.csv --model auto", by_command),
}


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", help=f"of {', '.join(CASES)}; by default all")
    parser.add_argument("--list", action="store_true", help="print every function")
    asked = parser.parse_args()
    for module in walk_packages(crowdppl.__path__, "crowdppl."):
        if not module.name.endswith("__main__"):  # which runs the command
            import_module(module.name)
    warnings.simplefilter("ignore")
    for name in asked.cases or CASES:
        what, prepare = CASES[name]
        with TemporaryDirectory() as folder:
            answers = Path(folder) / "answers.csv"
            crowdppl.anaesthetists().frame().to_csv(answers, index=False)
            found = reach(prepare(answers))
        print(f"{what}: {len(found.files)} files, {len(found.functions)} functions, {found.deepest} deep")
        if asked.list:
            print(*(f"    {Path(file).name:24} {function}" for file, function in sorted(found.functions)), sep="\n")


if __name__ == "__main__":
    main()
