"""Sites of a model: their posterior means, and draws of them, under the names of their dimensions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl.core.validation import shown, switch
from crowdppl.data.annotations import Annotations
from crowdppl.data.parts import PARTS
from crowdppl.errors import MethodError
from crowdppl.inference.result import Fit, NumberTruth, OnDemand, SiteResult

if TYPE_CHECKING:
    import xarray as xr

DRAWS = 1000
"""Draws where the posterior is a distribution; samplers have their own."""


def site(posterior: Fit, name: str, draws: bool = False, *, widened: bool = True) -> xr.DataArray:
    """What a fit knows of one ``pyro.sample`` of the model: its posterior mean, or draws of it.

    Of a one-hot site the mean is the probability of each member. Discrete sites that are summed out have none;
    ``probabilities`` has the truth of the items.

    Args:
        name: of the site.
        draws: instead of the mean, the sampler's draws, or 1,000 of a variational posterior; first dimensions
            ``chain`` and ``draw``.
        widened: whether draws by vb are as wide as the posterior, or those of its mean field, which is narrower.

    Returns:
        xarray DataArray with the site's dimensions, and the ids of items, annotators and classes as coordinates.

    Raises:
        MethodError: for an unknown site, draws where the engine found a point, or those of a Gaussian whose own
            scale is not known.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.site("ability").sel(annotator="1").values.round(2)  # right and wrong
        array([0.88, 0.12])
        >>> posterior.site("ability", draws=True).sizes["draw"]
        1000
    """
    found = posterior.result.sites.get(name) if isinstance(name, str) else None
    if found is None:
        raise MethodError(f"the fit has no site {shown(name)}; it has {', '.join(posterior.result.sites)}")
    if not switch("draws", draws):
        return _named(posterior, found, found.mean.copy(), ())
    if not switch("widened", widened):
        found = replace(found, weight=OnDemand.of(None))
    made = draws_of_site(found, DRAWS, np.random.default_rng(0))
    if made is None:
        kept = "probabilities" if found.family == "onehot" else "a point"
        raise MethodError(f"{posterior.inference} found {kept} for {name}, and no draws; leave draws= out")
    if made[0] != name:
        raise MethodError(f"draws of {name} are known as {made[0]} alone, which to_arviz() has; leave draws= out")
    return _named(posterior, found, made[1], ("chain", "draw"))


def _named(posterior: Fit, found: SiteResult, values: np.ndarray, leading: tuple[str, ...]) -> xr.DataArray:
    """Values of a site with names of its dimensions, after those that lead, and ids where they have some."""
    import xarray as xr  # slow to import

    ids = coordinates(posterior)
    names = dim_names(found.dims, values.shape[len(leading) :], ids, {})
    known = {dim: ids[dim].rename(dim) for dim in names if dim in ids}
    return xr.DataArray(values, dims=[*leading, *names], coords=known, name=found.name)


def draws_of_site(site: SiteResult, n: int, stream: np.random.Generator) -> tuple[str, np.ndarray] | None:
    """Name and draws (chains, draws, *dims) of a site; None where it is a point or a set of shares."""
    if site.family == "draws":
        return site.name, site.arrays["draws"].copy()
    if site.conjugate is not None:
        return site.name, site.conjugate.sample(site.spread, n, stream)[None]
    if site.family == "normal":
        loc, scale = site.arrays["loc"], site.arrays["scale"]
        at = loc + scale * stream.standard_normal((1, n, *loc.shape))
        own = site.constrained(at)
        return (f"{site.name}_unconstrained", at) if own is None else (site.name, own)
    return None


def coordinates(posterior: Fit) -> dict[str, Any]:
    """Ids along the dimensions."""
    data = posterior.data
    sides = {"item": data.items, "annotator": data.annotators}
    if (objects := objects_of(data)) is not None:
        sides["object"] = objects
    if isinstance(posterior.result.truth, NumberTruth):
        return sides
    return {**sides, "class": data.classes, "truth": data.classes, "label": data.answers, "answer": data.answers}


def objects_of(data: Annotations) -> pd.Index[Any] | None:
    """Ids of the objects that are compared or ranked; None where items have none."""
    kind = PARTS.get(data.kind)
    if kind is None or kind.objects is None or data.item_covariates is None:
        return None
    known: pd.Index[Any] = data.item_covariates[kind.objects].cat.categories.rename("object")
    return known


def dim_names(
    dims: tuple[str, ...], shape: tuple[int, ...], coords: dict[str, Any], sizes: dict[str, int]
) -> list[str]:
    """Names of dimensions; one that has another size elsewhere gets its size appended."""
    out = []
    for dim, size in zip(dims, shape, strict=True):
        known = len(coords[dim]) if dim in coords else sizes.get(dim, size)
        name = dim if known == size else f"{dim}_{size}"
        if dim in coords and known > size and name not in coords:
            coords[name] = coords[dim][:size]
        sizes.setdefault(name, size)
        out.append(name)
    return out
