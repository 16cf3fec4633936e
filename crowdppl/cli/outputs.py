"""What the command line leaves in a folder: tables, the posterior, a record of the run, pictures."""

from __future__ import annotations

import json
import math
import platform
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from crowdppl import __version__
from crowdppl.errors import ResultError
from crowdppl.posterior import Posterior
from crowdppl.primitives.model import settings_of
from crowdppl.results.archive import ARRAYS, TEXT, made_folder, spare_others

LABELS, ANNOTATORS, RUN = "labels.csv", "annotators.csv", "run.json"
FILES = f"{LABELS}, {ANNOTATORS}, {RUN} and the posterior"
WRITTEN = (LABELS, ANNOTATORS, RUN, TEXT, ARRAYS)
LIBRARIES = ("torch", "pyro-ppl", "numpy", "pandas")


def write_result(
    posterior: Posterior, folder: Path, about: Mapping[str, Any], timings: Mapping[str, float]
) -> None:
    """Writes labels.csv, annotators.csv, the posterior and run.json.

    Args:
        posterior: what the fit found.
        folder: where to.
        about: further entries of run.json, such as the file of answers.
        timings: seconds of what went before.
    """
    began = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    _write_table(label_table(posterior), folder / LABELS)
    _write_table(posterior.annotators(), folder / ANNOTATORS)
    posterior.save(folder)
    seconds = {**timings, "write": time.perf_counter() - began}
    text = json.dumps(_plain(record(posterior, about, seconds)), indent=2, ensure_ascii=False, allow_nan=False)
    (folder / RUN).write_text(text + "\n", encoding="utf-8", errors="surrogatepass")


def require_room(folder: Path, overwrite: bool, sources: Sequence[Path | None] = ()) -> None:
    """Makes the folder of a result, unless something there would be lost; called before long work.

    Args:
        folder: where ``write_result`` is to write.
        overwrite: whether a result that is there may be replaced.
        sources: files that are read, and never written over.

    Raises:
        ResultError: when a result is there, files that only bear the names of its parts are, a source does, or the
            path is that of a file.
    """
    made_folder(folder)
    for name in WRITTEN:
        _spare(folder / name, sources, "folder")
    there = [name for name in WRITTEN if (folder / name).exists()]
    if there and not overwrite:
        raise ResultError(
            f"{folder} holds a result already ({', '.join(there)}); give another folder, or say overwrite=True"
        )
    tables = [name for name in there if name not in (TEXT, ARRAYS)]  # those say themselves whose they are
    if tables and "crowdppl" not in run_record(folder):
        raise ResultError(
            f"{folder / tables[0]} is there already, and no {RUN} says that crowdppl wrote it; give another "
            "folder, or move it away"
        )
    spare_others(folder)


def run_record(folder: Path) -> dict[str, Any]:
    """What run.json says of a result; empty where there is none that can be read."""
    try:
        found = json.loads((folder / RUN).read_text(encoding="utf-8", errors="surrogatepass"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def require_new(path: Path, overwrite: bool, sources: Sequence[Path | None] = ()) -> None:
    """Refuses a file that cannot be written, or is there already; called before long work.

    Args:
        path: where a table is to be written.
        overwrite: whether a file that is there may be replaced.
        sources: files that are read, and never written over.

    Raises:
        ResultError: with what to do.
    """
    if path.is_dir() or not path.parent.is_dir():
        wrong = "is a folder" if path.is_dir() else "lies in a folder that is not there"
        raise ResultError(f"{path} {wrong}; give the path of a file in a folder that there is")
    _spare(path, sources, "file")
    if path.exists() and not overwrite:
        raise ResultError(f"{path} is there already; give another file, or say overwrite=True")


def _spare(path: Path, sources: Sequence[Path | None], kind: str) -> None:
    """Refuses to write where a source is, by whatever path: links, too, and other capitals where they are alike."""
    for source in sources:
        if source is not None and path.exists() and source.exists() and path.samefile(source):
            raise ResultError(
                f"{source} is read here, and what is found would be written over it; give another {kind}"
            )


def label_table(posterior: Posterior) -> pd.DataFrame:
    """The labels with the probability of every class in a column ``p(class)``."""
    p = posterior.probabilities()
    return posterior.labels().join(p.set_axis([f"p({name})" for name in p.columns], axis=1))


def record(posterior: Posterior, about: Mapping[str, Any], seconds: Mapping[str, float]) -> dict[str, Any]:
    """What run.json says: versions, settings, seed, timings, the data in numbers, the fit, warnings and doubts."""
    found = posterior.diagnostics()
    said = [str(warning) for warning in posterior.data.warnings] + list(found.pop("warnings", []))
    said += posterior.correction.notes if posterior.correction is not None else ()
    said += map(str, posterior.doubts())
    found.pop("objectives", None)  # long, and in the posterior
    return {
        "crowdppl": __version__,
        "python": platform.python_version(),
        "libraries": {name: _version(name) for name in LIBRARIES},
        **about,
        "method": posterior.method,
        "settings": settings_of(posterior.model),
        "inference": posterior.inference,
        "correction": None if posterior.correction is None else str(posterior.correction),
        "options": posterior.options,
        "seconds": dict(seconds),
        "data": posterior.data.summary(),
        "diagnostics": found,
        "warnings": said,
    }


def write_pictures(posterior: Posterior, folder: Path) -> list[str]:
    """Draws a confusion matrix an annotator, the annotators, the items and the trace; returns file names."""
    from matplotlib.figure import Figure  # not pyplot: no window system is touched

    folder.mkdir(parents=True, exist_ok=True)
    n_classes = posterior.data.n_classes
    side = 2.0 + 0.35 * min(n_classes, 12)
    written = []
    for number, annotator in enumerate(posterior.data.annotators, 1):
        figure = Figure(figsize=(side, side), layout="constrained")
        posterior.plot_confusion(annotator, ax=figure.subplots())
        written.append(f"confusion_{_file_name(annotator, number)}.png")
        figure.savefig(folder / written[-1], dpi=150)
    others: dict[str, tuple[Any, float]] = {
        "annotators": (posterior.plot_annotators, 1.2 + 0.3 * posterior.data.n_annotators),
        "item_entropies": (posterior.plot_items, 3.6),
        "trace": (posterior.plot_trace, 3.6),
    }
    for name, (plot, height) in others.items():
        figure = Figure(figsize=(6.4, min(max(height, 2.4), 9.0)), layout="constrained")
        plot(ax=figure.subplots())
        written.append(f"{name}.png")
        figure.savefig(folder / written[-1], dpi=150)
    return written


def _write_table(table: pd.DataFrame, path: Path) -> None:
    with path.open("w", encoding="utf-8", errors="surrogatepass", newline="") as file:
        table.to_csv(file, lineterminator="\n")


def _file_name(annotator: Any, number: int) -> str:
    """An id as a part of a file name: as it is where it is harmless, else its number."""
    text = str(annotator)
    return text if text.isascii() and text.replace("_", "").replace("-", "").isalnum() else f"annotator_{number}"


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _plain(value: Any) -> Any:
    """A value as JSON can say it: arrays as lists, what is not finite as null, anything unknown as its text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple | set | pd.Index):
        return [_plain(part) for part in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
