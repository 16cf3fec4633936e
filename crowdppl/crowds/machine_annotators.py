"""Machine annotators: classifiers that learned from few items and label others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from crowdppl.crowds.opinions import Draw, Opinion, Scene
from crowdppl.doors.counts import share_between
from crowdppl.errors import DataError, MethodError

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

    def opinions(self, scene: Scene, annotator: str, draw: Draw) -> Iterator[tuple[str, Opinion]]:
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


def _counted(scene: Scene, labels: np.ndarray, able: np.ndarray) -> np.ndarray:
    """Shares of labels by truth over the items marked, (K, K); NaN for a truth that none of them has."""
    counts = np.zeros((scene.n_classes, scene.n_classes))
    np.add.at(counts, (scene.truth[able], labels[able]), 1)
    given = counts.sum(1, keepdims=True)
    shares: np.ndarray = np.divide(counts, given, out=np.full_like(counts, np.nan), where=given > 0)
    return shares
