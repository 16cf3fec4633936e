"""Simulation-based calibration: does an engine find the posterior of a model?"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from crowdppl import registry
from crowdppl.core.intervals import check_level
from crowdppl.core.validation import whole_number
from crowdppl.data.annotations import Annotations, require_annotations
from crowdppl.errors import CrowdpplWarning, MethodError
from crowdppl.inference.confusions import tables_at
from crowdppl.inference.draws import draws_of
from crowdppl.inference.engines import ENGINES, refuse_engine
from crowdppl.inference.fit import fit_one
from crowdppl.inference.options import FitOptions, Options, options_from
from crowdppl.inference.problem import Problem, build_problem, model_runs
from crowdppl.plots.axes import DARK, LIGHT, MIDDLE, axes_or_new
from crowdppl.primitives.model import Model, set_up
from crowdppl.simulation.crowd import Simulation, simulate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SETS = 2000
"""Sets of uniform ranks from which the band is found."""
STYLES = ("-", "--", "-.", ":")


@dataclass(frozen=True, repr=False)
class RankCheck:
    """Ranks of true values among posterior draws; uniform if the engine samples the exact posterior.

    Attributes:
        method, inference: what was checked.
        true: DataFrame simulation x quantity, at the parameters from which the data were drawn.
        draws: (simulations, L) by quantity, at draws of the posterior given these data.
        unsettled: number of fits by vb or svi that had not converged.
        bins: of ranks, for p-values.
    """

    method: str
    inference: str
    true: pd.DataFrame
    draws: Mapping[str, np.ndarray]
    unsettled: int
    bins: int

    def __repr__(self) -> str:
        head = f"<RankCheck of {self.method} by {self.inference} in {len(self.true)} simulations: p = "
        return f"{head}{self.p_value:.3g}>\n" + self.table.to_string(float_format=lambda x: f"{x:.3g}")

    @cached_property
    def ranks(self) -> pd.DataFrame:
        """Simulation x quantity: how many of the L draws are below the true value; ties are broken at random."""
        lot = np.random.default_rng(0)
        found = {}
        for name, draws in self.draws.items():
            true = self.true[name].to_numpy()[:, None]
            found[name] = (draws < true).sum(1) + lot.integers((draws == true).sum(1) + 1)
        return pd.DataFrame(found, index=self.true.index)

    @property
    def n_draws(self) -> int:
        """L, the draws among which a true value is ranked."""
        return int(next(iter(self.draws.values())).shape[1])

    @cached_property
    def table(self) -> pd.DataFrame:
        """DataFrame by quantity.

        mean: of the ranks as shares of L, ideally 1/2; below, the posterior is too high. spread: their standard
        deviation over that of uniform ones, ideally 1; above, the posterior is too narrow. p_value: of a chi-square
        test of uniform bins of ranks.
        """
        from scipy.stats import chisquare  # slow to import

        n = self.n_draws + 1
        home = np.arange(n) * self.bins // n
        even = np.bincount(home) / n * len(self.ranks)
        rows = {
            name: {
                "mean": rank.mean() / self.n_draws,
                "spread": rank.std(ddof=0) / np.sqrt((n**2 - 1) / 12),
                "p_value": float(chisquare(np.bincount(home[rank], minlength=self.bins), even).pvalue),
            }
            for name, rank in self.ranks.items()
        }
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("quantity")

    @property
    def p_value(self) -> float:
        """One p-value for all quantities: the smallest times their number (Bonferroni), 1 at most."""
        return float(min(1.0, len(self.table) * self.table["p_value"].min()))

    def plot(self, *, ax: Axes | None = None, level: float = 0.95) -> Axes:
        """Draws how far the distribution of the ranks of each quantity is from uniform.

        A line above the band means a posterior that is too high, one below it a posterior that is too low; above
        on the left and below on the right, it is too narrow. The band contains the whole line of uniform ranks with
        probability ``level``, for each quantity alone (Säilynoja, Bürkner & Vehtari 2022, "Graphical test for
        discrete uniformity and its applications in goodness-of-fit evaluation and multiple sample comparison").

        Args:
            ax: axes to draw on; made if absent.
            level: probability of the band.

        Raises:
            MethodError: when the level is not between 0 and 1.
        """
        check_level(level)
        axes = axes_or_new(ax, 6.4, 4.2)
        n = self.n_draws + 1
        place = np.arange(1, n + 1) / n
        low, high = uniform_band(len(self.ranks), n, level)
        band = f"{level:.0%} of uniform ranks"
        axes.fill_between(place, low - place, high - place, color=LIGHT, linewidth=0, label=band)
        axes.axhline(0, color=MIDDLE, linestyle=":", linewidth=1)
        for number, (name, rank) in enumerate(self.ranks.items()):
            share = np.cumsum(np.bincount(rank, minlength=n)) / len(rank)
            outside = bool(((share < low - 1e-9) | (share > high + 1e-9)).any())
            shade = (DARK, MIDDLE)[number // len(STYLES) % 2] if outside else "0.6"
            style: dict[str, Any] = {"color": shade, "linewidth": 1.8 if outside else 0.9}
            text = f"{name}{' (outside)' if outside else ''}"
            axes.plot(place, share - place, STYLES[number % len(STYLES)], label=text, **style)
        axes.set_xlabel(f"share of the {self.n_draws} posterior draws below the true value")
        axes.set_ylabel("simulations with a lower rank,\nshare beyond uniform")
        axes.set_title(f"{self.method} by {self.inference}, {len(self.ranks)} simulations", fontsize="medium")
        at: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.17)}
        axes.legend(ncols=2, fontsize="small", frameon=False, **at)
        return axes


def uniform_band(n_ranks: int, n_values: int, level: float) -> tuple[np.ndarray, np.ndarray]:
    """The band, low and high, (n_values,), of cumulative shares of n_ranks uniform ranks below n_values,
    simulated, which holds all of them with probability ``level``.
    """
    from scipy.stats import binom  # slow to import

    place = np.arange(1, n_values + 1) / n_values
    count = np.arange(n_ranks + 1)[:, None]
    tail = np.minimum(binom.cdf(count, n_ranks, place), binom.sf(count - 1, n_ranks, place))
    drawn = np.random.default_rng(0).multinomial(n_ranks, np.full(n_values, 1 / n_values), SETS).cumsum(1)
    least = tail[drawn, np.arange(n_values)].min(1)
    inside = tail >= np.quantile(least, 1 - level)
    low = inside.argmax(0) / n_ranks
    return low, (n_ranks - inside[::-1].argmax(0)) / n_ranks


Values = Mapping[str, np.ndarray]
Quantity = Callable[[Values], np.ndarray]
SHORT: dict[str, FitOptions] = {
    "gibbs": {"chains": 33, "draws": 21, "warmup": 20},
    "nuts": {"chains": 1, "draws": 99, "warmup": 50},
}
"""Runs for small data; of gibbs's 693 draws every 7th is ranked."""
BINS, A_BIN = 20, 10
"""Most bins of ranks, and simulations that each must expect."""
LEAST = 20
"""Least number of simulations."""


def rank_check(
    model: str | Model,
    design: Annotations,
    *,
    inference: str = "gibbs",
    simulations: int = 200,
    ranks: int = 99,
    quantities: Mapping[str, Quantity] | None = None,
    **options: Unpack[FitOptions],
) -> RankCheck:
    """Checks whether an engine finds the posterior of a model, on data drawn from the model.

    Parameters are drawn from the prior, truths and labels from them, and the model is fitted to these labels. If
    the engine samples the exact posterior, the rank of the true value among L independent posterior draws is
    uniform on 0 to L, for any quantity (Talts et al. 2018, "Validating Bayesian inference algorithms with
    simulation-based calibration"). It is not uniform if the posterior is approximate (vb, svi), chains
    have not converged, their draws are correlated, or code is wrong; the check cannot tell these apart.

    Quantities are the log-likelihood of the labels, the log-probability of truths that are classes (drawn with
    each draw of the parameters), the mean accuracy of annotators, and one number a site that does not depend on
    the order of classes or annotators: the mean entropy of proportions, the entropy of all one-hot vectors
    together, the mean of anything else. Constant ones are left out.

    Args:
        model: a method by name or a model, with a proper prior; its ``setup`` is called with the design, once.
        design: who labels what, as ``random_design`` gives; small, because every simulation is a fit. Known truths
            are not drawn, so ranks of their prevalence mean nothing.
        inference: the engine; not one that gives points.
        simulations: how many data sets.
        ranks: L. Draws of a sampler are thinned to this number; take longer runs if they are correlated.
        quantities: further ones, each a function of the sites' values (n, *site) that gives (n,).
        options: as for ``fit``. By default gibbs runs 33 chains of 21 draws after 20, nuts one of 99 after 50.

    Raises:
        DataError: when the design is not annotations.
        MethodError: when the engine cannot fit the model or gives points, for too few simulations or draws, or a
            quantity of the wrong shape.

    Examples:
        >>> from crowdppl.testing import rank_check
        >>> design = crowdppl.random_design(8, 3, 2, classes=2, seed=0)
        >>> many_chains = {"chains": 99, "draws": 1, "warmup": 10}
        >>> check = rank_check("one_coin", design, inference="gibbs", simulations=20, **many_chains)
        >>> list(check.table.index)
        ['log-likelihood', 'truths', 'mean accuracy', 'ability']
        >>> check.p_value > 0.001
        True
    """
    design, ranks = (require_annotations(design, "design"), whole_number("ranks", ranks, 1, "99 are usual"))
    simulations = whole_number("simulations", simulations, LEAST, "200 are better")
    ready = set_up(registry.resolve(model), design)
    chosen = options_from(cast("FitOptions", {**SHORT.get(inference, {}), **options}))
    seeds = np.random.SeedSequence(chosen.seed).generate_state(simulations)
    found: dict[str, list[np.ndarray]] = {}
    unsettled = 0
    for seed in seeds.tolist():
        one = replace(chosen, seed=seed)
        values, settled = _simulated(ready, design, inference, one, ranks, quantities or {})
        unsettled += not settled
        for name, x in values.items():
            found.setdefault(name, []).append(x)
    both = {name: np.stack(x) for name, x in found.items() if np.ptp(x) > 0}
    true = pd.DataFrame({name: x[:, 0] for name, x in both.items()}).rename_axis("simulation")
    bins = max(2, min(BINS, simulations // A_BIN, ranks + 1))
    name = registry.name_of(ready) or type(ready).__name__
    return RankCheck(name, inference, true, {name: x[:, 1:] for name, x in both.items()}, unsettled, bins)


def _simulated(
    model: Model, design: Annotations, inference: str, options: Options, ranks: int, more: Mapping[str, Quantity]
) -> tuple[dict[str, np.ndarray], bool]:
    """Every quantity at the true value and at posterior draws, (1 + ranks,); whether the fit converged."""
    drawn = simulate(model, design, seed=options.seed)
    with model_runs(model, drawn.data, options.device):
        problem = build_problem(model, drawn.data, options)
        sample = ENGINES[inference].sample
        if sample is not None:  # without the rest of a fit: diagnostics would take longer than so few draws
            refuse_engine(model, inference, options)
            found, *_ = sample(problem)
            wide, settled = _thinned(found, inference, ranks), True
        else:
            sites, settled = _fitted(model, drawn, inference, options)
            wide = draws_of(problem, sites, drawn.data.order, ranks, options.generator(12))
        for name, x in wide.items():
            wide[name] = torch.cat([_true_value(problem, name, drawn, x), x])
        return _quantities(problem, wide, drawn, more), settled


def _thinned(found: Mapping[str, Tensor], inference: str, ranks: int) -> dict[str, Tensor]:
    """So many of a sampler's draws (chains, draws, ...), evenly spread."""
    have = int(np.prod(next(iter(found.values())).shape[:2]))
    if have < ranks:
        raise MethodError(f"ranks={ranks}, but {inference} has {have} draws; raise draws or chains")
    at = ((torch.arange(ranks) + 0.5) * have / ranks).long()
    return {name: x.flatten(0, 1)[at.to(x.device)] for name, x in found.items()}


def _fitted(model: Model, drawn: Simulation, inference: str, options: Options) -> tuple[Mapping[str, Any], bool]:
    """The posterior of each site as vb or svi has it, and whether the fit settled."""
    with warnings.catch_warnings(action="ignore", category=CrowdpplWarning):
        result = fit_one(model, drawn.data, inference, options).result
    points = [name for name, site in result.sites.items() if site.family == "point"]
    if points:
        raise MethodError(f"{inference} gives a point for {points[0]!r}, not draws; use gibbs or vb")
    return result.sites, bool(result.diagnostics["converged"])


def _true_value(problem: Problem, name: str, drawn: Simulation, like: Tensor) -> Tensor:
    """The true value of a site as engines hold it, (1, ...): Dirichlets as log theta, items by position."""
    site = problem.sites[name]
    true = site.of_items(torch.from_numpy(drawn.parameters[name]), drawn.data.order)
    return site.statistic(true).to(like).reshape(1, *like.shape[1:])


def _in_item_order(problem: Problem, name: str, x: Tensor, order: np.ndarray) -> Tensor:
    """Values of a site on the model's scale, (n, *site), items in the order of ``data.items``."""
    site = problem.sites[name]
    x = site.value(x).reshape(len(x), *site.shape(problem.n_items)).cpu()
    return site.of_items(x, np.argsort(order), lead=1)


def _quantities(
    problem: Problem, wide: Mapping[str, Tensor], drawn: Simulation, more: Mapping[str, Quantity]
) -> dict[str, np.ndarray]:
    n = len(next(iter(wide.values())))
    fold = problem.full_pass(n)
    total = fold(wide, marginals=() if problem.truth is None else (problem.truth,), extra=lambda first: None)
    found = {"log-likelihood": total.objective}
    if problem.truth is not None:
        table, prevalence = tables_at(problem, wide, n)
        right = table.diagonal(dim1=-2, dim2=-1).mean(-2)  # (n, K) of the K answers that are classes
        found["truths"] = _truths(total.marginals[problem.truth].cpu(), drawn, problem.options.seed)
        found["mean accuracy"] = (right * prevalence).sum(-1)
    values = {s: _in_item_order(problem, s, x, drawn.data.order) for s, x in wide.items()}
    found |= {name: _summary(problem.sites[name].kind, problem.sites[name].space, x) for name, x in values.items()}
    plain = {name: x.double().cpu().numpy() for name, x in found.items()}
    for name, of in more.items():
        plain[name] = np.asarray(of({s: x.numpy() for s, x in values.items()}), np.float64)
        if plain[name].shape != (n,):
            raise MethodError(
                f"the quantity {name!r} has shape {plain[name].shape}; it must be ({n},), one a value"
            )
    return plain


def _truths(share: Tensor, drawn: Simulation, seed: int) -> Tensor:
    """Log-probability of the truths that were drawn with each value of the parameters: (K, n, N) to (n,)."""
    by_item, stream = share.movedim(0, -1), torch.Generator().manual_seed(seed + 1)
    code = torch.multinomial(by_item.flatten(0, 1), 1, generator=stream).reshape(by_item.shape[:2])
    code[0] = torch.from_numpy(drawn.data.classes.get_indexer(pd.Index(drawn.truth))[drawn.data.order])
    return share.gather(0, code[None])[0].clamp(min=1e-300).log().sum(-1)


def _summary(kind: str, space: str, x: Tensor) -> Tensor:
    """One number for each of n values of a site, invariant to the order of classes and annotators."""
    if kind == "onehot":
        x = x.flatten(1, -2).mean(1)
    flat: Tensor = torch.special.entr(x).sum(-1) if kind == "onehot" or space == "simplex" else x
    return flat.reshape(len(x), -1).mean(-1)
