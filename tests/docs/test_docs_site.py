"""The site as it is built: what is on it, what its links lead to, and what a reader's browser makes of it.

Needs the extra `docs`; the test in a browser also needs Chromium. `make docs` runs this on the site that it built,
which CROWDPPL_SITE names.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

import crowdppl
from docs.making import links

pytest.importorskip("mkdocs", reason="the site: install the extra docs, as `make docs` does")
pytest.importorskip("mkdocstrings", reason="the site: install the extra docs, as `make docs` does")

pytestmark = pytest.mark.slow

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def site(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site that CROWDPPL_SITE names, or one built now; a warning ends the build."""
    if given := os.environ.get("CROWDPPL_SITE"):
        return root / given
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=300)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_links_of_the_site_lead_somewhere(site: Path) -> None:
    assert not links.problems_of_site(site)


def test_everything_has_its_page(site: Path, root: Path) -> None:
    methods = {path.stem for path in (root / "models").glob("[!_]*.py")}
    tutorials = {path.stem for path in (root / "tutorials").glob("*.ipynb")}
    assert {path.stem for path in (site / "methods").glob("*.html")} == {"index", *methods}
    assert {path.stem for path in (site / "tutorials").glob("*.html")} == {"index", *tutorials}
    top = {"index", "installation", "benchmarks", "contributing", "changelog", "404"}
    assert {path.stem for path in site.glob("*.html")} == top
    assert not list(site.rglob("*.py")), "the makers of the site are no part of it"


def test_the_start_page_is_readme(site: Path, root: Path) -> None:
    page = (site / "index.html").read_text(encoding="utf-8")
    first = (root / "README.md").read_text(encoding="utf-8").split("\n\n")[1]
    assert first.split(".")[0].replace("\n", " ") in page.replace("\n", " ")


def test_every_public_name_is_described(site: Path) -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in (site / "reference").glob("*.html"))
    for name in crowdppl.__all__:
        assert f'id="crowdppl.{name}"' in pages, f"{name} is not described"
    taken_over = ("save", "predict", "plot_confusion", "doubts")
    assert all(f'id="crowdppl.Posterior.{name}"' in pages for name in taken_over)


def test_search_knows_the_methods(site: Path) -> None:
    entries = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    assert any(entry["location"].startswith("methods/glad.html") and "GLAD" in entry["title"] for entry in entries)


def test_formulas_need_no_script(site: Path) -> None:
    for path in site.rglob("*.html"):
        assert 'class="arithmatex"' not in path.read_text(encoding="utf-8"), f"{path.name} has a formula in TeX"


def test_docstrings_are_spelt_out_for_griffe() -> None:
    from docs.making.docstrings import spelt

    together = "Args:\n    mean, spread: of abilities,\n        on a scale.\n    knows: x\n"
    assert spelt(f"One::\n\n    code::\n\n{together}\nReturns:\n    A: b", "int") == (
        "One:\n\n    code:\n\nArgs:\n    mean: of abilities,\n        on a scale.\n    spread: of abilities,\n"
        "        on a scale.\n    knows: x\n\nReturns:\n    int: A: b"
    )


def test_a_wrong_link_ends_the_build(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What is a warning of MkDocs' own logger ends a build under --strict."""
    from docs.making import hooks

    (tmp_path / "search").mkdir()
    (tmp_path / "search" / "search_index.json").write_text("{}")
    (tmp_path / "index.html").write_text("<a href='gone.html'>x</a>")
    hooks.on_post_build(SimpleNamespace(site_dir=str(tmp_path)))
    assert caplog.messages == ["index.html: gone.html: there is no such file on the site"]
    assert caplog.records[0].levelname == "WARNING" and caplog.records[0].name.startswith("mkdocs.")
    assert (tmp_path / "search" / "search_index.js").read_text() == "var __index = {}"


def test_formulas_become_mathml() -> None:
    from docs.making import hooks

    html = r'<p>a <span class="arithmatex">\(p_a &lt; 1\)</span></p><div class="arithmatex">\[\frac{1}{K}\]</div>'
    made = hooks.on_page_content(html, None, None, None)
    assert "<msub><mi>p</mi><mi>a</mi></msub>" in made and 'display="inline"' in made
    assert "<mfrac>" in made and 'display="block"' in made and "arithmatex" not in made


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and says nothing of it."""

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    """Where the site is served, on this machine alone."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()


def failed(request: Any) -> bool:
    """Whether it was more than a page being left, or a download, before all of it had come."""
    return request.failure != "net::ERR_ABORTED"


@pytest.fixture
def page(address: str, site: Path) -> Iterator[Any]:
    """A page of a browser that notes what goes wrong, and reaches nothing but the site."""
    playwright = pytest.importorskip("playwright.sync_api", reason="the browser: install the extra docs")
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"the browser: none of {', '.join(BROWSERS)} is installed (Debian: apt-get install chromium)")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        opened = browser.new_page()
        opened.wrong = []
        opened.on("console", lambda m: opened.wrong.append(m.text) if m.type in {"error", "warning"} else None)
        opened.on("pageerror", lambda error: opened.wrong.append(str(error)))
        opened.on("requestfailed", lambda r: opened.wrong.append(f"{r.url}: {r.failure}") if failed(r) else None)
        opened.route(
            lambda url: not url.startswith((address, site.as_uri(), "data:", "blob:", "about:")),
            lambda route: (opened.wrong.append(f"{route.request.url} is not the site"), route.abort()),
        )
        yield opened
        browser.close()


def test_a_reader_finds_a_method(page: Any, address: str) -> None:
    page.goto(address)
    menu = page.get_by_role("navigation", name="Navigation")
    menu.get_by_role("link", name="Methods").click()
    page.get_by_role("article").get_by_role("link", name="Bayesian Dawid-Skene", exact=True).click()
    page.wait_for_url("**/methods/bayesian_dawid_skene.html")
    assert page.locator("h1").inner_text().startswith("Bayesian Dawid-Skene")
    drawn = page.get_by_alt_text("Plate diagram of Bayesian Dawid-Skene")
    assert drawn.evaluate("image => image.complete && image.naturalWidth") > 100
    assert not page.wrong


def test_a_reader_finds_a_notebook(page: Any, address: str, root: Path) -> None:
    if not (found := sorted((root / "tutorials").glob("*.ipynb"))):
        pytest.skip("there are no notebooks yet")
    title = re.search(r"# (.+)", links.markdown_of(found[0]))[1]
    page.goto(address)
    page.get_by_role("navigation", name="Navigation").get_by_role("link", name="Tutorials").click()
    page.locator(f"article a[href='{found[0].stem}.html']").first.click()
    page.wait_for_url(f"**/tutorials/{found[0].stem}.html")
    assert page.locator("h1").inner_text().startswith(title)
    broken = "images => images.filter(image => image.complete && !image.naturalWidth).length"
    assert page.locator("article img").evaluate_all(broken) == 0
    with page.expect_download() as download:
        page.get_by_role("link", name="Download this notebook").click()
    assert Path(download.value.path()).read_bytes() == found[0].read_bytes()
    assert not page.wrong


@pytest.mark.parametrize("where", ["served", "from disk"])
def test_a_reader_searches(where: str, page: Any, address: str, site: Path) -> None:
    page.goto(address if where == "served" else (site / "index.html").as_uri())
    box = page.get_by_role("textbox", name="Search")
    box.fill("minimax entropy")  # at once: the theme's search warns of some halves of words, and finds the whole
    box.press("End")
    page.locator(".md-search-result__item a[href*='minimax_entropy']").first.click()
    page.wait_for_url("**/methods/minimax_entropy.html*")
    assert not page.wrong


def test_what_goes_wrong_is_noted(page: Any, address: str) -> None:
    page.goto(address)
    page.evaluate("console.error('a message'); fetch('https://example.org/x.js').catch(() => 0)")
    page.wait_for_timeout(200)
    assert "a message" in page.wrong
    assert "https://example.org/x.js is not the site" in page.wrong
