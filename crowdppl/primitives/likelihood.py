"""The shared likelihood: truth, prevalence, labels, abstentions and covariates of a model."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Any, Literal, overload

import numpy as np
import pyro
import pyro.distributions as dist
import torch
from pyro.poutine.runtime import get_plates
from torch import Tensor

from crowdppl.core.validation import shown
from crowdppl.data.blocks import Block
from crowdppl.data.covariates import CovariateColumns, no_covariates
from crowdppl.data.kinds.numbers import NUMBER
from crowdppl.errors import DataError, MethodError
from crowdppl.primitives import plates
from crowdppl.primitives.chains import ChainedCategorical, shares_of_places
from crowdppl.primitives.distributions import Categorical, SparseCategorical
from crowdppl.primitives.labels import CategoricalLabels, Coin, Coins, NumberLabels, Table, is_large, wrong_is_alike
from crowdppl.primitives.plates import Data, block_of
from crowdppl.primitives.potts import PottsCategorical, graph_of
from crowdppl.primitives.priors import default_prevalence
from crowdppl.primitives.sums import drawing


@overload
def with_abstentions(
    data: Data, log_p: Tensor, n_states: int | None = None, *, contexts: bool = False
) -> Tensor: ...


@overload
def with_abstentions(data: Data, log_p: Table, n_states: int | None = None, *, contexts: bool = False) -> Table: ...


def with_abstentions(data: Data, log_p: Table, n_states: int | None = None, *, contexts: bool = False) -> Table:
    """Lets annotators abstain: extends log-probabilities over classes to all answers.

    Each annotator who ever abstained has a probability of each kind of abstention; the rest goes to the classes as
    ``log_p`` says. These are the site ``abstention``, with flat Dirichlet priors over giving a class and each kind
    of abstention: (A, 1, W), or (A, T, W) where abstentions are informative ("A D W" on a card). By default they do
    not depend on the truth, so that abstentions are ignorable (Rubin 1976, doi:10.1093/biomet/63.3.581) and the
    truth is that of the labels alone. With ``informative_abstentions`` they depend on the state; whatever makes
    many abstain on an item, such as its difficulty, is then taken for a class. Annotators who never abstained have
    probability 0 of it, so that naming an unused "don't know" changes nothing. Call it outside all plates.

    Args:
        data: the model's argument.
        log_p: over the K classes: a table (..., A, T, K), ``Coins``, a ``Coin`` or a callable.
        n_states: T, for a ``Coin`` or callable with informative abstentions; by default K.
        contexts: whether the table has contexts, (..., A, X, T, K); annotators abstain alike in all of theirs.

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
    block = block_of(data)
    ways = block.n_answers - block.n_classes
    if ways == 0:
        return log_p
    inside = [plate.name for plate in get_plates() if plate.dim == -1]
    if inside:
        raise MethodError(f"with_abstentions is called in the plate of {inside[-1]}; call it outside all plates")
    states = 1
    if block.informative:
        states = log_p.shape[-2] if isinstance(log_p, Tensor) else n_states or block.n_classes
    with plates.annotators(data, "abstainers"):
        prior = dist.Dirichlet(torch.ones(states, 1 + ways)).to_event(1)
        site: Tensor = pyro.sample("abstention", prior)
    offered = torch.ones(block.n_annotators, dtype=torch.bool) if block.abstainers is None else block.abstainers
    floor = torch.zeros(1 + ways).index_fill(0, torch.arange(1, 1 + ways), -torch.inf)
    log_answer = torch.where(offered[:, None, None], site.log(), floor.to(site))  # (..., A, T, 1 + ways)
    if isinstance(log_p, Coins):
        if states == 1 and (is_large(block) or block.named_classes is not None):
            return log_p.plus(log_answer[..., 0, :1], log_answer[..., 0, 1:])
        log_p = log_p.table(block.n_classes)
    if isinstance(log_p, Tensor):
        log_answer = log_answer.unsqueeze(-3) if contexts else log_answer
        given = log_p + log_answer[..., :1]
        lead = np.broadcast_shapes(given.shape[:-1], log_answer.shape[:-1])
        return torch.cat([given.expand(*lead, -1), log_answer[..., 1:].expand(*lead, -1)], -1)
    return _per_label_abstentions(block, log_p, log_answer)


def _per_label_abstentions(
    block: Block, log_p: Coin | Callable[[Tensor], Tensor], log_answer: Tensor
) -> Callable[[Tensor], Tensor]:
    """Labels that no table gives, with the ways to abstain among them."""

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
    context: Tensor | None = None,
    weight: Tensor | None = None,
    name: str = "label",
) -> Tensor:
    """Draws all labels of each item given its state, or scores them where they are observed.

    Call it inside the plate of items (or of labels; or of groups and items). A design has no labels: there they are
    drawn, so that the same model simulates.

    Args:
        data: the model's argument.
        log_p: a table (..., A, T, L) of log p(label | annotator, state), or ``Coins``, or a ``Coin``, or a
            callable that maps answers (S,) to log-potentials (..., S, T), for models in which items differ too.
        state: whole numbers below T, such as the truth; a joint index (truth * M + subtype) of two latents.
        within: "item" sums a state out once for all labels of an item; "label" for each label alone.
        groups: the group of each annotator, (A,), where the state belongs to (group, item).
        power: of the likelihood; below 1, labels count for less. It does not change how they are drawn.
        context: a whole number below X for each label, (S,) or (S, 1): which of an annotator's confusions it
            follows, those of a table (..., A, X, T, L). An annotator in a context is like an annotator of its own,
            so that every engine treats the model as it does without contexts.
        weight: a number from 0 on for each label, (S,) or (S, 1): a power of its own; 2 counts a label twice.
        name: of the site.

    Returns:
        int32 (S,), the table cell ``annotator * n_answers + answer`` of each label.

    Raises:
        MethodError: for a table of another shape, or a context without a table.
        DataError: for a context that is no whole number below X, or a weight that is negative or not finite.

    Examples:
        >>> import pyro, torch
        >>> design = crowdppl.random_design(1, 2, 2, classes=["no", "yes"], seed=0)
        >>> never_err = torch.eye(2).log().expand(2, 2, 2)  # [annotator, truth, label]
        >>> with pyro.poutine.seed(rng_seed=0), crowdppl.primitives.plates.items(design):
        ...     cells = crowdppl.primitives.annotate(design, never_err, torch.tensor([1]))
        >>> cells % 2  # both say "yes"
        tensor([1, 1], dtype=torch.int32)

        Who labels late guesses:

        >>> late = torch.tensor([0, 1])  # of two labels
        >>> guess = torch.full((2, 2, 2), 0.5).log()
        >>> table = torch.stack([never_err, guess], 1)  # [annotator, context, truth, label]
        >>> with pyro.poutine.seed(rng_seed=0), crowdppl.primitives.plates.items(design):
        ...     cells = crowdppl.primitives.annotate(design, table, torch.tensor([1]), context=late)
        >>> cells % 2
        tensor([1, 0], dtype=torch.int32)
    """
    block = block_of(data)
    context, weight = _a_label("context", context, block), _a_label("weight", weight, block)
    power, weight = (power, weight) if block.uses_power else (1.0, None)
    how: dict[str, Any] = {"within": within, "groups": groups, "power": power, "context": context, "weight": weight}
    labels = CategoricalLabels(block, log_p, state, **how)
    out: Tensor = pyro.sample(name, labels, obs=block.bags.cells if block.has_labels else None)
    return out


def annotate_numbers(data: Data, labels: NumberLabels) -> Tensor:
    """Draws all labels whose truths are numbers, or scores them where they are observed; in the plate of items.

    Args:
        data: the model's argument.
        labels: their distribution, of a subclass of ``NumberLabels``.

    Returns:
        float64 (S,), the number of each label; where these are classes, cells as of ``annotate``.

    Raises:
        DataError: when the labels of the data are numbers, or classes, and the model takes others.
    """
    block = block_of(data)
    if labels.graded != (block.n_classes > 0):
        takes = "classes" if labels.graded else "numbers"
        raise DataError(f"the model takes labels that are {takes}, and these are of {block.n_classes} classes")
    given = block.bags.cells if labels.graded else block.numbers
    out: Tensor = pyro.sample("label", labels, obs=given if block.has_labels else None)
    return out


def _a_label(name: str, x: Tensor | None, block: Block) -> Tensor | None:
    """One number a label, (S,); refuses another shape, and what the model draws."""
    if x is None:
        return None
    if x.shape not in ((block.n_labels,), (block.n_labels, 1)) or x.requires_grad:
        what = "depends on what the model draws" if x.requires_grad else f"has shape {tuple(x.shape)}"
        raise MethodError(f"annotate: {name} {what}; give data, one number for each of {block.n_labels} labels")
    return x.reshape(-1)


def truth(
    data: Data,
    log_p: Tensor,
    name: str = "truth",
    *,
    labels: Table | None = None,
    log_transition: Tensor | None = None,
    strength: float | None = None,
) -> Tensor:
    """Draws the truth of each item; gold labels enter here.

    Args:
        data: the model's argument.
        log_p: (..., K), the same for all items, or (..., N, K).
        name: of the site.
        log_transition: of items that follow one another, as the columns "sequence" and "position" of the item
            covariates say: (..., K, K) log-probabilities [before, after]. ``log_p`` is then of first items.
        strength: of items that are linked, as ``edges=`` of the annotations says: by how much each pair of equal
            classes raises the log-probability of all (a Potts field). ``log_p`` is then the field, normalised.
        labels: what ``annotate`` takes for ``log_p``, where nothing else depends on the truth. Where these are
            coins whose wrong answers do not depend on the truth, and classes are many, those that no label of an
            item names are then summed out together.

    Returns:
        Whole numbers below K in the plate of items, summed out exactly by engines that enumerate.
    """
    block, of_all = block_of(data), log_p.dim() == 1 or log_p.shape[-2] == 1
    if log_transition is not None:
        found: Tensor = pyro.sample(name, _chained(block, log_p, log_transition), infer={"enumerate": "parallel"})
        return found
    if strength is not None:
        linked: Tensor = pyro.sample(name, _potts(block, log_p, strength), infer={"enumerate": "parallel"})
        return linked
    alike = of_all and labels is not None and wrong_is_alike(labels) and not drawing()
    if alike and block.named_classes is not None:
        prior: Categorical = SparseCategorical(log_p, block.named_classes, block.gold)
    else:
        potential = block.potential
        prior = Categorical(log_p if potential is None else log_p + potential.to(log_p.dtype))
    out: Tensor = pyro.sample(name, prior, infer={"enumerate": "parallel"})
    return out


def _chained(block: Block, log_initial: Tensor, log_transition: Tensor) -> Categorical:
    """Truths along sequences; of items that stand for others, those of any item of a sequence."""
    known = torch.zeros(()) if block.potential is None else block.potential.to(log_initial.dtype)
    if block.apart:
        return Categorical(shares_of_places(log_initial, log_transition, block.apart) + known)
    sequences = block.sequences
    first = log_initial.expand(*log_initial.shape[:-2], block.n_items, block.n_classes)
    own = first.masked_fill(~sequences.starts.unsqueeze(-1), 0.0) + known
    return ChainedCategorical(own, log_transition, sequences)


def _potts(block: Block, log_p: Tensor, strength: float) -> Categorical:
    """Truths along edges; of items that stand for others, each alone."""
    known = torch.zeros(()) if block.potential is None else block.potential.to(log_p.dtype)
    if block.apart:
        return Categorical(log_p + known)
    field = log_p.expand(*log_p.shape[:-2], block.n_items, block.n_classes)
    return PottsCategorical(field + known, field, strength, graph_of(block))


def truth_and_labels(
    data: Data,
    log_p: Tensor,
    table: Table,
    likelihood: Literal["joint", "per_annotation"] = "joint",
    *,
    power: float = 1.0,
) -> None:
    """Draws the truth of each item and then its labels, for models whose labels are independent given the truth.

    "joint" sums out one truth for all labels of an item. "per_annotation" sums out a truth for each label while a
    network learns by gradients, as if labels came from different items; CrowdLayer, CCEM, trace regularisation and
    GeoCrowdNet do so. A gold label counts once per item, even without labels. The results of a fit, such as the
    truth's probabilities, always use the joint likelihood.

    Args:
        data: the model's argument.
        log_p: log-probabilities of the truth, (..., K) or (..., N, K), such as ``class_logits`` gives.
        table: log-probabilities of labels given the truth, as ``annotate`` takes them.
        likelihood: "joint" or "per_annotation".
        power: of the labels' likelihood, as ``annotate`` takes it.

    Raises:
        MethodError: for another likelihood.
    """
    if likelihood not in ("joint", "per_annotation"):
        raise MethodError(f"likelihood={shown(likelihood)} is neither 'joint' nor 'per_annotation'")
    block = block_of(data)
    if likelihood == "joint" or not block.trains_networks:
        with plates.items(data):
            annotate(data, table, truth(data, log_p, labels=table), power=power)
        return
    if block.potential is not None:  # gold is scored once an item
        both = log_p + block.potential.to(log_p.dtype)
        with plates.items(data):
            pyro.factor("known", both.logsumexp(-1))
        log_p = both.log_softmax(-1)
    if block.n_labels == 0:  # a minibatch of items that have gold and no labels
        return
    each = block.of_item(log_p, event_dim=1) if log_p.dim() > 1 else log_p
    with plates.labels(data):
        state = pyro.sample("truth", Categorical(each), infer={"enumerate": "parallel"})
        annotate(data, table, state, within="label", power=power)


def penalty(data: Data, name: str, amount: Tensor) -> None:
    """Subtracts a penalty on parameters from the log-likelihood while a network learns by gradients.

    Published losses are means over labels, so the amount counts once for each label that names a class (abstentions
    do not count). Results of a fit hold parameters fixed and leave the penalty out.

    Args:
        data: the model's argument.
        name: of the penalty's site.
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
        data: the model's argument.
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
        raise MethodError(f"prevalence={shown(kind)} is neither 'learned' nor 'uniform'")
    mass = default_prevalence(data) if concentration is None else concentration
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
            f"log_coin has shape {tuple(log_coin.shape)}, not (..., A, 1, 2) or (..., A, {n_classes}, 2); where "
            "coins do not depend on the truth, give log_coin.unsqueeze(-2)"
        )
    same = torch.eye(n_classes, dtype=torch.bool, device=log_coin.device)
    right, wrong = log_coin[..., :1], log_coin[..., 1:] - math.log(n_classes - 1)
    return torch.where(same, right, wrong)


def item_covariates(data: Data, *names: Hashable) -> Tensor:
    """Covariates of each item, as numbers: the length of a text, or its source.

    They are the ``item_covariates`` of the annotations. For tables of annotators (``Posterior.confusion``), which
    belong to no item, they are the mean over all items.

    Args:
        data: the model's argument.
        names: of columns; by default all, in the order of the table.

    Returns:
        (n_items, D), in the order of the plate of items, in torch's default dtype.

    Raises:
        DataError: when the data have none, lack a column, or a column does not hold a finite number for each item.

    Examples:
        >>> import pandas as pd
        >>> from crowdppl import Annotations
        >>> from crowdppl.primitives import item_covariates
        >>> words = pd.DataFrame({"words": [120, 45], "source": ["web", "print"]}, index=["x", "y"])
        >>> dicts = {"ann": {"x": "spam", "y": "ham"}, "bob": {"x": "spam", "y": "ham"}}
        >>> data = Annotations.from_dicts(dicts, item_covariates=words)
        >>> sorted(item_covariates(data, "words").tolist())
        [[45.0], [120.0]]
    """
    return _numbers(block_of(data).item_covariates, "item", names)


def item_groups(data: Data, *names: Hashable) -> Tensor:
    """The group of each item, such as its document, as a column of the item covariates names it.

    Args:
        data: the model's argument.
        names: of the column; or of several that name groups of one kind, such as the two objects of a comparison.

    Returns:
        (n_items,) whole numbers below the size of ``plates.groups(data, name)``, in the order of the items; of
        several columns, (n_items, columns).

    Raises:
        DataError: when the data have no such column, or it does not name a group for each item, or columns have
            other categories.

    Examples:
        >>> import pandas as pd
        >>> from crowdppl import Annotations
        >>> book = pd.DataFrame({"book": ["b", "a", "b"]}, index=["x", "y", "z"])
        >>> dicts = {"ann": {"x": "spam", "y": "ham"}, "bob": {"z": "spam", "y": "ham"}}
        >>> data = Annotations.from_dicts(dicts, item_covariates=book)
        >>> sorted(crowdppl.primitives.item_groups(data, "book").tolist())
        [0, 1, 1]
    """
    held = block_of(data).item_covariates
    if held is None:
        raise DataError(f"the model reads groups of items, and {no_covariates('item')}")
    return held.groups(*names)[0]


def annotator_covariates(data: Data, *names: Hashable) -> Tensor:
    """Covariates of each annotator, as numbers: years of practice, or whether they were trained.

    They are the ``annotator_covariates`` of the annotations.

    Args:
        data: the argument of the model's ``model`` or ``setup``.
        names: of columns; by default all, in the order of the table.

    Returns:
        (A, D), in the order of ``data.annotators``, in torch's default dtype.

    Raises:
        DataError: when the data have none, lack a column, or a column does not hold a finite number for each
            annotator.

    Examples:
        >>> import pandas as pd
        >>> from crowdppl import Annotations
        >>> from crowdppl.primitives import annotator_covariates
        >>> people = pd.DataFrame({"years": [3, 20]}, index=["bob", "ann"])
        >>> dicts = {"ann": {"x": "spam", "y": "ham"}, "bob": {"x": "spam", "y": "ham"}}
        >>> annotator_covariates(Annotations.from_dicts(dicts, annotator_covariates=people), "years")
        tensor([[20.],
                [ 3.]])
    """
    return _numbers(block_of(data).annotator_covariates, "annotator", names)


def label_covariates(data: Data, *names: Hashable) -> Tensor:
    """Covariates of each label, as numbers: the seconds that it took, or its turn among the annotator's labels.

    They are the ``label_covariates`` of the annotations. Labels that annotators have yet to give are taken to be
    like those that they gave: tables (``Posterior.confusion``) are means over the covariates of their labels.

    Args:
        data: the argument of the model's ``model`` or ``setup``.
        names: of columns; by default all, in the order of the table.

    Returns:
        (S, D), in the order of labels in which ``annotate`` takes what it is given, in torch's default dtype.

    Raises:
        DataError: when the data have none, lack a column, or a column does not hold a finite number for each label.

    Examples:
        >>> from crowdppl import Annotations
        >>> from crowdppl.primitives import label_covariates
        >>> dicts = {"ann": {"x": "spam", "y": "ham"}, "bob": {"x": "spam", "y": "ham"}}
        >>> rows = Annotations.from_dicts(dicts).frame().assign(seconds=[3, 20, 8, 5])
        >>> data = Annotations.from_frame(rows, label_covariates=["seconds"])
        >>> sorted(label_covariates(data, "seconds").tolist())
        [[3.0], [5.0], [8.0], [20.0]]
    """
    block = block_of(data)
    held = block.label_covariates
    if block.n_classes == 0 and held is not None and not names:
        names = tuple(name for name in held.names if name != NUMBER)
    return _numbers(held, "label", names)


def _numbers(held: CovariateColumns | None, entity: str, names: tuple[Hashable, ...]) -> Tensor:
    """Columns of a table of covariates, as numbers."""
    if held is None:
        raise DataError(f"the model reads {entity}_covariates, and {no_covariates(entity)}")
    return held.chosen(names).to(torch.get_default_dtype())
