"""Runs the notebooks of tutorials/ and compares their outputs with the stored ones.

    python -m tests.tutorial_runner                    # all, in full
    python -m tests.tutorial_runner first_posterior    # one
    python -m tests.tutorial_runner --write            # stores the new outputs

Two outputs agree when their words are equal and their numbers, in order, differ by at most 1 % or one unit of the
last printed decimal. Pictures are only counted. Tags of a cell change this: ``tolerance:0.05`` is another relative
tolerance, ``timing`` compares only the words, and only a cell tagged ``warns`` may print to stderr.
"""

import argparse
import hashlib
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpecManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tutorials"
TOLERANCE = 1e-2
SECONDS = {"full": 120, "smoke": 60}
"""Expected seconds of one core; more is warned of."""
FEWER = {
    "choose_a_model": 'SIZES, STEPS["max_iterations"] = (100, 200), 5\nCHAINS |= {"draws": 10, "warmup": 10}',
    "comparisons_and_rankings": "ANSWERS = 6",
    "features_and_labels": 'TRAINING, NUMBERS = {"epochs": 2}, (1, 2)',
    "first_posterior": "DRAWS = 50",
    "judges": "REPEATS = 5",
    "labels_within_a_budget": "ROUNDS = 2",
    "mcmc_or_variational": "DRAWS, NUTS_DRAWS, STEPS, SIMULATIONS = 40, 10, 50, 20",
    "networks_compared": 'TRAINING = {"epochs": 2}',
    "plain_pyro": "STEPS, DRAWS = 20, 5",
    "sets": "TEXTS = 60",
    "soft_labels": "SEEDS, FREEDOM = 1, (0.1, 1)",
    "spans": "SENTENCES = 30",
    "trust_the_numbers": 'STEPS, REPLICATES = 4, 20\nCHAINS |= {"draws": 10, "warmup": 10}',
    "who_copies_whom": "STEPS, REPLICATES = 5, 20",
    "wrong_labels": 'TRAINING = {"epochs": 2}',
    "write_your_own": "STEPS, DRAWS, SIMULATIONS = 5, 20, 20",
}
"""By notebook, what replaces the numbers that its first cell sets where only a few steps are run."""
HANGS = 1800
"""Seconds after which a cell is given up."""
NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+(?:,\d{3}(?!\d))*(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?")
WARNED_AT = re.compile(r"^\S+\.py:\d+: (?=\w+: )|^  (?=\w).*\n?", re.MULTILINE)
"""The place of a warning, and the line of code below it."""
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
PICTURES = ("image/png", "image/svg+xml")
KERNEL = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


class TutorialError(Exception):
    """A notebook failed, or a cell does not end."""


class SlowTutorial(UserWarning):
    """A notebook computed for longer than ``SECONDS`` on this machine."""


@dataclass(frozen=True)
class Run:
    """A notebook with new outputs, cleaned; its seconds of computing; how many numbers it printed."""

    notebook: NotebookNode
    seconds: float
    numbers: int


def notebooks() -> list[Path]:
    """All notebooks of tutorials/, by name."""
    return sorted(FOLDER.glob("*.ipynb"))


def read(path: Path) -> NotebookNode:
    """A notebook as committed."""
    return nbformat.read(path, as_version=4)


def execute(path: Path, smoke: bool = False) -> Run:
    """Runs all cells in a new kernel: offline, without real data, in a folder of its own.

    Raises:
        TutorialError: with the cell and its error, or for a cell that runs for ``HANGS`` seconds.

    Warns:
        SlowTutorial: with what it computed for, where that is more than ``SECONDS``.
    """
    notebook, limit = read(path), SECONDS["smoke" if smoke else "full"]
    for cell in code_cells(notebook):
        cell.outputs, cell.execution_count = [], None
    if smoke and path.stem in FEWER:
        code_cells(notebook)[0].source += f"\n{FEWER[path.stem]}"
    # No folders of specifications: only the kernel of the running Python is left.
    kernels = KernelSpecManager(kernel_dirs=[])
    manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=kernels)
    began = _computed()
    with tempfile.TemporaryDirectory() as scratch:
        where = {"metadata": {"path": scratch}}
        client = NotebookClient(
            notebook,
            km=manager,
            timeout=HANGS,
            resources=where,
            record_timing=False,
            coalesce_streams=True,
            extra_arguments=["--IPKernelApp.log_level=40"],
        )
        try:
            client.execute(env=_environment(scratch), cleanup_kc=True)
        except CellTimeoutError as error:
            raise TutorialError(f"{path.name}: a cell did not end within {HANGS} s") from error
        except CellExecutionError as error:
            raise TutorialError(f"{path.name}: {COLOURS.sub('', str(error))}") from error
        except DeadKernelError as error:
            raise TutorialError(f"{path.name}: the kernel died; it may have run out of memory") from error
    seconds = _computed() - began
    if seconds > limit:
        warnings.warn(SlowTutorial(f"{path.name} computed for {seconds:.0f} s, meant are {limit} s"), stacklevel=2)
    clean(notebook)
    printed = [text for cell in code_cells(notebook) for output in cell.outputs for text in _texts(output)]
    return Run(notebook, seconds, sum(len(numbers(text)) for text in printed))


def clean(notebook: NotebookNode) -> None:
    """Removes what differs between runs and machines, and numbers the cells."""
    notebook.metadata = nbformat.from_dict({**KERNEL, "crowdppl": {"executed": fingerprint(notebook)}})
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for number, cell in enumerate(notebook.cells, 1):
        tags = cell.metadata.get("tags", [])
        cell.id, cell.metadata = f"cell-{number:02}", nbformat.from_dict({"tags": tags} if tags else {})
    for number, cell in enumerate(code_cells(notebook), 1):
        cell.execution_count = number
        for output in cell.outputs:
            _clean_output(output, number)
    nbformat.validate(notebook)


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    """The cells that run."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def fingerprint(notebook: NotebookNode) -> str:
    """A hash of the code, stored in the metadata beside the outputs."""
    code = "\n\n".join(cell.source for cell in code_cells(notebook))
    return hashlib.sha256(code.encode()).hexdigest()[:16]


def differences(committed: NotebookNode, fresh: NotebookNode) -> list[str]:
    """Differences of outputs, a line each."""
    found = []
    for number, (old, new) in enumerate(zip(code_cells(committed), code_cells(fresh), strict=True), 1):
        if [_shape(output) for output in old.outputs] != [_shape(output) for output in new.outputs]:
            kinds = [[str(_shape(output)) for output in cell.outputs] for cell in (old, new)]
            found.append(f"[{number}] has outputs {kinds[1]}, committed are {kinds[0]}")
            continue
        tags = old.metadata.get("tags", [])
        before, after = ([text for output in cell.outputs for text in _texts(output)] for cell in (old, new))
        pairs = zip(before, after, strict=True)
        found += [f"[{number}] {line}" for one, other in pairs for line in compare(one, other, tags)]
    return found


def compare(before: str, after: str, tags: Sequence[str] = ()) -> Iterator[str]:
    """How a text differs from the stored one."""
    words = [NUMBER.sub("#", text).split() for text in (before, after)]
    if words[0] != words[1]:
        pairs = enumerate(zip(*words, strict=False))
        at = next((n for n, (a, b) in pairs if a != b), min(map(len, words)))
        old, new = (" ".join(part[max(0, at - 3) : at + 4]) for part in words)
        yield f"prints {new!r}, committed is {old!r}"
        return
    if "timing" in tags:
        return
    own = [float(tag.removeprefix("tolerance:")) for tag in tags if tag.startswith("tolerance:")]
    relative = own[0] if own else TOLERANCE
    for old, new in zip(numbers(before), numbers(after), strict=True):
        a, b = value(old), value(new)
        if abs(a - b) > max(relative * max(abs(a), abs(b)), 1.001 * max(unit(old), unit(new))):
            yield f"prints {new}, committed is {old} (tolerance {relative:g})"


def numbers(text: str) -> list[str]:
    """The numbers in a text, as they are spelled."""
    return NUMBER.findall(text)


def value(number: str) -> float:
    """What a number is that was printed."""
    return float(number.replace(",", ""))


def unit(number: str) -> float:
    """One unit of the last decimal; 0 for whole numbers, which are no roundings."""
    mantissa, _, exponent = number.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return 10.0 ** (int(exponent or 0) - decimals) if decimals else 0.0


def _computed() -> float:
    """Seconds that finished kernels spent on a core."""
    times = os.times()
    return times.children_user + times.children_system


def _environment(scratch: str) -> dict[str, str]:
    """One thread, so that sums do not depend on the machine; inline pictures; a proxy that does not exist."""
    env = {name: text for name, text in os.environ.items() if name != "CROWDPPL_DATA"}
    path = os.pathsep.join(filter(None, [str(ROOT), env.get("PYTHONPATH")]))
    nobody = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    env |= nobody | {"no_proxy": "", "NO_PROXY": "", "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    env |= {"IPYTHONDIR": scratch, "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    # tqdm warns where there are no widgets, which no notebook needs.
    env |= {"PYTHONWARNINGS": "ignore::Warning:tqdm.auto", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    return env | {"PYTHONHASHSEED": "0"}


def _clean_output(output: NotebookNode, number: int) -> None:
    if output.output_type == "stream" and output.name == "stderr":
        output.text = WARNED_AT.sub("", output.text)
    if output.output_type == "execute_result":
        output.execution_count = number
    if any(kind in output.get("data", {}) for kind in PICTURES):
        output.data.pop("text/plain", None)  # says only that it is a figure
        output.metadata = nbformat.from_dict({})


def _shape(output: NotebookNode) -> tuple[str, ...]:
    """The kind of an output, and the kinds of data that it holds."""
    if output.output_type == "stream":
        return (output.name,)
    return (output.output_type, *sorted(output.get("data", {})))


def _texts(output: NotebookNode) -> list[str]:
    """The text of an output; a table's HTML repeats its plain text."""
    if output.output_type == "stream":
        return [output.text]
    data: dict[str, Any] = output.get("data", {})
    plain = [data[kind] for kind in ("text/plain", "text/markdown") if kind in data]
    return plain or [data["text/html"]] if "text/html" in data or plain else []


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs notebooks; 1 if something failed or differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", help="notebooks without .ipynb; all by default")
    parser.add_argument("--write", action="store_true", help="write the outputs instead of comparing them")
    parser.add_argument("--smoke", action="store_true", help="with fewer steps; only whether it runs")
    args = parser.parse_args(arguments)
    if args.write and args.smoke:
        parser.error("outputs with fewer steps are not for committing")
    known = {path.stem: path for path in notebooks()}
    unknown = set(args.names) - set(known)
    if unknown:
        parser.error(f"no notebook {sorted(unknown)[0]!r}; there are {', '.join(known)}")
    wrong = 0
    for name in args.names or known:
        wrong += not _one(known[name], args.write, args.smoke)
    return int(wrong > 0)


def _one(path: Path, write: bool, smoke: bool) -> bool:
    """Runs a notebook and prints the outcome."""
    try:
        run = execute(path, smoke)
    except TutorialError as error:
        print(error, flush=True)
        return False
    lines = [] if write or smoke else differences(read(path), run.notebook)
    if write:
        nbformat.write(run.notebook, path)
    what = "written" if write else "runs" if smoke else f"{len(lines)} differ" if lines else "all reproduced"
    said = f"{path.stem}: {run.seconds:.0f} s, {run.numbers} numbers printed, {what}"
    print(said, *lines, sep="\n  ", flush=True)
    return not lines


if __name__ == "__main__":
    sys.exit(main())
