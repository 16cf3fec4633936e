"""The number of epochs of a network's training, found by labels that are left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.data.blocks import Block, row_codes
from crowdppl.data.split import keep, label_folds
from crowdppl.errors import DataError
from crowdppl.inference.checkpoint import TrialCache
from crowdppl.inference.density import Density
from crowdppl.inference.options import Options
from crowdppl.inference.passes import FullPass
from crowdppl.inference.problem import Problem, build_problem
from crowdppl.networks.outputs import trained_networks
from crowdppl.networks.training import Training, training_of
from crowdppl.primitives.model import Model

KEY = "stop_after"
"""Name of the number of epochs in a cache of trials."""
FOLDS = 10
"""One label in so many is left out, never all of an item where items have labels of two annotators."""


Epochs = Callable[[Problem], Iterator[tuple[Density, Mapping[str, Tensor]]]]
"""How an engine trains networks: after each epoch, the model's density and the values of its sites."""


def with_early_stopping(
    model: Model, data: Annotations, epochs: Epochs, options: Options, cache: TrialCache | None = None
) -> Model:
    """The model with the number of epochs at which left-out labels are most probable, where it has ``patience``.

    A copy is trained without a tenth of the labels, and scored on them after each epoch, until ``patience`` epochs
    bring no gain. Known truths take no part. The fit proper then trains on all labels for as many epochs. Where no
    item has labels of two annotators, a tenth of the items is left out with all their labels, which the network
    then predicts. The number is read from the cache where it is there.

    Raises:
        DataError: when one item has all labels.
        KeyboardInterrupt: at Ctrl-C.
    """
    settings = getattr(model, "training", {})
    if not trained_networks(model) or training_of(settings).patience == 0:
        return model
    best = None if cache is None else cache.found().get(KEY)
    if best is None:
        best = torch.tensor(_best_epoch(model, data, epochs, options, training_of(settings)))
        if cache is not None:
            cache.add(KEY, best)
    build: Any = replace
    found: Model = build(model, training={**settings, "patience": 0, "stop_after": int(best)})
    return found


def _best_epoch(model: Model, data: Annotations, epochs: Epochs, options: Options, training: Training) -> int:
    """The epoch after which left-out labels are most probable."""
    out = _left_out(data, options.seed)
    trial = replace(options, checkpoint=None, callback=None, progress=False)
    problem = build_problem(deepcopy(model), keep(data, ~out), trial)
    full = data.on(options.device, problem.blocks[0].dtype)
    best, best_epoch = -float("inf"), training.epochs
    for number, (density, values) in enumerate(epochs(problem), 1):
        score = _score(problem, density, values, full)
        if score > best:
            best, best_epoch = score, number
        if number - best_epoch >= training.patience:
            break
    return best_epoch


def _left_out(data: Annotations, seed: int) -> np.ndarray:
    """Labels that are left out, bool (S,), in the order of ``data.frame()``."""
    item, cell = row_codes(data.blocks, data.order)
    annotator = cell // np.int32(data.n_answers)
    if ((np.diff(item) == 0) & (np.diff(annotator) != 0)).any():  # labels are sorted by both
        return np.asarray(label_folds(data, FOLDS, seed) == 0)
    labelled = np.unique(item)
    if len(labelled) < 2:
        raise DataError(
            "training: patience leaves some items out, but one item has all labels; set patience=0, or label more"
        )
    chosen = np.random.default_rng(seed).permutation(labelled)[: max(1, len(labelled) // FOLDS)]
    return np.asarray(np.isin(item, chosen))


def _score(problem: Problem, density: Density, values: Mapping[str, Tensor], full: list[Block]) -> float:
    """log p(labels left out | labels kept, values)."""
    kept = list(problem.blocks)
    outputs = [block.seen for block in kept if block.seen is not None]
    seen = {name: torch.cat([x[name] for x in outputs]) for name in outputs[0]}
    spans = [slice(block.offset, block.offset + block.n_items) for block in full]
    all_labels = [
        replace(block, gold=None, seen={name: x[at] for name, x in seen.items()})
        for block, at in zip(full, spans, strict=True)
    ]
    totals = []
    for blocks in (all_labels, [replace(block, gold=None) for block in kept]):
        evidence = FullPass(density, blocks, problem.sites)(values, evidence=True).per_item
        assert evidence is not None
        totals.append(float(evidence.double().mean(0).sum() if evidence.dim() > 1 else evidence.double().sum()))
    return totals[0] - totals[1]
