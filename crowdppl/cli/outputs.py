"""Files that a command writes: tables, the posterior, a record of the run, pictures."""

from __future__ import annotations

import json
import math
import platform
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from crowdppl import __version__
from crowdppl.core.collective import all_gathered, process
from crowdppl.core.files import made_folder, new_file, new_files, new_files_of_all, settle
from crowdppl.data.kinds import KINDS
from crowdppl.data.tables import arrow_table, coded_table
from crowdppl.data.written import write_table
from crowdppl.datasets import anaesthetists
from crowdppl.errors import ResultError
from crowdppl.fitting import fit
from crowdppl.posterior import Posterior
from crowdppl.primitives.model import settings_of
from crowdppl.report.write import ASK, CHECK, PAGE, of_kind
from crowdppl.results import archive, part_files

LABELS, ANNOTATORS, RUN = "labels.csv", "annotators.csv", "run.json"
FILES = f"{LABELS}, {ANNOTATORS}, {RUN} and the posterior ({', '.join(archive.FILES)})"
FILES_OF_PARTS = f"{part_files.LABELS_OF_PARTS}, {ANNOTATORS}, {RUN} and the posterior"
TABLES = {kind.table: f"{kind.table}.csv" for kind in KINDS.values() if kind.table}
"""By method of a posterior, the file of the table that belongs to a kind of labels."""
SHOWN = 8
"""Files of a result that a refusal names."""
DEMO = "built in: Dawid & Skene (1979), Table 1"
"""The entry "answers" of run.json, by which a demonstration is recognised."""


def write_result(
    posterior: Posterior,
    folder: Path,
    about: Mapping[str, Any],
    timings: Mapping[str, float],
    *,
    spreadsheet_safe: bool = False,
) -> str:
    """Writes tables, the posterior and run.json together, with further entries and timings; says which.

    Labels are a file a part where they were opened from parts; processes that share the fit write together.
    """
    began, opened = time.perf_counter(), posterior.data.opened is not None
    own = {} if posterior.data.is_share else of_kind(posterior)
    with new_files_of_all(folder) as new:
        written = archive.write(posterior, new)
        labels = part_files.write_labels(posterior, new) if opened else []
        written += [name for names in all_gathered(labels) for name in names]
        tables = {**own, ANNOTATORS: arrow_table(posterior.annotators())}
        for name, table in (tables if opened else {**tables, LABELS: posterior.to_arrow()}).items():
            if process() == 0:
                write_table(table, new / name, spreadsheet_safe)
                written.append(name)
        seconds = {**timings, "write": time.perf_counter() - began}
        text = json.dumps(
            _as_json(record(posterior, about, seconds)), indent=2, ensure_ascii=False, allow_nan=False
        )
        if process() == 0:
            (new / RUN).write_text(text + "\n", encoding="utf-8")
    if process() == 0:  # of an earlier result
        for name in {*files_there(folder), PAGE, CHECK, ASK} - {*written, RUN}:
            (folder / name).unlink(missing_ok=True)
    return ", ".join([*own, FILES_OF_PARTS if opened else FILES])


def files_there(folder: Path) -> list[str]:
    """The files of a folder that bear names of a result's."""
    tables = [name for name in (LABELS, ANNOTATORS, RUN, *TABLES.values()) if (folder / name).exists()]
    labels = sorted(path.name for path in folder.glob(part_files.LABELS_OF_PARTS))
    return [*tables, *labels, *archive.files_there(folder)]


def write_frame(frame: pd.DataFrame, path: Path, spreadsheet_safe: bool) -> None:
    """Writes a table with its index as CSV; an old file stays until the new one is whole."""
    with new_file(path) as new:
        write_table(coded_table({}, frame.reset_index()), new, spreadsheet_safe)


@contextmanager
def gone_if_empty(folder: Path) -> Iterator[None]:
    """Work for a folder that is made for it: what fails leaves no empty one."""
    there = folder.exists()
    try:
        yield
    except BaseException:
        if not there:
            with suppress(OSError):
                folder.rmdir()
        raise


def require_room(folder: Path, overwrite: bool, sources: Iterable[Path] = ()) -> None:
    """Makes the folder of a result; ResultError where a result, a source or another file would be lost."""
    settle(made_folder(folder))
    there = files_there(folder)
    for name in there:
        _refuse_source(folder / name, sources, "folder")
    if there and not overwrite:
        named = ", ".join(there[:SHOWN]) + (" ..." if len(there) > SHOWN else "")
        raise ResultError(f"{folder} holds a result ({named}); give another folder, or --overwrite")
    if {*there} - {*archive.files_there(folder)} and "crowdppl" not in run_record(folder):
        raise ResultError(f"{folder / there[0]} was not written by crowdppl; give another folder")
    archive.spare_others(folder)


def run_record(folder: Path) -> dict[str, Any]:
    """The contents of run.json; empty where there is none that can be read."""
    try:
        found = json.loads((folder / RUN).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def require_new(path: Path, overwrite: bool, sources: Iterable[Path] = ()) -> None:
    """Refuses, before long work, a path where a table cannot be written, or would replace a file."""
    if path.is_dir() or not path.parent.is_dir():
        raise ResultError(f"{path} must be a file in an existing folder")
    _refuse_source(path, sources, "file")
    if path.exists() and not overwrite:
        raise ResultError(f"{path} exists; give another file, or --overwrite")


def _refuse_source(path: Path, sources: Iterable[Path], kind: str) -> None:
    """Refuses a path under which a source is found, through a link or in other capitals, too."""
    for source in sources:
        if path.exists() and source.exists() and path.samefile(source):
            raise ResultError(f"{source} is read here and would be replaced; give another {kind}")


def record(posterior: Posterior, about: Mapping[str, Any], seconds: Mapping[str, float]) -> dict[str, Any]:
    """The contents of run.json: versions, settings, timings, sizes of the data, diagnostics, warnings, doubts."""
    diagnostics, correction = posterior.diagnostics(), posterior.correction
    diagnostics.pop("objectives", None)  # long, and in the posterior
    warnings = [*posterior.data.warnings, *diagnostics.pop("warnings", [])]
    doubts = () if posterior.data.is_share else posterior.doubts()
    warnings += [*(() if correction is None else correction.notes), *doubts]
    return {
        "crowdppl": __version__,
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in ("torch", "pyro-ppl", "numpy", "pandas")},
        **about,
        "method": posterior.method,
        "settings": settings_of(posterior.model),
        "inference": posterior.inference,
        "correction": None if correction is None else str(correction),
        "options": posterior.options,
        "seconds": dict(seconds),
        "data": posterior.data.summary(),
        "diagnostics": diagnostics,
        "warnings": list(map(str, warnings)),
        "doubts": [vars(doubt) for doubt in doubts],
    }


def write_pictures(posterior: Posterior, folder: Path) -> list[str]:
    """Draws a confusion matrix an annotator, the annotators, the items and the trace; returns file names."""
    from matplotlib.figure import Figure  # not pyplot: no window system is touched

    side = 2.0 + 0.35 * min(posterior.data.n_classes, 12)
    plots: dict[str, tuple[Callable[..., Any], float, float]] = {
        f"confusion_{_file_name(annotator, number)}": (partial(posterior.plot_confusion, annotator), side, side)
        for number, annotator in enumerate(posterior.data.annotators, 1)
    }
    height = min(max(1.2 + 0.3 * posterior.data.n_annotators, 2.4), 9.0)
    plots["annotators"] = (posterior.plot_annotators, 6.4, height)
    plots["item_entropies"] = (posterior.plot_items, 6.4, 3.6)
    plots["trace"] = (posterior.plot_trace, 6.4, 3.6)
    with new_files(folder) as new:
        for name, (plot, width, height) in plots.items():
            figure = Figure(figsize=(width, height), layout="constrained")
            plot(ax=figure.subplots())
            figure.savefig(new / f"{name}.png", dpi=150)
    return [f"{name}.png" for name in plots]


def _file_name(annotator: Any, number: int) -> str:
    """An id for a file name: itself if it is ASCII letters, digits, - and _, else its number."""
    text = str(annotator)
    return text if re.fullmatch(r"[A-Za-z0-9_-]+", text) else f"annotator_{number}"


def _as_json(value: Any) -> Any:
    """A value that JSON can hold: arrays as lists, non-finite numbers as null, other types as text."""
    if isinstance(value, Mapping):
        return {str(key): _as_json(part) for key, part in value.items()}
    if isinstance(value, list | tuple | set | pd.Index):
        return [_as_json(part) for part in value]
    if isinstance(value, np.ndarray | np.generic):
        return _as_json(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def run_demo(folder: Path, seed: int = 0, *, overwrite: bool = False) -> Posterior:
    """Fits the anaesthetists, prints tables and writes them with pictures; replaces an earlier demonstration."""
    require_room(folder, overwrite or run_record(folder).get("answers") == DEMO)
    data = anaesthetists()
    began = time.perf_counter()
    posterior = fit("bayesian_dawid_skene", data, seed=seed)
    write_result(posterior, folder, {"answers": DEMO}, {"fit": time.perf_counter() - began})
    pictures = write_pictures(posterior, folder / "pictures")
    print(f"{data.n_annotators} anaesthetists on the fitness of {data.n_items} patients (Dawid & Skene, 1979)")
    print(f"{posterior.method} by {posterior.inference}, default settings, seed {seed}")
    _show(
        "Probability of each class for each patient",
        posterior.to_arrow().drop_columns("tied").to_pandas().set_index("item"),
    )
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
