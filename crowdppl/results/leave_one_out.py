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
from crowdppl.errors import CrowdpplWarning, MethodError, ParetoWarning
from crowdppl.inference.predict.cavity import log_left_out
from crowdppl.inference.predict.held_out import given_the_rest
from crowdppl.inference.result import Fit
from crowdppl.networks.outputs import networks_of

ENGINES = "crowdppl.inference.predict.held_out"
"""Module that scores labels at draws; looked up by name, so that results import no engine."""
CLOSED = "crowdppl.inference.predict.cavity"
"""Module that takes what a label taught out of the parameters; looked up likewise."""
SAME = 1e-9
"""Log-probabilities that differ by less from draw to draw do so by rounding: there is nothing to weigh."""
DRAWS = 1000
"""Draws that enter, evenly spread over a sampler's chains, so that they hardly depend on each other."""
LIMIT = min(0.7, 1 - 1 / math.log10(DRAWS))
"""Pareto shape for which so many draws are too few (Vehtari et al. 2024, "Pareto smoothed importance sampling")."""


@dataclass(frozen=True, repr=False)
class LeaveOneOut:
    """Leave-one-out log predictive probabilities, in nats; higher is better.

    Attributes:
        unit: "label" or "item".
        values: DataFrame with a row for each label (item, annotator, label) or item: log_p, and for "psis"
            pareto_k, the shape of its importance weights: above 0.67 its value is not to be trusted; 0 where all
            draws say the same.
        warnings: what ArviZ warned of.
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
        """Standard error of ``mean``; labels of one item count as one observation."""
        items = self.values["item"] if self.unit == "label" else self.values.index
        return standard_error(self.values["log_p"].to_numpy(), pd.factorize(items)[0])

    def __repr__(self) -> str:
        score = f"{self.mean:.4f} +- {self.se:.4f} {'a' if self.unit == 'label' else 'an'} {self.unit}"
        if self.method == "closed":
            return f"<LeaveOneOut in closed form: {score}>"
        return f"<LeaveOneOut: {score}, {int((self.values['pareto_k'] > LIMIT).sum())} not to be trusted>"


def leave_one_out(
    posterior: Fit, unit: str = "label", method: Literal["auto", "psis", "closed"] = "auto"
) -> LeaveOneOut:
    """How probable each label (or item) is to a fit without it, from the one fit that there is.

    A label's prediction knows the other labels of its item. Two methods:

    - "psis": Pareto-smoothed importance sampling (Vehtari, Gelman & Gabry 2017, "Practical Bayesian model
      evaluation using leave-one-out cross-validation and WAIC") over draws of the parameters, every discrete
      variable summed out. Draws of vb come from its approximation, so that the scores are those of the
      approximation.
    - "closed": the cavity (as for Gaussian latent variables in Vehtari et al. 2016, "Bayesian leave-one-out
      cross-validation approximations for Gaussian latent variable models"). What the label taught is taken out of
      the counts behind the parameters; its item's truth, and what the item's other labels teach, follow; and the
      label is predicted from what is left: the sum over classes k of p(truth = k | other labels) times the expected
      probability of the label given k. For fits by em and vb of stories in which that probability is a product of
      entries of Dirichlets, such as Dawid-Skene, coins and their relatives. It neglects that other items' truths
      still know the label, so that it is a little too high. Where few labels stand behind a parameter, as in
      maximum likelihood with many classes and few labels an annotator, one label can move the whole fit, and it is
      much too high: use ``heldout_score`` there. With all truths known it is exact, the Dirichlet-multinomial
      predictive, if no annotator labels an item twice.

    Args:
        posterior: what a fit returned.
        unit: "label", or "item" for all labels of an item left out together. Of an item whose truth was given, the
            truth is left out with them and predicted, too, which ``heldout_score`` with whole items does not do.
        method: "psis" for fits by gibbs, nuts, vb and svi with draws; "closed" for em and vb; "auto" takes "psis"
            where there are draws.

    Raises:
        MethodError: for another unit or method, a corrected posterior, "psis" without draws, or "closed" where the
            story or the posterior has no closed form.

    Warns:
        ParetoWarning: with the number of labels or items whose importance weights are too uneven.
        CrowdpplWarning: with what else ArviZ warns of.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="em", seed=0)
        >>> round(float(posterior.leave_one_out().values["log_p"].mean()), 2)
        -0.67
    """
    validation.one_of("unit", unit, ("label", "item"))
    validation.one_of("method", method, ("auto", "psis", "closed"))
    if posterior.correction is not None and not posterior.correction.leaves_all:
        raise MethodError("leave-one-out scores a method's own posterior; give posterior.uncorrected()")
    points = {site.family for site in posterior.result.sites.values()} <= {"point"}
    if method == "psis" and points:
        others = "fit with gibbs, nuts or vb, use method='closed', or"
        if networks_of(posterior.model):  # which gibbs and nuts refuse, and which see what is left out
            others = "use"
        raise MethodError(
            f"{posterior.inference} found a point, and method='psis' weighs draws; {others} heldout_score, which "
            "fits again"
        )
    values = _index(posterior, unit)
    if method == "closed" or points:
        values["log_p"] = log_left_out(posterior, unit)
        return LeaveOneOut(unit, values, (), "closed")
    values["log_p"], values["pareto_k"], said = _weighed(posterior, unit)
    for text in _distrusted(values["pareto_k"], unit):
        warn(text, ParetoWarning)
    for text in said:
        if "Pareto" not in text:  # what that says is said above, with numbers
            warn(text, CrowdpplWarning)
    return LeaveOneOut(unit, values, said, "psis")


def _distrusted(pareto_k: pd.Series, unit: str) -> list[str]:
    """What is to be said of scores that are not to be trusted, if there are any."""
    bad = int((pareto_k > LIMIT).sum())
    if not bad:
        return []
    return [
        f"{bad:,} of {len(pareto_k):,} {unit}s have importance weights with a Pareto k above {LIMIT:.2f} (the "
        f"worst: {pareto_k.max():.2f}), so that their scores, and the mean, are not to be trusted; use "
        "heldout_score, which fits again without them"
    ]


def _weighed(posterior: Fit, unit: str) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Log predictive probability and Pareto shape of each label or item, and what ArviZ warned of."""
    found, said = [], dict[str, None]()
    for logs in given_the_rest(posterior, unit, DRAWS):
        log_p, pareto_k, more = _of_draws(logs)
        found.append((log_p, pareto_k))
        said |= more
    log_p, pareto_k = (np.concatenate(x) for x in zip(*found, strict=True))
    return log_p, pareto_k, tuple(said)


def _of_draws(logs: np.ndarray) -> tuple[np.ndarray, np.ndarray, dict[str, None]]:
    """Log predictive probability and Pareto shape of each column of (draws, n), and what ArviZ warned of."""
    import arviz as az  # slow to import

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        log_p, pareto_k = logs.mean(0), np.zeros(logs.shape[1])
        vary = np.ptp(logs, 0) > SAME  # ArviZ has no number for a tail of rounding, or one that looks alarming
        if vary.any():
            log_p[vary], pareto_k[vary] = _loo(az, logs[:, vary])
    said = dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning))
    if vary.sum() == 1:  # whose value ArviZ then finds the same as the sum of all, and asks to look at the model
        said = {text: None for text in said if "point-wise" not in text}
    return log_p, pareto_k, said


def _loo(az: Any, logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log predictive probability and Pareto shape of each column of (draws, n), by either generation of ArviZ."""
    from crowdppl.results.arviz import from_dict

    groups = {"posterior": {"one": np.zeros((1, len(logs)))}, "log_likelihood": {"unit": logs[None]}}
    given = from_dict(az, groups, {}, {"unit": ["n"]}, {})
    result = az.loo(given, pointwise=True, var_name="unit", reff=1.0)
    values = result.loo_i if hasattr(result, "loo_i") else result.elpd_i
    return np.asarray(values), np.asarray(result.pareto_k)


def _index(posterior: Fit, unit: str) -> pd.DataFrame:
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
