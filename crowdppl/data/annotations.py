"""Who gave which item which label: the data of every method."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Unpack

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from crowdppl.data.blocks import Block
from crowdppl.data.building import assemble, with_known
from crowdppl.data.decoding import answer_again, count_votes, join, row_codes, summarise
from crowdppl.data.extras import gold_codes
from crowdppl.data.feature_tensors import placed_features
from crowdppl.data.stored_features import StoredFeatures
from crowdppl.doors.telling import tell
from crowdppl.errors import CrowdpplWarning
from crowdppl.tables.alphabet import Alphabet
from crowdppl.tables.codebook import Codebook
from crowdppl.tables.options import Options
from crowdppl.tables.rows import Rows, rows_of_frame
from crowdppl.tables.wide import rows_of_dicts, rows_of_matrix, rows_of_wide


@dataclass(frozen=True, eq=False, repr=False)
class Annotations:
    """Labels that annotators gave to items, coded, checked and held as blocks of items.

    ``read_annotations`` and the constructors below make them, told ``crowdppl.tables.options.Options`` (classes,
    gold, features, history, ...). They refuse with a ``DataError`` that gives value, row and remedy, and warn by
    the classes of ``crowdppl.errors``. A story of plain Pyro may be given them as its data.

    Attributes:
        item_book, annotator_book: ids and their codes, N and A of them.
        alphabet: classes (K), then abstentions: together the answers (L).
        blocks: the labels; about 9 bytes each.
        order: int32 (N,), the item code at each position of the blocks.
        gold_codes: (N,), the known class of each item or -1; None without gold.
        features: DataFrame, array or ``StoredFeatures`` in codebook order of the items, or None.
        item_covariates, annotator_covariates: DataFrames in codebook order, or None.
        columns: further columns of the rows, in the order of ``frame()``, or None.
        warnings: what was warned of.

    Examples:
        >>> dicts = crowdppl.Annotations.from_dicts({"ann": {"x": 1, "y": 2}, "bob": {"x": 1, "y": 2}})
        >>> frame = crowdppl.Annotations.from_frame(dicts.frame())
        >>> arrays = crowdppl.Annotations.from_arrays(["x", "x", "y", "y"], ["ann", "bob"] * 2, [1, 1, 2, 2])
        >>> crowdppl.Annotations.from_matrix([[1, 1], [2, 2]], items=["x", "y"], annotators=["ann", "bob"])
        Annotations(2 items, 2 annotators, 2 classes, 4 labels)
    """

    item_book: Codebook
    annotator_book: Codebook
    alphabet: Alphabet
    blocks: list[Block]
    order: np.ndarray
    gold_codes: np.ndarray | None = None
    features: pd.DataFrame | np.ndarray | StoredFeatures | None = None
    item_covariates: pd.DataFrame | None = None
    annotator_covariates: pd.DataFrame | None = None
    columns: pd.DataFrame | None = None
    warnings: tuple[CrowdpplWarning, ...] = ()

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        item: Hashable | None = None,
        annotator: Hashable | None = None,
        label: Hashable | None = None,
        *,
        wide: bool = False,
        **options: Unpack[Options],
    ) -> Annotations:
        """Reads a table with one label a row, or with a row an item and a column an annotator.

        Args:
            frame: the table; further columns of a long one travel with its rows.
            item, annotator, label: columns, where they are not recognised by name.
            wide: whether columns are annotators; items are the index, unless ``item`` is given or recognised. An
                empty cell, or one of blanks, is no label; a row of a long table without a label is refused.
        """
        given = {"item": item, "annotator": annotator, "label": label}
        if wide:
            return cls.of_rows(rows_of_wide(frame, given), options)
        return cls.of_rows(rows_of_frame(frame, given, "the table"), options)

    @classmethod
    def from_arrays(cls, item: Any, annotator: Any, label: Any, **options: Unpack[Options]) -> Annotations:
        """Reads three arrays, tensors or lists of one length: item ids, annotator ids, labels."""
        return cls.of_rows(Rows(item, annotator, label), options)

    @classmethod
    def from_matrix(cls, matrix: Any, missing: Any = None, **options: Unpack[Options]) -> Annotations:
        """Reads a matrix (N, A) of labels: an array, a tensor, or a DataFrame, which names items and annotators.

        Args:
            missing: what, besides a mask, means that there is no label; by default NaN among floats, -1 among
                whole numbers, and a text that is empty or of blanks.
            options: ``items`` and ``annotators`` name rows and columns, also in place of a DataFrame's own names.
        """
        rows = rows_of_matrix(matrix, missing, options.get("items"), options.get("annotators"))
        return cls.of_rows(rows, options)

    @classmethod
    def from_dicts(cls, dicts: Mapping[Any, Mapping[Any, Any]], **options: Unpack[Options]) -> Annotations:
        """Reads ``{annotator: {item: label}}``."""
        return cls.of_rows(rows_of_dicts(dicts), options)

    @classmethod
    def design(cls, item: Any, annotator: Any, **options: Unpack[Options]) -> Annotations:
        """Who is to label what, without labels: for simulation; needs ``classes`` or ``like``."""
        return cls.of_rows(Rows(item, annotator, None), options)

    @classmethod
    def of_rows(cls, rows: Rows, options: Options) -> Annotations:
        """Builds annotations from rows that were read already, and warns of what was found."""
        parts = assemble(rows, options)
        for warning in parts["warnings"]:
            tell(warning)
        return cls(**parts)

    @property
    def n_items(self) -> int:
        """N, items without labels included."""
        return len(self.item_book)

    @property
    def n_annotators(self) -> int:
        """A."""
        return len(self.annotator_book)

    @property
    def n_classes(self) -> int:
        """K, what the truth can be."""
        return self.alphabet.n_classes

    @property
    def n_answers(self) -> int:
        """L, what an annotator can say: the classes and the abstentions."""
        return len(self.alphabet.book)

    @property
    def n_labels(self) -> int:
        """S, rows; an abstention is one."""
        return sum(block.n_labels for block in self.blocks)

    @property
    def items(self) -> pd.Index[Any]:
        """Item ids in codebook order."""
        return self.item_book.ids.rename("item")

    @property
    def annotators(self) -> pd.Index[Any]:
        """Annotator ids in codebook order."""
        return self.annotator_book.ids.rename("annotator")

    @property
    def classes(self) -> pd.Index[Any]:
        """Classes in their order."""
        return self.alphabet.classes.ids.rename("class")

    @property
    def answers(self) -> pd.Index[Any]:
        """Classes, then abstentions."""
        return self.alphabet.book.ids.rename("answer")

    @property
    def kind(self) -> str:
        """ "nominal" or "ordinal"."""
        return self.alphabet.kind

    @property
    def gold(self) -> pd.Series[Any] | None:
        """Known classes by item id, of the items for which they are known."""
        if self.gold_codes is None:
            return None
        known = np.flatnonzero(self.gold_codes >= 0)
        return pd.Series(self.classes[self.gold_codes[known]], index=self.items[known], name="gold")

    @property
    def abstainers(self) -> np.ndarray | None:
        """Annotators who may abstain, bool (A,); None where no abstention is named."""
        return None if (may := self.blocks[0].abstainers) is None else may.numpy()

    def frame(self) -> pd.DataFrame:
        """All rows: item, annotator, label (unless a design) and further columns, in codebook order."""
        item, cell = row_codes(self.blocks, self.order)
        annotator, answer = np.divmod(cell, np.int32(self.n_answers))
        columns: dict[str, Any] = {"item": self.items[item], "annotator": self.annotators[annotator]}
        if self.blocks[0].observed:
            columns["label"] = self.answers[answer]
        rows = pd.DataFrame(columns)
        return rows if self.columns is None else pd.concat([rows, self.columns], axis=1)

    def votes(self) -> np.ndarray:
        """How often each item was given each class, float64 (N, K) in codebook order."""
        return count_votes(self.blocks, self.order)

    def on(self, device: str | torch.device, dtype: torch.dtype) -> list[Block]:
        """Fresh blocks for one fit, on a device and in a precision."""
        return [block.to(device, dtype) for block in self.blocks]

    def as_block(self) -> Block:
        """All items as one block, built once."""
        return self._whole

    def answered(self, cells: Sequence[Tensor]) -> Annotations:
        """The same design with other labels: for each block the int32 cells that ``annotate`` returned."""
        blocks, columns = answer_again(self.blocks, self.order, cells, self.columns)
        return replace(self, blocks=blocks, columns=columns)

    def with_gold(self, gold: Any) -> Annotations:
        """The same with other known truths, a series or mapping by item id, or None; DataError if not of these."""
        codes = gold_codes(gold, self.item_book, self.alphabet)
        return replace(
            self, gold_codes=codes, blocks=[with_known(block, self.order, codes) for block in self.blocks]
        )

    def summary(self) -> dict[str, Any]:
        """Counts and warnings, ready for JSON."""
        return summarise(self.blocks, self.alphabet, self.gold_codes, self.warnings)

    @cached_property
    def _whole(self) -> Block:
        return replace(join(self.blocks), features=placed_features(self))

    def __getattr__(self, name: str) -> Any:
        # What a story asks of its data is answered by one block of all items.
        if name in _SHARED:
            return getattr(self.blocks[0], name)
        if name.startswith("_") or not (hasattr(Block, name) or name in _FIELDS):
            raise AttributeError(f"annotations have no attribute {name!r}")
        return getattr(self.as_block(), name)

    def __repr__(self) -> str:
        what = "labels" if self.blocks[0].observed else "labels to be drawn"
        sizes = f"{self.n_items} items, {self.n_annotators} annotators, {self.n_classes} classes"
        return f"Annotations({sizes}, {self.n_labels} {what})"


# What is the same in every block, so that none has to be built of everything.
_SHARED = frozenset(["history", "scale", "observed", "dtype", "device"])
_FIELDS = frozenset(field.name for field in fields(Block))
