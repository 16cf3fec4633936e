"""Labels of an item that follow shares of its own: the shares integrated out, or drawn."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from crowdppl.data.blocks import Block
from crowdppl.plates import Data, block_of


def log_urn(data: Data, spread: float) -> Tensor:
    """Log-probability of all labels of each item, if they follow unknown shares of the classes: (N,).

    The shares are drawn from a symmetric Dirichlet and integrated out (Polya's urn), so that labels of an item make
    one another more probable: ``prod_k Gamma(c + n_k) / Gamma(c) * Gamma(K c) / Gamma(K c + n)`` for n_k labels of
    class k, n in all. Abstentions do not count.

    Args:
        data: the story's argument.
        spread: c, pseudo-counts of each class.

    Examples:
        >>> labels = {"ann": {"x": "a", "y": "a", "z": "b"}, "bob": {"x": "a", "y": "b", "z": "b"}}
        >>> data = crowdppl.Annotations.from_dicts(labels)
        >>> crowdppl.log_urn(data, 1.0).exp()  # labels that are alike are more probable
        tensor([0.3333, 0.3333, 0.1667])
    """
    block = block_of(data)
    k, given = block.n_classes, block.answer < block.n_classes
    cell = (block.item * k + block.answer)[given]
    n = torch.bincount(cell, minlength=block.n_items * k).reshape(-1, k)
    total = n.sum(-1)
    counts = torch.arange(int(total.max()) + 1 if len(total) else 1, device=block.device)
    return _rising(spread, counts)[n].sum(-1) - _rising(k * spread, counts)[total]


def with_urn(
    data: Data, log_rate: Tensor, table: Tensor, spread: float, power: float = 1.0
) -> tuple[Tensor, Tensor | Callable[[Tensor], Tensor]]:
    """Lets labels of an item in the last state follow shares of the item's own.

    Labels of an urn depend on one another, so that the urn weighs the item's state and not its labels; where labels
    are still to be drawn, shares are drawn first.

    Args:
        data: the story's argument.
        log_rate: (..., 2) log-probabilities of another state and of the last.
        table: (..., A, T, L) log p(answer | annotator, state), in the last state 0 for every class.
        spread: as for ``log_urn``.
        power: of the labels' likelihood, as ``annotate`` takes it: an urn's labels count for less, too.

    Returns:
        Log-weights (..., N, 2) of another state and of the last, and what ``annotate`` takes as ``log_p``.

    Examples:
        >>> import torch
        >>> data = crowdppl.anaesthetists()
        >>> rate, table = torch.tensor([0.9, 0.1]).log(), torch.zeros(5, 2, 4)
        >>> crowdppl.with_urn(data, rate, table, 1.0)[0].shape  # of each item: another state, or the urn
        torch.Size([45, 2])
    """
    block = block_of(data)
    if block.observed:
        urn = log_urn(block, spread) * (power if block.tempered else 1.0)
        return log_rate + torch.stack([torch.zeros_like(urn), urn], -1), table
    even = spread * torch.ones(block.n_classes, device=block.device)
    shares = torch.distributions.Dirichlet(even).sample((block.n_items,))
    return log_rate, _drawn(block, table, shares.log())


def _drawn(block: Block, table: Tensor, log_shares: Tensor) -> Callable[[Tensor], Tensor]:
    """Labels given shares (N, K) of each item in the last state."""

    def log_label(answer: Tensor) -> Tensor:
        each = block.of_annotator(table, event_dim=2)
        given = each.gather(-1, answer[:, None, None].expand(*each.shape[:-1], 1)).squeeze(-1)
        some = answer.clamp(max=block.n_classes - 1).unsqueeze(-1)
        own = block.of_item(log_shares, event_dim=1).gather(-1, some)
        own = torch.where(answer.unsqueeze(-1) < block.n_classes, own, torch.zeros_like(own))
        return torch.cat([given[..., :-1], given[..., -1:] + own], -1)

    return log_label


def _rising(c: float, n: Tensor) -> Tensor:
    """Log of c (c + 1) ... (c + n - 1)."""
    start = torch.as_tensor(c, dtype=torch.get_default_dtype(), device=n.device)
    return torch.lgamma(start + n) - torch.lgamma(start)
