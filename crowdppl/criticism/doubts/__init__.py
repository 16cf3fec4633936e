"""Doubts: what the labels show to be wrong with a fit, each with a remedy; by subject, a function a doubt."""

from __future__ import annotations

from crowdppl.core.doubt import Doubt
from crowdppl.core.validation import switch
from crowdppl.criticism.doubts import annotators as annotators
from crowdppl.criticism.doubts import classes as classes
from crowdppl.criticism.doubts import comparisons as comparisons
from crowdppl.criticism.doubts import data as data
from crowdppl.criticism.doubts import fit as fit
from crowdppl.criticism.doubts import time as time
from crowdppl.criticism.doubts import votes as votes
from crowdppl.criticism.doubts.search import FINDERS, Search
from crowdppl.inference.result import Fit


def doubts(posterior: Fit, thorough: bool = False) -> tuple[Doubt, ...]:
    """Looks for problems of a fit; nothing found is no proof that all is well.

    Kinds of doubts, each explained in ``crowdppl.criticism.doubts``:

    - annotators: "thin", "spammers", "one class", "copying", "colluding", "together", "drift" (where ``time=`` is
      known)
    - classes: "diagonal", "collapse", "unnamed", "order", "prevalence", "permuted"
    - comparisons: "position"
    - data: "unanimous", "abstained", "repeats"
    - fit: "flat", "misfit", "votes", "bias", "large sets", "pareto" (of pathfinder), and those that the method
      itself offers, such as "diffuse" of mmlc

    Where truths are numbers, there are "copying", "pareto" and those of the method.

    Args:
        thorough: whether to fit again, ten times in all, for more doubts: "prevalence", "misfit", and "votes" on
            labels left out; gibbs then takes 200 sweeps at most.

    Examples:
        >>> crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0).doubts()
        ()
    """
    search = Search(posterior, switch("thorough", thorough))
    return tuple(found for finder in FINDERS if finder.applies(search) for found in finder.find(search))


def looked_for(posterior: Fit) -> tuple[str, ...]:
    """The kinds of doubts that ``doubts`` looks for in a fit, whether or not there are any."""
    search = Search(posterior)
    return tuple(dict.fromkeys(finder.kind for finder in FINDERS if finder.applies(search)))
