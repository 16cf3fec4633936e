"""Probabilities of the method "auto" with some known truths, and the accuracies that it then shows."""

import time
from pathlib import Path

import numpy as np
import pandas as pd

from crowdppl.data.annotations import Annotations
from crowdppl.evaluation.calibration import calibrated
from crowdppl.posterior import Posterior
from crowdppl.results.correction import fit_scale, softmax
from tests.benchmarks.results import Recorder
from tests.benchmarks.tables import markdown
from tests.benchmarks.test_accuracy import NINE, SCORES, read
from tests.benchmarks.test_automatic import (
    GIVEN,
    GOLD,
    INFORMED,
    SAME,
    Table,
    automatic,
    score_tables,
    scored,
    split,
)

MORE = (
    "judges_10k_prompts",
    "judges_cebab_aspects",
    "judges_cebab_stars",
    "judgebench",
    "trivia",
    "qa_mixed",
    "adult2",
)
"""Sets of models that label, and others where errors are shared."""
SCALED = "a scale and a shift"
ROWS = (GIVEN, SAME, SCALED)
SIZES, SPLITS = (20, GOLD, 200), 10
LABELS = 30
"""Labels of items with a truth from which on an annotator's accuracy is known."""
ABOUT = (
    f'`fit("auto", data, gold=some)` with {GOLD} random known truths (a third of those known where there are fewer '
    "than 150), scored on the other items, never on those given, beside `auto` without any on the same items, and "
    f"these mapped by a scale and a shift for each class fitted to the truths; mean of {SPLITS} random splits. CPU "
    "seconds: what known truths add to a fit."
)
ABOUT_MORE = "The same on sets where errors are shared, log score / ECE / accuracy:"
ABOUT_SIZES = "By the number of known truths, means over all sets that have three times as many:"
ABOUT_ACCURACY = (
    f"Intervals (95 %) of the accuracies of annotators with {LABELS} labels of items with a truth or more, {GOLD} "
    "truths given: the share that holds the accuracy on all these, their mean width, and how far the mean is off."
)
TRIED = """\
Tried beside it, on nine to fourteen of these sets and two to four splits, mean log score / ECE. With
probabilities of fits to the other four fifths of the truths as the forecast: .470 / .067, for .461 / .070 with
those of fits without any, and .482 / .064 by a scale, shifts and channels, after such fits (ten sets, 50
truths). At 20, 50 and 200 truths a forecast that is not softened .529, .490 and .476, softened .520, .487 and
.476, and with each method to p^(1/3) beside it, as here, .517, .482 and .467. Draws of the map alone .490 /
.088, .452 / .078 and .412 / .056, its mode alone .482 / .074, .447 / .066 and .408 / .051, but surer than right
on trivia and judgebench; half of each, as here, .483 / .080, .447 / .069 and .409 / .054. Without votes .59 for
.52 on judgebench and .72 for .66 on trivia. Votes of annotators who labelled no known item are left at 0: drawn
from their prior, rte had .198 for .194. A fourth standard deviation of votes, .05, gains .002 on crowds and
loses as much on panels. Tables with 4 pseudo-counts in each row, and not in all rows together, covered .36 of
accuracies on music, for .94."""


def test_auto_with_known_truths(recorder: Recorder, real_data: Path) -> None:
    runs: dict[tuple[str, int], Table] = {}
    took: dict[str, float] = {}
    accuracies = []
    for name in (*NINE, *MORE):
        data, gold = read(real_data, name)
        free, members, _ = automatic(data)
        for size in SIZES:
            if size > GOLD and 3 * size > len(gold):
                continue
            table: Table = {row: {} for row in ROWS}
            began = time.process_time()
            for seed in range(SPLITS):
                known, rest = split(gold, seed, size)
                found = Posterior.of(calibrated(members, data.with_gold(known), free.correction, biased=True))
                plain = free.probabilities()
                for row, p in zip(ROWS, (found.probabilities(), plain, scaled(plain, known)), strict=True):
                    table[row][str(seed)] = scored(p, rest)
                if size == GOLD and seed < 3:
                    accuracies.append((name, *held(found, gold), *held(free, gold)))
            runs[name, size] = table
            if size == GOLD:
                took[name] = (time.process_time() - began) / SPLITS
        print(name, took[name], {row: mean(runs[name, GOLD], row) for row in ROWS}, flush=True)
    nine: Table = {row: {name: mean(runs[name, GOLD], row) for name in NINE} for row in ROWS}
    parts = [ABOUT, score_tables(nine, INFORMED, {name: took[name] for name in NINE})]
    more = [[name, *(cell(mean(runs[name, GOLD], row)) for row in ROWS)] for name in MORE]
    sizes = [[str(size), *(cell(over_sets(runs, size, row)) for row in ROWS)] for size in SIZES]
    parts += [ABOUT_MORE, markdown(("set", *ROWS), more), ABOUT_SIZES, markdown(("truths", *ROWS), sizes)]
    of_sets = pd.DataFrame(accuracies).groupby(0, sort=False).mean()
    rows = [[str(name), *(f"{x:.3f}" for x in row)] for name, row in of_sets.iterrows()]
    rows.append(["mean", *(f"{x:.3f}" for x in of_sets.mean())])
    columns = ("hold", "width", "off", "none given: hold", "width", "off")
    parts += [ABOUT_ACCURACY, markdown(("set", *columns), rows), TRIED]
    recorder.add(INFORMED, "\n\n".join(parts))


def scaled(p: pd.DataFrame, known: pd.Series) -> pd.DataFrame:
    """Probabilities under the scale and shifts that are fitted to known truths."""
    logs = np.log(p.clip(lower=1e-6))
    scale, shift = fit_scale(p.loc[known.index].to_numpy(), p.columns.get_indexer(known))
    return pd.DataFrame(softmax(scale * logs.to_numpy() + shift), p.index, p.columns)


def held(posterior: Posterior, gold: pd.Series) -> tuple[float, float, float]:
    """How many intervals hold the accuracies of annotators, their mean width, and the mean error."""
    right, labels = known_accuracies(posterior.data, gold)
    table = posterior.annotators()[labels >= LABELS]
    right = right[labels >= LABELS]
    inside = (table["accuracy_low"] <= right) & (right <= table["accuracy_high"])
    width = table["accuracy_high"] - table["accuracy_low"]
    return float(inside.mean()), float(width.mean()), float((table["accuracy"] - right).abs().mean())


def known_accuracies(data: Annotations, gold: pd.Series) -> tuple[pd.Series, pd.Series]:
    """The share of each annotator's labels that is right, and of how many labels."""
    rows = data.frame()
    rows = rows.assign(truth=rows["item"].map(gold)).dropna(subset=["truth", "label"])
    by = (rows["label"] == rows["truth"]).groupby(rows["annotator"])
    return by.mean().reindex(data.annotators), by.size().reindex(data.annotators, fill_value=0)


def mean(table: Table, row: str) -> dict[str, float]:
    return {key: float(np.mean([scores[key] for scores in table[row].values()])) for key in SCORES}


def over_sets(runs: dict[tuple[str, int], Table], size: int, row: str) -> dict[str, float]:
    """Means over the sets with so many known truths and enough others."""
    found = [mean(table, row) for (_, n), table in runs.items() if n == size]
    return {key: float(np.mean([scores[key] for scores in found])) for key in SCORES}


def cell(scores: dict[str, float]) -> str:
    return f"{scores['log_score']:.3f} / {scores['ece']:.3f} / {scores['accuracy']:.3f}"
