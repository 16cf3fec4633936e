"""The built site: everything has its page, and a reader finds it in a browser, served or from disk.

Needs the extra `docs`; the browser also needs Chromium. `make docs` runs this on the site that it built, which
CROWDPPL_SITE names. MkDocs itself checks the links, with warnings as errors.
"""

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from pkgutil import resolve_name
from threading import Thread
from types import ModuleType
from typing import Any

import pytest

import crowdppl
from docs.making import reports

pytest.importorskip("mkdocs", reason="the site: install the extra docs, as `make docs` does")
pytest.importorskip("mkdocstrings", reason="the site: install the extra docs, as `make docs` does")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if given := os.environ.get("CROWDPPL_SITE"):
        return root / given
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=300)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_everything_has_its_page(site: Path, root: Path) -> None:
    methods = {path.stem for path in (root / "models").glob("[!_]*.py")}
    tutorials = {path.stem for path in (root / "tutorials").glob("*.ipynb")}
    assert {path.stem for path in (site / "methods").glob("*.html")} == {"index", *methods}
    assert {path.stem for path in (site / "tutorials").glob("*.html")} == {"index", *tutorials}
    assert not list((site / "making").glob("*")), "the tools that make the site are no part of it"
    assert {path.stem for path in (site / "benchmarks").glob("*.html")} == {"truth", "features", "kinds", "speed"}
    told = {path.stem for path in (site / "reports").glob("*.html")}
    assert told == {*reports.REPORTS} and all(
        f"reports/{name}.html" in (site / "report.html").read_text() for name in told
    )
    start = (site / "overview.html").read_text(encoding="utf-8")
    assert (root / "README.md").read_text(encoding="utf-8").split("\n\n")[1].split(".")[0] in start


def test_public_names_are_described(site: Path) -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in (site / "reference").glob("*.html"))
    names = [name for name in crowdppl.__all__ if callable(getattr(crowdppl, name))]
    names += ["primitives.annotate", "errors.DataError"]
    methods = [x for name, x in inspect.getmembers(crowdppl.Posterior, inspect.isfunction) if name[0] != "_"]
    names += [
        f"{x.__module__}.{x.__qualname__}".removeprefix("crowdppl.").removeprefix("posterior.") for x in methods
    ]
    assert {"results.archive.save", "results.decisions.decide", "Posterior.update"} <= {*names}
    assert not [name for name in names if f'id="crowdppl.{name}"' not in pages]


def test_what_docstrings_refer_to_is_described(site: Path, root: Path) -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in (site / "reference").glob("*.html"))
    code = "".join(
        path.read_text(encoding="utf-8") for part in ("crowdppl", "models") for path in (root / part).rglob("*.py")
    )
    names = {*re.findall(r"``(crowdppl(?:\.\w+)+)(?:\(|``)", code)}
    named = {name for name in names if not isinstance(resolve_name(name), ModuleType)}
    assert len(named) > 10
    assert not [name for name in named if f'id="{name}"' not in pages]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()


@pytest.fixture
def page(address: str, site: Path, browser: Any) -> Any:
    """A page of a browser that notes errors and requests to other places."""
    opened = browser.new_page()
    opened.wrong = []
    opened.on("console", lambda m: opened.wrong.append(m.text) if m.type in {"error", "warning"} else None)
    opened.on("pageerror", lambda error: opened.wrong.append(str(error)))
    opened.route(
        lambda url: not url.startswith((address, site.as_uri(), "data:", "blob:", "about:")),
        lambda route: (opened.wrong.append(f"{route.request.url} is not the site"), route.abort()),
    )
    return opened


def test_a_reader_finds_a_method(page: Any, address: str) -> None:
    page.goto(address)
    page.get_by_role("navigation", name="Tabs").get_by_role("link", name="Methods").click()
    page.get_by_role("article").get_by_role("link", name="bayesian_dawid_skene", exact=True).click()
    page.wait_for_url("**/methods/bayesian_dawid_skene.html")
    drawn = page.get_by_alt_text("Plate diagram of Bayesian Dawid-Skene")
    assert drawn.evaluate("image => image.complete && image.naturalWidth") > 100
    assert not page.wrong


def test_a_reader_finds_a_notebook(page: Any, address: str, root: Path) -> None:
    page.goto(f"{address}tutorials/first_posterior.html")
    broken = "images => images.filter(image => image.complete && !image.naturalWidth).length"
    assert page.locator("article img").evaluate_all(broken) == 0
    with page.expect_download() as download:
        page.get_by_role("link", name="Download this notebook").click()
    notebook = root / "tutorials" / "first_posterior.ipynb"
    assert Path(download.value.path()).read_bytes() == notebook.read_bytes()
    assert not page.wrong


WORDS = {
    "Label Studio": "words",
    "LLM": "kinds/judges",
    "judge": "kinds/judges",
    "Likert": "kinds/grades",
    "survey": "kinds/ratings",
    "rating": "kinds/ratings",
    "NER": "kinds/spans",
    "spans": "kinds/spans",
    "inter-rater": "reference/agreement",
    "ICC": "reference/agreement",
    "kappa": "reference/agreement",
    "alpha": "reference/agreement",
    "arena": "kinds/comparisons",
    "Elo": "kinds/comparisons",
    "Bradley-Terry": "methods/bradley_terry",
    "ranking": "kinds/rankings",
    "gold": "words",
    "confusion": "words",
    "spam": "words",
    "copy": "words",
    "difficulty": "methods/item_difficulty",
    "calibration": "words",
    "CSV": "words",
    "export": "words",
    "multi-label": "kinds/sets",
    "crowd-kit": "benchmarks/speed",
    "Dawid-Skene": "methods/dawid_skene",
    "MCMC": "tutorials/mcmc_or_variational",
    "GPU": "words",
    "save": "words",
}
"""Words of the field, and the pages one of which a search should show first."""


def test_words_of_the_field_lead_to_their_pages(page: Any, address: str) -> None:
    page.goto(address)
    box = page.get_by_role("textbox", name="Search")
    box.fill("crowd")
    page.locator(".md-search-result__item a").first.wait_for()  # the index is there
    wrong = {}
    for word, wanted in WORDS.items():
        box.fill("")
        box.fill(word)
        box.press("End")
        page.wait_for_timeout(400)
        first = page.locator(".md-search-result__item a").first.get_attribute("href") or ""
        if f"/{wanted}.html" not in f"/{first.removeprefix(address)}":
            wrong[word] = first
    assert not wrong


@pytest.mark.parametrize("where", ["served", "from disk"])
def test_a_reader_searches(where: str, page: Any, address: str, site: Path) -> None:
    page.goto(address if where == "served" else (site / "index.html").as_uri())
    box = page.get_by_role("textbox", name="Search")
    box.fill("minimax entropy")
    box.press("End")
    page.locator(".md-search-result__item a[href*='minimax_entropy']").first.click()
    page.wait_for_url("**/methods/minimax_entropy.html*")
    assert not page.wrong


AUDITED = (
    *("index", "kinds/comparisons", "methods/dawid_skene", "reference/doubts"),
    *("tutorials/first_posterior", "benchmarks/kinds", "reports/classes", "reports/spans"),
)
"""A page of each kind, for axe-core."""


def test_axe_finds_nothing_serious(page: Any, address: str) -> None:
    axe = Path(os.environ.get("CROWDPPL_AXE", "axe.min.js"))
    if not axe.is_file():
        pytest.skip("axe-core: `npm install axe-core`, and say where its axe.min.js is by CROWDPPL_AXE")
    wrong = {}
    for name in AUDITED:
        for scheme, rules in {"light": {}, "dark": {"runOnly": ["color-contrast"]}}.items():
            page.emulate_media(color_scheme=scheme)
            page.goto(f"{address}{name}.html")
            page.evaluate(axe.read_text(encoding="utf-8"))
            found = page.evaluate("rules => axe.run({resultTypes: ['violations'], ...rules})", rules)["violations"]
            serious = [
                f"{x['id']}: {x['nodes'][0]['html']}" for x in found if x["impact"] in ("serious", "critical")
            ]
            wrong |= {(name, scheme): serious} if serious else {}
    assert not wrong
