"""Blocks of items: labels as integer codes, sorted by item, as models and engines read them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from crowdppl.data.covariates import CovariateColumns, no_covariates
from crowdppl.data.edges import Edges, components
from crowdppl.data.features import Features, rows_taken
from crowdppl.data.kinds.numbers import NUMBER
from crowdppl.data.kinds.rankings import OF_RANKS, Rankings
from crowdppl.data.kinds.sequences import SEQUENCE, Sequences, edges_between
from crowdppl.data.kinds.space import CATEGORIES, Space
from crowdppl.data.ragged import RaggedIndex, gather, runs
from crowdppl.errors import DataError

MANY_CLASSES, FEW_NAMED = 32, 4
"""Classes from which on truths that no label of an item names are summed out together, where the largest number of
classes that an item's labels name is at most one in so many of them."""
OF_ITEMS = ("gold", "evidence", "features", "item_covariates", "edges")
OF_ANNOTATORS = ("history", "abstainers", "annotator_covariates")
OF_LABELS = ("label_covariates", "soft")
"""What a block may hold besides labels, a row an item, an annotator or a label. What stands here is kept by folds,
minibatches and devices, by joined blocks and by checkpoints."""


@dataclass(frozen=True)
class Block:
    """Some items and their labels, as models and engines read them.

    Attributes:
        bags: rows are the block's items; a cell is ``annotator * n_answers + answer``.
        n_annotators, n_classes, n_answers: A, K and L of the whole data, never inferred from the block; K = 0 and
            L = 1 where labels are numbers.
        offset: position of the block's first item in the order of the whole data.
        scale: items that each of the block's items stands for (1 unless the block is a minibatch).
        gold: int64 (n_items,), the known class of an item or -1; float64, the known number or NaN, where labels
            are numbers; None without gold.
        evidence: (n_items, K) log-potentials of the truth, known from elsewhere; None without.
        features: (n_items, ...), input of networks; None unless the model has one.
        seen: by network of the model, its outputs, (n_items, ...); None where the model calls its networks itself.
        history: (A, K, K) pseudo-counts [annotator, truth, label] to be added to a prior, or None.
        item_covariates, annotator_covariates, label_covariates: read by the functions of these names; None without.
        soft: (S, L), log p(what is seen of a label | the annotator means an answer), up to a constant of the label;
            None where labels are seen for certain.
        edges: between the items; None without.
        abstainers: bool (A,), annotators who abstained at least once; None where nobody may abstain.
        space: where truths lie.
        informative: whether an abstention may depend on the class; if not, each annotator declines at one rate.
        has_labels: False for a design, whose labels are to be drawn.
        uses_power: whether labels count by the power that a model gives them.
        tells: whether truths are told, for which a model may let labels count for less (its ``discount``).
        sparse: whether truths that an item's labels do not name may be summed out together.
        repeat_correlation: of an annotator's labels of one item, given its truth; they count by ``weights``.
        entries: of a minibatch, int64 (S,): the place of each label in the block that it was taken from.
        copies: float64 (n_items,), items with the same labels that each stands for (``distinct``); None for one.
        apart: of items that are put to a model one by one (``with_items``), and follow no other: the number of
            sequences that have an item at each place, in the block that they come from; of items with edges, of
            items. Empty without either.
        dtype: precision of everything that has one entry an item or a label.
    """

    bags: RaggedIndex
    n_annotators: int
    n_classes: int
    n_answers: int
    offset: int = 0
    scale: float = 1.0
    gold: Tensor | None = None
    evidence: Tensor | None = None
    features: Features | None = None
    seen: Mapping[str, Tensor] | None = None
    history: Tensor | None = None
    item_covariates: CovariateColumns | None = None
    annotator_covariates: CovariateColumns | None = None
    label_covariates: CovariateColumns | None = None
    soft: Tensor | None = None
    edges: Edges | None = None
    abstainers: Tensor | None = None
    space: Space = CATEGORIES
    informative: bool = False
    has_labels: bool = True
    uses_power: bool = True
    tells: bool = False
    sparse: bool = False
    repeat_correlation: float = 0.0
    entries: Tensor | None = None
    copies: Tensor | None = None
    apart: tuple[int, ...] | None = None
    dtype: torch.dtype = torch.float64
    _views: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def n_items(self) -> int:
        """Items in this block."""
        return self.bags.n_rows

    @property
    def n_labels(self) -> int:
        """Labels in this block."""
        return len(self.bags.cells)

    @property
    def trains_networks(self) -> bool:
        """Whether the model calls its networks itself, so that they learn by gradients."""
        return self.features is not None and self.seen is None

    @property
    def device(self) -> torch.device:
        """Where the block's tensors live."""
        return self.bags.cells.device

    @cached_property
    def item(self) -> Tensor:
        """The item of each label, counted within the block, int64 (S,)."""
        return self.bags.row_of_entry()

    @cached_property
    def annotator(self) -> Tensor:
        """The annotator of each label, int64 (S,)."""
        return self.bags.cells.long() // self.n_answers

    @cached_property
    def answer(self) -> Tensor:
        """The answer of each label, int64 (S,), classes first; DataError of a design, which has none."""
        return self._answers()

    def _answers(self) -> Tensor:
        """The answer of each label, which is not kept."""
        if not self.has_labels:
            raise DataError(
                "a design has no labels that a model could read; where labels depend on other labels, the model "
                "derives label covariates from them by its method derived_covariates"
            )
        return self.bags.cells.long() % self.n_answers

    @cached_property
    def numbers(self) -> Tensor | None:
        """The number of each label, float64 (S,), where labels are numbers and no classes; else None."""
        if self.n_classes or self.label_covariates is None:
            return None
        return self.label_covariates.chosen((NUMBER,))[:, 0].double()

    @cached_property
    def named(self) -> Tensor:
        """Which labels name a class and are no abstention, bool (S,); all of a design."""
        return self.bags.cells.long() % self.n_answers < self.n_classes

    @cached_property
    def weights(self) -> Tensor | None:
        """By how much each label counts, float64 (S,), where an annotator labels an item again; None for 1.

        Of k labels with correlation r, each counts 1 / (1 + (k - 1) r): the design effect of clusters (Kish 1965,
        "Survey sampling"). Labels of different covariates, or of which one abstains, are no repeats.
        """
        if not self.repeat_correlation or not self.uses_power:
            return None
        named, known = self.bags.cells.long() % self.n_answers < self.n_classes, self.label_covariates
        group = (self.item * self.n_annotators + self.annotator) * 2 + named
        names = [] if known is None else [name for name in known.names if name != NUMBER]
        if known is not None and names:
            held = torch.cat([group.unsqueeze(1).double(), known.held(names)], 1)
            group = torch.unique(held, dim=0, return_inverse=True)[1]
        _, group, sizes = torch.unique(group, return_inverse=True, return_counts=True)
        times = sizes[group].double()
        return None if bool((times == 1).all()) else 1 / (1 + (times - 1) * self.repeat_correlation)

    @cached_property
    def by_annotator(self) -> RaggedIndex:
        """Rows are labels, cells are annotators."""
        return RaggedIndex.of_rows(self.annotator, self.n_annotators)

    @cached_property
    def by_item(self) -> RaggedIndex:
        """Rows are labels, cells are items."""
        labels = torch.arange(self.n_labels, dtype=torch.int32, device=self.device)
        return RaggedIndex(self.n_labels, self.n_items, self.item.int(), None, labels, self.bags.row_starts, None)

    @cached_property
    def per_item(self) -> RaggedIndex:
        """Rows are items, cells are labels: adds up what each label contributes."""
        back = self.by_item
        return RaggedIndex(self.n_items, self.n_labels, back.rows, self.bags.row_starts, back.cells, None, None)

    def per_group(self, groups: tuple[int, ...]) -> RaggedIndex:
        """Rows are ``group * n_items + item``, cells are labels; groups of annotators are counted from 0."""
        if ("labels", groups) not in self._views:
            of = torch.as_tensor(groups, device=self.device)
            row = (of[self.annotator] * self.n_items + self.item).cpu().numpy()
            rows = (max(groups, default=-1) + 1) * self.n_items
            pairs = RaggedIndex.of_pairs(row, np.arange(self.n_labels), rows, self.n_labels)
            self._views["labels", groups] = pairs.to(self.device)
        found: RaggedIndex = self._views["labels", groups]
        return found

    @cached_property
    def _weighted_per_item(self) -> RaggedIndex:
        """Rows are items, cells are labels: adds up what each label contributes, by its weight."""
        return (
            self.per_item
            if self.weights is None
            else replace(self.per_item, row_weights=self.weights, cell_weights=self.weights)
        )

    @cached_property
    def per_label(self) -> RaggedIndex:
        """Rows are labels, cells are (annotator, answer)."""
        return RaggedIndex.of_rows(self.bags.cells, self.bags.n_cells, self.bags.row_weights)

    @cached_property
    def raters(self) -> RaggedIndex:
        """Rows are items, cells are the annotators of their labels that name a class."""
        some, weights = self.named.cpu().numpy(), self.bags.row_weights
        item, annotator = (x.cpu().numpy()[some] for x in (self.item, self.annotator))
        each = None if weights is None else weights.cpu().numpy()[some]
        return RaggedIndex.of_pairs(item, annotator, self.n_items, self.n_annotators, each).to(self.device)

    @cached_property
    def by_class(self) -> RaggedIndex:
        """Rows are (item, class), cells are labels; abstentions belong to no row."""
        given = torch.nonzero(self.named).squeeze(-1)
        row = (self.item * self.n_classes + self.answer)[given]
        pairs = (row.cpu().numpy(), given.cpu().numpy(), self.n_items * self.n_classes, self.n_labels)
        return RaggedIndex.of_pairs(*pairs).to(self.device)

    @cached_property
    def named_classes(self) -> Tensor | None:
        """The classes that labels and gold of each item name, int64 (M, n_items), -1 where there are fewer than M.

        None where truths are not to be summed out together, or where this saves too little.
        """
        if not self.sparse or not self.has_labels or self.n_classes < MANY_CLASSES:
            return None
        if self.evidence is not None or self.soft is not None:
            return None
        pairs = [(self.item * self.n_classes + self.answer)[self.named]]
        if self.gold is not None:
            known = torch.nonzero(self.gold >= 0).squeeze(-1)
            pairs.append(known * self.n_classes + self.gold[known])
        each = torch.cat(pairs).unique()
        item, named = each // self.n_classes, each % self.n_classes
        sizes = torch.bincount(item, minlength=self.n_items)
        most = int(sizes.max())
        if most > self.n_classes // FEW_NAMED:
            return None
        out = torch.full((most, self.n_items), -1, device=self.device)
        out[torch.arange(len(item), device=self.device) - (sizes.cumsum(0) - sizes)[item], item] = named
        return out

    @cached_property
    def by_named_class(self) -> RaggedIndex:
        """Rows are (class among those named, or any other; item), cells are labels; abstentions have no row."""
        assert self.named_classes is not None
        given = torch.nonzero(self.named).squeeze(-1)
        place = (self.named_classes[:, self.item[given]] == self.answer[given]).int().argmax(0)
        row, rows = place * self.n_items + self.item[given], (len(self.named_classes) + 1) * self.n_items
        pairs = (row.cpu().numpy(), given.cpu().numpy(), rows, self.n_labels)
        return RaggedIndex.of_pairs(*pairs).to(self.device)

    @cached_property
    def potential(self) -> Tensor | None:
        """What is known of the truth, (n_items, K): evidence, and minus infinity where gold says otherwise."""
        if self.gold is None or not self.n_classes:
            return self.evidence
        possible = torch.nn.functional.one_hot(self.gold.clamp(min=0), self.n_classes).bool()
        known = torch.zeros_like(possible, dtype=self.dtype) if self.evidence is None else self.evidence
        return known.masked_fill(~possible & (self.gold >= 0).unsqueeze(-1), -torch.inf)

    @property
    def says_of_truths(self) -> bool:
        """Whether gold or evidence say something of some truth."""
        if not self.n_classes:
            return self.gold is not None and not bool(self.gold.isnan().all())
        return self.potential is not None and bool(self.potential.any())

    @cached_property
    def distinct(self) -> tuple[Block, Tensor] | None:
        """One item for all that have the same labels, and which each item is; None where few would go."""
        return self._distinct(self.bags.cells, self.bags.n_cells)

    @cached_property
    def distinct_answers(self) -> tuple[Block, Tensor] | None:
        """One item for all that have the same answers, whoever gave them, and which each item is."""
        if self.weights is not None:  # by which it matters who gave them
            return None
        return self._distinct(self.bags.cells % self.n_answers, self.n_answers)

    def _distinct(self, kind: Tensor, n_kinds: int) -> tuple[Block, Tensor] | None:
        """One item for all with the same kinds of labels, (S,); None for a minibatch, or where more is known."""
        known = any(getattr(self, name) is not None for name in (*OF_ITEMS, *OF_LABELS, "seen", "copies"))
        if known or self.scale != 1 or n_kinds > self.n_items:
            return None
        # Items with the same sum of the kinds' random numbers have the same kinds (Zobrist hashing).
        numbers = np.random.default_rng(0).integers(2**64, size=n_kinds, dtype=np.uint64)
        sums = np.append(np.uint64(0), np.cumsum(numbers[kind.cpu().numpy()]))  # modulo 2**64
        place, keys = pd.factorize(sums[row_starts(self) + row_sizes(self)] - sums[row_starts(self)])
        if 2 * len(keys) > self.n_items:
            return None
        first = np.unique(place, return_index=True)[1]
        times, at = (torch.from_numpy(x).to(self.device) for x in (np.bincount(place).astype(np.float64), place))
        return replace(self.subset(first, 1.0), copies=times), at

    @cached_property
    def sequences(self) -> Sequences:
        """The sequences of the items, as the column "sequence" of the item covariates names them.

        Raises:
            DataError: when there is no such column, or it does not name a sequence for each item.
        """
        return Sequences.of(self._groups(SEQUENCE, asked=False))  # labels do not depend on which sequence it is

    @cached_property
    def rankings(self) -> Rankings:
        """The rankings that the labels are of; DataError where no item covariate names their problem."""
        problem = self._groups(OF_RANKS[0])[self.item]
        return Rankings.of(problem, self.annotator, self.item, self.numbers if self.has_labels else None)

    @cached_property
    def known_rankings(self) -> Rankings:
        """The known ranks of items, of which those of a problem are a ranking."""
        assert self.gold is not None, "no ranks are known"
        known = self.gold.isfinite()
        problem = self._groups(OF_RANKS[0])[known]
        return Rankings.of(problem, torch.zeros_like(problem), known.nonzero().squeeze(-1), self.gold[known])

    def _groups(self, name: str, asked: bool = True) -> Tensor:
        """The group of each item that a column names, int64 (n_items,); not counted as read where not asked."""
        if self.item_covariates is None:
            raise DataError(f"the model reads a {name} of each item, and {no_covariates('item')}")
        return (self.item_covariates if asked else replace(self.item_covariates, asked=set())).groups(name)[0]

    @property
    def has_sequences(self) -> bool:
        """Whether a column of the item covariates names sequences."""
        return self.item_covariates is not None and SEQUENCE in self.item_covariates.levels

    @property
    def units(self) -> np.ndarray:
        """What a minibatch keeps whole, int64 (n_items,): each item's sequence, problem, linked part, or itself."""
        if self.item_covariates is not None and {*OF_RANKS} <= {*self.item_covariates.levels}:
            return np.asarray(self._groups(OF_RANKS[0]).cpu())
        if self.edges is not None:
            graph = self.edges.graph
            ends = torch.stack([graph.source, graph.target], 1).cpu().numpy()
            return components(ends, self.n_items)[:, 0]
        if not self.has_sequences:
            return np.arange(self.n_items)
        return self.sequences.starts.cumsum(0).cpu().numpy() - 1

    @cached_property
    def bare(self) -> Block:
        """The block for models that read neither covariates of items nor edges: more of its items are alike."""
        some = self.item_covariates is not None or self.edges is not None
        return replace(self, item_covariates=None, edges=None) if some else self

    def vote_counts(self, weights: Tensor | None = None) -> Tensor:
        """How often each item was given each class, int64 (n_items, K), or by weights; abstentions are no votes."""
        cell, size = self.bags.row_of_entry() * self.n_answers + self._answers(), self.n_items * self.n_answers
        return torch.bincount(cell, weights, minlength=size).reshape(self.n_items, -1)[:, : self.n_classes]

    def only_classes(self, x: Tensor) -> Tensor:
        """Sets what abstentions would contribute to zero: (S, width) -> (S, width)."""
        if self.n_answers == self.n_classes:
            return x
        return torch.where(self.named.unsqueeze(-1), x, torch.zeros_like(x))

    def answered(self, cells: Tensor) -> Block:
        """The design with other labels: ``cells`` int32 (S,), in this block's order of labels.

        An item's labels are then sorted by them: those of an annotator who labels it twice may trade places.
        """
        item, cell = self.item.cpu().numpy(), cells.cpu().numpy()
        bags = RaggedIndex.of_pairs(item, cell, self.n_items, self.bags.n_cells).to(self.device)
        known = self.labels_at(np.lexsort((cell, item))) | {"soft": None}
        return replace(self, bags=bags, has_labels=True, **known)

    def recoded(self, cells: Tensor, n_annotators: int, weight: Tensor | None = None) -> Block:
        """The items, whose labels, in this order, have other cells (S,) of as many annotators, and weights."""
        ends = np.append(row_starts(self), self.n_labels)
        weights = None if weight is None else weight.double().cpu().numpy()
        bags = RaggedIndex.of_sorted(ends, cells.cpu().numpy(), n_annotators * self.n_answers, weights)
        return replace(self, bags=bags.to(self.device), n_annotators=n_annotators, has_labels=True)

    def in_contexts(self, context: Tensor | None, n_contexts: int, weight: Tensor | None) -> Block:
        """The block as if an annotator were another one in each context, ``annotator * n_contexts + context``.

        A model asks for the same contexts and weights in each pass, so that the last ones are kept.

        Args:
            context: of each label, whole numbers (S,) below ``n_contexts``; None for one context.
            weight: of each label, (S,), from 0 on; None for 1.

        Raises:
            DataError: for a context or a weight that is none.
        """
        if context is None and weight is None:
            return self
        kept = self._views.get(n_contexts)
        if kept is None or not (_equal(kept[0], context) and _equal(kept[1], weight)):
            _require_context(context, n_contexts)
            _require_weight(weight)
            where = self.annotator * n_contexts + (0 if context is None else context.long())
            again = self.recoded(
                where * self.n_answers + self.bags.cells % self.n_answers, self.n_annotators * n_contexts, weight
            )
            kept = self._views[n_contexts] = (context, weight, again)
        found: Block = kept[2]
        return found

    def with_items(self, bags: RaggedIndex, **known: Any) -> Block:
        """Other items and labels for the same annotators, of which no more than this is known."""
        nothing = dict.fromkeys((*OF_ITEMS, *OF_LABELS, "seen", "entries"))
        apart = self.sequences.sizes if self.has_sequences else () if self.edges is None else (self.n_items,)
        return replace(self, bags=bags, offset=0, scale=1.0, apart=self.apart or apart, **{**nothing, **known})

    def of_annotator(self, x: Tensor, event_dim: int = 0) -> Tensor:
        """Looks up an annotator's value for each label: (..., A, *event) -> (..., S, *event)."""
        return gather(x, self.by_annotator, event_dim)

    def of_item(self, x: Tensor, event_dim: int = 0) -> Tensor:
        """Looks up an item's value for each label: (..., n_items, *event) -> (..., S, *event)."""
        return gather(x, self.by_item, event_dim)

    def sum_by_item(self, x: Tensor, event_dim: int = 0) -> Tensor:
        """Adds up what an item's labels contribute, by ``weights``: (..., S, *event) -> (..., n_items, *event)."""
        return gather(x, self._weighted_per_item, event_dim)

    def sum_of_cells(self, table: Tensor) -> Tensor:
        """Adds up the entries of each item's labels: (..., cells, width) -> (..., n_items, width)."""
        return gather(table, self.bags, event_dim=1)

    def grouped(self, groups: tuple[int, ...]) -> RaggedIndex:
        """Bags whose row ``group * n_items + item`` holds one group's labels of an item, groups counted from 0."""
        if groups not in self._views:
            of = torch.as_tensor(groups, device=self.device)
            row = of[self.annotator] * self.n_items + self.item
            rows = (max(groups, default=-1) + 1) * self.n_items
            weights = None if self.bags.row_weights is None else self.bags.row_weights.cpu().numpy()
            sides = (row.cpu().numpy(), self.bags.cells.cpu().numpy())
            pairs = RaggedIndex.of_pairs(*sides, rows, self.bags.n_cells, weights)
            self._views[groups] = pairs.to(self.device)
        found: RaggedIndex = self._views[groups]
        return found

    def subset(self, positions: np.ndarray, scale: float) -> Block:
        """A minibatch: the items at ``positions`` (sorted), each standing for ``scale`` items."""
        bounds = np.append(row_starts(self), self.n_labels)
        sizes = bounds[positions + 1] - bounds[positions]
        ends = np.append(0, np.cumsum(sizes))
        at = runs(bounds[positions], sizes)[1]
        bags = RaggedIndex.of_sorted(ends, self.bags.cells.cpu().numpy()[at], self.bags.n_cells)
        items, mine = (torch.as_tensor(x, device=self.device) for x in (positions, at))
        found = {name: getattr(self, name) for name in OF_ITEMS}
        known: dict[str, Any] = {n: None if x is None else rows_taken(x, items) for n, x in found.items()}
        known |= self.labels_at(at)
        known["seen"] = None if self.seen is None else {name: x[items] for name, x in self.seen.items()}
        known["entries"] = mine if self.entries is None else self.entries[mine]
        return replace(self, bags=bags.to(self.device), scale=scale, **known)

    def parts(self, n: int) -> list[Block]:
        """Itself as n blocks of about as many items, each of whole sequences or problems."""
        edges = np.linspace(0, self.n_items, min(n, self.n_items) + 1).round().astype(np.int64).tolist()
        pairs = [(a, self.subset(np.arange(a, b), 1.0)) for a, b in pairwise(edges_between(edges, self.units))]
        return [replace(part, offset=self.offset + a, entries=None) for a, part in pairs]

    def labels_at(self, places: np.ndarray) -> dict[str, Any]:
        """What is known of the labels at some places in this block's order."""
        at = torch.as_tensor(places, device=self.device)
        return {n: None if (x := getattr(self, n)) is None else rows_taken(x, at) for n in OF_LABELS}

    def to(self, device: torch.device | str, dtype: torch.dtype) -> Block:
        """A fresh copy for one fit, on a device and in a precision; nothing derived is carried along."""
        found = {name: getattr(self, name) for name in (*OF_ITEMS, *OF_ANNOTATORS, *OF_LABELS, "entries")}
        moved: dict[str, Any] = {name: None if x is None else x.to(device) for name, x in found.items()}
        seen = None if self.seen is None else {name: x.to(device) for name, x in self.seen.items()}
        return replace(self, bags=self.bags.to(device), seen=seen, dtype=dtype, **moved)

    def as_block(self) -> Block:
        """Itself; annotations return all their items in one block."""
        return self


def with_known(block: Block, order: np.ndarray, known: np.ndarray | None) -> Block:
    """A block with the known truths of its items, as of ``Annotations.known``."""
    mine = order[block.offset : block.offset + block.n_items]
    return replace(block, gold=None if known is None else gold_tensor(known[mine]))


def gold_tensor(known: np.ndarray) -> Tensor:
    """Known truths as blocks hold them: codes of classes as int64, numbers as float64."""
    return torch.from_numpy(known if known.dtype.kind == "f" else known.astype(np.int64))


def with_covariates(
    blocks: Sequence[Block],
    order: np.ndarray,
    of_items: pd.DataFrame | None,
    of_annotators: pd.DataFrame | None,
    of_labels: pd.DataFrame | None,
) -> list[Block]:
    """All blocks with covariates: tables of items and annotators in codebook order, of labels as rows, or None."""
    items = CovariateColumns.of(of_items, "item", order)
    annotators = CovariateColumns.of(of_annotators, "annotator")
    place = None if of_labels is None else np.argsort(rows_by_item(blocks, order)[1])
    labels, first = CovariateColumns.of(of_labels, "label", place), 0
    found = []
    for block in blocks:
        at, mine = slice(block.offset, block.offset + block.n_items), slice(first, first + block.n_labels)
        more: dict[str, Any] = {"item_covariates": items and items.at(at)}
        more["label_covariates"] = labels and labels.at(mine)
        found.append(replace(block, annotator_covariates=annotators, **more))
        first += block.n_labels
    return found


def with_soft(blocks: Sequence[Block], order: np.ndarray, evidence: np.ndarray) -> list[Block]:
    """All blocks with soft labels: log-evidence (S, K) of the classes that may be meant, as rows.

    An abstention is seen for certain.
    """
    rows, first, found = torch.from_numpy(evidence[np.argsort(rows_by_item(blocks, order)[1])]), 0, []
    for block in blocks:
        mine, named = rows[first : first + block.n_labels], block.named
        soft = torch.full((block.n_labels, block.n_answers), -torch.inf, dtype=mine.dtype)
        soft[torch.arange(block.n_labels), block.answer] = 0.0
        soft[named, : block.n_classes] = mine[named]
        found.append(replace(block, soft=soft))
        first += block.n_labels
    return found


def with_edges(blocks: Sequence[Block], order: np.ndarray, pairs: np.ndarray) -> list[Block]:
    """All blocks with the edges between their items, codes (E, 2), of which each takes its own."""
    ends = np.argsort(order)[pairs]
    at, other = (np.searchsorted([block.offset for block in blocks], ends, "right") - 1).T
    ends, at = ends[at == other], at[at == other]
    last = np.cumsum(np.bincount(at, minlength=len(blocks)))
    own = np.split(ends[np.argsort(at, kind="stable")], last[:-1])
    return [
        replace(block, edges=Edges(torch.from_numpy(x - block.offset), torch.arange(block.n_items)))
        for block, x in zip(blocks, own, strict=True)
    ]


def rows_by_item(blocks: Sequence[Block], order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The item of each row, int32 (S,), sorted, and the place of its label in the order of the blocks, (S,)."""
    sizes = np.concatenate([row_sizes(block) for block in blocks])
    by_item = np.argsort(order)
    item, place = runs((np.cumsum(sizes) - sizes)[by_item], sizes[by_item])
    return item.astype(np.int32), place


def row_codes(blocks: Sequence[Block], order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Item and cell (annotator * L + answer) of each label, int32 (S,), sorted by item and cell."""
    item, place = rows_by_item(blocks, order)
    return item, np.concatenate([block.bags.cells.cpu().numpy() for block in blocks])[place]


def has_informative_label(block: Block) -> np.ndarray:
    """Items with a label that is evidence of their truth, bool (n_items,); abstentions are if data say so."""
    item = block.item if block.informative else block.item[block.named]
    return (torch.bincount(item, minlength=block.n_items) > 0).cpu().numpy()


def row_starts(block: Block) -> np.ndarray:
    """The place of the first label of each item of a block, int32 (n_items,)."""
    assert block.bags.row_starts is not None, "a block's rows are items"
    return np.asarray(block.bags.row_starts.cpu().numpy())


def row_sizes(block: Block) -> np.ndarray:
    """Labels of each item of a block, int64 (n_items,)."""
    return np.diff(row_starts(block), append=block.n_labels).astype(np.int64)


def _equal(one: Tensor | None, other: Tensor | None) -> bool:
    """Whether two tensors, or Nones, are the same."""
    if one is None or other is None:
        return one is other
    return one is other or torch.equal(one, other)


def _require_context(context: Tensor | None, n_contexts: int) -> None:
    """Refuses contexts that are no whole numbers, or too large."""
    if context is None:
        return
    wrong = context[~((context >= 0) & (context < n_contexts) & (context == context.round()))]
    if len(wrong):
        raise DataError(
            f"a label has the context {wrong[0].item():g} ({len(wrong)} such labels), and there are {n_contexts}: "
            f"give whole numbers from 0 to {n_contexts - 1}, or a table (..., A, X, T, L) of more contexts"
        )


def _require_weight(weight: Tensor | None) -> None:
    """Refuses weights that are negative or not finite."""
    wrong: Any = () if weight is None else weight[~((weight >= 0) & torch.isfinite(weight))]
    if len(wrong):
        raise DataError(
            f"a label has the weight {float(wrong[0]):g} ({len(wrong)} such labels); give finite numbers from 0 on"
        )


def join_blocks(blocks: Sequence[Block]) -> Block:
    """One block of all items, in the order of the blocks."""
    if len(blocks) == 1:
        return replace(blocks[0])
    first, n_items = blocks[0], sum(block.n_items for block in blocks)
    row = np.repeat(np.arange(n_items), np.concatenate([row_sizes(block) for block in blocks]))
    cell = torch.cat([block.bags.cells for block in blocks]).cpu().numpy()
    bags = RaggedIndex.of_pairs(row, cell, n_items, first.bags.n_cells).to(first.device)
    known: dict[str, Any] = {}
    for name in (*OF_ITEMS, *OF_LABELS):
        parts = [getattr(block, name) for block in blocks]
        together = next((x.joined for x in parts[:1] if isinstance(x, CovariateColumns | Edges)), torch.cat)
        known[name] = None if parts[0] is None else together(parts)
    return replace(first, bags=bags, entries=None, seen=seen_by_all(blocks), **known)


def seen_by_all(blocks: Sequence[Block]) -> dict[str, Tensor] | None:
    """The outputs of networks for the items of all blocks, by network; None where there are none."""
    seen = [block.seen for block in blocks if block.seen is not None]
    return {name: torch.cat([x[name] for x in seen]) for name in seen[0]} if seen else None
