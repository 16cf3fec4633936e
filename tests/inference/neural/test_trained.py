"""Networks and annotators that learn together by gradients: their likelihoods by hand, and what a fit promises."""

from typing import Any

import numpy as np
import pandas as pd
import pyro
import pytest
import torch
from pyro import poutine
from pyro.infer import TraceEnum_ELBO
from torch import nn

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.data.blocks import Block
from crowdppl.errors import MethodError, NumericalError
from crowdppl.evaluation.evaluate import evaluate
from crowdppl.networks.training import log_volume
from tests.networks.test_networks import clouds

pytestmark = pytest.mark.usefixtures("double_precision")
LABELS = [(0, 0, 0), (0, 1, 1), (0, 2, 0), (1, 0, 1), (1, 2, 2), (2, 1, 2), (3, 0, 0), (3, 1, 0)]


def tiny(gold: dict[int, int] | None = None) -> Annotations:
    frame = pd.DataFrame(LABELS, columns=["item", "annotator", "label"])
    features = pd.DataFrame(np.random.default_rng(0).normal(size=(5, 2)))
    items = range(5 if gold and 4 in gold else 4)
    return Annotations.from_frame(frame, classes=range(3), items=items, features=features.loc[items], gold=gold)


def prepared(name: str, data: Annotations, **settings: Any) -> Any:
    torch.manual_seed(0)
    model: Any = crowdppl.method(name, network=nn.Linear(2, 3, dtype=torch.float32), **settings)
    return model.setup(data)


def shares(model: Any, data: Annotations) -> np.ndarray:
    """What the classifier makes of items, by code: worked out beside the library, from the weights."""
    x = np.asarray(data.features, np.float64)
    x = (x - x.mean(0)) / x.std(0)
    linear = model.network.body
    logits = x @ linear.weight.detach().double().numpy().T + linear.bias.detach().double().numpy()
    p = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(p / p.sum(1, keepdims=True))


def objective(model: Any, block: Block, values: dict[str, torch.Tensor]) -> float:
    """log p(labels | values) + potentials, by Pyro's own enumeration; what the values' priors say is taken off."""
    program = poutine.block(poutine.condition(model.model, data=values), hide=list(values))
    with pyro.get_param_store().scope(), pyro.validation_enabled(False):
        return -float(TraceEnum_ELBO(max_plate_nesting=1).loss(program, lambda data: None, block))


def rows(n: int = 3) -> torch.Tensor:
    return torch.distributions.Dirichlet(torch.full((n, 3, 3), 2.0)).sample()


@pytest.mark.parametrize("gold", [None, {0: 1, 3: 2}, {0: 1, 4: 2}])
def test_per_annotation_is_a_sum_over_labels_and_joint_over_items(gold: dict[int, int] | None) -> None:
    """Either way, a known truth counts once, however many labels its item has: item 4 has none."""
    data = tiny(gold)
    for likelihood in ("per_annotation", "joint"):
        model = prepared("ccem", data, likelihood=likelihood)
        f, a = shares(model, data), rows()
        known = sum(np.log(f[item, name]) for item, name in (gold or {}).items())
        for item, name in (gold or {}).items():
            f[item] = np.arange(3) == name
        if likelihood == "per_annotation":
            want = known + sum(np.log(f[i] @ a[w, :, label].numpy()) for i, w, label in LABELS)
        else:
            each = [f[j] * np.prod([a[w, :, x].numpy() for i, w, x in LABELS if i == j], 0) for j in range(len(f))]
            want = known + sum(np.log(x.sum()) for x in each)
        assert objective(model, data.as_block(), {"confusion": a}) == pytest.approx(want, rel=1e-5)


def test_the_trace_and_the_volumes_by_hand() -> None:
    data, a = tiny(), rows()
    plain = objective(prepared("ccem", data), data.as_block(), {"confusion": a})
    trace = objective(prepared("trace_reg", data, weight=0.3), data.as_block(), {"confusion": a})
    assert trace - plain == pytest.approx(-0.3 * sum(np.trace(a[w].numpy()) for _, w, _ in LABELS), rel=1e-6)
    model = prepared("geo_crowdnet", data, weight=0.2)
    f = shares(model, data)
    found = objective(model, data.as_block(), {"confusion": a}) - plain
    assert found == pytest.approx(0.2 * len(LABELS) * np.log(np.linalg.det(f.T @ f + 1e-6 * np.eye(3))), rel=1e-4)
    stacked = np.concatenate([x.T for x in a.numpy()])  # annotator by annotator, a column for each truth
    model = prepared("geo_crowdnet", data, weight=0.2, volume="W")
    found = objective(model, data.as_block(), {"confusion": a}) - plain
    want = 0.2 * len(LABELS) * np.log(np.linalg.det(stacked.T @ stacked + 1e-6 * np.eye(3)))
    assert found == pytest.approx(want, rel=1e-5)
    assert float(log_volume(torch.eye(3)[[0, 0, 1]])) == pytest.approx(np.log(2e-6), abs=1e-3)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        *[("trace_reg", {"weight": 0.3}), ("instance_trace", {"weight": 0.3}), ("conal", {"weight": 0.3})],
        *[("geo_crowdnet", {"weight": 0.2}), ("geo_crowdnet", {"weight": 0.2, "volume": "W"}), ("madl", {})],
    ],
)
def test_who_declines_pays_no_penalty(name: str, settings: dict[str, Any]) -> None:
    """Rows that name no class add their own probability, and nothing that depends on networks or annotators."""
    plain, answers = tiny(), [*LABELS, (1, 1, 9), (3, 2, 9), (2, 1, 9)]
    frame = pd.DataFrame(answers, columns=["item", "annotator", "label"])
    known = {"classes": range(3), "items": range(4), "features": plain.features, "abstentions": [9]}
    declined = Annotations.from_frame(frame, **known)
    torch.set_default_dtype(torch.float32)  # in which second networks are made
    model = prepared(name, plain, **settings)
    torch.set_default_dtype(torch.float64)
    drawn = poutine.trace(poutine.seed(model.model, 0)).get_trace(plain.as_block())
    hidden = [n for n in drawn.stochastic_nodes if n not in ("truth", "label", "items", "labels", "annotators")]
    rate = torch.tensor([0.9, 0.7, 0.6])
    share = torch.stack([rate, 1 - rate], -1)[:, None, :]
    added = sum(np.log(float(share[a, 0, int(label == 9)])) for _, a, label in answers if a in (1, 2))
    for scale in (0.5, 1.0):
        sites = {n: torch.as_tensor(drawn.nodes[n]["value"]).double().abs() * scale for n in hidden}
        sites |= {n: x / x.sum(-1, keepdim=True) for n, x in sites.items() if n == "confusion"}
        found = objective(model, declined.as_block(), {**sites, "abstention": share})
        assert found - added == pytest.approx(objective(model, plain.as_block(), sites), rel=1e-6)


@pytest.mark.parametrize("form", ["MW", "VW", "VB", "VW+B"])
def test_crowd_layers_by_hand(form: str) -> None:
    data = tiny()
    model = prepared("crowd_layer", data, form=form)
    w = torch.randn(3, {"MW": 3, "VW+B": 2}.get(form, 1), 3)
    f, want = shares(model, data), 0.0
    for i, a, label in LABELS:
        v = w[a].numpy()
        logits = {"MW": v @ f[i] if form == "MW" else 0, "VW": v[0] * f[i], "VB": f[i] + v[0]}
        logits["VW+B"] = v[0] * f[i] + v[-1]
        chosen = np.asarray(logits[form])
        want += chosen[label] - np.log(np.exp(chosen).sum())
    assert objective(model, data.as_block(), {"weights": w}) == pytest.approx(want, rel=1e-5)


def test_where_nothing_is_seen_traces_that_depend_on_items_are_those_that_do_not() -> None:
    """Without features, instance_trace says that it is trace_reg; with errors that do not bend, it is, too."""
    data, a = tiny(), rows()
    plain = objective(prepared("trace_reg", data, weight=0.3), data.as_block(), {"confusion": a})
    torch.set_default_dtype(torch.float32)  # in which its second network is made
    straight = prepared("instance_trace", data, weight=0.3)
    torch.set_default_dtype(torch.float64)
    sites = {"confusion": a, "lean": torch.zeros(len(a), straight.width, 3, 3)}
    assert objective(straight, data.as_block(), sites) == pytest.approx(plain, rel=1e-6)


def test_a_minibatch_stands_for_all_items() -> None:
    data, a = tiny({1: 1, 2: 0}), rows()
    model = prepared("trace_reg", data)
    whole = data.as_block()
    halves = [whole.subset(np.array(x), 2.0) for x in ([0, 1], [2, 3])]
    each = [objective(model, half, {"confusion": a}) for half in halves]
    assert np.mean(each) == pytest.approx(objective(model, whole, {"confusion": a}), rel=1e-9)


@pytest.mark.parametrize("name", ["crowd_layer", "bayes_dgc"])
def test_a_fit_by_gradients_learns_the_truth(name: str) -> None:
    torch.set_default_dtype(torch.float32)
    data, truth = clouds(240, 180)
    settings: dict[str, Any] = {"training": {"epochs": 8, "learning_rate": 1e-2}}
    settings |= {"recipe": "plain"} if name == "bayes_dgc" else {}
    one = crowdppl.fit(name, data, inference="svi", seed=3, settings=settings)
    assert evaluate(one.probabilities(), truth).accuracy > 0.75
    assert evaluate(one.classify(data.features), truth).accuracy > 0.75
    gains = one.diagnostics()["objectives"]
    assert len(gains) == 8 and gains[-1] > gains[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ccem", "crowd_layer", "instance_trace", "conal", "madl", "mmlc"])
def test_known_truths_teach_where_no_labels_are(name: str) -> None:
    """Labels are drawn blindly; in batches of two, most hold known truths alone."""
    torch.set_default_dtype(torch.float32)
    stream = np.random.default_rng(0)
    truth = stream.integers(2, size=90)
    x = pd.DataFrame(stream.normal(size=(90, 2)) + 4 * truth[:, None])
    rows = [(i, w, int(stream.integers(2))) for i in range(15) for w in "uv"]
    frame = pd.DataFrame(rows, columns=["item", "annotator", "label"])
    gold = {i: int(truth[i]) for i in range(15, 45)}
    data = Annotations.from_frame(frame, items=range(90), features=x, gold=gold)
    training = {"epochs": 3, "batch_size": 2, "learning_rate": 1e-2, "dropout": 0.0}
    found = crowdppl.fit(name, data, inference="svi", settings={"training": training})
    guess = found.classify(x).loc[60:].idxmax(axis=1)
    assert (guess == truth[60:]).mean() > 0.9


def test_the_truth_is_the_joint_answer_and_that_of_a_crowd_layer_the_classifier_alone() -> None:
    torch.set_default_dtype(torch.float32)
    data, _ = clouds(120, 80)
    settings = {"training": {"epochs": 3}}
    ccem = crowdppl.fit("ccem", data, inference="svi", settings=settings)
    log_p = np.log(ccem.classify(data.features).to_numpy())
    table, frame = ccem.result.sites["confusion"].mean, data.frame()
    item, who = data.items.get_indexer(frame["item"]), data.annotators.get_indexer(frame["annotator"])
    np.add.at(log_p, item, np.log(table[who, :, data.classes.get_indexer(frame["label"])]))
    p = np.exp(log_p - log_p.max(1, keepdims=True))
    np.testing.assert_allclose(ccem.probabilities(), p / p.sum(1, keepdims=True), atol=1e-6)
    layer = crowdppl.fit("crowd_layer", data, inference="svi", settings=settings)
    np.testing.assert_allclose(layer.probabilities(), layer.classify(data.features), atol=1e-6)
    weights = layer.result.sites["weights"].mean
    odds = np.exp(weights).transpose(0, 2, 1)
    np.testing.assert_allclose(layer.confusion(), odds / odds.sum(-1, keepdims=True), atol=1e-6)


def test_a_network_on_votes_learns_the_votes_and_has_no_say() -> None:
    torch.set_default_dtype(torch.float32)
    data, truth = clouds()
    settings = {"network": "default", "training": {"epochs": 30, "learning_rate": 5e-3}}
    found = crowdppl.fit("majority_vote", data, inference="em", settings=settings)
    plain = crowdppl.fit("majority_vote", data, inference="em")
    np.testing.assert_allclose(found.probabilities(), plain.probabilities(), atol=1e-4)
    assert evaluate(found.classify(data.features), truth).accuracy > 0.8
    with pytest.raises(MethodError, match="svi cannot train the network"):
        crowdppl.fit("majority_vote", data, inference="svi", settings=settings)


def test_what_has_no_meaning_is_refused_by_name() -> None:
    torch.set_default_dtype(torch.float32)
    data, _ = clouds(60, 40)
    with pytest.raises(MethodError, match="full_batch=True"):
        crowdppl.fit("ccem", data, inference="svi", settings={"training": {"full_batch": True}})
    for name in ("balance", "volume"):
        with pytest.raises(MethodError, match=rf"{name}=0\.5 .* Mmlc has none"):
            crowdppl.fit("mmlc", data, inference="svi", settings={"training": {name: 0.5}})
    with pytest.raises(MethodError, match="batch_size has no meaning"):
        crowdppl.fit("ccem", data, inference="svi", batch_size=10)
    with pytest.raises(NumericalError, match=r"epoch \d, step \d+; lower learning_rate"):
        settings = {"training": {"learning_rate": 1e30, "epochs": 3}}
        crowdppl.fit("ccem", data, inference="svi", settings=settings)
