"""A model that the library has never seen, with names of its own and a latent below the latent, under all engines.

shares          ~ Dirichlet(2)                          (K)
drift[k]        ~ Dirichlet(4 on k, else 1.5)           (K, K)
habit[a, h]     ~ Dirichlet(4 on h, else 1.5)           (A, K, K)
source[i]       ~ Categorical(shares)                   (N)
heard[i]        ~ Categorical(drift[source[i]])         (N)
said[i, a]      ~ Categorical(habit[a, heard[i]])
"""

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer import TraceEnum_ELBO
from pyro.infer.mcmc.util import initialize_model
from pyro.ops.indexing import Vindex
from torch import Tensor

from crowdppl.data.blocks import Block
from crowdppl.errors import MethodError
from crowdppl.inference.density import Density
from crowdppl.inference.families import FAMILIES
from crowdppl.inference.fit import fit_one
from crowdppl.inference.mcmc import gibbs, nuts
from crowdppl.inference.mcmc.gibbs import sample
from crowdppl.inference.options import Options
from crowdppl.inference.result import FitResult
from crowdppl.inference.target import Target
from crowdppl.inference.vb.coordinate_ascent import VB
from crowdppl.inference.vb.fit import run_starts
from crowdppl.primitives import Categorical, annotate, plates, prevalence, truth
from tests.crowd import ASCENTS, annotations, crowd, double, problem_of, split
from tests.evidence import Exact, State, exact

LABELS = [(0, 0, 0), (0, 1, 0), (1, 0, 1), (1, 0, 0), (1, 2, 1), (2, 1, 1), (2, 2, 1), (3, 1, 0), (3, 2, 1)]
ENUMERATED = {"enumerate": "parallel"}


def towards(k: int) -> Tensor:
    return 1.5 + 2.5 * torch.eye(k)


class Rumour:
    """No card, no settings, no guide, no start; the first site that is summed out is the truth."""

    def model(self, data: Block) -> None:
        k = data.n_classes
        shares = pyro.sample("shares", dist.Dirichlet(torch.full((k,), 2.0))).log()
        drift = pyro.sample("drift", dist.Dirichlet(towards(k)).to_event(1)).log()
        with plates.annotators(data):
            habit = pyro.sample("habit", dist.Dirichlet(towards(k)).to_event(1)).log()
        with plates.items(data):
            source = pyro.sample("source", Categorical(shares), infer=ENUMERATED)
            heard = pyro.sample("heard", Categorical(Vindex(drift)[..., source, :]), infer=ENUMERATED)
            annotate(data, habit, heard, name="said")


class Tempered(Rumour):
    """The same, but whoever wrote it lets Pyro renormalise the shares."""

    def model(self, data: Block) -> None:
        k = data.n_classes
        shares = pyro.sample("shares", dist.Dirichlet(torch.full((k,), 2.0)))
        with plates.annotators(data):
            habit = pyro.sample("habit", dist.Dirichlet(towards(k)).to_event(1)).log()
        with plates.items(data):
            source = pyro.sample("source", dist.Categorical(shares.square()), infer=ENUMERATED)
            annotate(data, habit, source, name="said")


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with double():
        yield


def values(seed: int, k: int = 3, n_annotators: int = 4) -> dict[str, Tensor]:
    torch.manual_seed(seed)
    shapes = {"shares": (k,), "drift": (k, k), "habit": (n_annotators, k, k)}
    return {n: torch.randn(s).softmax(-1) for n, s in shapes.items()}


def by_loops(v: dict[str, Tensor], data: Block) -> Tensor:
    """p(source = k, labels) item by item: (N, K)."""
    k = data.n_classes
    rows = []
    for i in range(data.n_items):
        given = [(int(a), int(x)) for j, a, x in zip(data.item, data.annotator, data.answer, strict=True) if j == i]
        row = []
        for s in range(k):
            total = torch.zeros(())
            for h in range(k):
                term = v["shares"][s] * v["drift"][s, h]
                for a, x in given:
                    term = term * v["habit"][a, h, x]
                total = total + term
            row.append(total)
        rows.append(torch.stack(row))
    return torch.stack(rows)


def test_value_counts_and_posterior_equal_a_plain_sum_in_each_of_three_chains() -> None:
    (block,) = crowd(6, 4, 3, 3).blocks
    draws = [values(s) for s in range(3)]
    wide = {n: torch.stack([v[n].log() for v in draws]) for n in draws[0]}
    wide |= {n: wide[n].unsqueeze(1) for n in ("shares", "drift")}  # outside of plates
    density = Density(Rumour().model, 1, 3, dict.fromkeys(wide, FAMILIES["dirichlet"]))
    found = density(block, wide, gradient=list(wide), marginals=("source",))
    for c, v in enumerate(draws):
        leaf = {n: x.log().requires_grad_() for n, x in v.items()}
        both = by_loops({n: x.exp() for n, x in leaf.items()}, block)
        torch.testing.assert_close(found.per_item[c], both.sum(-1).log(), rtol=1e-10, atol=1e-10)
        share = both / both.sum(-1, keepdim=True)
        torch.testing.assert_close(found.marginals["source"][:, c].t(), share, rtol=1e-10, atol=1e-10)
        counts = torch.autograd.grad(both.sum(-1).log().sum(), list(leaf.values()))
        for n, g in zip(leaf, counts, strict=True):
            torch.testing.assert_close(found.gradient[n][c].reshape(g.shape), g, rtol=1e-10, atol=1e-10)
        model = poutine.block(poutine.condition(Rumour().model, data=v), hide=list(v))
        pyros = -TraceEnum_ELBO(max_plate_nesting=1).loss(model, lambda data: None, block)
        assert abs(pyros - float(found.objective[c].detach())) < 1e-9


def test_its_sites_are_recognised() -> None:
    problem = problem_of(Rumour(), crowd(20, 4, 3, 3))
    assert {n: s.kind for n, s in problem.sites.items()} == dict.fromkeys(("shares", "drift", "habit"), "conjugate")
    assert problem.truth == "source"


@pytest.mark.parametrize("engine", ["em", "vb"])
def test_em_and_vb_never_fall_and_blocks_change_nothing(engine: str) -> None:
    data = crowd(40, 5, 3, 4, seed=1)
    objectives = []
    for some in (data, split(data, 3)):
        problem = problem_of(Rumour(), some, max_iterations=24, tolerance=0.0, restarts=2)
        for one in run_starts(problem, ASCENTS[engine]):
            x = np.array(one.progress.objectives)
            assert np.diff(x).min() >= -1e-9 * np.abs(x).max()
        objectives.append(one.progress.objectives)
    lengths = [len(x) for x in objectives]
    assert min(lengths) > 20
    assert engine == "vb" or lengths[0] == lengths[1]  # vb looks ahead, and the last digit says when that pays
    shortest = min(lengths)
    np.testing.assert_allclose(*(x[:shortest] for x in objectives), rtol=1e-9)


def enumerated() -> Exact:
    """Every source and every hearing of four items, Dirichlets integrated out."""

    def states() -> Iterator[State]:
        lean = towards(2).numpy()
        for source in product(range(2), repeat=4):
            for heard in product(range(2), repeat=4):
                drift, habit = np.zeros((2, 2)), np.zeros((3, 2, 2))
                np.add.at(drift, (list(source), list(heard)), 1)
                for i, a, x in LABELS:
                    habit[a, heard[i], x] += 1
                shares = np.bincount(source, minlength=2).astype(float)
                wide = np.broadcast_to(lean, (3, 2, 2))
                rows = {"shares": (np.full(2, 2.0), shares), "drift": (lean, drift), "habit": (wide, habit)}
                yield source, rows, 0.0

    return exact(states(), 2)


def test_gibbs_has_the_exact_posterior_and_vb_bounds_its_evidence() -> None:
    """With 95 degrees of freedom an error of the mean over chains beyond 4.3 has chance 4e-5 for each of 36."""
    wanted = enumerated()
    problem = problem_of(Rumour(), annotations(LABELS, 2), chains=96, draws=75, warmup=40)
    draws, *_ = sample(problem)
    for site, x in draws.items():
        y = x.exp().reshape(96, 75, *problem.sites[site].shape(4)).numpy()
        for power, moment in ((1, wanted.mean[site]), (2, wanted.square[site])):
            means = (y**power).mean(1)
            error = means.std(0, ddof=1) / 96**0.5
            assert error.max() < 0.02
            assert (np.abs(means.mean(0) - moment) <= 4.3 * error).all()
    (one,) = run_starts(problem, VB)
    bound = float(VB.at(problem, one.state).evaluate()[0])
    assert wanted.log_evidence - 4 < bound < wanted.log_evidence


def test_nuts_follows_pyros_own_density() -> None:
    problem = problem_of(Rumour(), crowd(6, 4, 3, 3))
    torch.manual_seed(0)
    u, theirs, constrain, _ = initialize_model(problem.model.model, (problem.blocks[0],), max_plate_nesting=1)
    here, change = {}, torch.zeros(())
    for n, site in problem.sites.items():
        x = constrain[n].inv(u[n])
        here[n] = site.transform.inv(x)
        change = change + site.transform.log_abs_det_jacobian(here[n], x).sum()
        change = change - constrain[n].inv.log_abs_det_jacobian(u[n], x).sum()
    found = nuts.potential(Target(problem, "nuts"), here) + change
    torch.testing.assert_close(found, theirs(u), rtol=1e-10, atol=1e-10)


def fitted(engine: str, **options: int) -> FitResult:
    return fit_one(Rumour(), crowd(60, 6, 3, 5, seed=2), engine, Options(**options)).result


# Points, samples and mean fields differ, most where 30 draws or 400 steps have to do.
NEAR = {"em": 0.12, "gibbs": 0.12, "nuts": 0.2, "svi": 0.06}


@pytest.mark.slow
def test_every_engine_gives_about_the_same_truths() -> None:
    vb = fitted("vb")
    assert vb.probabilities.shape == (60, 3) and vb.table.shape == (6, 3, 3)
    np.testing.assert_allclose(vb.probabilities.sum(1), 1, atol=1e-9)
    others = {
        "em": fitted("em"),
        "gibbs": fitted("gibbs", draws=150, warmup=50),
        "nuts": fitted("nuts", chains=1, draws=30, warmup=25),
        "svi": fitted("svi", max_iterations=400),
    }
    for engine, result in others.items():
        assert result.sites.keys() == {"shares", "drift", "habit"}
        apart = np.abs(result.probabilities - vb.probabilities).mean()
        assert apart < NEAR[engine], (engine, apart)


def test_what_renormalises_is_found_out_and_refused_by_gibbs_alone() -> None:
    problem = problem_of(Tempered(), crowd(20, 4, 3, 3), max_iterations=12, tolerance=0.0)
    assert {n: s.kind for n, s in problem.sites.items()} == {"shares": "free", "habit": "conjugate"}
    with pytest.raises(MethodError, match=r"no exact update for shares of Tempered"):
        gibbs.start(problem)
    (one,) = run_starts(problem, VB)
    assert np.diff(one.progress.objectives).min() >= -1e-9 * abs(one.objective)


@pytest.mark.parametrize("prior", [dist.Bernoulli(0.5)])
def test_a_discrete_site_of_annotators_is_refused_by_name(prior: Any) -> None:
    class Counting:
        def model(self, data: Block) -> None:
            log_p = prevalence(data)
            with plates.annotators(data):
                skill = pyro.sample("skill", prior)
            log = (skill[..., None, None] * torch.eye(data.n_classes)).log_softmax(-1)
            with plates.items(data):
                annotate(data, log, truth(data, log_p))

    with pytest.raises(MethodError, match="'skill'.*OneHot"):
        _ = problem_of(Counting(), crowd(20, 4, 3, 3)).sites


@pytest.mark.parametrize("engine", ["em", "svi"])
def test_a_model_without_a_truth_is_refused(engine: str) -> None:
    class Truthless:
        def model(self, data: Block) -> None:
            with plates.annotators(data):
                taste = pyro.sample("taste", dist.Dirichlet(torch.ones(data.n_classes)))
            with plates.items(data):
                annotate(data, taste.log().unsqueeze(-2), torch.zeros((), dtype=torch.long))

    with pytest.raises(MethodError, match="Truthless draws no truth"):
        fit_one(Truthless(), crowd(20, 4, 3, 3), engine, Options(max_iterations=3))
