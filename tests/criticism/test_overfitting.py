"""The doubt of overfitting: by hand, beside refits, and where it does not apply."""

import numpy as np
import pytest

from crowdppl.criticism.doubts.search import Search
from crowdppl.criticism.doubts.votes import log_p_by_vote, log_p_without_label, overfitting, worse_than_votes
from crowdppl.data.annotations import Annotations
from crowdppl.fitting import fit
from tests.crowd import annotations
from tests.doubtful import simulated


def test_a_label_out_of_its_row_by_hand() -> None:
    """Annotator 0 said 1 of three items of class 0 once; without that label its row is all of answer 0."""
    table = np.array([[[2 / 3, 1 / 3], [0.0, 1.0]], [[0.5, 0.5], [0.25, 0.75]]])
    counts = np.array([[[2.0, 1.0], [0.0, 4.0]], [[2.0, 2.0], [1.0, 3.0]]])
    share = np.array([[0.75, 0.25], [0.75, 0.25], [1.0, 0.0]])
    annotator, label = np.array([0, 1, 0]), np.array([1, 0, 1])
    found = np.exp(log_p_without_label(table, counts, annotator, label, share))
    # truth without the label: .75 / (1/3) against .25 / 1, so .9 to .1; its rows: .25 of 2.25, and 3.75 of 3.75
    assert found[0] == pytest.approx(0.9 * 0.25 / 2.25 + 0.1 * 1)
    truth = np.array([0.75 / 0.5, 0.25 / 0.25]) / (0.75 / 0.5 + 0.25 / 0.25)
    assert found[1] == pytest.approx(truth @ [(2 - 0.75) / (4 - 0.75), (1 - 0.25) / (4 - 0.25)])
    assert found[2] == pytest.approx(np.exp(-80))  # a known truth, and an answer given once


def test_a_vote_by_hand() -> None:
    """Two labels of one item agree, two of another do not; a known truth needs no other label."""
    votes = np.array([[2.0, 0, 0], [1, 1, 0], [0, 0, 1]])
    item, label = np.array([0, 0, 1, 1, 2]), np.array([0, 0, 0, 1, 2])
    gold = np.array([-1, -1, 2])
    found = np.exp(log_p_by_vote(votes, gold, item, label))
    right = float(found[4])  # the accuracy, of an item whose truth is known

    def truth_of(counts: np.ndarray) -> np.ndarray:
        weight = (right * 2 / (1 - right)) ** counts
        return np.asarray(weight / weight.sum())

    shares = np.stack([truth_of(votes[0]), truth_of(votes[1]), [0, 0, 1]])
    assert right == pytest.approx((shares * votes).sum() / 5, abs=1e-5)
    one = truth_of(np.array([1.0, 0, 0]))
    assert found[0] == found[1] == pytest.approx(one[0] * right + (1 - one[0]) * (1 - right) / 2)
    assert found[2] == pytest.approx(one[1] * right + (1 - one[1]) * (1 - right) / 2)


@pytest.mark.slow
def test_what_is_said_beside_a_fit_is_true_of_refits() -> None:
    """Each fit that is doubted at once predicts labels left out worse, in crowds with ever more labels."""
    said = 0
    for seed in range(3):
        for n_items in (40, 80, 160, 320):
            posterior = fit("dawid_skene", simulated(seed, n_items, 12, 3, 4), inference="em", tolerance=1e-5)
            if list(overfitting(Search(posterior))):
                said += 1
                assert list(worse_than_votes(Search(posterior)))
    assert 3 <= said < 10


def test_the_figures_are_near_those_of_leaving_out() -> None:
    posterior = fit("dawid_skene", simulated(0, 80, 12, 3, 4), inference="em", seed=0)
    (doubt,) = overfitting(Search(posterior))
    own, votes = (
        fit(m, posterior.data, inference="em", seed=0).leave_one_out(method="closed").mean
        for m in ("dawid_skene", "majority_vote")
    )
    assert doubt.figures["own"] == pytest.approx(own, abs=0.25 * abs(own - votes))
    assert doubt.figures["votes"] == pytest.approx(votes, abs=0.02)


def test_nothing_is_said_where_nothing_is_known() -> None:
    """A prior, an engine with draws, more answers than classes, items labelled once, earlier labels."""
    data = simulated(0, 80, 12, 3, 4)

    def doubted(method: str, data: Annotations, engine: str = "em", **settings: float) -> bool:
        return any(overfitting(Search(fit(method, data, inference=engine, settings=settings or None))))

    assert doubted("dawid_skene", data)
    assert not doubted("bayesian_dawid_skene", data, "vb")
    assert not doubted("bayesian_dawid_skene", data, prior_strength=16.0)
    assert not doubted("one_coin", data)
    rows = data.frame().astype({"label": object})
    rows.loc[rows.index[:3], "label"] = "pass"
    assert not doubted("dawid_skene", Annotations.from_frame(rows, abstentions=["pass"]))
    assert not doubted("dawid_skene", annotations([(i, i % 3, i % 2) for i in range(90)], 2))
