"""Probabilities of an item's next answers and of its discrete latents, under a fit."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from crowdppl.core.validation import is_number, shown
from crowdppl.data.annotations import Annotations
from crowdppl.data.blocks import row_codes
from crowdppl.data.covariates import CovariateColumns
from crowdppl.data.kinds.space import number_space
from crowdppl.data.ragged import RaggedIndex, runs
from crowdppl.errors import MethodError
from crowdppl.inference.coin_tables import CoinTables
from crowdppl.inference.confusions import (
    TOGETHER,
    affordable,
    are_linear,
    by_code,
    draw_tables,
    table_draws,
    tables_at,
)
from crowdppl.inference.density import pairs_of
from crowdppl.inference.draws import center_of, crossed, draws_of, mean_of
from crowdppl.inference.predict.predictive import item_values, no_covariates_yet
from crowdppl.inference.predict.update import options_of, problem_of
from crowdppl.inference.problem import Problem, build_problem, model_runs
from crowdppl.inference.result import ClassProbabilities, Fit, SiteResult
from crowdppl.inference.sites import one_item_sites
from crowdppl.inference.typical_labels import TypicalLabels
from crowdppl.inference.vb.engine import with_draws
from crowdppl.networks.outputs import networks_of
from crowdppl.primitives.labels import Labels, NumberLabels
from crowdppl.primitives.model import card_of
from crowdppl.primitives.sums import Summing

MARGINAL_DRAWS = 100
"""Draws of the parameters over which marginals are averaged."""
TABLE_DRAWS = 50
"""Draws of the parameters over which tables of single items are averaged."""
CHUNK = 4_000_000
"""Numbers that one array over several items may hold."""


def item_marginal(posterior: Fit, name: str) -> np.ndarray:
    """Probability of each value of a discrete site of items, (N, T) in codebook order, averaged over draws.

    MethodError when the model sums no such site out, or it does not belong to items alone.
    """
    with model_runs(posterior.model, posterior.data):
        problem = problem_of(posterior, posterior.data, options_of(posterior, device="cpu", dtype=None))
        values, chains = values_of(problem, posterior)
        found = problem.full_pass(chains)(values, marginals=(name,)).marginals
    if name not in found or found[name].dim() != (2 if chains is None else 3):
        raise MethodError(f"{posterior.method} has no discrete site {shown(name)} of items")
    share = found[name].double()
    return by_code((share if chains is None else share.mean(1)).t().numpy(), posterior.data.order)


def values_of(problem: Problem, posterior: Fit) -> tuple[dict[str, Tensor], int | None]:
    """Values of all sites over which marginals are averaged, and how many: None for one that stands for all."""
    stored, order = posterior.result.sites, posterior.data.order
    if not all(site.independent for site in stored.values()):
        return draws_of(problem, stored, order, MARGINAL_DRAWS, problem.options.generator(15)), MARGINAL_DRAWS
    return _centre(problem, posterior), None


def _centre(problem: Problem, posterior: Fit) -> dict[str, Tensor]:
    """One value of each site that stands for all."""
    values = center_of(problem, posterior.result.sites, list(problem.sites))
    return {name: problem.sites[name].of_items(x, posterior.data.order) for name, x in values.items()}


def drawn_truths(posterior: Fit, n: int, seed: int, mean: np.ndarray | None = None) -> Iterator[np.ndarray]:
    """n draws of the truths of all items together, codes (N,) in codebook order, each at a draw of the parameters.

    With ``mean`` (N, K), probabilities at draws are weighed by class so that they have about this mean, and truths
    are drawn item by item.
    """
    order, options = posterior.data.order, options_of(posterior, device="cpu", dtype=None, seed=seed)
    with model_runs(posterior.model, posterior.data):
        problem = problem_of(posterior, posterior.data, options).telling
        values = draws_of(problem, posterior.result.sites, order, n, options.generator(16))
    truth, stream = str(problem.truth), options.generator(17)
    portion = max(1, min(TOGETHER, CHUNK // max(1, problem.n_items * problem.states)))

    def shares(start: int, how: Summing | None) -> np.ndarray:
        """Of some draws, probabilities or drawn truths as those of one class, (N, draws, K)."""
        some, parts = {name: x[start : start + portion] for name, x in values.items()}, []
        count = min(portion, n - start)
        with model_runs(posterior.model, posterior.data):
            fold = problem.full_pass(count if some else None)
            for block in (b for b in problem.blocks if b.n_items):
                given: Any = {} if how is None else {"how": how}
                found = fold.density(block, fold.in_block(some, block), marginals=(truth,), **given)
                share = found.marginals[truth].double()
                parts.append(share.reshape(len(share), -1, block.n_items).expand(-1, count, -1))
        return by_code(torch.cat(parts, -1).permute(2, 1, 0).numpy(), order)

    starts, weight = range(0, n, portion), None
    if mean is not None:
        weight = mean / np.maximum(sum(shares(start, None).sum(1) for start in starts) / n, 1e-12)
    for start in starts:
        if weight is None:
            drawn = shares(start, Summing("draw", stream)).argmax(-1)
        else:
            p = np.cumsum(shares(start, None) * weight[:, None], -1)
            uniform = torch.rand(p.shape[:2], generator=stream, dtype=torch.float64).numpy()
            drawn = (uniform[..., None] * p[..., -1:] > p).sum(-1).clip(max=p.shape[-1] - 1)
        yield from drawn.T


def chain_steps(
    posterior: Fit, alone: np.ndarray, own: np.ndarray, before: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Probabilities of a class of each item, and of a class given one of the item before it in its sequence.

    Of codes of these classes, (N,) in codebook order. For each draw of the parameters, or the one value that stands
    for all, (draws, N) each; the second is 0 for the first item of a sequence. None where truths are no chain.
    """
    order, n_classes = posterior.data.order, posterior.data.n_classes
    out = list[Tensor]()
    with model_runs(posterior.model, posterior.data):
        problem = problem_of(posterior, posterior.data, options_of(posterior, device="cpu", dtype=None))
        truth = str(problem.truth)
        values, chains = values_of(problem, posterior)
        pairs = n_classes**2 * max(block.n_items for block in problem.blocks)
        portion = max(1, CHUNK // (4 * pairs))  # a pass holds several arrays of pairs
        for start in range(0, chains or 1, portion):
            some = values if chains is None else {n: x[start : start + portion] for n, x in values.items()}
            fold = problem.full_pass(chains and len(range(chains)[start : start + portion]))
            parts = list[Tensor]()
            for block in (b for b in problem.blocks if b.n_items):
                found = fold.density(
                    block, fold.in_block(some, block), marginals=(truth, pairs_of(truth))
                ).marginals
                if pairs_of(truth) not in found:
                    return None
                at = order[block.offset : block.offset + block.n_items]
                codes = (torch.from_numpy(x[at].astype(np.int64)) for x in (alone, own, before))
                parts.append(_steps(found[truth].double(), found[pairs_of(truth)].double(), *codes))
            out.append(torch.cat(parts, -1))
    shares, steps = torch.cat(out, 1).numpy()[..., np.argsort(order)]
    return shares, steps


def _steps(share: Tensor, pairs: Tensor, alone: Tensor, own: Tensor, before: Tensor) -> Tensor:
    """(2, C, n): shares of classes, and of classes given others before; from (K, [C,] n) and (K, K, [C,] n)."""
    item = torch.arange(len(own))
    pair, given = pairs[before, own, ..., item], pairs.sum(1)[before, ..., item]
    step = torch.where(given > 0, pair / given.clamp(min=torch.finfo(given.dtype).tiny), 0.0)
    return torch.stack([share[alone, ..., item], step]).reshape(2, len(own), -1).transpose(1, 2)


def redrawn(posterior: Fit) -> Fit:
    """A loaded fit that makes on demand the draws that its files lack, the same as before."""
    result = posterior.result
    if not isinstance(result.truth, ClassProbabilities) or not any(
        x is not None and x.left_out for x in (result.truth.spread, result.draws)
    ):
        return posterior

    def problem() -> Problem:
        options = options_of(posterior)
        with model_runs(posterior.model, posterior.data, options.device):
            return problem_of(posterior, posterior.data, options)

    return replace(posterior, result=with_draws(problem, result, posterior.data.order))


def mean_field_tables(posterior: Fit, n: int) -> np.ndarray | CoinTables:
    """n draws of annotators' tables under vb's mean field, which costs no linear response: (n, A, K, L) float32."""
    options = options_of(posterior, device="cpu", dtype=None)
    with model_runs(posterior.model, posterior.data):
        problem = problem_of(posterior, posterior.data, options)
        sites = posterior.result.mean_field().sites
        return draw_tables(problem, sites, posterior.data.order, n, options.generator(8)).tables


class Asked:
    """Items of a fit that annotators, codes (A,), may be asked about."""

    def __init__(self, posterior: Fit, annotators: np.ndarray) -> None:
        self.data, self.annotators = posterior.data, annotators
        item, self._cell = row_codes(self.data.blocks, self.data.order)
        self._starts = np.searchsorted(item, np.arange(self.data.n_items + 1))

    @property
    def ids(self) -> pd.Index[Any]:
        """Of what is asked about."""
        return self.data.items

    def columns(self, codes: np.ndarray) -> dict[str, pd.Index[Any]]:
        """The columns that name some of these in a table of results."""
        return self.data.item_columns(codes)

    def answered(self, items: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Who labelled which of some items: places among ``items`` and ``annotators``."""
        place = np.full(self.data.n_annotators, -1)
        place[self.annotators] = np.arange(len(self.annotators))
        row, cell = self._labels(items)
        column = np.asarray(place[cell // self.data.n_answers])
        return row[column >= 0], column[column >= 0]

    def chunks(self, items: np.ndarray, width: int = 1) -> Iterator[np.ndarray]:
        """Items in portions of which arrays stay small; smaller by ``width`` where more is made of them."""
        step = max(1, CHUNK // max(1, len(self.annotators) * self.data.n_answers * width))
        return (items[i : i + step] for i in range(0, len(items), step))

    def _labels(self, items: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Labels of some items: the place of each one's item among ``items``, and its cell."""
        row, place = runs(self._starts[items], self._starts[items + 1] - self._starts[items])
        return row, np.asarray(self._cell[place])


class NumberAnswers(Asked):
    """What a next number tells of a truth that is one, at fitted sites; MethodError where the model does not know.

    Attributes:
        variance: of the number around which an item's labels lie, (N,).
        apart: of the truth around that number, (N,).
        told, of_item: (A, F) and (N, F), whose product is what a label tells of that number (Fisher's information).
    """

    def __init__(self, posterior: Fit, annotators: np.ndarray) -> None:
        super().__init__(posterior, annotators)
        variance, apart, of_item = [], [], []
        with model_runs(posterior.model, posterior.data):
            problem = problem_of(posterior, self.data, options_of(posterior, device="cpu", dtype=None))
            fold, values, integral = problem.full_pass(), _centre(problem, posterior), str(problem.integral)
            for block in problem.blocks:
                found = fold.density(block, fold.in_block(values, block), marginals=(integral,))
                labels = next(x.fn for x in found.sites.values() if isinstance(x.fn, NumberLabels))
                space, moments = number_space(block.space), found.marginals[integral].double().numpy()
                about = map(torch.from_numpy, space.estimate(*moments))
                information = labels.information(*(x.float() for x in about))
                if information is None:
                    raise MethodError(
                        f"{posterior.method} does not say what a further label tells of a number; ask about the "
                        'items of the largest sd: posterior.truth().sort_values("sd", ascending=False)'
                    )
                factors = [x.detach().double().numpy() for x in information]
                self.told = factors[0][annotators]
                of_item.append(factors[1].T)
                apart.append(labels.spread().detach().double().expand(block.n_items).numpy())
                variance.append(np.maximum(space.variance(*moments) - apart[-1], 0))
        every = (by_code(np.concatenate(x), self.data.order) for x in (variance, apart, of_item))
        self.variance, self.apart, self.of_item = every

    def information(self, items: np.ndarray) -> np.ndarray:
        """Mutual information in bits, (n, A), of truths of some items and next labels that are Gaussian."""
        precision, variance = self.of_item[items] @ self.told.T, self.variance[items]
        share = variance / np.maximum(variance + self.apart[items], np.finfo(float).tiny)
        told = precision * variance[:, None]
        return np.asarray(-np.log2(1 - share[:, None] * told / (1 + told)) / 2)

    @property
    def most(self) -> np.ndarray:
        """Of the annotator who tells most, (N,)."""
        every = self.chunks(np.arange(len(self.variance)))
        return np.concatenate([self.information(items).max(1, initial=0) for items in every])


class AnswerTables(Asked):
    """p(next answer | truth, annotator, the item's labels) under a fit.

    The annotators are codes of those who may answer, (A,). Where labels depend on covariates of their own, the next
    one is taken to be like the annotator's labels so far. MethodError when the model sums no truth out; or labels
    depend on more than it, and it takes them to a power or reads covariates of theirs; or tell of it through sites
    alone, and these are points.
    """

    def __init__(self, posterior: Fit, annotators: np.ndarray) -> None:
        super().__init__(posterior, annotators)
        options = options_of(posterior, device="cpu", dtype=None)
        with model_runs(posterior.model, self.data):
            self._problem = build_problem(posterior.model, self.data, options)
            alone = truth_alone(self._problem)
            if not alone and (power := self._problem.label_power):
                raise MethodError(
                    f"{posterior.method} {power.what}, and labels depend on more than the truth of their item; "
                    f"{power.remedy} for this"
                )
            if not alone and self._problem.reads.labels:
                raise no_covariates_yet(posterior)
            points = all(site.family == "point" for site in posterior.result.sites.values())
            if self._problem.reads.own_truths and points:
                raise MethodError(
                    f"{posterior.inference} found points, and given these a label tells nothing of another one by "
                    f"{posterior.method}; fit with inference='vb' or 'gibbs'"
                )
            self._draws = {} if alone else _stored_values(self._problem, posterior)
        table = posterior.result.confusions[annotators].transpose(1, 0, 2)[None]
        self._common: np.ndarray | None = table / table.sum(-1, keepdims=True) if alone else None

    def chunks(self, items: np.ndarray, width: int = 1) -> Iterator[np.ndarray]:
        """Items in portions for which ``at`` stays small."""
        if self._common is None:
            width *= 8 * (self.data.n_classes + self.data.n_labels // max(1, self.data.n_items))
        return super().chunks(items, width)

    def at(self, items: np.ndarray) -> np.ndarray:
        """The tables of some items, (n, K, A, L), or (1, K, A, L) where all share them; rows sum to one."""
        if self._common is not None:
            return self._common
        joint = self._joint(items)
        total = joint.sum(-1, keepdims=True)
        even = np.full_like(joint, 1 / joint.shape[-1])  # of a truth that is impossible
        return np.asarray(np.divide(joint, total, out=even, where=total > 0))

    def _joint(self, items: np.ndarray) -> np.ndarray:
        """p(truth, next answer | the item's labels), (n, K, A, L), a mean over draws.

        Every possible answer is added to the item's labels in turn.
        """
        possible, n_answers = np.ones((len(self.annotators), self.data.n_answers), bool), self.data.n_answers
        if self.data.abstainers is not None:
            possible[~self.data.abstainers[self.annotators], self.data.n_classes :] = False
        tried = (self.annotators[:, None] * n_answers + np.arange(n_answers))[possible]
        n, m, (row, cell) = len(items), len(tried), self._labels(items)
        bags = np.concatenate([(row[:, None] * m + np.arange(m)).ravel(), np.arange(n * m)])
        cells = np.concatenate([np.repeat(cell, m), np.tile(tried, n)])
        first, truth = self._problem.blocks[0], str(self._problem.truth)
        index = RaggedIndex.of_pairs(bags, cells, n * m, first.bags.n_cells)
        item = np.repeat(items, m)
        known = item_values(self._problem, self.data, item, known_truths=False)
        block = first.with_items(index, **known)
        out = np.zeros((n, self.data.n_classes, possible.size))
        with model_runs(self._problem.model, self._problem):
            density = self._problem.density()
            for draw in range(max(map(len, self._draws.values()), default=1)):
                found = density(block, self._values_of(draw, item), marginals=(truth,))
                log_p = found.per_item.double().numpy().reshape(n, 1, m)
                joint = found.marginals[truth].double().numpy().reshape(-1, n, m).swapaxes(0, 1)
                joint = joint * np.exp(log_p - log_p.max(-1, keepdims=True))
                out[:, :, possible.ravel()] += joint / joint.sum((1, 2), keepdims=True)
        return np.asarray(out.reshape(n, -1, *possible.shape))

    def _values_of(self, draw: int, item: np.ndarray) -> dict[str, Tensor]:
        """One draw of every site, local ones at some items."""
        out = {}
        for name, x in self._draws.items():
            site = self._problem.sites[name]
            out[name] = site.of_items(x[draw].reshape(site.statistic_shape(self.data.n_items)), item)
        return out


def truth_alone(problem: Problem) -> bool:
    """Whether labels of an item depend on its truth alone, found by running the model."""
    if problem.truth is None:
        raise MethodError(f"{type(problem.model).__name__} sums no truth out, so that labels say nothing of it")
    sites = one_item_sites(problem.model, next(b for b in problem.blocks if b.n_items))
    summed = {n for n, x in sites.items() if x.enum_dim is not None}
    if summed != {problem.truth} or any(s.local for s in problem.sites.values()):
        return False
    labels = [x.fn for x in sites.values() if isinstance(x.fn, Labels)]
    truth = sites[problem.truth].value
    # any other state may hold what a network made of the item
    if any(fn.within != "item" or fn.state is not truth for fn in labels):
        return False
    if networks_of(problem.model) and any(callable(fn.log_p) for fn in labels):
        return False
    in_contexts = not problem.linked and any(fn.context is not None for fn in labels)  # of linked items: a label's
    computed = in_contexts or any(not isinstance(fn.log_p, Tensor) for fn in labels)
    return not (computed and problem.reads.items)


def confusion_at(posterior: Fit, at: Mapping[Hashable, float], draws: bool = False) -> np.ndarray:
    """Tables (A, K, L) of labels with these covariates, or their draws (n, A, K, L).

    Covariates that are not named are those of the annotators' own labels. MethodError when the model does not read
    these covariates, or a value is no finite number.
    """
    if not (isinstance(at, Mapping) and all(isinstance(x, bool) or is_number(x) for x in at.values())):
        raise MethodError(f"at={shown(at)} must map label covariates to finite numbers, as in at={{'order': 100}}")
    with model_runs(posterior.model, posterior.data):
        problem = problem_of(posterior, posterior.data, options_of(posterior, device="cpu", dtype=None))
        names = problem.reads.tables
        unread = [name for name in at if name not in names]
        if unread:
            raise MethodError(
                f"{posterior.method} does not label by the covariate {shown(unread[0])}; it labels by "
                f"{', '.join(sorted(map(repr, names))) or 'none'}"
            )
        return _tables_of(posterior, problem, TypicalLabels.of(problem.blocks, names, at), draws)


def labels_by(posterior: Fit, name: str) -> bool:
    """Whether confusions of the model depend on a label covariate."""
    card = card_of(posterior.model)
    if card is None or "label_covariates" not in card.uses:
        return False
    with model_runs(posterior.model, posterior.data):
        problem = problem_of(posterior, posterior.data, options_of(posterior, device="cpu", dtype=None))
        return name in problem.reads.tables


def label_tables(posterior: Fit, data: Annotations, rows: np.ndarray) -> np.ndarray:
    """p(label | truth) of labels in some rows of annotations of the same annotators, (n, K), by mean tables."""
    _, annotator, answer = data.label_codes()
    mean, covariates = posterior.result.confusions[annotator[rows], :, answer[rows]], data.label_covariates
    if covariates is None:
        return np.asarray(mean)
    with model_runs(posterior.model, posterior.data):
        problem = problem_of(posterior, posterior.data, options_of(posterior, device="cpu", dtype=None))
        if not problem.reads.tables:
            return np.asarray(mean)
        columns, found = CovariateColumns.of(covariates, "label"), []
        size = 3 * len(problem.sites) * data.n_answers * problem.states  # of the tables that ``are_linear`` holds
        for some in np.array_split(rows, -(-len(rows) * size // CHUNK)):
            mine = torch.from_numpy(some)
            labels = TypicalLabels.of_annotators(
                torch.from_numpy(annotator[some]).long(), columns and columns.at(mine)
            )
            found.append(_tables_of(posterior, problem, labels))
        return np.asarray(np.concatenate(found)[np.arange(len(rows)), :, answer[rows]])


def _tables_of(posterior: Fit, problem: Problem, labels: TypicalLabels, draws: bool = False) -> np.ndarray:
    """Mean tables, exact where they are linear in shares, else over draws; or the draws."""
    sites, stream = posterior.result.sites, problem.options.generator(16)
    if not draws and all(site.independent for site in sites.values()):
        mean = mean_of(problem, sites, [n for n, site in problem.sites.items() if not site.local])
        points = all(site.family == "point" for site in sites.values())
        if points or (mean and are_linear(problem, crossed(problem, mean, stream))):
            return tables_at(problem, mean, None, labels)[0].numpy()
    if posterior.result.draws is None:
        raise MethodError(f"{posterior.inference} found a point without draws; fit with vb, gibbs or nuts")
    values = draws_of(problem, sites, posterior.data.order, affordable(problem), stream)
    if draws:
        return np.asarray(table_draws(problem, values, labels).tables)
    total, n = np.zeros(()), len(next(iter(values.values())))
    step = max(1, CHUNK // (len(labels.share) * problem.blocks[0].n_answers * problem.states))
    for start in range(0, n, step):  # those of many labels are too many to keep
        some = {name: x[start : start + step] for name, x in values.items()}
        total = total + np.asarray(table_draws(problem, some, labels).tables).sum(0, dtype=np.float64)
    return total / n


def _stored_values(problem: Problem, posterior: Fit) -> dict[str, Tensor]:
    """Values of sites, (draws, ...), items in codebook order: draws of a sampler, else the means.

    Where labels have a truth each, one tells of another through the sites alone, of which there must be draws.
    """
    stored, n_draws = posterior.result.sites, TABLE_DRAWS
    if not problem.reads.own_truths and not any(site.family == "draws" for site in stored.values()):
        stored, n_draws = {n: SiteResult(n, s.dims, "point", {"value": s.mean}) for n, s in stored.items()}, 1
    return draws_of(problem, stored, np.arange(posterior.data.n_items), n_draws, problem.options.generator(14))
