"""Log-space sums and products over named dimensions, with sums that know how to draw."""

from __future__ import annotations

import string
from collections import OrderedDict
from collections.abc import Mapping

import torch
from pyro.ops.contract import contract_tensor_tree
from pyro.ops.rings import LogRing
from torch import Tensor

from crowdppl.stories.summing import logsumexp

SYMBOLS = string.ascii_lowercase
"""Names of tensor dimensions, counted from the right."""
Terms = OrderedDict[frozenset[str], list[Tensor]]
"""Factors by the plates in which they stand."""


def contract(terms: Terms, sums: set[str], sizes: Mapping[str, int]) -> Terms:
    """Sums dimensions out of a product of factors, by Pyro's plated contraction.

    A single discrete site in the plates of its labels needs no plan: there the sum is formed at once, which is
    what Pyro would do, too.

    Args:
        terms: named factors by the plates in which they stand.
        sums: the dimensions to sum out.
        sizes: of all dimensions.
    """
    ring = DrawingRing(dim_to_size=sizes)  # type: ignore[no-untyped-call]
    where = [plates for plates, found in terms.items() if any(_holds(x, sums) for x in found)]
    if len(sums) > 1 or len(where) != 1:
        planned: Terms = contract_tensor_tree(terms, sums, ring=ring)
        return planned
    factors = terms[where[0]]
    summed = ring.sumproduct([x for x in factors if _holds(x, sums)], frozenset(sums))
    return OrderedDict({**terms, where[0]: [*(x for x in factors if not _holds(x, sums)), summed]})


def _holds(factor: Tensor, dims: set[str]) -> bool:
    return not dims.isdisjoint(factor._pyro_dims)  # type: ignore[attr-defined]


def named(factor: Tensor, dtype: torch.dtype) -> Tensor:
    """Drops expanded and unit dimensions, and names those that are left by their distance from the right."""
    factor = narrowed(factor)
    dims = "".join(SYMBOLS[factor.dim() - 1 - i] for i, n in enumerate(factor.shape) if n > 1)
    out = factor.squeeze().to(dtype)
    out = out + 0 if out is factor else out  # a fresh object, because the name is written on it
    out._pyro_dims = dims  # type: ignore[attr-defined]
    return out


def narrowed(x: Tensor) -> Tensor:
    """The same without what was only expanded."""
    for i, step in enumerate(x.stride()):
        if step == 0 and x.shape[i] > 1:
            x = x.narrow(i, 0, 1)
    return x


class DrawingRing(LogRing):
    """Pyro's log ring with sums that know how to draw."""

    def sumproduct(self, terms: list[Tensor], dims: frozenset[str]) -> Tensor:
        terms = _without_leaves(terms, dims)
        names: list[str] = [t._pyro_dims for t in terms]  # type: ignore[attr-defined]
        every = set("".join(names))
        out, summed = "".join(sorted(every - set(dims))), "".join(sorted(every & set(dims)))
        order = summed + out
        total: Tensor | None = None
        for term, has in zip(terms, names, strict=True):
            if has != order:
                kept = [has.index(c) for c in order if c in has]
                term = term if kept == sorted(kept) else term.permute(kept)
                term = term.reshape([self._size[c] if c in has else 1 for c in order])
            total = term if total is None else total + term
        assert total is not None
        if summed:
            total = logsumexp(total.flatten(0, len(summed) - 1), dim=0)
        total._pyro_dims = out  # type: ignore[attr-defined]
        return total

    @property
    def _size(self) -> dict[str, int]:
        sizes: dict[str, int] = self._dim_to_size
        return sizes


def _without_leaves(terms: list[Tensor], dims: frozenset[str]) -> list[Tensor]:
    """Sums out first, term by term, what only one term depends on, before terms grow by each other's dimensions."""
    out, names = list(terms), [str(t._pyro_dims) for t in terms]  # type: ignore[attr-defined]
    for c in sorted(dims):
        holders = [n for n, has in enumerate(names) if c in has]
        if len(holders) != 1 or not dims & set(names[holders[0]]) - {c}:
            continue  # others depend on it, too; or nothing else is summed out here, so that nothing would be saved
        first = holders[0]
        out[first] = logsumexp(out[first], dim=names[first].index(c))
        names[first] = names[first].replace(c, "")
        out[first]._pyro_dims = names[first]  # type: ignore[attr-defined]
    return out
