"""Every function of annotations and posteriors on every kind of labels: it works, or is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import pytest

import crowdppl
from crowdppl.data.kinds import KINDS
from crowdppl.errors import CrowdpplError, DataError
from crowdppl.posterior import Posterior

CASES = {kind: (kind, KINDS[kind].methods[-1]) for kind in KINDS} | {"facets": ("ordinal", "rater_facets")}
CASES["similarity"] = ("similarity", "crowd_clustering")
CLASSES = {"nominal", "ordinal", "pair", "similarity", "sequence", "set"}
NUMBERS = {*CASES} - CLASSES
RANKED = {"pair", "ranking"}


@cache
def fitted(case: str) -> Posterior:
    """A short fit of the kind's usual method to its example."""
    kind, method = CASES[case]
    return crowdppl.fit(method, crowdppl.datasets.example(kind), inference="vb", seed=0)


@cache
def known(case: str) -> Any:
    """Truths as a user writes them: those that the fit found; of grades on a scale, grades."""
    posterior = fitted(case)
    if case == "facets":
        return pd.Series(2, posterior.data.items[:3])
    return posterior.labels()["label"] if case in CLASSES else posterior.truth()["estimate"]


def parts(posterior: Posterior) -> pd.DataFrame:
    """The columns that name items, of one item, or one problem."""
    frame = posterior.data.item_index.to_frame(index=False)
    return frame[frame["problem"] == frame["problem"][0]] if "problem" in frame else frame.head(1)


def further(posterior: Posterior) -> pd.DataFrame:
    """Labels that a newcomer gives to known items, or the ranking of a known problem."""
    labels = posterior.data.frame()
    if "problem" in labels:
        labels = labels[labels["problem"] == labels["problem"][0]]
        return labels[labels["annotator"] == labels["annotator"].iloc[0]].assign(annotator="newcomer")
    if posterior.data.kind == "ranking":
        one = labels[labels["item"].str.startswith(labels["item"][0].split(" | ")[0] + " |")]
        return one[one["annotator"] == one["annotator"].iloc[0]].assign(annotator="newcomer")
    return labels.head(3).assign(annotator="newcomer")


def saved(posterior: Posterior, folder: Path) -> None:
    posterior.save(folder / "fit")
    again = crowdppl.load(folder / "fit")
    pd.testing.assert_frame_equal(again.annotators(), posterior.annotators())


Of = Callable[[Posterior, Any, Path], Any]
FUNCTIONS: dict[str, tuple[set[str], Of]] = {
    "probabilities": (CLASSES, lambda p, gold, path: p.probabilities()),
    "labels": (CLASSES, lambda p, gold, path: p.labels()),
    "entropy": (CLASSES, lambda p, gold, path: p.entropy()),
    "truth": ({*CASES}, lambda p, gold, path: p.truth()),
    "to_arrow": ({*CASES}, lambda p, gold, path: p.to_arrow()),
    "to_parquet": ({*CASES}, lambda p, gold, path: p.to_parquet(path)),
    "separation": (NUMBERS, lambda p, gold, path: p.separation()),
    "annotators": ({*CASES}, lambda p, gold, path: p.annotators()),
    "confusion": (CLASSES, lambda p, gold, path: p.confusion()),
    "confusion_intervals": (CLASSES, lambda p, gold, path: p.confusion_intervals()),
    "prevalence": (CLASSES, lambda p, gold, path: p.prevalence()),
    "ranking": (RANKED, lambda p, gold, path: p.ranking()),
    "order_probabilities": (RANKED, lambda p, gold, path: p.order_probabilities()),
    "comparisons": ({"pair"}, lambda p, gold, path: p.comparisons()),
    "fair_averages": ({"facets"}, lambda p, gold, path: p.fair_averages()),
    "spans": ({"sequence"}, lambda p, gold, path: p.spans()),
    "masks": (set(), lambda p, gold, path: p.masks()),  # of labels that from_masks reads
    "sets": ({"set"}, lambda p, gold, path: p.sets()),
    "clusters": ({"similarity"}, lambda p, gold, path: p.clusters()),
    "decide": (CLASSES, lambda p, gold, path: p.decide()),
    "label_sets": (CLASSES, lambda p, gold, path: p.label_sets()),
    "suggest_labels": ({*CASES}, lambda p, gold, path: p.suggest_labels(2, exclude_answered=False)),
    "leave_one_out": ({*CASES} - {"ranking", "sequence"}, lambda p, gold, path: p.leave_one_out()),
    "predict": ({*CASES}, lambda p, gold, path: p.predict(p.data)),
    "predict without labels": ({*CASES}, lambda p, gold, path: p.predict(parts(p))),
    "update": ({*CASES}, lambda p, gold, path: p.update(further(p))),
    "without": ({*CASES}, lambda p, gold, path: p.without([p.data.annotators[0]])),
    "draw_labels": ({*CASES}, lambda p, gold, path: p.draw_labels()),
    "doubts": ({*CASES}, lambda p, gold, path: p.doubts()),
    "summary": ({*CASES}, lambda p, gold, path: p.summary()),
    "by": (CLASSES, lambda p, gold, path: p.by({x: n % 2 for n, x in enumerate(p.data.items)}).errors()),
    "panel": (CLASSES, lambda p, gold, path: p.panel().figures()),
    "plot_panel": (CLASSES | {"real"}, lambda p, gold, path: p.plot_panel()),
    "at_level": (set(), lambda p, gold, path: p.at_level(1)),  # of classes that are paths
    "to_arviz": ({*CASES}, lambda p, gold, path: p.to_arviz()),
    "report": ({*CASES}, lambda p, gold, path: p.report(path / "report.html")),
    "save": ({*CASES}, lambda p, gold, path: saved(p, path)),
    "plot_confusion": (CLASSES, lambda p, gold, path: p.plot_confusion()),
    "plot_annotators": ({*CASES}, lambda p, gold, path: p.plot_annotators()),
    "plot_annotators as ridges": ({*CASES}, lambda p, gold, path: p.plot_annotators(ridges=True)),
    "plot_items": ({*CASES}, lambda p, gold, path: p.plot_items()),
    "plot_items by class": (CLASSES, lambda p, gold, path: p.plot_items(show="classes")),
    "plot_item_map": ({*CASES} - {"ranking"}, lambda p, gold, path: p.plot_item_map()),
    "plot_estimates": (NUMBERS | {"pair"}, lambda p, gold, path: p.plot_estimates()),
    "plot_estimates as ridges": (NUMBERS | {"pair"}, lambda p, gold, path: p.plot_estimates(ridges=True)),
    "plot_order_probabilities": (RANKED, lambda p, gold, path: p.plot_order_probabilities()),
    "plot_raters": (
        {"real", "angle", "facets", "set", "similarity"},
        lambda p, gold, path: p.plot_raters(),
    ),
    "plot_drift": (set(), lambda p, gold, path: p.plot_drift()),  # of labels that have times
    "plot_labels": ({*CASES}, lambda p, gold, path: p.plot_labels()),
    "plot_votes": ({*CASES} - {"facets", "ranking"}, lambda p, gold, path: p.plot_votes()),
    "plot_certainty": ({*CASES}, lambda p, gold, path: p.plot_certainty()),
    "plot_spans": ({"sequence"}, lambda p, gold, path: p.plot_spans()),
    "plot_agreement_network": (CLASSES, lambda p, gold, path: p.plot_agreement_network()),
    "plot_reliability": ({*CASES} - {"facets"}, lambda p, gold, path: p.plot_reliability(gold)),
    "plot_risk_coverage": ({*CASES}, lambda p, gold, path: p.plot_risk_coverage()),
    "evaluate": ({*CASES} - {"facets"}, lambda p, gold, path: crowdppl.evaluate(p, gold, bootstrap=2)),
    "gold": ({*CASES}, lambda p, gold, path: p.data.with_gold(gold)),
    "agreement_table": ({*CASES}, lambda p, gold, path: crowdppl.agreement_table(p.data, bootstrap=2)),
    "agreement_items": ({*CASES}, lambda p, gold, path: crowdppl.agreement_items(p.data)),
    "agreement_pairs": ({*CASES}, lambda p, gold, path: crowdppl.agreement_pairs(p.data)),
    "agreement_classes": (
        CLASSES | {"facets"},
        lambda p, gold, path: crowdppl.agreement_classes(p.data, bootstrap=2),
    ),
    "intraclass_correlations": (
        {"nominal", "ordinal", "facets", "real", "count"},
        lambda p, gold, path: crowdppl.intraclass_correlations(p.data),
    ),
    "find_groups": (CLASSES | {"facets"}, lambda p, gold, path: crowdppl.find_groups(p.data)),
    "covariance_spammers": (CLASSES | {"facets"}, lambda p, gold, path: crowdppl.covariance_spammers(p.data)),
    "suspicious_annotators": (
        CLASSES | {"real", "count", "angle"},
        lambda p, gold, path: crowdppl.suspicious_annotators(p),
    ),
    "predictive_check": ({*CASES}, lambda p, gold, path: crowdppl.predictive_check(p, draws=20)),
}
"""By name: on which kinds it has a meaning, and the call, of a posterior, its truths and a folder."""
ELSEWHERE = {
    *("site", "members", "uncorrected", "diagnostics", "of", "classify", "plot_trace", "plot_ranks", "memory"),
    "correction",
}
"""What depends on the method or the engine alone."""


def test_no_function_of_posteriors_is_forgotten() -> None:
    names = {name for name in dir(Posterior) if not name.startswith("_")}
    assert names <= {*FUNCTIONS} | ELSEWHERE


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_function_works_or_is_refused_with_what_does(name: str, case: str, tmp_path: Path) -> None:
    works, call = FUNCTIONS[name]
    posterior = fitted(case)
    if case in works:
        call(posterior, known(case), tmp_path)
    else:
        with pytest.raises(CrowdpplError) as refused:
            call(posterior, known(case), tmp_path)
        assert any(word in str(refused.value) for word in (";", "use ", "fit ")), "no remedy"
        assert "np." not in str(refused.value)
    plt.close("all")


TABLES = {
    "real": ("truth: 45 numbers, mean ", "bias"),
    "angle": ("truth: 6 numbers, mean ", "concentration"),
    "facets": ("fair averages", "severity"),
    "pair": ("ranking, the best first", "wins  losses  ties"),
    "ranking": ("ranking, the best first", "wins  losses  ties"),
    "sequence": ("spans", "first  last  type"),
    "set": ("sets", "f1"),
    "similarity": ("clusters", "probability"),
}


@pytest.mark.parametrize("case", TABLES)
def test_a_summary_answers_the_question_of_the_kind(case: str) -> None:
    text = fitted(case).summary()
    for words in TABLES[case]:
        assert words in text
    assert ("prevalence" in text) == (case in CLASSES - RANKED)


@pytest.mark.parametrize("kind", ["pair", "ranking"])
def test_wins_losses_and_ties_are_those_of_labels(kind: str) -> None:
    if kind == "pair":
        rows = [("a", "b", "left"), ("b", "a", "left"), ("c", "a", "tie"), ("b", "a", "right"), ("b", "c", "?")]
        table = pd.DataFrame(rows, columns=["left", "right", "label"]).assign(annotator=[*"xyxxx"])
        data = crowdppl.Annotations.from_frame(table, kind="pair", abstentions=["?"])
        wanted = {"a": (2, 1, 1), "b": (1, 2, 0), "c": (0, 0, 1)}
    else:
        rows = [("p", "x", "a > b = c"), ("p", "y", "b > a > c"), ("q", "x", "c > a"), ("p", "z", "b = a")]
        table = pd.DataFrame(rows, columns=["problem", "annotator", "label"])
        data = crowdppl.Annotations.from_frame(table, kind="ranking")
        wanted = {"a": (3, 2, 1), "b": (2, 1, 2), "c": (1, 3, 1)}
    found = crowdppl.fit(KINDS[kind].methods[-1], data, inference="em", seed=0).ranking()
    counted = found.sort_index()[["wins", "losses", "ties"]]
    assert {name: tuple(row) for name, row in zip(counted.index, counted.to_numpy(), strict=True)} == wanted


def test_one_object_of_a_new_problem_has_no_rank_to_predict() -> None:
    posterior = fitted("ranking")
    with pytest.raises(DataError, match="of problem 'new', 'fig' is named alone"):
        posterior.predict(pd.DataFrame({"problem": ["new"], "object": ["fig"]}))
