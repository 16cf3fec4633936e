"""Cavities: what labels say of an item's truth by parameters from which the item's own counts are removed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from crowdppl.data.blocks import Block
from crowdppl.data.covariates import CovariateColumns
from crowdppl.data.ragged import RaggedIndex, flip, transposed_sum
from crowdppl.errors import MethodError
from crowdppl.inference.density import FLOOR
from crowdppl.inference.problem import Problem
from crowdppl.inference.state import Tensors
from crowdppl.networks.outputs import networks_of

GRID = 0.1
"""Width of the grid of log-values that identifies the entries of a site."""
SAME_USE = 1e-8
"""Largest difference of log-probabilities that count as equal."""
SAME = {torch.float64: 1e-6, torch.float32: 1e-3}
"""Largest difference between an item's probabilities from its labels one by one, and from the model."""
SMALLEST_COUNT = 1e-10
"""Counts below this are 0: a sum less its only term leaves about so much by rounding."""
PIECE = 200_000
"""Entries that are computed together: so many stay in a processor's cache."""
ASKED = 8
"""Pieces of items, spread evenly, of which it is checked that their labels multiply."""
WORK = 5_000_000
"""Labels times classes up to which what is slow is done."""
NETWORK = "its network enters each item, and what it learned from a label cannot be removed"


class NoProductError(MethodError):
    """The labels of an item are no product of shares given its truth, so that none can be removed from counts.

    Attributes:
        why: the reason.
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True)
class ParameterUsage:
    """Which entries of rows of shares multiply to the probability of each label given each truth, or of each truth.

    Attributes:
        constant: float64 (U, K), log of the factor that no site moves.
        entries: for each site int64 (U, K), the entry in the flattened site, -1 where it has no part.
        widths: entries in a row of each site.
    """

    constant: Tensor
    entries: Mapping[str, Tensor]
    widths: Mapping[str, int]

    def at(self, kinds: Tensor | slice) -> ParameterUsage:
        """The usage of some kinds of labels, in their order, by sites that have a part in any."""
        entries = {n: x[kinds] for n, x in self.entries.items()}
        used = {n: x for n, x in entries.items() if bool((x >= 0).any())}
        return ParameterUsage(self.constant[kinds], used, self.widths)

    def log_p(self, leaves: Mapping[str, Tensor]) -> Tensor:
        """Log-probabilities (U, K) at values of the sites: log theta, in the site's shape."""
        out = self.constant.clone()
        for name, entry in self.entries.items():
            out += torch.where(entry >= 0, leaves[name].flatten()[entry.clamp(min=0)], 0.0)
        return out

    @cached_property
    def within(self) -> dict[str, tuple[Any, ...]]:
        """By site: where it has a part, bool (U, K), None for everywhere; then, of entries and of rows, what is
        used (U, K), and the first truth that uses the same of a kind, None where no two do.
        """
        out = {}
        for name, entry in self.entries.items():
            has, used = entry >= 0, []
            for at in (entry, torch.where(has, entry // self.widths[name], -1)):
                first = _first_alike(at)
                differ = bool((first == torch.arange(at.shape[1], device=at.device)).all())
                used.append((at.clamp(min=0), None if differ else first))
            out[name] = (None if bool(has.all()) else has, *used)
        return out


@dataclass(frozen=True)
class LabelKinds:
    """Labels of one annotator and answer that a model cannot tell apart: those with the same covariates it reads.

    Attributes:
        item, kind: of each label, int64 (S,).
        cells: of each kind, int64 (U,).
        truth_kind: of each item, int64 (N,), where a model tells items apart by covariates; None where it does not.
        truth_of_kind: the kind of the items of each kind of label, int64 (U,).
        n_truths: kinds of items, G.
        label_covariates: of each kind; None without.
        item_covariates: of each kind of label, then of each kind of item; None without.
    """

    item: Tensor
    kind: Tensor
    cells: Tensor
    truth_kind: Tensor | None
    truth_of_kind: Tensor
    n_truths: int
    label_covariates: CovariateColumns | None
    item_covariates: CovariateColumns | None

    @property
    def are_cells(self) -> bool:
        """Whether no covariate tells labels apart."""
        return self.label_covariates is None and self.item_covariates is None

    @staticmethod
    def of(problem: Problem) -> LabelKinds:
        """Of the labels of a problem."""
        blocks = [b for b in problem.blocks if b.n_items]
        item = torch.cat([b.item + b.offset for b in blocks])
        cell = torch.cat([b.bags.cells for b in blocks]).long()
        of_items, values, truth_kind = _distinct([b.item_covariates for b in blocks], problem.reads.items)
        n_truths = 1 if truth_kind is None else len(values)
        key = cell if truth_kind is None else cell * n_truths + truth_kind[item]
        of_labels, by_label, row = _distinct([b.label_covariates for b in blocks], problem.reads.labels)
        n_rows = 1 if row is None else len(by_label)
        key = key if row is None else key * n_rows + row
        if truth_kind is None and row is None:  # many labels: no sorting
            there = torch.bincount(key) > 0
            kinds, kind = there.nonzero().squeeze(1), (there.cumsum(0) - 1)[key]
        else:
            kinds, kind = torch.unique(key, return_inverse=True)
        key, row = kinds // n_rows, kinds % n_rows
        cells, truth = key // n_truths, key % n_truths
        if of_items is not None:
            of_items = of_items.only(of_items.names, torch.cat([values[truth], values]))
        if of_labels is not None:
            of_labels = of_labels.only(of_labels.names, by_label[row])
        return LabelKinds(item, kind, cells, truth_kind, truth, n_truths, of_labels, of_items)


def _distinct(
    parts: Sequence[CovariateColumns | None], names: Collection[Hashable]
) -> tuple[CovariateColumns | None, Tensor, Tensor | None]:
    """Of covariates that a model reads, the columns, their different rows (n, D), and the row of each."""
    columns = CovariateColumns.joined(parts) if names else None
    if columns is None:
        return None, torch.empty(0, 0), None
    held = [name for name in columns.names if name in names]
    rows, row = torch.unique(columns.held(held), dim=0, return_inverse=True)
    return columns.only(held, rows), rows, row


def parameter_usage(problem: Problem, kinds: LabelKinds, values: Mapping[str, Tensor]) -> ParameterUsage:
    """Finds which entries each kind of label uses, and at last those of each kind of item, its truth.

    The model is run on an item for each kind, with that one label. When each entry of a site is moved by a step of
    its own, the joint probability of label and truth moves by the step of the entry that it uses. The product of
    the entries found is then compared with the model at random values. NoProductError when a label's probability
    given the truth is no product of entries, at most one a site.
    """
    first = next(b for b in problem.blocks if b.n_items)
    pairs = np.arange(len(kinds.cells)), kinds.cells.cpu().numpy()
    bags = RaggedIndex.of_pairs(*pairs, len(kinds.cells) + kinds.n_truths, first.bags.n_cells).to(first.device)
    known = {"label_covariates": kinds.label_covariates, "item_covariates": kinds.item_covariates}
    probe = first.with_items(bags, **known, dtype=torch.float64, sparse=False)
    stream = np.random.default_rng(0)
    shapes = {s.name: tuple(values[s.name].shape) for s in problem.of_kind("conjugate")}
    base, other = (
        {n: torch.from_numpy(np.log(stream.uniform(0.2, 0.8, x))).to(first.device) for n, x in shapes.items()}
        for _ in range(2)
    )
    start = _log_p(problem, kinds, probe, values, base)
    entries, valid = {}, True
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        step = GRID * torch.arange(1, size + 1, dtype=torch.float64, device=first.device).reshape(shape) / size
        moved = (start - _log_p(problem, kinds, probe, values, {**base, name: base[name] - step})) * size / GRID
        entry = moved.nan_to_num(nan=-1.0).round().long() - 1
        valid = valid and bool(((entry >= -1) & (entry < size)).all())
        entries[name] = entry.clamp(-1, size - 1)
    widths = {n: x[-1] for n, x in shapes.items()}
    used = ParameterUsage(torch.zeros_like(start), entries, widths)
    usage = ParameterUsage(start - used.log_p(base), entries, widths)
    difference = (usage.log_p(other) - _log_p(problem, kinds, probe, values, other)).abs()
    if not (valid and bool((difference < SAME_USE).all())):  # NaN is not equal, either
        raise NoProductError("given the truth, its probability is no product of shares")
    return usage


def _log_p(
    problem: Problem, kinds: LabelKinds, probe: Block, values: Mapping[str, Tensor], leaves: Mapping[str, Tensor]
) -> Tensor:
    """log p(label | truth = k) of each kind of label, then log p(truth = k) of each kind of item: (U + G, K)."""
    assert problem.truth is not None
    found = problem.density()(probe, {**values, **leaves}, marginals=(problem.truth,))
    if found.per_item.shape[-1] != probe.n_items:
        raise NoProductError("its truth is not that of items")
    out = (found.marginals[problem.truth].log() + found.per_item).t().contiguous()
    n = len(kinds.cells)
    out[:n] -= out[n:][kinds.truth_of_kind]
    return out


@dataclass(frozen=True)
class RowCounts:
    """Prior and counts of one site of shares, from which counts of labels can be removed.

    Attributes:
        concentration: flat, prior and counts.
        totals: (rows,), their sums.
        prior: flat, where the fit is a point, the mode of ``concentration``; None where it is that distribution.
    """

    concentration: Tensor
    totals: Tensor
    prior: Tensor | None = None

    @staticmethod
    def of(concentration: Tensor, prior: Tensor | None = None) -> RowCounts:
        """Of arrays in the shape of the site."""
        flat = None if prior is None else prior.flatten()
        return RowCounts(concentration.flatten(), concentration.sum(-1).flatten(), flat)

    def at(self, entry: Tensor, row: Tensor) -> EntryCounts:
        """Counts of some entries, and of their rows."""
        if self.prior is None:
            return EntryCounts(self.concentration[entry], self.totals[row])
        prior = self.prior.reshape(len(self.totals), -1)
        alone = (prior / prior.sum(1, keepdim=True)).flatten()
        return EntryCounts(self.concentration[entry] - 1, self.totals[row] - prior.shape[1], alone[entry])


@dataclass(frozen=True)
class EntryCounts:
    """Prior and counts of entries of shares.

    Attributes:
        left, total: of the entries and of their rows, (..., K).
        alone: where the fit is a point, less 1 each; then the entries' shares by the prior. None elsewhere.
    """

    left: Tensor
    total: Tensor
    alone: Tensor | None = None

    def to(self, like: Tensor) -> EntryCounts:
        """In the precision of another tensor."""
        return self._each(lambda x: x.to(like))

    def of(self, kind: Tensor) -> EntryCounts:
        """Of kinds of labels, in their order."""
        return self._each(lambda x: x.index_select(0, kind))

    def _each(self, function: Callable[[Tensor], Tensor]) -> EntryCounts:
        alone = None if self.alone is None else function(self.alone)
        return EntryCounts(function(self.left), function(self.total), alone)

    def share(self, change: Tensor, row_change: Tensor) -> Tensor:
        """Expected entries (those of the mode, at a point) after changes of entries and of their rows."""
        left, total = self.left + change, self.total + row_change
        if self.alone is None:
            return left.div_(total)
        share = left.clamp(min=0) / total.clamp(min=SMALLEST_COUNT)
        share = torch.where(total > SMALLEST_COUNT, share, self.alone)
        return torch.where(share > SMALLEST_COUNT, share, 0)


@dataclass(frozen=True)
class Cavities:
    """Labels of units, such as items, each of which changes the counts by its own.

    Attributes:
        usage: entries of each kind of label.
        kind, unit: of each label, int64 (S,).
        weight: by how much each counts, float64 (S,); None for 1.
    """

    usage: ParameterUsage
    kind: Tensor
    unit: Tensor
    weight: Tensor | None = None

    def log_p(
        self, rows: Mapping[str, RowCounts], change: Tensor, rising: bool = False, last: bool = False
    ) -> Tensor:
        """Log-probabilities (S, K) when each label adds (S, K) to the counts of the entries that it uses.

        With ``rising``, labels of a unit that use one row count one after another, as in a Polya urn, so that
        their sum is the log-probability of all; with ``last``, each as if it were the last.
        """
        ratio = torch.ones_like(change)
        for name, (entry, *shared) in self._shared.items():
            row = entry.clamp(min=0) // self.usage.widths[name]
            moved = []
            for same, rank, others in shared:
                sums = torch.zeros(change.numel(), dtype=change.dtype, device=change.device)
                found = sums.index_add_(0, same.flatten(), change.flatten())[same]
                moved.append(found + (others if last else rank).to(found) if rising or last else found)
            share = rows[name].at(entry.clamp(min=0), row).share(*moved)
            ratio = torch.where(entry >= 0, ratio * share, ratio)
        out = self.usage.constant[self.kind] + ratio.clamp(min=np.exp(FLOOR)).log()
        return out if self.weight is None else out * self.weight.unsqueeze(1)

    @cached_property
    def _shared(self) -> dict[str, tuple[Any, ...]]:
        """By site: entries (S, K); then, of entries and of rows, which places (S, K) of a unit use the same, and
        how many labels of the unit, by weight, do so given one truth: earlier ones, and others.
        """
        weight = torch.ones(len(self.kind), dtype=torch.float64) if self.weight is None else self.weight
        k, device = self.usage.constant.shape[1], self.kind.device
        truth = torch.arange(k, device=device)
        found = {}
        for name, of_kind in self.usage.entries.items():
            entry = of_kind[self.kind]
            size = int(entry.max()) + 2
            used = []
            for at in (entry, torch.where(entry >= 0, entry // self.usage.widths[name], -1)):
                same = torch.unique(self.unit.unsqueeze(1) * size + at + 1, return_inverse=True)[1]
                given = torch.unique(same * k + truth, return_inverse=True)[1]
                used.append((same, *_ranks(given, weight.unsqueeze(1).expand(given.shape))))
            found[name] = (entry, *used)
        return found


def _ranks(group: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Of each place, how many earlier ones are in its group, and how many others, by weight."""
    flat, each = group.flatten(), weight.flatten()
    order, sizes = torch.argsort(flat, stable=True), torch.bincount(flat, each)
    starts, before = sizes.cumsum(0) - sizes, each[order].cumsum(0) - each[order]
    rank = torch.empty_like(each)
    rank[order] = before - starts[flat[order]]
    return rank.reshape(group.shape), (sizes[flat] - each).reshape(group.shape)


@dataclass(frozen=True)
class _Factors:
    """The factors of the probabilities of kinds of labels, at counts.

    Attributes:
        constant: (U, K), its log; None where it is 0 everywhere.
        sites: has, as of ``ParameterUsage.within``; counts; the first truth that uses the same entry, and row.
    """

    constant: Tensor | None
    sites: Sequence[tuple[Tensor | None, EntryCounts, tuple[Tensor | None, ...]]]

    @staticmethod
    def of(usage: ParameterUsage, rows: Mapping[str, RowCounts], like: Tensor) -> _Factors:
        sites = [
            (has, rows[name].at(entry, row).to(like), (same_entry, same_row))
            for name, (has, (entry, same_entry), (row, same_row)) in usage.within.items()
        ]
        return _Factors(usage.constant.to(like) if bool(usage.constant.any()) else None, sites)

    def log_p(self, kind: Tensor | None, change: Tensor) -> Tensor:
        """Log-probabilities (n, K) when each label of its kind adds (n, K) to the counts, and shares no row.

        Without kinds, all are of the only one.
        """

        def of_each(x: Tensor) -> Tensor:
            return x.expand(change.shape) if kind is None else x.index_select(0, kind)

        def moved(first: Tensor | None) -> Tensor:
            if first is None:
                return change
            if not bool(first.any()):  # all truths use the same
                return change.sum(1, keepdim=True)
            at = of_each(first)
            return torch.zeros_like(change).scatter_add_(1, at, change).gather(1, at)

        ratio = torch.ones_like(change)
        for has, counts, same in self.sites:
            share = (counts if kind is None else counts.of(kind)).share(*(moved(first) for first in same))
            ratio.mul_(share if has is None else torch.where(of_each(has), share, 1.0))
        out = ratio.clamp_(min=np.exp(FLOOR)).log_()
        return out if self.constant is None else out.add_(of_each(self.constant))


@dataclass(frozen=True)
class ItemLabels:
    """The labels of items, by position, as products of shares.

    Attributes:
        item: of each label, int64 (S,), sorted.
        kind: of each label, int64 (S,).
        weight: by how much each counts, float64 (S,); None for 1.
        labels: usage of each kind; ``truth``: (G, K), of the truth of each kind of item.
        truth_kind: kind of each item, int64 (N,); None where there is one.
        potential: (N, K) log-potentials of the truth from gold and evidence; None without any.
        n_items: N.
        bags: where kinds are cells, in each block the cells of items, and its offset; otherwise, and where cells
            outnumber labels, empty.
        cells: of each kind.
    """

    item: Tensor
    kind: Tensor
    weight: Tensor | None
    labels: ParameterUsage
    truth: ParameterUsage
    truth_kind: Tensor | None
    potential: Tensor | None
    n_items: int
    bags: Sequence[tuple[int, RaggedIndex]]
    cells: Tensor

    @staticmethod
    def of(problem: Problem, values: Mapping[str, Tensor]) -> ItemLabels:
        """Of a problem that ``refuse`` lets pass; NoProductError where labels are no product given the truth."""
        kinds, weight = LabelKinds.of(problem), _weights(problem)
        # Of more cells than labels, as of many classes, most are empty: sums of all would be larger than the data.
        few = all(b.bags.n_cells <= len(kinds.item) for b in problem.blocks)
        bags = [(b.offset, b.bags) for b in problem.blocks] if kinds.are_cells and weight is None and few else []
        usage = parameter_usage(problem, kinds, values)
        known = [b.potential for b in problem.blocks]
        potential = None
        if any(x is not None for x in known):
            none = (torch.zeros(b.n_items, b.n_classes, device=b.device) for b in problem.blocks)
            potential = torch.cat([o if x is None else x for x, o in zip(known, none, strict=True)]).double()
        n = len(kinds.cells)
        return ItemLabels(
            kinds.item,
            kinds.kind,
            weight,
            usage.at(slice(n)),
            usage.at(slice(n, None)),
            kinds.truth_kind,
            potential,
            problem.n_items,
            bags,
            kinds.cells,
        )

    def check(self, leaves: Mapping[str, Tensor], shares: Tensor) -> None:
        """NoProductError unless labels at values of the sites, as log theta, make the shares (N, K) of truths.

        Of many items, some are asked.
        """
        of_kind, truth = self.labels.log_p(leaves).to(shares), self.truth.log_p(leaves)
        truth = truth if self.truth_kind is None else truth[self.truth_kind]
        asked = self._pieces[:: -(-len(self._pieces) // ASKED) or 1]
        out = self._sums(lambda part: self._weighted(of_kind.index_select(0, self.kind[part]), part), shares, asked)
        out = normalised(self._with_truth(out, truth))
        if not all(bool(((out[x] - shares[x]).abs() < SAME[shares.dtype]).all()) for x, _ in asked):
            raise NoProductError("labels of an item depend on one another given its truth")

    def count(self, parameters: Tensors, shares: Tensor) -> None:
        """Adds the counts of all labels at shares (N, K) of truths to parameters of the sites, float64."""
        kinds = torch.zeros_like(self.labels.constant)
        for offset, bags in self.bags:
            kinds += transposed_sum(shares[offset : offset + bags.n_rows], bags, kinds.dtype)[self.cells]
        for _, part in self._pieces if not self.bags else ():
            own = shares.index_select(0, self.item[part]).double()
            kinds.index_add_(0, self.kind[part], self._weighted(own, part))
        if self.truth_kind is None:
            truths = shares.double().sum(0, keepdim=True)
        else:
            truths = torch.zeros_like(self.truth.constant).index_add_(0, self.truth_kind, shares.double())
        for usage, uses in ((self.labels, kinds), (self.truth, truths)):
            for name, entry in usage.entries.items():
                has = entry >= 0
                parameters[name].view(-1).index_add_(0, entry[has], uses[has])

    def of_truth(self, rows: Mapping[str, RowCounts], change: Tensor, items: Tensor | None = None) -> Tensor:
        """log p(truth) of items (n, K), by default all, after changes of the counts of their truths."""
        kind = self.truth_kind if self.truth_kind is None or items is None else self.truth_kind[items]
        return _Factors.of(self.truth, rows, change).log_p(kind, change)

    def each(self, rows: Mapping[str, RowCounts], shares: Tensor) -> Tensor:
        """log p(label | truth) (S, K) by parameters without its item's labels, as if it were the last of these."""
        without_own = self._without_own(rows, shares)
        pieces = (without_own(part) for _, part in self._pieces)
        out = torch.cat([*pieces, torch.empty(0, self.labels.constant.shape[1])])
        if self._twice is not None:
            some, cavities = self._twice
            out[some] = cavities.log_p(rows, -self._weighted(shares[cavities.unit], some), last=True)
        return out

    def without_own(self, rows: Mapping[str, RowCounts], shares: Tensor) -> Tensor:
        """Log joint (N, K) of an item's labels and truth by expected shares, its own counts removed.

        Of distributions, labels of an item that use one row count one after another.
        """
        out = self._sums(self._without_own(rows, shares), shares, self._pieces)
        if self._twice is not None:
            some, cavities = self._twice
            rising = all(x.prior is None for x in rows.values())
            out[cavities.unit] = 0
            log_p = cavities.log_p(rows, -self._weighted(shares[cavities.unit].double(), some), rising)
            out.index_add_(0, cavities.unit, log_p.to(out))
        return self._with_truth(out, self.of_truth(rows, -shares))

    def _without_own(self, rows: Mapping[str, RowCounts], shares: Tensor) -> Callable[[slice], Tensor]:
        """Finds log-probabilities of labels (n, K) when their items' shares are removed from counts."""
        factors, own = _Factors.of(self.labels, rows, shares), -shares
        return lambda part: factors.log_p(self.kind[part], own.index_select(0, self.item[part]))

    def _weighted(self, x: Tensor, part: slice | Tensor) -> Tensor:
        """What some labels contribute (n, K), by their weights."""
        return x if self.weight is None else x * self.weight[part].to(x).unsqueeze(1)

    def _sums(
        self, of_labels: Callable[[slice], Tensor], like: Tensor, pieces: Iterable[tuple[slice, slice]]
    ) -> Tensor:
        """Sums (N, K) over the labels of items of pieces, of what a function says of labels (n, K)."""
        out = torch.zeros_like(like)
        for items, part in pieces:
            each = of_labels(part).to(like)
            starts = self._starts[items] - part.start
            out[items] = embedding_bag(torch.arange(len(each), device=each.device), each, starts, mode="sum")
        return out

    @cached_property
    def _starts(self) -> Tensor:
        """Where the labels of each item begin, (N,)."""
        n_labels = torch.bincount(self.item, minlength=self.n_items)
        return n_labels.cumsum(0) - n_labels

    @cached_property
    def _pieces(self) -> list[tuple[slice, slice]]:
        """Items with labels, whole, in pieces, and their labels."""
        most, starts = max(1, PIECE // self.labels.constant.shape[1]), self._starts.cpu().numpy()
        begins = np.unique(np.searchsorted(starts, np.arange(0, len(self.item), most), side="right") - 1)
        ends = zip([*begins.tolist(), self.n_items], [*starts[begins].tolist(), len(self.item)], strict=True)
        return [(slice(a, b), slice(first, last)) for (a, first), (b, last) in pairwise(ends)]

    @cached_property
    def _twice(self) -> tuple[Tensor, Cavities] | None:
        """The labels of items of which two labels use one row of some site; None where there are none."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        twice = torch.zeros(self.n_items, dtype=torch.bool, device=self.item.device)
        n = len(self.labels.constant)
        for name, entries in self.labels.entries.items():
            kind, _ = used = torch.nonzero(entries >= 0, as_tuple=True)
            row = (entries[used] // self.labels.widths[name]).cpu().numpy()
            size = n + int(row.max(initial=-1)) + 1
            joined = coo_array((np.ones(len(row), bool), (kind.cpu().numpy(), n + row)), shape=(size, size))
            group = torch.from_numpy(connected_components(joined, directed=False)[1][:n].astype(np.int64))
            key = (self.item * size).add_(group.to(self.item.device)[self.kind])
            key = key[(entries >= 0).any(1)[self.kind]] if bool((entries < 0).all(1).any()) else key
            if bool((key[1:] < key[:-1]).any()):
                key = key.sort().values
            twice[key[1:][key[1:] == key[:-1]] // size] = True
        if not bool(twice.any()):
            return None
        some = torch.nonzero(twice[self.item]).squeeze(1)
        weight = None if self.weight is None else self.weight[some]
        return some, Cavities(self.labels, self.kind[some], self.item[some], weight)

    def _with_truth(self, each: Tensor, truth: Tensor) -> Tensor:
        out = each.add_(truth)
        return out if self.potential is None else out.add_(self.potential)


def normalised(log_p: Tensor) -> Tensor:
    """Probabilities (N, K) by log-weights; torch's softmax over few columns takes ten times as long."""
    return flip(log_p).softmax(0).t().contiguous()


def refuse(problem: Problem) -> None:
    """Refuses what can be refused before labels are looked at, by a NoProductError."""
    if problem.truth is None:
        raise NoProductError("it sums out no truth")
    if networks_of(problem.model):
        raise NoProductError(NETWORK)
    if power := problem.label_power:
        raise NoProductError(f"it {power.what}")
    if any(block.soft is not None for block in problem.blocks):
        raise NoProductError("its labels are soft, and the answer that is meant is summed out")
    if problem.telling is not problem:
        raise NoProductError("its labels count for less where truths are told (discount)")
    if problem.sums_others and problem.n_labels * problem.blocks[0].n_classes > WORK:
        raise NoProductError("classes are many, and those that no label of an item names are summed out together")
    for site in problem.sites.values():
        counted = site.family is None or site.family.counts
        if site.local or site.kind in ("free", "onehot") or not counted:
            raise NoProductError(f"site {site.name!r} has no rows of shares that count labels")


def _first_alike(x: Tensor) -> Tensor:
    """For each entry of rows (U, K), the place of the first one of its row that equals it."""
    value, order = x.sort(dim=1, stable=True)
    place = torch.arange(x.shape[1], device=x.device).expand_as(x)
    begins = torch.cat([torch.ones_like(value[:, :1], dtype=torch.bool), value[:, 1:] != value[:, :-1]], 1)
    first = torch.where(begins, place, 0).cummax(1).values
    return torch.zeros_like(x).scatter_(1, order, order.gather(1, first))


def _weights(problem: Problem) -> Tensor | None:
    """By how much each label counts, (S,); None for 1."""
    if not problem.weighs_repeats:
        return None
    blocks = [b for b in problem.blocks if b.n_items]
    return torch.cat(
        [b.item.new_ones(b.n_labels, dtype=torch.float64) if b.weights is None else b.weights for b in blocks]
    )
