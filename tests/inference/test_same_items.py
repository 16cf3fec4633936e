"""Items with the same labels are evaluated once, and nothing of a result shows it."""

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl.data.annotations import Annotations
from tests.crowd import crowd


@pytest.fixture(scope="module")
def panel() -> tuple[Annotations, Annotations]:
    """Three annotators, and the same with a covariate that no method reads: of such items none are the same."""
    rows = crowd(n_items=120, labels_each=3, n_annotators=3).frame()
    plain = Annotations.from_frame(rows)
    apart = Annotations.from_frame(rows, item_covariates=pd.DataFrame({"x": 0.0}, index=plain.items))
    return plain, apart


def test_a_block_counts_items_with_the_same_labels(panel: tuple[Annotations, Annotations]) -> None:
    (block,), (apart,) = (data.blocks for data in panel)
    assert block.distinct is not None and apart.distinct is None
    few, place = block.distinct
    labels = [tuple(cells.tolist()) for cells in block.bags.cells.reshape(-1, 3)]
    rows = [tuple(cells.tolist()) for cells in few.bags.cells.reshape(-1, 3)]
    assert [rows[n] for n in place] == labels and len(set(rows)) == len(rows)
    assert few.copies is not None and few.copies.tolist() == [labels.count(row) for row in rows]


@pytest.mark.parametrize(("method", "engine"), [("dawid_skene", "em"), ("mace", "vb"), ("ebcc", "vb")])
def test_a_fit_is_that_of_all_items(panel: tuple[Annotations, Annotations], method: str, engine: str) -> None:
    one, other = (crowdppl.fit(method, data, inference=engine, max_iterations=15, seed=0) for data in panel)
    np.testing.assert_allclose(one.probabilities(), other.probabilities(), atol=1e-8)
    np.testing.assert_allclose(one.diagnostics()["objectives"], other.diagnostics()["objectives"], rtol=1e-10)


@pytest.mark.parametrize(("method", "restarts"), [("majority_vote", 1), ("multinomial", 3)])
def test_so_it_is_where_who_gave_a_label_is_nothing_to_the_model(method: str, restarts: int) -> None:
    """Perturbed starts differ between items of the same labels, which are then apart; ties stay ties."""
    rows = crowd(n_items=300, labels_each=4, n_annotators=20).frame()
    plain = Annotations.from_frame(rows)
    apart = Annotations.from_frame(rows, item_covariates=pd.DataFrame({"x": 0.0}, index=plain.items))
    block = plain.blocks[0]
    assert (
        block.distinct is None and block.distinct_answers is not None and apart.blocks[0].distinct_answers is None
    )
    one, other = (crowdppl.fit(method, x, inference="em", restarts=restarts, seed=0) for x in (plain, apart))
    np.testing.assert_allclose(one.probabilities(), other.probabilities(), atol=1e-8)
    np.testing.assert_allclose(one.diagnostics()["objectives"], other.diagnostics()["objectives"], rtol=1e-10)
    assert one.labels()["tied"].tolist() == other.labels()["tied"].tolist()


def test_labels_left_out_have_the_same_scores(panel: tuple[Annotations, Annotations]) -> None:
    one, other = (
        crowdppl.heldout_score("one_coin", data, inference="em", folds=2, seed=0, max_iterations=15)
        for data in panel
    )
    np.testing.assert_allclose(one.labels["log_p"], other.labels["log_p"], atol=1e-6)
