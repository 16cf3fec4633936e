"""Rater facets: integrals, the many-facet Rasch model, anchors, groups of items, and fair averages."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import optimize, stats
from scipy.special import softmax

import crowdppl
from crowdppl import Annotations
from crowdppl.errors import DataError, MethodError
from crowdppl.inference.density import Density
from crowdppl.inference.predict.answers import NumberAnswers

RASCH: dict[str, Any] = {"slopes": 0, "centrality": 0, "consistency": 0}


def grades(rows: Any, classes: Any, groups: Any = None) -> Annotations:
    table = pd.DataFrame(rows, columns=["item", "annotator", "label", "criterion"])
    more = {} if groups is None else {"item_covariates": pd.DataFrame({"group": groups})}
    return Annotations.from_frame(table, kind="ordinal", classes=classes, label_covariates=["criterion"], **more)


def design(items: int, raters: int, criteria: int, each: int = 3, k: int = 4, **more: Any) -> Annotations:
    rng = np.random.default_rng(1)
    pairs = [(i, a) for i in range(items) for a in rng.choice(raters, each, replace=False)]
    item, rater = (np.repeat(x, criteria) for x in np.array(pairs).T)
    turn = pd.DataFrame({"criterion": np.tile(np.arange(criteria), len(pairs))})
    return Annotations.design(item, rater, classes=list(range(k)), kind="ordinal", label_covariates=turn, **more)


def log_probs(x: np.ndarray, step: np.ndarray, slope: float = 1.0) -> np.ndarray:
    """Log-probability of each grade, (..., K), grade by grade from the one below it."""
    odds = slope * (x[..., None] - step)
    total = np.concatenate([np.zeros((*x.shape, 1)), odds.cumsum(-1)], -1)
    return total - np.logaddexp.reduce(total, -1, keepdims=True)


@pytest.mark.parametrize(("k", "known"), [(2, False), (3, False), (3, True)])
def test_labels_of_two_raters_have_the_density_of_an_integral(k: int, known: bool) -> None:
    """The known grade of an item is what an expert would give, but for rounding."""
    rows = [("x", "ann", 0, 0), ("x", "ann", k - 1, 1), ("x", "bob", 1, 0), ("y", "bob", 0, 1)]
    data = grades(rows, list(range(k)), pd.Series({"x": "new", "y": "old"}))
    rng = np.random.default_rng(0)
    shapes = {"difficulty": 2, "step": (2, k - 1), "log_slope": 2, "severity": 2, "log_centrality": 2}
    shapes |= {"log_consistency": 2, "impact": 2, "dif": (2, 2)}
    at = {name: rng.normal(size=shape) for name, shape in shapes.items()} | {"mean": 0.3, "width": 1.4}
    steps = {"step", "log_centrality"} if k == 2 else set()  # none between two grades
    if known:
        data, at = data.with_gold({"x": 1}), at | {"expert_severity": 0.4, "log_expert": 0.5}
    model = crowdppl.method("rater_facets", criterion="criterion", group="group", points=201)
    values = {n: torch.as_tensor(x, dtype=torch.float64) for n, x in at.items() if n not in steps}
    found = Density(model.model)(data.as_block(), values, marginals=("truth",))
    d, s, slope = (at[n] - at[n].mean(-1, keepdims=True) for n in ("difficulty", "step", "log_slope"))
    dif = at["dif"] - at["dif"].mean(0) - at["dif"].mean(1, keepdims=True) + at["dif"].mean()
    wanted, means = 0.0, []
    for g, item in enumerate("xy"):
        place = 0.3 + at["impact"][g]
        x = np.linspace(place - 8, place + 8, 4001)
        p = stats.norm(place, 1.4).pdf(x)
        for _, who, grade, c in (row for row in rows if row[0] == item):
            a = ["ann", "bob"].index(who)
            sharp = np.exp(slope[c] + at["log_consistency"][a])
            above = x - d[c] - dif[g, c] - at["severity"][a]
            p = p * np.exp(log_probs(above, np.exp(at["log_centrality"][a]) * s[c], sharp))[:, grade]
        if known and item == "x":
            expert = [np.exp(log_probs(x - 0.4 - d[c], s[c], np.exp(slope[c] + 0.5))) @ range(k) for c in (0, 1)]
            p = p * np.exp(-6 * (np.mean(expert, 0) - 1) ** 2)
        wanted += np.log(p.sum() * (x[1] - x[0]))
        means.append(p @ x / p.sum())
    assert float(found.objective) == pytest.approx(wanted, abs=1e-3)
    np.testing.assert_allclose(found.marginals["truth"][0].numpy()[np.argsort(data.order)], means, atol=2e-3)


def test_slopes_of_one_and_one_criterion_are_the_many_facet_rasch_model() -> None:
    drawn = crowdppl.simulate(crowdppl.method("rater_facets", **RASCH), design(60, 6, 1), seed=2).data
    fit = crowdppl.fit("rater_facets", drawn, inference="em", seed=0, settings=RASCH, tolerance=1e-10)
    item, rater, grade = drawn.label_codes()
    z = np.linspace(-4, 4, 61)
    log_z = stats.norm.logpdf(z) - np.logaddexp.reduce(stats.norm.logpdf(z))

    def minus_log_posterior(v: np.ndarray) -> float:
        mean, log_width, step, severity = v[0], v[1], v[2:5], v[5:]
        x = mean + np.exp(log_width) * z
        each = log_probs(x - severity[rater, None], step - step.mean())[np.arange(len(grade)), :, grade]
        by_item = np.zeros((drawn.n_items, len(z)))
        np.add.at(by_item, item, each)
        prior = stats.norm.logpdf(mean, 0, 2) + stats.lognorm.logpdf(np.exp(log_width), 1)
        prior += stats.norm.logpdf(step, 0, 2).sum() + stats.norm.logpdf(severity).sum()
        return -float(prior + np.logaddexp.reduce(by_item + log_z, 1).sum())

    best = optimize.minimize(minus_log_posterior, np.zeros(5 + drawn.n_annotators)).x
    sites = {name: site.mean for name, site in fit.result.sites.items()}
    assert sites.keys() == {"mean", "width", "step", "severity"}
    np.testing.assert_allclose([sites["mean"], np.log(sites["width"])], best[:2], atol=2e-3)
    np.testing.assert_allclose(sites["step"][0] - sites["step"].mean(), best[2:5] - best[2:5].mean(), atol=2e-3)
    np.testing.assert_allclose(sites["severity"], best[5:], atol=2e-3)


def test_simulated_facets_are_found() -> None:
    model = crowdppl.method("rater_facets", criterion="criterion")
    drawn = crowdppl.simulate(model, design(200, 12, 4), seed=3)
    fit = crowdppl.fit(model, drawn.data, inference="em", seed=0)
    assert crowdppl.evaluate(fit, drawn.truth).correlation > 0.85
    for name, least in {"difficulty": 0.9, "severity": 0.95, "log_consistency": 0.5}.items():
        true, found = drawn.parameters[name], fit.result.sites[name].mean
        assert np.corrcoef(true.ravel(), found.ravel())[0, 1] > least, name


def test_anchors_hold_and_move_items() -> None:
    drawn = crowdppl.simulate("rater_facets", design(60, 5, 1), seed=4).data
    places = []
    for at in (0.0, 2.0):
        severities = dict.fromkeys(drawn.annotators, at)
        fit = crowdppl.fit("rater_facets", drawn, inference="em", seed=0, settings={"severities": severities})
        np.testing.assert_allclose(fit.result.sites["severity"].mean, at, atol=0.05)
        places.append(fit.truth()["estimate"].mean())
    assert places[1] - places[0] == pytest.approx(2, abs=0.3)  # the prior of their mean holds it back


def test_of_raters_and_criteria_that_are_alike_the_mean_of_grades_tells() -> None:
    data = crowdppl.simulate("rater_facets", design(40, 3, 1), seed=4).data  # each item by all three
    alike = RASCH | {"severity": 0}
    fit = crowdppl.fit("rater_facets", data, inference="em", settings=alike)
    assert fit.result.sites.keys() == {"mean", "width", "step"}
    table = data.frame().astype({"label": float}).groupby("item")["label"].mean()
    fair = fit.fair_averages()["estimate"][table.index]
    assert stats.spearmanr(fair, table).statistic == pytest.approx(1) and "annotators" in fit.summary()
    with pytest.raises(MethodError, match="severity=0"):
        crowdppl.fit("rater_facets", data, settings=alike | {"severities": [1.0, None, None]}, inference="em")


@pytest.mark.parametrize("settings", [{}, RASCH])
def test_known_grades_set_the_scale_of_fair_averages(settings: dict[str, Any]) -> None:
    """Of lenient raters, whose leniency labels alone cannot tell: mean errors of the grades that are not known."""
    rng, step = np.random.default_rng(0), np.array([-1.5, -0.5, 0.5, 1.5])
    place = rng.normal(0, 1.5, 200)
    x = place[:, None] + 1.5 + rng.normal(0, 0.5, 5)
    data = Annotations.from_matrix(
        (log_probs(x, step) + rng.gumbel(size=(200, 5, 5))).argmax(-1), kind="ordinal", classes=range(5)
    )
    true = pd.Series(np.exp(log_probs(place, step)) @ np.arange(5))
    known = true.iloc[:20].round().astype(int)
    fits = [crowdppl.fit("rater_facets", data, gold=g, inference="em", settings=settings) for g in (None, known)]
    fair = [fit.fair_averages() for fit in fits]
    without, found = ((x["estimate"] - true).iloc[20:] for x in fair)
    assert without.mean() > 0.7 and abs(found.mean()) < 0.15 and found.abs().mean() < 0.45
    assert (fair[1].iloc[:20][["estimate", "low", "high"]].eq(known, axis=0)).all(axis=None)
    assert ("log_expert" in fits[1].result.sites) == (settings != RASCH)


def test_two_grades_are_a_logit_of_items_less_raters() -> None:
    drawn = crowdppl.simulate("rater_facets", design(60, 4, 1, k=2), seed=1)
    fit = crowdppl.fit("rater_facets", drawn.data, inference="em", seed=0)
    assert not fit.result.sites.keys() & {"step", "log_centrality"}
    fair = fit.fair_averages()["estimate"]
    assert fair.between(0, 1).all() and np.corrcoef(fair, drawn.truth[fair.index])[0, 1] > 0.5


def test_a_criterion_may_be_harder_for_a_group() -> None:
    groups = pd.DataFrame({"group": ["new", "old"] * 100})
    model = crowdppl.method("rater_facets", criterion="criterion", group="group", **RASCH)
    drawn = crowdppl.simulate(model, design(200, 6, 3, item_covariates=groups), seed=0)
    found = crowdppl.fit(model, drawn.data, inference="em", seed=0).site("dif").to_numpy()
    true = drawn.parameters["dif"]
    true = true - true.mean(0) - true.mean(1, keepdims=True) + true.mean()
    assert np.abs(true).max() > 0.4 and np.abs(found - true).max() < 0.25


def test_fair_averages_make_up_for_a_severe_rater() -> None:
    """Of items with the same grade, those by the more severe rater have the higher fair average."""
    model = crowdppl.method("rater_facets", **RASCH)
    drawn = crowdppl.simulate(model, design(200, 2, 1, each=1), seed=6)
    fit = crowdppl.fit(model, drawn.data, inference="em", seed=0)
    fair, given = fit.fair_averages(), drawn.data.frame().set_index("item")
    by = fair["estimate"].groupby([given["label"], given["annotator"]]).mean().unstack()
    severe = int(drawn.parameters["severity"].argmax())
    assert (by[severe] > by[1 - severe]).all()
    assert (fair["low"] <= fair["estimate"]).all() and (fair["estimate"] <= fair["high"]).all()
    assert (fair["grade"].astype(float) - fair["estimate"]).abs().max() <= 0.5 and 0 < fit.separation() < 1


def test_labels_are_drawn_at_places_that_the_labels_of_the_item_tell() -> None:
    """At a point: the mean grade of each rater, by enumeration of the grid of places."""
    data = crowdppl.simulate(crowdppl.method("rater_facets", **RASCH), design(20, 4, 1), seed=5).data
    fit = crowdppl.fit("rater_facets", data, inference="em", seed=0, settings=RASCH)
    at = {name: site.mean for name, site in fit.result.sites.items()}
    item, rater, grade = data.label_codes()
    place = at["mean"] + at["width"] * (z := np.linspace(-4, 4, 61))
    each = log_probs(place - at["severity"][rater, None], at["step"][0] - at["step"].mean())  # (S, P, K)
    log_p = np.tile(stats.norm.logpdf(z), (data.n_items, 1))
    np.add.at(log_p, item, each[np.arange(len(grade)), :, grade])
    p = np.exp(log_p - np.logaddexp.reduce(log_p, 1, keepdims=True))
    wanted = np.einsum("sp,spk,k->s", p[item], np.exp(each), np.arange(4))
    drawn = fit.draw_labels(225, seed=1)["label"].to_numpy().reshape(225, -1)
    error = (drawn.mean(0) - wanted) / (drawn.std(0) / 15)
    assert np.abs(error).max() < 5 and np.sqrt((error**2).mean()) < 1.5


def marked(seed: int, copier: bool = False) -> Annotations:
    """Of 60 items by 5 raters, by the Rasch model; rater 1 may copy rater 0."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 1.2, (60, 1)) - np.linspace(-1, 1, 5)
    grade = (log_probs(x, np.array([-1.0, 0, 1])) + rng.gumbel(size=(60, 5, 4))).argmax(-1)
    grade[:, 1] = grade[:, 0] if copier else grade[:, 1]
    return Annotations.from_matrix(grade, kind="ordinal", classes=range(4))


def check(data: Annotations, seed: int = 0) -> crowdppl.Check:
    fit = crowdppl.fit("rater_facets", data, inference="em", seed=0, settings=RASCH)
    return crowdppl.predictive_check(fit, draws=39, seed=seed)


def test_raters_who_copy_are_told_by_a_predictive_check() -> None:
    found = check(marked(0, copier=True))
    assert found.p_value <= 0.05 and found.table.loc["pair_excess", "p_value"] <= 0.05
    assert check(marked(0)).p_value > 0.05


@pytest.mark.slow
def test_a_predictive_check_passes_grades_of_the_model() -> None:
    p = np.array([check(marked(n), n).p_value for n in range(12)])
    assert (p <= 0.05).sum() <= 2 and p.mean() > 0.35  # uniform: .5, with a standard error of .08


def test_criteria_may_have_any_whole_numbers() -> None:
    """A fit and its cost depend on which labels share a criterion, and not on what it is called."""
    data = crowdppl.simulate(crowdppl.method("rater_facets", criterion="criterion"), design(20, 6, 3), seed=3).data
    rows = data.frame()
    names = {0: 1, 1: 7, 2: 100_000}
    other = grades(
        rows.assign(criterion=rows["criterion"].map(names))[["item", "annotator", "label", "criterion"]], range(4)
    )
    settings = {"criterion": "criterion"}
    one, same = (crowdppl.fit("rater_facets", x, settings=settings, inference="em") for x in (data, other))
    pd.testing.assert_frame_equal(one.truth(), same.truth(), rtol=1e-4)
    assert same.model.criteria == (1, 7, 100_000)
    with pytest.raises(DataError, match="100000, which is none"):
        crowdppl.fit("rater_facets", other, settings=settings | {"criteria": (1, 7)}, inference="em")


def test_what_it_cannot_treat_is_refused() -> None:
    data = grades([("x", "ann", 0, 0), ("x", "bob", 1, 0), ("y", "ann", 1, 0.5)], [0, 1])
    with pytest.raises(DataError, match="criterion"):
        crowdppl.fit("rater_facets", data, settings={"criterion": "criterion"}, inference="em")
    for settings in ({"severities": {"eve": 1.0}}, {"severities": [0.0] * 3}, {"difficulties": [float("nan")]}):
        with pytest.raises(MethodError, match="severities|anchors"):
            crowdppl.fit("rater_facets", data, settings=settings, inference="em")
    known = {"kind": "ordinal", "classes": [0, 1]}
    dicts: Any = {"ann": {"x": 0, "y": 1}, "bob": {"x": 0, "y": 1}}
    with pytest.raises(MethodError, match="abstentions"):
        crowdppl.fit("rater_facets", Annotations.from_dicts(dicts, **known, abstentions=["?"]), inference="em")
    with pytest.raises(MethodError, match="1,000"):
        crowdppl.fit("rater_facets", Annotations.from_dicts(dicts, kind="ordinal", classes=range(1000)))
    nominal = crowdppl.fit("one_coin", Annotations.from_dicts(dicts), inference="em")
    with pytest.raises(MethodError, match="rater_facets"):
        nominal.fair_averages()
    with pytest.raises(MethodError, match="classes"):
        nominal.separation()
    known = Annotations.from_arrays([0, 1], [0, 0], [1.0, 2.0], kind="real", gold={0: 2.0, 1: 2.0})
    with pytest.raises(MethodError, match="known and the same"):
        crowdppl.fit("gaussian_annotators", known, inference="em").separation()


@pytest.mark.parametrize("grouped", [False, True])
def test_a_next_grade_tells_what_the_rating_scale_model_says(grouped: bool) -> None:
    """Mutual information by quadrature over places, at fitted severities and steps (Rasch)."""
    rows = [(i, a, (i // 4 + (i * a) % 2) % 4, 0) for i in range(12) for a in range(4)]
    data = grades(rows, range(4), [0, 1] * 6 if grouped else None)
    settings: Any = {"slopes": 0.0, "centrality": 0.0, "consistency": 0.0, "group": "group" if grouped else None}
    fit = crowdppl.fit("rater_facets", data, inference="vb" if grouped else "em", seed=0, settings=settings)
    sites = {name: np.asarray(site.mean) for name, site in fit.result.sites.items()}
    found = fit.suggest_labels(48, exclude_answered=False, per_item=4).set_index(["item", "annotator"])
    step = (sites["step"] - sites["step"].mean()).ravel()
    x, weight = np.polynomial.hermite_e.hermegauss(60)
    exact, sd = [], np.sqrt(NumberAnswers(fit, np.arange(4)).variance)  # at fitted sites
    for item, who in found.index:
        row = fit.truth().loc[item]
        above = row["estimate"] + sd[item] * x - sites["severity"][[*data.annotators].index(who)]
        p = softmax(np.arange(4) * above[:, None] - np.append(0, step.cumsum()), axis=1)
        exact.append(stats.entropy(weight @ p, base=2) - weight @ stats.entropy(p, base=2, axis=1) / weight.sum())
    np.testing.assert_allclose(found["information"], exact, rtol=0.15)
    assert found["information"].is_monotonic_decreasing


def test_grades_are_no_places_on_the_scale() -> None:
    data = grades([(i, a, (i + a) % 3, 0) for i in range(6) for a in range(3)], range(3))
    fit = crowdppl.fit("rater_facets", data, inference="em", seed=0)
    with pytest.raises(MethodError, match="fair_averages"):
        crowdppl.evaluate(fit, dict.fromkeys(range(6), 1))
    plan = design(9, 3, 1)
    plain, graded = (crowdppl.simulate("rater_facets", x, seed=0) for x in (plan, plan.with_gold({0: 3})))
    pd.testing.assert_series_equal(plain.truth, graded.truth)
    found = crowdppl.evaluate(fit, dict.fromkeys(range(6), 0.5)).intervals()  # no correlation with what is constant
    assert found.loc["correlation"].isna().all() and found.drop("correlation").notna().all(axis=None)
