"""The guide that goes with a story: mean field, derived from the story's own sites."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from pyro.distributions import constraints
from pyro.poutine import block, enum, trace
from torch import Tensor
from torch.distributions import biject_to

from crowdppl.inference.density import nodes
from crowdppl.primitives.distributions import OneHot
from crowdppl.primitives.model import Model, plates_of
from crowdppl.primitives.plates import Data, block_of


def mean_field(
    model: Model, data: Data, *, point: bool = False, points: Mapping[str, Tensor] | None = None
) -> None:
    """Runs the mean-field guide of a story, for ``pyro.infer.SVI``.

    Dirichlet sites get Dirichlets, one-hot sites their expected value (with its entropy), everything else a
    Gaussian in unconstrained space. Parameters live in Pyro's store under ``q.<site>...`` and start from the
    votes. Nothing is kept between calls, so that sizes always come from the data at hand.

    Args:
        story: the method.
        data: what its model is given.
        point: fits points instead of distributions (maximum likelihood, or a posterior mode).
        points: values of sites, shaped as each site is, which a guide computes from parameters of its own.

    Examples:
        >>> from pyro.poutine import trace
        >>> story = crowdppl.method("bayesian_dawid_skene")
        >>> sites = trace(crowdppl.mean_field).get_trace(story, crowdppl.anaesthetists())
        >>> [name for name in sites.stochastic_nodes if not name.startswith("_")]
        ['prevalence', 'annotators', 'confusion']
    """
    whole = block_of(data)
    # Labels that are still to be drawn need a drawn truth; otherwise nothing discrete is drawn.
    program = enum(model.model, first_available_dim=-1 - plates_of(model)) if whole.has_labels else model.model
    with torch.no_grad(), block():
        sites = trace(program).get_trace(data)
    first = _FirstState(model, whole)
    opened: dict[str, pyro.plate] = {}
    for name, node in nodes(sites).items():
        if node["type"] != "sample" or node["is_observed"] or not node["value"].is_floating_point():
            continue  # what is discrete is summed out, or, like the labels of a design, drawn by the model
        # outside plates: it may have to run the story
        fn = _at(points[name], node["fn"]) if points and name in points else None
        fn = fn or _approximation(name, node["fn"], first, point)
        with ExitStack() as stack:
            for frame in node["cond_indep_stack"]:
                if frame.vectorized:
                    if frame.name not in opened:  # Pyro wants one object for all sites of a plate
                        opened[frame.name] = pyro.plate(frame.name, frame.size, dim=frame.dim)
                    stack.enter_context(opened[frame.name])
            value = pyro.sample(name, fn)
            if isinstance(node["fn"], OneHot):  # the guide's log-density: minus the entropy of the shares
                log_q = (value * value.clamp(min=1e-30).log()).sum(-1)
                pyro.factor(f"q.{name}.log_density", log_q, has_rsample=True)


@dataclass
class Start:
    """Where derived guides are to begin, instead of at the votes.

    Attributes:
        state: as vb would begin.
        sites: those that have begun there.
    """

    state: Any
    sites: set[str] = field(default_factory=set)


_start: ContextVar[Start | None] = ContextVar("start", default=None)


@contextmanager
def starting(begun: Start) -> Iterator[None]:
    """Parameters that ``mean_field`` makes inside the block begin where this says."""
    token = _start.set(begun)
    try:
        yield
    finally:
        _start.reset(token)


def _at(value: Tensor, fn: Any) -> Any:
    return dist.Delta(value, event_dim=len(fn.event_shape))


class _FirstState:
    """The engine's start from the votes, computed once and only when a parameter is missing."""

    def __init__(self, model: Model, whole: Any) -> None:
        self.model, self.whole = model, whole
        self._state: Any = None

    def _found(self, name: str) -> Any:
        begun = _start.get()
        if begun is not None:
            begun.sites.add(name)
            return begun.state
        if self._state is None:
            from crowdppl.inference.vb.fit import first_state  # engines come after guides

            with block(), torch.enable_grad():  # Pyro sets parameters up without gradients; counts are gradients
                self._state = first_state(self.model, self.whole)
        return self._state

    def concentration(self, name: str) -> Callable[[], Tensor]:
        return lambda: self._cast(self._found(name).parameters[name])

    def onehot(self, name: str) -> Callable[[], Tensor]:
        return lambda: self._cast(self._found(name).logits[name].softmax(-1))

    def is_conjugate(self, name: str) -> bool:
        return name in self._found(name).parameters

    def value(self, name: str) -> Tensor:
        state = self._found(name)
        if name in state.parameters:
            c = state.parameters[name]
            return self._cast(c / c.sum(-1, keepdim=True))
        gaussians = state.gaussians
        return self._cast(gaussians.sites[name].transform(gaussians.loc[name].detach()))

    def _cast(self, x: Tensor) -> Tensor:
        return x.detach().to(torch.get_default_dtype()).contiguous()


def _approximation(name: str, fn: Any, first: _FirstState, point: bool) -> Any:
    """The member of the family that stands for one site, with its parameters in Pyro's store."""
    event = len(fn.event_shape)
    inner = fn
    while hasattr(inner, "base_dist"):
        inner = inner.base_dist
    if isinstance(fn, OneHot):
        share = pyro.param(f"q.{name}.share", first.onehot(name), constraint=constraints.simplex)
        return dist.Delta(share).to_event(1)
    if point:
        support = _plain(fn.support)
        at = pyro.param(f"q.{name}.point", lambda: first.value(name), constraint=support)
        return dist.Delta(at, event_dim=event)
    if isinstance(inner, torch.distributions.Dirichlet):
        start = lambda: _concentration(first, name)  # noqa: E731
        c = pyro.param(f"q.{name}.concentration", start, constraint=constraints.positive)
        return dist.Dirichlet(c).to_event(event - 1)
    transform = biject_to(fn.support)
    loc = pyro.param(f"q.{name}.loc", lambda: transform.inv(first.value(name)))
    scale = pyro.param(
        f"q.{name}.scale", lambda: torch.full_like(loc.detach(), 0.1), constraint=constraints.positive
    )
    base = dist.Normal(loc, scale).to_event(event)
    return dist.TransformedDistribution(base, [transform])


def _concentration(first: _FirstState, name: str) -> Tensor:
    """The start's concentrations; a hyper site that is a Dirichlet starts as 20 counts around its value."""
    if first.is_conjugate(name):
        return first.concentration(name)()
    return 1 + 20 * first.value(name)


def _plain(support: Any) -> Any:
    """Pyro's parameter store wants the constraint of one event, not of a batch of them."""
    while hasattr(support, "base_constraint"):
        support = support.base_constraint
    return support
