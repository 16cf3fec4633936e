"""A story tried out on a few items before a fit: does it run, and is it put together as engines need it?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyro
import torch
from pyro import poutine
from pyro.poutine import Trace
from pyro.poutine.messenger import Messenger

from crowdppl.data.blocks import Block
from crowdppl.errors import CrowdpplError, MethodError, NumericalError
from crowdppl.inference.reading.density import Density
from crowdppl.inference.reading.nodes import is_latent, is_plate, nodes
from crowdppl.process.seeding import seeded
from crowdppl.process.shortage import is_shortage
from crowdppl.stories.labels import Labels
from crowdppl.stories.story import Story, plates_of

PROBE_ITEMS = 100
"""Items on which a story is tried out before a fit."""


class _Rooted(Messenger):
    """Makes each continuous latent a tensor of its own, so that gradients show what depends on it."""

    def _pyro_post_sample(self, message: Any) -> None:
        if is_latent(message) and message["value"].is_floating_point():
            message["value"] = message["value"].detach().requires_grad_()


def probed(story: Story, block: Block) -> tuple[Block, Trace]:
    """A few items of a block, and the story's trace on them at a draw from its prior.

    Priors and log-probabilities in the trace depend on the latents above them as gradients show.

    Raises:
        MethodError: when the story does not run, or is not put together as engines need it.
    """
    small = block.subset(np.arange(min(PROBE_ITEMS, block.n_items)), 1.0)
    with seeded(0):
        return small, _validated(story, small)


def _validated(story: Story, block: Block) -> Trace:
    """A trace at a prior draw, with Pyro's checks switched on."""
    first = -1 - plates_of(story)
    model = poutine.enum(story.model, first_available_dim=first)
    with pyro.validation_enabled(True):
        try:
            with _Rooted():  # outside the trace, which is told of a site after it
                trace = poutine.trace(model).get_trace(block)
            _refuse_misplaced(type(story).__name__, nodes(trace), block)
            trace.compute_log_prob(lambda _, node: not is_plate(node))
        except (ValueError, RuntimeError, IndexError, NotImplementedError) as error:
            if isinstance(error, CrowdpplError):  # Pyro adds shapes to what it was raised from
                raise (error.__cause__ if isinstance(error.__cause__, CrowdpplError) else error) from None
            if is_shortage(error):  # the story is well, and what it asks for too large
                raise
            raise MethodError(
                f"the story {type(story).__name__} does not run on {block.n_items} items at a draw from its "
                f"prior: {error}. Check shapes against its plates (declared depth: {plates_of(story)})"
            ) from error
    return trace


def _refuse_misplaced(name: str, found: Mapping[str, Any], block: Block) -> None:
    """Refuses labels that are drawn never, twice or outside their plate, and latents where no engine keeps them."""
    labels = {n: x for n, x in found.items() if isinstance(x.get("fn"), Labels)}
    if not labels and block.n_labels:
        raise MethodError(
            f"{name} draws no labels; call crowdppl.annotate(data, table, state) in plates.items(data)"
        )
    if len(labels) > 1:
        raise MethodError(
            f"{name} draws labels at {len(labels)} sites ({', '.join(labels)}), each of which scores every label, "
            "which would count more than once; put what labels depend on into one table, and call annotate once"
        )
    for site, node in labels.items():
        plate = f"{node['fn'].within}s"
        if plate not in _plates(node):
            raise MethodError(
                f"{name} draws {site!r} outside the plate of {plate}; call annotate in plates.{plate}(data)"
            )
    for site, node in found.items():
        if is_latent(node):
            _refuse_latent(name, site, node)


def _refuse_latent(name: str, site: str, node: Mapping[str, Any]) -> None:
    """Refuses a variable that is summed out but not of items, or kept for each label."""
    summed, plates = bool(node["infer"].get("enumerate")), _plates(node)
    if summed and not plates & {"items", "labels"}:
        raise MethodError(
            f"site {site!r} of {name} cannot be summed out, because it is not of items: one value of it touches "
            "labels of many; make it a crowdppl.OneHot that enters the table linearly"
        )
    if not summed and "labels" in plates:
        raise MethodError(
            f"site {site!r} of {name} has a value for each label, and engines keep those of items and annotators; "
            "sum it out in the table (crowdppl.logsumexp), or make it one of items"
        )


def _plates(node: Mapping[str, Any]) -> set[str]:
    return {frame.name for frame in node["cond_indep_stack"] if frame.vectorized}


def reads_item_covariates(story: Story, block: Block) -> bool:
    """Whether a story reads what is known of items, found out by running it on one of a block."""
    some = block.subset(np.arange(1), 1.0)
    if some.item_covariates is None:
        return False
    watched = replace(some.item_covariates, asked=set())
    model = poutine.enum(story.model, first_available_dim=-1 - plates_of(story))
    with seeded(0):
        poutine.trace(model).get_trace(replace(some, item_covariates=watched, _views={}))
    return bool(watched.asked)


def refuse_other(trace: Trace, truth: str, n_classes: int) -> None:
    """Refuses a site that is taken for the truth and has other values than it.

    Raises:
        MethodError: naming the site.
    """
    found = len(nodes(trace)[truth]["value"])
    if found != n_classes:
        raise MethodError(
            f"site {truth!r} is taken for the truth, for nothing says which site is, and has {found} values where "
            f"data have {n_classes} classes; call the truth's site 'truth', or say on a card which it is"
        )


def refuse_deaf(story: Story, small: Block, trace: Trace, truth: str) -> None:
    """Refuses a story that draws its truth in a way that what is known of it (gold, earlier labels) cannot enter.

    Args:
        story, small, trace: as ``probed`` takes and gives them.
        truth: the site that is the truth.

    Raises:
        MethodError: naming the site.
    """
    found = {n: x for n, x in nodes(trace).items() if is_latent(x) and not x["infer"].get("enumerate")}
    values = {n: x["value"].detach().double() for n, x in found.items()}
    told = replace(small, gold=torch.zeros(small.n_items, dtype=torch.int64, device=small.device), _views={})
    try:
        density = Density(story.model, plates_of(story))
        share = density(told, values, marginals=(truth,)).marginals[truth]
    except NumericalError:  # the first class may be impossible where a story rules classes out
        return
    if not bool((share[0] > 1 - 1e-6).all()):
        raise MethodError(
            f"the story draws {truth!r} by itself, so that known truths (gold) and what earlier labels said do "
            "not enter; draw it by crowdppl.truth(data, log_p)"
        )
