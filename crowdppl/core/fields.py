"""Checks of the fields of saved records, which annotate their types: ``Annotated[np.ndarray, Numbers("N K")]``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
from torch import Tensor

from crowdppl.core.validation import kind_of, shown
from crowdppl.errors import ResultError

if TYPE_CHECKING:
    Ids = pd.Index[Any]
else:
    Ids = pd.Index  # which takes no type when it is read at run time

Sizes = dict[str, int]
"""By letter: N items, A annotators, K classes, L answers, S labels; any other word is settled within a record."""
Check = Callable[[Any, str, Sizes], None]
"""Refuses a value at a place, a path such as "posterior/result/truth", by a ResultError."""
LATER: Final = "later"
"""Of a value on demand: files may lack it, because a loaded posterior computes it again."""
MOST, LEAST = float(np.finfo(np.float64).max), float(np.finfo(np.float64).smallest_subnormal)
"""The largest finite number, and the smallest above 0."""
ROUNDING = 1e-3
"""By how much a row of shares may miss one: draws are kept in float32."""


def refusal(place: str, found: str, wanted: str) -> ResultError:
    """The error for what crowdppl did not write."""
    return ResultError(
        f"{place} is {found}, not {wanted}: the file is damaged or forged; fetch it anew, or fit again"
    )


def one_of(names: Iterable[str]) -> Check:
    """One of some names."""
    known = tuple(names)

    def check(value: Any, place: str, sizes: Sizes) -> None:
        if value not in known:
            raise refusal(place, shown(value), f"one of {', '.join(known)}")

    return check


def within(low: float, high: float) -> Check:
    """A number of a range."""

    def check(value: Any, place: str, sizes: Sizes) -> None:
        if not low <= value <= high:
            raise refusal(place, shown(value), f"between {low:g} and {high:g}")

    return check


@dataclass(frozen=True, eq=False)
class Numbers:
    """An array or tensor of numbers.

    Args:
        shape: a word or a length for each dimension, as in "A K L"; None for any.
        kinds: of its numbers, as numpy's dtypes name them.
        low, high: the range, by default all that are finite; a letter is a size that is not reached.
        shares: whether the last dimension adds up to one.
    """

    shape: str | Sequence[str | int] | None
    kinds: str = "f"
    low: float = -MOST
    high: float | str = MOST
    shares: bool = False

    def __call__(self, value: Any, place: str, sizes: Sizes) -> None:
        x = value.numpy() if isinstance(value, Tensor) else value
        if x.dtype.kind not in self.kinds:
            raise refusal(place, f"an array of {x.dtype}", f"one of kind {self.kinds}")
        if self.shape is not None:
            words = self.shape.split() if isinstance(self.shape, str) else self.shape
            require_shape(x.shape, words, place, sizes)
        low, high = self.low, sizes[self.high] - 1 if isinstance(self.high, str) else self.high
        if x.dtype.kind == "b":
            x = x.view(np.uint8)  # whose bytes may be anything
        slack = 1e-9 if x.dtype.kind == "f" and low == 0 else 0.0  # of rounded probabilities and entropies
        if x.size and not (float(x.min()) >= low - slack and float(x.max()) <= high + slack):
            raise refusal(place, f"between {x.min()} and {x.max()}", f"between {low:g} and {high:g}")
        if self.shares:
            require_shares(x.sum(-1), place)


def require_shape(found: tuple[int, ...], words: Sequence[str | int], place: str, sizes: Sizes) -> None:
    """Refuses another shape than that of words, whose sizes are settled by it where they are not yet known."""
    for word, length in zip(words, found, strict=False):
        if isinstance(word, str):
            sizes.setdefault(word, length)
    wanted = tuple(word if isinstance(word, int) else sizes.get(word) for word in words)
    if found != wanted:
        raise refusal(place, f"of shape {found}", f"{wanted} ({' '.join(map(str, words))})")


def require_shares(sums: np.ndarray, place: str) -> None:
    """Refuses sums of shares that are not one."""
    if not np.allclose(sums, 1, atol=ROUNDING):
        raise refusal(place, "an array whose rows do not add up to one", "one of shares")


def ids(letter: str) -> Check:
    """An index of so many distinct texts, whole numbers or truth values."""

    def check(value: Any, place: str, sizes: Sizes) -> None:
        if len(value) != sizes.setdefault(letter, len(value)):
            raise refusal(place, f"of {len(value)} ids", f"of {letter} = {sizes[letter]}")
        mixed = value if value.inferred_type not in ("string", "integer", "boolean") else ()
        for one in mixed:
            if type(one) not in (str, int, bool):
                raise refusal(place, f"an index that holds {kind_of(one)}", "one of texts or whole numbers")
        if value.hasnans or not value.is_unique:
            raise refusal(place, "an index in which one is missing or occurs twice", "of distinct ids")

    return check


def permutation(letter: str) -> Check:
    """The numbers below a size in some order, as a list."""

    def check(value: Any, place: str, sizes: Sizes) -> None:
        if sorted(value) != list(range(sizes[letter])):
            raise refusal(place, shown(value), f"the numbers from 0 to {sizes[letter] - 1} in some order")

    return check
