"""Ratings with a bias, a gain and a precision an annotator, true values integrated out: exact by em, vb and gibbs.

annotator[a]    ~ NormalGamma(loc, P, a, b)                 w, tau: (A, D + 1)
truth[i]        ~ Normal(mu, 1 / lambda)                    (N)
label[i, a]     ~ Normal(w[a]'(truth[i], 1), 1 / tau[a])        gain 1 where only the bias is free
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import optimize, stats
from torch import Tensor

import crowdppl
import crowdppl.primitives as cp
from crowdppl import Annotations
from crowdppl.data.blocks import Block
from crowdppl.errors import MethodError
from crowdppl.inference.engines import used_by
from crowdppl.inference.mcmc import gibbs
from crowdppl.inference.target import Target
from crowdppl.inference.vb.coordinate_ascent import EM, VB
from crowdppl.inference.vb.fit import run_starts
from tests.crowd import annotations, double, problem_of, split
from tests.models.test_gamma import LABELS, Luce

LOG_2_PI = math.log(2 * math.pi)
RATINGS = [(0, 0, 0.3), (0, 1, 1.1), (1, 0, -0.8), (1, 1, 0.2), (2, 1, 1.9), (2, 0, 1.0), (3, 0, 0.1)]


class Ratings(cp.NumberLabels):
    """Labels around gain times truth plus bias, and truths around a mean.

    Args:
        block: who labelled what.
        own: of each annotator expected or drawn log tau, tau, tau b, tau b^2, tau g, tau g b and tau g^2, (..., A).
        values: of all truths log lambda, lambda, lambda mu and lambda mu^2.
    """

    def __init__(self, block: Block, own: Sequence[Tensor], values: Sequence[Tensor]) -> None:
        super().__init__(block)
        self.own, self.values = own, values

    def log_prob(self, value: Tensor) -> Tensor:
        log_tau, tau, b, bb, g, gb, gg = (self.block.of_annotator(x) for x in self.own)
        log_lam, lam, mu, square = self.values
        each = (log_tau - tau * value**2 + 2 * b * value - bb - LOG_2_PI) / 2, g * value - gb, gg
        c, h, p = (self.block.sum_by_item(x) for x in each)
        return cp.log_gaussian(c + (log_lam - square - LOG_2_PI) / 2, h + mu, p + lam, name=self.truth)

    def draw(self) -> tuple[Tensor, Tensor]:
        _, tau, b, _, g, _, _ = (self.block.of_annotator(x) for x in self.own)
        _, lam, mu, _ = self.values
        x = mu / lam + torch.randn(self.block.n_items) / lam.sqrt()
        return x, (g * x[self.block.item] + b) / tau + torch.randn(self.block.n_labels) / tau.sqrt()


@dataclass(frozen=True)
class Biased:
    card: ClassVar[cp.Card] = cp.Card("Bias", "nobody", kind="real", sites={"truth": "N", "annotator": "A D"})
    concentration: float = 3.0
    rate: float = 1.0
    strength: float = 0.5

    def model(self, data: Block) -> None:
        with cp.plates.annotators(data):
            prior = cp.NormalGamma(torch.zeros(1), self.strength * torch.eye(1), self.concentration, self.rate)
            log_tau, tau, once, twice = cp.natural("annotator", prior)
        b, zero, one = once[..., 0], torch.zeros(()), torch.ones(())
        own = log_tau, tau, b, twice[..., 0, 0], tau, b, tau
        with cp.plates.items(data):
            cp.annotate_numbers(data, Ratings(data, own, (zero, one, zero, zero)))


@dataclass(frozen=True)
class Gained:
    card: ClassVar[cp.Card] = cp.Card("Gain", "nobody", kind="real", sites={"truth": "N", "annotator": "A D"})
    strength: float = 2.0
    moves: tuple[Any, Any] = ({}, {})

    def model(self, data: Block) -> None:
        prior = cp.NormalGamma(torch.zeros(1), torch.eye(1), 3.0, 3.0)
        log_lam, lam, mu, square = cp.natural("values", prior, **self.moves[0])
        with cp.plates.annotators(data):
            precision = torch.diag(torch.tensor([self.strength, 0.5]))
            prior = cp.NormalGamma(torch.tensor([1.0, 0.0]), precision, 3.0, 1.0)
            log_tau, tau, once, twice = cp.natural("annotator", prior, **self.moves[1])
        g, b = once.unbind(-1)
        own = log_tau, tau, b, twice[..., 1, 1], g, twice[..., 0, 1], twice[..., 0, 0]
        with cp.plates.items(data):
            cp.annotate_numbers(data, Ratings(data, own, (log_lam, lam, mu[..., 0], square[..., 0, 0])))


def rated(rows: list[tuple[int, int, float]] = RATINGS) -> Annotations:
    return Annotations.from_frame(pd.DataFrame(rows, columns=["item", "annotator", "label"]), kind="real")


def simulated(n_items: int, n_annotators: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    who = np.stack([rng.choice(n_annotators, 3, replace=False) for _ in range(n_items)]).ravel()
    design = Annotations.design(np.repeat(np.arange(n_items), 3), who, kind="real")
    return crowdppl.simulate(Gained(), design, seed=seed)


class Oracle:
    """Ratings of two annotators as one Gaussian vector, given gains and precisions; all else is integrated out."""

    def __init__(self, data: Annotations, strength: float) -> None:
        (block,) = data.blocks
        self.item, self.who = block.item.numpy(), block.annotator.numpy()
        self.y = block.numbers.numpy()
        self.strength, same = strength, self.item[:, None] == self.item
        self.same_item, self.same_annotator = same.astype(float), self.who[:, None] == self.who

    def covariance(self, gain: np.ndarray, tau: np.ndarray, of_values: np.ndarray) -> np.ndarray:
        """(..., S, S) for gains and precisions (..., 2) and the covariance of labels' values (..., S, S)."""
        g, noise = gain[..., self.who], 1 / tau[..., self.who]
        own = noise[..., None] * (self.same_annotator / self.strength + np.eye(len(self.y)))
        return np.asarray(g[..., :, None] * g[..., None, :] * of_values + own)

    def solved(self, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log-density (...) of the ratings, and what their covariance with anything is multiplied by, (..., S)."""
        inverse = np.linalg.solve(covariance, np.broadcast_to(self.y[:, None], (*covariance.shape[:-1], 1)))[..., 0]
        log_det = np.linalg.slogdet(2 * np.pi * covariance)[1]
        return -(inverse @ self.y + log_det) / 2, inverse


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with double():
        yield


@pytest.fixture(scope="module")
def biased() -> tuple[float, np.ndarray, np.ndarray]:
    """Log evidence, expected bias and precision of each annotator (2, 2), and expected values of items, (4,)."""
    oracle, n = Oracle(rated(), 0.5), 120
    tau = stats.gamma(3.0, scale=1.0).ppf((np.arange(n) + 0.5) / n)
    taus = np.stack(np.meshgrid(tau, tau, indexing="ij"), -1).reshape(-1, 2)
    log_p, solved = oracle.solved(oracle.covariance(np.ones_like(taus), taus, oracle.same_item))
    weight = np.exp(log_p - log_p.max())
    mine = oracle.who == np.arange(2)[:, None]
    bias = np.einsum("ws,as->wa", solved, mine) / (0.5 * taus)
    x = np.einsum("ws,is->wi", solved, oracle.item == np.arange(4)[:, None])
    means = [np.average(q, axis=0, weights=weight) for q in (bias, taus, x)]
    return float(log_p.max() + np.log(weight.mean())), np.stack(means[:2], -1), means[2]


def chain_means(model: Any, **options: Any) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Means of each chain's draws of sites, and of the expected or drawn values of items, (C, ...)."""
    problem = problem_of(model, rated(), **options)
    draws, *_ = gibbs.sample(problem)
    at = {n: x.flatten(0, 1) for n, x in draws.items()}
    x = problem.full_pass(len(at["annotator"]))(at, marginals=("truth",)).marginals["truth"][0]
    values = {n: problem.sites[n].value(x).mean(1).numpy() for n, x in draws.items()}
    return values, x.reshape(*draws["annotator"].shape[:2], -1).mean(1).numpy()


def test_its_sites_are_recognised() -> None:
    for model, names in ((Biased(), {"annotator"}), (Gained(), {"values", "annotator"})):
        sites = problem_of(model, rated()).sites
        assert {n: site.conjugate.name for n, site in sites.items()} == dict.fromkeys(names, "normal_gamma")


def test_a_square_of_expectations_is_not_taken_for_an_expected_square() -> None:
    class ByHand(Biased):
        def model(self, data: Block) -> None:
            with cp.plates.annotators(data):
                prior = cp.NormalGamma(torch.zeros(1), torch.eye(1), 3.0, 1.0)
                log_tau, tau, once, _ = cp.natural("annotator", prior)
            b, zero, one = once[..., 0], torch.zeros(()), torch.ones(())
            with cp.plates.items(data):
                own = log_tau, tau, b, b**2 / tau, tau, b, tau
                cp.annotate_numbers(data, Ratings(data, own, (zero, one, zero, zero)))

    assert problem_of(ByHand(), rated()).sites["annotator"].kind == "free"


MOVES: Any = {
    "no": ({}, {}),
    "shift": ({"shift": [[-1.0, 0.0]]}, {"shift": [[0.0] * 3, [0.0, 1.0, 0.0]]}),
    "unit": ({"powers": [1.0, -2.0]}, {"powers": [-1.0, 0.0, 0.0]}),
}
"""Along which labels tell nothing, as ``natural`` has them."""


def near(means: np.ndarray, wanted: np.ndarray, error: np.ndarray | float = 0.0) -> bool:
    """With so many chains an error of their mean beyond 5 has chance 1e-6 for each number."""
    own = means.std(0, ddof=1) / len(means) ** 0.5
    return bool(own.max() < 0.03 and (np.abs(means.mean(0) - wanted) <= 5 * np.hypot(own, error)).all())


def test_gibbs_has_the_exact_posterior(biased: tuple[float, np.ndarray, np.ndarray]) -> None:
    found, x = chain_means(Biased(), chains=200, draws=40, warmup=20)
    assert near(found["annotator"], biased[1]) and near(x, biased[2])


@pytest.mark.parametrize("moves", MOVES)
def test_gibbs_has_the_posterior_of_gains_by_importance_sampling(moves: str) -> None:
    oracle, rng, n = Oracle(rated(), 0.5), np.random.default_rng(0), 40_000
    tau, lam = rng.gamma(3.0, 1.0, (n, 2)), rng.gamma(3.0, 1 / 3, n)
    gain = 1 + rng.standard_normal((n, 2)) / np.sqrt(2 * tau)
    shared = (oracle.same_item + 1) / lam[:, None, None]  # of labels of an item, and by the unknown mean
    log_p, solved = oracle.solved(oracle.covariance(gain, tau, shared))
    weight = np.exp(log_p - log_p.max()) / np.exp(log_p - log_p.max()).sum()
    bias = np.einsum("ws,as->wa", solved, oracle.who == np.arange(2)[:, None]) / (0.5 * tau)
    own = np.stack([gain, bias, tau], -1)
    mu = (gain[:, oracle.who] * solved).sum(-1) / lam
    found, _ = chain_means(Gained(moves=MOVES[moves]), chains=200, draws=60, warmup=40)
    for name, q in (("annotator", own), ("values", np.stack([mu, lam], -1))):
        wanted = np.tensordot(weight, q, 1)
        error = np.sqrt(np.tensordot(weight**2, (q - wanted) ** 2, 1))
        assert error.max() < 0.03 and near(found[name], wanted, error)


def test_vb_never_falls_and_bounds_the_evidence(biased: tuple[float, np.ndarray, np.ndarray]) -> None:
    (run,) = run_starts(problem_of(Biased(), rated(), tolerance=1e-13, max_iterations=500), VB)
    assert biased[0] - 2 < run.progress.objectives[-1] < biased[0]
    for model in (Biased(), Gained()):
        (run,) = run_starts(problem_of(model, simulated(40, 6).data, tolerance=0.0, max_iterations=60), VB)
        x = np.array(run.progress.objectives)
        assert np.diff(x).min() >= -1e-9 * np.abs(x).max()


def test_em_has_the_mode_of_the_posterior() -> None:
    problem, oracle = problem_of(Biased(), rated(), tolerance=1e-15, max_iterations=5000), Oracle(rated(), 0.5)

    def loss(at: np.ndarray) -> float:
        bias, tau = at[:2], np.exp(at[2:])
        covariance = oracle.same_item + np.diag(1 / tau[oracle.who])
        value = stats.multivariate_normal(bias[oracle.who], covariance).logpdf(oracle.y)
        value += stats.gamma(3.0, scale=1.0).logpdf(tau).sum()
        return -float(value + stats.norm(0, 1 / np.sqrt(0.5 * tau)).logpdf(bias).sum())

    wanted = optimize.minimize(loss, np.zeros(4), tol=1e-10).x
    (run,) = run_starts(problem, EM)
    x = np.array(run.progress.objectives)
    assert np.diff(x).min() >= -1e-9 * np.abs(x).max()
    found = problem.sites["annotator"].value(run.state.parameters["annotator"]).numpy()
    np.testing.assert_allclose(found, np.stack([wanted[:2], np.exp(wanted[2:])], -1), rtol=1e-4, atol=1e-4)


def test_priors_without_a_mode_are_refused_by_name() -> None:
    with pytest.raises(MethodError, match="annotator"):
        EM.start(problem_of(Biased(concentration=0.4), rated()))
    EM.start(problem_of(Biased(concentration=0.5), rated()))
    with pytest.raises(MethodError, match="rate"):
        problem_of(Biased(rate=0.0), rated())


@pytest.mark.parametrize(("model", "data"), [(Gained(), rated()), (Luce(), annotations(LABELS, 2))])
def test_the_slopes_along_which_nuts_moves_are_the_densitys(model: Any, data: Annotations) -> None:
    target = Target(problem_of(model, data), "nuts")
    at, step = target.start() + 0.3, 1e-5
    value, slope = target.value_and_slope(at)
    torch.testing.assert_close(target.many(at[None])[0], value)
    ends = (target.many(at + sign * step * torch.eye(len(at))) for sign in (1, -1))
    torch.testing.assert_close(slope, (next(ends) - next(ends)) / (2 * step), atol=1e-6, rtol=1e-6)


def test_blocks_of_items_add_up() -> None:
    data = simulated(30, 5).data
    problems = problem_of(Gained(), data), problem_of(Gained(), split(data, 3))
    state = VB.start(problems[0])
    one, other = (VB.at(problem, state).expected_counts() for problem in problems)
    for name, x in one.items():
        torch.testing.assert_close(x, other[name])


@pytest.mark.parametrize(
    "engine", ["em", "vb", "gibbs", "laplace", *(pytest.param(x, marks=pytest.mark.slow) for x in ("nuts", "svi"))]
)
def test_every_engine_fits_it_and_results_can_be_asked_saved_and_exported(engine: str, tmp_path: Path) -> None:
    chains = 1 if engine == "nuts" else 2
    short: dict[str, Any] = {"chains": chains, "draws": 20, "warmup": 15, "max_iterations": 100}
    drawn = simulated(40, 4)
    found = crowdppl.fit(Gained(), drawn.data, inference=engine, seed=0, **used_by(engine, short))
    plain = drawn.data.frame().groupby("item")["label"].mean()  # the level of all is known by the prior alone
    assert crowdppl.evaluate(found, drawn.truth).correlation > np.corrcoef(plain, drawn.truth)[0, 1] + 0.02
    found.save(tmp_path / "gained")
    again = crowdppl.load(tmp_path / "gained", model=Gained())
    pd.testing.assert_frame_equal(again.truth(), found.truth())
    site = found.result.sites["annotator"]
    assert np.array_equal(again.result.sites["annotator"].mean, site.mean)
    assert np.corrcoef(site.mean[:, 1], drawn.parameters["annotator"][:, 1])[0, 1] > 0.9
    if engine != "em":
        exported = found.to_arviz()
        assert exported.posterior["annotator"].dims[:3] == ("chain", "draw", "annotator")
        np.testing.assert_allclose(exported.constant_data["truth_mean"], found.result.truth.mean)
