"""The app as a person uses it, in a browser: from the drop of a file to the download of a table, and mishaps.

Needs the extras `app` and `docs`, and Chromium. Where CROWDPPL_AXE names the script of axe-core, it looks at each
kind of page, too.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("uvicorn", reason="the app: install the extra app")

LEFT = 4
SERVE = f"from crowdppl.app.server import serve; serve(browser=False, most=2, left={LEFT})"
DROP = """(text) => {
  const data = new DataTransfer();
  data.items.add(new File([text], "dropped.csv"));
  document.body.dispatchEvent(new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true}));
}"""


def labels(n: int, seed: int = 0) -> str:
    """A file of three people's answers to some items, of whom each errs."""
    stream = np.random.default_rng(seed)
    truth = stream.integers(0, 2, n)
    rows = [(f"item {i}", w, "ab"[t ^ (stream.random() < 0.2)]) for i, t in enumerate(truth) for w in "xyz"]
    return pd.DataFrame(rows, columns=["item", "annotator", "label"]).to_csv(index=False)


class Server:
    """The app in a process of its own."""

    def __init__(self, tmp_path: Path) -> None:
        self.place = tmp_path
        environment = {**os.environ, "TMPDIR": str(tmp_path)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVE], stdout=subprocess.PIPE, text=True, env=environment
        )
        assert self.process.stdout is not None
        told = self.process.stdout.readline()
        self.address = re.findall(r"http://127\.0\.0\.1:\d+/\?token=\S+", told)[0]

    def workers(self) -> list[str]:
        """The processes that it has started."""
        return Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()

    def comes_to(self, n: int) -> bool:
        """Whether it has so many after a while."""
        for _ in range(150):
            if len(self.workers()) == n:
                return True
            time.sleep(0.1)
        return False

    def end(self, how: signal.Signals) -> None:
        if self.process.poll() is None:
            self.process.send_signal(how)
        assert self.process.wait(20) == 0
        assert not list(self.place.iterdir())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server(tmp_path_factory.mktemp("app"))
    yield started
    started.end(signal.SIGTERM)


@pytest.fixture
def opened(server: Server, browser: Any) -> Iterator[Callable[[], Any]]:
    """Opens the app in tabs of one browser, in which nothing is wrong and nothing is asked for elsewhere."""
    wrong: list[str] = []
    context = browser.new_context(viewport={"width": 390, "height": 800}, locale="en-GB")
    context.set_default_timeout(60_000)  # beside other work

    def tab() -> Any:
        page = context.new_page()
        page.on("console", lambda m: wrong.append(m.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on(
            "request", lambda r: r.url.startswith((server.address[:20], "blob:", "data:")) or wrong.append(r.url)
        )
        page.goto(server.address)
        assert "token" not in page.url
        return page

    yield tab
    assert wrong == []


def faults(page: Any) -> list[str]:
    """What axe-core finds serious on a page, where it is there."""
    if not (script := os.environ.get("CROWDPPL_AXE")):
        return []
    page.evaluate(Path(script).read_text(encoding="utf-8"))
    found = page.evaluate("axe.run().then(run => run.violations)")
    return [f"{x['id']}: {x['nodes'][0]['target']}" for x in found if x["impact"] in ("serious", "critical")]


def give(page: Any, text: str | bytes, name: str = "answers.csv") -> None:
    choose(page, text if isinstance(text, bytes) else text.encode(), name)
    page.wait_for_url("**/labels")


def choose(page: Any, data: bytes, name: str) -> None:
    """Chooses a file once the script of the page listens."""
    page.locator("#file").wait_for(state="attached")
    page.wait_for_load_state()
    page.set_input_files("#file", {"name": name, "mimeType": "text/csv", "buffer": data})


def compute_long(page: Any) -> None:
    """Begins a fit that no processor ends before it is stopped."""
    page.get_by_text("For experts: the method").click()
    page.get_by_label("Method").select_option("item_difficulty")
    page.get_by_role("button", name="Compute the report").first.click()
    page.get_by_role("button", name="Stop").wait_for()


def test_from_the_drop_to_the_download(opened: Callable[[], Any], tmp_path: Path) -> None:
    page = opened()
    assert not faults(page)
    page.evaluate(DROP, labels(40))
    page.wait_for_url("**/labels")
    assert page.get_by_text("120 answers by 3 people to 40 items.").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert not faults(page)
    page.get_by_text("For experts: the method").click()
    page.get_by_label("Method").select_option("one_coin")
    page.get_by_label("Method").focus()
    for _ in range(2):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # the last button computes
    page.wait_for_url("**/result")
    report = page.frame_locator("iframe")
    assert report.get_by_role("heading", name="What 3 people said about 40 items").is_visible()
    assert not faults(page)
    page.get_by_text("Tables to save").click()
    for who, name in ((page.get_by_role("link", name="labels.csv"), "labels.csv"), (None, "labels.csv")):
        with page.expect_download() as saved:
            if who is not None:
                who.click()
            else:
                report.locator("details.listing summary").first.click()
                report.get_by_role("button", name="Download as CSV").first.click()
        assert saved.value.suggested_filename == name
        saved.value.save_as(tmp_path / name)
        assert len(pd.read_csv(tmp_path / name)) == 40
    with page.expect_download() as saved:
        page.get_by_role("link", name="Save the report").click()
    assert "What 3 people said" in Path(saved.value.path()).read_text(encoding="utf-8")
    page.get_by_role("link", name="Change something").click()
    assert page.get_by_label("Method").input_value() == "one_coin"


def test_a_damaged_file_says_what_is_wrong_and_another_can_be_given(opened: Callable[[], Any]) -> None:
    page = opened()
    give(page, labels(10) + "item 3,x\n")
    assert page.get_by_role("alert").filter(has_text="line 32 of answers.csv has 2 fields").is_visible()
    assert not faults(page)
    page.get_by_role("link", name="Another file").click()
    give(page, b"PK\x03\x04" + bytes(100), "book.xlsx")
    assert page.get_by_text("book.xlsx is a workbook").is_visible()
    page.go_back()
    choose(page, bytes(2_100_000), "a.csv")
    assert page.get_by_role("alert").filter(has_text="larger than 2 MB").is_visible()
    give(page, labels(10) + "item 10,x,a;b\n", "boxes.csv")
    page.locator("#wrong-kind").get_by_role("button", name="several boxes").click()
    page.wait_for_url("**/labels")
    assert page.get_by_label("What the answers are").input_value() == "set"


def test_two_tabs_stop_and_a_closed_one(opened: Callable[[], Any], server: Server) -> None:
    """Each tab has a file of its own; a fit ends when it is stopped, or a while after its page is closed."""
    one, other = opened(), opened()
    give(one, labels(20_000, 1), "one.csv")
    give(other, labels(30_000, 2), "other.csv")
    assert one.get_by_text("60,000 answers by 3 people").is_visible()
    assert other.get_by_text("90,000 answers by 3 people").is_visible()
    for page in (one, other):
        compute_long(page)
    assert server.comes_to(2)
    assert not faults(one)
    one.get_by_role("button", name="Stop").click()
    one.wait_for_url("**/labels")
    assert one.get_by_text("You stopped it.").is_visible()
    assert server.comes_to(1)
    place = other.url
    other.close()
    assert server.comes_to(0)
    one.goto(place)
    assert one.get_by_text("its page was closed for a while").is_visible()


def test_nothing_is_left_after_ctrl_c(browser: Any, tmp_path: Path) -> None:
    server = Server(tmp_path)
    page = browser.new_page(locale="en-GB")
    page.set_default_timeout(60_000)
    page.goto(server.address)
    give(page, labels(20_000))
    compute_long(page)
    workers = server.workers()
    server.end(signal.SIGINT)
    assert not [number for number in workers if Path(f"/proc/{number}").exists()]
    page.get_by_text("does not answer any more").wait_for()
