"""What networks make of items: how a story asks them, and how a user does."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyro
import torch
from torch import Tensor, nn

from crowdppl.core.validation import kind_of, warn
from crowdppl.data.annotations import Annotations
from crowdppl.data.blocks import Block
from crowdppl.data.covariates import is_dataset
from crowdppl.data.features import (
    Features,
    StoredFeatures,
    in_columns,
    numbers_of,
    plain_array,
    plain_table,
    read_stored,
    require_finite,
)
from crowdppl.errors import CrowdpplWarning, DataError, ResultError
from crowdppl.networks.classifier import learns, outputs
from crowdppl.primitives.model import Model, card_of
from crowdppl.primitives.plates import Data, block_of


def warn_of_no_features(stories: Mapping[str, Any], data: Annotations) -> None:
    """Warns of methods with networks, by their cards, where annotations hold nothing for networks to look at.

    Args:
        stories: methods by the names that the warning gives them.
        data: the annotations.

    Warns:
        CrowdpplWarning: with the names.
    """
    cards = {name: card_of(model) for name, model in stories.items()}
    blind = [name for name, card in cards.items() if card is not None and "features" in card.uses]
    if blind and data.features is None:
        text = f"{', '.join(blind)}: there are no features, so that no network learns; give features="
        warn(text, CrowdpplWarning)


def networks_of(model: Any) -> dict[str, nn.Module]:
    """The networks of a story by the attribute that holds each; ``network`` is the classifier.

    Those that a story calls ``standing`` have a say, and learn no more.
    """
    if hasattr(model, "standing"):
        return dict(model.standing)
    return {name: x for name, x in getattr(model, "__dict__", {}).items() if isinstance(x, nn.Module)}


def trained_networks(model: Any) -> dict[str, nn.Module]:
    """The networks of a story that are to learn: all, unless it calls them ``standing``."""
    return {} if hasattr(model, "standing") else networks_of(model)


def network_of(model: Any) -> nn.Module | None:
    """The classifier of a story, if it is to learn; None where there is none."""
    return trained_networks(model).get("network")


def state_of(network: nn.Module, keep_vars: bool = False) -> dict[str, Tensor]:
    """A network's state as files hold it: tensors by name.

    Args:
        network: any.
        keep_vars: as of ``torch.nn.Module.state_dict``.

    Raises:
        ResultError: when a part of it has extra state of another type.
    """
    found: dict[str, Any] = network.state_dict(keep_vars=keep_vars)
    for name, x in found.items():
        if not isinstance(x, Tensor):
            raise ResultError(
                f"the network's state {name!r} is {kind_of(x)}, and files hold tensors alone; let "
                "get_extra_state return a tensor, or leave it out"
            )
    return found


def network_output(data: Data, network: nn.Module | None, name: str = "network") -> Tensor | None:
    """What a network returns for each item: (N, ...); None without a network, or with nothing to look at.

    There is nothing to look at without features, and where tables of annotators are read off a fit
    (``Posterior.confusion``): these are for an item that nobody has seen, and say what the story says there. Where
    labels depend on what a network other than the classifier returns, they are averages over items of the fit.

    Where the network learns by gradients (``inference="svi"``, or Pyro's own SVI), its parameters enter Pyro's
    store, and the gradient flows through. Elsewhere it stands still. Under Pyro's own SVI, so does one without a
    weight that is to learn (``network.requires_grad_(False)``); ``fit`` leaves those alone that a story keeps in
    its mapping ``standing``, by name.

    Args:
        data: the story's argument.
        network: a module that maps a batch of features to a row an item.
        name: the story's attribute that holds it.

    Examples:
        >>> print(crowdppl.networks.network_output(crowdppl.anaesthetists(), None))
        None
    """
    block = block_of(data)
    if network is None or (block.seen is None and block.features is None):
        return None
    if block.seen is not None:
        found = block.seen[name]
    else:
        assert block.features is not None
        if learns(network):
            pyro.module(name, network)
        found = network(read_stored(block.features))
    return found.to(torch.get_default_dtype())


def class_logits(data: Data, network: nn.Module | None) -> Tensor:
    """What a network makes of each item: log-probabilities (N, K) of the classes.

    A story adds them to the log-probabilities of the truth. Where there is no network, or nothing to look at, all
    classes are as likely.

    Args:
        data: the story's argument.
        network: the story's classifier, kept as its attribute ``network``.

    Examples:
        >>> crowdppl.networks.class_logits(crowdppl.anaesthetists(), None)[0].exp()  # nothing to look at
        tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    block = block_of(data)
    found = network_output(data, network)
    if found is None:
        return torch.full((block.n_items, block.n_classes), -math.log(block.n_classes))
    return found.log_softmax(-1)


def cached_outputs(model: Model, blocks: list[Block]) -> list[Block]:
    """Blocks with what each network of the story returns for their items, as it stands."""
    found = networks_of(model)
    if not found:
        return blocks

    def one(block: Block) -> Block:
        assert block.features is not None, "a story with networks gives its blocks features"
        seen = {name: outputs(network, block.features).to(block.dtype) for name, network in found.items()}
        return replace(block, seen=seen)

    return [one(block) for block in blocks]


def rows_to_classify(features: Any, known: Any) -> tuple[pd.Index[Any], Features]:
    """Ids and rows of new items, seen to be as those of the fit, and finite as far as they are read."""
    wanted = () if known is None else tuple(known.shape[1:])
    if is_dataset(features):
        stored = (
            features
            if isinstance(features, StoredFeatures)
            else StoredFeatures.of(features, pd.RangeIndex(len(features)))
        )
        stored = stored if len(stored) else replace(stored, row_shape=wanted)
        if stored.row_shape != wanted:
            raise DataError(f"the dataset of features has rows {stored.row_shape}; the fit's were {wanted}")
        return stored.ids, stored
    if isinstance(features, pd.DataFrame):
        named = in_columns(features, known.columns) if isinstance(known, pd.DataFrame) else features
        index, values = features.index, numbers_of(plain_table(named))
    else:
        values = plain_array(features)
        index = pd.RangeIndex(len(values) if values.ndim else 0)
    if values.shape[1:] != wanted or not values.ndim:
        raise DataError(f"features of {values.dtype} and shape {values.shape}; one row an item of {wanted} numbers")
    require_finite(values, index)
    return index, torch.from_numpy(np.array(values, np.float32))
