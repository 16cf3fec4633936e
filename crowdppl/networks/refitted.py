"""Classifiers with ``fit`` and ``predict_proba``, such as scikit-learn's, in the place of a network."""

from __future__ import annotations

from copy import deepcopy
from inspect import signature
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from crowdppl.core.validation import one_of, shown
from crowdppl.errors import MethodError

WEIGHT = "sample_weight"


class SklearnClassifier(nn.Module):
    """A classifier with ``fit(X, y)`` and ``predict_proba(X)`` as the network of a method, under em and vb.

    In each epoch a copy is fitted anew to the probabilities of the truth. A classifier that is given as
    ``network=`` is put into one of these. Features come flattened; tables are standardised, unless the attribute
    ``raw_features`` is set to True. A probability counts as 1 / (K n) at least, of K classes and n items: no class
    is ruled out for good. A ``random_state`` of None is set by the seed of the fit.

    An item's own labels are among those from which it is predicted. A classifier that learns single items by heart,
    such as a tree without bounds, repeats the votes: bound it (``min_samples_leaf``).

    Args:
        estimator: the classifier; fits train copies.
        labels: "soft" fits a row for each item and class, weighed by ``sample_weight``; "hard" fits the most
            probable class of each item, for classifiers without weights, such as ``GaussianProcessClassifier``.

    Raises:
        MethodError: for an object without ``fit`` or ``predict_proba``, and for soft labels where ``fit`` takes no
            ``sample_weight``.

    Examples:
        >>> from sklearn.linear_model import LogisticRegression
        >>> data = crowdppl.digits(seed=0).data
        >>> settings = {"network": LogisticRegression(C=0.01), "training": {"epochs": 4}}
        >>> posterior = crowdppl.fit("raykar", data, inference="em", settings=settings)
        >>> posterior.classify(data.features[:2]).shape
        (2, 10)
    """

    raw_features = False

    def __init__(self, estimator: Any, *, labels: Literal["soft", "hard"] = "soft") -> None:
        super().__init__()
        one_of("labels", labels, ("soft", "hard"))
        if not is_estimator(estimator):
            raise MethodError(f"the classifier is {shown(estimator)}, which lacks fit or predict_proba; give both")
        if labels == "soft" and not _weights(estimator):
            raise MethodError(
                f"{type(estimator).__name__}.fit takes no {WEIGHT}, by which soft labels are learned; give "
                "crowdppl.networks.SklearnClassifier(classifier, labels='hard'), or another classifier"
            )
        self.estimator, self.labels = estimator, labels
        self.fitted: Any = None
        self.n_classes = self.n_fitted = 0

    def refit(self, x: Tensor, targets: Tensor, seed: int) -> None:
        """Fits a copy to features (B, ...) and probabilities (B, K) of the classes."""
        rows, p = _table(x), targets.double().cpu().numpy()
        model, self.n_fitted = _fresh(self.estimator, seed), len(rows)
        if self.labels == "hard":
            self.fitted = model.fit(rows, p.argmax(1))
            return
        item, code = np.nonzero(p > np.finfo(np.float32).eps)
        self.fitted = model.fit(rows[item], code, **{_weights(model): p[item, code]})

    def forward(self, x: Tensor) -> Tensor:
        """Log-probabilities (B, K) for features (B, ...); even ones before the first fit."""
        p = np.ones((len(x), self.n_classes))
        if self.fitted is not None and len(x):
            p[:] = 0
            p[:, self.fitted.classes_] = self.fitted.predict_proba(_table(x))
            p = np.maximum(p, 1 / (self.n_classes * self.n_fitted))
        return torch.from_numpy(p).log().float().to(x.device).log_softmax(-1)

    def get_extra_state(self) -> Any:
        """The fitted classifier, which no file holds."""
        return self.fitted

    def set_extra_state(self, state: Any) -> None:
        """Sets what ``get_extra_state`` returned."""
        self.fitted = state


def is_estimator(x: Any) -> bool:
    """Whether it has the methods of a classifier of scikit-learn."""
    return callable(getattr(x, "fit", None)) and callable(getattr(x, "predict_proba", None))


def _weights(estimator: Any) -> str:
    """The argument of ``fit`` that weighs rows, "" for none; of a pipeline, that of its last step."""
    steps = getattr(estimator, "steps", None)
    if steps:
        name, last = steps[-1]
        return f"{name}__{WEIGHT}" if _weights(last) else ""
    return WEIGHT if WEIGHT in signature(estimator.fit).parameters else ""


def _fresh(estimator: Any, seed: int) -> Any:
    """A copy, with the seed in each random state of None."""
    out = deepcopy(estimator)
    if hasattr(out, "get_params"):
        states = {key for key, x in out.get_params().items() if key.split("__")[-1] == "random_state" and x is None}
        out.set_params(**dict.fromkeys(states, seed))
    return out


def _table(x: Tensor) -> np.ndarray:
    """Rows of numbers, float64 (B, D)."""
    return x.flatten(1).double().cpu().numpy()
