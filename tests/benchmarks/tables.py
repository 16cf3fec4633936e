"""Tables in Markdown."""

from collections.abc import Iterable, Sequence

import numpy as np


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table: the first column to the left, the others to the right.

    Args:
        header: names of the columns.
        rows: cells as text, one for each column.
    """
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    for line in lines:
        if len(line) != len(header):
            raise ValueError(f"the row {list(line)} has {len(line)} cells, the header {len(header)}")
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def seconds(value: float) -> str:
    if value < 1:
        return f"{1000 * value:.3g} ms"
    return f"{value:.3g} s"


def times(ratio: float) -> str:
    return f"{ratio:.1f}x" if ratio < 10 else f"{ratio:,.0f}x"


def mean_and_error(values: np.ndarray, digits: int = 1, *, signed: bool = False) -> str:
    """A mean ± its standard error, or a dash where there are no values."""
    if np.isnan(values).any():
        return "-"
    error = values.std(ddof=1) / np.sqrt(values.size)
    return f"{values.mean():{'+' if signed else ''}.{digits}f} ± {error:.{digits}f}"
