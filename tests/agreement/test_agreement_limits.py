"""Agreement at the limits of data: one class, few shared items, many annotators, real annotations."""

import tracemalloc
import warnings
from pathlib import Path

import krippendorff
import numpy as np
import pandas as pd
import pytest

from crowdppl.agreement.coefficients import agreement_pairs, agreement_table
from crowdppl.data.annotations import Annotations
from crowdppl.datasets import anaesthetists
from crowdppl.errors import CrowdpplWarning, DataError, MethodError, SparseDataWarning
from tests.ratings import random_labels, values


def test_one_class_only() -> None:
    data = Annotations.from_matrix(np.zeros((5, 3), int), classes=[0, 1], kind="ordinal")
    with pytest.warns(CrowdpplWarning, match="cohen_kappa, fleiss_kappa, krippendorff_nominal"):
        table = agreement_table(data, bootstrap=20)
    assert (table.loc[["percent_agreement", "gwet_ac1", "gwet_ac2"], ["value", "high"]] == 1).all(axis=None)
    rest = ["cohen_kappa", "fleiss_kappa", "krippendorff_nominal", "krippendorff_ordinal", "krippendorff_interval"]
    assert table.loc[rest, ["value", "low", "high"]].isna().all(axis=None)


def test_nearly_one_class_says_what_the_interval_is_made_from() -> None:
    labels = np.zeros((20, 2), int)
    labels[0] = 1
    with pytest.warns(SparseDataWarning, match=r"fleiss_kappa .* \d+ of 200"):
        table = agreement_table(Annotations.from_matrix(labels), bootstrap=200)
    assert table.loc["fleiss_kappa", ["value", "low", "high"]].tolist() == [1, 1, 1]


def test_pairs_that_share_few_items_are_warned_of() -> None:
    thin = Annotations.from_matrix(random_labels(0, n_items=40, n_annotators=30, keep=0.2))
    with pytest.warns(SparseDataWarning, match="cohen_kappa"):
        agreement_table(thin, bootstrap=0)
    strangers = Annotations.from_arrays([1, 1, 2, 2], list("abcd"), [0, 0, 0, 1])
    with pytest.warns(CrowdpplWarning, match="cohen_kappa is not defined"):
        row = agreement_table(strangers, bootstrap=0).loc["cohen_kappa"]
    assert np.isnan(row["value"])
    assert row[["items", "pairs", "pairs_left_out"]].tolist() == [0, 0, 2]
    full = Annotations.from_matrix(random_labels(0, n_items=400, keep=0.9))
    with warnings.catch_warnings(action="error"):
        agreement_table(full, bootstrap=100)


def test_refused() -> None:
    data = anaesthetists()
    lonely = Annotations.from_arrays([1, 2, 3], list("aab"), [0, 1, 1])
    for ask in (agreement_table, agreement_pairs):
        with pytest.raises(DataError, match="3 items"):
            ask(lonely)
        with pytest.raises(DataError, match="design"):
            ask(Annotations.design([1, 1], ["a", "b"], classes=[0, 1]))
        with pytest.raises(MethodError, match="'cubic'"):
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
