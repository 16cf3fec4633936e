"""Simulated annotators err as their kinds say, each from random numbers of its own."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chisquare
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from crowdppl.errors import DataError, MethodError, OneClassWarning, SparseDataWarning
from crowdppl.simulation.annotators import BY_NAME, annotator_kind, annotator_kind_table, draw_kinds
from crowdppl.simulation.crowd import SimulatedCrowd, simulate_annotators

CLASSES = ["ant", "bee", "cat", "dog"]


def matrix(name: str, classes: Any = 4, seed: int = 0, **settings: Any) -> np.ndarray:
    table: np.ndarray = annotator_kind(name, **settings).confusion(classes, np.random.default_rng(seed))
    return table


def items(n: int, seed: int = 0, p: tuple[float, ...] = (0.4, 0.3, 0.2, 0.1)) -> pd.Series:
    rng = np.random.default_rng(seed)
    return pd.Series(rng.choice(CLASSES[: len(p)], n, p=p), index=[f"i{x}" for x in rng.permutation(n)])


def blobs(n: int, seed: int = 0) -> tuple[pd.Series, pd.DataFrame]:
    """Truths, and two features with class means at 0, 1, 5 and 7 on the first: ant by bee, cat by dog."""
    truth = items(n, seed, (0.25, 0.25, 0.25, 0.25))
    rng = np.random.default_rng(seed + 1)
    first = truth.map(dict(zip(CLASSES, (0.0, 1.0, 5.0, 7.0), strict=True))) + rng.normal(size=n)
    return truth, pd.DataFrame({"x": first, "y": rng.normal(size=n)}, index=truth.index)


def wide(crowd: SimulatedCrowd) -> pd.DataFrame:
    """Labels, a row an item in the order of the truth and a column an annotator."""
    table = crowd.data.frame().pivot(index="item", columns="annotator", values="label")
    return table.reindex(index=crowd.truth.index, columns=crowd.data.annotators)


def counts(crowd: SimulatedCrowd) -> np.ndarray:
    """How often each annotator gave each label to items of each class, (A, K, K)."""
    rows, book = crowd.data.frame(), crowd.data.classes
    table = np.zeros(crowd.confusion.shape)
    at = (
        crowd.data.annotators.get_indexer(rows["annotator"]),
        book.get_indexer(crowd.truth.loc[rows["item"]]),
        book.get_indexer(rows["label"]),
    )
    np.add.at(table, at, 1)
    return table


def p_value(found: np.ndarray, stated: np.ndarray) -> float:
    """Chi-square over the rows of one annotator's confusion; 0 for a label that cannot be."""
    expected = stated * found.sum(1, keepdims=True)
    if (found[stated == 0] > 0).any():
        return 0.0
    kept = stated > 0
    if kept.sum() == len(found):
        return 1.0  # every label is certain, and is what was stated
    return float(chisquare(found[kept], expected[kept], ddof=len(found) - 1).pvalue)


def test_confusions_by_hand() -> None:
    even = np.full((4, 4), 0.1)
    assert matrix("hammer", p=0.7) == pytest.approx(even + 0.6 * np.eye(4))
    assert matrix("expert", p=0.7) == pytest.approx(even + 0.6 * np.eye(4))
    assert matrix("adversary", p=0.1) == pytest.approx(0.3 - 0.2 * np.eye(4))
    assert matrix("hammer_spammer", p=0.2) == pytest.approx(0.2 + 0.2 * np.eye(4))
    assert matrix("spammer") == pytest.approx(np.full((4, 4), 0.25))
    assert matrix("neighbour_confuser", p=0.6).tolist() == [
        [0.6, 0.4, 0, 0],
        [0.2, 0.6, 0.2, 0],
        [0, 0.2, 0.6, 0.2],
        [0, 0, 0.4, 0.6],
    ]
    pairs = (("ant", "bee"), ("cat", "ant"))
    assert matrix("similar_class_confuser", CLASSES, p=0.6, pairs=pairs).tolist() == [
        [0.6, 0.2, 0.2, 0],
        [0.4, 0.6, 0, 0],
        [0.4, 0, 0.6, 0],
        [0, 0, 0, 1],
    ]


def test_two_classes_flipped_are_malice_and_spam_is_between() -> None:
    flipped = [[0.25, 0.75], [0.75, 0.25]]
    for name in ("pairwise_flipper", "malicious", "adversary", "neighbour_confuser"):
        assert matrix(name, 2, p=0.25).tolist() == flipped
    assert matrix("hammer_spammer", 2, p=0.0).tolist() == matrix("hammer", 2, p=0.5).tolist()


def test_what_differs_between_annotators_is_drawn_evenly() -> None:
    flips, plans, favourites, known = np.zeros((4, 4)), np.zeros((4, 4)), np.zeros(4), np.zeros(4)
    for seed in range(600):
        flipper = matrix("pairwise_flipper", p=0.6, seed=seed)
        assert sorted(flipper[1].tolist()) == [0, 0, pytest.approx(0.4), 0.6]
        flips += flipper > 0
        plan = matrix("malicious", p=0, seed=seed)
        assert plan.sum(0).tolist() == [1] * 4
        assert plan.diagonal().tolist() == [0] * 4
        plans += plan
        spam = matrix("spammer", one_class=True, seed=seed)
        assert (spam == spam[0]).all()
        favourites += spam[0]
        half = matrix("class_wise_spammer", p=0.7, share=0.5, seed=seed)
        spammed = (half == 0.25).all(1)
        assert spammed.sum() == 2
        assert half[~spammed] == pytest.approx((0.1 + 0.6 * np.eye(4))[~spammed])
        known += ~spammed
    others = ~np.eye(4, dtype=bool)
    for found in (flips[others], plans[others], favourites, known):
        assert chisquare(found).pvalue > 1e-3


@pytest.fixture(scope="module")
def crowd() -> SimulatedCrowd:
    """One or several of every kind but machines, each labelling everything."""
    kinds = [
        *(name for name in BY_NAME if name not in ("machine", "similar_class_confuser")),
        annotator_kind("similar_class_confuser", p=0.8, pairs=(("ant", "dog"),)),
        annotator_kind("hammer_spammer", p=0.2),
        annotator_kind("copying_group", copiers=3, p=0.6, leader=annotator_kind("malicious", p=0.3)),
        annotator_kind("colluders", size=2, p=0.5, own=annotator_kind("class_wise_spammer")),
    ]
    return simulate_annotators(items(8000), kinds, seed=3)


def test_labels_follow_the_stated_confusions(crowd: SimulatedCrowd) -> None:
    found = counts(crowd)
    assert found.sum() == 8000 * crowd.data.n_annotators
    values = [p_value(*pair) for pair in zip(found, crowd.confusion, strict=True)]
    assert min(values) > 0.05 / len(values) / 10
    assert np.mean(np.array(values) < 0.5) < 0.75
    given = found.sum(2, keepdims=True)
    error = np.sqrt(crowd.confusion * (1 - crowd.confusion) / given)
    assert (np.abs(found / given - crowd.confusion) <= 4.5 * error + 1e-12).all()
    # The same labels against the confusion of the annotator before, where that is another one.
    for labels, stated, before in zip(found[1:], crowd.confusion[1:], crowd.confusion[:-1], strict=True):
        assert np.abs(stated - before).max() < 0.01 or p_value(labels, before) < 1e-6


def test_annotators_are_named_after_their_kinds(crowd: SimulatedCrowd) -> None:
    table = crowd.annotators
    assert table.index.equals(crowd.data.annotators)
    assert table.kind["hammer_spammer-2"] == "hammer_spammer"
    assert table.settings["hammer_spammer-2"] == "p=0.2"
    assert table.index[table.group == "copying_group-2"].tolist() == [f"copying_group-2.{n}" for n in (1, 2, 3, 4)]
    assert table.group[["hammer-1", "malicious-1"]].isna().all()
    right = wide(crowd).eq(crowd.truth, axis=0).mean()
    assert right.to_numpy() == pytest.approx(table.accuracy.to_numpy(), abs=4.5 * 0.5 / np.sqrt(8000))
    assert crowd.truth.index.equals(crowd.data.items)
    assert crowd.truth.to_dict() == items(8000).to_dict()
    assert len(crowd.test) == 0
    assert repr(crowd).startswith(
        "SimulatedCrowd(Annotations(8000 items, 23 annotators, 4 classes, 184000 labels) by "
    )
    assert "1 malicious, 7 copying_group" in repr(crowd)


def agreement(one: pd.Series, other: pd.Series) -> float:
    return float((one == other).mean())


def independent(one: np.ndarray, other: np.ndarray, truth: pd.Series) -> float:
    """How often two agree who err apart, with these confusions."""
    share = truth.value_counts(normalize=True).reindex(CLASSES).to_numpy()
    return float(share @ (one * other).sum(1))


def test_copiers_agree_with_their_leader(crowd: SimulatedCrowd) -> None:
    labels = wide(crowd)
    at = dict(zip(crowd.data.annotators, crowd.confusion, strict=True))
    leader, own = at["copying_group-2.1"], 0.25 / 3 + (0.75 - 0.25 / 3) * np.eye(4)
    expected = 0.6 + 0.4 * independent(leader, own, crowd.truth)
    for copier in ("copying_group-2.2", "copying_group-2.3"):
        assert at[copier] == pytest.approx(0.6 * leader + 0.4 * own)
        found = agreement(labels["copying_group-2.1"], labels[copier])
        assert found == pytest.approx(expected, abs=4.5 * np.sqrt(expected * (1 - expected) / 8000))
        assert expected - independent(leader, at[copier], crowd.truth) > 0.1
    # Copiers decide each alone: given the leader, they agree no more than two coins say.
    both = agreement(labels["copying_group-2.2"], labels["copying_group-2.3"])
    alone = 0.36 + 2 * 0.24 * independent(leader, own, crowd.truth) + 0.16 * independent(own, own, crowd.truth)
    assert both == pytest.approx(alone, abs=4.5 * np.sqrt(alone * (1 - alone) / 8000))
    sound = agreement(labels["hammer-1"], labels["hammer_spammer-1"])
    assert sound == pytest.approx(independent(at["hammer-1"], at["hammer_spammer-1"], crowd.truth), abs=0.025)


def test_colluders_agree_on_one_wrong_label(crowd: SimulatedCrowd) -> None:
    labels = wide(crowd)
    group = [f"colluders-1.{n}" for n in (1, 2, 3)]
    wrong = labels[group].ne(crowd.truth, axis=0).all(axis=1)
    same = wrong & labels[group].nunique(axis=1).eq(1)
    expected = 0.3 + 0.7 * 3 * (0.25 / 3) ** 3
    assert same.mean() == pytest.approx(expected, abs=4.5 * np.sqrt(expected * (1 - expected) / 8000))
    spread = labels.loc[same & crowd.truth.eq("ant"), group[0]].value_counts().reindex(CLASSES[1:])
    assert chisquare(spread).pvalue > 1e-3
    mixed = crowd.confusion[crowd.data.annotators.get_indexer(group)[0]]
    stated = independent(mixed, mixed, crowd.truth)
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert agreement(labels[group[one]], labels[group[other]]) > stated + 0.15


def test_similar_classes_are_found_in_the_features() -> None:
    truth, features = blobs(2000)
    crowd = simulate_annotators(truth, {"similar_class_confuser": 2}, features=features)
    pairs = np.array([[0.7, 0.3, 0, 0], [0.3, 0.7, 0, 0], [0, 0, 0.7, 0.3], [0, 0, 0.3, 0.7]])
    assert crowd.confusion == pytest.approx(np.stack([pairs, pairs]))
    pd.testing.assert_frame_equal(crowd.data.features, features.loc[crowd.data.items], check_names=False)
    flat = simulate_annotators(truth, ["similar_class_confuser"], features=features.to_numpy())
    assert flat.confusion[0] == pytest.approx(pairs)
    assert wide(flat)["similar_class_confuser-1"].equals(wide(crowd)["similar_class_confuser-1"])


def test_machines_label_what_they_were_not_trained_on() -> None:
    truth, features = blobs(1000)
    machine = annotator_kind("machine", classifier="nearest_neighbour", trained_on=0.2)
    crowd = simulate_annotators(truth, [machine, "machine"], features=features, test=truth.index[:100])
    labels = wide(crowd)
    assert set(crowd.test) == set(truth.index[:100])
    assert labels.loc[crowd.test].isna().all().all()
    for name, learned in (("machine-1", 180), ("machine-2", 90)):
        seen = labels.index[labels[name].isna()].difference(crowd.test)
        assert len(seen) == learned
    # The items that the first one did not label are those that it learned from, so that it can be built again.
    seen = labels.index[labels["machine-1"].isna()].difference(crowd.test)
    rest = labels.index[labels["machine-1"].notna()]
    scale = StandardScaler().fit(features.loc[seen])
    again = KNeighborsClassifier(1).fit(scale.transform(features.loc[seen]), crowd.truth[seen])
    assert (again.predict(scale.transform(features.loc[rest])) == labels.loc[rest, "machine-1"]).all()
    found = counts(crowd)
    assert crowd.confusion == pytest.approx(found / found.sum(2, keepdims=True))
    assert (crowd.annotators.accuracy > 0.5).all()


def test_machines_err_together_on_hard_items() -> None:
    truth, features = blobs(3000)
    crowd = simulate_annotators(truth, {"machine": 2, "hammer": 2}, features=features)
    labels = wide(crowd).dropna()
    right = labels.eq(crowd.truth[labels.index], axis=0)
    for one, other, together in (("machine-1", "machine-2", True), ("hammer-1", "hammer-2", False)):
        correlation = np.corrcoef(right[one], right[other])[0, 1]
        assert (correlation > 0.3) if together else (abs(correlation) < 0.1)


def test_density_is_the_share_of_pairs() -> None:
    truth, features = blobs(4000)
    kinds = {"hammer": 2, "machine": 2}
    crowd = simulate_annotators(truth, kinds, density={"machine": 0.1}, features=features)
    asked = wide(crowd).notna().mean()
    assert asked[["hammer-1", "hammer-2"]].tolist() == [1, 1]
    assert asked[["machine-1", "machine-2"]].tolist() == pytest.approx([0.09, 0.09], abs=0.02)
    thin = simulate_annotators(truth, ["hammer"] * 5, density=0.25)
    assert wide(thin).notna().mean().to_numpy() == pytest.approx(np.full(5, 0.25), abs=4.5 * 0.0069)
    both = wide(thin).notna().all(axis=1).mean()
    assert both < 0.01  # each pair alone


def test_each_item_gets_so_many_labels() -> None:
    truth = items(2000)
    crowd = simulate_annotators(truth, {"hammer": 6, "spammer": 2}, labels_per_item=3, test=truth.index[5:10])
    given = wide(crowd).notna()
    assert set(crowd.test) == set(truth.index[5:10])
    assert given.loc[crowd.test].sum().sum() == 0
    assert (given.drop(crowd.test).sum(axis=1) == 3).all()
    share = given.drop(crowd.test).mean().to_numpy()
    assert share == pytest.approx(np.full(8, 3 / 8), abs=4.5 * np.sqrt(15 / 64 / 1995))
    pair = given[["hammer-1", "spammer-2"]].all(axis=1).mean()
    assert pair == pytest.approx(3 / 8 * 2 / 7, abs=0.03)


@pytest.mark.parametrize("design", [{}, {"density": 0.4}, {"labels_per_item": 3}], ids=str)
def test_a_newcomer_at_the_end_changes_nobodys_labels(design: dict[str, Any]) -> None:
    truth, features = blobs(600)
    kinds = ["hammer", "copying_group", "pairwise_flipper", "machine", "colluders", "spammer"]
    few = simulate_annotators(truth, kinds, features=features, seed=5, **design)
    many = simulate_annotators(truth, [*kinds, "malicious", "spammer"], features=features, seed=5, **design)
    mine = few.data.annotators
    assert many.data.annotators[: len(mine)].equals(mine)
    assert np.array_equal(many.confusion[: len(mine)], few.confusion)
    before, after = wide(few), wide(many)[mine]
    if "labels_per_item" in design:
        assert (after.isna() | (after == before)).all().all()
        gone = (before.notna() & after.isna()).sum(axis=1)
        assert gone.equals(wide(many)[["malicious-1", "spammer-2"]].notna().sum(axis=1))
        assert gone.max() == 2
    else:
        pd.testing.assert_frame_equal(after, before)


def test_fewer_labels_are_a_part_of_more() -> None:
    truth = items(500)
    everything = wide(simulate_annotators(truth, {"hammer": 6}, seed=1))
    for design in ("labels_per_item", "density"):
        sizes = (2, 4) if design == "labels_per_item" else (0.2, 0.7)
        small, large = (wide(simulate_annotators(truth, {"hammer": 6}, seed=1, **{design: x})) for x in sizes)
        assert (large.isna() | (large == everything)).all().all()
        assert (small.isna() | (small == large)).all().all()
        assert small.notna().sum().sum() < large.notna().sum().sum()


def test_the_seed_decides() -> None:
    def labels(seed: int) -> pd.DataFrame:
        return simulate_annotators(
            items(200), ["hammer", "spammer", "colluders"], labels_per_item=2, seed=seed
        ).data.frame()

    pd.testing.assert_frame_equal(labels(1), labels(1))
    assert not labels(1).equals(labels(2))
    crowd = simulate_annotators(items(2000), {"spammer": 2})
    one, other = (wide(crowd)[name] for name in crowd.data.annotators)
    assert agreement(one, other) == pytest.approx(0.25, abs=0.04)  # of one kind, and yet each alone


def test_truth_in_any_form_and_classes_that_nobody_has() -> None:
    plain = simulate_annotators([1, 0, 1, 0, 0], ["expert"])
    assert plain.data.items.tolist() == [0, 1, 2, 3, 4]
    mapped = simulate_annotators({4: 0, 3: 0, 2: 1, 1: 0, 0: 1}, ["expert"])
    assert mapped.truth.to_dict() == plain.truth.to_dict()
    assert np.array_equal(plain.confusion, mapped.confusion)
    with pytest.warns(SparseDataWarning):
        wider = simulate_annotators([2, 0, 2], ["hammer"] * 3, classes=[0, 1, 2, 3], kind="ordinal")
    assert (wider.data.n_classes, wider.data.kind, wider.confusion.shape) == (4, "ordinal", (3, 4, 4))


@dataclass(frozen=True)
class Optimist:
    """Takes everything for the last class."""

    sums: float = 1.0
    name: ClassVar[str] = "optimist"

    def confusion(self, classes: Any, rng: np.random.Generator) -> np.ndarray:
        k = len(classes)
        return np.tile(self.sums * np.eye(k)[-1], (k, 1))


def test_a_kind_of_ones_own() -> None:
    with pytest.warns(OneClassWarning):
        crowd = simulate_annotators(items(50), [Optimist(), "hammer", Optimist()])
    assert crowd.data.annotators.tolist() == ["optimist-1", "hammer-1", "optimist-2"]
    assert (wide(crowd)[["optimist-1", "optimist-2"]] == "dog").all().all()
    with pytest.raises(MethodError, match="optimist-1"):
        simulate_annotators(items(50), [Optimist(0.5)])


def test_kinds_are_drawn_by_their_shares() -> None:
    drawn = draw_kinds({"expert": 0.1, "hammer": 0.7, "spammer": 0.2}, 3000, seed=2)
    found = pd.Series([kind.name for kind in drawn]).value_counts()[["expert", "hammer", "spammer"]]
    assert chisquare(found, [300, 2100, 600]).pvalue > 1e-3
    assert drawn == draw_kinds({"expert": 0.1, "hammer": 0.7, "spammer": 0.2}, 3000, seed=2)
    for shares in ({"expert": 0.5}, {"expert": 1.5, "hammer": -0.5}, {}):
        with pytest.raises(MethodError, match="shares="):
            draw_kinds(shares, 3)


@pytest.mark.parametrize(
    ("name", "settings", "named"),
    [
        ("hamer", {}, "'hamer'.*'hammer'"),
        ("hammer", {"q": 0.5}, "'q'"),
        ("hammer", {"p": 1.2}, "hammer: p=1.2"),
        ("similar_class_confuser", {"pairs": (("a", "a"),)}, r"\('a', 'a'\)"),
        ("copying_group", {"copiers": 0}, "copying_group: copiers=0"),
        ("colluders", {"own": "hammer"}, "colluders: own='hammer'"),
        ("machine", {"classifier": "oracle"}, "machine: classifier='oracle'"),
        ("machine", {"trained_on": 1.0}, "machine: trained_on=1.0"),
    ],
)
def test_wrong_kinds_and_settings(name: str, settings: dict[str, Any], named: str) -> None:
    assert annotator_kind_table().index.tolist() == list(BY_NAME)
    with pytest.raises(MethodError, match=named):
        annotator_kind(name, **settings)


def test_wrong_classes_of_a_confusion() -> None:
    with pytest.raises(DataError, match="there are 1"):
        matrix("hammer", ["only"])
    with pytest.raises(MethodError, match="pairs="):
        matrix("similar_class_confuser")
    with pytest.raises(DataError, match="'eel'"):
        matrix("similar_class_confuser", CLASSES, pairs=(("ant", "eel"),))


@pytest.mark.parametrize("kinds", ["hammer", [], {"hammer": 0}, {"hammer": 1.5}, [3], [Optimist]])
def test_wrong_crowds(kinds: Any) -> None:
    with pytest.raises(MethodError, match="kind"):
        simulate_annotators(items(10), kinds)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"truth": []}, "empty"),
        ({"truth": [[0, 1], [1, 0]]}, "truth"),
        ({"truth": pd.Series(["a", "b"], index=[1, 1])}, "item 1 more than once"),
        ({"truth": ["a", None, "b"]}, "item 1 is missing"),
        ({"truth": [1, 1]}, "classes="),
        ({"classes": ["ant", "bee"]}, "'(cat|dog)'"),
        ({"test": ["x"]}, "'x'"),
        ({"test": items(40).index}, "test="),
        ({"labels_per_item": 4}, "labels_per_item=4"),
        ({"labels_per_item": 2, "density": 0.5}, "labels_per_item=2 and density=0.5"),
        ({"density": {"spammer": 0.5}}, "'spammer'"),
        ({"density": 1e-9}, "density"),
        ({"items": [1, 2]}, "items="),
        ({"features": np.ones((3, 2))}, r"\(3, 2\)"),
        ({"kinds": ["machine"]}, "features="),
        ({"kinds": ["similar_class_confuser"]}, "features="),
        ({"kinds": ["machine"], "features": np.ones((40, 1)), "test": items(40).index[:35]}, "0 of 5"),
    ],
)
def test_wrong_data(options: dict[str, Any], named: str) -> None:
    with pytest.raises(DataError, match=named):
        simulate_annotators(**{"truth": items(40), "kinds": ["hammer"] * 3, **options})
