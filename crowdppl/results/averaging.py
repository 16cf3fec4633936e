"""Several methods behind one posterior: their fits, and how their probabilities become one."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from crowdppl.doors.telling import tell
from crowdppl.errors import ConvergenceWarning, CrowdpplWarning
from crowdppl.results.correction import Correction

if TYPE_CHECKING:
    from crowdppl.posterior import Posterior


def members(posterior: Posterior) -> dict[str, Posterior]:
    """The fits whose probabilities a corrected posterior averages, each as its method has it.

    Returns:
        By name, in the order of ``correction.weights``; where nothing was corrected, the posterior itself alone.

    Examples:
        >>> posterior = crowdppl.fit("auto", crowdppl.anaesthetists(), seed=0)
        >>> {name: round(weight, 2) for name, weight in posterior.correction.weights.items()}
        {'hierarchical_mixed_membership': 0.27, 'hierarchical_dawid_skene': 0.73}
        >>> posterior.members()["hierarchical_mixed_membership"]
        <Posterior of hierarchical_mixed_membership by vb: 45 items, 5 annotators, 4 classes>
    """
    correction, own = posterior.correction, posterior.uncorrected()
    if correction is None:
        return {posterior.method: own}
    return {name: correction.others.get(name, own) for name in correction.weights}


def members_after(posterior: Posterior, change: Callable[[Posterior], Posterior]) -> dict[str, Posterior]:
    """The members, each after a change that fits it anew.

    Raises:
        KeyboardInterrupt: when Ctrl-C stops one of several fits: it is meant for all of them, and their average
            would not show that one is unfinished.
    """
    before = members(posterior)
    if len(before) == 1:
        return {name: change(fit) for name, fit in before.items()}
    after = {}
    for name, fit in before.items():
        after[name] = named(name, partial(change, fit))
        if after[name].result.diagnostics["interrupted"]:
            raise KeyboardInterrupt
    return after


def named(name: str, make: Callable[[], Posterior]) -> Posterior:
    """A fit of one of several methods; what is warned of bears its name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        found = make()
    if not found.result.diagnostics["interrupted"]:
        for note in found.result.diagnostics["warnings"]:
            tell(f"{name}: {note}", ConvergenceWarning)
    return found


def averaged(fits: Mapping[str, Posterior], correction: Correction | None) -> Posterior:
    """The posterior of the method with the largest weight, with the probabilities of all, corrected.

    Args:
        fits: of the methods of the correction, by name, of the same items, none of them corrected.
        correction: what is done to their probabilities; None returns the one fit as it is.
    """
    if correction is None:
        (alone,) = fits.values()
        return alone
    main = fits[correction.main]
    before = None if main.memory is None else main.memory.votes
    found = correction({name: fits[name].result.probabilities for name in correction.weights}, main.data, before)
    others = {name: fits[name] for name in correction.weights if name != correction.main}
    kept = replace(correction, raw=main.result.probabilities, others=others)
    return replace(main, result=replace(main.result, probabilities=found), correction=kept)
