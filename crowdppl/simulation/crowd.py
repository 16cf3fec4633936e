"""Simulated crowds: annotators of many kinds label items of known truth, or a model draws labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from pyro import poutine

from crowdppl import registry
from crowdppl.core.devices import seeded
from crowdppl.core.validation import is_whole, number_within, seed_number, shown, whole_number
from crowdppl.data.annotations import Annotations, require_annotations
from crowdppl.data.blocks import Block
from crowdppl.data.covariates import feature_table
from crowdppl.data.features import placed_features
from crowdppl.data.ids import Codebook, as_index, listed, native, sorting
from crowdppl.data.options import AnnotationOptions
from crowdppl.errors import DataError, MethodError
from crowdppl.inference.density import TraceSite, TraceSites, trace_sites
from crowdppl.inference.problem import model_runs
from crowdppl.networks.outputs import cached_outputs, networks_of
from crowdppl.primitives.labels import Labels, NumberLabels
from crowdppl.primitives.model import Model, draw_in_order, set_up, truth_of, with_derived
from crowdppl.simulation.annotators import Context, Draw, Opinion, as_kinds, opinion_of, settings_text, streams

CHUNK = 10_000_000
"""Numbers that drawing a design may hold at once."""


@dataclass(frozen=True)
class Member:
    """An annotator of a simulated crowd: its kind, id, confusion (K, K)."""

    kind: Any
    annotator: str
    confusion: np.ndarray


Opinions = Iterable[tuple[Any, str, Opinion]]
"""Kind, id and opinion of each annotator, made one at a time, because opinions of a large crowd fill memory."""
Drawn = tuple[list[Member], np.ndarray, np.ndarray, np.ndarray]
"""The annotators; and of each label the item's position, the annotator's position and the class code, (S,)."""
Density = float | Mapping[str, float]


@dataclass(frozen=True, eq=False, repr=False)
class SimulatedCrowd:
    """Annotations of simulated annotators, and the truth about them.

    Attributes:
        data: the annotations, annotators in the order of their kinds.
        truth: series by item id, of all items.
        confusion: how each annotator labels, [annotator, truth, label], (A, K, K) in the order of ``data``.
        annotators: DataFrame by annotator id: kind; settings; group, missing for those in none; accuracy, the
            probability of a right label.
        test: ids of the items without labels.
    """

    data: Annotations
    truth: pd.Series[Any]
    confusion: np.ndarray
    annotators: pd.DataFrame
    test: pd.Index[Any]

    def __repr__(self) -> str:
        kinds = ", ".join(f"{n} {name}" for name, n in self.annotators.kind.value_counts(sort=False).items())
        return f"SimulatedCrowd({self.data!r} by {kinds}; {len(self.test)} test items)"


def simulate_annotators(
    truth: Any,
    kinds: Sequence[Any] | Mapping[Any, int],
    *,
    labels_per_item: int | None = None,
    density: Density | None = None,
    features: Any = None,
    classes: Iterable[Any] | None = None,
    test: Iterable[Any] = (),
    seed: int = 0,
    **options: Any,
) -> SimulatedCrowd:
    """Lets annotators of named kinds label items whose truth is known.

    ``simulate_annotators(truth, {"hammer": 4, "spammer": 1})`` has five annotators label every item,
    unless one of ``labels_per_item`` and ``density`` is given.

    An annotator is named after the kind ("spammer-2"), a member of a group after the group ("colluders-1.3").
    Labels depend on the items, the seed, and the annotator's name and kind alone: further annotators at the end, or
    fewer labels, change nobody's labels.

    Args:
        truth: class of each item: series or mapping by item id, or an array or list of the items 0, 1, ...
        kinds: a name, ``annotator_kind(name, ...)`` or an object of your own for each annotator; or how many there
            are of each. ``annotator_kind_table()`` lists the names.
        labels_per_item: how many annotators, drawn at random, label each item.
        density: probability that an annotator labels an item, for each pair; one number, or one by the name of the
            kind, 1 for kinds left out.
        features: as for annotations, which carry them; machines and similar-class confusers use them.
        classes: all classes in their order; by default those of the truth, sorted.
        test: ids of items without labels, kept to score classifiers.
        seed: of everything.
        options: further ones of ``crowdppl.Annotations.from_arrays``.

    Raises:
        DataError: when truth, features, classes or the design cannot be used as they are.
        MethodError: for an unknown kind or setting.

    Examples:
        >>> crowd = crowdppl.simulate_annotators(["cat", "dog"] * 50, {"expert": 1, "spammer": 1}, seed=0)
        >>> crowd.annotators[["kind", "accuracy"]]
                      kind  accuracy
        annotator
        expert-1    expert      0.95
        spammer-1  spammer      0.50
    """
    fixed = {"items", "annotators"} & set(options)
    if fixed:
        raise DataError(f"{min(fixed)}= is not an option here: items come from truth, annotators from kinds")
    if labels_per_item is not None and density is not None:
        raise DataError(f"labels_per_item={labels_per_item} and density={density} exclude each other; give one")
    people, truth = as_kinds(kinds), _series(truth)
    context, draw = _context(truth, classes, features, test), streams(seed)
    opinions = _opinions(people, context, draw)
    if labels_per_item is None:
        members, item, who, label = _assign_by_chance(opinions, context, draw, _densities(people, density))
    else:
        members, item, who, label = _assign_by_number(opinions, context, draw, labels_per_item)
    ids: pd.Index[Any] = pd.Index([member.annotator for member in members])
    known: AnnotationOptions = {
        "items": truth.index,
        "annotators": Codebook("annotator", ids),
        "classes": context.classes,
    }
    data = Annotations.from_arrays(
        truth.index.take(item),
        ids.take(who),
        context.classes.take(label),
        **{**known, "features": features, **options},
    )
    confusion, test_items = np.stack([member.confusion for member in members]), truth.index[~context.labelled]
    return SimulatedCrowd(data, truth.loc[data.items], confusion, _table(members, context), test_items)


def _series(truth: Any) -> pd.Series[Any]:
    """Truth by item id, from a mapping, a series or an array."""
    if isinstance(truth, Mapping):
        series = pd.Series(list(truth.values()), index=as_index(truth))
    elif isinstance(truth, pd.Series):
        series = truth.copy()
    else:
        values = truth.detach().cpu().numpy() if hasattr(truth, "detach") else truth
        try:
            flat = not isinstance(values, str) and np.ndim(values) == 1
        except ValueError:  # lists of different length
            flat = False
        if not flat:
            raise DataError(f"truth is a {type(truth).__name__}, not one column; give one class an item")
        series = pd.Series(values)
    if not len(series):
        raise DataError("truth is empty; give the class of each item")
    Codebook("item", series.index.unique()).require_once(series.index, "truth", "")
    if series.isna().any():
        raise DataError(f"the truth of item {native(series.index[series.isna()][0])!r} is missing; give it")
    return series.rename("truth").rename_axis("item")


def _context(truth: pd.Series[Any], classes: Iterable[Any] | None, features: Any, test: Iterable[Any]) -> Context:
    """Items, classes and features as annotators see them."""
    if classes is None:
        found = as_index(truth.drop_duplicates())
        names = found[sorting(found, "class")]
    else:
        names = as_index(listed(classes, "classes"))
    if len(names) < 2:
        raise DataError(f"truth has only the classes {list(names)!r}; give two or more in classes=")
    code = Codebook("class", names).require(truth, "truth", "correct it, or list all classes in classes=")
    items, kept = Codebook("item", truth.index), as_index(test)
    labelled = np.ones(len(truth), bool)
    if len(kept):
        labelled[items.require(kept, "test=", "keep items of truth only")] = False
    if not labelled.any():
        raise DataError(f"test= has all {len(truth)} items; leave some for annotators to label")
    table = feature_table(features, truth.index, items)
    numbers = None if table is None else np.asarray(table, np.float64).reshape(len(truth), -1)
    return Context(code, names, truth.index, labelled, numbers)


def _opinions(kinds: Sequence[Any], context: Context, draw: Draw) -> Iterator[tuple[Any, str, Opinion]]:
    """Kind, id and opinion of each annotator."""
    seen: Counter[str] = Counter()
    for kind in kinds:
        seen[kind.name] += 1
        name = f"{kind.name}-{seen[kind.name]}"
        if hasattr(kind, "opinions"):
            for member, opinion in kind.opinions(context, name, draw):
                yield kind, member, opinion
        else:
            yield kind, name, opinion_of(kind, context, name, draw)


def _assign_by_chance(opinions: Opinions, context: Context, draw: Draw, density: Mapping[str, float]) -> Drawn:
    """Each annotator labels each item with a probability, by the name of the kind."""
    members, items, labels = [], [], []
    for kind, annotator, opinion in opinions:
        chosen = context.labelled if opinion.able is None else context.labelled & opinion.able
        if density[kind.name] < 1:
            chosen = chosen & (draw(annotator, "items").random(context.n_items) < density[kind.name])
        members.append(Member(kind, annotator, opinion.confusion))
        items.append(np.flatnonzero(chosen))
        labels.append(opinion.labels[items[-1]])
    if not sum(map(len, items)):
        raise DataError("no item has any label; raise the density, or give more items")
    who = np.repeat(np.arange(len(members)), [len(rows) for rows in items])
    return members, np.concatenate(items), who, np.concatenate(labels)


def _assign_by_number(opinions: Opinions, context: Context, draw: Draw, labels_per_item: int) -> Drawn:
    """So many able annotators an item, those of the smallest random numbers: another one replaces at most one."""
    labels_per_item = whole_number("labels_per_item", labels_per_item, 1, "for a share use density=", DataError)
    rows = np.flatnonzero(context.labelled)
    at = np.arange(len(rows))
    members: list[Member] = []
    drawn = np.full((len(rows), labels_per_item), np.inf)
    who, label = np.full(drawn.shape, -1), np.full(drawn.shape, -1)
    for kind, annotator, opinion in opinions:
        key = draw(annotator, "items").random(context.n_items)
        if opinion.able is not None:
            key[~opinion.able] = np.inf
        worst = drawn.argmax(1)
        better = np.flatnonzero(key[rows] < drawn[at, worst])
        place = (better, worst[better])
        drawn[place], who[place] = key[rows[better]], len(members)
        label[place] = opinion.labels[rows[better]]
        members.append(Member(kind, annotator, opinion.confusion))
    short = rows[(who < 0).any(1)]
    if len(short):
        raise DataError(
            f"labels_per_item={labels_per_item}, but {len(short)} items have fewer annotators who may label them, "
            f"such as {native(context.items[short[0]])!r}; ask for fewer labels, or add annotators"
        )
    return members, np.repeat(rows, labels_per_item), who.reshape(-1), label.reshape(-1)


def _densities(kinds: Sequence[Any], density: Density | None) -> dict[str, float]:
    """Probability that an annotator labels an item, by the name of the kind."""
    names = dict.fromkeys((kind.name for kind in kinds), 1.0)
    given = density if isinstance(density, Mapping) else dict.fromkeys(names, 1.0 if density is None else density)
    for name, share in given.items():
        if name not in names:
            raise DataError(
                f"density names the kind {shown(name)}, which is not in this crowd: {', '.join(sorted(names))}"
            )
        number_within("density", share, "a number above 0, and 1 at most", lambda x: 0 < x <= 1, error=DataError)
    return names | {name: float(share) for name, share in given.items()}


def _table(members: Sequence[Member], context: Context) -> pd.DataFrame:
    """Annotators by id: kind, settings, group, accuracy."""
    share = np.bincount(context.truth[context.labelled], minlength=context.n_classes)
    accuracy = []
    for member in members:
        right = member.confusion.diagonal()
        there = ~np.isnan(right) & (share > 0)
        accuracy.append(float(np.average(right[there], weights=share[there])))
    table = {
        "kind": [member.kind.name for member in members],
        "settings": [settings_text(member.kind) for member in members],
        "group": [member.annotator.rpartition(".")[0] or None for member in members],
        "accuracy": accuracy,
    }
    return pd.DataFrame(table, index=pd.Index([member.annotator for member in members], name="annotator"))


@dataclass(frozen=True)
class Simulation:
    """One data set drawn from a model.

    Attributes:
        data: the design with the drawn labels.
        truth: the drawn truth, series by item id. Known truths of the design are kept.
        parameters: the drawn value of every other latent site; those of items are in the order of ``data.items``.
    """

    data: Annotations
    truth: pd.Series[Any]
    parameters: dict[str, np.ndarray]


def simulate(model: str | Model, design: Annotations, seed: int = 0) -> Simulation:
    """Draws parameters, truths and labels from a model.

    Networks are applied, as they are, to the design's features; ``posterior.model`` has trained ones.

    Args:
        model: a method by name, or with settings of yours: ``crowdppl.method(name, ...)``.
        design: who labels what; existing labels are ignored.
        seed: of the draws.

    Raises:
        MethodError: for an unknown name, a class, a model without a site for the truth or for labels, one whose
            labels depend on each other in a circle, or a wrong seed.
        DataError: when the design is not annotations.

    Examples:
        >>> design = crowdppl.random_design(200, 10, 3, classes=["no", "yes"], seed=0)
        >>> found = crowdppl.simulate("one_coin", design, seed=0)
        >>> found.data
        Annotations(200 items, 10 annotators, 2 classes, 600 labels)
        >>> found.truth.value_counts().to_dict()
        {'no': 108, 'yes': 92}
    """
    model = registry.resolve(model)
    design, seed = require_annotations(design, "design"), seed_number(seed)
    with seeded(seed):  # which may draw the first weights of a network
        ready = set_up(model, design)
    labels, sites = _draw(ready, design, seed)
    drawn = sites.pop(_truth_of(ready, sites))
    numbers = drawn.dtype.kind == "f"
    truth = drawn if numbers else design.classes.take(drawn.astype(np.int64))
    data = with_derived(ready, design.answered(labels))
    return Simulation(data, pd.Series(truth, index=design.items, name="truth"), sites)


def random_design(
    n_items: int,
    n_annotators: int,
    labels_per_item: int,
    classes: int | Iterable[Any],
    seed: int = 0,
    **options: Any,
) -> Annotations:
    """A design in which each item is given to some annotators at random.

    Args:
        n_items, n_annotators: sizes; ids are whole numbers from 0.
        labels_per_item: how many different annotators label an item.
        classes: their number, or their names.
        seed: of the choice.
        options: further ones of ``crowdppl.Annotations.design``, such as ``abstentions``.

    Raises:
        DataError: when ``labels_per_item`` exceeds ``n_annotators``, or there are fewer than two classes.
        MethodError: for a size that is not a whole number from 1, or a wrong seed.

    Examples:
        >>> crowdppl.random_design(200, 10, 3, classes=["no", "yes"], seed=0)
        Annotations(200 items, 10 annotators, 2 classes, 600 labels to be drawn)
    """
    n_items, n_annotators = whole_number("n_items", n_items, 1), whole_number("n_annotators", n_annotators, 1)
    labels_per_item, seed = whole_number("labels_per_item", labels_per_item, 1), seed_number(seed)
    if labels_per_item > n_annotators:
        raise DataError(f"labels_per_item={labels_per_item} must be at most n_annotators={n_annotators}")
    rng = np.random.default_rng(seed)
    chosen = []
    step = max(1, CHUNK // n_annotators)
    for start in range(0, n_items, step):
        key = rng.random((min(step, n_items - start), n_annotators))
        chosen.append(np.argpartition(key, labels_per_item - 1, axis=1)[:, :labels_per_item])
    names: Any = range(classes) if is_whole(classes) else classes
    item = np.repeat(np.arange(n_items), labels_per_item)
    known: AnnotationOptions = {"items": range(n_items), "annotators": range(n_annotators), "classes": names}
    return Annotations.design(item, np.concatenate(chosen).reshape(-1), **{**known, **options})


def _draw(model: Model, design: Annotations, seed: int) -> tuple[list[torch.Tensor], dict[str, np.ndarray]]:
    """The labels of each block, and every latent."""
    sites: dict[str, np.ndarray] = {}

    def draw(blocks: list[Block]) -> list[torch.Tensor]:
        labels, found = _draw_blocks(model, blocks, np.argsort(design.order))
        sites.update(found)
        return labels

    with model_runs(model, design), seeded(seed):
        labels = draw_in_order(model, design, _with_outputs(model, design), draw)
    return labels, sites


def _draw_blocks(
    model: Model, blocks: list[Block], place: np.ndarray
) -> tuple[list[torch.Tensor], dict[str, np.ndarray]]:
    """Labels and latents; shared latents are drawn with the first block, and items have their ``place`` (N,)."""
    shared: dict[str, torch.Tensor] = {}
    labels: list[torch.Tensor] = []
    pieces: dict[str, list[np.ndarray]] = {}
    axes: dict[str, int] = {}
    for block in blocks:
        conditioned = poutine.condition(model.model, data=shared)
        drawn, latents = _run(conditioned, replace(block, has_labels=False), shared)
        labels.append(drawn.value)
        if isinstance(fn := drawn.fn, NumberLabels) and fn.drawn is not None:
            axes[fn.truth] = -1
            pieces.setdefault(fn.truth, []).append(fn.drawn.numpy())
        for name, site in latents.items():
            of_items = (int(plate.dim) for plate in site.plates if plate.name == "items")
            axis = next((dim - len(site.fn.event_shape) for dim in of_items), None)  # from the right
            if axis is None:
                shared[name] = site.value
            else:
                axes[name] = axis
                pieces.setdefault(name, []).append(site.value.detach().numpy())
    sites = {name: value.detach().numpy() for name, value in shared.items()}
    for name, parts in pieces.items():
        sites[name] = np.take(np.concatenate(parts, axis=axes[name]), place, axis=axes[name])
    return labels, sites


def _with_outputs(model: Model, design: Annotations) -> list[Block]:
    """The design's blocks, with the networks' outputs where there are features."""
    blocks = design.on("cpu", torch.float64)
    features = placed_features(design) if networks_of(model) else None
    if features is None:
        return blocks
    spans = (slice(block.offset, block.offset + block.n_items) for block in blocks)
    return cached_outputs(
        model, [replace(block, features=features[at]) for block, at in zip(blocks, spans, strict=True)]
    )


def _run(model: Any, block: Block, known: Collection[str]) -> tuple[TraceSite, TraceSites]:
    """The site of the labels, and every latent one; for Pyro, a latent that is known already is observed."""
    sites = trace_sites(poutine.trace(model).get_trace(block))
    labels = [site for site in sites.values() if isinstance(site.fn, Labels)]
    if not labels:
        raise MethodError("the model draws no labels: call crowdppl.primitives.annotate inside the plate of items")
    latents = {n: x for n, x in sites.items() if not x.observed or n in known}
    return labels[-1], {n: x for n, x in latents.items() if not isinstance(x.fn, Labels)}


def _truth_of(model: Model, sites: dict[str, np.ndarray]) -> str:
    name = truth_of(model)
    if name not in sites:
        sited = ", ".join(sites)
        raise MethodError(
            f"{type(model).__name__} has no site {name!r} for the truth; name it on the card ({sited})"
        )
    return name
