"""Agreement of annotators: published and hand-computed values, other packages, definitions taken literally."""

from __future__ import annotations

import tracemalloc
import warnings
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import krippendorff
import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import cohens_kappa, fleiss_kappa

from crowdppl import ballots, coefficients, pairings
from crowdppl.agreement import agreement_pairs, agreement_table
from crowdppl.annotations import Annotations
from crowdppl.ballots import Ballots, Resamples, Tally
from crowdppl.datasets import anaesthetists
from crowdppl.errors import CrowdpplWarning, DataError, MethodError, ThinDataWarning

pytestmark = pytest.mark.filterwarnings("ignore::crowdppl.errors.CrowdpplWarning")

NO = np.nan
# Four raters and twelve units of Krippendorff (2011), with missing labels.
UNITS = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NO, NO, NO],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NO, 3],
        [NO, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NO],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NO],
    ]
).T
# Two abstractors of Gwet (2014).
ABSTRACTORS = np.array([[13, 0, 0], [0, 20, 7], [0, 4, 56]])
BEYOND_CHANCE = ["cohen_kappa", "fleiss_kappa", "krippendorff_nominal", "gwet_ac1"]


def values(data: Annotations, **options: Any) -> pd.Series:
    return agreement_table(data, bootstrap=0, **options)["value"]


def graded(matrix: np.ndarray, **options: Any) -> Annotations:
    return Annotations.from_matrix(matrix, kind="ordinal", **options)


def two(table: np.ndarray) -> np.ndarray:
    """Items by two annotators whose labels fall into a table (K, K)."""
    first, second = np.nonzero(table)
    return np.repeat(np.stack([first, second], 1), table[first, second], axis=0)


def random_labels(seed: int, n_items: int = 30, n_annotators: int = 6, k: int = 4, keep: float = 0.7) -> np.ndarray:
    """Labels that lean on a truth, some missing: float (N, A)."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(k, size=n_items)[:, None]
    labels = np.where(
        rng.random((n_items, n_annotators)) < 0.5, truth, rng.integers(k, size=(n_items, n_annotators))
    )
    return np.where(rng.random(labels.shape) < keep, labels, NO)


def rows_of(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    item, annotator = np.nonzero(np.isfinite(matrix))
    return item, annotator, matrix[item, annotator].astype(int)


def distance(k: int, weights: str) -> np.ndarray:
    steps = np.abs(np.subtract.outer(np.arange(k), np.arange(k))) / (k - 1)
    return {"identity": (steps > 0).astype(float), "linear": steps, "quadratic": steps**2}[weights]


def literal(item: Any, annotator: Any, answer: Any, k: int, weights: str) -> dict[str, float]:
    """The coefficients by loops over pairs of ballots: {annotator: shares of classes} for every item."""
    items: dict[Any, dict[Any, np.ndarray]] = {}
    for i, a, y in zip(item, annotator, answer, strict=True):
        items.setdefault(i, {}).setdefault(a, np.zeros(k))[y] += 1
    shares = [{a: f / f.sum() for a, f in ballot.items()} for ballot in items.values()]
    several = [ballot for ballot in shares if len(ballot) > 1]

    def agreement(w: np.ndarray) -> float:
        return float(np.mean([np.mean([f @ w @ g for f, g in permutations(b.values(), 2)]) for b in several]))

    pi = np.mean([np.mean(list(ballot.values()), axis=0) for ballot in shares], axis=0)
    w = 1 - distance(k, weights)
    found = {"percent_agreement": agreement(np.eye(k))}
    found["fleiss_kappa"] = (agreement(np.eye(k)) - pi @ pi) / (1 - pi @ pi)
    for name, near in (("gwet_ac1", np.eye(k)), ("gwet_ac2", w)):
        chance = near.sum() / (k * (k - 1)) * np.sum(pi * (1 - pi))
        found[name] = (agreement(near) - chance) / (1 - chance)
    o = sum(sum(np.outer(f, g) for f, g in permutations(b.values(), 2)) / (len(b) - 1) for b in several)
    n = o.sum(0)
    expected = (np.outer(n, n) - np.diag(n)) / (n.sum() - 1)
    between = [[n[min(c, d) : max(c, d) + 1].sum() - (n[c] + n[d]) / 2 for d in range(k)] for c in range(k)]
    for name, delta in (
        ("krippendorff_nominal", 1 - np.eye(k)),
        ("krippendorff_ordinal", np.array(between) ** 2),
        ("krippendorff_interval", distance(k, "quadratic")),
    ):
        found[name] = 1 - (o * delta).sum() / (expected * delta).sum()
    kappas, shared = [], []
    for a, b in combinations(sorted({a for ballot in shares for a in ballot}), 2):
        both = [(ballot[a], ballot[b]) for ballot in shares if a in ballot and b in ballot]
        if len(both) > 1:
            table = sum(np.outer(f, g) for f, g in both) / len(both)
            chance = np.sum(np.outer(table.sum(1), table.sum(0)) * w)
            if chance < 1 - 1e-9:
                kappas.append((np.sum(table * w) - chance) / (1 - chance))
                shared.append(len(both))
    found["cohen_kappa"] = float(np.average(kappas, weights=shared)) if kappas else NO
    return found


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
    assert found.loc["percent_agreement", ["value", "low", "high"]].tolist() == [0, 0, 0]


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


def test_perfect_agreement_is_one() -> None:
    rng = np.random.default_rng(0)
    truth = np.repeat(rng.integers(4, size=(50, 1)), 5, axis=1).astype(float)
    truth[rng.random(truth.shape) < 0.3] = NO
    table = agreement_table(graded(truth), bootstrap=50)
    assert len(table) == 8
    np.testing.assert_allclose(table[["value", "low", "high"]], 1, rtol=0, atol=1e-12)


def test_labels_that_ignore_the_items_agree_by_chance() -> None:
    found = np.array([values(graded(np.random.default_rng(seed).integers(3, size=(200, 4)))) for seed in range(40)])
    names = list(values(graded(random_labels(0))).index)
    error = found.std(0, ddof=1) / np.sqrt(len(found))
    chance = np.array([1 / 3 if name == "percent_agreement" else 0 for name in names])
    assert (np.abs(found.mean(0) - chance) < 4 * error).all()
    assert (error < 0.01).all()


def test_only_cohen_forgives_different_habits() -> None:
    """Annotators who ignore the items but prefer different classes: by Cohen chance, by Scott's pi below it."""
    found = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        labels = np.stack([rng.choice(2, 200, p=p) for p in ([0.8, 0.2], [0.2, 0.8])], 1)
        found.append(values(Annotations.from_matrix(labels))[["cohen_kappa", "fleiss_kappa"]])
    mean, error = np.mean(found, 0), np.std(found, 0, ddof=1) / np.sqrt(40)
    assert abs(mean[0]) < 4 * error[0]
    assert mean[1] == pytest.approx((0.32 - 0.5) / 0.5, abs=4 * error[1])
    assert mean[1] < -20 * error[1], "the check above can fail"


def test_two_annotators_make_scotts_pi_and_large_data_make_alpha_of_it() -> None:
    """Exactly: 1 - alpha = (1 - kappa) (1 - 1 / labels)."""
    for n_items in (20, 20_000):
        labels = random_labels(3, n_items=n_items, n_annotators=2, keep=2).astype(int)
        value = values(Annotations.from_matrix(labels))
        share = np.bincount(labels.ravel(), minlength=4) / labels.size
        pi = ((labels[:, 0] == labels[:, 1]).mean() - share @ share) / (1 - share @ share)
        assert value["fleiss_kappa"] == pytest.approx(pi, abs=1e-12)
        gap = (1 - pi) / (2 * n_items)
        assert value["krippendorff_nominal"] - pi == pytest.approx(gap, abs=1e-12)


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
    with pytest.raises(MethodError, match=r"'quadratic' needs classes with an order.*3\.0, 1\.0.*kind='ordinal'"):
        agreement_table(shuffled, weights="quadratic")


def test_resamples_are_the_items_drawn_again() -> None:
    """Each sample against the coefficients of data in which items are copied as often as they were drawn."""
    sparse = random_labels(7, n_items=60)
    data = graded(sparse)
    held = Ballots.of(data)
    resamples = Resamples(held.n_items, 5, seed=3)
    near = coefficients.nearness(4, "quadratic")
    kappa = pairings.mean_kappa(held, near, resamples)
    (count,) = resamples
    assert count.shape == (60, 5)
    assert (count.sum(0) == 60).all()
    totals = Tally.of(held, ordered=True).total(count)
    for number in range(5):
        copies = values(graded(np.repeat(sparse, count[:, number].astype(int), axis=0)))
        assert kappa.resampled[number] == pytest.approx(copies["cohen_kappa"], abs=1e-12)
        for name, formula in (
            ("percent_agreement", coefficients.percent_agreement),
            ("fleiss_kappa", coefficients.fleiss_kappa),
            ("krippendorff_nominal", coefficients.krippendorff_nominal),
            ("krippendorff_ordinal", coefficients.krippendorff_ordinal),
        ):
            assert formula(totals)[number] == pytest.approx(copies[name], abs=1e-12)
        assert coefficients.gwet(totals, near)[number] == pytest.approx(copies["gwet_ac2"], abs=1e-12)


def test_intervals_are_quantiles_and_the_seed_decides() -> None:
    data = anaesthetists()
    table = agreement_table(data, bootstrap=200, level=0.8, seed=4)
    held = Ballots.of(data)
    drawn = pairings.mean_kappa(held, coefficients.nearness(4, "identity"), Resamples(held.n_items, 200, 4))
    np.testing.assert_allclose(
        table.loc["cohen_kappa", ["low", "high"]].astype(float), np.nanquantile(drawn.resampled, [0.1, 0.9])
    )
    pd.testing.assert_frame_equal(table, agreement_table(data, bootstrap=200, level=0.8, seed=4))
    assert (table["low"] != agreement_table(data, bootstrap=200, level=0.8, seed=5)["low"]).all()
    assert agreement_table(data, bootstrap=0)[["low", "high"]].isna().all(axis=None)


def test_pieces_make_the_same_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    data = graded(random_labels(8, n_items=80, n_annotators=12, keep=0.4))
    table, pairs = agreement_table(data, bootstrap=50), agreement_pairs(data)
    monkeypatch.setattr(pairings, "AT_ONCE", 40)
    monkeypatch.setattr(ballots, "WIDEST", 7)
    assert len(list(pairings.pairings(Ballots.of(data), np.eye(4)))) > 5
    pd.testing.assert_frame_equal(table, agreement_table(data, bootstrap=50), rtol=1e-10)
    pd.testing.assert_frame_equal(pairs, agreement_pairs(data), rtol=1e-10)


SHARES, ACCURACY = np.array([0.5, 0.3, 0.2]), 0.8


def simulated(seed: int, n_items: int = 150) -> Annotations:
    """Five equal annotators, each item labelled by two to four of them."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(3, n_items, p=SHARES)[:, None]
    wrong = (truth + rng.integers(1, 3, size=(n_items, 5))) % 3
    labels = np.where(rng.random((n_items, 5)) < ACCURACY, truth, wrong).astype(float)
    missing = rng.random((n_items, 5)).argsort(1) >= rng.integers(2, 5, size=(n_items, 1))
    return Annotations.from_matrix(np.where(missing, NO, labels))


def population() -> dict[str, float]:
    """What the coefficients tend to: annotators err evenly and have the same shares of classes."""
    agreed = ACCURACY**2 + (1 - ACCURACY) ** 2 / 2
    share = SHARES * ACCURACY + (1 - SHARES) * (1 - ACCURACY) / 2
    kappa = (agreed - share @ share) / (1 - share @ share)
    chance = share @ (1 - share) / 2
    found = dict.fromkeys(BEYOND_CHANCE, kappa)
    return found | {"percent_agreement": agreed, "gwet_ac1": (agreed - chance) / (1 - chance)}


def coverage(level: float, n: int) -> pd.Series:
    """Share of simulated data sets whose interval holds the population's value."""
    truth = pd.Series(population())
    held = []
    for seed in range(n):
        table = agreement_table(simulated(seed), bootstrap=300, level=level, seed=seed)
        held.append((table["low"] <= truth[table.index]) & (truth[table.index] <= table["high"]))
    return pd.DataFrame(held).mean()


def test_intervals_cover() -> None:
    n = 150
    slack = 3 * np.sqrt(0.9 * 0.1 / n)
    found = coverage(0.9, n)
    assert len(found) == 5
    assert ((found > 0.9 - slack - 0.02) & (found < 0.9 + slack)).all(), found
    narrow = coverage(0.6, 60)
    assert (narrow < 0.9 - slack - 0.02).all(), "the check above can fail"


@pytest.mark.slow
def test_intervals_cover_closely() -> None:
    """Cohen's may fall short by more: resampling pairs that share twenty to fifty items biases it."""
    n = 1000
    found = coverage(0.95, n)
    error = 3 * np.sqrt(0.95 * 0.05 / n)
    assert (found.drop("cohen_kappa") > 0.95 - error - 0.01).all(), found
    assert (found > 0.9).all(), found


def test_one_class_only() -> None:
    """Agreement is certain, and so is chance agreement; AC1's chance is then zero."""
    data = Annotations.from_matrix(np.zeros((5, 3), int), classes=[0, 1], kind="ordinal")
    with pytest.warns(CrowdpplWarning, match="cohen_kappa, fleiss_kappa, krippendorff_nominal.*one class"):
        table = agreement_table(data, bootstrap=20)
    assert (table.loc[["percent_agreement", "gwet_ac1", "gwet_ac2"], ["value", "low", "high"]] == 1).all(axis=None)
    rest = ["cohen_kappa", "fleiss_kappa", "krippendorff_nominal", "krippendorff_ordinal", "krippendorff_interval"]
    assert table.loc[rest, ["value", "low", "high"]].isna().all(axis=None)


def test_nearly_one_class_says_what_the_interval_is_made_from() -> None:
    labels = np.zeros((20, 2), int)
    labels[0] = 1
    with pytest.warns(ThinDataWarning, match=r"interval of fleiss_kappa is made from \d+ of 200 samples"):
        table = agreement_table(Annotations.from_matrix(labels), bootstrap=200)
    assert table.loc["fleiss_kappa", ["value", "low", "high"]].tolist() == [1, 1, 1]


def test_pairs_that_share_few_items_are_warned_of() -> None:
    thin = Annotations.from_matrix(random_labels(0, n_items=40, n_annotators=30, keep=0.2))
    with pytest.warns(ThinDataWarning, match="cohen_kappa is a mean over .* pairs .*few items.*biased towards 0"):
        agreement_table(thin, bootstrap=0)
    strangers = Annotations.from_arrays([1, 1, 2, 2], list("abcd"), [0, 0, 0, 1])
    with pytest.warns(CrowdpplWarning, match="cohen_kappa is not defined and NaN.*share two items"):
        row = agreement_table(strangers, bootstrap=0).loc["cohen_kappa"]
    assert np.isnan(row["value"])
    assert row[["items", "pairs", "pairs_left_out"]].tolist() == [0, 0, 2]
    full = Annotations.from_matrix(random_labels(0, n_items=400, keep=0.9))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agreement_table(full, bootstrap=100)


@pytest.mark.parametrize("shared", [2, 5, 10])
def test_few_shared_items_bias_cohen_and_not_the_others(shared: int) -> None:
    """What the warning says, at its threshold: at ten shared items some 5 %, at two far more."""
    rng = np.random.default_rng(shared)
    groups = 3000
    truth = rng.choice(2, (groups * shared, 1))
    labels = np.where(rng.random((groups * shared, 2)) < 0.8, truth, 1 - truth)
    item = np.repeat(np.arange(groups * shared), 2)
    annotator = np.repeat(np.arange(groups) * 2, 2 * shared) + np.tile([0, 1], groups * shared)
    value = values(Annotations.from_arrays(item, annotator, labels.ravel()))
    assert value["krippendorff_nominal"] == pytest.approx(0.36, abs=4 / np.sqrt(groups * shared))
    low, high = {2: (0.5, 0.75), 5: (0.75, 0.92), 10: (0.88, 0.98)}[shared]
    assert low < value["cohen_kappa"] / 0.36 < high


def test_refused() -> None:
    data = anaesthetists()
    lonely = Annotations.from_arrays([1, 2, 3], list("aab"), [0, 1, 1])
    for ask in (agreement_table, agreement_pairs):
        with pytest.raises(DataError, match="none of 3 items was labelled by two annotators"):
            ask(lonely)
        with pytest.raises(DataError, match="design"):
            ask(Annotations.design([1, 1], ["a", "b"], classes=[0, 1]))
        with pytest.raises(MethodError, match="weights='cubic' is none of 'identity', 'linear', 'quadratic'"):
            ask(data, weights="cubic")
    for level in (0, 1, 95):
        with pytest.raises(MethodError, match="level"):
            agreement_table(data, level=level)
    with pytest.raises(MethodError, match="bootstrap=-1"):
        agreement_table(data, bootstrap=-1)


def test_many_annotators_take_no_dense_matrix() -> None:
    rng = np.random.default_rng(0)
    n = 20_000
    item, annotator = np.repeat(np.arange(n // 4), 4), rng.integers(n, size=n)
    data = Annotations.from_arrays(item, annotator, rng.integers(4, size=n))
    tracemalloc.start()
    agreement_table(data, bootstrap=40)
    agreement_pairs(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60e6  # items x annotators in bytes: 70e6, in floats 560e6


@pytest.mark.parametrize("name", ["web", "rte", "imagenet15n"])
def test_alpha_of_real_annotations(real_data: Path, name: str) -> None:
    rows = pd.read_csv(real_data / name / "answers.csv").drop_duplicates(["item", "annotator"])
    data = Annotations.from_frame(rows, kind="ordinal" if name == "web" else "nominal")
    found = values(data)
    counts = data.votes().astype(int)
    domain = [float(label) if name == "web" else k for k, label in enumerate(data.classes)]
    for level in ("nominal", "ordinal", "interval")[: 3 if name == "web" else 1]:
        alpha = krippendorff.alpha(value_counts=counts, value_domain=domain, level_of_measurement=level)
        assert found[f"krippendorff_{level}"] == pytest.approx(alpha, abs=1e-10)
