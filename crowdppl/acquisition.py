"""Whom to ask about what next: how much one more label is expected to teach about an item's truth."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from crowdppl import choices
from crowdppl.bags import Bags
from crowdppl.codebook import as_index
from crowdppl.decoding import row_codes
from crowdppl.errors import CrowdpplWarning, MethodError
from crowdppl.inference.results import SiteResult

if TYPE_CHECKING:
    from crowdppl.inference.problem import Problem
    from crowdppl.posterior import Posterior

CHUNK = 4_000_000
"""Numbers that one array over several items may hold."""
DRAWS = 50
"""Parameter draws over which the tables of single items are averaged."""
DECIMALS = 9
"""Gains that agree to so many decimals of a bit are a tie: rounding must not break one."""


def worth_asking(
    posterior: Posterior,
    n: int,
    *,
    annotators: Iterable[Any] | None = None,
    exclude_answered: bool = True,
    per_item: int = 1,
    seed: int = 0,
) -> pd.DataFrame:
    """The items, and for each the annotators, whose next label is expected to teach most about the truth.

    The information of a label is the mutual information I(truth; label | labels so far) in bits: the entropy of
    the truth now, less what is expected to be left of it once the label is known (Lindley 1956, On a measure of
    the information provided by an experiment). What the label teaches about annotators is not counted.

    Where there are draws, tables p(answer | annotator, truth) are averaged, not gains: the label will be read by
    someone who does not know which draw is right, and from an annotator who is excellent in half the draws and
    misleading in the others, a label teaches nothing. How the truth of an item and the tables of its annotators
    depend on each other is left out. By em, the gain is exactly that of refitting the item with each possible
    answer, parameters held (``predict`` after vb reads labels by the exponential of mean logarithms instead).

    Where labels share more than the truth (a subtype, an opinion of a group), tables are those of the single item
    given its labels: exact at given parameters, and averaged over 50 draws of samplers. A continuous site of an
    item (a difficulty) stays at its fitted value, an approximation: a label would teach about that, too.

    Args:
        n: how many labels to ask for, all at once.
        annotators: ids of those who can be asked; by default everyone in the data.
        exclude_answered: whether to ask nobody about an item that they labelled already.
        per_item: labels of an item at most: the gains of two labels of one item do not add up.
        seed: of the order among pairs that are worth the same; that of rows and columns has no say.

    Returns:
        DataFrame, best first: item, annotator, information, and entropy of the item's truth now, both in bits.
        Fewer than n rows, with a warning, where there are no more pairs to ask.

    Raises:
        MethodError: when n or per_item is below 1, or no truth is summed out.
        DataError: when an annotator is not one of the fit.
    """
    if n < 1 or per_item < 1:
        raise MethodError(f"n={n}, per_item={per_item}: ask for at least one label, and one an item")
    data, p = posterior.data, posterior.result.probabilities
    names = data.annotators if annotators is None else as_index(annotators)
    remedy = "ask those who gave labels, or list newcomers in annotators= before the fit"
    who = np.unique(data.annotator_book.require(names, "annotators", remedy))
    tables, entropy = AnswerTables(posterior, who), choices.entropy(p)
    best, keys = np.empty((0, 4)), _keys(data.annotators.take(who), seed)
    for items in tables.chunks(np.argsort(-entropy, kind="stable")):
        least = best[-1, 2] if len(best) == n else 0.0
        if least > entropy[items[0]] + 10.0**-DECIMALS:
            break  # no gain exceeds the entropy, which only falls from here on
        gain = np.round(information(p[items], tables.at(items)), DECIMALS)
        if exclude_answered:
            gain[tables.answered(items)] = -1
        some = np.flatnonzero(gain.max(1, initial=-1) >= least)
        key = (_keys(data.items.take(items[some]), seed)[:, None] + keys) * 997 % 1
        best = _merged(best, items[some], gain[some], key, per_item)[:n]
    if len(best) < n:
        text = f"{n} labels are wanted, but with {per_item} an item only {len(best)} are left to ask for"
        warnings.warn(text, CrowdpplWarning, stacklevel=2)
    item, place = best[:, :2].astype(np.int64).T
    columns = {"item": data.items.take(item), "annotator": data.annotators.take(who[place])}
    return pd.DataFrame(columns | {"information": best[:, 2], "entropy": entropy[item]})


def information(probabilities: np.ndarray, tables: np.ndarray) -> np.ndarray:
    """Mutual information in bits, (n, A), of the truth, (n, K), and answers given it, (n or 1, K, A, L)."""
    noise, answer = _entropy(tables), weigh(probabilities, tables)
    return np.asarray(np.clip(_entropy(answer) - weigh(probabilities, noise), 0, None))


def weigh(probabilities: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Means over the truth: (n, K) and (n or 1, K, ...) to (n, ...)."""
    n, k = probabilities.shape
    flat = values.reshape(len(values), k, -1)
    out = probabilities @ flat[0] if len(flat) == 1 else np.einsum("nk,nkx->nx", probabilities, flat)
    return np.asarray(out).reshape(n, *values.shape[2:])


def _entropy(p: np.ndarray) -> np.ndarray:
    return np.asarray(choices.entropy(p.reshape(-1, p.shape[-1])).reshape(p.shape[:-1]))


class AnswerTables:
    """p(next answer | truth, annotator, the item's labels) under a fit.

    Args:
        posterior: the fit.
        annotators: codes of those who may answer, (A,).
    """

    def __init__(self, posterior: Posterior, annotators: np.ndarray) -> None:
        from crowdppl.inference import fitting, problem, refit  # engines are loaded when they are used

        self.data, self.annotators = posterior.data, annotators
        item, self._cell = row_codes(self.data.blocks, self.data.order)
        self._starts = np.searchsorted(item, np.arange(self.data.n_items + 1))
        options = replace(refit.options_of(posterior), device="cpu", dtype=None)
        with problem.quiet("cpu"):
            self._problem = fitting.pose(posterior.story, self.data, options)
            alone = _truth_alone(self._problem)
            self._draws = {} if alone else _values(self._problem, posterior)
        table = posterior.result.table[annotators].transpose(1, 0, 2)[None]
        self._shared: np.ndarray | None = table / table.sum(-1, keepdims=True) if alone else None

    def chunks(self, items: np.ndarray, width: int = 1) -> Iterator[np.ndarray]:
        """Items in portions for which ``at`` stays small; smaller by ``width`` where more is made of it."""
        each = len(self.annotators) * self.data.n_answers * width
        if self._shared is None:
            each *= 8 * (self.data.n_classes + self.data.n_labels // max(1, self.data.n_items))
        step = max(1, CHUNK // max(1, each))
        return (items[i : i + step] for i in range(0, len(items), step))

    def at(self, items: np.ndarray) -> np.ndarray:
        """The tables of some items, (n, K, A, L), or (1, K, A, L) where all share them; rows sum to one."""
        if self._shared is not None:
            return self._shared
        joint = self._joint(items)
        total = joint.sum(-1, keepdims=True)
        even = np.full_like(joint, 1 / joint.shape[-1])  # of a truth that is impossible and weighs nothing
        return np.asarray(np.divide(joint, total, out=even, where=total > 0))

    def answered(self, items: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Who labelled which of some items: places among ``items`` and ``annotators``."""
        place = np.full(self.data.n_annotators, -1)
        place[self.annotators] = np.arange(len(self.annotators))
        row, cell = self.labels(items)
        column = np.asarray(place[cell // self.data.n_answers])
        return row[column >= 0], column[column >= 0]

    def labels(self, items: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Labels of some items: the place of each one's item among ``items``, and its cell."""
        sizes = self._starts[items + 1] - self._starts[items]
        row = np.repeat(np.arange(len(items)), sizes)
        first = np.repeat(self._starts[items] - (np.cumsum(sizes) - sizes), sizes)
        return row, np.asarray(self._cell[first + np.arange(len(row))])

    def _joint(self, items: np.ndarray) -> np.ndarray:
        """p(truth, next answer | the item's labels), (n, K, A, L), by trying every answer; a mean over draws."""
        from crowdppl.inference.density import Density
        from crowdppl.inference.problem import quiet

        may, n_answers = np.ones((len(self.annotators), self.data.n_answers), bool), self.data.n_answers
        if self.data.abstainers is not None:
            may[~self.data.abstainers[self.annotators], self.data.n_classes :] = False
        tried = (self.annotators[:, None] * n_answers + np.arange(n_answers))[may]
        n, m, (row, cell) = len(items), len(tried), self.labels(items)
        rows = np.concatenate([(row[:, None] * m + np.arange(m)).ravel(), np.arange(n * m)])
        cells = np.concatenate([np.repeat(cell, m), np.tile(tried, n)])
        first, out = self._problem.blocks[0], np.zeros((n, self.data.n_classes, may.size))
        bags = Bags.of_pairs(rows, cells, n * m, first.bags.n_cells)
        block = replace(first, bags=bags, gold=None, evidence=None, offset=0, scale=1.0, _views={})
        logs = frozenset(site.name for site in self._problem.of_kind("conjugate"))
        truth, n_draws = str(self._problem.truth), max(map(len, self._draws.values()), default=1)
        with quiet("cpu"):
            density = Density(self._problem.model, self._problem.plates, None, logs)
            for draw in range(n_draws):
                found = density(block, self._cut(draw, np.repeat(items, m)), marginals=(truth,))
                log_p = found.per_item.double().numpy().reshape(n, 1, m)
                joint = found.marginals[truth].double().numpy().reshape(-1, n, m).swapaxes(0, 1)
                joint = joint * np.exp(log_p - log_p.max(-1, keepdims=True))
                out[:, :, may.ravel()] += joint / joint.sum((1, 2), keepdims=True)
        return np.asarray(out.reshape(n, -1, *may.shape))

    def _cut(self, draw: int, items: np.ndarray) -> dict[str, torch.Tensor]:
        """One draw of every site, those of items for the items of the rows."""
        out, at = {}, torch.from_numpy(items)
        for name, x in self._draws.items():
            site = self._problem.sites[name]
            value = x[draw].reshape(site.shape(self.data.n_items))
            out[name] = value.index_select(site.batch_shape.index(-1), at) if site.local else value
        return out


def _truth_alone(problem: Problem) -> bool:
    """Whether an item's truth is all that its labels share, found out by running the story."""
    from pyro import poutine

    from crowdppl.inference.nodes import nodes

    if problem.truth is None:
        raise MethodError(f"{type(problem.story).__name__} sums no truth out, so that labels teach nothing of it")
    model = poutine.enum(problem.model, first_available_dim=-1 - problem.plates)
    with torch.random.fork_rng():  # a prior draw, of which only the structure is used
        found = nodes(poutine.trace(model).get_trace(problem.blocks[0].subset(np.arange(1), 1.0)))
    summed = {name for name, x in found.items() if x["type"] == "sample" and "_enumerate_dim" in x["infer"]}
    apart = any(getattr(x.get("fn"), "within", "item") != "item" for x in found.values())
    return summed == {problem.truth} and not apart and not any(site.local for site in problem.sites.values())


def _values(problem: Problem, posterior: Posterior) -> dict[str, torch.Tensor]:
    """Where sites stand, (draws, ...), items in codebook order: draws of a sampler, else the means."""
    from crowdppl.inference.draws import draws_of

    stored, n_draws = posterior.result.sites, DRAWS
    if not any(site.family == "draws" for site in stored.values()):
        stored, n_draws = {n: SiteResult(n, s.dims, "point", {"value": s.mean}) for n, s in stored.items()}, 1
    return draws_of(problem, stored, np.arange(posterior.data.n_items), n_draws, problem.options.generator(14))


def _merged(best: np.ndarray, items: np.ndarray, gain: np.ndarray, key: np.ndarray, per_item: int) -> np.ndarray:
    """Pairs [item, place of annotator, gain, tie key], the old ones and the best of each item, best first."""
    column = np.lexsort((key, -gain), axis=-1)[:, :per_item]
    row = np.repeat(np.arange(len(items)), column.shape[1])
    column = column.ravel()
    new = np.column_stack([items[row], column, gain[row, column], key[row, column]])
    both = np.concatenate([best, new[new[:, 2] >= 0]])
    return np.asarray(both[np.lexsort((both[:, 3], -both[:, 2]))])


def _keys(ids: pd.Index[Any], seed: int) -> np.ndarray:
    """A number in [0, 1) for each id, from its name and the seed alone."""
    digests = (blake2b(f"{seed}\x1f{x!s}".encode("utf-8", "surrogatepass"), digest_size=6).digest() for x in ids)
    return np.array([int.from_bytes(digest, "big") / 2**48 for digest in digests])
