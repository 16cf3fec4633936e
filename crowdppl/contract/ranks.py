"""Ranks of true values among posterior draws, and how far they are from uniform."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl.pictures.canvas import DARK, LIGHT, MIDDLE, axes_or_new
from crowdppl.statistics.estimates import check_level

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SETS = 2000
"""Sets of uniform ranks from which the band is found."""
STYLES = ("-", "--", "-.", ":")


@dataclass(frozen=True, repr=False)
class RankCheck:
    """Ranks of true values among posterior draws, which are uniform where an engine samples the exact posterior.

    Attributes:
        method, inference: what was checked.
        true: DataFrame simulation x quantity, at the parameters from which the data were drawn.
        draws: (simulations, L) by quantity, at draws of the posterior given these data.
        unsettled: fits by vb or svi that had not settled; the few draws of samplers cannot tell.
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
        """Simulation x quantity: how many of the L draws lie below the true value; ties are broken by lot."""
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

        mean: of the ranks as shares of L, 1/2 if all is well; less, and the posterior lies too high. spread: their
        standard deviation over that of uniform ones, 1 if all is well; more, and the posterior is too narrow.
        p_value: of a chi-square test that the bins of ranks are filled evenly.
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

        A line above the band means a posterior that lies too high, one below it a posterior that lies too low;
        above on the left and below on the right, it is too narrow. The band holds the whole line of uniform ranks
        with probability ``level``, for each quantity alone (Säilynoja, Bürkner & Vehtari 2022, "Graphical test for
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
        axes.set_xlabel(f"share of the {self.n_draws} posterior draws that lie below the true value")
        axes.set_ylabel("simulations with a lower rank,\nshare beyond uniform")
        axes.set_title(f"{self.method} by {self.inference}, {len(self.ranks)} simulations", fontsize="medium")
        at: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.17)}
        axes.legend(ncols=2, fontsize="small", frameon=False, **at)
        return axes


def uniform_band(n_ranks: int, n_values: int, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Between what all cumulative shares of uniform ranks lie with a given probability: low and high, (n_values,).

    Args:
        n_ranks: how many ranks there are.
        n_values: what each of them can be, from 0 to n_values - 1.
        level: probability, found from simulated sets of ranks.
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
