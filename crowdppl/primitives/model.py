"""The protocol of a model, its card, and the covariates that it derives from labels."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from crowdppl.core.devices import default_dtype
from crowdppl.core.validation import is_number, is_whole, kind_of, shown
from crowdppl.data.annotations import Annotations
from crowdppl.data.blocks import OF_ANNOTATORS, Block, rows_by_item, with_covariates
from crowdppl.data.ids import native
from crowdppl.data.kinds import KINDS
from crowdppl.data.kinds.numbers import NUMBER
from crowdppl.data.kinds.space import POSITIVE, RealLine, Space, number_space
from crowdppl.errors import DataError, MethodError

Examples = Mapping[Hashable, Sequence[float]]
"""Numbers of columns, given in turn."""
COVARIATES = ("item_covariates", "annotator_covariates", "label_covariates")


def require_examples(part: str, columns: Any) -> None:
    """Checks examples of the columns of a part of the data; MethodError where they are no numbers of columns."""
    if part not in COVARIATES:
        raise MethodError(f"examples of {part!r} are of no covariates; give those of {', '.join(COVARIATES)}")
    named = isinstance(columns, Mapping) and all(isinstance(x, Sequence) for x in columns.values())
    if not named or not all(len(x) and all(map(is_number, x)) for x in columns.values()):
        raise MethodError(f"{part}={shown(columns)} must map columns to numbers, as {{'words': [10, 200]}}")


@dataclass(frozen=True)
class Card:
    """A method's name, source, assumptions and limits.

    Attributes:
        title: the name in words; in lower case with underscores it is the name in the registry.
        reference: authors, year, title and place of the paper that proposed the method.
        doi: its bare DOI ("10.2307/2346806"), or empty.
        sites: each latent site and its shape, one word per dimension, plates included, as in
            ``{"confusion": "A K K"}``. N items, A annotators, K classes, L answers; any other word is a size
            of the method's own. A site that exists only under some settings may be listed.
        truth: the site that is the truth.
        kind: of the labels that it takes, as ``Annotations.from_frame`` names kinds.
        scale: whether truths are numbers on a scale although labels are classes.
        assumes: the assumptions under which the method is right.
        fails: when it goes wrong, and how.
        cost: work and memory of one pass, in labels and sizes.
        refused: engines that cannot fit this model although its structure would let them try, and why.
        only: the engines for which the model is made, where it is made for some; all others are refused.
        because: why they are.
        table: shape of the table of answers that a pass forms, where it is larger than any site: "A K L".
        clusters: the site with the shares of clusters of items, objects or annotators, for ``posterior.clusters``.
        columns: by site, the names of the numbers along its last dimension, for tables.
        confusion: the site that is p(label | annotator, truth) itself, whose posterior is exact then; empty where
            labels depend on more.
        prevalence: the site that is the share of each class; where a fit without a network lacks it, shares are
            known. Empty where they follow from other sites.
        uses: parts of the data beyond labels and gold that the method reads: "features", "history",
            "item_covariates", "annotator_covariates", "label_covariates", "edges". A fit without those covariates
            or edges is refused.
        named: by setting that names covariates, and reads none by default, the part of the data that holds them.
        examples: by part of the data, numbers of each column that the method reads, given to items, annotators or
            labels in turn: ``{"label_covariates": {"seconds": [3, 40]}}``. ``zoo`` and ``crowdppl.testing`` try the
            method with them.
        discounted: whether annotators are taken to err together, so that an item's labels count for less where
            truths are told, by the setting ``discount`` (0 is not at all).
        sharded: whether ``setup``, ``init`` and ``derived_covariates``, if there are any, find the same on any part
            of the items, so that processes can share a fit.

    Raises:
        MethodError: when title or reference are empty, a site that is named has no shape, the DOI is not bare, or
            examples are no numbers.

    Examples:
        >>> crowdppl.method("mace").card.reference
        'Hovy et al. (2013), Learning whom to trust with MACE, NAACL-HLT'
    """

    title: str
    reference: str
    doi: str = ""
    sites: Mapping[str, str] = field(default_factory=lambda: {"truth": "N"})
    truth: str = "truth"
    kind: str = "nominal"
    scale: bool = False
    assumes: str = ""
    fails: str = ""
    cost: str = ""
    refused: Mapping[str, str] = field(default_factory=dict)
    only: tuple[str, ...] = ()
    because: str = ""
    uses: tuple[str, ...] = ()
    named: Mapping[str, str] = field(default_factory=dict)
    table: str = ""
    clusters: str = ""
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    confusion: str = ""
    prevalence: str = ""
    examples: Mapping[str, Examples] = field(default_factory=dict)
    discounted: bool = False
    sharded: bool = False

    def __post_init__(self) -> None:
        if not self.title.strip() or not self.reference.strip():
            raise MethodError(f"the card {self.title!r} needs a title and a reference")
        for what in ("truth", "confusion", "prevalence"):
            if (site := getattr(self, what)) not in ("", *self.sites) or not self.truth:
                raise MethodError(
                    f"the card {self.title!r} has no shape of its {what} {site!r}; it lists the sites "
                    f"{', '.join(self.sites)}"
                )
        for part, columns in self.examples.items():
            require_examples(part, columns)
        if self.doi and not re.fullmatch(r"10\.\d{4,9}/\S+", self.doi):
            raise MethodError(
                f"the card {self.title!r} has the DOI {shown(self.doi)}; write it as in '10.2307/2346806'"
            )

    def takes(self, kind: str) -> bool:
        """Whether the method takes labels of a kind: of its own, or any classes where its truths are classes."""
        own, other = KINDS.get(self.kind), KINDS.get(kind)
        if kind == self.kind or own is None or other is None or self.scale:
            return kind == self.kind
        return own.parts is None and not own.numeric and not other.numeric

    def refusal(self, engine: str) -> str | None:
        """Why an engine is refused; None where it is not."""
        if engine in self.refused:
            return self.refused[engine]
        return self.because if self.only and engine not in self.only else None

    @property
    def name(self) -> str:
        """The title as a name: lower case, words joined by underscores ("Dawid-Skene" is "dawid_skene")."""
        return "_".join(re.findall(r"[a-z0-9]+", self.title.lower()))

    @property
    def link(self) -> str:
        """Address of the DOI; empty where there is none."""
        return f"https://doi.org/{self.doi}" if self.doi else ""


@runtime_checkable
class Model(Protocol):
    """A generative model of annotations: anything with ``model(data)``.

    ``model`` is a Pyro program that draws the parameters, the truth of each item and, through
    ``crowdppl.primitives.annotate``, the labels. It takes every size from ``data`` and keeps nothing between calls.
    Settings are constructor arguments, kept as attributes of the same names (a dataclass does that).

    Optional are ``card`` (a ``Card``), ``plates`` (the depth of nested plates, 1 by default), ``scale``, which is
    "log" where labels and truths are numbers above 0 whose logarithms it models, the methods of
    ``HasGuide``, ``HasInit``, ``HasSetup`` and ``HasDerivedCovariates``, ``counting``: where a network learns
    under em or vb, another program of the same sites, whose expected counts update the parameters
    (model-bootstrapped EM), ``discount``: where the card says ``discounted`` and it is above 0, truths are told by
    a pass in which blocks have ``tells`` set, so that the model may let labels count for less than in the fit,
    ``cut``, True where known truths teach some sites nothing on purpose (``detach`` in the program, a cut of
    Plummer 2015), and ``doubts(fit)``, which returns a list of ``crowdppl.Doubt`` about a fit; a fit warns of
    them, and of an error that it raises.

    Examples:
        >>> import pyro
        >>> import pyro.distributions as dist
        >>> class Mine:
        ...     def model(self, data):
        ...         log_p = crowdppl.primitives.prevalence(data)
        ...         with crowdppl.primitives.plates.annotators(data):
        ...             rows = dist.Dirichlet(crowdppl.primitives.confusion_prior(data)).to_event(1)
        ...             confusion = pyro.sample("confusion", rows)
        ...         with crowdppl.primitives.plates.items(data):
        ...             crowdppl.primitives.annotate(data, confusion.log(), crowdppl.primitives.truth(data, log_p))
        >>> isinstance(Mine(), crowdppl.primitives.Model)
        True
        >>> posterior = crowdppl.fit(Mine(), crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.labels()["label"].value_counts().to_dict()
        {2: 21, 1: 18, 3: 5, 4: 1}
    """

    def model(self, data: Any) -> Any:
        """Draws all sites.

        Args:
            data: a ``Block`` or ``Annotations``: sizes, labels if observed, gold.
        """
        ...


@runtime_checkable
class HasGuide(Protocol):
    """A model with a variational family of its own; by default the guide is derived from the model."""

    def guide(self, data: Any) -> Any:
        """Samples every latent site that is not summed out."""
        ...


@runtime_checkable
class HasInit(Protocol):
    """A model with starting values of its own; by default engines start from the votes."""

    def init(self, data: Any) -> Mapping[str, Tensor]:
        """Starting values of some latent sites, each of its site's shape."""
        ...


@runtime_checkable
class HasDerivedCovariates(Protocol):
    """A model whose labels depend on other labels, through label covariates: the leader's label, or one's own last.

    Columns that the annotations do not have are computed where they are read; where labels are drawn, from those.
    """

    def derived_covariates(self, labels: Any) -> Any:
        """The columns, a DataFrame of numbers with the index of ``labels``.

        Args:
            labels: DataFrame of item, annotator, label, further columns and item covariates. A row may look at
                labels before it alone, in whatever order, never at its own.
        """
        ...


@runtime_checkable
class HasSetup(Protocol):
    """A model with settings that are computed from the data, such as groups of annotators."""

    def setup(self, data: Any) -> Model:
        """A copy with these settings, which no longer depends on the data.

        Args:
            data: the ``Annotations`` to be fitted.
        """
        ...


def card_of(model: object) -> Card | None:
    """The card of a model or of its class; None where it has none. MethodError when ``card`` is no ``Card``."""
    card = getattr(model, "card", None)
    if card is not None and not isinstance(card, Card):
        raise MethodError(f"the card of {_label(model)} is {shown(card)}; make it a crowdppl.primitives.Card")
    return card


def truth_of(model: object) -> str:
    """The site that is the truth: the one that the card names, else "truth"."""
    card = card_of(model)
    return "truth" if card is None else card.truth


def kind_of_labels(model: object) -> str:
    """The kind of labels that a model takes."""
    card = card_of(model)
    return "nominal" if card is None else card.kind


def truth_space(model: object, space: Space) -> RealLine:
    """Where a model's truths that are numbers lie: above 0 where its ``scale`` is "log", else where a kind says."""
    return POSITIVE if getattr(model, "scale", None) == "log" else number_space(space)


def require_space(model: object, data: Annotations) -> None:
    """Refuses numbers, or known truths, that lie where the model has none, by a DataError."""
    space = truth_space(model, data.space)
    if data.n_classes or space == data.space or data.label_columns is None:
        return
    numbers, known = data.label_columns[NUMBER].to_numpy(), data.gold
    item, annotator, _ = data.label_codes()
    wrong = np.flatnonzero(~space.contains(numbers))
    if len(wrong):
        at, more = wrong[0], len(wrong) - 1
        what = f"the label {numbers[at]:g} of item {native(data.items[item[at]])!r}"
        what += f" by {native(data.annotators[annotator[at]])!r}"
        rest = f", nor are {more} others" if more else ""
    elif known is not None and not space.contains(known.to_numpy(np.float64)).all():
        at = int(np.argmin(space.contains(known.to_numpy(np.float64))))
        what, rest = f"the known truth {known.iloc[at]:g} of item {native(known.index[at])!r}", ""
    else:
        return
    raise DataError(f"{what} is not {space.words}{rest}, which scale='log' asks for; leave scale= out, or the rows")


def set_up(model: Any, data: Any) -> Any:
    """The model with what its ``setup`` found in the data, itself where nothing is new; networks are of float32."""
    require_space(model, data)
    setup = getattr(model, "setup", None)
    if setup is None:
        return model
    with default_dtype(torch.float32):
        ready = setup(data)
    before, after = (getattr(x, "__dict__", {}) for x in (model, ready))
    same = type(ready) is type(model) and before.keys() == after.keys()
    return model if same and before and all(before[name] is x for name, x in after.items()) else ready


def discount_of(model: object) -> float:
    """The setting ``discount`` of a model whose card says ``discounted``; 0 for any other."""
    card = card_of(model)
    return float(getattr(model, "discount", 0.0)) if card is not None and card.discounted else 0.0


def plates_of(model: object) -> int:
    """How deep a model's plates nest, by default 1.

    MethodError when ``plates`` is not a whole number of at least 1.
    """
    depth = getattr(model, "plates", 1)
    if not is_whole(depth) or depth < 1:
        raise MethodError(f"plates of {_label(model)} is {shown(depth)}; it must be a whole number, 1 or more")
    return int(depth)


def settings_of(model: object) -> dict[str, Any]:
    """The settings of a model: its constructor arguments by name.

    MethodError when the model does not keep a constructor argument as an attribute of the same name.
    """
    found = {}
    for name, parameter in inspect.signature(type(model)).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if not hasattr(model, name):
            raise MethodError(
                f"{_label(model)} does not keep its setting {name!r}; set self.{name} in its constructor, or make "
                "it a dataclass"
            )
        found[name] = getattr(model, name)
    return found


def contents(model: object) -> list[Any]:
    """The values in a model's attributes, and in the containers and models among them, one after another."""
    found, left = list[Any](), [model]
    while left:
        x = left.pop()
        if x is model or callable(getattr(x, "model", None)):
            x = x.__getstate__()
        if isinstance(x, Mapping):
            found.append(len(x))
            left += [*x.values(), *x]
        elif isinstance(x, (list, tuple, set, frozenset)):
            found.append(len(x))
            left += x
        else:
            found += [x, x._version] if isinstance(x, Tensor) else [x]
    return found


def same_contents(one: list[Any], other: list[Any]) -> bool:
    """Whether ``contents`` are the same: numbers and text that are equal, and other objects that are the same."""
    plain = (str, int, float, bool)
    pairs = zip(one, other, strict=False)
    same = all(x is y or (type(x) is type(y) and isinstance(x, plain) and x == y) for x, y in pairs)
    return same and len(one) == len(other)


def _label(model: object) -> str:
    return model.__name__ if isinstance(model, type) else type(model).__name__


def draw_in_order(
    model: Model, data: Annotations, blocks: list[Block], draw: Callable[[list[Block]], list[Tensor]]
) -> list[Tensor]:
    """The labels of each block, (S,), as ``draw`` gives them under covariates that the model derives from them.

    With the same random numbers, a label changes only when those change on which it depends. After one round those
    are right that depend on none, after two those that depend on these, and so on. MethodError when labels depend
    on each other in a circle, or the model derives no table of covariates.
    """
    if not hasattr(model, "derived_covariates"):
        return draw(blocks)
    noise, before = torch.get_rng_state(), [torch.zeros(block.n_labels, dtype=torch.int32) for block in blocks]
    for _ in range(data.n_labels + 2):
        torch.set_rng_state(noise)
        drawn = draw(_derived_from(model, data, blocks, before))
        if all(map(torch.equal, drawn, before)):
            return drawn
        before = drawn
    raise MethodError(
        f"labels of {type(model).__name__} depend on each other in a circle; let derived_covariates look at labels "
        "before a label alone"
    )


def with_derived(model: Model, data: Annotations) -> Annotations:
    """Annotations with the label covariates that a model derives from their labels."""
    if not hasattr(model, "derived_covariates"):
        return data
    out = _with_columns(model, data, data.frame())
    return replace(out, blocks=_with_derived(out, data.blocks))


def with_missing(model: Model, data: Annotations) -> Annotations:
    """Annotations with those label covariates that a model derives from their labels, and they do not have."""
    if not hasattr(model, "derived_covariates") or not data.blocks[0].has_labels:
        return data
    out = _with_columns(model, data, data.frame(), keep=True)
    return data if out.label_names == data.label_names else replace(out, blocks=_with_derived(out, data.blocks))


def with_examples(model: object, data: Annotations) -> Annotations:
    """Annotations with the example columns of the model's card, whose numbers are given in turn."""
    card = card_of(model)
    if card is not None and "edges" in card.uses and data.edges is None:
        path = np.arange(data.n_items)
        data = replace(data, edges=np.stack([path[:-1], path[1:]], 1)).filled(
            **{name: getattr(data.blocks[0], name) for name in OF_ANNOTATORS}
        )
    if card is None or not card.examples:
        return data

    def beside(kept: pd.DataFrame | None, part: str, index: Any) -> pd.DataFrame | None:
        if not (given := card.examples.get(part)):
            return kept
        made = pd.DataFrame({name: np.resize(np.asarray(x), len(index)) for name, x in given.items()}, index)
        return made if kept is None else kept.drop(columns=made.columns, errors="ignore").join(made)

    items = beside(data.item_covariates, "item_covariates", data.items)
    annotators = beside(data.annotator_covariates, "annotator_covariates", data.annotators)
    columns = beside(data.columns, "label_covariates", pd.RangeIndex(data.n_labels))
    names = (*dict.fromkeys([*data.label_names, *card.examples.get("label_covariates", ())]),)
    out = replace(data, item_covariates=items, annotator_covariates=annotators, columns=columns, label_names=names)
    return replace(out, blocks=_with_derived(out, data.blocks))


def _derived_from(model: Model, data: Annotations, blocks: list[Block], cells: list[Tensor]) -> list[Block]:
    """The blocks of a design with covariates derived from labels of it."""
    place = rows_by_item(blocks, data.order)[1]
    answers = data.answers[(torch.cat(cells).long() % data.n_answers).numpy()[place]]
    return _with_derived(_with_columns(model, data, data.frame().assign(label=answers)), blocks)


def _with_derived(data: Annotations, blocks: Sequence[Block]) -> list[Block]:
    known = (data.item_covariates, data.annotator_covariates, data.label_columns)
    return with_covariates(blocks, data.order, *known)


def _with_columns(model: Any, data: Annotations, labels: pd.DataFrame, keep: bool = False) -> Annotations:
    """Annotations with derived columns, which their blocks do not have yet; those that they have may be kept."""
    if data.item_covariates is not None:
        more = data.item_covariates.iloc[data.label_codes()[0]].set_axis(labels.index)
        labels = labels.join(more[more.columns.difference(labels.columns, sort=False)])
    found = model.derived_covariates(labels)
    if not isinstance(found, pd.DataFrame) or not found.index.equals(labels.index):
        raise MethodError(
            f"derived_covariates of {type(model).__name__} returns {kind_of(found)}; give a DataFrame of numbers "
            "with a row for each row of the labels"
        )
    found = found.drop(columns=[*data.label_names], errors="ignore") if keep else found
    kept = pd.DataFrame(index=labels.index) if data.columns is None else data.columns
    columns = kept.drop(columns=found.columns, errors="ignore").join(found)
    return replace(data, columns=columns, label_names=(*dict.fromkeys([*data.label_names, *found.columns]),))
