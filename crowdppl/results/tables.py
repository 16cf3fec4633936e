"""Tables of a posterior: items, annotators and the summary."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from crowdppl.core.devices import default_dtype
from crowdppl.core.intervals import check_level
from crowdppl.core.validation import printable, switch
from crowdppl.data.annotations import Annotations, labels_given
from crowdppl.data.ids import as_number
from crowdppl.data.kinds.space import number_space
from crowdppl.data.tables import arrow_table
from crowdppl.errors import MethodError
from crowdppl.inference.coin_tables import CoinTables
from crowdppl.inference.predict.answers import confusion_at
from crowdppl.inference.result import Fit, NumberTruth
from crowdppl.primitives.model import card_of
from crowdppl.results import choices, intervals
from crowdppl.results.intervals import among_named

if TYPE_CHECKING:
    import pyarrow as pa
    import xarray as xr


def probabilities(posterior: Fit, sd: bool = False) -> pd.DataFrame:
    """Probability of each class for each item, averaged over parameter draws where there are draws.

    Args:
        sd: instead, the standard deviation of that probability over parameter draws. NaN where the engine gives
            points, and for corrected probabilities; ``uncorrected()`` gives the method's own.

    Returns:
        DataFrame (N, K), item ids x class names.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.probabilities().loc[[36, 38]].round(2)
        class    1     2     3     4
        item
        36     0.0  0.00  0.97  0.03
        38     0.0  0.15  0.85  0.00
    """
    values = posterior.result.probabilities
    if switch("sd", sd):
        found = None if is_corrected(posterior) else posterior.result.probability_sd
        values = np.full_like(values, np.nan) if found is None else found
    return pd.DataFrame(values, index=posterior.data.items, columns=posterior.data.classes)


def entropy(posterior: Fit) -> pd.DataFrame:
    """Entropy of the truth of each item, split into aleatoric and epistemic uncertainty.

    Total: the entropy of the mean probabilities over draws of the parameters. Aleatoric: the mean of the draws' own
    entropies. Epistemic: the rest, the mutual information of truth and parameters (Depeweg et al. 2018,
    "Decomposition of uncertainty in Bayesian deep learning").

    Returns:
        DataFrame by item, in bits: total, aleatoric, epistemic. Where the engine gives points, all is aleatoric and
        epistemic is NaN. For corrected probabilities both parts are NaN; ``uncorrected()`` gives those of the
        method. By vb, total differs from the entropy in ``labels``, which is that of mean field's probabilities.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.entropy().loc[[36, 38]].round(2)
              total  aleatoric  epistemic
        item
        36     0.27       0.25       0.02
        38     0.68       0.61       0.07
    """
    found = posterior.result.entropies
    if found is None or is_corrected(posterior):
        total = choices.entropy(posterior.result.probabilities)
        unknown = np.full_like(total, np.nan)
        aleatoric, epistemic = unknown if is_corrected(posterior) else total, unknown
    else:
        total, aleatoric = found.T
        epistemic = np.clip(total - aleatoric, 0, None)
    columns = {"total": total, "aleatoric": aleatoric, "epistemic": epistemic}
    return pd.DataFrame(columns, index=posterior.data.items)


def is_corrected(posterior: Fit) -> bool:
    """Whether probabilities are no longer those of a single method."""
    return posterior.correction is not None and not posterior.correction.leaves_all


def labels(posterior: Fit) -> pd.DataFrame:
    """The most probable class of each item and how sure it is.

    Labels cannot tell a bias that annotators share from the truth: without known truths, probabilities are right as
    far as there is none, or as far as it is the one that ``fit("auto")`` assumes (``correction.temperature``).

    A tie goes to the class with more votes on the item, then on all items, then to the one whose name, hashed with
    the item's id, comes first.

    Returns:
        DataFrame by item: label; probability; entropy of the truth in bits; votes, the number of labels of the item
        without abstentions; tied, whether another class is as probable.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.labels().loc[[36, 38]].round(2)
              label  probability  entropy  votes   tied
        item
        36        3         0.97     0.21      7  False
        38        3         0.85     0.62      7  False
    """
    p, votes = posterior.result.probabilities, np.asarray(posterior.data.votes())
    code, tied = choices.choose(p, votes, posterior.data.items, posterior.data.classes)
    columns = {
        "label": posterior.data.classes.take(code),
        "probability": p[np.arange(len(p)), code],
        "entropy": choices.entropy(p),
        "votes": votes.sum(1).astype(np.int64),
        "tied": tied,
    }
    return pd.DataFrame(columns, index=posterior.data.items)


def to_arrow(posterior: Fit) -> pa.Table:
    """The table of ``labels``, with the probability of every class, for Arrow and what reads it, such as polars.

    Returns:
        pyarrow Table, a row an item: item and the columns of ``labels()``; for each class a column ``p(class)``.
        Where truths are numbers, item and the columns of ``truth()``.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> table = posterior.to_arrow()
        >>> table.num_rows, table.column_names[:3], table.column_names[-1]
        (45, ['item', 'label', 'probability'], 'p(4)')
    """
    if isinstance(posterior.result.truth, NumberTruth):
        return arrow_table(truth(posterior))
    classes = [f"p({name})" for name in posterior.data.classes]
    columns = pd.DataFrame(posterior.result.probabilities, index=posterior.data.items, columns=classes)
    return arrow_table(pd.concat([labels(posterior), columns], axis=1))


def truth(posterior: Fit, level: float = 0.95) -> pd.DataFrame:
    """Estimate, standard deviation and interval of each item's truth, a class, a grade or a number.

    Args:
        level: probability of the interval.

    Returns:
        DataFrame by item. Numbers: estimate, the posterior mean; sd; low, high; labels, how many of the item. Else
        estimate, sd, interval. Classes without an order: the label of ``labels()``; the standard
        deviation of "the truth is this label"; the fewest classes that hold ``level``, most probable first. Ordinal
        classes: the median grade; the standard deviation in steps between neighbouring grades; the lowest and the
        highest grade of a central interval.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.truth().loc[[36, 38]].round(2)
              estimate    sd interval
        item
        36           3  0.18     (3,)
        38           3  0.36   (3, 2)
    """
    check_level(level)
    if isinstance(numbers := posterior.result.truth, NumberTruth):
        return number_table(numbers, posterior.data, level)
    p, classes = posterior.result.probabilities, posterior.data.classes
    if not posterior.data.space.ordered:
        found = labels(posterior)
        chosen = found["probability"]
        columns = {
            "estimate": found["label"],
            "sd": np.sqrt(chosen * (1 - chosen)),
            "interval": choices.credible_sets(p, classes, level),
        }
    else:
        low, median, high = (
            classes.take(choices.grade_quantile(p, q)) for q in ((1 - level) / 2, 0.5, (1 + level) / 2)
        )
        interval = list(zip(low, high, strict=True))
        columns = {"estimate": median, "sd": choices.grade_sd(p), "interval": interval}
    return pd.DataFrame(columns, index=posterior.data.items)


def fair_averages(posterior: Fit, level: float = 0.95) -> pd.DataFrame:
    """The grade that each item would get on average over criteria from an average rater (Linacre 1989).

    Args:
        level: probability of the intervals, which are those of items' places at the estimates of all else.

    Returns:
        DataFrame by item: estimate, low and high, in grades where these are numbers, else counted from 0; grade,
        the class nearest to the estimate.

    Raises:
        MethodError: when the method has no raters' severities, or the level is out of range.

    Examples:
        >>> grades = crowdppl.datasets.example("ordinal")
        >>> posterior = crowdppl.fit("rater_facets", grades, inference="em", seed=0)
        >>> posterior.fair_averages().columns.tolist()
        ['estimate', 'low', 'high', 'grade']
    """
    fair = getattr(posterior.model, "fair_grades", None)
    if fair is None:
        raise MethodError(f"{posterior.method} knows no severity of raters; fit 'rater_facets'")
    sites = {name: torch.as_tensor(site.mean).double() for name, site in posterior.result.sites.items()}
    places = truth(posterior, level)
    classes = posterior.data.classes
    numbers = np.array([as_number(x) for x in classes])
    if np.isnan(numbers).any():
        numbers = np.arange(len(classes), dtype=np.float64)
    table = pd.DataFrame(index=posterior.data.items)
    with default_dtype(torch.float64):
        for name in ("estimate", "low", "high"):
            place = torch.tensor(places[name].to_numpy(np.float64))
            table[name] = fair(sites, place, torch.from_numpy(numbers)).numpy()
    nearest = np.abs(table[["estimate"]].to_numpy() - numbers).argmin(1)
    return table.assign(grade=classes.take(nearest))


def separation(posterior: Fit) -> float:
    """How reliably items are told apart: the share of the variance of truths that labels resolve.

    Returns:
        ``1 - mean(sd^2) / (var(estimate) + mean(sd^2))``, the reliability of separation (Wright & Masters 1982); 0
        where labels tell nothing, 1 where they tell all.

    Raises:
        MethodError: when truths are classes.

    Examples:
        >>> ratings = crowdppl.datasets.example("real")
        >>> 0 < crowdppl.fit("gaussian_annotators", ratings, inference="em", seed=0).separation() < 1
        True
    """
    found = posterior.result.truth
    if not isinstance(found, NumberTruth):
        raise MethodError(f"{posterior.method} has classes for truths; reliability of separation is of numbers")
    unsure, apart = float((found.sd**2).mean()), number_space(posterior.data.space).spread(found.mean)
    return 1 - unsure / (float(apart) ** 2 + unsure)


def number_table(numbers: NumberTruth, data: Annotations, level: float = 0.95) -> pd.DataFrame:
    """Estimate, sd, low, high and labels of items whose truths are numbers."""
    given = np.bincount(data.label_codes()[0], minlength=data.n_items)
    space = number_space(data.space)
    found = pd.DataFrame(space.interval(numbers.mean, numbers.sd, level).columns(), index=data.items)
    return found.rename(columns={"mean": "estimate"}).assign(labels=given)


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


MAX_ROWS = 10
"""Classes or annotators that a summary lists."""
WIDTH = 200
"""Characters after which a summary's list of columns is cut: a wide table has many."""


def summarise(posterior: Fit, doubts: Sequence[object] = ()) -> str:
    """The method, the data, how the fit went, the classes, and the best and worst annotators.

    Examples:
        >>> print(crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0).summary())
        one_coin by vb: 315 labels of 45 items by 5 annotators, 4 classes
        converged, 5 iterations, objective -263.801, ... s
        <BLANKLINE>
        truth: 42 of 45 items at 95 % or more; prevalence of the classes
               mean    sd   low  high  labelled
        class
        1     0.250 0.000 0.250 0.250        18
        2     0.250 0.000 0.250 0.250        20
        3     0.250 0.000 0.250 0.250         6
        4     0.250 0.000 0.250 0.250         1
        <BLANKLINE>
        annotators, the most accurate first
                   labels  accuracy  accuracy_sd  accuracy_low  accuracy_high
        annotator
        1             135     0.883        0.029         0.814          0.932
        4              45     0.845        0.052         0.733          0.934
        5              45     0.803        0.059         0.665          0.900
        3              45     0.795        0.061         0.672          0.904
        2              45     0.698        0.068         0.556          0.817
    """
    return printable(
        "\n".join([*_fit_lines(posterior, doubts), "", *_truth_lines(posterior), "", *_annotator_lines(posterior)])
    )


def _fit_lines(posterior: Fit, doubts: Sequence[object]) -> list[str]:
    data, found = posterior.data, posterior.result.diagnostics
    lines = [
        f"{posterior.method} by {posterior.inference}: {data.n_labels:,} labels of {data.n_items:,} items "
        f"by {data.n_annotators:,} annotators" + (f", {data.n_classes} classes" if data.n_classes else "")
    ]
    if data.roles:
        read = ", ".join(f"{role} from {column!r}" for role, column in data.roles.items())
        lines.append(shorten(f"columns: {read}", WIDTH))
    if posterior.correction is not None:
        lines += [f"corrected: {posterior.correction}", *(f"note: {text}" for text in posterior.correction.notes)]
    state = "converged" if found.get("converged") else "NOT CONVERGED"
    parts = [state] if "converged" in found else []
    parts += [f"{found['iterations']:,} iterations"] if found.get("iterations") is not None else []
    parts += [f"objective {float(found['objective']):,.3f}"] if found.get("objective") is not None else []
    parts += [f"worst R-hat {worst:.3f}"] if (worst := _extreme(found.get("rhat"), max)) is not None else []
    parts += [f"smallest ESS {least:.0f}"] if (least := _extreme(found.get("ess_bulk"), min)) is not None else []
    parts += [f"{n} divergences"] if (n := sum(found.get("divergences", {}).values())) else []
    parts += [f"{n} chains relabelled"] if (n := len(found.get("relabelled", ()))) else []
    parts += [f"{found['seconds']:.1f} s"] if found.get("seconds") is not None else []
    lines += [", ".join(parts), *(f"warning: {text}" for text in found.get("warnings", []))]
    return [*lines, *(f"doubt: {text}" for text in doubts)]


def _truth_lines(posterior: Fit) -> list[str]:
    if isinstance(posterior.result.truth, NumberTruth):
        return [f"truth: {posterior.data.n_items:,} numbers", _table(truth(posterior).describe().iloc[1:, :2])]
    found, share = labels(posterior), prevalence(posterior)
    sure = int((found["probability"] >= 0.95).sum())
    tied = int(found["tied"].sum())
    ties = f", {tied:,} tied" if tied else ""
    counts = found["label"].value_counts().reindex(share.index, fill_value=0)
    table = share.assign(labelled=counts).head(MAX_ROWS)
    more = len(share) - len(table)
    lines = [f"truth: {sure:,} of {len(found):,} items at 95 % or more{ties}; prevalence of the classes"]
    return [*lines, _table(table), *([f"... and {more} more classes"] if more > 0 else [])]


def _annotator_lines(posterior: Fit) -> list[str]:
    table = annotators(posterior)
    if posterior.result.tables is None:
        more = len(table) - MAX_ROWS
        return [
            "annotators",
            _table(table.head(MAX_ROWS)),
            *([f"... and {more} more annotators"] if more > 0 else []),
        ]
    table = table.sort_values("accuracy", ascending=False, kind="stable")
    if len(table) <= MAX_ROWS:
        return ["annotators, the most accurate first", _table(table)]
    half = MAX_ROWS // 2
    lines = [f"annotators: the {half} most and the {half} least accurate of {len(table):,}"]
    return [*lines, _table(pd.concat([table.head(half), table.tail(half)]))]


def _table(table: pd.DataFrame) -> str:
    """A table as text, without columns of NaN alone."""
    text: str = table.dropna(axis=1, how="all").to_string(float_format=lambda x: f"{x:.3f}")
    return text


def _extreme(values: Mapping[str, float] | None, pick: Callable[[list[float]], float]) -> float | None:
    """The largest or smallest of a diagnostic of sites."""
    finite = [x for x in map(float, (values or {}).values()) if np.isfinite(x)]
    return pick(finite) if finite else None


def annotators(posterior: Fit, level: float = 0.95) -> pd.DataFrame:
    """How accurate each annotator is, with intervals.

    Mean field underestimates variances, so intervals of vb are widened by the linear response of its fixed point,
    but not where labels depend on Gaussians; rows whose prior is learned are as wide as that prior leaves them, up
    to 5,000,000 numbers. With few labels (25,000 labels times classes at most), short chains of Gibbs from vb's
    distributions widen them further, but not where annotators or items have latent kinds. In simulations from
    each prior (5 annotators, 3 classes, 3 labels an item), 90 % intervals of accuracies then held .905 by one_coin
    (20 items, 300 simulations), .925 by bayesian_dawid_skene (15 items, 270) and .903 by hierarchical_dawid_skene
    (20 items, 130).

    Args:
        level: probability of the intervals.

    Returns:
        DataFrame by annotator: labels given, with abstentions and those before an update; accuracy, the probability
        of giving the true class to a new item, if any class is given, with accuracy_sd, accuracy_low and
        accuracy_high; abstention, where annotators may abstain, with the same; with two classes also sensitivity
        (the second class is the positive one) and specificity, among classes given. sd, low and high are NaN where
        the engine gives points. Where labels are numbers: labels, and the numbers that the method has of each
        annotator, by the names of its sites.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.annotators()[["labels", "accuracy", "accuracy_low", "accuracy_high"]].round(2)
                   labels  accuracy  accuracy_low  accuracy_high
        annotator
        1             135      0.88          0.81           0.93
        2              45      0.70          0.56           0.82
        3              45      0.79          0.67           0.90
        4              45      0.85          0.73           0.93
        5              45      0.80          0.67           0.90
    """
    data, result, memory = posterior.data, posterior.result, posterior.memory
    columns: dict[str, Any] = {"labels": labels_given(data) + (0 if memory is None else memory.labels)}
    if result.tables is None:
        return pd.DataFrame(columns | _of_annotators(posterior, level), index=data.annotators)
    columns |= intervals.accuracy(posterior, level).columns("accuracy")
    if data.n_answers > data.n_classes:
        columns |= intervals.abstention(posterior, level).columns("abstention")
    if data.n_classes == 2:
        table = intervals.among_classes(posterior, level)
        columns |= table.at(slice(None), 1, 1).columns("sensitivity")
        columns |= table.at(slice(None), 0, 0).columns("specificity")
    return pd.DataFrame(columns, index=data.annotators)


def _of_annotators(posterior: Fit, level: float) -> dict[str, np.ndarray]:
    """The sites of annotators with their intervals, a column a number."""
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
        1      0.79  0.16  0.02  0.02
        2      0.06  0.58  0.34  0.02
        3      0.06  0.06  0.61  0.28
        4      0.10  0.10  0.10  0.70
    """
    draws = switch("draws", draws, "to_arviz(draws=...) makes as many as asked")
    if at is not None:
        return _array(posterior.data, confusion_at(posterior, at, draws))
    if not draws:
        return _array(posterior.data, posterior.result.table)
    if posterior.result.table_draws is None:
        raise MethodError(f"{posterior.inference} found a point without draws; fit with vb, gibbs or nuts")
    return _array(posterior.data, posterior.result.table_draws)


def confusion_intervals(posterior: Fit, level: float = 0.95) -> pd.DataFrame:
    """The confusion by (annotator, truth, label) with mean, sd, low, high; by vb widened as in ``annotators``.

    Examples:
        >>> posterior = crowdppl.fit("bayesian_dawid_skene", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.confusion_intervals().loc[("2", 1)].round(2)
               mean    sd   low  high
        label
        1      0.79  0.09  0.60  0.94
        2      0.16  0.08  0.04  0.34
        3      0.02  0.03  0.00  0.12
        4      0.02  0.03  0.00  0.12
    """
    data, found = posterior.data, intervals.confusion(posterior, level)
    names = ["annotator", "truth", "label"]
    index = pd.MultiIndex.from_product([data.annotators, data.classes, data.answers], names=names)
    return pd.DataFrame({name: x.ravel() for name, x in found.columns().items()}, index=index)


def prevalence(posterior: Fit, level: float = 0.95) -> pd.DataFrame:
    """Share of each class among items: DataFrame by class with mean, sd, low and high.

    Examples:
        >>> posterior = crowdppl.fit("dawid_skene", crowdppl.anaesthetists(), inference="em", seed=0)
        >>> posterior.prevalence()["mean"].round(2).to_dict()
        {1: 0.4, 2: 0.42, 3: 0.11, 4: 0.07}
    """
    return pd.DataFrame(intervals.prevalence(posterior, level).columns(), index=posterior.data.classes)


def _array(data: Annotations, table: np.ndarray) -> xr.DataArray:
    """A copy of (A, K, L) or (draws, A, K, L), with names for dimensions and places."""
    import xarray as xr  # slow to import

    ids = {"annotator": data.annotators, "truth": data.classes, "label": data.answers}
    names = {name: index.rename(name) for name, index in ids.items()}
    dims = [*(["draw"] if table.ndim == 4 else []), *names]
    return xr.DataArray(table.copy(), dims=dims, coords=names, name="confusion")
