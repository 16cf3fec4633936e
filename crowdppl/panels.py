"""Panels of confusion matrices: a grid of axes, and one matrix on each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from crowdppl.posterior import Posterior

MOST_TEXT = 10
"""Classes up to which the shares are written into a matrix and the classes named."""


def grid(n: int, n_classes: int) -> np.ndarray:
    """Axes for n confusion matrices in a grid."""
    import matplotlib.pyplot as plt

    columns = _columns(n)
    rows = -(-n // columns)
    side = 1.4 + 0.35 * min(n_classes, MOST_TEXT)
    size = (side * columns, side * rows)
    axes = plt.subplots(rows, columns, squeeze=False, figsize=size, layout="constrained")[1].ravel()
    for spare in axes[n:]:
        spare.remove()
    return axes[:n]


def draw_matrix(axes: Axes, posterior: Posterior, code: int) -> None:
    """One confusion matrix, with the shares written in where there is room."""
    data, table = posterior.data, posterior.result.table[code]
    axes.imshow(table, cmap="Greys", vmin=0, vmax=1, aspect="auto")
    if max(table.shape) <= MOST_TEXT:
        for (row, column), share in np.ndenumerate(table):
            color = "white" if share > 0.55 else "black"
            text = f"{share:.2f}".removeprefix("0") if share < 0.995 else "1"
            axes.text(column, row, text, ha="center", va="center", color=color, fontsize="small")
        labels = [str(name) for name in data.answers]
        slanted: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
        axes.set_xticks(range(len(labels)), labels, **(slanted if max(map(len, labels)) > 4 else {}))
        axes.set_yticks(range(len(data.classes)), [str(name) for name in data.classes])
    axes.set_xlabel("label")
    axes.set_ylabel("truth")
    axes.set_title(f"annotator {data.annotators[code]}", fontsize="medium")


def name_outer_only(axes: np.ndarray) -> None:
    """Names places at the left and the lower edge of a grid alone, for all panels have the same."""
    columns = _columns(len(axes))
    for n, panel in enumerate(axes):
        if n % columns:
            panel.set_ylabel("")
            panel.tick_params(axis="y", labelleft=False)
        if n + columns < len(axes):
            panel.set_xlabel("")
            panel.tick_params(axis="x", labelbottom=False)


def _columns(n: int) -> int:
    return int(np.ceil(np.sqrt(n)))
