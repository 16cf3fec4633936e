"""Random numbers that go to items, annotators and classes by their labels, not by what they are called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from crowdppl.inference.problem import Problem
from crowdppl.inference.sites import Site


@dataclass(frozen=True)
class Nameless:
    """The order in which the entries of a site draw from a random stream.

    Signatures decide it, so that other names change no draw. Entries that labels cannot tell apart may change
    places; unlike numbers made from a signature itself, theirs are then still independent.

    Attributes:
        orders: of the last dimensions of a value; there may be none, and each entry then draws where it stands.
    """

    orders: Sequence[Tensor]

    @staticmethod
    def of(problem: Problem, site: Site, order: np.ndarray | None = None) -> Nameless:
        """Of a site's values, whose items are by position, or by code.

        Args:
            problem: story and data.
            site: one of its sites.
            order: item code at each position, where items are by code.
        """
        found = problem.signatures.orders(site.shape(problem.n_items), site.counted)
        if order is not None:
            sizes = (*site.batch_shape, *site.event_shape)
            found = [order[at] if n == -1 else at for at, n in zip(found, sizes, strict=True)]
        return Nameless([torch.from_numpy(at.astype(np.int64)).to(problem.options.device) for at in found])

    def there(self, x: Tensor) -> Tensor:
        """From places to the order of drawing."""
        for back, at in enumerate(reversed(self.orders), 1):
            x = x.index_select(x.dim() - back, at)
        return x

    def back(self, x: Tensor) -> Tensor:
        """From the order of drawing to places."""
        return Nameless([at.argsort() for at in self.orders]).there(x)
