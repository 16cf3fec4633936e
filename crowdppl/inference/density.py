"""The log marginal density of a model, with every discrete site summed out or drawn.

Every discrete site is summed out by enumeration over the model's plates. Seen as a function of unnormalised
log-parameters, the gradient of the log marginal likelihood is the expected count of each parameter's use
(Fisher's identity); with drawing sums it is the count in an exact joint draw of all discrete sites.
"""

from __future__ import annotations

import math
import string
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyro
import torch
from pyro.ops.contract import contract_tensor_tree
from pyro.ops.rings import LogRing
from pyro.poutine import Trace
from pyro.poutine.enum_messenger import EnumMessenger
from torch import Tensor

from crowdppl.data.blocks import Block
from crowdppl.errors import MethodError, NumericalError
from crowdppl.primitives.distributions import Categorical, LinkedCategorical, SparseCategorical
from crowdppl.primitives.labels import Labels
from crowdppl.primitives.sums import Summing, logsumexp, summing


class _Stop(Exception):
    """Ends a run of a model early; nothing is wrong."""


class _Tracer(EnumMessenger):
    """Pyro's condition, enum and trace in one: on a small block, each handler costs as much as arithmetic."""

    def __init__(self, values: Mapping[str, Tensor], first: int, until: Collection[str] | None) -> None:
        super().__init__(first_available_dim=first)
        self.values, self.trace = values, Trace()
        self.missing = None if until is None else set(until)

    def _pyro_sample(self, message: Any) -> None:
        value = self.values.get(message["name"])
        if value is not None:
            message["value"], message["is_observed"] = value, True
        if not message["is_observed"] or "_markov_scope" in message["infer"]:  # else there is nothing to enumerate
            super()._pyro_sample(message)

    def _pyro_post_sample(self, message: Any) -> None:
        if not message["is_observed"] or "_markov_scope" in message["infer"]:
            super()._pyro_post_sample(message)
        if not message["infer"].get("_do_not_trace"):
            self.trace.add_node(message["name"], **message.copy())
        if self.missing is not None:
            self.missing.discard(message["name"])
            if not self.missing:
                raise _Stop

    def _pyro_post_param(self, message: Any) -> None:
        self.trace.add_node(message["name"], **message.copy())


def traced(
    model: Callable[[Block], Any],
    block: Block,
    values: Mapping[str, Tensor],
    plates: int,
    chains: int | None = None,
    until: Collection[str] | None = None,
) -> TraceSites:
    """The sample statements of a model at values of sites, with every discrete site enumerated.

    Chains, if any, are left of so many nested plates. The run ends after the last of the sites ``until``.
    """
    many = nullcontext() if chains is None else pyro.plate("chains", chains, dim=-plates - 1)
    first = -1 - plates - (chains is not None)
    # The plate of chains is inside the enumeration: a discrete site is spread over chains before it is enumerated.
    with suppress(_Stop), _Tracer(values, first, until) as tracer, many:
        model(block)
    return trace_sites(tracer.trace)


class TraceSite(NamedTuple):
    """One sample statement of a trace.

    Attributes:
        fn: its distribution.
        observed: whether it was given or observed.
        enumerated: whether it is marked to be summed out.
        enum_dim: dimension of its values, counted from the right, where it was enumerated.
        plates: its vectorised plates.
        scale: of its log-probability.
        log_prob: where it was computed.
        natural: whether it enters the model through its statistics alone.
        ratios: whether the labels depend on the ratios of its values alone.
        shift, powers: how its values may move with those of other sites, as of ``natural``.
    """

    fn: Any
    value: Tensor
    observed: bool
    enumerated: bool
    enum_dim: int | None
    plates: tuple[Any, ...]
    scale: float
    log_prob: Tensor | None
    natural: bool = False
    ratios: bool = False
    shift: Sequence[Sequence[float]] | None = None
    powers: Sequence[float] | None = None


TraceSites = dict[str, TraceSite]


def trace_sites(trace: Trace) -> TraceSites:
    """The sample statements of a trace by name, without those that plates make for themselves."""
    nodes: dict[str, Any] = trace.nodes
    return {
        name: TraceSite(
            node["fn"],
            node["value"],
            bool(node["is_observed"]),
            bool(node["infer"].get("enumerate")),
            node["infer"].get("_enumerate_dim"),
            tuple(plate for plate in node["cond_indep_stack"] if plate.vectorized),
            float(node["scale"]),
            node.get("log_prob"),
            bool(node["infer"].get("natural")),
            bool(node["infer"].get("ratios")),
            node["infer"].get("shift"),
            node["infer"].get("powers"),
        )
        for name, node in nodes.items()
        if node["type"] == "sample" and not is_plate(node)
    }


def is_plate(message: Any) -> bool:
    """Whether a sample statement is a plate's own."""
    return type(message["fn"]).__name__ == "_Subsample"


SYMBOLS = string.ascii_lowercase
"""Names of tensor dimensions, counted from the right."""
Terms = OrderedDict[frozenset[str], list[Any]]
"""Factors by the plates in which they stand: tensors with the names of their dimensions, ``_pyro_dims``."""


def contract(terms: Terms, sums: set[str], sizes: Mapping[str, int]) -> Terms:
    """Sums dimensions out of a product of named factors, by Pyro's plated contraction.

    A single discrete site in the plates of its labels needs no plan: there the sum is formed at once, which is
    what Pyro would do, too.
    """
    ring = DrawingRing(dim_to_size=sizes)  # type: ignore[no-untyped-call]
    where = [plates for plates, found in terms.items() if any(sums.intersection(x._pyro_dims) for x in found)]
    if len(sums) > 1 or len(where) != 1:
        planned: Terms = contract_tensor_tree(terms, sums, ring=ring)
        return planned
    held = [x for x in terms[where[0]] if sums.intersection(x._pyro_dims)]
    rest = [x for x in terms[where[0]] if sums.isdisjoint(x._pyro_dims)]
    return OrderedDict({**terms, where[0]: [*rest, ring.sumproduct(held, frozenset(sums))]})


def named(factor: Tensor, dtype: torch.dtype) -> Any:
    """Drops expanded and unit dimensions, and names those that are left by their distance from the right."""
    factor = narrowed(factor)
    out: Any = factor.squeeze().to(dtype)
    out = out + 0 if out is factor else out  # a fresh object, because the name is written on it
    out._pyro_dims = "".join(SYMBOLS[factor.dim() - 1 - i] for i, n in enumerate(factor.shape) if n > 1)
    return out


def narrowed(x: Tensor) -> Tensor:
    """A tensor without the dimensions over which it was only expanded."""
    for i, step in enumerate(x.stride()):
        if step == 0 and x.shape[i] > 1:
            x = x.narrow(i, 0, 1)
    return x


class DrawingRing(LogRing):
    """Pyro's log ring with sums that know how to draw."""

    def sumproduct(self, terms: list[Any], dims: frozenset[str]) -> Any:
        sizes: dict[str, int] = self._dim_to_size
        terms = _without_leaves(terms, dims)
        every = set("".join(x._pyro_dims for x in terms))
        out, summed = "".join(sorted(every - dims)), "".join(sorted(every & dims))
        order = summed + out
        total: Any = None
        for term in terms:
            has = term._pyro_dims
            if has != order:
                kept = [has.index(c) for c in order if c in has]
                term = term if kept == sorted(kept) else term.permute(kept)
                term = term.reshape([sizes[c] if c in has else 1 for c in order])
            total = term if total is None else total + term
        if summed:
            total = logsumexp(total.flatten(0, len(summed) - 1), dim=0)
        total._pyro_dims = out
        return total


def _without_leaves(terms: list[Any], dims: frozenset[str]) -> list[Any]:
    """Sums out first, term by term, what only one term depends on, before terms grow by each other's dimensions."""
    out = list(terms)
    for c in sorted(dims):
        holders = [n for n, x in enumerate(out) if c in x._pyro_dims]
        names = out[holders[0]]._pyro_dims if len(holders) == 1 else ""
        if dims & set(names) - {c}:  # else others depend on it, too, or nothing would be saved
            summed: Any = logsumexp(out[holders[0]], dim=names.index(c))
            summed._pyro_dims = names.replace(c, "")
            out[holders[0]] = summed
    return out


def log_factors(
    sites: Mapping[str, TraceSite], values: Mapping[str, Tensor], drawing: bool
) -> tuple[dict[str, Tensor], dict[str, int], float]:
    """What discrete and observed sites contribute.

    Returns:
        Log-factors by site, expanded to the site's plates or not, the dimension of each discrete site's values
        counted from the right, and the scale.

    Raises:
        MethodError: when a latent is neither given nor enumerated, scales differ, or a minibatch is to be drawn.
    """
    factors, dims, scales = {}, {}, set()
    for name, site in sites.items():
        if name in values:
            continue
        if site.enum_dim is None and not site.observed:
            raise MethodError(
                f"site {name!r} has no value: the engine neither infers nor enumerates it; mark a discrete "
                'site with infer={"enumerate": "parallel"}, or use svi with a guide of your own'
            )
        factors[name] = _log_factor(site)
        scales.add(site.scale)
        if site.enum_dim is not None:
            dims[name] = site.enum_dim
    if len(scales) > 1:
        raise MethodError(f"the model's discrete and observed sites have different scales {sorted(scales)}")
    scale = scales.pop() if scales else 1.0
    if scale != 1.0 and drawing:
        raise MethodError("draws need all items: a minibatch has a scale, and a scaled draw means nothing")
    return factors, dims, scale


def _log_factor(site: TraceSite) -> Tensor:
    """The log-probability of a site, not expanded; of items in sequences, what does not depend on others."""
    fn = site.fn
    out: Tensor = (fn.log_factor if isinstance(fn, Categorical) else fn.log_prob)(site.value)
    return out


def pairs_of(truth: str) -> str:
    """The name of the marginal of the pairs of an item's truth and that before it, (K, K, [C,] n_items)."""
    return f"pairs of {truth}"


@dataclass(frozen=True)
class Leaf:
    """A site below one other.

    Its own probe would have an entry for every pair of values and item: for a truth below many kinds of items that
    is most of the memory and time of a pass.

    Attributes:
        parent: name of the site above.
        conditional: p(value | parent's value), unit dimensions where it does not vary.
        dim: of the parent's values, counted from the right.
    """

    parent: str
    conditional: Tensor
    dim: int

    def marginal(self, above: Tensor) -> Tensor:
        """The site's marginal from its parent's, which has the parent's dimensions; the parent's is left as 1."""
        n = self.conditional.dim()
        letters = SYMBOLS[:n]
        above = above.reshape((1,) * (n - above.dim()) + above.shape)
        left = letters.replace(letters[self.dim], "")
        return torch.einsum(f"{letters},{letters}->{left}", self.conditional, above).unsqueeze(self.dim)


def find_leaves(names: Collection[str], factors: Mapping[str, Tensor], dims: Mapping[str, int]) -> dict[str, Leaf]:
    """Those of some sites that are leaves; factors and dimensions are as from ``log_factors``."""
    narrow = {name: narrowed(x) for name, x in factors.items()} if names else {}
    varies = {name: {i - x.dim() for i, n in enumerate(x.shape) if n > 1} for name, x in narrow.items()}
    found = {}
    for name in (n for n in names if n in dims):
        touched = [other for other, along in varies.items() if dims[name] in along]
        above = [other for other, dim in dims.items() if other != name and dim in varies[name]]
        if touched == [name] and len(above) == 1:
            conditional = narrow[name].detach().log_softmax(dims[name]).exp()
            found[name] = Leaf(above[0], conditional, dims[above[0]])
    return found


def _summed_leaf(factor: Tensor, potential: Tensor, dim: int) -> Tensor:
    """The log-factor over its parent that a leaf leaves under a potential: a product of matrices, not each pair."""
    factor, letters = narrowed(factor), SYMBOLS[: factor.dim()]
    tops = [x.detach().amax(dim, keepdim=True).clamp(min=torch.finfo(x.dtype).min) for x in (factor, potential)]
    each = [(x - top).exp() for x, top in zip((factor, potential), tops, strict=True)]
    total = torch.einsum(f"{letters},{letters}->{letters.replace(letters[dim], '')}", *each).unsqueeze(dim)
    return total.clamp(min=torch.finfo(total.dtype).tiny).log() + tops[0] + tops[1]


Extra = Callable[[TraceSites, Mapping[str, Tensor]], Tensor]
"""Terms beside the labels', from a model's sites and the values that it received."""
FLOOR = -80.0
"""Smallest log-probability that a model receives: its exponential is a normal number in float32."""


@dataclass(frozen=True)
class DensityResult:
    """What one pass over one block of items returns; C is absent without chains.

    Attributes:
        objective: float64 (C,), log p(labels of the block | values), scaled where the block is a minibatch.
        per_item: (C, n_items) log evidence of each item (or label), unscaled.
        gradient: of the objective, for each site asked for: counts at sites with a family (by the statistic), plain
            gradients elsewhere.
        marginals: for each discrete site asked for, (T, C, n_items): its posterior, or its draw as one-hot; where
            ``sparse``, over the values that were summed out.
        sites: of the model's run: priors are ``sites[name].fn``.
    """

    objective: Tensor
    per_item: Tensor
    gradient: dict[str, Tensor]
    marginals: dict[str, Tensor]
    sites: TraceSites


class Statistics(Protocol):
    """What a density knows of a family: statistics, values, and gradients by statistics.

    Attributes:
        handed: whether a model receives the statistics themselves (``natural``), and not only values.
    """

    @property
    def handed(self) -> bool: ...

    def statistic(self, value: Tensor) -> Tensor:
        """The statistic of values."""

    def value(self, statistic: Tensor) -> Tensor:
        """The values of statistics."""

    def slope(self, received: Tensor, gradient: Tensor) -> Tensor:
        """The gradient by the statistic, from that by what a model receives."""


@dataclass(frozen=True)
class Density:
    """The log marginal likelihood of a model, one block of items at a time.

    Args:
        model: the Pyro program, ``model(data)``.
        plates: nesting depth of its plates (1: items alone; 2: groups and items).
        chains: number of values of all sites that are evaluated together, or None for one value.
        families: of sites whose values are given as statistics, from which the model receives values.
    """

    model: Callable[[Block], Any]
    plates: int = 1
    chains: int | None = None
    families: Mapping[str, Statistics] = field(default_factory=dict)

    def sites(self, block: Block, values: Mapping[str, Tensor]) -> TraceSites:
        """The model's sites at given values; labels are not scored, so that this costs no pass over data."""
        return traced(self.model, block, self._given(values), self.plates, self.chains)

    def priors(self, block: Block, values: Mapping[str, Tensor]) -> TraceSites:
        """The sites up to the last that is given a value, without the tables that come after it."""
        return traced(self.model, block, self._given(values), self.plates, self.chains, until=values)

    def _given(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {n: self.families[n].value(x) if n in self.families else x for n, x in values.items()}

    def _handed(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The statistics that a model receives."""
        return {n: x for n, x in values.items() if n in self.families and self.families[n].handed}

    def __call__(
        self,
        block: Block,
        values: Mapping[str, Tensor],
        *,
        gradient: Collection[str] = (),
        marginals: Collection[str] = (),
        tilt: Mapping[str, Tensor] | None = None,
        how: Summing | None = None,
        extra: Extra | None = None,
        sparse: bool = False,
    ) -> DensityResult:
        """Evaluates the objective and its derivatives.

        Args:
            block: items with their labels.
            values: a tensor for every continuous and one-hot site; with chains (C, 1, ..., event) for sites
                outside plates. Sites with a family as statistics.
            gradient: sites to differentiate by.
            marginals: discrete sites, or named sums of the model, whose posterior (or draw) is wanted.
            tilt: log-potentials (T, [C,] n_items) added to a discrete site, used for starts.
            how: how sums differentiate; expectations by default.
            extra: adds global terms to the objective, given the sites and what the model received: float64 (C,).
            sparse: whether marginals stay over the values that are summed out (``SparseCategorical``).

        Raises:
            MethodError: when a latent is neither given nor enumerated.
            NumericalError: when the objective is not finite; it names a site.
        """
        how = how or Summing()
        how.probes = dict.fromkeys(marginals)
        at, handed = self._given(values), self._handed(values)
        leaves = {n: (handed if n in handed else at)[n].detach().requires_grad_() for n in gradient}
        handed |= {n: x for n, x in leaves.items() if n in handed}
        at |= leaves | self._given(handed)
        how.statistics = handed
        with summing(how):
            objective, per_item, sites, below = self._evaluated(block, at, how, tilt or {}, extra)
            _require_finite(objective, values, sites)
            probes = {n: x for n, x in how.probes.items() if x is not None}
            wanted = {**leaves, **{f"probe {n}": x for n, x in probes.items()}}
            slopes: Sequence[Tensor | None] = [None] * len(wanted)
            if wanted and objective.requires_grad:
                total = objective.sum() if objective.dim() else objective
                slopes = torch.autograd.grad(total, list(wanted.values()), allow_unused=True)
            pairs = zip(wanted.items(), slopes, strict=True)
            got = {n: torch.zeros_like(x) if g is None else g for (n, x), g in pairs}
        own, shares = {n: got[n] for n in leaves}, {n: got[f"probe {n}"] for n in probes}
        shares |= {n: leaf.marginal(shares[leaf.parent]) for n, leaf in below.items()}
        return DensityResult(
            objective.detach(),
            per_item.detach(),
            {n: self.families[n].slope(leaves[n].detach(), g) if n in self.families else g for n, g in own.items()},
            {n: self._marginal(shares[n], sites.get(n), sparse) for n in marginals if n in shares},
            sites,
        )

    def objective(self, block: Block, values: Mapping[str, Tensor], extra: Extra) -> Tensor:
        """The objective as a function of the values, to be differentiated as often as wanted."""
        how = Summing(statistics=self._handed(values))
        with summing(how):
            return self._evaluated(block, self._given(values), how, {}, extra)[0]

    def _evaluated(
        self, block: Block, at: Mapping[str, Tensor], how: Summing, tilt: Mapping[str, Tensor], extra: Extra | None
    ) -> tuple[Tensor, Tensor, TraceSites, dict[str, Leaf]]:
        """The objective, the evidence of each item, the sites, and those that are leaves."""
        sites = traced(self.model, block, at, self.plates, self.chains)
        terms, sums, sizes, scale, below = self._factors(sites, at, how, tilt, block.dtype)
        per_item = self._summed(terms, sums, sizes, sites)
        each = per_item.double()
        if block.copies is not None:
            apart = any(isinstance(site.fn, Labels) and site.fn.within == "label" for site in sites.values())
            each = each * (block.copies[block.item] if apart else block.copies)
        objective = each.sum(-1)
        objective = objective if scale == 1.0 else objective * scale
        return objective if extra is None else objective + extra(sites, at), per_item, sites, below

    def _summed(
        self, terms: Terms, sums: set[str], sizes: Mapping[str, int], sites: Mapping[str, TraceSite]
    ) -> Tensor:
        """The log evidence of each item, ([C,] n_items): that of one in a sequence given those before it."""
        keep = (SYMBOLS[self.plates] if self.chains is not None else "") + SYMBOLS[0]
        linked = {n: x for n, x in sites.items() if isinstance(x.fn, LinkedCategorical) and x.enum_dim is not None}
        if not linked:
            return self._added_up(contract(terms, sums, sizes), keep)
        ((name, site),) = linked.items()
        assert site.enum_dim is not None
        own = SYMBOLS[-site.enum_dim - 1]
        others = sums - {own}
        each = self._added_up(contract(terms, others, sizes) if others else terms, own + keep)
        lead = (self.chains,) if self.chains is not None else ()
        out: Tensor = site.fn.summed(each.expand(len(each), *lead, site.fn.batch_shape[-1]), pairs_of(name))
        return out

    def _factors(
        self,
        sites: Mapping[str, TraceSite],
        values: Mapping[str, Tensor],
        how: Summing,
        tilt: Mapping[str, Tensor],
        dtype: torch.dtype,
    ) -> tuple[Terms, set[str], dict[str, int], float, dict[str, Leaf]]:
        """The log-factors of discrete and observed sites by plate, with probes where marginals are wanted."""
        factors, dims, scale = log_factors(sites, values, drawing=how.kind != "sum")
        wanted = [n for n in how.probes if n not in tilt and how.kind == "sum"]
        leaves = find_leaves(wanted, factors, dims)
        for name, leaf in leaves.items():
            how.probes.setdefault(leaf.parent, None)
            del how.probes[name]
        if how.kind == "sum":
            for name in find_leaves([n for n in tilt if n not in how.probes], factors, dims):
                potential = self._potential(tilt[name], sites[name].fn, factors[name])
                factors[name] = _summed_leaf(factors[name], potential, dims.pop(name))
                tilt = {n: x for n, x in tilt.items() if n != name}
        terms: Terms = OrderedDict()
        sizes: dict[str, int] = {}
        for name, factor in factors.items():
            if name in how.probes or name in tilt:
                full = np.broadcast_shapes(factor.shape, sites[name].fn.batch_shape)
                factor = factor + self._probe(name, sites[name].fn, factor.expand(full), how, tilt)
            factor = named(factor, dtype)
            sizes.update(zip(factor._pyro_dims, factor.shape, strict=True))
            terms.setdefault(frozenset(SYMBOLS[-plate.dim - 1] for plate in sites[name].plates), []).append(factor)
        return terms, {SYMBOLS[-dim - 1] for dim in dims.values()}, sizes, scale, leaves

    def _probe(self, name: str, fn: Any, factor: Tensor, how: Summing, tilt: Mapping[str, Tensor]) -> Tensor:
        """A zero tensor (or the tilt) of the factor's full shape, whose gradient is the site's marginal."""
        start = torch.zeros(factor.shape, dtype=factor.dtype, device=factor.device)
        if name in tilt:
            start = start + self._potential(tilt[name], fn, factor)
        if name in how.probes:
            how.probes[name] = start.requires_grad_()
        return start

    def _potential(self, tilt: Tensor, fn: Any, factor: Tensor) -> Tensor:
        """A tilt in the dimensions of the site's factor."""
        full = (fn.sparse(tilt) if isinstance(fn, SparseCategorical) else tilt).to(factor)
        chains = (full.shape[1:-1] or (1,)) if self.chains is not None else ()
        inner = (*chains, *(1,) * (self.plates - 1), full.shape[-1])
        others = (1,) * (factor.dim() - 1 - len(inner))  # enumerated sites on which this one depends
        return full.reshape(full.shape[0], *others, *inner)

    def _marginal(self, x: Tensor, site: TraceSite | None, sparse: bool) -> Tensor:
        """(T, [C, groups,] n_items): sums other enumerated sites out; a named sum of the model stays as it is."""
        if site is None or site.enum_dim is None:
            return x
        x = site.fn.dense(x) if isinstance(site.fn, SparseCategorical) and not sparse else x
        many = self.chains is not None
        own = x.dim() + site.enum_dim
        others = [d for d in range(x.dim() - self.plates - many) if d != own]
        x = x.sum(others) if others else x
        plates = [n for n in x.shape[1 + many : -1] if n > 1]
        return x.reshape(*x.shape[: 1 + many], *plates, x.shape[-1])

    def _added_up(self, parts: Mapping[frozenset[str], list[Tensor]], keep: str) -> Tensor:
        """Adds up what is left in each term but some dimensions: ([C,] n_items), or with one in front of these."""
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
            raise MethodError(
                "the model scores no labels: call crowdppl.primitives.annotate inside the plate of items"
            )
        return total if self.chains is None else total.expand(*total.shape[:-2], self.chains, total.shape[-1])


def _require_finite(objective: Tensor, values: Mapping[str, Tensor], sites: Mapping[str, TraceSite]) -> None:
    if all(map(math.isfinite, objective.reshape(-1).tolist())):
        return
    bad = [n for n, x in values.items() if not bool(torch.isfinite(x).all())]
    broken = [] if bad else [n for n, x in sites.items() if bool(torch.isnan(_log_factor(x)).any())]
    if bad:
        where = f"site {bad[0]!r} holds a value that is not finite"
    elif broken:
        where = f"site {broken[0]!r} has a log-probability that is not a number"
    else:
        where = "every site is finite, so some item's labels have probability zero under the model"
    raise NumericalError(
        f"the log-likelihood is {objective.reshape(-1)[0].item()}: {where}; look for a probability of exactly "
        "0 in the model, contradictory gold, or a scale that overflows"
    )
