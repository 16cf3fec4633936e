"""What a story's sites are: found out by running it, not declared."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from pyro.poutine import Trace
from torch import Tensor
from torch.distributions import biject_to, constraints
from torch.distributions.transforms import Transform

from crowdppl.data.blocks import Block
from crowdppl.errors import MethodError
from crowdppl.inference.reading.chains import refuse_single
from crowdppl.inference.reading.density import Density
from crowdppl.inference.reading.families import is_dirichlet
from crowdppl.inference.reading.nodes import is_plate, nodes
from crowdppl.inference.reading.simplex import Softmax, plain_support
from crowdppl.process.seeding import seeded
from crowdppl.stories.distributions import OneHot
from crowdppl.stories.story import Story, plates_of
from crowdppl.stories.summing import Summing

Kind = Literal["conjugate", "onehot", "hyper", "free"]
Extra = Callable[[Trace, Mapping[str, Tensor]], Tensor]


@dataclass(frozen=True)
class Site:
    """One continuous or one-hot latent of a story.

    Attributes:
        name: the site's name.
        kind: "conjugate" (a Dirichlet whose log enters the complete-data likelihood linearly), "onehot",
            "hyper" (reaches labels only through the priors of other sites) or "free" (anything else).
        local: whether it lives in the plate of items.
        batch_shape: shape of its plates on the whole data, items counted as -1.
        event_shape: shape of one value.
        support: constraint on its values.
        plates: name of the plate of each batch dimension, "" where there is none.
        idle: whether it reaches neither labels nor the prior of another site.
    """

    name: str
    kind: Kind
    local: bool
    batch_shape: tuple[int, ...]
    event_shape: tuple[int, ...]
    support: Any
    plates: tuple[str, ...]
    idle: bool = False

    @property
    def transform(self) -> Transform:
        """From the whole real space to the site's support; for proportions, from as many real numbers."""
        out: Transform
        out = Softmax() if plain_support(self.support) is constraints.simplex else biject_to(self.support)
        return out

    @property
    def counted(self) -> tuple[str, ...]:
        """What each dimension of a value counts: the name of its plate, "" where there is none."""
        return (*self.plates, *[""] * len(self.event_shape))

    @property
    def space(self) -> str:
        """Name of the support: "real", "positive", "unit" or "simplex"; "" for anything else."""
        named = {
            "real": constraints.real,
            "positive": constraints.positive,
            "nonnegative": constraints.nonnegative,
            "unit": constraints.unit_interval,
            "simplex": constraints.simplex,
        }
        support = plain_support(self.support)
        found = next((name for name, constraint in named.items() if constraint is support), "")
        return "positive" if found == "nonnegative" else found  # 0 has probability 0, and the transform is the same

    def shape(self, n_items: int) -> tuple[int, ...]:
        """Shape of a value for data of ``n_items`` items."""
        return tuple(n_items if n == -1 else n for n in self.batch_shape) + self.event_shape

    def cut(self, value: Tensor, start: int, stop: int) -> Tensor:
        """The part of a local site's value that belongs to the items at positions ``start`` to ``stop``."""
        dim = value.dim() - 1 - len(self.event_shape)
        return value if value.shape[dim] == 1 else value.narrow(dim, start, stop - start)


def read_sites(story: Story, small: Block, trace: Trace, tried: bool = False) -> list[Site]:
    """Sorts a story's latents by what engines can do with them.

    A site is conjugate when the gradient under recorded draws is the same at two values of its leaf: then the
    complete-data log-likelihood is linear in it.

    Args:
        story: a method of the zoo, or a user's own.
        small, trace: what ``probed`` gave.
        tried: whether it is known already that several chains can run at once.

    Raises:
        MethodError: when a latent is discrete but not enumerated, a site's shape breaks a plate, or several
            chains could not run at once.
    """
    latents = _latents(trace)
    density = Density(story.model, plates_of(story))
    values = {n: _inner(x["fn"], x["value"].detach().double()) for n, x in latents.items()}
    with seeded(0):
        kinds, objective = _kinds(density, small, latents, values)
        if not tried:
            ranks = {n: len(x["fn"].batch_shape) for n, x in latents.items()}
            refuse_single(story, small, values, ranks, objective)
    idle = {name for name, kind in kinds.items() if kind == "hyper"}
    idle -= _parents(latents, set()) if idle else set()
    return [replace(_site(n, kinds[n], node), idle=n in idle) for n, node in latents.items()]


def _latents(trace: Trace) -> dict[str, Any]:
    found = {}
    for name, node in nodes(trace).items():
        if node["type"] != "sample" or node["is_observed"] or is_plate(node):
            continue
        if node["infer"].get("enumerate"):
            continue
        support = node["fn"].support
        if support.is_discrete and not isinstance(node["fn"], OneHot):
            raise MethodError(
                f"site {name!r} is discrete and not enumerated: add infer={{'enumerate': 'parallel'}} to it if it "
                "is of items, or make it a crowdppl.OneHot that enters the table linearly"
            )
        found[name] = node
    return found


def _inner(fn: Any, value: Tensor) -> Tensor:
    """The value; of a Dirichlet, one whose logarithm a story can be given."""
    return value.clamp(min=1e-30) if is_dirichlet(fn) else value


def _kinds(
    density: Density, block: Block, latents: Mapping[str, Any], values: Mapping[str, Tensor]
) -> tuple[dict[str, Kind], float | None]:
    """The kind of each site, and the objective at the values, where a pass found it."""
    onehot = {n for n, x in latents.items() if isinstance(x["fn"], OneHot)}
    parents = _parents(latents, onehot)
    candidates = [n for n, x in latents.items() if is_dirichlet(x["fn"]) and n not in parents]
    linear, objective = _linear(density, block, values, candidates, onehot)
    others = [n for n in values if n not in linear and n not in onehot]
    touching: set[str] = set()
    if others:
        found = density(block, values, gradient=others)
        touching, objective = {n for n, g in found.gradient.items() if bool((g != 0).any())}, float(found.objective)
    kinds: dict[str, Kind] = {}
    for name in values:
        if name in onehot:
            kinds[name] = "onehot"
        elif name in linear:
            kinds[name] = "conjugate"
        else:
            kinds[name] = "free" if name in touching else "hyper"
    return kinds, objective


def _parents(latents: Mapping[str, Any], onehot: set[str]) -> set[str]:
    """Sites on which the prior of another latent depends; those named (one-hot ones, which are linear) apart."""
    found: set[str] = set()
    for child, node in latents.items():
        others = [n for n in latents if n != child]
        if child in onehot or not others or not node["log_prob"].requires_grad:
            continue
        leaves = [latents[n]["value"] for n in others]
        got = torch.autograd.grad(node["log_prob"].sum(), leaves, allow_unused=True, retain_graph=True)
        found |= {n for n, g in zip(others, got, strict=True) if g is not None}
    return found


def _linear(
    density: Density, block: Block, values: Mapping[str, Tensor], names: Sequence[str], onehot: set[str]
) -> tuple[set[str], float | None]:
    """Candidates whose gradient under recorded draws does not change with their value, and the objective there."""
    if not names:
        return set(), None
    logged = Density(density.model, density.plates, None, frozenset(names))
    leaf = {n: values[n].log() for n in names}
    moved = {n: x + 2 * torch.rand(x.shape, dtype=x.dtype) - 1.3 for n, x in leaf.items()}
    tape: dict[int, Tensor] = {}
    extra = one_hot_terms(onehot)
    record = Summing("draw", torch.Generator(device=block.device).manual_seed(0), tape)
    first = logged(block, {**values, **leaf}, gradient=names, how=record, extra=extra)
    replay = Summing("replay", tape=tape)
    second = logged(block, {**values, **moved}, gradient=names, how=replay, extra=extra)

    def same(name: str) -> bool:
        a, b = first.gradient[name], second.gradient[name]
        return bool(((a - b).abs() <= 1e-6 * (1 + a.abs())).all())

    return {n for n in names if same(n)}, None if extra else float(first.objective)


def one_hot_terms(names: Collection[str], chains: int | None = None) -> Extra | None:
    """The log-prior of one-hot sites as an extra term of the objective, so that their weights get counts."""
    if not names:
        return None

    def extra(trace: Trace, values: Mapping[str, Tensor]) -> Tensor:
        terms = (nodes(trace)[name]["fn"].log_prob(values[name]) for name in sorted(names))
        return torch.stack([per_chain(x, chains) for x in terms]).sum(0)

    return extra


def per_chain(x: Tensor, chains: int | None) -> Tensor:
    """Adds up everything but the chains, in float64: (C, ...) -> (C,), or () without chains."""
    x = x.double()
    return x.sum() if chains is None else x.expand(chains, *x.shape[1:]).reshape(chains, -1).sum(1)


def expected(x: Tensor, chains: int | None) -> Tensor:
    """The same, averaged over chains."""
    total = per_chain(x, chains)
    return total if chains is None else total.mean()


def _site(name: str, kind: Kind, node: Any) -> Site:
    fn = node["fn"]
    frames = {f.dim: f for f in node["cond_indep_stack"] if f.vectorized}
    local = any(f.name in ("items", "labels") for f in frames.values())
    if local and kind == "onehot":
        raise MethodError(f"site {name!r} is one-hot in the plate of items: enumerate it instead (Categorical)")
    batch = tuple(fn.batch_shape)
    names = {f.dim: f.name for f in frames.values()}
    shape = tuple(-1 if names.get(i - len(batch)) in ("items", "labels") else n for i, n in enumerate(batch))
    plates = tuple(names.get(i - len(batch), "") for i in range(len(batch)))
    return Site(name, kind, local, shape, tuple(fn.event_shape), fn.support, plates)
