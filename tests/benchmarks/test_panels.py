"""Panels of models on real annotations, told of and not."""

from pathlib import Path

import numpy as np
import pandas as pd

import crowdppl
from crowdppl import Annotations
from crowdppl.evaluation.evaluate import evaluate
from crowdppl.posterior import Posterior
from tests.benchmarks.results import PANELS, Recorder
from tests.benchmarks.tables import markdown

SETS = ("judges_10k_prompts", "judges_cebab_aspects", "judges_cebab_stars", "judgebench", "qa_mixed")
GRADES = ("judges_cebab_stars",)
MOST_MODELS = 1000
"""Labels that an annotator of qa_mixed gave, if it is one of the six models."""
GOLD, DRAWS = (20, 50, 200), 10
ABOUT = (
    "Accuracy / log score in nats / ECE of 15 bins, seed 0: vote shares + 1; `fit('auto', data)`; the same with "
    "`models=True`; and this with 20, 50 and 200 known truths, means of ten draws, scored on the other items, "
    "beside the accuracy of the judge who is right most often on these. qa_mixed: its six models alone. The "
    "weights of `judge_panel` and Dawid-Skene, and the numbers of `judge_panel`, were chosen on these five sets; "
    "on six other panels the recipe has a mean log score of .583 and an ECE of .065 (votes .684, .112)."
)


def read_panel(folder: Path, name: str) -> tuple[Annotations, pd.Series]:
    """A panel's labels, and the known truths."""
    rows, gold = (pd.read_csv(folder / name / f"{part}.csv") for part in ("answers", "truth"))
    if name == "qa_mixed":
        times = rows["annotator"].value_counts()
        rows = rows[rows["annotator"].isin(times.index[times > MOST_MODELS])]
    kind = "ordinal" if name in GRADES else "nominal"
    classes = range(max(rows["label"].max(), gold["label"].max()) + 1)
    data = Annotations.from_frame(rows[["item", "annotator", "label"]], kind=kind, classes=classes)
    known = gold.drop_duplicates("item").set_index("item")["label"].dropna().astype(int)
    return data, known[known.index.isin(data.items)]


def scores(p: Posterior | pd.DataFrame, truth: pd.Series) -> np.ndarray:
    found = evaluate(p, truth, bootstrap=2)
    return np.array([found.accuracy, found.log_score, found.ece])


def cell(x: np.ndarray) -> str:
    return " / ".join(f"{value:.3f}".removeprefix("0") for value in x)


def test_panels(recorder: Recorder, real_data: Path) -> None:
    rows, every = [], []
    for name in SETS:
        data, truth = read_panel(real_data, name)
        votes = pd.DataFrame(data.votes() + 1.0, data.items, data.classes)
        votes = votes.div(votes.sum(axis=1), axis=0)
        plain, told = (crowdppl.fit("auto", data, seed=0, **more) for more in ({}, {"models": True}))
        given = [known_truths(data, truth, n) for n in GOLD]
        found = [scores(p, truth) for p in (votes, plain, told)] + given
        every.append(found)
        rows.append([name, *map(cell, found)])
        print(rows[-1], flush=True)
    rows.append(["mean", *(cell(np.mean(x, 0)) for x in zip(*every, strict=True))])
    header = ("set", "votes + 1", "auto", "told of models", *(f"and {n} known truths; best judge" for n in GOLD))
    recorder.add(PANELS, f"{ABOUT}\n\n{markdown(header, rows)}")


def known_truths(data: Annotations, truth: pd.Series, n: int) -> np.ndarray:
    """Scores on the other items with so many truths known, and there the accuracy of the judge best on these."""
    labels = data.frame().pivot_table(index="item", columns="annotator", values="label", aggfunc="first")
    right = labels.reindex(truth.index).eq(truth, axis=0).where(labels.reindex(truth.index).notna())
    found = []
    for draw in range(DRAWS):
        rng = np.random.default_rng(draw)
        gold = truth.iloc[rng.choice(len(truth), n, replace=False)]
        rest = truth.drop(gold.index)
        posterior = crowdppl.fit("auto", data, models=True, gold=gold, seed=0)
        mine = scores(posterior.probabilities().loc[rest.index], rest)
        judge = right.loc[gold.index].astype(float).mean().idxmax()
        found.append(np.append(mine, right.loc[rest.index, judge].astype(float).mean()))
    return np.asarray(np.mean(found, 0))
