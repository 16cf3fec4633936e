"""Trusted annotators: their labels are known truths, against others who copy one another."""

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.data.split import keep, some_items
from crowdppl.errors import CrowdpplWarning, DataError, MethodError
from crowdppl.posterior import Posterior


def crowd(
    honest: int, colluders: int, share: float, seed: int, items: int = 300, classes: int = 3
) -> tuple[Annotations, pd.Series]:
    """Labels of honest annotators, of colluders who copy random answers, and of one who is always right."""
    stream = np.random.default_rng(seed)
    truth, source = stream.integers(classes, size=(2, items))
    accuracy, rows = stream.uniform(0.6, 0.9, honest), []
    for i in range(items):
        wrong = (truth[i] + stream.integers(1, classes, honest)) % classes
        said = np.where(stream.random(honest) < accuracy, truth[i], wrong)
        copied = np.where(stream.random(colluders) < 0.95, source[i], stream.integers(classes, size=colluders))
        rows += [(i, f"a{a}", x) for a, x in enumerate([*said, *copied])]
    rows += [(int(i), "trusted", truth[i]) for i in stream.choice(items, round(share * items), replace=False)]
    frame = pd.DataFrame(rows, columns=["item", "annotator", "label"])
    return Annotations.from_frame(frame, classes=range(classes)), pd.Series(truth)


def accuracy(found: Posterior, truth: pd.Series) -> float:
    """Of items that the trusted annotator did not label."""
    rows = found.data.frame()
    rest = truth.drop(rows.loc[rows["annotator"] == "trusted", "item"])
    return float((found.labels()["label"][rest.index] == rest).mean())


@pytest.mark.parametrize(
    ("method", "engine"), [("dawid_skene", "em"), ("bayesian_dawid_skene", "vb"), ("one_coin", "vb")]
)
def test_one_trusted_annotator_outweighs_colluders(method: str, engine: str) -> None:
    data, truth = crowd(4, 6, 0.2, seed=1)
    alone = crowdppl.fit(method, data, inference=engine, seed=0)
    found = crowdppl.fit(method, data, inference=engine, trusted=["trusted"], seed=0)
    gold = data.frame().query("annotator == 'trusted'").set_index("item")["label"]
    known = crowdppl.fit(method, data, inference=engine, gold=gold, seed=0)
    assert max(accuracy(alone, truth), accuracy(known, truth)) < 0.45
    assert accuracy(found, truth) > 0.75
    scores = found.diagnostics()["scores"]
    assert scores["annotators by trusted items"] > scores["annotators by all items"]


def test_held_rows_are_those_of_the_items_of_known_truth() -> None:
    data, _ = crowd(4, 6, 0.2, seed=1)
    found = crowdppl.fit("bayesian_dawid_skene", data, inference="vb", trusted="trusted", seed=0)
    assert found.data.gold is not None
    known = data.items.isin(found.data.gold.index)
    part = some_items(data, known).with_gold(found.data.gold)
    told = crowdppl.fit("bayesian_dawid_skene", part, inference="vb", seed=0)
    assert np.allclose(found.confusion(), told.confusion(), atol=2e-3)
    mine = found.probabilities()[~known]
    others = keep(data, data.label_codes()[1] != data.annotator_book.codes(["trusted"])[0])
    expected = told.predict(others).loc[mine.index]
    assert np.abs(mine - expected).to_numpy().max() < 0.05


def test_an_honest_crowd_tells_of_itself() -> None:
    data, _ = crowd(10, 0, 0.1, seed=2)
    found = crowdppl.fit("bayesian_dawid_skene", data, inference="vb", trusted=["trusted"], seed=0)
    known = crowdppl.fit("bayesian_dawid_skene", data, inference="vb", gold=found.data.gold, seed=0)
    assert (found.probabilities() == known.probabilities()).all(axis=None)
    assert found.data.history is None


def test_gold_stays_and_disagreement_is_told() -> None:
    data, truth = crowd(4, 0, 0.1, seed=3, items=100)
    rows = data.frame()
    first = rows.loc[rows["annotator"] == "trusted", "item"].iloc[:2].tolist()
    second = pd.DataFrame({"item": first, "annotator": "other", "label": [(truth[i] + 1) % 3 for i in first]})
    both = Annotations.from_frame(pd.concat([rows, second]), classes=range(3), gold={first[0]: truth[first[0]]})
    with pytest.warns(CrowdpplWarning, match=rf"trusted= disagree on 1 items, such as {first[1]}"):
        found = crowdppl.fit("one_coin", both, inference="vb", trusted=["trusted", "other"], seed=0)
    assert found.data.gold is not None
    assert found.data.gold[first[0]] == truth[first[0]] and first[1] not in found.data.gold


def test_refusals() -> None:
    data, _ = crowd(3, 0, 0.1, seed=0, items=30)
    with pytest.raises(DataError, match="'nobody'"):
        crowdppl.fit("one_coin", data, inference="vb", trusted=["nobody"])
    with pytest.raises(MethodError, match="no prior that could hold what trusted="):
        crowdppl.fit("glad", data, inference="vb", trusted=["trusted"])
    with pytest.raises(MethodError, match="leave one out"):
        crowdppl.fit("one_coin", data, inference="vb", trusted=["trusted"], calibrate=True)
    with pytest.raises(MethodError, match="leave out settings, start, trusted"):
        crowdppl.fit("auto", data, trusted=["trusted"])
    alone = Annotations.from_frame(data.frame().query("annotator == 'trusted'"), classes=range(3))
    with pytest.raises(DataError, match="nobody else"):
        crowdppl.fit("one_coin", alone, inference="vb", trusted=["trusted"])
    with pytest.raises(DataError, match="tell 1 truths"):
        crowdppl.fit("one_coin", keep(alone, np.arange(alone.n_labels) == 0), inference="vb", trusted="trusted")
