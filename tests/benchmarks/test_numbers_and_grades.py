"""Numbers and grades on real annotations, beside estimates without a model of labels."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from crowdppl import baselines
from crowdppl.data.annotations import Annotations
from crowdppl.evaluation.evaluate import evaluate
from crowdppl.fitting import fit
from tests.benchmarks.results import NUMBERS_AND_GRADES, Recorder
from tests.benchmarks.tables import markdown
from tests.benchmarks.test_accuracy import read

NUMBERS = ("movie_reviews", "emotion")
ENGINES = {
    "label_mean": "vb",
    "gaussian_annotators": "vb",
    "gain_annotators": "vb",
    "robust_annotators": "em",
    "auto": "vb",
}
"""Of methods for numbers; vb of robust_annotators takes many minutes."""
PEERS = {"CRH": baselines.crh, "CATD": baselines.catd}
GRADES = {
    "ordinal": ("ordinal", {}),
    'ordinal, tail="laplace"': ("ordinal", {"tail": "laplace"}),
}
LEVEL = 0.9

ABOUT = (
    "Numbers, movie_reviews and emotion: mean absolute error, root of the mean squared error, and the share of "
    "truths in 90 % intervals, with seed 0 and default settings; em leaves out that annotators are uncertain. CRH "
    "(Li et al. 2014, SIGMOD) and CATD (Li et al. 2014, VLDB) are means of labels under weights found in turn with "
    "the truth, and have no intervals."
)
ABOUT_GRADES = (
    "Grades, web: per cent of items and mean distance in grades, by em. Ghosh et al. (2011) take the sign of a "
    "singular vector at each threshold between grades. `rater_facets`: the grade nearest to the fair average, "
    "which a rater of average severity, centrality and consistency would give."
)


def test_numbers_and_grades(recorder: Recorder, real_data: Path) -> None:
    parts = [f"{ABOUT}\n\n{number_table(real_data)}", f"{ABOUT_GRADES}\n\n{grade_table(real_data)}"]
    recorder.add(NUMBERS_AND_GRADES, "\n\n".join(parts))


def number_table(folder: Path) -> str:
    found: dict[str, list[str]] = {}
    for name in NUMBERS:
        rows = pd.read_csv(folder / name / "answers.csv").drop_duplicates()
        gold = pd.read_csv(folder / name / "truth.csv").set_index("item")["label"]
        gold = gold[gold.index.isin(rows["item"])]
        for method, cells in scored_numbers(rows, gold):
            found.setdefault(method, []).extend(cells)
            print(name, method, cells, flush=True)
    header = [
        f"{what}{score}" for what in (f"{NUMBERS[0]} ", f"{NUMBERS[1]} ") for score in ("MAE", "RMSE", "cover")
    ]
    return markdown(["method", *header], ([method, *cells] for method, cells in found.items()))


def scored_numbers(rows: pd.DataFrame, gold: pd.Series) -> Iterator[tuple[str, list[str]]]:
    data = Annotations.from_frame(rows, kind="real")
    found = {"median of labels": rows.groupby("item")["label"].median()}
    found |= {method: peer(data).truth()["estimate"] for method, peer in PEERS.items()}
    for method, truth in found.items():
        error = truth[gold.index] - gold
        yield method, [f"{error.abs().mean():.3f}", f"{np.sqrt((error**2).mean()):.3f}", "-"]
    for method, engine in ENGINES.items():
        scores = evaluate(fit(method, data, inference=engine, seed=0), gold, level=LEVEL)
        yield f"{method} ({engine})", [f"{scores.mae:.3f}", f"{scores.rmse:.3f}", f"{scores.coverage:.3f}"]


def grade_table(folder: Path) -> str:
    data, gold = read(folder, "web")
    found = {"Ghosh": baselines.ghosh(data).labels()["label"]}
    for name, (method, settings) in GRADES.items():
        found[name] = fit(method, data, inference="em", settings=settings, seed=0).labels()["label"]
    found["rater_facets"] = fit("rater_facets", data, inference="em", seed=0).fair_averages()["grade"]
    table = []
    for name, grades in found.items():
        far = (grades[gold.index].astype(int) - gold).abs()
        table.append([name, f"{100 * (far == 0).mean():.2f}", f"{far.mean():.3f}"])
        print(table[-1], flush=True)
    return markdown(["method", "accuracy", "distance"], table)
