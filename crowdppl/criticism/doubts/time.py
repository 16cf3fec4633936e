"""Doubts about time: annotators who change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from crowdppl.core.doubt import Doubt
from crowdppl.criticism.doubts.search import Search, doubt, quoted
from crowdppl.inference.predict.answers import labels_by
from crowdppl.inference.result import Fit

LEVEL = 0.01
"""Chance that some annotator of a steady crowd is taken for one who changes."""
LEAST_LABELS = 8
"""Labels of an annotator from which a change can be told from chance."""


class Change(NamedTuple):
    """An annotator who is right more often on one side of a time than on the other.

    Attributes:
        annotator: code.
        p_value: the chance that a steady annotator seems to change so much.
        since: row of ``frame()`` of the first label after the change.
        before, after: how often labels are the truth, as it seems.
    """

    annotator: int
    p_value: float
    since: int
    before: float
    after: float


def changes(fit: Fit) -> list[Change]:
    """For each annotator with enough labels, the largest change; labels stand in order of their times.

    A label's score is how probable other labels make its class, less what the fit expects of that before the label
    is given. Sums of scores, less their part of the whole by expected variance, are those of a Brownian bridge if
    an annotator is steady, and Kolmogorov's distribution is that of the largest. Squares of scores would not do for
    the part: those of rare errors go with their sign.
    """
    from scipy.special import kolmogorov  # slow to import

    data, result = fit.data, fit.result
    assert data.columns is not None
    times, (item, annotator, answer) = data.columns[data.time].to_numpy(), data.label_codes()
    named, out = answer < data.n_classes, list[Change]()
    for who in np.flatnonzero(np.bincount(annotator[named], minlength=data.n_annotators) >= LEAST_LABELS):
        rows = np.flatnonzero(named & (annotator == who))
        rows = rows[np.argsort(times[rows], kind="stable")]
        table, own = np.asarray(result.confusions[[who]])[0, :, : data.n_classes], answer[rows]
        truth = result.probabilities[item[rows]]
        others = truths_without(truth, table, own)
        said = others @ (table / table.sum(1, keepdims=True))
        expected = (said * others).sum(1)
        variance = np.maximum((said * others**2).sum(1) - expected**2, 1e-300)
        score = others[np.arange(len(rows)), own] - expected
        score = score - variance * score.sum() / variance.sum()
        bridge = np.abs(np.cumsum(score)) / max(1e-150, np.sqrt((score**2).sum()))
        bridge[:-1][times[rows[1:]] == times[rows[:-1]]] = 0  # labels of one time have no order
        last = int(bridge[:-1].argmax())
        right = truth[np.arange(len(rows)), own]
        sides = float(right[: last + 1].mean()), float(right[last + 1 :].mean())
        out.append(Change(int(who), float(kolmogorov(bridge[last])), int(rows[last + 1]), *sides))
    return out


def truths_without(truth: np.ndarray, table: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Probabilities of truths (S, K) as they are without an annotator's own labels (S,), of which these know."""
    others = truth / np.maximum(table[:, own].T, 1e-9)
    return np.asarray(others / others.sum(1, keepdims=True))


@doubt("drift", needs=("data", "time"))
def drift(search: Search) -> Iterator[Doubt]:
    """Annotators are right more often before some time, or after it, than one steady skill lets them be.

    Looked for where ``time=`` names the column of times, by sums of what is surprising in an annotator's labels so
    far (the CUSUM test, Brown, Durbin & Evans 1975). Chance makes a doubt in one of a hundred steady crowds. Models
    whose confusions depend on these times, as drifting_coin's do, are not asked.
    """
    fit, data = search.posterior.uncorrected(), search.posterior.data
    if labels_by(fit, str(data.time)):
        return
    tested = changes(fit)
    found = sorted((x for x in tested if x.p_value * len(tested) <= LEVEL), key=lambda x: x.p_value)
    if found:
        first, who = found[0], search.annotators([x.annotator for x in found])
        assert data.columns is not None
        since = data.columns[data.time].iloc[first.since]
        since = f"{since:g}" if isinstance(since, float) else str(since).removesuffix(" 00:00:00")
        more = f", and {len(found) - 1} others change, too: {quoted(who[1:])}" if len(found) > 1 else ""
        yield Doubt(
            "drift",
            f"annotator {who[0]!r} seems to be right in {first.before:.0%} of labels before {since}, and in "
            f"{first.after:.0%} from then on{more}. The fit takes annotators as steady, and believes them too much "
            "on one side of it; if many change at once, items may have become harder. Take drifting_coin, or fit "
            "to the labels of a first day, and update by those of each later one with forget=.3, say",
            {"annotators": who},
            {
                "annotators": len(tested),
                "p_value": first.p_value,
                "before": first.before,
                "after": first.after,
            },
            ("crowdppl.fit('drifting_coin', data)",),
        )
