"""The graphs of the zoo's methods, under settings that show all their variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.networks.embedding import embedding_for
from crowdppl.plots.model_graph import ModelGraph, a_few_labels, graph_of


def _grouped(data: Annotations) -> dict[str, Any]:
    return {"groups": (1, 1, 2, 2)}


def _embedded(data: Annotations) -> dict[str, Any]:
    network = embedding_for(None, torch.as_tensor(np.asarray(data.features), dtype=torch.float32), (2,), seed=0)
    return {"widths": (2,), "weights": network.state_dict()}


SETTINGS: Mapping[str, Callable[[Annotations], Mapping[str, Any]]] = {
    "dependent_clusters": _grouped,
    "meta_em": _embedded,
}
"""Settings under which a story shows all its variables, where on so few labels the default ones do not."""


def of_method(name: str) -> ModelGraph:
    """The graph of a method of the zoo, on labels without abstentions and, where it reads them, with features."""
    data = a_few_labels()
    settings = SETTINGS[name](data) if name in SETTINGS else {}
    return graph_of(crowdppl.method(name, **settings), data)
