"""Edges between items: what is read and refused, and what becomes of them when data change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl import Annotations
from crowdppl.data.coded import build_blocks
from crowdppl.data.edges import Graph
from crowdppl.data.split import edge_ids, joined
from crowdppl.errors import DataError
from tests.crowd import crowd


def with_edges(edges: Any, n: int = 12) -> Annotations:
    plain = crowd(n, 4, 2, 3)
    return Annotations.from_frame(plain.frame(), classes=list(plain.classes), edges=edges)


def ids(data: Annotations) -> set[frozenset[Any]]:
    found = edge_ids(data)
    assert found is not None
    return {frozenset(pair) for pair in found.to_numpy().tolist()}


def chain(data: Annotations) -> list[tuple[Any, Any]]:
    return [*zip(data.items[:-1].tolist(), data.items[1:].tolist(), strict=True)]


def test_pairs_are_read_once_in_any_form() -> None:
    pairs = chain(crowd(12, 4, 2, 3))
    twice = [*pairs, *((b, a) for a, b in pairs)]
    wanted = {frozenset(pair) for pair in pairs}
    for given in (pairs, twice, pd.DataFrame(twice), np.array(pairs)):
        assert ids(with_edges(given)) == wanted
    empty = with_edges([])
    assert empty.edges is not None
    assert empty.edges.shape == (0, 2)


@pytest.mark.parametrize(
    ("edges", "text"),
    [
        ([(0, 1, 2)], "edges have 3 columns"),
        ([(0, "nobody")], "edges= names the item 'nobody'"),
        ([(3, 3)], "edges link the item 3 to itself"),
        (7, "give pairs of item ids, or a table of two columns"),
    ],
)
def test_what_is_no_edge_is_refused(edges: Any, text: str) -> None:
    data = crowd(12, 4, 2, 3)
    item = dict(enumerate(data.items))
    given = [tuple(item.get(x, x) for x in pair) for pair in edges] if isinstance(edges, list) else edges
    with pytest.raises(DataError, match=text.replace("item 3", f"item {item[3]!r}")):
        with_edges(given)


def test_of_an_item_that_is_linked_to_itself_the_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "links.csv").write_text("a,b\n1,2\n2,3\n2,2\n")
    rows = {"item": ["1", "2", "3"], "annotator": ["x"] * 3, "label": ["yes", "no", "no"]}
    with pytest.raises(DataError, match=r"item '2' to itself \(line 4 of links.csv\)"):
        Annotations.from_frame(pd.DataFrame(rows), edges=crowdppl.read_edges(tmp_path / "links.csv"))


@pytest.mark.parametrize("pairs", [[(0, 1), (1, 2), (2, 0), (3, 4)], [(0, 1), (1, 2), (2, 3), (3, 0)], []])
def test_no_two_linked_items_have_one_colour(pairs: list[tuple[int, int]]) -> None:
    import torch

    given = np.array(pairs, int).reshape(-1, 2)
    graph = Graph.of(given, 6, torch.device("cpu"))
    colour = np.empty(6, int)
    colour[graph.order.numpy()] = np.repeat(np.arange(len(graph.colours)), graph.colours)
    assert (colour[given[:, 0]] != colour[given[:, 1]]).all()
    assert len(graph.colours) == (1 if not pairs else 3 if (2, 0) in pairs else 2)
    source, target, back = (x.numpy() for x in (graph.source, graph.target, graph.back))
    assert (source[back] == target).all()
    assert (colour[source] == np.repeat(np.arange(len(graph.sizes)), graph.sizes)).all()


def test_edges_stay_with_their_items(tmp_path: Path) -> None:
    data = with_edges(chain(crowd(12, 4, 2, 3)))
    item = data.label_codes()[0]
    kept = crowdppl.data.split.keep(data, item % 2 == 0)
    assert ids(kept) == ids(data)
    posterior = crowdppl.fit("potts_dawid_skene", data, inference="vb", seed=0)
    posterior.save(tmp_path / "fit")
    again = crowdppl.load(tmp_path / "fit")
    assert ids(again.data) == ids(data)
    assert again.probabilities().equals(posterior.probabilities())
    known = posterior.predict(data.frame().query("item in @data.items[:5]"))
    assert len(known) == 5
    more = with_edges(chain(data)[:3])
    assert ids(joined(data, more)) == ids(data)


def test_linked_parts_stay_in_one_block() -> None:
    plain = crowd(60, 4, 2, 3)
    data = Annotations.from_frame(
        plain.frame(), edges=[(plain.items[n], plain.items[n + 1]) for n in range(0, 60, 2)]
    )
    coded = data.label_codes()
    units = crowdppl.data.kinds.sequences.units_of(None, data.edges, 60)
    sizes: dict[str, Any] = {"n_items": 60, "n_annotators": 4, "n_classes": 2, "n_answers": 2, "block_labels": 20}
    order, blocks = build_blocks(*coded, units=units, **sizes)
    assert len(blocks) > 3
    of_block = np.empty(60, int)
    of_block[order] = np.repeat(np.arange(len(blocks)), [block.n_items for block in blocks])
    assert data.edges is not None
    assert (of_block[data.edges[:, 0]] == of_block[data.edges[:, 1]]).all()
