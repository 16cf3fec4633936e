"""Links lead somewhere, and what the site makes of README, notebooks and public names is right."""

from __future__ import annotations

import base64
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

import crowdppl
from docs.making import commonmark, links, notebooks, places, reference

SOURCES = links.sources()


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(links.ROOT).as_posix())
def test_links_of_the_sources_lead_somewhere(path: Path) -> None:
    assert not links.problems_of_sources([path])


def test_what_people_read_is_among_the_sources(root: Path) -> None:
    names = {path.relative_to(root).as_posix() for path in SOURCES}
    assert {"README.md", "CONTRIBUTING.md", "docs/installation.md", "docs/methods/index.md"} <= names
    assert names >= {f"tutorials/{path.name}" for path in (root / "tutorials").glob("*.ipynb")}


def test_wrong_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "there.md").write_text("# A title\n\n## A `title`\n\n```\n# No title\n```\n\n# A title\n")
    page = tmp_path / "README.md"
    page.write_text(
        "[a](docs/there.md) [b](docs/there.md#a-title-2) ![c](docs) [d](#end) <https://good.example.org/x?y=1>\n"
        "[e](docs/gone.md) [f](docs/there.md#no-title) [g](/docs/there.md) [h](../out.md) [i](#start)\n"
        '[j](htp://x.org) [k](https://nodots/x) [l](mailto:nobody) <a href="docs/none.png">m</a>\n'
        "`[n](in/code.md)` [o]( docs/there.md 'no' ) [`p`](docs/there.md#a-title-3)\n\n"
        "[q]: gone.txt\n\n```\n[r](in/a/fence.md)\n```\n\n# End\n"
    )
    assert links.problems_of_sources([page], tmp_path) == [
        "README.md: #start: README.md has no heading with this anchor",
        "README.md: ../out.md: leads out of the checkout",
        "README.md: /docs/there.md: starts at the root of a server; make it relative",
        "README.md: docs/gone.md: there is no such file",
        "README.md: docs/none.png: there is no such file",
        "README.md: docs/there.md#a-title-3: there.md has no heading with this anchor",
        "README.md: docs/there.md#no-title: there.md has no heading with this anchor",
        "README.md: gone.txt: there is no such file",
        "README.md: htp://x.org: the scheme 'htp' is not http, https or mailto",
        "README.md: https://nodots/x: 'nodots' is no host",
        "README.md: mailto:nobody: no address",
    ]


def test_links_of_notebooks_are_looked_at_outside_of_code(tmp_path: Path) -> None:
    (tmp_path / "tutorials").mkdir()
    path = tmp_path / "tutorials" / "one.ipynb"
    path.write_text(json.dumps(notebook(("markdown", "# One\n[x](two.ipynb)"), ("code", "a = b[0](c)"))))
    assert links.problems_of_sources([path], tmp_path) == ["tutorials/one.ipynb: two.ipynb: there is no such file"]


def test_wrong_links_of_a_site_are_found(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "index.html").write_text(
        "<h1 id='top'>T</h1><a href='sub/page.html#a%20b'>1</a><a href='sub/page.html#c'>2</a>"
        "<a href='gone.html'>3</a>"
        "<img src='data:image/png;base64,AA=='><script src='https://cdn.example.org/x.js'></script>"
        "<link rel='stylesheet' href='https://fonts.example.org/f.css'><a href='https://example.org/'>4</a>"
        "<a href='?q=1#top'>5</a>"
    )
    (tmp_path / "sub" / "page.html").write_text("<p id='a b'><a href='../'>up</a> <a href='#nowhere'>x</a></p>")
    (tmp_path / "404.html").write_text("<a href='/sub/page.html'>1</a> <a href='/none.html'>2</a>")
    assert links.problems_of_site(tmp_path) == [
        "404.html: /none.html: there is no such file on the site",
        "index.html: gone.html: there is no such file on the site",
        "index.html: https://cdn.example.org/x.js: is fetched from elsewhere, which fails offline",
        "index.html: https://fonts.example.org/f.css: is fetched from elsewhere, which fails offline",
        "index.html: sub/page.html#c: page.html has no such anchor",
        "sub/page.html: #nowhere: page.html has no such anchor",
    ]


def test_links_read_as_the_site_needs_them() -> None:
    text = (
        "[a](docs/benchmarks.md#import) [b](CONTRIBUTING.md) [c](LICENSE) `[d](docs/x.md)` [e](https://x.org/a.md)\n"
        "![f](docs/images/f.png) [g](tutorials) [h](tutorials/few_shot.ipynb#task) [`glad`](docs/methods/glad.md)\n"
        "```\n[i](docs/x.md)\n```"
    )
    assert places.relinked(text, "README.md") == (
        "[a](benchmarks.md#import) [b](contributing.md) [c](files/LICENSE) `[d](docs/x.md)` [e](https://x.org/a.md)\n"
        "![f](images/f.png) [g](tutorials/index.md) [h](tutorials/few_shot.md#task) [`glad`](methods/glad.md)\n"
        "```\n[i](docs/x.md)\n```",
        ["LICENSE"],
    )
    assert places.relinked("[a](../models/mace.py) [b](mace.ipynb) [c](../README.md)", "tutorials/x.ipynb") == (
        "[a](../files/models/mace.py) [b](mace.md) [c](../index.md)",
        ["models/mace.py"],
    )
    assert places.relinked("[a](../benchmarks.md)", "docs/methods/glad.md")[0] == "[a](../benchmarks.md)"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("text\n- a\n- b\nlazy\n\ntext", "text\n\n- a\n- b\n    lazy\n\ntext"),
        ("1. a\n\n       code\n\n   more\n2. b", "1. a\n\n        code\n\n    more\n2. b"),
        ("- a\n  - b\n    - c\n- d", "- a\n    - b\n        - c\n- d"),
        ("- a\n  ```\n  - no item\n  ```\n- b", "- a\n    ```\n    - no item\n    ```\n- b"),
        ("born in\n1979. A year, no item", "born in\n1979. A year, no item"),
        ("```\ntext\n- no item\n```", "```\ntext\n- no item\n```"),
        ("a - b\n\n    code\n    - code", "a - b\n\n    code\n    - code"),
    ],
)
def test_lists_are_indented_for_the_site(text: str, wanted: str) -> None:
    assert commonmark.for_site(text) == wanted


def notebook(*cells: tuple[Any, ...]) -> dict[str, Any]:
    made = []
    for kind, source, *outputs in cells:
        made.append({"cell_type": kind, "source": source, "metadata": {}})
        if kind == "code":
            made[-1] |= {"outputs": outputs, "execution_count": 1}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": made}


def data(**forms: str) -> dict[str, Any]:
    named = {form.replace("_", "/", 1): text for form, text in forms.items()}
    return {"output_type": "display_data", "metadata": {}, "data": named}


def test_a_notebook_is_shown_with_its_outputs() -> None:
    picture = base64.b64encode(b"a picture").decode()
    made = notebook(
        ("markdown", ["# Title\n", "\n", "Text.\n"]),
        (
            "code",
            "print(1)",
            {"output_type": "stream", "name": "stdout", "text": ["\x1b[31m1\x1b[0m\n", " 5%\r 99%\r100%\n"]},
        ),
        ("markdown", "## Part\nwith text"),
        ("code", "plot()", data(image_png=picture, text_plain="<Figure>"), data(text_plain="```")),
        ("code", "table", data(text_html="<table>\n\n<tr></tr></table>", text_plain="t")),
        ("code", ""),
    )
    page = notebooks.shown("one", json.dumps(made))
    assert page.text.split("\n\n") == [
        "# Title",
        "Text.",
        "```python\nprint(1)\n```",
        "```text\n1\n100%\n```",
        "## Part\nwith text",
        "```python\nplot()\n```",
        "![Part](one-4-1.png)",
        "````text\n```\n````",
        "```python\ntable\n```",
        '<div class="output">\n<table>\n<tr></tr></table>\n</div>\n',
    ]
    assert page.images == {"one-4-1.png": b"a picture"}


def test_a_notebook_that_cannot_be_shown_is_refused() -> None:
    failed = {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": []}
    refused = {
        "format 3; save it": {**notebook(), "nbformat": 3},
        "does not begin with a title": notebook(("markdown", "Text"), ("markdown", "# Late")),
        "cell 2 was committed with an error: ValueError: no": notebook(("markdown", "# T"), ("code", "x", failed)),
        "cell 2 has an output in video/mp4": notebook(("markdown", "# T"), ("code", "x", data(video_mp4="AA"))),
    }
    for message, made in refused.items():
        with pytest.raises(notebooks.NotebookError, match=message):
            notebooks.shown("one", json.dumps(made))


@pytest.mark.parametrize("path", [path for path in SOURCES if path.suffix == ".ipynb"], ids=lambda path: path.stem)
def test_notebooks_can_be_shown(path: Path) -> None:
    assert notebooks.shown(path.stem, path.read_text(encoding="utf-8")).text.startswith("# ")


def test_the_page_on_installation_lists_all_extras(root: Path) -> None:
    extras = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    page = (root / "docs" / "installation.md").read_text(encoding="utf-8")
    assert [extra for extra in extras if f"| `{extra}` |" not in page] == []


def test_the_example_on_installation_prints_what_is_shown(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (root / "docs" / "installation.md").read_text(encoding="utf-8")
    exec(page.partition("```python\n")[2].partition("```")[0], {})
    assert capsys.readouterr().out == page.partition("```text\n")[2].partition("```")[0]


def test_every_public_name_is_in_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "_summary", lambda name: "")  # it would import all that there is
    pages = reference.pages()
    described = [line for text in pages.values() for line in text.splitlines() if line.startswith("::: crowdppl.")]
    wanted = [f"::: crowdppl.{name}" for name in crowdppl.__all__]
    wanted += [
        f"::: {m}.{n}" if n else f"::: {m}" for m, names in reference.MODULES.items() for n in names or ("",)
    ]
    assert sorted(described) == sorted(wanted)
    for name in crowdppl.__all__:
        assert f"#crowdppl.{name})" in pages["reference/index.md"]
    monkeypatch.setitem(crowdppl._PUBLIC, "stacking", ("stack",))
    with pytest.raises(reference.MissingError, match="no page of the reference has stacking; add them to TOPICS"):
        reference.pages()
