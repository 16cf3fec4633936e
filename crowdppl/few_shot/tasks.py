"""Few-shot tasks: a few labelled items of some classes, and others that are to be told apart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations


@dataclass(frozen=True, eq=False)
class Tasks:
    """Some few-shot tasks of one size, T of them, side by side.

    Attributes:
        support, query: features (T, N, ...) of the labelled items, and (T, Q, ...) of those to be told apart.
        truth, asked: their classes, counted within each task, int64 (T, N) and (T, Q).
        item, annotator, label: int64 (S,), all labels; items and annotators of task t are counted on from those of
            the tasks before.
        n_annotators: A, of each task.
        names: names of the classes that tasks are made of.
        classes: position of each class of each task among them, int64 (T, K).
        ids: ids of the items that tasks are made of.
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
        """The same tasks, whose tensors are on a device."""
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
