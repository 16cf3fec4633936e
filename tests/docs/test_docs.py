"""The pages of the methods are what the command writes: stories, diagrams, symbols, engines and numbers."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pyro
import pyro.distributions as dist
import pytest
import torch

import crowdppl
from crowdppl.plots import model_graph
from crowdppl.plots import model_graph as layout
from crowdppl.primitives.model import card_of
from docs.making import measured, pages, relations, symbols
from docs.making.drawing import svg
from tests.benchmarks import readme, results

METHODS = pages.written()


@cache
def graph_of(name: str) -> model_graph.ModelGraph:
    return relations.of_method(name)


def test_pages_are_what_is_generated() -> None:
    made, found = pages.files(), pages.found()
    stale = sorted(path for path in {*made, *found} if made.get(path) != found.get(path))
    assert not stale, "run `python -m docs.making.pages`; do not edit by hand"


def test_a_stale_page_is_mended_and_one_too_many_goes(tmp_path: Path) -> None:
    made = {"mace.md": "new\n", "plates/mace.svg": "<svg/>\n"}
    (tmp_path / "mace.md").write_text("old\n")
    (tmp_path / "gone.md").write_text("of a method that was removed\n")
    pages.write(tmp_path, made)
    assert pages.found(tmp_path) == made


@pytest.mark.parametrize(
    ("name", "parents", "plates"),
    [
        (
            "glad",
            {
                "ability": set(),
                "difficulty": set(),
                "truth": set(),
                "label": {"ability", "difficulty", "truth"},
            },
            {"annotators": {"ability", "label"}, "items": {"difficulty", "truth", "label"}},
        ),
        (
            "dependent_clusters",
            {
                "prevalence": set(),
                "link": set(),
                "confusion": set(),
                "truth": {"prevalence"},
                "opinion": {"link", "truth"},
                "label": {"confusion", "opinion"},
            },
            {
                "annotators": {"confusion", "label"},
                "items": {"truth", "opinion", "label"},
                "groups": {"opinion"},
                "linked": {"link"},
            },
        ),
        (
            "raykar",
            {"features": set(), "confusion": set(), "truth": {"features"}, "label": {"confusion", "truth"}},
            {"annotators": {"confusion", "label"}, "items": {"features", "truth", "label"}},
        ),
    ],
)
def test_relations_are_those_of_the_story(
    name: str, parents: dict[str, set[str]], plates: dict[str, set[str]]
) -> None:
    graph = graph_of(name)
    assert {child: set(above) for child, above in graph.parents.items()} == parents
    assert {plate: set(members) for plate, members in graph.plates.items()} == plates
    assert graph.observed == {"label", "features"} & parents.keys()


@dataclass(frozen=True)
class Chain:
    """Three variables in a row, one that nothing depends on, and no annotators."""

    def model(self, data: crowdppl.primitives.Block) -> None:
        first = pyro.sample("first", dist.Normal(0.0, 1.0))
        pyro.sample("idle", dist.Normal(0.0, 1.0))
        second = pyro.sample("second", dist.Dirichlet(first.exp().expand(data.n_classes)))
        with crowdppl.primitives.plates.items(data):
            rows = torch.zeros(data.n_annotators, data.n_classes, data.n_answers)
            crowdppl.primitives.annotate(data, rows, crowdppl.primitives.truth(data, second.log()))


def test_relations_of_a_story_that_has_others() -> None:
    graph = model_graph.graph_of(Chain(), model_graph.a_few_labels())
    assert graph.parents == {
        "first": (),
        "idle": (),
        "second": ("first",),
        "truth": ("second",),
        "label": ("truth",),
    }
    assert graph.plates == {"items": ("truth", "label"), "annotators": ("label",)}
    assert graph.children("second") == ("truth",)


@pytest.mark.parametrize("name", METHODS)
def test_diagrams_can_be_read(name: str) -> None:
    """Plates hold their variables and no others, nothing overlaps, arrows point down and touch no other."""
    assert not unreadable(graph_of(name), layout.arrange(graph_of(name)))


def unreadable(graph: model_graph.ModelGraph, drawn: layout.Layout) -> list[str]:
    ovals, wrong = drawn.ovals, []
    for plate, box in drawn.boxes.items():
        members = graph.plates[plate]
        wrong += [f"{n} is not in {plate}" for n in members if not box.holds(ovals[n])]
        wrong += [f"{n} is in {plate}" for n in ovals if n not in members and box.meets(ovals[n])]
    for a, b in combinations(ovals, 2):
        apart = abs(ovals[a].x - ovals[b].x) > ovals[a].rx + ovals[b].rx or abs(ovals[a].y - ovals[b].y) > 54
        wrong += [] if apart else [f"{a} overlaps {b}"]
    for child, parents in graph.parents.items():
        for parent in parents:
            wrong += [f"{parent} -> {child} runs through {n}" for n in layout.passed(ovals, parent, child)]
            wrong += [] if ovals[parent].y < ovals[child].y else [f"{parent} is not above {child}"]
    return wrong


def test_an_unreadable_diagram_is_found() -> None:
    graph = graph_of("glad")
    drawn = layout.arrange(graph)
    label = drawn.ovals["label"]
    moved = replace(drawn, ovals={**drawn.ovals, "ability": replace(label, y=label.y + 5)})
    found = unreadable(graph, moved)
    assert {"ability is in items", "ability overlaps label", "ability is not above label"} <= {*found}
    through = {**drawn.ovals, "difficulty": replace(label, x=label.x + 20, y=label.y - 50)}
    assert "truth -> label runs through difficulty" in unreadable(graph, replace(drawn, ovals=through))


def test_what_stands_above_is_as_near_as_it_can_be() -> None:
    """Three that want the same place: one stays there, the others go a width to either side."""
    places = layout._over_children({"a": 100.0, "b": 100.0, "c": 100.0, "d": 1000.0})
    assert places == {"a": 100 - layout.WIDE, "b": 100.0, "c": 100 + layout.WIDE, "d": 1000.0}


def test_a_drawing_says_what_it_shows() -> None:
    text = svg("glad", graph_of("glad"), card_of(crowdppl.method("glad")).sites)
    root = ElementTree.fromstring(text)
    space = {"s": "http://www.w3.org/2000/svg"}
    assert root.find("s:desc", space).text == (
        "label depends on ability, difficulty, truth. "
        "Plate of items: difficulty, truth, label. Plate of annotators: ability, label."
    )
    assert len(root.findall("s:ellipse", space)) == 4
    assert len(root.findall("s:path", space)) == 3
    assert [e.get("class") for e in root.findall("s:ellipse", space)].count("o") == 1
    assert text == svg("glad", graph_of("glad"), card_of(crowdppl.method("glad")).sites)


@pytest.mark.parametrize("name", METHODS)
def test_no_symbol_means_two_things_on_a_page(name: str) -> None:
    sites = card_of(crowdppl.method(name)).sites
    shown = [(symbols.symbol(name, s).letter, symbols.indices(name, shape)) for s, shape in sites.items()]
    assert len(set(shown)) == len(shown)


def test_indices_come_from_shapes() -> None:
    shapes = ["", "K", "A K K", "A K M K", "A 2", "1+G N", "A K*M W", "A K coin", "A K other"]
    assert [symbols.indices("glad", shape) for shape in shapes] == [
        "",
        "k",
        "a,k,l",
        "a,k,m,l",
        "a",
        "g,i",
        "a,km,w",
        "a,k",
        "a,k,l",
    ]
    with pytest.raises(symbols.SymbolError, match="'Y' of glad has no meaning; add it to SIZES"):
        symbols.indices("glad", "A Y")
    with pytest.raises(symbols.SymbolError, match="'depth' of glad has no symbol; add it to SYMBOLS"):
        symbols.symbol("glad", "depth")


ENGINES = f"""{readme.begin("zoo")}

| method | em | vb |
| --- | ---: | ---: |
| MACE `mace` | exact | refused (2) |
| GLAD [`glad`](docs/methods/glad.md) | gradient | refused (1) |

Refused, because

1. it is late
2. it is a vote; use em

{readme.end("zoo")}
"""


def test_engines_are_readmes() -> None:
    assert measured.engines(ENGINES) == {
        "mace": {"em": "exact", "vb": "refused: it is a vote; use em"},
        "glad": {"em": "gradient", "vb": "refused: it is late"},
    }
    with pytest.raises(measured.MeasuredError, match="no row for one_coin; run `python -m tests.benchmarks.readme"):
        measured.engines_of("one_coin", ENGINES)


MEASURED = """# Benchmarks

Machine.

## Speed

| labels | what |
| --- | ---: |
| mace | 1 s |

## Accuracy

Per cent, of items; ties split. More is said here.

| method (engines) | rte | web |
| --- | ---: | ---: |
| vote shares | 1.00 | 2.00 |
| majority_vote (em) | 3.00 | 4.00 |
| mace (em, vb) | **5.00** | - |
| mace_two (em) | 7.00 | 8.00 |
| glad hard (em) | 1.00 | 3.00 |
| glad, easy (em) | 2.00 | 4.00 |

Log score:

| method | rte |
| --- | ---: |
| **mace** | 0.5 |
"""


def test_numbers_are_the_rows_of_the_results() -> None:
    accuracy, logs = measured.numbers("mace", MEASURED)
    assert (accuracy.section, accuracy.about) == ("Accuracy", "Per cent, of items")
    assert accuracy.table.splitlines() == [
        "| method (engines) | rte | web |",
        "| --- | ---: | ---: |",
        "| vote shares | 1.00 | 2.00 |",
        "| majority_vote (em) | 3.00 | 4.00 |",
        "| mace (em, vb) | **5.00** | - |",
    ]
    assert (logs.about, logs.table.splitlines()[2:]) == ("Log score", ["| **mace** | 0.5 |"])
    assert measured.numbers("one_coin", MEASURED) == []
    (forms,) = measured.numbers("glad", MEASURED)
    assert [row.split(" |")[0] for row in forms.table.splitlines()[4:]] == ["| glad hard (em)", "| glad, easy (em)"]
    assert len(measured.numbers("majority_vote", MEASURED)[0].table.splitlines()) == 4


@pytest.mark.parametrize("name", METHODS)
def test_no_number_of_a_page_is_its_own(name: str) -> None:
    """What a page says of its results is, row by row, in the file of results; a method without rows says so."""
    page = (pages.FOLDER / f"{name}.md").read_text(encoding="utf-8")
    section = page.partition("\n## Numbers\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    whole = results.read().splitlines() if results.PATH.exists() else []
    assert set(rows) <= set(whole)
    of_methods = "\n\n".join(block for block in "\n".join(whole).split("\n\n") if block.startswith("| method"))
    mine = [line for line in of_methods.splitlines() if re.match(rf"\| \**{name}\b", line)]
    assert [line for line in rows if line in mine] == mine
    assert (pages.UNMEASURED in section) == (not mine)


@pytest.mark.parametrize("name", METHODS)
def test_the_story_is_told_as_in_the_source(name: str) -> None:
    source = ast.get_docstring(ast.parse((results.ROOT / "models" / f"{name}.py").read_text(encoding="utf-8")))
    aligned = [line[4:] for line in source.splitlines() if line.startswith("    ")]
    page = (pages.FOLDER / f"{name}.md").read_text(encoding="utf-8")
    story = page.partition("\n## Story\n")[2].partition("\n## ")[0]
    fenced = re.findall(r"^```text\n(.*?)\n```$", story, flags=re.DOTALL | re.MULTILINE)
    assert [line for block in fenced for line in block.splitlines()] == aligned
    assert page.startswith(f"# {card_of(crowdppl.method(name)).title}\n")


def test_settings_are_explained_by_the_class() -> None:
    docstring = (
        "One.\n\nArgs:\n    mean, spread: of abilities,\n        on a scale.\n    knows: how many: a lot.\n\nMore."
    )
    assert pages.arguments(docstring) == {
        ("mean", "spread"): "of abilities, on a scale.",
        ("knows",): "how many: a lot.",
    }
    assert pages.arguments("No settings.") == {}
    page = (pages.FOLDER / "glad.md").read_text(encoding="utf-8")
    assert "- `mean=1`, `spread=1`: of annotators' abilities" in page


def test_other_methods_are_linked_and_calls_are_not() -> None:
    text = pages.linked("take bayes_dgc; not `dawid_skene`, crowdppl.one_coin, one_coins or a[k](x)", "glad")
    assert text == (
        "take [`bayes_dgc`](bayes_dgc.md); not `dawid_skene`, crowdppl.one_coin, one_coins or a[k]\\(x)"
    )
    assert pages.linked("bayes_dgc", "bayes_dgc") == "bayes_dgc"
