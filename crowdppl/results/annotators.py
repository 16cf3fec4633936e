"""What is known of annotators: accuracies, confusions and the prevalence of classes, with intervals."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl.core.collective import all_reduced
from crowdppl.core.intervals import from_point
from crowdppl.core.validation import switch
from crowdppl.data.annotations import Annotations, labels_given
from crowdppl.data.kinds.parts import compares
from crowdppl.errors import MethodError
from crowdppl.inference.coin_tables import CoinTables
from crowdppl.inference.confusions import among_named
from crowdppl.inference.predict.answers import confusion_at
from crowdppl.inference.result import Fit
from crowdppl.primitives.model import card_of
from crowdppl.results import intervals
from crowdppl.results.mapped_tables import as_shown

if TYPE_CHECKING:
    import xarray as xr


def annotators(posterior: Fit, level: float = 0.95) -> pd.DataFrame:
    """How accurate each annotator is, with intervals.

    Mean field underestimates variances, so intervals of vb are widened by the linear response of its fixed point,
    but not where labels depend on Gaussians; rows whose prior is learned are as wide as that prior leaves them, up
    to 5,000,000 numbers. With few labels (25,000 labels times classes at most), short chains of Gibbs from vb's
    distributions widen them further, but not where annotators or items have latent kinds. How often intervals hold
    the truth of simulations stands in ``docs/benchmarks.md``. Where probabilities are mapped to known truths,
    labels are counted by truths drawn from these, so that accuracies and their intervals move with them.

    Args:
        level: probability of the intervals.

    Returns:
        DataFrame by annotator:

        - ``labels``: labels given, with abstentions and those before an update
        - ``accuracy``: probability of giving the true class to a new item, if any class is given
        - ``abstention``: probability of abstaining from a new item, where annotators may
        - ``agreement``: of comparisons where a method lets nobody err, as ``bradley_terry`` does, in place of an
          accuracy, which is then NaN: the mean probability that one more answer to a pair is the annotator's
        - ``sensitivity``, ``specificity``: with two classes, probability of the right one among classes given where
          the truth is the second class, and where it is the first; not of comparisons, whose sides are no classes
        - of numbers, what the method knows of annotators, by the names of its sites

        Each but ``labels`` has its ``_sd``, ``_low`` and ``_high``, NaN where the engine gives points.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.annotators()[["labels", "accuracy", "accuracy_low", "accuracy_high"]].round(2)
                   labels  accuracy  accuracy_low  accuracy_high
        annotator
        1             135      0.88          0.81           0.93
        2              45      0.70          0.56           0.82
        3              45      0.80          0.67           0.90
        4              45      0.84          0.73           0.93
        5              45      0.80          0.66           0.90
    """
    posterior = as_shown(posterior)
    data, result, memory = posterior.data, posterior.result, posterior.memory
    columns: dict[str, Any] = {"labels": labels_given(data) + (0 if memory is None else memory.labels)}
    if result.tables is None:
        return pd.DataFrame(columns | _of_annotators(posterior, level), index=data.annotators)
    accuracy = intervals.accuracy(posterior, level)
    own = compares(data) and np.allclose(accuracy.mean, 1, rtol=0, atol=1e-12)  # each answer is one's own truth
    accuracy = from_point(np.full_like(accuracy.mean, np.nan)) if own else accuracy
    columns |= accuracy.columns("accuracy") | ({"agreement": _agreement(posterior)} if own else {})
    if data.n_answers > data.n_classes:
        columns |= intervals.abstention(posterior, level).columns("abstention")
    if data.n_classes == 2 and not compares(data):
        table = intervals.among_classes(posterior, level)
        columns |= table.at(slice(None), 1, 1).columns("sensitivity")
        columns |= table.at(slice(None), 0, 0).columns("specificity")
    return pd.DataFrame(columns, index=data.annotators)


def _agreement(posterior: Fit) -> np.ndarray:
    """How probable the labels of each annotator are as one more answer to their items, on average, (A,)."""
    data = posterior.data
    item, who, answer = (x[data.label_codes()[2] < data.n_classes] for x in data.label_codes())
    total = np.bincount(who, posterior.result.probabilities[item, answer], data.n_annotators)
    total, times = all_reduced([total, np.bincount(who, minlength=data.n_annotators)])
    return np.where(times > 0, total / np.maximum(times, 1), np.nan)


def _of_annotators(posterior: Fit, level: float) -> dict[str, np.ndarray]:
    """The values of annotators' sites with their intervals, by the names of columns."""
    columns: dict[str, np.ndarray] = {}
    card = card_of(posterior.model)
    for name, site in posterior.result.sites.items():
        if site.dims[:1] == ("annotator",):
            found = intervals.of_site(site, level)
            known = {} if card is None else dict(enumerate(card.columns.get(name, ())))
            for at in np.ndindex(found.mean.shape[1:]):
                own = known.get(at[-1] if at else -1, "_".join(map(str, (name, *at))))
                columns |= found.at(slice(None), *at).columns(own)
    return columns


def confusion(posterior: Fit, draws: bool = False, *, at: Mapping[Hashable, float] | None = None) -> xr.DataArray:
    """p(label | annotator, truth) of a new item; along ``label`` it sums to one.

    Where items differ, as in difficulty, it is the mean over items under the model; where labels depend on item
    covariates, over those of the items; where on covariates of their own, such as a context, over the annotator's
    labels.

    Args:
        draws: instead of the posterior mean, draws of it, with a first dimension ``draw``.
        at: values of label covariates for which it is wanted instead, as ``{"order": 100}``.

    Returns:
        xarray DataArray with dimensions annotator, truth, label and their ids as coordinates; abstentions are the
        last labels.

    Raises:
        MethodError: for draws where the engine gives points, or a number of draws; for covariates that the method
            does not read, or values of them that are no finite numbers.

    Examples:
        >>> posterior = crowdppl.fit("bayesian_dawid_skene", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.confusion().sel(annotator="2").to_pandas().round(2)
        label     1     2     3     4
        truth
        1      0.78  0.17  0.02  0.02
        2      0.06  0.58  0.34  0.02
        3      0.06  0.06  0.64  0.25
        4      0.10  0.10  0.10  0.71
    """
    draws = switch("draws", draws, "to_arviz(draws=...) makes as many as asked")
    if at is not None:
        return _array(posterior.data, confusion_at(posterior, at, draws))
    posterior = as_shown(posterior)
    if not draws:
        return _array(posterior.data, posterior.result.table)
    if posterior.result.table_draws is None:
        raise MethodError(f"{posterior.inference} found a point without draws; fit with vb, gibbs or nuts")
    return _array(posterior.data, posterior.result.table_draws)


def confusion_intervals(posterior: Fit, level: float = 0.95) -> pd.DataFrame:
    """How probable each label of an annotator is given the truth, with intervals, as a table.

    Args:
        level: probability of the intervals, which are widened by vb as those of ``annotators()``.

    Returns:
        DataFrame by annotator, truth and label:

        - ``mean``, ``sd``: posterior mean and standard deviation
        - ``low``, ``high``: central interval; NaN, as ``sd``, where the engine gives points

    Examples:
        >>> posterior = crowdppl.fit("bayesian_dawid_skene", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.confusion_intervals().loc[("2", 1)].round(2)
               mean    sd   low  high
        label
        1      0.78  0.09  0.58  0.93
        2      0.17  0.08  0.04  0.36
        3      0.02  0.03  0.00  0.12
        4      0.02  0.03  0.00  0.12
    """
    data, found = posterior.data, intervals.confusion(as_shown(posterior), level)
    names = ["annotator", "truth", "label"]
    index = pd.MultiIndex.from_product([data.annotators, data.classes, data.answers], names=names)
    return pd.DataFrame({name: x.ravel() for name, x in found.columns().items()}, index=index)


def prevalence(posterior: Fit, level: float = 0.95) -> pd.DataFrame:
    """Share of each class among items, with intervals.

    Args:
        level: probability of the intervals.

    Returns:
        DataFrame by class:

        - ``mean``, ``sd``: posterior mean and standard deviation
        - ``low``, ``high``: central interval; NaN, as ``sd``, where the engine gives points

    Examples:
        >>> posterior = crowdppl.fit("dawid_skene", crowdppl.anaesthetists(), inference="em", seed=0)
        >>> posterior.prevalence()["mean"].round(2).to_dict()
        {1: 0.4, 2: 0.42, 3: 0.11, 4: 0.07}
    """
    return pd.DataFrame(intervals.prevalence(as_shown(posterior), level).columns(), index=posterior.data.classes)


def _array(data: Annotations, table: np.ndarray) -> xr.DataArray:
    """A copy of (A, K, L) or (draws, A, K, L), with names for dimensions and places."""
    import xarray as xr  # slow to import

    ids = {"annotator": data.annotators, "truth": data.classes, "label": data.answers}
    names = {name: index.rename(name) for name, index in ids.items()}
    dims = [*(["draw"] if table.ndim == 4 else []), *names]
    return xr.DataArray(table.copy(), dims=dims, coords=names, name="confusion")


def informative_part(posterior: Fit, tables: np.ndarray | CoinTables) -> np.ndarray | CoinTables:
    """Tables (..., A, K, L) of the answers that depend on the truth: classes, and abstentions if informative."""
    if isinstance(tables, CoinTables):  # whose abstentions are never informative
        return tables
    return tables if posterior.data.alphabet.informative else among_named(tables)


def information(table: np.ndarray | CoinTables, prevalence: np.ndarray) -> np.ndarray:
    """Mutual information of truth and answer in bits: (A, K, L) and (K,) to (A,)."""
    if isinstance(table, CoinTables):
        return table.information(prevalence)
    joint = prevalence[:, None] * table
    apart = prevalence[:, None] * joint.sum(1, keepdims=True)
    ratio = np.where(joint > 0, joint, 1) / np.where(joint > 0, apart, 1)
    return np.asarray(np.maximum((joint * np.log2(ratio)).sum((1, 2)), 0))
