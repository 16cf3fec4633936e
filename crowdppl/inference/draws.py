"""From a stored posterior back to values that a model can be run at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import torch
from torch import Tensor

from crowdppl.inference.problem import Problem
from crowdppl.inference.result import SiteResult
from crowdppl.inference.sites import Site


def draws_of(
    problem: Problem, sites: Mapping[str, SiteResult], order: np.ndarray, n: int, stream: torch.Generator
) -> dict[str, Tensor]:
    """n draws of every site: (n, [1, ...] batch, event), conjugate sites as statistics, items by position.

    Stored draws are taken evenly spread; a point repeats. ``order`` is the item code at each position.
    """
    out = {}
    for name in (n for n in sites if n in problem.sites):
        site = problem.sites[name]
        x = site.of_items(_draw(site, sites[name], n, stream), order, lead=1)
        out[name] = site.with_plate_dims(x, problem.plates)
    return out


def _draw(site: Site, stored: SiteResult, n: int, stream: torch.Generator) -> Tensor:
    arrays = {k: torch.from_numpy(np.asarray(v, np.float64)).to(stream.device) for k, v in stored.arrays.items()}
    if stored.family == "draws":
        flat = arrays["draws"].flatten(0, 1)
        at = torch.linspace(0, len(flat) - 1, n).round().long().to(flat.device)
        return site.statistic(flat[at])
    if (drawn := stored.drawn()) is not None:
        at = torch.linspace(0, len(drawn) - 1, n).round().long()
        return site.statistic(torch.from_numpy(drawn)[at].to(stream.device))
    if stored.conjugate is not None:
        c = torch.from_numpy(stored.spread.astype(np.float64)).to(stream.device)
        return stored.conjugate.draw(c.expand(n, *c.shape), stream)
    if stored.family == "onehot":
        p = arrays["probability"]
        code = torch.multinomial(p.reshape(-1, p.shape[-1]), n, replacement=True, generator=stream).t()
        return torch.nn.functional.one_hot(code, p.shape[-1]).to(p).reshape(n, *p.shape)
    if stored.family == "normal":
        loc = arrays["loc"]
        noise = torch.randn((n, *loc.shape), generator=stream, dtype=loc.dtype, device=loc.device)
        out: Tensor = site.transform(loc + arrays["scale"] * noise)
        return out
    return site.statistic(arrays["value"].expand(n, *arrays["value"].shape))


def mean_of(problem: Problem, sites: Mapping[str, SiteResult], names: Iterable[str]) -> dict[str, Tensor]:
    """The mean of each site, or its point; as statistics where it is conjugate."""
    out = {}
    for name in names:
        x = torch.from_numpy(np.asarray(sites[name].mean, np.float64)).to(problem.options.device)
        out[name] = problem.sites[name].statistic(x)
    return out


def center_of(problem: Problem, sites: Mapping[str, SiteResult], names: Iterable[str]) -> dict[str, Tensor]:
    """The value at which a pass over labels is made: expected statistics, expected one-hot, means or points."""
    out = mean_of(problem, sites, names)
    for name, site in ((n, sites[n]) for n in out):
        if site.conjugate is not None:
            out[name] = site.conjugate.mean(torch.from_numpy(site.parameter).to(out[name].device))
    return out


def crossed(problem: Problem, mean: Mapping[str, Tensor], stream: torch.Generator) -> dict[str, Tensor]:
    """Three values on a line for each site of shares, one site after another: two ends and the middle.

    (3 S, [1, ...] batch, event) for S sites of shares, of which those that do not move stand at random shares;
    sites of other kinds stay at the mean.
    """
    moved = [n for n in mean if problem.sites[n].kind in ("conjugate", "onehot")]
    out = {}
    for name, x in mean.items():
        site = problem.sites[name]
        lines = x.expand(3 * len(moved), *x.shape)
        if name in moved:
            ends = 0.1 + torch.rand((2, *x.shape), generator=stream, dtype=x.dtype, device=x.device)
            ends = ends / ends.sum(-1, keepdim=True)
            lines, at = ends[0].expand_as(lines).clone(), 3 * moved.index(name)
            lines[at + 1], lines[at + 2] = ends[1], ends.mean(0)
            lines = site.statistic(lines)
        out[name] = site.with_plate_dims(lines, problem.plates)
    return out
