"""Labels that each have a confusion matrix of their own, as where it depends on item and annotator."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from crowdppl.plates import Data, block_of


def each_label(rows: Tensor) -> Callable[[Tensor], Tensor]:
    """How labels come out of the truth when each has a matrix of its own: what ``annotate`` takes for ``log_p``.

    Args:
        rows: (..., S, K, K) log p(class given | truth) of each label.

    Examples:
        >>> import torch
        >>> rows = torch.tensor([[[0.9, 0.1], [0.4, 0.6]]]).log()
        >>> crowdppl.each_label(rows)(torch.tensor([1])).exp()
        tensor([[0.1000, 0.6000]])
    """

    def table(answer: Tensor) -> Tensor:
        return rows.gather(-1, answer[:, None, None].expand(*rows.shape[:-1], 1)).squeeze(-1)

    return table


def weighed_labels(data: Data, log_p: Tensor, rows: Tensor, weight: Tensor) -> Callable[[Tensor], Tensor]:
    """The same with a truth for each label alone, summed out, and a power of its probability.

    A label adds ``weight[a] * log(sum over k of p[i, k] exp(rows[s, k, label]))``, whatever the truth of the item.
    It is a loss to learn by, and no probability.

    Args:
        data: the story's argument.
        log_p: (N, K) log-probabilities of the truth; what is known of it otherwise is added.
        rows: (S, K, K) log p(class given | truth) of each label.
        weight: (A,) of annotators.

    Examples:
        >>> import torch
        >>> data = crowdppl.anaesthetists()  # 45 items, 5 annotators, 4 classes
        >>> even, rows = torch.full((45, 4), 0.25).log(), (0.4 * torch.eye(4) + 0.15).log()
        >>> weight = torch.tensor([2.0, 1.0, 1.0, 1.0, 0.0])
        >>> table = crowdppl.weighed_labels(data, even, rows.expand(data.n_labels, 4, 4), weight)
        >>> x = table(data.as_block().answer)[:, 0].exp()
        >>> sorted({round(float(p), 4) for p in x})  # a quarter to the power of the annotator's weight
        [0.0625, 0.25, 1.0]
    """
    block, given = block_of(data), each_label(rows)
    known = log_p if block.potential is None else (log_p + block.potential.to(log_p.dtype)).log_softmax(-1)
    each, power = block.of_item(known, event_dim=1), block.of_annotator(weight)

    def table(answer: Tensor) -> Tensor:
        total = torch.logsumexp(each + given(answer), -1)
        return (power * total).unsqueeze(-1).expand(*each.shape)

    return table


def apart_weights(embedding: Tensor, scale: Tensor | None) -> Tensor:
    """Weights of annotators, the less the more of them are alike (Herde, Huseljic & Sick 2023, equations 21 to 23).

    In proportion to ``1 / sum over b of exp(-scale |v[a] - v[b]|^2)``, and 1 on average.

    Args:
        embedding: v, (A, Q).
        scale: from which distance on annotators are apart; None gives each 1.

    Returns:
        (A,).

    Examples:
        >>> import torch
        >>> crowdppl.apart_weights(torch.tensor([[0.0], [0.0], [9.0]]), torch.tensor(1.0))
        tensor([0.7500, 0.7500, 1.5000])
    """
    if scale is None:
        return torch.ones(len(embedding), dtype=embedding.dtype, device=embedding.device)
    weight = 1 / (-scale * torch.cdist(embedding, embedding).square()).exp().sum(-1)
    return weight / weight.mean()
