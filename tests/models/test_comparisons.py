"""Comparisons of objects: Bradley-Terry and Crowd-BT against closed forms, importance sampling and each other."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyro
import pytest
import torch
from scipy import integrate, optimize
from scipy.special import expit

import crowdppl
import crowdppl.primitives as cp
from crowdppl import Annotations
from crowdppl.errors import DataError, MethodError
from crowdppl.inference.density import Density

EXACTLY: dict[str, Any] = {"inference": "em", "tolerance": 1e-15, "max_iterations": 5000, "seed": 0}
FEW = [
    ("a", "b", "x", "left"),
    ("b", "a", "x", "left"),
    ("b", "c", "x", "left"),
    ("a", "c", "y", "tie"),
    ("a", "b", "y", "right"),
    ("c", "b", "y", "right"),
    ("a", "b", "z", "left"),
]


def pairs(rows: Iterable[tuple[str, str, str, str]], **options: Any) -> Annotations:
    columns = ["left", "right", "annotator", "winner"]
    return Annotations.from_frame(pd.DataFrame(list(rows), columns=columns), kind="pair", **options)


def again(rows: pd.DataFrame) -> Annotations:
    """The rows of some annotations, read anew."""
    return Annotations.from_arrays(rows["item"], rows["annotator"], rows["label"], kind="pair")


def compared(n: int, seed: int = 0, objects: int = 5, annotators: int = 3, spread: float = 0.6) -> Annotations:
    """Comparisons by annotators who answer by true skills; the first object is the best."""
    rng = np.random.default_rng(seed)
    left, step = rng.integers(0, objects, n), rng.integers(1, objects, n)
    right = (left + step) % objects
    chance = 1 / (1 + np.exp(spread * (left - right)))
    won = np.where(rng.random(n) < chance, "left", "right")
    who = rng.integers(0, annotators, n)
    return pairs((f"o{a}", f"o{b}", f"w{w}", y) for a, b, w, y in zip(left, right, who, won, strict=True))


def scores(posterior: crowdppl.Posterior) -> pd.Series[Any]:
    return posterior.ranking()["score"].sort_index()


def luce(data: Annotations, spread: float) -> np.ndarray:
    """Most probable log-skills with a normal prior, by BFGS."""
    rows = data.frame().join(data.item_covariates, on="item")
    left, right = rows["left"].cat.codes.to_numpy(), rows["right"].cat.codes.to_numpy()
    side = np.where(rows["label"] == "left", 1, -1)

    def loss(skill: np.ndarray) -> float:
        missed = np.logaddexp(0, side * (skill[right] - skill[left])).sum()
        return float(missed + skill @ skill / (2 * spread**2))

    found = optimize.minimize(loss, np.zeros(len(rows["left"].cat.categories)), tol=1e-12).x
    return np.asarray(found - found.mean())


@pytest.mark.parametrize("model", ["bradley_terry", "crowd_bt", "preference_groups"])
def test_em_with_annotators_who_never_err_finds_the_mode_of_log_skills(model: str) -> None:
    own = {"crowd_bt": {"right": 1e12, "wrong": 1.0}, "preference_groups": {"groups": 1}}
    settings = {"spread": 1.5, **own.get(model, {})}
    data = compared(60)
    found = crowdppl.fit(model, data, settings=settings, **EXACTLY)
    np.testing.assert_allclose(scores(found), luce(data, 1.5), atol=1e-5)


def test_grades_of_two_answers_are_bradley_terry() -> None:
    data, how = compared(60), {"settings": {"spread": 1.5}, **EXACTLY}
    found = crowdppl.fit("ordinal_bradley_terry", data, **how)
    np.testing.assert_allclose(scores(found), luce(data, 1.5), atol=1e-4)


def strengths(n: int, seed: int, cuts: list[float], objects: int = 6) -> tuple[pd.DataFrame, np.ndarray]:
    """Comparisons with strengths, negative for the left object, and the log-skills that they come from."""
    rng = np.random.default_rng(seed)
    skill = rng.normal(size=objects)
    left = rng.integers(0, objects, n)
    right = (left + rng.integers(1, objects, n)) % objects
    lead = skill[left] - skill[right] + rng.logistic(size=n)
    given = -np.sign(lead) * (np.abs(lead)[:, None] > np.array(cuts)).sum(1)
    names = {"left": [f"o{x}" for x in left], "right": [f"o{x}" for x in right]}
    return pd.DataFrame({**names, "annotator": [f"w{x % 4}" for x in range(n)], "label": given.astype(int)}), skill


@pytest.mark.parametrize("ties", [True, False])
def test_strengths_are_cut_from_a_logistic(ties: bool) -> None:
    """Differences of the distribution function, and the mode (of gaps, not of their logarithms) by BFGS."""
    rows, _ = strengths(150, 3, [0.4, 1.5, 2.5] if ties else [0.0, 1.5])
    data = Annotations.from_frame(rows, kind="pair")
    found = crowdppl.fit("ordinal_bradley_terry", data, settings={"spread": 1.2}, **EXACTLY)
    left, right = (rows[side].str[1:].astype(int).to_numpy() for side in ("left", "right"))
    grade = -rows["label"].to_numpy()

    def loss(x: np.ndarray) -> float:
        skill, gap = x[:6], np.exp(x[6:])
        cut = np.cumsum(gap) if ties else np.append(0.0, np.cumsum(gap))
        ends = np.concatenate([[-np.inf], -cut[::-1], cut if ties else cut[1:], [np.inf]])
        lead = skill[left] - skill[right]
        at = np.unique(grade, return_inverse=True)[1]
        p = expit(ends[at + 1] - lead) - expit(ends[at] - lead)  # that the noisy lead is in between
        return float(-np.log(p).sum() + skill @ skill / (2 * 1.2**2) + (x[6:] ** 2 / 2 + x[6:]).sum())

    best = optimize.minimize(loss, np.zeros(6 + (3 if ties else 1)), tol=1e-10).x
    np.testing.assert_allclose(scores(found), best[:6] - best[:6].mean(), atol=2e-3)
    np.testing.assert_allclose(found.result.sites["gap"].mean, np.exp(best[6:]), atol=5e-3)


def test_the_spread_of_skills_is_not_drawn_together_by_ties() -> None:
    """Of five data sets, two fifths of whose answers are ties; as half of either answer, these lose a quarter."""
    found = []
    for seed in range(5):
        rows, skill = strengths(2000, seed, [1.2, 2.5], objects=20)
        data = Annotations.from_frame(rows, kind="pair")
        found.append([cp.learned_spread(data, graded=graded) / skill.std() for graded in (True, False)])
    graded, halved = np.mean(found, 0)
    assert graded == pytest.approx(1, abs=0.1) and halved < 0.85
    plain = compared(60)
    assert cp.learned_spread(plain, graded=True) == pytest.approx(cp.learned_spread(plain))


def test_strengths_are_refused_by_methods_of_sides_and_auto_takes_the_one_that_reads_them() -> None:
    rows, skill = strengths(300, 0, [0.3, 1.5])
    data = Annotations.from_frame(rows, kind="pair")
    with pytest.raises(DataError, match="ordinal_bradley_terry"):
        crowdppl.fit("bradley_terry", data)
    found = crowdppl.fit("auto", data, seed=0, max_iterations=30)
    assert found.method == "ordinal_bradley_terry"
    assert np.corrcoef(scores(found), skill)[0, 1] > 0.95
    told, tie = found.comparisons(), found.probabilities()["tie"].to_numpy()
    item = data.label_codes()[0]
    np.testing.assert_allclose(told["p_left"] + told["p_right"] + tie[item], 1, atol=1e-6)


def test_a_class_of_ties_that_nobody_uses_changes_nothing() -> None:
    rows = [row for row in FEW if row[3] != "tie"]
    data = pairs(rows), pairs(rows, classes=["left", "right", "tie"])
    found = [scores(crowdppl.fit("bradley_terry", x, **EXACTLY)) for x in data]
    np.testing.assert_allclose(*found, atol=1e-5)


def test_who_always_looks_twice_follows_davidson() -> None:
    data, skill = pairs(FEW), torch.tensor([3.0, 1.0, 0.5])
    known = {"skill": skill, "looks": torch.tensor([1e-30, 1.0])}
    with pyro.poutine.condition(data=known):
        found = cp.preferences(data, 2.0).exp()
    pair = cp.item_groups(data, "left", "right")
    worth = skill[pair].square()  # Davidson's are the squares
    tie = 2 * worth.prod(-1, keepdim=True).sqrt()
    each = torch.cat([worth, tie], -1)
    torch.testing.assert_close(found, each / each.sum(-1, keepdim=True))


def by_importance(n: int = 300_000) -> tuple[np.ndarray, np.ndarray]:
    """Expected centred log-skills and reliabilities of FEW: draws of the prior, weighed by the likelihood."""
    rng = np.random.default_rng(1)
    skill, looks = rng.lognormal(size=(n, 3)), rng.beta(1, 1, n)
    right = rng.beta(4, 2, (n, 3))
    weight = np.ones(n)
    for one, other, who, label in FEW:
        a, b = skill[:, "abc".index(one)], skill[:, "abc".index(other)]
        p = a / (a + b)
        outcome = np.stack([looks * q**2 + (1 - looks) * q for q in (p, 1 - p)] + [2 * looks * p * (1 - p)])
        own, good = outcome[["left", "right", "tie"].index(label)], right[:, "xyz".index(who)]
        weight *= good * own + (1 - good) / 2 * (1 - own)
    log = np.log(skill) - np.log(skill).mean(1, keepdims=True)
    return np.average(log, 0, weight), np.average(right, 0, weight)


@pytest.mark.slow
def test_gibbs_is_the_posterior_by_importance_sampling() -> None:
    """The error of either side is below .015: 10,000 draws, and an effective 60,000 of the prior."""
    data = pairs(FEW)
    long: dict[str, Any] = {"chains": 40, "draws": 250, "warmup": 20, "settings": {"spread": 1.0}}
    found = crowdppl.fit("crowd_bt", data, inference="gibbs", seed=0, **long)
    log, right = by_importance()
    np.testing.assert_allclose(scores(found), log, atol=0.04)
    np.testing.assert_allclose(found.annotators()["accuracy"], right, atol=0.02)


def test_the_majority_is_on_the_right_side_of_the_mirror() -> None:
    right = compared(120, seed=3).frame()
    rows = right.assign(annotator=np.where(right.index % 4 == 0, "mirror", right["annotator"]))
    flipped = {"left": "right", "right": "left"}
    wrong = rows["annotator"] == "mirror"
    rows.loc[wrong, "label"] = rows.loc[wrong, "label"].map(flipped)
    data = again(rows)
    for inference in ("em", "vb"):
        found = crowdppl.fit("crowd_bt", data, inference=inference, seed=0, restarts=3)
        assert [*found.ranking().index] == [f"o{n}" for n in range(5)]
        assert found.annotators()["accuracy"].idxmin() == "mirror" and found.annotators()["accuracy"].min() < 0.45


def test_the_spread_of_skills_is_its_mean() -> None:
    """Of two objects by quadrature, where Laplace's approximation errs by a few per cent."""
    data = pairs([("a", "b", "w", "left")] * 45 + [("a", "b", "w", "right")] * 5)

    def evidence(spread: float) -> float:
        def joint(lead: float) -> float:
            return float(expit(lead) ** 45 * expit(-lead) ** 5 * np.exp(-((lead / spread) ** 2) / 4) / spread)

        return integrate.quad(joint, -6, 10)[0] / (spread + 1 / spread)

    spreads = np.geomspace(0.1, 10, 41)
    mean = np.average(np.log(spreads), weights=[evidence(x) for x in spreads])
    assert np.log(cp.learned_spread(data)) == pytest.approx(mean, abs=0.05)
    assert cp.learned_spread(
        Annotations.design(data.frame()["item"], data.frame()["annotator"], kind="pair")
    ) == pytest.approx(1)


@pytest.mark.parametrize("spread", [0.3, 1.0, 3.0])
def test_the_spread_of_many_skills_is_found(spread: float) -> None:
    """Of 40 skills it is known to 11 %, and log s by its prior."""
    rng = np.random.default_rng(1)
    skill, couples = rng.normal(0, spread, 40), [rng.permutation(40)[:2] for _ in range(2000)]
    won = rng.random(2000) < expit([skill[a] - skill[b] for a, b in couples])
    rows = [(f"o{a}", f"o{b}", "w", "left" if y else "right") for (a, b), y in zip(couples, won, strict=True)]
    assert np.log(cp.learned_spread(pairs(rows)) / skill.std()) == pytest.approx(0, abs=0.4)


@pytest.mark.parametrize("inference", ["em", "vb"])
def test_a_chain_of_objects_is_not_drawn_together(inference: str) -> None:
    """Each beats the next 8 to 1, log 8 = 2.1; a prior that is not learned leaves 0 to .5 in the middle."""
    rows = [
        (f"o{n:02}", f"o{n + 1:02}", f"w{w}", "right" if w == 8 else "left") for n in range(12) for w in range(9)
    ]
    found = scores(crowdppl.fit("bradley_terry", pairs(rows), inference=inference, seed=0))
    assert (-np.diff(found)).min() > 1.2


def test_engines_move_the_unit_of_skills_at_once() -> None:
    """Labels tell nothing of it: it is the prior's, of which the logarithms add up to 0."""
    for inference in ("em", "vb"):
        found = crowdppl.fit("bradley_terry", compared(500), inference=inference, seed=0)
        assert found.diagnostics()["iterations"] < 150
        assert np.log(found.result.sites["skill"].mean).mean() == pytest.approx(0, abs=0.02)


def test_an_advantage_of_the_left_side_is_found() -> None:
    rng, rows = np.random.default_rng(2), []
    for n in range(300):
        a, b = rng.permutation(4)[:2]
        rows.append((f"o{a}", f"o{b}", f"w{n % 3}", "left" if rng.random() < 0.75 else "right"))
    found = crowdppl.fit("bradley_terry", pairs(rows), inference="vb", settings={"position_bias": True}, seed=0)
    assert found.result.sites["advantage"].mean == pytest.approx(np.log(3), abs=0.4)
    with pytest.raises(MethodError, match="advantage"):
        crowdppl.fit("crowd_bt", pairs(rows), inference="gibbs", settings={"position_bias": True})


def test_a_known_truth_counts_as_one_more_answer() -> None:
    data, rows = compared(40), compared(40).frame()
    item, label = rows.loc[0, "item"], rows.loc[0, "label"]
    more = pd.concat([rows, pd.DataFrame({"item": [item], "annotator": ["new"], "label": [label]})])
    with_gold = crowdppl.fit("bradley_terry", data.with_gold({item: label}), **EXACTLY)
    with_label = crowdppl.fit("bradley_terry", again(more), **EXACTLY)
    np.testing.assert_allclose(scores(with_gold), scores(with_label), atol=1e-6)
    assert with_gold.probabilities().loc[tuple(item.split(" | ")), label] == pytest.approx(1)


def test_new_objects_begin_at_the_prior_and_an_update_is_a_fit_to_all(tmp_path: Path) -> None:
    rows = compared(60).frame()
    exactly: dict[str, Any] = {"inference": "vb", "tolerance": 1e-13}
    new = pairs([("o0", "o9", "w0", "left"), ("p", "q", "w1", "right"), ("o1", "o0", "w0", "right")])
    posterior = crowdppl.fit("bradley_terry", again(rows), **exactly)
    posterior.save(tmp_path / "kept")
    known = crowdppl.load(tmp_path / "kept")
    pd.testing.assert_frame_equal(known.ranking(), posterior.ranking())
    found = known.predict(new)
    assert found.loc[("p", "q"), "left"] == pytest.approx(0.5)
    updated = known.update(new, tolerance=1e-13)
    all_rows = again(pd.concat([rows, new.frame()]))
    whole = crowdppl.fit("bradley_terry", all_rows, **exactly)
    np.testing.assert_allclose(scores(updated), scores(whole)[scores(updated).index], atol=0.1)
    assert [*updated.site("skill")["object"].values] == [*[f"o{n}" for n in range(5)], "o9", "p", "q"]


def test_the_order_is_told_by_draws_and_refused_of_points() -> None:
    data = compared(120)
    posterior = crowdppl.fit("crowd_bt", data, inference="vb", seed=0)
    before, table = posterior.order_probabilities(), posterior.ranking(0.9)
    assert [*before.index] == [*table.index] == [*before.columns]
    off = ~np.eye(5, dtype=bool)
    np.testing.assert_allclose((before + before.T).to_numpy()[off], 1, atol=1e-9)
    assert (np.triu(before, 1)[np.triu_indices(5, 1)] > 0.5).all() and (table["low"] < table["score"]).all()
    points = crowdppl.fit("crowd_bt", data, inference="em", seed=0)
    assert points.ranking()["low"].isna().all()
    for ask in (points.order_probabilities, lambda: points.suggest_labels(1)):
        with pytest.raises(MethodError, match="em found points"):
            ask()
    with pytest.raises(MethodError, match="crowd_bt"):
        crowdppl.fit("one_coin", data, inference="em").ranking()


def test_vb_knows_both_orders_where_annotators_contradict_each_other(tmp_path: Path) -> None:
    """By importance sampling. Mean field takes the side of one: it says .87 of (a, c), where .56 are right."""
    rows = [(a, b, "x", "left") for a, b in ["ab", "bc", "ac"] * 2] + [("a", "b", "z", "left")]
    rows += [(a, b, "y", "right") for a, b in ("ab", "bc", "ac", "bc", "ac")]
    rng, n = np.random.default_rng(1), 60_000
    skill, right, weight, each = rng.lognormal(size=(n, 3)), rng.beta(4, 2, (n, 3)), np.ones(n), []
    for left, other, who, label in rows:
        a, b = skill[:, "abc".index(left)], skill[:, "abc".index(other)]
        said, good = (a if label == "left" else b) / (a + b), right[:, "xyz".index(who)]
        each.append(good * said + (1 - good) * (1 - said))
        weight *= each[-1]
    posterior = crowdppl.fit("crowd_bt", pairs(rows), inference="vb", settings={"spread": 1.0}, seed=0)
    left_out = np.mean([np.log(weight.sum() / (weight / p).sum()) for p in each])  # needs skills with who is right
    assert posterior.leave_one_out().mean == pytest.approx(left_out, abs=0.03)
    found = posterior.order_probabilities()
    for one, other in ("ab", "bc", "ac"):
        first = skill[:, "abc".index(one)] > skill[:, "abc".index(other)]
        assert found.loc[one, other] == pytest.approx(np.average(first, weights=weight), abs=0.06)
    log = np.log(skill) - np.log(skill).mean(1, keepdims=True)
    sd = np.sqrt(np.average(log**2, 0, weight) - np.average(log, 0, weight) ** 2)
    table = posterior.ranking(0.9).loc[list("abc")]
    np.testing.assert_allclose((table["high"] - table["low"]) / (2 * 1.645), sd, rtol=0.15)
    posterior.save(tmp_path / "kept")
    pd.testing.assert_frame_equal(crowdppl.load(tmp_path / "kept").ranking(0.9).loc[list("abc")], table)


def test_the_next_question_is_about_the_least_known_order() -> None:
    rows = [("a", "b", f"w{n}", "left") for n in range(12)] + [("c", "d", "w0", "left"), ("c", "d", "w1", "right")]
    data = pairs(rows, annotators=["w0", "w1", "other"])
    posterior = crowdppl.fit("bradley_terry", data, inference="vb", seed=0)
    found = posterior.suggest_labels(2, annotators=["other"])
    assert (
        [*found["left"]] == ["c", "a"] and [*found["right"]] == ["d", "b"] and (found["information"] > 0.001).all()
    )


def test_columns_of_other_categories_are_no_groups_of_one_kind() -> None:
    table = pd.DataFrame({"one": ["x", "y"], "other": ["y", "z"]}, index=["i", "j"])
    labels = {"u": {"i": 0, "j": 1}}
    apart = Annotations.from_dicts(labels, item_covariates=table)
    with pytest.raises(DataError, match="categories"):
        cp.item_groups(apart, "one", "other")
    same = table.astype(pd.CategoricalDtype(["z", "y", "x"]))
    joined = Annotations.from_dicts(labels, item_covariates=same)
    assert cp.item_groups(joined, "one", "other").tolist() == [[2, 1], [1, 0]]
    assert cp.plates.groups(joined, "one", "other").size == 3
    with pytest.raises(MethodError, match="kind='pair'"):
        crowdppl.fit("crowd_bt", apart)


def test_auto_takes_the_method_of_comparisons_that_predicts_best() -> None:
    """Of 300 answers 85 % are left, whatever is compared: log(.85 / .15) = 1.7 apart from the skills."""
    rng, rows = np.random.default_rng(0), []
    for n in range(300):
        a, b = rng.permutation(5)[:2]
        rows.append(
            (f"o{a}", f"o{b}", f"w{n % 3}", "left" if rng.random() < expit(1.7 + 0.8 * (b - a)) else "right")
        )
    found = crowdppl.fit("auto", pairs(rows), seed=0, max_iterations=12)
    scores = found.diagnostics()["scores"]
    assert "with position_bias" in max(scores, key=scores.get) and found.model.position_bias
    assert len(scores) == 6 and np.isfinite([*scores.values()]).all()
    assert found.ranking().index[0] == "o0" and found.order_probabilities().loc["o0", "o4"] > 0.9


def leaning(lean: Iterable[float], n: int = 240) -> Annotations:
    """Answers to both orders of pairs by annotators who favour the left side by so much, in log-odds."""
    rng, rows, each = np.random.default_rng(0), [], [*lean]
    for m in range(n):
        pair = [*rng.permutation(5)[:2]]
        for a, b in (pair, pair[::-1]):
            chance = expit(0.5 * (b - a) + each[m % len(each)])
            rows.append((f"o{a}", f"o{b}", f"w{m % len(each)}", "left" if rng.random() < chance else "right"))
    return pairs(rows)


def position_doubts(posterior: crowdppl.Posterior) -> list[Any]:
    return [doubt for doubt in posterior.doubts() if doubt.kind == "position"]


@pytest.mark.parametrize("model", ["bradley_terry", "crowd_bt"])
def test_answers_that_follow_the_side_are_doubted_and_modelled(model: str) -> None:
    """An advantage of 1.5 makes .82 of answers to equal objects left."""
    data = leaning([1.5, 1.5, 1.5])
    (doubt,) = position_doubts(crowdppl.fit(model, data, inference="em", seed=0))
    assert doubt.figures["share"] == pytest.approx(0.82, abs=0.06) and "position_bias=True" in doubt.text
    assert not position_doubts(crowdppl.fit(model, data, inference="em", settings={"position_bias": True}, seed=0))
    assert not position_doubts(crowdppl.fit(model, leaning([0.0, 0.0, 0.0]), inference="em", seed=0))


def test_annotators_who_favour_opposite_sides_are_named() -> None:
    data = leaning([2.0, -2.0, 0.0])
    (doubt,) = position_doubts(crowdppl.fit("bradley_terry", data, inference="em", seed=0))
    assert set(doubt.who["annotators"]) == {"w0", "w1"} and "'w0'" in doubt.text
    each = [float(x) for x in re.findall(r"(\d+)% of answers by '(?:w0|w1)'", doubt.text)]
    assert each[0] > 75 and each[1] < 25  # 2 and -2 in log-odds are .88 and .12
    (call,) = doubt.remedies
    own = eval(call, {"crowdppl": crowdppl, "data": data})
    assert not position_doubts(own)
    for name, (left, right) in zip(data.annotators, own.result.sites["ability"].mean[..., 0], strict=True):
        assert np.sign(left - right) == {"w0": 1, "w1": -1}.get(name, np.sign(left - right)), name
    few: dict[str, Any] = {"inference": "vb", "seed": 0, "folds": 2, "max_iterations": 20}
    plain, judge = (
        crowdppl.heldout_score("crowd_bt", data, settings={"position_bias": x}, **few) for x in (True, "judge")
    )
    assert judge.per_label > plain.per_label + 0.05


def test_a_bias_of_each_judge_is_a_table_by_what_they_prefer() -> None:
    """Sums by hand: the left one is preferred with odds 3 e, and either preference is said with its reliability."""
    data = pairs([("a", "b", "w", "left"), ("a", "b", "w", "right")])
    values = {
        "skill": torch.tensor([3.0, 1.0]).double(),
        "advantage": torch.tensor(1.0).double(),
        "ability": torch.tensor([[[0.9, 0.1], [0.6, 0.4]]]).double(),
    }
    model = crowdppl.method("crowd_bt", position_bias="judge", spread=1.0)
    found = Density(model.model)(data.as_block(), values).per_item.detach().double().sum()
    p = 3 * np.e / (1 + 3 * np.e)
    left = p * 0.9 + (1 - p) * 0.4
    assert float(found) == pytest.approx(np.log(left) + np.log(1 - left), abs=1e-5)


def test_an_accuracy_that_a_method_does_not_know_is_none() -> None:
    """What it knows is how probable the same answer is once more."""
    data = compared(120)
    posterior = crowdppl.fit("bradley_terry", data, inference="vb", seed=0)
    table, rows = posterior.annotators(), data.frame()
    assert table["accuracy"].isna().all() and "sensitivity" not in table
    p = posterior.probabilities().set_axis(data.items).stack()
    again = pd.Series([p[at] for at in zip(rows["item"], rows["label"], strict=True)])
    np.testing.assert_allclose(table["agreement"], again.groupby(rows["annotator"]).mean()[table.index], atol=1e-6)
    assert "the most typical first" in posterior.summary() and "ranking, the best first" in posterior.summary()
    assert crowdppl.fit("crowd_bt", data, inference="vb", seed=0).annotators()["accuracy"].between(0.1, 0.99).all()


def test_scores_beside_an_advantage_are_as_wide_as_the_posterior() -> None:
    """By laplace, and as without the setting where the orders are balanced."""
    data, seen = leaning([0.0, 0.0, 0.0], n=60), {}
    for bias, inference in ((True, "vb"), (True, "laplace"), (False, "vb")):
        how: Any = {"settings": {"position_bias": bias}, "inference": inference, "seed": 0}
        table = crowdppl.fit("bradley_terry", data, **how).ranking()
        seen[bias, inference] = float((table["high"] - table["low"]).mean())
    assert seen[True, "vb"] == pytest.approx(seen[True, "laplace"], rel=0.2)
    assert seen[True, "vb"] == pytest.approx(seen[False, "vb"], rel=0.2)


@pytest.mark.slow
def test_intervals_and_orders_are_right_as_often_as_they_say() -> None:
    """Of 6 x 8 skills drawn from the prior: .90 less 4 standard errors of 36 independent ones is .70."""
    rng, covered, said, held = np.random.default_rng(0), [], [], []
    couples = [tuple(f"o{x}" for x in rng.permutation(8)[:2]) for _ in range(60)]
    frame = pairs((a, b, f"w{n % 4}", "left") for n, (a, b) in enumerate(couples))
    model = crowdppl.method("crowd_bt", spread=1.0)
    for seed in range(6):
        drawn = crowdppl.simulate(model, frame, seed=seed)
        found = crowdppl.fit("crowd_bt", drawn.data, inference="gibbs", seed=0, chains=4, draws=100, warmup=30)
        objects = drawn.data.item_covariates["left"].cat.categories
        true = pd.Series(np.log(drawn.parameters["skill"]), objects)
        true -= true.mean()
        table, before = found.ranking(0.9), found.order_probabilities()
        covered += [*true[table.index].between(table["low"], table["high"])]
        at = np.triu_indices(8, 1)
        order = true[table.index].to_numpy()
        said += [*before.to_numpy()[at]]
        held += [*(order[:, None] > order)[at]]
    assert np.mean(covered) > 0.7
    assert np.mean(held) == pytest.approx(np.mean(said), abs=0.12)


@pytest.mark.slow
def test_intervals_of_ranks_hold_the_whole_order() -> None:
    """In 16 simulations: .9 less 3 standard errors is .67."""
    rng = np.random.default_rng(0)
    couples = [tuple(f"o{x}" for x in rng.permutation(8)[:2]) for _ in range(60)]
    frame = pairs((a, b, "w", "left") for a, b in couples)
    whole, model = [], crowdppl.method("bradley_terry", spread=1.0)
    for seed in range(16):
        drawn = crowdppl.simulate(model, frame, seed=seed)
        table = crowdppl.fit("bradley_terry", drawn.data, inference="vb", seed=0).ranking(0.9)
        objects = drawn.data.item_covariates["left"].cat.categories
        true = pd.Series(drawn.parameters["skill"], objects).rank(ascending=False)[table.index]
        whole.append(true.between(table["rank_low"], table["rank_high"]).all())
        assert (table["rank_low"] <= table["rank"]).all() and (table["rank"] <= table["rank_high"]).all()
    assert np.mean(whole) > 0.67


@pytest.mark.parametrize("inference", ["em", "vb", "gibbs"])
def test_groups_of_other_tastes_are_found(inference: str) -> None:
    """13 annotators prefer the first objects, and 7 the last; the share of 13 of 20 is known to .11."""
    one, other = (
        compared(n, seed=n, objects=6, annotators=a, spread=s) for n, a, s in ((325, 13, 1), (175, 7, -1))
    )
    rows = other.frame().replace({"annotator": {f"w{n}": f"v{n}" for n in range(7)}})
    short: dict[str, Any] = {"chains": 2, "draws": 50, "warmup": 20} if inference == "gibbs" else {}
    data = again(pd.concat([one.frame(), rows]))
    found = crowdppl.fit("preference_groups", data, inference=inference, seed=0, **short)
    member = found.clusters()["cluster"]
    large = member["w0"]
    assert ((member == large) == member.index.str.startswith("w")).all()
    table = found.ranking()
    names = [f"o{n}" for n in range(6)]
    for group, best in ((large, names), (1 - large, names[::-1])):
        rank = table.loc[group].loc[best, "rank"].to_numpy()
        assert np.corrcoef(rank, np.arange(6))[0, 1] > 0.9
    assert found.site("weights")[large] == pytest.approx(0.65, abs=0.15)


def test_preferences_that_go_in_a_circle_are_no_scale() -> None:
    circle = [(a, b, f"w{n}", "left") for n in range(6) for a, b in ("ab", "bc", "ca")]
    ordered = [(a, b, f"w{n}", "left") for n in range(6) for a, b in ("ab", "bc", "ac")]
    for rows, share in ((circle, 1.0), (ordered, 0.0)):
        fit = crowdppl.fit("bradley_terry", pairs(rows), inference="em", seed=0)
        check = crowdppl.predictive_check(fit, draws=20)
        assert check.table.loc["cycles", "observed"] == share
    once = pairs((a, b, "w", "left") for a, b in ("ab", "bc", "ca", "cd"))  # no two labels of an item
    check = crowdppl.predictive_check(crowdppl.fit("bradley_terry", once, inference="em", seed=0), draws=20)
    assert [*check.table.index] == ["class_shares", "cycles"]


def test_a_label_is_wrong_by_bayes_rule() -> None:
    data = pairs([*FEW, ("b", "c", "z", "?")], abstentions=["?"])
    found = crowdppl.fit("crowd_bt", data, inference="vb", seed=0)
    table, p, coin = found.comparisons(), found.probabilities(), found.annotators()["accuracy"]
    assert [*table["label"]] == [*data.frame()["label"]]
    for row in table.itertuples():
        assert (row.p_left, row.p_right) == tuple(p.loc[(row.left, row.right)].iloc[:2])
        if row.label == "?":
            assert np.isnan(row.p_wrong)
            continue
        own, right = p.loc[(row.left, row.right), row.label], coin[row.annotator]
        wrong = (1 - own) * (1 - right) / 2
        assert row.p_wrong == pytest.approx(wrong / (wrong + own * right), abs=0.02)
    never = crowdppl.fit("bradley_terry", data, inference="vb", seed=0).comparisons()["p_wrong"]
    assert never.fillna(0).abs().max() < 1e-6


def test_truths_may_name_pairs_and_winners() -> None:
    data = pairs(FEW)
    winners = {("a", "b"): "a", ("c", "b"): "b", ("a", "c"): "tie"}
    sides = {"a | b": "left", "c | b": "right", "a | c": "tie"}
    posterior = crowdppl.fit("crowd_bt", data, inference="vb", seed=0)
    assert crowdppl.evaluate(posterior, winners).log_score == crowdppl.evaluate(posterior, sides).log_score
    assert data.with_gold(winners).gold.to_dict() == data.with_gold(sides).gold.to_dict() == sides


def test_comparisons_that_agree_are_no_collapse() -> None:
    posterior = crowdppl.fit("bradley_terry", crowdppl.datasets.example("pair"), inference="em", seed=0)
    assert "collapse" not in [doubt.kind for doubt in posterior.doubts()]


def test_the_truth_of_a_pair_has_no_median() -> None:
    posterior = crowdppl.fit("bradley_terry", pairs(FEW), inference="vb", seed=0)
    truth, labels = posterior.truth(), posterior.labels()
    assert (truth["estimate"] == labels["label"]).all()
    p = labels["probability"]
    np.testing.assert_allclose(truth["sd"], np.sqrt(p * (1 - p)))


def test_winners_on_one_side_and_ties_alone_are_no_fault_of_annotators() -> None:
    left = [(f"o{a}", f"o{b}", who, "left") for a in range(4) for b in range(a + 1, 4) for who in "uv"]
    ties = [(*pair[:3], "tie") for pair in left]
    for rows in (left, ties):
        data = pairs(rows)
        assert not any("OneClass" in type(warning).__name__ for warning in data.warnings)
        posterior = crowdppl.fit("bradley_terry", data, inference="vb", seed=0)
        assert not [doubt for doubt in posterior.doubts() if doubt.kind == "unnamed"]
