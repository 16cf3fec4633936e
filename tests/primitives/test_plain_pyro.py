"""What plain Pyro asks of the words of a model beside sampling and scoring."""

from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import torch
from pyro.infer import TraceEnum_ELBO

import crowdppl


def test_compute_marginals_has_the_truth_given_a_point() -> None:
    data = crowdppl.anaesthetists()
    fitted = crowdppl.fit("one_coin", data, inference="em", tolerance=1e-12)
    ability = torch.tensor(fitted.site("ability").values)

    def guide(given: Any) -> None:
        with crowdppl.primitives.plates.annotators(given):
            pyro.sample("ability", dist.Delta(ability).to_event(1))

    elbo = TraceEnum_ELBO(max_plate_nesting=1)
    found = elbo.compute_marginals(crowdppl.method("one_coin").model, guide, data)["truth"].probs
    np.testing.assert_allclose(found[data.order.argsort()], fitted.probabilities(), atol=1e-6)
