"""Accuracy without the annotators who are found as spammers, beside the published figures."""

from pathlib import Path

import numpy as np
import pandas as pd

from crowdppl.criticism.spammers import covariance_spammers
from crowdppl.criticism.suspicious import suspicious_annotators
from crowdppl.evaluation.evaluate import matched
from crowdppl.evaluation.metrics import Scored
from crowdppl.fitting import fit
from crowdppl.posterior import Posterior
from tests.benchmarks.results import Recorder
from tests.benchmarks.tables import markdown, mean_and_error
from tests.benchmarks.test_accuracy import NINE, SETS, read

TITLE = "Without the annotators found as spammers"
ENGINES = {"majority_vote": "em", "bayesian_dawid_skene": "vb"}
JUDGE = "bayesian_dawid_skene"
"""The method by whose fit the information of an annotator's label is judged."""

PUBLISHED = {
    ("bluebirds", "majority_vote"): (75.9, 85.2, 22),
    ("bluebirds", "bayesian_dawid_skene"): (88.0, 89.9, 22),
    ("dogs", "majority_vote"): (81.7, 81.9, 12),
    ("dogs", "bayesian_dawid_skene"): (83.4, 83.4, 12),
    ("web", "majority_vote"): (77.6, 84.1, 158),
    ("web", "bayesian_dawid_skene"): (87.1, 91.0, 158),
}
"""Per cent before and after, and annotators left out; the EM of the source is plain Dawid-Skene."""

HEADER = (
    "set",
    "method",
    "before",
    "covariance finds",
    "without these",
    "information finds",
    "without these",
    "published, before",
    "published, after (found)",
)


def test_accuracy_without_spammers(recorder: Recorder, real_data: Path) -> None:
    rows, means = [], dict[str, list[list[float]]]()
    for name in NINE:
        data, gold = read(real_data, name)
        fits = {method: fit(method, data, inference=engine, seed=0) for method, engine in ENGINES.items()}
        found = [covariance_spammers(data), suspicious_annotators(fits[JUDGE])]
        who = [table.index[table["spammer"]] for table in found]
        for method, posterior in fits.items():
            hits = [hit(posterior, gold), *(hit(pruned(posterior, some), gold) for some in who)]
            means.setdefault(method, []).append([float(100 * x.mean()) for x in hits])
            rows.append([SETS[name], method, *cells(hits, who, data.n_annotators), *published(name, method)])
    for method, per_set in means.items():
        before, *after = np.mean(per_set, axis=0)
        shown = [f"{x:.2f} ({x - before:+.2f})" for x in after]
        rows.append(["mean", method, f"{before:.2f}", "", shown[0], "", shown[1], "", ""])
    recorder.add(TITLE, f"{EXPLAINED}\n\n{markdown(HEADER, rows)}")


EXPLAINED = (
    "Accuracy in per cent before and after `posterior.without(found)`, in brackets the change and its standard "
    "error over items. covariance: `covariance_spammers`, which always parts annotators into two groups, of which "
    "the weaker is left out here without a look. information: less than .05 bits a label in "
    f"`suspicious_annotators`, judged by {JUDGE}. All items are scored, those that lose all their labels too. "
    f"{JUDGE} by vb, majority_vote by em, seed 0. Published: spammers found by covariance, from the ICASSP 2025 "
    "tutorial of Ibrahim, Traganitis, Fu & Giannakis; their Dawid-Skene by EM stands beside "
    f"{JUDGE}. Where majority vote differs before anyone is left out, they have another copy of the set or "
    "another rule for ties."
)


def hit(posterior: Posterior, gold: pd.Series) -> np.ndarray:
    """How far each item with a known truth is called by it; ties are split."""
    p, truth, _, _ = matched(posterior, gold)
    return Scored(p, truth).right


def pruned(posterior: Posterior, who: pd.Index) -> Posterior:
    """The fit without some annotators, or the same where there are none."""
    return posterior.without(who) if len(who) else posterior


def cells(hits: list[np.ndarray], who: list[pd.Index], annotators: int) -> list[str]:
    """Before, and for each way of finding spammers how many it finds and what comes after."""
    before, *after = hits
    out = [f"{100 * before.mean():.2f}"]
    for some, now in zip(who, after, strict=True):
        change = 100 * (now - before)
        shown = f"{100 * now.mean():.2f} ({mean_and_error(change, 2, signed=True)})"
        out += [f"{len(some)} of {annotators}", shown if len(some) else "-"]
    return out


def published(name: str, method: str) -> tuple[str, str]:
    """The published figures of a set, or dashes."""
    if (name, method) not in PUBLISHED:
        return "-", "-"
    before, after, found = PUBLISHED[name, method]
    return f"{before:.1f}", f"{after:.1f} ({found})"
