"""Classes in a tree: one coin for each of its levels."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import crowdppl
import crowdppl.primitives as cp
from crowdppl import Annotations
from crowdppl.errors import MethodError
from crowdppl.inference.coin_tables import CoinTables
from crowdppl.results.annotators import information

CLASSES = ["pine", "oak", "elm", "fir", "rose", "tulip", "moss"]
TREE = {
    "pine": "conifer",
    "fir": "conifer",
    "oak": "broadleaf",
    "elm": "broadleaf",
    "rose": "flower",
    "tulip": "flower",
    "conifer": "tree",
    "broadleaf": "tree",
}
PATHS = {
    "pine": ("conifer", "tree"),
    "fir": ("conifer", "tree"),
    "oak": ("broadleaf", "tree"),
    "elm": ("broadleaf", "tree"),
    "rose": ("flower", "flower"),
    "tulip": ("flower", "flower"),
    "moss": ("moss", "moss"),
}
pytestmark = pytest.mark.filterwarnings("ignore")


def crowd(*, abstentions: bool = False, n_items: int = 60) -> Annotations:
    """Seven plants, four labels an item, wrong ones near in half of the cases."""
    rng = np.random.default_rng(0)
    truth, item = rng.integers(0, 7, n_items), np.repeat(np.arange(n_items), 4)
    annotator = np.tile(np.arange(8), n_items // 2)
    near = {0: 3, 3: 0, 1: 2, 2: 1, 4: 5, 5: 4, 6: 6}
    label = np.where(rng.random(len(item)) < 0.5, [near[t] for t in truth[item]], rng.integers(0, 7, len(item)))
    label = np.where(rng.random(len(item)) < 0.3 + 0.08 * annotator, truth[item], label)
    names = np.array(CLASSES, object)[label]
    known: dict[str, Any] = {"abstentions": ["?"]} if abstentions else {}
    if abstentions:
        names[::11] = "?"
    return Annotations.from_arrays(item, annotator, names, classes=CLASSES, gold={0: "moss", 3: "oak"}, **known)


def by_hand(coins: np.ndarray) -> np.ndarray:
    """The table (7, 7) of one annotator with coins (3,), by walking down the tree."""

    def below(node: str) -> list[str]:
        if node == "root":
            return ["tree", "flower", "moss"]
        return [child for child, parent in TREE.items() if parent == node]

    def reach(node: str, leaf: str, path: tuple[str, ...]) -> float:
        """Probability of a leaf from a node on the path of the truth, whose nodes follow from the root down."""
        children = below(node)
        if not children:
            return float(node == leaf)
        level = {"root": 2, "tree": 1}.get(node, 0)
        total = 0.0
        for child in children:
            right = coins[level] if len(children) > 1 else 1.0
            if path and child == path[0]:
                total += right * reach(child, leaf, path[1:])
            elif path:
                total += (1 - right) / (len(children) - 1) * astray(child, leaf)
        return total

    def astray(node: str, leaf: str) -> float:
        children = below(node)
        return sum(astray(x, leaf) for x in children) / len(children) if children else float(node == leaf)

    def path(leaf: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys((PATHS[leaf][1], PATHS[leaf][0], leaf)))

    return np.array([[reach("root", leaf, path(truth)) for leaf in CLASSES] for truth in CLASSES])


def test_tables_are_those_of_a_walk_down_the_tree() -> None:
    coins = np.array([[0.8, 0.7, 0.9], [0.3, 0.95, 0.4]])
    log_coin = torch.from_numpy(np.stack([coins, 1 - coins], -1)).log()
    found = cp.tree_coins(crowd(), log_coin, cp.tree_levels(TREE, crowd())).table(7).exp()
    np.testing.assert_allclose(found.sum(-1), 1)
    np.testing.assert_allclose(found, [by_hand(x) for x in coins])


def test_em_gives_counts_and_posterior_of_the_tree() -> None:
    """At its end, em's coins are the expected shares of right branches, and truths follow from its tables."""
    data, settings = crowd(), {"taxonomy": TREE, "right": 2.0, "wrong": 2.0}
    found = crowdppl.fit("one_coin", data, inference="em", settings=settings, max_iterations=500, tolerance=1e-12)
    item, annotator, label = data.label_codes()
    ability, table = found.result.sites["ability"].mean, found.confusion().to_numpy()
    np.testing.assert_allclose(table, [by_hand(x) for x in ability[..., 0]])
    scores = np.zeros((data.n_items, 7))
    np.add.at(scores, item, np.log(table)[annotator, :, label])
    p = np.exp(scores - scores.max(1, keepdims=True))
    at = ~data.items.isin([0, 3])  # whose truths are known
    np.testing.assert_allclose(found.result.probabilities[at], (p / p.sum(1, keepdims=True))[at], atol=1e-8)
    counts = np.zeros((8, 7, 7))
    np.add.at(counts.transpose(0, 2, 1), (annotator, label), found.result.probabilities[item])
    taken = 1 + cp.tree_counts(torch.from_numpy(counts), cp.tree_levels(TREE, data)).numpy()
    np.testing.assert_allclose(ability, taken / taken.sum(-1, keepdims=True), atol=1e-4)


@pytest.mark.parametrize("inference", ["em", "vb"])
@pytest.mark.parametrize("tree", [{}, dict.fromkeys(CLASSES, "plant")])
def test_one_coin_is_a_tree_without_levels(tree: dict[str, str], inference: str) -> None:
    one = crowdppl.fit("one_coin", crowd(), inference=inference, seed=0)
    other = crowdppl.fit("one_coin", crowd(), inference=inference, seed=0, settings={"taxonomy": tree})
    np.testing.assert_allclose(other.probabilities(), one.probabilities(), atol=1e-6)


@pytest.mark.parametrize("abstentions", [False, True])
def test_coins_in_a_tree_are_the_tables_that_they_stand_for(
    abstentions: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fitted() -> crowdppl.Posterior:
        how: dict[str, Any] = {"inference": "vb", "seed": 0, "max_iterations": 6}
        settings = {"taxonomy": TREE, "prevalence": "learned"}
        return crowdppl.fit("one_coin", crowd(abstentions=abstentions), settings=settings, **how)

    one = fitted()
    monkeypatch.setattr("crowdppl.primitives.labels.LARGE_TABLE", 0)
    other = fitted()
    coins = other.result.confusions
    assert isinstance(coins, CoinTables) and coins.nodes is not None
    np.testing.assert_allclose(other.probabilities(), one.probabilities(), atol=1e-9)
    np.testing.assert_allclose(other.result.table, one.result.table, atol=1e-9)
    np.testing.assert_allclose(other.annotators(), one.annotators(), atol=1e-5)
    who, said = np.array([0, 3, 7]), np.array([1, 6, one.data.n_answers - 1])
    np.testing.assert_allclose(coins[who, :, said], one.result.table[who, :, said], atol=1e-9)
    np.testing.assert_allclose(coins.rows(), 1)
    share = np.random.default_rng(0).dirichlet(np.ones(7))
    if not abstentions:
        np.testing.assert_allclose(information(coins, share), information(np.asarray(coins), share))
    weight = np.full(8, 1 / 8)
    top, most, own = coins.most_frequent(weight)
    mean = np.einsum("a,akl->kl", weight, np.asarray(coins))[:, :7]
    np.testing.assert_array_equal(top, mean.argmax(1))
    np.testing.assert_allclose([most, own], [mean.max(1), mean.diagonal()])
    assert [str(x) for x in other.doubts()] == [str(x) for x in one.doubts()]
    other.save(tmp_path / "kept")
    again = crowdppl.load(tmp_path / "kept")
    np.testing.assert_array_equal(again.confusion(draws=True), other.confusion(draws=True))


def test_labels_are_drawn_from_the_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    design = crowdppl.random_design(30, 4, 3, classes=CLASSES, seed=0)
    drawn = [crowdppl.simulate(crowdppl.method("one_coin", taxonomy=TREE), design, seed=0).data.frame()]
    monkeypatch.setattr("crowdppl.primitives.labels.LARGE_TABLE", 0)
    drawn.append(crowdppl.simulate(crowdppl.method("one_coin", taxonomy=TREE), design, seed=0).data.frame())
    assert drawn[0].equals(drawn[1])


def test_a_thousand_classes_in_a_tree_cost_no_table_of_their_pairs() -> None:
    """Of 400 annotators it would have 3 GB; two near misses outweigh a label that is far off."""
    item, annotator = np.repeat(np.arange(200), 3), np.arange(600) % 400
    truth = np.arange(200) * 5 % 1000
    label = np.stack([truth, truth // 20 * 20 + (truth + 1) % 20, (truth + 500) % 1000], 1).ravel()
    data = Annotations.from_arrays(item, annotator, label, classes=range(1000))
    tree = {k: f"group {k // 20}" for k in range(1000)}
    settings = {"taxonomy": tree, "right": 4.0, "wrong": 2.0}
    found = crowdppl.fit("one_coin", data, inference="vb", seed=0, settings=settings, max_iterations=10)
    assert isinstance(found.result.confusions, CoinTables)
    np.testing.assert_array_equal(found.labels()["label"] // 20, truth // 20)


def test_history_counts_branches() -> None:
    counts = torch.tensor([[9.0, 0.0, 1.0], [1.0, 5.0, 2.0], [0.0, 3.0, 6.0]])
    np.testing.assert_array_equal(cp.tree_counts(counts, [[0, 1, 1]]), [[11, 5], [25, 2]])
    np.testing.assert_array_equal(cp.tree_counts(counts, [])[0], cp.coin_counts(counts))


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({"pin": "tree"}, "'pin', neither a class nor a parent"),
        ({"oak": "pine"}, "'pine' is a class and a parent"),
        ({"oak": "a", "a": "b", "b": "a"}, "'a' is above itself"),
        ([[0, 1]], "must map classes to parents"),
    ],
)
def test_trees_that_are_none_are_refused(tree: Any, words: str) -> None:
    with pytest.raises(MethodError, match=words):
        crowdppl.fit("one_coin", crowd(), inference="em", settings={"taxonomy": tree})
