"""Several methods behind one posterior: their fits, and how their probabilities become one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

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
