"""Annotators' tables and the prevalence as known truths show them: counted from truths that a map draws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from crowdppl.inference.coin_tables import CoinTables
from crowdppl.inference.result import Fit, OnDemand, TableDraws, Tables
from crowdppl.primitives.labels import LARGE_TABLE
from crowdppl.results.correction import forecasts_of, mapped, members
from crowdppl.results.votes_map import VotesMap

SHRINKAGE = 4.0
"""Pseudo-counts of all annotators' rows that the rows of each annotator have, shared evenly by these."""
LEAST_DRAWS, MOST_DRAWS, MOST_NUMBERS = 20, 200, 20_000_000
"""Draws of tables, and numbers in all of them that bound these."""


def as_shown(fit: Fit) -> Fit:
    """The fit with tables that belong to its probabilities, where these are mapped to known truths; else itself.

    Each draw takes a map, draws a truth of each item by its probabilities (known ones are certain), counts labels
    by it, and draws each row of a table from the Dirichlet distribution of its counts and 4 / K pseudo-counts of
    all annotators' row; the prevalence from that of counts + 1. So intervals tell what is not known of the map, of
    truths, and of new items. After an update, whose earlier labels are gone, tables are the method's own.
    """
    if fit.correction is None or not mapped(fit) or fit.memory is not None:
        return fit
    draws = OnDemand(lambda: _drawn(fit))
    result = replace(fit.result, sites={}, tables=OnDemand(lambda: _mean(draws())), draws=draws)
    return replace(fit, result=result, correction=replace(fit.correction, truth_map=None))


def _drawn(fit: Fit) -> TableDraws:
    """Draws of tables and of the prevalence."""
    data, correction, stream = fit.data, fit.correction, np.random.default_rng(fit.options["seed"])
    assert correction is not None and correction.truth_map is not None
    raw = {name: member.result.probabilities for name, member in members(fit).items()}
    k, shape = data.n_classes, (data.n_annotators, data.n_classes, data.n_answers)
    large = data.n_annotators * k * data.n_answers > LARGE_TABLE
    size = max(data.n_items, data.n_annotators if large else np.prod(shape))
    n = int(max(LEAST_DRAWS, min(MOST_DRAWS, MOST_NUMBERS // size)))
    truth = VotesMap.of(forecasts_of(correction, raw, data), data).truths(correction.truth_map, n, stream)
    if data.gold_codes is not None:
        known = data.gold_codes >= 0
        truth[known] = data.gold_codes[known, None]
    shares = np.stack([np.bincount(one, minlength=k) for one in truth.T]) + 1.0
    labels = data.label_codes()
    if large:
        return TableDraws(_coins(truth, labels, shape, stream), _dirichlet(shares, stream))
    item, annotator, answer = labels
    rows = np.empty((n, *shape), np.float32)
    for number, one in enumerate(truth.T):
        cell = (annotator.astype(np.int64) * k + one[item]) * data.n_answers + answer
        counts = np.bincount(cell, minlength=rows[0].size).reshape(shape)
        every = counts.sum(0) + 1 / data.n_answers
        rows[number] = _dirichlet(counts + SHRINKAGE / k * every / every.sum(1, keepdims=True), stream)
    return TableDraws(rows, _dirichlet(shares, stream))


def _coins(
    truth: np.ndarray, labels: tuple[np.ndarray, ...], shape: tuple[int, ...], stream: np.random.Generator
) -> CoinTables:
    """Draws of large tables: of right, of wrong and of each abstention, whose probabilities no truth changes."""
    (item, annotator, answer), (n_annotators, k, n_answers) = labels, shape
    kinds = n_answers - k + 2
    drawn = np.empty((truth.shape[1], n_annotators, kinds))
    for number, one in enumerate(truth.T):
        kind = np.where(answer < k, answer != one[item], answer - k + 2)
        counts = np.bincount(annotator * kinds + kind, minlength=drawn[0].size).reshape(drawn[0].shape)
        every = counts.sum(0) + 1 / kinds
        drawn[number] = _dirichlet(counts + SHRINKAGE * every / every.sum(), stream)
    return CoinTables(drawn[..., :1], drawn[..., 1:2] / (k - 1), drawn[..., 2:], k)


def _dirichlet(parameter: np.ndarray, stream: np.random.Generator) -> np.ndarray:
    """Draws of shares, along the last dimension."""
    drawn = stream.standard_gamma(parameter) + 1e-300
    return np.asarray(drawn / drawn.sum(-1, keepdims=True))


def _mean(draws: TableDraws) -> Tables:
    """Means over draws."""
    tables, prevalence = draws.tables, draws.prevalence.mean(0)
    if isinstance(tables, CoinTables):
        return Tables(tables.map(lambda x: x.mean(0)), prevalence)
    mean = tables.mean(0, dtype=np.float64)
    return Tables(mean / mean.sum(-1, keepdims=True), prevalence)
