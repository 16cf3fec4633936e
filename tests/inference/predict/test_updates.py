"""More labels after a fit with a network: it stands still, and has its say once."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import digamma

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.data.split import keep
from crowdppl.errors import DataError
from crowdppl.posterior import Posterior
from tests.networks.test_networks import Frozen, clouds

EXACT = {"tolerance": 1e-13}
QUICK = {"training": {"epochs": 40}}


@pytest.fixture(scope="module")
def data() -> Annotations:
    return clouds(240, 240, 4)[0]


@pytest.fixture(scope="module")
def halves(data: Annotations) -> tuple[np.ndarray, Posterior]:
    """Every other label, so that nearly all items have labels in both halves, and the fit to the first half."""
    first = np.arange(data.n_labels) % 2 == 0
    return first, crowdppl.fit("bayes_dgc", keep(data, first), inference="vb", seed=0, settings=QUICK)


@pytest.mark.filterwarnings("always::crowdppl.errors.RepeatsWarning")
def test_labels_that_the_fit_has_are_warned_of() -> None:
    table = pd.DataFrame({"item": [1, 2, 3, 3], "annotator": list("xxxy"), "label": [0, 1, 1, 1]})
    posterior = crowdppl.fit("one_coin", Annotations.from_frame(table), inference="vb", seed=0)
    more = pd.DataFrame({"item": [9, 3, 1, 1], "annotator": list("xxyx"), "label": [1, 1, 0, 1]})
    said = "2 of 4 new labels"
    with pytest.warns(crowdppl.errors.RepeatsWarning, match=said) as warned:
        posterior.update(more)
    assert [w.filename for w in warned if w.category is crowdppl.errors.RepeatsWarning] == [__file__]
    with warnings.catch_warnings(action="error", category=crowdppl.errors.RepeatsWarning):
        posterior.update(more.iloc[[0, 2]])


@pytest.mark.slow
def test_two_halves_come_near_the_whole_with_the_same_network(
    data: Annotations, halves: tuple[np.ndarray, Posterior]
) -> None:
    first, one = halves
    updated = one.update(keep(data, ~first))
    whole = crowdppl.fit(Frozen(one.model), data, inference="vb", **EXACT)
    alone = crowdppl.fit(Frozen(one.model), keep(data, ~first), inference="vb", **EXACT)
    want = whole.probabilities().to_numpy()
    off, off_before, off_alone = (np.abs(p.probabilities() - want).to_numpy().mean() for p in (updated, one, alone))
    assert off < 0.015 and off < min(off_before, off_alone) / 4
    c, c_whole, c_before = (p.result.sites["confusion"].arrays["concentration"] for p in (updated, whole, one))
    assert np.abs(c - c_whole).mean() < np.abs(c_before - c_whole).mean() / 5
    assert c.sum() == pytest.approx(c_whole.sum())  # each label is counted once
    pd.testing.assert_frame_equal(updated.classify(data.features), one.classify(data.features), check_exact=True)


def test_one_more_label_is_as_by_hand(data: Annotations) -> None:
    """What network and old labels say of the item enters once, together: the fixed point, iterated by hand."""
    old = crowdppl.fit("bayes_dgc", data, inference="vb", seed=0, settings={"recipe": "plain"})
    item, who, label = data.items[17], 3, 2
    more = pd.DataFrame({"item": [item], "annotator": [data.annotators[who]], "label": [data.classes[label]]})
    new = old.update(more, **EXACT)
    c = old.result.sites["confusion"].arrays["concentration"].copy()
    before = c[who].copy()
    p = old.probabilities().loc[item].to_numpy()
    share = p
    for _ in range(200):
        c[who] = before
        c[who, :, label] += share
        share = p * np.exp(digamma(c[who, :, label]) - digamma(c[who].sum(-1)))
        share = share / share.sum()
    np.testing.assert_allclose(new.probabilities().loc[item], share, atol=1e-6)
    np.testing.assert_allclose(new.result.sites["confusion"].arrays["concentration"], c, atol=1e-6)
    assert np.abs(share - p).max() > 0.01


def test_items_that_nobody_labelled_before_are_looked_at(data: Annotations) -> None:
    """Their features come with the new annotations; without these there is nothing to look at."""
    there = data.frame()["item"].isin(data.items[:160]).to_numpy()
    old = crowdppl.fit("bayes_dgc", keep(data, there), inference="vb", seed=0, settings=QUICK)
    rest = data.items[160:]
    frame, features = data.frame()[~there], data.features
    assert isinstance(features, pd.DataFrame)
    strange: dict[str, Any] = {"item": "new " + frame["item"]}
    moved = features.loc[rest].set_axis("new " + rest)
    new = Annotations.from_frame(frame.assign(**strange), like=data, features=moved)
    found = old.update(new).probabilities()
    same = old.update(Annotations.from_frame(frame, like=data)).probabilities()  # items of the fit without labels
    np.testing.assert_allclose(found, same.loc[rest], atol=1e-6)
    with pytest.raises(DataError, match="give features="):
        old.update(Annotations.from_frame(frame.assign(**strange), like=data))


def test_an_item_that_vb_has_not_seen_is_averaged_over_its_distributions() -> None:
    found = crowdppl.fit("bayesian_dawid_skene", crowdppl.anaesthetists(), inference="vb", seed=0)
    more = pd.DataFrame({"item": 99, "annotator": ["2", "4", "5"], "label": [2, 3, 3]})
    stream, c = np.random.default_rng(0), {name: site.parameter for name, site in found.result.sites.items()}
    joint = stream.dirichlet(c["prevalence"], 200_000)
    for annotator, label in ((1, 1), (3, 2), (4, 2)):
        rows = stream.standard_gamma(c["confusion"][annotator], (200_000, 4, 4))
        joint *= rows[..., label] / rows.sum(-1)
    want = joint.mean(0) / joint.mean(0).sum()
    np.testing.assert_allclose(found.predict(more).loc[99], want, atol=0.003)
    np.testing.assert_allclose(found.update(more).probabilities().loc[99], want, atol=0.003)


@pytest.mark.parametrize("informative", [True, False])
def test_who_could_decline_in_the_fit_still_can(informative: bool) -> None:
    """Whether new labels come as a table or as annotations of their own, in which nobody declines."""
    stream = np.random.default_rng(0)
    truth = stream.integers(2, size=60)
    rows = [
        (i, w, "?" if stream.random() < 0.1 + 0.6 * truth[i] else str(truth[i])) for i in range(60) for w in "uv"
    ]
    frame = pd.DataFrame(rows, columns=["item", "annotator", "label"])
    known: dict[str, Any] = {"classes": ["0", "1"], "abstentions": ["?"]}
    data = Annotations.from_frame(frame, **known, informative_abstentions=True)
    found = crowdppl.fit("bayesian_dawid_skene", data, inference="vb")
    more = pd.DataFrame({"item": [90, 90, 91], "annotator": list("uvu"), "label": list("011")})
    new = Annotations.from_frame(more, annotators=["u", "v"], **known, informative_abstentions=informative)
    pd.testing.assert_frame_equal(found.predict(new), found.predict(more))
    updated = found.update(new)
    pd.testing.assert_frame_equal(updated.probabilities(), found.update(more).probabilities())
    assert updated.data.alphabet.informative
    mean = {name: site.mean for name, site in found.result.sites.items()}
    share = mean["prevalence"] * mean["confusion"][0, :, 1] * mean["abstention"][0, :, 0]
    np.testing.assert_allclose(found.predict(new).loc[91], share / share.sum(), atol=1e-6)
    filled = crowdppl.fill(found, new, least=1).frame()
    assert filled.equals(crowdppl.fill(found, Annotations.from_frame(more, like=data), least=1).frame())
