"""Numbers of single labels in models: contexts, weights and smooth effects, by every engine."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist
import pytest
import torch
from scipy.special import gammaln

import crowdppl
import crowdppl.primitives as cp
import crowdppl.testing
from crowdppl import Annotations
from crowdppl.data.blocks import join_blocks
from crowdppl.data.split import keep
from crowdppl.errors import DataError, MethodError
from crowdppl.inference.density import Density
from tests.crowd import double

SITES = {"prevalence": "K", "confusion": "A X K K", "abstention": "A D W", "truth": "N"}


@dataclass(frozen=True)
class InContexts:
    """Bayesian Dawid-Skene with a confusion of each annotator in each context."""

    contexts: int = 2
    weighted: bool = False
    repeatable: ClassVar[bool] = True
    card: ClassVar[cp.Card] = cp.Card("In contexts", "nobody", sites=SITES, uses=("label_covariates",))

    def model(self, data: cp.Block) -> None:
        k = data.n_classes
        log_p = cp.prevalence(data)
        context = cp.label_covariates(data, "context")
        weight = cp.label_covariates(data, "weight") if self.weighted else None
        with cp.plates.annotators(data):
            rows = dist.Dirichlet((1 + 2 * torch.eye(k)).expand(self.contexts, k, k)).to_event(2)
            confusion = pyro.sample("confusion", rows)
        table = cp.with_abstentions(data, confusion.log(), contexts=True)
        with cp.plates.items(data):
            cp.annotate(data, table, cp.truth(data, log_p), context=context, weight=weight)


@dataclass(frozen=True)
class Plain:
    """Bayesian Dawid-Skene; a label may count several times."""

    weighted: bool = False
    card: ClassVar[cp.Card] = cp.Card("Plain", "nobody", sites={**SITES, "confusion": "A K K"})

    def model(self, data: cp.Block) -> None:
        log_p = cp.prevalence(data)
        weight = cp.label_covariates(data, "weight") if self.weighted else None
        with cp.plates.annotators(data):
            confusion = pyro.sample("confusion", dist.Dirichlet(1 + 2 * torch.eye(data.n_classes)).to_event(1))
        with cp.plates.items(data):
            cp.annotate(data, confusion.log(), cp.truth(data, log_p), weight=weight)


@dataclass(frozen=True)
class InHaste:
    """Labels are guesses, more often in some bins of time than in others, or follow the annotator's confusion."""

    bins: int = 2
    weighted: bool = False
    card: ClassVar[cp.Card] = cp.Card("In haste", "nobody", sites={**SITES, "haste": "X 2", "confusion": "A K K"})

    def model(self, data: cp.Block) -> None:
        k = data.n_classes
        log_p = cp.prevalence(data)
        weight = cp.label_covariates(data, "weight") if self.weighted else None
        haste = pyro.sample("haste", dist.Dirichlet(torch.ones(self.bins, 2)).to_event(1)).log()
        with cp.plates.annotators(data):
            confusion = pyro.sample("confusion", dist.Dirichlet(1 + 2 * torch.eye(k)).to_event(1)).log()
        careful = haste[..., 1, None, None] + confusion.unsqueeze(-3)
        guess = (haste[..., 0, None, None] - np.log(k)).expand_as(careful)
        table = cp.with_abstentions(data, cp.logsumexp(torch.stack([guess, careful], -1)), contexts=True)
        with cp.plates.items(data):
            context = cp.label_covariates(data, "context")
            cp.annotate(data, table, cp.truth(data, log_p), context=context, weight=weight)


@dataclass(frozen=True)
class Hasty:
    """The same, smooth in the logarithm of time: log odds of a guess are slope * (pace - log seconds)."""

    card: ClassVar[cp.Card] = cp.Card(
        "Hasty", "nobody", sites={**SITES, "pace": "", "slope": "", "confusion": "A K K"}
    )

    def model(self, data: cp.Block) -> None:
        k = data.n_classes
        log_p = cp.prevalence(data)
        log_seconds = cp.label_covariates(data, "seconds").log().squeeze(-1)
        pace = pyro.sample("pace", dist.Normal(torch.zeros(()), 1.0))
        slope = pyro.sample("slope", dist.LogNormal(torch.zeros(()), 0.5))
        with cp.plates.annotators(data):
            confusion = pyro.sample("confusion", dist.Dirichlet(1 + 2 * torch.eye(k)).to_event(1)).log()
        odds = (slope * (pace - log_seconds))[..., None, None]
        careful = torch.nn.functional.logsigmoid(-odds) + data.of_annotator(confusion, event_dim=2)
        guess = (torch.nn.functional.logsigmoid(odds) - np.log(k)).expand_as(careful)
        table = cp.with_abstentions(data, cp.each_label(cp.logsumexp(torch.stack([guess, careful], -1))))
        with cp.plates.items(data):
            cp.annotate(data, table, cp.truth(data, log_p))


def crowd(n: int = 40, seed: int = 0, contexts: int = 2) -> pd.DataFrame:
    """Labels of five annotators, each better in context 0; some annotators label an item twice."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, n)
    rows = []
    for i in range(n):
        for a in [*rng.permutation(5)[:3], 0, 0]:
            context = int(rng.integers(contexts))
            right = rng.random() < (0.85 if context == 0 else 0.5)
            label = truth[i] if right else rng.integers(3)
            rows.append((f"i{i}", f"a{a}", int(label), context, int(rng.integers(3))))
    return pd.DataFrame(rows, columns=["item", "annotator", "label", "context", "weight"])


COVARIATES = ["context", "weight"]


def virtual(rows: pd.DataFrame) -> pd.DataFrame:
    """The same labels by an annotator of its own in each context."""
    return rows.assign(annotator=rows["annotator"] + " in " + rows["context"].astype(str))


def gap(one: crowdppl.Posterior, other: crowdppl.Posterior) -> float:
    return float(np.abs(one.probabilities() - other.probabilities()).to_numpy().max())


def read(rows: pd.DataFrame, **options: Any) -> Annotations:
    return Annotations.from_frame(rows, **{"label_covariates": COVARIATES, "classes": [0, 1, 2], **options})


@pytest.mark.parametrize("engine", ["em", "vb"])
def test_a_context_is_an_annotator_of_its_own(engine: str) -> None:
    rows = crowd()
    mine = crowdppl.fit(InContexts(), read(rows), inference=engine, seed=0)
    theirs = crowdppl.fit(Plain(), read(virtual(rows)), inference=engine, seed=0)
    assert gap(mine, theirs) < 1e-9
    both = mine.result.sites["confusion"].mean
    assert np.abs(both.reshape(-1, 3, 3) - theirs.result.sites["confusion"].mean).max() < 1e-9
    tables = theirs.confusion().to_numpy().reshape(5, 2, 3, 3)
    for context in (0, 1):
        assert np.abs(mine.confusion(at={"context": context}).to_numpy() - tables[:, context]).max() < 1e-9
    share = rows.groupby("annotator")["context"].mean().to_numpy()[:, None, None]
    mean = (1 - share) * tables[:, 0] + share * tables[:, 1]
    assert np.abs(mine.confusion().to_numpy() - mean).max() < 1e-9


def test_labels_left_out_are_those_of_annotators_of_their_own() -> None:
    rows = crowd().drop_duplicates(["item", "annotator"])
    data = read(rows)
    mine = crowdppl.fit(InContexts(), data, inference="vb", seed=0)
    theirs = crowdppl.fit(Plain(), read(virtual(rows)), inference="vb", seed=0)
    one, other = (x.leave_one_out(method="closed").values["log_p"].to_numpy() for x in (mine, theirs))
    assert np.abs(one - other).max() < 1e-9
    scores = [crowdppl.heldout_score(x, folds=2).labels["log_p"].to_numpy() for x in (mine, theirs)]
    assert np.abs(scores[0] - scores[1]).max() < 0.05  # other draws of the same posteriors


def test_a_whole_weight_is_a_label_that_often() -> None:
    rows = crowd(12)
    often = rows.loc[rows.index.repeat(rows["weight"])]
    ids = {"items": rows["item"].unique(), "annotators": rows["annotator"].unique()}
    how: Any = {"inference": "em", "seed": 0, "tolerance": 1e-12}
    mine = crowdppl.fit(Plain(weighted=True), read(rows), **how)
    theirs = crowdppl.fit(Plain(), read(often, **ids), **how)
    assert gap(mine, theirs) < 1e-5
    assert np.abs(mine.confusion() - theirs.confusion()).max() < 1e-5


def test_a_whole_weight_is_a_label_that_often_also_where_labels_may_be_guesses() -> None:
    rows = crowd(12)
    often = read(rows.loc[rows.index.repeat(rows["weight"])], items=rows["item"].unique()).as_block()
    with double():
        found = []
        values = {"prevalence": torch.tensor([0.2, 0.3, 0.5]), "haste": torch.tensor([[0.1, 0.9], [0.6, 0.4]])}
        values["confusion"] = torch.distributions.Dirichlet(torch.ones(5, 3, 3)).sample()
        for model, block in ((InHaste(weighted=True), read(rows).as_block()), (InHaste(), often)):
            one = Density(model.model)(block, values, gradient=list(values))
            found.append([one.per_item, *one.gradient.values()])
        assert all(torch.allclose(a, b) for a, b in zip(*found, strict=True))


TINY = pd.DataFrame(
    [(0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 0, 0), (1, 0, 1, 1), (1, 1, 1, 0), (2, 0, 0, 1)],
    columns=["item", "annotator", "label", "context"],
).assign(weight=[1, 0.5, 2, 1, 0.25, 3])


def evidence(counts: np.ndarray, prior: np.ndarray) -> float:
    """Log-probability of draws with these counts, (..., K), whose shares have Dirichlet priors."""
    total = gammaln(prior.sum(-1)) - gammaln((prior + counts).sum(-1))
    return float((total + (gammaln(prior + counts) - gammaln(prior)).sum(-1)).sum())


def exact(model: Any, rows: pd.DataFrame = TINY) -> tuple[np.ndarray, float]:
    """Posterior (N, 2) of the truths and log evidence, by a sum over all truths and guesses."""
    item, who, label, context = (rows[name].to_numpy() for name in ("item", "annotator", "label", "context"))
    weight = rows["weight"].to_numpy() if model.weighted else np.ones(len(rows))
    contexts = context if isinstance(model, InContexts) else np.zeros_like(context)
    guesses = list(product((False, True), repeat=len(rows) if isinstance(model, InHaste) else 0))
    found: dict[tuple[int, ...], list[float]] = {}
    for truth in product((0, 1), repeat=3):
        for guess in (np.array(x or (False,) * len(rows)) for x in guesses):
            table, haste = np.zeros((2, 2, 2, 2)), np.zeros((2, 2))
            careful = ~guess
            place = (who, contexts, np.array(truth)[item], label)
            np.add.at(table, tuple(x[careful] for x in place), weight[careful])
            log_p = evidence(np.bincount(truth, minlength=2), np.ones(2))
            log_p += evidence(table, np.broadcast_to(1 + 2 * np.eye(2), table.shape))
            if isinstance(model, InHaste):
                np.add.at(haste, (context, careful.astype(int)), 1)
                log_p += evidence(haste, np.ones((2, 2))) - np.log(2) * guess.sum()
            found.setdefault(truth, []).append(log_p)
    logs = {truth: np.logaddexp.reduce(x) for truth, x in found.items()}
    total = np.logaddexp.reduce(list(logs.values()))
    share = np.zeros((3, 2))
    for truth, log_p in logs.items():
        share[np.arange(3), truth] += np.exp(log_p - total)
    return share, float(total)


TINY_MODELS = [InContexts(weighted=True), InHaste()]


@pytest.mark.slow
@pytest.mark.parametrize("model", TINY_MODELS, ids=repr)
def test_draws_are_from_the_exact_posterior(model: Any) -> None:
    data = read(TINY, classes=[0, 1])
    share, total = exact(model)
    found = crowdppl.fit(model, data, inference="gibbs", seed=0, draws=300, warmup=50, chains=8)
    assert np.abs(found.probabilities().to_numpy() - share).max() < 0.04
    bound = crowdppl.fit(model, data, inference="vb", seed=0)
    assert total - 2 < bound.result.diagnostics["objective"] < total


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "engine", "how"),
    [
        (InContexts(weighted=True), "nuts", {"draws": 80, "warmup": 50, "chains": 2}),
        (InHaste(), "svi", {"learning_rate": 0.1, "max_iterations": 300}),
    ],
    ids=["nuts", "svi"],
)
def test_gradients_find_the_exact_posterior(model: Any, engine: str, how: Any) -> None:
    found = crowdppl.fit(model, read(TINY, classes=[0, 1]), inference=engine, seed=0, **how)
    assert np.abs(found.probabilities().to_numpy() - exact(model)[0]).max() < 0.06


def test_gibbs_refuses_parts_of_guesses_by_name() -> None:
    with pytest.raises(MethodError, match="not whole"):
        crowdppl.fit(InHaste(weighted=True), read(TINY, classes=[0, 1]), inference="gibbs", seed=0)


@pytest.mark.parametrize(("engine", "why"), [("em", ""), ("vb", ""), ("nuts", ""), ("svi", ""), ("gibbs", "pace")])
def test_smooth_haste_is_fitted_by_all_engines_but_gibbs(engine: str, why: str) -> None:
    rows = crowd(4).assign(seconds=np.linspace(0.5, 4, 20))
    data = read(rows, label_covariates=["seconds"])
    quick = {"em": {"max_iterations": 3}, "vb": {"max_iterations": 3}, "svi": {"max_iterations": 3}}
    how: Any = {"chains": 1, "draws": 2, "warmup": 1} if engine in ("nuts", "gibbs") else quick[engine]
    if why:
        with pytest.raises(MethodError, match=why):
            crowdppl.fit(Hasty(), data, inference=engine, seed=0, **how)
    else:
        found = crowdppl.fit(Hasty(), data, inference=engine, seed=0, **how)
        assert np.allclose(found.probabilities().sum(1), 1)


def log_score(posterior: crowdppl.Posterior, truth: pd.Series[Any]) -> float:
    table = posterior.probabilities()
    return float(np.log([table.loc[i, k] for i, k in truth.items()]).mean())


def right(posterior: crowdppl.Posterior, **at: float) -> float:
    """Mean accuracy of annotators at some covariates."""
    return float(posterior.confusion(at=at).to_numpy().diagonal(axis1=1, axis2=2).mean())


def simulated(accuracy: Any, n: int = 400, seed: int = 0) -> tuple[pd.DataFrame, pd.Series[Any]]:
    """Labels of half of the items by each of six annotators; ``accuracy`` is a label's by turn and seconds."""
    rng = np.random.default_rng(seed)
    truth, rows = rng.integers(0, 3, n), []
    for a in range(6):
        for turn, i in enumerate(rng.permutation(n)[: n // 2]):
            seconds = float(np.exp(rng.normal(1, 1)))
            right = rng.random() < accuracy(2 * turn / n, seconds)
            rows.append((f"i{i}", f"a{a}", int(truth[i] if right else rng.integers(3)), turn, seconds))
    frame = pd.DataFrame(rows, columns=["item", "annotator", "label", "order", "seconds"])
    return frame, pd.Series(truth, [f"i{i}" for i in range(n)]).loc[frame["item"].unique()]


def test_annotators_who_tire_are_found_in_bins_of_their_order() -> None:
    rows, truth = simulated(lambda turn, seconds: 0.95 if turn < 0.5 else 0.15)
    rows = rows.assign(context=rows["order"] // 100)
    data = read(rows, label_covariates=["order", "context"])
    tired = crowdppl.fit(InContexts(), data, inference="vb", seed=0)
    static = crowdppl.fit(Plain(), data, inference="vb", seed=0)
    assert log_score(tired, truth) > log_score(static, truth) + 0.05
    for context, accuracy in ((0, 0.95), (1, 0.15)):
        assert abs(right(tired, context=context) - (accuracy + (1 - accuracy) / 3)) < 0.08
    assert crowdppl.heldout_score(tired, folds=2).per_label > crowdppl.heldout_score(static, folds=2).per_label


@pytest.mark.slow
def test_hasty_answers_that_are_guesses_are_found_smooth_in_log_time() -> None:
    rows, truth = simulated(lambda turn, seconds: 0.95 / (1 + np.exp(-4 * (np.log(seconds) - 0.8))), 600)
    data = read(rows, label_covariates=["seconds"])
    hasty = crowdppl.fit(Hasty(), data, inference="em", seed=0)
    static = crowdppl.fit(Plain(), data, inference="em", seed=0)
    assert log_score(hasty, truth) > log_score(static, truth) + 0.1
    assert abs(float(hasty.result.sites["pace"].mean) - 0.8) < 0.25
    slow, quick = (right(hasty, seconds=x) for x in (20, 0.2))
    assert slow > 0.85 and quick < 0.5


def values(data: Annotations) -> pd.DataFrame:
    """What a model reads: item, annotator, label and covariates of each label, sorted."""
    block = data.as_block()
    held = block.label_covariates
    item, annotator, answer = (x.numpy() for x in (block.item, block.annotator, block.answer))
    found: dict[Any, Any] = {"item": data.items[data.order[item]], "annotator": data.annotators[annotator]}
    found |= {"label": data.answers[answer]} | dict(zip(held.names, held.values.T.numpy(), strict=True))
    table = pd.DataFrame(found).astype(dict.fromkeys(held.names, float))
    return table.sort_values(list(table.columns)).reset_index(drop=True)


def wanted(rows: pd.DataFrame) -> pd.DataFrame:
    table = rows[["item", "annotator", "label", *COVARIATES]].astype(dict.fromkeys(COVARIATES, float))
    return table.sort_values(list(table.columns)).reset_index(drop=True)


def test_covariates_stay_with_their_labels(tmp_path: Path) -> None:
    rows = crowd()
    data = read(rows)
    assert values(data).equals(wanted(rows))
    kept = np.arange(data.n_labels) % 3 > 0
    assert values(keep(data, kept)).equals(wanted(data.frame()[kept]))
    assert values(read(data.frame())).equals(wanted(rows))
    rows.to_parquet(tmp_path / "x.parquet")
    rows.to_csv(tmp_path / "x.csv", index=False)
    options: Any = {"label_covariates": COVARIATES, "classes": [0, 1, 2]}
    for name in ("x.parquet", "x.csv"):
        again = crowdppl.read_annotations(tmp_path / name, **options)
        assert values(again).assign(label=values(again)["label"].astype(int)).equals(wanted(rows))
    block = data.as_block()
    part = block.subset(np.array([3, 8, 20]), 2.0)
    assert part.label_covariates is not None and part.entries is not None
    assert torch.equal(part.label_covariates.values, block.label_covariates.values[part.entries])
    parts = [block.subset(np.arange(20), 1.0), block.subset(np.arange(20, 40), 1.0)]
    whole = join_blocks(parts).label_covariates
    assert whole is not None and torch.equal(whole.values, block.label_covariates.values)


def test_covariates_survive_predict_update_and_saving(tmp_path: Path) -> None:
    rows, new = crowd(), crowd(8, seed=1).assign(item=lambda x: "new " + x["item"])
    mine = crowdppl.fit(InContexts(weighted=True), read(rows), inference="vb", seed=0)
    known = {"items": rows["item"].unique(), "annotators": virtual(rows)["annotator"].unique()}
    theirs = crowdppl.fit(
        Plain(weighted=True), read(virtual(rows), **known), inference="vb", seed=0, tolerance=1e-12
    )
    mine.save(tmp_path / "saved")
    loaded = crowdppl.load(tmp_path / "saved", model=InContexts(weighted=True))
    assert values(loaded.data).equals(wanted(rows))
    again = virtual(new)
    for one in (mine, loaded):
        predicted, other = one.predict(new), theirs.predict(again)
        assert np.abs(predicted.loc[other.index] - other).to_numpy().max() < 1e-3
        updated, other = one.update(new).probabilities(), theirs.update(again).probabilities()
        assert np.abs(updated.loc[other.index] - other).to_numpy().max() < 1e-3
    with pytest.raises(DataError, match="weight"):
        mine.predict(new.drop(columns="weight"))


def test_labels_are_drawn_in_their_contexts() -> None:
    design = crowdppl.random_design(2000, 5, 3, classes=3, seed=0)
    late = pd.DataFrame({"context": np.arange(6000) % 2})
    item, annotator, _ = design.label_codes()
    design = Annotations.design(item, annotator, classes=[0, 1, 2], label_covariates=late)
    found = crowdppl.simulate(InContexts(), design, seed=0)
    assert values(found.data)["context"].sum() == 3000
    rows = found.data.frame().assign(truth=lambda x: found.truth.loc[x["item"]].to_numpy())
    counts = np.zeros((5, 2, 3, 3))
    np.add.at(counts, tuple(rows[name] for name in ("annotator", "context", "truth", "label")), 1)
    share, n = counts / counts.sum(-1, keepdims=True), counts.sum(-1, keepdims=True)
    table = found.parameters["confusion"]
    assert (np.abs(share - table) < 4.5 * np.sqrt(table * (1 - table) / n) + 1e-3).all()


def test_the_next_label_is_like_those_before() -> None:
    data = read(crowd(20))
    posterior = crowdppl.fit(InContexts(), data, inference="vb", seed=0)
    asked = posterior.suggest_labels(5)
    assert len(asked) == 5
    with pytest.raises(MethodError, match="label covariates"):
        crowdppl.fill(posterior)
    assert len(posterior.draw_labels(1, seed=0)) == data.n_labels


@pytest.mark.parametrize(
    ("column", "option", "name"),
    [
        ({"context": 2}, {}, "context 2"),
        ({"context": 0.5}, {}, "context 0.5"),
        ({"weight": -1}, {}, "weight -1"),
        ({}, {"label_covariates": ["weight"]}, "context"),
        ({}, {"label_covariates": ["weight", "time"]}, "time"),
        ({}, {"label_covariates": []}, "label_covariates"),
        ({"context": "early"}, {}, "context"),
    ],
)
def test_what_is_no_covariate_is_named(column: dict[str, Any], option: dict[str, Any], name: str) -> None:
    with pytest.raises(DataError, match=name):
        crowdppl.fit(InContexts(weighted=True), read(crowd(9).assign(**column), **option), inference="vb", seed=0)


def test_a_missing_number_is_refused_with_its_row(tmp_path: Path) -> None:
    rows = crowd(4)
    rows["context"] = rows["context"].astype(float).where(rows.index != 2)
    with pytest.raises(DataError, match="row 2"):
        read(rows)
    rows.to_csv(tmp_path / "x.csv", index=False)
    with pytest.raises(DataError, match="line 4"):
        crowdppl.read_annotations(tmp_path / "x.csv", label_covariates=["context"])


def test_contexts_choose_from_tables() -> None:
    data = read(crowd(4)).as_block()
    coin = cp.Coin(torch.zeros(data.n_labels), torch.zeros(data.n_labels))
    context = cp.label_covariates(data, "context")
    with cp.plates.items(data), pytest.raises(MethodError, match="table"):
        cp.annotate(data, coin, torch.zeros(4).long(), context=context)
    with cp.plates.items(data), pytest.raises(MethodError, match="shape"):
        cp.annotate(data, torch.zeros(5, 3, 3), torch.zeros(4).long(), context=context)
    with cp.plates.items(data), pytest.raises(MethodError, match="one number"):
        cp.annotate(data, torch.zeros(5, 2, 3, 3), torch.zeros(4).long(), context=context[1:])


CONTRACT: list[tuple[Any, dict[str, list[float]]]] = [
    (InHaste(), {"context": [1, 0]}),
    (Hasty(), {"seconds": [0.5, 3, 12]}),
]


DEAR = ("plain nuts", "engine nuts", "engine laplace", "same seed", "renaming")
"""Checks in which a model without conjugate sites takes long."""


@pytest.mark.slow
@pytest.mark.parametrize(("model", "numbers"), CONTRACT, ids=lambda x: type(x).__name__)
def test_models_with_label_covariates_keep_the_contract(model: Any, numbers: Any) -> None:
    for name, check in crowdppl.testing.checks(model, label_covariates=numbers):
        if isinstance(model, InHaste) or name not in DEAR:
            check()


def test_abstentions_and_gold_go_with_contexts() -> None:
    rows = crowd(15).drop_duplicates(["item", "annotator"])
    rows = rows.assign(label=rows["label"].where(rows.index % 4 > 0, 9))
    options: Any = {"abstentions": [9], "gold": {"i3": 1}, "informative_abstentions": True}
    data = read(rows, **options)
    posterior = crowdppl.fit(InContexts(), data, inference="vb", seed=0, calibrate=True, max_iterations=4)
    assert posterior.probabilities().loc["i3", 1] == 1
    for table in (posterior.confusion(), posterior.confusion(at={"context": 1})):
        assert np.allclose(table.sum("label"), 1) and bool((table.sel(label=9) > 0).any())


def test_an_annotator_without_labels_labels_like_all() -> None:
    rows = crowd(9)
    data = read(rows, annotators=["a0", "a1", "a2", "a3", "a4", "new"])
    posterior = crowdppl.fit(InContexts(), data, inference="em", seed=0)
    tables, share = posterior.result.sites["confusion"].mean[-1], rows["context"].mean()
    wanted = (1 - share) * tables[0] + share * tables[1]
    assert np.abs(posterior.confusion().sel(annotator="new").to_numpy() - wanted).max() < 1e-9
    with pytest.raises(MethodError, match="'weight'"):
        posterior.confusion(at={"weight": 1})
    for at in ({"context": float("nan")}, {"context": "late"}, ["context"]):
        with pytest.raises(MethodError, match="finite numbers"):
            posterior.confusion(at=at)
