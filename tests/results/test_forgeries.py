"""A forged archive is refused by name, or is a posterior like another: no foreign error, no death, no gigabytes."""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl.errors import CrowdpplError, ResultError
from crowdppl.inference.result import ClassProbabilities, OnDemand, TableDraws
from crowdppl.posterior import Posterior
from tests.results.forgery import Forger, rewritten

pytestmark = pytest.mark.filterwarnings("ignore")
MEMORY = 2**29
"""Bytes by which forgeries of small files may raise the largest memory of a process."""


def small() -> Posterior:
    """A fit of few labels, with all that annotations may have."""
    rows = {
        "item": [1, 1, 2, 2, 3, 3],
        "annotator": list("abbcca"),
        "label": list("xyyx?x"),
        "note": list("uvwxyz"),
    }
    data = crowdppl.Annotations.from_frame(
        pd.DataFrame(rows),
        abstentions=["?"],
        gold={1: "x"},
        history=np.ones((3, 2, 2)),
        item_covariates=pd.DataFrame({"long": [1.5]}, index=[3]),
    )
    found = crowdppl.fit("bayesian_dawid_skene", data, inference="vb", seed=0)
    found.annotators()  # files hold the draws that were asked for
    return found


def with_network() -> Posterior:
    truth = np.arange(60) % 3
    crowd = crowdppl.simulate_annotators(truth, {"hammer": 3, "spammer": 1}, features=np.eye(3)[truth], seed=0)
    return crowdppl.fit("bayes_dgc", crowd.data, inference="vb", settings={"training": {"epochs": 3}}, seed=0)


def updated() -> Posterior:
    new = pd.DataFrame({"item": [46, 46, 1], "annotator": ["1", "4", "2"], "label": [1, 2, 3]})
    return fitted("bayesian_dawid_skene", "vb").update(new)


def fitted(method: str, inference: str, **options: Any) -> Posterior:
    return crowdppl.fit(method, crowdppl.anaesthetists(), inference=inference, seed=0, **options)


FITS: dict[str, Callable[[], Posterior]] = {
    "small": small,
    "auto": lambda: fitted("auto", "auto"),
    "gibbs": lambda: fitted("bayesian_dawid_skene", "gibbs", draws=20, warmup=5),
    "points": lambda: fitted("glad", "em"),
    "network": with_network,
    "updated": updated,
}


def use(found: Posterior) -> None:
    """What users ask of a result: its summary asks for tables and doubts."""
    found.summary()
    found.truth()
    found.confusion()
    found.predict(found.data.frame())


def tried(good: Path, folder: Path, n: int, asked: Callable[[Posterior], object]) -> Counter[bool]:
    """How many of n forgeries were refused by name, and how many taken; any other error is raised."""
    forger, found = Forger(good, np.random.default_rng(0)), Counter[bool]()
    for _ in range(n):
        said = forger.forge(folder)
        try:
            posterior = crowdppl.load(folder)
        except CrowdpplError:
            found[True] += 1
            continue
        except BaseException as error:
            raise AssertionError(said) from error
        asked(posterior)
        found[False] += 1
    return found


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "good"
    small().save(folder)
    return folder


def test_a_hundred_forgeries(good: Path, tmp_path: Path) -> None:
    found = tried(good, tmp_path / "forged", 100, Posterior.labels)
    assert found[True] > found[False] > 0


@pytest.mark.slow
def test_forgeries_of_fits_of_every_kind(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = Counter[bool]()
    for name, make in FITS.items():
        make().save(tmp_path / name)
        found += tried(tmp_path / name, tmp_path / "forged", 60, use)
    assert found[True] > found[False] > 0
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < MEMORY


@pytest.mark.slow
def test_members_may_have_as_many_draws_as_they_like(tmp_path: Path) -> None:
    found = fitted("auto", "auto")
    assert found.correction is not None
    ((name, other),) = list(found.correction.others.items())[:1]
    assert other.result.tables is not None and other.result.tables.draws is not None
    drawn = other.result.tables.draws()
    few = replace(other.result.tables, draws=OnDemand.of(TableDraws(drawn.tables[:7], drawn.prevalence[:7])))
    others = {**found.correction.others, name: replace(other, result=replace(other.result, tables=few))}
    replace(found, correction=replace(found.correction, others=others)).save(tmp_path / "auto")
    pd.testing.assert_frame_equal(crowdppl.load(tmp_path / "auto").probabilities(), found.probabilities())


@pytest.mark.parametrize("column", ["item", "annotator", "answer"])
@pytest.mark.parametrize("code", [-1, 3, 10**6, 2**31 - 1])
def test_codes_lie_in_their_codebooks(column: str, code: int, good: Path, tmp_path: Path) -> None:
    codes = np.array([0, 0, 1, 1, 2, 2], np.int32)
    codes[3] = code
    rewritten(good, tmp_path / "forged", "labels", **{column: codes})
    with pytest.raises(ResultError, match=column):
        crowdppl.load(tmp_path / "forged")


def test_what_was_rounded_is_no_forgery(tmp_path: Path) -> None:
    found = small()
    assert isinstance(found.result.truth, ClassProbabilities) and found.result.truth.spread is not None
    spread = found.result.truth.spread()
    for faint, name in ((-1e-16, "rounded"), (-1e-3, "forged")):
        entropies = np.where(spread.entropies < spread.entropies.mean(), faint, spread.entropies)
        truth = replace(found.result.truth, spread=OnDemand.of(replace(spread, entropies=entropies)))
        replace(found, result=replace(found.result, truth=truth)).save(tmp_path / name)
    crowdppl.load(tmp_path / "rounded")
    with pytest.raises(ResultError, match="entropies"):
        crowdppl.load(tmp_path / "forged")


def test_truths_of_classes_have_tables(tmp_path: Path) -> None:
    found = small()
    replace(found, result=replace(found.result, tables=None)).save(tmp_path / "forged")
    with pytest.raises(ResultError, match="tables"):
        crowdppl.load(tmp_path / "forged")


def test_gold_lies_among_the_classes(good: Path, tmp_path: Path) -> None:
    rewritten(good, tmp_path / "forged", "items", gold=np.array([99, -1, -1], np.int16))
    with pytest.raises(ResultError, match="gold"):
        crowdppl.load(tmp_path / "forged")
