"""Small simulated crowds, and models posed on them as engines see them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyro
import torch

from crowdppl.data.annotations import Annotations
from crowdppl.inference.options import Options
from crowdppl.inference.problem import Problem, build_problem
from crowdppl.inference.vb.coordinate_ascent import EM, VB
from crowdppl.primitives.model import with_examples

ASCENTS = {"em": EM, "vb": VB}


@contextmanager
def double() -> Iterator[None]:
    """Float64 without Pyro's checks, as engines run models."""
    torch.set_default_dtype(torch.float64)
    try:
        with pyro.validation_enabled(False):
            yield
    finally:
        torch.set_default_dtype(torch.float32)


def annotations(labels: list[tuple[int, int, int]], n_classes: int, **options: Any) -> Annotations:
    item, annotator, answer = (np.array(x) for x in zip(*labels, strict=True))
    return Annotations.from_arrays(item, annotator, answer, classes=list(range(n_classes)), **options)


def crowd(
    n_items: int = 60, n_annotators: int = 6, n_classes: int = 3, labels_each: int = 4, seed: int = 0
) -> Annotations:
    """Annotators with accuracies from .5 to .9, each item labelled by a few of them."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(n_classes, size=n_items)
    skill = rng.permutation(np.linspace(0.5, 0.9, n_annotators))
    labels = []
    for i in range(n_items):
        for a in rng.choice(n_annotators, labels_each, replace=False):
            wrong = (truth[i] + 1 + rng.integers(n_classes - 1)) % n_classes
            labels.append((i, int(a), int(truth[i] if rng.random() < skill[a] else wrong)))
    return annotations(labels, n_classes)


def split(data: Annotations, n_blocks: int) -> Annotations:
    (block,) = data.blocks
    edges = np.linspace(0, block.n_items, n_blocks + 1).astype(int)
    parts = [replace(block.subset(np.arange(a, b), 1.0), offset=int(a), entries=None) for a, b in pairwise(edges)]
    return replace(data, blocks=parts)


def problem_of(model: Any, data: Annotations, **options: Any) -> Problem:
    data, setup = with_examples(model, data), getattr(model, "setup", None)
    return build_problem(model if setup is None else setup(data), data, Options(**options))
