"""Agreement of annotators who give numbers: intraclass correlations and Krippendorff's alpha."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from crowdppl.agreement.resampling import Coefficient, resampled
from crowdppl.agreement.votes import ratio, require_labels_to_compare, require_two_annotators, row_pairs
from crowdppl.core.intervals import check_level
from crowdppl.core.validation import warn
from crowdppl.data.annotations import Annotations, require_annotations
from crowdppl.data.ids import as_number, ranked
from crowdppl.data.kinds.space import REAL_LINE, number_space
from crowdppl.errors import DataError, SparseDataWarning


class Squares(NamedTuple):
    """Mean squares of a table of n items by k annotators: between items, between annotators, within items, and the
    rest, what neither explain.
    """

    n: int
    k: int
    items: float
    annotators: float
    within: float
    rest: float


def intraclass_correlations(data: Annotations, *, level: float = 0.95) -> pd.DataFrame:
    """All six intraclass correlations of annotators who give numbers, with F tests and intervals.

    Each is a share of the variance of labels that is one of items. Items that some annotator did not label are left
    out; repeats are averaged.

    - ICC1: each item has other annotators
    - ICC2: annotators are drawn from many, and their biases count as errors (absolute agreement)
    - ICC3: these annotators alone, whose biases do not count (consistency)
    - ICC1k, ICC2k, ICC3k: those of the mean over all annotators; ICC3k is Cronbach's alpha

    Args:
        data: labels that are numbers (``kind="real"``), or grades whose names are numbers in rising order.
        level: probability of the intervals.

    Returns:
        DataFrame by form:

        - ``value``, ``low``, ``high``: the correlation and its interval
        - ``F``, ``df1``, ``df2``, ``p``: of the test that it is 0
        - ``items``, ``annotators``: how many entered

    Raises:
        DataError: when labels are no numbers, or fewer than two items were labelled by all of two annotators or
            more.
        MethodError: for a level that is not between 0 and 1.

    Source: Shrout & Fleiss (1979), Psychological Bulletin 86: 420-428; McGraw & Wong (1996), Psychological Methods
    1: 30-46.

    Examples:
        >>> marks = {"ann": {1: 9, 2: 6, 3: 8}, "bob": {1: 2, 2: 1, 3: 4}, "cy": {1: 5, 2: 3, 3: 6}}
        >>> data = crowdppl.Annotations.from_dicts(marks, kind="real")
        >>> crowdppl.intraclass_correlations(data)["value"].round(2).to_dict()
        {'ICC1': -0.09, 'ICC2': 0.19, 'ICC3': 0.74, 'ICC1k': -0.31, 'ICC2k': 0.41, 'ICC3k': 0.89}
    """
    from scipy.stats import f as f_distribution  # slow to import

    check_level(level)
    found = _squares(_complete(require_annotations(data)))
    tail = (1 + level) / 2
    one_way = _by_f(found, found.within, found.n * (found.k - 1), tail)
    these = _by_f(found, found.rest, (found.n - 1) * (found.k - 1), tail)
    rows = {}
    for number, (value, low, high, f, df2) in enumerate((one_way, _drawn(found, tail), these), 1):
        for name, k in ((f"ICC{number}", 1), (f"ICC{number}k", found.k)):  # means of k labels: Spearman-Brown
            rows[name] = (*(k * x / (1 + (k - 1) * x) for x in (value, low, high)), f, found.n - 1, df2)
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["value", "low", "high", "F", "df1", "df2"])
    table = table.loc[["ICC1", "ICC2", "ICC3", "ICC1k", "ICC2k", "ICC3k"]].rename_axis("form")
    p = f_distribution.sf(table["F"], table["df1"], table["df2"])
    return table.assign(p=p, items=found.n, annotators=found.k)


Form = tuple[float, float, float, float, int]
"""Value of a single label, low, high; F and the degrees of freedom of its denominator."""


def _by_f(x: Squares, rest: float, df2: int, tail: float) -> Form:
    """Of other annotators for each item, or of these alone: a function of F."""
    f = _ratio(x.items, rest)
    low, high = f / _quantile(tail, x.n - 1, df2), f * _quantile(tail, df2, x.n - 1)
    value = (x.items - rest) / (x.items + (x.k - 1) * rest)
    return value, (low - 1) / (low + x.k - 1), (high - 1) / (high + x.k - 1), f, df2


def _drawn(x: Squares, tail: float) -> Form:
    """Of annotators drawn from many; the interval by Satterthwaite's degrees of freedom."""
    f, df2 = _ratio(x.items, x.rest), (x.n - 1) * (x.k - 1)
    value = (x.items - x.rest) / (x.items + (x.k - 1) * x.rest + x.k * (x.annotators - x.rest) / x.n)
    of_annotators, of_rest = x.k * value * _ratio(x.annotators, x.rest), x.n * (1 + (x.k - 1) * value) - x.k * value
    df = df2 * (of_annotators + of_rest) ** 2 / ((x.n - 1) * of_annotators**2 + of_rest**2)
    upper, lower = _quantile(tail, x.n - 1, df), _quantile(tail, df, x.n - 1)
    others = x.k * x.annotators + (x.k * x.n - x.k - x.n) * x.rest
    low = x.n * (x.items - upper * x.rest) / (upper * others + x.n * x.items)
    high = x.n * (lower * x.items - x.rest) / (others + x.n * lower * x.items)
    return value, low, high, f, df2


def _ratio(above: float, below: float) -> float:
    return above / below if below > 0 else math.inf


def _quantile(share: float, df1: float, df2: float) -> float:
    from scipy.stats import f  # slow to import

    return float(f.ppf(share, df1, df2))


def _squares(table: np.ndarray) -> Squares:
    """Mean squares of a table (n, k)."""
    n, k = table.shape
    items, annotators, mean = table.mean(1), table.mean(0), table.mean()
    of_items, of_annotators = k * ((items - mean) ** 2).sum(), n * ((annotators - mean) ** 2).sum()
    within = ((table - items[:, None]) ** 2).sum()
    rest = ((table - items[:, None] - annotators + mean) ** 2).sum()
    parts = of_items / (n - 1), of_annotators / (k - 1), within / (n * (k - 1)), rest / ((n - 1) * (k - 1))
    return Squares(n, k, *map(float, parts))


def _complete(data: Annotations) -> np.ndarray:
    """The numbers of items that all annotators labelled, (n, k)."""
    require_labels_to_compare(data)
    numeric, rows = data.alphabet.kind.numeric, data.frame()
    on_a_line = numeric and data.space.scale == REAL_LINE.scale and data.alphabet.kind.parts is None
    if not (on_a_line if numeric else ranked(data.classes)):
        raise DataError(
            f"intraclass correlations compare numbers on a line, and labels of kind {data.kind!r} are "
            f"{data.alphabet.kind.plural}; read numbers by kind='real'"
        )
    values = rows["label"] if numeric else rows["label"].map(as_number).where(rows["label"].isin(data.classes))
    given = rows.assign(label=values).dropna(subset=["label"])
    table = given.groupby(["item", "annotator"])["label"].mean().unstack()
    whole = table.dropna()
    if min(whole.shape) < 2:
        raise DataError(
            f"{len(whole)} of {len(table)} items were labelled by all {table.shape[1]} annotators, and intraclass "
            "correlations need two of each; give the labels of annotators who share items"
        )
    if len(whole) < len(table):
        warn(
            f"{len(table) - len(whole)} of {len(table)} items are left out, which some annotator did not label",
            SparseDataWarning,
        )
    return whole.to_numpy(np.float64)


Sums = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Labels, (C,), the sums of their coordinates, (D, C), of the squares of these and of ``apart``, (C,) each."""


@dataclass(frozen=True)
class ItemSums:
    """What is summed of the numbers of every item; of an annotator's m labels of it, each has the weight 1/m.

    Attributes:
        size: how many annotators labelled each item, (N,).
        first, second: sums of their numbers' coordinates, which are scaled to [0, 1], (D, N), and of the squares of
            these, (N,).
        apart: squared distances of the numbers of two annotators, each pair counted twice, over the number of
            annotators less one, (N,); zero on items of one annotator.
    """

    size: np.ndarray
    first: np.ndarray
    second: np.ndarray
    apart: np.ndarray

    @classmethod
    def of(cls, item: np.ndarray, annotator: np.ndarray, points: np.ndarray) -> ItemSums:
        """The sums of labels, codes (S,) without gaps and coordinates (S, D); DataError unless an item has two."""
        pairs, vote, times = np.unique(np.stack([item, annotator]), axis=1, return_inverse=True, return_counts=True)
        several = np.bincount(pairs[0])[item] > 1
        require_two_annotators(int(item.max()) + 1, len(times))
        low, width = points[several].min(0), np.ptp(points[several], axis=0).max() or 1.0
        points = np.where(several, ((points - low) / width).T, 0)  # squares of large numbers have no digits left
        *means, square = (np.bincount(vote.reshape(-1), x) / times for x in (*points, (points**2).sum(0)))
        size, first = np.bincount(pairs[0]), np.stack([np.bincount(pairs[0], x) for x in means])
        second, own = (np.bincount(pairs[0], x) for x in (square, (np.stack(means) ** 2).sum(0)))
        apart = np.where(size > 1, 2 * (second - ((first**2).sum(0) - own) / np.maximum(size - 1, 1)), 0)
        return cls(size, first, second, apart)

    def total(self, weight: np.ndarray) -> Sums:
        """Sums over items of two annotators or more that count ``weight`` times, (N, C)."""
        compared = weight * (self.size > 1)[:, None]
        return self.size @ compared, self.first @ compared, self.second @ compared, self.apart @ compared


def _alpha(totals: Sums) -> np.ndarray:
    """Krippendorff's alpha where the disagreement of two numbers is their squared distance, (C,)."""
    n, first, second, apart = totals
    return 1 - ratio(ratio(apart, n), 2 * ratio(second - ratio((first**2).sum(0), n), n - 1))


def alpha_of_numbers(data: Annotations, samples: int, seed: int) -> dict[str, Coefficient]:
    """Alpha and its bootstrap samples of items; DataError where no item has two annotators."""
    require_labels_to_compare(data)
    item, annotator, _ = data.label_codes()
    space = number_space(data.space)
    points = space.coordinates(data.frame()["label"].to_numpy(np.float64))
    sums = ItemSums.of(np.unique(item, return_inverse=True)[1], annotator, points)
    return resampled(sums, {f"krippendorff_{space.scale}": _alpha}, samples, seed)


def _votes_of_numbers(data: Annotations) -> pd.DataFrame:
    """The number of each item and annotator, the mean of repeats: item, annotator and value, by item."""
    require_labels_to_compare(data)
    item, annotator, _ = data.label_codes()
    space = number_space(data.space)
    moments = pd.DataFrame(dict(enumerate(space.moments(data.frame()["label"].to_numpy(np.float64)))))
    means = moments.groupby([item, annotator]).mean()
    if means.index.get_level_values(0).is_unique:
        require_two_annotators(len(means), len(means))
    value = space.estimate(means[0].to_numpy(), means[1].to_numpy())[0]
    return pd.DataFrame({"value": value}, means.index).rename_axis(["item", "annotator"]).reset_index()


def _alpha_of(apart: np.ndarray, expected: Any) -> np.ndarray:
    """1 less the mean squared distance of two labels over that which is expected."""
    return 1 - ratio(apart, np.asarray(expected))


def items_of_numbers(data: Annotations) -> pd.DataFrame:
    """How far annotators agree on each item, as of ``agreement_items``."""
    votes, space = _votes_of_numbers(data), number_space(data.space)
    points = space.coordinates(votes["value"].to_numpy())
    by_item = votes.groupby("item")["value"]
    size = by_item.size()
    n = size.to_numpy()
    at = np.searchsorted(size.index, votes["item"])
    several = n[at] > 1
    centred = points - points[several].mean(0)
    first = np.stack([np.bincount(at, x) for x in centred.T], 1)
    second = np.bincount(at, (centred**2).sum(1))
    apart = ratio(2 * (n * second - (first**2).sum(1)), n * (n - 1))
    total = several.sum()
    expected = 2 * (centred[several] ** 2).sum() / (total - 1)
    columns = {
        "annotators": n,
        "mean": by_item.agg(lambda x: float(space.mean(x.to_numpy()))).to_numpy(),
        "sd": np.sqrt(np.maximum(apart, 0) / 2),  # equal numbers, rounded
        "agreement": np.where(n > 1, _alpha_of(apart, expected), np.nan),
    }
    return pd.DataFrame(columns, data.item_index[size.index.to_numpy()])


def pairs_of_numbers(data: Annotations) -> pd.DataFrame:
    """How far each two annotators agree, as of ``agreement_pairs``."""
    votes, space = _votes_of_numbers(data), number_space(data.space)
    one, other = row_pairs(votes.groupby("item").size().to_numpy())
    who, value = votes["annotator"].to_numpy(), votes["value"].to_numpy()
    rows = pd.DataFrame({"annotator": who[one], "other": who[other], "x": value[one], "y": value[other]})
    found = {}
    for pair, own in rows.groupby(["annotator", "other"]):
        x, y = own["x"].to_numpy(), own["y"].to_numpy()
        apart, (a, b) = space.error(x, y), (space.coordinates(v) for v in (x, y))
        both = np.concatenate([a, b])
        expected = 2 * ((both - both.mean(0)) ** 2).sum() / (len(both) - 1)
        found[pair] = {
            "items": len(own),
            "difference": float(apart.mean()),
            "rmsd": float(np.sqrt((apart**2).mean())),
            "correlation": float(space.correlation(x, y)) if len(own) > 2 else np.nan,
            "agreement": float(_alpha_of(((a - b) ** 2).sum(1).mean(), expected)),
        }
    codes = np.array([*found], dtype=np.int64).reshape(-1, 2).T
    index = pd.MultiIndex.from_arrays([data.annotators[code] for code in codes], names=["annotator", "other"])
    return pd.DataFrame([*found.values()], index)
