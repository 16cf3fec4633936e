"""Labels whose confusion is a softmax that items sharpen or flatten, in one pass over the labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crowdppl.primitives.plates import Data, block_of

PIECE = 200_000
"""Numbers of labels that a pass treats together on the CPU, so that they stay in its cache."""


def sharpened(data: Data, logits: Tensor, sharpness: Tensor) -> Callable[[Tensor], Tensor]:
    """Labels with the confusion ``softmax(logits[a, t] * sharpness[i])``, as ``annotate`` takes them for ``log_p``.

    Args:
        data: the model's argument.
        logits: (..., A, T, L), of label given truth.
        sharpness: (..., N), positive; 1 keeps an annotator's confusion, less makes it flatter.

    Examples:
        >>> import torch
        >>> design = crowdppl.random_design(1, 2, 2, classes=["no", "yes"], seed=0)
        >>> logits = torch.tensor([[0.8, 0.2], [0.4, 0.6]]).log().expand(2, 2, 2)  # of two annotators
        >>> labels = crowdppl.primitives.sharpened(design, logits, torch.tensor([2.0]))
        >>> labels(torch.tensor([1, 0])).exp()  # "yes" and "no", at each truth
        tensor([[0.0588, 0.6923],
                [0.9412, 0.3077]])
    """
    block = block_of(data)

    def table(answer: Tensor) -> Tensor:
        lead, states = np.broadcast_shapes(logits.shape[:-3], sharpness.shape[:-1]), logits.shape[-2:]
        dtype = torch.promote_types(logits.dtype, sharpness.dtype)
        below = (logits - logits.detach().amax(-1, keepdim=True)).to(dtype)  # whose exponentials cannot overflow
        rows = below.expand(*lead, *logits.shape[-3:]).movedim((-3, -1), (0, 1)).flatten(2).contiguous()
        # rows (A, L, leads * T) and scales (S, leads)
        each = block.of_item(sharpness.to(dtype)).expand(*lead, -1).reshape(math.prod(lead), block.n_labels).t()
        bags = block.by_annotator
        out: Tensor = _Sharpened.apply(rows, each, answer, bags.cells, bags.rows)  # type: ignore[no-untyped-call]
        return out.reshape(block.n_labels, *lead, states[0]).movedim(0, -2)

    return table


class _Sharpened(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, scale: Tensor, answer: Tensor, owner: Tensor, order: Tensor) -> Tensor:
        """Of rows (A, L, W * T), scales (S, W), answers and annotators (S,): (S, W * T).

        ``order`` sorts labels by annotator, whose rows then stay in the cache.
        """
        out: Tensor
        out, *saved = torch.ops.crowdppl.sharpened(rows, scale, answer, owner, order)
        ctx.save_for_backward(rows, scale, answer, owner, order, *saved)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        rows, scale, answer, owner, order, *saved = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative: the first must depend on rows and scales again
            x = rows[owner] * (scale @ _spread(rows, scale)).unsqueeze(1)
            out = x[torch.arange(len(x), device=x.device), answer] - x.logsumexp(1)
            asked = [x for x, needed in zip((rows, scale), ctx.needs_input_grad[:2], strict=True) if needed]
            slopes = iter(torch.autograd.grad(out, asked, grads[0], create_graph=True))
            found = tuple(next(slopes) if needed else None for needed in ctx.needs_input_grad[:2])
        else:
            found = torch.ops.crowdppl.sharpened_backward(grads[0], rows, scale, answer, owner, order, *saved)
        return *found, None, None, None


def _spread(rows: Tensor, scale: Tensor) -> Tensor:
    """A matrix (W, W * T) that gives each state its scale: a product is quicker than copies of few numbers."""
    w = scale.shape[-1]
    return torch.eye(w, dtype=rows.dtype, device=rows.device).repeat_interleave(rows.shape[-1] // w, 1)


def _pieces(rows: Tensor, n: int) -> Iterator[tuple[slice, Tensor]]:
    """Places of n labels in pieces that are treated together, and room for the terms of each, (., L, W * T)."""
    size = max(1, n if rows.is_cuda else min(n, PIECE // max(1, rows[:1].numel())))
    room = rows.new_empty(size, *rows.shape[1:])
    for start in range(0, n, size):
        yield slice(start, start + size), room[: n - start]


def _by_annotator(
    rows: Tensor, scale: Tensor, answer: Tensor, owner: Tensor, order: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Of labels sorted by annotator, their scales, annotators, and rows of (A * L, W * T)."""
    mine = owner.index_select(0, order).long()
    return scale.index_select(0, order), mine, mine * rows.shape[1] + answer.index_select(0, order)


def _forward(
    rows: Tensor, scale: Tensor, answer: Tensor, owner: Tensor, order: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Log-probabilities (S, W * T); and sorted by annotator, the terms of each sum, these sums, and the slopes."""
    n, (n_answers, width), spread = len(owner), rows.shape[1:], _spread(rows, scale)
    sorted_scale, mine, named = _by_annotator(rows, scale, answer, owner, order)
    terms, total, slope, log_p = (rows.new_empty(n, *size, width) for size in ((n_answers,), (), (), ()))
    flat = rows.reshape(-1, width)
    for at, room in _pieces(rows, n):
        wide, own = sorted_scale[at] @ spread, flat.index_select(0, named[at])
        x = torch.index_select(rows, 0, mine[at], out=room).mul_(wide.unsqueeze(1))
        each, own = torch.exp(x, out=terms[at]), own.mul_(wide)
        sums = torch.sum(each, 1, out=total[at])
        torch.sub(own, sums.log(), out=log_p[at])
        torch.sub(own, x.mul_(each).sum(1).div_(sums), out=slope[at]).div_(wide)
    return log_p.index_select(0, _inverse(order)), terms, total, slope


def _backward(
    grad: Tensor,
    rows: Tensor,
    scale: Tensor,
    answer: Tensor,
    owner: Tensor,
    order: Tensor,
    terms: Tensor,
    total: Tensor,
    slope: Tensor,
) -> tuple[Tensor, Tensor]:
    """Gradients by rows and scales, from that by the log-probabilities."""
    spread, by_rows, given = _spread(rows, scale), torch.zeros_like(rows), grad.index_select(0, order)
    sorted_scale, mine, named = _by_annotator(rows, scale, answer, owner, order)
    by_scale = (slope * given) @ spread.t()
    for at, room in _pieces(rows, len(owner)):
        one = given[at].mul_(sorted_scale[at] @ spread)
        by_rows.view(-1, rows.shape[-1]).index_add_(0, named[at], one)
        each = torch.mul(terms[at], one.div_(total[at]).unsqueeze(1), out=room)
        by_rows.index_add_(0, mine[at], each, alpha=-1)
    return by_rows, by_scale.index_select(0, _inverse(order))


def _inverse(order: Tensor) -> Tensor:
    """The place of each label in an order of labels."""
    places = torch.arange(len(order), device=order.device)
    return torch.empty_like(places).index_copy_(0, order.long(), places)


# Operations of torch, so that recordings of a pass have each as one step.
_LIBRARY = torch.library.Library("crowdppl", "FRAGMENT")
_GIVEN = "Tensor rows, Tensor scale, Tensor answer, Tensor owner, Tensor order"
_LIBRARY.define(f"sharpened({_GIVEN}) -> (Tensor, Tensor, Tensor, Tensor)")
_LIBRARY.impl("sharpened", _forward, "CompositeExplicitAutograd")
_LIBRARY.define(
    f"sharpened_backward(Tensor grad, {_GIVEN}, Tensor terms, Tensor total, Tensor slope) -> (Tensor, Tensor)"
)
_LIBRARY.impl("sharpened_backward", _backward, "CompositeExplicitAutograd")
