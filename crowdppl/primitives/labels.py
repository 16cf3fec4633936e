"""The labels of a block as one distribution, by kind of label."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from pyro.distributions import TorchDistribution, constraints
from torch import Tensor

from crowdppl.data.blocks import Block
from crowdppl.data.ragged import RaggedIndex, flip, ragged_sum
from crowdppl.errors import MethodError
from crowdppl.primitives.distributions import pick


def each_label(rows: Tensor) -> Callable[[Tensor], Tensor]:
    """Labels with a confusion matrix each, as ``annotate`` takes them for ``log_p``.

    Args:
        rows: (..., S, K, K) log p(class given | truth) of each label.

    Examples:
        >>> import torch
        >>> rows = torch.tensor([[[0.9, 0.1], [0.4, 0.6]]]).log()
        >>> crowdppl.primitives.each_label(rows)(torch.tensor([1])).exp()
        tensor([[0.1000, 0.6000]])
    """

    def table(answer: Tensor) -> Tensor:
        return rows.gather(-1, answer[:, None, None].expand(*rows.shape[:-1], 1)).squeeze(-1)

    return table


@dataclass(frozen=True)
class Coin:
    """Log-probabilities of a right and a wrong label, label by label; a wrong label is any other class evenly.

    Args:
        log_right, log_wrong: (..., S), not depending on the truth; ``log_wrong`` is the total of all errors.

    Examples:
        >>> import torch
        >>> p = torch.tensor([0.9, 0.6])  # of two labels
        >>> crowdppl.primitives.Coin(log_right=p.log(), log_wrong=(1 - p).log()).log_wrong.exp()
        tensor([0.1000, 0.4000])
    """

    log_right: Tensor
    log_wrong: Tensor


PerLabel = Callable[[Tensor], Tensor]
Table = Tensor | Coin | PerLabel


class Labels(TorchDistribution):
    """All labels of a block as one distribution, of which each kind of label is a subclass.

    The batch is the plate of items (or of groups and items, or of labels); the value has an entry a label.

    Args:
        block: who labelled what.
        plates: sizes of the plates of the batch.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    within = "item"
    power = 1.0
    weight: Tensor | None = None

    def __init__(self, block: Block, plates: tuple[int, ...]) -> None:
        self.block, self.plates = block, plates
        super().__init__(torch.Size(plates), validate_args=False)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        """The same labels over a larger batch (chains), without copying them."""
        out = copy(self)
        TorchDistribution.__init__(out, torch.Size(batch_shape), validate_args=False)
        return out


class NumberLabels(Labels):
    """Labels that are numbers, whose item's truth is a number, too, and is integrated out.

    A subclass has ``log_prob(value)``, (..., n_items), in which the integral over the truth bears the name
    ``truth`` (``neg_log(..., name="truth")``), and ``draw()``, which returns truths (n_items,) and labels (S,).

    Attributes:
        truth: name of the integral over the truth.
        positive: whether truths are positive.
        drawn: the truths of the last draw; None before.
    """

    support = constraints.real
    truth: ClassVar[str] = "truth"
    positive: ClassVar[bool] = False
    drawn: Tensor | None = None

    def __init__(self, block: Block) -> None:
        super().__init__(block, (block.n_items,))

    def draw(self) -> tuple[Tensor, Tensor]:
        """Truths (n_items,), and labels (S,) given them."""
        raise NotImplementedError

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws every label of the design, (S,); MethodError for several draws at once."""
        if len(sample_shape) or len(self.batch_shape) > 1:
            raise MethodError("labels are drawn one data set at a time; call crowdppl.simulate in a loop")
        self.drawn, out = self.draw()
        return out


class CategoricalLabels(Labels):
    """Classes and abstentions, given a discrete state such as the truth.

    The value is ragged: int32 (S,), the table cell ``annotator * n_answers + answer`` of each label.

    Args:
        block: who labelled what.
        log_p: a table (..., A, T, L), a ``Coin``, or a callable that maps answers (S,) to (..., S, T).
        state: the state on which labels depend, enumerated or drawn.
        within: "item" (one state an item, or a group's item) or "label" (a state of its own for each label).
        groups: the group of each annotator where states belong to (group, item).
        power: of the likelihood of observed labels; it does not change how labels are drawn.
        context: of each label, (S,): which confusion of a table (..., A, X, T, L) it follows.
        weight: of each label, (S,): a power of its own.
    """

    support = constraints.nonnegative_integer

    def __init__(
        self,
        block: Block,
        log_p: Table,
        state: Tensor,
        *,
        within: str = "item",
        groups: tuple[int, ...] | None = None,
        power: float = 1.0,
        context: Tensor | None = None,
        weight: Tensor | None = None,
    ) -> None:
        self.log_p, self.state, self.power = log_p, state, power
        self.within, self.groups, self.context, self.weight = within, groups, context, weight
        self.n_contexts = 1 if context is None else _contexts_of(log_p, block)
        self.viewed = block.in_contexts(context, self.n_contexts, weight)
        if within == "label":
            plates: tuple[int, ...] = (block.n_labels,)
        else:
            plates = (block.n_items,) if groups is None else (max(groups) + 1, block.n_items)
        super().__init__(block, plates)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-probability of each item's labels given the state, times ``power``: (*enumerated, *batch)."""
        block = self.viewed
        if value is not self.block.bags.cells:
            cells = block.annotator * block.n_answers + value % block.n_answers
            block = block.recoded(cells, block.n_annotators, self.weight)
        if isinstance(self.log_p, Tensor):
            sums, lead = self._from_table(block, self._table(self.log_p))
        elif isinstance(self.log_p, Coin):
            sums, lead = self._from_coin(block, self.log_p)
        else:
            sums, lead = self._from_callable(block, self.log_p(block.answer))
        if self.power != 1:
            sums = self.power * sums
        if self.groups is not None and lead:
            lead = lead[:-1]
        by_state = flip(sums).reshape((*lead, -1, *self.plates))
        return pick(by_state, self.state, len(self.batch_shape), dim=len(lead))

    def _rows(self, block: Block) -> RaggedIndex:
        """The labels of each row of the batch."""
        if self.within == "label":
            return block.per_label
        if self.groups is None:
            return block.bags
        return block.grouped(tuple(group for group in self.groups for _ in range(self.n_contexts)))

    def _table(self, log_p: Tensor) -> Tensor:
        """A table (..., A, X, T, L) with annotators in their contexts as annotators, (..., A * X, T, L)."""
        return log_p if self.context is None else log_p.flatten(-4, -3)

    def _from_table(self, block: Block, log_p: Tensor) -> tuple[Tensor, torch.Size]:
        """Rows x (leading dims, state), from the log-table (..., A, T, L)."""
        shape = (block.n_annotators, log_p.shape[-2], block.n_answers)
        if log_p.shape[-3:] != shape:
            raise MethodError(
                f"annotate: log_p has shape {tuple(log_p.shape)}, but the data need (..., annotators="
                f"{block.n_annotators}, states, answers={block.n_answers})"
            )
        wide = log_p.movedim((-3, -1), (0, 1)).reshape(shape[0] * shape[2], -1)
        return ragged_sum(wide, self._rows(block), _precision(block, log_p)), log_p.shape[:-3]

    def _from_callable(self, block: Block, values: Tensor) -> tuple[Tensor, torch.Size]:
        """Rows x (leading dims, state), from per-label potentials (..., S, T)."""
        lead, size = values.shape[:-2], values.shape[-2:]
        chains = math.prod(lead)  # not left to reshape: a minibatch of known truths may have no labels
        wide = values.reshape(chains, *size).permute(1, 0, 2).reshape(block.n_labels, chains * size[-1])
        wide = self._weighted(wide)
        if self.within == "label":
            return wide.to(_precision(block, values)), lead
        return ragged_sum(wide, block.per_item, _precision(block, values)), lead

    def _from_coin(self, block: Block, coin: Coin) -> tuple[Tensor, torch.Size]:
        """Rows x (leading dims, class): two sums over labels, whose cost does not depend on K."""
        n, k = block.n_items, block.n_classes
        wrong = coin.log_wrong - torch.log(torch.tensor(k - 1.0, device=block.device))
        lead = torch.broadcast_shapes(coin.log_right.shape, wrong.shape)[:-1]
        both = (
            x.expand(*lead, block.n_labels).reshape(math.prod(lead), block.n_labels).t()
            for x in (coin.log_right, wrong)
        )
        right, base = (self._weighted(block.only_classes(x)) for x in both)
        dtype = _precision(block, base)
        every = ragged_sum(base, block.per_item, dtype)
        extra = ragged_sum(right - base, block.by_class, dtype).reshape(n, k, -1)
        return (every.unsqueeze(-1) + extra.transpose(1, 2)).reshape(n, -1), lead

    def _weighted(self, x: Tensor) -> Tensor:
        """Log-probabilities (S, width) of labels, times their weights."""
        return x if self.weight is None else x * self.weight.to(x).unsqueeze(-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws every label of the design at a drawn state: int32 (S,) table cells.

        Raises:
            MethodError: for several draws at once, or an enumerated state.
        """
        if len(sample_shape) or self.state.dim() > len(self.plates):
            raise MethodError("labels are drawn one data set at a time; call crowdppl.simulate in a loop")
        block = self.block
        state = self.state.expand(self.plates).reshape(-1)[self._state_of_label()]
        if isinstance(self.log_p, Tensor):
            table = self._table(self.log_p)
            logits = table.reshape(table.shape[-3:])[self.viewed.annotator, state]
        else:
            one = (self._at_answer(block, answer, state) for answer in range(block.n_answers))
            logits = torch.stack(list(one), -1)
        answer: Tensor = torch.distributions.Categorical(logits=logits, validate_args=False).sample()
        return (block.annotator * block.n_answers + answer).int()

    def _state_of_label(self) -> Tensor:
        """Index (S,) of the state on which each label depends."""
        block = self.block
        if self.within == "label":
            return torch.arange(block.n_labels, device=block.device)
        if self.groups is None:
            return block.item
        group = torch.as_tensor(self.groups, device=block.device)
        return group[block.annotator] * block.n_items + block.item

    def _at_answer(self, block: Block, answer: int, state: Tensor) -> Tensor:
        """Log-potential of one answer for every label, (S,)."""
        if isinstance(self.log_p, Coin):
            wrong = self.log_p.log_wrong - torch.log(torch.tensor(block.n_classes - 1.0))
            given = torch.where(state == answer, self.log_p.log_right, wrong).reshape(-1)
            return given if answer < block.n_classes else torch.full_like(given, -torch.inf)
        assert not isinstance(self.log_p, Tensor)
        values = self.log_p(torch.full_like(block.annotator, answer))
        return values.reshape(values.shape[-2:]).gather(-1, state.unsqueeze(-1)).squeeze(-1)


def _contexts_of(log_p: Table, block: Block) -> int:
    """The number X of contexts of a table (..., A, X, T, L).

    Raises:
        MethodError: for anything else.
    """
    if not isinstance(log_p, Tensor):
        raise MethodError(
            "annotate: context= chooses from a table, and log_p is none; let the Coin or callable look at the "
            "label covariates itself"
        )
    if log_p.dim() < 4 or log_p.shape[-4] != block.n_annotators or log_p.shape[-1] != block.n_answers:
        raise MethodError(
            f"annotate: log_p has shape {tuple(log_p.shape)}, but with context= the data need (..., annotators="
            f"{block.n_annotators}, contexts, states, answers={block.n_answers})"
        )
    return log_p.shape[-3]


def _precision(block: Block, x: Tensor) -> torch.dtype:
    """The block's, but no finer than that of the terms, in which plain Pyro computes its other factors."""
    return block.dtype if x.dtype == torch.float64 else x.dtype
