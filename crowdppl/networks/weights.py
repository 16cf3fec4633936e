"""Networks of a story as arrays, and back: for results on disk."""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import is_dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor

from crowdppl.data.stored_features import StoredFeatures
from crowdppl.errors import MethodError, ResultError
from crowdppl.networks.embedding import Embedding
from crowdppl.networks.network import Network
from crowdppl.networks.sight import networks_of, state_of
from crowdppl.networks.standardise import ROWS
from crowdppl.stories.story import Story, settings_of

if TYPE_CHECKING:
    from crowdppl.data.annotations import Annotations


def without_networks(story: Story) -> dict[str, Any]:
    """Settings of a story; networks stand as None."""
    return settings_of(story) | dict.fromkeys(networks_of(story))


def described(story: Story) -> dict[str, Any] | None:
    """The networks of a fitted story by attribute.

    Of each, arrays by name, whether the user brought the network, and where it did, the first weights that are not
    the last ones too, from which ``Posterior.without`` begins.
    """
    found = {}
    for name, network in networks_of(story).items():
        state = state_of(network)
        first = (network.given or {}) if isinstance(network, Network) else {}
        found[name] = {
            "own": network.own if isinstance(network, Network | Embedding) else False,
            "arrays": _arrays(state),
            "first": _arrays({key: x for key, x in first.items() if not _same(x, state[f"body.{key}"])}),
        }
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
    story = _told(story, found)
    prepare: Any = getattr(story, "prepare", None)
    features = data.features
    if isinstance(features, StoredFeatures):  # only their shape is needed: what was made of them is in the arrays
        data = replace(data, features=replace(features[:ROWS], dataset=Blank(features.row_shape, features.whole)))
    try:
        again: Story = prepare(data)
        for name, network in networks_of(again).items():
            network.load_state_dict(_tensors(found[name]["arrays"]))
            network.eval()
            if isinstance(network, Network) and network.given is not None and "first" in found[name]:
                last = {key: x.clone() for key, x in network.body.state_dict().items()}
                first = _tensors(found[name]["first"])
                network.given = {**last, **{key: x.to(last[key].dtype) for key, x in first.items()}}
    except (RuntimeError, MethodError) as error:
        raise ResultError(f"the network handed over is not the one that was saved: {error}") from error
    return again


def _told(story: Story, found: Mapping[str, Any]) -> Story:
    """The story, which keeps what it learned before fits as its setting ``weights``, with those that were saved."""
    if "weights" not in settings_of(story) or "embedding" not in found or not is_dataclass(story):
        return story
    told: Any = story
    embedding = deepcopy(told.embedding)  # the weights of the user's own stay as they are
    return cast(Story, replace(told, embedding=embedding, weights=_tensors(found["embedding"]["arrays"])))


def _arrays(state: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    found = {key: x.detach().cpu() for key, x in state.items()}
    # bfloat16, which numpy does not know, loses nothing in float32, and comes back when weights are loaded.
    return {key: (x.float() if x.dtype == torch.bfloat16 else x).numpy() for key, x in found.items()}


def _tensors(arrays: Mapping[str, Any]) -> dict[str, Tensor]:
    return {key: torch.from_numpy(np.asarray(x)) for key, x in arrays.items()}


def _same(x: Tensor, y: Tensor) -> bool:
    return torch.equal(x.cpu(), y.cpu())


class Blank:
    """Rows that say nothing, for what is to be built in the right shape and filled from elsewhere."""

    def __init__(self, shape: tuple[int, ...], whole: bool = False) -> None:
        self.shape, self.whole = shape, whole

    def __getitem__(self, row: int) -> Tensor:
        # not all the same, or a network that standardises rows would make nothing finite of them
        size = math.prod(self.shape)
        return (torch.arange(size) % 2 if self.whole else torch.linspace(0, 1, size)).reshape(self.shape)
