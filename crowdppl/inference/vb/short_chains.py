"""How wide rows are where few labels leave the posterior skew, or with several modes, which linear response misses.

Short chains of Gibbs start from draws of vb's distributions, and rows hold where these go, around vb's means. Where
ratios of values matter, such as those of skills, the chains' draws of all sites together are kept: one order of
objects and its reverse may both be likely, with other annotators to be trusted. So they are where truths are
numbers: labels do not tell a shift or the unit of all, along which mean field is far too narrow.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

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

    Nothing where Gibbs has no exact updates or the method refuses it, with many labels, where all truths are known,
    and where items or annotators have latent kinds: chains may exchange these.
    """
    rows = [n for n, x in state.parameters.items() if problem.sites[n].conjugate.counts and x.shape[-1] > 1]
    numbers = CHAINS * (sum(x.numel() for x in state.parameters.values()) + problem.width)
    looked_up = CHAINS * SWEEPS * problem.n_labels * problem.states
    kinds = problem.of_kind("onehot") or problem.states not in (problem.blocks[0].n_classes, 1)
    card = card_of(problem.model)
    refused = problem.of_kind("free") or network_of(problem.model) is not None or (card and card.refusal("gibbs"))
    # With all truths known, rows are what mean field has, unless their prior is learned.
    shares_alone = not state.loc and all(problem.sites[n].conjugate.counts for n in state.parameters)
    exact = shares_alone and all(b.gold is not None and bool((b.gold >= 0).all()) for b in problem.blocks)
    shared = [n for n in state.parameters if not problem.sites[n].local]
    together = problem.truth is None or any(problem.sites[n].ratios for n in shared)
    drawn_sites = shared if together and not hasattr(problem.model, "unsupported") else []
    if not (rows or drawn_sites) or kinds or refused or exact or numbers > NUMBERS or looked_up > FACTORS:
        return Chained({}, {})
    seed = int(torch.randint(2**31, (), generator=generator, device=generator.device))
    quiet = replace(problem.options, progress=False, callback=None)
    problem = replace(problem, options=replace(quiet, seed=seed, chains=CHAINS, warmup=SWEEPS // 2))
    at, kept = _start(problem, state, generator), []
    draws: dict[str, list[Tensor]] = {name: [] for name in drawn_sites}
    for sweep in range(SWEEPS):
        at, _ = gibbs.step(problem, at)
        if sweep < SWEEPS // 2 or sweep % EVERY:
            continue
        for name in drawn_sites:
            draws[name].append(problem.sites[name].value(at.statistics[name]))
        kept += [gibbs.conditionals(problem, at)] if rows else []
    found = {}
    for name in rows:
        x = state.parameters[name].double()
        drawn = torch.cat([given[name] for given in kept]).reshape(-1, *x.shape)
        found[name] = amount_around(drawn, shares(x))
    shapes = {name: problem.sites[name].shape(problem.n_items) for name in drawn_sites}
    return Chained(found, {name: torch.cat(draws[name]).reshape(-1, *shape) for name, shape in shapes.items()})


def _start(problem: Problem, state: State, generator: torch.Generator) -> gibbs.GibbsState:
    """Chains at draws of vb's distributions."""

    def wide(name: str, x: Tensor) -> Tensor:
        return problem.sites[name].with_plate_dims(x.expand(CHAINS, *x.shape), problem.plates).contiguous()

    statistics = {n: problem.sites[n].conjugate.draw(wide(n, x), generator) for n, x in state.parameters.items()}
    onehot = {n: gibbs.draw_onehot(wide(n, x), generator) for n, x in state.logits.items()}
    at = {n: wide(n, x) for n, x in state.loc.items()}
    for name, x in state.log_scale.items():
        noise = torch.randn(at[name].shape, generator=generator, dtype=x.dtype, device=x.device)
        at[name] = at[name] + wide(name, x.exp()) * noise
    hyper = HmcState.of(at, CHAINS, generator.device) if at else None
    none = torch.zeros(CHAINS, dtype=torch.bool, device=generator.device)
    return gibbs.GibbsState(statistics, onehot, hyper, torch.zeros((), dtype=torch.int64), none)
