"""Agreement of sets: Krippendorff's alpha with the MASI distance."""

from itertools import permutations, product

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl.agreement.votes import masi_distances

MEMBERS = ("", "a", "b", "a;b", "b;c", "a;b;c")


def distance(one: frozenset[str], other: frozenset[str]) -> float:
    """As Passonneau (2006) and nltk.metrics.masi_distance write it, with 2/3 for nltk's .67."""
    if one == other:
        return 0.0
    both = len(one & other)
    part = 2 / 3 if both == min(len(one), len(other)) else 1 / 3 if both else 0
    return 1 - both / len(one | other) * part


def test_distances_are_those_of_the_definition() -> None:
    sets = [frozenset(x.split(";")) - {""} for x in MEMBERS]
    members = np.array([[name in one for name in "abc"] for one in sets])
    np.testing.assert_allclose(masi_distances(members), [[distance(a, b) for b in sets] for a in sets])
    assert masi_distances(np.array([[True, True, False], [False, True, True]]))[0, 1] == pytest.approx(8 / 9)


def test_alpha_of_sets_is_that_of_all_pairs_of_labels() -> None:
    """Krippendorff (2011) by loops over pairs of sets; one item has one set, one annotator abstains once."""
    rng = np.random.default_rng(0)
    rows = [
        (f"i{n}", f"a{a}", MEMBERS[rng.integers(6)]) for n, a in product(range(8), range(3)) if rng.random() < 0.8
    ]
    rows += [("alone", "a0", "a"), ("i0", "a3", "?")]
    table = pd.DataFrame(rows, columns=["item", "annotator", "label"])
    data = crowdppl.Annotations.from_frame(table, kind="set", abstentions=["?"])
    said = table[table["label"] != "?"].groupby("item")["label"].apply(list)
    units = [[frozenset(x.split(";")) - {""} for x in unit] for unit in said if len(unit) > 1]
    observed = sum(sum(distance(*pair) for pair in permutations(u, 2)) / (len(u) - 1) for u in units)
    every = [x for unit in units for x in unit]
    expected = sum(distance(*pair) for pair in permutations(every, 2)) / (len(every) - 1)
    found = crowdppl.agreement_table(data, bootstrap=20, seed=0).loc["krippendorff_masi"]
    assert found["value"] == pytest.approx(1 - observed / expected)
    assert found["items"] == len(units) and found["low"] < found["value"] < found["high"]


def test_sets_of_one_class_each_are_classes() -> None:
    labels = ["x", "y", "x", "x", "y", "z"]
    table = pd.DataFrame({"item": [*"ppqqrr"], "annotator": [*"ab"] * 3, "label": labels})
    sets, classes = (crowdppl.Annotations.from_frame(table, kind=kind) for kind in ("set", "nominal"))
    masi, nominal = (crowdppl.agreement_table(x, bootstrap=0)["value"] for x in (sets, classes))
    assert masi["krippendorff_masi"] == pytest.approx(nominal["krippendorff_nominal"])
