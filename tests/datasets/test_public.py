"""Public data sets, on small files of the same make and a server on this machine: fetched, checked, converted."""

import ast
import hashlib
import json
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

from crowdppl import datasets
from crowdppl.datasets.public import CACHE, OFFLINE, READERS, RECORD, SOURCES, described
from crowdppl.errors import ChecksumError, DataError, FetchError, UnverifiedWarning

AUDIO = "id,f1,f2,class\n"


def table(*rows: str) -> str:
    return "".join(f"{row}\n" for row in rows)


NUMBERED = {"labels": table("1 1 2", "1 2 2", "2 1 1", "2 2 1", "3 1 1"), "truth": table("1 2", "2 1")}
HEADED = {
    "labels": table("question,worker,answer", "7,ann,0", "7,bob,1", "08,ann,1", "08,bob,1"),
    "truth": table("question,truth", "7,0", "08,1"),
}
FILES: dict[str, dict[str, str | np.ndarray]] = {
    "bluebirds": {
        "labels": "39: {11573: true, 11574: false,\n  36618: true}\n"
        "97: {11573: true, 11574: true,\n  36618: false}\n",
        "truth": "{11573: true, 11574: true,\n    36618: false}\n",
    },
    "cf_amt": {"labels": table("A1,819,0,0,14", "A2,819,4,0,5", "A1,800,3,2,19", "A2,800,3,2,8")},
    "dogs": NUMBERED,
    "face": HEADED,
    "labelme": {
        "labels": table("-1 3 -1", "0 -1 7"),
        "train": table("3", "0"),
        "valid": table("1"),
        "test": table("2", "2"),
        "train_features": np.array([[0.5, 1], [1.5, 2]], np.float32),
        "valid_features": np.array([[2.5, 3]], np.float32),
        "test_features": np.array([[3.5, 4], [4.5, 5]], np.float32),
    },
    "music": {
        "labels": "id,annotator,f1,f2,class\n"
        "pop.1.mp3,A1,.5,1,pop\npop.1.mp3,A2,.5,1,rock\nrock.1.mp3,A1,.7,2,rock\n",
        "train": f"{AUDIO}pop.1.mp3,.5,1,pop\nrock.1.mp3,.7,2,rock\n",
        "test": f"{AUDIO}jazz.1.mp3,.9,3,jazz\n",
    },
    "music_sim_pairs": {
        "labels": '"HITId","WorkerId","WorkTimeInSeconds","Input.query","Input.docA","Input.docB","Answer.comment",'
        '"Answer.radio"\n1,1,23,"q","a","b","","b"\n1,2,36,"q","a","b","so, so","s"\n2,1,9,"q","a","c","","a"\n'
        '2,2,9,"q","a","c","","a"\n'
    },
    "possent": {
        "labels": table("item,worker,label", "0,5,1", "0,6,0", "1,5,0", "1,6,0"),
        "truth": "item,truth\n0,1\n1,0\n",
    },
    "product": HEADED,
    "rte": {
        "labels": "!amt_annotation_ids\t!amt_worker_ids\torig_id\tresponse\tgold\n"
        "x1\tA1\t25\t1\t1\nx2\tA2\t25\t0\t1\nx3\tA1\t35\t0\t0\nx4\tA2\t35\t0\t0\n"
    },
    "sentiment_polarity": {"labels": table("0 -1 1", "1 1 -1"), "train": table("1", "1")},
    "trec2010_binary": NUMBERED,
    "web": {key: text.replace(" ", "\t") for key, text in NUMBERED.items()},
}
"""Small files as those of each source, by what they hold."""


class Server(NamedTuple):
    url: str
    root: Path
    asked: list[str]

    def put(self, name: str, files: dict[str, Any]) -> None:
        for what, content in files.items():
            path = self.root / SOURCES[name].repository / SOURCES[name].commit / SOURCES[name].files[what]
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, str):
                path.write_text(content, encoding="utf-8")
            else:
                np.save(path, content)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    root, asked = tmp_path / "server", list[str]()
    root.mkdir()

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            asked.append(self.path)

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in (CACHE, OFFLINE):
        monkeypatch.delenv(name, raising=False)
    running = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(root)))
    thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield Server(f"http://127.0.0.1:{running.server_port}", root, asked)
    running.shutdown()
    running.server_close()


Load = Callable[..., datasets.Dataset]


@pytest.fixture
def load(server: Server, tmp_path: Path) -> Load:
    def fetched(name: str, **options: Any) -> datasets.Dataset:
        server.put(name, FILES[name])
        return datasets.load(name, cache=tmp_path / "cache", mirror=server.url, **options)

    return fetched


def triples(found: datasets.Dataset) -> set[tuple[Any, ...]]:
    return set(found.data.frame()[["item", "annotator", "label"]].itertuples(index=False, name=None))


def test_every_source_has_small_files() -> None:
    assert {name: set(files) for name, files in FILES.items()} == {n: set(s.files) for n, s in SOURCES.items()}
    assert {source.format for source in SOURCES.values()} == set(READERS)


@pytest.mark.parametrize("name", SOURCES)
def test_every_set_loads_with_its_classes(name: str, load: Load) -> None:
    found, source = load(name), SOURCES[name]
    assert found.data.classes.tolist() == list(source.classes.values())
    assert (found.data.kind, found.data.gold, found.checked) == (source.kind, None, "unverified")
    assert (found.truth is None) == (source.sizes["truths"] == 0)
    if found.truth is not None:
        assert found.data.with_gold(found.truth).gold is not None
    assert repr(found).startswith(f"<{name} (unverified): Annotations(") and source.licence in repr(found)


def test_tables_keep_ids_as_spelled(load: Load) -> None:
    found = load("face")
    wanted = {("7", "ann", "neutral"), ("7", "bob", "happy"), ("08", "ann", "happy"), ("08", "bob", "happy")}
    assert triples(found) == wanted
    assert found.truth.to_dict() == {"7": "neutral", "08": "happy"}
    assert triples(load("product")) == {
        (item, who, {"neutral": "different", "happy": "same"}[label]) for item, who, label in wanted
    }
    assert triples(load("possent")) == {("0", "5", "yes"), ("0", "6", "no"), ("1", "5", "no"), ("1", "6", "no")}


def test_maps_of_yaml(load: Load) -> None:
    found, names = load("bluebirds"), {"t": "Indigo Bunting", "f": "Blue Grosbeak"}
    wanted = {"39": "tft", "97": "ttf"}
    items = ("11573", "11574", "36618")
    assert triples(found) == {
        (i, a, names[x]) for a, said in wanted.items() for i, x in zip(items, said, strict=True)
    }
    assert found.truth.tolist() == [names[x] for x in "ttf"]


def test_seconds_travel_with_labels(load: Load) -> None:
    weather, pairs = load("cf_amt"), load("music_sim_pairs")
    frame = weather.data.frame().set_index(["item", "annotator"])
    assert frame.loc[("819", "A2")].to_dict() == {"label": "can't tell", "seconds": 5.0}
    assert weather.truth.to_dict() == {"819": "negative", "800": "positive"}
    frame = pairs.data.frame().set_index(["item", "annotator"])
    assert frame["label"].to_dict() == dict(zip(frame.index, ["B", "same", "A", "A"], strict=True))
    assert frame.loc[("q a b", "2"), "seconds"] == 36


def test_numbers_from_one(load: Load) -> None:
    found = load("dogs")
    assert triples(found) == {(1, 1, 2), (1, 2, 2), (2, 1, 1), (2, 2, 1), (3, 1, 1)}
    assert found.truth.to_dict() == {1: 2, 2: 1}


def test_one_table_with_truths_beside_labels(load: Load) -> None:
    found = load("rte")
    yes, no = "entailed", "not entailed"
    assert triples(found) == {("25", "A1", yes), ("25", "A2", no), ("35", "A1", no), ("35", "A2", no)}
    assert found.truth.to_dict() == {"25": yes, "35": no}


def test_matrices_with_parts_and_features(load: Load) -> None:
    found = load("labelme")
    assert triples(found) == {
        ("train-0000", 1, "street"),
        ("train-0001", 0, "highway"),
        ("train-0001", 2, "opencountry"),
    }
    items = ["train-0000", "train-0001", "valid-0000", "test-0000", "test-0001"]
    assert " ".join(found.truth.reindex(items)) == "street highway insidecity tallbuilding tallbuilding"
    assert found.part.reindex(items).tolist() == ["train", "train", "valid", "test", "test"]
    np.testing.assert_array_equal(found.data.features.loc[items], [[n + 0.5, n + 1] for n in range(5)])
    plain = load("sentiment_polarity")
    assert plain.data.frame()["label"].tolist() == ["negative", "positive", "positive", "positive"]
    assert (plain.part, plain.data.features) == (None, None)


def test_features_in_tables(load: Load) -> None:
    found = load("music")
    assert triples(found) == {("pop.1.mp3", "A1", "pop"), ("pop.1.mp3", "A2", "rock"), ("rock.1.mp3", "A1", "rock")}
    assert found.truth is not None and found.part is not None and isinstance(found.data.features, pd.DataFrame)
    assert found.truth.to_dict() == {"pop.1.mp3": "pop", "rock.1.mp3": "rock", "jazz.1.mp3": "jazz"}
    assert found.part.to_dict() == {"pop.1.mp3": "train", "rock.1.mp3": "train", "jazz.1.mp3": "test"}
    assert found.data.features.loc["jazz.1.mp3"].tolist() == [0.9, 3.0]
    assert found.data.n_items == 3 and found.data.classes.tolist() == sorted(found.data.classes)


def test_the_first_download_is_unverified_and_then_nothing_is_fetched(
    load: Load, server: Server, tmp_path: Path
) -> None:
    server.put("face", FILES["face"])
    folder = tmp_path / "cache" / "face"
    with pytest.warns(UnverifiedWarning, match="answer.csv") as said:
        first = datasets.load("face", cache=tmp_path / "cache", mirror=server.url)
    assert any("2 items, not 584" in str(warning.message) for warning in said)
    assert first.checked == "unverified" and len(server.asked) == 2
    digest = hashlib.sha256((folder / "answer.csv").read_bytes()).hexdigest()
    assert (folder / RECORD).read_text().splitlines()[0] == f"{digest}  answer.csv"
    assert {path.name for path in folder.iterdir()} == {RECORD, "answer.csv", "truth.csv"}

    again = load("face", offline=True)
    assert again.checked == "unchanged" and len(server.asked) == 2
    assert triples(again) == triples(first)


def test_a_file_that_changes_is_refused(load: Load, server: Server, tmp_path: Path) -> None:
    load("dogs")
    file = tmp_path / "cache" / "dogs" / "dog_crowd.txt"
    good = file.read_text()
    file.write_text(good + "3 2 1\n")
    with pytest.raises(ChecksumError, match=r"dog_crowd.txt.*\w{64}.*\w{64}"):
        load("dogs")
    assert file.exists(), "what somebody put there is left to them"
    file.unlink()
    assert load("dogs").checked == "unchanged", "fetched again, and compared with the first"
    file.unlink()
    server.put("dogs", {"labels": good + "3 2 1\n"})
    with pytest.raises(ChecksumError):
        datasets.load("dogs", cache=tmp_path / "cache", mirror=server.url)
    assert not file.exists(), "what was fetched and is wrong is not kept"


def test_hashes_that_crowdppl_knows_come_first(
    load: Load, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = SOURCES["web"]
    digests = {
        path: hashlib.sha256(str(FILES["web"][what]).encode()).hexdigest() for what, path in source.files.items()
    }
    monkeypatch.setitem(SOURCES, "web", replace(source, sha256=digests))
    assert load("web").checked == "verified"
    monkeypatch.setitem(SOURCES, "web", replace(source, sha256={"src/web_truth.txt": "0" * 64}))
    with pytest.raises(ChecksumError, match=digests["src/web_truth.txt"]):
        load("web")


def test_hashes_that_the_user_knows_are_checked(load: Load, server: Server, tmp_path: Path) -> None:
    server.put("face", FILES["face"])
    with pytest.warns(UnverifiedWarning, match="answer.csv.*sha256=") as said:
        datasets.load("face", cache=tmp_path / "one", mirror=server.url)
    text = next(str(warning.message) for warning in said if "sha256=" in str(warning.message))
    told = ast.literal_eval(text[text.index("{") : text.index("}") + 1])
    assert datasets.load("face", cache=tmp_path / "two", mirror=server.url, sha256=told).checked == "verified"
    with pytest.raises(ChecksumError, match="truth.csv has.*correct sha256="):
        load("face", sha256=told | {"truth.csv": "0" * 64})
    with pytest.raises(DataError, match=r"'gold.csv', and the files of face are \['answer.csv', 'truth.csv'\]"):
        load("face", sha256={"gold.csv": "0" * 64})


def test_without_a_network(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FetchError, match=r"404.*http.*src/web_crowd.txt"):
        datasets.load("web", cache=tmp_path, mirror=server.url)
    with pytest.raises(FetchError, match="web_crowd.txt: .*[Rr]efused"):
        datasets.load("web", cache=tmp_path, mirror="http://127.0.0.1:9")
    address = "https://raw.githubusercontent.com/zhydhkcws/crowd_truth_infer/.*/s4_Face%20Sentiment%20Ident"
    with pytest.raises(FetchError, match=f"answer.csv.*offline.*{address}"):
        datasets.load("face", cache=tmp_path, offline=True)
    monkeypatch.setenv(OFFLINE, "1")
    with pytest.raises(FetchError, match="offline"):
        datasets.load("web", cache=tmp_path, mirror=server.url)
    monkeypatch.setenv(OFFLINE, "no")
    with pytest.raises(FetchError, match="404"):
        datasets.load("web", cache=tmp_path, mirror=server.url)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix == ".txt"]


BROKEN: list[tuple[str, str, str | np.ndarray, str]] = [
    ("web", "labels", "1 1\n", "columns|elements"),
    ("web", "labels", "1 1 1.5\n", "1.5"),
    ("web", "labels", "\n", "web_crowd.txt"),
    ("web", "labels", "1 1 6\n", "'6'"),
    ("web", "truth", "1 1\n1 2\n", "two truths"),
    ("face", "labels", "<html>Not here</html>\n", "answer.csv"),
    ("bluebirds", "labels", "nothing\n", "bluebirds"),
    ("rte", "labels", "worker\torig_id\nA1\t25\n", "!amt_worker_ids"),
    ("labelme", "train", "3\n0\n1\n", "2 rows of labels, 3 of truths"),
    ("labelme", "test_features", np.array([{}], object), "allow_pickle"),
    ("music", "test", f"{AUDIO}jazz.1.mp3,x,3,jazz\n", "'x'"),
]


@pytest.mark.parametrize(("name", "what", "content", "message"), BROKEN)
def test_files_that_are_not_as_expected(
    name: str, what: str, content: Any, message: str, server: Server, tmp_path: Path
) -> None:
    server.put(name, {**FILES[name], what: content})
    with warnings.catch_warnings(action="ignore"), pytest.raises(DataError, match=message):
        datasets.load(name, cache=tmp_path / "cache", mirror=server.url)


def test_every_source_is_of_a_fixed_commit_and_listed() -> None:
    for source in SOURCES.values():
        assert len(source.commit) == 40 and int(source.commit, 16)
        names = [Path(path).name for path in source.files.values()]
        assert len(set(names)) == len(names), "files lie in one folder"
    lines = described().splitlines()
    assert [line.split()[0] for line in lines[1 : 1 + len(SOURCES)]] == list(SOURCES)
    assert "2,665" in lines[len(SOURCES)]
    assert "   licence  none stated\n" in described("web")
    with pytest.raises(DataError, match="web"):
        described("webb")


@pytest.mark.parametrize("name", SOURCES)
def test_sources_are_those_that_were_looked_at(name: str, real_data: Path) -> None:
    meta, source = json.loads((real_data / name / "META.json").read_text()), SOURCES[name]
    assert (f"github.com/{source.repository}", source.commit) == (meta["source"]["repo"], meta["source"]["commit"])
    sizes = [meta["N_items_with_labels"], meta["M_annotators"], meta["n_labels"]]
    assert [source.sizes[what] for what in ("items", "annotators", "labels")] == sizes
    assert source.licence == "none stated" if "none stated" in meta["licence"] else "none" not in source.licence[:4]


def test_real_labels_in_the_format_of_the_source(server: Server, real_data: Path, tmp_path: Path) -> None:
    """Sizes are right, and the accuracy of votes is as published."""
    answers, truth = (pd.read_csv(real_data / "web" / f"{what}.csv") + 1 for what in ("answers", "truth"))
    text = {
        what: rows.to_csv(sep=" ", header=False, index=False)
        for what, rows in (("labels", answers), ("truth", truth))
    }
    server.put("web", text)
    with pytest.warns(UnverifiedWarning) as said:
        found = datasets.load("web", cache=tmp_path / "cache", mirror=server.url)
    assert len([warning for warning in said if warning.category is UnverifiedWarning]) == 1, "sizes are right"
    votes = pd.DataFrame(found.data.votes(), found.data.items, found.data.classes).loc[found.truth.index]
    best = votes.eq(votes.max(axis=1), axis=0)
    right = best.to_numpy()[np.arange(len(votes)), found.truth.to_numpy(int) - 1] / best.sum(axis=1)
    assert right.mean() == pytest.approx(0.730651, abs=1e-6)
