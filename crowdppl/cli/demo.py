"""The main job on built-in data: Bayesian Dawid-Skene by Gibbs on the anaesthetists of 1979."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pandas as pd

from crowdppl.cli.outputs import FILES, label_table, require_room, run_record, write_pictures, write_result
from crowdppl.core.devices import held_back
from crowdppl.datasets import anaesthetists
from crowdppl.fitting import fit
from crowdppl.posterior import Posterior

DRAWS = 2000
"""Draws a chain: two patients stand between classes 3 and 4, which chains take a while to weigh up."""

SETTINGS = {"prevalence_strength": 1.0}
"""Of the method: a flat prior, for classes of a few patients."""

ANSWERS = "built in: Dawid & Skene (1979), Table 1"
"""What run.json says of the data."""


def run_demo(folder: Path, seed: int = 0, *, overwrite: bool = False) -> Posterior:
    """Fits, prints label probabilities, annotators and diagnostics, and writes tables and pictures.

    Args:
        folder: where to; made if need be.
        seed: of the sampler.
        overwrite: whether a result that is there may be replaced; that of an earlier demonstration always is.

    Raises:
        ResultError: when another result is there.
    """
    require_room(folder, overwrite or _is_demo(folder))
    data = anaesthetists()
    began = time.perf_counter()
    posterior = fit(
        "bayesian_dawid_skene",
        data,
        settings=SETTINGS,
        inference="gibbs",
        seed=seed,
        draws=DRAWS,
        warmup=DRAWS // 4,
    )
    timings = {"fit": time.perf_counter() - began}
    with held_back():  # a second Ctrl-C, or one that comes late, loses no fit
        write_result(posterior, folder, {"answers": ANSWERS}, timings)
    pictures = write_pictures(posterior, folder / "pictures")
    print(f"{data.n_annotators} anaesthetists on the fitness of {data.n_items} patients (Dawid & Skene, 1979)")
    under = ", ".join(f"{name}={value:g}" for name, value in SETTINGS.items())
    print(f"{posterior.method} by {posterior.inference}, {DRAWS} draws a chain, under {under}")
    print(_titled("Probability of each class for each patient", label_table(posterior).drop(columns="tied")))
    print(_titled("Annotators, with 95 % intervals", posterior.annotators()))
    print(_titled("Prevalence of the classes, with 95 % intervals", posterior.prevalence()))
    print(_titled("Diagnostics", _by_site(posterior.diagnostics())))
    print(f"\n{FILES} are in {folder}, {len(pictures)} pictures in {folder / 'pictures'}")
    print(f'Read the posterior in Python with crowdppl.load("{folder}")')
    return posterior


def _is_demo(folder: Path) -> bool:
    """Whether a folder holds what a demonstration wrote."""
    return run_record(folder).get("answers") == ANSWERS


def _titled(title: str, table: pd.DataFrame) -> str:
    text = table.to_string(float_format=lambda x: f"{x:.3f}")
    return f"\n{title}\n\n{text}"


def _by_site(found: dict[str, Any]) -> pd.DataFrame:
    """R-hat and effective sample size, a row a site."""
    measures = {"rhat": "worst R-hat", "ess_bulk": "smallest bulk ESS", "ess_tail": "smallest tail ESS"}
    return pd.DataFrame({title: found[name] for name, title in measures.items()}).rename_axis("site")
