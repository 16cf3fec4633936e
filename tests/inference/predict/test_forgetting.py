"""Updates that forget: counts of earlier labels are discounted, by hand and at both limits."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl import fit
from crowdppl.data.annotations import Annotations
from crowdppl.errors import MethodError
from crowdppl.posterior import Posterior

EXACT: dict[str, Any] = {"tolerance": 1e-12, "max_iterations": 3000}


def day(number: int, n: int = 12) -> pd.DataFrame:
    """Labels of one day's items, by three annotators who err more each day."""
    stream = np.random.default_rng(number)
    rows = [
        (f"{number}.{i}", who, i % 3 if stream.random() < 0.9 - 0.1 * number else int(stream.integers(3)))
        for i in range(n)
        for who in "xyz"
    ]
    return pd.DataFrame(rows, columns=["item", "annotator", "label"])


def known(*days: int) -> Annotations:
    """Days with known truths, so that counts are known."""
    table = pd.concat([day(n) for n in days])
    gold = {item: int(item.split(".")[1]) % 3 for item in table["item"]}
    return Annotations.from_frame(table, gold=gold, classes=[0, 1, 2])


def counts(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Of a day: labels by annotator, truth and label, and items by truth."""
    table = day(number)
    truth = table["item"].str.split(".").str[1].astype(int) % 3
    out = np.zeros((3, 3, 3))
    np.add.at(out, (table["annotator"].map({"x": 0, "y": 1, "z": 2}), truth, table["label"]), 1)
    return out, np.bincount(truth, minlength=3) / 3


def parameter(posterior: Posterior, site: str) -> np.ndarray:
    return posterior.result.sites[site].parameter


SETTINGS = {"prevalence_strength": 2.0}
PRIOR = np.full((3, 3), 4 * (1 - 2 / 3) / 2) + np.eye(3) * 4 * (2 / 3 - 1 / 6)


def first(name: str = "bayesian_dawid_skene", **more: Any) -> Posterior:
    settings = SETTINGS if name == "bayesian_dawid_skene" else {}
    return fit(name, known(0), inference="vb", settings=settings, **EXACT, **more)


def test_old_counts_are_discounted_as_by_hand() -> None:
    """Known truths make counts exact: prior + .5 * (.7 * day 0 + day 1) + day 2."""
    found = first().update(known(1), forget=0.3).update(known(2), forget=0.5)
    (rows, items) = zip(*map(counts, range(3)), strict=True)
    shares = np.array([0.5 * 0.7, 0.5, 1.0])
    np.testing.assert_allclose(parameter(found, "confusion"), PRIOR + np.tensordot(shares, rows, 1), atol=1e-6)
    np.testing.assert_allclose(parameter(found, "prevalence"), 2 + np.tensordot(shares, items, 1), atol=1e-6)


def test_history_is_forgotten_with_labels() -> None:
    told = Annotations.from_frame(day(0), gold=known(0).gold, history={"x": 10 * np.eye(3)})
    old = fit("bayesian_dawid_skene", told, inference="vb", settings=SETTINGS, **EXACT)
    found = old.update(known(1), forget=0.4)
    before, after = counts(0)[0], counts(1)[0]
    before[0] += 10 * np.eye(3)
    np.testing.assert_allclose(parameter(found, "confusion"), PRIOR + 0.6 * before + after, atol=1e-6)


@pytest.mark.parametrize(
    "name", ["bayesian_dawid_skene", "one_coin", "hierarchical_dawid_skene", "community", "glad"]
)
def test_nothing_forgotten_is_a_plain_update(name: str) -> None:
    old = fit(name, Annotations.from_frame(day(0)), inference="vb", seed=0, max_iterations=50)
    one, two = old.update(day(1)), old.update(day(1), forget=0.0)
    np.testing.assert_array_equal(one.probabilities(), two.probabilities())
    other = old.update(day(1), forget=0.5).probabilities()
    assert np.abs(other - one.probabilities()).to_numpy().max() > 1e-4


@pytest.mark.parametrize("name", ["bayesian_dawid_skene", "one_coin", "class_coin"])
def test_all_forgotten_is_a_fit_to_new_labels_alone(name: str) -> None:
    settings = SETTINGS if name == "bayesian_dawid_skene" else {}
    new = Annotations.from_frame(day(1), classes=[0, 1, 2])
    alone = fit(name, new, inference="vb", settings=settings, **EXACT)
    found = first(name).update(new, forget=1.0, **EXACT)
    np.testing.assert_allclose(found.probabilities(), alone.probabilities(), atol=1e-6)
    for site, stored in alone.result.sites.items():
        np.testing.assert_allclose(parameter(found, site), stored.parameter, atol=1e-5)


@pytest.mark.parametrize("back", [0, 1])
def test_what_is_left_of_returning_items_is_taken_out(back: int, tmp_path: Path) -> None:
    """Items of a day come again: the prevalence counts them once, and the other day at what is left of it."""
    found = first().update(known(1), forget=0.3)
    found.save(tmp_path)
    again = day(back)
    gold = {item: int(item.split(".")[1]) % 3 for item in again["item"]}
    new = Annotations.from_frame(again.assign(annotator="w"), gold=gold, classes=[0, 1, 2])
    items = [counts(n)[1] for n in range(2)]
    left = [0.5 * 0.7 * items[0], 0.5 * items[1]]
    want = 2 + items[back] + left[1 - back]
    for posterior in (found, crowdppl.load(tmp_path)):
        updated = posterior.update(new, forget=0.5)
        np.testing.assert_allclose(parameter(updated, "prevalence"), want, atol=1e-5)


def test_gaussians_forget_in_precision() -> None:
    """Between the posterior and its prior, a Gaussian's precision and weighted mean are linear."""
    old = fit("glad", Annotations.from_frame(day(0)), inference="vb", seed=0, max_iterations=50)
    site, new = old.result.sites["ability"], day(1)
    halves = {f: old.update(new, forget=f).memory for f in (0.0, 0.5, 1.0)}
    plain, half, prior = (x.sites["ability"].arrays for x in halves.values() if x is not None)
    np.testing.assert_array_equal(plain["loc"], site.arrays["loc"])
    precision = (plain["scale"] ** -2 + prior["scale"] ** -2) / 2
    np.testing.assert_allclose(half["scale"] ** -2, precision)
    first_moment = (plain["loc"] * plain["scale"] ** -2 + prior["loc"] * prior["scale"] ** -2) / 2
    np.testing.assert_allclose(half["loc"], first_moment / precision)
    np.testing.assert_allclose(prior["loc"], 1.0, atol=0.1)  # of N(1, 1)
    np.testing.assert_allclose(prior["scale"], 1.0, atol=0.1)


@pytest.mark.parametrize("forget", [-0.1, 1.5, "half", True])
def test_a_part_is_a_number_from_0_to_1(forget: Any) -> None:
    with pytest.raises(MethodError, match="forget="):
        first().update(day(1), forget=forget)


def test_a_fit_anew_forgets_nothing_and_says_so() -> None:
    old = fit("dawid_skene", known(0), inference="em")
    with pytest.raises(MethodError, match="fit by vb"):
        old.update(day(1), forget=0.5)
