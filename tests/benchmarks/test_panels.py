"""Panels of models on real annotations, told of and not, and intervals of error correlations in simulations."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

import crowdppl
from crowdppl import Annotations
from crowdppl.evaluation.evaluate import evaluate
from crowdppl.posterior import Posterior
from tests.benchmarks.results import PANELS, PANELS_SIMULATED, Recorder
from tests.benchmarks.tables import markdown, mean_and_error

SETS = ("judges_10k_prompts", "judges_cebab_aspects", "judges_cebab_stars", "judgebench", "qa_mixed")
GRADES = ("judges_cebab_stars",)
MOST_MODELS = 1000
"""Labels that an annotator of qa_mixed gave, if it is one of the six models."""
GOLD, DRAWS = 50, 10
ABOUT = (
    "Accuracy / log score in nats / ECE of 15 bins, seed 0: vote shares + 1; `fit('auto', data)`; the same with "
    "`models=True`; and this with 50 known truths, the mean of ten draws, scored on the other items, beside the "
    "accuracy of the judge who is right most often on these 50. qa_mixed: its six models alone. The weights of "
    "`judge_panel` and Dawid-Skene, and the numbers of `judge_panel`, were chosen on these five sets; on six other "
    "panels the recipe has a mean log score of .583 and an ECE of .065 (votes .684, .112)."
)
CELLS = ((4, 0.0), (4, 0.3), (4, 0.6), (8, 0.0), (8, 0.3), (8, 0.6), (8, None))
SIMULATIONS, ITEMS, LEVEL = 60, 800, 0.9
ABOUT_SIMULATED = (
    f"`posterior.panel()` of {SIMULATIONS} simulated panels a row: {ITEMS} items of two classes, judges who are "
    "right in three of four, and correlation r of their errors; in the last row two families, .6 within and .2 "
    "between. "
    "Share of pairs whose 90 % interval holds the correlation of their errors on these items, ± standard error, in "
    "brackets the mean width; the median number of independent judges they are worth, and the true one."
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
    found = evaluate(p, truth, bootstrap=0)
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
        given, best = known_truths(data, truth)
        found = [scores(p, truth) for p in (votes, plain, told)] + [given]
        every.append(found)
        rows.append([name, *map(cell, found), f"{best:.3f}"])
        print(rows[-1], flush=True)
    rows.append(["mean", *(cell(np.mean(x, 0)) for x in zip(*every, strict=True)), ""])
    header = ("set", "votes + 1", "auto", "told of models", "and 50 known truths", "best judge of these")
    recorder.add(PANELS, f"{ABOUT}\n\n{markdown(header, rows)}")


def known_truths(data: Annotations, truth: pd.Series) -> tuple[np.ndarray, float]:
    """Scores on the other items with some truths known, and there the accuracy of the judge best on the known."""
    labels = data.frame().pivot_table(index="item", columns="annotator", values="label", aggfunc="first")
    right = labels.reindex(truth.index).eq(truth, axis=0).where(labels.reindex(truth.index).notna())
    found, best = [], []
    for draw in range(DRAWS):
        rng = np.random.default_rng(draw)
        gold = truth.iloc[rng.choice(len(truth), GOLD, replace=False)]
        rest = truth.drop(gold.index)
        posterior = crowdppl.fit("auto", data, models=True, gold=gold, seed=0)
        found.append(scores(posterior.probabilities().loc[rest.index], rest))
        judge = right.loc[gold.index].astype(float).mean().idxmax()
        best.append(float(right.loc[rest.index, judge].astype(float).mean()))
    return np.mean(found, 0), float(np.mean(best))


Simulated = tuple[Annotations, np.ndarray, np.ndarray, dict[int, int]]


def simulated(n_judges: int, r: float | None, seed: int) -> Simulated:
    """Labels, truths, errors (N, J) and families of a panel; of two families where r is None."""
    rng = np.random.default_rng([n_judges, int(10 * (r or 9)), seed])
    truth, coin = rng.integers(2, size=ITEMS), rng.random((ITEMS, n_judges))
    common, of_family, own = (rng.random((ITEMS, n)) < 0.25 for n in (1, 2, n_judges))
    family = np.arange(n_judges) * 2 // n_judges
    shares = (0.2**0.5, 0.4**0.5) if r is None else (r**0.5, 0.0)
    kin = coin < shares[0] + shares[1] * (r is None)
    wrong = np.where(coin < shares[0], common, np.where(kin, of_family[:, family], own))
    item, judge = np.indices(wrong.shape).reshape(2, -1)
    label = np.where(wrong, 1 - truth[:, None], truth[:, None])[item, judge]
    data = Annotations.from_arrays(item, judge, label, classes=[0, 1])
    return data, truth, wrong, dict(enumerate(family.tolist())) if r is None else {}


def test_panels_simulated(recorder: Recorder) -> None:
    header = ("judges", "r", "labels alone: pairs", "worth", "50 known truths: pairs", "worth", "true")
    recorder.add(PANELS_SIMULATED, f"{ABOUT_SIMULATED}\n\n{markdown(header, list(simulated_rows()))}")


def simulated_rows() -> Iterator[list[str]]:
    for n_judges, r in CELLS:
        found: dict[bool, list[tuple[float, float, float]]] = {False: [], True: []}
        true_worth = []
        for seed in range(SIMULATIONS):
            data, truth, wrong, families = simulated(n_judges, r, seed)
            posterior = crowdppl.fit("judge_panel", data, inference="vb", seed=0)
            at = np.random.default_rng(seed).choice(ITEMS, GOLD, replace=False)
            true = np.corrcoef(wrong.T.astype(float))[np.triu_indices(n_judges, 1)]
            true_worth.append(n_judges / (1 + (n_judges - 1) * true.mean()))
            for known in found:
                panel = posterior.panel(pd.Series(truth[at], at) if known else None, families=families, seed=seed)
                pairs = panel.pairs(level=LEVEL)
                low, high = (pairs[f"correlation_{end}"].to_numpy() for end in ("low", "high"))
                worth = panel.figures().loc["effective", "mean"]
                found[known].append((((low <= true) & (true <= high)).mean(), (high - low).mean(), worth))
        cells = []
        for x in (np.array(rows) for rows in found.values()):
            cells += [f"{mean_and_error(x[:, 0], 2)} ({x[:, 1].mean():.2f})", f"{np.median(x[:, 2]):.1f}"]
        yield [str(n_judges), "two families" if r is None else f"{r:.1f}", *cells, f"{np.median(true_worth):.1f}"]
        print(cells, flush=True)
