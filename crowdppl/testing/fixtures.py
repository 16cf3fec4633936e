"""Small data sets for the checks, and quick fits."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, cast

import numpy as np
import pandas as pd

from crowdppl.data.annotations import Annotations
from crowdppl.data.blocks import with_covariates, with_edges
from crowdppl.data.kinds import KINDS
from crowdppl.data.kinds.kind import Kind, Small
from crowdppl.data.kinds.numbers import Numbers
from crowdppl.data.kinds.parts import SEPARATOR, in_one_column
from crowdppl.data.kinds.rankings import RANKINGS
from crowdppl.errors import CrowdpplWarning
from crowdppl.fitting import fit
from crowdppl.inference.engines import ENGINES, engine_support, used_by
from crowdppl.inference.fit import fit_one
from crowdppl.inference.options import FitOptions
from crowdppl.posterior import Posterior
from crowdppl.primitives.model import (
    COVARIATES,
    Examples,
    Model,
    card_of,
    kind_of_labels,
    require_examples,
    set_up,
    with_missing,
)
from crowdppl.registry import name_of

QUICK: FitOptions = {"max_iterations": 10, "chains": 2, "draws": 2, "warmup": 1}
"""Options of very short fits, which need not converge."""

Names = Mapping[str, Mapping[Any, Any]]
Renamed = Callable[[Model, Names], Model]


@dataclass(frozen=True)
class Trial:
    """A model and the data sets on which it is checked.

    Attributes:
        model: the method with its settings.
        renamed, item_covariates, annotator_covariates, label_covariates: see ``crowdppl.testing.About``.
    """

    model: Model
    renamed: Renamed | None = None
    item_covariates: Examples = field(default_factory=dict)
    annotator_covariates: Examples = field(default_factory=dict)
    label_covariates: Examples = field(default_factory=dict)
    _fits: dict[str, Posterior] = field(default_factory=dict, repr=False)
    _odd_fits: dict[str, Posterior] = field(default_factory=dict, repr=False)
    _cells: dict[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for part in COVARIATES:
            require_examples(part, getattr(self, part))

    @staticmethod
    def of(model: Model, **about: Any) -> Trial:
        """The trial of a model, with data of the kind that its card names and the columns of its examples."""
        card = card_of(model)
        about = {**({} if card is None else card.examples), **about}
        if on_a_scale(model):
            return ScaleTrial(model, **about)
        kind = KINDS[kind_of_labels(model)]
        return (RankTrial if kind == RANKINGS else NumberTrial if kind.numeric else Trial)(model, **about)

    @property
    def kind(self) -> Kind:
        """The kind of labels of the model."""
        return KINDS[kind_of_labels(self.model)]

    @property
    def of_numbers(self) -> bool:
        """Whether truths are numbers."""
        return self.kind.numeric or on_a_scale(self.model)

    @property
    def of_ranks(self) -> bool:
        """Whether labels are ranks of objects."""
        return isinstance(self, RankTrial)

    @property
    def small(self) -> Small:
        """How its data are made."""
        return self.kind.small

    @property
    def letters(self) -> Sequence[str]:
        """The classes."""
        return self.small.letters

    @property
    def alone(self) -> str:
        """The second part of items that name one."""
        first = self.small.item(0)
        return first[first.index(SEPARATOR) :] if SEPARATOR in first else ""

    @cached_property
    def rows(self) -> pd.DataFrame:
        """Labels of 12 items by 5 annotators, who are right about three times in four; the last class is rarest."""
        rng = np.random.default_rng(7)
        found = []
        for i in range(12):
            truth = "aabbc"[i % 5]
            for a in rng.permutation(5)[: 2 + i % 4]:
                label = truth if rng.random() < 0.75 else rng.choice(list("abc"))
                found.append((self.small.item(i), f"annotator {a}", self._letter("abc".index(label))))
        return pd.DataFrame(found, columns=["item", "annotator", "label"])

    @property
    def clear(self) -> pd.DataFrame:
        """Labels of 9 items on which all annotators agree: a, b and c in turn, or a, b and a."""
        rows = [(self.small.item(i), f"annotator {a}", self._letter(i % 3)) for i in range(9) for a in range(5)]
        return pd.DataFrame(rows, columns=["item", "annotator", "label"]).sample(frac=1, random_state=2)

    @cached_property
    def data(self) -> Annotations:
        """Annotations without anything special."""
        return self.read(self.rows)

    @property
    def mute(self) -> list[str]:
        """Items of ``odd`` without labels."""
        return [f"mute 1{self.alone}", f"mute 2{self.alone}"]

    @property
    def gold(self) -> dict[str, str]:
        """Known truths of ``odd``."""
        return {self.small.item(3): self.letters[-1], self.mute[0]: self.letters[0]}

    @cached_property
    def odd(self) -> Annotations:
        """Everything at once: a class nobody gave, abstentions, a repeat, items without labels, and gold."""
        one, two = map(self.small.item, (0, 1))
        more = [(one, "annotator 1", "?"), (two, "annotator 2", "?"), (one, "annotator 1", self.letters[1])]
        rows = pd.concat([self.rows, pd.DataFrame(more, columns=list(self.rows.columns))])
        known: Any = {"abstentions": ["?"], "items": self.mute, "gold": self.gold}
        classes = [*self.letters, *([self.small.unused] if self.small.unused else [])]
        return self.read(rows, classes=classes, **known)

    def complete(self, data: Annotations) -> Annotations:
        """Annotations with what the model derives from labels; of a design, as if all were the first class."""
        if not hasattr(self.model, "derived_covariates"):
            return data
        if not data.blocks[0].has_labels:
            data = data.answered([block.annotator * block.n_answers for block in data.blocks])
        return with_missing(set_up(self.model, data), data)

    def unlinked(self, data: Annotations) -> Annotations:
        """Annotations for Pyro, which sums items out one by one: each alone in a sequence, or without an edge."""
        data = self.complete(data)
        if data.edges is not None:
            none = data.edges[:0]
            return replace(data, edges=none, blocks=with_edges(data.blocks, data.order, none))
        if self.kind.parts is None or not self.kind.parts.ordered:
            return data
        assert data.item_covariates is not None
        alone = data.item_covariates.assign(sequence=np.arange(data.n_items))
        blocks = with_covariates(data.blocks, data.order, alone, None, data.label_columns)
        return replace(data, item_covariates=alone, blocks=blocks)

    def renamed_items(self) -> dict[str, str]:
        """New names of the items or of what they are parts of, which sort the other way round."""
        parts = {name: name.split(SEPARATOR) for name in self.rows["item"]}
        new = reversed_names(part for both in parts.values() for part in both if part.startswith("item"))
        return {name: SEPARATOR.join(new.get(part, part) for part in both) for name, both in parts.items()}

    def renamed_classes(self) -> dict[str, str]:
        """New names of classes that sort the other way round; the same where a name has a meaning."""
        names = self.rows["label"]
        return dict(zip(names, names, strict=True)) if len(self.letters) == 2 else reversed_names(names)

    @property
    def answers(self) -> dict[str, Any]:
        """The options of ``read`` that say what can be answered."""
        return {"classes": list(self.letters)}

    def truths(self, posterior: Posterior) -> pd.DataFrame:
        """What a fit says of each item's truth, by its id."""
        found = posterior.probabilities()
        return found.set_axis(in_one_column(found.index))

    def read(self, rows: pd.DataFrame, old: Names | None = None, **options: Any) -> Annotations:
        """Annotations of a table, without warnings; ``old`` maps renamed ids to their old ones, by role."""
        with warnings.catch_warnings(action="ignore", category=CrowdpplWarning):
            known = self.covariates([*rows["item"], *options.get("items", ())], rows["annotator"], old)
            options = {**self.answers, "kind": self.kind.name, **known, **options}
            options = {"label_covariates": list(self.label_covariates), **self.edges(rows["item"], old), **options}
            return Annotations.from_frame(self.with_numbers(rows, old), "item", **options)

    def covariates(
        self, items: Iterable[str], annotators: Iterable[str], old: Names | None = None
    ) -> dict[str, Any]:
        """Covariates for annotations of these ids, which end in a number, or did before they were renamed."""
        before = old or {}
        of_items = _in_turn(self.item_covariates, items, before.get("item", {}))
        of_annotators = _in_turn(self.annotator_covariates, annotators, before.get("annotator", {}))
        return {"item_covariates": of_items, "annotator_covariates": of_annotators}

    def edges(self, items: Iterable[str], old: Names | None = None) -> dict[str, Any]:
        """Edges for annotations of these items, where the model reads them: from each to the next, by number."""
        card = card_of(self.model)
        path = sorted({*items}, key=lambda x: _number(x, (old or {}).get("item", {})))
        wanted = card is not None and "edges" in card.uses
        return {"edges": [*pairwise(path)]} if wanted else {}

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
        named = [x if SEPARATOR in x else f"{x}{self.alone}" for x in items]
        rows = self.with_numbers(pd.DataFrame({"item": named, "annotator": list(annotators)}))
        known = self.covariates(rows["item"], rows["annotator"])
        known["label_covariates"] = rows[list(self.label_covariates)]
        known |= self.edges(rows["item"])
        return Annotations.design(rows["item"], rows["annotator"], like=self.data, **known, **options)

    def _letter(self, number: int) -> str:
        """The class of a number below three."""
        return self.letters[number % len(self.letters)]

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
            with warnings.catch_warnings(action="ignore", category=CrowdpplWarning):
                self._fits[engine] = fit(self.model, self.data, inference=engine, **used_by(engine, QUICK))
        return self._fits[engine]

    def fit_odd(self, engine: str) -> Posterior:
        """A quick fit of ``odd``, made once."""
        if engine not in self._odd_fits:
            self._odd_fits[engine] = self.other_fit(engine, self.odd)
        return self._odd_fits[engine]

    def other_fit(self, engine: str, data: Annotations, model: Model | None = None, **how: Any) -> Posterior:
        """A quick fit without the spread of vb's tables, which takes most of its time."""
        model = model or self.model
        options = cast("FitOptions", {**used_by(engine, QUICK), **how})
        with warnings.catch_warnings(action="ignore", category=CrowdpplWarning):
            return Posterior.of(fit_one(model, data, engine, options, name=name_of(model)))


class NumberTrial(Trial):
    """A trial on labels that are numbers."""

    @cached_property
    def rows(self) -> pd.DataFrame:
        """Labels of 12 items by 5 annotators with biases and spreads of their own, or those near them."""
        rng = np.random.default_rng(7)
        truth, bias = rng.normal(5, 2, 12).round(3), np.array([0.0, 0.5, -0.5, 0.2, -1.0])
        found = []
        for i in range(12):
            for a in rng.permutation(5)[: 2 + i % 4]:
                label = truth[i] + bias[a] + (0.3 + 0.2 * a) * rng.normal()
                found.append((f"item {i:02}", f"annotator {a}", float(label.round(3))))
        return self.near(pd.DataFrame(found, columns=["item", "annotator", "label"]))

    def near(self, rows: pd.DataFrame) -> pd.DataFrame:
        """A table of numbers, each with the label nearest to it."""
        kind = self.kind
        assert isinstance(kind, Numbers)
        return rows.assign(label=kind.labels.nearest(rows["label"].to_numpy()))

    @property
    def clear(self) -> pd.DataFrame:
        """Labels of 9 items on which all annotators agree but for a hundredth: 0, 10 and 20 in turn."""
        agreed = super().clear
        noise = np.random.default_rng(3).normal(size=len(agreed)) / 100
        return self.near(agreed.assign(label=10.0 * agreed["label"].map("abc".index) + noise))

    @cached_property
    def odd(self) -> Annotations:
        """A repeat, and items without labels."""
        more = self.near(pd.DataFrame([("item 00", "annotator 1", 4.5)], columns=list(self.rows.columns)))
        return self.read(pd.concat([self.rows, more, more]), items=self.mute)

    @property
    def answers(self) -> dict[str, Any]:
        """Nothing is to be said: answers are numbers."""
        return {}

    def truths(self, posterior: Posterior) -> pd.DataFrame:
        """Mean and standard deviation of each item's truth."""
        return posterior.truth()[["estimate", "sd"]]


class RankTrial(NumberTrial):
    """A trial on ranks that annotators give to objects."""

    @property
    def clear(self) -> pd.DataFrame:
        """Ranks of 9 items on which all annotators agree, from 1 to 9."""
        agreed = super().clear
        return agreed.assign(label=1 + agreed["item"].str[-2:].astype(float))

    @cached_property
    def odd(self) -> Annotations:
        """A tie, and items without labels."""
        own = self.rows["label"][self.rows["annotator"] == "annotator 2"].sort_values()
        ranks = self.rows["label"].replace(own.iloc[1], own.iloc[2])
        return self.read(self.rows.assign(label=ranks), items=self.mute)


class ScaleTrial(Trial):
    """A trial on grades, whose truths are numbers."""

    @cached_property
    def odd(self) -> Annotations:
        """A grade nobody gave, a repeat, and items without labels."""
        return self.read(pd.concat([self.rows, self.rows[:1]]), classes=list("abcd"), items=self.mute)

    def truths(self, posterior: Posterior) -> pd.DataFrame:
        """Mean and standard deviation of each item's place."""
        return posterior.truth()[["estimate", "sd"]]


def reversed_names(names: Iterable[str]) -> dict[str, str]:
    """New names that sort the other way round."""
    old = sorted(set(names))
    return {name: f"new {len(old) - i:03}" for i, name in enumerate(old)}


def on_a_scale(model: Model) -> bool:
    """Whether truths are numbers although labels are classes."""
    card = card_of(model)
    return card is not None and card.scale


def _in_turn(columns: Examples, ids: Iterable[str], old: Mapping[Any, Any]) -> pd.DataFrame | None:
    names = sorted(set(ids))
    turn = [_number(name, old) for name in names]
    table = {column: [values[n % len(values)] for n in turn] for column, values in columns.items()}
    return pd.DataFrame(table, index=names) if table else None


def _number(name: str, old: Mapping[Any, Any]) -> int:
    """The number in which an id ends, or did before it was renamed."""
    return int(re.findall(r"\d+", old.get(name, name))[-1])


def require(held: bool, message: str) -> None:
    """Raises ``AssertionError`` with the message, unless ``held``."""
    if not held:
        raise AssertionError(message)
