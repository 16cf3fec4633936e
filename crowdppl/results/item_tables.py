"""What a posterior says of items: its tables with one row an item."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from crowdppl.doors.counts import switch
from crowdppl.statistics import choices
from crowdppl.statistics.estimates import check_level

if TYPE_CHECKING:
    from crowdppl.posterior import Posterior


def probabilities(posterior: Posterior, sd: bool = False) -> pd.DataFrame:
    """Probability of each class for each item, averaged over parameter draws where there are draws.

    Args:
        sd: instead, the standard deviation of that probability over parameter draws: how far it could still
            move if the annotators became known. NaN where the engine gives points, and of corrected probabilities,
            which are not computed draw by draw; ``uncorrected()`` gives the method's own.

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
        found = None if _corrected(posterior) else posterior.result.probability_sd
        values = np.full_like(values, np.nan) if found is None else found
    return pd.DataFrame(values, index=posterior.data.items, columns=posterior.data.classes)


def entropy(posterior: Posterior) -> pd.DataFrame:
    """How unsure the truth of each item is, and how much of that is for want of labels.

    Over draws of the parameters, the entropy of the mean probabilities is the mean of the draws' own entropies
    (aleatoric: annotators who are known exactly would still leave it open) and what is left (epistemic: it goes
    when annotators become known), which is the mutual information of truth and parameters (Depeweg et al. 2018,
    "Decomposition of uncertainty in Bayesian deep learning").

    Returns:
        DataFrame by item, in bits: total, aleatoric, epistemic; where the engine gives points, all is aleatoric
        as far as it can tell, and epistemic is NaN. Corrected probabilities have a total, but are not computed draw
        by draw, so that its parts are NaN; ``uncorrected()`` gives those of the method itself. By vb, total is not
        the entropy in ``labels``, which is that of mean field's own probabilities: where annotators are hardly
        known, draws differ more than these say, and other items may come first.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.entropy().loc[[36, 38]].round(2)
              total  aleatoric  epistemic
        item
        36     0.27       0.25       0.02
        38     0.66       0.61       0.05
    """
    found = posterior.result.entropies
    if _corrected(posterior):
        unknown = np.full(posterior.data.n_items, np.nan)
        whole = choices.entropy(posterior.result.probabilities)
        columns = {"total": whole, "aleatoric": unknown, "epistemic": unknown}
    elif found is None:
        own = choices.entropy(posterior.result.probabilities)
        columns = {"total": own, "aleatoric": own, "epistemic": np.full_like(own, np.nan)}
    else:
        total, own = found.T
        columns = {"total": total, "aleatoric": own, "epistemic": np.clip(total - own, 0, None)}
    return pd.DataFrame(columns, index=posterior.data.items)


def _corrected(posterior: Posterior) -> bool:
    return posterior.correction is not None and not posterior.correction.leaves_all


def labels(posterior: Posterior) -> pd.DataFrame:
    """The most probable class of each item and how sure it is.

    A tie goes to the class with more votes on the item, then on all items, then to the one whose name,
    hashed with the item's id, comes first: neither the order of classes nor that of rows decides.

    Returns:
        DataFrame by item: label; probability; entropy of the truth in bits; votes, the number of labels that
        the item received, abstentions not counted; tied, whether another class is as probable.

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


def truth(posterior: Posterior, level: float = 0.95) -> pd.DataFrame:
    """The general table of the truth, whatever its kind: one row an item.

    Args:
        level: probability that the interval holds.

    Returns:
        DataFrame by item with estimate, sd and interval. Nominal classes: the label of ``labels()``; the
        standard deviation of "the truth is this label"; the fewest classes that hold ``level``, most
        probable first. Ordinal classes: the median grade; the standard deviation in steps between
        neighbouring grades; the lowest and the highest grade of a central interval.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.truth().loc[[36, 38]].round(2)
              estimate    sd interval
        item
        36           3  0.18     (3,)
        38           3  0.36   (3, 2)
    """
    check_level(level)
    p, classes = posterior.result.probabilities, posterior.data.classes
    if posterior.data.kind == "nominal":
        labels = posterior.labels()
        chosen = labels["probability"]
        columns = {
            "estimate": labels["label"],
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
