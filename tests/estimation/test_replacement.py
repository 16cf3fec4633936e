"""The alternative annotator test: a count by hand, published figures, and how often it errs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp

import crowdppl
from crowdppl import alternative_annotator_test
from crowdppl.errors import DataError, MethodError

N = 120


def crowd(seed: int, noise: float, of_model: float, n: int = N) -> tuple[crowdppl.Annotations, dict[int, int]]:
    """Labels of n items of three classes by four people, and a model's, wrong with these probabilities."""
    stream = np.random.default_rng(seed)
    truth = stream.integers(0, 3, n)

    def said(wrong: float) -> np.ndarray:
        return np.where(stream.random(n) < wrong, (truth + stream.integers(1, 3, n)) % 3, truth)

    labels = np.concatenate([said(noise) for _ in range(4)])
    people = crowdppl.Annotations.from_arrays([*range(n)] * 4, np.repeat([*"abcd"], n), labels)
    return people, dict(enumerate(said(of_model).tolist()))


def test_it_counts_as_one_would_by_hand() -> None:
    people, model = crowd(0, 0.3, 0.2)
    table = people.frame().set_index(["item", "annotator"])["label"].unstack()
    found = alternative_annotator_test(people, model, epsilon=0.15, bootstrap=0)
    for name in "abcd":
        others = table.drop(columns=name)
        near = {who: others.eq(x, axis=0).mean(axis=1) for who, x in (("p", table[name]), ("m", pd.Series(model)))}
        p, m = near["p"] >= near["m"] - 1e-9, near["m"] >= near["p"] - 1e-9
        wanted = ttest_1samp(p.astype(float) - m.astype(float), 0.15, alternative="less").pvalue
        assert found.table.loc[name].drop("wins").tolist() == pytest.approx([N, m.mean(), p.mean(), wanted])
    assert found.advantage == pytest.approx(found.table["model"].mean())


@pytest.mark.parametrize(
    ("name", "measure", "rates", "advantages"),
    [
        ("cebab_aspects", "accuracy", (0.7, 0.9, 0.9, 0.5, 0.6, 0.1), (0.91, 0.94, 0.93, 0.9, 0.89, 0.81)),
        ("cebab_stars", "rmse", (0.6, 0.8, 0.9, 0.9, 0.6, 0.5), (0.82, 0.87, 0.9, 0.89, 0.85, 0.83)),
    ],
)
@pytest.mark.slow
def test_figures_are_those_of_the_authors(
    real_data: Path,
    name: str,
    measure: str,
    rates: tuple[float, ...],
    advantages: tuple[float, ...],
) -> None:
    """As their repository prints them at epsilon .1 (nitaytech/AltTest, alt_test_example.ipynb)."""
    rows, humans = (pd.read_csv(real_data / f"judges_{name}" / f"{part}.csv") for part in ("answers", "humans"))
    people, options = crowdppl.Annotations.from_frame(humans, kind="nominal"), {"measure": measure, "bootstrap": 0}
    for (_, own), rate, advantage in zip(rows.groupby("annotator"), rates, advantages, strict=True):
        model = own.set_index("item")["label"]
        found = alternative_annotator_test(people, model, **options)  # type: ignore[arg-type]
        assert (round(found.winning_rate, 2), round(found.advantage, 2)) == (rate, advantage)
        assert found.advantage_low < found.advantage < found.advantage_high


def test_a_good_model_wins_and_a_bad_one_does_not() -> None:
    for wrong, good in ((0.1, True), (0.6, False)):
        found = [alternative_annotator_test(*crowd(n, 0.3, wrong), bootstrap=0) for n in range(5)]
        assert {x.may_replace for x in found} == {good}


@pytest.mark.parametrize(("n", "times"), [(40, 30), pytest.param(150, 60, marks=pytest.mark.slow)])
def test_it_errs_no_more_often_than_it_says(n: int, times: int) -> None:
    """Of a model that people are ahead of by just epsilon, it seldom says that it wins; below, it often does."""
    whole = alternative_annotator_test(*crowd(0, 0.1, 0.2, 10_000), epsilon=0, bootstrap=0)
    ahead = float((whole.table["person"] - whole.table["model"]).mean())
    crowds = [crowd(seed, 0.1, 0.2, n) for seed in range(times)]
    found = [alternative_annotator_test(*each, epsilon=ahead, bootstrap=0) for each in crowds]
    assert sum(x.winning_rate > 0 for x in found) <= 0.05 * times + 4, "at a rate of .05"
    assert np.mean([x.advantage_low <= whole.advantage <= x.advantage_high for x in found]) >= 0.85
    assert np.mean([x.advantage_high - x.advantage_low for x in found]) < 1.6 / n**0.5
    easy = [alternative_annotator_test(*each, epsilon=ahead + 0.3, bootstrap=0) for each in crowds[:5]]
    assert sum(x.may_replace for x in easy) >= 4


def test_a_model_that_is_never_behind_needs_items_all_the_same() -> None:
    """A person who is ahead on a tenth of items may be so on none of thirty; of two hundred, hardly."""
    for n, wins in ((30, 0.0), (200, 1.0)):
        names = np.repeat([*"abc"], n)
        people = crowdppl.Annotations.from_arrays([*range(n)] * 3, names, [x % 2 for x in range(n)] * 3)
        found = alternative_annotator_test(people, {x: x % 2 for x in range(n)}, bootstrap=0)
        assert found.table["p"].tolist() == pytest.approx([0.9**n] * 3) and found.winning_rate == wins
        assert (found.advantage, found.advantage_high) == (1, 1)
        assert found.advantage_low == pytest.approx(0.025 ** (1 / n))


def test_a_model_among_the_annotators_is_no_person() -> None:
    people, model = crowd(2, 0.3, 0.2)
    rows = [people.frame()[["item", "annotator", "label"]]]
    for name, labels in (("gpt", model), ("other", dict.fromkeys(range(N), 0))):
        rows.append(pd.DataFrame({"item": [*labels], "annotator": name, "label": [*labels.values()]}))
    both = crowdppl.Annotations.from_frame(pd.concat(rows), kind="nominal")
    wanted = alternative_annotator_test(people, model, bootstrap=0)
    found = alternative_annotator_test(both, "gpt", models=["other"], bootstrap=0)
    pd.testing.assert_frame_equal(found.table, wanted.table)
    assert found.advantage_low == wanted.advantage_low
    assert [*alternative_annotator_test(both, "gpt", bootstrap=0).table.index] == [*"abcd", "other"]
    assert [*alternative_annotator_test(people, "d", bootstrap=0).table.index] == [*"abc"]
    some = crowdppl.Annotations.from_frame(both.frame().query("annotator != 'gpt' or item >= 50"), kind="nominal")
    assert set(alternative_annotator_test(some, "gpt", bootstrap=0).table["items"]) == {N - 50}
    with pytest.raises(DataError, match="'gtp' is none of the annotators"):
        alternative_annotator_test(both, "gtp")
    with pytest.raises(MethodError, match="names annotators that are not in the data"):
        alternative_annotator_test(both, "gpt", models=["nobody"])


def test_numbers_are_compared_by_their_distance() -> None:
    stream = np.random.default_rng(3)
    truth, names = stream.normal(0, 1, N), np.repeat([*"abcd"], N)
    labels = truth + stream.normal(0, 0.5, (4, N))
    people = crowdppl.Annotations.from_arrays([*range(N)] * 4, names, labels.ravel(), kind="real")
    model = truth + stream.normal(0, 0.4, N)
    found = alternative_annotator_test(people, dict(enumerate(model)), measure="rmse", bootstrap=0)
    others = np.stack([np.delete(labels, j, 0) for j in range(4)])
    far = [np.sqrt(((x[:, None] - others) ** 2).mean(2 - 1)) for x in (labels, np.broadcast_to(model, (4, N)))]
    np.testing.assert_allclose(found.table["model"], (far[1] <= far[0]).mean(1))
    fitted = crowdppl.fit("label_mean", people, inference="em")
    assert alternative_annotator_test(people, fitted, measure="rmse", bootstrap=0).may_replace
    with pytest.raises(MethodError, match="measure='rmse'"):
        alternative_annotator_test(people, dict(enumerate(model)))
    with pytest.raises(MethodError, match="no numbers on a line"):
        alternative_annotator_test(crowdppl.datasets.example("angle"), {}, measure="rmse")


def test_a_fit_is_a_model_and_spelling_does_not_matter() -> None:
    people, model = crowd(1, 0.3, 0.1)
    frame = pd.DataFrame({"item": list(model), "annotator": "m", "label": list(model.values())})
    texts = {str(item): str(label) for item, label in model.items()}
    first = alternative_annotator_test(people, model, bootstrap=0)
    for other in (pd.Series(model), frame, crowdppl.Annotations.from_frame(frame, kind="nominal"), texts):
        pd.testing.assert_frame_equal(first.table, alternative_annotator_test(people, other, bootstrap=0).table)
    fitted = crowdppl.fit("majority_vote", people, inference="em")
    assert alternative_annotator_test(people, fitted, bootstrap=20).agreement.loc["with the model", "value"] > 0


def test_what_cannot_be_tested_is_refused() -> None:
    people, model = crowd(0, 0.3, 0.2)
    few = crowdppl.Annotations.from_frame(people.frame().query("item < 20"), kind="nominal")
    with pytest.raises(MethodError, match=r"3 people are wanted.* there are 0 .*the most such items is 20"):
        alternative_annotator_test(few, model)
    two = crowdppl.Annotations.from_frame(people.frame().query("annotator < 'c'"), kind="nominal")
    with pytest.raises(MethodError, match=r"3 people are wanted.* there are 2 "):
        alternative_annotator_test(two, model)
    with pytest.raises(DataError, match="no label of 119 of 120 items"):
        alternative_annotator_test(people, {0: 1})
    with pytest.raises(DataError, match="none of people's classes"):
        alternative_annotator_test(people, dict.fromkeys(range(N), "x"))
    words = crowdppl.Annotations.from_frame(
        people.frame().replace({"label": {0: "a", 1: "b", 2: "c"}}), kind="nominal"
    )
    with pytest.raises(MethodError, match="labels that are numbers"):
        alternative_annotator_test(words, dict.fromkeys(range(N), "a"), measure="rmse")
