"""Options: what may be said about annotations besides their labels."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import Any, Literal, TypedDict

import pandas as pd

from crowdppl.core.validation import no_annotations, one_of, switch
from crowdppl.data.ids import Codebook, require_list
from crowdppl.data.kinds import KINDS, kind_named
from crowdppl.data.kinds.classes import NOMINAL
from crowdppl.data.kinds.kind import Kind, LabelSet
from crowdppl.data.kinds.sequences import STRAY
from crowdppl.data.notation import with_decimal_commas
from crowdppl.data.tables import Rows
from crowdppl.data.wide import COLUMNS
from crowdppl.errors import DataError


class AnnotationOptions(TypedDict, total=False):
    """What may be said about annotations besides the labels; everything is optional.

    Attributes:
        classes: all classes, in their order; one that nobody gave stays. By default those given, sorted; of a
            categorical of pandas, its categories (``remove_unused_categories`` drops those of rows that were
            filtered away), in their order if they have one.
        abstentions: answers that are no class, such as "don't know".
        informative_abstentions: whether declining may depend on the class, so that an abstention is evidence of it.
            By default each annotator declines at a rate of their own, whatever the class.
        kind: "nominal", or "ordinal" where the order of classes means something: that of ``classes``, else that of
            labels as numbers; "real", "count" or "angle" where labels are numbers and no classes. Two columns name
            an item together, and are item covariates, where it is "pair" (left and right are compared; the label is
            the id of the winner, "left", "right" or "tie", or its strength, from "A>>B" to "B>>A", or -3 to 3 of
            which the negative numbers are for the left one), "similarity" (left and right are the same or not), or
            "sequence" (sequence and position). Of "set" each label is a set of classes: text such as "a;b", a list
            or a set of Python, empty for none; it is read as an answer, yes or no, about each class of the item.
            The classes of "similarity" are different, then same. Of "ranking" each label is a whole ranking of the
            objects of a problem, the item (text such as "a > b = c", a list, ties in a list of their own), or the
            rank, 1 for the best, of one object (item: the object, or problem and object). Problems need no name
            where there is one. By default nominal, and labels that seem to be measurements, sets of classes or JSON
            are refused; ``kind`` or ``classes`` says that they are categories all the same.
        unit: "degrees" (the default) or "radians" of angles (``kind="angle"``), in which known truths, estimates
            and biases are, too. Angles of up to one turn either way are taken, and kept from 0 to below one turn.
        gold: series or mapping from item id to known class (or number), for some or all items; of sets, also from
            (item, class) to "yes" or "no", where one class is known.
        features: DataFrame by item id (of pairs also by object), or array (N, ...) or torch Dataset whose rows
            belong to ``items``; rows of a dataset are read when a network asks for them.
        stray: of tags of sequences, what is done with an I-X that continues no span of its annotator: "repair" (it
            becomes B-X, with a warning where few spans begin so; where most do, the tags are IOB1), "refuse" or
            "keep" (it belongs to no span). Tags of BIOES and BILOU become BIO.
        items, annotators: ids that are there even without labels; a ``Codebook`` fixes all of them.
        item_covariates, annotator_covariates: DataFrames by id; models read them by the functions of these names.
        edges: pairs of items that are linked, such as neighbouring pixels, linked pages or duplicates: a DataFrame
            of two columns of item ids, an array (E, 2) or a list of pairs. An empty list says that none are.
        label_covariates: names of columns of the table that hold a number for each label, such as its seconds or
            its turn among the annotator's labels; models read them likewise. Where labels are no table
            (``from_arrays``, ``design``), a DataFrame with a row a label. By default those of ``like``.
        history: pseudo-counts from earlier work, to be added to a prior: mapping from annotator id to a
            (K, K) matrix [truth, label], or (A, K, K) in codebook order.
        repeats: what to do where an annotator labels an item again: "keep" (all count, as if by several
            annotators); "share" (k of them count as k / (1 + (k - 1) r), where r is their correlation given the
            item's truth, which is learned from all repeats: from one label, where an annotator always repeats
            errors, to k, where these are independent); "noisy" (all are views of one label, the class that the
            annotator means: a share of noise of each annotator is learned and, by ``shown_first``, a bias for a
            position); "one" (the answer given most often counts, of numbers the one nearest to their mean), "first"
            or "last" (it counts); each but "noisy" with a warning that counts them, by "keep" and "share" those of
            equal label covariates, but not by "keep" in comparisons, where judges often see a pair again; "error".
            By default "keep", or "share" where ``like`` has it.
        probabilities: columns of probabilities, in place of labels: one a class, by a mapping from class to column
            or in the order of ``classes``, or one for the second of two classes. They are calibrated by a power and
            shifts of each annotator, learned with Dawid and Skene's model (``soft.table()``); the label is the most
            probable class, and accuracies are those of the class that is meant. Rows in which all are blank have
            the label of the column ``label``.
        scale: what these columns hold: "probability" (the default; they sum to one), "log" of these, or "score"
            (any numbers, larger for a class that is more probable).
        floor: what a probability of 0, or a log-probability of minus infinity, is read as.
        shown_first: column of the class that was shown first, or blank: answers may then follow the position, by a
            share of each annotator that is learned.
        decimal: "," or ".", the mark in numbers that are text, where both may be meant ("1,234"): in labels, known
            truths and covariates.
        time: column of the table that says when each label was given, a date or a number: a label covariate in days
            from 1970 on, or in units of the numbers, and what ``repeats="first"`` or "last" is meant by, by default
            the order of rows. There, labels that are not repeated may lack a time, and it is then no covariate.
        objects: whether objects of one name in several problems of rankings are the same ("shared", the default) or
            each problem's "own".
        like: annotations whose annotators, classes and answers have the same codes here; others are refused.
        grow: whether annotators and classes unknown to ``like`` are appended instead.
    """

    classes: Iterable[Any] | None
    abstentions: Iterable[Any]
    informative_abstentions: bool
    kind: str | None
    unit: str | None
    gold: Any
    features: Any
    items: Iterable[Any] | Codebook | None
    annotators: Iterable[Any] | Codebook | None
    item_covariates: pd.DataFrame | None
    annotator_covariates: pd.DataFrame | None
    edges: Any
    label_covariates: Iterable[Hashable] | pd.DataFrame | None
    history: Any
    repeats: Literal["keep", "share", "noisy", "one", "first", "last", "error"]
    probabilities: Any
    scale: Literal["probability", "log", "score"]
    floor: float | None
    shown_first: Hashable | None
    stray: Literal["repair", "refuse", "keep"]
    decimal: Literal[",", "."] | None
    time: Hashable | None
    objects: Literal["shared", "own"]
    like: Any
    grow: bool


REPEATS = ("keep", "share", "noisy", "one", "first", "last", "error")


def check_options(options: AnnotationOptions) -> None:
    """Refuses unknown options by TypeError, as for any keyword that a function does not take."""
    unknown = sorted(set(options) - set(AnnotationOptions.__annotations__))
    if unknown:
        raise TypeError(f"{unknown[0]!r} is no option; there are {', '.join(AnnotationOptions.__annotations__)}")
    like = options.get("like")
    if like is not None and not isinstance(getattr(like, "alphabet", None), LabelSet):
        raise no_annotations(like, "like")
    for name in ("items", "annotators", "classes", "abstentions"):
        if options.get(name) is not None:
            require_list(options.get(name), name)
    for name in ("grow", "informative_abstentions"):
        switch(name, options.get(name, False), error=DataError)
    one_of("repeats", options.get("repeats", "keep"), REPEATS, DataError)
    if options.get("decimal") is not None:
        one_of("decimal", options.get("decimal"), (",", "."), DataError)
    if options.get("kind") is not None:
        kind_named(options.get("kind"))
    if one_of("objects", options.get("objects", "shared"), ("shared", "own"), DataError) == "own":
        kind = said_kind(options)
        if kind.parts is None or kind.parts.only is None:
            raise DataError(f"objects='own' is for rankings, and labels are of kind={kind.name!r}; leave it out")
    one_of("stray", options.get("stray", STRAY[0]), STRAY, DataError)
    if options.get("unit") is not None:
        one_of("unit", options.get("unit"), sorted({x for kind in KINDS.values() for x in kind.units}), DataError)


def columns_said(columns: Any) -> Any:
    """What columns are said to be; DataError for what they cannot be."""
    return None if columns is None else one_of("columns", columns, COLUMNS, DataError)


def said_kind(options: AnnotationOptions) -> Kind:
    """The kind of labels."""
    like = options.get("like")
    kind = KINDS[options.get("kind") or NOMINAL.name] if like is None else like.alphabet.kind
    unit = options.get("unit")
    if like is not None and unit not in (None, kind.unit):
        raise DataError(f"unit={unit!r}, and labels of like= are in {kind.unit or 'none'}; leave unit= out")
    return kind if unit is None else kind.in_unit(unit)


def parts_of_items(options: AnnotationOptions) -> tuple[str, ...]:
    """What the two columns are called that name an item together; none where one does."""
    check_options(options)
    parts = said_kind(options).parts
    return parts.names if parts is not None and parts.columns else ()


def with_commas(rows: Rows, options: AnnotationOptions) -> tuple[Rows, AnnotationOptions]:
    """Rows and options of which covariates are numbers that are written with a decimal comma."""
    changed: Any = {**options}
    for name in ("item_covariates", "annotator_covariates", "label_covariates", "features"):
        if isinstance(changed.get(name), pd.DataFrame):
            changed[name] = with_decimal_commas(changed[name])
    return replace(rows, columns=with_decimal_commas(rows.columns)), changed


def columns_given(options: AnnotationOptions) -> pd.DataFrame | None:
    """Columns that are handed over beside labels which are no table."""
    given = options.get("label_covariates")
    return given if isinstance(given, pd.DataFrame) else None
