"""What annotators answer on an item of each class, read off a story at parameters or draws of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from crowdppl.data.bags import Bags
from crowdppl.data.blocks import Block
from crowdppl.inference.reading.problem import Problem
from crowdppl.inference.reports.fresh import fresh_items
from crowdppl.inference.reports.report import WIDTH, Draws, density_of
from crowdppl.networks.sight import networks_of

TYPICAL = 64
"""Items that stand for all others where what networks see of an item decides how it is labelled."""
LINEAR = 1e-5
"""Difference of float32 probabilities that is rounding."""
ELSEWHERE = 1e-9
"""Weight of items for classes that are not their most probable, where labels do not depend on the truth."""


def tables_at(problem: Problem, values: Mapping[str, Tensor], chains: int | None) -> tuple[Tensor, Tensor]:
    """What each annotator would answer on a fresh item of each class, whatever the story.

    Every (annotator, answer) pair is put to the story as an item with that one label; Bayes' rule turns the
    posterior of its truth and its evidence into p(answer | annotator, truth). That is averaged over what sites of
    single items may be for a fresh item, such as its difficulty: errors on hard items are errors, too. Where labels
    depend on what networks see of an item, it is averaged over items that are there, each as much of a class as the
    story takes it to be before any label. Where they depend on that alone, and tell nothing of the truth (mmlc,
    conal), an item is of its most probable class: the truth that such a story draws is no more like an annotator's
    label than two annotators' labels are, so that who is right in three of four cases would seem to be in .58.

    Returns:
        ([C,] A, K, L) tables and ([C,] K) prevalence.
    """
    block = problem.blocks[0]
    probe = probe_block(block)
    views, total, ruled, tables = _views(problem, block, probe), torch.zeros(()), torch.zeros(()), None
    alike, told = True, False
    for view in views:
        joint, before = _joint(problem, values, chains, view), tables
        total, ruled, tables = total + joint, ruled + _of_the_likeliest(joint), _tables(joint, block)[0]
        alike = alike and (before is None or torch.allclose(before, tables, atol=LINEAR))
        told = told or _tell_of_the_truth(joint, block)
    if len(views) == 1 or not alike:
        found, prevalence = _tables(total, block)
        return found if told else _tables(ruled, block)[0], prevalence
    # Networks, if there are any, speak of the truth alone.
    return _tables(_joint(problem, values, chains, probe), block)


def _tell_of_the_truth(joint: Tensor, block: Block) -> bool:
    """Whether any label that names a class makes another truth of one seen item as probable as before, or not."""
    share = joint / joint.sum(0).clamp(min=1e-300)
    labels = share[..., :-1].reshape(*share.shape[:-1], block.n_annotators, block.n_answers)[..., : block.n_classes]
    return not torch.allclose(labels, share[..., -1, None, None].expand_as(labels), atol=LINEAR)


def _of_the_likeliest(joint: Tensor) -> Tensor:
    """The same where the truth of the seen item is its most probable class; others count where no item is of it."""
    share = joint[..., -1] / joint[..., -1].sum(0)
    weight = torch.zeros_like(share).scatter(0, share.argmax(0, keepdim=True), 1.0) + ELSEWHERE * share
    return joint * (weight / joint[..., -1].clamp(min=1e-300)).unsqueeze(-1)


def _joint(problem: Problem, values: Mapping[str, Tensor], chains: int | None, probe: Block) -> Tensor:
    """Probability of truth and label of each item of ``probe``, (K, [C,] items), up to a factor."""
    assert problem.truth is not None
    local = [n for n, s in problem.sites.items() if s.local]
    given = {n: x for n, x in values.items() if n not in local}
    density, joint = density_of(problem, chains), torch.zeros(())
    for own in fresh_items(density, probe, given, local):
        one = density(probe, given | own, marginals=(problem.truth,))
        share = one.marginals[problem.truth].double()
        joint = joint + share * one.per_item.double().exp()
    return joint


def _tables(joint: Tensor, block: Block) -> tuple[Tensor, Tensor]:
    """Tables and prevalence, from the probabilities of truth and label of the items of ``probe_block``."""
    prevalence = joint[..., -1] / joint[..., -1].sum(0)
    conditional = joint[..., :-1] / prevalence.clamp(min=1e-300).unsqueeze(-1)
    conditional = conditional.reshape(*conditional.shape[:-1], block.n_annotators, block.n_answers)
    if block.abstainers is not None:
        conditional[..., ~block.abstainers, block.n_classes :] = 0
    total = conditional.sum(-1, keepdim=True)
    even = torch.full_like(conditional, 1 / block.n_answers)
    tables = torch.where(total > 0, conditional / total.clamp(min=1e-300), even)
    return tables.movedim(0, -2), prevalence.movedim(0, -1)


def _views(problem: Problem, block: Block, probe: Block) -> list[Block]:
    """The items of ``probe`` as each of some typical items is seen; none where a classifier alone looks."""
    if block.seen is None or not networks_of(problem.story).keys() - {"network"}:
        return []
    at = torch.linspace(0, block.n_items - 1, min(TYPICAL, block.n_items)).round().long().tolist()
    return [
        replace(
            probe,
            seen={name: x[n].expand(probe.n_items, *x.shape[1:]) for name, x in block.seen.items()},
            _views={},
        )
        for n in at
    ]


def probe_block(block: Block) -> Block:
    """One item for each (annotator, answer) pair, and one without labels."""
    cells, known = block.n_annotators * block.n_answers, block.item_covariates
    every = torch.arange(cells + 1, dtype=torch.int32, device=block.device)
    bags = Bags(cells + 1, cells, every[:-1], every, every[:-1], None, None)
    # Everyone may abstain here: an answer of probability 0 would be no item that a story can have.
    return replace(
        block,
        bags=bags,
        gold=None,
        evidence=None,
        features=None,
        seen=None,
        item_covariates=known and known.average(cells + 1),
        abstainers=None,
        offset=0,
        scale=1.0,
        tempered=False,
        dtype=torch.float64,
        _views={},
    )


def table_draws(problem: Problem, draws: Draws) -> tuple[np.ndarray, np.ndarray]:
    """(n, A, K, L) float32 draws of the annotators' tables and (n, K) of the prevalence."""
    block = problem.blocks[0]
    n = next(iter(draws.values())).shape[0]
    step = max(1, min(32, WIDTH // (block.n_annotators * block.n_answers * problem.states)))
    tables, prevalence = [], []
    for start in range(0, n, step):
        some = {name: x[start : start + step] for name, x in draws.items()}
        table, share = tables_at(problem, some, len(next(iter(some.values()))))
        tables.append(table.float().cpu().numpy())
        prevalence.append(share.cpu().numpy())
    # In C order, as a file has them: sums over them are then the same, to the last bit, after load.
    return np.ascontiguousarray(np.concatenate(tables)), np.ascontiguousarray(np.concatenate(prevalence))


def are_linear(problem: Problem, crossed: Draws) -> bool:
    """Whether truth and answer together are linear in each site of shares; the mean table is then that at the mean.

    They are not where a one-hot site chooses among rows of others, or a row is used twice.

    Args:
        problem: the story and data.
        crossed: as from ``crowdppl.inference.reading.draws.crossed``.
    """
    if not len(next(iter(crossed.values()))):
        return True
    tables, prevalence = table_draws(problem, crossed)
    joint = tables * prevalence[:, None, :, None]
    one, other, middle = joint[::3], joint[1::3], joint[2::3]
    return bool(np.allclose(middle, (one + other) / 2, rtol=0, atol=LINEAR))
