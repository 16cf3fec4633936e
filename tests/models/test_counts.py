"""A kind of label of one's own: counts, whose truths are rates, under a Gamma-Poisson model."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyro.distributions as dist
import pytest
import torch
from scipy.special import gammaln
from torch import Tensor

import crowdppl
import crowdppl.primitives as cp
from crowdppl.data.kinds import KINDS
from crowdppl.data.kinds.numbers import Numbers
from crowdppl.data.kinds.space import NonNegative
from crowdppl.data.split import keep
from crowdppl.errors import DataError, MethodError
from crowdppl.inference.vb.coordinate_ascent import EM, VB
from crowdppl.inference.vb.fit import run_starts
from tests.crowd import double, posed

COUNT = Numbers(
    "count",
    "counts",
    "counts of things",
    holds=lambda x: (x >= 0) & (x == x.round()),
    words="a whole number from 0 on",
    space=NonNegative(),
)


@pytest.fixture(autouse=True)
def _counts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(KINDS, COUNT.name, COUNT)
    with double():
        yield


class Counts(cp.NumberLabels):
    """label[i, a] ~ Poisson(truth[i] scale[a]), truth[i] ~ Gamma(shape, rate)."""

    def __init__(self, block: cp.Block, log_scale: Tensor, scale: Tensor, shape: float, rate: float) -> None:
        super().__init__(block)
        self.log_scale, self.scale, self.shape, self.rate = log_scale, scale, shape, rate

    def log_prob(self, value: Tensor) -> Tensor:
        own, total = self.log_scale[..., self.block.annotator], self.shape + self.block.sum_by_item(value)
        exposure = self.rate + self.block.sum_by_item(self.scale[..., self.block.annotator])
        const = self.shape * np.log(self.rate) - np.log(1.0 * np.exp(gammaln(self.shape))) + torch.lgamma(total)
        each = self.block.sum_by_item(value * own - torch.lgamma(value + 1))
        return const + each + total * cp.neg_log(exposure, name=self.truth)

    def draw(self) -> tuple[Tensor, Tensor]:
        truth = dist.Gamma(self.shape, self.rate).sample((self.block.n_items,))
        return truth, dist.Poisson(truth[self.block.item] * self.scale[self.block.annotator]).sample()


@dataclass(frozen=True)
class GammaPoisson:
    card: ClassVar[cp.Card] = cp.Card("Gamma Poisson", "nobody", kind="count", sites={"truth": "N", "scale": "A"})
    shape: float = 2.0
    rate: float = 0.5

    def model(self, data: cp.Block) -> None:
        with cp.plates.annotators(data):
            scale = cp.natural("scale", dist.Gamma(6.0, 6.0))
        with cp.plates.items(data):
            cp.annotate_numbers(data, Counts(cp.plates.block_of(data), *scale, self.shape, self.rate))


ROWS = [("x", "ann", 3), ("x", "bob", 6), ("y", "ann", 0), ("y", "bob", 2), ("y", "cy", 1), ("z", "cy", 9)]


def frame(rows: Any = ROWS) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["item", "annotator", "label"])


def counts(rows: Any = ROWS) -> crowdppl.Annotations:
    return crowdppl.Annotations.from_frame(frame(rows), kind="count")


def drawn(n_items: int = 150, seed: int = 0) -> Any:
    item = np.repeat(np.arange(n_items), 4)
    who = np.stack([np.random.default_rng(seed + i).permutation(6)[:4] for i in range(n_items)]).ravel()
    design = crowdppl.Annotations.design(item, who, kind="count")
    return crowdppl.simulate(GammaPoisson(), design, seed=seed)


@pytest.fixture(scope="module")
def wanted() -> dict[str, np.ndarray]:
    """Posterior means and squares by importance sampling from the prior, for ``ROWS``."""
    shape, rate, n = 2.0, 0.5, 400_000
    scale = np.random.default_rng(0).gamma(6, 1 / 6, (n, 3))
    log_w, truths = np.zeros(n), []
    for name in ("x", "y", "z"):
        mine = [(["ann", "bob", "cy"].index(a), y) for i, a, y in ROWS if i == name]
        total, exposure = shape + sum(y for _, y in mine), rate + sum(scale[:, a] for a, _ in mine)
        log_w += sum(y * np.log(scale[:, a]) - gammaln(y + 1) for a, y in mine)
        log_w += gammaln(total) - total * np.log(exposure) + shape * np.log(rate) - gammaln(shape)
        truths.append((total / exposure, total * (total + 1) / exposure**2))
    top = log_w.max()
    w = np.exp(log_w - top)
    evidence, w = top + np.log(w.mean()), w / w.sum()
    moments = np.array([[w @ m for m in pair] for pair in truths])
    return {"scale": w @ scale, "truth": moments[:, 0], "square": moments[:, 1], "evidence": np.array(evidence)}


def test_gibbs_has_the_exact_posterior(wanted: dict[str, np.ndarray]) -> None:
    found = crowdppl.fit(GammaPoisson(), counts(), inference="gibbs", chains=96, draws=75, warmup=40, seed=0)
    means = found.result.sites["scale"].arrays["draws"].mean(1)
    error = means.std(0, ddof=1) / 96**0.5
    assert error.max() < 0.01 and (np.abs(means.mean(0) - wanted["scale"]) <= 4.3 * error + 0.003).all()
    table = found.truth()
    np.testing.assert_allclose(table["estimate"], wanted["truth"], rtol=0.01)
    np.testing.assert_allclose(table["sd"], np.sqrt(wanted["square"] - wanted["truth"] ** 2), rtol=0.03)


def test_vb_never_falls_and_bounds_the_evidence_and_em_climbs(wanted: dict[str, np.ndarray]) -> None:
    for engine in (VB, EM):
        (run,) = run_starts(posed(GammaPoisson(), counts(), tolerance=1e-13, max_iterations=300), engine)
        x = np.array(run.progress.objectives)
        assert np.diff(x).min() >= -1e-9 * np.abs(x).max()
        if engine is VB:
            assert wanted["evidence"] - 1 < x[-1] < wanted["evidence"]


SLOW = [pytest.param(engine, marks=pytest.mark.slow) for engine in ("laplace", "nuts")]


@pytest.mark.parametrize("engine", ["em", "vb", "gibbs", *SLOW])
def test_rates_are_recovered_scored_saved_and_drawn_again(engine: str, tmp_path: Path) -> None:
    found, short = drawn(), {"chains": 2, "draws": 50, "warmup": 30} if engine in ("gibbs", "nuts") else {}
    posterior = crowdppl.fit(GammaPoisson(), found.data, inference=engine, seed=0, **short)
    scores = crowdppl.evaluate(posterior, found.truth)
    plain = found.data.frame().groupby("item")["label"].mean() - found.truth
    assert scores.rmse < 0.9 * np.sqrt((plain**2).mean())
    assert abs(scores.coverage - 0.95) < 0.07  # 150 items: 3.9 standard errors
    assert (scores.intervals()["low"] <= scores.intervals()["high"]).all()
    scales = posterior.annotators()["scale"]
    assert np.corrcoef(scales, found.parameters["scale"])[0, 1] > 0.9
    posterior.save(tmp_path / "rates")
    again = crowdppl.load(tmp_path / "rates", model=GammaPoisson())
    pd.testing.assert_frame_equal(again.truth(), posterior.truth())
    pd.testing.assert_frame_equal(again.data.frame(), found.data.frame())
    assert "150 items" in posterior.summary()


def test_held_out_counts_are_scored() -> None:
    """The score is the mean log-probability of a count: of right scales it is above that of none."""

    @dataclass(frozen=True)
    class Alike(GammaPoisson):
        def model(self, data: cp.Block) -> None:
            one = torch.ones(data.n_annotators)
            with cp.plates.annotators(data):
                cp.natural("scale", dist.Gamma(6.0, 6.0))
            with cp.plates.items(data):
                cp.annotate_numbers(data, Counts(cp.plates.block_of(data), 0 * one, one, self.shape, self.rate))

    data = drawn().data
    scores = [crowdppl.heldout_score(m, data, folds=3, inference="vb", seed=0) for m in (GammaPoisson(), Alike())]
    assert scores[0].per_label > scores[1].per_label
    assert -4 < scores[0].per_label < -1


def test_labels_stay_with_their_rows() -> None:
    rows = [(f"i{n % 7}", f"a{n % 3}", n) for n in range(40)]
    whole = counts(rows)
    pd.testing.assert_frame_equal(
        whole.frame().sort_values("label", ignore_index=True), frame(rows), check_dtype=False
    )
    half = whole.frame()["label"].to_numpy() % 2 == 0
    block = keep(whole, half).as_block()
    sides = zip(whole.order[block.item].tolist(), block.annotator.tolist(), strict=True)
    pairs = {(whole.items[i], whole.annotators[a]) for i, a in sides}
    assert block.numbers is not None and sorted(block.numbers.tolist()) == list(range(0, 40, 2))
    assert pairs <= {(i, a) for i, a, n in rows if n % 2 == 0}
    again = crowdppl.Annotations.from_frame(whole.to_arrow(), kind="count")
    pd.testing.assert_frame_equal(again.frame(), whole.frame())


@pytest.mark.parametrize("label", [-1, 2.5, "many", None, float("inf")])
def test_what_is_no_count_is_refused_with_its_place(label: Any) -> None:
    with pytest.raises(DataError, match="row 1"):
        counts([("x", "ann", 1), ("y", "bob", label)])


def test_what_needs_classes_is_refused_by_name() -> None:
    posterior = crowdppl.fit(GammaPoisson(), counts(), inference="vb", seed=0)
    asked: list[Any] = [
        posterior.draw_labels,
        lambda: crowdppl.fit(GammaPoisson(), counts(), gold={"x": 2.0}),
    ]
    for ask in (
        *asked,
        posterior.labels,
        posterior.probabilities,
        posterior.confusion,
        posterior.decide,
        posterior.entropy,
    ):
        with pytest.raises(MethodError, match="number|known truths"):
            ask()
    with pytest.raises(DataError, match="numbers"):
        _ = counts().classes
    for method in ("dawid_skene", "auto"):
        with pytest.raises(MethodError, match="count"):
            crowdppl.fit(method, counts())
    with pytest.raises(MethodError, match="count"):
        crowdppl.fit(GammaPoisson(), crowdppl.anaesthetists())
    with pytest.raises(DataError, match="numbers"):
        crowdppl.Annotations.from_frame(frame(), kind="count", classes=[1, 2])
