"""A story and values for its continuous sites in, the log marginal likelihood and its counts out.

Every discrete site is summed out by enumeration over the story's plates. Seen as a function of unnormalised
log-parameters, the gradient of the log marginal likelihood is the expected count of each parameter's use
(Fisher's identity); with drawing sums it is the count in an exact joint draw of all discrete sites.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from pyro.poutine import Trace
from torch import Tensor

from crowdppl.data.blocks import Block
from crowdppl.errors import MethodError, NumericalError
from crowdppl.inference.machinery.recording import aside
from crowdppl.inference.reading.leaves import Leaf, find_leaves, scored
from crowdppl.inference.reading.nodes import is_plate, nodes
from crowdppl.inference.reading.ring import SYMBOLS, Terms, contract, named
from crowdppl.inference.reading.tracing import traced
from crowdppl.stories.summing import Summing, summing

FLOOR = -80.0
"""Smallest log-probability that a story receives: its exponential is a normal number in float32."""


@dataclass(frozen=True)
class Evaluation:
    """What one pass over one block of items returns; C is absent without chains.

    Attributes:
        objective: float64 (C,), log p(labels of the block | values), scaled where the block is a minibatch.
        per_item: (C, n_items) log evidence of each item (or label), unscaled.
        gradient: of the objective, for each site asked for: counts at Dirichlet sites (with respect to
            log theta), plain gradients elsewhere.
        marginals: for each discrete site asked for, (T, C, n_items): its posterior, or its draw as one-hot.
        trace: the story's trace: priors are ``nodes(trace)[site]["fn"]``.
    """

    objective: Tensor
    per_item: Tensor
    gradient: dict[str, Tensor]
    marginals: dict[str, Tensor]
    trace: Trace


@dataclass(frozen=True)
class Density:
    """The log marginal likelihood of a story, one block of items at a time.

    Args:
        model: the story, ``model(data)``.
        plates: nesting depth of the story's plates (1: items alone; 2: groups and items).
        chains: number of chains that ride along in the tables' width, or None.
        log_sites: sites whose values are given as log theta; the story receives theta.
        latents: every site that must be given a value, so that none is silently drawn from its prior.
    """

    model: Callable[[Block], Any]
    plates: int = 1
    chains: int | None = None
    log_sites: frozenset[str] = frozenset()
    latents: frozenset[str] = field(default_factory=frozenset)

    def trace(self, block: Block, values: Mapping[str, Tensor]) -> Trace:
        """Runs the story at given values; labels are not touched, so that this costs no pass over data."""
        return traced(self.model, block, self._given(values), self.plates, self.chains)

    def priors(self, block: Block, values: Mapping[str, Tensor]) -> Trace:
        """The trace up to the last site that is given a value, for what a story says of these sites alone.

        What a story does afterwards (tables of every annotator, answer and chain) often costs far more than what
        came before.
        """
        return traced(self.model, block, self._given(values), self.plates, self.chains, enough=values)

    def _given(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {n: x.clamp(min=FLOOR).exp() if n in self.log_sites else x for n, x in values.items()}

    def __call__(
        self,
        block: Block,
        values: Mapping[str, Tensor],
        *,
        gradient: Collection[str] = (),
        marginals: Collection[str] = (),
        tilt: Mapping[str, Tensor] | None = None,
        how: Summing | None = None,
        extra: Callable[[Trace, Mapping[str, Tensor]], Tensor] | None = None,
    ) -> Evaluation:
        """Evaluates the objective and its derivatives.

        Args:
            block: items with their labels.
            values: a tensor for every continuous and one-hot site; with chains (C, 1, ..., event) for sites
                outside plates. Sites in ``log_sites`` as log theta.
            gradient: sites to differentiate by.
            marginals: discrete sites, or named sums of the story, whose posterior (or draw) is wanted.
            tilt: log-potentials (T, [C,] n_items) added to a discrete site, used for starts.
            how: how sums differentiate; expectations by default.
            extra: adds global terms to the objective, given the trace and what the story received: float64 (C,).

        Raises:
            MethodError: when a latent is neither given nor enumerated.
            NumericalError: when the objective is not finite; it names a site.
        """
        how = how or Summing()
        how.probes = dict.fromkeys(marginals)
        given = self._given(values)
        leaves = {n: given[n].detach().requires_grad_() for n in gradient}
        at = {**given, **leaves}
        with summing(how):
            trace = traced(self.model, block, at, self.plates, self.chains)
            terms, sums, sizes, scale, below = self._factors(trace, values, how, tilt or {}, block.dtype)
            parts = contract(terms, sums, sizes)
            per_item = self._per_item(parts)
            objective = per_item.double().sum(-1)
            objective = objective if scale == 1.0 else objective * scale
            if extra is not None:
                objective = objective + extra(trace, at)
            with aside():
                self._check(objective, values, trace)
            probes = {n: x for n, x in how.probes.items() if x is not None}
            wanted = {**leaves, **{f"probe {n}": x for n, x in probes.items()}}
            got = _gradient(objective, wanted)
        shares = {n: got[f"probe {n}"] for n in probes}
        shares |= {n: leaf.marginal(shares[leaf.parent]) for n, leaf in below.items()}
        return Evaluation(
            objective.detach(),
            per_item.detach(),
            {n: got[n] * x.detach() if n in self.log_sites else got[n] for n, x in leaves.items()},
            {n: self._marginal(shares[n], nodes(trace).get(n)) for n in marginals if n in shares},
            trace,
        )

    def _factors(
        self,
        trace: Trace,
        values: Mapping[str, Tensor],
        how: Summing,
        tilt: Mapping[str, Tensor],
        dtype: torch.dtype,
    ) -> tuple[Terms, set[str], dict[str, int], float, dict[str, Leaf]]:
        """The log-factors of discrete and observed sites by plate, with probes where marginals are wanted."""
        factors, dims, scale = scored(trace, values, drawing=how.kind != "sum")
        wanted = [n for n in how.probes if n not in tilt and how.kind == "sum"]
        leaves = find_leaves(wanted, factors, dims)
        for name, leaf in leaves.items():
            how.probes.setdefault(leaf.parent, None)
            del how.probes[name]
        terms: Terms = OrderedDict()
        sizes: dict[str, int] = {}
        for name, factor in factors.items():
            if name in how.probes or name in tilt:
                full = np.broadcast_shapes(factor.shape, nodes(trace)[name]["fn"].batch_shape)
                factor = factor + self._probe(name, factor.expand(full), how, tilt)
            stack = nodes(trace)[name]["cond_indep_stack"]
            factor = named(factor, dtype)
            sizes.update(zip(factor._pyro_dims, factor.shape, strict=True))  # type: ignore[attr-defined]
            terms.setdefault(frozenset(SYMBOLS[-f.dim - 1] for f in stack if f.vectorized), []).append(factor)
        return terms, {SYMBOLS[-dim - 1] for dim in dims.values()}, sizes, scale, leaves

    def _probe(self, name: str, factor: Tensor, how: Summing, tilt: Mapping[str, Tensor]) -> Tensor:
        """A zero tensor (or the tilt) of the factor's full shape, whose gradient is the site's marginal."""
        start = torch.zeros(factor.shape, dtype=factor.dtype, device=factor.device)
        if name in tilt:
            full = tilt[name].to(factor)
            chains = (full.shape[1:-1] or (1,)) if self.chains is not None else ()
            inner = (*chains, *(1,) * (self.plates - 1), full.shape[-1])
            others = (1,) * (factor.dim() - 1 - len(inner))  # enumerated sites on which this one depends
            start = start + full.reshape(full.shape[0], *others, *inner)
        if name in how.probes:
            how.probes[name] = start.requires_grad_()
        return start

    def _marginal(self, x: Tensor, node: Any) -> Tensor:
        """(T, [C, groups,] n_items): sums other enumerated sites out; a named sum of the story stays as it is."""
        if node is None:
            return x
        many = self.chains is not None
        own = x.dim() + node["infer"]["_enumerate_dim"]
        others = [d for d in range(x.dim() - self.plates - many) if d != own]
        x = x.sum(others) if others else x
        plates = [n for n in x.shape[1 + many : -1] if n > 1]
        return x.reshape(*x.shape[: 1 + many], *plates, x.shape[-1])

    def _per_item(self, parts: Mapping[frozenset[str], list[Tensor]]) -> Tensor:
        """Adds up what is left in each term but items and chains: ([C,] n_items)."""
        keep = (SYMBOLS[self.plates] if self.chains is not None else "") + SYMBOLS[0]
        total: Tensor | None = None
        for term in (t for terms in parts.values() for t in terms):
            dims: str = term._pyro_dims  # type: ignore[attr-defined]
            inner = [i for i, c in enumerate(dims) if c not in keep]
            term = term.sum(inner) if inner else term
            left = [c for c in dims if c in keep]
            if left != list(keep):
                order = [left.index(c) for c in keep if c in left]
                shape = [term.shape[left.index(c)] if c in left else 1 for c in keep]
                term = term.permute(order).reshape(shape)
            total = term if total is None else total + term
        if total is None:
            raise MethodError("the story scores no labels: call crowdppl.annotate inside the plate of items")
        lead = (self.chains,) if self.chains is not None else ()
        return total.expand(*lead, total.shape[-1]) if lead else total

    def _check(self, objective: Tensor, values: Mapping[str, Tensor], trace: Trace) -> None:
        if all(map(math.isfinite, objective.reshape(-1).tolist())):
            return
        bad = [n for n, x in values.items() if not bool(torch.isfinite(x).all())]
        if bad:
            where = f"site {bad[0]!r} holds a value that is not finite"
        elif broken := _not_a_number(trace):
            where = f"site {broken!r} has a log-probability that is not a number"
        else:
            where = "every site is finite, so some item's labels have probability zero under the story"
        raise NumericalError(
            f"the log-likelihood is {objective.reshape(-1)[0].item()}: {where}; look for a probability of exactly "
            "0 in the story, contradictory gold, or a scale that overflows"
        )


def _not_a_number(trace: Trace) -> str | None:
    """The first site whose log-probability is NaN somewhere."""
    for name, node in nodes(trace).items():
        if node["type"] != "sample" or is_plate(node):
            continue
        if bool(torch.isnan(node["fn"].log_prob(node["value"])).any()):
            return name
    return None


def _gradient(objective: Tensor, wanted: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Gradient by each tensor; zeros where the objective does not depend on it."""
    found: Collection[Tensor | None] = (None,) * len(wanted)
    if wanted and objective.requires_grad:
        total = objective.sum() if objective.dim() else objective
        found = torch.autograd.grad(total, list(wanted.values()), allow_unused=True)
    pairs = zip(wanted.items(), found, strict=True)
    return {n: torch.zeros_like(x) if g is None else g for (n, x), g in pairs}
