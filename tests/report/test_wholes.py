"""What a report says of groups of objects and of whole sets, beside what enumeration finds."""

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl import Annotations
from crowdppl.report.facts import Facts
from crowdppl.report.groups import OfGroups, weakest_links
from crowdppl.report.pictures import Dots
from crowdppl.report.whole_sets import OfSets
from crowdppl.report.words import Words, say
from tests.report.test_report import HOSTILE, Read


def connected(members: set[int], pairs: list[tuple[int, int]]) -> bool:
    reached, more = {min(members)}, True
    while more:
        found = {b for pair in pairs for a, b in (pair, pair[::-1]) if a in reached} - reached
        reached, more = reached | found, bool(found)
    return members <= reached


@pytest.mark.parametrize("seed", range(5))
def test_the_weakest_link_is_the_pair_without_which_a_group_comes_apart(seed: int) -> None:
    stream = np.random.default_rng(seed)
    code = stream.permutation([0] * 6 + [1] * 4 + [2] * 2 + [3])
    code = np.unique(code, return_inverse=True)[1]
    pairs = np.array([x for x in combinations(range(13), 2) if stream.random() < 0.6])
    pairs = np.where(stream.random((len(pairs), 1)) < 0.5, pairs, pairs[:, ::-1])
    same = stream.permutation(len(pairs)) / len(pairs)
    links = weakest_links(code, *pairs.T, same)
    for g in range(4):
        members = {*np.flatnonzero(code == g).tolist()}
        inside = [n for n, (a, b) in enumerate(pairs.tolist()) if a in members and b in members]
        holds = [
            n
            for n in inside
            if connected(members, [tuple(pairs[m]) for m in inside if same[m] >= same[n]])
            and not connected(members, [tuple(pairs[m]) for m in inside if same[m] > same[n]])
        ]
        assert [links[g]] == (holds or [-1])


def linked() -> Annotations:
    """Two groups, a to c and d with e, an object that is alone, and a thin link between b and c."""
    said = {"a-b": "sss", "b-c": "ssd", "a-c": "ssd", "d-e": "sss", "c-d": "ddd", "a-f": "ddd", "e-f": "ddd"}
    rows = [
        (*pair, f"w{k}", x)
        for name, given in said.items()
        for pair in [name.split("-")]
        for k, x in enumerate(given)
    ]
    frame = pd.DataFrame(rows, columns=["left", "right", "annotator", "label"])
    return Annotations.from_frame(frame, kind="similarity", classes=["d", "s"])


def test_groups_are_counted_checked_and_name_what_holds_them(tmp_path: Path) -> None:
    posterior = crowdppl.fit("one_coin", linked(), inference="vb", seed=0)
    same = posterior.probabilities()["s"]
    of = OfGroups.of(Facts(posterior))
    assert of.size.tolist() == [3, 2] and of.alone == 1
    assert [[of.ids[k] for k in np.sort(x)] for x in of.members] == [["a", "b", "c"], ["d", "e"]]
    thin = max(("a", "c"), ("b", "c"), key=lambda x: same[x])
    assert of.held[0] == same[thin] and set(of.pair(0)) == {*thin}
    gold = {("a", "b"): "s", ("b", "c"): "d", ("c", "d"): "d", ("a", "f"): "s"}
    page = posterior.report(tmp_path / "r.html", gold).read_text(encoding="utf-8")
    text = " ".join(Read(page).text.split())
    assert "5 objects form 2 groups of two or more; objects that stand alone: 1." in text
    assert "Of the 4 pairs that were checked, groups have 2 right" in text
    assert f"weakest link: {of.pair(0)[0]} – {of.pair(0)[1]} (2 of 3 answers: the same)" in text
    assert {*pd.read_csv(tmp_path / "r-files" / "clusters.csv").columns} >= {"object", "cluster"}


def test_whole_sets_are_products_over_their_classes(tmp_path: Path) -> None:
    stream = np.random.default_rng(3)
    names = ["red", "round", "long"]
    rows = [
        (f"i{n}", who, ";".join(x for x, p in zip(names, (0.6, 0.3, 0.5), strict=True) if stream.random() < p))
        for n in range(30)
        for who in "abc"
    ]
    data = Annotations.from_frame(pd.DataFrame(rows, columns=["item", "annotator", "label"]), kind="set")
    posterior = crowdppl.fit("one_coin", data, inference="vb", seed=0)
    of = OfSets.of(Facts(posterior))
    p = posterior.probabilities()["yes"].unstack()[of.classes].loc[of.items].to_numpy()
    np.testing.assert_allclose(of.sure, np.maximum(p, 1 - p).prod(1))
    chosen = posterior.sets()["set"].map(lambda x: frozenset(map(str, x)))
    counts = chosen.value_counts()
    for kind, example in enumerate(of.example):
        members = [of.classes[k] for k in of.members(int(example))]
        inside = np.isin(of.classes, members)
        assert of.expected(int(example)) == pytest.approx(np.where(inside, p, 1 - p).prod(1).sum())
        assert (of.kind == kind).sum() == counts[frozenset(members)]
    gold = {"i0": ";".join(chosen["i0"]), "i1": ";".join({*names} - chosen["i1"])}
    page = posterior.report(tmp_path / "r.html", gold).read_text(encoding="utf-8")
    assert "Of the 2 sets that were checked as a whole, this report has 1 right" in page
    said = {name: re.findall(rf"<td>{name}</td>", page) for name in ("in the set", "not in the set", "yes", "no")}
    assert said["in the set"] and said["not in the set"] and not said["yes"] + said["no"]
    assert [x.get_text() for x in posterior.plot_confusion("a").get_yticklabels()] == [
        "not in the set",
        "in the set",
    ]
    check = pd.read_csv(tmp_path / "r-files" / "check.csv").assign(label="yes")
    check.loc[check.index[20:], "label"] = ""
    check.to_csv(tmp_path / "checked.csv", index=False)
    again = posterior.report(tmp_path / "again.html", crowdppl.read_gold(tmp_path / "checked.csv"))
    assert "By the 20 decisions that were checked" in again.read_text(encoding="utf-8")
    order = [of.classes.index(x) for x in names]
    both = np.rint(p.T @ p)[np.ix_(order, order)]
    table = page[page.index("Of 100 items in the class of the row") :]
    row = re.search(r'<tr><td><bdi class="id">round</bdi></td>(.*?)</tr>', table)
    assert row is not None
    shown = dict(zip(sorted(names), re.findall(r'data-v="(\d+)"', row[1]), strict=True))
    assert int(shown["red"]) == both[1, 0] and int(shown["long"]) == both[1, 2]


def test_places_on_an_axis_are_whole_and_begin_at_one() -> None:
    rows = [(f"object {n}", "", float(n), 1.0, 3.0, "a") for n in (1, 2, 3)]
    drawn = Dots(rows, "", say("results.rank_axis")).draw(Words())
    assert re.findall(r">(\d+)</text>", drawn) == ["1", "2", "3"]


def test_a_ranking_says_whether_its_objects_form_groups(tmp_path: Path) -> None:
    said = {}
    for name, orders in {"sure": ["abc"] * 30, "open": ["abc", "bca", "cab"]}.items():
        rows = [(f"p{n}", " > ".join(order)) for n, order in enumerate(orders)]
        frame = pd.DataFrame(rows, columns=["annotator", "ranking"])
        posterior = crowdppl.fit(
            "plackett_luce", Annotations.from_frame(frame, kind="ranking"), inference="vb", seed=0
        )
        said[name] = Read(posterior.report(tmp_path / "r.html").read_text(encoding="utf-8")).text
    assert "Each of the 3 objects is surely before the next." in said["sure"]
    assert "Bands are groups" not in said["sure"] and "Do not report an order" not in said["sure"]
    assert "tell no clear groups" in said["open"] and "Do not report an order of the objects" in said["open"]


def test_answers_that_are_numbers_keep_their_decimals(tmp_path: Path) -> None:
    rows = [(n, who, x + n) for n in range(12) for who, x in zip("abc", (0.25, 0.75, 1.5), strict=True)]
    data = Annotations.from_frame(pd.DataFrame(rows, columns=["item", "annotator", "label"]), kind="real")
    posterior = crowdppl.fit("label_mean", data, inference="em")
    page = posterior.report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<td>0.25, 0.75 and 1.5</td>" in page


@pytest.mark.parametrize("kind", ["similarity", "set"])
def test_names_of_objects_and_of_classes_are_text(kind: str, tmp_path: Path) -> None:
    if kind == "similarity":
        rows = [(a, b, who, "same") for a, b in combinations(HOSTILE, 2) for who in "abc"]
        frame = pd.DataFrame(rows, columns=["left", "right", "annotator", "label"])
        frame.loc[0, "label"] = "different"
        data = Annotations.from_frame(frame, kind="similarity")
    else:
        rows = [(item, who, [item, HOSTILE[0]]) for item in HOSTILE for who in "abc"]
        data = Annotations.from_frame(pd.DataFrame(rows, columns=["item", "annotator", "label"]), kind="set")
    posterior = crowdppl.fit("one_coin", data, inference="vb", seed=0)
    read = Read(posterior.report(tmp_path / "r.html").read_text(encoding="utf-8"))
    assert [tag for tag, _ in read.elements].count("script") == 1
    assert not [attrs for _, attrs in read.elements if any(str(name).startswith("on") for name in attrs)]
    assert all(name.replace("\n", "␤") in read.text for name in HOSTILE)
