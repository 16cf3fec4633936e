"""Annotators to look at: whose labels say nothing, who copy another, who act in a group."""

from __future__ import annotations

import numpy as np
import pandas as pd

from crowdppl.core.validation import number_within, share_between
from crowdppl.criticism import collusion
from crowdppl.criticism.collusion import ExcessAgreement, excess_agreement
from crowdppl.data.annotations import Annotations, labels_given
from crowdppl.inference.result import Fit, require_fit
from crowdppl.results.annotators import information, informative_part


def suspicious_annotators(posterior: Fit, *, bits: float = 0.05, level: float = 0.05) -> pd.DataFrame:
    """Looks for annotators whose labels carry no information, who copy another, or who act together.

    Nothing here proves an intent: two who were trained together may err alike.

    - A spammer's label says little of the truth: the mutual information of the two, under the fitted confusion and
      prevalence, is below ``bits``. With two even classes .05 bits are an accuracy of .63. With few labels the
      information is overestimated. Who gave no labels is not flagged.
    - Copying: a pair agrees on its shared items more than the model, given the other labels of these items,
      expects. An agreement weighs the more the less it is expected, for honest annotators share few errors.
      P-values are saddlepoint approximations, corrected for the number of pairs (Holm). Where all pairs agree more
      than expected, as when some items are hard for all, only those are flagged that stand out. Who copied whom
      cannot be known. Pairs who share fewer than 10 items are left out, and with fewer than some 50 shared items
      most copiers are missed. A method that ignores habits takes them for copying, as one_coin does with annotators
      who always name one class. After an update, fit all labels at once before anyone is accused.
    - Colluding: three or more annotators linked by such pairs are a group. ``collusion`` is a score that needs no
      test of pairs: the annotator's part in the matrix of agreement beyond what confusions can explain (rank K
      squared), in standard deviations of noise; 0 where nothing stands out.

    Args:
        bits: information below which an annotator counts as a spammer.
        level: of the tests for copying.

    Returns:
        DataFrame by annotator:

        - ``labels``: labels given, those before an update included
        - ``information``: of a label about the truth, in bits
        - ``spammer``: whether it is below ``bits``
        - ``met``, ``tested``: other annotators with one shared item or more, and with ten or more
        - ``partner``: annotator with the smallest p-value; missing, as the next five, where no pair was tested
        - ``shared``: items that both labelled, counted by pairs of labels
        - ``agreement``, ``expected``: share of these in which the two agree, and which the model expects
        - ``z``: standard normal deviate of the weighted agreement
        - ``p_value``: of so much weighted agreement, corrected for the number of pairs
        - ``copying``: whether it is at most ``level``
        - ``collusion``: the annotator's part in agreement that confusions do not explain; 0 is none
        - ``group``: number of the group, from 0; missing outside of groups

    Raises:
        MethodError: when bits or level are out of range.
        DataError: when no item has two labels, or labels are no classes.

    Examples:
        >>> crowd = crowdppl.simulate_annotators([0, 1, 2] * 50, {"hammer": 3, "spammer": 1}, seed=0)
        >>> posterior = crowdppl.fit("one_coin", crowd.data, inference="em", seed=0)
        >>> crowdppl.suspicious_annotators(posterior)[["labels", "information", "spammer", "copying"]].round(2)
                   labels  information  spammer  copying
        annotator
        hammer-1      150         0.56    False    False
        hammer-2      150         0.39    False    False
        hammer-3      150         0.78    False    False
        spammer-1     150         0.00     True    False
    """
    posterior, level = require_fit(posterior), share_between("level", level, "0.05 is usual")
    bits = number_within("bits", bits, "a number, at least 0", lambda x: x >= 0)
    data, n = posterior.data, posterior.data.n_annotators
    excess = excess_agreement(posterior)
    p = collusion.p_values(excess)
    labels = labels_given(data) + (0 if posterior.memory is None else posterior.memory.labels)
    partners = _partners(data, excess, p)
    found = information(informative_part(posterior, posterior.result.confusions), posterior.result.prevalence)
    group = collusion.groups(excess, p <= level, n)
    columns = {
        "labels": labels,
        "information": found,
        "spammer": (found < bits) & (labels > 0),
        "met": excess.met,
        "tested": np.bincount(np.concatenate([excess.one, excess.other]), minlength=n),
        **partners,
        "copying": partners["p_value"] <= level,
        "collusion": collusion.loadings(excess, n),
        "group": pd.array(np.where(group < 0, 0, group), "Int64"),
    }
    table = pd.DataFrame(columns, index=data.annotators)
    table.loc[group < 0, "group"] = pd.NA
    return table


def _partners(data: Annotations, excess: ExcessAgreement, p: np.ndarray) -> dict[str, pd.Series]:
    """For each annotator the pair with the smallest p-value, of equal ones that with the largest deviate."""
    rows = np.concatenate([np.arange(len(p))] * 2)
    me, other = np.concatenate([excess.one, excess.other]), np.concatenate([excess.other, excess.one])
    best = np.lexsort([-excess.deviate[rows], p[rows], me])
    first = best[np.unique(me[best], return_index=True)[1]]
    row, who = rows[first], data.annotators[me[first]]
    found = {
        "partner": data.annotators[other[first]].to_series(index=who),
        "shared": pd.Series(excess.shared[row], who),
        "agreement": pd.Series(excess.agreed[row] / excess.shared[row], who),
        "expected": pd.Series(excess.expected[row] / excess.shared[row], who),
        "z": pd.Series(excess.deviate[row], who),
        "p_value": pd.Series(p[row], who),
    }
    return {name: values.reindex(data.annotators) for name, values in found.items()}
