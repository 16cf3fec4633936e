"""The mean-field guide of a model, derived from the model's own sites."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from pyro.distributions import constraints
from pyro.poutine import block, enum, trace
from torch import Tensor
from torch.distributions import biject_to

from crowdppl.data.blocks import Block
from crowdppl.inference.density import trace_sites
from crowdppl.inference.families import Family, family_of
from crowdppl.inference.options import Options
from crowdppl.inference.problem import Problem, without_validation
from crowdppl.inference.sites import plain_support
from crowdppl.inference.state import State, first_state, gaussians_of
from crowdppl.networks.outputs import cached_outputs
from crowdppl.primitives.distributions import OneHot
from crowdppl.primitives.labels import Labels
from crowdppl.primitives.model import Model, plates_of
from crowdppl.primitives.plates import Data, block_of

COUNTS = 20
"""Labels that would make a distribution about as wide as one starts around a value."""


def guide_of(model: Model) -> Any:
    """The model's own guide; else the mean field."""
    return getattr(model, "guide", None) or (lambda data: mean_field(model, data))


def is_derived(model: Model) -> bool:
    """Whether the guide is the mean field and nothing else; its sites are then independent."""
    own = getattr(model, "guide", None)
    return own is None or getattr(own, "__func__", None) is mean_field


def mean_field(
    model: Model, data: Data, *, point: bool = False, points: Mapping[str, Tensor] | None = None
) -> None:
    """Runs the mean-field guide of a model, for ``pyro.infer.SVI``.

    Sites with a conjugate family get a distribution of it, one-hot sites their expected value (with its entropy),
    everything else a Gaussian in unconstrained space. Parameters live in Pyro's store under ``q.<site>...`` and
    start from the votes. Nothing is kept between calls, so that sizes always come from the data at hand.

    Args:
        model: the method.
        data: annotations, or a block of them.
        point: fits points instead of distributions (maximum likelihood, or a posterior mode).
        points: values of sites, shaped as each site is, which a guide computes from parameters of its own.

    Examples:
        >>> from pyro.poutine import trace
        >>> model = crowdppl.method("bayesian_dawid_skene")
        >>> sites = trace(crowdppl.mean_field).get_trace(model, crowdppl.anaesthetists())
        >>> [name for name in sites.stochastic_nodes if not name.startswith("_")]
        ['prevalence', 'annotators', 'confusion']
    """
    whole = block_of(data)
    # Labels that are still to be drawn need a drawn truth; otherwise nothing discrete is drawn.
    program = enum(model.model, first_available_dim=-1 - plates_of(model)) if whole.has_labels else model.model
    with torch.no_grad(), block():
        sites = trace(program).get_trace(data)
    first = _Values(model, whole)
    opened: dict[str, pyro.plate] = {}
    for name, node in trace_sites(sites).items():
        if node.observed or isinstance(node.fn, Labels) or not node.value.is_floating_point():
            continue  # discrete sites are summed out, or drawn by the model, as labels are
        if points and name in points:
            fn: Any = dist.Delta(points[name], event_dim=len(node.fn.event_shape))
        else:  # outside plates: it may have to run the model
            fn = _approximation(name, node.fn, first, point)
        with ExitStack() as stack:
            for frame in node.plates:
                if frame.name not in opened:  # Pyro wants one object for all sites of a plate
                    opened[frame.name] = pyro.plate(frame.name, frame.size, dim=frame.dim)
                stack.enter_context(opened[frame.name])
            value = pyro.sample(name, fn)
            if isinstance(node.fn, OneHot):  # the guide's log-density: minus the entropy of the shares
                log_q = (value * value.clamp(min=1e-30).log()).sum(-1)
                pyro.factor(f"q.{name}.log_density", log_q, has_rsample=True)


@dataclass
class Start:
    """Where derived guides start, instead of at the votes.

    Attributes:
        state: the mean field of a start, with points.
        points: values of sites that are neither conjugate nor one-hot.
        sites: those that have started there.
    """

    state: State
    points: Mapping[str, Tensor]
    sites: set[str] = field(default_factory=set)

    @staticmethod
    def of(problem: Problem, number: int = 0) -> Start:
        """A start by its number."""
        state = first_state(problem, number, points=True)
        return Start(state, gaussians_of(problem, state).values())


_start: ContextVar[Start | None] = ContextVar("start", default=None)


@contextmanager
def starting(start: Start) -> Iterator[None]:
    """Parameters that ``mean_field`` makes inside the block start here."""
    token = _start.set(start)
    try:
        yield
    finally:
        _start.reset(token)


@dataclass
class _Values:
    """The values from which parameters start; by default those of the votes, found when a parameter is missing."""

    model: Model
    whole: Block

    def start(self, name: str) -> Start:
        """The start, noting that a site starts from it."""
        start = _start.get() or self._from_votes
        start.sites.add(name)
        return start

    @cached_property
    def _from_votes(self) -> Start:
        """Networks that learn by gradients are evaluated once, so that votes tilt the truth of an item."""
        # Pyro makes parameters without gradients; counts are gradients
        with block(), torch.enable_grad(), without_validation(str(self.whole.device)):
            whole = self.whole.to(self.whole.device, torch.float64)
            whole = cached_outputs(self.model, [whole])[0] if whole.trains_networks else whole
            return Start.of(Problem.of(self.model, [whole], Options(), lambda: whole))

    def share(self, name: str) -> Tensor:
        """Expected value of a one-hot site."""
        return _parameter(self.start(name).state.logits[name].softmax(-1))

    def parameter(self, name: str) -> Tensor:
        """Counts for rows of shares; of one whose site is a parameter of priors, around its value."""
        parameters = self.start(name).state.parameters
        return _parameter(parameters[name]) if name in parameters else 1 + COUNTS * self.value(name)

    def value(self, name: str, family: Family | None = None) -> Tensor:
        """Mean of a site."""
        start = self.start(name)
        if name in start.points or family is None:
            return _parameter(start.points[name])
        return _parameter(family.mean_value(start.state.parameters[name]))


def _parameter(x: Tensor) -> Tensor:
    return x.detach().to(torch.get_default_dtype()).contiguous()


def _approximation(name: str, fn: Any, first: _Values, point: bool) -> Any:
    """The approximation of one site, with its parameters in Pyro's store."""
    event, family = len(fn.event_shape), family_of(fn)

    def param(part: str, init: Callable[[], Tensor], constraint: Any = constraints.real) -> Any:
        return pyro.param(f"q.{name}.{part}", init, constraint=constraint)

    if isinstance(fn, OneHot):
        return dist.Delta(param("share", lambda: first.share(name), constraints.simplex)).to_event(1)
    if point:
        at = param("point", lambda: first.value(name, family), plain_support(fn.support))
        return dist.Delta(at, event_dim=event)
    if family is not None and family.counts and not family.chosen(fn):
        c = param(family.key, lambda: first.parameter(name), constraints.positive)
        return family.distribution(c, event)
    transform = biject_to(fn.support)
    loc = param("loc", lambda: transform.inv(first.value(name, family)))
    scale = param("scale", lambda: torch.full_like(loc.detach(), 0.1), constraints.positive)
    return dist.TransformedDistribution(dist.Normal(loc, scale).to_event(event), [transform])
