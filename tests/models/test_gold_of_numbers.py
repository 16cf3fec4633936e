"""Known truths of a few items differ from what annotators agree on, by errors that all labels of an item share."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

import crowdppl
import crowdppl.primitives as cp
from crowdppl import Annotations

ROWS = [
    ("x", "ann", 1.3),
    ("x", "bob", 2.1),
    ("y", "ann", 0.2),
    ("y", "bob", 1.2),
    ("z", "bob", 2.9),
    ("z", "ann", 2.0),
]


def real(rows: Any, **known: Any) -> Annotations:
    return Annotations.from_frame(pd.DataFrame(rows, columns=["item", "annotator", "label"]), kind="real", **known)


@pytest.mark.parametrize("shared", [1e-9, 0.5])
def test_labels_and_a_known_truth_are_one_gaussian_vector(shared: float) -> None:
    """Exactly where annotators are equally precise."""
    data, (width, m, t, b) = real(ROWS, gold={"x": 0.4}), (0.3, 0.7, 2.0, np.array([0.2, -0.1]))
    level = cp.Level(
        *(torch.tensor([x]).double() for x in (np.log(width), width, width * m, width * m**2)), centre=1.5
    )
    tau, bias = torch.full((2,), t).double(), torch.from_numpy(b)
    errors = cp.Errors(tau.log(), tau, tau * bias, tau * bias**2, tau, tau * bias, tau)
    block = data.as_block()
    found = cp.GaussianLabels(block, errors, level, shared).log_prob(block.numbers)
    place, who = list(data.items[data.order]), list(data.annotators)
    for item, rows in pd.DataFrame(ROWS).groupby(0):
        y = rows[2].to_numpy() - 1.5 - m - b[[who.index(a) for a in rows[1]]]
        noise = [1 / t, 1 / t]
        if item == "x":
            y, noise = np.append(y, 0.4 - 1.5 - m), [*noise, shared / t]
        law = stats.multivariate_normal(np.zeros(len(y)), 1 / width + np.diag(noise))
        assert float(found[place.index(item)]) == pytest.approx(law.logpdf(y), abs=1e-5)


def test_gibbs_has_the_posterior_of_importance_sampling() -> None:
    """Also with the move of all biases against all truths, which known ones accept or not."""
    rng, n, known = np.random.default_rng(0), 200_000, 3.0
    precision, tau = rng.gamma(1, 1.0, n), rng.gamma(2.0, 1 / 0.5, (n, 2))
    mean, bias = rng.normal(size=n) / np.sqrt(0.01 * precision), rng.normal(size=(n, 2)) / np.sqrt(tau)
    log_w, truths = np.zeros(n), []
    for name in "xyz":
        y = np.array([next(row[2] for row in ROWS if row[:2] == (name, who)) for who in ("ann", "bob")]) - 1.5
        p, h = precision + tau.sum(1), precision * mean + (tau * (y - bias)).sum(1)
        c = np.log(precision) - precision * mean**2 + (np.log(tau) - tau * (y - bias) ** 2).sum(1)
        if name == "x":
            q = tau.mean(1) / 0.5
            p, h, c = p + q, h + q * (known - 1.5), c - q * (known - 1.5) ** 2 + np.log(tau).mean(1)
        log_w += (c + h**2 / p - np.log(p)) / 2
        truths.append((1.5 + h / p, 1 / p + 0.5 * 2 / tau.sum(1)))
    w = np.exp(log_w - log_w.max())
    w /= w.sum()
    wanted = np.array([[w @ m, np.sqrt(w @ (v + m**2) - (w @ m) ** 2)] for m, v in truths])
    model, data = crowdppl.method("gaussian_annotators", units=((1.5, 1.0),)), real(ROWS, gold={"x": known})
    found = crowdppl.fit(model, data, inference="gibbs", chains=24, draws=150, warmup=40, seed=0)
    means = found.result.sites["error"].arrays["draws"].mean(1)
    error = means.std(0, ddof=1) / 24**0.5
    assert (np.abs(means.mean(0) - np.stack([w @ bias, w @ tau], -1)) <= 5 * error + 0.03).all()
    table = found.truth()
    np.testing.assert_allclose(table.loc[["y", "z"], ["estimate", "sd"]], wanted[1:], rtol=0.06)
    assert table.loc["x", ["estimate", "sd"]].tolist() == [known, 0.0]


@pytest.mark.parametrize("engine", ["em", "vb", "gibbs"])
@pytest.mark.parametrize("scale", ["linear", "log"])
def test_three_known_truths_with_large_errors_move_the_others_little(engine: str, scale: str) -> None:
    """40 annotators without biases, who err alike on three items."""
    rng, n, a = np.random.default_rng(0), 20, 40
    consensus = rng.normal(0, 2, n)
    labels, far = consensus[:, None] + rng.normal(size=(n, a)), 1.5
    data = Annotations.from_matrix(labels if scale == "linear" else np.exp(labels), kind="real", items=range(n))
    gold = {i: x if scale == "linear" else np.exp(x) for i, x in enumerate(consensus[:3] + far)}
    short = {"chains": 2, "draws": 60, "warmup": 40} if engine == "gibbs" else {}
    how: Any = {"inference": engine, "seed": 0, "settings": {"scale": scale}, **short}
    blind, told = (
        crowdppl.fit("gaussian_annotators", data, gold=known, **how).truth()["estimate"].drop([*gold])
        for known in (None, gold)
    )
    moved = told - blind if scale == "linear" else np.log(told / blind)
    assert 0 < moved.mean() < 0.25 * far  # by .7 of it and more, were these the consensus


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "n"), [("vb", 20), ("vb", 60), ("gibbs", 20)])
def test_intervals_cover_with_three_known_truths(engine: str, n: int) -> None:
    model, held = crowdppl.method("gaussian_annotators", units=((0.0, 1.0),)), []
    short = {"chains": 4, "draws": 60, "warmup": 30} if engine == "gibbs" else {}
    for seed in range(16):
        rng = np.random.default_rng(seed)
        item, who = np.repeat(np.arange(n), 6), np.concatenate([rng.permutation(8)[:6] for _ in range(n)])
        drawn = crowdppl.simulate(model, Annotations.design(item, who, kind="real"), seed=seed)
        found = crowdppl.fit(model, drawn.data, inference=engine, gold=drawn.truth.iloc[:3], seed=0, **short)
        table = found.truth(0.9).iloc[3:]
        held.append(table["low"].le(drawn.truth.iloc[3:]) & table["high"].ge(drawn.truth.iloc[3:]))
    assert 0.87 <= np.mean(held) <= 0.95
