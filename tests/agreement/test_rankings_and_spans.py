"""Agreement of rankings, spans and pairs of numbers, against scipy, counts by hand and limits."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import friedmanchisquare, kendalltau, pearsonr

import crowdppl
from crowdppl import Annotations, agreement_classes, agreement_items, agreement_pairs, agreement_table
from crowdppl.errors import DataError


def rankings(ranks: np.ndarray, problems: int = 1) -> Annotations:
    """Annotators (A,) who rank the objects (n,) of problems, ranks (problems, A, n)."""
    rows = [
        (f"p{p}", f"o{n}", f"w{a}", ranks[p][a][n])
        for p in range(problems)
        for a in range(len(ranks[p]))
        for n in range(len(ranks[p][a]))
        if np.isfinite(ranks[p][a][n])
    ]
    table = pd.DataFrame(rows, columns=["problem", "object", "annotator", "rank"])
    return Annotations.from_frame(table, item=("problem", "object"), label="rank", kind="ranking")


def drawn(seed: int, problems: int, annotators: int, objects: int, noise: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    scores = np.arange(objects) + noise * rng.standard_normal((problems, annotators, objects))
    return np.round(scores).argsort(-1).argsort(-1) + 1.0


def test_tau_and_w_are_scipys_with_ties() -> None:
    ranks = np.array([[[1, 2, 3, 4, 5], [1, 3, 2, 4, 4], [2, 1, 3, 3, 5], [5, 4, 3, 2, 1.0]]])
    table = agreement_table(rankings(ranks), bootstrap=50)
    taus = [kendalltau(a, b)[0] for a, b in combinations(ranks[0], 2)]
    assert table.loc["kendall_tau", "value"] == pytest.approx(np.mean(taus))
    midranks = pd.DataFrame(ranks[0]).rank(axis=1).to_numpy()
    statistic = friedmanchisquare(*midranks.T)[0]  # m (n - 1) W, corrected for ties
    assert agreement_table(rankings(midranks[None]), bootstrap=0).loc["kendall_w", "value"] == pytest.approx(
        statistic / (4 * 4)
    )
    assert table["pairs"].tolist() == [6, 6] and (table["low"] <= table["value"]).all()
    pairs = agreement_pairs(rankings(ranks))
    assert pairs["agreement"].to_numpy() == pytest.approx(taus) and (pairs["items"] == 1).all()


def test_rankings_that_agree_and_that_are_reversed() -> None:
    same = rankings(np.tile(np.arange(1.0, 7), (1, 3, 1)))
    assert agreement_table(same, bootstrap=20)[["value", "low", "high"]].to_numpy() == pytest.approx(1)
    two = rankings(np.array([[np.arange(1.0, 7), np.arange(6.0, 0, -1)]]))
    assert agreement_table(two, bootstrap=0)["value"].to_dict() == pytest.approx(
        {"kendall_tau": -1, "kendall_w": 0}
    )


def test_problems_count_alike_and_objects_that_one_left_out_do_not() -> None:
    ranks = [drawn(1, 1, 3, 5)[0], drawn(2, 1, 4, 6)[0]]
    ranks[1][0, 2] = np.nan
    data = rankings(np.array(ranks, object), 2)
    table, items = agreement_table(data, bootstrap=0), agreement_items(data)
    taus = []
    for each in ranks:
        pairs = [(a, b) for a, b in combinations(each, 2)]
        kept = [np.isfinite(a) & np.isfinite(b) for a, b in pairs]
        taus.append(np.mean([kendalltau(a[k], b[k])[0] for (a, b), k in zip(pairs, kept, strict=True)]))
    assert items["agreement"].tolist() == pytest.approx(taus) and items["annotators"].tolist() == [3, 4]
    assert table.loc["kendall_tau", "value"] == pytest.approx(np.mean(taus))
    assert table.loc["kendall_w", ["items", "items_left_out"]].tolist() == [1, 1]
    assert np.isnan(items["kendall_w"].iloc[1]) and items.index.name == "problem"


def coverage(problems: int, annotators: int) -> float:
    """How often an interval of 90 % holds tau of a thousand problems or annotators."""
    many = (400, 12) if problems > annotators else (1, 400)
    truth = agreement_table(rankings(drawn(0, *many, 6, 2.0), many[0]), bootstrap=0).loc["kendall_tau", "value"]
    held = []
    for seed in range(1, 101):
        data = rankings(drawn(seed, problems, annotators, 6, 2.0), problems)
        row = agreement_table(data, bootstrap=200, level=0.9, seed=seed).loc["kendall_tau"]
        held.append(row["low"] <= truth <= row["high"])
    return float(np.mean(held))


@pytest.mark.slow
@pytest.mark.parametrize(("problems", "annotators"), [(30, 4), (1, 25)])
def test_intervals_of_tau_cover(problems: int, annotators: int) -> None:
    assert coverage(problems, annotators) > 0.8


def tagged(said: dict[str, list[str]]) -> Annotations:
    """Tags of annotators on sequences, of texts with a blank between tags."""
    rows = [
        (f"s{s}", n, who, tag)
        for who, texts in said.items()
        for s, text in enumerate(texts)
        for n, tag in enumerate(text.split())
    ]
    return Annotations.from_frame(
        pd.DataFrame(rows, columns=["sequence", "position", "annotator", "label"]), kind="sequence"
    )


def test_spans_are_counted_as_by_hand() -> None:
    data = tagged(
        {
            "ann": ["B-X I-X O B-Y", "B-X O"],
            "bob": ["B-X I-X I-X B-Y", "O B-X"],
            "cid": ["O O O B-X"],
        }
    )
    table = agreement_table(data, bootstrap=20).loc[["span_f1", "span_overlap"]]
    # ann and bob: 1 of 2 alike, 2/3 overlap; of the second text none. cid's B-X meets a B-Y of both: none.
    spans = (2 + 2) + (2 + 1) + (2 + 1) + (1 + 1)
    assert table.loc["span_f1", "value"] == pytest.approx(2 / spans)
    assert table.loc["span_overlap", "value"] == pytest.approx((2 + 2 * 2 / 3) / spans)
    assert table["items"].tolist() == [2, 2]


def test_spans_of_copies_agree_and_no_spans_have_no_agreement() -> None:
    text = ["B-X I-X O", "O B-X B-X"]
    table = agreement_table(tagged({"ann": text, "bob": text}), bootstrap=20)
    assert table.loc[["span_f1", "span_overlap"], "value"].tolist() == [1, 1]
    with pytest.warns(crowdppl.errors.CrowdpplWarning, match="span_f1"):
        none = agreement_table(tagged({"ann": ["O O B-X"], "bob": ["O O O"], "c": ["O O O"]}), bootstrap=0)
        assert none.loc["span_f1", "value"] == 0
        none = agreement_table(tagged({"ann": ["O O", "O B-X"], "bob": ["O O"], "c": ["O O"]}), bootstrap=0)
    assert np.isnan(none.loc["span_f1", "value"])


def test_items_and_pairs_of_numbers() -> None:
    rng = np.random.default_rng(0)
    matrix = rng.normal(0, 3, (40, 1)) + rng.normal(0, 1, (40, 4)) + [0, 0, 0, 2.0]
    matrix[rng.random((40, 4)) < 0.2] = np.nan
    matrix[:, :2] = np.where(np.isnan(matrix[:, :2]), 0.5, matrix[:, :2])
    data = Annotations.from_matrix(matrix, kind="real")
    alpha = agreement_table(data, bootstrap=0).loc["krippendorff_interval", "value"]
    items = agreement_items(data)
    assert np.average(items["agreement"], weights=items["annotators"]) == pytest.approx(alpha)
    at = items.index.get_loc(3)
    row = matrix[3][np.isfinite(matrix[3])]
    assert items.iloc[at][["annotators", "mean", "sd"]].tolist() == pytest.approx(
        [len(row), row.mean(), row.std(ddof=1)]
    )
    pairs = agreement_pairs(data)
    for (a, b), found in pairs.iterrows():
        both = matrix[np.isfinite(matrix[:, [a, b]]).all(1)][:, [a, b]]
        x, y = both.T
        two = agreement_table(Annotations.from_matrix(both, kind="real"), bootstrap=0)["value"].iloc[0]
        wanted = [len(x), (x - y).mean(), np.sqrt(((x - y) ** 2).mean()), pearsonr(x, y)[0], two]
        assert found.tolist() == pytest.approx(wanted)
    with pytest.raises(DataError, match="agreement_items or agreement_pairs"):
        agreement_classes(data)


def test_numbers_of_angles_go_round() -> None:
    angles = {"ann": {1: 359, 2: 10, 3: 90}, "bob": {1: 1, 2: 12, 3: 92}}
    data = Annotations.from_dicts(angles, kind="angle")
    assert agreement_pairs(data).iloc[0]["difference"] == pytest.approx(-2)
    assert agreement_items(data)["mean"].tolist() == pytest.approx([0, 11, 91], abs=1e-9)
