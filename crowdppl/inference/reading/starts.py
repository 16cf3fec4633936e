"""Where fits start: votes, perturbed votes or moments decide the truth; priors decide the rest."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from pyro import poutine
from pyro.poutine import Trace
from pyro.poutine.messenger import Messenger
from torch import Tensor
from torch.distributions import biject_to

from crowdppl.data.bags import bag
from crowdppl.data.blocks import Block
from crowdppl.inference.reading.nodes import is_plate, nodes
from crowdppl.inference.reading.tracing import traced
from crowdppl.stories.distributions import OneHot
from crowdppl.stories.story import Story

SMOOTHING = 0.01


def votes(blocks: Sequence[Block]) -> Tensor:
    """Number of votes for each class, (N, K) by position; abstentions are no votes."""
    first = blocks[0]
    k = first.n_classes
    answer = torch.arange(first.n_annotators * first.n_answers, device=first.device) % first.n_answers
    table = torch.nn.functional.one_hot(answer.clamp(max=k), k + 1)[:, :k].double()
    return torch.cat([bag(table, b.bags, torch.float32) for b in blocks]).double()


def soft_truth(counts: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Vote shares (N, K), slightly smoothed; with a generator, perturbed.

    A perturbed start draws the shares of each item from Dirichlet(votes + 1/2), so that sparse items move far
    and clear ones stay.
    """
    if generator is None:
        smooth = counts + SMOOTHING
        return smooth / smooth.sum(-1, keepdim=True)
    gamma = torch._standard_gamma(counts + 0.5, generator=generator)
    return (gamma + 1e-6) / (gamma + 1e-6).sum(-1, keepdim=True)


class Typical(Messenger):
    """Replaces every latent that is not given by its prior mean, or the middle of its space."""

    def __init__(self, generator: torch.Generator | None) -> None:
        super().__init__()
        self.generator = generator

    def _pyro_sample(self, msg: dict[str, Any]) -> None:
        if msg["is_observed"] or is_plate(msg) or msg["infer"].get("enumerate"):
            return
        if msg["value"] is None:
            msg["value"] = self._typical(msg["fn"])

    def _typical(self, fn: Any) -> Tensor:
        shape = fn.batch_shape + fn.event_shape
        if isinstance(fn, OneHot):
            weights = fn.log_p.exp().expand(shape).double()
            noise = torch.rand(shape, generator=self.generator, dtype=torch.float64, device=weights.device)
            mixed = weights * (0.5 + noise)
            return mixed / mixed.sum(-1, keepdim=True)
        mean = _mean(fn)
        if mean is not None and math.isfinite(float(mean.sum())):
            out: Tensor = mean.expand(shape).detach().double()
            return out
        transform = biject_to(fn.support)
        zero = torch.zeros(transform.inverse_shape(shape), dtype=torch.float64)
        middle: Tensor = transform(zero)
        return middle


def _mean(fn: Any) -> Tensor | None:
    """The mean, or where what was transformed has its mean; None where that is not known either."""
    try:
        out: Tensor = fn.mean
        return out
    except NotImplementedError:
        pass
    mean = _mean(fn.base_dist) if hasattr(fn, "base_dist") else None
    for transform in getattr(fn, "transforms", ()):
        mean = None if mean is None else transform(mean)
    return mean


def typical_values(
    story: Story,
    block: Block,
    names: Sequence[str],
    given: Mapping[str, Tensor],
    plates: int,
    generator: torch.Generator,
) -> dict[str, Tensor]:
    """A value for each site: what the story's own start gives, else the prior mean.

    Args:
        story: the story.
        block: all items whose local sites are wanted.
        names: the sites.
        given: values that are known already.
        plates: nesting depth.
        generator: breaks the symmetry of one-hot sites.
    """
    model = poutine.condition(story.model, data=dict(given))
    with Typical(generator):
        trace = traced(model, block, {}, plates, enough=names)
    return {n: nodes(trace)[n]["value"].detach() for n in names}


def truth_site(story: Story, trace: Trace) -> str | None:
    """The discrete site that starts tilt towards the votes: the card's truth, or "truth"; else the first one."""
    found = [
        n for n, x in nodes(trace).items() if x["type"] == "sample" and x["infer"].get("_enumerate_dim") is not None
    ]
    card = getattr(story, "card", None)
    named = "truth" if card is None else str(card.truth)
    if named in found:
        return named
    return found[0] if found else None
