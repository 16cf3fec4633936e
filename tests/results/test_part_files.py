"""Results of annotations that stay in parts: files part by part, by one process or several, and read again."""

import hashlib
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file, save_file

import crowdppl
from crowdppl.cli.commands import main
from crowdppl.errors import CrowdpplError, ResultError
from crowdppl.inference.vb import collapsed
from crowdppl.posterior import Posterior
from tests.inference.shared import by_processes

pytest.importorskip("duckdb")
pytestmark = pytest.mark.filterwarnings("ignore")


FEW_SWEEPS = 3 * 3 * 179
"""Labels times classes, three times: there are three sweeps."""


def labels(kind: str = "nominal", items: int = 60) -> pd.DataFrame:
    """Three labels of each item but the last, whose two name two classes; ids with a comma, a quote and a slash."""
    rng = np.random.default_rng(3)
    item = np.repeat([f'i/{n},"' for n in range(items)], 3)
    label = rng.integers(3, size=len(item)) if kind != "real" else rng.normal(size=len(item))
    who = np.concatenate([rng.choice(6, 3, replace=False) for _ in range(items)])
    return pd.DataFrame({"item": item, "annotator": who, "label": label}).iloc[:-1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Parts of classes and of numbers."""
    made = tmp_path_factory.mktemp("parts")
    for kind in ("nominal", "real"):
        labels(kind).to_csv(made / f"{kind}.csv", index=False)
        crowdppl.convert(made / f"{kind}.csv", made / kind, n_parts=4, kind=kind)
    return made


def fit(folder: Path, kind: str = "nominal", **given: Any) -> Posterior:
    method = "bayesian_dawid_skene" if kind == "nominal" else "gaussian_annotators"
    data = crowdppl.Annotations.open(folder / kind, **given)
    return crowdppl.fit(method, data, inference="vb", seed=0, max_iterations=30)


@pytest.fixture(scope="module")
def posterior(folder: Path) -> Posterior:
    """A fit of classes."""
    return fit(folder)


def assert_same(one: Posterior, other: Posterior) -> None:
    pd.testing.assert_frame_equal(one.truth(), other.truth(), rtol=1e-9)
    pd.testing.assert_frame_equal(one.annotators(), other.annotators(), rtol=1e-6)


@pytest.mark.parametrize("kind", ["nominal", "real"])
def test_a_fit_of_parts_is_saved_without_its_labels_and_read_again(folder: Path, tmp_path: Path, kind: str) -> None:
    posterior = fit(folder, kind)
    posterior.save(tmp_path)
    assert not [*tmp_path.glob("*.parquet")]
    assert len([*tmp_path.glob("posterior-*.safetensors")]) == 4
    again = crowdppl.load(tmp_path)
    assert_same(posterior, again)
    again.save(tmp_path)
    assert_same(posterior, crowdppl.load(tmp_path))


def test_labels_are_written_part_by_part(posterior: Posterior, tmp_path: Path) -> None:
    for old in ("labels-00017.parquet", "labels-mine.parquet"):
        (tmp_path / old).touch()
    posterior.to_parquet(tmp_path)
    (tmp_path / "labels-mine.parquet").unlink()  # which is nobody else's
    parts = [pd.read_parquet(path) for path in sorted(tmp_path.glob("labels-*.parquet"))]
    assert len(parts) == 4
    pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), posterior.to_arrow().to_pandas())


def test_gold_and_history_of_a_fit_are_kept(folder: Path, tmp_path: Path) -> None:
    first = labels()["item"].iloc[0]
    posterior = fit(folder, gold={first: "2"}, history={"0": np.full((3, 3), 2.0)})
    posterior.save(tmp_path)
    again = crowdppl.load(tmp_path)
    assert again.data.gold is not None
    assert again.data.gold.dropna().to_dict() == {first: "2"}
    np.testing.assert_array_equal(again.data.history, posterior.data.history)
    assert_same(posterior, again)


def test_what_is_more_than_parts_hold_is_saved_with_the_fit(folder: Path, tmp_path: Path) -> None:
    who = pd.DataFrame({"age": np.arange(6.0)}, index=[*"012345"])
    posterior = fit(folder, annotator_covariates=who)
    posterior.save(tmp_path)
    again = crowdppl.load(tmp_path)
    assert again.data.opened is None
    pd.testing.assert_frame_equal(posterior.labels(), again.labels())


def test_parts_that_moved_are_named_and_others_are_refused(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "nominal", tmp_path / "there")
    posterior = fit(tmp_path, "nominal") if (tmp_path / "there").rename(tmp_path / "nominal") else None
    assert posterior is not None
    posterior.save(tmp_path / "result")
    (tmp_path / "nominal").rename(tmp_path / "moved")
    with pytest.raises(ResultError, match="parts="):
        crowdppl.load(tmp_path / "result")
    assert_same(posterior, crowdppl.load(tmp_path / "result", parts=tmp_path / "moved"))
    with pytest.raises(ResultError, match="other labels"):
        crowdppl.load(tmp_path / "result", parts=folder / "real")
    crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0).save(tmp_path / "whole")
    with pytest.raises(ResultError, match="leave parts= out"):
        crowdppl.load(tmp_path / "whole", parts=tmp_path / "moved")


def sealed(folder: Path, name: str) -> None:
    """Puts the digests of a changed file, and of the first file, right."""
    path = folder / "posterior.json"
    about = json.loads(path.read_text())
    about.pop("digest")
    about["files"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps(about | {"digest": digest}))


PLACE = "posterior/result/truth/probabilities"


@pytest.mark.parametrize(
    "change",
    [
        lambda x: {PLACE: x[PLACE][1:]},
        lambda x: {PLACE: x[PLACE] * 2},
        lambda x: {PLACE: x[PLACE] * np.nan},
        lambda x: {},
        lambda x: {PLACE: x[PLACE].astype(np.int8)},
    ],
    ids=["rows", "sums", "nan", "missing", "type"],
)
@pytest.mark.parametrize("are_sealed", [True, False])
def test_a_forged_part_is_refused(posterior: Posterior, tmp_path: Path, change: Any, are_sealed: bool) -> None:
    posterior.save(tmp_path)
    name = "posterior-00001.safetensors"
    save_file(change(load_file(tmp_path / name)), tmp_path / name)
    if are_sealed:
        sealed(tmp_path, name)
    with pytest.raises(ResultError):
        crowdppl.load(tmp_path)


def test_a_result_takes_the_place_of_another_without_leaving_files(posterior: Posterior, tmp_path: Path) -> None:
    of_parts, whole = posterior, crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
    for posterior, n in ((of_parts, 6), (whole, 5), (of_parts, 6)):
        posterior.save(tmp_path)
        assert len([*tmp_path.iterdir()]) == n
        assert_same(posterior, crowdppl.load(tmp_path))


def test_labels_in_chunks_tell_the_same_as_at_once(
    folder: Path, posterior: Posterior, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = posterior
    assert whole.diagnostics()["sweeps"] > 1
    monkeypatch.setattr(collapsed, "CHUNK", 50)
    in_chunks = fit(folder)
    np.testing.assert_allclose(in_chunks.probabilities(), whole.probabilities(), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(in_chunks.site("confusion"), whole.site("confusion"), rtol=1e-9)


def test_annotations_that_are_changed_no_longer_stay(folder: Path) -> None:
    data = crowdppl.Annotations.open(folder / "nominal")
    assert data.opened is not None
    assert data.with_gold({data.items[0]: 1}).opened is not None
    design = data.answered([block.answer for block in data.blocks])
    assert design.opened is None


def told(run: Any) -> str:
    """The class and text of the error that a call raises; nothing where it raises none."""
    try:
        run()
    except (CrowdpplError, SystemExit) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def shared(process: int, processes: int, folder: Path, out: Path) -> dict[str, Any]:
    """A fit by several processes in Python, then by the command, as torchrun starts it; and what is refused."""
    os.environ |= {"WORLD_SIZE": f"{processes}", "RANK": f"{process}"}
    collapsed.WORK = FEW_SWEEPS
    posterior = fit(folder)
    posterior.save(out / "saved")
    posterior.to_parquet(out / "tables")
    found = {"summary": posterior.summary(), "own": len(posterior.labels())}
    found["loaded"] = len(crowdppl.load(out / "saved").labels())
    command = ["fit", str(folder / "nominal"), "--inference", "vb", "--option", "max_iterations=30"]
    command += ["--model", "bayesian_dawid_skene", "--out", str(out / "command")]
    found["first"], found["again"] = told(lambda: main(command)), told(lambda: main(command))
    found["auto"] = told(lambda: main(["fit", str(folder / "nominal"), "--out", str(out / "auto")]))
    blocked = out / "file"
    blocked.touch()
    found["file"] = told(lambda: posterior.save(blocked))
    return found


def test_several_processes_write_one_result(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collapsed, "WORK", FEW_SWEEPS)
    alone, each = fit(folder), by_processes(2, shared, folder, tmp_path)
    assert alone.diagnostics()["sweeps"] == 3
    assert sum(x["own"] for x in each) == sum(x["loaded"] for x in each) == alone.data.n_items
    tables = [text.split("\n\n", 1)[1] for text in (each[0]["summary"], each[1]["summary"], alone.summary())]
    assert tables[0] == tables[1] == tables[2]
    for name in ("saved", "command"):
        assert_same(alone, crowdppl.load(tmp_path / name))
    parts = [pd.read_parquet(path) for path in sorted((tmp_path / "tables").glob("labels-*.parquet"))]
    pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), alone.to_arrow().to_pandas())
    assert len([*(tmp_path / "command").glob("labels-*.parquet")]) == 4
    record = json.loads((tmp_path / "command" / "run.json").read_text())
    assert record["data"]["labels"] == alone.data.n_labels
    table = pd.read_csv(tmp_path / "command" / "annotators.csv", index_col="annotator")
    np.testing.assert_array_equal(table["labels"], alone.annotators()["labels"])
    for x in each:
        assert (x["first"], x["again"], x["auto"]) == ("SystemExit: 0", "SystemExit: 2", "SystemExit: 2")
        assert x["file"].startswith("ResultError")
    assert (tmp_path / "file").read_bytes() == b""


def features() -> pd.DataFrame:
    """Two features of each item that has labels, one of them whole numbers."""
    ids = sorted(labels()["item"].unique())
    return pd.DataFrame({"x": np.linspace(-1, 1, len(ids)), 3: np.arange(len(ids)) % 5}, index=ids)


def test_features_and_a_network_are_saved_with_a_fit_of_parts(folder: Path, tmp_path: Path) -> None:
    table = features()
    for name in "frame", "array":
        data = crowdppl.Annotations.open(folder / "nominal", features=table)
        if name == "array":
            data = replace(data, features=data.features.to_numpy())
        posterior = crowdppl.fit("global_noise", data, inference="em", seed=0, settings={"training": {"epochs": 3}})
        posterior.save(tmp_path / name)
        assert not [*(tmp_path / name).glob("*.parquet")]
        read = crowdppl.load(tmp_path / name)
        np.testing.assert_array_equal(np.asarray(read.data.features), np.asarray(data.features))
        if name == "frame":
            pd.testing.assert_index_equal(read.data.features.columns, table.columns)
        pd.testing.assert_frame_equal(read.classify(table), posterior.classify(table))
        assert_same(read, posterior)


def saved_by_all(process: int, processes: int, folder: Path, out: Path) -> str:
    data = crowdppl.Annotations.open(folder / "nominal", features=features())
    settings = {"training": {"epochs": 2, "dropout": 0.0}}
    crowdppl.fit("global_noise", data, inference="em", seed=0, settings=settings).save(out)
    covariates = pd.DataFrame({"length": 1.0}, index=features().index)
    more = crowdppl.Annotations.open(folder / "nominal", item_covariates=covariates)
    with pytest.raises(ResultError) as error:
        crowdppl.fit("majority_vote", more, inference="em", seed=0).save(out)
    return str(error.value)


def test_processes_save_a_network_and_all_features(folder: Path, tmp_path: Path) -> None:
    messages = by_processes(2, saved_by_all, folder, tmp_path)
    assert all("item_covariates" in message for message in messages)
    read, table = crowdppl.load(tmp_path), features()
    assert read.data.n_items == len(table)
    assert (read.data.features.loc[table.index] == table).all(axis=None)
    assert read.classify(table).shape == (len(table), 3)


def fitted_in_chunks(process: int, processes: int, folder: Path) -> pd.Series:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collapsed, "CHUNK", 1)  # a chunk a block
        return fit(folder).labels()["probability"]


def test_processes_may_have_other_numbers_of_chunks(folder: Path) -> None:
    of_all = pd.concat(by_processes(3, fitted_in_chunks, folder))  # of four parts
    pd.testing.assert_series_equal(of_all, fit(folder).labels()["probability"], rtol=1e-9)
