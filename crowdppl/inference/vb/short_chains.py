"""How wide rows are where few labels leave the posterior skew, or with several modes, which linear response misses.

Short chains of Gibbs start from draws of vb's distributions, and rows hold where these go, around vb's means. Where
ratios of values matter, such as those of skills, the chains' draws of all sites together are kept: one order of
objects and its reverse may both be likely, with other annotators to be trusted. So they are where truths are
numbers: labels do not tell a shift or the unit of all, along which mean field is far too narrow. With many labels,
chains of numbers are few, and each tells the conditionals of its sites, of which many draws are taken.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from crowdppl.core.collective import reduced
from crowdppl.inference.mcmc import gibbs
from crowdppl.inference.mcmc.hmc import HmcState
from crowdppl.inference.problem import Problem
from crowdppl.inference.state import State
from crowdppl.inference.vb.learned_priors import amount_around, shares
from crowdppl.networks.outputs import network_of
from crowdppl.primitives.model import card_of

CHAINS, SWEEPS, EVERY = 50, 40, 2
"""Of the second half of each chain, every other sweep is used."""
FACTORS, NUMBERS = 50_000_000, 10_000_000
"""Log-factors that all chains look up, and numbers that they hold at once: with more labels, one mode remains."""
FEWEST, FEW_SWEEPS, FEW_FACTORS = 4, 12, 10_000_000
"""Chains of numbers at least, of so many sweeps, of which every one of the second half is used, for more labels."""
DRAWS, KEPT = 500, 50_000_000
"""Draws of all sites together by these, and numbers that they hold at most."""


class Chained(NamedTuple):
    """What chains tell of sites, by name.

    Attributes:
        amounts: of shares, concentrations of rows with vb's means that are as wide as the chains go.
        draws: (n, *site) of all sites together, where truths are numbers or ratios of some site's values matter.
    """

    amounts: dict[str, Tensor]
    draws: dict[str, Tensor]


def of_chains(problem: Problem, state: State, generator: torch.Generator) -> Chained:
    """What chains from vb's distributions tell; after an update, no draws: its prior, an earlier fit, is narrow.

    Nothing where ``why_no_chains`` says why, and with many labels of classes or for ratios.
    """
    rows = [n for n, x in state.parameters.items() if problem.sites[n].conjugate.counts and x.shape[-1] > 1]
    size = sum(x.numel() for x in state.parameters.values())
    looked_up = problem.n_labels * problem.states
    many = CHAINS * (size + problem.width) > NUMBERS or CHAINS * SWEEPS * looked_up > FACTORS
    shared = [n for n in state.parameters if not problem.sites[n].local]
    ratios = any(problem.sites[n].ratios for n in shared)
    together = problem.truth is None or ratios
    drawn_sites = shared if together and not hasattr(problem.model, "unsupported") else []
    if not (rows or drawn_sites) or why_no_chains(problem, state) is not None:
        return Chained({}, {})
    chains, sweeps, every, copies = CHAINS, SWEEPS, EVERY, 1
    if many:
        if ratios or problem.truth is not None:
            return Chained({}, {})
        sweeps, every = FEW_SWEEPS, 1
        chains = max(FEWEST, min(CHAINS, FEW_FACTORS // (sweeps * looked_up)))
        used = chains * sweeps // 2
        copies = max(1, min(-(-DRAWS // used), KEPT // (used * size)))
    seed = int(torch.randint(2**31, (), generator=generator, device=generator.device))
    quiet = replace(problem.options, progress=False, callback=None)
    problem = replace(problem, options=replace(quiet, seed=seed, chains=chains, warmup=sweeps // 2))
    at, kept = _start(problem, state, generator), []
    draws: dict[str, list[Tensor]] = {name: [] for name in drawn_sites}
    for sweep in range(sweeps):
        at, _ = gibbs.step(problem, at)
        if sweep < sweeps // 2 or sweep % every:
            continue
        drawn = at.statistics if copies == 1 else gibbs.copies(problem, at, copies)
        for name in drawn_sites:
            draws[name].append(problem.sites[name].value(drawn[name]))
        kept += [gibbs.conditionals(problem, at)] if rows else []
    found = {}
    for name in rows:
        x = state.parameters[name].double()
        amounts = torch.cat([given[name] for given in kept]).reshape(-1, *x.shape)
        found[name] = amount_around(amounts, shares(x))
    shapes = {name: problem.sites[name].shape(problem.n_items) for name in drawn_sites}
    return Chained(found, {name: torch.cat(draws[name]).reshape(-1, *shape) for name, shape in shapes.items()})


def why_no_chains(problem: Problem, state: State) -> str | None:
    """Why chains would tell nothing; None where they would."""
    if problem.of_kind("onehot") or problem.states not in (problem.blocks[0].n_classes, 1):
        return "items or annotators have latent kinds, which chains may exchange"
    card = card_of(problem.model)
    if problem.of_kind("free") or network_of(problem.model) is not None or (card and card.refusal("gibbs")):
        return "gibbs has no exact updates"
    # With all truths known, rows are what mean field has, unless their prior is learned.
    shares_alone = not state.loc and all(problem.sites[n].conjugate.counts for n in state.parameters)
    known = all(b.gold is not None and bool((b.gold >= 0).all()) for b in problem.blocks)
    if shares_alone and not reduced(not known):
        return "all truths are known"
    return None


def _start(problem: Problem, state: State, generator: torch.Generator) -> gibbs.GibbsState:
    """Chains at draws of vb's distributions."""
    chains = problem.options.chains

    def wide(name: str, x: Tensor) -> Tensor:
        return problem.sites[name].with_plate_dims(x.expand(chains, *x.shape), problem.plates).contiguous()

    statistics = {n: problem.sites[n].conjugate.draw(wide(n, x), generator) for n, x in state.parameters.items()}
    onehot = {n: gibbs.draw_onehot(wide(n, x), generator) for n, x in state.logits.items()}
    at = {n: wide(n, x) for n, x in state.loc.items()}
    for name, x in state.log_scale.items():
        noise = torch.randn(at[name].shape, generator=generator, dtype=x.dtype, device=x.device)
        at[name] = at[name] + wide(name, x.exp()) * noise
    hyper = HmcState.of(at, chains, generator.device) if at else None
    none = torch.zeros(chains, dtype=torch.bool, device=generator.device)
    return gibbs.with_linked(
        problem, gibbs.GibbsState(statistics, onehot, hyper, torch.zeros((), dtype=torch.int64), none)
    )
