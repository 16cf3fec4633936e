"""The labels of a block as one distribution, by kind of label."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import torch
from pyro.distributions import TorchDistribution, constraints
from torch import Tensor

from crowdppl.data.blocks import Block
from crowdppl.data.ragged import RaggedIndex, flip, gather, ragged_sum
from crowdppl.errors import MethodError
from crowdppl.primitives.distributions import pick
from crowdppl.primitives.sums import MANY, drawing, logsumexp


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


LARGE_TABLE = 500_000
"""Numbers from which on the table of annotators with coins is not formed."""


@dataclass(frozen=True)
class Coins:
    """Log-probabilities of annotators' answers, whose wrong ones depend on the answer alone, or the truth alone.

    They stand for a table, which grows with the square of the classes and is formed only where it is small. Where
    classes are the leaves of a tree, a wrong answer also depends on the lowest node that it shares with the truth.

    Args:
        log_right: (..., A, 1 or K), of each class where it is the truth.
        log_wrong: the same, of each class where another is the truth; ``by_truth``, of any other class.
        log_other: (..., A, W), of abstentions; None without.
        by_truth: whether wrong answers depend on the truth, and not on the answer.
        log_near: for each level of a tree, from the parents up, (..., A, 1 or K): of each class where the truth is
            another of its node there, and of no node below.
        nodes: for each of these levels, (K,): the number of each class's node.

    Examples:
        >>> import torch
        >>> p = torch.tensor([[0.8]])  # of one annotator
        >>> crowdppl.primitives.Coins(p.log(), ((1 - p) / 2).log()).table(3).exp()
        tensor([[[0.8000, 0.1000, 0.1000],
                 [0.1000, 0.8000, 0.1000],
                 [0.1000, 0.1000, 0.8000]]])
    """

    log_right: Tensor
    log_wrong: Tensor
    log_other: Tensor | None = None
    by_truth: bool = False
    log_near: tuple[Tensor, ...] = ()
    nodes: tuple[Tensor, ...] = ()

    def plus(self, given: Tensor, log_other: Tensor) -> Coins:
        """Of annotators who name a class with log-probability ``given``, (..., A, 1)."""
        near = tuple(x + given for x in self.log_near)
        return replace(
            self,
            log_right=self.log_right + given,
            log_wrong=self.log_wrong + given,
            log_other=log_other,
            log_near=near,
        )

    def table(self, n_classes: int) -> Tensor:
        """(..., A, K, L) log p(answer | annotator, truth)."""
        same = torch.eye(n_classes, dtype=torch.bool, device=self.log_right.device)
        classes = self.log_wrong.unsqueeze(-1 if self.by_truth else -2)
        for near, node in zip(self.log_near[::-1], self.nodes[::-1], strict=True):
            classes = torch.where(node.unsqueeze(-1) == node, near.unsqueeze(-2), classes)
        classes = torch.where(same, self.log_right.unsqueeze(-2), classes)
        if self.log_other is None:
            return classes
        other = self.log_other.unsqueeze(-2)
        lead = np.broadcast_shapes(classes.shape[:-1], other.shape[:-1])
        return torch.cat([classes.expand(*lead, -1), other.expand(*lead, -1)], -1)

    def by_label(self, block: Block) -> list[Tensor]:
        """Of each label of a block, (..., S): as if right, near at each level, and as if wrong.

        By truth, less what is of its class.
        """
        right, wrong = self.log_right, self.log_wrong
        if self.by_truth:
            right, wrong = right - wrong, torch.zeros_like(wrong)
        found = []
        for x in (right, *self.log_near, wrong):
            if self.log_other is None and x.shape[-1] == 1:
                found.append(block.of_annotator(x[..., 0]))
                continue
            every = x.expand(*x.shape[:-1], block.n_classes)
            if self.log_other is not None:
                lead = np.broadcast_shapes(every.shape[:-1], self.log_other.shape[:-1])
                every = torch.cat([every.expand(*lead, -1), self.log_other.expand(*lead, -1)], -1)
            found.append(gather(every.flatten(-2), block.per_label))
        return found


Table = Tensor | Coin | Coins | Callable[[Tensor], Tensor]


class Labels(TorchDistribution):
    """All labels of a block as one distribution, of which each kind of label is a subclass.

    The batch is the plate of items (or of groups and items, or of labels); the value has an entry a label.

    Args:
        block: who labelled what.
        plates: sizes of the plates of the batch.

    Attributes:
        linked: whether labels of one item tell of those of others, given the sites that items share.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    within = "item"
    linked = False
    power = 1.0
    weight: Tensor | None = None

    def __init__(self, block: Block, plates: tuple[int, ...]) -> None:
        self.block, self.plates = block, plates
        super().__init__(torch.Size(plates), validate_args=False)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        """These labels over a larger batch (chains), without copying them."""
        out = copy(self)
        TorchDistribution.__init__(out, torch.Size(batch_shape), validate_args=False)
        return out


class NumberLabels(Labels):
    """Labels that are numbers, or grades, whose item's truth is a number, too, and is integrated out.

    A subclass has ``log_prob(value)``, (..., n_items), in which the integral over the truth bears the name
    ``truth`` (``log_gamma(..., name="truth")``), and ``draw()``, which returns truths (n_items,) and labels (S,).
    Known truths, ``block.gold``, enter both, as in ``GaussianLabels``; where they do not, they are refused. With
    ``information()``, further labels can be suggested.

    Attributes:
        truth: name of the integral over the truth.
        origin: from where that integral counts truths, near all labels: squares of large numbers are rounded.
        graded: whether labels are classes all the same; ``value`` and what is drawn are then table cells.
        drawn: the truths of the last draw; None before.
        states: numbers that a pass holds of each label.
    """

    support = constraints.real
    truth: ClassVar[str] = "truth"
    graded: ClassVar[bool] = False
    origin: float = 0.0
    drawn: Tensor | None = None
    states = 1

    def __init__(self, block: Block) -> None:
        super().__init__(block, (block.n_items,))

    def draw(self) -> tuple[Tensor, Tensor]:
        """Truths (n_items,), and labels (S,) given them."""
        raise NotImplementedError

    def information(self, truth: Tensor, sd: Tensor) -> tuple[Tensor, Tensor] | None:
        """Fisher's, about the number around which an item's labels lie, of a label of each annotator.

        As two factors, (A, F) and (F, n_items), whose product it is; or None, where a subclass does not know.
        Truths are about ``truth``, (n_items,), give or take ``sd``.
        """
        return None

    def alike(self, precision: Tensor) -> tuple[Tensor, Tensor]:
        """These factors of information (A,) that is the same for all items."""
        return precision.unsqueeze(-1), torch.ones(1, self.block.n_items)

    def spread(self) -> Tensor:
        """The variance of truths around that number, by errors that labels of an item share, (..., n_items)."""
        return torch.zeros(self.block.n_items)

    def where_known(self, drawn: Tensor) -> Tensor:
        """Drawn truths (n_items,), with those that are known in place of what was drawn."""
        known = self.block.gold
        if known is None or not known.is_floating_point():  # a known grade is no number
            return drawn
        return torch.where(known.isnan(), drawn, known.to(drawn))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws every label of the design, (S,); MethodError for several draws at once."""
        if len(sample_shape) or len(self.batch_shape) > 1:
            raise MethodError("labels are drawn one data set at a time; call crowdppl.simulate in a loop")
        self.drawn, out = self.draw()
        return out


MEANT = "answer meant"
"""Name of the sum over the answer that an annotator means by each soft label."""


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
        small = not is_large(block) and block.named_classes is None
        if isinstance(log_p, Coins) and (small or block.soft is not None):
            log_p = log_p.table(block.n_classes)
        if block.weights is not None:
            weight = block.weights if weight is None else weight * block.weights
        self.n_contexts = 1 if context is None else _contexts_of(log_p, block)
        if context is not None and isinstance(log_p, Tensor):  # annotators in their contexts are as annotators
            log_p = log_p.flatten(-4, -3)
        self.log_p, self.state, self.power = log_p, state, power
        self.within, self.groups, self.context, self.weight = within, groups, context, weight
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
            block = replace(block.recoded(cells, block.n_annotators, self.weight), soft=None)
        if self._sparse:
            return self._of_named(block)
        if block.soft is not None:
            sums, lead = self._from_callable(block, self._of_soft(block, block.soft))
        elif isinstance(self.log_p, Tensor):
            sums, lead = self._from_table(block, self.log_p)
        elif isinstance(self.log_p, Coin | Coins):
            sums, lead = self._from_coin(block, self._by_label(block))
        else:
            sums, lead = self._from_callable(block, self.log_p(block.answer))
        if self.power != 1:
            sums = self.power * sums
        if self.groups is not None and lead:
            lead = lead[:-1]
        turned = sums.t() if sums.shape[1] > MANY and not drawing() else flip(sums)
        by_state = turned.reshape((*lead, -1, *self.plates))
        return pick(by_state, self.state, len(self.batch_shape), dim=len(lead))

    def _rows(self, block: Block) -> RaggedIndex:
        """The labels of each row of the batch."""
        if self.within == "label":
            return block.per_label
        if self.groups is None:
            return block.bags
        return block.grouped(tuple(group for group in self.groups for _ in range(self.n_contexts)))

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
        rows = block.per_item if self.groups is None else block.per_group(self.groups)
        return ragged_sum(wide, rows, _precision(block, values)), lead

    def _of_soft(self, block: Block, soft: Tensor) -> Tensor:
        """Log-probabilities of what is seen of each label; the answer that is meant is summed out: (..., S, T)."""
        if isinstance(self.log_p, Tensor):
            given = block.of_annotator(self.log_p, event_dim=2)
        else:
            answers = (torch.full_like(block.annotator, answer) for answer in range(block.n_answers))
            given = torch.stack([self._of_answer(block, answer) for answer in answers], -1)
        return logsumexp(given + soft.to(given.dtype).unsqueeze(-2), name=MEANT)

    def _of_answer(self, block: Block, answer: Tensor) -> Tensor:
        """Log-probabilities of one answer (S,) to each label, (..., S, T), where no table gives them."""
        if not isinstance(self.log_p, Coin):
            assert not isinstance(self.log_p, Tensor | Coins)
            return self.log_p(answer)
        right, wrong = self.log_p.log_right.unsqueeze(-1), self.log_p.log_wrong.unsqueeze(-1)
        same = torch.arange(block.n_classes, device=block.device) == answer.unsqueeze(-1)
        given = torch.where(same, right, wrong - _log_others(block))
        return given * (answer < block.n_classes).unsqueeze(-1)  # which says nothing of abstentions

    @property
    def _sparse(self) -> bool:
        """Whether the state is summed out over the classes named of each item, and any other."""
        named, summed = self.block.named_classes, self.state.dim() > len(self.batch_shape)
        return wrong_is_alike(self.log_p) and named is not None and summed and len(self.state) == len(named) + 1

    def _by_label(self, block: Block) -> list[Tensor]:
        """Log-probabilities of each label where it is right, near at each level and wrong, (..., S)."""
        if isinstance(self.log_p, Coins):
            return self.log_p.by_label(block)
        assert isinstance(self.log_p, Coin)
        return [self.log_p.log_right, self.log_p.log_wrong - _log_others(block)]

    def _sums(self, block: Block, values: list[Tensor]) -> tuple[Tensor, list[Tensor], torch.Size]:
        """Of each item as if all its labels were wrong, and what each adds if it is nearer, (., leading dims).

        Of the latter the last is of the outermost node that it shares with the truth, the first of its class.
        """
        lead = torch.Size(np.broadcast_shapes(*(x.shape for x in values))[:-1])
        flat = [x.expand(*lead, block.n_labels).reshape(math.prod(lead), block.n_labels).t() for x in values]
        if isinstance(self.log_p, Coin):  # which says nothing of abstentions
            flat = [block.only_classes(x) for x in flat]
        flat = [self._weighted(x) for x in flat]
        nearer = [one - other for one, other in pairwise(flat)]
        return ragged_sum(flat[-1], block.per_item, _precision(block, flat[-1])), nearer, lead

    def _from_coin(self, block: Block, values: list[Tensor]) -> tuple[Tensor, torch.Size]:
        """Rows x (leading dims, class): sums over labels, whose cost does not depend on K."""
        every, (extra, *near), lead = self._sums(block, values)
        if isinstance(self.log_p, Coins) and self.log_p.by_truth:
            return self._by_truth(block, self.log_p, every, extra), lead
        extra = ragged_sum(extra, block.by_class, every.dtype).reshape(block.n_items, block.n_classes, -1)
        sums = every.unsqueeze(-1) + extra.transpose(1, 2)
        if isinstance(self.log_p, Coins):
            for one, node in zip(near, self.log_p.nodes, strict=True):
                sums = sums + _by_node(block, one.to(every.dtype), node)
        return sums.reshape(block.n_items, -1), lead

    def _by_truth(self, block: Block, coins: Coins, every: Tensor, extra: Tensor) -> Tensor:
        """Sums by item and class; wrong labels depend on the truth, which ``every`` and ``extra`` leave out."""
        wide, k = coins.log_wrong.movedim(-2, 0), block.n_classes
        sums = ragged_sum(wide.expand(*wide.shape[:-1], k).flatten(1), block.raters, every.dtype)
        if coins.log_other is not None:
            sums = sums + every.repeat_interleave(k, 1)
        named = block.answer.clamp(max=k - 1).unsqueeze(1) + k * torch.arange(extra.shape[1], device=block.device)
        # In place, for it is as large as items times classes; of abstentions, nothing is added.
        return sums.index_put_((block.item.unsqueeze(1), named), extra.to(sums), accumulate=True)

    def _of_named(self, block: Block) -> Tensor:
        """Log-probabilities given each value of the truth, classes named and any other: (M + 1, *batch)."""
        every, (extra,), lead = self._sums(block, self._by_label(block))
        extra = ragged_sum(extra, block.by_named_class, every.dtype)
        n, batch = block.n_items, len(self.batch_shape)
        sums = every.unsqueeze(0) + extra.reshape(-1, n, every.shape[-1])
        sums = self.power * sums if self.power != 1 else sums
        outer = self.state.shape[: self.state.dim() - batch]
        return sums.transpose(1, 2).reshape(*outer, *(1,) * (batch - len(lead) - 1), *lead, n)

    def _weighted(self, x: Tensor) -> Tensor:
        """Log-probabilities (S, width) of labels, times their weights."""
        return x if self.weight is None else x * self.weight.to(x).unsqueeze(-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws every label of the design at a drawn state: int32 (S,) table cells.

        MethodError for several draws at once, or an enumerated state.
        """
        if len(sample_shape) or self.state.dim() > len(self.plates):
            raise MethodError("labels are drawn one data set at a time; call crowdppl.simulate in a loop")
        block = self.block
        state = self.state.expand(self.plates).reshape(-1)[self._state_of_label()]
        if isinstance(self.log_p, Tensor):
            logits = self.log_p.reshape(self.log_p.shape[-3:])[self.viewed.annotator, state]
        elif isinstance(self.log_p, Coins):
            logits = self._of_coins(self.log_p, state)
        else:
            one = (self._at_answer(block, answer, state) for answer in range(block.n_answers))
            logits = torch.stack(list(one), -1)
        answer: Tensor = torch.distributions.Categorical(logits=logits, validate_args=False).sample()
        return (block.annotator * block.n_answers + answer).int()

    def _of_coins(self, coins: Coins, state: Tensor) -> Tensor:
        """Log-probabilities of all answers of each label at its state, (S, L)."""
        right, wrong, who = coins.log_right, coins.log_wrong, self.block.annotator
        every = wrong.reshape(wrong.shape[-2:])[who].expand(-1, self.block.n_classes)
        every = every.gather(1, state.unsqueeze(1)).expand(every.shape) if coins.by_truth else every
        for near, node in zip(coins.log_near[::-1], coins.nodes[::-1], strict=True):
            every = torch.where(node[state].unsqueeze(1) == node, near.reshape(near.shape[-2:])[who], every)
        own = right.reshape(right.shape[-2:])[who].expand(-1, self.block.n_classes)
        every = every.scatter(1, state.unsqueeze(1), own.gather(1, state.unsqueeze(1)))
        other = coins.log_other
        return every if other is None else torch.cat([every, other.reshape(other.shape[-2:])[who]], 1)

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
            wrong = self.log_p.log_wrong - _log_others(block)
            given = torch.where(state == answer, self.log_p.log_right, wrong).reshape(-1)
            return given if answer < block.n_classes else torch.full_like(given, -torch.inf)
        assert not isinstance(self.log_p, Tensor | Coins)
        values = self.log_p(torch.full_like(block.annotator, answer))
        return values.reshape(values.shape[-2:]).gather(-1, state.unsqueeze(-1)).squeeze(-1)


EACH_TRUTH = "truth of each label"
"""Name of the sum over the truth of each label, where each has one of its own."""


class OwnTruthLabels(CategoricalLabels):
    """Labels that have a truth each, which is summed out; the item's own tells nothing more of them.

    Args:
        block: who labelled what.
        table: of labels given their own truth, (..., A, K, L).
        prior: of their truths, (..., N, K).
        state: the item's truth.
        groups: where annotators' truths differ by groups, their one-hot vectors (..., A, G) and the prior of each
            group (..., N, G, K).
    """

    def __init__(
        self, block: Block, table: Tensor, prior: Tensor, state: Tensor, groups: tuple[Tensor, Tensor] | None = None
    ) -> None:
        self.table, self.prior, self.tastes = table, prior, groups
        super().__init__(block, self._potential, state)

    def _potential(self, answer: Tensor) -> Tensor:
        block = self.block
        rows = block.of_annotator(self.table, event_dim=2)
        given = rows.gather(-1, answer[:, None, None].expand(*rows.shape[:-1], 1)).squeeze(-1)
        if self.tastes is None:
            own = logsumexp(block.of_item(self.prior, event_dim=1) + given, name=EACH_TRUTH)
        else:  # linear in the one-hot vectors, of which zero times a label that cannot be is zero
            group, prior = self.tastes
            by_group = logsumexp(block.of_item(prior, event_dim=2) + given.unsqueeze(-2), name=EACH_TRUTH)
            by_group = by_group.clamp(min=torch.finfo(by_group.dtype).min)
            own = (block.of_annotator(group, event_dim=1) * by_group).sum(-1)
        return own.unsqueeze(-1).expand(*own.shape, block.n_classes)


def wrong_is_alike(log_p: Table) -> bool:
    """Whether a wrong label is as probable under any truth that it does not name."""
    return isinstance(log_p, Coin) or (isinstance(log_p, Coins) and not log_p.by_truth and not log_p.nodes)


def is_large(block: Block) -> bool:
    """Whether a table of annotators' answers is too large to be formed where this can be spared."""
    return block.n_annotators * block.n_classes * block.n_answers > LARGE_TABLE


def _contexts_of(log_p: Table, block: Block) -> int:
    """The number X of contexts of a table (..., A, X, T, L). MethodError for anything else."""
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


def _by_node(block: Block, x: Tensor, node: Tensor) -> Tensor:
    """What labels (S, C) add to all classes of the node of the class that they name: (N, C, K)."""
    n, some = int(node.max()) + 1, block.answer.clamp(max=block.n_classes - 1)  # of abstentions, x is 0
    sums = x.new_zeros(block.n_items * n, x.shape[1]).index_add(0, block.item * n + node[some], x)
    return sums.reshape(block.n_items, n, -1)[:, node].transpose(1, 2)


def _log_others(block: Block) -> Tensor:
    """Log of the number of classes that a wrong label may be."""
    return torch.log(torch.tensor(block.n_classes - 1.0, device=block.device))


def _precision(block: Block, x: Tensor) -> torch.dtype:
    """The block's, but no finer than that of the terms, in which plain Pyro computes its other factors."""
    return block.dtype if x.dtype == torch.float64 else x.dtype
