"""Held-out label scores: against Bayes' rule by hand, simulation, and limits."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist
import pytest
import torch

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.data.split import item_folds, keep, label_folds
from crowdppl.errors import DataError, MethodError
from crowdppl.evaluation.calibration import heldout_logs
from crowdppl.evaluation.compare import compare
from crowdppl.evaluation.heldout import heldout_score
from crowdppl.fitting import fit
from crowdppl.inference.predict.held_out import left_out
from crowdppl.inference.predict.predictive import refit
from crowdppl.primitives import Block, Card, annotate, logsumexp, plates, prevalence, truth
from crowdppl.results.leave_one_out import leave_one_out, standard_error
from tests.crowd import annotations, crowd


@pytest.mark.parametrize(
    ("method", "engine"),
    [("one_coin", "em"), ("ebcc", "vb"), ("glad", "vb"), ("one_coin", "gibbs")],
)
def test_probabilities_of_all_answers_add_up_to_one(method: str, engine: str) -> None:
    """The same label with every possible answer, under one fit without it."""
    data = crowd(n_items=20, labels_each=3, n_classes=3)
    out = np.zeros(data.n_labels, bool)
    out[[4, 17]] = True
    options: dict[str, Any] = {"max_iterations": 5}
    if engine == "gibbs":
        options = {"chains": 2, "draws": 20, "warmup": 10}
    part = crowdppl.fit(method, keep(data, ~out), inference=engine, **options)
    rows = data.frame()
    total = np.zeros(2)
    for answer in data.classes:
        changed = rows.copy()
        changed.loc[out, "label"] = answer
        other = Annotations.from_frame(changed, "item", "annotator", "label", classes=list(data.classes))
        spots = other.frame().merge(rows.loc[out, ["item", "annotator"]], how="left", indicator=True)
        total += np.exp(left_out(part, other, (spots["_merge"] == "both").to_numpy())[0])
    np.testing.assert_allclose(total, 1, rtol=1e-9)


@pytest.mark.parametrize("method", ["one_coin", "glad", "ebcc"])
@pytest.mark.parametrize("alike", [False, True])
def test_a_label_alone_is_predicted_as_beside_all_of_its_item(method: str, alike: bool) -> None:
    """From the state of its item where that is enough, else from bags of labels; of items alike, once for all."""
    data = crowd(n_items=40, labels_each=4, n_classes=3).with_gold({1: 0, 5: 2})
    data = crowd(n_items=300, n_annotators=3, labels_each=3, n_classes=2) if alike else data
    out = label_folds(data, 5, 0) == 0
    part = crowdppl.fit(method, keep(data, ~out), inference="vb", max_iterations=5)
    alone, both = (left_out(part, data, out, together=together, draws=7)[0] for together in (False, True))
    np.testing.assert_allclose(alone, both, atol=1e-10)


def test_tempered_labels_are_predicted_as_tables_say() -> None:
    data = crowd(30, 6, 3, 4, seed=2)
    settings: dict[str, Any] = {"recipe": "plain", "likelihood_power": 0.5}
    posterior = fit("bayes_dgc", data, inference="vb", settings=settings, max_iterations=10)
    out = label_folds(data, 3, 0) == 0
    part = refit(posterior, keep(data, ~out))
    frame = data.frame()
    logs = []
    for answer in data.classes:
        said = frame.assign(label=frame["label"].where(~out, answer))
        logs.append(left_out(part, Annotations.from_frame(said, like=data, items=data.items), out)[0])
    np.testing.assert_allclose(np.exp(logs).sum(0), 1, atol=1e-8)
    short: dict[str, Any] = {"inference": "gibbs", "chains": 1, "draws": 5, "warmup": 2}
    with pytest.raises(MethodError, match="em or vb"):
        heldout_score("bayes_dgc", data, settings=settings, folds=2, **short)


def test_refits_that_start_from_the_whole_fit_end_where_others_end() -> None:
    data = crowd(n_items=100, labels_each=5)
    tight: dict[str, Any] = {"inference": "em", "tolerance": 1e-13, "max_iterations": 3000}
    whole = crowdppl.fit("one_coin", data, **tight)
    part = keep(data, label_folds(data, 5, 0) != 2)
    warm, cold = refit(whole, part), crowdppl.fit("one_coin", part, **tight)
    np.testing.assert_allclose(warm.result.probabilities, cold.result.probabilities, atol=1e-5)


def test_what_the_score_holds_and_how_it_is_summed() -> None:
    data = annotations([(i, a, (i + a // 3) % 2) for i in range(12) for a in range(4)] + [(12, 0, 1)], 2)
    score = heldout_score("one_coin", data, inference="em", folds=3)
    assert len(score.labels) == 48 and score.left_in == 1 and len(score.items) == 12
    assert (score.items["labels"] == 4).all()
    assert score.per_label == pytest.approx(score.labels["log_p"].mean())
    rows = data.frame().loc[score.labels["row"], ["item", "annotator", "label"]].reset_index(drop=True)
    pd.testing.assert_frame_equal(score.labels[["item", "annotator", "label"]], rows)
    again = heldout_score(crowdppl.fit("one_coin", data, inference="em"), folds=3)
    np.testing.assert_array_equal(again.labels["log_p"], score.labels["log_p"])
    assert "one_coin by em" in repr(score)


@pytest.mark.parametrize("copies", [1, 4])
def test_copies_of_an_item_in_one_sequence_tell_no_more(copies: int) -> None:
    """They are one observation: standard errors are those of so many items, exactly, however many copies."""
    rows = pd.concat([crowd(labels_each=4).frame().assign(position=n) for n in range(copies)])
    data = Annotations.from_frame(rows.rename(columns={"item": "sequence"}), kind="sequence", classes=range(3))
    fitted = fit("one_coin", data, inference="em")
    score, closed = heldout_score(fitted, folds=3), leave_one_out(fitted)
    whole = heldout_score(fitted, folds=3, whole_items=True)
    logs, owner = heldout_logs({"one_coin": fitted}, data)
    assert len(np.unique(owner)) == 60 and len(owner) == 240 * copies
    found = {"items": score.per_item_se, "whole": whole.per_item_se, "closed": closed.se}
    found |= {"labels": score.per_label_se, "calibration": standard_error(logs["one_coin"][0], owner)}
    items = {"items": score.items.reset_index(), "whole": whole.items.reset_index(), "closed": closed.values}
    items |= {"labels": score.labels}
    for name, table in items.items():
        by_item = standard_error(
            table["log_p"].to_numpy(), table.groupby(["sequence", "position"]).ngroup().to_numpy()
        )
        ratio = np.sqrt((60 / 59) * (60 * copies - 1) / 60)  # 1 where an item is its own sequence
        assert found[name] == (by_item if copies == 1 else pytest.approx(by_item * ratio, rel=1e-6)), name
    assert found["calibration"] > 0


def one_coin_by_hand(
    item: np.ndarray, who: np.ndarray, label: np.ndarray, gold: np.ndarray, kept: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Maximum likelihood from some labels, of which 3 is an abstention of annotator 0 or 1 to 3 classes.

    Returns:
        log p(truth | kept labels), (N, 3), and log p(label | truth) of every label, (S, 3).
    """
    named, known = label < 3, np.eye(3)[gold.clip(0)]
    same = (label[:, None] == np.arange(3)) & named[:, None]
    shares, rate = np.full((len(gold), 3), 0.01), np.zeros(6)
    np.add.at(shares, item[kept], same[kept])
    for a in (0, 1):
        rate[a] = (~named[kept & (who == a)]).mean()
    for _ in range(500):
        shares = np.where(gold[:, None] >= 0, known, shares / shares.sum(1, keepdims=True))
        use = kept & named
        right = np.bincount(who[use], shares[item[use], label[use]]) / np.bincount(who[use])
        log_p = np.log((1 - rate[who]) * right[who])[:, None] * np.ones(3)
        log_p = np.where(same, log_p, np.log((1 - rate[who]) * (1 - right[who]) / 2)[:, None])
        log_p[~named] = np.log(rate[who[~named]])[:, None]
        truth = np.where(gold[:, None] >= 0, np.log(known + 1e-300), 0.0)
        np.add.at(truth, item[kept], log_p[kept])
        truth -= np.logaddexp.reduce(truth, axis=1)[:, None]
        shares = np.exp(truth)
    return truth, log_p


@pytest.mark.parametrize("whole", [False, True])
def test_scores_are_those_of_refits_by_hand(whole: bool) -> None:
    """With abstentions, repeats and known truths; a known truth is known also of an item left out."""
    rows, stream = crowd(n_items=40, labels_each=4, seed=2).frame(), np.random.default_rng(0)
    rows.loc[(rows["annotator"] < 2) & (stream.random(len(rows)) < 0.3), "label"] = 3
    rows = pd.concat([rows, rows[rows["item"] % 7 == 0].assign(label=0)])
    data = Annotations.from_frame(rows, classes=[0, 1, 2], abstentions=[3], gold={0: 2, 3: 1, 14: 0})
    item, who, label = data.frame()[["item", "annotator", "label"]].to_numpy(int).T
    gold = np.array([{0: 2, 3: 1, 14: 0}.get(i, -1) for i in range(40)])
    tight: dict[str, Any] = {"tolerance": 1e-13, "max_iterations": 5000}
    score = heldout_score("one_coin", data, inference="em", folds=3, whole_items=whole, **tight)
    fold = (item_folds if whole else label_folds)(data, 3, 0)
    alone, together = np.full(len(item), np.nan), np.zeros(40)
    for number in range(3):
        out = fold == number
        truth, log_p = one_coin_by_hand(item, who, label, gold, ~out)
        alone[out] = np.logaddexp.reduce(truth[item[out]] + log_p[out], axis=1)
        joint = truth.copy()
        np.add.at(joint, item[out], log_p[out])
        together += np.logaddexp.reduce(joint, axis=1)
    np.testing.assert_allclose(score.items["log_p"].sort_index(), together, atol=1e-4)
    if not whole:
        np.testing.assert_allclose(score.labels["log_p"], alone, atol=1e-4)
        each = pd.Series(alone - alone.mean()).groupby(item).sum()
        error = np.sqrt((each**2).sum() * 40 / 39) / len(alone)
        assert score.per_label_se == pytest.approx(error, rel=1e-4)


def test_what_is_refused() -> None:
    data = crowd()
    with pytest.raises(MethodError, match="folds=1"):
        heldout_score("one_coin", data, folds=1)
    with pytest.raises(MethodError, match="data"):
        heldout_score("one_coin")
    with pytest.raises(MethodError, match="alone"):
        heldout_score(crowdppl.fit("one_coin", data, inference="em"), data)
    with pytest.raises(DataError, match="two annotators"):
        heldout_score("one_coin", annotations([(0, 0, 0), (1, 1, 1)], 2), inference="em")


@pytest.mark.parametrize("name", ["bayesian_dawid_skene", "mace", "dependent_clusters"])
def test_mean_tables_are_exact_where_labels_are_linear_in_every_site(name: str) -> None:
    settings = {"groups": [0, 0, 1, 1, 2, 2]} if name == "dependent_clusters" else {}
    found = fit(name, crowd(30, 6, 3, 4, seed=5), inference="vb", settings=settings).result
    np.testing.assert_allclose(found.table.sum(-1), 1)
    assert found.table_draws is not None and found.prevalence_draws is not None
    draws = found.table_draws * found.prevalence_draws[:, None, :, None]  # truth and answer together are linear
    error = draws.std(0) / np.sqrt(len(draws))
    apart = (draws.mean(0) - found.table * found.prevalence[:, None]) / np.maximum(error, 1e-6)
    assert 0.5 < np.sqrt(np.square(apart).mean()) < 2


def stop(iteration: int, objective: float) -> None:
    raise KeyboardInterrupt


def test_ctrl_c_in_any_of_its_fits_leaves_no_score() -> None:
    data = crowd(20, 5, 3, 4)
    with pytest.raises(KeyboardInterrupt):
        heldout_score("one_coin", data, inference="em", callback=stop)
    with pytest.raises(KeyboardInterrupt):
        compare(["one_coin", "majority_vote"], data, inference="em", callback=stop)


@pytest.mark.parametrize("engine", ["em", "vb"])
def test_tables_are_those_of_labels_whatever_the_power_of_their_likelihood(engine: str) -> None:
    settings = {"recipe": "plain", "likelihood_power": 0.5, "prior_strength": 6.0, "prior_accuracy": 0.6}
    found = fit("bayes_dgc", crowd(60, 6, 3, 4, seed=2), inference=engine, settings=settings).result
    np.testing.assert_allclose(found.table, found.sites["confusion"].mean, atol=0.05 if engine != "em" else 1e-6)
    halved = np.sqrt(found.table) / np.sqrt(found.table).sum(-1, keepdims=True)
    assert np.abs(halved - found.sites["confusion"].mean).max() > 0.1


@dataclass
class Twice:
    """Labels pass through an annotator's confusion two times."""

    card: ClassVar[Card] = Card("Twice", "nobody", sites={"confusion": "A K K", "truth": "N"})

    def model(self, data: Block) -> None:
        k = data.n_classes
        with plates.annotators(data):
            rows = dist.Dirichlet(torch.ones(k, k) + 3 * torch.eye(k)).to_event(1)
            once = pyro.sample("confusion", rows).log()
        both = once.unsqueeze(-2) + once.transpose(-1, -2).unsqueeze(-3)
        with plates.items(data):
            annotate(data, logsumexp(both, name="between"), truth(data, prevalence(data, "uniform")))


def test_where_a_row_is_used_twice_tables_are_averaged_over_draws() -> None:
    found = fit(Twice(), crowd(60, 20, 3, 3, seed=5), inference="vb").result
    concentration = found.sites["confusion"].arrays["concentration"]
    gamma = np.random.default_rng(0).standard_gamma(concentration, (5_000, *concentration.shape))
    rows = gamma / gamma.sum(-1, keepdims=True)
    expected, error = (rows @ rows).mean(0), (rows @ rows).std(0) / np.sqrt(len(found.table_draws))
    at_mean = found.sites["confusion"].mean @ found.sites["confusion"].mean
    assert np.abs((found.table - expected) / error).max() < 4 < np.abs((at_mean - expected) / error).max()
