"""Simulated annotators of many kinds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from functools import cached_property
from hashlib import blake2b
from typing import Any, ClassVar, Protocol

import numpy as np
import pandas as pd

from crowdppl.core.validation import is_number, is_whole, number_within, seed_number, share_between, whole_number
from crowdppl.data.ids import Codebook, as_index, listed
from crowdppl.errors import DataError, MethodError

Classes = int | Collection[Any]


class Kind(Protocol):
    """How an annotator errs. A class of your own is one, if it has these two."""

    name: ClassVar[str]

    def confusion(self, classes: Classes, rng: np.random.Generator) -> np.ndarray:
        """One annotator's confusion [truth, label], (K, K): rows sum to one.

        Args:
            classes: their number, or their names in order.
            rng: draws what differs between annotators of the kind.

        Raises:
            DataError: for fewer than two classes.
        """
        ...


@dataclass(frozen=True)
class Expert:
    """Almost always right; errors fall evenly on the other classes.

    Attributes:
        p: probability of the right label.
    """

    p: float = 0.95
    name: ClassVar[str] = "expert"

    def __post_init__(self) -> None:
        check_share(self, "p")

    def confusion(self, classes: Classes, rng: np.random.Generator) -> np.ndarray:
        """p on the diagonal, the rest even, (K, K)."""
        return spread(self.p, 1 - np.eye(count_classes(classes)))


@dataclass(frozen=True)
class Hammer:
    """Mostly right; errors fall evenly on the other classes.

    The word is that of Karger, Oh & Shah (2011), "Iterative learning for reliable crowdsourcing systems", whose
    hammers are never wrong: p = 1.

    Attributes:
        p: probability of the right label.
    """

    p: float = 0.75
    name: ClassVar[str] = "hammer"

    def __post_init__(self) -> None:
        check_share(self, "p")

    def confusion(self, classes: Classes, rng: np.random.Generator) -> np.ndarray:
        """p on the diagonal, the rest even, (K, K)."""
        return spread(self.p, 1 - np.eye(count_classes(classes)))


@dataclass(frozen=True)
class Spammer:
    """Answers without looking: the label says nothing of the truth.

    Raykar & Yu (2012), "Eliminating spammers and ranking annotators for crowdsourced labeling tasks": all rows of
    the confusion are equal.

    Attributes:
        one_class: always the same class, drawn for each annotator; else every class with the same probability.
    """

    one_class: bool = False
    name: ClassVar[str] = "spammer"

    def confusion(self, classes: Classes, rng: np.random.Generator) -> np.ndarray:
        """Equal rows, (K, K)."""
        k = count_classes(classes)
        if not self.one_class:
            return np.full((k, k), 1 / k)
        return np.tile(np.eye(k)[rng.integers(k)], (k, 1))


@dataclass(frozen=True)
class HammerSpammer:
    """Knows the truth with probability p, and answers without looking otherwise.

    Tanno et al. (2019), "Learning from noisy labels by regularized estimation of annotator confusion". A blind
    answer may be right. Where annotators are hammers or spammers for good, as in Khetan, Lipton & Anandkumar
    (2018), "Learning from noisy singly-labeled data", draw their kinds with ``draw_kinds``.

    Attributes:
        p: probability of knowing; that of the right label is p + (1 - p) / K.
    """

    p: float = 0.6
    name: ClassVar[str] = "hammer_spammer"

    def __post_init__(self) -> None:
        check_share(self, "p")

    def confusion(self, classes: Classes, rng: np.random.Generator) -> np.ndarray:
        """p times the identity, and (1 - p) / K everywhere, (K, K)."""
        k = count_classes(classes)
        return self.p * np.eye(k) + (1 - self.p) / k


@dataclass(frozen=True)
class ClassWiseSpammer:
    """Knows some classes, and answers without looking where the truth is another.

    After the class-wise hammer-spammers of Khetan, Lipton & Anandkumar (2018), "Learning from noisy singly-labeled
    data", where each class is known with a fixed probability; here a fixed share is.

    Attributes:
        p: probability of the right label in a known class; errors fall evenly on the other classes.
        share: of classes answered without looking, rounded; they are drawn for each annotator.
    """

    p: float = 0.9
    share: float = 0.5
    name: ClassVar[str] = "class_wise_spammer"

    def __post_init__(self) -> None:
        check_share(self, "p")
        check_share(self, "share")

    def confusion(self, classes: Classes, rng: np.random.Generator) -> np.ndarray:
        """Rows of known classes with p on the diagonal, even rows for the others, (K, K)."""
        k = count_classes(classes)
        table = spread(self.p, 1 - np.eye(k))
        table[rng.permutation(k)[: round(self.share * k)]] = 1 / k
        return table


def count_classes(classes: Classes) -> int:
    """K, of a number or of names.

    Raises:
        DataError: for fewer than two.
    """
    given: Any = classes
    k = given if is_whole(given) else len(listed(given, "classes"))
    if k < 2:
        raise DataError(f"annotators need at least two classes to tell apart, and there are {k}; name them all")
    return k


def check_share(kind: Any, setting: str) -> None:
    """Refuses a setting that is no probability.

    Raises:
        MethodError: with the kind, the setting and its value.
    """
    number_within(f"{kind.name}: {setting}", getattr(kind, setting), "a number from 0 to 1", lambda x: 0 <= x <= 1)


def spread(p: float, others: np.ndarray) -> np.ndarray:
    """p on the diagonal and 1 - p spread evenly over the cells marked in each row; certain where none is."""
    given = others.sum(1, keepdims=True)
    wrong = (1 - p) * others / np.maximum(given, 1)
    out: np.ndarray = wrong + np.diag(np.where(given[:, 0] > 0, p, 1.0))
    return out


Draw = Callable[..., np.random.Generator]
"""A fresh generator for an annotator and a purpose, both named by text."""


@dataclass(frozen=True)
class Context:
    """What annotators are shown, and what is true.

    Attributes:
        truth: class codes, (N,).
        classes: names of the classes, K of them.
        items: ids, N of them.
        asked: whether anyone is asked about an item, bool (N,).
        features: float64 (N, M), or None.
    """

    truth: np.ndarray
    classes: pd.Index[Any]
    items: pd.Index[Any]
    asked: np.ndarray
    features: np.ndarray | None = None

    @property
    def n_items(self) -> int:
        """N."""
        return len(self.truth)

    @property
    def n_classes(self) -> int:
        """K."""
        return len(self.classes)

    @cached_property
    def by_class(self) -> list[np.ndarray]:
        """Positions of the items of each class."""
        order = np.argsort(self.truth, kind="stable")
        return np.split(order, np.cumsum(np.bincount(self.truth, minlength=self.n_classes))[:-1])

    def nearest_classes(self) -> np.ndarray:
        """The class whose mean of standardised features is nearest, (K,); -1 for a class nobody is asked about."""
        assert self.features is not None, "asked for by kinds that made sure of it"
        x, truth = self.features[self.asked], self.truth[self.asked]
        spread = x.std(0)
        x = (x - x.mean(0)) / np.where(spread > 0, spread, 1)
        there = np.unique(truth)
        mean = np.stack([x[truth == k].mean(0) for k in there])
        apart = ((mean[:, None] - mean) ** 2).sum(-1)
        np.fill_diagonal(apart, np.inf)
        near = np.full(self.n_classes, -1)
        if len(there) > 1:
            near[there] = there[apart.argmin(1)]
        return near


@dataclass(frozen=True)
class Opinion:
    """What an annotator says, or would say, of every item.

    Attributes:
        labels: class codes, (N,).
        confusion: probability of each label given the truth, (K, K).
        able: items that the annotator may be asked about, bool (N,); None for all.
    """

    labels: np.ndarray
    confusion: np.ndarray
    able: np.ndarray | None = None


def streams(seed: int) -> Draw:
    """Random numbers that depend on a seed and on names alone, so that nobody's draws move another's.

    Raises:
        MethodError: when the seed is no whole number from 0, or too large.
    """
    seed = seed_number(seed)

    def draw(*names: str) -> np.random.Generator:
        digest = blake2b("\x1f".join(names).encode(), digest_size=16).digest()
        words = tuple(int(word) for word in np.frombuffer(digest, "<u4"))
        return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=words))

    return draw


def opinion_of(kind: Kind, scene: Context, annotator: str, draw: Draw) -> Opinion:
    """Labels drawn from the confusion of a kind, for each item alone.

    Raises:
        MethodError: when a kind of a user's own gives no confusion.
    """
    prepare = getattr(kind, "prepare", None)
    ready: Kind = kind if prepare is None else prepare(scene)
    confusion = np.asarray(ready.confusion(scene.classes, draw(annotator, "confusion")), np.float64)
    shape = (scene.n_classes, scene.n_classes)
    if confusion.shape != shape or not (confusion >= 0).all() or not np.allclose(confusion.sum(1), 1):
        raise MethodError(
            f"the confusion of {annotator} must be {shape}, rows for the truth, not negative, with sums of 1; "
            f"{type(ready).__name__} gave {confusion!r}"
        )
    chance = draw(annotator, "labels").random(scene.n_items)
    labels = np.empty(scene.n_items, np.int32)
    for rows, row in zip(scene.by_class, confusion, strict=True):
        steps = np.cumsum(row)
        # Divided by its end, the last step is 1 exactly, and a class of no probability cannot be drawn.
        labels[rows] = np.searchsorted(steps / steps[-1], chance[rows], side="right")
    return Opinion(labels, confusion)


USUAL = Hammer()
"""How members judge where they judge for themselves."""


@dataclass(frozen=True)
class CopyingGroup:
    """A leader, and others who repeat the leader's label with probability p; otherwise each judges alone.

    Each copier decides for each item alone. What is repeated is what the leader thinks of the item, whether or not
    the leader is asked about it, too. The leader is the first of the group.

    Attributes:
        copiers: how many there are besides the leader.
        p: probability of copying.
        leader: kind of the leader.
        own: kind of a copier's own judgement.
    """

    copiers: int = 2
    p: float = 0.8
    leader: Kind = USUAL
    own: Kind = USUAL
    name: ClassVar[str] = "copying_group"

    def __post_init__(self) -> None:
        _check_size(self, "copiers", 1)
        check_share(self, "p")
        _check_kind(self, "leader")
        _check_kind(self, "own")

    def opinions(self, scene: Context, group: str, draw: Draw) -> Iterator[tuple[str, Opinion]]:
        """Each member's id and opinion, the leader's first; a confusion is that of the mixture."""
        leader = opinion_of(self.leader, scene, f"{group}.1", draw)
        yield f"{group}.1", leader
        for number in range(2, self.copiers + 2):
            member = f"{group}.{number}"
            own = opinion_of(self.own, scene, member, draw)
            copied = draw(member, "copies").random(scene.n_items) < self.p
            labels = np.where(copied, leader.labels, own.labels)
            yield member, Opinion(labels, self.p * leader.confusion + (1 - self.p) * own.confusion)


@dataclass(frozen=True)
class Colluders:
    """A group that gives an item one wrong label with probability p; otherwise each judges alone.

    The wrong label is drawn evenly from the wrong ones, for each item alone.

    Attributes:
        size: how many there are.
        p: share of items on which they collude.
        own: kind of a member's own judgement.
    """

    size: int = 3
    p: float = 0.3
    own: Kind = USUAL
    name: ClassVar[str] = "colluders"

    def __post_init__(self) -> None:
        _check_size(self, "size", 2)
        check_share(self, "p")
        _check_kind(self, "own")

    def opinions(self, scene: Context, group: str, draw: Draw) -> Iterator[tuple[str, Opinion]]:
        """Each member's id and opinion; a confusion is that of the mixture."""
        k, rng = scene.n_classes, draw(group, "collusion")
        colluding = rng.random(scene.n_items) < self.p
        wrong = (scene.truth + 1 + (rng.random(scene.n_items) * (k - 1)).astype(np.int64)) % k
        even = (1 - np.eye(k)) / (k - 1)
        for number in range(1, self.size + 1):
            member = f"{group}.{number}"
            own = opinion_of(self.own, scene, member, draw)
            labels = np.where(colluding, wrong, own.labels)
            yield member, Opinion(labels, self.p * even + (1 - self.p) * own.confusion)


def _check_size(group: Any, setting: str, least: int) -> None:
    value = getattr(group, setting)
    whole_number(f"{group.name}: {setting}", value, least)


def _check_kind(group: Any, setting: str) -> None:
    value = getattr(group, setting)
    if isinstance(value, str | type) or not callable(getattr(value, "confusion", None)):
        raise MethodError(
            f"{group.name}: {setting}={value!r} is no kind with a confusion; give one, such as "
            "crowdppl.simulation.annotator_kind('hammer', p=0.8)"
        )


@dataclass(frozen=True)
class PairwiseFlipper:
    """Right with probability p, and otherwise gives one fixed wrong class for each class.

    Tanno et al. (2019), "Learning from noisy labels by regularized estimation of annotator confusion": the wrong
    class is drawn evenly, for each annotator and class alone.

    Attributes:
        p: probability of the right label.
    """

    p: float = 0.6
    name: ClassVar[str] = "pairwise_flipper"

    def __post_init__(self) -> None:
        check_share(self, "p")

    def confusion(self, classes: Classes, rng: np.random.Generator) -> np.ndarray:
        """p on the diagonal and 1 - p in one other cell of each row, (K, K)."""
        k = count_classes(classes)
        wrong = (np.arange(k) + 1 + rng.integers(k - 1, size=k)) % k
        table: np.ndarray = self.p * np.eye(k) + (1 - self.p) * np.eye(k)[wrong]
        return table


@dataclass(frozen=True)
class SimilarClassConfuser:
    """Mistakes a class for one that looks like it; classes that look like no other are always labelled right.

    Attributes:
        p: probability of the right label where there are similar classes; errors fall evenly on these.
        pairs: pairs of names of similar classes, either taken for the other; by default each class and the one
            whose features lie nearest in the mean, which needs features.
    """

    p: float = 0.7
    pairs: tuple[tuple[Any, Any], ...] | None = None
    name: ClassVar[str] = "similar_class_confuser"

    def __post_init__(self) -> None:
        check_share(self, "p")
        for pair in self.pairs or ():
            if len(pair) != 2 or pair[0] == pair[1]:
                raise MethodError(f"{self.name}: pairs hold {pair!r}; give pairs of two different classes")

    def prepare(self, scene: Context) -> SimilarClassConfuser:
        """The same with its pairs, found from the features where none are given."""
        if self.pairs is not None:
            return self
        if scene.features is None:
            raise DataError(f"{self.name} looks for similar classes in features; give features=, or its pairs=")
        near = scene.nearest_classes()
        pairs = {(min(k, int(n)), max(k, int(n))) for k, n in enumerate(near) if n >= 0}
        return replace(self, pairs=tuple((scene.classes[k], scene.classes[n]) for k, n in sorted(pairs)))

    def confusion(self, classes: Classes, rng: np.random.Generator) -> np.ndarray:
        """p on the diagonal and the rest on similar classes; a row without any is certain, (K, K)."""
        if self.pairs is None:
            raise MethodError(f"{self.name} has no pairs= of similar classes yet; give them")
        k = count_classes(classes)
        given: Any = classes
        names: pd.Index[Any] = pd.RangeIndex(k) if is_whole(given) else as_index(given)
        book, similar = Codebook("class", names), np.zeros((k, k))
        for one, other in (book.require(list(pair), "pairs=", "name known classes") for pair in self.pairs):
            similar[one, other] = similar[other, one] = 1
        return spread(self.p, similar)


@dataclass(frozen=True)
class NeighbourConfuser:
    """Misses by one step: errors fall on the classes next to the truth in the order of classes, as with grades.

    Attributes:
        p: probability of the right label; the lowest and the highest class have one neighbour, others two.
    """

    p: float = 0.7
    name: ClassVar[str] = "neighbour_confuser"

    def __post_init__(self) -> None:
        check_share(self, "p")

    def confusion(self, classes: Classes, rng: np.random.Generator) -> np.ndarray:
        """p on the diagonal and the rest beside it, (K, K)."""
        k = count_classes(classes)
        return spread(self.p, np.eye(k, k=1) + np.eye(k, k=-1))


@dataclass(frozen=True)
class Adversary:
    """Knows the truth and avoids it: some other class, another one each time.

    Attributes:
        p: probability of the right label, which keeps an adversary from being found at once.
    """

    p: float = 0.1
    name: ClassVar[str] = "adversary"

    def __post_init__(self) -> None:
        check_share(self, "p")

    def confusion(self, classes: Classes, rng: np.random.Generator) -> np.ndarray:
        """p on the diagonal, the rest even, (K, K)."""
        return spread(self.p, 1 - np.eye(count_classes(classes)))


@dataclass(frozen=True)
class Malicious:
    """Knows the truth and swaps classes by a plan, one to one, so that the labels mislead and yet tell everything.

    With two classes, the malicious annotator of Raykar & Yu (2012), who flips the label.

    Attributes:
        p: probability of the right label; the plan, drawn for each annotator, leaves no class in its place.
    """

    p: float = 0.1
    name: ClassVar[str] = "malicious"

    def __post_init__(self) -> None:
        check_share(self, "p")

    def confusion(self, classes: Classes, rng: np.random.Generator) -> np.ndarray:
        """p on the diagonal and 1 - p in one other cell of each row and each column, (K, K)."""
        k = count_classes(classes)
        plan = np.arange(k)
        while (plan == np.arange(k)).any():  # a third of the permutations, at least, move every class
            plan = rng.permutation(k)
        table: np.ndarray = self.p * np.eye(k) + (1 - self.p) * np.eye(k)[plan]
        return table


CLASSIFIERS = ("logistic", "naive_bayes", "nearest_neighbour", "tree")


@dataclass(frozen=True)
class Machine:
    """A weak classifier, trained with true labels on a random part of the items, that labels the others.

    It is never asked about an item that it was trained on. Its errors lie where classes are hard to tell apart, so
    that machines err together, and its confusion, counted over all items that it may be asked about, is only an
    average; NaN for a class without such items. Trained classifiers are taken for annotators in Ibrahim, Fu, Kargas
    & Huang (2019), "Crowdsourcing via pairwise co-occurrences: identifiability and algorithms". For machines that
    label a tenth each, simulate with a density of 0.1.

    Attributes:
        classifier: "logistic", "naive_bayes", "nearest_neighbour" or "tree" (of depth 4); or a classifier of
            scikit-learn, of which a copy is trained; by default one of the four, drawn for each annotator.
        trained_on: share of the items that it learns from, among those that anyone is asked about.
    """

    classifier: Any = None
    trained_on: float = 0.1
    name: ClassVar[str] = "machine"

    def __post_init__(self) -> None:
        if isinstance(self.classifier, str) and self.classifier not in CLASSIFIERS:
            raise MethodError(f"machine: classifier={self.classifier!r} is none of {', '.join(CLASSIFIERS)}")
        if not (self.classifier is None or isinstance(self.classifier, str) or _can_learn(self.classifier)):
            raise MethodError(
                f"machine: classifier={self.classifier!r} has no fit and predict; name one of "
                f"{', '.join(CLASSIFIERS)}, or give an object of scikit-learn"
            )
        share_between("machine: trained_on", self.trained_on)

    def opinions(self, scene: Context, annotator: str, draw: Draw) -> Iterator[tuple[str, Opinion]]:
        """The annotator's id and opinion, of a classifier just trained.

        Raises:
            DataError: without features, or when the part to learn from holds one class only, or everything.
        """
        if scene.features is None:
            raise DataError("machine annotators learn from features; give features=")
        rng = draw(annotator, "training")
        model = self._model(rng)
        asked = np.flatnonzero(scene.asked)
        n = round(self.trained_on * len(asked))
        learned = rng.choice(asked, n, replace=False)
        known = len(np.unique(scene.truth[learned]))
        if known < 2 or n == len(asked):
            raise DataError(
                f"{annotator} would learn from {n} of {len(asked)} items, of {known} classes; it needs two classes "
                "to learn from, and others to label: change trained_on, or give more items"
            )
        labels = model.fit(scene.features[learned], scene.truth[learned]).predict(scene.features)
        able = scene.asked.copy()
        able[learned] = False
        yield annotator, Opinion(labels, _counted(scene, labels, able), able)

    def _model(self, rng: np.random.Generator) -> Any:
        from sklearn.base import clone  # slow to import
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        name = CLASSIFIERS[rng.integers(len(CLASSIFIERS))] if self.classifier is None else self.classifier
        model = _named(name) if isinstance(name, str) else clone(name)
        if "random_state" in model.get_params():
            model.set_params(random_state=int(rng.integers(2**31)))
        return make_pipeline(StandardScaler(), model)


def _named(name: str) -> Any:
    from sklearn.linear_model import LogisticRegression  # slow to import, all four
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.tree import DecisionTreeClassifier

    known = {
        "logistic": LogisticRegression(max_iter=1000),
        "naive_bayes": GaussianNB(),
        "nearest_neighbour": KNeighborsClassifier(1),
        "tree": DecisionTreeClassifier(max_depth=4),
    }
    return known[name]


def _can_learn(model: Any) -> bool:
    return not isinstance(model, type) and all(
        callable(getattr(model, method, None)) for method in ("fit", "predict", "get_params")
    )


def _counted(scene: Context, labels: np.ndarray, able: np.ndarray) -> np.ndarray:
    """Shares of labels by truth over the items marked, (K, K); NaN for a truth that none of them has."""
    counts = np.zeros((scene.n_classes, scene.n_classes))
    np.add.at(counts, (scene.truth[able], labels[able]), 1)
    given = counts.sum(1, keepdims=True)
    shares: np.ndarray = np.divide(counts, given, out=np.full_like(counts, np.nan), where=given > 0)
    return shares


KINDS: tuple[Any, ...] = (
    Expert,
    Hammer,
    HammerSpammer,
    Spammer,
    ClassWiseSpammer,
    PairwiseFlipper,
    SimilarClassConfuser,
    NeighbourConfuser,
    Adversary,
    Malicious,
    CopyingGroup,
    Colluders,
    Machine,
)
BY_NAME = {kind.name: kind for kind in KINDS}


def annotator_kind(name: str, **settings: Any) -> Any:
    """A kind of simulated annotator by its name, such as ``annotator_kind("hammer_spammer", p=0.4)``.

    Args:
        name: as in ``annotator_kind_table()``.
        settings: of the kind; the table lists them with their defaults.

    Returns:
        A small frozen object. Most have ``confusion(classes, rng)``; groups and machines are simulated only.

    Raises:
        MethodError: for an unknown kind or setting, or a value that is out of range.

    Examples:
        >>> crowdppl.simulation.annotator_kind("hammer_spammer", p=0.4)
        HammerSpammer(p=0.4)
    """
    if not isinstance(name, str) or name not in BY_NAME:
        near = get_close_matches(str(name), BY_NAME, n=2, cutoff=0.5)
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise MethodError(f"there is no kind of annotator {name!r}{hint}; there are {', '.join(BY_NAME)}")
    kind = BY_NAME[name]
    known = [field.name for field in fields(kind)]
    unknown = [setting for setting in settings if setting not in known]
    if unknown:
        raise MethodError(f"{name} has no setting {unknown[0]!r}; it has {', '.join(known)}")
    return kind(**settings)


def annotator_kind_table() -> pd.DataFrame:
    """All kinds of simulated annotators, one a row.

    Returns:
        DataFrame by name: what such an annotator does; settings, with their defaults.

    Examples:
        >>> crowdppl.simulation.annotator_kind_table().loc["hammer_spammer", "settings"]
        'p=0.6'
    """
    rows = [
        {"kind": name, "what": " ".join((kind.__doc__ or "").split("\n\n")[0].split()), "settings": spelled(kind())}
        for name, kind in BY_NAME.items()
    ]
    return pd.DataFrame(rows).set_index("kind")


def draw_kinds(shares: Mapping[Any, float], n_annotators: int, seed: int = 0) -> list[Any]:
    """Draws the kind of each annotator of a crowd, as in ``{"expert": 0.1, "hammer": 0.7, "spammer": 0.2}``.

    That mix is the one of Kumagai et al. (2025), "Meta-learning representations for learning from multiple
    annotators"; how accurate their experts and hammers are is not taken from there.

    Args:
        shares: probability of each kind, by name or kind; they sum to one.
        n_annotators: how many to draw.
        seed: of the draws.

    Returns:
        Kinds, for ``simulate_annotators``.

    Raises:
        MethodError: for an unknown kind, shares that are no probabilities, or a number or seed that is none.

    Examples:
        >>> crowdppl.simulation.draw_kinds({"expert": 0.1, "hammer": 0.7, "spammer": 0.2}, 4, seed=0)
        [Hammer(p=0.75), Hammer(p=0.75), Expert(p=0.95), Expert(p=0.95)]
    """
    kinds, p = kinds_and_shares(shares)
    n_annotators = whole_number("n_annotators", n_annotators, 1)
    chosen = np.random.default_rng(seed_number(seed)).choice(len(kinds), size=n_annotators, p=p)
    return [kinds[number] for number in chosen]


def kinds_and_shares(shares: Mapping[Any, float]) -> tuple[list[Any], np.ndarray]:
    """Kinds of annotators, and the probability of each.

    Raises:
        MethodError: for an unknown kind, or shares that are no probabilities.
    """
    if not isinstance(shares, Mapping):
        raise MethodError(f'shares of kinds are {shares!r}; give a mapping, as in {{"expert": 1.0}}')
    given = list(shares.values())
    if not given or not all(is_number(share) and share >= 0 for share in given) or abs(sum(given) - 1) > 1e-6:
        raise MethodError(f"shares of kinds are {given}; give probabilities that sum to one")
    p = np.array(given, np.float64)
    return [as_kind(kind) for kind in shares], p / p.sum()


def as_kinds(kinds: Sequence[Any] | Mapping[Any, int]) -> list[Any]:
    """Kinds one by one, from a list, or a mapping from kind to number; names become kinds with default settings.

    Raises:
        MethodError: when something is no kind, a number is no whole number, or there are none.
    """
    if isinstance(kinds, str | type) or not isinstance(kinds, Sequence | Mapping):
        raise MethodError(f"kinds={kinds!r}: give a list of kinds, or a mapping from kind to number of annotators")
    if isinstance(kinds, Mapping):
        for kind, number in kinds.items():
            if not is_whole(number) or number < 0:
                raise MethodError(f"kinds: {number!r} annotators of {kind!r}; give a whole number")
        kinds = [kind for kind, number in kinds.items() for _ in range(int(number))]
    if not len(kinds):
        raise MethodError("kinds are empty; there must be at least one annotator")
    return [as_kind(kind) for kind in kinds]


def as_kind(kind: Any) -> Any:
    """A kind, of a kind or its name.

    Raises:
        MethodError: for what is neither.
    """
    if isinstance(kind, str):
        return annotator_kind(kind)
    able = any(callable(getattr(kind, method, None)) for method in ("confusion", "opinions"))
    if isinstance(kind, type) or not able or not isinstance(getattr(kind, "name", None), str):
        raise MethodError(
            f"{kind!r} is no kind of annotator; give a name ({', '.join(BY_NAME)}), annotator_kind(name, ...), or "
            "an object of your own with a name and confusion(classes, rng)"
        )
    return kind


def spelled(kind: Any) -> str:
    """Settings of a kind as text."""
    text = repr(kind)
    return text[text.find("(") + 1 : -1] if text.endswith(")") else ""
