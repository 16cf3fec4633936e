"""Sequences, comparisons and rankings on real annotations."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import kendalltau

from crowdppl.data.annotations import Annotations
from crowdppl.evaluation.evaluate import evaluate
from crowdppl.fitting import fit
from tests.benchmarks.results import SEQUENCES_AND_ORDERS, Recorder
from tests.benchmarks.tables import markdown

METHODS = ("majority_vote", "bayesian_dawid_skene", "hmm_crowd", "sequence_crowd")
ABOUT = (
    "Sequences, all sentences of ner (crowd-NER): precision, recall and F1 of spans, and accuracy of tokens, by vb "
    "with default settings and seed 0."
)
ABOUT_ORDERS = (
    "Orders, ranking_knowledge: mean over problems of Kendall's tau with the true order, by em (auto by vb) with "
    "default settings and seed 0; the same orders as pairs (crowd_bt) and as rankings (plackett_luce, and auto, "
    "which chooses the end from which people rank)."
)


def test_sequences_and_orders(recorder: Recorder, real_data: Path) -> None:
    parts = [f"{ABOUT}\n\n{span_table(real_data / 'ner')}"]
    parts += [f"{ABOUT_ORDERS}\n\n{order_table(real_data / 'ranking_knowledge')}"]
    recorder.add(SEQUENCES_AND_ORDERS, "\n\n".join(parts))


def span_table(folder: Path) -> str:
    tags = json.loads((folder / "META.json").read_text(encoding="utf-8"))["classes"]
    rows, gold = (pd.read_csv(folder / f"{name}.csv") for name in ("answers", "truth"))
    rows, gold = (table.assign(label=table["label"].map(dict(enumerate(tags)))) for table in (rows, gold))
    data = Annotations.from_frame(rows.drop(columns="item"), kind="sequence")
    known = gold.set_index(["sequence", "position"])["label"].to_dict()
    table = []
    for method in METHODS:
        x = evaluate(fit(method, data, inference="vb", seed=0), known, bootstrap=1)
        scores = (x.span_precision, x.span_recall, x.span_f1, x.accuracy)
        table.append([method, *(f"{score:.3f}" for score in scores)])
    return markdown(["method", "precision", "recall", "F1", "tokens"], table)


def order_table(folder: Path) -> str:
    rows = pd.read_csv(folder / "answers.csv").merge(pd.read_csv(folder / "items.csv"), on="item")
    rows["label"] = np.where(rows["label"] == 0, "left", "right")
    pairs = {name: own[["left", "right", "annotator", "label"]] for name, own in rows.groupby("problem")}
    tau: dict[str, list[float]] = {"crowd_bt": [], "plackett_luce": [], "auto": []}
    for name, own in pd.read_csv(folder / "rankings.csv").groupby("problem"):
        orders = [[*map(int, order.split())] for order in own["order"]]
        ranked = Annotations.from_arrays([name] * len(own), own["annotator"], orders, kind="ranking")
        compared = Annotations.from_frame(pairs[name], kind="pair")
        for method, data in {"crowd_bt": compared, "plackett_luce": ranked, "auto": ranked}.items():
            engine = "vb" if method == "auto" else "em"
            found = fit(method, data, inference=engine, seed=0).ranking()["rank"]
            tau[method].append(kendalltau(found.index.astype(int), found).statistic)
    return markdown(["method", "tau"], ([method, f"{np.mean(each):.3f}"] for method, each in tau.items()))
