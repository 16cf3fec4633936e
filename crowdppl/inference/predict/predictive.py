"""Fits to other labels of the same items, and how probable a fit finds bags of labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from pyro import poutine
from torch import Tensor

from crowdppl.data.annotations import Annotations
from crowdppl.data.blocks import Block
from crowdppl.data.covariates import CovariateColumns
from crowdppl.data.ragged import RaggedIndex
from crowdppl.errors import MethodError
from crowdppl.inference.density import nodes
from crowdppl.inference.draws import draws_of
from crowdppl.inference.engines import SelectVolume, fit_model
from crowdppl.inference.options import Options
from crowdppl.inference.predict.priors import PosteriorAsPrior
from crowdppl.inference.predict.update import earlier_evidence, options_of, problem_of
from crowdppl.inference.problem import Problem, build_problem, without_validation
from crowdppl.inference.result import Fit
from crowdppl.inference.tables import WIDTH
from crowdppl.inference.vb.fit import Earlier
from crowdppl.primitives.labels import Labels
from crowdppl.primitives.model import Model

DRAWS = 100
"""Posterior draws over which a prediction is averaged."""


@dataclass(frozen=True)
class Rows:
    """Bags of labels that are to be scored: each is some labels of one item.

    Attributes:
        item: item code of each row, (R,).
        row, cell: row and table cell of each label.
    """

    item: np.ndarray
    row: np.ndarray
    cell: np.ndarray


class TemperedError(MethodError):
    """Labels were scored at a power, so that differences of scores are no probabilities of labels."""


def refit(
    posterior: Fit,
    data: Annotations,
    model: Model | None = None,
    *,
    spread: bool = True,
    select_volume: SelectVolume | None = None,
) -> Fit:
    """The same engine and options on other labels of the same items, started where the old fit ended.

    em and vb continue the old fit; gibbs and nuts start from its truth, svi from where its guide begins. After an
    update, only its own labels are replaced: what earlier labels taught stays.

    Args:
        posterior: the old fit.
        data: the labels.
        story: the method as it was before settings were found in the old labels (groups of annotators, say), which
            are then found anew; by default that of the old fit, with what was found.
        spread: whether standard deviations and entropies over draws are wanted, too; not to be left out of a
            posterior that a user gets.
        select_volume: as for ``fit_model``.
    """
    options = options_of(posterior)
    start = None if posterior.inference == "svi" else warm_start(posterior, data, options)
    anew = model is not None and hasattr(model, "setup")  # what is found anew need not fit the old sites
    earlier = None if anew else Earlier(posterior.result.sites, data.order, options.device)
    again, engine, memory = model or posterior.model, posterior.inference, posterior.memory
    if memory is not None:
        again = PosteriorAsPrior(again, memory.sites)
    said = earlier_evidence(posterior, data)
    found = fit_model(
        again,
        posterior.method,
        data,
        engine,
        options,
        start,
        evidence=said,
        earlier=earlier,
        spread=spread,
        select_volume=select_volume,
    )
    fitted = posterior.model if memory is not None else found.model
    return replace(posterior, model=fitted, data=data, inference=engine, result=found.result, correction=None)


def warm_start(posterior: Fit, data: Annotations, options: Options) -> dict[str, Tensor]:
    """Where a refit starts: the old truth probabilities, kept away from 0, and the old prior parameters."""
    with without_validation("cpu"):
        problem = build_problem(posterior.model, data, replace(options, device="cpu"))
        found, hyper = problem.truth, {s.name: s.shape(problem.n_items) for s in problem.of_kind("hyper")}
    old = {name: site.mean for name, site in posterior.result.sites.items() if name in hyper}
    start = {name: torch.from_numpy(x) for name, x in old.items() if x.shape == hyper[name]}
    if found is not None:
        p = np.clip(posterior.result.probabilities[data.order], 1e-3, None)
        start[found] = torch.from_numpy(p / p.sum(1, keepdims=True))
    return {name: x.to(options.device) for name, x in start.items()}


def predictive(posterior: Fit, rows: Rows, n_draws: int = DRAWS) -> np.ndarray:
    """Log-probability of each row's labels at draws of the posterior: float64 (n draws, R).

    Differences between rows that share labels are what is wanted: log p(more | fewer, draw). An engine that
    gives points counts as one draw; draws of a sampler are taken evenly spread over its chains.

    Raises:
        TemperedError: when the story takes the labels' likelihood to a power.
    """
    return next(predictive_each(posterior, [rows], n_draws))


def predictive_each(posterior: Fit, asked: Iterable[Rows], n_draws: int) -> Iterator[np.ndarray]:
    """The same for one portion of rows after another, at the same draws."""
    options = replace(options_of(posterior), dtype=torch.float64, device="cpu")
    data = posterior.data
    with without_validation("cpu"):
        problem = problem_of(posterior, data, options)
        if label_power(problem) != 1:
            raise TemperedError(
                f"{posterior.method} takes the labels' likelihood to a power (likelihood_power), so that it says how "
                "probable labels are only once the truth is known; give likelihood_power=1 for this"
            )
        families = {site.family for site in posterior.result.sites.values()}
        n = 1 if families <= {"point"} else n_draws
        draws = draws_of(problem, posterior.result.sites, data.order, n, options.generator(12))
    for rows in asked:
        with without_validation("cpu"):  # not around the yield: the caller's settings are the caller's
            block = rows_block(problem, data, rows)
            at = _positions(data, rows.item)
            some = _chunks(draws, len(rows.item) * problem.states) if draws else [{}]
            logs = np.concatenate([_evidence(problem, block, values, at) for values in some])
        yield logs


def label_power(problem: Problem) -> float:
    """The power to which the story takes the labels' likelihood."""
    block = next(block for block in problem.blocks if block.n_items)
    model = poutine.enum(problem.program, first_available_dim=-1 - problem.plates)
    with torch.random.fork_rng():
        trace = poutine.trace(model).get_trace(block.subset(np.arange(1), 1.0))
    return next((float(x["fn"].power) for x in nodes(trace).values() if isinstance(x.get("fn"), Labels)), 1.0)


def _chunks(draws: Mapping[str, Tensor], width: int) -> Iterator[dict[str, Tensor]]:
    n = len(next(iter(draws.values()))) if draws else 0
    step = max(1, min(16, WIDTH // max(1, width)))
    for start in range(0, n, step):
        yield {name: x[start : start + step] for name, x in draws.items()}


def _evidence(problem: Problem, block: Block, draws: Mapping[str, Tensor], at: Tensor) -> np.ndarray:
    """(draws, R) log evidence of rows; local sites stand at the value of the row's item."""
    values = {}
    for name, x in draws.items():
        site = problem.sites[name]
        shape = (*site.batch_shape, *site.event_shape)  # of draws, the last dimensions
        values[name] = x.index_select(x.dim() - len(shape) + shape.index(-1), at) if site.local else x
    chains = len(next(iter(values.values()))) if values else None
    found = problem.density(chains)(block, values).per_item.double()
    if found.shape[-1] != block.n_items:
        raise MethodError(
            f"{type(problem.model).__name__} scores {found.shape[-1]} units where {block.n_items} items are asked "
            "for; held-out labels are scored for stories whose plate is that of items"
        )
    return found.reshape(-1, block.n_items).numpy()


def rows_block(problem: Problem, data: Annotations, rows: Rows) -> Block:
    """A block whose items are the rows, with what is known of each row's item."""
    first = problem.blocks[0]
    bags = RaggedIndex.of_pairs(rows.row, rows.cell, len(rows.item), first.bags.n_cells)
    gold = None if data.gold_codes is None else torch.from_numpy(data.gold_codes[rows.item].astype(np.int64))
    known: dict[str, Any] = {"evidence": said_of(problem, data, rows.item)}
    known["seen"] = seen_of(problem, data, rows.item)
    known["item_covariates"] = covariates_of(problem, data, rows.item)
    return replace(first, bags=bags, gold=gold, features=None, offset=0, scale=1.0, **known)


def said_of(problem: Problem, data: Annotations, item: np.ndarray) -> Tensor | None:
    """What is known of the truth of some items from elsewhere than the labels, (len(item), K), by their codes."""
    parts = [block.evidence for block in problem.blocks if block.evidence is not None]
    return torch.cat(parts)[_positions(data, item)] if parts else None


def seen_of(problem: Problem, data: Annotations, item: np.ndarray) -> dict[str, Tensor] | None:
    """What networks make of some items, (len(item), ...), by their codes; None without any."""
    if problem.blocks[0].seen is None:
        return None
    parts, at = [block.seen for block in problem.blocks if block.seen is not None], _positions(data, item)
    return {name: torch.cat([seen[name] for seen in parts])[at] for name in parts[0]}


def covariates_of(problem: Problem, data: Annotations, item: np.ndarray) -> CovariateColumns | None:
    """Covariates of some items, (len(item), D), by their codes; None without any."""
    found = CovariateColumns.joined(block.item_covariates for block in problem.blocks)
    return None if found is None else found.at(_positions(data, item))


def _positions(data: Annotations, item: np.ndarray) -> Tensor:
    position = np.empty(data.n_items, np.int64)
    position[data.order] = np.arange(data.n_items)
    return torch.from_numpy(position[item])
