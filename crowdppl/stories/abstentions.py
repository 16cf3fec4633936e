"""Answers that are no class: how a table over classes becomes one over answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import overload

import pyro
import pyro.distributions as dist
import torch
from pyro.poutine.runtime import get_plates
from torch import Tensor

from crowdppl import plates
from crowdppl.errors import MethodError
from crowdppl.plates import Data
from crowdppl.stories.labels import Coin, Table


@overload
def with_abstentions(data: Data, log_p: Tensor, n_states: int | None = None) -> Tensor: ...


@overload
def with_abstentions(data: Data, log_p: Table, n_states: int | None = None) -> Table: ...


def with_abstentions(data: Data, log_p: Table, n_states: int | None = None) -> Table:
    """Lets annotators decline: extends log-probabilities over classes to all answers.

    An abstention is an answer that is no class. Each annotator who ever abstained has a probability of each
    abstention; what is left goes to the classes as ``log_p`` says. They are the site ``abstention``, of flat
    Dirichlets over giving a class and each way of declining: (A, 1, W), or (A, T, W) where abstentions are
    informative ("A D W" on a card). By default they do not depend on the truth, and declining tells nothing (is
    ignorable in the sense of Rubin, 1976, doi:10.1093/biomet/63.3.581), and the truth is that of the labels alone.
    Annotations that say ``informative_abstentions`` have a probability for each state; what makes many decline an
    item, such as its difficulty, is then taken for a class. An annotator who never abstained was never offered it,
    so that naming an unused "don't know" changes nothing. Call it outside all plates.

    Args:
        data: the story's argument.
        log_p: over the K classes: a table (..., A, T, K), a ``Coin`` or a callable.
        n_states: T, for a ``Coin`` or callable; the number of classes by default. For informative abstentions.

    Returns:
        The same kind, over the L answers.

    Raises:
        MethodError: in a plate, where data have abstentions.

    Examples:
        >>> import pyro, torch
        >>> labels = {"ann": {"x": "no", "y": "?"}, "bob": {"x": "no", "y": "yes"}}
        >>> data = crowdppl.Annotations.from_dicts(labels, abstentions=["?"])
        >>> with pyro.poutine.seed(rng_seed=0):
        ...     log_p = crowdppl.with_abstentions(data, torch.eye(2).log().expand(2, 2, 2))
        >>> log_p.shape  # of two classes and "?"
        torch.Size([2, 2, 3])
    """
    block = plates.block_of(data)
    ways = block.n_answers - block.n_classes
    if ways == 0:
        return log_p
    _refuse_plates()
    states = 1
    if block.informative:
        states = log_p.shape[-2] if isinstance(log_p, Tensor) else n_states or block.n_classes
    with plates.annotators(data, "abstainers"):
        prior = dist.Dirichlet(torch.ones(states, 1 + ways)).to_event(1)
        site: Tensor = pyro.sample("abstention", prior)
    offered = torch.ones(block.n_annotators, dtype=torch.bool) if block.abstainers is None else block.abstainers
    floor = torch.zeros(1 + ways).index_fill(0, torch.arange(1, 1 + ways), -torch.inf)
    log_answer = torch.where(offered[:, None, None], site.log(), floor.to(site))  # (..., A, T, 1 + ways)
    if isinstance(log_p, Tensor):
        given = log_p + log_answer[..., :1]
        lead = torch.broadcast_shapes(given.shape[:-1], log_answer.shape[:-1])
        return torch.cat([given.expand(*lead, -1), log_answer[..., 1:].expand(*lead, -1)], -1)
    return _per_label_abstentions(data, log_p, log_answer)


def _refuse_plates() -> None:
    """Refuses what Pyro would refuse as a collision of plates, without a word of what to do."""
    inside = [plate.name for plate in get_plates() if plate.dim == -1]
    if inside:
        raise MethodError(
            f"with_abstentions is called in the plate of {inside[-1]}, and draws a rate for each annotator in a "
            "plate of its own; call it outside all plates, before annotate"
        )


def _per_label_abstentions(
    data: Data, log_p: Coin | Callable[[Tensor], Tensor], log_answer: Tensor
) -> Callable[[Tensor], Tensor]:
    block = data.as_block()

    def potential(answer: Tensor) -> Tensor:
        n_classes = block.n_classes
        way = (answer - n_classes + 1).clamp(min=0)
        chosen = block.of_annotator(log_answer, event_dim=2)
        response = chosen.gather(-1, way[:, None, None].expand(*chosen.shape[:-1], 1)).squeeze(-1)
        some = answer.clamp(max=n_classes - 1)
        if isinstance(log_p, Coin):
            right, wrong = log_p.log_right.unsqueeze(-1), log_p.log_wrong.unsqueeze(-1)
            same = torch.nn.functional.one_hot(some, n_classes).bool()
            label = torch.where(same, right, wrong - math.log(n_classes - 1))
        else:
            label = log_p(some)
        return response + torch.where((answer < n_classes).unsqueeze(-1), label, torch.zeros_like(label))

    return potential
