"""Which items people should label for a figure: a sample with known probabilities."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd

from crowdppl.core.validation import one_of, seed_number, whole_number
from crowdppl.errors import MethodError
from crowdppl.estimation.inputs import Proxy, worth_of_labels
from crowdppl.results.choices import hashed

DRAWN_FOR = ("share", "mean", "accuracy", "difference", "win_rate")
EVEN = 0.3
"""Part of the probabilities that is even: a proxy may be sure and wrong, and such items must be seen, too."""


def draw_items(
    quantity: Literal["share", "mean", "accuracy", "difference", "win_rate"],
    proxy: Any,
    n: int,
    *,
    of: Any = None,
    tie: Any = None,
    seed: int = 0,
) -> pd.DataFrame:
    """Items that people should label next, drawn with known probabilities, for an estimate with a narrow interval.

    An item is drawn the more often, the less sure the proxy is of what its label is worth to the figure: by its
    standard deviation, mixed with even chances (active inference: Zrnic & Candes 2024, ICML). Draws are one by one,
    without replacement (successive sampling: Rosen 1972), and depend on the seed and the items' ids alone: with a
    larger n, the same items come first, so that labels by people can be added to.

    Args:
        quantity, of, tie: the figure, as for ``estimate``.
        proxy: of all items, as for ``estimate``, but a proxy that is a single number an item says not how sure it
            is, and all items are as probable.
        n: how many items.
        seed: of the draw.

    Returns:
        DataFrame in the order of the draw: ``item``; ``chance``, the probability that it is among the n, to be
        given to ``estimate(chances=)``.

    Raises:
        MethodError: when the quantity or what it is of is unknown, n is above the number of items, or people label
            whole sequences or sets.
        DataError: for a proxy that ``estimate`` refuses.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> drawn = crowdppl.draw_items("share", posterior, 15, of=1)
        >>> people = {item: 1 if item % 2 else 2 for item in drawn["item"]}  # what they say
        >>> found = crowdppl.estimate("share", people, posterior, of=1, chances=drawn)
        >>> int(found.table["people"].item())
        15
    """
    one_of("quantity", quantity, DRAWN_FOR)
    seed = seed_number(seed)
    known = Proxy.of(proxy, pd.Series(dtype=object), None, is_number_proxy(proxy, quantity))
    if known.clusters() is not None:
        raise MethodError(
            "people label whole sequences or sets, and not tokens or single classes; draw some of them at random, "
            "and estimate knows what belongs together"
        )
    size, scope = sizes(known, quantity, of, tie)
    n = whole_number("n", n, 1)
    if n > len(scope):
        raise MethodError(f"n={n}, but there are {len(scope):,} items to draw from; ask for fewer")
    ids = known.items[scope]
    uniform = np.array([hashed(seed, item, size=6) for item in ids])
    first, chance = drawn(size, n, -np.log1p(-uniform))
    return pd.DataFrame({"item": ids[first], "chance": chance[first]})


def is_number_proxy(proxy: Any, quantity: str) -> bool:
    """Whether a proxy, of which no label by people is known, is one of numbers and not of classes."""
    return quantity == "mean" and isinstance(proxy, pd.Series) and pd.api.types.is_numeric_dtype(proxy)


def sizes(known: Proxy, quantity: str, of: Any, tie: Any) -> tuple[np.ndarray, np.ndarray]:
    """How probable items in scope are to be drawn, up to a factor, (M,), and their rows (M,)."""
    if known.classes is None:
        scope = np.arange(len(known.items))
        sd = np.ones(len(scope)) if known.sd is None else known.sd
    else:
        worth, within = worth_of_labels(quantity, of, known, tie)
        scope = np.flatnonzero(within)
        worth, p = worth[scope], known.forecast[scope]
        mean = (p * worth).sum(1)
        sd = np.sqrt(np.clip((p * worth**2).sum(1) - mean**2, 0, None))
    return EVEN + (1 - EVEN) * sd / sd.mean() if sd.any() else np.ones(len(scope)), scope


def drawn(size: np.ndarray, n: int, wait: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places of n items drawn in turn with probabilities as sizes (M,), by exponential waits, and chances of all.

    An item comes at ``wait / size``. The chances are those of coming before a time at which n are expected
    (Rosen 1972, Asymptotic theory for successive sampling), which are off by less than .01 from ten items on.
    """
    from scipy.optimize import brentq  # slow to import

    order = np.argsort(wait / size, kind="stable")[:n]
    if n == len(size):
        return order, np.ones(n)
    most = 1.0
    while -np.expm1(-size * most).sum() < n:
        most *= 2
    until = brentq(lambda time: -np.expm1(-size * time).sum() - n, 0, most, xtol=1e-14)
    return order, -np.expm1(-size * until)
