"""Intervals of error correlations in simulated panels."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

import crowdppl
from crowdppl import Annotations
from tests.benchmarks.results import PANELS_SIMULATED, Recorder
from tests.benchmarks.tables import markdown, mean_and_error

GOLD = 50
CELLS = ((4, 0.0), (4, 0.3), (4, 0.6), (8, 0.0), (8, 0.3), (8, 0.6), (8, None))
SIMULATIONS, ITEMS, LEVEL = 40, 800, 0.9
ABOUT_SIMULATED = (
    f"`posterior.panel()` of {SIMULATIONS} simulated panels a row: {ITEMS} items of two classes, judges who are "
    "right in three of four, and correlation r of their errors; in the last row two families, .6 within and .2 "
    "between. "
    "Share of pairs whose 90 % interval holds the correlation of their errors on these items, ± standard error, in "
    "brackets the mean width; the median number of independent judges they are worth, and the true one."
)


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
