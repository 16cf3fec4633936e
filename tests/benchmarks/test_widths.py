"""Intervals of annotators and truths, and convergence at the defaults, in simulations of a method's own story."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import crowdppl
from crowdppl import Annotations
from crowdppl.data.kinds.space import number_space
from crowdppl.errors import MethodError
from crowdppl.inference.result import Fit, NumberTruth
from crowdppl.primitives.model import set_up
from crowdppl.results import intervals
from crowdppl.results.truths import truth as truth_table
from tests.benchmarks.results import WIDTHS, Recorder
from tests.benchmarks.tables import markdown, mean_and_error

LEVEL = 0.9
WHAT = ("annotators", "truths")
ANNOTATORS, LABELS = 5, 3
GRADES: Mapping[str, Any] = {"kind": "ordinal", "classes": range(4)}
METHODS: Mapping[str, Mapping[str, Any]] = {
    "label_mean": {"kind": "real"},
    "gaussian_annotators": {"kind": "real"},
    "gain_annotators": {"kind": "real"},
    "robust_annotators": {"kind": "real"},
    "poisson_annotators": {"kind": "count"},
    "von_mises_annotators": {"kind": "angle"},
    "rater_facets": GRADES,
    "ordinal": GRADES,
}
"""Options of the data of each method."""
SIMULATIONS = {
    "gibbs": {20: 40, 200: 40, 2_000: 40},
    "vb": {20: 200, 200: 200, 2_000: 40},
    "nuts": {20: 40, 200: 40},
    "laplace": {20: 40, 200: 40},
}
"""By engine and number of items; with 40, the standard error of a share is about .02."""
ABOUT = (
    "Share of true values in 90 % intervals, ± its standard error over simulations, and in brackets their mean "
    "width, beside that of gibbs in the same simulations; `fit` at its defaults. Each simulation draws "
    f"{ANNOTATORS} annotators from the method's prior in standard units, which the fit keeps, and gives each item "
    f"to {LABELS} of them at random; angles are in radians, grades are four. Annotators: all numbers that the "
    "method has of each (the precision of all, of label_mean)."
)


class Found(NamedTuple):
    """Of one simulation: shares of true values in their intervals, mean widths, and whether the fit converged."""

    annotators: float
    annotators_width: float
    truths: float
    truths_width: float
    converged: bool


def test_widths(recorder: Recorder) -> None:
    header = ["method", "items", "engine", "simulations", *WHAT, *(f"{x}, of gibbs'" for x in WHAT), "converged"]
    recorder.add(WIDTHS, f"{ABOUT}\n\n{markdown(header, list(rows(simulated())))}")


def rows(found: Iterable[tuple[str, int, str, pd.DataFrame]]) -> Iterator[list[str]]:
    """The table, from what was found by method, number of items and engine, gibbs first."""
    exact: dict[tuple[str, int], pd.DataFrame] = {}
    for method, n, engine, of in found:
        if engine == "gibbs":
            exact[method, n] = of
        beside = exact.get((method, n), of[:0])
        shared = of.index.intersection(beside.index)
        wider = [of.loc[shared, x].mean() / beside.loc[shared, x].mean() for x in (f"{x}_width" for x in WHAT)]
        against = ["" if engine == "gibbs" or np.isnan(x) else f"{x:.2f}" for x in wider]
        said = [*(cell(of, what) for what in WHAT), *against, f"{of.converged.mean():.2f}"]
        yield [method, f"{n:,}", engine, str(len(of)), *said]


def cell(of: pd.DataFrame, what: str) -> str:
    return f"{mean_and_error(of[what].to_numpy(), 3)} ({of[f'{what}_width'].mean():.3g})"


def simulated() -> Iterator[tuple[str, int, str, pd.DataFrame]]:
    """What was found, by method, number of items and engine; engines that refuse a method have no part in it."""
    for method in METHODS:
        for n in (20, 200, 2_000):
            for engine, times in SIMULATIONS.items():
                try:
                    of = [found(method, engine, n, seed) for seed in range(times.get(n, 0))]
                except MethodError:
                    continue
                if of:
                    yield method, n, engine, pd.DataFrame(of)


def found(method: str, engine: str, n_items: int, seed: int) -> Found:
    """Draws parameters and labels from the method's story, fits the labels, and looks at the intervals."""
    story, data, truth, parameters = drawn(method, n_items, seed)
    fit = crowdppl.fit(story, data, inference=engine, seed=seed)
    of_annotators = {n: x for n, x in fit.result.sites.items() if x.dims[:1] == ("annotator",)} or fit.result.sites
    inside, wide = [], []
    for name, site in of_annotators.items():
        estimate = intervals.of_site(site, LEVEL)
        true = parameters[name].reshape(site.mean.shape)
        inside.append(((estimate.low <= true) & (true <= estimate.high)).ravel())
        wide.append((estimate.high - estimate.low).ravel())
    truths, widths = of_truths(fit, truth)
    means = [float(np.mean(x)) for x in (np.concatenate(inside), np.concatenate(wide), truths, widths)]
    return Found(*means, bool(fit.result.diagnostics["converged"]))


def drawn(method: str, n_items: int, seed: int) -> tuple[Any, Annotations, np.ndarray, dict[str, np.ndarray]]:
    """The method with settings that suit its story; labels, truths and parameters drawn from it."""
    rng = np.random.default_rng(seed)
    who = np.concatenate([rng.permutation(ANNOTATORS)[:LABELS] for _ in range(n_items)])
    known: Any = {"items": range(n_items), "annotators": range(ANNOTATORS)} | dict(METHODS[method])
    if known["kind"] == "angle":
        known["unit"] = "radians"
    design = Annotations.design(np.repeat(np.arange(n_items), LABELS), who, **known)
    story = set_up(crowdppl.method(method), design)
    made = crowdppl.simulate(story, design, seed=seed)
    return story, made.data, made.truth.to_numpy(), made.parameters


def of_truths(fit: Fit, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether each truth lies in its interval, and how wide that is; of grades, how many it holds."""
    table = truth_table(fit, LEVEL)
    if isinstance(fit.result.truth, NumberTruth):
        space, (low, high) = number_space(fit.data.space), (table[end].to_numpy() for end in ("low", "high"))
        return space.holds(low, high, truth), space.error(high, low) % getattr(space, "turn", np.inf)
    low, high = (table["interval"].str[end].to_numpy().astype(float) for end in (0, 1))
    return (low <= truth) & (truth <= high), high - low + 1
