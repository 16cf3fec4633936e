"""NUTS: the density that it follows is Pyro's own, its means are the exact ones, and divergences are told."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer.mcmc.util import initialize_model
from scipy.special import logsumexp
from torch import Tensor
from torch.nn.functional import logsigmoid

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.data.blocks import Block
from crowdppl.errors import ConvergenceWarning, MethodError
from crowdppl.inference.fit import fit_one
from crowdppl.inference.mcmc import gibbs, nuts
from crowdppl.inference.options import Options
from crowdppl.inference.target import Target
from crowdppl.primitives import annotate, coin_table, plates, prevalence, truth
from crowdppl.primitives.model import card_of, plates_of
from tests.crowd import annotations, crowd, double, problem_of
from tests.evidence import SETTINGS as PINNED
from tests.evidence import STATES, exact

SETTINGS: dict[str, dict[str, Any]] = {"dependent_clusters": {"groups": [0, 1, 0, 2, 1]}}
DISCRETE = {"community", "drifting_coin"}  # one-hot sites cannot be summed out
ZOO = [n for n in crowdppl.registry.names_for("nominal") if card_of(crowdppl.method(n)).refusal("nuts") is None]
LABELS = [(0, 0, 0), (0, 1, 0), (1, 0, 1), (1, 0, 0), (1, 2, 1), (2, 1, 1), (2, 2, 1), (3, 1, 0), (3, 2, 1)]


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with double():
        yield


@pytest.mark.parametrize("name", sorted(set(ZOO) - DISCRETE))
def test_the_potential_is_pyros_own_with_its_gradient(name: str) -> None:
    problem = problem_of(crowdppl.method(name, **SETTINGS.get(name, {})), crowd(8, 5, 3, 3))
    target = Target(problem, "nuts")
    torch.manual_seed(0)
    first, theirs, constrain, _ = initialize_model(
        problem.model.model, (problem.blocks[0],), max_plate_nesting=plates_of(problem.model)
    )
    assert first.keys() == problem.sites.keys()

    def mine(u: dict[str, Tensor]) -> Tensor:
        """The engine's potential at Pyro's unconstrained position, whose coordinates may be other ones."""
        here, change = {}, torch.zeros(())
        for n, site in problem.sites.items():
            x = constrain[n].inv(u[n])
            here[n] = site.transform.inv(x)
            change = change + site.transform.log_abs_det_jacobian(here[n], x).sum()
            change = change - constrain[n].inv.log_abs_det_jacobian(u[n], x).sum()
        return nuts.potential(target, here) + change

    for _ in range(2):
        u = {n: x.detach().clone().requires_grad_() for n, x in first.items()}
        a, b = mine(u), theirs(u)
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)
        found, wanted = (torch.autograd.grad(x, list(u.values())) for x in (a, b))
        for one, two in zip(found, wanted, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-8, atol=1e-8)
        first = {n: x + 0.7 * torch.randn_like(x) for n, x in first.items()}


def draws_of(engine: Any, model: Any, data: Annotations, **options: Any) -> dict[str, np.ndarray]:
    """Draws (C, D, *site) of Dirichlet sites as probabilities."""
    problem = problem_of(model, data, **options)
    draws = engine.sample(problem)[0]
    out = {}
    for name, x in draws.items():
        x = x.exp() if problem.sites[name].kind == "conjugate" else x
        out[name] = x.reshape(*x.shape[:2], *problem.sites[name].shape(problem.n_items)).numpy()
    return out


def error(x: np.ndarray) -> np.ndarray:
    """Standard error of the mean over all chains, from 8 batches of each."""
    length = x.shape[1] // 8 * 8
    means = x[:, :length].reshape(x.shape[0] * 8, -1, *x.shape[2:]).mean(1)
    return np.asarray(means.std(0, ddof=1) / len(means) ** 0.5)


@pytest.mark.slow
def test_moments_are_those_of_the_exact_posterior() -> None:
    """With 15 degrees of freedom an error beyond 5 has chance 2e-4 for each of 28 numbers."""
    model = crowdppl.method("bayesian_dawid_skene", **PINNED["bayesian_dawid_skene"])
    wanted = exact(STATES["bayesian_dawid_skene"](LABELS, 2), 2)
    draws = draws_of(nuts, model, annotations(LABELS, 2), chains=2, draws=96, warmup=50)
    for power, moments in ((1, wanted.mean), (2, wanted.square)):
        for site, moment in moments.items():
            x = draws[site] ** power
            assert error(x).max() < 0.07
            assert (np.abs(x.mean((0, 1)) - moment) < 5 * error(x)).all()


@pytest.mark.slow
def test_means_are_those_of_gibbs_where_a_site_is_not_conjugate() -> None:
    """Every site: means within 5 Monte Carlo errors of the difference, classes well apart."""
    data = crowd(10, 3, 2, 3, seed=11)
    model = crowdppl.method("hierarchical_dawid_skene", right=8.0, wrong=2.0, typical=6.0)
    one = draws_of(nuts, model, data, chains=2, draws=64, warmup=40)
    two = draws_of(gibbs, model, data, chains=40, draws=120, warmup=80)
    for site in two:
        a, b = (np.log(x[site]) if site == "concentration" else x[site] for x in (one, two))
        both = np.hypot(error(a), error(b))
        assert both.max() < (0.25 if site == "concentration" else 0.05)
        assert (np.abs(a.mean((0, 1)) - b.mean((0, 1))) < 5 * both).all(), site


def test_the_callback_and_the_diagnostics_hear_the_log_density_of_every_transition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    energies: set[float] = set()
    potential = nuts.potential

    def spied(target: Target, at: dict[str, Tensor]) -> Tensor:
        found = potential(target, at)
        energies.add(float(found.detach()))
        return found

    monkeypatch.setattr(nuts, "potential", spied)
    heard: list[tuple[int, float]] = []
    options = Options(chains=2, draws=5, warmup=4, callback=lambda *said: heard.append(said))
    model, data = crowdppl.method("one_coin"), crowd(10, 3, 2, 3)
    with pytest.warns(ConvergenceWarning):
        said = fit_one(model, data, "nuts", options).result.diagnostics
    assert [number for number, _ in heard] == list(range(18))
    assert [value for _, value in heard] == said["objectives"] and np.isfinite(said["objectives"]).all()
    assert said["iterations"] == 18 and said["objective"] == said["objectives"][-1]
    assert {-x for x in said["objectives"]} <= energies


@pytest.mark.parametrize("engine", ["gibbs", "nuts"])
def test_samplers_refuse_minibatches(engine: str) -> None:
    with pytest.raises(MethodError, match="batch_size=5"):
        fit_one(crowdppl.method("one_coin"), crowd(10, 3, 2, 3), engine, Options(batch_size=5))


class Funnel:
    """Abilities whose spread is unknown and hardly informed: a funnel that no step size fits."""

    def model(self, data: Block) -> None:
        log_p = prevalence(data, "uniform")
        spread = pyro.sample("spread", dist.Normal(0.0, 1.0))
        with plates.annotators(data):
            ability = pyro.sample("ability", dist.Normal(0.0, (6 * spread).exp()))
        coin = torch.stack([logsigmoid(ability), logsigmoid(-ability)], -1).unsqueeze(-2)
        with plates.items(data):
            annotate(data, coin_table(coin, data.n_classes), truth(data, log_p))


@pytest.mark.slow
def test_divergences_are_counted_by_chain_and_warned_of() -> None:
    options = Options(chains=2, draws=30, warmup=20)
    with pytest.warns(ConvergenceWarning, match="divergent"):
        found = fit_one(Funnel(), annotations(LABELS, 2), "nuts", options)
    assert found.inference == "nuts"
    divergences = found.result.diagnostics["divergences"]
    assert divergences.keys() == {"chain 0", "chain 1"} and sum(divergences.values()) > 0


def test_a_site_that_cannot_be_summed_out_is_refused_by_name() -> None:
    with pytest.raises(MethodError, match="community"):
        Target(problem_of(crowdppl.method("community"), crowd(8, 5, 3, 3)), "nuts")


def test_the_oracle_of_this_file_adds_up() -> None:
    """exact() against one integral in closed form: a single label, K = 2, everything symmetric."""
    found = exact(STATES["bayesian_dawid_skene"]([(0, 0, 0)], 2), 2)
    np.testing.assert_allclose(found.log_evidence, logsumexp([np.log(0.5 * 0.61), np.log(0.5 * 0.39)]))
    np.testing.assert_allclose(found.truth, [[0.61, 0.39]])
