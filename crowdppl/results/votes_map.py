"""A map from a forecast and annotators' votes to truths, fitted to some that are known."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from crowdppl.data.annotations import Annotations
from crowdppl.results.correction import centred_logs, softmax

SCALE_SD, SHIFT_SD, VOTE_SD, MIX_SD = 0.5, 0.5, 0.4, 0.4
"""Prior standard deviations of the scale of log-probabilities less 1, of shifts, votes and mixing weights."""
MOST_CLASSES = 8
"""Classes up to which probabilities of one shift the logits of another."""


@dataclass(frozen=True, eq=False)
class VotesMap:
    """Probabilities of truths from a forecast (N, K) and labels: a logistic regression with Gaussian priors.

    The logit of class k on item i is (1 + s) log p[i, k] + b[k] + sum_j v[j] share[i, j, k] +
    sum_l W[l, k] p[i, l], where share is that of annotator j's labels of the item that are k. A forecast from
    labels alone cannot know which annotators are nearest to the truth; v tells.
    """

    forecast: np.ndarray
    item: np.ndarray
    annotator: np.ndarray
    label: np.ndarray
    n_annotators: int

    @classmethod
    def of(cls, forecast: np.ndarray, data: Annotations | None) -> VotesMap:
        """Of a forecast and the labels that name a class, if there are any."""
        none = np.empty(0, np.int64)
        if data is None:
            return cls(forecast, none, none, none, 0)
        item, annotator, label = (x.astype(np.int64) for x in data.label_codes())
        named = label < forecast.shape[1]
        return cls(forecast, item[named], annotator[named], label[named], data.n_annotators)

    def fitted(self, rows: np.ndarray, truth: np.ndarray) -> np.ndarray:
        """Probabilities (N, K) at the mode, given shares (n, K) of the classes among truths of some items (n,)."""
        from scipy.optimize import minimize  # slow to import

        part = self._of(rows)
        scales = part._scales()

        def loss(at: np.ndarray) -> tuple[float, np.ndarray]:
            p = softmax(part._logits(at * scales))
            value = -(truth * np.log(np.clip(p, 1e-300, None))).sum() + at @ at / 2
            return float(value), part._slope(p - truth) * scales + at

        best = minimize(loss, np.zeros(len(scales)), jac=True, method="L-BFGS-B").x
        return softmax(self._logits(best * scales))

    def _of(self, rows: np.ndarray) -> VotesMap:
        place = np.full(len(self.forecast), -1)
        place[rows] = np.arange(len(rows))
        kept = place[self.item] >= 0
        labels = place[self.item[kept]], self.annotator[kept], self.label[kept]
        return VotesMap(self.forecast[rows], *labels, self.n_annotators)

    @cached_property
    def _log_p(self) -> np.ndarray:
        return centred_logs(self.forecast)

    @cached_property
    def _share(self) -> np.ndarray:
        """Of each label among those of its annotator on its item (S,)."""
        pair = self.item * max(1, self.n_annotators) + self.annotator
        _, place, times = np.unique(pair, return_inverse=True, return_counts=True)
        return 1 / times[place]

    def _scales(self) -> np.ndarray:
        k = self.forecast.shape[1]
        mixed = k**2 if k <= MOST_CLASSES else 0
        parts = ((SCALE_SD, 1), (SHIFT_SD, k), (VOTE_SD, self.n_annotators), (MIX_SD, mixed))
        return np.concatenate([np.full(n, sd) for sd, n in parts])

    def _logits(self, theta: np.ndarray) -> np.ndarray:
        n, k = self.forecast.shape
        scale, shift, vote, mix = np.split(theta, np.cumsum([1, k, self.n_annotators]))
        cell = self.item * k + self.label
        votes = np.bincount(cell, vote[self.annotator] * self._share, n * k).reshape(n, k)
        out = (1 + scale) * self._log_p + shift + votes
        return np.asarray(out + self.forecast @ mix.reshape(k, k) if len(mix) else out)

    def _slope(self, error: np.ndarray) -> np.ndarray:
        """Of the loss by the parameters, from that by the logits (n, K)."""
        k = error.shape[1]
        of_votes = error[self.item, self.label] * self._share
        votes = np.bincount(self.annotator, of_votes, self.n_annotators)
        mixed = [(self.forecast.T @ error).ravel()] if k <= MOST_CLASSES else []
        return np.concatenate([[(error * self._log_p).sum()], error.sum(0), votes, *mixed])
