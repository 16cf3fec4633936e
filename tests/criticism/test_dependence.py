"""Copiers and colluders are reported unless the fit has explained them; hard items are not taken for either."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import norm

import crowdppl
import crowdppl.primitives as cp
from crowdppl.criticism import collusion
from crowdppl.criticism.collusion import excess_agreement
from crowdppl.criticism.design import Design
from crowdppl.criticism.doubts import annotators, doubts
from crowdppl.criticism.doubts.annotators import copying
from crowdppl.criticism.doubts.search import Search
from crowdppl.criticism.expected_agreement import EVEN, expected_by_model, independent
from crowdppl.criticism.joint_errors import joint_errors
from crowdppl.data.annotations import Annotations
from crowdppl.data.blocks import Block
from crowdppl.fitting import fit
from crowdppl.inference.result import SiteResult
from crowdppl.posterior import Posterior
from tests.crowd import annotations, crowd
from tests.doubtful import kinds, simulated


def test_copiers_and_groups_are_told_apart() -> None:
    pair = simulated(0, 700, 16, 8, 3, copy=2)
    (doubt,) = doubts(fit("dawid_skene", pair, inference="em"))
    assert doubt.kind == "copying" and doubt.who == {"annotators": (0, 1)}
    agreed, shared, expected = (doubt.figures[name] for name in ("agreed", "shared", "expected"))
    rows = pair.frame().pivot(index="item", columns="annotator", values="label")
    both = rows[[0, 1]].dropna()
    assert (agreed, shared) == (int((both[0] == both[1]).sum()), len(both))
    assert expected < agreed
    (doubt,) = doubts(fit("dawid_skene", simulated(0, 700, 24, 8, 3, copy=4), inference="em"))
    members = doubt.who["annotators"]
    assert doubt.kind == "colluding" and doubt.figures == {"groups": 1}
    assert len(members) >= 3 and set(members) <= {0, 1, 2, 3}


def test_large_data_are_searched_for_copiers_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    posterior = fit("dawid_skene", simulated(0, 250, 12, 8, 3, copy=2), inference="em")
    for most, expected in ((250 * 28, ["copying"]), (250 * 28 - 1, [])):
        monkeypatch.setattr(annotators, "QUICK_PAIRS", {"em": most})
        assert [doubt.kind for doubt in copying(Search(posterior))] == expected
        assert [doubt.kind for doubt in copying(Search(posterior, thorough=True))] == ["copying"]


def test_items_that_are_hard_for_all_are_no_collusion() -> None:
    """Three annotators guess where an item is hard, so that all pairs agree more on easy ones than is expected."""
    rng = np.random.default_rng(0)
    truth, hard = rng.integers(3, size=(5000, 1)), rng.random((5000, 1)) < 0.3
    said = np.where(hard | (rng.random((5000, 3)) < 0.02), rng.integers(3, size=(5000, 3)), truth)
    labels = [(i, a, int(said[i, a])) for i in range(5000) for a in range(3)]
    posterior = fit("one_coin", annotations(labels, 3), inference="em")
    excess = excess_agreement(posterior)
    assert (norm.sf(excess.z) * 3 < 0.01).mean() > 0.5
    assert (collusion.p_values(excess) > 0.01).all()  # who guesses apart shares no more errors than expected
    assert kinds(posterior) == []


def cliques(seed: int, *members: tuple[int, ...]) -> Annotations:
    """24 annotators right in 60 to 90 % of their labels, 8 an item; those of a clique repeat its first in 80 %."""
    rng = np.random.default_rng(seed)
    truth, shape = rng.integers(3, size=(700, 1)), (700, 24)
    right = rng.random(shape) < rng.uniform(0.6, 0.9, 24)
    label = np.where(right, truth, (truth + rng.integers(1, 3, shape)) % 3)
    for clique in members:
        columns = list(clique)
        repeated = rng.random((700, len(columns))) < 0.8
        label[:, columns] = np.where(repeated, label[:, columns[:1]], label[:, columns])
    seen = np.argsort(rng.random(shape), 1)[:, :8].ravel()
    item = np.repeat(np.arange(700), 8)
    return annotations(list(zip(item.tolist(), seen.tolist(), label[item, seen].tolist(), strict=True)), 3)


def told(posterior: Posterior) -> set[int]:
    found = [doubt for doubt in doubts(posterior) if doubt.kind in ("copying", "colluding")]
    return {annotator for doubt in found for annotator in doubt.who["annotators"]}


@pytest.mark.parametrize("informative", [True, False])
def test_the_agreement_of_who_name_a_class_against_a_sum_over_answers(informative: bool) -> None:
    """Both answers run over all pairs of classes; class 2 is declined more often, which may tell of it."""
    rng, drawn = np.random.default_rng(4), crowd(n_items=40, n_annotators=5, labels_each=4)
    rows = drawn.frame().astype({"label": object})
    away = rng.random(len(rows)) < np.where(rows["label"] == 2, 0.7, 0.15)
    rows.loc[away, "label"] = rng.choice(["?", "pass"], away.sum())
    rows = rows[(rows["annotator"] != 0) | ~away]  # who never declined
    known = {"abstentions": ["?", "pass"], "informative_abstentions": informative, "classes": drawn.classes}
    data = Annotations.from_frame(rows, gold={3: 1, 7: 0}, **known)
    posterior = fit("one_coin", data, inference="em", seed=0)
    table, share = posterior.result.table, posterior.result.prevalence
    mixed = (1 - EVEN) * table[..., :3] + EVEN / 3 * table[..., :3].sum(-1, keepdims=True)
    mixed = np.concatenate([mixed, table[..., 3:]], -1)
    whole, design = Design.of(data), Design.of(data, named=True)
    at = np.flatnonzero(whole.answer < 3)
    gold = data.gold_codes[data.order]
    ((one, other, _),) = design.meetings()

    def expected(p: np.ndarray, a: int, b: int) -> tuple[np.ndarray, np.ndarray]:
        start = share.copy() if gold[whole.item[a]] < 0 else np.eye(3)[gold[whole.item[a]]]
        for n in set(np.flatnonzero(whole.item == whole.item[a])) - {a, b}:
            start *= p[whole.annotator[n], :, whole.answer[n]]
        pair = np.einsum("k,kx,ky->xy", start, *p[whole.annotator[[a, b]], :, :3])
        pair /= pair.sum()
        return pair.diagonal(), (pair.sum(0) + pair.sum(1)) / 2

    kept = (1 - EVEN) ** 2
    (alone, either), (asked, again) = (of(posterior, design)(one, other) for of in (independent, expected_by_model))
    np.testing.assert_array_equal(either, again)
    for x, y, found, one_of_two, said in zip(at[one], at[other], alone.T, either.T, asked.T, strict=True):
        np.testing.assert_allclose([found, one_of_two], expected(mixed, x, y), atol=1e-9)
        np.testing.assert_allclose(said, kept * expected(table, x, y)[0] + (1 - kept) / 9, atol=1e-6)


def test_after_an_update_earlier_labels_tell_of_an_item_too() -> None:
    """Items that are labelled again because they seemed to be of a rare class are not as the prevalence says."""
    rows = crowd(n_items=40, n_annotators=6, labels_each=5).frame()
    first, known = rows.groupby("item").cumcount() < 3, {"classes": [0, 1, 2], "annotators": list(range(6))}
    old = fit("bayesian_dawid_skene", Annotations.from_frame(rows[first], **known), inference="vb")
    new = old.update(rows[~first & (rows["item"] % 2 == 0)])
    assert new.memory is not None and new.memory.evidence.std() > 0.5
    table, design = new.result.table * (1 - EVEN) + EVEN / 3, Design.of(new.data, named=True)
    ((one, other, _),) = design.meetings()
    both, _ = independent(new, design)(one, other)
    for a, b, found in zip(one, other, both.T, strict=True):  # no other label is new
        start = new.result.prevalence * np.exp(new.memory.evidence[new.data.order[design.item[a]]])
        pair = np.einsum("k,kx,kx->x", start / start.sum(), *table[design.annotator[[a, b]]])
        np.testing.assert_allclose(found, pair, atol=1e-9)


def test_what_is_too_hard_for_all_is_no_collusion() -> None:
    """Four of twelve decline every fifth item: had each equal answer counted, they would seem to collude."""
    rng = np.random.default_rng(1)
    truth, labels = rng.integers(2, size=300), []
    for i, k in enumerate(truth):
        for a in range(4) if i % 5 == 0 else rng.choice(12, 6, replace=False):
            label = k if rng.random() < 0.8 else 1 - k
            labels.append((i, int(a), -1 if i % 5 == 0 and rng.random() < 0.95 else int(label)))
    found = fit("bayesian_dawid_skene", annotations(labels, 2, abstentions=[-1]), inference="vb", seed=0)
    assert kinds(found) == []


def test_the_agreement_that_groups_expect_against_a_sum_over_opinions() -> None:
    groups = [0, 0, 1, 0, 2]
    model = crowdppl.method("dependent_clusters", groups=groups)
    fitted = fit(model, crowd(n_items=20, n_annotators=5, labels_each=4), inference="vb", seed=0)
    sites = {name: SiteResult(name, x.dims, "point", {"value": x.mean}) for name, x in fitted.result.sites.items()}
    posterior = replace(fitted, result=replace(fitted.result, sites=sites))
    share, link, table = (sites[name].mean for name in ("prevalence", "link", "confusion"))

    def evidence(labels: list[tuple[int, int]]) -> float:
        alone, shared = np.ones(3), np.ones(3)
        for a, label in labels:
            if groups[a]:
                alone *= table[a, :, label]
            else:
                shared *= table[a, :, label]
        return float(share @ (alone * (link[0, 0] @ shared)))

    design = Design.of(posterior.data)
    ((one, other, _),) = design.meetings()
    found, _ = expected_by_model(posterior, design)(one, other)
    for a, b, p in zip(one, other, found.T, strict=True):
        mates = np.flatnonzero(design.item == design.item[a])
        rest = [(int(design.annotator[n]), int(design.answer[n])) for n in mates if n not in (a, b)]
        pair = design.annotator[[a, b]].tolist()
        agree = np.array([evidence([*rest, (pair[0], x), (pair[1], x)]) for x in range(3)]) / evidence(rest)
        assert p == pytest.approx((1 - EVEN) ** 2 * agree + (1 - (1 - EVEN) ** 2) / 9)


class Crowded:
    """Labels are right in .9 of items that have up to three of them, else in .6."""

    def model(self, data: Block) -> None:
        def log_p(answer: torch.Tensor) -> torch.Tensor:
            many = data.of_item(torch.bincount(data.item, minlength=data.n_items)) > 3
            right = torch.where(many, 0.6, 0.9).double().unsqueeze(-1)
            return torch.where(torch.arange(3) == answer.unsqueeze(-1), right, (1 - right) / 2).log()

        with cp.plates.items(data):
            cp.annotate(data, log_p, cp.truth(data, torch.zeros(3)))


@pytest.mark.parametrize("model", [crowdppl.method("glad"), Crowded()], ids=["glad", "own"])
def test_the_agreement_of_labels_without_a_table_against_a_sum_over_truths(
    model: crowdppl.primitives.Model,
) -> None:
    """Labels are independent given truth and difficulty by GLAD; the own model's change when others are added."""
    fitted = fit(model, crowd(n_items=20, n_annotators=6, labels_each=5), inference="em", seed=0)
    sites = {name: x.mean for name, x in fitted.result.sites.items()}

    def right(item: int, annotator: int, n: int) -> float:
        if not sites:
            return 0.6 if n > 3 else 0.9
        return float(1 / (1 + np.exp(-sites["ability"][annotator] * np.exp(-sites["difficulty"][item]))))

    def evidence(item: int, labels: list[tuple[int, int]]) -> float:
        p = np.full(3, 1 / 3)
        for annotator, label in labels:
            known = right(item, annotator, len(labels))
            p *= np.where(np.arange(3) == label, known, (1 - known) / 2)
        return float(p.sum())

    design = Design.of(fitted.data)
    ((one, other, _),) = design.meetings()
    found, _ = expected_by_model(fitted, design)(one, other)
    for a, b, p in zip(one, other, found.T, strict=True):
        mates, item = np.flatnonzero(design.item == design.item[a]), fitted.data.order[design.item[a]]
        rest = [(int(design.annotator[n]), int(design.answer[n])) for n in mates if n not in (a, b)]
        pair = design.annotator[[a, b]].tolist()
        agree = np.array([evidence(item, [*rest, *((who, x) for who in pair)]) for x in range(3)])
        assert p == pytest.approx(
            (1 - EVEN) ** 2 * agree / evidence(item, rest) + (1 - (1 - EVEN) ** 2) / 9, abs=1e-9
        )


@pytest.mark.slow
def test_a_clique_that_the_fit_has_modelled_is_no_doubt() -> None:
    data = cliques(0, (0, 1, 2, 3))
    blind = fit("bayesian_dawid_skene", data, inference="vb", seed=0)
    assert told(blind) and told(blind) <= {0, 1, 2, 3}
    found = fit("dependent_clusters", data, inference="vb", seed=0, tolerance=1e-5)
    assert doubts(found) == ()
    assert not crowdppl.suspicious_annotators(found)["copying"].any()
    before, after = (excess_agreement(found, alone=alone) for alone in (True, False))
    inside = (before.one < 4) & (before.other < 4)
    assert before.z[inside].min() > 2 > after.z[inside].max()


@pytest.mark.slow
def test_a_clique_that_the_fit_has_not_modelled_is_still_a_doubt() -> None:
    data = cliques(0, (0, 1, 2, 3), (4, 5, 6, 7))
    blind = fit("bayesian_dawid_skene", data, inference="vb", seed=0)
    assert told(blind) == {0, 1, 2, 3}  # the doubt names one of two groups
    group = crowdppl.suspicious_annotators(blind, level=0.01)["group"]
    assert [set(group.index[group == n]) for n in (0, 1)] == [{0, 1, 2, 3}, {4, 5, 6, 7}]
    one = crowdppl.method("dependent_clusters", groups=dict.fromkeys(range(4), 0))
    assert told(fit(one, data, inference="vb", seed=0, tolerance=1e-5)) == {4, 5, 6, 7}
    assert told(fit("dependent_clusters", data, inference="vb", seed=0, tolerance=1e-5)) == set()


def test_repeats_are_no_copies() -> None:
    """Two honest annotators whose rows were exported three times: their labels of an item go together."""
    stream = np.random.default_rng(1)
    truth = stream.integers(3, size=120)
    rows = [
        (item, annotator, truth[item] if stream.random() < 0.7 else (truth[item] + 1 + stream.integers(2)) % 3)
        for item in range(120)
        for annotator in stream.choice(6, 5, replace=False)
    ]
    twice = [row for row in rows if row[1] < 2]
    data = crowdppl.Annotations.from_arrays(*zip(*rows, *twice, *twice, strict=True))
    posterior = crowdppl.fit("bayesian_dawid_skene", data, inference="vb")
    assert collusion.p_values(excess_agreement(posterior)).min() < 0.01, "as if they were independent"
    assert not {doubt.kind for doubt in posterior.doubts()} & {"copying", "colluding"}


def systems(seed: int, repeat: float) -> Annotations:
    """Ten systems that are right in .75 of 300 items on their own, and read one crowd, right in .7, in the rest."""
    rng = np.random.default_rng(seed)

    def noisy(x: np.ndarray, right: float) -> np.ndarray:
        return np.where(rng.random(x.shape) < right, x, (x + rng.integers(1, 3, x.shape)) % 3)

    truth = rng.integers(3, size=(300, 1))
    crowd_says, own = noisy(truth, 0.7), noisy(np.repeat(truth, 10, 1), 0.75)
    labels = np.where(rng.random(own.shape) < repeat, crowd_says, own)
    item, annotator = np.indices(labels.shape).reshape(2, -1)
    return Annotations.from_arrays(item, annotator, labels.ravel(), classes=range(3))


@pytest.mark.parametrize(
    "method", ["bayesian_dawid_skene", pytest.param("hierarchical_dawid_skene", marks=pytest.mark.slow)]
)
def test_systems_that_read_one_crowd_err_together(method: str) -> None:
    for seed in range(2):
        assert "together" in kinds(fit(method, systems(seed, 0.6), inference="vb", seed=0))
        assert "together" not in kinds(fit(method, systems(seed, 0.0), inference="vb", seed=0))


@pytest.mark.parametrize("method", ["mixed_membership", "ebcc", "dependent_clusters"])
def test_what_a_method_says_that_labels_share_is_no_joint_error(method: str) -> None:
    """Taken for independent given the truth, labels of items in between have many errors in common."""
    design = crowdppl.random_design(200, 12, 5, classes=["a", "b", "c"], seed=0)
    posterior = crowdppl.fit(method, crowdppl.simulate(method, design, seed=0).data, inference="vb", seed=0)
    share, error = joint_errors(posterior, 5000)
    assert abs(share) < 3 * error < 0.15
    assert "together" not in {doubt.kind for doubt in posterior.doubts()}
