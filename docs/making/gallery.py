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
import pandas as pd

import crowdppl
from crowdppl.data.annotations import Annotations

DOCS = Path(__file__).resolve().parents[1]
KINDS = {
    "classes": "nominal",
    "grades": "ordinal",
    "ratings": "real",
    "comparisons": "pair",
    "rankings": "ranking",
    "spans": "sequence",
    "sets": "set",
    "judges": "nominal",
    "features": "nominal",
}
"""The kind of labels of each page of docs/kinds."""
DPI = 80

GALLERY: dict[str, dict[str, tuple[str, str]]] = {
    "Classes": {
        "Who is right how often": ("bayesian_dawid_skene, nominal", "plot_annotators()"),
        "What is mixed up": ("bayesian_dawid_skene, nominal", "plot_confusion()"),
        "Who is right about which class": ("bayesian_dawid_skene, set", "plot_raters()"),
        "Who agrees more than expected": ("one_coin, colluders", "plot_agreement_network()"),
        "How many labels are settled": ("one_coin, colluders", "plot_items()"),
        "Which items need a look": ("one_coin, colluders", "plot_item_map()"),
        "All labels at a glance": ("bayesian_dawid_skene, nominal", "plot_labels()"),
        "Votes before, labels after": ("one_coin, colluders", "plot_votes(gold)"),
        "How many labels are enough": ("one_coin, colluders", "plot_certainty()"),
    },
    "Numbers, grades, orders and spans": {
        "Bias and spread of raters": ("gaussian_annotators, real", "plot_raters()"),
        "A ruler for items, raters and grades": ("rater_facets, ordinal", "plot_raters()"),
        "Numbers with intervals": ("gaussian_annotators, real", 'plot_estimates(unit="points")'),
        "A leaderboard with tiers": ("plackett_luce, ranking", "plot_estimates()"),
        "Who is better than whom": ("plackett_luce, ranking", "plot_order_probabilities()"),
        "Spans in their text": ("hmm_crowd, sequence", "plot_spans()"),
    },
    "How far to trust it": {
        "As right as sure?": ("one_coin, colluders", "plot_reliability(gold)"),
        "How many labels can be kept": ("one_coin, colluders", "plot_risk_coverage(gold)"),
        "Do intervals hold the truth?": ("gaussian_annotators, real", "plot_reliability(gold)"),
        "Errors that judges share": ("judge_panel, nominal", "plot_panel()"),
    },
}
"""The pictures: a method and data by title, and the call that draws it."""


def answers(data: Annotations) -> pd.DataFrame:
    """A table with one label a row, as it would lie in a file."""
    item, who, answer = data.label_codes()
    numbers = data.frame()["label"]
    frame = pd.DataFrame(data.item_columns(item) | {"annotator": data.annotators[who]})
    if "class" in frame:  # a row names the classes that are in the set
        named = data.answers[answer] == "yes"
        sets = frame.assign(name=frame["class"].where(named)).groupby(["item", "annotator"], sort=False)["name"]
        return sets.agg(lambda x: ";".join(x.dropna())).rename("label").reset_index()
    return frame.assign(**{"rank" if "problem" in frame else "label": numbers.to_numpy()})


def drawn(page: str, folder: Path) -> Any:
    """The axes that the code of a page of docs/kinds draws, run in a folder with the file that it reads."""
    text = (DOCS / "kinds" / f"{page}.md").read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0].strip().split("\n")
    data = crowdppl.datasets.example(KINDS[page])
    answers(data).to_csv(folder / "answers.csv", index=False)
    ids = sorted(data.items)
    known = {"crowdppl": crowdppl, "features": pd.DataFrame({"size": np.arange(len(ids)) % 7}, index=ids)}
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
    gold: Any = None
    if kind == "colluders":
        truth = np.random.default_rng(0).integers(0, 3, 200).tolist()
        crowd = crowdppl.simulate_annotators(
            truth, {"expert": 2, "hammer": 6, "colluders": 1, "spammer": 2}, seed=0
        )
        data, gold = crowd.data, crowd.truth
    else:
        data = crowdppl.datasets.example(kind)
    with warnings.catch_warnings(action="ignore", category=crowdppl.errors.CrowdpplWarning):
        posterior = crowdppl.fit(method, data, inference="vb", seed=0)
        if gold is None and kind == "real":
            gold = posterior.truth()["estimate"] + np.random.default_rng(0).normal(0, 0.3, data.n_items)
        return eval(f"posterior.{call}", {"posterior": posterior, "gold": gold})


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
    for page in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            store(drawn(page, Path(folder)), pictures / "kinds" / f"{page}.png")
    for group in GALLERY.values():
        for number, (of, call) in enumerate(group.values()):
            store(of_gallery(of, call), pictures / "gallery" / f"{call.partition('(')[0]}-{number}.png")
    benchmarks(pictures / "benchmarks.png")
    (DOCS / "gallery.md").write_text(gallery(), encoding="utf-8")


if __name__ == "__main__":
    write()
