"""Effective draws a second of Bayesian Dawid-Skene: crowdppl's Gibbs beside the NUTS of NumPyro and of Pyro."""

import time
from dataclasses import replace

import numpy as np
import pytest

from tests.benchmarks.nuts_peers import Sampled, Setting, by_numpyro, by_pyro
from tests.benchmarks.results import Recorder
from tests.benchmarks.simulated import draw
from tests.benchmarks.tables import markdown, seconds, times
from tests.benchmarks.timing import threads

ROUNDS = 3
OURS = "crowdppl gibbs, 32 chains"
WIDEST = 5.0
"""Standard errors by which means of 180 entries may differ: under equality, one in 10,000 runs comes so far."""


def test_gibbs_side_by_side(recorder: Recorder) -> None:
    pytest.importorskip("numpyro", reason="numpyro is not installed: pip install '.[bench]'")
    setting = Setting(draw(500, 5, 20, 3, seed=4), house_prior(3), chains=4, warmup=250, draws=500)
    many = replace(setting, chains=32)  # as many as fit takes for data of this size
    runs: dict[str, list[Sampled]] = {}
    with threads(1):
        for turn in range(ROUNDS):
            runs.setdefault(OURS, []).append(by_gibbs(many, turn))
            runs.setdefault("crowdppl gibbs, 4 chains", []).append(by_gibbs(setting, turn))
            runs.setdefault("NumPyro NUTS, 4 chains vectorised", []).append(by_numpyro(setting))
            runs.setdefault("NumPyro NUTS, 4 chains in turn", []).append(by_numpyro(setting, "sequential"))
        runs["NumPyro NUTS, 32 chains vectorised"] = [by_numpyro(many)]
        runs["Pyro NUTS, 4 chains, compiled"] = [by_pyro(setting)]
    best = {name: min(some, key=lambda run: run.seconds) for name, some in runs.items()}
    ours = best[OURS]
    rate = {name: smallest_ess(run.confusion) / run.seconds for name, run in best.items()}
    rows = [
        [
            name,
            seconds(run.seconds),
            seconds(run.first_seconds),
            f"{smallest_ess(run.confusion):,.0f}",
            f"{rate[name]:,.1f}",
            times(rate[OURS] / rate[name]),
            f"{widest_gap(ours.confusion, run.confusion):.1f}",
        ]
        for name, run in best.items()
    ]
    header = (
        "sampler",
        "warm-up and draws",
        "with compilation",
        "smallest ESS",
        "a second",
        "gibbs is faster",
        "gap",
    )
    text = (
        "Bayesian Dawid-Skene on 500 items x 5 labels, 20 annotators, K = 3; rows of the confusions have "
        "crowdppl's default prior everywhere, the prevalence is flat, the truth is summed out. Chains of 250 "
        "warm-up and 500 kept draws; both are in the time. `fit` takes 32 chains for data of this size. ESS: "
        "ArviZ's bulk ESS, the smallest of 180 confusion entries. The time of crowdppl is that of `fit`, with "
        "diagnostics and label probabilities. One thread of torch, JAX as it comes; the last two once, the "
        f"others in turn, least of {ROUNDS}. Gap: the largest difference of posterior means from gibbs with 32 "
        "chains among the 180 entries, in Monte Carlo standard errors (3 is usual for so many).\n\n"
    )
    recorder.add("Gibbs side by side with NUTS", text + markdown(header, rows))
    for name, run in best.items():
        assert widest_gap(ours.confusion, run.confusion) < WIDEST, f"{name} and gibbs have different means"


def house_prior(k: int) -> np.ndarray:
    """The prior of `bayesian_dawid_skene` for an annotator's rows, (K, K)."""
    from crowdppl.primitives.priors import diagonal_prior

    return diagonal_prior(k).numpy()


def by_gibbs(setting: Setting, seed: int) -> Sampled:
    """crowdppl's gibbs; the first of two runs is not counted, as for the peers."""
    from crowdppl.data.annotations import Annotations
    from crowdppl.fitting import fit
    from crowdppl.registry import method

    data = setting.data
    took = []
    for turn in range(2):
        began = time.perf_counter()
        annotations = Annotations.from_arrays(data.item, data.annotator, data.label)
        posterior = fit(
            method("bayesian_dawid_skene", prevalence_strength=1.0),  # flat, as the peers have it
            annotations,
            inference="gibbs",
            seed=2 * seed + turn,
            chains=setting.chains,
            warmup=setting.warmup,
            draws=setting.draws,
        )
        took.append(time.perf_counter() - began)
    draws = posterior.result.sites["confusion"].arrays["draws"]
    return Sampled(draws, took[1], took[0])


def smallest_ess(confusion: np.ndarray) -> float:
    """Smallest bulk ESS of an entry of the confusions, from draws (C, D, A, K, K)."""
    import arviz as az

    entries = confusion.reshape(*confusion.shape[:2], -1).astype(np.float64)
    found = az.ess(az.convert_to_dataset({"x": entries}), method="bulk")
    return float(found["x"].values.min())


def widest_gap(a: np.ndarray, b: np.ndarray) -> float:
    """Largest difference of means over all entries, in Monte Carlo standard errors of the difference."""
    errors = mean_errors(a) ** 2 + mean_errors(b) ** 2
    gap = np.abs(a.mean((0, 1)) - b.mean((0, 1))).ravel()
    return float((gap / np.sqrt(errors)).max())


def mean_errors(confusion: np.ndarray) -> np.ndarray:
    """Monte Carlo standard error of each entry's mean."""
    import arviz as az

    entries = confusion.reshape(*confusion.shape[:2], -1).astype(np.float64)
    found = az.mcse(az.convert_to_dataset({"x": entries}), method="mean")
    return np.asarray(found["x"].values)
