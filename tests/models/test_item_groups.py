"""A latent of groups of items: the shares of classes in each document, read by its items."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist
import pytest
import torch
from scipy.special import gammaln

import crowdppl
import crowdppl.primitives as cp
from crowdppl.data.annotations import Annotations
from crowdppl.errors import DataError

ROWS = np.array([[0.8, 0.2], [0.3, 0.7]])


@dataclass(frozen=True)
class ByDocument:
    """Class shares of each document; annotators' rows are known, or those of Dawid-Skene."""

    known_rows: bool = False
    strength: float = 1.0

    def model(self, data: Any) -> None:
        k = data.n_classes
        with cp.plates.groups(data, "document"):
            shares = pyro.sample("shares", dist.Dirichlet(torch.full((k,), self.strength)))
        if self.known_rows:
            table = torch.from_numpy(ROWS).log().expand(data.n_annotators, 2, 2)
        else:
            with cp.plates.annotators(data):
                rows = dist.Dirichlet(cp.confusion_prior(data)).to_event(1)
                table = pyro.sample("confusion", rows).log()
        with cp.plates.items(data):
            log_p = shares.log()[..., cp.item_groups(data, "document"), :]
            cp.annotate(data, table, cp.truth(data, log_p))


def of(labels: dict[str, dict[str, int]], document: list[Any]) -> Annotations:
    items = sorted({item for given in labels.values() for item in given})
    table = pd.DataFrame({"document": document}, index=items)
    return Annotations.from_dicts(labels, item_covariates=table, classes=[0, 1])


SMALL = of({"u": {"a": 0, "b": 0, "c": 1, "d": 1}, "v": {"a": 0, "b": 1, "c": 1}}, [7, 7, 3, 3])


def exact(data: Annotations, document: list[int]) -> np.ndarray:
    """Probability of class 1 of each item: all truths enumerated, the shares of documents integrated out."""
    item, _, answer = data.label_codes()
    total = np.zeros(data.n_items + 1)
    for truths in product(range(2), repeat=data.n_items):
        counts = np.zeros((2, 2))
        np.add.at(counts, (np.array(document), np.array(truths)), 1)
        log_p = (gammaln(counts + 1).sum(1) - gammaln(counts.sum(1) + 2)).sum()
        weight = np.exp(log_p + np.log(ROWS[np.array(truths)[item], answer]).sum())
        total += weight * np.array([*truths, 1])
    return np.asarray(total[:-1] / total[-1])


@pytest.mark.parametrize(("inference", "off"), [pytest.param("gibbs", 0.03, marks=pytest.mark.slow), ("vb", 0.08)])
def test_all_truths_enumerated(inference: str, off: float) -> None:
    """gibbs to within Monte Carlo error of some thousand draws; mean field leaves out that truths go together."""
    options: dict[str, Any] = {"draws": 300, "warmup": 20} if inference == "gibbs" else {}
    found = crowdppl.fit(ByDocument(known_rows=True), SMALL, inference=inference, seed=0, **options)
    want = exact(SMALL, [1, 1, 0, 0])
    np.testing.assert_allclose(found.probabilities()[1], want, atol=off)
    assert want[3] > 0.8 > 0.7 / 0.9  # of which the label of d alone says the latter


@pytest.mark.slow
@pytest.mark.parametrize("inference", ["em", "nuts", "svi"])
def test_other_engines_take_it(inference: str) -> None:
    few: dict[str, Any] = {"nuts": {"draws": 60, "warmup": 40, "chains": 1}, "svi": {"max_iterations": 500}}
    model = ByDocument(known_rows=True, strength=2.0 if inference == "em" else 1.0)
    found = crowdppl.fit(model, SMALL, inference=inference, seed=0, **few.get(inference, {}))
    assert np.abs(found.probabilities()[1] - exact(SMALL, [1, 1, 0, 0])).max() < 0.12


def simulated(n_documents: int = 12, size: int = 30) -> crowdppl.Simulation:
    n = n_documents * size
    document = pd.DataFrame({"document": [f"d{i % n_documents:02d}" for i in range(n)]})
    design = crowdppl.random_design(n, 6, 2, classes=[0, 1], seed=0, item_covariates=document)
    return crowdppl.simulate(ByDocument(), design, seed=0)


@pytest.mark.slow
def test_shares_are_recovered_and_help() -> None:
    found = simulated()
    posterior = crowdppl.fit(ByDocument(), found.data, inference="vb", seed=0)
    shares = posterior.result.sites["shares"].mean[:, 1]
    assert np.corrcoef(shares, found.parameters["shares"][:, 1])[0, 1] > 0.9
    plain = crowdppl.fit("bayesian_dawid_skene", found.data, inference="vb", seed=0)
    score, without = (crowdppl.evaluate(p, found.truth).log_score for p in (posterior, plain))
    assert score < without - 0.02


def test_a_document_crosses_blocks_and_minibatches(small_blocks: Callable[[int], None]) -> None:
    rows, table = simulated(5, 12).data.frame(), pd.DataFrame({"document": [i % 5 for i in range(60)]})
    whole = Annotations.from_frame(rows, item_covariates=table)
    small_blocks(40)
    parts = Annotations.from_frame(rows, item_covariates=table)
    assert len(parts.blocks) > 1
    found = [crowdppl.fit(ByDocument(), x, inference="vb", seed=0).probabilities() for x in (whole, parts)]
    pd.testing.assert_frame_equal(*found, atol=1e-6)
    some = crowdppl.fit(ByDocument(), whole, inference="vb", batch_size=30, max_iterations=300, seed=0)
    assert np.abs(some.probabilities() - found[0]).to_numpy().max() < 0.1
    score = crowdppl.heldout_score(ByDocument(), parts, inference="vb", folds=2, max_iterations=10)
    assert np.isfinite(score.labels["log_p"]).all()


def test_new_documents_begin_at_the_prior_and_known_ones_where_they_ended(tmp_path: Path) -> None:
    posterior = crowdppl.fit(ByDocument(known_rows=True), SMALL, inference="vb", seed=0)
    more = of({"u": {"e": 1, "f": 1}}, [3, 99])
    found = posterior.predict(more)
    assert found.loc["f", 1] == pytest.approx(0.7 / 0.9)  # even shares before
    share = posterior.result.sites["shares"].mean[0]  # 3 is before 7
    odds = share[1] / share[0] * 0.7 / 0.2
    assert found.loc["e", 1] == pytest.approx(odds / (1 + odds))
    updated = posterior.update(more)
    assert updated.result.sites["shares"].parameter.sum(1) == pytest.approx([5, 4, 3])
    updated.save(tmp_path / "kept")
    back = crowdppl.load(tmp_path / "kept", model=ByDocument(known_rows=True))
    again = of({"v": {"a": 1, "g": 0}}, [7, 99])
    pd.testing.assert_frame_equal(back.update(again).probabilities(), updated.update(again).probabilities())
    assert updated.update(again).result.sites["shares"].parameter.sum() == pytest.approx(13)  # a counts once


def test_after_known_truths_an_update_is_a_fit_to_all() -> None:
    labels = {"u": {"a": 0, "b": 0, "c": 1, "d": 1, "e": 1, "f": 0}, "v": {"a": 0, "e": 0, "f": 0}}
    document, gold = ["x", "x", "y", "y", "y", "z"], {"a": 0, "b": 0, "c": 1, "d": 1}
    rows = of(labels, document)
    table = rows.item_covariates
    old, new = (rows.frame()[rows.frame()["item"].isin([*few])] for few in ("abcd", "ef"))
    exactly: dict[str, Any] = {"inference": "vb", "tolerance": 1e-13}
    parts = [
        Annotations.from_frame(part, item_covariates=table.loc[part["item"].unique()], **known)
        for part, known in ((old, {"gold": gold}), (new, {}))
    ]
    found = crowdppl.fit(ByDocument(), parts[0], **exactly).update(parts[1], tolerance=1e-13)
    whole = crowdppl.fit(ByDocument(), rows.with_gold(gold), **exactly)
    np.testing.assert_allclose(found.probabilities(), whole.probabilities().loc[["e", "f"]], atol=1e-6)
    shares = (x.result.sites["shares"].parameter for x in (found, whole))
    np.testing.assert_allclose(*shares, atol=1e-5)


@pytest.mark.parametrize("document", [[0.5, 0.5, 1.0, 1.0], ["x", None, "y", "y"], ["x", 1, "y", "y"]])
def test_a_column_that_names_no_groups_is_refused(document: list[Any]) -> None:
    table = pd.DataFrame({"document": document}, index=SMALL.items)
    data = Annotations.from_frame(SMALL.frame(), item_covariates=table)
    for asked in (data, replace(data, item_covariates=None)):
        with pytest.raises(DataError, match="'document'.*text or whole numbers"):
            crowdppl.fit(ByDocument(), asked, inference="vb")
    with pytest.raises(DataError, match="item_covariates="):
        crowdppl.fit(ByDocument(), Annotations.from_frame(SMALL.frame()), inference="vb")
