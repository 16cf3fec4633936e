"""Grades by thresholds between them: limits, tables, refusals."""

import numpy as np
import pytest

import crowdppl
from crowdppl.errors import DataError, MethodError
from crowdppl.results.thresholds import differences


@pytest.fixture(scope="module")
def posterior() -> crowdppl.Posterior:
    grades = crowdppl.datasets.example("ordinal")
    return crowdppl.thresholds("dawid_skene", grades, inference="em", seed=0)


def test_differences_are_probabilities_and_keep_what_falls() -> None:
    falls = np.array([0.9, 0.5, 0.2])
    assert differences(falls) == pytest.approx([0.1, 0.4, 0.3, 0.2])
    above = np.random.default_rng(0).random((50, 4))
    found = differences(above)
    assert found.shape == (50, 5)
    assert (found >= -1e-15).all()
    assert found.sum(1) == pytest.approx(1)
    assert differences(np.array([0.2, 0.6])) == pytest.approx([0.6, 0, 0.4])


def test_two_grades_are_one_fit() -> None:
    labels = crowdppl.datasets.example("ordinal").above(2).frame()
    two = crowdppl.Annotations.from_frame(labels, classes=["no", "yes"], kind="ordinal")
    alone = crowdppl.fit("dawid_skene", two, inference="em", seed=0)
    found = crowdppl.thresholds("dawid_skene", two, inference="em", seed=0)
    np.testing.assert_allclose(found.probabilities(), alone.probabilities(), atol=1e-12)
    np.testing.assert_allclose(found.result.table, alone.result.table, atol=1e-12)
    np.testing.assert_allclose(found.prevalence()["mean"], alone.prevalence()["mean"], atol=1e-12)


def test_above_says_which_labels_are() -> None:
    data = crowdppl.datasets.example("ordinal")
    for grade in (1, 2, 3):
        found = data.above(grade)
        key = ["item", "annotator"]
        count = found.frame().assign(yes=found.frame()["label"] == "yes").groupby(key)["yes"].sum()
        wanted = data.frame().assign(yes=data.frame()["label"] > grade).groupby(key)["yes"].sum()
        assert (count == wanted).all()
        assert found.items.equals(data.items)


def test_abstentions_and_known_grades_stay() -> None:
    rows = crowdppl.datasets.example("ordinal").frame().drop_duplicates(["item", "annotator"])
    rows["label"] = rows["label"].astype(str).mask(rows.index % 7 == 0, "none")
    more = {"classes": list("1234"), "abstentions": ["none"], "kind": "ordinal", "gold": {3: "1", 4: "4"}}
    data = crowdppl.Annotations.from_frame(rows, **more)
    found = crowdppl.thresholds("dawid_skene", data, inference="em", seed=0)
    assert found.result.table.shape == (5, 4, 5)
    assert found.result.table.sum(-1) == pytest.approx(np.ones((5, 4)))
    assert found.probabilities().loc[[3, 4]].to_numpy() == pytest.approx(np.eye(4)[[0, 3]])


def test_tables_are_those_of_thresholds(posterior: crowdppl.Posterior) -> None:
    """P(label > j | truth k) of the tables is that of the fit to threshold j, where these fall with j."""
    grades = crowdppl.datasets.example("ordinal")
    own = [
        crowdppl.fit("dawid_skene", grades.above(grade), inference="em", seed=0).result.table for grade in (1, 2, 3)
    ]
    table = posterior.result.table
    wanted = np.stack([np.stack([own[j][:, int(k > j), 1] for j in range(3)], -1) for k in range(4)], 1)
    fall = (np.diff(wanted, axis=-1) <= 0).all(-1)
    above = table[..., ::-1].cumsum(-1)[..., ::-1][..., 1:]
    assert fall.mean() > 0.5
    np.testing.assert_allclose(above[fall], wanted[fall], atol=1e-9)


def test_a_posterior_by_thresholds_has_tables_and_no_model(posterior: crowdppl.Posterior) -> None:
    assert repr(posterior) == "<Posterior of dawid_skene by thresholds by em: 45 items, 5 annotators, 4 classes>"
    assert posterior.diagnostics()["converged"]
    assert posterior.truth()["estimate"].isin([1, 2, 3, 4]).all()
    assert len(posterior.annotators()) == 5
    assert posterior.confusion().shape[0] > 0
    assert "thresholds" in posterior.summary()
    data = crowdppl.datasets.example("ordinal")
    for use in (
        lambda: posterior.save("result"),
        lambda: posterior.predict(data),
        lambda: posterior.update(data),
        lambda: posterior.site("confusion"),
        lambda: posterior.suggest_labels(3),
        posterior.leave_one_out,
    ):
        with pytest.raises(MethodError, match=r"no model of grades: fit one, such as 'ordinal'"):
            use()


def test_what_has_no_grades_is_refused() -> None:
    with pytest.raises(DataError, match="say kind='ordinal'"):
        crowdppl.thresholds("one_coin", crowdppl.anaesthetists())
    with pytest.raises(DataError, match="say kind='ordinal'"):
        crowdppl.thresholds("one_coin", crowdppl.datasets.example("real"))
    for grade in (4, "none"):
        with pytest.raises(DataError, match="no grade that others are above; give one of"):
            crowdppl.datasets.example("ordinal").above(grade)


def test_grades_with_noise_by_steps_are_found_better_than_by_coins() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(5, size=400)
    label = np.clip(truth[:, None] + np.round(rng.normal(size=(400, 5)) * [0.5, 0.7, 0.9, 1.1, 1.3]), 0, 4)
    data = crowdppl.Annotations.from_matrix(label.astype(int), kind="ordinal", classes=range(5))
    gold = dict(enumerate(truth))
    found = crowdppl.thresholds("one_coin", data, inference="em", seed=0)
    plain = crowdppl.fit("one_coin", data, inference="em", seed=0)
    ahead = crowdppl.evaluate(found, gold).accuracy - crowdppl.evaluate(plain, gold).accuracy
    assert ahead > 0.02
