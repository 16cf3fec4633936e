"""Labels that an annotator repeats on one item, which count for less than one each, by every engine."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl import Annotations
from crowdppl.data.split import keep
from crowdppl.errors import DataError, MethodError, ResultError
from tests.models.test_label_covariates import Plain, crowd, exact, gap, read

PLAIN = ["item", "annotator", "label"]


def shared(rows: pd.DataFrame, correlation: float, **options: Any) -> Annotations:
    """Labels whose repeats share a vote by a known correlation."""
    data = Annotations.from_frame(rows, **options)
    return with_correlation(data, correlation)


def with_correlation(data: Annotations, correlation: float) -> Annotations:
    history, abstainers = data.blocks[0].history, data.blocks[0].abstainers
    return replace(data, repeat_correlation=correlation).filled(history=history, abstainers=abstainers)


def design_effect(rows: pd.DataFrame, correlation: float) -> pd.DataFrame:
    """The same labels with their weights as a column."""
    times = rows.groupby(["item", "annotator"])["label"].transform("size")
    return rows.assign(weight=1 / (1 + (times - 1) * correlation))


def test_weights_follow_the_labels_that_are_there() -> None:
    rows = pd.DataFrame(
        [["i", "a", "x", 0], ["i", "a", "y", 0], ["i", "a", "x", 1], ["i", "b", "x", 0], *[["j", "b", "y", 0]] * 2],
        columns=[*PLAIN, "turn"],
    )
    rows.loc[len(rows)] = ["j", "b", "?", 0]
    data = shared(rows[PLAIN], 0.5, abstentions=["?"])
    item, annotator, _ = data.label_codes()
    assert item.tolist() == [0, 0, 0, 0, 1, 1, 1] and annotator.tolist() == [0, 0, 0, 1, 1, 1, 1]
    weights = data.as_block().weights
    assert weights is not None
    by_row = pd.DataFrame({"item": data.as_block().item, "w": weights}).groupby("item")["w"].apply(sorted)
    of_item = {int(data.order[n]): x for n, x in by_row.items()}
    np.testing.assert_allclose(of_item[0], [1 / 2, 1 / 2, 1 / 2, 1])  # three labels: 1 / (1 + 2 * .5)
    np.testing.assert_allclose(of_item[1], [2 / 3, 2 / 3, 1])  # an abstention is no repeat
    other = shared(rows, 0.5, abstentions=["?"], label_covariates=["turn"]).as_block().weights
    assert other is not None  # of the three, one has another covariate
    assert sorted(other.tolist()) == pytest.approx([2 / 3] * 4 + [1] * 3)
    fewer = keep(data, np.array([True, False, True, True, True, True, True])).as_block().weights
    assert fewer is not None and sorted(fewer.tolist()) == pytest.approx([2 / 3] * 4 + [1] * 2)
    assert keep(data, np.array([True, False, False, True, True, False, True])).as_block().weights is None
    assert with_correlation(data, 0.0).as_block().weights is None


@pytest.mark.parametrize("engine", ["em", "laplace"])
def test_shared_repeats_are_weighted_labels(engine: str) -> None:
    rows = crowd(12)
    mine = crowdppl.fit(Plain(), shared(rows[PLAIN], 0.4), inference=engine, seed=0)
    theirs = crowdppl.fit(Plain(weighted=True), read(design_effect(rows, 0.4)), inference=engine, seed=0)
    whole = crowdppl.fit(Plain(), shared(rows[PLAIN], 0.0), inference=engine, seed=0)
    assert gap(mine, theirs) < 1e-4 < gap(mine, whole)


ASKED_AGAIN = pd.DataFrame(
    [(0, 0, 0), *[(0, 1, 1)] * 4, (1, 0, 1), (1, 1, 1), (2, 0, 0), *[(2, 1, 0)] * 3], columns=PLAIN
).assign(context=0)


@pytest.mark.parametrize(
    ("engine", "options", "near"), [("gibbs", {"draws": 2000, "warmup": 50, "chains": 8}, 0.015), ("vb", {}, 0.06)]
)
def test_the_exact_posterior_is_found(engine: str, options: dict[str, int], near: float) -> None:
    rows = design_effect(ASKED_AGAIN, 0.6)
    share, _ = exact(Plain(weighted=True), rows)
    whole, _ = exact(Plain(), rows)
    data = shared(rows[PLAIN], 0.6, classes=[0, 1])
    found = crowdppl.fit(Plain(), data, inference=engine, seed=0, **options).result.probabilities
    assert np.abs(found - share).max() < near < np.abs(share - whole).max()


@pytest.mark.parametrize(
    ("method", "engine", "kind", "near"),
    [
        ("dawid_skene", "em", "nominal", 1e-6),
        ("one_coin", "em", "nominal", 1e-6),
        ("mace", "em", "nominal", 1e-5),
        ("glad", "laplace", "nominal", 1e-6),
        ("bayesian_dawid_skene", "laplace", "nominal", 1e-6),
        ("bayesian_dawid_skene", "vb", "nominal", 0.12),  # of parts of a label, counts rise otherwise
        ("rater_facets", "laplace", "ordinal", 1e-6),
        ("poisson_annotators", "vb", "count", 1e-6),
        ("von_mises_annotators", "vb", "angle", 0.05),
        ("robust_annotators", "laplace", "real", 1e-6),
        ("gaussian_annotators", "vb", "real", 1e-6),
        ("gain_annotators", "vb", "real", 1e-6),
        ("label_mean", "vb", "real", 1e-6),
    ],
)
def test_labels_that_are_always_the_same_are_one(method: str, engine: str, kind: str, near: float) -> None:
    """A correlation of one, and copies: the fit is that of one label of each annotator."""
    rng, item = np.random.default_rng(0), np.repeat(np.arange(40), 4)
    numeric = kind not in ("nominal", "ordinal")
    if numeric:
        label = np.abs(rng.normal(20, 6, 40)[item] + rng.normal(0, 3, 160)).round(0 if kind == "count" else 2)
    else:
        label = np.where(rng.random(160) < 0.7, rng.integers(3, size=40)[item], rng.integers(3, size=160))
    once = pd.DataFrame({"item": item, "annotator": np.tile(np.arange(4), 40), "label": label})
    times = 3 if numeric else np.where(rng.random(160) < 0.5, 3, 1)  # numbers keep their spread, which priors read
    found = []
    for rows, correlation in ((once, 0.0), (once.loc[once.index.repeat(times)], 1.0)):
        data = shared(rows, correlation, kind=kind)
        for each in (data, with_correlation(data, 0.0)):
            result = crowdppl.fit(method, each, inference=engine, seed=0).result
            truth: Any = result.truth
            found.append(truth.mean if hasattr(truth, "mean") else result.probabilities)
    one, _, same, whole = found
    assert np.abs(one - same).max() < near < np.abs(one - whole).max()


def test_several_rankings_of_a_problem_share_no_vote() -> None:
    with pytest.raises(DataError, match="repeats='share' would mix several rankings"):
        Annotations.from_arrays(["p"] * 2, ["ann"] * 2, ["a > b", "b > a"], kind="ranking", repeats="share")


def test_what_needs_whole_labels_says_so() -> None:
    data = shared(crowd(12)[PLAIN], 0.5)
    with pytest.raises(MethodError, match="repeats='share'"):
        crowdppl.fit("mace", data, inference="gibbs", seed=0, draws=20, warmup=10)
    posterior = crowdppl.fit("bayesian_dawid_skene", data, inference="vb", seed=0)
    for method in ("psis", "closed"):
        with pytest.raises(MethodError, match="repeats='share'.*heldout_score"):
            posterior.leave_one_out(method=method)
    assert np.isfinite(crowdppl.heldout_score(posterior, folds=2).per_label)


def test_saved_fits_keep_the_correlation(tmp_path: Path) -> None:
    data = shared(crowd(12)[PLAIN], 0.4)
    posterior = crowdppl.fit("dawid_skene", data, inference="em", seed=0)
    posterior.save(tmp_path)
    found = crowdppl.load(tmp_path)
    assert found.data.repeat_correlation == 0.4 and found.data.blocks[0].repeat_correlation == 0.4
    again = crowdppl.fit("dawid_skene", found.data, inference="em", seed=0)
    assert gap(again, posterior) < 1e-9
    with pytest.raises(ResultError, match="repeat_correlation"):
        crowdppl.fit("dawid_skene", with_correlation(data, 1.5), inference="em").save(tmp_path)
        crowdppl.load(tmp_path)


def asked(seed: int, correlation: float, n_classes: int, again: float, n_items: int) -> tuple[Any, np.ndarray]:
    """Three annotators, of whose labels a share is asked for five times; each label repeats what its annotator saw
    of the item with a probability whose square is the correlation. Columns of labels, and truths.
    """
    rng = np.random.default_rng(seed)
    truth = rng.integers(n_classes, size=n_items)
    right = rng.uniform(0.7, 0.9, (3, n_classes))
    item, who = (x.reshape(-1) for x in np.indices((n_items, 3)))

    def said(item: np.ndarray, who: np.ndarray) -> np.ndarray:
        wrong = (truth[item] + rng.integers(1, n_classes, len(item))) % n_classes
        return np.where(rng.random(len(item)) < right[who, truth[item]], truth[item], wrong)

    seen, each = said(item, who), np.repeat(np.arange(len(item)), np.where(rng.random(len(item)) < again, 5, 1))
    fresh = said(item[each], who[each])
    label = np.where(rng.random(len(each)) < np.sqrt(correlation), seen[each], fresh)
    return (item[each], who[each], label), truth


@pytest.mark.parametrize(("n_classes", "again"), [(2, 1.0), (4, 1.0), (2, 0.1)])
@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.7, 1.0])
def test_the_correlation_is_learned(correlation: float, n_classes: int, again: float) -> None:
    found = []
    for seed in range(5):
        columns, _ = asked(seed, correlation, n_classes, again, 150)
        found.append(Annotations.from_arrays(*columns, repeats="share").repeat_correlation)
    assert abs(np.mean(found) - correlation) < (0.05 if again == 1 else 0.15)


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.7, 1.0])
def test_the_correlation_of_numbers_is_learned(correlation: float) -> None:
    found = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        item, who, _ = (x.reshape(-1) for x in np.indices((100, 4, 3)))
        own = np.sqrt(correlation) * rng.normal(size=(100, 4))[item, who]
        error = own + np.sqrt(1 - correlation) * rng.normal(size=len(item))
        label = 10 * rng.normal(size=100)[item] + rng.normal(0, 3, 4)[who] + rng.uniform(1, 8, 4)[who] * error
        found.append(Annotations.from_arrays(item, who, label, kind="real", repeats="share").repeat_correlation)
    assert abs(np.mean(found) - correlation) < 0.05


def test_known_truths_tell_the_correlation_where_labels_alone_cannot() -> None:
    """One annotator, asked twice, who errs in half of the items and repeats each error."""
    truth = np.arange(60) % 2
    label = np.repeat(np.where(np.arange(60) % 4 < 2, truth, 1 - truth), 2)
    item, gold = np.repeat(np.arange(60), 2), dict(enumerate(truth.tolist()))
    data = Annotations.from_arrays(item, np.zeros(120, int), label, gold=gold, repeats="share")
    assert data.repeat_correlation > 0.9


def test_labels_like_others_share_as_these_do() -> None:
    columns, _ = asked(0, 0.3, 2, 1.0, 150)
    data = Annotations.from_arrays(*columns, repeats="share")
    more = Annotations.from_arrays([900, 900], [0, 0], [1, 1], like=data)
    assert more.repeat_correlation == data.repeat_correlation != 0
    posterior = crowdppl.fit("bayesian_dawid_skene", data, inference="vb", seed=0)
    kept = crowdppl.fit("bayesian_dawid_skene", Annotations.from_arrays(*columns), inference="vb", seed=0)
    rows = pd.DataFrame({"item": [900] * 3, "annotator": [0] * 3, "label": [1] * 3})
    sure = [x.update(rows).result.probabilities.max() for x in (posterior, kept)]
    assert sure[0] < sure[1] - 0.01


def test_more_classes_than_confusions_are_learned_of_are_refused() -> None:
    label = np.arange(150)
    with pytest.raises(DataError, match="100 classes at most, and there are 150; use repeats='one'"):
        Annotations.from_arrays(np.repeat(label, 2), np.zeros(300, int), np.repeat(label, 2), repeats="share")


CROWDS = [(2, 1.0), (4, 0.1), (4, 1.0), (2, 0.1)]
"""Classes, and the share of labels that are asked for again."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "engine", "n_classes", "again"),
    [
        *(("bayesian_dawid_skene", "vb", *x) for x in CROWDS),
        ("bayesian_dawid_skene", "gibbs", *CROWDS[0]),
        *(("bayesian_dawid_skene", "laplace", *x) for x in CROWDS[2:]),
        *(("one_coin", "vb", *x) for x in CROWDS[:2]),
        *(("dawid_skene", "em", *x) for x in CROWDS[2:]),
    ],
)
def test_truths_are_right_as_often_as_said(method: str, engine: str, n_classes: int, again: float) -> None:
    """By maximum likelihood, three labels an item are too few for tables; without repeats it is as far off."""
    short: dict[str, Any] = {"draws": 100, "warmup": 30} if engine == "gibbs" else {}
    for correlation in (0.0, 0.5, 1.0):
        beyond, score = ({how: list[float]() for how in ("share", "keep", "one")} for _ in range(2))
        for seed in range(4 if engine in ("gibbs", "laplace") else 6):
            columns, truth = asked(seed, correlation, n_classes, again, 300)
            for how in score:
                data = Annotations.from_arrays(*columns, repeats=how)
                p = crowdppl.fit(method, data, inference=engine, seed=0, **short).result.probabilities
                score[how].append(float(np.log(p[np.arange(300), truth].clip(1e-9)).mean()))
                beyond[how].append(float(p.max(1).mean() - (p.argmax(1) == truth).mean()))
        chance = 2 * np.std(beyond["share"]) / np.sqrt(len(beyond["share"]))
        assert abs(np.mean(beyond["share"])) < max(0.03, float(np.mean(beyond["one"]))) + chance, correlation
        assert np.mean(score["share"]) > max(np.mean(score["keep"]), np.mean(score["one"])) - 0.01, correlation
        assert correlation < 1 or np.mean(beyond["keep"]) > 0.05
