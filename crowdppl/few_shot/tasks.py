"""Few-shot tasks: a few labelled items of some classes, and a sampler of such episodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from crowdppl.core.validation import is_whole, seed_number, shown, whole_number
from crowdppl.data.annotations import Annotations
from crowdppl.data.covariates import feature_table
from crowdppl.data.ids import Codebook, as_index, listed, native, sorting
from crowdppl.errors import DataError, MethodError
from crowdppl.simulation.annotators import Kind, kinds_and_shares


@dataclass(frozen=True, eq=False)
class Tasks:
    """Some few-shot tasks of one size, T of them, side by side.

    Attributes:
        support, query: features (T, N, ...) of the labelled items, and (T, Q, ...) of those to be classified.
        truth, asked: their classes, counted within each task, int64 (T, N) and (T, Q).
        item, annotator, label: int64 (S,), all labels; items and annotators are numbered through all tasks.
        n_annotators: A, of each task.
        names: names of the sampler's classes.
        classes: position of each class of each task among them, int64 (T, K).
        ids: ids of the sampler's items.
        rows: position of each support item, then of each query item, among them, int64 (T, N + Q).
    """

    support: Tensor
    query: Tensor
    truth: Tensor
    asked: Tensor
    item: Tensor
    annotator: Tensor
    label: Tensor
    n_annotators: int
    names: pd.Index[Any]
    classes: np.ndarray
    ids: pd.Index[Any]
    rows: np.ndarray

    def to(self, device: str | torch.device) -> Tasks:
        """These tasks, with tensors on a device."""
        moved: dict[str, Any] = {name: x.to(device) for name, x in vars(self).items() if isinstance(x, Tensor)}
        return replace(self, **moved)

    def annotations(self, number: int = 0, *, queries: bool = False) -> Annotations:
        """Labels and features of the support items of one task, under the names of its classes.

        Args:
            number: which task.
            queries: whether query items are among the items, without labels.
        """
        n = self.support.shape[1]
        mine = (self.item // n == number).numpy()
        item, annotator, label = (x.numpy()[mine] for x in (self.item, self.annotator, self.label))
        ids, features = self.ids[self.rows[number]], torch.cat([self.support[number], self.query[number]])
        shown = len(ids) if queries else n
        images = features.dim() > 2
        return Annotations.from_arrays(
            ids[item % n],
            annotator % self.n_annotators,
            self.names[self.classes[number]][label],
            items=ids[:shown],
            classes=self.names[np.sort(self.classes[number])],
            features=features[:shown].numpy() if images else self._table(features[:shown], ids[:shown]),
        )

    def questions(self, number: int = 0) -> tuple[pd.DataFrame, pd.Series[Any]]:
        """Features of the query items of one task, flattened, and their classes by name."""
        query = self.ids[self.rows[number, self.support.shape[1] :]]
        truth = self.names[self.classes[number]][self.asked[number].numpy()]
        return self._table(self.query[number], query), pd.Series(truth, query, name="truth")

    def _table(self, features: Tensor, ids: pd.Index[Any]) -> pd.DataFrame:
        return pd.DataFrame(features.flatten(1).numpy(), index=ids)


MIX: Mapping[Any, float] = MappingProxyType({"expert": 0.1, "hammer": 0.7, "spammer": 0.2})
"""Shares of the kinds of annotators, as in the source below."""


@dataclass(frozen=True, eq=False)
class EpisodeSampler:
    """Draws few-shot tasks from items whose classes are known, with simulated annotators.

    A task has ``ways`` classes, some items of each that annotators label, and others to be classified.

    Args:
        truth: class of each item: Series by item id, or an array for the items 0, 1, ...
        features: as for annotations: a DataFrame by item id, or an array (N, ...) in the order of ``truth``.
        classes: the classes to draw from; by default all. Items of others are left out.
        ways: K, classes a task.
        shots: labelled items of each class; of several numbers, each call of ``draw`` draws one.
        queries: other items of each class.
        annotators: A, annotators a task; of several numbers one is drawn likewise.
        kinds: probability of each kind of annotator, by name or kind, as for ``crowdppl.simulation.draw_kinds``.
        labels_per_item: how many of the annotators, drawn at random, label an item; None for all.
        apart_from: another sampler with which no class and no item may be shared, such as that of the training.

    Raises:
        DataError: for wrong truth, features or classes, a class with too few items for a task, or a class or item
            that is also in ``apart_from``.
        MethodError: for an unknown kind or one without a confusion, shares that do not sum to one, or sizes out of
            range.

    Source: Kumagai et al. (2025), "Meta-learning representations for learning from multiple annotators", arXiv
    2506.10259: episodes, and the default shares, but not the accuracies of experts and hammers.

    Examples:
        >>> import numpy as np
        >>> from crowdppl.few_shot import EpisodeSampler
        >>> truth = np.arange(100) % 5
        >>> episodes = EpisodeSampler(truth, np.eye(5)[truth], ways=3, shots=2, queries=4, annotators=3)
        >>> tasks = episodes.draw(10, seed=0)
        >>> tuple(tasks.support.shape), tuple(tasks.query.shape), len(tasks.label)
        ((10, 6, 5), (10, 12, 5), 180)
    """

    truth: Any
    features: Any
    classes: Sequence[Any] | None = None
    ways: int = 4
    shots: int | Sequence[int] = (1, 3, 5)
    queries: int = 10
    annotators: int | Sequence[int] = (3, 5, 7)
    kinds: Mapping[Any, float] = field(default_factory=lambda: MIX)
    labels_per_item: int | None = None
    apart_from: EpisodeSampler | None = None

    def __post_init__(self) -> None:
        self._check_sizes()
        self._check_kinds()
        needed = max(_several(self.shots)) + self.queries
        for name, rows in zip(self.names, self._by_class, strict=True):
            if len(rows) < needed:
                raise DataError(
                    f"class {native(name)!r} has {len(rows)} items, but a task takes {needed}; ask for fewer shots "
                    "or queries, or leave it out of classes="
                )
        if self.apart_from is not None:
            self._check_disjoint(self.apart_from)

    @property
    def names(self) -> pd.Index[Any]:
        """The classes, in order."""
        return self._coded[1]

    @property
    def items(self) -> pd.Index[Any]:
        """Ids of all items of these classes."""
        return self._coded[0].index

    @property
    def table(self) -> Tensor:
        """Features of these items, float32 (N, ...)."""
        return self._coded[2]

    @property
    def about(self) -> list[Any]:
        """Settings and items, but for features, for JSON."""
        codes, names, _ = self._coded
        kinds, shares = self._kinds
        sizes = [self.ways, _several(self.shots), self.queries, _several(self.annotators), self.labels_per_item]
        items = [codes.tolist(), list(map(str, codes.index)), list(map(str, names))]
        return [repr(sizes), [kind.name for kind in kinds], shares.tolist(), *items]

    def draw(self, number: int, seed: int | Sequence[int] = 0, *, clean: bool = False) -> Tasks:
        """Draws tasks: classes, items, annotators of drawn kinds, and their labels.

        Args:
            number: T.
            seed: the same seed draws the same tasks.
            clean: whether all annotators are always right.

        Raises:
            MethodError: for a wrong number or seed.
        """
        number = whole_number("number", number, 1, "draw a task")
        parts = seed if isinstance(seed, Sequence) and not isinstance(seed, str) else [seed]
        rng = np.random.default_rng([seed_number(part) for part in parts])
        shots, n_annotators = (int(rng.choice(_several(x))) for x in (self.shots, self.annotators))
        chosen = np.stack([rng.permutation(len(self.names))[: self.ways] for _ in range(number)])
        each = [[rng.permutation(self._by_class[c])[: shots + self.queries] for c in task] for task in chosen]
        rows: np.ndarray = np.array(each)  # (T, K, shots + queries)
        support, query = (part.reshape(number, -1) for part in np.split(rows, [shots], 2))
        truth, asked = (np.repeat(np.arange(self.ways), n) for n in (shots, self.queries))
        confusion = self._confusions(rng, number, n_annotators, clean)
        item, annotator, label = self._labels(rng, confusion, truth)
        return Tasks(
            self.table[support],
            self.table[query],
            torch.from_numpy(truth).expand(number, -1),
            torch.from_numpy(asked).expand(number, -1),
            torch.from_numpy(item),
            torch.from_numpy(annotator),
            torch.from_numpy(label),
            n_annotators,
            self.names,
            chosen,
            self.items,
            np.concatenate([support, query], 1),
        )

    @cached_property
    def _coded(self) -> tuple[pd.Series[Any], pd.Index[Any], Tensor]:
        """Class codes by item id, names of the classes, features; of the items that are used."""
        truth = self.truth if isinstance(self.truth, pd.Series) else pd.Series(list(self.truth))
        if not len(truth) or truth.isna().any() or not truth.index.is_unique:
            raise DataError("truth must have one class for each item, by distinct ids")
        if self.features is None:
            raise DataError("episodes need features=, a row an item")
        found = as_index(truth.drop_duplicates())
        names = (
            found[sorting(found, "class")] if self.classes is None else as_index(listed(self.classes, "classes"))
        )
        unknown = names.difference(found)
        if len(unknown):
            raise DataError(f"classes= has {native(unknown[0])!r}, but no item has this class")
        values = np.asarray(feature_table(self.features, truth.index, Codebook("item", truth.index)), np.float32)
        used = truth.isin(names).to_numpy()
        codes: pd.Series[Any] = pd.Series(names.get_indexer(pd.Index(truth[used])), truth.index[used])
        return codes, names, torch.from_numpy(np.array(values[used]))

    @cached_property
    def _by_class(self) -> list[np.ndarray]:
        codes = self._coded[0].to_numpy()
        return [np.flatnonzero(codes == code) for code in range(len(self.names))]

    @cached_property
    def _kinds(self) -> tuple[list[Kind], np.ndarray]:
        return kinds_and_shares(self.kinds)

    def _confusions(self, rng: np.random.Generator, tasks: int, annotators: int, clean: bool) -> np.ndarray:
        """(T, A, K, K) [truth, label]."""
        kinds, p = self._kinds
        which = rng.choice(len(kinds), size=(tasks, annotators), p=p)
        if clean:
            return np.broadcast_to(np.eye(self.ways), (tasks, annotators, self.ways, self.ways))
        each = [[kinds[number].confusion(self.ways, rng) for number in task] for task in which]
        return np.array(each)

    def _labels(
        self, rng: np.random.Generator, confusion: np.ndarray, truth: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Codes of item, annotator and label of every label."""
        tasks, annotators, n = *confusion.shape[:2], len(truth)
        chance = rng.random((tasks, annotators, n, 1))
        label = (chance >= confusion[:, :, truth].cumsum(-1)[..., :-1]).sum(-1)
        given = np.ones(label.shape, bool)
        if self.labels_per_item is not None:
            given = rng.random(label.shape).argsort(1).argsort(1) < self.labels_per_item
        task, annotator, item = np.nonzero(given)
        return task * n + item, task * annotators + annotator, label[given]

    def _check_sizes(self) -> None:
        whole_number("ways", self.ways, 2, "a task has several classes")
        whole_number("queries", self.queries, 1)
        if self.labels_per_item is not None:
            whole_number("labels_per_item", self.labels_per_item, 1, "None lets all annotators label an item")
        for name, sizes in (("shots", self.shots), ("annotators", self.annotators)):
            if isinstance(sizes, str) or not (is_whole(sizes) or isinstance(sizes, Iterable)):
                raise MethodError(f"{name}={shown(sizes)} must be a whole number, or several of them")
            for size in _several(sizes):
                whole_number(name, size, 1)
        if self.ways > len(self.names):
            raise MethodError(f"ways={self.ways}, but there are {len(self.names)} classes; ask for fewer")

    def _check_kinds(self) -> None:
        for kind in self._kinds[0]:
            if not callable(getattr(kind, "confusion", None)):
                raise MethodError(f"{kind.name} has no confusion, which tasks need; leave it out of kinds")
            kind.confusion(self.ways, np.random.default_rng(0))

    def _check_disjoint(self, other: EpisodeSampler) -> None:
        for what, mine, theirs in (("classes", self.names, other.names), ("items", self.items, other.items)):
            shared = mine.intersection(theirs)
            if len(shared):
                raise DataError(
                    f"{len(shared)} {what} are in both samplers, such as {native(shared[0])!r}; keep them apart"
                )


def _several(sizes: int | Sequence[int]) -> list[int]:
    found: list[Any] = [sizes] if is_whole(sizes) else list(cast("Sequence[int]", sizes))
    if not found:
        raise MethodError("shots and annotators must have at least one number")
    return found
