"""A fit that was killed goes on from its checkpoint, to the bits that it would have had."""

from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.errors import CrowdpplWarning, MethodError, ResultError
from tests.crowd import crowd
from tests.networks.test_networks import clouds

TRAINING = {"epochs": 7, "learning_rate": 5e-3}


class Killed(Exception):
    """Stands for the end of a process."""


def kill(t: int, objective: float, at: int = 4) -> None:
    if t == at:
        raise Killed


def fitted(name: str, engine: str, data: Any, seed: int = 1, **options: Any) -> Any:
    settings: dict[str, Any] = {"training": TRAINING}
    return crowdppl.fit(name, data, inference=engine, seed=seed, settings=settings, **options)


@pytest.mark.parametrize(("name", "engine"), [("bayes_dgc", "vb"), ("raykar", "em"), ("ccem", "svi")])
def test_a_killed_fit_goes_on_to_the_bits_of_one_that_keeps_none(name: str, engine: str, tmp_path: Path) -> None:
    """bayes_dgc by its recipe blends items; its search for a prior begins anew, so that bits may differ."""
    data, _ = clouds(120, 90)
    whole = fitted(name, engine, data)
    path = str(tmp_path / "killed")
    with pytest.raises(Killed):
        fitted(name, engine, data, checkpoint=path, checkpoint_every=2, callback=kill)
    calls: list[int] = []
    more: dict[str, Any] = {"checkpoint": path, "checkpoint_every": 2}
    again = fitted(name, engine, data, callback=lambda t, _: calls.append(t), **more)
    assert calls == [4, 5, 6]
    ended = fitted(name, engine, data, **more)
    pd.testing.assert_frame_equal(ended.probabilities(), again.probabilities(), check_exact=True)
    off = {"atol": 0.02, "rtol": 0} if (name, engine) == ("bayes_dgc", "vb") else {"check_exact": True}
    pd.testing.assert_frame_equal(again.probabilities(), whole.probabilities(), **off)
    pd.testing.assert_frame_equal(again.classify(data.features), whole.classify(data.features), **off)
    if off == {"check_exact": True}:
        assert again.diagnostics()["objectives"] == whole.diagnostics()["objectives"]


def test_another_network_dtype_guide_or_history_is_another_fit(tmp_path: Path) -> None:
    data, _ = clouds(60, 40)
    torch.manual_seed(0)
    first = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    frozen = deepcopy(first)
    frozen[0].requires_grad_(False)
    others = [
        nn.Sequential(first[0], nn.Tanh(), first[2]),
        nn.Sequential(first[0], nn.ReLU(), nn.Dropout(0.9), first[2]),
        frozen,
    ]
    known = dict.fromkeys(data.annotators[:1], 50 * np.eye(3))
    taught = Annotations.from_frame(data.frame(), features=data.features, items=data.items, history=known)
    more: dict[str, Any] = {"inference": "vb", "seed": 1, "checkpoint": str(tmp_path / "file")}
    settings: dict[str, Any] = {"training": {"epochs": 2}, "recipe": "plain"}
    crowdppl.fit("bayes_dgc", data, settings={**settings, "network": first}, **more)
    for network in others:
        with pytest.raises(ResultError, match="another fit"):
            crowdppl.fit("bayes_dgc", data, settings={**settings, "network": network}, **more)
    settings["network"] = first
    with pytest.raises(ResultError, match="another fit"):
        crowdppl.fit("bayes_dgc", data, settings=settings, dtype=torch.float32, **more)
    with pytest.raises(ResultError, match="another fit"):
        crowdppl.fit("bayes_dgc", data, settings=settings, guide="point", **more)
    with pytest.raises(ResultError, match="another fit"):
        crowdppl.fit("bayes_dgc", taught, settings=settings, **more)


OTHERS: list[tuple[str, str, int, dict[str, Any]]] = [
    ("bayesian_dawid_skene", "vb", 5, {}),
    ("glad", "vb", 10, {}),
    ("dawid_skene", "em", 7, {"restarts": 2}),
    ("hierarchical_dawid_skene", "gibbs", 7, {"chains": 2, "draws": 6, "warmup": 4}),
    ("class_coin", "laplace", 1, {"draws": 9}),
    ("dawid_skene", "svi", 5, {"max_iterations": 8, "batch_size": 20}),
]
"""Methods without networks, and iterations at whose end they are killed; glad goes on with more draws."""


@pytest.mark.parametrize(("name", "engine", "at", "options"), OTHERS)
def test_fits_without_networks_go_on_too(
    name: str, engine: str, at: int, options: dict[str, Any], tmp_path: Path
) -> None:
    data, how = crowd(80), {"inference": engine, "seed": 1, **options}
    whole, path = crowdppl.fit(name, data, **how), tmp_path / "killed"
    with pytest.raises(Killed):
        crowdppl.fit(name, data, checkpoint=path, checkpoint_every=1, callback=partial(kill, at=at), **how)
    calls: list[int] = []
    more: Any = {"checkpoint": path, "checkpoint_every": 1, "callback": lambda t, _: calls.append(t)}
    for first in ([at + 1], []):  # the second begins where the fit had ended
        calls.clear()
        again = crowdppl.fit(name, data, **more, **how)
        assert again.diagnostics()["objectives"] == whole.diagnostics()["objectives"]
        pd.testing.assert_frame_equal(again.probabilities(), whole.probabilities(), check_exact=True)
        for site, x in whole.result.sites.items():
            np.testing.assert_array_equal(again.result.sites[site].mean, x.mean)
        assert calls[:1] == first


def test_what_is_not_this_fits_is_refused(tmp_path: Path) -> None:
    data, _ = clouds(60, 40)
    path = tmp_path / "file"
    fitted("raykar", "em", data, checkpoint=str(path))
    with pytest.raises(ResultError, match="another fit"):
        fitted("raykar", "em", data, seed=2, checkpoint=str(path))
    with pytest.raises(ResultError, match="another fit"):
        fitted("raykar", "em", clouds(60, 40, seed=1)[0], checkpoint=str(path))
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ResultError, match="damaged"):
        fitted("raykar", "em", data, checkpoint=str(path))
    save_file({}, path, {"about": "[]"})
    with pytest.raises(ResultError, match="is no checkpoint"):
        fitted("raykar", "em", data, checkpoint=str(path))
    for how, text in (({"inference": "nuts"}, "nuts keeps none"), ({"trusted": ["a"]}, "trusted= makes several")):
        with pytest.raises(MethodError, match=text):
            crowdppl.fit("one_coin", crowd(20), checkpoint=str(path), **how)  # type: ignore[arg-type]
    with pytest.raises(MethodError, match="checkpoint_every=0"):
        fitted("raykar", "em", data, checkpoint=str(tmp_path / "new"), checkpoint_every=0)


def test_what_cannot_be_a_checkpoint_is_refused_before_anything_is_learned(tmp_path: Path) -> None:
    data, _ = clouds(60, 40)
    (tmp_path / "file").write_text("no folder")
    for wrong in (3, "", tmp_path):
        with pytest.raises(MethodError, match="path of a file"):
            fitted("raykar", "em", data, checkpoint=wrong)
    with pytest.raises(ResultError, match="another path"):
        fitted("raykar", "em", data, checkpoint=tmp_path / "file" / "below")
    fitted("raykar", "em", data, checkpoint=tmp_path / "new" / "folder" / "file")
    assert [path.name for path in (tmp_path / "new" / "folder").iterdir()] == ["file"]


def test_a_full_disk_ends_no_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last checkpoint that could be written stands, and a fit goes on from there."""
    name, engine = "raykar", "em"
    data, _ = clouds(60, 40)
    path, saved = tmp_path / "file", []

    def full(arrays: Any, file: Path, about: Any) -> None:
        saved.append(file)
        if len(saved) > 3:
            raise OSError("No space left on device")
        save_file(arrays, file, about)

    whole = fitted(name, engine, data)
    with monkeypatch.context() as patched, pytest.warns(CrowdpplWarning, match="No space left"):
        patched.setattr("safetensors.torch.save_file", full)
        found = fitted(name, engine, data, checkpoint=path, checkpoint_every=1)
    assert len(saved) == TRAINING["epochs"]
    pd.testing.assert_frame_equal(found.probabilities(), whole.probabilities(), check_exact=True)
    calls: list[int] = []
    again = fitted(name, engine, data, checkpoint=path, callback=lambda t, _: calls.append(t))
    assert calls == [3, 4, 5, 6]
    pd.testing.assert_frame_equal(again.probabilities(), whole.probabilities(), check_exact=True)
