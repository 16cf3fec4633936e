"""The file of results: sections in Markdown, written by `make bench` alone, and a line that shows hand edits."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATH = ROOT / "docs" / "benchmarks.md"

ON_A_GPU = ("An epoch over a million items on a GPU", "Fits on a GPU")
"""What a machine without a GPU does not measure: there it stays as it was."""

FEW_ANNOTATIONS = tuple(
    f"Truth from few annotations: {name}" for name in ("LabelMe", "Music", "sentiment_polarity")
)
"""A section a set, for each of them takes long."""

SECTIONS = (
    "EM side by side with crowd-kit",
    "Memory of EM",
    "EM from a million to ten million labels",
    "An epoch of a network",
    *ON_A_GPU,
    "bayes_dgc on LabelMe",
    "Gibbs side by side with NUTS",
    "Import",
    "Accuracy on real annotations",
    "Held-out scores",
    "Probabilities on real annotations",
    "Probabilities by auto",
    "Probabilities by auto with known truths",
    "Probabilities by auto on other sets",
    "Probabilities by auto of new items",
    "Without the annotators found as spammers",
    "Which label to ask for next",
    "Asking among five million pairs",
    "Coverage of label sets",
    "Filling in the labels that were not given",
    "Truth from features and labels: LabelMe",
    "Truth from features and labels: Music",
    "Probabilities from features and labels, corrected and not",
    "Methods chosen by labels of items left out",
    "The house recipe in other joint methods",
    "Features and labels of sentiment_polarity",
    "Features that had no part in the recipe",
    "Few-shot tasks",
    *FEW_ANNOTATIONS,
    "Trace regularisation on digits",
    "Unbalanced classes and the balance term",
)
"""What a complete run measures, in this order."""

SEAL = "<!-- written by `make bench`; sha256 of the lines above: "


class ResultsError(ValueError):
    """The file of results is missing, or was not written by `make bench`."""


def compose(machine: str, sections: Mapping[str, str]) -> str:
    """The text of the file.

    Args:
        machine: a paragraph that names machine and versions.
        sections: Markdown by title.

    Raises:
        ResultsError: when a section is missing.
    """
    missing = [title for title in SECTIONS if title not in sections]
    if missing:
        raise ResultsError(f"these benchmarks did not run: {', '.join(missing)}; `make bench` runs all")
    body = "\n\n".join(f"## {title}\n\n{sections[title].strip()}" for title in SECTIONS)
    return seal(f"# Benchmarks\n\n{machine.strip()}\n\n{body}\n")


def amended(text: str, machine: str, found: Mapping[str, str]) -> str:
    """The text of the file after some benchmarks ran alone; a section says so where the machine is another.

    Args:
        text: what ``read`` returns.
        machine: a paragraph that names machine and versions.
        found: Markdown by title.
    """
    head, _, _ = text.partition("\n## ")
    apart = "" if machine.strip() in head else f"*Measured by itself. {machine.strip()}*\n\n"
    every = {**sections(text), **{title: f"{apart}{body.strip()}" for title, body in found.items()}}
    body = "\n\n".join(f"## {title}\n\n{every[title]}" for title in SECTIONS if title in every)
    return seal(f"{head.strip()}\n\n{body}\n")


def seal(text: str) -> str:
    """The text with a last line that holds its checksum."""
    return f"{text}\n{SEAL}{_checksum(text)} -->\n"


def read(path: Path = PATH) -> str:
    """The text above the checksum.

    Raises:
        ResultsError: when the file is missing, or its text is not what `make bench` wrote.
    """
    if not path.exists():
        raise ResultsError(f"{path.name} is missing; `make bench` writes it")
    whole = path.read_text(encoding="utf-8")
    text, found, last = whole.rpartition(f"\n{SEAL}")
    if not found or last != f"{_checksum(text)} -->\n":
        raise ResultsError(f"{path.name} was edited by hand; `make bench` writes it anew")
    return text


def sections(text: str) -> dict[str, str]:
    """The sections of a text of results, by title in their order."""
    _, *parts = f"\n{text}".split("\n## ")
    return {title: body.strip() for title, _, body in (part.partition("\n") for part in parts)}


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
