"""What is known of items: their classes, numbers and grades, with probabilities and intervals."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from crowdppl.core.devices import default_dtype
from crowdppl.core.intervals import check_level
from crowdppl.core.validation import switch
from crowdppl.data.annotations import Annotations
from crowdppl.data.ids import as_number
from crowdppl.data.kinds.space import number_space
from crowdppl.data.tables import arrow_table
from crowdppl.errors import MethodError
from crowdppl.inference.predict.update import predict
from crowdppl.inference.result import Fit, NumberTruth
from crowdppl.primitives.model import truth_space
from crowdppl.results import choices

if TYPE_CHECKING:
    import pyarrow as pa

NONE = 1e-9
"""A correlation of errors that is none; settings lie above 0."""


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
        36     0.0  0.00  0.96  0.04
        38     0.0  0.18  0.82  0.00
    """
    values = posterior.result.probabilities
    if switch("sd", sd):
        found = None if is_corrected(posterior) else posterior.result.probability_sd
        values = np.full_like(values, np.nan) if found is None else found
    return pd.DataFrame(values, index=posterior.data.item_index, columns=posterior.data.classes)


def entropy(posterior: Fit) -> pd.DataFrame:
    """Entropy of the truth of each item, split into aleatoric and epistemic uncertainty.

    More labels of an item lower the first, more labels of its annotators the second (Depeweg et al. 2018,
    "Decomposition of uncertainty in Bayesian deep learning").

    Returns:
        DataFrame by item, in bits:

        - ``total``: entropy of the mean probabilities over draws of the parameters; by vb, that in ``labels()`` is
          of mean field's probabilities
        - ``aleatoric``: mean of the draws' own entropies; all, where the engine gives points
        - ``epistemic``: the rest, the mutual information of truth and parameters; NaN where the engine gives points

        Of corrected probabilities both parts are NaN; ``uncorrected()`` gives those of the method.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.entropy().loc[[36, 38]].round(2)
              total  aleatoric  epistemic
        item
        36     0.26       0.25       0.02
        38     0.69       0.62       0.07
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
    return pd.DataFrame(columns, index=posterior.data.item_index)


def shared_variance(posterior: Fit) -> float:
    """Share of the variance of unknown truths, which are numbers, that the setting ``shared`` of their model adds.

    That is errors which all labels of an item share; 0 of models without this setting.
    """
    model: Any = posterior.model
    before = posterior.result.truth
    if not isinstance(before, NumberTruth) or "shared" not in getattr(model, "__dataclass_fields__", ()):
        return 0.0
    alone = predict(replace(posterior, model=replace(model, shared=NONE)), posterior.data.with_gold(None))
    assert isinstance(alone, NumberTruth)
    unknown = before.sd > 0
    if not unknown.any():
        return 0.0
    return max(0.0, 1 - float(np.square(alone.sd[unknown]).sum() / np.square(before.sd[unknown]).sum()))


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
        DataFrame by item:

        - ``label``: the most probable class
        - ``probability``: of that class
        - ``entropy``: of the truth, in bits
        - ``votes``: labels of the item, without abstentions
        - ``tied``: whether another class is as probable

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.labels().loc[[36, 38]].round(2)
              label  probability  entropy  votes   tied
        item
        36        3         0.96     0.26      7  False
        38        3         0.82     0.69      7  False
    """
    p, votes = posterior.result.probabilities, np.asarray(posterior.data.votes())
    totals = None if posterior.data.totals is None else posterior.data.totals.votes
    code, tied = choices.choose(p, votes, posterior.data.items, posterior.data.classes, totals)
    columns = {
        "label": posterior.data.classes.take(code),
        "probability": p[np.arange(len(p)), code],
        "entropy": choices.entropy(p),
        "votes": votes.sum(1).astype(np.int64),
        "tied": tied,
    }
    return pd.DataFrame(columns, index=posterior.data.item_index)


def to_arrow(posterior: Fit) -> pa.Table:
    """The table of ``labels``, with the probability of every class, for Arrow and what reads it, such as polars.

    Returns:
        pyarrow Table, a row an item:

        - ``item``: its id
        - the columns of ``labels()``; of ``truth()``, where truths are numbers
        - ``p(CLASS)``: probability of each class

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> table = posterior.to_arrow()
        >>> table.num_rows, table.column_names[:3], table.column_names[-1]
        (45, ['item', 'label', 'probability'], 'p(4)')
    """
    if isinstance(posterior.result.truth, NumberTruth):
        return arrow_table(truth(posterior))
    classes = [f"p({name})" for name in posterior.data.classes]
    columns = pd.DataFrame(posterior.result.probabilities, index=posterior.data.item_index, columns=classes)
    return arrow_table(pd.concat([labels(posterior), columns], axis=1))


def truth(posterior: Fit, level: float = 0.95) -> pd.DataFrame:
    """Estimate, standard deviation and interval of each item's truth, a class, a grade or a number.

    Args:
        level: probability of the interval.

    Returns:
        DataFrame by item. Of numbers:

        - ``estimate``, ``sd``: posterior mean, of ``scale="log"`` median, and standard deviation
        - ``low``, ``high``: central interval
        - ``labels``: labels of the item

        Of grades, classes that have an order:

        - ``estimate``: the median grade
        - ``sd``: standard deviation, in steps between neighbouring grades
        - ``interval``: lowest and highest grade of a central interval

        Of other classes:

        - ``estimate``: the label of ``labels()``
        - ``sd``: standard deviation of "the truth is this label"
        - ``interval``: the fewest classes that hold ``level``, most probable first

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.truth().loc[[36, 38]].round(2)
              estimate    sd interval
        item
        36           3  0.20     (3,)
        38           3  0.39   (3, 2)
    """
    check_level(level)
    if isinstance(numbers := posterior.result.truth, NumberTruth):
        return number_table(posterior, numbers, posterior.data, level)
    p, classes = posterior.result.probabilities, posterior.data.classes
    if not posterior.data.space.ordered:
        found = labels(posterior)
        chosen = found["probability"]
        columns = {
            "estimate": found["label"],
            "sd": np.sqrt(np.maximum(chosen * (1 - chosen), 0)),  # a sum may round to above one
            "interval": choices.credible_sets(p, classes, level),
        }
    else:
        low, median, high = (
            classes.take(choices.grade_quantile(p, q)) for q in ((1 - level) / 2, 0.5, (1 + level) / 2)
        )
        interval = list(zip(low, high, strict=True))
        columns = {"estimate": median, "sd": choices.grade_sd(p), "interval": interval}
    return pd.DataFrame(columns, index=posterior.data.item_index)


def fair_averages(posterior: Fit, level: float = 0.95) -> pd.DataFrame:
    """The grade that each item would get on average over criteria from an average rater (Linacre 1989).

    Where the fit knew grades of some items (gold), they set the scale: it is then an expert's grade, and known ones
    stand as they are.

    Args:
        level: probability of the intervals, which are those of items' places at the estimates of all else.

    Returns:
        DataFrame by item:

        - ``estimate``, ``low``, ``high``: in grades where these are numbers, else counted from 0
        - ``grade``: the class nearest to the estimate

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
    places, known = truth(posterior, level), posterior.data.gold_codes
    classes = posterior.data.classes
    numbers = np.array([as_number(x) for x in classes])
    if np.isnan(numbers).any():
        numbers = np.arange(len(classes), dtype=np.float64)
    table = pd.DataFrame(index=posterior.data.item_index)
    with default_dtype(torch.float64):
        for name in ("estimate", "low", "high"):
            place = torch.tensor(places[name].to_numpy(np.float64))
            found = fair(sites, place, torch.from_numpy(numbers)).numpy()
            table[name] = found if known is None else np.where(known >= 0, numbers[known], found)
    nearest = np.abs(table[["estimate"]].to_numpy() - numbers).argmin(1)
    return table.assign(grade=classes.take(nearest))


def separation(posterior: Fit) -> float:
    """How reliably items are told apart: the share of the variance of truths that labels resolve.

    Returns:
        ``1 - mean(sd^2) / (var(estimate) + mean(sd^2))``, the reliability of separation (Wright & Masters 1982); 0
        where labels tell nothing, 1 where they tell all.

    Raises:
        MethodError: when truths are classes, and when all are known and the same.

    Examples:
        >>> ratings = crowdppl.datasets.example("real")
        >>> 0 < crowdppl.fit("gaussian_annotators", ratings, inference="em", seed=0).separation() < 1
        True
    """
    found = posterior.result.truth
    if not isinstance(found, NumberTruth):
        raise MethodError(f"{posterior.method} has classes for truths; reliability of separation is of numbers")
    unsure, apart = float((found.sd**2).mean()), number_space(posterior.data.space).spread(found.mean)
    total = float(apart) ** 2 + unsure
    if total == 0:
        raise MethodError("all truths are known and the same: there is nothing to tell apart; leave gold= out")
    return 1 - unsure / total


def number_table(posterior: Fit, numbers: NumberTruth, data: Annotations, level: float = 0.95) -> pd.DataFrame:
    """Estimate, sd, low, high and labels of items whose truths are numbers, by a fit."""
    given = np.bincount(data.label_codes()[0], minlength=data.n_items)
    space = truth_space(posterior.model, data.space)
    found = pd.DataFrame(space.interval(numbers.mean, numbers.sd, level).columns(), index=data.item_index)
    return found.rename(columns={"mean": "estimate"}).assign(labels=given)
