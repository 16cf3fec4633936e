"""Whether a model that runs on one value of each site runs on several, as chains and particles give them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import count

import numpy as np
import torch
from torch import Tensor

from crowdppl.core.devices import seeded
from crowdppl.core.memory import is_shortage
from crowdppl.data.blocks import Block
from crowdppl.errors import MethodError, NumericalError
from crowdppl.inference.density import Density, traced
from crowdppl.inference.sites import PROBE_ITEMS, Site
from crowdppl.primitives.model import Model, plates_of


def refuse_misread_chains(model: Model, block: Block, sites: Mapping[str, Site]) -> None:
    """Refuses a model that does not give several values of its sites what it gives each alone.

    Args:
        model: after ``setup``.
        block: the data, or a part of them.
        sites: the model's continuous and one-hot sites.

    Raises:
        MethodError: names the first site at fault, its shape under chains, and how to index it.
    """
    small = block.subset(np.arange(min(PROBE_ITEMS, block.n_items)), 1.0)
    sizes = {small.n_items, small.n_annotators, small.n_classes, small.n_answers}
    sizes |= {n for site in sites.values() for n in site.shape(small.n_items)}
    chains = next(n for n in count(2) if n not in sizes)  # so that a dimension in a wrong place does not match
    draws = [_draw(model, small, sites, seed) for seed in (0, 1)]
    if not _misreading(model, small, sites, draws, chains, sites):
        return
    alone = ((n, _misreading(model, small, sites, draws, chains, [n])) for n in sites)
    name, what = next(((n, what) for n, what in alone if what), ("", ""))
    if not name:
        raise MethodError(
            f"{type(model).__name__} runs on one value of its sites and not on several, which an engine gives it "
            f"in leading dimensions; index {', '.join(sites)} from the right, as in x[..., 0]"
        )
    wide = tuple(_wide(sites[name], [draws[0][name]] * chains, plates_of(model)).shape)
    raise MethodError(
        f"{type(model).__name__} runs on one value of site {name!r} and not on {chains}, which an engine gives it "
        f"as shape {wide}: {what}. Index from the right; write {_remedy(name, len(sites[name].event_shape))}"
    )


def _remedy(name: str, event_dim: int) -> str:
    """What to write in place of what reads one value alone."""
    table = "a table (..., annotators, truths, labels)"
    if event_dim == 0:
        return f"{name}[..., None, None] times {table}"
    if event_dim == 1:
        return (
            f"{name}[..., 0] for {name}[0], or {name}[..., :1] beside {name} itself; "
            f"{name}.sum(-1, keepdim=True) for {name}.sum(); {name}[..., 0, None, None] times {table}; "
            f"{name}[..., None, :] as its rows"
        )
    return f"{name}[..., 0, :] for {name}[0], and x.expand(*x.shape[:-3], a, b, c) for x.expand(a, b, c)"


def _draw(model: Model, block: Block, sites: Mapping[str, Site], seed: int) -> dict[str, Tensor]:
    """A draw of the sites from the prior, away from its borders."""
    with seeded(seed):
        found = traced(model.model, block, {}, plates_of(model))
    return {n: site.value(site.leaf(found[n].value.detach())) for n, site in sites.items()}


def _wide(site: Site, values: list[Tensor], plates: int) -> Tensor:
    """One value a chain, as an engine gives them to a model."""
    return site.widen(torch.stack(values), plates)


def _misreading(
    model: Model,
    block: Block,
    sites: Mapping[str, Site],
    draws: list[dict[str, Tensor]],
    chains: int,
    varied: Collection[str],
) -> str:
    """What goes wrong when some sites take a second value in all chains but the first; "" if nothing does."""
    plates, (first, second) = plates_of(model), draws
    given = {n: _wide(sites[n], [x] + [second[n]] * (chains - 1), plates) for n, x in first.items() if n in varied}
    alone = Density(model.model, plates)
    try:
        one, two = (alone(block, {**first, **{n: x[n] for n in varied}}).per_item for x in draws)
    except NumericalError:  # whatever is wrong is wrong without chains
        return ""
    try:
        many = Density(model.model, plates, chains)(block, {**first, **given}).per_item
    except (ValueError, RuntimeError, IndexError, MethodError, NumericalError) as error:
        if is_shortage(error):
            raise
        return str(error).splitlines()[0].rstrip(".")
    same = torch.allclose(many, torch.stack([one] + [two] * (chains - 1)), rtol=1e-4, atol=1e-4)
    return "" if same else "labels get other probabilities than from each value alone"
