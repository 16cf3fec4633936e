"""Probabilities of the method "auto" on real annotations, without known truths, beside the aims."""

import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from crowdppl.data.annotations import Annotations
from crowdppl.evaluation.calibration import calibrated
from crowdppl.evaluation.evaluate import evaluate
from crowdppl.fitting import fit
from crowdppl.fitting import members as automatic_members
from crowdppl.inference.result import Correction, Fit
from crowdppl.posterior import Posterior
from tests.benchmarks.results import Recorder
from tests.benchmarks.tables import markdown
from tests.benchmarks.test_accuracy import NINE, SCORES, SETS, read

BLIND, INFORMED = "Probabilities by auto", "Probabilities by auto with known truths"
AUTO, OWN, SMOOTHED = "auto", "auto, uncorrected", "vote shares + 1"
IBCC, DEFAULT = "variational IBCC (4, 1)", "variational IBCC, default prior"
GIVEN, SAME = "auto, truths given", "auto, none given"
BASE = "bayesian_dawid_skene"
"""The method that is variational IBCC by vb."""
AIMS = {
    BLIND: {"accuracy": 0.855, "log_score": 0.46, "brier": 0.23, "ece": 0.075},
    INFORMED: {"accuracy": 0.86, "log_score": 0.40, "brier": 0.21, "ece": 0.052},
}
"""Means over the nine sets: accuracy at least so high, the others at most."""
LOST = 0.01
"""Accuracy below variational IBCC from which on a set is named."""
HARMED = {"log_score": "Log score", "brier": "Brier", "ece": "ECE"}
"""Scores of probabilities on which a set is named."""
SEEN = 0.0005
"""A loss that the tables can show."""
GOLD = 50
"""Known truths that are given; a third of them where there are fewer than 150."""

BESIDE = (AUTO, OWN, IBCC, DEFAULT, SMOOTHED)
"""Rows of the tables without known truths."""

# Scores by method and set; of a set by name.
Table = dict[str, dict[str, dict[str, float]]]


def test_auto_on_real_annotations(recorder: Recorder, real_data: Path) -> None:
    blind: Table = {method: {} for method in BESIDE}
    done, took = {}, {}
    for name in NINE:
        data, gold = read(real_data, name)
        free, _, took[name] = automatic(data)
        done[SETS[name]] = free.correction
        for method, probabilities in rivals(data, free).items():
            blind[method][name] = scored(probabilities, gold)
        print(f"{name} {took[name]:.1f} s {blind[AUTO][name]}")
    parts = [ABOUT_BLIND, score_tables(blind, BLIND, took), named(blind), "What was done:", in_words(done)]
    recorder.add(BLIND, "\n\n".join(parts))


ABOUT_BLIND = (
    '`fit("auto", data)`, from labels alone, seed 0, beside `uncorrected()` of the same posterior, variational '
    f"IBCC (`{BASE}` by vb) and vote shares with one vote added to each class. IBCC with 4 pseudo-counts on the "
    "diagonal, 1 beside it and 1 a class is what the guard on accuracy is for; its default prior is the method's "
    "default. Log score in nats, ECE of 15 bins; all but accuracy are better when lower. The aims are for the mean."
)


def automatic(data: Annotations) -> tuple[Posterior, dict[str, Fit], float]:
    """What `fit("auto", data)` returns and does on the way: the fit, those that it averages, its CPU seconds."""
    began = time.process_time()
    members = automatic_members(data, {"seed": 0})
    posterior = Posterior.of(calibrated(members, data, biased=True))
    return posterior, members, time.process_time() - began


def rivals(data: Annotations, free: Posterior) -> dict[str, pd.DataFrame]:
    """Probabilities by method: those of "auto" and what they are compared with."""
    default = fit(BASE, data, inference="vb", seed=0)
    plain = fit(BASE, data, inference="vb", seed=0, settings=four_to_one(data.n_classes))
    votes = data.votes() + 1
    shares = pd.DataFrame(votes / votes.sum(1, keepdims=True), index=data.items, columns=data.classes)
    return {
        AUTO: free.probabilities(),
        OWN: free.uncorrected().probabilities(),
        IBCC: plain.probabilities(),
        DEFAULT: default.probabilities(),
        SMOOTHED: shares,
    }


def four_to_one(n_classes: int) -> dict[str, float]:
    """Settings of a prior with 4 pseudo-counts on the diagonal and 1 beside it, and 1 for each class."""
    strength = n_classes + 3.0
    return {"prior_strength": strength, "prior_accuracy": 4 / strength, "prevalence_strength": 1.0}


def scored(probabilities: pd.DataFrame, gold: pd.Series) -> dict[str, float]:
    scores = evaluate(probabilities, gold)
    return {key: scores[key] for key in SCORES}


def split(gold: pd.Series, seed: int, size: int = GOLD) -> tuple[pd.Series, pd.Series]:
    """Truths that are given, drawn at random, and the others."""
    order = np.random.default_rng(seed).permutation(len(gold))
    n = min(size, len(gold) // 3)
    return gold.iloc[order[:n]], gold.iloc[order[n:]]


def in_words(done: Mapping[str, Correction]) -> str:
    """What corrections say of themselves by set, and once what all of them say."""
    shared = [note for note in next(iter(done.values())).notes if all(note in x.notes for x in done.values())]
    lines = []
    for name, correction in done.items():
        own = [note for note in correction.notes if note not in shared]
        lines.append(f"- {name}: {'; '.join([str(correction), *own])}")
    return "\n".join([*lines, *(f"- all: {note}" for note in shared)])


def score_tables(table: Table, title: str, took: Mapping[str, float]) -> str:
    """A table for each score, methods x sets with the mean and the aim (if there is one), then CPU seconds."""
    names, shown_as = list(took), [SETS.get(name, name) for name in took]
    aimed, parts = title in AIMS, []
    for key, shown in SCORES.items():
        rows = []
        for method, by_set in table.items():
            values = [by_set[name][key] for name in names]
            row = [method, *(f"{x:.3f}" for x in (*values, np.mean(values)))]
            aim = verdict(title, key, float(np.mean(values))) if aimed and method in (AUTO, GIVEN) else "-"
            rows.append([*row, aim] if aimed else row)
        parts.append(markdown((shown, *shown_as, "mean", *(["aim"] if aimed else [])), rows))
    took_row = ["auto", *(f"{x:.1f}" for x in (*took.values(), np.mean(list(took.values()))))]
    parts.append(markdown(("CPU seconds", *shown_as, "mean"), [took_row]))
    return "\n\n".join(parts)


def verdict(title: str, key: str, mean: float) -> str:
    """The aim, and whether the mean reaches it."""
    aim = AIMS[title][key]
    met = mean >= aim if key == "accuracy" else mean <= aim
    return f"{'≥' if key == 'accuracy' else '≤'} {aim:g}, {'met' if met else 'missed'}"


def named(table: Table) -> str:
    """The sets on which "auto" does harm: to three scores of the probabilities it shows, and to accuracy."""
    lines = []
    for key, shown in HARMED.items():
        worse = {
            name: scores[key] - table[OWN][name][key]
            for name, scores in table[AUTO].items()
            if scores[key] >= table[OWN][name][key] + SEEN
        }
        lines.append(f"- {shown} worse than uncorrected: {listed(worse)}.")
    for rival in (IBCC, DEFAULT):
        lost = {
            name: table[rival][name]["accuracy"] - scores["accuracy"]
            for name, scores in table[AUTO].items()
            if table[rival][name]["accuracy"] - scores["accuracy"] > LOST
        }
        lines.append(f"- Accuracy more than {LOST:g} below {rival}: {listed(lost)}.")
    return "\n".join(lines)


def listed(sets: Mapping[str, float]) -> str:
    """Sets, and by how much; or none."""
    return ", ".join(f"{SETS.get(name, name)} (by {by:.3f})" for name, by in sets.items()) or "none"
