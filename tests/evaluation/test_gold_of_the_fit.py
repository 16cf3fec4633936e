"""What may score a posterior: probabilities and truths that make sense, and truths that the fit did not use."""

import warnings

import pandas as pd
import pytest

import crowdppl
from crowdppl.errors import DataError, GoldLeakWarning
from crowdppl.evaluation.evaluate import evaluate
from crowdppl.simulation.crowd import Simulation


@pytest.fixture(scope="module")
def drawn() -> Simulation:
    return crowdppl.simulate_annotators([0, 1, 2] * 20, {"hammer": 4}, seed=0)


def test_truths_that_the_fit_was_told_are_warned_of(drawn: Simulation) -> None:
    told, rest = drawn.truth.iloc[:15], drawn.truth.iloc[15:]
    posterior = crowdppl.fit("one_coin", drawn.data, inference="em", gold=told)
    with pytest.warns(GoldLeakWarning, match="15 of the 60 truths"):
        evaluate(posterior, drawn.truth)
    with pytest.warns(GoldLeakWarning, match="15 of the 15 truths"):
        crowdppl.plot_reliability(posterior, told)
    plain = crowdppl.fit("one_coin", drawn.data, inference="em")
    with warnings.catch_warnings(action="error", category=GoldLeakWarning):
        evaluate(posterior, rest)
        evaluate(plain, drawn.truth)


def test_an_update_remembers_the_truths_that_the_fit_was_told(drawn: Simulation) -> None:
    told = drawn.truth.iloc[:15]
    posterior = crowdppl.fit("bayesian_dawid_skene", drawn.data, inference="vb", gold=told)
    rows = drawn.data.frame()
    first = rows.groupby("item").head(1)
    more = first[first["item"].isin(drawn.data.items[10:40])].assign(label=0)
    updated = posterior.update(more)
    pd.testing.assert_series_equal(updated.data.gold, told.loc[updated.data.gold.index], check_names=False)
    assert len(updated.data.gold) == 5
    with pytest.raises(DataError, match="5 items of gold="):
        updated.label_sets(0.5, gold=told.iloc[10:], method="conformal")
    right = updated.probabilities().idxmax(axis=1).loc[told.index[10:]]
    assert right.tolist() == told.iloc[10:].tolist()
    unseen = crowdppl.Annotations.from_frame(more, like=drawn.data, gold={drawn.data.items[10]: 2})
    said = posterior.update(unseen).data.gold
    assert said is not None and said[drawn.data.items[10]] == 2 and len(said) == 5
