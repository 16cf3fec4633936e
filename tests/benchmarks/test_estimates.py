"""How often intervals from a few labels by people hold, and what the posterior is worth, on real annotations."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.data.annotations import Annotations
from crowdppl.errors import MethodError
from crowdppl.estimation.estimate import estimate
from crowdppl.fitting import fit
from crowdppl.posterior import Posterior
from tests.benchmarks.results import ESTIMATES, Recorder
from tests.benchmarks.tables import markdown

PANELS = ("judges_10k_prompts", "judges_cebab_aspects", "judges_cebab_stars")
CROWDS = ("rte", "dogs", "web")
DRAWS = 500
SIZES = (50, 100, 200)
LEAST_SHARE = 0.1
METHODS = ("people", "linear", "map")

ABOUT = (
    f"Items whose truth is known, labelled by auto without gold; in {DRAWS} random samples of 50, 100 and 200 of "
    "them, their truths are given. Shares are of every class above .1; accuracies of three judges; differences of "
    "the first and the other two. A cell: how often 95 % intervals hold the figure of all items (the least over "
    "figures), and the squared error of people alone divided by that with the posterior (the mean over figures). "
    "Samples that are refused, for outcomes too rare among them, are left out; their share is in the last column."
)


def test_estimates(recorder: Recorder, real_data: Path) -> None:
    rows = []
    for name in (*PANELS, *CROWDS):
        posterior, truth = fitted(real_data, name)
        for quantity, figures in quantities(posterior, truth, judged=name in PANELS):
            for n in SIZES:
                rows.append([name, quantity, f"{n}", *cells(posterior, truth, quantity, figures, n)])
                print(rows[-1], flush=True)
    header = ("set", "figure", "labelled", *(f"`{method}`" for method in METHODS), "refused")
    recorder.add(ESTIMATES, f"{ABOUT}\n\n{markdown(header, rows)}")


def fitted(folder: Path, name: str) -> tuple[Posterior, pd.Series]:
    """A fit to the labels of items with a known truth, and these truths."""
    rows, gold = (pd.read_csv(folder / name / f"{part}.csv") for part in ("answers", "truth"))
    known = gold.drop_duplicates("item").set_index("item")["label"].dropna()
    rows = rows[rows["item"].isin(known.index)].drop_duplicates(["item", "annotator"])
    data = Annotations.from_frame(rows[["item", "annotator", "label"]], kind="nominal")
    return fit("auto", data, seed=0), known.reindex(data.items)


def quantities(
    posterior: Posterior, truth: pd.Series, judged: bool
) -> Iterator[tuple[str, list[tuple[Any, float]]]]:
    """Names of figures, and for each what it is of, and its value on all items."""
    shares = truth.value_counts(normalize=True)
    yield "share", [(of, float(share)) for of, share in shares.items() if share >= LEAST_SHARE]
    if judged:
        frame = posterior.data.frame().set_index(["item", "annotator"])["label"].unstack().reindex(truth.index)
        right = frame.eq(truth, axis=0).where(frame.notna())
        judges = list(frame.columns)[:3]
        yield "accuracy", [(name, float(right[name].mean())) for name in judges]
        gap = {(judges[0], name): (right[judges[0]] - right[name].astype(float)).dropna() for name in judges[1:]}
        yield "difference", [(names, float(x.mean())) for names, x in gap.items()]


def cells(
    posterior: Posterior, truth: pd.Series, quantity: Any, figures: list[tuple[Any, float]], n: int
) -> list[str]:
    """Least coverage and mean worth by method, and the share of samples that are refused."""
    stream, refused, tried = np.random.default_rng(n), 0, 0
    samples = [truth.iloc[stream.permutation(len(truth))[:n]] for _ in range(DRAWS)]
    held: dict[str, list[float]] = {method: [] for method in METHODS}
    worth: dict[str, list[float]] = {method: [] for method in METHODS}
    for of, value in figures:
        off: dict[str, list[float]] = {method: [] for method in METHODS}
        hits: dict[str, list[bool]] = {method: [] for method in METHODS}
        for people in samples:
            tried += 1
            try:
                found = {m: estimate(quantity, people, posterior, of=of, method=m) for m in METHODS}
            except MethodError:
                refused += 1
                continue
            for method, x in found.items():
                off[method].append((x.value - value) ** 2)
                hits[method].append(x.low <= value <= x.high)
        if len(off["people"]) < DRAWS / 5:
            continue
        for method in METHODS:
            held[method].append(float(np.mean(hits[method])))
            worth[method].append(float(np.mean(off["people"]) / np.mean(off[method])))
    if not held["people"]:
        return ["-"] * len(METHODS) + [f"{refused / tried:.2f}"]
    return [f"{min(held[m]):.3f}, {np.mean(worth[m]):.2f}" for m in METHODS] + [f"{refused / tried:.2f}"]
