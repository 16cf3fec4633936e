"""Posterior predictive checks, and the classes of a fit that labels contradict."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl.agreement.votes import row_pairs
from crowdppl.core.validation import listed, seed_number, whole_number
from crowdppl.data.annotations import Annotations
from crowdppl.data.blocks import row_sizes
from crowdppl.data.ids import native
from crowdppl.data.kinds.parts import SIDES
from crowdppl.data.kinds.rankings import OF_RANKS, RANKINGS
from crowdppl.errors import DataError
from crowdppl.inference.predict.update import draw_labels
from crowdppl.inference.result import Fit, require_fit
from crowdppl.plots.axes import ACCENT, LIGHT, axes_or_new, write_beside

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MIN_SHARED = 10
"""Items that two annotators have to share for their agreement to be looked at."""
PAIRS_AT_ONCE = 2_000_000
MIN_PROBABILITY = 0.05
"""Of an answer; agreement on rarer ones has no more weight."""
ERRORS, MARGIN = 2.0, 0.8
"""Standard errors, and the ratio, by which a class has to fall short of the agreement of labels."""


@dataclass(frozen=True)
class Design:
    """The labels by item.

    Attributes:
        item, annotator, answer: of each label, (S,); labels of an item stand together. Answers may be numbers.
        place: of each label in the order of the blocks, (S,).
        labels: number of labels of each item, (N,).
        n_annotators, n_answers: A, L.
    """

    item: np.ndarray
    annotator: np.ndarray
    answer: np.ndarray
    place: np.ndarray
    labels: np.ndarray
    n_annotators: int
    n_answers: int

    @classmethod
    def of(cls, data: Annotations, named: bool = False, least: int = 2, numbers: bool = False) -> Design:
        """The labels of annotations, ``named`` without abstentions, or ``numbers``.

        Raises:
            DataError: when no item has two labels, or as many as are the ``least``, or labels are no classes.
        """
        classes = 0 if numbers else len(data.classes)
        labels = np.concatenate([row_sizes(block) for block in data.blocks])
        cells = np.concatenate([block.bags.cells.cpu().numpy() for block in data.blocks]).astype(np.int64)
        item = np.repeat(np.arange(len(labels)), labels)
        annotator, answer = np.divmod(cells, data.n_answers)
        if numbers:
            answer = np.concatenate([np.asarray(block.numbers) for block in data.blocks])
        place = np.arange(len(cells))
        if named and data.n_answers > classes:
            item, annotator, answer, place = (x[answer < classes] for x in (item, annotator, answer, place))
            labels = np.bincount(item, minlength=len(labels))
        if labels.max(initial=0) < least:
            raise DataError(
                f"none of {len(labels)} items has two labels, which show how labels vary on an item; have some "
                "items labelled twice"
            )
        return cls(item, annotator, answer, place, labels, data.n_annotators, data.n_answers)

    @property
    def sizes(self) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of labels that items have, from two on; and how many items have as many."""
        return np.unique(self.labels[self.labels > 1], return_counts=True)

    def votes(self, answer: np.ndarray) -> np.ndarray:
        """How often each item was given each answer: (S,) to (N, L)."""
        return _counts(self.item, answer, (len(self.labels), self.n_answers))

    def spread(self, answer: np.ndarray) -> np.ndarray:
        """Variance of the top vote share among items of each of ``sizes``."""
        several = self.labels > 1
        size = self.labels[several]
        top = self.votes(answer)[several].max(1) / size
        n = np.maximum(np.bincount(size), 1)
        mean = np.bincount(size, top) / n
        return np.asarray((np.bincount(size, (top - mean[size]) ** 2) / n)[self.sizes[0]])

    def meetings(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Pairs of labels of an item by two annotators, some items at a time: two rows, and a key for who met."""
        end = np.cumsum(self.labels)
        chunk = np.cumsum(self.labels * (self.labels - 1) // 2) // PAIRS_AT_ONCE
        for part in np.split(np.arange(len(end)), np.flatnonzero(np.diff(chunk)) + 1):
            one, other = (rows + end[part[0]] - self.labels[part[0]] for rows in row_pairs(self.labels[part]))
            a, b = self.annotator[one], self.annotator[other]
            differ = a != b
            key = np.minimum(a, b) * self.n_annotators + np.maximum(a, b)
            yield one[differ], other[differ], key[differ]

    def met(self) -> tuple[np.ndarray, np.ndarray]:
        """Keys of the pairs of annotators who share an item, and how many pairs of labels: two of (pairs,)."""
        parts = [np.unique(key, return_counts=True) for _, _, key in self.meetings()]
        met, place = np.unique(np.concatenate([keys for keys, _ in parts]), return_inverse=True)
        return met, np.bincount(place, np.concatenate([n for _, n in parts]), len(met)).astype(np.int64)


def _unanimous(design: Design, answer: np.ndarray) -> float:
    several = design.labels > 1
    return float((design.votes(answer)[several].max(1) == design.labels[several]).mean())


def _pair_agreement(design: Design, answer: np.ndarray) -> float:
    votes = design.votes(answer)
    return float((votes * (votes - 1)).sum() / (design.labels * (design.labels - 1)).sum())


def _class_shares(design: Design, answer: np.ndarray) -> float:
    given = _counts(design.annotator, answer, (design.n_annotators, design.n_answers))
    n = given.sum(1, keepdims=True)
    distance = given / np.maximum(n, 1) - given.sum(0) / n.sum()
    return float((n * distance**2).sum() / n.sum())


STATISTICS: dict[str, Callable[[Design, np.ndarray], float]] = {
    "unanimous": _unanimous,
    "pair_agreement": _pair_agreement,
    "class_shares": _class_shares,
}
"""Those that one set of answers has by itself."""
OF_ONE = ("class_shares",)
"""Those of them that need no two labels of an item."""


def of_triads(data: Annotations, design: Design, answers: np.ndarray) -> dict[str, np.ndarray]:
    """The share of cycles among three objects of which each two have a winner; none where nothing is compared."""
    if data.kind != "pair":
        return {}
    from scipy.sparse import coo_array  # slow to import

    covariates = data.item_covariates
    assert covariates is not None
    left, right = (covariates[side].cat.codes.to_numpy()[data.order][design.item] for side in SIDES)
    size = len(covariates[SIDES[0]].cat.categories)
    cycles = []
    for answer in answers:
        won, named = answer == 0, answer < len(SIDES)
        ahead, behind = np.where(won, left, right)[named], np.where(won, right, left)[named]
        net = coo_array((np.ones(len(ahead)), (ahead, behind)), (size, size)).tocsr()
        beats = ((net - net.T) > 0).astype(np.float64)
        decided = beats + beats.T
        triads = (decided @ decided).multiply(decided).sum() / 6
        cycles.append((beats @ beats).multiply(beats.T).sum() / 3 / max(triads, 1))
    return {"cycles": np.array(cycles)}


def of_numbers(design: Design, errors: np.ndarray) -> dict[str, np.ndarray]:
    """The statistics of labels that are numbers, for each row of their ``errors``."""
    n = design.labels[design.item]
    several = n > 1
    who, wider = design.annotator[several], np.sqrt(n[several] / (n[several] - 1))
    given, found = np.maximum(np.bincount(who), 1), []
    for row in errors:
        error = row[several] * wider
        bias, square = (np.bincount(who, x) / given for x in (error, error**2))
        own = np.sqrt(np.maximum(square - bias**2, 0))[who]
        scaled = np.divide(error - bias[who], own, out=np.zeros_like(own), where=own > 0)
        within, tails = np.sqrt((error**2).mean()), (scaled**4).mean()
        found.append((within, bias[who].std(), np.sqrt(square)[who].std(), tails))
    names = ("within_items", "annotator_means", "annotator_spreads", "tails")
    return dict(zip(names, np.array(found).T, strict=True))


def errors_of(design: Design, numbers: np.ndarray) -> np.ndarray:
    """How far numbers are from the mean of their item, (n, S)."""
    times = np.maximum(np.bincount(design.item), 1)
    return np.stack([y - (np.bincount(design.item, y) / times)[design.item] for y in numbers])


def rankings_of(data: Annotations, design: Design) -> tuple[np.ndarray, np.ndarray]:
    """The problem and the ranking, as codes, of each label, (S,) each."""
    assert data.item_covariates is not None
    problem = data.item_covariates[OF_RANKS[0]].cat.codes.to_numpy(np.int64)[data.order][design.item]
    return problem, np.unique(problem * design.n_annotators + design.annotator, return_inverse=True)[1]


def tied_alike(ranks: np.ndarray, ranking: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Drawn rankings (n, S), without ties, whose places have the ranks (S,) that were given, ties among them."""
    order = np.lexsort((ranks, ranking))
    first = np.searchsorted(ranking[order], ranking)
    return np.asarray(ranks[order][first + drawn.astype(np.int64) - 1])


def of_rankings(
    design: Design, problem: np.ndarray, ranking: np.ndarray, answers: np.ndarray
) -> dict[str, np.ndarray]:
    """The statistics of rankings, for each row of ranks."""
    order = np.argsort(ranking, kind="stable")
    sizes = np.bincount(ranking)
    start = np.cumsum(sizes) - sizes
    one, other = (order[rows] for rows in row_pairs(sizes))
    one, other = (np.where(design.item[one] < design.item[other], *x) for x in ((one, other), (other, one)))
    _, both = np.unique(design.item[one] * len(design.labels) + design.item[other], return_inverse=True)
    pairs, rankings = _pairs_of(np.bincount(both)), _pairs_of(np.bincount(problem[order[start]]))
    found = []
    for ranks in answers:
        ahead = np.sign(ranks[other] - ranks[one])
        tops = []
        for rank in (ranks, -ranks):
            first = rank == np.minimum.reduceat(rank[order], start)[ranking]
            share = first / np.bincount(ranking, first)[ranking]
            tops.append(_agreed(design.item, share) / rankings)
        found.append((_agreed(both, ahead) / max(pairs, 1), *tops))
    names = ("rank_agreement", "top_agreement", "bottom_agreement")
    return dict(zip(names, np.array(found).T, strict=True))


def _pairs_of(sizes: np.ndarray) -> float:
    return float((sizes * (sizes - 1)).sum() / 2)


def _agreed(group: np.ndarray, x: np.ndarray) -> float:
    """The sum over pairs of one group of the products of their numbers."""
    return float((np.bincount(group, x) ** 2 - np.bincount(group, x**2)).sum() / 2)


def of_pairs(design: Design, answers: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
    """The two statistics of annotator pairs, for each row of answers; none where no pair shares enough.

    Equal answers agree by the product of their ``weights``, (n, S).
    """
    met, times = design.met()
    met = met[times >= MIN_SHARED]
    if not len(met):
        return {}
    agreed = np.zeros((len(answers), len(met)))
    for one, other, key in design.meetings():
        column = np.minimum(np.searchsorted(met, key), len(met) - 1)
        kept = met[column] == key
        one, other, column = one[kept], other[kept], column[kept]
        for total, answer, weight in zip(agreed, answers, weights, strict=True):
            same = answer[one] == answer[other]
            a, b = one[same], other[same]
            total += np.bincount(column[same], weight[a] * weight[b], len(met))
    distance = (agreed - agreed.mean(0)) / np.sqrt(agreed.var(0) + 1)
    return {"pair_excess": distance.max(1), "pair_misfit": (distance**2).mean(1)}


def _rarity(answers: np.ndarray, n_answers: int) -> np.ndarray:
    """One over the root of how probable each answer was at its place: (n, S), float32."""
    out = np.empty(answers.shape, np.float32)
    for answer in range(n_answers):
        given = answers == answer
        p = np.maximum(given.mean(0), MIN_PROBABILITY)
        out[given] = np.broadcast_to(p**-0.5, given.shape)[given]
    return out


def _standardised(numbers: np.ndarray) -> np.ndarray:
    """By the mean and the standard deviation at its place: (n, S), float32."""
    apart, sd = numbers - numbers.mean(0), numbers.std(0)
    return np.where(sd > 0, apart / np.where(sd > 0, sd, 1), 0).astype(np.float32)


def _counts(row: np.ndarray, column: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    return np.bincount(row * shape[1] + column, minlength=shape[0] * shape[1]).reshape(shape)


def plot_check(check: Check, *, ax: Axes | None = None) -> Axes:
    """Draws each statistic of the data (diamond) among those of the replicates (dots, bar: central 95 %).

    All are in standard deviations from the mean of the replicates, so that they share an axis; on the right are
    the observed value, the mean that the model expects and the p-value of the statistic alone.
    """
    table = check.table.iloc[::-1]
    axes = axes_or_new(ax, 7.6, 1.2 + 0.5 * len(table))
    sd = np.where(table["sd"] > 0, table["sd"], 1)
    place, stream = np.arange(len(table)), np.random.default_rng(0)
    for n, name in enumerate(table.index):
        x = (check.replicates[name] - table["mean"].iloc[n]) / sd[n]
        axes.plot(x, n + stream.uniform(-0.18, 0.18, len(x)), ".", color=LIGHT, markersize=3, zorder=1)
    scaled = table[["low", "high", "observed"]].sub(table["mean"], axis=0).div(sd, axis=0)
    axes.hlines(place, scaled["low"], scaled["high"], color="0.45", linewidth=1.5, zorder=2)
    axes.plot(scaled["observed"], place, "D", color=ACCENT, markersize=6, zorder=3, clip_on=False)
    for n, (seen, mean, p) in enumerate(table[["observed", "mean", "p_value"]].itertuples(index=False)):
        write_beside(axes, n, f"{seen:.3g} (expected {mean:.3g})\np = {p:.2g}")
    axes.axvline(0, color="0.4", linestyle=":", linewidth=1, zorder=0)
    axes.set_yticks(place, [str(name) for name in table.index])
    axes.set(ylim=(-0.6, len(table) - 0.4), xlabel="standard deviations from what the model expects")
    title = f"{check.method}: data among {len(check.replicates)} replicates, p = {check.p_value:.2g}"
    axes.set_title(title, fontsize="medium")
    return axes


MIN_DRAWS = 20
UPWARD = ("class_shares", "pair_excess", "pair_misfit", "cycles")
"""Statistics of which only large values speak against a model."""


@dataclass(frozen=True, repr=False)
class Check:
    """How the labels compare with replicates that the fitted model drew.

    Attributes:
        method: the method that was fitted.
        table: DataFrame by statistic: observed; mean, sd, low and high (a central 95 % interval) of the replicates;
            p_value of this statistic alone.
        p_value: one p-value for all statistics together, to be held against the level that is wanted.
        replicates: DataFrame draw x statistic.
        vote_spread: DataFrame by number of labels an item has: items; observed, mean, low and high of the variance
            of the top vote share over these items; empty where labels are numbers.
    """

    method: str
    table: pd.DataFrame
    p_value: float
    replicates: pd.DataFrame
    vote_spread: pd.DataFrame

    plot = plot_check

    @property
    def worst(self) -> str:
        """The statistic that is farthest from its replicates, in their standard deviations."""
        # Where all replicates are equal, any other value is farthest of all, and theirs is not apart.
        apart = ((self.table["observed"] - self.table["mean"]) / self.table["sd"]).fillna(0)
        return str(apart.where(apart.index.isin(UPWARD), apart.abs()).idxmax())

    def __repr__(self) -> str:
        head = f"<Check of {self.method} on {len(self.replicates)} replicates: p = {self.p_value:.3g}>"
        return head + "\n" + self.table.to_string(float_format=lambda x: f"{x:.4g}")


def predictive_check(posterior: Fit, *, draws: int = 200, seed: int = 0) -> Check:
    """Tests whether the fitted model, run again, gives labels like those that were observed.

    A posterior predictive check (Rubin 1984, "Bayesianly justifiable and relevant frequency calculations"). A
    replicate keeps drawn parameters, and for each item a truth (and whatever else belongs to it) drawn given its
    labels; the same annotators then label the same items anew. A fit that gives points replicates at its point.

    The statistics, in which an abstention is an answer like others:

    - unanimous: share of items, of those with at least two labels, whose labels are all equal.
    - pair_agreement: share of equal pairs of labels of an item, over all such pairs.
    - class_shares: how far annotators differ in what they answer: variance of their shares of each answer around
      those of all labels, weighted by labels and summed over answers.
    - vote_spread: variance over items of the share of the most frequent answer, around its mean among items with as
      many labels. Large where some items are harder than others.
    - pair_excess: the largest agreement of two annotators, in standard deviations from what the replicates expect
      of these two. Agreement on an answer weighs one over the root of the product of its probabilities, at this
      item, for the one and for the other: shared errors weigh more. Large where one copies the other.
    - pair_misfit: mean square of these distances over pairs of annotators. Large where groups depend on each other.
    - cycles, of comparisons alone: of three objects of which each two have a winner by most labels, the share in
      which each wins once. Large where objects lie on no one scale.

    Of labels that are numbers, in place of the first four:

    - within_items: root mean square distance of labels from the mean of their item, of items with several.
    - annotator_means, annotator_spreads: standard deviations over labels of their annotator's mean distance, and
      of its root mean square. Large where annotators differ in bias, and in precision.
    - tails: mean fourth power of distances from the annotator's mean one, in its standard deviations. Of Gaussian
      errors near 3, and larger where some labels are far out.

    Of rankings:

    - rank_agreement: mean over two rankings of a problem, and two objects of both, of 1 where both rank these alike
      and -1 where not: Kendall's tau, pooled. A tie counts 0; replicates have the ties of the data.
    - top_agreement, bottom_agreement: share of pairs of rankings of a problem that have the same object first, or
      last; of tied ones, each has a part.

    Two annotators of either agree by the product of their labels' distances from the mean of the item, less what
    the replicates expect of each, in standard deviations.

    pair_excess and pair_misfit are of annotators who share at least 10 items; of these, class_shares and cycles,
    p-values are upper tails, and two-sided otherwise. ``p_value`` belongs to the statistic that is farthest out:
    the largest distance of the data, in standard deviations, is ranked among the largest distances of the
    replicates, so that neither the number of statistics nor their dependence matters. P-values are mostly too
    large, because the fit has seen the data. By vb, sites that are drawn apart, though they depend on each other
    (as in ``robust_annotators``), make replicates too wide. Takes 8 bytes of memory a label and draw.

    Args:
        draws: number of replicates; p-values are multiples of 1 / (draws + 1).
        seed: of the replicates.

    Raises:
        MethodError: for fewer than 20 draws, or a seed that is no whole number.
        DataError: for anything but a posterior, or when no item has two labels, unless labels compare objects.
        MethodError: for a model of your own whose labels cannot be drawn at given numbers.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> check = crowdppl.predictive_check(posterior, draws=100, seed=0)
        >>> check.table.loc[["unanimous", "pair_agreement"], ["observed", "low", "high"]].round(2)
                        observed   low  high
        statistic
        unanimous           0.36  0.11  0.45
        pair_agreement      0.73  0.61  0.79
        >>> check.p_value <= 0.05
        False
    """
    posterior, seed = require_fit(posterior), seed_number(seed)
    draws = whole_number("draws", draws, MIN_DRAWS, "fewer say little of a tail, 200 are better")
    data, numbers = posterior.data, posterior.data.alphabet.kind.numeric
    design = Design.of(data, least=1 if data.kind == "pair" else 2, numbers=numbers)
    answers = np.concatenate([design.answer[None], draw_labels(posterior, draws, seed, "posterior")])
    values, by_size = (_of_numbers if numbers else _of_classes)(data, design, answers)
    pooled = pd.DataFrame(values)
    replicates = pooled.iloc[1:].reset_index(drop=True).rename_axis("draw")
    table = _summary(pooled.to_numpy(), pooled.columns.rename("statistic"))
    p_value = max_statistic_p_value(pooled.to_numpy(), pooled.columns.isin(UPWARD))
    return Check(posterior.method, table, p_value, replicates, by_size)


def _of_classes(
    data: Annotations, design: Design, answers: np.ndarray
) -> tuple[dict[str, np.ndarray], pd.DataFrame]:
    """All statistics of classes, and the spread of votes by number of labels."""
    spread = np.stack([design.spread(row) for row in answers])
    sizes, n_items = design.sizes
    used = {name: of for name, of in STATISTICS.items() if len(sizes) or name in OF_ONE}
    values = {name: np.array([of(design, row) for row in answers]) for name, of in used.items()}
    if len(sizes):
        values["vote_spread"] = spread @ n_items / n_items.sum()
        values |= of_pairs(design, answers, _rarity(answers, design.n_answers))
    by_size = _summary(spread, pd.Index(sizes, name="labels")).loc[:, ["observed", "mean", "low", "high"]]
    by_size.insert(0, "items", n_items)
    return values | of_triads(data, design, answers), by_size


def _of_numbers(
    data: Annotations, design: Design, answers: np.ndarray
) -> tuple[dict[str, np.ndarray], pd.DataFrame]:
    """All statistics of numbers or rankings, and an empty table."""
    ranked = data.alphabet.kind == RANKINGS
    if ranked:
        problem, ranking = rankings_of(data, design)
        answers = np.concatenate([answers[:1], tied_alike(answers[0], ranking, answers[1:])])
    # From the means of each row's own: the fit has seen the data, and expects means near those observed.
    errors = errors_of(design, answers)
    values = of_rankings(design, problem, ranking, answers) if ranked else of_numbers(design, errors)
    alike = np.broadcast_to(0, answers.shape)
    return values | of_pairs(design, alike, _standardised(errors)), pd.DataFrame()


def max_statistic_p_value(pooled: np.ndarray, upward: np.ndarray) -> float:
    """The p-value of the first of n + 1 exchangeable rows, (n + 1, statistics), by its farthest statistic; of
    those that are ``upward``, bool (statistics,), only large values count.
    """
    sd = pooled.std(0)
    scaled = (pooled - pooled.mean(0)) / np.where(sd > 0, sd, 1)
    distance = np.where(upward, scaled, np.abs(scaled)).max(1)
    # Rows that are equal must count as ties whatever the rounding.
    return float((distance >= distance[0] * (1 - 1e-9)).mean())


def _summary(pooled: np.ndarray, names: pd.Index[Any]) -> pd.DataFrame:
    """The first row beside the others: (n + 1, names) to a DataFrame by name."""
    observed, replicates = pooled[0], pooled[1:]
    above, below = (1 + (replicates >= observed).sum(0)), (1 + (replicates <= observed).sum(0))
    low, high = np.quantile(replicates, [0.025, 0.975], axis=0)
    two_sided = np.minimum(len(pooled), 2 * np.minimum(above, below))
    columns = {
        "observed": observed,
        "mean": replicates.mean(0),
        "sd": replicates.std(0, ddof=1),
        "low": low,
        "high": high,
        "p_value": np.where(names.isin(UPWARD), above, two_sided) / len(pooled),
    }
    return pd.DataFrame(columns, index=names)


def class_agreement(posterior: Fit) -> tuple[np.ndarray, np.ndarray]:
    """How often labels name the class of their item, and how often they repeat another label of it.

    The first share of class k is among labels of items that the fit gives to k, the second, a mean over items,
    among all other labels of items with a label k. (K,) each, NaN where nothing is counted.
    """
    votes, p = posterior.data.votes(), posterior.uncorrected().result.probabilities
    labels = votes.sum(1)
    others = np.where(labels > 1, 1 / np.maximum(labels - 1, 1), 0)
    repeated = np.einsum("i,ik,ik->k", others, votes, votes) - others @ votes
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.einsum("ik,ik->k", votes, p) / (labels @ p), repeated / ((labels > 1) @ votes)


def agreement_error(posterior: Fit, k: int) -> float:
    """The standard error, by items, of the difference of the two shares of class k."""
    votes, p = posterior.data.votes(), posterior.uncorrected().result.probabilities[:, k]
    own, other = (share[k] for share in class_agreement(posterior))
    labels, given = votes.sum(1), votes[:, k]
    several = labels > 1
    again = given * (given - 1) / np.maximum(labels - 1, 1) - other * given * several
    pull = p * (given - own * labels) / (labels @ p) - again / (several @ given)
    return float(np.sqrt(pull @ pull))


def contradicted(posterior: Fit) -> list[int]:
    """Codes of the classes whose items get their label less often than it is repeated."""
    own, other = class_agreement(posterior)
    below = np.flatnonzero(own < MARGIN * other)
    return [int(k) for k in below if own[k] < other[k] - ERRORS * agreement_error(posterior, int(k))]


def collapse(posterior: Fit) -> Iterator[str]:
    """The text of the doubt about such classes; sides of comparisons are none that could trade places."""
    if posterior.data.kind == "pair":
        return
    found = contradicted(posterior)
    if not found:
        return
    own, other = class_agreement(posterior)
    items, labels = (x.sum(0) / x.sum() for x in (posterior.result.probabilities, posterior.data.votes()))
    parts = [
        f"{native(posterior.data.classes[k])!r} ({items[k]:.0%} of items, {labels[k]:.0%} of labels; {own[k]:.0%} "
        f"of the labels of its items name it, and {other[k]:.0%} of those beside a label that does)"
        for k in found
    ]
    yield (
        f"labels agree with one another more than with the fit on {len(found)} of {len(own)} classes: "
        f"{listed(parts)}. They fell together, wandered off or traded places: take a method with fewer "
        "parameters or a prior that leans on the diagonal, or fit('auto', data), or give known truths (gold=)"
    )
