"""Doubts about the fit as a whole: what it says of labels, what cannot be known, what the method itself doubts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import isnan
from typing import Any

import numpy as np

from crowdppl.core.doubt import Doubt
from crowdppl.core.importance import notes_on_tail
from crowdppl.core.validation import shown
from crowdppl.criticism.checks import predictive_check
from crowdppl.criticism.doubts.search import AUTO, Search, doubt
from crowdppl.data.ids import native
from crowdppl.errors import DataError
from crowdppl.inference.options import Options
from crowdppl.primitives.model import discount_of
from crowdppl.results.choices import credible_sets
from crowdppl.results.correction import MIN_GOLD, averaged, members

FLAT = 1e-3
"""Largest difference between the probabilities of items that count as the same."""
COVERAGE, LARGE, MOST_ITEMS = 0.9, 1.5, 10_000
"""Of label sets: their probability, how many times those of vote shares is large, and of how many items."""


@doubt("own", truth=object, needs=("model", "doubts"))
def own(search: Search) -> Iterator[Doubt]:
    """What the method itself doubts: a model may have a method ``doubts(fit)`` that returns records ``Doubt``.

    Where it raises an error, or returns something else, that is the doubt, and the fit stands.
    """
    model: Any = search.posterior.model
    try:
        # a setting may have that name
        found = list(model.doubts(search.posterior)) if callable(model.doubts) else []
        for x in found:
            if not isinstance(x, Doubt):
                raise TypeError(f"{shown(x)} is no crowdppl.Doubt")
            if not isinstance(x.text, str):
                raise TypeError(f"the text of a Doubt is {shown(x.text)}, no sentence")
    except Exception as error:
        found = [
            Doubt(
                "own",
                f"what {type(model).__name__} itself doubts is not known: its method doubts(fit) failed "
                f"({type(error).__name__}: {error}); mend it so that it returns a list of Doubt, or rename it",
            )
        ]
    yield from found


@doubt("flat")
def flat(search: Search) -> Iterator[Doubt]:
    """All items have one and the same probabilities, though their labels differ: labels tell nothing of a truth."""
    data, labelled = search.posterior.data, search.sizes > 0
    asked = np.flatnonzero(labelled if data.gold_codes is None else labelled & (data.gold_codes < 0))
    for some in (asked[:1000], asked):  # most fits tell the first items apart
        p = search.posterior.result.probabilities[some]
        if len(p) < 2 or np.ptp(p, axis=0).max() > FLAT:
            return
    if len(np.unique(data.votes()[asked].argmax(1))) < 2:
        return
    top, name = native(data.classes[p[0].argmax()]), search.methods[2]
    constant = not ((search.named > 0).sum(1) > 1).any()  # truths would show nobody to tell classes apart
    yield Doubt(
        "flat",
        f"all {len(p):,} items with labels have the same probabilities (most of all {top!r}, {p[0].max():.3f}), "
        "though their labels differ: by this fit no annotator tells classes apart, as where each gave one class "
        f"only. A prior by which annotators are mostly right helps, as in {name}"
        f"{', and so do known truths (gold=)' * (not constant)}",
        figures={"items": len(p), "probability": float(p[0].max())},
        remedies=(f"crowdppl.fit({name!r}, data)", *[search.refit(gold="gold")] * (not constant)),
    )


@doubt("misfit", thorough=True)
def misfit(search: Search) -> Iterator[Doubt]:
    """Labels drawn from the fit differ from those given, at level .01 of ``crowdppl.predictive_check``.

    Looked for with ``thorough`` alone, and not for corrected posteriors.
    """
    posterior = search.posterior
    if posterior.correction is not None or posterior.data.n_labels > 1_000_000:  # each takes 8 bytes a draw
        return
    try:
        check = predictive_check(posterior, draws=100, seed=posterior.options["seed"])
    except DataError:  # no item has two labels
        return
    if check.p_value <= 0.01:
        remedies: tuple[str, ...] = (AUTO, search.refit(gold="gold", calibrate="True"))
        cause = (
            "Labels of an item may have more in common than its truth, and probabilities are then too sure: "
            "fit('auto', data) or calibrate=True correct them"
        )
        if check.worst == "class_shares":
            remedies = (f"crowdppl.fit({search.methods[2]!r}, data)",)
            cause = (
                "Annotators differ in what they answer by more than the method allows: one with a confusion "
                "matrix for each may fit better"
            )
        observed, low, high = check.table.loc[[check.worst], ["observed", "low", "high"]].to_numpy()[0].tolist()
        yield Doubt(
            "misfit",
            f"labels drawn from the fit are unlike those given (p = {check.p_value:.2g}), most of all in "
            f"{check.worst}: {observed:.3g}, and {low:.3g} to {high:.3g} in 95 % of draws. "
            f"{cause}; crowdppl.predictive_check(posterior) shows more",
            {"statistics": (check.worst,)},
            {"p_value": check.p_value, "observed": observed, "low": low, "high": high},
            (*remedies, "crowdppl.predictive_check(posterior)"),
        )


@doubt("pareto", truth=object, needs=("result", "diagnostics", "pareto_k"))
def pareto(search: Search) -> Iterator[Doubt]:
    """Pathfinder's normals are far from the posterior: the Pareto k of its importance weights is above .7.

    NaN where draws are too few to tell.
    """
    k = float(search.posterior.result.diagnostics["pareto_k"])
    for note in notes_on_tail(k):
        more = {"draws": str(max(Options.draws, 2 * search.posterior.options["draws"]))}
        remedy = search.refit(**more if isnan(k) else {"inference": "'nuts'"})
        yield Doubt("pareto", note, figures={"pareto_k": k}, remedies=(remedy,))


@doubt("bias", needs=("correction",))
def bias(search: Search) -> Iterator[Doubt]:
    """Probabilities are corrected without known truths, which alone show a bias that annotators share."""
    correction = search.posterior.correction
    assert correction is not None
    if correction.gold:
        return
    size = correction.temperature or 1.0
    if size != 1:
        assumed = f"assumed as on other data sets: p^(1/{size:.2f})"
    else:
        assumed = "assumed as on other panels" if discount_of(search.posterior.model) else "none is assumed"
    yield Doubt(
        "bias",
        f"labels cannot tell a bias that annotators share from the truth ({assumed}): where many are misled alike, "
        f"probabilities are too sure; {MIN_GOLD} known truths or more (gold=) would show it",
        figures={"temperature": size, "gold": MIN_GOLD},
        remedies=(search.refit(gold="gold"),),
        general=True,
    )


@doubt("large sets", needs=("correction", "temperature"))
def large_sets(search: Search) -> Iterator[Doubt]:
    """Label sets are more than 1.5 times as large as those of vote shares, at least half of it by softening.

    Where they are as large without it, the labels themselves say so: annotators are often wrong.
    """
    posterior, data = search.posterior, search.posterior.data
    assert posterior.correction is not None
    if posterior.correction.gold:  # known truths have told
        return
    plain = averaged(members(posterior), replace(posterior.correction, temperature=None))
    some = np.flatnonzero(search.sizes > 0)
    some = some[:: -(-len(some) // MOST_ITEMS) or 1]
    share = data.votes()[some] / search.sizes[some, None]
    shares = (posterior.result.probabilities[some], plain.result.probabilities[some], share)
    size, before, of_votes = (
        float(np.mean([len(held) for held in credible_sets(p, range(data.n_classes), COVERAGE)])) for p in shares
    )
    if not (size > LARGE * of_votes and size - before >= before - of_votes):
        return
    temperature = float(posterior.correction.temperature or 1)
    yield Doubt(
        "large sets",
        f"label sets of {COVERAGE:.0%} hold {size:.2f} of {data.n_classes} classes on average, those of vote "
        f"shares {of_votes:.2f}: probabilities are softened, p^(1/{temperature:.2f}), for a bias that annotators "
        f"may share. Otherwise sets would hold {before:.2f}, enough where annotators err independently; {MIN_GOLD} "
        "known truths or more (gold=) would show it",
        figures={"size": size, "before": before, "votes": of_votes, "temperature": temperature},
        remedies=(search.refit(gold="gold"),),
    )
