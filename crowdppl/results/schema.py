"""What a saved posterior consists of, and the check of all that its files hold against the sizes of the data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import NoneType
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from crowdppl.core.validation import counts_of, kind_of, shown
from crowdppl.data.kinds import KINDS
from crowdppl.errors import ResultError
from crowdppl.inference.coin_tables import CoinTables
from crowdppl.inference.engines import ENGINES
from crowdppl.inference.families import FAMILIES
from crowdppl.inference.options import FitOptions, options_from
from crowdppl.inference.result import (
    CalibrationMap,
    ClassProbabilities,
    FitResult,
    NumberTruth,
    OnDemand,
    Record,
    SiteResult,
    TableDraws,
    Tables,
    TruthSpread,
    UpdateState,
)
from crowdppl.inference.sites import Site
from crowdppl.inference.tables import site_dims
from crowdppl.networks.training import training_of
from crowdppl.primitives.model import Model

Sizes = dict[str, int]
"""By letter: N items, A annotators, K classes, L answers, S labels. Any other word is what it is first."""
Check = Callable[[Any, str, Sizes], None]
"""Refuses a value at a place, a path such as "posterior/result/table", by a ResultError."""
MOST, LEAST = float(np.finfo(np.float64).max), float(np.finfo(np.float64).smallest_subnormal)
"""The largest finite number, and the smallest above 0."""
ROUNDING = 1e-3
"""By how much a row of shares may miss one: draws are kept in float32."""
FAINT = 1e-9
"""By how much a probability or an entropy may leave its range where it was rounded."""
LARGEST = 2**27
"""Numbers in stand-ins for stored features: half a gigabyte of float32."""
FEW = 10_000
"""A count of states or hidden units that is harmless in the smallest file."""
RANGES = {"positive": (0.0, MOST), "unit": (0.0, 1.0), "simplex": (0.0, 1.0 + ROUNDING)}
"""Values of a site by the name of its space."""


def refusal(place: str, found: str, wanted: str) -> ResultError:
    """The error for what crowdppl did not write."""
    return ResultError(
        f"{place} is {found}, not {wanted}: the file is damaged or forged; fetch it anew, or fit again"
    )


def plain(*kinds: type) -> Check:
    """A value of one of some types; True and False are no numbers."""

    def check(value: Any, place: str, sizes: Sizes) -> None:
        if type(value) not in kinds:
            raise refusal(place, kind_of(value), " or ".join(kind.__name__ for kind in kinds))

    return check


def one_of(names: Iterable[str]) -> Check:
    """One of some names."""
    known = tuple(names)

    def check(value: Any, place: str, sizes: Sizes) -> None:
        if type(value) is not str or value not in known:
            raise refusal(place, shown(value), f"one of {', '.join(known)}")

    return check


def maybe(inner: Check) -> Check:
    """The same, or None."""

    def check(value: Any, place: str, sizes: Sizes) -> None:
        if value is not None:
            inner(value, place, sizes)

    return check


def computed(inner: Check, later: bool = False) -> Check:
    """A value on demand, which is there in a saved posterior, unless a loaded one may compute it ``later``."""

    def check(value: Any, place: str, sizes: Sizes) -> None:
        plain(OnDemand)(value, place, sizes)
        if not (later and value.left_out):
            inner(value(), place, sizes)

    return check


def each(kind: type, inner: Check) -> Check:
    """A list or tuple, or a dict by texts, of values checked one by one; further sizes are of one alone."""

    def check(value: Any, place: str, sizes: Sizes) -> None:
        plain(kind)(value, place, sizes)
        for key, part in value.items() if kind is dict else enumerate(value):
            plain(str if kind is dict else int)(key, f"a key of {place}", sizes)
            inner(part, f"{place}/{key}", dict(sizes))

    return check


def parts(kind: type, some: bool = False, /, **inner: Check) -> Check:
    """A record, or a dict with just these keys, or ``some``, whose parts are checked in this order."""

    def check(value: Any, place: str, sizes: Sizes) -> None:
        plain(kind)(value, place, sizes)
        there = value if isinstance(value, dict) else vars(value)
        if not (there.keys() <= inner.keys() if some else there.keys() == inner.keys()):
            raise refusal(place, f"of the keys {shown(list(there))}", f"of {', '.join(inner)}")
        for name in filter(there.__contains__, inner):
            inner[name](there[name], f"{place}/{name}", sizes)

    return check


def numbers(
    shape: str | Sequence[str | int] | None,
    kinds: str = "f",
    low: float = -MOST,
    high: float | str = MOST,
    *,
    shares: bool = False,
) -> Check:
    """An array or tensor of numbers.

    Args:
        shape: a word or a length for each dimension, as in "A K L"; None for any.
        kinds: of its numbers, as numpy's dtypes name them.
        low, high: the range, by default all that are finite; a letter is a size that is not reached.
        shares: whether the last dimension adds up to one.
    """
    words = shape.split() if isinstance(shape, str) else shape

    def check(value: Any, place: str, sizes: Sizes) -> None:
        x = value.numpy() if isinstance(value, Tensor) else value
        if not isinstance(x, np.ndarray) or x.dtype.kind not in kinds:
            raise refusal(place, str(getattr(x, "dtype", kind_of(x))), f"an array of kind {kinds}")
        if words is not None:
            _require_shape(x.shape, words, place, sizes)
        top = sizes[high] - 1 if isinstance(high, str) else high
        if x.dtype.kind == "b":
            x = x.view(np.uint8)  # whose bytes may be anything
        slack = FAINT if x.dtype.kind == "f" and low == 0 else 0.0
        if x.size and not (float(x.min()) >= low - slack and float(x.max()) <= top + slack):
            raise refusal(place, f"between {x.min()} and {x.max()}", f"between {low:g} and {top:g}")
        if shares and x.size and not np.allclose(x.sum(-1), 1, atol=ROUNDING):
            raise refusal(place, "an array whose rows do not add up to one", "one of shares")

    return check


def _require_shape(found: tuple[int, ...], words: Sequence[str | int], place: str, sizes: Sizes) -> None:
    """Refuses another shape than that of words, whose sizes are settled by it where they are not yet known."""
    for word, length in zip(words, found, strict=False):
        if isinstance(word, str):
            sizes.setdefault(word, length)
    wanted = tuple(word if isinstance(word, int) else sizes.get(word) for word in words)
    if found != wanted:
        raise refusal(place, f"of shape {found}", f"{wanted} ({' '.join(map(str, words))})")


def ids(letter: str) -> Check:
    """An index of so many distinct texts, whole numbers or truth values."""

    def check(value: Any, place: str, sizes: Sizes) -> None:
        if not isinstance(value, pd.Index) or isinstance(value, pd.MultiIndex):
            raise refusal(place, kind_of(value), "an index")
        if len(value) != sizes.setdefault(letter, len(value)):
            raise refusal(place, f"of {len(value)} ids", f"of {letter} = {sizes[letter]}")
        for one in value if value.inferred_type not in ("string", "integer", "boolean") else ():
            plain(str, int, bool)(one, place, sizes)
        if value.hasnans or not value.is_unique:
            raise refusal(place, "an index in which one is missing or occurs twice", "of distinct ids")

    return check


def anything(value: Any, place: str, sizes: Sizes) -> None:
    """What only the method can judge: its settings, which it checks itself."""


def _n_classes(value: Any, place: str, sizes: Sizes) -> None:
    """A number of classes, at most that of answers, which is K from here on."""
    plain(int)(value, place, sizes)
    if not 0 <= value <= sizes["L"]:
        raise refusal(place, shown(value), f"from 0 to {sizes['L']}")
    sizes["K"] = value


def _kind(value: Any, place: str, sizes: Sizes) -> None:
    """A kind of labels that are classes, two or more, or numbers."""
    one_of([x for x, kind in KINDS.items() if sizes["K"] != 1 and kind.numeric == (sizes["K"] == 0)])(
        value, place, sizes
    )


def _permutation(value: Any, place: str, sizes: Sizes) -> None:
    """The classes, in another order."""
    each(list, plain(int))(value, place, sizes)
    if sorted(value) != list(range(sizes["K"])):
        raise refusal(place, shown(value), f"the numbers from 0 to {sizes['K'] - 1} in some order")


def _record_shares(value: Any, place: str, sizes: Sizes) -> None:
    """Shares of the classes of each item, or of none."""
    none = isinstance(value, np.ndarray) and value.shape[-1:] == (0,)
    numbers(["M", 0] if none else "M K", low=0, shares=True)(value, place, sizes)


def _row_shape(value: Any, place: str, sizes: Sizes) -> None:
    """The shape of a row of stored features, a stand-in of which fits in memory."""
    each(list, plain(int))(value, place, sizes)
    if min(value, default=0) < 1 or math.prod(value) > LARGEST:
        raise refusal(place, shown(value), f"of sizes of at least 1, with at most {LARGEST} numbers in all")


def _features(value: Any, place: str, sizes: Sizes) -> None:
    """Features of items, or what stored ones were."""
    stored = parts(dict, rows=numbers("N", "i", 0), row_shape=_row_shape, whole=plain(bool))
    (stored if isinstance(value, dict) else numbers(None, "fiub"))(value, place, sizes)


ANNOTATIONS = parts(
    dict,
    answers=ids("L"),
    n_classes=_n_classes,
    kind=_kind,
    informative=plain(bool),
    history=maybe(numbers("A K K", low=0)),
    abstainers=maybe(numbers("A", "b", 0, 1)),
    features=maybe(_features),
    columns=each(dict, anything),
    categories=each(dict, ids("G")),
    label_names=each(tuple, plain(str, int, bool)),
    roles=each(dict, plain(str)),
    warnings=each(list, each(list, plain(str))),
)
CODES = {name: numbers("S", "i", 0, of) for name, of in (("item", "N"), ("annotator", "A"), ("answer", "L"))}
"""Columns of the table of labels."""
GOLD = numbers("N", "i", -1, "K")
"""Known classes; of known numbers, NaN stands for none."""

SITE = parts(
    SiteResult,
    name=plain(str),
    dims=each(tuple, plain(str)),
    family=one_of([*FAMILIES, "point", "normal", "onehot", "draws"]),
    arrays=each(dict, numbers(None)),
    support=plain(str),
    weight=computed(maybe(numbers(None, low=0))),
    drawn=computed(maybe(numbers(None))),
)
SITES = each(dict, SITE)
NETWORKS = each(
    dict, parts(dict, own=plain(bool), state=each(dict, numbers(None, "fiub")), first=each(dict, numbers(None)))
)
NUMBER = plain(int, float)
DIAGNOSTICS = parts(
    dict,
    True,
    converged=plain(bool),
    interrupted=plain(bool),
    iterations=plain(int),
    objective=NUMBER,
    objectives=each(list, NUMBER),
    warnings=each(list, plain(str)),
    start=plain(str),
    restarts=each(list, each(dict, plain(str, int, float))),
    seconds=NUMBER,
    rhat=each(dict, NUMBER),
    ess_bulk=each(dict, NUMBER),
    ess_tail=each(dict, NUMBER),
    divergences=each(dict, plain(int)),
    relabelled=each(list, plain(int)),
    permutations=each(list, _permutation),
    chains=plain(int),
    draws=plain(int),
    volumes=each(dict, NUMBER),
    scores=each(dict, NUMBER),
)
SPREAD = parts(TruthSpread, sd=numbers("N K", low=0), entropies=numbers(["N", 2], low=0))


def _tables(lead: str) -> Check:
    """Annotators' tables, as an array or as coins."""
    whole = numbers(f"{lead} A K L", low=0, shares=True)

    def check(value: Any, place: str, sizes: Sizes) -> None:
        if not isinstance(value, CoinTables):
            return whole(value, place, sizes)
        part = numbers(None, low=0, high=1 + ROUNDING)
        parts(CoinTables, right=part, wrong=part, other=part, n_classes=plain(int), by_truth=plain(bool))(
            value, place, sizes
        )
        shape = [sizes.setdefault(word, len(value.other)) for word in f"{lead} A".split()]
        wide = [(*shape, 1), (*shape, sizes["K"])]
        other = (*shape, sizes["L"] - sizes["K"])
        if value.right.shape not in wide or value.wrong.shape not in wide or value.other.shape != other:
            raise refusal(place, f"of coins {value.right.shape}, {value.wrong.shape}", f"of {wide[-1]}")
        if value.n_classes != sizes["K"] or not np.allclose(value.rows(), 1, atol=ROUNDING):
            raise refusal(place, "an array whose rows do not add up to one", "one of shares")

    return check


DRAWS = parts(TableDraws, tables=_tables("draws"), prevalence=numbers("draws K", low=0, shares=True))
CLASSES = parts(
    ClassProbabilities, probabilities=numbers("N K", low=0, shares=True), spread=maybe(computed(SPREAD, later=True))
)
TABLES = parts(Tables, mean=_tables(""), prevalence=numbers("K", low=0, shares=True))
NUMBER_TRUTH = parts(NumberTruth, mean=numbers("N"), sd=numbers("N", low=0), positive=plain(bool))


def _truth(value: Any, place: str, sizes: Sizes) -> None:
    """Truths: numbers, where labels are or the method has a scale; else classes."""
    (CLASSES if sizes["K"] and not isinstance(value, NumberTruth) else NUMBER_TRUTH)(value, place, sizes)


def _tables_of(value: Any, place: str, sizes: Sizes) -> None:
    """The tables of annotators; of numbers, and on a scale, there are none."""
    (computed(TABLES) if value is not None and sizes["K"] else plain(NoneType))(value, place, sizes)


_RESULT = parts(
    FitResult,
    sites=SITES,
    truth=_truth,
    tables=_tables_of,
    diagnostics=DIAGNOSTICS,
    draws=maybe(computed(DRAWS, later=True)),
)


def result(value: Any, place: str, sizes: Sizes) -> None:
    """A result, which has tables where truths are classes, and none else; its numbers of draws are its own."""
    _RESULT(value, place, dict(sizes))
    found = value.tables is not None
    if found != isinstance(value.truth, ClassProbabilities) or (value.draws is not None and not found):
        raise refusal(place, "of other tables than its truths need", "of classes with tables, or numbers without")


RECORD = parts(Record, items=ids("M"), probabilities=_record_shares, votes=numbers("M", "iuf", 0), sites=SITES)
MEMORY = parts(
    UpdateState,
    sites=SITES,
    items=ids("N"),
    evidence=numbers("N K"),
    votes=numbers("N", "iuf", 0),
    labels=numbers("A", "iuf", 0),
    records=each(tuple, RECORD),
)
FIT: dict[str, Check] = {
    "method": plain(str),
    "settings": each(dict, anything),
    "networks": maybe(NETWORKS),
    "inference": one_of(ENGINES),
    "options": each(dict, plain(NoneType, bool, int, float, str)),
    "memory": maybe(MEMORY),
    "result": result,
}
TRUTH_MAP = parts(
    CalibrationMap,
    scale=NUMBER,
    shift=numbers("K"),
    temperatures=numbers("T", low=0),
    weights=numbers("T", low=0, shares=True),
    channels=numbers("T K K", low=0, shares=True),
)
CORRECTION = parts(
    dict,
    raw=numbers("N K", low=0, shares=True),
    weights=each(dict, NUMBER),
    rates=each(dict, NUMBER),
    scores=each(dict, NUMBER),
    gold=plain(int),
    truth_map=maybe(TRUTH_MAP),
    temperature=maybe(NUMBER),
    notes=each(tuple, plain(str)),
    others=each(dict, parts(dict, **FIT)),
)
POSTERIOR = parts(dict, data=ANNOTATIONS, **FIT, correction=maybe(CORRECTION))


def require_posterior(values: Any, tables: Mapping[str, pd.DataFrame]) -> Sizes:
    """Refuses what ``save`` did not write, by a ResultError; returns the sizes of the data."""
    labels, items, people = (tables[name] for name in ("labels", "items", "annotators"))
    sizes = {"N": len(items), "A": len(people), "S": len(labels)}
    if not all(sizes.values()):
        raise refusal("the table of labels, items or annotators", "empty", "that of a fit")
    POSTERIOR(values, "posterior", sizes)
    for letter, table in (("N", items), ("A", people)):
        ids(letter)(pd.Index(table["id"].array), "an id", sizes)
    for name, check in CODES.items():
        check(labels[name].to_numpy(), f"labels/{name}", sizes)
    if "gold" in items:
        gold = items["gold"].to_numpy()
        if sizes["K"]:
            GOLD(gold, "items/gold", sizes)
        else:
            numbers("N")(np.nan_to_num(gold) if gold.dtype.kind == "f" else gold, "items/gold", sizes)
    _require_members(values)
    return sizes


def _require_members(values: Mapping[str, Any]) -> None:
    """Refuses options that no fit has, and a correction that averages other fits than those that are there."""
    correction = values["correction"] or {"others": {}}
    fits = {values["method"]: values, **correction["others"]}
    for name, fit in fits.items():
        options_from(cast(FitOptions, {key: x for key, x in fit["options"].items() if key != "device"}))
        if name != fit["method"]:
            raise refusal(f"the fit {name}", f"one of {fit['method']}", f"of {name}")
    for part in ("weights", "rates") if values["correction"] else ():
        if correction[part].keys() != fits.keys():
            raise refusal(f"correction/{part}", f"of {', '.join(correction[part])}", f"of {', '.join(fits)}")


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
        parts(dict, **_arrays(site, known[name], shape))(dict(site.arrays), place, dict(sizes))
        if site.conjugate is not None and not site.conjugate.proper(site.parameter):
            raise refusal(place, "of parameters out of range", f"of a {site.family}")
        parameter = shape if site.conjugate is None else site.conjugate.leaf_shape(tuple(shape))
        maybe(numbers(parameter[:-1], low=LEAST))(site.weight(), f"{place}/weight", sizes)
        maybe(numbers(["D", *shape], low=LEAST))(site.drawn(), f"{place}/drawn", dict(sizes))


def _arrays(site: SiteResult, known: Site, shape: Sequence[int]) -> dict[str, Check]:
    """The arrays of a site's family; a value lies in its own space."""
    if site.conjugate is not None:
        return {site.conjugate.key: numbers(site.conjugate.leaf_shape(tuple(shape)))}
    space = "simplex" if site.family == "onehot" else known.space
    low, high = RANGES.get(space, (-MOST, MOST))

    def values(*lead: str) -> Check:
        return numbers([*lead, *shape], "f", low, high, shares=space == "simplex")

    if site.family == "normal":
        free = known.transform.inverse_shape(torch.Size(shape))
        unit = {"unit": numbers([], low=known.unit, high=known.unit)} if known.unit else {}
        return {"loc": numbers(free), "scale": numbers(free, low=0), "mean": values(), **unit}
    key = {"onehot": "probability", "point": "value", "draws": "draws"}[site.family]
    return {key: values("C", "D") if key == "draws" else values()}
