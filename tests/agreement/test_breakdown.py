"""Agreement by class and by item, against loops over pairs and the table of labels made of two classes."""

import warnings
from itertools import permutations

import numpy as np
import pandas as pd
import pytest

from crowdppl.agreement.coefficients import agreement_classes, agreement_items, agreement_table
from crowdppl.data.annotations import Annotations
from crowdppl.errors import CrowdpplWarning, DataError, SparseDataWarning
from tests.ratings import graded, random_labels, rows_of, values


def ragged(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Item, annotator and label, some missing, some given twice."""
    item, annotator, label = rows_of(random_labels(seed))
    again = np.random.default_rng(seed).choice(len(item), 10, replace=False)
    return (
        np.append(item, item[again]),
        np.append(annotator, annotator[again]),
        np.append(label, (label[again] + 1) % 4),
    )


@pytest.mark.parametrize("seed", [0, 1])
def test_the_kappa_of_a_class_is_that_of_it_against_all_others(seed: int) -> None:
    item, annotator, label = ragged(seed)
    found = agreement_classes(Annotations.from_arrays(item, annotator, label), bootstrap=50, level=0.8, seed=3)
    for k in range(4):
        two = Annotations.from_arrays(item, annotator, (label == k).astype(int), classes=[0, 1])
        table = agreement_table(two, bootstrap=50, level=0.8, seed=3)
        wanted = table.loc["fleiss_kappa", ["value", "low", "high"]].tolist()
        assert found.loc[k, ["kappa", "kappa_low", "kappa_high"]].tolist() == pytest.approx(wanted)


@pytest.mark.parametrize("seed", [0, 1])
def test_loops_over_pairs_of_annotators(seed: int) -> None:
    item, annotator, label = ragged(seed)
    data = Annotations.from_arrays(item, annotator, label)
    rows = pd.DataFrame({"item": item, "annotator": annotator, "label": label})
    votes = pd.crosstab([rows["item"], rows["annotator"]], rows["label"], normalize="index")
    by_item = {i: group.to_numpy() for i, group in votes.groupby(level=0)}
    several = {i: group for i, group in by_item.items() if len(group) > 1}
    both = np.mean([np.mean([f * g for f, g in permutations(group, 2)], 0) for group in several.values()], 0)
    given = np.mean([group.mean(0) for group in several.values()], 0)
    classes = agreement_classes(data, bootstrap=0)
    np.testing.assert_allclose(classes["agreement"], both / given)
    assert classes[["agreement_low", "kappa_high"]].isna().all(None)
    np.testing.assert_allclose(classes["share"], np.mean([group.mean(0) for group in by_item.values()], 0))
    items = agreement_items(data)
    assert items.index.tolist() == sorted(by_item)
    for i, group in by_item.items():
        pairs = [f @ g for f, g in permutations(group, 2)]
        assert items.loc[i, "annotators"] == len(group)
        assert items.loc[i, "votes"] == pytest.approx(group.mean(0).max())
        assert group.mean(0)[items.loc[i, "label"]] == pytest.approx(group.mean(0).max())
        assert items.loc[i, "agreement"] == pytest.approx(np.mean(pairs) if pairs else np.nan, nan_ok=True)
    assert items["agreement"].mean() == pytest.approx(values(data)["percent_agreement"])


def test_classes_and_items_without_votes() -> None:
    data = Annotations.from_arrays([1, 1, 2], list("aba"), ["x", "x", "?"], classes=["x", "y"], abstentions=["?"])
    found = agreement_classes(data, seed=0)
    assert (
        found.loc["x", "agreement"] == 1
        and found.loc["y"].drop("share").isna().all()
        and found["kappa"].isna().all()
    )
    assert agreement_items(data).index.tolist() == [1]
    with pytest.raises(DataError, match="'real' have no classes"):
        agreement_classes(Annotations.from_arrays([1, 1], ["a", "b"], [0.5, 1.5], kind="real"))
    for ask in (agreement_classes, agreement_items):
        with pytest.raises(DataError, match="labelled by two"):
            ask(Annotations.from_arrays([1, 2], ["a", "b"], ["x", "y"]))


def test_a_coefficient_below_its_limit_is_explained() -> None:
    """One pair is compared, and the shares of classes come from a hundred items with one label."""
    label = ["x", "y", *["x"] * 60, *["y"] * 40]
    with warnings.catch_warnings(action="ignore"):
        data = Annotations.from_arrays([0, *range(101)], ["a", "b", *["a"] * 100], label)
    with pytest.warns(SparseDataWarning, match=r"fleiss_kappa \(-1.08\) is below -1.* 1 items.* 101 with a label"):
        table = agreement_table(data, bootstrap=0)
    share = 60.5 / 101
    assert table.loc["fleiss_kappa", "value"] == pytest.approx(1 - 1 / (2 * share * (1 - share)))
    with pytest.warns(SparseDataWarning, match="the kappa of 'x'"):
        agreement_classes(data, bootstrap=0)


@pytest.mark.parametrize(("weights", "power"), [("linear", 1), ("quadratic", 2)])
def test_steps_are_those_of_the_declared_classes(weights: str, power: int) -> None:
    """Kappa of Cohen (1968) by its definition; nobody gave the grades 3 and 4."""
    grades = np.array([[1, 1], [1, 2], [2, 2], [5, 2], [5, 5], [1, 5], [2, 1], [5, 5], [1, 1], [2, 2], [5, 1]])
    apart = np.abs(grades[:, 0] - grades[:, 1]) ** power
    by_chance = np.abs(np.subtract.outer(grades[:, 0], grades[:, 1])) ** power
    with warnings.catch_warnings(action="error"):
        warnings.simplefilter("ignore", SparseDataWarning)
        declared = values(graded(grades, classes=[1, 2, 3, 4, 5]), weights=weights)
    assert declared["cohen_kappa"] == pytest.approx(1 - apart.mean() / by_chance.mean())
    with pytest.warns(CrowdpplWarning, match=r"\(1, 2, 5\) count as one step apart.*classes="):
        values(graded(grades), weights=weights)
