"""Pathfinder and laplace beside a long run of an exact sampler: moments of all sites, and processor time."""

import time

import numpy as np

from crowdppl.data.annotations import Annotations
from crowdppl.errors import MethodError
from crowdppl.fitting import fit
from crowdppl.inference.options import FitOptions
from crowdppl.posterior import Posterior
from tests.benchmarks.results import Recorder
from tests.benchmarks.simulated import draw
from tests.benchmarks.tables import markdown
from tests.benchmarks.timing import threads

LONG: FitOptions = {"seed": 9, "chains": 2, "draws": 300, "warmup": 150}
ITEMS, EACH, ANNOTATORS, CLASSES = 50, 5, 8, 3
METHODS = ("one_coin", "bayesian_dawid_skene", "glad", "ordinal", "item_difficulty", "poisson_annotators")
ENGINES = ("laplace", "pathfinder")


def test_pathfinder_beside_laplace_and_nuts(recorder: Recorder) -> None:
    rows = []
    with threads(1):
        for method in METHODS:
            data = data_of(method)
            exact, long = timed(method, data, "nuts", LONG)
            rows.append([method, "nuts", "", "", "", "", f"{long:.1f}"])
            for engine in ENGINES:
                try:
                    found, took = timed(method, data, engine, {"seed": 0})
                except MethodError:
                    rows.append([method, engine, "refused", "", "", "", ""])
                    continue
                rows.append([method, engine, *errors(found, exact), pareto(found), f"{took:.1f}"])
    header = ("method", "engine", "largest error of means", "median", "sds, times nuts's", "Pareto k", "CPU s")
    text = (
        f"{ITEMS} items x {EACH} labels of {ANNOTATORS} annotators, K = {CLASSES}. Errors are those of each "
        f"number of all sites, against nuts with {LONG['chains']} chains of {LONG['draws']} draws after "
        f"{LONG['warmup']}: of means in deviations by nuts, of deviations as ratios, the smallest and the largest. "
        "Default options, one thread.\n\n"
    )
    recorder.add("Pathfinder beside laplace and nuts", text + markdown(header, rows))


def data_of(method: str) -> Annotations:
    """Simulated labels, as grades or counts where the method is for these."""
    drawn = draw(ITEMS, EACH, ANNOTATORS, CLASSES, seed=5)
    label, kind = drawn.label, {"ordinal": "ordinal", "poisson_annotators": "count"}.get(method, "nominal")
    if kind == "count":
        rng = np.random.default_rng(5)
        truth, gain = rng.gamma(2.0, 4.0, ITEMS), rng.gamma(25.0, 1 / 25, ANNOTATORS)
        label = rng.poisson(truth[drawn.item] * gain[drawn.annotator])
    return Annotations.from_arrays(drawn.item, drawn.annotator, label, kind=kind)


def timed(method: str, data: Annotations, engine: str, options: FitOptions) -> tuple[Posterior, float]:
    """A fit, and the CPU seconds that it took."""
    began = time.process_time()
    found = fit(method, data, inference=engine, **options)
    return found, time.process_time() - began


def moments(posterior: Posterior) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each number of all sites."""
    draws = [site.arrays["draws"] for _, site in sorted(posterior.result.sites.items())]
    flat = np.concatenate([x.reshape(x.shape[0] * x.shape[1], -1) for x in draws], 1)
    return flat.mean(0), flat.std(0)


def errors(found: Posterior, exact: Posterior) -> list[str]:
    """Largest and median error of means, and the range of the ratios of deviations."""
    (mean, sd), (true, width) = moments(found), moments(exact)
    off, ratio = np.abs(mean - true) / width, sd / width
    return [f"{off.max():.2f}", f"{np.median(off):.2f}", f"{ratio.min():.2f} to {ratio.max():.2f}"]


def pareto(found: Posterior) -> str:
    k = found.diagnostics().get("pareto_k")
    return "" if k is None else f"{k:.2f}"
