"""Simulated annotators of many kinds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from hashlib import blake2b
from typing import Annotated, Any, ClassVar, Protocol

import numpy as np
import pandas as pd

from crowdppl.core import validation
from crowdppl.core.validation import (
    Range,
    Share,
    check_settings,
    is_number,
    is_whole,
    seed_number,
    shown,
    whole_number,
)
from crowdppl.data.ids import Codebook, as_index, listed
from crowdppl.errors import DataError, MethodError

Classes = int | Collection[Any]
Probability = Annotated[float, Range("a number from 0 to 1", lambda x: 0 <= x <= 1)]
Draw = Callable[..., np.random.Generator]
"""A fresh generator for an annotator and a purpose, both named by text."""


class Kind(Protocol):
    """How an annotator errs. A class of your own is one, if it has these two."""

    name: ClassVar[str]

    def confusion(self, classes: Classes, rng: np.random.Generator) -> np.ndarray:
        """One annotator's confusion [truth, label], (K, K): rows sum to one.

        Args:
            classes: their number, or their names in order.
            rng: draws what differs between annotators of the kind.
        """
        ...


@dataclass(frozen=True)
class Context:
    """The items, as annotators see them: truths, class codes (N,), names of the K classes, ids, whether any
    annotator may label an item, bool (N,), and features, float64 (N, M), or None.
    """

    truth: np.ndarray
    classes: pd.Index[Any]
    items: pd.Index[Any]
    labelled: np.ndarray
    features: np.ndarray | None = None

    @property
    def n_items(self) -> int:
        """N."""
        return len(self.truth)

    @property
    def n_classes(self) -> int:
        """K."""
        return len(self.classes)


@dataclass(frozen=True)
class Opinion:
    """The label that an annotator would give to every item, class codes (N,); the confusion (K, K) behind them.

    ``able`` are the items that the annotator may label, bool (N,); None for all.
    """

    labels: np.ndarray
    confusion: np.ndarray
    able: np.ndarray | None = None


def streams(seed: int) -> Draw:
    """Random numbers that depend on a seed and on names alone: an annotator's draws do not depend on others."""
    seed = seed_number(seed)

    def draw(*names: str) -> np.random.Generator:
        digest = blake2b("\x1f".join(names).encode(), digest_size=16).digest()
        words = tuple(int(word) for word in np.frombuffer(digest, "<u4"))
        return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=words))

    return draw


def opinion_of(kind: Kind, context: Context, annotator: str, draw: Draw) -> Opinion:
    """Labels drawn from the confusion of a kind, independently for each item."""
    prepare = getattr(kind, "prepare", None)
    ready: Kind = kind if prepare is None else prepare(context)
    confusion = np.asarray(ready.confusion(context.classes, draw(annotator, "confusion")), np.float64)
    shape = (context.n_classes, context.n_classes)
    if confusion.shape != shape or not (confusion >= 0).all() or not np.allclose(confusion.sum(1), 1):
        raise MethodError(
            f"the confusion of {annotator} must be {shape} with rows of probabilities; "
            f"{type(ready).__name__} gave {shown(confusion)}"
        )
    chance = draw(annotator, "labels").random(context.n_items)
    labels = np.empty(context.n_items, np.int32)
    for code, row in enumerate(confusion):
        at = context.truth == code
        steps = np.cumsum(row)
        # Divided by its end, the last step is 1 exactly, and a class of no probability cannot be drawn.
        labels[at] = np.searchsorted(steps / steps[-1], chance[at], side="right")
    return Opinion(labels, confusion)


class Checked:
    """A kind whose settings are checked by their annotations."""

    name: ClassVar[str]

    def __post_init__(self) -> None:
        check_settings(self, f"{self.name}: ")
        for setting in {"leader", "own"} & set(vars(self)):  # how members of a group judge
            kind = getattr(self, setting)
            if isinstance(kind, str | type) or not callable(getattr(kind, "confusion", None)):
                raise MethodError(
                    f"{self.name}: {setting}={shown(kind)} has no confusion; give annotator_kind('hammer')"
                )


@dataclass(frozen=True)
class Hammer(Checked):
    """Right with probability p; errors fall evenly on the other classes.

    Named as in Karger, Oh & Shah (2011), "Iterative learning for reliable crowdsourcing systems", where p = 1.
    """

    p: Probability = 0.75
    name: ClassVar[str] = "hammer"

    def confusion(self, classes: Classes, rng: np.random.Generator) -> np.ndarray:
        return spread(self.p, 1 - np.eye(count_classes(classes)))


@dataclass(frozen=True)
class Expert(Hammer):
    """Almost always right; errors fall evenly on the other classes."""

    p: Probability = 0.95
    name: ClassVar[str] = "expert"


@dataclass(frozen=True)
class Adversary(Hammer):
    """Knows the truth and avoids it: some other class, another one each time."""

    p: Probability = 0.1
    name: ClassVar[str] = "adversary"


@dataclass(frozen=True)
class Spammer(Checked):
    """Answers without looking: the label does not depend on the truth.

    Raykar & Yu (2012), "Eliminating spammers and ranking annotators for crowdsourced labeling tasks": all rows of
    the confusion are equal; with ``one_class``, drawn for each annotator, it is always this, else any alike.
    """

    one_class: bool = False
    name: ClassVar[str] = "spammer"

    def confusion(self, classes: Classes, rng: np.random.Generator) -> np.ndarray:
        k = count_classes(classes)
        return np.tile(np.eye(k)[rng.integers(k)], (k, 1)) if self.one_class else np.full((k, k), 1 / k)


@dataclass(frozen=True)
class HammerSpammer(Checked):
    """Knows the truth with probability p, and answers without looking otherwise; a blind answer may be right.

    Tanno et al. (2019), "Learning from noisy labels by regularized estimation of annotator confusion". Labels are
    right with probability p + (1 - p) / K. Where each is a hammer or a spammer, draw kinds with ``draw_kinds``.
    """

    p: Probability = 0.6
    name: ClassVar[str] = "hammer_spammer"

    def confusion(self, classes: Classes, rng: np.random.Generator) -> np.ndarray:
        k = count_classes(classes)
        return self.p * np.eye(k) + (1 - self.p) / k


@dataclass(frozen=True)
class ClassWiseSpammer(Checked):
    """Knows some classes, and answers without looking where the truth is another.

    After Khetan, Lipton & Anandkumar (2018), "Learning from noisy singly-labeled data", where each class is known
    with a fixed probability; here a fixed share of them is.

    Attributes:
        p: probability of the right label in a known class; errors fall evenly on the other classes.
        share: of classes answered without looking, rounded; they are drawn for each annotator.
    """

    p: Probability = 0.9
    share: Probability = 0.5
    name: ClassVar[str] = "class_wise_spammer"

    def confusion(self, classes: Classes, rng: np.random.Generator) -> np.ndarray:
        k = count_classes(classes)
        table = spread(self.p, 1 - np.eye(k))
        table[rng.permutation(k)[: round(self.share * k)]] = 1 / k
        return table


@dataclass(frozen=True)
class PairwiseFlipper(Checked):
    """Right with probability p, and otherwise gives one fixed wrong class for each class.

    Tanno et al. (2019), "Learning from noisy labels by regularized estimation of annotator confusion": the wrong
    class is drawn evenly, for each annotator and class.
    """

    p: Probability = 0.6
    name: ClassVar[str] = "pairwise_flipper"

    def confusion(self, classes: Classes, rng: np.random.Generator) -> np.ndarray:
        k = count_classes(classes)
        wrong = (np.arange(k) + 1 + rng.integers(k - 1, size=k)) % k
        return np.asarray(self.p * np.eye(k) + (1 - self.p) * np.eye(k)[wrong])


@dataclass(frozen=True)
class Malicious(Checked):
    """Knows the truth and swaps classes one to one, so that the labels mislead and yet carry all information.

    With two classes, the malicious annotator of Raykar & Yu (2012), who flips the label. It is right with
    probability p; the permutation, drawn for each annotator, moves every class.
    """

    p: Probability = 0.1
    name: ClassVar[str] = "malicious"

    def confusion(self, classes: Classes, rng: np.random.Generator) -> np.ndarray:
        k = count_classes(classes)
        wrong = np.arange(k)
        while (wrong == np.arange(k)).any():  # a third of the permutations, at least, move every class
            wrong = rng.permutation(k)
        return np.asarray(self.p * np.eye(k) + (1 - self.p) * np.eye(k)[wrong])


@dataclass(frozen=True)
class NeighbourConfuser(Checked):
    """Right with probability p; errors fall on the classes next to the truth in their order, as with grades."""

    p: Probability = 0.7
    name: ClassVar[str] = "neighbour_confuser"

    def confusion(self, classes: Classes, rng: np.random.Generator) -> np.ndarray:
        k = count_classes(classes)
        return spread(self.p, np.eye(k, k=1) + np.eye(k, k=-1))


@dataclass(frozen=True)
class SimilarClassConfuser(Checked):
    """Mistakes a class for one that looks like it; classes that look like no other are always labelled right.

    Attributes:
        p: probability of the right label where there are similar classes; errors fall evenly on these.
        pairs: names of similar classes, either taken for the other; by default each class and the one whose
            features lie nearest in the mean.
    """

    p: Probability = 0.7
    pairs: tuple[tuple[Any, Any], ...] | None = None
    name: ClassVar[str] = "similar_class_confuser"

    def __post_init__(self) -> None:
        super().__post_init__()
        for pair in self.pairs or ():
            if len(pair) != 2 or pair[0] == pair[1]:
                raise MethodError(f"{self.name}: pairs hold {shown(pair)}; give pairs of two different classes")

    def prepare(self, context: Context) -> SimilarClassConfuser:
        """A copy with its pairs, found from the features where none are given."""
        if self.pairs is not None:
            return self
        if context.features is None:
            raise DataError(f"{self.name} compares features of classes; give features=, or its pairs=")
        pairs = nearest_classes(context.features[context.labelled], context.truth[context.labelled])
        return replace(self, pairs=tuple((context.classes[k], context.classes[n]) for k, n in pairs))

    def confusion(self, classes: Classes, rng: np.random.Generator) -> np.ndarray:
        if self.pairs is None:
            raise MethodError(f"{self.name} has no pairs= of similar classes yet; give them")
        k = count_classes(classes)
        given: Any = classes
        names: pd.Index[Any] = pd.RangeIndex(k) if is_whole(given) else as_index(given)
        codes, similar = Codebook("class", names), np.zeros((k, k))
        for one, other in (codes.require(list(pair), "pairs=", "name known classes") for pair in self.pairs):
            similar[one, other] = similar[other, one] = 1
        return spread(self.p, similar)


USUAL = Hammer()
"""The default for judgements of members of a group."""


@dataclass(frozen=True)
class CopyingGroup(Checked):
    """A leader, the first of the group, and others who repeat the leader's label with probability p.

    Each copier decides for each item alone, whether or not the leader labels it, too, and else judges alone.

    Attributes:
        copiers: how many there are besides the leader.
        p: probability of copying.
        leader: kind of the leader.
        own: kind of a copier's own judgement.
    """

    copiers: Annotated[int, Range("a whole number, 1 or more", lambda x: x >= 1, whole=True)] = 2
    p: Probability = 0.8
    leader: Kind = USUAL
    own: Kind = USUAL
    name: ClassVar[str] = "copying_group"

    def opinions(self, context: Context, group: str, draw: Draw) -> Iterator[tuple[str, Opinion]]:
        """Each member's id and opinion; a confusion is that of the mixture."""
        leader = opinion_of(self.leader, context, f"{group}.1", draw)
        yield f"{group}.1", leader
        for number in range(2, self.copiers + 2):
            member = f"{group}.{number}"
            own = opinion_of(self.own, context, member, draw)
            copied = draw(member, "copies").random(context.n_items) < self.p
            labels = np.where(copied, leader.labels, own.labels)
            yield member, Opinion(labels, self.p * leader.confusion + (1 - self.p) * own.confusion)


@dataclass(frozen=True)
class Colluders(Checked):
    """A group that gives an item one wrong label with probability p; otherwise each judges alone.

    The wrong label is drawn evenly from the wrong ones, for each item.

    Attributes:
        size: how many there are.
        p: share of items on which they collude.
        own: kind of a member's own judgement.
    """

    size: Annotated[int, Range("a whole number, 2 or more", lambda x: x >= 2, whole=True)] = 3
    p: Probability = 0.3
    own: Kind = USUAL
    name: ClassVar[str] = "colluders"

    def opinions(self, context: Context, group: str, draw: Draw) -> Iterator[tuple[str, Opinion]]:
        """Each member's id and opinion; a confusion is that of the mixture."""
        k, rng = context.n_classes, draw(group, "collusion")
        colluding = rng.random(context.n_items) < self.p
        wrong = (context.truth + 1 + (rng.random(context.n_items) * (k - 1)).astype(np.int64)) % k
        even = (1 - np.eye(k)) / (k - 1)
        for number in range(1, self.size + 1):
            member = f"{group}.{number}"
            own = opinion_of(self.own, context, member, draw)
            labels = np.where(colluding, wrong, own.labels)
            yield member, Opinion(labels, self.p * even + (1 - self.p) * own.confusion)


CLASSIFIERS = ("logistic", "naive_bayes", "nearest_neighbour", "tree")


@dataclass(frozen=True)
class Machine(Checked):
    """A weak classifier, trained with true labels on a random part of the items, that labels the others.

    Its errors lie where classes are hard to tell apart, so machines err together, and its confusion, counted over
    all items that it may label, is an average; NaN for a class without such items. After Ibrahim, Fu, Kargas and
    Huang (2019), "Crowdsourcing via pairwise co-occurrences: identifiability and algorithms".

    Attributes:
        classifier: "logistic", "naive_bayes", "nearest_neighbour" or "tree" (of depth 4); or a classifier of
            scikit-learn, of which a copy is trained; by default one of the four, drawn for each annotator.
        trained_on: share of the items that it learns from, among those that may be labelled.
    """

    classifier: Any = None
    trained_on: Share = 0.1
    name: ClassVar[str] = "machine"

    def __post_init__(self) -> None:
        super().__post_init__()
        given, names = self.classifier, ", ".join(CLASSIFIERS)
        able = hasattr(given, "fit") and hasattr(given, "get_params") and not isinstance(given, type)
        if not (given is None or able or (isinstance(given, str) and given in CLASSIFIERS)):
            raise MethodError(f"machine: classifier={shown(given)} must be an object of scikit-learn, or {names}")

    def opinions(self, context: Context, annotator: str, draw: Draw) -> Iterator[tuple[str, Opinion]]:
        """The annotator's id and opinion; DataError when nothing can be learned, or is left to be labelled."""
        if context.features is None:
            raise DataError("machine annotators learn from features; give features=")
        rng = draw(annotator, "training")
        model = self._model(rng)
        labelled = np.flatnonzero(context.labelled)
        n = round(self.trained_on * len(labelled))
        learned = rng.choice(labelled, n, replace=False)
        known = len(np.unique(context.truth[learned]))
        if known < 2 or n == len(labelled):
            raise DataError(
                f"{annotator} would learn from {n} of {len(labelled)} items, of {known} classes; it needs two "
                "classes, and other items to label: change trained_on, or give more items"
            )
        labels = model.fit(context.features[learned], context.truth[learned]).predict(context.features)
        able = context.labelled.copy()
        able[learned] = False
        counts = np.zeros((context.n_classes, context.n_classes))
        np.add.at(counts, (context.truth[able], labels[able]), 1)
        with np.errstate(invalid="ignore"):  # a class without items is NaN
            yield annotator, Opinion(labels, counts / counts.sum(1, keepdims=True), able)

    def _model(self, rng: np.random.Generator) -> Any:
        from sklearn.base import clone  # slow to import, all of them
        from sklearn.linear_model import LogisticRegression
        from sklearn.naive_bayes import GaussianNB
        from sklearn.neighbors import KNeighborsClassifier
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
        from sklearn.tree import DecisionTreeClassifier

        known = {
            "logistic": LogisticRegression(max_iter=1000),
            "naive_bayes": GaussianNB(),
            "nearest_neighbour": KNeighborsClassifier(1),
            "tree": DecisionTreeClassifier(max_depth=4),
        }
        name = CLASSIFIERS[rng.integers(len(CLASSIFIERS))] if self.classifier is None else self.classifier
        model = known[name] if isinstance(name, str) else clone(name)
        if "random_state" in model.get_params():
            model.set_params(random_state=int(rng.integers(2**31)))
        return make_pipeline(StandardScaler(), model)


KINDS: tuple[Any, ...] = (
    *(Expert, Hammer, HammerSpammer, Spammer, ClassWiseSpammer, PairwiseFlipper, SimilarClassConfuser),
    *(NeighbourConfuser, Adversary, Malicious, CopyingGroup, Colluders, Machine),
)
BY_NAME = {kind.name: kind for kind in KINDS}


def annotator_kind(name: str, **settings: Any) -> Any:
    """A kind of simulated annotator by its name, such as ``annotator_kind("hammer_spammer", p=0.4)``.

    Args:
        name: as in ``annotator_kind_table()``.
        settings: of the kind; the table lists them with their defaults.

    Returns:
        A frozen object; most have ``confusion(classes, rng)``, groups and machines are simulated only.

    Raises:
        MethodError: for an unknown kind or setting, or a value out of range.

    Examples:
        >>> crowdppl.simulation.annotator_kind("hammer_spammer", p=0.4)
        HammerSpammer(p=0.4)
    """
    if not isinstance(name, str) or name not in BY_NAME:
        hint = validation.near_names(str(name), BY_NAME)
        raise MethodError(f"there is no kind of annotator {name!r}{hint}; there are {', '.join(BY_NAME)}")
    kind = BY_NAME[name]
    validation.refuse_unknown(name, "setting", settings, [field.name for field in fields(kind)])
    return kind(**settings)


def annotator_kind_table() -> pd.DataFrame:
    """All kinds of simulated annotators, one a row.

    Returns:
        DataFrame by name: what such an annotator does; settings, with their defaults.

    Examples:
        >>> crowdppl.simulation.annotator_kind_table().loc["hammer_spammer", "settings"]
        'p=0.6'
    """
    what = [" ".join((kind.__doc__ or "").split("\n\n")[0].split()) for kind in KINDS]
    table = {"what": what, "settings": [settings_text(kind()) for kind in KINDS]}
    return pd.DataFrame(table, index=pd.Index(list(BY_NAME), name="kind"))


def draw_kinds(shares: Mapping[Any, float], n_annotators: int, seed: int = 0) -> list[Any]:
    """Draws the kind of each annotator of a crowd, for ``simulate_annotators``.

    The mix of the example is that of Kumagai et al. (2025), "Meta-learning representations for learning from
    multiple annotators"; the accuracies of experts and hammers are not.

    Args:
        shares: probability of each kind, by name or kind; they sum to one.
        n_annotators: how many to draw.
        seed: of the draws.

    Raises:
        MethodError: for an unknown kind, shares that are not probabilities, or a wrong number or seed.

    Examples:
        >>> crowdppl.simulation.draw_kinds({"expert": 0.1, "hammer": 0.7, "spammer": 0.2}, 4, seed=0)
        [Hammer(p=0.75), Hammer(p=0.75), Expert(p=0.95), Expert(p=0.95)]
    """
    kinds, p = kinds_and_shares(shares)
    n_annotators = whole_number("n_annotators", n_annotators, 1)
    chosen = np.random.default_rng(seed_number(seed)).choice(len(kinds), size=n_annotators, p=p)
    return [kinds[number] for number in chosen]


def kinds_and_shares(shares: Mapping[Any, float]) -> tuple[list[Any], np.ndarray]:
    """Kinds of annotators, and the probability of each."""
    given = list(shares.values()) if isinstance(shares, Mapping) else []
    if not given or not all(is_number(share) and share >= 0 for share in given) or abs(sum(given) - 1) > 1e-6:
        raise MethodError(f"shares={shown(shares)} must map kinds to probabilities that sum to one")
    p = np.array(given, np.float64)
    return [as_kind(kind) for kind in shares], p / p.sum()


def as_kinds(kinds: Sequence[Any] | Mapping[Any, int]) -> list[Any]:
    """Kinds one by one, from a list, or a mapping from kind to number; names become kinds with default settings."""
    if isinstance(kinds, str | type) or not isinstance(kinds, Sequence | Mapping):
        raise MethodError(
            f"kinds={shown(kinds)}: give a list of kinds, or a mapping from kind to number of annotators"
        )
    if isinstance(kinds, Mapping):
        kinds = [kind for kind, n in kinds.items() for _ in range(whole_number(f"kinds: {shown(kind)}", n, 0))]
    if not len(kinds):
        raise MethodError("kinds are empty; there must be at least one annotator")
    return [as_kind(kind) for kind in kinds]


def as_kind(kind: Any) -> Any:
    """A kind, of a kind or its name."""
    if isinstance(kind, str):
        return annotator_kind(kind)
    able = any(callable(getattr(kind, method, None)) for method in ("confusion", "opinions"))
    if isinstance(kind, type) or not able or not isinstance(getattr(kind, "name", None), str):
        raise MethodError(
            f"{shown(kind)} is no kind of annotator; give a name ({', '.join(BY_NAME)}), or an object with a name "
            "and confusion(classes, rng)"
        )
    return kind


def settings_text(kind: Any) -> str:
    """Settings of a kind as text."""
    return repr(kind).partition("(")[2].removesuffix(")")


def count_classes(classes: Classes) -> int:
    """K, of a number or of names."""
    given: Any = classes
    k = given if is_whole(given) else len(listed(given, "classes"))
    if k < 2:
        raise DataError(f"annotators need at least two classes, and there are {k}; name them all")
    return k


def spread(p: float, others: np.ndarray) -> np.ndarray:
    """p on the diagonal and 1 - p spread evenly over the cells marked in each row; certain where none is."""
    given = others.sum(1, keepdims=True)
    wrong = (1 - p) * others / np.maximum(given, 1)
    return np.asarray(wrong + np.diag(np.where(given[:, 0] > 0, p, 1.0)))


def nearest_classes(x: np.ndarray, truth: np.ndarray) -> list[tuple[int, int]]:
    """Pairs of each class and the one whose mean of standardised features (N, M) is nearest, sorted, each once."""
    sd = x.std(0)
    x = (x - x.mean(0)) / np.where(sd > 0, sd, 1)
    there = np.unique(truth)
    if len(there) < 2:
        return []
    mean = np.stack([x[truth == k].mean(0) for k in there])
    distance = ((mean[:, None] - mean) ** 2).sum(-1)
    np.fill_diagonal(distance, np.inf)
    near = there[distance.argmin(1)]
    return sorted({(min(k, n), max(k, n)) for k, n in zip(there.tolist(), near.tolist(), strict=True)})
