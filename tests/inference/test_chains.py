"""Models that are right for one value of a site and not for several are refused, with the line to write."""

import re
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

import crowdppl
import crowdppl.primitives as cp
from crowdppl.errors import MethodError
from tests.crowd import crowd

FITS: dict[str, dict[str, Any]] = {
    "vb": {"max_iterations": 5},
    "gibbs": {"chains": 3, "draws": 4, "warmup": 4},
    "nuts": {"chains": 2, "draws": 4, "warmup": 1},
    "svi": {"max_iterations": 5},
}


class Sharing:
    """Shares of knowing and guessing, drawn outside plates and read as for one value, or from the right."""

    def __init__(self, *, right: bool) -> None:
        self.right = right

    def read(self, share: Tensor, j: int) -> Tensor:
        return share[..., j, None, None] if self.right else share[j]

    def model(self, data: cp.Block) -> None:
        k = data.n_classes
        share = pyro.sample("share", dist.Dirichlet(torch.ones(2)))
        with cp.plates.annotators(data):
            rows = pyro.sample("rows", dist.Dirichlet(1 + torch.eye(k)).to_event(1))
        table = self.read(share, 0) * rows + self.read(share, 1) / k
        with cp.plates.items(data):
            cp.annotate(data, table.log(), cp.truth(data, cp.prevalence(data)))


class Summing(Sharing):
    """One row of guesses, made to sum to one over everything that ``sum()`` sees; all shapes fit."""

    def model(self, data: cp.Block) -> None:
        k = data.n_classes
        guess = pyro.sample("guess", dist.Gamma(2.0, 1.0).expand([k]).to_event(1))
        row = guess / (guess.sum(-1, keepdim=True) if self.right else guess.sum())
        with cp.plates.annotators(data):
            know = pyro.sample("know", dist.Beta(2.0, 1.0))[..., None, None]
        table = know * torch.eye(k) + (1 - know) * row[..., None, :]
        with cp.plates.items(data):
            cp.annotate(data, table.log(), cp.truth(data, cp.prevalence(data)))


class Pooling(Sharing):
    """A number outside plates that strengthens a table outside plates; ``gibbs`` treats it."""

    def model(self, data: cp.Block) -> None:
        k = data.n_classes
        crowd = pyro.sample("crowd", dist.Dirichlet(1 + torch.eye(k)).to_event(1))
        strength = pyro.sample("strength", dist.Gamma(2.0, 0.5))
        rows = 1 + (strength[..., None, None] if self.right else strength) * crowd
        with cp.plates.annotators(data):
            confusion = pyro.sample("confusion", dist.Dirichlet(rows).to_event(1))
        with cp.plates.items(data):
            cp.annotate(data, confusion.log(), cp.truth(data, cp.prevalence(data)))


CASES = [
    (Sharing, ("svi",), "share[..., 0, None, None]"),
    (Summing, ("vb", "nuts"), "guess.sum(-1, keepdim=True)"),
    (Pooling, ("vb", "gibbs"), "strength[..., None, None]"),
]


@pytest.mark.parametrize(("model", "engine", "line"), [(m, e, line) for m, engines, line in CASES for e in engines])
def test_the_refusal_shows_the_line_and_the_line_mends_it(model: type[Sharing], engine: str, line: str) -> None:
    data = crowd(12, 4, 3, 3, seed=1)
    with pytest.raises(MethodError, match=re.escape(line)):
        crowdppl.fit(model(right=False), data, inference=engine, seed=0, **FITS[engine])
    crowdppl.fit(model(right=True), data, inference=engine, seed=0, **FITS[engine])


def test_engines_that_give_one_value_take_such_models() -> None:
    data = crowd(12, 4, 3, 3, seed=1)
    one, two = (
        crowdppl.fit(Summing(right=x), data, inference="em", max_iterations=5).probabilities()
        for x in (True, False)
    )
    assert one.equals(two)
