"""MMLC: its objective and its oracle worker by hand, populations with and without a centre, the annotator map."""

from dataclasses import replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure
from scipy.stats import gaussian_kde
from torch import nn

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.errors import DoubtWarning, ResultError
from crowdppl.evaluation.evaluate import evaluate
from crowdppl.inference.confusions import probe_block
from crowdppl.inference.typical_labels import TypicalLabels
from crowdppl.networks.classifier import feature_tensor, log_shares
from crowdppl.networks.experts import (
    GRID,
    GatedClassifier,
    count_modes,
    gate_doubts,
    population_centre,
    principal_axes,
    silverman_bandwidth,
    unimodality_p_value,
)
from crowdppl.plots.annotators import annotator_map, plot_annotator_map
from crowdppl.posterior import Posterior
from tests.handmade import coloured
from tests.inference.neural.test_trained import LABELS, objective, tiny
from tests.networks.test_networks import clouds

QUICK = {"n_experts": 4, "widths": [16, 8], "training": {"epochs": 12, "learning_rate": 1e-2, "dropout": 0.0}}


@pytest.fixture(scope="module")
def both() -> tuple[Annotations, pd.Series]:
    return clouds(240, 180)


@pytest.fixture(scope="module")
def fitted(both: tuple[Annotations, pd.Series]) -> Posterior:
    return crowdppl.fit("mmlc", both[0], inference="svi", seed=1, settings=QUICK)


def prepared(data: Annotations, **settings: Any) -> Any:
    torch.manual_seed(0)
    with torch.no_grad():
        torch.set_default_dtype(torch.float32)
        found: Any = crowdppl.method("mmlc", n_experts=3, widths=[5, 4], tower=[6], **settings)
        found = found.setup(data)
        torch.set_default_dtype(torch.float64)
    return found


def answers(model: Any, gate: torch.Tensor, features: Any) -> np.ndarray:
    """p(label) of gates (..., M) on items, (..., N, K), layer by layer from the weights."""
    x = np.asarray(features, np.float64)
    first = model.experts.first
    x = (x - first.mean.double().numpy()) * first.scale.double().numpy()
    w = [p.detach().double().numpy() for p in model.experts.body.parameters()]
    hidden = np.maximum(x @ w[0].T + w[1], 0).reshape(len(x), 3, 5)
    own = w[2].reshape(3, 4, 5), w[3].reshape(3, 4)
    seen = np.maximum(np.einsum("nmj,mhj->nmh", hidden, own[0]) + own[1], 0)
    t = [p.detach().double().numpy() for p in model.experts.tower.parameters()]
    h = np.maximum(np.einsum("...m,nmh->...nh", gate.numpy(), seen) @ t[0].T + t[1], 0)
    odds = np.exp(h @ t[2].T + t[3])
    return np.asarray(odds / odds.sum(-1, keepdims=True))


def gates(n: int = 3, m: int = 3, mass: float = 2.0, seed: int = 1) -> torch.Tensor:
    torch.manual_seed(seed)
    return torch.distributions.Dirichlet(torch.full((n, m), mass)).sample()


@pytest.mark.parametrize("oracle", ["mode", "mean", "median"])
@pytest.mark.parametrize("gold", [None, {0: 1, 3: 2}])
def test_labels_are_of_the_annotators_gate_and_known_truths_of_the_oracles(
    double_precision: None, oracle: Any, gold: dict[int, int] | None
) -> None:
    data, gate = tiny(gold), gates()
    model = prepared(data, oracle=oracle)
    p = answers(model, gate, data.features)
    want = sum(np.log(p[a, i, label]) for i, a, label in LABELS)
    typical = answers(model, population_centre(gate, oracle), data.features)
    want += sum(np.log(typical[i, k]) for i, k in (gold or {}).items())
    assert objective(model, data.as_block(), {"gate": gate}) == pytest.approx(want, rel=1e-5)


def test_a_latent_centre_is_the_oracle_and_draws_gates_around_it(double_precision: None) -> None:
    data, gate = tiny({0: 1}), gates()
    model, centre = prepared(data, oracle="centre"), gates(1)[0]
    values = {"gate": gate, "centre": centre, "closeness": torch.tensor(7.0)}
    labels = answers(model, gate, data.features)
    want = sum(np.log(labels[a, i, x]) for i, a, x in LABELS) + np.log(answers(model, centre, data.features)[0, 1])
    assert objective(model, data.as_block(), values) == pytest.approx(want, rel=1e-5)
    prior = torch.distributions.Dirichlet(7 * centre + 1e-6)
    sites = crowdppl.inference.density.Density(model.model).sites(data.as_block(), values)
    torch.testing.assert_close(sites["gate"].fn.log_prob(gate), prior.log_prob(gate))


def test_where_nothing_is_seen_an_item_is_one_of_the_typical_ones(double_precision: None) -> None:
    data, gate = tiny(), gates()
    model = prepared(data, oracle="mean")
    p, typical = answers(model, gate, data.features), answers(model, gate.mean(0), data.features)
    table, log_p = model.experts.on_typical(gate, gate.mean(0))
    np.testing.assert_allclose(log_p.exp(), typical.mean(0), rtol=1e-5)
    joint = sum(typical[n][:, None] * p[:, n][:, None, :] for n in range(4))
    np.testing.assert_allclose(table.exp(), joint / joint.sum(-1, keepdims=True), rtol=1e-5)
    block = replace(data.as_block(), features=None)
    probe = probe_block(block, TypicalLabels.of([block], ()))
    want = sum(np.log((typical.mean(0) * table.exp().numpy()[a, :, x]).sum()) for a in range(3) for x in range(3))
    assert objective(model, probe, {"gate": gate}) == pytest.approx(want, rel=1e-5)
    chains, prevalence = model.experts.on_typical(torch.stack([gate, gate.flip(0)]), gate[:2])
    torch.testing.assert_close(chains[1], model.experts.on_typical(gate.flip(0), gate[1])[0])
    assert prevalence.shape == (2, 1, 3)


def test_the_truth_is_what_the_oracle_worker_says_whatever_the_labels(
    both: tuple[Annotations, pd.Series], fitted: Posterior
) -> None:
    data, truth = both
    p = fitted.probabilities()
    assert evaluate(p, truth).accuracy > 0.8
    gate = torch.from_numpy(fitted.result.sites["gate"].mean)
    assert gate.shape == (12, 4) and torch.allclose(gate.sum(-1), torch.ones(12, dtype=gate.dtype))
    model: Any = fitted.model
    features = feature_tensor(data)
    found = log_shares(GatedClassifier(model.experts, population_centre(gate)), features).exp()
    np.testing.assert_allclose(p, found, atol=1e-5)
    sites = {name: torch.from_numpy(site.mean) for name, site in fitted.result.sites.items()}
    np.testing.assert_allclose(log_shares(model.classifier(sites), features).exp(), found, atol=1e-6)
    # Right is who names what the oracle worker most probably says: a label of the oracle's errs as others' do.
    assert fitted.annotators()["accuracy"].mean() == pytest.approx(0.6, abs=0.06)


@pytest.mark.slow
def test_a_latent_centre_has_a_posterior(both: tuple[Annotations, pd.Series]) -> None:
    data, truth = both
    settings = {**QUICK, "oracle": "centre"}
    found = crowdppl.fit("mmlc", data, inference="svi", settings=settings)
    assert evaluate(found.probabilities(), truth).accuracy > 0.8
    centre = found.result.sites["centre"].mean
    assert centre.shape == (4,) and centre.sum() == pytest.approx(1)
    assert (found.probabilities(sd=True).to_numpy() > 0).any(), "draws of the centre differ"
    assert (annotator_map(found).query("kind == 'centre'")["away"] == 0).all()


class Own(nn.Module):
    """Experts of a user's own: four linear maps."""

    def __init__(self, size: int = 4) -> None:
        super().__init__()
        self.linear, self.size = nn.Linear(4, size * 5), size

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.linear(x).unflatten(1, (self.size, 5))
        return out


def test_centres_of_a_population_by_hand() -> None:
    crowd = torch.tensor([[0.8, 0.1, 0.1]] * 5 + [[0.1, 0.6, 0.3]] * 2 + [[0.0, 0.9, 0.1]], dtype=torch.float64)
    crowd = crowd + 0.01 * torch.rand(crowd.shape, dtype=crowd.dtype, generator=torch.Generator().manual_seed(0))
    x = crowd.numpy()
    np.testing.assert_allclose(population_centre(crowd, "mean"), x.mean(0))
    middle = np.median(x, 0)
    np.testing.assert_allclose(population_centre(crowd, "median"), middle / middle.sum())
    assert (
        (population_centre(crowd, "mode")[0] - 0.8).abs() < 0.05 < (population_centre(crowd, "mean")[0] - 0.8).abs()
    )
    both_of = population_centre(torch.stack([crowd, crowd.flip(-1)]), "mode")
    torch.testing.assert_close(both_of[1], both_of[0].flip(-1))
    assert torch.equal(population_centre(crowd[:1].repeat(4, 1), "mode"), crowd[0] / crowd[0].sum())


@pytest.mark.parametrize("bandwidth", [None, 0.05])
def test_the_mode_is_that_of_another_density_estimate(bandwidth: float | None) -> None:
    crowd = gates(30, 4, 3.0, seed=5).double()
    at = []
    for x in crowd.numpy().T:
        quartiles = np.quantile(x, [0.25, 0.75])
        h = bandwidth or 0.9 * min(x.std(), (quartiles[1] - quartiles[0]) / 1.34) * 30**-0.2
        assert bandwidth or float(silverman_bandwidth(torch.from_numpy(x))) == pytest.approx(h)
        grid = np.linspace(x.min(), x.max(), GRID)
        at.append(grid[gaussian_kde(x, h / x.std(ddof=1))(grid).argmax()])
    np.testing.assert_allclose(population_centre(crowd, "mode", bandwidth), np.array(at) / sum(at), atol=1e-9)


def test_silvermans_test_tells_one_mode_from_two() -> None:
    stream = np.random.default_rng(0)
    one = [unimodality_p_value(stream.normal(size=60), stream) for _ in range(10)]
    two = [
        unimodality_p_value(np.append(stream.normal(size=30), 5 + stream.normal(size=30)), stream) for _ in range(5)
    ]
    assert np.mean(one) > 0.2 and min(one) > 0.01 and max(two) < 0.05
    assert unimodality_p_value(np.ones(20), stream) == 1
    assert (
        count_modes(np.array([0.0, 0.1, 3.0, 3.1]), 0.3) == 2
        and count_modes(np.array([0.0, 0.1, 3.0, 3.1]), 3.0) == 1
    )


def test_populations_without_a_centre_are_doubted() -> None:
    def kinds(crowd: torch.Tensor) -> list[str]:
        return [doubt.kind for doubt in gate_doubts(crowd.double().numpy())]

    tight = gates(40, 5, 60.0)
    assert kinds(tight) == []
    assert kinds(tight[:4]) == [], "of so few nothing is said"
    corners = torch.eye(5)[torch.arange(40) % 2]
    assert "modes" in kinds(0.8 * corners + 0.2 * tight)
    assert kinds(gates(40, 8, 1.0)) == ["diffuse"], "spread evenly over all gates"


def test_the_plane_is_that_of_the_largest_spread() -> None:
    line = np.array([[0.2, 0.8, 0], [0.4, 0.6, 0], [0.6, 0.4, 0], [0.8, 0.2, 0]])
    mean, axes, share = principal_axes(line)
    np.testing.assert_allclose(mean, [0.5, 0.5, 0])
    np.testing.assert_allclose(np.abs(axes[:, 0]), [0.5**0.5, 0.5**0.5, 0], atol=1e-12)
    np.testing.assert_allclose(share, [1, 0], atol=1e-12)
    np.testing.assert_allclose(principal_axes(np.full((3, 4), 0.25))[2], 0)


@pytest.mark.slow
def test_two_kinds_of_annotators_lie_apart_on_the_map() -> None:
    """Of 16 annotators, 5 swap two classes always: nobody told the fit."""
    stream = np.random.default_rng(1)
    truth = stream.integers(0, 3, 300)
    features = pd.DataFrame(2.5 * np.eye(3, 4)[truth] + stream.normal(size=(300, 4)))
    rows = [(i, a) for i in range(300) for a in stream.choice(16, 3, replace=False)]
    label = [(1, 0, 2)[truth[i]] if a < 5 else truth[i] for i, a in rows]
    frame = pd.DataFrame(rows, columns=["item", "annotator"]).assign(label=label)
    data = Annotations.from_frame(frame, features=features, classes=range(3))
    settings = {**QUICK, "training": {**QUICK["training"], "epochs": 25}}
    found = crowdppl.fit("mmlc", data, inference="svi", settings=settings)
    with pytest.warns(DoubtWarning, match="several modes"):
        table = annotator_map(found)
    people = table[table["kind"] == "annotator"].set_index("annotator")
    swap = people.index.to_numpy().astype(int) < 5
    assert people["away"][swap].min() > 1.3 * people["away"][~swap].max()
    assert abs(people["x"][swap].mean() - people["x"][~swap].mean()) > 4 * people["x"][~swap].std()
    mode, mean = (shares_of(found, data, kind) for kind in ("mode", "mean"))
    assert (mode.argmax(1) == truth).mean() > 0.9
    sure = [p[np.arange(300), truth].mean() for p in (mode, mean)]
    assert sure[0] > sure[1] + 0.01, "the mean blends both kinds"
    assert list(people["labels"]) == list(np.bincount(frame["annotator"]))


def shares_of(found: Posterior, data: Annotations, kind: Any) -> np.ndarray:
    model: Any = found.model
    features = feature_tensor(data)
    gate = population_centre(torch.from_numpy(found.result.sites["gate"].mean), kind)
    return np.asarray(log_shares(GatedClassifier(model.experts, gate), features).exp())


def test_the_map_names_who_is_far_and_draws_in_greys(fitted: Posterior) -> None:
    table, ax = annotator_map(fitted), Figure().subplots()
    assert plot_annotator_map(fitted, ax=ax) is ax and plt.get_fignums() == []
    people = table[table["kind"] == "annotator"]
    assert list(table["kind"][12:]) == ["mode", "mean", "median"] and table["annotator"][12:].isna().all()
    drawn = np.asarray(ax.collections[0].get_offsets())
    order = people["labels"].sort_values(ascending=False, kind="stable").index
    np.testing.assert_allclose(drawn, people.loc[order, ["x", "y"]])
    np.testing.assert_allclose(people[["x", "y"]].mean(), 0, atol=1e-12)
    named = [text.get_text() for text in ax.texts]
    assert set(named) == set(people.nlargest(6, "away")["annotator"].astype(str))
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["annotator (12)", "mode, the oracle worker", "mean", "median"]
    assert coloured(ax) == []


def test_experts_of_a_users_own_are_handed_over_again(both: tuple[Annotations, pd.Series], tmp_path: Any) -> None:
    settings = {**QUICK, "experts": Own(), "training": {"epochs": 1}}
    found = crowdppl.fit("mmlc", both[0], inference="svi", settings=settings)
    found.save(tmp_path)
    with pytest.raises(ResultError, match="model="):
        crowdppl.load(tmp_path)
    again = crowdppl.load(tmp_path, model=crowdppl.method("mmlc", **settings))
    pd.testing.assert_frame_equal(again.predict(both[0]), found.predict(both[0]), check_exact=True)
