"""Annotations: labels of items by annotators, with known truths, features and covariates."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from crowdppl.core.collective import agreed, n_processes, process, together
from crowdppl.core.devices import few_threads, return_memory
from crowdppl.core.validation import kind_of, no_annotations, switch, warn
from crowdppl.data.blocks import (
    Block,
    join_blocks,
    row_codes,
    row_sizes,
    rows_by_item,
    with_covariates,
    with_edges,
    with_known,
    with_soft,
)
from crowdppl.data.coded import (
    Coded,
    cell_counts,
    code_rows,
    count_repeats,
    warnings_of,
    who_abstains,
)
from crowdppl.data.covariates import covariate_table, feature_table, history_table, label_columns, some_columns
from crowdppl.data.edges import coded_edges
from crowdppl.data.features import StoredFeatures, placed_features
from crowdppl.data.gold import given_truths, known_truths
from crowdppl.data.ids import Codebook, as_column, by_item, native
from crowdppl.data.kinds.comparisons import TIE
from crowdppl.data.kinds.kind import LabelSet
from crowdppl.data.kinds.numbers import NUMBER
from crowdppl.data.kinds.parts import SIDES, of_objects, ordered, with_covariates_of_parts, with_features
from crowdppl.data.kinds.sequences import SEQUENCE, units_of
from crowdppl.data.kinds.space import REAL_LINE, number_space
from crowdppl.data.levels import above, ancestor, coarser
from crowdppl.data.masks import labels_of_masks
from crowdppl.data.opened import Opened, Totals
from crowdppl.data.options import (
    AnnotationOptions,
    check_options,
    columns_given,
    columns_said,
    parts_of_items,
    said_kind,
    with_commas,
)
from crowdppl.data.parts import Stored, of_own_parts, read_parts
from crowdppl.data.repeats import Repeats, treated_repeats
from crowdppl.data.shapes import Said, rows_of_table
from crowdppl.data.soft_labels import SoftLabels, are_soft, read_soft
from crowdppl.data.tables import Rows, Table, coded_table, require_table, rows_of_dicts
from crowdppl.data.times import with_times
from crowdppl.data.votes import COUNTED
from crowdppl.data.wide import rows_of_matrix
from crowdppl.errors import CrowdpplWarning, DataError

if TYPE_CHECKING:
    import pyarrow as pa


def _known(rows: Rows, options: AnnotationOptions, coded: Coded) -> dict[str, Any]:
    """What is known besides labels, as attributes of annotations."""
    given: dict[str, Any] = {**options}
    found, gold = dict[str, Any](), None
    if given.get("gold") is not None or rows.gold is not None:
        truths = given_truths(given.get("gold"), rows.gold, rows.text, coded.alphabet)
        gold = known_truths(truths, coded.items, coded.alphabet, given.get("decimal"))
    for name, book in (("item_covariates", coded.items), ("annotator_covariates", coded.annotators)):
        found[name] = None if given.get(name) is None else covariate_table(given[name], book)
    if given.get("edges") is not None:
        found["edges"] = coded_edges(given["edges"], coded.items)
    if given.get("features") is not None:
        found["features"] = feature_table(given["features"], given.get("items"), coded.items)
    return {**found, "known": gold}


def _label_names(rows: Rows, options: AnnotationOptions, time: Hashable | None) -> tuple[Hashable, ...]:
    """Names of the label covariates: given, or those of the annotations that these are to be like; and the time."""
    like = options.get("like")
    names = options.get("label_covariates", () if like is None else names_there(like, rows.columns))
    none = names is None or (isinstance(names, tuple) and not names)
    found = () if none else label_columns(names, rows.columns, rows.place)
    return found if time is None or time in found else (*found, time)


def names_there(old: Annotations, columns: pd.DataFrame | None) -> tuple[Hashable, ...]:
    """Names of label covariates that new labels need as old ones have them: of times, if they have any."""
    there = () if columns is None else columns.columns
    return tuple(name for name in old.label_names if name != old.time or name in there)


def _with_times(rows: Rows, options: AnnotationOptions) -> tuple[Rows, Hashable | None]:
    """Rows of which times are read, and the name of their column; None where there is none."""
    like, time = options.get("like"), options.get("time")
    if time is None and like is not None and rows.columns is not None and like.time in rows.columns:
        time = like.time
    if time is None:
        return rows, None
    try:
        return replace(rows, columns=with_times(rows.columns, time, rows.place)), time
    except DataError:
        if options.get("repeats") in ("first", "last"):  # labels that are not repeated need none
            return rows, None
        raise


@dataclass(frozen=True, eq=False, repr=False)
class Annotations:
    """Labels that annotators gave to items, coded, checked and held as blocks of items.

    ``read_annotations`` and the constructors below make them, with the options of
    ``crowdppl.data.options.AnnotationOptions`` (classes, gold, features, history, ...). Items, annotators and
    labels are text or integers; whole floats, which pandas makes of integers where some are missing, become
    integers, with a warning. Faults raise a ``DataError`` with value, row and remedy; doubtful data emit a warning
    of ``crowdppl.errors``. A model of plain Pyro may be given annotations as its data.

    Attributes:
        item_book, annotator_book: ids and their codes, N and A of them.
        alphabet: classes (K), then abstentions: together the answers (L).
        blocks: the labels; about 9 bytes each.
        order: int32 (N,), the item code at each position of the blocks.
        known: (N,), the known class of each item or -1; where labels are numbers, the known number or NaN; None
            without gold.
        features: DataFrame, array or ``StoredFeatures`` in codebook order of the items, or None.
        item_covariates, annotator_covariates: DataFrames in codebook order, or None.
        edges: int64 (E, 2), the codes of linked items, the lower first; None where nothing is said of them.
        columns: further columns of the rows, in the order of ``frame()``, or None.
        repeat_correlation: of an annotator's labels of one item given its truth, by ``repeats="share"``; 0 where
            each label counts.
        label_names: those of ``columns`` that are label covariates.
        time: that of them which says when labels were given, or None.
        soft: how labels were read that are probabilities, or seen several times; None where each is seen once.
        roles: the columns that were read, by what they hold ("item", "gold" ...); none where there was no table.
        warnings: those that were emitted.
        share: the number of the process whose items these are, from 0, and of how many, where several processes
            share a data set; None for all of its items.
        opened: the parts from which they were opened, as they are there; else None.
        totals: counts of all items, where these are some of them; else None.

    Examples:
        >>> dicts = crowdppl.Annotations.from_dicts({"ann": {"x": 1, "y": 2}, "bob": {"x": 1, "y": 2}})
        >>> frame = crowdppl.Annotations.from_frame(dicts.frame())
        >>> arrays = crowdppl.Annotations.from_arrays(["x", "x", "y", "y"], ["ann", "bob"] * 2, [1, 1, 2, 2])
        >>> crowdppl.Annotations.from_matrix([[1, 1], [2, 2]], items=["x", "y"], annotators=["ann", "bob"])
        Annotations(2 items, 2 annotators, 2 classes, 4 labels)
        >>> timed = dicts.frame().assign(seconds=[3, 8, 5, 9])
        >>> crowdppl.Annotations.from_frame(timed, label_covariates=["seconds"]).label_covariates.sum().to_dict()
        {'seconds': 25}
    """

    item_book: Codebook
    annotator_book: Codebook
    alphabet: LabelSet
    blocks: list[Block]
    order: np.ndarray
    known: np.ndarray | None = None
    features: pd.DataFrame | np.ndarray | StoredFeatures | None = None
    item_covariates: pd.DataFrame | None = None
    annotator_covariates: pd.DataFrame | None = None
    edges: np.ndarray | None = None
    columns: pd.DataFrame | None = None
    label_names: tuple[Hashable, ...] = ()
    roles: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[CrowdpplWarning, ...] = ()
    repeat_correlation: float = 0.0
    time: Hashable | None = None
    share: tuple[int, int] | None = None
    soft: SoftLabels | None = None
    opened: Opened | None = None
    totals: Totals | None = None

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        item: Hashable | tuple[Hashable, Hashable] | None = None,
        annotator: Hashable | None = ...,
        label: Hashable | None = None,
        *,
        wide: bool = False,
        columns: Literal["annotators", "classes", "items"] | None = None,
        gold_column: Hashable | None = None,
        **options: Unpack[AnnotationOptions],
    ) -> Annotations:
        """Reads a table with one label a row, or with a column for each annotator, class or item.

        Where neither ``kind`` nor ``classes`` are said, columns and values tell whether objects are compared
        (model_a, model_b and winner; winner and loser; chosen and rejected) or ranked (object and rank).

        Args:
            frame: the table: a DataFrame of pandas or polars, a table of pyarrow or duckdb, or whatever else offers
                ``__arrow_c_stream__``. Further columns of a long one travel with its rows.
            item, annotator, label: columns, where they are not recognised by name; of items with two parts, a pair
                of columns. ``annotator=None``: one gave all labels, for methods that need to know no more.
            wide: whether columns are annotators; items are the index, unless ``item`` is given or recognised. An
                empty cell, or one of blanks, is no label; a row of a long table without a label is refused. A
                column that looks like something else is refused, unless ``annotators`` names those of annotators.
            columns: what columns are, of a table with several for labels. "annotators": as ``wide=True``, without a
                look whether numbers may be counts of votes or ranks. "classes": a row is an item, and cells count
                the votes for a class, all as of one annotator; or a row is the label of an annotator who is named,
                1 in the column of its class, or of several classes of a set; ``classes`` names the columns where
                there are others. A column of records ``{"cat": 3, "dog": 2}`` holds votes, too. "items": a row is
                an annotator; ``items`` names the columns where there are others. By default, votes of which rows
                have (nearly) the same sum, ranks, and tables with a row for each annotator are recognised.
            gold_column: column of known truths: blank where unknown, repeated where known.
        """
        check_options(options)
        table = Table(require_table(frame, "the table"))
        said = Said(item, annotator, label, gold_column, wide, columns_said(columns))
        rows, changed = rows_of_table(table, said, said_kind(options), options)
        return cls.of_rows(rows, cast(AnnotationOptions, changed))

    @classmethod
    def from_arrays(
        cls, item: Any, annotator: Any, label: Any, **options: Unpack[AnnotationOptions]
    ) -> Annotations:
        """Reads three arrays, tensors or lists of one length: item ids, annotator ids, labels.

        Labels may be an array (S, K) of probabilities, whose classes are ``classes``, by default 0 to K - 1.
        """
        if isinstance(label, np.ndarray | Tensor) and label.ndim == 2:
            x = np.asarray(label.cpu() if isinstance(label, Tensor) else label)
            given = options.get("classes")
            classes = [*(range(x.shape[1]) if given is None else given)]
            frame = pd.DataFrame({"item": as_column(item, "item"), "annotator": as_column(annotator, "annotator")})
            names = [f"probability of {name}" for name in classes]
            frame[names] = x
            told: Any = {**options, "classes": classes, "probabilities": names}
            return cls.from_frame(frame, "item", "annotator", **told)
        parts = bool(parts_of_items(options))
        return cls.of_rows(Rows.of_arrays(item, annotator, label, columns_given(options), parts), options)

    @classmethod
    def from_matrix(cls, matrix: Any, missing: Any = None, **options: Unpack[AnnotationOptions]) -> Annotations:
        """Reads a matrix (N, A) of labels: an array, a tensor, or a DataFrame, which names items and annotators.

        Args:
            missing: what, besides a mask, means that there is no label; by default what pandas takes as missing, -1
                unless among floats, and text that is empty or of blanks.
            options: ``items`` and ``annotators`` name rows and columns, also in place of a DataFrame's own names.
        """
        asked = said_kind(options) in COUNTED
        rows = rows_of_matrix(matrix, missing, options.get("items"), options.get("annotators"), asked)
        return cls.of_rows(rows, options)

    @classmethod
    def from_masks(cls, masks: Any, missing: Any = None, **options: Unpack[AnnotationOptions]) -> Annotations:
        """Reads masks, of which each pixel is an item, linked with those above, below, left and right of it.

        Items are numbered row by row, one image after the other; the item covariates ``image``, ``row`` and
        ``column`` say where each is. ``posterior.masks()`` gives arrays of the same sizes.

        Args:
            masks: ``{annotator: array (H, W)}`` of whole numbers, bool (0 and 1) or text, or a list or mapping of
                such, one an image. Images may have different sizes, and not every annotator need draw each.
            missing: the value of pixels that an annotator did not label, such as 255 or NaN.

        Raises:
            DataError: where the masks of one image have different sizes; it names them and who drew them.

        Examples:
            >>> import numpy as np
            >>> drawn = {"ann": np.eye(3, dtype=int), "bob": np.tri(3, dtype=int)}
            >>> data = crowdppl.Annotations.from_masks(drawn)
            >>> data, len(data.edges)
            (Annotations(9 items, 2 annotators, 2 classes, 18 labels), 12)
        """
        item, annotator, label, known = labels_of_masks(masks, missing)
        return cls.of_rows(Rows.of_arrays(item, annotator, label), cast(AnnotationOptions, {**known, **options}))

    @classmethod
    def from_dicts(
        cls, dicts: Mapping[Any, Mapping[Any, Any]], **options: Unpack[AnnotationOptions]
    ) -> Annotations:
        """Reads ``{annotator: {item: label}}``."""
        return cls.of_rows(rows_of_dicts(dicts), options)

    @classmethod
    def design(cls, item: Any, annotator: Any, **options: Unpack[AnnotationOptions]) -> Annotations:
        """Who is to label what, without labels: for simulation; needs ``classes`` or ``like``."""
        parts = bool(parts_of_items(options))
        return cls.of_rows(Rows.of_arrays(item, annotator, None, columns_given(options), parts), options)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        gold: Any = None,
        features: pd.DataFrame | None = None,
        item_covariates: pd.DataFrame | None = None,
        annotator_covariates: pd.DataFrame | None = None,
        history: Any = None,
        check: bool = False,
    ) -> Annotations:
        """Reads a folder of parts, as ``crowdppl.convert`` writes it and ``docs/scale.md`` describes it.

        In a process group of ``torch.distributed``, each process reads parts of its own, a run of consecutive ones,
        and ``share`` says which process of how many it is; annotators and classes are those of all parts. Items
        stand in the order of the parts.

        Args:
            path: the folder.
            gold, features, item_covariates, annotator_covariates, history: as of
                ``crowdppl.data.options.AnnotationOptions``, tables by id; of several processes, each takes the
                items that are its own.
            check: whether to read all bytes once more, for their digests, and to look whether each item is in the
                part that its hash says, and blocks are the labels of their part; sizes, counts and codes are always
                looked at.

        Raises:
            DataError: for what is missing, damaged, of another version or no part, and more processes than parts.

        Examples:
            >>> dicts = crowdppl.Annotations.from_dicts({"ann": {"x": 1, "y": 2}, "bob": {"x": 1, "y": 2}})
            >>> dicts.frame().to_csv("labels.csv", index=False)
            >>> _ = crowdppl.convert("labels.csv", "opened", n_parts=2)
            >>> crowdppl.Annotations.open("opened", check=True)
            Annotations(2 items, 2 annotators, 2 classes, 4 labels)
        """
        known = {"gold": gold, "features": features, "item_covariates": item_covariates}
        with together():  # what is wrong in one part is an error in all processes
            share = (process(), n_processes()) if n_processes() > 1 else None
            stored = read_parts(path, *(share or (0, 1)), check=switch("check", check, error=DataError))
            agreed(
                "the parts",
                int(stored.digest[:12], 16),
                "give all the same folder, or copy it again to each machine",
            )
            return_memory(len(stored.items))
            made = cls._of_parts(stored, share, known, annotator_covariates, history)
            made = made if share is None else replace(made, totals=Totals.of(made.blocks))
        for warning in made.warnings if share is None or share[0] == 0 else ():
            warn(warning)
        return made

    @classmethod
    def _of_parts(
        cls,
        stored: Stored,
        share: tuple[int, int] | None,
        known: Mapping[str, Any],
        annotator_covariates: Any,
        history: Any,
    ) -> Annotations:
        """What parts hold, with what is ``known`` by item id."""
        items, alphabet = stored.items, stored.alphabet
        pair, of_items = alphabet.kind.parts, stored.of_items
        for name, given in known.items():
            tables = pd.DataFrame if name != "gold" else pd.Series | Mapping
            if given is not None and not isinstance(given, tables):
                raise DataError(f"{name} is {kind_of(given)}; give a table by item id")
        given_truths(known["gold"], None if stored.known is None else pd.Series(dtype=object), False, alphabet)
        features, more = known["features"], known["item_covariates"]
        if pair is None and more is not None and SEQUENCE in more:
            raise DataError(
                f"item_covariates have a column {SEQUENCE!r}, and parts of kind={alphabet.kind.name!r} keep no "
                "sequences whole: convert the labels with kind='sequence', or use crowdppl.read_annotations"
            )
        if of_items is not None and pair is not None and features is not None:
            features = with_features(features, of_items, pair)
        features, covariates = (of_own_parts(given, stored, share) for given in (features, more))
        if of_items is not None and pair is not None:
            covariates = with_covariates_of_parts(covariates, of_items, pair)
        if history is not None:
            history = torch.from_numpy(history_table(history, stored.annotators, alphabet.n_classes))
        made = cls(
            items,
            stored.annotators,
            alphabet,
            stored.blocks,
            stored.order,
            stored.known,
            feature_table(features, None, items),
            covariate_table(covariates, items),
            covariate_table(annotator_covariates, stored.annotators),
            edges=stored.edges,
            columns=stored.columns,
            label_names=(
                *stored.manifest.label_covariates,
                *([] if stored.manifest.time is None else [stored.manifest.time]),
            ),
            roles=stored.manifest.roles,
            warnings=stored.warnings,
            time=stored.manifest.time,
            share=share,
            opened=Opened.of(stored),
        ).filled(history=history, abstainers=None if stored.may is None else torch.from_numpy(stored.may))
        gold = known["gold"]
        truths = of_own_parts(None if gold is None else by_item(made.truths_by_id(gold)), stored, share)
        return made if truths is None else made.with_gold(truths)

    @classmethod
    def of_rows(cls, rows: Rows, options: AnnotationOptions) -> Annotations:
        """Codes, checks and sorts labels, and emits warnings.

        Raises:
            DataError: for a fault, with value, place and remedy.
            TypeError: for an unknown option.
        """
        check_options(options)
        if options.get("decimal") == ",":
            rows, options = with_commas(rows, options)
        try:
            rows, changed = said_kind(options).read(rows, options)
        except DataError as error:
            raise DataError(f"{error}; {rows.recognised}" if rows.recognised else str(error)) from error
        options = cast(AnnotationOptions, changed)
        coded, like = code_rows(rows, options), options.get("like")
        rows, time = _with_times(rows, options)
        known, names = _known(rows, options, coded), _label_names(rows, options, time)
        of_items = known["item_covariates"]
        units = units_of(of_items, known.get("edges"), len(coded.items))
        order, blocks = coded.blocks(units)
        timeless = [name for name in names if name != time]  # a label given again is so at another time
        of_labels = some_columns(rows.columns, timeless) if timeless else None
        numbers = rows.columns[NUMBER].to_numpy() if rows.columns is not None and NUMBER in rows.columns else None
        before = 0.0 if like is None else like.repeat_correlation
        how = options.get("repeats", "share" if before else "keep")
        how = "keep" if like is not None and how == "noisy" else how
        when = (rows.columns, options.get("time"))
        columns, soft, stays = rows.columns, None, None
        if like.soft if like is not None else are_soft(options):
            soft, columns, stays = read_soft(rows, coded, options, known["known"])
        if stays is None:
            treated = treated_repeats(coded, blocks, rows.place, how, of_labels, numbers, known["known"], *when)
        else:
            treated = Repeats(stays)
        kept = treated.kept
        left = coded if kept is None else coded.rows(kept)
        if kept is not None:
            order, blocks = left.blocks(units)
        counts = cell_counts(blocks)
        may = who_abstains(left, counts, None if like is None else like.abstainers)
        history = options.get("history")
        if history is not None:
            history = torch.from_numpy(history_table(history, coded.annotators, coded.alphabet.n_classes))
        made = cls(
            coded.items,
            coded.annotators,
            coded.alphabet,
            blocks,
            order,
            columns=left.sorted_columns(columns, kept),
            label_names=names,
            time=time,
            soft=soft,
            roles={
                **rows.roles,
                **({"label_covariates": ", ".join(map(str, timeless))} if timeless else {}),
                **({} if time is None else {"time": str(time)}),
            },
            warnings=(
                *(() if rows.pooled else treated.warnings),  # one annotator for all repeats by design
                *warnings_of(coded, blocks, counts, options, units, of_items, rows.pooled),
            ),
            repeat_correlation=before if how == "share" and before else treated.correlation,
            **known,
        ).filled(history=history, abstainers=None if may is None else torch.from_numpy(may))
        for warning in made.warnings:
            warn(warning)
        return made

    def filled(self, **shared: Any) -> Annotations:
        """Annotations whose blocks hold what is known: gold, covariates, labels that are numbers, ``shared``."""
        shared = {"informative": self.alphabet.informative, "space": self.alphabet.kind.space, **shared}
        shared["repeat_correlation"] = self.repeat_correlation
        blocks = [replace(block, **shared) for block in self.blocks]
        if self.known is not None:
            blocks = [with_known(block, self.order, self.known) for block in blocks]
        covariates = (self.item_covariates, self.annotator_covariates, self.label_columns)
        if any(table is not None for table in covariates):
            blocks = with_covariates(blocks, self.order, *covariates)
        if self.edges is not None:
            blocks = with_edges(blocks, self.order, self.edges)
        if self.soft is not None and blocks[0].has_labels:
            evidence = self.soft.evidence(self.columns, self.label_codes()[2], self.n_classes)
            blocks = (
                [replace(b, soft=None) for b in blocks]
                if evidence is None
                else with_soft(blocks, self.order, evidence)
            )
        return replace(self, blocks=blocks)

    @property
    def n_items(self) -> int:
        """N, items without labels included."""
        return len(self.item_book.ids)

    @property
    def n_annotators(self) -> int:
        """A."""
        return len(self.annotator_book.ids)

    @property
    def n_classes(self) -> int:
        """K, what the truth can be."""
        return self.alphabet.n_classes

    @property
    def n_answers(self) -> int:
        """L, what an annotator can say: the classes and the abstentions."""
        return len(self.alphabet.book.ids)

    @property
    def n_labels(self) -> int:
        """S, rows; an abstention is one."""
        return sum(block.n_labels for block in self.blocks)

    @property
    def is_share(self) -> bool:
        """Whether other processes hold further items of the same data."""
        return self.share is not None and self.share[1] > 1

    def require_whole(self, what: str) -> None:
        """Refuses the share of one of several processes by a DataError that says of ``what``."""
        if self.share is not None and self.is_share:
            raise DataError(
                f"{what} would be of the items of process {self.share[0]} of {self.share[1]} alone: processes "
                "share fits and nothing else; give all items, opened in one process"
            )

    @property
    def items(self) -> pd.Index[Any]:
        """Item ids in codebook order."""
        return self.item_book.ids.rename("item")

    @property
    def item_index(self) -> pd.Index[Any]:
        """What names items in results: ids or, where two columns name an item, those columns (a MultiIndex)."""
        return self._item_index.copy()

    def item_columns(self, codes: np.ndarray) -> dict[str, pd.Index[Any]]:
        """The columns that name some items, by their codes, in a table of results."""
        return {name: self._item_index.get_level_values(name)[codes] for name in map(str, self._item_index.names)}

    @cached_property
    def _item_index(self) -> pd.Index[Any]:
        parts, table = self.alphabet.kind.parts, self.item_covariates
        return self.items if parts is None or table is None else parts.index(table)

    @property
    def annotators(self) -> pd.Index[Any]:
        """Annotator ids in codebook order."""
        return self.annotator_book.ids.rename("annotator")

    @property
    def classes(self) -> pd.Index[Any]:
        """Classes in their order; DataError where labels are numbers."""
        self._require_classes()
        return self.alphabet.classes.ids.rename("class")

    @property
    def answers(self) -> pd.Index[Any]:
        """Classes, then abstentions; DataError where labels are numbers."""
        self._require_classes()
        return self.alphabet.book.ids.rename("answer")

    def _require_classes(self) -> None:
        if self.alphabet.kind.numeric:
            raise DataError(
                f"labels of kind {self.kind!r} are numbers and have no classes, which are wanted here; a posterior "
                "has truth() and annotators() of numbers, and agreement_pairs(data) says who agree"
            )

    @property
    def kind(self) -> str:
        """What ``kind=`` said: "nominal", "ordinal", "real", "pair", ..."""
        return self.alphabet.kind.name

    @property
    def gold(self) -> pd.Series[Any] | None:
        """Known classes or numbers by item id, of the items for which they are known."""
        if self.known is None:
            return None
        at = np.flatnonzero(self.is_known)
        return pd.Series(
            self.classes[self.known[at]] if self.n_classes else self.known[at], index=self.items[at], name="gold"
        )

    @property
    def gold_codes(self) -> np.ndarray | None:
        """The known class of each item or -1, (N,); None without gold, and where labels are numbers."""
        return self.known if self.n_classes else None

    @property
    def is_known(self) -> np.ndarray:
        """Which items' truths are known, bool (N,)."""
        if self.known is None:
            return np.zeros(self.n_items, bool)
        return self.known >= 0 if self.n_classes else np.isfinite(self.known)

    @property
    def abstainers(self) -> np.ndarray | None:
        """Annotators who may abstain, bool (A,); None where no abstention is named."""
        return None if (may := self.blocks[0].abstainers) is None else may.numpy()

    @property
    def label_covariates(self) -> pd.DataFrame | None:
        """Covariates of each label, in the order of ``frame()``, or None."""
        return some_columns(self.columns, self.label_names)

    @property
    def label_columns(self) -> pd.DataFrame | None:
        """What models read of each label: itself where it is a number, and covariates; None for neither."""
        numbers = (NUMBER,) if self.alphabet.kind.numeric and self.blocks[0].has_labels else ()
        names = (*numbers, *self.label_names)
        return some_columns(self.columns, names) if names else None

    def frame(self) -> pd.DataFrame:
        """All rows: item, annotator, label (unless a design) and further columns, in codebook order."""
        rows = pd.DataFrame({name: ids[codes] for name, (ids, codes) in self._coded().items()})
        return rows if self.columns is None else pd.concat([rows, self.columns], axis=1)

    def to_arrow(self) -> pa.Table:
        """``frame()`` as a pyarrow Table, with ids and labels as dictionaries; ``from_frame`` reads it again."""
        return coded_table(self._coded(), self.columns)

    def _coded(self) -> dict[str, tuple[pd.Index[Any], np.ndarray]]:
        """The ids of each column of rows, and each row's code."""
        ids = {"item": self.items, "annotator": self.annotators}
        ids |= {"label": self.answers} if self.blocks[0].has_labels and self.n_classes else {}
        return {name: (ids[name], codes) for name, codes in zip(ids, self.label_codes(), strict=False)}

    def label_codes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Item, annotator and answer code of each label, each int32 (S,), in the order of ``frame()``."""
        item, cell = row_codes(self.blocks, self.order)
        annotator, answer = np.divmod(cell, np.int32(self.n_answers))
        return item, annotator, answer

    def votes(self) -> np.ndarray:
        """How often each item was given each class, float64 (N, K) in codebook order."""
        votes = np.empty((self.n_items, self.n_classes))
        with few_threads(self.n_labels):
            for block in self.blocks:
                at = self.order[block.offset : block.offset + block.n_items]
                votes[at] = block.vote_counts().cpu().numpy()
        return votes

    def on(self, device: str | torch.device, dtype: torch.dtype) -> list[Block]:
        """Fresh blocks for one fit, on a device and in a precision."""
        return [block.to(device, dtype) for block in self.blocks]

    def as_block(self) -> Block:
        """All items as one block, built once."""
        return self._whole

    def answered(self, labels: Sequence[Tensor]) -> Annotations:
        """The design with other labels: for each block (S,), as ``primitives.annotate`` draws them.

        Labels of an item are sorted, so that those of an annotator who labels it twice may trade places, and their
        columns with them.
        """
        if self.alphabet.kind.numeric:
            return self._numbered(torch.cat([label.cpu() for label in labels]).numpy())
        drawn = [cell.cpu().to(torch.int32) for cell in labels]
        blocks = [block.answered(cell) for block, cell in zip(self.blocks, drawn, strict=True)]
        columns = self.columns
        if columns is not None:
            item, place = rows_by_item(self.blocks, self.order)
            trade = np.lexsort([torch.cat(drawn).numpy()[place], item])
            columns = columns.iloc[trade].reset_index(drop=True)
            if self.soft is not None:  # it is of the labels that were
                columns = columns.drop(columns=self.soft.names, errors="ignore")
        return replace(self, blocks=blocks, columns=columns, opened=None)

    def _numbered(self, numbers: np.ndarray) -> Annotations:
        """The design with numbers as labels, (S,) in the order of the blocks."""
        first = pd.DataFrame({NUMBER: numbers[rows_by_item(self.blocks, self.order)[1]]})
        rest = [] if self.columns is None else [self.columns.drop(columns=NUMBER, errors="ignore")]
        blocks = [replace(block, has_labels=True) for block in self.blocks]
        return replace(self, columns=pd.concat([first, *rest], axis=1), blocks=blocks, opened=None).filled()

    def with_gold(self, gold: Any) -> Annotations:
        """A copy with other known truths, a series or mapping by item id, or None; DataError if not of these.

        Itself where nothing is known before and after.
        """
        if gold is None and self.known is None:
            return self
        known = known_truths(self.truths_by_id(gold), self.item_book, self.alphabet)
        blocks = [with_known(block, self.order, known) for block in self.blocks]
        return replace(self, known=known, blocks=blocks)

    def at_level(self, level: int) -> Annotations:
        """The labels at a level of a tree, where classes are paths such as "animal/dog".

        At level 1 this label is "animal". Agreement, fits and evaluation are then at that level; known truths, here
        and in ``evaluate``, may be paths to the end. A label that says no more than "animal" is read as an
        abstention, ``abstentions=["animal"]``, and is a label where "animal" is a class.

        Args:
            level: from 1, the root's children; a path that ends above a level stays as it is.

        Returns:
            Annotations with the same items and annotators, and the classes that there are at that level, in the
            order in which they first come among all.

        Raises:
            DataError: where classes are no paths, one holds others, all are one at that level, or there is none.

        Examples:
            >>> ann = {"x": "animal/dog", "y": "plant/tree", "z": "animal/cat"}
            >>> bob = ann | {"x": "animal/cat"}
            >>> coarse = crowdppl.Annotations.from_dicts({"ann": ann, "bob": bob}).at_level(1)
            >>> coarse.classes.tolist(), crowdppl.agreement_items(coarse)["agreement"].to_dict()
            (['animal', 'plant'], {'x': 1.0, 'y': 1.0, 'z': 1.0})
        """
        return self._merged(*coarser(self.alphabet, level))

    def above(self, grade: Any) -> Annotations:
        """Whether labels are above a grade: the same items and annotators, and the classes "no" and "yes".

        Args:
            grade: any but the last.

        Raises:
            DataError: where labels are no grades, or the grade is none of them, or the last.

        Examples:
            >>> grades = crowdppl.datasets.example("ordinal")
            >>> grades.classes.tolist(), grades.above(2).classes.tolist()
            ([1, 2, 3, 4], ['no', 'yes'])
        """
        return self._merged(*above(self.alphabet, grade))

    def _merged(self, alphabet: LabelSet, code: np.ndarray) -> Annotations:
        """The labels as answers of another alphabet, whose code each answer here has, (L,)."""
        if self.soft is not None:
            raise DataError(
                "labels that are probabilities, or seen with noise, tell of the classes that there are, and not of "
                "several as one; add up the probabilities of these in the table, and read it again"
            )
        item, annotator, answer = self.label_codes()
        coded = Coded(
            self.item_book,
            self.annotator_book,
            alphabet,
            item,
            annotator,
            code[answer].astype(answer.dtype) if self.blocks[0].has_labels else None,
        )
        order, blocks = coded.blocks(None)
        may = who_abstains(coded, cell_counts(blocks), self.abstainers)
        known = (
            None if self.known is None else np.where(self.known >= 0, code[self.known], -1).astype(self.known.dtype)
        )
        history = self.blocks[0].history
        if history is not None:
            up = torch.eye(alphabet.n_classes, dtype=history.dtype)[code[: self.n_classes]]
            history = up.T @ history.cpu() @ up
        made = replace(
            self,
            alphabet=alphabet,
            blocks=blocks,
            order=order,
            known=known,
            columns=coded.sorted_columns(self.columns, None),
            opened=None,
        )
        return made.filled(history=history, abstainers=None if may is None else torch.from_numpy(may))

    def truths_by_id(self, gold: Any) -> Any:
        """Known truths by item id, as answers where labels are sets or comparisons, of items named as in labels."""
        if gold is not None and self.alphabet.level:
            gold = by_item(gold).map(lambda name: ancestor(name, self.alphabet.level))
        if gold is None or self.item_covariates is None:
            return gold
        known = by_item(gold)
        known = known.set_axis(ordered(known.index, self._item_index.names))
        parts = self.alphabet.kind.parts
        if parts is not None and parts.shared:
            sides = of_objects(known, self.item_covariates.loc[:, [*SIDES]])
            if sides is not None:
                return self._truths_of_pairs(known, sides, parts.unordered)
        return self.alphabet.kind.truths(known, self.items, self.item_covariates, self.roles)

    def _truths_of_pairs(self, known: pd.Series[Any], sides: pd.DataFrame, clusters: bool) -> pd.Series[Any]:
        """Truths of pairs from what is known of their two sides: clusters of objects, or ranks or scores."""
        left, right = (sides[side] for side in SIDES)
        if clusters:
            return pd.Series(self.classes[(left == right).to_numpy(int)], sides.index)
        if known.name not in ("rank", "score"):
            raise DataError(
                f"the truths of objects are called {known.name!r}; name the series 'rank' (1 the best) or 'score' "
                "(the largest the best), as the columns of ranking(), or give the winner of each pair"
            )
        apart = pd.to_numeric(left) - pd.to_numeric(right)
        ahead = apart < 0 if known.name == "rank" else apart > 0
        return pd.Series(np.where(apart == 0, TIE, np.where(ahead, *SIDES)), sides.index)[
            (apart != 0) | (TIE in self.classes)
        ]

    def summary(self) -> dict[str, Any]:
        """Columns that were read, counts of items, annotators, labels and classes, and warnings, ready for JSON.

        Of some of the items, such as those of one of several processes, counts of all items, without others.
        """
        answers = [str(native(answer)) for answer in self.answers] if self.n_classes else []
        of_all = self.totals or self
        found = {
            "items": of_all.n_items,
            "annotators": self.n_annotators,
            "labels": of_all.n_labels,
            "kind": self.kind,
            "classes": answers[: self.n_classes],
            "abstentions": answers[self.n_classes :],
            "informative_abstentions": self.alphabet.informative,
            "repeat_correlation": self.repeat_correlation,
            "columns": {**self.roles},
            "warnings": [f"{type(warning).__name__}: {warning}" for warning in self.warnings],
        }
        return found if self.totals is not None else found | self._counts(answers)

    def _counts(self, answers: list[str]) -> dict[str, Any]:
        """What is counted of single items, annotators and answers."""
        counts = cell_counts(self.blocks)
        per_item = np.concatenate([row_sizes(block) for block in self.blocks])
        given = dict(zip(answers, counts.sum(0).tolist(), strict=False)) if self.blocks[0].has_labels else {}
        return {
            "labels_by_answer": given,
            **(
                {}
                if (of := self.label_columns) is None or self.n_classes
                else {"label": number_space(self.space).summary(of[NUMBER].to_numpy())}
            ),
            "labels_an_item": REAL_LINE.summary(per_item),
            "labels_an_annotator": REAL_LINE.summary(counts.sum(1)),
            "items_without_labels": int((per_item == 0).sum()),
            "repeats": count_repeats(self.blocks),
            "gold": int(self.is_known.sum()),
        }

    @cached_property
    def _whole(self) -> Block:
        return replace(join_blocks(self.blocks), features=placed_features(self))

    def __getattr__(self, name: str) -> Any:
        # What a model asks of its data is answered by one block of all items.
        if name in _SHARED:
            return getattr(self.blocks[0], name)
        if name.startswith("_") or not (hasattr(Block, name) or name in _FIELDS):
            raise AttributeError(f"annotations have no attribute {name!r}")
        return getattr(self.as_block(), name)

    def __repr__(self) -> str:
        what = "labels" if self.blocks[0].has_labels else "labels to be drawn"
        sizes = f"{self.n_items} items, {self.n_annotators} annotators"
        classes = f", {self.n_classes} classes" if self.n_classes else ""
        return f"Annotations({sizes}{classes}, {self.n_labels} {what})"


# What is the same in every block, so that none has to be built of everything.
_SHARED = frozenset(["history", "space", "scale", "has_labels", "dtype", "device"])
_FIELDS = frozenset(field.name for field in fields(Block))


def labels_given(data: Annotations) -> np.ndarray:
    """How many labels each annotator gave, abstentions included, of all items: int64 (A,)."""
    return np.asarray(cell_counts(data.blocks).sum(1) if data.totals is None else data.totals.labels)


def require_annotations(data: Any, name: str = "data", *, shared: bool = False) -> Annotations:
    """The data, when they are annotations; DataError for anything else, a DataFrame of labels say.

    And for the share of one of several processes, unless ``shared``.
    """
    if isinstance(data, Annotations):
        if not shared:
            data.require_whole(name)
        return data
    raise no_annotations(data, name)
