"""Which method for which data: a table from the results."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from crowdppl import registry
from crowdppl.primitives.model import card_of
from tests.benchmarks import results
from tests.benchmarks.tables import markdown

ACCURACY, PROBABILITIES = "Accuracy on real annotations", "Probabilities on real annotations"
EM = "EM side by side with crowd-kit"
BLIND, INFORMED = "Probabilities by auto", "Probabilities by auto with known truths"
VOTES = "majority_vote"
GROUPED = ("community", "dependent_clusters")
"""Methods for annotators who err alike in groups."""
FALL = 5.0
"""Points below majority vote from which on a method is said to fall."""
HEADER = ("data", "measured on", "best", "its figure", "within a standard error", "majority vote")

# Cells of a table by the name of their column, a row each.
Rows = list[dict[str, str]]
# Per cent right by method and set, as shown in the results.
Accuracies = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Sizes:
    """What a set is like, exact duplicate rows dropped.

    Attributes:
        truths: labelled items with a known truth.
        labels: mean labels of a labelled item.
        classes: how many.
        work: labels of the median annotator.
        graded: whether classes have an order.
    """

    truths: int
    labels: float
    classes: int
    work: float
    graded: bool = False


SIZES = {
    "bluebirds": Sizes(108, 39.0, 2, 108),
    "dogs": Sizes(807, 10.0, 4, 38),
    "rte": Sizes(800, 10.0, 2, 20),
    "web": Sizes(2653, 5.84, 5, 19, graded=True),
    "face": Sizes(584, 8.98, 4, 56),
    "possent": Sizes(1000, 20.0, 2, 60),
    "product": Sizes(8315, 3.0, 2, 32),
    "labelme": Sizes(1000, 2.55, 8, 27),
    "music": Sizes(700, 4.21, 10, 16),
    "sentiment": Sizes(4999, 5.55, 2, 40),
    "cifar10n": Sizes(50000, 3.0, 10, 50000),
    "imagenet15n": Sizes(2514, 1.27, 15, 29),
    "trec2010": Sizes(2275, 4.64, 2, 17),
}
"""By the names that the results show."""

KINDS: Mapping[str, Callable[[Sizes], bool]] = {
    "any": lambda s: True,
    "two classes": lambda s: s.classes == 2 and not s.graded,
    "many classes (8 to 15)": lambda s: s.classes >= 8 and not s.graded,
    "classes in an order": lambda s: s.graded,
    "many labels an item (10 to 39)": lambda s: s.labels >= 10 and not s.graded,
    "few labels an item (2 to 3)": lambda s: 2 <= s.labels <= 3 and not s.graded,
    "most items have one label": lambda s: s.labels < 2 and not s.graded,
    "few labels an annotator (median 16 to 20)": lambda s: s.work <= 20 and not s.graded,
    "few annotators who labelled tens of thousands": lambda s: s.work >= 10_000 and not s.graded,
}
"""Kinds of data that one can recognise before a fit."""


def table(text: str) -> str:
    """The advice that a text of results supports; a sentence where no real annotations were measured."""
    found = results.sections(text)
    measured = [t for title in (ACCURACY, PROBABILITIES) for t in tables(found.get(title, ""))]
    if len(measured) != 3:
        return "The recorded run of `make bench` had no real annotations to measure on."
    accuracy, means, _ = measured
    right = accuracies(accuracy)
    lines = [kind_row(kind, right) for kind in KINDS]
    lines += probability_rows(means, found)
    return "\n\n".join([ABOUT, markdown(HEADER, lines), falls(right), groups(right)])


ABOUT = (
    "From the [benchmarks](benchmarks.md): per cent of known truths that are found, averaged over the sets of a "
    "row, ± the standard error from the number of known truths (another set of the kind can differ by more). "
    "Methods within a standard error of the best are as good, as far as these sets can tell. Methods for "
    "ordered classes are compared only where classes have an order; methods for features are left out, and so "
    "is a method that was not measured on each set of a row."
)


def tables(text: str) -> list[Rows]:
    """The Markdown tables in a text, emphasis taken off."""
    found: list[Rows] = []
    lines: list[list[str]] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            lines.append([cell.strip().replace("**", "") for cell in line.strip().strip("|").split("|")])
        elif lines:
            header, _, *body = lines
            found.append([dict(zip(header, row, strict=True)) for row in body])
            lines = []
    return found


def accuracies(rows: Rows) -> Accuracies:
    """Per cent by method of the zoo and set, from the table of accuracies; what was not measured is left out.

    So are methods that look at features: the table is of labels alone, from which they are others of the zoo.
    """
    out = {}
    for row in rows:
        name, *cells = row.values()
        sets = list(row)[1:]
        method = name.partition(" (")[0]
        out[method] = {s: float(cell) for s, cell in zip(sets, cells, strict=True) if cell != "-"}
    return {method: out[method] for method in out if method in registry.names() and not looks(method)}


def mean_and_error(measured: Mapping[str, float], sets: Sequence[str]) -> tuple[float, float]:
    """Mean per cent over sets, and its standard error: root of the sum of p (1 - p) / n, by the number of sets."""
    p = [measured[s] / 100 for s in sets]
    variance = sum(x * (1 - x) / SIZES[s].truths for x, s in zip(p, sets, strict=True))
    return 100 * sum(p) / len(p), 100 * math.sqrt(variance) / len(p)


def kind_row(kind: str, right: Accuracies) -> list[str]:
    """The best method on sets of a kind, and the methods that are within a standard error of it."""
    sets = [s for s in right[VOTES] if KINDS[kind](SIZES[s])]
    graded = all(SIZES[s].graded for s in sets)
    means = {m: mean_and_error(right[m], sets) for m in candidates(right, sets, graded)}
    ranked = sorted(means, key=lambda m: -means[m][0])
    best, error = means[ranked[0]]
    near = [m for m in ranked[1:] if best - means[m][0] <= error]
    return [
        kind,
        ", ".join(sets) if len(sets) < len(right[VOTES]) else f"all {len(sets)} sets",
        f"`{ranked[0]}`",
        f"{best:.2f} ± {error:.2f}",
        ", ".join(f"`{m}`" for m in near) or "none",
        f"{mean_and_error(right[VOTES], sets)[0]:.2f}",
    ]


def candidates(right: Accuracies, sets: Sequence[str], graded: bool) -> list[str]:
    """Methods that were measured on all these sets and are meant for such classes."""
    return [m for m, row in right.items() if (graded or not ordered(m)) and set(sets) <= set(row)]


def looks(method: str) -> bool:
    """Whether a method is for items with features."""
    card = card_of(registry.method(method))
    return card is not None and "features" in card.uses


def ordered(method: str) -> bool:
    """Whether a method is for classes in an order only."""
    card = card_of(registry.method(method))
    return card is not None and card.kind == "ordinal"


def probability_rows(means: Rows, found: Mapping[str, str]) -> list[list[str]]:
    """The lowest mean log score without known truths, and with some."""
    logs = {row["method"]: float(row["log score"]) for row in means if row["method"] in registry.names()}
    votes = f"{logs[VOTES]:.3f}"
    blind, informed = (mean_log(found.get(title, "")) for title in (BLIND, INFORMED))
    if blind is not None:
        logs["auto"] = blind
    best = min(logs, key=lambda method: logs[method])
    cells = ["nine sets", f"`{best}`", f"log score {logs[best]:.3f}", "no error known", votes]
    rows = [["probabilities to act on", *cells]]
    if informed is not None:
        cells = ["nine sets", "`auto`", f"log score {informed:.3f}", "no other measured", "-"]
        rows.append(["the same, with 36 or 50 known truths", *cells])
    return rows


def mean_log(section: str) -> float | None:
    """The mean log score of "auto" in a section, its first row; None where the section has no tables."""
    for rows in tables(section):
        if "log score" in rows[0]:
            return float(rows[0]["mean"])
    return None


def falls(right: Accuracies) -> str:
    """A sentence on methods that lie far below majority vote somewhere."""
    parts = []
    for method, row in right.items():
        low = {s: right[VOTES][s] - x for s, x in row.items() if right[VOTES][s] - x > FALL}
        if low:
            parts.append(f"`{method}` ({', '.join(f'{s} by {by:.0f}' for s, by in low.items())})")
    return f"More than {FALL:g} points below majority vote on a set: {'; '.join(parts) or 'none'}."


def groups(right: Accuracies) -> str:
    """A sentence on annotators who err alike in groups, which no set is known for."""
    sets = []
    for s in right[VOTES]:
        mine = max(right[m][s] for m in GROUPED)
        others = [right[m][s] for m in candidates(right, [s], SIZES[s].graded) if m not in GROUPED]
        if mine - max(others) > mean_and_error({s: mine}, [s])[1]:
            sets.append(s)
    return (
        "Annotators who err alike in groups: no set is known for them, and the methods that are made for them, "
        f"{' and '.join(f'`{m}`' for m in GROUPED)}, are a standard error above all others on "
        f"{', '.join(sets) or 'no set'}."
    )
