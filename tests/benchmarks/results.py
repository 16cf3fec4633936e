"""The file of results: sections in Markdown, written by `make bench`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATH = ROOT / "docs" / "benchmarks.md"

SCALE = "Labels of any size, by several processes"
BASELINES = "Baselines without a model"
THRESHOLDS = "Grades by thresholds"
ESTIMATES = "Figures from a few labels by people"
PLANS = "Items drawn for people, and widths promised"
MMSR = "M-MSR side by side with crowd-kit"
COVERAGE = "Coverage of annotators' intervals by vb"
NUMBERS_AND_GRADES = "Numbers and grades"
WIDTHS = "Widths of numbers and grades"
TRUSTED = "A trusted annotator against colluders"
BY_GROUP = "Rates by groups of items and annotators"
GROUPS = "Groups of annotators found"
PANELS = "Panels of models"
PANELS_SIMULATED = "Panels of judges with correlated errors"
MASKS = "Masks of several people"
ADVERSARIES = "Adversaries among annotators, with features"
MACHINES = "Weak classifiers as annotators"
COPIERS = "Copying annotators, with features"
TAXONOMY = "Classes in a tree"
SEQUENCES_AND_ORDERS = "Sequences and orders"
OTHER_KINDS = "Other kinds of label"
REPORTED = "What a report says of labels, and what is true"
TIME = "Annotators who change with time"
ITEM_DIFFICULTY = "Item difficulty by vb"
BY_HAND = (COVERAGE, ITEM_DIFFICULTY, OTHER_KINDS)
"""Sections that are written by hand."""
ON_A_GPU = ("An epoch over a million items on a GPU", "Fits on a GPU")
"""What a machine without a GPU does not measure: there it stays as it was."""

FEW_ANNOTATIONS = tuple(
    f"Truth from few annotations: {name}" for name in ("LabelMe", "Music", "sentiment_polarity")
)
"""A section a set, for each of them takes long."""

SECTIONS = (
    "EM side by side with crowd-kit",
    "Majority vote side by side with crowd-kit",
    "Many classes",
    ITEM_DIFFICULTY,
    "Memory of EM",
    "EM from a million to ten million labels",
    "The command line at ten million labels",
    SCALE,
    "Kills",
    "An epoch of a network",
    *ON_A_GPU,
    "bayes_dgc on LabelMe",
    "Gibbs side by side with NUTS",
    "Pathfinder beside laplace and nuts",
    "Import",
    "Accuracy on real annotations",
    REPORTED,
    BASELINES,
    MMSR,
    TRUSTED,
    "Held-out scores",
    "Probabilities on real annotations",
    "Probabilities by auto",
    "Probabilities by auto with known truths",
    "Probabilities by auto on other sets",
    "Probabilities by auto and a bias that annotators share",
    "Probabilities by auto of new items",
    "Without the annotators found as spammers",
    "Moments",
    "Which label to ask for next",
    "Asking among five million pairs",
    "Coverage of label sets",
    COVERAGE,
    BY_GROUP,
    GROUPS,
    PANELS,
    PANELS_SIMULATED,
    TAXONOMY,
    "Filling in the labels that were not given",
    "Truth from features and labels: LabelMe",
    "Truth from features and labels: Music",
    "Probabilities from features and labels, corrected and not",
    "Methods chosen by labels of items left out",
    "The default recipe in other joint methods",
    "Features and labels of sentiment_polarity",
    "Features that had no part in the recipe",
    ADVERSARIES,
    MACHINES,
    COPIERS,
    "Few-shot tasks",
    *FEW_ANNOTATIONS,
    "Trace regularisation on digits",
    "Unbalanced classes and the balance term",
    NUMBERS_AND_GRADES,
    THRESHOLDS,
    ESTIMATES,
    PLANS,
    WIDTHS,
    SEQUENCES_AND_ORDERS,
    MASKS,
    OTHER_KINDS,
    TIME,
)
"""What a complete run measures, in this order."""


@dataclass(eq=False)
class Recorder:
    """Sections of the results by title; a pytest plugin, so that the command that started pytest holds it."""

    sections: dict[str, str] = field(default_factory=dict)

    def add(self, title: str, text: str) -> None:
        """Keeps a section, and prints it for those who run one benchmark alone."""
        if title not in SECTIONS:
            raise ValueError(f"{title!r} is no section; results.SECTIONS lists them")
        self.sections[title] = text
        print(f"\n## {title}\n\n{text}\n")


def compose(machine: str, found: Mapping[str, str], before: str = "") -> str:
    """The text of the file after a whole run.

    Args:
        machine: a paragraph that names machine and versions.
        found: Markdown by title; a section that was skipped says so; those of a GPU and of other kinds stay.
        before: the text of the file as it was.
    """
    old = {title: text for title, text in sections(before).items() if title in (*ON_A_GPU, *BY_HAND)}
    skipped = dict.fromkeys(SECTIONS, "Not measured: the benchmark needs what this machine or its settings lack.")
    return _text(f"# Benchmarks\n\n{machine.strip()}", {**skipped, **old, **found})


def amended(text: str, machine: str, found: Mapping[str, str]) -> str:
    """The text of the file after some benchmarks ran alone; a section says so where the machine is another.

    Args:
        text: the file as it was.
        machine: a paragraph that names machine and versions.
        found: Markdown by title.
    """
    head = text.partition("\n## ")[0]
    apart = "" if machine.strip() in head else f"*Measured by itself. {machine.strip()}*\n\n"
    return _text(head, sections(text) | {title: apart + body.strip() for title, body in found.items()})


def read() -> str:
    return PATH.read_text(encoding="utf-8")


def sections(text: str) -> dict[str, str]:
    """The sections of a text of results, by title in their order."""
    _, *parts = f"\n{text}".split("\n## ")
    return {title: body.strip() for title, _, body in (part.partition("\n") for part in parts)}


def _text(head: str, found: Mapping[str, str]) -> str:
    body = [f"## {title}\n\n{found[title].strip()}" for title in SECTIONS if title in found]
    return "\n\n".join([head.strip(), *body]) + "\n"
