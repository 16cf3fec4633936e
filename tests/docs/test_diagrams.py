"""The plate diagrams show what models do, and can be read."""

from dataclasses import replace
from functools import cache
from itertools import combinations

import numpy as np
import pytest

from crowdppl.plots import model_graph
from docs.making import pages


@cache
def graph_of(name: str) -> model_graph.ModelGraph:
    return pages.graph(name)


@pytest.mark.parametrize("name", pages.names())
def test_diagrams_can_be_read(name: str) -> None:
    """Plates hold their variables and no others, nothing overlaps, arrows point down and touch no other."""
    assert not unreadable(graph_of(name), model_graph.arrange(graph_of(name)))


def holds(box: model_graph.Box, oval: model_graph.Oval) -> bool:
    across = box.left < oval.x - oval.rx and oval.x + oval.rx < box.right
    return across and box.top < oval.y - oval.ry and oval.y + oval.ry < box.bottom


def meets(box: model_graph.Box, oval: model_graph.Oval) -> bool:
    return bool(oval.covers(np.clip(oval.x, box.left, box.right), np.clip(oval.y, box.top, box.bottom)))


def unreadable(graph: model_graph.ModelGraph, drawn: model_graph.Layout) -> list[str]:
    ovals, wrong = drawn.ovals, []
    for plate, box in drawn.boxes.items():
        members = graph.plates[plate]
        wrong += [f"{n} is not in {plate}" for n in members if not holds(box, ovals[n])]
        wrong += [f"{n} is in {plate}" for n in ovals if n not in members and meets(box, ovals[n])]
    for a, b in combinations(ovals, 2):
        apart = abs(ovals[a].x - ovals[b].x) > ovals[a].rx + ovals[b].rx or abs(ovals[a].y - ovals[b].y) > 54
        wrong += [] if apart else [f"{a} overlaps {b}"]
    for child, parents in graph.parents.items():
        for parent in parents:
            wrong += [f"{parent} -> {child} runs through {n}" for n in model_graph.passed(ovals, parent, child)]
            wrong += [] if ovals[parent].y < ovals[child].y else [f"{parent} is not above {child}"]
    return wrong


def test_an_unreadable_diagram_is_found() -> None:
    graph = graph_of("glad")
    drawn = model_graph.arrange(graph)
    label = drawn.ovals["label"]
    moved = replace(drawn, ovals={**drawn.ovals, "ability": replace(label, y=label.y + 5)})
    found = unreadable(graph, moved)
    assert {"ability is in items", "ability overlaps label", "ability is not above label"} <= {*found}
    through = {**drawn.ovals, "difficulty": replace(label, x=label.x + 20, y=label.y - 50)}
    assert "truth -> label runs through difficulty" in unreadable(graph, replace(drawn, ovals=through))
