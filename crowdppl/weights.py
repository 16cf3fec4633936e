"""Networks of a story as arrays, and back: for results on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from crowdppl.errors import ResultError
from crowdppl.networks import Network, network_of, perceptron
from crowdppl.story import Story, settings_of


def without_network(story: Story) -> dict[str, Any]:
    """Settings of a story; a network stands as None."""
    found = settings_of(story)
    return found | {"network": None} if network_of(story) is not None else found


def described(story: Story) -> dict[str, Any] | None:
    """The network of a fitted story: arrays by name, and the sizes of one that was built by default."""
    network = network_of(story)
    if network is None:
        return None
    arrays = {name: x.detach().cpu().numpy() for name, x in network.state_dict().items()}
    return {"sizes": _sizes(network), "arrays": arrays}


def restored(story: Story, found: Mapping[str, Any] | None) -> Story:
    """The story with the network that was saved.

    Args:
        story: built from its settings, or handed over by the user with a network of the same architecture.
        found: what ``described`` said.

    Raises:
        ResultError: when the network was one of the user's own and is not there, or has other weights.
    """
    if found is None:
        return story
    body = network_of(story)
    if body is None and found["sizes"] is None:
        raise ResultError(
            "this posterior has a network of your own, which is not saved but for its weights; hand the method "
            "over with one of the same architecture: crowdppl.load(path, story=...)"
        )
    state = {name: torch.from_numpy(np.asarray(x)) for name, x in found["arrays"].items()}
    default = body is None
    network = Network(perceptron(**found["sizes"]) if body is None else body, _like(state), default)
    try:
        network.load_state_dict(state)
    except RuntimeError as error:
        raise ResultError(f"the network handed over is not the one that was saved: {error}") from error
    build: Any = replace
    restored: Story = build(story, network=network.eval())
    return restored


def _like(state: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Features of the right shape for a ``Network`` that is about to be overwritten."""
    mean = state.get("first.mean")
    return torch.zeros(1, 1, 1) if mean is None else torch.zeros(1, len(mean))


def _sizes(network: nn.Module) -> dict[str, Any] | None:
    """Arguments of ``perceptron`` that build the body again; None for a network of the user's own."""
    match list(network.body.children()) if isinstance(network, Network) and network.default else []:
        case [nn.Linear() as first, nn.ReLU(), nn.Dropout() as dropout, nn.Linear() as last]:
            sizes = {"n_features": first.in_features, "n_classes": last.out_features, "hidden": first.out_features}
            return {**sizes, "dropout": dropout.p}
    return None
