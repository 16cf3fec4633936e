"""The annotation likelihood that every story of the zoo shares."""

from __future__ import annotations

import math
from typing import Literal

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor

from crowdppl import plates
from crowdppl.errors import MethodError
from crowdppl.plates import Data, block_of
from crowdppl.stories.distributions import Categorical
from crowdppl.stories.labels import Labels, Table
from crowdppl.stories.priors import house_prevalence


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
        >>> with pyro.poutine.seed(rng_seed=0), crowdppl.plates.items(design):
        ...     cells = crowdppl.annotate(design, never_err, torch.tensor([1]))
        >>> cells % 2  # both say "yes"
        tensor([1, 1], dtype=torch.int32)
    """
    block = block_of(data)
    labels = Labels(block, log_p, state, within=within, groups=groups, power=power if block.tempered else 1.0)
    out: Tensor = pyro.sample(name, labels, obs=block.bags.cells if block.observed else None)
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
    if likelihood == "joint" or not block.learning:
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
    if block.learning:
        n = block.n_labels if block.n_answers == block.n_classes else block.named.sum()
        pyro.factor(name, -block.scale * n * amount)


def prevalence(
    data: Data, kind: Literal["learned", "uniform"] = "learned", concentration: float | None = 1.0
) -> Tensor:
    """How common each class is: log-probabilities (..., K), learned under a Dirichlet or fixed to be equal.

    Args:
        data: the story's argument.
        kind: "learned" samples the site ``prevalence``; "uniform" fixes 1 / K.
        concentration: of the symmetric Dirichlet; 1 is flat, None that of ``house_prevalence``.

    Raises:
        MethodError: for another kind.

    Examples:
        >>> crowdppl.prevalence(crowdppl.anaesthetists(), "uniform").exp()
        tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    n_classes = block_of(data).n_classes
    if kind == "uniform":
        return torch.full((n_classes,), -math.log(n_classes))
    if kind != "learned":
        raise MethodError(f"prevalence={kind!r} is neither 'learned' nor 'uniform'")
    mass = house_prevalence(n_classes) if concentration is None else concentration
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
        >>> crowdppl.coin_table(torch.tensor([[[0.8, 0.2]]]).log(), n_classes=3).exp()
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
