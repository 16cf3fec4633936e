"""How well a posterior knows the truth, scored against known truths."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl.choices import best
from crowdppl.codebook import Codebook, plain
from crowdppl.errors import CrowdpplWarning, DataError

if TYPE_CHECKING:
    from crowdppl.posterior import Posterior

SMALLEST = 1e-10
"""Probabilities are clipped from below before a logarithm, so that one certain error is not infinitely bad."""
BINS = 15
"""Bins of confidence of the calibration error."""


@dataclass(frozen=True)
class Evaluation:
    """Scores of a posterior; ``dict(evaluation)`` and ``evaluation["accuracy"]`` work.

    Attributes:
        n: items that were scored.
        unscored: items with a known truth that the posterior knows nothing of.
        accuracy: share of items whose most probable class is the truth; a tie of m classes that holds the
            truth counts 1/m.
        log_score: mean of -log p(truth) in nats; 0 is perfect, log K is knowing nothing. Probabilities are
            clipped at 1e-10.
        brier: mean over items of the summed squared error of the K probabilities; 0 is perfect, 2 the worst.
        ece: expected calibration error: how far confidence and accuracy lie apart, averaged over 15 equal bins
            of confidence with the items as weights; 0 is perfect.
    """

    n: int
    unscored: int
    accuracy: float
    log_score: float
    brier: float
    ece: float

    def keys(self) -> Iterator[str]:
        """Names of the scores."""
        return (field.name for field in fields(self))

    def __getitem__(self, name: str) -> float:
        """A score by its name."""
        if name not in self.keys():
            raise KeyError(name)
        value: float = getattr(self, name)
        return value


def evaluate(posterior: Posterior | pd.DataFrame, gold: pd.Series | Mapping[Any, Any]) -> Evaluation:
    """Scores label probabilities against known truths.

    Args:
        posterior: a posterior, or its probabilities (items x classes).
        gold: the true class of items by their ids. Items that the posterior does not have are left out,
            counted and warned of.

    Raises:
        DataError: when there is no item to score, an id has two truths, or a truth is no class.
    """
    table = posterior if isinstance(posterior, pd.DataFrame) else posterior.probabilities()
    truth = gold if isinstance(gold, pd.Series) else pd.Series(dict(gold), dtype=object)
    truth = truth[~truth.isna()]
    row = _rows(table.index, truth.index)
    code = _codes(table.columns, truth[row >= 0])
    unscored = int((row < 0).sum())
    if unscored:
        warnings.warn(
            f"{unscored} of {len(truth)} items with a known truth are not in the posterior and are not scored",
            CrowdpplWarning,
            stacklevel=2,
        )
    p = table.to_numpy(np.float64)[row[row >= 0]]
    return Evaluation(
        len(p),
        unscored,
        accuracy(p, code),
        log_score(p, code),
        brier_score(p, code),
        calibration_error(p, code),
    )


def accuracy(probabilities: np.ndarray, truth: np.ndarray) -> float:
    """Share of right answers, ties split in expectation: probabilities (N, K), truth codes (N,)."""
    return float(_right(probabilities, truth).mean())


def log_score(probabilities: np.ndarray, truth: np.ndarray) -> float:
    """Mean of -log p(truth) in nats."""
    p = probabilities[np.arange(len(truth)), truth]
    return float(-np.log(np.clip(p, SMALLEST, None)).mean())


def brier_score(probabilities: np.ndarray, truth: np.ndarray) -> float:
    """Mean over items of sum over classes of (p - 1[class is the truth]) squared."""
    error = probabilities.copy()
    error[np.arange(len(truth)), truth] -= 1
    return float((error**2).sum(1).mean())


def calibration_error(probabilities: np.ndarray, truth: np.ndarray, bins: int = BINS) -> float:
    """Expected calibration error over equal bins of the highest probability, each open below."""
    confidence, right = probabilities.max(1), _right(probabilities, truth)
    home = np.clip(np.ceil(confidence * bins - 1e-9).astype(np.int64) - 1, 0, bins - 1)
    gap = np.bincount(home, confidence - right, minlength=bins)
    return float(np.abs(gap).sum() / len(truth))


def _right(probabilities: np.ndarray, truth: np.ndarray) -> np.ndarray:
    top = best(probabilities)
    return np.asarray(top[np.arange(len(truth)), truth] / top.sum(1))


def _rows(known: pd.Index, asked: pd.Index) -> np.ndarray:
    """The row of each item of gold in the table, -1 where it has none."""
    if not asked.is_unique:
        twice = plain(asked[asked.duplicated()][0])
        raise DataError(f"gold names the item {twice!r} more than once; keep one truth an item")
    row = Codebook("item", known).codes(asked)
    if not (row >= 0).any():
        example = f" (gold has {plain(asked[0])!r}, the posterior {plain(known[0])!r})" if len(asked) else ""
        raise DataError(f"no item of gold is in the posterior{example}; spell items as the answers do")
    return row


def _codes(classes: pd.Index, truth: pd.Series) -> np.ndarray:
    code = Codebook("class", classes).codes(truth)
    unknown = np.flatnonzero(code < 0)
    if len(unknown):
        item, value = plain(truth.index[unknown[0]]), plain(truth.iloc[unknown[0]])
        names = ", ".join(repr(plain(name)) for name in classes)
        raise DataError(
            f"the truth {value!r} of item {item!r} is none of the classes ({names}); correct it, or list all "
            "classes when the answers are read, in classes="
        )
    return code
