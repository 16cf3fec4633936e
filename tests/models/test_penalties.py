"""What priors say of a fit: conjugate sites that move with the parameters of their priors."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import crowdppl
from crowdppl.inference.vb.coordinate_ascent import VB, Evaluated
from tests.crowd import crowd, problem_of


def begun(name: str = "hierarchical_dawid_skene", **settings: float) -> Evaluated:
    problem = problem_of(crowdppl.method(name, **settings), crowd(30, 5, 4, 3))
    return VB.at(problem, VB.start(problem))


def counts_of(at: Evaluated) -> dict[str, Tensor]:
    _, total, _ = at.evaluate()
    return {name: total.gradient[name] / at.particles for name in at.state.parameters}


def under(at: Evaluated, parameters: Mapping[str, Tensor], counts: Mapping[str, Tensor]) -> float:
    """The objective under a truth that stays as it is, but for what does not depend on conjugate sites."""
    terms = replace(at, state=replace(at.state, parameters=dict(parameters)))
    logs = {name: x.digamma() - x.sum(-1, keepdim=True).digamma() for name, x in parameters.items()}
    said = sum(float((counts[name] * x).sum()) for name, x in logs.items())
    return said + float(terms.conjugate_terms(terms.prior_sites()))


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("hierarchical_dawid_skene", {}),
        ("bayes_dgc", {"crowd_prior_strength": 14.0, "likelihood_power": 0.5}),
        ("community", {}),
    ],
)
def test_collapsed_is_the_most_that_the_objective_can_be(name: str, settings: dict[str, float]) -> None:
    """Of all Dirichlets, prior + counts has the highest value, and it is the collapsed one."""
    current = begun(name, **settings)
    counts = counts_of(current)
    trace = current.prior_sites()
    most = float(current.collapsed_terms(trace, counts))
    best = {n: prior + counts[n] for n, prior in current.prior_parameters(trace).items()}
    assert under(current, best, counts) == pytest.approx(most, rel=1e-10)
    for step in (0.9, 1.1):
        assert under(current, {n: x * step for n, x in best.items()}, counts) < most - 1e-3


def test_a_search_ends_where_conjugate_sites_have_followed() -> None:
    first = begun()
    before, _, priors = first.evaluate()
    state, _ = VB.step(first.problem, first.state)
    second = VB.at(first.problem, state)
    after = second.prior_parameters(second.prior_sites())
    assert not torch.allclose(after["confusion"], priors["confusion"])
    left = state.parameters["confusion"] - after["confusion"]
    assert left.min() > -1e-9
    assert float(left.sum()) == pytest.approx(90)  # labels, each counted once
    assert second.evaluate()[0] > before
