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


def crowd(seed: int, noise: float, of_model: float) -> tuple[crowdppl.Annotations, dict[int, int]]:
    """Labels of three classes by four people, and a model's, wrong with these probabilities."""
    stream = np.random.default_rng(seed)
    truth = stream.integers(0, 3, N)

    def said(wrong: float) -> np.ndarray:
        return np.where(stream.random(N) < wrong, (truth + stream.integers(1, 3, N)) % 3, truth)

    labels = np.concatenate([said(noise) for _ in range(4)])
    people = crowdppl.Annotations.from_arrays([*range(N)] * 4, np.repeat([*"abcd"], N), labels)
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
    real_data: Path, name: str, measure: str, rates: tuple[float, ...], advantages: tuple[float, ...]
) -> None:
    """As their repository prints them at epsilon .1 (nitaytech/AltTest, alt_test_example.ipynb)."""
    rows, humans = (pd.read_csv(real_data / f"judges_{name}" / f"{part}.csv") for part in ("answers", "humans"))
    people = crowdppl.Annotations.from_frame(humans, kind="nominal")
    for (_, own), rate, advantage in zip(rows.groupby("annotator"), rates, advantages, strict=True):
        model = own.set_index("item")["label"]
        found = alternative_annotator_test(people, model, measure=measure, bootstrap=0)  # type: ignore[arg-type]
        assert (round(found.winning_rate, 2), round(found.advantage, 2)) == (rate, advantage)


def test_a_good_model_wins_and_a_bad_one_does_not() -> None:
    rates = {
        wrong: [alternative_annotator_test(*crowd(n, 0.3, wrong), bootstrap=0) for n in range(20)]
        for wrong in (0.1, 0.6)
    }
    assert np.mean([x.winning_rate >= 0.5 for x in rates[0.1]]) == 1
    assert np.mean([x.winning_rate >= 0.5 for x in rates[0.6]]) == 0


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
    with pytest.raises(MethodError, match="the most is 20"):
        alternative_annotator_test(few, model)
    with pytest.raises(DataError, match="no label of 119 of 120 items"):
        alternative_annotator_test(people, {0: 1})
    with pytest.raises(DataError, match="none of people's classes"):
        alternative_annotator_test(people, dict.fromkeys(range(N), "x"))
    words = crowdppl.Annotations.from_frame(
        people.frame().replace({"label": {0: "a", 1: "b", 2: "c"}}), kind="nominal"
    )
    with pytest.raises(MethodError, match="classes that are numbers"):
        alternative_annotator_test(words, dict.fromkeys(range(N), "a"), measure="rmse")
