"""What a saved posterior consists of, and the check of all that its files hold against the sizes of the data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from functools import lru_cache
from types import UnionType
from typing import Annotated, Any, TypedDict, Union, cast, get_args, get_origin, get_type_hints, is_typeddict

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from crowdppl.core.fields import (
    LATER,
    LEAST,
    MOST,
    ROUNDING,
    Check,
    Ids,
    Numbers,
    Sizes,
    ids,
    one_of,
    refusal,
    within,
)
from crowdppl.core.validation import counts_of, kind_of, shown
from crowdppl.data.annotations import Annotations
from crowdppl.data.kinds import KINDS
from crowdppl.data.soft_labels import NOISE, SCALES
from crowdppl.inference.confusions import site_dims
from crowdppl.inference.engines import ENGINES
from crowdppl.inference.options import FitOptions, options_from
from crowdppl.inference.result import ClassProbabilities, Correction, Fit, FitResult, OnDemand, SiteResult
from crowdppl.inference.sites import Site
from crowdppl.networks.training import training_of
from crowdppl.primitives.model import Model

LARGEST = 2**27
"""Numbers in stand-ins for stored features: half a gigabyte of float32."""
FEW = 10_000
"""A count of states or hidden units that is harmless in the smallest file."""
RANGES = {"positive": (0.0, MOST), "unit": (0.0, 1.0), "simplex": (0.0, 1.0 + ROUNDING)}
"""Values of a site by the name of its space."""
HELD: Mapping[Any, tuple[type, ...]] = {float: (float, int), Mapping: (dict,)}
"""Types of values by what they are annotated as, where these differ."""
Parts: Any = TypedDict
"""Makes a type of dicts of some fields at run time."""


@lru_cache(100)
def hints_of(kind: Any) -> dict[str, Any]:
    """The annotated types of a record's fields, by name."""
    return get_type_hints(kind, include_extras=True)


def records(hint: Any) -> set[Any]:
    """The records that a value of an annotated type may hold."""
    record = isinstance(hint, type) and is_dataclass(hint)
    fields = hints_of(hint).values() if record or is_typeddict(hint) else ()
    return ({hint} if record else set()).union(*map(records, (*get_args(hint), *fields)))


def require(value: Any, hint: Any, place: str, sizes: Sizes) -> None:
    """Refuses a value that is not of an annotated type, or fails a check of it, by a ResultError."""
    hint, *checks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    if LATER in checks and value.left_out:
        return
    choice = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    kind = next((kind for kind in choice if kind is Any or type(value) in _held(kind)), None)
    if kind is None:
        raise refusal(place, kind_of(value), " or ".join(x.__name__ for k in choice for x in _held(k)))
    if len(choice) > 1:
        require(value, kind, place, sizes)
    else:
        for name, part, inner in _members(value, kind, place):
            require(part, inner, name, sizes if is_typeddict(kind) else dict(sizes))
    for check in checks:
        if is_typeddict(check):
            require(value, check, place, sizes)
        elif check != LATER:
            check(value, place, sizes)


def _held(hint: Any) -> tuple[type, ...]:
    """Types that a value of an annotated type may be of."""
    hint = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    kind = dict if is_typeddict(hint) else get_origin(hint) or hint
    return HELD.get(kind, (kind,))


def _members(value: Any, kind: Any, place: str) -> Iterator[tuple[str, Any, Any]]:
    """The parts of a value of a type: the place, the value and the type of each; refuses fields of other names."""
    inner = get_args(kind)
    if is_dataclass(kind) or is_typeddict(kind):
        parts, hints = vars(value) if is_dataclass(value) else value, hints_of(kind)
        if not getattr(kind, "__required_keys__", hints.keys()) <= parts.keys() <= hints.keys():
            raise refusal(place, f"of the keys {shown(list(parts))}", f"of {', '.join(hints)}")
        yield from ((f"{place}/{name}", parts[name], hint) for name, hint in hints.items() if name in parts)
    elif isinstance(value, OnDemand):
        yield place, value(), inner[0]
    elif isinstance(value, dict) and inner:
        for name, part in value.items():
            yield f"a key of {place}", name, inner[0]
            yield f"{place}/{name}", part, inner[1]
    elif isinstance(value, list | tuple) and inner:
        yield from ((f"{place}/{n}", part, inner[0]) for n, part in enumerate(value))


def _row_shape(value: Any, place: str, sizes: Sizes) -> None:
    """The shape of a row of stored features, a stand-in of which fits in memory."""
    if min(value, default=0) < 1 or math.prod(value) > LARGEST:
        raise refusal(place, shown(value), f"of sizes of at least 1, with at most {LARGEST} numbers in all")


def _classes(value: Any, place: str, sizes: Sizes) -> None:
    """A number of classes, at most that of answers, which is K from here on."""
    if not 0 <= value <= sizes["L"]:
        raise refusal(place, shown(value), f"from 0 to {sizes['L']}")
    sizes["K"] = value


def _kind(value: Any, place: str, sizes: Sizes) -> None:
    """A kind of labels that are classes, two or more, or numbers, and its unit."""
    name, unit = value if len(value) == 2 else ("", None)
    one_of(x for x, kind in KINDS.items() if sizes["K"] != 1 and kind.numeric == (sizes["K"] == 0))(
        name, place, sizes
    )
    if unit not in (KINDS[name].units or (None,)):
        raise refusal(place, shown(unit), f"a unit of labels of kind {name!r}")


class StoredRows(TypedDict):
    """What a file holds of features that are a dataset."""

    rows: Annotated[np.ndarray, Numbers("N", "i", 0)]
    row_shape: Annotated[list[int], _row_shape]
    whole: bool


def _maps(value: Any, place: str, sizes: Sizes) -> None:
    """Maps of soft labels: those of their annotators, and one of any other."""
    Numbers((sizes["soft annotators"] + 1, 1 + 2 * sizes["soft classes"] + len(NOISE)))(value, place, sizes)


def _soft_classes(value: Any, place: str, sizes: Sizes) -> None:
    """How many of the classes soft labels tell of."""
    if not 2 <= value <= sizes["K"]:
        raise refusal(place, shown(value), f"from 2 to {sizes['K']}")
    sizes["soft classes"] = value


class SoftParts(TypedDict):
    """What a file holds of how soft labels are read."""

    classes: Annotated[int, _soft_classes]
    columns: tuple[str | int | bool, ...]
    scale: Annotated[str, one_of(SCALES)]
    floor: Annotated[float, within(0, 1)] | None
    shown_first: str | int | bool | None
    noisy: bool
    annotators: Annotated[Ids, ids("soft annotators")]
    maps: Annotated[np.ndarray, _maps]


class AnnotationParts(TypedDict):
    """What a file holds of annotations beside its tables."""

    answers: Annotated[Ids, ids("L")]
    n_classes: Annotated[int, _classes]
    kind: Annotated[list[str | None], _kind]
    informative: bool
    history: Annotated[Tensor, Numbers("A K K", low=0)] | None
    abstainers: Annotated[Tensor, Numbers("A", "b", 0, 1)] | None
    repeat_correlation: Annotated[float, within(0, 1)]
    features: StoredRows | Annotated[np.ndarray, Numbers(None, "fiub")] | None
    columns: dict[str, Ids | None]
    categories: dict[str, Annotated[Ids, ids("G")]]
    edges: Annotated[np.ndarray, Numbers(("E", 2), "i", 0, "N")] | None
    label_names: tuple[str | int | bool, ...]
    soft: SoftParts | None
    time: str | int | bool | None
    roles: dict[str, str]
    warnings: list[list[str]]


class OpenedParts(TypedDict):
    """What a file holds of annotations that stay in their parts."""

    folder: str
    digest: str
    history: Annotated[Tensor, Numbers("A K K", low=0)] | None
    known: np.ndarray | None
    features: Annotated[np.ndarray, Numbers(None, "fiub")] | None
    columns: Ids | None


class NetworkParts(TypedDict):
    """What a file holds of a network, which may be the user's own: tensors, and first weights that changed."""

    own: bool
    state: dict[str, Annotated[Tensor, Numbers(None, "fiub")]]
    first: dict[str, Annotated[Tensor, Numbers(None)]]


FIT: dict[str, Any] = {
    name: hint for name, hint in hints_of(Fit).items() if name not in ("model", "data", "correction")
}
"""What a file holds of a fit as it is, by the types of ``Fit``."""
FIT_PARTS: dict[str, Any] = {
    **FIT,
    "inference": Annotated[str, one_of(ENGINES)],
    "options": dict[str, bool | int | float | str | None],
    "settings": dict[str, Any],
    "networks": dict[str, NetworkParts] | None,
}
OTHERS: Any = dict[str, Parts("Other", FIT_PARTS)]  # type: ignore[misc]
CORRECTION = Parts("Correction", {**hints_of(Correction), "others": OTHERS})
POSTERIOR = Parts("Posterior", {"data": AnnotationParts, **FIT_PARTS, "correction": CORRECTION | None})
"""What a file holds of a posterior beside the tables of its data."""
OF_PARTS = Parts("PosteriorOfParts", {"data": OpenedParts, **FIT_PARTS, "correction": CORRECTION | None})
"""What a file holds of one whose data stay in their parts."""
RECORDS = {f"${kind.__name__}": kind for kind in records(POSTERIOR)}
"""Records that are saved field by field, by their tag in JSON."""


def require_posterior(values: Any, tables: Mapping[str, pd.DataFrame], opened: Annotations | None = None) -> Sizes:
    """Refuses what ``save`` did not write, by a ResultError; returns the sizes of the data.

    These are in tables, or were ``opened`` from their parts.
    """
    sizes = _require_tables(values, tables) if opened is None else _require_opened(values, opened)
    _require_fits(values)
    return sizes


def _require_opened(values: Any, data: Annotations) -> Sizes:
    """What is saved of a fit of annotations that stay in their parts."""
    sizes = {"N": data.n_items, "A": data.n_annotators, "S": data.n_labels}
    sizes |= {"K": data.n_classes, "L": data.n_answers}
    require(values, OF_PARTS, "posterior", sizes)
    if (known := values["data"]["known"]) is not None:
        _require_known(known, "posterior/data/known", sizes)
    return sizes


def _require_known(known: np.ndarray, place: str, sizes: Sizes) -> None:
    """Known truths: -1 stands for an unknown class, NaN for an unknown number."""
    check = Numbers("N", "i", -1, "K") if sizes["K"] else Numbers("N")
    check(np.where(np.isnan(known), np.zeros_like(known), known), place, sizes)


def _require_tables(values: Any, tables: Mapping[str, pd.DataFrame]) -> Sizes:
    """What is saved with its annotations."""
    labels, items, people = (tables[name] for name in ("labels", "items", "annotators"))
    sizes = {"N": len(items), "A": len(people), "S": len(labels)}
    if not all(sizes.values()):
        raise refusal("the table of labels, items or annotators", "empty", "that of a fit")
    require(values, POSTERIOR, "posterior", sizes)
    for letter, table in (("N", items), ("A", people)):
        ids(letter)(pd.Index(table["id"].array), "an id", sizes)
    for name, most in (("item", "N"), ("annotator", "A"), ("answer", "L")):
        Numbers("S", "i", 0, most)(labels[name].to_numpy(), f"labels/{name}", sizes)
    if "gold" in items:
        _require_known(items["gold"].to_numpy(), "items/gold", sizes)
    return sizes


def _require_fits(values: Any) -> None:
    """The fits of a posterior: their options, and that they belong together."""
    correction, fits = values["correction"] or {}, {values["method"]: values}
    fits |= correction.get("others", {})
    for part in ("weights", "rates"):
        if correction and correction[part].keys() != fits.keys():
            raise refusal(f"correction/{part}", f"of {', '.join(correction[part])}", f"of {', '.join(fits)}")
    for name, fit in fits.items():
        options_from(cast(FitOptions, {key: x for key, x in fit["options"].items() if key != "device"}))
        if name != fit["method"]:
            raise refusal(f"the fit {name}", f"one of {fit['method']}", f"of {name}")
        found: FitResult = fit["result"]
        classes = isinstance(found.truth, ClassProbabilities)
        if (found.tables is not None) != classes or (found.draws is not None and not classes):
            place, wanted = f"the result of {name}", "of classes with tables, or numbers without"
            raise refusal(place, "of other tables than its truths need", wanted)


def require_counts(model: Model, numbers: int) -> None:
    """Refuses counts of states, experts or hidden units beyond the numbers in the files, before arrays are made."""
    training = training_of(getattr(model, "training", {}))
    counts = {**counts_of(model), "hidden": training.hidden, "networks": training.networks}
    for name, count in counts.items():
        if count > max(FEW, numbers):
            raise refusal(f"the setting {name}", str(count), f"one of a posterior of {numbers} numbers")


def require_sites(found: Mapping[str, SiteResult], known: Mapping[str, Site], model: Model, sizes: Sizes) -> None:
    """Refuses sites that the model has not, or has in another shape, by a ResultError."""
    for name, site in found.items():
        place = f"the site {name!r}"
        if name not in known:
            raise refusal(place, "in the file", f"one of {', '.join(known)}")
        dims = site_dims(model, known[name])
        if (site.name, site.dims) != (name, dims) or site.support not in ("", known[name].space):
            raise refusal(place, f"{site.name!r} of {site.dims}", f"of {dims}")
        shape = known[name].shape(sizes["N"])
        arrays = {key: Annotated[np.ndarray, check] for key, check in _arrays(site, known[name], shape).items()}
        require(site.arrays, Parts("Arrays", arrays), place, dict(sizes))
        if site.conjugate is not None and not site.conjugate.proper(site.parameter):
            raise refusal(place, "of parameters out of range", f"of a {site.family}")
        parameter = shape if site.conjugate is None else site.conjugate.statistic_shape(shape)
        if (weight := site.weight()) is not None:
            Numbers(parameter[:-1], low=LEAST)(weight, f"{place}/weight", sizes)
        if (drawn := site.drawn()) is not None:
            low = LEAST if known[name].space in RANGES else -MOST
            Numbers(["D", *shape], low=low)(drawn, f"{place}/drawn", dict(sizes))


def _arrays(site: SiteResult, known: Site, shape: tuple[int, ...]) -> dict[str, Check]:
    """The arrays of a site's family; a value lies in its own space."""
    if site.conjugate is not None:
        return {site.conjugate.key: Numbers(site.conjugate.statistic_shape(shape))}
    space = "simplex" if site.family == "onehot" else known.space
    low, high = RANGES.get(space, (-MOST, MOST))
    lead = ("C", "D") if site.family == "draws" else ()
    values = Numbers([*lead, *shape], "f", low, high, shares=space == "simplex")
    if site.family != "normal":
        return {{"onehot": "probability", "point": "value", "draws": "draws"}[site.family]: values}
    free = known.transform.inverse_shape(torch.Size(shape))
    unit = {"unit": Numbers([], low=known.unit, high=known.unit)} if known.unit else {}
    return {"loc": Numbers(free), "scale": Numbers(free, low=0), "mean": values, **unit}
