"""Labels drawn from fits to numbers and rankings, and their predictive checks: closed forms, level and power."""

import warnings
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau

import crowdppl
from crowdppl import Annotations
from crowdppl.errors import DataError

N, A = 50, 8


def numbers(errors: np.ndarray, seed: int = 0) -> Annotations:
    """Of each of N items by each of A annotators: a number of standard deviation 2, and ``errors`` (N, A)."""
    truth = np.random.default_rng([seed, 1]).normal(5, 2, (N, 1))
    item, who = np.repeat(np.arange(N), A), np.tile(np.arange(A), N)
    return Annotations.from_arrays(item, who, (truth + errors).ravel(), kind="real")


def rankings(seed: int, copier: bool = False, problems: int = 8, objects: int = 5) -> Annotations:
    """By stages (Gumbel), of objects that differ from problem to problem; annotator 1 may copy annotator 0."""
    rng = np.random.default_rng(seed)
    place = rng.normal(size=(problems, 1, objects)) + rng.gumbel(size=(problems, 6, objects))
    order = (-place).argsort(-1)
    order[:, 1] = order[:, 0] if copier else order[:, 1]
    rows = [(p, a, [f"{p} {o}" for o in order[p, a]]) for p in range(problems) for a in range(6)]
    return Annotations.from_arrays(*map(list, zip(*rows, strict=True)), kind="ranking")


def check(method: str, data: Annotations, seed: int = 0) -> crowdppl.Check:
    return crowdppl.predictive_check(crowdppl.fit(method, data, inference="em", seed=0), draws=39, seed=seed)


def normal(seed: int, scale: Any = 1.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(N, A)) * scale


def test_numbers_are_drawn_around_the_posterior_of_each_truth() -> None:
    """At a point: a label has the truth's mean and the bias, and the variances of the truth and of the error."""
    data = numbers(normal(0, [0.3, 0.5, 1, 1, 1, 1, 1, 2]))
    fit = crowdppl.fit("gaussian_annotators", data, inference="em", settings={"shared": 1e-6}, seed=0)
    drawn = fit.draw_labels(150, seed=1)
    assert drawn.groupby("draw").size().eq(data.n_labels).all()
    found = drawn.groupby(["item", "annotator"])["label"].agg(["mean", "var"]).reset_index()
    truth, own = fit.truth().loc[found["item"]], fit.annotators().loc[found["annotator"]]
    variance = truth["sd"].to_numpy() ** 2 + 1 / own["precision"].to_numpy()
    z = (found["mean"] - truth["estimate"].to_numpy() - own["bias"].to_numpy()) / np.sqrt(variance / 150)
    assert np.abs(z).max() < 5  # labels of an item share its truth, so that they are not quite independent
    assert (found["var"] / variance).groupby(found["annotator"]).mean().to_numpy() == pytest.approx(1, abs=0.05)


def test_grids_draw_their_truths_too_and_known_ones_stay() -> None:
    data = numbers(normal(1, 0.5))
    robust = crowdppl.fit("robust_annotators", data, inference="em", settings={"shared": 1e-6}, seed=0)
    mean = robust.draw_labels(100, seed=0).groupby("item")["label"].mean()
    bias = robust.annotators()["bias"].mean()
    np.testing.assert_allclose(mean, robust.truth()["estimate"] + bias, atol=0.2)  # 800 labels of sd .7
    known = crowdppl.fit("gaussian_annotators", data.with_gold({0: 100.0}), inference="em", seed=0)
    label, alone = (
        fit.draw_labels(30, seed=0).query("item == 0")["label"].mean()
        for fit in (known, crowdppl.fit("gaussian_annotators", data, inference="em", seed=0))
    )
    assert alone + 5 < label < 100, "labels depart from a known truth, as far as shared says"


def test_drawn_from_the_prior_numbers_know_of_no_labels() -> None:
    fit = crowdppl.fit("gaussian_annotators", numbers(normal(0)), inference="em", seed=0)
    drawn = [fit.draw_labels(40, seed=0, kind=kind) for kind in ("posterior", "prior")]
    both = [each.groupby("item")["label"].mean() for each in drawn]
    means = fit.truth()["estimate"]
    assert [np.corrcoef(means, each)[0, 1] > 0.9 for each in both] == [True, False]


def test_rankings_are_drawn_by_stages() -> None:
    data = Annotations.from_arrays(["p"] * 12, range(12), [list("abc")] * 9 + [list("cab")] * 3, kind="ranking")
    fit = crowdppl.fit("plackett_luce", data, inference="em", seed=0)
    skill, right = np.exp(fit.ranking()["score"]), fit.annotators()["reliable"].iloc[0]
    drawn = fit.draw_labels(300, seed=0)
    first = drawn[drawn["annotator"] == 0].set_index("object").query("label == 1")
    wanted = right * skill / skill.sum() + (1 - right) / 3
    share = first.index.value_counts(normalize=True)
    four_errors = 4 * np.sqrt(0.25 / 300)
    assert [share[o] for o in "abc"] == pytest.approx([wanted[o] for o in "abc"], abs=four_errors)
    assert drawn.groupby(["draw", "annotator"])["label"].agg(sorted).map(tuple).unique().tolist() == [(1, 2, 3)]


def test_statistics_of_numbers_by_hand() -> None:
    rows = [("x", "ann", 1.0), ("x", "bob", 3.0), ("y", "ann", 0.0), ("y", "bob", 6.0), ("z", "bob", 50.0)]
    data = Annotations.from_frame(pd.DataFrame(rows, columns=["item", "annotator", "label"]), kind="real")
    found = check("label_mean", data).table["observed"]
    # distances of 1 and 3 from the means, times the root of 2 / (2 - 1); ann is below, bob above
    assert found["within_items"] == pytest.approx(np.sqrt(2 * (1 + 9) / 2))
    assert found["annotator_means"] == pytest.approx(2 * np.sqrt(2))
    assert found["annotator_spreads"] == pytest.approx(0)
    assert found["tails"] == pytest.approx(1)
    assert "pair_excess" not in found  # ten items are to be shared


def test_statistics_of_rankings_are_those_of_pairs() -> None:
    data = rankings(0)
    found = check("plackett_luce", data)
    table = data.frame().pivot(index="item", columns="annotator", values="label")
    tau, top, last = [], [], []
    for _, one in table.groupby(table.index.str.split(" ").str[0]):
        for a, b in combinations(one, 2):
            tau.append(kendalltau(one[a], one[b]).statistic)
            top.append(one[a].idxmin() == one[b].idxmin())
            last.append(one[a].idxmax() == one[b].idxmax())
    wanted = [np.mean(x) for x in (tau, top, last)]
    names = ["rank_agreement", "top_agreement", "bottom_agreement"]
    np.testing.assert_allclose(found.table.loc[names, "observed"], wanted)


def test_replicates_have_the_ties_of_the_data() -> None:
    """Of two objects that nobody tells apart, no replicate does, and each has half of the first place."""
    data = Annotations.from_arrays(["p"] * 4, range(4), [[["a", "b"]], [["b", "a"]]] * 2, kind="ranking")
    found = check("plackett_luce", data)
    assert (found.replicates["rank_agreement"] == 0).all() and (found.replicates["top_agreement"] == 0.5).all()
    assert found.p_value == 1


@pytest.mark.slow
def test_a_check_passes_numbers_and_rankings_of_the_model() -> None:
    p = [check("gaussian_annotators", numbers(normal(n, [0.5, 0.7, 1, 1, 1, 1, 1.5, 2]), n), n) for n in range(8)]
    p += [check("plackett_luce", crowdppl.simulate("plackett_luce", rankings(0), seed=n).data, n) for n in range(8)]
    values = np.array([each.p_value for each in p])
    assert (values <= 0.05).sum() <= 3  # of 16 at .05, more than three come by chance in 1 of 100 cases
    assert values.mean() > 0.35  # uniform ones: .5, with a standard error of .07


def test_heavy_tails_biases_and_scales_are_told() -> None:
    heavy = np.random.default_rng(0).standard_t(2.5, (N, A))
    found = check("gaussian_annotators", numbers(heavy))
    assert found.p_value <= 0.05 and found.table.loc["tails", "p_value"] <= 0.05
    assert found.table.loc["tails", "observed"] > found.table.loc["tails", "high"]
    uneven = check("label_mean", numbers(normal(0, [0.3, 0.3, 1, 1, 1, 1, 2, 2])))
    assert uneven.worst == "annotator_spreads" and uneven.p_value <= 0.05
    biased = check("label_mean", numbers(normal(0) + np.linspace(-2, 2, A)))
    assert biased.table.loc["annotator_means", "p_value"] <= 0.05
    found.plot()


def test_errors_that_annotators_share_are_told() -> None:
    errors = normal(0)
    errors[:, 1] = 0.7 * errors[:, 0] + 0.7 * errors[:, 1]
    for found in (check("gaussian_annotators", numbers(errors)), check("plackett_luce", rankings(3, copier=True))):
        assert found.p_value <= 0.05
        assert found.table.loc["pair_excess", "p_value"] <= 0.05
    assert found.vote_spread.empty


def test_what_cannot_be_checked_is_refused() -> None:
    once = Annotations.from_arrays([0, 1, 2], [0, 1, 0], [1.0, 2.0, 4.0], kind="real")
    with pytest.raises(DataError, match="two labels"):
        check("label_mean", once)


@pytest.mark.parametrize("copies", [False, True])
def test_a_copier_among_annotators_of_numbers_is_told(copies: bool) -> None:
    """Of eight, of their own biases and precisions, the last copies the one before, or none does."""
    told = []
    for seed in range(6):
        rng = np.random.default_rng([seed, 2])
        errors = rng.normal(0, 0.3, A) + rng.uniform(0.5, 1, A) * rng.normal(size=(N, A))
        if copies:
            errors[:, -1] = errors[:, -2] + 0.01 * rng.normal(size=N)
        posterior = crowdppl.fit("gaussian_annotators", numbers(errors, seed), inference="em", seed=0)
        told += [x for x in posterior.doubts() if x.kind == "copying"]
    assert len(told) >= 5 if copies else not told
    assert all(x.who == {"annotators": (6, 7)} and x.figures["correlation"] > 0.5 for x in told)


def test_annotators_of_the_same_gain_and_pairs_that_meet_seldom_are_no_copiers() -> None:
    told, named = [], 0
    for seed in range(25):
        rng = np.random.default_rng([seed, 3])
        error, truth = rng.normal(size=(12, 30)), rng.normal(0, 3, (60, 1))
        halves = np.where(np.arange(A) < A // 2, 0.5, 1.0) * truth + rng.normal(size=(60, A))
        for label in (error, halves) if seed < 5 else (error,):
            data = Annotations.from_matrix(label, kind="real")
            posterior = crowdppl.fit("label_mean", data, inference="em", seed=0)
            told += [x.kind for x in posterior.doubts()]
            named += bool(crowdppl.suspicious_annotators(posterior)["copying"].any())
    assert "copying" not in told
    assert named <= 5  # of 30 tables, at a level of .05 over all pairs of each


def test_items_without_labels_take_no_part_in_doubts() -> None:
    rows = numbers(np.random.default_rng(0).normal(size=(N, A)), 0).frame()
    first, *others = rows["item"].unique()
    data = Annotations.from_frame(rows, kind="real", items=[first, 1_000, *others])
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert not crowdppl.fit("gaussian_annotators", data, inference="em", seed=0).doubts()


def test_annotators_who_meet_on_one_item_are_compared_without_warnings() -> None:
    rows = numbers(np.random.default_rng(0).normal(size=(N, A)), 0).frame()
    once = rows.head(1).assign(annotator=A)
    data = Annotations.from_frame(pd.concat([rows, once]), kind="real")
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert not crowdppl.fit("gaussian_annotators", data, inference="em", seed=0).doubts()
