"""Leave-one-out scores from one fit: by importance sampling, or in closed form."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from crowdppl.core import validation
from crowdppl.core.validation import warn
from crowdppl.data.split import whole_units
from crowdppl.errors import CrowdpplWarning, MethodError, ParetoWarning
from crowdppl.inference.predict.cavity import log_left_out
from crowdppl.inference.predict.held_out import given_the_rest
from crowdppl.inference.result import Fit
from crowdppl.networks.outputs import networks_of
from crowdppl.results.arviz import SAMPLE, as_groups

ROUNDING = 1e-9
"""Differences of log-probabilities between draws below this are rounding."""
DRAWS = 1000
"""Draws that are used, evenly spread over a sampler's chains."""
MAX_PARETO_K = min(0.7, 1 - 1 / math.log10(DRAWS))
"""Pareto shape above which draws are too few (Vehtari et al. 2024, "Pareto smoothed importance sampling")."""


@dataclass(frozen=True, repr=False)
class LeaveOneOut:
    """Leave-one-out log predictive probabilities, in nats; higher is better.

    Attributes:
        unit: "label" or "item".
        values: DataFrame with a row for each label (``item``, ``annotator``, ``label``) or, by id, each item:

            - ``unit``: code of the item, or of the sequence or set that it is of
            - ``log_p``: log predictive probability
            - ``pareto_k``: by "psis", shape of the importance weights; above 0.67, ``log_p`` is unreliable; 0 where
              all draws agree
        warnings: of ArviZ.
        method: "psis", or "closed" for the closed form.
    """

    unit: str
    values: pd.DataFrame
    warnings: tuple[str, ...]
    method: str

    @property
    def mean(self) -> float:
        """Mean of ``log_p`` over labels or items."""
        return float(self.values["log_p"].mean())

    @property
    def se(self) -> float:
        """Standard error of ``mean``; labels of one item, sequence or set count as one observation."""
        return standard_error(self.values["log_p"].to_numpy(), self.values["unit"].to_numpy())

    def __repr__(self) -> str:
        score = f"{self.mean:.4f} +- {self.se:.4f} {'a' if self.unit == 'label' else 'an'} {self.unit}"
        if self.method == "closed":
            return f"<LeaveOneOut in closed form: {score}>"
        return f"<LeaveOneOut: {score}, {int((self.values['pareto_k'] > MAX_PARETO_K).sum())} unreliable>"


def leave_one_out(
    posterior: Fit, unit: str = "label", method: Literal["auto", "psis", "closed"] = "auto"
) -> LeaveOneOut:
    """Log predictive probability of each label (or item) under a fit without it, from one fit.

    A label is predicted from the other labels of its item. Two methods:

    - "psis": Pareto-smoothed importance sampling (Vehtari, Gelman & Gabry 2017, "Practical Bayesian model
      evaluation using leave-one-out cross-validation and WAIC") over draws of the parameters, every discrete
      variable summed out. For vb, draws come from its approximation.
    - "closed": the cavity (as for Gaussian latent variables in Vehtari et al. 2016, "Bayesian leave-one-out
      cross-validation approximations for Gaussian latent variable models"). The label's counts are subtracted from
      those of the parameters, and the label is predicted by the sum over classes k of p(truth = k | other labels)
      times its expected probability given k. For fits by em and vb of models such as Dawid-Skene and coins. Other
      items' truths still depend on the label, so the score is a little too high, and much too high in maximum
      likelihood with many classes and few labels an annotator: use ``heldout_score`` there.

    Args:
        posterior: the fit.
        unit: "label", or "item" for all labels of an item left out together, with its truth where that was given.
        method: "psis" for fits with draws (gibbs, nuts, vb, svi); "closed" for em and vb; "auto" takes "psis" where
            there are draws.

    Raises:
        MethodError: for another unit or method, a corrected posterior, "psis" without draws, or "closed" where the
            model has no closed form.

    Warns:
        ParetoWarning: with the number of labels or items whose importance weights are too uneven.
        CrowdpplWarning: other warnings of ArviZ.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="em", seed=0)
        >>> round(float(posterior.leave_one_out().values["log_p"].mean()), 2)
        -0.67
    """
    validation.one_of("unit", unit, ("label", "item"))
    validation.one_of("method", method, ("auto", "psis", "closed"))
    if posterior.correction is not None and not posterior.correction.leaves_all:
        raise MethodError("leave_one_out does not score corrected probabilities; give posterior.uncorrected()")
    points = {site.family for site in posterior.result.sites.values()} <= {"point"}
    if method == "psis" and points:
        others = "" if networks_of(posterior.model) else "fit with gibbs, nuts or vb, use method='closed', or "
        raise MethodError(
            f"method='psis' needs draws, and {posterior.inference} found a point; {others}use heldout_score"
        )
    values = _index(posterior, unit)
    if method == "closed" or points:
        values["log_p"] = log_left_out(posterior, unit)
        return LeaveOneOut(unit, values, (), "closed")
    parts, notes = [], dict[str, None]()
    for logs in given_the_rest(posterior, unit, DRAWS):
        log_p, pareto_k, more = _psis(logs)
        parts.append((log_p, pareto_k))
        notes |= more
    values["log_p"], values["pareto_k"] = (np.concatenate(x) for x in zip(*parts, strict=True))
    bad, worst = int((values["pareto_k"] > MAX_PARETO_K).sum()), values["pareto_k"].max()
    if bad:
        warn(
            f"{bad:,} of {len(values):,} {unit}s have importance weights with a Pareto k above {MAX_PARETO_K:.2f} "
            f"(the worst: {worst:.2f}), and unreliable scores, as is the mean; use heldout_score",
            ParetoWarning,
        )
    for text in notes:
        if "Pareto" not in text:
            warn(text, CrowdpplWarning)
    return LeaveOneOut(unit, values, tuple(notes), "psis")


def _psis(logs: np.ndarray) -> tuple[np.ndarray, np.ndarray, dict[str, None]]:
    """Log predictive probability and Pareto shape of each column of (draws, n), and the warnings of ArviZ."""
    import arviz as az  # slow to import

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        log_p, pareto_k = logs.mean(0), np.zeros(logs.shape[1])
        vary = np.ptp(logs, 0) > ROUNDING  # ArviZ has no Pareto shape for a tail of rounding
        if vary.any():
            log_p[vary], pareto_k[vary] = _loo(az, logs[:, vary])
    notes = dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning))
    if vary.sum() == 1:  # ArviZ warns that this one value equals the sum of all
        notes = {text: None for text in notes if "point-wise" not in text}
    return log_p, pareto_k, notes


def _loo(az: Any, logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log predictive probability and Pareto shape of each column of (draws, n), by ArviZ 0 or 1."""
    import xarray as xr  # slow to import

    drawn = xr.Dataset({"one": (SAMPLE, np.zeros((1, len(logs))))})
    scored = xr.Dataset({"unit": ((*SAMPLE, "n"), logs[None])})
    result = az.loo(
        as_groups({"posterior": drawn, "log_likelihood": scored}), pointwise=True, var_name="unit", reff=1.0
    )
    values = result.loo_i if hasattr(result, "loo_i") else result.elpd_i
    return np.asarray(values), np.asarray(result.pareto_k)


def _index(posterior: Fit, unit: str) -> pd.DataFrame:
    """The labels, or the items that have labels, as a table to add scores to."""
    data, item = posterior.data, posterior.data.label_codes()[0]
    if unit == "label":
        rest = data.frame().loc[:, ["annotator", "label"]]
        return pd.DataFrame(data.item_columns(item)).join(rest).assign(unit=whole_units(data)[item])
    labelled = np.unique(item)
    return pd.DataFrame({"unit": whole_units(data)[labelled]}, index=data.item_index[labelled])


def standard_error(values: np.ndarray, owner: np.ndarray) -> float:
    """Standard error of the mean of values (n,) that are clustered by owner, codes (n,)."""
    code, owners = pd.factorize(owner)
    if len(owners) < 2:
        return float("nan")
    sums = np.bincount(code, values - values.mean())
    return float(np.sqrt((sums**2).sum() * len(owners) / (len(owners) - 1)) / len(values))
