"""What a posterior exports, keeps and is asked again, on fits and on engines that only pretend."""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from crowdppl.data.annotations import Annotations
from crowdppl.datasets import anaesthetists
from crowdppl.errors import ConvergenceWarning, DataError, MethodError
from crowdppl.fitting import fit
from crowdppl.inference.vb.coordinate_ascent import CoordinateAscent
from crowdppl.posterior import Posterior, load
from crowdppl.results.correction import Correction
from crowdppl.results.leave_one_out import DRAWS, given_the_rest
from crowdppl.simulation.crowd import random_design
from tests.crowd import crowd


def test_new_data_get_the_codes_of_the_old(fits: dict[str, Posterior]) -> None:
    held = fits["em"]
    table = held.predict(pd.DataFrame({"item": ["n1", "n2"], "worker": ["3", "3"], "answer": [2, 2]}))
    assert list(table.index) == ["n1", "n2"] and list(table.columns) == [1, 2, 3, 4]
    with pytest.raises(MethodError, match="classes that are new"):
        held.predict(pd.DataFrame({"item": [1], "worker": ["3"], "answer": [9]}))
    with pytest.raises(MethodError, match="em"):
        held.to_arviz()
    asked = held.predict(random_design(4, 6, 2, classes=[0, 1, 2]))  # no label tells of these items
    assert asked.shape == (4, 4) and (asked.nunique() == 1).all()


def test_drawn_labels_stand_as_the_rows_of_the_data(fits: dict[str, Posterior]) -> None:
    drawn = fits["em"].draw_labels(n=2)
    for number in (0, 1):
        rows = drawn[drawn["draw"] == number].reset_index(drop=True)
        pd.testing.assert_frame_equal(rows[["item", "annotator"]], fits["em"].data.frame()[["item", "annotator"]])
    with pytest.raises(MethodError, match="'both'"):
        fits["em"].draw_labels(kind="both")
    with pytest.raises(MethodError, match="n=0"):
        fits["em"].draw_labels(n=0)


@pytest.fixture(scope="module")
def fits() -> dict[str, Posterior]:
    patients = anaesthetists()
    how = {
        "em": ("dawid_skene", {}),
        "vb": ("bayesian_dawid_skene", {}),
        "glad": ("glad", {"inference": "vb", "max_iterations": 10}),
    }
    how["gibbs"] = ("bayesian_dawid_skene", {"chains": 2, "draws": 50, "warmup": 20})
    with warnings.catch_warnings(action="ignore"):
        return {name: fit(method, patients, **({"inference": name} | more)) for name, (method, more) in how.items()}


def group(exported: Any, name: str) -> Any:
    return exported[name].dataset if hasattr(exported[name], "dataset") else exported[name]


def test_maximum_likelihood_of_1979(fits: dict[str, Posterior]) -> None:
    np.testing.assert_allclose(fits["em"].prevalence()["mean"], [0.40, 0.42, 0.11, 0.07], atol=0.005)
    assert fits["em"].diagnostics()["objective"] == pytest.approx(-190.731, abs=5e-4)


def test_arviz_gets_the_draws_with_their_names(fits: dict[str, Posterior]) -> None:
    exported = fits["gibbs"].to_arviz()
    draws = group(exported, "posterior")
    assert draws["confusion"].dims == ("chain", "draw", "annotator", "truth", "label")
    np.testing.assert_array_equal(
        draws["confusion"].values, fits["gibbs"].result.sites["confusion"].arrays["draws"]
    )
    assert list(draws["confusion"]["annotator"].values) == ["1", "2", "3", "4", "5"]
    assert list(draws["prevalence"]["class"].values) == list(fits["gibbs"].data.classes)
    shares = group(exported, "constant_data")["truth_probabilities"]
    np.testing.assert_array_equal(shares.values, fits["gibbs"].result.probabilities)


def by_hand(posterior: Posterior, drawn: Any) -> np.ndarray:
    """log p(labels of an item | draw) of Dawid & Skene, (chains, draws, items with labels)."""
    confusion, shares = np.log(drawn["confusion"].values), np.log(drawn["prevalence"].values)
    data = posterior.data
    out = []
    for _, rows in data.frame().groupby("item", sort=False):
        joint = shares.copy()
        for annotator, label in zip(rows["annotator"], rows["label"], strict=True):
            a, answer = data.annotators.get_loc(annotator), data.answers.get_loc(label)
            joint += confusion[:, :, a, :, answer]
        out.append(np.logaddexp.reduce(joint, axis=-1))
    return np.stack(out, -1)


@pytest.mark.parametrize("engine", ["vb", "gibbs"])
def test_arviz_gets_the_likelihood_of_each_item_at_the_same_draws(engine: str, fits: dict[str, Posterior]) -> None:
    exported = fits[engine].to_arviz(draws=30, log_likelihood=True)
    logs = group(exported, "log_likelihood")["labels"]
    assert logs.dims == ("chain", "draw", "item")
    order = pd.Index(fits[engine].data.frame()["item"].unique())
    expected = by_hand(fits[engine], group(exported, "posterior"))
    np.testing.assert_allclose(logs.sel(item=list(order)).values, expected, rtol=1e-6)
    assert "log_likelihood" not in set(fits[engine].to_arviz(draws=30).groups())


def test_arviz_leaves_items_out_as_leave_one_out_does() -> None:
    import arviz as az

    rows = [(i, a, (i + (a * i) % 5 // 4) % 3) for i in range(20) for a in range(6) if i != 7]
    data = Annotations.from_arrays(*zip(*rows, strict=True), items=list(range(20)))
    with warnings.catch_warnings(action="ignore"):
        posterior = fit("bayesian_dawid_skene", data, inference="gibbs", chains=8, draws=DRAWS // 8, warmup=50)
        exported = posterior.to_arviz(log_likelihood=True)
        found = az.loo(exported, var_name="labels", reff=1.0, pointwise=True)
        own = posterior.leave_one_out("item")
    logs = group(exported, "log_likelihood")["labels"]
    assert logs.dims == ("chain", "draw", "labelled_item")
    assert logs["labelled_item"].values.tolist() == [i for i in range(20) if i != 7] == own.values.index.tolist()
    total = found.elpd if hasattr(found, "elpd") else found.elpd_loo
    assert total == pytest.approx(own.values["log_p"].sum(), rel=1e-6)
    each = found.elpd_i if hasattr(found, "elpd_i") else found.loo_i
    np.testing.assert_allclose(each.values, own.values["log_p"], rtol=1e-6)


def test_arviz_is_refused_a_likelihood_that_is_not_known(fits: dict[str, Posterior]) -> None:
    corrected = replace(fits["vb"], correction=Correction(fits["vb"].result.probabilities, {}, {}, {}))
    with pytest.raises(MethodError, match="uncorrected"):
        corrected.to_arviz(log_likelihood=True)
    site = fits["glad"].result.sites["ability"]
    odd = {**fits["glad"].result.sites, "ability": replace(site, support="")}
    hidden = replace(fits["glad"], result=replace(fits["glad"].result, sites=odd))
    with pytest.raises(MethodError, match="ability_unconstrained"):
        hidden.to_arviz(draws=5, log_likelihood=True)


@pytest.mark.parametrize("engine", ["em", "gibbs", "glad"])
def test_a_loaded_posterior_answers_as_the_saved_one(
    engine: str, fits: dict[str, Posterior], tmp_path: Path
) -> None:
    held = fits[engine]
    held.save(tmp_path)
    found = load(tmp_path)
    for table in ("annotators", "prevalence", "confusion_intervals", "entropy"):
        pd.testing.assert_frame_equal(getattr(found, table)(), getattr(held, table)(), check_exact=True)
    pd.testing.assert_frame_equal(found.probabilities(sd=True), held.probabilities(sd=True), check_exact=True)
    assert found.diagnostics() == held.diagnostics()
    some = held.data.frame().query("item <= 10")
    pd.testing.assert_frame_equal(found.predict(some), held.predict(some))
    pd.testing.assert_frame_equal(found.draw_labels(2, seed=1), held.draw_labels(2, seed=1))


def test_gaussian_sites_are_exported_in_their_own_space() -> None:
    posterior = fit("hierarchical_dawid_skene", crowd(), inference="vb", max_iterations=30)
    drawn = group(posterior.to_arviz(draws=4000), "posterior")
    for name in ("crowd", "concentration"):
        x, mean = drawn[name].to_numpy(), posterior.result.sites[name].mean
        assert (x > 0).all()
        np.testing.assert_allclose(x.mean((0, 1)), mean, atol=4 * x.std() / 4000**0.5 + 0.03 * np.abs(mean).max())
    np.testing.assert_allclose(drawn["crowd"].sum("label"), 1)


def test_entropy_falls_apart_into_what_labels_and_what_annotators_leave_open() -> None:
    few, many = crowd(n_items=30, seed=2), crowd(n_items=2000, seed=2)
    parts = [fit("bayesian_dawid_skene", x, inference="vb").entropy() for x in (few, many)]
    for table in parts:
        np.testing.assert_allclose(table["total"], table["aleatoric"] + table["epistemic"], atol=1e-12)
        assert (table >= 0).all(axis=None)
    share = [table["epistemic"].mean() / table["total"].mean() for table in parts]
    assert share[1] < 0.02 < share[0]  # annotators who gave 2,000 labels are known, those who gave 20 are not
    point = fit("bayesian_dawid_skene", few, inference="em", settings={"prior_strength": 9.0}).entropy()
    assert point["epistemic"].isna().all()
    np.testing.assert_array_equal(point["total"], point["aleatoric"])


def of_draws(labels: Annotations, tables: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Probabilities (draws, N, K) of items 0, 1, ... by hand: Bayes' rule draw by draw."""
    rows = labels.frame()
    p = np.log(shares)[:, None, :].repeat(labels.n_items, 1)
    for item, annotator, answer in zip(rows["item"], rows["annotator"], rows["label"], strict=True):
        p[:, item] += np.log(tables[:, annotator, :, answer])
    p = np.exp(p - p.max(-1, keepdims=True))
    return np.asarray(p / p.sum(-1, keepdims=True))


def test_the_truth_of_small_data_is_averaged_over_more_draws_than_tables_are_kept() -> None:
    """Of 200 draws the error of a probability turned the class of an anaesthetist's patient with the seed."""
    labels = crowd(n_items=25)
    posterior = fit("bayesian_dawid_skene", labels, inference="gibbs", chains=8, draws=100, warmup=20)
    sites = posterior.result.sites
    tables, shares = (sites[name].arrays["draws"] for name in ("confusion", "prevalence"))
    p = of_draws(labels, tables.reshape(800, *tables.shape[2:]), shares.reshape(800, -1))
    np.testing.assert_allclose(posterior.probabilities(), p.mean(0), atol=1e-6)
    np.testing.assert_allclose(posterior.probabilities(sd=True), p.std(0), atol=1e-6)


def test_entropies_are_those_of_the_draws() -> None:
    labels = crowd(n_items=25)
    posterior = fit("bayesian_dawid_skene", labels, inference="gibbs", chains=4, draws=50, warmup=20)
    assert posterior.result.table_draws is not None and posterior.result.prevalence_draws is not None
    p = of_draws(labels, posterior.result.table_draws, posterior.result.prevalence_draws)
    own = -(p * np.log2(np.clip(p, 1e-300, 1))).sum(-1).mean(0)
    mean = p.mean(0)
    total = -(mean * np.log2(mean)).sum(-1)
    np.testing.assert_allclose(posterior.entropy()["aleatoric"], own, atol=1e-5)
    np.testing.assert_allclose(posterior.entropy()["total"], total, atol=1e-5)


def test_a_fit_without_annotators_is_one_of_the_other_labels() -> None:
    every = crowd(n_items=60)
    whole = fit("bayesian_dawid_skene", every, inference="vb", tolerance=1e-12)
    found = whole.without([0, 3])
    rows = every.frame()
    rest = rows[~rows["annotator"].isin([0, 3])]
    alone = Annotations.from_frame(rest, classes=[0, 1, 2], items=range(60), annotators=range(6))
    wanted = fit("bayesian_dawid_skene", alone, inference="vb", tolerance=1e-12)
    np.testing.assert_allclose(found.probabilities(), wanted.probabilities(), atol=1e-4)
    assert found.data.n_labels == len(rest) and found.annotators()["labels"].loc[[0, 3]].tolist() == [0, 0]
    assert whole.data.n_labels == len(rows)
    with pytest.raises(DataError, match="77"):
        whole.without([77])
    with pytest.raises(DataError, match="no label"):
        whole.without(range(6))


def test_difficulties_of_new_items_that_did_not_settle_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    held = fit("glad", crowd(20), inference="em")
    with warnings.catch_warnings(action="error", category=ConvergenceWarning):
        whole = held.predict(held.data)
    short = replace(held, options={**held.options, "max_iterations": 1})
    with pytest.warns(ConvergenceWarning, match="glad"):
        assert short.predict(held.data).shape == whole.shape

    def stopped(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(CoordinateAscent, "step", stopped)
    with pytest.raises(KeyboardInterrupt):
        held.predict(held.data)


def test_replicated_labels_look_like_the_labels(fits: dict[str, Posterior]) -> None:
    held = fits["vb"]
    given = held.data.frame()["label"].to_numpy()

    def agreement(kind: str) -> float:
        drawn = held.draw_labels(20, seed=0, kind=kind)["label"].to_numpy().reshape(20, -1)
        return float((drawn == given).mean())

    expected = np.mean(held.annotators()["accuracy"] ** 2)
    assert agreement("posterior") > expected - 0.1
    assert agreement("prior") < 0.45


@pytest.mark.parametrize("engine", ["em", "vb"])
def test_who_often_abstains_is_no_less_accurate(engine: str) -> None:
    """Of two annotators as good, one declines six items of ten: labels left out would say the same of both."""
    rng = np.random.default_rng(0)
    truth, rows = rng.integers(2, size=400), []
    for i, k in enumerate(truth):
        for a in range(6):
            said = ("no", "yes")[k if rng.random() < 0.85 else 1 - k]
            rows.append((f"i{i}", f"a{a}", "?" if a == 0 and rng.random() < 0.6 else said))
    frame = pd.DataFrame(rows, columns=["item", "annotator", "label"])
    options: dict[str, Any] = {"inference": engine, "seed": 0}
    found = fit("bayesian_dawid_skene" if engine != "em" else "dawid_skene", asked(frame, ["?"]), **options)
    plain = fit(found.method, asked(frame[frame["label"] != "?"]), **options).annotators()
    table = found.annotators()
    columns = ["accuracy", "sensitivity", "specificity"]
    np.testing.assert_allclose(table[columns], plain[columns], atol=0.01)
    assert table["accuracy"].iloc[0] > 0.78
    assert table["abstention"].tolist() == pytest.approx([0.6, 0, 0, 0, 0, 0], abs=0.06)
    if engine != "em":
        ends = ["accuracy_low", "accuracy_high", "sensitivity_low", "sensitivity_high"]
        np.testing.assert_allclose(table[ends], plain[ends], atol=0.02)


def asked(frame: pd.DataFrame, abstentions: Any = ()) -> Annotations:
    return Annotations.from_frame(frame, abstentions=abstentions)


@pytest.mark.parametrize("engine", ["vb", "gibbs"])
def test_what_a_posterior_hands_out_is_the_callers_to_change(engine: str, fits: dict[str, Posterior]) -> None:
    posterior = fits[engine]
    held = [posterior.result.probabilities, posterior.result.table, posterior.result.table_draws]
    held += [x for site in posterior.result.sites.values() for x in site.arrays.values()]
    before, steps = [np.array(x) for x in held], len(posterior.diagnostics()["objectives"])
    out = posterior.to_arviz()
    given = [posterior.confusion(), posterior.confusion(draws=True)]
    given += [x for name in ("posterior", "constant_data") for x in group(out, name).data_vars.values()]
    for array in given:
        array.values[...] = 0
    posterior.diagnostics()["objectives"].clear()
    for now, then in zip(held, before, strict=True):
        np.testing.assert_array_equal(now, then)
    assert len(posterior.diagnostics()["objectives"]) == steps > 0


def test_arviz_gets_the_likelihood_where_vb_has_gaussians_or_members(fits: dict[str, Posterior]) -> None:
    """At draws of vb the mean likelihood is near that of the draws that leave-one-out makes itself."""
    community = fit("community", crowd(), inference="vb", max_iterations=50)
    assert community.result.sites["community"].family == "onehot"
    for held in (fits["glad"], community):
        logs = group(held.to_arviz(draws=2000, log_likelihood=True), "log_likelihood")["labels"].values[0]
        with warnings.catch_warnings(action="ignore"):
            own = np.hstack(list(given_the_rest(held, "item", 2000)))
        error = np.sqrt((own.var(0) + logs.var(0)) / 2000)
        assert (np.abs(own.mean(0) - logs.mean(0)) < 6 * error + 1e-9).all()
