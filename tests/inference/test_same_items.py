"""Items with the same labels are evaluated once, and nothing of a result shows it."""

import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist
import pytest
import torch

import crowdppl
import crowdppl.primitives as cp
from crowdppl.data.annotations import Annotations
from tests.crowd import crowd, double, problem_of


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


class Own:
    """Dawid-Skene of somebody else's; truths may lean on how many items there are, or labels on who is who."""

    def __init__(self, leans: str = "") -> None:
        self.leans = leans

    def model(self, data: cp.Block) -> None:
        log_p = cp.prevalence(data)
        with cp.plates.annotators(data):
            confusion = pyro.sample("confusion", dist.Dirichlet(1 + torch.eye(data.n_classes)).to_event(1))
        with cp.plates.items(data):
            lean = torch.arange(data.n_items) / data.n_items if self.leans == "items" else torch.zeros(1)
            weight = torch.stack([lean] + [torch.zeros_like(lean)] * (data.n_classes - 1), -1)
            cp.annotate(data, confusion.log(), cp.truth(data, (log_p + weight).log_softmax(-1)))


class Known(Own):
    """Annotators' accuracies are settings, so that no site is of annotators."""

    def model(self, data: cp.Block) -> None:
        right = torch.linspace(0.5, 0.9, data.n_annotators) if self.leans == "annotators" else torch.tensor([0.7])
        eye, log_p = torch.eye(data.n_classes), cp.prevalence(data)
        rows = right[:, None, None] * eye + (1 - right[:, None, None]) * (1 - eye) / (data.n_classes - 1)
        with cp.plates.items(data):
            cp.annotate(data, rows.expand(data.n_annotators, -1, -1).log(), cp.truth(data, log_p))


def test_a_model_of_ones_own_is_found_to_tell_items_apart(panel: tuple[Annotations, Annotations]) -> None:
    plain = panel[0]
    block = plain.blocks[0]
    with double():
        assert problem_of(Own(), plain).distinct(block) is block.distinct
        assert problem_of(Own("items"), plain).distinct(block) is None
        assert problem_of(Known(), plain).distinct(block) is block.distinct_answers
        assert problem_of(Known("annotators"), plain).distinct(block) is block.distinct
    for model in (Own(), Own("items"), Known(), Known("annotators")):
        one, other = (crowdppl.fit(model, data, inference="em", max_iterations=15, seed=0) for data in panel)
        np.testing.assert_allclose(one.probabilities(), other.probabilities(), atol=1e-8)
