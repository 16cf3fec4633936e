"""Covariates of items and annotators: how models read them, under every engine, and how a file gives them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist
import pytest
import torch

import crowdppl
from crowdppl import Annotations, heldout_score, simulate, testing
from crowdppl.cli.commands import main
from crowdppl.data.blocks import with_covariates, with_known
from crowdppl.data.coded import build_blocks
from crowdppl.errors import DataError
from crowdppl.inference.density import Density
from crowdppl.primitives import (
    Block,
    Card,
    annotate,
    annotator_covariates,
    item_covariates,
    plates,
    truth,
    with_abstentions,
)
from tests.crowd import double


@dataclass(frozen=True)
class BySource:
    """Classes are more or less common by the source of an item, and trained annotators err less to begin with."""

    mass: float = 6.0
    card: ClassVar[Card] = Card(
        "By source",
        "nobody",
        sites={"shares": "2 K", "confusion": "A K K", "abstention": "A D W", "truth": "N"},
        uses=("item_covariates", "annotator_covariates"),
    )

    def model(self, data: Block) -> None:
        k = data.n_classes
        web, trained = item_covariates(data, "web"), annotator_covariates(data, "trained")
        shares = pyro.sample("shares", dist.Dirichlet(2 * torch.ones(2, k)).to_event(1)).log()
        prior = 2 + self.mass * (1 + trained.unsqueeze(-1)) * torch.eye(k)
        with plates.annotators(data):
            confusion = pyro.sample("confusion", dist.Dirichlet(prior).to_event(1)).log()
        table = with_abstentions(data, confusion)
        log_p = torch.where(web > 0.5, shares[..., 1, :], shares[..., 0, :])
        with plates.items(data):
            annotate(data, table, truth(data, log_p))


def people() -> pd.DataFrame:
    return pd.DataFrame({"name": list("vwxyz"), "trained": [1, 0, 1, 0, 0]}, index=[f"a{n}" for n in range(5)])


def crowd(n: int = 60, seed: int = 0, first: int = 0) -> tuple[pd.DataFrame, pd.DataFrame, pd.Series[Any]]:
    """Labels, items' covariates and the truth: of web items three in four are of class 1, of others one in four."""
    rng = np.random.default_rng(seed)
    web = rng.integers(0, 2, n)
    true = (rng.random(n) < np.where(web, 0.75, 0.25)).astype(int)
    ids = [f"i{first + i}" for i in range(n)]
    rows = []
    for i in range(n):
        for a in rng.permutation(5)[:3]:
            right = rng.random() < (0.9 if people()["trained"].iloc[a] else 0.65)
            rows.append((ids[i], f"a{a}", int(true[i] if right else 1 - true[i])))
    items = pd.DataFrame({"web": web.astype(bool), "source": np.where(web, "web", "print")}, index=ids)
    return pd.DataFrame(rows, columns=["item", "annotator", "label"]), items, pd.Series(true, ids)


def given(n: int = 60, seed: int = 0, first: int = 0, **more: Any) -> Annotations:
    rows, items, _ = crowd(n, seed, first)
    known: dict[str, Any] = {"item_covariates": items.sample(frac=1, random_state=1)}
    return Annotations.from_frame(rows, annotator_covariates=people()[::-1], **{**known, **more})


def in_blocks(data: Annotations, labels: int) -> Annotations:
    sizes = {name: getattr(data, name) for name in ("n_items", "n_annotators", "n_classes", "n_answers")}
    order, blocks = build_blocks(*data.label_codes(), **sizes, block_labels=labels)
    known = [with_known(block, order, data.gold_codes) for block in blocks]
    tables = (data.item_covariates, data.annotator_covariates, data.label_covariates)
    return replace(data, blocks=with_covariates(known, order, *tables), order=order)


def by_hand(data: Annotations, mass: float = 6.0) -> np.ndarray:
    """EM for ``BySource`` in numpy, without blocks, plates or tensors: probabilities (N, 2) in codebook order."""
    frame, k = data.frame(), 2
    web = data.item_covariates["web"].to_numpy(int)
    trained = data.annotator_covariates["trained"].to_numpy(float)
    item, annotator = data.items.get_indexer(frame["item"]), data.annotators.get_indexer(frame["annotator"])
    said = np.eye(k)[frame["label"].to_numpy(int)]
    p = np.full((data.n_items, k), 0.5)
    np.add.at(p, item, said)
    p /= p.sum(1, keepdims=True)
    for _ in range(1000):
        shares = np.ones((2, k))
        np.add.at(shares, web, p)
        shares /= shares.sum(1, keepdims=True)
        confusion = 1 + mass * (1 + trained[:, None, None]) * np.eye(k)
        np.add.at(confusion, annotator, p[item][:, :, None] * said[:, None, :])
        confusion /= confusion.sum(-1, keepdims=True)
        log_p = np.log(shares[web])
        np.add.at(log_p, item, (np.log(confusion)[annotator] * said[:, None, :]).sum(-1))
        p = np.exp(log_p - np.logaddexp.reduce(log_p, 1)[:, None])
    return np.asarray(p)


def test_columns_come_by_name_in_the_order_of_items_and_annotators() -> None:
    data = given()
    _, items, _ = crowd()
    whole = data.as_block()
    assert item_covariates(whole, "web").dtype == torch.float32
    want = items["web"].loc[data.items[data.order]].to_numpy(np.float32)
    assert item_covariates(data, "web").tolist() == want[:, None].tolist()
    assert annotator_covariates(data, "trained", "trained").tolist() == [[x, x] for x in [1, 0, 1, 0, 0]]
    some = whole.subset(np.array([3, 7, 8]), 2.0)
    assert item_covariates(some, "web").tolist() == want[[3, 7, 8], None].tolist()
    parts = [item_covariates(block, "web") for block in in_blocks(data, 20).blocks]
    assert len(parts) > 3 and torch.equal(torch.cat(parts), item_covariates(in_blocks(data, 20), "web"))
    with double():
        assert item_covariates(whole.to("cpu", torch.float32), "web").dtype == torch.float64


def test_what_holds_no_numbers_stays_and_is_refused_by_name_when_a_model_reads_it() -> None:
    rows, items, _ = crowd()
    data = given(item_covariates=items[items.index != "i7"].assign(words=3.5))
    assert data.item_covariates is not None and list(data.item_covariates) == ["web", "source", "words"]
    twins = pd.concat([people()[["trained"]]] * 2, axis=1)
    for read, named in (
        (lambda: item_covariates(data, "words"), "'words' .* 'i7'"),
        (lambda: item_covariates(data, "source"), "'source'"),
        (lambda: item_covariates(data), "'web' .* 'i7'"),
        (lambda: annotator_covariates(data, "age"), "'age'.* 'name', 'trained'"),
        (lambda: annotator_covariates(Annotations.from_frame(rows, annotator_covariates=twins)), "'trained'"),
        (lambda: item_covariates(Annotations.from_frame(rows)), "item_covariates"),
        (lambda: crowdppl.fit(BySource(), Annotations.from_frame(rows), inference="em"), "By source .*item_cov"),
    ):
        with pytest.raises(DataError, match=named):
            read()


def test_em_is_em_by_hand_also_in_blocks() -> None:
    data = given()
    found = crowdppl.fit(BySource(), data, inference="em", tolerance=1e-13, max_iterations=5000)
    assert np.abs(found.probabilities().to_numpy() - by_hand(data)).max() < 1e-5
    small = crowdppl.fit(BySource(), in_blocks(data, 20), inference="em", tolerance=1e-13, max_iterations=5000)
    assert np.abs(found.probabilities() - small.probabilities()).to_numpy().max() < 1e-8
    plain = replace(data, item_covariates=None, annotator_covariates=None)
    nearest = crowdppl.fit("bayesian_dawid_skene", plain, inference="vb").probabilities()
    assert np.abs(found.probabilities().to_numpy() - nearest.to_numpy()).max() > 0.1


def test_gibbs_finds_the_shares_of_both_sources() -> None:
    found = crowdppl.fit(BySource(), given(100), inference="gibbs", seed=0, chains=2, draws=40, warmup=20)
    shares = found.result.sites["shares"].mean
    assert shares[1, 1] > 0.6 > 0.4 > shares[0, 1]
    assert (found.labels()["label"] == crowd(100)[2].loc[found.data.items]).mean() > 0.8
    assert found.confusion().shape == (5, 2, 2)


def test_new_items_are_predicted_by_their_own_covariates_in_any_order_of_columns() -> None:
    data = given(80)
    fitted = crowdppl.fit(BySource(), data, inference="em")
    rows, items, _ = crowd(40, seed=1, first=1000)
    new = Annotations.from_frame(rows, item_covariates=items[["source", "web"]])  # annotators' are known
    found = fitted.predict(new)
    block = replace(given(40, 1, 1000, like=data).as_block())
    with double():
        values = {n: torch.from_numpy(site.mean) for n, site in fitted.result.sites.items()}
        p = Density(fitted.model.model, 1)(block, values, marginals=("truth",)).marginals["truth"].t()
    want = given(40, 1, 1000, like=data)
    assert np.allclose(found.loc[want.items[want.order]].to_numpy(), p.numpy(), atol=1e-6)
    other = fitted.predict(Annotations.from_frame(rows, item_covariates=items.assign(web=~items["web"])))
    assert np.abs(found - other).to_numpy().max() > 0.1
    with pytest.raises(DataError, match="reads item_covariates"):
        fitted.predict(rows)
    with pytest.raises(DataError, match="columns of these covariates are not those of the fit: they lack 'web'"):
        fitted.predict(Annotations.from_frame(rows, item_covariates=items[["source"]]))
    again = fitted.predict(data.frame())  # old items: theirs are known
    assert np.allclose(again.to_numpy(), fitted.probabilities().loc[again.index].to_numpy(), atol=1e-6)


def test_an_update_goes_on_with_the_covariates_of_new_items() -> None:
    data, more = given(80), given(80, 1, 1000)
    fitted = crowdppl.fit(BySource(), data, inference="vb")
    updated = fitted.update(more)
    rows = pd.concat([data.frame(), more.frame()])
    items = pd.concat([crowd(80)[1], crowd(80, 1, 1000)[1]])
    both = crowdppl.fit(
        BySource(),
        Annotations.from_frame(rows, item_covariates=items, annotator_covariates=people()),
        inference="vb",
    )
    assert np.abs(updated.probabilities() - both.probabilities().loc[more.items]).to_numpy().mean() < 0.05


@dataclass(frozen=True)
class Blind(BySource):
    """The same, told that all items and annotators are alike."""

    card: ClassVar[Card] = replace(BySource.card, uses=())

    def model(self, data: Block) -> None:
        block = data.as_block()
        assert block.item_covariates is not None and block.annotator_covariates is not None
        items, people = block.item_covariates, block.annotator_covariates
        alike = {"item_covariates": items.average(block.n_items), "annotator_covariates": people.average(5)}
        super().model(replace(block, **alike))


def test_labels_left_out_are_more_probable_than_without() -> None:
    data = given(100)
    seeing, blind = (heldout_score(model, data, folds=2, inference="em") for model in (BySource(), Blind()))
    assert seeing.per_label > blind.per_label


def test_a_design_is_simulated_with_them_and_annotators_are_left_out_with_them() -> None:
    rows, items, _ = crowd(300)
    design = Annotations.design(
        rows["item"], rows["annotator"], classes=[0, 1], item_covariates=items, annotator_covariates=people()
    )
    drawn = simulate(BySource(), design, seed=3)
    share = pd.Series(drawn.truth).groupby(items["web"].loc[drawn.truth.index].to_numpy()).mean()
    assert np.allclose(share.to_numpy(), drawn.parameters["shares"][:, 1], atol=0.1)
    assert drawn.data.item_covariates is not None
    fitted = crowdppl.fit(BySource(), drawn.data, inference="em")
    rest = fitted.without(["a0"])
    assert rest.data.n_labels < fitted.data.n_labels
    assert rest.suggest_labels(2)["information"].gt(0).all()


def by_slope(data: Block) -> None:
    """Annotators are the better, the fewer words an item has: labels depend on more than the truth."""
    words = item_covariates(data, "words")[:, 0]
    with plates.annotators(data):
        ability = pyro.sample("ability", dist.Normal(1.5, 1.0))
    odds = data.of_annotator(ability) - 2 * data.of_item(words)
    right, wrong = torch.nn.functional.logsigmoid(odds), torch.nn.functional.logsigmoid(-odds)
    with plates.items(data):
        annotate(data, crowdppl.primitives.Coin(right, wrong), truth(data, torch.full((2,), 0.5).log()))


class BySlope:
    model = staticmethod(by_slope)


def test_where_labels_depend_on_a_covariate_each_item_has_its_tables_and_confusion_is_their_mean() -> None:
    rows, items, _ = crowd(60)
    words = pd.DataFrame({"words": np.random.default_rng(3).normal(size=60)}, index=items.index)
    data = Annotations.from_frame(rows, item_covariates=words)
    fitted = crowdppl.fit(BySlope(), data, inference="em", tolerance=1e-10)
    ability = fitted.result.sites["ability"].mean
    right = (1 / (1 + np.exp(-(ability - 2 * words.to_numpy())))).mean(0)
    assert np.allclose(fitted.confusion().to_numpy()[:, 0, 0], right, atol=0.01)  # 32 items stand for 60
    asked = fitted.suggest_labels(40, exclude_answered=False)
    mine = asked[asked["annotator"] == "a0"].set_index("item")["information"]
    assert len(mine) > 3
    p = fitted.probabilities()
    for item in mine.index:
        chance = 1 / (1 + np.exp(-(ability[0] - 2 * words.loc[item, "words"])))
        q = p.loc[item].to_numpy() @ np.array([[chance, 1 - chance], [1 - chance, chance]])
        want = entropy(q) - entropy(np.array([chance, 1 - chance]))
        assert mine[item] == pytest.approx(want, abs=1e-3)


def entropy(p: np.ndarray) -> float:
    return float(-(p * np.log2(p)).sum())


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Answers and covariates on disk, and ``by_source`` by name."""
    crowdppl.register("by_source", BySource)
    rows, items, _ = crowd()
    rows.to_csv(tmp_path / "answers.csv", index=False)
    items["web"].astype(int).rename_axis("task").to_csv(tmp_path / "items.csv")
    people().rename_axis("who").to_csv(tmp_path / "people.csv", encoding="utf-16")
    return tmp_path


def command(files: Path, *more: Any) -> int:
    try:
        main([*map(str, ("fit", files / "answers.csv", "--out", files / "result", "--inference", "em", *more))])
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def test_files_of_covariates_on_the_command_line(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items = ("--item-covariates", files / "items.csv")
    them = (*items, "--annotator-covariates", files / "people.csv")
    assert command(files, "--model", "by_source") == 2
    assert "item_covariates" in capsys.readouterr().err
    assert command(files, "--model", "by_source", *them) == 2
    assert "people.csv" in capsys.readouterr().err
    them = (*them, "--covariates-encoding", "utf-16")
    items_only = ("--item-covariates", files / "people.csv", "--covariates-encoding", "utf-16")
    assert command(files, "--model", "by_source", *items_only) == 2
    assert "people.csv" in capsys.readouterr().err
    write = (files / "items.csv").read_text().encode("utf-16")
    (files / "items.csv").write_bytes(write)
    assert command(files, "--model", "by_source", *them, "--covariates-annotator", "who") == 0
    found = crowdppl.load(files / "result", model=BySource()).probabilities()
    rows, table, _ = crowd()
    rows = rows.assign(label=rows["label"].astype(str))
    data = Annotations.from_frame(rows, item_covariates=table, annotator_covariates=people())
    want = crowdppl.fit(BySource(), data, inference="em").probabilities()
    assert np.allclose(found.loc[want.index].to_numpy(), want.to_numpy())


def test_a_file_of_covariates_needs_ids(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("worker,years\nann,3\n,4\n")
    with pytest.raises(DataError, match="line 3 of people.csv"):
        crowdppl.read_annotator_covariates(path)
    path.write_text("worker,years\n007,3\n7,\n")
    assert crowdppl.read_annotator_covariates(path)["years"].fillna(0).to_dict() == {"007": 3, "7": 0}


@pytest.mark.parametrize("name", ["density", "answers", "chains", "engine em", "engine svi", "saving"])
def test_a_model_that_reads_covariates_meets_the_contract(name: str) -> None:
    testing.check(BySource(), name, item_covariates={"web": [0, 1]}, annotator_covariates={"trained": [1, 0, 0]})
