"""`python -m docs.making.gallery`: pictures of docs/kinds, drawn by the code of its pages, and docs/gallery.md."""

from __future__ import annotations

import os
import re
import tempfile
import warnings
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

import crowdppl
from docs.making import scenes
from docs.making.scenes import SCENES, annotations, scene

DOCS = Path(__file__).resolve().parents[1]
DPI = 80

GALLERY: dict[str, dict[str, tuple[str, str]]] = {
    "Classes": {
        "Who is right how often": ("bayesian_dawid_skene, classes", "plot_annotators()"),
        "What is mixed up": ("bayesian_dawid_skene, classes", "plot_confusion()"),
        "Who is right about which class": ("bayesian_dawid_skene, sets", "plot_raters()"),
        "Who agrees more than expected": ("one_coin, colluders", "plot_agreement_network()"),
        "How many labels are settled": ("one_coin, colluders", "plot_items()"),
        "Which items need a look": ("one_coin, colluders", "plot_item_map()"),
        "All labels at a glance": ("bayesian_dawid_skene, classes", "plot_labels()"),
        "Votes before, labels after": ("one_coin, colluders", "plot_votes(gold)"),
        "How many labels are enough": ("one_coin, colluders", "plot_certainty()"),
        "What is known of each annotator": ("bayesian_dawid_skene, classes", "plot_annotators(ridges=True)"),
        "Settled and open, by class": ("bayesian_dawid_skene, classes", 'plot_items(show="classes")'),
        "Who tires": ("one_coin, shifts", "plot_drift()"),
    },
    "Numbers, grades, orders and spans": {
        "Bias and spread of raters": ("gaussian_annotators, ratings", "plot_raters()"),
        "A ruler for items, raters and grades": ("rater_facets, grades", "plot_raters()"),
        "Numbers with intervals": ("gaussian_annotators, ratings", 'plot_estimates(unit="points")'),
        "A leaderboard with tiers": ("crowd_bt, comparisons", "plot_estimates()"),
        "Who is better than whom": ("plackett_luce, rankings", "plot_order_probabilities()"),
        "Spans in their text": ("hmm_crowd, spans", "plot_spans(text=text)"),
        "Raters whose errors go together": ("gaussian_annotators, scores", "plot_panel()"),
    },
    "How far to trust it": {
        "As right as sure?": ("one_coin, colluders", "plot_reliability(gold)"),
        "How many labels can be kept": ("one_coin, colluders", "plot_risk_coverage(gold)"),
        "Do intervals hold the truth?": ("gaussian_annotators, ratings", "plot_reliability(gold)"),
        "Errors that judges share": ("judge_panel, judges", "plot_panel()"),
    },
}
"""The pictures: a method and data by title, and the call that draws it."""


def drawn(page: str, folder: Path) -> Any:
    """The axes that the code of a page of docs/kinds draws, run in a folder with the file that it reads."""
    text = (DOCS / "kinds" / f"{page}.md").read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0].strip().split("\n")
    given = scene(page)
    given.answers.to_csv(folder / "answers.csv", index=False)
    known = {"crowdppl": crowdppl, "features": given.features, "text": given.words}
    before = Path.cwd()
    os.chdir(folder)
    try:
        with warnings.catch_warnings(action="ignore", category=crowdppl.errors.CrowdpplWarning):
            exec("\n".join(code[:-1]), known)
            return eval(code[-1], known)
    finally:
        os.chdir(before)


def of_gallery(of: str, call: str) -> Any:
    """The axes of a picture of the gallery."""
    method, kind = of.split(", ")
    if kind in scenes.BESIDE:
        data, gold = scenes.BESIDE[kind](np.random.default_rng(0)), None
    elif kind == "colluders":
        truth = np.random.default_rng(0).integers(0, 3, 200).tolist()
        crowd = crowdppl.simulate_annotators(
            truth, {"expert": 2, "hammer": 6, "colluders": 1, "spammer": 2}, seed=0
        )
        data, gold = crowd.data, crowd.truth
    else:
        data, gold = annotations(kind), scene(kind).gold
    with warnings.catch_warnings(action="ignore", category=crowdppl.errors.CrowdpplWarning):
        posterior = crowdppl.fit(method, data, inference="vb", seed=0)
        text = scene(kind).words if kind in SCENES else {}
        return eval(f"posterior.{call}", {"posterior": posterior, "gold": gold, "text": text})


def store(axes: Any, path: Path) -> None:
    """Writes the figure of axes as PNG, and closes it."""
    from matplotlib import pyplot

    figure = np.ravel(np.array(axes, object))[0].figure
    figure.savefig(path, dpi=DPI, metadata={"Software": None})
    pyplot.close("all")


def gallery() -> str:
    """The page of the gallery."""
    parts = ["# Gallery", "Pictures that a posterior draws, each with the call that drew it. All take `ax=`."]
    for group, pictures in GALLERY.items():
        cards = [f"## {group}", '<div class="gallery" markdown>']
        for number, (title, (_, call)) in enumerate(pictures.items()):
            method = call.partition("(")[0]
            page = f"reference/posterior.md#{getattr(crowdppl.Posterior, method).__module__}.{method}"
            cards.append(
                f"<figure markdown>\n[![{title}](pictures/gallery/{method}-{number}.png)]({page})\n"
                f"<figcaption markdown>**{title}**<br>`posterior.{call}`</figcaption>\n</figure>"
            )
        parts += [*cards, "</div>"]
    return "\n\n".join(parts) + "\n"


def benchmarks(path: Path) -> None:
    """The picture of the benchmarks: log scores of methods from labels alone, and times beside crowd-kit."""
    import matplotlib.pyplot as plt

    from tests.benchmarks import advice, results

    found = results.sections(results.read())
    means = {row["method"]: float(row["log score"]) for row in advice.tables(found[advice.PROBABILITIES])[0]}
    auto = {next(iter(rows[0])): rows[0]["mean"] for rows in advice.tables(found[advice.BLIND])}
    means["auto"] = float(auto["log score"])
    names = sorted(means, key=lambda name: -means[name])
    axes = plt.subplots(figsize=(6.4, 0.24 * len(names) + 1.2), layout="constrained")[1]
    axes.plot([means[name] for name in names], range(len(names)), "o", color="#12568c")
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("log score on nine public sets, nats (to the left is better)")
    axes.grid(axis="x", color="0.9")
    store(axes, path)


def write() -> None:
    """Draws all pictures, and writes the page of the gallery."""
    matplotlib.use("Agg")
    pictures = DOCS / "pictures"
    for page in SCENES:
        with tempfile.TemporaryDirectory() as folder:
            store(drawn(page, Path(folder)), pictures / "kinds" / f"{page}.png")
    for group in GALLERY.values():
        for number, (of, call) in enumerate(group.values()):
            store(of_gallery(of, call), pictures / "gallery" / f"{call.partition('(')[0]}-{number}.png")
    benchmarks(pictures / "benchmarks.png")
    (DOCS / "gallery.md").write_text(gallery(), encoding="utf-8")


if __name__ == "__main__":
    write()
