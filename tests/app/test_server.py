"""The app behind its guard: who is answered, what is taken, what is left, and what a process finds in a file."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from crowdppl.app import work
from crowdppl.app.fields import as_fields, command_of, offers
from crowdppl.app.jobs import safe_name
from crowdppl.data.kinds import KINDS
from crowdppl.data.wide import COLUMNS
from crowdppl.posterior import load
from crowdppl.report.words import LANGUAGES, Words, say
from tests.report.test_report import HOSTILE, KEPT_OUT, Read

pytest.importorskip("starlette", reason="the app: install the extra app")

from starlette.testclient import TestClient

from crowdppl.app.server import application

PORT, TOKEN, MOST = 8123, "a-token-of-the-test", 3_000_000
HOME = f"http://127.0.0.1:{PORT}"
CSV = "task,worker,answer,truth\n" + "".join(f"{n},{w},{'yn'[n % 2]},y\n" for n in range(6) for w in "abc")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the app keeps files."""
    return tmp_path_factory.mktemp("app")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Any]:
    app = application(folder, TOKEN, PORT, MOST, left=60)
    with TestClient(app, base_url=HOME, follow_redirects=False) as client:
        yield client


@pytest.fixture
def stranger(server: Any) -> Any:
    """A client without the token."""
    server.cookies.clear()
    server.headers.pop("Origin", None)
    return server


@pytest.fixture
def client(stranger: Any) -> Any:
    """One that has opened the address."""
    assert stranger.get("/", params={"token": TOKEN}).status_code == 200
    stranger.headers["Origin"] = HOME
    return stranger


def test_the_token_becomes_a_cookie_of_these_pages(stranger: Any) -> None:
    assert stranger.get("/").status_code == 403
    assert stranger.get("/files/app.js").status_code == 403
    assert stranger.get("/", params={"token": "another"}).status_code == 403
    assert stranger.get("/jobs/x", params={"token": TOKEN}).status_code == 403
    first = stranger.get("/", params={"token": TOKEN})
    assert re.fullmatch(rf"crowdppl-{PORT}={TOKEN}; Path=/; HttpOnly; SameSite=Strict", first.headers["set-cookie"])
    assert stranger.get("/").status_code == 200
    assert "set-cookie" not in stranger.get("/").headers
    stranger.cookies.clear()
    assert stranger.get("/", headers={"Cookie": f"crowdppl-{PORT}=wrong"}).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": f"evil.example:{PORT}"},
        {"Host": "127.0.0.1"},
        {"Host": f"127.0.0.1.evil.example:{PORT}"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": f"https://127.0.0.1:{PORT}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_other_pages_and_names_of_the_machine_are_refused(headers: dict[str, str], client: Any) -> None:
    assert client.get("/", headers=headers).status_code == 403
    assert client.post("/jobs", files={"file": ("a.csv", CSV)}, headers=headers).status_code == 403


def test_what_changes_something_must_say_that_the_app_sent_it(client: Any) -> None:
    del client.headers["Origin"]
    assert client.get("/").status_code == 200
    assert client.post("/jobs", files={"file": ("a.csv", CSV)}).status_code == 403


def test_no_page_may_ask_for_anything_elsewhere(client: Any) -> None:
    answer = client.get("/")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    read = Read(answer.text)
    places = [v for _, attrs in read.elements for k, v in attrs.items() if k in ("src", "href", "action")]
    assert places and all(str(x).startswith(("/", "?", "data:,")) and "//" not in str(x) for x in places)
    assert not [attrs for _, attrs in read.elements if {"style"} & {*attrs}]


def test_what_is_larger_is_not_kept(client: Any, folder: Path) -> None:
    def parts() -> Iterator[bytes]:
        yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\n'
        for _ in range(100):
            yield b"y" * 100_000
        yield b"\r\n--x--\r\n"

    before = {*folder.iterdir()}
    told = client.post("/jobs", content=parts(), headers={"Content-Type": "multipart/form-data; boundary=x"})
    assert told.status_code == 413 and "larger than 3 MB" in told.text
    told = client.post("/jobs", files={"file": ("a.csv", b"x" * 5_000_000)})
    assert told.status_code == 413
    told = client.post("/jobs", files={"other": ("a.csv", CSV)})
    assert told.status_code == 400 and "No file came" in told.text
    assert (
        client.post("/jobs", content=b"--", headers={"Content-Type": "multipart/form-data; boundary=x"}).status_code
        == 400
    )
    assert {*folder.iterdir()} == before


def test_a_browser_and_a_person_choose_the_language(client: Any) -> None:
    german = Words("de").plain(say("app.start.title"))
    assert german in client.get("/", headers={"Accept-Language": "de-AT,de;q=0.9,en;q=0.5"}).text
    assert german not in client.get("/", headers={"Accept-Language": "fr"}).text
    assert german in client.get("/?language=de").text
    assert german in client.get("/").text
    assert client.get("/nowhere").status_code == 404
    assert client.get("/jobs/none/report").status_code == 404
    assert client.get("/files/..%2Fapp.css").status_code == 404


def waited(client: Any, at: str) -> str:
    """The page after the work on a file."""
    for _ in range(600):
        if not client.get(f"{at}/state").json()["busy"]:
            return str(client.get(at).headers["location"])
        time.sleep(0.1)
    raise AssertionError("it does not end")


def test_from_a_file_to_its_tables(client: Any, folder: Path) -> None:
    """Odd names are text on every page; what is wrong stands at its field; the process goes when nobody asks."""
    names = [*HOSTILE, "ä", "ö"]
    rows = [(x, w, names[n % 2]) for n, x in enumerate(names) for w in names[:3]]
    table = pd.DataFrame(rows, columns=["<i>thing", "worker", "answer"])
    file = table.to_csv(index=False).encode()
    given = client.post("/jobs", files={"file": ('../../<img src=x onerror="alert(1)">ü.csv', file)})
    at = given.headers["location"]
    assert given.status_code == 303 and waited(client, at) == f"{at}/labels"
    page = client.get(f"{at}/labels").text
    read = Read(page)
    wrong = r'id="wrong-item"><p>In detail: <span lang="en">[^<]+ü.csv has no column that looks like item'
    assert re.search(wrong, page)
    assert not [tag for tag, _ in read.elements if tag in ("img", "i")]
    assert not [attrs for _, attrs in read.elements if any(str(name).startswith("on") for name in attrs)]
    said = {"item": "column:<i>thing", "method": "majority_vote", "do": "fit"}
    assert client.post(f"{at}/labels", data=said, files={"gold_file": ("", b"")}).headers["location"] == at
    assert waited(client, at) == f"{at}/result"
    read = Read(client.get(f"{at}/result").text)
    assert not re.findall(KEPT_OUT, read.text, re.I)
    links = [str(attrs["href"]) for tag, attrs in read.elements if tag == "a" and "download" in attrs]
    assert f"{at}/files/labels.csv" in links
    for link in links:
        saved = client.get(link)
        assert saved.status_code == 200 and "attachment" in saved.headers["content-disposition"]
    assert "'=1+1" in client.get(f"{at}/files/labels.csv").text
    report = client.get(f"{at}/report")
    assert (
        "sandbox" in report.headers["content-security-policy"]
        and "allow-same-origin" not in report.headers["content-security-policy"]
    )
    assert client.get(f"{at}/files/run.json").status_code == 404
    assert client.get(f"{at}/files/..%2F..%2Fetc").status_code == 404
    assert [path.name for path in folder.iterdir()] == [at.removeprefix("/jobs/")]


@pytest.mark.parametrize(
    ("name", "file", "key", "said"),
    [
        ("book.xlsx", b"PK\x03\x04", "file", "book.xlsx is a workbook"),
        ("noise.csv", bytes(range(256)), "encoding", "noise.csv is not UTF-8"),
    ],
)
def test_what_is_wrong_is_framed_in_the_language_of_the_page(
    name: str, file: bytes, key: str, said: str, client: Any
) -> None:
    at = client.post("/jobs", files={"file": (name, file)}).headers["location"]
    assert waited(client, at) == f"{at}/labels"
    page = client.get(f"{at}/labels?language=de").text
    assert Words("de").html(say(f"app.do.{key}")) in page
    assert f'<span lang="en">{said}' in page
    assert "pandas" not in page and "crowdppl." not in page


def looked(path: Path, text: str | bytes, **said: str) -> dict[str, Any]:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return work.look(path, said)


def test_what_a_file_holds(tmp_path: Path) -> None:
    found = looked(tmp_path / "a.csv", CSV)
    assert found["columns"] == ["task", "worker", "answer", "truth"] and found["rows"][1] == ["0", "b", "y", "y"]
    assert found["counts"] == {"labels": 18, "people": 3, "items": 6}
    assert found["kind"] == "nominal" and found["classes"] == ["n", "y"] and not found["offers"]
    assert {"one_coin", "dawid_skene"} <= {name for name, _ in found["methods"]}
    assert not {"raykar", "potts_dawid_skene", "bradley_terry"} & {name for name, _ in found["methods"]}
    grades = CSV.replace(",y,", ",1,").replace(",n,", ",2,").replace("5,c,2", "5,c,3")
    found = looked(tmp_path / "g.csv", grades)
    assert found["offers"] == [{"kind": "ordinal", "classes": "1,2,3"}]
    assert looked(tmp_path / "g.csv", grades, **found["offers"][0])["kind"] == "ordinal"
    boxes = looked(tmp_path / "b.csv", CSV.replace(",y,", ",y;n,"), kind="set")
    assert boxes["counts"]["items"] == 12 and not boxes["classes"], "decisions, of which each is yes or no"
    one = looked(tmp_path / "o.csv", CSV, annotator="nobody")
    assert one["counts"]["people"] == 1
    checked = tmp_path / "check.csv"
    checked.write_text("task,answer\n0,y\n1,\n")
    assert looked(tmp_path / "a.csv", CSV, gold_file=str(checked))["known"] == 1
    assert looked(tmp_path / "a.csv", CSV, gold="column:truth")["known"] == 6


@pytest.mark.parametrize(
    ("name", "text", "field", "said"),
    [
        ("a.csv", "x", "delimiter", "begins with 'x'"),
        ("a.csv", "\n", "", "a.csv is empty"),
        ("a.csv", b"PK\x03\x04\x00", "", "a workbook or another ZIP archive"),
        ("a.xlsx", b"PK\x03\x04\x00", "", "a workbook or another ZIP archive"),
        ("a.csv", "task,worker,answer\n1,a,\xe9\n".encode("latin-1"), "encoding", "is not UTF-8"),
        ("a.csv", "task,worker,answer\n1,a\n", "", "line 2 of a.csv has 2 fields"),
        ("a.csv", "one,two\n1,2\n", "item", "no column that looks like item"),
        ("a.csv", "task,worker,answer\n1,a,x;y\n1,b,x\n2,a,y\n", "kind", "names several classes"),
        ("a.txt", "hello", "format", "is no CSV"),
    ],
)
def test_what_is_wrong_stands_at_its_field(
    name: str, text: str | bytes, field: str, said: str, tmp_path: Path
) -> None:
    found = looked(tmp_path / name, text)
    assert found["field"] == field
    assert said in found["error"]


def test_an_offer_is_what_a_message_says() -> None:
    assert offers("say kind=\"set\", or say kind='nominal'") == [{"kind": "set"}, {"kind": "nominal"}]
    assert offers("say item=, wide=True, or columns='items'") == [{"columns": "items"}]


def test_messages_name_fields_and_their_choices() -> None:
    words = Words()
    assert as_fields("say kind='set', label= or 'kind=x'; annotator=None", words) == (
        "say “What the answers are”: several boxes, such as a;b (set), “The answer” or 'kind=x'; “Who answered: "
        "column”: nobody is named"
    )
    assert as_fields("say wide=True", words) == "say “What the columns are”"
    for language in LANGUAGES:
        assert list(Words(language).find("app.kinds")) == list(KINDS)
        assert set(Words(language).find("app.layouts")) == set(COLUMNS)


def test_the_command_of_a_page_makes_the_same_report() -> None:
    said = {"kind": "ordinal", "classes": "no,yes", "item": "column:the item", "abstain": "x,?", "who": "models"}
    assert command_of("a b.csv", {**said, "method": "auto"}, "de") == (
        "crowdppl report 'a b.csv' --kind ordinal --classes no,yes --item 'the item' --abstain x --abstain '?' "
        "--model auto --models all --language de"
    )


def test_a_fit_writes_what_the_command_writes(tmp_path: Path) -> None:
    path, told = tmp_path / "a.csv", list[Any]()
    path.write_text(CSV)
    work.compute(path, {"method": "one_coin", "gold": "column:truth"}, tmp_path / "out", "en", told.append)
    assert [x["step"] for x in told[:2]] == ["read", "fit"] and told[-1] == {"step": "write"}
    assert load(tmp_path / "out").data.gold is None
    assert {"labels.csv", "annotators.csv", "run.json", "report.html", "check.csv"} <= {
        x.name for x in (tmp_path / "out").iterdir()
    }
    assert "6 known truths were given to compare with" in (tmp_path / "out" / "report.html").read_text()


def test_texts_of_a_column_stand_in_the_report(tmp_path: Path) -> None:
    path, told = tmp_path / "a.csv", list[Any]()
    rows = [f"{n},{w},{'yn'[n % 2]},<b>text {n},{w} says\n" for n in range(6) for w in "abc"]
    path.write_text("task,worker,answer,what,note\n" + "".join(rows))
    said = {"method": "one_coin", "text": "column:what"}
    assert "error" not in work.look(path, said)
    work.compute(path, said, tmp_path / "out", "en", told.append)
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert all(f"&lt;b&gt;text {n}<" in page for n in range(6))
    assert "--text what" in page
    found = work.look(path, {**said, "text": "column:note"})
    assert found["field"] == "text" and "says several things of item '0'" in found["error"]
    assert command_of("a.csv", {"text": "column:the text"}, "en") == "crowdppl report a.csv --text 'the text'"


def test_a_fit_that_cannot_be_says_why(tmp_path: Path) -> None:
    path, told = tmp_path / "a.csv", list[Any]()
    path.write_text("task,worker,answer\n1,a,x;y\n1,b,x\n2,a,y\n")
    order = {"do": "fit", "path": str(path), "out": str(tmp_path / "out"), "language": "en"}
    work.obey({**order, "said": {}}, told.append)
    assert told[-1]["field"] == "kind" and told[-1]["offers"] == [{"kind": "set"}, {"kind": "nominal"}]
    work.obey({**order, "said": {"kind": "nominal", "method": "no_such"}}, told.append)
    assert told[-1]["error"].startswith("unknown method 'no_such'") and not told[-1]["offers"]
    checked = tmp_path / "check.csv"
    checked.write_text("item,label\nanother,x\n")
    work.obey({**order, "said": {"kind": "nominal", "gold_file": str(checked)}}, told.append)
    assert told[-1]["field"] == "gold_file"
    assert not (tmp_path / "out").exists()


def test_names_of_files_lead_nowhere() -> None:
    names = [
        "../../etc/passwd",
        "..\\..\\a.csv",
        ".hidden",
        "",
        "..",
        "a/b/ü c.csv",
        "x\x00y.csv",
        "a" * 300 + ".csv",
    ]
    assert [safe_name(name)[-12:] for name in names] == [
        *("passwd", "a.csv", "hidden", "labels", "labels", "ü c.csv", "x_y.csv", "aaaaaaaa.csv"),
    ]
