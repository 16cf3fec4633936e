"""An epoch of a network beside annotators, and of the same network alone."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import nn

from crowdppl.data.annotations import Annotations
from crowdppl.fitting import fit
from crowdppl.inference.optimisers import adamw
from tests.benchmarks.simulated import draw
from tests.benchmarks.timing import least_seconds, on_threads

SHORT, LONG = 1, 4
"""Epochs; an epoch is the difference between a long and a short run, by the number of epochs between them."""


@dataclass(frozen=True)
class Size:
    """Items, items of a step, labels an item, classes and features."""

    items: int
    batch: int
    each: int = 5
    classes: int = 5
    features: int = 512


def measured(size: Size, widths: tuple[int, ...], device: str, rounds: int = 3) -> tuple[float, float]:
    data, x = simulated(size)
    tasks: dict[str, Callable[[], object]] = {}
    for epochs in (SHORT, LONG):
        tasks[f"fit {epochs}"] = on_threads(1, partial(fitted, data, size, widths, epochs, device))
        tasks[f"alone {epochs}"] = on_threads(1, partial(alone, x, size, widths, epochs, device))
    took = least_seconds(tasks, rounds)
    ours, bare = ((took[f"{name} {LONG}"] - took[f"{name} {SHORT}"]) / (LONG - SHORT) for name in ("fit", "alone"))
    return ours, bare


def simulated(size: Size) -> tuple[Annotations, np.ndarray]:
    drawn = draw(size.items, size.each, 100, size.classes, seed=3)
    rng = np.random.default_rng(3)
    x = rng.standard_normal((size.items, size.features), np.float32)
    x *= 3
    x += rng.normal(size=(size.classes, size.features)).astype(np.float32)[drawn.truth]
    how = {"items": range(size.items), "features": x}
    return Annotations.from_arrays(drawn.item, drawn.annotator, drawn.label, **how), x


def network(size: Size, widths: tuple[int, ...]) -> nn.Module:
    torch.manual_seed(0)
    parts: list[nn.Module] = []
    for before, after in zip((size.features, *widths), widths, strict=False):
        parts += [nn.Linear(before, after), nn.ReLU(), nn.Dropout(0.2)]
    return nn.Sequential(*parts, nn.Linear(widths[-1], size.classes))


def fitted(data: Annotations, size: Size, widths: tuple[int, ...], epochs: int, device: str) -> None:
    training = {"epochs": epochs, "batch_size": size.batch}
    settings = {"network": network(size, widths), "recipe": "plain", "training": training}
    fit("bayes_dgc", data, inference="vb", seed=0, device=device, settings=settings)


def alone(x: np.ndarray, size: Size, widths: tuple[int, ...], epochs: int, device: str) -> None:
    net, features = network(size, widths).to(device), torch.from_numpy(x).to(device)
    targets = torch.full((len(x), size.classes), 1 / size.classes, device=device)
    optimiser = adamw(net.parameters(), lr=1e-3, weight_decay=1e-4)
    net.train()
    loss = torch.zeros(())
    for _ in range(epochs):
        for rows in torch.randperm(len(x), device=device).split(size.batch):
            loss = -(targets[rows] * net(features[rows]).log_softmax(-1)).sum(-1).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    loss.item()  # a GPU is done only when it is asked
