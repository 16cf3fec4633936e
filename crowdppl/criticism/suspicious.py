"""Annotators to look at: whose labels say nothing, who copy another, who act in a group."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pandas as pd

from crowdppl.core.validation import number_within, share_between
from crowdppl.criticism import collusion
from crowdppl.criticism.collusion import excess_agreement
from crowdppl.criticism.design import Design
from crowdppl.criticism.joint_errors import among_all, shared_errors
from crowdppl.data.annotations import Annotations, labels_given
from crowdppl.errors import DataError
from crowdppl.inference.result import Fit, NumberTruth, require_fit
from crowdppl.results.annotators import information, informative_part

COPIED = 0.5
"""Correlation of two annotators' errors above which one may copy the other."""


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

    Of numbers, the information is that of Gaussian ones with the rank correlation of an annotator's labels and the
    medians of others' (of angles, a circular one). A spammer's is below ``bits``, and the correlation is below the
    median of annotators beyond chance, which few labels do not tell. A pair copies where errors correlate by more
    than .5, beyond chance. Rankings, and grades on a scale, are refused.

    Args:
        bits: information below which an annotator counts as a spammer.
        level: of the tests for copying, and for spammers of numbers; over all pairs, or annotators.

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

        Of numbers, ``correlation`` (of errors) stands in place of ``agreement``, ``expected``, ``z`` and
        ``collusion``.

    Raises:
        MethodError: when bits or level are out of range.
        DataError: when no item has two labels, or these are rankings, or grades whose truths are numbers.

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
    if isinstance(posterior.result.truth, NumberTruth):
        return _of_numbers(posterior, bits, level)
    data, n = posterior.data, posterior.data.n_annotators
    excess = excess_agreement(posterior)
    p = collusion.p_values(excess)
    shares = {"agreement": excess.agreed / excess.shared, "expected": excess.expected / excess.shared}
    about = {"shared": excess.shared, **shares, "z": excess.deviate, "p_value": p}
    partners = _partners(data, excess.one, excess.other, about, -excess.deviate)
    found = information(informative_part(posterior, posterior.result.confusions), posterior.result.prevalence)
    linked = p <= level
    given = _given(posterior)
    columns = {
        "labels": given,
        "information": found,
        "spammer": (found < bits) & (given > 0),
        "met": excess.met,
        "tested": np.bincount(np.concatenate([excess.one, excess.other]), minlength=n),
        **partners,
        "copying": partners["p_value"] <= level,
        "collusion": collusion.loadings(excess, n),
        "group": _groups(data, excess.one[linked], excess.other[linked]),
    }
    return pd.DataFrame(columns, index=data.annotators)


def _of_numbers(posterior: Fit, bits: float, level: float) -> pd.DataFrame:
    """The table where labels are numbers: how they go with those of others, and whose errors go together."""
    data, n = posterior.data, posterior.data.n_annotators
    kind = data.alphabet.kind
    if not kind.numeric or kind.parts is not None:
        raise DataError(
            f"suspicious_annotators compares classes or numbers, and takes no {kind.plural} by {posterior.method}; "
            "posterior.annotators() says how reliable each annotator is"
            + (", and a fit of 'ordinal' takes grades as classes" if data.n_classes else "")
        )
    design = Design.of(data, numbers=True)
    found, most = _rank_correlations(design, level / n)
    told = -np.log2(1 - found**2) / 2
    pair, correlation, p = shared_errors(design)
    p = among_all(p)
    one, other = np.divmod(pair, n)
    linked = (p <= level) & (correlation > COPIED)
    met, times = design.met()
    about = {"shared": times[np.searchsorted(met, pair)], "correlation": correlation, "p_value": p}
    partners = _partners(data, one, other, about, -correlation)
    columns = {
        "labels": _given(posterior),
        "information": told,
        "spammer": (told < bits) & (most < pd.Series(found).median()),
        "met": np.bincount(np.concatenate(np.divmod(met, n)), minlength=n),
        "tested": np.bincount(np.concatenate([one, other]), minlength=n),
        **partners,
        "copying": (partners["p_value"] <= level) & (partners["correlation"] > COPIED),
        "group": _groups(data, one[linked], other[linked]),
    }
    return pd.DataFrame(columns, index=data.annotators)


def _medians_of_others(x: np.ndarray, item: np.ndarray) -> np.ndarray:
    """The median of the other numbers (S,) of each one's item, (S,); its own where there are none."""
    order = np.lexsort((x, item))
    times = np.bincount(item)
    start, place = (np.cumsum(times) - times)[item], np.empty(len(x), np.int64)
    place[order] = np.arange(len(x))
    place -= start
    rest = times[item] - 1
    ends = (np.maximum(rest + odd, 0) // 2 for odd in (-1, 0))
    low, high = (x[order[start + np.where(end < place, end, np.minimum(end + 1, rest))]] for end in ends)
    return np.asarray((low + high) / 2)


def _rank_correlations(design: Design, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Of each annotator's numbers and the medians of others' on the same items: (A,), and the largest likely.

    One who is far off moves no median. Of angles, the circular correlation of Fisher & Lee (1983)
    with the circular means of others. NaN of fewer than 4 items.
    """
    space, item = design.space, design.item
    own = np.stack(space.moments(design.answer))
    others = np.stack([np.bincount(item, x)[item] for x in own]) - own
    count = design.labels[item] - 1
    kept = count > 0
    who, times = design.annotator[kept], np.bincount(design.annotator[kept], minlength=design.n_annotators)
    x, y = design.answer[kept], space.estimate(*(others[:, kept] / count[kept]))[0]
    if space.ordered:
        y = _medians_of_others(design.answer, item)[kept]
        ranks = pd.DataFrame({"x": x, "y": y}).groupby(who).rank()
        x, y = (ranks - ranks.groupby(who).transform("mean")).to_numpy().T
        total, *squares = (np.bincount(who, z, len(times)) for z in (x * y, x**2, y**2))
    else:
        (a, b), (c, d) = space.moments(x), space.moments(y)
        products = (a * c, b * d, a * d, b * c, a**2 - b**2, 2 * a * b, c**2 - d**2, 2 * c * d)
        s = [np.bincount(who, z, len(times)) for z in products]
        total = 4 * (s[0] * s[1] - s[2] * s[3])
        squares = [times**2 - s[4] ** 2 - s[5] ** 2, times**2 - s[6] ** 2 - s[7] ** 2]
    over = np.sqrt(np.maximum(squares[0] * squares[1], 0))
    r = np.divide(total, over, out=np.zeros(len(times)), where=over > 0)
    r = np.where(times > 3, np.clip(np.abs(r), 0, 1 - 1e-9), np.nan)
    above = np.arctanh(r) - NormalDist().inv_cdf(level) / np.sqrt(np.maximum(times - 3, 1))
    return r, np.tanh(above)


def _given(posterior: Fit) -> np.ndarray:
    """Labels of each annotator, those before an update included, (A,)."""
    return labels_given(posterior.data) + (0 if posterior.memory is None else posterior.memory.labels)


def _groups(data: Annotations, one: np.ndarray, other: np.ndarray) -> pd.Series[int]:
    """The group of each annotator that pairs join; missing outside of groups."""
    group = collusion.groups(one, other, data.n_annotators)
    return pd.Series(group, data.annotators, "Int64").mask(group < 0)


def _partners(
    data: Annotations, one: np.ndarray, other: np.ndarray, about: dict[str, np.ndarray], tie: np.ndarray
) -> dict[str, pd.Series]:
    """For each annotator the pair with the smallest p-value, of equal ones that with the smallest ``tie``."""
    rows = np.concatenate([np.arange(len(one))] * 2)
    me, partner = np.concatenate([one, other]), np.concatenate([other, one])
    best = np.lexsort([tie[rows], about["p_value"][rows], me])
    first = best[np.unique(me[best], return_index=True)[1]]
    who = data.annotators[me[first]]
    found = {"partner": data.annotators[partner[first]].to_series(index=who)}
    found |= {name: pd.Series(x[rows[first]], who) for name, x in about.items()}
    return {name: values.reindex(data.annotators) for name, values in found.items()}
