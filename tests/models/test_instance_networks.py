"""Second networks, which see how annotators err on an item: objectives by hand, limits, and what a fit promises."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from crowdppl.models.madl import label_weights
from torch import nn
from torch.nn.functional import normalize

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.evaluation.evaluate import evaluate
from crowdppl.networks.classifier import outputs
from tests.inference.neural.test_trained import LABELS, objective, prepared, rows, shares, tiny
from tests.networks.test_networks import clouds

pytestmark = pytest.mark.usefixtures("double_precision")
NAMES = {"instance_trace": "errors", "madl": "view", "conal": "view"}
"""Methods, and the setting that holds the second network of each."""
WIDTH = 2


def seen(name: str, data: Annotations, **settings: Any) -> tuple[Any, np.ndarray, np.ndarray]:
    """A model, its classifier's probabilities and what its second network returns, by item."""
    torch.manual_seed(1)
    own = nn.Linear(2, WIDTH, dtype=torch.float32)
    model = prepared(name, data, width=WIDTH, **{NAMES[name]: own}, **settings)
    x = np.asarray(data.features, np.float64)
    x = (x - x.mean(0)) / x.std(0)
    u = x @ own.weight.detach().double().numpy().T + own.bias.detach().double().numpy()
    return model, shares(model, data), u


def softmax(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(x) / np.exp(x).sum(-1, keepdims=True))


@pytest.mark.parametrize("likelihood", ["per_annotation", "joint"])
@pytest.mark.parametrize("gold", [None, {0: 1, 3: 2}])
def test_instance_trace_by_hand(likelihood: str, gold: dict[int, int] | None) -> None:
    data = tiny(gold)
    model, f, u = seen("instance_trace", data, weight=0.3, likelihood=likelihood)
    a, lean = rows(), torch.randn(3, WIDTH, 3, 3)
    known = sum(np.log(f[item, name]) for item, name in (gold or {}).items())  # once, however many labels
    for item, name in (gold or {}).items():
        f[item] = np.arange(3) == name
    bent = [softmax(np.log(a[w].numpy()) + np.tensordot(u[i], lean[w].numpy(), 1)) for i, w, _ in LABELS]
    if likelihood == "joint":
        each = [
            f[j] * np.prod([b[:, x] for b, (i, _, x) in zip(bent, LABELS, strict=True) if i == j], 0)
            for j in range(4)
        ]
        want = sum(np.log(p.sum()) for p in each)
    else:
        want = sum(np.log(f[i] @ b[:, x]) for b, (i, _, x) in zip(bent, LABELS, strict=True))
    want += known - 0.3 * sum(np.trace(b) for b in bent)  # a mean over labels, once for each label
    values = {"confusion": a, "lean": lean}
    assert objective(model, data.as_block(), values) == pytest.approx(want, rel=1e-5)


def test_unbent_rows_are_those_of_ccem() -> None:
    data, a = tiny(), rows()
    model, _, _ = seen("instance_trace", data, weight=0.0)
    values = {"confusion": a, "lean": torch.zeros(3, WIDTH, 3, 3)}
    want = objective(prepared("ccem", data), data.as_block(), {"confusion": a})
    assert objective(model, data.as_block(), values) == pytest.approx(want, rel=1e-9)


def performance(v: np.ndarray, u: np.ndarray, mix: np.ndarray, readout: np.ndarray) -> np.ndarray:
    """Confusion rows by the equations of the model; annotators start right in four of five."""
    inner = np.maximum(v + np.concatenate([v, u, np.outer(v, u).ravel()]) @ mix, 0)
    return softmax(np.tensordot(inner, readout, 1) + np.log(0.8 * 2 / 0.2) * np.eye(3))


@pytest.mark.parametrize("weighted", [True, False])
def test_madl_by_hand(weighted: bool) -> None:
    data = tiny({3: 2})
    model, f, u = seen("madl", data, weighted=weighted)
    v, mix, readout = torch.randn(3, WIDTH), torch.randn(2 * WIDTH + WIDTH**2, WIDTH), torch.randn(WIDTH, 3, 3)
    scale = 0.7
    alike = [sum(np.exp(-scale * ((a - b) ** 2).sum()) for b in v.numpy()) for a in v.numpy()]
    weight = np.divide(1, alike) / np.divide(1, alike).mean() if weighted else np.ones(3)
    want = np.log(f[3, 2])
    f[3] = [0, 0, 1]
    for i, a, label in LABELS:
        b = performance(v[a].numpy(), u[i], mix.numpy(), readout.numpy())
        want += weight[a] * np.log(f[i] @ b[:, label])
    prior = 1.25 * np.log(0.25) - 0.0982718364218 + 0.25 * np.log(scale) - 0.25 * scale  # log Gamma(1.25) = -.0983
    want += len(LABELS) * (prior + 2 * 0.0982718364218)
    values = {"embedding": v, "mix": mix, "readout": readout, "scale": torch.tensor([scale])}
    assert objective(model, data.as_block(), values) == pytest.approx(want, rel=1e-5)


def test_annotators_who_are_alike_share_their_weight() -> None:
    apart = torch.tensor([[0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [50.0, 0.0]])
    np.testing.assert_allclose(label_weights(apart, torch.tensor(1.0)), [2 / 3, 2 / 3, 2 / 3, 2], rtol=1e-12)
    np.testing.assert_allclose(label_weights(apart, torch.tensor(1e-12)), 1, rtol=1e-6)  # from afar all are alike
    np.testing.assert_allclose(label_weights(apart, None), 1)


@pytest.mark.parametrize("begin", ["apart", pytest.param("near", marks=pytest.mark.slow)])
def test_who_guess_alike_share_their_weight_where_embeddings_begin_near(begin: str) -> None:
    """Eight good annotators, and six of whom five repeat the guesses of one."""
    torch.set_default_dtype(torch.float32)
    stream, spammer = np.random.default_rng(0), crowdppl.simulation.annotator_kind("spammer")
    truth, means = pd.Series(stream.integers(4, size=400)), 1.5 * stream.normal(size=(4, 6))
    x = pd.DataFrame(means[truth] + stream.normal(size=(400, 6)))
    group = crowdppl.simulation.annotator_kind("copying_group", copiers=5, p=1.0, leader=spammer, own=spammer)
    drawn = crowdppl.simulate_annotators(truth, ["hammer"] * 8 + [group], labels_per_item=6, features=x, seed=0)
    settings = {"begin": begin, "training": {"epochs": 60 if begin == "near" else 5, "learning_rate": 0.01}}
    found = crowdppl.fit("madl", drawn.data, settings=settings, seed=0)
    embedding, scale = (torch.tensor(found.result.sites[name].mean) for name in ("embedding", "scale"))
    weight = label_weights(embedding, scale).numpy()
    good = found.annotators().index.str.startswith("hammer")
    if begin == "near":
        assert weight[~good].mean() < 0.9 and weight[good].mean() > 1.05
    else:
        np.testing.assert_allclose(weight, 1, atol=0.05)


def test_conal_by_hand() -> None:
    data = tiny()
    model, f, u = seen("conal", data, weight=0.01)
    common, own, taste = torch.randn(3, 3), torch.randn(3, 3, 3), torch.randn(3, WIDTH)
    want = 0.0
    for i, a, label in LABELS:
        t = taste[a].numpy()
        w = 1 / (1 + np.exp(-(u[i] @ t) / np.linalg.norm(u[i]) / np.linalg.norm(t)))
        logits = f[i] @ (w * common.numpy() + (1 - w) * own[a].numpy())
        want += np.log(softmax(logits)[label])
    want += 0.01 * len(LABELS) * sum(np.linalg.norm(x - common.numpy()) for x in own.numpy())
    values = {"common": common, "individual": own, "taste": taste}
    assert objective(model, data.as_block(), values) == pytest.approx(want, rel=1e-5)


def drawn(model: Any) -> dict[str, torch.Tensor]:
    values = {
        "confusion": rows(),
        "lean": torch.randn(3, WIDTH, 3, 3),
        "embedding": torch.randn(3, WIDTH),
        "mix": torch.randn(2 * WIDTH + WIDTH**2, WIDTH),
        "readout": torch.randn(WIDTH, 3, 3),
        "scale": torch.tensor([0.7]),
        "common": torch.randn(3, 3),
        "individual": torch.randn(3, 3, 3),
        "taste": torch.randn(3, WIDTH),
    }
    return {site: x for site, x in values.items() if site in model.card.sites}


@pytest.mark.parametrize("name", NAMES)
def test_a_minibatch_stands_for_all_items(name: str) -> None:
    data = tiny()
    model, _, _ = seen(name, data)
    values, whole = drawn(model), data.as_block()
    each = [objective(model, whole.subset(np.array(x), 2.0), values) for x in ([0, 1], [2, 3])]
    assert np.mean(each) == pytest.approx(objective(model, whole, values), rel=1e-9)


@pytest.mark.parametrize(
    "name", ["madl", *(pytest.param(x, marks=pytest.mark.slow) for x in ("instance_trace", "conal"))]
)
def test_a_fit_learns_the_truth_is_the_same_again_and_survives_the_disk(name: str, tmp_path: Any) -> None:
    torch.set_default_dtype(torch.float32)
    data, truth = clouds(240, 180)
    settings = {"training": {"epochs": 8, "learning_rate": 5e-3}}
    one, two = (crowdppl.fit(name, data, inference="svi", seed=3, settings=settings) for _ in range(2))
    [run] = one.diagnostics()["restarts"]
    assert (run["start"], run["iterations"]) == ("votes", len(one.diagnostics()["objectives"]))
    pd.testing.assert_frame_equal(one.probabilities(), two.probabilities(), check_exact=True)
    assert evaluate(one.probabilities(), truth).accuracy > 0.75
    assert evaluate(one.classify(data.features), truth).accuracy > 0.75
    gains = one.diagnostics()["objectives"]
    assert len(gains) == 8 and gains[-1] > gains[0]
    second = getattr(one.model, NAMES[name])
    assert not torch.equal(second.body[0].weight, one.model.network.body[0].weight)
    second.begin(3)
    first = second.body[0].weight.clone()
    one.model.network.begin(3)
    assert not torch.equal(first, one.model.network.body[0].weight)
    two.save(tmp_path)
    again = crowdppl.load(tmp_path)
    pd.testing.assert_frame_equal(again.predict(data), two.predict(data), check_exact=True)
    pd.testing.assert_frame_equal(again.classify(data.features), two.classify(data.features), check_exact=True)


@pytest.mark.slow
def test_who_errs_where_is_learned() -> None:
    """Two of four annotators call class 1 class 0, on one side of a feature that tells nothing of the class."""
    torch.set_default_dtype(torch.float32)
    rng = np.random.default_rng(0)
    n = 500
    truth, side = rng.integers(0, 3, n), rng.normal(size=n)
    features = pd.DataFrame(np.c_[2.5 * np.eye(3)[truth] + rng.normal(size=(n, 3)), 3 * side])
    item, who = np.indices((n, 4)).reshape(2, -1)
    misled = (truth[item] == 1) & (side[item] > 0) & (who < 2) & (rng.random(len(item)) < 0.8)
    frame = pd.DataFrame({"item": item, "annotator": who, "label": np.where(misled, 0, truth[item])})
    data = Annotations.from_frame(frame, classes=range(3), features=features)
    settings = {"training": {"epochs": 10, "learning_rate": 1e-2}}
    found = crowdppl.fit("instance_trace", data, inference="svi", settings=settings)
    sites = {name: site.mean[:, ..., 1, :] for name, site in found.result.sites.items()}
    x = torch.tensor(features.loc[truth == 1].to_numpy(np.float32))
    u = found.model.errors(x).detach().numpy()
    bent = softmax(np.log(sites["confusion"]) + np.einsum("nr,arl->nal", u, sites["lean"]))[..., 0]
    more = bent[side[truth == 1] > 0].mean(0) - bent[side[truth == 1] <= 0].mean(0)
    assert (more[:2] > 0.2).all() and (more[2:] < 0.05).all(), more


@pytest.mark.parametrize("name", NAMES)
def test_tables_are_averages_over_items_as_they_are_seen(name: str) -> None:
    torch.set_default_dtype(torch.float32)  # as users have it
    stream = np.random.default_rng(2)
    truth = np.arange(40) % 3
    x = pd.DataFrame(np.stack([truth, truth == 1], 1) + 0.3 * stream.normal(size=(40, 2)))
    labels = [(i, f"a{a}", (truth[i] + (stream.random() < 0.3)) % 3) for i in range(40) for a in range(4)]
    data = Annotations.from_arrays(*zip(*labels, strict=True), features=x)
    settings = {"width": WIDTH, "training": {"epochs": 15, "learning_rate": 0.05}}
    posterior = crowdppl.fit(name, data, inference="svi", settings=settings, seed=0)
    model: Any = posterior.model
    of = {n: torch.from_numpy(np.asarray(s.mean)).double() for n, s in posterior.result.sites.items()}
    u = outputs(getattr(model, NAMES[name]), torch.tensor(x.to_numpy(np.float32))).double()
    p = torch.tensor(posterior.classify(x).to_numpy())
    each = []
    for a in range(4):
        if name == "instance_trace":
            rows_of = of["confusion"][a].log() + torch.einsum("nr,rkl->nkl", u, of["lean"][a])
        elif name == "madl":
            rows_of = model._rows(of["embedding"][a].expand(len(u), -1), u, of["mix"], of["readout"])
        else:
            share = (normalize(u, dim=-1) @ normalize(of["taste"][a], dim=-1)).sigmoid()[:, None, None]
            layer = share * of["common"] + (1 - share) * of["individual"][a]
            rows_of = (p.unsqueeze(-2) @ layer).expand(-1, 3, -1)  # a label depends on what the classifier sees
        # What depends on no truth is of items that are most probably of a class.
        of_class = nn.functional.one_hot(p.argmax(1), 3).double() if name == "conal" else p
        each.append(torch.einsum("nk,nkl->kl", of_class, rows_of.softmax(-1)) / of_class.sum(0)[:, None])
    np.testing.assert_allclose(posterior.result.table, torch.stack(each).numpy(), atol=1e-4)
    np.testing.assert_allclose(posterior.result.prevalence, p.mean(0).numpy(), atol=1e-4)
    assert np.ptp(posterior.result.table.diagonal(axis1=1, axis2=2)) > 0.01  # there is something to average
