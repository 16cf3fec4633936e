"""Annotators in the plane in which their gates differ most, and the oracle worker among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from crowdppl.criticism.population import centre_of, doubts_of, principal
from crowdppl.data.checking import cell_counts
from crowdppl.doors import demands
from crowdppl.doors.telling import tell
from crowdppl.errors import DoubtWarning, MethodError
from crowdppl.pictures.canvas import DARK, axes_or_new, short
from crowdppl.pictures.glyphs import legible
from crowdppl.tables.codebook import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from crowdppl.posterior import Posterior

CENTRES = {"mode": "*", "mean": "P", "median": "X", "centre": "D"}
"""Marks of what may be taken for the oracle worker."""
NAMED = 6
"""Annotators whose names are written: those who differ most from the oracle worker."""
AREA = 5.0
"""Area of the mark of an annotator with one label in square points; with n labels it is root n times that."""


def annotator_map(posterior: Posterior) -> pd.DataFrame:
    """Where annotators lie in the plane in which their gates differ most, and where the oracle worker does.

    Gates are the weights by which annotators blend the experts of a mixture; the plane is that of their first two
    principal axes, and annotators who are close label alike. Warns when the population has no one centre: when it
    is diffuse, or has several modes (``crowdppl.criticism.population.doubts_of``).

    Args:
        posterior: a fit whose story gives each annotator a ``gate``, such as mmlc.

    Returns:
        DataFrame: kind is "annotator", or the centre of the population that the row is ("mode", "mean", "median",
        and "centre" where it is a latent); annotator, the id, or missing; x and y; labels that were given; away,
        the share of the gate in which the row differs from the oracle worker of the fit (total variation).

    Raises:
        MethodError: when annotators have no gates.

    Examples:
        >>> truth, size = ["cat", "dog"] * 20, [[0.0], [1.0]] * 20
        >>> crowd = crowdppl.simulate_annotators(truth, {"expert": 4, "spammer": 2}, features=size)
        >>> posterior = crowdppl.fit("mmlc", crowd.data, inference="svi", seed=0)
        >>> crowdppl.annotator_map(posterior)["kind"].value_counts().to_dict()
        {'annotator': 6, 'mode': 1, 'mean': 1, 'median': 1}
    """
    gates, centres = _gates(demands.require_posterior(posterior))
    for doubt in doubts_of(posterior):
        tell(str(doubt), DoubtWarning)
    mean, axes, _ = principal(gates)
    every = np.concatenate([gates, *(x[None] for x in centres.values())])
    place, n = (every - mean) @ axes, len(gates)
    chosen = centres[getattr(posterior.story, "oracle", "mode")]
    names: list[Any] = [plain(name) for name in posterior.data.annotators]
    columns = {
        "kind": ["annotator"] * n + list(centres),
        "annotator": pd.Series(names + [None] * len(centres), dtype=object),
        "x": place[:, 0],
        "y": place[:, 1],
        "labels": [*cell_counts(posterior.data.blocks).sum(1), *[0] * len(centres)],
        "away": 0.5 * np.abs(every - chosen).sum(1),
    }
    return pd.DataFrame(columns)


def plot_annotator_map(posterior: Posterior, *, ax: Axes | None = None) -> Axes:
    """Draws annotators in the plane in which their gates differ most, and the oracle worker among them.

    A larger mark is an annotator with more labels. The names are those of the annotators who differ most from the
    oracle worker. One cloud with the mode in its middle is a population with a centre; several clouds, or none,
    have no annotator who stands for all.

    Args:
        posterior: a fit whose story gives each annotator a ``gate``, such as mmlc.
        ax: axes to draw on; made if absent.

    Raises:
        MethodError: when annotators have no gates.

    Examples:
        >>> truth, size = ["cat", "dog"] * 20, [[0.0], [1.0]] * 20
        >>> crowd = crowdppl.simulate_annotators(truth, {"expert": 4, "spammer": 2}, features=size)
        >>> posterior = crowdppl.fit("mmlc", crowd.data, inference="svi", seed=0)
        >>> crowdppl.plot_annotator_map(posterior).get_aspect()
        1.0
    """
    table = annotator_map(posterior)
    share = principal(_gates(posterior)[0])[2]
    axes = axes_or_new(ax, 6.0, 5.2)
    people = table[table["kind"] == "annotator"].sort_values("labels", ascending=False, kind="stable")
    area = AREA * np.sqrt(np.maximum(people["labels"], 1))
    style: dict[str, Any] = {"facecolor": "0.8", "edgecolor": DARK, "linewidth": 0.7, "zorder": 2}
    axes.scatter(people["x"], people["y"], area, label=f"annotator ({len(people):,})", **style)
    oracle = getattr(posterior.story, "oracle", "mode")
    for _, row in table[table["kind"] != "annotator"].iterrows():
        mine = row["kind"] == oracle
        text = f"{row['kind']}, the oracle worker" if mine else row["kind"]
        fill = DARK if mine else "white"
        size = 150 if mine else 70
        axes.scatter(
            row["x"],
            row["y"],
            size,
            marker=CENTRES[row["kind"]],
            facecolor=fill,
            edgecolor=DARK,
            label=text,
            zorder=3,
        )
    far = people.nlargest(NAMED, "away").sort_values("x")
    for n, (_, row) in enumerate(far.iterrows()):  # in turn above and below, for neighbours' names would overlap
        near: dict[str, Any] = {"xytext": (5, -11 if n % 2 else 5), "textcoords": "offset points"}
        axes.annotate(short(row["annotator"]), (row["x"], row["y"]), fontsize="small", **near)
    axes.set_xlabel(f"first axis: {share[0]:.0%} of the spread of gates")
    axes.set_ylabel(f"second axis: {share[1]:.0%} of the spread of gates")
    axes.set_aspect("equal", adjustable="datalim")
    place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.12), "ncols": 2}
    axes.legend(fontsize="small", frameon=False, **place)
    legible(axes)
    return axes


def _gates(posterior: Posterior) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Gates (A, M), posterior means, and what may be taken for their centre, (M,) each."""
    sites = posterior.result.sites
    if "gate" not in sites:
        raise MethodError(
            f"{posterior.method} gives annotators no gates, which the map is of; fit a mixture of experts: mmlc"
        )
    gates = np.asarray(sites["gate"].mean)
    bandwidth = getattr(posterior.story, "bandwidth", None)
    kinds = ("mode", "mean", "median")
    centres = {kind: centre_of(torch.from_numpy(gates), kind, bandwidth).numpy() for kind in kinds}
    return gates, centres | ({"centre": np.asarray(sites["centre"].mean)} if "centre" in sites else {})
