"""What drawing items for people is worth, and whether widths that a plan promises are kept, on real annotations."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.estimation.drawing import draw_items
from crowdppl.estimation.estimate import estimate
from crowdppl.estimation.inputs import Proxy
from crowdppl.estimation.planning import plan_estimate
from crowdppl.posterior import Posterior
from tests.benchmarks.results import PLANS, Recorder
from tests.benchmarks.tables import markdown
from tests.benchmarks.test_estimates import fitted

WIDTHS = {
    "judges_10k_prompts": 0.12,
    "judges_cebab_aspects": 0.08,
    "judges_cebab_stars": 0.1,
    "rte": 0.08,
    "web": 0.08,
    "dogs": 0.1,
}
"""Promised to each set."""
DRAWN, PILOT, STUDIES = 100, 50, 300

ABOUT = (
    f"Shares of the commonest class, by posteriors of auto without gold. First {STUDIES} samples of {DRAWN} items: "
    "the squared error of those drawn at random, divided by that of those drawn by `suggest_labels`, and how often "
    f"intervals of the latter hold. Then {STUDIES} studies with a promised width: {PILOT} items drawn at random "
    "are a pilot, by which `plan_estimate` (of ten simulated studies) says how many are labelled in all; how often "
    "the interval is as narrow, which is promised in four of five, and how often it holds."
)


def test_plans(recorder: Recorder, real_data: Path) -> None:
    rows = []
    for name, width in WIDTHS.items():
        posterior, truth = fitted(real_data, name)
        rows.append(row(name, posterior, truth, width))
        print(rows[-1], flush=True)
    header = ("set", "worth of drawing", "hold", "width", "labels", "as narrow", "hold")
    recorder.add(PLANS, f"{ABOUT}\n\n{markdown(header, rows)}")


def row(name: str, posterior: Posterior, truth: pd.Series, width: float) -> list[str]:
    """The figures of a set."""
    of, known = truth.mode()[0], Proxy.of(posterior, truth, None, False)
    return [name, *drawn_against_random(known, truth, of), f"{width}", *planned(known, truth, of, width)]


def drawn_against_random(known: Proxy, truth: pd.Series, of: Any) -> list[str]:
    """Squared error at random by that of drawn items, and the coverage of these."""
    share, off, held = float((truth == of).mean()), np.empty((STUDIES, 2)), []
    for seed in range(STUDIES):
        drawn = draw_items("share", known, DRAWN, of=of, seed=seed)
        found = estimate("share", truth[drawn["item"]], known, of=of, chances=drawn)
        even = estimate("share", truth.sample(DRAWN, random_state=seed), known, of=of)
        off[seed] = even.value - share, found.value - share
        held.append(found.low <= share <= found.high)
    at_random, by_chance = (off**2).mean(0)
    return [f"{at_random / by_chance:.2f}", f"{np.mean(held):.3f}"]


def planned(known: Proxy, truth: pd.Series, of: Any, width: float) -> list[str]:
    """The median number of labels, how often the promised width is kept, and how often intervals hold."""
    share, labels, kept, held = float((truth == of).mean()), [], [], []
    for seed in range(STUDIES):
        order = truth.sample(frac=1, random_state=seed)
        plan = plan_estimate("share", known, order.iloc[:PILOT], of=of, width=width, studies=10, seed=seed)
        found = estimate("share", order.iloc[: max(PILOT, plan.labels)], known, of=of)
        labels.append(plan.labels)
        kept.append(found.high - found.low <= width)
        held.append(found.low <= share <= found.high)
    return [f"{np.median(labels):.0f} of {len(truth):,}", f"{np.mean(kept):.3f}", f"{np.mean(held):.3f}"]
