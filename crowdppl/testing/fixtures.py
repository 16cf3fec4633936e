"""Small data sets for the checks, and quick fits."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np
import pandas as pd

from crowdppl.core.validation import is_number
from crowdppl.data.annotations import Annotations
from crowdppl.data.blocks import with_covariates
from crowdppl.data.numbers import NUMBERS
from crowdppl.data.parts import PARTS
from crowdppl.data.sets import SEPARATOR
from crowdppl.errors import CrowdpplWarning, MethodError
from crowdppl.fitting import fit
from crowdppl.inference.engines import ENGINES, engine_support, fit_model, used_by
from crowdppl.inference.options import FitOptions, options_from
from crowdppl.inference.sequential import with_missing
from crowdppl.posterior import Posterior
from crowdppl.primitives.model import Model, card_of, set_up
from crowdppl.registry import name_of

QUICK: FitOptions = {"max_iterations": 10, "chains": 2, "draws": 2, "warmup": 1}
"""Options of very short fits, which need not converge."""

Names = Mapping[str, Mapping[Any, Any]]
Renamed = Callable[[Model, Names], Model]
Columns = Mapping[Hashable, Sequence[float]]


@dataclass(frozen=True)
class Trial:
    """A model and the data sets on which it is checked.

    Attributes:
        model: the method with its settings.
        renamed, item_covariates, annotator_covariates, label_covariates: see ``crowdppl.testing.About``.
    """

    model: Model
    renamed: Renamed | None = None
    item_covariates: Columns = field(default_factory=dict)
    annotator_covariates: Columns = field(default_factory=dict)
    label_covariates: Columns = field(default_factory=dict)
    _fits: dict[str, Posterior] = field(default_factory=dict, repr=False)
    _odd_fits: dict[str, Posterior] = field(default_factory=dict, repr=False)
    _cells: dict[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for what in ("item_covariates", "annotator_covariates", "label_covariates"):
            given = getattr(self, what)
            named = isinstance(given, Mapping) and all(isinstance(x, Sequence) for x in given.values())
            if not named or not all(len(x) and all(map(is_number, x)) for x in given.values()):
                raise MethodError(f"{what}={given!r} must map columns to numbers, as {{'words': [10, 200]}}")

    @staticmethod
    def of(model: Model, **about: Any) -> Trial:
        """The trial of a model, with data of the kind that its card names."""
        kind = kind_of_labels(model)
        if kind in NUMBERS:
            return NumberTrial(model, **about)
        if kind == "sequence":
            return SequenceTrial(model, **about)
        return (PartsTrial if kind in PARTS else Trial)(model, **about)

    @property
    def kind(self) -> str:
        """The kind of labels of the model."""
        return kind_of_labels(self.model)

    @property
    def letters(self) -> str:
        """The classes."""
        return "abc"

    @cached_property
    def rows(self) -> pd.DataFrame:
        """Labels of 12 items by 5 annotators, who are right about three times in four; c is the rarest class."""
        rng = np.random.default_rng(7)
        found = []
        for i in range(12):
            truth = "aabbc"[i % 5]
            for a in rng.permutation(5)[: 2 + i % 4]:
                label = truth if rng.random() < 0.75 else rng.choice(list("abc"))
                found.append((f"item {i:02}", f"annotator {a}", str(label)))
        return pd.DataFrame(found, columns=["item", "annotator", "label"])

    @property
    def clear(self) -> pd.DataFrame:
        """Labels of 9 items on which all annotators agree: a, b and c in turn."""
        rows = [(f"item {i}", f"annotator {a}", "abc"[i % 3]) for i in range(9) for a in range(5)]
        return pd.DataFrame(rows, columns=["item", "annotator", "label"]).sample(frac=1, random_state=2)

    @cached_property
    def data(self) -> Annotations:
        """Annotations without anything special."""
        return self.read(self.rows)

    mute: ClassVar[tuple[str, str]] = ("mute 1", "mute 2")
    """Items of ``odd`` without labels."""

    @property
    def gold(self) -> dict[str, str]:
        """Known truths of ``odd``."""
        return {sorted({*self.rows["item"]})[3]: "c", self.mute[0]: "a"}

    @cached_property
    def odd(self) -> Annotations:
        """Everything at once: a class nobody gave, abstentions, a repeat, items without labels, and gold."""
        one, two, *_ = sorted({*self.rows["item"]})
        more = [(one, "annotator 1", "?"), (two, "annotator 2", "?"), (one, "annotator 1", "b")]
        rows = pd.concat([self.rows, pd.DataFrame(more, columns=list(self.rows.columns))])
        known: Any = {"abstentions": ["?"], "items": [*self.mute], "gold": self.gold}
        return self.read(rows, classes=list("abcd"), **known)

    def complete(self, data: Annotations) -> Annotations:
        """The same with the label covariates that the model derives; a design as if its labels were the first."""
        if not hasattr(self.model, "derived_covariates"):
            return data
        if not data.blocks[0].has_labels:
            data = data.answered([block.annotator * block.n_answers for block in data.blocks])
        return with_missing(set_up(self.model, data), data)

    def unlinked(self, data: Annotations) -> Annotations:
        """The same for Pyro, which sums items out one by one."""
        return self.complete(data)

    def renamed_items(self) -> dict[str, str]:
        """New names of the items, which sort the other way round."""
        return reversed_names(self.rows["item"])

    def renamed_classes(self) -> dict[str, str]:
        """New names of classes that sort the other way round."""
        return reversed_names(self.rows["label"])

    @property
    def answers(self) -> dict[str, Any]:
        """The options of ``read`` that say what can be answered."""
        return {"classes": list(self.letters)}

    def truths(self, posterior: Posterior) -> pd.DataFrame:
        """What a fit says of each item's truth."""
        return posterior.probabilities()

    def read(self, rows: pd.DataFrame, old: Names | None = None, **options: Any) -> Annotations:
        """Annotations of a table, without warnings; ``old`` maps renamed ids to their old ones, by role."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CrowdpplWarning)
            known = self.covariates([*rows["item"], *options.get("items", ())], rows["annotator"], old)
            options = {**self.answers, "kind": self.kind, **known, **options}
            options = {"label_covariates": list(self.label_covariates), **options}
            return Annotations.from_frame(self.with_numbers(rows, old), "item", **options)

    def covariates(
        self, items: Iterable[str], annotators: Iterable[str], old: Names | None = None
    ) -> dict[str, Any]:
        """Covariates for annotations of these ids, which end in a number, or did before they were renamed."""
        before = old or {}
        of_items = _in_turn(self.item_covariates, items, before.get("item", {}))
        of_annotators = _in_turn(self.annotator_covariates, annotators, before.get("annotator", {}))
        return {"item_covariates": of_items, "annotator_covariates": of_annotators}

    def with_numbers(self, rows: pd.DataFrame, old: Names | None = None) -> pd.DataFrame:
        """A table of labels with their covariates, in turn of the numbers of item and annotator."""
        before = old or {}
        ids = (
            rows[role].map(lambda x, role=role: _number(x, before.get(role, {}))) for role in ("item", "annotator")
        )
        turn = [item + annotator for item, annotator in zip(*ids, strict=True)]
        numbers = {name: [x[n % len(x)] for n in turn] for name, x in self.label_covariates.items()}
        return pd.concat([rows, pd.DataFrame(numbers, index=rows.index)], axis=1)

    def design(self, items: Iterable[str], annotators: Iterable[str], **options: Any) -> Annotations:
        """Who is to label what, like ``data``."""
        rows = self.with_numbers(pd.DataFrame({"item": list(items), "annotator": list(annotators)}))
        known = self.covariates(rows["item"], rows["annotator"])
        known["label_covariates"] = rows[list(self.label_covariates)]
        return Annotations.design(rows["item"], rows["annotator"], like=self.data, **known, **options)

    def cell(self, engine: str) -> str:
        """The entry of an engine and this model in the zoo's table."""
        if engine not in self._cells:
            self._cells[engine] = engine_support(self.model, self.data, engine)
        return self._cells[engine]

    def accepted(self, *engines: str) -> list[str]:
        """Those of the engines that fit the model."""
        return [engine for engine in engines or ENGINES if not self.cell(engine).startswith("refused")]

    @property
    def quickest(self) -> list[str]:
        """The first of em, vb and svi that fits the model; none if there is none."""
        return self.accepted("em", "vb", "svi")[:1]

    def fit(self, engine: str) -> Posterior:
        """A quick fit of ``data``, made once."""
        if engine not in self._fits:
            self._fits[engine] = fit_quickly(self.model, self.data, engine)
        return self._fits[engine]

    def fit_odd(self, engine: str) -> Posterior:
        """A quick fit of ``odd``, made once."""
        if engine not in self._odd_fits:
            self._odd_fits[engine] = self.other_fit(engine, self.odd)
        return self._odd_fits[engine]

    def other_fit(self, engine: str, data: Annotations, model: Model | None = None, **how: Any) -> Posterior:
        """A quick fit without the spread of vb's tables, which takes most of its time."""
        model = model or self.model
        name = name_of(model) or f"{type(model).__module__}.{type(model).__qualname__}"
        options = options_from(cast("FitOptions", {**used_by(engine, QUICK), **how}))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CrowdpplWarning)
            return Posterior.of(fit_model(model, name, data, engine, options))


class NumberTrial(Trial):
    """The same with labels that are numbers."""

    @cached_property
    def rows(self) -> pd.DataFrame:
        """Labels of 12 items by 5 annotators with biases and spreads of their own."""
        rng = np.random.default_rng(7)
        truth, bias = rng.normal(5, 2, 12).round(3), np.array([0.0, 0.5, -0.5, 0.2, -1.0])
        found = []
        for i in range(12):
            for a in rng.permutation(5)[: 2 + i % 4]:
                label = truth[i] + bias[a] + (0.3 + 0.2 * a) * rng.normal()
                found.append((f"item {i:02}", f"annotator {a}", float(label.round(3))))
        return pd.DataFrame(found, columns=["item", "annotator", "label"])

    @property
    def clear(self) -> pd.DataFrame:
        """Labels of 9 items on which all annotators agree but for a hundredth: 0, 10 and 20 in turn."""
        agreed = super().clear
        noise = np.random.default_rng(3).normal(size=len(agreed)) / 100
        return agreed.assign(label=10.0 * agreed["label"].map("abc".index) + noise)

    @cached_property
    def odd(self) -> Annotations:
        """A repeat, and items without labels."""
        more = pd.DataFrame([("item 00", "annotator 1", 4.5)], columns=list(self.rows.columns))
        return self.read(pd.concat([self.rows, more, more]), items=["mute 1", "mute 2"])

    @property
    def answers(self) -> dict[str, Any]:
        """Nothing is to be said: answers are numbers."""
        return {}

    def truths(self, posterior: Posterior) -> pd.DataFrame:
        """Mean and standard deviation of each item's truth."""
        return posterior.truth()[["estimate", "sd"]]


class SequenceTrial(Trial):
    """The same with items in sequences of four: "item 0 | 0" to "item 2 | 11"."""

    mute: ClassVar[tuple[str, str]] = ("mute | 1", "mute | 2")

    @cached_property
    def rows(self) -> pd.DataFrame:
        return self._in_sequences(super().rows)

    @property
    def clear(self) -> pd.DataFrame:
        return self._in_sequences(super().clear)

    def unlinked(self, data: Annotations) -> Annotations:
        data = self.complete(data)
        assert data.item_covariates is not None
        alone = data.item_covariates.assign(sequence=np.arange(data.n_items))
        blocks = with_covariates(data.blocks, data.order, alone, None, data.label_columns)
        return replace(data, item_covariates=alone, blocks=blocks)

    def renamed_items(self) -> dict[str, str]:
        names = {text: f"new {9 - int(text[-1])}" for text in {x.partition(" |")[0] for x in self.rows["item"]}}
        return {x: x.replace(x.partition(" |")[0], names[x.partition(" |")[0]]) for x in {*self.rows["item"]}}

    def design(self, items: Iterable[str], annotators: Iterable[str], **options: Any) -> Annotations:
        """Who is to label what; an item without a sequence is alone in one."""
        return super().design([x if " | " in x else f"{x} | 0" for x in items], annotators, **options)

    def with_numbers(self, rows: pd.DataFrame, old: Names | None = None) -> pd.DataFrame:
        """A table of labels with columns of the parts of its items."""
        parts = rows["item"].str.split(" | ", regex=False, expand=True)
        return super().with_numbers(rows, old).assign(sequence=parts[0], position=parts[1])

    def _in_sequences(self, rows: pd.DataFrame) -> pd.DataFrame:
        number = rows["item"].str.split().str[1].astype(int)
        return rows.assign(item=[f"item {n // 4} | {n}" for n in number])


class PartsTrial(Trial):
    """The same with items of two parts, and two classes."""

    mute: ClassVar[tuple[str, str]] = ("mute 1 | part 2", "mute 2 | part 3")

    @property
    def letters(self) -> str:
        """The classes."""
        return "ab"

    @property
    def gold(self) -> dict[str, str]:
        """A known truth with labels, and one without."""
        return {"item 1 | part 0": "b", "mute 1 | part 2": "a"}

    @cached_property
    def rows(self) -> pd.DataFrame:
        """The labels of 12 items by 5 annotators, of which no part has less than three."""
        return self._in_parts(super().rows)

    @property
    def clear(self) -> pd.DataFrame:
        """Labels of 9 items on which all annotators agree."""
        return self._in_parts(super().clear)

    @cached_property
    def odd(self) -> Annotations:
        """Abstentions, a repeat, items without labels, and gold."""
        more = [("item 0 | part 0", "annotator 1", "?"), ("item 0 | part 0", "annotator 1", "b")]
        rows = pd.concat([self.rows, pd.DataFrame(more, columns=list(self.rows.columns))])
        return self.read(rows, abstentions=["?"], items=[*self.mute], gold=self.gold)

    def renamed_items(self) -> dict[str, str]:
        """New names of the first parts."""
        parts = {name: name.split(SEPARATOR) for name in self.rows["item"]}
        first = reversed_names(one for one, _ in parts.values())
        return {name: SEPARATOR.join([first[one], other]) for name, (one, other) in parts.items()}

    def design(self, items: Iterable[str], annotators: Iterable[str], **options: Any) -> Annotations:
        """The same, with one second part for items that name none."""
        ids = [name if SEPARATOR in name else f"{name}{SEPARATOR}part 0" for name in items]
        return super().design(ids, annotators, **options)

    def renamed_classes(self) -> dict[str, str]:
        """New names of classes in their order, which says what they mean."""
        return {name: f"new {name}" for name in self.letters}

    def _in_parts(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Items by number as three parts of each of some; the classes a and b in turn."""
        number = rows["item"].str[5:].astype(int)
        item = [f"item {n // 3}{SEPARATOR}part {n % 3}" for n in number]
        label = [self.letters["abc".index(x) % 2] for x in rows["label"]]
        return rows.assign(item=item, label=label)


def reversed_names(names: Iterable[str]) -> dict[str, str]:
    """New names that sort the other way round."""
    old = sorted(set(names))
    return {name: f"new {len(old) - i:03}" for i, name in enumerate(old)}


def kind_of_labels(model: Model) -> str:
    """The kind of labels that a model takes."""
    card = card_of(model)
    return "nominal" if card is None else card.kind


def _in_turn(columns: Columns, ids: Iterable[str], old: Mapping[Any, Any]) -> pd.DataFrame | None:
    names = sorted(set(ids))
    turn = [_number(name, old) for name in names]
    table = {column: [values[n % len(values)] for n in turn] for column, values in columns.items()}
    return pd.DataFrame(table, index=names) if table else None


def _number(name: str, old: Mapping[Any, Any]) -> int:
    """The number in which an id ends, or did before it was renamed."""
    return int(re.findall(r"\d+", old.get(name, name))[-1])


def fit_quickly(model: Model, data: Annotations, engine: str, **how: Any) -> Posterior:
    """A fit of a few iterations, without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        return fit(model, data, inference=engine, **{**used_by(engine, QUICK), **how})


def require(held: bool, message: str) -> None:
    """Raises ``AssertionError`` with the message, unless ``held``."""
    if not held:
        raise AssertionError(message)
