"""Estimates of shares, means, accuracies, differences and win rates, with intervals that hold."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from crowdppl.core.intervals import check_level
from crowdppl.core.validation import one_of, seed_number, shown, whole_number
from crowdppl.data.ids import native
from crowdppl.errors import DataError, MethodError
from crowdppl.estimation.designs import Design
from crowdppl.estimation.figures import Figure, Sample
from crowdppl.estimation.inputs import (
    Proxy,
    are_numbers,
    by_items,
    labels_by_people,
    rows_of,
    shares_of_labels,
    worth_of_labels,
)
from crowdppl.estimation.refusals import FEWEST, FEWEST_TO_MONITOR, require_enough, require_random, require_units

QUANTITIES = ("share", "mean", "accuracy", "difference", "win_rate", "coefficients")
METHODS = ("auto", "people", "ppi", "ppi++", "linear", "map")
INTERVALS = ("t", "bootstrap", "anytime")
FOLDS = 5


@dataclass(frozen=True, eq=False, repr=False)
class PopulationEstimate:
    """A figure about all items, estimated from labels by people of some.

    Attributes:
        quantity: what was estimated, in words.
        method: how the proxy was used.
        level: probability of the intervals.
        table: DataFrame of one row ("all"), a row a group, or a row a coefficient: ``estimate``, ``low``, ``high``,
            ``se``; ``people``, labelled items; ``items``, all of them; ``worth``, how many times as many items
            people would have to label for the same standard error without a proxy.

    Examples:
        >>> import pandas as pd
        >>> people = pd.Series(["yes", "no", "no", "yes", "yes"] * 4)
        >>> crowdppl.estimate("share", people, of="yes")
        share of 'yes' by people, 95% intervals
        all: 0.6 [0.3648, 0.8352], 20 of 20 items labelled by people, worth 1.00 times as many
    """

    quantity: str
    method: str
    level: float
    table: pd.DataFrame

    @property
    def value(self) -> float:
        """The estimate of the only, or the first, row."""
        return float(self.table["estimate"].iloc[0])

    @property
    def low(self) -> float:
        """The lower end of its interval."""
        return float(self.table["low"].iloc[0])

    @property
    def high(self) -> float:
        """The upper end of its interval."""
        return float(self.table["high"].iloc[0])

    def __repr__(self) -> str:
        rows = [
            f"{name}: {value:.4g} [{low:.4g}, {high:.4g}], {people:,.0f} of {items:,.0f} items labelled by people"
            + (f", worth {worth:.2f} times as many" if worth > 0 else "")
            for name, (value, low, high, _, people, items, worth) in zip(
                self.table.index, self.table.to_numpy(float), strict=True
            )
        ]
        return "\n".join([f"{self.quantity} by {self.method}, {self.level:.0%} intervals", *rows])


def estimate(
    quantity: Literal["share", "mean", "accuracy", "difference", "win_rate", "coefficients"],
    people: Any,
    proxy: Any = None,
    *,
    of: Any = None,
    by: pd.Series | Mapping[Any, Any] | Hashable | None = None,
    items: Any = None,
    chances: pd.Series | pd.DataFrame | Mapping[Any, float] | None = None,
    strata: pd.Series | Mapping[Any, Any] | None = None,
    clusters: pd.Series | Mapping[Any, Any] | None = None,
    tie: Hashable | None = None,
    method: Literal["auto", "people", "ppi", "ppi++", "linear", "map"] = "auto",
    interval: Literal["t", "bootstrap", "anytime"] = "t",
    population: Literal["items", "beyond"] = "items",
    planned: int = 100,
    level: float = 0.95,
    seed: int = 0,
) -> PopulationEstimate:
    """A figure about all items, with an interval, from people's labels of some items and a proxy of all.

    The figure is what people would say, were they asked about each item. The proxy makes the interval narrower, and
    whatever it says, the interval stays valid (prediction-powered inference: Angelopoulos et al. 2023, Science 382;
    PPI++: Angelopoulos, Duchi & Zrnic 2023; with cross-fitting: Zrnic & Candes 2024, PNAS 121), as long as the
    items that people labelled were drawn at random or as ``chances``, ``strata`` or ``clusters`` say.

    Args:
        quantity: "share" of the class ``of``; "mean" of classes that are numbers, or of numbers; "accuracy" of the
            annotator ``of``, by default of the proxy's most probable classes; "difference" of the accuracies of two
            annotators on items that both labelled; "win_rate" of an object, or of one against another, among
            comparisons, or of a class, where a ``tie`` counts one half; "coefficients" of a linear regression of
            numbers on ``of``, a DataFrame of columns by item, with an intercept.
        people: their labels of some items: annotations, a DataFrame with the columns item and label, a Series or
            dict by item. Several labels of an item are averaged.
        proxy: a fit without gold, annotations (by models, say), a Series of labels or numbers by item, a DataFrame
            of probabilities or of numbers. Its items are those that the figure is about.
        of: see ``quantity``.
        by: a group of each item, for a row a group: a Series or dict, or a column of the item covariates.
        items: ids of all items, where there is no proxy; without them, the population is taken to be large.
        chances: by item, the probability with which it was chosen for people, of at least the chosen ones, or the
            DataFrame of ``draw_items``.
        strata: by item, the part of the items from which some were drawn at random.
        clusters: by item, what was drawn at random as a whole, such as a conversation; by default the sequence of a
            token, and the item of a class in sets.
        tie: the class that counts one half in a win rate of classes.
        method: how the proxy is used. "people" leaves it out; "ppi" takes it as it is, "ppi++" times a number;
            "linear" is a regression on the forecast and each annotator's label; "map" a logistic regression of the
            classes on them. The last two are cross-fitted. "auto" is "map" where labels are classes, else "linear".
        interval: "t" by Student's t; "bootstrap" resamples; "anytime" holds however often one looks and whenever
            one stops, if each time more items are drawn (for 30 labelled items or more).
        population: "items" is all of them, so that the interval vanishes when people label all; "beyond" takes them
            to be a sample of more: intervals are then wider.
        planned: labelled items at which an "anytime" interval is to be narrowest; fixed before one looks.
        level: probability of the interval.
        seed: of folds and resampling.

    Returns:
        A record whose ``table`` has a row a figure.

    Raises:
        MethodError: for what cannot be claimed: too few labelled items, outcomes too rare among them, groups or
            strata without people; the message says what would suffice.
        DataError: for items that the proxy lacks, probabilities that are none, labels that are no class, and items
            that the proxy sees to be drawn otherwise than at random.

    Examples:
        >>> data = crowdppl.anaesthetists()
        >>> judge = data.frame().query("annotator == '2'").set_index("item")["label"]
        >>> people = data.frame().query("annotator == '1'").drop_duplicates("item").head(15)
        >>> found = crowdppl.estimate("share", people, judge, of=1, method="ppi++")
        >>> round(found.value, 2), bool(found.low < found.value < found.high)
        (0.41, True)
    """
    check_request(quantity, method, interval, level)
    one_of("population", population, ("items", "beyond"))
    seed, planned = seed_number(seed), whole_number("planned", planned, FEWEST_TO_MONITOR)
    labels = labels_by_people(people)
    known = Proxy.of(proxy, labels, items, quantity in ("mean", "coefficients") and are_numbers(labels))
    if chances is None and clusters is None:
        clusters = known.clusters()
    x, names = _regressors(quantity, of, known)
    sample, scope = _sampled(quantity, labels, known, of, tie, clusters, seed)
    how_used = _chosen(method, proxy, known)
    finite = population == "items" and interval != "anytime" and not (proxy is None and items is None)
    how = {**_drawn(known, sample.row, chances, strata, clusters), "finite": finite}
    if proxy is not None:
        require_random(sample, Design.of(sample.row, scope, **how), scope)
    parts = sample.forecasts(how_used), sample.forecasts("people")
    rows, index, (least, most) = [], list[Any](), _possible(sample, quantity)
    for group, own in _groups(by, known, scope):
        among = np.isin(sample.row, own)
        if among.sum() < len(own) or not finite:
            fewest = FEWEST_TO_MONITOR if interval == "anytime" else FEWEST
            require_enough(quantity, group, sample.value[among], fewest)
        design = Design.of(sample.row[among], own, **how)
        require_units(group, design)
        disjoint = population == "beyond" and how_used in ("ppi", "ppi++")
        found, alone = (
            Figure.of(name, part, sample, among, own, x, design, beyond, disjoint and name == how_used)
            for name, part, beyond in ((how_used, parts[0], population == "beyond"), ("people", parts[1], False))
        )
        below, above = found.ends(interval, level, planned, seed, normal=disjoint)
        se, n = np.sqrt(found.variance), int(among.sum())
        worth = np.divide(alone.variance, found.variance, np.full(len(se), np.nan), where=found.variance > 0)
        for at, name in enumerate(names):
            index.append(group if len(names) == 1 else name if by is None else (group, name))
            value = found.value[at]
            ends = max(value - below[at], least), min(value + above[at], most)
            rows.append((value, *ends, se[at], n, len(own), worth[at]))
    columns = ["estimate", "low", "high", "se", "people", "items", "worth"]
    table = pd.DataFrame(rows, index, columns)
    table.index.names = ["group"] if table.index.nlevels == 1 else ["group", "coefficient"]
    return PopulationEstimate(_in_words(quantity, of), how_used, level, table)


def check_request(quantity: str, method: str, interval: str, level: float) -> None:
    """Refuses unknown quantities, methods, intervals and levels by a MethodError."""
    one_of("quantity", quantity, QUANTITIES)
    one_of("method", method, METHODS)
    one_of("interval", interval, INTERVALS)
    check_level(level)


def _sampled(
    quantity: str, labels: pd.Series[Any], known: Proxy, of: Any, tie: Any, clusters: Any, seed: int
) -> tuple[Sample, np.ndarray]:
    """What people said of items in scope, and the rows of all items in scope."""
    at, n = rows_of(labels, known.items), len(known.items)
    if known.classes is None:
        if quantity not in ("mean", "coefficients"):
            raise MethodError(f"{quantity!r} is of classes, and the proxy has numbers; ask for 'mean'")
        count = np.bincount(at, minlength=n)
        value = np.bincount(at, pd.to_numeric(labels).to_numpy(float), n) / np.maximum(count, 1)
        truth, worth, scope = None, None, np.ones(n, bool)
    else:
        worth, scope = worth_of_labels(quantity, of, known, tie)
        truth = shares_of_labels(labels, known.classes, at, n)
        value, count = (truth * worth).sum(1), truth.sum(1)
    row = np.flatnonzero((count > 0) & scope)
    unit = row if clusters is None else pd.factorize(by_items(clusters, known.items, "clusters"))[0][row]
    units, place = np.unique(unit, return_inverse=True)
    fold = (np.random.default_rng(seed).permutation(len(units)) % FOLDS)[place]
    truth = None if truth is None else truth[row]
    return Sample(known, row, value[row], fold, truth, worth), np.flatnonzero(scope)


def _possible(sample: Sample, quantity: str) -> tuple[float, float]:
    """The least and the largest value that the figure can have."""
    if sample.worth is None or quantity == "coefficients":
        return -np.inf, np.inf
    return float(sample.worth.min()), float(sample.worth.max())


def _chosen(method: str, proxy: Any, known: Proxy) -> str:
    """The method that is meant by "auto"; MethodError for one that the proxy does not allow."""
    if proxy is None:
        if method not in ("auto", "people"):
            raise MethodError(f"method={method!r} needs a proxy= of all items; without one, take 'people'")
        return "people"
    if method == "map" and known.classes is None:
        raise MethodError("method='map' is of classes, and the proxy has numbers; take 'linear'")
    if method in ("ppi", "ppi++") and known.classes is None and known.forecast.shape[1] > 1:
        raise MethodError(
            f"method={method!r} takes one proxy, and there are {known.forecast.shape[1]}; take 'linear'"
        )
    return method if method != "auto" else "linear" if known.classes is None else "map"


def _regressors(quantity: str, of: Any, known: Proxy) -> tuple[np.ndarray, list[Any]]:
    """Regressors (N, P), of a mean the constant alone, and their names."""
    one = np.ones((len(known.items), 1))
    if quantity != "coefficients":
        return one, [None]
    if not isinstance(of, pd.DataFrame) or not of.index.is_unique:
        raise MethodError("of= must be a DataFrame of regressors, one row an item: of=covariates[['length']]")
    table = of.reindex(known.items)
    values = table.apply(pd.to_numeric, errors="coerce").to_numpy(float)
    if not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0]
        raise DataError(
            f"the regressor {native(of.columns[column])!r} of item {native(known.items[row])!r} is "
            f"{table.iloc[row, column]}; give a number for each item"
        )
    x = np.column_stack([one, values])
    if np.linalg.matrix_rank(x) < x.shape[1]:
        raise MethodError("regressors are linear in one another, or constant; leave one out")
    return x, ["intercept", *map(native, of.columns)]


def _drawn(known: Proxy, row: np.ndarray, chances: Any, strata: Any, clusters: Any) -> dict[str, Any]:
    """How items were drawn, as arguments of ``Design.of``."""
    if chances is not None and (strata is not None or clusters is not None):
        raise MethodError("chances= already says how items were drawn; leave strata= and clusters= out")
    found: dict[str, Any] = {"chance": None, "stratum": None, "cluster": None}
    if chances is not None:
        if isinstance(chances, pd.DataFrame) and {"item", "chance"} <= {*chances.columns, chances.index.name}:
            chances = chances.reset_index().set_index("item")["chance"]
        values = pd.to_numeric(by_items(chances, known.items, "chances", row), errors="coerce").to_numpy(float)
        if (wrong := row[~((values[row] > 0) & (values[row] <= 1))]).size:
            item, given = native(known.items[wrong[0]]), values[wrong[0]]
            raise DataError(
                f"chances= of item {item!r} is {given:g}, and people labelled it; give the probability of choosing "
                "it, above 0 and at most 1"
            )
        found["chance"] = values
    for name, values in (("stratum", strata), ("cluster", clusters)):
        if values is not None:
            option = "strata" if name == "stratum" else "clusters"
            found[name] = pd.factorize(by_items(values, known.items, option))[0]
    return found


def _groups(by: Any, known: Proxy, scope: np.ndarray) -> list[tuple[Any, np.ndarray]]:
    """Names and rows of the groups among items in scope; "all" without groups."""
    if by is None:
        return [("all", scope)]
    if not isinstance(by, pd.Series | Mapping):
        table = None if known.data is None else known.data.item_covariates
        if table is None or not isinstance(by, Hashable) or by not in table.columns:
            there = "none" if table is None else ", ".join(repr(native(x)) for x in table.columns)
            raise DataError(f"item_covariates have no column {shown(by)} (there are: {there}); give groups by item")
        by = table[by]
    code, names = pd.factorize(by_items(by, known.items, "by", scope[:0]).iloc[scope])
    if not len(names):
        raise DataError("by= names none of the items; spell items as the proxy does")
    return [(native(names[n]), scope[code == n]) for n in sorted(range(len(names)), key=lambda n: str(names[n]))]


def _in_words(quantity: str, of: Any) -> str:
    """The figure for people."""
    if quantity == "difference":
        return f"accuracy of {shown(of[0])} less that of {shown(of[1])}"
    if quantity in ("mean", "coefficients") or of is None:
        return quantity
    if isinstance(of, tuple | list):
        return f"win rate of {shown(of[0])} against {shown(of[1])}"
    return f"{quantity.replace('_', ' ')} of {shown(of)}"
