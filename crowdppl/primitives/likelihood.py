"""The shared likelihood: truth, prevalence, labels, abstentions and covariates of a model."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Literal, overload

import pyro
import pyro.distributions as dist
import torch
from pyro.poutine.runtime import get_plates
from torch import Tensor

from crowdppl.data.covariates import CovariateColumns
from crowdppl.errors import DataError, MethodError
from crowdppl.primitives import plates
from crowdppl.primitives.distributions import Categorical
from crowdppl.primitives.labels import Coin, Labels, Table
from crowdppl.primitives.plates import Data, block_of
from crowdppl.primitives.priors import default_prevalence


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
        ...     log_p = crowdppl.primitives.with_abstentions(data, torch.eye(2).log().expand(2, 2, 2))
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


def annotate(
    data: Data,
    log_p: Table,
    state: Tensor,
    *,
    within: Literal["item", "label"] = "item",
    groups: tuple[int, ...] | None = None,
    power: float = 1.0,
    name: str = "label",
) -> Tensor:
    """Says how labels come out: every label of an item, given the item's state.

    Call it inside the plate of items (or of labels; or of groups and items). Observed labels are scored;
    a design without labels draws them, so that the same story simulates.

    Args:
        data: the story's argument.
        log_p: a table (..., A, T, L) of log p(label | annotator, state), or a ``Coin``, or a callable that
            maps answers (S,) to log-potentials (..., S, T), for models in which items differ too.
        state: whole numbers below T, such as the truth; a joint index (truth * M + subtype) where two latents
            matter.
        within: "item" sums a state out once for all labels of an item; "label" for each label alone.
        groups: the group of each annotator, (A,), where the state belongs to (group, item).
        power: of the likelihood: below 1, labels count for less; they are drawn as ``log_p`` says all the same.
        name: name of the site.

    Returns:
        int32 (S,), the table cell ``annotator * n_answers + answer`` of each label.

    Examples:
        >>> import pyro, torch
        >>> design = crowdppl.random_design(1, 2, 2, classes=["no", "yes"], seed=0)
        >>> never_err = torch.eye(2).log().expand(2, 2, 2)  # [annotator, truth, label]
        >>> with pyro.poutine.seed(rng_seed=0), crowdppl.primitives.plates.items(design):
        ...     cells = crowdppl.primitives.annotate(design, never_err, torch.tensor([1]))
        >>> cells % 2  # both say "yes"
        tensor([1, 1], dtype=torch.int32)
    """
    block = block_of(data)
    labels = Labels(block, log_p, state, within=within, groups=groups, power=power if block.uses_power else 1.0)
    out: Tensor = pyro.sample(name, labels, obs=block.bags.cells if block.has_labels else None)
    return out


def truth(data: Data, log_p: Tensor, name: str = "truth") -> Tensor:
    """Draws the truth of each item; known truths (gold) enter here, for every method alike.

    Args:
        data: the story's argument.
        log_p: (..., K), the same for all items, or (..., N, K).
        name: name of the site.

    Returns:
        Whole numbers below K in the plate of items, summed out exactly by engines that enumerate.
    """
    potential = block_of(data).potential
    weights = log_p if potential is None else log_p + potential.to(log_p.dtype)
    out: Tensor = pyro.sample(name, Categorical(weights), infer={"enumerate": "parallel"})
    return out


Likelihood = Literal["joint", "per_annotation"]
"""One truth an item, or a truth of its own for each label."""


def truth_and_labels(
    data: Data, log_p: Tensor, table: Table, likelihood: Likelihood = "joint", *, power: float = 1.0
) -> None:
    """Draws the truth of each item and then its labels: the end of a story whose annotators err each alone.

    "joint" sums one truth an item out, for all its labels together. "per_annotation" sums the truth out for each
    label alone while a network learns by gradients, as if labels came from different items: what CrowdLayer, CCEM,
    trace regularisation and GeoCrowdNet do. A known truth counts once an item, even without labels. What is asked
    of the fitted story, such as the truth's probabilities, is the joint answer: classifier times annotators.

    Args:
        data: the story's argument.
        log_p: log-probabilities of the truth, (..., K) or (..., N, K), such as ``classify`` gives.
        table: how labels come out of the truth, as ``annotate`` takes it.
        likelihood: of the two.
        power: of the labels' likelihood, as ``annotate`` takes it.

    Raises:
        MethodError: for another likelihood.
    """
    if likelihood not in ("joint", "per_annotation"):
        raise MethodError(f"likelihood={likelihood!r} is neither 'joint' nor 'per_annotation'")
    block = block_of(data)
    if likelihood == "joint" or not block.trains_networks:
        with plates.items(data):
            annotate(data, table, truth(data, log_p), power=power)
        return
    known = log_p if block.potential is None else _told(data, log_p)
    if block.n_labels == 0:  # a minibatch of items of which the truth alone is known
        return
    each = block.of_item(known, event_dim=1) if known.dim() > 1 else known
    with plates.labels(data):
        state = pyro.sample("truth", Categorical(each), infer={"enumerate": "parallel"})
        annotate(data, table, state, within="label", power=power)


def _told(data: Data, log_p: Tensor) -> Tensor:
    """Scores what is known of each item's truth, once an item; log-probabilities of the truth that it leaves."""
    block = block_of(data)
    assert block.potential is not None
    both = log_p + block.potential.to(log_p.dtype)
    with plates.items(data):
        pyro.factor("known", both.logsumexp(-1))
    return both.log_softmax(-1)


def penalty(data: Data, name: str, amount: Tensor) -> None:
    """Takes something off the log-likelihood while a network learns by gradients: a log-potential of parameters.

    Published losses are means over labels, so an amount counts once for each label that names a class: who declines
    does not pay. What is asked of a fitted story holds parameters fixed, where a potential on them changes nothing;
    there it is left out.

    Args:
        data: the story's argument.
        name: of the potential's site.
        amount: a number, in units of a label's log-probability.
    """
    block = block_of(data)
    if block.trains_networks:
        n = block.n_labels if block.n_answers == block.n_classes else block.named.sum()
        pyro.factor(name, -block.scale * n * amount)


def prevalence(
    data: Data, kind: Literal["learned", "uniform"] = "learned", concentration: float | None = 1.0
) -> Tensor:
    """How common each class is: log-probabilities (..., K), learned under a Dirichlet or fixed to be equal.

    Args:
        data: the story's argument.
        kind: "learned" samples the site ``prevalence``; "uniform" fixes 1 / K.
        concentration: of the symmetric Dirichlet; 1 is flat, None that of ``default_prevalence``.

    Raises:
        MethodError: for another kind.

    Examples:
        >>> crowdppl.primitives.prevalence(crowdppl.anaesthetists(), "uniform").exp()
        tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    n_classes = block_of(data).n_classes
    if kind == "uniform":
        return torch.full((n_classes,), -math.log(n_classes))
    if kind != "learned":
        raise MethodError(f"prevalence={kind!r} is neither 'learned' nor 'uniform'")
    mass = default_prevalence(n_classes) if concentration is None else concentration
    share: Tensor = pyro.sample("prevalence", dist.Dirichlet(mass * torch.ones(n_classes)))
    return share.log()


def coin_table(log_coin: Tensor, n_classes: int) -> Tensor:
    """The table of annotators who are right or wrong, errors spread evenly.

    Args:
        log_coin: (..., A, 1 or K, 2): log-probability of a right and of a wrong label [annotator, truth, .].
        n_classes: K.

    Returns:
        (..., A, K, K) log p(label | annotator, truth).

    Raises:
        MethodError: when the last two dimensions are others.

    Examples:
        >>> import torch
        >>> crowdppl.primitives.coin_table(torch.tensor([[[0.8, 0.2]]]).log(), n_classes=3).exp()
        tensor([[[0.8000, 0.1000, 0.1000],
                 [0.1000, 0.8000, 0.1000],
                 [0.1000, 0.1000, 0.8000]]])
    """
    if log_coin.dim() < 2 or log_coin.shape[-1] != 2 or log_coin.shape[-2] not in (1, n_classes):
        raise MethodError(
            f"log_coin has shape {tuple(log_coin.shape)}, not (..., A, 1, 2) or (..., A, {n_classes}, 2): right "
            "and wrong last, the truth before; where coins do not depend on it, give log_coin.unsqueeze(-2)"
        )
    same = torch.eye(n_classes, dtype=torch.bool, device=log_coin.device)
    right, wrong = log_coin[..., :1], log_coin[..., 1:] - math.log(n_classes - 1)
    return torch.where(same, right, wrong)


LEAST = 1e-10
"""Smallest probability of a label, and what is added to a square before its root."""


def label_offsets(
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
        >>> log_p = crowdppl.primitives.label_offsets(data, p, confusion, shift)(torch.zeros(data.n_labels, dtype=torch.int64))
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


def item_covariates(data: Data, *names: Hashable) -> Tensor:
    """What is known of each item, as numbers: the length of a text, or where it is from.

    They are those that annotations were given as ``item_covariates``. Where tables of annotators are read off a fit
    (``Posterior.confusion``), which are those of an item that nobody has seen, they are the mean over all items.

    Args:
        data: the story's argument.
        names: of columns; by default all, in the order of the table.

    Returns:
        (n_items, D), in the order of the plate of items, in torch's default dtype.

    Raises:
        DataError: when the data have none, lack a column, or a column does not hold a finite number for each item.

    Examples:
        >>> import pandas as pd
        >>> from crowdppl import Annotations, item_covariates
        >>> words = pd.DataFrame({"words": [120, 45], "source": ["web", "print"]}, index=["x", "y"])
        >>> dicts = {"ann": {"x": "spam", "y": "ham"}, "bob": {"x": "spam", "y": "ham"}}
        >>> data = Annotations.from_dicts(dicts, item_covariates=words)
        >>> sorted(item_covariates(data, "words").tolist())
        [[45.0], [120.0]]
    """
    return _numbers(block_of(data).item_covariates, "item", names)


def annotator_covariates(data: Data, *names: Hashable) -> Tensor:
    """What is known of each annotator, as numbers: years of practice, or whether they were trained.

    They are those that annotations were given as ``annotator_covariates``.

    Args:
        data: the argument of the story's ``model``, or of its ``prepare``.
        names: of columns; by default all, in the order of the table.

    Returns:
        (A, D), in the order of ``data.annotators``, in torch's default dtype.

    Raises:
        DataError: when the data have none, lack a column, or a column does not hold a finite number for each
            annotator.

    Examples:
        >>> import pandas as pd
        >>> from crowdppl import Annotations, annotator_covariates
        >>> people = pd.DataFrame({"years": [3, 20]}, index=["bob", "ann"])
        >>> dicts = {"ann": {"x": "spam", "y": "ham"}, "bob": {"x": "spam", "y": "ham"}}
        >>> annotator_covariates(Annotations.from_dicts(dicts, annotator_covariates=people), "years")
        tensor([[20.],
                [ 3.]])
    """
    return _numbers(block_of(data).annotator_covariates, "annotator", names)


def _numbers(held: CovariateColumns | None, entity: str, names: tuple[Hashable, ...]) -> Tensor:
    what = f"{entity}_covariates"
    if held is None:
        raise DataError(f"the story reads {what}, and the data have none; give {what}=, a DataFrame by {entity} id")
    return held.chosen(names).to(torch.get_default_dtype())
