"""Unrolled EM against loops, the model, the engine and its limits; meta-training; fits of few-shot tasks."""

import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import crowdppl
from crowdppl.errors import DataError, MethodError, NumericalError, ResultError
from crowdppl.few_shot.tasks import EpisodeSampler, Tasks
from crowdppl.few_shot.unrolled_em import UnrolledEM, em_steps
from crowdppl.inference.density import Density
from crowdppl.inference.families import FAMILIES
from crowdppl.inference.vb.coordinate_ascent import EM
from crowdppl.inference.vb.fit import run_starts
from crowdppl.networks.embedding import Embedding
from tests.crowd import crowd, double, problem_of

N, M, A, K = 9, 2, 3, 3
Labels = tuple[Tensor, Tensor, Tensor]


def problem(seed: int, tasks: int = 1) -> tuple[Tensor, Labels, Tensor]:
    rng = np.random.default_rng(seed)
    item, annotator = np.nonzero(rng.random((tasks * N, A)) < 0.7)
    annotator = item // N * A + annotator
    label = rng.integers(0, K, len(item))
    placed = torch.from_numpy(rng.normal(size=(tasks, N, M)) * 1.5)
    return placed, (torch.from_numpy(item), torch.from_numpy(annotator), torch.from_numpy(label)), prior(rng)


def prior(rng: np.random.Generator) -> Tensor:
    return torch.from_numpy(rng.uniform(0.2, 2, (A, K, K)))


def loops(
    u: np.ndarray,
    labels: Labels,
    c: np.ndarray,
    steps: int,
    tau: float,
    b: float,
    tied: bool = False,
    power: float = 1.0,
) -> dict[str, Any]:
    """The same steps, item by item."""
    rows = list(zip(*(x.tolist() for x in labels), strict=True))
    r = np.full((N, K), 0.01)
    for i, _, k in rows:
        r[i, k] += 1
    r /= r.sum(1, keepdims=True)
    objectives = []
    for _ in range(steps):
        mean = np.array([sum(r[i, k] * u[i] for i in range(N)) / (tau + r[:, k].sum()) for k in range(K)])
        share = (r.sum(0) + b) / (N + K * b)
        table = c.copy()
        for i, a, k in rows:
            table[a, :, k] += power * r[i]
        for a in range(A if tied else 0):
            right = sum(table[a, k, k] for k in range(K)) / table[a].sum()
            table[a] = [[right if k == y else (1 - right) / (K - 1) for y in range(K)] for k in range(K)]
        table /= table.sum(-1, keepdims=True)
        total = b * np.log(share).sum() + (c * np.log(table)).sum() - tau / 2 * (mean**2).sum()
        for i in range(N):
            p = share * np.array([math.exp(-((u[i] - m) ** 2).sum() / 2) / (2 * math.pi) ** (M / 2) for m in mean])
            for j, a, k in rows:
                p = p * table[a, :, k] ** power if j == i else p
            r[i], total = p / p.sum(), total + math.log(p.sum())
        objectives.append(total)
    return {"shares": r, "mean": mean, "prevalence": share, "confusion": table, "objectives": np.array(objectives)}


@pytest.mark.parametrize(("tied", "power"), [(False, 1.0), (True, 1.0), (False, 0.4)])
@pytest.mark.parametrize("seed", range(2))
def test_steps_equal_plain_loops(seed: int, tied: bool, power: float) -> None:
    placed, labels, c = problem(seed)
    found = em_steps(placed[0], *labels, c, steps=4, tau=0.5, prevalence=2.0, tied=tied, power=power)
    want = loops(placed[0].numpy(), labels, c.numpy(), 4, 0.5, 2.0, tied, power)
    for name, x in vars(found).items():
        np.testing.assert_allclose(x, want[name], rtol=1e-10, err_msg=name)


def test_items_without_votes_are_left_out_of_the_first_step_alone() -> None:
    """Two items with votes, at 0 and 2, and one without, at 9; known not to be of class 0, it is not left out."""
    u, prior = torch.tensor([[0.0], [2.0], [9.0]]).double(), torch.eye(2).double().expand(1, 2, 2)
    votes, none = (torch.tensor([0, 1]), torch.zeros(2, dtype=torch.int64), torch.tensor([0, 1])), torch.zeros(3, 2)
    first = em_steps(u, *votes, prior, steps=1, tau=0.0)
    alone = em_steps(u[:2], *votes, prior, steps=1, tau=0.0)
    torch.testing.assert_close(first.mean, alone.mean)
    torch.testing.assert_close(first.shares.sum(-1), torch.ones(3).double())
    second = em_steps(u, *votes, prior, steps=2, tau=0.0)
    torch.testing.assert_close(second.mean, first.shares.mT @ u / first.shares.sum(0).unsqueeze(-1))
    known = none.index_put((torch.tensor(2), torch.tensor(0)), torch.tensor(-torch.inf))
    told = em_steps(u, *votes, prior, steps=1, tau=0.0, known=known)
    assert float(told.mean[1]) > 5 > 2.1 > float(first.mean[1])


def test_tasks_side_by_side_equal_each_alone() -> None:
    placed, (item, annotator, label), c = problem(1, tasks=3)
    known = torch.zeros(3, N, K).masked_fill(torch.arange(K) == 1, -torch.inf)[..., :]
    known[:, 2:] = 0
    together = em_steps(placed, item, annotator, label, c, known=known)
    for t in range(3):
        mine = item // N == t
        alone = em_steps(placed[t], item[mine] - t * N, annotator[mine] - t * A, label[mine], c, known=known[t])
        for name, x in vars(alone).items():
            torch.testing.assert_close(getattr(together, name)[t], x)


@pytest.mark.parametrize(
    "how", [{}, {"tau": 0.0}, {"prevalence": None}, {"prevalence": 0.0, "tau": 5.0}, {"tied": True}, {"power": 0.4}]
)
def test_the_objective_never_falls_over_steps(how: dict[str, Any]) -> None:
    for seed in range(3):
        placed, labels, c = problem(seed, tasks=4)
        path = em_steps(placed, *labels, c, steps=40, **how).objectives
        assert path.shape == (4, 40) and float(path.diff().min()) > -1e-10
        assert float((path[:, -1] - path[:, 0]).min()) > 1e-3


def test_gradients_through_three_steps_are_those_of_finite_differences() -> None:
    placed, labels, c = problem(4, tasks=2)
    tau, b = torch.tensor(0.7, dtype=torch.float64), torch.tensor(1.5, dtype=torch.float64)

    def arrived(u: Tensor, asked: Tensor, c: Tensor, tau: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        found = em_steps(u, *labels, c, steps=3, tau=tau, prevalence=b)
        return (found.log_shares(asked), found.shares, found.objectives)

    given = (placed, placed.flip(1) * 0.5, c, tau, b)
    assert torch.autograd.gradcheck(arrived, tuple(x.clone().requires_grad_() for x in given))
    assert not any(x.requires_grad for x in vars(em_steps(placed.requires_grad_(), *labels, c).detach()).values())


def nearest(u: Tensor, truth: Tensor, asked: Tensor) -> Tensor:
    """Log-probabilities of prototypical networks: softmax of minus half the squared distance to the class means."""
    mean = torch.stack([u[truth == k].mean(0) for k in range(K)])
    return (-0.5 * (asked.unsqueeze(1) - mean).square().sum(-1)).log_softmax(-1)


def test_with_clean_labels_it_is_a_prototypical_network() -> None:
    """Uniform prevalence and tau = 0, once with known classes and once with annotators who cannot err."""
    u = problem(5)[0][0]
    truth, asked = torch.arange(N) % K, torch.randn(4, M, dtype=torch.float64)
    want = nearest(u, truth, asked)
    how: dict[str, Any] = {"steps": 3, "tau": 0.0, "prevalence": None}
    nobody = (torch.zeros(0, dtype=torch.int64),) * 3
    known = torch.full((N, K), -torch.inf).double().scatter(1, truth.unsqueeze(1), 0.0)
    found = em_steps(u, *nobody, torch.ones(A, K, K), known=known, **how)
    torch.testing.assert_close(found.log_shares(asked), want)
    item, annotator = torch.arange(N).repeat_interleave(A), torch.arange(A).repeat(N)
    certain = torch.eye(K, dtype=torch.float64).expand(A, K, K) * 1e12
    sure = em_steps(u, item, annotator, truth[item], certain, **how)
    torch.testing.assert_close(sure.log_shares(asked), want, atol=1e-5, rtol=1e-5)
    assert (em_steps(u, item, annotator, truth[item], certain).log_shares(asked) - want).abs().max() > 0.01


def test_without_places_it_is_dawid_skene_by_the_engine() -> None:
    data = crowd(40, 5, 3, 4, seed=3)
    settings = {
        "prior_strength": 3 + 2.0,
        "prior_accuracy": (1 + 2.0 * 0.7) / 5,
    }  # a flat prior and 2 pseudo-counts
    fitted = crowdppl.fit(
        "bayesian_dawid_skene", data, inference="em", settings=settings | {"prevalence": "uniform"}, tolerance=1e-15
    )
    block = data.as_block()
    c = crowdppl.primitives.diagonal_prior(3, 2.0, 0.7).double().expand(5, -1, -1)
    none = torch.zeros(40, 0, dtype=torch.float64)
    found = em_steps(none, block.item, block.annotator, block.answer, c, steps=500, prevalence=None)
    np.testing.assert_allclose(found.shares[data.order.argsort()], fitted.probabilities(), atol=1e-5)
    np.testing.assert_allclose(found.confusion, fitted.confusion(), atol=1e-5)


def test_what_does_not_fit_is_refused() -> None:
    placed, (item, annotator, label), c = problem(0)
    with pytest.raises(MethodError, match="steps=0"):
        em_steps(placed[0], item, annotator, label, c, steps=0)
    for wrong, name in (((item + N, annotator, label), "item"), ((item, annotator, label - 1), "label")):
        with pytest.raises(MethodError, match=name):
            em_steps(placed[0], *wrong, c)


WIDE = 12
"""Features, of which the first two tell classes apart and the others are louder noise."""


def features(truth: np.ndarray, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    angle = 2 * np.pi * truth / 12
    x = rng.normal(size=(len(truth), WIDE)) * 2
    x[:, :2] = 3 * np.stack([np.cos(angle), np.sin(angle)], 1) + rng.normal(size=(len(truth), 2)) * 0.3
    return x


@cache
def worlds() -> tuple[EpisodeSampler, EpisodeSampler]:
    """Twelve classes on a circle: every other one to learn from, the others to be tested on."""
    truth = np.arange(480) % 12
    x = features(truth, 0)
    how: dict[str, Any] = {"ways": 3, "shots": 4, "queries": 10, "annotators": 3}
    train = EpisodeSampler(truth, x, classes=range(0, 12, 2), **how)
    return train, EpisodeSampler(truth, x, classes=range(1, 12, 2), apart_from=train, **how)


def method(**settings: Any) -> Any:
    return crowdppl.method("meta_em", widths=(16, 2), **settings)


@cache
def learned() -> Any:
    return method().meta_fit(worlds()[0], iterations=150, batch=8, learning_rate=1e-2, seed=1)


def hit(model: Any, tasks: Tasks, places: Any = None) -> float:
    places = places or model.setup(tasks.annotations()).embedding.places
    prior = crowdppl.primitives.diagonal_prior(3, model.prior_strength, model.prior_accuracy, model.coins)
    rows = prior.expand(tasks.n_annotators, -1, -1)
    with torch.no_grad():
        found: UnrolledEM = model.em(places(tasks.support), tasks.item, tasks.annotator, tasks.label, rows)
        return float((found.log_shares(places(tasks.query)).argmax(-1) == tasks.asked).double().mean())


@pytest.mark.slow
def test_meta_training_finds_the_space_in_which_new_classes_differ() -> None:
    tasks = worlds()[1].draw(100, 5)
    assert hit(learned(), tasks) > 0.85
    assert hit(learned(), tasks, places=lambda x: x) < 0.7


def test_the_model_has_the_density_of_the_steps() -> None:
    """log p(labels, embeddings | parameters) + log-priors, at parameters that two steps of EM found."""
    data, rows = worlds()[1].draw(1, 2).annotations(), {"coins": False, "likelihood_power": 1.0}
    trained = replace(learned(), tau=0.5, prevalence_strength=9.0, **rows)  # in single precision, as it always is
    with double():
        posing = problem_of(trained, data)
        model: Any = posing.model
        block, k = posing.blocks[0], 3
        c = crowdppl.primitives.diagonal_prior(k, model.prior_strength).expand(3, -1, -1)
        placed = block.seen["embedding"]
        found = em_steps(placed, block.item, block.annotator, block.answer, c, steps=2, tau=0.5, prevalence=9.0)
        values = {n: getattr(found, n) for n in ("mean", "prevalence", "confusion")}
        density = Density(model.model, families=dict.fromkeys(["prevalence", "confusion"], FAMILIES["dirichlet"]))
        given = values | {n: values[n].log() for n in ("prevalence", "confusion")}
        got = density(block, given, marginals=("truth",))
        torch.testing.assert_close(got.marginals["truth"].t(), found.shares)
        log_prior = sum(got.sites[n].fn.log_prob(x).sum() for n, x in values.items())
        shares, rows = torch.full((k,), 10.0), 1 + c
        constants = sum((x.lgamma().sum(-1) - x.sum(-1).lgamma()).sum() for x in (shares, rows))
        constants = constants + k * 2 / 2 * math.log(2 * math.pi / 0.5)
        torch.testing.assert_close(got.objective + log_prior + constants, found.objectives[-1])


@pytest.mark.parametrize(
    ("coins", "likelihood_power", "history"),
    [(False, 1.0, False), (True, 1.0, False), (False, 0.4, True), (True, 1.0, True)],
)
def test_the_engine_goes_on_from_the_steps_to_where_they_lead(
    coins: bool, likelihood_power: float, history: bool
) -> None:
    data = worlds()[1].draw(1, 2).annotations()
    known = np.random.default_rng(0).integers(0, 4, (3, 3, 3)).astype(float)
    if history:
        how: dict[str, Any] = {"features": data.features, "items": data.items, "history": known}
        data = crowdppl.Annotations.from_frame(data.frame(), **how)
    trained = replace(
        learned(), coins=coins, likelihood_power=likelihood_power
    )  # in single precision, as it always is
    with double():
        posing = problem_of(trained, data, tolerance=1e-14)
        (run,) = run_starts(posing, EM)
        block, model = posing.blocks[0], posing.model
        c = crowdppl.primitives.diagonal_prior(3, 4.0) / (3 if coins else 1) + torch.from_numpy(history * known)
        labels = (block.item, block.annotator, block.answer)
        how = {"steps": 500, "tau": trained.tau, "prevalence": 100.0, "tied": coins, "power": likelihood_power}
        found = em_steps(block.seen["embedding"], *labels, c, **how)
        torch.testing.assert_close(model.init(block)["mean"], model.em(block.seen["embedding"], *labels, c).mean)
        torch.testing.assert_close(run.state.loc["mean"], found.mean, atol=1e-4, rtol=1e-4)
        got = {name: x.exp() for name, x in run.state.parameters.items()}
        right = found.confusion.diagonal(dim1=-2, dim2=-1)[:, 0]
        errors = {"ability": torch.stack([right, 1 - right], -1)} if coins else {"confusion": found.confusion}
        for name, want in {"prevalence": found.prevalence, **errors}.items():
            torch.testing.assert_close(got[name], want, atol=1e-4, rtol=1e-4)


def test_a_few_shot_task_is_fitted_told_apart_saved_and_loaded(tmp_path: Path) -> None:
    tasks = worlds()[1].draw(8, 3)
    right = []
    for t in range(8):
        data, (asked, truth) = tasks.annotations(t), tasks.questions(t)
        posterior = crowdppl.fit(learned(), data, seed=0)
        assert posterior.inference == "em" and posterior.diagnostics()["converged"]
        sites = {n: torch.from_numpy(s.mean).float() for n, s in posterior.result.sites.items()}
        found = posterior.model.classifier(sites)(torch.tensor(asked.to_numpy()))
        right.append((data.classes[found.argmax(-1).numpy()] == truth.to_numpy()).mean())
        placed = posterior.model.embedding(torch.tensor(asked.to_numpy()))
        log_p = sites["prevalence"].log() - 0.5 * (placed.unsqueeze(1) - sites["mean"]).square().sum(-1)
        torch.testing.assert_close(found.softmax(-1), log_p.softmax(-1), atol=1e-5, rtol=1e-4)
    assert np.mean(right) > 0.85
    posterior.save(tmp_path)
    loaded = crowdppl.load(tmp_path)
    np.testing.assert_array_equal(loaded.probabilities(), posterior.probabilities())
    np.testing.assert_allclose(loaded.predict(data), posterior.probabilities(), atol=1e-6)
    again = crowdppl.fit(loaded.model, data, seed=0)
    np.testing.assert_array_equal(again.probabilities(), posterior.probabilities())


def test_items_without_labels_are_told_apart_in_a_fit_too() -> None:
    tasks = worlds()[1].draw(1, 4)
    found = crowdppl.fit(learned(), tasks.annotations(queries=True)).labels()["label"]
    _, truth = tasks.questions()
    assert (found[truth.index] == truth).mean() > 0.85


def test_nothing_is_fitted_to_features_before_meta_training() -> None:
    data = worlds()[1].draw(1, 2).annotations()
    with pytest.raises(MethodError, match="meta_fit"):
        crowdppl.fit("meta_em", data)
    with pytest.raises(DataError, match="features"):
        crowdppl.fit(learned(), crowd(20))
    narrow = crowdppl.Annotations.from_frame(data.frame(), features=np.zeros((12, 5)), items=data.items)
    with pytest.raises(DataError, match=r"\(5,\)"):
        crowdppl.fit(learned(), narrow)
    for engine in ("vb", "gibbs", "nuts", "svi"):
        with pytest.raises(MethodError, match=f"'{engine}'"):
            crowdppl.fit(learned(), data, inference=engine)


ROWS = {"prevalence": "uniform", "prior_strength": 3 + 4.0, "prior_accuracy": (1 + 4 * 2 / 3) / 7}
COIN = {"prevalence": "uniform", "right": 1 + 4 * 2 / 3, "wrong": 1 + 4 / 3}
"""Flat priors and the 4 pseudo-counts of meta_em."""


@pytest.mark.parametrize(
    ("coins", "other", "settings"), [(False, "bayesian_dawid_skene", ROWS), (True, "one_coin", COIN)]
)
def test_without_features_it_is_another_method(coins: bool, other: str, settings: dict[str, Any]) -> None:
    data = crowd(40, 5, 3, 4, seed=3)
    how = {"prevalence": "uniform", "likelihood_power": 1.0, "coins": coins}
    one = crowdppl.fit("meta_em", data, tolerance=1e-13, settings=how)
    two = crowdppl.fit(other, data, inference="em", tolerance=1e-13, settings=settings)
    np.testing.assert_allclose(one.probabilities(), two.probabilities(), atol=1e-9)
    assert one.model.classifier({}) is None


def weights(model: Any) -> Tensor:
    return torch.cat([x.flatten() for name, x in model.weights.items() if name.startswith("body")])


def test_the_same_seed_learns_the_same_and_switches_learn_something_else() -> None:
    train, _ = worlds()
    model = method()

    def found(**how: Any) -> Tensor:
        return weights(model.meta_fit(train, iterations=3, **how))

    plain = found(seed=1)
    assert torch.equal(plain, found(seed=1)) and not torch.equal(plain, found(seed=2))
    for switch in ("through", "pseudo_annotators"):
        assert not torch.equal(plain, found(seed=1, **{switch: False}))
    assert model.weights is None and model.embedding is None


class Stop(Exception):
    """Stands for the end of a process."""


def test_meta_training_that_was_killed_goes_on_to_the_bits_that_it_would_have_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With dropout, of which the global random stream decides."""
    train, other = worlds()
    body = nn.Sequential(nn.Linear(WIDE, 6), nn.Dropout(0.3), nn.Linear(6, 3))
    model, path = method(embedding=body), tmp_path / "meta"
    how: dict[str, Any] = {"iterations": 10, "batch": 4, "learning_rate": 1e-2, "seed": 3}
    whole = weights(model.meta_fit(train, **how))
    draw = EpisodeSampler.draw

    def killing(self: EpisodeSampler, number: int, seed: Any = 0, **more: Any) -> Any:
        if seed[1] == 8:
            raise Stop
        return draw(self, number, seed, **more)

    with monkeypatch.context() as patched, pytest.raises(Stop):
        patched.setattr(EpisodeSampler, "draw", killing)
        model.meta_fit(train, checkpoint=path, checkpoint_every=3, **how)
    seen: list[int] = []

    def seeing(self: EpisodeSampler, number: int, seed: Any = 0, **more: Any) -> Any:
        seen.append(seed[1])
        return draw(self, number, seed, **more)

    with monkeypatch.context() as patched:
        patched.setattr(EpisodeSampler, "draw", seeing)
        again = model.meta_fit(train, checkpoint=path, checkpoint_every=3, **how)
    assert seen == [0, 9, 6, 7, 8, 9]  # the first two say whose file it is
    assert weights(again).equal(whole)
    assert weights(model.meta_fit(train, checkpoint=str(path), **how)).equal(whole)
    for episodes, wrong in ((train, {"seed": 4}), (train, {"through": False}), (other, {})):
        with pytest.raises(ResultError, match="checkpoint"):
            model.meta_fit(episodes, checkpoint=path, **{**how, **wrong})


def test_with_gradients_stopped_only_the_query_items_are_learned_from() -> None:
    body, reached = nn.Linear(WIDE, 2, bias=False), list[int]()

    def watch(_: nn.Module, given: Any, out: Tensor) -> None:
        if out.requires_grad:
            out.register_hook(lambda gradient: reached.append(len(gradient)))

    body.register_forward_hook(watch)
    for through, items in ((True, {16 * 12, 16 * 30}), (False, {16 * 30})):
        reached.clear()
        method(embedding=body).meta_fit(worlds()[0], iterations=1, through=through)
        assert set(reached) == items


def test_a_network_of_ones_own_is_trained_in_a_copy() -> None:
    mine = nn.Sequential(nn.Linear(WIDE, 8), nn.Tanh(), nn.Linear(8, 3))
    before = [x.clone() for x in mine.parameters()]
    model = method(embedding=mine).meta_fit(worlds()[0], iterations=5)
    assert all(torch.equal(x, y) for x, y in zip(before, mine.parameters(), strict=True))
    assert isinstance(model.embedding, Embedding) and model.embedding.dimension == 3
    assert not torch.equal(before[0], model.embedding.body[0].weight)
    crowdppl.fit(model, worlds()[1].draw(1, 2).annotations(), max_iterations=3)
    for body, said in ((nn.Linear(3, 2), "cannot read features"), (nn.Flatten(0), "must return finite")):
        with pytest.raises(MethodError, match=said):
            method(embedding=body).meta_fit(worlds()[0], iterations=1)


def test_meta_training_that_explodes_says_where() -> None:
    with pytest.raises(NumericalError, match=r"in step \d+.*learning_rate"):
        method().meta_fit(worlds()[0], iterations=5, learning_rate=1e30)
    with pytest.raises(MethodError, match="iterations=0"):
        method().meta_fit(worlds()[0], iterations=0)
