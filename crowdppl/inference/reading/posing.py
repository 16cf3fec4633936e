"""Story and data put before an engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from crowdppl.data.blocks import Block
from crowdppl.data.feature_tensors import placed_features
from crowdppl.doors.naming import kind_of
from crowdppl.errors import DataError, MethodError, NumericalError
from crowdppl.inference.options import Options
from crowdppl.inference.reading.problem import LARGE, Problem
from crowdppl.networks.sight import networks_of, seen_by
from crowdppl.stories.story import Story

if TYPE_CHECKING:
    from crowdppl.data.annotations import Annotations


def pose(
    story: Story,
    data: Annotations,
    options: Options,
    start: Mapping[str, Tensor] | None = None,
    evidence: Tensor | None = None,
) -> Problem:
    """Puts story and data before an engine: fresh blocks on the device, in the right precision.

    Args:
        story, data, options: what is to be fitted, and how.
        start: values of sites, or truth shares (N, K), as arrays or tensors; what is of items in the order of the
            blocks (``data.order``).
        evidence: (N, K) log-potentials of the truth, in the same order.

    Raises:
        MethodError: for a start that names no site, or has another shape than its site.
        NumericalError: for a start that is not finite; it names the site.
    """
    dtype = options.dtype or (torch.float64 if data.n_labels < LARGE else torch.float32)
    blocks = looked_at(story, data, data.on(options.device, dtype))
    known = None if evidence is None else evidence.to(options.device, dtype)
    if known is not None:
        blocks = [replace(b, evidence=known[b.offset : b.offset + b.n_items], _views={}) for b in blocks]

    def whole() -> Any:
        if len(blocks) == 1:
            return blocks[0]
        every = looked_at(story, data, [data.as_block().to(options.device, dtype)])[0]
        return replace(every, evidence=known, _views={})

    def moments() -> Tensor:
        from crowdppl.inference.reading.spectral import spectral_truth  # only restarts need it

        return spectral_truth(blocks)

    problem = Problem(story, blocks, options, whole, moments)
    if start is not None and not isinstance(start, Mapping):
        raise MethodError(f"start is {kind_of(start)}; give a mapping from names of sites to values")
    return replace(problem, given=_checked(problem, start)) if start else problem


def _checked(problem: Problem, start: Mapping[str, Any]) -> dict[str, Tensor]:
    """Values to start from, each in the shape of its site."""
    name, n, k = type(problem.story).__name__, problem.n_items, problem.blocks[0].n_classes
    shapes = {site: x.shape(n) for site, x in problem.sites.items()}
    shapes |= {} if problem.truth is None else {problem.truth: (n, k)}
    out = {}
    for site, value in start.items():
        if site not in shapes:
            near = get_close_matches(site, shapes, 1)
            hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(shapes)}"
            raise MethodError(f"start names {site!r}, which is no site of {name} that a fit starts from; {hint}")
        try:
            x = torch.as_tensor(value).detach().to(problem.options.device, torch.float64)
        except (TypeError, ValueError, RuntimeError) as error:
            raise MethodError(f"start of site {site!r} is no array of numbers ({error}); give one") from error
        if tuple(x.shape) != shapes[site]:
            raise MethodError(f"start of site {site!r} has shape {tuple(x.shape)}, not {shapes[site]}; give that")
        if not bool(torch.isfinite(x).all()):
            raise NumericalError(f"start of site {site!r} holds a value that is not finite; give numbers")
        out[site] = x
    shares = out.get(problem.truth or "")
    if shares is not None and bool((shares <= 0).any()):
        raise MethodError(
            f"start of site {problem.truth!r} holds {float(shares.min()):g}; shares must be above 0, for no label "
            "moves those that are not"
        )
    return out


def looked_at(story: Story, data: Annotations, blocks: list[Block]) -> list[Block]:
    """Blocks with features, and with what the story's networks make of them, where it has any.

    Raises:
        DataError: when the story has a network and the data have no features.
    """
    found = networks_of(story)
    if not found:
        return blocks
    features = placed_features(data)
    if features is None:
        raise DataError("the method has a network, but the data have no features; give features=")
    features = features.to(blocks[0].device)
    for network in found.values():
        network.to(blocks[0].device)
    spans = (slice(b.offset, b.offset + b.n_items) for b in blocks)
    looking = [replace(b, features=features[at], _views={}) for b, at in zip(blocks, spans, strict=True)]
    return seen_by(story, looking)
