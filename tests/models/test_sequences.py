"""Sequences: chains summed out exactly, and the limits in which their methods are others."""

from itertools import pairwise, product
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import chi2
from torch import Tensor

import crowdppl
import crowdppl.primitives as cp
from crowdppl import Annotations
from crowdppl.data.coded import build_blocks
from crowdppl.data.kinds.sequences import Sequences, units_of
from crowdppl.data.split import item_folds, label_folds
from crowdppl.errors import DataError, MethodError
from crowdppl.primitives import chains
from crowdppl.primitives.sums import Summing, summing

SEQUENCES = [[0, 1, 2, 3], [4], [5, 6], [7, 8, 9]]
OF_ITEM = torch.tensor([3, 3, 3, 3, 7, 5, 5, 9, 9, 9])
METHODS = ("hmm_crowd", "sequence_crowd")
BIO = ["O", "B-X", "I-X", "B-Y", "I-Y"]


def potentials(chains: int = 2, k: int = 3) -> tuple[Tensor, Tensor]:
    stream = torch.Generator().manual_seed(0)
    log_p = torch.randn(k, chains, len(OF_ITEM), generator=stream, dtype=torch.float64)
    return log_p, torch.randn(k, k, chains, 1, generator=stream, dtype=torch.float64)


def paths(log_p: Tensor, log_transition: Tensor, items: list[int]) -> Tensor:
    """Log-weights of all paths through some items, (K^T, chains)."""
    terms = []
    for path in product(range(len(log_p)), repeat=len(items)):
        own = sum(log_p[k, :, i] for k, i in zip(path, items, strict=True))
        terms.append(own + sum(log_transition[a, b, :, 0] for a, b in pairwise(path)))
    return torch.stack(terms)


@pytest.fixture(params=["one after the other", "in stretches"])
def _both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short chains as they are summed, and as long ones are."""
    if request.param == "in stretches":
        monkeypatch.setattr(chains, "LONG", 1)


@pytest.mark.usefixtures("_both_ways")
def test_a_chain_is_the_sum_over_all_paths() -> None:
    leaves = [x.requires_grad_() for x in potentials()]
    total = cp.chain(*leaves, Sequences.of(OF_ITEM))
    brute = [paths(*leaves, items).logsumexp(0) for items in SEQUENCES]
    for items, one in zip(SEQUENCES, brute, strict=True):
        torch.testing.assert_close(total[:, items].sum(1), one, rtol=0, atol=1e-9)
    counts, wanted = torch.autograd.grad(total.sum(), leaves), torch.autograd.grad(sum(brute).sum(), leaves)
    for mine, theirs in zip(counts, wanted, strict=True):  # marginals of items, and expected transitions
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-9)


def test_second_derivatives_are_those_of_all_paths() -> None:
    leaves = [x.requires_grad_() for x in potentials(chains=1)]
    brute = sum(paths(*leaves, items).logsumexp(0) for items in SEQUENCES)
    found = []
    for total in (cp.chain(*leaves, Sequences.of(OF_ITEM)).sum(), brute.sum()):
        slopes = torch.autograd.grad(total, leaves, create_graph=True)
        found.append(torch.autograd.grad(sum(x.sin().sum() for x in slopes), leaves))
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-9)


@pytest.mark.usefixtures("_both_ways")
def test_potentials_far_apart_lose_nothing() -> None:
    """Labels that rule out what may follow; and what cannot be is impossible, not improbable."""
    log_p, log_transition = potentials()
    log_p[0, :, 0], log_p[1, :, 1] = 700.0, 700.0
    log_transition[0, 1] = -160.0
    total = cp.chain(log_p, log_transition, Sequences.of(OF_ITEM))
    brute = paths(log_p, log_transition, SEQUENCES[0]).logsumexp(0)
    torch.testing.assert_close(total[:, SEQUENCES[0]].sum(1), brute, rtol=0, atol=1e-9)
    log_p[1:, :, 0], log_p[[0, 2], :, 1], log_transition[0, 1] = -torch.inf, -torch.inf, -torch.inf
    assert (cp.chain(log_p, log_transition, Sequences.of(OF_ITEM))[:, :2].sum(1) == -torch.inf).all()


@pytest.mark.usefixtures("_both_ways")
def test_pairs_are_those_of_all_paths() -> None:
    log_p, log_transition = potentials()
    how = Summing(probes={"pairs": None})
    with summing(how):
        total = cp.chain(log_p, log_transition, Sequences.of(OF_ITEM), name="pairs")
        (pairs,) = torch.autograd.grad(total.sum(), how.probes["pairs"])
    share = paths(log_p, log_transition, SEQUENCES[0]).softmax(0).reshape(3, 3, 3, 3, 2)
    torch.testing.assert_close(pairs[..., 2], share.sum((0, 3)), rtol=0, atol=1e-9)
    assert not pairs[..., [0, 4, 5, 7]].any()  # the first items


def by_logarithms(log_p: Tensor, log_transition: Tensor, lengths: list[int]) -> Tensor:
    """The total of each sequence, (sequences, chains), item after item; what cannot be has a factor of nothing."""
    out, log_p, log_transition = [], log_p.clamp(min=-1e5), log_transition.clamp(min=-1e5)
    for x in log_p.split(lengths, -1):
        at = x[..., 0]
        for n in range(1, x.shape[-1]):
            at = (at.unsqueeze(1) + log_transition[..., 0]).logsumexp(0) + x[..., n]
        out.append(at.logsumexp(0))
    return torch.stack(out)


@pytest.mark.parametrize("lengths", [[300, 1, 77, 300, 2, 211], [201], [1, 290, 1, 1], [256, 255, 16, 17]])
@pytest.mark.parametrize("forbidden", [-torch.inf, -80.0])
def test_long_sequences_are_summed_as_by_logarithms(lengths: list[int], forbidden: float) -> None:
    """Ragged, with transitions that may not be and known classes; totals count as often as weights say."""
    stream = torch.Generator().manual_seed(sum(lengths))
    log_p = 3 * torch.randn(3, 2, sum(lengths), generator=stream, dtype=torch.float64)
    log_transition = 2 * torch.randn(3, 3, 2, 1, generator=stream, dtype=torch.float64)
    log_transition[0, 1], log_transition[2, 0] = forbidden, forbidden
    log_p[:2, :, 7::50] = -torch.inf  # class 2 can follow, and be followed by, some class
    weight = torch.randn(len(lengths), generator=stream, dtype=torch.float64)
    of = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))
    leaves = [log_p.requires_grad_(), log_transition.requires_grad_()]
    found, wanted = cp.chain(*leaves, Sequences.of(of)), by_logarithms(*leaves, lengths)
    torch.testing.assert_close(torch.stack([x.sum(-1) for x in found.split(lengths, -1)]), wanted)
    ours = torch.autograd.grad((found * weight[of]).sum(), leaves)
    theirs = torch.autograd.grad((wanted * weight[:, None]).sum(), leaves)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-11, atol=1e-10)


@pytest.mark.parametrize("sizes", [(5, 5, 2, 1), (3,) * 150 + (2,) * 60 + (1,)])
def test_shares_of_places_are_those_of_powers(sizes: tuple[int, ...]) -> None:
    stream = torch.Generator().manual_seed(0)
    start, move = (torch.randn(*shape, generator=stream).double().softmax(-1) for shape in ((3,), (3, 3)))
    each = [size * start @ torch.linalg.matrix_power(move, n) for n, size in enumerate(sizes)]
    found = chains.shares_of_places(start.log(), move.log(), sizes)
    torch.testing.assert_close(found.exp(), torch.stack(each).sum(0) / sum(sizes), rtol=0, atol=1e-12)


def test_paths_are_drawn_by_their_joint_law() -> None:
    """Forward filtering and backward sampling; 99.9 % of right samplers pass."""
    log_p, log_transition = potentials(chains=1)
    n, items = 4000, [5, 6]
    wide = log_p[:, :, items].repeat(1, 1, n).requires_grad_()
    pairs = torch.arange(n).repeat_interleave(2)
    with summing(Summing("draw", torch.Generator().manual_seed(1))):
        (drawn,) = torch.autograd.grad(cp.chain(wide, log_transition, Sequences.of(pairs)).sum(), wide)
    code = drawn[:, 0].argmax(0).reshape(n, 2) @ torch.tensor([3, 1])
    expected = n * paths(log_p, log_transition, items).softmax(0)[:, 0].numpy()
    found = np.bincount(code.numpy(), minlength=9)
    assert ((found - expected) ** 2 / expected).sum() < chi2.ppf(0.999, 8)


def crowd(lengths: list[int], classes: list[str], seed: int = 0, annotators: int = 4) -> Annotations:
    rng, rows = np.random.default_rng(seed), []
    for s, length in enumerate(lengths):
        truth = rng.integers(len(classes), size=length)
        for a, p in product(range(annotators), range(length)):
            k = truth[p] if rng.random() < 0.8 else rng.integers(len(classes))
            rows.append((f"s{s:02}", p, f"a{a}", classes[k]))
    table = pd.DataFrame(rows, columns=["sequence", "position", "annotator", "label"])
    return Annotations.from_frame(table, kind="sequence", classes=classes)


def test_sequences_of_one_item_are_bayesian_dawid_skene() -> None:
    """By gibbs: vb of chains stays mean field."""
    data = crowd([1] * 30, ["a", "b", "c"])
    how: Any = {"inference": "gibbs", "seed": 0, "draws": 200, "warmup": 50}
    one = crowdppl.fit("hmm_crowd", data, **how)
    other = crowdppl.fit("bayesian_dawid_skene", data, settings={"prevalence_strength": 1.0}, **how)
    np.testing.assert_allclose(one.probabilities(), other.probabilities(), atol=0.1)
    np.testing.assert_allclose(one.confusion(), other.confusion(), atol=0.05)


@pytest.mark.slow
def test_a_constant_context_is_hmm_crowd() -> None:
    data = crowd([4] * 10, ["a", "b", "c"])
    rows = data.frame()
    never = Annotations.from_frame(
        pd.DataFrame(
            {"sequence": rows["item"].str[:3], "position": rows["item"].str[-1].astype(int), "last label": 0}
        ).join(rows[["annotator", "label"]]),
        kind="sequence",
        label_covariates=["last label"],
    )
    settings = {"crowd_prior_strength": 0, "prior_strength": 4.0}
    one = crowdppl.fit("sequence_crowd", never, inference="vb", settings=settings, seed=0)
    other = crowdppl.fit("hmm_crowd", data, inference="vb", seed=0)
    np.testing.assert_allclose(one.probabilities(), other.probabilities(), atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_rules_of_tags_hold_by_em(method: str) -> None:
    """What may not follow has a share of nothing, and most probable labels never do."""
    settings = {"prior_strength": 10.0} | ({"crowd_prior_strength": 0} if method == "sequence_crowd" else {})
    data = crowd([6] * 6, BIO, seed=1)
    posterior = crowdppl.fit(method, data, inference="em", settings=settings, seed=0, max_iterations=20)
    after = np.array(posterior.model.after)
    transition = np.asarray(posterior.site("transition"))
    assert transition[~after[1:]].max() < 1e-12
    np.testing.assert_allclose(transition.sum(1), 1, atol=1e-9)
    labels = posterior.labels()["label"]
    code, text = [BIO.index(x) for x in labels], labels.index.get_level_values("sequence")
    assert all(
        after[1 + a, b] for a, b, one, two in zip(code, code[1:], text, text[1:], strict=False) if one == two
    )


def test_own_last_labels_are_followed_within_a_sequence() -> None:
    table = pd.DataFrame(
        {
            "sequence": ["s", "s", "s", "t", "s", "s"],
            "position": [2, 0, 1, 0, 0, 1],
            "annotator": ["x", "x", "x", "x", "y", "y"],
            "label": ["a", "b", "a", "b", "a", "a"],
        }
    )
    data = Annotations.from_frame(table, kind="sequence", classes=["a", "b"])
    model = cp.model.set_up(crowdppl.method("sequence_crowd"), data)
    rows = table.assign(item=table["sequence"])
    assert model.derived_covariates(rows)["last label"].tolist() == [1, 0, 2, 0, 0, 1]


def test_tags_that_may_not_follow_never_do() -> None:
    data = crowd([6] * 12, BIO, seed=1)
    model = cp.model.set_up(crowdppl.method("hmm_crowd"), data)
    after = np.array(model.after)
    assert after[0].tolist() == [True, True, False, True, False]
    assert after[1 + BIO.index("B-Y")].tolist() == [True, True, False, True, True]
    drawn = crowdppl.simulate(model, data, seed=0).truth
    code = [BIO.index(label) for label in drawn]
    text = drawn.index.str[:3]
    pairs = zip(code, code[1:], text[1:] == text[:-1], strict=False)
    assert all(after[1 + a, b] for a, b, same in pairs if same)
    assert all(after[0, code[n]] for n in np.flatnonzero(~text.duplicated()))
    with pytest.raises(MethodError, match="'a'"):
        crowdppl.fit("hmm_crowd", crowd([2, 2], ["a", "b"]), settings={"tags": "bio"})


def test_sequences_stay_whole_in_blocks_and_folds() -> None:
    data = crowd([3, 1, 4, 2, 5], ["a", "b"])
    text = pd.Index(data.items[data.order]).str[:3]
    assert not pd.Index(text[1:][text[1:] != text[:-1]]).has_duplicates  # neighbours in order
    item, annotator, answer = data.label_codes()
    units = units_of(data.item_covariates)
    sizes = {"n_items": data.n_items, "n_annotators": 4, "n_classes": 2, "n_answers": 2}
    order, blocks = build_blocks(item, annotator, answer, **sizes, block_labels=20, units=units)
    ends = [block.offset for block in blocks[1:]]
    assert len(blocks) > 2 and all(units[order[n], 0] != units[order[n - 1], 0] for n in ends)
    rows = data.frame().assign(text=data.frame()["item"].str[:3], fold=label_folds(data, 3, seed=0))
    assert (rows.groupby(["text", "annotator"])["fold"].nunique() == 1).all()
    assert (rows.assign(fold=item_folds(data, 3, seed=0)).groupby("text")["fold"].nunique() == 1).all()


@pytest.mark.slow
def test_labels_left_out_are_scored_given_the_rest_of_their_sequence() -> None:
    data = crowd([4] * 8, ["a", "b"])
    score = crowdppl.heldout_score("hmm_crowd", data, inference="vb", seed=0)
    assert -0.7 < score.per_label < -0.2  # log 2 is no knowledge
    posterior = crowdppl.fit("hmm_crowd", data, inference="vb", seed=0)
    with pytest.raises(MethodError, match="sequence"):
        posterior.leave_one_out()


def test_sequences_are_asked_for() -> None:
    plain = Annotations.from_dicts({"ann": {"x": "O", "y": "B-X"}, "bob": {"x": "O", "y": "O"}})
    for name in METHODS:
        with pytest.raises(MethodError, match="sequence"):
            crowdppl.fit(name, plain, inference="vb")
        with pytest.raises(MethodError, match="svi"):
            crowdppl.fit(name, crowd([2, 2], ["a", "b"]), inference="svi")
    places = pd.DataFrame({"sequence": ["s", "s"], "position": [1, 1]}, index=["x", "y"])
    with pytest.raises(DataError, match="place"):
        Annotations.from_dicts({"ann": {"x": "O", "y": "B-X"}}, item_covariates=places)


@pytest.mark.slow
def test_auto_knows_what_follows_what() -> None:
    drawn = crowdppl.simulate("hmm_crowd", crowd([8] * 20, BIO, annotators=3), seed=1)
    auto = crowdppl.fit("auto", drawn.data, seed=0)
    alone = crowdppl.fit("hierarchical_dawid_skene", drawn.data, seed=0, calibrate=True)
    assert auto.correction is not None
    assert sum(auto.correction.weights.get(name, 0) for name in METHODS) > 0.1
    score, other = (crowdppl.evaluate(x, drawn.truth, bootstrap=1).log_score for x in (auto, alone))
    assert score < 0.8 * other


@pytest.mark.slow
def test_new_sequences_update_annotators_whose_labels_depend_on_their_last() -> None:
    data = crowdppl.datasets.example("sequence")
    rows = [[("new", 0), ("new", 1)], ["ann", "ann"], ["B-name", "I-name"]]
    more = Annotations.from_arrays(*rows, kind="sequence", like=data)
    every = Annotations.from_frame(pd.concat([data.frame(), more.frame()]), kind="sequence")
    updated = crowdppl.fit("sequence_crowd", data, inference="vb", seed=0).update(more).probabilities()
    anew = crowdppl.fit("sequence_crowd", every, inference="vb", seed=0).probabilities()
    np.testing.assert_allclose(updated, anew.loc[updated.index], atol=0.05)
