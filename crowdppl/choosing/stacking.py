"""Weights under which methods predict best together."""

from __future__ import annotations

import numpy as np

LEAST_LOG = -600.0
"""Log-probabilities this far below the best of their row count as this far."""
LEAST_WEIGHT = 0.01
"""Methods that weigh less in an average are left out of it: they would have to be fitted all the same."""


def stacking_weights(logs: np.ndarray) -> np.ndarray:
    """Weights of the mixture under which observations are most probable: (n, M) log-probabilities to (M,).

    The mean log of the mixture is concave in the weights. EM would climb it, too, but hardly moves where members
    are nearly as good as each other, which is where weights are asked for.
    """
    from scipy.optimize import minimize  # slow to import

    p = np.exp(np.maximum(logs - logs.max(1, keepdims=True), LEAST_LOG))
    even = np.full(p.shape[1], 1 / p.shape[1])

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        mixture = p @ weights
        return -float(np.log(mixture).mean()), -(p / mixture[:, None]).mean(0)

    adds_up = {"type": "eq", "fun": lambda weights: weights.sum() - 1, "jac": np.ones_like}
    found = minimize(
        loss,
        even,
        jac=True,
        method="SLSQP",
        bounds=[(0, 1)] * len(even),
        constraints=adds_up,
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    weights = np.clip(found.x, 0, 1)
    return np.asarray(weights / weights.sum())
