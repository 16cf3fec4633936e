"""Networks of a story as arrays, and back: for results on disk."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from crowdppl.errors import MethodError, ResultError
from crowdppl.networks import Network
from crowdppl.sight import networks_of
from crowdppl.standardise import ROWS
from crowdppl.stored_features import StoredFeatures
from crowdppl.story import Story, settings_of

if TYPE_CHECKING:
    from crowdppl.annotations import Annotations


def without_networks(story: Story) -> dict[str, Any]:
    """Settings of a story; networks stand as None."""
    return settings_of(story) | dict.fromkeys(networks_of(story))


def described(story: Story) -> dict[str, Any] | None:
    """The networks of a fitted story by attribute: arrays by name, and whether the user brought the network."""
    found = {}
    for name, network in networks_of(story).items():
        arrays = {key: x.detach().cpu().numpy() for key, x in network.state_dict().items()}
        found[name] = {"own": isinstance(network, Network) and not network.default, "arrays": arrays}
    return found or None


def restored(story: Story, found: Mapping[str, Any] | None, data: Annotations) -> Story:
    """The story with the networks that were saved.

    Args:
        story: built from its settings, or handed over by the user with networks of the same architecture.
        found: what ``described`` said.
        data: the annotations of the fit.

    Raises:
        ResultError: when a network was one of the user's own and is not there, or has other weights.
    """
    if found is None:
        return story
    for name, saved in found.items():
        if saved["own"] and name not in networks_of(story):
            raise ResultError(
                "this posterior has a network of your own, which is not saved but for its weights; hand the method "
                "over with one of the same architecture: crowdppl.load(path, story=...)"
            )
    prepare: Any = getattr(story, "prepare", None)
    features = data.features
    if isinstance(features, StoredFeatures):  # only their shape is needed: what was made of them is in the arrays
        data = replace(data, features=replace(features[:ROWS], dataset=Blank(features.row_shape, features.whole)))
    try:
        again: Story = prepare(data)
        for name, network in networks_of(again).items():
            state = {key: torch.from_numpy(np.asarray(x)) for key, x in found[name]["arrays"].items()}
            network.load_state_dict(state)
            network.eval()
    except (RuntimeError, MethodError) as error:
        raise ResultError(f"the network handed over is not the one that was saved: {error}") from error
    return again


class Blank:
    """Rows that say nothing, for what is to be built in the right shape and filled from elsewhere."""

    def __init__(self, shape: tuple[int, ...], whole: bool = False) -> None:
        self.shape, self.whole = shape, whole

    def __getitem__(self, row: int) -> Tensor:
        # not all the same, or a network that standardises rows would make nothing finite of them
        size = math.prod(self.shape)
        return (torch.arange(size) % 2 if self.whole else torch.linspace(0, 1, size)).reshape(self.shape)
