"""Reading Pyro's traces."""

from __future__ import annotations

from typing import Any

from pyro.poutine import Trace


def nodes(trace: Trace) -> dict[str, Any]:
    """The nodes of a trace by name; each holds a distribution ("fn"), a value, plates and enumeration."""
    found: dict[str, Any] = trace.nodes
    return found


def is_plate(node: Any) -> bool:
    """Whether a node is a plate's own, which says of what there are copies and is no part of the story."""
    return type(node["fn"]).__name__ == "_Subsample"


def is_latent(node: Any) -> bool:
    """Whether a node is a sample statement that is neither observed nor a plate's own bookkeeping."""
    return node["type"] == "sample" and not node["is_observed"] and not is_plate(node)
