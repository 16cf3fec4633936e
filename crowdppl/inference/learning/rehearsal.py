"""What a network is asked before it learns: whether it can, from batches of the size that there will be."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from crowdppl.data.stored_features import Features, read
from crowdppl.errors import DataError, MethodError
from crowdppl.networks.network import Network, learns, outputs


def batch_sizes(n_items: int, size: int) -> list[int]:
    """Items of each batch of an epoch; a last one alone joins the batch before, for no layer can norm it.

    Args:
        n_items: that are to be learned from.
        size: of a batch.

    Raises:
        DataError: when there are none.
    """
    if not n_items:
        raise DataError(
            "no label tells of a truth, and none is known, so that networks have nothing to learn from; give "
            "labels, or leave the network out"
        )
    whole, rest = divmod(n_items, size)
    sizes = [size] * whole + [rest] * (rest > 0)
    if rest == 1 and whole:
        sizes[-2:] = [size + 1]
    return sizes


def rehearse(network: nn.Module, name: str, features: Features, size: int) -> None:
    """Asks a network that was given, while it is set to learn, for as many items as the smallest batch holds.

    Nothing is learned, and what such an asking moves (running means, random numbers) is put back.

    Args:
        network: features to a row an item.
        name: the story's attribute that holds it, for messages.
        features: (N, ...).
        size: items of the smallest batch.

    Raises:
        MethodError: when it fails, or returns something else than a standing network does, or what its weights
            cannot learn from; when its buffers change in number or shape.
        DataError: when the features cannot be read.
    """
    if not learns(network) or (isinstance(network, Network) and network.default):
        return
    some = read(features[:size])
    shape = outputs(network, some).shape
    before = {key: x.clone() for key, x in network.named_buffers()}
    was = network.training
    network.train()
    try:
        with torch.enable_grad(), torch.random.fork_rng():
            found = network(some)
    except DataError:
        raise
    except Exception as error:  # a user's network may raise anything
        raise MethodError(
            f"{name} cannot learn from a batch of {len(some)}, though it can be asked (in train mode): {error}; "
            "give training another batch_size, or another network"
        ) from error
    finally:
        network.train(was)
        same = _put_back(network, before)
    if not same:
        raise MethodError(
            f"{name} has buffers that change in number or shape while it learns, and could not be put back; "
            "register all of them when it is made, in the shapes that they keep"
        )
    got = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
    if got != tuple(shape):
        raise MethodError(
            f"{name} returns {got} for {len(some)} items while it learns (in train mode), and {tuple(shape)} when "
            "it is asked; it must return one shape"
        )
    require_reached(network, name, found)


def require_reached(network: nn.Module, name: str, found: Tensor) -> None:
    """Refuses what a network returns, where gradients were asked for, if they reach none of its weights.

    Raises:
        MethodError: unless all its weights are frozen.
    """
    if not found.requires_grad and learns(network.body if isinstance(network, Network) else network):
        raise MethodError(
            f"what {name} returns hangs on none of its weights that are to learn: let gradients through (no "
            "detach, no torch.no_grad, no whole numbers), or freeze all of them (requires_grad_(False))"
        )


@torch.no_grad()
def _put_back(network: nn.Module, before: Mapping[str, Tensor]) -> bool:
    """Whether the buffers are still of one kind; they are then as they were."""
    after = dict(network.named_buffers())
    same = after.keys() == before.keys() and all(x.shape == before[key].shape for key, x in after.items())
    for key, x in after.items() if same else ():
        x.copy_(before[key])
    return same
