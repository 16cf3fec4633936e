"""What a posterior says about annotators and classes: accuracies, confusions and shares, with their names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl.data.annotations import Annotations
from crowdppl.data.decoding import labels_given
from crowdppl.doors.counts import switch
from crowdppl.errors import MethodError
from crowdppl.results import intervals
from crowdppl.statistics.estimates import Estimate

if TYPE_CHECKING:
    import xarray as xr

    from crowdppl.posterior import Posterior


def annotators(posterior: Posterior, level: float = 0.95) -> pd.DataFrame:
    """How good each annotator is.

    Mean field takes truths for known, so that intervals of vb are widened to what the linear response of its
    fixed point says. Of crowds drawn from one_coin (right=4, wrong=2; 60 items with three labels by eight
    annotators; 44 crowds each) those of level .9 held .92 of the accuracies with two classes and .90 with
    three, and .77 and .79 before they were widened. What one fixed point cannot know of is another: under flat
    priors, where votes may be read the wrong way round, they held .61 and .82. Where labels depend on
    Gaussians, they are not widened.

    Args:
        level: probability of the intervals.

    Returns:
        DataFrame by annotator: labels given, abstentions and those before an update included; accuracy, the
        probability of naming the truth of a new item, if any class is named, with accuracy_sd, accuracy_low and
        accuracy_high; where abstentions are named, the probability of an abstention with its own; with two
        classes also sensitivity (the second class is the positive one) and specificity with theirs, among
        classes named, too. NaN where the engine gives points.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.annotators()[["labels", "accuracy", "accuracy_low", "accuracy_high"]].round(2)
                   labels  accuracy  accuracy_low  accuracy_high
        annotator
        1             135      0.88          0.82           0.93
        2              45      0.70          0.56           0.82
        3              45      0.79          0.66           0.90
        4              45      0.85          0.73           0.94
        5              45      0.80          0.67           0.90
    """
    data, result, memory = posterior.data, posterior.result, posterior.memory
    columns: dict[str, Any] = {"labels": labels_given(data) + (0 if memory is None else memory.labels)}
    columns |= intervals.accuracy(result, level).columns("accuracy")
    if data.n_answers > data.n_classes:
        columns |= intervals.abstention(result, level).columns("abstention")
    if data.n_classes == 2:
        table = intervals.among_classes(result, level)
        columns |= table.at(slice(None), 1, 1).columns("sensitivity")
        columns |= table.at(slice(None), 0, 0).columns("specificity")
    return pd.DataFrame(columns, index=data.annotators)


def confusion(posterior: Posterior, draws: bool = False) -> xr.DataArray:
    """p(label | annotator, truth) of a new item, whatever the story: along ``label`` it sums to one.

    Where items differ, as in difficulty, it is the mean over the items that the story expects; where labels
    depend on item covariates, it is of an item whose covariates are the means of all.

    Args:
        draws: instead of the posterior mean, draws of it, with a first dimension ``draw``.

    Returns:
        xarray DataArray with dimensions annotator, truth, label and their ids as coordinates; where annotators
        may abstain, the abstentions are the last labels.

    Raises:
        MethodError: when draws are asked of an engine that gives points, or by number.

    Examples:
        >>> posterior = crowdppl.fit("bayesian_dawid_skene", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.confusion().sel(annotator="2").to_pandas().round(2)
        label     1     2     3     4
        truth
        1      0.79  0.16  0.02  0.02
        2      0.07  0.63  0.29  0.02
        3      0.05  0.05  0.68  0.23
        4      0.10  0.10  0.10  0.70
    """
    if not switch("draws", draws, "to_arviz(draws=...) makes as many as asked"):
        return _array(posterior.data, posterior.result.table)
    if posterior.result.table_draws is None:
        raise MethodError(f"{posterior.inference} found a point without draws; fit with vb, gibbs or nuts")
    return _array(posterior.data, posterior.result.table_draws)


def confusion_intervals(posterior: Posterior, level: float = 0.95) -> pd.DataFrame:
    """The confusion with its uncertainty: DataFrame by (annotator, truth, label) with mean, sd, low, high.

    By vb they are widened as those of ``annotators`` are.

    Examples:
        >>> posterior = crowdppl.fit("bayesian_dawid_skene", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.confusion_intervals().loc[("2", 1)].round(2)
               mean    sd   low  high
        label
        1      0.79  0.08  0.61  0.93
        2      0.16  0.08  0.04  0.34
        3      0.02  0.03  0.00  0.11
        4      0.02  0.03  0.00  0.11
    """
    return _rows(posterior.data, intervals.confusion(posterior.result, level))


def prevalence(posterior: Posterior, level: float = 0.95) -> pd.DataFrame:
    """Share of each class among items: DataFrame by class with mean, sd, low and high.

    Examples:
        >>> posterior = crowdppl.fit("dawid_skene", crowdppl.anaesthetists(), inference="em", seed=0)
        >>> posterior.prevalence()["mean"].round(2).to_dict()
        {1: 0.4, 2: 0.42, 3: 0.11, 4: 0.07}
    """
    return pd.DataFrame(intervals.prevalence(posterior.result, level).columns(), index=posterior.data.classes)


def _array(data: Annotations, table: np.ndarray) -> xr.DataArray:
    """A copy of (A, K, L) or (draws, A, K, L), with names for dimensions and places."""
    import xarray as xr  # slow to import

    ids = {"annotator": data.annotators, "truth": data.classes, "label": data.answers}
    names = {name: index.rename(name) for name, index in ids.items()}
    dims = [*(["draw"] if table.ndim == 4 else []), *names]
    return xr.DataArray(table.copy(), dims=dims, coords=names, name="confusion")


def _rows(data: Annotations, estimate: Estimate) -> pd.DataFrame:
    """An estimate (A, K, L) as rows by annotator, truth and label."""
    names = ["annotator", "truth", "label"]
    index = pd.MultiIndex.from_product([data.annotators, data.classes, data.answers], names=names)
    return pd.DataFrame({name: x.ravel() for name, x in estimate.columns().items()}, index=index)
