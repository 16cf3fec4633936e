"""Data sets drawn from a model: parameters, truths and labels, on a design of who labels what."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from pyro import poutine

from crowdppl import registry
from crowdppl.core.devices import seeded
from crowdppl.core.validation import is_whole, seed_number, whole_number
from crowdppl.data.annotations import Annotations, Options, require_annotations
from crowdppl.data.blocks import Block
from crowdppl.data.features import placed_features
from crowdppl.errors import DataError, MethodError
from crowdppl.inference.problem import without_validation
from crowdppl.inference.sequential import draw_in_order, with_derived
from crowdppl.networks.outputs import cached_outputs, networks_of
from crowdppl.primitives.labels import Labels, NumberLabels
from crowdppl.primitives.model import Model, card_of, set_up

Nodes = dict[str, Any]
CHUNK = 10_000_000
"""Numbers that drawing a design may hold at once."""


@dataclass(frozen=True)
class Simulation:
    """One data set drawn from a model.

    Attributes:
        data: the design with the drawn labels.
        truth: the drawn truth, series by item id. Known truths of the design are kept.
        parameters: the drawn value of every other latent site; those of items are in the order of ``data.items``.
    """

    data: Annotations
    truth: pd.Series[Any]
    parameters: dict[str, np.ndarray]


def simulate(model: str | Model, design: Annotations, seed: int = 0) -> Simulation:
    """Draws parameters, truths and labels from a model.

    Networks are applied, as they are, to the design's features; ``posterior.model`` has trained ones.

    Args:
        model: a method by name, or with settings of yours: ``crowdppl.method(name, ...)``.
        design: who labels what; existing labels are ignored.
        seed: of the draws.

    Raises:
        MethodError: for an unknown name, a class, a model without a site for the truth or for labels, one whose
            labels depend on each other in a circle, or a wrong seed.
        DataError: when the design is not annotations.

    Examples:
        >>> design = crowdppl.random_design(200, 10, 3, classes=["no", "yes"], seed=0)
        >>> found = crowdppl.simulate("one_coin", design, seed=0)
        >>> found.data
        Annotations(200 items, 10 annotators, 2 classes, 600 labels)
        >>> found.truth.value_counts().to_dict()
        {'no': 108, 'yes': 92}
    """
    model = registry.resolve(model)
    design, seed = require_annotations(design, "design"), seed_number(seed)
    with seeded(seed):  # which may draw the first weights of a network
        ready = set_up(model, design)
    labels, sites = _draw(ready, design, seed)
    drawn = sites.pop(_truth_of(ready, sites))
    numbers = drawn.dtype.kind == "f"
    truth = drawn if numbers else design.classes.take(drawn.astype(np.int64))
    data = with_derived(ready, design.answered(labels))
    return Simulation(data, pd.Series(truth, index=design.items, name="truth"), sites)


def random_design(
    n_items: int,
    n_annotators: int,
    labels_per_item: int,
    classes: int | Iterable[Any],
    seed: int = 0,
    **options: Any,
) -> Annotations:
    """A design in which each item is given to some annotators at random.

    Args:
        n_items, n_annotators: sizes; ids are whole numbers from 0.
        labels_per_item: how many different annotators label an item.
        classes: their number, or their names.
        seed: of the choice.
        options: further ones of ``crowdppl.Annotations.design``, such as ``abstentions``.

    Raises:
        DataError: when ``labels_per_item`` exceeds ``n_annotators``, or there are fewer than two classes.
        MethodError: for a size that is not a whole number from 1, or a wrong seed.

    Examples:
        >>> crowdppl.random_design(200, 10, 3, classes=["no", "yes"], seed=0)
        Annotations(200 items, 10 annotators, 2 classes, 600 labels to be drawn)
    """
    n_items, n_annotators = whole_number("n_items", n_items, 1), whole_number("n_annotators", n_annotators, 1)
    labels_per_item, seed = whole_number("labels_per_item", labels_per_item, 1), seed_number(seed)
    if labels_per_item > n_annotators:
        raise DataError(f"labels_per_item={labels_per_item} must be at most n_annotators={n_annotators}")
    rng = np.random.default_rng(seed)
    chosen = []
    step = max(1, CHUNK // n_annotators)
    for start in range(0, n_items, step):
        key = rng.random((min(step, n_items - start), n_annotators))
        chosen.append(np.argpartition(key, labels_per_item - 1, axis=1)[:, :labels_per_item])
    names: Any = range(classes) if is_whole(classes) else classes
    item = np.repeat(np.arange(n_items), labels_per_item)
    known: Options = {"items": range(n_items), "annotators": range(n_annotators), "classes": names}
    return Annotations.design(item, np.concatenate(chosen).reshape(-1), **{**known, **options})


def _draw(model: Model, design: Annotations, seed: int) -> tuple[list[torch.Tensor], dict[str, np.ndarray]]:
    """The labels of each block, and every latent."""
    sites: dict[str, np.ndarray] = {}

    def draw(blocks: list[Block]) -> list[torch.Tensor]:
        labels, found = _draw_blocks(model, blocks, np.argsort(design.order))
        sites.update(found)
        return labels

    with without_validation("cpu"), seeded(seed):
        labels = draw_in_order(model, design, _with_outputs(model, design), draw)
    return labels, sites


def _draw_blocks(
    model: Model, blocks: list[Block], place: np.ndarray
) -> tuple[list[torch.Tensor], dict[str, np.ndarray]]:
    """The same, once; shared latents are drawn with the first block, and items have their ``place`` there, (N,)."""
    shared: dict[str, torch.Tensor] = {}
    labels: list[torch.Tensor] = []
    pieces: dict[str, list[np.ndarray]] = {}
    axes: dict[str, int] = {}
    for block in blocks:
        conditioned = poutine.condition(model.model, data=shared)
        drawn, latents = _run(conditioned, replace(block, has_labels=False), shared)
        labels.append(drawn["value"])
        if isinstance(fn := drawn["fn"], NumberLabels) and fn.drawn is not None:
            axes[fn.truth] = -1
            pieces.setdefault(fn.truth, []).append(fn.drawn.numpy())
        for name, node in latents.items():
            axis = _item_axis(node)
            if axis is None:
                shared[name] = node["value"]
            else:
                axes[name] = axis
                pieces.setdefault(name, []).append(node["value"].detach().numpy())
    sites = {name: value.detach().numpy() for name, value in shared.items()}
    for name, parts in pieces.items():
        sites[name] = np.take(np.concatenate(parts, axis=axes[name]), place, axis=axes[name])
    return labels, sites


def _with_outputs(model: Model, design: Annotations) -> list[Block]:
    """The design's blocks, with the networks' outputs where there are features."""
    blocks = design.on("cpu", torch.float64)
    features = placed_features(design) if networks_of(model) else None
    if features is None:
        return blocks
    spans = (slice(block.offset, block.offset + block.n_items) for block in blocks)
    return cached_outputs(
        model, [replace(block, features=features[at]) for block, at in zip(blocks, spans, strict=True)]
    )


def _run(model: Any, block: Block, known: Collection[str]) -> tuple[Any, Nodes]:
    """The site of the labels, and every latent one; for Pyro, a latent that is known already is observed."""
    labels = None
    latents = {}
    for name, node in poutine.trace(model).get_trace(block).nodes.items():
        if node["type"] != "sample" or type(node["fn"]).__name__ == "_Subsample":
            continue
        if isinstance(node["fn"], Labels):
            labels = node
        elif not node["is_observed"] or name in known:
            latents[name] = node
    if labels is None:
        raise MethodError("the model draws no labels: call crowdppl.primitives.annotate inside the plate of items")
    return labels, latents


def _item_axis(node: Any) -> int | None:
    """The axis of a value, from the right, that runs over items; None where it is shared by all."""
    for frame in node["cond_indep_stack"]:
        if frame.vectorized and frame.name == "items":
            return int(frame.dim) - len(node["fn"].event_shape)
    return None


def _truth_of(model: Model, sites: dict[str, np.ndarray]) -> str:
    card = card_of(model)
    name = "truth" if card is None else card.truth
    if name not in sites:
        sited = ", ".join(sites)
        raise MethodError(
            f"{type(model).__name__} has no site {name!r} for the truth; name it on the card ({sited})"
        )
    return name
