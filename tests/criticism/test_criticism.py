"""Posterior predictive checks: statistics by hand, an exact level, power against what a model leaves out."""

from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from crowdppl.criticism import checks, design, statistics
from crowdppl.criticism.checks import Check, max_statistic_p_value, predictive_check
from crowdppl.data.annotations import Annotations
from crowdppl.errors import DataError, MethodError
from crowdppl.fitting import fit
from crowdppl.inference.predict.update import draw_labels
from tests.crowd import annotations, crowd, split

LABELS = [(0, 0, 0), (0, 1, 0), (1, 0, 1), (1, 1, 0), (1, 2, 1), (2, 0, 2), (3, 0, 0), (3, 1, 0), (3, 2, 2)]
LEVEL = 0.05


def simulated(kind: str, seed: int, n_items: int = 250, n_annotators: int = 12, each: int = 12) -> Annotations:
    """Two classes; "difficulty": an item's log-odds of a right label vary by 1.5; "copying": annotators 1, 2 and 3
    repeat the label of annotator 0 with probability .8; "own": neither."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(2, size=n_items)
    ability = rng.normal(1.3, 0.5, n_annotators)
    easy = rng.normal(0, 1.5, n_items) if kind == "difficulty" else np.zeros(n_items)
    right = rng.random((n_items, n_annotators)) < 1 / (1 + np.exp(-(ability + easy[:, None])))
    label = np.where(right, truth[:, None], 1 - truth[:, None])
    if kind == "copying":
        for copier in (1, 2, 3):
            copied = rng.random(n_items) < 0.8
            label[copied, copier] = label[copied, 0]
    seen = np.argsort(rng.random((n_items, n_annotators)), 1)[:, :each].ravel()
    item = np.repeat(np.arange(n_items), each)
    return Annotations.from_arrays(item, seen, label[item, seen], classes=[0, 1])


def check(kind: str, seed: int) -> Check:
    posterior = fit("dawid_skene", simulated(kind, seed), inference="em", seed=0)
    return predictive_check(posterior, draws=60, seed=seed)


def given(data: Annotations, answers: np.ndarray) -> Check:
    posterior = fit("one_coin", data, inference="em", seed=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "draw_labels", lambda *_: answers)
        return predictive_check(posterior, draws=len(answers))


def test_statistics_by_hand() -> None:
    data = annotations(LABELS, 3)
    observed = np.concatenate([block.answer.numpy() for block in data.blocks])
    found = given(data, np.repeat(observed[None], 20, 0)).table["observed"]
    # items 0, 1, 3 have several labels; item 0 alone is unanimous; equal pairs 1 + 1 + 1 of 1 + 3 + 3
    assert found["unanimous"] == pytest.approx(1 / 3)
    assert found["pair_agreement"] == pytest.approx(3 / 7)
    shares = np.array([[2, 1, 1], [3, 0, 0], [0, 1, 1]]) / np.array([[4], [3], [2]])
    of_all = np.array([5, 2, 2]) / 9
    assert found["class_shares"] == pytest.approx(([4, 3, 2] @ ((shares - of_all) ** 2).sum(1)) / 9)
    assert found["vote_spread"] == pytest.approx(0)  # one item of two labels, two of three with 2/3 each
    assert "pair_excess" not in found  # no two annotators share ten items


def test_vote_spread_is_taken_among_items_of_as_many_labels() -> None:
    labels = [(i, a, int(a < wrong)) for i, wrong in enumerate((0, 1, 0, 2)) for a in range(4)]
    labels += [(4, 0, 1), (4, 1, 1), (5, 0, 1), (5, 1, 0), (6, 0, 1)]
    data = annotations(labels, 2)
    observed = np.concatenate([block.answer.numpy() for block in data.blocks])
    found = given(data, np.repeat(observed[None], 20, 0))
    four = float(np.var([1, 0.75, 1, 0.5]))
    assert found.vote_spread["items"].to_dict() == {2: 2, 4: 4}
    np.testing.assert_allclose(found.vote_spread["observed"], [np.var([1, 0.5]), four])
    assert found.table.loc["vote_spread", "observed"] == pytest.approx((2 / 16 + 4 * four) / 6)


def test_pairs_against_a_loop() -> None:
    data = crowd(n_items=80, n_annotators=5, n_classes=3, labels_each=3, seed=1)
    posterior = fit("one_coin", data, inference="em", seed=0)
    found = predictive_check(posterior, draws=25, seed=3)
    (block,) = data.blocks
    item, annotator = block.item.numpy(), block.annotator.numpy()
    answers = np.concatenate([block.answer.numpy()[None], draw_labels(posterior, 25, 3, "posterior")])
    p = np.stack([(answers == k).mean(0) for k in range(3)])
    scores: dict[tuple[int, int], np.ndarray] = {}
    shared: dict[tuple[int, int], int] = {}
    for s, t in combinations(range(len(item)), 2):
        if item[s] != item[t] or annotator[s] == annotator[t]:
            continue
        pair = (min(annotator[s], annotator[t]), max(annotator[s], annotator[t]))
        shared[pair] = shared.get(pair, 0) + 1
        weight = [
            1 / np.sqrt(max(p[k, s], statistics.RAREST) * max(p[k, t], statistics.RAREST)) for k in answers[:, s]
        ]
        scores[pair] = scores.get(pair, np.zeros(26)) + np.where(answers[:, s] == answers[:, t], weight, 0)
    distance = np.stack([(x - x.mean()) / np.sqrt(x.var() + 1) for n, x in scores.items() if shared[n] >= 10])
    assert found.table.loc["pair_excess", "observed"] == pytest.approx(distance[:, 0].max(), rel=1e-5)
    assert found.table.loc["pair_misfit", "observed"] == pytest.approx((distance[:, 0] ** 2).mean(), rel=1e-5)
    np.testing.assert_allclose(found.replicates["pair_excess"], distance[:, 1:].max(0), rtol=1e-5)


def test_many_pairs_are_counted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    data = crowd(n_items=80, n_annotators=5, labels_each=3)
    whole = fit("one_coin", data, inference="em", seed=0)
    expected = predictive_check(whole, draws=20)
    monkeypatch.setattr(design, "PAIRS_AT_ONCE", 7)
    found = given(split(data, 3), draw_labels(whole, 20, 0, "posterior"))
    pd.testing.assert_frame_equal(found.table, expected.table)


def test_p_values_count_replicates() -> None:
    data = annotations([(i, a, 0) for i in range(6) for a in (0, 1)], 2)
    split_votes = np.tile([0, 1], 6)
    answers = np.repeat(split_votes[None], 20, 0)
    answers[0] = 0
    table = given(data, answers).table
    # one of twenty replicates is as unanimous as the data
    assert table.loc["unanimous", "p_value"] == pytest.approx(2 * 2 / 21)
    assert table.loc["class_shares", "p_value"] == 1  # small values do not count against a model


def test_the_level_is_exact_for_exchangeable_rows() -> None:
    rng = np.random.default_rng(0)
    mixed = rng.normal(size=(5, 5))
    p = np.array(
        [
            max_statistic_p_value(np.exp(rng.normal(size=(40, 5)) @ mixed / 3), np.zeros(5, bool))
            for _ in range(2000)
        ]
    )
    for level in (0.05, 0.1, 0.5):  # multiples of 1/40
        assert abs((p <= level + 1e-9).mean() - level) < 3.5 * np.sqrt(level * (1 - level) / 2000)


def test_only_large_values_count_of_upward_statistics() -> None:
    pooled = np.zeros((21, 2))
    pooled[1:, 0] = np.linspace(-1, 1, 20)
    pooled[0, 1] = -5
    assert max_statistic_p_value(pooled, np.array([False, False])) == pytest.approx(1 / 21)
    assert max_statistic_p_value(pooled, np.array([False, True])) == 1


def test_a_check_finds_difficulty_and_copying_and_passes_its_own_data() -> None:
    hard, copied = check("difficulty", 0), check("copying", 0)
    assert hard.p_value <= LEVEL
    assert hard.worst in ("unanimous", "vote_spread")
    assert copied.p_value <= LEVEL
    assert copied.worst in ("pair_excess", "pair_misfit")
    assert check("own", 0).p_value > LEVEL


@pytest.mark.slow
def test_power_and_level_over_simulations() -> None:
    rejected = {
        kind: np.mean([check(kind, 100 + seed).p_value <= LEVEL for seed in range(n)])
        for kind, n in {"difficulty": 5, "copying": 5, "own": 12}.items()
    }
    assert rejected["difficulty"] == rejected["copying"] == 1  # a power of .5 passes with chance .03 each
    assert rejected["own"] <= 0.2  # of 12 checks at level 0.05, three and more are rejected with chance 0.02


def test_other_engines_replicate_their_draws() -> None:
    data = crowd(n_items=40, n_annotators=5)
    for inference, options in (("vb", {}), ("gibbs", {"chains": 1, "draws": 30, "warmup": 30})):
        posterior = fit("bayesian_dawid_skene", data, inference=inference, seed=0, **options)
        found = predictive_check(posterior, draws=30)
        assert len(found.replicates) == 30 and found.table.notna().all(axis=None)
        pd.testing.assert_frame_equal(found.replicates, predictive_check(posterior, draws=30).replicates)


def test_refusals_name_the_remedy() -> None:
    posterior = fit("majority_vote", crowd(n_items=10), inference="em")
    with pytest.raises(MethodError, match="draws=5"):
        predictive_check(posterior, draws=5)
    lonely = fit("majority_vote", annotations([(0, 0, 0), (1, 1, 1)], 2), inference="em")
    with pytest.raises(DataError, match="two labels"):
        predictive_check(lonely)


def test_the_picture_places_the_data_among_replicates() -> None:
    found = predictive_check(fit("one_coin", crowd(labels_each=5), inference="em"), draws=20)
    axes = found.plot()
    diamonds = next(line for line in axes.lines if line.get_marker() == "D")
    table = found.table.iloc[::-1]
    np.testing.assert_allclose(diamonds.get_xdata(), (table["observed"] - table["mean"]) / table["sd"])
    assert [text.get_text() for text in axes.get_yticklabels()] == list(table.index)
    _, own = plt.subplots()
    assert found.plot(ax=own) is own


@pytest.mark.parametrize(
    ("observed", "worst"),
    [((0.5, 4.0), "pair_agreement"), ((0.4, 4.0), "unanimous")],
    ids=["as all replicates", "unlike replicates that are all equal"],
)
def test_the_worst_statistic_is_the_max_statistic_p_value(observed: tuple[float, float], worst: str) -> None:
    replicates = pd.DataFrame({"unanimous": 0.5, "pair_agreement": np.linspace(-1, 1, 21)})
    table = pd.DataFrame({"observed": observed, "mean": replicates.mean(), "sd": replicates.std()})
    assert Check("one_coin", table, 0.05, replicates, pd.DataFrame()).worst == worst
