"""The door: what fit refuses, and what its settings do."""

import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, get_args, get_type_hints

import numpy as np
import pandas as pd
import pytest
import torch

import crowdppl
from crowdppl import fit, random_design, simulate
from crowdppl.core.validation import MOST
from crowdppl.data.annotations import Annotations
from crowdppl.errors import ConvergenceWarning, CrowdpplWarning, DataError, MethodError, NumericalError
from crowdppl.inference.options import FitOptions
from crowdppl.primitives import Card, annotate, plates, truth
from tests.crowd import crowd


@pytest.fixture(autouse=True)
def _small_data_is_no_news() -> Iterator[None]:
    with warnings.catch_warnings(action="ignore", category=CrowdpplWarning):
        warnings.simplefilter("error", ConvergenceWarning)
        yield


@pytest.fixture(scope="module")
def drawn() -> crowdppl.Simulation:
    model = crowdppl.method("bayesian_dawid_skene", prior_strength=8.0, prior_accuracy=0.7)
    return simulate(model, random_design(150, 8, 4, ["a", "b", "c"], seed=1), seed=2)


@pytest.fixture(scope="module")
def data(drawn: crowdppl.Simulation) -> Annotations:
    return drawn.data


def far(one: Any, two: Any) -> float:
    return float(np.abs(one.result.probabilities - two.result.probabilities).max())


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"inference": "mcmc"}, "mcmc"),
        ({"settings": {"prevalance": "learned"}}, "prevalence"),
        ({"restarts": 0}, "restarts"),
        ({"batch_size": 2.5}, "batch_size"),
        ({"seed": -1}, "seed"),
        ({"dtype": torch.int32}, "dtype"),
        ({"device": "gpu"}, "device"),
        ({"guide": "flow"}, "guide"),
        ({"warmup": -5}, "warmup"),
        ({"tolerance": float("nan")}, "tolerance"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"callback": 3}, "callback"),
        ({"calibrate": "yes"}, "True or False"),
        ({"start": {"abilty": torch.ones(2)}}, "ability"),
        ({"start": {"ability": np.ones(3)}}, "shape"),
        ({"start": {"truth": torch.zeros(150, 3)}}, "above 0"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_by_name(data: Annotations, wrong: dict[str, Any], name: str) -> None:
    with pytest.raises(MethodError, match=name):
        fit("one_coin", data, **wrong)


COUNTS = [name for name, kind in get_type_hints(FitOptions).items() if int in (kind, *get_args(kind))]


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("huge", [MOST + 1, 10**30])
def test_counts_without_end_are_refused_by_name(data: Annotations, name: str, huge: int) -> None:
    largest = 2**63 if name == "seed" else 0
    with pytest.raises(MethodError, match=rf"{name}={max(huge, largest)} must be"):
        fit("one_coin", data, **{name: max(huge, largest)})


def test_what_is_no_method_or_no_data_is_refused(data: Annotations) -> None:
    with pytest.raises(MethodError, match="dawid_skene"):
        fit("dawid_sken", data)
    with pytest.raises(DataError, match="DataFrame"):
        fit("one_coin", data.frame())
    with pytest.raises(NumericalError, match="'ability'"):
        fit("glad", data, inference="em", start={"ability": torch.full((data.n_annotators,), torch.nan)})
    told = Annotations.from_arrays([0, 0, 1, 1], [0, 1, 0, 1], list("xyyx"), history={0: np.eye(2)})
    with pytest.raises(MethodError, match="GLAD has no prior"):
        fit("glad", told)


def test_no_gpu_is_said(data: Annotations) -> None:
    if torch.cuda.is_available():
        pytest.skip("torch sees a GPU")
    with pytest.raises(MethodError, match="no GPU"):
        fit("one_coin", data, device="cuda")
    assert fit("one_coin", data, inference="em", device="auto").options["device"] == "cpu"


def test_an_engine_that_cannot_is_refused_with_the_reason(data: Annotations) -> None:
    with pytest.raises(MethodError, match="bayesian_dawid_skene"):
        fit("dawid_skene", data, inference="vb")
    with pytest.raises(MethodError, match="'gibbs' or 'nuts'"):
        fit("hierarchical_dawid_skene", data, inference="em")


def test_gold_replaces_gold(data: Annotations) -> None:
    before = fit("one_coin", data, inference="em")
    item = before.probabilities()["a"].idxmin()
    after = fit("one_coin", data, inference="em", gold={item: "a"})
    assert after.probabilities().loc[item, "a"] == pytest.approx(1)
    assert after.data.gold is not None and after.data.gold.to_dict() == {item: "a"}
    assert data.gold is None  # the user's own annotations stay as they are
    again = fit("one_coin", after.data, inference="em", gold=pd.Series({0: "b"}))
    assert again.data.gold is not None and again.data.gold.to_dict() == {0: "b"}
    with pytest.raises(DataError, match="nowhere"):
        fit("one_coin", data, gold={"nowhere": "a"})
    with pytest.raises(DataError, match="'z'"):
        fit("one_coin", data, gold={0: "z"})


def test_gold_of_some_items_teaches_about_the_others(drawn: crowdppl.Simulation) -> None:
    known = drawn.truth.iloc[:100]
    rest = drawn.truth.iloc[100:]
    scores = []
    for gold in (None, known):
        table = fit("dawid_skene", drawn.data, inference="em", gold=gold).probabilities().loc[rest.index]
        scores.append(crowdppl.evaluate(table, rest).log_score)
    assert scores[1] < scores[0]


def test_a_start_decides_where_a_fit_begins(data: Annotations) -> None:
    k, settings = data.n_classes, {"max_iterations": 1}
    swapped = torch.from_numpy(np.roll(data.votes()[data.order], 1, axis=1)) + 0.01
    swapped = swapped / swapped.sum(-1, keepdim=True)
    with pytest.warns(ConvergenceWarning):
        posterior = fit("dawid_skene", data, inference="em", start={"truth": swapped}, **settings)
    assert posterior.diagnostics()["start"] == "given"
    agree = (posterior.result.probabilities.argmax(1) == np.roll(data.votes(), 1, axis=1).argmax(1)).mean()
    assert agree > 0.8
    theta = torch.full((k,), 0.02).index_fill(0, torch.tensor([2]), 1 - 0.02 * (k - 1))
    with pytest.warns(ConvergenceWarning):
        skewed = fit("bayesian_dawid_skene", data, inference="vb", start={"prevalence": theta}, **settings)
        plain = fit("bayesian_dawid_skene", data, inference="vb", **settings)
    assert far(skewed, plain) > 1e-6


def test_restarts_differ_and_the_best_wins() -> None:
    model = crowdppl.method("bayesian_dawid_skene", prior_strength=2.0, prior_accuracy=0.4)
    hard = simulate(model, random_design(60, 12, 3, 4, seed=3), seed=7).data
    posterior = fit("dawid_skene", hard, inference="em", restarts=6)
    runs = posterior.diagnostics()["restarts"]
    objectives = [run["objective"] for run in runs]
    names = [run["start"] for run in runs]
    assert len(set(names)) == 6 and {"votes", "spectral"} <= set(names)
    assert len({round(x, 4) for x in objectives}) > 2
    assert posterior.diagnostics()["objective"] == max(objectives) == objectives[0]
    assert max(objectives) > fit("dawid_skene", hard, inference="em").diagnostics()["objective"] + 1


def test_not_converged_is_a_warning_and_on_the_result(data: Annotations) -> None:
    with pytest.warns(ConvergenceWarning, match="max_iterations"):
        posterior = fit("dawid_skene", data, inference="em", max_iterations=2)
    assert posterior.diagnostics()["converged"] is False
    assert "did not converge" in posterior.diagnostics()["warnings"][0]
    fine = fit("dawid_skene", data, inference="em")
    assert fine.diagnostics()["converged"] is True and fine.diagnostics()["warnings"] == []
    loose = fit("dawid_skene", data, inference="em", tolerance=1e-3)
    assert loose.diagnostics()["iterations"] < fine.diagnostics()["iterations"]


class Overflowing:
    """A model whose potentials become NaN as soon as the ability is known."""

    card = Card("Overflowing", "nobody", sites={"ability": "A", "truth": "N"})

    def model(self, data: Any) -> None:
        with plates.annotators(data):
            ability = normal_site("ability")
        log_p = ability[..., None, None] * torch.full((data.n_classes, data.n_answers), torch.inf) * 0
        with plates.items(data):
            annotate(data, log_p, truth(data, torch.zeros(data.n_classes)))


def normal_site(name: str) -> torch.Tensor:
    import pyro
    import pyro.distributions as dist

    value: torch.Tensor = pyro.sample(name, dist.Normal(0.0, 1.0))
    return value


@pytest.mark.parametrize("engine", ["vb", "nuts"])
def test_nan_raises_and_names_the_site(engine: str, data: Annotations) -> None:
    with pytest.raises(NumericalError, match="'label'"):
        fit(Overflowing(), data, inference=engine, chains=1, draws=2, warmup=1)


def test_chains_that_cannot_be_compared_are_said_to_be_so(
    data: Annotations, caplog: pytest.LogCaptureFixture
) -> None:
    engine = "gibbs"
    with pytest.warns(ConvergenceWarning, match="one chain"):
        found = fit("one_coin", data, inference=engine, chains=1, draws=20, warmup=5)
    assert not found.diagnostics()["converged"] and "R-hat" not in found.summary()
    with pytest.warns(ConvergenceWarning, match="too short"):
        fit("one_coin", data, inference=engine, chains=2, draws=3, warmup=5)
    assert caplog.text == ""  # ArviZ would speak of shapes


def test_history_is_a_prior() -> None:
    rows = [(i, a, "xy"[(i + (a == 2) * (i % 3 == 0)) % 2]) for i in range(12) for a in range(3)]
    item, annotator, label = zip(*rows, strict=True)
    plain = Annotations.from_arrays(item, annotator, label)
    counts = np.array([[7.0, 3.0], [1.0, 9.0]])
    told = Annotations.from_arrays(item, annotator, label, history={0: counts})
    truth_known = {i: "xy"[i % 2] for i in range(12)}
    with_it = fit("bayesian_dawid_skene", told, inference="vb", gold=truth_known)
    without = fit("bayesian_dawid_skene", plain, inference="vb", gold=truth_known)
    added = (
        with_it.result.sites["confusion"].arrays["concentration"]
        - without.result.sites["confusion"].arrays["concentration"]
    )
    np.testing.assert_allclose(added[0], counts, atol=1e-8)  # conjugate: history adds to the counts, nothing else
    np.testing.assert_allclose(added[1:], 0, atol=1e-8)
    many = Annotations.from_arrays(item, annotator, label, history={0: 1e6 * counts})
    table = fit("dawid_skene", many, inference="em").confusion().to_numpy()[0]
    np.testing.assert_allclose(table, counts / counts.sum(1, keepdims=True), atol=1e-4)


def test_predicting_the_training_items_gives_their_probabilities(data: Annotations) -> None:
    posterior = fit("mace", data, inference="em")
    pd.testing.assert_frame_equal(posterior.predict(data), posterior.probabilities(), atol=1e-8)
    half = Annotations.from_frame(data.frame().query("item < 40"), like=data)
    again = posterior.predict(half)
    pd.testing.assert_frame_equal(again, posterior.probabilities().loc[again.index], atol=1e-8)


@pytest.mark.parametrize("name", ["community", "hierarchical_dawid_skene"])
def test_methods_of_vb_can_be_updated(name: str) -> None:
    first, more = crowd(n_items=12), crowd(n_items=12, seed=1)
    with warnings.catch_warnings(action="ignore"):
        posterior = fit(name, first, inference="vb", max_iterations=3)
        updated = posterior.update(more, max_iterations=3)
    np.testing.assert_allclose(updated.probabilities().sum(axis=1), 1)
    assert far(updated, fit("majority_vote", more, inference="em")) > 0


def test_update_comes_close_to_a_refit(data: Annotations) -> None:
    rows = data.frame()
    options: dict[str, Any] = {"annotators": data.annotators, "classes": data.classes}
    old = Annotations.from_frame(rows.query("item < 100"), **options)
    new = Annotations.from_frame(rows.query("item >= 100"), **options)
    updated = fit("bayesian_dawid_skene", old, inference="vb").update(new)
    alone = fit("bayesian_dawid_skene", new, inference="vb")
    whole = fit("bayesian_dawid_skene", data, inference="vb")
    want = whole.probabilities().loc[new.items].to_numpy()
    off, off_alone = (np.abs(p.probabilities().loc[new.items].to_numpy() - want).mean() for p in (updated, alone))
    assert off < 0.05 and off < 0.5 * off_alone
    assert (updated.probabilities().loc[new.items].to_numpy().argmax(1) == want.argmax(1)).mean() >= 0.9
    one, two = (p.result.sites["confusion"].arrays["concentration"] for p in (updated, whole))
    assert one.sum() == pytest.approx(two.sum(), rel=1e-6)  # no label is forgotten, and none counts twice
    assert np.abs(one - two).max() < 0.15 * two.max()


def test_auto_takes_gibbs_where_it_is_exact_and_cheap_and_says_which(data: Annotations) -> None:
    quick = {"draws": 20, "warmup": 5, "chains": 2}
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        assert fit("one_coin", data, **quick).inference == "gibbs"
        assert fit("glad", data, max_iterations=1).inference == "vb"  # not exact
        assert fit("dawid_skene", data).inference == "em"  # refuses both
        assert fit("one_coin", data, chains=400, draws=20_000).inference == "vb"  # not cheap


@pytest.mark.parametrize(("method", "engine"), [("dawid_skene", "em"), ("glad", "em")])
def test_ignorable_abstentions_are_as_good_as_left_out(method: str, engine: str) -> None:
    rng = np.random.default_rng(1)
    rows = crowd(60, 6, 3, 5, seed=4).frame().astype({"label": object})
    rows.loc[rng.random(len(rows)) < 0.2, "label"] = "?"
    kept = rows[rows["label"] != "?"]
    every = {"items": rows["item"].unique(), "annotators": rows["annotator"].unique(), "classes": [0, 1, 2]}
    options: dict[str, Any] = {"tolerance": 1e-10, "max_iterations": 5000, "seed": 0}
    found, wanted = (
        crowdppl.fit(method, data, inference=engine, **options).probabilities()
        for data in (
            Annotations.from_frame(rows, abstentions=["?"], **every),
            Annotations.from_frame(kept, **every),
        )
    )
    assert np.abs(found.to_numpy() - wanted.to_numpy()).max() < 1e-4


@pytest.mark.parametrize("engine", ["em", "vb"])
def test_single_precision_agrees_with_double(engine: str, data: Annotations) -> None:
    one, two = (
        fit("class_coin", data, inference=engine, dtype=dtype, tolerance=1e-7)
        for dtype in (torch.float64, torch.float32)
    )
    assert 0 < far(one, two) < 1e-3
    assert one.diagnostics()["objective"] == pytest.approx(two.diagnostics()["objective"], rel=1e-5)


def test_the_users_settings_are_left_alone(data: Annotations) -> None:
    import pyro

    pyro.enable_validation(True)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    fit("mace", data, inference="vb")
    assert torch.equal(before, torch.get_rng_state())
    assert torch.get_default_dtype() == torch.float32
    assert pyro.settings.get("validate_distributions_pyro") is True
    assert not pyro.get_param_store().keys()


def test_fits_in_several_threads_wait_for_each_other() -> None:
    """Pyro's handlers and torch's default type belong to the process; fits at once read each other's sites."""
    data = crowd(n_items=15)

    def work(seed: int) -> tuple[np.ndarray, np.ndarray]:
        posterior = fit("bayesian_dawid_skene", data, inference="vb", seed=3, tolerance=1e-3)
        drawn = simulate(posterior.model, data, seed).data.frame()["label"].to_numpy()
        return posterior.probabilities().to_numpy(), drawn

    wanted = [work(seed) for seed in range(2)]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(work, range(2)))
    for one, other in zip(found, wanted, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    assert torch.get_default_dtype() == torch.float32


def test_chains_that_auto_chose_run_longer_and_then_give_way() -> None:
    def noise(n_classes: int, n_items: int, n_annotators: int) -> Annotations:
        item, annotator = np.divmod(np.arange(n_items * n_annotators), n_annotators)
        labels = np.random.default_rng(1).integers(0, n_classes, len(item))
        return Annotations.from_arrays(item, annotator, labels, classes=list(range(n_classes)))

    longer = fit("one_coin", noise(2, 50, 4), seed=0)
    assert (longer.inference, longer.options["draws"]) == ("gibbs", 1500)
    assert longer.diagnostics()["converged"]
    with pytest.warns(ConvergenceWarning, match="inference='gibbs' keeps the chains"):
        other = fit("one_coin", noise(3, 60, 3), seed=0)
    assert other.inference == "vb"
    assert other.diagnostics()["converged"]
    with pytest.warns(ConvergenceWarning, match="chains disagree"):
        assert fit("one_coin", noise(3, 60, 3), seed=0, draws=500).inference == "gibbs"
