"""Departures of single labels from what a classifier and a confusion matrix lead one to expect."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from crowdppl.plates import Data, block_of
from crowdppl.stories.likelihood import penalty

LEAST = 1e-10
"""Smallest probability of a label, and what is added to a square before its root."""


def departed(
    data: Data, p: Tensor, confusion: Tensor, shift: Tensor, weight: float = 0.01, power: float = 0.4
) -> Callable[[Tensor], Tensor]:
    """Labels that depart from what is expected of them, at a price (Nguyen, Ibrahim & Fu 2024, COINNet).

    Of an item with class probabilities p, label l of an annotator has probability
    ``sum over k of p[k] confusion[k, l] + e[l]``, kept between 1e-10 and 1 - 1e-10 and renormalised, where e is the
    label's shift with its mean taken off. It does not depend on the truth. The penalty ``outliers`` is the mean
    over items of ``(sum of e[l]^2 over the item's labels and classes + 1e-10)^(power / 2)``: with a small power,
    departures gather in few items.

    Args:
        data: the story's argument, or a minibatch of it.
        p: (N, K) probabilities of the truth of each item; what is known of it otherwise is added.
        confusion: (A, K, K).
        shift: (S, K), of each label of the whole data.
        weight: of the penalty, in units of a label's log-probability.
        power: of an item's norm.

    Returns:
        What ``annotate`` takes for ``log_p``.

    Examples:
        >>> import torch
        >>> data = crowdppl.anaesthetists()  # 45 items, 5 annotators, 4 classes
        >>> p, confusion = torch.full((45, 4), 0.25), torch.eye(4).expand(5, 4, 4)
        >>> shift = torch.tensor([0.4, 0.0, 0.0, 0.0]).expand(data.n_labels, 4)  # .3 and -.1 around their mean
        >>> log_p = crowdppl.departed(data, p, confusion, shift)(torch.zeros(data.n_labels, dtype=torch.int64))
        >>> log_p[0].exp()
        tensor([0.5500, 0.5500, 0.5500, 0.5500])
    """
    block = block_of(data)
    shift = shift if block.entries is None else shift[block.entries]
    e = shift - shift.mean(-1, keepdim=True)
    square = e.new_zeros(block.n_items).index_add(0, block.item, e.square().sum(-1))
    penalty(block, "outliers", weight * (square + LEAST).pow(power / 2).mean())
    known = p if block.potential is None else (p.log() + block.potential.to(p.dtype)).softmax(-1)
    own, each = block.of_annotator(confusion, event_dim=2), block.of_item(known, event_dim=1)
    share = ((each.unsqueeze(-2) @ own).squeeze(-2) + e).clamp(LEAST, 1 - LEAST)
    log_p = (share / share.sum(-1, keepdim=True)).log()

    def table(answer: Tensor) -> Tensor:
        return log_p.gather(-1, answer.unsqueeze(-1)).expand(*log_p.shape)

    return table
