"""How wide rows are whose prior is learned, such as those of annotators around their crowd's.

Mean field takes a prior's parameters for independent of the rows that it is the prior of: both come out too narrow,
and with a large concentration rows collapse. Here rows are integrated out of vb's bound, given its counts; the
parameters of priors have the Gaussian that is best under it, and rows are prior plus counts given these (Hoffman &
Blei 2015, Structured stochastic variational inference, AISTATS). vb's means stay as they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from crowdppl.inference.density import TraceSites
from crowdppl.inference.optimisers import LBFGSAscent
from crowdppl.inference.problem import Problem
from crowdppl.inference.sites import expected
from crowdppl.inference.state import State, Tensors
from crowdppl.inference.vb.coordinate_ascent import VB, counts_beyond, leaves_of

LOOKS = 40
"""At the bound, at most."""
NUMBERS = 5_000_000
"""Entries of all rows and particles, at most: so many rows tell their prior well."""
LEAST = 0.05
"""Concentration of a row below which nearly all lies at its corners."""


class Amounts(NamedTuple):
    """Concentrations of Dirichlets as wide as rows are with their prior's uncertainty, one a row.

    Attributes:
        row: with the counts, around vb's mean.
        prior: without counts.
    """

    row: Tensor
    prior: Tensor


def amounts(problem: Problem, state: State) -> dict[str, Amounts]:
    """By site of rows whose prior's parameters are Gaussians of vb; none where labels depend on these directly."""
    here = VB.at(problem, state)
    size = sum(x.numel() for x in state.parameters.values()) * (here.gaussians.chains or 0)
    if not 0 < size <= NUMBERS or here.gaussians_in_labels:
        return {}
    sites = here.prior_sites()
    if any(problem.sites[n].conjugate.chosen(sites[n].fn) for n in state.parameters):
        return {}
    counts = counts_beyond(problem, state, here.prior_parameters(sites))
    priors = _search(problem, state, counts)
    rows = [n for n in priors if problem.sites[n].conjugate.counts and priors[n].shape[-1] > 1]
    return {n: _amounts(priors[n], counts[n], shares(state.parameters[n].double())) for n in rows}


def _search(problem: Problem, state: State, counts: Tensors) -> Tensors:
    """Priors (P, *site) at particles of the Gaussians that are best when rows are integrated out."""
    loc, log_scale = (leaves_of({n: x.clone() for n, x in own.items()}) for own in (state.loc, state.log_scale))
    leaves, moving = [*loc.values(), *log_scale.values()], replace(state, loc=loc, log_scale=log_scale)

    def bound() -> tuple[float, list[Tensor]]:
        here = VB.at(problem, moving)
        at = here.gaussians.unconstrained()
        values = here.gaussians.values(at)
        sites = here.prior_sites(values)
        total = here.gaussian_terms(here.gaussians.entropy(at, values), values, sites)
        for name, prior in _learned(problem, sites, counts).items():
            family = problem.sites[name].conjugate
            gain = family.log_normaliser(prior + counts[name]) - family.log_normaliser(prior)
            total = total + expected(gain, here.density.chains)
        found = torch.autograd.grad(total, leaves, allow_unused=True)
        slopes = [torch.zeros_like(x) if g is None else g for g, x in zip(found, leaves, strict=True)]
        return float(total.detach()), slopes

    LBFGSAscent(leaves, LOOKS, LOOKS)(bound)
    here = VB.at(problem, moving)
    priors = _learned(problem, here.prior_sites(here.gaussians.values()), counts)
    return {n: x.detach() for n, x in priors.items()}


def _learned(problem: Problem, sites: TraceSites, names: Tensors) -> Tensors:
    """Those parameters of priors, (P, *site), that depend on Gaussians."""
    out = {}
    for name in names:
        site = problem.sites[name]
        x = site.conjugate.natural(sites[name].fn)
        if x.requires_grad:
            out[name] = x.reshape(len(x), *site.statistic_shape(problem.n_items))
    return out


def shares(concentration: Tensor) -> Tensor:
    """The means of Dirichlets."""
    return concentration / concentration.sum(-1, keepdim=True)


def _amounts(prior: Tensor, counts: Tensor, mean: Tensor) -> Amounts:
    return Amounts(amount_around(prior + counts, mean), amount_around(prior, shares(prior).mean(0)))


def amount_around(rows: Tensor, centre: Tensor) -> Tensor:
    """The concentration of a Dirichlet with the variance around a centre of a mixture of others, (P, ..., K)."""
    mean, total = shares(rows), rows.sum(-1, keepdim=True)
    variance = (mean * (1 - mean) / (total + 1) + (mean - centre).square()).mean(0).sum(-1)
    return ((centre * (1 - centre)).sum(-1) / variance - 1).clamp(min=LEAST)
