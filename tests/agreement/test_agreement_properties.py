"""Agreement of annotators: what has to change a coefficient, and what must not."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from crowdppl.agreement.coefficients import agreement_pairs, agreement_table
from crowdppl.data.annotations import Annotations
from crowdppl.errors import MethodError
from tests.ratings import BEYOND_CHANCE, NO, graded, random_labels, rows_of, values


def test_perfect_agreement_is_one() -> None:
    rng = np.random.default_rng(0)
    truth = np.repeat(rng.integers(4, size=(50, 1)), 5, axis=1).astype(float)
    truth[rng.random(truth.shape) < 0.3] = NO
    table = agreement_table(graded(truth), bootstrap=50)
    assert len(table) == 8
    np.testing.assert_allclose(table[["value", "high"]], 1, rtol=0, atol=1e-12)
    np.testing.assert_allclose(table["low"].drop("percent_agreement"), 1, rtol=0, atol=1e-12)


def test_names_and_order_of_classes_mean_nothing_to_nominal_coefficients() -> None:
    sparse = random_labels(5)
    item, annotator, answer = rows_of(sparse)

    def table(names: list[str], **options: Any) -> pd.DataFrame:
        given = np.array(names)[answer]
        return agreement_table(Annotations.from_arrays(item, annotator, given, **options), bootstrap=30)

    straight = table(["a", "b", "c", "d"])
    pd.testing.assert_frame_equal(straight, table(["z", "p", "a", "q"]), rtol=1e-12)
    order = {"classes": ["a", "b", "c", "d"], "kind": "ordinal"}
    ranked, mixed = table(["a", "b", "c", "d"], **order), table(["c", "a", "d", "b"], **order)
    for name in ("krippendorff_ordinal", "cohen_kappa", "gwet_ac2"):
        assert ranked.loc[name, "value"] != pytest.approx(mixed.loc[name, "value"], abs=1e-3)
    assert "krippendorff_interval" not in ranked.index, "names are no numbers"


def test_missing_labels_abstentions_and_plain_repeats_change_nothing() -> None:
    item, annotator, answer = rows_of(random_labels(6))
    plain = Annotations.from_arrays(item, annotator, answer, classes=range(4))
    unsure = Annotations.from_arrays(
        [*item, 0, 999], [*annotator, 77, 78], [*answer, "pass", "pass"], classes=range(4), abstentions=["pass"]
    )
    repeated = Annotations.from_arrays(
        [*item, *item[:20]], [*annotator, *annotator[:20]], [*answer, *answer[:20]], classes=range(4)
    )
    empty = Annotations.from_arrays(item, annotator, answer, classes=range(4), items=[5000, 5001])
    first = agreement_table(plain, bootstrap=30)
    for other in (unsure, repeated, empty):
        pd.testing.assert_frame_equal(first, agreement_table(other, bootstrap=30), rtol=1e-12)
        pd.testing.assert_frame_equal(agreement_pairs(plain), agreement_pairs(other), rtol=1e-12)


def test_an_annotator_is_not_compared_with_itself() -> None:
    """x says a and b on item 1, y says a: half agreement. On item 2 only x labels, twice: nothing to compare."""
    data = Annotations.from_arrays([1, 1, 1, 2, 2, 3, 3], list("xxyxxxy"), list("abaaabb"))
    found = agreement_table(data, bootstrap=0).loc["percent_agreement"]
    assert found["value"] == pytest.approx((0.5 + 1) / 2)
    assert found[["items", "pairs", "items_left_out"]].tolist() == [2, 2, 1]
    # Six labels by one annotator are one ballot, although six sixths are not quite one.
    torn = Annotations.from_arrays([1] * 7, list("xxxxxxy"), [*range(6), 0])
    assert agreement_pairs(torn)["items"].tolist() == [1]


def test_numbers_without_order_are_weighted_only_when_asked() -> None:
    sparse = random_labels(2)
    plain = Annotations.from_matrix(sparse)
    assert list(values(plain).index) == ["percent_agreement", *BEYOND_CHANCE]
    asked = agreement_table(plain, weights="quadratic", bootstrap=0)
    pd.testing.assert_frame_equal(asked, agreement_table(graded(sparse), bootstrap=0))
    weighted = asked["weights"][asked["weights"] != ""]
    assert weighted.to_dict() == {"cohen_kappa": "quadratic", "gwet_ac2": "quadratic"}
    shuffled = Annotations.from_matrix(sparse, classes=[3.0, 1.0, 0.0, 2.0])
    with pytest.raises(MethodError, match="'quadratic'"):
        agreement_table(shuffled, weights="quadratic")
