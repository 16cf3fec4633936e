"""What an estimate reads: labels by people, a proxy of all items, and what each label is worth to a quantity."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.core.validation import kind_of, listed, shown
from crowdppl.data.annotations import Annotations
from crowdppl.data.gold import class_codes
from crowdppl.data.ids import Codebook, native
from crowdppl.data.kinds.comparisons import grades_of
from crowdppl.data.kinds.parts import SIDES
from crowdppl.data.kinds.space import number_space
from crowdppl.data.split import whole_units
from crowdppl.errors import CrowdpplWarning, DataError, MethodError
from crowdppl.inference.result import ClassProbabilities, Fit

ROUNDING = 1e-3
"""By how much probabilities of an item may fail to sum to one."""


@dataclass(frozen=True, eq=False)
class Proxy:
    """What is known of all items.

    Attributes:
        items: their ids, (N,).
        classes: (K,), None where labels are numbers.
        forecast: (N, K) probabilities of the classes, or columns (N, J) of numbers.
        data: labels of annotators, None where there are none.
        sd: (N,) how unsure a posterior of numbers is; None of others.
    """

    items: pd.Index[Any]
    classes: pd.Index[Any] | None
    forecast: np.ndarray
    data: Annotations | None = None
    sd: np.ndarray | None = None

    @classmethod
    def of(cls, given: Any, people: pd.Series[Any], items: Any, numbers: bool) -> Proxy:
        """From a posterior, annotations, labels, probabilities, or ``numbers``; without any, the items alone.

        Raises:
            DataError: for anything else, a posterior that was given truths, and numbers that are missing or no
                probabilities.
        """
        if isinstance(given, Proxy):
            return given
        if isinstance(given, Fit):
            given.data.require_whole("an estimate")
            return cls._of_fit(given)
        if isinstance(given, Annotations):
            if given.alphabet.kind.numeric:
                raise DataError(
                    "a proxy of numbers is a fit of them, or a Series or DataFrame of one number an item"
                )
            votes = given.votes() + 1 / given.n_classes
            return cls(given.items, given.classes, votes / votes.sum(1, keepdims=True), given)
        if given is None:
            if items is not None and (isinstance(items, str) or not pd.api.types.is_list_like(items)):
                raise DataError(
                    f"items={shown(items)} must be the ids of all items; a number of them is not enough"
                )
            ids = people.index.unique() if items is None else pd.Index(items)
            classes = None if numbers else pd.Index(sorted(set(people), key=str))
            width = 0 if classes is None else len(classes)
            return cls(
                ids, classes, np.empty((len(ids), 0)) if not width else np.full((len(ids), width), 1 / width)
            )
        if not isinstance(given, pd.Series | pd.DataFrame):
            raise DataError(
                f"proxy is {kind_of(given)}; give a fit, annotations, a Series of labels or numbers by item, or a "
                "DataFrame of probabilities (a column a class) or of numbers"
            )
        return cls._of_table(given, people, numbers)

    @classmethod
    def _of_fit(cls, fit: Fit) -> Proxy:
        if fit.data.gold is not None:
            raise DataError(
                "the proxy was fitted with gold=, and may know what people say; fit it to data.with_gold(None)"
            )
        if isinstance(fit.result.truth, ClassProbabilities):
            return cls(fit.data.items, fit.data.classes, fit.result.probabilities, fit.data)
        kind = fit.data.alphabet.kind
        if kind.parts is not None or not number_space(kind.space).ordered:
            raise MethodError(
                f"the mean of labels of kind {kind.name!r} has no meaning on a line; estimate another figure"
            )
        return cls(fit.data.items, None, fit.result.truth.mean[:, None], sd=fit.result.truth.sd)

    @classmethod
    def _of_table(cls, given: pd.Series[Any] | pd.DataFrame, people: pd.Series[Any], numbers: bool) -> Proxy:
        if not given.index.is_unique:
            twice = native(given.index[given.index.duplicated()][0])
            raise DataError(f"the proxy has item {twice!r} more than once; give one row an item")
        if isinstance(given, pd.Series) and not numbers:
            frame = pd.DataFrame({"item": given.index, "annotator": "proxy", "label": given.array})
            classes = sorted({*given.dropna(), *people}, key=str)
            with warnings.catch_warnings(action="ignore", category=CrowdpplWarning):  # that there is one annotator
                data = Annotations.from_frame(
                    frame.dropna(), kind="nominal", classes=classes, items=list(given.index)
                )
            return cls.of(data, people, None, numbers)
        table = given.to_frame() if isinstance(given, pd.Series) else given
        try:
            values = table.to_numpy(np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"the proxy holds something that is no number ({error}); give numbers") from error
        if not np.isfinite(values).all():
            row, column = np.argwhere(~np.isfinite(values))[0]
            raise DataError(
                f"the proxy of item {native(table.index[row])!r} in column {native(table.columns[column])!r} is "
                f"{values[row, column]}; give a finite number for each item, or leave the item out"
            )
        if numbers and (people.empty or not set(people) <= set(table.columns)):
            return cls(table.index, None, values)
        wrong = np.flatnonzero((values < 0).any(1) | (abs(values.sum(1) - 1) > ROUNDING))
        if len(wrong):
            item, total = native(table.index[wrong[0]]), values[wrong[0]].sum()
            raise DataError(
                f"the proxy's row of item {item!r} sums to {total:g}, or is negative somewhere; give "
                "probabilities, a column a class, whose rows sum to one"
            )
        return cls(table.index, pd.Index(table.columns), values / values.sum(1, keepdims=True))

    def clusters(self) -> pd.Series[Any] | None:
        """What holds items that people label together, a sequence or a set; None where an item stands alone."""
        units = None if self.data is None else whole_units(self.data)
        return None if units is None or len(np.unique(units)) == len(units) else pd.Series(units, self.items)


def labels_by_people(people: Any, name: str = "people") -> pd.Series[Any]:
    """Labels by item, several of an item in several rows; DataError where there are none, or no items."""
    if isinstance(people, Annotations):
        frame = people.frame()
        if people.n_classes:  # abstentions say nothing of the figure
            frame = frame[frame["label"].isin(people.classes)]
        people = pd.Series(frame["label"].array, index=pd.Index(frame["item"].array))
    elif isinstance(people, pd.DataFrame):
        if missing := [name for name in ("item", "label") if name not in people.columns]:
            raise DataError(
                f"{name} has no column {missing[0]!r} (there are: {listed([*map(str, people.columns)])}); rename "
                "theirs, or read them by crowdppl.read_annotations"
            )
        people = pd.Series(people["label"].array, index=pd.Index(people["item"].array))
    elif isinstance(people, Mapping):
        people = pd.Series(list(people.values()), index=pd.Index(list(people)), dtype=object).infer_objects()
    if not isinstance(people, pd.Series):
        raise DataError(
            f"{name} is {kind_of(people)}; give annotations, a DataFrame with the columns item and label, or a "
            "Series or dict of labels by item"
        )
    if isinstance(people.dtype, pd.CategoricalDtype):
        people = people.astype(people.cat.categories.dtype)
    found: pd.Series[Any] = people[people.notna() & people.index.notna()]
    if found.empty:
        raise DataError(f"{name} labelled nothing: all labels or items are missing; give at least some labels")
    return found


def are_numbers(labels: pd.Series[Any]) -> bool:
    """Whether labels are numbers, and no text or truth values."""
    return bool(pd.api.types.is_numeric_dtype(labels) and not pd.api.types.is_bool_dtype(labels))


def rows_of(people: pd.Series[Any], items: pd.Index[Any]) -> np.ndarray:
    """The row of each label's item; DataError where the proxy lacks one."""
    row = Codebook("item", items).codes(people.index)
    if lost := [native(x) for x in people.index[row < 0].unique()]:
        raise DataError(
            f"people labelled {len(lost):,} of {people.index.nunique():,} items that the proxy lacks, such as "
            f"{lost[0]!r}; spell items alike, or give the proxy all items that the figure is about"
        )
    return np.asarray(row)


def by_items(values: Any, items: pd.Index[Any], name: str, needed: np.ndarray | None = None) -> pd.Series[Any]:
    """One value an item in their order, of a Series or dict; DataError where a needed one is missing."""
    if isinstance(values, Mapping):
        values = pd.Series(list(values.values()), index=pd.Index(list(values)))
    if not isinstance(values, pd.Series):
        raise DataError(f"{name}= is {kind_of(values)}; give a Series or dict of one value an item")
    row = Codebook("item", items).codes(values.index)
    values, row = values[row >= 0], row[row >= 0]
    if len(np.unique(row)) < len(row):
        twice = native(items[np.flatnonzero(np.bincount(row) > 1)[0]])
        raise DataError(f"{name}= names item {twice!r} twice; once each")
    found = pd.Series(values.array, index=items[row], dtype=object).reindex(items)
    asked = found if needed is None else found.iloc[needed]
    if asked.isna().any():
        lost = native(asked.index[asked.isna()][0])
        raise DataError(f"{name}= has no value of item {lost!r}; give one to each item, or leave the item out")
    return found


def worth_of_labels(quantity: str, of: Any, proxy: Proxy, tie: Hashable | None) -> tuple[np.ndarray, np.ndarray]:
    """What each label of each item is worth, (N, K), and the items that the quantity is about, bool (N,).

    Raises:
        MethodError: where ``of`` is missing or unknown, or classes are no numbers.
        DataError: where an annotator gave an item two labels.
    """
    classes, n = proxy.classes, len(proxy.items)
    assert classes is not None
    every = np.ones(n, bool)
    if quantity in ("accuracy", "difference"):
        names = (of,) if quantity == "accuracy" else _two(of)
        right = [_right(name, proxy) for name in names]
        value = right[0] if len(right) == 1 else right[0] - right[1]
        known = np.isfinite(value).all(1)
        return np.where(known[:, None], value, 0.0), known
    if quantity in ("mean", "coefficients"):
        return np.tile(_numbers(classes, quantity), (n, 1)), every
    if quantity == "win_rate" and proxy.data is not None and proxy.data.alphabet.kind.parts is not None:
        return _wins(of, proxy.data)
    return np.tile(_shares(of, classes, tie), (n, 1)), every


def _shares(of: Any, classes: pd.Index[Any], tie: Hashable | None) -> np.ndarray:
    """1 of a class, one half of the tie, (K,)."""
    asked = [of] if tie is None else [of, tie]
    for name in asked:
        if name is None or (not isinstance(name, Hashable)) or name not in classes:
            names = listed([repr(native(x)) for x in classes])
            raise MethodError(f"of={shown(name)} is none of the classes ({names}); name one")
    value = (classes == of).astype(float)
    return value if tie is None else np.asarray(value + 0.5 * (classes == tie))


def _numbers(classes: pd.Index[Any], quantity: str) -> np.ndarray:
    found = pd.to_numeric(pd.Series(classes), errors="coerce").to_numpy(float)
    if not np.isfinite(found).all():
        wrong = native(classes[np.flatnonzero(~np.isfinite(found))[0]])
        raise MethodError(
            f"{quantity!r} needs classes that are numbers, and one is {wrong!r}; ask for the 'share' of={wrong!r}, "
            "or recode the labels"
        )
    return found


def _two(of: Any) -> tuple[Any, Any]:
    if not isinstance(of, tuple | list) or len(of) != 2 or of[0] == of[1]:
        raise MethodError(f"of={shown(of)} must name two annotators: of=('a', 'b') is a's accuracy less b's")
    return of[0], of[1]


def _right(name: Any, proxy: Proxy) -> np.ndarray:
    """Whether a label would be that of an annotator, (N, K); NaN where the annotator gave none.

    Without a name, that of the proxy's most probable class.
    """
    assert proxy.classes is not None
    n, k = len(proxy.items), len(proxy.classes)
    if name is None:
        return np.asarray(np.eye(k)[proxy.forecast.argmax(1)])
    if proxy.data is None:
        raise MethodError(f"of={shown(name)} needs a proxy with labels of annotators: a fit, or annotations")
    code = int(proxy.data.annotators.get_indexer(pd.Index([name]))[0]) if isinstance(name, Hashable) else -1
    if code < 0:
        there = listed([repr(native(x)) for x in proxy.data.annotators])
        raise MethodError(f"of={shown(name)} is none of the annotators ({there}); name one")
    item, annotator, label = proxy.data.label_codes()
    own = (annotator == code) & (label < k)
    item, label = item[own], label[own]
    if len(item) > len(np.unique(item)):
        twice = native(proxy.items[np.flatnonzero(np.bincount(item) > 1)[0]])
        raise DataError(f"{name!r} labelled item {twice!r} twice; read labels with repeats='first' or 'last'")
    found = np.full((n, k), np.nan)
    found[item] = np.eye(k)[label]
    return found


def _wins(of: Any, data: Annotations) -> tuple[np.ndarray, np.ndarray]:
    """1 where an answer to a comparison says that an object wins, one half for ties; and the pairs it is in."""
    table = data.item_covariates
    names = _two(of) if isinstance(of, tuple | list) else (of,)
    assert table is not None
    left, right = (table[side].astype(object).to_numpy() for side in SIDES)
    for name in names:
        if not ((left == name) | (right == name)).any():
            objects = listed([repr(x) for x in dict.fromkeys([*left, *right])])
            raise MethodError(f"of={shown(name)} was compared in no pair; the objects are {objects}")
    on_left, on_right = left == names[0], right == names[0]
    scope = on_left != on_right
    if len(names) == 2:
        scope &= np.where(on_left, right, left) == names[1]
    if not scope.any():
        raise MethodError(f"no pair compares {names[0]!r} with {names[-1]!r}; name two that were compared")
    won = (np.sign(grades_of(data.n_classes)) + 1) / 2
    return np.where(on_left[:, None], won, 1 - won), scope


def shares_of_labels(people: pd.Series[Any], classes: pd.Index[Any], row: np.ndarray, n: int) -> np.ndarray:
    """Share of each class among people's labels of each item (N, K); zeros where there are none."""
    code = class_codes(classes, people)
    votes = np.bincount(row * len(classes) + code, minlength=n * len(classes)).reshape(n, -1).astype(float)
    return np.asarray(votes / np.maximum(votes.sum(1, keepdims=True), 1))
