"""Public functions and methods of a posterior that are handed the wrong thing say so, by name."""

import inspect
import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch

import crowdppl
from crowdppl.errors import CrowdpplError, DataError, MethodError
from crowdppl.inference.options import FitOptions
from crowdppl.posterior import Posterior

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

FRAME = pd.DataFrame({"item": [1, 1, 2], "annotator": list("aba"), "label": [0, 1, 0]})
WRONG: dict[str, Any] = {"frame": FRAME, "None": None, "text": "abc", "dict": {"a": 1}, "number": 3}
ODD: dict[str, Any] = {
    "nan": float("nan"),
    "infinite": float("inf"),
    "negative": -1,
    "empty": [],
    "no rows": FRAME.iloc[:0],
    "twice": ["a", "a"],
    "columns twice": pd.DataFrame([[1, 2]], columns=["item", "item"]),
    "bytes": b"a",
    "ragged": [[1], [2, 3]],
    "array": np.zeros((2, 2)),
}
OF_NUMPY: dict[str, Any] = {
    "whole number of numpy": np.int64(-1),
    "number of numpy": np.float32(-0.5),
    "text of numpy": np.str_("abc"),
    "switch of numpy": np.True_,
    "numbers of numpy": [np.int64(-7), np.float64(0.5)],
    "names of numpy": {np.str_("abc"): np.int64(-3)},
    "row": np.array([-1, 7]),
    "tensor": torch.tensor(-1.5),
}
AS_NUMPY_WRITES = re.compile(r"np\.|numpy|dtype\(|array\(|tensor\(")
"""Values as numpy and torch write them."""

WORDS = {"mean_field"}
"""Called inside models, not by users of a fit."""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some text is the name of a file, which is written."""
    monkeypatch.chdir(tmp_path)


@cache
def crowd() -> crowdppl.SimulatedCrowd:
    return crowdppl.simulate_annotators([0, 1, 2] * 10, {"hammer": 3, "spammer": 1}, seed=0)


@cache
def timed() -> Posterior:
    """A fit to labels that have times."""
    rows = crowd().data.frame()
    data = crowdppl.Annotations.from_frame(rows.assign(at=range(len(rows))), time="at")
    return crowdppl.fit("one_coin", data, inference="vb", seed=0)


@cache
def posterior(inference: str = "vb") -> Posterior:
    short: Any = {"chains": 2, "draws": 20, "warmup": 20} if inference == "gibbs" else {}
    return crowdppl.fit("one_coin", crowd().data, inference=inference, seed=0, **short)


@cache
def people() -> crowdppl.Annotations:
    items = [*range(40)] * 3
    labels = [n % 2 for n in range(40)] * 2 + [0] * 40
    return crowdppl.Annotations.from_arrays(items, ["a"] * 40 + ["b"] * 40 + ["c"] * 40, labels)


@cache
def tagged() -> crowdppl.Annotations:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "two.conll"
        path.write_text("Ann B-PER B-PER\nLee I-PER I-PER\nsang O O\n")
        return crowdppl.read_annotations(path, kind="sequence")


@cache
def scores() -> Mapping[str, crowdppl.HeldoutScore]:
    return crowdppl.compare(["one_coin", "majority_vote"], crowd().data, folds=2, inference="em", seed=0).scores


def doors() -> dict[str, dict[str, Any]]:
    """Every function that users call, with arguments that it needs or that make it short."""
    data, fitted, gold = crowd().data, posterior(), crowd().truth
    folds = {"data": data, "folds": 2, "inference": "em"}
    return {
        "agreement_classes": {"data": data, "bootstrap": 5},
        "agreement_items": {"data": data},
        "agreement_pairs": {"data": data},
        "agreement_table": {"data": data, "bootstrap": 5},
        "intraclass_correlations": {"data": data},
        "alternative_annotator_test": {"people": people(), "model": {n: n % 2 for n in range(40)}, "bootstrap": 5},
        "anaesthetists": {},
        "annotator_map": {"posterior": fitted},
        "classifier_score": {"model": "one_coin", **folds},
        "compare": {"models": ["one_coin"], **folds},
        "convert": {"source": "nowhere.csv", "parts": "parts"},
        "covariance_spammers": {"data": data},
        "draw_items": {"quantity": "share", "proxy": fitted, "n": 5, "of": 1},
        "digits": {"annotators": {"hammer": 1}, "labels_per_item": 1},
        "estimate": {"quantity": "share", "people": gold, "proxy": fitted, "of": 1},
        "evaluate": {"posterior": fitted, "gold": gold, "bootstrap": 5},
        "fill": {"posterior": fitted, "draws": 2},
        "find_groups": {"data": data},
        "fit": {"method": "one_coin", "data": data, "inference": "em"},
        "heldout_score": {"model": "one_coin", **folds},
        "default_recipe": {"data": data},
        "default_training": {"data": data},
        "load": {"path": "nowhere"},
        "method": {"name": "one_coin"},
        "outlier_scores": {"posterior": fitted},
        "plot_annotator_map": {"posterior": fitted},
        "plot_reliability": {"posterior": fitted, "gold": gold},
        "plot_risk_coverage": {"posterior": fitted, "gold": gold},
        "plan_estimate": {
            "quantity": "share",
            "proxy": fitted,
            "of": 1,
            "width": 0.3,
            "studies": 10,
            "method": "ppi",
        },
        "plot_model": {"model": "one_coin"},
        "predictive_check": {"posterior": fitted, "draws": 20},
        "random_design": {"n_items": 4, "n_annotators": 3, "labels_per_item": 2, "classes": 2},
        "read_annotations": {"path": "nowhere.csv"},
        "read_annotator_covariates": {"path": "nowhere.csv"},
        "read_edges": {"path": "nowhere.csv"},
        "read_gold": {"path": "nowhere.csv"},
        "read_item_covariates": {"path": "nowhere.csv"},
        "register": {"name": "mine", "cls": None},
        "compare_to_default": {"scores": scores(), "default": "one_coin"},
        "simulate": {"model": crowdppl.method("one_coin"), "design": data},
        "simulate_annotators": {"truth": [0, 1, 1], "kinds": ["hammer"]},
        "suspicious_annotators": {"posterior": fitted},
        "thresholds": {"method": "one_coin", "data": crowdppl.datasets.example("ordinal"), "inference": "em"},
        "write_conll": {"data": tagged(), "path": "two.conll"},
        "write_spans": {"data": tagged(), "path": "spans.jsonl"},
        "zoo": {"engines": False},
    }


def functions() -> dict[str, Callable[..., Any]]:
    found = {name: getattr(crowdppl, name) for name in crowdppl.__all__}
    return {name: f for name, f in found.items() if inspect.isfunction(f)}


def named(function: Callable[..., Any]) -> list[str]:
    several = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return [name for name, p in inspect.signature(function).parameters.items() if p.kind not in several]


def call(function: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    alone = [n for n, p in inspect.signature(function).parameters.items() if p.kind is p.POSITIONAL_ONLY]
    try:
        return function(*(given[n] for n in alone), **{n: x for n, x in given.items() if n not in alone})
    finally:
        plt.close("all")


def says(error: CrowdpplError) -> str:
    """What an error says, in words of people."""
    assert str(error) and not AS_NUMPY_WRITES.search(str(error)), str(error)
    return str(error)


def bare(function: Callable[..., Any], given: Mapping[str, Any], wrong: Mapping[str, Any]) -> Iterator[str]:
    """What was raised that is no error of crowdppl's, for each argument and each wrong value."""
    for argument in named(function):
        for what, value in wrong.items():
            try:
                call(function, {**given, argument: value})
            except CrowdpplError as error:
                says(error)
            except Exception as error:
                yield f"{argument}={what}: {type(error).__name__}: {error}"


def test_every_public_function_is_tried() -> None:
    assert not set(doors()) & WORDS
    assert set(doors()) | WORDS == set(functions())


@pytest.mark.parametrize("name", sorted(set(functions()) - WORDS - {"digits", "zoo"}))
def test_wrong_kinds_are_refused_by_name(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert not list(bare(functions()[name], doors()[name], {**WRONG, **ODD, **OF_NUMPY}))


@pytest.mark.parametrize("option", sorted(FitOptions.__annotations__))
def test_odd_options_of_fit_are_refused_by_name(option: str) -> None:
    given = {"method": "one_coin", "data": crowd().data, "inference": "em"}
    for value in (*ODD.values(), *OF_NUMPY.values()):
        try:
            crowdppl.fit(**{**given, option: value})
        except CrowdpplError as error:
            assert option in says(error)


@pytest.mark.parametrize("name", sorted(n for n, f in functions().items() if "seed" in named(f)))
def test_a_seed_that_is_none_is_refused_at_every_door(name: str) -> None:
    for seed in (-1, 2**63, 1.0, None):
        with pytest.raises(MethodError, match="^seed="):
            call(functions()[name], {**doors()[name], "seed": seed})


def test_so_they_are_where_a_call_takes_seconds() -> None:
    for wrong in ({"labels_per_item": "a"}, {"density": FRAME}, {"test": "a"}, {"test": None}, {"seed": None}):
        with pytest.raises(CrowdpplError):
            crowdppl.digits(**wrong)
    with pytest.raises(CrowdpplError):
        crowdppl.zoo(engines="no")  # type: ignore[arg-type]


def test_a_posterior_is_no_annotations_nor_the_other_way_round() -> None:
    data: Any = crowd().data
    with pytest.raises(DataError, match="data is a Posterior; make annotations"):
        crowdppl.agreement_table(posterior())
    with pytest.raises(DataError, match=r"posterior is an Annotations; give what a fit returned"):
        crowdppl.suspicious_annotators(data)


def test_results_ask_for_what_they_are_compared_with() -> None:
    found = crowdppl.compare(["one_coin"], crowd().data, folds=2, inference="em")
    for members in (None, "abc", 3, FRAME, {"one_coin": crowd().data}, {"one_coin": None}, {}):
        with pytest.raises(CrowdpplError):
            found.probabilities(members)
    items = pd.DataFrame({"labels": [3], "log_p": [-1.0]})
    score = crowdppl.ClassifierScore("raykar", "em", items, items, 1.0)
    with pytest.raises(DataError, match="classifier_score"):
        score.ahead_of(items)


SHARES = ["annotators.level", "confusion_intervals.level", "prevalence.level", "truth.level", "label_sets.coverage"]
SHARES += ["plot_confusion.level", "plot_annotators.level", "plot_agreement_network.level", "plot_drift.level"]
COUNTS = ["suggest_labels.n", "suggest_labels.per_item", "draw_labels.n", "to_arviz.draws", "plot_ranks.bins"]
COUNTS += ["plot_reliability.bins"]
SEEDS = ["label_sets.seed", "suggest_labels.seed", "draw_labels.seed", "to_arviz.seed", "update.seed"]
SEEDS += ["plot_agreement_network.seed", "plot_certainty.seed"]
SWITCHES = ["confusion.draws", "probabilities.sd", "suggest_labels.exclude_answered", "to_arviz.log_likelihood"]
SWITCHES += ["plot_annotators.ridges"]
NUMERIC: list[tuple[list[str], Any, list[Any]]] = [
    (SHARES, np.float16(0.5), ["0.5", True, float("nan"), -0.5, 0, 1, [0.5], FRAME]),
    (COUNTS, np.int8(3), ["3", True, -1, 0, 3.0, [3], None, FRAME]),
    (SEEDS, np.uint64(3), ["3", True, -1, 2**63, 2.0, None, FRAME]),
    (SWITCHES, np.True_, ["yes", 1, 0, None, FRAME]),
]


def ask(method: str, argument: str, value: Any) -> Any:
    """A method of a posterior, with one argument and those that it cannot do without."""
    new = pd.DataFrame({"item": [100], "annotator": [crowd().data.annotators[0]], "label": [1]})
    needed: dict[str, dict[str, Any]] = {
        "suggest_labels": {"n": 2, "exclude_answered": False},
        "update": {"new_labels": new},
        "predict": {"new_data": new},
        "without": {"annotators": [crowd().data.annotators[0]]},
        "plot_reliability": {"gold": crowd().truth},
        "plot_risk_coverage": {"gold": crowd().truth},
        "to_arviz": {"draws": 5},
        "site": {"name": "ability"},
        "report": {"path": Path(gettempdir()) / f"crowdppl-{os.getpid()}" / "report.html"},
    }
    fitted = timed() if method == "plot_drift" else posterior("gibbs" if method == "plot_ranks" else "vb")
    try:
        return getattr(fitted, method)(**{**needed.get(method, {}), argument: value})
    finally:
        plt.close("all")


@pytest.mark.parametrize(("place", "good", "bad"), [(p, good, bad) for ps, good, bad in NUMERIC for p in ps])
def test_numbers_are_taken_or_refused_by_name(place: str, good: Any, bad: list[Any]) -> None:
    method, _, argument = place.partition(".")
    ask(method, argument, good)
    for value in bad:
        with pytest.raises(CrowdpplError, match=rf"{argument}="):
            ask(method, argument, value)


@pytest.mark.parametrize(
    "method", sorted(n for n, f in vars(Posterior).items() if inspect.isfunction(f) and n[0] != "_")
)
def test_methods_of_a_posterior_refuse_wrong_kinds_by_name(method: str) -> None:
    found = []
    for argument in named(getattr(Posterior, method))[1:]:
        if argument == "path":  # any text is one
            continue
        for what, value in {**WRONG, **ODD, **OF_NUMPY}.items():
            try:
                ask(method, argument, value)
            except CrowdpplError as error:
                says(error)
            except Exception as error:
                found.append(f"{argument}={what}: {type(error).__name__}: {error}")
    assert not found
