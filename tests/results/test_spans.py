"""Spans of BIO tags: their probabilities against all paths of a chain, and their scores by hand."""

from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl import Annotations
from crowdppl.data.kinds.sequences import Tags
from crowdppl.errors import MethodError
from crowdppl.inference.result import Correction
from crowdppl.posterior import Posterior
from crowdppl.results.correction import averaged

BIO = ["O", "B-X", "I-X", "B-Y", "I-Y"]


def tagged(said: dict[str, list[str]], **options: Any) -> Annotations:
    """Labels of sequences: "O B-X I-X" of each, by annotator."""
    rows = [
        (f"s{s}", p, who, tag)
        for who, texts in said.items()
        for s, text in enumerate(texts)
        for p, tag in enumerate(text.split())
    ]
    table = pd.DataFrame(rows, columns=["sequence", "position", "annotator", "label"])
    return Annotations.from_frame(table, kind="sequence", classes=options.pop("classes", BIO), **options)


SAID = {
    "ann": ["B-X I-X O B-Y", "O B-Y I-Y", "B-X"],
    "bob": ["B-X O O B-Y", "O B-Y I-Y", "B-Y"],
    "eve": ["B-X I-X I-X B-X", "B-X B-Y O", "O"],
}
DATA = tagged(SAID)


def spans_by_hand(tags: list[str]) -> set[tuple[int, int, str]]:
    """(first, last, type) of B-X and all I-X that follow it."""
    out, first = set(), None
    for n, tag in enumerate([*tags, "O"]):
        if first is not None and tag != f"I-{tags[first][2:]}":
            out.add((first, n - 1, tags[first][2:]))
            first = None
        if tag.startswith("B"):
            first = n
    return out


@pytest.mark.parametrize("length", [1, 4])
def test_tags_are_decoded_as_by_hand(length: int) -> None:
    tags = Tags.of(BIO)
    starts = np.arange(length) == 0
    for path in product(range(5), repeat=length):
        ends = tags.ends(np.array(path), starts)
        found = {(n, int(end), tags.types[path[n]]) for n, end in enumerate(ends) if end >= 0}
        assert found == spans_by_hand([BIO[k] for k in path])
    both = tags.ends(np.array([1, 2, 2, 2]), np.array([True, False, True, False]))
    assert both.tolist() == [1, -1, -1, -1]  # no span runs on into the next sequence


def by_paths(posterior: Any, sizes: list[int]) -> dict[tuple[str, int, int, str], float]:
    """Probability of every span, a sum over all paths of a point fit of hmm_crowd."""
    start, move = posterior.site("initial").to_numpy(), posterior.site("transition").to_numpy()
    confusion = posterior.site("confusion").to_numpy()
    rows = posterior.data.frame()
    sequence, position = (rows["item"].str.split(" | ", regex=False).str[n] for n in (0, 1))
    code, who = rows["label"].map(BIO.index), posterior.data.annotators.get_indexer(rows["annotator"])
    out: dict[tuple[str, int, int, str], float] = {}
    for s, size in enumerate(sizes):
        said = np.ones((size, 5))
        for n in np.flatnonzero(sequence == f"s{s}"):
            said[int(position.iloc[n])] *= confusion[who[n], :, code.iloc[n]]
        weight = {
            path: start[path[0]]
            * np.prod([said[n, k] for n, k in enumerate(path)])
            * np.prod([move[a, b] for a, b in pairwise(path)])
            for path in product(range(5), repeat=size)
        }
        total = sum(weight.values())
        for path, w in weight.items():
            for first, last, its_type in spans_by_hand([BIO[k] for k in path]):
                key = (f"s{s}", first, last, its_type)
                out[key] = out.get(key, 0) + w / total
    return out


def test_spans_are_those_of_all_paths() -> None:
    settings = {"tags": "plain", "prior_strength": 200.0, "prior_accuracy": 0.3}
    posterior = crowdppl.fit("hmm_crowd", DATA, inference="em", settings=settings, max_iterations=2, seed=0)
    wanted = by_paths(posterior, [4, 3, 1])
    found = posterior.spans(minimum=0)
    for row in found.itertuples():
        assert row.probability == pytest.approx(wanted[row.sequence, row.first, row.last, row.type], abs=1e-6)
    likely = {key for key, p in wanted.items() if p > 0.5}
    kept = posterior.spans()
    assert {*kept[["sequence", "first", "last", "type"]].itertuples(index=False, name=None)} == likely
    assert len(posterior.spans(minimum=0.9)) == sum(p >= 0.9 for p in wanted.values()) == 2


def test_without_a_chain_items_are_independent() -> None:
    posterior = crowdppl.fit("dawid_skene", DATA, inference="em", max_iterations=2, seed=0)
    p = posterior.probabilities()
    row = posterior.spans(minimum=0).query("sequence == 's0' and first == 0").iloc[0]
    wanted = p.at[("s0", 0), "B-X"]
    for n in range(1, row["last"] + 1):
        wanted *= p.at[("s0", n), "I-X"]
    wanted *= 1 - p.at[("s0", row["last"] + 1), "I-X"]
    assert row["probability"] == pytest.approx(wanted, abs=1e-9)


def test_items_of_a_corrected_span_are_one_decision_and_its_end_another() -> None:
    plain = crowdppl.fit("bayesian_dawid_skene", DATA, inference="vb", seed=0)
    correction = Correction(np.empty((0, 0)), {"bayesian_dawid_skene": 1.0}, {"bayesian_dawid_skene": 0.2}, {})
    posterior = Posterior.of(averaged({"bayesian_dawid_skene": plain}, correction))
    p, row = posterior.probabilities(), posterior.spans(minimum=0).query("sequence == 's0' and first == 0").iloc[0]
    each = [p.at[("s0", 0), "B-X"], *(p.at[("s0", n), "I-X"] for n in range(1, row["last"] + 1))]
    assert row["last"] > 0
    assert row["probability"] == pytest.approx(min(each) * (1 - p.at[("s0", row["last"] + 1), "I-X"]), abs=1e-9)


def test_a_span_is_averaged_with_what_annotators_mark() -> None:
    """Each span that is marked is an item of its own, of the three annotators of its sequence."""
    plain = crowdppl.fit("hmm_crowd", DATA, inference="vb", seed=0)
    correction = Correction(
        np.empty((0, 0)), {"hmm_crowd": 1.0}, {"hmm_crowd": 0.2}, {}, of_spans={"hmm_crowd": 0.4}
    )
    posterior = Posterior.of(averaged({"hmm_crowd": plain}, correction))
    marks = {
        (s, span): [span in spans_by_hand(texts[s].split()) for texts in SAID.values()]
        for s in range(3)
        for span in set.union(*(spans_by_hand(texts[s].split()) for texts in SAID.values()))
    }
    rows = [(span, who, int(x)) for span, said in marks.items() for who, x in zip(SAID, said, strict=True)]
    items = dict(zip(marks, sorted(range(len(marks))), strict=True))
    table = [(items[span], who, x) for span, who, x in rows]
    asked = Annotations.from_arrays(*zip(*table, strict=True), classes=[0, 1])
    told = crowdppl.fit("hierarchical_dawid_skene", asked, inference="vb", seed=0).probabilities()[1]
    own = Posterior.of(replace(plain, result=plain.result.mean_field())).spans(minimum=0)
    found = posterior.spans(minimum=0)
    assert len(found) == len(own) > 2
    for row, alone in zip(found.itertuples(), own["probability"], strict=True):
        marked = told[items[int(row.sequence[1:]), (row.first, row.last, row.type)]]
        assert row.probability == pytest.approx(0.4 * alone + 0.6 * marked, abs=1e-6)
    known = Posterior.of(
        averaged({"hmm_crowd": replace(plain, data=DATA.with_gold({("s0", 0): "B-X"}))}, correction)
    )
    assert (
        known.spans(minimum=0)["probability"].iloc[-1] != found["probability"].iloc[-1]
    )  # they tell more than marks


def test_spans_are_averaged_over_draws() -> None:
    posterior = crowdppl.fit("hmm_crowd", DATA, inference="gibbs", draws=30, warmup=10, chains=2, seed=0)
    found = posterior.spans(minimum=0)
    p = posterior.probabilities()
    alone = found.query("sequence == 's2'").iloc[0]  # of one item: the span is its tag
    assert alone["probability"] == pytest.approx(p.loc[("s2", 0), f"B-{alone['type']}"], abs=0.02)
    assert found["probability"].between(0, 1).all()


def test_bare_tags_have_no_type() -> None:
    said = {who: ["B I O B", "O O"] for who in ("ann", "bob", "eve")}
    posterior = crowdppl.fit("hmm_crowd", tagged(said, classes=["O", "B", "I"]), inference="vb", seed=0)
    assert posterior.spans().drop(columns="probability").to_numpy().tolist() == [["s0", 0, 1, ""], ["s0", 3, 3, ""]]


def test_what_has_no_spans_is_refused() -> None:
    plain = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
    with pytest.raises(MethodError, match="'nominal'"):
        plain.spans()
    said = {who: ["a b", "b a"] for who in ("ann", "bob")}
    letters = crowdppl.fit("one_coin", tagged(said, classes=["a", "b"]), inference="vb", seed=0)
    with pytest.raises(MethodError, match="'a'"):
        letters.spans()
    assert "span_f1" not in crowdppl.evaluate(letters, {"s0 | 0": "a"}).keys()  # noqa: SIM118


def test_spans_are_scored_by_hand() -> None:
    said = {who: ["B-X I-X O B-Y", "O B-Y I-Y", "B-X"] for who in ("ann", "bob", "eve")}
    posterior = crowdppl.fit("majority_vote", tagged(said), seed=0)
    gold = dict(zip([f"s0 | {n}" for n in range(4)], ["B-X", "I-X", "O", "B-X"], strict=True))  # one of two
    gold |= {"s1 | 0": "O", "s1 | 1": "B-Y", "s1 | 2": "O"}  # ends elsewhere
    scores = crowdppl.evaluate(posterior, gold)  # gold says nothing of s2
    assert [scores["span_precision"], scores["span_recall"], scores["span_f1"]] == pytest.approx([1 / 3] * 3)
    part = crowdppl.evaluate(posterior, gold | {"s2 | 0": "O"})
    assert part["span_precision"] == 0.25 and part["span_f1"] == pytest.approx(2 / 7)
    ends = part.intervals().loc["span_f1"]
    assert ends["low"] <= ends["value"] <= ends["high"] and ends["low"] < ends["high"]
    some = crowdppl.evaluate(posterior, {"s0 | 0": "B-X"})
    assert np.isnan(some["span_f1"]) and some["accuracy"] == 1


def test_sequences_in_which_nobody_marks_anything_are_fitted_and_corrected() -> None:
    rows = [(s, n, who, "O") for s in range(4) for n in range(5) for who in "abc"]
    frame = pd.DataFrame(rows, columns=["sequence", "position", "annotator", "label"])
    data = crowdppl.Annotations.from_frame(frame, kind="sequence", classes=["B-X", "I-X", "O"])
    for posterior in (crowdppl.fit("hmm_crowd", data, calibrate=True, seed=0), crowdppl.fit("auto", data, seed=0)):
        assert posterior.spans().empty
