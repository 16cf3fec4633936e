"""Doubts: each fires where it should, by hand and by simulation, and sound fits raise none."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import crowdppl
from crowdppl import collusion
from crowdppl import doubts as module
from crowdppl.annotations import Annotations
from crowdppl.correction import Correction
from crowdppl.doubts import Doubt, doubts
from crowdppl.errors import CrowdpplWarning, DoubtWarning
from crowdppl.inference import fit
from crowdppl.inference.results import FitResult, SiteResult
from crowdppl.posterior import Posterior
from tests.crowd import annotations

pytestmark = pytest.mark.filterwarnings("ignore::crowdppl.errors.CrowdpplWarning")

CONFUSION = ("annotator", "truth", "label")


def simulated(seed: int, n_items: int, n_annotators: int, each: int, n_classes: int, **bad: int) -> Annotations:
    """Accuracies from .7 to .9; the first annotators are "spam" (labels at random) or "copy" (nine in ten labels
    are those of the first)."""
    rng = np.random.default_rng(seed)
    shape = (n_items, n_annotators)
    truth = rng.integers(n_classes, size=(n_items, 1))
    right = rng.random(shape) < rng.uniform(0.7, 0.9, n_annotators)
    label = np.where(right, truth, (truth + rng.integers(1, n_classes, shape)) % n_classes)
    spam, copy = bad.get("spam", 0), bad.get("copy", 0)
    label[:, :spam] = rng.integers(n_classes, size=(n_items, spam))
    label[:, :copy] = np.where(rng.random((n_items, copy)) < 0.9, label[:, :1], label[:, :copy])
    seen = np.argsort(rng.random(shape), 1)[:, :each].ravel()
    item = np.repeat(np.arange(n_items), each)
    return annotations(list(zip(item.tolist(), seen.tolist(), label[item, seen].tolist(), strict=True)), n_classes)


def kinds(posterior: Posterior, thorough: bool = False) -> list[str]:
    return [doubt.kind for doubt in doubts(posterior, thorough)]


def handmade(given: list[int], n_classes: int = 2, **parts: Any) -> Posterior:
    """Annotators who gave so many labels each, on items of their own, and a result made by hand."""
    who = np.repeat(np.arange(len(given)), given)
    item = np.arange(len(who))
    data = annotations([(i, int(a), int(i % n_classes)) for i, a in zip(item, who, strict=True)], n_classes)
    table = np.tile(0.8 * np.eye(n_classes) + 0.2 / n_classes, (len(given), 1, 1))
    point: dict[str, Any] = {
        "sites": {},
        "probabilities": np.full((len(item), n_classes), 1 / n_classes),
        "probability_sd": None,
        "table": table,
        "table_draws": None,
        "prevalence": np.full(n_classes, 1 / n_classes),
        "prevalence_draws": None,
    }
    return Posterior(object(), "handmade", "em", data, FitResult(**(point | parts)))  # type: ignore[arg-type]


def site(dims: tuple[str, ...], *shape: int, family: str = "point") -> SiteResult:
    """A site whose values are even shares along the last dimension."""
    value = np.full(shape, 1 / shape[-1])
    arrays = {
        "point": {"value": value},
        "dirichlet": {"concentration": value},
        "onehot": {"probability": value},
        "draws": {"draws": np.broadcast_to(value, (2, 3, *shape))},
    }
    return SiteResult("site", dims, family, arrays[family])


def test_a_doubt_reads_as_its_text() -> None:
    assert str(Doubt("thin", "too few")) == "too few"
    assert issubclass(DoubtWarning, CrowdpplWarning)


@pytest.mark.parametrize(
    ("method", "engine", "n_classes"),
    [
        ("dawid_skene", "em", 3),
        ("bayesian_dawid_skene", "vb", 2),
        ("one_coin", "em", 4),
        ("majority_vote", "em", 3),
    ],
)
def test_sound_fits_raise_none(method: str, engine: str, n_classes: int) -> None:
    for seed in range(15):
        data = simulated(seed, 400, 15, 6, n_classes)
        assert doubts(fit(method, data, inference=engine)) == ()


@pytest.mark.slow
def test_data_of_the_method_itself_raise_doubts_only_where_they_are_true() -> None:
    """Annotators drawn from the prior: those called spammers know little, and copying is found by chance alone."""
    story, told, by_chance = crowdppl.method("bayesian_dawid_skene", mass=8.0, diagonal=0.75), [], 0
    for seed in range(300):
        design = crowdppl.random_design(300, 15, 6, 2 + seed % 3, seed=seed)
        drawn = crowdppl.simulate(story, design, seed=seed)
        posterior = fit(story, drawn.data, inference="vb")
        for doubt in doubts(posterior):
            if doubt.kind == "spammers":
                bad = [int(a) for a in re.findall(r"\d+", doubt.text.split("truth:")[1].split(".")[0])]
                told += module.information(drawn.parameters["confusion"][bad], posterior.result.prevalence).tolist()
            else:
                by_chance += 1
    assert by_chance <= 6
    assert len(told) > 20
    assert np.mean(np.array(told) > 0.1) < 0.1


def test_free_parameters_by_hand() -> None:
    a = 3
    sites = {
        "confusion": (site(CONFUSION, a, 4, 4), (12, 4)),
        "concentration": (site(CONFUSION, a, 4, 4, family="dirichlet"), (12, 4)),
        "drawn": (site(CONFUSION, a, 4, 4, family="draws"), (12, 4)),
        "coin": (site(("annotator", "2"), a, 2), (1, 1)),
        "ability": (site(("annotator",), a), (1, 1)),
        "member": (site(("annotator", "m"), a, 5, family="onehot"), (0, 0)),
        "prevalence": (site(("class",), 4), (0, 0)),
        "shared": (site(("truth", "label"), 4, 4), (0, 0)),
    }
    for name, (one, expected) in sites.items():
        assert module._parameters(handmade([5] * a, 4, sites={name: one})) == expected, name
    two = {"coin": sites["coin"][0], "confusion": sites["confusion"][0]}
    assert module._parameters(handmade([5] * a, 4, sites=two)) == (13, 5)
    scores = SiteResult("site", ("annotator", "class"), "normal", {"mean": np.ones((a, 4))})
    assert module._parameters(handmade([5] * a, 4, sites={"scores": scores})) == (4, 4)


@pytest.mark.parametrize(("n_classes", "need"), [(2, 16), (3, 24), (5, 40), (6, 60)])
def test_thin_by_hand(n_classes: int, need: int) -> None:
    """2 labels a free parameter, 8 a row; a quarter of all labels."""

    def found(given: list[int]) -> list[str]:
        sites = {"confusion": site(CONFUSION, len(given), n_classes, n_classes)}
        return kinds(handmade(given, n_classes, sites=sites))

    assert found([need - 1] * 4) == ["thin"]
    assert found([need] * 4) == []
    assert found([need - 1] * 2 + [3 * (need - 1)] * 2) == []  # exactly a quarter
    assert found([need - 1] * 2 + [3 * (need - 1), 2 * need]) == ["thin"]


def test_thin_gives_its_figures() -> None:
    given = [3, 5, 90, 4]
    posterior = handmade(given, 5, sites={"confusion": site(CONFUSION, 4, 5, 5)})
    assert doubts(posterior) == ()
    (doubt,) = doubts(handmade([3, 5, 9, 4], 5, sites={"confusion": site(CONFUSION, 4, 5, 5)}))
    assert doubt.text.startswith("4 of 4 annotators, with 100% of all labels, gave fewer than 40 labels (median 4)")
    assert "handmade has 20 free parameters for each" in doubt.text


def test_narrow_posteriors_are_spared() -> None:
    rng = np.random.default_rng(0)
    for worth, expected in ((8, ["thin"]), (20, [])):  # 12 labels a row are asked of two classes
        draws = rng.dirichlet([0.8 * worth, 0.2 * worth], (200, 6, 2))
        draws[:, :, 1] = draws[:, :, 1, ::-1]
        np.testing.assert_allclose(module._narrowness(draws), worth, rtol=0.35)
        sites = {"confusion": site(CONFUSION, 6, 2, 2)}
        assert kinds(handmade([5] * 6, 2, sites=sites, table_draws=draws.astype(np.float32))) == expected


def test_thin_tells_methods_apart() -> None:
    data = simulated(0, 120, 20, 3, 4)  # 18 labels an annotator
    assert kinds(fit("dawid_skene", data, inference="em")) == ["thin"]
    assert kinds(fit("bayesian_dawid_skene", data, inference="vb")) == ["thin"]
    assert kinds(fit("one_coin", data, inference="em")) == []
    assert kinds(fit("majority_vote", data, inference="em")) == []


def test_diagonal_by_hand() -> None:
    """Two annotators: the one with most labels decides, and few labels decide nothing."""
    good, bad = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([[0.98, 0.02], [0.75, 0.25]])
    table = np.stack([good, bad])
    assert kinds(handmade([300, 100], table=table)) == []
    (doubt,) = doubts(handmade([100, 300], table=table))
    assert doubt.kind == "diagonal"
    assert "1 of 2 classes is another: 1 is called 0 (0.61, and 0.39 right)" in doubt.text
    # .6125 - .3875 is twice the root of 1 / n at 79 labels of the class, half of all
    assert kinds(handmade([39, 117], table=table)) == []
    assert kinds(handmade([41, 123], table=table)) == ["diagonal"]


def test_a_crowd_that_gold_contradicts_is_not_diagonal() -> None:
    rng = np.random.default_rng(3)
    truth = rng.integers(3, size=200)
    said = np.where((truth == 2) & (rng.random((8, 200)) < 0.8), 1, truth)
    labels = [(i, a, int(said[a, i])) for i in range(200) for a in range(8) if (i + a) % 2]
    data = annotations(labels, 3, gold=dict(enumerate(truth[:100].tolist())))
    doubt = doubts(fit("bayesian_dawid_skene", data, inference="vb"))[0]
    assert doubt.kind == "diagonal"
    assert "the most frequent answer to 1 of 3 classes is another: 2 is called 1 (0." in doubt.text


def test_spammers_are_named_most_labels_first() -> None:
    data = simulated(1, 600, 20, 8, 2, spam=7)
    (doubt,) = doubts(fit("dawid_skene", data, inference="em"))
    assert doubt.kind == "spammers"
    given = data.frame()["annotator"].value_counts()
    first = sorted(range(7), key=lambda a: (-given[a], a))[:5]
    assert doubt.text.startswith("7 of 20 annotators, with 3")
    assert f": {', '.join(map(str, first))} and 2 more. " in doubt.text


def test_spammers_need_labels_enough() -> None:
    """Nothing told at all: 2 / sqrt(2 n log 2) falls below sqrt(.15) from 20 labels on."""
    table = np.full((3, 2, 2), 0.5)
    good = np.array([[0.9, 0.1], [0.1, 0.9]])
    for given, expected in (([19, 200, 400], "1 of 3"), ([20, 200, 400], "2 of 3")):
        table[2] = good
        (doubt,) = doubts(handmade(given, table=table))
        assert doubt.text.startswith(expected)
    # accuracy .62 tells .042 bits: sqrt(.042) + 2 / sqrt(2 n log 2) < sqrt(.15) from 87 labels on
    weak = np.array([[0.62, 0.38], [0.38, 0.62]])
    for n, expected in ((86, []), (88, ["spammers"])):
        assert kinds(handmade([n, 400], table=np.stack([weak, good]))) == expected


def test_good_annotators_of_rare_classes_are_no_spammers() -> None:
    table = np.tile([[0.95, 0.05], [0.2, 0.8]], (2, 1, 1))
    share = np.array([0.99, 0.01])
    assert (module.information(table, share) < 0.05).all()
    assert kinds(handmade([500, 500], table=table, prevalence=share)) == []


def test_permuted_chains_are_reported_as_the_sampler_found_them() -> None:
    def found(*chains: list[int]) -> tuple[Doubt, ...]:
        return doubts(handmade([50, 50], 3, diagnostics={"permutations": [list(c) for c in chains]}))

    assert found() == found([0, 1, 2], [0, 1, 2]) == ()
    assert found([1, 0, 2], [1, 0, 2]) == ()  # all alike: the mean confusion shows it
    (doubt,) = found([0, 1, 2], [0, 2, 1], [0, 1, 2], [1, 2, 0])
    assert doubt.kind == "permuted"
    assert "2 of 4 chains call the classes otherwise than the votes do (chain 1: 1 for 2, 2 for 1)" in doubt.text


def test_copiers_and_groups_are_told_apart() -> None:
    pair = simulated(0, 700, 16, 8, 3, copy=2)
    (doubt,) = doubts(fit("dawid_skene", pair, inference="em"))
    assert doubt.kind == "copying"
    assert doubt.text.startswith("annotators 0, 1 agree in ")
    agreed, shared, expected = map(int, re.findall(r"\d+", doubt.text)[2:5])
    rows = pair.frame().pivot(index="item", columns="annotator", values="label")
    both = rows[[0, 1]].dropna()
    assert (agreed, shared) == (int((both[0] == both[1]).sum()), len(both))
    assert expected < agreed
    (doubt,) = doubts(fit("dawid_skene", simulated(0, 700, 24, 8, 3, copy=4), inference="em"))
    assert doubt.kind == "colluding"
    n, *members = map(int, re.findall(r"\d+", doubt.text.split(".")[0]))
    assert doubt.text.startswith(f"{n} annotators agree among themselves more than the fit expects: ")
    assert n == len(members) >= 3
    assert set(members) <= {0, 1, 2, 3}


def test_large_data_are_searched_for_copiers_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    posterior = fit("dawid_skene", simulated(0, 250, 12, 8, 3, copy=2), inference="em")
    monkeypatch.setattr(module, "_votes", lambda posterior: ())
    for quick, expected in ((250 * 28, ["copying"]), (250 * 28 - 1, [])):
        monkeypatch.setattr(module, "QUICK", quick)
        assert kinds(posterior) == expected
        assert kinds(posterior, thorough=True) == ["copying"]


def test_items_that_are_hard_for_all_are_no_collusion() -> None:
    """Three annotators guess where an item is hard, so that all pairs agree more on easy ones than is expected."""
    rng = np.random.default_rng(0)
    truth, hard = rng.integers(3, size=(5000, 1)), rng.random((5000, 1)) < 0.3
    said = np.where(hard | (rng.random((5000, 3)) < 0.02), rng.integers(3, size=(5000, 3)), truth)
    labels = [(i, a, int(said[i, a])) for i in range(5000) for a in range(3)]
    posterior = fit("one_coin", annotations(labels, 3), inference="em")
    assert (collusion.p_values(collusion.excess_of(posterior)) < 0.01).mean() > 0.5
    assert kinds(posterior) == []


def test_what_is_passed_over_as_inconspicuous_could_not_have_been_flagged() -> None:
    passed = 0
    for shared in (10, 40, 300):
        agreed = np.arange(shared + 1)
        for p in (0.1, 0.5, 0.93):
            exact = binom.sf(agreed - 1, shared, p)
            for hits, tail in zip(agreed, exact, strict=True):
                n = np.array([shared])
                one = collusion.Excess(n * 0, n * 0 + 1, n, np.array([hits]), n * p, n * p * (1 - p))
                looked = module._conspicuous(one)
                assert looked or tail > module.LEVEL
                passed += not looked
    assert passed > 300  # it passes over most
    empty = np.empty(0)
    assert not module._conspicuous(collusion.Excess(*[empty.astype(int)] * 3, *[empty] * 3))


def test_a_method_that_predicts_worse_than_votes() -> None:
    """Of corrected probabilities, the method's own are meant."""
    data = simulated(0, 60, 12, 3, 4)
    own = fit("dawid_skene", data, inference="em", tolerance=1e-4)
    raw = own.result.probabilities
    result = replace(own.result, probabilities=np.full_like(raw, 0.25))
    correction = Correction(raw, {"dawid_skene": 1.0}, {"dawid_skene": 0.0}, {})
    for posterior in (own, replace(own, result=result, correction=correction)):
        assert "votes" not in kinds(posterior)
        votes = doubts(posterior, thorough=True)[-1]
        assert votes.kind == "votes"
    mean, simple = (
        crowdppl.heldout_score(p).per_label for p in (own, fit("majority_vote", data, inference="em", seed=0))
    )
    assert f"{mean:.3f} nats a label against {simple:.3f} (difference {mean - simple:.3f}," in votes.text


def test_methods_that_fit_predict_no_worse_than_votes() -> None:
    for method in ("one_coin", "majority_vote"):
        assert kinds(fit(method, simulated(1, 150, 12, 6, 3), inference="em"), thorough=True) == []


def test_nothing_can_be_left_out_of_items_labelled_once() -> None:
    data = annotations([(i, i % 3, i % 2) for i in range(90)], 2)
    assert kinds(fit("one_coin", data, inference="em", seed=0), thorough=True) == []
