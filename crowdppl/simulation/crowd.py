"""Simulated crowds: annotators, assignments and truths kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.core.validation import number_within, whole_number
from crowdppl.data.annotations import Annotations, Options
from crowdppl.data.covariates import feature_table
from crowdppl.data.ids import Codebook, as_index, listed, plain, sorting
from crowdppl.errors import DataError
from crowdppl.simulation.annotators import Context, Draw, Opinion, as_kinds, opinion_of, spelled, streams

Opinions = Iterable[tuple[int, str, Opinion]]


@dataclass(frozen=True)
class Person:
    """An annotator of a simulated crowd.

    Attributes:
        number: place in the list of kinds.
        annotator: id.
        confusion: (K, K).
    """

    number: int
    annotator: str
    confusion: np.ndarray


@dataclass(frozen=True)
class Assignment:
    """Labels that were given.

    Attributes:
        people: the annotators.
        item, annotator, label: position of the item, place of the annotator among the people, class code: (S,).
    """

    people: list[Person]
    item: np.ndarray
    annotator: np.ndarray
    label: np.ndarray


def assign_by_chance(opinions: Opinions, scene: Context, draw: Draw, shares: Sequence[float]) -> Assignment:
    """Asks each annotator about each item with a probability of its own kind.

    Args:
        opinions: place in the list of kinds, id and opinion of each annotator.
        scene: the items.
        draw: random numbers.
        shares: probability for each place in the list of kinds.

    Raises:
        DataError: when nobody is asked about anything.
    """
    people, items, labels = [], [], []
    for number, annotator, opinion in opinions:
        asked = scene.asked if opinion.able is None else scene.asked & opinion.able
        if shares[number] < 1:
            asked = asked & (draw(annotator, "items").random(scene.n_items) < shares[number])
        people.append(Person(number, annotator, opinion.confusion))
        items.append(np.flatnonzero(asked))
        labels.append(opinion.labels[items[-1]])
    if not sum(map(len, items)):
        raise DataError("nobody was asked about any item; raise the density, or give more items")
    who = np.repeat(np.arange(len(people)), [len(rows) for rows in items])
    return Assignment(people, np.concatenate(items), who, np.concatenate(labels))


def assign_by_number(opinions: Opinions, scene: Context, draw: Draw, labels_per_item: int) -> Assignment:
    """Asks so many annotators about each item, drawn evenly from those who may be asked.

    Everyone draws a number for each item, and the smallest ones are asked: a newcomer then takes the place of at
    most one annotator an item, and moves nobody else.

    Args:
        opinions: place in the list of kinds, id and opinion of each annotator.
        scene: the items.
        draw: random numbers.
        labels_per_item: how many are asked.

    Raises:
        DataError: when the number is none, or an item has fewer annotators who may label it.
    """
    labels_per_item = whole_number("labels_per_item", labels_per_item, 1, "for a share use density=", DataError)
    rows = np.flatnonzero(scene.asked)
    at = np.arange(len(rows))
    people: list[Person] = []
    drawn = np.full((len(rows), labels_per_item), np.inf)
    who, label = np.full(drawn.shape, -1), np.full(drawn.shape, -1)
    for number, annotator, opinion in opinions:
        key = draw(annotator, "items").random(scene.n_items)
        if opinion.able is not None:
            key[~opinion.able] = np.inf
        worst = drawn.argmax(1)
        better = np.flatnonzero(key[rows] < drawn[at, worst])
        place = (better, worst[better])
        drawn[place], who[place] = key[rows[better]], len(people)
        label[place] = opinion.labels[rows[better]]
        people.append(Person(number, annotator, opinion.confusion))
    short = np.flatnonzero((who < 0).any(1))
    if len(short):
        found = int((who[short[0]] >= 0).sum())
        raise DataError(
            f"labels_per_item={labels_per_item}, and {len(short)} of {len(rows)} items have fewer annotators who "
            f"may label them, such as {plain(scene.items[rows[short[0]]])!r} with {found}; ask for fewer labels, "
            "or add annotators"
        )
    return Assignment(people, np.repeat(rows, labels_per_item), who.reshape(-1), label.reshape(-1))


Density = float | Mapping[str, float]


@dataclass(frozen=True, eq=False, repr=False)
class SimulatedCrowd:
    """Annotations of simulated annotators, and everything that is true of them.

    Attributes:
        data: the annotations. Annotators stand in the order in which their kinds were given.
        truth: series by item id, of all items.
        confusion: how each annotator labels, [annotator, truth, label], (A, K, K) in the order of ``data``.
        annotators: DataFrame by annotator id: kind; settings; group, missing for who is in none; accuracy, the
            probability of a right label.
        test: ids of the items that nobody was asked about.
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

    An annotator is named after the kind ("spammer-2"), a member of a group after the group ("colluders-1.3"). What
    an annotator says of an item depends on the items, the seed, the name and the kind alone: adding others at the
    end, or asking for fewer labels, changes nobody's labels.

    Args:
        truth: class of each item: series or mapping by item id, or an array or list of the items 0, 1, ...
        kinds: a name, ``annotator_kind(name, ...)`` or an object of your own for each annotator; or how many there
            are of each. ``annotator_kind_table()`` lists the names.
        labels_per_item: how many annotators, drawn at random, are asked about each item.
        density: probability that an annotator is asked about an item, for each pair alone; one number, or one by
            the name of the kind, 1 for kinds left out.
        features: as for annotations; machines and similar-class confusers look at them. The annotations carry them.
        classes: all classes in their order; by default those of the truth, sorted.
        test: ids of items that nobody is asked about, kept to score classifiers.
        seed: of everything.
        options: further ones of ``crowdppl.data.annotations.Options``, for the annotations.

    Raises:
        DataError: when truth, features, classes or the design cannot be used as they are.
        MethodError: for a kind or setting that there is not.

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
        raise DataError(
            f"{min(fixed)}= is not for simulated annotators: items come from truth, annotators from kinds"
        )
    people, truth = as_kinds(kinds), _series(truth)
    names, scene = _scene(truth, classes, features, test)
    draw = streams(seed)
    opinions = _opinions(people, scene, draw)
    if labels_per_item is None:
        crowd = assign_by_chance(opinions, scene, draw, _shares(people, density))
    elif density is None:
        crowd = assign_by_number(opinions, scene, draw, labels_per_item)
    else:
        raise DataError(f"labels_per_item={labels_per_item} and density={density} say different things; give one")
    ids: pd.Index[Any] = pd.Index([person.annotator for person in crowd.people])
    known: Options = {"items": truth.index, "annotators": Codebook("annotator", ids), "classes": names}
    data = Annotations.from_arrays(
        truth.index.take(crowd.item),
        ids.take(crowd.annotator),
        names.take(crowd.label),
        **{**known, "features": features, **options},
    )
    confusion = np.stack([person.confusion for person in crowd.people])
    table = _table(people, crowd.people, scene)
    return SimulatedCrowd(data, truth.loc[data.items], confusion, table, truth.index[~scene.asked])


def _series(truth: Any) -> pd.Series[Any]:
    """Truth by item id, whatever it came in."""
    if isinstance(truth, Mapping):
        series = pd.Series(list(truth.values()), index=as_index(truth))
    elif isinstance(truth, pd.Series):
        series = truth.copy()
    else:
        values = truth.detach().cpu().numpy() if hasattr(truth, "detach") else truth
        if isinstance(values, str) or np.ndim(values) != 1:
            raise DataError(f"truth is {type(truth).__name__} of no single column; give one class an item")
        series = pd.Series(values)
    if not len(series):
        raise DataError("truth is empty; give the class of each item")
    if not series.index.is_unique:
        twice = plain(series.index[series.index.duplicated()][0])
        raise DataError(f"truth names the item {twice!r} more than once; keep one class an item")
    if series.isna().any():
        lost = plain(series.index[series.isna()][0])
        raise DataError(f"the truth of item {lost!r} is missing; annotators cannot be simulated without it")
    return series.rename("truth").rename_axis("item")


def _scene(
    truth: pd.Series[Any], classes: Iterable[Any] | None, features: Any, test: Iterable[Any]
) -> tuple[pd.Index[Any], Context]:
    """Names of the classes, and what annotators are shown."""
    if classes is None:
        found = as_index(truth.drop_duplicates())
        names = found[sorting(found, "class")]
    else:
        names = as_index(listed(classes, "classes"))
    if len(names) < 2:
        raise DataError(f"there must be at least two classes, and truth has only {list(names)!r}; give classes=")
    code = Codebook("class", names).require(truth, "truth", "correct it, or list all classes in classes=")
    items = Codebook("item", truth.index)
    asked = np.ones(len(truth), bool)
    kept = as_index(test)
    if len(kept):
        asked[items.require(kept, "test=", "keep items of truth only")] = False
    if not asked.any():
        raise DataError(f"all {len(truth)} items are in test=; leave some for annotators to label")
    table = feature_table(features, truth.index, items)
    numbers = None if table is None else np.asarray(table, np.float64).reshape(len(truth), -1)
    return names, Context(code, names, truth.index, asked, numbers)


def _opinions(people: Sequence[Any], scene: Context, draw: Draw) -> Iterator[tuple[int, str, Opinion]]:
    """Place in the list of kinds, id and opinion of each annotator."""
    seen: Counter[str] = Counter()
    for number, kind in enumerate(people):
        seen[kind.name] += 1
        name = f"{kind.name}-{seen[kind.name]}"
        if hasattr(kind, "opinions"):
            for member, opinion in kind.opinions(scene, name, draw):
                yield number, member, opinion
        else:
            yield number, name, opinion_of(kind, scene, name, draw)


def _shares(people: Sequence[Any], density: Density | None) -> list[float]:
    """How likely each of the kinds is asked about an item."""
    names = [kind.name for kind in people]
    by_name = density if isinstance(density, Mapping) else dict.fromkeys(names, 1.0 if density is None else density)
    for name, share in by_name.items():
        if name not in names:
            raise DataError(
                f"density names the kind {name!r}, which is not in this crowd: {', '.join(sorted(set(names)))}"
            )
        number_within("density", share, "a number above 0, and 1 at most", lambda x: 0 < x <= 1, error=DataError)
    return [float(by_name.get(name, 1.0)) for name in names]


def _table(kinds: Sequence[Any], people: Sequence[Person], scene: Context) -> pd.DataFrame:
    """Annotators by id: what they are, and how often they are right."""
    share = np.bincount(scene.truth[scene.asked], minlength=scene.n_classes)
    rows = []
    for person in people:
        kind, right = kinds[person.number], person.confusion.diagonal()
        there = ~np.isnan(right) & (share > 0)
        rows.append(
            {
                "annotator": person.annotator,
                "kind": kind.name,
                "settings": spelled(kind),
                "group": person.annotator.rpartition(".")[0] or None,
                "accuracy": float(np.average(right[there], weights=share[there])),
            }
        )
    return pd.DataFrame(rows).set_index("annotator")
