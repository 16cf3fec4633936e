"""Agreement of annotators by class and by item: which classes and which items they disagree about."""

from __future__ import annotations

import numpy as np
import pandas as pd

from crowdppl.agreement.coefficients import ItemCounts, beyond_chance, warn_below_limit
from crowdppl.agreement.votes import bootstrap_counts, ratio, votes_to_compare
from crowdppl.core.intervals import check_level
from crowdppl.core.validation import seed_number, whole_number
from crowdppl.data.annotations import Annotations, require_annotations
from crowdppl.data.ids import native


def agreement_classes(
    data: Annotations, *, bootstrap: int = 1000, level: float = 0.95, seed: int = 0
) -> pd.DataFrame:
    """How well annotators agree on each class, with bootstrap intervals.

    Missing labels, abstentions and repeats are treated as by ``agreement_table``, and items count the same.

    - share: of the labels that are of the class.
    - agreement: where an annotator gives the class, the share of the item's other annotators who give it too, the
      specific agreement of Cicchetti and Feinstein (1990, Journal of Clinical Epidemiology 43: 551-558). Its mean
      over classes, weighted by their shares of the labels that are compared, is percent_agreement.
    - kappa: Fleiss' kappa of the class against all others (Fleiss 1971, Psychological Bulletin 76: 378-382).

    Args:
        bootstrap, level, seed: as in ``agreement_table``.

    Returns:
        DataFrame by class: share; agreement and kappa, with _low and _high. They are NaN for a class that nobody
        gave, and so is the kappa of one that all gave.

    Raises:
        DataError, MethodError: as ``agreement_table``.

    Examples:
        >>> found = crowdppl.agreement_classes(crowdppl.anaesthetists(), seed=0)
        >>> found[["share", "agreement", "kappa", "kappa_low", "kappa_high"]].round(2)
               share  agreement  kappa  kappa_low  kappa_high
        class
        1       0.41       0.86   0.77       0.64        0.87
        2       0.37       0.68   0.49       0.36        0.62
        3       0.16       0.41   0.30       0.14        0.43
        4       0.05       0.51   0.49      -0.01        0.83
    """
    require_annotations(data)
    check_level(level)
    samples, seed = whole_number("bootstrap", bootstrap, 0, "use 0 for no intervals"), seed_number(seed)
    votes = votes_to_compare(data)
    counts = ItemCounts.of(votes, ordered=False)
    matched = counts.matched(votes)
    share, agreement, kappa = (x[:, 0] for x in _of_classes(counts, matched, np.ones((votes.n_items, 1))))
    parts = [_of_classes(counts, matched, weight)[1:] for weight in bootstrap_counts(votes.n_items, samples, seed)]
    table = pd.DataFrame({"share": share}, data.classes)
    for n, (name, value) in enumerate((("agreement", agreement), ("kappa", kappa))):
        drawn = np.concatenate([np.empty((len(value), 0)), *(part[n] for part in parts)], 1)
        ends = pd.DataFrame(drawn.T).quantile([(1 - level) / 2, (1 + level) / 2])
        table[[name, f"{name}_low", f"{name}_high"]] = np.column_stack([value, *ends.to_numpy()])
    several = int((counts.size > 1).sum())
    kappas = {f"the kappa of {native(name)!r}": x for name, x in table["kappa"].items()}
    warn_below_limit(kappas, several, votes.n_items - several)
    return table


def _of_classes(
    counts: ItemCounts, matched: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Share, agreement and kappa of each class, each (K, C), for C weightings of the items, (N, C)."""
    an_item = weight / counts.size[:, None]
    compared = an_item * (counts.size > 1)[:, None]
    n_items = (weight * (counts.size > 1)[:, None]).sum(0)
    both, given = ratio(matched @ an_item, n_items), ratio(counts.counts @ compared, n_items)
    share = (counts.counts @ an_item) / weight.sum(0)
    chance = share**2 + (1 - share) ** 2
    return share, ratio(both, given), beyond_chance(1 - 2 * given + 2 * both, chance)


def agreement_items(data: Annotations) -> pd.DataFrame:
    """How well annotators agree on each item; the mean of it over items is percent_agreement.

    Missing labels, abstentions and repeats are treated as by ``agreement_table``.

    Returns:
        DataFrame by item that has a label: annotators; label, the class with most votes, or the first of these;
        votes, its share; agreement, the share of equal pairs of labels by different annotators, NaN for one.

    Raises:
        DataError: as ``agreement_table``.

    Examples:
        >>> crowdppl.agreement_items(crowdppl.anaesthetists()).sort_values("agreement").round(2).head(2)
              annotators  label  votes  agreement
        item
        4              5      1    0.4        0.2
        12             5      3    0.6        0.3
    """
    require_annotations(data)
    votes = votes_to_compare(data)
    counts = ItemCounts.of(votes, ordered=False)
    by_item = pd.Series(votes.share).groupby([votes.item, votes.answer]).sum()
    most = by_item.groupby(level=0).idxmax()
    table = {
        "annotators": counts.size.astype(np.int64),
        "label": data.classes[[answer for _, answer in most]],
        "votes": by_item[most].to_numpy() / counts.size,
        "agreement": np.where(counts.size > 1, counts.same / counts.size, np.nan),
    }
    return pd.DataFrame(table, data.items[votes.items])
