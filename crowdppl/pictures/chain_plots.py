"""Pictures of how a fit went: traces of draws or of the objective, and ranks of draws by chain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdppl.doors.counts import whole_number
from crowdppl.errors import MethodError
from crowdppl.inference.fit_result import SiteResult
from crowdppl.pictures.canvas import DARK, LIGHT, MIDDLE, MOST_ROWS, axes_or_new
from crowdppl.pictures.glyphs import legible
from crowdppl.pictures.lettering import write_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from crowdppl.posterior import Posterior

NAMED_CHAINS = 8
"""Chains that a legend tells apart; of more, only their number is said."""
STYLES = ("-", "--", "-.", ":")
BINS = 20
"""Bins of ranks."""
FILL = 0.85
"""Share of a chain's row that its highest bar fills."""


def plot_trace(posterior: Posterior, site: str | None = None, *, ax: Axes | None = None) -> Axes:
    """Draws how the fit went: a line a chain for samplers, the objective for other engines.

    Args:
        posterior: what a fit returned.
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
        drawn = _traces(axes_or_new(ax), chosen, posterior)
        legible(drawn)
        return drawn
    found = posterior.result.diagnostics
    objectives = found.get("objectives")
    if objectives is None or len(objectives) == 0:
        raise MethodError(f"the fit by {posterior.inference} kept neither draws nor objectives to show")
    last = found.get("iterations", len(objectives))  # objectives are those of the last part of a fit
    axes, place = axes_or_new(ax), np.arange(last - len(objectives), last) + 1
    marker = "o" if len(place) <= MOST_ROWS else ""
    axes.plot(place, objectives, color=DARK, linewidth=1.2, marker=marker, markersize=3)
    axes.locator_params(axis="x", integer=True)
    axes.set_xlabel("iteration")
    axes.set_ylabel("objective (nats)")
    return axes


def plot_ranks(posterior: Posterior, site: str | None = None, *, ax: Axes | None = None, bins: int = BINS) -> Axes:
    """Draws whether chains drew from the same distribution: then each chain's bars are level, up to noise.

    All draws of all chains are ranked together, and each chain's are counted in bins of rank. A chain that lies
    too high has its bars on the right, one that moves too little has them in the middle. The grey band holds 95 %
    of the bars of chains that agree and whose draws are independent; draws that depend on those before leave
    it more often. After Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), "Rank-normalization, folding, and
    localization: an improved R-hat".

    Args:
        posterior: what gibbs or nuts found, in two chains or more.
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
    chosen = _site(posterior, site)
    if chosen is None:
        raise MethodError(f"the fit by {posterior.inference} kept no draws to rank; fit with 'gibbs' or 'nuts'")
    values, where = least_agreed(chosen, posterior)
    n_chains, n_draws = values.shape
    if n_chains < 2:
        raise MethodError("one chain has no other to be ranked with; fit with chains=4")
    if whole_number("bins", bins, 2, "20 are usual") > n_draws:
        raise MethodError(f"bins={bins} must be at most the {n_draws} draws of a chain; 20 are usual")
    if np.ptp(values) == 0:
        raise MethodError(
            f"all draws of {', '.join(where)} are equal, so that they have no ranks; choose another site"
        )
    counts, sizes = rank_counts(values, bins)
    axes = axes_or_new(ax, 6.4, max(2.6, 1.2 + 0.45 * n_chains))
    _rank_bars(axes, counts, sizes)
    axes.set_xlabel(f"rank among the {values.size:,} draws of all chains")
    axes.set_ylabel("chain\n(height: draws)")
    write_title(axes, where)
    legible(axes)
    return axes


def least_agreed(site: SiteResult, posterior: Posterior) -> tuple[np.ndarray, list[str]]:
    """Draws (chains, draws) of the entry with the largest variance between chains, relative to within.

    Besides, the parts of its name, between which go commas.
    """
    draws = site.arrays["draws"]
    flat = draws.reshape(*draws.shape[:2], -1)
    between, within = flat.mean(1).var(0), flat.var(1).mean(0)
    entry = int(np.argmax(between / np.maximum(within, np.finfo(np.float64).tiny)))
    names, at = _names(posterior), np.unravel_index(entry, draws.shape[2:])
    places = zip(site.dims, at, strict=True)
    where = [f"{dim} {names[dim][int(n)]}" if dim in names else f"{dim} {n}" for dim, n in places]
    if where:
        where[0] = f"{site.name} ({where[0]}"
        where[-1] += ")"
    return flat[..., entry], where or [site.name]


def rank_counts(values: np.ndarray, bins: int) -> tuple[np.ndarray, np.ndarray]:
    """Draws of each chain in each bin of rank, (chains, bins), and of all chains, (bins,); equal ones share theirs.

    Args:
        values: draws (chains, draws).
        bins: of the ranks, as equal as their number allows.
    """
    from scipy.stats import rankdata  # slow to import

    ranks = rankdata(values).reshape(values.shape)
    home = np.minimum(((ranks - 0.5) * bins / values.size).astype(np.int64), bins - 1)
    counts = np.stack([np.bincount(row, minlength=bins) for row in home])
    return counts, counts.sum(0)


def _site(posterior: Posterior, site: str | None) -> SiteResult | None:
    """The site asked for, among those with draws; None where no site has any."""
    sites = {s.name: s for s in posterior.result.sites.values() if s.family == "draws"}
    if site is not None and not (isinstance(site, str) and site in sites):
        raise MethodError(f"there are no draws of {site!r}; sites with draws: {', '.join(sites) or 'none'}")
    if not sites:
        return None
    return sites[site or ("prevalence" if "prevalence" in sites else next(iter(sites)))]


def _traces(axes: Axes, site: SiteResult, posterior: Posterior) -> Axes:
    """Draws in the background, the mean of each chain so far in front."""
    chains, where = least_agreed(site, posterior)
    steps = np.arange(1, chains.shape[1] + 1)
    axes.plot(steps, chains.T, color=LIGHT, linewidth=0.5)
    for chain, values in enumerate(chains):
        shade = str(round(0.5 * chain / max(1, len(chains) - 1), 2))
        style = STYLES[chain % len(STYLES)]
        mean = np.cumsum(values) / steps
        axes.plot(steps, mean, style, color=shade, linewidth=1.6, label=f"chain {chain + 1}")
    axes.set_xlabel("draw (thick: mean of a chain so far)")
    axes.set_ylabel(site.name)
    few = len(chains) <= NAMED_CHAINS
    write_title(axes, where if few else [*where, f"{len(chains)} chains"])
    if few:
        axes.legend(loc="upper right", fontsize="small", ncols=2)
    return axes


def _rank_bars(axes: Axes, counts: np.ndarray, sizes: np.ndarray) -> None:
    """A row of bars a chain, chain 1 on top; each with its even height, and the band of noise around it."""
    from scipy.stats import hypergeom  # slow to import

    n_chains, n_draws = counts.shape[0], int(counts[0].sum())
    edges = np.concatenate([[0], np.cumsum(sizes)])
    low, high = hypergeom.interval(0.95, edges[-1], n_draws, sizes)
    scale = FILL / max(counts.max(), np.max(high))
    for row, bars in enumerate(counts[::-1]):
        band = {"baseline": row + scale * low, "fill": True, "color": LIGHT, "linewidth": 0, "zorder": 1}
        axes.stairs(row + scale * high, edges, **band)
        axes.stairs(row + scale * bars, edges, baseline=row, color=DARK, linewidth=1, zorder=3)
        even = row + scale * n_draws * sizes / edges[-1]
        axes.stairs(even, edges, baseline=None, color=MIDDLE, linestyle=":", linewidth=1, zorder=2)
    axes.set_yticks(np.arange(n_chains) + scale * n_draws / len(sizes), [str(n) for n in range(n_chains, 0, -1)])
    axes.set_xlim(0, edges[-1])
    axes.set_ylim(0, n_chains)


def _names(posterior: Posterior) -> dict[str, Sequence[Any]]:
    """What places along known dimensions are called."""
    data = posterior.data
    classes, answers = list(data.classes), list(data.answers)
    known = {"class": classes, "truth": classes, "label": answers, "answer": answers}
    return {"item": list(data.items), "annotator": list(data.annotators), **known}
