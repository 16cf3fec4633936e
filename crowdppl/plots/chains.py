"""Plots of how a fit went: draws of chains, their ranks, and the objective."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdppl.core.validation import shown, whole_number
from crowdppl.errors import MethodError
from crowdppl.inference.result import Fit, SiteResult
from crowdppl.plots.axes import ACCENT, DARK, LIGHT, MAX_POINTS, MIDDLE, axes_or_new, short
from crowdppl.results.arviz import coordinates
from crowdppl.results.levels import require_own_model

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_CHAINS = 8
"""Chains whose ranks are drawn."""
STYLES = ("-", "--", "-.", ":")


def plot_trace(posterior: Fit, site: str | None = None, *, ax: Axes | None = None) -> Axes:
    """Draws how the fit went: a line for each chain of samplers, the objective of other engines.

    Args:
        site: whose draws to show, by default "prevalence" or else the first site's; of its entries the one
            on which the chains agree least.
        ax: axes to draw on; made if absent.

    Raises:
        MethodError: when the site has no draws, or the fit kept nothing to show.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="em", seed=0)
        >>> posterior.plot_trace().get_ylabel()
        'objective (nats)'
    """
    chosen = _site(posterior, site)
    if chosen is not None:
        return _draw_traces(axes_or_new(ax), chosen, posterior)
    found = posterior.result.diagnostics
    objectives = found.get("objectives")
    if objectives is None or len(objectives) == 0:
        raise MethodError(f"the fit by {posterior.inference} kept neither draws nor objectives to show")
    last = found.get("iterations", len(objectives))  # objectives are those of the last part of a fit
    axes, place = axes_or_new(ax), np.arange(last - len(objectives), last) + 1
    marker = "o" if len(place) <= MAX_POINTS else ""
    axes.plot(place, objectives, color=ACCENT, linewidth=1.2, marker=marker, markersize=3)
    axes.locator_params(axis="x", integer=True)
    axes.set(xlabel="iteration", ylabel="objective (nats)")
    return axes


def _draw_traces(axes: Axes, site: SiteResult, posterior: Fit) -> Axes:
    """Draws in the background, the mean of each chain so far in front."""
    chains, name = least_agreed(site, posterior)
    steps, few = np.arange(1, chains.shape[1] + 1), len(chains) <= 8
    axes.plot(steps, chains.T, color=LIGHT, linewidth=0.5)
    for chain, values in enumerate(chains):
        style: dict[str, Any] = {"linestyle": STYLES[chain % len(STYLES)], "color": (ACCENT, DARK)[chain // 4 % 2]}
        axes.plot(steps, np.cumsum(values) / steps, linewidth=1.6, label=f"chain {chain + 1}", **style)
    axes.set(xlabel="draw (thick: mean of a chain so far)", ylabel=site.name)
    axes.set_title(name if few else f"{name}, {len(chains)} chains", fontsize="medium", wrap=True)
    if few:
        axes.legend(loc="upper right", fontsize="small", ncols=2)
    return axes


def plot_ranks(posterior: Fit, site: str | None = None, *, ax: Axes | None = None, bins: int = 20) -> Axes:
    """Draws whether chains drew from the same distribution: then each chain's bars are level, up to noise.

    All draws of all chains are ranked together, and each chain's are counted in bins of rank. A chain that lies
    too high has its bars on the right, one that moves too little has them in the middle. The grey band holds 95 %
    of the bars of chains that agree and whose draws are independent. Of more than eight chains, those are drawn
    whose bars differ most from level ones. After Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021),
    "Rank-normalization, folding, and localization: an improved R-hat".

    Args:
        posterior: a fit by gibbs or nuts, of two chains or more.
        site: whose draws to show, by default "prevalence" or else the first site's; of its entries the one
            on which the chains agree least.
        ax: axes to draw on; made if absent.
        bins: of rank.

    Raises:
        MethodError: when there are no draws, a single chain, draws that are all equal, or no such number of bins.

    Examples:
        >>> data = crowdppl.anaesthetists()
        >>> posterior = crowdppl.fit("one_coin", data, inference="gibbs", draws=50, warmup=50, seed=0)
        >>> posterior.plot_ranks("ability").get_xlabel()
        'rank among the 1,600 draws of all chains'
    """
    require_own_model(posterior)
    chosen = _site(posterior, site)
    if chosen is None:
        raise MethodError(f"the fit by {posterior.inference} kept no draws to rank; fit with 'gibbs' or 'nuts'")
    values, name = least_agreed(chosen, posterior)
    n_chains, n_draws = values.shape
    if n_chains < 2:
        raise MethodError("one chain has no other to be ranked with; fit with chains=4")
    if whole_number("bins", bins, 2, "20 are usual") > n_draws:
        raise MethodError(f"bins={bins} must be at most the {n_draws} draws of a chain; 20 are usual")
    if np.ptp(values) == 0:
        raise MethodError(f"all draws of {name} are equal, so that they have no ranks; choose another site")
    counts, sizes = rank_counts(values, bins)
    apart = ((counts - sizes / n_chains) ** 2).sum(1)
    drawn = np.sort(np.argsort(-apart, kind="stable")[:MAX_CHAINS])
    axes = axes_or_new(ax, 6.4, max(2.6, 1.2 + 0.45 * len(drawn)))
    _draw_rank_bars(axes, counts[drawn], sizes, drawn + 1)
    axes.set(xlabel=f"rank among the {values.size:,} draws of all chains", ylabel="chain\n(height: draws)")
    some = f": the {MAX_CHAINS} of {n_chains} chains that differ most" if n_chains > MAX_CHAINS else ""
    axes.set_title(name + some, fontsize="medium", wrap=True)
    return axes


def rank_counts(values: np.ndarray, bins: int) -> tuple[np.ndarray, np.ndarray]:
    """Draws (chains, draws) by bin of rank, of each chain (chains, bins), and of all (bins,); ties share theirs."""
    from scipy.stats import rankdata  # slow to import

    ranks = rankdata(values).reshape(values.shape)
    home = np.minimum(((ranks - 0.5) * bins / values.size).astype(np.int64), bins - 1)
    counts = np.stack([np.bincount(row, minlength=bins) for row in home])
    return counts, counts.sum(0)


def _draw_rank_bars(axes: Axes, counts: np.ndarray, sizes: np.ndarray, number: np.ndarray) -> None:
    """Draws a row of bars for each chain, the first on top, with the height of even bars and the band of noise."""
    from scipy.stats import hypergeom  # slow to import

    n_chains, n_draws = counts.shape[0], int(counts[0].sum())
    edges = np.concatenate([[0], np.cumsum(sizes)])
    low, high = hypergeom.interval(0.95, edges[-1], n_draws, sizes)
    scale = 0.85 / max(counts.max(), np.max(high))  # rows stand apart
    for row, bars in enumerate(counts[::-1]):
        band: dict[str, Any] = {"baseline": row + scale * low, "fill": True, "color": LIGHT, "linewidth": 0}
        axes.stairs(row + scale * high, edges, zorder=1, **band)
        axes.stairs(row + scale * bars, edges, baseline=row, color=ACCENT, linewidth=1, zorder=3)
        even = row + scale * n_draws * sizes / edges[-1]
        axes.stairs(even, edges, baseline=None, color=MIDDLE, linestyle=":", linewidth=1, zorder=2)
    axes.set_yticks(np.arange(n_chains) + scale * n_draws / len(sizes), number[::-1].tolist())
    axes.set(xlim=(0, edges[-1]), ylim=(0, n_chains))


def _site(posterior: Fit, site: str | None) -> SiteResult | None:
    """The named site, among those with draws; None where no site has any."""
    sites = {s.name: s for s in posterior.result.sites.values() if s.family == "draws"}
    if site is not None and not (isinstance(site, str) and site in sites):
        raise MethodError(f"there are no draws of {shown(site)}; sites with draws: {', '.join(sites) or 'none'}")
    if not sites:
        return None
    return sites[site or ("prevalence" if "prevalence" in sites else next(iter(sites)))]


def least_agreed(site: SiteResult, posterior: Fit) -> tuple[np.ndarray, str]:
    """Draws (chains, draws) of the entry with the largest variance between chains, relative to within; its name."""
    draws, names = site.arrays["draws"], coordinates(posterior)
    flat = draws.reshape(*draws.shape[:2], -1)
    between, within = flat.mean(1).var(0), flat.var(1).mean(0)
    entry = int(np.argmax(between / np.maximum(within, np.finfo(np.float64).tiny)))
    at = zip(site.dims, np.unravel_index(entry, draws.shape[2:]), strict=True)
    where = [f"{dim} {short(names[dim][int(n)])}" if dim in names else f"entry {int(n) + 1}" for dim, n in at]
    return flat[..., entry], f"{site.name} ({', '.join(where)})" if where else site.name
