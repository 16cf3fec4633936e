"""The report as a page: what it holds for every kind of labels, that ids are text, that its numbers are right."""

import re
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from string import Formatter
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl import Annotations
from crowdppl.criticism.doubts.search import ORDER
from crowdppl.errors import DataError, MethodError, ResultError
from crowdppl.report.checks import code_of
from crowdppl.report.words import LANGUAGES, Words, say
from tests.results.test_every_kind import CASES, fitted

KEPT_OUT = (
    r"\b(posterior|bits?|entrop\w+|priors?|r-hat|nats?|calibrat\w+|mean[- ]field|gold|kalibrier\w+|entropie)\b"
)
HOSTILE = [
    "</script><script>alert(1)</script>",
    '" onload="alert(1)',
    "it's <b>bold</b> & **so**",
    "line\nbreak",
    "{n} {__class__}",
    "🦜",
    "abc\u202egnp.exe",
    "=1+1",
]
VOID = {"link", "meta", "br", "input", "img", "hr"}


class Read(HTMLParser):
    """Reads a page: its elements, which must be closed in order, and its text above the fold-out."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text, self.folded = "", 0
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if ("class", "experts") in attrs:
            self.folded = len(self.open)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, self.getpos()
        if len(self.open) < self.folded:
            self.folded = 0

    def handle_data(self, data: str) -> None:
        if not self.folded and self.open and self.open[-1] not in ("script", "style"):
            self.text += data + " "


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("case", CASES)
def test_every_kind_has_a_whole_page_in_words_that_anybody_knows(case: str, language: str, tmp_path: Path) -> None:
    path = fitted(case).report(tmp_path / "report.html", language=language)
    page = path.read_text(encoding="utf-8")
    read, words = Read(page), Words(language)
    ids = [attrs["id"] for tag, attrs in read.elements if tag == "section"]
    assert ids[:3] == ["minute", "rely", "results"]
    assert {"people", "next", "listing"} <= {*ids}
    assert not re.findall(KEPT_OUT, read.text.replace("--gold", ""), re.I)
    assert words.text(say("titles.minute")) in read.text
    assert not [attrs for _, attrs in read.elements if {"src", "srcset"} & {*attrs}]
    assert all(str(attrs["href"]).startswith("#") for _, attrs in read.elements if "href" in attrs)
    assert "@import" not in page
    assert "url(" not in page
    assert len(page) < 3_000_000
    assert {"labels.csv", "annotators.csv", "check.csv"} <= {x.name for x in (tmp_path / "report-files").iterdir()}


def test_ids_are_text_whatever_they_hold(tmp_path: Path) -> None:
    rows = [(item, who, HOSTILE[(n + m) % 2]) for n, item in enumerate(HOSTILE) for m, who in enumerate(HOSTILE)]
    data = Annotations.from_frame(pd.DataFrame(rows, columns=["item", "annotator", "label"]))
    posterior = crowdppl.fit("one_coin", data, inference="vb", seed=0)
    page = posterior.report(tmp_path / "r.html", source=HOSTILE[0], command=HOSTILE[0]).read_text(encoding="utf-8")
    read = Read(page)
    assert [tag for tag, _ in read.elements].count("script") == 1
    assert not [attrs for _, attrs in read.elements if any(str(name).startswith("on") for name in attrs)]
    for name in HOSTILE:
        assert name.replace("\n", "␤") in read.text
    told = posterior.report(tmp_path / "r.html", spreadsheet_safe=True).parent / "r-files" / "labels.csv"
    assert "'=1+1" in told.read_text(encoding="utf-8")


def test_texts_stand_beside_items_and_are_searched(tmp_path: Path) -> None:
    rows = [(f"i{n}", who, "ab"[n % 2 if k < 3 else 1]) for n in range(20) for k, who in enumerate("vwxyz")]
    frame = pd.DataFrame(rows, columns=["item", "annotator", "label"])
    texts = {f"i{n}": f"<i>text {n}</i>" for n in range(1, 20)}
    posterior = crowdppl.fit("one_coin", Annotations.from_frame(frame), inference="vb", seed=0)
    page = posterior.report(tmp_path / "r.html", text=texts).read_text(encoding="utf-8")
    assert all(page.count(f"&lt;i&gt;text {n}&lt;/i&gt;") >= 1 for n in range(1, 20))
    assert "<i>text" not in page
    with pytest.raises(DataError, match="text is an int; give a Series"):
        posterior.report(tmp_path / "r.html", text=3)
    sentence = crowdppl.datasets.example("sequence")
    words = {x: f"word{n}" for n, x in enumerate(sentence.item_index)}
    posterior = crowdppl.fit("hmm_crowd", sentence, inference="vb", seed=0)
    page = posterior.report(tmp_path / "r.html", text=words).read_text(encoding="utf-8")
    assert "word1" in page and "▪" not in page
    pairs = crowdppl.datasets.example("set")
    posterior = crowdppl.fit("one_coin", pairs, inference="vb", seed=0)
    text = {name: f"all of {name}" for name in {x[0] for x in pairs.item_index}}
    assert "all of five" in posterior.report(tmp_path / "r.html", text=text).read_text(encoding="utf-8")


def test_what_is_said_of_passages_and_orders_stands_beside_what_is_found(tmp_path: Path) -> None:
    def read(posterior: crowdppl.Posterior, gold: dict[Any, Any]) -> str:
        return Read(posterior.report(tmp_path / "r.html", gold).read_text(encoding="utf-8")).text

    rows = [("s", k, who, t) for k, t in enumerate(["B-X", "I-X", "O", "B-X", "O", "B-X"]) for who in "abc"]
    rows += [("t", k, who, "O") for k in range(3) for who in "abc"]
    frame = pd.DataFrame(rows, columns=["sequence", "position", "annotator", "label"])
    posterior = crowdppl.fit("hmm_crowd", Annotations.from_frame(frame, kind="sequence"), inference="vb", seed=0)
    assert len(posterior.spans()) == 3
    gold = {("s", k): tag for k, tag in enumerate(["B-X", "I-X", "O", "O", "B-X"])}  # the last token is unknown
    assert "1 of 2 passages are exactly right ; of the 2 that are there, 1 are not" in read(posterior, gold)
    posterior = crowdppl.fit("plackett_luce", crowdppl.datasets.example("ranking"), inference="vb", seed=0)
    problem = posterior.data.item_index[0][0]
    best = [x for x in posterior.ranking().index if (problem, x) in posterior.data.item_index]
    worst_first = {(problem, name): rank for rank, name in enumerate(reversed(best), 1)}
    orders = len(best) * (len(best) - 1) // 2
    assert f"Of the {orders} orders of two that the known ranks tell, this report has 0 right" in read(
        posterior, worst_first
    )


def tiles(page: str) -> list[tuple[int, str]]:
    """The number and the sentence of each tile."""
    found = re.findall(r'<div class="tile \w+"><div class="big">([\d,]+)</div>.*?<p>(.*?)</p>', page, re.S)
    return [(int(number.replace(",", "")), text) for number, text in found]


def test_tiles_count_labels_and_their_expected_and_their_found_errors(tmp_path: Path) -> None:
    crowd = crowdppl.simulate_annotators([0, 1, 2] * 100, {"hammer": 2, "spammer": 2}, seed=0)
    posterior = crowdppl.fit("one_coin", crowd.data, inference="vb", seed=0)
    labels, truth = posterior.labels(), pd.Series(crowd.truth).reindex(posterior.data.items)
    p, wrong = labels["probability"].to_numpy(), (labels["label"] != truth).to_numpy()
    page = posterior.report(tmp_path / "r.html", crowd.truth).read_text(encoding="utf-8")
    ranges = [(0.95, 1.1), (0.7, 0.95), (0, 0.7)]
    for (low, high), (number, text) in zip(ranges, tiles(page), strict=True):
        here = (low <= p) & (p < high)
        assert number == here.sum()
        if number:
            assert f"of the {number} that were checked {wrong[here].sum()} are" in text.replace(",", "")
            expected = (1 - p[here]).sum()
            assert ("Less than one " if expected < 0.95 else f"About {round(expected)} ") in text
    assert f"expect about {round(100 * p.mean())} in 100 to be right" in page


def test_a_sample_tells_how_many_labels_are_right(tmp_path: Path) -> None:
    crowded = crowdppl.simulate_annotators([0, 1, 2] * 200, {"hammer": 4}, seed=1)
    posterior = crowdppl.fit("one_coin", crowded.data, inference="vb", seed=0)
    truth = pd.Series(crowded.truth)
    right = (posterior.labels()["label"] == truth.reindex(posterior.data.items)).mean()
    for seed in range(3):
        page = posterior.report(tmp_path / "r.html", truth.sample(100, random_state=seed)).read_text(
            encoding="utf-8"
        )
        found = re.search(r"<b>(\d+)\s% of all labels are right</b> \((\d+)\s% to (\d+)\s%", page)
        assert found is not None
        _, low, high = map(int, found.groups())
        assert low - 1 <= 100 * right <= high + 1
        assert high - low < 20


def test_what_is_mixed_up_adds_up_to_the_answers(tmp_path: Path) -> None:
    posterior = fitted("nominal")
    item, _, answer = posterior.data.label_codes()
    p = posterior.probabilities().to_numpy()
    counts = np.zeros((4, 4))
    for i, a in zip(item, answer, strict=True):
        counts[:, a] += p[i]
    page = posterior.report(tmp_path / "r.html").read_text(encoding="utf-8")
    section = page[page.index('id="mixed"') : page.index('id="next"')]
    shown = re.findall(r'<td class="n" data-v="(\d+)">', section)
    assert list(map(int, shown)) == np.rint(counts).astype(int).ravel().tolist()


def test_long_tables_hold_the_least_sure_thousand_and_name_the_file(tmp_path: Path) -> None:
    stream = np.random.default_rng(0)
    rows = [(f"i{n:05}", who, stream.integers(2)) for n in range(1500) for who in "abc"]
    data = Annotations.from_frame(pd.DataFrame(rows, columns=["item", "annotator", "label"]))
    posterior = crowdppl.fit("majority_vote", data, inference="em", seed=0)
    page = posterior.report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert "1,000 of 1,500 rows are shown; all stand in <code>r-files/labels.csv</code>" in page
    assert len(pd.read_csv(tmp_path / "r-files" / "labels.csv")) == 1500


def keys(table: dict[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for name, x in table.items():
        yield from keys(x, f"{before}{name}.") if isinstance(x, dict) else [(before + name, x)]


def test_languages_say_the_same_and_know_every_doubt(root: Path) -> None:
    found = {}
    for language in LANGUAGES:
        text = (root / "crowdppl" / "report" / "words" / f"{language}.toml").read_text(encoding="utf-8")
        said = dict(keys(tomllib.loads(text)))
        places = {k: {(n, f"{s}".lower()) for _, n, s, _ in Formatter().parse(x) if n} for k, x in said.items()}
        found[language] = {
            k: {x for x in v if x[0] not in ("thing", "things", "folk", "person")} for k, v in places.items()
        }
        for kind in ORDER:
            if kind not in ("own", "bias"):
                parts = tomllib.loads(text)["doubts"][code_of(kind)]
                assert set(parts) == {"saw", "why", "do"}
    first, *others = found.values()
    for other in others:
        assert other == first


def test_a_place_for_the_page_and_a_language_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="is a folder; give the path of a file"):
        fitted("nominal").report(tmp_path)
    with pytest.raises(MethodError, match="language='fr'"):
        fitted("nominal").report(tmp_path / "r.html", language="fr")
    assert not list(tmp_path.iterdir())
