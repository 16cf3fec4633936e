"""What priors say of a fit: conjugate sites that move with the parameters of their priors."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch
from torch import Tensor

import crowdppl
from crowdppl.inference.vb.coordinate_ascent import Ascent, Evaluated, MeanFieldUpdate, State
from crowdppl.inference.vb.fit import prepare
from tests.crowd import crowd, posed

pytestmark = pytest.mark.filterwarnings("ignore::crowdppl.errors.CrowdpplWarning")


def begun(name: str = "hierarchical_dawid_skene", **settings: float) -> Ascent:
    problem = posed(crowdppl.method(name, **settings), crowd(30, 5, 4, 3))
    return prepare(problem, problem.options, "vb", problem.start(0)[1])


def counts_of(ascent: Ascent) -> dict[str, Tensor]:
    _, total, _ = ascent.evaluate()
    share = ascent.full_pass.density.chains or 1
    return {name: total.gradient[name] / share for name in ascent.state.parameters}


def under(ascent: Ascent, parameters: Mapping[str, Tensor], counts: Mapping[str, Tensor]) -> float:
    """The objective under a truth that stays as it is, but for what does not depend on conjugate sites."""
    state = State(dict(parameters), ascent.state.logits, ascent.state.gaussians)
    terms = Evaluated(ascent.full_pass, MeanFieldUpdate(), state)
    logs = {name: x.digamma() - x.sum(-1, keepdim=True).digamma() for name, x in parameters.items()}
    said = sum(float((counts[name] * x).sum()) for name, x in logs.items())
    return said + float(terms.dirichlet_terms(terms.prior_sites()))


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
    ascent = begun(name, **settings)
    counts = counts_of(ascent)
    current = ascent.current
    trace = current.prior_sites()
    most = float(current.collapsed_terms(trace, counts))
    best = {n: prior + counts[n] for n, prior in current.prior_parameters(trace).items()}
    assert under(ascent, best, counts) == pytest.approx(most, rel=1e-10)
    for step in (0.9, 1.1):
        assert under(ascent, {n: x * step for n, x in best.items()}, counts) < most - 1e-3


def test_a_search_ends_where_conjugate_sites_have_followed() -> None:
    ascent = begun()
    before, _, priors = ascent.evaluate()
    ascent.step()
    after = ascent.current.prior_parameters(ascent.current.prior_sites())
    assert not torch.allclose(after["confusion"], priors["confusion"])
    left = ascent.state.parameters["confusion"] - after["confusion"]
    assert left.min() > -1e-9
    assert float(left.sum()) == pytest.approx(90)  # labels, each counted once
    assert ascent.evaluate()[0] > before
