"""The page of a report in a browser: no error, tables that sort, are searched and saved, and a telephone's width.

Needs the extra `docs` and Chromium, as the test of the site does.
"""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import crowdppl


@pytest.fixture
def page(tmp_path: Path, browser: Any) -> Any:
    """A report with odd ids in a browser that notes errors and requests."""
    names = [f"item {n}" for n in range(30)] + ["</script><script>document.title='caught'</script>", "=1+1"]
    rows = [(x, who, "ab"[(n + (n % 5 == k)) % 2]) for n, x in enumerate(names) for k, who in enumerate("xyz")]
    data = crowdppl.Annotations.from_frame(pd.DataFrame(rows, columns=["item", "annotator", "label"]))
    path = crowdppl.fit("one_coin", data, inference="vb", seed=0).report(tmp_path / "report.html")
    opened = browser.new_page(viewport={"width": 390, "height": 800})
    opened.wrong = []
    opened.on("console", lambda m: opened.wrong.append(m.text))
    opened.on("pageerror", lambda error: opened.wrong.append(str(error)))
    opened.on("request", lambda r: opened.wrong.append(r.url) if r.url.startswith("http") else None)
    opened.goto(path.as_uri())
    return opened


def test_a_reader_sorts_searches_and_saves_a_table(page: Any, tmp_path: Path) -> None:
    assert page.title().startswith("What 3 people said about 32 items")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.locator("details.listing summary").first.click()
    table = page.locator("table.long").first
    table.locator("th", has_text="how sure").get_by_role("button").click()
    sure = [
        float(x) for x in table.locator("tbody tr td:nth-child(3)").evaluate_all("x => x.map(c => c.dataset.v)")
    ]
    assert sure == sorted(sure)
    assert table.locator("th[aria-sort=ascending]").count() == 1
    page.get_by_role("searchbox").first.fill("SCRIPT")
    assert table.locator("tbody tr:visible").count() == 1
    page.get_by_role("searchbox").first.fill("nobody")
    assert page.get_by_text("No row matches.").first.is_visible()
    page.get_by_role("searchbox").first.fill("")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download as CSV").first.click()
    saved.value.save_as(tmp_path / "saved.csv")
    rows = pd.read_csv(tmp_path / "saved.csv")
    assert len(rows) == 32
    assert {"'=1+1", "</script><script>document.title='caught'</script>"} <= {*rows["item"]}
    assert page.wrong == []
