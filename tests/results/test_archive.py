"""Saving and loading: exact types and values come back; what is damaged, newer or another is refused."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist
import pytest
import torch

import crowdppl
import crowdppl.primitives as cp
from crowdppl import registry
from crowdppl.data.annotations import Annotations
from crowdppl.errors import ResultError
from crowdppl.inference.result import FORMAT, OnDemand
from crowdppl.posterior import Posterior, load
from crowdppl.primitives.model import Card
from crowdppl.results import archive
from crowdppl.results.archive import ARRAYS, TEXT


@dataclass
class Shelved:
    """A method with settings of many kinds."""

    groups: tuple[int, ...] = (0, 1)
    weight: float = 0.1
    table: Any = None
    card: ClassVar[Card] = Card(
        "Shelved",
        "nobody",
        sites={"confusion": "A K L", "share": "K", "ability": "A", "kind": "A kinds", "ease": "N", "truth": "N"},
        uses=("history",),
    )

    def model(self, data: Any) -> None:
        share = pyro.sample("share", dist.Dirichlet(torch.ones(data.n_classes)))
        with cp.plates.annotators(data):
            rows = torch.ones(data.n_classes, data.n_answers)
            confusion = pyro.sample("confusion", dist.Dirichlet(rows).to_event(1))
            pyro.sample("ability", dist.Normal(0.0, 1.0))
            pyro.sample("kind", cp.OneHot(torch.zeros(3)))
        with cp.plates.items(data):
            pyro.sample("ease", dist.LogNormal(0.0, 1.0))
            cp.annotate(data, confusion.log(), cp.truth(data, share.log()))


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "_registered", {"shelved": Shelved})
    yield


def annotations(items: Any, annotators: Any, labels: Any, **options: Any) -> Annotations:
    return Annotations.from_arrays(items, annotators, labels, **options)


def posterior(data: Annotations, **settings: Any) -> Posterior:
    return crowdppl.fit(Shelved(**settings), data, inference="vb", seed=3, max_iterations=2)


@cache
def tiny() -> Posterior:
    return posterior(annotations([1, 1, 2], ["a", "b", "a"], ["x", "y", "y"]))


def assert_same(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    if isinstance(expected, np.ndarray):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(found, expected)
    elif isinstance(expected, OnDemand):
        assert_same(found(), expected())
    elif is_dataclass(expected):
        for field in fields(expected):
            assert_same(getattr(found, field.name), getattr(expected, field.name))
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        for key in expected:
            assert_same(found[key], expected[key])
    elif isinstance(expected, float) and np.isnan(expected):
        assert np.isnan(found)
    else:
        assert found == expected


DATA = {
    "text": ([" 007", "7", "a,b", 'q"', "\u00fc\n"], list("xyzxy"), ["no", "yes", "no", "no", "yes"]),
    "whole numbers": (np.array([5, 3, 5]), np.array([2**40, 1, 1]), [1, 0, 2]),
}


@pytest.mark.parametrize("kind", DATA)
def test_round_trip(kind: str, tmp_path: Path) -> None:
    data = annotations(*DATA[kind])
    saved = posterior(data, groups=(1, 0, 1), weight=1 / 3, table=np.arange(4.0).reshape(2, 2).T)
    saved.save(tmp_path / "deep" / "result")
    found = load(str(tmp_path / "deep" / "result"), method="shelved")
    assert_same(found.result, saved.result)
    assert (found.method, found.inference, found.options) == ("shelved", "vb", saved.options)
    assert isinstance(found.model, Shelved)
    assert (found.model.groups, found.model.weight) == ((1, 0, 1), 1 / 3)
    np.testing.assert_array_equal(found.model.table, saved.model.table)
    for name in ("items", "annotators", "classes", "answers"):
        pd.testing.assert_index_equal(getattr(found.data, name), getattr(data, name), exact=True)
    pd.testing.assert_frame_equal(found.data.frame(), data.frame())
    for table in ("labels", "annotators", "prevalence", "truth", "probabilities"):
        pd.testing.assert_frame_equal(getattr(found, table)(), getattr(saved, table)())


def test_gold_history_abstentions_kind_and_warnings_come_back(tmp_path: Path) -> None:
    history = np.arange(12.0).reshape(3, 2, 2)
    data = annotations(
        [3, 1, 1, 2],
        ["a", "b", "c", "a"],
        ["x", "skip", "y", "y"],
        abstentions=["skip"],
        informative_abstentions=True,
        classes=["y", "x"],
        gold={1: "x", 3: "y"},
        history=history,
        kind="ordinal",
    )
    posterior(data).save(tmp_path)
    found = load(tmp_path).data
    assert (found.kind, list(found.classes), list(found.answers)) == ("ordinal", ["y", "x"], ["y", "x", "skip"])
    pd.testing.assert_series_equal(found.gold, data.gold)
    np.testing.assert_array_equal(found.history, history)
    np.testing.assert_array_equal(found.abstainers, data.abstainers)
    assert found.alphabet.informative and all(block.informative for block in found.blocks)
    assert [str(w) for w in found.warnings] == [str(w) for w in data.warnings] != []
    assert [type(w) for w in found.warnings] == [type(w) for w in data.warnings]
    for mine, theirs in zip(found.blocks, data.blocks, strict=True):
        assert torch.equal(mine.bags.cells, theirs.bags.cells)
        assert torch.equal(mine.gold, theirs.gold)


@pytest.mark.parametrize("array", [False, True], ids=["table", "array"])
def test_features_covariates_and_columns_come_back(array: bool, tmp_path: Path) -> None:
    rows = pd.DataFrame({"item": ["b", "a", "b"], "annotator": [2, 1, 1], "label": ["x", "y", "x"]})
    rows["when"] = pd.to_datetime(["2024-01-01 10:00", None, "2024-03-01 00:00"]).tz_localize("Europe/Paris")
    rows["note"], rows["seconds"] = ["è", None, "7"], pd.array([3, None, 5], dtype="Int64")
    features: Any = pd.DataFrame({"width": [0.5, 1.5, 2.5], 7: [1, 2, 3]}, index=["c", "b", "a"])
    about: Any = {"items": ["c", "b", "a"], "features": features.to_numpy()} if array else {"features": features}
    data = Annotations.from_frame(
        rows,
        **about,
        item_covariates=pd.DataFrame({"source": ["web"]}, index=["b"]),
        annotator_covariates=pd.DataFrame({"age": [31.0, 44.0], "paid": [True, False]}, index=[2, 1]),
    )
    posterior(data).save(tmp_path / "kept")
    again = load(tmp_path / "kept").data
    pd.testing.assert_frame_equal(again.frame(), data.frame())
    pd.testing.assert_frame_equal(again.item_covariates, data.item_covariates)
    pd.testing.assert_frame_equal(again.annotator_covariates, data.annotator_covariates)
    if array:
        np.testing.assert_array_equal(again.features, data.features)
    else:
        pd.testing.assert_frame_equal(again.features, data.features)


def test_many_blocks_come_back(tmp_path: Path, small_blocks: Callable[[int], None]) -> None:
    small_blocks(40)
    stream = np.random.default_rng(0)
    data = annotations(stream.integers(0, 50, 300), stream.integers(0, 4, 300), stream.integers(0, 2, 300))
    assert len(data.blocks) > 3
    posterior(data).save(tmp_path)
    pd.testing.assert_frame_equal(load(tmp_path).data.frame(), data.frame())


@pytest.mark.parametrize("name", archive.FILES[:2])
def test_a_file_of_something_else_is_not_replaced(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text('{"mean": [1, 2]}')
    with pytest.raises(ResultError, match=name):
        tiny().save(tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {name: '{"mean": [1, 2]}'}


def test_a_method_that_is_not_known_here_can_be_handed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny().save(tmp_path)
    monkeypatch.setattr(registry, "_registered", {})
    with pytest.raises(ResultError, match="model="):
        load(tmp_path)
    with pytest.raises(ResultError, match="other"):
        load(tmp_path, method="other")
    model = Shelved()
    assert load(tmp_path, model=model).model is model


def test_a_method_that_is_handed_over_gets_the_settings_of_the_fit_and_another_is_refused(tmp_path: Path) -> None:
    data = crowdppl.anaesthetists()
    crowdppl.fit("class_coin", data, inference="em", settings={"right": 3.0}).save(tmp_path)
    loaded: Any = load(tmp_path, model=crowdppl.method("class_coin", right=9.0))
    assert loaded.model.right == 3.0
    for model in (crowdppl.method("glad"), Shelved()):
        with pytest.raises(ResultError, match="model="):
            load(tmp_path, model=model)


def change(path: Path, **entries: Any) -> None:
    about = json.loads(path.read_text())
    path.write_text(json.dumps(about | entries))


def flip(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[-5] ^= 1
    path.write_bytes(whole)


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "newer": (lambda f: change(f / TEXT, format=99, crowdppl="9.9"), "upgrade"),
    "last format": (
        lambda f: change(f / TEXT, format=FORMAT - 1, crowdppl="0.7"),
        r"by crowdppl 0\.7 in format \d+, .*: fit again, or install crowdppl 0\.7$",
    ),
    "edited": (lambda f: change(f / TEXT, contents={}), TEXT),
    "other JSON": (lambda f: (f / TEXT).write_text("[1, 2]"), TEXT),
    "no text": (lambda f: (f / TEXT).unlink(), TEXT),
    "one bit": (lambda f: flip(f / ARRAYS), ARRAYS),
    "no labels": (lambda f: (f / "posterior.labels.parquet").unlink(), "labels.parquet"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_refused_with_its_reason(damage: str, tmp_path: Path) -> None:
    folder = tmp_path / "result"
    tiny().save(folder)
    harm, message = DAMAGES[damage]
    harm(folder)
    with pytest.raises(ResultError, match=message):
        load(folder)


def test_a_setting_that_cannot_be_saved_is_named(tmp_path: Path) -> None:
    fitted = posterior(annotations([1, 1], ["a", "b"], ["x", "y"]), table={"net": [1, object()]})
    with pytest.raises(ResultError, match="settings/table/net/1"):
        fitted.save(tmp_path / "result")
    assert not (tmp_path / "result").exists()


def test_settings_come_back_with_their_type(tmp_path: Path) -> None:
    table = {
        "none": None,
        "whole": -(2**80),
        "numbers": [0.1 + 0.2, -0.0, float("inf"), 1e-320],
        "text": "ein Wörtchen\n",
        "tuple": (1, (2, "y"), []),
        "keys": {1: "x", (2, 3): "y", None: "z"},
        "tag": {"$array": 1},
        "view": np.arange(24, dtype=np.float32).reshape(2, 3, 4)[:, ::-1, ::2],
        "scalar": np.array(2.5),
        "odd": np.array([np.nan, -0.0, np.inf]),
        "bool": np.array([True, False]),
    }
    tensor = torch.arange(6.0).reshape(2, 3).t()
    data = annotations([1, 1], ["a", "b"], ["x", "y"])
    posterior(data, table=table | {"tensor": tensor, "numpy": np.float32(0.5)}).save(tmp_path)
    found: Any = load(tmp_path).model
    assert torch.equal(found.table.pop("tensor"), tensor) and found.table.pop("numpy") == 0.5
    assert_same(found.table, table)
    assert repr(found.table) == repr(table)


def test_a_crash_between_two_files_leaves_a_whole_posterior(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny().save(tmp_path)
    calls, replace = iter(range(9)), Path.replace

    def crash(path: Path, target: Path) -> Path:
        if next(calls) == 1:
            raise KeyboardInterrupt
        return replace(path, target)

    data = annotations([1, 1, 2, 7], ["a", "b", "a", "c"], ["x", "y", "y", "x"])
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "replace", crash)
        posterior(data).save(tmp_path)
    pd.testing.assert_frame_equal(load(tmp_path).data.frame(), data.frame())
    assert {path.name for path in tmp_path.iterdir()} == {*archive.FILES}
