"""A map from forecasts and annotators' votes to truths, fitted to some that are known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from crowdppl.data.annotations import Annotations
from crowdppl.data.ragged import runs
from crowdppl.inference.result import CalibrationMap

SCALE_SD, SHIFT_SD, VOTE_SD, MIX_SD = 0.5, 0.5, 0.4, 0.4
"""Prior standard deviations of the scale of log-probabilities less 1, of shifts, votes and mixing weights."""
VOTE_SDS = (0.15, 0.4, 0.8)
"""Standard deviations of votes that are weighed by the evidence of known truths."""
MOST_CLASSES = 8
"""Classes up to which probabilities of one shift the logits of another."""
MOST_ANNOTATORS = 500
"""Annotators whose votes count, at most: those with the most labels of known items."""
DRAWS = 60
"""Of a map's parameters; half of them mirror the others at the mode."""
LEAST_WEIGHT = 1e-3
"""Shares of the evidence below which a map is left out."""
MOST_NUMBERS = 2_000_000
"""Logits that are held at once."""


@dataclass(frozen=True, eq=False)
class VotesMap:
    """Probabilities of truths from forecasts (N, K) and labels: logistic regressions with Gaussian priors.

    The logit of class k on item i is (1 + s) log p[i, k] + b[k] + sum_j v[j] share[i, j, k] +
    sum_l W[l, k] p[i, l], where share is that of annotator j's labels of the item that are k. A forecast from
    labels alone cannot know which annotators are nearest to the truth; v tells. Labels are in the order of items.
    """

    forecasts: Sequence[np.ndarray]
    item: np.ndarray
    annotator: np.ndarray
    label: np.ndarray
    n_annotators: int

    @classmethod
    def of(cls, forecasts: Sequence[np.ndarray], data: Annotations | None) -> VotesMap:
        """Of forecasts, one at least, and the labels that name a class, if there are any."""
        none = np.empty(0, np.int64)
        if data is None:
            return cls(forecasts, none, none, none, 0)
        item, annotator, label = (x.astype(np.int64) for x in data.label_codes())
        named = np.flatnonzero(label < forecasts[0].shape[1])
        named = named[np.argsort(item[named], kind="stable")]
        return cls(forecasts, item[named], annotator[named], label[named], data.n_annotators)

    def fitted(self, rows: np.ndarray, truth: np.ndarray) -> np.ndarray:
        """Probabilities (N, K) at the mode, given shares (n, K) of the classes among truths of some items (n,).

        By the first forecast, with votes of standard deviation 0.4.
        """
        voters = self._voters(rows)
        known = _Regression(*self._columns(0, rows, voters, self._mixed), truth, self._scales(VOTE_SD, len(voters)))
        at = known.scales * known.mode[0]
        return np.concatenate([_shares(x)[..., 0] for x in self._logits(0, voters, at[:, None])])

    def learned(self, rows: np.ndarray, truth: np.ndarray, prior: Sequence[float], seed: int) -> CalibrationMap:
        """The map of known truths, shares (n, K) of the classes of some items (n,).

        One for each forecast, which has a ``prior`` weight, and each standard deviation of votes. They are weighed
        by their evidence, and drawn from, both by Laplace's approximation.
        """
        voters, stream = self._voters(rows), np.random.default_rng(seed)
        tried: list[tuple[int, float, np.ndarray]] = []
        for number, weight in enumerate(prior):
            log_p, columns = self._columns(number, rows, voters, self._mixed)
            for sd in VOTE_SDS if len(voters) else VOTE_SDS[:1]:
                known = _Regression(log_p, columns, truth, self._scales(sd, len(voters)))
                evidence, draws = known.laplace(stream)
                tried.append((number, np.log(weight) + evidence, draws))
        forecast, log_weights, draws = (np.array(x) for x in zip(*tried, strict=True))
        weights = _shares(log_weights[:, None])[:, 0]
        kept = weights >= LEAST_WEIGHT
        k = self.forecasts[0].shape[1]
        scale, shift, votes, mix = np.split(draws[kept], np.cumsum([1, k, len(voters)]), 2)
        mixed = mix.reshape(*mix.shape[:2], k, k) if self._mixed else None
        return CalibrationMap(
            forecast[kept], weights[kept] / weights[kept].sum(), voters, 1 + scale[..., 0], shift, votes, mixed
        )

    def mapped(self, found: CalibrationMap) -> np.ndarray:
        """Probabilities (N, K) of the truths by all maps: half are of draws, on average, and half of the mode.

        Draws alone are less sure than right in crowds of many, and the mode is surer where few err alike.
        """
        out = np.zeros(self.forecasts[0].shape)
        for number, weight in enumerate(found.weights):
            parts = self._logits(found.forecast[number], found.annotators, found.parameters(number))
            out += weight * np.concatenate(
                [(_shares(x).mean(2) + _shares(x.mean(2, keepdims=True))[..., 0]) / 2 for x in parts]
            )
        return np.asarray(out / out.sum(1, keepdims=True))

    def truths(self, found: CalibrationMap, n: int, stream: np.random.Generator) -> np.ndarray:
        """Draws of the truths, codes (N, n): each takes the mode or a draw of a map."""
        parts = []
        for number, times in enumerate(stream.multinomial(n, found.weights).tolist()):
            if not times:
                continue
            drawn = found.parameters(number)
            taken = drawn[:, stream.integers(drawn.shape[1], size=times)]
            taken = np.where(stream.random(times) < 0.5, drawn.mean(1, keepdims=True), taken)
            of_draws = self._logits(found.forecast[number], found.annotators, taken)
            every = [_shares(x).cumsum(1)[:, :-1] for x in of_draws]
            codes = [(x < stream.random((len(x), 1, times))).sum(1, dtype=np.int32) for x in every]
            parts.append(np.concatenate(codes))
        return np.concatenate(parts, 1)

    def _logits(self, forecast: int, voters: np.ndarray, parameters: np.ndarray) -> Iterator[np.ndarray]:
        """Of some items after others, (n, K, D) for parameters (P, D)."""
        n, k = self.forecasts[0].shape
        step = max(1, MOST_NUMBERS // (k * parameters.shape[1]))
        for start in range(0, n, step):
            some = np.arange(start, min(n, start + step))
            log_p, columns = self._columns(forecast, some, voters, len(parameters) > 1 + k + len(voters))
            yield log_p[..., None] + (columns @ parameters).reshape(*log_p.shape, -1)

    def _columns(self, forecast: int, rows: np.ndarray, voters: np.ndarray, mixed: bool) -> tuple[np.ndarray, Any]:
        """Of some items (n,): centred log-probabilities (n, K), and what parameters multiply, sparse (n K, P)."""
        from scipy import sparse  # slow to import

        p = self.forecasts[forecast][rows]
        (n, k), log_p = p.shape, centred_logs(p)
        of_row, at = runs(self._first[rows], self._first[rows + 1] - self._first[rows])
        place = np.full(self.n_annotators + 1, -1)
        place[voters] = np.arange(len(voters))
        column = place[self.annotator[at]]
        of_row, at, column = (x[column >= 0] for x in (of_row, at, column))
        cells = of_row * k + self.label[at], column
        parts = [
            sparse.csr_array(log_p.reshape(-1, 1)),
            sparse.csr_array(np.tile(np.eye(k), (n, 1))),
            sparse.csr_array((self._share[at], cells), shape=(n * k, len(voters))),
        ]
        if mixed:
            parts.append(sparse.csr_array((p[:, None, :, None] * np.eye(k)[:, None]).reshape(n * k, k**2)))
        return log_p, sparse.hstack(parts, format="csr")

    def _voters(self, rows: np.ndarray) -> np.ndarray:
        """Codes of the annotators whose votes count, in order."""
        here = np.zeros(len(self.forecasts[0]), bool)
        here[rows] = True
        times = np.bincount(self.annotator[here[self.item]], minlength=self.n_annotators)
        most = np.argsort(-times, kind="stable")[:MOST_ANNOTATORS]
        return np.sort(most[times[most] > 0])

    def _scales(self, vote_sd: float, voters: int) -> np.ndarray:
        """Prior standard deviations of all parameters (P,)."""
        k = self.forecasts[0].shape[1]
        parts = ((SCALE_SD, 1), (SHIFT_SD, k), (vote_sd, voters), (MIX_SD, k**2 if self._mixed else 0))
        return np.concatenate([np.full(n, sd) for sd, n in parts])

    @property
    def _mixed(self) -> bool:
        """Whether probabilities of one class shift the logits of another."""
        return bool(self.forecasts[0].shape[1] <= MOST_CLASSES)

    @cached_property
    def _first(self) -> np.ndarray:
        """Where the labels of each item begin, and where the last ends, (N + 1,)."""
        return np.searchsorted(self.item, np.arange(len(self.forecasts[0]) + 1))

    @cached_property
    def _share(self) -> np.ndarray:
        """Of each label among those of its annotator on its item (S,)."""
        pair = self.item * max(1, self.n_annotators) + self.annotator
        _, place, times = np.unique(pair, return_inverse=True, return_counts=True)
        return np.asarray(1 / times[place])


@dataclass(frozen=True, eq=False)
class _Regression:
    """Known truths, shares (n, K), by logits log_p (n, K) + columns (n K, P) @ (scales * z), z of unit variance."""

    log_p: np.ndarray
    columns: Any
    truth: np.ndarray
    scales: np.ndarray

    @cached_property
    def design(self) -> Any:
        """Columns in units of their prior standard deviations, sparse (n K, P)."""
        return (self.columns * self.scales).tocsr()

    @cached_property
    def mode(self) -> tuple[np.ndarray, float]:
        """The most probable z (P,), and the logarithm of likelihood and prior there."""
        from scipy.optimize import minimize  # slow to import

        turned = self.design.T.tocsr()

        def loss(z: np.ndarray) -> tuple[float, np.ndarray]:
            p = self.probabilities(z)
            value = -(self.truth * np.log(np.clip(p, 1e-300, None))).sum() + z @ z / 2
            return float(value), turned @ (p - self.truth).ravel() + z

        best = minimize(loss, np.zeros(len(self.scales)), jac=True, method="L-BFGS-B")
        return best.x, -float(best.fun)

    def probabilities(self, z: np.ndarray) -> np.ndarray:
        """Of the classes of each item (n, K)."""
        return _shares((self.log_p + (self.design @ z).reshape(self.log_p.shape))[..., None])[..., 0]

    def laplace(self, stream: np.random.Generator) -> tuple[float, np.ndarray]:
        """The logarithm of the evidence, and draws of parameters (D, P), by a Gaussian at the mode."""
        from scipy import sparse  # slow to import
        from scipy.linalg import solve_triangular

        mode, best = self.mode
        p, (n, k) = self.probabilities(mode), self.log_p.shape
        weighed = sparse.diags_array(p.ravel()) @ self.design
        mean = sparse.kron(sparse.eye_array(n), np.ones((1, k)), format="csr") @ weighed
        curvature = (self.design.T @ weighed - mean.T @ mean).toarray() + np.eye(len(mode))
        root = np.linalg.cholesky(curvature)
        noise = stream.standard_normal((len(mode), DRAWS // 2))
        shift = solve_triangular(root.T, np.concatenate([noise, -noise], 1))
        return best - float(np.log(root.diagonal()).sum()), self.scales * (mode[:, None] + shift).T


def _shares(x: np.ndarray) -> np.ndarray:
    """Shares of the classes, the last dimension but one, proportional to exp(x)."""
    raised = np.exp(x - x.max(-2, keepdims=True))
    return np.asarray(raised / raised.sum(-2, keepdims=True))


def centred_logs(probabilities: np.ndarray) -> np.ndarray:
    """Logarithms of probabilities (N, K), at least 1e-6, less their mean over classes."""
    x = np.log(np.clip(probabilities, 1e-6, None))
    return np.asarray(x - x.mean(1, keepdims=True))
