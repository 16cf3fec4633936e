"""Starting values: votes, perturbed votes and spectral moments."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from pyro import poutine
from pyro.poutine.messenger import Messenger
from torch import Tensor
from torch.distributions import biject_to

from crowdppl.core.collective import reduced
from crowdppl.data.blocks import Block
from crowdppl.data.ragged import ragged_sum
from crowdppl.inference.density import is_plate, traced
from crowdppl.moments.joints import Opinions, most_active
from crowdppl.moments.multispa import confusion_from_joints
from crowdppl.primitives.distributions import OneHot
from crowdppl.primitives.model import Model, plates_of

SMOOTHING = 0.01


def votes(blocks: Sequence[Block]) -> Tensor:
    """Votes for each class, (N, K) by position, of which repeats share one; abstentions are no votes."""
    return torch.cat([block.vote_counts(block.weights) for block in blocks]).double()


def soft_truth(counts: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Vote shares (N, K), slightly smoothed; with a generator, perturbed.

    A perturbed start draws the shares of each item from Dirichlet(votes + 1/2), so that sparse items move far
    and clear ones stay.
    """
    if generator is None:
        smooth = counts + SMOOTHING
        return smooth.div_(smooth.sum(-1, keepdim=True))
    drawn = torch._standard_gamma(counts + 0.5, generator=generator) + 1e-6
    return drawn / drawn.sum(-1, keepdim=True)


def named_soft_truth(blocks: Sequence[Block]) -> Tensor:
    """The shares of ``soft_truth(votes(blocks))``, of the classes that an item's labels name and of any other.

    (M + 1, N) by position, for blocks with ``named_classes``, of which each reads its own first and the last.
    """
    known = [(b, b.named_classes) for b in blocks if b.named_classes is not None]
    most, out = max(len(named) for _, named in known), []
    for block, named in known:
        item, answer = block.item[block.named], block.answer[block.named]
        place = (named[:, item] == answer).int().argmax(0)
        counts = torch.bincount(place * block.n_items + item, minlength=named.numel()).reshape(named.shape)
        padded = torch.nn.functional.pad(counts, (0, 0, 0, most + 1 - len(named)))
        out.append((padded + SMOOTHING) / (counts.sum(0) + block.n_classes * SMOOTHING))
    return torch.cat(out, 1).double()


@dataclass(eq=False)
class PriorMeans(Messenger):
    """Replaces every latent that is not given by its prior mean, or the middle of its space."""

    generator: torch.Generator

    def _pyro_sample(self, msg: dict[str, Any]) -> None:
        if msg["is_observed"] or is_plate(msg) or msg["infer"].get("enumerate") or msg["value"] is not None:
            return
        fn = msg["fn"]
        if isinstance(fn, OneHot):
            shape = fn.batch_shape + fn.event_shape
            weights = fn.log_p.exp().expand(shape).double()
            noise = torch.rand(shape, generator=self.generator, dtype=torch.float64, device=weights.device)
            mixed = weights * (0.5 + noise)
            msg["value"] = mixed / mixed.sum(-1, keepdim=True)
        else:
            msg["value"] = prior_mean(fn)


def prior_mean(fn: Any) -> Tensor:
    """The mean of a prior, or the middle of its space where it has none that is known, (*batch, *event)."""
    shape, mean = fn.batch_shape + fn.event_shape, _mean(fn)
    if mean is not None and math.isfinite(float(mean.sum())):
        return mean.expand(shape).detach().double()
    transform = biject_to(fn.support)
    out: Tensor = transform(torch.zeros(transform.inverse_shape(shape), dtype=torch.float64))
    return out


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


def first_values(
    model: Model, block: Block, names: Sequence[str], given: Mapping[str, Tensor], generator: torch.Generator
) -> dict[str, Tensor]:
    """A value for each named site: what is given, else the prior mean; one-hot sites are told apart at random."""
    program = poutine.condition(model.model, data=dict(given))
    with PriorMeans(generator):
        sites = traced(program, block, {}, plates_of(model), until=names)
    return {n: sites[n].value.detach() for n in names}


MOST_ANNOTATORS = 300
"""Annotators whose pairs are counted for a spectral start: those with most labels."""


def spectral_truth(blocks: Sequence[Block]) -> Tensor:
    """Truth shares (N, K) by position under confusion matrices found from moments, prevalence uniform.

    Annotators whose matrix cannot be found count as the mean of the others; where none is found, the shares
    are those of the votes.
    """
    first = blocks[0]
    k = first.n_classes
    opinions = Opinions.of(blocks)
    chosen = most_active(reduced(opinions.counts), MOST_ANNOTATORS)
    found = confusion_from_joints(reduced(opinions.of_annotators(chosen).joints))
    known = np.isfinite(found).all((1, 2))
    if not known.any():
        return soft_truth(votes(blocks))
    table = np.broadcast_to(found[known].mean(0), (first.n_annotators, k, k)).copy()
    table[chosen[known]] = found[known]
    table = 0.9 * table + 0.1 / k
    log_p = torch.zeros(first.n_annotators, first.n_answers, k, dtype=torch.float64)
    log_p[:, :k] = torch.from_numpy(np.log(table)).transpose(1, 2)
    wide = log_p.reshape(-1, k).to(first.device)
    logits = torch.cat([ragged_sum(wide, b.bags, torch.float64) for b in blocks])
    return logits.softmax(-1).clamp(min=1e-6)
