"""Models whose labels depend on other labels: a leader who is copied, and one's own last label."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist
import pytest
import torch

import crowdppl
import crowdppl.primitives as cp
from crowdppl.data.annotations import Annotations
from crowdppl.errors import DataError, MethodError

K = 3


def copying(table: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
    """Tables (A, 1 + K, K, K): an own label without an earlier one (context 0), else a copy of it in ``share``."""
    copy = torch.eye(K).unsqueeze(-2).expand(K, K, K)  # [earlier label, truth, label]
    mixed = share * copy + (1 - share) * table.unsqueeze(-3)
    return torch.cat([table.unsqueeze(-3), mixed], -3).log()


@dataclass(frozen=True)
class Copies:
    """Labels copy an earlier label with probability ``share``: annotator 0's of the item, or their own last."""

    share: float = 0.6
    own: bool = False

    def derived_covariates(self, labels: pd.DataFrame) -> pd.DataFrame:
        code = labels["label"] + 1
        if self.own:
            earlier = code[labels["turn"].sort_values().index].groupby(labels["annotator"]).shift()
        else:
            leader = labels["annotator"] == 0
            earlier = labels["item"].map(code[leader].set_axis(labels["item"][leader])).where(~leader)
        return pd.DataFrame({"earlier": earlier.fillna(0)}, index=labels.index)

    def model(self, data: Any) -> None:
        with cp.plates.annotators(data):
            rows = dist.Dirichlet(1 + 4 * torch.eye(K)).to_event(1)
            confusion = pyro.sample("confusion", rows)
        table = copying(confusion, torch.tensor(self.share))
        with cp.plates.items(data):
            truth = cp.truth(data, torch.zeros(K))
            cp.annotate(data, table, truth, context=cp.label_covariates(data, "earlier"))


def design(n: int) -> Annotations:
    """Each annotator labels in an order of their own."""
    turns = np.random.default_rng(0).permutation(3 * n)
    columns = pd.DataFrame({"turn": turns})
    item, annotator = np.repeat(np.arange(n), 3), np.tile(np.arange(3), n)
    return Annotations.design(item, annotator, classes=range(K), label_covariates=columns)


@pytest.mark.parametrize("own", [False, True])
def test_the_share_of_copies_is_the_parameter(own: bool) -> None:
    """Of labels that differ from the truth's own draw, by the known truth and confusions."""
    n, model = 400, Copies(own=own)
    found = crowdppl.simulate(model, design(n), seed=0)
    rows = found.data.frame()
    pd.testing.assert_frame_equal(model.derived_covariates(rows), rows[["earlier"]])
    some = rows[rows["earlier"] > 0]
    truth = found.truth.loc[some["item"]].to_numpy()
    chance = found.parameters["confusion"][some["annotator"], truth, some["earlier"].astype(int) - 1]
    equal = (some["earlier"] - 1 == some["label"]).to_numpy()
    want = model.share + (1 - model.share) * chance
    error = np.sqrt((want * (1 - want)).mean() / len(some))
    assert abs(equal.mean() - want.mean()) < 4 * error
    assert equal.mean() > chance.mean() + 0.2
    first = rows[rows["earlier"] == 0]
    assert len(first) == (3 if own else n)


def test_blocks_do_not_cut_the_order(small_blocks: Callable[[int], None]) -> None:
    small_blocks(40)
    several = design(60)
    assert len(several.blocks) > 1
    rows = crowdppl.simulate(Copies(own=True), several, seed=0).data.frame()
    pd.testing.assert_frame_equal(Copies(own=True).derived_covariates(rows), rows[["earlier"]])


@pytest.mark.parametrize("kind", ["posterior", "prior"])
def test_replicates_copy_their_own_labels_and_not_those_observed(kind: str) -> None:
    """The share of equal labels of leader and followers, with all copied: always one."""
    data = crowdppl.simulate(Copies(0.5), design(40), seed=0).data
    all_copied = Copies(1 - 1e-9)
    posterior = crowdppl.fit(all_copied, data, inference="vb", max_iterations=3, seed=0)
    drawn = posterior.draw_labels(2, seed=0, kind=kind)
    for _, rows in drawn.groupby("draw"):
        assert (rows.groupby("item")["label"].nunique() == 1).all()
    assert (data.frame().groupby("item")["label"].nunique() > 1).any()


@pytest.mark.slow
def test_a_predictive_check_expects_copies() -> None:
    """A model that knows of them replicates how often labels of an item agree."""
    data = crowdppl.simulate(Copies(), design(150), seed=1).data
    posterior = crowdppl.fit(Copies(), data, inference="vb", seed=0, max_iterations=200)
    table = crowdppl.predictive_check(posterior, draws=40, seed=0).table.loc[["unanimous", "pair_agreement"]]
    assert table["observed"].between(table["low"], table["high"]).all()


def test_a_model_that_reads_labels_otherwise_is_refused_with_the_way() -> None:
    class Reads:
        def model(self, data: Any) -> None:
            with cp.plates.items(data):
                log_p = (data.answer * 0.0)[:, None].expand(-1, K)
                cp.annotate(data, lambda answer: log_p, cp.truth(data, torch.zeros(K)))

    class Circle(Copies):
        def derived_covariates(self, labels: pd.DataFrame) -> pd.DataFrame:
            return pd.DataFrame({"earlier": 1 + (labels["label"] + 1) % K})

    with pytest.raises(DataError, match="derived_covariates"):
        crowdppl.simulate(Reads(), design(4))
    with pytest.raises(MethodError, match="circle"):
        crowdppl.simulate(Circle(1 - 1e-9), design(4))
