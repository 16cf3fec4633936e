"""What a report says of settled, likely and open labels, beside what is true, on real annotations."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import crowdppl
from crowdppl import Annotations
from crowdppl.report.facts import LIKELY, SETTLED, Facts
from tests.benchmarks.results import REPORTED, Recorder
from tests.benchmarks.tables import markdown

CLASSES = (
    *("bluebirds", "rte", "dogs", "face", "possent", "product", "music", "sentiment_polarity", "labelme", "cf_amt"),
    *("fact_eval_576", "trec2010_binary", "imagenet15n", "cifar10n", "adult2", "qa_mixed", "judgebench", "trivia"),
)
GRADES = ("web",)
PANELS = ("judges_10k_prompts", "judges_cebab_aspects", "judges_cebab_stars", "judgebench", "qa_mixed")
OTHERS: dict[str, tuple[str, list[str]]] = {
    "varierr": ("set", ["item", "cls"]),
    "products": ("similarity", ["left", "right"]),
    "pico": ("sequence", ["sequence", "position"]),
}
"""Sets of other kinds whose truths are classes: the kind, and the columns that name a truth."""
TARGET = 0.95
ABOUT = (
    '`fit("auto", data)` as `crowdppl report` does, known truths for scoring alone. Settled are labels with a '
    "probability of .95 or more, open those below .7. Said: the sum of one minus it; found: those that are wrong "
    f"among items of known truth. Perfect: labels that a perfect order would hold at {TARGET:.0%} right. Kept: "
    "found is at most twice what was said plus five, and settled is a third of perfect or more. Together: the "
    f"surest labels of which {TARGET:.0%} are said to be right together, and how many are wrong. Panels with "
    "`models=True`; web as grades; varierr and pico: decisions on boxes and on tokens; products: the first 4,500 "
    "labels."
)


class Told(NamedTuple):
    """Of items of known truth: how sure a label is, and whether it is right, (n,) each."""

    sure: np.ndarray
    right: np.ndarray

    def tier(self, low: float, high: float) -> tuple[int, float, int]:
        """Labels between two probabilities, the errors said of them, and those found."""
        here = (self.sure >= low) & (self.sure < high)
        return int(here.sum()), float((1 - self.sure[here]).sum()), int((here & ~self.right).sum())

    @property
    def perfect(self) -> int:
        """Labels that a perfect order holds at ``TARGET`` right."""
        return min(len(self.right), int(self.right.sum() / TARGET))

    @property
    def together(self) -> tuple[int, int]:
        """How many of the surest labels are said to be ``TARGET`` right together, and how many are wrong."""
        order = np.argsort(-self.sure, kind="stable")
        n = int((np.cumsum(1 - self.sure[order]) <= (1 - TARGET) * np.arange(1, len(order) + 1)).sum())
        return n, int((~self.right[order[:n]]).sum())

    def row(self, name: str) -> list[str]:
        """A row of the table."""
        tiers = [self.tier(SETTLED, 2), self.tier(LIKELY, SETTLED), self.tier(0, LIKELY)]
        settled, said, found = tiers[0]
        n, wrong = self.together
        bad = ["too many wrong"] * (found > 2 * said + 5) + ["too few settled"] * (settled < self.perfect / 3)
        cells = [cell for n, said, wrong in tiers for cell in (f"{n:,}", f"{said:.0f} / {wrong:,}")]
        return [
            name,
            f"{len(self.right):,}",
            *cells,
            f"{self.perfect:,}",
            ", ".join(bad) or "yes",
            f"{n:,} / {wrong:,}",
        ]


def told(posterior: Any, gold: Any) -> Told:
    """What a report says of items of known truth, and what is true."""
    of = Facts(posterior, gold=gold).of_classes
    return Told(of.sure[of.compared], of.right[of.compared])


def table(folder: Path, name: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Labels without copies of rows, and truths."""
    return pd.read_csv(folder / name / "answers.csv").drop_duplicates(), pd.read_csv(folder / name / "truth.csv")


def cases(folder: Path) -> Iterator[tuple[str, Annotations, Any, dict[str, Any]]]:
    """Name, annotations, truths by item and options of the fit."""
    for name, more in [(x, False) for x in (*CLASSES, *GRADES)] + [(x, True) for x in PANELS]:
        rows, truth = table(folder, name)
        gold = truth.set_index("item")["label"]
        classes = range(int(max(rows["label"].max(), gold.max())) + 1)
        kind = "ordinal" if name in GRADES else "nominal"
        data = Annotations.from_frame(rows, "item", "annotator", "label", classes=classes, kind=kind)
        gold = gold[gold.index.isin(data.items)]
        yield f"{name}, models" if more else name, data, gold, {"models": True} if more else {}
    for name, (kind, parts) in OTHERS.items():
        rows, truth = table(folder, name)
        rows = rows.head(1500 * 3) if name == "products" else rows
        data = Annotations.from_frame(rows, kind=kind)
        gold = truth.set_index(parts).iloc[:, 0]
        if kind == "set":
            gold = gold.map({0: "no", 1: "yes"})
        yield name, data, gold[gold.index.isin(data.item_index)], {}


def test_report(recorder: Recorder, real_data: Path) -> None:
    rows = []
    for name, data, gold, options in cases(real_data):
        rows.append(told(crowdppl.fit("auto", data, seed=0, **options), gold).row(name))
        print(" | ".join(rows[-1]), flush=True)
    recorder.add(REPORTED, text(rows))


def text(rows: list[list[str]]) -> str:
    """The section."""
    header = [
        "set",
        "items",
        "settled",
        "said / found",
        "likely",
        "said / found",
        "open",
        "said / found",
        "perfect",
    ]
    return f"{ABOUT}\n\n{markdown([*header, 'kept', 'together / found'], rows)}"
