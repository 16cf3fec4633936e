"""What a report says of labels without an allowance for shared errors, and of how many checks settle it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl.inference.result import Correction
from crowdppl.report.allowance import checks
from crowdppl.results.correction import averaged, design_effect
from tests.report.test_report import Read

SAID = (
    "If the {} err independently of one another, {} labels are settled and about {} in 100 of all are right, not {}"
)


def words(posterior: crowdppl.Posterior, path: Path, gold: object = None) -> str:
    return " ".join(Read(posterior.report(path / "r.html", gold).read_text(encoding="utf-8")).text.split())


def test_an_allowance_that_takes_what_is_settled_is_named_with_its_size(tmp_path: Path) -> None:
    crowd = crowdppl.simulate_annotators([0, 1] * 60, {"hammer": 4}, seed=2)
    fit = crowdppl.fit("one_coin", crowd.data, inference="vb", seed=0)
    raw, name = fit.result.probabilities, {"one_coin": 1.0}
    softened = Correction(raw, name, {"one_coin": 0.1}, {}, temperature=3.0, shares=np.full(2, 0.5))
    posterior = crowdppl.Posterior.of(averaged({"one_coin": fit}, softened))
    sure = design_effect(raw, fit.data.votes().sum(1), 0.1).max(1)
    now = posterior.labels()["probability"]
    assert (sure >= 0.95).sum() > 2 * (now >= 0.95).sum()
    text, said = words(posterior, tmp_path), (round(100 * sure.mean()), round(100 * now.mean()))
    assert f"{SAID.format('people', (sure >= 0.95).sum(), *said)}; the labels are the same." in text
    assert f"Checking about {min(checks(now.mean(), sure.mean()), 120)} random items would tell" in text
    told = words(posterior, tmp_path, crowd.truth)
    assert "The 120 items that were checked tell how far to trust either" in told
    for plain in (fit, crowdppl.Posterior.of(averaged({"one_coin": fit}, replace(softened, temperature=None)))):
        assert "independently" not in words(plain, tmp_path)


def test_a_panel_of_models_is_told_beside_independent_ones(tmp_path: Path) -> None:
    crowd = crowdppl.simulate_annotators([0, 1] * 60, {"hammer": 4}, seed=2)
    posterior = crowdppl.fit("auto", crowd.data, models=True, seed=0)
    p = posterior.members()["bayesian_dawid_skene"].result.probabilities.max(1)
    assert "because models may be misled alike" in words(posterior, tmp_path)
    said = round(100 * posterior.labels()["probability"].mean())
    assert SAID.format("models", (p >= 0.95).sum(), round(100 * p.mean()), said) in words(posterior, tmp_path)


def test_what_was_checked_is_held_against_what_was_expected(tmp_path: Path) -> None:
    crowd = crowdppl.simulate_annotators([0, 1] * 60, {"hammer": 4}, seed=2)
    posterior = crowdppl.fit("one_coin", crowd.data, inference="vb", seed=0)
    label, expected = posterior.labels()["label"], float((1 - posterior.labels()["probability"]).sum())
    as_said, more = (label.where(np.arange(120) >= n, 1 - label) for n in (round(expected), round(expected) + 30))
    assert "What was checked has no more errors than were expected" in words(posterior, tmp_path, as_said)
    text = words(posterior, tmp_path, more)
    assert f"{round(expected) + 30} of 120 items are wrong, against about {round(expected)} expected" in text
    assert "no more errors" not in text
    assert "than this report expects" not in words(posterior, tmp_path, more[:9])  # too few tell nothing


@pytest.mark.parametrize(("said", "alone"), [(0.79, 0.86), (0.93, 0.96)])
def test_so_many_checks_tell_one_share_from_another_in_nine_of_ten_cases(said: float, alone: float) -> None:
    n, stream = checks(said, alone), np.random.default_rng(0)
    line = alone - 1.645 * np.sqrt(alone * (1 - alone) / n)
    assert (stream.binomial(n, said, 20_000) / n < line).mean() == pytest.approx(0.9, abs=0.04)
    assert (stream.binomial(n, alone, 20_000) / n < line).mean() == pytest.approx(0.05, abs=0.03)


def test_models_that_err_alike_are_told_from_those_that_are_good(tmp_path: Path) -> None:
    rng, rows = np.random.default_rng(0), []
    truth, named = rng.integers(0, 2, 240), dict[str, np.ndarray]()
    for name, right in {"ann": 0.93, "bob": 0.88, "cem": 0.8, "dee": 0.75}.items():
        named[name] = np.where(rng.random(240) < right, truth, 1 - truth)
    named["twin of dee"] = np.where(rng.random(240) < 0.8, named["dee"], 1 - truth)
    rows = [(n, name, "ab"[k]) for name, said in named.items() for n, k in enumerate(said)]
    data = crowdppl.Annotations.from_frame(pd.DataFrame(rows, columns=["item", "annotator", "label"]))
    text = words(crowdppl.fit("auto", data, models=True, seed=0), tmp_path)
    assert "dee and twin of dee" in text or "twin of dee and dee" in text
    assert "ann and bob" not in text and "bob and ann" not in text
