"""When a network has learned enough: labels that were left out say it."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pyro
import torch
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.data.blocks import Block
from crowdppl.data.split import keep, label_folds
from crowdppl.errors import DataError
from crowdppl.inference.checkpoint import TrialCache
from crowdppl.inference.density import Density
from crowdppl.inference.options import Options
from crowdppl.inference.passes import FullPass
from crowdppl.inference.problem import Problem, build_problem
from crowdppl.inference.svi.guide import mean_field
from crowdppl.inference.svi.networks import Epochs
from crowdppl.inference.svi.svi import point_of
from crowdppl.inference.vb.fit import learner_of, prepare
from crowdppl.networks.outputs import cached_outputs, trained_networks
from crowdppl.networks.training import Training, training_of
from crowdppl.primitives.model import Model

STOP = "stop_after"
"""Name under which the number of epochs is kept."""
PARTS = 10
"""One label in so many is left out, never all of an item where items have labels of two annotators."""


def with_early_stopping(
    model: Model, data: Annotations, engine: str, options: Options, kept: TrialCache | None = None
) -> Model:
    """The story with the number of epochs after which labels left out are most probable, where it asks for that.

    A copy is trained without a tenth of the labels, and scored on them after each epoch, until ``patience`` epochs
    bring no gain. Known truths take no part. The fit proper then learns from all labels for as many epochs.

    Where no item has labels of two annotators, a tenth of the items is left out with all their labels, which the
    network then predicts. The number is looked up where it is ``kept``.

    Raises:
        DataError: when one item has all labels.
        KeyboardInterrupt: at Ctrl-C, for there is nothing yet that was learned from all labels.
    """
    if not trained_networks(model):
        return model
    training = training_of(getattr(model, "training", {}))
    if training.patience == 0:
        return model
    before = {} if kept is None else kept.found()
    best = int(before[STOP]) if STOP in before else _best_epoch(model, data, engine, options, training)
    if kept is not None and STOP not in before:
        kept.add(STOP, torch.tensor(best))
    build: Any = replace
    settings = {**getattr(model, "training", {}), "patience": 0, "stop_after": best}
    found: Model = build(model, training=settings)
    return found


def _best_epoch(model: Model, data: Annotations, engine: str, options: Options, training: Training) -> int:
    """The epoch of a first training after which labels left out are most probable."""
    out = _left_out(data, options.seed)
    trial = replace(options, checkpoint=None, callback=None, progress=False)
    problem = build_problem(deepcopy(model), keep(data, ~out), trial)
    full = data.on(options.device, problem.blocks[0].dtype)
    best, best_epoch = -float("inf"), training.epochs
    for number, (density, values) in enumerate(_epochs(problem, engine, training), 1):
        score = _score(problem, density, values, full)
        if score > best:
            best, best_epoch = score, number
        if number - best_epoch >= training.patience:
            break
    return best_epoch


def _left_out(data: Annotations, seed: int) -> np.ndarray:
    """Labels that the first training does not see, bool (S,), in the order of ``data.frame()``."""
    item, annotator, _ = data.label_codes()
    if ((np.diff(item) == 0) & (np.diff(annotator) != 0)).any():  # labels are sorted by both
        out: np.ndarray = label_folds(data, PARTS, seed) == 0
        return out
    labelled = np.unique(item)
    if len(labelled) < 2:
        raise DataError(
            "training: patience leaves some items out, but one item has all labels; set patience=0, or label more"
        )
    some = np.random.default_rng(seed).permutation(labelled)[: max(1, len(labelled) // PARTS)]
    out = np.isin(item, some)
    return out


def _epochs(
    problem: Problem, engine: str, training: Training
) -> Generator[tuple[Density, Mapping[str, Tensor]], None, None]:
    """Trains; after each epoch, the story's density and where its sites stand."""
    options = problem.options
    if engine == "svi":
        guide = getattr(problem.model, "guide", None) or (lambda data: mean_field(problem.model, data))
        density = problem.density()
        with pyro.get_param_store().scope(), torch.random.fork_rng():
            running = Epochs(problem, training, options, guide)
            for number in range(training.epochs):
                running.run(number)
                blocks: Any = problem.blocks
                blocks[:] = cached_outputs(problem.model, list(blocks))
                yield density, point_of(problem, guide)
        return
    learner = learner_of(problem, options)
    _, shares = problem.start(0)
    ascent = prepare(problem, options, engine, shares)
    ascent.learner = learner
    for _ in range(training.epochs):
        ascent.step()
        yield ascent.fold.density, ascent.here.values()


def _score(problem: Problem, density: Density, values: Mapping[str, Tensor], full: list[Block]) -> float:
    """log p(labels left out | labels kept, values)."""
    kept = list(problem.blocks)
    parts = [block.seen for block in kept if block.seen is not None]
    seen = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    spans = [slice(block.offset, block.offset + block.n_items) for block in full]
    looking = [
        replace(block, gold=None, seen={name: x[at] for name, x in seen.items()})
        for block, at in zip(full, spans, strict=True)
    ]
    blind = [replace(block, gold=None) for block in kept]
    totals = []
    for blocks in (looking, blind):
        evidence = FullPass(density, blocks, problem.sites)(values, evidence=True).per_item
        assert evidence is not None
        totals.append(float(evidence.double().mean(0).sum() if evidence.dim() > 1 else evidence.double().sum()))
    return totals[0] - totals[1]
