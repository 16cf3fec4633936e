"""What annotators would answer on fresh items, and the truth of items: confusions, prevalence and quantiles."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crowdppl.core.collective import reduced
from crowdppl.core.devices import require_memory, return_memory
from crowdppl.data.blocks import Block
from crowdppl.data.kinds.space import number_space
from crowdppl.data.ragged import RaggedIndex
from crowdppl.inference.coin_tables import CoinTables
from crowdppl.inference.density import Density
from crowdppl.inference.draws import draws_of
from crowdppl.inference.problem import Problem
from crowdppl.inference.result import NumberTruth, OnDemand, SiteResult, TableDraws, TruthSpread
from crowdppl.inference.sites import Site
from crowdppl.inference.starts import PriorMeans
from crowdppl.inference.typical_labels import TypicalLabels
from crowdppl.networks.outputs import networks_of
from crowdppl.primitives.distributions import bits
from crowdppl.primitives.labels import CategoricalLabels, Coin, Coins, OwnTruthLabels, is_large
from crowdppl.primitives.model import Model

LOOKS = 8
"""Quantiles that stand for a prior: of GLAD's difficulties, they give accuracies to within .004."""


def new_item_quantiles(
    density: Density, block: Block, given: Mapping[str, Tensor], names: Sequence[str]
) -> Iterator[dict[str, Tensor]]:
    """Values of items' own sites which together stand for the prior of a fresh item, given everything shared.

    Sites of one number go through evenly spaced quantiles of their prior; several are paired at random, since
    they are independent. The rest stand at the prior mean: quantiles of many numbers would take many more looks.

    All items of the block get the same values. Without sites of items there is one look, at nothing.
    """
    if not names:
        yield {}
        return
    stream = torch.Generator(device=block.device).manual_seed(0)
    with PriorMeans(stream):
        found = density.sites(block, given)
    plain = {n: found[n].value.detach() for n in names}
    plain = {n: density.families[n].statistic(x) if n in density.families else x for n, x in plain.items()}
    moving = {n: found[n].fn for n in names if _quantile(found[n].fn, 0.5, block.device) is not None}
    shuffled = {n: torch.randperm(LOOKS, generator=stream, device=block.device).tolist() for n in moving}
    for look in range(LOOKS if moving else 1):
        at = {n: _quantile(fn, (shuffled[n][look] + 0.5) / LOOKS, block.device) for n, fn in moving.items()}
        yield plain | {n: x for n, x in at.items() if x is not None}


def _quantile(fn: Any, share: float, device: torch.device) -> Tensor | None:
    """A quantile of each of the distributions of one number, [C,] items; None where there is none to be had."""
    if fn.event_shape:
        return None
    try:
        out: Tensor = fn.icdf(torch.full(fn.batch_shape, share, dtype=torch.float64, device=device)).detach()
    except (NotImplementedError, AttributeError):
        return None
    return out


MOST_DRAWS = 200
"""Draws that a result keeps of tables, and over which the truth is averaged at least."""
SMALL_DRAWS, NUMBERS = 1_000, 500_000
"""Draws kept where all of them are few numbers: ends of intervals are then known to a fifteenth of a standard
deviation, of 200 draws to a seventh."""
FEWEST_DRAWS, HELD = 50, 100_000_000
"""Draws that vb makes of very large tables, at least, and the numbers that more than these may take."""
JOINED = 2
"""Copies of draws that are there while their parts are joined."""
AT_ONCE = 4_000_000
"""Numbers in the draws of sites that are made together."""
WIDTH = 2_000_000
"""Numbers in the largest array of a pass over several draws; ten times as many take memory, and no less time."""
TOGETHER = 64
"""Draws in a pass over small data: fewer pay more for passes, more gain nothing."""
DRAWN, AT_EASE = 32, 100_000
"""Draws of which tables are computed together, and numbers in an array up to which it is more: a pass over few
numbers costs the same however many draws they are of."""
Draws = Mapping[str, Tensor]


def thinned(draws: Draws, n: int) -> dict[str, Tensor]:
    """At most n draws, evenly spread over what there is."""
    have = next(iter(draws.values())).shape[0]
    at = torch.linspace(0, have - 1, min(n, have)).round().long()
    return {name: x[at.to(x.device)] for name, x in draws.items()}


def affordable(problem: Problem) -> int:
    """How many draws are made, or kept: by the size of sites and annotators' tables, which are to fit in memory."""
    size = _size(problem)
    wanted = max(MOST_DRAWS, min(SMALL_DRAWS, NUMBERS // size))
    return max(FEWEST_DRAWS, min(wanted, HELD // size))


def _size(problem: Problem) -> int:
    """Numbers in a draw of all sites, or in the annotators' tables."""
    block = problem.blocks[0]
    return max(problem.numbers, block.n_annotators * block.n_classes * block.n_answers)


def truth_over(problem: Problem, draws: Draws, order: np.ndarray) -> tuple[np.ndarray, TruthSpread]:
    """Each item's truth probabilities averaged over draws, (N, K) in codebook order, and how they vary."""
    assert problem.truth is not None
    n_draws = next(iter(draws.values())).shape[0]
    step = max(1, min(TOGETHER, WIDTH // problem.width))
    sums: list[Tensor] = []  # of probabilities (K, N), of their squares, and of entropies in bits (N,)
    for start in range(0, n_draws, step):
        some = {n: x[start : start + step] for n, x in draws.items()}
        more = _truth_sums(problem, some, len(next(iter(some.values()))))
        sums = [a.add_(b) for a, b in zip(sums, more, strict=True)] if sums else list(more)
    return truth_of_sums([n_draws, *sums], order)


def truth_of_sums(sums: Sequence[Any], order: np.ndarray) -> tuple[np.ndarray, TruthSpread]:
    """As ``truth_over``, of the number of draws, and sums of probabilities (K, N), squares and entropies (N,)."""
    mean, square, own = (x / sums[0] for x in sums[1:])
    variance = (square - mean.square()).clamp(min=0)
    entropies = torch.stack([bits(mean), own], -1)
    share, sd, both = (by_code(x.cpu().numpy(), order) for x in (mean.t(), variance.sqrt().t(), entropies))
    return share, TruthSpread(sd, both)


def _truth_sums(problem: Problem, values: Draws, chains: int) -> Sequence[Tensor]:
    """Sums over chains of truth probabilities (K, N), of their squares, and of entropies in bits (N,)."""
    problem = problem.telling
    assert problem.truth is not None
    fold, found = problem.full_pass(chains), list[tuple[Tensor, ...]]()
    for block in (b for b in problem.blocks if b.n_items):
        one = fold.density(block, fold.in_block(values, block), marginals=(problem.truth,), sparse=True)
        found.append(one.sites[problem.truth].fn.sums(one.marginals[problem.truth].double()))
    return found[0] if len(found) == 1 else [torch.cat(x, -1) for x in zip(*found, strict=True)]


def by_code(x: np.ndarray, order: np.ndarray) -> np.ndarray:
    """From positions to codebook order along the first dimension; quickest where memory runs along it."""
    return x.T.take(np.argsort(order), -1).T


def as_draws(values: Draws, chains: int | None) -> Draws:
    """Values of all sites as draws (n, ...): themselves where they are of ``chains``, else a single one."""
    return values if chains is not None else {n: x.unsqueeze(0) for n, x in values.items()}


def number_truth(problem: Problem, draws: Draws, order: np.ndarray) -> NumberTruth:
    """Truths that are numbers, over draws of the parameters (n, ...)."""
    assert problem.integral is not None
    n_draws = next(iter(draws.values())).shape[0] if draws else 1
    step = max(1, min(TOGETHER, WIDTH // (max(problem.n_items, problem.n_labels) * problem.states)))
    total = torch.zeros((), dtype=torch.float64)
    for start in range(0, n_draws, step):
        some = {n: x[start : start + step] for n, x in draws.items()}
        chains = len(next(iter(some.values()))) if some else 1
        fold = problem.full_pass(chains if some else None)
        moments = fold(some, marginals=(problem.integral,)).marginals[problem.integral].double()
        total = total + (moments.sum(1) if moments.dim() == 3 else chains * moments)  # without a site, one for all
    mean, sd = number_space(problem.blocks[0].space).estimate(*(total / n_draws).cpu().numpy())
    mean, sd = problem.space.of_modelled(mean + problem.origin, sd)
    known = [b.gold for b in problem.blocks if b.gold is not None and b.gold.is_floating_point()]
    if known:  # exactly, for a difference of squares is rounded
        gold = torch.cat(known).cpu().numpy()
        mean, sd = np.where(np.isnan(gold), mean, gold), np.where(np.isnan(gold), sd, 0.0)
    return NumberTruth(by_code(mean, order), OnDemand.of(by_code(sd, order)))


def truth_at(problem: Problem, values: Mapping[str, Tensor], chains: int | None, order: np.ndarray) -> np.ndarray:
    """Truth probabilities (N, K) in codebook order at one value of the parameters (particles are averaged)."""
    return shares_by_code(shares_at(problem, values, chains), order)


def shares_at(problem: Problem, values: Mapping[str, Tensor], chains: int | None) -> Tensor:
    """The same by position, (N, K) as the transpose of what a pass makes."""
    assert problem.truth is not None
    if chains is not None and problem.sums_others:  # without the probabilities of all classes at each particle
        return (_truth_sums(problem, values, chains)[0] / chains).t()
    marginal = problem.telling.full_pass(chains)(values, marginals=(problem.truth,)).marginals[problem.truth]
    return (marginal if chains is None else marginal.double().mean(1)).t()


def shares_by_code(shares: Tensor, order: np.ndarray) -> np.ndarray:
    """Probabilities (N, K) in codebook order as float64, from those by position, whose memory they may take."""
    return_memory(len(shares))
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    found = shares.t().double().cpu().contiguous().numpy()
    for row in found:  # a class at a time: a second table of all items would be large
        row[:] = row.take(place)
    return found.T


def site_dims(model: Model, site: Site) -> tuple[str, ...]:
    """One name for each dimension of a site's value, from the method's card where it has one.

    K K becomes truth, label; a lone K becomes class; other letters become what they count.
    """
    sizes = (*site.batch_shape, *site.event_shape)
    card = getattr(model, "card", None)
    words = card.sites.get(site.name, "").split() if card is not None else []
    if len(words) != len(sizes):
        return tuple("item" if n == -1 else f"{site.name}_dim_{i}" for i, n in enumerate(sizes))
    plain = {"N": "item", "A": "annotator", "L": "answer", "O": "object"}
    twice = words.count("K") + words.count("L") > 1 and "K" in words
    out: list[str] = []
    for word in words:
        if word == "K":
            name = ("label" if "truth" in out else "truth") if twice else "class"
        else:
            name = "label" if word == "L" and twice else plain.get(word, word.lower())
        while name in out:
            name += "_"
        out.append(name)
    return tuple(out)


TYPICAL = 64
"""Items that stand for all others where what networks see of an item decides how it is labelled."""
LINEAR = 1e-5
"""Difference of float32 probabilities that is rounding."""
ELSEWHERE = 1e-9
"""Weight of items for classes that are not their most probable, where labels do not depend on the truth."""


def tables_at(
    problem: Problem, values: Mapping[str, Tensor], chains: int | None, labels: TypicalLabels | None = None
) -> tuple[Tensor, Tensor]:
    """What each annotator would answer on a fresh item of each class, whatever the model.

    Every (annotator, answer) pair is put to the model as an item with that one label; Bayes' rule turns the
    posterior of its truth and its evidence into p(answer | annotator, truth). That is averaged over what sites of
    single items may be for a fresh item, such as its difficulty: errors on hard items are errors, too. Where labels
    depend on what networks see of an item, it is averaged over items that are there, each as much of a class as the
    model takes it to be before any label. Where they depend on that alone, and tell nothing of the truth (mmlc,
    conal), an item is of its most probable class: the truth that such a model draws is no more like an annotator's
    label than two annotators' labels are, so that who is right in three of four cases would seem to be in .58.
    Where labels depend on covariates of their own, it is averaged over ``labels``, by default those of the problem;
    where the model reads item covariates, over those of the items. Where labels have a truth each, the tables are
    of that, and the prevalence is the mean over items.

    Returns:
        ([C,] A, K, L) tables and ([C,] K) prevalence.
    """
    if problem.reads.own_truths:
        return _of_own_truths(problem, values, chains)
    block, labels = problem.blocks[0], labels or problem.typical_labels
    probe = probe_block(block, labels)
    views: list[Block] = []
    if block.seen is not None and networks_of(problem.model).keys() - {"network"}:  # more than a classifier looks
        for n in torch.linspace(0, block.n_items - 1, min(TYPICAL, block.n_items)).round().long().tolist():
            seen = {name: x[n].expand(probe.n_items, *x.shape[1:]) for name, x in block.seen.items()}
            own = block.item_covariates and block.item_covariates.at(torch.full((probe.n_items,), n))
            views.append(replace(probe, seen=seen, item_covariates=own))
    total, ruled, tables = torch.zeros(()), torch.zeros(()), None
    alike, told = True, False
    for view in views:
        joint, before = _joint(problem, values, chains, view), tables
        total, ruled, tables = total + joint, ruled + _of_the_likeliest(joint), _tables(joint, block, labels)[0]
        alike = alike and (before is None or torch.allclose(before, tables, atol=LINEAR))
        told = told or _tell_of_the_truth(joint, block)
    if len(views) == 1 or not alike:
        found, prevalence = _tables(total, block, labels)
        return found if told else _tables(ruled, block, labels)[0], prevalence
    # Networks, if there are any, speak of the truth alone.
    return _tables(_joint_of_typical_items(problem, values, chains, labels), block, labels)


def _joint_of_typical_items(
    problem: Problem, values: Mapping[str, Tensor], chains: int | None, labels: TypicalLabels
) -> Tensor:
    """``_joint`` averaged over the item covariates that the model reads, (K, [C,] items)."""
    (covariates, share), total = problem.typical_items, torch.zeros(())
    width = len(labels.share) * problem.blocks[0].n_answers + 1
    for some in torch.arange(len(share)).split(max(1, WIDTH // ((chains or 1) * width * problem.states))):
        probe = probe_block(problem.blocks[0], labels, len(some))
        if covariates is not None:
            probe = replace(probe, item_covariates=covariates.at(some.repeat_interleave(width)))
        joint = _joint(problem, values, chains, probe).unflatten(-1, (len(some), width))
        total = total + (share[some].to(joint).unsqueeze(-1) * joint).sum(-2)
    return total


def _of_own_truths(problem: Problem, values: Mapping[str, Tensor], chains: int | None) -> tuple[Tensor, Tensor]:
    """The tables that the model states, and the mean over items of the truths' prior."""
    fold, share, table = problem.full_pass(chains), torch.zeros(()), torch.zeros(())
    for block in problem.blocks:
        sites = fold.density.sites(block, fold.in_block(values, block))
        labels = next(x.fn for x in sites.values() if isinstance(x.fn, OwnTruthLabels))
        table, share = labels.table.double(), share + labels.prior.double().softmax(-1).sum(-2)
    return _chained(table.exp(), 3, chains), _chained(reduced(share) / problem.n_all_items, 1, chains)


def _tell_of_the_truth(joint: Tensor, block: Block) -> bool:
    """Whether any label that names a class makes another truth of one seen item as probable as before, or not."""
    share = joint / joint.sum(0).clamp(min=1e-300)
    labels = share[..., :-1].reshape(*share.shape[:-1], -1, block.n_answers)[..., : block.n_classes]
    return not torch.allclose(labels, share[..., -1, None, None].expand_as(labels), atol=LINEAR)


def _of_the_likeliest(joint: Tensor) -> Tensor:
    """Joint shares where the truth of the seen item is its most probable class; others where no item is of it."""
    share = joint[..., -1] / joint[..., -1].sum(0)
    weight = torch.zeros_like(share).scatter(0, share.argmax(0, keepdim=True), 1.0) + ELSEWHERE * share
    return joint * (weight / joint[..., -1].clamp(min=1e-300)).unsqueeze(-1)


def _joint(problem: Problem, values: Mapping[str, Tensor], chains: int | None, probe: Block) -> Tensor:
    """Probability of truth and label of each item of ``probe``, (K, [C,] items), up to a factor."""
    assert problem.truth is not None
    local = [n for n, s in problem.sites.items() if s.local]
    given = {n: x for n, x in values.items() if n not in local}
    density, joint = problem.density(chains), torch.zeros(())
    for own in new_item_quantiles(density, probe, given, local):
        one = density(probe, given | own, marginals=(problem.truth,))
        share = one.marginals[problem.truth].double()
        joint = joint + share * one.per_item.double().exp()
    return joint


def _tables(joint: Tensor, block: Block, labels: TypicalLabels) -> tuple[Tensor, Tensor]:
    """Tables and prevalence, from the probabilities of truth and label of the items of ``probe_block``."""
    prevalence = joint[..., -1] / joint[..., -1].sum(0)
    conditional = joint[..., :-1] / prevalence.clamp(min=1e-300).unsqueeze(-1)
    conditional = conditional.reshape(*conditional.shape[:-1], -1, block.n_answers)
    if block.abstainers is not None:
        conditional[..., ~block.abstainers[labels.annotator], block.n_classes :] = 0
    total = conditional.sum(-1, keepdim=True)
    even = torch.full_like(conditional, 1 / block.n_answers)
    tables = torch.where(total > 0, conditional / total.clamp(min=1e-300), even)
    if labels.covariates is not None:
        each = tables * labels.share.unsqueeze(-1)
        shape = (*tables.shape[:-2], int(labels.table.max()) + 1, block.n_answers)
        tables = tables.new_zeros(shape).index_add(-2, labels.table, each)
    return tables.movedim(0, -2), prevalence.movedim(0, -1)


def probe_block(block: Block, labels: TypicalLabels, times: int = 1) -> Block:
    """One item for each typical label with each answer, and one without labels; all of these some times over."""
    answers = torch.arange(block.n_answers, device=block.device)
    cells = (labels.annotator.unsqueeze(-1) * block.n_answers + answers).reshape(-1)
    each, known = torch.arange(len(cells), device=block.device), block.item_covariates
    n = times * (len(cells) + 1)
    rows = torch.arange(n, device=block.device).reshape(times, -1)[:, :-1].reshape(-1)
    sides = (rows.cpu().numpy(), cells.repeat(times).cpu().numpy(), n, block.n_annotators * block.n_answers)
    probe = block.with_items(
        RaggedIndex.of_pairs(*sides).to(block.device),
        item_covariates=known and known.average(n),
        label_covariates=labels.covariates and labels.covariates.at((each // block.n_answers).repeat(times)),
    )
    # Everyone may abstain here: an answer of probability 0 would be no item that a model can have.
    return replace(probe, abstainers=None, uses_power=False, dtype=torch.float64)


def tables_read(
    problem: Problem, values: Mapping[str, Tensor], chains: int | None
) -> tuple[np.ndarray | CoinTables, np.ndarray] | None:
    """Tables ([C,] A, K, L) and prevalence ([C,] K) read off the model's own labels.

    None where they are small, or depend on more than truth and annotator. Coins stay coins: one item an
    annotator tells all, and nothing grows with the square of the classes.
    """
    block, truth, model = problem.blocks[0], problem.truth, problem.model
    covariates = block.item_covariates or block.label_covariates
    if not is_large(block) or networks_of(model) or covariates is not None or truth is None:
        return None
    a, cells = block.n_annotators, np.arange(block.n_annotators) * block.n_answers
    probe = block.with_items(RaggedIndex.of_pairs(np.arange(a), cells, a, a * block.n_answers).to(block.device))
    local = [n for n, s in problem.sites.items() if s.local]
    given = {n: x for n, x in values.items() if n not in local}
    density, found = problem.density(chains), list[tuple[Tensor, ...]]()
    for own in new_item_quantiles(density, probe, given, local):
        sites = density.sites(probe, given | own)
        labels = [x.fn for x in sites.values() if isinstance(x.fn, CategoricalLabels)]
        if len(labels) != 1 or [n for n, x in sites.items() if x.enum_dim is not None] != [truth]:
            return None
        parts = _by_annotator(labels[0], sites[truth].value, block)
        if parts is None:
            return None
        found.append(tuple(x.double().exp() for x in parts))
    means = [sum(x) / len(found) for x in zip(*found, strict=True)]
    share = _of_chains(sites[truth].fn.log_p.softmax(-1), 1, chains)
    if len(means) == 1:
        return _of_chains(means[0], 3, chains), share
    right, wrong, other, *near = (_of_chains(x.expand(*x.shape[:-2], a, x.shape[-1]), 2, chains) for x in means)
    coins = labels[0].log_p
    tables = CoinTables(right, wrong, other, block.n_classes, isinstance(coins, Coins) and coins.by_truth)
    if isinstance(coins, Coins) and near:
        every = [np.broadcast_to(x, (*x.shape[:-1], block.n_classes)) for x in near]
        tables = replace(tables, near=np.stack(every, -1), nodes=torch.stack(coins.nodes).cpu().numpy())
    return tables, share


def _of_chains(x: Tensor, dims: int, chains: int | None) -> np.ndarray:
    """What ``_chained`` returns, as an array."""
    return _chained(x, dims, chains).cpu().numpy()


def _chained(x: Tensor, dims: int, chains: int | None) -> Tensor:
    """Numbers of ``dims`` dimensions, after that of the chains where there is one."""
    lead, tail = x.shape[: x.dim() - dims], x.shape[x.dim() - dims :]
    flat = x.reshape(math.prod(lead), *tail)
    return flat[0] if chains is None else flat.expand(chains, *tail)


def _by_annotator(labels: CategoricalLabels, truth: Tensor, block: Block) -> tuple[Tensor, ...] | None:
    """Log-probabilities of a right, a wrong, another and a near answer, ([C,] A, .), or all in one table.

    None where labels depend on more than the truth.
    """
    log_p = labels.log_p
    if isinstance(log_p, Coins):
        right, wrong, other = log_p.log_right, log_p.log_wrong, log_p.log_other
        none = right[..., :0].expand(*right.shape[:-2], block.n_annotators, 0)
        return right, wrong, none if other is None else other, *log_p.log_near
    if isinstance(log_p, Coin):
        right, wrong = (x.unsqueeze(-1) for x in (log_p.log_right, log_p.log_wrong))
        return right, wrong - math.log(block.n_classes - 1), right[..., :0]
    alone = isinstance(log_p, Tensor) and labels.state is truth and labels.groups is None and labels.context is None
    return (log_p,) if isinstance(log_p, Tensor) and alone else None


def among_named(table: np.ndarray) -> np.ndarray:
    """(..., K, L) over answers as (..., K, K) over the classes among them; NaN where none has a probability."""
    n_classes = table.shape[-2]
    if table.shape[-1] == n_classes:
        return table
    classes = table[..., :n_classes]
    total = classes.sum(-1, keepdims=True)
    return np.asarray(np.divide(classes, total, out=np.full_like(classes, np.nan), where=total > 0))


def table_draws(problem: Problem, draws: Draws, labels: TypicalLabels | None = None) -> TableDraws:
    """The annotators' tables and the prevalence at each draw of the parameters; ``labels`` as of ``tables_at``."""
    n = next(iter(draws.values())).shape[0]
    if labels is None and (read := _draws_read(problem, draws)) is not None:
        return read
    labels = labels or problem.typical_labels
    size = len(labels.share) * problem.blocks[0].n_answers * problem.states
    step = max(1, min(max(DRAWN, AT_EASE // size), WIDTH // size))
    parts = list[TableDraws]()
    for start in range(0, n, step):
        some = {name: x[start : start + step] for name, x in draws.items()}
        table, share = tables_at(problem, some, len(next(iter(some.values()))), labels)
        _add(parts, TableDraws(table.float().cpu().numpy(), share.cpu().numpy()), n)
    return _joined(parts)


def _draws_read(problem: Problem, draws: Draws) -> TableDraws | None:
    """Draws of tables read off the model's own labels; None where this is not possible, or they are small."""
    parts, n = list[TableDraws](), len(next(iter(draws.values())))
    start, step = 0, 1
    while start < n:
        some = {name: x[start : start + step] for name, x in draws.items()}
        found = tables_read(problem, some, len(next(iter(some.values()))))
        if found is None:
            return None
        tables, share = found
        small = tables.map(_float32) if isinstance(tables, CoinTables) else _float32(tables)
        _add(parts, TableDraws(small, share), n)
        start += step
        if isinstance(tables, CoinTables):
            step = max(1, min(DRAWN, WIDTH * step // max(tables.right.size, tables.wrong.size)))
    return _joined(parts)


def _float32(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float32)


def _add(parts: list[TableDraws], one: TableDraws, n: int) -> None:
    """One more part of n draws; the first tells how large all will be."""
    if not parts and isinstance(one.tables, np.ndarray):
        remedy = "merge rare classes, drop annotators of few labels, or use em, which makes no draws"
        size = JOINED * n * one.tables.nbytes // len(one.tables)
        require_memory(f"{n} draws of {' x '.join(map(str, one.tables.shape[1:]))} confusions", size, remedy)
    parts.append(one)


def _joined(parts: Sequence[TableDraws]) -> TableDraws:
    """Draws one after another."""
    tables, prevalence = [x.tables for x in parts], np.concatenate([x.prevalence for x in parts])
    coins = [x for x in tables if isinstance(x, CoinTables)]
    if coins:
        return TableDraws(CoinTables.joined(coins), prevalence)
    # In C order, as a file has them: sums over them are then the same, to the last bit, after load.
    return TableDraws(np.ascontiguousarray(np.concatenate(tables)), np.ascontiguousarray(prevalence))


def draw_tables(
    problem: Problem, sites: Mapping[str, SiteResult], order: np.ndarray, n: int, stream: torch.Generator
) -> TableDraws:
    """Tables at n draws from vb's distributions, made in parts where all would take much memory."""
    parts, step = [], max(1, AT_ONCE // _size(problem), WIDTH // problem.numbers)
    for start in range(0, n, step):
        parts.append(table_draws(problem, draws_of(problem, sites, order, min(step, n - start), stream)))
    return parts[0] if len(parts) == 1 else _joined(parts)


def are_linear(problem: Problem, crossed: Draws) -> bool:
    """Whether truth and answer together are linear in each site of shares; the mean table is then that at the mean.

    They are not where a one-hot site chooses among rows of others, or a row is used twice.
    """
    if not len(next(iter(crossed.values()))):
        return True
    drawn = table_draws(problem, crossed)
    if isinstance(drawn.tables, CoinTables):
        joint = drawn.tables.along(drawn.prevalence)
    else:
        joint = drawn.tables * drawn.prevalence[:, None, :, None]
    one, other, middle = joint[::3], joint[1::3], joint[2::3]
    return bool(np.allclose(middle, (one + other) / 2, rtol=0, atol=LINEAR))
