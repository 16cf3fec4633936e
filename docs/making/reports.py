"""Reports of the site: one of each kind of labels, on the scenes of docs/kinds."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import crowdppl
from docs.making.scenes import annotations, scene

REPORTS: Mapping[str, tuple[str, str]] = {
    "classes": ("hierarchical_dawid_skene", "what tickets of customers are about"),
    "grades": ("rater_facets", "essays with grades from 1 to 5"),
    "ratings": ("gaussian_annotators", "quality of video clips from 0 to 100"),
    "comparisons": ("crowd_bt", "which of two coffees tastes better"),
    "rankings": ("plackett_luce", "ballots about films"),
    "spans": ("hmm_crowd", "names in sentences"),
    "sets": ("bayesian_dawid_skene", "all that photos show"),
    "judges": ("judge_panel", "six language models, answers safe or not"),
}
"""The method, and what the file is about, by page of docs/kinds."""


@cache
def files() -> dict[str, bytes]:
    """The pages, the tables beside them and the files of answers, by path below "reports"."""
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore", crowdppl.errors.CrowdpplWarning)
        folder = Path(name)
        for page, (method, _) in REPORTS.items():
            given = scene(page)
            given.answers.to_csv(folder / f"{page}.csv", index=False)
            posterior = crowdppl.fit(method, annotations(page), inference="vb", seed=0)
            posterior.report(folder / f"{page}.html", given.gold, text=given.texts, source=f"{page}.csv")
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.*")}


def links(page: str, folder: str = "reports") -> str:
    """Links to the report of a page of docs/kinds and to its file."""
    return f"[A report]({folder}/{page}.html) on [a file like this]({folder}/{page}.csv): {REPORTS[page][1]}."


def cards() -> str:
    """Cards that lead to the reports."""
    parts = ["## One of each kind", "Their labels are simulated.", '<div class="grid cards" markdown>']
    for page, (method, about) in REPORTS.items():
        links = f"- **[{page.capitalize()}](reports/{page}.html)**\n\n    {about}"
        parts.append(f"{links}; by `{method}`, of [this file](reports/{page}.csv)")
    return "\n\n".join([*parts, "</div>"])
