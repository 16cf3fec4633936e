"""Sites of a fit with named dimensions, for xarray and for ArviZ 0 and 1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl.core.fields import Numbers
from crowdppl.core.validation import seed_number, shown, switch, whole_number
from crowdppl.data.annotations import Annotations
from crowdppl.errors import MethodError
from crowdppl.inference.predict.held_out import given_the_rest
from crowdppl.inference.result import Fit, NumberTruth, SiteResult
from crowdppl.results.levels import require_own_model
from crowdppl.results.schema import hints_of

if TYPE_CHECKING:
    import xarray as xr

Named = dict[str, tuple[tuple[str, ...], np.ndarray]]
"""Dimensions and values by variable."""
SAMPLE = ("chain", "draw")
"""Leading dimensions of draws."""
DIMS = {"N": "item", "K": "class"}
"""Names of dimensions by the letters of records."""
DRAWS = 1000
"""Draws where the posterior is a distribution; samplers have their own."""


def to_arviz(posterior: Fit, draws: int = DRAWS, seed: int = 0, *, log_likelihood: bool = False) -> Any:
    """The posterior for ArviZ, with names for all dimensions.

    The group ``posterior`` holds draws of each site, ``constant_data`` points, probabilities of one-hot sites, and
    ``truth_probabilities`` (``truth_mean`` and ``truth_sd``, where truths are numbers). A site that vb fits as a
    Gaussian on a scale that is not known here is there as ``<site>_unconstrained``.

    With ``log_likelihood``, a group of this name holds ``labels``, the log-probability of all labels of an item
    together at each draw, every discrete variable summed out: (chain, draw, item), or "labelled_item" where some
    items have no label; 8 bytes each. ``arviz.loo(..., reff=1.0)`` of it is ``leave_one_out("item")``.

    Args:
        draws: for vb, number of draws of each site; samplers have their own.
        seed: of those draws.
        log_likelihood: whether to score the labels of each item at each draw.

    Returns:
        InferenceData; from ArviZ 1 on a DataTree.

    Raises:
        MethodError: when the engine gives points only, or a number is out of range; with ``log_likelihood``, for a
            corrected posterior, a likelihood that is taken to a power, or an unconstrained site.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.to_arviz(draws=100)["posterior"]["ability"].dims
        ('chain', 'draw', 'annotator', '2')
    """
    import xarray as xr  # slow to import

    require_own_model(posterior)
    draws, stream = whole_number("draws", draws, 1), np.random.default_rng(seed_number(seed))
    scored = switch("log_likelihood", log_likelihood)
    drawn: Named = {}
    points: Named = {}
    for site in posterior.result.sites.values():
        new = draws_of_site(site, draws, stream)
        if new is None:
            points[site.name] = (site.dims, site.mean.copy())
        else:
            drawn[new[0]] = (SAMPLE + site.dims, new[1])
    if not drawn:
        raise MethodError(
            f"to_arviz needs draws, and {posterior.inference} found points; fit with 'vb', 'gibbs' or 'nuts'"
        )
    groups = {"posterior": drawn, "constant_data": points | _truths(posterior)}
    ids, sizes = coordinates(posterior), dict[str, int]()
    if scored:
        groups["log_likelihood"] = _log_likelihood(posterior, drawn, ids, stream)
    ids = {dim: _coordinate(names) for dim, names in ids.items()}
    ids |= {dim: np.arange(n) for dim, n in zip(SAMPLE, next(iter(drawn.values()))[1].shape, strict=False)}
    datasets = {
        group: xr.Dataset({name: _named(dims, values, ids, sizes) for name, (dims, values) in named.items()})
        for group, named in groups.items()
    }
    about = {"method": posterior.method, "inference": posterior.inference, "library": "crowdppl"}
    return as_groups(datasets, about)


def _log_likelihood(posterior: Fit, drawn: Named, coords: dict[str, Any], stream: np.random.Generator) -> Named:
    """Log-probability of the labels of each item at the draws that were made; adds the names of labelled items."""
    if posterior.correction is not None and not posterior.correction.leaves_all:
        raise MethodError("log_likelihood= does not score corrected probabilities; give posterior.uncorrected()")
    chains, draws = next(iter(drawn.values()))[1].shape[:2]
    sites = {}
    for name, site in posterior.result.sites.items():
        if f"{name}_unconstrained" in drawn:
            raise MethodError(
                f"log_likelihood= cannot score labels at draws of {name}_unconstrained; use leave_one_out"
            )
        made = drawn[name][1] if name in drawn else None
        if site.family == "onehot":
            made = _members(site.mean, draws, stream)
        sites[name] = site if made is None else SiteResult(name, site.dims, "draws", {"draws": made})
    at = replace(posterior, result=replace(posterior.result, sites=sites))
    logs = np.concatenate(list(given_the_rest(at, "item", chains * draws)), 1)
    items = posterior.data.items
    labelled = items.isin(posterior.data.frame()["item"])
    dim = "item" if labelled.all() else "labelled_item"
    coords[dim] = items[labelled]
    return {"labels": ((*SAMPLE, dim), logs.reshape(chains, draws, -1))}


def _members(shares: np.ndarray, n: int, stream: np.random.Generator) -> np.ndarray:
    """Draws (1, n, ..., M) of one of M, as zeros and a one, from its probabilities (..., M)."""
    above = stream.random((1, n, *shares.shape[:-1], 1)) > np.cumsum(shares, -1)
    return np.asarray(np.eye(shares.shape[-1])[np.minimum(above.sum(-1), shares.shape[-1] - 1)])


def _truths(posterior: Fit) -> Named:
    """What is known of the truths: the arrays of their record."""
    truth, found = posterior.result.truth, Named()
    kind: Any = type(truth)
    for name, hint in hints_of(kind).items():
        for check in getattr(hint, "__metadata__", ()):
            if isinstance(check, Numbers):
                dims = tuple(DIMS[word] for word in str(check.shape).split())
                found[f"truth_{name}"] = (dims, getattr(truth, name).copy())
    return found


def as_groups(groups: Mapping[str, xr.Dataset], attributes: Mapping[str, str] = MappingProxyType({})) -> Any:
    """Groups of draws and other data as ArviZ takes them: InferenceData of ArviZ 0, a DataTree of ArviZ 1."""
    import arviz as az  # slow to import
    import xarray as xr

    if "InferenceData" in vars(az):
        return az.InferenceData(attrs=dict(attributes), **groups)
    found = xr.DataTree.from_dict(dict(groups))
    found.attrs = dict(attributes)
    return found


def _coordinate(names: Any) -> np.ndarray:
    """Names as an array that netCDF can hold."""
    array = np.asarray(names)
    return np.asarray([*map(str, names)], str) if array.dtype == object else array


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
    require_own_model(posterior)
    found = posterior.result.sites.get(name) if isinstance(name, str) else None
    if found is None:
        raise MethodError(f"the fit has no site {shown(name)}; it has {', '.join(posterior.result.sites)}")
    if not switch("draws", draws):
        return _named(found.dims, found.mean.copy(), coordinates(posterior), {}).rename(name)
    if not switch("widened", widened):
        found = found.mean_field()
    made = draws_of_site(found, DRAWS, np.random.default_rng(0))
    if made is None:
        kept = "probabilities" if found.family == "onehot" else "a point"
        raise MethodError(f"{posterior.inference} found {kept} for {name}, and no draws; leave draws= out")
    if made[0] != name:
        raise MethodError(f"draws of {name} are known as {made[0]} alone, which to_arviz() has; leave draws= out")
    return _named(SAMPLE + found.dims, made[1], coordinates(posterior), {}).rename(name)


def _named(dims: tuple[str, ...], values: np.ndarray, ids: dict[str, Any], sizes: dict[str, int]) -> xr.DataArray:
    """Values with names of their dimensions, and ids where these have some; ``ids`` and ``sizes`` as of others.

    A dimension that has another size elsewhere gets its size appended.
    """
    import xarray as xr  # slow to import

    names = []
    for dim, size in zip(dims, values.shape, strict=True):
        known = len(ids[dim]) if dim in ids else sizes.get(dim, size)
        names.append(name := dim if known == size else f"{dim}_{size}")
        if known > size and dim in ids:
            ids.setdefault(name, ids[dim][:size])
        sizes.setdefault(name, size)
    return xr.DataArray(values, dims=names, coords={dim: (dim, ids[dim]) for dim in names if dim in ids})


def draws_of_site(site: SiteResult, n: int, stream: np.random.Generator) -> tuple[str, np.ndarray] | None:
    """Name and draws (chains, draws, *dims) of a site; None where it is a point or a set of shares."""
    if site.family == "draws":
        return site.name, site.arrays["draws"].copy()
    if (drawn := site.drawn()) is not None:
        return site.name, drawn[None, np.linspace(0, len(drawn) - 1, n).round().astype(int)]
    if site.conjugate is not None:
        return site.name, site.conjugate.sample(site.spread, n, stream)[None]
    if site.family == "normal":
        loc, scale = site.arrays["loc"], site.arrays["scale"]
        at = loc + scale * stream.standard_normal((1, n, *loc.shape))
        return (site.name, site.constrained(at)) if site.support else (f"{site.name}_unconstrained", at)
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
    parts = data.alphabet.kind.parts
    if parts is None or parts.objects is None or data.item_covariates is None:
        return None
    known: pd.Index[Any] = data.item_covariates[parts.objects].cat.categories.rename("object")
    return known
