"""Fits that processes share: the same numbers as of one process, and one error for all."""

import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyro
import pytest
import torch
from pyro.distributions import Dirichlet
from torch import distributed as dist

import crowdppl
import crowdppl.primitives as cp
from crowdppl.core.collective import all_reduced, reduced, together
from crowdppl.data.annotations import Annotations
from crowdppl.data.ids import Codebook
from crowdppl.errors import CrowdpplError
from crowdppl.inference.result import NumberTruth
from tests.inference.shared import by_processes, share_of

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
Fits = list[tuple[str, str, dict[str, Any]]]
"""Method, engine and options; labels are of the kind that the method takes."""
CHAINS = {"chains": 3, "draws": 8, "warmup": 8}
FITS: Fits = [
    ("dawid_skene", "em", {"restarts": 2}),
    ("bayesian_dawid_skene", "vb", {}),
    ("bayesian_dawid_skene", "gibbs", CHAINS),
]
MORE: Fits = [
    ("hierarchical_dawid_skene", "vb", {"max_iterations": 4}),
    ("community", "vb", {"max_iterations": 4}),
    ("class_coin", "laplace", {"draws": 20}),
    ("class_coin", "pathfinder", {"chains": 2, "draws": 10}),
    ("poisson_annotators", "em", {"max_iterations": 4}),
    ("dawid_skene", "svi", {"max_iterations": 10}),
]
SEARCHES: Fits = [("ordinal", "em", {"max_iterations": 8})]
"""Along gradients: an objective that is the same to the last bit tells its place to the root of that."""


def frame(items: int = 150, annotators: int = 8, classes: int = 3) -> pd.DataFrame:
    """Three labels of each item."""
    rng = np.random.default_rng(0)
    truth, item = rng.integers(classes, size=items), np.repeat(np.arange(items), 3)
    who = np.concatenate([rng.choice(annotators, 3, replace=False) for _ in range(items)])
    right = rng.random(len(item)) < rng.uniform(0.5, 0.95, annotators)[who]
    label = np.where(right, truth[item], rng.integers(classes, size=len(item)))
    return pd.DataFrame({"item": item, "annotator": who, "label": label})


def numbers_of(posterior: crowdppl.Posterior) -> dict[str, Any]:
    """What a fit tells of items, and of all else."""
    told = posterior.diagnostics()
    sites, truth = {name: site.mean for name, site in posterior.result.sites.items()}, posterior.result.truth
    told_of_items = truth.mean if isinstance(truth, NumberTruth) else truth.probabilities
    items = dict(zip(posterior.data.items, told_of_items, strict=True))
    return {"items": items, "sites": sites, **{n: told[n] for n in ("iterations", "objective")}}


def fitted(process: int, processes: int, fits: Fits) -> list[dict[str, Any]]:
    kinds = {method: crowdppl.method(method).card.kind for method, _, _ in fits}
    data = {kind: share_of(frame(), process, processes, kind=kind) for kind in {*kinds.values()}}
    how: Any = {"seed": 0}
    return [numbers_of(crowdppl.fit(m, data[kinds[m]], inference=e, **how, **own)) for m, e, own in fits]


def assert_same(
    fits: Fits, one: list[dict[str, Any]], several: list[list[dict[str, Any]]], within: float = 1e-9
) -> None:
    for (_, engine, _), alone, *each in zip(fits, one, *several, strict=True):
        how: Any = {"rtol": 0.0 if engine == "gibbs" else within, "atol": 0.0}
        assert [x["iterations"] for x in each] == [alone["iterations"]] * len(each)
        np.testing.assert_allclose([x["objective"] for x in each], alone["objective"], rtol=1e-9)
        for name, x in alone["sites"].items():
            assert all((found["sites"][name] == each[0]["sites"][name]).all() for found in each)
            np.testing.assert_allclose(each[0]["sites"][name], x, **how)
        items = {n: p for found in each for n, p in found["items"].items()}
        assert items.keys() == alone["items"].keys()
        told = [items[n] for n in alone["items"]]
        np.testing.assert_allclose(told, [*alone["items"].values()], rtol=0, atol=within)


def _at(process: int, error: BaseException) -> Callable[[int, float], None]:
    """A callback that fails in a process, at its third iteration."""

    def callback(t: int, _: float) -> None:
        if t == 2 and dist.get_rank() == process:
            raise error

    return callback


def _ctrl_c(t: int, _: float) -> None:
    if t == 1 and dist.get_rank() == 1:
        signal.raise_signal(signal.SIGINT)


def _told(call: Callable[[], Any]) -> str:
    """The error of a call."""
    try:
        call()
    except (CrowdpplError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


class Reads:
    """A method of one's own that does not say what its setup reads."""

    def setup(self, data: Any) -> Any:
        return self

    def model(self, data: cp.Block) -> None:
        table = torch.eye(data.n_classes).add(1.0).log().log_softmax(-1)
        with cp.plates.annotators(data):
            confusion = pyro.sample("confusion", Dirichlet(table.exp()).to_event(1))
        with cp.plates.items(data):
            truth = cp.truth(data, cp.prevalence(data, "uniform"))
            cp.annotate(data, confusion.log(), truth)


def minibatches(process: int, processes: int) -> dict[str, Any]:
    data = share_of(frame(), process, processes)
    return numbers_of(crowdppl.fit("dawid_skene", data, inference="svi", seed=0, batch_size=60, max_iterations=80))


def wrong(process: int, processes: int) -> dict[str, str]:
    """The errors of calls that cannot succeed, by name."""
    data, rows = share_of(frame(), process, processes), frame()
    whole, other = Annotations.from_frame(rows), share_of(rows.replace({"annotator": {7: 9}}), process, processes)

    def fit(method: str = "one_coin", given: Annotations = data, inference: str = "vb", **how: Any) -> Any:
        return crowdppl.fit(method, given, inference=inference, **how)

    posterior, strange = fit(), {"one": ValueError("a bad day"), "our own": CrowdpplError("a bad day")}
    calls: dict[str, Callable[[], Any]] = {
        "whole": lambda: fit(given=whole),
        "annotators": lambda: fit(given=(data, other)[process]),
        "settings": lambda: fit(settings={"right": 1.0 + process}),
        "options": lambda: fit(tolerance=1e-3 * (1 + process)),
        "start": lambda: fit(start={"prevalence": torch.tensor([0.2, 0.3, 0.5 + process])}),
        "only one": lambda: fit(given=data if process else None),  # type: ignore[arg-type]
        "auto": lambda: fit("auto"),
        "glad": lambda: fit("glad"),
        "covariates": lambda: fit("dependent_clusters"),
        "no items": lambda: fit(given=(data, replace(data, item_book=Codebook("item", pd.Index([]))))[process]),
        "batch_size": lambda: fit(batch_size=10),
        "score": lambda: crowdppl.evaluate(posterior, dict.fromkeys(data.items, 0)),
        "doubts": lambda: posterior.doubts(),
        "update": lambda: posterior.update(frame()),
        "agreement": lambda: crowdppl.agreement_table(data),
        "reads": lambda: fit(Reads()),  # type: ignore[arg-type]
        "one watches": lambda: fit(callback=None if process else lambda t, value: None),
        **{f"callback, {name}": lambda error=error: fit(callback=_at(1, error)) for name, error in strange.items()},
    }
    return {name: _told(call) for name, call in calls.items()}


def interrupted(process: int, processes: int) -> list[tuple[bool, int, float]]:
    """How fits ended in which one process met Ctrl-C, by a callback or by a signal."""
    data, found = share_of(frame(), process, processes), []
    for callback in (_at(1, KeyboardInterrupt()), _ctrl_c):
        told = crowdppl.fit("bayesian_dawid_skene", data, inference="vb", callback=callback).diagnostics()
        found.append((told["interrupted"], told["iterations"], told["objective"]))
    return found


def everything(process: int, processes: int) -> Any:
    with together():
        sums = all_reduced([np.full(2, process), 0.5, reduced(process == 1, "max")])
    own = (process, processes)
    return sums, fitted(*own, FITS), wrong(*own), interrupted(*own)


@pytest.fixture(scope="module")
def found() -> Iterator[Any]:
    """What each of two processes found."""
    yield [*zip(*by_processes(2, everything), strict=True)]


def test_sums_are_of_all_processes_in_the_type_given(found: Any) -> None:
    for whole, number, either in found[0]:
        assert whole.tolist() == [1, 1] and whole.dtype == np.int64
        assert number == 1.0 and either is True
    assert reduced(3) == 3 and all_reduced([1.5, True]) == [1.5, True]


def test_two_processes_find_what_one_finds(found: Any) -> None:
    assert_same(FITS, fitted(0, 1, FITS), found[1])


KINDS = ("nominal", "ordinal", "real", "count", "angle")
"""Of which an item has one id, so that parts can hold them."""
ALONG_GRADIENTS = {"hierarchical_mixed_membership": 1e-7, "ordinal": 1e-6, "gain_annotators": 1e-6}
"""A place that is searched for by gradients, or steps towards one, is known to the root of rounding at best."""


def whole_zoo(process: int, processes: int) -> dict[str, Any]:
    """What em and vb find in a few steps by each method, or the error."""
    found: dict[str, Any] = {}
    cards = {name: crowdppl.method(name).card for name in crowdppl.zoo(engines=False).index}
    shares = {kind: share_of(frame(60, 5), process, processes, kind=kind) for kind in KINDS}
    for name, engine in ((n, e) for n, card in cards.items() if card.kind in KINDS for e in ("em", "vb")):
        try:
            how: Any = {"inference": engine, "seed": 0, "max_iterations": 3}
            found[f"{name} by {engine}"] = numbers_of(crowdppl.fit(name, shares[cards[name].kind], **how))
        except CrowdpplError as error:
            found[f"{name} by {engine}"] = f"{type(error).__name__}: {error}"
    return found


@pytest.mark.slow
def test_each_method_finds_the_same_by_two_processes_or_is_refused_by_name() -> None:
    alone, (first, second) = whole_zoo(0, 1), by_processes(2, whole_zoo)
    fitted_by_two = [what for what, found in first.items() if not isinstance(found, str)]
    assert len(fitted_by_two) > 20
    for what, found in first.items():
        if isinstance(found, str):
            title = crowdppl.method(what.split()[0]).card.title
            assert found == alone[what] or f"processes cannot share a fit of {title}: " in found, (what, found)
            assert "process 1 of 2" not in found
            continue
        within = ALONG_GRADIENTS.get(what.split()[0], 1e-9)
        assert found["iterations"] == alone[what]["iterations"]
        for name, x in alone[what]["sites"].items():
            assert (found["sites"][name] == second[what]["sites"][name]).all()
            np.testing.assert_allclose(found["sites"][name], x, rtol=within, atol=within, err_msg=what)
        items = first[what]["items"] | second[what]["items"]
        for item, x in alone[what]["items"].items():
            np.testing.assert_allclose(items[item], x, rtol=within, atol=within, err_msg=what)


@pytest.mark.slow
def test_processes_share_minibatches() -> None:
    one, (first, other) = minibatches(0, 1), by_processes(2, minibatches)
    for name, x in one["sites"].items():
        assert (first["sites"][name] == other["sites"][name]).all()
        assert np.abs(first["sites"][name] - x).mean() < 0.15
    items = first["items"] | other["items"]
    assert np.mean([items[n].argmax() == p.argmax() for n, p in one["items"].items()]) > 0.85


@pytest.mark.slow
def test_three_processes_find_what_one_finds() -> None:
    fits, n = MORE + SEARCHES, len(SEARCHES)
    one, several = fitted(0, 1, fits), by_processes(3, fitted, fits)
    assert_same(fits[:-n], one[:-n], [found[:-n] for found in several])
    assert_same(SEARCHES, one[-n:], [found[-n:] for found in several], within=1e-6)


def test_what_processes_cannot_share_is_refused_by_name_in_all(found: Any) -> None:
    one, other = found[2]
    said = {
        "whole": "DataError: torch.distributed has a group of 2 processes",
        "annotators": "ProcessError: processes differ in the annotators",
        "settings": "ProcessError: processes differ in the method",
        "options": "ProcessError: processes differ in the method",
        "start": "ProcessError: processes differ in the start",
        "auto": "DataError: 'auto' would be of the items of process 0 of 2 alone",
        "glad": "MethodError: processes cannot share a fit of GLAD: difficulty has an entry an item",
        "covariates": "MethodError: processes cannot share a fit of Dependent clusters: its setup",
        "batch_size": "MethodError: processes cannot share batch_size=10 of vb",
        "score": "DataError: a score would be of the items of process 0",
        "doubts": "DataError: posterior.doubts would be of the items of process 0",
        "update": "DataError: posterior.update would be of the items of process 0",
        "reads": "MethodError: processes cannot share a fit of Reads: its setup may read labels",
        "agreement": "DataError: data would be of the items of process 0",
    }
    for name, text in said.items():
        assert one[name].startswith(text), (name, one[name])
        assert other[name].replace("process 1 of", "process 0 of") == one[name]


def test_an_error_in_one_process_is_raised_in_all(found: Any) -> None:
    one, other = found[2]
    assert other["callback, one"] == "ValueError: a bad day"
    assert one["callback, one"] == "ProcessError: process 1 of 2 failed: ValueError('a bad day')"
    assert other["callback, our own"] == "CrowdpplError: a bad day"
    assert one["callback, our own"] == "CrowdpplError: process 1 of 2 failed: a bad day"
    assert one["one watches"] == other["one watches"] == ""
    assert other["no items"].startswith("DataError: the process has no items")
    assert one["no items"].startswith("DataError: process 1 of 2 failed: the process has no items")
    assert one["only one"].startswith("DataError: data is a NoneType")
    assert other["only one"].startswith("DataError: process 0 of 2 failed: data is a NoneType")


def test_ctrl_c_in_one_process_stops_all_at_the_same_iteration(found: Any) -> None:
    one, other = found[3]
    assert one == other
    assert [x[:2] for x in one] == [(True, 3), (True, 2)]


def test_a_share_is_refused_where_there_is_no_group() -> None:
    with pytest.raises(CrowdpplError, match="share of process 0 of 2, and torch.distributed has a group of 1"):
        crowdppl.fit("one_coin", share_of(frame(), 0, 2), inference="em")
