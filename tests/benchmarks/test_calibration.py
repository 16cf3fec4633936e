"""Probabilities of the method "auto" on every set with known truths: as assumed of a shared bias, and without."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import minimize_scalar

from crowdppl.data.annotations import Annotations
from crowdppl.evaluation.evaluate import evaluate
from crowdppl.results.correction import corrected, softened
from crowdppl.results.decisions import label_sets
from tests.benchmarks.results import Recorder
from tests.benchmarks.tables import markdown
from tests.benchmarks.test_accuracy import NINE, read
from tests.benchmarks.test_automatic import automatic

TITLE = "Probabilities by auto and a bias that annotators share"
JUDGES = ("judgebench", "judges_10k_prompts", "judges_cebab_aspects", "judges_cebab_stars")
TEN = ("fact_eval_576", "cf_amt", "labelme", "adult2", "qa_mixed", "trivia", *JUDGES)
MORE = ("trec2010_binary", "cifar10n")
COVERAGE = 0.9
METHODS = ("votes", "before", "auto", "best")
HEADER = ("set", "annotators", "K", "vote shares + 1", "before", "auto", "T", "best T in sample", "90 % sets cover")
LEFT_OUT = ".440 / .080, .548 / .091 and .493 / .084"
"""Of fits to the other sets, of which each is left out in turn: measured once."""
ABOUT = (
    'Log score in nats / ECE of 15 bins, of `fit("auto", data)`, from labels alone, seed 0, beside vote '
    "shares + 1, the same before it is softened to p^(1/T) for a bias that annotators may share "
    "(`correction.temperature`), and the one temperature that would be best, seen with the truths of the set. "
    "Last, the share of 90 % label sets that hold the truth. The five numbers behind T "
    "(`crowdppl.evaluation.calibration.shared_bias`) were chosen by these sets. With three of them fitted to "
    "the other sets, each set left out in turn, the means of the first nine, the next ten and all 21 are "
    f"{LEFT_OUT}."
)


def test_auto_with_a_shared_bias(recorder: Recorder, real_data: Path) -> None:
    scores = {name: measured(*read(real_data, name), name) for name in (*NINE, *TEN, *MORE)}
    rows = [shown(name, row) for name, row in scores.items()]
    for title, names in (("mean of the first nine", NINE), ("mean of the next ten", TEN)):
        rows.append(shown(title, pd.DataFrame([scores[name] for name in names]).mean().to_dict()))
    recorder.add(TITLE, f"{ABOUT}\n\n{markdown(HEADER, rows)}")


def measured(data: Annotations, gold: pd.Series, name: str) -> dict[str, float]:
    posterior, _, seconds = automatic(data)
    own, correction = posterior.probabilities(), posterior.correction
    raw = {member: fit.result.probabilities for member, fit in posterior.members().items()}
    unsoftened = corrected(replace(correction, temperature=None), raw, data)
    before = pd.DataFrame(unsoftened, index=own.index, columns=own.columns)
    votes = pd.DataFrame(data.votes() + 1.0, index=data.items, columns=data.classes)
    best = best_temperature(before, gold)
    row: dict[str, float] = {
        "annotators": data.n_annotators,
        "K": data.n_classes,
        "T": correction.temperature,
        "best T": best,
    }
    tables = {
        "votes": votes.div(votes.sum(axis=1), axis=0),
        "before": before,
        "auto": own,
        "best": pd.DataFrame(softened(before.to_numpy(), best), index=own.index, columns=own.columns),
    }
    for method, table in tables.items():
        found = evaluate(table, gold)
        row |= {f"{method} log": found.log_score, f"{method} ece": found.ece}
    sets = label_sets(posterior, COVERAGE)["set"]
    row["cover"] = float(np.mean([truth in sets[item] for item, truth in gold.items()]))
    print(name, row, f"({seconds:.0f} s)", flush=True)
    return row


def best_temperature(probabilities: pd.DataFrame, gold: pd.Series) -> float:
    """The temperature of the best log score of known truths."""
    p = probabilities.loc[gold.index].to_numpy()
    at = np.arange(len(p)), probabilities.columns.get_indexer(gold)

    def loss(log_temperature: float) -> float:
        return -float(np.log(np.clip(softened(p, np.exp(log_temperature))[at], 1e-10, None)).mean())

    return float(np.exp(minimize_scalar(loss, bounds=(-1.0, 3.0), method="bounded").x))


def shown(name: str, row: Mapping[str, float]) -> list[str]:
    alone = name in (*NINE, *TEN, *MORE)
    pairs = {method: f"{row[f'{method} log']:.3f} / {row[f'{method} ece']:.3f}" for method in METHODS}
    sizes = [f"{row['annotators']:.0f}", f"{row['K']:.0f}"] if alone else ["", ""]
    chosen = f"{row['T']:.2f}" if alone else ""
    best = f"{pairs['best']} ({row['best T']:.2f})" if alone else pairs["best"]
    return [name, *sizes, pairs["votes"], pairs["before"], pairs["auto"], chosen, best, f"{row['cover']:.2f}"]
