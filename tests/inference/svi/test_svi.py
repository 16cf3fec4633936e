"""svi is plain Pyro with the method's guide: near vb's labels, a point for maximum likelihood, no half guides."""

from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.data.blocks import Block
from crowdppl.errors import MethodError, NumericalError
from crowdppl.inference.fit import fit_one
from crowdppl.inference.options import Options
from crowdppl.inference.result import FitResult
from crowdppl.inference.svi import svi
from crowdppl.primitives import annotate, plates, prevalence, truth
from tests.crowd import crowd

SETTINGS: dict[str, dict[str, Any]] = {
    "dependent_clusters": {"groups": [0, 1, 0, 2, 1, 3]},
    "coin_net": {"nominal": 99.0},  # with many outliers, truths stay in doubt
}
KINDS = ["mace", "dependent_clusters", "coin_net", "glad"]
"""Coins, one-hot latents, outliers, latents of items; the contract runs svi on all methods."""


def fitted(model: Any, data: Annotations, engine: str, **options: Any) -> FitResult:
    return fit_one(model, data, engine, Options(**options)).result


def last(result: FitResult) -> float:
    """Mean objective over the last tenth of the steps."""
    objectives = result.diagnostics["objectives"]
    return float(np.mean(objectives[-(len(objectives) // 10) :]))


@pytest.mark.parametrize("more", [{}, {"batch_size": 10}])
def test_a_call_after_one_that_ended_gives_the_same_bits(more: dict[str, Any]) -> None:
    """Whatever the first left in Pyro's store and in torch's stream."""
    data, before = crowd(30, 5, 3, 4), torch.get_rng_state()
    one, two = (
        crowdppl.fit("one_coin", data, inference="svi", seed=0, max_iterations=20, **more) for _ in range(2)
    )
    assert one.diagnostics()["objectives"] == two.diagnostics()["objectives"]
    np.testing.assert_array_equal(one.probabilities(), two.probabilities())
    torch.rand(3)
    other = crowdppl.fit("bayesian_dawid_skene", data, inference="svi", seed=1, max_iterations=5, **more)
    assert (other.probabilities().to_numpy() != one.probabilities().to_numpy()).any()
    third = crowdppl.fit("one_coin", data, inference="svi", seed=0, max_iterations=20, **more)
    np.testing.assert_array_equal(one.probabilities(), third.probabilities())
    torch.set_rng_state(before)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_label_probabilities_are_near_those_of_vb(name: str) -> None:
    # svi sums the truth out, vb's mean field does not: the two agree as labels leave little doubt.
    data = crowd(200, 6, 3, 6, seed=12)
    model = crowdppl.method(name, **SETTINGS.get(name, {}))
    one, two = (
        fitted(model, data, "svi", max_iterations=250, learning_rate=0.1),
        fitted(model, data, "vb", tolerance=1e-10),
    )
    assert np.abs(one.probabilities - two.probabilities).mean() < 0.02
    assert one.table.shape == two.table.shape


@pytest.mark.slow
def test_dawid_skene_is_fitted_by_a_point_the_maximum_of_em() -> None:
    data = crowd(60, 6, 3, 5, seed=12)
    one = fitted(crowdppl.method("dawid_skene"), data, "svi", max_iterations=400, learning_rate=0.1)
    two = fitted(crowdppl.method("dawid_skene"), data, "em", tolerance=1e-12)
    assert {s.family for s in one.sites.values()} == {"point"}
    assert one.table_draws is None and one.probability_sd is None
    assert np.abs(one.probabilities - two.probabilities).max() < 0.02
    # Pyro's loss has the constants of the flat priors, em's objective has not.
    n_annotators, k = 6, 3
    constants = (n_annotators * k + 1) * float(torch.lgamma(torch.tensor(float(k))))
    assert abs(one.diagnostics["objective"] - constants - two.diagnostics["objective"]) < 0.5


class HalfGuided:
    """A model whose guide forgets the confusion, which plain Pyro would silently draw from its prior."""

    def model(self, data: Block) -> None:
        log_p = prevalence(data)
        with plates.annotators(data):
            rows = torch.ones(data.n_classes, data.n_classes) + 2 * torch.eye(data.n_classes)
            confusion = pyro.sample("confusion", dist.Dirichlet(rows).to_event(1))
        with plates.items(data):
            annotate(data, confusion.log(), truth(data, log_p))

    def guide(self, data: Block) -> None:
        c = pyro.param("c", torch.ones(data.n_classes), constraint=dist.constraints.positive)
        pyro.sample("prevalence", dist.Dirichlet(c))


def test_a_guide_that_lacks_a_latent_is_refused_by_name() -> None:
    with pytest.raises(MethodError, match=r"the guide of HalfGuided lacks confusion"):
        fitted(HalfGuided(), crowd(20, 4, 3, 3), "svi", max_iterations=3)


def test_the_same_seed_gives_the_same_fit_and_leaves_no_trace_in_pyro() -> None:
    data = crowd(20, 4, 3, 3)
    pyro.param("mine", torch.tensor(1.0))
    state = torch.random.get_rng_state()
    one, two, other = (
        fitted(crowdppl.method("one_coin"), data, "svi", max_iterations=20, seed=s) for s in (1, 1, 2)
    )
    assert np.array_equal(one.probabilities, two.probabilities)
    assert not np.array_equal(one.probabilities, other.probabilities)
    assert list(pyro.get_param_store()) == ["mine"]
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.slow
def test_minibatches_of_items_scale_to_all() -> None:
    data = crowd(200, 6, 3, 5, seed=12)
    model = crowdppl.method("bayesian_dawid_skene")
    one = fitted(model, data, "svi", max_iterations=500, learning_rate=0.03, batch_size=50)
    two = fitted(model, data, "vb")
    assert np.abs(one.probabilities - two.probabilities).mean() < 0.02


def test_what_is_not_finite_is_an_error_that_names_the_parameter() -> None:
    name, rate = "one_coin", 1e9
    with pytest.raises(NumericalError, match="concentration"):
        fitted(crowdppl.method(name), crowdppl.anaesthetists(), "svi", max_iterations=40, learning_rate=rate)


def test_a_handful_of_steps_is_never_called_converged() -> None:
    steps = 99
    result = fitted(crowdppl.method("one_coin"), crowd(20, 4, 3, 3), "svi", max_iterations=steps)
    assert result.diagnostics["converged"] is False


def test_converged_is_what_gains_less_than_the_tolerance_or_than_chance() -> None:
    noise = np.random.default_rng(1).normal(size=1000)
    rising = np.linspace(-2000.0, -1000.0, 1000)
    assert svi._converged(list(-1000 + 5 * noise), 1e-8)
    assert not svi._converged(list(rising + noise), 1e-3)
    assert svi._converged(list(rising), 0.2)


def test_a_start_is_where_the_guide_begins_and_arrays_are_taken() -> None:
    data, model = crowd(40, 5, 3, 4), crowdppl.method("dawid_skene")
    rolled = np.roll(data.votes()[data.order], 1, axis=1) + 0.01
    shares = rolled / rolled.sum(1, keepdims=True)
    found = fit_one(model, data, "svi", Options(max_iterations=2), {"truth": shares}).result
    agree = found.probabilities.argmax(1) == np.roll(data.votes(), 1, axis=1).argmax(1)
    assert agree.mean() > 0.8


def test_of_several_starts_the_best_is_kept() -> None:
    data = crowd(20, 6, 3, 3, seed=4)
    one, best = (fitted(crowdppl.method("dawid_skene"), data, "svi", restarts=n, max_iterations=30) for n in (1, 4))
    assert last(best) > last(one)
