"""The demonstration: Bayesian Dawid-Skene on the anaesthetists of Dawid & Skene (1979)."""

from __future__ import annotations

import time
from pathlib import Path

import pandas as pd

from crowdppl.cli.outputs import FILES, label_table, require_room, run_record, write_pictures, write_result
from crowdppl.datasets import anaesthetists
from crowdppl.fitting import fit
from crowdppl.posterior import Posterior

ANSWERS = "built in: Dawid & Skene (1979), Table 1"
"""The entry "answers" of run.json, by which a demonstration is recognised."""


def run_demo(folder: Path, seed: int = 0, *, overwrite: bool = False) -> Posterior:
    """Fits with default settings, prints tables and writes them with pictures.

    Args:
        folder: where to; made if need be.
        seed: of the sampler.
        overwrite: whether a result may be replaced; that of an earlier demonstration always is.

    Raises:
        ResultError: when another result is there.
    """
    require_room(folder, overwrite or run_record(folder).get("answers") == ANSWERS)
    data = anaesthetists()
    began = time.perf_counter()
    posterior = fit("bayesian_dawid_skene", data, seed=seed)
    write_result(posterior, folder, {"answers": ANSWERS}, {"fit": time.perf_counter() - began})
    pictures = write_pictures(posterior, folder / "pictures")
    print(f"{data.n_annotators} anaesthetists on the fitness of {data.n_items} patients (Dawid & Skene, 1979)")
    print(f"{posterior.method} by {posterior.inference}, default settings, seed {seed}")
    _show("Probability of each class for each patient", label_table(posterior).drop(columns="tied"))
    _show("Annotators, with 95 % intervals", posterior.annotators())
    _show("Prevalence of the classes, with 95 % intervals", posterior.prevalence())
    titles = {"rhat": "worst R-hat", "ess_bulk": "smallest bulk ESS", "ess_tail": "smallest tail ESS"}
    diagnostics = pd.DataFrame({title: posterior.diagnostics()[name] for name, title in titles.items()})
    _show("Diagnostics", diagnostics.rename_axis("site"))
    print(f"\n{FILES} are in {folder}, {len(pictures)} pictures in {folder / 'pictures'}")
    print(f'Read the posterior in Python with crowdppl.load("{folder}")')
    return posterior


def _show(title: str, table: pd.DataFrame) -> None:
    print(f"\n{title}\n\n{table.to_string(float_format=lambda x: f'{x:.3f}')}")
