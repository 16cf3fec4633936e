"""Agreement of annotators: published and hand-computed values, other packages, definitions taken literally."""

from typing import Any

import krippendorff
import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import cohens_kappa, fleiss_kappa

from crowdppl.agreement.coefficients import agreement_pairs, agreement_table
from crowdppl.data.annotations import Annotations
from tests.ratings import ABSTRACTORS, NO, UNITS, graded, literal, random_labels, rows_of, two, values


def test_published_values_with_missing_labels() -> None:
    """As in Gwet's R package irrCAC, which follows his handbook, and in Krippendorff (2011)."""
    found = agreement_table(graded(UNITS), bootstrap=0)
    value = found["value"]
    assert value["percent_agreement"] == pytest.approx(0.81818, abs=5e-6)
    assert value["fleiss_kappa"] == pytest.approx(0.76117, abs=5e-6)
    assert value["gwet_ac1"] == pytest.approx(0.77544, abs=5e-6)
    assert value["krippendorff_nominal"] == pytest.approx(0.743, abs=5e-4)
    assert value["krippendorff_ordinal"] == pytest.approx(0.815, abs=5e-4)
    assert value["krippendorff_interval"] == pytest.approx(0.849, abs=5e-4)
    # The last unit has one label; of the others one has two, two have three and eight have four.
    assert found["items"].tolist() == [11] * 8
    assert found["items_left_out"].tolist() == [1] * 8
    assert found["pairs"].drop("cohen_kappa").tolist() == [1 * 1 + 2 * 3 + 8 * 6] * 7
    assert found.loc["cohen_kappa", ["pairs", "pairs_left_out"]].tolist() == [6, 0]


def test_published_values_of_two_annotators() -> None:
    value = values(Annotations.from_matrix(two(ABSTRACTORS)))
    assert value["percent_agreement"] == pytest.approx(0.89)
    assert value["cohen_kappa"] == pytest.approx(0.7964094, abs=5e-8)
    assert value["fleiss_kappa"] == pytest.approx(0.7962397, abs=5e-8)  # Scott's pi
    assert value["gwet_ac1"] == pytest.approx(0.8493305, abs=5e-8)
    assert value["krippendorff_nominal"] == pytest.approx(0.7972585, abs=5e-8)


def test_four_items_by_hand() -> None:
    """Item 1: a a b; 2: a a; 3: b b; 4: a b. Items 3 and 4 by other annotators than 1 and 2."""
    data = Annotations.from_arrays([1, 1, 1, 2, 2, 3, 3, 4, 4], list("xyzxyzwzw"), list("aabaabbab"))
    value = values(data)
    agreed = (1 / 3 + 1 + 1 + 0) / 4
    share = (2 / 3 + 1 + 0 + 1 / 2) / 4
    chance = share**2 + (1 - share) ** 2
    assert value["percent_agreement"] == pytest.approx(agreed)
    assert value["fleiss_kappa"] == pytest.approx((agreed - chance) / (1 - chance))
    ac1 = 2 * share * (1 - share)
    assert value["gwet_ac1"] == pytest.approx((agreed - ac1) / (1 - ac1))
    # Coincidences: item 1 has 1 value matched with an equal one, 2 and 3 two each, 4 none; five a, four b.
    assert value["krippendorff_nominal"] == pytest.approx(1 - (4 / 9) / (2 * 5 * 4 / (9 * 8)))
    # x and y share items 1, 2: always a, no kappa. z and w share 3, 4: (b, b), (a, b): chance .5, agreed .5.
    pairs = agreement_pairs(data)
    assert list(pairs.index) == [("w", "z"), ("x", "y"), ("x", "z"), ("y", "z")]
    assert pairs["items"].tolist() == [2, 2, 1, 1]
    assert pairs["agreement"].tolist() == [0.5, 1, 0, 0]
    assert pairs.loc[("w", "z"), "kappa"] == pytest.approx(0)
    assert pairs["kappa"].isna().tolist() == [False, True, True, True]
    row = agreement_table(data, bootstrap=0).loc["cohen_kappa"]
    assert row[["value", "items", "pairs", "items_left_out", "pairs_left_out"]].tolist() == [0, 2, 1, 2, 3]


@pytest.mark.parametrize("weights", ["identity", "linear", "quadratic"])
@pytest.mark.parametrize("seed", range(4))
def test_definitions_taken_literally(seed: int, weights: Any) -> None:
    """Missing labels, and annotators who label an item twice or three times."""
    item, annotator, answer = rows_of(random_labels(seed, keep=0.5))
    rng = np.random.default_rng(seed)
    again = rng.integers(len(item), size=25)
    item, annotator = np.append(item, item[again]), np.append(annotator, annotator[again])
    answer = np.append(answer, rng.integers(4, size=25))
    data = Annotations.from_arrays(item, annotator, answer, classes=range(4), kind="ordinal")
    found = values(data, weights=weights)
    expected = literal(item, annotator, answer, 4, weights)
    if weights == "identity":
        expected.pop("gwet_ac2")
    assert set(found.index) == set(expected)
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, abs=1e-12), name


def test_annotators_without_a_class_in_common() -> None:
    data = Annotations.from_matrix([[0, 1], [0, 2], [0, 1], [0, 2]])
    assert agreement_pairs(data).iloc[0].tolist() == [4, 0, 0]
    found = agreement_table(data, bootstrap=20)
    assert found.loc["cohen_kappa", ["value", "low", "high"]].tolist() == [0, 0, 0]
    assert found.loc["percent_agreement", ["value", "low"]].tolist() == [0, 0]


@pytest.mark.parametrize("seed", range(3))
def test_other_packages_agree(seed: int) -> None:
    sparse = random_labels(seed, n_items=40, keep=0.6)
    data = graded(sparse, classes=[0.0, 1.0, 2.0, 3.0])
    found = values(data)
    for level in ("nominal", "ordinal", "interval"):
        alpha = krippendorff.alpha(sparse.T, level_of_measurement=level, value_domain=[0, 1, 2, 3])
        assert found[f"krippendorff_{level}"] == pytest.approx(alpha, abs=1e-12)
    full = random_labels(seed, keep=2).astype(int)
    assert values(Annotations.from_matrix(full))["fleiss_kappa"] == pytest.approx(
        fleiss_kappa((full[:, :, None] == np.arange(4)).sum(1)), abs=1e-12
    )
    for weights in ("identity", "linear", "quadratic"):
        pairs = agreement_pairs(data, weights=weights)
        for (a, b), kappa in pairs["kappa"].items():
            both = np.isfinite(sparse[:, a]) & np.isfinite(sparse[:, b])
            theirs = cohen_kappa_score(
                sparse[both, a],
                sparse[both, b],
                labels=[0, 1, 2, 3],
                weights=weights.replace("identity", "") or None,
            )
            assert kappa == pytest.approx(theirs, abs=1e-12)
            assert pairs.loc[(a, b), "items"] == both.sum()
        mean = np.average(pairs["kappa"], weights=pairs["items"])
        assert values(data, weights=weights)["cohen_kappa"] == pytest.approx(mean, abs=1e-12)
    linear = values(Annotations.from_matrix(two(ABSTRACTORS)), weights="linear")
    assert linear["cohen_kappa"] == pytest.approx(cohens_kappa(ABSTRACTORS, wt="linear", return_results=False))


def test_numbers_that_are_not_evenly_spaced() -> None:
    """The interval alpha takes the numbers, the weights take steps."""
    marks = np.array([1.0, 2.0, 5.0, 50.0])
    codes = random_labels(1, keep=0.8)
    sparse = np.where(np.isfinite(codes), marks[np.nan_to_num(codes).astype(int)], NO)
    found, even = values(graded(sparse)), values(graded(codes))
    alpha = krippendorff.alpha(sparse.T, level_of_measurement="interval")
    assert found["krippendorff_interval"] == pytest.approx(alpha, abs=1e-12)
    assert found["krippendorff_interval"] != pytest.approx(even["krippendorff_interval"], abs=1e-3)
    rest = found.index.drop("krippendorff_interval")
    np.testing.assert_allclose(found[rest], even[rest], rtol=1e-12)
