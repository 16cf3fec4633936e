"""Leave-one-out scores from one fit, by importance sampling."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl.errors import MethodError

if TYPE_CHECKING:
    from crowdppl.posterior import Posterior

ENGINES = "crowdppl.inference.predictive"
"""Module that scores labels; looked up by name, so that results import no engine."""
DRAWS = 1000
"""Draws that enter, evenly spread over a sampler's chains, so that they hardly depend on each other."""


@dataclass(frozen=True, repr=False)
class LeaveOneOut:
    """Leave-one-out log predictive probabilities, in nats; higher is better.

    Attributes:
        unit: "label" or "item".
        values: DataFrame with a row for each label (item, annotator, label) or item: log_p, and pareto_k, the
            shape of its importance weights: above 0.7 its value is not to be trusted.
        warnings: what ArviZ warned of.
    """

    unit: str
    values: pd.DataFrame
    warnings: tuple[str, ...]

    @property
    def mean(self) -> float:
        """Mean of ``log_p`` over labels or items."""
        return float(self.values["log_p"].mean())

    @property
    def se(self) -> float:
        """Standard error of ``mean``; labels of one item count as one observation."""
        items = self.values["item"] if self.unit == "label" else self.values.index
        return standard_error(self.values["log_p"].to_numpy(), pd.factorize(items)[0])

    def __repr__(self) -> str:
        bad = int((self.values["pareto_k"] > 0.7).sum())
        score = f"{self.mean:.4f} +- {self.se:.4f}"
        return (
            f"<LeaveOneOut: {score} {'a' if self.unit == 'label' else 'an'} {self.unit}, {bad} not to be trusted>"
        )


def leave_one_out(posterior: Posterior, unit: str = "label") -> LeaveOneOut:
    """How probable each label (or item) is to a fit without it, from the one fit that there is.

    Pareto-smoothed importance sampling (Vehtari, Gelman & Gabry 2017, "Practical Bayesian model evaluation using
    leave-one-out cross-validation and WAIC") over draws of the parameters, every discrete variable summed out. A
    label's prediction knows the other labels of its item. Draws of vb come from its approximation, so that the
    scores are those of the approximation. ArviZ's warnings are passed on.

    Args:
        posterior: by gibbs, nuts or vb.
        unit: "label", or "item" for all labels of an item left out together.

    Raises:
        MethodError: for another unit, an engine without draws, or a corrected posterior.
    """
    import arviz as az  # slow to import

    if unit not in ("label", "item"):
        raise MethodError(f"unit={unit!r} is neither 'label' nor 'item'")
    if posterior.correction is not None:
        raise MethodError("leave-one-out scores a method's own posterior; give posterior.uncorrected()")
    if {site.family for site in posterior.result.sites.values()} <= {"point"}:
        raise MethodError(
            f"{posterior.inference} found a point, and leave-one-out weighs draws; fit with gibbs, nuts or vb, or "
            "use heldout_score, which fits again"
        )
    logs = import_module(ENGINES).given_the_rest(posterior, unit, DRAWS)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = _loo(az, logs)
    said = tuple(dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning)))
    for text in said:
        warnings.warn(text, stacklevel=2)
    values = _index(posterior, unit)
    values["log_p"], values["pareto_k"] = found
    return LeaveOneOut(unit, values, said)


def _loo(az: Any, logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log predictive probability and Pareto shape of each column of (draws, n), by either generation of ArviZ."""
    from crowdppl.arviz_export import from_dict

    groups = {"posterior": {"one": np.zeros((1, len(logs)))}, "log_likelihood": {"unit": logs[None]}}
    given = from_dict(az, groups, {}, {"unit": ["n"]}, {})
    result = az.loo(given, pointwise=True, var_name="unit", reff=1.0)
    values = result.loo_i if hasattr(result, "loo_i") else result.elpd_i
    return np.asarray(values), np.asarray(result.pareto_k)


def _index(posterior: Posterior, unit: str) -> pd.DataFrame:
    rows = posterior.data.frame()
    if unit == "label":
        return rows.loc[:, ["item", "annotator", "label"]]
    counts = posterior.data.items.isin(rows["item"])
    return pd.DataFrame(index=posterior.data.items[counts])


def standard_error(values: np.ndarray, owner: np.ndarray) -> float:
    """Standard error of a mean over values of which those of one owner (an item) depend on one another.

    Args:
        values: (n,).
        owner: (n,) codes from 0.
    """
    n_owners = int(owner.max()) + 1
    if n_owners < 2:
        return float("nan")
    sums = np.bincount(owner, values - values.mean())
    return float(np.sqrt((sums**2).sum() * n_owners / (n_owners - 1)) / len(values))
