"""What is computed on demand is the same whenever it is asked for, and not computed before."""

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import crowdppl
from crowdppl.inference import assembly
from crowdppl.inference.fit import fit_one
from crowdppl.inference.options import Options
from crowdppl.inference.problem import Problem
from crowdppl.inference.vb import engine
from crowdppl.posterior import Posterior
from tests.crowd import crowd

DATA = crowd(20, 6, 3, 5, seed=3)
ASKED = {
    "annotators": lambda p: p.annotators().to_numpy(float, na_value=np.nan),
    "confusion": lambda p: p.confusion().to_numpy(),
    "probabilities": lambda p: p.probabilities(sd=True).to_numpy(float),
    "entropies": lambda p: np.zeros(0) if p.result.entropies is None else p.result.entropies,
    "prevalence": lambda p: p.prevalence().to_numpy(float),
}


def fitted(method: str, inference: str = "vb", **options: Any) -> Posterior:
    return crowdppl.fit(method, DATA, inference=inference, seed=4, **options)


@pytest.mark.parametrize(
    ("method", "inference"),
    [
        ("dawid_skene", "em"),
        ("bayesian_dawid_skene", "vb"),
        pytest.param("hierarchical_dawid_skene", "vb", marks=pytest.mark.slow),
    ],
)
def test_answers_do_not_depend_on_when_they_are_asked_for(method: str, inference: str, tmp_path: Path) -> None:
    first = fitted(method, inference)
    early = {name: ask(first) for name, ask in ASKED.items()}
    late = fitted(method, inference)
    late.save(tmp_path / "result")
    crowdppl.fit("mace", DATA, inference="vb", seed=9)  # another fit in between
    torch.rand(7)
    state = torch.random.get_rng_state()
    for name, ask in reversed(ASKED.items()):
        np.testing.assert_array_equal(ask(late), early[name])
    assert torch.equal(state, torch.random.get_rng_state())
    loaded = crowdppl.load(tmp_path / "result")
    for name, ask in ASKED.items():
        np.testing.assert_array_equal(ask(loaded), early[name])


def never(*_: Any, **__: Any) -> Any:
    raise AssertionError("computed")


@pytest.mark.slow
def test_auto_computes_nothing_for_its_members_that_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("widths", "truth_over", "draw_tables"):
        monkeypatch.setattr(engine, name, never)
    posterior = crowdppl.fit("auto", DATA, seed=4)
    assert len(posterior.labels()) == DATA.n_items
    with pytest.raises(AssertionError, match="computed"):
        posterior.annotators()


def test_what_is_not_asked_for_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("widths", "truth_over"):
        monkeypatch.setattr(engine, name, never)
    for posterior in (fitted("bayesian_dawid_skene"), fitted("one_coin", calibrate=True)):
        assert len(posterior.probabilities()) == DATA.n_items
        assert posterior.confusion().shape == (DATA.n_annotators, DATA.n_classes, DATA.n_answers)
        with pytest.raises(AssertionError, match="computed"):
            posterior.annotators()
    for name in ("tables_at", "tables_read"):
        monkeypatch.setattr(assembly, name, never)
    for inference in ("em", "vb"):  # without the doubts, which ask for tables
        found = fit_one(crowdppl.method("one_coin"), DATA, inference, Options()).result
        assert len(found.probabilities) == DATA.n_items
        with pytest.raises(AssertionError, match="computed"):
            _ = found.table


@pytest.mark.parametrize("dtype", [None, pytest.param(torch.float32, marks=pytest.mark.slow)])
@pytest.mark.parametrize("updated", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_files_lack_draws_that_were_not_asked_for(
    updated: bool, dtype: torch.dtype | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """But where the fit had a precision of its own, which files do not tell."""
    posterior = fitted("item_difficulty", dtype=dtype, max_iterations=5)
    posterior = posterior.update(DATA.frame()[::2], dtype=dtype) if updated else posterior
    posterior.confusion()
    if dtype is None:
        for name in ("truth_over", "draw_tables"):
            monkeypatch.setattr(engine, name, lambda *_: pytest.fail("computed"))
    posterior.save(tmp_path / "result")
    crowdppl.load(tmp_path / "result").save(tmp_path / "again")
    loaded = crowdppl.load(tmp_path / "again")
    monkeypatch.undo()
    for name in ("table_draws", "prevalence_draws", "probability_sd", "entropies"):
        np.testing.assert_array_equal(getattr(loaded.result, name), getattr(posterior.result, name))


def test_updates_keep_no_earlier_data() -> None:
    posterior, problems = fitted("one_coin"), []
    for n in range(2):
        rows = DATA.frame()
        posterior = posterior.update(rows.assign(item=rows["item"] + 1000 * (n + 1)))
        gc.collect()
        problems.append(sum(type(x) is Problem for x in gc.get_objects()))
    assert problems[0] == problems[1]
