"""Rankings: Plackett-Luce against enumerated orders, BFGS, pairs and importance sampling."""

from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyro
import pytest
import torch
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import entropy, kendalltau

import crowdppl
from crowdppl import Annotations
from crowdppl.errors import DataError, MethodError
from crowdppl.inference.density import Density
from crowdppl.results import next_rankings

EXACTLY: dict[str, Any] = {"inference": "em", "tolerance": 1e-15, "max_iterations": 5000, "seed": 0}
ALWAYS: dict[str, Any] = {"right": 1e12, "wrong": 1.0}
FEW = [("x", "a > b > c"), ("y", "b > a = c"), ("z", "a > c"), ("w", "c > a > b")]


def rankings(rows: Any, **options: Any) -> Annotations:
    frame = pd.DataFrame(list(rows), columns=["annotator", "ranking"])
    return Annotations.from_frame(frame, kind="ranking", **options)


def drawn(n: int = 40, objects: int = 6, seed: int = 0, **settings: Any) -> crowdppl.Simulation:
    item, who = np.tile(np.arange(objects), n), np.repeat(np.arange(n), objects)
    design = Annotations.design(item, who, kind="ranking")
    return crowdppl.simulate(crowdppl.method("plackett_luce", **settings), design, seed=seed)


def chance(text: str, skill: Any, reliable: float, first: str = "best") -> float:
    """The probability that a model at these skills, of a, b and so on, gives a ranking."""
    data = rankings([("x", text)], items=list("abc"))
    name = "skill" if first == "best" else "weakness"
    values = {name: torch.tensor(skill).double(), "reliability": torch.tensor([[reliable, 1 - reliable]]).double()}
    model = crowdppl.method("plackett_luce", first=first)
    return float(Density(model.model)(data.as_block(), values).per_item.detach().double().sum().exp())


def stages(order: Any, skill: Any) -> float:
    left, p = [skill["abc".index(x)] for x in order], 1.0
    while len(left) > 1:
        p *= left[0] / sum(left)
        left = left[1:]
    return float(p)


@pytest.mark.parametrize("first", ["best", "worst"])
def test_orders_have_the_probabilities_of_stages_and_sum_to_one(first: str) -> None:
    skill, total = [3.0, 1.0, 0.5], 0.0
    for order in permutations("abc"):
        found = chance(" > ".join(order), skill, 0.7, first)
        chosen = order if first == "best" else order[::-1]
        assert found == pytest.approx(0.7 * stages(chosen, skill) + 0.3 / 6)
        total += found
    assert total == pytest.approx(1)


@pytest.mark.parametrize("first", ["best", "worst"])
def test_a_tie_is_any_of_its_orders_and_a_part_is_the_marginal(first: str) -> None:
    skill = [3.0, 1.0, 0.5]
    whole = {order: chance(" > ".join(order), skill, 0.7, first) for order in permutations("abc")}
    for text, orders in (
        ("a = b > c", ("abc", "bac")),
        ("b > a = c", ("bac", "bca")),
        ("c > a", ("cab", "cba", "bca")),
    ):
        expected = sum(whole[tuple(order)] for order in orders)
        assert chance(text, skill, 0.7, first) == pytest.approx(expected)
    assert chance("a = b = c", skill, 0.7, first) == pytest.approx(1)


@pytest.mark.parametrize(("first", "size"), [("best", 6), ("best", 12), ("worst", 9)])
def test_a_tie_of_many_is_estimated_by_some_of_its_orders(first: str, size: int) -> None:
    """That a tied set is before the last object has a closed form, of a race of exponential times."""
    rng = np.random.default_rng(0)
    skill = rng.lognormal(sigma=0.3, size=size + 1)
    tied, last = [f"o{n:02}" for n in range(size)], f"o{size:02}"
    text = f"{' = '.join(tied)} > {last}" if first == "best" else f"{last} > {' = '.join(tied)}"
    data = rankings([("x", text)], items=[*tied, last])
    name = "skill" if first == "best" else "weakness"
    values = {name: torch.from_numpy(skill), "reliability": torch.tensor([[0.7, 0.3]]).double()}
    model = crowdppl.method("plackett_luce", first=first)
    found = float(Density(model.model)(data.as_block(), values).per_item.detach().double().sum().exp())

    def slower(t: float) -> float:
        return float(skill[-1] * np.exp(-skill[-1] * t) * np.prod(1 - np.exp(-skill[:-1] * t)))

    exact = 0.7 * quad(slower, 0, np.inf)[0] + 0.3 / (size + 1)
    assert found == pytest.approx(exact, rel=0.1)


def luce(orders: np.ndarray, spread: float) -> np.ndarray:
    """Most probable log-skills with a normal prior, by BFGS, of orders (n, m) of m objects."""

    def loss(skill: np.ndarray) -> float:
        left = skill[orders]
        stages = sum((left[:, k] - logsumexp(left[:, k:], axis=1)).sum() for k in range(orders.shape[1]))
        return float(skill @ skill / (2 * spread**2) - stages)

    found = minimize(loss, np.zeros(orders.shape[1]), tol=1e-12).x
    return np.asarray(found - found.mean())


def test_em_with_reliable_annotators_finds_the_mode_of_log_skills() -> None:
    orders = np.array([np.random.default_rng(n).permutation(4) for n in range(8)] + [[0, 1, 2, 3]] * 2)
    data = Annotations.from_arrays(["p"] * 10, range(10), orders.tolist(), kind="ranking")
    found = crowdppl.fit("plackett_luce", data, settings={**ALWAYS, "spread": 1.5}, **EXACTLY).ranking()
    np.testing.assert_allclose(found["score"].sort_index(), luce(orders, 1.5), atol=1e-5)
    worst = {**ALWAYS, "spread": 1.5, "first": "worst"}
    found = crowdppl.fit("plackett_luce", data, settings=worst, **EXACTLY).ranking()
    np.testing.assert_allclose(found["score"].sort_index(), -luce(orders[:, ::-1], 1.5), atol=1e-5)


def test_rankings_of_two_objects_are_comparisons() -> None:
    rng = np.random.default_rng(1)
    rows = [(f"o{a}", f"o{b}") for a, b in (rng.permutation(4)[:2] for _ in range(30))]
    ranked = Annotations.from_arrays(range(30), ["w"] * 30, [list(row) for row in rows], kind="ranking")
    columns = {"left": [a for a, _ in rows], "right": [b for _, b in rows], "annotator": "w", "winner": "left"}
    pairs = Annotations.from_frame(pd.DataFrame(columns), kind="pair")
    one = crowdppl.fit("plackett_luce", ranked, settings={**ALWAYS, "spread": 1.0}, **EXACTLY)
    two = crowdppl.fit("bradley_terry", pairs, settings={"spread": 1.0}, **EXACTLY)
    pd.testing.assert_series_equal(one.ranking()["score"], two.ranking()["score"], atol=1e-6)


def by_importance(n: int = 300_000) -> tuple[np.ndarray, np.ndarray]:
    """Expected centred log-skills and reliabilities of FEW: draws of the prior, weighed by the likelihood."""
    rng = np.random.default_rng(1)
    skill, right, weight = rng.lognormal(size=(n, 3)), rng.beta(4, 2, (n, 4)), np.ones(n)
    a, b, c = skill.T
    total = a + b + c
    terms = [
        (a / total * b / (b + c), 1 / 6),
        (b / total, 1 / 3),
        (a / (a + c), 1 / 2),
        (c / total * a / (a + b), 1 / 6),
    ]
    for own, (p, even) in zip(right.T, terms, strict=True):
        weight *= own * p + (1 - own) * even
    log = np.log(skill) - np.log(skill).mean(1, keepdims=True)
    return np.average(log, 0, weight), np.average(right, 0, weight)


@pytest.mark.slow
def test_gibbs_is_the_posterior_by_importance_sampling() -> None:
    """The error of either side is below .01: 20,000 draws, and an effective 200,000 of the prior."""
    long: dict[str, Any] = {"chains": 40, "draws": 500, "warmup": 20, "settings": {"spread": 1.0}}
    found = crowdppl.fit("plackett_luce", rankings(FEW), inference="gibbs", seed=0, **long)
    log, right = by_importance()
    np.testing.assert_allclose(found.ranking()["score"].sort_index(), log, atol=0.03)
    np.testing.assert_allclose(found.annotators().loc[list("xyzw"), "reliable"], right, atol=0.01)


def test_a_truth_is_the_rank_in_one_more_ranking() -> None:
    """Means and deviations of 40,000 drawn rankings; five standard errors of a mean are .04."""
    skill = np.array([4.0, 1.0, 0.3, 1.5, 0.05])
    time = np.random.default_rng(0).exponential(1 / skill, (40_000, 5))
    places = time.argsort(1).argsort(1) + 1
    data = rankings([("x", "a > d > b > c > e")])
    for first, name in (("best", "skill"), ("worst", "weakness")):
        model = crowdppl.method("plackett_luce", first=first)
        values = {name: torch.from_numpy(skill), "reliability": torch.tensor([[0.7, 0.3]]).double()}
        found = Density(model.model)(data.as_block(), values, marginals=["truth"]).marginals["truth"]
        mean, square = found.detach().numpy()[:, np.argsort(data.order)]
        ranks = places if first == "best" else 6 - places
        np.testing.assert_allclose(mean, ranks.mean(0), atol=0.04)
        np.testing.assert_allclose(np.sqrt(square - mean**2), ranks.std(0), atol=0.03)


@pytest.mark.parametrize(
    ("inference", "first"), [("em", "best"), ("vb", "best"), ("gibbs", "best"), ("vb", "worst")]
)
def test_orders_and_spammers_of_simulated_rankings_are_found(inference: str, first: str) -> None:
    found = drawn(spread=1.3, first=first, right=1.0, wrong=0.01)
    rows = found.data.frame()
    rng = np.random.default_rng(5)
    spam = pd.DataFrame({"item": np.tile([*found.data.items], 3), "annotator": np.repeat([97, 98, 99], 6)})
    for problem in "pqrst":  # five rankings each, so that they are known
        spam[problem] = np.concatenate([rng.permutation(6) + 1 for _ in range(3)])
    more = spam.melt(["item", "annotator"], var_name="problem", value_name="label")
    both = pd.concat([rows.assign(problem="all"), more]).rename(columns={"item": "object", "label": "rank"})
    short: dict[str, Any] = {"chains": 2, "draws": 50, "warmup": 20} if inference == "gibbs" else {}
    data = Annotations.from_frame(both, kind="ranking")
    posterior = crowdppl.fit("plackett_luce", data, inference=inference, settings={"first": first}, seed=0, **short)
    skill = next(value for name, value in found.parameters.items() if name in ("skill", "weakness"))
    order = np.argsort(-skill if first == "best" else skill).astype(str)
    assert kendalltau(posterior.ranking().loc[order, "rank"], np.arange(6))[0] > 0.7
    reliable = posterior.annotators()["reliable"]
    assert reliable[[97, 98, 99]].max() < reliable.drop([97, 98, 99]).median()
    pair = posterior.ranking().index[[0, -1]]
    if inference != "em":
        assert posterior.order_probabilities().loc[pair[0], pair[1]] > 0.9


def test_ranks_are_scored_by_kendalls_tau_within_problems() -> None:
    rows = pd.DataFrame({"problem": ["p", "p", "q"], "annotator": ["x", "y", "x"]})
    rows["ranking"] = ["a > b > c", "a > c > b", "d > e"]
    data = Annotations.from_frame(rows, kind="ranking")
    posterior = crowdppl.fit("plackett_luce", data, inference="vb", seed=0)
    gold = pd.Series({"p | a": 1, "p | b": 3, "p | c": 2, "q | d": 5, "q | e": 4})
    found = crowdppl.evaluate(posterior, gold)
    p = posterior.truth()["estimate"].set_axis(data.items)
    own = kendalltau(p[gold.index[:3]], gold.iloc[:3])[0]
    assert found.kendall == pytest.approx((own - 1) / 2) and dict(found)["kendall"] == found.kendall
    assert found.mae == pytest.approx((p[gold.index] - gold).abs().mean())
    assert "kendall" not in found.intervals().index
    assert dict(crowdppl.evaluate(posterior, {tuple(x.split(" | ")): y for x, y in gold.items()})) == dict(found)
    with pytest.raises(DataError, match="whole ranking; give each object's rank"):
        crowdppl.evaluate(posterior, {"p": "a > b > c"})


def test_rankings_left_out_are_scored_whole() -> None:
    """By known skills and annotators who are reliable, the score is the log-probability of the ranking."""
    good, even = drawn(seed=3, spread=2.0, right=50.0).data, drawn(seed=3, spread=0.05).data
    scores = [crowdppl.heldout_score("plackett_luce", x, folds=2, inference="vb", seed=0) for x in (good, even)]
    by_chance = -np.log(720) / 6
    assert scores[0].per_label > by_chance + 0.1 and scores[1].per_label == pytest.approx(by_chance, abs=0.03)
    fold = scores[0].labels.groupby("annotator")["fold"].nunique()
    assert (fold == 1).all() and np.isfinite(scores[0].items["log_p"]).all()
    assert scores[0].items["log_p"].sum() == pytest.approx(scores[0].labels["log_p"].sum(), rel=0.02)
    with pytest.raises(MethodError, match="heldout_score"):
        crowdppl.fit("plackett_luce", good, inference="vb", seed=0).leave_one_out()


@pytest.mark.parametrize(("first", "name"), [("best", "skill"), ("worst", "weakness")])
def test_auto_finds_the_end_from_which_people_rank(first: str, name: str, tmp_path: Path) -> None:
    found = crowdppl.fit("auto", drawn(seed=1, spread=2.0, first=first, right=50.0).data, seed=0, max_iterations=30)
    scores = found.diagnostics()["scores"]
    assert max(scores, key=scores.get) == f"plackett_luce, {first} first" and len(scores) == 2
    assert found.method == "plackett_luce" and name in found.result.sites
    found.save(tmp_path / "auto")
    again = crowdppl.load(tmp_path / "auto")
    assert again.diagnostics()["scores"] == scores
    pd.testing.assert_frame_equal(again.ranking(), found.ranking())


def test_auto_ranks_from_the_best_where_no_ranking_can_be_left_out() -> None:
    alone = crowdppl.fit("auto", rankings(FEW[:1]), seed=0)
    assert "skill" in alone.result.sites and alone.diagnostics()["scores"] == {}


def test_results_are_saved_predict_and_are_updated(tmp_path: Path) -> None:
    posterior = crowdppl.fit("plackett_luce", rankings(FEW), inference="vb", tolerance=1e-13)
    posterior.save(tmp_path / "kept")
    known = crowdppl.load(tmp_path / "kept")
    pd.testing.assert_frame_equal(known.ranking(), posterior.ranking())
    pd.testing.assert_frame_equal(known.data.frame(), posterior.data.frame(), check_dtype=False)
    new = rankings([("v", "d > a > b"), ("v2", "d > c")])
    assert known.predict(new).loc["a", "estimate"] < known.predict(new).loc["b", "estimate"]
    updated = known.update(new, tolerance=1e-13)
    whole = crowdppl.fit("plackett_luce", rankings([*FEW, ("v", "d > a > b"), ("v2", "d > c")]), inference="vb")
    found, wanted = updated.ranking()["score"], whole.ranking()["score"]
    np.testing.assert_allclose(found, wanted[found.index], atol=0.15)


@pytest.mark.parametrize("first", ["best", "worst"])
def test_known_ranks_are_a_reliable_ranking(first: str) -> None:
    """Of some objects, tied ones among them: as where one more annotator, who is reliable, ranks these."""
    known = {"a": 2, "b": 1, "d": 2}
    rows = [*FEW[:3], ("w", "d > c > e > a")]
    name, model = "skill" if first == "best" else "weakness", crowdppl.method("plackett_luce", first=first)
    told, more = rankings(rows, gold=known), rankings([*rows, ("z*", "b > a = d")])
    values = {name: torch.tensor([3.0, 1.0, 0.5, 2.0, 1.5]).double()}
    p = torch.tensor([[0.7, 0.3]]).double().expand(4, 2)
    sure = torch.cat([p, torch.tensor([[1 - 1e-12, 1e-12]]).double()])
    found = Density(model.model)(told.as_block(), values | {"reliability": p}).per_item.sum()
    wanted = Density(model.model)(more.as_block(), values | {"reliability": sure}).per_item.sum()
    assert float(found.detach()) == pytest.approx(float(wanted.detach()), abs=1e-5)
    for engine in ("em", "vb", "gibbs"):
        how: Any = {"inference": engine, "seed": 0, "settings": {"first": first}}
        how |= {"draws": 100, "warmup": 50} if engine == "gibbs" else {}
        fit = crowdppl.fit("plackett_luce", told, **how)
        table = fit.truth().loc[[*known]]
        assert table["estimate"].to_dict() == known and (table["sd"] == 0).all()
        plain = crowdppl.fit("plackett_luce", rankings(rows), **how)
        assert fit.ranking().loc["b", "score"] > plain.ranking().loc["b", "score"]
    score = crowdppl.heldout_score("plackett_luce", told, inference="em", folds=2, whole_items=True)
    assert np.isfinite(score.items["log_p"]).all()


@pytest.mark.parametrize("reliable", [0.0, 0.4, 1.0])
def test_a_next_ranking_tells_of_skills_what_all_orders_do(reliable: float) -> None:
    skill = np.random.default_rng(0).normal(0, 1, (200, 4))
    p = []
    for order in permutations(range(4)):
        left = [np.exp(skill[:, order[k:]]).sum(1) for k in range(4)]
        p.append(reliable * np.exp(skill.sum(1)) / np.prod(left, 0) + (1 - reliable) / 24)
    exact = entropy(np.mean(p, 1), base=2) - entropy(p, base=2).mean()
    for every in (True, False):  # all orders, or some that are drawn
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(next_rankings, "MOST_ORDERS", 120 if every else 0)
            (found,) = next_rankings.ranking_information(skill, np.array([reliable]))
        assert found == pytest.approx(exact, rel=1e-9 if every else 0.05, abs=1e-12)


def test_the_problem_known_least_is_given_to_who_did_not_rank_it() -> None:
    rows = [("x", f"a{n}", "p > q > r") for n in range(6)] + [("y", "a0", "s > t > u")]
    data = Annotations.from_frame(pd.DataFrame(rows, columns=["problem", "annotator", "label"]), kind="ranking")
    posterior = crowdppl.fit("plackett_luce", data, inference="vb", seed=0)
    found = posterior.suggest_labels(5, per_item=5)
    assert [*found.columns] == ["problem", "annotator", "information", "sd"]
    assert (found["problem"] == "y").all() and {*found["annotator"]} == {"a1", "a2", "a3", "a4", "a5"}
    every = posterior.suggest_labels(12, exclude_answered=False, per_item=6)
    assert every["problem"].tolist()[:6] == ["y"] * 6 and every["information"].is_monotonic_decreasing
    points = crowdppl.fit("plackett_luce", data, inference="em", seed=0)
    with pytest.raises(MethodError, match="inference='vb'"):
        points.suggest_labels(1)


def test_what_rankings_lack_is_refused_by_name() -> None:
    posterior = crowdppl.fit("plackett_luce", rankings(FEW), inference="vb", seed=0)
    for ask in (
        posterior.labels,
        posterior.probabilities,
        posterior.comparisons,
        posterior.confusion,
    ):
        with pytest.raises((MethodError, DataError), match="number"):
            ask()
    with pytest.raises(MethodError, match="'plackett_luce'"):
        crowdppl.fit("gaussian_annotators", rankings(FEW))
    for text in (" = ".join("abcdef") + " > g", "a = b = c = d > e = f = g > h"):
        found = crowdppl.fit("plackett_luce", rankings([("x", text), ("y", "a > b")]), inference="em")
        assert found.ranking().index[-1] == text[-1]
    many = rankings([("x", "a > " + " = ".join("bcdefghij")), ("y", "a > b")])  # who names the best alone
    assert crowdppl.fit("plackett_luce", many, inference="em").ranking().index[0] == "a"


def test_minibatches_keep_problems_whole() -> None:
    rows = pd.DataFrame({"problem": list("ppqq"), "annotator": list("xyxy")})
    data = Annotations.from_frame(rows.assign(ranking=["a > b > c", "a > c > b", "d > e", "e > d"]), kind="ranking")
    assert len(set(data.as_block().units.tolist())) == 2
    part = crowdppl.fit("plackett_luce", data, inference="svi", seed=0, batch_size=1, max_iterations=5)
    assert np.isfinite(part.truth()["estimate"]).all()


def test_the_model_runs_in_plain_pyro() -> None:
    with pyro.poutine.trace() as trace:
        crowdppl.method("plackett_luce").model(rankings(FEW))
    assert torch.isfinite(trace.trace.log_prob_sum())


def test_the_spread_of_rankings_of_two_is_that_of_pairs() -> None:
    rng = np.random.default_rng(0)
    couples = [rng.permutation(6)[:2] for _ in range(80)]
    data = rankings((f"w{n}", f"o{a} > o{b}") for n, (a, b) in enumerate(couples))
    pairs = pd.DataFrame([(f"o{a}", f"o{b}", "w", "left") for a, b in couples])
    pairs.columns = ["left", "right", "annotator", "label"]
    compared = Annotations.from_frame(pairs, kind="pair")
    told = crowdppl.primitives.learned_spread
    assert told(data) == pytest.approx(told(compared), rel=1e-6)
    assert told(data, (50.0, 1.0)) != pytest.approx(told(data), rel=0.01)


@pytest.mark.parametrize("spread", [0.3, 1.0, 3.0])
def test_the_spread_of_ranked_skills_is_found(spread: float) -> None:
    """Of 20 skills, from 150 rankings of which a third are at random; half of a factor e either way."""
    rng, rows = np.random.default_rng(4), []
    skill = rng.normal(0, spread, 20)
    for n in range(150):
        some = rng.choice(20, 6, replace=False)
        worth = rng.gumbel(size=6) + (skill[some] if n % 3 else 0)
        rows.append((f"w{n}", " > ".join(f"o{o}" for o in some[np.argsort(-worth)])))
    found = crowdppl.primitives.learned_spread(rankings(rows), (4.0, 2.0))
    assert np.log(found / skill.std()) == pytest.approx(0, abs=0.5)


def test_ties_known_ranks_and_long_rankings_tell_of_the_spread() -> None:
    told = crowdppl.primitives.learned_spread
    assert told(rankings([(f"w{n}", "a = b = c") for n in range(20)])) < told(rankings([("w", "a = b = c")]))
    far = [(f"w{n}", "a > b > c") for n in range(3)]
    gold = {"a": 1, "b": 2, "c": 3}
    assert told(rankings(far, gold=gold)) > told(rankings(far))
    rng = np.random.default_rng(0)
    skill = rng.normal(0, 1, 60)
    orders = [np.argsort(-skill - rng.gumbel(size=60)) for _ in range(9)]
    long = rankings((f"w{n}", " > ".join(f"o{o}" for o in order)) for n, order in enumerate(orders))
    assert np.log(told(long)) == pytest.approx(0, abs=0.4)
