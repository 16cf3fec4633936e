"""Spans that annotators left out mark: found by hand, and predicted by members of auto."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl import Annotations
from crowdppl.evaluation.calibration import decision_logs, first_of_best, own_share
from crowdppl.results.spans import Decisions, channel_log_p, marked_by

BIO = ["O", "B-X", "I-X", "B-Y", "I-Y"]


def tagged(said: dict[str, list[str]], classes: list[str] = BIO) -> Annotations:
    rows = [
        (f"s{s}", p, who, tag)
        for who, texts in said.items()
        for s, text in enumerate(texts)
        for p, tag in enumerate(text.split())
    ]
    table = pd.DataFrame(rows, columns=["sequence", "position", "annotator", "label"])
    return Annotations.from_frame(table, kind="sequence", classes=classes, stray="keep")


def test_marks_and_questions_by_hand() -> None:
    """A span of two is one mark; one asks those who are left out about what others mark, or a fit finds."""
    data = tagged({"ann": ["B-X I-X O", "B-Y I-X"], "bob": ["B-X O O", "O B-Y"], "eve": ["B-X I-X O", "O O"]})
    every = np.ones(data.n_labels, bool)
    spans, who = marked_by(data, every)
    named = {(*row, data.annotators[a]) for row, a in zip(spans.tolist(), who, strict=True)}
    assert named == {(0, 1, 1, "ann"), (3, 3, 3, "ann"), (0, 0, 1, "bob"), (4, 4, 3, "bob"), (0, 1, 1, "eve")}
    out = (data.frame()["annotator"] == "eve").to_numpy()
    asked = Decisions.of(data, out, [np.array([[2, 2, 3]])])
    assert asked.spans.tolist() == [[0, 0, 1], [0, 1, 1], [2, 2, 3], [3, 3, 3], [4, 4, 3]]
    assert asked.decision.tolist() == [0, 1, 2, 3, 4] and asked.marked.tolist() == [False, True, *[False] * 3]
    assert asked.shares(np.array([[0, 1, 1], [4, 4, 3]]), np.array([0.8, 0.3])).tolist() == [0, 0.8, 0, 0, 0.3]
    assert asked.shares(np.empty((0, 3), np.int64), np.empty(0)).tolist() == [0] * 5
    plain = tagged({"ann": ["a b"], "bob": ["b b"]}, ["a", "b"])
    assert marked_by(plain, np.ones(4, bool))[0].tolist() == [[0, 0, 0], [1, 1, 1], [0, 0, 1], [1, 1, 1]]


def test_a_channel_is_found_and_right_probabilities_predict_best() -> None:
    """Also beside those that say the opposite, are too sure, or are of other decisions."""
    rng = np.random.default_rng(0)
    share = rng.random(20_000)
    marked = rng.random(20_000) < np.where(rng.random(20_000) < share, 0.6, 0.1)
    own = 0.1 + 0.5 * share
    exact = np.where(marked, np.log(own), np.log(1 - own))
    assert channel_log_p(share, marked).mean() == pytest.approx(exact.mean(), abs=1e-3)
    for worse in (1 - share, (share > 0.5) * 1.0, rng.permutation(share)):
        assert channel_log_p(worse, marked).mean() < exact.mean() - 0.01


def test_the_share_of_a_method_is_told_by_marks_of_true_spans() -> None:
    """A right method keeps its share, though longer spans are marked less often; one that is too sure does not."""
    rng = np.random.default_rng(0)
    n = 20_000
    right, size = rng.uniform(0.05, 1, n), rng.integers(0, 4, n)
    true = rng.random(n) < right
    marked = rng.random(n) < np.where(true, np.array([0.8, 0.5, 0.3, 0.2])[size], 0.05)
    spans = np.column_stack([np.zeros(4, np.int64), np.arange(4), np.zeros(4, np.int64)])
    asked = Decisions(spans, size, np.zeros(n, np.int64), marked, np.arange(n))
    by_marks = np.array([0.9, 0.6, 0.4, 0.2])[size]  # which knows no more than that
    assert own_share(right, by_marks, asked) == 1
    assert own_share(np.full(n, 0.98), right, asked) <= 0.1


def overlooked(
    seed: int, sequences: int = 60, length: int = 20, annotators: int = 12
) -> tuple[Annotations, pd.Series]:
    """Spans that a worker marks whole or overlooks, six workers a sequence; and places that tempt some workers."""
    rng = np.random.default_rng(seed)
    rows, truth = [], {}
    for s in range(sequences):
        edges = np.sort(rng.choice(length // 2, 5, replace=False)) * 2
        places = [(a, min(b - 1, a + 5), rng.random() < 0.4) for a, b in pairwise(edges)]
        tags = np.full(length, "O", object)
        for a, b, _ in (x for x in places if x[2]):
            tags[a:b] = ["B-X"] + ["I-X"] * (b - a - 1)
        truth |= {(f"{s}", p): tag for p, tag in enumerate(tags)}
        for who in rng.choice(annotators, 6, replace=False):
            said = np.full(length, "O", object)
            for a, b, real in places:
                if rng.random() < (0.5 if real else 0.15):
                    said[a:b] = ["B-X"] + ["I-X"] * (b - a - 1)
            rows += [(f"{s}", p, f"w{who}", tag) for p, tag in enumerate(said)]
    table = pd.DataFrame(rows, columns=["sequence", "position", "annotator", "label"])
    return Annotations.from_frame(table, kind="sequence"), pd.Series(truth)


@pytest.mark.slow
def test_a_chain_takes_part_only_where_its_spans_are_better() -> None:
    """Where workers overlook spans and all meet false ones at the same places, items one by one are right."""
    data, truth = overlooked(0)
    names = ("hierarchical_dawid_skene", "hmm_crowd", "sequence_crowd")
    fits = {name: crowdppl.fit(name, data, inference="vb", seed=0) for name in names}
    right = {name: crowdppl.evaluate(x, truth.to_dict(), bootstrap=1).span_f1 for name, x in fits.items()}
    logs, sequence, _ = decision_logs(fits, data)
    assert right[names[first_of_best(np.stack([*logs.values()]), sequence)]] > max(right.values()) - 0.05
    assert right["sequence_crowd"] < max(right.values()) - 0.05


@pytest.mark.slow
def test_sure_spans_are_right_and_stay_where_a_chain_is() -> None:
    """Where spans are overlooked, a chain alone is too sure; where annotators err token by token, it is right."""
    sure = {}
    for name, (data, truth) in {"overlooked": overlooked(1, sequences=100), "chained": chained(1)}.items():
        for corrected in (False, True):
            posterior = crowdppl.fit("hmm_crowd", data, inference="vb", seed=0, calibrate=corrected)
            found, true = posterior.spans(minimum=0.9), spans_of(truth)
            spans = found[["sequence", "first", "last"]].itertuples(index=False, name=None)
            sure[name, corrected] = (len(found), np.mean([x in true for x in spans]))
    assert sure["overlooked", False][1] < 0.7 and sure["overlooked", True][1] > 0.85
    assert sure["overlooked", True][0] > 5 and sure["chained", True] == pytest.approx(sure["chained", False])
    assert sure["chained", False][1] > 0.95


def spans_of(truth: pd.Series) -> set[tuple[str, int, int]]:
    """(sequence, first, last) of each span of tags by (sequence, position)."""
    out, first = set(), -1
    for (s, p), tag in truth.items():
        first = p if tag[0] == "B" else first
        if tag[0] != "O" and not str(truth.get((s, p + 1), "O")).startswith("I"):
            out.add((s, first, p))
    return out


def chained(seed: int, sequences: int = 100, length: int = 20) -> tuple[Annotations, pd.Series]:
    """Truths that follow one another, and five annotators a sequence who err token by token, as hmm_crowd says."""
    rng = np.random.default_rng(seed)
    names, move = ["O", "B-X", "I-X"], np.array([[0.85, 0.15, 0.0], [0.4, 0.05, 0.55], [0.4, 0.05, 0.55]])
    right = rng.uniform(0.7, 0.95, 12)
    rows, truth = [], {}
    for s in range(sequences):
        path = [0]
        for _ in range(length - 1):
            path.append(int(rng.choice(3, p=move[path[-1]])))
        truth |= {(f"{s}", p): names[k] for p, k in enumerate(path)}
        for who in rng.choice(12, 5, replace=False):
            said = np.where(rng.random(length) < right[who], path, (path + rng.integers(1, 3, length)) % 3)
            rows += [(f"{s}", p, f"w{who}", names[k]) for p, k in enumerate(said)]
    table = pd.DataFrame(rows, columns=["sequence", "position", "annotator", "label"])
    return Annotations.from_frame(table, kind="sequence", stray="keep"), pd.Series(truth)
