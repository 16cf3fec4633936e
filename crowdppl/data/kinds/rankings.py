"""Rankings of objects: whole ones as a rank of each object, and which labels belong to one ranking."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import permutations, product
from math import factorial, lgamma, log, prod
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from crowdppl.core.validation import kind_of, warn
from crowdppl.data.ids import Codebook, Encoding, Place, by_item, encode, native
from crowdppl.data.kinds.kind import Settled
from crowdppl.data.kinds.numbers import NUMBER, Numbers, without_abstentions
from crowdppl.data.kinds.parts import Parts
from crowdppl.data.kinds.space import NonNegative
from crowdppl.data.tables import Rows, plain_list
from crowdppl.data.times import one_of_each
from crowdppl.errors import DataError, RepeatsWarning

OF_RANKS = ("problem", "object")
"""What was ranked together, and what got a rank; item covariates of both names mark rankings."""
ONLY = "all"
"""The problem of objects for which none is named."""
BETTER, EQUAL = ">", "="
MOST_ORDERS = 120
"""Orders of ties over which is summed: those of five objects; of more orders, so many at random."""
ALONE = "alone, at {}; a ranking takes two objects, so leave the row out"
AGAIN = (
    "again at {}, and which rows are one ranking is not clear: write rankings of one problem by one annotator one "
    "after the other, all of the same objects, or give each a problem of its own"
)
HOW = "write 'a > b = c', or a list of objects, the best first, with a list of those that are tied"


@dataclass(frozen=True)
class WholeRankings(Numbers):
    """Labels that are rankings of objects, read as the rank of each object."""

    lists: ClassVar[bool] = True

    def read(self, rows: Rows, options: Mapping[str, Any]) -> tuple[Rows, dict[str, Any]]:
        """Rows of ranks; DataError for an object that is ranked twice or alone, and for truths that are whole."""
        if (how := options.get("repeats")) in ("one", "share"):
            raise DataError(
                f"repeats={how!r} would mix several rankings of one problem; say keep, first, last or error"
            )
        rows, changed = super().read(with_ranks(without_abstentions(rows, options), options), options)
        if options.get("gold") is not None:
            refuse_whole(by_item(options["gold"]))
        item: Any = rows.item
        annotator = encode(rows.annotator, "annotator", rows.place)
        covariates = changed["item_covariates"]
        if isinstance(covariates, pd.DataFrame):
            problem = covariates[OF_RANKS[0]].cat.codes.to_numpy()[item.codes]
            ranks = None if rows.columns is None or rows.label is None else rows.columns[NUMBER]
            timed = options.get("time") is not None
            require_rankings(problem, item.codes, annotator, ranks, item.values, rows.place, timed=timed)
        return rows, changed

    def settled(self, rows: Rows, objects: Codebook | None, options: Mapping[str, Any]) -> Settled:
        """The objects of whole rankings."""
        given, away = rows.label, {*map(str, options.get("abstentions", ()))}
        if objects is not None or not isinstance(given, Encoding):
            return super().settled(rows, objects, options)
        cells = {n: cell for n, cell in enumerate(given.values) if str(cell) not in away}
        ranks = [_ranks(cell, rows.place, n) for n, cell in cells.items()]
        book = encode([name for each in ranks for name in each], OF_RANKS[1]).codebook("object")[0]
        width = np.average([len(each) for each in ranks], weights=given.times()[[*cells]])
        return super().settled(rows, book, options)._replace(width=float(width))

    def truths(self, gold: pd.Series[Any], items: pd.Index[Any], covariates: pd.DataFrame, roles: Any) -> Any:
        """Known ranks by the ids of items."""
        refuse_whole(gold)
        return super().truths(gold, items, covariates, roles)


def with_ranks(rows: Rows, options: Mapping[str, Any]) -> Rows:
    """Rows of whole rankings as rows of ranks, 1 the best, an object each; rows of ranks stay.

    A ranking is text such as "a > b = c", a list of objects, of which one that is a list holds ties, or such a
    list as JSON. Items of whole rankings are problems, or a table of no columns; those of ranks are objects, or
    pairs of problem and object. DataError, with the row, for a label that is no ranking, ranks an object twice or
    fewer than two, and for rankings of different objects of a problem by one annotator, unless ``repeats`` says
    which counts.
    """
    objects = isinstance(rows.item, pd.DataFrame) and OF_RANKS[1] in rows.item
    given: Any = rows.label
    cells = [] if given is None else list(given.values if isinstance(given, Encoding) else given)
    if not any(map(is_whole, cells)):
        return _with_objects(rows)
    if objects or rows.gold is not None:
        what = "a column of objects" if objects else "a column of truths"
        raise DataError(f"labels are whole rankings, beside {what}; leave it out, and give gold= by object")
    annotator, place = encode(rows.annotator, "annotator", rows.place), rows.place
    named = not isinstance(rows.item, pd.DataFrame) or rows.item.shape[1]
    problem = (
        annotator
        if not named
        else encode(rows.item.iloc[:, 0] if isinstance(rows.item, pd.DataFrame) else rows.item, "item", place)
    )
    kept = _once(annotator, problem, rows, options)
    codes = (given.codes if isinstance(given, Encoding) else np.arange(len(cells)))[kept]
    read = []
    for n, cell in enumerate(cells):
        at = given.first_row(n) if isinstance(given, Encoding) else n
        read.append(_ranks(cell, place, at))
    again: Any = {"annotator": annotator.codes[kept], "problem": problem.codes[kept]}
    again["objects"] = [frozenset(read[n]) for n in codes]
    _require_same_objects(pd.DataFrame(again), annotator, lambda n: place(int(kept[n])))
    row = np.repeat(kept, [len(read[n]) for n in codes])
    item: Any = pd.Series([name for n in codes for name in read[n]], dtype=object)
    if named:
        of_problem = pd.Categorical.from_codes(problem.codes[row], categories=problem.values)
        item = pd.DataFrame(dict(zip(OF_RANKS, (of_problem, item), strict=True)))
    columns = None if rows.columns is None else rows.columns.iloc[row].reset_index(drop=True)
    return replace(
        rows,
        item=item,
        annotator=Encoding(annotator.values, annotator.codes[row]),
        label=np.array([rank for n in codes for rank in read[n].values()], np.float64),
        columns=columns,
        place=lambda n: place(int(row[n])),
    )


def _once(annotator: Encoding, problem: Encoding, rows: Rows, options: Mapping[str, Any]) -> np.ndarray:
    """The rows of rankings that count, where an annotator ranks a problem again; DataError where none may."""
    both = problem.codes.astype(np.int64) * len(annotator.values) + annotator.codes
    again, how = np.flatnonzero(pd.Series(both).duplicated()), options.get("repeats", "keep")
    if not len(again) or how == "keep":
        return np.arange(len(both))
    if how not in ("first", "last"):
        who = native(annotator.values[annotator.codes[again[0]]])
        raise DataError(
            f"annotator {who!r} ranks again at {rows.place(int(again[0]))}; say repeats='keep', 'first' or 'last'"
        )
    warn(
        f"{len(again)} of {len(both)} rankings are an annotator's of the same problem; the {how} counts",
        RepeatsWarning,
    )
    return one_of_each(both, how, rows.columns, options.get("time"), rows.place)


def _require_same_objects(rankings: pd.DataFrame, annotator: Encoding, place: Place) -> None:
    """Refuses whole rankings, rows of codes, of one problem by one annotator that are not of the same objects."""
    again = rankings[["annotator", "problem"]].duplicated() & ~rankings.duplicated()
    if again.any():
        row = int(np.argmax(again))
        who = native(annotator.values[rankings["annotator"][row]])
        raise DataError(f"annotator {who!r} ranks {AGAIN.format(place(row))}")


def _with_objects(rows: Rows) -> Rows:
    """Rows of ranks, whose items are ids where they are a table of one column."""
    if not isinstance(rows.item, pd.DataFrame) or rows.item.shape[1] == len(OF_RANKS):
        return rows
    if OF_RANKS[1] not in rows.item:
        cell = (
            "" if rows.label is None else f", such as {native(next(iter(encode(rows.label, 'label').values)))!r},"
        )
        raise DataError(f"the labels{cell} are no whole rankings, and no column names objects; {HOW}, or say item=")
    return replace(rows, item=rows.item[OF_RANKS[1]])


def is_whole(cell: Any) -> bool:
    """Whether a label seems to be a whole ranking, and not one rank."""
    text = cell.strip() if isinstance(cell, str) else ""
    return isinstance(cell, list | tuple | np.ndarray) or text.startswith("[") or BETTER in text or EQUAL in text


def refuse_whole(truths: pd.Series[Any]) -> None:
    """Refuses known truths, by item, of which one is a whole ranking."""
    for problem, cell in truths.items():
        if is_whole(cell):
            raise DataError(
                f"the truth {plain_list(cell)!r:.60} of item {native(problem)!r} is a whole ranking; give each "
                "object's rank, 1 the best: a file with columns problem, object and rank, or a mapping by "
                "(problem, object)"
            )


def _steps(cell: Any, place: Place, row: int) -> list[list[Any]]:
    """The objects of a ranking, the best first, those that are tied together."""
    steps: Any = plain_list(cell)
    if isinstance(cell, str) and cell.strip().startswith("["):
        try:
            steps = json.loads(cell)
        except ValueError as error:
            raise DataError(f"the ranking {cell!r:.60} at {place(row)} is no JSON ({error}); {HOW}") from error
    elif isinstance(cell, str):
        steps = [[name.strip() for name in step.split(EQUAL)] for step in cell.split(BETTER)]
    if not isinstance(steps, list | tuple):
        raise DataError(f"the label at {place(row)} is {kind_of(cell)}, and no ranking; {HOW}")
    return [[*step] if isinstance(step, list | tuple | np.ndarray) else [step] for step in steps]


def _ranks(cell: Any, place: Place, row: int) -> dict[Hashable, int]:
    """The rank of each object of a ranking: one more than there are before it."""
    out: dict[Hashable, int] = {}
    for step in _steps(cell, place, row):
        ahead = len(out)
        for name in map(native, step):
            if not isinstance(name, str | int) or not str(name).strip():
                raise DataError(
                    f"the ranking at {place(row)} holds {name!r}, which is no object; use text or integers"
                )
            if name in out:
                raise DataError(f"the ranking at {place(row)} holds {name!r} twice; keep one")
            out[name] = ahead + 1
    if len(out) < 2:
        raise DataError(f"the ranking at {place(row)} holds {len(out)} objects; it takes two, so leave the row out")
    return out


def require_rankings(
    problem: np.ndarray,
    item: np.ndarray,
    annotator: Encoding,
    ranks: pd.Series[float] | None,
    names: Any,
    place: Place,
    *,
    timed: bool,
) -> None:
    """Refuses an object that an annotator ranks alone, and rankings of one problem that cannot be told apart.

    Those of one annotator can, where all rank the same objects, and rows come ranking by ranking or object by
    object, or times tell which is first; not where they are sorted by rank.
    """

    def refuse(bad: np.ndarray, why: str) -> None:
        if bad.any():
            row = int(np.flatnonzero(bad)[-1])
            by = f"annotator {native(annotator.values[who[row]])!r} ranks {native(names[item[row]])!r}"
            raise DataError(f"{by} {why.format(place(row))}")

    who, n = annotator.codes.astype(np.int64), np.int64(len(annotator.values))
    cell, whole = pd.Series(item * n + who), pd.Series(np.unique(problem * n + who, return_inverse=True)[1])
    times = cell.groupby(cell).transform("size")
    refuse(times.eq(whole.groupby(whole).transform("size")).to_numpy(), ALONE)
    turn = cell.groupby(cell).cumcount()
    if timed or not turn.any():
        return
    objects = cell.groupby(whole).transform("nunique")
    by_ranking = turn.groupby(whole).diff().lt(0).groupby(whole).transform("sum") == 0
    if ranks is not None:
        by_ranking &= ranks.groupby(whole).diff().lt(0).groupby(whole).transform("any")
    by_object = cell.groupby(whole).diff().ne(0).groupby(whole).transform("sum") == objects
    alike = times.groupby(whole).transform("nunique") == 1
    refuse((~alike | ~(by_ranking | by_object)).to_numpy() & times.gt(1).to_numpy(), AGAIN)


@dataclass(frozen=True)
class Orders:
    """Rankings whose ties are alike, and the orders that each may stand for.

    Attributes:
        ranking: the number of each, int64 (r,).
        labels: int64 (r, W, m), its labels in each of W orders; a last tie stands in any order.
        log_times: log of the number of orders for which each of the W stands; 0 where they are all.
        stages: how many labels of an order are chosen, the first ones, each among itself and those after it.
    """

    ranking: Tensor
    labels: Tensor
    log_times: float
    stages: int


@dataclass(frozen=True)
class Rankings:
    """The labels of a block as rankings: those that an annotator gave to objects of one problem.

    Attributes:
        of_label: the ranking of each label, int64 (S,).
        sizes: its number of labels, (R,).
        annotator: who made it, int64 (R,).
        ranks: of each label, (S,); None for a design.
    """

    of_label: Tensor
    sizes: Tensor
    annotator: Tensor
    ranks: Tensor | None
    _orders: dict[int, list[Orders]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, problem: Tensor, annotator: Tensor, item: Tensor, ranks: Tensor | None) -> Rankings:
        """Those of labels whose problem, annotator, item and rank are given, (S,) each.

        Where an annotator ranks an item again, it is in the next ranking.
        """
        both = torch.stack([problem, annotator, _turns(item, annotator)], -1)
        found, of_label, sizes = both.unique(dim=0, return_inverse=True, return_counts=True)
        return cls(of_label, sizes, found[:, 1], ranks)

    def orders(self, sign: int) -> list[Orders]:
        """Rankings by the pattern of their ties, best objects first (sign 1) or last (-1), but for those all tied.

        Of ties that stand for more than ``MOST_ORDERS`` orders, so many are drawn, once for a pattern: the sum over
        all is then estimated without bias.
        """
        if sign not in self._orders:
            assert self.ranks is not None, "a design has no ranks"
            self._orders[sign] = [*self._by_pattern(sign * self.ranks.cpu().numpy())]
        return self._orders[sign]

    def _by_pattern(self, rank: np.ndarray) -> Iterator[Orders]:
        code = self.of_label.cpu().numpy()
        by_rank = np.lexsort((rank, code))
        sorted_code, sorted_rank = code[by_rank], rank[by_rank]
        apart = (np.diff(sorted_code) != 0) | (np.diff(sorted_rank) != 0)
        new = np.flatnonzero(np.append(True, apart)[: len(code)])
        ties, owner = np.diff(new, append=len(code)), sorted_code[new]
        starts = np.searchsorted(sorted_code, np.arange(len(self.sizes)))
        patterns: dict[tuple[int, ...], list[int]] = {}
        for n, sizes in enumerate(np.split(ties, np.searchsorted(owner, np.arange(1, len(self.sizes))))):
            patterns.setdefault(tuple(sizes.tolist()), []).append(n)
        for pattern, members in patterns.items():
            if len(pattern) < 2:
                continue
            places = _orders_of(pattern)
            first = starts[members][:, None, None]
            labels = torch.from_numpy(by_rank[first + places]).to(self.of_label.device)
            ranking = torch.tensor(members, device=self.of_label.device)
            log_times = max(0.0, sum(lgamma(size + 1) for size in pattern[:-1]) - log(len(places)))
            yield Orders(ranking, labels, log_times, sum(pattern[:-1]))


def _turns(item: Tensor, annotator: Tensor) -> Tensor:
    """How many labels by the same annotator of the same item come before each label, int64 (S,)."""
    cell = torch.stack([item, annotator], -1).unique(dim=0, return_inverse=True)[1]
    order, sizes = cell.argsort(stable=True), cell.bincount()
    turn = torch.arange(len(cell), device=cell.device) - (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
    return torch.empty_like(turn).scatter(0, order, turn)


def _orders_of(pattern: tuple[int, ...]) -> np.ndarray:
    """Orders (W, m) of places whose ties have these sizes, all or some at random; the last tie is in one order."""
    ends = np.cumsum(pattern)
    if prod(map(factorial, pattern[:-1])) > MOST_ORDERS:
        tie, rng = np.repeat(np.arange(len(pattern)), pattern), np.random.default_rng(0)
        place = tie + rng.random((MOST_ORDERS, len(tie)))
        place[:, ends[-2] :] = np.sort(place[:, ends[-2] :])
        return np.asarray(place.argsort(1))
    parts = [permutations(range(end - size, end)) for end, size in zip(ends[:-1], pattern[:-1], strict=True)]
    last = tuple(range(ends[-2], ends[-1]))
    return np.array([[*sum(each, ()), *last] for each in product(*parts)])


class Ranks(NonNegative):
    """Ranks from 1, the best, on."""

    @property
    def words(self) -> str:
        """What a number of the space is, for messages."""
        return "a rank, a finite number from 1, the best, on"

    def contains(self, x: np.ndarray) -> np.ndarray:
        """Those from 1 on."""
        return np.asarray(x >= 1)


RANKINGS = WholeRankings(
    "ranking",
    "rankings",
    'rankings, such as "a > b = c", or ranks of objects',
    NonNegative(),
    Parts("ranking", OF_RANKS, only=ONLY),
    aliases=("rank", "ranks", "ranked"),
    own=Ranks(),
    methods=("plackett_luce",),
    table="ranking",
    candidates={f"plackett_luce, {end} first": ("plackett_luce", {"first": end}) for end in ("best", "worst")},
    example=(
        ("one", "two", "three", "four"),
        ("pear > fig > plum > kiwi", "pear > plum = fig > kiwi", "fig > pear > kiwi"),
    ),
)
