"""One pass over a block, taken apart: reading a model, and summing its discrete sites out."""

from collections import OrderedDict
from collections.abc import Callable

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.ops.contract import contract_tensor_tree
from torch import Tensor

import crowdppl
from crowdppl.core.devices import seeded
from crowdppl.data.blocks import Block
from crowdppl.inference.density import DrawingRing, Terms, contract, named, trace_sites, traced

PATIENTS = crowdppl.anaesthetists()


def chain_of_truths(data: Block) -> None:
    """A model in which two truths follow each other, as Pyro's Markov chains do."""
    data = data.as_block()
    stay = pyro.sample("stay", dist.Dirichlet(torch.ones(2, 2)).to_event(1))
    before = torch.tensor(0)
    for t in pyro.markov(range(2)):
        before = pyro.sample(f"truth_{t}", dist.Categorical(stay[before]), infer={"enumerate": "parallel"})


def plain(model: Callable[[Block], None], block: Block, values: dict[str, Tensor]) -> poutine.Trace:
    model = poutine.enum(poutine.condition(model, data=values), first_available_dim=-2)
    return poutine.trace(model).get_trace(block)


@pytest.mark.parametrize("name", ["dawid_skene", "mace", "ebcc", "glad", "community"])
def test_a_model_is_read_as_by_pyros_own_handlers(name: str) -> None:
    model, block = crowdppl.method(name), PATIENTS.as_block()
    with seeded(0):
        first = trace_sites(poutine.trace(model.model).get_trace(block))
    given = {n: x.value for n, x in first.items() if not x.observed and not x.enumerated}
    ours, theirs = traced(model.model, block, given, 1), trace_sites(plain(model.model, block, given))
    assert list(ours) == list(theirs)
    for n, x in ours.items():
        other = theirs[n]
        assert (x.enum_dim, x.observed) == (other.enum_dim, other.observed)
        assert {plate.name for plate in x.plates} == {plate.name for plate in other.plates}
        torch.testing.assert_close(x.value, theirs[n].value)
        torch.testing.assert_close(x.fn.log_prob(x.value), theirs[n].fn.log_prob(theirs[n].value))


def test_a_markov_chain_is_enumerated_as_by_pyro() -> None:
    block, given = PATIENTS.as_block(), {"stay": torch.tensor([[0.9, 0.1], [0.2, 0.8]])}
    ours, theirs = (traced(chain_of_truths, block, given, 1), trace_sites(plain(chain_of_truths, block, given)))
    for n in ("truth_0", "truth_1"):
        assert ours[n].enum_dim == theirs[n].enum_dim
        assert ours[n].value.shape == theirs[n].value.shape


def factor(dims: str, sizes: dict[str, int], seed: int) -> Tensor:
    """A random factor over named dimensions; those that it lacks have size 1."""
    shape = [sizes[c] if c in dims else 1 for c in "dcba"]
    return named(torch.randn(shape, generator=torch.Generator().manual_seed(seed)).double(), torch.float64)


@pytest.mark.parametrize(
    "held, sums",
    [
        ({"a": ["ca", "c", "a", "ca"]}, "c"),  # a truth of items, its prior, and something without it
        ({"a": ["ca", "a"], "": [""]}, "c"),  # something outside the plates
        ({"a": ["ca"], "": ["c"]}, "c"),  # a site outside the plate of what hangs on it
        ({"a": ["ca", "da", "cda"]}, "cd"),
        ({"a": ["ca", "da"]}, "cd"),  # two that have nothing to do with each other
        ({"a": ["a"]}, ""),
    ],
)
def test_sums_are_those_of_pyros_contraction(held: dict[str, list[str]], sums: str) -> None:
    sizes = {"a": 5, "b": 2, "c": 3, "d": 4}

    def terms() -> Terms:
        seeds = iter(range(9))
        return OrderedDict(
            (frozenset(plates), [factor(dims, sizes, next(seeds)) for dims in found])
            for plates, found in held.items()
        )

    ring = DrawingRing(dim_to_size=sizes)
    theirs = contract_tensor_tree(terms(), set(sums), ring=ring)
    ours = contract(terms(), set(sums), sizes)
    for plates in {*ours, *theirs}:
        both = [sorted((x._pyro_dims, x.tolist()) for x in found.get(plates, ())) for found in (ours, theirs)]
        assert [dims for dims, _ in both[0]] == [dims for dims, _ in both[1]]
        for (_, mine), (_, pyros) in zip(*both, strict=True):
            np.testing.assert_allclose(mine, pyros, rtol=1e-12)
