"""Ray Train and Spark start the same function as torchrun: the same numbers. Needs the extra ``launchers``."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import distributed as dist

import crowdppl
from tests.benchmarks.results import ROOT
from tests.inference.shared import by_processes
from tests.inference.test_shared_fits import frame

pytestmark = pytest.mark.slow
Fitted = tuple[list[Any], np.ndarray, np.ndarray]


def fitted(folder: str) -> Fitted:
    """In a process of a group: its items, their probabilities, and the confusions of all annotators."""
    torch.set_num_threads(1)
    data = crowdppl.Annotations.open(folder)
    found = crowdppl.fit("dawid_skene", data, inference="em", seed=0).result
    return [*data.items], found.probabilities, found.sites["confusion"].mean


def launched(folder: str) -> None:
    """What launchers run in each process."""
    started = dist.is_initialized()
    if not started:
        dist.init_process_group("gloo")
    torch.save(fitted(folder), f"{folder}-found-{dist.get_rank()}")
    if not started:
        dist.destroy_process_group()


def of_process(_: int, __: int, folder: str) -> Fitted:
    return fitted(folder)


def by_ray(folder: str) -> None:
    import ray
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        TorchTrainer(
            launched,
            train_loop_config=folder,
            torch_config=TorchConfig(backend="gloo"),
            scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(storage_path=f"{folder}-ray"),
        ).fit()
    finally:
        ray.shutdown()


def by_spark(folder: str) -> None:
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not installed")
    from pyspark.ml.torch.distributor import TorchDistributor
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        TorchDistributor(num_processes=2, local_mode=True, use_gpu=False).run(launched, folder)
    finally:
        session.stop()


@pytest.mark.parametrize(("launch", "needed"), [(by_ray, "ray.train"), (by_spark, "pyspark")])
def test_launchers_find_what_torchrun_finds(
    launch: Callable[[str], None], needed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # processes that launchers start import this file
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    pytest.importorskip(needed, reason=f"{needed} is not installed (extra launchers)")
    pytest.importorskip("duckdb")
    frame().to_csv(tmp_path / "labels.csv", index=False)
    folder = str(tmp_path / "parts")
    crowdppl.convert(tmp_path / "labels.csv", folder, n_parts=4)
    launch(folder)
    for number, (items, *numbers) in enumerate(by_processes(2, of_process, folder)):
        own, *found = torch.load(f"{folder}-found-{number}", weights_only=False)
        assert own == items
        for x, y in zip(found, numbers, strict=True):
            np.testing.assert_array_equal(x, y)
