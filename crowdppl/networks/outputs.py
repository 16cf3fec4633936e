"""Outputs of the networks of a model, for items of the data and for new ones."""

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


def warn_of_no_features(models: Mapping[str, Any], data: Annotations) -> None:
    """Warns where methods, by name, use features by their cards, and annotations have none."""
    cards = {name: card_of(model) for name, model in models.items()}
    names = [name for name, card in cards.items() if card is not None and "features" in card.uses]
    if names and data.features is None:
        warn(
            f"{', '.join(names)}: there are no features, so that no network learns; give features=", CrowdpplWarning
        )


def networks_of(model: Any) -> dict[str, nn.Module]:
    """The networks of a model by attribute, ``network`` the classifier; those of ``standing`` learn no more."""
    if hasattr(model, "standing"):
        return dict(model.standing)
    return {name: x for name, x in getattr(model, "__dict__", {}).items() if isinstance(x, nn.Module)}


def trained_networks(model: Any) -> dict[str, nn.Module]:
    """The networks of a model that are to learn: all, unless they are ``standing``."""
    return {} if hasattr(model, "standing") else networks_of(model)


def network_of(model: Any) -> nn.Module | None:
    """The classifier of a model, if it is to learn; None where there is none."""
    return trained_networks(model).get("network")


def state_of(network: nn.Module, keep_vars: bool = False) -> dict[str, Tensor]:
    """A network's state, tensors by name, as files hold it; ResultError when part of it is something else."""
    found: dict[str, Any] = network.state_dict(keep_vars=keep_vars)
    for name, x in found.items():
        if not isinstance(x, Tensor):
            raise ResultError(
                f"the network's state {name!r} is {kind_of(x)}, and files hold tensors alone; let get_extra_state "
                "return a tensor (a classifier of scikit-learn is held by no file: keep its tables)"
            )
    return found


def network_output(data: Data, network: nn.Module | None, name: str = "network") -> Tensor | None:
    """The output (N, ...) of a network for each item; None without a network, or without features.

    Tables of annotators (``Posterior.confusion``) belong to no item and are computed without features. Where labels
    depend on a network other than the classifier, they are averages over the items of the fit.

    Under svi and Pyro's own SVI the network's parameters enter Pyro's store and the gradient flows through;
    elsewhere the network is constant, and so is, under Pyro's own SVI, one without a weight that is to learn.
    ``fit`` does not train the networks of a model's mapping ``standing``.

    Args:
        data: the model's argument.
        network: maps a batch of features to a row per item.
        name: the model's attribute that holds it.

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
    """Log-probabilities (N, K) of the classes by a classifier; even without a network, or without features.

    Args:
        data: the model's argument.
        network: the model's classifier, kept as its attribute ``network``.

    Examples:
        >>> crowdppl.networks.class_logits(crowdppl.anaesthetists(), None)[0].exp()
        tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    block = block_of(data)
    found = network_output(data, network)
    if found is None:
        return torch.full((block.n_items, block.n_classes), -math.log(block.n_classes))
    return found.log_softmax(-1)


def cached_outputs(model: Model, blocks: list[Block]) -> list[Block]:
    """Blocks with the outputs of each network of the model; DataError for one where data have no features."""
    found = networks_of(model)
    if not found:
        return blocks
    cached = []
    for block in blocks:
        if block.features is None:
            raise DataError("the method has a network, but the data have no features; give features=")
        seen = {name: outputs(network, block.features).to(block.dtype) for name, network in found.items()}
        cached.append(replace(block, seen=seen))
    return cached


def rows_to_classify(features: Any, known: Any) -> tuple[pd.Index[Any], Features]:
    """Ids and rows of new items; DataError when of another shape than the fit's, or read and not finite."""
    wanted = () if known is None else tuple(known.shape[1:])
    if is_dataset(features):
        stored = features
        if not isinstance(stored, StoredFeatures):
            stored = StoredFeatures.of(features, pd.RangeIndex(len(features)))
        stored = stored if len(stored) else replace(stored, row_shape=wanted)
        if stored.row_shape != wanted:
            raise DataError(f"the dataset of features has rows {stored.row_shape}; the fit's were {wanted}")
        return stored.ids, stored
    if isinstance(features, pd.DataFrame):
        table = in_columns(features, known.columns) if isinstance(known, pd.DataFrame) else features
        index, values = features.index, numbers_of(plain_table(table))
    else:
        values = plain_array(features)
        index = pd.RangeIndex(len(values) if values.ndim else 0)
    if values.shape[1:] != wanted or not values.ndim:
        raise DataError(f"features of {values.dtype} and shape {values.shape}; one row an item of {wanted} numbers")
    require_finite(values, index, features)
    return index, torch.from_numpy(np.array(values, np.float32))
