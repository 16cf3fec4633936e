"""Probabilities of an item's other discrete variables than its truth, under a fit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from crowdppl.errors import MethodError
from crowdppl.inference.asking.continuing import posed
from crowdppl.inference.asking.refit import options_of
from crowdppl.inference.reading.density import Density
from crowdppl.inference.reading.draws import center_of, draws_of
from crowdppl.inference.reading.fold import Fold
from crowdppl.inference.reading.problem import Problem, quiet

if TYPE_CHECKING:
    from crowdppl.posterior import Posterior

DRAWS = 100
"""Draws of the parameters over which probabilities are averaged."""


def item_marginal(posterior: Posterior, name: str) -> np.ndarray:
    """Probability of each value of a discrete site of items, (N, T) in codebook order.

    Args:
        posterior: a fit; where it has draws, probabilities are averaged over them.
        name: of the site.

    Raises:
        MethodError: when the story sums no such site out, or it does not belong to items alone.
    """
    with quiet("cpu"):
        problem = posed(posterior, posterior.data, replace(options_of(posterior), device="cpu", dtype=None))
        values, chains = _values(problem, posterior)
        conjugate = frozenset(s.name for s in problem.of_kind("conjugate"))
        density = Density(problem.model, problem.plates, chains, conjugate)
        found = Fold(density, problem.blocks, problem.sites)(values, marginals=(name,)).marginals
    if name not in found or found[name].dim() != (2 if chains is None else 3):
        raise MethodError(f"{posterior.method} has no discrete site {name!r} of items")
    share = found[name].double()
    share = share if chains is None else share.mean(1)
    out = np.empty(tuple(share.t().shape))
    out[posterior.data.order] = share.t().numpy()
    return out


def _values(problem: Problem, posterior: Posterior) -> tuple[dict[str, Tensor], int | None]:
    """Where the sites stand, and how many draws of them ride along, if any."""
    stored = posterior.result.sites
    if {site.family for site in stored.values()} <= {"point", "dirichlet", "onehot"}:
        values = center_of(problem, stored, list(problem.sites))
        order = torch.from_numpy(posterior.data.order.astype(np.int64))
        for name in (n for n, s in problem.sites.items() if s.local):
            values[name] = values[name].index_select(problem.sites[name].batch_shape.index(-1), order)
        return values, None
    stream = problem.options.generator(15)
    return draws_of(problem, stored, posterior.data.order, DRAWS, stream), DRAWS
