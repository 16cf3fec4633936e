"""Labels that are probabilities, scores, or several noisy answers of one annotator."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist
import pytest
import torch

import crowdppl
import crowdppl.primitives as cp
from crowdppl import mean_field, testing
from crowdppl.errors import DataError, MethodError

K = 3
COLUMNS = [f"p{k}" for k in range(K)]
CLASSES: dict[str, Any] = {"classes": range(K), "probabilities": COLUMNS}


def judged(
    seed: int, n: int = 300, powers: tuple[float, ...] = (1.0, 3.0, 0.4, 1.0, 5.0)
) -> tuple[pd.DataFrame, pd.Series]:
    """Right posterior probabilities of judges who see the truth in Gaussian noise, to a power each; the truth."""
    rng, rows = np.random.default_rng(seed), []
    truth = rng.integers(K, size=n)
    for a, power in enumerate(powers):
        strength = rng.uniform(1, 2)
        log_p = strength * (rng.normal(size=(n, K)) + strength * np.eye(K)[truth])
        p = np.exp(power * (log_p - log_p.max(1, keepdims=True)))
        own = pd.DataFrame(p / p.sum(1, keepdims=True), columns=COLUMNS)
        rows.append(own.assign(item=range(n), annotator=f"judge {a}"))
    return pd.concat(rows, ignore_index=True), pd.Series(truth, pd.RangeIndex(n, name="item"))


def asked_again(
    seed: int, noise: tuple[float, ...], first: tuple[float, ...], k: int, times: int = 4
) -> tuple[pd.DataFrame, pd.Series]:
    """Answers of judges who mean a class, of whom shares are any class, or the class shown first; the truth."""
    rng, rows, n = np.random.default_rng(seed), [], 300
    truth = rng.integers(k, size=n)
    for a, (share, place) in enumerate(zip(noise, first, strict=True)):
        meant = np.where(rng.random(n) < 0.8, truth, (truth + rng.integers(1, k, size=n)) % k)
        for turn in range(times):
            shown = np.full(n, turn % 2) if k == 2 else rng.integers(k, size=n)
            u = rng.random(n)
            label = np.where(u < share, rng.integers(k, size=n), np.where(u < share + place, shown, meant))
            rows.append(pd.DataFrame({"item": range(n), "annotator": f"{a}", "label": label, "shown": shown}))
    return pd.concat(rows, ignore_index=True), pd.Series(truth, pd.RangeIndex(n, name="item"))


def read(table: pd.DataFrame, **options: Any) -> crowdppl.Annotations:
    return crowdppl.Annotations.from_frame(table, "item", "annotator", **{**CLASSES, **options})


def likely(data: crowdppl.Annotations) -> crowdppl.Annotations:
    """The most probable classes alone, as labels."""
    return crowdppl.Annotations.from_frame(data.frame()[["item", "annotator", "label"]], classes=range(K))


def log_score(data: crowdppl.Annotations, truth: pd.Series, engine: str = "vb") -> float:
    found = crowdppl.evaluate(crowdppl.fit("bayesian_dawid_skene", data, inference=engine, seed=0), truth).log_score
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("method", "engine"),
    [
        ("dawid_skene", "em"),
        ("bayesian_dawid_skene", "vb"),
        ("judge_panel", "vb"),
        ("glad", "vb"),
        ("one_coin", "gibbs"),
    ],
)
def test_probabilities_of_zero_and_one_are_labels(method: str, engine: str) -> None:
    table, _ = judged(0, 60)
    sure = table.assign(**dict(zip(COLUMNS, np.eye(K)[table[COLUMNS].to_numpy().argmax(1)].T, strict=True)))
    short: Any = {"draws": 10, "warmup": 10} if engine == "gibbs" else {}
    with warnings.catch_warnings(action="ignore", category=crowdppl.errors.CrowdpplWarning):  # chains are short
        one, other = (
            crowdppl.fit(method, data, inference=engine, seed=0, **short).probabilities()
            for data in (read(sure), likely(read(sure)))
        )
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("seed", range(3))
def test_probabilities_of_judges_too_sure_or_too_unsure_are_calibrated(seed: int) -> None:
    powers = (1.0, 3.0, 0.4, 1.0, 5.0)
    table, truth = judged(seed, powers=powers)
    data = read(table)
    assert data.soft is not None
    found = data.soft.table()["power"].to_numpy() * np.array(powers)
    assert (found / np.exp(np.log(found).mean()) < 1.5).all() and (found > 0.6).all() and (found < 1.8).all()
    assert log_score(data, truth) < 0.6 * log_score(likely(data), truth)


def test_engines_sum_over_the_class_that_is_meant() -> None:
    table, _ = judged(1, 80)
    data = read(table)
    shares = [
        crowdppl.fit("one_coin", data, inference=engine, seed=0, **more).probabilities().to_numpy()
        for engine, more in (("gibbs", {"draws": 300}), ("laplace", {}), ("vb", {}))
    ]
    for other in shares[1:]:
        np.testing.assert_allclose(other, shares[0], atol=0.05)


@dataclass(frozen=True)
class ReadsAnswers:
    """A model that looks at the labels themselves, where it is asked about any."""

    card: ClassVar[cp.Card] = cp.Card(
        title="Reads answers", reference="here", sites={"confusion": "A K K", "truth": "N"}
    )

    def model(self, data: cp.Block) -> None:
        rows = cp.diagonal_prior(data.n_classes, 4.0, 0.7)
        with cp.plates.annotators(data):
            confusion = pyro.sample("confusion", dist.Dirichlet(rows).to_event(1))
        table = confusion.log()[..., data.annotator, :, :]

        def given(answer: torch.Tensor) -> torch.Tensor:
            return cp.each_label(table)(data.answer if data.has_labels else answer)

        with cp.plates.items(data):
            cp.annotate(data, given, cp.truth(data, torch.zeros(data.n_classes)))

    guide = mean_field


def test_the_contract_finds_models_that_read_labels_otherwise() -> None:
    testing.check("one_coin", "soft labels")
    with pytest.raises(AssertionError, match="a soft label is"):
        testing.check(ReadsAnswers(), "soft labels")


def test_probabilities_that_are_alike_for_all_items_say_nothing() -> None:
    table, _ = judged(2, 150, (1.0, 1.0, 1.0))
    same = table.copy()
    same.loc[same["annotator"] == "judge 2", COLUMNS] = [0.7, 0.2, 0.1]
    without = table[table["annotator"] != "judge 2"]
    one, other = (
        crowdppl.fit("one_coin", read(x), inference="em", seed=0).probabilities() for x in (same, without)
    )
    assert float((one - other).abs().to_numpy().mean()) < 0.01


def test_scores_are_read_in_any_unit_and_log_probabilities_as_probabilities() -> None:
    table, truth = judged(3, 150)
    logs = table.assign(**{name: np.log(table[name]) for name in COLUMNS})
    shares = [crowdppl.fit("one_coin", read(table), inference="em", seed=0).probabilities()]
    shares.append(crowdppl.fit("one_coin", read(logs, scale="log"), inference="em", seed=0).probabilities())
    np.testing.assert_allclose(shares[0], shares[1], atol=1e-6)
    units = [logs, logs.assign(**{name: 100 * logs[name] - 7 for name in COLUMNS})]
    one, other = (read(x, scale="score") for x in units)
    assert one.soft is not None and other.soft is not None
    np.testing.assert_allclose(one.soft.table()["power"], 100 * other.soft.table()["power"], rtol=0.02)
    assert log_score(other, truth) == pytest.approx(log_score(read(table), truth), abs=0.01)


def test_one_column_is_of_the_second_of_two_classes() -> None:
    table, _ = judged(4, 100)
    yes = table.assign(yes=table["p0"], no=1 - table["p0"])
    two = crowdppl.Annotations.from_frame(yes, probabilities={"no": "no", "yes": "yes"}, classes=["no", "yes"])
    one = crowdppl.Annotations.from_frame(yes, probabilities="yes", classes=["no", "yes"])
    arrays = crowdppl.Annotations.from_arrays(
        yes["item"], yes["annotator"], yes[["no", "yes"]].to_numpy(), classes=["no", "yes"]
    )
    shares = [crowdppl.fit("one_coin", x, inference="em", seed=0).probabilities() for x in (two, one, arrays)]
    for other in shares[1:]:
        np.testing.assert_allclose(other, shares[0], atol=1e-6)


def test_people_give_labels_beside_judges_who_give_probabilities() -> None:
    table, _ = judged(5, 60)
    person = pd.DataFrame({"item": range(60), "annotator": "ann", "said": [n % K for n in range(60)]})
    both = pd.concat([table, person], ignore_index=True)
    data = read(both, label="said")
    own = data.frame().query("annotator == 'ann'")
    assert own["label"].tolist() == person["said"].tolist()
    block = data.as_block()
    mine = block.annotator == data.annotators.get_loc("ann")
    torch.testing.assert_close(block.soft[mine].exp().sum(1), torch.ones(60, dtype=torch.float64))
    with pytest.raises(DataError, match="row 300 .* has no probabilities"):
        read(both)


@pytest.mark.parametrize("k", [2, 4])
def test_noise_and_position_bias_of_judges_asked_again_are_learned(k: int) -> None:
    noise, first = (0.05, 0.1, 0.3, 0.3), (0.0, 0.3, 0.0, 0.4)
    table, truth = asked_again(0, noise, first, k)
    data = crowdppl.Annotations.from_frame(table, repeats="noisy", shown_first="shown")
    assert data.soft is not None and data.n_labels == 4 * 300
    shares = data.soft.table()
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    np.testing.assert_allclose(shares["any"], noise, atol=0.12)
    np.testing.assert_allclose(shares["first"], first, atol=0.12)
    other = crowdppl.Annotations.from_frame(table, repeats="one")
    assert log_score(data, truth) < log_score(other, truth)


def test_one_answer_again_is_as_sure_as_its_judge() -> None:
    """Of a judge without noise, k answers tell as much as one."""
    table, truth = asked_again(1, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 3)
    once = table.drop_duplicates(["item", "annotator"])
    many = crowdppl.Annotations.from_frame(table, repeats="noisy")
    one = crowdppl.Annotations.from_frame(once)
    assert log_score(many, truth, "laplace") == pytest.approx(log_score(one, truth, "laplace"), abs=0.01)


def test_new_labels_are_read_by_the_maps_of_the_fit(tmp_path: Path) -> None:
    table, truth = judged(6, 200)
    old, new = table[table["item"] < 150], table[table["item"] >= 150]
    posterior = crowdppl.fit("one_coin", read(old), inference="gibbs", draws=50, warmup=50, seed=0)
    found = posterior.predict(new)
    assert crowdppl.evaluate(found, truth[150:]).accuracy > 0.9
    again = crowdppl.Annotations.from_frame(new, like=posterior.data)
    assert again.soft is posterior.data.soft
    posterior.save(tmp_path / "fit")
    loaded = crowdppl.load(tmp_path / "fit")
    pd.testing.assert_frame_equal(loaded.predict(new), found)
    pd.testing.assert_frame_equal(loaded.data.soft.table(), posterior.data.soft.table())
    grown = posterior.update(new)
    whole = crowdppl.fit("one_coin", read(table), inference="vb", seed=0).probabilities()
    assert float((grown.probabilities().loc[150:] - whole.loc[150:]).abs().to_numpy().mean()) < 0.01


def test_a_class_that_is_new_to_the_fit_is_seen_for_certain() -> None:
    table, _ = judged(8, 60)
    fitted = crowdppl.fit("one_coin", read(table), inference="vb", seed=0)
    new = table[table["item"] < 5].assign(said=np.nan)
    person = pd.DataFrame({"item": range(5), "annotator": "ann", "said": [0, 1, 2, 3, 3]})
    data = crowdppl.Annotations.from_frame(
        pd.concat([new, person], ignore_index=True), label="said", like=fitted.data, grow=True
    )
    block = data.as_block()
    mine = block.annotator == data.annotators.get_loc("ann")
    assert sorted(block.answer[mine].tolist()) == [0, 1, 2, 3, 3]
    np.testing.assert_array_equal(block.soft[mine].exp(), np.eye(4)[block.answer[mine]])
    assert bool((block.soft[~mine].exp().sum(1) > 1).all())
    assert np.isfinite(fitted.predict(data).to_numpy()).all()


def test_an_annotator_with_one_score_is_read_as_others_are() -> None:
    table, _ = judged(9, 60)
    one = pd.DataFrame([[7e5, 1.0, 0.0, 0, "once"]], columns=[*COLUMNS, "item", "annotator"])
    data = read(pd.concat([table, one], ignore_index=True), scale="score")
    assert data.soft is not None
    powers = data.soft.table()["power"]
    assert 0 < powers["once"] < 1e3 * powers["judge 0"]


def test_a_method_that_takes_grades_for_numbers_is_refused() -> None:
    table, _ = judged(0, 30)
    with pytest.raises(MethodError, match="RaterFacets reads labels as classes, and these are soft"):
        crowdppl.fit("rater_facets", read(table, kind="ordinal"), inference="vb", seed=0)


def test_a_zero_is_read_as_it_is_said() -> None:
    table, _ = judged(7, 40)
    table.loc[0, COLUMNS] = [0.0, 0.5, 0.5]
    logs = table.assign(**{name: np.log(table[name].clip(1e-300)) for name in COLUMNS})
    logs.loc[0, "p0"] = -np.inf
    with pytest.raises(DataError, match="row 0 .* minus infinity"):
        read(logs, scale="log")
    low, none = read(logs, scale="log", floor=1e-3), read(table)
    assert none.frame()["evidence of 0"].iloc[0] == 0 < low.frame()["evidence of 0"].iloc[0] < 0.2
