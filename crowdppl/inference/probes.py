"""What a model of anybody's is tried for before engines rely on it: several values at once, and items apart."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from itertools import count
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from crowdppl.core.devices import is_shortage, seeded
from crowdppl.data.blocks import OF_ANNOTATORS, OF_ITEMS, OF_LABELS, Block
from crowdppl.errors import MethodError, NumericalError
from crowdppl.inference.density import Density, traced
from crowdppl.inference.sites import PROBE_ITEMS, Site
from crowdppl.primitives.model import Model, contents, plates_of

Probe = Callable[[Model, Block, Mapping[str, Site]], bool]
PLAIN = (str, int, float, bool, bytes, type(None))
"""Types of settings by which two models of a class can be told to be the same."""
MOST_SETTINGS, MOST_KEPT = 1_000, 1_000
"""Values in the settings of a model whose answers are kept, and answers kept of a class."""

_answers: WeakKeyDictionary[type, dict[Hashable, bool]] = WeakKeyDictionary()
"""What models of a class were found to do."""


def passes(probe: Probe, model: Model, block: Block, sites: Mapping[str, Site]) -> bool:
    """Whether a model passes a probe; tried once for a class of the same settings on data of the same form."""
    model = getattr(model, "model_before_update", model)  # its priors alone are others
    settings, kept = contents(model), _answers.setdefault(type(model), {})
    if len(settings) > MOST_SETTINGS or not all(isinstance(x, PLAIN) for x in settings):
        return probe(model, block, sites)
    there = tuple(getattr(block, name) is not None for name in (*OF_ITEMS, *OF_ANNOTATORS, *OF_LABELS))
    form = (block.n_annotators, block.n_classes, block.n_answers, block.informative, there)
    shapes = tuple((n, s.kind, s.local, len(s.batch_shape), len(s.event_shape)) for n, s in sites.items())
    key = (probe.__name__, tuple(settings), form, shapes)
    if key not in kept:
        if len(kept) >= MOST_KEPT:
            kept.clear()
        kept[key] = probe(model, block, sites)
    return kept[key]


def tells_no_annotators(model: Model, block: Block, sites: Mapping[str, Site]) -> bool:
    """Whether items with the same answers have the same density, whoever gave them and whatever items are there."""
    return _alike(model, block, sites, block.distinct_answers)


def tells_items_by_labels(model: Model, block: Block, sites: Mapping[str, Site]) -> bool:
    """Whether items with the same labels have the same density, whatever other items are there."""
    return _alike(model, block, sites, block.distinct)


def _alike(model: Model, block: Block, sites: Mapping[str, Site], distinct: tuple[Block, Tensor] | None) -> bool:
    """Whether some items that are said to be the same have one density, among one another and alone."""
    assert distinct is not None
    place = distinct[1].cpu().numpy()
    first = np.unique(place, return_index=True)[1]
    rest = np.setdiff1d(np.arange(len(place)), first)
    second = rest[np.unique(place[rest], return_index=True)[1]][: PROBE_ITEMS // 2]
    first = first[place[second]]
    both, alone = block.subset(np.append(first, second), 1.0), block.subset(first, 1.0)
    values, density = _draw(model, both, sites, 0), Density(model.model, plates_of(model))
    one, two = density(both, values).per_item.reshape(2, -1)
    apart = density(alone, values).per_item
    return bool(((one - two).abs() + (one - apart).abs() <= 1e-6 * (1 + one.abs())).all())


def reads_chains(model: Model, block: Block, sites: Mapping[str, Site]) -> bool:
    """Whether a model gives several values of its sites what it gives each alone; one that does not is refused.

    The MethodError names the first site at fault, its shape under chains, and how to index it.
    """
    small = block.subset(np.arange(min(PROBE_ITEMS, block.n_items)), 1.0)
    sizes = {small.n_items, small.n_annotators, small.n_classes, small.n_answers}
    sizes |= {n for site in sites.values() for n in site.shape(small.n_items)}
    chains = next(n for n in count(2) if n not in sizes)  # so that a dimension in a wrong place does not match
    draws = [_draw(model, small, sites, seed) for seed in (0, 1)]
    if not _misreading(model, small, sites, draws, chains, sites):
        return True
    alone = ((n, _misreading(model, small, sites, draws, chains, [n])) for n in sites)
    name, what = next(((n, what) for n, what in alone if what), ("", ""))
    if not name:
        raise MethodError(
            f"{type(model).__name__} runs on one value of its sites and not on several, which an engine gives it "
            f"in leading dimensions; index {', '.join(sites)} from the right, as in x[..., 0]"
        )
    wide = tuple(sites[name].with_plate_dims(torch.stack([draws[0][name]] * chains), plates_of(model)).shape)
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
    return {n: site.value(site.statistic(found[n].value.detach())) for n, site in sites.items()}


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
    each = {n: torch.stack([x] + [second[n]] * (chains - 1)) for n, x in first.items() if n in varied}
    given = {n: sites[n].with_plate_dims(x, plates) for n, x in each.items()}
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
